"""Checks of the tensor memory of a CTA pair (PTX ISA 9.7.16.5, 9.7.16.7.1)."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tclint.analyses.happens_before import HappensBefore, OrderScope
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import calls, path_avoiding
from tclint.analyses.tmem_allocation import paired
from tclint.checks import Hit, Mark, RuleId, check
from tclint.findings.scales import Severity
from tclint.isa.effects import TCGEN05, TCGEN05_LD, TCGEN05_ST, Barrier, Resource
from tclint.values import thread_masks as T

TM010 = RuleId("TM010")
TM011 = RuleId("TM011")


@check(TM010)
def pair_without_cluster(model: KernelModel) -> Iterator[Hit]:
    """Operations of a CTA pair in a kernel whose clusters do not consist of CTA pairs."""
    directives = model.function.directives
    size = prod(directives.get(".reqnctapercluster", ()))
    if ".reqnctapercluster" in directives:
        odd, what = bool(size % 2), f"clusters of {size} CTA{'s' * (size != 1)} (.reqnctapercluster)"
    else:
        odd, what = directives.get(".maxclusterrank") == (1,), "clusters of one CTA (.maxclusterrank 1)"
        size = 1
    if not odd:
        return
    uses = (i for use in model.function.uses if use.match is not None for i in use.sites)
    sites = [i for i in paired(model, uses) if model.cfg.block_of[i] in model.cfg.rank]
    if sites:
        site = min(sites)
        yield TM010.hit(
            site=site,
            message=f"{model.name(site)} with .cta_group::2 needs a peer CTA, but the kernel runs in {what}",
            count=len(sites),
            help="make the number of CTAs in a cluster even, or use .cta_group::1",
            severity=Severity.ERROR if size == 1 else None,
        )


_OTHER_WARP = (
    "another warp, or another path, waits for the peer, and may order this instruction after that wait"
)
_USES = (TCGEN05_LD, TCGEN05_ST, TCGEN05)


@check(TM011, analyses=(HappensBefore,))
def pair_freed_unsynced(model: KernelModel) -> Iterator[Hit]:
    """The tensor memory of a CTA pair is freed without waiting for the peer CTA (9.7.16.5)."""
    frees = paired(model, model.sites(Resource.TMEM_DEALLOC))
    allocations = paired(model, model.sites(Resource.TMEM_ALLOC))
    if not frees or not allocations or not model.function.entry:
        return
    uses = [site for group in _USES for site in model.begins(group)] or allocations
    order = model.fact(HappensBefore)
    waiting = order.points.barrier_sites(OrderScope.CTAS) | order.points.polls(OrderScope.CTAS)
    late = [w for w in waiting if any(model.reaches(i, w) for i in uses)]
    allocated = [w for w in waiting if any(model.reaches(i, w) for i in allocations)]
    # A handshake: the warp arrives on an mbarrier of the peer, and a thread waits for such an arrival after its last use.
    arrivals = [i for i in model.arrives(Barrier.MBARRIER) if _is_remote(order, i)]
    awaited = order.waits_for(arrivals).intersection(model.awaits(Barrier.MBARRIER))
    waits = [w for w in sorted(awaited) if _follows_last_use(model, w, uses)]
    if not waits:
        arrivals = []
    for free in frees:
        passed = [*late, *arrivals, *calls(model)]
        threads = model.views.context_of(free).threads
        path = path_avoiding(model, -1, threads, (free,), passed).witness
        if path is None:
            continue
        # A pair that has met since it allocated: no free has failed then, though the peer may still use the columns.
        met = path_avoiding(model, -1, threads, (free,), [*passed, *allocated]).witness is None
        hit = TM011.hit(
            site=free,
            message=f"{model.name(free)} frees the tensor memory of a CTA pair without waiting for the peer CTA, which may still be using it",
            steps=(
                Mark(allocations[0], "allocated by both CTAs"),
                Mark(
                    free,
                    "freed without an intervening cluster barrier",
                    role=model.describe_threads(T.whole(path.threads, 32)),
                ),
            ),
            help="add barrier.cluster.arrive and barrier.cluster.wait in both CTAs between the last access and this instruction",
            about=frozenset((free,)),
        )
        ordered = any(_may_order(model, w, free) for w in (*late, *waits))
        yield hit.unshown(Severity.WARNING if met else None).doubted(_OTHER_WARP if ordered else "")
        return


def _follows_last_use(model: KernelModel, wait: int, uses: list[int]) -> bool:
    """Whether the threads of *wait* reach none of *uses* afterwards."""
    threads = model.views.context_of(wait).threads
    return not any(threads & model.views.context_of(i).threads and model.reaches(wait, i) for i in uses)


def _may_order(model: KernelModel, wait: int, free: int) -> bool:
    """Whether a thread that waits for the peer at *wait* may execute *free* later, or signal other threads.

    The signal may reach the freeing warp through any number of threads. A thread that only exits after *wait* passes
    nothing on.
    """
    threads = model.views.context_of(wait).threads
    return any(
        threads & model.views.context_of(i).threads and model.reaches(wait, i)
        for i in (free, *model.fact(HappensBefore).points.release_points)
    )


def _is_remote(order: HappensBefore, arrive: int) -> bool:
    """Whether an arrival may be on an mbarrier of another CTA; a generic address may be made by ``mapa``."""
    match = order.model.instruction(arrive).match
    if match is None or match.space:
        return match is not None and match.space == ".shared::cluster"
    addresses = order.points.mbarriers.addresses.of(arrive)
    return not addresses or any(address.remote for address in addresses)
