"""Which accesses race in CTAs of every shape that a kernel may be made for, if it does not state the shape.

What is known of values is known for one shape, so each shape has a model of the kernel of its own
(:meth:`~tclint.analyses.model.KernelModel.shaped`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tclint.analyses.execution import ExecutionGuarantee
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import OVERLAP, Conflict
from tclint.analyses.warp_memory import SharedByBound
from tclint.analyses.warp_races import race_doubt, warp_races
from tclint.ir.nodes import Special
from tclint.values import thread_masks as T
from tclint.values.cta_shape import AXES

__all__ = ["decided_by_size", "races_in_every_shape"]

_USUAL = ((16, 16), (32, 8), (32, 4), (32, 32), (8, 8), (64, 4), (32, 16), (128, 2), (8, 16), (32, 2))
"""Common two-dimensional CTA shapes, which are tried first."""
_ODD = (
    (32, 3), (32, 5), (32, 6), (32, 7), (64, 3), (96, 1), (96, 2), (192, 1), (192, 2), (384, 1), (24, 4), (24, 5), (24, 8),
    (12, 8), (48, 4), (10, 10), (18, 18),
)  # fmt: skip
"""Shapes with a side that is not a power of two, such as a tile of 16 by 16 with its halo."""
_SIZES = (256, 128, 512, 1024, 64)
"""Common sizes of one-dimensional CTAs."""
MAX_MODELLED_INSTRUCTIONS = 50_000
"""Instructions in the models of one kernel for all shapes together. A kernel that exceeds this is not checked."""


def decided_by_size(model: KernelModel) -> bool:
    """Whether the number of threads, which the launch chooses, decides which of them access shared memory, or where.

    Also if it decides which way all of them take, as where a compiler unrolls a loop over the warps of the CTA.
    """
    values, reachability = model.values, model.reachability
    if model.function.threads is not None:
        return False
    if any(map(model.fact(ExecutionGuarantee).by_size, model.shared.sites)):
        return True
    branches = {reachability.edge_predicate(edge) for edges in model.cfg.successors for edge in edges}
    addresses = {a.address for i in model.shared.sites for a in model.shared.accesses(i)}
    return any(values.depends_on_unmodelled_position(p) for p in branches if p is not None) or any(
        values.is_special(v, "%ntid.x") for v in values.subexpressions(*addresses, until=values.is_phi)
    )


def races_in_every_shape(model: KernelModel) -> Iterator[tuple[KernelModel, Conflict]]:
    """The conflicts that exist in CTAs of every shape for which shared memory has room, for a kernel of unknown shape.

    For a kernel whose threads are in one dimension, only the size of the CTA is unknown. If shared memory has room for
    one-dimensional shapes alone although the threads are in several dimensions, the intended shape was not understood,
    and there are no conflicts. For a correct kernel, the search ends at the first shape, or soon.
    """
    shapes = _shapes(model)
    if len(shapes) * len(model.function.instructions) > MAX_MODELLED_INSTRUCTIONS:
        why = f"more than {MAX_MODELLED_INSTRUCTIONS} instructions in the models for all shapes"
        model.ledger.give_up(OVERLAP, -1, why)
        return
    left: list[tuple[KernelModel, Conflict]] | None = None
    rows = model.values.one_dimensional
    for shaped in map(model.shaped, shapes):
        if shaped.fact(SharedByBound).fits:
            met = set[tuple[bool, int]]()
            found: list[tuple[KernelModel, Conflict]] = []
            for meeting in warp_races(shaped):
                if not race_doubt(shaped, meeting):
                    met |= _blocks(model, meeting)
                    found.append((shaped, meeting))
                    if left and not any(met.isdisjoint(_blocks(model, each)) for _, each in left):
                        break
            left = (
                found
                if left is None
                else [each for each in left if not met.isdisjoint(_blocks(model, each[1]))]
            )
            rows = rows or not shaped.values.one_dimensional
            if not left:
                return
    if left and rows:
        yield from left


def _blocks(model: KernelModel, meeting: Conflict) -> set[tuple[bool, int]]:
    """The blocks of the two accesses: in CTAs of another size, one of them may conflict with another access."""
    block_of = model.cfg.block_of
    return {(False, block_of[meeting.operation.site]), (True, block_of[meeting.use.site])}


def _shapes(model: KernelModel) -> list[tuple[int, ...]]:
    """The shapes of more than one warp that CTAs of the kernel may have, the common ones first.

    Where shared memory has a row for each index along an axis, there is more than one thread along it.
    """
    most = model.function.most_threads or T.LIMIT
    if model.values.one_dimensional:
        return [(x,) for x in _SIZES if x <= most]
    sides = [1 << k for k in range(11)]
    flat = dict.fromkeys((*_USUAL, *product(sides, sides), *_ODD))
    deep = any(Special("%tid.z") in i.operands for i in model.function.instructions)
    shapes = [(x, y, z) for z in ((1, 2, 4) if deep else (1,)) for x, y in flat if 32 < x * y * z <= most]
    values = model.values
    terms = {
        t
        for i in model.shared.sites
        for a in model.shared.accesses(i)
        for t, _ in values.linear(a.address)[0]
    }
    rows = [axis for axis, name in enumerate(AXES) if values.special(name) in terms]
    return [shape for shape in shapes if all(shape[axis] > 1 for axis in rows)]
