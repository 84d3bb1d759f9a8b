"""What the rest of tclint asks of the replays of a kernel, and the answers that it gets."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from tclint._dataclass import dataclass
from tclint.dataflow import GaveUp
from tclint.replay.hypotheses import Shape
from tclint.replay.launches import ReplayRun
from tclint.replay.reasons import NotReplayed
from tclint.replay.scheduler import UninitialisedMbarrier

__all__ = ["EmptyItem", "EqualWords", "Faulty", "NoFault", "ReplayAnswers", "Verdict"]


@dataclass(frozen=True, slots=True)
class EqualWords:
    """Two neighbouring words of global memory whose difference decides a branch, such as begin and end of an item."""

    loads: tuple[int, int]
    """The instructions that load them."""
    names: tuple[str, str]
    """The registers into which they load them."""
    branch: int
    """The branch that their difference decides."""
    tested: bool
    """Whether a branch outside the loop that they bound tests for that case: the kernel is made for it."""


@dataclass(frozen=True, slots=True)
class EmptyItem:
    """A word of global memory that is 0 for some iterations of a loop and not for others, such as the size of an item."""

    load: int
    """The instruction that loads it."""
    name: str
    """The register into which it loads it."""
    site: int
    """What threads synchronise by only if it is 0, or only if it is not, outside the loop that it bounds."""
    if_zero: bool
    """Whether they do if it is 0."""


@dataclass(frozen=True, slots=True)
class Faulty:
    """All launches that reach the code in question show a fault."""

    run: ReplayRun
    """The launch that shows it best: one with a race, if there is one, and of those the one that gets farthest."""
    assumed_cluster: Shape | None = None
    """The kernel does not state the shape of its cluster, and every shape shows a fault: the shape of this *run*."""
    needs: EqualWords | EmptyItem | None = None
    """What must be so in memory for the fault; None if it shows without that."""


@dataclass(frozen=True, slots=True)
class NoFault:
    """All launches ended without a fault, some launch excuses those with one, or there is nothing to replay.

    This is no proof that the kernel is correct: a replay follows only the outermost accesses, and only some launches.
    """


Verdict = Faulty | NoFault | GaveUp[NotReplayed]
"""The three answers to whether the synchronisation of a kernel is faulty."""


class ReplayAnswers(Protocol):
    """The questions. All answers are functions of the kernel alone: they do not depend on the order of the questions.

    The budgets of :mod:`~tclint.replay.hypotheses` bound steps, not time, so the answers are reproducible too.
    """

    verdict: Verdict
    """Whether the synchronisation is faulty."""
    runs: list[ReplayRun]
    """The launches that ended, or showed a fault. What none of them enters or repeats was not looked at."""
    uninitialised: UninitialisedMbarrier | None
    """The first use of an address where no mbarrier had been initialised, in the first launch with such a use.

    The kernel may be made for other launches, so it is evidence only if the address does not depend on the launch.
    """

    @abstractmethod
    def misses_loop(self, run: ReplayRun) -> bool:
        """Whether no launch enters some loop that could prevent the fault of *run*: the values of the launches may be at fault."""

    @abstractmethod
    def mixes_trip_counts(self, run: ReplayRun) -> bool:
        """Whether unrelated words of the launch bound the loop of a deadlocked wait and the loop of those that could end it."""
