"""The check of shared memory that lanes of one warp exchange without synchronising (PTX ISA 8.9.4, 9.7.13.2).

The lanes of a warp need not run in step, so a lane that reads what another lane has stored must be ordered after it.
Where that happens without ``bar.warp.sync``, the code usually works, because the warp has not diverged. What a lane has
copied with ``cp.async`` and waited for is a note: no GPU has been seen to wait for less than the copies of the warp.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from tclint.analyses.cp_async import LaneWaitedCopies
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import Conflict, OverlapSearch, Route
from tclint.analyses.plausibility import skips
from tclint.analyses.since_barrier import LaneWritesSince
from tclint.analyses.warp_memory import SharedByBound
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.findings.scales import Severity
from tclint.isa.effects import CP_ASYNC
from tclint.values import thread_masks as T
from tclint.values.shared_memory import SharedAccess

SM002 = RuleId("SM002")

_INDEPENDENT = 70
"""The first target on which the lanes of a warp are scheduled independently."""
_SYNCHRONISED = "on other paths between the two, the lanes synchronise"


@check(SM002, analyses=(LaneWaitedCopies, LaneWritesSince, SharedByBound))
def exchanged_without_warp_barrier(model: KernelModel) -> Iterator[Hit]:
    """Report shared memory that a lane reads after another lane of its warp has written it, with no synchronisation."""
    target = model.function.target
    if not model.function.entry or not model.shared.writers or target is None or target.number < _INDEPENDENT:
        return
    block_of = model.cfg.block_of
    for search, hit in ((_exchanges(model), _hit), (_copied(model), _copy_hit)):
        for equivalent in grouped((block_of[each.use.site], each) for each in search).values():
            yield hit(equivalent[0], len({each.use.site for each in equivalent}))


def _exchanges(model: KernelModel) -> OverlapSearch:
    """The search for reads of what other lanes of the warp have written since the warp last synchronised."""
    since, _ = model.solution(LaneWritesSince)
    return since.conflicts(
        since.firsts,
        lambda access: not access.writes and not access.later,
        partial(_meet, model, since.memory),
        begins=lambda access: not model.instruction(access.site).event,
        doubt=lambda start, path: skips(model, path, since.ends, _SYNCHRONISED),
    )


def _copied(model: KernelModel) -> Iterable[Conflict]:
    """The reads of what other lanes of the warp have copied with cp.async and waited for, each for its own copies."""
    if not model.begins(CP_ASYNC):
        return ()
    groups, _ = model.solution(LaneWaitedCopies)
    memory = model.fact(SharedByBound)
    return groups.conflicts(
        lambda access: not access.writes and not access.later,
        lambda copy, read, route: (
            all(memory.executed.certainly(access.site) for access in (copy, read))
            and _meet(model, memory, copy, read, route)
        ),
        memory,
        lambda start, path: skips(model, path, groups.synchronising, _SYNCHRONISED),
    )


def _meet(
    model: KernelModel, memory: SharedByBound, write: SharedAccess, read: SharedAccess, route: Route
) -> bool:
    """Whether a lane reads what another lane of its warp writes, and one of the two takes the path."""
    writing, reading = (model.views.context_of(access.site).threads for access in (write, read))
    taking = route.path.threads
    pairs = (writing & taking, reading), (writing, reading & taking)
    return any(_between_lanes(model, memory, write, read, *pair) for pair in pairs)


def _between_lanes(
    model: KernelModel,
    memory: SharedByBound,
    write: SharedAccess,
    read: SharedAccess,
    writing: int,
    reading: int,
) -> bool:
    """Whether, in the first warp that does both, a lane reads bytes that another lane provably writes."""
    writing, reading = next(
        (
            (mine, reading & T.whole(mine, 32))
            for _, mine in T.by_warp(writing)
            if reading & T.whole(mine, 32)
        ),
        (0, 0),
    )
    if not memory.overlap(write, read, writing, reading):
        return False
    if any(model.shared.sites[access.site].scope == "warp" for access in (write, read)):
        return True  # a lane supplies or receives elements of the rows of other lanes
    lanes = (1 << k for k in range(writing.bit_length()) if writing & 1 << k)
    return any(memory.overlap(write, read, lane, reading & ~lane) for lane in lanes)


def _copy_hit(exchange: Conflict, count: int) -> Hit:
    copy, read = exchange.operation.site, exchange.use.site
    return SM002.hit(
        site=read,
        message="reads shared memory that another lane of the warp copies with cp.async: "
        "each lane waits for its own copies only, and no bar.warp.sync follows",
        steps=(
            Mark(copy, "one lane starts to write it, and waits for its own copies"),
            Mark(read, "another lane of the warp reads the same bytes"),
        ),
        count=count,
        help="add bar.warp.sync (__syncwarp()) after the wait",
    ).unshown(Severity.WARNING)


def _hit(exchange: Conflict, count: int) -> Hit:
    write, read = exchange.operation.site, exchange.use.site
    return SM002.hit(
        site=read,
        message="reads shared memory that another lane of the warp has written: no bar.warp.sync orders the two",
        steps=(
            Mark(write, "one lane writes it"),
            Mark(read, "another lane of the warp reads the same bytes"),
        ),
        count=count,
        help="add bar.warp.sync (__syncwarp()) between the two",
    )
