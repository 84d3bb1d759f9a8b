"""Shared memory that a cp.async may still write, and the alignment of asynchronous copies (PTX ISA 9.7.9.25.3).

A copy is in flight until its own thread has waited for it. CA001 to CA003 report an access along a feasible path of
that thread on which the copy is in flight; CA005 one by another warp after that wait with no intervening barrier.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

from tclint.analyses.cp_async import TRACKED, CopyGroups, WaitedCopies
from tclint.analyses.cta_shapes import ShapedConflict, in_all_launches
from tclint.analyses.extents import Extents
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import Conflict, OverlapSearch, Route
from tclint.analyses.plausibility import (
    Doubt,
    assumes_sentinel,
    leaves_iteration,
    returns_to_start,
    runs_past_array,
    skips,
)
from tclint.analyses.role_paths import calls
from tclint.analyses.since_barrier import WritesSince
from tclint.analyses.warp_memory import SharedByBound
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._causes import by_place
from tclint.checks._pending import PendingReason, left_at_the_end
from tclint.checks._repairs import barrier_between
from tclint.checks._wording import only_if
from tclint.dataflow import Path
from tclint.findings.scales import Confidence, Severity
from tclint.ir.nodes import Immediate, Memory
from tclint.isa.effects import CP_ASYNC
from tclint.sync.operations import OVERDUE
from tclint.values.shared_memory import SharedAccess, SharedMemory

CA001 = RuleId("CA001")
CA002 = RuleId("CA002")
CA003 = RuleId("CA003")
CA004 = RuleId("CA004")
CA005 = RuleId("CA005")


@check(CA001, CA002, CA003, analyses=(CopyGroups, Extents))
def copies_in_flight(model: KernelModel) -> Iterator[Hit]:
    """Shared memory read, or written by another copy, while a cp.async of the thread may still write it."""
    if not model.begins(CP_ASYNC):
        return
    alone = [ShapedConflict(model, each) for each in _unwaited(model, model.shared)]
    found = alone or in_all_launches(
        model, (), lambda shaped, _: _unwaited(shaped, shaped.fact(SharedByBound))
    )
    for rule, equivalent in _by_cause(found):
        doubts = [_doubt(each.model, rule, each.conflict) for each in equivalent]
        at = next((k for k, each in enumerate(doubts) if not each), 0)
        yield _hit(model, rule, equivalent[at], equivalent).doubted(doubts[at].why)
    groups, _ = model.solution(CopyGroups)
    reported = {each.conflict.operation.site for each in found}
    yield from _never_complete(model, groups, reported)
    if model.by_letter and model.function.entry and not reported:
        yield from _unfinished_at_the_end(model, groups)


def _unfinished_at_the_end(model: KernelModel, groups: CopyGroups) -> Iterator[Hit]:
    """The hit for a copy whose thread may end before the copy has written: shared memory lives as long as its CTA (2.3)."""
    found = left_at_the_end(groups, model.begins(CP_ASYNC), (TRACKED,), partial(_path_doubt, model))
    if found is None:
        return
    copy, path, doubt = found
    waits = [i for i in path.sites(model.cfg, copy) if model.instruction(i).effects.waits == CP_ASYNC]
    yield (
        CA001.hit(
            site=copy,
            message="the CTA may end while this cp.async is still writing its shared memory: "
            + ("no later wait covers it" if waits else "no wait follows"),
            steps=(
                Mark(copy, "starts to write"),
                *(Mark(i, "does not wait for it") for i in waits[-1:]),
                Mark(path.last(model.cfg, copy), "the thread ends here"),
            ),
            help=f"add {CP_ASYNC.words.wait} 0 in the same thread before it ends",
            about=frozenset((copy,)),
        )
        .unshown(Severity.WARNING)
        .doubted(doubt.why)
    )


def _path_doubt(model: KernelModel, start: int, path: Path) -> Doubt:
    """Why launches may never take a path on which a copy is in flight."""
    return (
        skips(model, path, model.waits(CP_ASYNC), "on other paths between the two, the thread waits")
        or assumes_sentinel(model, path)
        or returns_to_start(model, path)
        or leaves_iteration(model, path, start)
    )


def _unwaited(model: KernelModel, memory: SharedMemory) -> OverlapSearch:
    """The accesses to what a copy may still write, and the copies to where another one does."""
    groups, results = model.solution(CopyGroups)
    return OverlapSearch(
        model,
        results,
        groups,
        frozenset(model.begins(CP_ASYNC)),
        lambda access: True,
        partial(_overlaps, model, memory),
        memory=memory,
        doubt=partial(_path_doubt, model),
        whole_loops=True,
    )


def _never_complete(model: KernelModel, groups: CopyGroups, reported: Collection[int]) -> Iterator[Hit]:
    """Reads of bytes that nothing writes but copies for which no thread of the kernel waits.

    Such a read is wrong whatever the stage and the thread: it is too early, or nothing has written the bytes.
    """
    ends = [*model.waits(CP_ASYNC), *calls(model)]
    if groups.completions:
        ends += model.tracks(CP_ASYNC)
    copies = model.begins(CP_ASYNC)
    idle = set(copies) - model.reaching(copies, ends)
    if not model.function.entry or not idle - set(reported):
        return
    extents = model.fact(Extents)
    written = [(access.site, extents.of(access)) for access in extents.writes]
    for read in extents.reads:
        bytes_read = extents.of(read)
        if bytes_read is None:
            continue
        writers = {s for s, extent in written if extent is None or extents.may_overlap(extent, bytes_read)}
        if writers and writers <= idle and writers.isdisjoint(reported):
            yield CA001.hit(
                site=read.site,
                message=f"{model.name(read.site)} reads shared memory that only a cp.async writes, and no thread waits for that copy",
                steps=(
                    Mark(min(writers), "starts to write these bytes"),
                    Mark(read.site, "reads them; nothing in the kernel waits for the copy"),
                ),
                count=len(writers),
                help="wait for the copy with cp.async.wait_group, or let an mbarrier track it "
                "(cp.async.mbarrier.arrive) and wait for that mbarrier",
                about=frozenset(writers),
            )


def _overlaps(
    model: KernelModel, shared: SharedMemory, copy: SharedAccess, use: SharedAccess, route: Route
) -> bool:
    """Whether the use, by the copying thread or, if a read, by any thread, provably accesses bytes being copied."""
    views, threads = model.views, route.path.threads
    if use.writes:
        return shared.overlap_in_one_thread(copy, use, threads) and not _same_source(
            model, copy.site, use.site, route
        )
    return shared.overlap_in_one_thread(copy, use, threads) or shared.overlap(
        copy, use, views.context_of(copy.site).threads, views.context_of(use.site).threads
    )


def _same_source(model: KernelModel, copy: int, other: int, route: Route) -> bool:
    """Whether the *other* copy has the same source address, which makes the order of the two irrelevant."""
    first, second = model.value(copy, "source"), model.value(other, "source")
    if first is None or second is None or model.instruction(other).group != CP_ASYNC:
        return False
    return route.after(second) == route.before(first)


def _by_cause(found: Iterable[ShapedConflict]) -> Iterator[tuple[RuleId, list[ShapedConflict]]]:
    """*found* by rule and cause: the last wait before a block, which ends too little, or the place where a wait is missing."""
    causes = grouped((_cause(each.model, each.conflict), each) for each in found)
    uncommitted = {(wait, block) for rule, wait, block in causes if rule == CA002}
    for (rule, wait, block), equivalent in causes.items():
        if rule == CA001 and (wait, block) in uncommitted and all(map(_short_of_one, equivalent)):
            continue  # with the group that was never committed, the wait would complete these
        if wait >= 0:
            yield rule, equivalent
        else:
            block_of = equivalent[0].model.cfg.block_of
            conflicts = ((each.conflict, each) for each in equivalent)
            yield from ((rule, some) for some in by_place(block_of, conflicts))


def _short_of_one(each: ShapedConflict) -> bool:
    """Whether the last wait on the path would complete the copy if one more group had been committed before the wait."""
    model, conflict = each.model, each.conflict
    depth: int = model.solution(CopyGroups)[0].left[_waits(model, conflict)[-1]]
    age: int = conflict.path.state
    return age + 1 >= depth


def _cause(model: KernelModel, conflict: Conflict) -> tuple[RuleId, int, int]:
    """The rule, the last wait on the path (-1 if none), and the block of the use."""
    waits = _waits(model, conflict)
    return _rule(model, conflict), waits[-1] if waits else -1, model.cfg.block_of[conflict.use.site]


def _rule(model: KernelModel, conflict: Conflict) -> RuleId:
    if conflict.use.writes and model.instruction(conflict.use.site).group == CP_ASYNC:
        return CA003
    return CA002 if conflict.path.state == OVERDUE else CA001


def _waits(model: KernelModel, conflict: Conflict) -> list[int]:
    """The waits for cp.async groups on the path."""
    path = conflict.path
    return [
        i
        for i in path.sites(model.cfg, conflict.operation.site)
        if model.instruction(i).effects.waits == CP_ASYNC
    ]


def _hit(
    model: KernelModel, rule: RuleId, found: ShapedConflict, equivalent: Collection[ShapedConflict]
) -> Hit:
    shaped, conflict, condition = found
    copy, use, age = conflict.operation.site, conflict.use.site, conflict.path.state
    copies = {each.conflict.operation.site for each in equivalent}
    reason = PendingReason.of(shaped.solution(CopyGroups)[0], conflict.path, copy, age, copies)
    remedy = reason.remedy + (", or use cp.async.wait_all" if age == OVERDUE else "")
    if rule == CA003:
        what = f"writes other data to shared memory that an earlier, unordered cp.async may still write{only_if(condition)}"
        step = "starts to write the same bytes"
    else:
        verb = "overwrites" if conflict.use.writes else "reads"
        what = f"{verb} shared memory that a cp.async may still write{only_if(condition)}"
        step = f"{verb} the same bytes"
    threads = (shaped.views.context_of(i).threads for i in (copy, use))
    return rule.hit(
        site=use,
        message=f"{model.name(use)} {what}: {reason.why}",
        steps=(
            Mark(copy, "starts to write these bytes"),
            *reason.steps,
            Mark(use, step),
        ),
        count=len(copies),
        pairs=tuple(each.conflict.sites for each in equivalent),
        help=remedy,
        fixes=reason.fixes,
        condition=condition,
        confidence=model.confidence(conflict.path, copy)
        or (
            shaped.size_confidence(conflict.operation, conflict.use, *threads)
            if shaped is model
            else Confidence.MEDIUM
        ),
    )


def _doubt(model: KernelModel, rule: RuleId, conflict: Conflict) -> Doubt:
    """The doubt about a conflict: about its path, or, of two copies, about what the kernel's data decide."""
    copy, use, values = conflict.operation.site, conflict.use.site, model.values
    found = conflict.doubt
    if rule == CA003 and copy != use:
        found = found or runs_past_array(model, conflict.path, copy, use)
    guard, other = (model.instruction(i).guard for i in (copy, use))
    if rule == CA003 and not found and guard >= 0:
        executed = values.before(guard, copy)
        if (other < 0 or values.before(other, use) != executed) and values.mask(executed) is None:
            return Doubt("nothing shows that the guard of the earlier copy is true")
    return found


@check(CA005, analyses=(WaitedCopies, WritesSince))
def copies_without_barrier(model: KernelModel) -> Iterator[Hit]:
    """Shared memory that a thread of another warp copied, accessed with no barrier since that thread waited."""
    if not model.begins(CP_ASYNC) or model.values.threads <= 32 or not model.function.entry:
        return
    block_of = model.cfg.block_of
    direct = _of_other_warps(model) if model.values.shape is not None else ()
    found = (
        ((_waits(each.model, each.conflict)[-1], block_of[each.conflict.use.site]), each)
        for each in in_all_launches(model, direct, lambda shaped, _: _of_other_warps(shaped))
    )
    for (wait, _), equivalent in grouped(found).items():
        yield _without_barrier(model, wait, equivalent)


def _of_other_warps(model: KernelModel) -> OverlapSearch:
    """The accesses to what threads of other warps copied, with no barrier since these waited."""
    groups, _ = model.solution(WaitedCopies)
    since, together = model.solution(WritesSince)
    memory = since.memory

    def overlaps(copy: SharedAccess, use: SharedAccess, route: Route) -> bool:
        here, there = (model.views.context_of(access.site).threads for access in (copy, use))
        pairs = {(here & route.path.threads, there), (here, there & route.path.threads)}
        return (
            any(memory.across(copy, use, *pair) for pair in pairs)
            and all(since.executed.certainly(access.site) for access in (copy, use))
            and not since.loose(together.before(use.site))
        )

    return groups.conflicts(lambda access: not access.later, overlaps, memory, whole_loops=True)


def _without_barrier(model: KernelModel, wait: int, equivalent: Collection[ShapedConflict]) -> Hit:
    """The finding about accesses in one block, after one *wait*."""
    shaped, conflict, condition = next(iter(equivalent))
    copy, use = conflict.operation.site, conflict.use.site
    verb = "overwrites" if conflict.use.writes else "reads"
    return CA005.hit(
        site=use,
        message=f"{model.name(use)} {verb} shared memory that threads of other warps copy with cp.async{only_if(condition)}: "
        "each waits for its own copies only, and no barrier follows",
        steps=(
            Mark(
                copy,
                "a thread starts to write these bytes",
                role=shaped.describe_threads(shaped.views.context_of(copy).threads),
            ),
            Mark(wait, "that thread waits for its own copies only"),
            Mark(
                use,
                f"a thread of another warp {verb} the same bytes",
                role=shaped.describe_threads(shaped.views.context_of(use).threads),
            ),
        ),
        count=len({each.conflict.operation.site for each in equivalent}),
        pairs=tuple(each.conflict.sites for each in equivalent),
        help="add a barrier of these threads (bar.sync, __syncthreads()) between the wait and this instruction",
        fixes=barrier_between(model, wait, use),
        condition=condition,
        confidence=model.confidence(conflict.path, copy)
        or (None if model.function.threads else Confidence.MEDIUM),
        about=frozenset((wait,)),
    )


@check(CA004)
def misaligned(model: KernelModel) -> Iterator[Hit]:
    """Addresses and sizes of asynchronous operations that are not a multiple of their required alignment."""
    for use in model.function.uses:
        match = use.match
        if match is None or match.problem:
            continue
        objects = {access.operand: access.extent for access in match.accesses if access.object}
        required: dict[str, int | str] = {**match.form.align, **objects}
        for site in use.sites if required else ():
            if model.cfg.block_of[site] in model.cfg.rank:
                yield from _misaligned(model, site, required)


def _misaligned(model: KernelModel, site: int, required: Mapping[str, int | str]) -> Iterator[Hit]:
    """The misaligned operands of *site*; *required* maps a name to an alignment, or to the operand that specifies it."""
    instruction = model.instruction(site)
    for name, multiple in required.items():
        operand = instruction.named(name)
        if isinstance(operand, Memory) and operand.extras:
            operand = instruction.part(name)  # an offset, not an address
        elif isinstance(operand, Immediate):
            continue
        if isinstance(multiple, str):
            of = instruction.named(multiple)
            multiple = of.value if isinstance(of, Immediate) and isinstance(of.value, int) else 1
        if operand is None or multiple < 2:
            continue
        low, high, modulus = model.shared.remainder(
            model.values.operand(operand, site), multiple, lambda: model.views.context_of(site).threads
        )
        if not high:
            continue
        address = isinstance(operand, Memory)
        yield CA004.hit(
            site=site,
            message=f"{model.name(site)}: {name} is {high}{' bytes' * address} past a multiple of {modulus}{'' if low else ' in some threads'}, "
            f"but must be {'aligned to' if address else 'a multiple of'} {multiple}{' bytes' * address}",
            help=f"align the address to {multiple} bytes" if address else f"make it a multiple of {multiple}",
            confidence=None if low else Confidence.MEDIUM,
        )
