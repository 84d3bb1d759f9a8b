"""The fault that the replay of a kernel shows.

Most kernels are not replayed, and this is decided without importing what replays them, since that takes as long as
linting a small kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tclint.analyses.model import KernelModel
from tclint.dataflow import GaveUp
from tclint.replay.replayed import replayed

if TYPE_CHECKING:
    from tclint.replay.interface import Faulty
    from tclint.replay.launches import ReplayRun

__all__ = ["fault", "proven_fault", "replayed_without_fault"]


def fault(model: KernelModel) -> Faulty | None:
    """The fault that the replays of a kernel show; None if they show none, or the kernel is not replayed."""
    if not replayed(model):
        return None
    from tclint.replay.interface import Faulty
    from tclint.replay.verdict import Replay

    verdict = model.fact(Replay).verdict
    return verdict if isinstance(verdict, Faulty) else None


def proven_fault(model: KernelModel) -> ReplayRun | None:
    """The launch that shows a fault, if the kernel is faulty in all that reach it without an assumption."""
    found = fault(model)
    return found.run if found is not None and found.needs is None else None


def replayed_without_fault(model: KernelModel, sites: Iterable[int]) -> bool:
    """Whether the replays of a kernel reached a verdict, and one of them executed all *sites* without a fault."""
    if not replayed(model):
        return False
    from tclint.replay.verdict import Replay

    replay, blocks = model.fact(Replay), {model.cfg.block_of[i] for i in sites}
    return not isinstance(replay.verdict, GaveUp) and any(
        not run.wrong and run.entered.issuperset(blocks) for run in replay.runs
    )
