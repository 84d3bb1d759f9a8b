"""The fault that the replay of a kernel shows.

Most kernels are not replayed, and this is decided without importing what replays them, since that takes as long as
linting a small kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tclint.analyses.model import KernelModel
from tclint.replay.replayed import replayed

if TYPE_CHECKING:
    from tclint.replay.launches import ReplayRun

__all__ = ["proven_fault"]


def proven_fault(model: KernelModel) -> ReplayRun | None:
    """The launch that shows a fault, if the kernel is faulty in all that reach it without an assumption."""
    if not replayed(model):
        return None
    from tclint.replay.interface import Faulty
    from tclint.replay.verdict import Replay

    verdict = model.fact(Replay).verdict
    return verdict.run if isinstance(verdict, Faulty) and verdict.equal is None else None
