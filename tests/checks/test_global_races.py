"""MO008: counters in global memory that are cleared while other threads may add to them."""

from __future__ import annotations

import pytest

from tclint.findings.scales import Confidence
from tests.tools.support import by_rule, kernel, lint, module

START = """
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mad.lo.u32 %r2, %r1, 128, %r0;
    ld.param.u64 %rd0, [pointer];
    ld.param.u64 %rd9, [keys];
    cvta.to.global.u64 %rd0, %rd0;
    cvta.to.global.u64 %rd9, %rd9;
    mul.wide.u32 %rd1, %r0, 4;
    mul.wide.u32 %rd2, %r2, 4;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd4, %rd9, %rd2;
    ld.global.u32 %r3, [%rd4];
    mul.wide.u32 %rd5, %r3, 4;
    add.u64 %rd1, %rd0, %rd1;
    add.u64 %rd2, %rd0, %rd2;
    add.u64 %rd3, %rd0, %rd3;
    add.u64 %rd5, %rd0, %rd5;
    setp.eq.u32 %p0, %r0, 0;
    setp.eq.u32 %p1, %r2, 0;
    setp.eq.u32 %p2, %r1, 0;
"""
SYNC = "bar.sync 0;"
ONE = "st.global.u32 [%rd0], 0;"
OWN = "st.global.u32 [%rd1], 0;"
ADD = "red.global.add.u32 [%rd0], 1;"
CHOSEN = "atom.global.add.u32 %r4, [%rd5], 1;"
POLL = "poll:\nld.acquire.gpu.global.u32 %r5, [%rd9+64];\nsetp.eq.u32 %p3, %r5, 0;\n@%p3 bra poll;"


def text(*body: str) -> str:
    parameters = ".param .u64 pointer, .param .u64 keys"
    return module(kernel("\n".join((START, *body, "ret;")), parameters=parameters))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ([f"@%p1 {ONE}", ADD], 1),
        ([f"@%p0 {ONE}", SYNC, ADD], 1),
        ([ONE, SYNC, ADD, "red.global.add.u32 [%rd0], 2;"], 1),
        ([ONE.replace("u32", "volatile.u32").replace("st.global.volatile", "st.volatile.global"), ADD], 1),
        ([OWN, SYNC, CHOSEN], 1),
        (["st.global.u32 [%rd2], 0;", SYNC, CHOSEN], 1),
        ([OWN, "red.global.min.u32 [%rd5], %r3;"], 1),
        # Others wait for the grid.
        ([f"@%p1 {ONE}", POLL, ADD], 0),
        ([f"@%p1 {ONE}", "@!%p0 bra joined;", POLL, "joined:", SYNC, ADD], 0),
        ([f"@%p1 {ONE}", "griddepcontrol.wait;", ADD], 0),
        # Counters of the CTA, or of the thread.
        (["st.global.u32 [%rd3], 0;", SYNC, "red.global.add.u32 [%rd3], 1;"], 0),
        (["st.global.u32 [%rd2], 0;", "red.global.add.u32 [%rd2], 1;"], 0),
        # Other words, or no clearing before.
        ([ONE, "red.global.add.u32 [%rd0+4], 1;"], 0),
        ([ONE, "red.global.add.u32 [%rd9], 1;"], 0),
        (["st.global.u32 [%rd0], %r3;", ADD], 0),
        ([ADD, SYNC, f"@%p1 {ONE}"], 0),
        ([ONE, "atom.global.exch.b32 %r4, [%rd0], 1;"], 0),
        # One CTA alone adds.
        ([ONE, SYNC, "@!%p2 bra over;", ADD, "over:"], 0),
        # The last CTA clears for the next launch.
        (
            [
                "next:\natom.global.add.u32 %r4, [%rd9], 1;\nsetp.ne.u32 %p3, %r4, 7;\n@%p3 bra kept;",
                *(ONE, "kept:", ADD, "setp.lt.u32 %p4, %r3, 9;", "@%p4 bra next;"),
            ],
            0,
        ),
    ],
)
def test_a_counter_that_other_ctas_add_to_is_cleared(body: list[str], found: int) -> None:
    assert len(by_rule(lint(text(*body)), "MO008")) == found


@pytest.mark.parametrize(
    ("body", "found"), [([f"@%p0 {ONE}", ADD], 1), ([f"@%p0 {ONE}", SYNC, ADD], 0), ([OWN, CHOSEN], 0)]
)
def test_a_kernel_that_knows_no_cta_needs_a_cta_barrier(body: list[str], found: int) -> None:
    alone = text(*body).replace("mov.u32 %r1, %ctaid.x;", "mov.u32 %r1, 0;")
    hits = by_rule(lint(alone), "MO008")
    assert len(hits) == found
    assert all("other warps" in hit.message for hit in hits)


def test_the_message_states_the_condition() -> None:
    (hit,) = by_rule(lint(text(OWN, SYNC, CHOSEN)), "MO008")
    assert "if the grid has more than one CTA" in hit.message


TILE = """
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    ld.param.u64 %rd0, [pointer];
    cvta.to.global.u64 %rd0, %rd0;
    mul.wide.u32 %rd1, %r1, 1024;
    add.u64 %rd0, %rd0, %rd1;
    mul.wide.u32 %rd2, %r0, 4;
    add.u64 %rd2, %rd0, %rd2;
    sub.u32 %r2, 127, %r0;
    mul.wide.u32 %rd3, %r2, 4;
    add.u64 %rd3, %rd0, %rd3;
    xor.b32 %r3, %r0, 1;
    mul.wide.u32 %rd4, %r3, 4;
    add.u64 %rd4, %rd0, %rd4;
    setp.eq.u32 %p0, %r0, 0;
"""
STORE = "st.global.u32 [%rd2], %r0;"
LOAD = "ld.global.u32 %r4, [%rd3];"
KEEP = "st.global.u32 [%rd2+8192], %r4;"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ([STORE, LOAD, KEEP], 1),
        ([STORE, SYNC, LOAD, KEEP], 0),
        ([LOAD, "st.global.u32 [%rd2], %r4;"], 1),
        ([LOAD, SYNC, "st.global.u32 [%rd2], %r4;"], 0),
        (["ld.global.u32 %r4, [%rd0];", KEEP, "@%p0 st.global.u32 [%rd0], %r1;"], 1),
        # A fence orders the accesses of its own thread.
        ([STORE, "membar.gl;", LOAD, KEEP], 1),
        # Each thread reads its own element of what the others have stored.
        ([STORE, LOAD.replace("ld.", "ld.volatile."), KEEP], 1),
        # The own element, that of another lane of the warp, and other bytes.
        ([STORE, LOAD.replace("rd3", "rd2"), KEEP], 0),
        ([STORE, LOAD.replace("rd3", "rd4"), KEEP], 0),
        ([STORE, LOAD.replace("[%rd3]", "[%rd3+512]"), KEEP], 0),
        # What no thread writes, what is strong, and two writes.
        ([STORE, LOAD.replace("global", "global.nc"), KEEP], 0),
        ([STORE, LOAD.replace("ld.", "ld.relaxed.gpu."), KEEP], 0),
        ([STORE, "st.global.u32 [%rd3], %r1;"], 0),
        # Data select the element.
        (
            [
                "ld.global.u32 %r5, [%rd0+4096];\nmul.wide.u32 %rd5, %r5, 4;\nadd.u64 %rd2, %rd2, %rd5;\nadd.u64 %rd3, %rd3, %rd5;",
                *(STORE, LOAD, KEEP),
            ],
            0,
        ),
    ],
)  # fmt: skip
def test_a_tile_that_warps_exchange_through_needs_a_barrier(body: list[str], found: int) -> None:
    assert len(by_rule(lint(module(kernel("\n".join((TILE, *body, "ret;"))))), "MO009")) == found


def test_a_value_that_the_conflicting_store_stores_is_used() -> None:
    body = (TILE, LOAD, "st.global.u32 [%rd2], %r4;", "ret;")
    (hit,) = by_rule(lint(module(kernel("\n".join(body)))), "MO009")
    assert not hit.doubt
    assert hit.confidence is Confidence.MEDIUM


def test_a_kernel_that_never_asks_which_thread_it_is_has_no_race() -> None:
    """Each thread would do the same, so it is meant for one."""
    body = TILE.replace("%tid.x", "%ntid.x") + "ld.global.u32 %r4, [%rd0];\nst.global.u32 [%rd0], %r4;\nret;"
    used = body.replace("st.global", "add.u32 %r4, %r4, 1;\nst.global")
    assert not by_rule(lint(module(kernel(used, directives=""))), "MO009")


HALF = """
    setp.ge.u32 %p4, %r0, {0};
    @%p4 bra done_{0};
    ld.{1}global.u32 %r6, [%rd2];
    ld.{1}global.u32 %r7, [%rd2+{2}];
    add.u32 %r6, %r6, %r7;
    st.global.u32 [%rd2], %r6;
done_{0}:
"""


@pytest.mark.parametrize("order", ["", "volatile."])
@pytest.mark.parametrize("first", [128, 256, 1024])
def test_the_halves_of_a_sum_in_global_memory_need_a_barrier_in_the_ctas_they_are_made_for(
    first: int, order: str
) -> None:
    """A step of 64 threads after one of 128 is wrong if the CTA has more than 64, of which two warps are no example."""
    steps = [HALF.format(n, order if n < first else "", 4 * n) for n in (first, first // 2)]
    for between in ("", SYNC):
        body = f"{TILE}\n{steps[0]}\n{between}\n{steps[1]}\nret;"
        found = by_rule(lint(module(kernel(body, directives=""))), "MO009")
        expected = [f"if the CTA has more than {first // 2} threads"] * (not between)
        assert [expected[0] in each.message for each in found] == [True] * len(expected)


@pytest.mark.parametrize(
    ("directives", "found"), [(".reqntid 128", 0), (".maxntid 128", 0), (".reqntid 512", 1), ("", 1)]
)
def test_no_larger_ctas_are_tried_than_a_kernel_states(directives: str, found: int) -> None:
    steps = "\n".join(HALF.format(n, "", 4 * n) for n in (512, 256))
    source = module(kernel(f"{TILE}\n{steps}\nret;", directives=directives))
    assert len(by_rule(lint(source), "MO009")) == found


def test_a_volatile_load_that_a_loop_waits_for_does_not_race() -> None:
    wait = "again:\nld.volatile.global.u32 %r4, [%rd3];\nsetp.eq.u32 %p4, %r4, 0;\n@%p4 bra again;"
    assert not by_rule(lint(module(kernel(f"{TILE}\n{STORE}\n{wait}\n{KEEP}\nret;"))), "MO009")
