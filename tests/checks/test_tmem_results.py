"""Results in tensor memory that a role reads without being ordered after their completion."""

from __future__ import annotations

from tclint.findings.finding import Finding
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.pages import block


def reported(code: str) -> list[Finding]:
    return [
        f for f in check_source(Source.from_bytes(code.encode(), "k.ptx")).findings if f.rule.id == "TC001"
    ]


def test_the_message_and_the_steps_of_the_finding() -> None:
    (finding,) = reported(block("TC001", "read_by_another_role"))
    assert finding.message == (
        "tcgen05.ld reads the result of tcgen05.mma of another role, on a path with no wait that guarantees its completion"
    )
    assert [(step.message, step.role) for step in finding.steps] == [
        ("tcgen05.mma starts", "thread 0"),
        ("tcgen05.ld reads the same columns", "warps 4-7"),
    ]


def test_a_barrier_after_a_wait_of_the_issuing_thread_orders_the_read() -> None:
    code = block("TC001", "read_by_another_role")
    waiting = "wait:\nmbarrier.try_wait.parity.shared.b64 %p2, [done], 0;\n@!%p2 bra wait;\nbar.sync 1, 160;\n    bra over;"
    later = code.replace("    bra over;\nstore:\n", f"{waiting}\nstore:\n    bar.sync 1, 160;\n")
    assert later != code
    assert not reported(later)


def test_other_columns() -> None:
    code = block("TC001", "read_by_another_role")
    assert not reported(code.replace("[%r4];\n    tcgen05.wait", "[%r4+96];\n    tcgen05.wait"))
