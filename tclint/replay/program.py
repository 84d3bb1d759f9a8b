"""The slice of a kernel that a replay executes: what synchronises, and everything that decides it.

The slice starts from the events of the model (arrivals, waits, barriers, copies, matrix operations, commits) and the
outermost accesses to memory between two of them. It adds backwards what their operands, guards and controlling
branches are computed from. Everything here is a function of the kernel: the caches are keyed by all that a result
depends on, so the replays of all launches share them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

from tclint.analyses.execution import ExecutionGuarantee
from tclint.analyses.happens_before import HappensBefore, is_release_fence, strong
from tclint.analyses.mbarriers import RESPONSE
from tclint.analyses.model import KernelModel
from tclint.analyses.tcgen05 import TensorMemory
from tclint.ir.nodes import (
    Immediate,
    Instruction,
    Memory,
    Operand,
    Pair,
    Vector,
    registers,
)
from tclint.isa.callees import ASSERTION
from tclint.isa.forms import Match, floating
from tclint.isa.semantics import COMPUTE, bind
from tclint.isa.widths import width_of
from tclint.replay.abstract_lanes import Lanes, Results
from tclint.replay.hypotheses import GRID, MEMORY, LaunchWord
from tclint.replay.launch import in_space
from tclint.replay.replayed import BARRIERS
from tclint.replay.shared_stores import SharedStores
from tclint.values.thread_predicates import UniformityScope

__all__ = ["BULK", "CP_ASYNC", "Program", "Step", "relaxes"]

_ROLES = (
    "mbarrier", "count", "tx", "parity", "state", "id", "mask", "destination", "bytes", "depth", "columns", "tensormap", "d", "a", "enable",
)  # fmt: skip
BULK, CP_ASYNC = _SELF_AWAITED = "bulk", "cp.async"
"""The groups that a thread waits for itself: bulk copies out of shared memory, and non-bulk copies into it."""
_GROUPS: dict[str, tuple[str, ...]] = {
    "issue": ("mbarrier", "wgmma", "tcgen05", BULK),
    "commit": ("wgmma", "tcgen05", BULK, CP_ASYNC),
    "wait": ("wgmma", BULK, CP_ASYNC),
}
"""For these events, the groups that are in the slice."""
_TENSOR = ("tcgen05.ld", "tcgen05.st")
_FOLLOWED = frozenset(
    """issue commit wait clc-request tmem-alloc memory-fence barrier-sync barrier-arrive barrier-wait
    mbarrier-init mbarrier-arrive mbarrier-expect mbarrier-complete mbarrier-wait""".split()
)
"""Events that synchronise. Exchanges between lanes are in the slice where something depends on them."""


class Step(NamedTuple):
    """An instruction to execute.

    *what* is the name of an event, or ``compute``, ``move``, ``load``, ``store`` or ``unknown``.
    """

    site: int
    what: str
    instruction: Instruction
    compute: Callable[..., int] | None = None


class Plan(NamedTuple):
    """What one computing instruction reads and writes."""

    destination: Operand
    sources: list[Operand]
    """The sources that are not constants."""
    results: Results
    """The results by the values of the sources, for all replays."""


class FusedCompute(NamedTuple):
    """An unguarded computation on registers."""

    held: Callable[[Mapping[int, Lanes]], Any]
    """Gets the key of :attr:`results` from the registers."""
    results: Results
    destination: int


class StepBatch(NamedTuple):
    """Steps of a block that are executed together."""

    steps: int
    """How many steps they count as."""
    fused: list[FusedCompute]
    step: Step | None
    """None: there are only computations."""


class Branch(NamedTuple):
    """The last instruction of a block, which decides where threads continue."""

    site: int
    guard: int
    negated: bool
    selector: Operand | None
    """The index into the branch table."""
    taken: dict[int, int]
    """The target of a taken branch by the index; -1: there is none."""
    other: int
    """The target of a branch that is not taken; -1: the thread exits."""


class Comparison(NamedTuple):
    """Two operands of so many bits that are compared."""

    a: Operand
    b: Operand
    bits: int


class Program:
    """The steps of each block, and the branches that matter."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.instructions = model.function.instructions
        self.widths = [width_of(r.type) or 64 for r in model.function.registers]
        self._plans: dict[int, Plan] = {}
        self._batches: dict[int, list[StepBatch]] = {}
        self.shuffles: dict[tuple[object, ...], tuple[Lanes, list[int | None]]] = {}
        """For shuffles: which threads read a lane inside their segment, and the positions of the threads that each
        reads.
        """
        self.divergences: dict[tuple[int, Lanes, Lanes], dict[int, list[int]]] = {}
        """For branches: the positions of the threads that continue at each target, by the block and the values that
        decide.
        """
        self.merged_threads: dict[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], list[list[int]]]] = {}
        """For threads that reconverge: all of them, and the positions of each part."""
        self._steps: dict[int, Step] = {}
        self._sliced: set[int] = set()
        self._reached: set[int] = set()
        self._load_words: dict[int, tuple[Hashable, int]] = {}
        self._buffers: dict[int, int] = {}
        self._pointers: dict[frozenset[int], int] = {}
        self._launch_operands: dict[tuple[int, str], bool] = {}
        self._independent: dict[int, bool] = {}
        self._involving: dict[tuple[int, int], bool] = {}
        self._leaving: dict[int, bool] = {}
        self._arrays: dict[int, tuple[str, int] | None] = {}
        self._launch_tests: dict[int, tuple[int, ...]] = {}
        self._branches: dict[int, Branch] = {}
        self._reconvergence: dict[int, int] = {}
        self.clustered = any(
            use.match is not None and _between_ctas(use.match) for use in model.function.uses
        )
        """Whether the kernel may be made for clusters of several CTAs."""
        self.has_mbarriers = bool(model.sites("mbarrier-init"))
        """Whether threads synchronise by mbarriers. Without them they do by barriers, and static analysis compares most of
        the accesses between these.
        """
        self.follows_memory = self.has_mbarriers or (
            bool(model.shared.writers) and model.function.threads is None
        )
        """Whether accesses to memory are in the slice."""
        self.relaxed = relaxes(model)
        """Whether fences matter."""
        self.branching: set[int] = set()
        """Blocks whose branch is executed."""
        self.shared_stores = model.fact(SharedStores)
        self.columns = self._columns()
        self.warps = 4 if model.sites("issue", _TENSOR[1]) else 1
        """How many quarters of tensor memory to distinguish: what threads store is in the lanes of their warp only
        (9.7.16.8.1).
        """
        self._slice(self._events())
        if self.follows_memory:
            self._slice(self._plain_accesses("read"))
            self._slice(self._tensor_accesses())
        self.overwritten: dict[int, set[int]] = {}
        """The loads from shared memory that may read what an instruction writes, by that instruction."""
        self._slice_stores()
        if self.follows_memory:
            # Beside mbarriers, a block without other steps is not executed for the sake of plain stores or copies.
            writes = (*self._plain_accesses("write"), *self._cp_async_copies())
            reached = None if not self.has_mbarriers else self._reached
            self._slice([s for s in writes if reached is None or model.cfg.block_of[s.site] in reached])
        self.sliced_registers = frozenset(self._sliced)
        block_of = model.cfg.block_of
        self.synchronising = frozenset(
            block_of[step.site]
            for step in self._steps.values()
            if step.what in _FOLLOWED
            and not (step.what in _GROUPS and step.instruction.group in _SELF_AWAITED)
        ).intersection(model.cfg.rank)
        """Blocks in which threads synchronise."""
        self.dispatching = self._dispatching()
        """Blocks whose branch compares a thread index with the launch and decides which threads synchronise, with what they
        compare.
        """
        self.sharing = self._sharing()
        self.blocks: list[list[Step]] = [[] for _ in model.cfg.blocks]
        unknown = self._unknown()
        for site in sorted(self._steps):
            step = self._steps[site]
            if step.what not in ("compute", "unknown") or not unknown.issuperset(step.instruction.writes):
                self.blocks[model.cfg.block_of[site]].append(step)

    def _unknown(self) -> set[int]:
        """Registers that are never known: each definition is unknown, or is computed from such a register."""
        found, users = set[int](), dict[int, list[int]]()
        for site, step in self._steps.items():
            if step.what == "compute":
                for register in step.instruction.reads:
                    users.setdefault(register, []).append(site)
        work = [step for step in self._steps.values() if step.what == "unknown"]
        while work:
            for register in work.pop().instruction.writes:
                if register not in found and all(
                    site in self._steps and self._gives_unknown(self._steps[site], found)
                    for site in self.model.values.defs.get(register, ())
                ):
                    found.add(register)
                    work += [self._steps[site] for site in users.get(register, ())]
        return found

    def _gives_unknown(self, step: Step, unknown: AbstractSet[int]) -> bool:
        """Whether the result of a step is unknown if so many registers are *unknown*."""
        if step.what != "compute":
            return step.what == "unknown"
        match = step.instruction.match
        either = (
            match is not None and ".pred" in match.modifiers
        )  # one of the two predicates may decide alone
        return not either and not unknown.isdisjoint(step.instruction.reads)

    def _events(self) -> Iterable[Step]:
        model = self.model
        for event in model.events:
            instruction = self.instructions[event.site]
            lanes = instruction.match is not None and instruction.match.form.scope == "lanes"
            groups = _GROUPS.get(event.kind, (event.group,))
            if not self.follows_memory and event.kind not in BARRIERS:
                continue
            if event.kind == "memory-fence" and not (
                self.relaxed and is_release_fence(instruction, shared=True)
            ):
                continue  # it orders nothing that is not ordered anyway
            if event.kind in ("tcgen05-fence-before", "tcgen05-fence-after") and self.relaxed:
                # With a relaxed arrival and wait it orders tensor memory (9.7.16.6.4.4). Here it is taken to order
                # shared memory too, which hides a race rather than reporting one that there is not.
                yield Step(event.site, "memory-fence", instruction)
            if event.kind in _FOLLOWED and event.group in groups and not lanes:
                yield Step(event.site, event.kind, instruction)

    def _plain_accesses(self, verb: str) -> Iterable[Step]:
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

    def _cp_async_copies(self) -> Iterable[Step]:
        """Non-bulk copies into shared memory, which each thread makes for itself."""
        copies = self.model.sites("issue", CP_ASYNC)
        return self._extreme_offsets("fill", ((i, self.instructions[i].role("destination")) for i in copies))

    def _extreme_offsets(self, what: str, accesses: Iterable[tuple[int, Operand | None]]) -> Iterable[Step]:
        found: dict[tuple[int, int, Operand], list[tuple[int, int]]] = {}
        synchronising = sorted(i for i, step in self._steps.items() if step.what in _FOLLOWED)
        for site, operand in accesses:
            block = self.model.cfg.block_of[site]
            if isinstance(operand, Memory) and block in self.model.cfg.rank:
                key = block, bisect_left(synchronising, site), operand.base
                found.setdefault(key, []).append((operand.offset, site))
        for sites in found.values():
            for site in {min(sites)[1], max(sites)[1]}:
                yield Step(site, what, self.instructions[site])

    def _columns(self) -> dict[tuple[int, str], int]:
        """The least number of columns of tensor memory that an operand of a matrix operation, a load or a store
        covers.
        """
        model = self.model
        if not model.sites("issue", "tcgen05.ld"):
            return {}
        tmem = model.solution(TensorMemory)[0]
        found = {(i, "taddr"): tmem.range(i, "taddr") for g in _TENSOR for i in model.sites("issue", g)}
        for i in model.sites("issue", "tcgen05"):
            # With .ws, the matrices are in the lanes of one warp or two.
            if model.name(i).startswith("tcgen05.mma") and ".ws" not in model.instruction(i).opcode:
                found |= {(i, role): tmem.range(i, role) for role in ("d", "a")}
        return {key: columns.columns for key, columns in found.items() if columns is not None}

    def _tensor_accesses(self) -> Iterable[Step]:
        """Stores of tensor memory, and of the loads the first and the last by address."""
        if all(role == "taddr" for _, role in self.columns):
            return
        loads, stores = (self.model.sites("issue", group) for group in _TENSOR)
        yield from self._extreme_offsets("tensor", ((i, self.instructions[i].role("taddr")) for i in loads))
        yield from (Step(i, "tensor", self.instructions[i]) for i in stores)

    def _loads_stored_value(self, step: Step) -> bool:
        """Whether a step loads what the kernel has stored to shared memory.

        The address of tensor memory is stored by its allocation, and a response of 128 bits by its request: neither
        counts.
        """
        if step.what != "load" or not _of_shared(step.instruction):
            return False
        values = self.model.values
        return any(
            self.widths[register] != RESPONSE * 8
            and values.node(values.representative(values.after(register, step.site)))[0] != "allocated"
            for register in step.instruction.writes
        )

    @cached_property
    def polls(self) -> bool:
        """Whether threads wait for words of memory."""
        return bool(self.model.fact(HappensBefore).points.spin_loads)

    @cached_property
    def poll_exits(self) -> dict[int, int]:
        """Where threads continue after they have polled memory until another thread writes it, by the block that tests.

        Such a loop has no other effect, and the loaded word alone decides when it ends.
        """
        model, cfg, found = self.model, self.model.cfg, dict[int, int]()
        for load in self.model.fact(HappensBefore).points.spin_loads:
            body = cfg.innermost(cfg.block_of[load])
            if _of_shared(self.instructions[load]) or any(
                self._acts(i) for b in body for i in range(cfg.blocks[b].start, cfg.blocks[b].end)
            ):
                continue
            for block in body:
                leaving = [edge for edge in cfg.successors[block] if edge.target not in body]
                predicate = model.reachability.edge_predicate(leaving[0]) if len(leaving) == 1 else None
                if predicate is not None and any(
                    model.values.node(v)[:2] == ("load", load) for v in model.values.subexpressions(predicate)
                ):
                    found[block] = leaving[0].target
        return found

    def _acts(self, site: int) -> bool:
        """Whether an instruction does more than compute, load and branch."""
        match = self.instructions[site].match
        if match is None or self.instructions[site].flow == "call" or match.form.event:
            return True
        return any(verb != "read" for verb, _ in match.form.memory) and match.form.name != "atom"

    @cached_property
    def reads_memory(self) -> bool:
        """Whether the slice loads from global memory."""
        return any(
            step.what == "load"
            and step.instruction.match
            and step.instruction.match.space.startswith(".global")
            for step in self._steps.values()
        )

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
            and ".add" in match.modifiers
            and match.space.startswith(".global")
            and values.constant_operand(step.instruction.operands[2], site) == 1
        )

    @cached_property
    def answered(self) -> bool:
        """Whether the responses of ``try_cancel`` are queried, and all of them are loaded from shared memory
        unchanged.
        """
        queries = self.model.sites("clc-query")
        found = (self.instructions[i].role("source") for i in queries)
        made = (site for r in found if isinstance(r, int) for site in self.model.values.defs.get(r, (-1,)))
        return bool(queries) and all(
            site in self._steps and self._steps[site].what == "load" and _of_shared(self.instructions[site])
            for site in made
        )

    def _slice_stores(self) -> None:
        """Adds the stores that loads in the slice may read, and what those store, and so on."""
        seen = set[int]()
        while left := {i for i, step in self._steps.items() if self._loads_stored_value(step)} - seen:
            seen |= left
            for load in left:
                for site in self.shared_stores.writers(load):
                    self.overwritten.setdefault(site, set()).add(load)
            stores = filter(self.shared_stores.is_plain, sorted(self.overwritten))
            self._slice([Step(i, "store", self.instructions[i]) for i in stores])

    def _dispatching(self) -> dict[int, list[tuple[int, int]]]:
        cfg, values = self.model.cfg, self.model.values
        # Which threads initialise mbarriers does not matter, as long as some do.
        inits = {cfg.block_of[i] for i in self.model.sites("mbarrier-init")}
        others = {
            cfg.block_of[i] for i, step in self._steps.items() if step.what in _FOLLOWED - {"mbarrier-init"}
        }
        deciding = self.synchronising - (inits - others)
        found = {}
        for block in {edge.source for b in deciding for edge in cfg.control_dependences(b)}:
            last = cfg.blocks[block].end - 1
            guard = self.instructions[last].guard
            if guard >= 0 and (compared := self._compared_by_thread(values.before(guard, last))):
                found[block] = compared
        return found

    def launch_tests(self, block: int) -> tuple[int, ...]:
        """The predicates by which a dispatching branch compares threads with the launch; empty: they are not found.

        It may ask other questions as well: ``lane != 0 || warp >= warps``.
        """
        found = self._launch_tests.get(block)
        if found is None:
            values, tests, seen = self.model.values, set[int](), set[int]()
            work = [self.instructions[self.model.cfg.blocks[block].end - 1].guard]
            while work:
                register = work.pop()
                if register in seen:
                    continue
                seen.add(register)
                site, *others = values.defs.get(register, [-1])
                instruction = self.instructions[site]
                if site < 0 or others or instruction.guard >= 0:
                    return self._launch_tests.setdefault(block, ())
                if instruction.opcode.startswith(("and.pred", "or.pred", "not.pred")):
                    work += instruction.reads
                elif self._compared_by_thread(values.after(register, site)):
                    tests.add(register)
            found = self._launch_tests[block] = tuple(sorted(tests))
        return found

    @cached_property
    def dispatching_words(self) -> frozenset[LaunchWord]:
        """The words of the launch with which dispatching branches compare threads."""
        compared = [
            pair for block in self.dispatching.keys() - self.sharing for pair in self.dispatching[block]
        ]
        return self.words(*(v for pair in compared for v in pair if self._from_launch(v))) - {GRID}

    def _compared_by_thread(self, predicate: int) -> list[tuple[int, int]]:
        """The pairs that a predicate compares of which one depends on a thread index and the other on the launch.

        The predicate may also be loaded as a flag that holds the result of such a comparison.
        """
        values = self.model.values
        parts = list(values.subexpressions(predicate))
        loads = (node[1] for v in parts if (node := values.node(v))[0] == "load")
        stored = (values.node(v) for load in loads for v in self.shared_stores.values(load))
        flags = [s[1] for s in stored if s[0] == "select" and None not in map(values.constant_of, s[2:4])]
        if flags:
            parts = list(values.subexpressions(predicate, *flags))
        pairs = [node[2:4] for v in parts if (node := values.node(v))[0] == "compare"]
        return [pair for pair in pairs if self._involves_launch_and_thread(*pair)]

    def _involves_launch_and_thread(self, one: int, two: int) -> bool:
        """Whether one of two compared values depends on the launch, and one on a thread index."""
        found = self._involving.get((one, two))
        if found is None:
            found = self._from_launch(one, two) and self._from_thread_index(one, two)
            self._involving[one, two] = found
        return found

    def _from_thread_index(self, *made: int) -> bool:
        """Whether values are computed from the index of a thread in its CTA."""
        values = self.model.values
        return any(values.node(v)[1:2] in _THREAD_INDICES for v in values.subexpressions(*made))

    def _sharing(self) -> frozenset[int]:
        """Dispatching blocks that only test whether a warp has iterations left, of a loop whose iterations warps
        share.

        The counter of each warp starts at a value of its own and advances by a constant, up to a bound from the
        launch. The same test may guard the loop.
        """
        found, ends = set[int](), set[tuple[int, int]]()
        for block, compared in self.dispatching.items():
            counts_known = [self._warp_counter(block, *both) for both in compared]
            if None not in counts_known:
                found.add(block)
                ends.update(end for end in counts_known if end is not None)
        find = self.model.values.representative
        begun = ends.union((b, a) for a, b in ends)
        return frozenset(found).union(
            block
            for block, compared in self.dispatching.items()
            if all((find(a), find(b)) in begun for a, b in compared)
        )

    def _warp_counter(self, block: int, a: int, b: int) -> tuple[int, int] | None:
        """The start and the bound of the counter of a warp in a loop that ends where *a* and *b* are compared; None:
        it is another kind of loop.
        """
        cfg, values = self.model.cfg, self.model.values
        for counter, bound in ((a, b), (b, a)):
            terms, _ = values.linear(counter)
            value = terms[0][0] if len(terms) == 1 and terms[0][1] == 1 else counter
            start, stride, modulus = values.induction(value) or (counter, 0, None)
            body = cfg.loops.get(values.node(value)[1], ()) if stride and modulus is None else ()
            ends = block in body and any(edge.target not in body for edge in cfg.successors[block])
            mine = values.uniformity(start) <= UniformityScope.WARP and not self._from_launch(start)
            if ends and mine and not self._from_thread_index(bound):
                return values.representative(start), values.representative(bound)
        return None

    def _from_launch(self, *made: int) -> bool:
        """Whether values are computed from the launch: from parameters, or from the contents of global memory.

        Or they are loaded from shared memory where such a value was stored. A value that the launch only selects by a
        condition does not count: each choice is one of a real launch.
        """
        values, seen, left = self.model.values, set[int](), list(made)
        while left:
            nodes = map(
                values.node, values.subexpressions(*left, until=lambda v: values.node(v)[0] in _CONDITIONS)
            )
            left = []
            for kind, *rest in nodes:
                if kind == "parameter" or (kind == "load" and not rest[1].startswith(".shared")):
                    return True
                if kind == "load" and rest[0] not in seen:
                    seen.add(rest[0])
                    left += self.shared_stores.values(rest[0])
        return False

    def launch_independent(self, site: int) -> bool:
        """Whether neither the launch nor memory decides the shared memory that an access covers."""
        if site not in self._independent:
            values, model = self.model.values, self.model
            where = [access.address for access in model.shared.accesses(site)]
            if (size := model.value(site, "bytes")) is not None:
                where.append(size)
            made = map(values.node, values.subexpressions(*where))
            self._independent[site] = not any(node[0] in ("parameter", "load", "unknown") for node in made)
        return self._independent[site]

    def is_strong(self, site: int) -> bool:
        """Whether an access is strong, so that threads may synchronise by it (8.6)."""
        match = self.instructions[site].match
        return match is not None and bool(strong(match))

    def indexed_by_memory(self, site: int) -> bool:
        """Whether what global memory holds decides the shared memory that an access covers."""
        values = self.model.values
        made = values.subexpressions(*(access.address for access in self.model.shared.accesses(site)))
        return any(
            n[0] == "load" and not n[2].startswith((".shared", ".param")) for n in map(values.node, made)
        )

    def threads_known(self, site: int) -> bool:
        """Whether neither the launch nor memory selects the threads that execute an instruction.

        A bound from the launch may admit a single one. Those that static analysis accepts count as known.
        """
        cfg, values, seen = self.model.cfg, self.model.values, set[int]()
        if self.model.fact(ExecutionGuarantee).certainly(site):
            return True
        work = [cfg.block_of[site]]
        while work:
            for edge in cfg.control_dependences(work.pop()):
                if edge.source not in seen:
                    seen.add(edge.source)
                    work.append(edge.source)
                    last = cfg.blocks[edge.source].end - 1
                    if edge.predicate < 0 or self._compared_by_thread(values.before(edge.predicate, last)):
                        return False
        return True

    def uses_result(self, site: int) -> bool:
        """Whether what an instruction reads reaches memory, an event or a branch on every path.

        A loop may read ahead for an iteration that it does not execute. Only as far as one path leads on is looked at.
        """
        cfg, derived = self.model.cfg, set(self.instructions[site].writes)
        block, start, passed = cfg.block_of[site], site + 1, set[int]()
        while derived and block not in passed:
            passed.add(block)
            for i in range(start, cfg.blocks[block].end):
                instruction = self.instructions[i]
                reads = not derived.isdisjoint(instruction.reads) or instruction.guard in derived
                form = None if instruction.match is None else instruction.match.form
                if reads and (form is None or form.memory or form.event or instruction.flow):
                    return True
                derived = (
                    derived.union(instruction.writes) if reads else derived.difference(instruction.writes)
                )
            edges = cfg.successors[block]
            if len(edges) != 1:
                return False
            block = edges[0].target
            start = cfg.blocks[block].start
        return False

    def array(self, site: int) -> tuple[str, int] | None:
        """The variable of shared memory that an access is in, and its size, if threads choose the bytes by their index alone.

        None: there is no such variable, the launch decides its size or the bytes, or a loop does.
        """
        if site not in self._arrays:
            self._arrays[site] = self._indexed_by_thread(site) if self.launch_independent(site) else None
        return self._arrays[site]

    def _indexed_by_thread(self, site: int) -> tuple[str, int] | None:
        values, accesses = self.model.values, self.model.shared.accesses(site)
        if len(accesses) != 1:
            return None
        address = accesses[0].address
        symbols = [
            t for t, factor in values.linear(address)[0] if factor == 1 and values.node(t)[0] == "symbol"
        ]
        if len(symbols) != 1 or any(values.node(v)[0] == "phi" for v in values.subexpressions(address)):
            return None
        size = self.model.size(symbols[0])
        return (values.node(symbols[0])[1], size) if size else None

    def leaves_array(self, site: int) -> bool:
        """Whether each iteration of a loop whose trip count the launch decides moves the address of an access.

        Only that count, which a replay makes up, keeps the address in its array.
        """
        if site not in self._leaving:
            values, cfg = self.model.values, self.model.cfg
            terms = {t for a in self.model.shared.accesses(site) for t, _ in values.linear(a.address)[0]}
            heads = {values.node(t)[1] for t in terms if values.steps(t)}
            self._leaving[site] = any(self.bounds.get(head) for head in heads if head in cfg.loops)
        return self._leaving[site]

    @property
    def counts_known(self) -> bool:
        """Whether no launch decides the count of an mbarrier or a barrier."""
        model = self.model
        sites = [i for kind in _COUNTING for i in model.sites(kind)]
        counts = [value for i in sites if (value := model.value(i, "count")) is not None]
        return not any(map(self._from_launch, counts))

    @property
    def phases_known(self) -> bool:
        """Whether no launch decides a parity that is waited for, other than by the trip count of a loop."""
        values = {i: self.model.value(i, "parity") for i in self.model.sites("mbarrier-wait")}
        depends_on_launch = [
            v for i, v in values.items() if v is not None and self.depends_on_launch(i, "parity")
        ]
        return frozenset().union(*self.bounds.values()).issuperset(self.words(*depends_on_launch))

    # ------------------------------------------------------------ what depends on the launch

    def depends_on_launch(self, site: int, role: str) -> bool:
        """Whether the launch decides an operand. Two such values need not go together in any real launch."""
        key = site, role
        if key not in self._launch_operands:
            value = self.model.value(site, role)
            self._launch_operands[key] = value is not None and self._from_launch(value)
        return self._launch_operands[key]

    def makes_up_bytes(self, site: int, role: str) -> bool:
        """Whether the launch decides the bytes of a copy or an expect_tx, and no sum of the kernel relates the two."""
        if not self.depends_on_launch(site, role):
            return False
        value = self.model.value(site, role)
        related = self._related_bytes
        return value is None or not related.issuperset(self._summands(value, related))

    @cached_property
    def _related_bytes(self) -> frozenset[int]:
        """The values that copies state as their bytes and of which the sums are composed that are expected.

        A copy in a loop of its own, of which the launch decides how often it iterates, states none.
        """
        model, cfg = self.model, self.model.cfg
        expecting = [*model.sites("mbarrier-expect"), *model.sites("mbarrier-arrive")]
        around = set(cfg.loops).intersection(*(cfg.enclosing_loops(cfg.block_of[i]) for i in expecting))
        stated = set[int]()
        for copy in model.sites("issue", "mbarrier"):
            loops = set(cfg.enclosing_loops(cfg.block_of[copy])) - around
            if (size := model.value(copy, "bytes")) is not None and not any(map(self.bounds.get, loops)):
                stated.update(model.values.representative(t) for t, _ in model.values.linear(size)[0])
        sums = [
            self._summands(value, stated) for i in expecting if (value := model.value(i, "tx")) is not None
        ]
        return frozenset().union(*(terms for terms in sums if terms <= stated))

    def _summands(self, value: int, known: Collection[int]) -> set[int]:
        """The terms of a sum; in place of a term that is not *known* and chooses among values, the terms of these."""
        values, found, seen, work = self.model.values, set[int](), set[int](), [value]
        while work:
            for term in {values.representative(t) for t, _ in values.linear(work.pop())[0]} - seen:
                seen.add(term)
                kind, *rest = values.node(term)
                chosen = values.arguments(term) if kind == "phi" else rest[1:] if kind == "select" else ()
                if chosen and term not in known:
                    work += chosen
                else:
                    found.add(term)
        return found

    def word(self, step: Step) -> tuple[Hashable, int]:
        """What a step loads of the launch: a base, and an offset in bytes."""
        if step.site not in self._load_words:
            instruction = step.instruction
            assert instruction.match is not None
            operand = next(o for o in instruction.operands if isinstance(o, Memory))
            base, offset = self.model.values.linear(self.model.values.operand(operand, step.site))
            self._load_words[step.site] = (
                (base, offset) if instruction.match.space.startswith(".param") else (MEMORY, offset)
            )
        return self._load_words[step.site]

    @cached_property
    def recorded_words(self) -> dict[LaunchWord, int]:
        """The words of the parameters that the kernel loads, in a recorded launch; none without one."""
        recorded, values, words = self.model.recorded, self.model.values, dict[LaunchWord, int]()
        if recorded is None:
            return words
        names = {p.name: n for n, p in enumerate(self.model.function.parameters)}
        for site, instruction in enumerate(self.instructions):
            operand = next((o for o in instruction.operands if isinstance(o, Memory)), None)
            if (
                operand is None
                or instruction.match is None
                or not instruction.match.space.startswith(".param")
            ):
                continue
            base, offset = values.linear(values.operand(operand, site))
            node = values.node(base[0][0]) if len(base) == 1 and base[0][1] == 1 else ("", "")
            if node[0] == "symbol" and node[1] in names and offset >= 0:
                data = recorded.values[names[node[1]]]
                for at in range(offset & -4, min(offset + 64, len(data)), 4):  # no load is longer
                    words[LaunchWord(base, at >> 2)] = int.from_bytes(data[at : at + 4], "little")
        return words

    def buffer(self, step: Step) -> int:
        """A number for the pointers of the launch from which the address of a load is computed: that of the buffer."""
        if step.site not in self._buffers:
            values = self.model.values
            operand = next(o for o in step.instruction.operands if isinstance(o, Memory))
            terms, _ = values.linear(values.operand(operand, step.site))
            pointers = frozenset(t for t, _ in terms if values.node(t)[0] == "parameter")
            self._buffers[step.site] = self._pointers.setdefault(pointers, len(self._pointers))
        return self._buffers[step.site]

    @cached_property
    def bounds(self) -> dict[int, frozenset[LaunchWord]]:
        """The words of the launch that bound each loop, by its header."""
        cfg = self.model.cfg
        conditions = {
            header: {
                condition
                for block in self.branching.intersection(edge.source for edge in ends)
                if (condition := self._condition(cfg.blocks[block].end - 1)) is not None
            }
            for header, ends in cfg.leaving.items()
        }
        words = self._words_of(set().union(*conditions.values()))
        return {
            header: frozenset().union(*map(words.__getitem__, found)) for header, found in conditions.items()
        }

    def mbarrier_count_words(self, site: int) -> frozenset[LaunchWord]:
        """The words of the launch that decide how many mbarriers the loop around *site* initialises."""
        cfg, address = self.model.cfg, self.model.value(site, "mbarrier")
        moves = address is not None and bool(self.model.values.varying_at(address))
        around = cfg.enclosing_loops(cfg.block_of[site]) if moves else ()
        return frozenset().union(*map(self.bounds.__getitem__, around))

    @cached_property
    def strides(self) -> dict[str, int]:
        """The number of CTAs or clusters that the constant strides of loops imply, by ``%ctaid.x`` or
        ``%clusterid.x``.

        Only if other loops stride by the size of the grid, and if the constants agree: all loops iterate over the
        same tiles.
        """
        model, values = self.model, self.model.values
        if not any(GRID in words for words in self.bounds.values()):
            return {}
        found: dict[str, set[int]] = {}
        for block in self.branching & model.cfg.in_cycle:
            last = model.cfg.blocks[block].end - 1
            guard = self.instructions[last].guard
            for value in values.subexpressions(values.before(guard, last)) if guard >= 0 else ():
                start, stride, _ = values.induction(value) or (None, 0, None)
                kind, *rest = values.node(start) if start is not None else ("",)
                if kind == "special" and rest[0] in ("%ctaid.x", "%clusterid.x") and stride > 1:
                    found.setdefault(rest[0], set()).add(stride)
        return {name: min(by) for name, by in found.items() if len(by) == 1}

    @cached_property
    def waiting_loops(self) -> list[int]:
        """The headers of loops in which threads wait for an mbarrier."""
        cfg = self.model.cfg
        waiting = cfg.nest.having(cfg.block_of[i] for i in self.model.sites("mbarrier-wait"))
        return [header for header in cfg.loops if header in waiting]

    @cached_property
    def loop_tests(self) -> dict[int, Comparison]:
        """The comparison that decides whether a loop iterates again, by the block of its back edge."""
        cfg, found = self.model.cfg, dict[int, Comparison]()
        ends = {
            e.source
            for header in cfg.loops
            for e in cfg.predecessors[header]
            if e.source in cfg.loops[header]
        }
        for block in ends & self.branching:
            last = cfg.blocks[block].end - 1
            compared = self._compared(self.instructions[last].guard, last, cfg.blocks[block].start)
            if compared is not None:
                found[block] = compared
        return found

    def _compared(self, register: int, last: int, start: int) -> Comparison | None:
        """The comparison that a predicate, or a flag of 0 or 1, is computed from between *start* and *last*."""
        found = None
        for i in range(last - 1, start - 1, -1):
            instruction = self.instructions[i]
            if register not in instruction.writes:
                continue
            match, operands = instruction.match, instruction.operands
            if match is None or floating(match.modifiers):
                return found
            name = instruction.opcode.partition(".")[0]
            if name == "setp":
                found = Comparison(operands[1], operands[2], int(match.element[2:]))
                source = operands[1] if isinstance(operands[2], Immediate) else None
            elif name == "selp" and all(isinstance(o, Immediate) for o in operands[1:3]):
                source = operands[3]
            else:
                source = operands[1] if name in ("mov", "shfl") else None
            if not isinstance(source, int):
                return found
            register = source
        return found

    def _condition(self, branch: int) -> int | None:
        """The condition of a branch; None: it is unconditional."""
        guard = self.instructions[branch].guard
        return (
            None if guard < 0 else self.model.values.representative(self.model.values.before(guard, branch))
        )

    def words(self, *made: int) -> frozenset[LaunchWord]:
        """The words of the launch that values are computed from, and those that select between constants."""
        return frozenset().union(*self._words_of(map(self.model.values.representative, made)).values())

    def _words_of(self, made: Iterable[int]) -> dict[int, set[LaunchWord]]:
        """The same for each of the values *made*, in one walk over all that they are computed from."""
        each: dict[int, set[LaunchWord]] = {value: set() for value in made}
        work, uses, named = list(each), {value: list[int]() for value in each}, dict[LaunchWord, list[int]]()
        while work:
            value = work.pop()
            batches, words = self._inputs_of(value)
            for word in words:
                named.setdefault(word, []).append(value)
            for part in map(self.model.values.representative, batches):
                if part not in uses:
                    uses[part] = []
                    work.append(part)
                uses[part].append(value)
        for word, work in named.items():
            seen = set(work)
            while work:
                fresh = [use for use in uses[work.pop()] if use not in seen]
                seen.update(fresh)
                work += fresh
            for value in seen & each.keys():
                each[value].add(word)
        return each

    def _inputs_of(self, value: int) -> tuple[Iterable[int], tuple[LaunchWord, ...]]:
        """What a value is computed from, or what selects it if it is a choice of constants; and the words of the
        launch that it is.
        """
        values = self.model.values
        kind, *rest = node = values.node(value)
        if kind == "load" and rest[1].startswith(".shared"):
            return (*values.parts(node), *self.shared_stores.values(rest[0])), ()
        words: tuple[LaunchWord, ...] = ()
        if kind == "special" and rest[0].startswith(("%nctaid", "%nclusterid")):
            words = (GRID,)
        elif kind == "load":
            words = (MEMORY,)
        elif kind == "parameter":
            base, offset = values.linear(rest[0])
            words = (
                LaunchWord(base, offset >> 2),
                *((LaunchWord(base, (offset >> 2) + 1, high=True),) if rest[1] == 8 else ()),
            )
        more = values.arguments(value) if kind == "phi" else values.parts(node)
        flag = kind == "phi" and all(values.constant_of(v) is not None for v in more)
        return self._conditions(rest[0]) if flag else more, words

    def _conditions(self, block: int) -> Iterable[int]:
        """The conditions that decide by which edge a block is entered."""
        cfg, values = self.model.cfg, self.model.values
        for edge in cfg.predecessors[block]:
            for c in (*cfg.control_dependences(edge.source), edge):
                if c.predicate >= 0:
                    yield values.before(c.predicate, cfg.blocks[c.source].end - 1)

    def reconvergence(self, block: int) -> int:
        """Where threads that leave *block* reconverge if its branch does not matter; -1: nowhere."""
        found = self._reconvergence.get(block)
        if found is None:
            cfg = self.model.cfg
            edges = cfg.successors[block]
            alone = len(edges) == 1 and block not in cfg.exits
            found = self._reconvergence[block] = edges[0].target if alone else cfg.ipdom.get(block, -1)
        return found

    def branch(self, block: int) -> Branch:
        """The branch at the end of *block*. Threads do not continue where an assertion fails: no launch that counts does."""
        found = self._branches.get(block)
        if found is None:
            cfg = self.model.cfg
            site, edges = cfg.blocks[block].end - 1, cfg.successors[block]
            last = self.instructions[site]
            passing = [e.target for e in edges if not self._fails_assertion(e.target)]
            if len(passing) == 1 < len(edges):
                found = Branch(site, -1, False, None, {-1: passing[0]}, -1)
            else:
                found = Branch(
                    site,
                    last.guard,
                    last.negated,
                    last.operands[0] if last.flow == "branch-table" else None,
                    {e.case: e.target for e in edges if e.predicate < 0 or e.value is not last.negated},
                    next((e.target for e in edges if e.predicate >= 0 and e.value is last.negated), -1),
                )
            self._branches[block] = found
        return found

    def _fails_assertion(self, block: int) -> bool:
        """Whether a block reports the failure of an assertion, which ends the launch."""
        of = self.model.cfg.blocks[block]
        return any(self.instructions[i].callee == ASSERTION for i in range(of.start, of.end))

    # ------------------------------------------------------------ what is executed

    def batches(self, block: int) -> list[StepBatch]:
        """The steps of a block: consecutive computations together, and every other step alone."""
        found = self._batches.get(block)
        if found is None:
            found = self._batches[block] = []
            for step in self.blocks[block]:
                made = self._fuse(step)
                if made is None:
                    found.append(StepBatch(1, [], step))
                elif found and found[-1].step is None:
                    steps, fused, _ = found[-1]
                    found[-1] = StepBatch(steps + 1, [*fused, made], None)
                else:
                    found.append(StepBatch(1, [made], None))
        return found

    def _fuse(self, step: Step) -> FusedCompute | None:
        """A step as an unguarded computation on registers; None: it is not one."""
        if step.what != "compute" or step.instruction.guard >= 0:
            return None
        destination, sources, results = self.plan(step)
        registers = [o for o in sources if isinstance(o, int)]
        if not isinstance(destination, int) or len(registers) < len(sources):
            return None
        return FusedCompute(itemgetter(*registers) if registers else lambda _: (), results, destination)

    def plan(self, step: Step) -> Plan:
        """How to compute the result of a step."""
        found = self._plans.get(step.site)
        if found is None:
            instruction, match = step.instruction, step.instruction.match
            assert match is not None
            assert step.compute is not None
            destination, *sources = instruction.operands
            if sources and isinstance(sources[0], Vector):
                sources = list(sources[0].items)
            decisive = {"and": 0, "or": 1}.get(match.form.compute) if ".pred" in match.modifiers else None
            results = Results(step.compute, sources, decisive)
            sources = [o for o in sources if not isinstance(o, Immediate)]
            found = self._plans[step.site] = Plan(destination, sources, results)
        return found

    # ------------------------------------------------------------ slicing

    def _slice(self, roots: Iterable[Step]) -> None:
        """Adds steps to the slice, with what decides whether they are executed and what their operands are computed
        from.
        """
        self._work: list[int] = []
        for step in roots:
            if step.site not in self._steps:
                self._steps[step.site] = step
                self._work += self._registers_needed(step)
                self._reach(self.model.cfg.block_of[step.site])
        while self._work:
            register = self._work.pop()
            if register in self._sliced:
                continue
            self._sliced.add(register)
            for site in self.model.values.defs.get(register, ()):
                known = self._steps.get(site)
                if known is None or known.what == "read":
                    self._steps[site] = known = self._defining_step(self.instructions[site], site)
                    self._reach(self.model.cfg.block_of[site])
                self._work += self._registers_needed(known)

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

    def _registers_needed(self, step: Step) -> list[int]:
        """The registers that a step reads."""
        instruction, found = step.instruction, list[int]()
        if instruction.guard >= 0:
            found.append(instruction.guard)
        if step.what in ("unknown", "constant") or (step.what == "load" and not _of_shared(instruction)):
            return found
        if step.what == "compute":
            found += instruction.reads
            found += [r for r in instruction.writes if instruction.guard >= 0]
            return found
        for operand in self._operands(step):
            found += (
                registers(operand._replace(extras=())) if isinstance(operand, Memory) else registers(operand)
            )
        return found

    def _operands(self, step: Step) -> list[Operand]:
        instruction, match = step.instruction, step.instruction.match
        if step.what in ("read", "load", "tensor", "write"):
            return [o for o in instruction.operands if isinstance(o, Memory)]
        if step.what == "fill":
            return [instruction.operands[0]]
        if step.what == "store":
            return [o for o in instruction.operands if isinstance(o, Memory | Vector | int)]
        assert match is not None
        if instruction.group == BULK:
            return [o for o in map(instruction.role, ("source", "bytes", "depth")) if o is not None]
        if step.what == "clc-query":
            return [o for o in (instruction.role("source"),) if o is not None]
        if step.what in _EXCHANGES:
            return [o for o in instruction.operands[1:] if not isinstance(o, Vector)]
        roles = (
            (*_ROLES, "source") if step.what == "barrier-sync" else _ROLES
        )  # the predicate that it reduces
        found = [instruction.role(name) for name in roles if name in match.form.roles]
        found += [instruction.named(n.lstrip("*")) for n in match.form.async_reads if n.endswith("desc")]
        written = {r for o in (match.writes or ()) for r in registers(instruction.operands[o])}
        return [
            o
            for o in found
            if o is not None and not isinstance(o, Vector) and not (isinstance(o, int) and o in written)
        ]

    def _evaluator(self, instruction: Instruction, match: Match) -> Callable[..., int]:
        """The function that computes the first destination, truncated to the width of its register."""
        destination = instruction.operands[0]
        register = destination.first if isinstance(destination, Pair) else destination
        bits = self.widths[register] if isinstance(register, int) else 64
        return bind(match.form.compute, match.binding, bits)

    def _defining_step(self, instruction: Instruction, site: int) -> Step:
        """The step that defines the destinations of an instruction."""
        match = instruction.match
        if match is None or match.problem:
            return Step(site, "unknown", instruction)
        form = match.form
        if instruction.opcode.startswith("setp.") and floating(match.modifiers):
            unordered = any((m[-1] == "u" and m[1:-1] in _ORDERED) or m == ".nan" for m in match.modifiers)
            return Step(site, "constant", instruction, lambda: int(unordered))
        if form.compute == "mov" and floating(match.modifiers):
            # An integer computation may take a floating-point constant apart.
            source = instruction.operands[1]
            if not isinstance(source, Immediate):
                return Step(site, "unknown", instruction)
            pattern = source.pattern(int(match.element[2:]) // 8)
            return Step(site, "constant", instruction, lambda: pattern)
        if form.compute and not floating(match.modifiers):
            if form.compute in ("cvta", "cvta.to", "mapa", "unpack"):
                return Step(site, "compute", instruction, _SPECIAL[form.compute])
            if form.compute in COMPUTE:
                return Step(site, "compute", instruction, self._evaluator(instruction, match))
        if form.event in (*_EXCHANGES, "elect", "mbarrier-wait", "mbarrier-arrive", "clc-query"):
            return Step(site, form.event, instruction)
        if form.name == "activemask":
            return Step(site, form.name, instruction)
        if form.name == "isspacep":
            return Step(site, "compute", instruction, in_space(self.model, match.modifiers[0]))
        verbs = [verb for verb, _ in form.memory]
        step = Step(site, "load" if verbs and verbs[0] == "read" else "unknown", instruction)
        if self._loads_stored_value(step) and not self.shared_stores.values_known(site):
            return step._replace(what="unknown")
        return step


_THREAD_INDICES = (("%tid.x",), ("%tid.y",), ("%tid.z",), ("%warpid",))
_CONDITIONS = ("compare", "not", "logic")
_EXCHANGES = ("shuffle", "vote", "match", "redux")
"""The events by which the lanes of a warp exchange values."""
_COUNTING = ("mbarrier-init", "barrier-sync", "barrier-arrive")
_ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")


def _between_ctas(match: Match) -> bool:
    """Whether an instruction needs a cluster of several CTAs.

    A remote arrival does not: it may be at an mbarrier of its own CTA.
    """
    if {"mbarrier", "mask"} <= match.parts.keys() or ".cta_group::2" in match.modifiers:
        return True
    form = match.form
    return match.space == ".shared::cluster" and (bool(form.memory) or "remote" in form.roles)


def relaxes(model: KernelModel) -> bool:
    """Whether some operation on an mbarrier is relaxed, so that only a fence orders what is around it (9.7.13.15).

    ``mbarrier.complete_tx`` always is.
    """
    sites = (*model.sites("mbarrier-wait"), *model.sites("mbarrier-arrive"))
    completes = bool(model.sites("mbarrier-complete"))
    return completes or any(".relaxed" in model.instruction(i).opcode for i in sites)


def _of_shared(instruction: Instruction) -> bool:
    return instruction.match is not None and instruction.match.space.startswith(".shared")


def _mapa(address: int, rank: int) -> int:
    return address & 0xFFFFFF | rank << 24


_SPECIAL: dict[str, Callable[..., int]] = {
    "cvta": lambda a: a,
    "cvta.to": lambda a: a,
    "mapa": _mapa,
    "unpack": lambda a: a,
}
