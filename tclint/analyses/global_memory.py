"""The bytes of global memory that are read, and those that a bulk copy writes."""

from __future__ import annotations

from tclint.isa.effects import BULK, CP_ASYNC, TRANSACTIONS
from tclint.isa.forms import Match
from tclint.values.shared_memory import SharedMemory

__all__ = ["GlobalMemory"]


class GlobalMemory(SharedMemory):
    """Accesses to global memory, whose addresses are compared like those of shared memory."""

    @staticmethod
    def touches(match: Match) -> bool:
        form = match.form
        if form.memory:
            return match.space in ("", ".global") and any(verb == "read" for verb, _ in form.memory)
        (side,) = GlobalMemory.sides(match)
        return side in form.roles and form.group in (CP_ASYNC, BULK, TRANSACTIONS)

    @staticmethod
    def sides(match: Match) -> tuple[str, ...]:
        return ("destination",) if match.form.group == BULK else ("source",)
