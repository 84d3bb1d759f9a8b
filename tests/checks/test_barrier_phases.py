"""Deadlocks at barriers, and arrivals at a barrier that may count for the wrong phase."""

from __future__ import annotations

import pytest

from tclint.findings.scales import Confidence, Method
from tests.tools.support import by_rule, kernel, lint, module

TWO_ROLES = """
mov.u32 %r0, %tid.x;
shr.u32 %r4, %r0, 7;
mov.u32 %r3, 0;
setp.ge.u32 %p0, %r0, 128;
@%p0 bra second;
first:
{first}
add.u32 %r3, %r3, 1;
setp.lt.u32 %p1, %r3, 3;
@%p1 bra first;
ret;
second:
{second}
add.u32 %r3, %r3, 1;
setp.lt.u32 %p1, %r3, {often};
@%p1 bra second;
ret;
"""


def text(body: str, directives: str = ".reqntid 256") -> str:
    return module(kernel(body, directives=directives))


def roles(first: str, second: str, directives: str = ".reqntid 256", often: int = 3) -> str:
    """Two roles of 128 threads: the first executes its body three times, the second one *often*."""
    return text(TWO_ROLES.format(first=first, second=second, often=often), directives)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("bar.arrive 1, 256;\nbar.sync 2, 256;", "bar.sync 1, 256;\nbar.arrive 2, 256;"),
        ("bar.sync 1, 256;", "bar.sync 1, 256;"),
        ("bar.sync 1, 128;", "bar.sync 2, 128;"),
        ("add.u32 %r1, %r4, 1;\nbar.sync %r1, 128;", "add.u32 %r1, %r4, 1;\nbar.sync %r1, 128;"),
        ("bar.arrive 1, 256;\nbar.sync 0;", "bar.sync 1, 256;\nbar.sync 0;"),
    ],
)
def test_phases_that_a_handshake_orders_are_not_reported(first: str, second: str) -> None:
    assert not by_rule(lint(roles(first, second)), "CV015")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # Each half completes the barrier alone.
        ("bar.arrive 1, 128;\nbar.sync 2, 128;", "bar.sync 1, 128;\nbar.arrive 2, 128;"),
        # Two groups use one number at the same time.
        ("bar.sync 1, 128;", "bar.sync 1, 128;"),
        ("add.u32 %r1, %r4, 1;\nbar.sync %r1, 128;", "mov.u32 %r1, 1;\nbar.sync %r1, 128;"),
        # The wait is for threads that do not take part in the phase.
        ("bar.arrive 1, 256;\nbar.sync 2, 128;", "bar.sync 1, 256;"),
    ],
)
def test_phases_that_nothing_orders_are_reported(first: str, second: str) -> None:
    found = by_rule(lint(roles(first, second)), "CV015")
    assert found
    assert all(f.method is Method.REPLAY and "wrong phase of barrier" in f.message for f in found)


def test_the_first_arrival_of_an_overlap_is_the_oldest() -> None:
    """The first role runs ahead through all iterations, so its last arrival is of little help."""
    code = roles("bar.arrive 1, 128;\nbar.sync 2, 128;", "bar.sync 1, 128;\nbar.arrive 2, 128;")
    finding = by_rule(lint(code), "CV015")[0]
    assert finding.steps[0].message == "arrives in one phase, with a count of 128"
    assert finding.steps[0].role == "warps 0-3"
    assert finding.steps[-1].role == "warps 4-7"


@pytest.mark.parametrize(("count", "reported"), [(256, False), (128, True), (64, True)])
def test_more_threads_than_a_phase_counts_are_reported(count: int, reported: bool) -> None:
    found = by_rule(lint(text(f"bar.sync 1, {count};\nret;")), "CV015")
    assert [f.message.partition(",")[0] for f in found] == [
        "bar.sync is executed by 256 threads together at barrier 1"
    ] * reported


@pytest.mark.parametrize(
    ("between", "reported"),
    [
        ("", True),
        ("bar.warp.sync -1;", True),
        ("bar.sync 0;", False),
        ("bar.sync 2, 160;", False),
        ("again: mbarrier.try_wait.parity.shared::cta.b64 %p1, [m], 0;\n@!%p1 bra again;", False),
        ("again: ld.acquire.gpu.global.u32 %r1, [%rd0];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra again;", False),
    ],
)
def test_a_second_arrival_before_any_wait_is_reported(between: str, reported: bool) -> None:
    body = f""".shared .align 8 .b64 m;
mov.u32 %r0, %tid.x;
setp.ge.u32 %p0, %r0, 128;
@%p0 bra other;
bar.arrive 1, 160;
{between}
bar.sync 1, 160;
ret;
other:
bar.sync 1, 160;
{between.replace("again", "twice")}
bar.sync 1, 160;
ret;
"""
    found = by_rule(lint(text(body, ".reqntid 160")), "CV015")
    found = [f for f in found if f.method is Method.STATIC]
    assert len(found) == reported
    assert not found or "no wait lies between the two" in found[0].message


def test_an_arrival_on_a_path_that_iterates_without_a_wait_is_reported() -> None:
    """Memory decides which iterations wait, so no replay shows it."""
    first = """ld.param.u64 %rd0, [pointer];
ld.global.u32 %r1, [%rd0];
setp.eq.u32 %p2, %r1, 0;
@%p2 bra empty;
bar.sync 3, 256;
bra.uni next;
empty:
bar.arrive 3, 256;
next:"""
    (finding,) = by_rule(lint(roles(first, "bar.sync 3, 256;")), "CV015")
    assert finding.method is Method.STATIC
    assert not by_rule(lint(roles(first.replace("bar.arrive", "bar.sync"), "bar.sync 3, 256;")), "CV015")


def test_an_arrival_in_a_loop_of_unknown_trip_count_needs_no_number() -> None:
    first = """add.u32 %r8, %r9, 3;
ld.global.u32 %r1, [%rd0];
setp.eq.u32 %p2, %r1, 0;
@%p2 bra empty;
bar.sync %r8, 256;
bra.uni next;
empty:
bar.arrive %r8, 256;
next:"""
    code = roles(first, "bar.sync 3, 256;").replace("setp.lt.u32 %p1, %r3, 3;", "setp.lt.u32 %p1, %r3, %r7;")
    (finding,) = by_rule(lint(code), "CV015")
    assert "arrives at a barrier, and" in finding.message


def test_roles_that_pass_a_barrier_unequally_often_deadlock() -> None:
    assert not by_rule(lint(roles("bar.sync 1, 256;", "bar.sync 1, 256;")), "CV014")
    (finding,) = by_rule(lint(roles("bar.sync 1, 256;", "bar.sync 1, 256;", often=4)), "CV014")
    assert "barrier 1 waits for 256 threads, of which only 128 arrive" in finding.message
    assert finding.confidence is Confidence.HIGH


def test_a_barrier_of_the_whole_cta_does_not_wait_for_threads_that_have_exited() -> None:
    assert not by_rule(lint(roles("bar.sync 0;", "bar.sync 0;", often=4)), "CV014")


CLUSTER = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"


@pytest.mark.parametrize(
    ("first", "second", "directives", "confidence"),
    [
        (CLUSTER + "bar.sync 0;", "bar.sync 0;", ".reqntid 256", Confidence.HIGH),
        (CLUSTER + "bar.sync 0;", "bar.sync 0;", ".maxntid 256", Confidence.MEDIUM),
        (CLUSTER + "bar.sync 0;", CLUSTER + "bar.sync 0;", ".reqntid 256", None),
        (CLUSTER, CLUSTER, ".reqntid 256", None),
    ],
)
def test_a_role_that_alone_synchronises_the_cluster_deadlocks(
    first: str, second: str, directives: str, confidence: Confidence | None
) -> None:
    code = roles(first, second, f"{directives} .explicitcluster .reqnctapercluster 2")
    assert [f.confidence for f in by_rule(lint(code), "CV014")] == [confidence] * (confidence is not None)


def test_roles_from_the_launch_are_not_judged() -> None:
    """How many threads take part is a parameter, and no number is right in all launches."""
    code = text("""ld.param.u32 %r1, [number];
mov.u32 %r0, %tid.x;
setp.ge.u32 %p0, %r0, %r1;
@%p0 bra other;
bar.sync 1, 128;
ret;
other:
bar.sync 1, 128;
bar.sync 1, 128;
ret;
""")
    assert not by_rule(lint(code), "CV014")
    assert not by_rule(lint(code), "CV015")


def test_an_order_that_polled_memory_may_establish_is_left_open() -> None:
    poll = """ld.param.u64 %rd0, [pointer];
again: ld.acquire.gpu.global.u32 %r1, [%rd0];
setp.eq.u32 %p2, %r1, 0;
@%p2 bra again;
"""
    code = roles(f"bar.sync 1, 128;\n{poll}", "bar.sync 1, 128;")
    report = lint(code)
    assert not by_rule(report, "CV015")
    assert [q.why for q in report.open_questions if q.question == "order of arrivals at a barrier"] == [
        "threads poll memory"
    ]
