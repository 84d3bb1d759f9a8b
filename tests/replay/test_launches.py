"""Replays: which launches are tried, in which order, and which of them are evidence."""

from __future__ import annotations

from typing import Any

import pytest

from tclint.checks.replay import replayed
from tclint.dataflow import GaveUp
from tclint.findings.scales import Confidence
from tclint.replay import hypotheses
from tclint.replay.hypotheses import LaunchHypothesis
from tclint.replay.launch_search import LaunchSearch
from tclint.replay.launches import LaunchResults, ReplayRun
from tclint.replay.machine import ReplayMachine
from tclint.replay.program import ReplaySlice
from tclint.replay.reasons import NotReplayed
from tclint.replay.shared_stores import SharedStores
from tclint.replay.verdict import Replay
from tests.tools.replay import GIVE, REREAD, RING, TILES, WALK, changed, drained, replay, what, why
from tests.tools.support import model


def test_stores_that_are_alike_are_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unrolled copy of libcu++ has tens of thousands, and the parity of a wait may come from any of them."""
    asked = 0
    may_meet = SharedStores._may_meet

    def counted(self: SharedStores, *places: Any) -> bool:
        nonlocal asked
        asked += 1
        return may_meet(self, *places)

    monkeypatch.setattr(SharedStores, "_may_meet", counted)
    stores = "\n".join(f"st.shared.u32 [tile+{4 * (k % 2)}], %r{k % 7};" for k in range(200))
    loads = "\n".join("ld.shared.u32 %r8, [tile+4];" for _ in range(10))
    known = model(f".shared .align 8 .b8 tile[64];\n{stores}\n{loads}\nret;")
    stored = SharedStores(known)
    sites = [i for i in known.shared.sites if i not in set(known.shared.writers)]
    assert [len(stored.writers(i)) for i in sites] == [100] * 10
    assert asked == 20


def test_the_launch_whose_threads_get_farthest_is_reported() -> None:
    """Without .reqntid, CTAs of several sizes are tried; what is reported should be about those that the kernel is made for."""
    code = changed(GIVE, "")
    known, tried = (replay(c).run for c in (code, code.replace(".reqntid 160\n", "")))
    assert known is not None
    assert tried is not None
    assert tried.entered == known.entered
    assert {s.site for s in tried.deadlocks} == {s.site for s in known.deadlocks}


def test_what_makes_no_difference_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many iterations are left that a grid of sixteen times as many CTAs ends no sooner than the step limit."""
    seen = []

    def ran(self: LaunchSearch, machine: ReplayMachine) -> ReplayRun | None:
        seen.append((machine.launch.values.grid, *set(machine.launch.values.others.values())))
        return original(self, machine)

    original = LaunchSearch._run_machine
    monkeypatch.setattr(LaunchSearch, "_run_machine", ran)
    monkeypatch.setattr(ReplayMachine, "_extrapolate_trip_count", lambda *_: None)
    tried = replay(drained(128, WALK))
    assert tried.run is None
    assert why(tried) == ""
    assert seen[:3] == [(8,), (128,), (128, 512 // 4**2)]


FIRST = "    mov.u32 %r32, %ctaid.x;\n    mul.lo.u32 %r32, %r32, {};\n    setp.eq.u32 %p5, %r32, 0;\n    @%p5 bra rest;\n"
"""A later loop has iterations left in all CTAs but one."""
ALL_STAGES = REREAD.replace(", 16,", ", 48,")


@pytest.mark.parametrize(
    "size", [pytest.param("%r20", id="of the launch"), pytest.param("128", id="constant")]
)
@pytest.mark.parametrize(
    ("fewer", "wrong"), [pytest.param(0, False, id="right"), pytest.param(2, True, id="wrong")]
)
def test_a_launch_that_executes_what_others_skip(fewer: int, wrong: bool, size: str) -> None:
    """The first CTA has nothing to do in the loop, so what goes wrong after it is tried in the last one as well."""
    code = changed("use:\n", f"{FIRST.format(size)}    sub.u32 %r20, %r20, {fewer};\nuse:\n")
    code = changed("    mad.wide.u32 %out", f"rest:\n{ALL_STAGES}    mad.wide.u32 %out", code)
    asked = replay(code)
    assert (asked.run is not None) == wrong
    assert [run.wrong for run in asked.runs[:3]] == [True] * 3
    assert {run.wrong for run in asked.runs[3:]} == {wrong}
    assert [hit.confidence for hit in replayed(asked.model)] == [Confidence.MEDIUM] * wrong


def test_values_like_those_that_showed_nothing_new_are_tried_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = replay(RING)
    assert found.run is None
    odd = hypotheses.ODD_SIZES.value
    launches, same = LaunchResults(found.model, ReplaySlice(found.model)), found.runs[0]
    last = {LaunchHypothesis(1280, 24, 23), LaunchHypothesis(512, 8, 7), LaunchHypothesis(1098, 5, 4)}
    monkeypatch.setattr(LaunchResults, "_promising", lambda *_: {*odd, *last})
    assert launches.add(LaunchHypothesis(512, 8), same) == {*odd, *last}
    assert launches.add(odd[0], same) == last
    assert launches.add(LaunchHypothesis(512, 8, 7), same) == set()
    more = same._replace(entered=same.entered | {99})
    assert launches.add(LaunchHypothesis(1280, 2), more) == {*odd, *last}


def test_launches_that_take_too_long_beside_others_that_go_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many others take their place."""
    code = changed(GIVE, "", TILES)
    known = replay(code)
    assert what(known.run) == {"stuck"}
    asked: list[int] = []
    launched = LaunchSearch._replay_once

    def short(self: LaunchSearch, tried: LaunchHypothesis, shape: tuple[int, ...]) -> ReplayRun | None:
        asked.append(tried.size)
        self.gave_up = GaveUp(NotReplayed.TOO_LONG) if tried.size == 1280 else None
        return None if self.gave_up else launched(self, tried, shape)

    monkeypatch.setattr(LaunchSearch, "_replay_once", short)
    assert what(replay(code).run) == {"stuck"}
    assert asked[0] == 512
    assert {1280, 832} < set(asked)


def test_a_cta_size_that_the_kernel_does_not_state() -> None:
    open_ = changed(".reqntid 160\n", "")
    assert replay(open_).run is None  # right with 160
    assert "stuck" in what(replay(open_.replace(GIVE, "")).run)


def test_a_launch_that_fails_early_is_not_replayed_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing says how many threads there are, so all numbers are tried: a glance is enough where it shows the same."""
    begun = list[int]()
    whole = LaunchSearch.replay

    def launched(self: LaunchSearch, tried: LaunchHypothesis, shape: tuple[int, ...]) -> ReplayRun | None:
        begun.append(shape[0])
        return whole(self, tried, shape)

    monkeypatch.setattr(LaunchSearch, "replay", launched)
    flips = "    xor.b32 %r23, %r23, %r31;\n    add.u32 %r21, %r21, 1;\n    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra use"
    code = changed(".reqntid 160\n", "", changed(flips, flips.partition("\n")[2]))
    assert replay(code).run is not None
    assert max(begun) == 512  # of those that are tried first


@pytest.mark.parametrize("directive", ["", ".maxntid 1024\n"])
def test_fewer_threads_than_the_bound(directive: str) -> None:
    """A bound is not a size: 288 threads are one launch of many, and for this kernel the right one."""
    wide = changed("], 128;", "], 256;").replace("setp.lt.u32 %p2, %r0, 128;", "setp.lt.u32 %p2, %r0, 256;")
    wide = wide.replace("setp.ne.u32 %p3, %r0, 128;", "setp.ne.u32 %p3, %r0, 256;")
    wide = wide.replace("%r30, %r0, 16, %r30", "%r30, %r0, 8, %r30").replace(".reqntid 160\n", directive)
    assert replay(wide).run is None
    assert "stuck" in what(replay(wide.replace(GIVE, "")).run)


def test_a_bound_below_which_the_kernel_cannot_be_launched() -> None:
    """With fewer threads the mbarriers are not initialised, so these are no launches that could be right."""
    last = changed("setp.ne.u32 %p0, %r0, 0;", "setp.ne.u32 %p0, %r0, 159;").replace(".reqntid", ".maxntid")
    assert replay(last).run is None
    assert "stuck" in what(replay(last.replace(GIVE, "")).run)


@pytest.mark.parametrize(("count", "right"), [(1024, True), (1056, False)])
def test_threads_that_get_farther_and_cannot_be_followed_to_the_end(count: int, right: bool) -> None:
    """They may be those of the launch; the others wait for arrivals that only so many threads make."""
    body = f"""
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @!%p0 mbarrier.init.shared::cta.b64 [all], {count};
    bar.sync 0;
    mbarrier.arrive.shared::cta.b64 _, [all];
    wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [all], 0;
    @!%p1 bra wait;
    cvt.rzi.u32.f32 %r2, %f1;
    bar.sync %r2;
    ret;
    """
    run = Replay(model(body, before=".shared .b64 all;", directives="")).run
    assert (run is None) is right


@pytest.mark.parametrize(
    ("directives", "found"), [("", False), (".maxntid 160, 1, 1\n", False), (".maxntid 32, 5, 1\n", True)]
)
def test_a_bound_on_the_threads_states_no_shape_of_a_cta_in_two_dimensions(
    directives: str, found: bool
) -> None:
    code = changed(".reqntid 160\n", directives).replace(
        "    mov.u32 %r0, %tid.x;\n",
        "    mov.u32 %r0, %tid.x;\n    mov.u32 %r1, %tid.y;\n    mad.lo.u32 %r0, %r1, 32, %r0;\n",
    )
    asked = replay(code.replace(GIVE, ""))
    assert (asked.run is not None) == found
    assert found or why(asked) == NotReplayed.NO_CTA_SHAPE
