"""Replays: loops of many iterations, of which only some are executed."""

from __future__ import annotations

import pytest

from tclint.replay.launch import LaunchValues, ReplayLaunch
from tclint.replay.machine import ReplayMachine
from tclint.replay.program import ReplaySlice
from tclint.replay.scheduler import Limits, TooManyIterations
from tclint.replay.thread_groups import Stuck, ThreadGroup
from tclint.replay.verdict import Replay
from tests.tools.replay import (
    FREE,
    MORE,
    RING,
    STEP,
    TILES,
    WAIT,
    WALK,
    alter,
    changed,
    drained,
    persistent,
    replay,
    what,
    why,
)
from tests.tools.support import analysed, model

LONG = RING.replace(".param .u32 rounds", ".param .u64 rounds").replace(
    "ld.param.u32 %r20, [rounds];", "ld.param.u64 %last, [rounds];\n    mov.u64 %i, 0;"
).replace(".reg .b64 %in, %out;", ".reg .b64 %in, %out, %i, %last;").replace(
    "    add.u32 %r21, %r21, 1;\n    setp.lt.u32 %p5, %r21, %r20;\n",
    "    add.u64 %i, %i, 1;\n    setp.lt.u64 %p5, %i, %last;\n",
)  # fmt: skip
"""A number of 64 bits bounds the loops."""
FLAG = RING.replace(
    "    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra use;\n",
    "    mov.u32 %r1, 0;\n    setp.ge.u32 %p5, %r21, %r20;\n    @%p5 bra over;\n    mov.u32 %r1, 1;\nover:\n"
    "    setp.ne.u32 %p5, %r1, 0;\n    @%p5 bra use;\n",
)
"""A flag says whether there is more to do."""


@pytest.mark.parametrize("code", [pytest.param(c, id=i) for i, c in [("number", RING), ("64 bits", LONG), ("turns", WALK), ("flag", FLAG)]])  # fmt: skip
def test_what_follows_a_loop_of_many_iterations_is_replayed(code: str) -> None:
    """With the values that are tried first, the loop has more iterations than there are steps."""
    assert code.count("bra use;") == 1
    right = replay(drained(128, code))
    assert right.run is None
    assert why(right) == ""
    assert what(replay(drained(129, code)).run) == {"stuck"}


BROADCAST = changed(
    "    @%p5 bra use;\n",
    "    selp.b32 %r1, 1, 0, %p5;\n    shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;\n    setp.ne.b32 %p5, %r1, 0;\n    @%p5 bra use;\n",
)
"""One lane broadcasts whether there is more to do."""


@pytest.mark.parametrize("code", [WALK, LONG, BROADCAST])
@pytest.mark.parametrize("extrapolates", [True, False])
def test_the_trip_count_of_a_long_loop_is_extrapolated(code: str, extrapolates: bool) -> None:
    """How far a counter is from its bound shows it after a few iterations."""
    made = analysed(code)
    machine = ReplayMachine(
        ReplaySlice(made),
        ReplayLaunch(made, LaunchValues(1 << 16, 8), (160,)),
        Limits(5_000, extrapolates=extrapolates),
    )
    with pytest.raises(TooManyIterations) as error:
        machine.run()
    assert (error.value.excess > 1) is extrapolates
    assert (machine.budget > 4_600) is extrapolates


def test_no_verdict_rests_on_iterations_that_were_only_extrapolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are right for a launch of 16 rounds or more, and this kernel may have no other."""

    def foresee(self: ReplayMachine, group: ThreadGroup, header: int) -> None:
        if self.limits.extrapolates and self._iterations[header] > 2:
            raise TooManyIterations(self.program.loops.bounds[header], 2)

    monkeypatch.setattr(ReplayMachine, "_extrapolate_trip_count", foresee)
    code = changed("_, [%r29], 2048;", "_, [%r29], %r1;").replace(
        "ld.param.u32 %r20, [rounds];",
        "ld.param.u32 %r20, [rounds];\n    setp.lt.u32 %p1, %r20, 16;\n    selp.u32 %r1, 4096, 2048, %p1;",
    )
    assert replay(code).run is None
    assert "stuck" in what(replay(changed("%r20, 16;", "%r20, 4096;", code)).run)


def test_a_kernel_of_many_steps_gets_more_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """No launch changes how many there are, and a second one is not tried when the first has not been enough."""
    code = drained(129, changed("ld.param.u32 %r20, [rounds];", "mov.u32 %r20, 300;"))
    assert what(replay(code).run) == {"stuck"}
    launches: list[int] = []
    run = ReplayMachine.run

    def counted(self: ReplayMachine) -> list[Stuck]:
        launches.append(self.limits.extra_steps)
        return run(self)

    monkeypatch.setattr(ReplayMachine, "run", counted)
    alter(monkeypatch, "MAX_EXTRA_STEPS", 100)
    assert replay(code).run is None
    assert launches == [100]


TAIL = changed(
    "    @%p5 bra load;\n",
    "    @%p5 bra load;\n    shl.b32 %r27, %r22, 3;\n    add.u32 %r28, %r26, %r27;\n"
    + FREE.replace("free", "tail"),
)
"""After its loop the producer waits until the next stage is free."""


def test_a_wait_after_a_loop_of_many_iterations_is_not_reported() -> None:
    """No run has passed it with more iterations, so the smaller trip counts are not to blame."""
    assert replay(TAIL).run is None
    assert "stuck" in what(replay(changed("tail:\n", "    xor.b32 %r23, %r23, 1;\ntail:\n", TAIL)).run)


REST = STEP.replace("use:", "rest:").replace(WAIT, MORE)


def in_pairs(rest: str) -> str:
    """The consumer takes two stages in a round, and *rest* where the number of stages is odd."""
    return changed(
        "    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra use;\n",
        "    and.b32 %r31, %r20, -2;\n    setp.lt.u32 %p5, %r21, %r31;\n    @%p5 bra use;\n"
        f"    and.b32 %r31, %r20, 1;\n    setp.eq.u32 %p5, %r31, 0;\n    @%p5 bra left;\n{rest}left:\n",
        TILES,
    )


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        pytest.param("rest:", "rest:", "", id="right"),
        pytest.param(MORE, "", "race", id="no wait"),
        pytest.param("more:\n", "    xor.b32 %r23, %r23, 1;\nmore:\n", "race", id="the other parity"),
    ],
)
def test_what_is_left_over_of_a_loop(old: str, new: str, seen: str) -> None:
    """No launch of the usual sizes comes there, and so none says that it goes right."""
    run = replay(in_pairs(changed(old, new, REST))).run
    assert what(run) == {seen} if seen else run is None


@pytest.mark.parametrize(
    ("stride", "shift"), [pytest.param("%nctaid.x", 6, id="grid"), pytest.param("132", 4, id="constant")]
)
def test_later_tiles_of_a_persistent_kernel(stride: str, shift: int) -> None:
    """The launch that is tried first has one tile for each CTA, and shows nothing about later tiles."""
    right = replay(persistent(stride, shift))
    assert right.run is None
    first, *others = right.runs
    assert len(others) == 1
    assert others[0].repeated > first.repeated
    wrong = replay(persistent(stride, shift, "    mov.u32 %r22, 0;\n    mov.u32 %r23, 0;\n"))
    assert wrong.run is not None
    assert not wrong.runs[0].wrong


TILED = """
    .shared .align 8 .b64 m[2];
    mov.u32 %r0, %tid.x;
    ld.param.u32 %r2, [length];
    ld.param.u32 %r3, [tile];
    mov.u32 %r4, 0;
    mov.u32 %r5, 0;
    mov.u32 %r6, m;
    mov.u32 %r7, m;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [m], 128;
    mbarrier.init.shared::cta.b64 [m+8], 128;
ready:
    bar.sync 0;
next:
    mbarrier.arrive.shared::cta.b64 _, [%r7];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r5;
    @!%p2 bra wait;
    add.u32 %r4, %r4, %r3;
    div.u32 %r8, %r4, %r3;
    and.b32 %r9, %r8, 1;
    mad.lo.u32 %r7, %r9, 8, %r6;
    shr.u32 %r5, %r8, 1;
    and.b32 %r5, %r5, 1;
    setp.lt.u32 %p3, %r4, %r2;
    @%p3 bra next;
    ret;
"""
"""All threads arrive at a stage for each tile, and wait for it."""


def test_a_second_tile_needs_a_length_that_is_larger_than_a_tile() -> None:
    """The launches in which all words are equal have one tile, and use one stage of the ring."""
    parameters = ".param .u32 length, .param .u32 tile"
    assert Replay(model(TILED, parameters=parameters)).run is None
    late = changed(
        "    shr.u32 %r5, %r8, 1;\n    and.b32 %r5, %r5, 1;\n", "    and.b32 %r5, %r8, 1;\n", TILED
    )
    run = Replay(model(late, parameters=parameters)).run
    assert what(run) == {"stuck"}
