"""The phases of a CTA barrier and of the cluster barrier (PTX ISA 9.7.13.1, 9.7.13.3)."""

from __future__ import annotations

from dataclasses import field

from tclint._dataclass import dataclass

__all__ = ["BarrierArrivals"]


@dataclass(slots=True)
class BarrierArrivals:
    """How many threads have arrived. The caller knows how many an arrival counts: a whole warp where a count is given."""

    arrived: int = field(init=False)
    """The threads that have arrived in the current phase."""
    phase: int = field(init=False)
    """The phases that are complete."""

    def __post_init__(self) -> None:
        self.arrived, self.phase = 0, 0

    def arrive(self, threads: int) -> None:
        self.arrived += threads

    def complete_phase(self, expected: int) -> bool:
        """Completes the current phase if *expected* threads have arrived: whether it did. More count for the next one."""
        if self.arrived < expected:
            return False
        self.arrived -= expected
        self.phase += 1
        return True
