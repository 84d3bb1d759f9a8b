"""Replays: the bytes that a phase of an mbarrier expects, and those that copies load."""

from __future__ import annotations

import pytest

from tclint.replay.accesses import ReplayAccess
from tclint.replay.program import ReplaySlice
from tclint.replay.races import races
from tclint.replay.sync import PendingTransfer, ReplayMbarrier
from tclint.replay.thread_groups import GroupRegisters, ThreadGroup
from tclint.replay.vector_clocks import BOTTOM, Agent
from tests.tools.replay import FREE, PAIR, PASSED, READ, RING, STORED, changed, replay, what, why
from tests.tools.support import analysed


def summed(expected: str, shift: int = 4, later: str = "") -> set[str]:
    """What goes wrong where two copies of a size that the launch decides complete on an mbarrier that expects a sum."""
    run = replay(f""".version 8.0
.target sm_90
.address_size 64
.visible .entry summed(.param .u32 size, .param .u32 total, .param .u64 data)
.reqntid 32
{{
    .reg .pred %p<6>;
    .reg .b32 %r<9>;
    .reg .b64 %in;
    .shared .align 8 .b64 full;
    .shared .align 16 .b8 tile[65536];
    ld.param.u32 %r1, [size];
    ld.param.u32 %r7, [total];
    ld.param.u64 %in, [data];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [full], 1;
    shl.b32 %r1, %r1, {shift};
    add.u32 %r2, %r1, 16;
    mov.u32 %r3, tile;
    mov.u32 %r4, 0;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], %r1, [full];
    setp.eq.u32 %p3, %r7, 0;
    @%p3 bra single;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+32768], [%in], %r2, [full];
    mov.u32 %r4, %r2;
single:
    {expected}
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], %r5;
ready:
    bar.sync 0;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
    @!%p2 bra wait;
    {later}
    ret;
}}
""").run
    return what(run) if run else set()


def test_the_expected_sum_of_the_bytes_of_copies_need_not_be_known() -> None:
    assert summed("add.u32 %r5, %r1, %r4;") == set()
    assert summed("add.u32 %r5, %r1, %r4;\n    add.u32 %r5, %r5, 16;") == {"stuck"}
    assert summed("add.u32 %r5, %r1, %r4;\n    sub.u32 %r5, %r5, 16;") == {"stuck"}


def test_a_phase_of_more_bytes_than_an_mbarrier_counts_does_not_excuse_one_of_fewer() -> None:
    """The sizes that are tried first are too large, and are reduced for the sake of a loop."""
    loop = """ld.param.u32 %r8, [size];
    mov.u32 %r6, 0;
again:
    bar.sync 0;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p4, %r6, %r8;
    @%p4 bra again;"""
    assert summed("add.u32 %r5, %r1, %r4;", 12, loop) == set()
    assert summed("add.u32 %r5, %r1, %r4;\n    add.u32 %r5, %r5, 16;", 12, loop) == {"stuck"}


def test_expected_bytes_that_are_not_a_sum_of_those_of_copies_are_made_up() -> None:
    assert summed("add.u32 %r5, %r1, %r7;") == set()
    assert summed("mul.lo.u32 %r5, %r1, %r7;") == set()


def test_more_bytes_than_an_mbarrier_counts_are_those_of_no_launch() -> None:
    assert summed("add.u32 %r5, %r1, %r4;\n    add.u32 %r5, %r5, 1048576;") == set()


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        pytest.param("_, [%r29], 2048", "_, [%r29], %r12", "", id="expected bytes"),
        pytest.param("[%in], 2048, [%r29]", "[%in], %r12, [%r29]", "", id="bytes of the copy"),
        pytest.param("2048", "%r12", "", id="both"),
        pytest.param("_, [%r29], 2048", "_, [%r29], %r12", "overrun", id="and the producer does not wait"),
    ],
)
def test_byte_counts_from_the_launch(old: str, new: str, seen: str) -> None:
    """How many bytes are expected and how many come go together in real launches, whatever number each of them has here."""
    code = "\n".join(
        line.replace(old, new) if "complete_tx" in line or "expect_tx" in line else line
        for line in PASSED.splitlines()
    )
    assert code != PASSED
    run = replay(code.replace(FREE, "") if seen else code).run
    assert what(run) == {seen} if seen else run is None


def test_nothing_may_be_expected() -> None:
    """Where the launch says how many bytes come, there may be no copy."""
    copy = next(line for line in PASSED.splitlines() if "complete_tx" in line)
    code = PASSED.replace(copy, "").replace("_, [%r29], 2048", "_, [%r29], %r12")
    assert replay(code).run is None
    assert what(replay(PASSED.replace(copy, "")).run) == {"stuck"}


PRODUCERS = """.version 8.6
.target sm_90
.address_size 64
.visible .entry two(.param .align 64 .b8 map[128], .param .u64 in, .param .u64 out)
.reqntid 96
{
    .reg .pred %p<9>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<4>, %map;
    .shared .align 128 .b8 tile[4096];
    .shared .align 128 .b8 word[16];
    .shared .align 8 .b64 full, turn;
    mov.b64 %map, map;
    ld.param.u64 %rd0, [in];
    ld.param.u64 %rd1, [out];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra made;
    mbarrier.init.shared::cta.b64 [full], 2;
    mbarrier.init.shared::cta.b64 [turn], 1;
made:
    bar.sync 0;
    setp.ge.u32 %p1, %r0, 64;
    @%p1 bra read;
    setp.eq.u32 %p2, %r0, 32;
    @%p2 bra second;
    @%p0 bra done;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 2048;
    cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%map, {%r0}], [full];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [turn], 16;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [word], [%rd0], 16, [turn];
    bra done;
second:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [turn], 0;
    @!%p3 bra second;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 2048;
again:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [turn], 0;
    @!%p3 bra again;
    cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile+2048], [%map, {%r0}], [full];
    bra done;
read:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], 0;
    @!%p4 bra read;
    shl.b32 %r1, %r0, 2;
    mov.u32 %r2, tile;
    add.u32 %r1, %r1, %r2;
    ld.shared.u32 %r3, [%r1+2048];
    st.global.u32 [%rd1], %r3;
done:
    ret;
}
"""


@pytest.mark.parametrize(("waited", "wrong"), [("full", False), ("turn", True)])
def test_a_phase_expects_the_bytes_of_two_threads(waited: str, wrong: bool) -> None:
    """It is unknown how much tensor copies load; what is expected after one is still to come (CuTe DSL, TMA pipelines)."""
    found = replay(changed("%p4, [full], 0", f"%p4, [{waited}], 0", PRODUCERS)).run
    assert bool(found and found.races) is wrong


def test_a_copy_reports_to_the_cta_that_it_fills() -> None:
    """Mojo's kernels for sm_90a clear the bit of the CTA in each such address; an H200 does not look at it."""
    run = replay(
        changed(
            "    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r30], [%in], 2048, [%r29];",
            "    and.b32 %r32, %r29, 0xfeffffff;\n"
            "    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r30], [%in], 2048, [%r32];",
        ).replace(".reqntid 160", ".reqntid 160\n.reqnctapercluster 2")
    )
    assert run.run is None
    assert run.runs
    assert not any(run.wrong for run in run.runs)


def test_a_copy_that_reports_to_the_other_cta_of_its_pair() -> None:
    """For each CTA of the mask, the mbarrier is that of its pair with the rank, even or odd, of the named one."""
    asked = replay(PAIR)
    assert asked.run is None
    assert why(asked) == ""
    own = changed("    mapa.shared::cluster.u32 %r2, %r2, %r3;\n", "", PAIR)
    assert "stuck" in what(replay(own).run)


@pytest.mark.parametrize(("phase", "races_found"), [(0, [(1, 2)]), (1, [])])
def test_a_tensor_copy_loads_no_more_than_its_phase_expects(
    phase: int, races_found: list[tuple[int, int]]
) -> None:
    """CUTLASS loads two operands in the first phase of an mbarrier, and one in all others."""
    mbarrier = ReplayMbarrier(1, 0, 64)
    for bytes_ in (4096, 2048):
        mbarrier.expect(bytes_)
        mbarrier.transfers.append(PendingTransfer(BOTTOM, None))
        mbarrier.arrive(1)
        mbarrier.release(BOTTOM)
        assert [*mbarrier.complete_transfers()]
    group = ThreadGroup(0, (0,), GroupRegisters(), BOTTOM)
    copies = [
        ReplayAccess(
            1, True, (0, -1), at, None, Agent(at, "copy", 0), 1, BOTTOM, group, {}, mbarrier, phase, 1
        )
        for at in (0, 8192)
    ]
    read = ReplayAccess(2, False, (0, -1), 2048, None, Agent(1, "", 0, (0,)), 1, BOTTOM, group, {})
    found = races([*copies, read], lambda *_: False, ReplaySlice(analysed(RING)))
    assert [race.key for race in found] == races_found


def test_a_copy_whose_size_the_launch_decides() -> None:
    """With another number of bytes it may end before what is stored."""
    code = changed("[%out], [%r30], 2048;", "[%out], [%r24], %r20;", changed(READ, "", STORED))
    code = changed(
        "mad.lo.u32 %r30, %r0, 16, %r30;",
        "mad.lo.u32 %r30, %r0, 16, %r30;\n    add.u32 %r30, %r30, 64;",
        code,
    )
    code = changed("tile[4096]", "tile[4160]", code)
    assert replay(code).run is None
    assert replay(changed("[%r24], %r20;", "[%r24], 512;", code)).run is not None
