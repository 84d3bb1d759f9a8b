"""Matrix instructions of one warp: ``mma``, ``ldmatrix``, ``stmatrix``, ``movmatrix`` (PTX ISA 9.7.14)."""

from __future__ import annotations

import numpy as np

from tclint.executor import matrices, wmma
from tclint.executor.code import Op
from tclint.executor.decode import Decoder, executes, parts
from tclint.executor.errors import Unsupported
from tclint.executor.instructions.memory import reading, shared_of, writing
from tclint.executor.matrices import Array
from tclint.executor.memory import Fault, Misaligned
from tclint.executor.state import Warp
from tclint.ir.nodes import Instruction

__all__: list[str] = []

_ROW = np.arange(matrices.ROW)


_MMA = matrices.MMA | wmma.MMA


@executes(*_MMA)
def _mma(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    run = _MMA[match.form.name](match)
    puts = [d.put(o) for o in parts(i.operands[0])]
    sources = [[d.fetch(o) for o in parts(operand)] for operand in i.operands[1:]]
    stacked = [len(s) > 1 or n < 3 for n, s in enumerate(sources)]

    def op(w: Warp) -> None:
        values = [
            np.stack([f(w) for f in group]) if vector else group[0](w)
            for group, vector in zip(sources, stacked, strict=True)
        ]
        for put, value in zip(puts, run(*values), strict=True):
            put(w, value)

    return op


@executes("ldmatrix", "ldmatrix.8bit", "ldmatrix.s4")
def _ldmatrix(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    count, checked, run = match.address_lanes, match.checked_lanes(d.function.target), matrices.load(match)
    size = matrices.row_size(match)
    row = _ROW[:size]
    puts = [d.put(o) for o in parts(i.operands[0])]
    where = d.address(i.operands[1])

    def op(w: Warp) -> None:
        addresses = where(w)
        memory, _ = shared_of(w, int(addresses[0]), not match.space)
        offsets = addresses[:count] & 0xFFFFFF
        _validate(addresses[count:checked] & 0xFFFFFF, memory.data.size)
        reading(w, memory, offsets, size, 1, True)
        rows = memory.data[offsets[:, None] + row]
        odd = offsets[offsets & 15 != 0]
        if (odd & size - 1).any():
            raise Misaligned(f"a row of ldmatrix at {int(odd[odd & size - 1 != 0][0]):#x}")
        if odd.size:
            raise Unsupported(
                f"a row of ldmatrix.s8.s4 at {int(odd[0]):#x}: the manual does not state its alignment"
            )
        for put, value in zip(puts, run(rows), strict=True):
            put(w, value)

    return op


def _validate(offsets: Array, size: int) -> None:
    """Check the addresses of lanes that have no row, in shared memory of *size* bytes. Raises Fault for an invalid one."""
    wrong = offsets[(offsets & 15 != 0) | (offsets + 16 > size)]
    if wrong.size:
        raise Fault(f"invalid address: a lane without a row of ldmatrix at {int(wrong[0]):#x}")


@executes("stmatrix")
def _stmatrix(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    count, run = match.address_lanes, matrices.store(match)
    where = d.address(i.operands[0])
    sources = [d.fetch(o) for o in parts(i.operands[1])]

    def op(w: Warp) -> None:
        addresses = where(w)
        memory, _ = shared_of(w, int(addresses[0]), not match.space)
        offsets = addresses[:count] & 0xFFFFFF
        if (offsets & 15).any():
            raise Misaligned(f"a row of stmatrix at {int(offsets[(offsets & 15) != 0][0]):#x}")
        writing(w, memory, offsets, 16, 1, True)
        memory.data[offsets[:, None] + _ROW] = run(np.stack([f(w) for f in sources]))

    return op


@executes("movmatrix")
def _movmatrix(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    run = matrices.movmatrix(match)
    put, source = d.put(i.operands[0]), d.fetch(i.operands[1])

    def op(w: Warp) -> None:
        put(w, run(source(w)))

    return op
