"""Runs of one thread from the entry, and what they refute."""

from __future__ import annotations

import pytest

from tclint.exact import PathClaim, Runs, worlds
from tests.tools.support import analysed, kernel, module

ISSUE, WAIT = "mov.b32 %r50, 1;", "mov.b32 %r51, 1;"
"""An instruction that begins a fact, and one that ends it."""


def met(body: str, wanted: int = 50) -> bool:
    """Whether a thread executes ISSUE and then reaches the end without WAIT."""
    model = analysed(module(kernel(f"{body}\nret;")))
    written = {
        model.function.registers[r].name: i
        for i, each in enumerate(model.function.instructions)
        for r in each.writes
    }
    start, end, last = written["%r50"], written["%r51"], len(model.function.instructions) - 1
    query = PathClaim(
        start,
        "pending",
        lambda fact, site, instruction: None if site == end else fact,
        lambda fact, site: site == last,
        frozenset((end, last)),
    )
    runs = Runs(model.cfg, model.values.defs, (start, end, last))
    return runs.refuted([query], worlds(model.function, model.module.variables, 128), wanted) is not None


def guarded(condition: str, first: str = "%p1", then: str = "%p2") -> str:
    return f"ld.param.u32 %r9, [number];\n{condition}\n@{first} {ISSUE}\n@{then} {WAIT}"


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("setp.eq.s32 %p1, %r9, 7;\nsetp.lt.s32 %p2, %r9, 8;", False),
        ("setp.eq.s32 %p1, %r9, 7;\nsetp.lt.s32 %p2, %r9, 7;", True),
        ("add.s32 %r1, %r9, 1;\nsetp.gt.s32 %p1, %r9, 3;\nsetp.gt.s32 %p2, %r1, 4;", False),
        ("cvt.u64.u32 %rd1, %r9;\nsetp.lt.s32 %p1, %r9, 0;\nsetp.lt.s64 %p2, %rd1, 0;", True),
        ("cvt.s64.s32 %rd1, %r9;\nsetp.lt.s32 %p1, %r9, 0;\nsetp.lt.s64 %p2, %rd1, 0;", False),
    ],
)
def test_a_path_that_some_parameter_takes_is_found(condition: str, found: bool) -> None:
    assert met(guarded(condition)) is found


def test_a_run_in_which_signed_arithmetic_wraps_does_not_count() -> None:
    """Only the largest number is less than 0 when 1 is added."""
    assert not met(guarded("add.s32 %r1, %r9, 1;\nsetp.ge.s32 %p1, %r9, 0;\nsetp.gt.s32 %p2, %r1, 0;"))


@pytest.mark.parametrize(
    ("line", "spaces"),
    [
        ("st.b32 [%rd1], %r1;", {""}),
        ("atom.shared::cta.add.u32 %r1, [%r2], 1;", {".shared"}),
        ("cp.async.ca.shared.global [%r1], [%rd1], 4;", {".shared"}),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;", {".global"}),
        ("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd1, {%r1}], [%r2];", {".global"}),
        ("tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r2};", set()),
        ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;", set()),
    ],
)
def test_the_memory_that_a_kernel_writes(line: str, spaces: set[str]) -> None:
    """A copy of a tensor writes global memory, and an operation on registers or tensor memory none that is loaded."""
    model = analysed(module(kernel(f"{line}\nret;")))
    assert Runs(model.cfg, model.values.defs, ()).written == spaces


def test_a_run_that_does_not_end_does_not_count() -> None:
    spins = "ld.param.u32 %r9, [number];\nsetp.eq.s32 %p1, %r9, 0;\nL:\n@%p1 bra L;"
    assert not met(f"{spins}\n@%p1 {ISSUE}\n@!%p1 {WAIT}")


@pytest.mark.parametrize(("store", "found"), [("", False), ("st.global.b32 [%rd1+8], 1;", True)])
def test_two_loads_of_memory_that_nothing_writes_are_equal(store: str, found: bool) -> None:
    loads = f"ld.param.u64 %rd1, [pointer];\nld.global.b32 %r1, [%rd1];\n{store}\nld.global.b32 %r2, [%rd1];"
    compares = "setp.eq.s32 %p1, %r1, 5;\nsetp.eq.s32 %p2, %r2, 5;\nadd.s32 %r3, %r1, 5;"
    assert met(guarded(f"{loads}\n{compares}\nsetp.gt.s32 %p1, %r1, 3;\nsetp.gt.s32 %p2, %r2, 3;")) is found


def test_a_lane_reads_what_another_one_holds() -> None:
    """The warp number by a shuffle is that of the thread."""
    warp = "mov.u32 %r1, %tid.x;\nshr.u32 %r2, %r1, 5;\nshfl.sync.idx.b32 %r3, %r2, 0, 31, -1;"
    assert not met(guarded(f"{warp}\nsetp.eq.s32 %p1, %r2, 1;\nsetp.eq.s32 %p2, %r3, 1;"))
    lane = "mov.u32 %r1, %tid.x;\nshfl.sync.idx.b32 %r3, %r1, 1, 31, -1;"
    assert met(guarded(f"{lane}\nsetp.eq.s32 %p1, %r1, 0;\nsetp.eq.s32 %p2, %r3, 0;"))
