"""The two scales of a finding: how serious the ISA makes the defect, and how tclint knows of it."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Confidence", "Severity"]


class _Scale(IntEnum):
    @property
    def label(self) -> str:
        """The name that users read and write: ``warning``."""
        return self.name.lower()


class Severity(_Scale):
    """What the ISA says about the code."""

    INFO = 1
    """Legal, but worth knowing."""
    WARNING = 2
    """The ISA requires otherwise but practice tolerates it, or a heuristic decided."""
    ERROR = 3
    """Undefined, illegal, a hang or a leak."""


class Confidence(_Scale):
    """How tclint knows."""

    LOW = 1
    """Counted, but shown only on request."""
    MEDIUM = 2
    """Rests on an assumption that the finding states."""
    HIGH = 3
    """Follows from the code."""
    CONFIRMED = 4
    """The executor saw it happen; no check may claim it."""
