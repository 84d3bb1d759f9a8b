"""Checks of the memory ordering that mbarrier arrivals and waits provide (PTX ISA 9.7.13.15.13, 9.7.13.15.16)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tclint.analyses import role_paths
from tclint.analyses.cluster_memory import single_cta_cluster
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.mbarrier_addresses import may_leave
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.findings.edits import Repair, without_word
from tclint.findings.scales import Severity
from tclint.ir.nodes import Memory
from tclint.values.shared_memory import Access

MB012 = RuleId("MB012")
MB013 = RuleId("MB013")

_WIDER = (".cluster", ".gpu", ".sys", ".gl")
"""Scopes that include the other CTAs of the cluster."""
_SIGNAL = {"mbarrier-complete": "completes bytes of a phase"}
"""What a signal other than an arrival does, by its event."""
_UNRELEASING = {
    "complete": (
        "mbarrier.complete_tx is relaxed and no fence precedes it",
        "add fence.acq_rel.cta between the store and mbarrier.complete_tx",
    ),
    "cp.async": (
        "this arrival is ordered after the copies of its thread alone",
        "add mbarrier.arrive after the stores, and count it in mbarrier.init",
    ),
}
"""Why a signal that has no form with a release publishes no store, and the remedy."""


def _modifiers(model: KernelModel, site: int) -> Collection[str]:
    match = model.instruction(site).match
    return match.modifiers if match is not None else ()


# ---------------------------------------------------------------- MB012


@check(MB012, needs="mbarrier")
def narrow_scope(model: KernelModel) -> Iterator[Hit]:
    """Report arrivals on mbarriers of other CTAs that release to the executing CTA only."""
    narrow = [i for i in model.sites("mbarrier-arrive") if _narrow(model, i)]
    if not narrow or single_cta_cluster(model):
        return
    stores = _remote_stores(model)
    wide = [i for i in (*model.sites("memory-fence"), *model.sites("barrier-arrive")) if _is_wide(model, i)]
    for store in stores:
        path = role_paths.follow(model, store, model.views.context_of(store), narrow, wide).witness
        if path is not None:
            yield _too_narrow(path.end, len(narrow), store)
            return
    yield _too_narrow(narrow[0], len(narrow), None)


def _narrow(model: KernelModel, site: int) -> bool:
    """True if the arrival at *site* may be on an mbarrier of another CTA, but its release has CTA scope."""
    modifiers = _modifiers(model, site)
    if ".relaxed" in modifiers or ".cluster" in modifiers:
        return False
    address = model.value(site, "mbarrier")
    match = model.instruction(site).match
    return (
        match is not None
        and match.space == ".shared::cluster"
        and address is not None
        and may_leave(model.values, address)
    )


def _is_wide(model: KernelModel, site: int) -> bool:
    """True if a fence, or an arrival at a cluster barrier, orders preceding writes for the other CTAs."""
    modifiers = _modifiers(model, site)
    if model.instruction(site).event == "barrier-arrive":
        return model.instruction(site).role("id") is None and ".relaxed" not in modifiers
    return any(m in _WIDER for m in modifiers)


def _remote_stores(model: KernelModel) -> list[int]:
    """The generic-proxy writes to shared memory of other CTAs."""
    found = []
    for use in model.function.uses:
        match = use.match
        if match is None or match.form.proxy or match.space not in ("", ".shared::cluster"):
            continue
        for name in (name for verb, name in match.form.memory if verb == "write"):
            for site in use.sites:
                operand = model.instruction(site).named(name)
                if isinstance(operand, Memory) and may_leave(
                    model.values, model.values.operand(operand, site)
                ):
                    found.append(site)
    return found


def _too_narrow(site: int, count: int, store: int | None) -> Hit:
    data = "the thread's preceding writes there" if store is not None else "the thread's preceding accesses"
    return MB012.hit(
        site=site,
        message=f"arrives at an mbarrier of another CTA with a release of CTA scope: {data} "
        + ("need not be visible to that CTA" if store is not None else "are not ordered for that CTA"),
        steps=(
            *((Mark(store, "writes shared memory of another CTA"),) if store is not None else ()),
            Mark(site, "releases at CTA scope"),
        ),
        help="use .release.cluster for the arrival, and .acquire.cluster for the wait in the other CTA"
        if store is not None
        else "",
        count=count,
        about=frozenset((site,)),
    ).doubted("there is no evidence that the arrival passes data to the other CTA" if store is None else "")


# ---------------------------------------------------------------- MB013


@check(MB013, needs="mbarrier", analyses=(HappensBefore,))
def relaxed(model: KernelModel) -> Iterator[Hit]:
    """Report relaxed signals and waits by which threads pass data in shared memory, and arrivals of copies alone."""
    waits, arrivals = model.sites("mbarrier-wait"), model.sites("mbarrier-arrive")
    completes = model.sites("mbarrier-complete")
    weak = {i for i in (*waits, *arrivals, *completes) if ".relaxed" in _modifiers(model, i)}
    weak.update(model.sites("mbarrier-arrive", "cp.async"))
    if not weak:
        return
    signals = [*arrivals, *completes, *model.sites("issue", "mbarrier")]
    order = model.fact(HappensBefore)
    for signal, wait in order.synchronised_pairs(signals, frozenset(waits), of_copies=True):
        if weak.isdisjoint((signal, wait)):
            continue
        copied = model.instruction(signal).event == "issue"
        hit = _copied(model, wait, signal) if copied else _stored(model, wait, signal, weak)
        if hit is not None:
            weak.discard(hit.site)
            yield hit


def _orders(model: KernelModel) -> list[int]:
    """Fences, non-relaxed barriers and calls: instructions that order memory without the mbarrier."""
    barriers = [*model.sites("barrier-sync"), *model.sites("barrier-arrive"), *model.sites("barrier-wait")]
    kept = [i for i in barriers if ".relaxed" not in _modifiers(model, i)]
    return [*model.sites("memory-fence"), *kept, *role_paths.calls(model)]


def _accesses(model: KernelModel, writes: bool, later: bool = False) -> Iterator[Access]:
    """Reachable reads, or writes, of shared memory that are synchronous and in the generic proxy; all with *later*."""
    for site, match in model.shared.sites.items():
        if model.cfg.block_of[site] in model.cfg.rank and (later or not match.form.proxy):
            for access in model.shared.accesses(site):
                if access.writes is writes and (later or not access.later):
                    yield access


def _overlap(model: KernelModel, a: Access, b: Access) -> bool:
    views = model.views
    return model.shared.overlap(a, b, views.context_of(a.site).threads, views.context_of(b.site).threads)


def _own(model: KernelModel, store: Access, load: Access) -> bool:
    """True if each thread reads only what it has written itself, as far as the addresses are known."""
    shared, views = model.shared, model.views
    (_, mine, there), (_, other, here) = (shared.split(access.address) for access in (store, load))
    if model.values.constant_of(mine) is not None or (mine, there) != (other, here):
        return False
    threads = views.context_of(store.site).threads | views.context_of(load.site).threads
    offsets = shared.offsets(mine, threads)
    return offsets is None or len(offsets) == threads.bit_count()


def _stored(model: KernelModel, wait: int, arrival: int, weak: Collection[int]) -> Hit | None:
    """The finding about bytes written before *arrival* and read after *wait*, one of which is relaxed; or None."""
    ends, order = _orders(model), model.fact(HappensBefore)
    unreleasing = {*model.sites("mbarrier-arrive", "cp.async"), *model.sites("mbarrier-complete")}
    loads = list(_accesses(model, False))
    for store in _accesses(model, True):
        view = model.views.context_of(store.site)
        if (
            role_paths.follow(model, store.site, view, (arrival,), ends if arrival in weak else ()).witness
            is None
        ):
            continue
        # A barrier after the arrival also orders the store.
        observers = order.observers_of((store.site,)).difference(model.sites("mbarrier-wait"))
        met = [
            load.site
            for load in loads
            if not _own(model, store, load)
            and _overlap(model, store, load)
            and order.unsynchronised_path(load.site, observers) is not None
            and not (arrival in unreleasing and _released(model, store.site, load.site, weak))
        ]
        others = [i for i in model.sites("mbarrier-wait") if i not in weak]
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
        for arrival in model.sites("mbarrier-arrive")
        if arrival not in weak
        for wait in order.waits_completed_by(arrival)
    )


def _copied(model: KernelModel, wait: int, copy: int) -> Hit | None:
    """The finding about bytes of a *copy* that completes on the mbarrier, read after the relaxed *wait*; or None."""
    written = [a for a in model.shared.accesses(copy) if a.writes]
    met = [
        b.site
        for b in _accesses(model, False, later=True)
        if b.site != copy and any(_overlap(model, a, b) for a in written)
    ]
    if not met:
        return None
    others = [i for i in model.sites("mbarrier-wait") if i != wait]
    path = role_paths.follow(
        model, wait, model.views.context_of(wait), met, [*_orders(model), *others]
    ).witness
    return None if path is None else _unordered(model, wait, copy, None, wait, path.end)


def _unordered(model: KernelModel, site: int, store: int, arrival: int | None, wait: int, load: int) -> Hit:
    steps = (
        Mark(store, "writes the bytes" if arrival is not None else "starts to write the bytes"),
        *(
            (Mark(arrival, _SIGNAL.get(model.instruction(arrival).event, "arrives")),)
            if arrival is not None
            else ()
        ),
        Mark(wait, "waits"),
        Mark(load, "reads the bytes"),
    )
    kind = (
        "complete" if model.instruction(site).event == "mbarrier-complete" else model.instruction(site).group
    )
    if kind in _UNRELEASING:
        why, remedy = _UNRELEASING[kind]
        return MB013.hit(
            site=site,
            message=f"{why}, so it does not order the shared memory that a store has written and that is read after the wait",
            steps=steps,
            help=remedy,
            about=frozenset((site,)),
        ).unshown(Severity.WARNING)
    side = "acquire" if site == wait else "release"
    return MB013.hit(
        site=site,
        message=f"this .relaxed {'wait' if site == wait else 'arrival'} has no accompanying fence, so it does not order"
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
