"""The gate on figures of ptxas: limits, growth, another ptxas, and what is silent."""

from __future__ import annotations

import pytest

from tclint.findings.figures import (
    ANYWHERE,
    RULES,
    WORDS,
    Assembled,
    Budget,
    Figure,
    Judged,
    KernelFigures,
    Limit,
    Recorded,
    figures_line,
)
from tclint.findings.finding import FileReport
from tclint.findings.moved import subjects
from tclint.findings.rules import default_rules
from tclint.findings.scales import Severity
from tclint.findings.selection import Request, Selected
from tclint.linting.check import check_source
from tclint.syntax.source import Source

TEXT = """\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry gemm(.param .u64 p) { ret; }
.visible .entry copy() { ret; }
"""
ON = subjects(default_rules() | set(RULES))


def kernel(name: str, **amounts: int | None) -> KernelFigures:
    named = {key.replace("_", "-"): amount for key, amount in amounts.items()}
    counts = dict.fromkeys(WORDS, 0) | {"registers": 40} | named
    return KernelFigures(name, tuple(Figure(*pair) for pair in counts.items()))


def recorded(figures: KernelFigures, ptxas: str = "13.5.37", target: str = "sm_90a") -> Recorded:
    return Recorded(*ANYWHERE, ptxas, target, figures)


def run(
    *kernels: KernelFigures,
    limits: tuple[Limit, ...] = (),
    before: tuple[Recorded, ...] = (),
    text: str = TEXT,
    selected: Selected | None = None,
    **options: object,
) -> FileReport:
    budget = Budget(limits, **{key: options.pop(key) for key in ("allowance",) if key in options})  # type: ignore[arg-type]
    made = (*kernels, *(kernel(name) for name in ("gemm", "copy") if name not in {k.kernel for k in kernels}))
    judged = Judged(budget, Assembled("13.5.37", "sm_90a", made), before, **options)  # type: ignore[arg-type]
    request = Request(selected or Selected(rules=ON), judged=judged)
    return check_source(Source.from_bytes(text.encode(), "k.ptx"), request)


def said(report: FileReport) -> list[str]:
    return [
        f"{f.severity.label} {f.rule.id} {f.entry}: {f.message}"
        for f in report.findings
        if f.suppressed is None
    ]


def limit(*kernels: str, targets: tuple[str, ...] = (), **most: int) -> Limit:
    return Limit(kernels, targets, tuple((key.replace("_", "-"), amount) for key, amount in most.items()))


# ---------------------------------------------------------------- limits


def test_what_is_at_its_limit_is_silent_and_what_is_above_it_is_an_error() -> None:
    assert said(run(limits=(limit(registers=40, stack=0, shared=0),))) == []
    found = run(kernel("gemm", registers=41, stack=1), limits=(limit(registers=40, stack=0),))
    assert said(found) == [
        "error PB001 gemm: ptxas needs 41 registers, and the limit is 40",
        "error PB001 gemm: ptxas needs 1 byte of stack, and the limit is 0",
    ]
    assert {found.source.position(f.span.start).line for f in found.findings if found.source} == {4}


def test_a_limit_is_for_the_kernels_and_targets_that_match_and_the_last_one_counts() -> None:
    assert said(run(limits=(limit("copy", registers=8),))) == [
        "error PB001 copy: ptxas needs 40 registers, and the limit is 8"
    ]
    assert said(run(limits=(limit("c*y", targets=("sm_100*",), registers=8),))) == []
    assert len(said(run(limits=(limit(targets=("sm_100*", "sm_9*"), registers=8),)))) == 2
    assert said(run(limits=(limit(registers=8), limit("gemm", registers=40)))) == [
        "error PB001 copy: ptxas needs 40 registers, and the limit is 8"
    ]


def test_messages_are_limited_by_code_or_by_many() -> None:
    made = kernel("gemm", C7510=2, C7511=1)
    assert said(run(made, limits=(Limit(most=(("C7510", 2),)),))) == []
    assert said(run(made, limits=(Limit(most=(("C7510", 0),)),))) == [
        "error PB001 gemm: ptxas prints 2 C7510 messages, and the limit is 0"
    ]
    assert said(run(made, limits=(Limit(most=(("C75xx", 2),)),))) == [
        "error PB001 gemm: ptxas prints 2 C7510 messages and 1 C7511 message, and the limit is 2"
    ]
    assert said(run(made, limits=(Limit(most=(("C74xx", 0), ("C751x", 3))),))) == []
    of_module = KernelFigures("", (Figure("C7508", 1),))
    (found,) = run(of_module, limits=(Limit(most=(("C75xx", 0),)),)).findings
    assert (found.entry, found.message) == (None, "ptxas prints 1 C7508 message, and the limit is 0")
    assert said(run(of_module, limits=(Limit(("gemm",), (), (("C75xx", 0),)),))) == []


def test_what_ptxas_cannot_determine_fails_no_run() -> None:
    found = run(kernel("gemm", stack=None), limits=(limit(stack=0),))
    assert said(found) == ["info PB001 gemm: ptxas cannot determine the bytes of stack, and the limit is 0"]
    assert said(run(kernel("gemm", stack=None))) == []


def test_a_kernel_that_is_not_selected_has_no_finding() -> None:
    selected = Selected(rules=ON, entry=("copy",))
    assert len(said(run(limits=(limit(registers=8),), selected=selected))) == 1


def test_a_finding_is_distinguished_by_its_figure_and_not_by_its_amount() -> None:
    limits = (limit(registers=8, stack=0),)
    first = [f.fingerprint for f in run(kernel("gemm", stack=8), limits=limits).findings]
    second = [f.fingerprint for f in run(kernel("gemm", registers=99, stack=9), limits=limits).findings]
    assert first == second
    assert len({name.partition(":")[0] for name in first}) == 3


def test_a_comment_suppresses_the_finding_and_is_unused_without_it() -> None:
    text = TEXT.replace(
        ".visible .entry gemm", "// tclint: ignore-entry[PB001] for now\n.visible .entry gemm"
    )
    found = run(limits=(limit(registers=8),), text=text)
    assert [(f.entry, f.suppressed) for f in found.findings] == [("gemm", "for now"), ("copy", None)]
    assert [f.rule.id for f in run(text=text).findings] == ["SU001"]
    without = check_source(Source.from_bytes(text.encode(), "k.ptx"), Request(Selected(rules=ON)))
    assert without.findings == ()  # no figures were asked for, so nothing is known of the comment


# ---------------------------------------------------------------- growth


def test_growth_beyond_the_allowance_is_an_error_and_everything_else_is_silent() -> None:
    before = (recorded(kernel("gemm", registers=36, stack=16, C7510=1)),)
    assert said(run(kernel("gemm", stack=24, C7510=2), before=before)) == [
        "error PB002 gemm: ptxas needs 40 registers, and it needed 36 before",
        "error PB002 gemm: ptxas needs 24 bytes of stack, and it needed 16 before",
        "error PB002 gemm: ptxas prints 2 C7510 messages, and it printed 1 before",
    ]
    allowance = (("registers", 4), ("stack", 8), ("C75xx", 1))
    assert said(run(kernel("gemm", stack=24, C7510=2), before=before, allowance=allowance)) == []
    assert said(run(kernel("gemm", stack=25), before=before, allowance=allowance)) == [
        "error PB002 gemm: ptxas needs 25 bytes of stack, and it needed 16 before"
    ]
    assert said(run(kernel("gemm", registers=30), before=before)) == []


def test_a_message_that_is_new_and_a_figure_that_is_no_longer_known_are_growth() -> None:
    before = (recorded(kernel("gemm")),)
    assert said(run(kernel("gemm", C7510=1), before=before)) == [
        "error PB002 gemm: ptxas prints 1 C7510 message, and it printed 0 before"
    ]
    assert said(run(kernel("gemm", stack=None), before=before)) == [
        "info PB002 gemm: ptxas cannot determine the bytes of stack, and it needed 0 before"
    ]
    assert said(run(kernel("gemm"), before=(recorded(kernel("gemm", stack=None)),))) == []


def test_growth_beyond_a_limit_is_one_finding_if_the_limit_is_newly_exceeded() -> None:
    limits, grown = (limit(registers=40),), kernel("gemm", registers=48)
    assert [s.split()[1] for s in said(run(grown, limits=limits, before=(recorded(kernel("gemm")),)))] == [
        "PB001"
    ]
    worse = (recorded(kernel("gemm", registers=44)),)
    assert [s.split()[1] for s in said(run(grown, limits=limits, before=worse))] == ["PB001", "PB002"]
    off = Selected(rules=ON - {"PB001"})
    assert [
        s.split()[1]
        for s in said(run(grown, limits=limits, before=(recorded(kernel("gemm")),), selected=off))
    ] == ["PB002"]


def test_only_the_same_kernel_and_target_is_compared() -> None:
    small = kernel("gemm", registers=8)
    assert said(run(before=(recorded(small, target="sm_100a"),))) == []
    assert said(run(before=(recorded(kernel("other", registers=8)),))) == []
    assert len(said(run(before=(recorded(small), recorded(kernel("gemm")))))) == 1  # the first one counts


# ---------------------------------------------------------------- another ptxas


def test_another_ptxas_is_one_error_for_the_module_and_no_growth() -> None:
    before = tuple(recorded(kernel(name, registers=36), "12.9.86") for name in ("gemm", "copy"))
    found = run(kernel("gemm", stack=8), before=before)
    assert said(found) == [
        "error PB003 None: ptxas is 13.5.37, and the baseline was recorded with 12.9.86"
        + "; the figures differ: gemm: registers 36 -> 40, bytes of stack 0 -> 8; copy: registers 36 -> 40"
    ]
    same = tuple(recorded(kernel(name), "12.9.86") for name in ("gemm", "copy"))
    assert said(run(before=same)) == [
        "error PB003 None: ptxas is 13.5.37, and the baseline was recorded with 12.9.86"
    ]


def test_an_accepted_ptxas_is_a_note_where_figures_differ_and_limits_hold() -> None:
    before = (recorded(kernel("gemm", registers=36), "12.9.86"),)
    (found,) = run(before=before, accept=True).findings
    assert (found.rule.id, found.severity) == ("PB003", Severity.INFO)
    assert run(before=(recorded(kernel("gemm"), "12.9.86"),), accept=True).findings == ()
    limited = run(before=before, accept=True, limits=(limit(registers=8),))
    assert [f.rule.id for f in limited.findings] == ["PB003", "PB001", "PB001"]


# ---------------------------------------------------------------- problems, words


def test_a_kernel_without_figures_makes_the_report_partial() -> None:
    made = Assembled("13.5.37", "sm_90a", (kernel("gemm"),))
    request = Request(Selected(rules=ON), judged=Judged(Budget(), made))
    report = check_source(Source.from_bytes(TEXT.encode(), "k.ptx"), request)
    assert report.status == "partial"
    assert [p.message for p in report.problems] == ["ptxas 13.5.37 printed no figures of copy"]


@pytest.mark.parametrize("text", [TEXT, "// nothing\n"])
def test_why_there_are_no_figures_is_said_once(text: str) -> None:
    judged = Judged(Budget(), Assembled("13.5.37"), problem="no figures")
    report = check_source(
        Source.from_bytes(text.encode(), "k.ptx"), Request(Selected(rules=ON), judged=judged)
    )
    assert len(report.problems) == 1
    assert ("no figures" in report.problems[0].message) == (text == TEXT)


@pytest.mark.parametrize(
    ("figures", "line"),
    [
        (kernel("k", registers=0), "0 registers"),
        (
            kernel("k", registers=1, barriers=1, stack=1, shared=1024),
            "1 register, 1 barrier, 1 byte of stack, 1024 bytes of shared memory",
        ),
        (
            kernel("k", stack=None, C7510=1),
            "40 registers, an unknown number of bytes of stack, 1 C7510 message",
        ),
    ],
)
def test_the_figures_of_a_kernel_on_a_line(figures: KernelFigures, line: str) -> None:
    assert figures_line(figures) == line
