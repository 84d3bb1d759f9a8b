"""The numbers that launches of one kernel are tried with, and what the launches show together."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from tclint.analyses.model import KernelModel
from tclint.replay.launch import GRID, LaunchValues, LaunchWord
from tclint.replay.program import Program
from tclint.replay.races import Race
from tclint.replay.scheduler import Stuck
from tclint.replay.sync import Mbarrier, ReleasedWaiter

__all__ = ["ODD", "SIZES", "LaunchHypothesis", "LaunchResults", "Run", "next_hypothesis"]


class LaunchHypothesis(NamedTuple):
    """Numbers that a launch may bring."""

    size: int
    """What 32-bit parameters and words of global memory are: sizes of matrices, from which rounds of loops are computed."""
    grid: int
    """How many CTAs or clusters there are."""
    cta: int = 0
    """Which one is replayed."""
    large: frozenset[LaunchWord] = frozenset()
    """Words that are ``_LARGE`` instead: how many tiles there are for a grid of which the text says the size."""

    def values(self, increasing: bool) -> LaunchValues:
        return LaunchValues(
            self.size, self.grid, self.cta, increasing, others=dict.fromkeys(self.large, _LARGE)
        )


_LARGE = 4096
SIZES = (LaunchHypothesis(512, 8), LaunchHypothesis(1280, 24), LaunchHypothesis(1098, 5))
ODD = (LaunchHypothesis(832, 13), LaunchHypothesis(1088, 3), LaunchHypothesis(640, 7))
"""Numbers of which halves and quarters are left over, for what the others do not come to."""
_LAST = tuple(t._replace(cta=t.grid - 1) for t in SIZES)
"""The last CTA, for what the first does not come to."""
_TILES = (LaunchHypothesis(1098, 3), LaunchHypothesis(1280, 2))
"""Few CTAs for much to do, so that each goes round once more."""
_ORDER = (SIZES[0], *ODD, *_LAST, *_TILES, *SIZES[1:])
_NUMBERS = (("special", "%ctaid.x"), ("special", "%clusterid.x"))
"""Which CTA or cluster it is."""
_DECIDE: dict[tuple[str, ...], tuple[LaunchHypothesis, ...]] = {
    ("op", "mask"): ODD,
    ("op", "rem"): ODD,
    **dict.fromkeys(_NUMBERS, _LAST),
}
"""What decides that something is come to with other numbers."""


def next_hypothesis(hypotheses: Iterable[LaunchHypothesis]) -> LaunchHypothesis:
    """Which of them is the next one."""
    return min(hypotheses, key=lambda t: (_ORDER.index(t) if t in _ORDER else len(_ORDER), t[:2]))


def _same_purpose(hypothesis: LaunchHypothesis) -> tuple[LaunchHypothesis, ...]:
    """Those that are tried for the same reason."""
    return next((kind for kind in (SIZES, ODD, _LAST, _TILES) if hypothesis in kind), (hypothesis,))


class Run(NamedTuple):
    """How one replay went."""

    stuck: list[Stuck]
    races: list[Race]
    overrun: Stuck | None
    finished: bool
    """Whether it came to an end."""
    late: list[tuple[Mbarrier, ReleasedWaiter]]
    """Waits that would be for a phase later, had they been asked a little later."""
    entered: frozenset[int]
    """The blocks that were executed."""
    repeated: frozenset[int]
    """The loops, by their headers, that somebody went round again."""
    completed_mbarriers: frozenset[int]
    """The addresses of mbarriers of which a phase has completed."""
    acquiring_waits: frozenset[int]
    """The waits for mbarriers at which threads heard of something that they had not heard of before."""
    uneven: bool = False
    """Some warps have more rounds of a loop than others that share these with them: the kernel may be made for no such number."""

    @property
    def wrong(self) -> bool:
        return bool(self.stuck or self.races or self.overrun or self.late)

    @property
    def between_warps(self) -> bool:
        """Whether it went wrong between warps that go the same way together, and nowhere else."""
        return bool(self.races) and self.races[0].together

    @property
    def sites(self) -> set[int]:
        """The instructions at which it went wrong."""
        if self.races:
            return set(self.races[0].key)
        if self.overrun is not None:
            return {self.overrun.site}
        return {s.site for s in self.stuck} or {wait.site for _, wait in self.late}

    def again(self, other: Run) -> bool:
        """Whether the first thing that goes wrong does so in another run as well."""
        if self.races:
            return self.races[0].key in {race.key for race in other.races}
        return not other.races and not self.sites.isdisjoint(other.sites)

    @property
    def mbarriers(self) -> set[int]:
        """The addresses of the mbarriers by which it went wrong."""
        stuck = [self.overrun] if self.overrun is not None else self.stuck
        whats = [a.mbarrier for a in self.races[0]] if self.races else [s.what for s in stuck]
        return {what.address for what in whats or [m for m, _ in self.late] if isinstance(what, Mbarrier)}


@dataclass
class LaunchResults:
    """How a kernel goes with CTAs of one shape and several numbers."""

    model: KernelModel
    program: Program
    wrong: dict[LaunchHypothesis, Run] = field(default_factory=dict)
    entered: set[int] = field(default_factory=set)
    """The blocks in which it went right."""
    repeated: set[int] = field(default_factory=set)
    """The loops that went right more than once."""
    completed_mbarriers: set[int] = field(default_factory=set)
    """The mbarriers that went right."""
    exhausted: set[LaunchHypothesis] = field(default_factory=set)
    """Numbers like others that have shown nothing new since anything did."""

    @property
    def conclusive(self) -> bool:
        return bool(self.wrong or self.entered)

    @property
    def _distinguishes_iterations(self) -> bool:
        """Whether later rounds of a loop are told from the first.

        Not where memory says what there is to do: its numbers may be those of no launch, and what goes right once excuses all.
        """
        return not self.program.reads_memory

    def add(self, hypothesis: LaunchHypothesis, run: Run) -> set[LaunchHypothesis]:
        """Takes in one launch; the numbers with which others may show more, if it went right."""
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
        """Numbers with which launches may come to what those that go wrong leave out, one as another."""
        runs = self.wrong.values()
        return self._promising(
            self.entered.union(*(run.entered for run in runs)),
            self.repeated.union(*(run.repeated for run in runs)),
        )

    @property
    def unexcused(self) -> dict[LaunchHypothesis, Run]:
        """The launches that go wrong where none goes right, though by mbarriers that others use and go right."""
        return {
            hypothesis: run
            for hypothesis, run in self.wrong.items()
            if not self.excuses(run)
            and (not self.entered or self.completed_mbarriers.issuperset(run.mbarriers))
        }

    def excuses(self, run: Run) -> bool:
        """Whether launches go right in all blocks in which *run* goes wrong, and in later rounds if it makes such."""
        cfg = self.model.cfg
        blocks = {cfg.block_of[i] for i in run.sites}
        rounds = {head for head in run.repeated if not blocks.isdisjoint(cfg.loops[head])}
        return self.entered.issuperset(blocks) and (
            not self._distinguishes_iterations or self.repeated.issuperset(rounds)
        )

    def covers(self, run: Run) -> bool:
        """Whether launches go right wherever *run* comes to at which threads synchronise: they may be those that the kernel is made for.

        What only reads, as what is left over of a loop does for other numbers of threads, they need not come to.
        """
        return self.covered((self.entered, self.repeated), run.entered, run.repeated)

    def covered(
        self,
        by: tuple[AbstractSet[int], AbstractSet[int]],
        entered: AbstractSet[int],
        repeated: AbstractSet[int],
    ) -> bool:
        """Whether others *came*, to blocks and round loops again, wherever threads synchronise in those that are *entered* and *repeated*."""
        synchronising, loops = self.program.synchronising, self.model.cfg.loops
        rounds = {head for head in repeated if not synchronising.isdisjoint(loops[head])}
        return by[0] >= entered & synchronising and by[1] >= rounds

    def _promising(self, entered: AbstractSet[int], repeated: AbstractSet[int]) -> set[LaunchHypothesis]:
        """Numbers with which blocks may be come to that were not *entered*, or loops gone round that were not *repeated*.

        It is the rest of a division of what comes with the launch, or which CTA it is, that decides over the blocks.
        """
        program, cfg, values = self.program, self.model.cfg, self.model.values
        deciding = {
            self.model.reachability.edge_value(edge)
            for block in program.synchronising - entered
            for edge in cfg.controllers(block)
            if edge.source in entered
        }
        found = set[LaunchHypothesis]()
        for predicate in deciding:
            if predicate is not None:
                of = [values.node(v)[:2] for v in values.made_of(predicate)]
                if any(node[0] == "parameter" or node in _NUMBERS for node in of):
                    found.update(chain.from_iterable(_DECIDE.get(node, ()) for node in of))
        once = [h for h in program.waiting_loops if h in entered and h not in repeated]
        words = frozenset[LaunchWord]().union(*(program.bounds[h] for h in once))
        if words and self._distinguishes_iterations:
            found.update(_TILES if GRID in words else (t._replace(large=words) for t in ODD[:2]))
        return found
