"""Accesses to memory other than shared memory of the CTA, since a memory fence of a wider scope or until the next one.

What a fence orders are the accesses before it with those after it. A pair that another fence of a wider scope separates
is ordered by that one.
"""

from __future__ import annotations

from collections.abc import Iterable

from tclint.dataflow.kernel import Kernel
from tclint.dataflow.solver import Analysis
from tclint.ir.nodes import Instruction
from tclint.isa.effects import Barrier, Order

__all__ = ["OutsideAfter", "OutsideBefore", "leaves_the_cta"]

_OWN = (".shared", ".shared::cta", ".local", ".param", ".const")
"""The state spaces of what no other CTA accesses, or nothing writes."""


def leaves_the_cta(instruction: Instruction) -> bool:
    """Whether other proxies or CTAs may be concerned: asynchronous operations, clusters, calls, what is not known."""
    match = instruction.match
    if match is None or match.problem or instruction.flow == "call":
        return True
    form = match.form
    later = form.async_reads or form.async_writes or form.proxy
    cluster = (
        form.effects.barrier is Barrier.CLUSTER or form.compute == "mapa" or match.space == ".shared::cluster"
    )
    return bool(later) or cluster or form.handled


def _outside(instruction: Instruction) -> bool:
    match = instruction.match
    return match is not None and bool(match.form.memory) and match.space not in _OWN


class OutsideBefore(Analysis[bool]):
    """Whether such an access may have been executed since the last memory fence of a wider scope than the CTA."""

    def __init__(self, model: Kernel) -> None:
        self.instructions = model.function.instructions

    def boundary(self) -> bool:
        return False

    def bottom(self) -> bool:
        return False

    def join(self, a: bool, b: bool) -> bool:
        return a or b

    def affecting_sites(self) -> Iterable[int]:
        return [i for i, each in enumerate(self.instructions) if _outside(each) or _fences(each)]

    def transfer(self, state: bool, at: int, instruction: Instruction) -> bool:
        return not _fences(instruction)


class OutsideAfter(OutsideBefore):
    """Whether such an access may be executed before the next memory fence of a wider scope than the CTA."""

    direction = "backward"


def _fences(instruction: Instruction) -> bool:
    return instruction.fence_order(shared=True) is not Order.WEAK and instruction.wide
