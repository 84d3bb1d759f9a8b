"""Replays: values that decide about synchronisation and come from shared memory or from other lanes."""

from __future__ import annotations

import pytest

from tclint.isa.lane_exchange import shuffled
from tests.tools.replay import GIVE, changed, replay, what, why
from tests.tools.support import model

COUNTED = changed(
    "    .shared .align 8 .b64 full[3];",
    "    .shared .align 16 .b32 trips[160];\n    .shared .align 16 .b32 other[4];\n    .shared .align 8 .b64 full[3];\n"
    "    .shared .align 8 .b64 loaded;",
)
COUNTED = changed(
    "ready:\n    bar.sync 0;\n",
    "    mov.u32 %r1, trips;\n    mbarrier.init.shared::cta.b64 [loaded], 1;\n    st.shared.u32 [trips], 4;\nready:\n"
    "    bar.sync 0;\n    mad.lo.u32 %r1, %r0, 4, 0;\n    mov.u32 %r2, trips;\n    add.u32 %r1, %r1, %r2;\n"
    "    //\n    bar.sync 0;\n    ld.shared.u32 %r20, [trips];\n",
    COUNTED,
)
"""There are 4 iterations, as one thread passes to the others; %r1 is an address of each thread's own, from there on."""


@pytest.mark.parametrize(
    ("more", "known"),
    [
        pytest.param("", True, id="nothing else"),
        pytest.param("st.shared.u32 [other], %r20;", True, id="beside it"),
        pytest.param("atom.shared.add.u32 %r2, [other], %r20;", True, id="an addition beside it"),
        pytest.param("atom.shared.add.u32 %r2, [trips], %r20;", False, id="atom"),
        pytest.param("red.shared.max.u32 [trips], %r20;", False, id="red"),
        pytest.param("cp.async.ca.shared.global [trips], [%in], 4;\n    cp.async.wait_all;", False, id="cp.async"),
        pytest.param("mov.u32 %r2, %clock;\n    st.shared.u32 [%r1], %r2;", False, id="each thread stores its own"),
        pytest.param("mov.u32 %r2, %clock;\n    st.shared.u32 [%r1], %r2;\n    bar.sync 0;\n    st.shared.u32 [trips], 4;", True, id="and then it is known again"),
        pytest.param("mov.u32 %r32, %clock;\n    and.b32 %r32, %r32, 127;\n    mad.lo.u32 %r2, %r32, 4, %r1;\n    @!%p0 st.shared.u32 [%r2], 7;", False, id="to where is not known"),
        pytest.param("mov.u32 %r32, %clock;\n    and.b32 %r32, %r32, 3;\n    mov.u32 %r2, other;\n    mad.lo.u32 %r2, %r32, 4, %r2;\n    st.shared.u32 [%r2], 7;", True, id="where in another variable"),
        pytest.param("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r20};", False, id="stmatrix"),
        pytest.param("cvta.shared.u64 %in, trips;\n    mov.u32 %r2, %clock;\n    st.u32 [%in], %r2;\n    ld.param.u64 %in, [in];", False, id="a generic address"),
        pytest.param("st.u32 [%out], %r20;", True, id="a generic address of the launch"),
    ],
)  # fmt: skip
def test_a_number_in_shared_memory_that_something_may_change(more: str, known: bool) -> None:
    """A ring deadlocks when stages are not released, if the trip count is the stored one; any other value is unknown."""
    code = COUNTED.replace("//", more)
    right, wrong = replay(code), replay(changed(GIVE, "", code))
    assert right.run is None
    assert what(wrong.run) == {"stuck"} if known else wrong.run is None
    assert (why(right) == "") is known


@pytest.mark.parametrize(
    ("place", "size", "known"),
    [("trips", "16", False), ("other", "16", True), ("trips", "%r20", False), ("other", "%r20", True), ("%r2", "16", False)],
)  # fmt: skip
def test_a_value_that_a_copy_may_overwrite_is_unknown(place: str, size: str, known: bool) -> None:
    copy = f"""mov.u32 %r2, %clock;
    @!%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [loaded], {size};
    @!%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [{place}], [%in], {size}, [loaded];
come:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [loaded], 0;
    @!%p1 bra come;"""
    right = replay(COUNTED.replace("//", copy))
    assert right.run is None
    assert (why(right) == "") is known


def test_roles_by_a_value_of_the_launch_in_shared_memory() -> None:
    """How many warps copy comes with the launch, and is loaded from where one thread has stored it."""
    code = changed(
        "setp.lt.u32 %p2, %r0, 128;",
        "ld.shared.u32 %r1, [trips+8];\n    setp.lt.u32 %p2, %r0, %r1;",
        COUNTED.replace(
            "st.shared.u32 [trips], 4;", "st.shared.u32 [trips], 4;\n    st.shared.u32 [trips+8], %r20;"
        ),
    )
    asked, constant = replay(code), replay(code.replace("[trips+8], %r20;", "[trips+8], 128;"))
    assert (asked.run, constant.run) == (None, None)
    assert asked.runs[0].wrong  # with 512 there are no consumers
    assert not why(constant)


@pytest.mark.parametrize(
    ("store", "asked"),
    [("st.shared.u32 [trips], %r20;", "ld.shared.u32 %r20, [trips];"),
     ("st.shared.v2.u32 [trips], {%r3, %r20};", "ld.shared.v2.u32 {%r3, %r20}, [trips];")],
)  # fmt: skip
def test_a_number_that_a_thread_leaves_to_the_others(store: str, asked: str) -> None:
    """The trip count is loaded from shared memory, where one thread has stored it."""
    code = changed(
        "    .shared .align 8 .b64 full[3];",
        "    .shared .align 8 .b32 trips[2];\n    .shared .align 8 .b64 full[3];",
    )
    code = changed("ready:\n    bar.sync 0;\n", f"    {store}\nready:\n    bar.sync 0;\n    {asked}\n", code)
    assert replay(code).run is None
    assert what(replay(changed(GIVE, "", code)).run) == {"stuck"}


def test_a_number_that_one_lane_of_a_group_stores() -> None:
    """No thread branches, so the others pass the store and leave what is there."""
    code = changed(
        "    .shared .align 8 .b64 full[3];",
        "    .shared .align 8 .b32 trips;\n    .shared .align 8 .b64 full[3];",
    )
    both = "    @!%p0 st.shared.u32 [trips], %r20;\n    bar.sync 0;\n    ld.shared.u32 %r20, [trips];\n"
    code = changed("ready:\n    bar.sync 0;\n", "ready:\n" + both, code)
    assert replay(code).run is None
    assert what(replay(changed(GIVE, "", code)).run) == {"stuck"}
    assert (
        replay(
            changed(
                GIVE, "", code.replace("@!%p0 st.", "@%p0 st.").replace("%r20;\n    bar", "%r32;\n    bar")
            )
        ).run
        is None
    )


@pytest.mark.parametrize("how", ["bfly", "down", "idx"])
def test_a_number_that_lanes_add_up(how: str) -> None:
    """The first lane has the trip count, and the others nothing."""
    step = "    shfl.sync.{how}.b32 %r2, %r1, {by}, 31, 0xffffffff;\n    add.u32 %r1, %r1, %r2;\n"
    first = "    mov.u32 %r2, %laneid;\n    setp.eq.u32 %p1, %r2, 0;\n    selp.u32 %r1, %r20, 0, %p1;\n"
    steps = "" if how == "idx" else "".join(step.format(how=how, by=by) for by in (16, 8, 4, 2, 1))
    broadcast = "    shfl.sync.idx.b32 %r20, %r1, 0, 31, 0xffffffff;\n"
    code = changed("    mov.u32 %r24, tile;\n", first + steps + broadcast + "    mov.u32 %r24, tile;\n")
    right = replay(code)
    assert (right.run, why(right)) == (None, "")
    assert what(replay(changed(GIVE, "", code)).run) == {"stuck"}


@pytest.mark.parametrize(
    ("how", "lane", "by", "bounds", "other", "inside"),
    [
        ("up", 5, 2, 0, 3, True),
        ("up", 1, 2, 0, 1, False),
        ("down", 30, 2, 31, 30, False),
        ("down", 5, 2, 31, 7, True),
        ("bfly", 5, 16, 31, 21, True),
        ("idx", 5, 9, 31, 9, True),
        ("idx", 21, 3, 0x101F, 19, True),  # parts of 16 lanes
        ("down", 14, 2, 0x100F, 14, False),
        ("up", 17, 2, 0x1000, 17, False),
    ],
)  # fmt: skip
def test_shuffles(how: str, lane: int, by: int, bounds: int, other: int, inside: bool) -> None:
    made = model(f"    shfl.sync.{how}.b32 %r1|%p1, %r2, {by}, {bounds}, 0xffffffff;\n    ret;")
    match = made.instruction(0).match
    assert match is not None
    assert shuffled(match, 64 + lane, by, bounds) == (64 + other, inside)


@pytest.mark.parametrize(
    ("constant", "above"),
    [
        pytest.param(
            "mov.f64 %fd, 0d4005BF0A8B145769;\n    mov.b64 {%r1, %r2}, %fd;", 0x4005BF09, id="upper half of e"
        ),
        pytest.param("mov.f32 %f, 0f3F800000;\n    mov.b32 %r2, %f;", 0x3F7FFFFF, id="one"),
    ],
)
def test_the_bits_of_a_floating_point_constant(constant: str, above: int) -> None:
    """They decide how a logarithm of it is computed."""
    code = changed(
        "    .reg .b64 %in, %out;", "    .reg .b64 %in, %out;\n    .reg .f32 %f;\n    .reg .f64 %fd;"
    )
    early = (
        f"    {constant}\n    setp.gt.s32 %p1, %r2, {above};\n    @!%p1 bra done;\n    mov.u32 %r24, tile;\n"
    )
    code = changed("    mov.u32 %r24, tile;\n", early, code)
    assert what(replay(changed(GIVE, "", code)).run) == {"stuck"}
    assert replay(changed(f"{above};", f"{above + 1};", changed(GIVE, "", code))).run is None


def test_roles_by_a_table_in_shared_memory() -> None:
    """Warps that look up their role: bytes of a word that another thread stored."""
    code = changed(
        "    setp.lt.u32 %p2, %r0, 128;\n    @%p2 bra consumer;\n",
        (
            "    shr.u32 %r1, %r0, 5;\n    mov.u32 %r2, roles;\n    add.u32 %r2, %r2, %r1;\n"
            "    ld.shared.u8 %r2, [%r2];\n    setp.eq.u32 %p2, %r2, 1;\n    @%p2 bra consumer;\n"
        ),
    ).replace(
        "ready:\n",
        "    mov.u64 %in, 0x0000000001010101;\n    st.shared.b64 [roles], %in;\n    ld.param.u64 %in, [in];\nready:\n",
    )
    code = code.replace(
        "    .shared .align 8 .b64 full[3];",
        "    .shared .align 8 .b8 roles[8];\n    .shared .align 8 .b64 full[3];",
    )
    assert replay(code).run is None
    assert "stuck" in what(replay(code.replace(GIVE, "")).run)


def test_the_producer_may_be_chosen_by_a_table_that_the_launch_fills() -> None:
    """A hypothetical launch may name a warp that does not exist, and then no warp produces."""
    looked_up = """    shr.u32 %r1, %r0, 5;
    mov.u32 %r2, roles;
    mad.lo.u32 %r2, %r1, 4, %r2;
    ld.shared.u32 %r2, [%r2];
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra consumer;
"""
    filled = """ready:
    setp.ge.u32 %p3, %r0, 5;
    @%p3 bra assigned;
    {asked}
    selp.u32 %r1, 1, 0, %p3;
    mov.u32 %r2, roles;
    mad.lo.u32 %r2, %r0, 4, %r2;
    st.shared.u32 [%r2], %r1;
assigned:
    bar.sync 0;
"""
    code = changed("    setp.lt.u32 %p2, %r0, 128;\n    @%p2 bra consumer;\n", looked_up)
    code = code.replace(
        "    .shared .align 8 .b64 full[3];",
        "    .shared .align 4 .b32 roles[5];\n    .shared .align 8 .b64 full[3];",
    ).replace(".param .u32 rounds)", ".param .u32 rounds, .param .u32 chosen)")
    fixed = code.replace("ready:\n", filled.format(asked="setp.eq.u32 %p3, %r0, 4;"))
    assert replay(fixed).run is None
    assert "stuck" in what(replay(fixed.replace(GIVE, "")).run)
    given = code.replace(
        "ready:\n", filled.format(asked="ld.param.u32 %r1, [chosen];\n    setp.eq.u32 %p3, %r0, %r1;")
    )
    assert replay(given).run is None
