"""Accepts or refuses a certificate that accesses of different threads to one memory are ordered by CTA barriers: to shared
memory, or to another :class:`Space`.

A *full barrier* is one that all threads of the CTA execute together, which follows from the levels of registers
(:mod:`tclint.verdicts.uniform`); no thread waits for the same barrier elsewhere. In a CTA of one warp, ``bar.warp.sync``
of all lanes is one, too. So all threads execute the same sequence
of full barriers, and accesses that two consecutive ones separate are ordered (PTX ISA 9.7.13.1). What remains are
accesses of one *epoch*: of two threads that passed the same execution of a full barrier last, or none. The checker trusts
neither the certificate nor what made it. From the instructions and the edges of the control-flow graph alone, it verifies
that

- the levels hold, and the barriers are full;
- nothing is missing at an entry of a block: a barrier that may be the last one that a thread has passed, an asynchronous
  operation that may be pending, or a thread that may get there; by induction, each path is covered;
- each pair of accesses of which one writes, which the checker enumerates itself, is claimed, and the claim holds: the two
  are in no common epoch, both are atomic, or no two threads access a common byte with them (:attr:`OrderQuestions.disjoint`).

**Instances.** Two threads of one epoch have executed the same number of uniform instructions before it. So a register
that is uniform has the same value in both where they have entered the block that defines it equally often in this epoch,
once or not at all; if one may have entered it more often, its values are those of different iterations.

**Asynchronous operations.** The bytes of a ``cp.async`` are written in any epoch in which it may be pending.

Whatever else may access shared memory ends the proof: the async proxy, mbarriers, other CTAs, generic addresses, calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from tclint._dataclass import dataclass
from tclint.analyses.in_flight import State
from tclint.findings.verdicts import Discharge
from tclint.ir.nodes import Function, Instruction
from tclint.isa.accesses import Access as Made
from tclint.isa.accesses import Proxy, StateSpace
from tclint.isa.callees import SYSTEM_CALLS
from tclint.isa.effects import GENERIC_COPIES, Barrier, Engine, Resource
from tclint.isa.special_registers import WARP
from tclint.verdicts.checker import CompletionTransfer, Graph, Refused
from tclint.verdicts.uniform import Collective, Holding, Level, Uniform, check_levels, narrowed

__all__ = [
    "ENTRY",
    "SHARED",
    "AccessPair",
    "Epoch",
    "Levels",
    "MemoryAccess",
    "OrderCertificate",
    "OrderQuestions",
    "Since",
    "Space",
    "View",
    "Walk",
    "access",
    "check",
    "entered",
    "first_epoch",
    "foreign",
    "full_barriers",
    "of_all_threads",
]

ENTRY = -1
"""The entry of the kernel, as the beginning of an epoch."""


class Since(NamedTuple):
    """What a thread has passed in its epoch."""

    start: int
    """The full barrier at which the epoch began, or :data:`ENTRY`."""
    passed: tuple[tuple[int, int], ...] = ()
    """The blocks that are counted and were entered since, each with 1, or with 2 for more than once."""


Epoch = frozenset[Since]


class MemoryAccess(NamedTuple):
    """An instruction that accesses the memory."""

    site: int
    writes: bool
    atomic: bool = False
    later: bool = False
    """Whether it is asynchronous, such as a ``cp.async``, and accesses the memory until it has completed."""
    rows: bool = False
    """Whether the lanes of a warp access rows of a matrix at addresses of others."""


class AccessPair(NamedTuple):
    """Two accesses, of which at least one writes; an access and itself, if two threads execute it."""

    first: int
    then: int


class View(NamedTuple):
    """What is known of the threads that execute the two accesses of a pair in one epoch."""

    first: int
    then: int
    """The threads that may execute each, one bit for each."""
    same: Callable[[int], bool]
    """Whether both have entered a block equally often in their epoch, and not more than once."""
    uniform: Callable[[int, int], bool]
    """Whether a register that is defined on entry to a block is the same in all threads of the CTA."""
    together: Callable[[int], bool]
    """Whether the threads of a warp execute a block together."""


class Levels:
    """What is uniform, by the levels of registers and of the branches that decide whether a block executes."""

    def __init__(self, of: Uniform, registers: Mapping[int, Level], outer: Mapping[int, Level]) -> None:
        self.registers, self.outer, self.whole = registers, outer, _whole(of)
        self.together = frozenset(b for b, level in outer.items() if level <= Level.WARP).__contains__

    def uniform(self, block: int, register: int) -> bool:
        """Whether a register that is defined on entry to a block is the same in all threads of the CTA."""
        level = self.registers.get(register, Level.NONE)
        return max(level, self.outer.get(block, Level.NONE)) <= self.whole


class OrderQuestions(NamedTuple):
    """What the checker asks of the values of registers; each answer is a proof."""

    disjoint: Callable[[MemoryAccess, MemoryAccess, View], bool]
    """Whether two accesses of different threads have no byte in common."""
    everyone: int
    """All threads that a CTA may have, one bit for each."""
    holding: Holding


@dataclass(frozen=True)
class OrderCertificate:
    """The claims of a proof about one memory of one function."""

    levels: Mapping[int, Level]
    barriers: frozenset[int]
    """The full barriers."""
    counted: frozenset[int]
    """The blocks whose entries are counted."""
    entry: Sequence[Epoch]
    """What a thread may have passed in its epoch at the entry of each block."""
    pending: Sequence[State]
    """The asynchronous operations that may be pending at the entry of each block."""
    threads: Sequence[int]
    """The threads that may enter each block."""
    claims: Mapping[AccessPair, Discharge]


def foreign(instruction: Instruction) -> str:
    """Why CTA barriers alone do not order what *instruction* may do to shared memory; "" if they do, or it does nothing."""
    match = instruction.match
    if instruction.flow == "call":
        return "" if instruction.callee in SYSTEM_CALLS else "the callee may access shared memory"
    if match is None:
        return f"{instruction.opcode} is not an instruction that is known"
    found = [a for a in instruction.accesses if a.shared]
    if any(a.object for a in found):
        return "it uses an mbarrier, and CTA barriers alone do not order accesses then"
    if any(a.later and not _copied(instruction, a) for a in found):
        return "it accesses shared memory through the async proxy"
    if any(a.space is StateSpace.GENERIC for a in found):
        return "its generic address may be in shared memory"
    if not all(a.own for a in found):
        return "it may access the shared memory of another CTA"
    allocates = instruction.effects.resource is Resource.TMEM_ALLOC
    if any(not a.later and (allocates or not isinstance(a.extent, int)) for a in found):
        return "which bytes of shared memory it accesses is not known"
    return ""


def _copied(instruction: Instruction, access: Made) -> bool:
    """Whether the access is one of a copy for which the thread waits itself."""
    return instruction.effects.begins in GENERIC_COPIES and access.proxy is Proxy.GENERIC


def access(site: int, instruction: Instruction) -> MemoryAccess | None:
    """How an instruction that is not :func:`foreign` accesses shared memory; None if it does not."""
    found = [a for a in instruction.accesses if a.shared and not a.object]
    if not found:
        return None
    writes = any(a.writes for a in found)
    atomic = writes and not all(a.writes for a in found)
    return MemoryAccess(site, writes, atomic, any(a.later for a in found), any(a.rows for a in found))


class Space(NamedTuple):
    """A memory that all threads of a CTA share."""

    groups: tuple[Engine, ...]
    """The groups of the asynchronous operations that access it."""
    foreign: Callable[[Instruction], str]
    """Why CTA barriers alone do not order what an instruction may do to it; "" if they do, or it does nothing."""
    access: Callable[[int, Instruction], MemoryAccess | None]
    """How an instruction that is not foreign accesses it; None if it does not."""
    separates: Callable[[Sequence[Instruction], range, int], bool]
    """Whether the CTA barrier at a site of a block orders the accesses before it and those after it."""

    def concerns(self, instruction: Instruction) -> bool:
        """Whether an instruction may access it."""
        return bool(self.foreign(instruction)) or self.access(0, instruction) is not None


SHARED = Space(GENERIC_COPIES, foreign, access, lambda instructions, block, site: True)


def full_barriers(of: Uniform, candidates: Collection[int]) -> frozenset[int]:
    """Those of the barriers *candidates* for whose barrier no thread waits or arrives elsewhere."""
    numbers: dict[int, int | None] = {}
    for site in of.block_of:
        instruction = of.instructions[site]
        if instruction.effects.arrives in (Barrier.CTA, Barrier.WARP):
            operand = instruction.role("id")
            if operand is not None:
                numbers[site] = of.ask.constant(operand, site)
    others = {number for site, number in numbers.items() if site not in candidates}
    of_warps = frozenset(candidates) - numbers.keys()
    if None in others:
        return of_warps
    return of_warps | {s for s in candidates if numbers.get(s) is not None and numbers[s] not in others}


def of_all_threads(of: Uniform, site: int) -> Collective | None:
    """The barrier *site* as one of all threads of the CTA; None if it is not one.

    A barrier of a warp is, in a CTA that is known to have no more than one.
    """
    match = of.instructions[site].match
    if match is None or match.form.effects.synchronises is None:
        return None
    if match.form.scope == "cta":
        return Collective(site, Level.CTA, match.scope != "thread")
    return Collective(site, Level.WARP, False) if _whole(of) is Level.WARP else None


def _whole(of: Uniform) -> Level:
    """The level of the whole CTA: that of a warp if there is only one."""
    threads = of.function.threads
    return Level.WARP if threads is not None and threads <= WARP else Level.CTA


def entered(epoch: Epoch, block: int, counted: Collection[int]) -> Epoch:
    """What a thread has passed once it has entered *block*."""
    return frozenset(Since(s.start, _counted(s.passed, block)) for s in epoch) if block in counted else epoch


def first_epoch(counted: Collection[int]) -> Epoch:
    """What a thread has passed when it begins."""
    return entered(frozenset((Since(ENTRY),)), 0, counted)


def _counted(passed: tuple[tuple[int, int], ...], block: int) -> tuple[tuple[int, int], ...]:
    times = dict(passed)
    times[block] = min(times.get(block, 0) + 1, 2)
    return tuple(sorted(times.items()))


class Walk:
    """What follows within each block from what a certificate says about its entry: call :meth:`through` for all."""

    def __init__(
        self,
        function: Function,
        graph: Graph,
        certificate: OrderCertificate,
        questions: OrderQuestions,
        space: Space = SHARED,
    ) -> None:
        self.graph, self.certificate, self.ask, self.space = graph, certificate, questions, space
        self.instructions = function.instructions
        self.order = sorted(graph.reached((0,)))
        self.transfer = CompletionTransfer(
            function, space.groups, (i for b in self.order for i in graph.blocks[b])
        )
        self.accesses: dict[int, MemoryAccess] = {}
        """The reachable accesses, by instruction."""
        self.times: dict[int, Epoch] = {}
        """Access -> what its thread has passed in its epoch."""
        self.later: dict[int, set[int]] = {}
        """Asynchronous access -> the beginnings of the epochs in which it may happen."""
        self.threads: dict[int, int] = {}
        """Access -> the threads that may execute it."""
        self._counts: dict[tuple[int, int], dict[int, frozenset[int]]] = {}

    def through(self, b: int) -> tuple[Epoch, State]:
        """What a thread may have passed at the end of a block, and what may be pending there; its accesses are noted."""
        epoch, pending = self.certificate.entry[b], self.certificate.pending[b]
        self._pend(epoch, pending)
        for i in self.graph.blocks[b]:
            instruction = self.instructions[i]
            found = self.space.access(i, instruction)
            if found is not None:
                self.accesses[i], self.times[i] = found, epoch
                self.threads[i] = narrowed(
                    self.certificate.threads[b],
                    self.ask.holding,
                    i,
                    instruction.guard,
                    not instruction.negated,
                )
                if found.later:
                    self.later.setdefault(i, set()).update(s.start for s in epoch)
            pending = self.transfer.after(pending, i)
            if i in self.certificate.barriers and self._separates(b, i):
                after = frozenset((Since(i),))
                epoch = epoch | after if instruction.guard >= 0 else after
                self._pend(after, pending)
        return epoch, pending

    def _separates(self, b: int, barrier: int) -> bool:
        return self.space.separates(self.instructions, self.graph.blocks[b], barrier)

    def _pend(self, epoch: Epoch, pending: State) -> None:
        for each in pending:
            self.later.setdefault(each.site, set()).update(s.start for s in epoch)

    def leaving(self, b: int) -> Iterator[tuple[int, int]]:
        """For each edge out of a block, its target and the threads that may take it."""
        last = self.graph.blocks[b][-1]
        for edge in self.graph.successors[b]:
            threads = self.certificate.threads[b]
            yield edge.target, narrowed(threads, self.ask.holding, last, edge.predicate, edge.value)

    # ------------------------------------------------------------ pairs

    def pairs(self) -> Iterator[AccessPair]:
        """The pairs of accesses of which at least one writes."""
        sites = sorted(self.accesses)
        for n, a in enumerate(sites):
            for b in sites[n:]:
                if self.accesses[a].writes or self.accesses[b].writes:
                    yield AccessPair(a, b)

    def begin(self, site: int) -> Collection[int]:
        """The beginnings of the epochs in which an access may happen."""
        return self.later.get(site) or {s.start for s in self.times[site]}

    def separated(self, pair: AccessPair) -> bool:
        """Whether the two accesses are in no common epoch."""
        return set(self.begin(pair.first)).isdisjoint(self.begin(pair.then))

    def both_atomic(self, pair: AccessPair) -> bool:
        """Whether both are atomic operations of one type, to whose size their addresses are aligned."""
        matches = [self.instructions[site].match for site in pair]
        types = {(m.modifiers[-1:], m.binding.get("vec")) for m in matches if m is not None}
        return len(types) == 1 and all(self.accesses[site].atomic for site in pair)

    def view(self, pair: AccessPair, levels: Levels) -> View:
        """What is known of the threads that execute the two in one epoch."""
        common = set(self.begin(pair.first)) & set(self.begin(pair.then))
        late = any(self.accesses[site].later for site in pair)

        def same(block: int) -> bool:
            if late or block not in self.certificate.counted:
                return False
            return all(
                len(times := self._times(pair.first, block)[s] | self._times(pair.then, block)[s]) == 1
                and max(times) <= 1
                for s in common
            )

        return View(self.threads[pair.first], self.threads[pair.then], same, levels.uniform, levels.together)

    def _times(self, site: int, block: int) -> dict[int, frozenset[int]]:
        """Beginning of an epoch -> how often a thread may have entered *block* since, where it executes an access."""
        key = site, block
        if key not in self._counts:
            found: dict[int, set[int]] = {}
            for since in self.times[site]:
                found.setdefault(since.start, set()).add(dict(since.passed).get(block, 0))
            self._counts[key] = {start: frozenset(times) for start, times in found.items()}
        return self._counts[key]


def check(
    function: Function,
    of: Uniform,
    certificate: OrderCertificate,
    questions: OrderQuestions,
    space: Space = SHARED,
) -> frozenset[AccessPair]:
    """The pairs of *function*, all of which *certificate* proves ordered or disjoint. Raises ``Refused`` if it does not."""
    outer = check_levels(of, certificate.levels)
    _check_barriers(of, certificate, outer)
    walk = Walk(function, of.graph, certificate, questions, space)
    _check_entries(walk)  # after it, all accesses are noted

    levels = Levels(of, certificate.levels, outer)
    needed = set[AccessPair]()
    for pair in walk.pairs():
        needed.add(pair)
        claimed = certificate.claims.get(pair)
        if claimed is Discharge.BARRIER:
            holds = walk.separated(pair)
        elif claimed is Discharge.ATOMIC:
            holds = walk.both_atomic(pair)
        else:
            accesses = walk.accesses[pair.first], walk.accesses[pair.then]
            disjoint = claimed is Discharge.DISJOINT
            holds = disjoint and questions.disjoint(*accesses, walk.view(pair, levels))
        if not holds:
            raise Refused(pair.then, "nothing proves that the two accesses are ordered or apart")
    if extra := certificate.claims.keys() - needed:
        raise Refused(min(extra).then, "the certificate claims a pair that the kernel does not have")
    return frozenset(needed)


def _check_barriers(of: Uniform, certificate: OrderCertificate, outer: Mapping[int, Level]) -> None:
    """Raises ``Refused`` if a barrier of the certificate is not full."""
    for site in certificate.barriers:
        collective = of_all_threads(of, site) if site in of.block_of else None
        if collective is None or of.divergence(collective, certificate.levels, outer):
            raise Refused(site, "the certificate takes a barrier for full that some threads may not execute")
    if full_barriers(of, certificate.barriers) != certificate.barriers:
        raise Refused(min(certificate.barriers), "some threads may wait for this barrier elsewhere")


def _check_entries(walk: Walk) -> None:
    """Raises ``Refused`` if the certificate omits something at an entry, or an instruction is foreign."""
    certificate, graph = walk.certificate, walk.graph
    if not first_epoch(certificate.counted) <= certificate.entry[0]:
        raise Refused(0, "the certificate omits the beginning of the kernel")
    if walk.ask.everyone & ~certificate.threads[0]:
        raise Refused(0, "the certificate omits threads at the entry")
    for b in walk.order:
        last = graph.blocks[b][-1]
        epoch, pending = walk.through(b)
        for i in graph.blocks[b]:
            if why := walk.space.foreign(walk.instructions[i]):
                raise Refused(i, why)
        for target, threads in walk.leaving(b):
            if not entered(epoch, target, certificate.counted) <= certificate.entry[target]:
                raise Refused(last, "the certificate omits what a thread may have passed in its epoch")
            if not pending <= certificate.pending[target]:
                raise Refused(last, "the certificate omits an operation that may be pending")
            if threads & ~certificate.threads[target]:
                raise Refused(last, "the certificate omits threads that may take this branch")
