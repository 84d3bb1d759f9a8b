"""What is proved of the phases of mbarriers in kernels whose threads all execute the same loops."""

from __future__ import annotations

import pytest

from tclint.analyses.model import KernelModel
from tclint.findings.verdicts import Assumption, Discharge, HazardClass, Status, Verdict
from tclint.verdicts import verdicts
from tclint.verdicts.mbarrier_checker import Phase, solvable
from tests.tools.protocols import ALL, HEAD, phases
from tests.tools.support import built

INIT = """@%p1 mbarrier.init.shared.b64 [%r3+8192], 1;
@%p1 mbarrier.init.shared.b64 [%r3+8200], 1;
bar.sync 0;
"""
ARRIVE = "mbarrier.arrive.expect_tx.shared.b64 _, [{}+8192], 4096;"
COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{}], [%rd1], 4096, [{}+8192];"
FIRST = f"""@%p1 {ARRIVE.format("%r3")}
@%p1 {COPY.format("%r3", "%r3")}
@%p6 bra empty;
"""
TWO_STAGES = f"""mov.u32 %r4, 0;
loop:
and.b32 %r5, %r4, 1;
shl.b32 %r6, %r5, 3;
add.s32 %r6, %r6, %r3;
bfe.u32 %r7, %r4, 1, 1;
add.s32 %r8, %r4, 1;
and.b32 %r9, %r8, 1;
shl.b32 %r10, %r9, 3;
add.s32 %r10, %r10, %r3;
shl.b32 %r11, %r9, 12;
add.s32 %r11, %r11, %r3;
bar.sync 0; // refill
setp.lt.s32 %p2, %r8, %r1;
and.pred %p3, %p1, %p2;
@%p3 {ARRIVE.format("%r10")}
@%p3 {COPY.format("%r11", "%r10")}
wait:
mbarrier.try_wait.parity.shared.b64 %p4, [%r6+8192], %r7;
@!%p4 bra wait;
mov.u32 %r4, %r8;
setp.ne.s32 %p5, %r8, %r1;
@%p5 bra loop;
ret;
"""
EMPTY = """empty:
mov.u32 %r4, 0;
last:
mbarrier.try_wait.parity.shared.b64 %p4, [%r3+8192], 0;
@!%p4 bra last;
ret;
"""
RING = INIT + FIRST + TWO_STAGES + EMPTY
PERSISTENT = """mov.u32 %r30, %ctaid.x;
tiles:
@%p1 mbarrier.init.shared.b64 [%r3+8192], 1;
bar.sync 0;
setp.gt.s32 %p7, %r1, 0;
and.pred %p8, %p1, %p7;
@%p8 mbarrier.arrive.expect_tx.shared.b64 _, [%r3+8192], 6144;
@%p8 cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd2, {%r4}], [%r3+8192];
@%p8 cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+4096], [%rd3, {%r4}], [%r3+8192];
@!%p7 bra over;
wait:
mbarrier.try_wait.parity.shared.b64 %p4, [%r3+8192], 0;
@!%p4 bra wait;
over:
bar.sync 0; // before the end
@%p1 mbarrier.inval.shared.b64 [%r3+8192];
bar.sync 0; // before the data
st.shared.b32 [%r3+8192], %r2;
bar.sync 0; // before the next tile
add.s32 %r30, %r30, 8;
setp.lt.s32 %p9, %r30, %r31;
@%p9 bra tiles;
ret;
"""
COMMITS = """@%p1 mbarrier.init.shared.b64 [%r3+8192], 1;
bar.sync 0;
@%p6 bra over;
mov.u32 %r4, 0;
mov.u32 %r5, 0;
loop:
bar.sync 0;
@!%p1 bra issued;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3+8192];
issued:
wait:
mbarrier.try_wait.parity.shared.b64 %p4, [%r3+8192], %r5;
@!%p4 bra wait;
xor.b32 %r5, %r5, 1;
add.s32 %r4, %r4, 1;
setp.lt.s32 %p5, %r4, %r1;
@%p5 bra loop;
over:
ret;
"""

COUNTED = """@%p1 mbarrier.init.shared.b64 [%r3+8192], 1;
bar.sync 0;
mov.u32 %r4, 0;
mov.u32 %r5, 0;
@!%p1 bra first;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3+8192];
first:
bar.sync 0;
loop:
mov.u32 %r6, 0;
wait:
mbarrier.try_wait.parity.shared.b64 %p4, [%r3+8192], %r5;
@!%p4 bra wait;
xor.b32 %r5, %r5, 1;
bar.sync 0;
@!%p1 bra issued;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3+8192];
issued:
add.s32 %r4, %r4, 1;
setp.ne.s32 %p5, %r4, 17;
@%p5 bra loop;
last:
mbarrier.try_wait.parity.shared.b64 %p4, [%r3+8192], 1;
@!%p4 bra last;
ret;
"""
TWO_LIVES = """@%p1 mbarrier.init.shared.b64 [%r3], 1;
bar.sync 0;
bar.sync 0; // used
@%p1 mbarrier.inval.shared.b64 [%r3];
@%p1 mbarrier.init.shared.b64 [%r3+8192], 1;
bar.sync 0; // ended
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3+8192], 4096;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 4096, [%r3+8192];
wait:
mbarrier.try_wait.parity.shared.b64 %p4, [%r3+8192], 0;
@!%p4 bra wait;
bar.sync 0;
ret;
"""


def test_a_ring_of_two_stages_is_proved() -> None:
    found = phases(RING)
    assert found.status is Status.PROVED, found.reasons
    assert {one.discharge for one in found.obligations} == {
        Discharge.BARRIER,
        Discharge.WAIT,
        Discharge.TRACKED,
        Discharge.ENDS,
    }
    assert Assumption.EXPECTED not in found.assumptions


ONCE = """@%p1 mbarrier.init.shared.b64 [%r3+8192], 1;
bar.sync 0;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3+8192], 4096;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 4096, [%r3+8192];
wait:
mbarrier.try_wait.parity.shared.b64 %p4, [%r3+8192], 0;
@!%p4 bra wait;
bar.sync 0;
@%p1 mbarrier.inval.shared.b64 [%r3+8192];
bar.sync 0; // before the data
st.shared.b32 [%r3+8192], %r2;
ret;
"""


def test_data_follow_the_end_of_an_mbarrier_that_is_not_made_again() -> None:
    assert phases(ONCE).status is Status.PROVED
    assert phases(ONCE.replace("bar.sync 0; // before the data\n", "")).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("offset", "status"),
    [
        (8192, Status.PROVED),
        (232440, Status.PROVED),
        (232448, Status.UNKNOWN),
        (-8, Status.UNKNOWN),
        (8196, Status.UNKNOWN),
    ],
)
def test_an_mbarrier_lies_in_its_variable_and_is_aligned(offset: int, status: Status) -> None:
    assert phases(ONCE.replace("%r3+8192", f"%r3+{offset}")).status is status


@pytest.mark.parametrize("align", [8, 4])
def test_an_mbarrier_in_a_variable_that_may_be_misaligned_is_not_proved(align: int) -> None:
    head = HEAD.replace(".align 128 .b8 smem", f".align {align} .b8 smem")
    assert f".align {align} " in head
    made = built(f"{head}{ONCE}}}")
    (found,) = verdicts(KernelModel(made.functions[-1], made), assume=ALL, only=[HazardClass.MBARRIER])
    assert (found.status is Status.PROVED) == (align == 8)


@pytest.mark.parametrize(("size", "status"), [(4080, Status.PROVED), (4088, Status.UNKNOWN)])
def test_a_copy_has_a_multiple_of_sixteen_bytes(size: int, status: Status) -> None:
    assert phases(ONCE.replace("4096", f"{size}")).status is status


@pytest.mark.parametrize("body", [PERSISTENT, COMMITS, COUNTED, TWO_LIVES])
def test_other_right_kernels_are_proved(body: str) -> None:
    found = phases(body)
    assert found.status is Status.PROVED, found.reasons


def test_what_a_tensor_map_says_is_assumed() -> None:
    assert Assumption.EXPECTED in phases(PERSISTENT).assumptions
    assert phases(PERSISTENT, ALL - {Assumption.EXPECTED}).status is Status.UNKNOWN


AGAIN = """@%p1 mbarrier.init.shared.b64 [%r3+8192], 1;
bar.sync 0;
@%p6 bra over;
mov.u32 %r4, 0;
mov.u32 %r5, 0;
mov.u32 %r30, 0;
tiles:
mov.u32 %r6, 0;
loop:
bar.sync 0;
setp.lt.s32 %p2, %r4, %r1;
and.pred %p3, %p1, %p2;
@!%p3 bra issued;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3+8192];
issued:
wait:
mbarrier.try_wait.parity.shared.b64 %p4, [%r3+8192], %r5;
@!%p4 bra wait;
xor.b32 %r5, %r5, 1;
add.s32 %r4, %r4, 1;
setp.ne.s32 %p5, %r4, %r1;
@%p5 bra loop;
add.s32 %r30, %r30, 1;
setp.eq.s32 %p9, %r30, 1;
@!%p9 bra tiles;
over:
ret;
"""
THROUGH = RING.replace("mov.u32 %r4, %r8;", "through:\nmov.u32 %r4, %r8;")
WRONG = {
    "no initialisation": (RING, "@%p1 mbarrier.init.shared.b64 [%r3+8200], 1;\n", ""),
    "no barrier after the initialisation": (RING, "[%r3+8200], 1;\nbar.sync 0;\n", "[%r3+8200], 1;\n"),
    "an initialisation by all threads": (
        RING,
        "@%p1 mbarrier.init.shared.b64 [%r3+8200]",
        "mbarrier.init.shared.b64 [%r3+8200]",
    ),
    "an initialisation that a parameter decides": (
        RING,
        "@%p1 mbarrier.init.shared.b64 [%r3+8200]",
        "@%p6 mbarrier.init.shared.b64 [%r3+8200]",
    ),
    "a count of two": (RING, "[%r3+8200], 1;", "[%r3+8200], 2;"),
    "the same mbarrier twice": (RING, "init.shared.b64 [%r3+8200]", "init.shared.b64 [%r3+8196]"),
    "a parity that never changes": (RING, "bfe.u32 %r7, %r4, 1, 1;", "mov.u32 %r7, 0;"),
    "a parity that changes each time": (RING, "bfe.u32 %r7, %r4, 1, 1;", "bfe.u32 %r7, %r4, 0, 1;"),
    "a parity that changes too late": (RING, "bfe.u32 %r7, %r4, 1, 1;", "bfe.u32 %r7, %r4, 2, 1;"),
    "the other parity": (RING, "bfe.u32 %r7, %r4, 1, 1;", "bfe.u32 %r7, %r4, 1, 1; xor.b32 %r7, %r7, 1;"),
    "fewer bytes expected": (RING, "[%r10+8192], 4096;\n@%p3 cp", "[%r10+8192], 2048;\n@%p3 cp"),
    "more bytes expected": (RING, "[%r10+8192], 4096;\n@%p3 cp", "[%r10+8192], 4112;\n@%p3 cp"),
    "fewer bytes copied": (RING, "[%rd1], 4096, [%r10", "[%rd1], 2048, [%r10"),
    "no copy": (RING, f"@%p3 {COPY.format('%r11', '%r10')}\n", ""),
    "no arrival": (RING, f"@%p3 {ARRIVE.format('%r10')}\n", ""),
    "an arrival of all threads": (RING, f"@%p3 {ARRIVE.format('%r10')}", f"@%p2 {ARRIVE.format('%r10')}"),
    "an arrival without the bytes": (
        RING,
        f"@%p3 {ARRIVE.format('%r10')}",
        "@%p3 mbarrier.arrive.shared.b64 _, [%r10+8192];",
    ),
    "two arrivals": (
        RING,
        f"@%p3 {ARRIVE.format('%r10')}",
        f"@%p3 {ARRIVE.format('%r10')}\n@%p3 {ARRIVE.format('%r10')}",
    ),
    "an arrival of another thread": (
        RING,
        "wait:\n",
        "setp.eq.s32 %p10, %r2, 64;\n@%p10 mbarrier.arrive.shared.b64 _, [%r10+8192];\nwait:\n",
    ),
    "an arrival for the last iteration but one alone": (
        RING,
        "setp.lt.s32 %p2, %r8, %r1;",
        "add.s32 %r12, %r8, 1;\nsetp.lt.s32 %p2, %r12, %r1;",
    ),
    "an iteration without an arrival": (RING, "setp.lt.s32 %p2, %r8, %r1;", "setp.ne.s32 %p2, %r8, 5;"),
    "an iteration that memory skips": (
        RING,
        "setp.lt.s32 %p2, %r8, %r1;",
        "ld.global.u32 %r12, [%rd1];\nsetp.lt.s32 %p2, %r12, %r1;",
    ),
    "an iteration too many": (RING, "setp.ne.s32 %p5, %r8, %r1;", "setp.le.s32 %p5, %r8, %r1;"),
    "a loop that begins past its end": (RING, "@%p6 bra empty;\n", ""),
    "a loop that continues where it ended before": (
        AGAIN,
        "setp.eq.s32 %p9, %r30, 1;",
        "setp.ge.s32 %p9, %r30, 2;",
    ),
    "another trip count": (RING, "setp.ne.s32 %p5, %r8, %r1;", "setp.lt.s32 %p5, %r8, %r31;"),
    "no barrier before a refill": (RING, "bar.sync 0; // refill\n", ""),
    "a barrier of one warp before a refill": (RING, "bar.sync 0; // refill\n", "bar.warp.sync -1;\n"),
    "a barrier after the refill": (
        RING.replace("wait:\n", "bar.sync 0;\nwait:\n"),
        "bar.sync 0; // refill\n",
        "",
    ),
    "a wait of one thread": (THROUGH, "wait:\nmbarrier", "@!%p1 bra through;\nwait:\nmbarrier"),
    "a wait for another stage": (RING, "b64 %p4, [%r6+8192], %r7", "b64 %p4, [%r10+8192], %r7"),
    "a wait that gives up": (RING, "@!%p4 bra wait;\nmov.u32 %r4, %r8;", "mov.u32 %r4, %r8;"),
    "three stages in the address": (RING, "and.b32 %r9, %r8, 1;", "rem.u32 %r9, %r8, 3;"),
    "a second ring on the same mbarrier": (RING, "wait:\n", f"@%p1 {COPY.format('%r3', '%r6')}\nwait:\n"),
    "no wait for the first copy of an empty loop": (
        RING,
        "empty:\n",
        "empty:\nbar.sync 0;\n@%p1 mbarrier.inval.shared.b64 [%r3+8192];\n",
    ),
    "an end without a barrier": (PERSISTENT, "bar.sync 0; // before the end\n", ""),
    "an end while a phase is underway": (PERSISTENT, "@!%p7 bra over;\n", "bra over;\n"),
    "no end": (PERSISTENT, "@%p1 mbarrier.inval.shared.b64 [%r3+8192];\n", ""),
    "data over an mbarrier in use": (PERSISTENT, "wait:\n", "st.shared.b32 [%r3+8192], %r2;\nwait:\n"),
    "data without a barrier after the end": (PERSISTENT, "bar.sync 0; // before the data\n", ""),
    "data without a barrier before the next beginning": (
        PERSISTENT,
        "bar.sync 0; // before the next tile\n",
        "",
    ),
    "one copy too few": (
        PERSISTENT,
        "[%rd3, {%r4}], [%r3+8192];",
        "[%rd3, {%r4}], [%r3+8192];\n@%p8 mbarrier.arrive.expect_tx.shared.b64 _, [%r3+8192], 6144;",
    ),
    "a copy over the mbarrier": (PERSISTENT, "[%r3+4096], [%rd3", "[%r3+8192], [%rd3"),
    "more bytes than fit before the mbarrier": (PERSISTENT, "6144;", "8208;"),
    "two copies to one place": (PERSISTENT.replace("6144", "8192"), "[%r3], [%rd2", "[%r3+4096], [%rd2"),
    "a result that no branch tests": (RING, "@!%p4 bra last;", ""),
    "a wait that is not repeated": (RING, "@!%p4 bra last;", "@!%p4 bra given_up;\ngiven_up:"),
    "a copy of another condition": (
        PERSISTENT,
        "@%p8 cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+4096]",
        "@%p1 cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+4096]",
    ),
    "a wait without its condition": (PERSISTENT, "@!%p7 bra over;\n", ""),
    "the condition of another parameter": (
        PERSISTENT,
        "@!%p7 bra over;\n",
        "setp.gt.s32 %p10, %r31, 0;\n@!%p10 bra over;\n",
    ),
    "a wait of the copying thread before the copy": (
        PERSISTENT,
        "@%p8 mbarrier.arrive",
        "early:\n@%p8 mbarrier.try_wait.parity.shared.b64 %p11, [%r3+8192], 0;\n@!%p11 bra early;\n@%p8 mbarrier.arrive",
    ),
    "one iteration more": (COUNTED, "%r4, 17;", "%r4, 18;"),
    "the last parity of an even number": (
        COUNTED,
        "[%r3+8192], 1;\n@!%p4 bra last",
        "[%r3+8192], 0;\n@!%p4 bra last",
    ),
    "a copy over an mbarrier that another thread may end": (TWO_LIVES, "bar.sync 0; // ended\n", ""),
    "a copy over an mbarrier that begins again": (
        TWO_LIVES,
        "bar.sync 0;\nret;",
        "bar.sync 0;\n@%p1 mbarrier.init.shared.b64 [%r3], 1;\nret;",
    ),
    "a commit that a loaded flag skips": (
        COMMITS,
        "@!%p1 bra issued;",
        "ld.global.u32 %r12, [%rd1];\nsetp.ne.or.s32 %p11, %r12, 0, !%p1;\n@%p11 bra issued;",
    ),
    "a commit of two threads": (COMMITS, "@!%p1 bra issued;", "setp.gt.s32 %p10, %r2, 1;\n@%p10 bra issued;"),
    "a commit without a barrier before it": (COMMITS, "loop:\nbar.sync 0;\n", "loop:\n"),
    "a commit for the CTAs of a cluster": (
        COMMITS,
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3+8192];",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r3+8192], %rs1;",
    ),
    "a commit after a wait in its branch": (
        COMMITS,
        "tcgen05.commit.cta_group::1",
        "mine:\nmbarrier.try_wait.parity.shared.b64 %p12, [%r3+8192], %r5;\n@!%p12 bra mine;\ntcgen05.commit.cta_group::1",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_twin_is_not_proved(name: str) -> None:
    body, old, new = WRONG[name]
    assert body.count(old) == 1, name
    assert phases(body).status is Status.PROVED
    assert phases(body.replace(old, new)).status is Status.UNKNOWN


def deadlock(body: str) -> Verdict:
    """What is known of deadlocks in a kernel with *body*."""
    made = built(f"{HEAD}{body}}}")
    (found,) = verdicts(KernelModel(made.functions[-1], made), assume=ALL, only=[HazardClass.DEADLOCK])
    return found


@pytest.mark.parametrize("body", [RING, PERSISTENT])
def test_no_thread_of_a_proved_protocol_deadlocks(body: str) -> None:
    found = deadlock(body)
    assert found.status is Status.PROVED, found.reasons


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[%rd1], 4096, [%r10", "[%rd1], 2048, [%r10"),
        (
            "@!%p4 bra wait;",
            "@!%p4 bra wait;\nld.volatile.global.u32 %r12, [%rd1];\nsetp.eq.s32 %p14, %r12, 0;\n@%p14 bra wait;",
        ),
        (
            "@!%p4 bra wait;",
            "ld.volatile.global.u32 %r12, [%rd1];\nsetp.eq.or.s32 %p14, %r12, 0, !%p4;\n@%p14 bra wait;",
        ),
        (
            "@!%p4 bra wait;",
            "@%p4 bra done;\nother:\nld.volatile.global.u32 %r12, [%rd1];\nsetp.eq.s32 %p14, %r12, 0;\n@%p14 bra other;\nbra wait;\ndone:",
        ),
        (
            "mov.u32 %r4, 0;\nloop:",
            "setp.ge.s32 %p15, %r2, 64;\n@%p15 bra apart;\nbar.sync 1, 64;\napart:\nmov.u32 %r4, 0;\nloop:",
        ),
    ],
)
def test_a_thread_may_wait_for_more_than_a_phase(old: str, new: str) -> None:
    assert RING.count(old) == 1
    assert deadlock(RING.replace(old, new)).status is Status.UNKNOWN


def test_a_system_of_sizes_has_a_solution() -> None:
    assert solvable([Phase(8, (("a", 1),)), Phase(24, (("a", 1), ("b", 2)))])
    assert solvable([Phase(0, ()), Phase(8, (("a", 1), ("b", 1))), Phase(8, (("a", 1), ("c", 1)))])


@pytest.mark.parametrize(
    "phases",
    [
        [Phase(8, (("a", 1),)), Phase(16, (("a", 1),))],
        [Phase(8, (("a", 1),)), Phase(8, (("a", 1), ("b", 1)))],
        [Phase(8, (("a", 1), ("b", 1))), Phase(6, (("a", 1),)), Phase(4, (("b", 1),))],
        [Phase(8, (("a", 2),)), Phase(12, (("a", 1), ("b", 1))), Phase(4, (("b", 1),))],
    ],
)
def test_sizes_of_copies_that_cannot_be(phases: list[Phase]) -> None:
    assert not solvable(phases)
