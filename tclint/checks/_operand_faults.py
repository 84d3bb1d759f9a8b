"""One hit for all instructions with the same fault in an operand."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, grouped
from tclint.findings.scales import Severity
from tclint.ir.nodes import Operand, registers

__all__ = ["OperandFaults"]


class _Fault(NamedTuple):
    site: int
    operand: Operand | None
    message: str
    remedy: str
    origins: tuple[Mark, ...]


class OperandFaults:
    """Collects the operand faults of one kernel and merges those with the same cause into one counted hit."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._found: list[tuple[tuple[RuleId, Hashable, Severity | None, str], _Fault]] = []

    def add(
        self,
        rule: RuleId,
        site: int,
        operand: Operand | None,
        message: str,
        remedy: str,
        *,
        severity: Severity | None = None,
        doubt: str = "",
        cause: Hashable = None,
        origins: Iterable[Mark] = (),
    ) -> None:
        """Record a fault in *operand* of the instruction at *site*.

        Faults with the same *cause* and *doubt* make one hit; the cause defaults to the message. *origins* are the instructions
        that may be wrong instead.
        """
        key = rule, cause or message, severity, doubt
        self._found.append((key, _Fault(site, operand, message, remedy, tuple(origins))))

    def hits(self) -> Iterator[Hit]:
        """One hit for each cause: at its first instruction, with the number of instructions affected."""
        for (rule, _, severity, doubt), faults in grouped(self._found).items():
            first = min(faults, key=lambda fault: fault.site)
            yield rule.hit(
                site=first.site,
                message=first.message,
                steps=(
                    *first.origins,
                    *self._definition(first.operand),
                    Mark(first.site, f"{self.model.name(first.site)} uses it"),
                ),
                count=len({fault.site for fault in faults}),
                help=first.remedy,
                severity=severity,
                about=frozenset(mark.site for mark in first.origins),
            ).doubted(doubt)

    def _definition(self, operand: Operand | None) -> tuple[Mark, ...]:
        """A mark at the definition of the first register of *operand*; empty unless there is exactly one."""
        used = registers(operand) if operand is not None else ()
        definitions = self.model.values.defs.get(used[0], []) if used else []
        return (Mark(definitions[0], "the operand is defined here"),) if len(definitions) == 1 else ()
