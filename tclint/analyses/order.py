"""Happens-before between the threads of a kernel: where one may have heard of what another has done (PTX ISA 8.8, 9.7.13).

A thread hears of an event at a wait: a barrier, an mbarrier, a cluster barrier,
a loop that loads what others release. Waits are matched with the signals that
complete them: arrivals at the same mbarrier ring, commits, barriers with the
same number. Which round of a loop belongs to which is not asked, so *may have
heard* is said too often and never too seldom: a path on which nothing can be
heard is a proof that two events are not ordered on it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable

from tclint.analyses import threads as T
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.warps import signals, waits
from tclint.dataflow import Path, find_paths
from tclint.ir.nodes import Instruction
from tclint.model import KernelModel
from tclint.views import View

__all__ = ["Order"]

_ANY = "any"
"""The channel of what cannot be resolved: a call, an access that releases or acquires, an address from memory."""


class Order:
    """The signals and waits of a function, and the channels that connect them."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.mbarriers = model.made(Mbarriers)
        warp = {i: self._warps(i) for i in self._collectives()}
        self._signals = {i: self._channels(i) for i in signals(model)} | warp
        self._waits = {i: self._channels(i) for i in waits(model)} | warp
        self._heard: dict[frozenset[int], frozenset[int]] = {}

    def _collectives(self) -> list[int]:
        """Where the lanes of a warp meet."""
        return [
            i
            for use in self.model.function.uses
            if use.match is not None and use.match.form.scope == "lanes" and use.match.form.event
            for i in use.sites
        ]

    def _warps(self, site: int) -> frozenset[Hashable]:
        threads = self.model.views.at(site).threads
        return frozenset(("warp", w) for w in range(T.LIMIT // 32) if threads >> 32 * w & 0xFFFFFFFF)

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

    def completed(self, copies: Iterable[int]) -> frozenset[int]:
        """The waits behind which a thread may know that one of the *copies* is complete: those for its mbarrier, and on."""
        rings = {ring for site in copies for ring in self.mbarriers.rings_at(site)}
        own = frozenset(
            i for i, channels in self._waits.items() if _ANY in channels or not rings.isdisjoint(channels)
        )
        return self._follow(own, own)

    def _follow(self, known: frozenset[int], heard: frozenset[int]) -> frozenset[int]:
        """The waits that are reached from *known* by signals, through any number of threads."""
        model = self.model
        found, work = set(heard), list(known)
        signalled: set[int] = set()
        channels: set[Hashable] = set()
        while work:
            site = work.pop()
            for signal, through in self._signals.items():
                if signal not in signalled and (signal == site or model.reaches(site, signal)):
                    signalled.add(signal)
                    if through <= channels:
                        continue
                    channels |= through
                    for wait, by in self._waits.items():
                        if wait not in found and (
                            _ANY in channels or _ANY in by or not through.isdisjoint(by)
                        ):
                            found.add(wait)
                            work.append(wait)
        return frozenset(found)

    def unheard(
        self, use: int, heard: Collection[int], start: int = -1, ends: Collection[int] = (), threads: int = -1
    ) -> Path | None:
        """A path to *use*, from *start* or the entry, that passes none of the waits *heard*, nor one of *ends*.

        On it the thread knows nothing of the events that these waits tell of. It is taken by one of *threads*.
        """
        model = self.model
        cfg = model.cfg
        here = model.views.at(start)
        view = View(here.threads & threads if threads >= 0 else here.threads, here.facts)
        if not view.threads:
            return None
        stops = {*heard, *ends} - {use}
        relevant: list[list[int]] = [[] for _ in cfg.blocks]
        for i in sorted({use, *stops}):
            relevant[cfg.block_of[i]].append(i)

        def step(state: Hashable, i: int, instruction: Instruction) -> Hashable:
            return None if i in stops else state

        def goal(state: Hashable, i: int) -> bool:
            return i == use

        return next(
            find_paths(model.survey, start, view, True, relevant, step, goal, (cfg.block_of[use],)), None
        )
