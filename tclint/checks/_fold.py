"""One finding for all instructions that have the same fault in an operand."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.checks import Hit, Mark
from tclint.finding import Confidence
from tclint.ir.nodes import Operand, registers
from tclint.model import KernelModel

__all__ = ["Faults", "name_of"]


def name_of(model: KernelModel, site: int) -> str:
    """The first two words of an opcode: ``tcgen05.mma``."""
    return ".".join(model.instruction(site).opcode.split(".")[:2])


class Faults:
    """Faults in operands of one kernel; equal ones are counted."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._found: dict[tuple[str, str, str, Confidence | None], list[tuple[int, Operand | None]]] = {}

    def add(
        self,
        rule: str,
        site: int,
        operand: Operand | None,
        message: str,
        remedy: str,
        confidence: Confidence | None = None,
    ) -> None:
        """The instruction at *site* has a fault in *operand*."""
        self._found.setdefault((rule, message, remedy, confidence), []).append((site, operand))

    def hits(self) -> Iterator[tuple[str, Hit]]:
        """What was found, the first place of each fault shown."""
        for (rule, message, remedy, confidence), places in self._found.items():
            site, operand = places[0]
            hit = Hit(
                site=site,
                message=message,
                steps=(*self._made(operand), Mark(site, f"{name_of(self.model, site)} takes it")),
                count=len({at for at, _ in places}),
                help=remedy,
                confidence=confidence,
            )
            yield rule, hit

    def _made(self, operand: Operand | None) -> tuple[Mark, ...]:
        """Where the register of *operand* gets its value, if that is one place."""
        used = registers(operand) if operand is not None else ()
        places = self.model.values.defs.get(used[0], []) if used else []
        return (Mark(places[0], "the operand is made here"),) if len(places) == 1 else ()
