"""What a prover found out about one class of hazards in one kernel."""

from __future__ import annotations

from tclint._dataclass import dataclass
from tclint.dataflow import PathQuery
from tclint.findings.verdicts import Assumption, Obligation, Reason

__all__ = ["Outcome", "ordered"]


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
