"""Reads of what bulk loads fill, on small kernels; the page of the rule holds the plain cases."""

from __future__ import annotations

import pytest

from tclint.findings.finding import Finding
from tclint.findings.scales import Confidence, Severity
from tests.tools.support import by_rule, kernel, lint, module

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
START = """
    .shared .align 128 .b8 tile[8192];
    .shared .align 128 .b8 other[512];
    .shared .align 8 .b64 ring[4];
    .shared .align 8 .b64 full;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    mov.u32 %r1, tile;
    mad.lo.u32 %r2, %r0, 4, %r1;
    setp.ne.u32 %p0, %r0, 0;
    setp.ge.u32 %p9, %r0, 32;
    @!%p0 mbarrier.init.shared::cta.b64 [full], 1;
    @!%p0 mbarrier.init.shared::cta.b64 [ring], 32;
    bar.sync 0;
"""
LOAD = """
    @%p0 bra loaded;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 512;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd0], 512, [full];
loaded:
"""
READ = "ld.shared.u32 %r3, [%r2];"


def wait(label: str, at: str = "full", parity: int | str = 0) -> str:
    return f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [{at}], {parity};\n@!%p1 bra {label};"


def unwaited(*lines: str, **options: str) -> list[Finding]:
    body = "\n".join((START, LOAD, *lines, "st.global.u32 [%rd0], %r3;\nret;"))
    report = lint(module(kernel(body, **options), header=HEADER))
    assert report.status == "analysed", report.problems
    return by_rule(report, "BK001")


@pytest.mark.parametrize(("word", "count"), [(4088, 1), (4112, 0)])
def test_what_follows_an_mbarrier_is_in_no_stage(word: int, count: int) -> None:
    """The stage comes from a division by six, of which no more is known than that it is a byte (a tutorial of CuTe DSL)."""
    body = f"""
    .shared .align 128 .b8 all[8192];
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    mov.u32 %r1, all;
    setp.ne.u32 %p0, %r0, 0;
    @!%p0 mbarrier.init.shared::cta.b64 [all+4096], 1;
    bar.sync 0;
    @%p0 bra on;
    mov.u32 %r6, 0;
next:
    and.b32 %r4, %r6, 255;
    shl.b32 %r4, %r4, 9;
    add.u32 %r4, %r4, %r1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [all+4096], 512;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r4], [%rd0], 512, [all+4096];
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p2, %r6, %r9;
    @%p2 bra next;
on: ld.shared.u32 %r3, [all+{word}];
    st.global.u32 [%rd0], %r3;
    ret;"""
    assert len(by_rule(lint(module(kernel(body), header=HEADER)), "BK001")) == count


@pytest.mark.parametrize(
    ("lines", "count"),
    {
        "no wait": ([READ], 1),
        "a wait": ([wait("w"), READ], 0),
        "a later wait": ([READ, wait("w")], 1),
        "a barrier alone": (["bar.sync 0;", READ], 1),
        "a wait for another mbarrier": ([wait("w", "ring"), READ], 1),
        "one warp waits, and a barrier orders the others": (["@%p9 bra on;", wait("w"), "on: bar.sync 0;", READ], 0),
        "one warp waits, and says nothing": (["@%p9 bra on;", wait("w"), "on:", READ], 1),
        "one warp waits, and arrives": (
            ["@%p9 bra on;", wait("w"), "mbarrier.arrive.shared::cta.b64 _, [ring];", "on:", wait("v", "ring"), READ],
            0,
        ),
        "one warp arrives, and waits": (
            ["@%p9 bra on;", "mbarrier.arrive.shared::cta.b64 _, [ring];", wait("w"), "on:", "@!%p9 bra done;",
             wait("v", "ring"), READ, "done:"],
            1,
        ),
        # The other threads observe it at the cluster barrier, if the thread that has waited arrives there later.
        "a cluster barrier": (
            ["@%p0 bra on;", wait("w"), "on:", "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;", READ], 0,
        ),
        "a wait between arrival and wait of the cluster barrier": (
            ["barrier.cluster.arrive.aligned;", "@%p0 bra on;", wait("w"), "on:", "barrier.cluster.wait.aligned;", READ], 1,
        ),
        "other bytes": (["ld.shared.u32 %r3, [tile+512];"], 0),
        "another variable": (["ld.shared.u32 %r3, [other];"], 0),
        "bytes that may be others": (["shl.b32 %r4, %r9, 2;", "add.u32 %r4, %r4, %r1;", "ld.shared.u32 %r3, [%r4];"], 0),
        "what the threads have written": ([wait("w"), "st.shared.u32 [%r2], %r0;", "bar.sync 0;", READ], 0),
        "read by a copy": (
            ["@!%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 512;",
             "@!%p0 cp.async.bulk.commit_group;", "@!%p0 cp.async.bulk.wait_group 0;"],
            1,
        ),
        "a wait in the first iteration": (
            ["mov.u32 %r8, 0;", "round:", "setp.ne.u32 %p3, %r8, 0;", "@%p3 bra on;", wait("w"), "on:", READ,
             "add.u32 %r8, %r8, 1;", "setp.lt.u32 %p4, %r8, %r9;", "@%p4 bra round;"],
            0,
        ),
        "a wait in the second iteration": (
            ["mov.u32 %r8, 0;", "round:", "setp.ne.u32 %p3, %r8, 1;", "@%p3 bra on;", wait("w"), "on:", READ,
             "add.u32 %r8, %r8, 1;", "setp.lt.u32 %p4, %r8, %r9;", "@%p4 bra round;"],
            1,
        ),
        "a wait that only some execute": (["setp.eq.u32 %p3, %r9, 7;", "@%p3 bra on;", wait("w"), "on:", READ], 1),
    }.values(),
)  # fmt: skip
def test_a_read_is_reported_without_an_observed_wait(lines: list[str], count: int) -> None:
    assert len(unwaited(*lines)) == count


@pytest.mark.parametrize(("other", "count"), [("512", 0), ("0", 1)])
def test_the_next_iteration_is_loaded_before_this_one_is_read(other: str, count: int) -> None:
    """One mbarrier for two buffers: what a copy fills is waited for a round later, and it is the other one that is read."""
    found = unwaited(
        "mov.u32 %r5, 0; mov.u32 %r7, 0; mov.u32 %r8, 0;",
        "round:",
        wait("w", parity="%r7"),
        f"xor.b32 %r7, %r7, 1; xor.b32 %r5, %r5, {other}; add.u32 %r8, %r8, 1;",
        "add.u32 %r6, %r1, %r5; setp.lt.u32 %p4, %r8, %r9; @!%p4 bra last; @%p0 bra last;",
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 512;",
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r6], [%rd0], 512, [full];",
        f"last: xor.b32 %r10, %r5, {other}; add.u32 %r10, %r10, %r2; ld.shared.u32 %r3, [%r10];",
        "bar.sync 0; @%p4 bra round;",
    )
    assert len(found) == count


@pytest.mark.parametrize(("separating", "count"), [("bar.sync 0;", 0), ("", 1), ("@!%p9 bar.sync 1, 32;", 1)])
def test_what_all_threads_have_read_before_the_first_copy(separating: str, count: int) -> None:
    """A read is of something else if a CTA barrier follows it on every path to a copy, and never precedes it."""
    body = (START, READ, separating, LOAD, wait("w"), "st.global.u32 [%rd0], %r3;\nret;")
    report = lint(module(kernel("\n".join(body)), header=HEADER))
    assert len(by_rule(report, "BK001")) == count


def test_a_read_without_a_wait() -> None:
    (finding,) = unwaited("bar.sync 0;", READ, "ld.shared.u32 %r4, [tile+64];")
    assert finding.severity is Severity.ERROR
    assert finding.message == (
        "ld.shared reads shared memory that a bulk copy may still be writing: no wait for its mbarrier on this path"
    )
    assert [(step.message, step.role) for step in finding.steps] == [
        ("starts to fill it", "thread 0"),
        ("reads it", "all threads"),
    ]
    assert finding.count == 2
    assert finding.help.startswith("wait for the phase that the copy completes on its mbarrier")


def test_a_first_wait_that_returns_at_once() -> None:
    (finding,) = unwaited(wait("w", parity=1), READ)
    assert finding.message.endswith(
        "the first wait for its mbarrier is for parity 1, the phase before the first, and returns at once"
    )
    assert [step.message for step in finding.steps] == [
        "starts to fill it",
        "returns at once on a fresh mbarrier",
        "reads it",
    ]
    assert finding.help.startswith("wait for parity 0 first")


@pytest.mark.parametrize("parity", [0, "%r9"])
def test_a_first_wait_that_may_wait(parity: int | str) -> None:
    assert not unwaited(wait("w", parity=parity), READ)


@pytest.mark.parametrize(("first", "count"), [([wait("w", parity="%r5")], 0), ([], 1)])
def test_a_wait_after_another_one_of_the_same_iteration_is_not_the_first(
    first: list[str], count: int
) -> None:
    """One that each iteration reaches after another wait is not the first wait of any thread."""
    again, more = (LOAD.replace("loaded", name) for name in ("again", "more"))
    body = ["mov.u32 %r5, 0;", "round:", *first, "bar.sync 0;", "xor.b32 %r5, %r5, 1;", again]
    rest = ["xor.b32 %r5, %r5, 1;", "bar.sync 0;", more, "add.u32 %r9, %r9, -1;", "setp.ne.u32 %p4, %r9, 0;"]
    assert len(unwaited(*body, wait("v", parity="%r5"), READ, *rest, "@%p4 bra round;")) == count


@pytest.mark.parametrize(("leader", "count"), [("%p0", 0), ("%p9", 1)])
def test_the_wait_of_a_second_copy_of_a_loop_follows_that_of_the_first(leader: str, count: int) -> None:
    """nvcc unrolls a loop whose leader waits by two: one condition skips both waits."""
    again = LOAD.replace("loaded", "again").replace("%p0", leader)
    body = [
        "round:",
        "@%p0 bra passed;", wait("w"), "passed:", "bar.sync 0;",
        again, f"@{leader} bra done;", wait("v", parity=1), "@!%p0 ld.shared.u32 %r3, [%r2];", "done:", "bar.sync 0;",
        "add.u32 %r9, %r9, -1;", "setp.ne.u32 %p4, %r9, 0;", "@%p4 bra round;",
    ]  # fmt: skip
    assert len(unwaited(*body)) == count


@pytest.mark.parametrize(
    ("read", "count"), [("ld.shared.u32 %r3, [tile+512];", 1), ("ld.shared.u32 %r3, [tile];", 0)]
)
def test_one_mbarrier_for_two_tiles(read: str, count: int) -> None:
    """The second load is on its way when the first one may be read."""
    second = LOAD.replace("[tile]", "[tile+512]").replace("loaded", "again")
    assert len(unwaited(wait("w"), "bar.sync 0;", second, f"@!%p0 {read}", wait("v", parity=1))) == count


@pytest.mark.parametrize(("same", "count"), [(True, 0), (False, 1)])
def test_a_branch_that_skips_both_the_load_and_the_wait_is_not_reported(same: bool, count: int) -> None:
    none = "setp.eq.u32 %p3, %r9, 0;\n@%p3 bra nothing;"
    other = none if same else none.replace("0;", "7;")
    start = START + none.replace("nothing", "loaded")
    body = f"{start}\n{LOAD}\n{other}\n{wait('w')}\nnothing: {READ}\nst.global.u32 [%rd0], %r3;\nret;"
    assert len(by_rule(lint(module(kernel(body), header=HEADER)), "BK001")) == count


def test_a_function_may_wait() -> None:
    text = f"{START}\n{LOAD}\ncall waits;\n{READ}\nst.global.u32 [%rd0], %r3;\nret;"
    assert not by_rule(lint(module(".extern .func waits;", kernel(text), header=HEADER)), "BK001")


@pytest.mark.parametrize(("fewest", "wrong"), [(1, False), (4, False), (0, True)])
def test_no_copy_where_no_wait(fewest: int, wrong: bool) -> None:
    """A product of CUTLASS multiplies without a wait where there is no tile, and so no copy in either of two loops."""
    copy = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd0], 512, [full];"
    body = f"""
        setp.lt.s32 %p3, %r9, 1;
        or.pred %p4, %p0, %p3;
        @%p4 bra first;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 512;
        {copy}
    first:
        setp.lt.s32 %p5, %r9, {fewest};
        or.pred %p6, %p0, %p5;
        @%p6 bra second;
        mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 512;
        {copy}
    second:
        @%p3 bra on;
        {wait("w")}
    on:
        {READ}
        st.global.u32 [%rd0], %r3;
        ret;
    """
    report = lint(module(kernel(START + body), header=HEADER))
    assert report.status == "analysed", report.problems
    # Where only one of the copies asks what the wait asks, that may be meant otherwise.
    assert [f.confidence for f in by_rule(report, "BK001")] == [Confidence.LOW] * wrong


@pytest.mark.parametrize(
    ("issue", "shown"),
    [
        (LOAD, [Confidence.HIGH]),
        (LOAD.replace("@%p0 bra", "or.pred %p6, %p0, %p5;\n@%p6 bra"), []),
        (
            LOAD.replace("@%p0 bra", "setp.eq.u32 %p7, %r9, 7;\nor.pred %p6, %p0, %p7;\n@%p6 bra"),
            [Confidence.LOW],
        ),
    ],
)
def test_a_fast_path_that_jumps_over_the_wait(issue: str, shown: list[Confidence]) -> None:
    """Loaded data decides whether a thread waits, and the thread index, the data or the launch whether one copies."""
    body = f"""
        ld.global.u32 %r8, [%rd0+4096];
        setp.eq.u32 %p5, %r8, 0;
        {issue}
        @%p5 bra fast;
        {wait("w")}
    fast:
        {READ}
        st.global.u32 [%rd0], %r3;
        ret;
    """
    found = by_rule(lint(module(kernel(START + body), header=HEADER)), "BK001")
    assert [f.confidence for f in found] == shown
    for finding in found:
        skipped = [step.message for step in finding.steps if step.aside]
        assert skipped == ["skips the wait", "the wait that is skipped"]


@pytest.mark.parametrize(
    ("none", "confidence"),
    [("-1", Confidence.LOW), ("0x7fffffff", Confidence.LOW), ("0", Confidence.HIGH), ("4", Confidence.HIGH)],
)
def test_a_key_that_equals_the_one_that_nothing_was_waited_for(none: str, confidence: Confidence) -> None:
    """The thread waits when the key changes, and the loop begins without one."""
    (finding,) = unwaited(
        f"mov.u32 %r7, {none}; mov.u32 %r8, 0;".replace("; ", ";\n"),
        "round:",
        "mad.wide.u32 %rd1, %r8, 4, %rd0;\nld.global.u32 %r5, [%rd1+4096];",
        "setp.eq.s32 %p3, %r5, %r7;\n@%p3 bra on;",
        wait("w"),
        "mov.u32 %r7, %r5;",
        f"on: {READ}",
        "add.u32 %r8, %r8, 1;\nsetp.lt.u32 %p4, %r8, %r9;\n@%p4 bra round;",
    )
    assert finding.confidence is confidence


PADDING = "setp.eq.s32 %p5, %r8, -1;"
NEGATIVE = "setp.lt.s32 %p6, %r10, 0;"


@pytest.mark.parametrize(
    ("skips", "ends", "confidence"),
    [
        pytest.param(PADDING, f"shl.b32 %r10, %r8, 4;\n{NEGATIVE}", Confidence.LOW, id="of the same word"),
        pytest.param(
            "setp.ne.s32 %p7, %r8, -1;\nvote.sync.any.pred %p5, %p7, -1;\nnot.pred %p5, %p5;",
            "setp.eq.s32 %p6, %r8, -1;",
            Confidence.LOW,
            id="of a word of each lane",
        ),
        pytest.param(PADDING, "setp.eq.s32 %p6, %r8, 7;", Confidence.HIGH, id="which follows"),
        pytest.param(PADDING, f"ld.global.u32 %r10, [%rd0+64];\n{NEGATIVE}", Confidence.HIGH, id="of another word"),
    ],
)  # fmt: skip
def test_what_is_read_only_if_it_was_waited_for(skips: str, ends: str, confidence: Confidence) -> None:
    """A row of padding: the thread waits for nothing, and a second test decides whether it reads."""
    (finding,) = unwaited(
        "mad.wide.u32 %rd1, %r0, 4, %rd0;\nld.global.u32 %r8, [%rd1+4096];",
        f"{skips}\n@%p5 bra fast;",
        wait("w"),
        f"fast: {ends}\n@%p6 bra done;",
        READ,
        "done:",
    )
    assert finding.confidence is confidence


def test_a_thread_that_no_cta_has_reads_nothing() -> None:
    guard = "mov.u32 %r5, %ntid.x;\nsetp.eq.u32 %p3, %r0, %r5;\n@!%p3 bra on;"
    assert not unwaited(guard, READ, "on:", wait("w"), directives="")
    assert unwaited(guard.replace("%ntid.x", "%nctaid.x"), READ, "on:", wait("w"), directives="")
