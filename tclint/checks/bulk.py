"""Checks of pending bulk copies from shared to global memory, and their groups (PTX ISA 9.7.9.27.2).

Only the thread that issued a copy can wait for its group, with ``cp.async.bulk.wait_group``. With ``.read``, the wait
ends when the sources have been read. Other threads may overwrite the source only if they are ordered after that wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tclint.analyses.bulk import KNOWN, KNOWN_TO_WARP, BulkReads
from tclint.analyses.global_memory import GlobalMemory
from tclint.analyses.groups import BulkGroups, Groups
from tclint.analyses.happens_before import HappensBefore, OrderScope
from tclint.analyses.issuers import once_for_a_warp
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.overlaps import Conflict, OverlapSearch, Route
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._pending import PendingReason, left_at_the_end
from tclint.checks._repairs import (
    barrier_between,
    waits_before,
    waits_for_all_groups,
    with_opcode,
)
from tclint.dataflow import EXIT, Path
from tclint.findings.edits import Repair, after
from tclint.findings.scales import Confidence, Severity
from tclint.isa.effects import BULK
from tclint.sync.operations import OPEN, OVERDUE
from tclint.values import thread_masks as T
from tclint.values.shared_memory import SharedAccess

BK002 = RuleId("BK002")
BK003 = RuleId("BK003")
BK004 = RuleId("BK004")
BK005 = RuleId("BK005")

_ONCE = "as far as known, ptxas makes the warp issue this copy once, and another lane waits for it"


@check(BK002, BK003, analyses=(BulkReads,))
def sources_in_flight(model: KernelModel) -> Iterator[Hit]:
    """Report writes to the source of a bulk copy that is pending, or whose wait does not order the writing thread. By the
    letter, the end of the CTA is one."""
    operations = model.begins(BULK)
    if not operations:
        return
    groups, results = model.solution(BulkReads)
    meetings = OverlapSearch(
        model,
        results,
        groups,
        frozenset(operations),
        lambda access: access.writes,
        partial(_overwritten, model),
        whole_loops=True,
    )
    found = (
        ((BK003 if meeting.path.state in KNOWN else BK002, *_cause(model, groups, meeting)), meeting)
        for meeting in meetings
    )
    reported = set[int]()
    for (rule, *_), equivalent in grouped(found).items():
        hit = (_unordered if rule == BK003 else _in_flight)(
            model, groups, equivalent[0], {meeting.operation.site for meeting in equivalent}
        )
        reported.update(meeting.operation.site for meeting in equivalent)
        yield replace(hit, pairs=tuple(meeting.sites for meeting in equivalent))
    if model.by_letter and model.function.entry:
        yield from _unread_at_the_end(model, groups, [i for i in operations if i not in reported])


def _unread_at_the_end(model: KernelModel, groups: BulkReads, operations: list[int]) -> Iterator[Hit]:
    """The hit for the first of *operations* whose thread may end while its source is being read: shared memory lives as
    long as its CTA (2.3). Copies that are never committed are left to BK005."""
    commits = model.commits(BULK)
    committed = (i for i in operations if any(model.may_follow(i, c) for c in commits))
    found = left_at_the_end(groups, committed, KNOWN)
    if found is None:
        return
    site, path, doubt = found
    waits, end = _waits(model, path, site), path.last(model.cfg, site)
    yield (
        BK002.hit(
            site=site,
            message=f"the CTA may end while {model.name(site)} is still reading its shared memory: "
            + ("no later wait covers it" if waits else f"no {BULK.words.wait} follows")
            + "; no launch was seen to go wrong",
            steps=(
                Mark(site, f"{model.name(site)} starts to read it"),
                *(Mark(i, "does not wait for it") for i in waits[-1:]),
                Mark(end, "the thread ends here"),
            ),
            help=f"add {BULK.words.wait}.read 0 in the same thread before it ends",
            about=frozenset((site,)),
        )
        .unshown(Severity.WARNING)
        .doubted(doubt.why or _issued_once(model, site, path.threads))
    )


def _cause(model: KernelModel, groups: Groups, meeting: Conflict) -> tuple[int, int]:
    """The loop or block that issues the copy, and how many groups the last wait on the path leaves pending, or -1.

    Conflicts that agree in both have the same missing wait, whatever overwrites the source.
    """
    waits = _waits(model, meeting.path, meeting.operation.site)
    depth = groups.left[waits[-1]] if waits else -1
    return model.cfg.component[model.cfg.block_of[meeting.operation.site]], depth


def _waits(model: KernelModel, path: Path, site: int) -> list[int]:
    """The waits for bulk groups on a path from *site*, in order."""
    waits = frozenset(model.waits(BULK))
    return [i for i in path.sites(model.cfg, site) if i in waits]


def _overwritten(model: KernelModel, copy: SharedAccess, use: SharedAccess, route: Route) -> bool:
    """True if *use* provably overwrites the source of *copy*, in the issuing thread or one synchronised with it.

    If the issuing thread has waited for the copy, true if it does so in a thread that is not ordered after that wait.
    """
    shared, views = model.shared, model.views
    issuers, writers = (
        route.path.threads & views.context_of(copy.site).threads,
        views.context_of(use.site).threads,
    )
    if route.path.state in KNOWN:
        return bool(_unordered_threads(model, copy, use, route.path, writers))
    if shared.overlap_in_one_thread(copy, use, issuers):
        return True
    return any(
        shared.overlap(copy, use, some, writers & company)
        for some, company in _synchronised(model, copy, use, route.path, issuers)
    )


def _synchronised(
    model: KernelModel, copy: SharedAccess, use: SharedAccess, path: Path, issuers: int
) -> Iterator[tuple[T.Threads, T.Threads]]:
    """Issuing threads, each with those that barriers on the path, or a warp-wide use, synchronise with them."""
    order = model.fact(HappensBefore)
    passed = path.passed(model.cfg, copy.site)
    met = [i for i in order.points.barrier_sites(OrderScope.LANES) if i in passed]
    joined = 0
    for i in filter(order.points.releases_together, met):
        joined |= model.views.context_of(i).threads
    match = model.instruction(use.site).match
    assert match is not None  # it is an access to memory
    warps = not all(map(order.points.releases_together, met)) or match.form.scope == "warp"
    if joined & issuers:
        yield issuers, joined
    elif warps:
        for warp in _warps(issuers):
            yield issuers & warp, warp


def _warps(threads: T.Threads) -> Iterator[int]:
    """The warps that *threads* belong to."""
    while threads:
        warp = T.whole(threads & -threads, 32)
        yield warp
        threads &= ~warp


def _unordered_threads(
    model: KernelModel, copy: SharedAccess, use: SharedAccess, path: Path, writers: int
) -> T.Threads:
    """The threads that overwrite the source of another thread's copy without being ordered after that thread's wait.

    Those of other warps, if there are any, and otherwise the other lanes of the issuing warp. A tensor map alone may have
    the size of a copy. Then only its start is compared, and warps that issue no copy are taken to store the rest of what
    this one reads.
    """
    shared, lanes, others = model.shared, 0, 0
    issuers = model.views.context_of(copy.site).threads
    unbounded = model.instruction(copy.site).role("bytes") is None
    for warp in _warps(path.threads & issuers):
        mine = path.threads & warp
        if not T.at_most_one_lane(mine):
            continue
        if shared.overlap(copy, use, mine, writers & ~warp):
            others |= writers & ~warp
        elif unbounded and writers & ~T.whole(issuers, 32) and shared.overlap(copy, use, mine, writers):
            others |= writers & ~T.whole(issuers, 32)
        elif path.state != KNOWN_TO_WARP and shared.overlap(copy, use, mine, writers & warp & ~mine):
            lanes |= writers & warp & ~mine
    return others or lanes


def _in_flight(model: KernelModel, groups: BulkReads, meeting: Conflict, equivalent: set[int]) -> Hit:
    """The BK002 finding, about the copies *equivalent*."""
    copy, use, threads = meeting.operation.site, meeting.use.site, meeting.path.threads
    reason = PendingReason.of(groups, meeting.path, copy, meeting.path.state, equivalent)
    verb = "starts to overwrite" if meeting.use.later else "overwrites"
    name = model.name(copy)
    return BK002.hit(
        site=use,
        message=f"{model.name(use)} {verb} shared memory that {name} may still be reading: {reason.why}",
        steps=(
            Mark(copy, f"{name} starts to read it", role=model.describe_threads(threads)),
            *reason.steps,
            Mark(use, f"{verb} the same bytes"),
        ),
        count=len(equivalent),
        help=reason.remedy,
        fixes=reason.fixes,
        confidence=model.confidence(meeting.path, copy)
        or model.size_confidence(
            meeting.operation, meeting.use, threads, model.views.context_of(use).threads
        ),
        about=frozenset((copy,)),
    ).doubted(_issued_once(model, copy, threads))


def _issued_once(model: KernelModel, copy: int, threads: T.Threads) -> str:
    """The doubt about a *copy* that no wait of *threads* covers, if other lanes of their warps issue it too; else empty."""
    others = model.views.context_of(copy).threads & ~threads
    shared = all(others & warp for warp in _warps(threads)) and once_for_a_warp(model, copy)
    return _ONCE if shared else ""


_TOGETHER = "all lanes of the warp execute the wait, and the hardware stalls a warp that waits as a whole"


def _unordered(model: KernelModel, groups: BulkReads, meeting: Conflict, equivalent: set[int]) -> Hit:
    """The BK003 finding, about the copies *equivalent*."""
    copy, use = meeting.operation.site, meeting.use.site
    issuers, writers = (
        meeting.path.threads & model.views.context_of(copy).threads,
        model.views.context_of(use).threads,
    )
    others = _unordered_threads(model, meeting.operation, meeting.use, meeting.path, writers)
    wait = _waits(model, meeting.path, copy)[-1]
    waiting = model.views.context_of(wait).threads
    one_warp = not any(others & ~warp for warp in _warps(issuers))
    confidence = model.size_confidence(meeting.operation, meeting.use, issuers, writers)
    if one_warp or not model.shared.overlap(meeting.operation, meeting.use, issuers, others):
        confidence = Confidence.MEDIUM
    return BK003.hit(
        site=use,
        message=f"{model.name(use)} of {model.describe_threads(others)} may overwrite shared memory that {model.name(copy)} is still reading: "
        "only the issuing thread can wait for the copy, and no barrier follows its wait",
        steps=(
            Mark(copy, f"{model.name(copy)} starts to read it", role=model.describe_threads(issuers)),
            Mark(
                wait,
                "waits for the groups of the executing thread only",
                role=model.describe_threads(waiting),
            ),
            Mark(use, "overwrites the same bytes", role=model.describe_threads(others)),
        ),
        count=len(equivalent),
        help=f"add a barrier of {'the warp (bar.warp.sync)' if one_warp else 'these threads (bar.sync)'} between the "
        "wait of the issuing thread and this instruction",
        fixes=() if one_warp else barrier_between(model, wait, use),
        confidence=confidence or model.confidence(meeting.path, copy),
        about=frozenset((copy,)),
    ).doubted(_TOGETHER if one_warp and not others & ~waiting else "")


@check(BK004, analyses=(BulkGroups,))
def results_in_flight(model: KernelModel) -> Iterator[Hit]:
    """Report reads of global memory that a bulk copy of the same thread may not have written yet."""
    operations = frozenset(i for i in model.begins(BULK) if model.instruction(i).role("destination"))
    if not operations:
        return
    memory = GlobalMemory(model.function, model.values)
    groups, results = model.solution(BulkGroups)

    meetings = OverlapSearch(
        model,
        results,
        groups,
        operations,
        lambda access: not access.writes,
        lambda copy, use, route: (
            not _commute(model, copy.site, use.site)
            and memory.overlap_in_one_thread(copy, use, route.path.threads)
        ),
        memory=memory,
    )
    for equivalent in grouped((_cause(model, groups, meeting), meeting) for meeting in meetings).values():
        meeting = equivalent[0]
        copy, use = meeting.operation.site, meeting.use.site
        waits = _waits(model, meeting.path, copy)
        half = bool(waits) and model.instruction(waits[-1]).effects.sources
        why = "no intervening cp.async.bulk.wait_group"
        if half:
            why = "cp.async.bulk.wait_group.read waits until its source has been read, not until its result is written"
        steps = [Mark(copy, f"{model.name(copy)} starts to write it")]
        if half:
            steps.append(Mark(waits[-1], "waits only until the sources have been read"))
        yield BK004.hit(
            site=use,
            message=f"{model.name(use)} reads global memory that {model.name(copy)} may still be writing: {why}",
            steps=(*steps, Mark(use, "reads the same bytes")),
            count=len({each.use.site for each in equivalent}),
            help="execute cp.async.bulk.wait_group (without .read) before this instruction",
            fixes=_written_before(model, groups, meeting, waits[-1] if half else -1),
            confidence=model.confidence(meeting.path, copy),
            about=frozenset((copy,)),
        )


def _commute(model: KernelModel, copy: int, use: int) -> bool:
    """True if both perform the same reduction, which is atomic per element, so in any order (9.7.9.25.4.2)."""
    first, second = model.instruction(copy).match, model.instruction(use).match
    assert first
    assert second
    name = second.form.name.removeprefix("multimem.")
    return first.combination == second.combination and name.startswith(("cp.reduce.", "red"))


def _written_before(model: KernelModel, groups: Groups, meeting: Conflict, half: int) -> tuple[Repair, ...]:
    """The fix that makes the wait for sources one for results, or adds such a wait before the use."""
    copy, use, age = meeting.operation.site, meeting.use.site, meeting.path.state
    if age == OVERDUE:
        return ()
    if half >= 0 and not model.reaches(copy, use, (half,)) and groups.left[half] <= age:
        opcode = model.instruction(half).opcode
        return with_opcode(
            half, opcode.replace(".read", ""), "wait for the results, without .read", safe=True
        )
    return waits_before(model, groups, (copy,), use, age == OPEN, f"{BULK.words.wait} 0;")


def _committed(model: KernelModel, lost: list[tuple[int, list[int]]]) -> tuple[Repair, ...]:
    """The fix that adds a commit after each copy, and a wait too if some path has none.

    *lost* has the copies, each with the waits on the path from it to the exit.
    """
    statements: tuple[str, ...] = ("cp.async.bulk.commit_group;",)
    if not all(waits for _, waits in lost):
        statements += ("cp.async.bulk.wait_group 0;",)
    changes = tuple(after(site, *statements) for site, _ in lost)
    listed = " and ".join(s.rstrip(";") for s in statements)
    return (Repair(f"add {listed}", changes, waits_for_all_groups(model, BULK)),)


@check(BK005, analyses=(BulkReads,))
def not_committed(model: KernelModel) -> Iterator[Hit]:
    """Report bulk copies that are never committed to a group, so that no wait covers them."""
    operations = model.begins(BULK)
    if not operations or not model.function.entry:
        return
    groups, results = model.solution(BulkReads)
    lost = []
    for site in operations:
        if any(model.may_follow(site, c) for c in model.commits(BULK)):
            continue
        path = model.path(
            FactQuery(site, OPEN, results, partial(groups.follow, site), lambda state, i: i == EXIT, ())
        ).witness
        if path is not None and model.confidence(path, site) is None:
            lost.append((site, _waits(model, path, site)))
    if lost:
        site, waits = lost[0]
        waiting = [w for _, found in lost for w in found]
        yield BK005.hit(
            site=site,
            message=f"{model.name(site)} is never committed to a group, as no cp.async.bulk.commit_group "
            "follows: " + ("wait_group does not wait for it" if waiting else "no wait can cover it"),
            steps=(
                Mark(site, "issued, not yet in a group"),
                *(Mark(w, "waits for committed groups only") for w in waits[:1]),
            ),
            count=len(lost),
            help="add cp.async.bulk.commit_group after it, in the same thread, and wait for the group",
            fixes=_committed(model, lost),
            about=frozenset(s for s, _ in lost),
        ).unshown(None if waiting else Severity.WARNING)
