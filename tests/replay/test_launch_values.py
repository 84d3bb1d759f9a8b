"""Replays: what parameters and words of global memory are, and when they confirm a fault."""

from __future__ import annotations

import pytest

from tclint.replay.interface import Faulty
from tclint.replay.reasons import NotReplayed
from tclint.replay.verdict import Replay
from tests.tools.replay import GIVE, changed, replay, reports, what, why
from tests.tools.support import by_rule, lint, model

ITEMS = """
.version 8.6
.target sm_90
.address_size 64

.visible .entry items(.param .u64 table, .param .u64 out)
.reqntid 64
{
    .reg .pred %p<8>;
    .reg .b32 %r<16>, %full, %empty, %item;
    .reg .b64 %table, %out, %rd<4>;
    .shared .align 8 .b64 bars[3];
    .shared .align 4 .b32 cell;

    ld.param.u64 %table, [table];
    ld.param.u64 %out, [out];
    mov.u32 %full, bars;
    add.u32 %empty, %full, 8;
    add.u32 %item, %full, 16;
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [%full], 32;
    mbarrier.init.shared::cta.b64 [%empty], 32;
    mbarrier.init.shared::cta.b64 [%item], 32;
ready:
    bar.sync 0;
    ld.global.u32 %r1, [%table];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r5, 0;
    mov.u32 %r6, 0;
    setp.ge.s32 %p1, %r2, %r1;
    @%p1 bra finish;
    setp.lt.u32 %p2, %r0, 32;
    @%p2 bra producer;
consumer:
    mul.wide.u32 %rd1, %r2, 8;
    add.s64 %rd1, %table, %rd1;
    ld.global.v2.u32 {%r7, %r8}, [%rd1+8];
    sub.s32 %r9, %r8, %r7;
    setp.lt.s32 %p3, %r9, 1;
    @%p3 bra consumed;
chunk:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%full], %r5;
    @!%p4 bra chunk;
    ld.shared.u32 %r10, [cell];
    st.global.u32 [%out], %r10;
    mbarrier.arrive.shared::cta.b64 _, [%empty];
    xor.b32 %r5, %r5, 1;
    sub.s32 %r9, %r9, 1;
    setp.gt.s32 %p5, %r9, 0;
    @%p5 bra chunk;
consumed:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%item], %r6;
    @!%p4 bra consumed;
    xor.b32 %r6, %r6, 1;
    add.s32 %r2, %r2, 148;
    setp.lt.s32 %p6, %r2, %r1;
    @%p6 bra consumer;
    bra finish;
producer:
    mul.wide.u32 %rd1, %r2, 8;
    add.s64 %rd1, %table, %rd1;
    ld.global.v2.u32 {%r7, %r8}, [%rd1+8];
    sub.s32 %r9, %r8, %r7;
    setp.lt.s32 %p3, %r9, 1;
    @%p3 bra produced;
    xor.b32 %r11, %r5, 1;
room:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%empty], %r11;
    @!%p4 bra room;
    @!%p0 st.shared.u32 [cell], %r9;
    bar.warp.sync -1;
    mbarrier.arrive.shared::cta.b64 _, [%full];
    xor.b32 %r11, %r11, 1;
    xor.b32 %r5, %r5, 1;
    sub.s32 %r9, %r9, 1;
    setp.gt.s32 %p5, %r9, 0;
    @%p5 bra room;
produced:
    mbarrier.arrive.shared::cta.b64 _, [%item];
    add.s32 %r2, %r2, 148;
    setp.lt.s32 %p6, %r2, %r1;
    @%p6 bra producer;
finish:
    ret;
}
"""
"""Both roles walk the same items. With items that are not empty, the consumer holds the producer back by each chunk."""


def test_words_of_memory_that_must_be_equal_for_a_fault() -> None:
    """Where all items are empty, the producer may be two phases ahead; nothing is wrong where none is."""
    found = replay(ITEMS).verdict
    assert isinstance(found, Faulty)
    assert found.needs is not None
    assert sorted(found.needs.names) == ["%r7", "%r8"]
    assert found.needs.tested
    full = replay(ITEMS.replace("    mbarrier.arrive.shared::cta.b64 _, [%empty];\n", "")).verdict
    assert isinstance(full, Faulty)
    assert full.needs is None


def test_a_fault_of_equal_words_is_reported_with_its_condition() -> None:
    (hit,) = by_rule(lint(ITEMS), "MB016")
    assert hit.message.endswith("(only if %r8 == %r7, neighbouring words of memory, as of an empty item)")
    assert (hit.severity.label, hit.confidence.label) == ("warning", "medium")
    assert "loads %r8 or %r7, which are equal in this launch" in [step.message for step in hit.steps]
    (always,) = by_rule(
        lint(ITEMS.replace("    mbarrier.arrive.shared::cta.b64 _, [%empty];\n", "")), "MB016"
    )
    assert "only if" not in always.message


SENTINEL = """
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @!%p0 mbarrier.init.shared::cta.b64 [all], 128;
    bar.sync 0;
    ld.param.u64 %rd0, [pointer];
    ld.param.u64 %rd1, [other];
    ld.global.u32 %r1, [%rd0];
    ld.global.u32 %r2, [{second}];
    setp.{relation}.u32 %p1, %r1, %r2;
    @%p1 bra wait;
    mbarrier.arrive.shared::cta.b64 _, [all];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [all], 0;
    @!%p2 bra wait;
    ret;
"""


@pytest.mark.parametrize(
    ("second", "relation", "found", "condition"),
    [
        ("%rd1", "eq", False, False),  # words of two buffers, which nothing relates
        ("%rd0+4", "eq", True, True),  # neighbours
        ("%rd1", "ne", False, False),
    ],
)
def test_words_of_two_buffers_are_equal_in_no_launch_that_confirms(
    second: str, relation: str, found: bool, condition: bool
) -> None:
    body = SENTINEL.format(second=second, relation=relation)
    asked = Replay(
        model(body, before=".shared .b64 all;", parameters=".param .u64 pointer, .param .u64 other")
    )
    assert isinstance(asked.verdict, Faulty) == found
    assert not isinstance(asked.verdict, Faulty) or (asked.verdict.needs is not None) == condition


def test_roles_that_a_parameter_decides() -> None:
    code = changed(
        "setp.lt.u32 %p2, %r0, 128;", "ld.param.u32 %r1, [rounds];\n    setp.lt.u32 %p2, %r0, %r1;"
    )
    asked = replay(code)
    assert asked.run is None
    assert asked.runs[0].wrong  # with 512 there are no consumers


def test_arrivals_that_a_parameter_counts() -> None:
    code = changed(
        "mbarrier.init.shared::cta.b64 [empty], 128;", "mbarrier.init.shared::cta.b64 [empty], %r20;"
    )
    asked = replay(code)
    assert asked.run is None
    assert why(asked) == NotReplayed.COUNT_FROM_LAUNCH
    either = "selp.b32 %r1, 128, 96, %p1;\n    mbarrier.init.shared::cta.b64 [empty], %r1;"
    chosen = code.replace(
        "mbarrier.init.shared::cta.b64 [empty], %r20;", "setp.ne.u32 %p1, %r20, 0;\n    " + either
    )
    assert replay(chosen).run is None
    assert "stuck" in what(replay(chosen.replace(GIVE, "")).run)


def test_phases_that_a_parameter_names() -> None:
    """Parities that the host passes go with each other; those of a launch that is made up need not."""
    code = changed(".param .u32 rounds)", ".param .u32 rounds, .param .u32 parity)")
    given = code.replace("    mov.u32 %r23, 1;\n", "    ld.param.u32 %r23, [parity];\n")
    asked = replay(given)
    assert asked.run is None
    assert why(asked) == NotReplayed.PHASE_FROM_LAUNCH
    chosen = given.replace(
        "    ld.param.u32 %r23, [parity];\n",
        "    ld.param.u32 %r1, [rounds];\n    setp.ne.u32 %p1, %r1, 0;\n    selp.b32 %r23, 1, 1, %p1;\n",
    )
    assert replay(chosen).run is None
    assert "stuck" in what(replay(chosen.replace(GIVE, "")).run)


def test_what_depends_on_memory_is_not_reported() -> None:
    code = changed(
        GIVE,
        "    mov.u32 %r32, %clock;\n    setp.eq.u32 %p3, %r32, 7;\n    @%p3 mbarrier.arrive.shared::cta.b64 _, [%r28];\n",
    )
    asked = replay(code)
    assert asked.run is None
    assert why(asked) == NotReplayed.UNKNOWN_GUARD


SIZED = """.version 8.0
.target sm_90
.address_size 64
.visible .entry items(.param .u64 sizes, .param .u32 count, .param .u64 out)
.reqntid 64
{
    .reg .pred %p<6>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .shared .align 16 .b8 tile[128];
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 empty;
    ld.param.u64 %rd1, [sizes];
    ld.param.u32 %r1, [count];
    mov.u32 %r0, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %nctaid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [full], 32;
    mbarrier.init.shared::cta.b64 [empty], 32;
ready:
    bar.sync 0;
    and.b32 %r4, %r0, 31;
    shl.b32 %r4, %r4, 2;
    mov.u32 %r5, tile;
    add.u32 %r5, %r5, %r4;
    setp.lt.u32 %p1, %r0, 32;
    mov.u32 %r6, 0;
    @%p1 bra use;
    mov.u32 %r6, 1;
fill:
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd2, %rd1, %rd2;
    ld.global.u32 %r7, [%rd2];
    setp.eq.u32 %p2, %r7, 0;
    @%p2 bra nothing;
    mov.u32 %r8, 0;
part:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [empty], %r6;
    @!%p3 bra part;
    xor.b32 %r6, %r6, 1;
    st.shared.u32 [%r5], %r8;
    mbarrier.arrive.shared::cta.b64 _, [full];
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p4, %r8, %r7;
    @%p4 bra part;
    bra next;
nothing:
    NOTHING
next:
    add.u32 %r2, %r2, %r3;
    setp.lt.u32 %p5, %r2, %r1;
    @%p5 bra fill;
    ret;
use:
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd2, %rd1, %rd2;
    ld.global.u32 %r7, [OTHER];
    setp.eq.u32 %p2, %r7, 0;
    @%p2 bra skip;
    mov.u32 %r8, 0;
take:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], %r6;
    @!%p3 bra take;
    xor.b32 %r6, %r6, 1;
    ld.shared.u32 %r9, [%r5];
    mbarrier.arrive.shared::cta.b64 _, [empty];
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p4, %r8, %r7;
    @%p4 bra take;
    bra done;
skip:
    SKIP
done:
    add.u32 %r2, %r2, %r3;
    setp.lt.u32 %p5, %r2, %r1;
    @%p5 bra use;
    ret;
}
"""
GIVES, TAKES = (
    f"""mbarrier.try_wait.parity.shared::cta.b64 %p3, [{awaited}], %r6;
    @!%p3 bra {label};
    xor.b32 %r6, %r6, 1;
    mbarrier.arrive.shared::cta.b64 _, [{signalled}];"""
    for label, awaited, signalled in (("nothing", "empty", "full"), ("skip", "full", "empty"))
)
ARRIVES = "mbarrier.arrive.shared::cta.b64 _, [full];"


@pytest.mark.parametrize(
    ("nothing", "skip", "other", "site"),
    [
        ("", "", "%rd2", ""),
        (GIVES, TAKES, "%rd2", ""),
        (ARRIVES, "", "%rd2", ARRIVES),
        ("", TAKES, "%rd2", TAKES),
        (GIVES, "", "%rd2", GIVES),
        (ARRIVES, "", "%rd2+4096", ""),  # of another part of the list, nothing is known
    ],
)
def test_items_without_work_among_others(nothing: str, skip: str, other: str, site: str) -> None:
    """What one role does at an mbarrier only for an item of size 0 has to be matched by the other role."""
    code = SIZED.replace("NOTHING", nothing).replace("SKIP", skip).replace("OTHER", other)
    verdict = replay(code).verdict
    found = [f for f in reports(code) if f.severity.label == "warning"]
    assert isinstance(verdict, Faulty) is bool(site)
    assert len(found) == bool(site)
    for finding in found:
        assert "is executed only if %r7 is 0, as of an empty item" in finding.message
        assert code[finding.span.start :].startswith(site.partition(";")[0])


def test_items_of_another_list_may_not_be_empty_with_them() -> None:
    """Where one role reads another buffer, nothing says that both find one item empty."""
    code = SIZED.replace("NOTHING", ARRIVES).replace("SKIP", "").replace("OTHER", "%rd4")
    code = code.replace(
        "use:\n",
        "use:\n    ld.param.u64 %rd3, [out];\n    mul.wide.u32 %rd4, %r2, 4;\n    add.s64 %rd4, %rd3, %rd4;\n",
    )
    assert not isinstance(replay(code).verdict, Faulty)
