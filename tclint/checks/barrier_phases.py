"""CTA and cluster barriers: deadlocks, and arrivals that count for the wrong phase (PTX ISA 9.7.13.1, 9.7.13.3).

A CTA barrier completes a phase when as many threads have arrived as it counts, whichever these are. An arrival is sound
only if it is ordered after the completion of the phase before, by this barrier or by any other synchronisation. Two
methods decide this: along a path of one thread, a second arrival that follows the first with no wait between them; and
in a replay, arrivals of different warps by their clocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tclint.analyses.happens_before import HappensBefore, Scope
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import path_avoiding, whole_program
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._deadlocks import MAX_PARTIES, called, parties, threads_in_words
from tclint.findings.scales import Confidence, Method
from tclint.replay.faults import proven_fault
from tclint.replay.sync import Barrier, Mbarrier, PhaseOverlap
from tclint.values import thread_masks as T

if TYPE_CHECKING:
    from tclint.replay.launches import ReplayRun

CV014 = RuleId("CV014")
CV015 = RuleId("CV015")

_QUESTION = "order of arrivals at a barrier"
"""What the ledger calls the question whether an arrival follows the completion of the phase before."""


@check(CV014, analyses=(Mbarriers,))
def deadlocked(model: KernelModel) -> Iterator[Hit]:
    """Threads that wait for each other at CTA or cluster barriers, in every assumed launch that reaches them."""
    run = proven_fault(model)
    hit = None if run is None else _deadlock(model, run)
    if hit is not None:
        yield hit


@check(CV015, analyses=(HappensBefore,))
def phases_overlap(model: KernelModel) -> Iterator[Hit]:
    """Arrivals at a CTA barrier with a thread count that may be counted in the phase before the one they are meant for."""
    arrivals = [i for i in model.sites("barrier-arrive", "") if model.views.context_of(i).threads]
    reported = set[int | None]()
    for number, hit in _repeated(model, arrivals) if arrivals and whole_program(model) else ():
        reported.add(number)
        yield hit
    run = proven_fault(model)
    for overlap in run.overlaps if run is not None else ():
        if overlap.barrier not in reported:
            reported.add(overlap.barrier)
            yield _overlapping(model, overlap)


def _deadlock(model: KernelModel, run: ReplayRun) -> Hit | None:
    """The finding about a barrier that too few threads reach; None if *run* has a fault that may be the cause."""
    if run.races or run.overrun or run.overlaps or any(isinstance(s.what, Mbarrier) for s in run.deadlocks):
        return None
    at = next((s for s in run.deadlocks if isinstance(s.what, Barrier) and s.what.missing > 0), None)
    if at is None:
        return None
    assert isinstance(at.what, Barrier)
    # The CTAs of a cluster may be blocked alike.
    others = list({(s.site, s.threads): s for s in run.deadlocks if s[:2] != at[:2]}.values())
    return CV014.hit(
        site=at.site,
        message=f"deadlock: {called(model, at.what)} waits for {at.what.wanted} threads, of which only {at.what.arrived} arrive, "
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
        help="let as many threads reach the barrier as it counts, each of them equally often",
        confidence=_confidence(model),
        method=Method.REPLAY,
    )


def _confidence(model: KernelModel) -> Confidence | None:
    """Medium if the kernel does not fix the number of threads of its CTA, on which what a barrier waits for depends."""
    return None if model.function.threads is not None else Confidence.MEDIUM


def _repeated(model: KernelModel, arrivals: list[int]) -> Iterator[tuple[int | None, Hit]]:
    """Arrivals without a wait that a thread repeats before any wait, with the number of the barrier; None: unknown."""
    waits = model.fact(HappensBefore).points.acquire_points(Scope.WARPS)
    every = T.full(model.values.threads)
    users = grouped(
        (number, site)
        for site in (*arrivals, *model.sites("barrier-sync", ""))
        if model.instruction(site).role("count") is not None and (number := _number(model, site)) is not None
    )
    for site in arrivals:
        number = _number(model, site)
        if number is None:
            model.ledger.give_up(_QUESTION, site, "the number of the barrier changes")
            continue
        again = users[number]
        found = path_avoiding(model, site, every, again, waits.difference(again)).witness
        if found is not None:
            yield model.values.constant_of(number), _again(model, site, found.end)


def _number(model: KernelModel, site: int) -> int | None:
    """The value that is the number of the barrier at *site*; None if a thread does not always name the same one."""
    number = model.value(site, "id")
    if number is None or model.values.varying_at(number):
        return None
    return model.values.representative(number)


def _again(model: KernelModel, first: int, second: int) -> Hit:
    number = model.constant_of(first, "id")
    name = "a barrier" if number is None else f"barrier {number}"
    return CV015.hit(
        site=first,
        message=f"arrives at {name}, and a thread may arrive there again before that phase completes: "
        "no wait lies between the two",
        steps=(Mark(first, "arrives and does not wait"), Mark(second, "arrives again")),
        help="wait between the two arrivals, as bar.sync does, for this phase of the barrier or for threads that have "
        "passed it",
        about=frozenset((first, second)),
    )


def _overlapping(model: KernelModel, overlap: PhaseOverlap) -> Hit:
    number, count, first, second = overlap
    together = first is second
    return CV015.hit(
        site=second.site,
        message=f"{len(second.threads)} threads arrive together at barrier {number}, "
        f"of which each phase counts only {count}"
        if together
        else f"may arrive in the wrong phase of barrier {number}: this is not ordered after the completion of the phase "
        f"that {threads_in_words(model, first.threads)} arrived for",
        steps=(
            *(() if together else (_arrives(model, overlap, first.site, first.threads, "in one phase"),)),
            _arrives(model, overlap, second.site, second.threads, "for another one" if not together else ""),
        ),
        help="let the count of the barrier include all threads that arrive in a phase, whether or not they wait, "
        "and wait for the phase to complete before the next arrival",
        about=frozenset((first.site, second.site)),
        method=Method.REPLAY,
    )


def _arrives(
    model: KernelModel, overlap: PhaseOverlap, site: int, threads: tuple[int, ...], what: str
) -> Mark:
    words = f"arrives {what}".rstrip() + f", with a count of {overlap.wanted}"
    return Mark(site, words, role=threads_in_words(model, threads))
