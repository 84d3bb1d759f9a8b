"""Which bytes of shared memory an instruction means: accesses, what they cover, and what they are along a path."""

from __future__ import annotations

import pytest

from tclint.analyses.global_memory import GlobalMemory
from tclint.analyses.model import KernelModel
from tclint.analyses.warp_memory import SharedByWarps
from tclint.isa.target import Target
from tclint.values import thread_masks as T
from tclint.values.addresses import Footprint
from tclint.values.shared_memory import SharedAccess
from tests.tools.support import model, value

START = """
    .shared .align 128 .b8 tile[65536];
    .shared .align 8 .b64 bar;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, tile;
    shl.b32 %r2, %r0, 4;
    add.u32 %r3, %r1, %r2;
    ld.param.u32 %r9, [number];
    setp.ne.b32 %p0, 0, 0;
"""
EVERY = (1 << 128) - 1


def only(line: str, **options: str) -> tuple[KernelModel, tuple[SharedAccess, ...]]:
    """The accesses of one instruction."""
    kernel = model(f"{START}\nhere: {line}\nret;", **options)
    (at,) = [i for i, name in kernel.function.labels.items() if name == "here"]
    return kernel, kernel.shared.accesses(at)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ld.shared.u32 %r4, [%r3+4];", [(False, 4, False)]),
        ("ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r3];", [(False, 16, False)]),
        ("st.shared.v2.b64 [%r3], {%rd0, %rd1};", [(True, 16, False)]),
        ("st.shared.u8 [%r3], %r0;", [(True, 1, False)]),
        ("atom.shared.add.u32 %r4, [%r3], 1;", [(False, 4, False), (True, 4, False)]),
        ("ld.u32 %r4, [%rd0];", [(False, 4, False)]),
        ("ld.global.u32 %r4, [%rd0];", []),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r3];", [(False, 16, False)]),
        ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r4};", [(True, 16, False)]),
        ("cp.async.ca.shared.global [%r3], [%rd0], 8;", [(True, 8, True)]),
        (
            "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd0], 512, [bar];",
            [(True, 512, True)],
        ),
        (
            "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd0], %r9, [bar];",
            [(True, 16, True)],
        ),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 64;", [(False, 64, True)]),
        (
            "tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd0, %rd1, %r4, %p0;",
            [(False, 16, True), (False, 16, True)],
        ),
        (
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r3], %r4, [%r9];",
            [(True, 4, True)],
        ),
        ("red.shared.add.noftz.f16x2 [%r3], %r4;", [(False, 4, False), (True, 4, False)]),
        (
            "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r3], %rd0;",
            [(False, 128, False), (True, 128, False)],
        ),
        ("mbarrier.arrive.shared.b64 _, [bar];", []),
        ("mov.u32 %r4, %r3;", []),
        ("tcgen05.wait::ld.sync.aligned;", []),
    ],
)
def test_accesses(line: str, expected: list[tuple[bool, int, bool]]) -> None:
    _, found = only(line)
    assert [(a.writes, a.size, a.later) for a in found] == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cp.async.ca.shared.global [%r3], [%rd0], 8;", [(False, 8)]),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 64;", [(True, 64)]),
        ("red.async.release.gpu.add.u32 [%rd0], %r4;", [(False, 4), (True, 4)]),
        (
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [tile], 64, [%r9];",
            [],
        ),
        ("st.global.b32 [%rd0], %r4;", []),
    ],
)
def test_accesses_to_global_memory(line: str, expected: list[tuple[bool, int]]) -> None:
    kernel, _ = only(line)
    memory = GlobalMemory(kernel.function, kernel.values)
    assert [(a.writes, a.size) for i in memory.sites for a in memory.accesses(i)] == expected


def test_a_small_ldmatrix_takes_the_rows_of_the_first_lanes() -> None:
    kernel, (access,) = only("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r4, %r5}, [%r3];")
    assert access.lanes == 0xFFFF
    footprint = kernel.shared.footprint(access, EVERY)
    assert footprint is not None
    assert footprint.bytes.bit_count() == 4 * 16 * 16


@pytest.mark.parametrize(
    ("line", "lanes"),
    [
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r3];", 8),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r3];", 32),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r4, %r5}, [%r3];", 16),
        ("ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r4, %r5, %r6, %r7}, [%r3];", 32),
        ("ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.b4x16_p64 {%r4, %r5}, [%r3];", 16),
        ("stmatrix.sync.aligned.m16n8.x2.trans.shared.b8 [%r3], {%r4, %r5};", 16),
    ],
)
def test_the_lanes_with_an_address_are_those_with_a_row(line: str, lanes: int) -> None:
    _, (access,) = only(line)
    assert access.lanes == (1 << lanes) - 1


@pytest.mark.parametrize(("target", "checked"), [("sm_75", 32), ("sm_80", 8)])
def test_all_lanes_hold_valid_addresses_on_sm_75_only(target: str, checked: int) -> None:
    kernel, (access,) = only("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r3];")
    kernel.shared.function.target = Target.parse(target)
    assert kernel.shared.checked(access, T.full(32)) == T.full(checked)


def test_a_thread_whose_address_does_not_count_may_have_any() -> None:
    """The lanes from 8 on have addresses beyond the tile, and that bounds the CTA only where these must be valid."""
    body = """
    .shared .align 128 .b8 tile[128];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, tile;
    and.b32 %r2, %r0, 31;
    shl.b32 %r2, %r2, 4;
    add.u32 %r3, %r1, %r2;
    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r3];
    ret;
    """
    for target, room in (("sm_75", 8), ("sm_80", 1024)):
        kernel = model(body, directives="")
        kernel.function.target = Target.parse(target)
        assert kernel.fact(SharedByWarps).room == T.full(room)


def test_a_lane_whose_address_does_not_count_reads_nothing_of_its_own() -> None:
    kernel, (access,) = only("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r3];")
    assert kernel.shared.overlap_in_one_thread(access, access, 1 << 7)
    assert not kernel.shared.overlap_in_one_thread(access, access, 1 << 8)


def test_a_swizzle_covers_what_its_threads_cover() -> None:
    line = "xor.b32 %r4, %r2, %r9;\nshr.u32 %r5, %r2, 3;\nand.b32 %r5, %r5, 112;\nxor.b32 %r5, %r2, %r5;\nadd.u32 %r5, %r5, %r1;\nst.shared.v4.b32 [%r5], {%r0, %r0, %r0, %r0};"
    kernel = model(f"{START}\n{line}\nend: ret;")
    (access,) = kernel.shared.accesses(kernel.shared.writers[-1])
    assert kernel.shared.footprint(access, EVERY) == Footprint(0, (1 << 2048) - 1)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((0, 4), (3, 4), True),
        ((0, 4), (4, 4), False),
        ((8, 4), (0, 8), False),
        ((8, 4), (0, 9), True),
    ],
)
def test_footprints_meet_where_their_bytes_are_the_same(
    a: tuple[int, int], b: tuple[int, int], expected: bool
) -> None:
    first, second = (Footprint(low, (1 << size) - 1) for low, size in (a, b))
    assert first.overlaps(second) is expected
    assert second.overlaps(first) is expected
    both = first.union(second)
    assert both is not None
    assert both.bytes.bit_count() <= a[1] + b[1]


def test_an_address_that_differs_between_threads_has_no_common_base() -> None:
    kernel, (access,) = only("st.shared.u32 [%r3], %r0;")
    assert kernel.shared.footprint(access, EVERY) is not None
    body = "ld.shared.u32 %r4, [%r3];\nadd.u32 %r5, %r1, %r4;\nst.shared.u32 [%r5], %r0;"
    kernel = model(f"{START}\n{body}\nret;")
    (access,) = kernel.shared.accesses(kernel.shared.writers[-1])
    assert kernel.shared.footprint(access, EVERY) is None
    assert kernel.shared.overlap_in_one_thread(access, access, EVERY)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("mov.u32 %r4, tile;", (0, 0, 128)),
        ("add.u32 %r4, %r1, 24;", (24, 24, 128)),
        ("mov.u32 %r4, bar;\nadd.u32 %r4, %r4, 4;", (4, 4, 8)),
        ("add.u32 %r4, %r3, 8;", (8, 120, 128)),
        ("mov.u32 %r4, %r9;", (0, 0, 1)),
        ("shl.b32 %r4, %r9, 5;\nadd.u32 %r4, %r4, 4;", (4, 4, 32)),
        ("and.b32 %r4, %r9, -64;", (0, 0, 64)),
        ("mapa.shared::cluster.u32 %r5, %r1, %r9;\nadd.u32 %r4, %r5, 20;", (20, 20, 128)),
        ("mapa.shared::cluster.u32 %r4, %r9, 1;", (0, 0, 1)),
        (
            "mov.u32 %r4, %r1;\nloop: add.u32 %r4, %r4, 96;\nsetp.lt.u32 %p1, %r4, %r9;\n@%p1 bra loop;",
            (0, 0, 32),
        ),
    ],
)
def test_remainders(code: str, expected: tuple[int, int, int]) -> None:
    kernel = model(f"{START}\n{code}\nend: ret;")
    assert kernel.shared.remainder(value(kernel, "%r4"), 128, lambda: EVERY) == expected


@pytest.mark.parametrize(
    ("mask", "offset", "same"),
    [
        (0x3FFF0, 64, True),
        (0x3FFC0, 64, True),
        (0x3FF80, 0, True),
        (0x3FF80, 64, False),
        (0x3FFA0, 64, False),
        (0x3FF00, 0, False),
        (0x1FFF0, 0, False),
    ],
)
def test_a_descriptor_starts_where_its_mask_clears_nothing(mask: int, offset: int, same: bool) -> None:
    """The compiler knows how a variable is aligned; what it does not know it may not clear."""
    code = f"""
    mad.lo.u32 %r4, %r9, 8192, %r1;
    add.u32 %r4, %r4, {offset};
    and.b32 %r5, %r4, {mask};
    shr.u32 %r5, %r5, 4;
    cvt.u64.u32 %rd1, %r5;
    or.b64 %rd2, %rd1, 0x4000004000000000;
    """
    kernel = model(f"{START}\n{code}\nend: ret;")
    start = kernel.shared.start(value(kernel, "%rd2"))
    assert (start == value(kernel, "%r4")) is same


ROUNDS = """
    mov.u32 %r4, 0;
    mov.u32 %r5, 0;
loop:
    mad.lo.u32 %r6, %r4, 2048, %r1;
    rem.u32 %r7, %r5, 3;
probe:
    add.u32 %r5, %r5, 1;
    add.u32 %r4, %r4, 1;
    setp.eq.u32 %p1, %r4, 3;
    selp.b32 %r4, 0, %r4, %p1;
    setp.lt.u32 %p2, %r5, %r9;
    @%p2 bra loop;
    ret;
"""


@pytest.mark.parametrize("rounds", range(6))
def test_a_stage_is_a_number_on_a_path(rounds: int) -> None:
    kernel = model(f"{START}{ROUNDS}")
    values, cfg = kernel.values, kernel.cfg
    (enter,) = [e for e in cfg.successors[0] if e.target != 0]
    (back,) = [e for e in cfg.successors[enter.target] if e.target == enter.target]
    along = values.along([enter, *[back] * rounds], frozenset())
    assert along(value(kernel, "%r6", "probe")) == values.add(
        value(kernel, "%r1", "probe"), values.constant(rounds % 3 * 2048)
    )
    assert values.constant_of(along(value(kernel, "%r7", "probe"))) == rounds % 3


def test_what_a_path_loads_anew_is_another_value() -> None:
    kernel = model(f"{START}\nld.shared.u32 %r4, [tile];\nprobe: st.shared.u32 [tile], %r4;\nret;")
    loaded = value(kernel, "%r4", "probe")
    (load,) = [i for i in kernel.shared.sites if i not in kernel.shared.writers]
    assert kernel.values.along([], frozenset())(loaded) == loaded
    assert kernel.values.along([], frozenset((load,)))(loaded) != loaded


def test_bytes_that_are_farther_apart_than_shared_memory_have_no_union() -> None:
    """A shift by 64 bits that wraps makes such offsets; one bit for each byte between them would take gigabytes."""
    assert Footprint(0, 1).union(Footprint(64, 1)) == Footprint(0, 1 | 1 << 64)
    assert Footprint(0, 1).union(Footprint(-7 << 34, 1)) is None
