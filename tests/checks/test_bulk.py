"""The rules of bulk copies on small kernels; the pages of the rules hold the plain cases."""

from __future__ import annotations

import pytest

from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected
from tests.tools.support import agrees, by_rule, found, kernel, lint, module

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
START = """
    .shared .align 128 .b8 tile[8192];
    .shared .align 8 .b64 full;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    cvta.to.global.u64 %rd1, %rd0;
    setp.eq.u32 %p0, %r0, 0;
    mov.u32 %r1, tile;
    shl.b32 %r2, %r0, 4;
    add.u32 %r3, %r1, %r2;
"""
STORE = "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 2048;"
TENSOR = "@%p0 cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd0, {%r9}], [tile];"
COMMIT = "@%p0 cp.async.bulk.commit_group;"
WRITE = "st.shared.v4.b32 [%r3], {%r0, %r0, %r0, %r0};"
BARRIER = "bar.sync 0;"


def wait(depth: int = 0, read: str = ".read", guard: str = "@%p0 ") -> str:
    return f"{guard}cp.async.bulk.wait_group{read} {depth};"


def text(*body: str, **options: str) -> str:
    return module(kernel("\n".join((START, *body, "ret;")), **options), header=HEADER)


@pytest.mark.parametrize("copy", [STORE, TENSOR])
@pytest.mark.parametrize(
    ("between", "rule"),
    [
        ([COMMIT, BARRIER], "BK002"),
        ([COMMIT, wait(1), BARRIER], "BK002"),
        ([wait(), COMMIT, BARRIER], "BK002"),
        ([COMMIT, BARRIER, wait(guard="@!%p0 ")], "BK002"),
        ([COMMIT, wait(), BARRIER], ""),
        ([COMMIT, wait(read=""), BARRIER], ""),
        ([COMMIT, COMMIT, wait(1), BARRIER], ""),
        ([COMMIT, wait(guard=""), BARRIER], ""),
        ([COMMIT, wait(), "bar.sync 1, 128;"], ""),
        ([COMMIT, wait(), "bar.arrive 1, 256;"], ""),
    ],
)
def test_a_source_is_overwritten(copy: str, between: list[str], rule: str) -> None:
    agrees(text(copy, *between, WRITE + f" // want {rule}"), "BK")


@pytest.mark.parametrize(
    ("use", "wrong"),
    [
        ("@%p0 st.shared.b32 [tile+16], %r0;", True),
        ("@%p0 st.shared.b32 [tile+2044], %r0;", True),
        ("@%p0 st.shared.b32 [tile+2048], %r0;", False),
        ("@%p0 atom.shared.add.u32 %r4, [tile], 1;", True),
        ("@%p0 ld.shared.u32 %r4, [tile];", False),
        ("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r3], {%r0, %r0, %r0, %r0};", True),
        ("@%p0 cp.async.ca.shared.global [tile], [%rd1+8192], 4;", True),
        (
            "@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd1+8192], 64, [full];",
            True,
        ),
    ],
)
def test_what_overwrites_it(use: str, wrong: bool) -> None:
    agrees(text(STORE, COMMIT, use + " // want " + "BK002" * wrong), "BK")


@pytest.mark.parametrize(("before", "after", "rule"), [(wait(1), "", ""), ("", wait(1), "BK002")])
def test_a_stage_filled_by_an_inner_loop_two_iterations_later(before: str, after: str, rule: str) -> None:
    """Two stages; the wait for the older copy is before the loop that refills the stage, or inside it."""
    ring = f"""
    mov.u32 %r20, 0;
outer: {before}
    {BARRIER}
    and.b32 %r21, %r20, 1;
    shl.b32 %r22, %r21, 12;
    add.u32 %r23, %r3, %r22;
    mov.u32 %r24, %r0;
inner: st.shared.v4.b32 [%r23], {{%r0, %r0, %r0, %r0}}; // want {rule}
    {after}
    add.u32 %r23, %r23, 2048;
    add.u32 %r24, %r24, 128;
    setp.lt.u32 %p1, %r24, 256;
    @%p1 bra inner;
    fence.proxy.async.shared::cta;
    {BARRIER}
    add.u32 %r25, %r1, %r22;
    @%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r25], 4096;
    {COMMIT}
    add.u32 %r20, %r20, 1;
    setp.ne.u32 %p2, %r20, %r9;
    @%p2 bra outer;
    {wait()}"""
    agrees(text(ring), "BK")


@pytest.mark.parametrize(
    ("copy", "who", "rule"),
    [
        ("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd0, {%r9}], [tile];", "elect.sync _|%p3, -1;", ""),
        ("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd0, {%r2}], [tile];", "elect.sync _|%p3, -1;", "BK002"),
        ("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd0, {%r9}], [tile];", "setp.lt.u32 %p3, %r0, 0;", "BK002"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [tile], 2048;", "elect.sync _|%p3, -1;", "BK002"),
    ],
)  # fmt: skip
def test_a_warp_stores_and_one_lane_waits(copy: str, who: str, rule: str) -> None:
    """CuTe DSL stores a tile with a whole warp, which ptxas makes one store; kernels of vLLM commit it and wait in one lane."""
    store = f"setp.ge.u32 %p4, %r0, 32;\n@%p4 bra on;\n{who}\n{copy}\n@%p3 cp.async.bulk.commit_group;"
    body = f"{store}\n@%p3 cp.async.bulk.wait_group.read 0;\non: {BARRIER}\n{WRITE} // want {rule}"
    found = [f for f in lint(text(body)).findings if f.rule.id == "BK002" and f.confidence > Confidence.LOW]
    assert len(found) == bool(rule)


def test_threads_that_no_barrier_orders_do_not_count_as_its_own_writes() -> None:
    own = "add.u32 %r4, %r1, %r2;\n@!%p0 st.shared.b32 [%r4], %r0;"
    agrees(text(STORE, COMMIT, own, wait()), "BK")


def test_a_register_may_hold_the_size() -> None:
    sized = "mov.b32 %r5, 4096;\n@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], %r5;"
    write = "@%p0 st.shared.b32 [tile+4092], %r0; // want BK002"
    agrees(text(sized, COMMIT, write), "BK")


def test_one_finding_for_one_wait() -> None:
    """Two copies of a block that lack the same wait, and several writes."""
    second = "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1+2048], [tile+2048], 2048;"
    report = lint(text(STORE, second, COMMIT, BARRIER, WRITE, "st.shared.b32 [%r3+2048], %r0;"))
    (finding,) = by_rule(report, "BK002")
    assert finding.count == 2
    assert "no intervening cp.async.bulk.wait_group" in finding.message
    assert finding.help == "add cp.async.bulk.wait_group.read 0 before this instruction"
    assert [s.message for s in finding.steps] == [
        "cp.async.bulk starts to read it",
        "committed here",
        "overwrites the same bytes",
    ]


@pytest.mark.parametrize(
    ("news", "rule"),
    [
        ("", "BK003"),
        ("fence.proxy.async.shared::cta;", "BK003"),
        ("bar.warp.sync -1;", "BK003"),
        ("shfl.sync.idx.b32 %r4, %r0, 0, 31, -1;", "BK003"),
        (BARRIER, ""),
        ("mbarrier.arrive.shared::cta.b64 _, [full];", ""),
        ("st.volatile.shared.b32 [tile+8000], %r0;", ""),
        ("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;", ""),
    ],
)
def test_which_threads_know_that_the_source_was_read(news: str, rule: str) -> None:
    agrees(text(STORE, COMMIT, BARRIER, wait(guard=""), news, WRITE + f" // want {rule}"), "BK")


@pytest.mark.parametrize(
    ("guard", "label"),
    [("", "low"), ("@%p0 ", "medium")],
)
def test_within_a_warp_it_is_less_certain(guard: str, label: str) -> None:
    """The hardware holds back a warp that waits as one."""
    report = lint(text(STORE, COMMIT, wait(guard=guard), WRITE, directives=".reqntid 32"))
    assert [f.confidence.label for f in by_rule(report, "BK003")] == [label]


@pytest.mark.parametrize(("who", "labels"), [("eq.u32 %p0, %r0, 0", ["medium"]), ("eq.u32 %p0, %r8, 0", [])])
def test_a_box_of_unknown_size_holds_what_warps_without_a_copy_store(who: str, labels: list[str]) -> None:
    """One thread copies the tile of the CTA, or one of each warp the rows of the warp."""
    tensor = "@%p0 cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd0, {%r9}], [%r7];"
    rows = "shr.u32 %r8, %r0, 5;\nmad.lo.u32 %r7, %r8, 128, tile;\nand.b32 %r8, %r0, 31;"
    write = "mad.lo.u32 %r6, %r0, 4, tile;\nst.shared.b32 [%r6], %r0;"
    report = lint(text(f"{rows}\nsetp.{who};", tensor, COMMIT, BARRIER, wait(), "bar.warp.sync -1;", write))
    assert [f.confidence.label for f in by_rule(report, "BK003")] == labels


def test_the_threads_that_may_overwrite_it_are_reported() -> None:
    (finding,) = by_rule(lint(text(STORE, COMMIT, wait(), WRITE)), "BK003")
    assert finding.message.startswith(
        "st.shared of warps 1-3 may overwrite shared memory that cp.async.bulk is still reading"
    )
    assert [s.role for s in finding.steps] == ["thread 0", "thread 0", "warps 1-3"]
    assert "bar.sync" in finding.help


@pytest.mark.parametrize(
    ("between", "use", "wrong"),
    [
        ([COMMIT, wait()], "@%p0 ld.global.u32 %r4, [%rd1];", True),
        ([COMMIT], "@%p0 ld.global.u32 %r4, [%rd1+2044];", True),
        ([COMMIT, wait()], "@%p0 ld.u32 %r4, [%rd1+64];", True),
        ([COMMIT, wait()], "@%p0 atom.global.add.u32 %r4, [%rd1], 1;", True),
        ([COMMIT, wait()], "@%p0 cp.async.ca.shared.global [tile+4096], [%rd1], 4;", True),
        ([COMMIT, wait(read="")], "@%p0 ld.global.u32 %r4, [%rd1];", False),
        ([COMMIT, wait(), wait(read="")], "@%p0 ld.global.u32 %r4, [%rd1];", False),
        ([COMMIT, wait()], "@%p0 ld.global.u32 %r4, [%rd1+2048];", False),
        ([COMMIT, wait()], "@!%p0 ld.global.u32 %r4, [%rd1];", False),
        ([COMMIT, wait()], "@%p0 st.global.u32 [%rd1], %r0;", False),
        ([COMMIT, wait(1, read="")], "@%p0 ld.global.u32 %r4, [%rd1];", True),
    ],
)
def test_a_result_is_read_back(between: list[str], use: str, wrong: bool) -> None:
    agrees(text(STORE, *between, use + " // want " + "BK004" * wrong, wait(read="")), "BK")


REDUCE = "@%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.{}.u32 [%rd1], [%r2], 2048;"


@pytest.mark.parametrize(
    ("first", "second", "wrong"),
    [
        (REDUCE.format("add"), REDUCE.format("add"), False),
        (REDUCE.format("max"), "@%p0 red.global.max.u32 [%rd1], 1;", False),
        (REDUCE.format("add"), REDUCE.format("max"), True),
        (STORE, REDUCE.format("add"), True),
        (REDUCE.format("add"), "@%p0 atom.global.add.u32 %r4, [%rd1], 1;", True),
    ],
)
def test_reductions_of_one_kind_may_come_in_any_order(first: str, second: str, wrong: bool) -> None:
    """CTAs reduce into one accumulator in any order too; what the first reduction has made is not asked for."""
    agrees(text(first, COMMIT, wait(), second + " // want " + "BK004" * wrong, COMMIT, wait(read="")), "BK")


def test_why_a_result_is_not_there() -> None:
    (finding,) = by_rule(lint(text(STORE, COMMIT, wait(), "@%p0 ld.global.u32 %r4, [%rd1];")), "BK004")
    assert "cp.async.bulk.wait_group.read waits until its source has been read" in finding.message
    assert [s.message for s in finding.steps][1] == "waits only until the sources have been read"


RELEASE = "@%p0 red.release.gpu.global.add.u32 [%rd2], %r9;"
RELAXED = "@%p0 st.relaxed.gpu.global.u32 [%rd2], %r9;"
FLAG = "ld.param.u64 %rd2, [pointer];\ncvta.to.global.u64 %rd2, %rd2;\nadd.u64 %rd2, %rd2, 65536;"


@pytest.mark.parametrize("copy", [STORE, TENSOR])
@pytest.mark.parametrize(
    ("between", "early"),
    [
        ([wait(), RELEASE], True),
        ([wait(), "@%p0 st.release.sys.global.u32 [%rd2], %r9;"], True),
        ([wait(), "@%p0 atom.acq_rel.gpu.global.add.u32 %r4, [%rd2], 1;"], True),
        ([wait(), "membar.gl;", RELAXED], True),
        ([wait(), "fence.acq_rel.gpu;", "@%p0 st.volatile.global.u32 [%rd2], %r9;"], True),
        ([wait(), "fence.acq_rel.gpu;", "@%p0 st.volatile.u32 [%rd2], %r9;"], True),
        ([wait(read=""), RELEASE], False),
        ([wait(), wait(read=""), RELEASE], False),
        ([wait(), RELAXED], False),
        ([wait(), "fence.proxy.async;", RELAXED], False),
        ([wait(), "@%p0 red.release.cta.global.add.u32 [%rd2], %r9;"], False),
        ([wait(), "@%p0 red.release.gpu.shared.add.u32 [tile], %r9;"], False),
        ([wait(), "@%p0 st.global.u32 [%rd2], %r9;"], False),
        ([wait(1), RELEASE], False),
    ],
)
def test_a_flag_that_is_set_when_only_the_source_has_been_read(
    copy: str, between: list[str], early: bool
) -> None:
    findings = by_rule(lint(text(FLAG, copy, COMMIT, *between, wait(read=""))), "BK004")
    assert len(findings) == early
    assert all(f.severity.label == "warning" and "sets a flag" in f.message for f in findings)


WRAPPING = """
    sub.u32 %r7, %r9, {before};
    mov.u32 %r4, 0;
    mov.u32 %r5, 0;
loop:
    setp.eq.u32 %p1, %r4, %r9;
    selp.u32 %r8, {first}, %r4, %p1;
    or.b32 %r6, %r8, %r0;
    setp.ne.u32 %p2, %r6, 0;
    @%p2 bra free;
    cp.async.bulk.wait_group.read 0;
free:
    bar.sync 0;
    setp.{without}.u32 %p3, %r8, %r7;
    @%p3 bra next;
    st.shared.v4.b32 [%r3], {{%r0, %r0, %r0, %r0}};
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%p0 bra next;
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 2048;
    cp.async.bulk.commit_group;
next:
    add.u32 %r5, %r5, 1;
    add.u32 %r4, %r8, 1;
    setp.ne.u32 %p4, %r5, 100;
    @%p4 bra loop;
    cp.async.bulk.wait_group 0;
"""
"""A counter that is *first* after the parameter minus 1; a copy in the iterations that are not *without* one."""


@pytest.mark.parametrize(
    ("without", "before", "first", "wrong"),
    [
        ("ne", 1, 0, False),
        ("ne", 1, 1, True),  # the counter is 0 only once
        ("eq", 1, 0, True),  # in all iterations but the last
        ("lt", 2, 0, True),  # in the last two iterations
    ],
)
def test_a_copy_in_the_last_iteration_of_a_cycle_is_waited_for_in_the_first_of_the_next(
    without: str, before: int, first: int, wrong: bool
) -> None:
    source = text(WRAPPING.format(without=without, before=before, first=first))
    assert bool(by_rule(lint(source), "BK002")) is wrong


def test_a_flag_for_an_older_group_is_not_reported() -> None:
    """A wait that leaves the newest group pending precedes the flag, which is for the groups that it covers."""
    loop = ("loop:", STORE, COMMIT, wait(), wait(1, read=""), RELEASE, "@%p1 bra loop;")
    assert not by_rule(lint(text(FLAG, "setp.ne.u32 %p1, %r9, 0;", *loop)), "BK004")


SKIP = "setp.eq.u32 %p1, %r9, 1;\n@%p1 bra skipped;"
"""A branch on a parameter around a wait for the result."""
ONLY_IF = "ld.global.u32 %r4, [%rd2+4];\nsetp.eq.u32 %p2, %r4, 1;\n@%p2 bra done;"
"""A branch on loaded data around what follows, up to the label ``done``."""


@pytest.mark.parametrize(
    ("skip", "between", "confidence"),
    [
        (SKIP, ONLY_IF, "low"),
        (SKIP, "", "medium"),
        ("setp.eq.u32 %p1, %r0, 1;\n@%p1 bra skipped;", ONLY_IF, None),
    ],
)
def test_a_flag_after_a_wait_that_the_launch_skips_is_in_doubt_if_the_launch_may_skip_the_flag(
    skip: str, between: str, confidence: str | None
) -> None:
    """A thread other than the issuing one skips the wait in the last case."""
    body = (STORE, COMMIT, skip, wait(read="", guard=""), "skipped:", wait(), between, RELEASE, "done:")
    findings = by_rule(lint(text(FLAG, *body, wait(read=""))), "BK004")
    assert [f.confidence.label for f in findings] == ([confidence] if confidence else [])


def test_a_copy_for_which_no_wait_is_skipped_is_reported_without_doubt() -> None:
    """The second copy follows the wait that the launch skips, so its path to the flag skips none."""
    body = (SKIP, wait(read="", guard=""), STORE, COMMIT, "skipped:", wait(), ONLY_IF, RELEASE, "done:")
    (finding,) = by_rule(lint(text(FLAG, STORE, COMMIT, *body, wait(read=""))), "BK004")
    assert finding.confidence.label == "medium"


TICKET = "@%p0 atom.global.add.u32 %r4, [%rd2], 1;"
SLOT = "mad.wide.u32 %rd3, %r4, 16, %rd2;"


@pytest.mark.parametrize(
    ("atomic", "after", "flag"),
    [
        (TICKET, (SLOT, "@%p0 st.release.sys.global.u32 [%rd3], %r9;"), "st"),
        (TICKET, (SLOT, "@%p0 st.global.u32 [%rd3], %r9;"), None),
        (TICKET, (SLOT, "@%p0 ld.global.u32 %r5, [%rd3];"), "atom"),
        (TICKET, ("@%p0 st.global.u32 [%rd2+4], %r4;",), "atom"),
        (TICKET.replace("atom.", "atom.acq_rel.gpu."), (SLOT, "@%p0 st.global.u32 [%rd3], %r9;"), "atom"),
    ],
)
def test_a_relaxed_atomic_operation_that_reserves_a_slot_is_not_a_flag(
    atomic: str, after: tuple[str, ...], flag: str | None
) -> None:
    source = text(FLAG, STORE, COMMIT, wait(), "membar.gl;", atomic, *after, wait(read=""))
    lines = [source.splitlines()[line - 1] for rule, line in found(lint(source)) if rule == "BK004"]
    assert [line.split()[1].partition(".")[0] for line in lines] == ([flag] if flag else [])


def test_a_copy_in_no_group() -> None:
    (finding,) = by_rule(lint(text(STORE, wait())), "BK005")
    assert (finding.severity.label, finding.message) == (
        "warning",
        "cp.async.bulk is never committed to a group, as no cp.async.bulk.commit_group follows: wait_group does not wait for it",
    )
    (finding,) = by_rule(lint(text(STORE, STORE)), "BK005")
    assert (finding.severity.label, finding.count) == ("info", 2)
    (finding,) = by_rule(lint(text(STORE, STORE), selected=Selected(strict=True)), "BK005")
    assert finding.severity is Severity.WARNING
    assert not by_rule(lint(text(STORE, COMMIT)), "BK005")
    assert not by_rule(lint(text(STORE, "cp.async.bulk.commit_group;")), "BK005")


@pytest.mark.parametrize(
    ("after", "end"),
    [
        ((), "no cp.async.bulk.wait_group follows"),
        ((wait(),), ""),
        ((wait(read=""),), ""),
        ((wait(1),), "no later wait covers it"),
        ((wait(guard="@!%p0 "),), "no later wait covers it"),
        ((wait(guard=""),), ""),
        (
            ("setp.eq.s32 %p1, %r9, 0;\n@%p1 bra skip;", wait(), "skip:"),
            "no cp.async.bulk.wait_group follows",
        ),
        # What overwrites the source is the defect.
        ((BARRIER, WRITE), "cp.async.bulk may still be reading"),
    ],
)
def test_by_the_letter_the_source_is_read_before_the_thread_ends(after: tuple[str, ...], end: str) -> None:
    """Shared memory lives as long as the CTA."""
    source = text(STORE, COMMIT, *after)
    messages = [
        (f.severity, f.message) for f in by_rule(lint(source, selected=Selected(strict=True)), "BK002")
    ]
    assert [end in message for _, message in messages] == ([True] if end else [])
    default = [(f.severity, f.message) for f in by_rule(lint(source), "BK002")]
    assert default == [one for one in messages if one[0] is Severity.ERROR]
    assert len(default) == (BARRIER in after)


def test_a_missing_commit_is_reported_once() -> None:
    """By what goes wrong, where something does."""
    report = lint(text(STORE, wait(), BARRIER, WRITE))
    assert {f.rule.id for f in report.findings if f.rule.family == "bulk"} == {"BK002"}


LOAD = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [{}], [%rd1], 64, [full];"
REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [{}], 64;"


@pytest.mark.parametrize(
    ("copy", "several"),
    [
        (LOAD.format("tile"), True),
        (LOAD.format("%r3"), False),
        (REDUCE.format("tile"), True),
        (REDUCE.format("%r3"), False),
        (STORE.replace("@%p0 ", ""), True),
        (STORE.replace("@%p0 ", "").replace("[tile]", "[%r3]"), False),
        ("@%p0 " + LOAD.format("tile"), False),
        ("elect.sync _|%p1, -1;\n@%p1 " + LOAD.format("tile"), False),
        ("setp.lt.u32 %p1, %r0, 32;\n@%p1 " + LOAD.format("tile"), True),
        ("setp.ne.u32 %p1, %r9, 0;\n@%p1 " + LOAD.format("tile"), True),
        (
            "mad.wide.u32 %rd2, %r0, 4, %rd1;\nld.global.u32 %r4, [%rd2];\nsetp.eq.u32 %p1, %r4, 0;\n@%p1 "
            + LOAD.format("tile"),
            False,
        ),
        ("cp.async.bulk.prefetch.L2.global [%rd1], 64;", False),
    ],
)
def test_the_same_copy_by_several_threads(copy: str, several: bool) -> None:
    assert len(by_rule(lint(text(copy)), "BK006")) == several


@pytest.mark.parametrize(
    ("copy", "severity", "effect"),
    [
        (STORE.replace("@%p0 ", ""), "info", "only once"),
        (TENSOR.replace("@%p0 ", ""), "info", "only once"),
        (LOAD.format("tile"), "warning", "issues the whole copy"),
        (REDUCE.format("tile"), "error", "applies the whole reduction"),
        (REDUCE.format("tile").replace(".add", ".max"), "warning", "issues the whole copy"),
    ],
)
def test_the_severity_depends_on_what_repeated_copies_do(copy: str, severity: str, effect: str) -> None:
    (finding,) = by_rule(lint(text(copy)), "BK006")
    assert finding.severity.label == severity
    assert effect in finding.message


@pytest.mark.parametrize(("directives", "several"), [(".maxntid 1, 1, 1", False), (".reqntid 2", True)])
def test_a_copy_by_all_threads_that_there_are(directives: str, several: bool) -> None:
    """ThunderKittens gathers tiles by CTAs of one thread."""
    assert len(by_rule(lint(text(LOAD.format("tile"), directives=directives)), "BK006")) == several


MULTICAST = (
    "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
    "[tile], [%rd1], 64, [full], %h0;"
)


@pytest.mark.parametrize(
    ("mask", "directive", "message"),
    [
        ("mov.b16 %h0, 0;", "", "selects no CTA"),
        (
            "mov.b16 %h0, 8;",
            ".reqnctapercluster 2, 1, 1",
            "selects CTA 3, but a cluster of this kernel has 2",
        ),
        ("mov.b16 %h0, 2;", ".reqnctapercluster 1", "selects CTA 1, but a cluster of this kernel has 1"),
        ("cvt.u16.u32 %h0, %r9;\nor.b16 %h0, %h0, 16;", ".reqnctapercluster 4", "selects CTA 4"),
        ("mov.b16 %h0, 0x10;", ".maxclusterrank 4", "has 4 (.maxclusterrank 4)"),
        ("mov.b16 %h0, 0xF;", ".reqnctapercluster 2, 2, 1", ""),
        ("cvt.u16.u32 %h0, %r9;", ".reqnctapercluster 2", ""),
        ("mov.b16 %h0, 0xFFFF;", "", ""),
    ],
)
def test_masks(mask: str, directive: str, message: str) -> None:
    hits = by_rule(
        lint(text(".reg .b16 %h<2>;", mask, MULTICAST, directives=f".reqntid 128\n{directive}")), "BK007"
    )
    assert [message in f.message for f in hits] == [True] * bool(message)


@pytest.mark.parametrize(
    ("mask", "size", "message"),
    [
        ("0x20000", 32, ""),
        ("0x20000", 2, "selects CTA 17"),
        ("0", 2, "selects no CTA"),
        ("3", 2, ""),
    ],
)
def test_masks_of_32_ctas(mask: str, size: int, message: str) -> None:
    code = (
        f"mbarrier.complete_tx.relaxed.cluster.shared::cluster.multicast::cluster::32b.b64 [%r3], 16, {mask};"
    )
    header = ".version 9.5\n.target sm_107a\n.address_size 64\n"
    directives = f".reqntid 128\n.explicitcluster\n.reqnctapercluster {size}"
    hits = by_rule(lint(module(kernel(f"{code}\nret;", directives=directives), header=header)), "BK007")
    assert [message in f.message for f in hits] == [True] * bool(message)


@pytest.mark.parametrize(
    ("code", "own"),
    [
        (
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [tile], [tile+64], 64, [full];",
            1,
        ),
        (
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [tile], 16, [full];",
            1,
        ),
        (
            "mapa.shared::cluster.u32 %r4, %r1, 1;\n"
            + "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r4], [tile], 64, [full];",
            0,
        ),
        (
            "shl.b32 %r4, %r9, 24;\nadd.u32 %r4, %r4, %r1;\n"
            + "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r4], [tile], 64, [full];",
            0,
        ),
        (
            "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [tile], %r0, [full];",
            1,
        ),
        (
            "mapa.shared::cluster.u32 %r4, %r1, 1;\n"
            + "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r4], %r0, [full];",
            1,
        ),
        ("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [tile], %r0, [full];", 0),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 64, [full];", 0),
    ],
)
def test_a_destination_in_the_own_cta(code: str, own: int) -> None:
    assert len(by_rule(lint(text("setp.ne.u32 %p1, %r0, 0;\n@%p1 ret;", code)), "BK008")) == own


@pytest.mark.parametrize(("target", "slow"), [("sm_90", True), ("sm_90a", False), ("sm_120a", True)])
def test_where_multicast_is_slow(target: str, slow: bool) -> None:
    code = text(".reg .b16 %h<2>;\nmov.b16 %h0, 3;", MULTICAST, MULTICAST).replace("sm_90a", target)
    code = code.replace(".version 8.6", ".version 8.7")
    hits = by_rule(lint(code), "BK009")
    assert len(hits) == slow
    if slow:
        assert hits[0].count == 2
        assert bool(hits[0].help) == (target == "sm_90")
        assert ("calls a routine of the driver" in hits[0].message) == (target == "sm_120a")


CLUSTER_LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{}], [%rd1], 64, [{}];"
TILE = "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [{}], [%rd0, {{%r9}}], [{}];"
RING = """
mov.u32 %r20, 0;
mov.u32 %r21, full;
mov.u32 %r22, %r1;
again:
{}
add.u32 %r20, %r20, 1;
and.b32 %r20, %r20, 3;
add.u32 %r22, %r22, 64;
shl.b32 %r23, %r20, 10;
add.u32 %r23, %r23, %r1;
setp.lt.u32 %p1, %r22, %r9;
@%p1 bra again;
"""
ROUNDED = "mov.u32 %r20, tile;\nadd.u32 %r20, %r20, 127;\nand.b32 %r20, %r20, -128;\n"
CHOSEN = "selp.b32 %r20, %r1, %r3, %p0;\n"
PEER = "mapa.shared::cluster.u32 %r20, {}, 1;\n"
PAIRED = "mov.u32 %r20, %cluster_ctarank;\nshl.b32 %r20, %r20, 24;\nadd.u32 %r20, %r20, %r1;\n"
UNKNOWN = "ld.shared.u32 %r20, [tile];\n"


@pytest.mark.parametrize(
    ("code", "fixed"),
    [
        (CLUSTER_LOAD.format("tile", "full"), 1),
        (TILE.format("tile", "full"), 1),
        (CLUSTER_LOAD.format("tile", "full") + TILE.format("tile", "full"), 2),
        (RING.format(CLUSTER_LOAD.format("%r22", "%r21")), 1),
        (ROUNDED + CLUSTER_LOAD.format("%r20", "full"), 1),
        (CHOSEN + CLUSTER_LOAD.format("%r20", "full"), 1),
        (PEER.format("%r1") + CLUSTER_LOAD.format("%r20", "full"), 0),
        ("mov.u32 %r21, full;\n" + PEER.format("%r21") + CLUSTER_LOAD.format("tile", "%r20"), 0),
        (PAIRED + CLUSTER_LOAD.format("%r20", "full"), 0),
        (UNKNOWN + CLUSTER_LOAD.format("%r20", "full"), 0),
        ("add.u32 %r20, %r1, 16777216;\n" + CLUSTER_LOAD.format("%r20", "full"), 0),
        ("and.b32 %r20, %r1, -16777217;\n" + CLUSTER_LOAD.format("%r20", "full"), 0),
        (UNKNOWN + "selp.b32 %r20, %r20, %r1, %p0;\n" + CLUSTER_LOAD.format("%r20", "full"), 0),
    ],
)
@pytest.mark.parametrize("target", ["sm_120", "sm_121a", "sm_100a"])
def test_where_a_load_into_the_cluster_calls_the_driver(code: str, fixed: int, target: str) -> None:
    source = text(code).replace("sm_90a", target).replace(".version 8.6", ".version 9.1")
    hits = by_rule(lint(source), "BK012")
    assert len(hits) == (target != "sm_100a")
    for hit in hits:
        assert hit.count == max(fixed, 1)
        assert [len(fix.edits) for fix in hit.fixes] == [fixed] * bool(fixed)
        assert all(fix.safe for fix in hit.fixes)


@pytest.mark.parametrize(
    "copy",
    [
        CLUSTER_LOAD.format("tile", "full").replace("::cluster", "::cta"),
        TILE.format("tile", "full").replace("::cluster", "::cta"),
        MULTICAST,
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [tile], 64, [full];",
        STORE,
        TENSOR,
    ],
)
def test_what_sm_120_implements_or_has_no_other_form_for_is_not_reported(copy: str) -> None:
    source = text(".reg .b16 %h<2>;\nmov.b16 %h0, 3;", copy).replace("sm_90a", "sm_120a")
    assert by_rule(lint(source.replace(".version 8.6", ".version 8.7")), "BK012") == []


@pytest.mark.parametrize(
    ("issued", "counts", "rule"),
    [
        ("1", "add.u32 %r20, %r20, 1;\nover:", ""),
        ("1", "over:", "BK002"),  # the counter does not count the copy
        ("2", "add.u32 %r20, %r20, 1;\nover:", "BK002"),  # after the first copy it is still too small
        ("1", "add.u32 %r20, %r20, -1;\nover:", "BK002"),
    ],
)
def test_a_wait_under_the_count_of_issued_copies_is_not_skipped_while_one_is_in_flight(
    issued: str, counts: str, rule: str
) -> None:
    ring = f"""
    mov.u32 %r20, 0;
    mov.u32 %r21, 0;
outer:
    ld.global.u32 %r22, [%rd1+65536];
    setp.eq.u32 %p3, %r22, 0;
    setp.lt.s32 %p4, %r20, {issued};
    or.pred %p5, %p3, %p4;
    @%p5 bra skipped;
    {wait()}
    {BARRIER}
skipped:
    @%p3 bra over;
    {WRITE} // want {rule}
    fence.proxy.async.shared::cta;
    {BARRIER}
    {STORE}
    {COMMIT}
    {counts}
    {BARRIER}
    add.u32 %r21, %r21, 1;
    setp.ne.u32 %p2, %r21, %r9;
    @%p2 bra outer;
    {wait()}"""
    agrees(text(ring), "BK")


@pytest.mark.parametrize(
    ("between", "counts", "rule"),
    [
        ("", "add.u32 %r20, %r20, 1;", ""),
        ("@%p6 bra few;\nadd.u32 %r20, %r20, 1;\nfew:", "add.u32 %r20, %r20, 1;", ""),
        ("@%p6 bra few;\nadd.u32 %r20, %r20, -1;\nfew:", "add.u32 %r20, %r20, 1;", "BK002"),
        ("@%p6 bra few;\nmov.u32 %r20, %r22;\nfew:", "add.u32 %r20, %r20, 1;", "BK002"),
        ("@%p6 bra few;\nadd.u32 %r20, %r20, 1;\nfew:", "", "BK002"),
    ],
)
def test_a_count_that_branches_advance_before_the_copy_is_not_below_its_start(
    between: str, counts: str, rule: str
) -> None:
    ring = f"""
    mov.u32 %r20, 0;
    mov.u32 %r21, 0;
outer:
    ld.global.u32 %r22, [%rd1+65536];
    setp.eq.u32 %p6, %r22, 1;
    setp.lt.s32 %p4, %r20, 1;
    @%p4 bra skipped;
    {wait()}
    {BARRIER}
skipped:
    {WRITE} // want {rule}
    fence.proxy.async.shared::cta;
    {BARRIER}
    {between}
    {STORE}
    {COMMIT}
    {counts}
    {BARRIER}
    add.u32 %r21, %r21, 1;
    setp.ne.u32 %p2, %r21, %r9;
    @%p2 bra outer;
    {wait()}"""
    agrees(text(ring), "BK")


@pytest.mark.parametrize(("relation", "safe"), [("ne", True), ("gt", True), ("eq", False)])
def test_the_guard_of_a_wait_has_the_value_of_its_iteration(relation: str, safe: bool) -> None:
    body = f"""
    mov.u32 %r8, 0;
LOOP:
    setp.{relation}.s32 %p1, %r8, 0;
    and.pred %p2, %p0, %p1;
    {wait(guard="@%p2 ")}
    {BARRIER}
    {WRITE}
    fence.proxy.async.shared::cta;
    {BARRIER}
    {STORE}
    {COMMIT}
    add.s32 %r8, %r8, 1;
    setp.lt.s32 %p3, %r8, %r9;
    @%p3 bra LOOP;
    {wait()}
    ret;"""
    source = module(kernel(f"{START}\n{body}", directives=".reqntid 128"), header=HEADER)
    assert bool(by_rule(lint(source), "BK002")) is not safe
