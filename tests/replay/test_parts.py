"""Replays: the parts of the machine, each by itself."""

from __future__ import annotations

from functools import reduce
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tclint.checks.replay import replayed
from tclint.ir.nodes import Immediate
from tclint.replay.abstract_lanes import LaneResults, apply, collapse, gather, merge, select
from tclint.replay.epochs import Epochs
from tclint.replay.launch import LaunchValues, ReplayLaunch
from tclint.replay.machine import ReplayMachine
from tclint.replay.operations import IssuedOperations
from tclint.replay.plans import Plans
from tclint.replay.program import ReplaySlice
from tclint.replay.scheduler import Limits, OutOfSteps
from tclint.replay.steps import defining_step
from tclint.replay.sync import PendingTransfer, ReplayBarrier, ReplayMbarrier
from tclint.replay.vector_clocks import (
    BOTTOM,
    Agent,
    Clock,
    difference,
    event,
    happens_before,
    join,
    last_event,
    leq,
    project,
)
from tests.tools.replay import FILLED, changed, replay, what
from tests.tools.support import model


@pytest.mark.parametrize("kind", [".f16x2", ".bf16", ".b128", ".pred", ".f16"])
def test_registers_of_any_type(kind: str) -> None:
    body = f"""
    .reg {kind} %x;
    .shared .align 8 .b64 ready;
    setp.eq.u32 %p0, %r1, 0;
    @%p0 mbarrier.init.shared.b64 [ready], 1;
    bar.sync 0;
again:
    mbarrier.try_wait.parity.shared.b64 %p1, [ready], 0;
    @!%p1 bra again;
    ret;"""
    assert {hit.rule for hit in replayed(model(body))} <= {"MB006", "MB016"}


def test_results_are_computed_once() -> None:
    asked = []

    def quotient(a: int, b: int) -> int:
        asked.append((a, b))
        return a // b

    by_two = LaneResults(quotient, [1, Immediate(2)])
    lanes = 8, 6, None, 6
    assert [by_two[held] for held in (8, lanes, 8, lanes, None)] == [
        4,
        (4, 3, None, 3),
        4,
        (4, 3, None, 3),
        None,
    ]
    assert asked == [(8, 2), (8, 2), (6, 2), (6, 2)]
    assert LaneResults(quotient, [1, 2])[(8, 6), (0, 1)] is None
    assert LaneResults(quotient, [Immediate(9), Immediate(3)])[()] == 3
    either = LaneResults(lambda a, b: a | b, [1, 2], decisive=1)
    assert [either[held] for held in ((None, 1), (None, 0), (0, 0))] == [1, None, 0]


def test_instructions_share_results_only_if_they_compute_the_same() -> None:
    body = """
    add.u32 %r1, %r9, 4;
    add.u32 %r2, %r8, 4;
    add.u32 %r3, %r9, 8;
    add.u32 %r4, 4, %r9;
    add.s64 %rd1, %rd2, 4;
    sub.u32 %r5, %r9, 4;
    add.u32 %r6, %r9, %r8;
    mov.b32 %r7, 1;
    mov.b32 %r10, 0f3F800000;
    ret;
"""
    made = model(body)
    plans = Plans(made, [])
    computing = [defining_step(made, i) for i in range(len(made.function.instructions) - 1)]
    results = [plans.plan(step).results for step in computing]
    assert results[0] is results[1]
    assert len(set(map(id, results))) == len(results) - 1
    assert results[7][()] == 1
    assert results[8][()] is None


@pytest.mark.parametrize("seed", range(20))
def test_what_precedes_an_issue_in_time_is_closed_over_all_earlier_issues(seed: int) -> None:
    random, operations = Random(seed), IssuedOperations(Epochs(ReplaySlice(model("ret;"))))
    engines = [Agent(i, "copy", 0) for i in range(4)]
    warps = [Agent(4 + i, "", 0, (32 * i,)) for i in range(3)]
    preceding: dict[tuple[Agent, int], Clock] = {}
    events: list[tuple[Agent, int]] = []

    def clock() -> Clock:
        chosen = [*random.choices(events, k=2), (random.choice(warps), random.randrange(9))] if events else []
        return reduce(join, [event(*each) for each in chosen], BOTTOM)

    def closure(observed: Clock) -> Clock:
        known = BOTTOM
        while known != observed:
            known = observed
            for agent, number in events:
                if happens_before(known, agent, number):
                    observed = join(observed, preceding[agent, number])
        return known

    for _ in range(30):
        before, agent = clock(), random.choice(engines)
        number = operations.begin_copy(agent, before)
        preceding[agent, number] = before
        events.append((agent, number))
        observed = clock()
        for other in (*engines, *warps):
            for n in range(9):
                assert operations.ordered_in_time(observed, other, n) == happens_before(
                    closure(observed), other, n
                )


@pytest.mark.parametrize("steps", range(1, 12))
def test_no_more_steps_are_taken_than_there_are(steps: int) -> None:
    """Whether they are executed one by one or at once."""
    made = model(
        "mov.u32 %r1, 64; mov.u32 %r2, 1; add.u32 %r3, %r2, 1; mbarrier.init.shared.b64 [%r1], %r3; bra over; over: ret;"
    )
    launch = ReplayLaunch(made, LaunchValues(512, 8), (1,))
    machine = ReplayMachine(ReplaySlice(made), launch, Limits(steps))
    patient = ReplayMachine(ReplaySlice(made), launch, Limits(steps, extra_steps=100))
    whole = ReplayMachine(ReplaySlice(made), launch, Limits(100))
    whole.run()
    patient.run()
    taken = 100 - whole.budget
    assert patient.limits.steps - patient.budget == taken
    if steps < taken:
        with pytest.raises(OutOfSteps):
            machine.run()
        assert machine.budget == -1
    else:
        machine.run()
        assert machine.budget == steps - taken


def test_lanes() -> None:
    assert collapse([3, 3, 3]) == 3
    assert collapse([3, None, 3]) == (3, None, 3)
    assert apply(lambda a, b: a + b, [1, (1, None, 3)]) == (2, None, 4)
    assert apply(lambda a, b: a + b, [None, 1]) is None
    assert apply(lambda a: a >> 1, [(2, 3)]) == 1
    assert select((1, 0, 1), 5, (1, 5, 5), 3) == 5
    assert select(None, 1, 2, 3) is None
    assert gather((1, 2, 3), [0, 2]) == (1, 3)
    assert gather(7, [0, 2]) == 7
    assert merge([((0, 2), (5, 6)), ((1,), 7)], 3) == (5, 7, 6)
    assert merge([((0, 2), 5), ((1,), 5)], 3) == 5


A, B, C = (Agent(index, "", 0) for index in range(3))
OBSERVED = st.dictionaries(st.integers(0, 9) | st.integers(30, 40), st.integers(0, 2**31 - 2))
"""The numbers of the last events of actors, by the index of the actor."""


def clock(observed: dict[int, int]) -> Clock:
    return sum(event(Agent(index, "", 0), number) for index, number in observed.items())


@given(OBSERVED, OBSERVED)
def test_clocks(a: dict[int, int], b: dict[int, int]) -> None:
    """A number does what a dict would do."""
    both = {index: max(a.get(index, -1), b.get(index, -1)) for index in {*a, *b}}
    assert join(clock(a), clock(b)) == clock(both)
    assert leq(clock(a), clock(b)) == all(b.get(index, -1) >= number for index, number in a.items())
    assert dict(difference(clock(a), clock(b))) == {i: n for i, n in b.items() if n > a.get(i, -1)}
    for index in (*range(10), *range(30, 41)):
        actor = Agent(index, "", 0)
        assert last_event(clock(a), actor) == a.get(index, -1)
        assert project([actor], clock(a)) == clock({i: n for i, n in a.items() if i == index})


def test_an_mbarrier_waits_for_arrivals_and_bytes() -> None:
    mbarrier = ReplayMbarrier(2, 0, 0)
    assert mbarrier.complete(1)  # the phase before the first
    assert not mbarrier.complete(0)
    mbarrier.expect(32)
    mbarrier.arrive(1)
    mbarrier.release(event(A, 1))
    mbarrier.transfers.append(PendingTransfer(event(C, 1), 16))
    mbarrier.arrive(1)
    mbarrier.release(event(B, 1))
    assert [*mbarrier.complete_transfers()]
    assert mbarrier.phase == 0  # 16 bytes are missing
    mbarrier.transfers.append(PendingTransfer(event(C, 2), None))
    assert [*mbarrier.complete_transfers()]
    assert (mbarrier.phase, mbarrier.pending, mbarrier.bytes) == (1, 2, 0)
    assert mbarrier.release_clocks == [BOTTOM, clock({0: 1, 1: 1, 2: 2})]
    assert mbarrier.complete(0)
    assert not [*mbarrier.complete_transfers()]


def test_a_wait_acquires_only_what_is_certain() -> None:
    """A thread that waits late observes no more than one that waited in time."""
    mbarrier = ReplayMbarrier(1, 0, 0)
    for time in range(3):
        mbarrier.arrive(1)
        mbarrier.release(event(A, time))
    assert mbarrier.complete(0)
    assert mbarrier.acquired_clock(0, BOTTOM) == event(A, 0)
    assert mbarrier.acquired_clock(0, event(A, 1)) == event(A, 2)
    mbarrier.arrive(1)
    mbarrier.release(event(A, 3))
    assert mbarrier.acquired_clock(1, BOTTOM) == BOTTOM  # the phase before the first
    assert mbarrier.acquired_clock(1, event(A, 0)) == event(A, 1)


def test_a_phase_that_expects_no_bytes_does_not_wait_for_a_copy() -> None:
    mbarrier = ReplayMbarrier(1, 0, 0)
    mbarrier.transfers.append(PendingTransfer(event(C, 1), 16))
    mbarrier.arrive(1)
    mbarrier.release(event(A, 1))
    assert mbarrier.phase == 1
    assert mbarrier.release_clocks == [BOTTOM, event(A, 1)]


def test_a_barrier_opens_for_all_that_it_counts() -> None:
    barrier = ReplayBarrier()
    barrier.arrive(32)
    barrier.release(event(A, 1))
    assert not barrier.open_if_complete(64)
    barrier.arrive(64)
    barrier.release(event(B, 1))
    assert barrier.open_if_complete(64)
    assert (barrier.arrived, barrier.phase, barrier.release_clock) == (32, 1, clock({0: 1, 1: 1}))


def test_only_what_synchronisation_depends_on_is_executed() -> None:
    made = model(
        """
    ld.param.u32 %r1, [number];
    mov.u32 %r2, 0;
    mbarrier.init.shared::cta.b64 [m], 1;
again:
    add.f32 %f1, %f1, %f1;
    add.u32 %r3, %r2, 9;
    mbarrier.arrive.shared::cta.b64 _, [m];
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra again;
    st.global.u32 [%rd1], %r3;
    ret;
    """,
        before=".shared .b64 m;",
    )
    steps = [made.instruction(step.site).opcode for steps in ReplaySlice(made).plans.blocks for step in steps]
    assert steps == [
        "ld.param.u32", "mov.u32", "mbarrier.init.shared::cta.b64", "mbarrier.arrive.shared::cta.b64", "add.u32", "setp.lt.u32",
    ]  # fmt: skip


def test_an_unknown_value_is_not_executed() -> None:
    made = model(
        """
    mbarrier.init.shared::cta.b64 [m], 1;
    cvt.rzi.s32.f32 %r1, %f1;
    add.u32 %r2, %r1, 1;
    mov.u32 %r4, 0;
    setp.eq.u32 %p2, %r2, 0;
    @%p2 mov.u32 %r4, %r2;
    st.shared.v2.u32 [stored], {%r2, %r4};
    ld.shared.u32 %r3, [stored];
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra over;
    mbarrier.arrive.shared::cta.b64 _, [m];
over:
    ret;
    """,
        before=".shared .b64 m; .shared .align 8 .b32 stored[2];",
    )
    steps = [made.instruction(step.site).opcode for steps in ReplaySlice(made).plans.blocks for step in steps]
    assert steps == [
        "mbarrier.init.shared::cta.b64", "mov.u32", "mov.u32", "st.shared.v2.u32", "ld.shared.u32", "setp.eq.u32", "mbarrier.arrive.shared::cta.b64",
    ]  # fmt: skip


def test_where_something_is_that_all_threads_compute_before_they_part() -> None:
    """What the address of a read is made of is known of the threads of each role."""
    waits = "    @!%p2 bra come;\n"
    code = changed(waits, "", changed("DONE", "cp.async.wait_all;", FILLED))
    assert "race" in what(replay(code).run)
    swapped = changed("setp.lt.u32 %p1, %r0, 32;", "setp.ge.u32 %p1, %r0, 32;", code)
    assert "race" in what(replay(swapped).run)


@pytest.mark.parametrize(
    ("instruction", "clustered"),
    [
        (
            "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [m], [m];",
            True,
        ),
        ("mbarrier.arrive.release.cluster.shared::cluster.multicast::cluster::32b.b64 _, [%r2], 1, 3;", True),
        ("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];", False),
        ("mbarrier.arrive.release.cta.shared::cta.b64 _, [m];", False),
    ],
)
def test_what_acts_on_several_ctas_is_replayed_in_a_cluster(instruction: str, clustered: bool) -> None:
    made = model(f"{instruction} ret;", before=".shared .align 8 .b64 m;")
    assert ReplaySlice(made).clustered is clustered
