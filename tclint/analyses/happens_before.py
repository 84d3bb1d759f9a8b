"""Happens-before between the threads of a kernel: where one may have heard of what another has done (PTX ISA 8.8, 9.7.13).

A thread hears of an event at a wait: a barrier, an mbarrier, a cluster barrier,
a loop that loads what others release. Waits are matched with the signals that
complete them: arrivals at the same mbarrier ring, commits, barriers with the
same number. Which round of a loop belongs to which is not asked, so *may have
heard* is said too often and never too seldom: a path on which nothing can be
heard is a proof that two events are not ordered on it.

Checks ask here which instructions bring news, and to whom (:class:`Scope`),
and look for paths that pass none of these. What ends the facts of one kind of
operation, as a barrier may, is a matter of the analysis that follows them.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import IntEnum
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import calls, follow
from tclint.dataflow import Path
from tclint.dataflow.views import View
from tclint.isa.table import Match
from tclint.values import Facts, Level
from tclint.values import thread_masks as T

__all__ = ["Handover", "Order", "Scope", "Verdict", "strong"]


class Scope(IntEnum):
    """How far apart threads are that hear of each other."""

    LANES = 0
    """In one warp."""
    WARPS = 1
    """In different warps of a CTA."""
    CTAS = 2
    """In different CTAs of a cluster."""


_MEETS = ("barrier-sync", "barrier-wait")
"""Where threads wait for each other: whoever goes on knows what all of them have done."""
_TELLS = ("barrier-sync", "barrier-arrive", "mbarrier-arrive")
_RELEASE = frozenset((".release", ".acq_rel", ".volatile"))
_STRONG = _RELEASE | {".relaxed", ".acquire"}

_END = 1 << 62
"""Behind all instructions."""
_Given = tuple[frozenset[int], frozenset[Hashable]]
"""Waits that signals end, and the channels of which they end all."""

_ANY = "any"
"""The channel of what cannot be resolved: a call, an access that releases or acquires, an address from memory."""


def strong(match: Match) -> frozenset[str]:
    """How threads may exchange news by an access to memory (8.6): the order it says; none: a weak one.

    What is atomic and says none is ``.relaxed`` (9.7.13.5).
    """
    said = _STRONG.intersection(match.modifiers)
    atomic = len({verb for verb, _ in match.form.memory}) > 1
    return said or frozenset((".relaxed",) if atomic else ())


class Handover(NamedTuple):
    """What a thread did before *arrival* is done for one that is past *wait*."""

    arrival: int
    wait: int


class Verdict(NamedTuple):
    """What is known of whether a thread has heard of something by the time it comes to an instruction."""

    path: Path | None
    """A way there on which it has heard nothing; None: no such way was found."""
    at: tuple[int, ...]
    """The waits at which it may hear of it, the last one on each way."""
    resolved: bool
    """Whether each way passes one of which it is known what ends it."""

    @property
    def ordered(self) -> bool | None:
        """Whether it has heard of it on every path; None: unknown."""
        if self.path is not None:
            return False
        return True if self.at and self.resolved else None


class Order:
    """The signals and waits of a function, and the channels that connect them."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._followed: dict[tuple[frozenset[int], frozenset[int]], frozenset[int]] = {}
        self._ended: dict[int, frozenset[int]] = {}
        self._gives: dict[int, _Given] = {}
        self._gives_in: dict[int, _Given] = {}
        self._unheard: dict[tuple[int, frozenset[int], int, tuple[tuple[int, bool], ...]], Path | None] = {}
        self._others: dict[tuple[int, Hashable], frozenset[int]] = {}

    def hears(self, scope: Scope) -> frozenset[int]:
        """Where a thread may hear of one that is as far away: barriers, waits, loops that load what others release, calls."""
        return self._hears[scope]

    def meets(self, scope: Scope) -> frozenset[int]:
        """Those of them at which threads that are so far away wait for each other: all, or as many as are counted."""
        return self._meets[scope]

    def joins(self, site: int) -> bool:
        """Whether the threads that come to the barrier *site* go on from there together, as all that are counted come."""
        model = self.model
        if site not in self._meets[Scope.WARPS]:
            return False
        if model.instruction(site).role("count") is None:
            return True
        count = model.known(site, "count")
        return count is not None and count >= model.views.at(site).threads.bit_count()

    @cached_property
    def all_meet(self) -> list[int]:
        """The barriers that every thread of the CTA waits at, once."""
        model = self.model
        return [
            i
            for i in sorted(self._meets[Scope.WARPS].intersection(model.sites("barrier-sync")))
            if model.instruction(i).role("count") is None
            and model.instruction(i).guard < 0
            and model.cfg.block_of[i] not in model.cfg.in_cycle
        ]

    @cached_property
    def tells(self) -> frozenset[int]:
        """Where a warp tells others that it has come so far: barriers, arrivals, commits, releasing writes, calls.

        Where some thread polls, any strong write may tell it: a fence can stand before that.
        """
        found = [*calls(self.model), *self._strong("write", _STRONG if self.polls else _RELEASE)]
        for event in _TELLS:
            found += (i for i in self.model.sites(event) if self._scope(i) >= Scope.WARPS)
        # What is no mbarrier's is a group of the thread itself.
        found += (
            i for i in self.model.sites("commit") if self.model.instruction(i).role("mbarrier") is not None
        )
        return frozenset(found)

    @cached_property
    def collectives(self) -> frozenset[int]:
        """Where the lanes of a warp meet: they come to one instruction together."""
        return frozenset(
            i
            for use in self.model.function.uses
            if use.match is not None and use.match.form.scope == "lanes" and use.match.form.event
            for i in use.sites
        )

    @cached_property
    def _hears(self) -> tuple[frozenset[int], ...]:
        return tuple(met | self._awaits for met in self._meets)

    @cached_property
    def _awaits(self) -> frozenset[int]:
        """Waits that are no barriers: for an mbarrier, or for what a call or another thread may do about one."""
        called = calls(self.model)
        for site in called:
            self.model.ledger.drop("order past a call", site, "a callee may synchronise with any thread")
        return self.polls.union(self.model.sites("mbarrier-wait"), called)

    @cached_property
    def polls(self) -> frozenset[int]:
        """Loads and atomic operations in loops, whose numbers decide where to go: until another thread has written."""
        model, cfg = self.model, self.model.cfg
        reads = (i for i in self._strong("read", _STRONG) if cfg.block_of[i] in cfg.in_cycle)
        return frozenset(i for i in reads if any(model.instruction(j).flow for j, _ in model.takers(i)))

    @cached_property
    def _meets(self) -> tuple[frozenset[int], ...]:
        met = {i: self._scope(i) for event in _MEETS for i in self.model.sites(event)}
        return tuple(frozenset(i for i, scope in met.items() if scope >= least) for least in Scope)

    def _scope(self, site: int) -> Scope:
        """How far away those may be of whom is heard at a barrier, or who are told by a signal."""
        match = self.model.instruction(site).match
        assert match is not None
        form = match.form
        if form.scope == "lanes":
            return Scope.LANES
        of_cta = form.event in ("barrier-sync", "barrier-arrive") and form.group != "cluster"
        return Scope.WARPS if of_cta else Scope.CTAS

    def _strong(self, verb: str, orders: frozenset[str]) -> Iterator[int]:
        """What reads or writes memory (*verb*) in one of *orders*."""
        for use in self.model.function.uses:
            match = use.match
            if match is None or match.form.event not in ("", "issue"):
                continue
            if any(v == verb for v, _ in match.form.memory) and not orders.isdisjoint(strong(match)):
                yield from use.sites

    @cached_property
    def mbarriers(self) -> Mbarriers:
        return self.model.made(Mbarriers)

    @cached_property
    def _signals(self) -> dict[int, frozenset[Hashable]]:
        # Where a copy is complete, its thread has come so far as to start it.
        return {i: self._channels(i) for i in (*self.tells, *self.model.sites("issue", "mbarrier"))}

    @cached_property
    def _waits(self) -> dict[int, frozenset[Hashable]]:
        return {i: self._channels(i) for i in self._hears[Scope.WARPS]}

    def _channels(self, site: int) -> frozenset[Hashable]:
        """By what a signal reaches a wait: the same ring of mbarriers, or barrier."""
        model = self.model
        instruction = model.instruction(site)
        match = instruction.match
        if match is None or not match.form.event or match.form.flow:
            return frozenset((_ANY,))
        if "mbarrier" in match.form.roles:
            return frozenset(self.mbarriers.rings_at(site)) or frozenset((self._variable(site),))
        if "id" in match.form.roles:
            number = model.known(site, "id")
            return frozenset((_ANY if number is None else ("barrier", number),))
        return frozenset(("cluster",)) if match.form.event.startswith("barrier") else frozenset((_ANY,))

    def _variable(self, site: int) -> Hashable:
        """The mbarrier in a shared variable that nothing in the kernel initialises."""
        places = self.mbarriers.addresses.places(site) or ()
        if len(places) == 1 and self.model.space((place := min(places)).base).startswith(".shared"):
            return place
        return _ANY

    def heard(self, sites: Iterable[int]) -> frozenset[int]:
        """The waits behind which a thread may know that one of *sites* was passed.

        These are events of the thread itself: what it does there has happened when it goes on. Of an asynchronous
        operation, ask for :meth:`completed`.
        """
        return self._follow(frozenset(sites), frozenset())

    def told(self, waits: Iterable[int]) -> frozenset[int]:
        """*waits*, and those behind which a thread may know that another one has passed one of them.

        One of which it is not known whom it hears of may be such a one: a call, or a wait that nothing before us ends.
        """
        own = self.unknown.union(waits)
        return self._follow(own, own)

    @cached_property
    def unknown(self) -> frozenset[int]:
        """The waits that somebody ends who cannot be told."""
        given = frozenset((_ANY, "cluster")).union(*self._signals.values())
        return frozenset(
            i for i, channels in self._waits.items() if _ANY in channels or given.isdisjoint(channels)
        )

    def completed(self, copies: Iterable[int], idle: Collection[int] = ()) -> frozenset[int]:
        """The waits behind which a thread may know that one of the *copies* is complete: those for its mbarrier, and on.

        Nothing is learned at the waits *idle*.
        """
        own = self.waits_for(copies).difference(idle)
        return self._follow(own, own)

    def waits_for(self, copies: Iterable[int]) -> frozenset[int]:
        """The waits that may be for an mbarrier at which one of the *copies* completes."""
        return frozenset[int]().union(*map(self.ended_by, copies))

    def ended_by(self, signal: int) -> frozenset[int]:
        """The waits that may be for the mbarrier of a *signal*."""
        if signal not in self._ended:
            given = self._signals.get(signal) or self._channels(signal)
            self._ended[signal] = frozenset(
                wait
                for wait in self._awaits
                if (_ANY in given or _ANY in (ended := self._waits[wait]) or not given.isdisjoint(ended))
                and self.mbarriers.addresses.same(signal, wait) is not False
            )
        return self._ended[signal]

    def over(self, sites: Iterable[int]) -> frozenset[int]:
        """The waits behind which a thread may know that all is over that *sites* do, at once or asynchronously."""
        groups: dict[str, list[int]] = {}
        for site in sites:
            instruction = self.model.instruction(site)
            groups.setdefault(instruction.group if instruction.event == "issue" else "", []).append(site)
        found = frozenset[int]()
        for group, started in groups.items():
            if group == "mbarrier":
                found |= self.completed(started)
            else:
                ends = self.ends(started, group)
                found |= self.heard(ends) | ends.intersection(self.model.sites("wait", group))
        return found

    def ends(self, sites: Collection[int], group: str) -> frozenset[int]:
        """Where a thread knows, or tells, that the operations *sites* of a *group* are over: ordinary accesses (``""``) at once."""
        if not group:
            return frozenset(sites)
        model = self.model
        found = [*model.sites("wait", group), *model.sites("mbarrier-arrive", group)]
        if group == "tcgen05":
            found += model.sites("commit", group)
        return frozenset(e for e in found if any(model.reaches(i, e) for i in sites))

    def unordered(self, site: int, fences: Collection[int]) -> dict[int, int]:
        """Waits for the cluster at which nothing is heard of what a thread did at *site*, each with the arrival that is why.

        It is ``.relaxed``, which orders no memory, and none of the *fences* comes before it.
        """
        model, cluster = self.model, self._meets[Scope.CTAS]
        arrivals = model.sites("barrier-arrive", "cluster")
        found: dict[int, int] = {}
        for arrival in arrivals:
            match = model.instruction(arrival).match
            if match is None or ".relaxed" not in match.modifiers:
                continue
            others = [i for i in arrivals if i != arrival]
            if follow(model, site, model.views.at(site), (arrival,), (*fences, *others)).witness is None:
                continue
            for wait in cluster:
                ends = (*(w for w in cluster if w != wait), *others)
                if follow(model, arrival, model.views.at(arrival), (wait,), ends).witness is not None:
                    found[wait] = arrival
        return found

    def _follow(self, known: frozenset[int], heard: frozenset[int]) -> frozenset[int]:
        """The waits that are reached from *known* by signals, through any number of threads, and those *heard*."""
        if (known, heard) not in self._followed:
            self._followed[known, heard] = self._through(known, heard)
        return self._followed[known, heard]

    def _through(self, known: frozenset[int], heard: frozenset[int]) -> frozenset[int]:
        cfg = self.model.cfg
        found, work = set(heard), list(known)
        passed = 0  # the blocks whose signals have been given
        since: dict[int, int] = {}  # of others, those from there on
        channels: set[Hashable] = set()
        while work:
            site = work.pop()
            block = cfg.block_of[site]
            behind = cfg.following[block] & self._signalling & ~passed
            passed |= behind
            given = []
            if not passed >> block & 1 and site < (end := since.get(block, _END)):
                given = [self._given(i) for i in self._in_block.get(block, ()) if site <= i < end]
                since[block] = site
            while behind:
                given.append(self._given_in((behind & -behind).bit_length() - 1))
                behind &= behind - 1
            ended = set[int]()
            for waits, more in given:
                ended |= waits
                for channel in more - channels:
                    ended.update(self._by_channel.get(channel, ()))
                channels |= more
            work += ended - found
            found |= ended
        return frozenset(found)

    @cached_property
    def _in_block(self) -> dict[int, list[int]]:
        """The signals, and the places where lanes meet, by block."""
        found: dict[int, list[int]] = {}
        for site in sorted({*self._signals, *self.collectives}):
            found.setdefault(self.model.cfg.block_of[site], []).append(site)
        return found

    @cached_property
    def _signalling(self) -> int:
        return sum(1 << block for block in self._in_block)

    @cached_property
    def _by_channel(self) -> dict[Hashable, list[int]]:
        """The waits that a channel may end."""
        found: dict[Hashable, list[int]] = {}
        for wait, channels in self._waits.items():
            for channel in channels:
                found.setdefault(channel, []).append(wait)
        return found

    def _given(self, signal: int) -> _Given:
        """What a signal ends."""
        if signal not in self._gives:
            waits, channels, own = {signal}, set[Hashable](), frozenset[Hashable]()
            if signal not in self.collectives:
                # Whatever it is, it may end a wait of which nothing is known.
                waits, own = {*self._by_channel.get(_ANY, ())}, self._signals[signal]
            for channel in own:
                if isinstance(channel, tuple) or channel == "cluster":
                    waits |= self._met(self.model.cfg.block_of[signal], channel)
                    waits |= {signal} if signal in self._waits else self._behind(signal, channel)
                elif channel != _ANY:
                    channels.add(channel)
                elif not self._writes(signal):
                    waits.update(self._waits)
            self._gives[signal] = frozenset(waits), frozenset(channels)
        return self._gives[signal]

    def _writes(self, signal: int) -> bool:
        """Whether a signal is a strong write: who polls may hear of it, and nobody at a barrier or an mbarrier."""
        match = self.model.instruction(signal).match
        return (
            match is not None
            and match.form.event in ("", "issue")
            and not match.form.flow
            and "mbarrier" not in match.form.roles
        )

    def _given_in(self, block: int) -> _Given:
        """The same of all signals of a block."""
        if block not in self._gives_in:
            given = [self._given(i) for i in self._in_block[block]]
            self._gives_in[block] = (
                frozenset[int]().union(*(waits for waits, _ in given)),
                frozenset[Hashable]().union(*(channels for _, channels in given)),
            )
        return self._gives_in[block]

    def _behind(self, arrival: int, channel: Hashable) -> set[int]:
        """Where a thread that arrives at a barrier may wait there next: others that arrived have come so far by then."""
        waits = {*self._by_channel.get(channel, ())}
        return {w for w in waits if self.model.reaches(arrival, w, waits - {w})}

    def _met(self, block: int, channel: Hashable) -> frozenset[int]:
        """Where else others may come to the barrier that a thread comes to in *block*.

        All threads of a barrier pass it equally often, so who comes to one of two places has passed the other, or will,
        if there is a way between them, and what is met at the second is what is at the second. Roles that a dispatcher
        calls reach each other through it, and none is sure to come.
        """
        key = block, channel
        if key not in self._others:
            cfg = self.model.cfg
            dispatched = self.model.reachability.dispatchers

            def between(a: int, b: int) -> bool:
                return cfg.dominates(a, b) if dispatched else bool(cfg.following[a] >> b & 1)

            self._others[key] = frozenset(
                wait
                for wait in self._by_channel.get(channel, ())
                if (b := cfg.block_of[wait]) != block and not between(block, b) and not between(b, block)
            )
        return self._others[key]

    def handovers(self, arrivals: Iterable[int], waits: AbstractSet[int]) -> Iterator[Handover]:
        """Those of *arrivals* and *waits* that surely go together: at one ring of mbarriers, or at one barrier.

        Where the threads of one side come to a barrier of the CTA at several places, nothing says which of these goes
        with which of the other side. At that of the cluster, all threads come to one place, and wait behind it.
        """
        named: dict[Hashable, list[int]] = {}
        for wait in sorted(waits):
            for channel in self._waits.get(wait, ()):
                named.setdefault(channel, []).append(wait)
        for arrival in arrivals:
            if self.model.instruction(arrival).group == "cp.async":
                continue  # it tells of copies
            for channel in self._signals.get(arrival, frozenset()) - {_ANY}:
                for wait in named.get(channel, ()):
                    if self._pair(arrival, wait, channel):
                        yield Handover(arrival, wait)

    def _pair(self, a: int, b: int, channel: Hashable) -> bool:
        """Whether the wait *b* is surely for the arrival *a*."""
        if channel == "cluster":
            every = self.model.views.at(a).threads == T.full(self.model.values.threads)
            return every and b in self._behind(a, channel)
        return a == b or not isinstance(channel, tuple) or self._alone(a, b, channel)

    def _alone(self, a: int, b: int, barrier: Hashable) -> bool:
        """Whether the threads of *a* and those of *b* come to one barrier of the CTA, and to no other place of it."""
        model = self.model
        apart, count = model.views.apart, model.known(a, "count")
        if count is None or count != model.known(b, "count") or not apart(a, b):
            return False
        if any(model.views.at(site).threads.bit_count() >= count for site in (a, b)):
            return False
        sites = {i for i, channels in (*self._signals.items(), *self._waits.items()) if barrier in channels}
        return all(site in (a, b) or (apart(a, site) and apart(b, site)) for site in sites)

    def certain(self, sites: Collection[int]) -> Facts:
        """What holds in the whole CTA, and stays, whenever one of *sites* is executed: a loop has a round to run."""
        values = self.model.values
        each = [self.model.views.at(i).lasting(values) for i in sites]
        said = {fact for facts in each for fact in facts.items() if values.level(fact[0]) is Level.CTA}
        return Facts(
            (p, truth) for p, truth in sorted(said) if all(values.decide(p, f) is truth for f in each)
        )

    def unheard(
        self,
        use: int,
        stops: Collection[int],
        start: int = -1,
        given: Mapping[int, bool] = MappingProxyType({}),
    ) -> Path | None:
        """A path to *use*, from *start* or the entry, that passes none of *stops*, waits that may tell of some event.

        On it the thread knows nothing of that, and *given* holds all the way.
        """
        key = use, frozenset(stops), start, tuple(given.items())
        if key not in self._unheard:
            self._unheard[key] = self._without(use, key[1] - {use}, start, given)
        return self._unheard[key]

    def verdict(
        self,
        use: int,
        told: Collection[int],
        start: int = -1,
        given: Mapping[int, bool] = MappingProxyType({}),
        scope: Scope = Scope.WARPS,
    ) -> Verdict:
        """Whether a thread that comes to *use* has heard of what is *told* at these waits, on every path: see :meth:`unheard`.

        It is about a thread that is as far away as *scope* says.
        """
        path = self.unheard(use, told, start, given)
        if path is not None:
            return Verdict(path, (), True)
        resolved = frozenset(i for i in told if _ANY not in self._waits.get(i, ()))
        sure = len(resolved) == len(told) or self.unheard(use, resolved, start, given) is None
        # Where lanes of a warp come together, they pass on what one of them has heard before.
        nearest = self._nearest(use, self.hears(scope).intersection(resolved if sure else told))
        views = self.model.views
        at = tuple(sorted({i for i in nearest if views.at(i).threads & views.at(use).threads}))
        return Verdict(None, at, sure)

    def _nearest(self, use: int, waits: Collection[int]) -> Iterator[int]:
        """The last of *waits* on each way to *use*; behind a guard the one before as well."""
        cfg = self.model.cfg
        inside: dict[int, list[int]] = {}
        for wait in sorted(waits):
            inside.setdefault(cfg.block_of[wait], []).append(wait)
        work = [(cfg.block_of[use], use)]
        seen = set(work)
        while work:
            block, end = work.pop()
            for wait in reversed([i for i in inside.get(block, ()) if i < end]):
                yield wait
                if self.model.instruction(wait).guard < 0:
                    break
            else:
                before = {(e.source, cfg.blocks[e.source].end) for e in cfg.predecessors[block]} - seen
                seen |= before
                work += before

    def _without(self, use: int, stops: frozenset[int], start: int, given: Mapping[int, bool]) -> Path | None:
        model = self.model
        here = model.views.now(start)
        view = View(here.threads, Facts({**here.facts, **given})) if given else here
        sure = {i for i in stops if model.instruction(i).guard < 0}
        if not view.threads or start in sure or not model.reaches(start, use, sure):
            return None
        return follow(model, start, view, (use,), stops, likely=True).witness
