"""Stores to shared memory that change no byte, so that it does not matter when another thread reads or stores there.

Two stores may write the same value, and a thread may store what it has read from the same address.
"""

from __future__ import annotations

from tclint.analyses.overlaps import Route
from tclint.analyses.warp_memory import SharedByWarps
from tclint.ir.nodes import Memory, Operand, Vector
from tclint.values import thread_masks as T
from tclint.values.nodes import Later, Loaded
from tclint.values.shared_memory import SharedAccess

__all__ = ["same_value", "stored_by_all", "written_back"]


def written_back(memory: SharedByWarps, read: SharedAccess, write: SharedAccess, route: Route) -> int:
    """The threads that store what they have read from the same address before, so that later reads are unaffected."""
    values = memory.values
    every = T.full(values.threads)
    load, store = (memory.model.instruction(a.site).match for a in (read, write))
    items = _stored(memory, write.site)
    if load is None or store is None or load.element != store.element or not items:
        return 0
    size = int(store.element[2:]) // 8
    kept = every
    for place, item in enumerate(items):
        node = values.node(route.after(values.operand(item, write.site)))
        if type(node) is Later:
            node = values.node(node.value)
        if type(node) is not Loaded or node.site != read.site:
            return 0
        apart = values.minus(write.address, read.address)
        planes = values.bit_slices(values.add(apart, values.constant((place - node.index) * size)))
        if planes is None:
            return 0
        kept &= T.compare("eq", planes, T.constant(0, values.threads), values.threads)
    return kept


def same_value(memory: SharedByWarps, first: SharedAccess, second: SharedAccess, route: Route) -> int:
    """All threads if both stores write the same values, so their order does not matter; otherwise 0.

    The values are the same in all threads that are compared, or both stores copy from where the address that they write says.
    """
    values = memory.values
    source = _source_of_copy(memory, first)
    if source is not None and source == _source_of_copy(memory, second):
        return T.full(values.threads)
    one, two = ([values.operand(item, a.site) for item in _stored(memory, a.site)] for a in (first, second))
    before, after = map(route.before, one), map(route.after, two)
    same = (
        bool(one) and list(before) == list(after) and all(values.uniformity(v) <= memory.scope for v in one)
    )
    return T.full(values.threads) if same else 0


def stored_by_all(memory: SharedByWarps, store: SharedAccess) -> bool:
    """Whether all threads that execute a store write the same values to the same bytes, so that each reads its own there.

    It must be all threads of the CTA: one that does not store may read before another one has stored.
    """
    values, site = memory.values, store.site
    every = (
        memory.executed.certainly(site)
        and not memory.model.cta & ~memory.model.views.context_of(site).threads
    )
    if not every or memory.sites[site].combination:
        return False
    stored = [values.operand(item, store.site) for item in _stored(memory, store.site)]
    return bool(stored) and all(values.uniformity(v) <= memory.scope for v in (store.address, *stored))


def _source_of_copy(memory: SharedByWarps, store: SharedAccess) -> int | None:
    """The distance of what *store* copies from the address that it writes, the same in all threads; None if unknown.

    Two stores at one distance write the same values to the same address: loads of one address agree.
    """
    values, distances = memory.values, set[int]()
    match = memory.model.instruction(store.site).match
    for place, item in enumerate(_stored(memory, store.site)):
        node = values.node(values.operand(item, store.site))
        if type(node) is not Loaded:
            return None
        load = memory.model.instruction(node.site).match
        if match is None or load is None or load.element != match.element or load.space == ".shared":
            return None
        apart = values.minus(node.address, store.address)
        distance_here = (node.index - place) * int(match.element[2:]) // 8
        distances.add(values.add(apart, values.constant(distance_here)))
    distance = next(iter(distances)) if len(distances) == 1 else None
    if distance is None or values.varying_at(distance):
        return None
    return distance if values.uniformity(distance) <= memory.scope else None


def _stored(memory: SharedByWarps, site: int) -> tuple[Operand, ...]:
    """The operands whose values a store writes."""
    operand = next((o for o in memory.model.instruction(site).operands if not isinstance(o, Memory)), None)
    if operand is None:
        return ()
    return operand.items if isinstance(operand, Vector) else (operand,)
