"""The normal form: two texts that differ in names and debug data have the same one, and others do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tclint.text.normal import normal, without_debug_data
from tests.tools.project import ROOT
from tests.tools.rewriting import renamed_labels, renamed_registers

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
FIXTURES = sorted((ROOT / "fixtures").glob("*.ptx"))


def form(text: str) -> str:
    once = normal(text.encode())
    assert normal(once) == once
    return once.decode()


def test_registers_are_numbered_and_labels_named_in_the_order_of_the_text() -> None:
    text = (
        HEAD
        + """
.visible .entry k(.param .u64 a)
{
    .reg .b32 %r<90>, x;
    .reg .u64 s;
    .reg .pred %p<3>;
    { // scope
    .reg .b32 %r3;
$L__tmp0:
    .loc 1 2 3
    mov.u32 x, %tid.x;
LAB_1: add.u32 %r3, x, %r80;
    }
    @!%p2 bra LAB_1x;
    add.u32 %r3, x, %r80;
    ld.param.u64 s, [a];
LAB_1x:
    ret;
}
.file 1 "k.cu"
"""
    )
    assert (
        form(text)
        == HEAD
        + """\
.visible .entry k(
	.param .u64 a
)
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<5>;
	.reg .u64 	%u64_<2>;
	{
$U1:
		mov.u32 	%r1, %tid.x;
$U2:
		add.u32 	%r2, %r1, %r3;
	}
	@!%p1 bra 	$L1;
	add.u32 	%r4, %r1, %r3;
	ld.param.u64 	%u64_1, [a];
$L1:
	ret;
}
"""
    )


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_names_and_debug_data_make_no_difference(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert form(renamed_registers(renamed_labels(text))) == form(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("add.u32 %r1, %r2, %r3;", "add.u32 %r1, %r3, %r3;"),
        ("add.u32 %r1, %r2, 1;", "add.u32 %r1, %r2, 2;"),
        ("bra A; A: ret; B:", "bra B; A: ret; B:"),
        ("mov.u32 %r1, x;", "mov.u32 %r1, y;"),
        ("{ .reg .b32 %r1; mov.u32 %r1, 0; } mov.u32 %r2, %r1;", "mov.u32 %r1, 0; mov.u32 %r2, %r1;"),
    ],
)
def test_what_differs_otherwise_has_another_form(one: str, other: str) -> None:
    kernel = HEAD + ".global .b32 x, y;\n.entry k() { .reg .b32 %%r<9>; %s }"
    assert form(kernel % one) != form(kernel % other)


def test_a_register_never_gets_the_name_of_something_else() -> None:
    text = form(HEAD + ".global .b32 %r1;\n.entry k() { .reg .b32 a; mov.u32 a, %r1; bra $L1_; $L1_: ret; }")
    assert "mov.u32 \t%r_1, %r1;" in text


def test_the_range_of_a_register_may_have_a_name_that_ends_in_digits() -> None:
    text = form(HEAD + ".entry k() { .reg .b32 %r1<9>, %r<20>; mov.u32 %r12, %r15; mov.u32 %r5, %r12; }")
    assert "mov.u32 \t%r1, %r2;\n\tmov.u32 \t%r3, %r1;" in text


def test_the_debug_option_goes_with_the_debug_data() -> None:
    text = (
        b'.target sm_90, debug, texmode_independent\n.section .debug_info { .b8 1 }\n.file 1 "x"\n@@DWARF x\n'
    )
    assert b"".join(without_debug_data(text).split()) == b".targetsm_90,texmode_independent"


def test_parameters_of_prototypes_and_functions_keep_their_names() -> None:
    text = (
        HEAD
        + """.func (
	.reg .b32 %a1
) f(
	.reg .b32 %a2,
	.param .b32 p
)
{
	mov.u32 	%a1, %a2;
}

.entry k()
{
	.reg .b64 	%rd<2>;
	call 	(r), %rd1, (a), $L1;
$L1: .callprototype (.param .b32 _) _ (.param .b32 _);
}
"""
    )
    text = text.replace("(\n\t.reg .b32 %a1\n)", "(.reg .b32 %a1)")
    assert form(text) == text
    assert form(text.replace("%a1", "result").replace("%a2", "x")) == text
