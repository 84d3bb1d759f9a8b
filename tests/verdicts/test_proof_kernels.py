"""Kernels in ``fixtures/proofs``, compiled by nvcc: which of those that are right are proved, and that no flawed one is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tclint.findings.requirements import ALL_ASSUMPTIONS
from tclint.findings.verdicts import Assumption, HazardClass, Status, Verdict
from tclint.ir.cfg import Edge
from tclint.verdicts import shared_order, verdicts
from tclint.verdicts.phases import NO_PHASES, Issue, Known, Phases
from tests.tools.support import last_kernel

FOLDER = Path(__file__).parents[2] / "fixtures" / "proofs"
RIGHT = sorted(path.stem for path in FOLDER.glob("*.ptx") if not path.stem.endswith(".bad"))
FLAWED = sorted(path.stem for path in FOLDER.glob("*.bad.ptx"))
UNKNOWN = {
    "named": "a barrier at which threads only arrive orders nothing",
}
"""Kernels that are right and not proved, and why."""


def verdict(name: str, hazard: HazardClass = HazardClass.SHARED_MEMORY) -> Verdict:
    model = last_kernel((FOLDER / f"{name}.ptx").read_text(), header="")
    (found,) = verdicts(model, only=[hazard])
    return found


@pytest.mark.parametrize("name", RIGHT)
def test_a_kernel_that_is_right_is_proved_but_for_those_that_are_named(name: str) -> None:
    found = verdict(name)
    assert (found.status is Status.PROVED) == (name not in UNKNOWN), found.reasons


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ("MAX_PASSED", "a thread may pass more than 0 combinations of barriers and iterations"),
        ("MAX_STEPS", "what a thread may pass takes more than 0 steps"),
        ("MAX_UNDERWAY", "more than 0 operations may be underway on mbarriers at one block"),
    ],
)
def test_what_is_not_followed_beyond_a_limit_is_unknown_because_of_that_limit(
    limit: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdict("ring").status is Status.PROVED
    monkeypatch.setattr(shared_order, limit, 0)
    found = verdict("ring")
    assert (found.status, [reason.what for reason in found.reasons]) == (Status.UNKNOWN, [why])


@pytest.mark.parametrize("name", FLAWED)
def test_no_flawed_kernel_is_proved(name: str) -> None:
    assert verdict(name).status is Status.UNKNOWN


INIT = "	@%p1 bra 	$L__BB12_2;\n"
ARRIVAL = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [_ZZ6loadedE8mbarrier], 0;\n"
ALTERED = {
    "for some arguments": (INIT, "ld.param.u32 %r5, [loaded_param_0];\nsetp.lt.s32 %p2, %r5, 3;\n@%p2 bra $L__BB12_2;\n" + INIT),
    "by a guard": ("mbarrier.init", "ld.param.u32 %r5, [loaded_param_0];\nsetp.lt.s32 %p2, %r5, 3;\n@%p2 mbarrier.init"),
    "by a word of memory": (INIT, "ld.global.b32 %r5, [%rd2];\nsetp.lt.s32 %p2, %r5, 3;\n@%p2 bra $L__BB12_2;\n" + INIT),
    "by a thread that there is not": ("	setp.ne.s32 	%p1, %r1, 0;\n" + INIT, "setp.ne.s32 %p1, %r1, 0;\nsetp.ne.s32 %p2, %r1, 200;\n@%p2 bra $L__BB12_2;\n"),
    "more bytes than are counted": ("_, [%r4], %r7", "_, [%r4], 1048576"),
    "fewer bytes than none": ("_, [%r4], %r7", "_, [%r4], 0xfffffe00"),
    "an arrival in a loop of its thread": ("	@%p1 bra 	$L__BB12_4;\n", f"@%p1 bra past;\nmov.b32 %r5, 0;\nagain:\n{ARRIVAL}add.s32 %r5, %r5, 1;\nsetp.lt.s32 %p2, %r5, 1;\n@%p2 bra again;\npast:\n@%p1 bra $L__BB12_4;\n"),
    "an arrival after a join in its thread": ("	@%p1 bra 	$L__BB12_4;\n", f"@%p1 bra past;\nld.global.b32 %r5, [%rd1];\nsetp.lt.s32 %p2, %r5, 1;\n@%p2 bra join;\nst.global.b32 [%rd1], %r1;\njoin:\n{ARRIVAL}past:\n@%p1 bra $L__BB12_4;\n"),
}  # fmt: skip
"""Changes of ``loaded``: the initialisation that some launches skip, expectations beyond the range of a tx-count, and a phase
without a copy."""


@pytest.mark.parametrize("case", ALTERED)
def test_an_mbarrier_is_initialised_in_every_launch_and_each_phase_is_that_of_its_copies(case: str) -> None:
    old, new = ALTERED[case]
    text = (FOLDER / "loaded.ptx").read_text()
    assert text.count(old) == 1
    model = last_kernel(text.replace(old, new), header="")
    (found,) = verdicts(model, only=[HazardClass.SHARED_MEMORY])
    assert found.status is Status.UNKNOWN


def test_a_guard_of_all_that_an_mbarrier_is_used_for_may_guard_its_initialisation() -> None:
    text = (FOLDER / "loaded.ptx").read_text()
    guard = "ld.param.u32 %r5, [loaded_param_0];\nsetp.lt.s32 %p2, %r5, 3;\n@%p2 bra over;\n"
    text = text.replace(INIT, guard + INIT).replace("	ret;", "over:\n	ret;")
    (found,) = verdicts(last_kernel(text, header=""), only=[HazardClass.SHARED_MEMORY])
    assert found.status is Status.PROVED


def pipeline(expected: int = 1536, assume: frozenset[Assumption] = ALL_ASSUMPTIONS) -> Verdict:
    """The verdict on ``pipeline``, whose boxes have 512 and 1024 bytes, where its phases expect so many."""
    text = (FOLDER / "pipeline.ptx").read_text()
    text, changed = re.subn(r"(mov\.u32 \t%r\d+), 1536;", rf"\1, {expected};", text)
    assert changed == 3
    (found,) = verdicts(last_kernel(text, header=""), only=[HazardClass.SHARED_MEMORY], assume=assume)
    return found


def test_the_boxes_of_a_pipeline_are_an_assumption() -> None:
    boxes = {Assumption.BOXES, Assumption.EXPECTED}
    assert boxes <= {*pipeline().assumptions}
    assert all(pipeline(assume=ALL_ASSUMPTIONS - {each}).status is Status.UNKNOWN for each in boxes)


def test_boxes_begin_where_tensor_copies_may() -> None:
    text = (FOLDER / "reloaded.ptx").read_text()
    text, changed = re.subn(r"(add\.s32 \t%r\d+, %r\d+), 512;", r"\1, 516;", text)
    assert changed == 2
    (found,) = verdicts(last_kernel(text, header=""), only=[HazardClass.SHARED_MEMORY])
    assert found.status is Status.UNKNOWN


@pytest.mark.parametrize("expected", [1535, 1537, 1664])
def test_boxes_are_assumed_only_where_the_distances_are_what_a_phase_expects(expected: int) -> None:
    assert pipeline(expected).status is Status.UNKNOWN


EXPECT = "	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], %r7;\n"
COPY = "	cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r6], [%rd1], %r7, [%r4];\n"


TWO_BOXES = """.version 8.8
.target sm_90
.address_size 64
.visible .entry two_boxes(.param .u32 n, .param .align 64 .b8 a[128], .param .align 64 .b8 b[128])
.reqntid 128
{
    .reg .pred %p<9>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .shared .align 128 .b8 tile[2048];
    .shared .align 8 .b64 mbarrier;
    mov.u32 %r0, %tid.x;
    shl.b32 %r1, %r0, 2;
    mov.u32 %r2, tile;
    add.u32 %r3, %r2, %r1;
    ld.param.u32 %r4, [n];
    mov.u64 %rd1, a;
    mov.u64 %rd2, b;
    mov.u32 %r5, 0;
    setp.ne.s32 %p1, %r0, 0;
    setp.gt.s32 %p2, %r4, 5;
    @!%p1 mbarrier.init.shared::cta.b64 [mbarrier], 1;
    bar.sync 0;
    @%p1 bra issued;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [mbarrier], 1024;
    cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd1, {%r5}], [mbarrier];
    cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile+512], [%rd2, {%r5}], [mbarrier];
issued:
    st.shared.b32 [%r3+1024], %r0;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [mbarrier], 0;
    @!%p3 bra wait;
    xor.b32 %r6, %r3, 4;
    ld.shared.b32 %r7, [%r6];
    ret;
}
"""
"""Two tensor copies, and a store meanwhile to what is after both if each has 512 bytes."""
FIRST, SECOND = (line for line in TWO_BOXES.splitlines() if "tensor" in line)
ONE_OR_OTHER = (
    {FIRST: f"@%p2 {FIRST}", SECOND: f"@!%p2 {SECOND}"},
    {FIRST: f"@!%p2 bra other;\n{FIRST}\nbra issued;\nother:"},
    {SECOND: f"@%p2 {SECOND}"},
    {SECOND: f"setp.gt.s32 %p4, %r4, 6;\n@%p4 {SECOND}"},
)
OF_BOTH = (
    {},
    {FIRST: f"@!%p1 {FIRST}", SECOND: f"@!%p1 {SECOND}"},
    {"@%p1 bra issued;": "or.pred %p5, %p1, %p2;\n@%p5 bra issued;", SECOND: f"@!%p2 {SECOND}"},
)
EXPECTING = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [mbarrier], 1024;"


def two_boxes(changes: dict[str, str]) -> Verdict:
    text = TWO_BOXES
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (found,) = verdicts(last_kernel(text, header=""), only=[HazardClass.SHARED_MEMORY])
    return found


@pytest.mark.parametrize("changes", OF_BOTH)
def test_copies_that_are_executed_with_their_arrival_share_its_bytes(changes: dict[str, str]) -> None:
    found = two_boxes(changes)
    assert found.status is Status.PROVED, found.reasons
    assert Assumption.BOXES in found.assumptions


@pytest.mark.parametrize("changes", ONE_OR_OTHER)
def test_copies_one_of_which_may_be_skipped_do_not_share_the_bytes_of_a_phase(
    changes: dict[str, str],
) -> None:
    """The one that is executed has all of them."""
    assert two_boxes(changes).status is Status.UNKNOWN


@pytest.mark.parametrize(("of", "status"), [("%rd1", Status.PROVED), ("%rd2", Status.UNKNOWN)])
def test_copies_of_one_tensor_map_have_the_least_of_their_distances(of: str, status: Status) -> None:
    """The mbarrier is 1024 bytes after the second copy."""
    moved = {
        ".shared .align 8 .b64 mbarrier;": "",
        SECOND: SECOND.replace("%rd2", of),
        "mbarrier]": "tile+1536]",
    }
    assert two_boxes(moved).status is status


@pytest.mark.parametrize(
    ("count", "before"),
    [(1, EXPECTING), (2, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [mbarrier], 1024;")],
)
def test_what_else_expects_bytes_in_a_phase_leaves_boxes_unknown(count: int, before: str) -> None:
    """There is one copy, and a store 512 bytes further."""
    arrival, read = "_, [mbarrier], 1024;", "ld.shared.b32 %r7, [%r6];"
    alone = {arrival: arrival.replace("1024", "512"), SECOND: "", "+1024]": "+512]", read: ""}
    assert two_boxes(alone).status is Status.PROVED
    more = {"[mbarrier], 1;": f"[mbarrier], {count};", "@%p1 bra issued;": f"@%p1 bra issued;\n{before}"}
    assert two_boxes({**alone, **more}).status is Status.UNKNOWN


def test_the_limit_is_named_that_leaves_the_place_of_a_box_unknown() -> None:
    loop = """mov.u32 %r6, 0;
mov.u32 %r8, 0;
next:
add.u32 %r8, %r8, 16;
and.b32 %r8, %r8, 4095;
add.u32 %r6, %r6, 1;
setp.lt.u32 %p6, %r6, %r4;
@%p6 bra next;
"""
    moved = {
        "@%p1 bra issued;": f"{loop}add.u32 %r8, %r8, %r2;\n@%p1 bra issued;",
        FIRST: FIRST.replace("[tile]", "[%r8]"),
    }
    assert any("more than 64 places" in reason.what for reason in two_boxes(moved).reasons)
    few = {**moved, "@%p1 bra issued;": moved["@%p1 bra issued;"].replace("4095", "255")}
    assert not any("places" in reason.what for reason in two_boxes(few).reasons)


@pytest.mark.parametrize(
    ("steps", "limit"),
    [([8], ""), ([9], "a path from it takes more than 8 edges"), ([*range(1, 7)], ""), ([*range(1, 8)], "more than 6 paths lead on from it")],
)  # fmt: skip
def test_the_limit_is_named_that_leaves_it_unknown_what_was_skipped(steps: list[int], limit: str) -> None:
    """A copy that may have been skipped, after as many edges on each of several paths."""
    ask = NO_PHASES._replace(conditional={0}, steps={1})
    phases = Phases(ask, frozenset(), {}, lambda block, register: True)
    edge = Edge(0, 1, -1, True)
    known = Known(frozenset(Issue(0, (), None, taken=(edge,) * (count - 1)) for count in steps))
    (after, *others) = phases.followed(known, edge).underway
    assert phases.limits == ({0: limit} if limit else {})
    assert (after.taken is None) == bool(limit)
    assert len(others) == (0 if limit else len(steps) - 1)


@pytest.mark.parametrize(
    ("first", "second", "expected"), [(EXPECT, COPY, Status.PROVED), (COPY, EXPECT, Status.UNKNOWN)]
)
def test_one_thread_executes_instructions_in_the_order_of_its_branches(
    first: str, second: str, expected: Status
) -> None:
    """Whatever their order in the text is."""
    text = (FOLDER / "loaded.ptx").read_text()
    text = text.replace(EXPECT, "").replace(
        COPY, f"bra one;\ntwo:\n{second}bra both;\none:\n{first}bra two;\nboth:\n"
    )
    (found,) = verdicts(last_kernel(text, header=""), only=[HazardClass.SHARED_MEMORY])
    assert found.status is expected


@pytest.mark.parametrize(("expected", "status"), [(512, Status.PROVED), (0, Status.UNKNOWN)])
def test_a_phase_that_expects_no_bytes_is_complete_before_a_tensor_copy(
    expected: int, status: Status
) -> None:
    """Although another phase expects as many as the copy may write."""
    variable, init = (
        "	.shared .align 8 .u64 _ZZ6loadedE8mbarrier;\n",
        "	mbarrier.init.shared::cta.b64 [%r2], %r3;\n",
    )
    tensor = "cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r6], [%rd1, {%r7}], [%r4];\n"
    text = (FOLDER / "loaded.ptx").read_text().replace(EXPECT, EXPECT.replace("%r7", str(expected)))
    text = text.replace(variable, f"{variable}.shared .align 8 .u64 other;\n")
    text = text.replace(init, f"{init}mbarrier.init.shared::cta.b64 [other], 1;\n")
    text = text.replace(COPY, f"{tensor}mbarrier.arrive.expect_tx.shared::cta.b64 _, [other], 512;\n")
    (found,) = verdicts(last_kernel(text, header=""), only=[HazardClass.SHARED_MEMORY])
    assert found.status is status


def test_what_a_copy_reads_in_shared_memory_is_not_followed() -> None:
    text = (FOLDER / "loaded.ptx").read_text().replace("E1s[1024]", "E1s[2048]")
    inside = COPY.replace("shared::cta.global", "shared::cluster.shared::cta").replace("[%rd1]", "[%r5]")
    written = "shl.b32 %r5, %r1, 2;\nmov.b32 %r2, _ZZ6loadedE1s;\nadd.s32 %r5, %r5, %r2;\nst.shared.b32 [%r5+1024], %r1;\n"
    text = text.replace(COPY, f"add.s32 %r5, %r6, 1024;\n{inside}").replace(
        "$L__BB12_4:\n", f"$L__BB12_4:\n{written}"
    )
    (found,) = verdicts(last_kernel(text, header=""), only=[HazardClass.SHARED_MEMORY])
    assert found.status is Status.UNKNOWN


def test_a_flag_that_all_threads_read_decides_for_all_of_them_whether_they_exit() -> None:
    found = {
        name: verdict(name, HazardClass.CONVERGENCE).status for name in (*RIGHT, *FLAWED) if "flag" in name
    }
    assert {name for name, status in found.items() if status is Status.PROVED} == {"flag"}


def test_each_kernel_has_a_flawed_twin() -> None:
    assert set(RIGHT) == {name.split(".")[0] for name in FLAWED}
    assert UNKNOWN.keys() <= set(RIGHT)
