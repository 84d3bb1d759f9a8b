"""Which bytes of global memory are read, and which ones a bulk copy writes there."""

from __future__ import annotations

from tclint.analyses.shared_memory import SharedMemory
from tclint.isa.table import Match

__all__ = ["GlobalMemory"]


class GlobalMemory(SharedMemory):
    """The same of global memory: addresses are compared alike."""

    @staticmethod
    def touches(match: Match) -> bool:
        form = match.form
        if form.memory:
            return match.space in ("", ".global") and any(verb == "read" for verb, _ in form.memory)
        return GlobalMemory.side(match) in form.roles and form.group in ("cp.async", "bulk", "mbarrier")

    @staticmethod
    def side(match: Match) -> str:
        return "destination" if match.form.group == "bulk" else "source"
