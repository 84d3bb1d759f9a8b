"""Replays: how a fault becomes a finding."""

from __future__ import annotations

import pytest

from tclint.checks._deadlocks import parties
from tclint.checks.replay import replayed
from tclint.findings.scales import Method
from tclint.isa.effects import Barrier
from tclint.replay.thread_groups import Stuck
from tests.tools import pages
from tests.tools.replay import FREE, GIVE, block, changed, replay, reports
from tests.tools.support import analysed


def test_the_finding_about_a_deadlocked_wait() -> None:
    (finding,) = reports(block("producer_begins_with_parity_0"))
    assert finding.rule.id == "MB016"
    assert finding.message == (
        "deadlock: phase 0 of mbarrier empty[0] receives 0 of 128 arrivals, and all remaining threads are blocked as"
        " well (replayed: CTA 0 of 8 with 160 threads; 512 in parameters and memory)"
    )
    assert finding.method is Method.REPLAY
    assert [(s.message, s.role, s.object) for s in finding.steps] == [
        ("expects 128 arrivals in each phase", "thread 0", "mbarrier empty[0]"),
        ("blocked: waits for phase 0", "warps 0-3", "mbarrier full[0]"),
        ("blocked: waits for phase 0", "lane 0 of warp 4", "mbarrier empty[0]"),
    ]
    assert finding.help.startswith("start with parity 1")


def test_the_wait_with_the_wrong_parity_is_the_finding_wherever_it_is_in_the_text() -> None:
    head, rest = block("producer_begins_with_parity_0").split("    @%p2 bra consumer;\n")
    producer, rest = rest.split("consumer:\n")
    consumer, end = rest.split("done:\n")
    roles = f"    @!%p2 bra producer;\n{consumer}    bra done;\nproducer:\n{producer}done:\n"
    (finding,) = reports(head + roles + end)
    assert finding.message.startswith("deadlock: phase 0 of mbarrier empty[0] receives 0 of 128 arrivals")
    assert finding.help.startswith("start with parity 1")


def test_a_phase_that_some_of_its_arrivals_do_not_complete() -> None:
    (hit,) = replayed(analysed(changed("[empty], 128;", "[empty], 256;")))
    assert "phase 0 of mbarrier empty[0] receives 128 of 256 arrivals" in hit.message
    assert hit.help.startswith("if the phase has 128 arrivals, initialise the mbarrier with that count, else")


@pytest.mark.parametrize(
    ("skipping", "why"),
    [
        ("    @%p9 bra over;\nGIVEover:\n", "is skipped when rounds != 1"),
        ("    @!%p9 GIVE", "is not executed when rounds != 1"),
    ],
)
def test_the_finding_about_a_deadlock_is_at_the_arrival_that_is_skipped(skipping: str, why: str) -> None:
    """The parameter is 512 in the replay; the wait for the stage is a step, and not what is wrong."""
    given = skipping.replace("GIVE", GIVE if "bra" in skipping else GIVE.lstrip())
    decided = "    ld.param.u32 %r9, [rounds];\n    setp.ne.u32 %p9, %r9, 1;\n"
    code = changed(GIVE, decided + given).replace(".reg .pred %p<6>", ".reg .pred %p<10>")
    (hit,) = replayed(analysed(code))
    assert hit.message.startswith(
        f"mbarrier.arrive {why}: deadlock: phase 0 of mbarrier empty[0] receives 0 of "
    )
    assert [step.message for step in hit.steps if step.site == hit.site] == [
        "the arrival that is skipped" if "bra" in skipping else why
    ]
    assert any(step.message.startswith("blocked: waits") for step in hit.steps)


def test_a_deadlock_is_a_cycle_of_waits_and_the_arrivals_that_follow_them() -> None:
    (finding,) = reports(block("producer_begins_with_parity_0"))
    producer, consumer = finding.deadlock
    assert (producer.wait.role, producer.wait.object) == ("lane 0 of warp 4", "mbarrier empty[0]")
    assert producer.wait.message == "waits for phase 0, which receives 0 of 128 arrivals"
    assert [(a.role, a.message) for a in producer.arrivals] == [
        ("warps 0-3", "would arrive, but only after the wait for mbarrier full[0]")
    ]
    assert (consumer.wait.role, consumer.wait.object) == ("warps 0-3", "mbarrier full[0]")
    assert [(a.role, a.message) for a in consumer.arrivals] == [
        ("lane 0 of warp 4", "would arrive, but only after the wait for mbarrier empty[0]")
    ]


def test_threads_that_wait_for_their_own_arrival_are_the_last_party() -> None:
    wait = "again:\n    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r28], 0;\n    @!%p1 bra again;\n"
    (hit,) = replayed(replay(changed(GIVE, f"{wait}{GIVE}")).model)
    party = hit.deadlock[-1]
    assert (party.wait.role, party.wait.object) == ("warps 0-3", "mbarrier empty[0]")
    assert [a.message for a in party.arrivals] == ["would arrive, but only after this wait"]


def test_a_party_for_which_no_instruction_arrives_has_no_arrivals() -> None:
    (hit,) = replayed(replay(changed(GIVE, "")).model)
    first = hit.deadlock[0]
    assert first.wait.object == "mbarrier empty[0]"
    assert first.arrivals == ()


def test_a_deadlock_states_why_an_arrival_does_not_come() -> None:
    asked = replay(block("producer_begins_with_parity_0"))
    model, run = asked.model, asked.run
    assert run is not None
    producer, consumers = sorted(run.deadlocks, key=lambda s: s.site)
    give = next(i for i in model.arrives(Barrier.MBARRIER) if i > consumers.site)

    def why(*deadlocks: Stuck, executed: bool) -> list[str]:
        entered = frozenset({model.cfg.block_of[give]}) if executed else frozenset[int]()
        first, *_ = parties(model, run._replace(deadlocks=list(deadlocks), entered=entered), producer)
        return [arrival.message for arrival in first.arrivals]

    blocked = "but only after the wait for mbarrier full[0]"
    assert why(producer, consumers, executed=False) == [f"would arrive, {blocked}"]
    assert why(producer, consumers, executed=True) == [f"would arrive again, {blocked}"]
    assert why(producer, executed=False) == ["would arrive, but does not reach this"]
    assert why(producer, executed=True) == ["arrived before, but does not reach this again"]


def test_the_finding_about_one_arrival_too_many() -> None:
    (hit,) = replayed(replay(changed(GIVE, GIVE.replace("%r28", "%r29"))).model)
    assert hit.rule == "MB016"
    assert hit.message == (
        "mbarrier.arrive arrives in excess of the count of the mbarrier: phase 1 takes 1 arrival"
        " (replayed: CTA 0 of 8 with 160 threads; 512 in parameters and memory)"
    )
    assert [step.message for step in hit.steps] == [
        "expects 1 arrival in each phase",
        "arrives once more in phase 1",
    ]


def test_the_finding_about_a_stage_that_is_read_too_early() -> None:
    (hit,) = replayed(replay(pages.block("BK001", "parity_not_flipped")).model)
    assert "may still be writing: the last wait for its mbarrier is for another phase" in hit.message
    assert "flip the parity" in hit.help
    assert [(step.message, step.role) for step in hit.steps] == [
        ("starts to fill it", "lane 0 of warp 4"),
        ("waits for its mbarrier; this does not cover the copy", "warps 0-3"),
        ("reads it", "warps 0-3"),
    ]


def test_the_finding_about_a_stage_that_is_filled_too_early() -> None:
    relaxed = changed(GIVE, GIVE.replace(".arrive.", ".arrive.relaxed.cta."))
    (hit,) = replayed(analysed(relaxed))
    assert [(step.message, step.role) for step in hit.steps] == [
        ("reads what was copied there before", "warps 0-3"),
        ("arrives at the mbarrier; this does not order the access before the wait", "warps 0-3"),
        ("waits for an mbarrier; this does not cover the read", "lane 0 of warp 4"),
        ("starts to refill it", "lane 0 of warp 4"),
    ]
    assert hit.help.endswith("a .relaxed arrival or wait orders no memory without a fence")


def test_a_phase_that_only_a_copy_reaches_is_shown_with_the_copy() -> None:
    expects = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r29], 2048;"
    bytes_ = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r29], 2048;"
    (hit,) = [h for h in replayed(replay(changed(expects, bytes_)).model) if h.rule == "MB016"]
    assert [(step.message, step.object) for step in hit.steps][1] == (
        "completes its bytes on the mbarrier, but does not arrive",
        "mbarrier full[0]",
    )


def test_what_another_rule_explains_is_not_reported_again() -> None:
    code = changed(FREE, "")
    assert replay(code).run is not None
    assert [f.rule.id for f in reports(code)] == ["BK011"]


BEFORE_THE_ARRAY = """.version 8.6
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u64 p, .param .u32 n) .reqntid 128
{
    .shared .align 16 .b8 tile[512];
    .shared .align 8 .b64 m;
    .reg .pred %p<4>;
    .reg .b32 %r<12>;
    ld.param.u32 %r9, [n];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [m], 128;
ready:
    bar.sync 0;
    shl.b32 %r1, %r0, 2;
    mov.u32 %r4, tile;
    add.u32 %r2, %r4, %r1;
    st.shared.u32 [%r2], %r0;
    mbarrier.arrive.shared::cta.b64 _, [m];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [m], 0;
    @!%p1 bra wait;
    xor.b32 %r3, %r1, 256;
    add.u32 %r3, %r3, %r4;
    mov.u32 %r5, dynamic;
    add.u32 %r5, %r5, %r1;
    mov.u32 %r6, 0;
more:
    ld.shared.u32 %r7, [%r3];
    st.shared.u32 [%r5], %r7;
    add.u32 %r5, %r5, -128;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p2, %r6, %r9;
    @%p2 bra more;
    ret;
}
"""


@pytest.mark.parametrize(("variable", "races"), [("dynamic", False), ("tile", True)])
def test_a_made_up_trip_count_leads_to_no_other_variable(variable: str, races: bool) -> None:
    """The loop walks down from the start of an array, and only the launch decides how far."""
    code = BEFORE_THE_ARRAY.replace("mov.u32 %r5, dynamic;", f"mov.u32 %r5, {variable};")
    assert any("overwrites" in hit.message for hit in replayed(analysed(code))) == races
