"""Scalar instructions: all forms in :data:`tclint.executor.lanes.LANES`, and arithmetic with the carry flag."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tclint.executor.code import Op
from tclint.executor.decode import FORMS, Decoder, pair
from tclint.executor.lanes import LANES as COMPUTE
from tclint.executor.lanes import carry, signed
from tclint.executor.lanes import sources as source_types
from tclint.executor.memory import Array
from tclint.executor.state import Warp
from tclint.ir.nodes import Instruction, Not, Operand, Special, Vector
from tclint.isa.special_registers import SPECIAL_REGISTERS

__all__: list[str] = []


def _scalar(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    compute = COMPUTE[match.form.name](match)
    kinds = source_types(match)
    sources: list[Callable[[Warp], Any]] = []
    plain: list[int] = []
    for at, kind in zip(match.reads, kinds, strict=True):
        operand = i.operands[at]
        size = 0 if kind == bool else kind.itemsize
        if isinstance(operand, Vector):
            each = max(1, size // len(operand.items))
            sources.append(_vector([d.fetch(o, each) for o in operand.items]))
            continue
        sources.append(d.fetch(operand, size))
        if not isinstance(operand, Not) and not (
            isinstance(operand, Special) and SPECIAL_REGISTERS[operand.name].varies
        ):
            plain.append(d.source(operand, size))
    destinations = [o for at in match.writes for o in _destinations(i.operands[at])]
    if match.form.name == "mov.unpack":
        compute = partial(compute, count=len(destinations))
    if len(destinations) == 1 and isinstance(destinations[0], int) and len(plain) == len(sources):
        return _fast(d, compute, plain, destinations[0], signed(match))
    puts = [d.put(o, signed(match)) for o in destinations]

    def op(w: Warp) -> None:
        value = compute(*[f(w) for f in sources])
        if isinstance(value, tuple):
            for put, part in zip(puts, value, strict=False):
                put(w, part)
        else:
            puts[0](w, value)

    return op


def _vector(items: Sequence[Callable[[Warp], Array]]) -> Callable[[Warp], tuple[Array, ...]]:
    return lambda w: tuple(f(w) for f in items)


def _destinations(operand: Operand) -> tuple[Operand, ...]:
    if isinstance(operand, Vector):
        return operand.items
    first, second = pair(operand)
    return (first,) if first is operand else (first, second)


def _fast(d: Decoder, compute: Callable[..., Any], sources: list[int], at: int, sign: bool) -> Op:
    """The common case: all sources are registers or constants, and there is one destination register."""
    kind = d.types[at]
    where, put = np.where, d.put(at, sign)

    def finish(w: Warp, value: Array) -> None:
        if value.dtype is not kind and value.dtype != kind:
            put(w, value)
        elif w.full:
            w.regs[at] = value
        else:
            w.regs[at] = where(w.mask, value, w.regs[at])

    if len(sources) == 1:
        (a,) = sources

        def one(w: Warp) -> None:
            finish(w, compute(w.regs[a]))

        return one
    if len(sources) == 2:
        a, b = sources

        def two(w: Warp) -> None:
            regs = w.regs
            finish(w, compute(regs[a], regs[b]))

        return two
    if len(sources) == 3:
        a, b, c = sources

        def three(w: Warp) -> None:
            regs = w.regs
            finish(w, compute(regs[a], regs[b], regs[c]))

        return three

    def many(w: Warp) -> None:
        regs = w.regs
        finish(w, compute(*[regs[s] for s in sources]))

    return many


for _name in COMPUTE:
    FORMS[_name] = _scalar


def _with_carry(d: Decoder, i: Instruction) -> Op:
    """Arithmetic that reads or writes the carry flag CC.CF (9.7.2)."""
    match = i.match
    assert match is not None
    compute = carry(match)
    reads, writes = not match.form.name.endswith(".cc"), match.modes.sets_carry
    kinds = source_types(match)
    sources = [d.fetch(i.operands[at], kind.itemsize) for at, kind in zip(match.reads, kinds, strict=True)]
    put = d.put(i.operands[match.writes[0]])

    def op(w: Warp) -> None:
        value, out = compute(*[f(w) for f in sources], w.carry if reads else np.zeros_like(w.carry))
        put(w, value)
        if writes:
            w.carry = np.where(w.mask, out, w.carry).astype(np.uint32)

    return op


for _name in ("add.cc", "addc", "sub.cc", "subc", "mad.cc", "madc"):
    FORMS[_name] = _with_carry
