"""Checks of the barrier of a cluster, and of what CTAs do to the shared memory of each other (PTX ISA 9.7.13.3)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.cluster_barrier import START, ClusterBarrier
from tclint.analyses.cluster_memory import Remote, remote_accesses, single_cta_cluster, uses_peers
from tclint.analyses.happens_before import HappensBefore, Scope
from tclint.analyses.mbarrier_addresses import home
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import calls, dominated_by, last, path_avoiding, whole_program
from tclint.checks import Hit, Mark, RuleId, check
from tclint.dataflow import EXIT, Infeasible, Path
from tclint.findings.edits import Repair, without_word
from tclint.findings.scales import Severity
from tclint.ir.nodes import Instruction
from tclint.values import PathCondition
from tclint.values import thread_masks as T
from tclint.values.shared_memory import Access

BK010 = RuleId("BK010")
CL001 = RuleId("CL001")
CL002 = RuleId("CL002")
CL003 = RuleId("CL003")

_PLACES = ("%cluster", "%ctaid", "%tid", "%laneid", "%warpid")
"""Where a thread stands in its CTA, and the CTA among others."""
_MADE_UP_FOR = "as many waits follow: an H200 takes each arrival for one of the next phase"
"""What there is to say where arrivals come before their turn, and waits behind all of them."""


@check(CL001, needs="barrier", analyses=(ClusterBarrier,))
def barrier_pairing(model: KernelModel) -> Iterator[Hit]:
    """A thread that arrives twice in one phase of the cluster barrier, or waits without having arrived."""
    arrivals = model.sites("barrier-arrive", "cluster")
    waits = model.sites("barrier-wait", "cluster")
    unheard = [a for a in arrivals if all(_before(model, w, a) for w in waits)]
    if unheard and whole_program(model):
        yield _waited_by_nobody(unheard)
    early = {site: _earlier(model, site) for site in waits}
    made_up_for = {a for own, others in early.values() if others and len(own) == others + 1 for a in own}
    for sites, wrong in ((arrivals, frozenset(arrivals)), (waits, frozenset((START, *waits)))):
        for site in sites:
            own, others = early.get(site, ((), 0))
            hit = None if len(own) > others > 0 else _out_of_turn(model, site, wrong)
            if hit is not None:
                yield hit.doubted(_MADE_UP_FOR if site in made_up_for else "")


def _earlier(model: KernelModel, wait: int) -> tuple[list[int], int]:
    """The arrivals in a row before a *wait*, and how many waits stand between, on the one way to it."""
    _, results = model.solution(ClusterBarrier)
    arrivals: list[int] = []
    waits, at = 0, wait
    while len(before := results.before(at)) == 1:
        ((at,),) = before
        if at in (START, wait, *arrivals) or (arrivals and model.instruction(at).event == "barrier-wait"):
            break
        if model.instruction(at).event == "barrier-wait":
            waits += 1
        else:
            arrivals.append(at)
    return arrivals, waits


def _before(model: KernelModel, first: int, second: int) -> bool:
    """Whether every thread that executes *second* has executed *first*, and never does so again."""
    return dominated_by(model, first, second) and not model.reaches(second, first)


def _waited_by_nobody(arrivals: list[int]) -> Hit:
    return CL001.hit(
        site=arrivals[0],
        message="arrives at the barrier of the cluster, but no thread of the kernel waits there any more: "
        "nothing is synchronised",
        count=len(arrivals),
        help="add barrier.cluster.wait where the other CTAs must have come so far",
        severity=Severity.WARNING,
        about=frozenset(arrivals),
    )


def _out_of_turn(model: KernelModel, site: int, wrong: frozenset[int]) -> Hit | None:
    """The arrival or wait at *site*, where a path brings one of *wrong* as the last one before it."""
    _, results = model.solution(ClusterBarrier)

    def step(state: object, i: int, instruction: Instruction) -> object:
        return None if instruction.group == "cluster" or instruction.flow == "call" else state

    for (origin,) in sorted(results.before(site)):
        if origin not in wrong:
            continue
        found = model.most_plausible_path(
            origin, True, results, step, lambda state, i: i == site, (site,)
        ).witness
        if found is not None:
            path, doubt = found
            return _hit(model, site, origin, model.describe_threads(path.threads)).doubted(doubt)
    return None


def _hit(model: KernelModel, site: int, origin: int, role: str) -> Hit:
    if model.instruction(site).event == "barrier-arrive":
        again = site == origin
        return CL001.hit(
            site=site,
            message="arrives at the barrier of the cluster again "
            + ("in the next round of a loop, " if again else "")
            + "before the phase of its first arrival is complete",
            steps=(
                Mark(origin, "arrives here", role=role),
                Mark(site, "arrives again, and has not waited in between", role=role),
            ),
            help="put barrier.cluster.wait between the two arrivals",
            about=frozenset((origin,)),
        )
    before = () if origin == START else (Mark(origin, "waits here, which ends the phase", role=role),)
    return CL001.hit(
        site=site,
        message="waits at the barrier of the cluster without having arrived there"
        + ("" if origin == START else " since the last wait")
        + ": the barrier never completes",
        steps=(*before, Mark(site, "waits for all threads of the cluster, this one among them", role=role)),
        help="put barrier.cluster.arrive before it, once for each wait",
        about=frozenset((site,)),
    )


@check(CL002, analyses=(HappensBefore,))
def remote_without_sync(model: KernelModel) -> Iterator[Hit]:
    """Shared memory of another CTA that may not run yet, or may have gone."""
    if not model.function.entry or single_cta_cluster(model):
        return
    found = remote_accesses(model)
    if not found or not uses_peers(model, found):
        return
    hit = _too_early(model, found)
    if hit is not None:
        yield hit
    hit = _too_late(model, found)
    if hit is not None:
        yield hit


def _too_early(model: KernelModel, found: list[Remote]) -> Hit | None:
    """The first use of a peer on a way from the entry on which nothing says that the peer has started."""
    order = model.fact(HappensBefore)
    told = order.transitive_observers(order.barrier_sites(Scope.CTAS))
    sites = {r.site for r in found}
    path = path_avoiding(model, -1, T.full(model.values.threads), sites, told, _with_peers(model, -1)).witness
    if path is None or _alone_on(model, -1, path):
        return None
    site = path.end
    return CL002.hit(
        site=site,
        message=f"{_deed(model, site)} another CTA of the cluster, which may not have started: "
        "no barrier of the cluster comes before it",
        steps=(Mark(site, "nothing waits for the other CTAs before this", role=_role(model, site)),),
        help="let all threads pass barrier.cluster.arrive and barrier.cluster.wait before the first use of another CTA",
        about=frozenset(a for a in model.sites("barrier-arrive", "cluster") if model.reaches(a, site))
        or frozenset((site,)),
    )


def _too_late(model: KernelModel, found: list[Remote]) -> Hit | None:
    """The last use of a peer, after which nothing keeps a CTA from leaving while it is still used."""
    order = model.fact(HappensBefore)
    waits, told = order.barrier_sites(Scope.CTAS), order.acquire_points(Scope.CTAS)
    kinds = dict(found)
    for site in reversed(last(model, kinds, told)):
        if kinds[site] == "multicast" or any(_other(model, site, w) for w in waits):
            continue  # who receives it waits for it; other warps wait for the cluster at the end
        if kinds[site] == "arrival" and (any(model.reaches(site, w) for w in waits) or _tail(model)):
            continue
        path = path_avoiding(
            model, site, T.full(model.values.threads), (), told, _with_peers(model, site)
        ).witness
        if path is not None and not (_awaited(model, site, path) or _alone_on(model, site, path)):
            role = _role(model, site)
            return CL002.hit(
                site=site,
                message=f"{_deed(model, site)} another CTA of the cluster, and nothing keeps that CTA from exiting before: "
                "no barrier of the cluster comes behind it",
                steps=(
                    Mark(site, "the other CTA may have exited", role=role),
                    Mark(
                        path.last(model.cfg, site),
                        "the thread leaves without hearing of the other CTA",
                        role=role,
                    ),
                ),
                help="let all threads pass barrier.cluster.arrive and barrier.cluster.wait before they exit",
                about=frozenset(a for a in model.sites("barrier-arrive", "cluster") if model.reaches(site, a))
                or frozenset((site,)),
            )
    return None


def _awaited(model: KernelModel, site: int, path: Path) -> bool:
    """Whether the thread arrives at the barrier of the cluster on its way from *site*, and others stay to wait for it.

    One thread that waits is enough for its CTA to stay. Who waits is a matter of the thread or the CTA, and that the CTA
    which is accessed is among them is taken for granted.
    """
    waits = model.fact(HappensBefore).barrier_sites(Scope.CTAS)
    passed = path.passed(model.cfg, site)
    taken = _taken(model, site, path)
    for arrive in model.sites("barrier-arrive", "cluster"):
        if arrive in passed and any(model.reaches(arrive, w) for w in waits):
            block = model.cfg.block_of[arrive]
            first = next(n for n, (source, _, _) in enumerate(taken) if source == block)
            if any(_differs(model, p) for _, p, _ in taken[first:]):
                return True
    return False


def _taken(model: KernelModel, site: int, path: Path) -> list[tuple[int, int | None, bool]]:
    """The blocks of a path from *site*, with the predicate by which each is left, and its value then."""
    taken = [(e.source, model.reachability.edge_predicate(e), e.value) for e in path.edges]
    end = path.last(model.cfg, site)
    leaves = model.instruction(end) if path.end == EXIT else None
    p = model.values.before(leaves.guard, end) if leaves and leaves.guard >= 0 else None
    return [*taken, (path.block(model.cfg, site), p, bool(leaves and not leaves.negated))]


def _differs(model: KernelModel, p: int | None) -> bool:
    """Whether a predicate is about which CTA of the cluster, or which thread, this is."""
    nodes = () if p is None else (model.values.node(v) for v in model.values.subexpressions(p))
    return any(node[0] == "special" and str(node[1]).startswith(_PLACES) for node in nodes)


def _alone_on(model: KernelModel, site: int, path: Path) -> bool:
    """Whether nobody passes the barrier of the cluster in a launch that takes *path*: a cluster of one CTA then."""
    values, facts = model.values, PathCondition()
    for _, p, value in _taken(model, site, path):
        if p is not None and not _differs(model, p):
            facts = values.refine(p, value, facts)
    launch = values.invariant(facts).items()
    waits = [
        model.views.context_of(w).invariant(values)
        for w in model.fact(HappensBefore).barrier_sites(Scope.CTAS)
    ]
    return bool(waits) and all(any(values.entails(p, there) is (not v) for p, v in launch) for there in waits)


def _with_peers(model: KernelModel, site: int) -> PathCondition:
    """What is known at *site* where the cluster has other CTAs: a template may be launched with one as well."""
    values = model.values
    single = values.compare("eq", values.special("%cluster_nctarank"), values.constant(1), True)
    return values.refine(single, False, model.views.context_of(site).facts)


def _other(model: KernelModel, site: int, wait: int) -> bool:
    """Whether *wait* is of other threads than *site*, and not what they all begin with."""
    return model.views.mutually_exclusive(site, wait) and not model.reaches(wait, site)


def _tail(model: KernelModel) -> bool:
    """Whether some thread waits for an mbarrier and leaves: it may be what the other CTA arrives at last."""
    deeds = [e.site for e in model.events if e.kind in _DEEDS and e.group != "cluster"]
    every = T.full(model.values.threads)
    waits = last(model, model.sites("mbarrier-wait"), deeds)
    # To report that there is none, each search has to be exhaustive.
    return any(not isinstance(path_avoiding(model, w, every, (), deeds), Infeasible) for w in waits)


_DEEDS = frozenset(("issue", "commit", "mbarrier-arrive", "mbarrier-expect"))
"""What a thread waits for an mbarrier for, when it does not leave."""


def _deed(model: KernelModel, site: int) -> str:
    event = model.instruction(site).event
    if event in ("mbarrier-arrive", "commit"):
        return "arrives at an mbarrier of"
    return "copies into" if event == "issue" else "accesses shared memory of"


def _role(model: KernelModel, site: int) -> str:
    return model.describe_threads(model.views.context_of(site).threads)


@check(BK010, needs="cp", analyses=(HappensBefore,))
def multicast_reused(model: KernelModel) -> Iterator[Hit]:
    """A multicast load repeated into the same shared memory of the peers, which nothing says have read the last one."""
    if not model.function.entry or single_cta_cluster(model):
        return
    for site in model.sites("issue", "mbarrier"):
        if model.instruction(site).role("mask") is None or model.cfg.block_of[site] not in model.cfg.in_cycle:
            continue
        order = model.fact(HappensBefore)
        peers_heard = order.acquire_points(Scope.CTAS) - order.waits_for((site,))
        told = order.transitive_observers(w for w in peers_heard if model.reaches(w, w))
        path = path_avoiding(model, site, T.full(model.values.threads), (site,), told).witness
        target = model.value(site, "destination")
        if path is None or target is None or model.changes(target, path, site):
            continue
        role = model.describe_threads(path.threads)
        yield BK010.hit(
            site=site,
            message="copies into shared memory of several CTAs again, and nothing says that the others have read "
            "what the last round brought",
            steps=(
                Mark(site, "copies to all CTAs of the mask", role=role),
                Mark(site, "copies there again, without a word from the other CTAs", role=role),
            ),
            help="before the copy, wait for an mbarrier on which the readers in all CTAs arrive, or at the barrier of the cluster",
            about=frozenset((site,)),
        )
        return


@check(CL003, needs="mapa", analyses=(HappensBefore,))
def relaxed_taken_for_release(model: KernelModel) -> Iterator[Hit]:
    """Shared memory that a peer reads behind a cluster barrier at which the writer arrived with .relaxed."""
    relaxed = [i for i in model.sites("barrier-arrive", "cluster") if _has(model, i, ".relaxed")]
    reads = (
        [r.site for r in remote_accesses(model) if r.kind == "access"]
        if relaxed and not single_cta_cluster(model)
        else []
    )
    if not reads:
        return
    fences = {i for i in model.sites("memory-fence") if _has(model, i, ".cluster", ".gpu", ".sys", ".gl")}
    fences -= {i for i in fences if _has(model, i, ".mbarrier_init")}
    fences.update(calls(model))
    writes = [i for i in model.shared.writers if not model.instruction(i).event]
    for write in last(model, writes, fences, relaxed):
        for wait, arrive in model.fact(HappensBefore).relaxed_cluster_waits(write, fences).items():
            hit = _seen_by_peer(model, write, arrive, wait, reads)
            if hit is not None:
                yield hit
                return


def _seen_by_peer(model: KernelModel, write: int, arrive: int, wait: int, reads: list[int]) -> Hit | None:
    """The store at *write*, which nothing orders before the arrival, and one of *reads* behind the wait for that, of the same bytes."""
    values, shared = model.values, model.shared
    arrivals = model.sites("barrier-arrive", "cluster")
    for access in shared.accesses(write):
        for read in reads:
            place = _there(model, read)
            if place is None or not access.writes:
                continue
            seen = shared.accesses(read)
            size = max((a.size for a in seen if not a.writes), default=0)
            if not size or not shared.overlap(
                access,
                Access(read, False, place, size),
                model.views.context_of(write).threads,
                model.views.context_of(read).threads,
            ):
                continue
            if (
                path_avoiding(
                    model, wait, T.full(values.threads), (read,), {*arrivals, *calls(model)}
                ).witness
                is not None
            ):
                return CL003.hit(
                    site=arrive,
                    message="arrives at the barrier of the cluster with .relaxed, which orders no memory, and another CTA "
                    "reads what was written before",
                    steps=(
                        Mark(write, "writes shared memory"),
                        Mark(arrive, "tells the other CTAs to go on, and nothing about the write"),
                        Mark(read, "the same bytes of another CTA are read"),
                    ),
                    fixes=(
                        Repair(
                            "order memory as well: .release instead of .relaxed",
                            (without_word(arrive, model.instruction(arrive), ".relaxed", ".release"),),
                            True,
                        ),
                    ),
                    help="use .release, which is the default, or put fence.acq_rel.cluster between the write and the arrival",
                    about=frozenset((arrive,)),
                )
    return None


def _there(model: KernelModel, read: int) -> int | None:
    """The address in the own CTA that a remote access at *read* is mapped from."""
    for access in model.shared.accesses(read):
        own = home(model.values, access.address)
        if own.leaves:
            return own.address
    return None


def _has(model: KernelModel, site: int, *modifiers: str) -> bool:
    match = model.instruction(site).match
    return match is not None and not {*modifiers}.isdisjoint(match.modifiers)
