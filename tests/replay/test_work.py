"""Replays: how the iterations of loops are divided among warps, lanes and CTAs."""

from __future__ import annotations

import pytest

from tclint.analyses.model import KernelModel
from tclint.checks.replay import replayed
from tclint.dataflow import GaveUp
from tclint.findings.scales import Confidence
from tclint.ir.frontend import analyse
from tclint.replay.launch import LaunchValues, ReplayLaunch
from tclint.replay.reasons import NotReplayed
from tclint.replay.verdict import Replay
from tclint.syntax.source import Source
from tests.tools.replay import (
    GIVE,
    MORE,
    PASSED,
    REREAD,
    STEP,
    TILES,
    WAIT,
    changed,
    drained,
    persistent,
    replay,
    reports,
    what,
    why,
)
from tests.tools.support import analysed, model


def shared(warps: int, first: str = "mov.u32 %r3, %r1;", following: str = "", full: int = 1) -> str:
    """Each of so many warps has a stage of a ring, which one thread of another warp fills."""
    stages = "".join(
        f"    mbarrier.init.shared::cta.b64 [m+{at}], {count};\n"
        for at, count in [*((8 * i, full) for i in range(warps)), *((64 + 8 * i, 32) for i in range(warps))]
    )
    return f""".version 8.0
.target sm_90
.address_size 64
.visible .entry shared(.param .u32 rounds)
.reqntid {32 * warps + 32}
{{
    .reg .pred %p<4>;
    .reg .b32 %r<9>;
    .shared .align 8 .b64 m[16];
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    ld.param.u32 %r2, [rounds];
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
{stages}ready:
    bar.sync 0;
    setp.lt.u32 %p1, %r1, {warps};
    @%p1 bra share;
    setp.ne.u32 %p1, %r0, {32 * warps};
    @%p1 bra end;
    mov.u32 %r3, 0;
fill:
    setp.ge.u32 %p3, %r3, %r2;
    @%p3 bra end;
    rem.u32 %r4, %r3, {warps};
    mov.u32 %r5, m;
    mad.lo.u32 %r5, %r4, 8, %r5;
    div.u32 %r6, %r3, {warps};
    xor.b32 %r6, %r6, 1;
    and.b32 %r6, %r6, 1;
free:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5+64], %r6;
    @!%p2 bra free;
    mbarrier.arrive.shared::cta.b64 _, [%r5];
    add.u32 %r3, %r3, 1;
    bra fill;
share:
    {first}
    setp.ge.u32 %p3, %r3, %r2;
    @%p3 bra end;
use:
    rem.u32 %r4, %r3, {warps};
    mov.u32 %r5, m;
    mad.lo.u32 %r5, %r4, 8, %r5;
    div.u32 %r6, %r3, {warps};
    and.b32 %r6, %r6, 1;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], %r6;
    @!%p2 bra wait;
    mbarrier.arrive.shared::cta.b64 _, [%r5+64];
    {following}
    add.u32 %r3, %r3, {warps};
    setp.lt.u32 %p3, %r3, %r2;
    @%p3 bra use;
end:
    ret;
}}
"""


@pytest.mark.parametrize("warps", [1, 2, 4, 7])
def test_rounds_that_warps_share(warps: int) -> None:
    """If the launch decides the trip count, some of them may have one iteration more than others."""
    assert not why(replay(shared(warps)))
    assert not reports(shared(warps))
    assert what(replay(shared(warps, full=2)).run) == {"stuck"}


def test_rounds_that_no_launch_shares_out() -> None:
    """Warps that meet in each iteration need equally many, and no value that is tried is a multiple of 7."""
    assert replay(shared(2, following="bar.sync 1, 64;")).run is None
    for warps in (3, 7):
        meets = f"bar.sync 1, {32 * warps};"
        asked = replay(shared(warps, following=meets))
        assert asked.run is None
        assert asked.runs
        assert warps == 3 or all(run.uneven and run.wrong for run in asked.runs)
    assert what(replay(shared(2, following="bar.sync 1, 96;")).run) == {"stuck"}


def test_the_launch_decides_which_threads_have_an_iteration() -> None:
    """There may be none for most lanes: how many of them take part is not made up."""
    few = "shr.u32 %r2, %r2, 5;\n    mov.u32 %r3, %r0;"
    asked = replay(shared(2, few, full=2))
    assert asked.run is None
    assert why(asked) == NotReplayed.ROLES_FROM_LAUNCH


def test_a_bound_that_all_threads_meet_divides_no_roles() -> None:
    """The items of a grid, one for each warp: with many items no warp is left out, and with few the fault shows as well."""
    item = """mov.u32 %r3, %ctaid.x;
    mad.lo.u32 %r3, %r3, 2, %r1;
    add.u32 %r7, %r3, 1;
    setp.gt.u32 %p3, %r7, %r2;
    @%p3 bra end;"""
    release = "    mbarrier.arrive.shared::cta.b64 _, [%r5+64];\n"
    assert replay(shared(2, item)).run is None
    twice = replay(changed(release, release * 2, shared(2, item)))
    assert twice.run is not None
    assert twice.run.dispatched
    assert what(twice.run) == {"stuck"}


WORK = """.version 8.0
.target sm_90
.address_size 64
.visible .entry work(.param .u32 size)
.reqntid 128
{
    .reg .pred %p<6>;
    .reg .b32 %r<9>;
    .shared .align 8 .b64 m[4];
    ld.param.u32 %r2, [size];
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    and.b32 %r3, %r0, 31;
    mov.u32 %r4, m;
    mad.lo.u32 %r4, %r1, 8, %r4;
    setp.ne.u32 %p0, %r3, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [%r4], 33;
ready:
    bar.warp.sync -1;
    shr.u32 %r5, %r2, 9;
    sub.u32 %r5, %r5, %r1;
    setp.lt.s32 %p1, %r5, 1;
    or.pred %p2, %p0, %p1;
    @%p2 bra all;
    mbarrier.arrive.shared::cta.b64 _, [%r4];
all:
    @%p1 bra end;
    mbarrier.arrive.shared::cta.b64 _, [%r4];
more:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4], 0;
    @!%p3 bra more;
end:
    ret;
}
"""
"""Warps with an item each, as long as there are items."""


def test_work_that_is_too_little_for_all_warps() -> None:
    """The sizes that are tried first leave some warps without an item. The first lane of each has something else to do."""
    assert replay(WORK).run is None
    assert not why(replay(WORK))
    assert what(replay(changed("[%r4], 33;", "[%r4], 34;", WORK)).run) == {"stuck"}


def test_a_launch_that_uses_no_mbarrier_is_no_evidence_for_them() -> None:
    """One of the sizes that are tried is not a multiple of 16, and takes another path."""
    items = "and.b32 %r5, %r2, 15;\n    sub.u32 %r5, 1, %r5;"
    other = changed("shr.u32 %r5, %r2, 9;\n    sub.u32 %r5, %r5, %r1;", items, WORK)
    assert replay(other).run is None
    faulty = replay(changed("[%r4], 33;", "[%r4], 34;", other))
    assert [run.wrong for run in faulty.runs[:3]] == [True, True, False]
    assert what(faulty.run) == {"stuck"}


def test_work_for_some_lanes_of_a_warp_is_not_made_up() -> None:
    lanes = changed("sub.u32 %r5, %r5, %r1;", "sub.u32 %r5, %r5, %r0;", WORK)
    assert why(replay(changed("[%r4], 33;", "[%r4], 34;", lanes))) == NotReplayed.ROLES_FROM_LAUNCH


def test_a_branch_on_a_predicate_whose_parts_are_shared_is_answered() -> None:
    """Each of 60 instructions combines the result of the one before it with itself."""
    combined = "or.pred %q0, %p2, %p2;\n" + "".join(
        f"    or.pred %q{n + 1}, %q{n}, %q{n};\n" for n in range(60)
    )
    code = changed("    @%p2 bra all;", f"    {combined}    @%q60 bra all;", WORK)
    assert replay(changed(".reg .pred %p<6>;", ".reg .pred %p<6>, %q<61>;", code)).run is None


def test_no_launch_fails_an_assertion() -> None:
    """Where threads continue after a failed assertion, what they have left out is missing."""
    asserted = changed(
        "all:\n    @%p1 bra end;\n",
        """all:
    @%p1 bra end;
    setp.lt.u32 %p4, %r2, 1000000;
    @%p4 bra fails;
""",
        changed(
            "more:\n",
            """    bra more;
fails:
    call.uni __assertfail, ();
more:
""",
            WORK,
        ),
    )
    asserted = asserted.replace(".visible", ".extern .func __assertfail ();\n.visible")

    def last(code: str) -> Replay:
        of, _ = analyse(Source.from_bytes(code.encode(), "k.ptx"))
        return Replay(KernelModel(of.functions[-1], of))

    assert last(asserted).run is None
    assert what(last(changed("[%r4], 33;", "[%r4], 34;", asserted)).run) == {"stuck"}


TICKETS = """.version 8.6
.target sm_90
.address_size 64
.visible .entry tickets(.param .u64 counter, .param .u32 tiles)
.reqntid 64
{
    .reg .pred %p<3>;
    .reg .b32 %r<9>;
    .reg .b64 %counter;
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 empty;
    .shared .align 4 .b32 tile;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %counter, [counter];
    ld.param.u32 %r1, [tiles];
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [empty], 32;
ready:
    bar.sync 0;
    setp.lt.u32 %p1, %r0, 32;
    @%p1 bra first;
    setp.ne.u32 %p1, %r0, 32;
    @%p1 bra end;
    mov.u32 %r3, 1;
take:
    atom.global.add.u32 %r2, [%counter], 1;
free:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [empty], %r3;
    @!%p2 bra free;
    xor.b32 %r3, %r3, 1;
    st.shared.u32 [tile], %r2;
    mbarrier.arrive.shared::cta.b64 _, [full];
    setp.lt.u32 %p2, %r2, %r1;
    @%p2 bra take;
    bra end;
first:
    mov.u32 %r3, 0;
use:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], %r3;
    @!%p2 bra use;
    xor.b32 %r3, %r3, 1;
    ld.shared.u32 %r2, [tile];
    mbarrier.arrive.shared::cta.b64 _, [empty];
    setp.lt.u32 %p2, %r2, %r1;
    @%p2 bra use;
end:
    ret;
}
"""


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        pytest.param("", "", "", id="right"),
        pytest.param("[empty], 32;", "[empty], 33;", "stuck", id="too few arrivals"),
        pytest.param("use:\n", "use:\n    mov.u32 %r3, 0;\n", "race", id="parity does not flip"),
        pytest.param("add.u32 %r2, [%counter], 1", "exch.b32 %r2, [%counter], 1", "", id="no counter"),
    ],
)  # fmt: skip
def test_tiles_that_a_counter_in_memory_hands_out(old: str, new: str, seen: str) -> None:
    """The first numbers are small, so that there is something to do, and others take the rest."""
    asked = replay(changed(old, new, TICKETS))
    assert seen in what(asked.run) if seen else asked.run is None
    assert not why(asked)


def test_the_numbers_of_a_counter() -> None:
    launch = ReplayLaunch(model("ret;"), LaunchValues(512, 8), (32,))
    assert [launch.counter_value(taken, 512, 4) for taken in (0, 7, 8, 9, 40)] == [
        0,
        7,
        512,
        1024,
        (1 << 31) - 1,
    ]


def test_trip_counts_from_different_values() -> None:
    """A number of tiles may be passed beside the size that it follows from: here both are 512, in no real launch."""

    def one_more(than: int) -> str:
        fewer = f"    shr.u32 %r20, %r20, 6;\n    shr.u32 %r12, %r12, 6;\n    add.u32 %r12, %r12, {than};\n"
        producer, consumer = PASSED.replace("[size];\n", f"[size];\n{fewer}").split("use:")
        return f"{producer}use:{consumer.replace('%r21, %r20;', '%r21, %r12;')}"

    assert (
        why(replay(one_more(2))) == NotReplayed.UNRELATED_TRIP_COUNTS
    )  # with a size of 1024 and rounds of 1280, say
    (hit,) = replayed(analysed(one_more(64)))
    assert hit.confidence is Confidence.LOW
    assert "different values of the launch" in hit.doubt


def test_rounds_that_no_launch_decides() -> None:
    """The trip count of this loop is fixed."""
    code = changed("ld.param.u32 %r20, [rounds];", "mov.u32 %r20, 4096;")
    asked = replay(drained(129, code))
    assert isinstance(asked.verdict, GaveUp)
    assert asked.verdict.why is NotReplayed.TOO_MANY_ITERATIONS
    assert asked.verdict.site >= 0
    fewer = changed("ld.param.u32 %r20, [rounds];", "mov.u32 %r20, 64;")
    assert what(replay(drained(129, fewer)).run) == {"stuck"}


LEAVES = "    ld.param.u32 %r32, [tiles];\n    setp.ge.u32 %p5, %r20, %r32;\n    @%p5 bra rest;\n"
"""A later loop has iterations left where one value of the launch is less than another."""


@pytest.mark.parametrize(
    ("before", "rest", "said"),
    [("load:\n", "", ""), ("use:\n", REREAD, "reads shared memory")],
)
def test_values_for_which_there_is_no_work(before: str, rest: str, said: str) -> None:
    """FlashAttention's backward pass has no tile where both lengths and the number of blocks are the same."""
    code = changed(".param .u32 rounds)", ".param .u32 rounds, .param .u32 tiles)")
    code = changed("    mad.wide.u32 %out", f"rest:\n{rest}    mad.wide.u32 %out", code)
    judged = replay(changed(before, LEAVES + before, code))
    if said:
        (hit,) = replayed(judged.model)
        assert said in hit.message
        assert hit.confidence is Confidence.LOW
    else:
        assert why(judged) == NotReplayed.UNRELATED_TRIP_COUNTS
    (hit,) = replayed(replay(changed(WAIT, "", code)).model)
    assert hit.confidence is not Confidence.LOW


def test_later_tiles_whose_work_is_in_memory() -> None:
    """Values in memory may not occur together in any launch, so what is right in the first iteration counts for all."""
    code = persistent("%nctaid.x", 6, "    mov.u32 %r22, 0;\n    mov.u32 %r23, 0;\n")
    listed = changed("    ld.param.u32 %r35, [tiles];\n", "    ld.global.u32 %r35, [%in];\n", code)
    assert replay(listed).run is None


def test_a_kernel_that_takes_even_numbers_only() -> None:
    """With an odd one its consumer waits for a stage that never comes, but at a wait that goes right with others."""
    even = changed(
        "    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra use;\n",
        STEP.replace("use:", "").replace(WAIT, MORE)
        + "    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra use;\n",
        TILES,
    )
    assert replay(even).run is None
    unused = changed("    setp.lt.u32 %p2, %r0, 128;\n", "    setp.eq.u32 %p2, %r20, 8;\n    @%p2 bra done;\n"
                     "    setp.eq.u32 %p2, %r20, 20;\n    @%p2 bra done;\n    setp.lt.u32 %p2, %r0, 128;\n", even)  # fmt: skip
    assert replay(unused).run is None  # nothing is known to go right


@pytest.mark.parametrize("kind", ["u32", "u64"])
def test_rounds_that_are_a_difference_in_memory(kind: str) -> None:
    """A sequence length is its end minus its beginning: where all of memory is equal, there is nothing to do."""
    size = int(kind[1:]) // 8
    lengths = f"""    ld.global.{kind} %a, [%in];
    ld.global.{kind} %b, [%in+{size}];
    sub.{kind} %b, %b, %a;
    cvt.u32.{kind} %r20, %b;
    setp.eq.u32 %p3, %r20, 0;
    @%p3 bra done;
"""
    code = changed("    ld.param.u32 %r20, [rounds];\n", lengths).replace(
        "    .reg .b64 %in, %out;", f"    .reg .b64 %in, %out;\n    .reg .b{kind[1:]} %a, %b;"
    )
    if kind == "u32":
        code = code.replace("cvt.u32.u32 %r20, %b", "mov.u32 %r20, %b")
    assert replay(code).run is None
    assert "stuck" in what(replay(code.replace(GIVE, "")).run)


@pytest.mark.parametrize(("stride", "right"), [("%r34", True), ("128", True), ("64", False)])
def test_a_grid_of_the_size_of_a_loop_step(stride: str, right: bool) -> None:
    """One role advances by a constant and the other by the size of the grid: the host launches so many CTAs."""
    code = changed(".reg .b32 %r<33>;", ".reg .b32 %r<35>;")
    code = changed(
        "    mov.u32 %r21, 0;\n", "    mov.u32 %r21, %ctaid.x;\n    mov.u32 %r34, %nctaid.x;\n", code
    )
    producer, _, consumer = code.partition("consumer:")
    step = "add.u32 %r21, %r21, 1;"
    ring = changed(step, "add.u32 %r21, %r21, 128;", producer) + "consumer:"
    ring += changed(step, f"add.u32 %r21, %r21, {stride};", consumer)
    assert (replay(ring).run is None) is right
    assert "stuck" in what(replay(ring.replace(GIVE, "")).run)
