"""The check of memory that lanes of one warp exchange without synchronising (PTX ISA 8.9.4, 9.7.13.2).

The lanes of a warp need not run in step, so accesses of two lanes to the same bytes must be ordered. Where lanes run
together, hardware performs their accesses in order: that is a note. On two sides of a branch, either may run first. What
a lane has copied with ``cp.async`` and waited for is a note too: no GPU has been seen to wait for less than the copies
of the warp.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import chain

from tclint.analyses.cp_async import LaneWaitedCopies
from tclint.analyses.lane_memory import GlobalByLanes, SharedByLanes
from tclint.analyses.lane_races import (
    INDEPENDENT_LANES,
    Diverged,
    conflict_on,
    converged,
    diverged,
    exchanges_on,
)
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import Conflict
from tclint.analyses.plausibility import skips
from tclint.analyses.since_barrier import (
    GlobalLaneReadsSince,
    GlobalLaneWritesSince,
    LaneReadsSince,
    LaneWritesSince,
    SinceBarrier,
)
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._wording import copied_from
from tclint.findings.scales import Severity
from tclint.isa.effects import CP_ASYNC

SM002 = RuleId("SM002")

_SYNCHRONISED = "on other paths between the two, the lanes synchronise"
_COPIED_TOGETHER = "no GPU has been seen to wait for less than the copies of the warp"
_VERBS = {True: "overwrites", False: "reads"}
_FIRST = {True: "writes", False: "reads"}
_HELP = "add bar.warp.sync (__syncwarp()) between the two"
_MEMORIES: tuple[tuple[str, type[SharedByLanes], type[SinceBarrier], type[SinceBarrier]], ...] = (
    ("shared", SharedByLanes, LaneWritesSince, LaneReadsSince),
    ("global", GlobalByLanes, GlobalLaneWritesSince, GlobalLaneReadsSince),
)


@check(SM002, analyses=(GlobalByLanes, LaneWaitedCopies, SharedByLanes))
def exchanged_without_warp_barrier(model: KernelModel) -> Iterator[Hit]:
    """Report memory that a lane accesses unordered with an access of another lane of its warp, one of them a write."""
    target = model.function.target
    if not model.function.entry or target is None or target.number < INDEPENDENT_LANES:
        return

    def place(site: int) -> Hashable:
        return copied_from(model, site) or model.cfg.block_of[site]

    for name, kind, *since in _MEMORIES:
        memory = model.fact(kind)
        if not (memory.writers and memory.exchanges):
            continue
        parted = list(diverged(memory))
        for equivalent in grouped((place(each.second.site), each) for each in parted).values():
            yield _diverged_hit(memory, name, equivalent)
        known = {frozenset((each.first.site, each.second.site)) for each in parted}
        found = [c for each in since for c in converged(memory, each) if frozenset(c.sites) not in known]
        for together in grouped((place(each.use.site), each) for each in found).values():
            yield _converged_hit(memory, name, together)
    for copied in grouped((place(each.use.site), each) for each in _copied(model)).values():
        exchange = next((each for each in copied if not each.doubt), copied[0])
        hit = _copy_hit(model, exchange, len({each.use.site for each in copied}))
        yield hit.doubted(exchange.doubt.why if model.by_letter else _COPIED_TOGETHER)


def _copied(model: KernelModel) -> Iterable[Conflict]:
    """The reads of what other lanes of the warp have copied with cp.async and waited for, each for its own copies."""
    if not model.begins(CP_ASYNC):
        return ()
    groups, _ = model.solution(LaneWaitedCopies)
    memory = model.fact(SharedByLanes)
    return groups.conflicts(
        lambda access: not access.writes and not access.later,
        lambda copy, read, route: (
            all(memory.executed.certainly(access.site) for access in (copy, read))
            and conflict_on(memory, copy, read, route)
        ),
        memory,
        lambda start, path: skips(model, path, groups.synchronising, _SYNCHRONISED),
    )


def _copy_hit(model: KernelModel, exchange: Conflict, count: int) -> Hit:
    copy, read = exchange.operation.site, exchange.use.site
    return SM002.hit(
        site=read,
        message=f"{model.name(read)} reads shared memory that another lane of the warp copies with cp.async: "
        "each lane waits for its own copies only, and no bar.warp.sync follows",
        steps=(
            Mark(copy, "one lane starts to write it, and waits for its own copies"),
            Mark(read, "another lane of the warp reads the same bytes"),
        ),
        count=count,
        help="add bar.warp.sync (__syncwarp()) after the wait",
    ).unshown(Severity.WARNING)


def _converged_hit(memory: SharedByLanes, name: str, equivalent: list[Conflict]) -> Hit:
    """The note about conflicts of lanes that run together, at the uses of one block."""
    conflict = next((each for each in equivalent if not each.doubt), equivalent[0])
    first, second = conflict.operation, conflict.use
    exchanges = {memory.model.instruction(i).name for i in exchanges_on(memory, conflict)}
    pairs = tuple(each.sites for each in equivalent)
    orders = "order" if len(exchanges) > 1 else "orders"
    unordering = f"; {' and '.join(sorted(exchanges))} {orders} no memory" if exchanges else ""
    return (
        SM002.hit(
            site=second.site,
            message=f"{memory.model.name(second.site)} {_VERBS[second.writes]} {name} memory that another lane of the warp "
            f"{'has written' if first.writes else 'may still be reading'}: no bar.warp.sync orders the two{unordering}",
            steps=(
                Mark(first.site, f"one lane {_FIRST[first.writes]} it"),
                Mark(second.site, f"another lane of the warp {_VERBS[second.writes]} the same bytes"),
            ),
            count=len({each.use.site for each in equivalent}),
            pairs=pairs,
            about=frozenset(chain.from_iterable(pairs)),  # where warps are not ordered, lanes are not either
            help=_HELP,
        )
        .unshown(Severity.WARNING)
        .doubted(conflict.doubt.why)
    )


def _diverged_hit(memory: SharedByLanes, name: str, equivalent: list[Diverged]) -> Hit:
    """The finding about conflicts of lanes on two sides of a branch."""
    first, second, branch = next(
        (each for each in equivalent if not all(map(memory.strong, (each.first.site, each.second.site)))),
        equivalent[0],
    )
    if second.writes and not first.writes:
        first, second = second, first
    hit = SM002.hit(
        site=second.site,
        message=f"{memory.model.name(second.site)} {_FIRST[second.writes]} {name} memory that another lane of the warp "
        "writes on the other side of a branch: nothing orders the two, and either side may run first",
        steps=(
            Mark(branch, "sends the two lanes different ways"),
            Mark(first.site, "one lane writes it"),
            Mark(second.site, f"another lane of the warp {_FIRST[second.writes]} the same bytes"),
        ),
        count=len({each.second.site for each in equivalent}),
        pairs=tuple((each.first.site, each.second.site) for each in equivalent),
        help="let the lanes rejoin, and add bar.warp.sync (__syncwarp()) between the two",
    )
    strong = memory.strong(first.site) and memory.strong(second.site)
    return hit.unshown(Severity.WARNING) if strong else hit
