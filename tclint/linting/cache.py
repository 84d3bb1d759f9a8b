"""What earlier runs over a text found out, for the run over its next state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import takewhile
from math import inf
from operator import eq
from time import perf_counter

from tclint.checks import Hit
from tclint.config.config import Config
from tclint.findings.finding import Edit
from tclint.ir.inline import reached
from tclint.ir.nodes import Function, Module, Variable
from tclint.ir.rebuild import Builds, same_program
from tclint.isa.target import Version

__all__ = ["CheckResult", "Facts", "IncrementalCache"]

CheckResult = tuple[tuple[Hit, ...], tuple[str, ...]]
"""What the checks say of a function, and which analyses gave up."""
_RECENT = 3
"""States of a function that stay known, so that what is undone or typed again costs no analysis."""


@dataclass(frozen=True)
class Facts:
    """What the checks of a function may ask of its module, and of the run."""

    config: Config
    version: Version | None
    targets: tuple[str, ...]
    address_size: int
    variables: dict[str, Variable]
    bodies: tuple[str, ...]
    """The functions that have one."""

    @classmethod
    def of(cls, module: Module, config: Config) -> Facts:
        bodies = tuple(f.name for f in module.functions if f.instructions)
        return cls(config, module.version, module.targets, module.address_size, module.variables, bodies)


@dataclass(frozen=True, eq=False)
class _Checked:
    """What the checks said of one function, and all that they could look at."""

    function: Function
    facts: Facts
    called: tuple[Function, ...]
    """The functions that it calls, directly or not."""
    said: CheckResult
    seconds: float
    """How long they took."""

    def holds(self, function: Function, facts: Facts, called: tuple[Function, ...]) -> bool:
        """Whether they would say the same of *function*, but for where it stands."""
        return (
            not any(_placed(hit) for hit in self.said[0])
            and self.facts == facts
            and same_program(self.function, function)
            and len(self.called) == len(called)
            and all(map(same_program, self.called, called))
        )

    def moved(self, function: Function) -> CheckResult:
        """What they said, as far as all that it is about stands in *function* as well."""
        old, new = ([ins.opcode for ins in f.instructions] for f in (self.function, function))
        first = _alike(old, new)
        last = min(_alike(reversed(old), reversed(new)), len(old) - first, len(new) - first)

        def place(site: int) -> int:
            """Where the instruction is now; -1: it is not there, or another one."""
            return site if site < first else site + len(new) - len(old) if site >= len(old) - last else -1

        hits, limits = self.said
        found = (_moved(hit, place) for hit in hits)
        return tuple(hit for hit in found if hit is not None), limits


def _alike(one: Iterable[str], other: Iterable[str]) -> int:
    """How many items both begin with."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))


def _placed(hit: Hit) -> bool:
    """Whether it says where in the text something is, and not only at which instruction: an edit would move that."""
    return hit.span is not None or any(isinstance(c, Edit) for fix in hit.fixes for c in fix.changes)


def _moved(hit: Hit, place: Callable[[int], int]) -> Hit | None:
    """*hit* at the places that its instructions have now, without its fixes: nobody has tried them there."""
    steps = tuple(replace(mark, site=place(mark.site)) for mark in hit.steps)
    about = frozenset(map(place, hit.about))
    found = replace(hit, site=place(hit.site), steps=steps, about=about, fixes=())
    whole = found.site >= 0 and -1 not in about and all(mark.site >= 0 for mark in steps)
    own = hit.span is None and hit.function is None and all(mark.function is None for mark in steps)
    return found if whole and own else None


class IncrementalCache:
    """What earlier runs over a text found out; one that has none starts afresh.

    A run that an exception ended leaves it as good as it was.
    """

    def __init__(self) -> None:
        self.builds = Builds()
        self.pause: Callable[[], None] = lambda: None
        """Called again and again during a run; what it raises ends the run."""
        self.until = inf
        """When the run is to end, by ``perf_counter``. What the checks said of an earlier state of a function stands
        in for what they would say of this one, if they took longer than that last time; :attr:`owing` tells."""
        self.owing = False
        """Whether the last run left anything out. The next run over the same state makes up for it."""
        self._checked: dict[tuple[str, int], list[_Checked]] = {}
        """By name, and which of that name: the last states that were checked, the latest first."""

    def checked(
        self, module: Module, function: Function, facts: Facts, check: Callable[[Function], CheckResult]
    ) -> CheckResult:
        """What the checks say of *function*, its calls inlined; they are run (*check*) if that is not known."""
        same = [f for f in module.functions if f.name == function.name]
        key = function.name, next(n for n, f in enumerate(same) if f.start == function.start)
        called = reached(function, module.functions)
        recent = self._checked.setdefault(key, [])
        known = next((past for past in recent if past.holds(function, facts, called)), None)
        if known is None:
            began = perf_counter()
            if recent and began + recent[0].seconds > self.until:
                self.owing = True
                return recent[0].moved(function)
            said = check(function)
            known = _Checked(function, facts, called, said, perf_counter() - began)
        else:
            recent.remove(known)
            known = replace(
                known, function=function, called=called
            )  # the next state shares most objects with it
        self._checked[key] = [known, *recent[: _RECENT - 1]]
        return known.said

    def forget_all_but(self, module: Module) -> None:
        """Forget functions that *module* lacks. One that is only broken for the moment should stay known."""
        names = {function.name for function in module.functions}
        self._checked = {key: known for key, known in self._checked.items() if key[0] in names}
