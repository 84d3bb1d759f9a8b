"""``tcgen05.mma``: instruction descriptors and the multiplication (PTX ISA 9.7.16.4.2, 9.7.16.10).

Products and sums are computed in float64 and rounded once to the type of D; the manual does not specify how a GPU
rounds.

Layouts that the manual gives only as figures follow CUTLASS: the accumulator and A in tensor memory ``tmem_frg``, scale
factors ``tmem_sf_frg`` and metadata ``tmem_e_frg`` of cute/atom/mma_traits_sm100.hpp. The packing of elements of 4 and
6 bits in shared memory, and that of metadata, also agrees with what the probes of the public repository
sf-tensor/tcgen05 found on a B200.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Literal, Protocol

import numpy as np

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.executor.descriptors import Array, Major, Matrix, Read, intervals, load, unpack
from tclint.executor.errors import Unsupported
from tclint.executor.formats import decode
from tclint.executor.tensor_memory import Tile, tiles
from tclint.isa.effects import TCGEN05
from tclint.isa.forms import Match
from tclint.values.descriptors import INSTRUCTION, DescriptorForm, instruction_fields

__all__ = ["MMA", "InstructionDescriptor", "MmaCtas", "Multiplication", "Operands", "Ranges", "Rectangle"]

_NARROW = (8, {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"})
_FOUR_BITS = (4, {1: "e2m1"})
_TYPES: dict[str, tuple[int, dict[int, str]]] = {
    ".kind::f16": (16, {0: "f16", 1: "bf16"}),
    ".kind::tf32": (32, {2: "tf32"}),
    ".kind::f8f6f4": _NARROW,
    ".kind::mxf8f6f4": _NARROW,
    ".kind::i8": (8, {0: "u8", 1: "s8"}),
    ".kind::mxf4": _FOUR_BITS,
    ".kind::mxf4nvf4": _FOUR_BITS,
}
"""By kind, the bits that an element of A and B occupies, and the types by their code (tables 42 to 44)."""
_D = ("f16", "f32", "s32")
_BITS = {"e2m3": 6, "e3m2": 6, "e2m1": 4}
"""The width of the formats narrower than 8 bits."""


@dataclass(frozen=True, slots=True)
class InstructionDescriptor:
    """The fields of an instruction descriptor (9.7.16.4.2)."""

    m: int
    n: int
    k: int
    """Determined by the kind and the sparsity (table 39)."""
    bits: int
    """Bits that an element of A or B occupies in memory; a narrower format has padding after or around it."""
    a: str
    b: str
    d: str
    """Types: ``"f16"``, ``"e4m3"``, ``"s8"``, ..., and ``"f32"`` or ``"s32"`` for D."""
    negate_a: bool
    negate_b: bool
    major_a: Major
    major_b: Major
    selector: int
    """The sparsity selector."""
    saturate: bool
    scale: Literal["", "ue8m0", "ue4m3"]
    """The type of the scale factors; empty without block scaling."""
    scales: int
    """Scale factors per row of A and per column of B: the N of ``.scale_vec::NX``; 0 without block scaling."""
    scale_a_id: int
    scale_b_id: int

    def matrix_a(self, rows: int, columns: int) -> Matrix:
        """*rows* of A in shared memory, with that many *columns* stored."""
        return Matrix(rows, columns, self.bits, self.major_a, TCGEN05, self._padded(self.a))

    def matrix_b(self, rows: int) -> Matrix:
        """*rows* of B transposed in shared memory."""
        return Matrix(rows, self.k, self.bits, self.major_b, TCGEN05, self._padded(self.b))

    def _padded(self, kind: str) -> int:
        return _BITS.get(kind, 0) if self.bits == 8 else 0

    @staticmethod
    @lru_cache(256)
    def parse(idesc: int, form: DescriptorForm) -> InstructionDescriptor:
        """Decode the 32 bits *idesc*. Raises :class:`Unsupported` for a value that the tables of the manual exclude."""
        known = (~idesc, idesc)
        for field in instruction_fields(form, known):
            if field.wrong(known):
                raise Unsupported(
                    f"{form}: {field.name} in {field.where()} of its instruction descriptor {idesc:#x}"
                )
        fields = INSTRUCTION[form.kind]

        def value(name: str) -> int:
            return fields[name].read(known) or 0 if name in fields else 0

        if value("K"):
            raise Unsupported(f"{form} with K = 96")
        bits, types = _TYPES[form.kind]
        fine = form.vector in (".scale_vec::4X", ".block16")
        return InstructionDescriptor(
            m=value("M"),
            n=value("N"),
            k=256 // bits << form.sparse,
            bits=bits,
            a=types[value("type of A")],
            b=types[value("type of B")],
            d="f32" if form.scaled else _D[value("type of D")],
            negate_a=bool(value("negation of A")),
            negate_b=bool(value("negation of B")),
            major_a="MN" if value("transposition of A") else "K",
            major_b="MN" if value("transposition of B") else "K",
            selector=value("sparsity selector"),
            saturate=bool(value("saturation")),
            scale="" if not form.scaled else "ue8m0" if value("scale type") else "ue4m3",
            scales=0 if not form.scaled else 1 if bits == 8 else 4 if fine else 2,
            scale_a_id=value("scale factor id of A"),
            scale_b_id=value("scale factor id of B"),
        )


class MmaCtas(Protocol):
    """The CTAs that execute a multiplication: one of rank 0, or a pair in which the even one has rank 0."""

    def read(self, rank: int, addresses: Array) -> Array:
        """The bytes at int64 *addresses* in the shared window of a CTA: uint8 of the same shape."""

    def tmem(self, rank: int) -> Array:
        """The tensor memory of a CTA: uint32 (128, 512), modified in place."""


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of a multiplication, by their names in the syntax; an absent one is zero."""

    d_tmem: int
    a: int
    """``a-desc``, or the address ``a-tmem``."""
    b_desc: int
    idesc: int
    enable_input_d: bool
    disable_output_lane: tuple[int, ...] = ()
    """Words of 32 lanes each: four for the first CTA, then four for the second."""
    scale_input_d: int = 0
    scale_a_tmem: int = 0
    scale_b_tmem: int = 0
    sp_meta_tmem: int = 0
    zero_column_mask_desc: int = 0


class Rectangle(NamedTuple):
    """Cells of tensor memory, with exclusive ends; out of bounds if the operands are wrong."""

    lane: int
    lane_end: int
    column: int
    column_end: int


@dataclass(frozen=True, slots=True)
class Ranges:
    """The memory that a multiplication accesses, the same in each CTA of its group."""

    shared: tuple[tuple[int, int], ...]
    """Bytes of shared memory that it reads, ``(start, end)``: those of A, if A is there, and those of B."""
    reads: tuple[Rectangle, ...]
    """Cells of A, scale factors and metadata, and of D if it is an input."""
    writes: tuple[Rectangle, ...]
    """Cells of D, disabled lanes included."""


@dataclass(frozen=True, slots=True)
class Multiplication:
    """A form of ``tcgen05.mma``; each call executes it once."""

    form: DescriptorForm
    a_in_tmem: bool

    def __call__(self, context: MmaCtas, operands: Operands) -> None:
        """D = A*B, or A*B + D * 2^-scale_input_d, with the block scaling and sparsity of the form.

        The cells of :meth:`ranges` must be in bounds.
        """
        idesc = self._parse(operands)
        reads = [partial(context.read, rank) for rank in range(1 + self.form.pair)]
        rows, columns, stored = idesc.m // len(reads), idesc.n // len(reads), idesc.k >> self.form.sparse
        b = np.concatenate([_shared(r, operands.b_desc, idesc.matrix_b(columns), idesc.b) for r in reads])
        if idesc.negate_b:
            b = -b
        if not self.a_in_tmem:
            parts = [_shared(r, operands.a, idesc.matrix_a(rows, stored), idesc.a) for r in reads]
        for tile in self._tiles(idesc):
            tmem = context.tmem(tile.rank)
            a = _in_tmem(tmem, operands.a, tile, idesc) if self.a_in_tmem else parts[tile.rank]
            if idesc.negate_a:
                a = -a
            positions = _positions(tmem, operands.sp_meta_tmem, tile, idesc) if self.form.sparse else None
            if idesc.scale:
                product = _scaled(tmem, operands, tile, idesc, _Left(a, positions), b[tile.columns])
            else:
                product = _dot(_Left(a, positions), b[tile.columns])
            _accumulate(tmem, operands, tile, idesc, product)

    def ranges(self, operands: Operands) -> Ranges:
        """The memory that it accesses, without executing it."""
        idesc = self._parse(operands)
        ctas = 1 + self.form.pair
        shared = tuple(piece for one in self.matrices(operands) for piece in intervals(*one))
        first = [tile for tile in self._tiles(idesc) if tile.rank == 0]
        width = first[0].columns.stop - first[0].columns.start
        result = _rectangles(operands.d_tmem, first, width)
        reads = result if operands.enable_input_d else ()
        if self.a_in_tmem:
            reads += _rectangles(operands.a, first, 8)
        if idesc.scale:
            rows = idesc.m // ctas
            for address, count in ((operands.scale_a_tmem, rows), (operands.scale_b_tmem, width)):
                lane, column = divmod(address, 1 << 16)
                reads += (Rectangle(lane, lane + 128, column, column - -count // 32),)
        if self.form.sparse:
            reads += _rectangles(operands.sp_meta_tmem + idesc.selector, first, 1 if idesc.bits > 8 else 2)
        return Ranges(shared, reads, result)

    def matrices(self, operands: Operands) -> list[tuple[int, Matrix]]:
        """The matrices in the shared memory of each CTA, A unless it is in tensor memory and B, with their descriptors."""
        idesc, ctas = self._parse(operands), 1 + self.form.pair
        left = idesc.matrix_a(idesc.m // ctas, idesc.k >> self.form.sparse)
        right = (operands.b_desc, _in_bytes(idesc.matrix_b(idesc.n // ctas)))
        return [right] if self.a_in_tmem else [(operands.a, _in_bytes(left)), right]

    def _parse(self, operands: Operands) -> InstructionDescriptor:
        """The instruction descriptor. Raises :class:`Unsupported` for operands that cannot be executed."""
        idesc = InstructionDescriptor.parse(operands.idesc, self.form)
        if self.a_in_tmem and idesc.major_a == "MN":
            raise Unsupported(f"{self.form}: transposed A in tensor memory")
        if self.a_in_tmem and self.form.weights and idesc.m != 128:
            raise Unsupported(f"{self.form}: A of {idesc.m} rows in tensor memory")
        if operands.zero_column_mask_desc:
            raise Unsupported(f"{self.form} with a zero-column mask")
        if idesc.selector > 1:
            raise Unsupported(f"{self.form} with sparsity selector {idesc.selector}")
        if operands.scale_input_d and idesc.d == "s32":
            raise Unsupported(f"{self.form} with scale-input-d")
        return idesc

    def _tiles(self, idesc: InstructionDescriptor) -> tuple[Tile, ...]:
        return tiles(idesc.m, idesc.n, self.form.pair, self.form.weights, self.form.sparse)


def _factory(a_in_tmem: bool) -> Callable[[Match], Multiplication]:
    def make(match: Match) -> Multiplication:
        if match.modes.shifts_a:
            # The text of the manual leaves open whether row i becomes row i + 1 or row i - 1.
            raise Unsupported("tcgen05.mma.ashift")
        return Multiplication(DescriptorForm.of(match), a_in_tmem)

    return make


MMA: dict[str, Callable[[Match], Multiplication]] = {
    f"tcgen05.mma{variant}{a}": _factory(bool(a))
    for variant in ("", ".sp", ".block_scale", ".sp.block_scale", ".ws", ".ws.sp")
    for a in ("", ".a-tmem")
}
"""Form name -> factory of its :class:`Multiplication`, which is called once, when the instruction is decoded."""


# ---------------------------------------------------------------- A and B


def _matrix(codes: Array, kind: str) -> Array:
    """The values of codes of the type *kind*, as float64."""
    if kind in ("s8", "u8"):
        return codes.view(np.int8 if kind == "s8" else np.uint8).astype(np.float64)
    return decode(kind, codes).astype(np.float64)


def _shared(read: Read, descriptor: int, matrix: Matrix, kind: str) -> Array:
    """A, or B transposed, from shared memory: float64 (rows, columns), with columns along K (9.7.16.10.6)."""
    codes = load(read, descriptor, _in_bytes(matrix))
    if matrix.bits == 4:
        codes = unpack(codes, 4, False)
    elif kind in _BITS:
        # 16 elements in 16 bytes along the major dimension (9.7.16.10.4.4); along M or N too, as in Triton.
        bits, along = _BITS[kind], matrix.major == "K"
        codes = unpack(codes, bits, True) if along else unpack(codes.T, bits, True).T
    return _matrix(codes, kind)


def _in_bytes(matrix: Matrix) -> Matrix:
    """The same memory with elements of at least a byte: two of 4 bits are in one."""
    return matrix._replace(columns=matrix.columns // 2, bits=8) if matrix.bits == 4 else matrix


def _in_tmem(tmem: Array, address: int, tile: Tile, idesc: InstructionDescriptor) -> Array:
    """The rows of A that a tile needs: 32 bytes each, in the lanes of the tile (9.7.16.10.4.3, 9.7.16.10.4.5).

    If D has several tiles one above the other, there are as many copies of A (``TmemAllocMode::Duplicated``).
    """
    lane, column = divmod(address, 1 << 16)
    words = tmem[lane + tile.lanes, column : column + 8]
    if idesc.bits == 4:
        return _matrix(unpack(words.view(np.uint8), 4, False), idesc.a)
    codes = words.view(f"u{idesc.bits // 8}")
    # 6-bit elements are low in their byte, 4-bit ones in the middle: specified for mma.sync only (9.7.14.5.14).
    return _matrix(codes >> 2 if idesc.a == "e2m1" else codes, idesc.a)


def _positions(tmem: Array, address: int, tile: Tile, idesc: InstructionDescriptor) -> Array:
    """The column of each stored element of A: int64 (rows, k / 2) (9.7.16.10.8).

    A row has 4 bits for each stored pair (of elements, or, in ``.kind::mxf4``, of pairs of them). For elements of 16
    and 32 bits, 16 rows share 16 lanes of one column: row r has the upper or lower half of lanes r % 8 and r % 8 + 8.
    """
    lane, column = divmod(address, 1 << 16)
    lanes, r = lane + tile.lanes[:, None], np.arange(len(tile.lanes))[:, None]
    if idesc.bits > 8:
        chunk = np.arange(8)
        words = tmem[lanes - r % 16 + r % 8 + chunk // 4 * 8, column + idesc.selector]
        shift = r // 8 % 2 * 16 + chunk % 4 * 4
    else:
        chunk = np.arange(16)
        words = tmem[lanes, column + chunk // 8]
        shift = chunk % 8 * 4
    nibble = words.astype(np.int64) >> shift & 15
    if idesc.bits == 32:
        positions: Array = 2 * chunk + nibble // 2 % 2  # 0b0100 or 0b1110
        return positions
    first, second = 4 * chunk + nibble % 4, 4 * chunk + nibble // 4
    pair = (2 * first, 2 * first + 1, 2 * second, 2 * second + 1) if idesc.bits == 4 else (first, second)
    return np.stack(pair, axis=2).reshape(len(r), -1)


# ---------------------------------------------------------------- the products, and D


class _Left(NamedTuple):
    """A as it is stored."""

    values: Array
    positions: Array | None
    """The column of each element, of a sparse matrix."""


def _dot(a: _Left, b: Array) -> Array:
    """A times B transposed. Elements of B that a sparse A skips have no effect, even if they are infinite."""
    if a.positions is None:
        product: Array = a.values @ b.T
    else:
        product = (a.values[:, None] @ b.T[a.positions])[:, 0]
    return product


def _scaled(
    tmem: Array, operands: Operands, tile: Tile, idesc: InstructionDescriptor, a: _Left, b: Array
) -> Array:
    """The product of block-scaled matrices (9.7.16.10.7), 32 rows at a time, with the scale factors in their lanes."""
    block = idesc.k // idesc.scales
    values, positions = a
    columns = np.arange(values.shape[1])[None] if positions is None else positions
    products = []
    for start in range(0, len(values), 32):
        lane = int(tile.lanes[start])
        scale_a = _factors(tmem, operands.scale_a_tmem, lane, len(values), idesc.scale_a_id, idesc)
        scale_b = _factors(tmem, operands.scale_b_tmem, lane, len(b), idesc.scale_b_id, idesc)
        rows = slice(start, start + 32)
        where = columns[rows] if positions is not None else columns
        left = values[rows] * np.take_along_axis(scale_a[rows], where // block, axis=1)
        right = b * np.repeat(scale_b, block, axis=1)
        products.append(_dot(_Left(left, None if positions is None else where), right))
    return np.concatenate(products)


def _factors(
    tmem: Array, address: int, first: int, rows: int, byte: int, idesc: InstructionDescriptor
) -> Array:
    """The scale factors of the rows of A, or of B transposed, from the copy in the 32 lanes from *first* on: float64.

    Row r is in lane r % 32 of column r // 32, from byte *byte* of the word on; every 32 lanes hold a copy of all rows.
    """
    lane, column = divmod(address, 1 << 16)
    words = tmem[lane + first : lane + first + 32, column : column - -rows // 32]
    codes = np.ascontiguousarray(words.T).view(np.uint8).reshape(-1, 4)[:rows, byte : byte + idesc.scales]
    return decode(idesc.scale, codes).astype(np.float64)


def _accumulate(
    tmem: Array, operands: Operands, tile: Tile, idesc: InstructionDescriptor, product: Array
) -> None:
    """Add D to the product if it is an input, round, and write the lanes that are not disabled to D."""
    lane, column = divmod(operands.d_tmem, 1 << 16)
    lanes, columns = lane + tile.lanes, slice(column, column + product.shape[1])
    if operands.disable_output_lane:
        words = np.array(operands.disable_output_lane[4 * tile.rank :][:4], np.uint32)
        kept = np.unpackbits(words.view(np.uint8), bitorder="little")[lanes] == 0
        lanes, product = lanes[kept], product[kept]
    if operands.enable_input_d:
        addend = _numbers(tmem[lanes, columns], idesc.d)
        product = product + (addend * 0.5**operands.scale_input_d if operands.scale_input_d else addend)
    tmem[lanes, columns] = _cells(product, idesc)


def _numbers(words: Array, kind: str) -> Array:
    if kind == "f16":
        return words.astype(np.uint16).view(np.float16).astype(np.float64)
    return words.view(np.int32 if kind == "s32" else np.float32).astype(np.float64)


def _cells(values: Array, idesc: InstructionDescriptor) -> Array:
    """The cells of D; an element of 16 bits is in the lower half (9.7.16.10.4.1)."""
    if idesc.d == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    if idesc.d == "f32":
        return values.astype(np.float32).view(np.uint32)
    if idesc.saturate:
        values = values.clip(-(2.0**31), 2.0**31 - 1)
    return values.astype(np.int64).astype(np.uint32)


def _rectangles(address: int, first: list[Tile], width: int) -> tuple[Rectangle, ...]:
    """The cells of *width* columns in the lanes of the tiles *first*."""
    lane, column = divmod(address, 1 << 16)
    blocks = sorted(block for tile in first for block in tile.blocks)
    merged: list[Rectangle] = []
    for start, end in blocks:
        if merged and merged[-1].lane_end == lane + start:
            merged[-1] = merged[-1]._replace(lane_end=lane + end)
        else:
            merged.append(Rectangle(lane + start, lane + end, column, column + width))
    return tuple(merged)
