"""Checks of the lifetime of mbarrier objects: initialised and published before use, not accessed as memory until they
are invalidated (PTX ISA 9.7.13.15.3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
from functools import reduce
from itertools import islice
from math import prod
from operator import or_

from tclint.analyses import role_paths
from tclint.analyses.execution import executing
from tclint.analyses.happens_before import HappensBefore, OrderScope
from tclint.analyses.mbarrier_addresses import (
    SIZE,
    Address,
    MbarrierAddresses,
    MbarrierLocation,
    home,
    may_leave,
)
from tclint.analyses.mbarriers import first_waits_for
from tclint.analyses.model import KernelModel
from tclint.analyses.objects import ObjectNames
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._mbarrier_objects import MbarrierObjects
from tclint.checks._repairs import barrier_after, barrier_between
from tclint.dataflow.views import ThreadContext
from tclint.findings.edits import Repair, after
from tclint.findings.scales import Method, Severity
from tclint.isa.effects import TRANSACTIONS, Barrier, Fence, Resource
from tclint.replay.interface import Faulty
from tclint.replay.scheduler import UninitialisedMbarrier
from tclint.replay.verdict import Replay
from tclint.values import PathCondition
from tclint.values import thread_masks as T
from tclint.values.addresses import Footprint
from tclint.values.nodes import AddressOf, Applied, Elected, Loaded, Masked, Opaque, ParameterRead, Unmodelled
from tclint.values.shared_memory import SharedAccess

MB002 = RuleId("MB002")
MB009 = RuleId("MB009")


@check(MB002, MB009, analyses=(MbarrierAddresses, HappensBefore, ObjectNames, Replay))
def objects(model: KernelModel) -> Iterator[Hit]:
    """Report operations on an mbarrier, and accesses to its memory, at the wrong time of its lifetime."""
    known = model.fact(MbarrierObjects)
    never = list(_uninitialised(known))
    yield from never or _too_early(known)
    yield from _twice(known)
    yield from _by_several_warps(known)
    yield from _touched(known)
    yield from _touched_by_owner(known)
    yield from _unpublished(known)


# ---------------------------------------------------------------- MB009


def _uninitialised(known: MbarrierObjects) -> Iterator[Hit]:
    """Report uses of mbarriers that nothing in the whole program initialises."""
    model = known.model
    made = list(known.inits.values())
    if (
        not role_paths.whole_program(model)
        or not _self_contained(model)
        or any(named is None for named in made)
    ):
        return
    every = frozenset().union(*(named for named in made if named is not None))
    for what, sites in grouped(_lacking(known, bool(every))).items():
        name = "an mbarrier" if what is None else f"the mbarrier {known.words(what)}"
        why = "the kernel contains no mbarrier.init" if what is None else "no mbarrier.init initialises it"
        others = (Mark(i, "initialises another mbarrier") for i in known.neighbours(what)[:2])
        yield MB009.hit(
            site=sites[0],
            message=f"{model.name(sites[0])} uses {name}, which is never initialised: {why}",
            steps=(
                *sorted((*others, *known.addressed(what, sites[0])), key=lambda step: step.site),
                Mark(sites[0], "uses it", aside=True),
            ),
            help="initialise it once before its first use, with a barrier between the two",
            count=len(sites),
            about=frozenset(sites),
        ).doubted("" if what is not None or _rest_of_lifetime(known) else _EXTRACT)


def _lacking(known: MbarrierObjects, initialised: bool) -> Iterator[tuple[MbarrierLocation | None, int]]:
    """Each used mbarrier that no init may name, with its use; None if no mbarrier is *initialised*."""
    for site in sorted((*known.uses, *known.invals)):
        if not initialised:
            yield None, site
            continue
        named = known.addresses.each(site)
        possible = None if named else known.addresses.locations(site)
        if possible is not None and all(map(known.makers, possible)):
            continue  # whichever it is; which is the first one takes a search for a path
        first = None if named else known.addresses.at_first(site)
        for location in sorted(named if first is None else {first}):
            if not known.makers(location):
                yield location, site
                break


_EXTRACT = "a kernel without any mbarrier.init may be an extract of one that has them"


def _rest_of_lifetime(known: MbarrierObjects) -> bool:
    """True if an entry contains the whole lifetime of its mbarriers except the initialisation.

    The mbarriers are in its own shared variables, whose contents are undefined when a CTA starts, and its threads both
    signal and wait. A fence that publishes initialisations, or an mbarrier.inval, implies that there was an init.
    """
    model = known.model
    used = [model.instruction(i).effects for i in known.uses]
    published = (".mbarrier_init" in _modifiers(model, i) for i in model.sites(Fence.MEMORY))
    return (
        model.function.entry
        and (bool(known.invals) or any(published))
        and any(e.awaits is Barrier.MBARRIER for e in used)
        and any(e.begins is not None or e.arrival is Barrier.MBARRIER for e in used)
        and all(_in_shared_variable(model, i) for i in known.uses)
    )


def _in_shared_variable(model: KernelModel, use: int) -> bool:
    address = model.mbarrier(use)
    if address is None:
        return False
    nodes = (
        model.values.node(t)
        for t, factor in model.values.linear(home(model.values, address).address)[0]
        if factor == 1
    )
    variables = {**model.module.variables, **model.function.variables}
    names = [node.name for node in nodes if type(node) is AddressOf]
    return any(name in variables and variables[name].space.startswith(".shared") for name in names)


_LAUNCH_DEPENDENT = frozenset((ParameterRead, Loaded, Unmodelled))
"""Kinds of values that the launch or the contents of memory determine."""


def _too_early(known: MbarrierObjects) -> Iterator[Hit]:
    """Report a use that a replay reaches although no thread has initialised the mbarrier, nor could have.

    A replay iterates the loops, so it shows which mbarrier of a ring is used when. The replayed launch need not be one
    that the kernel is meant for. Its evidence therefore counts only if no launch could change it: the address does not
    depend on the launch, and every init of this mbarrier follows the use, if there is one.
    """
    model = known.model
    if not (model.awaits(Barrier.MBARRIER) or model.begins(TRANSACTIONS)):
        return
    replay = model.fact(Replay)
    unmade = None if isinstance(replay.verdict, Faulty) else replay.uninitialised
    location = (
        None if unmade is None else _only(known.named.get(unmade.site)) or _named_in_replay(known, unmade)
    )
    if unmade is None or location is None:
        return
    site, makers = unmade.site, sorted(known.makers(location))
    apart = [i for i in makers if model.views.exclusive(i, site)]
    if any(model.reaches(i, site) or not model.reaches(site, i) for i in makers if i not in apart):
        return
    makers = [i for i in makers if i not in apart]
    made = makers or apart or known.neighbours(location)
    yield MB009.hit(
        site=site,
        message=f"{model.name(site)} uses the mbarrier {known.words(location)}, which "
        + (
            "is not initialised yet: its mbarrier.init follows the use"
            if makers
            else "is never initialised: "
            + ("only other CTAs execute its mbarrier.init" if apart else "no mbarrier.init initialises it")
        ),
        steps=(
            Mark(
                made[0],
                "initialised here" + " in other CTAs" * (not makers)
                if makers or apart
                else "initialises another mbarrier",
            ),
            *(() if makers else known.addressed(location, site)),
            Mark(site, "used before that" if makers else "reaches the mbarrier that was never initialised"),
        ),
        help="initialise it once before its first use, with a barrier between the two",
        method=Method.REPLAY,
        about=frozenset((site,)),
    )


def _only(named: frozenset[MbarrierLocation] | None) -> MbarrierLocation | None:
    """The one mbarrier that a use names; None if it may name others."""
    return min(named) if named is not None and len(named) == 1 else None


def _named_in_replay(known: MbarrierObjects, unmade: UninitialisedMbarrier) -> MbarrierLocation | None:
    """The mbarrier that a replay found uninitialised, as a symbolic address; None if that depends on the launch."""
    model, values = known.model, known.model.values
    value = model.mbarrier(unmade.site)
    if value is None or any(type(values.node(v)) in _LAUNCH_DEPENDENT for v in values.subexpressions(value)):
        return None
    begins: dict[int, set[int]] = defaultdict(set)
    for at, init in unmade.made.items():
        named = known.inits.get(init)
        if named is not None and len(named) == 1:
            begins[min(named).base].add(at - min(named).offset)
    for address in known.addresses.of(unmade.site):
        starts = begins.get(address.form.base, ())
        for start in starts if len(starts) == 1 else ():
            offset = unmade.address - start
            if _within(known, unmade.site, address, offset):
                return MbarrierLocation(address.form.base, offset)
    return None


def _within(known: MbarrierObjects, site: int, address: Address, offset: int) -> bool:
    """True if *address* takes the value *offset* in some iteration, whatever the trip counts."""
    values = known.model.values
    mine = values.addresses.offsets(address.form.index, known.model.views.context_of(site).threads)
    if mine is None:
        return False
    if address.form.count is not None:
        return any(
            offset == address.form.offset + own + k * address.form.stride
            for own in mine
            for k in range(address.form.count)
        )
    # A remainder, or a counter from which a quotient is subtracted: bounded for any trip count.
    moving = [(values.node(t), factor) for t, factor in address.moves if values.varying_at(t)]
    return (
        not address.pointer and all(type(node) is Opaque and node.name == "rem" for node, _ in moving)
    ) or any(isinstance(node, Masked | Applied) and factor < 0 for node, factor in moving)


def _self_contained(model: KernelModel) -> bool:
    """True if no called function could initialise an mbarrier."""
    bodies = {f.name: f for f in model.module.functions if f.instructions}
    called = (bodies.get(model.instruction(i).callee) for i in role_paths.calls(model))
    return not any(
        use.match is not None
        and (use.match.form.effects.resource is Resource.MBARRIER_INIT or use.match.form.flow == "call")
        for function in called
        if function is not None
        for use in function.uses
    )


def _twice(known: MbarrierObjects) -> Iterator[Hit]:
    """Report mbarriers that are initialised while they are live, with one finding for each pair of blocks."""
    block_of = known.model.cfg.block_of
    pairs = (
        ((block_of[first], block_of[again]), (location, first, again))
        for location, first, again in _remade(known)
    )
    for found in grouped(pairs).values():
        location, first, again = found[0]
        yield MB009.hit(
            site=again,
            message=f"{known.model.name(again)} re-initialises the live mbarrier {known.words(location)}: it must be invalidated first",
            steps=(
                Mark(first, "initialised here"),
                Mark(
                    again,
                    "initialised again without an mbarrier.inval"
                    if again != first
                    else "initialised again in the next iteration without an mbarrier.inval",
                ),
            ),
            help="initialise it once, or execute mbarrier.inval between the two, after a barrier",
            count=len(found),
            about=frozenset(at for _, _, at in found),
        ).unshown(Severity.WARNING)  # production kernels do this, and work


def _by_several_warps(known: MbarrierObjects) -> Iterator[Hit]:
    """Report one mbarrier that several warps initialise with the same instruction."""
    model = known.model
    for location, (site, *_) in known.unambiguous(known.inits).items():
        threads, by_index_alone = executing(model, site) or (0, False)
        if not threads or not by_index_alone or T.one_warp(threads):
            continue
        who = model.describe_threads(threads)
        yield MB009.hit(
            site=site,
            message=f"{model.name(site)} is executed by {who} for the mbarrier {known.words(location)}: each may re-initialise it while it is in use",
            steps=(Mark(site, "initialised by several warps", role=who),),
            help="initialise it in one thread of the CTA, and add a barrier of all that use it",
            about=frozenset((site,)),
        ).unshown(Severity.WARNING)  # it works if a CTA barrier follows


def _remade(known: MbarrierObjects) -> Iterator[tuple[MbarrierLocation, int, int]]:
    """Mbarriers, each with two inits, or one init twice, that a path without an mbarrier.inval connects."""
    model, connected = known.model, dict[tuple[Hashable, ...], tuple[int, int] | None]()
    for location, sites in known.unambiguous(known.inits).items():
        if len(sites) == 1 and model.cfg.block_of[sites[0]] not in model.cfg.in_cycle:
            continue
        ends = known.enders(location)
        # Without an inval, mbarriers that the same blocks initialise have the same paths from init to init.
        alike = tuple(map(model.guarded_block, sites)) if not ends else (location,)
        if alike not in connected:
            connected[alike] = _connected(model, sites, ends)
        if (pair := connected[alike]) is not None:
            yield location, sites[pair[0]], sites[pair[1]]


def _connected(model: KernelModel, sites: Sequence[int], ends: Collection[int]) -> tuple[int, int] | None:
    """The positions in *sites* of two that a path connects which passes none of *ends*; None if there is no path."""
    for position, first in enumerate(sites):
        path = role_paths.follow(model, first, model.views.context_of(first), sites, ends).witness
        if path is not None:
            return position, sites.index(path.end)
    return None


def _touched(known: MbarrierObjects) -> Iterator[Hit]:
    """Report accesses to the memory of a live mbarrier by anything but mbarrier operations."""
    model, shared = known.model, known.model.shared
    held: dict[int, dict[int, Footprint]] = defaultdict(dict)
    for location, sites in known.unambiguous(known.inits).items():
        for site in sites:
            held[location.base][site] = Footprint(location.offset, (1 << SIZE) - 1)
    first = {base: min(f.low for f in footprints.values()) for base, footprints in held.items()}
    last = {base: max(f.low for f in footprints.values()) + SIZE - 1 for base, footprints in held.items()}
    reported: set[int] = set()
    for access in _accesses(model) if held else ():
        here = _footprint(model, access, held)
        base = shared.addresses.form(access.address).base
        if here is None or here.low > last[base] or here.low + here.bytes.bit_length() <= first[base]:
            continue
        for made, footprint in held[base].items():
            if made in reported or not footprint.overlaps(here):
                continue
            if hit := _accessed_while_live(known, made, access):
                reported.add(made)
                yield hit


def _touched_by_owner(known: MbarrierObjects) -> Iterator[Hit]:
    """Report accesses to a live mbarrier whose address depends on the thread, by the thread that initialised it."""
    model, shared = known.model, known.model.shared
    for made in known.inits:
        address = model.mbarrier(made)
        if (
            address is None
            or model.values.varying_at(address)
            or model.values.constant_of(shared.addresses.form(address).index) is not None
        ):
            continue
        held, owners = SharedAccess(made, True, address, SIZE), model.views.context_of(made).threads
        meeting = (
            access
            for access in _accesses(model)
            if shared.overlap_in_one_thread(
                held, access, owners & model.views.context_of(access.site).threads
            )
        )
        yield from islice(filter(None, (_accessed_while_live(known, made, access) for access in meeting)), 1)


def _accesses(model: KernelModel) -> Iterator[SharedAccess]:
    """The reachable accesses to shared memory, in the order of the text."""
    return (
        access
        for site in sorted(model.shared.sites)
        if model.cfg.block_of[site] in model.cfg.rank
        for access in model.shared.accesses(site)
    )


def _footprint(model: KernelModel, access: SharedAccess, bases: Collection[int]) -> Footprint | None:
    """The bytes of *access*; None if they are unknown, or its base is not among *bases*."""
    base = model.values.addresses.form(access.address).base
    return (
        model.shared.footprint(access, model.views.context_of(access.site).threads) if base in bases else None
    )


def _accessed_while_live(known: MbarrierObjects, made: int, access: SharedAccess) -> Hit | None:
    """The finding about an *access* that follows the init *made* with no intervening mbarrier.inval; or None."""
    model, site = known.model, access.site
    locations = known.inits[made]
    if not locations:
        return None
    ends = frozenset().union(*map(known.enders, locations))
    if role_paths.follow(model, made, model.views.context_of(made), (site,), ends).witness is None:
        return None
    verb = "writes" if access.writes else "reads"
    return MB009.hit(
        site=site,
        message=f"{model.name(site)} {verb} memory of the mbarrier {known.words(min(locations))}, which only mbarrier operations may access",
        steps=(Mark(made, "the mbarrier is initialised here"), Mark(site, f"{verb} its bytes")),
        help="use other memory, or invalidate the mbarrier first",
        about=frozenset((site,)),
    )


# ---------------------------------------------------------------- MB002


_LOWEST = "on an H100, elect.sync chose the lowest lane of every mask that was tried"


class _Publication:
    """Where threads can become ordered after an initialisation by another thread."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.order = model.fact(HappensBefore)
        self.clustered = bool(self.order.points.barrier_sites(OrderScope.CTAS)) or _cluster_size(model) > 1
        self._unordered: dict[int, dict[int, int]] = {}
        self._after: dict[frozenset[int], frozenset[int]] = {}
        self._shared: dict[frozenset[int], frozenset[int]] = {}
        """Each set of :attr:`_after` by itself: those of hundreds of mbarriers are equal."""

    def passed(self, observers: frozenset[int], uses: Collection[int]) -> frozenset[int]:
        """Those of *observers*, on a path to one of *uses*, that are waits whose first execution returns at once.

        For parity 1, a fresh mbarrier needs no arrival. No other path is of interest than one that passes none but such
        waits, so no other wait is asked for its parity.
        """
        model = self.model
        waits = observers.intersection(model.awaits(Barrier.MBARRIER))
        others = observers - waits
        unguarded = [i for i in others if model.instruction(i).guard < 0]
        on_path = role_paths.unbarred(model, model.reached_from((-1,), waits, unguarded), others, uses)
        return frozenset(i for i in on_path if first_waits_for(model, i, 1))

    def after(self, inits: frozenset[int]) -> frozenset[int]:
        """The acquire points at which a thread may observe one of *inits*."""
        if inits not in self._after:
            every = self.order.points.acquire_points(OrderScope.LANES)
            observers = (self.order.observers_of((i,)) & every - self.unordered(i).keys() for i in inits)
            found = frozenset[int]().union(*observers)
            self._after[inits] = self._shared.setdefault(found, found)
        return self._after[inits]

    def unordered(self, init: int) -> dict[int, int]:
        """Cluster waits that do not order a thread after *init*, each with the relaxed arrival that is the reason."""
        if init not in self._unordered:
            self._unordered[init] = self.order.relaxed_cluster_waits(init, _fences(self.model))
        return self._unordered[init]


def _fences(model: KernelModel) -> list[int]:
    return [*model.sites(Fence.MEMORY), *model.sites(Fence.PROXY)]


def _cluster_size(model: KernelModel) -> int:
    """The number of CTAs of a cluster according to its directive; 1 without one."""
    return prod(model.function.directives.get(".reqnctapercluster") or (1,))


def _modifiers(model: KernelModel, site: int) -> Collection[str]:
    match = model.instruction(site).match
    return match.modifiers if match is not None else ()


def _unpublished(known: MbarrierObjects) -> Iterator[Hit]:
    """Report uses of an mbarrier by threads that nothing orders after its initialisation by another thread."""
    model = known.model
    publication = _Publication(model)
    makers = {
        i: (model.views.context_of(i).threads, tuple(_elected(model, model.views.context_of(i))))
        for i in known.inits
    }
    # If alternative paths initialise the same mbarrier, it is enough to be ordered after one of the inits.
    groups: dict[tuple[frozenset[int], frozenset[tuple[int, tuple[int, ...]]]], list[int]] = defaultdict(list)
    by: dict[frozenset[int], frozenset[tuple[int, tuple[int, ...]]]] = {}
    for use in known.uses:
        made = _made(known, use)
        if made not in by:
            by[made] = frozenset(makers[i] for i in made)
        groups[publication.after(made), by[made]].append(use)
    for (ends, who), uses in groups.items():
        if not who:
            continue
        near, alone = [use for use in uses if not _elsewhere(model, use)], len(who) == 1
        maker = model.views.context_of(min(_made(known, uses[0])))
        if not alone:  # a thread in the warp of one of them may be ordered after it by other means
            maker = ThreadContext(reduce(or_, (threads for threads, _ in who)))
        # The lane that another election under another mask returns is unknown.
        lanes = [use for use in near if not _elected(model, model.views.context_of(use))]
        everyone = ThreadContext(T.full(model.values.threads))
        searches = [
            (view, lanes, ends, doubt)
            if same_warp
            else (view, near, ends & publication.order.points.acquire_points(OrderScope.WARPS), doubt)
            for view, same_warp, doubt in _others(model, maker)
            if alone or not same_warp
        ]
        if publication.clustered and alone:
            far, observers = (
                [use for use in uses if use not in near],
                ends & publication.order.points.acquire_points(OrderScope.CTAS),
            )
            searches.append((everyone, far, observers, ""))
            # A path that avoids a cluster barrier may be the one for clusters of one CTA.
            far = [
                use
                for use in far
                if not any(
                    model.reaches(w, use)
                    for w in observers & publication.order.points.barrier_sites(OrderScope.CTAS)
                )
            ]
            if far:
                searches.append((everyone, far, observers - publication.passed(observers, far), ""))
        for view, to, observers, doubt in searches:
            path = role_paths.follow(model, -1, view, to, observers).witness if to else None
            if path is None:
                continue
            again = Counter(path.sites(model.cfg, -1))
            if all(again[i] < 2 for i in ends):
                init = min(_made(known, path.end))
                yield _early(known, publication, init, path.end, path.threads).doubted(doubt)
                break


def _made(known: MbarrierObjects, use: int) -> frozenset[int]:
    """The inits that may have initialised the mbarrier of *use*; all of them if the mbarrier is unknown.

    Those that are mutually exclusive with *use* by a CTA-uniform condition are omitted, if others remain.
    """
    named = known.named[use]
    made = (
        frozenset(known.inits)
        if named is None
        else frozenset().union(*(known.makers(location) for location in named))
    )
    if not known.repeated:
        return made
    return frozenset(i for i in made if not known.model.views.exclusive(i, use)) or made


def _elsewhere(model: KernelModel, use: int) -> bool:
    """True if *use* may name an mbarrier of another CTA."""
    address = model.mbarrier(use)
    return model.instruction(use).role("mask") is not None or (
        address is not None and may_leave(model.values, address)
    )


def _others(model: KernelModel, maker: ThreadContext) -> Iterator[tuple[ThreadContext, bool, str]]:
    """The threads other than *maker*, whether they are in its warp, and the doubt about them; no doubt first.

    If several threads initialise an mbarrier each, all of them are excluded, and the mbarriers of a warp are assumed to
    be used by that warp.
    """
    values, threads = model.values, maker.threads
    elected, usual = _elected(model, maker), 0
    warp = T.one_warp(threads)
    if elected and warp:
        (members,) = values.node(elected[0]).operands
        mask = values.constant_of(members)
        usual = warp & (mask & -mask) << ((warp & -warp).bit_length() - 1) if mask else 0
        yield ThreadContext(warp & ~usual, PathCondition({elected[0]: False})), True, ""
    else:
        warp = T.whole(threads, 32)
        if mates := warp & ~threads:
            yield ThreadContext(mates), True, ""
    others = T.full(values.threads) & ~warp
    if model.function.most_threads is not None and others:
        yield ThreadContext(others), False, ""
    if usual:
        yield ThreadContext(usual, PathCondition({elected[0]: False})), True, _LOWEST


def _elected(model: KernelModel, view: ThreadContext) -> list[int]:
    """The ``elect.sync`` predicates that hold for the whole life of the threads of *view*."""
    values = model.values
    return [p for p, held in view.invariant(values).items() if held and type(values.node(p)) is Elected]


def _published(
    known: MbarrierObjects, publication: _Publication, init: int, use: int, far: bool
) -> tuple[Repair, ...]:
    """The fix: a fence after the last init before a relaxed arrival, or a CTA barrier where all threads pass."""
    model = known.model
    unordered = publication.unordered(init)
    if unordered:
        arrival = min(unordered.values())
        last = max((i for i in known.inits if i < arrival), default=init)
        fence = "fence.mbarrier_init.release.cluster;"
        return (Repair(f"add {fence.rstrip(';')}", (after(last, fence),), True),)
    if far:
        return ()
    inits = [i for i in known.inits if i < use and model.reaches(i, use)]
    return barrier_after(model, inits, use) if init in inits else barrier_between(model, init, use)


def _early(known: MbarrierObjects, publication: _Publication, init: int, use: int, threads: T.Threads) -> Hit:
    model = known.model
    maker, user = map(model.describe_threads, (model.views.context_of(init).threads, threads))
    far = _elsewhere(model, use)
    unordered = sorted(set(publication.unordered(init).values()))
    if unordered:
        why = "barrier.cluster.arrive.relaxed orders no memory, and no fence.mbarrier_init precedes it"
        remedy = "add fence.mbarrier_init.release.cluster after mbarrier.init, or make the arrival .release"
    elif far:
        why = "no cluster barrier orders the two"
        remedy = (
            "add fence.mbarrier_init, barrier.cluster.arrive and barrier.cluster.wait after mbarrier.init"
        )
    else:
        why = "no barrier orders the two"
        remedy = "add a CTA barrier after mbarrier.init, before any other thread uses the mbarrier"
    who = "this mbarrier of another CTA" if far else "this mbarrier"
    return MB002.hit(
        site=use,
        message=f"{model.name(use)} of {user} may use {who} before it has been initialised: {why}",
        steps=(
            Mark(init, "initialises it", role=maker),
            *(Mark(i, "does not order preceding writes") for i in unordered),
            Mark(use, "uses it, not ordered after the initialisation", role=user),
        ),
        help=remedy,
        fixes=_published(known, publication, init, use, far),
        about=frozenset((use,)),
    ).unshown(Severity.WARNING if unordered else None)  # CUTLASS does this, and works
