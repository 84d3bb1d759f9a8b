"""Replays: clusters, and what only some of the CTAs of a grid execute."""

from __future__ import annotations

import pytest

from tclint.checks.replay import replayed
from tclint.replay.interface import Faulty, NoFault
from tclint.replay.reasons import NotReplayed
from tclint.replay.verdict import Replay
from tests.tools.replay import ALL_ARRIVE, MULTICAST, PAIR, alter, changed, replay, what, why
from tests.tools.support import model


def test_clusters_that_the_kernel_does_not_state() -> None:
    """Clusters of another shape than the kernel is made for go wrong anyway: a fault is reported where no shape succeeds."""
    known = replay(MULTICAST.replace(".reqntid 160", ".reqntid 160\n.reqnctapercluster 2")).run
    assert known is not None
    assert known.deadlocks or known.races
    asked = replay(MULTICAST)
    assert what(asked.run) == what(known)
    assert isinstance(asked.verdict, Faulty)
    assert asked.verdict.assumed_cluster == (2,)
    (hit,) = replayed(asked.model)
    assert hit.message.endswith(" (if launched in clusters of 2; no other shape succeeds)")
    unbounded = replay(MULTICAST.replace(".reqntid 160\n", ""))
    assert unbounded.run is None
    assert why(unbounded) == NotReplayed.NO_CLUSTER_SHAPE


def test_the_clusters_that_a_kernel_is_made_for() -> None:
    asked = replay(PAIR.replace(".reqnctapercluster 2\n", ""))
    assert asked.verdict == NoFault()
    assert [run.finished for run in asked.runs] == [True]


def test_clusters_of_which_one_shape_cannot_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be the one that the kernel is made for."""
    alter(monkeypatch, "MAX_STEPS", 100)
    asked = replay(MULTICAST)
    assert asked.run is None
    assert why(asked) == NotReplayed.TOO_LONG
    monkeypatch.undo()
    alter(monkeypatch, "MAX_CLUSTER_SEARCH_STEPS", 1_000)
    asked = replay(MULTICAST)
    assert asked.run is None
    assert why(asked) == NotReplayed.TOO_LONG


CANCELLING = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry persistent()
.reqntid 64
{
    .reg .pred %p<6>;
    .reg .b32 %r<3>;
    .reg .b128 %q<1>;
    .shared .align 16 .b8 response[16];
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 empty;
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [empty], 32;
ready:
    bar.sync 0;
    setp.ge.u32 %p1, %r0, 32;
    @%p1 bra work;
    @%p0 bra done;
    mov.u32 %r1, 1;
    mov.u32 %r2, 0;
ask:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [empty], %r1;
    @!%p2 bra ask;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 16;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [response], [full];
answer:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], %r2;
    @!%p2 bra answer;
    ld.shared.b128 %q0, [response];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
    xor.b32 %r1, %r1, 1;
    xor.b32 %r2, %r2, 1;
    @%p3 bra ask;
    bra done;
work:
    mov.u32 %r2, 0;
more:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], %r2;
    @!%p2 bra more;
    ld.shared.b128 %q0, [response];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.shared::cta.b64 _, [empty];
    xor.b32 %r2, %r2, 1;
    @%p3 bra more;
done:
    ret;
}
"""


def test_clusters_that_are_cancelled_for_a_running_one() -> None:
    """The second iteration of a persistent kernel shows what the first cannot."""
    assert replay(CANCELLING).run is None
    late = changed("    xor.b32 %r2, %r2, 1;\n    @%p3 bra more;", "    @%p3 bra more;", CANCELLING)
    assert what(replay(late).run) & {"stuck", "overrun", "race", "early"}
    parted = "    ld.shared.v2.b64 {%d0, %d1}, [response];\n    mov.b128 %q0, {%d0, %d1};"
    other = late.replace("    ld.shared.b128 %q0, [response];", parted).replace(
        "    .reg .b128 %q<1>;", "    .reg .b128 %q<1>;\n    .reg .b64 %d<2>;"
    )
    assert replay(other).run is None  # such a response is taken to be empty


def executed_by(skips: str, parities: str) -> set[str]:
    """What goes wrong in a ring in which the CTAs that do not take a branch *skips* also wait for some parities."""
    waits = "".join(
        f"more{p}:\n    mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], {p};\n    @!%p1 bra more{p};\n"
        for p in parities
    )
    begin = f"    mov.u32 %r1, %ctaid.x;\n    mov.u32 %r2, %nctaid.x;\n    sub.u32 %r2, %r2, %r1;\n{skips}"
    end = "    @%p5 bra use;\n"
    run = replay(changed(end, f"{end}{begin}    bar.sync 1, 128;\n{waits}store:\n")).run
    return what(run) if run else set()


@pytest.mark.parametrize(("parities", "seen"), [("01", {"stuck"}), ("", set())])
def test_what_only_the_last_cta_executes(parities: str, seen: set[str]) -> None:
    """As with causal attention: the others have nothing to do after the diagonal. One of two parities does not occur."""
    assert executed_by("    setp.ne.u32 %p3, %r2, 1;\n    @%p3 bra store;\n", parities) == seen


@pytest.mark.parametrize(("parities", "seen"), [("01", {"stuck"}), ("", set())])
def test_what_neither_the_first_nor_the_last_cta_executes(parities: str, seen: set[str]) -> None:
    """As where these two copy the ends of an array, which are not aligned, by other means."""
    ends = "    setp.eq.u32 %p3, %r1, 0;\n    @%p3 bra store;\n    setp.eq.u32 %p3, %r2, 1;\n    @%p3 bra store;\n"
    assert executed_by(ends, parities) == seen


def test_what_another_branch_guards_that_only_a_cta_in_the_middle_executes() -> None:
    ends = "    setp.eq.u32 %p3, %r1, 0;\n    @%p3 bra store;\n    setp.eq.u32 %p3, %r2, 1;\n    @%p3 bra store;\n"
    inner = "    setp.eq.u32 %p3, %r20, 7;\n    @%p3 bra store;\n"
    assert executed_by(ends + inner, "01") == {"stuck"}
    assert executed_by(ends + inner, "") == set()


@pytest.mark.parametrize(("count", "seen"), [(128, set()), (129, {"stuck"})])
def test_a_wait_that_ctas_share_does_not_excuse_another_init(count: int, seen: set[str]) -> None:
    """The first CTA initialises the mbarrier on a path of its own, and passes the wait at which the others deadlock."""
    init = "mbarrier.init.shared::cta.b64 [m], {};"
    own = f"""mov.u32 %r1, %ctaid.x;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra first;
    {init.format(count)}
    bra ready;
first:
    {init.format(128)}"""
    run = Replay(model(changed(init.format(128), own, ALL_ARRIVE))).run
    assert (what(run) if run else set()) == seen
