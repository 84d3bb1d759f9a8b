"""A fact that instructions of a test mark, and the search for a path on which it lives."""

from __future__ import annotations

from typing import Any

from tclint.analyses.model import FactQuery, KernelModel
from tclint.dataflow import EXIT, Path
from tclint.ir import Instruction
from tests.tools.support import register

START, STOP, STEP, USE = "mov.u32 %r50, 1;", "mov.u32 %r51, 1;", "mov.u32 %r52, 1;", "mov.u32 %r53, 1;"
"""The fact begins; it ends; it grows older; it is used."""


class Markers:
    """What a solved analysis offers to a search: the instructions at which the fact changes."""

    def __init__(self, of: KernelModel) -> None:
        marks = {register(of.function, f"%r{n}"): n for n in (50, 51, 52, 53) if _used(of, n)}
        self.kind = {
            i: marks[w] for i, ins in enumerate(of.function.instructions) for w in ins.writes if w in marks
        }
        self.affecting = [[i for i in range(b.start, b.end) if i in self.kind] for b in of.cfg.blocks]

    def blocks_reached_by(self, site: int) -> None:
        """Any fact may be anywhere."""


def _used(of: KernelModel, n: int) -> bool:
    return any(r.name == f"%r{n}" for r in of.function.registers)


def search(of: KernelModel, start: int, to: int, age: int = 0) -> Path | None:
    """A path on which the fact of *start* lives until *to* and has grown to *age*."""
    markers: Any = Markers(of)

    def step(state: int, i: int, instruction: Instruction) -> int | None:
        kind = markers.kind.get(i)
        if kind == 51 or i == start:
            return None
        return min(state + 1, 2) if kind == 52 else state

    return of.path(
        FactQuery(
            start, 0, markers, step, lambda state, i: i == to and state >= age, () if to == EXIT else (to,)
        )
    ).witness
