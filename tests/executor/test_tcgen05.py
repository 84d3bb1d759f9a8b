"""Tensor memory and tcgen05.mma, against loops over the elements of the layouts."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tclint.executor.errors import Unsupported
from tclint.executor.tcgen05 import MMA, InstructionDescriptor, Multiplication, Operands
from tclint.executor.tensor_memory import allowed, cells, copy, fragment, reduction, registers, tiles
from tclint.isa.forms import Match
from tclint.isa.table import table
from tclint.values.descriptors import DescriptorForm

Array = NDArray[Any]


def match(opcode: str, *shapes: str) -> Match:
    found = table().match(opcode, shapes)
    assert found is not None
    assert not found.problem, found.problem
    return found


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


# ---------------------------------------------------------------- ld and st

PER_SHAPE = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}


def load_of(shape: str, num: int, modifiers: str = "") -> Match:
    vector = f"v{PER_SHAPE[shape] * num}"
    split = ("i",) if shape == "16x32bx2" else ()
    return match(f"tcgen05.ld.sync.aligned.{shape}.x{num}{modifiers}.b32", vector, "m", *split)


def store_of(shape: str, num: int, modifiers: str = "") -> Match:
    vector = f"v{PER_SHAPE[shape] * num}"
    split = ("i",) if shape == "16x32bx2" else ()
    return match(f"tcgen05.st.sync.aligned.{shape}.x{num}{modifiers}.b32", "m", *split, vector)


SHAPES = [
    (shape, 1 << i) for shape, size in PER_SHAPE.items() for i in range(8) if size << i <= 128
]  # fmt: skip

# (thread, value) -> bit, and the bits of a lane: DstLayout and ValID of SM100_TMEM_LOAD_16dp64b2x and so on in
# CUTLASS, as (shape, stride) of the thread and of the value.
CUTE = [
    ("32x32b", 2, 64, ((32,), (64,)), ((64,), (1,))),
    ("16x64b", 4, 256, ((2, 2, 8), (2048, 32, 256)), ((32, 4), (1, 64))),
    ("16x128b", 2, 256, ((4, 8), (32, 256)), ((32, 2, 2), (1, 2048, 128))),
    ("16x256b", 2, 512, ((4, 8), (64, 512)), ((64, 2, 2), (1, 4096, 256))),
    ("16x32bx2", 2, 128, ((16, 2), (128, 64)), ((64,), (1,))),
]


def crd2idx(index: int, layout: tuple[tuple[int, ...], tuple[int, ...]]) -> int:
    """A CuTe layout: the first mode varies fastest."""
    total = 0
    for size, stride in zip(*layout, strict=True):
        index, coordinate = divmod(index, size)
        total += coordinate * stride
    return total


@pytest.mark.parametrize(("shape", "num", "lane_bits", "threads", "values"), CUTE)
def test_fragments_are_those_of_cutlass(
    shape: str, num: int, lane_bits: int, threads: Any, values: Any
) -> None:
    # There the second half of .16x32bx2 follows the first one.
    lanes, columns = fragment(load_of(shape, num), num)
    packed_lanes, packed_columns = fragment(load_of(shape, num, ".pack::16b"), 2 * num)
    assert lanes.shape == columns.shape == (PER_SHAPE[shape] * num, 32)
    for r, t in np.ndindex(lanes.shape):
        lane, bit = divmod(crd2idx(t, threads) + crd2idx(32 * r, values), lane_bits)
        assert (lanes[r, t], columns[r, t]) == (lane, bit // 32)
        for half in range(2):  # ValID of the variants _16b: 16 bits of every column
            assert packed_lanes[2 * r + half, t] == lane
            assert packed_columns[2 * r + half, t] == bit // 16 + half


@pytest.mark.parametrize(("shape", "num"), SHAPES)
@pytest.mark.parametrize("halves", [False, True])
def test_what_is_stored_is_loaded(shape: str, num: int, halves: bool) -> None:
    store = store_of(shape, num, ".unpack::16b" * halves)
    load = load_of(shape, num, ".pack::16b" * halves)
    lanes, columns = fragment(store, 256)
    tensor = np.zeros((128, 512), np.uint32)
    values = np.random.default_rng(num).integers(0, 1 << 32, (PER_SHAPE[shape] * num, 32), np.uint32)
    tensor[lanes, columns] = cells(store)(values)
    assert len(set(zip(lanes.flat, columns.flat, strict=True))) == lanes.size
    assert lanes.max() == (31 if shape == "32x32b" else 15)
    assert np.array_equal(registers(load)(tensor[fragment(load, 256)]), values)
    if halves:
        assert tensor.max() < 1 << 16


def test_packing_puts_the_lower_column_low() -> None:
    load, store = load_of("32x32b", 2, ".pack::16b"), store_of("32x32b", 2, ".unpack::16b")
    tensor = np.arange(32 * 8, dtype=np.uint32).reshape(32, 8) | 0xABCD0000
    packed = registers(load)(tensor[fragment(load)])
    for r, t in np.ndindex(2, 32):
        assert packed[r, t] == (8 * t + 2 * r) | (8 * t + 2 * r + 1) << 16
    unpacked = cells(store)(packed)
    assert np.array_equal(unpacked, tensor[:, :4].T & 0xFFFF)


def test_warps_access_a_quarter() -> None:
    assert [allowed(w) for w in (0, 3, 5)] == [range(32), range(96, 128), range(32, 64)]


def test_what_no_manual_at_hand_describes_is_refused() -> None:
    newer = "tcgen05.ld.spcompress.sync.aligned.32x32b.x4.sp::2:4.max.f32.b2"
    with pytest.raises(Unsupported, match="spcompress"):
        fragment(match(newer, "v1", "v2", "m"))
    halves = "tcgen05.ld.red.sync.aligned.16x32bx2.x2.max.s32"
    with pytest.raises(Unsupported, match="16x32bx2"):
        reduction(match(halves, "v2", "r", "m", "i"))


SPECIAL = [
    0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x00000001,
    0x80000001, 0x7F7FFFFF, 0xFF7FFFFF,
]  # fmt: skip


def reduced(column: list[int], least: bool, absolute: bool, propagates: bool) -> int:
    """min or max of numbers one by one (9.7.3.11): NaN loses unless .NaN, -0 is less than +0."""
    numbers = [struct.unpack("<f", struct.pack("<I", b & 0x7FFFFFFF if absolute else b))[0] for b in column]
    real = [x for x in numbers if not math.isnan(x)]
    if not real or (propagates and len(real) < len(numbers)):
        return 0x7FFFFFFF
    best = (min if least else max)(real, key=lambda x: (x, math.copysign(1, x)))
    return int(struct.unpack("<I", struct.pack("<f", best))[0])


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("absolute", ["", ".abs"])
@pytest.mark.parametrize("propagates", ["", ".NaN"])
def test_reduction_of_floats(op: str, absolute: str, propagates: str) -> None:
    found = match(f"tcgen05.ld.red.sync.aligned.32x32b.x4.{op}{absolute}{propagates}.f32", "v4", "r", "m")
    reduce = reduction(found)
    rng = np.random.default_rng(1)
    for _ in range(40):
        values = rng.choice(np.array(SPECIAL, np.uint32), (4, 32))
        expected = [reduced(c, op == "min", bool(absolute), bool(propagates)) for c in values.T.tolist()]
        assert reduce(values).tolist() == expected


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("kind", [".u32", ".s32"])
def test_reduction_of_integers(op: str, kind: str) -> None:
    reduce = reduction(match(f"tcgen05.ld.red.sync.aligned.32x32b.x8.{op}{kind}", "v8", "r", "m"))
    values = np.random.default_rng(2).integers(0, 1 << 32, (8, 32), np.uint32)
    for t, column in enumerate(values.T.tolist()):
        numbers = [x - (x >> 31 << 32) for x in column] if kind == ".s32" else column
        assert reduce(values)[t] == (min if op == "min" else max)(numbers) % (1 << 32)


# ---------------------------------------------------------------- cp

START, LEADING, STRIDE = 0x400, 0x2000, 0x100


def descriptor(start: int, leading: int = LEADING, stride: int = STRIDE, swizzle: int = 0) -> int:
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | swizzle << 61


def k_major(row: int, byte: int, start: int = START) -> int:
    """Cores of 8 rows by 16 bytes, no swizzling (9.7.16.3.3)."""
    return start + row % 8 * 16 + row // 8 * STRIDE + byte // 16 * LEADING + byte % 16


COPIES = {
    "128x256b": (128, 8, lambda lane: lane),
    "128x128b": (128, 4, lambda lane: lane),
    "4x256b": (4, 8, lambda lane: None if lane % 32 else lane // 32),
    "32x128b.warpx4": (32, 4, lambda lane: lane % 32),
    "64x128b.warpx2::02_13": (64, 4, lambda lane: (lane // 32 % 2) * 32 + lane % 32),
    "64x128b.warpx2::01_23": (64, 4, lambda lane: (lane // 32 // 2) * 32 + lane % 32),
}


@pytest.mark.parametrize("shape", COPIES)
@pytest.mark.parametrize("form", ["", ".b8x16.b6x16_p32"])
def test_copies(shape: str, form: str) -> None:
    rows, words, source = COPIES[shape]
    how = copy(match(f"tcgen05.cp.cta_group::1.{shape}{form}", "m", "r"))
    shared = np.random.default_rng(3).integers(0, 256, 1 << 16).astype(np.uint8)
    seen: set[int] = set()

    def read(addresses: Array) -> Array:
        seen.update(addresses.ravel().tolist())
        return shared[addresses]

    tensor = np.full((128, 512), 0xDEAD, np.uint32)
    tensor[how.lanes, how.columns] = how(read, descriptor(START))
    for lane in range(128):
        row = source(lane)
        if row is None:
            assert (tensor[lane] == 0xDEAD).all()
            continue
        assert (tensor[lane, words:] == 0xDEAD).all()
        data = bytes(shared[k_major(row, byte)] for byte in range(4 * words))
        if form:  # 16 elements of 6 bits, the first one lowest, and 32 bits of padding
            chunks = [int.from_bytes(data[i : i + 16], "little") for i in range(0, len(data), 16)]
            data = bytes(chunk >> 6 * i & 63 for chunk in chunks for i in range(16))
        assert tensor[lane, :words].tobytes() == data
    touched = {a for start, end in how.intervals(descriptor(START)) for a in range(start, end)}
    assert touched == seen == {k_major(r, b) for r in range(rows) for b in range(4 * words)}


def test_copy_of_four_bits_is_refused() -> None:
    with pytest.raises(Unsupported, match="b4x16_p64"):
        copy(match("tcgen05.cp.cta_group::1.128x128b.b8x16.b4x16_p64", "m", "r"))


# ---------------------------------------------------------------- D


def home(i: int, j: int, m: int, n: int, pair: bool, ws: bool, sparse: bool) -> tuple[int, int, int]:
    """CTA, lane and column of D[i, j] (9.7.16.10.5)."""
    rows = m // 2 if pair else m
    rank, row = divmod(i, rows)
    if rows == 128:
        return rank, row, j  # A, D
    if rows == 32:
        return rank, row + 32 * (j // (n // 4)), j % (n // 4)  # G
    if ws or (pair and not sparse):
        return rank, row + 64 * (j // (n // 2)), j % (n // 2)  # E, B
    return rank, row // 16 * 32 + row % 16, j  # F, C


LAYOUTS = [
    (256, True, False, False), (256, True, False, True), (128, True, False, False), (128, True, False, True),
    (128, False, False, False), (128, False, True, False), (64, False, True, False), (64, False, False, False),
    (64, False, False, True), (32, False, True, True),
]  # fmt: skip


@pytest.mark.parametrize(("m", "pair", "ws", "sparse"), LAYOUTS)
def test_tiles(m: int, pair: bool, ws: bool, sparse: bool) -> None:
    n = 64
    found: dict[tuple[int, int], tuple[int, int, int]] = {}
    for tile in tiles(m, n, pair, ws, sparse):
        assert sorted(tile.lanes.tolist()) == [x for first, end in tile.blocks for x in range(first, end)]
        for (at, i), (column, j) in itertools.product(
            enumerate(range(m)[tile.rows]), enumerate(range(n)[tile.columns])
        ):
            assert (i, j) not in found
            found[i, j] = tile.rank, int(tile.lanes[at]), column
    assert found == {(i, j): home(i, j, m, n, pair, ws, sparse) for i in range(m) for j in range(n)}
    assert len(set(found.values())) == m * n


# ---------------------------------------------------------------- mma

NUMBERS = (0.0, 0.5, 1.0, 2.0)
CODES = {
    "f16": (16, 0, 0x3800, 0x3C00, 0x4000), "bf16": (16, 0, 0x3F00, 0x3F80, 0x4000),
    "tf32": (32, 0, 0x3F000000, 0x3F800000, 0x40000000), "e4m3": (8, 0, 0x30, 0x38, 0x40),
    "e5m2": (8, 0, 0x38, 0x3C, 0x40), "e2m3": (6, 0, 0x04, 0x08, 0x10), "e3m2": (6, 0, 0x08, 0x0C, 0x10),
    "e2m1": (4, 0, 0x1, 0x2, 0x4),
}  # fmt: skip
"""Bits, and the patterns of NUMBERS."""
SCALES = {"ue8m0": {0.5: 126, 1.0: 127, 4.0: 129}, "ue4m3": {0.5: 0x30, 1.0: 0x38, 1.5: 0x3C}}
TYPE = {
    "f16": {"f16": 0, "bf16": 1}, "tf32": {"tf32": 2}, "i8": {"u8": 0, "s8": 1},
    "f8f6f4": {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}, "mxf4": {"e2m1": 1},
}  # fmt: skip
TYPE |= {"mxf8f6f4": TYPE["f8f6f4"], "mxf4nvf4": TYPE["mxf4"]}
CONTAINER = {"f16": 16, "tf32": 32, "i8": 8, "f8f6f4": 8, "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4}


def code(value: float, kind: str) -> int:
    if kind in ("u8", "s8"):
        return int(value) % 256
    width, *patterns = CODES[kind]
    return patterns[NUMBERS.index(abs(value))] | (math.copysign(1, value) < 0) << (width - 1)


def packed(values: Array, kind: str, container: int) -> bytes:
    """Elements as they follow one another in shared memory (9.7.16.10.4)."""
    width = CODES.get(kind, (8,))[0]
    pattern = [code(v, kind) for v in values.tolist()]
    if container == 8 and width < 8:
        chunks = [pattern[i : i + 16] for i in range(0, len(pattern), 16)]
        numbers = [sum(c << width * i for i, c in enumerate(chunk)) for chunk in chunks]
        return b"".join(number.to_bytes(16, "little") for number in numbers)
    return sum(c << width * i for i, c in enumerate(pattern)).to_bytes(len(pattern) * width // 8, "little")


A_AT, B_AT, SCALE_A, SCALE_B, META, A_COLUMN, D_COLUMN = 0x400, 0x8400, 300, 320, 340, 360, 16


@dataclass
class Case:
    """A multiplication with random operands, laid out element by element."""

    kind: str
    m: int
    n: int
    a: str
    b: str
    d: str = "f32"
    pair: bool = False
    ws: bool = False
    sparse: bool = False
    a_tmem: bool = False
    vector: str = ""
    scale: str = ""
    count: int = 0
    ids: tuple[int, int] = (0, 0)
    negate: tuple[bool, bool] = (False, False)
    saturate: bool = False
    lane: int = 0
    selector: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        rng = self.rng = np.random.default_rng(self.seed)
        self.container = CONTAINER[self.kind]
        self.k = 256 // self.container * (1 + self.sparse)
        ctas = self.ctas = 1 + self.pair
        self.seen: list[set[int]] = [set() for _ in range(ctas)]
        self.shared = [rng.integers(0, 256, 1 << 16).astype(np.uint8) for _ in range(ctas)]
        self.tensor = [rng.integers(0, 1 << 32, (128, 512), np.uint32) for _ in range(ctas)]
        self.stored, self.dense = self._random_a()
        self.raw_b = self.matrix_b = self._random(self.b, (self.k, self.n))
        for row in range(self.n):
            rank, local = divmod(row, self.n // ctas)
            self._write(rank, B_AT, local, packed(self.matrix_b[:, row], self.b, self.container))
        for i in range(self.m):
            rank, local = divmod(i, self.m // ctas)
            data = packed(self.stored[i], self.a, self.container)
            if not self.a_tmem:
                self._write(rank, A_AT, local, data)
        if self.a_tmem:
            self._a_in_tmem()
        if self.scale:
            self._scale()
        self.before = rng.integers(-40, 40, (self.m, self.n)).astype(np.float64)
        if self.d == "s32":  # so that sums leave it
            self.before = rng.choice((-(2.0**31), 0.0, 2.0**31 - 1), self.before.shape)
        for i, j in np.ndindex(self.m, self.n):
            rank, lane, column = self.home(i, j)
            self.tensor[rank][lane, column] = self._word(self.before[i, j])

    def home(self, i: int, j: int) -> tuple[int, int, int]:
        rank, lane, column = home(i, j, self.m, self.n, self.pair, self.ws, self.sparse)
        return rank, lane + self.lane, column + D_COLUMN

    def _copies(self, i: int) -> set[tuple[int, int]]:
        """The CTA and the lanes that take part in row i of D."""
        return {self.home(i, j)[:2] for j in range(self.n)}

    def _word(self, value: float) -> int:
        if self.d == "f16":
            # The upper half of a cell is unused.
            return int(np.float16(value).view(np.uint16)) | 0xABCD0000
        return int(value) % (1 << 32) if self.d == "s32" else int(np.float32(value).view(np.uint32))

    def _random(self, kind: str, shape: tuple[int, ...]) -> Array:
        if kind in ("u8", "s8"):
            return self.rng.integers(*((0, 256) if kind == "u8" else (-128, 128)), shape).astype(np.float64)
        return self.rng.choice(np.array(NUMBERS), shape) * self.rng.choice((-1.0, 1.0), shape)

    def _random_a(self) -> tuple[Array, Array]:
        if not self.sparse:
            dense = self._random(self.a, (self.m, self.k))
            return dense, dense
        stored = self._random(self.a, (self.m, self.k // 2))
        dense = np.zeros((self.m, self.k))
        unit = 2 if self.container == 4 else 1
        for i in range(self.m):
            at = 0
            for chunk in range(8 if self.container > 8 else 16):
                if self.container == 32:
                    place = int(self.rng.integers(2))
                    nibble, taken = (0b1110 if place else 0b0100), [2 * chunk + place]
                else:
                    first, second = sorted(self.rng.choice(4, 2, replace=False).tolist())
                    nibble = first | second << 2
                    taken = [unit * (4 * chunk + p) + u for p in (first, second) for u in range(unit)]
                self._metadata(i, chunk, nibble)
                for where in taken:
                    dense[i, where] = stored[i, at]
                    at += 1
        return stored, dense

    def _metadata(self, i: int, chunk: int, nibble: int) -> None:
        """CUTLASS: ((8,2,8),(16,2)):((1,2048,16),(128,8)) of 16 bits, (128,64):(1,128) of 8 bits and fewer."""
        r = i % (self.m // self.ctas)
        for rank, lane in self._copies(i):
            if self.container > 8:
                lane, column = lane - r % 16 + r % 8 + chunk // 4 * 8, META + self.selector
                shift = r // 8 % 2 * 16 + chunk % 4 * 4
            else:
                column, shift = META + chunk // 8, chunk % 8 * 4
            word = int(self.tensor[rank][lane, column]) & ~(15 << shift)
            self.tensor[rank][lane, column] = word | nibble << shift

    def _write(self, rank: int, start: int, row: int, data: bytes) -> None:
        for byte, value in enumerate(data):
            self.shared[rank][k_major(row, byte, start)] = value

    def _a_in_tmem(self) -> None:
        for i in range(self.m):
            codes = [code(v, self.a) for v in self.stored[i].tolist()]
            if self.kind in ("f8f6f4", "mxf8f6f4") and self.a == "e2m1":
                codes = [c << 2 for c in codes]
            number = sum(c << self.container * at for at, c in enumerate(codes))
            for rank, lane in self._copies(i):
                self.tensor[rank][lane, A_COLUMN : A_COLUMN + 8] = np.frombuffer(
                    number.to_bytes(32, "little"), np.uint32
                )

    def _scale(self) -> None:
        choices = SCALES[self.scale]
        of_a, of_b = (self.rng.choice(list(choices), (size, self.count)) for size in (self.m, self.n))
        for index in np.ndindex(self.count):
            s = index[0]
            for i in range(self.m):
                rank, r = divmod(i, self.m // self.ctas)
                for lane in range(r % 32, 128, 32):
                    self._byte(rank, lane, SCALE_A + r // 32, self.ids[0] + s, choices[of_a[i, s]])
            for j in range(self.n):
                for rank in range(self.ctas):
                    if self.m // self.ctas == 128:
                        for lane in range(j % 32, 128, 32):
                            self._byte(rank, lane, SCALE_B + j // 32, self.ids[1] + s, choices[of_b[j, s]])
                    else:  # the upper 64 lanes compute the upper half of N (ScaleFactorDuplicated2by2)
                        half, c = divmod(j, self.n // 2)
                        for lane in (64 * half + c % 32, 64 * half + 32 + c % 32):
                            self._byte(rank, lane, SCALE_B + c // 32, self.ids[1] + s, choices[of_b[j, s]])
        block = self.k // self.count
        self.dense = self.dense * np.repeat(of_a, block, axis=1)
        self.matrix_b = self.matrix_b * np.repeat(of_b, block, axis=1).T

    def _byte(self, rank: int, lane: int, column: int, byte: int, value: int) -> None:
        word = int(self.tensor[rank][lane, column]) & ~(255 << 8 * byte)
        self.tensor[rank][lane, column] = word | value << 8 * byte

    # ------------------------------------------------------------ the context

    def read(self, rank: int, addresses: Array) -> Array:
        self.seen[rank].update(addresses.ravel().tolist())
        return self.shared[rank][addresses]

    def tmem(self, rank: int) -> Array:
        return self.tensor[rank]

    # ------------------------------------------------------------ running it

    @property
    def idesc(self) -> int:
        idesc = (
            self.selector
            | self.sparse << 2
            | self.saturate << 3
            | self.negate[0] << 13
            | self.negate[1] << 14
        )
        idesc |= TYPE[self.kind][self.a] << 7 | TYPE[self.kind][self.b] << 10 | self.n >> 3 << 17
        if self.scale:
            return (
                idesc
                | self.ids[1] << 4
                | (self.scale == "ue8m0") << 23
                | self.m >> 7 << 27
                | self.ids[0] << 29
            )
        return idesc | {"f16": 0, "f32": 1, "s32": 2}[self.d] << 4 | self.m >> 4 << 24

    @property
    def instruction(self) -> Multiplication:
        name = "tcgen05.mma" + ".ws" * self.ws + ".sp" * self.sparse
        opcode = f"{name}.cta_group::{self.ctas}.kind::{self.kind}"
        shapes = ["m", "m" if self.a_tmem else "r", "r"] + ["m"] * self.sparse + ["r"]
        if self.scale:
            opcode += ".block_scale" + self.vector
            shapes += ["m", "m"]
        found = match(opcode, *shapes, "r")
        return MMA[found.form.name](found)

    @property
    def operands(self) -> Operands:
        lane = self.lane << 16
        return Operands(
            d_tmem=lane | D_COLUMN,
            a=lane | A_COLUMN if self.a_tmem else descriptor(A_AT),
            b_desc=descriptor(B_AT),
            idesc=self.idesc,
            enable_input_d=True,
            scale_a_tmem=SCALE_A,
            scale_b_tmem=SCALE_B,
            sp_meta_tmem=lane | META,
        )

    def product(self) -> Array:
        sign = -1 if self.negate[0] != self.negate[1] else 1
        product: Array = sign * (self.dense @ self.matrix_b)
        return product

    def result(self) -> Array:
        """D as it is in tensor memory."""
        found = np.zeros((self.m, self.n))
        for i, j in np.ndindex(found.shape):
            rank, lane, column = self.home(i, j)
            word = self.tensor[rank][lane, column]
            if self.d == "f16":
                found[i, j] = word.astype(np.uint16).view(np.float16)
            else:
                found[i, j] = word.view(np.int32 if self.d == "s32" else np.float32)
        return found


def spelled(kind: str, m: int, n: int, a: str, b: str, **rest: Any) -> dict[str, Any]:
    return {"kind": kind, "m": m, "n": n, "a": a, "b": b, **rest}


CASES = {
    "f16": spelled("f16", 128, 64, "f16", "f16"),
    "bf16, M = 64": spelled("f16", 64, 24, "bf16", "bf16"),
    "M = 64 in upper lanes": spelled("f16", 64, 16, "f16", "bf16", lane=16),
    "D of f16": spelled("f16", 128, 16, "f16", "f16", d="f16"),
    "negated": spelled("f16", 128, 16, "f16", "f16", negate=(True, False)),
    "both negated": spelled("tf32", 128, 16, "tf32", "tf32", negate=(True, True)),
    "pair": spelled("f16", 256, 32, "bf16", "bf16", pair=True),
    "pair, M = 128": spelled("f16", 128, 64, "f16", "f16", pair=True),
    "tf32": spelled("tf32", 128, 32, "tf32", "tf32"),
    "f8": spelled("f8f6f4", 128, 32, "e4m3", "e5m2"),
    "f6 and f4": spelled("f8f6f4", 128, 32, "e2m3", "e2m1"),
    "f4 and f6, D of f16": spelled("f8f6f4", 64, 32, "e2m1", "e3m2", d="f16"),
    "f8, pair": spelled("f8f6f4", 256, 32, "e4m3", "e4m3", pair=True),
    "i8": spelled("i8", 128, 32, "s8", "u8", d="s32"),
    "i8, saturated": spelled("i8", 64, 32, "u8", "s8", d="s32", saturate=True),
    "i8, pair": spelled("i8", 128, 32, "s8", "s8", d="s32", pair=True),
    "A in tmem, f16": spelled("f16", 128, 16, "f16", "f16", a_tmem=True),
    "A in tmem, M = 64": spelled("f16", 64, 16, "bf16", "f16", a_tmem=True, lane=16),
    "A in tmem, pair": spelled("f16", 256, 16, "f16", "f16", a_tmem=True, pair=True),
    "A in tmem, copied": spelled("f16", 128, 32, "f16", "f16", a_tmem=True, pair=True),
    "A in tmem, tf32": spelled("tf32", 128, 16, "tf32", "tf32", a_tmem=True),
    "A in tmem, f8": spelled("f8f6f4", 128, 16, "e5m2", "e4m3", a_tmem=True),
    "A in tmem, f6": spelled("f8f6f4", 128, 16, "e3m2", "e4m3", a_tmem=True),
    "A in tmem, f4": spelled("f8f6f4", 128, 16, "e2m1", "e4m3", a_tmem=True),
    "A in tmem, i8": spelled("i8", 128, 16, "s8", "s8", d="s32", a_tmem=True),
    "mxf8": spelled("mxf8f6f4", 128, 40, "e4m3", "e4m3", scale="ue8m0", count=1, ids=(1, 3)),
    "mxf8, pair": spelled("mxf8f6f4", 256, 64, "e4m3", "e2m1", scale="ue8m0", count=1, pair=True, ids=(3, 2)),
    "mxf8, pair, M = 128": spelled("mxf8f6f4", 128, 128, "e4m3", "e5m2", scale="ue8m0", count=1, pair=True),
    "mxf8, A in tmem": spelled(
        "mxf8f6f4", 128, 16, "e2m3", "e4m3", scale="ue8m0", count=1, a_tmem=True, vector=".block32"
    ),
    "mxf4": spelled("mxf4", 128, 72, "e2m1", "e2m1", scale="ue8m0", count=2, ids=(2, 0)),
    "mxf4, pair": spelled(
        "mxf4", 256, 32, "e2m1", "e2m1", scale="ue8m0", count=2, pair=True, vector=".block32"
    ),
    "nvf4": spelled("mxf4nvf4", 128, 32, "e2m1", "e2m1", scale="ue4m3", count=4, vector=".block16"),
    "nvf4, exponents": spelled(
        "mxf4nvf4", 128, 16, "e2m1", "e2m1", scale="ue8m0", count=4, vector=".scale_vec::4X"
    ),
    "nvf4, pair, M = 128": spelled(
        "mxf4nvf4", 128, 64, "e2m1", "e2m1", scale="ue4m3", count=4, vector=".scale_vec::4X", pair=True
    ),
    "nvf4, A in tmem": spelled(
        "mxf4nvf4", 128, 16, "e2m1", "e2m1", scale="ue8m0", count=2, vector=".block32", a_tmem=True
    ),
    "sparse": spelled("f16", 128, 16, "f16", "f16", sparse=True),
    "sparse, M = 64": spelled("f16", 64, 16, "bf16", "bf16", sparse=True, lane=16),
    "sparse, pair": spelled("f16", 256, 32, "f16", "f16", sparse=True, pair=True),
    "sparse, selected": spelled("f16", 128, 16, "f16", "f16", sparse=True, selector=1),
    "sparse, pair, M = 128": spelled("f16", 128, 32, "f16", "f16", sparse=True, pair=True),
    "sparse, A in tmem": spelled("f16", 128, 16, "f16", "f16", sparse=True, a_tmem=True),
    "sparse tf32": spelled("tf32", 128, 16, "tf32", "tf32", sparse=True),
    "sparse f8": spelled("f8f6f4", 64, 16, "e4m3", "e2m1", sparse=True),
    "sparse i8": spelled("i8", 128, 16, "s8", "s8", d="s32", sparse=True),
    "sparse mxf8": spelled("mxf8f6f4", 128, 16, "e4m3", "e4m3", sparse=True, scale="ue8m0", count=1),
    "sparse nvf4": spelled(
        "mxf4nvf4", 128, 16, "e2m1", "e2m1", sparse=True, scale="ue4m3", count=4, vector=".block16"
    ),
    "ws": spelled("f16", 128, 64, "f16", "f16", ws=True),
    "ws, M = 64": spelled("f8f6f4", 64, 64, "e4m3", "e4m3", ws=True),
    "ws, M = 32": spelled("tf32", 32, 64, "tf32", "tf32", ws=True),
    "ws, A in tmem": spelled("f16", 128, 64, "f16", "f16", ws=True, a_tmem=True),
    "ws, sparse": spelled("f16", 64, 64, "f16", "f16", ws=True, sparse=True),
}


def fresh(name: str, **changes: Any) -> Case:
    return Case(**{**CASES[name], **changes})


def rounded(case: Case, exact: Array) -> Array:
    if case.d == "s32":
        if case.saturate:
            return np.clip(exact, -(2.0**31), 2.0**31 - 1)
        return (exact + 2.0**31) % 2.0**32 - 2.0**31
    return exact.astype(np.float16 if case.d == "f16" else np.float32).astype(np.float64)


@pytest.mark.parametrize("name", CASES)
def test_products(name: str) -> None:
    case = fresh(name)
    before = [t.copy() for t in case.tensor]
    ranges = case.instruction.ranges(case.operands)
    case.instruction(case, case.operands)
    exact = case.product() + case.before
    assert np.array_equal(case.result(), rounded(case, exact))
    if case.d == "s32":
        assert (np.abs(exact) >= 2.0**31).any()

    # It touches what it says, in every CTA of its group.
    shared = {a for start, end in ranges.shared for a in range(start, end)}
    assert all(seen == shared for seen in case.seen)
    written = np.zeros((128, 512), bool)
    for lane, lane_end, column, column_end in ranges.writes:
        written[lane:lane_end, column:column_end] = True
    homes = np.zeros((128, 512), bool)
    for i, j in np.ndindex(case.m, case.n):
        homes[case.home(i, j)[1:]] = True
    assert np.array_equal(written, homes)
    for now, then in zip(case.tensor, before, strict=True):
        assert (now == then)[~written].all()
    again = fresh(name)
    for tensor in again.tensor:
        other = case.rng.integers(0, 1 << 32, tensor.shape, np.uint32)
        for lane, lane_end, column, column_end in ranges.reads:
            other[lane:lane_end, column:column_end] = tensor[lane:lane_end, column:column_end]
        tensor[:] = other
    again.instruction(again, again.operands)
    assert np.array_equal(again.result(), case.result())


@pytest.mark.parametrize("name", ["f16", "i8", "pair, M = 128", "mxf8", "D of f16"])
def test_d_need_not_be_an_input(name: str) -> None:
    case = fresh(name)
    operands = replace(case.operands, enable_input_d=False)
    ranges = case.instruction.ranges(operands)
    assert not set(ranges.reads) & set(ranges.writes)
    case.instruction(case, operands)
    assert np.array_equal(case.result(), rounded(case, case.product()))


@pytest.mark.parametrize("name", ["f16", "pair", "bf16, M = 64"])
def test_disabled_lanes_stay(name: str) -> None:
    case = fresh(name)
    masks = case.rng.integers(0, 1 << 32, 4 * case.ctas).tolist()
    case.instruction(case, replace(case.operands, disable_output_lane=tuple(masks)))
    expected = case.product() + case.before
    for i in range(case.m):
        rank, lane, _ = case.home(i, 0)
        bit = 128 * rank + lane
        if masks[bit // 32] >> bit % 32 & 1:
            expected[i] = case.before[i]
    assert np.array_equal(case.result(), expected)


def test_d_is_scaled() -> None:
    case = fresh("tf32")
    case.instruction(case, replace(case.operands, scale_input_d=3))
    assert np.array_equal(case.result(), case.product() + case.before / 8)
    case = fresh("i8")
    with pytest.raises(Unsupported, match="scale-input-d"):
        case.instruction(case, replace(case.operands, scale_input_d=3))


@pytest.mark.parametrize(
    ("d", "a", "b", "expected"),
    [
        # 1 + 2^-24 + 2^-48, where a sum in float32 would fall back to 1.
        ("f32", (0x3C00, 0x0C00, 0x0001), (0x3C00, 0x0C00, 0x0001), 1 + 2.0**-23),
        # 1 + 2^-11 + 2^-25, where a step through float32 would.
        ("f16", (0x3C00, 0x2800, 0x0C00), (0x3C00, 0x2400, 0x0800), 1 + 2.0**-10),
    ],
)
def test_rounded_once(d: str, a: tuple[int, ...], b: tuple[int, ...], expected: float) -> None:
    case = fresh("f16", n=8, d=d)
    case.shared[0][:] = 0
    for start, row in ((A_AT, a), (B_AT, b)):
        case._write(0, start, 0, struct.pack("<3H", *row))
    case.instruction(case, replace(case.operands, enable_input_d=False))
    assert case.result()[0, 0] == expected


def test_infinity_beside_a_left_out_element() -> None:
    case = fresh("sparse")
    unused = next(k for k in range(case.k) if case.dense[0, k] == 0 and (case.dense[1:, k] != 0).any())
    for byte, value in enumerate(b"\x00\x7c"):  # B[unused, 0] is infinite
        case.shared[0][k_major(0, 2 * unused + byte, B_AT)] = value
    kept = fresh("sparse")
    case.instruction(case, case.operands)
    kept.instruction(kept, kept.operands)
    taken = case.dense[:, unused] != 0
    assert not np.isfinite(case.result()[taken, 0]).any()
    for i in range(case.m):  # rows that hold a zero there take part, those that hold nothing do not
        if np.isfinite(case.result()[i, 0]):
            assert case.result()[i, 0] == kept.result()[i, 0]
    assert np.isfinite(case.result()[0, 0])


def test_transposed_and_swizzled_operands() -> None:
    case = fresh("f16")
    leading, stride = 0x2000, 0x400
    for start, values in ((0x2000, case.dense.T), (0xA000, case.matrix_b)):
        for k, row in np.ndindex(values.shape):
            at = start + row // 64 * leading + row % 64 * 2 + k // 8 * stride + k % 8 * 128
            for byte in range(2):
                place = at + byte
                place ^= (place >> 7 & 7) << 4
                case.shared[0][place] = code(values[k, row], "f16") >> 8 * byte & 255
    operands = replace(
        case.operands,
        a=descriptor(0x2000, leading, stride, 2),
        b_desc=descriptor(0xA000, leading, stride, 2),
        idesc=case.idesc | 1 << 15 | 1 << 16,
    )
    case.instruction(case, operands)
    assert np.array_equal(case.result(), case.product() + case.before)


def test_transposed_elements_of_four_bits() -> None:
    case = fresh("mxf8", b="e2m1", n=48)
    leading, stride, start = 0x100, 0x800, 0x8400
    for k, j in itertools.product(range(case.k), range(0, case.n, 16)):
        data = packed(case.raw_b[k, j : j + 16], "e2m1", 8)
        at = start + j // 16 * stride + k // 8 * leading + k % 8 * 16
        case.shared[0][at : at + 16] = np.frombuffer(data, np.uint8)
    operands = replace(case.operands, b_desc=descriptor(start, leading, stride), idesc=case.idesc | 1 << 16)
    case.instruction(case, operands)
    assert np.array_equal(case.result(), case.product() + case.before)


# ---------------------------------------------------------------- descriptors, and what is refused


def test_fields_of_the_instruction_descriptor() -> None:
    idesc = 1 << 2 | 1 | 1 << 4 | 1 << 7 | 1 << 14 | 1 << 16 | (96 >> 3) << 17 | (128 >> 4) << 24
    read = InstructionDescriptor.parse(idesc, DescriptorForm(".kind::f16", sparse=True))
    assert (read.m, read.n, read.k, read.a, read.b, read.d) == (128, 96, 32, "bf16", "f16", "f32")
    assert (read.negate_a, read.negate_b, read.major_a, read.major_b) == (False, True, "K", "MN")
    assert (read.selector, read.saturate, read.scale) == (1, False, "")
    idesc = 2 << 4 | 1 << 7 | 1 << 10 | (64 >> 3) << 17 | 1 << 23 | (256 >> 7) << 27 | 2 << 29
    read = InstructionDescriptor.parse(idesc, DescriptorForm(".kind::mxf4", pair=True))
    assert (read.m, read.n, read.k, read.scale, read.scales) == (256, 64, 64, "ue8m0", 2)
    assert (read.scale_a_id, read.scale_b_id, read.d) == (2, 2, "f32")


def test_what_the_tables_forbid_is_refused() -> None:
    good = fresh("f16").idesc
    form = DescriptorForm(".kind::f16")
    assert InstructionDescriptor.parse(good, form).k == 16
    for bad in (good | 1 << 29, good | 3 << 7, good | 1 << 2, good & ~(31 << 24), good | 1 << 23):
        with pytest.raises(Unsupported, match="instruction descriptor"):
            InstructionDescriptor.parse(bad, form)
    case = fresh("nvf4")
    with pytest.raises(Unsupported, match="K = 96"):
        case.instruction.ranges(replace(case.operands, idesc=case.idesc | 1 << 31))


def test_what_cannot_be_done_is_refused() -> None:
    shifted = match("tcgen05.mma.cta_group::1.kind::f16.ashift", "m", "m", "r", "r", "r")
    with pytest.raises(Unsupported, match="ashift"):
        MMA[shifted.form.name](shifted)
    case = fresh("ws")
    with pytest.raises(Unsupported, match="zero-column"):
        case.instruction(case, replace(case.operands, zero_column_mask_desc=1 << 39))
    case = fresh("ws, A in tmem", m=64)
    with pytest.raises(Unsupported, match="64 rows"):
        case.instruction(case, case.operands)
    case = fresh("A in tmem, f16")
    with pytest.raises(Unsupported, match="transposed"):
        case.instruction(case, replace(case.operands, idesc=case.idesc | 1 << 15))
    case = fresh("sparse")
    with pytest.raises(Unsupported, match="selector 2"):
        case.instruction(case, replace(case.operands, idesc=case.idesc | 2))


def test_every_form_has_its_multiplication() -> None:
    assert set(MMA) == {form.name for form in table() if form.name.startswith("tcgen05.mma")}
