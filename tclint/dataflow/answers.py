"""Three-valued answers to may-questions: yes with a witness, no, or no answer within the budget.

"May a fact reach this instruction?" is undecidable in general, and each search for an answer has a budget. A caller
that reports only what a witness shows may treat *no* and *no answer* alike: it misses a defect at worst. A caller that
concludes anything from the absence of a witness must require :class:`Infeasible`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from typing import ClassVar, Generic, TypeVar

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Site

__all__ = [
    "Answer",
    "Decision",
    "Found",
    "GaveUp",
    "Guard",
    "Infeasible",
    "Ledger",
    "Search",
    "Unanswered",
    "next_answer",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
W = TypeVar("W", bound=str)
W_co = TypeVar("W_co", bound=str, covariant=True)


class Guard(NamedTuple):
    """The outcome of a guard on a path."""

    site: Site
    """The instruction that has the guard."""
    executes: bool


Decision = Edge | Guard
"""What a path assumes of a predicate."""


@dataclass(frozen=True, slots=True)
class Found(Generic[T_co]):
    """Yes: the witness satisfies every condition that the search knows of."""

    witness: T_co


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No: the search was exhaustive and over-approximates what threads do."""

    by: Decision | str
    """The edge or guard that closed the last path, or a reason in words."""
    witness: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class GaveUp(Generic[W_co]):
    """No answer: what was followed was not exhaustive, so a witness may exist, or a verdict proves nothing."""

    why: W_co
    """The budget that was spent, with its size, or what was not followed."""
    site: Site = -1
    """The instruction that the question is about, or at which it could not be followed; -1: the whole function."""
    witness: ClassVar[None] = None


Answer = Found[T_co] | Infeasible | GaveUp[str]
"""``answer.witness`` is None for both other answers; only a caller that needs no proof of absence may rely on it."""

Search = Generator[T, None, Infeasible | GaveUp[str]]
"""Witnesses one after the other; the generator returns why there are no more."""


def next_answer(search: Search[T]) -> Answer[T]:
    """The next witness of a *search* that has not ended, or why there are no more."""
    try:
        return Found(next(search))
    except StopIteration as end:
        ended: Infeasible | GaveUp[str] = end.value
        return ended


class Unanswered(NamedTuple):
    """A question about a function that was left open."""

    question: str
    site: Site
    """The instruction that it is about; -1: the whole function."""
    why: str


class Ledger:
    """The questions about one function that were left open, with the number of times each was."""

    def __init__(self) -> None:
        self.unanswered = Counter[Unanswered]()

    def give_up(self, question: str, site: Site, why: W) -> GaveUp[W]:
        """Record that a *question* about the instruction at *site* is open."""
        self.unanswered[Unanswered(question, site, str(why))] += 1
        return GaveUp(why, site)

    def at_most(self, limit: int, items: Iterable[T], question: str, site: Site, what: str) -> Iterator[T]:
        """The first *limit* of *items*; a *question* about *site* is open, and recorded, if more are wanted.

        A caller that has its answer stops earlier. *what* is the plural of an item.
        """
        for k, item in enumerate(items):
            if k == limit:
                self.give_up(question, site, f"more than {limit} {what}")
                return
            yield item

    def drop(self, question: str, site: Site, why: str) -> None:
        """Record that an analysis drops its facts at *site*: once, however often its transfer function is applied."""
        self.unanswered[Unanswered(question, site, why)] = 1
