"""How a value of which only a part is known differs between threads.

An address is an unknown base plus a multiple of the thread index, and a
descriptor is made from it by masks and shifts. What is followed here is the
part that the thread index decides, as long as every operation keeps a
difference in it: then the whole differs where that part does.
"""

from __future__ import annotations

from dataclasses import dataclass

from tclint.values import Level, Node, Values
from tclint.values import thread_masks as T

__all__ = ["Spread", "spread"]


@dataclass(frozen=True, slots=True)
class Spread:
    """A value that differs between two threads of a warpgroup if the low ``width`` bits of ``planes`` do."""

    planes: T.Planes
    width: int = T.WIDTH

    @property
    def zeros(self) -> int:
        """The lowest bits, in which no two threads differ."""
        return next((bit for bit, plane in enumerate(self.planes) if plane), T.WIDTH)

    def level(self, active: int) -> Level | None:
        """Between what the value differs among the *active* threads: WARP for warps, DIVERGENT for lanes."""
        planes = self.planes[: self.width]
        if any(T.partial_groups(plane, active, 32) for plane in planes):
            return Level.DIVERGENT
        return Level.WARP if any(T.partial_groups(plane, active, 128) for plane in planes) else None


def spread(values: Values, value: int) -> Spread | None:
    """What the thread index makes of *value*; None where that is not known, or not only."""
    planes = values.planes(value)
    if planes is not None:
        return Spread(planes)
    node = values.node(value)
    if node[0] == "sum":
        return _of_sum(values, node)
    return _of_operation(values, node) if node[0] == "op" else None


def _of_sum(values: Values, node: Node) -> Spread | None:
    varying = [(term, factor) for term, factor in node[1] if values.level(term) > Level.WARPGROUP]
    if len(varying) != 1:
        return None
    ((term, factor),) = varying
    inner = spread(values, term)
    if inner is None or (inner.width < T.WIDTH and factor.bit_count() != 1) or factor < 0:
        return None
    planes = T.scale(inner.planes, factor, values.threads)
    return Spread(planes, min(inner.width + factor.bit_length() - 1, T.WIDTH))


def _of_operation(values: Values, node: Node) -> Spread | None:
    name = str(node[1]).partition(".")[0]
    if name == "mask":
        return _masked(spread(values, node[2]), node[3])
    operands = node[3:]
    if name == "shr" and str(node[2])[1] != "s":
        return _shifted(spread(values, operands[0]), values.known(operands[1]))
    if name == "bfe":
        by, length = (values.known(operand) for operand in operands[1:3])
        cut = _shifted(spread(values, operands[0]), by)
        return None if length is None or not 0 < length <= T.WIDTH else _masked(cut, (1 << length) - 1)
    if name in ("or", "xor"):
        varying = [operand for operand in operands if values.level(operand) > Level.WARPGROUP]
        if len(varying) != 1 or len(operands) != 2:
            return None
        inner = spread(values, varying[0])
        (other,) = (operand for operand in operands if operand != varying[0])
        if inner is None or name == "xor":
            return inner
        deciding = (1 << inner.width) - (1 << min(inner.zeros, inner.width))
        return inner if deciding & ~values.known_bits(other)[0] == 0 else None
    return None


def _masked(inner: Spread | None, mask: int) -> Spread | None:
    """A run of ones keeps a difference that begins inside it."""
    if inner is None or mask <= 0:
        return None
    low = (mask & -mask).bit_length() - 1
    run = mask >> low
    if run & (run + 1) or inner.zeros < low:
        return None
    return Spread(inner.planes, min(inner.width, mask.bit_length()))


def _shifted(inner: Spread | None, by: int | None) -> Spread | None:
    """A shift to the right keeps a difference that it does not push out."""
    if inner is None or by is None or not 0 <= by <= inner.zeros or by >= inner.width:
        return None
    return Spread(T.shift_right(inner.planes, by, False), inner.width - by)
