"""The results of earlier runs over a text, for the run over its next state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from math import inf
from operator import eq
from time import perf_counter
from typing import Protocol, TypeVar

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.checks import Hit
from tclint.dataflow import Unanswered
from tclint.findings.finding import Edit
from tclint.findings.selection import Request
from tclint.ir.inline import reached
from tclint.ir.nodes import Function, Module, Variable
from tclint.ir.rebuild import Builds, same_program
from tclint.isa.target import Version

__all__ = ["CheckResult", "Facts", "IncrementalCache", "Share"]

T = TypeVar("T")

MAX_RECENT_STATES = 3
"""States of a function that are kept, so that undoing or retyping an edit costs no analysis."""


class CheckResult(NamedTuple):
    """What the checks of a function gave."""

    hits: tuple[Hit, ...]
    limits: tuple[str, ...]
    """The messages of the analyses that exceeded a limit."""
    unanswered: dict[Unanswered, int]
    """The questions that were left open, with the number of times each was."""

    def of(self, on: frozenset[str]) -> CheckResult:
        """The result with only the hits of the rules *on*."""
        return self._replace(hits=tuple(hit for hit in self.hits if hit.subject in on))


@dataclass(frozen=True)
class Facts:
    """The properties of the module and the run on which the checks of a function may depend."""

    on: frozenset[str]
    """The ids of the rules that are checked."""
    toolkit: Version | None
    dependent: bool
    strict: bool
    version: Version | None
    targets: tuple[str, ...]
    address_size: int
    variables: dict[str, Variable]
    bodies: tuple[str, ...]
    """The functions that have a body."""

    @classmethod
    def of(cls, module: Module, on: frozenset[str], request: Request) -> Facts:
        """Those of a run with the settings of *request*."""
        return cls(
            on,
            request.toolkit,
            request.dependent,
            request.selected.strict,
            module.version,
            module.targets,
            module.address_size,
            module.variables,
            tuple(f.name for f in module.functions if f.instructions),
        )

    def include(self, other: Facts) -> bool:
        """Whether the facts are the same, and the rules all that are checked in the *other* run."""
        return other.on <= self.on and replace(other, on=self.on) == self


@dataclass(frozen=True, eq=False, slots=True)
class _Checked:
    """The result of the checks of one function, with everything on which it may depend."""

    function: Function
    facts: Facts
    called: tuple[Function, ...]
    """The functions that it calls, directly or not."""
    result: CheckResult
    seconds: float
    """How long the checks took."""

    def holds(self, function: Function, facts: Facts, called: tuple[Function, ...]) -> bool:
        """Whether the checks of *function* have the same result, except for positions in the text and for the hits of
        rules that are not checked now."""
        return (
            not any(_has_spans(hit) for hit in self.result.hits)
            and self.facts.include(facts)
            and same_program(self.function, function)
            and len(self.called) == len(called)
            and all(map(same_program, self.called, called))
        )

    def moved(self, function: Function) -> CheckResult:
        """The result with the new sites of its instructions, without the hits and questions of which one is gone."""
        old, new = ([ins.opcode for ins in f.instructions] for f in (self.function, function))
        first = _common_prefix(old, new)
        last = min(_common_prefix(reversed(old), reversed(new)), len(old) - first, len(new) - first)

        def new_site(site: int) -> int:
            """The new number of the instruction; -1 if it was in the edited part."""
            return site if site < first else site + len(new) - len(old) if site >= len(old) - last else -1

        found = (_moved(hit, new_site) for hit in self.result.hits)
        unanswered = {
            open_ if open_.site < 0 else open_._replace(site=new_site(open_.site)): times
            for open_, times in self.result.unanswered.items()
            if open_.site < 0 or new_site(open_.site) >= 0
        }
        return CheckResult(tuple(hit for hit in found if hit is not None), self.result.limits, unanswered)


def _common_prefix(one: Iterable[str], other: Iterable[str]) -> int:
    """The number of items with which both begin."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))


def _has_spans(hit: Hit) -> bool:
    """Whether *hit* refers to bytes of the text, which an edit moves, and not only to instructions."""
    return hit.span is not None or any(isinstance(c, Edit) for fix in hit.fixes for c in fix.changes)


def _moved(hit: Hit, new_site: Callable[[int], int]) -> Hit | None:
    """*hit* with the new sites of its instructions; None if one is gone.

    Its fixes are dropped, as they are not verified, and so are the parties of a deadlock.
    """
    steps = tuple(replace(mark, site=new_site(mark.site)) for mark in hit.steps)
    about = frozenset(map(new_site, hit.about))
    pairs = tuple(pair for old in hit.pairs if -1 not in (pair := (new_site(old[0]), new_site(old[1]))))
    found = replace(
        hit, site=new_site(hit.site), steps=steps, about=about, pairs=pairs, fixes=(), deadlock=()
    )
    whole = found.site >= 0 and -1 not in about and all(mark.site >= 0 for mark in steps)
    own = hit.span is None and hit.function is None and all(mark.function is None for mark in steps)
    return found if whole and own else None


class Share(Protocol):
    """Runs a function in several processes (:mod:`tclint.driver.helpers`)."""

    def __call__(
        self, sizes: Sequence[int], make: Callable[[int], T], same: Sequence[object]
    ) -> dict[int, T]:
        """What *make* returns for the number of each of *sizes*, in instructions; some may be missing.

        Of what it returns, the objects of *same* are not copied.
        """
        ...


class IncrementalCache:
    """The results of earlier runs over a text; initially empty.

    A run that an exception ends leaves it valid. Without *edited*, few runs over other states are expected, or none.
    """

    def __init__(self, *, edited: bool = True) -> None:
        self.builds = Builds(edited=edited)
        self.pause: Callable[[], None] = lambda: None
        """Called repeatedly during a run; an exception that it raises ends the run."""
        self.until = inf
        """The deadline of the run, by ``perf_counter``. If checking a function would exceed it, judging by the previous time,
        the result for its latest checked state is used instead, and the function is :attr:`stale`."""
        self.share: Share | None = None
        """What checks the functions of a module in several processes, if anything does."""
        self.stale: set[str] = set()
        """The names of the functions that the last run skipped. The next run over the same state checks them."""
        self._checked: dict[tuple[str, int], list[_Checked]] = {}
        """``(name, index among functions of that name)`` -> the last states that were checked, the latest first."""

    @property
    def owing(self) -> bool:
        """Whether the last run skipped a function."""
        return bool(self.stale)

    def checked(
        self, module: Module, function: Function, facts: Facts, check: Callable[[Function], CheckResult]
    ) -> CheckResult:
        """The result of the checks of *function*, whose calls are inlined; *check* is called if it is not cached."""
        key = _key(module, function)
        called = reached(function, module)
        recent = self._checked.setdefault(key, [])
        known = next((state for state in recent if state.holds(function, facts, called)), None)
        if known is None:
            began = perf_counter()
            if recent and began + recent[0].seconds > self.until:
                self.stale.add(function.name)
                return recent[0].moved(function).of(facts.on)
            result = check(function)
            known = _Checked(function, facts, called, result, perf_counter() - began)
        else:
            recent.remove(known)
            known = replace(
                known, function=function, called=called
            )  # the next state shares most objects with it
        self._checked[key] = [known, *recent[: MAX_RECENT_STATES - 1]]
        return known.result.of(facts.on)

    def knows(self, module: Module, function: Function, facts: Facts) -> bool:
        """Whether :meth:`checked` has the result without calling *check*."""
        recent = self._checked.get(_key(module, function), ())
        return bool(recent) and any(s.holds(function, facts, reached(function, module)) for s in recent)

    def forget_all_but(self, module: Module) -> None:
        """Forget the functions that are not in *module*.

        Call it only if the text has no errors: a broken function may return.
        """
        names = {function.name for function in module.functions}
        self._checked = {key: known for key, known in self._checked.items() if key[0] in names}


def _key(module: Module, function: Function) -> tuple[str, int]:
    """The name of a function of *module*, and its index among the functions of that name."""
    same = module.by_name[function.name]
    return function.name, next(n for n, f in enumerate(same) if f.start == function.start)
