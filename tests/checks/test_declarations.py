"""Declarations, pragmas and the like that ptxas refuses, and names and constants of a module."""

from __future__ import annotations

from unittest import mock

import pytest

from benchmarks.features import refusal
from tclint.findings.scales import Severity
from tclint.ir.operands import only_short_integers, overflows
from tests.tools.ptxas import find_ptxas
from tests.tools.support import by_rule, lint


def text(head: str = "", body: str = "", target: str = "sm_90") -> str:
    return f".version 9.0\n.target {target}\n.address_size 64\n{head}\n.entry k()\n{{\n{body}\nret;\n}}\n"


@pytest.mark.parametrize(
    ("code", "span"),
    [
        (text(".shared .b32 x = 1;"), ".shared .b32 x = 1;"),
        (text("", ".reg .bf16 %h<4>;"), ".reg .bf16 %h<4>;"),
        (text(".common .shared .b32 x;"), ".common .shared .b32 x;"),
        (text("", target="sm_90, debug"), ".target sm_90, debug"),
        (text(".loc 1 2 3"), ".loc 1 2 3"),
        (text(".global .b32 y; .global .b64 x = y;"), ".global .b64 x = y;"),
        (text(".shared .b32 y; .global .u64 x = generic(y);"), ".global .u64 x = generic(y);"),
        (text(".global .u64 x = {y}; .global .b32 y;"), ".global .u64 x = {y};"),
        (text(".global .f32 x[2] = {1.0, 0x1e5};"), ".global .f32 x[2] = {1.0, 0x1e5};"),
        (text(".global .s32 x[2] = {1, 1e5};"), ".global .s32 x[2] = {1, 1e5};"),
        (text("", ".shared .b8$name x;"), ".shared .b8$name x;"),
        (text("", ".reg .b32 %x<-1>;"), ".reg .b32 %x<-1>;"),
    ],
)
def test_a_declaration_that_ptxas_refuses_is_reported_where_it_is(code: str, span: str) -> None:
    (finding,) = by_rule(lint(code), "PX009")
    assert code[finding.span.start : finding.span.end] == span


@pytest.mark.parametrize(
    ("parameters", "refused"),
    [
        (".param .b8 a[40000]", True),
        (".param .b8 a[18446744073709551615]", True),
        (".param .b8 a[18446744073709551615], .param .u32 b", False),
        (".param .b8 a[4294967295], .param .u32 b", False),
        (".param .b8 a[4294967300]", True),
        (".param .u64 .ptr .global .align 2147483648 a, .param .u64 .ptr .global .align 2147483648 b", False),
    ],
)
def test_the_bytes_of_parameters_are_counted_as_in_ptxas(parameters: str, refused: bool) -> None:
    code = text().replace("k()", f"k({parameters})")
    assert bool(by_rule(lint(code), "PX009")) == refused
    assert bool(refusal(find_ptxas(), code, "sm_90")) == refused


def test_one_form_is_reported_once_in_a_function() -> None:
    (finding,) = by_rule(lint(text("", ".reg .bf16 %a;\n.reg .bf16 %b;\n.reg .tf32 %c;")), "PX009")
    assert finding.count == 3


@pytest.mark.parametrize(
    ("functions", "reported"),
    [
        (
            ".func f() { .loc 1 5 5\nret; } .func g() { .loc 1 2 3, function_name n, inlined_at 1 5 5\nret; }",
            0,
        ),
        (
            ".func g() { .loc 1 2 3, function_name n, inlined_at 1 5 5\nret; } .func f() { .loc 1 5 5\nret; }",
            1,
        ),
        (".func g() { .loc 1 2 3, function_name n, inlined_at 1 2 3\nret; }", 1),
    ],
)
def test_the_position_of_a_call_is_that_of_an_earlier_loc(functions: str, reported: int) -> None:
    assert len(by_rule(lint(text(functions)), "PX009")) == reported


@pytest.mark.parametrize(
    ("body", "duplicate"),
    [
        (".reg .b32 %r<10>; .reg .b32 %r5;", True),
        (".reg .b32 %r5; .reg .b32 %r<10>;", True),
        (".reg .b32 %r0; .reg .b32 %r<10>;", False),
        (".reg .b32 %r<10>; .reg .b32 %r0;", True),
        (".reg .b32 %r<10>; .local .b32 %r5;", True),
        (".reg .b32 %r<10>; .reg .b32 %r10;", False),
        (".reg .b32 %r<10>; .reg .b32 %r05;", False),
        (".reg .b32 %r<10>; { .reg .b32 %r5; }", False),
        (".reg .b32 %r<20>; .reg .b32 %r1<5>;", False),
        (".reg .b32 %r1<9>; .reg .b32 %r12;", False),
        (".reg .b32 %r<3>; %r" + "9" * 5000 + ": ", False),
        (".reg .b32 %r<3>; %r2: ", False),
        (".reg .b32 a; a: ", True),
        ("a: .callprototype _; b: ", False),
    ],
)
def test_a_register_of_a_range_is_declared_twice_if_it_is_declared_by_itself(
    body: str, duplicate: bool
) -> None:
    assert bool(by_rule(lint(text("", body)), "PX007")) == duplicate


@pytest.mark.parametrize(
    ("constant", "rejected"),
    [
        ("18446744073709551615", False),
        ("18446744073709551616", False),
        ("73786976294838206464", False),
        ("147573952589676412928", True),
        ("0x1FFFFFFFFFFFFFFFF", False),
        ("0xFFFFFFFFFFFFFFFFFF", True),
        ("0x80000000000000000", True),
        ("0b1" + 64 * "0", True),
        ("02000000000000000000000", False),
        ("010000000000000000000000", True),
        ("1" * 400, True),
    ],
)
def test_a_constant_is_too_large_where_ptxas_cannot_read_it(constant: str, rejected: bool) -> None:
    """Some constants of more than 64 bits wrap."""
    assert overflows(constant) == rejected
    body = f".reg .b32 %r<2>;\nadd.s32 %r1, %r1, {constant};"
    assert [f.message for f in by_rule(lint(text("", body)), "PX004")] == rejected * [
        "a constant has more than 64 bits"
    ]


@pytest.mark.parametrize(
    ("constant", "rejected"),
    [
        ("0e999", False),
        ("0.0e400", False),
        ("1.7976931348623157e308", False),
        ("2.2250738585072014e-308", False),
        ("1.8e308", True),
        ("-1e400", True),
        ("2.2e-308", True),
        ("1e-400", True),
        ("0d0000000000000001", False),
    ],
)
def test_a_constant_that_is_not_a_normal_double_is_rejected(constant: str, rejected: bool) -> None:
    body = f".reg .f64 %fd<2>;\nmov.f64 %fd1, {constant};"
    assert [f.message for f in by_rule(lint(text("", body)), "PX004")] == rejected * [
        "a constant is not a normal number of double precision"
    ]
    initial = lint(text(f".global .f64 x[2] = {{1.5, {constant}}};", ""))
    assert bool([f for f in initial.findings if f.severity is Severity.ERROR]) == rejected


@pytest.mark.parametrize(
    ("header", "reported"),
    [
        (".target sm_80\n.target sm_90", False),
        (".target sm_90\n.target sm_80", True),
        (".target sm_80, sm_90", False),
    ],
)
def test_the_last_target_counts(header: str, reported: bool) -> None:
    code = text("", "fence.proxy.async;").replace(".target sm_90", header)
    report = lint(code)
    assert not report.problems
    assert bool(by_rule(report, "AV001")) == reported


@pytest.mark.parametrize(
    "code",
    [
        ".global .b32 y[4]; .global .u64 x[2] = {y+4, generic(y)};",
        ".global .b32 y; .global .u8 x[2] = {0xFF(y), 0xFF00(y)};",
        ".global .b32 y; .global .u64 x = 0xFF(y);",
        ".func f() { ret; } .global .u64 x[2] = {f, 0x1e5};",
        ".global .f32 x[3] = {1.0, -1e5, 0f3F800000};",
        ".global .b32 x[3] = {1.0, -1, 0f3F800000};",
        ".global .samplerref x = { addr_mode_0 = wrap };",
        '.file 1 "a.cu" // \u00e9',
    ],
)
def test_an_initial_value_that_ptxas_takes_is_not_reported(code: str) -> None:
    code = text(code, target="sm_90, texmode_independent")
    assert by_rule(lint(code), "PX009") == []
    assert refusal(find_ptxas(), code, "sm_90") == ""


def test_sizes_that_ptxas_counts_as_negative_are_not_reported() -> None:
    assert by_rule(lint(text("", f".shared .b8 x[{1 << 31}];")), "PX009") == []
    assert len(by_rule(lint(text("", f".shared .b8 x[{(1 << 31) - 1}];")), "PX009")) == 1


def test_long_table_of_bytes_costs_less_than_a_pattern_for_each() -> None:
    """Tables of a megabyte, as curand defines them, are read at every edit."""
    numbers = ", ".join(str(n % 256) for n in range(200_000))
    assert only_short_integers(f"{{{numbers}}}")
    with (
        mock.patch("tclint.ir.initial_values._ADDRESS", None),
        mock.patch("tclint.ir.features._EXPONENT", None),
    ):
        assert not lint(text(f".global .align 4 .b8 x[200000] = {{{numbers}}};", "")).findings


@pytest.mark.parametrize(
    "initial", ["{1, x}", "1e999", "0x10", "{1, 12345678901234567}", "1.5", "-1", "{1U}"]
)
def test_what_may_be_more_than_short_integers_is_looked_at(initial: str) -> None:
    assert not only_short_integers(initial)
