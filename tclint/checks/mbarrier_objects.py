"""Checks of mbarrier objects: initialised before they are used, and left alone until they are invalidated (PTX ISA
9.7.13.15.3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from tclint.analyses import role_paths
from tclint.analyses.happens_before import HappensBefore, Scope
from tclint.analyses.mbarrier_addresses import SIZE, Address, MbarrierAddresses, Place, home, may_leave, same
from tclint.analyses.mbarriers import first_parity
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._repairs import barrier_between
from tclint.dataflow.views import ThreadContext
from tclint.findings.edits import Repair, after
from tclint.findings.scales import Severity
from tclint.replay import Faulty, Replay, UninitialisedMbarrier
from tclint.values import PathCondition
from tclint.values import thread_masks as T
from tclint.values.shared_memory import Access, Footprint

MB002 = RuleId("MB002")
MB009 = RuleId("MB009")


@dataclass
class _Objects:
    """The mbarriers of a kernel: where they are made, used and ended."""

    model: KernelModel
    _makers: dict[Place, frozenset[int]] = field(default_factory=dict)

    @cached_property
    def addresses(self) -> MbarrierAddresses:
        return self.model.fact(MbarrierAddresses)

    @cached_property
    def inits(self) -> dict[int, frozenset[Place] | None]:
        return {i: self.addresses.places(i) for i in self.model.sites("mbarrier-init")}

    @cached_property
    def repeated(self) -> bool:
        """Whether some mbarrier is made at more than one place in the code."""
        return len(self.inits) > len({place for named in self.inits.values() for place in named or ()})

    @cached_property
    def invals(self) -> dict[int, frozenset[Place] | None]:
        return {i: self.addresses.places(i) for i in self.model.sites("mbarrier-inval")}

    @cached_property
    def uses(self) -> list[int]:
        """What needs an mbarrier that has been initialised."""
        cfg = self.model.cfg
        return sorted(
            i
            for use in self.model.function.uses
            if use.match is not None
            and "mbarrier" in use.match.form.roles
            and use.match.form.event not in ("mbarrier-init", "mbarrier-inval")
            for i in use.sites
            if cfg.block_of[i] in cfg.rank
        )

    @cached_property
    def named(self) -> dict[int, frozenset[Place] | None]:
        """What each use may name."""
        return {i: self.addresses.places(i) for i in self.uses}

    def about(self, sites: dict[int, frozenset[Place] | None], place: Place) -> list[int]:
        """Those of *sites* that may name *place*."""
        return [
            i
            for i, named in sites.items()
            if named is None or any(same(self.model, place, other) is not False for other in named)
        ]

    def makers(self, place: Place) -> frozenset[int]:
        """The inits that may have made what lies at *place*."""
        if place not in self._makers:
            self._makers[place] = frozenset(self.about(self.inits, place))
        return self._makers[place]

    def alone(self, sites: dict[int, frozenset[Place] | None]) -> dict[Place, list[int]]:
        """The sites that name one mbarrier and no other."""
        return grouped((min(named), i) for i, named in sites.items() if named is not None and len(named) == 1)

    def words(self, place: Place) -> str:
        """An mbarrier in words: its variable, or its offset from where it is reckoned from."""
        node = self.model.values.node(place.base)
        offset = f"{place.offset:+d}" if place.offset else ""
        return f"[{node[1]}{offset}]" if node[0] == "symbol" else f"at offset {place.offset}"


@check(MB002, MB009, needs="mbarrier", analyses=(MbarrierAddresses, HappensBefore, Replay))
def objects(model: KernelModel) -> Iterator[Hit]:
    """What is done to an mbarrier, or to its memory, at the wrong time of its life."""
    known = _Objects(model)
    never = list(_uninitialised(known))
    yield from never or _too_early(known)
    yield from _twice(known)
    yield from _ended(known)
    yield from _touched(known)
    yield from _unpublished(known)


# ---------------------------------------------------------------- MB009


def _uninitialised(known: _Objects) -> Iterator[Hit]:
    """Uses of an mbarrier that nothing in the whole program initialises."""
    model = known.model
    made = list(known.inits.values())
    if (
        not role_paths.whole_program(model)
        or not _self_contained(model)
        or any(named is None for named in made)
    ):
        return
    every = frozenset().union(*(named for named in made if named is not None))
    for what, sites in grouped(_lacking(known, every)).items():
        name = "an mbarrier" if what is None else f"the mbarrier {known.words(what)}"
        why = "there is no mbarrier.init in the kernel" if what is None else "no mbarrier.init names it"
        yield MB009.hit(
            site=sites[0],
            message=f"{model.name(sites[0])} uses {name}, which is never initialised: {why}",
            steps=tuple(Mark(i, "another one is initialised here") for i in sorted(known.inits)[:1]),
            help="initialise it once before it is used, and have a barrier between the two",
            count=len(sites),
            about=frozenset(sites),
        ).doubted("" if what is not None or _lives(known) else _EXTRACT)


def _lacking(known: _Objects, every: frozenset[Place]) -> Iterator[tuple[Place | None, int]]:
    """Each mbarrier that is not among *every* initialised one, and its use; None where no mbarrier is initialised."""
    model = known.model
    for site in sorted((*known.uses, *known.invals)):
        if not every:
            yield None, site
            continue
        named = known.addresses.each(site)
        first = None if named else known.addresses.at_first(site)
        for place in sorted(named if first is None else {first}):
            if all(same(model, place, other) is False for other in every):
                yield place, site
                break


_EXTRACT = "a kernel without any may be an extract of one that has them"


def _lives(known: _Objects) -> bool:
    """Whether a kernel has all of the life of its mbarriers but the beginning.

    They lie in shared memory of its own, which is that of one CTA and holds nothing when that starts, and its threads both
    signal and wait there. A fence that publishes initialisations, or the end of an mbarrier, says that there was one.
    """
    model = known.model
    events = {model.instruction(i).event for i in known.uses}
    published = (".mbarrier_init" in _modifiers(model, i) for i in model.sites("memory-fence"))
    return (
        model.function.entry
        and (bool(known.invals) or any(published))
        and "mbarrier-wait" in events
        and not events.isdisjoint(("mbarrier-arrive", "commit", "issue"))
        and all(_in_shared_variable(model, i) for i in known.uses)
    )


def _in_shared_variable(model: KernelModel, use: int) -> bool:
    address = model.value(use, "mbarrier")
    if address is None:
        return False
    nodes = (
        model.values.node(t)
        for t, factor in model.values.linear(home(model.values, address).address)[0]
        if factor == 1
    )
    variables = {**model.module.variables, **model.function.variables}
    names = [node[1] for node in nodes if node[0] == "symbol"]
    return any(name in variables and variables[name].space.startswith(".shared") for name in names)


_LAUNCHED = ("parameter", "load", "unknown")
"""What an address is made of that a launch decides, or memory."""


def _too_early(known: _Objects) -> Iterator[Hit]:
    """A use that a replay comes to when no thread has initialised the mbarrier, nor could it have.

    Which of its mbarriers a ring comes to, and when, shows as the loops go round. That the launch which is replayed is one
    that the kernel is made for is not known, so what it shows counts only if no launch could change it: whichever mbarriers
    the address names do not depend on it, and all that initialises this one comes behind the use, if anything does.
    """
    model = known.model
    if not (model.sites("mbarrier-wait") or model.sites("issue", "mbarrier")):
        return
    replay = model.fact(Replay)
    unmade = None if isinstance(replay.verdict, Faulty) else replay.uninitialised
    place = None if unmade is None else _named_in_replay(known, unmade)
    if unmade is None or place is None:
        return
    site, makers = unmade.site, sorted(known.makers(place))
    if any(model.reaches(i, site) or not model.reaches(site, i) for i in makers):
        return
    made = makers or sorted(known.inits)
    yield MB009.hit(
        site=site,
        message=f"{model.name(site)} uses the mbarrier {known.words(place)}, which "
        + (
            "is not initialised yet: its mbarrier.init comes only behind that"
            if makers
            else "is never initialised: no mbarrier.init names it"
        ),
        steps=(
            Mark(made[0], "initialised here" if makers else "another one is initialised here"),
            Mark(site, "used before" if makers else "its turn comes, and it is none"),
        ),
        help="initialise it once before it is used, and have a barrier between the two",
        replayed=True,
        about=frozenset((site,)),
    )


def _named_in_replay(known: _Objects, unmade: UninitialisedMbarrier) -> Place | None:
    """The mbarrier that threads of a replay name, in the terms of the text; None where a launch has a say in it."""
    model, values = known.model, known.model.values
    value = model.value(unmade.site, "mbarrier")
    if value is None or any(values.node(v)[0] in _LAUNCHED for v in values.subexpressions(value)):
        return None
    begins: dict[int, set[int]] = defaultdict(set)
    for at, init in unmade.made.items():
        named = known.inits.get(init)
        if named is not None and len(named) == 1:
            begins[min(named).base].add(at - min(named).offset)
    for address in known.addresses.of(unmade.site):
        starts = begins.get(address.base, ())
        for start in starts if len(starts) == 1 else ():
            offset = unmade.address - start
            if _within(known, unmade.site, address, offset):
                return Place(address.base, offset)
    return None


def _within(known: _Objects, site: int, address: Address, offset: int) -> bool:
    """Whether *offset* is one of so many that an *address* has, however often loops go round."""
    values = known.model.values
    mine = known.model.shared.offsets(address.mine, known.model.views.context_of(site).threads)
    if mine is None:
        return False
    if address.stages is not None:
        return any(
            offset == address.start + own + k * address.stride for own in mine for k in range(address.stages)
        )
    # The rest of a division, or a counter of which a division takes away again what is too much.
    moving = [(values.node(t), factor) for t, factor in address.moves if values.varying_at(t)]
    return (not address.pointer and all(node[:2] == ("op", "rem") for node, _ in moving)) or any(
        node[0] == "op" and factor < 0 for node, factor in moving
    )


def _self_contained(model: KernelModel) -> bool:
    """Whether no function that is called could initialise an mbarrier."""
    bodies = {f.name: f for f in model.module.functions if f.instructions}
    called = (bodies.get(model.instruction(i).callee) for i in role_paths.calls(model))
    return not any(
        use.match is not None and (use.match.form.event == "mbarrier-init" or use.match.form.flow == "call")
        for function in called
        if function is not None
        for use in function.uses
    )


def _twice(known: _Objects) -> Iterator[Hit]:
    """Mbarriers that are initialised while they are some; those of one place in the code together."""
    block_of = known.model.cfg.block_of
    pairs = (
        ((block_of[first], block_of[again]), (place, first, again)) for place, first, again in _remade(known)
    )
    for found in grouped(pairs).values():
        place, first, again = found[0]
        yield MB009.hit(
            site=again,
            message=f"initialises the mbarrier {known.words(place)} while it is one: mbarrier.inval has to come before",
            steps=(
                Mark(first, "initialised here"),
                Mark(again, "and here again" if again != first else "and again in the next round"),
            ),
            help="initialise it once, or put an mbarrier.inval between the two, with a barrier before it",
            count=len(found),
            severity=Severity.INFO,  # production kernels do it, and work
            about=frozenset(at for _, _, at in found),
        )


def _remade(known: _Objects) -> Iterator[tuple[Place, int, int]]:
    """Mbarriers with two inits, or the same one twice, and no mbarrier.inval between them on some path."""
    model = known.model
    for place, sites in known.alone(known.inits).items():
        if len(sites) == 1 and model.cfg.block_of[sites[0]] not in model.cfg.in_cycle:
            continue
        ends = known.about(known.invals, place)
        for first in sites:
            path = role_paths.follow(model, first, model.views.context_of(first), sites, ends).witness
            if path is not None:
                yield place, first, path.end
                break


def _ended(known: _Objects) -> Iterator[Hit]:
    """An mbarrier that is used although it has been invalidated."""
    model = known.model
    ended_at = known.alone(known.invals)
    used = grouped(
        (place, use) for use in (known.uses if ended_at else ()) for place in known.addresses.each(use)
    )
    for place, sites in ended_at.items():
        for ended in sites:
            to, view = used.get(place, []), model.views.context_of(ended)
            made = known.about(known.inits, place)
            if not any(model.reaches(ended, i) for i in made):
                # Gone for good, and for all threads: whoever comes to a use behind it finds none.
                to = [i for i in to if not model.reaches(i, ended)]
                view = ThreadContext(T.full(model.values.threads))
            path = role_paths.follow(model, ended, view, to, made).witness if to else None
            if path is None:
                continue
            yield MB009.hit(
                site=path.end,
                message=f"uses the mbarrier {known.words(place)}, which is no longer valid: mbarrier.inval has ended it",
                steps=(Mark(ended, "invalidated here"), Mark(path.end, "used here")),
                help="invalidate it after its last use, or initialise it again",
                about=frozenset((path.end,)),
            )
            break


def _touched(known: _Objects) -> Iterator[Hit]:
    """Memory of an mbarrier that something else accesses."""
    model, shared = known.model, known.model.shared
    held: dict[int, dict[int, Footprint]] = defaultdict(dict)
    for site, named in known.inits.items():
        for place in named or ():
            held[place.base].setdefault(site, Footprint(place.offset, (1 << SIZE) - 1))
    first = {base: min(f.low for f in footprints.values()) for base, footprints in held.items()}
    last = {base: max(f.low for f in footprints.values()) + SIZE - 1 for base, footprints in held.items()}
    told: set[int] = set()
    for site in sorted(shared.sites) if held else ():
        if model.cfg.block_of[site] not in model.cfg.rank:
            continue
        for access in shared.accesses(site):
            here = _footprint(model, access, held)
            base = shared.split(access.address)[0]
            if here is None or here.low > last[base] or here.low + here.bytes.bit_length() <= first[base]:
                continue
            for made, footprint in held[base].items():
                if made in told or not footprint.meets(here):
                    continue
                if hit := _meets(known, made, access):
                    told.add(made)
                    yield hit


def _footprint(model: KernelModel, access: Access, bases: Collection[int]) -> Footprint | None:
    base = model.shared.split(access.address)[0]
    return (
        model.shared.footprint(access, model.views.context_of(access.site).threads) if base in bases else None
    )


def _meets(known: _Objects, made: int, access: Access) -> Hit | None:
    """The access happens behind the init, by whatever thread, and no mbarrier.inval comes between."""
    model, site = known.model, access.site
    named = known.inits[made]
    if named is None or len(named) > 1:
        return None
    place = min(named)
    path = role_paths.follow(
        model, made, model.views.context_of(made), (site,), known.about(known.invals, place)
    ).witness
    if path is None:
        return None
    verb = "writes" if access.writes else "reads"
    return MB009.hit(
        site=site,
        message=f"{verb} memory of the mbarrier {known.words(place)}, which only mbarrier operations may access",
        steps=(Mark(made, "the mbarrier is initialised here"), Mark(site, f"{verb} its bytes")),
        help="use other memory, or invalidate the mbarrier before",
        about=frozenset((site,)),
    )


# ---------------------------------------------------------------- MB002


_LOWEST = "on an H100, the lane that is elected was the lowest one of each mask that was tried"


class _News:
    """How threads hear of what another one has done."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.order = model.fact(HappensBefore)
        self.clustered = bool(self.order.barrier_sites(Scope.CTAS)) or _cluster_size(model) > 1
        self._unordered: dict[int, dict[int, int]] = {}
        self._after: dict[frozenset[int], frozenset[int]] = {}

    @cached_property
    def passed(self) -> frozenset[int]:
        """Waits that nobody has to arrive for the first time: a fresh mbarrier is before a phase of parity 0."""
        return frozenset(i for i in self.model.sites("mbarrier-wait") if first_parity(self.model, i) == 1)

    def after(self, inits: frozenset[int]) -> frozenset[int]:
        """Where a thread may hear of one of *inits*."""
        if inits not in self._after:
            every = self.order.acquire_points(Scope.LANES)
            heard = (self.order.observers_of((i,)) & every - self.unordered(i).keys() for i in inits)
            self._after[inits] = frozenset[int]().union(*heard)
        return self._after[inits]

    def unordered(self, init: int) -> dict[int, int]:
        """Waits for the cluster at which nothing is heard of *init*, each with the relaxed arrival that is why."""
        if init not in self._unordered:
            self._unordered[init] = self.order.relaxed_cluster_waits(init, _fences(self.model))
        return self._unordered[init]


def _fences(model: KernelModel) -> list[int]:
    return [*model.sites("memory-fence"), *model.sites("proxy-fence")]


def _cluster_size(model: KernelModel) -> int:
    """The CTAs of a cluster, where a directive says how many there are; 1: it does not."""
    return prod(model.function.directives.get(".reqnctapercluster") or (1,))


def _modifiers(model: KernelModel, site: int) -> Collection[str]:
    match = model.instruction(site).match
    return match.modifiers if match is not None else ()


def _unpublished(known: _Objects) -> Iterator[Hit]:
    """A use by a thread that no barrier has told of the init."""
    model = known.model
    news = _News(model)
    makers = {
        i: (model.views.context_of(i).threads, tuple(_elected(model, model.views.context_of(i))))
        for i in known.inits
    }
    # Where alternatives make the same mbarrier, a thread has to have heard of one of them.
    groups: dict[tuple[frozenset[int], frozenset[tuple[int, tuple[int, ...]]]], list[int]] = defaultdict(list)
    by: dict[frozenset[int], frozenset[tuple[int, tuple[int, ...]]]] = {}
    for use in known.uses:
        made = _made(known, use)
        if made not in by:
            by[made] = frozenset(makers[i] for i in made)
        groups[news.after(made), by[made]].append(use)
    for (ends, who), uses in groups.items():
        if len(who) != 1:
            continue
        near = [use for use in uses if not _elsewhere(model, use)]
        maker = model.views.context_of(min(_made(known, uses[0])))
        # Which lane of a warp another election gives, under another mask, is not known.
        lanes = [use for use in near if not _elected(model, model.views.context_of(use))]
        everyone = ThreadContext(T.full(model.values.threads))
        ways = [
            (view, lanes, ends, doubt)
            if same_warp
            else (view, near, ends & news.order.acquire_points(Scope.WARPS), doubt)
            for view, same_warp, doubt in _others(model, maker)
        ]
        if news.clustered:
            far, heard = (
                [use for use in uses if use not in near],
                ends & news.order.acquire_points(Scope.CTAS),
            )
            ways.append((everyone, far, heard, ""))
            # Who goes round a barrier of the cluster may do so in a cluster of one CTA.
            far = [
                use
                for use in far
                if not any(model.reaches(w, use) for w in heard & news.order.barrier_sites(Scope.CTAS))
            ]
            ways += [(everyone, far, heard - news.passed, "")] if far else []
        for view, to, heard, doubt in ways:
            path = role_paths.follow(model, -1, view, to, heard).witness if to else None
            if path is None:
                continue
            again = Counter(path.sites(model.cfg, -1))
            if all(again[i] < 2 for i in ends):
                init = min(_made(known, path.end))
                yield _early(known, news, init, path.end, path.threads).doubted(doubt)
                break


def _made(known: _Objects, use: int) -> frozenset[int]:
    """The inits that may have made what a use names; where that is not known, all of them.

    Without those in an alternative for the whole CTA, if others remain.
    """
    named = known.named[use]
    made = (
        frozenset(known.inits)
        if named is None
        else frozenset().union(*(known.makers(place) for place in named))
    )
    if not known.repeated:
        return made
    return frozenset(i for i in made if not known.model.views.exclusive(i, use)) or made


def _elsewhere(model: KernelModel, use: int) -> bool:
    """Whether a use is about an mbarrier of another CTA."""
    address = model.value(use, "mbarrier")
    return model.instruction(use).role("mask") is not None or (
        address is not None and may_leave(model.values, address)
    )


def _others(model: KernelModel, maker: ThreadContext) -> Iterator[tuple[ThreadContext, bool, str]]:
    """The threads that do not initialise, whether they are of the same warp, and what speaks against that; no doubt comes first.

    Where several threads initialise, each its own mbarrier, they are left out, and the mbarriers of a warp are its own.
    """
    values, threads = model.values, maker.threads
    elected, usual = _elected(model, maker), 0
    warp = T.one_warp(threads)
    if elected and warp:
        mask = values.constant_of(values.node(elected[0])[1])
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
    values = model.values
    return [p for p, held in view.invariant(values).items() if held and values.node(p)[0] == "elect"]


def _published(known: _Objects, news: _News, init: int, use: int, far: bool) -> tuple[Repair, ...]:
    """A fence behind the last init, where a relaxed arrival lacks it; or a barrier of the CTA, where all threads come."""
    model = known.model
    unordered = news.unordered(init)
    if unordered:
        arrival = min(unordered.values())
        last = max((i for i in known.inits if i < arrival), default=init)
        fence = "fence.mbarrier_init.release.cluster;"
        return (Repair(f"add {fence.rstrip(';')}", (after(last, fence),), True),)
    return () if far else barrier_between(model, init, use)


def _early(known: _Objects, news: _News, init: int, use: int, threads: int) -> Hit:
    model = known.model
    maker, far = model.describe_threads(model.views.context_of(init).threads), _elsewhere(model, use)
    unordered = sorted(set(news.unordered(init).values()))
    if unordered:
        why = "barrier.cluster.arrive.relaxed orders nothing, and no fence.mbarrier_init comes before it"
        remedy = (
            "put fence.mbarrier_init.release.cluster behind the mbarrier.init, or let the arrival release"
        )
    elif far:
        why = "no barrier of the cluster comes between"
        remedy = "put fence.mbarrier_init, barrier.cluster.arrive and barrier.cluster.wait behind the mbarrier.init"
    else:
        why = "no barrier comes between"
        remedy = "put a barrier of the CTA behind the mbarrier.init, before any other thread uses it"
    who = "this mbarrier of another CTA" if far else "this mbarrier"
    return MB002.hit(
        site=use,
        message=f"{model.describe_threads(threads)} may use {who} before it has been initialised: {why}",
        steps=(
            Mark(init, f"initialised by {maker}"),
            *(Mark(i, "orders nothing that comes before") for i in unordered),
            Mark(use, "used without having heard of that"),
        ),
        help=remedy,
        fixes=_published(known, news, init, use, far),
        severity=Severity.INFO if unordered else None,  # CUTLASS does it, and works
        about=frozenset((use,)),
    )
