"""SM001, MB014 and MB015 on small kernels; the pages of the rules hold the plain cases."""

from __future__ import annotations

import pytest

from tclint.analyses.cta_shapes import in_all_launches
from tclint.analyses.model import KernelModel
from tclint.analyses.warp_memory import SharedByBound
from tclint.findings.scales import Confidence, Method
from tests.tools.support import OWN_WORD, by_rule, kernel, lint, model, module

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 16 .b8 dynamic[];\n"
START = f"""
    .shared .align 128 .b8 tile[8192];
    .shared .align 8 .b64 full;
    mov.u32 %r0, %tid.x;
    {OWN_WORD}
    xor.b32 %r4, %r2, 508;
    add.u32 %r5, %r1, %r4;
    setp.eq.u32 %p0, %r0, 0;
    setp.lt.u32 %p1, %r0, 32;
    setp.lt.u32 %p2, %r0, %r9;
    setp.eq.u32 %p3, %r9, 7;
"""
WRITE = "st.shared.u32 [%r3], %r0;"
READ = "ld.shared.u32 %r6, [%r5];"
USE = "st.global.u32 [%rd1], %r6;"
PHASE = "wait_{0}: mbarrier.try_wait.parity.shared.b64 %p4, [{0}], 0;\n@!%p4 bra wait_{0};"


def found(body: str, **options: str) -> list[tuple[str, Confidence, str]]:
    """What follows from the code alone: a replay may show that roles which no path connects race as well."""
    text = module(kernel(f"{START}\n{body}\n{USE}\nret;", **options), header=HEADER)
    return [
        (f.rule.id, f.confidence, f.message)
        for f in lint(text).findings
        if f.rule.id in ("SM001", "MB014", "MB015") and f.method is Method.STATIC
    ]


@pytest.mark.parametrize(
    ("directives", "confidence"), [("", Confidence.LOW), (".maxntid 512", Confidence.MEDIUM)]
)
def test_warps_that_there_may_not_be(directives: str, confidence: Confidence) -> None:
    """Loops over a tile by a constant, the size of the CTA, leave a rest to threads from there on (learn-cuda)."""
    rest = f"setp.ge.u32 %p4, %r0, 256;\nsub.u32 %r7, %r3, 1024;\n@%p4 st.shared.u32 [%r7], %r0;\n{WRITE}"
    assert [c for _, c, _ in found(rest, directives=directives)] == [confidence]


@pytest.mark.parametrize(("second", "reported"), [("[%rd4+128]", False), ("[%rd4+256]", True)])
def test_copies_from_one_table_write_the_same_value_where_they_meet(second: str, reported: bool) -> None:
    """Every warp fills the whole table (nvCOMP), in which each word is copied from the place with its number."""
    body = f"""
    mul.wide.u32 %rd3, %r0, 4;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.u32 %r7, [%rd4];
    st.shared.u32 [%r3], %r7;
    ld.global.u32 %r8, {second};
    st.shared.u32 [%r3+128], %r8;
    """
    assert bool(found(body)) is reported


@pytest.mark.parametrize(
    ("second", "directives", "confidence"),
    [
        ("st.shared.u32 [%r3+256], %r9;", ".maxntid 512", Confidence.LOW),
        ("st.shared.u32 [%r3+256], %r9;", ".reqntid 512", Confidence.HIGH),
        (
            "@%p4 st.shared.u32 [%r3+256], %r9;",
            ".maxntid 512",
            Confidence.MEDIUM,
        ),  # there are more than 64 threads
        ("st.shared.u32 [%r3+260], %r9;", ".maxntid 512", Confidence.MEDIUM),
        ("@!%p5 bra done;\n@%p4 st.shared.u32 [%r3+256], %r9;\ndone:", ".maxntid 512", Confidence.MEDIUM),
    ],
)
def test_stores_a_stride_apart_may_be_those_of_a_smaller_cta(
    second: str, directives: str, confidence: Confidence
) -> None:
    """Loops over a tile by a constant, the size of the CTA, are unrolled, and the kernel states a larger bound."""
    body = f"setp.lt.u32 %p4, %r0, 64;\nsetp.lt.u32 %p5, %r0, 256;\n{WRITE}\n{second}"
    assert [c for _, c, _ in found(body, directives=directives)] == [confidence]


def test_stores_a_stride_apart_end_where_the_array_does() -> None:
    body = """
    setp.ge.u32 %p4, %r0, 128;
    setp.ge.u32 %p5, %r0, 64;
    @%p4 bra done;
    st.shared.u32 [%r3], %r0;
    @%p5 bra done;
    st.shared.u32 [%r3+256], %r9;
    done:
    """
    assert [c for _, c, _ in found(body, directives=".maxntid 512")] == [Confidence.LOW]


@pytest.mark.parametrize(
    ("who", "reported"),
    [
        ("%p0", False),  # thread 0 reads what it has written; the others have loaded it as well
        ("%p3", True),
        ("%p9", True),
    ],
)
def test_only_threads_that_use_what_all_have_loaded_count(who: str, reported: bool) -> None:
    """Back ends load ahead of the guard, in all threads, what one of them needs (nvcc for sm_100a)."""
    body = f"""
    setp.gt.u32 %p9, %r0, 96;
    @%p0 st.shared.u32 [tile], %r9;
    ld.shared.u32 %r8, [tile];
    add.u32 %r8, %r8, 1;
    @{who} st.global.u32 [%rd1], %r8;
    mov.u32 %r6, 0;
    """
    assert bool(found(body)) is reported


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"{WRITE}\n{READ}", "reads shared memory that another warp may still be writing"),
        (f"bar.sync 0;\n{READ}\n{WRITE}", "overwrites shared memory that another warp may still be reading"),
        (
            f"{WRITE}\nst.shared.u32 [%r5], %r2;",
            "overwrites shared memory that another warp may still be writing",
        ),
        (f"{READ}\nbar.warp.sync -1;\n{WRITE}", "overwrites"),
        (
            f"{WRITE}\nbar.sync 0;\n{READ}\ncp.async.ca.shared.global [%r3], [%rd1], 4;\ncp.async.wait_all;",
            "overwrites",
        ),
        (f"@%p1 {WRITE}\n{READ}", "reads"),
        (f"@%p3 {WRITE}\n{READ}", "reads"),
        (f"{WRITE}\nmembar.cta;\n{READ}", "reads"),
        (f"{WRITE}\nshfl.sync.idx.b32 %r7, %r0, 0, 31, -1;\n{READ}", "reads"),
        # One number decides for all, whatever is computed from it.
        (f"cvt.rn.f32.u32 %f0, %r9;\nsetp.gt.f32 %p4, %f0, 0f3F800000;\n@%p4 {WRITE}\n{READ}", "reads"),
        # A load releases nothing.
        (f"ld.volatile.shared.u32 %r7, [tile+4096];\n{WRITE}\n{READ}", "reads"),
    ],
)
def test_nothing_orders_two_warps(body: str, message: str) -> None:
    ((rule, confidence, said),) = found(body)
    assert (rule, confidence) == ("SM001", Confidence.HIGH)
    assert said.partition(" ")[2].startswith(message)


SUMS = """
    and.b32 %r7, %r0, 31;
    setp.ne.u32 %p4, %r7, 0;
    shr.u32 %r7, %r0, 5;
    shl.b32 %r7, %r7, 2;
    add.u32 %r7, %r7, %r1;
    mov.u32 %r6, 0;
    @%p4 bra stored;
    st.shared.u32 [%r7], %r0;
stored:
    {}
    {}
    setp.ge.u32 %p5, %r0, %r8;
    @%p5 bra on;
    ld.shared.u32 %r6, [%r3];
on:"""
FOUR, BY_SIZE = "mov.u32 %r8, 4;", "mov.u32 %r8, %ntid.x;\nshr.u32 %r8, %r8, 5;"


@pytest.mark.parametrize(
    ("sizes", "warps", "confidence"),
    [
        (".reqntid 128", FOUR, Confidence.HIGH),
        ("", BY_SIZE, Confidence.MEDIUM),
        (".maxntid 256", BY_SIZE, Confidence.MEDIUM),
        (".reqntid 128", BY_SIZE, Confidence.HIGH),
    ],
)
def test_a_warp_reads_what_the_first_lanes_of_others_stored(
    sizes: str, warps: str, confidence: Confidence
) -> None:
    """No lane but the first one stores and reads, and it reads its own word: others of its warp read the rest."""
    for order, wrong in (("", True), ("bar.warp.sync -1;", True), ("bar.sync 0;", False)):
        reported = [(rule, c) for rule, c, _ in found(SUMS.format(order, warps), directives=sizes)]
        assert reported == ([("SM001", confidence)] if wrong else [])


def test_lanes_that_wait_for_an_mbarrier_where_the_storing_lane_does_not_are_not_reported() -> None:
    wait = f"@!%p4 bra ordered;\n{PHASE.replace('%p4', '%p6').format('full')}\nordered:"
    assert not found(SUMS.format(wait, FOUR))


def test_a_size_of_the_cta_without_the_race_leaves_it_unreported() -> None:
    """In CTAs of 64 threads, warp 0 alone reads and writes the words."""
    assert not found(
        SUMS.format("", "mov.u32 %r8, %ntid.x;\nshr.u32 %r8, %r8, 7;"), directives=".maxntid 1024"
    )


@pytest.mark.parametrize(
    "body",
    [
        f"{WRITE}\nbar.sync 0;\n{READ}",
        f"{WRITE}\nbarrier.sync 3, 128;\n{READ}",
        f"{WRITE}\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n{READ}",
        f"{WRITE}\nbar.red.popc.u32 %r7, 0, %p0;\n{READ}",
        f"@%p0 {WRITE}\nld.shared.u32 %r6, [%r3];",  # its own word
        f"{WRITE}\nld.shared.u32 %r6, [%r3+512];",
        "st.volatile.shared.u32 [tile], %r0;\nld.volatile.shared.u32 %r6, [tile];",  # a flag
        f"atom.shared.add.u32 %r6, [%r5], 1;\n{WRITE.replace('st', 'st.volatile')}",
        "st.shared.u32 [tile], 0;\nst.shared.u32 [tile], 0;",
        f"ld.shared.u32 %r7, [tile+4096];\nadd.u32 %r7, %r7, %r5;\n{WRITE}\nld.shared.u32 %r6, [%r7];",
        f"@%p3 {WRITE}\n@!%p3 {READ}",
    ],
)
def test_ordered_or_not_known(body: str) -> None:
    assert not found(body)


@pytest.mark.parametrize("between", ["", "bar.warp.sync -1;", "bar.sync 0;"])
def test_volatile_reads(between: str) -> None:
    """They are ordered no more than others after what is stored: the last steps of a sum, by one warp."""
    reported = [
        c
        for rule, c, _ in found(f"{WRITE}\n{between}\n{READ.replace('ld', 'ld.volatile')}")
        if rule == "SM001"
    ]
    assert reported == [Confidence.MEDIUM] * (between != "bar.sync 0;")


@pytest.mark.parametrize("sign", ["", "volatile."])
@pytest.mark.parametrize("order", ["", "volatile."])
def test_a_volatile_store_that_no_loop_waits_for_orders_nothing(order: str, sign: str) -> None:
    """Sums of older programs are volatile, so that the lanes of a warp see each other's steps; warps still need a barrier."""
    write, read = WRITE.replace("st.", f"st.{order}"), READ.replace("ld.", f"ld.{order}")
    count = f"st.{sign}shared.u32 [tile+4096], 1;"
    wait = "again: ld.volatile.shared.u32 %r7, [tile+4096];\nsetp.eq.u32 %p5, %r7, 0;\n@%p5 bra again;"
    assert found(f"{write}\n{count}\n{read}")
    assert not found(f"{write}\nbar.sync 0;\n{count}\n{read}")
    assert not found(f"{write}\n{count}\n{wait}\n{read}")


@pytest.mark.parametrize("order", ["bar.sync 0;", ""])
def test_a_comparison_of_data_may_select_any_thread_that_stores(order: str) -> None:
    """A maximum by halves with the index of the largest, in a loop: ``if (t < n && a[t] < a[t + n]) a[t] = a[t + n]``."""
    body = f"""
    st.shared.f32 [%r3], %f0;
    bar.sync 0;
    mov.u32 %r8, 64;
half:
    setp.ge.u32 %p4, %r0, %r8;
    @%p4 bra smaller;
    mad.lo.u32 %r9, %r8, 4, %r3;
    ld.shared.f32 %f1, [%r3];
    ld.shared.f32 %f2, [%r9];
    setp.geu.f32 %p5, %f1, %f2;
    @%p5 bra smaller;
    st.shared.f32 [%r3], %f2;
smaller:
    {order}
    shr.u32 %r8, %r8, 1;
    setp.gt.u32 %p4, %r8, 16;
    @%p4 bra half;
    mov.u32 %r6, 0;"""
    assert [(rule, c) for rule, c, _ in found(body)] == [("SM001", Confidence.MEDIUM)] * (not order)


MATRIX = """
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %tid.y;
    mov.u32 %r7, %ctaid.x;
    mov.u32 %r8, %ctaid.y;
    ld.param.u64 %rd0, [pointer];
    mov.u32 %r2, tile;
    mad.lo.u32 %r3, %r0, 68, %r2;
    mad.lo.u32 %r3, %r1, 4, %r3;
    mad.lo.u32 %r5, %r1, 68, %r2;
    mad.lo.u32 %r5, %r0, 4, %r5;
    mul.wide.u32 %rd1, %r7, 64;
    mul.wide.u32 %rd2, %r8, {down};
    mul.wide.u32 %rd3, %r0, 4;
    mul.wide.u32 %rd4, %r1, {row};
    add.u64 %rd0, %rd0, %rd1;
    add.u64 %rd0, %rd0, %rd2;
    add.u64 %rd0, %rd0, %rd3;
    add.u64 %rd0, %rd0, %rd4;
    st.shared.u32 [%r3], %r0;
    {order}
    ld.shared.u32 %r6, [%r5];
    st.global.u32 [%rd0], %r6;
    ret;
"""
"""Tiles of 16 by 16 of a matrix whose width is known."""


@pytest.mark.parametrize("row", [4096, 64 * 3])
@pytest.mark.parametrize("order", ["bar.sync 0;", ""])
def test_the_rows_of_a_matrix_have_a_whole_number_of_tiles(row: int, order: str) -> None:
    """A thread of the next row is at no place of another CTA, although a number of CTAs along the row would be as far away."""
    source = module(
        kernel(MATRIX.format(row=row, down=16 * row, order=order), directives=""),
        header=HEADER + ".shared .align 4 .b8 tile[1088];\n",
    )
    assert len(by_rule(lint(source), "SM001")) == (not order)


BY_ONE = """
    {write}
    @!%p0 bra done;
    mov.u32 %r6, 0;
    mov.u32 %r7, 0;
    mov.u32 %r8, tile;
    mov.u32 %r10, tile;
sum:
    {load}
    add.u32 %r6, %r6, %r11;
    add.u32 %r7, %r7, 1;
    add.u32 %r8, %r8, 4;
    sub.u32 %r10, %r10, 4;
    setp.lt.u32 %p4, %r7, {count};
    @%p4 bra sum;
done:
"""


@pytest.mark.parametrize(
    ("load", "count", "races"),
    [
        ("ld.shared.u32 %r11, [%r8];", 33, 1),
        ("ld.shared.u32 %r11, [%r8];", 32, 0),  # what its own warp has stored
        ("shl.b32 %r12, %r7, 2;\nadd.u32 %r12, %r1, %r12;\nld.shared.u32 %r11, [%r12];", 33, 1),
        ("ld.shared.u32 %r11, [%r8];", "%r9", 0),  # as many elements as the launch says
        ("ld.shared.u32 %r11, [%r8];\nbar.warp.sync 1;", 64, 1),
        ("ld.shared.u32 %r11, [%r8];\nmbarrier.arrive.shared.b64 _, [full];", 64, 0),
        ("@%p3 ld.shared.u32 %r11, [%r8];", 64, 1),  # a condition that is the same in all threads
        ("setp.eq.u32 %p5, %r6, 7;\n@%p5 bra skip;\nld.shared.u32 %r11, [%r8];\nskip:", 64, 0),
        # Two counters of one loop, and one that a division follows: the address stays in the first warp.
        ("add.u32 %r12, %r8, %r10;\nsub.u32 %r12, %r12, %r1;\nld.shared.u32 %r11, [%r12];", 64, 0),
        (
            "div.u32 %r12, %r7, 2;\nmul.lo.u32 %r12, %r12, 8;\nsub.u32 %r12, %r8, %r12;\nld.shared.u32 %r11, [%r12];",
            64,
            0,
        ),
    ],
)
def test_one_thread_reads_what_others_have_stored(load: str, count: int | str, races: int) -> None:
    """In some iteration of a loop without a barrier it reads what another warp has stored."""
    reported = [f for f in found(BY_ONE.format(write=WRITE, load=load, count=count)) if f[0] == "SM001"]
    assert len(reported) == races
    ordered = BY_ONE.format(write=f"{WRITE}\nbar.sync 0;", load=load, count=count)
    assert not [f for f in found(ordered) if f[0] == "SM001"]


HALVES = "setp.lt.u32 %p4, %r0, 64;\nshr.u32 %r7, %r0, 6;\nadd.u32 %r7, %r7, 1;"
"""%p4: the first half of the CTA; %r7: 1 in the first half, 2 in the other."""


def in_halves(first: str, second: str) -> str:
    return f"@%p4 bra first;\n{second}\nbra both;\nfirst: {first}\nboth:"


@pytest.mark.parametrize(
    ("between", "reported"),
    [
        ("bar.sync %r7, 64;", True),
        (in_halves("bar.sync 1, 64;", "bar.sync 2, 64;"), True),
        (in_halves("bar.sync 1, 64;", ""), True),
        (in_halves("bar.sync 1, 64;", "bar.sync 1, 64;"), False),  # two warps of either half may meet
        ("bar.sync 1, 128;", False),
        ("bar.sync %r9, 64;", False),
        ("bar.sync %r7, 64;\nbar.sync 3, 128;", False),
        # Each half arrives at the barrier of the other one.
        (in_halves("bar.arrive 2, 128;\nbar.sync 1, 128;", "bar.arrive 1, 128;\nbar.sync 2, 128;"), False),
    ],
)
def test_a_barrier_orders_the_warps_that_take_part_in_it(between: str, reported: bool) -> None:
    """The bytes that a thread reads were written by the other half."""
    assert [rule for rule, *_ in found(f"{HALVES}\n{WRITE}\n{between}\n{READ}")] == ["SM001"] * reported


@pytest.mark.parametrize(
    ("first", "reported"),
    [("bar.sync 1, 64;", True), (f"{PHASE.format('full')}\nbar.sync 1, 64;", False)],
)
def test_what_one_half_has_done_is_ordered_by_an_mbarrier(first: str, reported: bool) -> None:
    between = in_halves(first, "mbarrier.arrive.shared.b64 _, [full];")
    assert bool(found(f"{HALVES}\n{WRITE}\n{between}\n@%p4 {READ}")) is reported


@pytest.mark.parametrize(
    "body",
    [
        # Each half reads what it has written itself.
        f"{WRITE}\nbar.sync %r7, 64;\nxor.b32 %r8, %r2, 252;\nadd.u32 %r8, %r1, %r8;\nld.shared.u32 %r6, [%r8];",
        # The halves take turns: the other one may be elsewhere.
        f"bar.sync %r7, 128;\n{WRITE}\nbar.sync %r7, 64;\n{READ}",
        # Third warps pass on what the first half has done.
        f"{WRITE}\n"
        + in_halves("bar.arrive 5, 128;\nbar.sync 1, 64;", "bar.sync 5, 128;\nbar.sync 1, 64;")
        + f"\n@!%p4 {READ}",
    ],
)
def test_what_a_barrier_of_some_warps_leaves_in_order(body: str) -> None:
    assert not found(f"{HALVES}\n{body}")


def test_a_barrier_of_half_the_warps_in_a_loop() -> None:
    body = f"""
    {HALVES}
    mov.u32 %r10, 0;
loop:
    bar.sync 0;
    {WRITE}
    bar.sync %r7, {{}};
    {READ}
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p5, %r10, 4;
    @%p5 bra loop;
    """
    assert [rule for rule, *_ in found(body.format(64))] == ["SM001"]
    assert not found(body.replace("bar.sync %r7, {};", "bar.sync 1, 128;"))


@pytest.mark.parametrize(
    ("inside", "confidence"), [("bar.sync 0;", Confidence.LOW), ("mov.u32 %r7, 0;", Confidence.HIGH)]
)
def test_a_loop_with_a_barrier_may_always_iterate(inside: str, confidence: Confidence) -> None:
    """encode_column_data_kernel of cudf reads a position, writes values in such a loop, and stores the position."""
    rounds = (
        f"setp.eq.u32 %p1, %r9, 0;\n@%p1 bra past;\nmov.u32 %r8, 0;\nround:\n{inside}\nadd.u32 %r8, %r8, 1;"
    )
    body = f"{READ}\n{rounds}\nsetp.lt.u32 %p2, %r8, %r9;\n@%p2 bra round;\npast:\n{WRITE}"
    ((rule, said, _),) = found(body)
    assert (rule, said) == ("SM001", confidence)


LOADED = "ld.global.u32 %r8, [%rd1];\nsetp.lt.u32 %p4, %r0, %r8;\n"


@pytest.mark.parametrize(
    ("use", "count"),
    [
        ("@%p4 st.global.u32 [%rd1], %r7;", 0),
        ("shl.b32 %r7, %r7, 1;\n@!%p4 bra past;\nst.global.u32 [%rd1], %r7;\npast:", 0),
        ("mov.u32 %r2, %r0;", 0),
        ("@%p2 st.global.u32 [%rd1], %r7;", 1),
        ("@%p4 st.global.u32 [%rd1], %r7;\nadd.u32 %r7, %r7, 1;\nst.global.u32 [%rd1], %r7;", 1),
        ("setp.eq.u32 %p4, %r7, 1;\n@%p4 bra past;\nmov.u32 %r6, 2;\npast:", 1),
    ],
)
def test_what_is_read_ahead_of_a_guard(use: str, count: int) -> None:
    """nvcc lets all threads of Marlin read the row of a token, of which those have one that are below a loaded number."""
    assert len(found(f"{LOADED}ld.shared.u32 %r7, [%r5];\n{WRITE}\n{use}\nmov.u32 %r6, 0;")) == count


@pytest.mark.parametrize(("bound", "confidence"), [("%r9", Confidence.LOW), ("64", Confidence.HIGH)])
def test_rounds_that_lead_out_of_a_row(bound: str, confidence: Confidence) -> None:
    """Four lanes of cuBLAS have a matrix and a row of shared memory to themselves; how large they are, the launch says."""
    rounds = f"{WRITE}\nadd.u32 %r3, %r3, 128;\nadd.u32 %r8, %r8, 1;\nsetp.lt.u32 %p4, %r8, {bound};\n@%p4 bra round;"
    races = found(
        f"mov.u32 %r8, 0;\nround:\nld.shared.u32 %r7, [%r3];\nadd.u32 %r0, %r7, 1;\n{rounds}\nmov.u32 %r6, %r0;"
    )
    assert {(rule, said) for rule, said, _ in races} == {("SM001", confidence)}


@pytest.mark.parametrize(("use", "low"), [("mov.u32 %r6, 1;", True), ("", False)])
def test_what_is_read_for_an_iteration_that_is_not_executed(use: str, low: bool) -> None:
    """Mojo's products read the fragments of the next iteration in the last one, too."""
    ((rule, confidence, _),) = found(f"{READ}\n{WRITE}\n{use}")
    assert (rule, confidence is Confidence.LOW) == ("SM001", low)


@pytest.mark.parametrize(
    ("between", "row", "low"),
    [("bar.warp.sync -1;", "%r9", True), ("", "%r9", False), ("bar.warp.sync -1;", "0", False)],
)
def test_lanes_that_wait_for_each_other_in_rows_of_their_own(between: str, row: str, low: bool) -> None:
    """Four lanes of cuBLAS have a row of four numbers, and so never more than four to work on, which the launch says."""
    ((rule, confidence, _),) = found(f"""
        shr.u32 %r8, %r0, 2;
        shl.b32 %r8, %r8, 4;
        mov.u32 %r7, tile;
        add.u32 %r7, %r7, %r8;
        shl.b32 %r8, {row}, 2;
        add.u32 %r8, %r7, %r8;
        st.shared.u32 [%r8+16], %r0;
        {between}
        mov.u32 %r4, {row};
    round:
        shl.b32 %r8, %r4, 2;
        add.u32 %r8, %r7, %r8;
        ld.shared.u32 %r6, [%r8];
        add.u32 %r4, %r4, -4;
        setp.gt.s32 %p4, %r4, 3;
        @%p4 bra round;
    """)
    assert (rule, confidence is Confidence.LOW) == ("SM001", low)


@pytest.mark.parametrize(
    ("begin", "end", "wrong"),
    [
        # Iteration 0 has no barrier before it (DALI), or the last one none after it (cuTENSOR), and the loop ends there.
        ("setp.eq.u32 %p4, %r8, 0;\n@%p4 bra first;\nbar.sync 0;\nfirst:", "setp.lt.s32 %p5, %r8, %r9;", False),
        ("", "setp.ge.s32 %p4, %r8, %r9;\n@%p4 bra last;\nbar.sync 0;\nlast:\nsetp.ne.u32 %p5, %r8, %r9;", False),
        ("", "setp.ge.s32 %p4, %r8, 8;\n@%p4 bra last;\nbar.sync 0;\nlast:\nsetp.ne.u32 %p5, %r8, %r9;", True),
        ("setp.eq.u32 %p4, %r8, 1;\n@%p4 bra first;\nbar.sync 0;\nfirst:", "setp.lt.s32 %p5, %r8, %r9;", True),
    ],
)  # fmt: skip
def test_the_first_and_the_last_iteration_of_a_loop_may_lack_a_barrier(
    begin: str, end: str, wrong: bool
) -> None:
    rounds = f"mov.u32 %r8, 0;\nround:\n{begin}\n{WRITE}\nbar.sync 0;\n{READ}\nadd.u32 %r8, %r8, 1;\n{end}\n@%p5 bra round;\ndone:"
    assert [rule for rule, *_ in found(rounds)] == ["SM001"] * wrong


@pytest.mark.parametrize(
    ("start", "skips", "low"),
    [
        ("%r9", "setp.eq.u32 %p4, %r8, 0;", True),  # a tail loop continues where another one has ended
        ("%ctaid.x", "mov.u32 %r7, %ctaid.x;\nsetp.eq.u32 %p4, %r8, %r7;", None),  # the first one alone
        ("%r9", "setp.lt.u32 %p4, %r8, 2;", True),
        ("0", "setp.lt.u32 %p4, %r8, 2;", False),
    ],
)
def test_rounds_that_have_no_barrier_before_them(start: str, skips: str, low: bool | None) -> None:
    """Which rounds these are, a number that is not in the text says: the first ones, it may be."""
    rounds = (
        f"mov.u32 %r8, {start};\nround:\n{skips}\n@%p4 bra first;\nbar.sync 0;\nfirst:\n{WRITE}\nbar.sync 0;\n{READ}\n{USE}\n"
        "add.u32 %r8, %r8, 1;\nsetp.lt.u32 %p5, %r8, 999;\n@%p5 bra round;"
    )
    hits = found(rounds, directives=".reqntid 128")
    assert [confidence is Confidence.LOW for _, confidence, _ in hits] == ([] if low is None else [low])


BACK = "ld.shared.v2.u32 {%r6, %r7}, [tile+976];"


@pytest.mark.parametrize(
    ("store", "count"),
    [
        ("st.shared.v2.u32 [tile+976], {%r6, %r7};", 0),
        ("st.shared.u32 [tile+980], %r7;", 0),
        ("st.shared.u32 [tile+980], %r6;", 1),
        ("st.shared.v2.u32 [tile+976], {%r7, %r6};", 1),
        ("st.shared.u16 [tile+976], %h0;", 1),
        ("add.u32 %r6, %r6, 1;\n@%p0 st.shared.u32 [tile+976], %r6;", 1),
    ],
)
def test_what_was_read_is_written_back(store: str, count: int) -> None:
    """compute_page_sizes_kernel of cudf keeps in registers what a loop changes; with a trip count of 0, nothing changes."""
    assert len(found(f"cvt.u16.u32 %h0, %r2;\n{BACK}\n{store}")) == count


def test_what_was_read_is_written_back_by_the_warp_that_has_it_there() -> None:
    """The TSNE of cuML: each warp gets a copy of what the first one has, which that one stores where it was."""
    back = "and.b32 %r7, %r2, 124;\nadd.u32 %r7, %r1, %r7;\nld.shared.u32 %r6, [%r7];"
    assert not found(f"{back}\nst.shared.u32 [%r3], %r6;")
    assert found(f"{back}\nst.shared.u32 [%r5], %r6;")  # by other lanes
    assert found(f"{back}\nadd.u32 %r6, %r6, 1;\nst.shared.u32 [%r3], %r6;")


@pytest.mark.parametrize(
    ("size", "directives", "warps"), [(128, "", 1), (256, "", 2), (128, ".reqntid 64", 2)]
)
def test_shared_memory_has_room_for_so_many(size: int, directives: str, warps: int) -> None:
    """A block of one warp sorts in cuML: shared memory holds a word of each of its lanes, and nothing of other warps."""
    body = f".shared .align 4 .b8 room[{size}];\nmov.u32 %r7, room;\nadd.u32 %r7, %r7, %r2;"
    body += "\nst.shared.u32 [%r7], %r0;\nbar.sync 0;\nld.shared.u32 %r6, [%r7];"
    body += "\nmov.u32 %r8, %laneid;\nsetp.eq.u32 %p1, %r8, 31;\n@%p1 st.shared.u32 [tile], %r6;"
    assert len(found(f"{body}\nld.shared.u32 %r6, [tile];", directives=directives)) == (warps > 1)


@pytest.mark.parametrize(("size", "warps"), [(1024, 1), (1280, 2)])
def test_a_branch_of_the_last_threads_has_room_for_so_many(size: int, warps: int) -> None:
    """Half a warp fills the rows of a tile and the other half those of another in lud_perimeter (Rodinia)."""
    body = f".shared .align 4 .b8 rows[{size}];\nmov.u32 %r7, rows;\nadd.u32 %r7, %r7, %r2;"
    body += "\nsetp.lt.u32 %p1, %r0, 16;\n@%p1 bra done;"
    body += "\nst.shared.u32 [%r7+832], %r0;\nst.shared.u32 [%r7+896], %r2;\ndone:"
    assert bool(found(body, directives="")) == (warps > 1)


def test_a_bound_need_not_be_whole_warps() -> None:
    """cuDNN's Winograd kernels have CTAs of 624 threads, each of which stores words that far apart."""
    body = "st.shared.u32 [%r3], %r0;\nst.shared.u32 [%r3+{}], %r2;"
    assert not found(body.format(4 * 112), directives=".maxntid 112")
    assert found(body.format(4 * 80), directives=".maxntid 112")


@pytest.mark.parametrize(
    ("directives", "confidence"),
    [(".reqntid 64", Confidence.HIGH), (".maxntid 256", Confidence.MEDIUM), ("", Confidence.MEDIUM)],
)
def test_how_many_warps(directives: str, confidence: Confidence) -> None:
    ((_, said, _),) = found(f"{WRITE}\nld.shared.u32 %r6, [tile+128];", directives=directives)
    assert said is confidence


@pytest.mark.parametrize(("other", "count"), [("mov.u32 %r11, %r10;\nmov.u32 %r12, 0;", 0), ("", 1)])
def test_warps_on_different_paths_have_different_tiles(other: str, count: int) -> None:
    """A kernel of sglang finds the row and the column of each warp's tile by a chain of branches."""
    body = f"""
    shr.u32 %r10, %r0, 5;
    mov.u32 %r11, 0;
    mov.u32 %r12, %r10;
    setp.lt.u32 %p4, %r10, 1;
    @%p4 bra on;
    {other}
on:
    mad.lo.u32 %r13, %r11, 2048, %r1;
    mad.lo.u32 %r13, %r12, 512, %r13;
    and.b32 %r14, %r0, 31;
    mad.lo.u32 %r13, %r14, 4, %r13;
    st.shared.u32 [%r13], %r0;
    st.shared.u32 [%r13+512], %r2;"""
    assert len(found(body)) == count


@pytest.mark.parametrize(
    ("used", "confidence"),
    [("%r15", [Confidence.LOW]), ("%r17", [Confidence.HIGH])],
)
def test_what_the_last_iteration_reads_ahead_is_not_used(used: str, confidence: list[Confidence]) -> None:
    """Quant-LLM reads fragments for the next iteration at the end of each, the last one too."""
    body = f"""
    mov.u32 %r15, 0;
    mov.u32 %r16, 0;
    mov.u32 %r17, 0;
next:
    add.u32 %r15, %r15, %r17;
    bar.sync 0;
    {READ}
    shl.b32 %r17, %r6, 1;
    add.u32 %r16, %r16, 1;
    setp.lt.u32 %p4, %r16, %r9;
    @%p4 bra next;
    st.shared.u32 [%r3], {used};
    mov.u32 %r6, {used};"""
    assert [c for _, c, _ in found(body)] == confidence


@pytest.mark.parametrize(
    ("first", "directives", "confidence"),
    [
        ("", "", Confidence.LOW),
        ("", ".maxntid 64", Confidence.MEDIUM),
        ("mov.u32 %r0, %tid.x;", "", Confidence.MEDIUM),
    ],
)
def test_a_kernel_that_does_not_read_its_thread_index(
    first: str, directives: str, confidence: Confidence
) -> None:
    """It is launched with one: in several, all would do the same at once."""
    body = f""".shared .align 16 .b8 tile[64];
    {first}
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
next:
    st.shared.u32 [tile], %r1;
    ld.shared.u32 %r2, [tile];
    st.global.u32 [%rd0], %r2;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, %r9;
    @%p1 bra next;
    ret;"""
    report = lint(module(kernel(body, directives=directives), header=HEADER))
    assert {hit.confidence for hit in by_rule(report, "SM001")} == {confidence}


@pytest.mark.parametrize("directives", [".reqntid 32", ".maxntid 32"])
def test_one_warp(directives: str) -> None:
    assert not found(f"{WRITE}\nld.shared.u32 %r6, [tile];", directives=directives)


def test_warps_that_take_turns() -> None:
    """After a wait, one warp may arrive when the other is done, but not where all wait for one phase."""
    body = f"""
    shr.u32 %r7, %r0, 5;
    shl.b32 %r7, %r7, 3;
    mov.u32 %r8, full;
    add.u32 %r8, %r8, %r7;
    turn: mbarrier.try_wait.parity.shared.b64 %p4, [%r8], 0;
    @!%p4 bra turn;
    wait: mbarrier.try_wait.parity.shared.b64 %p4, [full], 0;
    @!%p4 bra wait;
    {WRITE}
    {READ}
    """
    assert not found(body)
    assert found(body.replace(WRITE, f"bar.sync 0;\n{WRITE}"))
    assert found(body.replace("[%r8]", "[full]"))


REFILL = """
    @!%p0 bra on;
    mbarrier.arrive.expect_tx.shared.b64 _, [full], 512;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd1], 512, [full];
on: """


@pytest.mark.parametrize(
    ("between", "wrong"),
    [
        ("", True),
        ("bar.warp.sync -1;", True),  # all lanes of all warps have waited
        ("bar.sync 0;", False),
        ("mbarrier.arrive.shared.b64 _, [empty];", True),
        (
            f"mbarrier.arrive.shared.b64 _, [empty];\n{PHASE.format('empty')}",
            False,
        ),
    ],
)
def test_a_tile_that_a_bulk_copy_fills_again(between: str, wrong: bool) -> None:
    start = f".shared .align 8 .b64 empty;\n{WRITE}\nbar.sync 0;"
    again = f"{PHASE.format('full')}\n{READ}\n{between}\n{REFILL}"
    assert bool(found(f"{start}\n{again}")) == wrong
    assert not found(f"{start.replace(WRITE, '')}\n{again}")  # nothing was there to be read


@pytest.mark.parametrize(
    ("atomic", "wrong"),
    [
        ("atom.shared.add.u32 %r7, [tile+4096], 1;", True),  # it counts, and no thread waits for the value
        ("red.shared.add.u32 [tile+4096], 1;", True),
        (
            "again: atom.shared.exch.b32 %r7, [tile+4096], 0;\nsetp.eq.u32 %p5, %r7, 0;\n@%p5 bra again;",
            False,
        ),
        ("again: ld.volatile.shared.u32 %r7, [tile+4096];\nsetp.eq.u32 %p5, %r7, 0;\n@%p5 bra again;", False),
    ],
)
def test_atomic_operations_without_a_wait_order_nothing(atomic: str, wrong: bool) -> None:
    """Only a value that decides a branch releases a thread."""
    body = f"mov.u32 %r8, 0;\nround:\n{WRITE}\n{atomic}\n{READ}\n{USE}\nbar.sync 0;"
    loop = "add.u32 %r8, %r8, 1;\nsetp.lt.u32 %p4, %r8, %r9;\n@%p4 bra round;"
    assert bool(found(f"{body}\n{loop}")) == wrong


COUNT = "atom.shared.add.u32 %r7, [tile], 1;"
MINE = "mad.wide.u32 %rd2, %r0, 4, %rd1;\nld.global.u32 %r8, [%rd2];\nsetp.eq.u32 %p4, %r8, 0;"


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (f"{COUNT}\nld.shared.u32 %r6, [tile];", True),
        ("red.shared.add.u32 [tile], 1;\n@%p0 ld.shared.u32 %r6, [tile];", True),
        (f"{MINE}\n@%p4 {COUNT}\n@%p0 ld.shared.u32 %r6, [tile];", True),
        (f"@%p0 st.shared.u32 [tile], 0;\n{COUNT}\nbar.sync 0;", True),
        (f"bar.sync 0;\nld.shared.u32 %r6, [tile];\n{COUNT}", True),
        (f"{COUNT}\n{COUNT}", False),
        (f"{COUNT}\nbar.sync 0;\nld.shared.u32 %r6, [tile];", False),
        (f"{COUNT}\nld.volatile.shared.u32 %r6, [tile];", False),
        (f"{COUNT}\nld.shared.u32 %r6, [tile+4];", False),
        (f"@%p1 {COUNT}\n@%p1 ld.shared.u32 %r6, [tile];", False),
        # An unknown number of threads may all be in one warp, which needs no barrier.
        (f"@%p2 {COUNT}\n@%p0 ld.shared.u32 %r6, [tile];", False),
        (
            f"{COUNT.replace('add', 'acq_rel.cta.add').replace('.shared', '')}\nld.shared.u32 %r6, [tile];",
            False,
        ),
    ],
)
def test_a_counter_that_other_warps_still_add_to(body: str, wrong: bool) -> None:
    hits = found(body)
    assert bool(hits) is wrong
    assert all(hit[:2] == ("SM001", Confidence.MEDIUM) for hit in hits)


@pytest.mark.parametrize(("between", "tested"), [("", False), ("bar.sync 1;", True)])
def test_a_counter_is_read_after_the_loop_that_tests_it(between: str, tested: bool) -> None:
    """The test in the loop is a hint, unless threads that read different values wait for each other there, but the value
    after the loop is the result."""
    body = f"""
    ld.shared.u32 %r10, [tile];
    setp.ge.u32 %p5, %r10, %r9;
    @%p5 bra done;
next:
    {between}
    {COUNT}
    ld.shared.u32 %r10, [tile];
    setp.lt.u32 %p5, %r10, %r9;
    @%p5 bra next;
done:
    @!%p0 bra on;
    ld.shared.u32 %r6, [tile];
on:
    """
    text = module(kernel(f"{START}\n{body}\n{USE}\nret;"), header=HEADER)
    lines = {text.encode()[: f.span.start].count(b"\n") for f in by_rule(lint(text), "SM001")}
    reported = {text.splitlines()[line].split(",")[0].strip() for line in lines}
    assert "ld.shared.u32 %r6" in reported
    assert ("ld.shared.u32 %r10" in reported) is tested
    assert len(reported) == 1 + tested


def test_a_warp_that_arrives_is_ordered_before_those_that_wait() -> None:
    """The warp that reads passes no wait, but those that write have waited for it."""
    body = f"""
    bar.sync 0;
    @!%p1 bra {{other}};
    {READ}
    mbarrier.arrive.shared.b64 _, [full];
    bra on;
other: {PHASE.format("full")}
on: st.shared.u32 [%r5], %r0;
    """
    assert not found(body.format(other="other"))


@pytest.mark.parametrize(
    ("directives", "condition"), [(".maxntid 256", ""), ("", "if the CTA has more than 64 threads")]
)
def test_the_bytes_of_a_third_warp(directives: str, condition: str) -> None:
    """A bound says that there is one; without a bound, only a CTA that has one stores what is read."""
    ((_, _, message),) = found(f"{WRITE}\nld.shared.u32 %r6, [tile+256];", directives=directives)
    assert condition in message
    assert ("if" in message) == bool(condition)


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("@%p0 {};\n" + READ, True),
        ("@%p0 {};\nbar.sync 0;\n" + READ, False),
        (f"{READ}\n@%p0 {{}};\nmov.u32 %r7, %r6;", True),
        ("@%p0 {};\nld.shared.u32 %r6, [%r5+512];", False),
    ],
)
def test_a_region_that_one_thread_clears(code: str, wrong: bool) -> None:
    """``st.bulk`` writes as many bytes as its operand (9.7.9.13); TileLang had no barrier after it."""
    clear = "st.bulk.weak.shared::cta [%rd2], 512, 0"
    body = f"{START}\ncvt.u64.u32 %rd2, %r1;\n{code.format(clear)}\n{USE}\nret;"
    text = module(kernel(body), header=HEADER.replace("8.0", "8.6").replace("sm_90a", "sm_100a"))
    assert bool(by_rule(lint(text), "SM001")) == wrong


def test_steps_and_remedy() -> None:
    text = module(kernel(f"{START}\n@%p1 {WRITE}\n{READ}\n{USE}\nret;"), header=HEADER)
    (finding,) = by_rule(lint(text), "SM001")
    assert [step.role for step in finding.steps] == [
        "warp 0",
        None,
    ]  # that all threads come there says nothing of one of their warps
    assert "bar.sync" in finding.help


ROLES = """
    @!%p0 bra ready;
    mbarrier.init.shared.b64 [full], {count};
ready:
    bar.sync 0;
    @!%p1 bra consume;
    {write}
    {sync}
    {arrive}
    bra finish;
consume:
    mbarrier.try_wait.parity.shared.b64 %p4, [full], 0;
    @!%p4 bra consume;
    {between}
    ld.shared.u32 %r6, [tile+{offset}];
finish:
"""
RELEASE = "mbarrier.arrive.shared.b64 _, [tile+4096];"
ACQUIRE = "acquire: mbarrier.try_wait.parity.shared.b64 %p6, [tile+4096], 0;\n@!%p6 bra acquire;"
ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [tile+4], 32;"
ELECTED = "elect.sync %r7|%p5, -1;\n@%p5 mbarrier.arrive.shared.b64 _, [full];"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ["MB014"]),
        ({"arrive": "@%p0 mbarrier.arrive.shared.b64 _, [full];"}, ["MB014"]),
        ({"sync": "fence.proxy.async;"}, ["MB014"]),
        ({"sync": "bar.warp.sync -1;"}, []),
        ({"sync": "barrier.sync 2, 32;"}, []),
        ({"write": ALLOC}, []),  # the warp as one: the lane that arrives has written it as well
        ({"arrive": "mbarrier.arrive.shared.b64 _, [full];", "count": "32"}, []),
        ({"offset": "0"}, []),  # what the elected lane has written itself
        ({"offset": "1024"}, []),
        ({"between": "barrier.sync 3, 96;"}, []),
        # All lanes signal to the others themselves; but some wait for that, and some do not.
        ({"sync": RELEASE, "between": ACQUIRE}, []),
        ({"sync": RELEASE}, ["MB014"]),
        ({"between": ACQUIRE}, ["MB014"]),
    ],
)
def test_one_lane_arrives_for_its_warp(change: dict[str, str], expected: list[str]) -> None:
    given = {
        "write": WRITE,
        "count": "1",
        "sync": "",
        "arrive": ELECTED,
        "between": "",
        "offset": "4",
        **change,
    }
    assert [rule for rule, _, _ in found(ROLES.format(**given))] == expected


GROUPS = """
    .shared .align 8 .b64 empty, other;
    @!%p0 bra ready;
    mbarrier.init.shared.b64 [empty], {count};
    mbarrier.init.shared.b64 [other], 6;
ready:
    bar.sync 0;
    shr.u32 %r7, %r0, 7;
    and.b32 %r8, %r0, 127;
    setp.eq.u32 %p4, %r7, 2;
    setp.eq.u32 %p5, %r8, 0;
    shr.u32 %r10, %r0, 5;
    setp.eq.u32 %p6, %r10, 4;
    and.b32 %r10, %r0, 31;
    setp.eq.u32 %p7, %r10, 1;
    mov.u32 %r11, 0;
    @%p4 bra produce;
consume:
    ld.shared.u32 %r6, [%r3];
    {later}
    @{leads} mbarrier.arrive.shared.b64 _, [empty];
    {then}
    add.u32 %r11, %r11, 1;
    setp.lt.u32 %p8, %r11, %r9;
    @%p8 bra consume;
    bra finish;
produce:
    {before}
free:
    mbarrier.try_wait.parity.shared.b64 %p9, [empty], 0;
    @!%p9 bra free;
    {between}
    and.b32 %r12, %r2, 511;
    add.u32 %r12, %r1, %r12;
    st.shared.u32 [%r12], %r0;
    st.shared.u32 [%r12+512], %r0;
    add.u32 %r11, %r11, 1;
    setp.lt.u32 %p8, %r11, %r9;
    @%p8 bra produce;
finish:
"""
FREED = "bar.warp.sync -1;\n@%p7 mbarrier.arrive.shared.b64 _, [other];"
OTHER = "ask: mbarrier.try_wait.parity.shared.b64 %p10, [other], 0;\n@!%p10 bra ask;"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ["MB015"]),
        ({"later": "add.u32 %r12, %r7, 1;\nbarrier.sync %r12, 128;"}, []),
        # The second leader has observed all others, and no phase is complete without it.
        ({"later": "@!%p6 barrier.arrive 3, 256;\n@%p6 barrier.sync 3, 256;"}, []),
        ({"then": FREED}, ["MB015"]),
        ({"then": FREED, "before": OTHER}, []),
        ({"then": FREED, "between": OTHER}, []),
        ({"between": OTHER}, ["MB015"]),
        ({"count": "3", "then": "@%p6 cp.async.mbarrier.arrive.noinc.shared.b64 [empty];"}, []),
        ({"count": "8", "leads": "%p7"}, []),
        ({"count": "1", "leads": "%p0"}, ["MB015"]),
        ({"count": "%r9"}, ["MB015"]),
    ],
)
def test_leaders_arrive_for_their_groups(change: dict[str, str], expected: list[str]) -> None:
    """One thread of each group of four warps gives free what all of them read."""
    given = {"count": "2", "leads": "%p5", "later": "", "then": "", "before": "", "between": ""}
    body = GROUPS.format(**{**given, **change})
    assert sorted({rule for rule, _, _ in found(body, directives=".reqntid 384")}) == expected


IN_STEP = """.shared .align 8 .b64 full, empty;
.shared .align 128 .b8 tile[512];
ld.param.u64 %rd0, [pointer];
ld.param.u32 %r9, [number];
mov.u32 %r0, %tid.x;
mov.u32 %r1, tile;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra ready;
mbarrier.init.shared::cta.b64 [full], 1;
mbarrier.init.shared::cta.b64 [empty], 1;
ready:
bar.sync 0;
mov.u32 %r5, 0;
mov.u32 %r8, 0;
mov.u32 %r10, 0;
setp.ge.u32 %p1, %r0, 128;
@%p1 bra produce;
setp.eq.u32 %p5, %r0, 0;
shl.b32 %r2, %r0, 2;
add.u32 %r3, %r1, %r2;
consume:
{c0}
wait: mbarrier.try_wait.parity.shared::cta.b64 %p6, [full], %r10;
@!%p6 bra wait;
ld.shared.u32 %r4, [%r3];
add.u32 %r5, %r5, %r4;
{c1}
@%p5 mbarrier.arrive.shared::cta.b64 _, [empty];
{c2}
xor.b32 %r10, %r10, 1;
add.u32 %r8, %r8, 1;
setp.lt.u32 %p2, %r8, %r9;
@%p2 bra consume;
st.global.u32 [%rd0], %r5;
ret;
produce:
setp.eq.u32 %p7, %r0, 128;
fill:
{p0}
@!%p7 bra filled;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 512;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd0], 512, [full];
filled:
{p1}
refill: mbarrier.try_wait.parity.shared::cta.b64 %p6, [empty], %r10;
@!%p6 bra refill;
{p2}
xor.b32 %r10, %r10, 1;
add.u32 %r8, %r8, 1;
setp.lt.u32 %p2, %r8, %r9;
@%p2 bra fill;
ret;
"""


@pytest.mark.parametrize(
    ("barriers", "expected"),
    [
        ({}, ["MB015"]),
        # All reads of an iteration precede its barrier, and the next wait follows it.
        ({"c2": "bar.sync 2, 160;", "p1": "bar.sync 2, 160;"}, []),
        ({"c2": "bar.sync 2, 160;", "p2": "bar.sync 2, 160;"}, []),
        ({"c2": "bar.sync 0;", "p1": "bar.sync 0;"}, []),
        # The reads follow the barrier of their iteration.
        ({"c0": "bar.sync 2, 160;", "p1": "bar.sync 2, 160;"}, ["MB015"]),
        # The barrier does not include the warp that waits.
        ({"c2": "bar.sync 1, 128;"}, ["MB015"]),
    ],
)
def test_a_barrier_after_the_arrival_and_before_the_next_wait(
    barriers: dict[str, str], expected: list[str]
) -> None:
    body = IN_STEP.format(**{**dict.fromkeys(("c0", "c1", "c2", "p0", "p1", "p2"), ""), **barriers})
    assert [rule for rule, _, _ in found(body, directives=".reqntid 160")] == expected


def test_warps_that_read_in_a_cta_of_unknown_size() -> None:
    """The one that arrives for two CTAs may be the only one that reads."""
    body = GROUPS.format(count="2", leads="%p5", later="", then="", before="", between="")
    body = body.replace("setp.eq.u32 %p4, %r7, 2;", "setp.lt.u32 %p4, %r0, 32;")
    body = body.replace("setp.eq.u32 %p5, %r8, 0;", "setp.eq.u32 %p5, %r0, 32;").replace("+512", "+256")
    assert {rule for rule, _, _ in found(body, directives=".maxntid 384")} == {"MB015"}
    assert not found(body, directives="")


@pytest.mark.parametrize(("meeting", "expected"), [("bar.sync 1, 128;", []), ("", ["MB014"])])
def test_lanes_that_a_barrier_orders_before_the_wait(meeting: str, expected: list[str]) -> None:
    """FlashMLA arrives for a copy between what its threads write and the barrier that is for that."""
    body = f"""
        @!%p0 bra ready;
        mbarrier.init.shared.b64 [full], 1;
    ready:
        bar.sync 0;
        mov.u32 %r8, 0;
    batch:
        @!%p1 bra written;
        {WRITE}
    written:
        @%p0 mbarrier.arrive.shared.b64 _, [full];
        {meeting}
    round:
        mbarrier.try_wait.parity.shared.b64 %p4, [full], %r8;
        @!%p4 bra round;
        ld.shared.u32 %r6, [tile+4];
        st.global.u32 [%rd1], %r6;
        bar.sync 0;
        add.u32 %r8, %r8, 1;
        setp.lt.u32 %p4, %r8, 2;
        @%p4 bra batch;
    """
    assert sorted({rule for rule, _, _ in found(body)}) == expected


PLACE = "mov.u32 %r10, %ctaid.x;\nmad.lo.u32 %r11, %r10, 128, %r0;\n"


@pytest.mark.parametrize(
    ("guarded", "count"),
    [
        (f"setp.lt.s32 %p4, %r11, %r9;\n@%p4 {WRITE}", 1),
        (f"setp.ge.s32 %p4, %r11, %r9;\n@%p4 bra out;\n{WRITE}", 1),
        (f"setp.gt.s32 %p4, %r11, %r9;\nsetp.ge.s32 %p5, %r10, 9;\nor.pred %p4, %p4, %p5;\n@!%p4 {WRITE}", 1),
        (f"setp.ge.s32 %p4, %r11, %r9;\n@%p4 {WRITE}", 0),
        (f"setp.lt.s32 %p4, %r11, 7;\n@%p4 {WRITE}", 0),
        (f"setp.lt.s32 %p4, %r0, %r9;\n@%p4 {WRITE}", 1),
        # All but the border of a grid: its first threads, and those at its end.
        (f"setp.gt.s32 %p4, %r11, 0;\nsetp.lt.s32 %p5, %r11, %r9;\nand.pred %p4, %p4, %p5;\n@%p4 {WRITE}", 1),
        (f"setp.ge.s32 %p4, %r11, 3;\n@%p4 {WRITE}", 1),
        (f"setp.ge.s32 %p4, %r11, 64;\n@%p4 {WRITE}", 0),
        (f"setp.ge.s32 %p4, %r0, 3;\n@%p4 {WRITE}", 1),
        (
            f"mad.wide.u32 %rd2, %r0, 4, %rd1;\nld.global.u32 %r11, [%rd2];\nadd.u32 %r11, %r11, %r10;\nsetp.lt.s32 %p4, %r11, %r9;\n@%p4 {WRITE}",
            0,
        ),
    ],
)
def test_a_bound_of_the_grid_leaves_whole_ctas(guarded: str, count: int) -> None:
    """Of most images, only the CTAs at the edge have threads that lie beyond it."""
    assert len(found(f"mov.u32 %r6, 0;\n{PLACE}{guarded}\n{READ}\nout:")) == count


LAST = """
    mov.u32 %r10, %ctaid.x;
    mov.u32 %r11, %nctaid.x;
    mov.u32 %r6, 0;
    setp.ne.s32 %p4, %r10, 0;
    @%p4 bra on;
    {read}
on:
    add.s32 %r12, %r11, -1;
    setp.ne.s32 %p5, %r10, %r12;
    setp.lt.u32 %p6, %r11, {least};
    or.pred %p7, %p6, %p5;
    @%p7 bra out;
    {write}
out:
"""


@pytest.mark.parametrize(("least", "count"), [(2, 0), (1, 1)])
def test_the_first_cta_and_the_last_one(least: int, count: int) -> None:
    """Where there are two CTAs at least, none is both: of two conditions about one number each says something of the other."""
    assert len(found(LAST.format(read=READ, write=WRITE, least=least))) == count


# ---------------------------------------------------------------- two dimensions


def tiled(before: str = "bar.sync 0;", later: str = "bar.sync 0;", guard: str = "") -> str:
    """Each thread writes its word of a tile of 16 by 16, and reads the last ones of its row and of its column."""
    return f"""
    .shared .align 16 .b8 square[1024];
    mov.u32 %r10, %tid.y;
    mad.lo.u32 %r11, %r10, 16, %r0;
    mov.u32 %r1, square;
    mad.lo.u32 %r3, %r11, 4, %r1;
    mad.lo.u32 %r5, %r10, 64, %r1;
    mad.lo.u32 %r7, %r0, 4, %r1;
round:
    {guard} {WRITE}
    {before}
    ld.shared.u32 %r6, [%r5];
    ld.shared.u32 %r8, [%r7];
    add.u32 %r6, %r6, %r8;
    st.global.u32 [%rd1], %r6;
    {later}
    add.u32 %r9, %r9, -1;
    setp.ne.u32 %p4, %r9, 0;
    @%p4 bra round;
"""


@pytest.mark.parametrize(
    ("directives", "confidence"),
    [
        (".reqntid 16, 16", [Confidence.HIGH]),
        (".maxntid 256", [Confidence.MEDIUM]),
        ("", [Confidence.MEDIUM]),
        (".maxntid 32", []),
        (".reqntid 4, 8", []),
    ],
)
def test_a_tile_of_rows_and_columns(directives: str, confidence: list[Confidence]) -> None:
    """Whatever shape the CTA has: if the tile has room for it, warps write what others read."""
    assert not found(tiled(), directives=directives)
    for code, verb in ((tiled(before=""), "reads"), (tiled(later=""), "overwrites")):
        reports = [c for _, c, said in found(code, directives=directives) if f".shared {verb} " in said]
        assert reports == confidence


WIDE = "st.shared.v4.u32 [%r3], {%r0, %r0, %r0, %r0};"
AFTER = "st.shared.u32 [%r5+8192], %r9;"
ROW = "mov.u32 %r10, %tid.y;\nmad.lo.u32 %r11, %r10, {pitch}, %r0;\nmad.lo.u32 %r3, %r11, 4, %r1;\n"


@pytest.mark.parametrize(
    ("body", "large"),
    [
        # One warp has each row, as in kernels for CTAs of 32 by so many.
        (
            f"{ROW.format(pitch=32)}xor.b32 %r12, %r11, 1;\nmad.lo.u32 %r5, %r12, 4, %r1;\n{WRITE}\n{READ}",
            False,
        ),
        # All rows store the same words: the shapes that it is made for are unknown.
        (f"{ROW.format(pitch=0)}xor.b32 %r5, %r3, 128;\n{WRITE}\n{READ}", False),
        # MergeStatesLargeNumIndexSetsKernel of flashinfer: rows of 16 threads, and after them a word for each row.
        (
            (
                f"mov.u32 %r1, dynamic;\n{ROW.format(pitch=16)}mad.lo.u32 %r3, %r11, 16, %r1;\n{WIDE}\n"
                f"mad.lo.u32 %r5, %r10, 4, %r1;\n{AFTER}\nmov.u32 %r6, 0;"
            ),
            False,
        ),
        (tiled(before="") + "mov.u32 %r12, 0;\n" * 2000, True),
    ],
)
def test_shapes_that_a_kernel_may_be_right_for(body: str, large: bool) -> None:
    assert not found(body, directives="")
    assert bool(found(body, directives=".reqntid 16, 16")) is large


def test_that_a_kernel_is_made_for_no_shape_that_is_tried_leaves_the_question_open() -> None:
    """Lanes and warps of rows of 2048 threads, which no CTA has."""
    body = """
    .shared .align 16 .b8 sums[4096];
    mov.u32 %r10, %tid.y;
    mad.lo.u32 %r11, %r10, 2048, %r0;
    shr.u32 %r4, %r11, 5;
    mov.u32 %r12, sums;
    mad.lo.u32 %r4, %r4, 4, %r12;
    st.shared.u32 [%r4], %r9;
    ld.shared.u32 %r6, [%r12];
    st.global.u32 [%rd1], %r6;"""
    report = lint(module(kernel(f"{START}\n{body}\n{USE}\nret;", directives=""), header=HEADER))
    assert "the kernel is made for CTAs of no shape that is tried" in {
        left.why for left in report.open_questions
    }


@pytest.mark.parametrize(
    ("row", "most", "condition"),
    [
        # Rows of one warp return early; those of 48 threads are not what a kernel that counts whole warps is made for.
        ("mov.u32 %r11, %r0;", "mov.u32 %r13, %ntid.x;", "if the CTA has more than 32 threads along x"),
        # The lanes and warps are those of rows of 16 threads.
        ("mad.lo.u32 %r11, %r10, 16, %r0;", "mov.u32 %r13, %ntid.x;\nmul.lo.u32 %r13, %r13, %r14;", ""),
    ],
)
@pytest.mark.parametrize(("barrier", "wrong"), [("", True), ("bar.sync 0;", False)])
def test_one_value_of_each_warp_in_several_dimensions(
    row: str, most: str, condition: str, barrier: str, wrong: bool
) -> None:
    """The first lane of each warp stores its value, and the first threads read as many as there are warps."""
    base = "mad.lo.u32 %r12, %r10, 128, sums;" if condition else "mov.u32 %r12, sums;"
    early = "setp.le.u32 %p7, %r13, 32;\n@%p7 bra done;" if condition else ""
    body = f"""
    .shared .align 16 .b8 sums[4096];
    mov.u32 %r10, %tid.y;
    mov.u32 %r14, %ntid.y;
    {row}
    {most}
    {early}
    {base}
    and.b32 %r3, %r11, 31;
    shr.u32 %r4, %r11, 5;
    setp.ne.u32 %p5, %r3, 0;
    mad.lo.u32 %r4, %r4, 4, %r12;
    @%p5 bra stored;
    st.shared.u32 [%r4], %r9;
stored:
    {barrier}
    shr.u32 %r5, %r13, 5;
    setp.ge.u32 %p6, %r11, %r5;
    @%p6 bra done;
    mad.lo.u32 %r3, %r3, 4, %r12;
    ld.shared.u32 %r6, [%r3];
    st.global.u32 [%rd1], %r6;
done:
    """
    reports = found(body, directives="")
    assert bool(reports) is wrong
    assert all(hit[1] is Confidence.MEDIUM and condition in hit[2] for hit in reports)


def test_a_shape_in_which_no_thread_stores_what_is_read_is_not_meant() -> None:
    """The last lane of each row stores its sum, which the first row reads: rows have 32 threads at least (nvjpeg)."""
    body = """
    .shared .align 16 .b8 sums[256];
    mov.u32 %r10, %tid.y;
    setp.ne.u32 %p5, %r0, 31;
    mad.lo.u32 %r3, %r10, 8, sums;
    @%p5 bra stored;
    st.shared.u32 [%r3], %r9;
stored:
    {barrier}
    setp.ne.u32 %p6, %r10, 0;
    @%p6 bra done;
    mad.lo.u32 %r5, %r0, 8, sums;
    ld.shared.u32 %r6, [%r5];
    st.shared.u32 [%r5], %r6;
done:
    """
    assert [c for _, c, _ in found(body.format(barrier=""), directives="")] == [Confidence.MEDIUM]
    assert not found(body.format(barrier="bar.sync 0;"), directives="")


@pytest.mark.parametrize(("barrier", "wrong"), [("", True), ("bar.sync 0;", False)])
def test_the_second_axis_may_be_z(barrier: str, wrong: bool) -> None:
    """A tile of 32 by 32 along x and z, as in stencils: a column reads its neighbours, and no thread asks for its y."""
    body = f"""
    .shared .align 16 .b8 square[4096];
    mov.u32 %r10, %tid.z;
    mad.lo.u32 %r11, %r10, 32, %r0;
    mad.lo.u32 %r3, %r11, 4, square;
    setp.eq.u32 %p4, %r10, 31;
    {WRITE}
    {barrier}
    @%p4 bra done;
    ld.shared.u32 %r6, [%r3+128];
    st.global.u32 [%rd1], %r6;
done:
    """
    assert [c for _, c, _ in found(body, directives="")] == [Confidence.MEDIUM] * wrong


@pytest.mark.parametrize(("order", "wrong"), [("", True), ("bar.sync 0;", False)])
def test_halves_of_rows_state_how_long_these_are(order: str, wrong: bool) -> None:
    """``(y * 32 + x) / 16`` is for rows of 32 threads: in CTAs of 8 by 8, each warp would read what it has stored (CudaSift)."""
    body = f"""
    .shared .align 16 .b8 square[4096];
    mov.u32 %r10, %tid.y;
    mad.lo.u32 %r11, %r10, 32, %r0;
    shr.u32 %r12, %r11, 4;
    mad.lo.u32 %r3, %r11, 4, square;
    {WRITE}
    {order}
    xor.b32 %r12, %r12, 2;
    and.b32 %r13, %r0, 15;
    mad.lo.u32 %r12, %r12, 16, %r13;
    mad.lo.u32 %r5, %r12, 4, square;
    {READ}
    """
    assert bool(found(body, directives="")) is wrong


@pytest.mark.parametrize(("order", "wrong"), [("", True), ("bar.sync 0;", False)])
def test_a_number_for_which_threads_leave_their_array_is_not_passed(order: str, wrong: bool) -> None:
    """An array of 64 words is reversed: its length is passed, and no other number keeps all threads within it."""
    body = f"""
    .shared .align 16 .b8 words[256];
    not.b32 %r7, %r0;
    add.s32 %r7, %r9, %r7;
    mul.wide.s32 %rd2, %r7, 4;
    mov.u64 %rd3, words;
    add.s64 %rd4, %rd3, %rd2;
    mad.lo.u32 %r3, %r0, 4, words;
    {WRITE}
    {order}
    ld.shared.u32 %r6, [%rd4];
    """
    assert [c for _, c, _ in found(body, directives="")] == [Confidence.MEDIUM] * wrong


@pytest.mark.parametrize(
    ("number", "between", "wrong"),
    [
        ("mad.lo.s32 %r11, %r10, %r12, %r0;", "", True),
        ("mad.lo.s32 %r11, %r10, %r12, %r0;", "bar.sync 0;", False),
        # The row of a thread is half of that: what two threads share depends on the shape.
        ("mad.lo.s32 %r11, %r10, 16, %r0;", "", False),
    ],
)
def test_a_large_kernel_whose_threads_have_numbers_needs_no_shape(
    number: str, between: str, wrong: bool
) -> None:
    """A product of matrices that asks for the number of a thread alone, with more instructions than shapes are tried for."""
    body = (
        f"""
    .shared .align 16 .b8 square[4096];
    mov.u32 %r10, %tid.y;
    mov.u32 %r12, %ntid.x;
    mul.lo.s32 %r13, %r10, %r12;
    st.global.u32 [%rd1+8], %r13;
    {number}
    mad.lo.u32 %r3, %r11, 4, square;
    xor.b32 %r5, %r11, 128;
    mad.lo.u32 %r5, %r5, 4, square;
    {WRITE}
    {between}
    {READ}
    """
        + "mov.u32 %r14, 0;\n" * 2000
    )
    assert bool(found(body, directives="")) is wrong


def test_an_axis_with_rows_has_several_threads() -> None:
    """In CTAs of one column, one warp would have all of the rows."""
    body = f"""
    mov.u32 %r10, %tid.y;
    mad.lo.u32 %r3, %r10, 128, %r1;
    mad.lo.u32 %r3, %r0, 8, %r3;
    setp.ge.u32 %p5, %r10, 20;
    @%p5 bra stored;
    {WRITE}
stored:
    {{barrier}}
    @%p5 bra done;
    ld.shared.u32 %r6, [%r3+256];
done:
    """
    assert [c for _, c, _ in found(body.format(barrier=""), directives="")] == [Confidence.MEDIUM]
    assert not found(body.format(barrier="bar.sync 0;"), directives="")


STRIDED = """
    mov.u32 %r10, {start};
    mov.u32 %r11, %r3;
    setp.ge.s32 %p4, %r10, %r9;
    @%p4 bra filled;
fill:
    st.shared.u32 [%r11], %r0;
    add.u32 %r11, %r11, {bytes};
    add.s32 %r10, %r10, {step};
    setp.lt.s32 %p5, %r10, {bound};
    @%p5 bra fill;
filled:
    {between}
    ld.shared.u32 %r6, [%r5];
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, [Confidence.MEDIUM]),
        ({"between": "bar.sync 0;"}, []),
        # a loop of single steps, such as one over the columns of a triangle, and one of the lanes of a warp
        ({"step": "1"}, [Confidence.MEDIUM]),
        ({"step": "32"}, [Confidence.MEDIUM]),
        ({"start": "%laneid", "step": "32"}, []),
        # the loop may end elsewhere
        ({"bound": "%r1"}, [Confidence.MEDIUM]),
    ],
)
def test_a_bound_that_the_threads_stride_to_leaves_all_of_them(
    change: dict[str, str], expected: list[Confidence]
) -> None:
    """The loop is there since the bound may exceed the number of threads."""
    plain = {"start": "%r0", "bytes": "512", "step": "128", "bound": "%r9", "between": ""}
    assert [c for _, c, _ in found(STRIDED.format(**plain | change))] == expected


def test_a_bound_alone_may_leave_one_warp() -> None:
    """Whatever the bound, another warp reads what the threads below it store."""
    ((rule, confidence, _),) = found(f"@%p2 {WRITE} {READ}")
    assert (rule, confidence) == ("SM001", Confidence.MEDIUM)
    assert not found(f"@%p2 {WRITE} bar.sync 0; {READ}")


INDEXED = """
    ld{space}.u32 %r10, [{source}];
    and.b32 %r10, %r10, {mask};
    {also}
    mad.lo.u32 %r11, %r10, 4, {base};
    st.shared.u32 [%r3], %r0;
    {between}
    ld.shared.u32 %r6, [%r11];
"""


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({}, True),
        ({"between": "bar.sync 0;"}, False),
        # each warp may have a part of its own: by the thread index, by what its lanes exchange, by an offset in memory
        ({"also": "and.b32 %r12, %r0, 96; or.b32 %r10, %r10, %r12;"}, False),
        ({"also": "shfl.sync.idx.b32 %r10, %r10, 0, 31, -1;"}, False),
        ({"space": ".shared", "source": "%r3+4096"}, False),
        ({"base": "%r3"}, False),
        # never the first element, and one that is not written
        ({"also": "or.b32 %r10, %r10, 512;"}, False),
        ({"also": "add.u32 %r10, %r10, 512;"}, False),
    ],
)
def test_a_loaded_index_may_be_that_of_the_first_element(change: dict[str, str], reported: bool) -> None:
    address = "mul.wide.u32 %rd2, %r0, 4; add.u64 %rd2, %rd1, %rd2;"
    plain = {"space": ".global", "source": "%rd2", "mask": "127", "also": "", "base": "%r1", "between": ""}
    hits = found(address + INDEXED.format(**plain | change))
    assert [(c, "if the data select the same element" in m) for _, c, m in hits] == (
        [(Confidence.MEDIUM, True)] if reported else []
    )


@pytest.mark.parametrize(
    ("read", "reported"),
    [
        ("tex.1d.v4.u32.s32 {%r10, %r11, %r12, %r13}, [%rd1, {%r0}];", True),
        ("suld.b.1d.b32.trap %r10, [%rd1, {%r0}];", True),
        ("match.any.sync.b32 %r10, %r0, -1;", False),
    ],
)
def test_an_index_may_be_read_from_a_texture_or_a_surface(read: str, reported: bool) -> None:
    index = "and.b32 %r10, %r10, 127;\nmad.lo.u32 %r11, %r10, 4, %r1;"
    for between in ("", "bar.sync 0;"):
        body = f"{read}\n{index}\n{WRITE}\n{between}\nld.shared.u32 %r6, [%r11];"
        assert bool(found(body)) == (reported and not between)


def test_two_loaded_indices_may_be_of_elements_that_a_warp_has_for_itself() -> None:
    code = """
    mul.wide.u32 %rd2, %r0, 4;
    add.u64 %rd2, %rd1, %rd2;
    ld.global.u32 %r10, [%rd2];
    mad.lo.u32 %r11, %r10, 4, %r1;
    st.shared.u32 [%r11], %r0;
    ld.shared.u32 %r6, [%r11+4];
    """
    assert not found(code)


BY_SIZE = """
    mov.u32 %r10, %ntid.x;
    shr.u32 %r11, %r10, 5;
    shr.u32 %r12, %r0, 5;
    and.b32 %r13, %r0, 31;
    mad.lo.u32 %r12, %r12, 4, %r1;
    setp.ne.u32 %p4, %r13, 0;
    @%p4 bra stored;
    st.shared.u32 [%r12], %r0;
stored:
    {between}
    setp.lt.u32 %p5, %r11, 16;
    @%p5 bra few;
    ld.shared.u32 %r6, [tile+60];
    bra.uni done;
few:
    ld.shared.u32 %r6, [tile];
done:
"""


@pytest.mark.parametrize(("between", "expected"), [("", [Confidence.MEDIUM] * 1), ("bar.sync 0;", [])])
def test_warps_race_in_one_of_two_blocks_by_their_number(between: str, expected: list[Confidence]) -> None:
    """Compilers unroll a loop over the warps of a CTA, so each size takes another way."""
    assert [c for _, c, _ in found(BY_SIZE.format(between=between), directives="")] == expected


@pytest.mark.parametrize(("between", "reported"), [("bar.sync 0;", True), ("", False)])
def test_a_wait_before_a_cta_barrier_gives_no_meaning_to_a_later_warp_barrier(
    between: str, reported: bool
) -> None:
    """One lane may wait for its warp. The CTA barrier has passed on to all threads what that lane has observed."""
    code = f"""
    st.shared.u32 [%r3], %r0;
    @!%p0 bra waited;
    {PHASE.format("full")}
waited:
    {between}
    st.shared.u32 [%r3+4096], %r0;
    bar.warp.sync -1;
    ld.shared.u32 %r6, [%r5+4096];
    """
    assert bool(found(code)) is reported


TWO_ARRAYS = """
    mov.u32 %r7, dynamic;
    add.u32 %r3, %r7, %r2;
    {body}
"""


@pytest.mark.parametrize(
    ("body", "races"),
    [
        # two arrays of four elements, for as many threads
        ("@%p2 st.shared.u32 [%r3], %r0;\n@%p2 st.shared.u32 [%r3+16], %r0;", 0),
        ("@%p2 ld.shared.u32 %r6, [%r3+16];\n@%p2 st.shared.u32 [%r3], %r6;", 0),
        # elements of one array, which another thread has stored
        ("@%p2 st.shared.u32 [%r3], %r0;\nsub.u32 %r8, %r9, %r0;\nmad.lo.u32 %r8, %r8, 4, %r7;\n@%p2 ld.shared.u32 %r6, [%r8];", 1),
    ],
)  # fmt: skip
def test_arrays_whose_size_the_launch_decides_do_not_race_with_each_other(body: str, races: int) -> None:
    assert len(found(TWO_ARRAYS.format(body=body))) == races


@pytest.mark.parametrize(
    ("store", "races"),
    [
        ("mov.u32 %r6, 5; st.shared.u32 [tile], %r6;", 0),
        ("st.shared.u32 [tile], %r0;", 1),  # another value in each thread
        ("mov.u32 %r6, 5; @%p1 st.shared.u32 [tile], %r6;", 1),  # the others read nothing of their own
    ],
)
def test_reading_what_all_threads_store_is_not_a_race(store: str, races: int) -> None:
    body = f"{store}\nld.shared.u32 %r8, [tile];\nst.global.u32 [%rd1], %r8;"
    assert len([f for f in found(body) if f[0] == "SM001"]) == races


BY_INPUT = "mul.wide.u32 %rd3, %r0, 4;\nadd.s64 %rd4, %rd1, %rd3;\nld.global.u32 %r7, [%rd4];\nsetp.ne.u32 %p4, %r7, 0;"
BY_PROTOCOL = "ld.shared.u32 %r7, [%r3+4096];\nsetp.ne.u32 %p4, %r7, 0;"


@pytest.mark.parametrize(
    ("decides", "first", "between", "races"),
    [
        # one thread clears a flag, and those that find something in their input set it
        (BY_INPUT, "@%p0 st.shared.u32 [tile], 0;", "", 1),
        (BY_INPUT, "@%p0 st.shared.u32 [tile], 0;", "bar.sync 0;", 0),
        (BY_INPUT, "@%p0 st.shared.u32 [tile], 1;", "", 0),
        # all read the flag before some set it again
        (BY_INPUT, "ld.shared.u32 %r6, [tile];", "", 1),
        # any thread that has found something may be the last that stores
        (BY_INPUT, "@%p4 st.shared.u32 [tile], 2;", "", 0),
        # what is in shared memory may say whose turn it is
        (BY_PROTOCOL, "@%p0 st.shared.u32 [tile], 0;", "", 0),
    ],
)
def test_the_input_may_select_any_thread(decides: str, first: str, between: str, races: int) -> None:
    second = "@%p4 st.shared.u32 [tile], 1;"
    body = f"{decides}\n{first}\n{between}\n{second}\nbar.sync 0;\n{READ}"
    assert len([f for f in found(body, directives=".maxntid 128") if f[0] == "SM001"]) == races


@pytest.mark.parametrize(("elements", "races"), [(40, 0), (72, 1)])
def test_an_array_with_a_margin_has_no_room_for_a_part_of_a_warp(elements: int, races: int) -> None:
    """A tile of 32 elements between margins, in a CTA of one warp: threads 32 to 35 would be in bounds too."""
    body = f"""
    .shared .align 4 .b8 margins[{4 * elements}];
    mov.u32 %r7, margins;
    add.u32 %r8, %r7, %r2;
    st.shared.u32 [%r8+16], %r0;
    setp.lt.u32 %p4, %r0, 4;
    @%p4 st.shared.u32 [%r8+144], %r9;
    bar.sync 0;
    ld.shared.u32 %r6, [%r8+16];"""
    assert len([f for f in found(body, directives="") if f[0] == "SM001"]) == races


def test_a_kernel_that_shows_no_second_warp_races_if_there_is_one() -> None:
    """``s[t] = d[t]; d[t] = s[n - 1 - t];`` in dynamic shared memory, without any barrier."""
    body = """
    mov.u32 %r7, dynamic;
    add.u32 %r8, %r7, %r2;
    st.shared.u32 [%r8], %r0;
    not.b32 %r6, %r0;
    add.u32 %r6, %r6, %r9;
    shl.b32 %r6, %r6, 2;
    add.u32 %r6, %r7, %r6;
    ld.shared.u32 %r6, [%r6];"""
    ((rule, confidence, message),) = found(body, directives="")
    assert (rule, confidence) == ("SM001", Confidence.MEDIUM)
    assert "if the CTA has more than 32 threads" in message


@pytest.mark.parametrize("apart", [True, False])
def test_variables_of_sibling_scopes_are_different_memory(apart: bool) -> None:
    """ptxas 13 gives each declaration memory of its own."""
    declared = ".shared .align 4 .b32 own[128];"
    again = f"}} {{ {declared}" if apart else ""
    body = f"""
    mov.u32 %r0, %tid.x;
    shl.b32 %r2, %r0, 2;
    xor.b32 %r4, %r2, 508;
    {{ {declared}
    mov.u32 %r1, own;
    add.u32 %r3, %r1, %r2;
    {WRITE}
    {again}
    mov.u32 %r1, own;
    add.u32 %r5, %r1, %r4;
    st.shared.u32 [%r5], %r0; }}
    ret;
    """
    races = [f.rule.id for f in lint(module(kernel(body), header=HEADER)).findings]
    assert ("SM001" in races) is not apart


TILES = """
    .shared .align 16 .b8 one[4096];
    .shared .align 16 .b8 two[4096];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %tid.y;
    mad.lo.u32 %r2, %r1, 16, %r0;
    shl.b32 %r2, %r2, 2;
    mov.u32 %r3, one;
    mov.u32 %r4, {second};
    xor.b32 %r7, %r2, 64;
    add.u32 %r7, %r3, %r7;
    add.u32 %r3, %r3, %r2;
    add.u32 %r4, %r4, %r2;
    mov.u32 %r10, 0;
more:
    st.shared.u32 [%r3], %r0;
    st.shared.u32 [%r4{apart}], %r0;
    bar.sync 0;
    ld.shared.u32 %r6, [%r7];
    {last}
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p1, %r10, %r9;
    @%p1 bra more;
    st.global.u32 [%rd1], %r6;
    ret;
"""


@pytest.mark.parametrize(
    ("second", "last", "shapes"),
    [
        ("two", "bar.sync 0;", False),
        ("two", "", True),  # a store of the next iteration may be before the load of another warp
        ("one+64", "bar.sync 0;", True),
        ("two", "@%p2 bra more;\nbar.sync 0;", True),
        ("two", "setp.lt.u32 %p3, %r0, 8;\n@%p3 bra no;\nbar.sync 0;\nno:", True),  # not a barrier of all
    ],
)
def test_no_shape_is_tried_where_a_barrier_is_between_any_two_accesses_to_a_variable(
    second: str, last: str, shapes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "ld.param.u32 %r9, [number];\nld.param.u64 %rd1, [pointer];" + TILES
    kernel = model(
        body.format(second=second.split("+")[0], last=last, apart="+64" * ("+" in second)), directives=""
    )
    tried = list[KernelModel]()
    assert not in_all_launches(kernel, (), lambda shaped, pairs: tried.append(shaped) or ())
    assert bool(tried) is shapes


ROWS = """
    .shared .align 4 .b8 tile[512];
    ld.param.u64 %rd0, [pointer];
    cvta.to.global.u64 %rd1, %rd0;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %tid.y;
    mov.u32 %r2, %ntid.x;
    mad.lo.s32 %r3, %r1, {row}, %r0;
    mov.u32 %r4, %ctaid.x;
    mad.lo.s32 %r5, %r4, {cta}, %r3;
    mul.wide.s32 %rd2, %r5, 4;
    add.s64 %rd3, %rd1, %rd2;
    shl.b32 %r6, %r3, 2;
    mov.u32 %r7, tile;
    add.s32 %r8, %r7, %r6;
    st.shared.u32 [%r8], %r5;
    bar.warp.sync -1;
    setp.lt.s32 %p1, %r3, 16;
    @%p1 bra first;
    ld.shared.u32 %r5, [%r8+-64];
first:
    {guard} st.global.u32 [%rd3], %r5;
    ret;
"""


@pytest.mark.parametrize(
    ("row", "cta", "guard", "reported"),
    [
        ("%r2", "32", "", False),  # thread 32 of one CTA would store where thread 0 of the next one does
        ("%r2", "128", "", True),
        ("%r2", "32", "@%p2", True),  # which threads store is not known
        ("8", "32", "", False),
        ("16", "32", "", False),
        ("16", "128", "", True),
    ],
)
def test_a_cta_has_no_more_threads_than_it_stores_words_of_its_own(
    row: str, cta: str, guard: str, reported: bool
) -> None:
    body = ROWS.format(row=row, cta=cta, guard=guard)
    guarded = "ld.global.u32 %r9, [%rd3];\nsetp.eq.s32 %p2, %r9, 1;\nfirst:"
    body = body.replace("first:", guarded) if guard else body
    report = lint(module(kernel(body, directives=""), header=HEADER))
    assert ("SM001" in {f.rule.id for f in report.findings}) is reported


@pytest.mark.parametrize(("cta", "threads"), [(32, 32), (48, 48), (2048, 1024)])
def test_the_room_of_a_cta_ends_where_the_words_of_the_next_one_begin(cta: int, threads: int) -> None:
    body = ROWS.replace("%tid.y", "0").format(row="0", cta=cta, guard="").replace("512", "8192")
    room = model(body, directives="").fact(SharedByBound).room
    assert room == (1 << threads // 32 * 32) - 1


SUM_BY_HALVES = """
    .shared .align 4 .b8 tile[4096];
    ld.param.u64 %rd0, [pointer];
    cvta.to.global.u64 %rd1, %rd0;
    mov.u32 %r0, %tid.x;
    mov.u32 %r9, %ntid.x;
    shl.b32 %r2, %r0, 2;
    mov.u32 %r1, tile;
    add.s32 %r3, %r1, %r2;
    st.shared.u32 [%r3], %r0;
    {first}
    {steps}
    setp.ne.s32 %p6, %r0, 0;
    @%p6 bra end;
    ld.shared.u32 %r6, [tile];
    st.global.u32 [%rd1], %r6;
end:
    ret;
"""
STEP = """
    add.s32 %r4, %r0, {half};
    setp.ge.u32 %p1, %r4, %r9;
    setp.gt.u32 %p2, %r0, {half} - 1;
    or.pred %p3, %p1, %p2;
    @%p3 bra skip{half};
    ld.shared.u32 %r7, [%r3];
    ld.shared.u32 %r8, [%r3+4*{half}];
    add.s32 %r7, %r7, %r8;
    st.shared.u32 [%r3], %r7;
skip{half}:
    {then}
"""
HALVING = """
    mov.u32 %r10, %r9;
more:
    shr.u32 %r11, %r10, 31;
    add.s32 %r11, %r10, %r11;
    shr.s32 %r11, %r11, 1;
    setp.ge.s32 %p1, %r0, %r11;
    @%p1 bra skip;
    shl.b32 %r4, %r11, 2;
    add.s32 %r4, %r3, %r4;
    ld.shared.u32 %r7, [%r3];
    ld.shared.u32 %r8, [%r4];
    add.s32 %r7, %r7, %r8;
    st.shared.u32 [%r3], %r7;
skip:
    {then}
    setp.gt.s32 %p5, %r10, 3;
    mov.u32 %r10, %r11;
    @%p5 bra more;
"""
BARRIER = "bar.sync 0;"
BOUNDED = """mov.u32 %r12, %ctaid.x;
    mad.lo.s32 %r12, %r12, %r9, %r0;
    ld.param.u32 %r13, [number];
    setp.ge.s32 %p2, %r12, %r13;
    or.pred %p1, %p1, %p2;
    @%p1 bra skip;"""
"""A branch that threads beyond the end of the data take, too."""


def steps(*without: int) -> str:
    """A step of a sum by halves for each half from 128 threads to one, with a barrier after all but those of *without*."""
    halves = (128, 64, 32, 16, 8, 4, 2, 1)
    return "".join(STEP.format(half=h, then="" if h in without else BARRIER) for h in halves)


@pytest.mark.parametrize(
    ("first", "after", "threads"),
    [
        (BARRIER, steps(), None),
        (BARRIER, steps(128), 128),  # CTAs of 128 threads execute nothing that lacks the barrier
        (BARRIER, HALVING.format(then=BARRIER), None),
        (
            "",
            HALVING.format(then=BARRIER),
            32,
        ),  # the number of threads is the first of the numbers that are halved
        (BARRIER, HALVING.format(then=""), 64),
        ("", HALVING.format(then=BARRIER).replace("@%p1 bra skip;", BOUNDED), 32),
        (BARRIER, HALVING.format(then=BARRIER).replace("@%p1 bra skip;", BOUNDED), None),
    ],
)
def test_a_barrier_that_a_sum_by_halves_lacks(first: str, after: str, threads: int | None) -> None:
    text = kernel(SUM_BY_HALVES.format(first=first, steps=after), directives="")
    races = [f.message for f in lint(module(text, header=HEADER)).findings if f.rule.id == "SM001"]
    assert len(races) == (threads is not None)
    assert threads in (None, 32) or f"if the CTA has more than {threads} threads" in races[0]


SWAP = """ld.shared.u32 %r6, [tile];
again:
add.u32 %r7, %r6, %r0;
atom.shared.cas.b32 %r8, [tile], %r6, %r7;
setp.ne.u32 %p5, %r8, %r6;
mov.u32 %r6, %r8;
@%p5 bra again;
bar.sync 0;"""
"""An addition that hardware lacks, as the CUDA C++ guide has it: what a swap expects is read as any other data are."""


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("", "", False),
        ("mov.u32 %r6, %r8;\n@%p5 bra again;\n", "", False),  # once, without a loop
        ("[tile], %r6, %r7", "[tile], 0, %r7", True),  # what was read is added, whatever memory holds
        ("again:", "st.shared.u32 [%r3+1024], %r6;\nagain:", True),
        ("atom.shared.cas.b32 %r8, [tile], %r6, %r7", "atom.shared.exch.b32 %r8, [tile], %r7", True),
    ],
)
def test_what_a_swap_expects_may_be_out_of_date(old: str, new: str, wrong: bool) -> None:
    assert old in SWAP
    body = SWAP.replace(old, new, 1)
    text = module(
        kernel(f"{START}\n{body}\nst.global.u32 [%rd1], %r0;\nret;", directives=".maxntid 256"), header=HEADER
    )
    assert bool([f for f in lint(text).findings if f.rule.id == "SM001"]) == wrong
