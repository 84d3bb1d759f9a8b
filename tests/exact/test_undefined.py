"""Which bits of a result are undefined if some of its operands are."""

from __future__ import annotations

import pytest

from tclint.exact.undefined import undefined_results
from tclint.ir.nodes import Immediate, Operand
from tests.tools.support import function, kernel, module, register

ALL, HALF = 0xFFFFFFFF, 0xFFFF
CASES = [
    # instruction, undefined bits, undefined bits of its first result
    ("mov.b32 %r1, %r2;", {"%r2": ALL}, ALL),
    ("and.b32 %r1, %r2, 255;", {"%r2": ALL}, 255),
    ("and.b32 %r1, %r2, %r3;", {"%r2": ALL}, 0),
    ("and.b32 %r1, %r2, %r3;", {"%r2": ALL, "%r3": ALL}, ALL),
    ("or.b32 %r1, %r2, 65535;", {"%r2": ALL}, ALL ^ HALF),
    ("xor.b32 %r1, %r2, %r2;", {"%r2": ALL}, 0),
    ("shl.b32 %r1, %r2, 16;", {"%r2": HALF}, ALL ^ HALF),
    ("shr.u32 %r1, %r2, 16;", {"%r2": HALF}, 0),
    ("shr.u32 %r1, %r2, %r3;", {"%r2": ALL}, 0),
    ("add.s32 %r1, %r2, %r3;", {"%r2": ALL}, ALL),
    ("sub.s32 %r1, %r2, %r2;", {"%r2": ALL}, 0),
    ("mul.lo.s32 %r1, %r2, 0;", {"%r2": ALL}, 0),
    ("mad.lo.s32 %r1, %r2, %r3, %r4;", {"%r4": ALL}, ALL),
    ("bfe.u32 %r1, %r2, 16, 8;", {"%r2": HALF}, 0),
    ("bfe.u32 %r1, %r2, 8, 8;", {"%r2": HALF}, 255),
    ("prmt.b32 %r1, %r2, %r3, 0x5410;", {"%r2": ALL}, HALF),
    ("prmt.b32 %r1, %r2, %r3, 0x7632;", {"%r2": HALF}, 0),
    ("lop3.b32 %r1, %r2, %r3, %r4, 0xF0;", {"%r3": ALL, "%r4": ALL}, 0),
    ("selp.b32 %r1, %r2, %r3, %p1;", {"%r2": ALL}, 0),
    ("selp.b32 %r1, %r2, %r3, %p1;", {"%r2": ALL, "%r3": ALL}, ALL),
    ("selp.b32 %r1, 1, 2, %p1;", {"%p1": 1}, 3),
    ("setp.eq.s32 %p1, %r2, 7;", {"%r2": ALL}, 1),
    ("setp.lt.u32 %p1, %r2, 0;", {"%r2": ALL}, 0),
    ("setp.lt.and.u32 %p1, %r2, %r3, %p2;", {"%r2": ALL}, 0),
    ("and.pred %p1, %p2, %p3;", {"%p2": 1}, 0),
    ("and.pred %p1, %p2, !%p2;", {"%p2": 1}, 0),
    ("not.pred %p1, %p2;", {"%p2": 1}, 1),
    ("mov.b32 %r1, {%h1, %h2};", {"%h2": HALF}, ALL ^ HALF),
    ("mov.b32 {%h1, %h2}, %r2;", {"%r2": ALL ^ HALF}, 0),
    ("cvt.u32.u16 %r1, %h1;", {"%h1": HALF}, HALF),
    ("cvt.u16.u32 %h1, %r2;", {"%r2": ALL ^ HALF}, 0),
    ("div.u32 %r1, %r2, %r3;", {"%r3": ALL}, None),
    ("fma.rn.f32 %f1, %f2, %f3, %f4;", {"%f4": ALL}, ALL),
    ("add.f32 %f1, %f2, %f3;", {"%f2": HALF}, 0),
    ("add.rn.f16x2 %r1, %r2, %r3;", {"%r2": HALF}, HALF),
    ("cvt.rn.f16x2.f32 %r1, %f2, %f3;", {"%f2": ALL}, ALL ^ HALF),
    ("cvt.rn.f16x2.f32 %r1, %f2, %f3;", {"%f3": ALL}, HALF),
    ("cvt.rzi.s32.f32 %r1, %f2;", {"%f2": ALL}, ALL),
    ("setp.lt.f32 %p1, %f2, %f3;", {"%f2": ALL}, 1),
    ("setp.lt.and.f32 %p1, %f2, %f3, %p2;", {"%f2": ALL}, 0),
    ("slct.b32.s32 %r1, %r2, %r3, %r4;", {"%r2": ALL}, 0),
    ("add.cc.u32 %r1, %r2, %r3;", {"%r3": ALL}, ALL),
    ("ld.global.b32 %r1, [%rd1];", {"%rd1": (1 << 64) - 1}, 0),
]  # fmt: skip


def _number(operand: Operand) -> int | None:
    return operand.value if isinstance(operand, Immediate) and isinstance(operand.value, int) else None


@pytest.mark.parametrize(("code", "undefined", "expected"), CASES)
def test_bits_of_a_result(code: str, undefined: dict[str, int], expected: int | None) -> None:
    of = function(module(kernel(f"{code}\nret;")))
    instruction = of.instructions[0]
    masks = {register(of, name): bits for name, bits in undefined.items()}
    results = undefined_results(of, instruction, masks, _number)
    if expected is None:  # some bits: a quotient by any number
        assert results[instruction.writes[0]]
    else:
        assert results.get(instruction.writes[0], 0) == expected


def test_both_results_of_a_comparison() -> None:
    of = function(module(kernel("setp.lt.u32 %p1|%p2, %r1, %r2;\nret;")))
    results = undefined_results(of, of.instructions[0], {register(of, "%r1"): ALL}, _number)
    assert results == {register(of, "%p1"): 1, register(of, "%p2"): 1}
