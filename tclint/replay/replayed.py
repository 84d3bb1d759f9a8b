"""Which kernels are replayed. This imports nothing of what replays them."""

from __future__ import annotations

from tclint.dataflow.kernel import Kernel
from tclint.isa.effects import Barrier, Resource
from tclint.values import thread_masks as T

__all__ = ["replayed"]


def replayed(model: Kernel) -> bool:
    """Whether threads of a kernel may deadlock, or race, in a way that only a replay shows."""
    return model.function.entry and (
        bool(model.sites(Resource.MBARRIER_INIT)) or _shares_memory(model) or _barriers_of_some(model)
    )


def _shares_memory(model: Kernel) -> bool:
    """Whether warps share memory of a CTA whose size is left open: static analysis compares the others in full."""
    return bool(model.shared.writers) and model.function.threads is None and model.values.threads > 32


def _barriers_of_some(model: Kernel) -> bool:
    """Whether some CTA or cluster barrier is not for all threads of the CTA alike, so that threads may deadlock.

    Conditions that do not depend on the thread keep all threads from a barrier, or none.
    """
    size = model.values.threads
    return any(
        _executing(model, i) != T.full(size)
        or (model.instruction(i).role("count") is not None and model.constant_of(i, "count") != size)
        for i in model.where(lambda effects: effects.barrier in (Barrier.CTA, Barrier.CLUSTER))
    )


def _executing(model: Kernel, site: int) -> T.Threads:
    """The threads that may execute *site*, by the branches that decide on the thread index, and by its guard."""
    instruction, threads = model.instruction(site), model.reachability.threads_at
    here = threads.get(model.cfg.block_of[site], 0)
    if instruction.guard < 0:
        return here
    guard = model.values.before(instruction.guard, site)
    return here & model.values.feasible_threads(guard, not instruction.negated)
