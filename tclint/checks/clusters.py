"""Checks of the cluster barrier, and of accesses to shared memory of peer CTAs (PTX ISA 9.7.13.3)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tclint.analyses.cluster_barrier import START, ClusterBarrier
from tclint.analyses.cluster_memory import (
    Remote,
    names_peers,
    remote_accesses,
    single_cta_cluster,
    uses_peers,
)
from tclint.analyses.happens_before import HappensBefore, OrderScope
from tclint.analyses.mbarrier_addresses import home
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.plausibility import most_plausible_path
from tclint.analyses.role_paths import calls, dominated_by, last, path_avoiding, whole_program
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._wording import avoided
from tclint.dataflow import EXIT, Infeasible, Path
from tclint.findings.edits import Repair, without_word
from tclint.findings.scales import Severity
from tclint.ir.nodes import Instruction, specials
from tclint.isa.effects import TRANSACTIONS, Barrier, Effects, Fence, Order
from tclint.values import PathCondition
from tclint.values import thread_masks as T
from tclint.values.nodes import SpecialRead
from tclint.values.shared_memory import SharedAccess

BK010 = RuleId("BK010")
CL001 = RuleId("CL001")
CL002 = RuleId("CL002")
CL003 = RuleId("CL003")

_POSITIONS = ("%cluster", "%ctaid", "%tid", "%laneid", "%warpid")
"""Special registers that hold the position of a thread in its CTA, or of the CTA in its cluster or grid."""
_CLUSTER_SIZES = ("%cluster_nctaid.x", "%cluster_nctaid.y", "%cluster_nctaid.z")
_COMPENSATED = "as many waits follow: an H200 counts each further arrival towards the next phase"
"""The doubt about arrivals in a row that are followed by as many waits."""


@check(CL001, analyses=(ClusterBarrier,))
def barrier_pairing(model: KernelModel) -> Iterator[Hit]:
    """Report threads that arrive twice in one phase of the cluster barrier, or wait without having arrived."""
    arrivals = model.arrives(Barrier.CLUSTER)
    waits = model.awaits(Barrier.CLUSTER)
    unawaited = [a for a in arrivals if all(_before(model, w, a) for w in waits)]
    if unawaited and whole_program(model):
        yield _never_awaited(model, unawaited)
    early = {site: _earlier(model, site) for site in waits}
    compensated = {a for own, others in early.values() if others and len(own) == others + 1 for a in own}
    for sites, wrong in ((arrivals, frozenset(arrivals)), (waits, frozenset((START, *waits)))):
        for site in sites:
            own, others = early.get(site, ((), 0))
            hit = None if len(own) > others > 0 else _out_of_turn(model, site, wrong)
            if hit is not None:
                yield hit.doubted(_COMPENSATED if site in compensated else "")


def _earlier(model: KernelModel, wait: int) -> tuple[list[int], int]:
    """The consecutive arrivals before a *wait*, and the number of waits between them and it.

    The search backwards ends where more than one arrival or wait may be the preceding one.
    """
    _, results = model.solution(ClusterBarrier)
    arrivals: list[int] = []
    waits, at = 0, wait
    while len(before := results.before(at)) == 1:
        ((at,),) = before
        if at in (START, wait, *arrivals) or (
            arrivals and model.instruction(at).effects.awaits is Barrier.CLUSTER
        ):
            break
        if model.instruction(at).effects.awaits is Barrier.CLUSTER:
            waits += 1
        else:
            arrivals.append(at)
    return arrivals, waits


def _before(model: KernelModel, first: int, second: int) -> bool:
    """True if every thread that executes *second* has executed *first*, and does not execute *first* again."""
    return dominated_by(model, first, second) and not model.reaches(second, first)


def _never_awaited(model: KernelModel, arrivals: list[int]) -> Hit:
    return CL001.hit(
        site=arrivals[0],
        message=f"{model.name(arrivals[0])} arrives at the cluster barrier, but no later wait in the kernel matches this arrival: "
        "nothing is synchronised",
        count=len(arrivals),
        help="add barrier.cluster.wait where the other CTAs must have arrived",
        severity=Severity.WARNING,
        about=frozenset(arrivals),
    )


def _out_of_turn(model: KernelModel, site: int, wrong: frozenset[int]) -> Hit | None:
    """The finding about the arrival or wait at *site* if one of *wrong* can immediately precede it; None otherwise."""
    barrier, results = model.solution(ClusterBarrier)

    def step(state: object, i: int, instruction: Instruction) -> object:
        unknown = instruction.flow == "call" and instruction.callee not in barrier.quiet
        return None if instruction.effects.barrier is Barrier.CLUSTER or unknown else state

    for (origin,) in sorted(results.before(site)):
        if origin not in wrong:
            continue
        query = FactQuery(origin, True, results, step, lambda state, i: i == site, (site,))
        found = most_plausible_path(model, query).witness
        if found is not None:
            path, doubt = found
            role = model.describe_threads(path.threads)
            waits = avoided(model, path, model.awaits(Barrier.CLUSTER), role)
            return _hit(model, site, origin, role, waits).doubted(doubt.why)
    return None


def _hit(model: KernelModel, site: int, origin: int, role: str, waits: tuple[Mark, ...]) -> Hit:
    """The finding about *site*, which follows *origin*; *waits* are the steps about waits that the threads *role* skip."""
    if model.instruction(site).effects.arrives is Barrier.CLUSTER:
        again = site == origin
        return CL001.hit(
            site=site,
            message=f"{model.name(site)} arrives at the cluster barrier again "
            + ("in the next iteration " if again else "")
            + "before the phase of its first arrival is complete",
            steps=(
                Mark(origin, "arrives here", role=role),
                *waits,
                Mark(site, "arrives again with no intervening wait", role=role),
            ),
            help="add barrier.cluster.wait between the two arrivals",
            about=frozenset((origin,)),
        )
    before = () if origin == START else (Mark(origin, "waits for the previous phase", role=role),)
    return CL001.hit(
        site=site,
        message=f"{model.name(site)} waits at the cluster barrier without having arrived there"
        + ("" if origin == START else " since the last wait")
        + ": the barrier never completes",
        steps=(*before, Mark(site, "waits for all threads of the cluster, including this one", role=role)),
        help="add barrier.cluster.arrive before it, once for each wait",
        about=frozenset((site,)),
    )


@check(CL002, analyses=(HappensBefore,))
def remote_without_sync(model: KernelModel) -> Iterator[Hit]:
    """Report accesses to shared memory of a CTA that may not have started yet, or may have exited."""
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
    """The finding about a use of a peer CTA that a path reaches before any synchronisation with it; or None."""
    order = model.fact(HappensBefore)
    observers = order.transitive_observers(order.points.barrier_sites(OrderScope.CTAS))
    sites = {r.site for r in found}
    path = _in_several_ctas(model, -1, sites, observers)
    if path is None or _alone_on(model, -1, path):
        return None
    site = path.end
    return CL002.hit(
        site=site,
        message=f"{model.name(site)} {_operation(model, site)} another CTA of the cluster, which may not have started: "
        "no cluster barrier precedes it",
        steps=(Mark(site, "no wait for the other CTAs before this", role=_role(model, site)),),
        help="let all threads pass barrier.cluster.arrive and barrier.cluster.wait before the first access to "
        "another CTA",
        severity=Severity.WARNING,
        about=frozenset(a for a in model.arrives(Barrier.CLUSTER) if model.reaches(a, site))
        or frozenset((site,)),
    )


def _too_late(model: KernelModel, found: list[Remote]) -> Hit | None:
    """The finding about a last use of a peer CTA that nothing keeps from exiting before; None without one."""
    order = model.fact(HappensBefore)
    waits, observers = (
        order.points.barrier_sites(OrderScope.CTAS),
        order.points.acquire_points(OrderScope.CTAS),
    )
    kinds, flags = dict(found), _polled_by_peers(model, found)
    observers |= flags
    for site in reversed(last(model, kinds, observers)):
        if kinds[site] == "multicast" or site in flags or any(_other(model, site, w) for w in waits):
            continue  # the receiver waits for a multicast or a flag; or other warps wait for the cluster at the end
        if kinds[site] == "arrival" and (any(model.reaches(site, w) for w in waits) or model.fact(_tail)):
            continue
        path = _in_several_ctas(model, site, (), observers)
        if path is not None and not (_awaited(model, site, path) or _alone_on(model, site, path)):
            role = _role(model, site)
            return CL002.hit(
                site=site,
                message=f"{model.name(site)} {_operation(model, site)} another CTA of the cluster, which may have exited: "
                "no cluster barrier follows it",
                steps=(
                    Mark(site, f"{_operation(model, site)} another CTA, which may have exited", role=role),
                    Mark(
                        path.last(model.cfg, site),
                        "exits without synchronising with the other CTA",
                        role=role,
                    ),
                ),
                help="let all threads of the cluster execute barrier.cluster.arrive and barrier.cluster.wait after it, before they "
                "read what others have written there, and before they exit",
                about=frozenset(a for a in model.arrives(Barrier.CLUSTER) if model.reaches(site, a))
                or frozenset((site,)),
            )
    return None


def _polled_by_peers(model: KernelModel, found: list[Remote]) -> frozenset[int]:
    """The strong writes to a word of a peer CTA that the kernel may poll in its own shared memory.

    The peer is assumed to poll it before it exits, as it is assumed to wait for the mbarriers on which others arrive.
    """
    values, points = model.values, model.fact(HappensBefore).points
    written = points.release_points.intersection(r.site for r in found if r.kind == "access")
    polls = points.polls(OrderScope.CTAS) if written else ()

    def words(site: int) -> Iterator[int]:
        """The addresses of what *site* accesses in shared memory, each in the CTA itself."""
        return (home(values, access.address).address for access in model.shared.accesses(site))

    polled = [values.linear(word) for i in polls for word in words(i)]

    def may_be_polled(word: int) -> bool:
        terms, offset = values.linear(word)
        return any(terms != others or offset == other for others, other in polled)

    return frozenset(i for i in written if any(map(may_be_polled, words(i))))


def _awaited(model: KernelModel, site: int, path: Path) -> bool:
    """True if the thread arrives at the cluster barrier after *site* on *path*, and other threads or CTAs wait there.

    One waiting thread keeps its CTA alive. The position of the thread or CTA decides which of them wait; the accessed
    CTA is assumed to be among these.
    """
    waits = model.fact(HappensBefore).points.barrier_sites(OrderScope.CTAS)
    passed = path.passed(model.cfg, site)
    taken = _taken(model, site, path)
    for arrive in model.arrives(Barrier.CLUSTER):
        if arrive in passed and any(model.reaches(arrive, w) for w in waits):
            block = model.cfg.block_of[arrive]
            first = next(n for n, (source, _, _) in enumerate(taken) if source == block)
            if any(_differs(model, p) for _, p, _ in taken[first:]):
                return True
    return False


def _taken(model: KernelModel, site: int, path: Path) -> list[tuple[int, int | None, bool]]:
    """The blocks of a path from *site*, each with the predicate under which the path leaves it, and its value."""
    taken = [(e.source, model.reachability.edge_predicate(e), e.value) for e in path.edges]
    end = path.last(model.cfg, site)
    leaves = model.instruction(end) if path.end == EXIT else None
    p = model.values.before(leaves.guard, end) if leaves and leaves.guard >= 0 else None
    return [*taken, (path.block(model.cfg, site), p, bool(leaves and not leaves.negated))]


def _differs(model: KernelModel, p: int | None) -> bool:
    """True if *p* depends on the position of the thread or its CTA."""
    nodes = () if p is None else (model.values.node(v) for v in model.values.subexpressions(p))
    return any(type(node) is SpecialRead and node.name.startswith(_POSITIONS) for node in nodes)


def _alone_on(model: KernelModel, site: int, path: Path) -> bool:
    """True if no thread passes the cluster barrier in a launch that takes *path*: its clusters have one CTA then."""
    values, facts = model.values, PathCondition()
    for _, p, value in _taken(model, site, path):
        if p is not None and not _differs(model, p):
            facts = values.refine(p, value, facts)
    launch = values.invariant(facts).items()
    waits = [
        model.views.context_of(w).invariant(values)
        for w in model.fact(HappensBefore).points.barrier_sites(OrderScope.CTAS)
    ]
    return bool(waits) and all(any(values.entails(p, there) is (not v) for p, v in launch) for there in waits)


def _in_several_ctas(
    model: KernelModel, start: int, to: Collection[int], ends: Collection[int]
) -> Path | None:
    """A path from *start* to one of *to* (an exit if empty) that avoids *ends*, in a cluster of several CTAs; or None.

    Kernels from templates also allow clusters of one CTA. In a larger one, one of its dimensions is not 1.
    """
    values, every = model.values, T.full(model.values.threads)

    def several(register: str, facts: PathCondition) -> PathCondition:
        single = values.compare("eq", values.special(register), values.constant(1), True)
        return values.refine(single, False, facts)

    facts = several("%cluster_nctarank", model.views.context_of(start).facts)
    read = {special.name for i in model.function.instructions for special in specials(i.operands)}
    alternatives = [several(size, facts) for size in _CLUSTER_SIZES if size in read] or [facts]
    found = (path_avoiding(model, start, every, to, ends, facts).witness for facts in alternatives)
    return next(filter(None, found), None)


def _other(model: KernelModel, site: int, wait: int) -> bool:
    """True if threads other than those of *site* execute *wait*, and it is not in a common prologue."""
    return model.views.mutually_exclusive(site, wait) and not model.reaches(wait, site)


def _tail(model: KernelModel) -> bool:
    """True if some thread exits right after an mbarrier wait, which may be for the last arrival of the other CTA."""
    operations = model.where(_is_operation)
    every = T.full(model.values.threads)
    waits = last(model, model.awaits(Barrier.MBARRIER), operations)
    # Only an exhaustive search proves that there is no such path.
    return any(not isinstance(path_avoiding(model, w, every, (), operations), Infeasible) for w in waits)


def _is_operation(effects: Effects) -> bool:
    """Whether an mbarrier wait usually precedes it, if that is not the last one before the exit."""
    begins = effects.begins is not None or effects.commits is not None
    return begins or effects.expects or effects.arrives is Barrier.MBARRIER


def _operation(model: KernelModel, site: int) -> str:
    """What the instruction at *site* does to another CTA, as the beginning of a message."""
    effects = model.instruction(site).effects
    if effects.arrival is Barrier.MBARRIER:
        return "arrives at an mbarrier of"
    return "copies into" if effects.begins is not None else "accesses shared memory of"


def _role(model: KernelModel, site: int) -> str:
    return model.describe_threads(model.views.context_of(site).threads)


@check(BK010, analyses=(HappensBefore,))
def multicast_reused(model: KernelModel) -> Iterator[Hit]:
    """Report multicast loads that a loop repeats into the same bytes without synchronising with the peer CTAs."""
    if not model.function.entry or single_cta_cluster(model):
        return
    for site in model.begins(TRANSACTIONS):
        if model.cfg.block_of[site] not in model.cfg.in_cycle or not names_peers(model, site):
            continue
        order = model.fact(HappensBefore)
        acquires = order.points.acquire_points(OrderScope.CTAS) - order.waits_for((site,))
        observers = order.transitive_observers(w for w in acquires if model.reaches(w, w))
        path = path_avoiding(model, site, T.full(model.values.threads), (site,), observers).witness
        target = model.value(site, "destination")
        if path is None or target is None or model.changes(target, path, site):
            continue
        role = model.describe_threads(path.threads)
        yield BK010.hit(
            site=site,
            message=f"{model.name(site)} overwrites shared memory of several CTAs in the next iteration: nothing guarantees that the "
            "peer CTAs have read the previous iteration's data",
            steps=(
                Mark(site, "copies to all CTAs of the mask", role=role),
                Mark(site, "copies there again without synchronising with the peer CTAs", role=role),
            ),
            help="before the copy, wait for an mbarrier on which the readers in all CTAs arrive, or at the "
            "cluster barrier",
            about=frozenset((site,)),
        )
        return


@check(CL003, analyses=(HappensBefore,))
def relaxed_taken_for_release(model: KernelModel) -> Iterator[Hit]:
    """Report shared memory that a peer reads after a cluster barrier at which the writer arrived with .relaxed."""
    relaxed = [i for i in model.arrives(Barrier.CLUSTER) if model.instruction(i).order is Order.RELAXED]
    reads = (
        [r.site for r in remote_accesses(model) if r.kind == "access"]
        if relaxed and not single_cta_cluster(model)
        else []
    )
    if not reads:
        return
    wide = (i for i in model.sites(Fence.MEMORY) if model.instruction(i).wide)
    fences = {*calls(model), *(i for i in wide if model.instruction(i).fence_order(shared=True).releases)}
    writes = [i for i in model.shared.writers if not model.instruction(i).event]
    for write in last(model, writes, fences, relaxed):
        for wait, arrive in model.fact(HappensBefore).relaxed_cluster_waits(write, fences).items():
            hit = _seen_by_peer(model, write, arrive, wait, reads)
            if hit is not None:
                yield hit
                return


def _seen_by_peer(model: KernelModel, write: int, arrive: int, wait: int, reads: list[int]) -> Hit | None:
    """The finding about a *write* that *arrive* does not release and one of *reads* reads after *wait*; or None."""
    values, shared = model.values, model.shared
    arrivals = model.arrives(Barrier.CLUSTER)
    for access in shared.accesses(write):
        for read in reads:
            address = _unmapped(model, read)
            if address is None or not access.writes:
                continue
            seen = shared.accesses(read)
            size = max((a.size for a in seen if not a.writes), default=0)
            if not size or not shared.overlap(
                access,
                SharedAccess(read, False, address, size),
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
                    message=f"{model.name(arrive)} arrives at the cluster barrier with .relaxed, which orders no memory, but another CTA "
                    "reads what was written before",
                    steps=(
                        Mark(write, "writes shared memory"),
                        Mark(arrive, "signals the other CTAs without releasing the write"),
                        Mark(read, "reads the same bytes of another CTA"),
                    ),
                    fixes=(
                        Repair(
                            "order memory: .release instead of .relaxed",
                            (without_word(arrive, model.instruction(arrive), ".relaxed", ".release"),),
                            True,
                        ),
                    ),
                    help="use .release, which is the default, or add fence.acq_rel.cluster between the write and "
                    "the arrival",
                    about=frozenset((arrive,)),
                )
    return None


def _unmapped(model: KernelModel, read: int) -> int | None:
    """The address in the executing CTA that ``mapa`` maps to the one that *read* accesses; None if it is not remote."""
    for access in model.shared.accesses(read):
        own = home(model.values, access.address)
        if own.leaves:
            return own.address
    return None
