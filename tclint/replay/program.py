"""The slice of a kernel that a replay executes: what synchronises, and everything that decides it.

The slice starts from the events of the model (arrivals, waits, barriers, copies, matrix operations, commits) and the
outermost accesses to memory between two of them. It adds backwards what their operands, guards and controlling
branches are computed from. Everything here is a function of the kernel, so the replays of all launches share it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from functools import cached_property

from tclint.analyses.mbarriers import RESPONSE
from tclint.analyses.model import KernelModel
from tclint.analyses.tensor_memory import TensorMemory
from tclint.ir.nodes import Memory, Operand, registers
from tclint.isa.effects import (
    BARRIERS,
    BULK,
    GENERIC_COPIES,
    GROUPED,
    TCGEN05,
    TCGEN05_LD,
    TENSOR_MEMORY,
    TRANSACTIONS,
    Barrier,
    Effects,
    Fence,
    Order,
    Query,
    Resource,
)
from tclint.isa.forms import Match
from tclint.replay.dispatch import Dispatch
from tclint.replay.launch_inputs import LaunchInputs
from tclint.replay.launch_operands import LaunchOperands
from tclint.replay.loops import Loops
from tclint.replay.plans import Plans
from tclint.replay.shared_accesses import SharedAccesses
from tclint.replay.shared_stores import SharedStores
from tclint.replay.steps import (
    FOLLOWED,
    ReplayStep,
    Sync,
    bits_of,
    defining_step,
    of_shared,
    registers_needed,
    sync_of,
)
from tclint.values.nodes import Allocated

__all__ = ["ReplaySlice", "relaxes"]

_ALONE = tuple(engine for engine in GROUPED if not engine.words.scope)
"""The engines of which each thread commits and waits by itself."""
_OPERATIONS = (Sync.BEGIN, Sync.COMMIT, Sync.WAIT)
_ENGINES = frozenset((TRANSACTIONS, TCGEN05, *GROUPED))
"""The engines whose operations are in the slice; those of ``cp.async`` are accesses to memory there."""
_TENSOR = TENSOR_MEMORY
_UNKNOWN = ("unknown", "read")
"""What leaves the destinations of a step unknown."""


class ReplaySlice:
    """The slice of one kernel, and what its parts depend on."""

    def __init__(self, model: KernelModel, *, indexed: bool = False) -> None:
        self.model = model
        self.indexed = indexed
        """Whether the addresses of loads from global memory are in the slice, so that each element has a value of its own."""
        self.instructions = model.function.instructions
        self.shared_stores = model.fact(SharedStores)
        self.clustered = any(
            use.match is not None and _between_ctas(use.match) for use in model.function.uses
        )
        """Whether the kernel may be made for clusters of several CTAs."""
        self.has_mbarriers = bool(model.sites(Resource.MBARRIER_INIT))
        """Whether threads synchronise by mbarriers. Without them they do by barriers, and static analysis compares most of
        the accesses between these.
        """
        self.follows_memory = self.has_mbarriers or (
            bool(model.shared.writers) and model.function.threads is None
        )
        """Whether accesses to memory are in the slice."""
        self.relaxed = relaxes(model)
        """Whether fences matter."""
        self.columns = self._columns()
        """The least number of columns of tensor memory that an operand of a matrix operation, a load or a store covers."""
        self.warps = 4 if model.begins(_TENSOR[1]) else 1
        """How many quarters of tensor memory to distinguish: what threads store is in the lanes of their warp only
        (9.7.16.8.1).
        """
        self._steps: dict[int, ReplayStep] = {}
        self._sliced: set[int] = set()
        self._reached: set[int] = set()
        self.branching: set[int] = set()
        """Blocks whose branch is executed."""
        self.overwritten: dict[int, set[int]] = {}
        """The loads from shared memory that may read what an instruction writes, by that instruction."""
        self._slice_kernel()
        self.sliced_registers = frozenset(self._sliced)
        """The registers whose values are in the slice."""
        self.synchronising = self._synchronising()
        """Blocks in which threads synchronise."""
        self.inputs = LaunchInputs(model, self.shared_stores)
        self.loops = Loops(model, self.inputs, self.branching)
        self.dispatch = Dispatch(model, self.inputs, self._separating())
        self.operands = LaunchOperands(model, self.inputs, self.loops)
        self.accesses = SharedAccesses(model, self.loops, self.dispatch)
        self.plans = Plans(model, self._blocks())

    # ------------------------------------------------------------ the slice

    def _slice_kernel(self) -> None:
        """Finds the steps of the slice."""
        self._slice(self._events())
        if self.follows_memory:
            self._slice(self._plain_accesses("read"))
            self._slice(self._tensor_accesses())
        self._slice_stores()
        if self.follows_memory:
            # Beside mbarriers, a block without other steps is not executed for the sake of plain stores or copies.
            writes = (*self._plain_accesses("write"), *self._copies_of_threads())
            block_of, reached = self.model.cfg.block_of, None if not self.has_mbarriers else self._reached
            self._slice([s for s in writes if reached is None or block_of[s.site] in reached])

    def _slice(self, roots: Iterable[ReplayStep]) -> None:
        """Adds steps to the slice, with what decides whether they are executed and what their operands are computed
        from.
        """
        self._work: list[int] = []
        for step in roots:
            known = self._steps.get(step.site)
            if known is None or (step.what == "read" and known.what == "unknown"):
                self._steps[step.site] = step
                self._work += registers_needed(step)
                self._reach(self.model.cfg.block_of[step.site])
        while self._work:
            register = self._work.pop()
            if register in self._sliced:
                continue
            self._sliced.add(register)
            for site in self.model.values.defs.get(register, ()):
                known = self._steps.get(site)
                if known is None or known.what == "read":
                    made = self._defining_step(site)
                    if known is None or made.what != "unknown":  # an access leaves its result unknown, too
                        self._steps[site] = known = made
                    self._reach(self.model.cfg.block_of[site])
                self._work += registers_needed(known)

    def _reach(self, block: int) -> None:
        if block in self._reached:
            return
        self._reached.add(block)
        cfg = self.model.cfg
        for edge in cfg.control_dependences(block):
            if edge.source not in self.branching:
                self.branching.add(edge.source)
                last = self.instructions[cfg.blocks[edge.source].end - 1]
                self._work += last.reads if last.guard < 0 else (*last.reads, last.guard)
                self._reach(edge.source)

    def _defining_step(self, site: int) -> ReplayStep:
        """The step that defines the destinations of an instruction."""
        step = defining_step(self.model, site)
        if self._loads_stored_value(step) and not self.shared_stores.values_known(site):
            return step._replace(what="unknown")
        match = step.instruction.match
        if self.indexed and step.what == "load" and match is not None and match.space.startswith(".global"):
            return step._replace(what="element")
        return step

    def _slice_stores(self) -> None:
        """Adds the stores that loads in the slice may read, and what those store, and so on."""
        seen = set[int]()
        while left := {i for i, step in self._steps.items() if self._loads_stored_value(step)} - seen:
            seen |= left
            for load in left:
                for site in self.shared_stores.writers(load):
                    self.overwritten.setdefault(site, set()).add(load)
            stores = filter(self.shared_stores.is_plain, sorted(self.overwritten))
            self._slice([ReplayStep(i, "store", self.instructions[i]) for i in stores])

    def _loads_stored_value(self, step: ReplayStep) -> bool:
        """Whether a step loads what the kernel has stored to shared memory.

        The address of tensor memory is stored by its allocation, and a response of 128 bits by its request: neither
        counts.
        """
        if step.what != "load" or not of_shared(step.instruction):
            return False
        values = self.model.values
        return any(
            bits_of(self.model, register) != RESPONSE * 8
            and type(values.node(values.after(register, step.site))) is not Allocated
            for register in step.instruction.writes
        )

    # ------------------------------------------------------------ its roots

    def _events(self) -> Iterable[ReplayStep]:
        model = self.model
        for site in model.events:
            instruction = self.instructions[site]
            effects, what = instruction.effects, sync_of(instruction.effects)
            if not self.follows_memory and effects.barrier not in BARRIERS:
                continue
            fences = instruction.fence_order(shared=True) is not Order.WEAK
            if what is Fence.MEMORY and not (self.relaxed and fences):
                continue  # it orders nothing that is not ordered anyway
            if effects.fence in (Fence.TCGEN05_BEFORE, Fence.TCGEN05_AFTER) and self.relaxed:
                # With a relaxed arrival and wait it orders tensor memory (9.7.16.6.4.4). Here it is taken to order
                # shared memory too, which hides a race rather than reporting one that there is not.
                yield ReplayStep(site, Fence.MEMORY, instruction)
            if what in FOLLOWED and _sliced(effects):
                yield ReplayStep(site, what, instruction)

    def _plain_accesses(self, verb: str) -> Iterable[ReplayStep]:
        """Plain reads or writes of shared memory: of those with one base between two events, the first and the last
        by address.
        """
        return self._extreme_offsets(
            verb,
            (
                (site, self.instructions[site].named(match.form.memory[0][1]))
                for site, match in self.model.shared.sites.items()
                if match.form.memory
                and match.form.memory[0][0] == verb
                and match.form.event == ""
                and any(map(self.shared_stores.is_shared, self.model.shared.accesses(site)))
            ),
        )

    def _copies_of_threads(self) -> Iterable[ReplayStep]:
        """Non-bulk copies into shared memory, which each thread makes for itself."""
        copies = [i for engine in GENERIC_COPIES for i in self.model.begins(engine)]
        return self._extreme_offsets("fill", ((i, self.instructions[i].role("destination")) for i in copies))

    def _extreme_offsets(
        self, what: str, accesses: Iterable[tuple[int, Operand | None]]
    ) -> Iterable[ReplayStep]:
        found: dict[tuple[int, int, Operand], list[tuple[int, int]]] = {}
        synchronising = sorted(i for i, step in self._steps.items() if step.what in FOLLOWED)
        for site, operand in accesses:
            block = self.model.cfg.block_of[site]
            if isinstance(operand, Memory) and block in self.model.cfg.rank:
                key = block, bisect_left(synchronising, site), operand.base
                found.setdefault(key, []).append((operand.offset, site))
        for sites in found.values():
            for site in {min(sites)[1], max(sites)[1]}:
                yield ReplayStep(site, what, self.instructions[site])

    def _columns(self) -> dict[tuple[int, str], int]:
        model = self.model
        if not model.begins(TCGEN05_LD):
            return {}
        tmem = model.fact(TensorMemory)
        found = {(i, "taddr"): tmem.range(i, "taddr") for g in _TENSOR for i in model.begins(g)}
        for i in model.begins(TCGEN05):
            # With .ws, the matrices are in the lanes of one warp or two.
            match = model.instruction(i).match
            if match is not None and match.multiplies and not match.modes.weight_stationary:
                found |= {(i, role): tmem.range(i, role) for role in ("d", "a")}
        return {key: columns.columns for key, columns in found.items() if columns is not None}

    def _tensor_accesses(self) -> Iterable[ReplayStep]:
        """Stores of tensor memory, and of the loads the first and the last by address."""
        if all(role == "taddr" for _, role in self.columns):
            return
        loads, stores = (self.model.begins(group) for group in _TENSOR)
        yield from self._extreme_offsets("tensor", ((i, self.instructions[i].role("taddr")) for i in loads))
        yield from (ReplayStep(i, "tensor", self.instructions[i]) for i in stores)

    # ------------------------------------------------------------ what is in it

    def _synchronising(self) -> frozenset[int]:
        block_of = self.model.cfg.block_of
        return frozenset(
            block_of[step.site]
            for step in self._steps.values()
            if step.what in FOLLOWED and not (step.what in _OPERATIONS and step.instruction.group in _ALONE)
        ).intersection(self.model.cfg.rank)

    def _separating(self) -> frozenset[int]:
        """Blocks in which it matters which threads synchronise.

        It does not where they only initialise mbarriers, as long as some do.
        """
        block_of = self.model.cfg.block_of
        inits = {block_of[i] for i in self.model.sites(Resource.MBARRIER_INIT)}
        others = {
            block_of[i] for i, step in self._steps.items() if step.what in FOLLOWED - {Resource.MBARRIER_INIT}
        }
        return self.synchronising - (inits - others)

    def _blocks(self) -> list[list[ReplayStep]]:
        """The steps of each block, without computations of what is never known."""
        block_of = self.model.cfg.block_of
        blocks: list[list[ReplayStep]] = [[] for _ in self.model.cfg.blocks]
        unknown = self._unknown()
        for site in sorted(self._steps):
            step = self._steps[site]
            if step.what not in ("compute", "unknown") or not unknown.issuperset(step.instruction.writes):
                blocks[block_of[site]].append(step)
        return blocks

    def _unknown(self) -> set[int]:
        """Registers that are never known: each definition is unknown, or is computed from such a register."""
        found, users = set[int](), dict[int, list[int]]()
        for site, step in self._steps.items():
            if step.what == "compute":
                for register in step.instruction.reads:
                    users.setdefault(register, []).append(site)
        work = [step for step in self._steps.values() if step.what in _UNKNOWN]
        while work:
            for register in work.pop().instruction.writes:
                if register not in found and all(
                    site in self._steps and self._gives_unknown(self._steps[site], found)
                    for site in self.model.values.defs.get(register, ())
                ):
                    found.add(register)
                    work += [self._steps[site] for site in users.get(register, ())]
        return found

    def _gives_unknown(self, step: ReplayStep, unknown: AbstractSet[int]) -> bool:
        """Whether the result of a step is unknown if so many registers are *unknown*."""
        if step.what != "compute":
            return step.what in _UNKNOWN
        match = step.instruction.match
        either = match is not None and match.modes.of_predicates  # one of the two predicates may decide alone
        return not either and not unknown.isdisjoint(step.instruction.reads)

    @cached_property
    def memory_loads(self) -> list[int]:
        """The loads from global memory in the slice."""
        return [
            site
            for site, step in self._steps.items()
            if step.what == "load"
            and step.instruction.match
            and step.instruction.match.space.startswith(".global")
        ]

    @property
    def reads_memory(self) -> bool:
        """Whether the slice loads from global memory."""
        return bool(self.memory_loads)

    @cached_property
    def atomic_counters(self) -> frozenset[int]:
        """Atomic increments of counters in global memory, which hand out turns or tiles."""
        values = self.model.values
        return frozenset(
            site
            for site, step in self._steps.items()
            if step.what == "load"
            and (match := step.instruction.match) is not None
            and match.form.name == "atom"
            and match.binding["op"] == ".add"
            and match.space.startswith(".global")
            and values.constant_operand(step.instruction.operands[2], site) == 1
        )

    @cached_property
    def map_loads(self) -> frozenset[int]:
        """The loads of parameters that only give the addresses of tensor maps, if all of these come from such loads.

        A replay does not know the bytes of a copy through a map, only that they are the same through equal maps. Empty for
        a recorded launch, in which they are known.
        """
        maps, others = set[int](), set[int]()
        for step in self._steps.values():
            instruction = step.instruction
            others.add(instruction.guard)
            tensor_map = instruction.role("tensormap") if step.what is Sync.BEGIN else None
            if tensor_map is None or instruction.group == BULK:
                others.update(instruction.reads)
                continue
            if (
                not isinstance(tensor_map, Memory)
                or not isinstance(tensor_map.base, int)
                or tensor_map.offset
            ):
                return frozenset()
            maps.add(tensor_map.base)
            for operand in (*instruction.operands, *tensor_map.extras):
                others.update(() if operand is tensor_map else registers(operand))
        for block in self.branching:
            last = self.instructions[self.model.cfg.blocks[block].end - 1]
            others.update((*last.reads, last.guard))
        sites = frozenset(site for register in maps for site in self.model.values.defs.get(register, ()))
        return (
            sites
            if self.model.recorded is None
            and maps.isdisjoint(others)
            and all(map(self._loads_parameter, sites))
            else frozenset()
        )

    def _loads_parameter(self, site: int) -> bool:
        """Whether a step of the slice loads one word or two of a parameter."""
        step = self._steps[site]
        match, writes = step.instruction.match, step.instruction.writes
        return (
            step.what == "load"
            and match is not None
            and match.space.startswith(".param")
            and len(writes) == 1
        )

    @cached_property
    def answered(self) -> bool:
        """Whether the responses of ``try_cancel`` are queried, and all of them are loaded from shared memory
        unchanged.
        """
        queries = self.model.sites(Query.CANCELLED)
        found = (self.instructions[i].role("source") for i in queries)
        made = (site for r in found if isinstance(r, int) for site in self.model.values.defs.get(r, (-1,)))
        return bool(queries) and all(
            site in self._steps and self._steps[site].what == "load" and of_shared(self.instructions[site])
            for site in made
        )


def _sliced(effects: Effects) -> bool:
    """Whether what has these effects concerns no engine, or one whose operations are in the slice."""
    engine = effects.begins or effects.commits or effects.waits
    return engine is None or (engine in _ENGINES and effects.begins not in GENERIC_COPIES)


def _between_ctas(match: Match) -> bool:
    """Whether an instruction needs a cluster of several CTAs.

    A remote arrival does not: it may be at an mbarrier of its own CTA.
    """
    if match.multicast or match.of_pair:
        return True
    return match.space == ".shared::cluster" and (bool(match.form.memory) or "remote" in match.form.roles)


def relaxes(model: KernelModel) -> bool:
    """Whether some operation on an mbarrier is relaxed, so that only a fence orders what is around it (9.7.13.15).

    ``mbarrier.complete_tx`` always is.
    """
    sites = (*model.awaits(Barrier.MBARRIER), *model.arrives(Barrier.MBARRIER))
    return bool(model.where(lambda effects: effects.completes)) or any(
        model.instruction(i).order is Order.RELAXED for i in sites
    )
