"""What may be in flight before each instruction of a function, as facts and the places where they come and go."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from tclint.analyses.model import KernelModel
from tclint.dataflow import LimitExceeded, Results
from tclint.inspect.in_flight import CHANNELS, Told

__all__ = ["Fact", "Flight", "flight"]


@dataclass(frozen=True, slots=True, order=True)
class Fact:
    """Something that may hold before an instruction, on some way to it and for the threads that take that way."""

    channel: int
    """Which of :data:`~tclint.inspect.in_flight.CHANNELS`."""
    site: int
    """The instruction that made it so."""
    words: str
    """How far it has come: ``in the newest group``."""
    ring: int = -1
    """Which of the rings of mbarriers it is about."""


@dataclass(frozen=True, slots=True)
class Flight:
    """The facts before every reachable instruction."""

    changes: tuple[tuple[int, tuple[Fact, ...], tuple[Fact, ...]], ...]
    """``(instruction, come, gone)`` in program order: what differs from the instruction that stands before it."""
    unsettled: tuple[str, ...]
    """The channels of which nothing is known, as an analysis did not settle."""


def flight(model: KernelModel) -> Flight:
    """What is in flight in the function of *model*."""
    changes: dict[int, tuple[list[Fact], list[Fact]]] = {}
    unsettled = []
    for number, channel in enumerate(CHANNELS):
        try:
            _, results = model.solution(channel.analysis)
        except LimitExceeded:
            unsettled.append(channel.name)
            continue
        before: frozenset[Fact] = frozenset()
        for at, facts in _states(model, results, number, channel.told):
            if facts != before:
                come, gone = changes.setdefault(at, ([], []))
                come += sorted(facts - before)
                gone += sorted(before - facts)
                before = facts
    ordered = tuple((at, tuple(come), tuple(gone)) for at, (come, gone) in sorted(changes.items()))
    return Flight(ordered, tuple(unsettled))


def _states(
    model: KernelModel, results: Results[Any], channel: int, told: Told
) -> Iterator[tuple[int, frozenset[Fact]]]:
    """``(instruction, the facts before it)`` in program order, wherever these may be new."""
    cfg, known = model.cfg, dict[Hashable, frozenset[Fact]]()

    def facts(state: Any) -> frozenset[Fact]:
        found = known.get(state)
        if found is None:
            made = told(results.analysis, state, model)
            found = known[state] = frozenset(Fact(channel, *fact) for fact in made)
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
