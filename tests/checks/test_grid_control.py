"""Programmatic dependent launch: accesses before the wait for earlier grids, and kernels that never wait."""

from __future__ import annotations

import pytest

from tclint.findings.finding import Finding
from tclint.findings.scales import Confidence
from tclint.findings.selection import Request
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.support import by_rule, kernel, lint, module

HEADER = ".version 8.6\n.target sm_100a\n.address_size 64\n"
START = """
    .shared .align 16 .b8 tile[64];
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 other;
    mov.u32 %r0, %tid.x;
    setp.lt.u32 %p1, %r0, 64;
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    cvta.to.global.u64 %rd1, %rd0;
    mov.u32 %r1, tile;
    mov.u32 %r7, full;
"""


def passes(name: str, mbarrier: str = "full", parity: str = "0") -> str:
    return f"{name}:\nmbarrier.try_wait.parity.shared.b64 %p2, [{mbarrier}], {parity};\n@!%p2 bra {name};"


def hits(
    rule: str, body: str, directives: str = "", *, low: bool = False, dependent: bool = False
) -> list[Finding]:
    text = module(kernel(f"{START}\n{body}\nret;", directives=directives), header=HEADER)
    report = check_source(Source(text.encode(), "t.ptx"), Request(dependent=dependent))
    assert report.status == "analysed", report.problems
    return [f for f in by_rule(report, rule) if low or f.confidence > Confidence.LOW]


PDL = "griddepcontrol.wait;"
LOADED = "ld.global.u32 %r10, [%rd1];"
SIGNAL = "mbarrier.arrive.shared::cta.b64 _, [full];"
STORED = "st.global.u32 [%rd1+1024], %r10;"


@pytest.mark.parametrize(
    ("body", "label"),
    [
        (f"{PDL}\n{LOADED}\n{STORED}", ""),
        (f"{LOADED}\n{PDL}\n{STORED}", "info"),
        (f"{LOADED}\n{PDL}", ""),
        (f"bar.sync 0;\n@%p1 bra released;\n{LOADED}\nret;\nreleased:\n{PDL}\n{LOADED}", "info"),
        (f"@%p1 bra released;\nbar.sync 0;\n{LOADED}\nret;\nreleased:\n{PDL}\n{LOADED}\nbar.sync 0;", ""),
        (
            f"@%p1 bra released;\n{passes('fresh', parity='1')}\n{LOADED}\nret;\nreleased:\n{PDL}\n{LOADED}",
            "info",
        ),
        (f"@%p1 bra released;\n{passes('ready')}\n{LOADED}\nret;\nreleased:\n{PDL}\n{LOADED}", ""),
        # A thread that waits has arrived there, or had done so before.
        (f"@%p1 bra released;\n{passes('ready')}\n{LOADED}\nret;\nreleased:\n{PDL}\n{SIGNAL}\n{LOADED}", ""),
        (
            f"@%p1 bra released;\n{passes('ready')}\n{LOADED}\nret;\nreleased:\n{SIGNAL}\n{PDL}\n{LOADED}",
            "info",
        ),
    ],
)
def test_earlier_grids_are_waited_for(body: str, label: str) -> None:
    assert [f.severity.label for f in hits("GD001", body, ".reqntid 128")] == ([label] if label else [])


def test_a_role_for_weights_is_for_the_pedantic() -> None:
    body = f"@%p1 bra released;\n{LOADED}\nret;\nreleased:\n{PDL}"
    assert not hits("GD001", body, ".reqntid 128")
    assert [f.severity.label for f in hits("GD001", body, ".reqntid 128", low=True)] == ["warning"]


@pytest.mark.parametrize(
    ("buffer", "labels"),
    [("weights", []), ("acts", ["warning"])],  # the role that waits never loads the weights
)
def test_a_role_that_tests_its_predicate_again_is_the_same_role(buffer: str, labels: list[str]) -> None:
    def load(name: str) -> str:
        return (
            f"ld.param.u64 %rd1, [{name}];\n"
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r7];"
        )

    body = f"""
    @%p1 bra again;
    {PDL}
again:
    @%p1 bra second;
    {load("acts")}
    bra done;
second:
    {load(buffer)}
done:
    """
    options = ".param .u64 pointer, .param .u32 number, .param .u64 weights, .param .u64 acts"
    report = lint(
        module(kernel(f"{START}\n{body}\nret;", parameters=options, directives=".reqntid 128"), header=HEADER)
    )
    found = [f for f in by_rule(report, "GD001") if f.confidence is not Confidence.LOW]
    assert [f.severity.label for f in found] == labels, report.problems


def test_a_bulk_load_of_what_another_role_waits_for_is_a_warning() -> None:
    load = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r7];"
    body = f"@%p1 bra released;\n{load}\nret;\nreleased:\n{PDL}\n{load}"
    assert [f.severity.label for f in hits("GD001", body, ".reqntid 128")] == ["warning"]


def test_the_first_kernel_of_a_chain_may_only_launch() -> None:
    launch = f"griddepcontrol.launch_dependents;\n{LOADED}"
    assert [f.severity.label for f in hits("GD002", launch, ".reqntid 128")] == ["info"]
    assert not hits("GD002", "griddepcontrol.launch_dependents;", ".reqntid 128")
    generic = "griddepcontrol.launch_dependents;\nld.param.u64 %rd9, [pointer];\nld.u32 %r9, [%rd9];"
    assert [f.severity.label for f in hits("GD002", generic, ".reqntid 128")] == ["info"]
    own = ".local .b32 kept;\nmov.u64 %rd8, kept;\ncvta.local.u64 %rd9, %rd8;\nld.u32 %r9, [%rd9];"
    assert not hits("GD002", f"griddepcontrol.launch_dependents;\n{own}", ".reqntid 128")
    later = kernel(f"{START}\n{PDL}\n{LOADED}\nret;", "later")
    report = lint(module(kernel(f"{START}\n{launch}\nret;"), later, header=HEADER))
    assert not by_rule(report, "GD002")


def test_the_next_kernel_may_be_the_dependent() -> None:
    first, second = (
        kernel(f"{START}\n{body}\nret;", name)
        for name, body in (("first", f"griddepcontrol.launch_dependents;\n{LOADED}"), ("second", LOADED))
    )
    (found,) = by_rule(lint(module(first, second, header=HEADER)), "GD002")
    assert [(step.entry, step.message) for step in found.steps] == [
        ("second", "second reads global memory and may be a dependent")
    ]


INDEX = """mov.u32 %r9, %ctaid.x;
mad.lo.u32 %r10, %r9, 128, %r0;
mul.wide.u32 %rd4, %r10, 4;
ld.param.u64 %rd5, [pointer];
ld.param.u64 %rd6, [more];
add.s64 %rd7, %rd5, %rd4;
add.s64 %rd8, %rd6, %rd4;
"""
EARLY, LATE = "ld.global.u32 %r11, [%rd7];", "st.global.u32 [%rd8], %r11;"
COUNT = "ld.global.u32 %r11, [%rd5+64];\nsetp.ge.u32 %p3, %r0, %r11;\n@%p3 bra end;"
SOME = "setp.ge.u32 %p3, %r0, 32;\n@%p3 bra on;\ngriddepcontrol.wait;\non:"


@pytest.mark.parametrize(
    ("body", "rule", "note", "assumed"),
    [
        (f"{EARLY}\n{PDL}\n{LATE}", "GD001", "info", "error"),
        (f"{PDL}\n{EARLY}\n{LATE}", "GD001", "", ""),
        # Weights: the thread alone, or the CTA alone, decides the index.
        (f"ld.global.u32 %r11, [%rd1];\n{PDL}\n{LATE}", "GD001", "", ""),
        (f"mul.wide.u32 %rd9, %r9, 4;\nadd.s64 %rd9, %rd5, %rd9;\nld.global.u32 %r11, [%rd9];\n{PDL}\n{LATE}", "GD001", "", ""),
        (f"{COUNT}\n{PDL}\n{LATE}\nend:", "GD001", "", "warning"),
        (f"bar.sync 0;\n{EARLY}\n{PDL}\n{LATE}", "GD001", "info", "error"),
        # Some warps wait, and the others do not.
        (f"{SOME}\n{EARLY}\n{LATE}", "GD001", "info", "error"),
        (f"{SOME}\nbar.sync 0;\n{EARLY}\n{LATE}", "GD001", "", ""),
        # A flag of the launch decides whether it is one in which the kernel has to wait.
        (f"setp.eq.u32 %p3, %r8, 0;\n@%p3 bra on;\n{PDL}\non:\n{EARLY}\n{LATE}".replace("%r8", "%r12"), "GD001", "", ""),
        (f"{LATE}\n{PDL}\n{EARLY}", "GD003", "info", "error"),
        (f"{PDL}\n{LATE}", "GD003", "", ""),
        (f"{SOME}\nbar.sync 0;\n{LATE}", "GD003", "", ""),
        (f"setp.ne.u32 %p3, %r12, 0;\n@%p3 bra on;\n{LATE}\nret;\non:\n{PDL}\n{EARLY}", "GD003", "info", "error"),
        (f"setp.ge.u32 %p3, %r10, %r12;\n@%p3 bra end;\n{PDL}\n{EARLY}\n{LATE}\nend:", "GD003", "", ""),
        (f"griddepcontrol.launch_dependents;\n{EARLY}\n{LATE}", "GD002", "info", "error"),
        (f"griddepcontrol.launch_dependents;\n{PDL}\n{EARLY}\n{LATE}", "GD002", "", ""),
    ],
)  # fmt: skip
def test_what_a_dependent_does_before_it_waits(body: str, rule: str, note: str, assumed: str) -> None:
    """A note asks about it; where the launch is assumed to be that of a dependent, it is wrong."""
    options = ".param .u64 pointer, .param .u32 number, .param .u64 more"
    start = f"{START}\nld.param.u32 %r12, [number];\n{INDEX}"
    text = module(
        kernel(f"{start}{body}\nret;", parameters=options, directives=".reqntid 128"), header=HEADER
    )
    for dependent, label in ((False, note), (True, assumed)):
        report = check_source(Source(text.encode(), "t.ptx"), Request(dependent=dependent))
        assert report.status == "analysed", report.problems
        assert [f.severity.label for f in by_rule(report, rule)] == ([label] if label else [])


def test_a_dependent_waits_whatever_other_kernels_do() -> None:
    launch = f"griddepcontrol.launch_dependents;\n{LOADED}"
    later = kernel(f"{START}\n{PDL}\n{LOADED}\nret;", "later")
    text = module(kernel(f"{START}\n{launch}\nret;"), later, header=HEADER)
    report = check_source(Source(text.encode(), "t.ptx"), Request(dependent=True))
    (found,) = by_rule(report, "GD002")
    assert found.severity.label == "error"
    assert "never executes griddepcontrol.wait" in found.message
