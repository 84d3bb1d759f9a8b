"""How a partly known value differs between threads.

An address is an unknown base plus a multiple of the thread index, and a descriptor is made of it by masks and shifts.
This module follows the part that the thread index determines, as long as every operation preserves a difference in it:
then the whole value differs where that part does. No result means that nothing was proven.
"""

from __future__ import annotations

from tclint._dataclass import dataclass
from tclint.values import UniformityScope, Values
from tclint.values import thread_masks as T
from tclint.values.nodes import Applied, Masked, Sum

__all__ = ["DivergentBits", "divergent_bits"]


@dataclass(frozen=True, slots=True)
class DivergentBits:
    """A value that differs between two threads of a warpgroup if the low ``width`` bits of ``planes`` do."""

    planes: T.BitSlices
    width: int = 32

    @property
    def zeros(self) -> int:
        """The number of low bits in which no two threads differ, because they are zero in all of them."""
        return next((bit for bit, plane in enumerate(self.planes) if plane), 32)

    def level(self, active: int) -> UniformityScope | None:
        """The scope in which the value differs among the *active* threads: WARP between warps, DIVERGENT between lanes.

        None if it does not, or not provably.
        """
        planes = T.bits(self.planes, self.width)
        if any(T.partial_groups(plane, active, 32) for plane in planes):
            return UniformityScope.DIVERGENT
        return UniformityScope.WARP if any(T.partial_groups(plane, active, 128) for plane in planes) else None


def divergent_bits(values: Values, value: int) -> DivergentBits | None:
    """The part of *value* that the thread index determines; None if unknown, or if other parts may differ, too."""
    planes = values.bit_slices(value)
    if planes is not None:
        return DivergentBits(planes)
    node = values.node(value)
    if type(node) is Sum:
        return _of_sum(values, node)
    if type(node) is Masked:
        return _masked(divergent_bits(values, node.value), node.mask)
    return _of_operation(values, node) if isinstance(node, Applied) else None


def _of_sum(values: Values, node: Sum) -> DivergentBits | None:
    varying = [
        (term, factor) for term, factor in node.terms if values.uniformity(term) > UniformityScope.WARPGROUP
    ]
    if len(varying) != 1:
        return None
    ((term, factor),) = varying
    inner = divergent_bits(values, term)
    if inner is None or (inner.width < 32 and factor.bit_count() != 1) or factor < 0:
        return None
    planes = T.scale(inner.planes, factor, values.threads)
    return DivergentBits(planes, min(inner.width + factor.bit_length() - 1, 32))


def _of_operation(values: Values, node: Applied) -> DivergentBits | None:
    name, operands = node.name.partition(".")[0], node.operands
    if name == "shr" and node.type[1] != "s":
        return _shifted(divergent_bits(values, operands[0]), values.constant_of(operands[1]))
    if name == "bfe":
        by, length = (values.constant_of(operand) for operand in operands[1:3])
        cut = _shifted(divergent_bits(values, operands[0]), by)
        return None if length is None or not 0 < length <= 32 else _masked(cut, (1 << length) - 1)
    if name in ("or", "xor"):
        varying = [operand for operand in operands if values.uniformity(operand) > UniformityScope.WARPGROUP]
        if len(varying) != 1 or len(operands) != 2:
            return None
        inner = divergent_bits(values, varying[0])
        (other,) = (operand for operand in operands if operand != varying[0])
        if inner is None or name == "xor":
            return inner
        deciding = (1 << inner.width) - (1 << min(inner.zeros, inner.width))
        return inner if deciding & ~values.known_bits(other)[0] == 0 else None
    return None


def _masked(inner: DivergentBits | None, mask: int) -> DivergentBits | None:
    """*inner* after a mask. A contiguous run of ones preserves a difference in bits that begin inside it."""
    if inner is None or mask <= 0:
        return None
    low = (mask & -mask).bit_length() - 1
    run = mask >> low
    if run & (run + 1) or inner.zeros < low:
        return None
    return DivergentBits(inner.planes, min(inner.width, mask.bit_length()))


def _shifted(inner: DivergentBits | None, by: int | None) -> DivergentBits | None:
    """*inner* after a right shift, which preserves a difference in the bits that it does not shift out."""
    if inner is None or by is None or not 0 <= by <= inner.zeros or by >= inner.width:
        return None
    return DivergentBits(T.shift_right(inner.planes, by), inner.width - by)
