"""Checks of tcgen05.fence between tensor memory accesses and thread synchronisation (PTX ISA 9.7.16.6.3,
9.7.16.11.1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial

from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.tcgen05_sync import ThreadSync, ring_of, waits_for_commits
from tclint.analyses.tensor_memory import TensorMemory
from tclint.analyses.tmem_release import TmemRelease
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._repairs import fence_before, first_of_blocks
from tclint.dataflow.feasible_paths import FEASIBLE_PATH
from tclint.findings.scales import Confidence
from tclint.ir.nodes import Instruction
from tclint.isa.effects import TCGEN05_LD, TENSOR_MEMORY, Barrier, Fence

TC013 = RuleId("TC013")
TC014 = RuleId("TC014")

MAX_PAIRS = 8
"""Pairs for which a path is searched, nearest first; also loads that are considered in a kernel without a fence."""


@check(TC013, analyses=(TensorMemory, ThreadSync, TmemRelease))
def missing_after_fence(model: KernelModel) -> Iterator[Hit]:
    """One finding per kernel: a tcgen05.ld follows a wait for the MMA with no intervening fence. By the letter, any
    operation may follow a wait for a thread that accesses the same columns."""
    hit = _load_after_wait(model)
    if hit is None and model.by_letter and model.sites(Fence.TCGEN05_AFTER):
        hit = _operation_after_wait(model)
    if hit is not None:
        yield _by_letter(model, hit, hit.site)


def _by_letter(model: KernelModel, hit: Hit, user: int) -> Hit:
    """The *hit*, of which the confidence is low because kernels work without the fence; by the letter that is no doubt."""
    certain = model.by_letter and user not in _fillers(model)
    return replace(hit, confidence=Confidence.MEDIUM) if certain else hit


def _fillers(model: KernelModel) -> frozenset[int]:
    """The copies into tensor memory of which the columns are not known to be those of a load or store: scale factors, for
    example, are in columns that no thread loads."""
    memory = model.fact(TensorMemory)
    accesses = [memory.range(i, "taddr") for i in memory.loads | memory.stores]
    copies = (i for i in memory.operations if model.instruction(i).role("source") is not None)
    return frozenset(
        i
        for i in copies
        for threads in (model.views.context_of(i).threads,)
        if not any(memory.overlap(memory.range(i, "d"), each, threads) for each in accesses)
    )


def _load_after_wait(model: KernelModel) -> Hit | None:
    """The hit for the loads that follow a wait for a ``tcgen05.commit``."""
    loads = frozenset(model.begins(TCGEN05_LD))
    waits = waits_for_commits(model) if loads else frozenset()
    if not waits:
        return None
    used = bool(model.sites(Fence.TCGEN05_AFTER))
    if used:
        pair, late = _unfenced(model, waits, loads, _any)
    else:
        after = ((max((w for w in waits if w < i), default=-1), i) for i in sorted(loads))
        tried = model.ledger.at_most(MAX_PAIRS, after, FEASIBLE_PATH, -1, "loads")
        pair = next((p for p in tried if p[0] >= 0 and model.reaches(*p)), None)
        late = set(loads)
    if pair is None:
        return None
    wait, load = pair
    return TC013.hit(
        site=load,
        message="tcgen05.ld follows a wait for the MMA with no intervening tcgen05.fence::after_thread_sync"
        + ("" if used else "; the kernel has no such fence"),
        steps=(Mark(wait, "waits for the MMA"), Mark(load, "is not ordered after the wait")),
        count=len(late),
        help="add tcgen05.fence::after_thread_sync after the wait",
        fixes=fence_before(first_of_blocks(model, late), "tcgen05.fence::after_thread_sync;"),
    )


def _operation_after_wait(model: KernelModel) -> Hit | None:
    """The hit for an operation that only waits with no fence since order after the load or store of another thread."""
    sync, _ = model.solution(ThreadSync)
    for user, waits in model.fact(TmemRelease).released():
        rings = grouped(
            (ring_of(model, i), i) for i in sorted(waits) if i in sync.bits and model.reaches(i, user)
        )
        paths = [_unfenced_wait(model, same, user) for same in rings.values()]
        if paths and all(wait is not None for wait in paths) and (wait := paths[0]) is not None:
            name = model.name(user)
            return TC013.hit(
                site=user,
                message=f"{name} follows a wait for a thread that accesses the same columns with no intervening "
                "tcgen05.fence::after_thread_sync",
                steps=(Mark(wait, "waits for the other thread"), Mark(user, "is not ordered after the wait")),
                help="add tcgen05.fence::after_thread_sync after the wait",
            )
    return None


def _unfenced_wait(model: KernelModel, waits: list[int], user: int) -> int | None:
    """One of *waits*, on one mbarrier, from which a path leads to *user* and passes neither a fence nor another of them."""
    sync, results = model.solution(ThreadSync)
    others = frozenset(waits)

    def step(wait: int, state: int, at: int, instruction: Instruction) -> int | None:
        return None if at in others else sync.follow(wait, state, at, instruction)

    for wait in waits:
        query = FactQuery(wait, sync.bits[wait], results, partial(step, wait), partial(_is, user), (user,))
        if model.path(query).witness is not None:
            return wait
    return None


@check(TC014, analyses=(TensorMemory, ThreadSync, TmemRelease))
def missing_before_fence(model: KernelModel) -> Iterator[Hit]:
    """One finding per kernel that has fences: an arrival follows a tcgen05.ld or .st with no intervening fence.

    The arrival alone orders an operation of another thread on the same columns after the load or store.
    """
    used = bool(model.sites(Fence.TCGEN05_BEFORE))
    if not used and not model.sites(Fence.TCGEN05_AFTER):
        return
    accesses = frozenset(i for group in TENSOR_MEMORY for i in model.begins(group))
    release = model.fact(TmemRelease)

    arrivals, pair, early = frozenset(model.arrives(Barrier.MBARRIER)), None, set[int]()
    for but in (_fillers(model), frozenset[int]()) if model.by_letter else ((),):

        def starts(access: int, arrival: int, but: Collection[int] = but) -> bool:
            return release.started_unfenced(access, arrival, but) is not None

        pair, early = _unfenced(model, accesses, arrivals, starts)
        if pair is not None:
            break
    if pair is None:
        return
    access, arrival = pair
    user = release.started_unfenced(access, arrival, but)
    assert user is not None
    name = model.name(access)
    hit = TC014.hit(
        site=arrival,
        message=f"{model.name(arrival)} signals other threads after {name} with no intervening tcgen05.fence::before_thread_sync"
        + ("" if used else "; the kernel has no such fence"),
        steps=(Mark(access, f"{name} starts"), Mark(arrival, "is not ordered after it"), _user(model, user)),
        count=len(early),
        help="add tcgen05.fence::before_thread_sync before the arrival",
        fixes=fence_before(sorted(early), "tcgen05.fence::before_thread_sync;"),
    )
    yield _by_letter(model, hit, user)


def _user(model: KernelModel, user: int) -> Mark:
    """The step for the operation of another thread that the arrival lets start."""
    role = model.describe_threads(model.views.context_of(user).threads)
    return Mark(user, f"{model.name(user)} may access the same columns", role=role)


def _unfenced(
    model: KernelModel,
    causes: frozenset[int],
    uses: frozenset[int],
    counts: Callable[[int, int], bool],
) -> tuple[tuple[int, int] | None, set[int]]:
    """The nearest pair of a cause and a use that *counts* and has a path without a fence, and all uses of such pairs.

    None and no uses if none of the nearest pairs has a feasible path.
    """
    sync, results = model.solution(ThreadSync)
    wanted, early = sync.set_of(causes), dict[int, int]()
    pairs = []
    for b in model.cfg.order:
        for at, state in results.walk(b):
            if at in uses and state & wanted:
                early[at] = state & wanted
                pairs += [(site, at) for site in sync.nearest(state & wanted, at, MAX_PAIRS + 1)]
    pairs.sort(key=lambda pair: (pair[0] > pair[1], abs(pair[1] - pair[0])))
    nearest = (pair for pair in pairs if counts(*pair))
    for site, at in model.ledger.at_most(MAX_PAIRS, nearest, FEASIBLE_PATH, -1, "pairs"):
        path = model.path(
            FactQuery(site, sync.bits[site], results, partial(sync.follow, site), partial(_is, at), (at,))
        ).witness
        if path is not None:
            every = len(sync.sites)
            return (site, at), {
                i for i, state in early.items() if any(counts(s, i) for s in sync.nearest(state, i, every))
            }
    return None, set()


def _any(cause: int, use: int) -> bool:
    return True


def _is(wanted: int, state: object, at: int) -> bool:
    return at == wanted
