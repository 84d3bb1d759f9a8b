"""Reads of shared memory at an index that no warp has for itself, in kernels that fill a table and look values up."""

from __future__ import annotations

import pytest

from tclint.analyses.lookups import lookups
from tclint.analyses.overlaps import OVERLAP
from tclint.findings.scales import Confidence, Method
from tests.tools.support import analysed, kernel, lint, module

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"
START = """
    .shared .align 16 .b8 table[4096];
    .shared .align 16 .b8 other[4096];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, table;
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    cvta.to.global.u64 %rd1, %rd0;
    mad.wide.u32 %rd2, %r0, 4, %rd1;
    and.b32 %r10, %r0, 31;
    ld.global.u32 %r8, [%rd2];
"""
FILL = """
    mov.u32 %r2, {start};
    setp.ge.u32 %p1, %r2, %r9;
    @%p1 bra filled;
fill:
    mad.lo.u32 %r3, %r2, 4, %r1;
    st.shared.u32 [%r3], {value};
    add.u32 %r2, %r2, {stride};
    setp.lt.u32 %p1, %r2, %r9;
    @%p1 bra fill;
filled:
"""
"""How many elements there are is known to the launch alone, and so which threads store."""
LOOK_UP = """
    and.b32 %r4, {index}, 1023;
    mad.lo.u32 %r5, %r4, 4, %r1;
    ld.shared.u32 %r6, [%r5];
    st.global.u32 [%rd2], %r6;
"""


def filled(start: str = "%r0", stride: str = "128", value: str = "%r8") -> str:
    return FILL.format(start=start, stride=stride, value=value)


def looked_up(index: str = "%r8") -> str:
    return LOOK_UP.format(index=index)


def found(body: str, directives: str = ".maxntid 128") -> list[tuple[bool, bool]]:
    """For each conflict, whether it is of a later store, and whether launches may never take its path."""
    model = analysed(module(kernel(f"{START}\n{body}\nret;", directives=directives), header=HEADER))
    return [(conflict.use.writes, bool(conflict.doubt)) for conflict in lookups(model)]


EARLY, LATE, DOUBTED = (False, False), (True, False), (False, True)


def test_a_lookup_that_is_too_early_is_reported_once() -> None:
    body = f"{filled()}{looked_up('%r10')}{looked_up('%r9')}ret;"
    findings = lint(module(kernel(f"{START}\n{body}", directives=".reqntid 128"), header=HEADER)).findings
    assert [(f.rule.id, f.confidence) for f in findings if f.method is Method.STATIC] == [
        ("SM001", Confidence.MEDIUM)
    ]


@pytest.mark.parametrize("index", ["%r8", "%r10", "%r9"])
def test_a_table_that_is_read_before_all_warps_have_filled_it(index: str) -> None:
    """The index is loaded, that of a lane, or that of the launch."""
    body = f"{filled()}{{}}{looked_up(index)}"
    assert found(body.format("")) == [EARLY]
    assert not found(body.format("bar.sync 0;"))


@pytest.mark.parametrize(
    "index",
    [
        "%r0",  # each thread has its own element
        "%r7",  # the row of a warp, in which data select
        "%r11",  # a counter gives each thread another element
        "%r12",  # what the thread has stored for itself may be an index into its part
        "%r14",  # what a warp has loaded for itself as well
        "%r15",  # or one of its lanes for all
    ],
)
def test_an_index_that_a_warp_has_for_itself_may_be_right(index: str) -> None:
    body = """
    shr.u32 %r7, %r0, 5;
    mad.lo.u32 %r7, %r7, 32, %r8;
    mad.lo.u32 %r13, %r0, 4, other;
    st.shared.u32 [%r13], %r0;
    ld.shared.u32 %r12, [%r13];
    atom.global.add.u32 %r11, [%rd1], 1;
    shr.u32 %r14, %r0, 5;
    mad.wide.u32 %rd3, %r14, 4, %rd1;
    ld.global.u32 %r14, [%rd3];
    shfl.sync.idx.b32 %r15, %r8, 0, 31, -1;
    """
    assert not found(body + filled() + looked_up(index))


@pytest.mark.parametrize(
    ("start", "stride"),
    [
        ("%r10", "32"),  # each warp fills the whole table
        ("0", "1"),  # all warps store the same
        ("%r8", "128"),  # data decide where a warp starts
        ("%r0", "%r8"),  # and how far it goes
    ],
)
def test_a_warp_may_read_what_it_has_stored_itself(start: str, stride: str) -> None:
    assert not found(filled(start, stride) + looked_up())


def test_one_thread_stores_what_all_read() -> None:
    """The loop of the one thread has more iterations than a path is followed for."""
    copied = """
    setp.ne.u32 %p2, %r0, 0;
    @%p2 bra filled;
    mov.u32 %r2, 0;
copy:
    mad.lo.u32 %r3, %r2, 4, %r1;
    st.shared.u32 [%r3], %r8;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 180;
    @%p1 bra copy;
filled:
    {}
    ld.shared.u32 %r6, [table+400];
    st.global.u32 [%rd2], %r6;
    ld.shared.u32 %r6, [table+404];
    st.global.u32 [%rd2], %r6;
    """
    assert found(copied.format("")) == [EARLY]
    assert not found(copied.format("bar.sync 0;"))


def test_only_a_part_of_the_table_may_be_filled_without_a_barrier() -> None:
    """What is read may all be stored before the barrier: the last store is for later."""
    first = "mad.lo.u32 %r3, %r0, 4, %r1;\nst.shared.u32 [%r3], %r8;\nbar.sync 0;\n"
    assert not found(first + "st.shared.u32 [%r3+2048], %r8;\n" + looked_up())


def test_a_table_that_is_filled_again_while_other_warps_read_it() -> None:
    loop = f"""
round:
    mad.lo.u32 %r3, %r0, 4, {{base}};
    st.shared.u32 [%r3], %r8;
    bar.sync 0;
    {looked_up()}
    {{after}}
    {{advance}}
    add.u32 %r9, %r9, -1;
    setp.ne.u32 %p3, %r9, 0;
    @%p3 bra round;
    """
    assert found(loop.format(base="table", after="", advance="")) == [LATE]
    assert not found(loop.format(base="table", after="bar.sync 0;", advance=""))
    # The next iteration may fill another part.
    assert not found(loop.format(base="%r1", after="", advance="xor.b32 %r1, %r1, 2048;"))


@pytest.mark.parametrize(
    ("advance", "expected"), [("", [LATE]), ("add.u32 %r2, %r2, %r9;", []), ("add.u32 %r2, %r2, %r8;", [])]
)
def test_a_thread_may_append_while_other_warps_read_what_it_has_stored_before(
    advance: str, expected: list[tuple[bool, bool]]
) -> None:
    """The launch or data decide how far the next element is from this one."""
    body = f"""
    setp.ne.u32 %p5, %r0, 0;
    mov.u32 %r2, %r1;
round:
    @%p5 bra stored;
    st.shared.u32 [%r2], %r8;
stored:
    bar.sync 0;
    {looked_up()}
    {advance}
    add.u32 %r9, %r9, -1;
    setp.ne.u32 %p3, %r9, 0;
    @%p3 bra round;
    """
    assert found(body) == expected


def test_more_starts_of_an_address_than_are_compared_leave_the_question_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which of two tables is filled depends on the launch."""
    chosen = "setp.eq.u32 %p2, %r9, 0;\n@%p2 bra chosen;\nadd.u32 %r7, %r7, 2048;\nchosen:"
    body = f"mad.lo.u32 %r7, %r0, 4, %r1;\n{chosen}\nst.shared.u32 [%r7], %r8;\n{looked_up()}"
    checked = analysed(module(kernel(f"{START}\n{body}\nret;", directives=".maxntid 128"), header=HEADER))
    assert list(lookups(checked))
    assert not checked.ledger.unanswered
    monkeypatch.setattr("tclint.analyses.lookups.MAX_STARTS", 1)
    checked = analysed(module(kernel(f"{START}\n{body}\nret;", directives=".maxntid 128"), header=HEADER))
    assert not list(lookups(checked))
    assert [(left.question, left.why) for left in checked.ledger.unanswered] == [
        (OVERLAP, "more than 1 starts of an address")
    ]


@pytest.mark.parametrize("directives", [".maxntid 32", ".reqntid 32"])
def test_a_warp_alone_needs_no_barrier(directives: str) -> None:
    assert not found(filled() + looked_up(), directives=directives)


def test_warps_that_nothing_shows_to_exist_need_no_barrier() -> None:
    assert not found(filled() + looked_up(), directives="")
    assert found(filled() + looked_up() + "bar.sync 0;", directives="")


def test_lanes_that_synchronise_may_have_a_table_of_their_own() -> None:
    body = filled() + "bar.warp.sync -1;" + looked_up()
    assert found(body) == [DOUBTED]


def test_a_warp_that_signals_the_others_has_stored_before_they_read() -> None:
    """The warp that stores only arrives at the barrier, and itself reads at once."""
    body = f"""
    setp.ge.u32 %p2, %r0, 32;
    @%p2 bra others;
    mad.lo.u32 %r3, %r0, 4, %r1;
    st.shared.u32 [%r3], %r8;
    {{signal}}
    bra.uni ready;
others:
    {{wait}}
ready:
    {looked_up("%r10")}
    """
    assert not found(body.format(signal="barrier.cta.arrive.aligned 1, 128;", wait="bar.sync 1, 128;"))
    assert found(body.format(signal="", wait="")) == [EARLY]


@pytest.mark.parametrize(
    ("user", "expected"), [("setp.lt.u32 %p4, %r0, 32;", []), ("setp.ge.u32 %p4, %r0, 32;", [EARLY])]
)
def test_only_warps_that_use_what_they_have_loaded_count(
    user: str, expected: list[tuple[bool, bool]]
) -> None:
    """Compilers load ahead of a guard, in all threads, what those of one warp need, which has stored it itself."""
    body = f"""
    setp.eq.u32 %p2, %r0, 0;
    @%p2 st.shared.u32 [table], %r8;
    ld.shared.u32 %r6, [table];
    {user}
    @%p4 st.global.u32 [%rd2], %r6;
    """
    assert found(body) == expected
