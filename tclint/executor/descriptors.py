"""Shared-memory matrix descriptors of ``wgmma`` (9.7.15.5.1.2) and ``tcgen05`` (9.7.16.4.1, 9.7.16.10.6).

A descriptor describes a matrix of 8x16-byte cores: its start address, two strides (the leading and the stride dimension
byte offset) and a swizzling mode. Rows run along M or N, columns along K. A matrix is K-major if consecutive elements
of a row are adjacent in memory, MN-major if those of a column are. Every operand consists of whole chunks of 16 bytes,
and swizzling permutes these chunks (of 32 bytes in one mode) by bits of the *absolute* address. A descriptor can
therefore be advanced along K within a swizzle atom by adding to its start address.

For elements of 4 and 6 bits, :func:`load` the bytes along K (``bits=8``) and :func:`unpack` them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.executor.errors import Unsupported
from tclint.isa.effects import TCGEN05, WGMMA, Engine

__all__ = [
    "CHUNK", "Array", "Chunks", "Generation", "Major", "Matrix", "Read", "chunks", "intervals", "load", "offsets", "unpack",
]  # fmt: skip

CHUNK = 16
"""The bytes that swizzling keeps together."""

Array = npt.NDArray[Any]
Major = Literal["K", "MN"]
Generation = Engine

Read = Callable[[Array], Array]
"""Reads shared memory: from int64 byte addresses in the shared window of a CTA to the uint8 at each, same shape."""


@dataclass(frozen=True, slots=True)
class _Swizzle:
    """A swizzling mode: an atom of *width* bytes by *depth*, where the address shifted right by *shift* and masked with
    *mask* is xored into the address."""

    width: int
    """Bytes along the major dimension."""
    depth: int = 8
    """Rows (K-major) or columns (MN-major)."""
    shift: int = 3
    mask: int = 0


_NONE = _Swizzle(16)
_32B = _Swizzle(32, mask=0x10)
_64B = _Swizzle(64, mask=0x30)
_128B = _Swizzle(128, mask=0x70)
_128B_32B_ATOMS = _Swizzle(128, depth=4, shift=2, mask=0x60)

_MODES: dict[Generation, dict[int, _Swizzle]] = {
    WGMMA: {0: _NONE, 1: _128B, 2: _64B, 3: _32B},
    TCGEN05: {0: _NONE, 1: _128B_32B_ATOMS, 2: _128B, 4: _64B, 6: _32B},
}


class Matrix(NamedTuple):
    """A matrix in shared memory, but for what a descriptor says of it."""

    rows: int
    """Along M or N."""
    columns: int
    """Along K."""
    bits: int
    """The width of an element: 8, 16 or 32 (see :func:`unpack` for narrower ones)."""
    major: Major
    generation: Generation
    padded: int = 0
    """The bits of an element if 16 elements of less than a byte are padded to 16 bytes (9.7.16.10.4.4); else 0."""


def offsets(descriptor: int, matrix: Matrix) -> Array:
    """The byte address of each element in the shared window of the CTA: int64 (rows, columns), read-only.

    Raises :class:`Unsupported` for a descriptor whose meaning the manual leaves open.
    """
    return _bytes(descriptor, matrix)[..., 0]


def load(read: Read, descriptor: int, matrix: Matrix) -> Array:
    """The elements, read through *read*: unsigned integers of their width, shape (rows, columns).

    Errors are those of :func:`offsets`.
    """
    return read(_bytes(descriptor, matrix)).view(f"<u{matrix.bits // 8}")[..., 0]


@lru_cache(256)
def intervals(descriptor: int, matrix: Matrix) -> tuple[tuple[int, int], ...]:
    """The bytes that :func:`load` reads: sorted, disjoint, maximal ``(start, end)`` of whole 16-byte chunks."""
    chunks = np.unique(_bytes(descriptor, matrix) >> 4)
    breaks = np.flatnonzero(np.diff(chunks) != 1)
    starts = chunks[np.append(0, breaks + 1)] << 4
    ends = (chunks[np.append(breaks, -1)] + 1) << 4
    return tuple(zip(starts.tolist(), ends.tolist(), strict=True))


class Chunks(NamedTuple):
    """The chunks of a matrix: int64 of shape (rows, chunks of a row), or of its columns if it is MN-major."""

    addresses: Array
    unswizzled: Array
    """Their addresses without the swizzle."""
    width: int
    """The width of the swizzling pattern in bytes; 0 if there is none."""
    pattern: tuple[int, int]
    """Shift and mask of the swizzle: the address, shifted right and masked, is xored into the address."""
    strides: bool
    """Whether every stride that leads from one atom of the matrix to another one leads anywhere."""


@lru_cache(256)
def chunks(descriptor: int, matrix: Matrix) -> Chunks:
    """The chunks that :func:`load` reads. Errors are those of :func:`offsets`."""
    every = CHUNK * 8 // matrix.bits
    swizzle = _mode(descriptor, matrix.generation)

    def first(addresses: Array) -> Array:
        along = addresses[..., 0] if matrix.major == "K" else addresses[..., 0].T
        return np.ascontiguousarray(along[:, ::every])

    addresses = first(_bytes(descriptor, matrix))
    lines, along = addresses.shape
    leads = along * CHUNK <= swizzle.width or bool(descriptor >> 16 & 0x3FFF)
    strides = leads and (lines <= swizzle.depth or bool(descriptor >> 32 & 0x3FFF))
    pattern = (swizzle.shift, swizzle.mask) if swizzle.mask else (0, 0)
    width = swizzle.width if swizzle.mask else 0
    return Chunks(addresses, first(_unswizzled(descriptor, matrix, swizzle)), width, pattern, strides)


def unpack(data: Array, bits: int, padded: bool) -> Array:
    """Elements of 4 or 6 bits from the bytes along K: uint8 (rows, bytes) to uint8 codes (rows, elements).

    Not padded (``.kind::mxf4*``, 9.7.16.10.4.6): two 4-bit elements per byte, the first one in the low half. Padded
    (``.kind::f8f6f4``, ``.kind::mxf8f6f4``, 9.7.16.10.4.4): the low 8 (4-bit) or 12 (6-bit) of every 16 bytes hold 16
    contiguous elements, lowest bits first, so that there are as many elements as bytes.
    """
    if padded:
        data = data.reshape(len(data), -1, 16)[:, :, : 2 * bits].reshape(len(data), -1)
    stream = np.unpackbits(data, axis=1, bitorder="little").reshape(len(data), -1, bits)
    return np.packbits(stream, axis=2, bitorder="little")[..., 0]


@lru_cache(256)
def _bytes(descriptor: int, matrix: Matrix) -> Array:
    """The address of every byte of every element: int64 of shape (rows, columns, size)."""
    start, base = (descriptor & 0x3FFF) << 4, descriptor >> 49 & 7
    swizzle = _mode(descriptor, matrix.generation)
    if matrix.major == "K" and swizzle is _128B_32B_ATOMS:
        raise Unsupported("K-major matrix with 32-byte swizzle atoms")  # table 55 lists no such atom
    leaves = (
        start % swizzle.width + matrix.columns * matrix.bits // 8 > swizzle.width and swizzle is not _NONE
    )
    if matrix.major == "K" and leaves and matrix.generation == "tcgen05":
        raise Unsupported(f"K-major matrix that leaves its {swizzle.width}-byte swizzle atom")
    address = _unswizzled(descriptor, matrix, swizzle)
    # The base offset: 128-byte lines by which the pattern starts off its natural boundary (9.7.15.5.1.2.2).
    address ^= ((address - 128 * base) >> swizzle.shift) & swizzle.mask
    address.flags.writeable = False
    return address


def _unswizzled(descriptor: int, matrix: Matrix, swizzle: _Swizzle) -> Array:
    """The same without the swizzle."""
    start, leading, stride = ((descriptor >> low & 0x3FFF) << 4 for low in (0, 16, 32))
    return start + _linear(leading, stride, swizzle, matrix)


def _mode(descriptor: int, generation: Generation) -> _Swizzle:
    """The swizzling mode. Raises :class:`Unsupported` for an invalid descriptor, and for modes not implemented."""
    if generation == WGMMA:
        return _MODES[WGMMA][descriptor >> 62 & 3]
    if descriptor >> 46 & 7 != 1:
        raise Unsupported("tcgen05 matrix descriptor without 0b001 in its bits 46 to 48")
    if descriptor >> 52 & 1:
        raise Unsupported("matrix descriptor with an absolute leading dimension address")
    swizzle = _MODES[TCGEN05].get(descriptor >> 61 & 7)
    if swizzle is None:
        raise Unsupported(f"swizzling mode {descriptor >> 61 & 7}")
    return swizzle


@cache
def _linear(leading: int, stride: int, swizzle: _Swizzle, matrix: Matrix) -> Array:
    """The canonical layout before swizzling, in bytes from the start (9.7.15.5.1.2.1.3).

    An atom consists of *depth* lines of *width* contiguous bytes along the major dimension. The strides lead from atom
    to atom: the leading one along the major dimension, the other one across it; for MN-major matrices without swizzling
    their roles are exchanged. The manual does not use the leading stride of a swizzled K-major matrix. It matters there
    only if a row is wider than the atom, and is then used as on an H200.
    """
    size = matrix.bits // 8
    row, column, byte = np.ogrid[: matrix.rows, : matrix.columns, :size]
    along, across = (column, row) if matrix.major == "K" else (row, column)
    if matrix.major == "MN" and swizzle is _NONE:
        leading, stride = stride, leading
    atom, inside = np.divmod(along * size + byte, swizzle.width)
    group, line = np.divmod(across, swizzle.depth)
    address: Array = atom * leading + inside + group * stride + line * swizzle.width
    return address
