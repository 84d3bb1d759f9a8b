"""Callees inside their callers: registers, labels, guards, returns, recursion, and calls that stay calls."""

from __future__ import annotations

import pytest

from tclint.analyses.model import KernelModel
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import Memory, Symbol
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


def test_parameters_of_a_callee_are_the_caller_s() -> None:
    """So that what is passed can be followed; what the callee passes on is its own in each call (9.7.13.5)."""
    call = (
        "{ .param .b32 to, from; st.param.b32 [to], 7; call (from), outer, (to); ld.param.b32 %r1, [from]; }"
    )
    text = module(PASSING, kernel(f"{call}\n{call}\n    ret;"), header=HOPPER)
    made = built(text)
    function = inline(made.functions[-1], inlinable(made))
    names = [
        (i.opcode[:2], o.base.name)
        for i in function.instructions
        if ".param" in i.opcode
        for o in i.operands
        if isinstance(o, Memory) and isinstance(o.base, Symbol)
    ]
    first, second = names[: len(names) // 2], names[len(names) // 2 :]
    own = [name for _, name in first if name not in ("to", "from")]
    passed, back = dict.fromkeys(own)
    assert first == [
        ("st", "to"), ("ld", "to"), ("st", passed), ("ld", passed), ("st", back), ("ld", back), ("st", "from"),
        ("ld", "from"),
    ]  # fmt: skip
    assert {passed, back} < function.variables.keys()
    assert not {passed, back} & {name for _, name in second}


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
    last = max(i for i, x in enumerate(function.instructions) if x.opcode.startswith("ld.param"))
    value = model.values.before(function.instructions[last].writes[0], last + 1)
    assert model.values.known(value) == known
