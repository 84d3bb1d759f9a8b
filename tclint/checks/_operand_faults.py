"""One finding for all instructions that have the same fault in an operand."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, grouped
from tclint.findings.scales import Confidence, Severity
from tclint.ir.nodes import Operand, registers

__all__ = ["OperandFaults"]


class _Fault(NamedTuple):
    site: int
    operand: Operand | None
    message: str
    remedy: str
    origins: tuple[Mark, ...]


class OperandFaults:
    """Faults in operands of one kernel; those of one cause are counted, and the first is shown."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._found: list[tuple[tuple[RuleId, Hashable, Confidence | None, Severity | None], _Fault]] = []

    def add(
        self,
        rule: RuleId,
        site: int,
        operand: Operand | None,
        message: str,
        remedy: str,
        *,
        confidence: Confidence | None = None,
        severity: Severity | None = None,
        cause: Hashable = None,
        origins: Iterable[Mark] = (),
    ) -> None:
        """The instruction at *site* has a fault in *operand*; without a *cause*, the message is that.

        *origins* are the instructions that may be wrong instead.
        """
        key = rule, cause or message, confidence, severity
        self._found.append((key, _Fault(site, operand, message, remedy, tuple(origins))))

    def hits(self) -> Iterator[Hit]:
        """What was found."""
        for (rule, _, confidence, severity), faults in grouped(self._found).items():
            first = min(faults, key=lambda fault: fault.site)
            yield rule.hit(
                site=first.site,
                message=first.message,
                steps=(
                    *first.origins,
                    *self._made(first.operand),
                    Mark(first.site, f"{self.model.name(first.site)} takes it"),
                ),
                count=len({fault.site for fault in faults}),
                help=first.remedy,
                confidence=confidence,
                severity=severity,
                about=frozenset(mark.site for mark in first.origins),
            )

    def _made(self, operand: Operand | None) -> tuple[Mark, ...]:
        """Where the register of *operand* gets its value, if that is one place."""
        used = registers(operand) if operand is not None else ()
        places = self.model.values.defs.get(used[0], []) if used else []
        return (Mark(places[0], "the operand is made here"),) if len(places) == 1 else ()
