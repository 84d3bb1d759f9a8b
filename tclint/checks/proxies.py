"""Checks of memory that two proxies access with no intervening proxy fence (PTX ISA 8.6, 9.7.13.4).

Accesses through the generic and the async proxy to the same bytes are ordered only by a proxy fence in the thread that
makes the generic access, followed by synchronisation with the thread that issues the asynchronous operation. A conflict
is a feasible path from one to the other without such a fence, on which the bytes provably overlap. If two roles make
the accesses, no path connects them: one path leads from the access to an arrival, and another one from the matching
wait to the operation. Arrivals and waits are matched by mbarrier and not by phase; the addresses are compared for the
first execution of both sides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from itertools import chain

from tclint._named_tuple import NamedTuple
from tclint.analyses.happens_before import HappensBefore, SynchronisedPair
from tclint.analyses.mbarriers import Mbarriers, Ring
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.overlaps import Conflict, OverlapSearch, Route
from tclint.analyses.proxies import (
    COMPLETED,
    WAITED,
    WIDE,
    CompletedCopies,
    Overwritten,
    ProxyState,
    Unfenced,
    UnfencedReads,
    UnfencedWaits,
    fences,
    is_wide,
    through_async,
)
from tclint.analyses.role_paths import dominated_by
from tclint.analyses.tensor_maps import RELEASED, WRITTEN, TensorMaps
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._repairs import fence_between
from tclint.checks._wording import called
from tclint.dataflow import Found, Path, Results
from tclint.findings.edits import Repair, before
from tclint.findings.scales import Severity
from tclint.ir.nodes import Memory
from tclint.isa.accesses import Proxy
from tclint.isa.effects import CP_ASYNC, Barrier, Fence, Query
from tclint.values import thread_masks as T
from tclint.values.addresses import Footprint
from tclint.values.shared_memory import SharedAccess

PR001 = RuleId("PR001")
PR002 = RuleId("PR002")
PR003 = RuleId("PR003")
PR004 = RuleId("PR004")

_QUESTION = "memory that one role hands over to another one"
"""What :attr:`KernelModel.ledger` calls the question of a fence between two roles."""
MAX_HANDOVERS = 32_768
"""Arrivals with the waits that they match. More are copies made by unrolling a loop."""
_FENCE = "fence.proxy.async.shared::cta"


def _is_async(writes: bool, access: SharedAccess) -> bool:
    """True if *access* is a read, or with *writes* a write, through the async proxy."""
    return access.writes == writes and access.proxy is Proxy.ASYNC


def _meetings(model: KernelModel, kind: type[Unfenced], writes: bool) -> Iterator[Conflict]:
    """The pairs of a generic access of a *kind* and an asynchronous one to the same bytes with no intervening fence."""
    unfenced, results = model.solution(kind)
    overwritten = model.fact(Overwritten)

    def overlap(access: SharedAccess, use: SharedAccess, route: Route) -> bool:
        if route.path.state & WAITED and not writes and overwritten.may(use.address):
            return False
        passed = route.path.sites(model.cfg, access.site) if not writes and overwritten.copies else ()
        if overwritten.between(passed, use.address):
            return False
        return _meet(model, access, use, route) and not _fenced_by_others(model, access.site, use.site)

    yield from OverlapSearch(
        model,
        results,
        unfenced,
        unfenced.sites,
        partial(_is_async, writes),
        overlap,
        begins=unfenced.begins,
        tries=2 if writes else None,  # findings of low confidence do not justify a longer search
        whole_loops=not writes,
    )


def _meet(model: KernelModel, access: SharedAccess, use: SharedAccess, route: Route) -> bool:
    """True if threads that take the path provably access bytes that the operation accesses."""
    shared, threads = model.shared, route.path.threads
    return shared.overlap_in_one_thread(access, use, threads) or shared.overlap(
        access, use, model.views.context_of(access.site).threads, threads
    )


class _Clash(NamedTuple):
    """An access through the generic proxy and a later one through the async proxy, with no intervening fence."""

    first: SharedAccess
    last: SharedAccess
    since: int
    """Flags about what follows the first access (:mod:`tclint.analyses.proxies`)."""
    passed: tuple[int, ...]
    """The instructions between them."""
    threads: T.Threads
    """The threads that execute the last access."""
    partly_fenced: bool = False
    """Whether some threads that make the first access execute a fence, before they synchronise with the others."""

    @classmethod
    def of(cls, model: KernelModel, meeting: Conflict) -> _Clash:
        path, first = meeting.path, meeting.operation
        return cls(first, meeting.use, path.state, tuple(path.sites(model.cfg, first.site)), path.threads)


@check(PR001, analyses=(UnfencedWaits, HappensBefore, Mbarriers, Overwritten, Unfenced))
def unfenced_writes(model: KernelModel) -> Iterator[Hit]:
    """Report shared memory that stores write and the async proxy reads, with no intervening proxy fence."""
    uses = through_async(model, writes=False)
    if not uses:
        return
    found = [_Clash.of(model, meeting) for meeting in _meetings(model, Unfenced, writes=False)]
    found += _across_roles(model, Unfenced, uses, writes=False)
    for clash, pairs in _folded(model, found):
        yield _hit(model, clash, pairs)


def _across_roles(
    model: KernelModel, kind: type[Unfenced], uses: Collection[int], writes: bool
) -> Iterator[_Clash]:
    """Clashes of an access of one role with an asynchronous operation of another, synchronised without a fence."""
    if not uses:
        return
    accessed = model.solution(kind)[1]
    arrivals = [i for i in sorted(model.fact(HappensBefore).points.release_points) if accessed.before(i)]
    if not arrivals:
        return
    waited = model.solution(UnfencedWaits)[1]
    observed = {use: {wait for wait, _ in waited.before(use)} for use in sorted(uses)}
    if not any(observed.values()):
        return
    pairs = model.fact(HappensBefore).synchronised_pairs(arrivals, frozenset().union(*observed.values()))
    handovers = list(model.ledger.at_most(MAX_HANDOVERS, pairs, _QUESTION, -1, "arrivals with their waits"))
    firsts = {
        arrival: {site for site, _ in accessed.before(arrival)}
        for arrival in dict.fromkeys(handover.arrival for handover in handovers)
    }
    waits = {handover.wait for handover in handovers}
    observed = {
        use: overlap_in_one_thread
        for use, overlap_in_one_thread in observed.items()
        if not waits.isdisjoint(overlap_in_one_thread)
    }
    search = _HandoverSearch(model, kind, writes)
    starts = dict.fromkeys(chain.from_iterable(firsts.values()))
    for start, access, use in _same_at_first(model, kind, starts, observed, writes):
        for handover in handovers:
            if handover.wait in observed[use.site] and start in firsts[handover.arrival]:
                clash = search.clash(start, access, use, handover)
                if clash is not None:
                    yield clash
                    break


class _HandoverSearch:
    """Whether an access and an asynchronous operation clash although a pair of an arrival and a wait orders them."""

    def __init__(self, model: KernelModel, kind: type[Unfenced], writes: bool) -> None:
        self._model = model
        self._kind = kind
        self._writes = writes
        self._accessed = model.solution(kind)[1]
        self._overwritten = model.fact(Overwritten)
        self._paths: dict[tuple[int, int], Path | None] = {}

    def clash(
        self, start: int, access: SharedAccess, use: SharedAccess, handover: SynchronisedPair
    ) -> _Clash | None:
        """The clash of *access*, from *start* on, with *use*, if no fence is on the way; None if none is found."""
        model, cfg = self._model, self._model.cfg
        roles = model.views.mutually_exclusive(start, use.site)
        if not roles and (self._writes or not _partly_fenced(model, start, handover.arrival)):
            return None
        here = self._unfenced_path(self._kind, start, handover.arrival)
        there = here and self._unfenced_path(UnfencedWaits, handover.wait, use.site)
        if not here or not there or _fenced_elsewhere(model, self._accessed, start, use.site, handover):
            return None
        if not roles:
            others = here.threads & ~there.threads
            if not others or not model.shared.overlap(access, use, others, there.threads):
                return None
        if not self._writes and not self._reads_the_store(access, use, here):
            return None
        passed = (*here.sites(cfg, start), *handover, *there.sites(cfg, handover.wait))
        wide = WIDE if is_wide(model.instruction(handover.arrival)) else 0
        return _Clash(access, use, here.state | wide | there.state, passed, there.threads, not roles)

    def _unfenced_path(self, since: type[Unfenced], start: int, end: int) -> Path | None:
        """A path from *start* to *end* without a fence; None if none is found."""
        if (start, end) not in self._paths:
            unfenced, results = self._model.solution(since)
            follow = partial(unfenced.follow, start)
            self._paths[start, end] = self._model.path(
                FactQuery(start, 0, results, follow, lambda state, i: i == end, (end,))
            ).witness
        return self._paths[start, end]

    def _reads_the_store(self, access: SharedAccess, use: SharedAccess, here: Path) -> bool:
        """Whether the use reads what the access wrote, and not what bulk copies may have written there."""
        return not self._overwritten.may(use.address) or (
            not here.state & WAITED and self._overwritten.before(access.site, use)
        )


def _partly_fenced(model: KernelModel, start: int, arrival: int) -> bool:
    """True if some of the threads that execute *start*, but not all, execute a fence before the *arrival*.

    The fence orders only their own accesses: nothing has ordered those of the other threads before it (8.9.5).
    """
    threads = model.views.context_of(start).threads
    return any(
        fences(model.instruction(i))
        and threads & model.views.context_of(i).threads not in (0, threads)
        and model.reaches(start, i, (arrival,))
        and model.reaches(i, arrival)
        for i in model.sites(Fence.PROXY)
    )


def _fenced_elsewhere(
    model: KernelModel, accessed: Results[ProxyState], start: int, use: int, handover: SynchronisedPair
) -> bool:
    """True if the other role also waits for an arrival after a fence, of the accessing role or of a third one.

    The arrival of the accessing role is on another mbarrier than that of the handover. The two belong to the same
    iteration if there is no wait between the access and the arrival, or if the other role waits for it after the
    handover. A wait for the previous iteration orders nothing in the first one.
    """
    order = model.fact(HappensBefore)
    if _fenced_by_others(model, start, use):
        return True
    arrivals = [i for i in model.arrives(Barrier.MBARRIER) if model.reaches(start, i)]
    same = {arrival for arrival, _ in order.synchronised_pairs(arrivals, {handover.wait})}
    fenced = [i for i in arrivals if i not in same and start not in {site for site, _ in accessed.before(i)}]
    at_once = [i for i in fenced if model.reaches(start, i, model.awaits(Barrier.MBARRIER))]
    waits = frozenset(
        i
        for i in model.awaits(Barrier.MBARRIER)
        if dominated_by(model, i, use) and not order.returns_at_once(start, i)
    )
    later = frozenset(i for i in waits if dominated_by(model, handover.wait, i))
    return any(
        True for _ in (*order.synchronised_pairs(at_once, waits), *order.synchronised_pairs(fenced, later))
    )


def _fenced_by_others(model: KernelModel, start: int, use: int) -> bool:
    """True if a third thread that is ordered after *start* may execute a fence before *use* is ordered after it."""
    found = [i for i in model.sites(Fence.PROXY) if fences(model.instruction(i))]
    return any(True for _ in model.fact(HappensBefore).fences_between(start, use, found))


def _same_at_first(
    model: KernelModel, kind: type[Unfenced], starts: Iterable[int], uses: Iterable[int], writes: bool
) -> Iterator[tuple[int, SharedAccess, SharedAccess]]:
    """Accesses, and asynchronous operations on the same bytes, when both are executed for the first time.

    Yields one pair for each class of accesses and operation, with the representative of the class.
    """
    shared, views = model.shared, model.views
    unfenced = model.solution(kind)[0]

    def first(access: SharedAccess) -> SharedAccess:
        if not model.values.varying_at(shared.addresses.form(access.address).base):
            return access
        return shared.along(access, model.at_first(access.site).witness or model.values.representative)

    used: dict[int, list[tuple[SharedAccess, Footprint]]] = {}
    for site in uses:
        for operand in shared.accesses(site):
            if _is_async(writes, operand):
                use = first(operand)
                for base, there in shared.combined_footprints((use,), views.context_of(site).threads).items():
                    if there is not None:
                        used.setdefault(base, []).append((use, there))
    for start in starts if used else ():
        accesses = [
            first(a) for i in unfenced.classes[start] for a in shared.accesses(i) if unfenced.begins(a)
        ]
        threads = views.context_of(start).threads
        for base, here in shared.combined_footprints(accesses, threads).items():
            for use, there in used.get(base, ()):
                if here is not None and here.overlaps(there):
                    at = views.context_of(use.site).threads
                    meets = next((a for a in accesses if shared.overlap(a, use, threads, at)), None)
                    if meets is not None:
                        yield start, meets, use


def _answered_again(model: KernelModel) -> Iterator[_Clash]:
    """Clashes of a read of a clusterlaunchcontrol response with a later request that overwrites it.

    In a ring of responses, a stage is requested again some iterations later. Every iteration is assumed to be like the
    first one.
    """
    unfenced, results = model.solution(UnfencedReads)
    for site in model.sites(Query.CANCEL):
        read = {start for start, _ in results.before(site)}
        for start, access, use in _same_at_first(model, UnfencedReads, read, (site,), writes=True):

            def requests(state: object, at: int, request: int = use.site) -> bool:
                return at == request

            follow = partial(unfenced.follow, start)
            path = model.path(FactQuery(start, 0, results, follow, requests, (site,)))
            if isinstance(path, Found):
                yield _Clash.of(model, Conflict(access, use, path.witness))


def _mild(clash: _Clash) -> bool:
    """True if a memory fence wider than the CTA intervenes, after which hardware has never been observed to fail."""
    return bool(clash.since & WIDE)


def _folded(
    model: KernelModel, found: Iterable[_Clash], loops: bool = False
) -> Iterator[tuple[_Clash, tuple[tuple[int, int], ...]]]:
    """One clash for each missing fence, with the accesses and operations that it affects; the most severe first.

    One fence serves the accesses of a block, the operations of a block, and those that complete on one ring of mbarriers.
    With *loops*, it serves those of a loop: where that is unrolled, each stage of a ring has its own instructions.
    """
    groups: list[tuple[_Clash, set[int], set[int | Ring], list[tuple[int, int]]]] = []
    block_of, rings_at = model.cfg.block_of, model.fact(Mbarriers).rings_at
    place = model.cfg.component if loops else range(len(model.cfg.blocks))
    for clash in sorted(found, key=_mild):
        first = place[block_of[clash.first.site]]
        last: set[int | Ring] = {place[block_of[clash.last.site]], *rings_at(clash.last.site)}
        for _, accessing, using, pairs in groups:  # noqa: B007
            if first in accessing or not last.isdisjoint(using):
                break
        else:
            accessing, using, pairs = set[int](), set[int | Ring](), []
            groups.append((clash, accessing, using, pairs))
        accessing.add(first)
        using |= last
        pairs.append((clash.first.site, clash.last.site))
    for clash, _, _, pairs in groups:
        yield clash, tuple(pairs)


def _between(model: KernelModel, clash: _Clash, complete: int = -1) -> Iterator[Mark]:
    """Steps for instructions between the two that order threads or memory, but not proxies.

    *complete* is the index in ``clash.passed`` of the wait that completes a copy; -1 without one.
    """
    shown: set[str] = set()
    for place, i in enumerate(clash.passed):
        instruction = model.instruction(i)
        effects, why = instruction.effects, ""
        if place == complete:
            why = "completes the copy, for the copying thread"
        elif effects.fence is Fence.PROXY:
            if not fences(instruction):
                why = "this fence does not cover shared memory"
            elif clash.partly_fenced:
                why = "this fence orders only the writes of the threads that execute it"
            else:
                why = "this fence is too early"
        elif effects.fence is Fence.MEMORY:
            why = "this fence orders memory accesses, but not between proxies"
        elif effects.arrives is Barrier.MBARRIER:
            why = "the arrival orders the threads, but not the proxies"
        elif effects.awaits_threads:
            why = "this orders the threads, but not the proxies"
        if why and why not in shown:
            shown.add(why)
            yield Mark(i, why)


def _steps(
    model: KernelModel, clash: _Clash, before: str, after: str, complete: int = -1
) -> tuple[Mark, ...]:
    first, last = clash.first.site, clash.last.site
    return (
        Mark(first, before, role=model.describe_threads(model.views.context_of(first).threads)),
        *_between(model, clash, complete),
        Mark(last, after, role=model.describe_threads(clash.threads)),
    )


def _hit(model: KernelModel, clash: _Clash, pairs: tuple[tuple[int, int], ...]) -> Hit:
    write, use = clash.first.site, clash.last.site
    operation, writer = called(model, use), called(model, write)
    return PR001.hit(
        site=use,
        message=f"{operation} reads, through the async proxy, shared memory that {writer} wrote through the generic "
        "proxy, and no proxy fence orders the two",
        steps=_steps(model, clash, f"{writer} writes it", f"{operation} reads it"),
        count=len({use for _, use in pairs}),
        pairs=pairs,
        help=f"execute {_FENCE} in every thread that writes, after its writes and before the synchronisation with"
        " the thread that issues the operation",
        fixes=_fenced(model, clash),
        confidence=model.size_confidence(
            clash.first, clash.last, model.views.context_of(write).threads, clash.threads
        ),
    ).unshown(Severity.WARNING if _mild(clash) else None)


def _fenced(model: KernelModel, clash: _Clash, begins: int | None = None) -> tuple[Repair, ...]:
    return fence_between(model, clash.first.site, clash.passed, f"{_FENCE};", begins)


@check(PR002, analyses=(CompletedCopies, Mbarriers))
def unfenced_copies(model: KernelModel) -> Iterator[Hit]:
    """Report shared memory that cp.async fills and the async proxy reads, with no fence after the wait for the copy."""
    copies = frozenset(model.begins(CP_ASYNC))
    if not copies or not through_async(model, writes=False):
        return
    landed, results = model.solution(CompletedCopies)
    meetings = OverlapSearch(
        model,
        results,
        landed,
        copies,
        partial(_is_async, False),
        lambda copy, use, route: route.path.state == COMPLETED and _meet(model, copy, use, route),
    )
    for clash, pairs in _folded(model, (_Clash.of(model, meeting) for meeting in meetings)):
        operation = called(model, clash.last.site)
        waits = [
            place
            for place, i in enumerate(clash.passed)
            if model.instruction(i).effects.waits is not None
            or model.instruction(i).effects.awaits is Barrier.MBARRIER
        ]
        complete = waits[-1] if waits else -1
        yield PR002.hit(
            site=clash.last.site,
            message=f"{operation} reads, through the async proxy, shared memory that cp.async wrote through the generic"
            " proxy, and no proxy fence orders the two",
            steps=_steps(model, clash, "cp.async starts to write it", f"{operation} reads it", complete),
            count=len({use for _, use in pairs}),
            pairs=pairs,
            help=f"execute {_FENCE} in every thread that copies, after its wait for the copies and before the"
            " synchronisation with the thread that issues the operation",
            fixes=_fenced(model, clash, clash.passed[complete]) if waits else (),
        )


@check(PR003, analyses=(TensorMaps,))
def unfenced_maps(model: KernelModel) -> Iterator[Hit]:
    """Report tensor copies that use a map that the kernel has written, without the fences that make it visible."""
    if not any("tensormap" in use.match.form.roles for use in model.function.uses if use.match is not None):
        return
    yield from _unpublished_maps(model)
    maps, results = model.solution(TensorMaps)
    reported: set[int] = set()
    for use, address in maps.uses if maps.writes else ():
        for write, status in sorted(results.before(use)):
            if status in reported or maps.passes_by(write, use, status):
                continue
            begin = RELEASED if model.instruction(write).effects.fence is Fence.PROXY else WRITTEN
            path = model.path(
                FactQuery(
                    write,
                    begin,
                    results,
                    partial(maps.follow, write),
                    lambda state, i, status=status, use=use: i == use and state == status,  # type: ignore[misc]
                    (use,),
                ),
            ).witness
            if path is None:
                continue
            along = model.along(path, write)
            if maps.distance(along(address), maps.writes[write]) == 0:
                reported.add(status)
                yield _map_hit(model, write, use, path)


def _unpublished_maps(model: KernelModel) -> Iterator[Hit]:
    """Report the last changes of tensor maps in shared memory that no tensormap.cp_fenceproxy follows.

    In a kernel without that instruction, the map may be copied by other means.
    """
    by_name = {use.match.form.name: use.sites for use in model.function.uses if use.match is not None}
    rank, block_of = model.cfg.rank, model.cfg.block_of
    copies = [i for i in by_name.get("tensormap.cp_fenceproxy", ()) if block_of[i] in rank]
    last: dict[int, int] = {}
    for site in by_name.get("tensormap.replace", ()) if copies else ():
        address = model.value(site, "tensormap")
        if ".shared::cta" in _modifiers(model, site) and block_of[site] in rank and address is not None:
            last[address] = site
    for site in last.values():
        if all(model.reaches(i, site) and not model.reaches(site, i) for i in copies):
            yield PR003.hit(
                site=site,
                message=f"{model.name(site)} changes a tensor map in shared memory, but no tensormap.cp_fenceproxy follows to copy it to"
                " global memory: tensor copies use the old map",
                steps=(
                    Mark(copies[-1], "copies the map before the change"),
                    Mark(
                        site,
                        "changes the map",
                        role=model.describe_threads(model.views.context_of(site).threads),
                    ),
                ),
                help="execute tensormap.cp_fenceproxy in the whole warp after the last change",
            )


def _modifiers(model: KernelModel, site: int) -> tuple[str, ...]:
    match = model.instruction(site).match
    return match.modifiers if match is not None else ()


def _acquired(model: KernelModel, use: int, path: Path) -> tuple[Repair, ...]:
    """The fix that adds the fences right before the use, for a map that the same thread has written."""
    operand = model.instruction(use).role("tensormap")
    if not isinstance(operand, Memory) or not isinstance(operand.base, int):
        return ()
    name = model.function.registers[operand.base].name
    address = f"[{name}+{operand.offset}]" if operand.offset else f"[{name}]"
    fences = (
        *(() if path.state == RELEASED else ("fence.proxy.tensormap::generic.release.gpu;",)),
        f"fence.proxy.tensormap::generic.acquire.gpu {address}, 128;",
    )
    said = " and ".join(fence.rstrip(";") for fence in fences)
    return (Repair(f"add {said}", (before(use, *fences),), True),)


def _map_hit(model: KernelModel, write: int, use: int, path: Path) -> Hit:
    operation, writer = called(model, use), called(model, write)
    fences = [
        Mark(i, "this fence releases the map")
        for i in path.sites(model.cfg, write)
        if model.instruction(i).effects.fence is Fence.PROXY and path.state == RELEASED and i in path.marks
    ]
    if path.state == RELEASED:
        missing = "with no fence.proxy.tensormap::generic.acquire of the map before the use"
        remedy = (
            "execute fence.proxy.tensormap::generic.acquire.gpu [map], 128 in the thread that uses the map, "
            "before it does"
        )
    else:
        missing = "with no intervening fence.proxy.tensormap::generic.release"
        remedy = (
            "execute fence.proxy.tensormap::generic.release.gpu after the writes (or copy the map with"
            " tensormap.cp_fenceproxy), and fence.proxy.tensormap::generic.acquire.gpu [map], 128 before the use"
        )
    return PR003.hit(
        site=use,
        message=f"{operation} uses a tensor map that {writer} wrote, {missing}: it may still use the old map",
        steps=(
            Mark(
                write,
                f"{writer} writes the map",
                role=model.describe_threads(model.views.context_of(write).threads),
            ),
            *fences,
            Mark(use, f"{operation} uses the map", role=model.describe_threads(path.threads)),
        ),
        help=remedy,
        fixes=_acquired(model, use, path),
        confidence=model.confidence(path, write),
    )


_MEASURED = (
    ": wrong in up to 3.4 % of launches on an H200 that other processes used, and in none with the fence"
)
"""What a missing fence between the reads and the refill by a bulk copy did; the page of the rule has the conditions."""
_PERFORMED = "a branch on what was read comes before the operation, so the read has been performed"
"""The doubt about a read whose value the thread has needed."""
_FIRST = "no copy has filled what is read, so the operation fills it for the first time, and only refills were measured"
"""The doubt about a read of something else that was in the memory before."""


@check(PR004, analyses=(UnfencedWaits, HappensBefore, Mbarriers, Overwritten, Unfenced, UnfencedReads))
def unfenced_reads(model: KernelModel) -> Iterator[Hit]:
    """Report shared memory that loads read and the async proxy overwrites, with no intervening proxy fence. By the letter,
    what stores wrote counts too."""
    if not through_async(model, writes=True):
        return
    reported = set[int]()
    for clash, pairs in _folded(model, _overwriting(model, UnfencedReads), loops=True):
        reported.update(use for _, use in pairs)
        yield _overwritten_hit(model, clash, pairs, ("read", "reads", "loads")).doubted(
            _harmless(model, clash)
        )
    if model.by_letter:
        stores = (clash for clash in _overwriting(model, Unfenced) if clash.last.site not in reported)
        for clash, pairs in _folded(model, stores, loops=True):
            yield _overwritten_hit(model, clash, pairs, ("wrote", "writes", "stores"))


def _overwriting(model: KernelModel, kind: type[Unfenced]) -> Iterator[_Clash]:
    """The clashes of a generic access of a *kind* and an operation that overwrites the bytes."""
    yield from (_Clash.of(model, meeting) for meeting in _meetings(model, kind, writes=True))
    if kind is UnfencedReads:
        yield from _answered_again(model)
    yield from _across_roles(model, kind, through_async(model, writes=True), writes=True)


def _refills(model: KernelModel, clash: _Clash) -> bool:
    """Whether a bulk copy overwrites what another one filled."""
    copies = model.instruction(clash.last.site).effects.begins is not None
    return copies and model.fact(Overwritten).filled(clash.first)


def _harmless(model: KernelModel, clash: _Clash) -> str:
    """The doubt about a read that the operation overwrites, which is none by the letter; empty if there is none."""
    if model.by_letter:
        return ""
    if model.instruction(clash.last.site).effects.begins is not None and not _refills(model, clash):
        return _FIRST
    return _PERFORMED if _decided(model, clash) else ""


def _overwritten_hit(
    model: KernelModel, clash: _Clash, pairs: tuple[tuple[int, int], ...], words: tuple[str, str, str]
) -> Hit:
    """The hit about *pairs* of accesses and operations, of which *clash* is shown; *words* say what the accesses do."""
    operation, first = called(model, clash.last.site), called(model, clash.first.site)
    did, does, accesses = words
    measured = _MEASURED if did == "read" and _refills(model, clash) else ""
    return PR004.hit(
        site=clash.last.site,
        message=f"{operation} writes, through the async proxy, shared memory that {first} {did} through the generic"
        f" proxy, and no proxy fence orders the two{measured}",
        steps=_steps(model, clash, f"{first} {does} it", f"{operation} starts to overwrite it"),
        count=len({use for _, use in pairs}),
        pairs=pairs,
        help=f"execute {_FENCE} in every thread that {does}, after its {accesses} and before the synchronisation with"
        " the thread that issues the operation, or in that thread after the synchronisation",
        fixes=_fenced(model, clash),
    )


def _decided(model: KernelModel, clash: _Clash) -> bool:
    """True if a branch between the two depends on what the first access read: the read has then been performed."""
    return any(
        i in clash.passed and model.instruction(i).flow == "branch"
        for i, _ in model.transitive_users(clash.first.site)
    )
