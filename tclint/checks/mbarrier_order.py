"""Checks of the memory order that arrivals at mbarriers and waits for them give (PTX ISA 9.7.13.15.13, 9.7.13.15.16)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tclint.analyses import role_paths
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.mbarrier_addresses import may_leave
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.findings.edits import Repair, without_word
from tclint.ir.nodes import Memory
from tclint.values.shared_memory import Access

MB012 = RuleId("MB012")
MB013 = RuleId("MB013")

_WIDER = (".cluster", ".gpu", ".sys", ".gl")


def _modifiers(model: KernelModel, site: int) -> Collection[str]:
    match = model.instruction(site).match
    return match.modifiers if match is not None else ()


# ---------------------------------------------------------------- MB012


@check(MB012, needs="mbarrier")
def narrow_scope(model: KernelModel) -> Iterator[Hit]:
    """Arrivals at mbarriers of other CTAs that release to the own CTA only."""
    narrow = [i for i in model.sites("mbarrier-arrive") if _narrow(model, i)]
    if not narrow:
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
    """Whether an arrival is at an mbarrier of another CTA, and releases no further than its own."""
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
    modifiers = _modifiers(model, site)
    if model.instruction(site).event == "barrier-arrive":
        return model.instruction(site).role("id") is None and ".relaxed" not in modifiers
    return any(m in _WIDER for m in modifiers)


def _remote_stores(model: KernelModel) -> list[int]:
    """Where the kernel writes shared memory of other CTAs, through the generic proxy."""
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
    data = (
        "what the thread has written there before" if store is not None else "what the thread has done before"
    )
    return MB012.hit(
        site=site,
        message=f"arrives at an mbarrier of another CTA, but releases to its own CTA only: {data} need not be visible there",
        steps=(
            *((Mark(store, "writes shared memory of another CTA"),) if store is not None else ()),
            Mark(site, "releases with the scope of a CTA"),
        ),
        help="let the arrival be .release.cluster, and the wait in the other CTA .acquire.cluster"
        if store is not None
        else "",
        count=count,
        about=frozenset((site,)),
    ).doubted("nothing shows that the arrival hands data over to the other CTA" if store is None else "")


# ---------------------------------------------------------------- MB013


@check(MB013, needs="mbarrier", analyses=(HappensBefore,))
def relaxed(model: KernelModel) -> Iterator[Hit]:
    """Arrivals and waits that order nothing, though data in shared memory is handed over by them."""
    waits, arrivals = model.sites("mbarrier-wait"), model.sites("mbarrier-arrive")
    weak = {i for i in (*waits, *arrivals) if ".relaxed" in _modifiers(model, i)}
    if not weak:
        return
    signals = [*arrivals, *model.sites("issue", "mbarrier")]
    for signal, wait in model.fact(HappensBefore).synchronised_pairs(signals, frozenset(waits)):
        if weak.isdisjoint((signal, wait)):
            continue
        copied = model.instruction(signal).event == "issue"
        hit = _copied(model, wait, signal) if copied else _handed_over(model, wait, signal, weak)
        if hit is not None:
            weak.discard(hit.site)
            yield hit


def _orders(model: KernelModel) -> list[int]:
    """What orders memory by itself."""
    barriers = [*model.sites("barrier-sync"), *model.sites("barrier-arrive"), *model.sites("barrier-wait")]
    kept = [i for i in barriers if ".relaxed" not in _modifiers(model, i)]
    return [*model.sites("memory-fence"), *kept, *role_paths.calls(model)]


def _accesses(model: KernelModel, writes: bool, later: bool = False) -> Iterator[Access]:
    """Accesses to shared memory that happen at once, through the generic proxy; with *later*, all of them."""
    for site, match in model.shared.sites.items():
        if model.cfg.block_of[site] in model.cfg.rank and (later or not match.form.proxy):
            for access in model.shared.accesses(site):
                if access.writes is writes and (later or not access.later):
                    yield access


def _overlap(model: KernelModel, a: Access, b: Access) -> bool:
    views = model.views
    return model.shared.overlap(a, b, views.context_of(a.site).threads, views.context_of(b.site).threads)


def _own(model: KernelModel, store: Access, load: Access) -> bool:
    """Whether each thread has bytes of its own, as far as that is known, which it writes and reads."""
    shared, views = model.shared, model.views
    (_, mine, there), (_, other, here) = (shared.split(access.address) for access in (store, load))
    if model.values.constant_of(mine) is not None or (mine, there) != (other, here):
        return False
    threads = views.context_of(store.site).threads | views.context_of(load.site).threads
    offsets = shared.offsets(mine, threads)
    return offsets is None or len(offsets) == threads.bit_count()


def _handed_over(model: KernelModel, wait: int, arrival: int, weak: Collection[int]) -> Hit | None:
    """Bytes that a thread writes before the arrival and one reads behind the wait, of which one orders nothing."""
    ends, order = _orders(model), model.fact(HappensBefore)
    loads = list(_accesses(model, False))
    for store in _accesses(model, True):
        view = model.views.context_of(store.site)
        if (
            role_paths.follow(model, store.site, view, (arrival,), ends if arrival in weak else ()).witness
            is None
        ):
            continue
        # A barrier behind the arrival tells of the store as well.
        told = order.observers_of((store.site,)).difference(model.sites("mbarrier-wait"))
        met = [
            load.site
            for load in loads
            if not _own(model, store, load)
            and _overlap(model, store, load)
            and order.unsynchronised_path(load.site, told) is not None
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


def _copied(model: KernelModel, wait: int, copy: int) -> Hit | None:
    """Bytes that a copy brings, which completes at the mbarrier, and that are read behind the wait."""
    brought = [a for a in model.shared.accesses(copy) if a.writes]
    met = [
        b.site
        for b in _accesses(model, False, later=True)
        if b.site != copy and any(_overlap(model, a, b) for a in brought)
    ]
    if not met:
        return None
    others = [i for i in model.sites("mbarrier-wait") if i != wait]
    path = role_paths.follow(
        model, wait, model.views.context_of(wait), met, [*_orders(model), *others]
    ).witness
    return None if path is None else _unordered(model, wait, copy, None, wait, path.end)


def _unordered(model: KernelModel, site: int, store: int, arrival: int | None, wait: int, load: int) -> Hit:
    side = "acquire" if site == wait else "release"
    return MB013.hit(
        site=site,
        message="is .relaxed, and no fence stands beside it, so it does not order the shared memory that is read behind the wait",
        steps=(
            Mark(store, "writes the bytes"),
            *((Mark(arrival, "arrives"),) if arrival is not None else ()),
            Mark(wait, "waits"),
            Mark(load, "reads them"),
        ),
        fixes=(
            Repair(
                f"order memory as well: .{side} instead of .relaxed",
                (without_word(site, model.instruction(site), ".relaxed", f".{side}"),),
                True,
            ),
        ),
        help=f"leave out .relaxed, or put a fence.{side}.cluster {'behind the wait' if site == wait else 'before the arrival'}",
        about=frozenset((site,)),
    )
