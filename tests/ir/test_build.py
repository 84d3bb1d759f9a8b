"""From text to instructions: names in their scopes, operands, guards, branch tables, locations."""

from __future__ import annotations

import sys
from importlib import import_module
from operator import is_

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.features import refusal
from tclint.ir import SINK, Function, Immediate, Memory, Not, OperandPair, Special, Symbol, Vector
from tclint.ir.declarations import ONE_REGISTER, declared
from tclint.ir.features import note
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import FeatureUse, Location, Negated, symbols
from tests.tools.ptxas import find_ptxas
from tests.tools.support import HEADER, REGISTERS, built, function, kernel, module, register


def body(text: str, **options: str) -> Function:
    """A kernel with *text* as its body and no declarations but those in it."""
    return function(module(kernel(text, **({"registers": ""} | options))))


def names(f: Function, at: int) -> list[str]:
    """The registers that an instruction writes, then those that it reads."""
    ins = f.instructions[at]
    return [f.registers[r].name for r in (*ins.writes, *ins.reads)]


# ---------------------------------------------------------------- registers and scopes


def test_a_range_declares_its_numbers_and_no_more() -> None:
    f = body(".reg .b32 %r<18>;\nmov.u32 %r0, %r17;\nmov.u32 %r1, %r18;")
    assert names(f, 0) == ["%r0", "%r17"]
    assert [(t.kind, "%r18" in t.message) for t in f.errors] == [("undefined-register", True)]


@pytest.mark.parametrize("name", ["%r01", "%r0001", "%r00"])
def test_zeros_before_the_number_of_a_register_do_not_count(name: str) -> None:
    f = body(f".reg .b32 %r<18>;\nmov.u32 {name}, %r2;\nmov.u32 %r{int(name[2:])}, {name};")
    assert f.instructions[0].writes == f.instructions[1].writes == f.instructions[1].reads
    assert not f.errors


@pytest.mark.parametrize("name", ["%r018", "%r", "%s1", "%r1x", "%r" + "9" * 6000])
def test_what_a_range_does_not_declare(name: str) -> None:
    f = body(f".reg .b32 %r<18>;\nmov.u32 %r0, {name};\nret;")
    assert [t.kind for t in f.errors] == ["undefined-register"]


def test_a_range_whose_name_ends_in_a_digit() -> None:
    f = body(".reg .b32 r1<3>;\nmov.u32 r10, r12;")
    assert names(f, 0) == ["r10", "r12"]
    assert not f.errors


def test_one_declaration_of_many_registers() -> None:
    f = body(".reg .b32 a, %b<2>, c;\n.reg .pred p;\n@p add.s32 a, %b1, c;")
    assert names(f, 0) == ["a", "%b1", "c"]
    types = {r.name: r.type for r in f.registers}
    assert types == {"a": ".b32", "%b0": ".b32", "%b1": ".b32", "c": ".b32", "p": ".pred"}


def test_inner_scopes_have_registers_of_their_own() -> None:
    f = body(
        """
    .reg .b32 %r<4>, x;
    mov.u32 x, 1;
    { .reg .b32 x; .reg .b32 %r<2>; mov.u32 x, %r1; mov.u32 %r3, %r0; }
    { .reg .b32 x; mov.u32 x, %r1; { .reg .pred x; setp.eq.s32 x, %r1, 0; } add.s32 x, x, 1; }
    mov.u32 x, %r1;
    """
    )
    assert not f.errors
    writes = [ins.writes[0] for ins in f.instructions]
    outer, first, r3, second, predicate, again, last = writes
    assert outer == last
    assert len({outer, first, second, predicate}) == 4
    assert second == again
    assert f.registers[predicate].type == ".pred"
    inner_r1, outer_r1 = f.instructions[1].reads[0], f.instructions[3].reads[0]
    assert inner_r1 != outer_r1
    assert f.registers[r3].name == "%r3", "not in the inner range, so the outer one"
    assert f.instructions[6].reads == (outer_r1,)


def test_a_name_seen_from_outside_is_hidden_once_it_is_declared_inside() -> None:
    f = body(".reg .b32 x;\n{ mov.u32 x, 1;\n.reg .b32 x;\nmov.u32 x, 2; }\nmov.u32 x, 3;")
    a, b, c = (ins.writes[0] for ins in f.instructions)
    assert a == c
    assert b != a


def test_each_scope_has_a_variable_of_its_own() -> None:
    f = body(
        """
    .reg .b32 %r<4>;
    .shared .b32 x[4];
    { mov.u32 %r0, x; .shared .b64 x; mov.u32 %r0, x; { ld.shared.b32 %r1, [x+4]; } }
    { .local .b32 x[2]; mov.u32 %r0, x[1]; { .shared .b64 x; st.shared.v2.b32 [x], {%r0, %r1}; } }
    { .shared .b32 x; { x: bra x; } }
    mov.u32 %r0, x;
    """
    )
    assert not f.errors
    assert not f.redeclared
    of_operands = [next(symbols(i.operands)) for i in f.instructions]
    assert of_operands == ["x", "x#2", "x#2", "x#3", "x#4", "x", "x"]
    assert [(v.name, v.space, v.size) for v in f.variables.values() if v.space != ".param"] == [
        ("x", ".shared", 16), ("x#2", ".shared", 8), ("x#3", ".local", 8), ("x#4", ".shared", 8), ("x#5", ".shared", 4),
    ]  # fmt: skip


def test_parameters_of_calls_that_are_declared_alike_have_one_name() -> None:
    f = body(
        ".reg .b32 %r<2>;\n{ .param .b32 x; }\n{ .param .b32 x; }\n{ .shared .b32 x; ld.shared.b32 %r1, [x]; }"
    )
    assert [(name, v.space) for name, v in f.variables.items() if "x" in name] == [
        ("x", ".param"),
        ("x#2", ".shared"),
    ]
    assert [*symbols(f.instructions[0].operands)] == ["x#2"]


def test_a_register_declared_twice() -> None:
    f = body(".reg .b32 x;\n.reg .b32 x;\nmov.u32 x, 1;")
    assert [t.kind for t in f.errors] == ["duplicate-register"]


@pytest.mark.parametrize("count", [4, 2000, 10**9])
def test_a_range_names_the_first_register_that_is_declared_before_it(count: int) -> None:
    others = "".join(f".reg .b32 %s{n};\n" for n in range(40))
    f = body(f"{others}.reg .b32 %r3, %r01, %r2, %rd1;\n.reg .b32 %r<{count}>;")
    assert [(t.kind, t.message) for t in f.errors] == [
        ("duplicate-name", "%r2 is declared twice in one scope")
    ]


def test_the_ranges_of_a_kernel_are_looked_for_once_and_only_if_a_name_is_undeclared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[str] = []
    made = import_module("tclint.ir.build")
    ranges_in = made.ranges_in

    def watched(text: str) -> object:
        searched.append(text)
        return ranges_in(text)

    monkeypatch.setattr(made, "ranges_in", watched)
    text = module(
        kernel("mov.u32 %r0, %r1;", "one", registers=".reg .b32 %r<2>;"),
        kernel("mov.u32 %r2, %r3;\nmov.u32 %r7, %s1;", "two", registers=".reg .b32 %r<3>, %q<2>;"),
    )
    one, two = built(text).functions
    assert not one.errors
    declared = [t.declared for t in two.errors]
    assert [d and (text[two.start + d.start : two.start + d.end], d.needed) for d in declared] == [
        ("3", 4),
        ("3", 8),
        None,
    ]
    assert len(searched) == 1


def test_an_address_of_an_unknown_instruction_may_have_several_parts() -> None:
    f = body(".reg .b32 %0; .reg .b64 %1;\nbrand.new [%0, %1], [%1], %0;\nbrand.new [%0,%1+8];")
    assert not f.errors
    zero, one = (register(f, name) for name in ("%0", "%1"))
    assert f.instructions[0].operands == (Memory(zero, 0, (one,)), Memory(one, 0), zero)


def test_a_vector_may_be_the_first_of_a_pair() -> None:
    f = body("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}|%p1, [texture, {%f5, %f6}];", registers=REGISTERS)
    (tex,) = f.instructions
    assert isinstance(tex.operands[0], OperandPair)
    assert names(f, 0)[:5] == ["%f0", "%f1", "%f2", "%f3", "%p1"]
    assert tex.match is not None
    assert tex.match.problem == ""


@pytest.mark.parametrize("opcode", ["spdecompress.sp::2:4.x1.b16.b2", "spdecompress .sp::2:4 .x1.b16.b2"])
def test_a_single_colon_in_an_opcode(opcode: str) -> None:
    f = body(f"{opcode} {{%r1, %r2}}, {{%r3}}, {{%r4}};", registers=REGISTERS)
    assert [i.match.form.name for i in f.instructions if i.match] == ["spdecompress"]
    assert names(f, 0) == ["%r1", "%r2", "%r3", "%r4"]


# ---------------------------------------------------------------- labels


def test_equal_labels_of_different_scopes_are_different_places() -> None:
    f = body(
        """
    .reg .pred %p; .reg .b32 %r<3>;
    mov.u32 %r1, 0;
    { again: add.s32 %r1, %r1, 1; @%p bra again; }
    { again: add.s32 %r1, %r1, 2; @!%p bra again; { bra done; } done: }
    again: add.s32 %r1, %r1, 3;
    bra again;
    """
    )
    assert not f.errors
    assert [(i, ins.targets) for i, ins in enumerate(f.instructions) if ins.targets] == [
        (2, (1,)),
        (4, (3,)),
        (5, (6,)),
        (7, (6,)),
    ]
    assert f.instructions[4].negated
    assert not f.instructions[2].negated


def test_a_branch_out_of_a_scope() -> None:
    f = body("{ { bra out; } }\n{ out: }\nout: ret;")
    assert not f.errors
    assert f.instructions[0].targets == (1,)


def test_a_branch_into_a_scope_has_no_target() -> None:
    f = body("bra inside;\n{ inside: ret; }")
    assert [t.kind for t in f.errors] == ["undefined-label"]
    assert f.instructions[0].targets == (-1,)


def test_a_label_at_the_very_end() -> None:
    f = body(".reg .pred %p;\n@%p bra end;\nret;\nend:")
    assert not f.errors
    assert f.instructions[0].targets == (2,)
    assert len(f.instructions) == 2


def test_a_label_twice_in_one_scope() -> None:
    f = body("a: ret;\n{ a: ret; }\na: ret;")
    assert [t.kind for t in f.errors] == ["duplicate-label"]


TABLES = {
    "before the first instruction": "ts: .branchtargets a, b;\nbrx.idx %r0, ts;\na: ret;\nb: ret;",
    "before the branch": "mov.u32 %r0, 1;\nts: .branchtargets a, b;\nbrx.idx %r0, ts;\na: ret;\nb: ret;",
    "of an outer scope": "ts: .branchtargets a, b;\n{ { brx.idx %r0, ts; } }\na: ret;\nb: ret;",
    "whose names are in an inner scope too": "ts: .branchtargets a, b;\n{ brx.idx %r0, ts; a: b: exit; }\na: ret;\nb: ret;",
    "that names an outer label": "{ ts: .branchtargets a, b;\nbrx.idx %r0, ts; a: ret; }\nb: ret;",
}


@pytest.mark.parametrize("where", TABLES)
def test_a_branch_table(where: str) -> None:
    f = body(".reg .b32 %r<2>;\n" + TABLES[where])
    assert not f.errors
    (branch,) = [ins for ins in f.instructions if ins.opcode == "brx.idx"]
    returns = [i for i, ins in enumerate(f.instructions) if ins.opcode == "ret"]
    assert branch.targets == tuple(returns)


def test_a_branch_table_with_a_range() -> None:
    f = body(".reg .b32 %r<2>;\nts: .branchtargets L<2>, M;\nbrx.idx %r0, ts;\nL0: exit;\nL1: ret;\nM: trap;")
    assert f.instructions[0].targets == (1, 2, 3)


@pytest.mark.parametrize("label", ["L", "L<2>"])
def test_the_text_is_searched_for_labels_once_for_all_branch_tables(label: str) -> None:
    tables = "".join(f"ts{n}: .branchtargets {label};\n" for n in range(50))
    searched = 0

    def watch(frame: object, event: str, argument: object) -> None:
        nonlocal searched
        whole = getattr(argument, "__name__", "") == "count" and tables in str(
            getattr(argument, "__self__", "")
        )
        searched += event == "c_call" and whole

    old = sys.getprofile()
    sys.setprofile(watch)
    try:
        f = body(tables + "L: L0: L1: ret;")
    finally:
        sys.setprofile(old)
    assert not f.errors
    assert searched == ("<" in label)


# ---------------------------------------------------------------- operands


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("mov.u32 %r1, 0x1F;", (1, Immediate(31))),
        ("mov.u32 %r1, 0b101;", (1, Immediate(5))),
        ("mov.u32 %r1, 017;", (1, Immediate(15))),
        ("mov.u32 %r1, 5U;", (1, Immediate(5))),
        ("mov.s32 %r1, -7;", (1, Immediate(-7))),
        ("mov.u32 %r1, (3+4)*2;", (1, Immediate(14))),
        ("mov.u32 %r1, -(1<<4);", (1, Immediate(-16))),
        ("mov.u32 %r1, 7/-2;", (1, Immediate(-3))),
        ("mov.f32 %f1, 0f3F800000;", (2, Immediate(1.0))),
        ("mov.f64 %d1, -0d3FF0000000000000;", (3, Immediate(-1.0))),
        ("mov.f32 %f1, 1.5e3;", (2, Immediate(1500.0))),
        ("mov.u32 %r1, %tid.x;", (1, Special("%tid.x"))),
        ("mov.u32 %r1, WARP_SZ;", (1, Immediate(32))),
        ("mov.u64 %rd1, s+8;", (4, Symbol("s", 8))),
        ("ld.shared.u32 %r1, [s];", (1, Memory(Symbol("s")))),
        ("ld.shared.u32 %r1, [s+4];", (1, Memory(Symbol("s"), 4))),
        ("ld.global.u32 %r1, [%rd1];", (1, Memory(4))),
        ("ld.global.u32 %r1, [ %rd1 + -16 ];", (1, Memory(4, -16))),
        ("ld.global.u32 %r1, [%rd1+4*2|1];", (1, Memory(4, 9))),
        ("mov.u32 %r1, - 1;", (1, Immediate(-1))),
        ("mov.u32%r1,%r1;", (1, 1)),
        ("mov.u32 %r1, %tid .x;", (1, Special("%tid.x"))),
        ("mov.u32 %r1, WARP_SZ+1;", (1, Immediate(33))),
        ("mov.u32 %r1,\n# 1 \"x.cu\"\n1;", (1, Immediate(1))),
        ("mov.f32 %r1, (1.5);", (1, Immediate(1.5))),
        ("vmad.s32.s32.s32 %r1, -%r1.b0, %r1, -%r1;", (1, Negated(1), 1, Negated(1))),
        ("ld.global.u32 %r1, [%rd1+0x10];", (1, Memory(4, 16))),
        ("ld.shared.u32 %r1, [64];", (1, Memory(Immediate(0), 64))),
        ("st.global.v2.u32 [%rd1], {%r1, 7};", (Memory(4), Vector((1, Immediate(7))))),
        ("@%p1 bra.uni L;", (Symbol("L"),)),
        ("elect.sync _|%p1, -1;", (OperandPair(SINK, 0), Immediate(-1))),
        ("and.pred %p1, !%p1, %p1;", (0, Not(0), 0)),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1, {%r1, 3}], [s+8];",
            (Memory(Symbol("s")), Memory(4, 0, (Vector((1, Immediate(3))),)), Memory(Symbol("s"), 8)),
        ),
    ],
)  # fmt: skip
def test_operands(text: str, operands: tuple[object, ...]) -> None:
    f = body(
        ".shared .b8 s[64];\n.reg .pred %p1;\n.reg .b32 %r1;\n.reg .f32 %f1;\n.reg .f64 %d1;\n.reg .b64 %rd1;\n"
        f"{text}\nL: ret;"
    )
    assert not f.errors
    numbers = {register(f, name): at for at, name in enumerate(("%p1", "%r1", "%f1", "%d1", "%rd1"))}
    assert numbers == {i: i for i in range(5)}
    assert f.instructions[0].operands == operands
    assert f.instructions[0].match is not None


def test_guards_are_not_reads() -> None:
    f = body(".reg .pred %p<3>; .reg .b32 %r<3>;\n@!%p1 add.s32 %r0, %r1, %r2;\n@%p2\tret;")
    ins = f.instructions[0]
    assert f.registers[ins.guard].name == "%p1"
    assert ins.negated
    assert names(f, 0) == ["%r0", "%r1", "%r2"]
    assert f.registers[f.instructions[1].guard].name == "%p2"
    assert not f.instructions[1].negated


def test_comments_and_line_breaks_anywhere() -> None:
    plain = body(
        ".reg .pred %p; .reg .b32 %r<3>;\n@!%p add.s32 %r0, %r1, -4;\nst.shared.v2.u32 [%r1+8], {%r0, %r2};\nret;"
    )
    broken = body(
        """
    .reg .pred %p; // the predicate, %q
    .reg .b32 /* three: ä ö ü ☃ */ %r<3>;
    @!%p  // guard; ret;
      add.s32 /* } */ %r0,
        %r1 /* , %r9 */
        , -4
    ; // "unclosed
    st.shared.v2.u32 [ %r1 // base
      + 8 ], { %r0 , // first
      %r2 } ;
    ret /* the end */ ;
    """
    )
    assert not broken.damaged
    assert not broken.errors
    assert [(i.opcode, i.operands, i.guard, i.negated) for i in broken.instructions] == [
        (i.opcode, i.operands, i.guard, i.negated) for i in plain.instructions
    ]


def test_spans_are_bytes_relative_to_the_function() -> None:
    text = "// ☃ größer\n" + module(kernel("ret; // ☃\nmov.u32 %r1, %r2; /* ☃ */ exit;"))
    f = function(text)
    data = text.encode()
    spans = [data[f.start + i.start : f.start + i.end] for i in f.instructions]
    assert spans == [b"ret;", b"mov.u32 %r1, %r2;", b"exit;"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["// x\n", "/* y; */", "\n", "\t", " ", "/* ☃ */"]), min_size=12, max_size=12)
)
def test_blanks_do_not_matter(blanks: list[str]) -> None:
    words = ["@!%p ", "setp.eq.and.s32", " ", "%q", "|", "%p", ",", "%r1", ",", "5", ",", "!%p", ";"]
    text = words[0] + "".join(a + b for a, b in zip(words[1:], blanks, strict=True))
    f = body(f".reg .pred %p, %q; .reg .b32 %r<3>;\n{text}\nret;")
    assert not f.damaged
    p, q, r = (register(f, name) for name in ("%p", "%q", "%r1"))
    ins = f.instructions[0]
    assert ins.operands == (OperandPair(q, p), r, Immediate(5), Not(p))
    assert (ins.guard, ins.negated, ins.writes, ins.reads) == (p, True, (q, p), (r, p))


# ---------------------------------------------------------------- modules and functions


def test_a_module_of_several_functions() -> None:
    text = HEADER + (
        ".extern .func (.param .b32 r) outer (.param .b32 a, .param .b64 b);\n"
        ".visible .global .align 8 .b8 table[16] = {1, 2};\n"
        ".func helper (.reg .b32 %a) { ret; }\n"
        ".visible .entry one(.param .u64 x, .param .align 64 .b8 map[128]) .reqntid 32, 4, 2 { ret; }\n"
        ".weak .entry two() .maxntid 256 .minnctapersm 2 { .reg .b32 %r; mov.u32 %r, table; exit; }\n"
        ".entry one_more;\n"
    )
    m = built(text)
    assert m.version == (8, 6)
    assert m.targets == ("sm_100a",)
    assert m.address_size == 64
    assert [(f.name, f.entry, f.declared_only) for f in m.functions[:4]] == [
        ("outer", False, True),
        ("helper", False, False),
        ("one", True, False),
        ("two", True, False),
    ]
    assert m.variables["table"].size == 16
    one, two = m.function("one"), m.function("two")
    assert one is not None
    assert two is not None
    assert one.threads == 256
    assert two.threads is None
    assert two.directives == {".maxntid": (256,), ".minnctapersm": (2,)}
    assert [(d.name, d.numbers) for d in two.stated] == list(two.directives.items())
    assert [(p.name, p.size, p.align) for p in one.parameters] == [("x", 8, 8), ("map", 128, 64)]
    assert not any(f.errors for f in m.functions)


def test_a_definition_comes_before_its_declaration() -> None:
    m = built(HEADER + ".func f (.param .b32 a);\n.func f (.param .b32 a) { ret; }\n.func f (.param .b32 a);")
    f = m.function("f")
    assert f is not None
    assert not f.declared_only
    assert m.function("g") is None


def test_calls() -> None:
    f = function(
        module(
            ".func (.param .b32 r) get (.param .b32 a) { ret; }\n",
            kernel(
                """
    { .param .b32 a0; .param .b32 r0;
      st.param.b32 [a0], %r1;
      call.uni (r0), get, (a0);
      ld.param.b32 %r2, [r0]; }
    proto: .callprototype (.param .b32 _) _ (.param .b32 _);
    { .param .b32 a0; .param .b32 r0; call (r0), %rd1, (a0), proto; }
    """
            ),
        )
    )
    assert not f.errors
    direct, indirect = [ins for ins in f.instructions if ins.flow == "call"]
    assert Symbol("get") in direct.operands
    assert direct.writes == ()
    assert f.registers[indirect.reads[0]].name == "%rd1"


CALLEE = """
.func (.param .b32 r) get (.param .align 8 .b8 pair[8], .param .b32 n)
{
    .reg .b32 %r<4>;
    ld.param.v2.b32 {%r1, %r2}, [pair];
    ld.param.b32 %r3, [n];
    fence.proxy.async;
    st.param.b32 [r], %r1;
    ret;
}
"""
CALLER = """
    { .param .align 8 .b8 a0[8]; .param .b32 a1; .param .b32 r0;
      st.param.b32 [a0], %r1;
      st.param.b32 [a0+4], 0f3F800000;
      @%p1 st.param.b32 [a1], 7;
      call.uni (r0), get, (a0, a1);
      ld.param.b32 %r2, [r0]; }
"""


def inlined(caller: str, callee: str = CALLEE) -> tuple[Function, list[str]]:
    """The kernel with its calls inlined, and its opcodes."""
    m = built(module(callee, kernel(caller)))
    (entry,) = (f for f in m.functions if f.entry)
    f = inline(entry, inlinable(m))
    assert f is not entry
    return f, [ins.opcode for ins in f.instructions]


def test_parameters_of_an_inlined_call_are_moves() -> None:
    f, opcodes = inlined(CALLER)
    assert opcodes[:8] == [
        "mov.b32", "mov.f32", "mov.b32", "mov.b32", "mov.b32", "mov.b32", "fence.proxy.async", "mov.b32",
    ]  # fmt: skip
    first, second, guarded, low, high, n, _, stored = f.instructions[:8]
    loaded = f.instructions[-1]
    assert [low.reads, high.reads, n.reads] == [first.writes, second.writes, guarded.writes]
    assert guarded.guard >= 0
    assert loaded.opcode == "mov.b32"
    assert loaded.reads == stored.writes
    assert stored.reads == low.writes
    assert not any(ins.match is None or ins.match.problem for ins in f.instructions)


def test_the_variable_of_a_callee_is_not_that_of_its_caller() -> None:
    own = ".shared .b32 x;\nfence.proxy.async;\nst.shared.b32 [x], 1;\n"
    m = built(module(f".func get()\n{{\n{own}ret;\n}}", kernel(f"call get;\n{own}call get;\nret;")))
    f = inline(m.functions[1], inlinable(m))
    stored = [name for i in f.instructions if i.name == "st.shared" for name in symbols(i.operands)]
    assert stored == ["x#get", "x", "x#get"]
    assert f.variables.keys() >= set(stored)


def test_the_moves_of_a_parameter_are_where_its_accesses_were() -> None:
    m = built(module(CALLEE, kernel(CALLER)))
    (entry,) = (f for f in m.functions if f.entry)
    (callee,) = (f for f in m.functions if not f.entry)
    f = inline(entry, inlinable(m))
    loads = callee.instructions[0]
    here = [(ins.start + f.start, ins.end + f.start) for ins in f.instructions]
    place = (loads.start + callee.start, loads.end + callee.start)
    assert here.count(place) == 2
    assert here[0] == tuple(
        at + entry.start for at in (entry.instructions[0].start, entry.instructions[0].end)
    )


def test_each_call_has_its_own_registers() -> None:
    f, _ = inlined(CALLER + CALLER.replace("%r1;", "%r2;"))
    loaded = [ins for ins in f.instructions if ins.writes and f.registers[ins.writes[0]].name == "%r2"]
    loaded = [ins for ins in loaded if f.registers[ins.reads[0]].name.startswith("r+")]
    assert len({ins.reads for ins in loaded}) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ld.param.v2.b32 {%r1, %r2}, [pair];", "ld.param.b16 %r1, [pair];"),  # extends what it loads
        ("ld.param.v2.b32 {%r1, %r2}, [pair];", "ld.param.b64 %rd, [pair];"),  # both halves as one part
        ("ld.param.v2.b32 {%r1, %r2}, [pair];", "ld.param.b32 %r1, [pair+8];"),  # nothing is stored there
        (
            "ld.param.v2.b32 {%r1, %r2}, [pair];",
            "mov.b64 %rd, pair; ld.param.b32 %r1, [pair];",
        ),  # its address
    ],
)
def test_a_parameter_stays_memory_where_a_move_would_not_do(old: str, new: str) -> None:
    assert old in CALLEE
    callee = CALLEE.replace(old, new).replace(".reg .b32", ".reg .b64 %rd; .reg .b32")
    _, opcodes = inlined(CALLER, callee)
    assert opcodes[:3] == ["st.param.b32", "st.param.b32", "mov.b32"]
    assert opcodes[-1] == "mov.b32"  # the result is passed alone


def test_a_parameter_that_is_passed_on_stays_memory() -> None:
    onward = "{ .param .b32 q; call.uni (q), other, (n); ld.param.b32 %r3, [q]; }"
    callee = CALLEE.replace("ld.param.b32 %r3, [n];", onward)
    _, opcodes = inlined(CALLER, ".extern .func (.param .b32 r) other (.param .b32 n);" + callee)
    assert opcodes[:3] == ["mov.b32", "mov.f32", "st.param.b32"]


def test_a_label_that_no_branch_names_ends_no_line() -> None:
    """Debug builds mark addresses after each call."""
    _, opcodes = inlined(CALLER.replace("ld.param.b32 %r2", "$L__tmp1: ld.param.b32 %r2"))
    assert opcodes[-1] == "mov.b32"


def test_a_result_that_is_loaded_elsewhere_stays_memory() -> None:
    _, opcodes = inlined(CALLER.replace("ld.param.b32 %r2", "@%p1 bra on; on: ld.param.b32 %r2"))
    assert opcodes[:3] == ["mov.b32", "mov.f32", "mov.b32"]
    assert [opcodes[-4], opcodes[-1]] == ["st.param.b32", "ld.param.b32"]


def test_a_parameter_given_twice_stays_memory() -> None:
    callee = CALLEE.replace(".param .align 8 .b8 pair[8]", ".param .b32 pair").replace(
        "ld.param.v2.b32 {%r1, %r2}, [pair];", "ld.param.b32 %r1, [pair];"
    )
    _, opcodes = inlined(CALLER.replace("(a0, a1)", "(a1, a1)"), callee)
    assert opcodes[2] == "st.param.b32"


def test_parameters_of_a_call_that_is_left_stay_memory() -> None:
    _, opcodes = inlined(
        CALLER + CALLER.replace("get", "other"),
        CALLEE + ".extern .func (.param .b32 r) other (.param .align 8 .b8 p[8], .param .b32 n);",
    )
    assert opcodes.count("call.uni") == 1
    at = opcodes.index("call.uni")
    assert opcodes[at - 3 : at + 2] == [
        "st.param.b32",
        "st.param.b32",
        "st.param.b32",
        "call.uni",
        "ld.param.b32",
    ]


@pytest.mark.parametrize(
    ("call", "undeclared"),
    [
        ("call (%r1), _optix_get_launch_index_x, ();", 0),
        ("call (%r1), _get_launch_index_x, ();", 1),
        ("mov.u64 %rd1, _optix_get_launch_index_x;", 1),
    ],
)
def test_optix_provides_the_functions_that_its_modules_call(call: str, undeclared: int) -> None:
    f = function(module(kernel(f"{call}\nret;")))
    assert [e.kind for e in f.errors] == ["undefined-register"] * undeclared


def test_a_prototype_needs_no_semicolon() -> None:
    text = HEADER + (
        ".visible .func (.param .b32 r) f (.param .b32 a)\n.extern .shared .align 4 .b8 dyn[];\n"
        ".visible .func (.param .b32 r) f (.param .b32 a) { ret; }\n"
    )
    m = built(text)
    assert [(f.name, f.declared_only) for f in m.functions] == [("f", True), ("f", False)]
    assert "dyn" in m.variables
    assert not m.errors


def test_a_prototype_between_statements_declares_a_function_from_there_on() -> None:
    m = built(
        module(
            kernel("{ .extern .func f(.param .b32 a); }\ncall f, (1);\nret;", "before"),
            kernel("call f, (1);\ncall g, ();\n.func g();\nret;", "after"),
        )
    )
    assert [(f.name, f.declared_only) for f in m.prototypes] == [("f", True), ("g", True)]
    assert [f.name for f in m.functions] == ["before", "after"]
    assert [e.message for f in m.functions for e in f.errors] == ["g is declared only after its first use"]


@pytest.mark.parametrize(
    ("target", "errors"), [("sm_75", 0), ("sm_90a, sm_75", 0), ("sm_74", 1), ("debug", 1)]
)
def test_a_target_between_statements_is_a_known_one(target: str, errors: int) -> None:
    f = body(f"ret;\n.target {target}")
    assert [e.kind for e in f.errors] == ["misplaced"] * errors


def test_undefined_names_are_reported_once() -> None:
    f = body("mov.u32 %r1, %r1;\n@%p1 ret;\n@%p1 ret;\nld.global.u32 %r1, [nowhere];")
    kinds = [(t.kind, t.message) for t in f.errors]
    assert len(kinds) == len(set(kinds)) == 3
    assert sorted(kind for kind, _ in kinds) == [
        "undefined-guard",
        "undefined-register",
        "undefined-register",
    ]


# ---------------------------------------------------------------- locations


def test_locations_follow_the_inlined_calls() -> None:
    f = body(
        """
    ret;
    .loc 1 9 3
    ret;
    ret;
    .loc 1 27 3
    .loc 1 10 5, function_name $L__info, inlined_at 1 27 3
    ret;
    .loc 1 15 3, function_name $L__info+16, inlined_at 1 10 5
    ret;
    .loc 2 40 1
    .loc 1 10 5, function_name $L__info, inlined_at 2 40 1
    .loc 1 15 3, function_name $L__info+16, inlined_at 1 10 5
    ret;
    """
    )
    assert f.location(0) is None
    assert f.location(1) == f.location(2) == Location(1, 9, 3)
    assert chain(f.location(3)) == [(1, 10, 5), (1, 27, 3)]
    assert chain(f.location(4)) == [(1, 15, 3), (1, 10, 5), (1, 27, 3)]
    assert chain(f.location(5)) == [(1, 15, 3), (1, 10, 5), (2, 40, 1)]


def test_the_lines_of_inline_assembly_are_those_of_its_statement() -> None:
    """Triton 3.9 and nvcc 13.5 add the line in the text of the assembly to that of the statement."""
    f = body(
        """
    .loc 1 11 9
    .loc 1 22 9
    // begin inline asm
    {
    .reg .pred complete;
    .loc 1 25 9
    again:
    .loc 1 26 9
    bra again;
    .loc 1 26 5
    ret;
    }
    // end inline asm
    .loc 1 23 9
    ret;
    // begin inline asm
    .loc 1 25 9
    ret;
    // end inline asm
    // begin inline asm
    .loc 1 23 9
    ret;
    .loc 1 21 9
    ret;
    // end inline asm
    .loc 1 24 9
    ret;
    """
    )
    assert f.location(0) == Location(1, 22, 9, below=4)
    assert [f.location(i) for i in (1, 2)] == [Location(1, 26, 5), Location(1, 23, 9)]
    assert [f.location(i) for i in (3, 4)] == [Location(1, 23, 9, below=2), Location(1, 23, 9)]
    assert [f.location(i) for i in (5, 6)] == [Location(1, 21, 9), Location(1, 24, 9)]


@pytest.mark.parametrize(("call", "inlined"), [("1 30 1", False), ("1 30 24", True), ("1 31 1", True)])
def test_the_head_of_a_function_is_not_a_call(call: str, inlined: bool) -> None:
    """Triton inlines the partitions of a kernel at its ``def``."""
    f = body(f".loc 1 30 0\nret;\n.loc 1 11 9, function_name x, inlined_at {call}\nret;")
    assert len(chain(f.location(1))) == 1 + inlined


def test_a_location_inlined_at_itself_ends() -> None:
    f = body(".loc 1 1 1, function_name x, inlined_at 1 1 1\n" * 50 + "ret;")
    assert len(chain(f.location(0))) == 1


def chain(location: Location | None) -> list[tuple[int, int, int]]:
    found = []
    while location is not None:
        found.append((location.file, location.line, location.column))
        location = location.inlined_at
    return found


@pytest.mark.parametrize("declaration", [".reg .b32 x1;", ".reg .b32 x<3>;"])
def test_a_name_that_was_no_register_yet_may_become_one(declaration: str) -> None:
    f = body(f"bra x1;\n{declaration}\n{{ mov.u32 x1, 1; }}\nmov.u32 x1, 2;\nx1: ret;")
    assert {e.kind for e in f.errors} == {
        "duplicate-label"
    }  # the branch is not one of an undeclared register
    assert f.instructions[0].targets == (3,)
    assert f.instructions[1].writes == f.instructions[2].writes != ()


def test_a_vector_register_is_a_vector_and_its_elements_are_not() -> None:
    f = body(
        ".reg .v4 .f32 %v;\n.reg .v2 .u32 %w;\n.reg .f32 %f<2>;\n.reg .b64 %rd<2>;\n"
        "ld.global.v4.f32 %v, [%rd1];\nmov.f32 %f1, %v.x;\nmov.u32 %w.y, 4;\nst.global.v2.u32 [%rd1], %w;"
    )
    assert [ins.match is not None and ins.match.problem for ins in f.instructions[:4]] == [""] * 4
    load, one, other, store = f.instructions[:4]
    assert len(set(load.writes)) == 4
    assert one.reads == load.writes[:1]
    assert other.writes == store.reads[-1:]
    assert [f.registers[r].name for r in store.reads[1:]] == ["%w.x", "%w.y"]
    wrong = body(".reg .v2 .f32 %v;\n.reg .b64 %rd<2>;\nld.global.v4.f32 %v, [%rd1];").instructions[0].match
    assert wrong is not None
    assert "a vector of 4" in wrong.problem


def test_each_register_of_a_range_of_vectors_is_a_vector() -> None:
    f = body(".reg .v2 .b16 v<3>;\n.reg .b32 r;\nmov.b32 v0, r;\nmov.b32 r, v2;\nmov.b16 v1.x, v0.y;")
    first, second, element = f.instructions[:3]
    assert [ins.match is not None and ins.match.problem for ins in (first, second, element)] == [""] * 3
    assert element.reads == first.writes[1:]
    assert [f.registers[r].name for r in second.reads] == ["v2.x", "v2.y"]


@pytest.mark.parametrize(
    ("before", "code", "after", "wrong"),
    [
        (".global .b32 name;", "bra name; name: ret;", "", True),
        (".func name() { ret; }", "bra name; name: ret;", "", True),
        (".global .b32 name;", "name: bra name;", "", False),
        ("", "bra name; name: ret;", ".global .b32 name;", False),
        (".global .b32 other;", "bra name; name: ret;", "", False),
    ],
)
def test_a_label_that_follows_is_not_found_if_the_module_declares_its_name(
    before: str, code: str, after: str, wrong: bool
) -> None:
    f = function(HEADER + f"{before}\n.entry k() {{ {code} ret; }}\n{after}")
    assert [error.kind for error in f.errors] == ["undefined-label"] * wrong


def test_an_element_of_a_vector_register_has_a_second_name_and_is_known_in_inner_scopes() -> None:
    f = body(".reg .v4 .b32 v;\n{ mov.b32 v.x, 1; mov.b32 v.r, 2; mov.b32 v.w, v.a; }")
    first, again, last = f.instructions[:3]
    assert first.writes == again.writes
    assert last.reads == last.writes != first.writes


def test_directives_are_listed_separately_and_the_last_of_a_name_counts() -> None:
    code = module(kernel("ret;", directives=".reqntid 0x40, 2 /* , 7 */\n.reqntid 010"))
    found = function(code)
    assert found.directives == {".reqntid": (8,)}
    assert [(d.name, d.numbers) for d in found.stated] == [(".reqntid", (64, 2)), (".reqntid", (8,))]
    first = found.stated[0]
    assert code[found.start + first.start : found.start + first.end].startswith(".reqntid 0x40, 2")
    assert (found.threads, found.most_threads) == (8, 8)


def test_variables_say_how_they_begin() -> None:
    made = built(
        module(
            ".global .align 4 .b8 table[4] = {1, 2, 0x3};",
            ".const .f32 half = 0f3F000000, one = 1.0;",
            ".global .u64 place = generic(table)+2;",
            ".shared .b8 room[];",
        )
    )
    assert {v.name: (v.type, v.initial) for v in made.variables.values()} == {
        "table": (".b8", "{1, 2, 0x3}"),
        "half": (".f32", "0f3F000000"),
        "one": (".f32", "1.0"),
        "place": (".u64", "generic(table)+2"),
        "room": (".b8", ""),
    }


@pytest.mark.parametrize(
    ("value", "size", "bits"),
    [(7, 4, 7), (-1, 8, -1), (1.0, 4, 0x3F800000), (1.0, 8, 0x3FF0000000000000), (-1e300, 4, 0xFF800000)],
)
def test_what_a_register_holds_of_an_immediate(value: float, size: int, bits: int) -> None:
    assert Immediate(value).pattern(size) == bits


@pytest.mark.parametrize(
    ("constant", "long"),
    [
        ("--5", False),
        ("-" * 30 + "5", False),
        ("-" * 30, False),
        ("--99999999999999999999999", True),
        ("~-99999999999999999999999", True),
    ],
)
def test_a_constant_may_have_several_signs(constant: str, long: bool) -> None:
    found = [error.message for error in body(f".reg .b32 %r<4>;\nmov.u32 %r1, {constant};\nret;").errors]
    assert ("a constant has more than 64 bits" in found) is long


def test_a_range_of_more_registers_than_32_bits_count_is_an_error() -> None:
    f = body(f".reg .b32 %r<{1 << 32}>;")
    assert [(t.kind, t.message) for t in f.errors] == [("overflow", "the size of %r has more than 32 bits")]


@pytest.mark.parametrize(("count", "last"), [(1 << 63, None), ((1 << 63) + 2, "%r1")])
def test_a_size_of_64_bits_counts_by_its_lower_half(count: int, last: str | None) -> None:
    f = body(f".reg .b32 %r<{count}>;" + (f"mov.u32 {last}, 0;" if last else ""))
    assert not f.errors


def test_a_label_hides_a_special_register_from_what_follows_in_its_scope() -> None:
    f = body(".reg .b32 %a; mov.u32 %a, %laneid; { %laneid: bra %laneid; } mov.u32 %a, %laneid;")
    assert not f.errors
    assert f.instructions[1].targets == (1,)
    assert f.instructions[0].operands == f.instructions[2].operands


def test_a_branch_to_a_special_register_does_not_find_the_label_that_follows() -> None:
    f = body("bra %laneid; %laneid: ret;")
    assert f.instructions[0].targets != (1,)


@pytest.mark.parametrize(
    ("alignment", "message"),
    [
        (1 << 31, None),
        (1 << 32, "an alignment of 4294967296 has more than 32 bits"),
        (12, "an alignment of 12 is not a power of two"),
    ],
)
def test_an_alignment_is_a_power_of_two_of_32_bits(alignment: int, message: str | None) -> None:
    f = body(f".local .align {alignment} .b32 x;")
    assert [t.message for t in f.errors] == ([message] if message else [])


def test_functions_share_opcodes_and_the_registers_of_equal_ranges() -> None:
    text = "".join(
        f".func f{n}() {{ .reg .b32 %r<4>; .reg .b64 %long<99>; mov.u32 %r1, {n}; ret; }}\n" for n in range(2)
    )
    one, other = built(HEADER + text).functions
    assert one.registers == other.registers
    assert all(map(is_, one.registers[:4], other.registers[:4]))
    assert one.instructions[0].opcode is other.instructions[0].opcode


def test_range_does_not_replace_a_register_that_is_declared() -> None:
    f = body(".reg .b64 %r2;\n.reg .b32 %r<4>;\nmov.u64 %r2, 1;")
    types = {r.name: r.type for r in f.registers}
    assert types == {"%r2": ".b64", "%r0": ".b32", "%r1": ".b32", "%r3": ".b32"}


@given(
    st.sampled_from([".pred", *(f".{kind}{size}" for kind in "busf" for size in (8, 16, 32, 64))]),
    st.from_regex(r"%[a-z]{1,3}\d{1,9}", fullmatch=True),
)
def test_one_register_is_declared_as_any_declaration_is(kind: str, name: str) -> None:
    text = f".reg {kind} {name};"
    assert ONE_REGISTER.fullmatch(text)
    assert declared(text) == declared(f"{text} ")
    for version in ((1, 0), (6, 0), (9, 1)):
        one: list[FeatureUse] = []
        other: list[FeatureUse] = []
        note(one, "variable", text, (0, len(text)), version)
        note(other, "variable", f"{text} ", (0, len(text) + 1), version)
        assert [use.spec for use in one] == [use.spec for use in other]


@pytest.mark.parametrize(
    "text",
    [
        ".reg .b128 %r1;",
        ".reg .b32 %r1, %r2;",
        ".reg .v2 .b32 %r1;",
        ".reg .b32 %r<3>;",
        ".reg .b32 WARP_SZ;",
    ],
)
def test_other_declarations_are_not_taken_for_one_register(text: str) -> None:
    assert not ONE_REGISTER.fullmatch(text)


# ---------------------------------------------------------------- elements of arrays

ARRAYS = """.global .u32 words[16];
.global .u32 matrix[4][4];
.global .v4 .u32 vectors[4];
.extern .shared .align 16 .b8 dynamic[];
"""
IN_KERNEL = ".shared .align 16 .b8 bytes[64];\n.shared .u64 longs[8];\n"


@pytest.mark.parametrize(
    ("instruction", "offset"),
    [
        ("mov.u64 %rd1, bytes[0];", 0),
        ("mov.u32 %r1, bytes [3];", 3),
        ("mov.u64 %rd1, longs[(1 + 2) * 2];", 48),
        ("mov.u64 %rd1, words[0x3];", 12),
        ("mov.u64 %rd1, words[-1];", -4),
        ("mov.u64 %rd1, matrix[1];", 4),
        ("mov.u64 %rd1, vectors[1];", 4),
        ("mov.b64 %rd1, dynamic[40];", 40),
        ("mov.b64 %rd1, given[8];", 8),
        ("cvta.shared.u64 %rd1, longs[1];", 8),
        ("ld.shared.u32 %r1, bytes[4];", 4),
        ("ld.volatile.global.u32 %r1, words[2];", 8),
        ("ld.param.u32 %r1, given[4];", 4),
        ("st.shared.v2.u32 longs[1], {%r1, %r2};", 8),
        ("st.global.u32 words[1], %r1;", 4),
    ],
)
def test_an_element_of_an_array_is_its_address_as_in_ptxas(instruction: str, offset: int) -> None:
    text = (
        HEADER
        + ARRAYS
        + kernel(IN_KERNEL + instruction + "\nret;", parameters=".param .align 8 .b8 given[32]")
    )
    f = function(text)
    assert not f.errors
    (ins, _) = f.instructions
    assert ins.match is not None
    assert not ins.match.problem
    (element,) = (o for o in ins.operands if isinstance(o, Symbol | Memory))
    symbol = element.base if isinstance(element, Memory) else element
    assert isinstance(symbol, Symbol)
    assert symbol.offset == offset
    assert isinstance(element, Memory) == ins.opcode.startswith(("ld", "st"))
    assert refusal(find_ptxas(), text, "sm_100a") == ""


@pytest.mark.parametrize(
    "instruction",
    [
        "mov.u64 %rd1, matrix[1][2];", "mov.u64 %rd1, nothing[1];", "mov.u64 %rd1, bytes[4]+4;", "add.u64 %rd1, %rd2, bytes[4];",
        "ld.shared.u32 %r1, [bytes[4]];", "st.shared.u32 bytes[4], bytes[8];", "atom.shared.add.u32 %r1, bytes[4], 1;",
        "mbarrier.init.shared.b64 bytes[8], 1;", "cvta.to.shared.u64 %rd1, bytes[4];",
    ],
)  # fmt: skip
def test_what_ptxas_does_not_take_for_an_element_is_an_error(instruction: str) -> None:
    text = HEADER + ARRAYS + kernel(IN_KERNEL + instruction + "\nret;")
    f = function(text)
    match = f.instructions[0].match
    assert f.errors or match is None or match.problem
    assert refusal(find_ptxas(), text, "sm_100a")


def test_an_index_that_is_not_a_constant_is_named() -> None:
    f = function(HEADER + ARRAYS + kernel("mov.u32 %r1, words[%r2];\nret;"))
    assert f.damaged
    assert [e.message for e in f.errors] == ["words[%r2]: an index that is not a constant is not supported"]
