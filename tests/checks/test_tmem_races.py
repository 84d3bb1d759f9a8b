"""TC025 on small kernels; its page holds the plain cases."""

from __future__ import annotations

import pytest

from tclint.findings.scales import Confidence
from tests.tools.support import by_rule, kernel, lint, module

START = """
    .shared .align 4 .b32 slot;
    .shared .align 8 .b64 full;
    mov.u32 %r0, %tid.x;
    ld.param.u32 %r9, [number];
    ld.param.u64 %rd0, [pointer];
    setp.lt.u32 %p0, %r0, 32;
    @%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
    bar.sync 0;
    ld.shared.b32 %r1, [slot];
    shr.u32 %r2, %r0, 5;
    shl.b32 %r3, %r2, 21;
    and.b32 %r3, %r3, 0x600000;
    add.u32 %r3, %r1, %r3;
    shr.u32 %r4, %r0, 7;
    shl.b32 %r4, %r4, 3;
    add.u32 %r5, %r3, %r4;
    setp.lt.u32 %p1, %r0, 128;
    setp.ne.u32 %p3, %r9, 0;
"""
LOAD = (
    "tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r10, %r11, %r12, %r13}}, [{}];\ntcgen05.wait::ld.sync.aligned;"
)
STORE = "tcgen05.st.sync.aligned.32x32b.x4.b32 [{}], {{%r9, %r9, %r9, %r9}};\ntcgen05.wait::st.sync.aligned;"
USE = "st.global.u32 [%rd0], %r10;"
LAST = "bar.sync 0;\n@%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 64;"
NUMBER = "and.b32 %r20, %r2, 3;\nadd.u32 %r20, %r20, 1;"
"""A barrier of the two warps of a rank."""
HALF = "shr.u32 %r20, %r2, 2;\nadd.u32 %r20, %r20, 1;"
"""A barrier of the four warps of a warpgroup."""


def reused(*body: str, directives: str = ".reqntid 256") -> list[Confidence]:
    text = module(kernel("\n".join((START, *body, USE, LAST, "ret;")), directives=directives))
    return [f.confidence for f in by_rule(lint(text), "TC025")]


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ((LOAD.format("%r3"), STORE.format("%r3")), True),
        ((STORE.format("%r3"), LOAD.format("%r3")), True),
        ((LOAD.format("%r5"), STORE.format("%r3+8")), True),
        ((LOAD.format("%r3"), "bar.sync 0;", STORE.format("%r3")), False),
        ((LOAD.format("%r3"), NUMBER, "bar.sync %r20, 64;", STORE.format("%r3")), False),
        ((LOAD.format("%r3"), HALF, "bar.sync %r20, 128;", STORE.format("%r3")), True),
        ((LOAD.format("%r5"), STORE.format("%r5")), False),
        ((LOAD.format("%r5"), STORE.format("%r5+4")), False),
        ((LOAD.format("%r3"), STORE.format("%r5+16")), False),
        ((STORE.format("%r3"), STORE.format("%r3")), False),
        (
            (
                LOAD.format("%r3"),
                "wait: mbarrier.try_wait.parity.shared.b64 %p2, [full], 0;\n@!%p2 bra wait;",
                STORE.format("%r3"),
            ),
            False,
        ),
    ],
)
def test_two_warps_of_one_rank_access_the_same_columns(body: tuple[str, ...], wrong: bool) -> None:
    assert reused(*body) == [Confidence.HIGH] * wrong


def test_warps_of_one_warpgroup_have_different_lanes() -> None:
    assert not reused(LOAD.format("%r3"), STORE.format("%r3"), directives=".reqntid 128")


def test_a_bound_gives_medium_confidence() -> None:
    assert reused(LOAD.format("%r3"), STORE.format("%r3"), directives=".maxntid 256") == [Confidence.MEDIUM]


def test_a_warp_that_alone_reaches_the_columns_is_not_reported() -> None:
    first = f"@!%p1 bra other;\n{LOAD.format('%r3')}\n{STORE.format('%r3')}\nother:"
    assert not reused(first)
