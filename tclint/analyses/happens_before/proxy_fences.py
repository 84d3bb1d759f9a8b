"""Proxy fences on a path of causality through other threads (PTX ISA 8.9.5).

A pair of accesses through two proxies is ordered if a path of base causality from one to the other passes a fence
between the proxies, whichever thread executes it. A fence that one of the two threads executes between the access and
the synchronisation is on the path that a caller follows. This is about fences after it: a thread that is ordered after
the first access executes a fence and signals, and the thread of the second access waits for that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tclint.analyses.happens_before.may import MayOrder
from tclint.analyses.mbarriers import first_waits_for
from tclint.analyses.role_paths import dominated_by
from tclint.isa.effects import Barrier, Resource

__all__ = ["fences_between", "returns_at_once"]


def fences_between(may: MayOrder, first: int, then: int, fences: Collection[int]) -> Iterator[int]:
    """Those of *fences* by which other threads may order *first* before *then*, where both execute first.

    The fence follows a wait that may observe *first*, and dominates a signal for which *then* waits on every path.
    """
    model, points = may.model, may.points
    views = model.views
    # Only the thread index shows that both run in one CTA: a condition may select one of the two for all threads.
    threads = views.context_of(then).threads
    candidates = [fence for fence in fences if not views.context_of(fence).threads & threads]
    if not candidates:
        return
    observers = may.observed_after(frozenset((first,)), frozenset())
    awaited = {
        wait
        for wait in points.waits
        if dominated_by(model, wait, then)
        and not views.mutually_exclusive(wait, then)
        and not returns_at_once(may, first, wait)
    }
    for fence in candidates:
        told = any(
            dominated_by(model, wait, fence)
            and not views.mutually_exclusive(wait, fence)
            and not returns_at_once(may, first, wait)
            for wait in observers
        )
        signals = [i for i in points.signals if dominated_by(model, fence, i)] if told else []
        if any(awaited & may.signalled_elsewhere({i}, fence, through=False) for i in signals):
            yield fence


def returns_at_once(may: MayOrder, start: int, wait: int) -> bool:
    """Whether the first execution of *wait* returns at once, before *start* has been executed.

    It does so if it waits for parity 1, no phase can complete before *start*, and the thread has not waited for the
    mbarrier before.
    """
    model, mbarriers = may.model, may.points.mbarriers
    for ring in mbarriers.rings_at(wait):
        for i, effects in ring.uses.items():
            if effects.awaits is Barrier.MBARRIER:
                if i != wait and model.reaches(i, wait) and not model.reaches(wait, i):
                    return False
            elif effects.resource is not Resource.MBARRIER_INIT and model.reaches(-1, i, (start,)):
                return False
    return first_waits_for(model, wait, 1)
