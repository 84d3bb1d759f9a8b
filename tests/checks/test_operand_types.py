"""Operands of the wrong type, kind or state space, as ptxas sees them."""

from __future__ import annotations

import pytest

from benchmarks.features import refusal
from benchmarks.ptxas import Ptxas
from tests.tools.ptxas import find_ptxas
from tests.tools.support import by_rule, lint

REGISTERS = """\
.reg .pred %p<8>; .reg .b16 %h<8>; .reg .f16 %e<8>; .reg .b32 %r<8>; .reg .u32 %u<8>; .reg .s32 %s<8>; .reg .f32 %f<8>;
.reg .f16x2 %g<8>; .reg .b64 %rd<8>; .reg .s64 %sd<8>; .reg .f64 %fd<8>;
.shared .align 16 .b8 smem[64]; .local .align 16 .b8 lmem[64];
"""
HEAD = """\
.version 9.0
.target sm_90
.address_size 64
.global .align 16 .b8 gmem[64];
.func fn() { ret; }
.entry k(.param .u64 P0)
{
"""

CASES = {
    "add.s32 %s1, %u1, %r1;": "",
    "add.s32 %f1, %s1, %r1;": "operand 1 (d) is a .f32 register, but the type is .s32",
    "add.f32 %f1, %r1, %f2;": "",
    "add.f32 %f1, %s1, %f2;": "operand 2 (a) is a .s32 register, but the type is .f32",
    "add.f32 %f1, %f2, 5;": "operand 3 (b) is an integer, but the type is .f32",
    "add.f32 %f1, %f2, 0f3F800000;": "",
    "add.s32 %r1, %r2, .5;": "operand 3 (b) is a floating-point constant, but the type is .s32",
    "and.b32 %f1, %s1, %g1;": "",
    "mov.b32 %r1, 0f3F800000;": "",
    "mov.f32 %f1, 127;": "operand 2 (a) is an integer, but the type is .f32",
    "add.f16x2 %g1, %r1, %g2;": "",
    "add.f16x2 %g1, %u1, %g2;": "operand 2 (a) is a .u32 register, but the type is .f16x2",
    "add.s32 %r1, %g1, %r2;": "",
    "ld.global.f32 %rd1, [%rd2];": "",
    "ld.global.f32 %fd1, [%rd2];": "operand 1 (d) is a .f64 register, but the type is .f32",
    "ld.global.u8 %s1, [%rd2];": "",
    "ld.global.u8 %f1, [%rd2];": "operand 1 (d) is a .f32 register, but the type is .u8",
    "mov.u32 %r1, %tid.x;": "",
    "cvt.u64.u32 %rd1, %tid.x;": "",
    "add.u32 %r1, %tid.x, 1;": "operand 2 (a) is the special register %tid.x, but must be a register",
    "st.local.u8 [%rd1], %laneid;": "operand 2 (b) is the special register %laneid, but must be a register",
    "mov.u32 %tid.x, %r1;": "operand 1 (d) is the special register %tid.x, but must be a register",
    "mov.u64 %rd1, gmem;": "",
    "add.u64 %rd1, gmem, 4;": "operand 2 (a) is the address of gmem, but must be a register",
    "ld.shared.b32 %r1, [smem+4];": "",
    "ld.global.b32 %r1, [smem+4];": "operand 2 (a) is an address in .shared, but must be in .global",
    "ld.param.b64 %rd1, [P0];": "",
    "st.global.b32 [P0], %r1;": "operand 1 (a) is an address in .param, but must be in .global",
    "ld.b32 %r1, [smem];": "",
    "ld.local.b32 %r1, [4];": "",
    "ld.shared.b32 %r1, [4];": "operand 2 (a) is a constant address, which only .local has",
    "ld.global.b32 %r1, [%f1];": "operand 2 (a) is an address in a .f32 register, but must be an integer",
    "and.pred %p1, _, %p2;": "operand 2 (a): the sink _ is not allowed here",
    "mov.b64 %rd1, {%r1, _};": "operand 2 (a) is a source, but contains the sink _",
    "mov.b64 {%r1, _}, %rd1;": "",
    "mov.b32 %r1, {%h1, _};": "",
    "st.global.v4.b32 [%rd1], {%r1, _, _, %r2};": "operand 2 (b) is a source, but contains the sink _",
    "ld.global.v2.b32 {%r1, _}, [%rd1];": "",
    "ld.global.v2.b32 {%r1, %p1}, [%rd1];": "",
    "mov.b64 %rd1, {%p1, %r1};": "",
    "ld.global.v2.f32 {%f1, %p1}, [%rd1];": "operand 1 (d) is a predicate, but must be a register of 32 or more bits",
    "ld.global.v2.b64 {%p1, %r1}, [%rd1];": "operand 1 (d) is a predicate, but must be a register of 64 or more bits",
    "red.global.v2.f32.add [%rd1], {%f1, _};": "operand 2 (b) is a source, but contains the sink _",
    "tex.2d.v4.s32.f32 {%r1, %r2, %r3, %r4}, [%rd1, {%f1, _}];": "operand 2 (a) is an address, but contains the sink _",
    "tex.2d.v4.s32.f32 {%r1, _, %r3, _}, [%rd1, {%f1, %f2}];": "",
    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, _}], [smem];": "operand 1 (tensorMap) is an address, but contains the sink _",
    "add.s32 _, %r1, %r2;": "operand 1 (d): the sink _ is not allowed here",
    "setp.eq.s32 _, %r1, %r2;": "",
    "setp.eq.s32 %p1|%r1, %r2, 0;": "operand 1 (p) is a pair whose second part is a 32-bit register, but must be a predicate",
    "shfl.sync.up.b32 %r1|%h1, %r2, 1, 0, -1;": "operand 1 (d) is a pair whose second part is a 16-bit register, but must be a predicate",
    "shfl.sync.up.b32 %r1|_, %r2, 1, 0, -1;": "",
    "elect.sync _|%p2, -1;": "",
    "shfl.sync.bfly.b32 %r1, %r2, 0f7FC00000, 0f00000000, -1;": "",
    "elect.sync %s1|%p2, -1;": "",
    "elect.sync %f1|%p2, -1;": "operand 1 (d) is a .f32 register, but the type is .u32",
    "elect.sync %h1|%p2, -1;": "operand 1 (d) is a 16-bit register, but must be a 32-bit register",
    "elect.sync %r1|%rd1, -1;": "operand 1 (d) is a pair whose second part is a 64-bit register, but must be a predicate",
    "lop3.b32 _, %r1, %r2, %r3, 3;": "",
    "atom.global.add.u32 _, [%rd1], 1;": "",
    "ld.global.v2.b32 {%r1, 3}, [%rd1];": "operand 1 (d) is a result, but contains a constant",
    "selp.b32 %r1, %r2, 0, %p1;": "",
    "mov.pred %p1, 1;": "",
    "mov.b32 %r1, 1.5;": "operand 2 (a) is a floating-point constant of double precision, but the type is .b32",
    "mov.b64 %rd1, 1.5;": "",
    "mov.b64 %rd1, 0f3F800000;": "operand 2 (a) is a floating-point constant of single precision, but the type is .b64",
    "mov.f64 %fd1, 0f3F800000;": "",
    "mov.f32 %f1, - 1.5;": "",
    "mov.u32 %r1, -%r2;": "operand 2 (a): a negated register is not allowed here",
    "vmad.s32.s32.s32 %r1, -%r2, %r3, %r4;": "",
    "xor.b32 %r1, %r2, !%r3;": "operand 3 (b) is a negated .b32 register, but only a predicate can be negated",
    "mov.u16 %h1, %tid.x;": "",
    "mov.u32 %r1, %gridid;": "",
    "cp.async.ca.shared.global [%r1], [%rd1], 4, %p1;": "",
    "cp.async.ca.shared.global [%r1], [%rd1], 4, %rd1;": "operand 4 (src-size) is a 64-bit register, but must be a 32-bit register or a predicate",
    "bar.sync 0, smem;": "operand 2 (b): a symbol is not allowed here",
    "mov.u16 %h1, %laneid;": "operand 2 (a) is a 32-bit register, but must be a 16-bit register",
    "mov.u16 %h1, %clusterid.x;": "operand 2 (a) is a 32-bit register, but must be a 16-bit register",
    "mov.u32 %r1, %clock64;": "operand 2 (a) is a 64-bit register, but must be a 32-bit register",
    "cvt.u32.u32 %r1, %clock64;": "",
    "mov.u64 %rd1, %tid.x;": "operand 2 (a) is a 32-bit register, but must be a 64-bit register",
    "mov.b32 %r1, %tid;": "operand 2 (a) is the special register %tid, which is a vector",
    "cvt.rn.f32.u32 %f1, %tid.x;": "operand 2 (a) is the special register %tid.x, but must be a register",
    "cvt.u64.u64 %rd1, %tid.x;": "operand 2 (a) is a 32-bit register, but must be a register of 64 or more bits",
    "setp.eq.s32 %p1|5, %r2, 0;": "operand 1 (p) is a pair whose second part is not a register, but must be a predicate",
    "@%r1 mov.u32 %r1, 0;": "the guard is a .b32 register, but must be a predicate",
    "@%is_explicit_cluster mov.u32 %r1, 0;": "",
}
"""Instruction -> what is wrong with it."""


@pytest.mark.parametrize("instruction", CASES)
def test_an_operand_is_refused_for_its_type(instruction: str) -> None:
    found = by_rule(lint(f"{HEAD}{REGISTERS}{instruction}\nret;\n}}\n"), "PX003")
    said = [f.message.partition(": ")[2] for f in found]
    assert said == ([CASES[instruction]] if CASES[instruction] else [])


def test_ptxas_refuses_the_same_operands() -> None:
    errors = Ptxas(find_ptxas()).errors(
        [f"{{ {REGISTERS.replace(chr(10), ' ')} {instruction} }}" for instruction in CASES], (9, 0), "sm_90"
    )
    assert [bool(error) for error in errors] == [bool(said) for said in CASES.values()]


CALLS = {
    "call one, (%r1);": "",
    "call one, (1);": "",
    "call (%r1), both, (%r2, %r3);": "",
    "call fn;": "",
    "{ .param .b8 x[4]; call open, (%r1, x); }": "",
    "call one;": "one has 1 arguments, not 0",
    "call one, (%r1, %r2);": "one has 1 arguments, not 2",
    "call (%r1), one, (%r2);": "one has 0 results, not 1",
    "call both, (%r2, %r3);": "both has 1 results, not 0",
    "call one, (%f1);": "",
    "call one, (2.5);": "",
    "call one, (-%r1);": "a negated register cannot be an argument or a result",
    "call one, (!%p1);": "a negated predicate cannot be an argument or a result",
    "call one, ([%r1]);": "an address cannot be an argument or a result",
    "call one, (%tid.x);": "a special register cannot be an argument or a result",
    "call one, (%laneid);": "a special register cannot be an argument or a result",
    "call one, (1+1);": "",
    "call one, (%rd1);": "argument 1 (a) of one is a 64-bit register, but must be a 32-bit register",
    "call one, (%p1);": "argument 1 (a) of one is a predicate, but must be a 32-bit register",
    "call (%rd1), both, (%r2, %r3);": "result 1 (r) of both is a 64-bit register, but must be a 32-bit register",
    "call real, (%r1);": "",
    "call real, (%s1);": "argument 1 (a) of real is a .s32 register, but the type is .f32",
    "call real, (1);": "argument 1 (a) of real is an integer, but must be of type .f32",
    "call real, (1.0);": "",
    "{ .param .f32 x; call real, (x); }": "",
    "{ .param .b32 x; call real, (x); }": "",
    "{ .param .s32 x; call real, (x); }": "argument 1 (a) of real is of type .s32, but must be of type .f32",
    "{ .param .b64 x; call real, (x); }": "argument 1 (a) of real is of type .b64, but must be of type .f32",
    "{ .param .align 8 .b8 x[16]; call block, (x); }": "",
    "{ .param .align 8 .b32 x[4]; call block, (x); }": "",
    "{ .param .align 4 .b8 x[16]; call block, (x); }": "argument 1 (a) of block is aligned to 4 bytes, but must be aligned to 8",
    "{ .param .align 8 .b8 x[8]; call block, (x); }": "argument 1 (a) of block is an array of 8 bytes, but must be an array of 16 bytes",
    "{ .param .b64 x; call block, (x); }": "argument 1 (a) of block is of type .b64, but must be an array of 16 bytes",
    "{ .param .b64 x; call wide, (x); } { .param .f32 x; call real, (x); }": "",
    "call block, (%rd1);": "argument 1 (a) of block is a register, but must be an array of 16 bytes",
    "call block, (1);": "argument 1 (a) of block is an integer, but must be an array of 16 bytes",
    "{ .reg .v2 .b32 both; call wide, (both); }": "",
    "{ .param .align 8 .b8 x[8]; call wide, (x); }": "argument 1 (a) of wide is an array of 8 bytes, but must be of type .b64",
    "{ .extern .func inner(.reg .b32 a); call inner, (%r1); }": "",
    "{ .extern .func inner(.reg .b32 a); call inner; }": "inner has 1 arguments, not 0",
    "call k2;": "k2 is a kernel, which cannot be called",
    "call (%r1), %rd1, (%r2);": "an indirect call must name its .callprototype or .calltargets",
    "call %rd1;": "an indirect call must name its .callprototype or .calltargets",
    "{ P: .callprototype _ (.reg .b32 a); call %rd1, (%r1), P; }": "",
}
FUNCTIONS = """\
.func one(.reg .b32 a) { ret; }
.func (.reg .b32 r) both(.reg .b32 a, .reg .b32 b) { mov.b32 r, a; ret; }
.func real(.param .f32 a) { ret; }
.func block(.param .align 8 .b8 a[16]) { ret; }
.func wide(.param .b64 a) { ret; }
.func open(.param .b32 a, .param .b8 b[]) { ret; }
.entry k2() { ret; }
"""


@pytest.mark.parametrize("call", CALLS)
def test_a_call_fits_its_function(call: str) -> None:
    head, _, entry = HEAD.partition(".entry")
    found = by_rule(lint(f"{head}{FUNCTIONS}.entry{entry}{REGISTERS}{call}\nret;\n}}\n"), "PX003")
    assert [f.message.partition(": ")[2] for f in found] == ([CALLS[call]] if CALLS[call] else [])


def test_ptxas_refuses_the_same_calls() -> None:
    head, _, entry = HEAD.partition(".entry")
    start = f"{head}{FUNCTIONS}.entry{entry}{REGISTERS}"
    refused = {call: refusal(find_ptxas(), f"{start}{call}\nret;\n}}\n", "sm_90") for call in CALLS}
    assert {call: bool(why) for call, why in refused.items()} == {
        call: bool(why) for call, why in CALLS.items()
    }
