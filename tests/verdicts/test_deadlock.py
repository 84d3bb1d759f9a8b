"""What is proved of waits: no thread waits indefinitely for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tclint.findings.verdicts import Assumption, Discharge, HazardClass, Status, Verdict
from tclint.verdicts import verdicts
from tests.tools.collectives import ALL, ARRIVE, BARRIER, LANE, MMA, PARAMETER, SPIN, WAIT, WARP, branch, loop
from tests.tools.support import kernel, last_kernel

FOLDER = Path(__file__).parents[2] / "fixtures" / "waits"
KERNELS = sorted(path.name.removesuffix(".ptx") for path in FOLDER.glob("*.ptx"))
SIZE = ".reqntid 384"
START = """ld.param.u32 %r9, [number];
ld.param.u64 %rd1, [pointer];
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
shr.u32 %r3, %r1, 7;
mov.u32 %r7, %cluster_ctarank;
mov.u32 %r8, %ctaid.x;"""
GROUP = "setp.ne.s32 %p1, %r3, 0;"
OF_A_GROUP = branch(GROUP, "bar.sync 1, 128;")
LEADER = "setp.eq.s32 %p1, %r7, 0;"
NEXT = "add.s32 %r10, %r10, 1;\n"


def polled(load: str, leave: str = "setp.ne.s32 %p7, %r8, 0;\n@%p7 bra poll;", before: str = "") -> str:
    """A loop that reads memory and leaves at its end."""
    return f"mov.b32 %r10, 0;\npoll:\n{before}{load}\n{leave}"


def left(before: str, test: str) -> str:
    """A loop that polls a flag, and that %p5, which *test* computes in it or which is known *before*, lets a thread leave."""
    return f"""mov.b32 %r10, 0;
{before}
poll:
{test}
@%p5 bra out;
{READ}
setp.eq.s32 %p6, %r8, 0;
@%p6 bra poll;
out:
bar.sync 0;"""


READ = "ld.global.b32 %r8, [%rd1];"
COUNTED = f"{NEXT}setp.lt.s32 %p7, %r10, %r9;\n@%p7 bra poll;"
FIRST = "setp.ne.s32 %p6, %r8, 0;\n@%p6 bra out;\n"
SOMETIMES = f"setp.ne.s32 %p6, %r8, 0;\n@%p6 bra same;\n{NEXT}same:\n"


def deadlock(
    body: str, assume: frozenset[Assumption] = ALL, size: str = SIZE, functions: tuple[str, ...] = ()
) -> Verdict:
    model = last_kernel(*functions, kernel(f"{START}\n{body}\nret;", directives=size))
    (found,) = verdicts(model, assume=assume, only=[HazardClass.DEADLOCK])
    return found


THERE_AND_BACK = f"""{GROUP}
@%p1 bra other;
bar.arrive 1, 384;
bar.sync 2, 384;
bra over;
other:
bar.sync 1, 384;
bar.arrive 2, 384;
over:
{BARRIER}"""
CIRCULAR = THERE_AND_BACK.replace(
    "bar.arrive 1, 384;\nbar.sync 2, 384;", "bar.sync 2, 384;\nbar.arrive 1, 384;"
)
LOCAL = f"""{{
.local .b32 bound, at;
st.local.b32 [bound], %r9;
poll:
{READ}
st.local.b32 [bound], VALUE;
ld.local.b32 %r11, [at];
add.s32 %r11, %r11, 1;
st.local.b32 [at], %r11;
ld.local.b32 %r12, [bound];
setp.lt.s32 %p7, %r11, %r12;
@%p7 bra poll;
{BARRIER}
}}"""

PROVED = {
    "a barrier": BARRIER,
    "a barrier in a loop of a parameter": loop("%r9", BARRIER),
    "a barrier for a parameter": branch(PARAMETER, BARRIER),
    "a barrier of some warps": OF_A_GROUP,
    "barriers of some warps in different loops": f"{GROUP}\n@%p1 bra else;\n{loop('%r9', 'bar.sync 1, 128;')}\nbra over;\n"
    f"else:\n{loop('8', 'bar.sync 2, 256;').replace('top', 'up').replace('done', 'end')}\nover:\n{BARRIER}",
    "an arrival of others": f"{GROUP}\n@%p1 bar.arrive 1, 384;\n@!%p1 bar.sync 1, 384;",
    "arrivals there and back": THERE_AND_BACK,
    "the cluster barrier": f"{ARRIVE}\n{WAIT}",
    "an earlier grid": f"griddepcontrol.wait;\n{MMA}",
    "a loop that counts": polled(READ, COUNTED) + f"\n{BARRIER}",
    "a loop that data may leave earlier": polled(READ, COUNTED, f"{READ}\n{FIRST}") + f"\nout:\n{BARRIER}",
    "a loop with a branch on data": polled(
        READ, f"{SOMETIMES.replace(NEXT, 'add.s32 %r11, %r11, 1;')}\n{COUNTED}\n{BARRIER}"
    ),
    "a loop over constant data": polled("ld.global.nc.b32 %r8, [%rd1];") + f"\n{BARRIER}",
    "a counter in local memory": LOCAL.replace("VALUE", "%r9"),
    "a loop of a bound that was loaded before": f"{READ}\n{polled('', COUNTED.replace('%r9', '%r8'))}\n{MMA}",
    "a test of an mbarrier, once": f"mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r30], 0;\n{BARRIER}",
    "a loop that lanes leave together": polled(
        "vote.sync.any.pred %p7, %p8, -1;", f"{NEXT}setp.lt.s32 %p8, %r10, %r1;\n@%p7 bra poll;"
    ),
}
UNKNOWN = {
    "a barrier for some lanes": branch(LANE, BARRIER),
    "a barrier for some warps": branch(WARP, BARRIER),
    "as many barriers as a warp has": loop("%r2", BARRIER),
    "a barrier that counts too many": branch(GROUP, "bar.sync 1, 160;"),
    "an arrival that no other thread makes": f"{GROUP}\n@%p1 bar.arrive 1, 384;\n@!%p1 bar.sync 1, 256;",
    "an arrival after a wait for those who wait for it": CIRCULAR,
    "a barrier between an arrival and the wait for it": f"{GROUP}\n@%p1 bar.sync 1, 384;\n{BARRIER}\n@!%p1 bar.arrive 1, 384;",
    "the cluster barrier without one CTA": branch(LEADER, f"{ARRIVE}\n{WAIT}"),
    "a wait for the cluster without an arrival": WAIT,
    "an mbarrier": SPIN,
    "a flag": polled("ld.acquire.gpu.global.b32 %r8, [%rd1];") + f"\n{BARRIER}",
    "a lock": polled("atom.global.cas.b32 %r8, [%rd1], 0, 1;"),
    "a bound in local memory that data change": LOCAL.replace("VALUE", "%r8"),
    "a bound in local memory that data may change": LOCAL.replace("st.local.b32 [bound], VALUE", "st.b32 [%rd2], %r8"),
    "a bound in local memory that is changed for data": LOCAL.replace(
        "st.local.b32 [bound], VALUE", "setp.eq.s32 %p8, %r8, 0;\n@%p8 st.local.b32 [bound], %r9"
    ),
    "a flag that is kept in local memory": "{\n.local .b32 seen;\n"
    + polled(f"{READ}\nst.local.b32 [seen], %r8;\nld.local.b32 %r8, [seen];")
    + "\n}",
    "a counter that data advance": polled(READ, f"{SOMETIMES}{COUNTED.replace(NEXT, '')}"),
    "a test that data skip": polled(f"{READ}\n{NEXT}setp.ne.s32 %p6, %r8, 0;\n@%p6 bra poll;", COUNTED),
    "a loop without an exit": "poll:\nbra poll;",
    # One branch is decided by the thread alone, and the loop ends by another one.
    "a leader that leaves at once": left("setp.eq.s32 %p5, %r0, 0;", ""),
    "an argument that lets threads leave": left("setp.eq.s32 %p5, %r9, 0;", ""),
    "a counter without a step": left("", "add.s32 %r10, %r10, 0;\nsetp.gt.s32 %p5, %r10, %r9;"),
    "a counter that is masked": left("", "add.s32 %r10, %r10, 1;\nand.b32 %r10, %r10, 7;\nsetp.gt.u32 %p5, %r10, 8;"),
    "a bit that toggles": left("", "xor.b32 %r10, %r10, 1;\nsetp.eq.s32 %p5, %r10, 2;"),
    "a counter that skips its bound": left("", "add.s32 %r10, %r10, 2;\nsetp.eq.s32 %p5, %r10, 7;"),
    "a counter of some passes": left("", "@%p4 add.s32 %r10, %r10, 1;\nsetp.gt.s32 %p5, %r10, %r9;"),
    "a counter that an inner loop advances twice": left(
        "", f"mov.b32 %r11, 0;\ninner:\n{NEXT}add.s32 %r11, %r11, 1;\nsetp.lt.s32 %p4, %r11, 2;\n@%p4 bra inner;\nsetp.eq.s32 %p5, %r10, 7;"
    ),
    "a loop within one that a leader leaves": left("setp.eq.s32 %p5, %r0, 0;", "").replace("out:", f"{COUNTED}\nout:"),
    "what a lane votes for": polled(f"{READ}\nsetp.ne.s32 %p8, %r8, 0;\nvote.sync.any.pred %p7, %p8, -1;", "@%p7 bra poll;"),
    "lanes that are active": polled("activemask.b32 %r8;"),
    "tensor memory": f"{branch(WARP, 'tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 64;')}",
    "groups that overlap": branch("add.s32 %r4, %r1, -96;\nsetp.ge.u32 %p1, %r4, 96;", "bar.sync 1, 96;")
    + f"\n{GROUP}\n@%p1 bra no;\nwgmma.fence.sync.aligned;\nno:",
}  # fmt: skip


@pytest.mark.parametrize(
    "test",
    [
        "add.s32 %r10, %r10, 1;\nsetp.ge.s32 %p5, %r10, %r9;",
        "add.s32 %r10, %r10, -3;\nsetp.eq.s32 %p5, %r10, %r9;",
        "add.s32 %r4, %r10, 4;\nsetp.gt.s32 %p5, %r4, %r9;\nmov.b32 %r10, %r4;",
    ],
)
def test_a_counter_ends_a_loop_that_a_flag_may_end_earlier(test: str) -> None:
    assert deadlock(left("", test)).status is Status.PROVED


@pytest.mark.parametrize(
    "test",
    [
        "add.s32 %r10, %r10, 1;\nsetp.lt.u32 %p5, %r10, 0;",
        "add.s32 %r10, %r10, 1;\nmov.b32 %r4, 0;\nsetp.gt.u32 %p5, %r4, %r10;",
        "add.s32 %r10, %r10, 1;\nsetp.gt.u32 %p5, %r10, 0xffffffff;",
        "add.s32 %r10, %r10, 1;\nsetp.gt.u32 %p5, %r10, %r9;",
        "add.s32 %r10, %r10, -1;\nsetp.gt.s32 %p5, %r10, 0x7fffffff;",
        "add.s32 %r10, %r10, 1;\nsetp.lt.s32 %p5, %r10, %r10;",
        "add.s32 %r10, %r10, 4;\nsetp.ge.u32 %p5, %r10, 0xfffffffd;",
        "add.s32 %r10, %r10, 4;\nsetp.lt.s32 %p5, %r10, %r9;",
        "add.sat.s32 %r10, %r10, 1;\nsetp.eq.s32 %p5, %r10, %r9;",
        "add.s32 %r10, %r10, 1;\nsetp.ge.u32 %p4|%p5, %r10, 0;",
    ],
)
def test_a_counter_that_never_lets_a_thread_leave_ends_no_loop(test: str) -> None:
    """Whatever it is compared with: the bound may be one that no number is beyond, or that it skips."""
    assert deadlock(left("", test)).status is Status.UNKNOWN


def test_a_counter_may_skip_its_bound_only_where_it_wraps() -> None:
    skips = left("", "add.s32 %r10, %r10, 4;\nsetp.gt.s32 %p5, %r10, %r9;")
    each = left("", "add.s32 %r10, %r10, 1;\nsetp.ge.s32 %p5, %r10, %r9;")
    assert Assumption.NO_OVERFLOW in deadlock(skips).assumptions
    assert deadlock(skips, ALL - {Assumption.NO_OVERFLOW}).status is Status.UNKNOWN
    assert deadlock(each, ALL - {Assumption.NO_OVERFLOW}).status is Status.PROVED


@pytest.mark.parametrize(("bound", "status"), [("0x7fffffff", Status.UNKNOWN), ("%r9", Status.PROVED)])
def test_a_loop_that_ends_under_an_assumption_alone_uses_the_class(bound: str, status: Status) -> None:
    """Nothing else in the kernel waits, and no number is beyond the first of these bounds."""
    poll = left("", f"add.s32 %r10, %r10, 4;\nsetp.gt.s32 %p5, %r10, {bound};").removesuffix("bar.sync 0;")
    found = deadlock(poll)
    assert found.status is status
    assert (Assumption.NO_OVERFLOW in found.assumptions) == (status is Status.PROVED)


@pytest.mark.parametrize("case", PROVED)
def test_a_thread_waits_for_those_that_come(case: str) -> None:
    found = deadlock(PROVED[case])
    assert found.status is Status.PROVED, found.reasons
    assert all(each.discharge is not None for each in found.obligations)


@pytest.mark.parametrize("case", UNKNOWN)
def test_a_thread_may_wait_indefinitely(case: str) -> None:
    found = deadlock(UNKNOWN[case])
    assert found.status is Status.UNKNOWN
    assert found.reasons
    assert all(reason.at is not None for reason in found.reasons)


@pytest.mark.parametrize(
    ("size", "release", "request_", "proved"),
    [(SIZE, 40, 232, True), (SIZE, 40, 240, False), (SIZE, 96, 240, False), (".reqntid 256", 40, 240, True)],
)
def test_registers_must_become_available(size: str, release: int, request_: int, proved: bool) -> None:
    body = (
        f"{GROUP}\n@%p1 bra other;\nsetmaxnreg.dec.sync.aligned.u32 {release};\nret;\n"
        f"other:\nsetmaxnreg.inc.sync.aligned.u32 {request_};"
    )
    found = deadlock(body, size=f"{size}\n.minnctapersm 1")
    assert (found.status is Status.PROVED) is proved, found.reasons
    assert not proved or Discharge.POOL in {each.discharge for each in found.obligations}


def test_the_obligations_are_those_of_groups_and_those_of_loops() -> None:
    found = deadlock(f"griddepcontrol.wait;\n{PROVED['a loop that counts']}")
    assert [each.discharge for each in found.obligations] == [
        Discharge.UNIFORM,
        Discharge.ENDS,
        Discharge.ENDS,
    ]


def test_a_loop_over_constant_data_rests_on_an_assumption() -> None:
    body = PROVED["a loop over constant data"]
    assert Assumption.READ_ONLY in deadlock(body).assumptions
    assert deadlock(body, ALL - {Assumption.READ_ONLY}).status is Status.UNKNOWN


@pytest.mark.parametrize("body", [BARRIER, PROVED["a loop that counts"], "mov.u32 %r10, %r11;"])
def test_a_callee_that_polls_is_not_known_to_return(body: str) -> None:
    load = "poll:\nld.volatile.global.b32 %r8, [%rd1];\nsetp.ne.s32 %p7, %r8, 0;\n@%p7 bra poll;"
    callee = f".func waits()\n{{\n.reg .pred %p<9>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<3>;\n{load}\nret;\n}}"
    assert deadlock(f"{body}\ncall waits;", functions=(callee,)).status is Status.UNKNOWN


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_that_are_right_are_proved_and_their_flawed_twins_are_not(name: str) -> None:
    model = last_kernel((FOLDER / f"{name}.ptx").read_text(), header="")
    (found,) = verdicts(model, only=[HazardClass.DEADLOCK])
    assert found.status is (Status.UNKNOWN if name.endswith(".bad") else Status.PROVED), found.reasons


def test_each_kernel_has_a_flawed_twin() -> None:
    right = {name for name in KERNELS if not name.endswith(".bad")}
    assert right == {name.split(".")[0] for name in KERNELS if name.endswith(".bad")}
