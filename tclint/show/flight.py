"""What may be in flight before each instruction of a function, as facts and the places where they come and go."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tclint.analyses.bulk_groups import KNOWN, BulkReads, BulkWrites
from tclint.analyses.copy_groups import TRACKED, CopyGroups
from tclint.analyses.groups import OPEN, OVERDUE, Groups, WgmmaGroups
from tclint.analyses.mbarrier_use import MbarrierUse
from tclint.analyses.tensor_memory import COPIED, ISSUED, USED, Outstanding, Tcgen05, TensorMemory
from tclint.dataflow import Analysis, LimitExceeded, Results
from tclint.model import KernelModel

__all__ = ["CHANNELS", "Fact", "Flight", "flight"]


@dataclass(frozen=True, slots=True, order=True)
class Fact:
    """Something that may hold before an instruction, on some way to it and for the threads that take that way."""

    channel: int
    """Which of :data:`CHANNELS`."""
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


def _age(groups: Groups, age: int) -> str:
    if age == OPEN:
        return "not committed"
    if age == OVERDUE:
        return "not committed before a wait"
    if age == TRACKED:
        return "an mbarrier tells when it is done"
    if age == groups.deepest:
        return f"{age} or more groups behind the newest"
    return "in the newest group" if age == 0 else f"{age} group{'s' * (age > 1)} behind the newest"


Told = Callable[[Any, Any, KernelModel], Iterable[tuple[int, str, int]]]


def _groups(groups: Groups, state: Any, model: KernelModel) -> Iterator[tuple[int, str, int]]:
    return ((site, _age(groups, age), -1) for site, age in state[0])


def _reads(groups: Groups, state: Any, model: KernelModel) -> Iterator[tuple[int, str, int]]:
    """What is only not known to other threads is no longer in flight."""
    return ((site, _age(groups, age), -1) for site, age in state[0] if age not in KNOWN)


def _transfers(memory: Tcgen05, state: Any, model: KernelModel) -> Iterator[tuple[int, str, int]]:
    words = {
        ISSUED: "no wait since",
        COPIED: "no wait since, registers moved",
        USED: "no wait since, registers used",
    }
    return (
        (site, words[status], -1) for site, status in state if site in memory.loads or site in memory.stores
    )


def _operations(memory: Tcgen05, state: Any, model: KernelModel) -> Iterator[tuple[int, str, int]]:
    for site, status in state:
        if site in memory.operations:
            yield site, "not committed" if status == ISSUED else f"committed by #{status - 1}", -1


def _mbarriers(use: MbarrierUse, state: Any, model: KernelModel) -> Iterator[tuple[int, str, int]]:
    words = {
        "mbarrier-wait": "last wait",
        "mbarrier-arrive": "arrived",
        "mbarrier-expect": "bytes expected",
        "mbarrier-complete": "bytes completed",
        "commit": "arrives when the operations before it are done",
    }
    for site, ring in state:
        yield site, words.get(model.instruction(site).event, "completes bytes when it is done"), ring


CHANNELS: tuple[tuple[str, type[Analysis[Any]], Told], ...] = (
    ("wgmma", WgmmaGroups, _groups),
    ("cp.async", CopyGroups, _groups),
    ("bulk: source not read", BulkReads, _reads),
    ("bulk: result not written", BulkWrites, _groups),
    ("tensor memory", TensorMemory, _transfers),
    ("tcgen05", Outstanding, _operations),
    ("mbarrier", MbarrierUse, _mbarriers),
)
"""What is followed: its name, the analysis, and what the states of that say."""


def flight(model: KernelModel) -> Flight:
    """What is in flight in the function of *model*."""
    changes: dict[int, tuple[list[Fact], list[Fact]]] = {}
    unsettled = []
    for channel, (name, analysis, told) in enumerate(CHANNELS):
        try:
            _, results = model.solved(analysis)
        except LimitExceeded:
            unsettled.append(name)
            continue
        before: frozenset[Fact] = frozenset()
        for at, facts in _states(model, results, channel, told):
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
