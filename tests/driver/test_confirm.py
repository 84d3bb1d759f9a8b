"""``tclint check --confirm``: findings, and the executions that show them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tclint.driver.confirm import confirm
from tclint.driver.evidence import seen
from tclint.driver.launches import candidates
from tclint.executor.assume import ParameterUses
from tclint.executor.launch import read, triton_beside
from tclint.executor.run import layout, prepared
from tclint.executor.schedule import Schedule
from tclint.executor.state import Geometry
from tclint.findings.finding import FileReport, Finding
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence
from tclint.findings.selection import Selected
from tclint.findings.spans import Span
from tclint.linting.check import check_source
from tclint.report.formats import formats, renderer
from tclint.report.summary import FormatContext, present
from tclint.syntax.source import Source
from tests.tools.command import invoke
from tests.tools.support import HOPPER, before_the_wait, built, kernel, module

READ = "    add.f32 %f8, %f0, %f1;"
DESCRIPTORS = "    mov.b64 %rd0, 64;\n    mov.b64 %rd1, 64;\n"
"""A matrix at the start of shared memory."""
EXPECT = "mbarrier.arrive.expect_tx.shared.b64 _, [{}], {};"
TMA = HOPPER.replace(".version 8.0", ".version 8.6")
GUARDED = """
    ld.param.u32 %r1, [number];
    setp.ne.u32 %p1, %r1, 77;
    @%p1 bra END;
"""


def report(text: str) -> FileReport:
    return check_source(Source(text.encode(), "kernel.ptx"))


def unwaited(before: str = "", later: str = READ) -> str:
    """A Hopper kernel that reads an accumulator too early, and what precedes its wgmma."""
    text = before_the_wait(later).replace("    wgmma.fence", DESCRIPTORS + "    wgmma.fence")
    return module(
        text.replace("    setp.ne.b32 %p0", f"{before}    setp.ne.b32 %p0").replace(
            "    ret;", "END:\n    ret;"
        ),
        header=HOPPER,
    )


def only(found: FileReport, rule: str = "WG001") -> Finding:
    (finding,) = [f for f in found.findings if f.rule.id == rule]
    return finding


def test_a_finding_is_confirmed_by_an_execution_that_shows_it() -> None:
    before = report(unwaited())
    after = confirm(before)
    old, new = only(before), only(after)
    assert new.confirmation is not None
    assert new.confirmation.status == "confirmed"
    assert new.confirmation.schedule == "lazy"
    assert "%f0 before the wgmma that writes it completes" in new.confirmation.observation
    assert (new.severity, new.fingerprint, new.message) == (old.severity, old.fingerprint, old.message)
    assert new.confidence is Confidence.CONFIRMED
    assert new.steps[: len(old.steps)] == old.steps
    seen = new.steps[len(old.steps) :]
    assert [s.message.partition(":")[0] for s in seen] == ["executed (lazy)"] * 2
    assert seen[1].span == old.span
    assert len(after.findings) == len(before.findings)


def test_a_guard_is_passed_with_the_number_that_it_compares() -> None:
    finding = only(confirm(report(unwaited(GUARDED))))
    assert finding.confirmation is not None
    assert finding.confirmation.status == "confirmed"


def test_what_no_launch_reaches_is_not_reproduced() -> None:
    hidden = GUARDED.replace("[number];", "[number];\n    mul.lo.u32 %r1, %r1, 11;").replace("77;", "847;")
    finding = only(confirm(report(unwaited(hidden))))
    assert finding.confirmation is not None
    assert str(finding.confirmation).startswith("not reproduced")
    assert "not reached" in finding.confirmation.reason
    assert finding.confidence is Confidence.HIGH


def test_a_launch_file_reaches_it(tmp_path: Path) -> None:
    launch = tmp_path / "kernel.launch.toml"
    launch.write_text(
        """
        [buffers]
        data = { type = "f32", shape = [64], values = 0 }
        [[launches]]
        entry = "k"
        grid = [1]
        block = [128]
        shared = 8192
        arguments = ["data", { u32 = 77 }]
        """
    )
    hidden = GUARDED.replace("[number];", "[number];\n    mul.lo.u32 %r1, %r1, 11;").replace("77;", "847;")
    finding = only(confirm(report(unwaited(hidden)), read(launch)))
    assert finding.confirmation is not None
    assert finding.confirmation.status == "confirmed"


def test_a_finding_that_an_execution_contradicts_is_not_reproduced() -> None:
    """A finding made up about a kernel that waits."""
    fault = report(unwaited())
    text = unwaited(later="").replace("    ret;", f"{READ}\n    ret;")
    right = report(text)
    assert not [f for f in right.findings if f.rule.id == "WG001"]
    at = text.index(READ.strip())
    false = replace(
        only(fault), span=replace(only(fault).span, start=at, end=at + len(READ.strip())), steps=()
    )
    finding = only(confirm(replace(right, findings=(false,))))
    assert finding.confirmation is not None
    assert finding.confirmation.status == "not-reproduced"
    assert finding.confirmation.reason == "no observation demonstrates it in these runs"


COPIES = """
    .shared .align 16 .b8 tile[4096];
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r1, [number];
    cvta.to.global.u64 %rd1, %rd0;
    mov.u32 %r0, %tid.x;
    shl.b32 %r2, %r0, 4;
    mov.u32 %r3, tile;
    add.u32 %r3, %r3, %r2;
    cvt.u64.u32 %rd2, %r2;
    add.s64 %rd2, %rd1, %rd2;
    setp.eq.u32 %p1, %r1, 7;
    @%p1 bra OTHER;
    cp.async.cg.shared.global [%r3], [%rd2], 16;
    bra.uni BOTH;
OTHER:
    cp.async.cg.shared.global [%r3], [%rd2+2048], 16;
BOTH:
    cp.async.commit_group;
    cp.async.wait_group 1;
    ld.shared.f32 %f0, [%r3];
    cp.async.wait_group 0;
    ret;
"""
"""Two copies of which a launch executes one, and a read for which neither has completed."""


@pytest.mark.parametrize(("number", "copy"), [(7, "2048"), (8, "%rd2]")])
def test_a_finding_is_confirmed_by_any_conflict_with_its_cause(
    tmp_path: Path, number: int, copy: str
) -> None:
    launch = tmp_path / "kernel.launch.toml"
    launch.write_text(
        f"""
        [buffers]
        data = {{ type = "f32", shape = [2048], values = 0 }}
        [[launches]]
        entry = "k"
        grid = [1]
        block = [128]
        arguments = ["data", {{ u32 = {number} }}]
        """
    )
    text = module(kernel(COPIES), header=HOPPER)
    before = report(text)
    finding = only(confirm(before, read(launch)), "CA001")
    assert len(only(before, "CA001").pairs) == finding.count == 2
    assert finding.confirmation is not None
    assert finding.confirmation.status == "confirmed"
    issued = finding.confirmation.steps[0].span
    assert copy in text[issued.start : issued.end]


def test_an_instruction_that_cannot_be_executed_is_named() -> None:
    finding = only(
        confirm(report(unwaited("    tex.1d.v4.f32.s32 {%f4, %f5, %f6, %f7}, [pointer, {%r1}];\n")))
    )
    assert finding.confirmation is not None
    assert finding.confirmation.status == "unsupported"
    assert "tex.1d" in finding.confirmation.reason
    assert "line " in finding.confirmation.reason


def test_the_budget_is_kept() -> None:
    finding = only(confirm(report(unwaited()), steps=0))
    assert finding.confirmation is not None
    assert finding.confirmation.reason == "not reached within 0 instructions"


def test_a_slow_machine_gives_the_same_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    first = only(confirm(report(unwaited()))).confirmation
    clock = count(step=1000)
    monkeypatch.setattr("tclint.executor.machine.perf_counter", lambda: float(next(clock)))
    assert only(confirm(report(unwaited()))).confirmation == first


# ---------------------------------------------------------------- what demonstrates which rule


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ("BK007", "cta-mask"),
        ("CA004", "fault-misaligned"),
        ("CV010", "barrier-count"),
        ("MA002", "fault-misaligned"),
        ("MB002", "mbarrier-unordered"),
        ("TC005", "uncommitted"),
        ("TM002", "fault-tensor-memory"),
    ],
)
def test_the_first_example_is_confirmed_and_no_correct_kernel_has_its_observation(
    rule: str, kind: str
) -> None:
    page = all_rules()[rule]
    verdict = only(confirm(report(page.examples[0].code)), rule).confirmation
    assert verdict is not None
    assert verdict.status == "confirmed"
    for block in page.corrections:
        source = Source(block.code.encode(), "kernel.ptx")
        made = built(block.code)
        for function in (f for f in made.functions if f.entry):
            first = next(candidates(source, made, prepared(made, function.name), None))
            for schedule in ("lazy", "eager", "random:1"):
                executed = first.run(Schedule(schedule), steps=20_000)
                assert executed.steps
                assert kind not in {o.kind for o in seen(executed)}


def test_a_commit_that_signals_no_cta_is_observed() -> None:
    """In a correct kernel of TC005, whose commit gets a mask."""
    code = all_rules()["TC005"].corrections[0].code
    commit = "mbarrier::arrive::one.shared::cluster{}.b64 [done]"
    text = code.replace(f"{commit.format('')};", f"{commit.format('.multicast::cluster')}, %none;")
    text = text.replace("    .reg .pred %leader", "    .reg .b16 %none;\n    .reg .pred %leader").replace(
        "tcgen05.commit", "mov.b16 %none, 0;\n    tcgen05.commit"
    )
    found = report(text)
    verdict = only(confirm(found), "BK007").confirmation
    assert verdict is not None
    assert verdict.status == "confirmed"
    assert verdict.observation.endswith("the CTA mask names no CTA")


def test_the_threads_that_a_finding_names_are_held_back() -> None:
    """A thread signals before its tcgen05.ld has completed, and its next instruction waits for that anyway."""
    text = Path("fixtures/tcgen05_gemm.ptx").read_text().replace("    tcgen05.wait::ld.sync.aligned;\n", "")
    verdict = only(confirm(report(text)), "TC002").confirmation
    assert verdict is not None
    assert (verdict.status, verdict.schedule) == ("confirmed", "targeted")


def test_a_copy_of_a_register_is_that_register() -> None:
    finding = only(confirm(report(unwaited(later="    mov.f32 %f9, %f0;\n    add.f32 %f8, %f9, %f9;"))))
    assert finding.confirmation is not None
    assert finding.confirmation.status == "confirmed"


@pytest.mark.parametrize(("target", "status"), [("%r1", "confirmed"), ("0", "not-reproduced")])
def test_a_hang_counts_if_clusters_of_every_size_have_it(target: str, status: str) -> None:
    """Of 256 arrivals, the threads of one CTA perform 128 and those of two CTAs all, if they use the same mbarrier."""
    body = f"""
    .shared .align 8 .b64 bar;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %cluster_ctarank;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared.b64 [bar], 256;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mov.u32 %r2, bar;
    mov.u32 %r3, {target};
    mapa.shared::cluster.u32 %r4, %r2, %r3;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
    setp.ne.u32 %p2, %r1, %r3;
    @%p2 bra DONE;
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
    @!%p1 bra WAIT;
DONE:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ret;"""
    text = module(kernel(body), header=HOPPER)
    at = Span(start := text.index("mbarrier.try_wait"), start + 17)
    blamed = replace(only(report(unwaited())), span=at, steps=(), pairs=(), rule=all_rules()["MB016"])
    verdict = confirm(replace(report(text), findings=(blamed,))).findings[0].confirmation
    assert verdict is not None
    assert verdict.status == status
    assert "clusters of 8 CTAs" in verdict.launch or "the assumed size of the cluster" in verdict.reason


def test_rules_about_what_no_execution_shows_are_not_confirmable() -> None:
    text = unwaited().replace(".version 8.0", ".version 7.8")
    verdicts = {f.rule.family: f.confirmation for f in confirm(report(text)).findings}
    assert verdicts["arch"] is not None
    assert verdicts["arch"].status == "not-confirmable"
    assert verdicts["wgmma"] is not None
    assert verdicts["wgmma"].status == "confirmed"


def test_a_hang_confirms_a_finding_about_its_mbarrier() -> None:
    body = """
    .shared .align 8 .b64 bar;
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared.b64 [bar], 200;
    bar.sync 0;
    mbarrier.arrive.shared.b64 %rd0, [bar];
WAIT:
    mbarrier.try_wait.shared.b64 %p1, [bar], %rd0;
    @!%p1 bra WAIT;
    ret;"""
    found = confirm(report(module(kernel(body), header=HOPPER)))
    verdicts = {f.rule.id: f.confirmation for f in found.findings if f.rule.family == "mbarrier"}
    assert verdicts
    for verdict in verdicts.values():
        assert verdict is not None
        assert verdict.status == "confirmed"
        assert "72 arrivals" in verdict.observation
        assert verdict.launch == "assuming a grid of one CTA"


TILES = """
    .shared .align 128 .b8 tile[16384];
    .shared .align 8 .b64 bars[2];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, bars;
    mov.u32 %r2, tile;
    mov.b64 %rd0, map;
    cvta.param.u64 %rd0, %rd0;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared.b64 [%r1], 1;
    @%p0 mbarrier.init.shared.b64 [%r1+8], 1;
    bar.sync 0;
    @%p0 FIRST
    @%p0 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd0, {0, 0}], [%r1];
    @%p0 SECOND
    @%p0 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r2+8192], [%rd0, {0, 0}], [%r1+8];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;
    @!%p1 bra WAIT;
AGAIN:
    mbarrier.try_wait.parity.shared.b64 %p1, [%r1+8], 0;
    @!%p1 bra AGAIN;
    ld.shared.f32 %f0, [%r2];
    ld.shared.f32 %f1, [%r2+8192];
    ret;"""
"""Two copies through a tensor map, each with a phase of its own."""


def tiles(first: str, second: str) -> str:
    text = kernel(TILES, parameters=".param .align 64 .b8 map[128]")
    return module(text.replace("FIRST", first).replace("SECOND", second), header=TMA)


@pytest.mark.parametrize(("size", "kinds"), [(8192, set()), (8176, {"box-bytes"}), (8208, {"box-bytes"})])
def test_phases_of_the_same_copies_expect_the_same_bytes(size: int, kinds: set[str]) -> None:
    """Whatever the box is: one of the two phases never completes, or completes too early."""
    text = tiles(EXPECT.format("%r1", 8192), EXPECT.format("%r1+8", size))
    made = built(text)
    first = next(candidates(Source(text.encode(), "k.ptx"), made, prepared(made, "k"), None))
    for schedule in ("lazy", "random:1"):
        executed = first.run(Schedule(schedule))
        assert executed.end == "done"
        assert {o.kind for o in executed.observations} == kinds
    found = [f for f in confirm(report(text)).findings if f.rule.id == "MB004"]
    assert [f.confirmation.status for f in found if f.confirmation] == ["confirmed"] * len(kinds)


def test_a_phase_that_expects_no_bytes_completes_without_its_copies() -> None:
    text = tiles(EXPECT.format("%r1", 8192), "mbarrier.arrive.shared.b64 _, [%r1+8];")
    verdict = only(confirm(report(text)), "MB005").confirmation
    assert verdict is not None
    assert verdict.status == "confirmed"
    assert "reads shared memory that the pending cp.async.bulk.tensor has yet to write" in verdict.observation


@pytest.mark.parametrize("name", formats())
def test_every_format_shows_the_verdict(name: str) -> None:
    shown, summary = present([confirm(report(unwaited()))], Selected())
    text = renderer(name)(shown, FormatContext(summary))
    assert "confirmed" in text


# ---------------------------------------------------------------- the launch that is assumed


def test_parameters_are_distinguished_by_their_use() -> None:
    body = """
    .reg .b64 %a, %b;
    ld.param.u64 %rd1, [x];
    cvta.to.global.u64 %rd2, %rd1;
    ld.param.u64 %rd3, [stride];
    add.s64 %rd4, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    ld.param.f32 %f2, [scale];
    ld.param.u32 %r1, [n];
    mul.f32 %f3, %f1, %f2;
    mov.b64 %rd5, map;
    cvta.param.u64 %rd5, %rd5;
    cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd5, {%r1, %r1}];
    ret;"""
    parameters = (
        ".param .u64 x, .param .u64 stride, .param .f32 scale, .param .u32 n, .param .align 64 .b8 map[128]"
    )
    text = module(kernel(body, parameters=parameters), header=HOPPER)
    found = ParameterUses(prepared(built(text), "k"))
    assert list(found.buffers) == ["x+0"]
    data = layout(found.function, found.values(512, {"x+0": 0xABCD00}))
    assert int.from_bytes(data[:8], "little") == 0xABCD00
    assert int.from_bytes(data[8:16], "little") == 512
    assert data[16:20] == b"\0\0\x80?"
    assert int.from_bytes(data[20:24], "little") == 512
    assert data[64:].startswith(b"unknown tensor m")


def test_an_integer_that_is_converted_to_a_floating_point_number_is_an_integer() -> None:
    body = """
    ld.param.u32 %r1, [n];
    ld.param.f32 %f1, [scale];
    cvt.rn.f32.s32 %f2, %r1;
    cvt.rn.bf16.f32 %h0, %f1;
    ret;"""
    text = module(kernel(body, parameters=".param .u32 n, .param .f32 scale"), header=HOPPER)
    found = ParameterUses(prepared(built(text), "k"))
    assert layout(found.function, found.values(512, {})) == (512).to_bytes(4, "little") + b"\0\0\x80?"


def test_what_triton_says_of_its_launch_is_used(tmp_path: Path) -> None:
    text = module(kernel("    ret;", directives=""), header=HOPPER)
    metadata = tmp_path / "kernel.json"
    metadata.write_text(
        json.dumps({"name": "k", "num_warps": 8, "shared": 4096, "num_ctas": 2, "cluster_dims": [2, 1, 1]})
    )
    made = built(text)
    first = next(
        ParameterUses(prepared(made, "k")).launches(made, triton_beside(str(tmp_path / "kernel.ptx")))
    )
    assert first.geometry == Geometry((2, 1, 1), (256, 1, 1), (2, 1, 1), 4096, True)
    assert triton_beside(str(tmp_path / "other.ptx")) is None


# ---------------------------------------------------------------- the command line


def test_the_command_line_confirms(tmp_path: Path) -> None:
    kernel_ = tmp_path / "kernel.ptx"
    kernel_.write_text(unwaited())
    code, output = invoke("check", "--isolated", "--confirm", "--output-format", "json", str(kernel_))
    assert code == 1
    (file,) = json.loads(output)["files"]
    verdicts = [f["confirmation"] for f in file["findings"] if f["id"] == "WG001"]
    assert [v["status"] for v in verdicts] == ["confirmed"]
    assert verdicts[0]["reason"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--launch", "x.toml"], "--launch requires --confirm or --execute"),
        (["--confirm", "--launch", "absent.toml"], "absent.toml"),
        (["--confirm", "--confirm-steps", "0"], "confirm-steps"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, options: list[str], message: str) -> None:
    kernel_ = tmp_path / "kernel.ptx"
    kernel_.write_text(unwaited())
    code, output = invoke("check", "--isolated", *options, str(kernel_))
    assert code == 2
    assert message in output


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ("[launches", "kernel.launch.toml"),
        ('[[launches]]\nentry = "absent"\ngrid = [1]\nblock = [128]', "absent"),
        ('[[launches]]\nentry = "k"\ngrid = [1]\nblock = [128]', "argument"),
        (
            '[[launches]]\nentry = "k"\ngrid = [1]\nblock = [64]\narguments = [{ u64 = 0 }, { u32 = 0 }]',
            ".reqntid",
        ),
    ],
)
def test_a_launch_file_beside_the_kernel_that_is_wrong_is_an_error(
    tmp_path: Path, launch: str, message: str
) -> None:
    kernel_ = tmp_path / "kernel.ptx"
    kernel_.write_text(unwaited())
    (tmp_path / "kernel.launch.toml").write_text(launch)
    code, output = invoke("check", "--isolated", "--confirm", str(kernel_))
    assert code == 2
    assert message in output
    assert "internal error" not in output


def test_a_variable_that_cannot_be_initialised_is_unsupported_and_does_not_crash() -> None:
    text = unwaited().replace(".visible .entry", ".global .u64 table[1] = {elsewhere};\n.visible .entry")
    finding = only(confirm(report(text)))
    assert finding.confirmation is not None
    assert finding.confirmation.status == "unsupported"
    assert "the initialiser of table" in finding.confirmation.reason
