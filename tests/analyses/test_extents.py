"""Which bytes of shared memory an access may touch in all threads and rounds."""

from __future__ import annotations

import pytest

from tclint.analyses.extents import Extent, Extents
from tests.tools.support import label, model

START = """
    .shared .align 128 .b8 tile[8192];
    .shared .align 128 .b8 other[512];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, tile;
    ld.param.u32 %r9, [number];
    mov.u32 %r2, 0;
    setp.ge.u32 %p0, %r0, 64;
more:
    mov.u32 %r10, 0;
"""
END = """
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r9;
    @%p1 bra more;
    ret;
"""
THREAD = "mad.lo.u32 %r3, %r0, 16, %r1;"
STAGE = "and.b32 %r4, %r2, 3;\nshl.b32 %r4, %r4, 10;\nadd.u32 %r3, %r1, %r4;"


def extent(lines: str) -> Extent | None:
    kernel = model(f"{START}\n{lines}\n{END}")
    (access,) = kernel.shared.accesses(label(kernel.function, "here"))
    return kernel.fact(Extents).of(access)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("here: ld.shared.u32 %r5, [tile+8];", (8, 12, 0)),
        (f"{THREAD}\nhere: ld.shared.v4.b32 {{%r5, %r6, %r7, %r8}}, [%r3];", (0, 2048, 0)),
        # The rows of the last warp end with that of its lane 7.
        (f"{THREAD}\nhere: ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r5}}, [%r3];", (0, 1664, 0)),
        # Half of the threads read.
        (f"{THREAD}\n@!%p0 bra on;\nhere: ld.shared.u32 %r5, [%r3];\non:", (1024, 2036, 0)),
        (f"{STAGE}\nhere: ld.shared.u32 %r5, [%r3+4];", (4, 3080, 1024)),
        # Of 0 to 5, an even number is at most 4; it is subtracted, so the last one comes first.
        (
            (
                "and.b32 %r4, %r2, 6;\nsetp.lt.u32 %p2, %r4, 6;\nselp.b32 %r4, %r4, 0, %p2;\n"
                "shl.b32 %r4, %r4, 6;\nsub.u32 %r3, %r1, %r4;\nhere: ld.shared.u32 %r5, [%r3+4096];"
            ),
            (3840, 4100, 128),
        ),
        # From an address that nothing is known of, but that it stays.
        ("add.u32 %r3, %r1, %r9;\nhere: ld.shared.u32 %r5, [%r3];", (0, 4, 0)),
        # Anywhere in the variable.
        (
            "ld.shared.u32 %r4, [other];\nadd.u32 %r3, %r1, %r4;\nhere: ld.shared.u32 %r5, [%r3];",
            (0, 8192, 0),
        ),
        ("ld.shared.u32 %r3, [tile];\nhere: ld.shared.u32 %r5, [%r3];", None),
    ],
)
def test_all_that_an_access_may_touch(lines: str, expected: tuple[int, int, int] | None) -> None:
    found = extent(lines)
    assert (None if found is None else (found.low, found.high, found.stride)) == expected


ALL = Extent(1, 0, 16, 0, 16, attained=True)
STAGES = Extent(1, 0, 80, 32, 16, attained=True)
"""Three stages of 16 bytes, 32 bytes apart."""


@pytest.mark.parametrize(
    ("a", "b", "inside", "meets"),
    [
        (ALL, ALL, True, True),
        (Extent(1, 4, 8, 0, 4, attained=False), ALL, True, True),
        (Extent(1, 8, 20, 0, 12, attained=True), ALL, False, True),
        (Extent(1, 16, 20, 0, 4, attained=True), ALL, False, False),
        # Two bases may lie anywhere.
        (Extent(2, 4, 8, 0, 4, attained=True), ALL, False, True),
        # An upper bound of what is accessed shows nothing.
        (ALL, ALL._replace(attained=False), False, True),
        # The bytes between two stages belong to something else.
        (Extent(1, 36, 44, 0, 8, attained=True), STAGES, True, True),
        (Extent(1, 20, 24, 0, 4, attained=True), STAGES, False, True),
        (Extent(1, 4, 76, 32, 8, attained=True), STAGES, True, True),
        (Extent(1, 4, 72, 8, 4, attained=True), STAGES, False, True),
    ],
)
def test_two_extents(a: Extent, b: Extent, inside: bool, meets: bool) -> None:
    assert (a.inside(b), a.may_overlap(b), b.may_overlap(a)) == (inside, meets, meets)
