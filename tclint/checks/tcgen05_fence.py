"""Checks of tcgen05.fence between tensor memory accesses and thread synchronisation (PTX ISA 9.7.16.6.3,
9.7.16.11.1)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from heapq import nsmallest

from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.tcgen05_sync import ThreadSync, waits_for_commits
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._repairs import fence_before, first_of_blocks
from tclint.dataflow.feasible_paths import FEASIBLE_PATH
from tclint.findings.scales import Severity

TC013 = RuleId("TC013")
TC014 = RuleId("TC014")

MAX_PAIRS = 8
"""Pairs for which a path is searched, nearest first; also loads that are considered in a kernel without a fence."""


@check(TC013, needs="tcgen05", analyses=(ThreadSync,))
def missing_after_fence(model: KernelModel) -> Iterator[Hit]:
    """One finding per kernel: a tcgen05.ld follows a wait for the MMA with no intervening fence."""
    loads = frozenset(model.sites("issue", "tcgen05.ld"))
    waits = waits_for_commits(model) if loads else frozenset()
    if not waits:
        return
    used = bool(model.sites("tcgen05-fence-after"))
    if used:
        pair, late = _unfenced(model, waits, loads)
    else:
        after = ((max((w for w in waits if w < i), default=-1), i) for i in sorted(loads))
        tried = model.ledger.at_most(MAX_PAIRS, after, FEASIBLE_PATH, -1, "loads")
        pair = next((p for p in tried if p[0] >= 0 and model.reaches(*p)), None)
        late = set(loads)
    if pair is None:
        return
    wait, load = pair
    yield TC013.hit(
        site=load,
        message="tcgen05.ld follows a wait for the MMA with no intervening tcgen05.fence::after_thread_sync"
        + ("" if used else "; the kernel has no such fence"),
        steps=(Mark(wait, "waits for the MMA"), Mark(load, "is not ordered after the wait")),
        count=len(late),
        help="add tcgen05.fence::after_thread_sync after the wait",
        fixes=fence_before(first_of_blocks(model, late), "tcgen05.fence::after_thread_sync;"),
        severity=None if used else Severity.INFO,
    )


@check(TC014, needs="tcgen05", analyses=(ThreadSync,))
def missing_before_fence(model: KernelModel) -> Iterator[Hit]:
    """One finding per kernel that has fences: an arrival follows a tcgen05.ld or .st with no intervening fence."""
    used = bool(model.sites("tcgen05-fence-before"))
    if not used and not model.sites("tcgen05-fence-after"):
        return
    accesses = frozenset(i for group in ("tcgen05.ld", "tcgen05.st") for i in model.sites("issue", group))
    pair, early = _unfenced(model, accesses, frozenset(model.sites("mbarrier-arrive")))
    if pair is None:
        return
    access, arrival = pair
    name = model.name(access)
    yield TC014.hit(
        site=arrival,
        message=f"signals other threads after {name} with no intervening tcgen05.fence::before_thread_sync"
        + ("" if used else "; the kernel has no such fence"),
        steps=(Mark(access, f"{name} starts"), Mark(arrival, "is not ordered after it")),
        count=len(early),
        help="add tcgen05.fence::before_thread_sync before the arrival",
        fixes=fence_before(sorted(early), "tcgen05.fence::before_thread_sync;"),
        severity=None if used else Severity.INFO,
    )


def _unfenced(
    model: KernelModel, causes: frozenset[int], uses: frozenset[int]
) -> tuple[tuple[int, int] | None, set[int]]:
    """The nearest pair of a cause and a use with a path without a fence, and all uses that have a cause in their state.

    None and no uses if none of the nearest pairs has a feasible path.
    """
    sync, results = model.solution(ThreadSync)
    wanted, early = sync.set_of(causes), set()
    pairs = []
    for b in model.cfg.order:
        for at, state in results.walk(b):
            if at in uses and state & wanted:
                early.add(at)
                pairs += [(site, at) for site in sync.nearest(state & wanted, at, MAX_PAIRS + 1)]
    nearest = nsmallest(MAX_PAIRS + 1, pairs, key=lambda pair: (pair[0] > pair[1], abs(pair[1] - pair[0])))
    for site, at in model.ledger.at_most(MAX_PAIRS, nearest, FEASIBLE_PATH, -1, "pairs"):
        path = model.path(
            FactQuery(site, sync.bits[site], results, partial(sync.follow, site), partial(_is, at), (at,))
        ).witness
        if path is not None:
            return (site, at), early
    return None, set()


def _is(wanted: int, state: object, at: int) -> bool:
    return at == wanted
