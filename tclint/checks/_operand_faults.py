"""One hit for all instructions with the same fault in an operand."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from tclint._named_tuple import NamedTuple
from tclint.checks import Hit, Mark, RuleId, grouped
from tclint.dataflow.kernel import Kernel
from tclint.findings.scales import Severity
from tclint.ir.nodes import Operand, registers

__all__ = ["OperandFault", "merged"]


class OperandFault(NamedTuple):
    """A fault in an operand of the instruction at *site*."""

    rule: RuleId
    site: int
    operand: Operand | None
    message: str
    remedy: str
    severity: Severity | None = None
    doubt: str = ""
    cause: Hashable = None
    """What faults must share to make one hit; None: the message."""
    origins: tuple[Mark, ...] = ()
    """The instructions that may be wrong instead."""


def merged(model: Kernel, faults: Iterable[OperandFault]) -> Iterator[Hit]:
    """One hit for each cause and doubt: at its first instruction, with the number of instructions affected."""
    keyed = (((f.rule, f.cause or f.message, f.severity, f.doubt), f) for f in faults)
    for equivalent in grouped(keyed).values():
        first = min(equivalent, key=lambda fault: fault.site)
        yield first.rule.hit(
            site=first.site,
            message=first.message,
            steps=(
                *first.origins,
                *_definition(model, first.operand),
                Mark(first.site, f"{model.name(first.site)} uses it"),
            ),
            count=len({fault.site for fault in equivalent}),
            help=first.remedy,
            severity=first.severity,
            about=frozenset(mark.site for mark in first.origins),
        ).doubted(first.doubt)


def _definition(model: Kernel, operand: Operand | None) -> tuple[Mark, ...]:
    """A mark at the definition of the first register of *operand*; empty unless there is exactly one."""
    used = registers(operand) if operand is not None else ()
    definitions = model.values.defs.get(used[0], []) if used else []
    return (Mark(definitions[0], "the operand is defined here"),) if len(definitions) == 1 else ()
