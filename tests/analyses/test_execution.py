"""Which conditions leave it certain that the threads of a CTA execute an instruction, and whose results they need."""

from __future__ import annotations

import pytest

from tclint.analyses.execution import ExecutionGuarantee
from tests.tools.support import analysed, kernel, module

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
UNROLLED = """
    .shared .align 16 .b8 tile[8192];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, tile;
    {size}
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    setp.ge.s32 %p0, %r0, %r9;
    @%p0 bra filled;
    add.s32 %r3, %r0, %r2;
    max.s32 %r4, %r9, %r3;
    {left}
    div.u32 %r6, %r5, {by};
    {count}
    and.b32 %r7, %r6, 3;
    setp.eq.s32 %p1, %r7, 0;
    mov.u32 %r8, %r0;
    @%p1 bra unrolled;
rest:
    mad.lo.u32 %r10, %r8, 4, %r1;
    st.shared.u32 [%r10], %r0;
    add.s32 %r8, %r8, %r2;
    add.s32 %r7, %r7, -1;
    setp.ne.s32 %p1, %r7, 0;
    @%p1 bra rest;
unrolled:
    setp.lt.u32 %p2, %r6, 4;
    @%p2 bra filled;
fill:
    mad.lo.u32 %r10, %r8, 4, %r1;
    st.shared.u32 [%r10], %r0;
    mad.lo.u32 %r8, %r2, 4, %r8;
    setp.lt.s32 %p3, %r8, %r9;
    @%p3 bra fill;
filled:
    ret;
"""
"""What nvcc makes of a loop that strides by the size of the CTA; only one store of four is left in its body."""


def certain(text: str) -> list[bool]:
    """Whether it is certain which threads execute each store to shared memory."""
    model = analysed(module(kernel(text, directives=".maxntid 256"), header=HEADER))
    executed = model.fact(ExecutionGuarantee)
    return [executed.certainly(site) for site in sorted(model.shared.writers)]


def unrolled(
    size: str = "mov.u32 %r2, %ntid.x;",
    left: str = "sub.s32 %r5, %r4, %r3;",
    by: str = "%r2",
    count: str = "",
) -> str:
    return UNROLLED.format(size=size, left=left, by=by, count=count)


def test_a_loop_that_a_compiler_has_unrolled_is_executed_by_all_threads() -> None:
    assert certain(unrolled()) == [True, True]
    assert certain(unrolled(size="mov.u32 %r2, 256;", by="256")) == [True, True]


@pytest.mark.parametrize(
    "change",
    [
        {"by": "3"},  # no number of threads
        {"left": "mad.wide.u32 %rd2, %r0, 4, %rd0;\nld.global.u32 %r5, [%rd2];"},  # data decide
        {"count": "xor.b32 %r6, %r6, %laneid;"},  # so does the lane
    ],
)
def test_another_condition_may_select_some_threads(change: dict[str, str]) -> None:
    assert certain(unrolled(**change)) == [False, False]


@pytest.mark.parametrize("multiplies", [True, False])
def test_a_warp_that_multiplies_needs_what_it_has_loaded(multiplies: bool) -> None:
    """Compilers load ahead of a guard what few threads need, but a product of the whole warp is no such load."""
    product = (
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%f0, %f1, %f2, %f3}, {%r3, %r3, %r3, %r3}, {%r3, %r3}, {%f0, %f1, %f2, %f3};"
    )
    body = f"""
    .shared .align 16 .b8 tile[8192];
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    ld.global.u32 %r9, [%rd0];
    shl.b32 %r2, %r0, 2;
    ld.shared.u32 %r3, [tile];
    mov.b32 %f0, %r3;
    {product if multiplies else ""}
    setp.ge.u32 %p0, %r0, %r9;
    @%p0 bra done;
    st.global.f32 [%rd0], %f0;
done:
    ret;
    """
    model = analysed(module(kernel(body), header=HEADER))
    (load,) = model.shared.sites
    assert (model.fact(ExecutionGuarantee).takers(load) != 0) is multiplies


TILE = """
    .shared .align 16 .b8 tile[8192];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    ld.global.u32 %r8, [%rd0];
    mad.wide.u32 %rd2, %r0, 4, %rd0;
    ld.global.u32 %r7, [%rd2];
    {position}
    setp.ge.s32 %p0, %r2, {bound};
    @%p0 bra done;
    st.shared.u32 [tile], %r0;
done:
    ret;
"""


@pytest.mark.parametrize(
    ("position", "bound", "known"),
    [
        ("mad.lo.s32 %r2, %r1, 256, %r0;", "%r9", True),
        ("mad.lo.s32 %r2, %r8, 256, %r0;", "%r9", True),  # the tile is loaded
        ("mad.lo.s32 %r2, %r1, 256, %r0;", "%r8", True),  # the bound is
        ("mad.lo.s32 %r6, %r1, -256, %r9;\nmin.s32 %r6, %r6, 256;\nmov.u32 %r2, %r0;", "%r6", True),
        ("mov.u32 %r2, %r0;", "%r9", False),  # it may be that of one warp
        ("add.s32 %r2, %r4, %r0;", "%r9", False),
        ("mad.lo.s32 %r2, %r7, 256, %r0;", "%r9", False),  # each thread has a tile of its own
        ("mad.lo.s32 %r2, %r1, 256, %r0;", "%r7", False),
        ("mad.lo.s32 %r2, %r1, 256, %r0;", "256", False),
    ],
)
def test_all_threads_are_below_the_bound_in_all_tiles_but_the_last(
    position: str, bound: str, known: bool
) -> None:
    assert certain(TILE.format(position=position, bound=bound)) == [known]


@pytest.mark.parametrize(
    ("vote", "known"),
    [
        ("ld.global.u32 %r3, [%rd2];", True),  # lane for lane, all warps load the same
        ("mad.wide.u32 %rd2, %r0, 4, %rd0;\nld.global.u32 %r3, [%rd2];", False),
        ("mad.wide.u32 %rd2, %r2, 4, %rd0;\natom.global.add.u32 %r3, [%rd2], 1;", False),
        ("shr.u32 %r3, %r0, 5;\nld.global.u32 %r5, [%rd0];\nmul.lo.u32 %r3, %r3, %r5;", False),
    ],
)
def test_a_value_of_a_warp_is_that_of_the_cta_if_warps_have_nothing_of_their_own(
    vote: str, known: bool
) -> None:
    body = f"""
    .shared .align 16 .b8 tile[8192];
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    and.b32 %r2, %r0, 31;
    mad.wide.u32 %rd2, %r2, 4, %rd0;
    {vote}
    shfl.sync.idx.b32 %r4, %r3, 7, 31, -1;
    setp.eq.u32 %p0, %r4, 3;
    @%p0 bra done;
    st.shared.u32 [tile], %r0;
done:
    ret;
    """
    assert certain(body) == [known]
