"""Replays: warps that go the same way together, and what one of them stores and another one loads."""

from __future__ import annotations

import pytest

from tclint.linting.check import check_source
from tclint.replay.verdict import Replay
from tclint.syntax.source import Source
from tests.tools.support import analysed

ROUNDS = """.version 8.0
.target sm_90
.address_size 64
.visible .entry rounds(.param .u64 in, .param .u64 out)
.reqntid 128
{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<4>;
    .reg .b64 %state;
    .shared .align 8 .b64 m;
    .shared .align 16 .b8 tile[2048];
    ld.param.u64 %rd0, [in];
    ld.param.u64 %rd1, [out];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [m], 128;
ready:
    bar.sync 0;
    mov.u32 %r1, tile;
    shl.b32 %r2, %r0, 2;
    add.u32 %r3, %r1, %r2;
    xor.b32 %r4, %r2, 256;
    add.u32 %r5, %r1, %r4;
    mov.u32 %r6, 0;
    mov.u32 %r7, 0;
again:
    ld.global.b32 %r8, [%rd0];
    st.shared.b32 [%r3], %r8;
    mbarrier.arrive.shared::cta.b64 %state, [m];
written:
    mbarrier.try_wait.shared::cta.b64 %p1, [m], %state;
    @!%p1 bra written;
    ld.shared.b32 %r9, [%r5];
    add.u32 %r7, %r7, %r9;
    mbarrier.arrive.shared::cta.b64 %state, [m];
read:
    mbarrier.try_wait.shared::cta.b64 %p1, [m], %state;
    @!%p1 bra read;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p2, %r6, 4;
    @%p2 bra again;
    st.global.b32 [%rd1], %r7;
    ret;
}
"""
WRITTEN = """written:
    mbarrier.try_wait.shared::cta.b64 %p1, [m], %state;
    @!%p1 bra written;
"""
READ = WRITTEN.replace("written", "read")
LOAD = "    ld.shared.b32 %r9, [%r5];\n    add.u32 %r7, %r7, %r9;\n"
ARRIVE = "    mbarrier.arrive.shared::cta.b64 %state, [m];\n"


def changed(*changes: tuple[str, str]) -> str:
    code = ROUNDS
    for old, new in changes:
        assert old in code
        code = code.replace(old, new)
    return code


def raced(code: str) -> list[tuple[str, str]]:
    """Of each race that a replay has seen, both instructions."""
    model = analysed(code)
    run = model.fact(Replay).run
    name = [".".join(i.opcode.split(".")[:2]) for i in model.function.instructions]
    return [] if run is None else [(name[race.first.site], name[race.second.site]) for race in run.races]


EARLY = LOAD + ARRIVE, ARRIVE + LOAD
"""The arrival precedes a load that it should release."""


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ([], []),
        ([EARLY], [("ld.shared", "st.shared")]),
        ([(WRITTEN, "")], [("st.shared", "ld.shared")]),
        ([(READ, "")], [("ld.shared", "st.shared")]),
        ([(READ, "    bar.sync 1;\n")], []),
        ([EARLY, (READ, READ + "    bar.sync 1;\n")], []),
        ([EARLY, (READ, READ + "    bar.warp.sync -1;\n")], [("ld.shared", "st.shared")]),
    ],
)
def test_warps_are_ordered_by_arrivals_and_barriers_but_not_within_a_warp_barrier(
    changes: list[tuple[str, str]], seen: list[tuple[str, str]]
) -> None:
    assert raced(changed(*changes)) == seen


@pytest.mark.parametrize(
    ("address", "races"),
    [
        ("xor.b32 %r4, %r2, 256;", True),
        ("xor.b32 %r4, %r2, 0;", False),  # its own
        ("xor.b32 %r4, %r2, 124;", False),  # of a lane beside it
        ("xor.b32 %r4, %r2, 128;", True),
        ("and.b32 %r4, %r2, 0;", True),  # all read one
        ("or.b32 %r4, %r2, 512;", False),  # what no thread writes
    ],
)
def test_which_warps_touch_the_same_bytes(address: str, races: bool) -> None:
    code = changed(EARLY, ("xor.b32 %r4, %r2, 256;", address))
    assert bool(raced(code)) == races


@pytest.mark.parametrize(("bytes_", "races"), [(128, True), (508, True), (512, False)])
def test_loads_that_are_wider_than_stores(bytes_: int, races: bool) -> None:
    """Each of 128 threads stores 4 bytes, and the first one loads 16."""
    wide = "    ld.shared.v4.b32 {%r9, %r10, %r11, %r12}, [%r5];\n    add.u32 %r7, %r7, %r9;\n"
    address = f"and.b32 %r4, %r2, 0;\n    add.u32 %r4, %r4, {bytes_ & -16};"
    code = changed(EARLY, (LOAD, wide), ("xor.b32 %r4, %r2, 256;", address))
    assert bool(raced(code)) == races


@pytest.mark.parametrize(("number", "races"), [("x1", False), ("x4", True)])
def test_lanes_whose_address_counts(number: str, races: bool) -> None:
    """The first eight lanes of each warp read what it has stored itself, the others what another one has."""
    registers = {"x1": "%r9", "x4": "%r9, %r10, %r11, %r12"}[number]
    rows = f"    ldmatrix.sync.aligned.m8n8.{number}.shared.b16 {{{registers}}}, [%r5];\n    add.u32 %r7, %r7, %r9;\n"
    address = """and.b32 %r10, %r0, 31;
    and.b32 %r11, %r2, 384;
    and.b32 %r12, %r10, 7;
    shl.b32 %r12, %r12, 4;
    add.u32 %r4, %r11, %r12;
    setp.lt.u32 %p3, %r10, 8;
    @!%p3 xor.b32 %r4, %r4, 128;"""
    code = changed(EARLY, (LOAD, rows), ("xor.b32 %r4, %r2, 256;", address))
    assert bool(raced(code)) == races


@pytest.mark.parametrize(("all_store", "races"), [(True, False), (False, True)])
def test_a_flag_that_all_threads_clear(all_store: bool, races: bool) -> None:
    """A thread that has cleared it as well finds it cleared, whatever others do."""
    store = f"{'' if all_store else '@!%p0 '}st.shared.b32 [%r1], 0;"
    flag = ("xor.b32 %r4, %r2, 256;", "mov.u32 %r4, 0;")
    code = changed(("st.shared.b32 [%r3], %r8;", store), (WRITTEN, ""), flag)
    assert bool(raced(code)) == races


@pytest.mark.parametrize(
    "load", ["ld.volatile.shared.b32", "ld.relaxed.cta.shared.b32", "atom.shared.or.b32"]
)
def test_what_threads_may_synchronise_by(load: str) -> None:
    operands = "%r9, [%r5], 0" if load.startswith("atom") else "%r9, [%r5]"
    code = changed(EARLY, ("ld.shared.b32 %r9, [%r5]", f"{load} {operands}"))
    assert raced(code) == []


def test_what_few_threads_take() -> None:
    """All threads load, and those of the first warp alone use it: what they load is their own."""
    own = ("xor.b32 %r4, %r2, 256;", "and.b32 %r4, %r2, 124;")
    used = "    setp.lt.u32 %p3, %r0, 32;\n    @%p3 add.u32 %r7, %r7, %r9;\n"
    code = changed(own, (LOAD, LOAD.replace("    add.u32 %r7, %r7, %r9;\n", used)))
    assert raced(code) == []
    assert raced(changed(own, EARLY)) == [("ld.shared", "st.shared")]


@pytest.mark.parametrize(
    ("directive", "races"),
    [
        (".reqntid 128", True),
        (".maxntid 128", True),
        (".reqntid 32", False),
        (".maxntid 32", False),
        ("", False),
    ],
)
def test_how_many_warps_there_are(directive: str, races: bool) -> None:
    """One warp alone may do so, but it is not what a bound of more is for. Without a bound it may be."""
    count = (
        "mbarrier.init.shared::cta.b64 [m], 128;",
        "mov.u32 %r1, %ntid.x;\n    mbarrier.init.shared::cta.b64 [m], %r1;",
    )
    next_one = ("xor.b32 %r4, %r2, 256;", "xor.b32 %r4, %r2, 128;")
    assert bool(raced(changed(EARLY, count, next_one, (".reqntid 128", directive)))) == races


def test_the_findings_about_races_between_warps() -> None:
    findings = check_source(Source.from_bytes(changed(EARLY).encode(), "k.ptx")).findings
    message = (
        "st.shared overwrites shared memory that ld.shared of another warp may still be reading:"
        " no wait in this thread guarantees that it has completed"
    )
    assert [(f.rule.id, f.message) for f in findings] == [("SM001", message)]


MATRICES = """.version 8.0
.target sm_90
.address_size 64
.visible .entry tiles(.param .u64 out)
.maxntid 128
{
    .reg .b32 %r<9>;
    .reg .b64 %rd<4>;
    .reg .f32 %f<4>;
    .shared .align 32 .b8 before[BEFORE];
    .shared .align 32 .b8 tile[4096];
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    st.shared.b32 [before], 0;
    shr.u32 %r1, %r0, 5;
    shl.b32 %r1, %r1, 10;
    mov.u32 %r2, tile;
    add.u32 %r2, %r2, %r1;
    mov.f32 %f0, 0f00000000;
    wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r2], {%f0, %f0, %f0, %f0, %f0, %f0, %f0, %f0};
    bar.warp.sync -1;
    and.b32 %r3, %r0, 31;
    shl.b32 %r3, %r3, 3;
    add.u32 %r3, %r2, %r3;
    ld.shared.v2.f32 {%f1, %f2}, [%r3+OFFSET];
    mul.wide.u32 %rd1, %r0, 4;
    add.u64 %rd1, %rd0, %rd1;
    st.global.f32 [%rd1], %f1;
    ret;
}
"""


@pytest.mark.parametrize("before", [32, 512, 1024])
@pytest.mark.parametrize(("offset", "races"), [(0, False), (768, False), (-8, True)])
def test_a_matrix_is_aligned_to_no_more_than_a_row(before: int, offset: int, races: bool) -> None:
    """Each warp stores 1024 bytes, and loads what it has stored itself, or the last 8 bytes of the warp before."""
    code = MATRICES.replace("BEFORE", str(before)).replace("OFFSET", str(offset))
    assert bool(raced(code)) == races
