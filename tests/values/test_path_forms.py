"""What loops add to an address on whatever path, and which two addresses are never a known distance apart."""

from __future__ import annotations

import pytest

from tclint.analyses.lane_memory import SharedByLanes
from tclint.analyses.model import KernelModel
from tclint.values import UniformityScope
from tclint.values.addresses import AddressForm
from tclint.values.path_forms import FAR
from tests.tools.support import model, value

BODY = """
    .shared .align 128 .b8 tile[4096];
    .shared .align 128 .b8 other[4096];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ntid.x;
    ld.param.u32 %r9, [number];
    mov.u32 %r2, tile;
    shl.b32 %r3, %r0, 2;
    add.u32 %r4, %r2, %r3;
    mov.u32 %r5, other;
    add.u32 %r5, %r5, %r3;
    mul.lo.u32 %r6, %r0, %r9;
    add.u32 %r6, %r6, %r2;
    mov.u32 %r7, %r4;
    mov.u32 %r8, %r4;
    mov.u32 %r10, %r4;
    mov.u32 %r11, %r6;
    mov.u32 %r12, tile;
    mov.u32 %r13, %r4;
    mov.u32 %r20, 0;
more:
    mad.lo.u32 %r14, %r20, %r1, %r4;
    mad.lo.u32 %r15, %r9, %r1, %r4;
here:
    add.u32 %r7, %r7, 1024;
    add.u32 %r8, %r8, 4;
    mad.lo.u32 %r10, %r1, 4, %r10;
    add.u32 %r11, %r11, 1024;
    add.u32 %r12, %r12, %r3;
    setp.eq.u32 %p2, %r20, %r9;
    selp.b32 %r13, %r2, %r13, %p2;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p1, %r20, %r9;
    @%p1 bra more;
    ret;
"""
WORD, WORD_OF_OTHER, OWN = "%r4", "%r5", "%r6"
"""A thread's word of two arrays, and a piece of as many bytes for each thread as the launch says."""
BY_TILE, BY_WORD, BY_CTA, OWN_BY_TILE = "%r7", "%r8", "%r10", "%r11"
"""Pointers that a loop advances from these: by 256 words, by one, by one for each thread, and by 256 words."""
BY_INDEX, CHOSEN = "%r12", "%r13"
"""A pointer that the thread index advances, and one that data may set back to the array."""
OF_ROW, OF_LAST_ROW = "%r14", "%r15"
"""Addresses in the row of each iteration, and in one row, of a matrix with as many columns as the CTA has threads."""


@pytest.fixture(scope="module")
def kernel() -> KernelModel:
    return model(BODY, directives=".maxntid 256")


def found_form(kernel: KernelModel, register: str) -> AddressForm | None:
    return kernel.values.path_forms.form(value(kernel, register, "here"))


def form(kernel: KernelModel, register: str) -> AddressForm:
    found = found_form(kernel, register)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("register", "stride"),
    [(WORD, 0), (OWN, 0), (BY_TILE, 1024), (BY_WORD, 4), (BY_CTA, 0), (OWN_BY_TILE, 1024)],
)
def test_a_pointer_is_what_it_begins_with_and_a_number_of_strides(
    kernel: KernelModel, register: str, stride: int
) -> None:
    found = form(kernel, register)
    assert found.stride == stride
    assert bool(found.moving) is (register == BY_CTA)


@pytest.mark.parametrize("register", [BY_INDEX, CHOSEN])
def test_what_the_thread_index_or_data_move_is_unknown(kernel: KernelModel, register: str) -> None:
    assert found_form(kernel, register) is None


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        (WORD, BY_TILE, True),
        (BY_TILE, BY_WORD, True),
        (WORD, BY_CTA, True),
        (OF_LAST_ROW, OF_ROW, True),
        (BY_TILE, OF_ROW, False),
        (WORD, WORD_OF_OTHER, False),
        (BY_TILE, WORD_OF_OTHER, False),
        (BY_TILE, OWN_BY_TILE, False),
    ],
)
def test_two_addresses_may_be_a_known_distance_apart(
    kernel: KernelModel, one: str, other: str, apart: bool
) -> None:
    assert kernel.values.path_forms.may_be_apart(form(kernel, one), form(kernel, other)) is apart


@pytest.mark.parametrize(
    ("register", "differs"),
    [(WORD, False), (BY_TILE, False), (BY_CTA, False), (OWN, True), (OWN_BY_TILE, True)],
)
def test_no_path_makes_one_base_of_what_each_thread_computes(
    kernel: KernelModel, register: str, differs: bool
) -> None:
    assert kernel.values.path_forms.differs(form(kernel, register), UniformityScope.WARP) is differs


def test_the_spacing_is_that_of_two_threads_of_one_group(kernel: KernelModel) -> None:
    index, forms = form(kernel, WORD).index, kernel.values.path_forms
    assert forms.spacing(index, 0, 32) == (4, 124)
    assert forms.spacing(index, 1024, 256) == (4, 1020)
    assert forms.spacing(index, 512, 256) == (0, 1020)
    assert forms.spacing(index, 512, 32) == (4, 124)
    assert forms.spacing(value(kernel, OWN, "here"), 0, 32) == (0, FAR)


EXCHANGE = """
    .shared .align 128 .b8 tile[4096];
    mov.u32 %r0, %tid.x;
    mov.u32 %r2, tile;
    shl.b32 %r3, %r0, 2;
    add.u32 %r4, %r2, %r3;
    add.u32 %r5, %r4, {apart};
    mov.u32 %r20, 0;
more:
    st.shared.u32 [%r4], %r20;
    ld.shared.u32 %r6, [%r5];
    add.u32 %r4, %r4, {step};
    add.u32 %r5, %r5, {step};
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p1, %r20, 8;
    @%p1 bra more;
    ret;
"""


@pytest.mark.parametrize(
    ("step", "apart", "meet"),
    [
        (128, 0, False),
        (128, 128, False),
        (4, 0, True),
        (128, 4, True),
        (128, 126, True),
        (128, 2, True),
        (512, 128, False),
        (512, 124, True),
    ],
)
def test_lanes_meet_where_steps_of_a_loop_lead_one_to_the_bytes_of_another(
    step: int, apart: int, meet: bool
) -> None:
    kernel = model(EXCHANGE.format(step=step, apart=apart), directives=".reqntid 32")
    memory = kernel.fact(SharedByLanes)
    store, load = (memory.accesses(site)[0] for site in sorted(memory.sites))
    assert memory.may_meet(store, load) is meet
