"""Lanes of a warp that exchange values, against the manual's pseudocode, and lanes that come one after the other."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from tests.tools.execution import SCHEDULES, done, right, run

STORE = "st.global.u64 [%rd62], %rd0;\nret;"
RESULT = "cvt.u64.u32 %rd0, %r0;\n" + STORE
every_schedule = pytest.mark.parametrize("how", SCHEDULES)


# ---------------------------------------------------------------- shuffles


def shuffled(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The source lane and the predicate (9.7.9.6)."""
    b &= 31
    clamp, segment = c & 31, c >> 8 & 31
    most, least = lane & segment | clamp & ~segment & 31, lane & segment
    j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": least | b & ~segment & 31}[mode]
    inside = j >= most if mode == "up" else j <= most
    return (j if inside else lane), inside


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("segment", [0, 0x10, 0x18, 0x1C, 0x1E, 0x1F])
@pytest.mark.parametrize("b", [0, 1, 5, 16, 31, 33])
def test_shuffles(mode: str, segment: int, b: int) -> None:
    for clamp in (0, 31, 12):
        c = segment << 8 | clamp
        found = right(
            f"""
        add.u32 %r1, %r199, 100;
        shfl.sync.{mode}.b32 %r2|%p0, %r1, {b}, {c}, 0xffffffff;
        selp.u32 %r3, 1, 0, %p0;
        shl.b32 %r2, %r2, 1;
        or.b32 %r0, %r2, %r3;
        """
            + RESULT
        )
        wanted = [shuffled(mode, lane, b, c) for lane in range(32)]
        assert found.out == [(100 + j) << 1 | inside for j, inside in wanted]


def test_a_shuffle_from_lanes_by_register() -> None:
    found = right(
        """
    sub.u32 %r1, 31, %r199;
    shfl.sync.idx.b32 %r0, %r199, %r1, 31, 0xffffffff;
    """
        + RESULT
    )
    assert found.out == list(range(31, -1, -1))


def test_a_shuffle_from_a_lane_that_does_not_take_part_is_reported() -> None:
    half = "setp.lt.u32 %p0, %r199, 16;\n@%p0 shfl.sync.down.b32 %r0, %r199, {}, 31, 0xffff;\n" + RESULT
    assert done(half.format(1)).kinds == ["shuffle"]
    assert "lane 15 reads from lane 16" in done(half.format(1)).messages[0]
    right(half.format(1).replace("31, 0xffff", "0x100f, 0xffff"))


# ---------------------------------------------------------------- which lanes arrive


@every_schedule
def test_groups_of_lanes_have_masks_of_their_own(how: str) -> None:
    """As tiles of cooperative groups do: one instruction, a mask for each tile."""
    found = right("""
    and.b32 %r1, %r199, 24;
    mov.u32 %r2, 0xff;
    shl.b32 %r2, %r2, %r1;
    vote.sync.ballot.b32 %r3, 1, %r2;
    redux.sync.add.u32 %r4, %r199, %r2;
    add.u32 %r0, %r3, %r4;
    activemask.b32 %r5;
    setp.ne.u32 %p0, %r5, 0xffffffff;
    @%p0 trap;
    """ + RESULT, how=how)  # fmt: skip
    tiles = [n // 8 for n in range(32)]
    assert found.out == [((0xFF << 8 * t) + sum(range(8 * t, 8 * t + 8))) & 0xFFFFFFFF for t in tiles]


@every_schedule
def test_lanes_arrive_one_after_the_other(how: str) -> None:
    """One half arrives before the branch ends, the other one after it: both are named by the mask."""
    found = right("""
    setp.lt.u32 %p0, %r199, 16;
    @%p0 bra EARLY;
    add.u32 %r1, %r199, 1000;
    shfl.sync.bfly.b32 %r0, %r1, 16, 31, 0xffffffff;
    bra.uni DONE;
EARLY:
    add.u32 %r2, %r199, 2000;
    shfl.sync.bfly.b32 %r0, %r2, 16, 31, 0xffffffff;
DONE:
    bar.warp.sync 0xffffffff;
    """ + RESULT, how=how)  # fmt: skip
    assert found.out == [1000 + n + 16 if n < 16 else 2000 + n - 16 for n in range(32)]


@every_schedule
def test_two_groups_meet_in_two_branches(how: str) -> None:
    found = right("""
    and.b32 %r1, %r199, 1;
    setp.ne.u32 %p0, %r1, 0;
    @%p0 bra ODD;
    redux.sync.add.u32 %r0, %r199, 0x55555555;
    bra.uni DONE;
ODD:
    redux.sync.add.u32 %r0, %r199, 0xaaaaaaaa;
DONE:
    """ + RESULT, how=how)  # fmt: skip
    assert found.out == [256 if n & 1 else 240 for n in range(32)]


def test_lanes_that_left_are_not_waited_for() -> None:
    found = right(
        """
    setp.lt.u32 %p0, %r199, 8;
    @%p0 bra LEAVE;
    vote.sync.ballot.b32 %r0, 1, 0xffffffff;
    """
        + RESULT
        + "\nLEAVE:\nret;"
    )
    assert found.out == [0] * 8 + [0xFFFFFF00] * 24


def test_a_lane_that_its_mask_does_not_name_is_reported() -> None:
    body = "vote.sync.ballot.b32 %r0, 1, {};\n" + RESULT
    assert done(body.format("0x7fffffff")).kinds == ["membermask"]
    assert "lane 31" in done(body.format("0x7fffffff")).messages[0]
    right(body.format("0x7fffffff"), block=31)


def test_lanes_that_never_arrive_are_a_deadlock() -> None:
    found = run("""
    setp.lt.u32 %p0, %r199, 16;
    @%p0 bra WAIT;
    bar.sync 0;
    ret;
WAIT:
    bar.warp.sync 0xffffffff;
    ret;
    """)
    assert found.execution.end == "deadlock"
    assert f"for lanes {list(range(16, 32))} of its warp" in found.execution.reason


# ---------------------------------------------------------------- votes, matches, elections


@pytest.mark.parametrize("voters", [0, 1 << 7, 0xFFFFFFFF, 0x0000FF00])
@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0x0000FFFF])
def test_votes(voters: int, mask: int) -> None:
    found = right(f"""
    mov.u32 %r1, {mask};
    mov.u32 %r2, %lanemask_eq;
    and.b32 %r3, %r2, %r1;
    setp.ne.u32 %p0, %r3, 0;
    @!%p0 bra DONE;
    and.b32 %r3, %r2, {voters};
    setp.ne.u32 %p1, %r3, 0;
    vote.sync.all.pred %p2, %p1, {mask};
    vote.sync.any.pred %p3, %p1, {mask};
    vote.sync.uni.pred %p4, %p1, {mask};
    vote.sync.ballot.b32 %r4, !%p1, {mask};
    selp.u32 %r5, 1, 0, %p2;
    selp.u32 %r6, 2, 0, %p3;
    selp.u32 %r7, 4, 0, %p4;
    add.u32 %r5, %r5, %r6;
    add.u32 %r5, %r5, %r7;
    mov.b64 %rd0, {{%r4, %r5}};
    st.global.u64 [%rd62], %rd0;
DONE:
    ret;
    """)
    yes = voters & mask
    flags = (yes == mask) | (yes != 0) << 1 | (yes in (0, mask)) << 2
    assert found.out == [flags << 32 | mask & ~voters if mask >> n & 1 else 0 for n in range(32)]


@pytest.mark.parametrize("size", ["b32", "b64"])
def test_matches(size: str) -> None:
    value, wide = (
        ("%r1", "") if size == "b32" else ("%rd1", "cvt.u64.u32 %rd1, %r1;\nshl.b64 %rd1, %rd1, 32;")
    )
    found = right(
        f"""
    and.b32 %r1, %r199, 5;
    {wide}
    match.any.sync.{size} %r2, {value}, 0xffffffff;
    match.all.sync.{size} %r3|%p0, {value}, 0xffffffff;
    sub.{size.replace("b", "u")} {value}, {value}, {value};
    match.all.sync.{size} %r4|%p1, {value}, 0xffffffff;
    selp.u32 %r5, 1, 0, %p0;
    selp.u32 %r6, 2, 0, %p1;
    add.u32 %r5, %r5, %r6;
    add.u32 %r5, %r5, %r3;
    setp.ne.u32 %p2, %r4, 0xffffffff;
    @%p2 trap;
    mov.b64 %rd0, {{%r2, %r5}};
    """
        + STORE
    )
    assert found.out == [2 << 32 | sum(1 << m for m in range(32) if m & 5 == n & 5) for n in range(32)]


def test_elections() -> None:
    found = right("""
    setp.ge.u32 %p1, %r199, 5;
    @!%p1 bra DONE;
    elect.sync %r1|%p0, 0xffffffe0;
    elect.sync _|%p2, 0xffffffe0;
    selp.u32 %r2, 1, 0, %p0;
    selp.u32 %r3, 2, 0, %p2;
    add.u32 %r2, %r2, %r3;
    mov.b64 %rd0, {%r1, %r2};
    st.global.u64 [%rd62], %rd0;
DONE:
    ret;
    """)
    assert found.out == [0] * 5 + [3 << 32 | 5] + [5] * 26


def test_the_active_lanes_are_known() -> None:
    found = right(
        """
    mov.u32 %r0, 0;
    and.b32 %r1, %r199, 3;
    setp.eq.u32 %p0, %r1, 1;
    @%p0 activemask.b32 %r0;
    """
        + RESULT
    )
    assert found.out == [0x22222222 if n & 3 == 1 else 0 for n in range(32)]


# ---------------------------------------------------------------- reductions

INTEGERS: dict[str, Callable[[list[int]], int]] = {
    "add.u32": sum, "add.s32": sum, "min.u32": min, "max.u32": max,
    "min.s32": lambda v: min(x - (x >> 31 << 32) for x in v),
    "max.s32": lambda v: max(x - (x >> 31 << 32) for x in v),
    "and.b32": lambda v: int(np.bitwise_and.reduce(v)),
    "or.b32": lambda v: int(np.bitwise_or.reduce(v)),
    "xor.b32": lambda v: int(np.bitwise_xor.reduce(v)),
}  # fmt: skip


@pytest.mark.parametrize("operation", INTEGERS)
def test_reductions_of_integers(operation: str) -> None:
    values = [(n * 0x9E3779B1 + 0x7F00FF00) & 0xFFFFFFFF for n in range(32)]
    found = right(f"""
    ld.param.u64 %rd1, [values];
    mul.wide.u32 %rd2, %r199, 4;
    add.u64 %rd1, %rd1, %rd2;
    ld.global.u32 %r1, [%rd1];
    redux.sync.{operation} %r0, %r1, 0xffffffff;
    """ + RESULT, buffers={"values": np.array(values, np.uint32)})  # fmt: skip
    assert found.out == [INTEGERS[operation](values) & 0xFFFFFFFF] * 32


NAN, CANONICAL = 0x7FC00001, 0x7FFFFFFF


def bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


@pytest.mark.parametrize(
    ("operation", "values", "result"),
    [
        ("min", [1.0, -2.0, 3.0], bits(-2.0)),
        ("max", [1.0, -2.0, 3.0], bits(3.0)),
        ("max.abs", [1.0, -5.0, 3.0], bits(5.0)),
        ("min.abs", [-1.0, -5.0, 3.0], bits(1.0)),
        ("min", [0.0, -0.0], bits(-0.0)),
        ("min", [-0.0, 0.0], bits(-0.0)),
        ("max", [0.0, -0.0], bits(0.0)),
        ("max", [-0.0, 0.0], bits(0.0)),
        ("max", [NAN, 1.0], bits(1.0)),
        ("min", [NAN, float("inf")], bits(float("inf"))),
        ("min", [NAN], CANONICAL),
        ("min.NaN", [NAN, 1.0], CANONICAL),
        ("max.abs.NaN", [NAN | 1 << 31, 1.0], CANONICAL),
        ("max.NaN", [4.0, 1.0], bits(4.0)),
    ],
)
def test_reductions_of_floats(operation: str, values: list[float | int], result: int) -> None:
    patterns = [v if isinstance(v, int) else bits(v) for v in values]
    patterns = (patterns * 32)[:32]
    found = right(f"""
    ld.param.u64 %rd1, [values];
    mul.wide.u32 %rd2, %r199, 4;
    add.u64 %rd1, %rd1, %rd2;
    ld.global.f32 %f1, [%rd1];
    redux.sync.{operation}.f32 %f0, %f1, 0xffffffff;
    mov.b32 %r0, %f0;
    """ + RESULT, buffers={"values": np.array(patterns, np.uint32)})  # fmt: skip
    assert found.out == [result] * 32
