"""The machine: divergence, scheduling, what ends an execution, and memory as kernels see it."""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np
import pytest

from tests.tools.execution import REGISTERS, SCHEDULES, done, right, run
from tests.tools.support import kernel

Array = Any
BLACKWELL = ".version 8.8\n.target sm_100a\n.address_size 64\n"
STORE = "st.global.u64 [%rd62], %rd0;\nret;"
every_schedule = pytest.mark.parametrize("how", SCHEDULES)


# ---------------------------------------------------------------- divergence


def test_the_paths_of_a_branch_reconverge_after_it() -> None:
    found = right(
        """
    setp.lt.u32 %p0, %r199, 10;
    @%p0 bra FEW;
    mov.u64 %rd0, 1;
    bra.uni BOTH;
FEW:
    mov.u64 %rd0, 2;
BOTH:
    activemask.b32 %r0;
    cvt.u64.u32 %rd1, %r0;
    shl.b64 %rd1, %rd1, 8;
    or.b64 %rd0, %rd0, %rd1;
"""
        + STORE
    )
    assert found.out == [0xFFFFFFFF00 | (2 if n < 10 else 1) for n in range(32)]


def test_nested_branches_reconverge_from_the_inside() -> None:
    found = right(
        """
    mov.u64 %rd0, 0;
    and.b32 %r0, %r199, 1;
    and.b32 %r1, %r199, 2;
    setp.ne.u32 %p0, %r0, 0;
    setp.ne.u32 %p1, %r1, 0;
    @!%p0 bra OUTER;
    @!%p1 bra INNER;
    add.u64 %rd0, %rd0, 100;
INNER:
    activemask.b32 %r2;
    cvt.u64.u32 %rd1, %r2;
    add.u64 %rd0, %rd0, %rd1;
OUTER:
"""
        + STORE
    )
    assert found.out == [(0xAAAAAAAA if n & 1 else 0) + (100 if n & 3 == 3 else 0) for n in range(32)]


def test_lanes_leave_a_loop_one_after_the_other() -> None:
    found = right("""
    mov.u32 %r0, 0;
    mov.u32 %r1, 0;
AGAIN:
    setp.ge.u32 %p0, %r0, %r199;
    @%p0 bra OUT;
    add.u32 %r1, %r1, %r0;
    add.u32 %r0, %r0, 1;
    bra.uni AGAIN;
OUT:
    activemask.b32 %r2;
    st.global.u32 [%rd62], %r1;
    st.global.u32 [%rd62+4], %r2;
    ret;
""")
    assert found.out == [0xFFFFFFFF << 32 | n * (n - 1) // 2 for n in range(32)]


def test_lanes_that_return_in_a_branch_are_not_waited_for() -> None:
    found = right(
        """
    mov.u64 %rd0, 7;
    setp.lt.u32 %p0, %r199, 5;
    @%p0 st.global.u64 [%rd62], %rd0;
    @%p0 ret;
    setp.gt.u32 %p1, %r199, 20;
    @!%p1 bra ON;
    exit;
ON:
    bar.warp.sync 0xffffffff;
    activemask.b32 %r2;
    cvt.u64.u32 %rd0, %r2;
"""
        + STORE
    )
    between = sum(1 << n for n in range(5, 21))
    assert found.out == [7 if n < 5 else between if n < 21 else 0 for n in range(32)]


def test_an_indexed_branch_sends_each_lane_to_its_own_target() -> None:
    found = right(
        """
    and.b32 %r0, %r199, 3;
    table: .branchtargets A, B, A, C;
    brx.idx %r0, table;
A:
    mov.u64 %rd0, 1;
    bra.uni DONE;
B:
    mov.u64 %rd0, 2;
    bra.uni DONE;
C:
    mov.u64 %rd0, 3;
DONE:
    activemask.b32 %r2;
    cvt.u64.u32 %rd1, %r2;
    shl.b64 %rd1, %rd1, 8;
    or.b64 %rd0, %rd0, %rd1;
"""
        + STORE
    )
    assert found.out == [0xFFFFFFFF00 | (1, 2, 1, 3)[n & 3] for n in range(32)]


def test_an_indexed_branch_beyond_its_table_is_a_fault() -> None:
    found = run("table: .branchtargets A, A;\nbrx.idx %r199, table;\nA:\nret;")
    assert found.execution.end == "fault"
    assert "index 2 is out of range for 2 targets" in found.execution.reason


def test_a_guarded_instruction_leaves_the_other_lanes_as_they_are() -> None:
    found = right(
        """
    mov.u64 %rd0, 5;
    setp.eq.u32 %p0, %r199, 3;
    @%p0 mov.u64 %rd0, 6;
    @!%p0 add.u64 %rd0, %rd0, 10;
"""
        + STORE
    )
    assert found.out == [6 if n == 3 else 15 for n in range(32)]


def test_threads_that_do_not_fill_a_warp() -> None:
    found = right("activemask.b32 %r0;\ncvt.u64.u32 %rd0, %r0;\n" + STORE, block=40)
    assert found.out == [0xFFFFFFFF] * 32 + [0xFF] * 8


# ---------------------------------------------------------------- scheduling


@every_schedule
def test_a_warp_that_polls_memory_lets_the_others_continue(how: str) -> None:
    found = done("""
    setp.ge.u32 %p0, %r199, 32;
    @%p0 bra WRITER;
POLL:
    ld.acquire.gpu.global.u64 %rd0, [%rd63+256];
    setp.eq.u64 %p1, %rd0, 0;
    @%p1 bra POLL;
    st.global.u64 [%rd62], %rd0;
    ret;
WRITER:
    mov.u64 %rd0, 9;
    st.release.gpu.global.u64 [%rd62], %rd0;
    ret;
""", block=64, how=how)  # fmt: skip
    assert found.out == [9] * 64


@every_schedule
def test_clusters_that_poll_for_one_that_starts_late(how: str) -> None:
    """The first CTA waits for a word of the last one, of more than are on the machine at first."""
    found = done("""
    setp.ne.u32 %p0, %r198, 0;
    @%p0 bra OTHERS;
POLL:
    ld.acquire.gpu.global.u64 %rd0, [%rd63+7936];
    setp.eq.u64 %p1, %rd0, 0;
    @%p1 bra POLL;
    st.global.u64 [%rd62], %rd0;
    ret;
OTHERS:
    mov.u64 %rd0, 9;
    st.release.gpu.global.u64 [%rd62], %rd0;
    ret;
""", grid=32, how=how)  # fmt: skip
    assert found.out == [9] * 1024


@every_schedule
def test_polling_does_not_keep_a_copy_from_completing(how: str) -> None:
    """One warp polls for what another one writes, that waits for a copy first."""
    found = done("""
    mov.u32 %r0, bars;
    mov.u32 %r1, smem;
    setp.ne.u32 %p0, %r199, 32;
    @%p0 bra CHECK;
    mbarrier.init.shared.b64 [%r0], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r0], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd63], 256, [%r0];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p1, [%r0], 0;
    @!%p1 bra WAIT;
    mov.u64 %rd0, 9;
    st.release.gpu.global.u64 [%rd63+256], %rd0;
    ret;
CHECK:
    setp.ge.u32 %p2, %r199, 32;
    @%p2 ret;
POLL:
    ld.acquire.gpu.global.u64 %rd0, [%rd63+256];
    setp.eq.u64 %p1, %rd0, 0;
    @%p1 bra POLL;
    st.global.u64 [%rd62], %rd0;
    ret;
""", block=64, how=how)  # fmt: skip
    assert found.out[:33] == [9] * 33


def test_lanes_that_hand_a_lock_to_each_other() -> None:
    """Lanes of one warp that spin on the same lock: the lane that holds it must not be starved by those that do not."""
    found = right("""
    mov.u64 %rd0, 0;
TAKE:
    atom.acquire.gpu.global.cas.b32 %r0, [lock], 0, 1;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra TAKE;
    ld.volatile.global.u32 %r1, [lock+4];
    add.u32 %r1, %r1, 1;
    st.volatile.global.u32 [lock+4], %r1;
    atom.release.gpu.global.exch.b32 %r0, [lock], 0;
    bar.sync 0;
    cvt.u64.u32 %rd0, %r1;
""" + STORE, before=".global .align 8 .b32 lock[2];\n", block=3)  # fmt: skip
    assert sorted(found.out) == [1, 2, 3]


def test_a_kernel_that_does_not_end_is_out_of_budget() -> None:
    found = run("AGAIN:\nbra AGAIN;", steps=10_000)
    assert found.execution.end == "budget"
    assert "its budget of instructions" in found.execution.reason


# ---------------------------------------------------------------- deadlocks


@every_schedule
def test_a_deadlock_names_the_threads_and_what_they_wait_for(how: str) -> None:
    found = run("""
    setp.lt.u32 %p0, %r199, 32;
    @%p0 bra LEFT;
    bar.sync 1, 96;
    ret;
LEFT:
    bar.sync 2, 96;
    ret;
""", block=64, how=how)  # fmt: skip
    assert found.execution.end == "deadlock"
    sites = [n for n, line in enumerate(found.lines) if line.startswith("bar.sync")]
    assert sorted({wait.site for wait in found.execution.waits}) == sites
    for n, site in enumerate(reversed(sites)):
        waits = f"warp {n} waits at instruction {site} at a barrier: 32 of 96 threads have arrived"
        assert waits in found.execution.reason


@every_schedule
def test_a_wait_for_a_phase_that_never_completes_is_a_deadlock(how: str) -> None:
    found = run("""
    mov.u32 %r0, bars;
    setp.eq.u32 %p0, %r199, 0;
    @%p0 mbarrier.init.shared.b64 [%r0], 3;
    bar.sync 0;
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p1, [%r0], 0;
    @!%p1 bra WAIT;
    ret;
""", how=how)  # fmt: skip
    assert found.execution.end == "deadlock"
    assert "for phase 0 of the mbarrier at" in found.execution.reason
    assert "3 arrivals and 0 bytes are pending" in found.execution.reason
    (site,) = {wait.site for wait in found.execution.waits}
    assert found.lines[site].startswith("mbarrier.try_wait")


def test_a_test_that_gives_up_after_a_while_is_not_a_deadlock() -> None:
    """A test with a time limit may be false each time; the thread continues."""
    found = right(
        """
    mov.u32 %r0, bars;
    setp.eq.u32 %p0, %r199, 0;
    @%p0 mbarrier.init.shared.b64 [%r0], 1;
    bar.sync 0;
    mov.u32 %r1, 0;
WAIT:
    mbarrier.test_wait.parity.shared.b64 %p1, [%r0], 0;
    @%p1 trap;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p2, %r1, 5;
    @%p2 bra WAIT;
    cvt.u64.u32 %rd0, %r1;
"""
        + STORE
    )
    assert found.out == [5] * 32


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("ld.global.u64 %rd0, [%rd62+8];", r"is not in a buffer \(0 bytes past the end of out\)"),
        ("ld.global.u64 %rd0, [%rd63+-8];", "is not in a buffer"),
        ("ld.global.u32 %r0, [%rd62+2];", "misaligned address"),
        ("ld.global.v2.u64 {%rd0, %rd1}, [%rd63+8];", "misaligned address"),
        ("st.global.v4.u32 [%rd63+8], {%r0, %r1, %r2, %r3};", "misaligned address"),
        ("st.shared.u32 [smem+65664], %r0;", r"out of bounds \(65664 bytes; the launch"),
        ("mov.u32 %r0, 0;\nld.shared.u32 %r1, [%r0];", "offset -1024 is out of bounds"),
        (
            "mov.u32 %r0, smem;\nadd.u32 %r0, %r0, 0x3000000;\nld.shared::cluster.u32 %r1, [%r0];",
            "is outside the cluster",
        ),
        ("mov.u64 %rd0, 64;\nld.u32 %r1, [%rd0];", "in no state space"),
        ("atom.global.add.u32 %r1, [%rd63+2], 1;", "misaligned address"),
        ("trap;", "trap at instruction 6"),
        ("brkpt;", "brkpt at instruction 6"),
        ("bar.sync %r199;", "barrier 1[67] does not exist"),
        (
            "mapa.shared::cluster.u32 %r1, %r0, 1;\nld.shared::cluster.u32 %r2, [%r1];",
            "is outside the cluster of 1 CTAs",
        ),
    ],
)
def test_what_a_gpu_stops_at(body: str, reason: str) -> None:
    if "%r199;" in body:
        body = "add.u32 %r199, %r199, 16;\n" + body
    found = run(body + "\nret;")
    assert found.execution.end == "fault", found.execution
    assert re.search(reason, found.execution.reason), found.execution.reason


def test_local_memory_has_an_end() -> None:
    space = REGISTERS + ".local .align 8 .b8 depot[16];\n"
    body = "mov.u32 %r0, depot;\nadd.u32 %r0, %r0, {};\nld.local.u64 %rd0, [%r0];\nret;"
    assert right(body.format(8), registers=space).execution.end == "done"
    found = run(body.format(16), registers=space).execution
    assert (found.end, found.reason) == ("fault", "local memory: offset 16 is out of bounds (16 bytes)")
    wide = "mov.u32 %r0, depot;\nadd.u32 %r0, %r0, 8;\nld.local.v2.u64 {%rd0, %rd1}, [%r0];\nret;"
    assert run(wide, registers=space).execution.end == "fault"


# ---------------------------------------------------------------- memory


def test_local_memory_is_each_threads_own_and_has_generic_addresses() -> None:
    found = right("""
    mov.u64 %rd1, depot;
    st.local.u32 [%rd1+4], %r199;
    cvta.local.u64 %rd2, %rd1;
    isspacep.local %p0, %rd2;
    isspacep.global %p1, %rd2;
    ld.u32 %r1, [%rd2+4];
    cvta.to.local.u64 %rd3, %rd2;
    ld.local.u32 %r2, [%rd3+4];
    add.u32 %r1, %r1, %r2;
    selp.u32 %r3, 1000, 0, %p0;
    selp.u32 %r4, 1, 0, %p1;
    add.u32 %r1, %r1, %r3;
    add.u32 %r1, %r1, %r4;
    cvt.u64.u32 %rd0, %r1;
""" + STORE, registers=REGISTERS + ".local .align 8 .b8 depot[16];\n", block=64)  # fmt: skip
    assert found.out == [2 * n + 1000 for n in range(64)]


def test_generic_addresses_of_several_state_spaces_in_one_access() -> None:
    found = right(
        """
    mov.u64 %rd1, smem;
    cvta.shared.u64 %rd1, %rd1;
    mul.wide.u32 %rd2, %r199, 8;
    add.u64 %rd1, %rd1, %rd2;
    setp.lt.u32 %p0, %r199, 16;
    selp.u64 %rd3, %rd62, %rd1, %p0;
    cvt.u64.u32 %rd4, %r199;
    st.u64 [%rd3], %rd4;
    isspacep.shared::cta %p1, %rd3;
    ld.u64 %rd5, [%rd3];
    @%p1 add.u64 %rd5, %rd5, 500;
    mov.u64 %rd0, %rd5;
"""
        + STORE
    )
    assert found.out == [n if n < 16 else n + 500 for n in range(32)]


@pytest.mark.parametrize("space", ["const", "global", "shared", "local", "param"])
def test_which_state_space_an_address_is_of(space: str) -> None:
    made = {"const": "mov.u64 %rd1, fixed;", "global": "mov.u64 %rd1, %rd63;"}
    body = "".join(
        f"{made.get(of, f'mov.u64 %rd1, {of}_one;')}\ncvta.{of}.u64 %rd1, %rd1;\nisspacep.{space} %p{n}, %rd1;\n"
        for n, of in enumerate(["const", "global", "shared", "local", "param"])
    )
    flags = "".join(f"selp.u32 %r1, {1 << n}, 0, %p{n};\nadd.u32 %r0, %r0, %r1;\n" for n in range(5))
    found = right(
        "mov.u32 %r0, 0;\n" + body + flags + "cvt.u64.u32 %rd0, %r0;\n" + STORE,
        before=".const .align 4 .u32 fixed = 1;\n.shared .b32 shared_one;\n",
        registers=REGISTERS + ".local .b32 local_one;\n", parameters=", .param .u64 param_one", values=[bytes(8)],
    )  # fmt: skip
    assert found.out == [1 << ["const", "global", "shared", "local", "param"].index(space)] * 32


def test_parameters() -> None:
    found = right("""
    ld.param.u8 %r0, [a];
    ld.param.s16 %r1, [b];
    ld.param.v2.u32 {%r2, %r3}, [c];
    ld.param.u64 %rd1, [d];
    mov.b64 %rd2, c;
    cvta.param.u64 %rd3, %rd2;
    ld.u32 %r4, [%rd3+4];
    ld.param.u32 %r5, [%rd2];
    st.global.v2.u32 [%rd63], {%r0, %r1};
    st.global.v2.u32 [%rd63+8], {%r2, %r3};
    st.global.u64 [%rd63+16], %rd1;
    st.global.v2.u32 [%rd63+24], {%r4, %r5};
    ret;
""",
        parameters=", .param .u8 a, .param .s16 b, .param .align 8 .b8 c[8], .param .f64 d",
        values=(b"\x81", struct.pack("<h", -2), struct.pack("<II", 5, 6), struct.pack("<d", 1.5)),
    )  # fmt: skip
    assert found.out[:4] == [0xFFFFFFFE << 32 | 0x81, 6 << 32 | 5, 0x3FF8000000000000, 5 << 32 | 6]


def test_loads_extend_and_stores_cut() -> None:
    """Registers may be wider than what is loaded or stored (9.4.1)."""
    found = right("""
    mov.u64 %rd1, 0x8182838485868788;
    st.global.u8 [%rd63], %rd1;
    st.global.u16 [%rd63+2], %rd1;
    ld.global.s8 %rd2, [%rd63];
    ld.global.u8 %rd3, [%rd63];
    ld.global.b8 %r1, [%rd63];
    ld.global.s16 %r2, [%rd63+2];
    st.global.u64 [%rd63+8], %rd2;
    st.global.u64 [%rd63+16], %rd3;
    st.global.u32 [%rd63+24], %r1;
    st.global.u32 [%rd63+28], %r2;
    ret;
""", block=4)  # fmt: skip
    assert found.out == [0x87880088, 0xFFFFFFFFFFFFFF88, 0x88, 0xFFFF8788 << 32 | 0x88]


def test_vectors_of_up_to_32_bytes_and_128_bits() -> None:
    found = right("""
    mul.wide.u32 %rd1, %r199, 64;
    add.u64 %rd1, %rd61, %rd1;
    ld.global.v8.b32 {%r1, %r2, _, %r4, %r5, %r6, %r7, %r8}, [%rd1];
    ld.global.b128 %q1, [%rd1+32];
    ld.global.v4.u64 {%rd2, %rd3, %rd4, %rd5}, [%rd1];
    st.global.v8.b32 [%rd1], {%r8, %r7, %r6, %r5, %r4, 0, %r2, %r1};
    st.global.b128 [%rd1+48], %q1;
    add.u64 %rd5, %rd5, %rd2;
    st.global.u64 [%rd1+32], %rd5;
    ret;
""".replace("mul.wide", "ld.param.u64 %rd61, [data];\n    mul.wide", 1), header=BLACKWELL,
        buffers={"data": np.arange(512, dtype=np.uint32)},
    )  # fmt: skip
    for n, row in enumerate(found.buffers["data"].reshape(32, 16).tolist()):
        a = list(range(16 * n, 16 * n + 16))
        total = (a[6] | a[7] << 32) + (a[0] | a[1] << 32)
        assert row[:8] == [a[7], a[6], a[5], a[4], a[3], 0, a[1], a[0]]
        assert row[8:] == [total & 0xFFFFFFFF, total >> 32, a[10], a[11], *a[8:12]]


# ---------------------------------------------------------------- variables and calls


def test_variables_of_the_module_with_their_first_values() -> None:
    found = right("""
    ld.const.u32 %r0, [numbers+4];
    ld.global.u64 %rd1, [pointer];
    ld.u32 %r1, [%rd1];
    ld.global.s8 %r2, [bytes+1];
    ld.global.f32 %f0, [single+4];
    mov.b32 %r3, %f0;
    mov.u64 %rd2, numbers;
    ld.const.u32 %r4, [%rd2+8];
    st.global.u32 [%rd63], %r0;
    st.global.u32 [%rd63+4], %r1;
    st.global.u32 [%rd63+8], %r2;
    st.global.u32 [%rd63+12], %r3;
    st.global.u32 [%rd63+16], %r4;
    ld.global.u64 %rd3, [zero+8];
    st.global.u64 [%rd63+24], %rd3;
    ret;
""", block=4, before="""
.const .align 4 .u32 numbers[3] = {3, 0x44, 5};
.global .align 4 .u32 word = 77;
.global .align 8 .u64 pointer = generic(word);
.global .align 1 .s8 bytes[4] = {1, -2, 3};
.global .align 4 .f32 single[2] = {0f3F800000, 2.5};
.global .align 8 .b8 zero[16];
""")  # fmt: skip
    number = struct.unpack("<I", struct.pack("<f", 2.5))[0]
    assert found.out == [77 << 32 | 0x44, number << 32 | 0xFFFFFFFE, 5, 0]


def test_a_function_of_the_module_is_called_by_some_lanes() -> None:
    twice = """
.func (.param .b32 result) twice(.param .b32 x) {
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [x];
    add.u32 %r2, %r1, %r1;
    st.param.b32 [result], %r2;
    ret;
}
"""
    found = right("""
    mov.u32 %r1, 3;
    setp.lt.u32 %p0, %r199, 4;
    @!%p0 bra NOT;
    {
    .param .b32 given;
    .param .b32 back;
    st.param.b32 [given], %r199;
    call.uni (back), twice, (given);
    ld.param.b32 %r1, [back];
    }
NOT:
    cvt.u64.u32 %rd0, %r1;
""" + STORE, before=twice)  # fmt: skip
    assert found.out == [2 * n if n < 4 else 3 for n in range(32)]


def test_printing_is_noted_and_a_failed_assertion_is_a_fault() -> None:
    printf = ".extern .func (.param .b32 status) vprintf (.param .b64 format, .param .b64 list);\n"
    found = right("""
    {
    .param .b64 one;
    .param .b64 two;
    .param .b32 back;
    st.param.b64 [one], %rd63;
    st.param.b64 [two], 0;
    call.uni (back), vprintf, (one, two);
    }
    ret;
""", before=printf)  # fmt: skip
    assert list(found.execution.notes) == ["the output of printf is not shown"]
    fail = ".extern .func __assertfail (.param .b64 message);\n"
    stopped = run(
        "{\n.param .b64 one;\nst.param.b64 [one], 0;\ncall.uni __assertfail, (one);\n}\nret;", before=fail
    )
    assert stopped.execution.end == "fault"
    assert "an assertion failed" in stopped.execution.reason


# ---------------------------------------------------------------- special registers


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("%tid.x", lambda t, c: t % 8),
        ("%tid.y", lambda t, c: t // 8 % 4),
        ("%tid.z", lambda t, c: t // 32),
        ("%ntid.y", lambda t, c: 4),
        ("%ctaid.x", lambda t, c: c % 4),
        ("%ctaid.y", lambda t, c: c // 4),
        ("%nctaid.x", lambda t, c: 4),
        ("%nctaid.z", lambda t, c: 1),
        ("%clusterid.x", lambda t, c: c % 4 // 2),
        ("%nclusterid.x", lambda t, c: 2),
        ("%cluster_ctaid.x", lambda t, c: c % 2),
        ("%cluster_nctaid.x", lambda t, c: 2),
        ("%cluster_ctarank", lambda t, c: c % 2),
        ("%cluster_nctarank", lambda t, c: 2),
        ("%laneid", lambda t, c: t % 32),
        ("%warpid", lambda t, c: t // 32),
        ("%lanemask_lt", lambda t, c: (1 << t % 32) - 1),
        ("%lanemask_le", lambda t, c: (2 << t % 32) - 1),
        ("%lanemask_eq", lambda t, c: 1 << t % 32),
        ("%lanemask_ge", lambda t, c: -(1 << t % 32) & 0xFFFFFFFF),
        ("%lanemask_gt", lambda t, c: -(2 << t % 32) & 0xFFFFFFFF),
        ("%dynamic_smem_size", lambda t, c: 48),
    ],
)
def test_special_registers(name: str, value: Any) -> None:
    found = right(f"""
    mov.u32 %r10, %tid.y;
    mov.u32 %r11, %tid.z;
    mov.u32 %r12, %ctaid.y;
    mad.lo.u32 %r0, %r10, 8, %r199;
    mad.lo.u32 %r0, %r11, 32, %r0;
    mad.lo.u32 %r1, %r12, 4, %r198;
    mad.lo.u32 %r0, %r1, 64, %r0;
    mad.wide.u32 %rd1, %r0, 8, %rd63;
    mov.u32 %r2, {name};
    st.global.u32 [%rd1], %r2;
    ret;
""", block=(8, 4, 2), grid=(4, 2, 1), cluster=2, dynamic=48)  # fmt: skip
    assert found.out == [value(n % 64, n // 64) for n in range(512)]


@pytest.mark.parametrize("name", ["%clock64", "%globaltimer"])
def test_a_thread_can_wait_for_time_to_pass(name: str) -> None:
    found = right(
        f"""
    mov.u64 %rd1, {name};
AGAIN:
    mov.u64 %rd2, {name};
    sub.u64 %rd0, %rd2, %rd1;
    setp.lt.u64 %p0, %rd0, 5;
    @%p0 bra AGAIN;
    setp.ge.u64 %p1, %rd0, 5;
    selp.u64 %rd0, 1, 0, %p1;
"""
        + STORE
    )
    assert found.out == [1] * 32


# ---------------------------------------------------------------- atomic operations


def bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize(
    ("operation", "operand", "first", "last"),
    [
        ("add.u32", "%r199", 5, 5 + 496),
        ("add.s32", "-1", 5, 5 - 32 & 0xFFFFFFFF),
        ("min.s32", "-3", 7, 0xFFFFFFFD),
        ("min.u32", "-3", 7, 7),
        ("max.s32", "%r199", 7, 31),
        ("max.u32", "%r199", 0xFFFFFFFF, 0xFFFFFFFF),
        ("and.b32", "-2", 0xFF, 0xFE),
        ("or.b32", "%r199", 0x100, 0x11F),
        ("xor.b32", "%r199", 0x100, 0x100),
        ("inc.u32", "4", 0, 32 % 5),
        ("dec.u32", "4", 9, (4 - 31 % 5) % 5),
        ("add.f32", "0f3F800000", bits(0.5), bits(32.5)),
    ],
)
def test_atomic_operations_of_all_lanes_at_one_place(
    space: str, operation: str, operand: str, first: int, last: int
) -> None:
    """Each lane sees what another one left, and the order does not matter for the last value."""
    where = {"global": ".global", "shared": ".shared", "generic": ""}[space]
    address = {"global": "cell", "shared": "smem", "generic": "%rd2"}[space]
    kind = operation.partition(".")[2]
    register = "%f1" if kind == "f32" else "%r1"
    found = done(f"""
    mov.u32 %r0, {first};
    mov.u64 %rd2, smem;
    cvta.shared.u64 %rd2, %rd2;
    st.global.u32 [cell], %r0;
    st.shared.u32 [smem], %r0;
    bar.warp.sync 0xffffffff;
    red{where}.{operation} [{address}], {operand};
    {'mov.b32 %r3, 0;' if space == 'global' else ''}
    ld{where}.u32 %r2, [{address}];
    st.global.u32 [%rd62], %r2;
    bar.warp.sync 0xffffffff;
    st{where}.u32 [{address}], %r0;
    atom{where}.{operation} {register}, [{address}], {operand};
    mov.b32 %r1, {register};
    st.global.u32 [%rd62+4], %r1;
    ret;
""", before=".global .align 4 .u32 cell;\n")  # fmt: skip
    assert [v & 0xFFFFFFFF for v in found.out] == [last] * 32
    assert first in [v >> 32 for v in found.out]


def test_wide_atomic_operations() -> None:
    found = right("""
    setp.ne.u32 %p0, %r199, 0;
    @%p0 ret;
    mov.u64 %rd1, 7;
    mov.u64 %rd2, 8;
    mov.b128 %q0, {%rd1, %rd2};
    atom.global.exch.b128 %q1, [cell], %q0;
    mov.b128 {%rd3, %rd4}, %q1;
    mov.u64 %rd5, 9;
    mov.b128 %q2, {%rd5, %rd5};
    atom.global.cas.b128 %q3, [cell], %q0, %q2;
    atom.global.cas.b128 %q3, [cell], %q0, %q0;
    mov.b128 {%rd6, %rd7}, %q3;
    st.global.u64 [%rd63], %rd3;
    st.global.u64 [%rd63+8], %rd4;
    st.global.u64 [%rd63+16], %rd6;
    ld.global.u64 %rd8, [cell+8];
    st.global.u64 [%rd63+24], %rd8;
    atom.global.add.u64 %rd9, [%rd63+32], -1;
    atom.global.cas.b16 %h1, [%rd63+40], 0, 0x1234;
    red.global.max.s64 [%rd63+48], 5;
    red.global.add.f64 [%rd63+56], 0d3FF8000000000000;
    ret;
""", before=".global .align 16 .u64 cell[2] = {1, 2};\n")  # fmt: skip
    assert found.out[:8] == [1, 2, 9, 9, 2**64 - 1, 0x1234, 5, 0x3FF8000000000000]


def halves(*values: float) -> int:
    return int.from_bytes(np.array(values, np.float16).tobytes(), "little")


def test_atomic_operations_of_small_and_packed_numbers() -> None:
    found = right("""
    setp.ne.u32 %p0, %r199, 0;
    @%p0 ret;
    mov.b32 %r0, 0x3C004000;  // 1.0, 2.0
    mov.b32 %r1, 0x3F804000;  // bf16: 1.0, 2.0
    mov.b16 %h0, 0x3C00;
    red.global.add.noftz.f16x2 [%rd63], %r0;
    red.global.add.noftz.f16x2 [%rd63], %r0;
    atom.global.add.noftz.f16 %h1, [%rd63+8], %h0;
    atom.global.add.noftz.f16 %h2, [%rd63+8], %h0;
    st.global.b16 [%rd63+12], %h2;
    red.global.add.noftz.bf16x2 [%rd63+16], %r1;
    red.global.add.noftz.bf16x2 [%rd63+16], %r1;
    mov.f32 %f0, 0f3F800000;
    mov.f32 %f1, 0f40000000;
    red.global.add.v2.f32 [%rd63+24], {%f0, %f1};
    atom.global.add.v2.f32 {%f2, %f3}, [%rd63+24], {%f0, %f1};
    st.global.v2.f32 [%rd63+32], {%f2, %f3};
    red.global.max.noftz.v2.f16x2 [%rd63+40], {%r0, %r0};
    ret;
""")
    two, four = bits(2.0), bits(4.0)
    assert found.out[:6] == [
        halves(4, 2), halves(2) | halves(1) << 32, 0x40004080, four << 32 | two, bits(2.0) << 32 | bits(1.0),
        halves(2, 1, 2, 1),
    ]  # fmt: skip


def test_a_sum_in_global_memory_is_flushed_and_one_in_shared_memory_is_not() -> None:
    found = right("""
    setp.ne.u32 %p0, %r199, 0;
    @%p0 ret;
    mov.f32 %f0, 0f00000001;
    red.global.add.f32 [%rd63], %f0;
    st.shared.u32 [smem], 0;
    red.shared.add.f32 [smem], %f0;
    ld.shared.u32 %r0, [smem];
    st.global.u32 [%rd63+4], %r0;
    ret;
""")
    assert found.out[0] == 1 << 32


def test_stores_and_reductions_that_are_complete_later() -> None:
    """With release at the scope of the device they are complete whenever the machine likes (9.7.9.12, 9.7.13.7)."""
    found = right("""
    st.async.release.gpu.global.u32 [%rd62], %r199;
    red.async.release.gpu.global.add.u32 [%rd62+4], %r199;
    ret;
""", header=BLACKWELL)  # fmt: skip
    assert found.out == [n << 32 | n for n in range(32)]


# ---------------------------------------------------------------- addresses of clusters


def test_addresses_of_a_cluster() -> None:
    found = right("""
    mov.u32 %r0, smem;
    mov.u32 %r1, %cluster_ctarank;
    xor.b32 %r2, %r1, 1;
    mapa.shared::cluster.u32 %r3, %r0, %r2;
    getctarank.shared::cluster.u32 %r4, %r3;
    mov.u64 %rd1, smem;
    cvta.shared.u64 %rd1, %rd1;
    mapa.u64 %rd2, %rd1, %r2;
    getctarank.u64 %r5, %rd2;
    isspacep.shared::cta %p0, %rd2;
    isspacep.shared::cluster %p1, %rd2;
    isspacep.shared %p2, %rd1;
    setp.eq.u32 %p3, %r199, 0;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @%p3 st.shared::cluster.u32 [%r3+16], %r1;
    @%p3 st.u32 [%rd2+20], %r1;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ld.shared.u32 %r6, [%r0+16];
    ld.shared.u32 %r7, [%r0+20];
    selp.u32 %r8, 1, 0, %p0;
    selp.u32 %r9, 2, 0, %p1;
    selp.u32 %r10, 4, 0, %p2;
    mad.lo.u32 %r11, %r4, 10, %r5;
    mad.lo.u32 %r11, %r11, 10, %r6;
    mad.lo.u32 %r11, %r11, 10, %r7;
    mad.lo.u32 %r11, %r11, 10, %r8;
    add.u32 %r11, %r11, %r9;
    add.u32 %r11, %r11, %r10;
    cvt.u64.u32 %rd0, %r11;
""" + STORE, grid=2, cluster=2)  # fmt: skip
    assert found.out == [11116] * 32 + [6] * 32


def test_the_kernel_in_a_module_of_several() -> None:
    """Only the entry that is asked for is executed."""
    other = kernel("trap;", "other")
    assert right("mov.u64 %rd0, 1;\n" + STORE, before=other).out == [1] * 32


@every_schedule
@pytest.mark.parametrize(
    "poll",
    [
        "ld.acquire.gpu.global.u32 %r0, [%rd63];",
        "ld.volatile.global.u32 %r0, [%rd63];",
        "atom.global.cas.b32 %r0, [%rd63], 7, 8;",
    ],
)
def test_a_poll_of_memory_that_no_thread_is_left_to_write_is_a_deadlock(poll: str, how: str) -> None:
    """Warp 1 waits at a barrier for warp 0, which polls a word that nothing writes."""
    found = run(f"""
    setp.ge.u32 %p1, %r199, 32;
    @%p1 bra BARRIER;
AGAIN:
    {poll}
    setp.eq.u32 %p0, %r0, 0;
    @%p0 bra AGAIN;
BARRIER:
    bar.sync 0;
    ret;
""", block=64, how=how, steps=2_000_000).execution  # fmt: skip
    assert found.end == "deadlock", found.reason
    assert {wait.kind for wait in found.waits} == {"memory", "barrier"}
    assert "polling byte 0 of out" in found.reason


@every_schedule
def test_a_poll_of_memory_that_another_thread_writes_late_is_not_a_deadlock(how: str) -> None:
    found = right("""
    setp.ge.u32 %p1, %r199, 32;
    mov.u32 %r1, 0;
    @%p1 bra WRITER;
AGAIN:
    ld.acquire.gpu.global.u32 %r0, [%rd63];
    setp.eq.u32 %p0, %r0, 0;
    @%p0 bra AGAIN;
    ret;
WRITER:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p0, %r1, 30000;
    @%p0 bra WRITER;
    st.release.gpu.global.u32 [%rd63], %r1;
    ret;
""", block=64, how=how, steps=2_000_000)  # fmt: skip
    assert found.out[0] == 30000


def test_a_poll_that_gives_up_after_a_while_is_not_a_deadlock() -> None:
    right("""
    mov.u32 %r1, 0;
AGAIN:
    ld.acquire.gpu.global.u32 %r0, [%rd63];
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p0, %r1, 20000;
    @%p0 bra AGAIN;
    ret;
""")


def test_a_rank_that_the_cluster_does_not_have_is_not_a_fault_unless_its_address_is_used() -> None:
    """Lanes map their own number, and only those of a CTA use the address."""
    right("""
    mov.u32 %r0, bars;
    setp.eq.u32 %p0, %r199, 0;
    @%p0 mbarrier.init.shared.b64 [%r0], 1;
    mapa.shared::cluster.u32 %r1, %r0, %r199;
    @%p0 mbarrier.arrive.shared::cluster.b64 _, [%r1];
    ret;
""")


# ---------------------------------------------------------------- vector registers


def test_a_vector_register_holds_all_its_elements() -> None:
    found = right("""
    .reg .v4 .s32 v;
    .reg .v2 .b32 u;
    mov.s32 v.x, 4;
    mov.s32 v.y, 5;
    mov.s32 v.z, 6;
    mov.s32 v.w, 7;
    mov.v2.b32 u, {v.w, v.y};
    mul.wide.u32 %rd1, %r199, 16;
    add.u64 %rd1, %rd1, %rd63;
    setp.lt.u32 %p0, %r199, 8;
    @%p0 st.global.v4.s32 [%rd1], v;
    add.u64 %rd1, %rd1, 128;
    @%p0 st.global.v2.b32 [%rd1], u;
    @%p0 ld.global.v4.s32 v, [%rd1+-128];
    @%p0 st.global.s32 [%rd1+8], v.z;
    ret;
""")
    assert found.out[:16] == [5 << 32 | 4, 7 << 32 | 6] * 8
    assert found.out[16:] == [5 << 32 | 7, 6] * 8


def test_st_async_of_a_vector_register_copies_all_its_bytes() -> None:
    found = right(
        """
    .reg .v4 .b32 v;
    mov.u32 %r1, bars;
    mov.u32 %r2, smem;
    setp.eq.u32 %p0, %r199, 0;
    @%p0 mbarrier.init.shared.b64 [%r1], 1;
    bar.sync 0;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;
    mov.b32 v.x, 1;
    mov.b32 v.y, 2;
    mov.b32 v.z, 3;
    mov.b32 v.w, 4;
    mapa.shared::cluster.u32 %r3, %r2, 0;
    mapa.shared::cluster.u32 %r4, %r1, 0;
    @%p0 st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r3], v, [%r4];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p9, [%r1], 0;
    @!%p9 bra WAIT;
    ld.shared.u64 %rd0, [%r2+8];
"""
        + STORE,
        cluster=1,
    )
    assert found.out == [4 << 32 | 3] * 32
