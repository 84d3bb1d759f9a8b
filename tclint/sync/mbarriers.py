"""The phases of an mbarrier object (PTX ISA 9.7.13.15.2 to 9.7.13.15.7)."""

from __future__ import annotations

from dataclasses import field

from tclint._dataclass import dataclass

__all__ = ["MAX_COUNT", "Mbarrier"]

MAX_COUNT = (1 << 20) - 1
"""The largest arrival count, and the largest absolute tx-count."""


@dataclass(slots=True)
class Mbarrier:
    """What the current phase lacks. No operation completes it by itself: :meth:`complete_phase` follows when it may.

    How many bytes a copy transfers may be unknown, as a launch or the box of a tensor map decides it.
    """

    count: int
    """The arrivals that each later phase expects."""
    pending: int = field(init=False)
    """The arrivals that the current phase lacks; negative after too many."""
    bytes: int = field(init=False)
    """The tx-count: what is expected in this phase and not yet received, in units of the operations."""
    received_unknown: bool = field(init=False)
    """A copy of unknown size has completed in this phase, so the tx-count is unknown too."""
    phase: int = field(init=False)
    """The phases that are complete."""

    def __post_init__(self) -> None:
        self.pending, self.bytes, self.received_unknown, self.phase = self.count, 0, False, 0

    def arrive(self, arrivals: int, drop: bool = False) -> None:
        """Arrives so many times; with *drop*, later phases expect so many fewer (9.7.13.15.14)."""
        self.pending -= arrivals
        if drop:
            self.count -= arrivals

    def expect_arrivals(self, arrivals: int) -> None:
        """Lets the current phase expect so many more (9.7.13.15.15)."""
        self.pending += arrivals

    def expect_tx(self, bytes_: int) -> None:
        self.bytes += bytes_

    def complete_tx(self, bytes_: int | None) -> None:
        """None: an unknown number of bytes."""
        self.bytes -= bytes_ or 0
        self.received_unknown |= bytes_ is None

    def complete_phase(self, suffices: bool = False) -> bool:
        """Completes the current phase if it lacks nothing (9.7.13.15.6): whether it did.

        *suffices*: what copies of unknown size have transferred is taken to be all that the phase expects.
        """
        if self.pending or (not suffices if self.received_unknown else self.bytes):
            return False
        self.phase += 1
        self.pending, self.bytes, self.received_unknown = self.count, 0, False
        return True

    def complete(self, parity: int) -> bool:
        """Whether the phase of *parity* is complete: the current phase has the other parity (9.7.13.15.16)."""
        return (self.phase ^ parity) & 1 == 1

    def passed(self, phase: int) -> bool:
        """Whether *phase*, which the state that an arrival returned names, is complete."""
        return self.phase > phase
