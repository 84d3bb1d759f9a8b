"""Callees inside their callers: registers, labels, guards, returns, recursion, and calls that stay calls."""

from __future__ import annotations

import pytest

from tclint.analyses.model import KernelModel
from tclint.ir.inline import inlinable, inline
from tests.tools.support import HOPPER, built, kernel, module

HELPERS = """
.version 8.0
.target sm_90a
.address_size 64
.func fence() { wgmma.fence.sync.aligned; ret; }
.func early(.reg .b32 n) { .reg .pred %p<2>; setp.eq.s32 %p1, n, 0; @%p1 ret; wgmma.wait_group.sync.aligned 0; ret; }
.func outer() { call fence; ret; }
.func again() { wgmma.commit_group.sync.aligned; call again; ret; }
.func plain() { .reg .b32 %r<2>; mov.u32 %r1, 1; ret; }
.func long() { .reg .b32 %r<2>; mov.u32 %r1, 1; LONG ret; }
.func caller() { .reg .b32 %r<2>; mov.u32 %r1, 1; call plain; ret; }
.func middle() { .reg .b32 %r<2>; mov.u32 %r1, 1; HALF ret; }
.func thrice() { call middle; call middle; call middle; ret; }
.func longer() { call long; ret; }
.extern .func unseen();
.func elsewhere() { call unseen; ret; }
.func itself() { call itself; ret; }
""".replace("LONG", "add.u32 %r1, %r1, 1; " * 40).replace("HALF", "add.u32 %r1, %r1, 1; " * 8)


def inlined(body: str) -> KernelModel:
    text = (
        HELPERS
        + ".visible .entry k(.param .u64 to)\n{\n.reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %rd<3>;\n"
        + body
        + "\nret;\n}\n"
    )
    module = built(text)
    kernel = module.function("k")
    assert kernel is not None
    return KernelModel(inline(kernel, inlinable(module)), module)


def opcodes(model: KernelModel) -> list[str]:
    return [i.opcode for i in model.function.instructions]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("call fence;", ["wgmma.fence.sync.aligned", "bra", "ret"]),
        ("call outer;", ["wgmma.fence.sync.aligned", "bra", "bra", "ret"]),
        ("@%p1 call fence;", ["bra", "wgmma.fence.sync.aligned", "bra", "ret"]),
        ("call plain;", ["mov.u32", "bra", "ret"]),
        ("call long;", ["call", "ret"]),
        ("call caller;", ["mov.u32", "mov.u32", "bra", "bra", "ret"]),
        ("call thrice;", ["call", "ret"]),
        ("call longer;", ["call", "ret"]),
        ("call elsewhere;", ["call", "ret"]),
        ("call itself;", ["call", "ret"]),
        ("proto: .callprototype _ ();\ncall %rd1, (), proto;", ["call", "ret"]),
        ("fence: .callprototype _ ();\ncall %rd1, (), fence;", ["call", "ret"]),
    ],
)
def test_what_is_inlined(body: str, expected: list[str]) -> None:
    assert opcodes(inlined(body)) == expected


def test_a_guarded_call_is_branched_around() -> None:
    model = inlined("@!%p1 call fence;\nmov.u32 %r1, 2;")
    skip = model.function.instructions[0]
    assert (skip.negated, skip.targets) == (False, (3,))
    assert model.function.instructions[3].opcode == "mov.u32"


def test_a_predicated_return_leaves_the_callee_only() -> None:
    model = inlined("call early, (%r1);\nmov.u32 %r2, 3;")
    assert opcodes(model)[:4] == ["setp.eq.s32", "bra", "wgmma.wait_group.sync.aligned", "bra"]
    early, late = model.function.instructions[1], model.function.instructions[3]
    assert early.guard >= 0
    assert early.targets == late.targets == (4,)
    assert model.function.registers[early.guard].name == "%p1"
    assert early.guard != model.function.instructions[4].writes[0]


def test_recursion_stays_a_call() -> None:
    model = inlined("call again;")
    assert opcodes(model) == ["wgmma.commit_group.sync.aligned", "call", "bra", "ret"]


def test_two_calls_have_registers_of_their_own() -> None:
    model = inlined("call early, (%r1);\ncall early, (%r2);")
    first, second = (i for i in model.function.instructions if i.opcode == "setp.eq.s32")
    assert first.writes != second.writes
    assert first.start == second.start


PASSING = """
.func (.param .b32 result) inner(.param .b32 given)
{
    .reg .b32 %r<4>;
    ld.param.b32 %r1, [given];
    wgmma.fence.sync.aligned;
    st.param.b32 [result], %r1;
    ret;
}
.func (.param .b32 result) outer(.param .b32 given)
{
    .reg .b32 %r<4>;
    .param .b32 passed, back;
    ld.param.b32 %r1, [given];
    st.param.b32 [passed], %r1;
    call (back), inner, (passed);
    ld.param.b32 %r2, [back];
    st.param.b32 [result], %r2;
    ret;
}
"""


def test_what_a_call_passes_is_moved_through_registers_of_that_call() -> None:
    """Each call has registers of its own, so what two calls of one function pass is never confused (9.7.13.5)."""
    call = (
        "{ .param .b32 to, from; st.param.b32 [to], 7; call (from), outer, (to); ld.param.b32 %r1, [from]; }"
    )
    text = module(PASSING, kernel(f"{call}\n{call}\n    ret;"), header=HOPPER)
    made = built(text)
    function = inline(made.functions[-1], inlinable(made))
    moves = [i for i in function.instructions if i.opcode == "mov.b32"]
    assert len(moves) == 2 * 8
    assert not any(".param" in i.opcode for i in function.instructions)
    first, second = moves[:8], moves[8:]
    # Each move copies what the one before it has written, from the argument to the result.
    for call_moves in (first, second):
        assert [i.reads for i in call_moves] == [(), *(i.writes for i in call_moves[:-1])]
    (result,) = first[-1].writes
    written = [{register for i in half for register in i.writes} - {result} for half in (first, second)]
    assert written[0].isdisjoint(written[1])


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ("st.param.b32 [to], 7;\ncall (from), outer, (to);\nld.param.b32 %r1, [from];", 7),
        ("st.param.b32 [to], 7;\ncall (from), outer, (to);\nld.param.u32 %r1, [from];", 7),
        (
            "st.param.b32 [to], 6;\nst.param.b32 [to], 7;\ncall (from), outer, (to);\nld.param.b32 %r1, [from];",
            7,
        ),
        (
            "st.param.b32 [to], 7;\n@%p1 st.param.b32 [to], 7;\ncall (from), outer, (to);\nld.param.b32 %r1, [from];",
            7,
        ),
        (
            "st.param.b32 [to], 7;\n@%p1 st.param.b32 [to], 6;\ncall (from), outer, (to);\nld.param.b32 %r1, [from];",
            None,
        ),
        ("st.param.b32 [to], 7;\ncall (from), outer, (to);\ncall again;\nld.param.b32 %r1, [from];", None),
        ("@%p1 bra L;\nst.param.b32 [to], 7;\nL: call (from), outer, (to);\nld.param.b32 %r1, [from];", None),
    ],
)
def test_what_a_call_is_given_and_returns_is_known(body: str, known: int | None) -> None:
    again = ".func again() { call again; ret; }\n"
    text = module(again + PASSING, kernel(f"{{ .param .b32 to, from; {body} }}\n    ret;"), header=HOPPER)
    made = built(text)
    function = inline(made.functions[-1], inlinable(made))
    model = KernelModel(function, made)
    result = next(i for i, r in enumerate(function.registers) if r.name == "%r1")
    last = max(i for i, x in enumerate(function.instructions) if x.writes == (result,))
    value = model.values.before(result, last + 1)
    assert model.values.known(value) == known
