"""The settings of a run: one frozen dataclass."""

from __future__ import annotations

from dataclasses import dataclass

from tclint.finding import Severity


@dataclass(frozen=True, slots=True)
class Config:
    """What the user asked for, apart from how it is displayed."""

    fail_on: Severity | None = Severity.WARNING
    """The lowest severity that makes the exit code 1; None: no finding does."""

    pedantic: bool = False
    """Show findings of low confidence, and let them count for the exit code."""

    toolkit: tuple[int, int] | None = None
    """The CUDA toolkit whose ptxas will compile the code, ``(12, 8)``; None: not named."""
