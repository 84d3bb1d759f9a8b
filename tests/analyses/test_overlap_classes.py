"""The classes of uses that an operation may overlap, held against a comparison of all pairs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tclint.analyses import overlaps
from tclint.analyses.overlap_classes import Members, SameBase, Uses, may_overlap
from tclint.values.addresses import Footprint
from tclint.values.shared_memory import SharedAccess
from tests.tools.support import kernel, lint, module

BASES = (10, 11, 12, 13)
VARYING = frozenset((12, 13))
ALIASES = frozenset(((12, 11), (11, 12), (12, 13), (13, 12)))
FOOTPRINTS = st.none() | st.builds(Footprint, st.integers(-600, 900), st.integers(1, (1 << 700) - 1))
CLASSES = st.tuples(
    st.dictionaries(st.sampled_from(BASES), FOOTPRINTS, min_size=1), st.integers(0, 7), st.integers(0, 40)
)
SHARED: Any = SimpleNamespace(
    values=SimpleNamespace(varying_at=VARYING.__contains__),
    may_alias=lambda one, other: (one, other) in ALIASES,
)


def members(site: int, footprints: dict[int, Footprint | None], pending: int) -> Members:
    accesses = [SharedAccess(site, False, 0, 4)]
    by_base = {base: SameBase(accesses, True, footprint) for base, footprint in footprints.items()}
    return Members(accesses, pending, by_base)


def overlap(one: Members, other: Members) -> bool:
    return any(
        (first, second) in ALIASES
        if first != second
        else first in VARYING or may_overlap(here.union, there.union, 0)
        for first, here in one.by_base.items()
        for second, there in other.by_base.items()
    )


@given(st.lists(CLASSES, max_size=90), CLASSES, st.integers(0, 40))
def test_the_uses_looked_up_are_those_that_a_comparison_of_all_pairs_finds(
    classes: list[tuple[dict[int, Footprint | None], int, int]],
    operation: tuple[dict[int, Footprint | None], int, int],
    start: int,
) -> None:
    found = [
        members(50 * site + number, footprints, pending)
        for number, (footprints, pending, site) in enumerate(classes)
    ]
    operations = members(0, operation[0], 0)
    uses = Uses(found, SHARED, lambda one, base: one.by_base[base].union)
    overlapping = uses.overlapping(operations, operation[1])
    expected = [one for one in found if one.pending & operation[1] and overlap(operations, one)]
    assert list(overlapping.every().values()) == expected
    assert len(overlapping) >= len(expected)
    inside = [one for one in expected if 50 * start < one.accesses[-1].site < 50 * start + 700]
    assert list(overlapping.between(50 * start, 50 * start + 700)) == sorted(
        inside, key=lambda one: one.accesses[-1].site
    )


COPIES = "".join(
    f"cp.async.cg.shared.global [%r3+{stage * 2048}], [%rd2], 16;\ncp.async.commit_group;\n{between}"
    for stage, between in (
        (0, ""),
        (1, "cp.async.wait_group 1;\nbar.sync 0;\n"),
        (2, "ld.shared.u32 %r4, [%r3+2048];\n"),
    )
)
START = """
    .shared .align 128 .b8 tile[8192];
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    cvta.to.global.u64 %rd2, %rd0;
    mov.u32 %r1, tile;
    shl.b32 %r2, %r0, 4;
    add.u32 %r3, %r1, %r2;
    setp.eq.u32 %p1, %r0, 0;
"""


@pytest.mark.parametrize(
    "body",
    [
        COPIES * 3,
        f"{COPIES}cp.async.wait_group 0;\n{COPIES}",
        COPIES * 2 + "@%p1 st.shared.u32 [%r3+4], %r4;\nst.shared.u32 [%r3+2052], %r4;\n",
        f"L: {COPIES}@%p1 bra L;\n{COPIES}",
        COPIES.replace("cp.async.wait_group 1", "@%p1 cp.async.wait_group 0"),
    ],
)
def test_trying_the_next_use_first_finds_the_same(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = module(kernel(f"{START}{body}cp.async.wait_group 0;\nret;"))

    def found(most: int) -> list[Any]:
        monkeypatch.setattr(overlaps, "LONG", most)
        return list(lint(text).findings)

    assert found(10**6) == found(-1)
    assert found(-1)
