"""The operations that may be in flight before each instruction, as facts and the instructions where they change."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from tclint.analyses.model import KernelModel
from tclint.dataflow import LimitExceeded, Results
from tclint.inspect.in_flight import CHANNELS, Render

__all__ = ["InFlightFacts", "ShownFact", "in_flight_facts"]


@dataclass(frozen=True, slots=True, order=True)
class ShownFact:
    """A fact that may hold before an instruction: on some path to it, for the threads that take this path."""

    channel: int
    """An index in :data:`~tclint.inspect.in_flight.CHANNELS`."""
    site: int
    """The instruction that generated the fact."""
    words: str
    """The status: ``in the newest group``."""
    ring: int = -1
    """The index of the ring of mbarriers that it concerns; -1 for none."""


@dataclass(frozen=True, slots=True)
class InFlightFacts:
    """The facts before every reachable instruction."""

    changes: tuple[tuple[int, tuple[ShownFact, ...], tuple[ShownFact, ...]], ...]
    """``(instruction, added, removed)`` in program order, relative to the previous instruction of the listing."""
    unsettled: tuple[str, ...]
    """The channels whose analysis did not reach its fixpoint, and which are left out."""


def in_flight_facts(model: KernelModel) -> InFlightFacts:
    """The facts in the function of *model*."""
    changes: dict[int, tuple[list[ShownFact], list[ShownFact]]] = {}
    unsettled = []
    for number, channel in enumerate(CHANNELS):
        try:
            _, results = model.solution(channel.analysis)
        except LimitExceeded:
            unsettled.append(channel.name)
            continue
        before: frozenset[ShownFact] = frozenset()
        for at, facts in _states(model, results, number, channel.render):
            if facts != before:
                added, removed = changes.setdefault(at, ([], []))
                added += sorted(facts - before)
                removed += sorted(before - facts)
                before = facts
    ordered = tuple((at, tuple(added), tuple(removed)) for at, (added, removed) in sorted(changes.items()))
    return InFlightFacts(ordered, tuple(unsettled))


def _states(
    model: KernelModel, results: Results[Any], channel: int, render: Render
) -> Iterator[tuple[int, frozenset[ShownFact]]]:
    """``(instruction, the facts before it)`` in program order, for the instructions where the facts may change."""
    cfg, known = model.cfg, dict[Hashable, frozenset[ShownFact]]()

    def facts(state: Any) -> frozenset[ShownFact]:
        found = known.get(state)
        if found is None:
            rendered = render(results.analysis, state, model)
            found = known[state] = frozenset(ShownFact(channel, *fact) for fact in rendered)
        return found

    for b, block in enumerate(cfg.blocks):
        if b not in cfg.rank:
            yield block.start, frozenset()
            continue
        yield block.start, facts(results.entry[b])
        last = -1
        for at, state in results.walk(b):
            if last + 1 > block.start:
                yield last + 1, facts(state)
            last = at
        if last >= 0 and last + 1 < block.end:
            yield last + 1, facts(results.leave(b))
