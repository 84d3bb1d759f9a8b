"""What a prover found out about one class of hazards in one kernel."""

from __future__ import annotations

from tclint._dataclass import dataclass
from tclint.findings.spans import Span
from tclint.findings.verdicts import Assumption, Obligation, Reason
from tclint.ir.nodes import Function

__all__ = ["Outcome", "ordered", "span"]


@dataclass(frozen=True)
class Outcome:
    """The obligations of a class, and why they are not all discharged."""

    obligations: tuple[Obligation, ...] = ()
    reasons: tuple[Reason, ...] = ()
    """Empty if the class is proved."""
    assumptions: frozenset[Assumption] = frozenset()
    """What the proof rests on."""


def span(function: Function, site: int) -> Span:
    """The bytes of an instruction of *function* in its module."""
    instruction = function.instructions[site]
    return Span(function.start + instruction.start, function.start + instruction.end)


def ordered(assumptions: frozenset[Assumption]) -> tuple[Assumption, ...]:
    """*assumptions* in the order of their definition."""
    return tuple(assumption for assumption in Assumption if assumption in assumptions)
