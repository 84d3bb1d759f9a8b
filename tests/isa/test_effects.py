"""The meaning of instructions, and that everything which asks for it has the same answer."""

from __future__ import annotations

import numpy as np
import pytest

from tclint.findings.verdicts import HazardClass, Status
from tclint.isa.effects import (
    BULK,
    CP_ASYNC,
    INERT,
    SELF_AWAITED,
    TRANSACTIONS,
    WGMMA,
    Barrier,
    Engine,
    Order,
    groups_left,
)
from tclint.isa.table import table
from tests.tools.copies import COMMIT, SHARED, copies, copy, read, wait
from tests.tools.copies import START as POINTER
from tests.tools.execution import run
from tests.tools.support import HOPPER, found, function, kernel, lint, module

LEFT = {0: 0, 1: 1, 63: 63, 64: 63, 1000: 63, 0x7FFFFFFF: 63, 0x80000000: None, -1: None, -64: None}
"""The number of a wait, and the groups that the code of ptxas 13.5 for it leaves pending; None where targets differ."""


@pytest.mark.parametrize(("number", "left"), LEFT.items())
def test_a_wait_leaves_at_most_as_many_groups_as_hardware_counts(number: int, left: int | None) -> None:
    assert groups_left(CP_ASYNC, number) == groups_left(BULK, number) == left
    assert groups_left(WGMMA, number) == (None if left is None else min(left, 7))


@pytest.mark.parametrize("engine", SELF_AWAITED)
def test_the_words_for_an_engine_name_its_forms(engine: Engine) -> None:
    words, forms = engine.words, table().forms
    waits = [forms[name] for name in (words.wait, words.read, words.whole) if name]
    assert {form.effects.waits for form in waits} == {engine}
    assert [form.name for form in waits if form.effects.sources] == [words.read] * bool(words.read)
    assert all(("depth" in form.roles) == bool(words.commit) for form in waits if form.name != words.whole)
    if words.commit:
        commit = forms[words.commit]
        assert commit.effects.commits == engine
        assert commit.scope == (words.scope or "thread")
    assert words.hazard in {hazard.value for hazard in HazardClass}


@pytest.mark.parametrize("number", LEFT)
def test_findings_executions_and_proofs_wait_for_the_same_groups(number: int) -> None:
    """One group is pending: a wait that leaves none completes it, and one of which that is unknown decides nothing."""
    left = LEFT[number]
    body = f"{copy('%r4')}\n{COMMIT}\n{wait(number)}\n{read('%r4')}"

    text = module(SHARED, kernel(f"{POINTER}\n{body}\nret;"), header=HOPPER)
    rules = {rule for rule, _ in found(lint(text))}
    assert ("CA001" in rules) is bool(left)

    assert copies(body).status is (Status.PROVED if left == 0 else Status.UNKNOWN)

    executed = run(
        "ld.param.u64 %rd1, [a];\nshl.b32 %r2, %r199, 4;\nmov.u32 %r3, smem;\nadd.s32 %r4, %r3, %r2;\n"
        + body,
        buffers={"a": np.arange(4, dtype=np.uint32)},
    )
    assert executed.execution.end == ("unsupported" if left is None else "done")
    assert bool(executed.kinds) is bool(left)


def test_a_finding_quotes_the_number_that_is_written() -> None:
    text = module(
        SHARED, kernel(f"{POINTER}\n{copy('%r4')}\n{COMMIT}\n{wait(64)}\n{read('%r4')}\nret;"), header=HOPPER
    )
    (finding,) = lint(text).findings
    assert "cp.async.wait_group 64 leaves the newest 63 groups in flight" in finding.message


def test_every_event_has_effects_and_nothing_else_has() -> None:
    for form in table():
        assert (form.effects != INERT) is bool(form.event), form.name


def test_an_operation_a_commit_and_a_wait_name_their_engine() -> None:
    for form in table():
        effects = form.effects
        engines = [effects.begins, effects.commits, effects.waits, effects.submits]
        assert sum(engine is not None for engine in engines) == (
            form.event in ("issue", "commit", "wait", "submit")
        )
        assert all(engine == form.group for engine in engines if engine is not None), form.name


def test_what_synchronises_arrives_at_what_it_waits_for() -> None:
    names = {form.name: form.effects for form in table()}
    assert names["bar.sync"].synchronises is Barrier.CTA
    assert names["bar.warp.sync"].synchronises is Barrier.WARP
    assert names["barrier.cluster.wait"].synchronises is None is names["barrier.cluster.arrive"].synchronises
    assert names["tcgen05.commit"].arrival is Barrier.MBARRIER is names["mbarrier.arrive"].arrival
    assert names["tcgen05.commit"].arrives is None


EVENTS = {
    "only_accesses": "issue",
    "transacts": "issue clc-request",
    "publishes": """submit commit mbarrier-arrive mbarrier-expect mbarrier-complete mbarrier-inval barrier-sync
    barrier-arrive pdl-launch clc-request memory-fence tcgen05-fence-before tmem-dealloc""",
    "awaits_threads": "mbarrier-wait barrier-sync barrier-wait",
    "bounds_mbarrier": "mbarrier-init mbarrier-inval",
}
"""Property of effects -> the events of the table that have it."""


@pytest.mark.parametrize("name", EVENTS)
def test_a_property_holds_for_these_events(name: str) -> None:
    assert {f.event for f in table() if f.event and getattr(f.effects, name)} == set(EVENTS[name].split())


def test_what_completes_bytes_later_is_of_the_group_that_an_mbarrier_counts() -> None:
    for form in table():
        assert form.effects.transacts is (form.group == TRANSACTIONS), form.name


ORDERS = {
    "mbarrier.arrive.shared.b64 %rd1, [%r1];": (Order.RELEASE, "cta"),
    "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r1];": (Order.RELAXED, "cluster"),
    "mbarrier.complete_tx.shared.b64 [%r1], 4;": (Order.RELAXED, "cta"),
    "cp.async.mbarrier.arrive.shared.b64 [%r1];": (Order.WEAK, ""),
    "barrier.cluster.arrive;": (Order.RELEASE, "cluster"),
    "barrier.cluster.arrive.relaxed;": (Order.RELAXED, "cluster"),
    "barrier.cluster.wait;": (Order.ACQUIRE, "cluster"),
    "bar.sync 0;": (Order.BOTH, "cta"),
    "membar.gl;": (Order.SC, "gpu"),
    "fence.acquire.sys;": (Order.ACQUIRE, "sys"),
    "fence.acq_rel.gpu;": (Order.BOTH, "gpu"),
    "ld.global.u32 %r1, [%rd1];": (Order.WEAK, ""),
    "ld.volatile.global.u32 %r1, [%rd1];": (Order.VOLATILE, "sys"),
    "atom.global.add.u32 %r1, [%rd1], %r2;": (Order.RELAXED, "gpu"),
    "atom.release.cta.global.add.u32 %r1, [%rd1], %r2;": (Order.RELEASE, "cta"),
    "tensormap.replace.tile.fill_mode.global.b1024.b32 [%rd1], 1;": (Order.WEAK, ""),
}
"""Instruction -> its memory order and scope, by 8.5, 8.6, 9.7.9.28, 9.7.13.1 to 9.7.13.5 and 9.7.13.15."""


@pytest.mark.parametrize("text", ORDERS)
def test_an_instruction_has_the_order_that_it_states_or_that_of_its_form(text: str) -> None:
    match = function(module(kernel(f"{text}\nret;"))).instructions[0].match
    assert match is not None
    assert not match.problem
    assert (match.order, match.order_scope) == ORDERS[text]


PASSED = """\
mov.u32 %r1, %tid.x;
setp.eq.u32 %p1, %r1, 0;
mov.u32 %r3, smem;
@%p1 mbarrier.init.shared.b64 [bar], 1;
bar.sync 0;
@!%p1 bra WAIT;
st.shared.u32 [%r3], %r1;
FENCE
mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [bar];
bra END;
WAIT:
mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p3, [bar], 0;
@!%p3 bra WAIT;
FENCE
ld.shared.u32 %r2, [%r3];
st.shared.u32 [%r3+512], %r2;
END:
ret;"""
RELEASING, ACQUIRING = ("acq_rel", "sc", "release"), ("acq_rel", "sc", "acquire")


@pytest.mark.parametrize("first", sorted({*RELEASING, *ACQUIRING}))
@pytest.mark.parametrize("then", sorted({*RELEASING, *ACQUIRING}))
def test_a_relaxed_arrival_and_wait_pass_what_a_release_and_an_acquire_fence_enclose(
    first: str, then: str
) -> None:
    """Findings and executions agree on 8.8: the fence before the arrival must release, the one after the wait acquire."""
    before, between, after = PASSED.split("FENCE")
    body = f"{before}fence.{first}.cta;{between}fence.{then}.cta;{after}"
    text = module(
        ".shared .align 16 .b8 smem[1024];\n.shared .align 8 .b64 bar;",
        kernel(body, directives=".reqntid 64"),
        header=HOPPER.replace("8.0", "8.8"),
    )
    ordered = first in RELEASING and then in ACQUIRING
    assert ("SM001" in {rule for rule, _ in found(lint(text))}) is not ordered
    executed = run(body.replace("[bar]", "[bars]"), block=64, header=HOPPER.replace("8.0", "8.8"))
    assert executed.kinds == ([] if ordered else ["unordered"])
