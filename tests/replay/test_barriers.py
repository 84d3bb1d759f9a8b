"""Replays of kernels whose threads synchronise by barriers alone: accesses to shared memory that none of these orders."""

from __future__ import annotations

from functools import reduce

import pytest

from tclint.analyses.overlaps import OVERLAP
from tclint.checks.barrier_races import raced_between_barriers
from tclint.dataflow import GaveUp
from tclint.findings.scales import Confidence, Severity
from tclint.replay import warp_overlaps
from tclint.replay.reasons import NotReplayed
from tclint.replay.sync import BarrierArrival
from tclint.replay.vector_clocks import Agent, Clock, event, happens_before, join
from tclint.replay.verdict import Replay
from tests.tools.replay import GIVE, changed
from tests.tools.support import analysed, by_rule, kernel, lint, module

TREE = """
    .reg .pred %p<4>;
    .reg .b32 %r<12>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b8 scratch[4096];
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, scratch;
    mad.lo.u32 %r3, %r0, 4, %r2;
    st.shared.u32 [%r3], %r0;
    bar.sync 0;
    shr.u32 %r4, %r1, 1;
half:
    setp.ge.u32 %p0, %r0, %r4;
    @%p0 bra added;
    mad.lo.u32 %r5, %r4, 4, %r3;
    ld.shared.u32 %r6, [%r3];
    ld.shared.u32 %r7, [%r5];
    add.u32 %r6, %r6, %r7;
    st.shared.u32 [%r3], %r6;
added:
    bar.sync 0;
    shr.u32 %r4, %r4, 1;
    setp.ne.u32 %p1, %r4, 0;
    @%p1 bra half;
    ld.shared.u32 %r8, [scratch];
    bar.sync 0;
    mul.lo.u32 %r9, %r0, %r8;
    st.shared.u32 [%r3], %r9;
    bar.sync 0;
    xor.b32 %r10, %r0, 32;
    mad.lo.u32 %r10, %r10, 4, %r2;
    ld.shared.u32 %r11, [%r10];
    st.global.u32 [%rd0], %r11;
    ret;
"""
"""A sum over the threads of the CTA, half of those that are left at a time, that all threads then scale."""


def tree(old: str = "", new: str = "") -> str:
    assert old in TREE
    return module(
        kernel(
            TREE.replace(old, new, 1) if old else TREE,
            parameters=".param .u64 out",
            directives="",
            registers="",
        )
    )


def test_barriers_order_a_sum_over_all_threads() -> None:
    assert not by_rule(lint(tree()), "SM001")


@pytest.mark.parametrize(
    "orders",
    [
        "    ld.shared.u32 %r8, [scratch];\n    bar.sync 0;\n",  # others still read the sum
        "    bar.sync 0;\n    xor.b32",
        "added:\n    bar.sync 0;\n",
    ],
)
@pytest.mark.parametrize("instead", ["", "bar.warp.sync -1;"])
def test_a_missing_cta_barrier_in_a_sum_over_all_threads(orders: str, instead: str) -> None:
    found = by_rule(lint(tree(orders, orders.replace("bar.sync 0;", instead))), "SM001")
    assert {finding.confidence for finding in found} == {Confidence.MEDIUM}


ITEMS = """
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b8 scratch[4096];
    ld.param.u64 %rd0, [out];
    ld.param.u64 %rd1, [items];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, scratch;
    mad.lo.u32 %r2, %r0, 4, %r1;
    ld.global.u32 %r3, [%rd1];
    ld.global.u32 %r4, [%rd1+4];
    st.shared.u32 [%r2], %r0;
    setp.ge.s32 %p0, %r3, %r4;
    @%p0 bra done;
next:
    bar.sync 0;
    add.s32 %r3, %r3, 1;
    setp.lt.s32 %p1, %r3, %r4;
    @%p1 bra next;
done:
    xor.b32 %r5, %r0, 32;
    mad.lo.u32 %r5, %r5, 4, %r1;
    ld.shared.u32 %r6, [%r5];
    st.global.u32 [%rd0], %r6;
    ret;
"""
"""The barrier is in a loop over an item, which executes it unless the item is empty."""


def test_a_race_of_equal_words_is_a_warning_whatever_its_rule_is() -> None:
    body = kernel(ITEMS, parameters=".param .u64 out, .param .u64 items", directives="", registers="")
    (hit,) = raced_between_barriers(analysed(module(body)))
    assert "only if %r3 == %r4" in hit.message
    assert hit.severity is Severity.WARNING
    assert "CTA barrier" in hit.help


ROWS = """
    .reg .pred %p<4>;
    .reg .b32 %r<12>;
    .reg .b64 %rd<4>;
    .shared .align 8 .b8 rows[256];
    ld.param.u64 %rd0, [out];
    ld.param.u32 %r9, [count];
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    and.b32 %r2, %r0, 31;
    mov.u32 %r3, rows;
    mad.lo.u32 %r3, %r1, 64, %r3;
    setp.ne.u32 %p0, %r2, 0;
    mov.u32 %r4, 0;
    mov.u32 %r5, %r3;
fill:
    @!%p0 st.shared.u32 [%r5], %r4;
    add.u32 %r5, %r5, 4;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p1, %r4, {count};
    @%p1 bra fill;
    bar.warp.sync -1;
    ld.shared.u32 %r6, [%r3];
    st.global.u32 [%rd0], %r6;
    ret;
"""
"""Each warp has a row, which a loop fills."""


@pytest.mark.parametrize(("count", "found"), [("%r9", False), ("16", False), ("17", True)])
def test_a_loop_that_the_launch_ends_stays_in_its_row(count: str, found: bool) -> None:
    """Each row has room for 16 words. How many a launch asks for is unknown, but not that 17 are too many."""
    body = ROWS.format(count=count)
    code = module(
        kernel(body, parameters=".param .u64 out, .param .u32 count", directives=".maxntid 128", registers="")
    )
    assert bool(Replay(analysed(code)).run) is found


@pytest.mark.parametrize(
    ("rank", "judged"),
    [
        (
            "add.u32 %s, %y, %r0;\n    add.u32 %t, %s, %z;\n    setp.ne.u32 %p3, %t, 0;\n    @%p3 bra go;",
            True,
        ),
        ("or.b32 %s, %y, %r0;\n    or.b32 %t, %s, %z;\n    setp.eq.u32 %p3, %t, 0;\n    @!%p3 bra go;", True),
        ("add.u32 %s, %y, %z;\n    setp.ne.u32 %p3, %s, 0;\n    @%p3 bra go;", False),
        ("setp.ne.u32 %p3, %y, 1;\n    @%p3 bra go;", False),
        ("mad.lo.u32 %y, %y, 16, %r0;\n    setp.ne.u32 %p3, %y, 0;\n    @%p3 bra go;", False),
    ],
)
def test_dimensions_that_only_elect_the_first_thread(rank: str, judged: bool) -> None:
    """As the barrier of a grid in cooperative groups does: such a kernel is made for CTAs in one row."""
    elected = f"""mov.u32 %r0, %tid.x;
    .reg .b32 %y, %z, %s, %t;
    mov.u32 %y, %tid.y;
    mov.u32 %z, %tid.z;
    {rank}
    red.global.add.u32 [%in], 1;
go:"""
    ring = changed(".reqntid 160", ".maxntid 160").replace("mov.u32 %r0, %tid.x;", elected)
    right, wrong = Replay(analysed(ring)), Replay(analysed(ring.replace(GIVE, "")))
    assert isinstance(right.verdict, GaveUp) is not judged
    assert (wrong.run is not None) is judged


def test_the_size_of_a_cta_in_unknown_dimensions_is_not_made_up() -> None:
    ring = changed(".reqntid 160\n", "").replace("mov.u32 %r0, %tid.x;", "mov.u32 %r0, %tid.y;")
    verdict = Replay(analysed(ring)).verdict
    assert isinstance(verdict, GaveUp)
    assert verdict.why is NotReplayed.NO_CTA_SHAPE


def test_accesses_that_are_too_many_to_be_compared_are_an_open_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = kernel(ITEMS, parameters=".param .u64 out, .param .u64 items", directives="", registers="")
    assert list(raced_between_barriers(analysed(module(body))))
    monkeypatch.setattr(warp_overlaps, "MAX_KINDS", 1)
    model = analysed(module(body))
    assert not list(raced_between_barriers(model))
    assert {asked.why for asked in model.ledger.unanswered if asked.question == OVERLAP} == {
        "more than 1 kinds of accesses"
    }


@pytest.mark.parametrize("shape", ["0", "32, 1, -2147483649", "-32, -1", "1, 4096"])
def test_a_kernel_whose_shape_no_launch_can_have_is_linted(shape: str) -> None:
    body = "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 bra on;\nbar.sync 0;\non: ret;"
    for directive in (".maxntid", ".reqntid"):
        assert lint(module(kernel(body, directives=f"{directive} {shape}"))).status == "analysed"


@pytest.mark.parametrize("warps", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("in_time", [False, True])
def test_an_arrival_of_several_warps_is_known_if_that_of_each_is(
    warps: tuple[int, ...], in_time: bool
) -> None:
    parts = [Agent(n, "", 0, (32 * n,)) for n in range(2)]
    arrival = BarrierArrival(0, Agent(2, "", 0, (0, 32), parts), 3, (0, 32), 64)
    clock = reduce(join, [event(parts[n], 3) for n in warps])
    asked = list[Agent]()

    def ordered(observed: Clock, agent: Agent, number: int) -> bool:
        asked.append(agent)
        return in_time or happens_before(observed, agent, number)

    assert arrival.known_to([clock, clock], ordered) == (in_time or len(warps) == 2)
    assert bool(asked) == (len(warps) < 2)  # one comparison of clocks is enough for all
