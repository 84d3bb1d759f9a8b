"""CTA and cluster barriers: deadlocks, and arrivals that count for the wrong phase (PTX ISA 9.7.13.1, 9.7.13.3).

A CTA barrier completes a phase when as many threads have arrived as it counts, whichever these are. An arrival is sound
only if it is ordered after the completion of the phase before, by this barrier or by any other synchronisation. Two
methods decide this: along a path of one thread, a second arrival that follows the first with no wait between them; and
in a replay, arrivals of different warps by their clocks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import inf, prod
from typing import TYPE_CHECKING

from tclint._named_tuple import NamedTuple
from tclint.analyses.execution import ExecutionGuarantee
from tclint.analyses.happens_before import HappensBefore, OrderScope
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.plausibility import skips
from tclint.analyses.role_paths import path_avoiding, whole_program
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._deadlocks import MAX_PARTIES, called, parties, threads_in_words
from tclint.dataflow import Path
from tclint.findings.scales import Confidence, Method, Severity
from tclint.isa.effects import Barrier
from tclint.replay.faults import proven_fault, replayed_without_fault
from tclint.replay.sync import ORDER_OF_ARRIVALS, BarrierArrival, PhaseOverlap, ReplayBarrier, ReplayMbarrier
from tclint.values import thread_masks as T

if TYPE_CHECKING:
    from tclint.replay.launches import ReplayRun

CV014 = RuleId("CV014")
CV015 = RuleId("CV015")

_WARP = 32
_WAITS_ELSEWHERE = "on other paths between the two, the thread waits"


@check(CV014, analyses=(Mbarriers,))
def deadlocked(model: KernelModel) -> Iterator[Hit]:
    """Threads that wait for each other at CTA or cluster barriers, in every assumed launch that reaches them."""
    run = proven_fault(model)
    hit = None if run is None else _deadlock(model, run)
    if hit is not None:
        yield hit


@check(CV015, analyses=(HappensBefore, ExecutionGuarantee))
def phases_overlap(model: KernelModel) -> Iterator[Hit]:
    """Arrivals at a CTA barrier with a thread count that may be counted in the phase before the one they are meant for."""
    waits = model.awaits(Barrier.CTA)
    arrivals = [i for i in model.arrives(Barrier.CTA) if i not in waits and model.views.context_of(i).threads]
    reported = set[int | str]()
    for barrier, hit in _repeated(model, arrivals) if arrivals and whole_program(model) else ():
        reported.add(barrier)
        yield hit
    run = proven_fault(model)
    for overlap in run.overlaps if run is not None else ():
        if overlap.barrier not in reported:
            reported.add(overlap.barrier)
            yield _overlapping(model, overlap)


def _deadlock(model: KernelModel, run: ReplayRun) -> Hit | None:
    """The finding about a barrier that too few threads reach; None if *run* has a fault that may be the cause."""
    if (
        run.races
        or run.overrun
        or run.overlaps
        or any(isinstance(s.what, ReplayMbarrier) for s in run.deadlocks)
    ):
        return None
    at = next((s for s in run.deadlocks if isinstance(s.what, ReplayBarrier) and s.what.missing > 0), None)
    if at is None:
        return None
    assert isinstance(at.what, ReplayBarrier)
    # The CTAs of a cluster may be blocked alike.
    others = list({(s.site, s.threads): s for s in run.deadlocks if s[:2] != at[:2]}.values())
    return CV014.hit(
        site=at.site,
        message=f"deadlock: {called(model, at.what)} waits for {at.what.expected} threads, of which only {at.what.arrived} arrive, "
        "and all remaining threads are blocked as well",
        steps=tuple(
            Mark(
                s.site,
                f"blocked: waits at {called(model, s.what)}",
                role=threads_in_words(model, s.threads),
            )
            for s in [*others[: MAX_PARTIES - 1], at]
        ),
        deadlock=parties(model, run, at),
        help=f"all {at.what.expected} threads must reach it the same number of times",
        confidence=_confidence(model),
        method=Method.REPLAY,
    )


def _confidence(model: KernelModel) -> Confidence | None:
    """Medium if the kernel does not fix the number of threads of its CTA, on which what a barrier waits for depends."""
    return None if model.function.threads is not None else Confidence.MEDIUM


class _Use(NamedTuple):
    """What threads do at one CTA barrier at one instruction."""

    barrier: int | str
    """The number of the barrier; a string that names the value if it is unknown."""
    site: int
    threads: T.Threads
    """Those that may execute it."""
    arriving: int
    """How many of them are certain to arrive if one does. A warp always counts as 32 threads."""
    expected: int | None
    """The thread count; None: unknown."""

    @property
    def most(self) -> int:
        """How many threads may arrive, once each."""
        return T.whole(self.threads, _WARP).bit_count()


def _uses(model: KernelModel, site: int) -> list[_Use]:
    """What threads do at *site*, by the number of the barrier; empty if a thread does not always name the same one."""
    values, number = model.values, model.value(site, "id")
    if number is None or values.varying_at(number):
        model.ledger.give_up(ORDER_OF_ARRIVALS, site, "the number of the barrier changes")
        return []
    count, threads = model.constant_of(site, "count"), model.present(site)
    planes = values.bit_slices(number)
    if planes is None:
        return [_Use(f"value {values.representative(number)}", site, threads, _WARP, count)]
    known = model.fact(ExecutionGuarantee).certainly(site)
    return [
        _Use(barrier, site, here, T.whole(here, _WARP).bit_count() if known else _WARP, count)
        for barrier, here in T.numbers(planes, threads)
    ]


def _repeated(model: KernelModel, arrivals: list[int]) -> Iterator[tuple[int | str, Hit]]:
    """For each barrier an arrival that threads repeat before any wait, although its phase has no room for all of them."""
    waits = model.fact(HappensBefore).points.acquire_points(OrderScope.WARPS)
    sites = (*arrivals, *model.awaits(Barrier.CTA))
    used = grouped(
        (use.barrier, use)
        for site in sites
        if model.instruction(site).role("count") is not None
        for use in _uses(model, site)
    )
    for barrier, uses in used.items():
        firsts = (use for use in uses if model.instruction(use.site).effects.awaits is None)
        hit = next(filter(None, (_crowded(model, first, uses, waits) for first in firsts)), None)
        if hit is not None:
            yield barrier, hit


def _crowded(model: KernelModel, first: _Use, uses: list[_Use], waits: frozenset[int]) -> Hit | None:
    """The finding that the threads of *first* may arrive at one of *uses* in the same phase, which has no room; or None."""

    def path(to: Collection[int]) -> Path | None:
        found = path_avoiding(model, first.site, first.threads, to, waits.difference(to)) if to else None
        return None if found is None else found.witness

    others = {use.site: use for use in uses if use.site != first.site}
    found = path({site for site, use in others.items() if _crowds(first, use)})
    if found is not None:
        return _again(model, first, others[found.end]).doubted(
            skips(model, found, waits, _WAITS_ELSEWHERE).why
        )
    around = path((first.site,))
    if around is not None and _repeats(model, around) * first.arriving > (first.expected or 0):
        return _again(model, first, first).doubted(skips(model, around, waits, _WAITS_ELSEWHERE).why)
    # A warp may arrive twice by design; replays know which other warps arrive, and what keeps this one back.
    last = around or path(others)
    sites = () if last is None else (first.site, last.end)
    if sites and not _counted(first, uses) and not replayed_without_fault(model, sites):
        model.ledger.give_up(
            ORDER_OF_ARRIVALS, first.site, "which arrivals a phase is meant to count is unknown"
        )
    return None


def _crowds(first: _Use, second: _Use) -> bool:
    """Whether a phase that has all arrivals of *first* has no room for those of *second*, or does not admit them."""
    if first.expected is None or second.expected is None:
        return False
    if first.expected != second.expected:
        return first.expected > _WARP  # other warps may not have arrived yet
    return first.arriving + second.arriving > first.expected


def _repeats(model: KernelModel, around: Path) -> float:
    """At most how often a thread executes an instruction to which it returns on the path *around*."""
    loops = model.cfg.loops
    heads = {e.target for e in around.edges if e.target in loops and e.source in loops[e.target]}
    return prod(model.values.trip_count(head) or inf for head in heads)


def _counted(first: _Use, uses: list[_Use]) -> bool:
    """Whether all *uses* of a barrier, each executed once, fit into one phase."""
    return {use.expected for use in uses} == {first.expected} and sum(use.most for use in uses) <= (
        first.expected or 0
    )


def _again(model: KernelModel, first: _Use, second: _Use) -> Hit:
    name = f"barrier {first.barrier}" if isinstance(first.barrier, int) else "a barrier"
    mixed = first.expected != second.expected
    return CV015.hit(
        site=first.site,
        message=f"{model.name(first.site)} arrives at {name} with a count of {first.expected}, and a thread may arrive there with a count of "
        f"{second.expected} before that phase completes: no wait lies between the two"
        if mixed
        else f"{model.name(first.site)} arrives at {name}, and a thread may arrive there again before that phase completes: "
        "no wait lies between the two",
        steps=(
            Mark(first.site, f"arrives{_of(first)} and does not wait"),
            Mark(second.site, f"arrives again{_of(second)}"),
        ),
        help="use another barrier number for the other thread count, or wait for the phase between the two"
        if mixed
        else "wait between the two arrivals, as bar.sync does, for this phase of the barrier or for threads that have "
        "passed it",
        severity=Severity.ERROR if mixed else None,
        # How many threads arrive at the two instructions depends on the size of the CTA.
        confidence=None if mixed or first is second else _confidence(model),
        about=frozenset((first.site, second.site)),
    )


def _of(use: _Use) -> str:
    """The thread count of a phase, in words."""
    return "" if use.expected is None else f" with a count of {use.expected}"


def _overlapping(model: KernelModel, overlap: PhaseOverlap) -> Hit:
    number, first, second = overlap
    together, mixed = first is second, overlap.counts_differ
    return CV015.hit(
        site=second.site,
        message=f"{model.name(second.site)} is executed by {len(second.threads)} threads together at barrier {number}, "
        f"of which each phase counts only {second.expected}"
        if together
        else f"{model.name(second.site)} may arrive in the wrong phase of barrier {number}: this is not ordered after the completion of the phase "
        f"that {threads_in_words(model, first.threads)} arrived for"
        + f", which counts {first.expected} threads and not {second.expected}"
        * mixed,
        steps=(
            *(() if together else (_arrives(model, first, "in one phase"),)),
            _arrives(model, second, "for another one" if not together else ""),
        ),
        help="use another barrier number for the other thread count, or wait for the phase to complete before the next "
        "arrival"
        if mixed
        else "let the count of the barrier include all threads that arrive in a phase, whether or not they wait, "
        "and wait for the phase to complete before the next arrival",
        severity=Severity.ERROR if mixed else None,
        confidence=_confidence(model),
        about=frozenset((first.site, second.site)),
        method=Method.REPLAY,
    )


def _arrives(model: KernelModel, arrival: BarrierArrival, what: str) -> Mark:
    words = f"arrives {what}".rstrip() + f", with a count of {arrival.expected}"
    return Mark(arrival.site, words, role=threads_in_words(model, arrival.threads))
