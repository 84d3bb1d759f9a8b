"""Checks of cp.async: shared memory used before a copy has arrived there (PTX ISA 9.7.9.25.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from tclint.analyses.cp_async import WAITED, CopyGroups, WaitedCopies
from tclint.analyses.groups import OPEN, OVERDUE
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import Conflict, OverlapSearch, Route
from tclint.analyses.since_barrier import WritesSince
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._doubts import OUT_OF_ARRAY, leaves_its_round, left_out, none_yet, runs_on
from tclint.checks._pending import PendingReason
from tclint.checks._repairs import barrier_between
from tclint.findings.scales import Confidence
from tclint.ir.nodes import Immediate, Memory
from tclint.values.shared_memory import Access

CA001 = RuleId("CA001")
CA002 = RuleId("CA002")
CA003 = RuleId("CA003")
CA004 = RuleId("CA004")
CA005 = RuleId("CA005")

_MBARRIER = 8
"""An mbarrier object is aligned to this many bytes (9.7.13.15.1)."""


@check(CA001, CA002, CA003, needs="cp", analyses=(CopyGroups,))
def copies_in_flight(model: KernelModel) -> Iterator[Hit]:
    """Shared memory read, or written by another copy, while a cp.async of the thread may still write it."""
    if not model.sites("issue", "cp.async"):
        return
    groups, results = model.solution(CopyGroups)
    meetings = OverlapSearch(
        model,
        results,
        frozenset(model.sites("issue", "cp.async")),
        lambda state: (s for s, _ in state[0]),
        groups.lasting,
        lambda site: OPEN,
        groups.follow,
        lambda access: True,
        partial(_meet, model),
        doubtful=lambda start, path: (
            left_out(model, path, model.sites("wait", "cp.async")) or none_yet(model, path)
        ),
        rounds=True,
    )
    for (rule, _, _), alike in grouped((_cause(model, meeting), meeting) for meeting in meetings).items():
        doubts = [_doubt(model, rule, meeting) for meeting in alike]
        at = doubts.index("") if "" in doubts else 0
        sites = {meeting.operation.site for meeting in alike}
        yield _hit(model, groups, rule, alike[at], sites, doubts[at])


def _meet(model: KernelModel, copy: Access, use: Access, route: Route) -> bool:
    """Whether the use provably touches what is being copied: by this thread, or by another one that reads."""
    shared, views, threads = model.shared, model.views, route.path.threads
    if use.writes:
        return shared.overlap_in_one_thread(copy, use, threads) and not _same_source(
            model, copy.site, use.site, route
        )
    return shared.overlap_in_one_thread(copy, use, threads) or shared.overlap(
        copy, use, views.context_of(copy.site).threads, views.context_of(use.site).threads
    )


def _same_source(model: KernelModel, copy: int, other: int, route: Route) -> bool:
    """Whether another copy brings the same bytes, which harms nothing."""
    first, second = model.value(copy, "source"), model.value(other, "source")
    if first is None or second is None or model.instruction(other).group != "cp.async":
        return False
    return route.after(second) == route.before(first)


def _cause(model: KernelModel, meeting: Conflict) -> tuple[RuleId, int, int]:
    """The rule, the last wait on the path, or -1, and the block of the use."""
    waits = _waits(model, meeting)
    return _rule(model, meeting), waits[-1] if waits else -1, model.cfg.block_of[meeting.use.site]


def _rule(model: KernelModel, meeting: Conflict) -> RuleId:
    if meeting.use.writes and model.instruction(meeting.use.site).group == "cp.async":
        return CA003
    return CA002 if meeting.path.state == OVERDUE else CA001


def _waits(model: KernelModel, meeting: Conflict) -> list[int]:
    """The waits for copies on the path."""
    path = meeting.path
    return [
        i
        for i in path.sites(model.cfg, meeting.operation.site)
        if model.instruction(i).event == "wait" and model.instruction(i).group == "cp.async"
    ]


def _hit(
    model: KernelModel, groups: CopyGroups, rule: RuleId, meeting: Conflict, alike: set[int], doubt: str
) -> Hit:
    copy, use, age = meeting.operation.site, meeting.use.site, meeting.path.state
    flight = PendingReason.of(model, groups, meeting.path, copy, age, alike)
    remedy = flight.remedy + (", or use cp.async.wait_all" if age == OVERDUE else "")
    if rule == CA003:
        message = f"copies other bytes to where an earlier cp.async may still write, and nothing orders the two: {flight.why}"
        step = "starts to write the same bytes"
    else:
        verb = "overwrites" if meeting.use.writes else "reads"
        message = f"{verb} shared memory that a cp.async may still write: {flight.why}"
        step = f"{verb} the same bytes"
    return rule.hit(
        site=use,
        message=message,
        steps=(Mark(copy, "cp.async starts to write here"), *flight.steps, Mark(use, step)),
        count=len(alike),
        help=remedy,
        fixes=flight.fixes,
        confidence=model.confidence(meeting.path, copy),
    ).doubted(doubt)


def _doubt(model: KernelModel, rule: RuleId, meeting: Conflict) -> str:
    """What speaks against a finding."""
    copy, use, values = meeting.operation.site, meeting.use.site, model.values
    if left_out(model, meeting.path, model.sites("wait", "cp.async")) is not None:
        return "on other ways between the two, the thread waits"
    if none_yet(model, meeting.path) is not None:
        return "it may be the first of its kind that the thread copies, and then the thread waits"
    if leaves_its_round(model, meeting.path, copy):
        return "it may copy for the next round of a loop alone, and there is none"
    if rule == CA003 and copy != use and runs_on(model, meeting.path, copy, use):
        return OUT_OF_ARRAY
    guard, other = (model.instruction(i).guard for i in (copy, use))
    if rule == CA003 and guard >= 0:
        executed = values.before(guard, copy)
        if (other < 0 or values.before(other, use) != executed) and values.mask(executed) is None:
            return "nothing shows that the copy before is executed"
    return ""


@check(CA005, needs="cp", analyses=(WaitedCopies, WritesSince))
def copies_untold(model: KernelModel) -> Iterator[Hit]:
    """Shared memory used that a thread of another warp has copied, and nobody but that thread has waited."""
    copies = model.sites("issue", "cp.async")
    if not copies or model.values.threads <= 32 or not model.function.entry:
        return
    groups, results = model.solution(WaitedCopies)
    since, together = model.solution(WritesSince)
    memory = since.memory

    def meet(copy: Access, use: Access, route: Route) -> bool:
        here, there = (model.views.context_of(access.site).threads for access in (copy, use))
        ways = {(here & route.path.threads, there), (here, there & route.path.threads)}
        return (
            any(memory.across(copy, use, *way) for way in ways)
            and all(since.executed.certainly(access.site) for access in (copy, use))
            and not since.loose(together.before(use.site))
        )

    meetings = OverlapSearch(
        model,
        results,
        frozenset(copies),
        lambda state: (s for s, age in state[0] if age == WAITED),
        lambda state, site: (site, WAITED) in state[0],
        lambda site: OPEN,
        groups.follow,
        lambda access: (
            not access.later and memory.placed(access, model.views.context_of(access.site).threads)
        ),
        meet,
        memory=memory,
        ready=lambda age: age == WAITED,
        rounds=True,
    )
    block_of = model.cfg.block_of
    found = (((_waits(model, meeting)[-1], block_of[meeting.use.site]), meeting) for meeting in meetings)
    for (wait, _), alike in grouped(found).items():
        meeting = alike[0]
        copy, use = meeting.operation.site, meeting.use.site
        verb = "overwrites" if meeting.use.writes else "reads"
        yield CA005.hit(
            site=use,
            message=f"{verb} shared memory that threads of other warps copy: each has waited for its own copies only,"
            " and no barrier tells the others",
            steps=(
                Mark(
                    copy,
                    "cp.async of a thread starts to write here",
                    role=model.describe_threads(model.views.context_of(copy).threads),
                ),
                Mark(wait, "that thread waits for its own copies"),
                Mark(
                    use,
                    "another warp reads the same bytes",
                    role=model.describe_threads(model.views.context_of(use).threads),
                ),
            ),
            count=len({each.operation.site for each in alike}),
            help="put a barrier of these threads (bar.sync, __syncthreads()) between the wait and this instruction",
            fixes=barrier_between(model, wait, use),
            confidence=model.confidence(meeting.path, copy)
            or (None if model.function.threads else Confidence.MEDIUM),
            about=frozenset((wait,)),
        )


@check(CA004)
def misaligned(model: KernelModel) -> Iterator[Hit]:
    """Addresses and sizes of asynchronous operations that are no multiple of what they must be of."""
    for use in model.function.uses:
        match = use.match
        if match is None or match.problem or not (match.form.align or "mbarrier" in match.form.roles):
            continue
        wanted: dict[str, int | str] = dict(match.form.align)
        if "mbarrier" in match.form.roles:
            wanted[match.form.roles["mbarrier"]] = _MBARRIER
        for site in use.sites:
            if model.cfg.block_of[site] in model.cfg.rank:
                yield from _misaligned(model, site, wanted)


def _misaligned(model: KernelModel, site: int, wanted: Mapping[str, int | str]) -> Iterator[Hit]:
    instruction = model.instruction(site)
    for name, multiple in wanted.items():
        operand = instruction.named(name)
        if isinstance(multiple, str):
            of = instruction.named(multiple)
            multiple = of.value if isinstance(of, Immediate) and isinstance(of.value, int) else 1
        if operand is None or isinstance(operand, Immediate) or multiple < 2:
            continue
        low, high, modulus = model.shared.remainder(
            model.values.operand(operand, site), multiple, lambda: model.views.context_of(site).threads
        )
        if not high:
            continue
        address = isinstance(operand, Memory)
        what = f"{name} must be {'aligned to' if address else 'a multiple of'} {multiple}{' bytes' if address else ''}"
        yield CA004.hit(
            site=site,
            message=f"{what}, but it is {high} modulo {modulus}{'' if low else ' in some threads'}",
            help=f"{'place what it points to at' if address else 'make it'} a multiple of {multiple}",
            confidence=None if low else Confidence.MEDIUM,
        )
