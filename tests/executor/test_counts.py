"""What accesses to memory cost: wavefronts of shared memory by its banks, sectors of global memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tclint.executor.costs import Count, Kind, sectors
from tclint.executor.costs import wavefronts as of
from tclint.executor.launch import Launch
from tclint.executor.run import Policy, call
from tclint.syntax.source import Source
from tests.tools.execution import REGISTERS
from tests.tools.support import HEADER, kernel, module

Array = Any
EVERY = np.arange(32)


def counts(body: str, block: int = 32, *arrays: Array) -> list[Count]:
    """What each counted instruction of *body* has cost, in order."""
    start = "mov.u32 %r0, %tid.x;\nand.b32 %r1, %r0, 31;\nmov.u32 %r2, smem;\nld.param.u64 %rd0, [data];\n"
    text = module(
        kernel(start + body + "\nret;", parameters=".param .u64 data", registers=REGISTERS, directives=""),
        header=HEADER,
    )
    data = arrays[0] if arrays else np.zeros(4096, np.uint32)
    done = call(
        Source(text.encode(), "k.ptx"), Launch("k", (1, 1, 1), (block, 1, 1)), [data], Policy(counts=True)
    )
    assert done.end == "done", done.reason
    return [count for _, count in sorted(done.counts.items())]


STRIDES = {
    (Kind.LOAD, 4): {1: 1, 2: 2, 3: 1, 4: 4, 8: 8, 16: 16, 32: 32, 33: 1, 0: 1},
    (Kind.LOAD, 8): {2: 2, 4: 4, 8: 8, 16: 16, 32: 32, 34: 2, 0: 1},
    (Kind.LOAD, 16): {4: 4, 8: 8, 16: 16, 32: 32, 36: 4, 0: 2},
    (Kind.STORE, 4): {1: 1, 2: 2, 32: 32, 33: 1, 0: 1},
    (Kind.STORE, 8): {2: 2, 4: 4, 32: 32},
    (Kind.STORE, 16): {4: 4, 8: 8, 36: 4},
    (Kind.ATOMIC, 4): {1: 1, 2: 2, 32: 32, 0: 32},
}
"""What is accessed, and how many bytes of it -> words between two lanes -> cycles that an H200 takes for it."""


@pytest.mark.parametrize(("kind", "size"), STRIDES)
def test_wavefronts_of_strides_are_those_that_were_measured(kind: Kind, size: int) -> None:
    expected = STRIDES[kind, size]
    assert {words: of(EVERY, EVERY * words * 4, size, kind)[0] for words in expected} == expected


@pytest.mark.parametrize(
    ("kind", "size", "expected"),
    [(Kind.LOAD, 8, (1, 1, 2, 2)), (Kind.LOAD, 16, (2, 2, 4, 4)), (Kind.STORE, 16, (4, 4, 4, 4))],
)
def test_lanes_at_one_address_share_a_wavefront_with_neighbours(
    kind: Kind, size: int, expected: tuple[int, ...]
) -> None:
    shared = (EVERY // 2, EVERY // 4 * 2 + EVERY % 2, EVERY // 8 * 4 + EVERY % 4, EVERY % 16)
    assert tuple(of(EVERY, at * size, size, kind)[0] for at in shared) == expected


@pytest.mark.parametrize(
    ("lanes", "offset", "size", "expected"),
    [
        (EVERY, lambda n: n // 2 * 4, 4, 1),
        (EVERY, lambda n: (n // 2 if n < 16 else n) * 16, 16, 4),
        (EVERY[::2], lambda n: n * 4, 4, 1),
        (EVERY[::2], lambda n: n * 4, 8, 1),
        (EVERY[:16], lambda n: n * 8, 8, 1),
    ],
)
def test_loads_of_some_lanes(lanes: Array, offset: Callable[[int], int], size: int, expected: int) -> None:
    assert of(lanes, np.array([offset(n) for n in lanes.tolist()]), size, Kind.LOAD)[0] == expected


@pytest.mark.parametrize("matrices", [1, 4])
def test_rows_of_matrices(matrices: int) -> None:
    lanes = EVERY[: 8 * matrices]
    rows = {16: 1, 32: 2, 64: 4, 128: 8, 144: 1, 0: 1}
    assert {by: of(lanes, lanes * by, 16, Kind.ROWS)[0] // matrices for by in rows} == rows
    for swizzled in (lanes * 128 + lanes % 8 * 16, lanes * 64 + lanes // 2 % 4 * 16):
        assert of(lanes, swizzled, 16, Kind.ROWS) == (matrices, matrices)


@pytest.mark.parametrize(
    ("offset", "size", "kind", "expected"),
    [
        (lambda n: n * 4, 4, Kind.LOAD, (1, 1)),
        (lambda n: n, 1, Kind.LOAD, (1, 1)),
        (lambda n: n * 2 + 512, 2, Kind.STORE, (1, 1)),
        (lambda n: n * 128, 4, Kind.LOAD, (32, 1)),
        (lambda n: 0, 4, Kind.ATOMIC, (32, 1)),
        (lambda n: n // 2 * 128, 4, Kind.LOAD, (16, 1)),
        (lambda n: n * 128 + 64, 16, Kind.STORE, (32, 4)),
    ],
)
def test_conflicts_are_what_exceeds_the_ideal(
    offset: Callable[[int], int], size: int, kind: Kind, expected: tuple[int, int]
) -> None:
    assert of(EVERY, np.array([offset(n) for n in range(32)]), size, kind) == expected


def test_where_a_pattern_begins_does_not_matter_but_for_its_bank() -> None:
    words = EVERY * 8
    assert len({of(EVERY, words + start, 4, Kind.LOAD) for start in range(0, 4096, 4)}) == 1


@pytest.mark.parametrize(
    ("address", "length", "expected"),
    [
        (lambda n: n * 4, 4, (4, 4)),
        (lambda n: n * 4 + 4, 4, (5, 4)),
        (lambda n: n * 32, 4, (32, 4)),
        (lambda n: 0, 4, (1, 1)),
        (lambda n: n * 16, 16, (16, 16)),
        (lambda n: n, 1, (1, 1)),
        (lambda n: n * 8, 4, (8, 4)),
    ],
)
def test_sectors(address: Callable[[int], int], length: int, expected: tuple[int, int]) -> None:
    assert sectors(np.array([address(n) for n in range(32)]), np.full(32, length)) == expected


def test_executions_count_warps_with_an_active_lane() -> None:
    body = """
    shl.b32 %r3, %r1, 2;
    add.u32 %r3, %r2, %r3;
    st.shared.u32 [%r3], %r0;
    setp.lt.u32 %p0, %r0, 40;
    @%p0 ld.shared.u32 %r4, [%r3];
    mov.u32 %r5, 0;
LOOP:
    ld.shared.u32 %r3, [%r3];
    mov.u32 %r3, %r2;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p1, %r5, 3;
    @%p1 bra LOOP;
    """
    store, guarded, looped = counts(body, 96)
    assert (store.executions, guarded.executions, looped.executions) == (3, 2, 9)
    assert (store.wavefronts, guarded.wavefronts, looped.wavefronts) == (3, 2, 9)


def test_a_generic_access_is_counted_where_it_points() -> None:
    body = """
    mad.wide.u32 %rd1, %r0, 128, %rd0;
    ld.u32 %r4, [%rd1];
    shl.b32 %r3, %r1, 7;
    add.u32 %r3, %r2, %r3;
    cvt.u64.u32 %rd2, %r3;
    cvta.shared.u64 %rd2, %rd2;
    st.u32 [%rd2], %r4;
    """
    outside, inside = counts(body)
    assert outside == Count(1, 0, 0, 32, 4)
    assert inside == Count(1, 32, 1, 0, 0)


def test_a_copy_costs_sectors_and_wavefronts_and_reads_nothing_that_is_zero_filled() -> None:
    body = """
    shl.b32 %r3, %r1, 4;
    add.u32 %r3, %r2, %r3;
    mad.wide.u32 %rd1, %r0, 16, %rd0;
    cp.async.cg.shared.global [%r3], [%rd1], 16;
    cp.async.ca.shared.global [%r3], [%rd1], 16, 4;
    cp.async.ca.shared.global [%r3], [%rd1], 16, 0;
    setp.ge.u32 %p0, %r1, 16;
    cp.async.cg.shared.global [%r3], [%rd1], 16, %p0;
    cp.async.wait_all;
    """
    whole, part, none, half = counts(body)
    assert whole == Count(1, 4, 4, 16, 16)
    assert part == Count(1, 4, 4, 16, 4)
    assert none == Count(1, 4, 4, 0, 0)
    assert half == Count(1, 4, 4, 8, 8)


def test_mbarriers_parameters_and_the_async_proxy_are_not_counted() -> None:
    body = """
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared.b64 [bars], 1;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bars], 64;
    cvta.to.global.u64 %rd0, %rd0;
    fence.proxy.async;
    @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [smem], [%rd0], 64, [bars];
    bar.sync 0;
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p1, [bars], 0;
    @!%p1 bra WAIT;
    """
    assert counts(body) == []


def test_nothing_is_counted_unless_asked_for() -> None:
    text = module(
        kernel(
            "mov.u32 %r2, smem;\nld.shared.u32 %r3, [%r2];\nret;",
            parameters="",
            registers=REGISTERS,
            directives="",
        ),
        header=HEADER,
    )
    assert call(Source(text.encode(), "k.ptx"), Launch("k", (1, 1, 1), (32, 1, 1)), []).counts == {}
