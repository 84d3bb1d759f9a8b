"""Tensor maps, and the addresses that a tensor copy accesses (PTX ISA 5.5, 9.7.9.27.1, 9.7.9.28).

A map is 128 bytes that a kernel receives in ``.param`` space, copies, and modifies with ``tensormap.replace``. In CUDA
these bytes are opaque, so the layout of :meth:`TensorMap.encode` is tclint's own. It has no magic number, because a
kernel may create a map from 128 zero bytes by replacing every field. :func:`decode` recognises a map by its unused
bytes, which are zero, and by not being all zero, since a box is never empty.

Where the manual is silent or ambiguous, this follows an H200, whose results are recorded in the tests.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from math import gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tclint._dataclass import dataclass
from tclint.executor.errors import Unsupported
from tclint.executor.formats import decode as values_of
from tclint.executor.formats import encode as bits_of

__all__ = [
    "ATOMICITIES", "FILLS", "INTERLEAVES", "MODES", "SIZE", "SWIZZLES", "TYPES", "UNKNOWN", "TensorMap", "TensorTransfer", "box",
    "decode", "loaded", "pattern", "reduce", "replace", "swizzle",
]  # fmt: skip

Array = NDArray[Any]

SIZE = 128
"""Bytes of every map."""

UNKNOWN = bytes.fromhex("756e6b6e6f776e2074656e736f72206d") * (SIZE // 16)
"""The map of an assumed launch, where the real one is unknown, and so is the number of bytes that a copy moves."""

TYPES = {
    "u8": 8, "u16": 16, "u32": 32, "s32": 32, "u64": 64, "s64": 64, "f16": 16, "f32": 32, "f32.ftz": 32, "f64": 64,
    "bf16": 16, "tf32": 32, "tf32.ftz": 32, "b4x16": 4, "b4x16_p64": 4, "b6x16_p32": 6,
}  # fmt: skip
"""The element types, with their width in bits in global memory. This and the next four are ordered as in table 33
(9.7.9.28)."""
INTERLEAVES = (0, 16, 32)
SWIZZLES = (0, 32, 64, 128, 96)
ATOMICITIES = ("16B", "32B", "32B+8B flip", "64B")
FILLS = ("zeros", "nan")
MODES = ("tile", "im2col")

_FLOATING = frozenset("f16 f32 f32.ftz f64 bf16 tf32 tf32.ftz".split())
_OOB_NAN = 0x7FF7
"""The 16 bits that "OOB-NaN" repeats, whatever the type."""

_PADDED = {"b4x16_p64": (8, 8), "b6x16_p32": (12, 4)}
"""For types that a load pads: the bytes of 16 elements in global memory, and how many of them stay contiguous.

In shared memory 16 elements occupy 16 bytes, and a load leaves the last of these unchanged (5.5.1.1.1)."""

_XOR = {
    (32, "16B"): (3, 0x10),
    (64, "16B"): (3, 0x30),
    (128, "16B"): (3, 0x70),
    (128, "32B"): (2, 0x60),
    (128, "64B"): (1, 0x40),
}
"""Swizzling modes (5.5.7), as shift and mask: the address, shifted right and masked, is xored into the address."""

_CORNER_BITS = {3: 16, 4: 8, 5: 5}
"""Bits of a signed corner coordinate of an im2col box, by rank (5.5.4.1)."""
MAX_BOX_BYTES = 228 << 10
"""The largest box: the shared memory of an SM, although a CTA gets 1 KiB less."""


def _need(holds: bool, field: str, what: str) -> None:
    if not holds:
        raise ValueError(f"{field}: {what}")


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor in global memory, and the box that one copy moves; dimensions are innermost first (5.5).

    Raises :class:`ValueError`, whose message begins with the name of a field, for values that the CUDA driver's
    ``cuTensorMapEncodeTiled`` and ``cuTensorMapEncodeIm2col`` reject.
    """

    address: int
    type: str
    """A key of :data:`TYPES`."""
    dimensions: tuple[int, ...]
    """Elements in each dimension."""
    strides: tuple[int, ...]
    """Bytes from one element to the next, in each dimension except the innermost."""
    box: tuple[int, ...] = ()
    """Elements that the box spans in each dimension; empty in im2col mode."""
    element_strides: tuple[int, ...] = ()
    """Traversal strides (5.5.3.2), ones if omitted. That of the innermost dimension has no effect."""
    swizzle: int = 0
    """The width of the swizzling pattern in bytes, one of :data:`SWIZZLES`."""
    atomicity: str = "16B"
    """The unit that swizzling keeps contiguous, one of :data:`ATOMICITIES`."""
    interleave: int = 0
    """Bytes of a slice of an interleaved layout (5.5.6), one of :data:`INTERLEAVES`."""
    fill: str = "zeros"
    """The value read for elements outside the tensor, one of :data:`FILLS`."""
    mode: str = "tile"
    """One of :data:`MODES`."""
    lower: tuple[int, ...] = ()
    """In im2col mode, the start of the box in W, H and D, relative to the first element (5.5.4.1)."""
    upper: tuple[int, ...] = ()
    """In im2col mode, the end of the box in W, H and D, relative to the last element."""
    channels: int = 0
    """In im2col mode, elements of each pixel."""
    pixels: int = 0
    """In im2col mode, pixels of a column."""

    def __post_init__(self) -> None:
        if not self.element_strides:
            object.__setattr__(self, "element_strides", (1,) * self.rank)
        _one_of("type", self.type, tuple(TYPES))
        _one_of("mode", self.mode, MODES)
        _one_of("interleave", self.interleave, INTERLEAVES)
        _one_of("fill", self.fill, FILLS)
        _one_of("swizzle", self.swizzle, SWIZZLES)
        _one_of("atomicity", self.atomicity, ATOMICITIES)
        self._check_tensor()
        if self.mode == "tile":
            self._check_tile()
        else:
            self._check_im2col()
        self._check_row()

    def _check_tensor(self) -> None:
        rank, smallest = self.rank, 1 if self.mode == "tile" and not self.interleave else 3
        _need(smallest <= rank <= 5, "dimensions", f"{rank} values, expected {smallest} to 5")
        _count("strides", self.strides, rank - 1)
        _count("element_strides", self.element_strides, rank)
        align = 32 if self.interleave == 32 or self.type in _PADDED else 16
        _need(0 <= self.address < 1 << 57, "address", f"{self.address:#x} is not below 2^57")
        _need(self.address % align == 0, "address", f"{self.address:#x} is not a multiple of {align}")
        for size in self.dimensions:  # the driver accepts more than the 2^31 that cuda.h states
            _need(1 <= size < 1 << 32, "dimensions", f"{size} is not in 1 to 2^32 - 1")
        multiple = 128 if self.type in _PADDED else 2 if self.bits == 4 else 1
        text = f"{self.dimensions[0]} elements of {self.type} are not a multiple of {multiple}"
        _need(self.dimensions[0] % multiple == 0, "dimensions", text)
        for stride in self.strides:
            _need(0 <= stride < 1 << 40, "strides", f"{stride} is not below 2^40")
            _need(stride % align == 0, "strides", f"{stride} is not a multiple of {align}")
        for step in self.element_strides:
            _need(1 <= step <= 8, "element_strides", f"{step} is not in 1 to 8")
        _need(self.fill == "zeros" or self.type in _FLOATING, "fill", f"{self.type} has no NaN")

    def _check_tile(self) -> None:
        _count("box", self.box, self.rank)
        for size in self.box:
            _need(1 <= size <= 256, "box", f"{size} is not in 1 to 256")

    def _check_im2col(self) -> None:
        rank = self.rank
        _need(1 <= self.channels <= 256, "channels", f"{self.channels} is not in 1 to 256")
        _need(1 <= self.pixels <= 1024, "pixels", f"{self.pixels} is not in 1 to 1024")
        limit = 1 << _CORNER_BITS[rank] - 1
        for field, corner in (("lower", self.lower), ("upper", self.upper)):
            _count(field, corner, rank - 2)
            for at in corner:
                _need(-limit <= at < limit, field, f"{at} is not in {-limit} to {limit - 1}")
        for size, low, high in zip(self.dimensions[1:-1], self.lower, self.upper, strict=True):
            _need(low <= size - 1 + high, "upper", f"no element between {low} and {size - 1 + high}")

    def _check_row(self) -> None:
        field, wide, total = "box" if self.mode == "tile" else "channels", self.row, self.row * self.rows
        if self.type in _PADDED:
            _need(wide == 128, field, f"{self.type} needs 128 elements in the innermost dimension")
        inner = f"{wide} bytes in the innermost dimension"
        _need(wide % 16 == 0, field, f"{inner} are not a multiple of 16")
        if self.swizzle and not self.interleave:
            _need(wide <= self.swizzle, field, f"{inner} are more than the {self.swizzle} of the swizzle")
        _need(total <= MAX_BOX_BYTES, field, f"{total} bytes exceed shared memory")
        _need(
            self.swizzle == 128 or self.atomicity == "16B",
            "atomicity",
            f"{self.atomicity} with {self.swizzle}",
        )

    @property
    def rank(self) -> int:
        return len(self.dimensions)

    @property
    def bits(self) -> int:
        """The size in bits of an element in global memory."""
        return TYPES[self.type]

    @property
    def padded(self) -> int:
        """The bits of an element of which a copy pads 16 to 16 bytes in shared memory; 0 for other types."""
        return self.bits if self.type in _PADDED else 0

    @property
    def row(self) -> int:
        """Bytes of a row of the box, its innermost dimension, in shared memory."""
        count = self.box[0] if self.mode == "tile" else self.channels
        return count if self.type in _PADDED else -(-count * self.bits // 8)

    @property
    def pitch(self) -> int:
        """Bytes from one row of the box to the next, in shared memory: a shorter row leaves the rest of the swizzling
        pattern's width unused."""
        return max(self.row, self.swizzle)

    @property
    def rows(self) -> int:
        """Rows of the box: the product of its other dimensions."""
        if self.mode == "im2col":
            return self.pixels
        return prod(
            -(-size // step) for size, step in zip(self.box[1:], self.element_strides[1:], strict=True)
        )

    def encode(self) -> bytes:
        """The 128 bytes of the map, in tclint's own layout."""
        return _LAYOUT.pack(
            self.address, *_pad(self.strides, 4), *_pad(self.dimensions, 5), *_pad(self.box, 5),
            *_pad(self.element_strides, 5), self.rank - 1, _TYPES.index(self.type), INTERLEAVES.index(self.interleave),
            SWIZZLES.index(self.swizzle), ATOMICITIES.index(self.atomicity), FILLS.index(self.fill),
            MODES.index(self.mode), *_pad(self.lower, 3), *_pad(self.upper, 3), self.channels, self.pixels,
        )  # fmt: skip


def _one_of(field: str, value: Any, allowed: Sequence[Any]) -> None:
    _need(value in allowed, field, f"{value!r} is not one of {', '.join(map(str, allowed))}")


def _count(field: str, values: Sequence[int], count: int) -> None:
    _need(len(values) == count, field, f"{len(values)} values, expected {count}")


# ---------------------------------------------------------------- the 128 bytes

_TYPES = tuple(TYPES)
_LAYOUT = struct.Struct("<Q4Q5I5H5B7B3h3h2H30x")
_UNUSED = slice(98, SIZE)
_IM2COL = slice(82, 98)
_FIELDS = {
    ".global_address": (0, "Q", 1, "address"),
    ".global_stride": (8, "Q", 4, "strides"),
    ".global_dim": (40, "I", 5, "dimensions"),
    ".box_dim": (60, "H", 5, "box"),
    ".element_stride": (70, "B", 5, "element_strides"),
    ".rank": (75, "B", 1, "dimensions"),
    ".elemtype": (76, "B", 1, "type"),
    ".interleave_layout": (77, "B", 1, "interleave"),
    ".swizzle_mode": (78, "B", 1, "swizzle"),
    ".swizzle_atomicity": (79, "B", 1, "atomicity"),
    ".fill_mode": (80, "B", 1, "fill"),
}
"""The fields of ``tensormap.replace``: first byte, ``struct`` format and number of values, and the name used here."""


def _pad(values: Sequence[int], length: int) -> tuple[int, ...]:
    return (*values, *(0,) * (length - len(values)))


@lru_cache(maxsize=256)
def decode(data: bytes) -> TensorMap:
    """The map in 128 bytes.

    Raises :class:`ValueError`: ``not a tensor map``, or a message that begins with the name of an invalid field.
    """
    if len(data) != SIZE or any(data[_UNUSED]) or not any(data):
        raise ValueError("not a tensor map")
    address, *rest = _LAYOUT.unpack(data)
    strides, dimensions, sizes, steps = rest[:4], rest[4:9], rest[9:14], rest[14:19]
    rank, kind, interleave, swizzling, atomicity, fill, mode = rest[19:26]
    lower, upper, (channels, pixels) = rest[26:29], rest[29:32], rest[32:]
    known = zip((kind, interleave, swizzling, atomicity, fill, mode), _CHOICES, strict=True)
    if any(value >= len(choices) for value, choices in known) or (mode == 0 and any(data[_IM2COL])):
        raise ValueError("not a tensor map")
    rank += 1
    return TensorMap(
        address=address,
        type=_TYPES[kind],
        dimensions=tuple(dimensions[:rank]),
        strides=tuple(strides[: rank - 1]),
        box=tuple(sizes[:rank]) if mode == 0 else (),
        element_strides=tuple(steps[:rank]),
        swizzle=SWIZZLES[swizzling],
        atomicity=ATOMICITIES[atomicity],
        interleave=INTERLEAVES[interleave],
        fill=FILLS[fill],
        mode=MODES[mode],
        lower=tuple(lower[: rank - 2]) if mode else (),
        upper=tuple(upper[: rank - 2]) if mode else (),
        channels=channels,
        pixels=pixels,
    )


_CHOICES: tuple[Sequence[Any], ...] = (_TYPES, INTERLEAVES, SWIZZLES, ATOMICITIES, FILLS, MODES)


def unknown() -> TensorTransfer:
    """The transfer of a copy through an unknown map: the first 128 bytes of its destination, nothing of a tensor.

    The number of bytes that it completes is unknown.
    """
    units = np.arange(0, SIZE, 16, dtype=np.int64)
    return TensorTransfer(16, units * 0, np.zeros(len(units), bool), units, SIZE, np.zeros(16, np.uint8))


def replace(data: bytes, field: str, ordinal: int | None, value: int) -> bytes:
    """The bytes of a map after ``tensormap.replace`` (9.7.9.28); *field* is a modifier such as ``.box_dim``.

    The map need not be valid, before or after. Raises :class:`ValueError` for an ordinal that the field does not have,
    and for a value that does not fit it.
    """
    first, kind, count, name = _FIELDS[field]
    at = ordinal or 0
    _need(0 <= at < count, name, f"{field} has no ordinal {at}")
    size = struct.calcsize(kind)
    _need(0 <= value < 1 << 8 * size, name, f"{value} does not fit {field}")
    first += at * size
    return data[:first] + value.to_bytes(size, "little") + data[first + size :]


# ---------------------------------------------------------------- transfers


@dataclass(frozen=True, slots=True, eq=False)
class TensorTransfer:
    """The bytes that one tensor copy moves, in units that are each entirely inside or entirely outside the tensor."""

    unit: int
    """Bytes of a unit, a power of two up to 16; addresses and offsets are multiples of it."""
    addresses: Array
    """The address of each unit in global memory, int64; meaningless outside the tensor."""
    inside: Array
    """Whether each unit is in the tensor. If not, a load writes :attr:`fill`, and a store writes nothing; an H200,
    however, stores all 16 bytes if some of them are in bounds in the innermost dimension."""
    offsets: Array
    """The offset of each unit in shared memory, from the start of the box and before :func:`swizzle`; int64."""
    size: int
    """Bytes that the copy's ``complete_tx`` counts: those of the whole box, inside the tensor or not."""
    fill: Array
    """The bytes of a unit outside the tensor; uint8."""


def box(
    tensor: TensorMap,
    coordinates: Sequence[int],
    mode: str = "tile",
    offsets: Sequence[int] = (),
    *,
    store: bool = False,
) -> TensorTransfer:
    """The transfer of a tensor copy at *coordinates*, which are innermost first and signed (9.7.9.27.1.2).

    *mode* is ``.load_mode`` without its dot, *offsets* are those of im2col; with *store*, global memory is the
    destination. Raises :class:`ValueError` for a copy that the map or the ISA does not allow; on an H200 it stops the
    kernel. Raises :class:`Unsupported` for an interleaved layout and for im2col::w.
    """
    if tensor.interleave or mode.startswith("im2col::"):
        raise Unsupported(f"tensor copies with {'an interleaved layout' if tensor.interleave else mode}")
    wanted = "im2col" if mode == "im2col_no_offs" else mode.partition("::")[0]
    _need(tensor.mode == wanted, "mode", f"a {tensor.mode} map in a {mode} copy")
    rows = mode in ("tile::gather4", "tile::scatter4")
    _count("coordinates", coordinates, 5 if rows else tensor.rank)
    _need(not store or min(coordinates) >= 0, "coordinates", f"{min(coordinates)} in a store")
    if rows:
        return _rows(tensor, coordinates, mode)
    if mode == "tile":
        return _tile(tensor, coordinates)
    _need(not store or min(tensor.lower) >= 0, "lower", "a store outside the tensor")
    _need(not store or max(tensor.upper) <= 0, "upper", "a store outside the tensor")
    return _columns(tensor, coordinates, offsets or (0,) * (tensor.rank - 2))


def _rows(tensor: TensorMap, coordinates: Sequence[int], mode: str) -> TensorTransfer:
    """Four rows of a matrix (5.5.3.4): the first coordinate is a column, the others are row numbers."""
    _need(tensor.rank == 2, "dimensions", f"{tensor.rank} dimensions in a {mode} copy")
    _need(tensor.box[1] == 1, "box", f"{tensor.box[1]} rows in a {mode} copy")
    at = np.array(coordinates[1:], np.int64)
    return _transfer(tensor, coordinates[0], at * tensor.strides[0], (at >= 0) & (at < tensor.dimensions[1]))


def _tile(tensor: TensorMap, coordinates: Sequence[int]) -> TensorTransfer:
    starts, inside = np.zeros(1, np.int64), np.ones(1, bool)
    for axis in range(1, tensor.rank):  # an outer dimension varies more slowly
        at = coordinates[axis] + np.arange(0, tensor.box[axis], tensor.element_strides[axis])
        starts = np.add.outer(at * tensor.strides[axis - 1], starts).ravel()
        inside = np.logical_and.outer((at >= 0) & (at < tensor.dimensions[axis]), inside).ravel()
    return _transfer(tensor, coordinates[0], starts, inside)


def _columns(tensor: TensorMap, coordinates: Sequence[int], offsets: Sequence[int]) -> TensorTransfer:
    """im2col (5.5.4): successive pixels along W, then H, then D within the box, then N."""
    _count("offsets", offsets, tensor.rank - 2)
    count = np.arange(tensor.pixels)
    starts, inside = np.zeros(tensor.pixels, np.int64), np.ones(tensor.pixels, bool)
    for axis in range(1, tensor.rank - 1):
        first, step, size = coordinates[axis], tensor.element_strides[axis], tensor.dimensions[axis]
        low, high = tensor.lower[axis - 1], size - 1 + tensor.upper[axis - 1]
        _need(
            low <= first <= high,
            "coordinates",
            f"{first} in dimension {axis} is not in the box, {low} to {high}",
        )
        later = count - ((high - first) // step + 1)  # steps since the end of the box was first reached
        length = (high - low) // step + 1
        at = np.where(later < 0, first + count * step, low + later % length * step) + offsets[axis - 1]
        count = np.where(later < 0, 0, later // length + 1)
        starts += at * tensor.strides[axis - 1]
        inside &= (at >= 0) & (at < size)
    at = coordinates[-1] + count * tensor.element_strides[-1]
    starts += at * tensor.strides[-1]
    inside &= (at >= 0) & (at < tensor.dimensions[-1])
    return _transfer(tensor, coordinates[0], starts, inside)


def _transfer(tensor: TensorMap, first: int, starts: Array, inside: Array) -> TensorTransfer:
    """The transfer of rows at *starts*, in bytes from the address of the tensor, each from its element *first* on."""
    align = 128 if tensor.type in _PADDED else 128 // tensor.bits  # 16 bytes (5.5.3.1)
    _need(first % align == 0, "coordinates", f"{first}, the first one, is not a multiple of {align}")
    start, end = first * tensor.bits // 8, tensor.dimensions[0] * tensor.bits // 8
    length, unit = tensor.row, 16
    if tensor.type in _PADDED:
        packed, unit = _PADDED[tensor.type]
        length = length // 16 * packed
    unit = gcd(unit, end) if start < end < start + length else unit
    along, offsets = _row(tensor.row, length, unit)
    within = start + along
    pitch = tensor.pitch
    return TensorTransfer(
        unit,
        np.add.outer(starts + tensor.address, within).ravel(),
        np.logical_and.outer(inside, (within >= 0) & (within < end)).ravel(),
        np.add.outer(np.arange(0, len(starts) * pitch, pitch), offsets).ravel(),
        len(starts) * tensor.row,
        _fill(tensor.fill, unit),
    )


@lru_cache(maxsize=256)
def _row(row: int, length: int, unit: int) -> tuple[Array, Array]:
    """The offsets of the units of a row, in its *length* bytes of global and its *row* bytes of shared memory."""
    along = np.arange(0, length, unit)
    group = 16 * length // row
    return along, along // group * 16 + along % group


@cache
def _fill(fill: str, unit: int) -> Array:
    data = np.full(8, _OOB_NAN if fill == "nan" else 0, np.uint16).view(np.uint8)[:unit]
    data.setflags(write=False)
    return data


def swizzle(tensor: TensorMap, offsets: Array, base: int) -> Array:
    """The addresses in shared memory of *offsets* in a box at the address *base* (5.5.7).

    The pattern depends on the bits of the address, not of the offset, so it is not restarted by a box that begins
    within it. Raises :class:`Unsupported` for modes that are not implemented.
    """
    addresses: Array = offsets + base
    if tensor.swizzle:
        shift, mask = pattern(tensor)
        addresses ^= addresses >> shift & mask
    return addresses


def pattern(tensor: TensorMap) -> tuple[int, int]:
    """Shift and mask of the swizzle (5.5.7). Raises :class:`Unsupported` for modes that are not implemented."""
    if not tensor.swizzle:
        return 0, 0
    mode = tensor.swizzle, tensor.atomicity
    if mode not in _XOR:
        raise Unsupported(f"a swizzle of {mode[0]} bytes with an atomicity of {mode[1]}")
    return _XOR[mode]


def loaded(tensor: TensorMap, data: Array) -> Array:
    """*data*, bytes of whole elements, as a load writes it: ``.tf32`` rounds ``.f32``, other types are unchanged."""
    if not tensor.type.startswith("tf32"):
        return data
    return bits_of("tf32", data.view(np.float32)).view(np.uint8)


# ---------------------------------------------------------------- reductions

_Reduction = Callable[[Array, Array], Array]


def reduce(op: str, type: str, old: Array, new: Array) -> Array:
    """The result of ``cp.reduce.async.bulk`` (9.7.9.25.4.2, 9.7.9.27.1.3) on the bytes *old* in memory and *new*.

    *op* is ``.redOp`` with its dot, *type* the element type without a dot. ``.add.f32`` keeps subnormal numbers: the
    manual states that the implementation flushes them, but an H200 does so only for ``.f32.ftz`` of a map. Raises
    :class:`Unsupported` for a type that the operation does not have.
    """
    kind, function = _reduction(op, type)
    return function(old.view(kind), new.view(kind)).view(np.uint8)


@cache
def _reduction(op: str, type: str) -> tuple[Any, _Reduction]:
    """The numpy type to view the bytes as, and the function on these values."""
    if type not in _REDUCED.get(op, ""):
        raise Unsupported(f"cp.reduce.async.bulk{op}.{type}")
    if type in ("f32", "f32.ftz"):
        return np.float32, _add_singles if type == "f32" else _add_flushed
    if type not in _INFINITY:
        return np.dtype({"s": "i", "f": "f"}.get(type[0], "u") + str(int(type[1:]) // 8)), _PLAIN[op]
    if op == ".add":
        return np.uint16, _add_halves(type)
    return np.int16, _halves(_INFINITY[type], op == ".max")


_INFINITY = {"f16": 0x7C00, "bf16": 0x7F80}
_REDUCED = {
    ".add": ("u32", "s32", "u64", "f32", "f32.ftz", "f64", "f16", "bf16"),
    ".min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    ".max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    ".inc": ("u32",),
    ".dec": ("u32",),
    **dict.fromkeys((".and", ".or", ".xor"), ("b32", "b64", "u32", "s32", "u64")),
}
"""The types that each operation accepts; ``.b32`` and ``.b64`` are ``.u32``, ``.s32`` and ``.u64`` in a map."""

_PLAIN: dict[str, _Reduction] = {
    ".add": np.add,
    ".min": np.minimum,
    ".max": np.maximum,
    ".and": np.bitwise_and,
    ".or": np.bitwise_or,
    ".xor": np.bitwise_xor,
    ".inc": lambda old, new: np.where(old >= new, 0, old + np.uint32(1)).astype(np.uint32),
    ".dec": lambda old, new: np.where((old == 0) | (old > new), new, old - np.uint32(1)).astype(np.uint32),
}


def _add_singles(old: Array, new: Array) -> Array:
    total = (old + new).view(np.uint32)
    return np.where(total & 0x7FFFFFFF > 0x7F800000, np.uint32(0x7FFFFFFF), total)


def _add_flushed(old: Array, new: Array) -> Array:
    total = _add_singles(_flushed(old), _flushed(new))
    return _flushed(total.view(np.float32)).view(np.uint32)


def _flushed(values: Array) -> Array:
    """*values* with subnormal numbers replaced by zeros of the same sign."""
    bits = values.view(np.uint32)
    return np.where(bits & 0x7F800000, bits, bits & 0x80000000).view(np.float32)


def _add_halves(type: str) -> _Reduction:
    """Addition in ``.f32``, which has enough bits that rounding its sum again is the same as rounding the exact sum."""
    return lambda old, new: bits_of(type, values_of(type, old) + values_of(type, new))


def _halves(infinity: int, largest: bool) -> _Reduction:
    """The minimum or maximum of two numbers; -0 is less than +0, and a number is preferred to a NaN."""

    def nan(bits: Array) -> Array:
        found: Array = bits & 0x7FFF > infinity
        return found

    def reduction(old: Array, new: Array) -> Array:
        first, second = (
            bits ^ (bits >> 15 & 0x7FFF) for bits in (old, new)
        )  # integers that compare as the values do
        chosen = np.where((first > second) if largest else (first < second), old, new)
        chosen = np.where(nan(new), old, np.where(nan(old), new, chosen))
        return np.where(nan(chosen), np.int16(0x7FFF), chosen)

    return reduction
