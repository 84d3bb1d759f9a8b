"""Lanes that part do so with the numbers that are made up, and lanes that agree are never said to part."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tclint.ir.cfg import Edge
from tclint.values.divergence import Divergence, Split
from tests.tools.support import model

EVERY = (1 << 32) - 1
OPERATIONS = {
    "add.u32": lambda v, n: v + n,
    "sub.u32": lambda v, n: v - n,
    "mul.lo.u32": lambda v, n: v * n,
    "and.b32": lambda v, n: v & n,
    "or.b32": lambda v, n: v | n,
    "xor.b32": lambda v, n: v ^ n,
    "shr.u32": lambda v, n: v >> n,
    "shl.b32": lambda v, n: v << n,
    "min.u32": min,
    "max.u32": max,
    "div.u32": lambda v, n: v // n,
    "rem.u32": lambda v, n: v % n,
}
STEP = st.one_of(
    st.tuples(st.sampled_from(("add.u32", "sub.u32", "or.b32", "xor.b32", "min.u32")), st.integers(0, 400)),
    st.tuples(st.sampled_from(("and.b32", "max.u32")), st.integers(0, 400)),
    st.tuples(st.sampled_from(("mul.lo.u32", "div.u32", "rem.u32")), st.integers(1, 40)),
    st.tuples(st.sampled_from(("shr.u32", "shl.b32")), st.integers(0, 8)),
)


def split(code: str, threads: str = ".reqntid 128") -> Split | None:
    """How lanes part at the last branch of *code*, of which some skip the vote before ``out``."""
    body = f"{code}\n@%p0 bra out;\nvote.sync.any.pred %p9, %p8, -1;\nout:\nret;"
    kernel = model(body, before=".extern .func __assertfail;", directives=threads)
    cfg = kernel.cfg
    site = max(i for i, each in enumerate(kernel.function.instructions) if each.opcode.startswith("vote"))
    edge: Edge = next(e for e in cfg.predecessors[cfg.block_of[site]] if e.predicate >= 0)
    return Divergence(kernel.values, cfg).at_branch(edge, site, kernel.cta)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(STEP, max_size=4),
    st.lists(STEP, max_size=3),
    st.sampled_from(("lt.u32", "ge.u32", "eq.s32", "gt.s32", "ne.u32")),
)
def test_lanes_part_with_the_parameter_that_is_stated(
    index: list[tuple[str, int]], bound: list[tuple[str, int]], relation: str
) -> None:
    steps = [f"{opcode} %r2, %r2, {n};" for opcode, n in index]
    steps += [f"{opcode} %r3, %r3, {n};" for opcode, n in bound]
    found = split(
        "ld.param.u32 %r3, [number]; mov.u32 %r2, %tid.x;\n"
        + "\n".join(steps)
        + f"\nsetp.{relation} %p0, %r2, %r3;"
    )
    if found is None or not found.bounds:
        return
    ((_, number),) = found.bounds

    def follow(v: int, steps: list[tuple[str, int]]) -> int:
        for opcode, n in steps:
            v = OPERATIONS[opcode](v, n) & EVERY
        return v - ((v >> 31) << 32) if relation.endswith("s32") else v

    limit = follow(number & EVERY, bound)
    holds = {
        "lt": lambda v: v < limit, "ge": lambda v: v >= limit, "eq": lambda v: v == limit,
        "gt": lambda v: v > limit, "ne": lambda v: v != limit,
    }[relation[:2]]  # fmt: skip
    skipping = {thread for thread in range(128) if holds(follow(thread, index))}
    for thread in range(128):
        if found.reaching >> thread & 1:
            assert thread not in skipping
        if found.others >> thread & 1:
            assert thread in skipping


LOADS = """
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, {index}, 4;
    add.s64 %rd2, %rd0, %rd1;
    mov.u32 %r3, -1;
    mov.u32 %r4, 0;
next:
    ld.global.u32 %r5, [%rd2];
    {use}
    add.s64 %rd2, %rd2, 512;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p1, %r4, %r9;
    @%p1 bra next;
    setp.{compare};
"""
SELECT = "setp.gt.s32 %p2, %r5, 0; selp.b32 %r3, %r4, %r3, %p2;"


@pytest.mark.parametrize(
    ("index", "use", "compare", "own"),
    [
        ("%r0", "", "gt.s32 %p0, %r5, 0", True),
        ("%r0", "", "lt.u32 %p0, %r5, 7", True),
        ("%r0", "", "eq.u32 %p0, %r5, 7", True),
        ("%r0", SELECT, "gt.s32 %p0, %r3, -1", True),
        ("%r9", "", "gt.s32 %p0, %r5, 0", False),
        ("%r9", SELECT, "gt.s32 %p0, %r3, -1", False),
        ("%r0", "", "gt.s32 %p0, %r5, %r9", True),
        ("%r0", "", "gt.s32 %p0, %r5, %r4", True),
        ("%r0", SELECT, "gt.s32 %p0, %r3, %r9", True),
        ("%r0", "max.s32 %r3, %r3, %r5;", "gt.s32 %p0, %r3, -1", True),
        ("%r0", SELECT + "shfl.sync.idx.b32 %r3, %r3, 0, 31, -1;", "gt.s32 %p0, %r3, -1", False),
    ],
)
def test_data_of_each_thread_decide_what_they_are_compared_for_or_select(
    index: str, use: str, compare: str, own: bool
) -> None:
    found = split(LOADS.format(index=index, use=use, compare=compare))
    assert (found is not None and found.own) == own


OWN = "ld.param.u64 %rd0, [pointer]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd1, %rd0, %rd1; ld.global.f32 %f1, [%rd1]; ld.global.u32 %r1, [%rd1];\n"
REDUCED = "".join(
    f"mov.b32 %r2, %f1; shfl.sync.bfly.b32 %r3, %r2, {by}, 31, -1; mov.b32 %f2, %r3; add.f32 %f1, %f1, %f2;\n"
    for by in (16, 8, 4, 2, 1)
)

FIVE = """mov.u32 %r0, %tid.x; ld.param.u32 %r3, [number]; and.b32 %r3, %r3, 0; add.u32 %r3, %r3, 5;
setp.ge.u32 %p2, %r0, %r3; @%p2 exit; setp.ne.s32 %p1, %r1, 77; vote.sync.ballot.b32 %r2, %p1, -1;"""
"""The lanes that have not exited vote."""


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        (f"{OWN} setp.leu.f32 %p0, %f1, 0f00000000;", True),
        (f"{OWN} setp.gt.f32 %p0, %f1, 0f44FA0000;", True),
        (f"{OWN} {REDUCED} setp.leu.f32 %p0, %f1, 0f00000000;", False),
        (f"{OWN} setp.eq.s32 %p1, %r1, 0; vote.sync.all.pred %p0, %p1, -1;", False),
        (f"{OWN} {FIVE} shr.u32 %r2, %r2, 8; and.b32 %r2, %r2, 3; setp.lt.u32 %p0, %r0, %r2;", False),
        (f"{OWN} {FIVE} and.b32 %r2, %r2, 3; setp.lt.u32 %p0, %r0, %r2;", True),
        (f"{OWN} redux.sync.max.s32 %r2, %r1, -1; setp.gt.s32 %p0, %r2, 0;", False),
        (f"{OWN} match.any.sync.b32 %r2, %r1, -1; setp.eq.s32 %p0, %r2, -1;", False),
        (f"{OWN} match.any.sync.b32 %r2, %r1, -1; and.b32 %r2, %r2, 1; setp.eq.s32 %p0, %r2, 1;", True),
        ("ld.param.u64 %rd0, [pointer]; atom.global.add.u32 %r1, [%rd0], 1; setp.lt.u32 %p0, %r1, 9;", True),
        (f"{OWN} shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; setp.lt.u32 %p0, %r2, 9;", False),
        (f"{OWN} shfl.sync.up.b32 %r2, %r1, 1, 0, -1; setp.lt.u32 %p0, %r2, 9;", True),
        ("mov.u32 %r0, %tid.x; shr.u32 %r0, %r0, 5; ld.param.u32 %r1, [number]; setp.lt.u32 %p0, %r0, %r1;", False),
        ("mov.u32 %r0, %tid.x; add.u32 %r0, %r0, 31; and.b32 %r0, %r0, -32; setp.lt.u32 %p0, %r0, 64;", True),
        ("mov.u32 %r0, %tid.x; cvt.rn.f32.u32 %f1, %r0; setp.lt.f32 %p0, %f1, 0f41000000;", False),
    ],
)  # fmt: skip
def test_exchanges_make_values_the_same_or_not(code: str, parts: bool) -> None:
    assert (split(code) is not None) == parts


@pytest.mark.parametrize(
    ("guard", "bound"),
    [
        ("", "number is not a multiple of 32"),
        ("and.b32 %r2, %r1, 31; setp.ne.u32 %p1, %r2, 0; @%p1 bra out;", ""),
        ("setp.gt.u32 %p1, %r1, 500; @%p1 bra out;", "number is not a multiple of 32"),
    ],
)
def test_the_way_to_a_branch_holds_with_the_same_numbers(guard: str, bound: str) -> None:
    found = split(f"ld.param.u32 %r1, [number]; mov.u32 %r0, %tid.x;\n{guard}\nsetp.ge.u32 %p0, %r0, %r1;")
    assert (found is not None) == bool(bound)


@pytest.mark.parametrize("failure", ["trap;", "call.uni __assertfail;"])
def test_numbers_for_which_the_kernel_aborts_are_not_tried(failure: str) -> None:
    """``if (n % 32 != 0) __trap();``: lanes do not part at ``tid >= n`` in any launch that succeeds."""
    checked = f"and.b32 %r2, %r1, 31; setp.eq.u32 %p1, %r2, 0; @%p1 bra whole; {failure}\nwhole:"
    code = "ld.param.u32 %r1, [number]; mov.u32 %r0, %tid.x;\n{}\nsetp.ge.u32 %p0, %r0, %r1;"
    assert split(code.format("")) is not None
    assert split(code.format(checked)) is None
