"""Whether what an operation accesses later and what the thread accesses meanwhile have nothing in common.

True is a proof under the assumptions of :mod:`tclint.values`. Two addresses of one iteration can be subtracted; whether
they are of one iteration, the caller says with *passes*: whether the thread may pass a point at which a value changes
while the operation is pending. Otherwise the ranges over all iterations are compared.
"""

from __future__ import annotations

from collections.abc import Callable

from tclint.analyses.extents import Extents
from tclint.analyses.model import KernelModel
from tclint.analyses.tcgen05 import TensorMemory
from tclint.ir.nodes import Immediate
from tclint.isa.table import Match
from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.verdicts.rings import Numbers, Rings

__all__ = ["Passes", "bytes_apart", "columns_apart"]

Passes = Callable[[str, int], bool]
"""Whether ``("block", b)`` may be entered, or ``("site", i)`` executed, while the operation is pending."""
Range = tuple[int, int]
"""The value of an address, and the number of bytes or columns from there on."""
_MBARRIER = 8
"""The bytes of an mbarrier object (9.7.13.15.1)."""


def columns_apart(model: KernelModel, first: int, second: int, passes: Passes) -> bool:
    """Whether two loads or stores of tensor memory have no column in common; their lanes are not compared."""
    a, b = _columns(model, first), _columns(model, second)
    return a is not None and b is not None and _symbolically(model, a, b, passes)


def _columns(model: KernelModel, site: int) -> Range | None:
    """The columns that a load or store of tensor memory accesses at most."""
    tensor = model.fact(TensorMemory)
    columns, width = tensor.range(site, "taddr"), tensor.exact_width(site, "taddr")
    if columns is None or width is None:
        return None
    split = model.instruction(site).named("immHalfSplitoff")
    if split is not None:  # the upper lanes access other columns
        if not isinstance(split, Immediate) or not isinstance(split.value, int) or split.value < 0:
            return None
        width += split.value
    return columns.start, width


def _symbolically(model: KernelModel, a: Range, b: Range, passes: Passes) -> bool:
    """Whether two ranges of one thread are disjoint, by the difference of their addresses."""
    values = model.values
    if values.disjoint_in_all_iterations(*a, *b):
        return True
    return values.disjoint(*a, *b) is True and not _change(model, a, b, passes)


def _change(model: KernelModel, a: Range, b: Range, passes: Passes) -> bool:
    """Whether what the addresses depend on may change while the operation is pending."""
    varying_at = model.values.varying_at
    return any(passes(kind, at) for value, _ in (a, b) for kind, at in varying_at(value))


def bytes_apart(model: KernelModel, rings: Rings, copy: int, access: int, passes: Passes) -> bool:
    """Whether a ``cp.async`` and an access of shared memory have no byte in common.

    If the lanes of a warp execute the access together, each of them may access what another one copies.
    """
    written, accessed = _bytes(model, copy), _bytes(model, access)
    if written is None or accessed is None:
        return False
    match = model.instruction(access).match
    together = match is None or match.scope not in ("", "thread")
    return all(
        _bytes_apart(model, a, b, passes, together)
        or _stages_apart(model, rings, copy, access, a, b, passes, together)
        for a in written
        for b in accessed
    )


def _stages_apart(
    model: KernelModel,
    rings: Rings,
    copy: int,
    access: int,
    a: Range,
    b: Range,
    passes: Passes,
    together: bool,
) -> bool:
    """Whether the ranges of a *copy* and an *access* are disjoint in all states of the loop that selects their stages."""
    states = rings.states(copy, access, (a[0], b[0]))
    if states is None:
        return False
    known = set[tuple[int, int]]()
    for first, then in states:
        here, there = (
            _selected(model, rings, a[0], first, passes),
            _selected(model, rings, b[0], then, passes),
        )
        if here is None or there is None:
            return False
        if (here, there) not in known:
            known.add((here, there))
            c, d = (here, a[1]), (there, b[1])
            alone = not together and model.values.disjoint(*c, *d) is True
            if not alone and not _ranges_apart(model, c, d, together):
                return False
    return True


def _selected(model: KernelModel, rings: Rings, address: int, numbers: Numbers, passes: Passes) -> int | None:
    """*address* with the numbers of its counters; None if anything else in it may change."""
    values = model.values
    terms, constant = values.linear(address)
    kept = list[tuple[int, int]]()
    for term, factor in terms:
        changes = values.varying_at(term)
        number = rings.evaluated(term, numbers) if changes else None
        if number is not None:
            constant += number * factor
        elif any(passes(kind, at) for kind, at in changes):
            return None
        else:
            kept.append((term, factor))
    return values.total(tuple(kept), constant)


def _bytes(model: KernelModel, site: int) -> list[Range] | None:
    """All bytes of shared memory that an instruction accesses; None if they are not all known."""
    instruction = model.instruction(site)
    match = instruction.match
    if match is None:
        return None
    if match.form.event.startswith("mbarrier") and not match.form.memory and not match.form.async_writes:
        address = model.value(site, "mbarrier")
        return None if address is None else [(address, _MBARRIER)]
    if not _sized(match):
        return None
    wide = 2 if any(modifier.endswith("x2") for modifier in match.modifiers) else 1
    found = [(access.address, access.size * wide) for access in model.shared.accesses(site)]
    return found or None


def _sized(match: Match) -> bool:
    """Whether the size of what an instruction accesses is known exactly."""
    form = match.form
    if form.group == "cp.async" and form.event == "issue":
        return True
    later = any(name.startswith("*") for name in (*form.async_reads, *form.async_writes))
    rows = form.name.startswith(("ldmatrix", "stmatrix"))
    return not later and "bytes" not in form.roles and (rows or match.scope in ("", "thread"))


def _bytes_apart(model: KernelModel, a: Range, b: Range, passes: Passes, together: bool) -> bool:
    if not together and _symbolically(model, a, b, passes):
        return True
    extents, everyone = model.fact(Extents), T.full(model.values.threads)
    here, there = extents.reach(*a, everyone), extents.reach(*b, everyone)
    if here is not None and there is not None and not extents.meet(here, there):
        return here.base == there.base or model.values.separate(here.base, there.base)
    return not _change(model, a, b, passes) and _ranges_apart(model, a, b, together)


def _ranges_apart(model: KernelModel, a: Range, b: Range, together: bool) -> bool:
    """Whether two ranges of one iteration are disjoint, whatever threads of the warp access them.

    Each address is a part that depends on the thread index alone, whose bounds over all threads are known, and a rest.
    """
    values, everyone = model.values, T.full(model.values.threads)
    rests, bounds = list[int](), list[tuple[int, int]]()
    for address, size in (a, b):
        terms, constant = values.linear(address)
        mine = tuple(t for t in terms if values.bit_slices(t[0]) is not None)
        planes = values.bit_slices(values.total(mine, 0))
        if planes is None:
            return False
        low, high = (T.extreme(planes, everyone, least=least) for least in (True, False))
        rest = values.total(tuple(t for t in terms if t not in mine), constant)
        if together and values.uniformity(rest) > UniformityScope.WARP:
            return False
        rests.append(rest)
        bounds.append((low, high + size))
    distance = values.add(rests[0], values.times(rests[1], -1))
    number = values.constant_of(distance)
    between = (number, number) if number is not None else values.interval(distance)
    if between is None:
        return False
    (low, high), (other_low, other_high) = bounds
    return between[0] + low >= other_high or between[1] + high <= other_low
