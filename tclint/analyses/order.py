"""Happens-before between the threads of a kernel: where one may have heard of what another has done (PTX ISA 8.8, 9.7.13).

A thread hears of an event at a wait: a barrier, an mbarrier, a cluster barrier,
a loop that loads what others release. Waits are matched with the signals that
complete them: arrivals at the same mbarrier ring, commits, barriers with the
same number. Which round of a loop belongs to which is not asked, so *may have
heard* is said too often and never too seldom: a path on which nothing can be
heard is a proof that two events are not ordered on it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.values import Facts, Level
from tclint.analyses.warps import collectives, signals, waits
from tclint.cfg import Edge
from tclint.dataflow import Path, find_paths
from tclint.ir.nodes import Instruction
from tclint.model import KernelModel
from tclint.views import View

__all__ = ["Handover", "Order"]

_ANY = "any"
"""The channel of what cannot be resolved: a call, an access that releases or acquires, an address from memory."""


class Handover(NamedTuple):
    """What a thread did before *arrival* is done for one that is past *wait*."""

    arrival: int
    wait: int


class Order:
    """The signals and waits of a function, and the channels that connect them."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.mbarriers = model.made(Mbarriers)
        self._signals = {i: self._channels(i) for i in signals(model)}
        self._waits = {i: self._channels(i) for i in waits(model)}
        self._meet = frozenset(collectives(model))
        self._heard: dict[frozenset[int], frozenset[int]] = {}
        self._unheard: dict[tuple[int, frozenset[int], int, tuple[tuple[int, bool], ...]], Path | None] = {}
        self._others: dict[tuple[int, Hashable], frozenset[int]] = {}

    def _channels(self, site: int) -> frozenset[Hashable]:
        """By what a signal reaches a wait: the same ring of mbarriers, or barrier."""
        model = self.model
        instruction = model.instruction(site)
        match = instruction.match
        if match is None or not match.form.event or match.form.flow:
            return frozenset((_ANY,))
        if "mbarrier" in match.form.roles:
            return frozenset(self.mbarriers.rings_at(site)) or frozenset((_ANY,))
        if "id" in match.form.roles:
            number = model.known(site, "id")
            return frozenset((_ANY if number is None else ("barrier", number),))
        if match.form.event == "commit":
            return frozenset()  # a group of its own thread
        return frozenset(("cluster",)) if match.form.event.startswith("barrier") else frozenset((_ANY,))

    def heard(self, sites: Iterable[int]) -> frozenset[int]:
        """The waits behind which a thread may know that one of *sites* was passed.

        These are events of the thread itself: what it does there has happened when it goes on. Of an asynchronous
        operation, ask for :meth:`completed`.
        """
        key = frozenset(sites)
        if key not in self._heard:
            self._heard[key] = self._follow(key, frozenset())
        return self._heard[key]

    def completed(self, copies: Iterable[int], idle: Collection[int] = ()) -> frozenset[int]:
        """The waits behind which a thread may know that one of the *copies* is complete: those for its mbarrier, and on.

        Nothing is learned at the waits *idle*.
        """
        rings = {ring for site in copies for ring in self.mbarriers.rings_at(site)}
        own = frozenset(
            i
            for i, channels in self._waits.items()
            if i not in idle and (_ANY in channels or not rings.isdisjoint(channels))
        )
        return self._follow(own, own)

    def _follow(self, known: frozenset[int], heard: frozenset[int]) -> frozenset[int]:
        """The waits that are reached from *known* by signals, through any number of threads."""
        cfg = self.model.cfg
        found, work = set(heard), list(known)
        passed = 0  # the blocks whose signals have been given
        channels: set[Hashable] = set()
        while work:
            site = work.pop()
            block = cfg.block_of[site]
            behind = cfg.following[block] & self._signalling & ~passed
            passed |= behind
            given = [i for i in self._in_block[block] if i >= site] if block in self._in_block else []
            while behind:
                given += self._in_block[(behind & -behind).bit_length() - 1]
                behind &= behind - 1
            for signal in given:
                fresh = self._received(signal, channels) - found
                found |= fresh
                work += fresh
        return frozenset(found)

    @cached_property
    def _in_block(self) -> dict[int, list[int]]:
        """The signals, and the places where lanes meet, by block."""
        found: dict[int, list[int]] = {}
        for site in sorted({*self._signals, *self._meet}):
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

    def _received(self, signal: int, given: set[Hashable]) -> set[int]:
        """The waits that a signal may end, but for those of the channels that were *given* before."""
        if signal in self._meet:
            return {signal}
        found: set[int] = set()
        for channel in self._signals[signal]:
            if isinstance(channel, tuple) or channel == "cluster":
                found |= self._met(self.model.cfg.block_of[signal], channel)
                if signal in self._waits:
                    found.add(signal)
            elif channel not in given:
                given.add(channel)
                found.update(self._waits if channel == _ANY else self._by_channel.get(channel, ()))
        if _ANY not in given:
            given.add(_ANY)
            found.update(self._by_channel.get(_ANY, ()))
        return found

    def _met(self, block: int, channel: Hashable) -> frozenset[int]:
        """Where else others may come to the barrier that a thread comes to in *block*.

        All threads of a barrier pass it equally often, so who comes to one of two places has passed the other, or will,
        if there is a way between them, and what is met at the second is what is at the second. Roles that a dispatcher
        calls reach each other through it, and none is sure to come.
        """
        key = block, channel
        if key not in self._others:
            cfg = self.model.cfg
            dispatched = self.model.views.dispatchers

            def between(a: int, b: int) -> bool:
                return cfg.dominates(a, b) if dispatched else bool(cfg.following[a] >> b & 1)

            self._others[key] = frozenset(
                wait
                for wait in self._by_channel.get(channel, ())
                if (b := cfg.block_of[wait]) != block and not between(block, b) and not between(b, block)
            )
        return self._others[key]

    def handovers(self, arrivals: Iterable[int], waits: AbstractSet[int]) -> Iterator[Handover]:
        """Those of *arrivals* and *waits* that surely go together: at one ring of mbarriers, or at one barrier of the CTA.

        Where the threads of one side come to a barrier of the CTA at several places, nothing says which of these goes
        with which of the other side.
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
                    if (
                        not isinstance(channel, tuple)
                        or arrival == wait
                        or self._pair(arrival, wait, channel)
                    ):
                        yield Handover(arrival, wait)

    def _pair(self, a: int, b: int, barrier: Hashable) -> bool:
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

    def _without(self, use: int, stops: frozenset[int], start: int, given: Mapping[int, bool]) -> Path | None:
        model = self.model
        cfg = model.cfg
        here = model.views.now(start)
        view = View(here.threads, Facts({**here.facts, **given})) if given else here
        sure = {i for i in stops if model.instruction(i).guard < 0}
        if not view.threads or start in sure or not model.reaches(start, use, sure):
            return None
        relevant: list[list[int]] = [[] for _ in cfg.blocks]
        for i in sorted({use, *stops}):
            relevant[cfg.block_of[i]].append(i)

        def step(state: Hashable, i: int, instruction: Instruction) -> Hashable:
            return None if i in stops else state

        def goal(state: Hashable, i: int) -> bool:
            return i == use

        closed = set[Edge]()
        goals = (cfg.block_of[use],)
        while path := next(
            find_paths(model.survey, start, view, True, relevant, step, goal, goals, closed=closed), None
        ):
            untaken = model.untaken(start, path, relevant)
            if untaken is None:
                return path
            closed.add(untaken)
        return None
