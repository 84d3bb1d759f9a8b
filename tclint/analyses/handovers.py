"""Which threads one role hands its work over to: where it arrives at a barrier, and where the others wait for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from tclint.model import KernelModel

__all__ = ["Firsts", "Handover", "handovers"]


class Handover(NamedTuple):
    """What a thread did before *arrival* is done for one that is past *wait*."""

    arrival: int
    wait: int


class Firsts:
    """What expressions stand for where an instruction is executed for the first time."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._leads: dict[int, Callable[[int], int]] = {}

    def value(self, value: int, site: int) -> int:
        """*value*, which an operand has at *site*, when a thread comes there first."""
        values = self.model.values
        if not values.volatile(value):
            return values.find(value)
        block = self.model.cfg.block_of[site]
        if block not in self._leads:
            path = self.model.lead(site)
            self._leads[block] = values.find if path is None else values.along(path.edges, frozenset())
        return self._leads[block](value)


def handovers(
    model: KernelModel, firsts: Firsts, arrivals: Iterable[int], waits: AbstractSet[int]
) -> Iterator[Handover]:
    """Those of *arrivals* and *waits* that go together: at one mbarrier, or at one barrier of the CTA.

    An mbarrier that is one of a ring is known by the element that both sides use first. Where the threads of one side
    come to a barrier of the CTA at several places, nothing says which of these goes with which of the other side.
    """
    at: dict[int, list[int]] = {}
    for wait in model.sites("mbarrier-wait"):
        address = model.value(wait, "mbarrier") if wait in waits else None
        if address is not None:
            at.setdefault(firsts.value(address, wait), []).append(wait)
    numbered: dict[int, list[int]] = {}
    for site in (*model.sites("barrier-sync"), *model.sites("barrier-arrive")):
        number = model.known(site, "id")
        if number is not None:
            numbered.setdefault(number, []).append(site)
    for arrival in arrivals:
        if model.instruction(arrival).event == "mbarrier-arrive":
            address = model.value(arrival, "mbarrier") if at else None
            if address is not None and model.instruction(arrival).group != "cp.async":
                for wait in at.get(firsts.value(address, arrival), ()):
                    yield Handover(arrival, wait)
            continue
        number = model.known(arrival, "id")
        sites = numbered.get(number, []) if number is not None else []
        for wait in sorted(waits & set(sites)):
            if arrival == wait or _pair(model, arrival, wait, sites):
                yield Handover(arrival, wait)


def _pair(model: KernelModel, a: int, b: int, sites: list[int]) -> bool:
    """Whether the threads of *a* and those of *b* come to one barrier, and to no other place of it."""
    apart, count = model.views.apart, model.known(a, "count")
    if count is None or count != model.known(b, "count") or not apart(a, b):
        return False
    if any(model.views.at(site).threads.bit_count() >= count for site in (a, b)):
        return False
    return all(site in (a, b) or (apart(a, site) and apart(b, site)) for site in sites)
