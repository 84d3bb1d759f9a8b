"""How a partly known value differs between threads.

An address is an unknown base plus a multiple of the thread index, and a descriptor is made of it by masks and shifts.
This module follows the part that the thread index determines, as long as every operation preserves a difference in it:
then the whole value differs where that part does. No result means that nothing was proven.
"""

from __future__ import annotations

from tclint._dataclass import dataclass
from tclint.values import UniformityScope, Values
from tclint.values import thread_masks as T
from tclint.values.nodes import (
    Applied,
    Compare,
    Loaded,
    Masked,
    Negation,
    Node,
    Opaque,
    Select,
    Sum,
)

__all__ = ["DivergentBits", "decided_by_own_data", "divergent_bits", "trip_counts_differ"]


@dataclass(frozen=True, slots=True)
class DivergentBits:
    """A value that differs between two threads of a warpgroup if the low ``width`` bits of ``planes`` do."""

    planes: T.BitSlices
    width: int = 32

    @property
    def zeros(self) -> int:
        """The number of low bits in which no two threads differ, because they are zero in all of them."""
        return next((bit for bit, plane in enumerate(self.planes) if plane), 32)

    def level(self, active: T.Threads) -> UniformityScope | None:
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


def decided_by_own_data(values: Values, p: int) -> bool:
    """Whether what each thread loads from its own address decides the predicate *p*, which compares with a uniform value.

    That value may be the counter of a loop, whose trip count then differs. The loaded words may also select what is
    compared with a constant, in a loop too: the last element that satisfies a condition. They may be equal in all
    threads although their addresses differ.
    """
    return _compares_own_data(values, p, set())


def _compares_own_data(values: Values, p: int, seen: set[int]) -> bool:
    node = _without_not(values, p)
    if type(node) is not Compare:
        return False
    for value, limit in (node.operands, node.operands[::-1]):
        if values.constant_of(limit) is not None:
            return _is_own_data(values, value, seen)
        if values.uniformity(limit) <= UniformityScope.WARP and _is_own_load(values, value):
            return True
    return False


def _is_own_data(values: Values, value: int, seen: set[int]) -> bool:
    """Whether each thread loads *value* from its own address, or such a word selects it."""
    work = [value]
    while work:
        value = values.representative(work.pop())
        if value in seen:
            continue
        seen.add(value)
        node = values.node(value)
        if _is_own_load(values, value):
            return True
        if type(node) is Select:
            if _compares_own_data(values, node.condition, seen):
                return True
            work += node.arms
        work += values.arguments(value) if values.is_phi(value) else ()
    return False


def _is_own_load(values: Values, value: int) -> bool:
    """Whether each thread loads *value* from its own address."""
    node = values.node(value)
    return (
        type(node) is Loaded
        and not node.space.startswith(".local")
        and _differs_in_warp(values, node.address)
    )


def _without_not(values: Values, p: int) -> Node:
    """The predicate that *p* is, or negates."""
    node = values.node(p)
    while type(node) is Negation:
        node = values.node(node.operand)
    return node


def trip_counts_differ(values: Values, p: int, threads: T.Threads) -> bool:
    """Whether a loop that *p* alone ends has another number of iterations in some lanes of a warp, among *threads*.

    The start and the bound of its counter must depend on the thread index alone.
    """
    node = _without_not(values, p)
    if type(node) is not Compare or node.relation != "lt":
        return False
    left, right = node.operands
    below = _counter(values, left)
    counter, limit = (below, right) if below is not None else (_counter(values, right), left)
    bounds = values.bit_slices(limit)
    if counter is None or bounds is None or counter[1] <= 0:
        return False
    starts, stride = counter
    # A counter that must exceed its bound takes one step more.
    reached = 0 if below is not None else 1
    lanes: dict[int, int] = {}
    for first, some in T.numbers(starts, threads):
        for last, those in T.numbers(bounds, some):
            count = max(-((first - last - reached) // stride), 0)
            lanes[count] = lanes.get(count, 0) | those
    return any(T.partial_groups(those, threads, 32) for those in lanes.values())


def _counter(values: Values, value: int) -> tuple[T.BitSlices, int] | None:
    """The first value of a loop counter plus a constant in every thread, and its stride; None if it is not one."""
    terms, constant = values.linear(value)
    found = values.induction(terms[0][0]) if len(terms) == 1 and terms[0][1] == 1 else None
    if found is None or found[2] is not None:
        return None
    start, stride, _ = found
    planes = values.bit_slices(values.add(start, values.constant(constant)))
    return None if planes is None else (planes, stride)


def _differs_in_warp(values: Values, value: int) -> bool:
    """Whether *value* is an index that differs between the lanes of a warp, with warp-uniform values added or multiplied.

    So is a counter that starts at such a value.
    """
    start, stride, modulus = values.induction(value) or (value, 0, None)
    if stride and modulus is None:
        value = start
    if values.uniformity(value) is UniformityScope.DIVERGENT:
        return True
    node = values.node(value)
    parts = node.operands if type(node) is Sum else ()
    if type(node) is Opaque and node.name == "mad":
        *factors, term = node.operands
        parts = (term,) if all(values.uniformity(f) <= UniformityScope.WARP for f in factors) else ()
    varying = [part for part in parts if values.uniformity(part) > UniformityScope.WARP]
    return len(varying) == 1 and _differs_in_warp(values, varying[0])


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
