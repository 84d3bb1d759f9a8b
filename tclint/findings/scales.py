"""The two scales of a finding, how serious the defect is and how certain tclint is of it, and the method that found it."""

from __future__ import annotations

from enum import Enum, IntEnum

__all__ = ["Confidence", "Method", "Severity"]


class _Scale(IntEnum):
    @property
    def label(self) -> str:
        """The name that users read and write: ``warning``."""
        return self.name.lower()


class Severity(_Scale):
    """How serious the defect is according to the ISA."""

    INFO = 1
    """Legal, but worth knowing."""
    WARNING = 2
    """It violates the ISA but works in practice, or a heuristic decided."""
    ERROR = 3
    """Undefined or illegal behaviour, a hang or a leak."""


class Confidence(_Scale):
    """How certain tclint is."""

    LOW = 1
    """Counted, but shown only on request."""
    MEDIUM = 2
    """It depends on an assumption that the finding states."""
    HIGH = 3
    """It follows from the code."""
    CONFIRMED = 4
    """The executor observed it; no check may assign this."""


class Method(str, Enum):
    """How tclint found a defect. The value is what users read."""

    STATIC = "static"
    """It follows from the code, for all launches."""
    REPLAY = "replay"
    """It was observed in replays of the kernel's synchronisation, for assumed launches (:mod:`tclint.replay`)."""
    EXECUTION = "execution"
    """It was observed when the kernel was executed, to confirm the finding (:mod:`tclint.driver.confirm`) or since it had
    none (:mod:`tclint.driver.executing`)."""
