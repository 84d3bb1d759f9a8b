"""What lanes exchange, and other values that decide where the threads of a replay continue."""

from __future__ import annotations

import pytest

from tclint.dataflow import GaveUp
from tclint.isa.forms import Match
from tclint.isa.lane_exchange import match_result, reduced
from tclint.replay.lane_exchange import barrier_result
from tclint.replay.verdict import Replay
from tests.tools.replay import ALL_ARRIVE, GIVE, changed
from tests.tools.support import analysed, model


def matched(text: str) -> Match:
    """The entry of the ISA table for an instruction."""
    found = model(f"{text}\nret;").instruction(0).match
    assert found is not None
    return found


def test_lanes_with_equal_values_match() -> None:
    one = matched("match.any.sync.b32 %r1, %r2, -1;")
    assert match_result(one, {0: 7, 1: 8, 2: 7, 3: 9}, 0b0111) == {0: (5, 0), 1: (2, 0), 2: (5, 0)}
    assert match_result(one, {0: 7, 1: None}, 0b11) is None
    assert match_result(one, {0: 7}, 0b11) is None


def test_all_lanes_match_or_none_does() -> None:
    every = matched("match.all.sync.b32 %r1|%p1, %r2, -1;")
    assert match_result(every, {0: 7, 1: 7}, 0b11) == {0: (3, 1), 1: (3, 1)}
    assert match_result(every, {0: 7, 1: 8}, 0b11) == {0: (0, 0), 1: (0, 0)}


@pytest.mark.parametrize(
    ("operation", "predicates", "result"),
    [
        ("or.pred %p1", (0, None, 1), 1),
        ("or.pred %p1", (0, None), None),
        ("or.pred %p1", (0, 0), 0),
        ("and.pred %p1", (1, None, 0), 0),
        ("and.pred %p1", (1, None), None),
        ("and.pred %p1", (1, 1), 1),
        ("popc.u32 %r1", (1, 0, 1), 2),
        ("popc.u32 %r1", (1, None), None),
    ],
)
def test_one_known_predicate_may_decide_what_a_barrier_reduces(
    operation: str, predicates: tuple[int | None, ...], result: int | None
) -> None:
    assert barrier_result(matched(f"bar.red.{operation}, 0, %p2;"), predicates) == result


@pytest.mark.parametrize(("operation", "arrive"), [("or", True), ("and", False)])
def test_a_barrier_that_reduces_a_predicate_decides_a_branch(operation: str, arrive: bool) -> None:
    reduces = f"    bar.red.{operation}.pred %p3, 0, !%p0;\n    @!%p3 bra wait;\n    mbarrier.arrive"
    asked = Replay(model(changed("    mbarrier.arrive", reduces, ALL_ARRIVE)))
    assert asked.incomplete == ""
    assert (asked.run is None) is arrive


@pytest.mark.parametrize(
    ("operation", "result"),
    [("add.u32", 2), ("min.s32", 0xFFFFFFFF), ("min.u32", 3), ("max.s32", 3), ("max.u32", 0xFFFFFFFF), ("xor.b32", 0xFFFFFFFC)],
)  # fmt: skip
def test_a_reduction_over_the_lanes_of_a_mask(operation: str, result: int) -> None:
    redux = matched(f"redux.sync.{operation} %r1, %r2, -1;")
    assert reduced(redux, {0: 3, 1: 0xFFFFFFFF, 2: 5}, 0b011) == result
    assert reduced(redux, {0: 3, 1: None}, 0b011) is None


DECIDED = {
    "lanes that match": "activemask.b32 %r1;\n match.any.sync.b32 %r2, %r20, %r1;\n setp.ne.u32 %p3, %r2, -1;\n @%p3 bra done;",
    "a reduction": "redux.sync.min.u32 %r2, %r20, -1;\n setp.eq.u32 %p3, %r2, 0;\n @%p3 bra done;",
    "the space of a pointer": "isspacep.global %p3, %in;\n @!%p3 bra done;",
    "the space of a variable": "mov.u64 %in, tile;\n cvta.shared.u64 %in, %in;\n isspacep.shared %p3, %in;\n @!%p3 bra done;\n ld.param.u64 %in, [in];",
    "the space of a parameter": "mov.u64 %in, in;\n cvta.param.u64 %in, %in;\n isspacep.param %p3, %in;\n @!%p3 bra done;\n ld.param.u64 %in, [in];",
    "a poll of memory": "poll:\n ld.acquire.gpu.global.u32 %r2, [%in];\n setp.ne.u32 %p3, %r2, 1;\n @%p3 bra poll;",
    "a poll at a generic address": "poll:\n ld.acquire.gpu.u32 %r2, [%in];\n setp.ne.u32 %p3, %r2, 1;\n @%p3 bra poll;",
}  # fmt: skip
"""What all threads of a ring execute before they take their roles. None of them is done early."""


@pytest.mark.parametrize("code", [pytest.param(code, id=name) for name, code in DECIDED.items()])
def test_what_is_known_decides_where_threads_continue(code: str) -> None:
    ring = changed("    ld.param.u32 %r20, [rounds];\n", f"    ld.param.u32 %r20, [rounds];\n    {code}\n")
    right, wrong = Replay(analysed(ring)), Replay(analysed(ring.replace(GIVE, "")))
    assert not isinstance(right.verdict, GaveUp)
    assert right.run is None
    assert wrong.run is not None
    assert wrong.run.deadlocks
