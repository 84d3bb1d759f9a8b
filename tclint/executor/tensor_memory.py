"""Layouts of data in tensor memory, as index arrays (PTX ISA 9.7.16.1, 9.7.16.2.3, 9.7.16.8 to 9.7.16.10.5).

The tensor memory of a CTA is an array of uint32 of shape (128 lanes, 512 columns); an address is
``lane << 16 | column``. Lanes and columns here are relative to the address operand, which the caller adds; the caller
also checks the bounds.

The manual gives these layouts as figures. What its text leaves open follows CUTLASS (``Copy_Traits`` in
cute/atom/copy_traits_sm100.hpp, ``tmem_frg`` in cute/atom/mma_traits_sm100.hpp), which has each of them as data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from tclint._dataclass import dataclass
from tclint.executor.descriptors import Array, Matrix, Read, intervals, load, unpack
from tclint.executor.errors import Unsupported
from tclint.isa.effects import TCGEN05
from tclint.isa.forms import Match

__all__ = ["Copy", "Tile", "allowed", "cells", "copy", "fragment", "reduction", "registers", "tiles"]


def allowed(warp: int) -> range:
    """The lanes that warp number *warp* of a CTA may load and store (9.7.16.8.1)."""
    return range(32 * (warp % 4), 32 * (warp % 4) + 32)


# ---------------------------------------------------------------- registers of a warp


def fragment(match: Match, split: int = 0) -> tuple[Array, Array]:
    """The cells of a ``tcgen05.ld`` or ``.st``: their lanes and columns, int64 of shape (cells, 32), read-only.

    Row r is register r of each thread; with ``.pack::16b`` and ``.unpack::16b``, rows 2r and 2r + 1 are its low and its
    high half (see :func:`registers` and :func:`cells`). *split* is ``immHalfSplitoff`` of shape ``.16x32bx2``. Raises
    :class:`Unsupported` for ``tcgen05.ld.spcompress``.
    """
    form = match.form
    if "r" not in form.operands:
        raise Unsupported(form.name)  # tcgen05.ld.spcompress, for which no manual was available
    count = form.vector_length(form.operands["r"], match.binding)
    assert count is not None
    return _fragment(match.binding["shape"], count, _halves(match), split)


def _halves(match: Match) -> bool:
    return match.modes.packs_halves or match.modes.unpacks_halves


@cache
def _fragment(shape: str, count: int, halves: bool, split: int) -> tuple[Array, Array]:
    """The figures of 9.7.16.2.3.1, which CUTLASS has as ``SM100_TMEM_LOAD_16dp64b1x`` and so on."""
    r, t = np.mgrid[:count, :32]
    if shape == ".32x32b":
        lane, column = t, r
    elif shape == ".16x64b":
        lane, column = t // 4 + t % 2 * 8, 2 * r + t // 2 % 2
    elif shape == ".16x128b":
        lane, column = t // 4 + r % 2 * 8, r // 2 * 4 + t % 4
    elif shape == ".16x256b":
        lane, column = t // 4 + r // 2 % 2 * 8, r // 4 * 8 + t % 4 * 2 + r % 2
    else:  # .16x32bx2: threads 16 to 31 access the same lanes as the others, in later columns
        lane, column = t % 16, r
    if halves:
        lane = np.repeat(lane, 2, axis=0)
        column = np.repeat(2 * column, 2, axis=0) + np.arange(2 * count)[:, None] % 2
    if shape == ".16x32bx2":
        column = column + split * (np.arange(32) // 16)
    lane.flags.writeable = column.flags.writeable = False
    return lane, column


def registers(match: Match) -> Callable[[Array], Array]:
    """The function of ``tcgen05.ld`` from the cells of its :func:`fragment` to registers.

    uint32 (cells, 32) -> uint32 (registers, 32).
    """
    return _pack if _halves(match) else _same


def cells(match: Match) -> Callable[[Array], Array]:
    """The function of ``tcgen05.st`` from registers to the cells of its :func:`fragment`.

    uint32 (registers, 32) -> uint32 (cells, 32). The manual does not specify the upper half of a cell after
    ``.unpack::16b``; here it is zero.
    """
    return _unpack if _halves(match) else _same


def _same(values: Array) -> Array:
    return values


def _pack(values: Array) -> Array:
    return values[::2] & 0xFFFF | values[1::2] << 16


def _unpack(values: Array) -> Array:
    return np.stack((values & 0xFFFF, values >> 16), axis=1).reshape(-1, values.shape[1])


# ---------------------------------------------------------------- tcgen05.ld.red

_MAGNITUDE, _INFINITY, _NAN = 0x7FFFFFFF, 0x7F800000, 0x7FFFFFFF


def reduction(match: Match) -> Callable[[Array], Array]:
    """The function that computes ``redval`` of a ``tcgen05.ld.red`` from its registers (9.7.16.8.3).

    uint32 (registers, 32) -> uint32 (32,). NaN, -0 and ``.abs`` are treated as in ``min`` and ``max`` (9.7.3.11,
    9.7.3.12). Raises :class:`Unsupported` for shape ``.16x32bx2``.
    """
    if match.form.name != "tcgen05.ld.red":
        # The manual does not specify whether a thread reduces its own half of a lane or both halves.
        raise Unsupported(match.form.name)
    pick = np.min if match.binding["redOp"] == ".min" else np.max
    if match.element in (".u32", ".s32"):
        kind = np.uint32 if match.element == ".u32" else np.int32
        return lambda values: pick(values.view(kind), axis=0).view(np.uint32)
    absolute, propagates = match.modes.absolute, match.modes.propagates_nan
    # Compared as integers in the order of the numbers, so that -0 < +0; a NaN is never chosen.
    loser = np.int32(_MAGNITUDE if pick is np.min else ~_MAGNITUDE)

    def reduce(values: Array) -> Array:
        magnitude = values & _MAGNITUDE
        missing = magnitude > _INFINITY
        ordered = _ordered((magnitude if absolute else values).view(np.int32))
        best = _ordered(pick(np.where(missing, loser, ordered), axis=0)).view(np.uint32)
        nothing = missing.any(axis=0) if propagates else missing.all(axis=0)
        return np.where(nothing, np.uint32(_NAN), best)

    return reduce


def _ordered(bits: Array) -> Array:
    """Bit patterns of floats as signed integers in the order of the floats; its own inverse."""
    reversed_: Array = bits ^ (bits >> 31 & _MAGNITUDE)
    return reversed_


# ---------------------------------------------------------------- tcgen05.cp

_SOURCE = {
    (".128x256b", None): (128, 8), (".4x256b", None): (4, 8), (".128x128b", None): (128, 4),
    (".64x128b", ".warpx2::02_13"): (64, 4), (".64x128b", ".warpx2::01_23"): (64, 4), (".32x128b", ".warpx4"): (32, 4),
}  # fmt: skip
"""Rows and words of 32 bits that ``tcgen05.cp`` reads (9.7.16.2.3)."""


@dataclass(frozen=True)
class Copy:
    """A ``tcgen05.cp`` (9.7.16.9.2). Each CTA of the group copies from its shared memory to its tensor memory."""

    lanes: Array
    columns: Array
    """The cells that are written: int64 of shapes (lanes, 1) and (1, columns)."""
    _rows: int
    _source: Array
    """The row of the source that each lane receives."""
    _expands: bool

    def __call__(self, read: Read, descriptor: int) -> Array:
        """The values to write: uint32 (lanes, columns), read through the matrix *descriptor* ``s-desc``."""
        words = self.columns.size
        if self._expands:
            packed = load(read, descriptor, Matrix(self._rows, 4 * words, 8, "K", TCGEN05))
            source = np.ascontiguousarray(unpack(packed, 6, True)).view(np.uint32)
        else:
            source = load(read, descriptor, Matrix(self._rows, words, 32, "K", TCGEN05))
        values: Array = source[self._source]
        return values

    def intervals(self, descriptor: int) -> tuple[tuple[int, int], ...]:
        """The bytes of shared memory that it reads, as disjoint ``(start, end)``."""
        return intervals(descriptor, Matrix(self._rows, self.columns.size, 32, "K", TCGEN05))


@cache
def _copy(shape: str, multicast: str | None, expands: bool) -> Copy:
    rows, words = _SOURCE[shape, multicast]
    lane = np.arange(128)
    if shape == ".4x256b":
        lane = source = np.arange(4)
        lane = 32 * lane  # one lane of each warp: that of the address (SM100_UTCCP_4dp256bit_1cta)
    elif multicast == ".warpx2::01_23":
        source = lane // 64 * 32 + lane % 32
    else:
        source = lane % rows
    return Copy(lane[:, None], np.arange(words)[None], rows, source, expands)


def copy(match: Match) -> Copy:
    """The copy of a ``tcgen05.cp``. Its source is a K-major matrix with as many rows as the shape has lanes.

    Raises :class:`Unsupported` for ``.b4x16_p64``.
    """
    stored = match.binding.get("src_fmt")
    if stored == ".b4x16_p64":
        # In the middle of the byte, as tcgen05.mma expects it, or low, as ldmatrix writes it: only figure 195 shows it.
        raise Unsupported("tcgen05.cp.b8x16.b4x16_p64")
    binding = match.binding
    return _copy(binding["shape"], binding.get("multicast"), stored == ".b6x16_p32")


# ---------------------------------------------------------------- the matrices of tcgen05.mma


@dataclass(frozen=True, eq=False)
class Tile:
    """A block of D in the tensor memory of one CTA: some lanes, and the same columns of each (9.7.16.10.5)."""

    rank: int
    """The CTA of the group: 0, or 1 for the odd one of a pair."""
    rows: slice
    columns: slice
    """The block of D. In every tile its first column is at the column of the address."""
    lanes: Array
    """The lane of each row, relative to the lane of the address: int64 (rows,)."""
    blocks: tuple[tuple[int, int], ...]
    """The same lanes as disjoint half-open intervals ``(first, end)``."""


@cache
def tiles(m: int, n: int, pair: bool, ws: bool, sparse: bool) -> tuple[Tile, ...]:
    """The layout of D, *m* x *n*: layouts A to G of 9.7.16.10.5; *pair* means ``.cta_group::2``.

    Every element occupies a cell; one of 16 bits is in its lower half (9.7.16.10.4.1).
    """
    ctas = 1 + pair
    rows = m // ctas  # per CTA
    spread = rows == 64 and not ws and (sparse or not pair)  # F and C: 16 lanes of each warp
    parts = 1 if spread else 128 // rows  # A and D: one; B, E and G: parts of N, in lanes one above the other
    lanes = np.arange(rows)
    if spread:
        lanes = lanes // 16 * 32 + lanes % 16
    found = []
    for rank in range(ctas):
        for part in range(parts):
            own = lanes + rows * part
            starts = own[::16] if spread else own[:1]
            size = 16 if spread else rows
            blocks = tuple((first, first + size) for first in starts.tolist())
            width = n // parts
            found.append(
                Tile(
                    rank,
                    slice(rank * rows, (rank + 1) * rows),
                    slice(part * width, (part + 1) * width),
                    own,
                    blocks,
                )
            )
    return tuple(found)
