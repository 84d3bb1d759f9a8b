"""Barriers at which a warp arrives twice in one phase by design, as in the epilogues of attention kernels."""

from __future__ import annotations

import pytest

from tclint.findings.finding import Finding
from tclint.findings.scales import Severity
from tests.tools.support import HOPPER, by_rule, kernel, lint, module

WAIT = """{label}:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [{mbarrier}], {parity};
@!%p1 bra {label};
"""

TILES = """
.shared .align 8 .b64 full, empty, stored;
.shared .align 128 .b8 v[1024];
ld.param.u64 %rd0, [pointer];
ld.param.u32 %r9, [number];
mov.u32 %r0, %tid.x;
mov.u32 %r20, v;
mov.u32 %r3, 0;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra ready;
mbarrier.init.shared::cta.b64 [full], 1;
mbarrier.init.shared::cta.b64 [empty], 256;
mbarrier.init.shared::cta.b64 [stored], 1;
ready:
bar.sync 0;
shr.u32 %r1, %r0, 5;
shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;
setp.ge.u32 %p0, %r2, 4;
@%p0 bra consume;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra done;
produce:
and.b32 %r4, %r3, 1;
xor.b32 %r5, %r4, 1;
{held_back}
{empty}
mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 1024;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [v], [%rd0], 1024, [full];
add.u32 %r3, %r3, 1;
setp.lt.u32 %p2, %r3, {tiles};
@%p2 bra produce;
ret;
consume:
and.b32 %r4, %r3, 1;
{full}
mbarrier.arrive.shared::cta.b64 _, [empty];
bar.sync 1, 256;
{publish}
bar.sync {number}, {count};
setp.ne.u32 %p4, %r0, 352;
@%p4 bra next;
mbarrier.arrive.shared::cta.b64 _, [stored];
next:
add.u32 %r3, %r3, 1;
setp.lt.u32 %p2, %r3, {tiles};
@%p2 bra consume;
done:
ret;
"""
"""A copy warp, and two warpgroups that store each tile: warp 11 waits until all eight warps have written it."""

PUBLISH = """bar.arrive {number}, {count};
setp.ne.u32 %p3, %r2, 11;
@%p3 bra next;"""


def tiles(
    number: int = 1,
    count: int = 288,
    tiles: str = "%r9",
    publish: str = PUBLISH,
    held_back: str = WAIT.format(label="hold", mbarrier="stored", parity="%r5"),
) -> list[Finding]:
    body = TILES.format(
        number=number,
        count=count,
        tiles=tiles,
        held_back=held_back,
        empty=WAIT.format(label="free", mbarrier="empty", parity="%r5"),
        full=WAIT.format(label="fill", mbarrier="full", parity="%r4"),
        publish=publish.format(number=number, count=count),
    )
    return found(body, 384)


def found(body: str, threads: int) -> list[Finding]:
    """The findings about barriers in a kernel."""
    report = lint(module(kernel(body, directives=f".reqntid {threads}"), header=HOPPER))
    return [f for rule in ("CV010", "CV011", "CV014", "CV015", "MB016") for f in by_rule(report, rule)]


def test_a_phase_may_count_a_warp_twice() -> None:
    """The mbarrier that the storing warp arrives on last keeps the others from the next tile."""
    assert not tiles()


def test_one_tile_needs_nothing_that_holds_warps_back() -> None:
    assert not tiles(tiles="1", held_back="")


def test_another_number_for_the_other_count_needs_nothing_that_holds_warps_back() -> None:
    assert not tiles(number=3, held_back="")


def test_a_warp_that_runs_ahead_meets_a_phase_with_another_count() -> None:
    """Nothing keeps a warp from the next ``bar.sync 1, 256`` before warp 11 has waited with a count of 288."""
    (finding,) = tiles(held_back="")
    assert (finding.rule.id, finding.severity) == ("CV015", Severity.ERROR)
    assert "counts 288 threads and not 256" in finding.message


@pytest.mark.parametrize("count", [256, 224])
def test_a_count_without_the_second_arrival_is_reported(count: int) -> None:
    (finding,) = tiles(number=3, count=count)
    assert (finding.rule.id, finding.severity) == ("CV015", Severity.WARNING)


def test_a_missing_arrival_is_reported() -> None:
    publish = "setp.eq.u32 %p3, %r2, 11;\n@%p3 bra last;\nbar.arrive {number}, {count};\nbra.uni next;\nlast:"
    (finding,) = tiles(number=3, publish=publish)
    assert "deadlock" in finding.message


EPILOGUE = """
ld.param.u32 %r9, [number];
mov.u32 %r0, %tid.x;
mov.u32 %r3, 0;
{group}
shr.u32 %r1, %r0, 5;
shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;
and.b32 %r4, %r2, 3;
setp.ne.u32 %p0, %r4, 0;
tile:
bar.sync %r6, 128;
@%p0 bra follow;
bar.arrive %r6, {count};
follow:
{wait}
add.u32 %r3, %r3, 1;
setp.lt.u32 %p1, %r3, %r9;
@%p1 bra tile;
ret;
"""
"""Two warpgroups, each with a barrier of its own, at which the first warp of each arrives after it has stored the tile."""

GROUPS = (
    "shr.u32 %r5, %r0, 7;\nadd.u32 %r6, %r5, 1;",
    "shr.u32 %r5, %r0, 7;\nshfl.sync.idx.b32 %r7, %r5, 0, 31, -1;\nadd.u32 %r6, %r7, 1;",
    "bfe.u32 %r6, %r0, 7, 1;\nadd.u32 %r6, %r6, 1;",
)


@pytest.mark.parametrize("group", GROUPS)
def test_each_warpgroup_may_have_a_barrier_at_which_its_leader_arrives_twice(group: str) -> None:
    assert not found(EPILOGUE.format(group=group, count=160, wait="bar.sync %r6, 160;"), 256)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(
    ("count", "wait", "severity"),
    [
        (128, "bar.sync %r6, 128;", Severity.WARNING),
        (160, "@%p0 bar.sync %r6, 160;", Severity.ERROR),
        (160, "bar.arrive %r6, 160;", Severity.ERROR),
    ],
)
def test_faults_of_a_leader_that_arrives_twice(group: str, count: int, wait: str, severity: Severity) -> None:
    hits = found(EPILOGUE.format(group=group, count=count, wait=wait), 256)
    assert {f.severity for f in hits if f.rule.id == "CV015"} == {severity}


@pytest.mark.parametrize(
    ("between", "reported"), [("", True), ("bar.sync 2, 256;", False), ("bar.sync 0;", False)]
)
def test_a_barrier_of_all_warps_between_two_counts(between: str, reported: bool) -> None:
    """On an H200, without one, the first launch ended in an illegal instruction."""
    body = f"""ld.param.u32 %r9, [number];
mov.u32 %r0, %tid.x;
mov.u32 %r3, 0;
tile:
bar.sync 1, 256;
bar.arrive 1, 288;
setp.ge.u32 %p0, %r0, 32;
@%p0 bra next;
bar.sync 1, 288;
next:
{between}
add.u32 %r3, %r3, 1;
setp.lt.u32 %p1, %r3, %r9;
@%p1 bra tile;
ret;
"""
    hits = found(body, 256)
    assert [(f.rule.id, f.severity) for f in hits] == [("CV015", Severity.ERROR)] * reported
