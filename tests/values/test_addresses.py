"""What of an address threads share, what their index decides, and what loops add; and whether two ranges overlap."""

from __future__ import annotations

import pytest

from tclint.analyses.model import KernelModel
from tclint.values import thread_masks as T
from tclint.values.addresses import AT_ONCE, EVER, Passes
from tests.tools.support import model, value

BODY = """
    .shared .align 128 .b8 tile[4096];
    .shared .align 128 .b8 other[512];
    mov.u32 %r0, %tid.x;
    ld.param.u32 %r9, [number];
    mov.u32 %r1, tile;
    mov.u32 %r2, other;
    shl.b32 %r3, %r0, 2;
    add.u32 %r4, %r1, %r3;
    shl.b32 %r5, %r9, 10;
    add.u32 %r6, %r4, %r5;
    mov.u32 %r10, 0;
    mov.u32 %r11, %r4;
    mov.u32 %r14, tile;
more:
    and.b32 %r12, %r10, 3;
    shl.b32 %r12, %r12, 9;
    add.u32 %r13, %r4, %r12;
here:
    add.u32 %r11, %r11, 1024;
    add.u32 %r14, %r14, 1024;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p1, %r10, 3;
    @%p1 bra more;
    ret;
"""
STAGE, POINTER, OF_ALL = "%r13", "%r11", "%r14"
"""A thread's word in one of four stages; a pointer to it that the loop advances, and one that all threads share."""


@pytest.fixture(scope="module")
def kernel() -> KernelModel:
    return model(BODY, directives=".reqntid 128")


def at_label(kernel: KernelModel, register: str, offset: int = 0) -> int:
    values = kernel.values
    return values.add(value(kernel, register, "here"), values.constant(offset))


def test_an_address_at_one_time_is_a_base_and_what_the_index_decides(kernel: KernelModel) -> None:
    form = kernel.values.addresses.form(at_label(kernel, "%r6", 8))
    names = [kernel.values.variable(term) for term, _ in kernel.values.linear(form.base)[0]]
    assert [each.name for each in names if each is not None] == ["tile"]
    assert len(names) == 2
    assert kernel.values.addresses.offsets(form.index, T.full(4)) == {0, 4, 8, 12}
    assert (form.offset, form.stride, form.count) == (8, 0, 1)


@pytest.mark.parametrize(
    ("register", "expected"),
    [("%r4", (0, 0, 1)), (STAGE, (0, 512, 4)), (POINTER, (0, 1024, 3)), (OF_ALL, (0, 1024, 3))],
)
def test_what_loops_add_is_a_number_of_strides(
    kernel: KernelModel, register: str, expected: tuple[int, int, int]
) -> None:
    form = kernel.values.addresses.over_iterations(at_label(kernel, register))
    variable = kernel.values.variable(form.base)
    assert variable is not None
    assert variable.name == "tile"
    assert (form.offset, form.stride, form.count) == expected


def test_what_is_not_known_of_a_loop_is_any_number_of_strides(kernel: KernelModel) -> None:
    addresses, register = kernel.values.addresses, at_label(kernel, OF_ALL)
    form = addresses.decomposed(register, addresses.is_index, addresses.is_invariant, lambda term: False)
    assert (form.stride, form.count) == (128, None)
    assert addresses.span(form, 4, 1) is None


WORD, ALL = 4, (T.full(128), T.full(128))


@pytest.mark.parametrize(
    ("first", "second", "passes", "pairs", "expected"),
    [
        (("%r4", 0), ("%r4", 4), AT_ONCE, None, True),
        (("%r4", 0), ("%r4", 2), AT_ONCE, None, False),
        (("%r4", 0), ("%r4", 4), AT_ONCE, ALL, False),  # of the next thread
        (("%r4", 0), ("%r4", 4), AT_ONCE, (1, 1), True),
        (("%r4", 0), ("%r4", 512), AT_ONCE, ALL, True),
        (("%r6", 0), ("%r6", 512), AT_ONCE, ALL, True),
        (("%r6", 0), ("%r4", 0), AT_ONCE, ALL, None),
        (("%r4", 0), ("%r2", 0), AT_ONCE, ALL, True),
        ((STAGE, 0), (STAGE, 4), AT_ONCE, None, True),
        ((STAGE, 0), (STAGE, 4), EVER, None, None),
        ((STAGE, 0), (STAGE, 2048), EVER, None, True),
        ((STAGE, 0), (STAGE, 2048), EVER, ALL, True),
        ((STAGE, 0), (STAGE, 512), AT_ONCE, ALL, True),
        ((STAGE, 0), (STAGE, 512), EVER, ALL, None),
        ((OF_ALL, 0), ("%r2", 0), EVER, ALL, True),
        ((OF_ALL, 2048), ("%r2", 0), EVER, ALL, None),  # it may be past the end of its variable
    ],
)
def test_whether_two_ranges_are_disjoint(
    kernel: KernelModel,
    first: tuple[str, int],
    second: tuple[str, int],
    passes: Passes,
    pairs: tuple[int, int] | None,
    expected: bool | None,
) -> None:
    a, b = ((at_label(kernel, *each), WORD) for each in (first, second))
    disjoint = kernel.values.addresses.disjoint
    assert disjoint(a, b, passes, pairs) is expected
    assert disjoint(b, a, passes, pairs and pairs[::-1]) is expected


def test_the_threads_in_which_ranges_overlap(kernel: KernelModel) -> None:
    addresses = kernel.values.addresses
    word, start = ((at_label(kernel, register), WORD) for register in ("%r4", "%r1"))
    assert addresses.overlapping(word, start) == 1
    assert addresses.overlapping(word, (at_label(kernel, "%r6"), WORD)) is None
