"""Kernels made at random: what is proved of shared memory, the executor observes no race in."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("numpy", reason="the executor computes with numpy")

from tclint.findings.verdicts import HazardClass, Status
from tclint.verdicts import verdicts
from tests.tools.execution import REGISTERS, run
from tests.tools.support import analysed, kernel, module

START = """mov.u32 %r1, %tid.x;
mov.u32 %r3, smem;
mov.b32 %r9, 3;
setp.eq.s32 %p1, %r1, 0;
setp.lt.u32 %p2, %r1, 32;
setp.eq.s32 %p3, %r9, 0;
and.b32 %r8, %r1, 31;
setp.eq.s32 %p4, %r8, 0;
shl.b32 %r7, %r1, 2;
mov.b32 %r20, 0;
mov.b32 %r21, 0;"""
OFFSETS = (
    "mov.b32 {0}, %r7;",
    "shl.b32 {0}, %r1, 3;",
    "shr.u32 {0}, %r1, 5;\nshl.b32 {0}, {0}, 2;",
    "xor.b32 {0}, %r7, 28;",
    "mov.b32 {0}, 0;",
    "shl.b32 {0}, %r20, 2;\nadd.s32 {0}, {0}, %r7;",
    "shl.b32 {0}, %r20, 9;\nadd.s32 {0}, {0}, %r7;",
    "and.b32 {0}, %r20, 1;\nshl.b32 {0}, {0}, 9;\nadd.s32 {0}, {0}, %r7;",
    "shl.b32 {0}, %r21, 8;\nadd.s32 {0}, {0}, %r7;",
)
"""Offsets of the accesses: words of each thread or warp, swizzled, one of all, and stages of the loop counters."""
GUARDS = ("", "", "", "", "@%p1 ", "@%p2 ", "@!%p2 ", "@%p3 ", "@%p4 ")
SIZE = 64


class Maker:
    """Makes one kernel of a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.labels = 0

    def block(self, depth: int, size: int) -> str:
        return "\n".join(self.statement(depth) for _ in range(size))

    def statement(self, depth: int) -> str:
        kind = self.rng.choices(("store", "load", "atomic", "barrier", "loop", "branch"), (6, 5, 1, 5, 2, 2))[
            0
        ]
        if kind == "barrier":
            return self.rng.choice(["bar.sync 0;"] * 8 + ["bar.warp.sync -1;", "bar.sync 1;"])
        if kind in ("loop", "branch") and depth < 2:
            self.labels += 1
            label, again = f"L{self.labels}", f"%p{10 + self.labels % 20}"
            inside = self.block(depth + 1, self.rng.randrange(1, 4))
            if kind == "branch":
                guard = self.rng.choice(("%p1", "%p3", "!%p3"))
                if guard == "%p1":
                    inside = inside.replace("bar.sync 0;", "").replace("bar.sync 1;", "")
                return f"@{guard} bra {label};\n{inside}\n{label}:"
            counter = f"%r{20 + depth}"
            return f"mov.b32 {counter}, 0;\n{label}:\n{inside}\nadd.s32 {counter}, {counter}, 1;\nsetp.lt.s32 {again}, {counter}, 3;\n@{again} bra {label};"  # fmt: skip
        register = f"%r{30 + self.rng.randrange(8)}"
        address = f"{self.rng.choice(OFFSETS).format(register)}\nadd.s32 {register}, {register}, %r3;"
        at = f"[{register}+{self.rng.choice((0, 0, 0, 4, 128, 512))}]"
        guard = self.rng.choice(GUARDS)
        if kind == "load":
            return f"{address}\n{guard}ld.shared.b32 %r50, {at};"
        if kind == "atomic":
            return f"{address}\n{guard}atom.shared.add.u32 %r51, {at}, 1;"
        return f"{address}\n{guard}st.shared.b32 {at}, {self.rng.choice(('%r9', '%r1', '7'))};"


@pytest.mark.parametrize("first", range(0, 160, 40))
def test_what_is_proved_of_random_kernels_is_not_refuted(first: int) -> None:
    proved = 0
    for seed in range(first, first + 40):
        maker = Maker(seed)
        body = f"{START}\n{maker.block(0, maker.rng.randrange(3, 7))}"
        text = module(kernel(f"{body}\nret;", registers=REGISTERS, directives=f".reqntid {SIZE}"))
        found = verdicts(analysed(text), only=[HazardClass.SHARED_MEMORY])
        if any(v.status is Status.PROVED and v.obligations for v in found):
            proved += 1
            for how in ("eager", "random:1"):
                assert "unordered" not in run(body, block=SIZE, how=how).kinds, body
    assert proved
