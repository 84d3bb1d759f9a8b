"""Loads and stores of tensor memory by several warps since they last synchronised (PTX ISA 9.7.16.1, 9.7.16.8).

A warp accesses the lanes that its rank in its warpgroup selects, so only warps of the same rank share lanes. What two
such warps do to the same columns is a race unless synchronisation orders them, as in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.since_barrier import ReadsSince, WritesSince
from tclint.analyses.tensor_memory import TensorMemory
from tclint.analyses.warp_memory import SharedByBound
from tclint.isa.effects import TCGEN05_ST, TENSOR_MEMORY
from tclint.isa.forms import Match
from tclint.values.shared_memory import SharedAccess

__all__ = ["TmemByWarps", "TmemReadsSince", "TmemWritesSince"]

_WARPGROUP = 128
"""Threads of a warpgroup."""


class TmemByWarps(SharedByBound):
    """The columns of tensor memory that threads load and store, in place of bytes of shared memory."""

    on_paths = False

    @staticmethod
    def touches(match: Match) -> bool:
        return match.form.effects.begins is not None and match.form.group in TENSOR_MEMORY

    def _find(self, site: int, match: Match) -> Iterator[SharedAccess]:
        columns = self.model.fact(TensorMemory).range(site, "taddr")
        if columns is not None:
            yield SharedAccess(site, match.form.group == TCGEN05_ST, columns.start, columns.columns)

    @staticmethod
    def shares(first: int, other: int) -> bool:
        """Whether two warps, given by their first threads, access the same lanes."""
        return first != other and (first - other) % _WARPGROUP == 0

    def counts(self, access: SharedAccess) -> bool:
        """Whether the columns of *access* and the threads that execute it are known."""
        threads = self.model.views.context_of(access.site).threads
        return self.executed.certainly(access.site) and self.placed(access, threads)


class TmemReadsSince(ReadsSince):
    """The loads of tensor memory with no acquire point since."""

    kind = TmemByWarps


class TmemWritesSince(WritesSince):
    """The stores to tensor memory with no acquire point since."""

    kind = TmemByWarps
