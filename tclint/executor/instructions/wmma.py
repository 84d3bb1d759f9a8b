"""``wmma.load`` and ``wmma.store`` (PTX ISA 9.7.14.4); ``wmma.mma`` is in :mod:`.matrix`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tclint.executor import wmma
from tclint.executor.code import Op
from tclint.executor.decode import Decoder, executes, parts
from tclint.executor.instructions.memory import before_grid, locate, reading, writing
from tclint.executor.matrices import WIDTHS, Array, types
from tclint.executor.memory import Misaligned, SpaceMemory
from tclint.executor.state import Shared, Warp
from tclint.ir.nodes import Instruction, Operand
from tclint.isa.forms import Match

__all__: list[str] = []

Lines = Callable[[Warp], list[tuple[SpaceMemory, Array, Array]]]
"""The memories that the lines of a matrix are in: the offsets in each one, and the numbers of the lines."""


@executes("wmma.load")
def _load(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    puts = [d.put(o) for o in parts(i.operands[0])]
    run, shape = wmma.load(match), wmma.lines(match)
    lines, size = _lines(d, i, match, i.operands[1], len(puts)), shape[1]
    within = np.arange(size)

    def op(w: Warp) -> None:
        data = np.empty(shape, np.uint8)
        for memory, offsets, at in lines(w):
            if isinstance(memory, Shared):
                reading(w, memory, offsets, size, 1, True)
            else:
                before_grid(w, memory, offsets, size)
                memory.check(offsets, size)
            data[at] = memory.data[offsets[:, None] + within]
        for put, value in zip(puts, run(data, len(puts)), strict=True):
            put(w, value)

    return op


@executes("wmma.store")
def _store(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    sources = [d.fetch(o) for o in parts(i.operands[1])]
    run, (_, size) = wmma.store(match), wmma.lines(match)
    lines = _lines(d, i, match, i.operands[0], len(sources))
    within = np.arange(size)

    def op(w: Warp) -> None:
        w.machine.changes += 1
        data = run(np.stack([f(w) for f in sources]))
        for memory, offsets, at in lines(w):
            if isinstance(memory, Shared):
                writing(w, memory, offsets, size, 1, True)
            else:
                memory.check(offsets, size)
            memory.data[offsets[:, None] + within] = data[at]

    return op


def _lines(d: Decoder, i: Instruction, match: Match, address: Operand, registers: int) -> Lines:
    """Where the lines of the matrix are that an instruction moves; its fragment has so many *registers*.

    The ISA requires lines that are aligned to the size of a fragment (9.7.14.4.2), although the default strides of some
    shapes are smaller. A GPU accesses a line in pieces, so what is aligned to its elements only is executed, with a note.
    """
    where, space, width = d.address(address), match.space, WIDTHS[types(match)[0]]
    given = i.named("stride")
    stride = d.uniform(given) if given is not None else None
    count, size = wmma.lines(match)
    numbers = np.arange(count)
    element, aligned = max(1, width // 8), min(size, registers * max(4, width // 8))

    def lines(w: Warp) -> list[tuple[SpaceMemory, Array, Array]]:
        addresses = where(w)[w.mask]
        if (addresses != addresses[0]).any():
            w.machine.observe("nonuniform", w, "lanes of the warp pass different addresses of a matrix")
        distance = size if stride is None else stride(w) * width // 8
        starts = addresses[0] + numbers * distance
        if (starts % element).any():
            raise Misaligned(f"a matrix of {element}-byte elements at {int(starts[0]):#x}")
        if (starts % aligned).any():
            text = f"a line of a matrix is not aligned to {aligned} bytes, as the ISA requires"
            w.machine.note(text, w.site)
        return locate(w, space, starts, numbers, size)

    return lines
