"""``tclint check --execute``: kernels without findings are executed, and what is observed becomes findings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tclint.config.config import Config
from tclint.driver.evidence import Basis, bounded_classes
from tclint.driver.executing import Executor
from tclint.driver.hazards import hazard
from tclint.driver.pool import check
from tclint.executor.assume import ParameterUses
from tclint.executor.observations import KINDS, Observation
from tclint.executor.run import prepared
from tclint.findings.finding import FileReport, Finding
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence, Method, Severity
from tclint.findings.selection import Selected
from tclint.findings.verdicts import Assumption, HazardClass, Status, Verdict
from tclint.report.formats import formats, renderer
from tclint.report.summary import FormatContext, exit_code, present, tally
from tclint.syntax.source import Source
from tests.tools.command import invoke
from tests.tools.support import HOPPER, before_the_wait, built, kernel, module

EXECUTE = Config(execute=True)
BODY = """
    .shared .align 16 .b8 tile[512];
    ld.param.u64 %rd1, [pointer];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    //BARRIER
    cvt.rn.f32.u32 %f0, %r1;
    sub.f32 %f0, 0f42FE0000, %f0;
    cvt.rzi.u32.f32 %r5, %f0;
    shl.b32 %r5, %r5, 2;
    add.u32 %r6, %r3, %r5;
    ld.shared.u32 %r7, [%r6];
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd2, %rd3;
    st.global.u32 [%rd4], %r7;
    ret;"""
"""Writes a tile and reads it backwards, by floating-point numbers that no static analysis evaluates, without a barrier."""
RACY = module(kernel(BODY), header=HOPPER)
RIGHT = RACY.replace("//BARRIER", "bar.sync 0;")
GUARDED = BODY.replace(
    "    mov.u32 %r1, %tid.x;",
    "    ld.param.u32 %r10, [number];\n    setp.ne.u32 %p1, %r10, {};\n    @%p1 ret;\n    mov.u32 %r1, %tid.x;",
)
POLLING = """
    ld.param.u64 %rd1, [pointer];
    mov.u32 %r1, 0;
LOOP:
    add.u32 %r1, %r1, 1;
    ld.global.u32 %r2, [%rd1];
    setp.eq.u32 %p1, %r2, %r1;
    @!%p1 bra LOOP;
    ret;"""
"""Counts in a loop that does not end as long as global memory holds zeros."""


def checked(text: str, config: Config = EXECUTE, path: str = "kernel.ptx") -> FileReport:
    return check((path, Source(text.encode(), path)), config).report


def executed(report: FileReport) -> list[Finding]:
    return [finding for finding in report.findings if finding.method is Method.EXECUTION]


def only(report: FileReport) -> Finding:
    (finding,) = executed(report)
    return finding


def test_the_example_has_no_finding_without_execution() -> None:
    report = checked(RACY, Config())
    assert not report.findings
    assert not report.executions


def test_a_hazard_that_only_an_execution_shows_is_a_finding_of_its_rule() -> None:
    finding = only(checked(RACY))
    assert finding.rule.id == "SM001"
    assert finding.severity is Severity.WARNING
    assert finding.confidence is Confidence.CONFIRMED
    assert finding.entry == "k"
    assert "nothing orders the two" in finding.message
    assert [step.message.partition(":")[0] for step in finding.steps] == ["executed (lazy)"] * 2
    assert finding.confirmation is not None
    assert finding.confirmation.launch == "assuming a grid of one CTA, zeros in global memory"


def test_two_stores_that_race_with_one_load_are_one_finding() -> None:
    text = RACY.replace(
        "st.shared.u32 [%r4], %r1;", "st.shared.u16 [%r4], %r1;\n    st.shared.u16 [%r4+2], %r1;"
    )
    findings = executed(checked(text))
    pairs = {frozenset(step.span.start for step in f.steps) for f in findings}
    assert len(pairs) == len(findings)
    assert sum(f.count for f in findings) == 2


def test_a_right_kernel_has_no_finding_and_is_counted() -> None:
    report = checked(RIGHT)
    assert not report.findings
    (run,) = report.executions
    assert (run.entry, run.end, run.reason) == ("k", "done", "")
    assert run.instructions > 0
    _, summary = present([report], EXECUTE.selected)
    assert tally(summary) == "No findings in 1 file; 1 kernel executed."


def test_a_kernel_with_a_finding_to_confirm_is_not_executed() -> None:
    report = checked(module(before_the_wait("    add.f32 %f8, %f0, %f1;"), header=HOPPER))
    assert [f.rule.id for f in report.findings if f.severity is Severity.ERROR] == ["WG001"]
    assert not report.executions


def test_what_a_rule_that_is_off_describes_is_not_reported() -> None:
    assert not checked(RACY, replace(EXECUTE, rules=frozenset(("WG001",)))).findings


def test_a_comment_suppresses_what_an_execution_shows() -> None:
    text = RACY.replace("    st.shared", "    // tclint: ignore[SM001] one warp\n    st.shared")
    report = checked(text)
    assert [f.suppressed for f in report.findings] == ["one warp"]
    assert exit_code([report], Severity.WARNING) == 0


def test_the_fingerprint_is_stable() -> None:
    prints = {only(checked(text)).fingerprint for text in (RACY, "// moved\n" + RACY)}
    assert len(prints) == 1


NOTED = BODY.replace(
    "//BARRIER",
    """
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra LATER;
    mbarrier.init.shared.b64 [%r3+512], 1;
    mbarrier.init.shared.b64 [%r3+512], 1;
LATER:""",
).replace("tile[512]", "tile[1024]")
"""The racy kernel with a note: an mbarrier is initialised again."""


def test_a_note_does_not_keep_a_kernel_from_being_executed() -> None:
    text = module(kernel(NOTED), header=HOPPER)
    (note,) = [f for f in checked(text, Config()).findings if f.rule.id == "MB009"]
    assert note.severity is Severity.INFO
    report = checked(text)
    assert "SM001" in {finding.rule.id for finding in executed(report)}
    assert note in report.findings


def test_an_error_of_the_executor_is_a_reason_and_loses_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("by hand")

    monkeypatch.delenv("TCLINT_DEBUG", raising=False)
    monkeypatch.setattr("tclint.driver.launches.execute_assumed", fail)
    report = checked(module(kernel(NOTED), header=HOPPER))
    assert report.status == "analysed"
    assert [finding.rule.id for finding in report.findings if finding.rule.family == "mbarrier"] == ["MB009"]
    (run,) = report.executions
    assert run.end == "unsupported"
    assert "internal error: ZeroDivisionError: by hand" in run.reason


# ---------------------------------------------------------------- what an assumed launch cannot decide


def test_two_warps_of_an_assumed_cta_prove_nothing() -> None:
    text = RACY.replace(".reqntid 128", "")
    report = checked(text)
    assert report.executions
    assert not report.findings


def test_what_a_single_value_of_an_integer_shows_is_not_reported() -> None:
    """Size 77 is one of the launches that are tried, since the kernel compares with it."""
    guarded = module(kernel(GUARDED.format(77)), header=HOPPER)
    numbers = [
        launch.number for launch in ParameterUses(prepared(built(guarded), "k")).launches(built(guarded))
    ]
    assert 77 in numbers
    assert not checked(guarded).findings


def test_what_launches_with_several_integers_show_is_reported() -> None:
    always = GUARDED.format(77).replace("setp.ne.u32", "setp.eq.u32")
    finding = only(checked(module(kernel(always), header=HOPPER)))
    assert finding.rule.id == "SM001"
    assert finding.confirmation is not None
    assert "512 for integer parameters" in finding.confirmation.launch


def test_what_a_launch_that_runs_right_contradicts_is_not_reported() -> None:
    """With 128, the barrier is executed; the access that is unordered with 512 is then ordered."""
    text = RACY.replace(
        "//BARRIER",
        "ld.param.u32 %r10, [number];\n    setp.eq.u32 %p1, %r10, 128;\n    @!%p1 bra LATER;\n    bar.sync 0;\nLATER:",
    )
    assert not executed(checked(text))


def test_a_path_that_the_contents_of_memory_decide_shows_nothing() -> None:
    """Without items, the kernel skips its loop, which has the barrier."""
    branch = """
    ld.global.u32 %r11, [%rd2];
    setp.eq.u32 %p2, %r11, 0;
    @%p2 bra LATER;
    bar.sync 0;
LATER:"""
    assert not executed(checked(module(kernel(BODY.replace("//BARRIER", branch)), header=HOPPER)))


def test_a_launch_that_faults_shows_nothing() -> None:
    text = RACY.replace("    mul.wide.u32 %rd3, %r1, 4;", "    mov.b64 %rd3, 0x7f0000000000;")
    report = checked(text)
    assert not executed(report)
    (run,) = report.executions
    assert run.end == "fault"
    assert "is not in a buffer" in run.reason


# ---------------------------------------------------------------- kernels that do not run to completion


def test_a_kernel_that_does_not_end_exhausts_its_budget_of_instructions() -> None:
    report = checked(module(kernel(POLLING), header=HOPPER), replace(EXECUTE, execute_steps=2000))
    (run,) = report.executions
    assert run.end == "budget"
    assert run.reason == "budget of 2,000 instructions exhausted"
    assert 2000 <= run.instructions < 4000


def test_two_runs_execute_the_same_instructions() -> None:
    first, second = (checked(RACY) for _ in range(2))
    assert first.executions == second.executions
    assert first.findings == second.findings


def test_an_instruction_that_cannot_be_executed_is_named_and_counted() -> None:
    texture = BODY.replace("//BARRIER", "tex.1d.v4.f32.s32 {%f4, %f5, %f6, %f7}, [pointer, {%r1}];")
    report = checked(module(kernel(texture), header=HOPPER))
    (run,) = report.executions
    assert run.end == "unsupported"
    assert "tex.1d" in run.reason
    assert run.line == 4
    _, summary = present([report], EXECUTE.selected)
    assert "1 kernel executed, 1 of them not to completion (--timings gives the reasons)" in tally(summary)


# ---------------------------------------------------------------- launch files


def launch(folder: Path, block: int = 128, arguments: str = '["data", { u32 = 77 }]') -> None:
    (folder / "kernel.launch.toml").write_text(
        f"""
        [buffers]
        data = {{ type = "u32", shape = [512], values = 0 }}
        [[launches]]
        entry = "k"
        grid = [1]
        block = [{block}]
        arguments = {arguments}
        """
    )


def test_with_a_launch_file_two_warps_and_one_integer_are_enough(tmp_path: Path) -> None:
    launch(tmp_path)
    text = module(kernel(GUARDED.format(77), directives=""), header=HOPPER)
    finding = only(checked(text, path=str(tmp_path / "kernel.ptx")))
    assert finding.rule.id == "SM001"
    assert finding.confirmation is not None
    assert finding.confirmation.launch.endswith("kernel.launch.toml")


def test_a_deadlock_in_a_given_launch_is_a_finding(tmp_path: Path) -> None:
    """Half of the CTA is missing at the barrier, since a value of global memory decides which threads it waits for."""
    body = """
    ld.param.u64 %rd1, [pointer];
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 6;
    ld.global.u32 %r3, [%rd1];
    setp.eq.u32 %p1, %r2, %r3;
    @%p1 bra FIRST;
    bar.sync 1, 128;
    bra.uni END;
FIRST:
    bar.sync 2, 128;
END:
    ret;"""
    launch(tmp_path)
    report = checked(module(kernel(body), header=HOPPER), path=str(tmp_path / "kernel.ptx"))
    assert [run.end for run in report.executions] == ["deadlock"]
    assert [finding.rule.id for finding in executed(report)] == ["CV014"]


def test_a_launch_file_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    launch(tmp_path, block=64)
    report = checked(RACY, path=str(tmp_path / "kernel.ptx"))
    assert report.status == "failed"
    assert ".reqntid" in report.problems[0].message


# ---------------------------------------------------------------- the rule of an observation


@pytest.mark.parametrize("kind", KINDS)
def test_an_observation_becomes_a_hit_of_a_rule_that_exists(kind: str) -> None:
    function = prepared(built(RIGHT), "k")
    hit = hazard(Observation(kind, 1, "seen", "warp 0", 2), function)
    assert hit is None or hit.rule in all_rules()


@pytest.mark.parametrize("kind", ["mbarrier-init", "shuffle", "left-in-flight", "tensor-memory-lanes"])
def test_what_works_in_practice_makes_no_hit(kind: str) -> None:
    assert hazard(Observation(kind, 1, "seen", "warp 0", 2), prepared(built(RIGHT), "k")) is None


PAIRS = [
    ("unordered", "ld.shared.u32 %r1, [%r2];", "st.shared.u32 [%r2], %r1;", "SM001"),
    ("unordered", "ld.shared.u32 %r1, [%r2];", "cp.async.ca.shared.global [%r2], [%rd1], 16;", "CA005"),
    ("unordered", "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16;", "st.shared.u32 [%r2], %r1;", "PR005"),
    ("read-too-early", "ld.shared.u32 %r1, [%r2];", "cp.async.ca.shared.global [%r2], [%rd1], 16;", "CA001"),
    ("source-overwritten", "st.shared.u32 [%r2], %r1;", "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16;", "BK002"),
    ("proxy", "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16;", "st.shared.u32 [%r2], %r1;", "PR001"),
    ("unordered", "ld.shared.u32 %r1, [%r2];", "mbarrier.init.shared.b64 [%r2], 1;", None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "at", "other", "rule"), PAIRS)
def test_the_rule_follows_from_the_two_instructions(kind: str, at: str, other: str, rule: str | None) -> None:
    function = prepared(built(module(kernel(f"    {at}\n    {other}\n    ret;"), header=HOPPER)), "k")
    hit = hazard(Observation(kind, 0, "seen", "warp 0", 1), function)
    assert (hit.rule if hit is not None else None) == rule


def test_a_missing_proxy_fence_in_a_kernel_with_a_wide_fence_is_a_note() -> None:
    copy, store = PAIRS[5][1:3]
    for fence, severity in (("", None), ("fence.acq_rel.gpu;", Severity.INFO)):
        function = prepared(
            built(module(kernel(f"    {copy}\n{store}\n{fence}\n    ret;"), header=HOPPER)), "k"
        )
        hit = hazard(Observation("proxy", 0, "seen", "warp 0", 1), function)
        assert hit is not None
        assert hit.severity is severity


# ---------------------------------------------------------------- the command line


@pytest.fixture
def racy(tmp_path: Path) -> str:
    path = tmp_path / "racy.ptx"
    path.write_text(RACY)
    return str(path)


def test_the_exit_code_counts_what_was_observed(racy: str) -> None:
    assert invoke("check", "--isolated", racy)[0] == 0
    assert invoke("check", "--isolated", "--execute", racy)[0] == 1
    assert invoke("check", "--isolated", "--execute", "--fail-on", "error", racy)[0] == 0


def test_json_has_the_method_and_every_execution(racy: str) -> None:
    _, output = invoke("check", "--isolated", "--execute", "--output-format", "json", racy)
    report = json.loads(output)
    (file,) = report["files"]
    assert [finding["method"] for finding in file["findings"]] == ["execution"]
    (run,) = file["executions"]
    assert (run["entry"], run["end"], run["reason"]) == ("k", "done", None)
    assert report["summary"]["executed"] == {"kernels": 1, "incomplete": 0}


def test_sarif_has_the_method(racy: str) -> None:
    _, output = invoke("check", "--isolated", "--execute", "--output-format", "sarif", racy)
    (result,) = json.loads(output)["runs"][0]["results"]
    assert result["properties"]["tclint/method"] == "execution"
    assert "zeros in global memory" in result["properties"]["tclint/confirmation"]["launch"]


def test_timings_give_the_reason_why_a_kernel_did_not_complete(tmp_path: Path) -> None:
    path = tmp_path / "polling.ptx"
    path.write_text(module(kernel(POLLING), header=HOPPER))
    code, output = invoke(
        "check", "--isolated", "--execute", "--execute-steps", "1000", "--timings", str(path)
    )
    assert code == 0
    assert "execution: budget: budget of 1,000 instructions exhausted" in output


@pytest.mark.parametrize("steps", ["0", "many"])
def test_an_invalid_budget_is_refused(racy: str, steps: str) -> None:
    code, output = invoke("check", "--isolated", "--execute", "--execute-steps", steps, racy)
    assert code == 2
    assert "execute-steps" in output


@pytest.mark.parametrize("name", formats())
def test_every_format_reports_the_finding(name: str) -> None:
    shown, summary = present([checked(RACY)], EXECUTE.selected)
    assert "SM001" in renderer(name)(shown, FormatContext(summary))


def test_a_confirmation_leaves_the_finding_as_it_is() -> None:
    plain, both = only(checked(RACY)), only(checked(RACY, replace(EXECUTE, confirm=True)))
    assert plain == both


def test_an_executor_ignores_functions_that_are_not_entries() -> None:
    source = Source(RACY.encode(), "kernel.ptx")
    executor = Executor(source, 1000, Selected(), lambda: None)
    made = built(RACY.replace(".visible .entry k(", ".visible .func k("))
    (function,) = made.functions
    assert list(executor(made, function, ())) == []
    assert executor.executions == []


# ---------------------------------------------------------------- verdicts

UNIFORM = """
    ld.param.u64 %rd1, [pointer];
    cvta.to.global.u64 %rd2, %rd1;
    ld.volatile.global.u32 %r1, [%rd2];
    setp.{}.u32 %p1, %r1, 0;
    @%p1 bra over;
    bar.warp.sync -1;
    bar.sync 0;
over:
    ret;"""
"""A barrier under a condition that is the same for all threads if memory is, which no proof takes for granted."""
VERDICTS = Config(execute=True, verdict=True)


def convergence(body: str, config: Config = VERDICTS) -> Verdict:
    report = checked(module(kernel(body, directives=".reqntid 64"), header=HOPPER), config)
    (found,) = [verdict for verdict in report.verdicts if verdict.hazard is HazardClass.CONVERGENCE]
    return found


def test_a_class_that_cannot_be_proved_is_bounded_by_an_execution_that_reaches_all_of_it() -> None:
    found = convergence(UNIFORM.format("ne"))
    assert found.status is Status.BOUNDED
    assert not found.reasons
    assert found.launches == (
        "assuming a grid of one CTA, zeros in global memory (executed: lazy, random:1, eager)",
    )


def test_without_execution_such_a_class_is_unknown() -> None:
    assert convergence(UNIFORM.format("ne"), Config(verdict=True)).status is Status.UNKNOWN


def test_an_execution_that_does_not_reach_an_instruction_bounds_nothing() -> None:
    found = convergence(UNIFORM.format("eq"))
    assert found.status is Status.UNKNOWN
    assert found.reasons[-1].what == "no launch that was executed reaches it"
    assert found.reasons[-1].at is not None


def test_an_execution_that_does_not_end_bounds_nothing() -> None:
    body = UNIFORM.format("ne").replace("    ret;", POLLING)
    assert convergence(body.replace("%r1,", "%r3,").replace("%r1;", "%r3;")).status is Status.UNKNOWN


def test_an_execution_with_an_observation_bounds_nothing() -> None:
    branched = """st.shared.u32 [%r4], %r1;
    ld.global.u32 %r20, [%rd2];
    setp.ne.u32 %p1, %r20, 0;
    @%p1 bra over;
    bar.warp.sync -1;
over:"""
    status = {}
    for text in (RACY, RIGHT):
        report = checked(text.replace("st.shared.u32 [%r4], %r1;", branched), VERDICTS)
        assert not executed(report)  # the path depends on memory, and the race is not reported
        (status[text],) = [v.status for v in report.verdicts if v.hazard is HazardClass.CONVERGENCE]
    assert status == {RACY: Status.UNKNOWN, RIGHT: Status.BOUNDED}


def test_an_unknown_tensor_map_bounds_only_what_no_copy_decides() -> None:
    text = module(kernel("ret;"), header=HOPPER)
    plain = built(text).functions[-1]
    copying = built(
        module(
            ".shared .align 128 .b8 tile[128];",
            kernel(
                "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1, {%r1}], [tile];\nret;"
            ),
            header=HOPPER,
        )
    ).functions[-1]
    assumed = Basis("", frozenset())
    assert HazardClass.SHARED_MEMORY in bounded_classes(plain, assumed)
    assert HazardClass.SHARED_MEMORY in bounded_classes(copying, Basis("launch.json"))
    assert HazardClass.SHARED_MEMORY not in bounded_classes(copying, assumed)
    assert HazardClass.WGMMA in bounded_classes(copying, assumed)
    assert bounded_classes(plain, assumed).isdisjoint({HazardClass.BULK, HazardClass.AVAILABILITY})


TENSOR = """
    .shared .align 4 .b32 slot;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 32;
    @%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
    bar.sync 0;
    ld.shared.b32 %r2, [slot];
    @!%p1 bra stored;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r1};
    tcgen05.wait::st.sync.aligned;
stored:
    bar.sync 0;
    setp.ge.u32 %p2, %r1, 128;
    setp.lt.u32 %p3, %r1, 160;
    and.pred %p4, %p2, %p3;
    @!%p4 bra loaded;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r2];
    tcgen05.wait::ld.sync.aligned;
loaded:
    bar.sync 0;
    @%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;
    ret;"""
"""One warp stores to lanes of tensor memory that the warp of the same rank loads, with barriers and without fences."""


@pytest.mark.parametrize(
    ("body", "assume"),
    [
        (TENSOR, frozenset((Assumption.NO_OVERFLOW, Assumption.THREADS))),
        (TENSOR.replace("stored:\n    bar.sync 0;", "stored:"), None),
    ],
)
def test_tensor_memory_is_not_bounded_since_no_execution_observes_its_order(
    body: str, assume: frozenset[Assumption] | None
) -> None:
    header = ".version 8.6\n.target sm_100a\n.address_size 64\n"
    config = replace(VERDICTS, assume=assume)
    report = checked(module(kernel(body, directives=".reqntid 256"), header=header), config)
    (found,) = [v for v in report.verdicts if v.hazard is HazardClass.TENSOR_MEMORY]
    assert (found.status, found.launches) == (Status.UNKNOWN, ())
    assert "--execute" not in found.reasons[0].help


LAUNCH = """
[buffers]
x = {{ type = "i32", shape = [128], values = {number} }}
y = {{ type = "i32", shape = [128] }}

[[launches]]
entry = "k"
grid = [1]
block = [128]
arguments = ["x", "y"]
"""
INDEXED = """
    .shared .align 4 .b8 tile[512];
    ld.param.u64 %rd0, [in];
    mov.u32 %r0, %tid.x;
    mad.wide.u32 %rd0, %r0, 4, %rd0;
    ld.global.u32 %r1, [%rd0];
    mov.u32 %r2, tile;
    mad.lo.u32 %r3, %r1, {size}, %r2;
    st.shared.u32 [%r3], 0;
    ret;
"""


@pytest.mark.parametrize(
    ("number", "size", "rules"),
    [(127, 4, set()), (128, 4, {"MA001"}), (-1, 4, {"MA001"}), (5, 2, {"MA002"}), (6, 2, set())],
)
def test_an_index_that_a_launch_passes_is_outside_or_misaligned(
    tmp_path: Path, number: int, size: int, rules: set[str]
) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(module(kernel(INDEXED.format(size=size), parameters=".param .u64 in, .param .u64 out")))
    (tmp_path / "k.launch.toml").write_text(LAUNCH.format(number=number))
    _, output = invoke("check", "--isolated", "--execute", "--output-format", "json", str(path))
    (file,) = json.loads(output)["files"]
    assert {finding["id"] for finding in file["findings"]} & {"MA001", "MA002"} == rules
