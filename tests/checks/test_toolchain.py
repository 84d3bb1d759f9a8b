"""Rules about the ptxas of a CUDA toolkit, on small kernels."""

from __future__ import annotations

import pytest

from tclint.findings.finding import FileReport
from tclint.findings.scales import Confidence
from tclint.findings.selection import Request
from tclint.isa.target import TOOLKITS, toolkit_for
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.support import by_rule, kernel, module

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"
FENCE = "wgmma.fence.sync.aligned;\n"
COMMIT = "wgmma.commit_group.sync.aligned;\n"
WAIT = "wgmma.wait_group.sync.aligned 0;\n"
ISSUE = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, 1, 1, 1, 0, 0;\n"
OTHER = ISSUE.replace("%rd1", "%rd2")
FRAGMENT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%r4, %r5, %r6, %r7}, %rd1, 1, 1, 1, 0;\n"


def lint(text: str, toolkit: tuple[int, int] | None) -> FileReport:
    return check_source(Source.from_bytes(text.encode(), "t.ptx"), Request(toolkit=toolkit))


def text(body: str) -> str:
    start = "".join(f"cvt.rn.f32.u32 %f{i}, %r9;\n" for i in range(4))
    start += "".join(f"ld.param.u64 %rd{i}, [pointer];\nadd.s64 %rd{i}, %rd{i}, {i};\n" for i in range(3))
    return module(kernel(f"ld.param.u32 %r9, [number];\n{start}{body}{WAIT}ret;"), header=HEADER)


@pytest.mark.parametrize(
    ("version", "toolkit", "remedy"),
    [
        (
            "8.8",
            (12, 8),
            "write .version 8.7, or use CUDA 12.9 or newer; compiled at run time, it requires driver 575.51.03 or newer",
        ),
        (
            "8.6",
            (12, 6),
            "write .version 8.5, or use CUDA 12.7 or newer; compiled at run time, it requires driver 565.57.01 or newer",
        ),
        ("9.9", (13, 5), "write .version 9.5"),
        ("8.7", (12, 8), None),
        ("7.0", (12, 8), None),
        ("9.5", None, None),
        ("9.5", (14, 0), None),
    ],
)
def test_a_version_that_the_toolkit_lacks(
    version: str, toolkit: tuple[int, int] | None, remedy: str | None
) -> None:
    found = by_rule(
        lint(f".version {version}\n.target sm_80\n.visible .entry k() {{ ret; }}\n", toolkit), "TL001"
    )
    assert [f.help for f in found] == ([] if remedy is None else [remedy])


def test_toolkits_grow() -> None:
    versions = [TOOLKITS[toolkit] for toolkit in sorted(TOOLKITS)]
    assert versions == sorted(versions)
    assert all(TOOLKITS[first] >= version for version in versions if (first := toolkit_for(version)))
    assert toolkit_for((99, 0)) is None


ZERO = "".join(f"mov.f32 %f{i}, 0f00000000;\n" for i in range(4))
FAR = "".join(f"add.s64 %rd5, %rd1, {i};\n{ISSUE.replace('%rd1', '%rd5')}" for i in range(30))
REPEATS = {
    "twice": (ISSUE + ISSUE, 1),
    "three times": (ISSUE * 3, 2),
    "another one between": (ISSUE + OTHER + ISSUE, 1),
    "arithmetic between": (f"{ISSUE}add.u32 %r8, %r9, 1;\n{ISSUE}", 1),
    "descriptors of equal value": (f"add.s64 %rd3, %rd0, 2;\nadd.s64 %rd4, %rd0, 2;\n{ISSUE.replace('%rd0', '%rd3')}{ISSUE.replace('%rd0', '%rd4')}", 1),
    "another descriptor": (ISSUE + OTHER, 0),
    "another accumulator": (ISSUE + ISSUE.replace("%f0", "%f4"), 0),
    "another sign": (ISSUE + ISSUE.replace("1, 1, 1,", "1, -1, 1,"), 0),
    "a commit between": (ISSUE + COMMIT + ISSUE, 0),
    "a fence between": (ISSUE + FENCE + ISSUE, 0),
    "a barrier between": (f"{ISSUE}bar.sync 0;\n{ISSUE}", 0),
    "a load between": (f"{ISSUE}ld.shared.u32 %r8, [%r9];\n{ISSUE}", 0),
    "an accumulator set between": (f"{ISSUE}mov.f32 %f0, %f9;\n{ISSUE}", 0),
    "D overwritten by both": (ISSUE.replace("%rd1, 1", "%rd1, 0") * 2, 0),
    "D is zero at first": (f"{ZERO}{ISSUE * 2}", 0),
    "D is zero at first, and then twice": (f"{ZERO}{ISSUE * 3}", 1),
    "too far from the start": (FAR + ISSUE * 2, 0),
    "in a loop": (f"loop:\n{ISSUE}add.u32 %r9, %r9, 1;\nsetp.lt.u32 %p1, %r9, 4;\n@%p1 bra loop;\n", 0),
}  # fmt: skip


@pytest.mark.parametrize("case", REPEATS)
def test_repeats_that_ptxas_merges(case: str) -> None:
    body, count = REPEATS[case]
    found = by_rule(lint(text(FENCE + body + COMMIT), (12, 9)), "TL002")
    assert sum(f.count for f in found) == count
    assert len(found) <= 1


@pytest.mark.parametrize(
    ("toolkit", "confidence"),
    [
        (None, Confidence.MEDIUM), ((12, 0), Confidence.MEDIUM), ((13, 5), Confidence.MEDIUM), ((13, 6), Confidence.LOW),
    ],
)  # fmt: skip
def test_how_sure_a_merge_is(toolkit: tuple[int, int] | None, confidence: Confidence) -> None:
    (finding,) = by_rule(lint(text(FENCE + ISSUE + ISSUE + COMMIT), toolkit), "TL002")
    assert finding.confidence is confidence


COPY = "".join(f"mov.b32 %r{4 + i}, %r{14 + i};\n" for i in range(4))
MAKE = "".join(f"add.u32 %r{14 + i}, %r8, {i};\n" for i in range(4))
ONE = FENCE + FRAGMENT + COMMIT


def loop(body: str) -> str:
    return text(
        f"mov.u32 %r8, 0;\nloop:\n{body}add.u32 %r8, %r8, 1;\nsetp.lt.u32 %p1, %r8, %r9;\n@%p1 bra loop;\n"
    )


@pytest.mark.parametrize(
    ("body", "toolkit", "found"),
    [
        (MAKE + WAIT + COPY + ONE, (12, 0), True),
        (MAKE + WAIT + COPY + ONE, (13, 2), True),
        (MAKE + WAIT + COPY + ONE, (13, 3), False),
        (MAKE + WAIT + COPY + ONE, None, False),
        (WAIT + MAKE + COPY + ONE, (12, 9), False),
        (MAKE + COPY + ONE + WAIT, (12, 9), False),
        (COPY + ONE + MAKE + WAIT, (12, 9), False),
        (MAKE + WAIT + COPY.replace("mov.b32", "not.b32") + ONE, (12, 9), False),
    ],
)
def test_fragments_that_ptxas_overwrites(body: str, toolkit: tuple[int, int] | None, found: bool) -> None:
    findings = by_rule(lint(loop(body), toolkit), "TL003")
    assert bool(findings) is found
    for finding in findings:
        assert finding.message.startswith("%r14 is written in the next iteration")
        assert "its copy %r4:" in finding.message
        assert [s.message.split()[-1] for s in finding.steps] == ["%r4", "%r14"]
