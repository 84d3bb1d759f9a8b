"""Counts what the accesses of an execution to memory cost, by instruction (``tclint run --count``).

Not counted are the accesses of the async proxy, those to mbarriers and those to the memory of another CTA.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tclint.executor.code import Op
from tclint.executor.costs import Count, Kind, sectors, wavefronts
from tclint.executor.decode import Decoder
from tclint.executor.memory import GENERIC, RANK, SHARED, WINDOW, Array
from tclint.executor.signals import AGAIN
from tclint.executor.state import LANES, Warp
from tclint.ir.nodes import Instruction, Not
from tclint.isa.accesses import Access, Proxy, StateSpace, Via

__all__ = ["counting"]

_LOW = (1 << RANK) - 1
_OFFSET = (1 << WINDOW) - 1
_SPACES = (StateSpace.SHARED, StateSpace.GLOBAL, StateSpace.GENERIC)


def counting(d: Decoder, i: Instruction, op: Op) -> Op:
    """*op*, counted in :attr:`~tclint.executor.code.Code.counts`; itself if nothing that is counted is accessed."""
    match = i.match
    if match is None or match.problem:
        return op
    costs = [_cost(d, i, access) for access in {a.operand: a for a in match.accesses if _counted(a)}.values()]
    if not costs:
        return op
    count = d.code.counts[d.site] = Count()

    def counted(w: Warp) -> int | None:
        found = Count(1)
        for cost in costs:
            cost(w, found)  # before it executes: it may write the register of its address
        signal = op(w)
        if signal != AGAIN:
            count.add(found)
        return signal

    return counted


def _counted(access: Access) -> bool:
    return (
        access.via is Via.ADDRESS and access.space in _SPACES and access.proxy is Proxy.GENERIC
        and not access.object and access.extent != ""
    )  # fmt: skip


def _cost(d: Decoder, i: Instruction, access: Access) -> Callable[[Warp, Count], None]:
    """A function that adds what an access of the active lanes costs."""
    assert i.match is not None
    operand = d.needed(i, access.operand)
    where, length = d.address(operand), _length(d, i, access)
    kind = Kind.STORE if access.writes else Kind.LOAD
    kind = Kind.ROWS if access.rows else Kind.ATOMIC if i.match.form.updates else kind
    rows, space = i.match.address_lanes, access.space

    def cost(w: Warp, count: Count) -> None:
        lanes, addresses = w.lanes, where(w)
        if access.rows:
            lanes = lanes[lanes < rows]
        addresses, lengths = addresses[lanes], length(w)[lanes]
        shared = _in_shared(addresses, space, w.cta.rank)
        if shared.any():
            size = int(lengths[shared].max())
            more, ideal = wavefronts(lanes[shared], addresses[shared] & _LOW, size, kind)
            count.wavefronts += more
            count.ideal_wavefronts += ideal
        outside = _in_global(addresses, space, w) & (lengths > 0)
        if outside.any():
            more, ideal = sectors(addresses[outside], lengths[outside])
            count.sectors += more
            count.ideal_sectors += ideal

    return cost


def _in_shared(addresses: Array, space: StateSpace, rank: int) -> Array:
    """Which addresses are in the shared memory of the CTA of that rank."""
    if space is StateSpace.GLOBAL:
        return np.zeros(len(addresses), bool)
    inside: Array = (addresses & _OFFSET) >> RANK == rank
    wide = addresses >> GENERIC != 0
    inside &= np.where(wide, addresses >> WINDOW == SHARED >> WINDOW, space is StateSpace.SHARED)
    return inside


def _in_global(addresses: Array, space: StateSpace, w: Warp) -> Array:
    """Which addresses are in global memory."""
    if space is StateSpace.GENERIC:
        return np.isin(addresses >> WINDOW, list(w.machine.memory.windows))
    return np.full(len(addresses), space is StateSpace.GLOBAL)


def _length(d: Decoder, i: Instruction, access: Access) -> Callable[[Warp], Array]:
    """A function that returns the bytes that each lane accesses: of the source of a copy, those that are not zero-filled."""
    extent = access.extent
    if isinstance(extent, int):
        whole = np.full(LANES, extent, np.int64)
        return lambda w: whole
    stated = d.uniform(d.needed(i, extent))
    if not access.part:
        return lambda w: np.full(LANES, stated(w), np.int64)
    given = d.needed(i, access.part)
    amount = d.fetch(given)
    if isinstance(given, Not) or (isinstance(given, int) and d.types[given] == bool):
        return lambda w: np.where(amount(w), 0, stated(w)).astype(np.int64)
    return lambda w: amount(w).astype(np.int64)
