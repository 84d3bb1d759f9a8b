"""Checks of the memory ordering that mbarrier arrivals and waits provide (PTX ISA 9.7.13.15.13, 9.7.13.15.16)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tclint._named_tuple import NamedTuple
from tclint.analyses import role_paths
from tclint.analyses.cluster_memory import single_cta_cluster
from tclint.analyses.extents import Extents
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.mbarrier_addresses import home, may_leave
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.findings.edits import Repair, without_word
from tclint.findings.scales import Severity
from tclint.ir.nodes import Instruction, Memory
from tclint.isa.effects import BARRIERS, CP_ASYNC, TRANSACTIONS, Barrier, Fence, Order
from tclint.values.shared_memory import SharedAccess

MB012 = RuleId("MB012")
MB013 = RuleId("MB013")

"""Scopes that include the other CTAs of the cluster."""
_QUESTION = "memory that a relaxed signal or wait passes"
"""What :attr:`KernelModel.ledger` calls the question of MB013."""
MAX_PAIRS = 32
"""Signals with the waits that they match, of which one is relaxed. More are copies made by unrolling a loop."""
MAX_ACCESSES_PER_PAIR = 16
"""Writes before a signal, and reads after a wait, that are compared: the nearest ones."""


# ---------------------------------------------------------------- arrivals on mbarriers of other CTAs


@check(MB012, also=(MB013,), analyses=(Extents, Mbarriers))
def remote_arrivals(model: KernelModel) -> Iterator[Hit]:
    """Report arrivals on mbarriers of other CTAs that release to the executing CTA only, or not at all."""
    remote = [i for i in model.arrives(Barrier.MBARRIER) if _may_leave(model, i)]
    relaxed = [i for i in remote if model.instruction(i).order is Order.RELAXED]
    narrow = [i for i in remote if i not in relaxed and not model.instruction(i).wide]
    if not (narrow or relaxed) or single_cta_cluster(model):
        return
    strong = set(remote).difference(narrow, relaxed)
    if narrow:
        yield _too_narrow(model, narrow, _passed(model, narrow, strong))
    if relaxed and (found := _passed(model, relaxed, strong)) is not None:
        yield _relaxed_to_peer(model, len(relaxed), found)


def _may_leave(model: KernelModel, site: int) -> bool:
    """True if the arrival at *site* may be on an mbarrier of another CTA."""
    address, match = model.mbarrier(site), model.instruction(site).match
    return (
        match is not None
        and match.space == ".shared::cluster"
        and address is not None
        and may_leave(model.values, address)
    )


class _Passed(NamedTuple):
    """What passes data to another CTA: the store, the arrival, and in the other CTA the wait and a read."""

    store: int
    arrival: int
    wait: int
    read: int
    same: bool
    """Whether the read is of bytes that the store writes; else that is unknown."""


def _passed(model: KernelModel, arrivals: list[int], strong: Collection[int]) -> _Passed | None:
    """How one of *arrivals* passes what was stored in another CTA, if nothing else orders the store for that CTA.

    Those that are *strong* release at cluster scope. None if no wait for the mbarrier precedes a read of bytes that may
    be those: such an arrival only returns a buffer, which copies fill again.
    """
    unknown = None
    stores = _remote_stores(model)
    wide = [i for i in (*model.sites(Fence.MEMORY), *model.arrives(Barrier.CLUSTER)) if _is_wide(model, i)]
    block_of = model.cfg.block_of
    for last in role_paths.last(model, [a.site for a in stores], wide, arrivals):
        together = [a for a in stores if block_of[a.site] == block_of[last]]
        for arrival in arrivals:
            if not model.reaches(last, arrival):
                continue
            read = _read_after(model, arrival, together, [i for i in strong if model.reaches(last, i)])
            view = model.views.context_of(last)
            if read is None or (unknown is not None and not read[2]):
                continue
            if role_paths.follow(model, last, view, (arrival,), wide).witness is not None:
                found = _Passed(last, arrival, *read)
                if found.same:
                    return found
                unknown = found
    return unknown


def _is_wide(model: KernelModel, site: int) -> bool:
    """True if a fence, or an arrival at a cluster barrier, releases preceding writes to the other CTAs."""
    instruction = model.instruction(site)
    arrives = instruction.effects.arrives is Barrier.CLUSTER
    order = instruction.order if arrives else instruction.fence_order(shared=True)
    return order.releases and instruction.wide


def _remote_stores(model: KernelModel) -> list[SharedAccess]:
    """The generic-proxy writes to shared memory of other CTAs, each at the same offset in the executing CTA."""
    found = []
    for use in model.function.uses:
        match = use.match
        if match is None or match.form.proxy or match.space not in ("", ".shared::cluster"):
            continue
        for name in (name for verb, name in match.form.memory if verb == "write"):
            for site in use.sites:
                operand = model.instruction(site).named(name)
                if not isinstance(operand, Memory):
                    continue
                address = model.values.operand(operand, site)
                if may_leave(model.values, address):
                    sizes = [a.size for a in model.shared.accesses(site) if a.writes]
                    found.append(
                        SharedAccess(site, True, home(model.values, address).address, max(sizes, default=1))
                    )
    return found


def _read_after(
    model: KernelModel, arrival: int, stores: list[SharedAccess], strong: list[int]
) -> tuple[int, int, bool] | None:
    """A wait for the mbarrier of *arrival*, a read after it of bytes that *stores* may have written, and whether they are
    known to be the same; None without one.

    A cluster barrier, or a wait for an mbarrier to which one of *strong* arrives, orders the stores before the read.
    """
    mbarriers, extents = model.fact(Mbarriers), model.fact(Extents)
    waits, rings = model.awaits(Barrier.MBARRIER), mbarriers.rings_at(arrival)
    ordering = {wait for i in strong for ring in mbarriers.rings_at(i) for wait in ring.waits}
    ordering.update(i for i in model.awaits(Barrier.CLUSTER) if model.instruction(i).role("id") is None)
    places, reads = [extents.of(a) for a in stores], dict[int, bool]()
    for a in extents.reads:
        read = extents.of(a)
        if read is not None and any(
            place is not None and extents.may_overlap(read, place) for place in places
        ):
            reads[a.site] = True
        elif read is None or None in places:
            reads.setdefault(a.site, False)
    for same in (True, False):
        of = [site for site, known in reads.items() if known is same]
        for wait in waits if of else ():
            named = mbarriers.rings_at(wait)
            if wait in ordering or (rings and named and rings.isdisjoint(named)):
                continue
            path = role_paths.follow(model, wait, model.views.context_of(wait), of, ordering).witness
            if path is not None:
                return wait, path.end, same
    return None


def _passing(passed: _Passed, arrives: str) -> tuple[Mark, ...]:
    return (
        Mark(passed.store, "writes shared memory of another CTA"),
        Mark(passed.arrival, arrives),
        Mark(passed.wait, "waits for the mbarrier, in the other CTA"),
        Mark(
            passed.read, "reads what was written there" if passed.same else "may read what was written there"
        ),
    )


def _too_narrow(model: KernelModel, arrivals: list[int], passed: _Passed | None) -> Hit:
    site = arrivals[0] if passed is None else passed.arrival
    data = "the thread's preceding accesses" if passed is None else "the thread's preceding writes there"
    return MB012.hit(
        site=site,
        message=f"{model.name(site)} arrives at an mbarrier of another CTA with a release of CTA scope: {data} "
        + ("are not ordered for that CTA" if passed is None else "need not be visible to that CTA"),
        steps=(Mark(site, _NARROW),) if passed is None else _passing(passed, _NARROW),
        help=""
        if passed is None
        else "use .release.cluster for the arrival, and .acquire.cluster for the wait in the other CTA",
        count=len(arrivals),
        about=frozenset((site,)),
        severity=Severity.INFO if passed is None else None,
    ).doubted(_RETURNS if passed is None else _unknown(passed))


_NARROW = "releases at CTA scope"
_RETURNS = "there is no evidence that the arrival passes data to the other CTA"
"""The doubt about an arrival that may only return a buffer."""


def _unknown(passed: _Passed) -> str:
    return "" if passed.same else "whether the read is of the bytes that were written is unknown"


def _relaxed_to_peer(model: KernelModel, count: int, passed: _Passed) -> Hit:
    return MB013.hit(
        site=passed.arrival,
        message=f"{model.name(passed.arrival)} is .relaxed on an mbarrier of another CTA, and follows no fence that releases at "
        "cluster scope, so the thread's preceding writes there need not be visible to that CTA",
        steps=_passing(passed, "arrives, and releases nothing"),
        help="use .release.cluster instead of .relaxed.cluster, or add fence.acq_rel.cluster before the arrival",
        count=count,
        about=frozenset((passed.arrival,)),
        severity=Severity.ERROR,
    ).doubted(_unknown(passed))


# ---------------------------------------------------------------- MB013


@check(MB013, analyses=(HappensBefore,))
def relaxed(model: KernelModel) -> Iterator[Hit]:
    """Report relaxed signals and waits by which threads pass data in shared memory, and arrivals of copies alone."""
    waits, arrivals = model.awaits(Barrier.MBARRIER), model.arrives(Barrier.MBARRIER)
    completes = model.where(lambda effects: effects.completes)
    weak = {i for i in (*waits, *arrivals, *completes) if model.instruction(i).order is Order.RELAXED}
    weak.update(model.tracks(CP_ASYNC))
    if not weak:
        return
    signals = [*arrivals, *completes, *model.begins(TRANSACTIONS)]
    order = model.fact(HappensBefore)
    pairs = (
        pair
        for pair in order.synchronised_pairs(signals, frozenset(waits), of_copies=True)
        if not weak.isdisjoint(pair)
    )
    for signal, wait in model.ledger.at_most(MAX_PAIRS, pairs, _QUESTION, -1, "signals with their waits"):
        copied = model.instruction(signal).effects.begins is not None
        hit = _copied(model, wait, signal) if copied else _stored(model, wait, signal, weak)
        if hit is not None:
            weak.discard(hit.site)
            yield hit


def _orders(model: KernelModel) -> list[int]:
    """Fences, non-relaxed barriers and calls: instructions that order memory without the mbarrier."""
    barriers = model.where(lambda effects: effects.barrier in BARRIERS)
    kept = [i for i in barriers if model.instruction(i).order is not Order.RELAXED]
    return [*_completes_pattern(model), *kept]


def _completes_pattern(model: KernelModel) -> list[int]:
    """Fences and calls: what forms an acquire pattern with a relaxed read before it (8.8)."""
    fences = (
        i
        for i in model.sites(Fence.MEMORY)
        if model.instruction(i).fence_order(shared=True) is not Order.WEAK
    )
    return [*fences, *role_paths.calls(model)]


def _accesses(model: KernelModel, writes: bool, later: bool = False) -> Iterator[SharedAccess]:
    """Reachable reads, or writes, of shared memory that are synchronous and in the generic proxy; all with *later*."""
    for site, match in model.shared.sites.items():
        if model.cfg.block_of[site] in model.cfg.rank and (later or not match.form.proxy):
            for access in model.shared.accesses(site):
                if access.writes is writes and (later or not access.later):
                    yield access


def _nearest(model: KernelModel, accesses: Iterable[SharedAccess], site: int) -> list[SharedAccess]:
    """The *accesses*, or the nearest to *site* of more than are compared."""
    found = list(accesses)
    if len(found) <= MAX_ACCESSES_PER_PAIR:
        return found
    model.ledger.give_up(_QUESTION, site, f"more than {MAX_ACCESSES_PER_PAIR} accesses")
    return sorted(found, key=lambda access: abs(access.site - site))[:MAX_ACCESSES_PER_PAIR]


def _overlap(model: KernelModel, a: SharedAccess, b: SharedAccess) -> bool:
    views = model.views
    return model.shared.overlap(a, b, views.context_of(a.site).threads, views.context_of(b.site).threads)


def _own(model: KernelModel, store: SharedAccess, load: SharedAccess) -> bool:
    """True if each thread reads only what it has written itself, as far as the addresses are known."""
    addresses, views = model.values.addresses, model.views
    written, read = (addresses.form(access.address) for access in (store, load))
    alike = written.index == read.index and written.offset == read.offset
    if model.values.constant_of(written.index) is not None or not alike:
        return False
    threads = views.context_of(store.site).threads | views.context_of(load.site).threads
    offsets = addresses.offsets(written.index, threads)
    return offsets is None or len(offsets) == threads.bit_count()


def _stored(model: KernelModel, wait: int, arrival: int, weak: Collection[int]) -> Hit | None:
    """The finding about bytes written before *arrival* and read after *wait*, one of which is relaxed; or None."""
    ends, order = _orders(model), model.fact(HappensBefore)
    unreleasing = {*model.tracks(CP_ASYNC), *model.where(lambda effects: effects.completes)}
    loads = _nearest(model, _accesses(model, False), wait)
    for store in _nearest(model, _accesses(model, True), arrival):
        view = model.views.context_of(store.site)
        if (
            role_paths.follow(model, store.site, view, (arrival,), ends if arrival in weak else ()).witness
            is None
        ):
            continue
        # A barrier after the arrival also orders the store.
        observers = order.observers_of((store.site,)).difference(model.awaits(Barrier.MBARRIER))
        met = [
            load.site
            for load in loads
            if not _own(model, store, load)
            and _overlap(model, store, load)
            and order.unsynchronised_path(load.site, observers) is not None
            and not (arrival in unreleasing and _released(model, store.site, load.site, weak))
        ]
        others = [i for i in model.awaits(Barrier.MBARRIER) if i not in weak]
        path = (
            role_paths.follow(
                model, wait, model.views.context_of(wait), met, [*ends, *others] if wait in weak else ()
            ).witness
            if met
            else None
        )
        if path is not None:
            return _unordered(model, wait if wait in weak else arrival, store.site, arrival, wait, path.end)
    return None


def _released(model: KernelModel, store: int, load: int, weak: Collection[int]) -> bool:
    """True if the thread of *store* may also give a releasing arrival after it, for which that of *load* may wait."""
    order = model.fact(HappensBefore)
    return any(
        model.reaches(store, arrival) and model.reaches(wait, load)
        for arrival in model.arrives(Barrier.MBARRIER)
        if arrival not in weak
        for wait in order.waits_completed_by(arrival)
    )


def _copied(model: KernelModel, wait: int, copy: int) -> Hit | None:
    """The finding about bytes of a *copy* that completes on the mbarrier, read after the relaxed *wait*; or None."""
    written = [a for a in model.shared.accesses(copy) if a.writes]
    met = [
        b.site
        for b in _nearest(model, _accesses(model, False, later=True), wait)
        if b.site != copy and any(_overlap(model, a, b) for a in written)
    ]
    if not met:
        return None
    others, view = [i for i in model.awaits(Barrier.MBARRIER) if i != wait], model.views.context_of(wait)
    path = role_paths.follow(model, wait, view, met, [*_orders(model), *others]).witness
    if path is not None:
        return _unordered(model, wait, copy, None, wait, path.end)
    if not model.by_letter or _acquired_elsewhere(model, wait, copy):
        return None
    path = role_paths.follow(model, wait, view, met, [*_completes_pattern(model), *others]).witness
    if path is None:
        return None
    return _unordered(model, wait, copy, None, wait, path.end).unshown(Severity.WARNING)


def _acquired_elsewhere(model: KernelModel, wait: int, copy: int) -> bool:
    """Whether other threads than those of the relaxed *wait* may acquire what *copy* completes, and pass it on at a barrier."""
    threads = model.views.context_of(wait).threads
    return any(
        model.instruction(i).order is not Order.RELAXED and model.views.context_of(i).threads & ~threads
        for i in model.fact(HappensBefore).waits_completed_by(copy)
    )


def _signals(signal: Instruction) -> str:
    return "completes bytes of a phase" if signal.effects.completes else "arrives"


def _unreleasing(signal: Instruction) -> tuple[str, str] | None:
    """Why a signal that has no form with a release publishes no store, and the remedy; None for another one."""
    if signal.effects.completes:
        return (
            "mbarrier.complete_tx is relaxed and no fence precedes it",
            "add fence.acq_rel.cta between the store and mbarrier.complete_tx",
        )
    if signal.effects.tracks is not None:
        return (
            "this arrival is ordered after the copies of its thread alone",
            "add mbarrier.arrive after the stores, and count it in mbarrier.init",
        )
    return None


def _unordered(model: KernelModel, site: int, store: int, arrival: int | None, wait: int, load: int) -> Hit:
    steps = (
        Mark(store, "writes the bytes" if arrival is not None else "starts to write the bytes"),
        *((Mark(arrival, _signals(model.instruction(arrival))),) if arrival is not None else ()),
        Mark(wait, "waits"),
        Mark(load, "reads the bytes"),
    )
    if (unreleasing := _unreleasing(model.instruction(site))) is not None:
        why, remedy = unreleasing
        return MB013.hit(
            site=site,
            message=f"{model.name(site)}: {why}, so it does not order the shared memory that a store has written and that is read after the wait",
            steps=steps,
            help=remedy,
            about=frozenset((site,)),
        ).unshown(Severity.WARNING)
    side = "acquire" if site == wait else "release"
    return MB013.hit(
        site=site,
        message=f"{model.name(site)} is .relaxed and has no accompanying fence, so it does not order"
        " the shared memory that is read after the wait",
        steps=steps,
        fixes=(
            Repair(
                f"order memory: .{side} instead of .relaxed",
                (without_word(site, model.instruction(site), ".relaxed", f".{side}"),),
                True,
            ),
        ),
        help=f"remove .relaxed, or add fence.{side}.cluster "
        f"{'after the wait' if site == wait else 'before the arrival'}",
        about=frozenset((site,)),
    )
