"""Collective instructions under conditions that split their threads; what is not known is silent."""

from __future__ import annotations

import pytest

from tclint.findings.scales import Confidence
from tests.tools.support import HEADER, agrees, by_rule, kernel, lint, model, module, value

HOPPER = HEADER.replace("sm_100a", "sm_90a")
FENCE = "wgmma.fence.sync.aligned;"  # needs its warpgroup
WAIT = "tcgen05.wait::ld.sync.aligned;"  # needs its warp
TID = "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; shr.u32 %r3, %r1, 7;\n"


def text(body: str, threads: int) -> str:
    header = HOPPER if "wgmma" in body else HEADER
    return module(kernel(f"{TID}{body}\nret;", directives=f".reqntid {threads}"), header=header)


def threaded(last: str) -> str:
    """One thread goes past a barrier at once; the others are sent past it by what %p2 says."""
    want = " // want CV001" if last != "%p2" else ""
    return f"""
    ld.param.u32 %r4, [number];
    setp.eq.u32 %p2, %r4, 7;
    setp.eq.u32 %p3, %r4, 9;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra meet;
    @{last} bra reset;
    mov.u32 %r9, 1;
    bra over;
reset:
    mov.u32 %r9, 0;
meet:
    @!%p2 bra over;
    bar.sync 0;{want}
over:"""


TWO_VOTE = "ld.u32 %r4, [%rd1];\nsetp.ge.u32 %p1, %r4, 2;\n@%p1 bra L;\nvote.sync.any.pred %p2, %p3, 3;"
CASES: dict[str, str] = {
    "everywhere": f"{FENCE}\nbar.sync 0;",
    "one thread": f"setp.eq.s32 %p1, %r1, 0;\n@%p1 {WAIT} // want CV002",
    "half a warp": f"setp.lt.u32 %p1, %r1, 16;\n@%p1 {WAIT} // want CV001",
    "half a warp by a branch": f"setp.lt.u32 %p1, %r1, 16;\n@!%p1 bra L;\n{WAIT} // want CV001\nL: mov.u32 %r9, 0;",
    "a branch that goes where a later one sends all": threaded("%p2"),
    "a branch that goes where no later one sends the others": threaded("%p3"),
    "one warp": f"setp.eq.s32 %p1, %r2, 1;\n@%p1 {WAIT}",
    "one warp of a warpgroup": f"setp.eq.s32 %p1, %r2, 1;\n@%p1 {FENCE} // want CV004",
    "one warpgroup": f"setp.eq.s32 %p1, %r3, 1;\n@%p1 bra L;\n{FENCE}\nL: mov.u32 %r9, 0;",
    "the elected lane": f"elect.sync _|%p1, -1;\n@%p1 {WAIT} // want CV002",
    "the elected lane by a branch": f"elect.sync _|%p1, -1;\n@!%p1 bra L;\n{WAIT} // want CV002\nL: mov.u32 %r9, 0;",
    "after the elected lane came back": f"elect.sync _|%p1, -1;\n@!%p1 bra L;\nmov.u32 %r9, 0;\nL: {WAIT}",
    "the elected lane of one warp, and data": (
        f"elect.sync _|%p1, -1;\nld.param.u32 %r4, [number]; setp.eq.and.s32 %p2, %r4, 0, %p1;\n@%p2 {WAIT} // want CV002"
    ),
    "a parameter": f"ld.param.u32 %r4, [number]; setp.eq.s32 %p1, %r4, 0;\n@%p1 {WAIT}",
    "loaded by all from one place": (
        f"ld.param.u64 %rd1, [pointer]; ld.global.u32 %r4, [%rd1]; setp.eq.s32 %p1, %r4, 0;\n@%p1 {WAIT}"
    ),
    "what all load from one place, two lanes to vote": f"ld.param.u64 %rd1, [pointer];\n{TWO_VOTE} // want CV006\nL: mov.u32 %r9, 0;",
    "what each thread has in memory of its own, two lanes to vote": (
        f".local .align 4 .b8 own[4];\nmov.u64 %rd1, own;\ncvta.local.u64 %rd1, %rd1;\nst.u32 [%rd1], %r1;\n{TWO_VOTE}\n"
        "L: mov.u32 %r9, 0;"
    ),
    "the thread that arrived first": (
        f"ld.param.u64 %rd1, [pointer]; atom.global.add.u32 %r4, [%rd1], 1; setp.eq.s32 %p1, %r4, 0;\n@%p1 {WAIT} // want CV001"
    ),
    "a vote": f"setp.eq.s32 %p2, %r1, 5; vote.sync.any.pred %p1, %p2, -1;\n@%p1 {WAIT}",
    "all threads, said in a complicated way": f"and.b32 %r4, %r1, 31; setp.lt.u32 %p1, %r4, 32;\n@%p1 {WAIT}",
    "a lane shuffled to all": f"shfl.sync.idx.b32 %r4, %r2, 0, 31, -1; setp.eq.s32 %p1, %r4, 0;\n@%p1 {WAIT}",
    "a part of a warp left": f"setp.ge.u32 %p1, %r1, 100;\n@%p1 exit;\n{WAIT} // want CV003",
    "whole warps left": f"setp.ge.u32 %p1, %r1, 96;\n@%p1 exit;\n{WAIT}",
    "those left whose index is past a parameter": (
        f"ld.param.u32 %r4, [number]; setp.ge.u32 %p1, %r1, %r4;\n@%p1 exit;\n{WAIT} // want CV003"
    ),
    "a barrier after an exit": "setp.ge.u32 %p1, %r1, 100;\n@%p1 exit;\nbar.sync 0;",
    "a barrier after a branch to the end": "setp.ge.u32 %p1, %r1, 100;\n@%p1 bra L;\nbar.sync 0;\nL: ret;",
    "a barrier that some bypass, and then store": (
        "setp.ge.u32 %p1, %r1, 100;\n@%p1 bra L;\nbar.sync 0; // want CV001\nL: st.shared.u32 [%r1], %r1;"
    ),
    "half a warp of a warpgroup": f"setp.lt.u32 %p1, %r1, 16;\n@%p1 {FENCE} // want CV001",
    "three warps of a warpgroup left": f"setp.ge.u32 %p1, %r1, 96;\n@!%p1 {FENCE} // want CV004",
    "16-bit arithmetic": f"cvt.u16.u32 %h1, %r1; setp.lt.u16 %p1, %h1, 16;\n@%p1 {WAIT} // want CV001",
    "16-bit arithmetic that agrees": f"cvt.u16.u32 %h1, %r1; shr.u16 %h1, %h1, 5; setp.lt.u16 %p1, %h1, 2;\n@%p1 {WAIT}",
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_convergence(case: str) -> None:
    agrees(text(CASES[case], 256), "CV")


def test_a_message_names_a_parameter_without_its_kernel() -> None:
    bound = "ld.param.u32 %r4, [k_param_1]; setp.ge.u32 %p1, %r1, %r4; @%p1 exit;"
    parameters = ".param .u64 k_param_0, .param .u32 k_param_1"
    body = kernel(f"{TID}{bound}\n{WAIT}\nret;", directives=".reqntid 256", parameters=parameters)
    (finding,) = by_rule(lint(module(body, header=HEADER)), "CV003")
    assert finding.message.endswith(" if param_1 is not a multiple of 32")


def test_a_single_thread_of_a_cta_of_one_warp() -> None:
    agrees(text(f"setp.eq.s32 %p1, %r2, 0;\n@%p1 {WAIT}", 32), "CV")


def test_a_finding_names_the_condition_and_the_instruction() -> None:
    report = lint(text(CASES["half a warp by a branch"], 128))
    (finding,) = by_rule(report, "CV001")
    assert "tcgen05.wait::ld" in finding.message
    assert len(finding.steps) == 2
    assert finding.entry == "k"


def test_several_instructions_under_one_condition_are_one_finding() -> None:
    body = f"setp.lt.u32 %p1, %r1, 16;\n@!%p1 bra L;\n{WAIT}\n{WAIT}\n{WAIT}\nL: mov.u32 %r9, 0;"
    report = lint(text(body, 128))
    assert len(by_rule(report, "CV001")) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "setp.ge.u32 %p1, %r1, 100; @%p1 exit;",
            "high: {} needs all threads of its warp, but lanes 4-31 of warp 3 ",
        ),
        (
            "ld.param.u32 %r4, [number]; mad.lo.s32 %r6, %ctaid.x, %ntid.x, %r1; setp.ge.s32 %p1, %r6, %r4; @%p1 ret;",
            "medium: {} needs all threads of its warp, but threads whose index is past a bound ",
        ),
        ("ld.param.u32 %r4, [number]; setp.ge.s32 %p1, %r2, %r4; @%p1 ret;", ""),
    ],
)
def test_threads_that_left(body: str, says: str) -> None:
    found = by_rule(lint(text(f"{body}\n{WAIT}", 128)), "CV003")
    assert len(found) == bool(says)
    if found:
        message = f"{found[0].confidence.label}: {found[0].message}"
        bound = " if number is not a multiple of 32" if "past a bound" in says else ""
        assert message == says.format("tcgen05.wait::ld") + "have left the kernel before it" + bound
        assert found[0].steps[0].message.endswith("(%p1)")


@pytest.mark.parametrize(
    ("test", "splits"),
    [
        ("setp.ge.s32 %p1, %r4, 1000;", True),
        ("setp.ge.s32 %p1, %r4, 1024;", False),
        ("setp.gt.s32 %p1, %r4, 1023;", False),
        ("setp.gt.s32 %p1, %r4, 1024;", True),
        ("add.s32 %r4, %r4, 24; setp.ge.s32 %p1, %r4, 1048;", False),
        ("add.s32 %r4, %r4, 24; setp.ge.s32 %p1, %r4, 1024;", True),
        ("setp.eq.s32 %p1, %r4, 1000;", True),
    ],
)
@pytest.mark.parametrize(
    ("instructions", "rule"), [(f"@%p1 ret;\n{WAIT}", "CV003"), (f"@%p1 bra L;\n{WAIT}\nL:", "CV001")]
)
def test_a_constant_bound_splits_the_warp_in_which_it_lies(
    test: str, splits: bool, instructions: str, rule: str
) -> None:
    index = "mov.u32 %r5, %ctaid.x; mad.lo.s32 %r4, %r5, 128, %r1;"
    found = by_rule(lint(text(f"{index} {test} {instructions} mov.u32 %r9, 0;", 128)), rule)
    assert [f.confidence for f in found if f.confidence > Confidence.LOW] == [Confidence.MEDIUM] * splits


PASCAL = ".version 6.0\n.target sm_60\n.address_size 64\n"


@pytest.mark.parametrize(
    ("collective", "rules"),
    [
        ("vote.any.pred %p2, %p3;", set()),
        ("vote.ballot.b32 %r9, %p3;", set()),
        ("shfl.idx.b32 %r9, %r1, 0, 31;", set()),
        ("vote.sync.any.pred %p2, %p3, -1;", {"CV005"}),
        ("shfl.sync.idx.b32 %r9, %r1, 0, 31, -1;", {"CV005"}),
        ("bar.sync 0;", {"CV001"}),
    ],
)
def test_a_vote_without_sync_is_about_the_active_lanes(collective: str, rules: set[str]) -> None:
    body = f"{TID}setp.ge.u32 %p1, %r1, 16;\n@%p1 bra L;\n{collective}\nL:\nbar.warp.sync -1;\nret;"
    report = lint(module(kernel(body, directives=".reqntid 32"), header=PASCAL))
    assert {f.rule.id for f in report.findings if f.rule.id.startswith(("CV", "PX"))} == rules


def test_a_vote_without_sync_need_not_be_uniform() -> None:
    """Lanes that vote apart may have different results, so the two paths do not exclude each other."""
    for vote, scope in (("vote.any.pred %p2, %p3;", "UNKNOWN"), ("vote.sync.any.pred %p2, %p3, -1;", "WARP")):
        kernel = model(f"{vote}\nend:\nret;")
        assert kernel.values.uniformity(value(kernel, "%p2")).name == scope


LOW, HIGH = "setp.lt.u32 %p1, %r1, 16;", "setp.ge.u32 %p1, %r1, 16;"  # %p1 of lanes 0-15, and of the others
FALLS, GOES = "{} bra L;\n{}\nL: mov.u32 %r9, 0;", "{} bra L;\nmov.u32 %r9, 0;\nbra end;\nL: {}\nend:"
BELOW, ABOVE = "lanes 0-15 of warp 0", "lanes 16-31 of warp 0"


@pytest.mark.parametrize(
    ("predicate", "branch", "where", "reaching"),
    [
        # the instruction is where the branch falls through, or where it leads; both senses of the guard
        (LOW, "@!%p1", FALLS, BELOW),
        (LOW, "@%p1", FALLS, ABOVE),
        (HIGH, "@!%p1", FALLS, ABOVE),
        (HIGH, "@%p1", FALLS, BELOW),
        (LOW, "@!%p1", GOES, ABOVE),
        (LOW, "@%p1", GOES, BELOW),
        (HIGH, "@!%p1", GOES, BELOW),
        (HIGH, "@%p1", GOES, ABOVE),
    ],
)
def test_the_branch_names_the_lanes_that_skip_the_instruction(
    predicate: str, branch: str, where: str, reaching: str
) -> None:
    code = text(f"{predicate}\n{where.format(branch, WAIT)}", 32)
    (finding,) = by_rule(lint(code), "CV001")
    assert finding.message == (
        "tcgen05.wait::ld needs all threads of its warp, but it is control-dependent on a divergent branch, "
        f"from which only {reaching} reach it"
    )
    skipping = ABOVE if reaching == BELOW else BELOW
    assert [step.message for step in finding.steps] == [
        f"{skipping} skip tcgen05.wait::ld, {reaching} continue to it (%p1)",
        "needs all threads of its warp",
    ]


@pytest.mark.parametrize(
    ("predicate", "guard", "admitted"),
    [
        (LOW, "@%p1", BELOW),
        (LOW, "@!%p1", ABOVE),
        (HIGH, "@%p1", ABOVE),
        (HIGH, "@!%p1", BELOW),
    ],
)
def test_the_guard_names_the_lanes_that_it_admits(predicate: str, guard: str, admitted: str) -> None:
    (finding,) = by_rule(lint(text(f"{predicate}\n{guard} {WAIT}", 32)), "CV001")
    assert finding.message.endswith(f"but its guard admits only {admitted}")


@pytest.mark.parametrize(
    ("rule", "body", "reaches", "at_the_branch"),
    [
        (
            "CV001",
            "setp.eq.u32 %p1, %r2, 1; @%p1 bra L; bar.sync 0; L: mov.u32 %r9, 0;",
            "only warps 0, 2-3 reach it",
            "warp 1 skips bar.sync, warps 0, 2-3 continue to it (%p1)",
        ),
        (
            "CV001",
            "setp.eq.u32 %p1, %r2, 1; @%p1 bra L; bra M; L: bar.sync 0; M: mov.u32 %r9, 0;",
            "only warp 1 reaches it",
            "warps 0, 2-3 skip bar.sync, warp 1 continues to it (%p1)",
        ),
        (
            "CV002",
            f"elect.sync _|%p1, -1; @!%p1 bra L; {WAIT} L: mov.u32 %r9, 0;",
            "only lane 0 of warps 0-3 reaches it",
            "lanes 1-31 of warps 0-3 skip tcgen05.wait::ld, lane 0 of warps 0-3 continues to it (%p1)",
        ),
        (
            "CV002",
            (
                "ld.param.u32 %r4, [number]; elect.sync _|%p1, -1; setp.eq.and.s32 %p2, %r4, 0, %p1;\n"
                f"@!%p2 bra L; {WAIT} L: mov.u32 %r9, 0;"
            ),
            "at most lane 0 of warps 0-3 reaches it",
            "all other threads skip tcgen05.wait::ld, at most lane 0 of warps 0-3 continues to it (%p2)",
        ),
        (
            "CV004",
            f"setp.ge.u32 %p1, %r1, 96; @!%p1 bra L; bra M; L: {FENCE} M: mov.u32 %r9, 0;",
            "only warps 0-2 reach it",
            "warp 3 skips wgmma.fence, warps 0-2 continue to it (%p1)",
        ),
        (
            "CV004",
            f"setp.ge.u32 %p1, %r1, 96; @%p1 bra L; {FENCE} L: mov.u32 %r9, 0;",
            "only warps 0-2 reach it",
            "warp 3 skips wgmma.fence, warps 0-2 continue to it (%p1)",
        ),
        (
            "CV004",
            f"setp.ge.u32 %p1, %r1, 96; @%p1 exit; {FENCE}",
            "only warps 0-2 reach it",
            "warp 3 exits, warps 0-2 continue (%p1)",
        ),
    ],
)
def test_which_threads_take_the_branch_and_which_reach_the_instruction(
    rule: str, body: str, reaches: str, at_the_branch: str
) -> None:
    (finding,) = by_rule(lint(text(body, 128)), rule)
    assert finding.message.endswith(f"control-dependent on a divergent branch, from which {reaches}")
    assert finding.steps[0].message == at_the_branch


@pytest.mark.parametrize(
    ("directives", "body", "says"),
    [
        (".reqntid 96", FENCE, "the CTA has 96 threads"),
        (".maxntid 96", FENCE, "the CTA has 96 threads"),
        (".reqntid 160", FENCE, "the last warpgroup of a CTA of 160 threads has only 32 threads"),
        (".maxntid 160", FENCE, "the last warpgroup of a CTA of 160 threads has only 32 threads"),
        (".maxntid 160", f"mov.u32 %r4, %ntid.x; {FENCE}", ""),  # the launch may have 128
        (".reqntid 160", f"setp.lt.u32 %p1, %r1, 128; @%p1 {FENCE}", ""),
        (".reqntid 160", f"ld.param.u32 %r4, [number]; setp.eq.u32 %p1, %r4, %r2; @%p1 {FENCE}", ""),
        (
            ".reqntid 96",
            f"ld.param.u32 %r4, [number]; setp.eq.u32 %p1, %r4, 1; @%p1 {FENCE}",
            "the CTA has 96 threads",
        ),
        ("", FENCE, ""),
    ],
)
def test_a_cta_without_whole_warpgroups(directives: str, body: str, says: str) -> None:
    found = by_rule(lint(module(kernel(f"{TID}{body}\nret;", directives=directives), header=HOPPER)), "CV004")
    assert len(found) == bool(says)
    assert not found or says in found[0].message
    assert not found or (found[0].confidence.label == "medium") == (".maxntid 160" in directives)


WHOLE = "setp.lt.u32 %p1, %r1, 64; @%p1 bra L; bar.sync 0; L: mov.u32 %r9, 0; bar.sync 1;"


@pytest.mark.parametrize(
    ("directives", "size", "confidence"),
    [
        (".reqntid 128", "", ["high"]),
        (".maxntid 128", "", ["medium"]),
        (".maxntid 128, 1, 1", "mov.u32 %r4, %ntid.x;", ["medium"]),
        ("", "", ["medium"]),  # a launch of 64 threads executes no bar.sync 0
    ],
)
def test_a_cta_barrier_in_a_part_of_the_warps(directives: str, size: str, confidence: list[str]) -> None:
    report = lint(module(kernel(f"{TID}{size}{WHOLE}\nret;", directives=directives), header=HOPPER))
    found = by_rule(report, "CV001")
    assert [f.confidence.label for f in found] == confidence
    stated = directives in (".reqntid 128", ".maxntid 128")
    assert [f.message.endswith("if the CTA has more than 64 threads") for f in found] == [not stated]


DEC = "setmaxnreg.dec.sync.aligned.u32 40;"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (f"setp.eq.u32 %p1, %r2, 0; @%p1 {DEC}", "warps 1-3 execute none"),
        (f"setp.eq.u32 %p1, %r2, 0; @%p1 {DEC} @!%p1 {DEC}", ""),
        (f"setp.eq.u32 %p1, %r3, 0; @%p1 {DEC}", ""),
        (f"ld.param.u32 %r4, [number]; setp.eq.u32 %p1, %r2, %r4; @%p1 {DEC}", ""),
    ],
)
def test_setmaxnreg_in_a_part_of_a_warpgroup(body: str, says: str) -> None:
    directives = ".reqntid 256\n.maxnreg 128"
    found = by_rule(lint(module(kernel(f"{TID}{body}\nret;", directives=directives), header=HOPPER)), "CV004")
    assert [f.severity.label for f in found] == (["info"] if says else [])
    assert not found or says in found[0].message


@pytest.mark.parametrize(
    ("start", "step", "test", "reported"),
    [
        ("%r2", 32, "lt.s32 %p1, %r3, 100", True),
        ("%r2", 32, "lt.s32 %p1, %r3, 128", False),
        ("%r2", 32, "le.s32 %p1, %r3, 96", True),
        ("%r2", 32, "le.s32 %p1, %r3, 127", False),
        ("0", 1, "lt.s32 %p1, %r3, %r2", True),
        ("0", 1, "lt.s32 %p1, %r3, %r4", False),  # the same in all lanes of a warp
        ("0", 64, "lt.s32 %p1, %r3, %r2", False),  # one iteration in every lane
        ("%r2", 32, "lt.s32 %p1, %r3, %r5", True),  # the launch decides
    ],
)
def test_a_trip_count_that_depends_on_the_lane_splits_the_warp(
    start: str, step: int, test: str, reported: bool
) -> None:
    code = f"""
    ld.param.u32 %r5, [number];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    shr.u32 %r4, %r1, 5;
    mov.u32 %r3, {start};
next:
    {WAIT}
    add.u32 %r3, %r3, {step};
    setp.{test};
    @%p1 bra next;
    ret;"""
    found = by_rule(lint(module(kernel(code))), "CV001")
    assert len(found) == reported
    assert not found or "another number of iterations in some lanes" in found[0].message


@pytest.mark.parametrize(("first", "found"), [(0, True), (31, False)])
def test_a_loop_with_another_exit_is_judged_by_its_first_iteration(first: int, found: bool) -> None:
    """All lanes may leave it by the other one before they differ."""
    code = f"""
    ld.param.u32 %r5, [number];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    mov.u32 %r3, -{first};
next:
    {WAIT}
    setp.ge.u32 %p2, %r3, %r5;
    @%p2 bra done;
    add.u32 %r3, %r3, 1;
    setp.lt.s32 %p1, %r3, %r2;
    @%p1 bra next;
done:
    ret;"""
    assert bool(by_rule(lint(module(kernel(code))), "CV001")) is found


@pytest.mark.parametrize(("row", "found"), [(32, True), (16, False), (24, True)])
@pytest.mark.parametrize("used", ["setp.lt.s32 %p2, %r4, 64;", "shr.u32 %r5, %r4, 4;"])
def test_a_kernel_that_numbers_its_threads_states_how_long_rows_are(row: int, found: bool, used: str) -> None:
    """``if (tid.x < 16) __syncthreads();`` holds for all threads in rows of 16 (CudaSift)."""
    body = f"""{TID}
    mov.u32 %r3, %tid.y;
    mad.lo.s32 %r4, %r3, {row}, %r1;
    {used}
    setp.lt.u32 %p1, %r1, 16;
    @!%p1 bra L;
    bar.sync 0;
L:
    mov.u32 %r9, 0;
    ret;"""
    assert bool(by_rule(lint(module(kernel(body, directives=""), header=HEADER)), "CV001")) is found
