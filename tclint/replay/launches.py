"""What the replays of several launches show together, and which launches are worth trying next.

A fault in one launch may be due to values that go together in no real launch. It is *excused* by launches that
execute the same blocks without a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from itertools import chain
from types import MappingProxyType

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.analyses.mbarriers import Mbarriers, Ring
from tclint.analyses.model import KernelModel
from tclint.replay import hypotheses
from tclint.replay.hypotheses import GRID, LaunchHypothesis, LaunchWord
from tclint.replay.launch import ReplayLaunch
from tclint.replay.program import ReplaySlice
from tclint.replay.races import Race
from tclint.replay.sync import PhaseOverlap, ReleasedWaiter, ReplayMbarrier
from tclint.replay.thread_groups import Stuck
from tclint.values.nodes import Masked, Node, Opaque, ParameterRead, SpecialRead

__all__ = ["LaunchResults", "ReplayRun", "next_hypothesis"]


def _is_cta_index(node: Node) -> bool:
    return type(node) is SpecialRead and node.name in ("%ctaid.x", "%clusterid.x")


def _reaching(node: Node) -> tuple[LaunchHypothesis, ...]:
    """The launches that may decide a branch differently whose condition is computed from *node*."""
    if _is_cta_index(node):
        return (*hypotheses.LAST_CTAS.value, *hypotheses.MIDDLE_CTAS.value)
    is_remainder = type(node) is Masked or (type(node) is Opaque and node.name == "rem")
    return hypotheses.ODD_SIZES.value if is_remainder else ()


def _repeating(words: frozenset[LaunchWord]) -> Iterator[LaunchHypothesis]:
    """The launches in which a loop may iterate again that *words* bound: with all of them large, or with one of them.

    Where one word is a length and another the part of it that an iteration covers, equal values leave one iteration.
    """
    if GRID in words:
        yield from hypotheses.FEW_CTAS.value
        return
    low = [word for word in words if not word.high]
    if low:
        yield from (h._replace(large=words) for h in hypotheses.ODD_SIZES.value[:2])
    for word in low if len(low) > 1 else ():
        yield from (h._replace(large=frozenset((word,))) for h in hypotheses.SIZES.value[:2])


def _special() -> tuple[tuple[LaunchHypothesis, ...], ...]:
    """The launches for special cases, in the order in which they are tried: those for one purpose together."""
    rows = hypotheses.ODD_SIZES, hypotheses.LAST_CTAS, hypotheses.MIDDLE_CTAS, hypotheses.FEW_CTAS
    return tuple(row.value for row in rows)


def next_hypothesis(candidates: Iterable[LaunchHypothesis]) -> LaunchHypothesis:
    """The candidate to replay next: one of the usual sizes, then those for special cases, then the other sizes."""
    usual, *others = hypotheses.SIZES.value
    order = (usual, *chain.from_iterable(_special()), *others)
    return min(
        candidates,
        key=lambda h: (order.index(h) if h in order else len(order), h[:2], sorted(map(repr, h.large))),
    )


def _same_purpose(hypothesis: LaunchHypothesis) -> tuple[LaunchHypothesis, ...]:
    """The hypotheses of the row that *hypothesis* is in; itself if it is in none."""
    rows = (hypotheses.SIZES.value, *_special())
    return next((row for row in rows if hypothesis in row), (hypothesis,))


class ReplayRun(NamedTuple):
    """The result of one replay."""

    deadlocks: list[Stuck]
    races: list[Race]
    overrun: Stuck | None
    finished: bool
    """Whether all threads exited or are deadlocked."""
    late: list[tuple[ReplayMbarrier, ReleasedWaiter]]
    """Waits that would wait for a later phase if their thread were slower."""
    entered: frozenset[int]
    """The blocks that were executed."""
    repeated: frozenset[int]
    """The headers of loops that were executed more than once."""
    completed_mbarriers: Mapping[int, int]
    """The mbarriers that completed a phase: the instruction that initialises each, by address."""
    acquiring_waits: frozenset[int]
    """The waits for mbarriers that acquired an event which their threads had not observed."""
    uneven: bool = False
    """Warps that share the iterations of a loop had different trip counts: the kernel may be made for no such size.
    """
    overlaps: Sequence[PhaseOverlap] = ()
    """Arrivals at CTA barriers that may count for a phase that they do not belong to."""
    launch: ReplayLaunch | None = None
    """The launch that was replayed."""
    executed: frozenset[int] = frozenset()
    """The instructions that synchronise and that a thread executed."""
    misused: tuple[tuple[int, str], ...] = ()
    """Instructions that use an mbarrier as the ISA does not admit, each with why."""
    dispatched: bool = False
    """Threads were compared with a value of the launch, and all of them took the same branch."""
    misfit: bool = False
    """The kernel is made for CTAs of another size."""
    unsettled: frozenset[int] = frozenset()
    """The ``mbarrier.init`` of mbarriers that an asynchronous operation may signal after all waits."""
    completed_phases: Mapping[tuple[int, int], int] = MappingProxyType({})
    """How many phases of an mbarrier each wait has seen complete, by the wait and the address."""

    @property
    def wrong(self) -> bool:
        return bool(self.deadlocks or self.races or self.overrun or self.late or self.overlaps)

    @property
    def between_warps(self) -> bool:
        """Whether all faults are races between warps of one thread group."""
        return bool(self.races) and self.races[0].together

    @property
    def sites(self) -> set[int]:
        """The instructions at fault."""
        if self.races:
            return set(self.races[0].key)
        if self.overrun is not None:
            return {self.overrun.site}
        if self.overlaps:
            return {arrival.site for arrival in self.overlaps[0][1:]}
        return {s.site for s in self.deadlocks} or {wait.site for _, wait in self.late}

    def again(self, other: ReplayRun) -> bool:
        """Whether the first fault occurs in another run too."""
        if self.races:
            return self.races[0].key in {race.key for race in other.races}
        return not other.races and not self.sites.isdisjoint(other.sites)

    @property
    def mbarriers(self) -> dict[int, int]:
        """The mbarriers at fault: the instruction that initialises each, by address."""
        return {mbarrier.address: mbarrier.site for mbarrier in self._mbarriers}

    @property
    def inits(self) -> set[int]:
        """The instructions that initialise the mbarriers at which threads are blocked, or arrive too often."""
        return set() if self.races else set(self.mbarriers.values())

    @property
    def _mbarriers(self) -> list[ReplayMbarrier]:
        stuck = [self.overrun] if self.overrun is not None else self.deadlocks
        whats = [a.mbarrier for a in self.races[0]] if self.races else [s.what for s in stuck]
        return [what for what in whats or [m for m, _ in self.late] if isinstance(what, ReplayMbarrier)]


@dataclass
class LaunchResults:
    """The replays of a kernel with one shape of CTA and different values."""

    model: KernelModel
    program: ReplaySlice
    wrong: dict[LaunchHypothesis, ReplayRun] = field(default_factory=dict)
    entered: set[int] = field(default_factory=set)
    """The blocks that some launch without a fault executed."""
    repeated: set[int] = field(default_factory=set)
    """The loops that some launch without a fault executed more than once."""
    completed_mbarriers: dict[int, int] = field(default_factory=dict)
    """The mbarriers that completed a phase in some launch without a fault, as in :class:`ReplayRun`."""
    exhausted: set[LaunchHypothesis] = field(default_factory=set)
    """Hypotheses with the purpose of one that has added nothing since the last progress."""

    @property
    def conclusive(self) -> bool:
        return bool(self.wrong or self.entered)

    @property
    def _distinguishes_iterations(self) -> bool:
        """Whether later iterations of a loop are distinguished from the first.

        They are not where memory decides the trip count: its values may be those of no launch, so one success excuses
        all.
        """
        return not self.program.reads_memory

    def add(self, hypothesis: LaunchHypothesis, run: ReplayRun) -> set[LaunchHypothesis]:
        """Adds a launch. Returns the hypotheses that may reach more, if it had no fault."""
        if run.wrong:
            self.wrong[hypothesis] = run
            return set()
        novel = not (self.entered.issuperset(run.entered) and self.repeated.issuperset(run.repeated))
        self.entered |= run.entered
        self.repeated |= run.repeated
        self.completed_mbarriers |= run.completed_mbarriers
        self.exhausted = set() if novel else self.exhausted.union(_same_purpose(hypothesis))
        return self._promising(self.entered, self.repeated) - self.exhausted

    def unexplored(self) -> set[LaunchHypothesis]:
        """Hypotheses that may reach what the launches with a fault do not."""
        runs = self.wrong.values()
        return self._promising(
            self.entered.union(*(run.entered for run in runs)),
            self.repeated.union(*(run.repeated for run in runs)),
        )

    @property
    def unexcused(self) -> dict[LaunchHypothesis, ReplayRun]:
        """The launches with a fault that no launch without one excuses, if the mbarriers at fault work in others that use
        any.
        """
        return {
            hypothesis: run
            for hypothesis, run in self.wrong.items()
            if not self.excuses(run) and (not self.completed_mbarriers or self._completed_elsewhere(run))
        }

    def _completed_elsewhere(self, run: ReplayRun) -> bool:
        """Whether launches without a fault complete phases of the mbarriers at fault in *run*, or of others that the
        instructions at fault name.

        Such a launch may be too short for all stages of a ring.
        """
        if run.mbarriers.keys() <= self.completed_mbarriers.keys():
            return True
        named = set[Ring]().union(*map(self.model.fact(Mbarriers).rings_at, run.sites))
        return not set(self.completed_mbarriers.values()).isdisjoint(i for ring in named for i in ring.inits)

    def excuses(self, run: ReplayRun) -> bool:
        """Whether launches without a fault execute all blocks in which *run* is at fault, and later iterations if
        *run* does.

        Blocks that initialise the mbarriers at fault count: several paths may share a wait.
        """
        cfg = self.model.cfg
        blocks = {cfg.block_of[i] for i in run.sites | run.inits}
        loops = {head for head in run.repeated if not blocks.isdisjoint(cfg.loops[head])}
        return self.entered.issuperset(blocks) and (
            not self._distinguishes_iterations or self.repeated.issuperset(loops)
        )

    def covers(self, run: ReplayRun) -> bool:
        """Whether launches without a fault synchronise wherever *run* does, so that they may be what the kernel is
        made for.

        They need not execute what only reads, such as the remainder of a loop with another number of threads.
        """
        return self.covered((self.entered, self.repeated), run.entered, run.repeated)

    def covered(
        self,
        by: tuple[AbstractSet[int], AbstractSet[int]],
        entered: AbstractSet[int],
        repeated: AbstractSet[int],
    ) -> bool:
        """Whether others, with blocks and repeated loops as in *by*, synchronise wherever those *entered* and
        *repeated* do.
        """
        synchronising, loops = self.program.synchronising, self.model.cfg.loops
        needed = {head for head in repeated if not synchronising.isdisjoint(loops[head])}
        return by[0] >= entered & synchronising and by[1] >= needed

    def _promising(self, entered: AbstractSet[int], repeated: AbstractSet[int]) -> set[LaunchHypothesis]:
        """Hypotheses that may enter blocks that were not *entered*, or repeat loops that were not *repeated*.

        What guards such a block is the remainder of a division of a parameter, or the index of the CTA.
        """
        program, cfg, values = self.program, self.model.cfg, self.model.values
        deciding = set[int | None]()
        seen, work = set[int](), list(program.synchronising - entered)
        while work:
            for edge in cfg.control_dependences(work.pop()):
                if edge.source in entered:
                    deciding.add(self.model.reachability.edge_predicate(edge))
                elif edge.source not in seen:
                    seen.add(edge.source)
                    work.append(edge.source)
        found = set[LaunchHypothesis]()
        for predicate in deciding:
            if predicate is not None:
                of = list(map(values.node, values.subexpressions(predicate)))
                if any(type(node) is ParameterRead or _is_cta_index(node) for node in of):
                    found.update(chain.from_iterable(map(_reaching, of)))
        once = {program.loops.bounds[h] for h in program.loops.waiting if h in entered and h not in repeated}
        if self._distinguishes_iterations:
            found.update(*map(_repeating, once))
        return found
