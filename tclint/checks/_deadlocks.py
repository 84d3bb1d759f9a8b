"""The parties of a deadlock that a replay ends in: which threads wait for what, and why that does not come."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.objects import ObjectNames
from tclint.checks import Blocked, Mark
from tclint.checks._wording import times
from tclint.isa.effects import Barrier
from tclint.replay.sync import ReplayBarrier, ReplayMbarrier

if TYPE_CHECKING:
    from tclint.replay.launches import ReplayRun
    from tclint.replay.thread_groups import Stuck

__all__ = [
    "MAX_PARTIES",
    "arrivals",
    "called",
    "completing",
    "incomplete",
    "parties",
    "threads_in_words",
]

MAX_PARTIES = 5
"""Parties of a deadlock that are reported. In a deadlocked pipeline, each role is one."""
_MAX_ARRIVALS = 4
"""Operations that would complete a wait and are reported."""


def parties(model: KernelModel, run: ReplayRun, first: Stuck) -> tuple[Blocked, ...]:
    """The parties of the deadlock of *run*, from *first* on: each is followed by those that its arrivals wait for."""
    stuck = list({(s.site, s.threads): s for s in run.deadlocks}.values())
    order, found = [first], list[Blocked]()
    for party in order:
        if len(found) == MAX_PARTIES:
            break
        arrivals = list[Mark]()
        for site in completing(model, party):
            blocking = _blocking(model, stuck, party, site)
            if len(arrivals) < _MAX_ARRIVALS:
                arrivals.append(_arrival(model, run, party, site, blocking))
            if blocking is not None and blocking not in order:
                order.append(blocking)
        found.append(Blocked(_wait(model, party), tuple(arrivals)))
        if len(found) == len(order):  # the cycle is closed; others wait for it, or form another one
            order += [s for s in stuck if s not in order][:1]
    return tuple(found)


def threads_in_words(model: KernelModel, threads: Collection[int]) -> str:
    """The threads with these indices: ``warps 4-7``."""
    return model.describe_threads(_mask(threads))


def called(model: KernelModel, what: ReplayMbarrier | ReplayBarrier) -> str:
    """The name of what threads of a replay wait at: ``mbarrier empty[0]``, ``barrier 1``, ``the cluster barrier``."""
    if isinstance(what, ReplayMbarrier):
        return model.fact(ObjectNames).initialised_at(what.site) or "this mbarrier"
    if what.number >= 0:
        return f"barrier {what.number}"
    return "the cluster barrier" if what.expected else "the other lanes"


def incomplete(what: ReplayMbarrier) -> str:
    """What the current phase still needs, in words."""
    if what.pending:
        return f"receives {what.count - what.pending} of {times(what.count)}"
    return f"expects {what.bytes} more bytes than the copies transfer"


def _wait(model: KernelModel, party: Stuck) -> Mark:
    what, role = party.what, threads_in_words(model, party.threads)
    if isinstance(what, ReplayMbarrier):
        words = f"waits for phase {what.phase}, which {incomplete(what)}"
        return Mark(party.site, words, role=role, object=called(model, what))
    if what.expected:
        return Mark(party.site, f"waits: {what.arrived} of {what.expected} threads have arrived", role=role)
    return Mark(party.site, "waits for the other lanes of its mask", role=role)


def arrivals(model: KernelModel, mbarrier: ReplayMbarrier) -> Iterator[int]:
    """The arrivals at an *mbarrier*, in program order."""
    mbarriers = model.fact(Mbarriers)
    rings = {ring for ring in mbarriers.rings if mbarrier.site in ring.inits}
    yield from (i for i in mbarriers.arriving if not rings.isdisjoint(mbarriers.rings_at(i)))


def completing(model: KernelModel, party: Stuck) -> Iterator[int]:
    """The instructions that would complete what *party* waits for, in program order."""
    what, mbarriers = party.what, model.fact(Mbarriers)
    if isinstance(what, ReplayMbarrier):
        if what.pending:
            yield from arrivals(model, what)
        else:
            rings = (ring for ring in mbarriers.rings if what.site in ring.inits)
            yield from sorted({i for ring in rings for i in mbarriers.copies(ring)})
    elif what.number >= 0:
        yield from (i for i in model.arrives(Barrier.CTA) if model.constant_of(i, "id") == what.number)


def _blocking(model: KernelModel, stuck: list[Stuck], party: Stuck, site: int) -> Stuck | None:
    """The party whose wait precedes *site* in threads that may execute it, another one than *party* if possible."""
    threads = model.present(site)
    found = [
        s for s in stuck if _mask(s.threads) & threads and s.site != site and model.reaches(s.site, site)
    ]
    return next((s for s in found if s is not party), found[0] if found else None)


def _arrival(model: KernelModel, run: ReplayRun, party: Stuck, site: int, blocking: Stuck | None) -> Mark:
    """The step of an operation that would complete the wait of *party*, with the reason why it is not executed."""
    threads = model.present(site)
    executed = model.cfg.block_of[site] in run.entered
    lacks_bytes = isinstance(party.what, ReplayMbarrier) and not party.what.pending
    verb, past = ("transfer bytes", "transferred bytes") if lacks_bytes else ("arrive", "arrived")
    deed = f"would {verb} again" if executed else f"would {verb}"
    if blocking is party:
        why = f"{deed}, but only after this wait"
    elif blocking is not None:
        threads &= _mask(blocking.threads)
        why = f"{deed}, but only after the wait for {called(model, blocking.what)}"
    elif executed:
        why = f"{past} before, but does not reach this again"
    else:
        why = f"{deed}, but does not reach this"
    return Mark(site, why, role=model.describe_threads(threads))


def _mask(threads: Collection[int]) -> int:
    return sum(1 << thread for thread in threads)
