"""Checks of tensor memory that is freed while it is in use (PTX ISA 9.7.16.5, 9.7.16.7.1).

A deallocation is reported in five cases: an operation of its own thread may be pending; no wait before it is for the
commit of an operation of another warp; another warp uses the memory and ends without signalling; the freeing warp waits
for nothing since a barrier after which others start to use the memory; or it waits for nothing since it issued a copy
that an MMA of another warp waits for, or a commit that a load of another warp waits for. In the last three cases, any
wait, and any signal of the other warp, counts as one for the accesses in question, which under-reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tclint._named_tuple import NamedTuple
from tclint.analyses.happens_before import HappensBefore, OrderScope
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import controlling_predicates, dominated_by, last, path_avoiding, unbarred
from tclint.analyses.tensor_memory import TensorMemory
from tclint.analyses.tmem_allocation import paired
from tclint.checks import Hit, Mark, RuleId, check
from tclint.findings.scales import Confidence
from tclint.isa.effects import TCGEN05, TCGEN05_LD, TCGEN05_ST, TRANSACTIONS, Resource
from tclint.values import thread_masks as T

TM006 = RuleId("TM006")


@check(TM006, analyses=(HappensBefore, TensorMemory))
def freed_in_use(model: KernelModel) -> Iterator[Hit]:
    """Tensor memory is freed while this thread's operations, or other warps, may still be using it (9.7.16.5)."""
    frees = model.sites(Resource.TMEM_DEALLOC)
    if not frees or not model.begins() or not model.function.entry:
        return
    for site in frees:
        hit = _own_operation(model, site)
        if hit is not None:
            yield hit
    hit = (
        _never_observed(model, frees)
        or _ends_without_signal(model, frees)
        or _no_wait_since_barrier(model, frees)
        or _no_wait_since(model, frees, _COPY)
        or _no_wait_since(model, frees, _COMMIT)
    )
    if hit is not None:
        yield hit


def _own_operation(model: KernelModel, free: int) -> Hit | None:
    """The hit for a pending MMA, copy or shift of the same thread; its loads and stores are left to TC003 and TC004."""
    order, commits = model.fact(HappensBefore), model.commits(TCGEN05)
    # An access to the result is reported first (TC001).
    accesses = {*model.begins(TCGEN05_LD), *model.begins(TCGEN05_ST)}
    operations = [i for i in model.begins(TCGEN05) if model.reaches(i, free)]
    free_after: dict[frozenset[int], frozenset[int]] = {}
    """Waits -> the operations from which a path leads to *free* and passes none of them."""
    for site in operations:
        tracking = [commit for commit in commits if model.reaches(site, commit)]
        ends = order.transitive_observers(order.waits_for(tracking))
        if ends not in free_after:
            free_after[ends] = frozenset(unbarred(model, operations, ends, (free,)))
        if site not in free_after[ends] or not _may_use(model, site, (free,)):
            continue
        ends |= _accesses_to(model, site, accesses)
        if not last(model, (site,), ends, (free,)):
            continue
        path = path_avoiding(model, site, T.full(model.values.threads), (free,), ends).witness
        if path is None:
            continue
        committed = not {*commits}.isdisjoint(path.sites(model.cfg, site))
        if not committed and not any(model.reaches(free, commit) for commit in commits):
            continue  # it is never committed, which TC005 reports
        role = model.describe_threads(path.threads)
        return TM006.hit(
            site=free,
            message=f"{model.name(free)} frees tensor memory that {model.name(site)} of the same thread may still be using: "
            + ("no wait follows its commit" if committed else "it is committed later"),
            steps=(
                Mark(site, f"{model.name(site)} starts", role=role),
                Mark(free, "its tensor memory is freed", role=role),
            ),
            help="wait for the mbarrier of its tcgen05.commit before this instruction",
            confidence=Confidence.MEDIUM,
        )
    return None


def _never_observed(model: KernelModel, frees: list[int]) -> Hit | None:
    """The hit for a committed MMA, copy or shift of another warp that no thread waits for before *frees*."""
    order, commits = model.fact(HappensBefore), model.commits(TCGEN05)
    for site in model.begins(TCGEN05) if not model.reachability.unresolved_dispatchers else ():
        tracking = [commit for commit in commits if model.reaches(site, commit)]
        free = next((f for f in frees if not model.views.exclusive(site, f)), None)
        if (
            not tracking
            or free is None
            or not _others(model, frees, site)
            or not _may_use(model, site, frees)
        ):
            continue
        observers = order.transitive_observers(order.waits_for(tracking))
        if any(model.reaches(wait, f) for wait in observers for f in frees):
            continue
        role = model.describe_threads(model.views.context_of(site).threads)
        return TM006.hit(
            site=free,
            message=f"{model.name(free)} frees tensor memory that {model.name(site)} of {role} may still be using: "
            "no thread waits for its commit",
            steps=(
                Mark(site, f"{model.name(site)} starts", role=role),
                Mark(tracking[0], "is to arrive when it has completed", role=role),
                Mark(free, "freed here", role=model.describe_threads(model.views.context_of(free).threads)),
            ),
            help="wait for the mbarrier of its tcgen05.commit, and order that wait before this instruction",
            about=frozenset((free,)),
            confidence=Confidence.MEDIUM,
        )
    return None


def _others(model: KernelModel, frees: Iterable[int], site: int) -> int:
    """The threads that execute *site* and belong to warps that execute none of *frees*."""
    freeing = 0
    for free in frees:
        freeing |= model.views.context_of(free).threads
    return model.views.context_of(site).threads & ~T.whole(freeing, 32)


def _ends_without_signal(model: KernelModel, frees: list[int]) -> Hit | None:
    """The hit for a warp that reads tensor memory and ends without signalling, while another warp frees it."""
    if model.reachability.unresolved_dispatchers:
        return None
    signals = model.fact(HappensBefore).points.release_points.union(frees)
    # Stores are not considered: a path on which the data are stored and never announced is not realistic.
    for site in last(model, _used_loads(model), signals):
        others = _others(model, frees, site)
        free = next((f for f in frees if not model.views.exclusive(site, f)), None)
        if not others or free is None or not _may_use(model, site, frees) or _joined(model, site, free):
            continue
        path = path_avoiding(model, site, others, (), signals).witness
        if path is None:
            continue
        role = warps_of(model, path.threads)
        return TM006.hit(
            site=free,
            message=f"{model.name(free)} frees tensor memory that {role} may still be using: no synchronisation shows that they have finished",
            steps=(
                Mark(site, f"last {model.name(site)} of another warp", role=role),
                Mark(path.last(model.cfg, site), "that warp ends without arriving at a barrier", role=role),
                Mark(free, "freed here", role=model.describe_threads(model.views.context_of(free).threads)),
            ),
            help=_remedy(model, free),
            about=frozenset((free,)),
            confidence=None if model.function.threads else Confidence.MEDIUM,
        )
    return None


def _remedy(model: KernelModel, free: int) -> str:
    what = (
        "barrier.cluster.arrive and .wait in both CTAs"
        if paired(model, (free,))
        else "a barrier for all warps"
    )
    return f"add {what} between the last access to tensor memory and this instruction"


def _joined(model: KernelModel, site: int, free: int) -> bool:
    """Whether a barrier after *site* and before *free* may make the freeing warp wait for all running threads.

    Such a barrier waits until each thread has arrived or exited, so it follows the accesses of threads that exit.
    """
    threads = model.views.context_of(free).threads
    return any(
        model.instruction(b).role("count") is None
        and model.views.context_of(b).threads & threads
        and not dominated_by(model, b, site)
        and model.reaches(b, free)
        for b in model.fact(HappensBefore).points.barrier_sites(OrderScope.WARPS)
    )


def _always(model: KernelModel, site: int) -> bool:
    """Whether the thread index alone decides which threads execute *site*, so that some thread does in every launch."""
    return all(model.values.mask(p) is not None for p in controlling_predicates(model, site))


def _no_wait_since_barrier(model: KernelModel, frees: list[int]) -> Hit | None:
    """The hit for a deallocation whose warp has not waited since a barrier after which other warps use the memory."""
    views = model.views
    waits = model.fact(HappensBefore).points.acquire_points(OrderScope.WARPS)
    uses = [*_used_loads(model), *model.begins(TCGEN05_ST), *model.begins(TCGEN05)]
    for free in frees:
        threads = views.context_of(free).threads
        barriers = [
            b for b in model.fact(HappensBefore).points.cta_wide_barriers if dominated_by(model, b, free)
        ]
        nearest = [b for b in barriers if all(b is c or dominated_by(model, c, b) for c in barriers)]
        if not threads or not nearest or views.reachability.unresolved_dispatchers:
            continue
        (start,) = nearest
        own_waits = (w for w in waits if w != start and views.context_of(w).threads & threads)
        if any(model.reaches(start, w) and model.reaches(w, free) for w in own_waits):
            continue
        for site in uses:
            if (
                dominated_by(model, start, site)
                and _others(model, frees, site)
                and _may_use(model, site, frees)
                and (_always(model, free) or model.reaches(site, free))
                and not model.views.exclusive(site, free)
            ):
                role = warps_of(model, _others(model, frees, site))
                return TM006.hit(
                    site=free,
                    message=f"{model.name(free)} frees tensor memory that {role} may still be using: "
                    "this warp waits for nothing after the barrier from which they start",
                    steps=(
                        Mark(start, "all warps continue from here"),
                        Mark(site, f"{model.name(site)} of another warp", role=role),
                        Mark(free, "freed here", role=model.describe_threads(threads)),
                    ),
                    help=_remedy(model, free),
                    about=frozenset((free,)),
                    confidence=None if model.function.threads else Confidence.MEDIUM,
                )
    return None


class _Start(NamedTuple):
    """A kind of operation that lets other warps start to use tensor memory."""

    sites: Callable[[KernelModel], list[int]]
    noun: str
    effect: str
    users: Callable[[KernelModel], Iterable[int]]
    """The accesses of other warps that may wait for it."""


_COPY = _Start(
    lambda model: model.begins(TRANSACTIONS),
    "copy",
    "copies an operand of the multiplication",
    lambda model: model.begins(TCGEN05),
)
_COMMIT = _Start(
    lambda model: model.commits(TCGEN05),
    "commit",
    "announces the result",
    lambda model: _used_loads(model),
)


def _no_wait_since(model: KernelModel, frees: list[int], kind: _Start) -> Hit | None:
    """The hit for a deallocation by a warp that has not waited since its last *kind* for an access of another warp.

    That access waits for the operation, so it may execute after the deallocation.
    """
    ends = model.fact(HappensBefore).points.acquire_points(OrderScope.WARPS)
    for free in frees if not model.reachability.unresolved_dispatchers else ():
        warp = T.whole(model.views.context_of(free).threads, 32)
        for start in last(model, kind.sites(model), ends, (free,)):
            use = None if _waits_elsewhere(model, warp, start, free) else _started(model, frees, start, kind)
            path = None if use is None else path_avoiding(model, start, warp, (free,), ends).witness
            if use is None or path is None or not warp & path.threads:
                continue
            role, name = warps_of(model, _others(model, frees, use)), model.name(use)
            freeing = model.describe_threads(model.views.context_of(free).threads)
            return TM006.hit(
                site=free,
                message=f"{model.name(free)} frees tensor memory that {role} may still be using: "
                f"this warp has not waited since the {kind.noun} that their {name} waits for",
                steps=(
                    Mark(start, kind.effect, role=model.describe_threads(path.threads)),
                    Mark(use, f"{name} of another warp, after a wait for the {kind.noun}", role=role),
                    Mark(free, "freed here", role=freeing),
                ),
                help=_remedy(model, free),
                about=frozenset((free,)),
                confidence=Confidence.MEDIUM,
            )
    return None


def _waits_elsewhere(model: KernelModel, warp: int, start: int, free: int) -> bool:
    """Whether a lane of *warp* waits, before *free*, on a path that *start* does not follow.

    It may then wait on behalf of the lanes that execute *start*.
    """
    return any(
        model.views.context_of(w).threads & warp and model.reaches(w, free) and not model.reaches(w, start)
        for w in model.fact(HappensBefore).points.acquire_points(OrderScope.WARPS)
    )


def _started(model: KernelModel, frees: list[int], start: int, kind: _Start) -> int | None:
    """An access of another warp that a wait for *start* dominates; None if there is none."""
    order = model.fact(HappensBefore)
    waits = [
        wait for _, wait in order.synchronised_pairs((start,), order.points.acquire_points(OrderScope.WARPS))
    ]
    for use in kind.users(model):
        others = _others(model, frees, use)
        theirs = [w for w in waits if model.views.context_of(w).threads & others]
        if others and _may_use(model, use, frees) and any(dominated_by(model, w, use) for w in theirs):
            return use
    return None


def _used_loads(model: KernelModel) -> list[int]:
    """The loads with a register that is read; the result of any other load is unused, so it does no harm."""
    loads = model.begins(TCGEN05_LD)
    read = {r for i in model.function.instructions for r in i.reads} if loads else set()
    return [i for i in loads if not read.isdisjoint(model.instruction(i).writes)]


def _may_use(model: KernelModel, site: int, frees: Iterable[int]) -> bool:
    """Whether *site* may access what *frees* deallocate: its address is one of theirs plus an offset."""
    values = model.values
    terms = {
        t
        for role in ("taddr", "d")
        if (v := model.value(site, role)) is not None
        for t in values.linear(v)[0]
    }
    return any(
        terms.issuperset(values.linear(value)[0])
        for free in frees
        if (value := model.value(free, "taddr")) is not None
    )


def warps_of(model: KernelModel, threads: int) -> str:
    """The warps of *threads* as text; ``other warps`` if the number of warps is unknown."""
    return model.describe_threads(T.whole(threads, 32)) if model.function.threads else "other warps"


def _accesses_to(model: KernelModel, site: int, accesses: set[int]) -> set[int]:
    """Those of *accesses* that may be to the columns that the operation *site* writes."""
    tmem = model.fact(TensorMemory)
    return {i for i in accesses if not tmem.disjoint(site, "d", i, "taddr")}
