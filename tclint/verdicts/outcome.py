"""What a prover found out about one class of hazards in one kernel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tclint._dataclass import dataclass
from tclint.dataflow import PathQuery
from tclint.findings.spans import Span
from tclint.findings.verdicts import Assumption, Obligation, Reason

__all__ = ["Outcome", "merged", "ordered"]

MAX_REASONS = 20
"""The reasons that a verdict names; an unrolled loop repeats them, but hardly ever differs in them."""


@dataclass(frozen=True)
class Outcome:
    """The obligations of a class, and why they are not all discharged."""

    obligations: tuple[Obligation, ...] = ()
    reasons: tuple[Reason, ...] = ()
    """Empty if the class is proved."""
    assumptions: frozenset[Assumption] = frozenset()
    """What the proof rests on."""
    closed: tuple[PathQuery, ...] = ()
    """The searches that found no path, where the proof rests on that."""


def ordered(assumptions: frozenset[Assumption]) -> tuple[Assumption, ...]:
    """*assumptions* in the order of their definition."""
    return tuple(assumption for assumption in Assumption if assumption in assumptions)


def merged(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """The first of *reasons*, in their order; those that differ in the instruction alone are one reason."""
    places: dict[tuple[str, str], dict[Span | None, None]] = {}
    first: dict[tuple[str, str], Reason] = {}
    for reason in reasons:
        key = reason.what, reason.help
        first.setdefault(key, reason)
        places.setdefault(key, {}).update(dict.fromkeys((reason.at, *reason.also)))
    return tuple(
        replace(reason, also=tuple(at for at in places[key] if at not in (None, reason.at)))
        for key, reason in list(first.items())[:MAX_REASONS]
    )
