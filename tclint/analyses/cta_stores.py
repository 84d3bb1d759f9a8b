"""Which threads store to global memory at places of other threads, so that a CTA is not meant to have them.

``out[ctaid * 32 + tid] = x`` is for CTAs of 32 threads: thread 32 of one would store what thread 0 of the next one does.
``out[tid.y * 8 + tid.x] = x`` is for rows of eight.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tclint.analyses.execution import ExecutionGuarantee
from tclint.analyses.global_memory import addressed
from tclint.dataflow.kernel import Kernel
from tclint.isa.effects import Order
from tclint.values import thread_masks as T
from tclint.values.cta_shape import AXES
from tclint.values.nodes import AddressOf, ParameterRead, SpecialRead, Value

__all__ = ["stored_twice"]


def stored_twice(model: Kernel, executed: ExecutionGuarantee) -> T.Threads:
    """The threads that store at a place of global memory that a thread before them stores to, in this CTA or in another one.

    Their positions alone decide where that is, and that they do.
    """
    found, seen = 0, set[tuple[Value, Value, T.Threads]]()
    for site in model.matching(lambda match: match.order is Order.WEAK):
        addresses = [address for address, _ in addressed(model, site, "write")]
        threads = model.views.context_of(site).threads & model.cta
        if not addresses or not threads or not executed.certainly(site):
            continue
        for address in addresses:
            form = model.values.addresses.form(address)
            if (form.base, form.index, threads) not in seen:
                seen.add((form.base, form.index, threads))
                found |= _repeated(model, form.base, form.index, threads)
    return found


def _repeated(model: Kernel, base: Value, index: Value, threads: T.Threads) -> T.Threads:
    """Those of *threads* that are at the place of an earlier one, if they store at *base* plus *index*."""
    values, strides = model.values, list(_strides(model, base))
    if values.bit_slices(index) is None or None in strides:
        return 0
    addresses = values.addresses
    if threads == model.cta and len(addresses.offsets(index, threads) or ()) < _positions(model, index):
        return threads
    found = 0
    for stride in filter(None, strides):
        row = _in_row(model, index, stride)
        planes, (least, greatest) = values.bit_slices(row), addresses.extremes(row, threads) or (0, 0)
        if planes is None or greatest - least < stride:
            continue
        first = set[int]()
        for number, those in T.numbers(planes, threads):
            found |= those if number % stride in first else 0
            first.add(number % stride)
    return found


def _in_row(model: Kernel, index: Value, stride: int) -> Value:
    """*index* without the positions that are further apart than two neighbouring CTAs, a *stride*.

    They are in rows of a matrix, of which its width has as many CTAs as fit between two rows.
    """
    values = model.values
    terms, constant = values.linear(index)
    return values.total(tuple((term, factor) for term, factor in terms if abs(factor) <= stride), constant)


def _strides(model: Kernel, base: Value) -> Iterator[int | None]:
    """By how much *base* is apart in two CTAs that are neighbours along a dimension; None if that is not known."""
    for term, factor in model.values.linear(base)[0]:
        node = model.values.node(term)
        if type(node) is SpecialRead and node.name.startswith("%ctaid"):
            yield abs(factor)
        elif type(node) is not ParameterRead and type(node) is not AddressOf:
            yield None


def _positions(model: Kernel, index: Value) -> int:
    """How many positions in the CTA *index* distinguishes, if it is a sum of some; 0 if not, or the shape is unknown."""
    values, axes = model.values, set[int]()
    for term, _ in values.linear(index)[0]:
        node = values.node(term)
        if type(node) is not SpecialRead or node.name not in AXES:
            return 0
        axes.add(AXES.index(node.name))
    if values.shape is None:
        return 0
    # The shape that values assume may have more threads than the CTA that is asked about.
    return min(prod(values.shape[axis] for axis in axes), model.cta.bit_count())
