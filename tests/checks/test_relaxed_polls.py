"""MO003: flags that are polled without an acquire."""

from __future__ import annotations

import pytest

from tests.tools.support import by_rule, kernel, lint, module

START = """
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    cvta.to.global.u64 %rd0, %rd0;
    mul.wide.u32 %rd1, %r0, 4;
    add.u64 %rd1, %rd1, %rd0;
    setp.eq.u32 %p0, %r0, 0;
"""
POLL = "poll:\nld.relaxed.gpu.global.u32 %r1, [%rd0+4096];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra poll;"
LEADER = f"@!%p0 bra ready;\n{POLL}\n{{}}\nready:\nbar.sync 0;"
READ = "ld.global.u32 %r2, [%rd1];"
FENCE = "fence.acq_rel.gpu;"


def text(*body: str) -> str:
    return module(kernel("\n".join((START, *body, "st.global.u32 [%rd1+8192], %r2;", "ret;"))))


@pytest.mark.parametrize(
    ("body", "early"),
    [
        ([POLL, READ], True),
        ([LEADER.format(""), READ], True),
        ([LEADER.format(""), "@!%p0 ld.global.u32 %r2, [%rd1];"], True),
        ([POLL, "cp.async.ca.shared.global [%r5], [%rd1], 4;"], True),
        ([POLL.replace(".gpu", ".sys"), READ], True),
        ([POLL, FENCE, READ], False),
        ([POLL, "membar.gl;", READ], False),
        ([LEADER.format(FENCE), READ], False),
        ([LEADER.format(""), FENCE, READ], False),
        ([POLL, "ld.acquire.gpu.global.u32 %r3, [%rd0+4096];", READ], False),
        ([POLL.replace(".relaxed.", ".acquire."), READ], False),
        ([POLL.replace(".relaxed.gpu.", ".volatile."), READ], False),
        ([POLL.replace(".gpu", ".cta"), READ], False),
        ([POLL, READ.replace("global", "global.nc")], False),
        ([POLL, READ.replace("global", "volatile.global")], False),
        ([POLL, "ld.shared.u32 %r2, [%r5];"], False),
        ([READ, POLL], False),
    ],
)
def test_data_is_read_after_a_relaxed_poll(body: list[str], early: bool) -> None:
    assert len(by_rule(lint(text(*body)), "MO003")) == early


def test_a_polled_value_that_is_also_data_is_not_a_flag() -> None:
    """A look-back reads a status and a prefix in one word, and needs no order with other words."""
    uses = "st.global.u32 [%rd1+4096], %r1;"
    assert not by_rule(lint(text(POLL, uses, READ)), "MO003")


def test_a_loop_over_many_addresses_is_not_a_poll() -> None:
    search = POLL.replace("setp", "add.u64 %rd0, %rd0, 4;\nsetp")
    assert not by_rule(lint(text(search, READ)), "MO003")


def test_a_read_in_the_next_iteration_has_low_confidence() -> None:
    (finding,) = by_rule(lint(text("next:", READ, POLL, "setp.ne.u32 %p2, %r2, 0;\n@%p2 bra next;")), "MO003")
    assert finding.confidence.label == "low"


def test_the_steps_name_the_barrier_that_is_not_an_acquire() -> None:
    (finding,) = by_rule(lint(text(LEADER.format(""), READ)), "MO003")
    assert [step.message for step in finding.steps] == [
        "orders no other access after the flag",
        "orders the threads of this CTA only",
        "may read the data from before the flag was set",
    ]
