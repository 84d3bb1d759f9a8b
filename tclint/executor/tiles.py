"""Tiles that tensor copies have written, and the matrices that descriptors read of them (PTX ISA 5.5.7, 9.7.15.5.1).

A copy writes the rows of a box one after another and permutes chunks of 16 bytes by the swizzle of its tensor map. A
descriptor states how a multiplication finds them again. Both have an *unswizzled* address for each chunk, and these must be
equal: otherwise the two disagree on the swizzle, or on where its pattern begins. The strides of the descriptor decide which
rows of the box it reads. They must be as many different ones as the matrix has and, where the matrix reaches beyond a box,
successive ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tclint._named_tuple import NamedTuple
from tclint.executor import descriptors
from tclint.executor.descriptors import CHUNK, Chunks, Matrix
from tclint.executor.memory import Array
from tclint.executor.state import Shared, Warp
from tclint.executor.tensor_maps import TensorMap, pattern

__all__ = ["check_matrices", "land"]


class _Box(NamedTuple):
    """A box in shared memory."""

    site: int
    """The copy that wrote it."""
    tensor: TensorMap
    start: int


class Tiles:
    """For each chunk of the shared memory of a CTA, the box that was last copied to it."""

    def __init__(self, size: int) -> None:
        chunks = -(-size // CHUNK)
        self.boxes: list[_Box] = []
        self._numbers: dict[_Box, int] = {}
        self.number: Array = np.full(chunks, -1, np.int32)
        """The index of the box; -1 if none was copied."""
        self.unswizzled: Array = np.zeros(chunks, np.int64)
        """The address that it had without the swizzle."""

    def add(self, box: _Box, starts: Array, unswizzled: Array) -> None:
        """Record a box that was written at *starts*."""
        number = self._numbers.setdefault(box, len(self.boxes))
        if number == len(self.boxes):
            self.boxes.append(box)
        self.number[starts // CHUNK] = number
        self.unswizzled[starts // CHUNK] = unswizzled // CHUNK * CHUNK

    def written(self, memory: Shared, chunks: Array) -> Array:
        """Which of the *chunks* still hold what a tensor copy wrote."""
        numbers = self.number[chunks]
        sites = np.array([box.site for box in self.boxes] + [-1])
        found: Array = (numbers >= 0) & (memory.writer[chunks * (CHUNK // 4)] == sites[numbers])
        return found


def land(memory: Shared, site: int, tensor: TensorMap, start: int, starts: Array, unswizzled: Array) -> None:
    """Record that the copy *site* wrote a box at the address *start*: its units at *starts*, by their addresses without
    the swizzle."""
    if memory.tiles is None:
        memory.tiles = Tiles(memory.size)
    memory.tiles.add(_Box(site, tensor, start), starts, unswizzled)


def check_matrices(w: Warp, site: int, memory: Shared, matrices: Iterable[tuple[int, Matrix]]) -> None:
    """Report matrices, by their descriptors, that the instruction *site* reads in another layout than copies wrote."""
    tiles: Tiles | None = memory.tiles
    if tiles is None:
        return
    for descriptor, matrix in matrices:
        found = _contradiction(memory, tiles, descriptor, matrix)
        if found is not None:
            box, text = found
            w.machine.observe("tile-layout", w, text, box.site, site)


def _contradiction(memory: Shared, tiles: Tiles, descriptor: int, matrix: Matrix) -> tuple[_Box, str] | None:
    """A box that a matrix reads in another layout than it has, and how."""
    layout = descriptors.chunks(descriptor, matrix)
    chunks = layout.addresses // CHUNK
    written = tiles.written(memory, chunks)
    if not written.any():
        return None
    reads = f"the descriptor {descriptor:#x} reads"
    wrong = written & (tiles.unswizzled[chunks] != layout.unswizzled)
    box = tiles.boxes[int(tiles.number[chunks[wrong if wrong.any() else written]][0])]
    permuted = (
        box.tensor.swizzle and box.tensor.rows > 1
    )  # else its only row may be where the pattern permutes nothing
    if wrong.any() or (permuted and pattern(box.tensor) != layout.pattern):
        return box, f"{reads} {_swizzles(box.tensor, layout)}"
    if box.tensor.padded not in (0, matrix.padded):
        what = f"elements of {matrix.padded} bits" if matrix.padded else "elements that are not padded"
        return box, f"{reads} {what} where the tensor map of the copy has {box.tensor.type}"
    if not written.all() or not layout.width:
        return None  # what else is there may be of any layout
    if layout.strides and len(np.unique(chunks)) < chunks.size:
        return box, f"{reads} some rows of a box twice, by its strides"
    if (left := _left_out(tiles, chunks)) is not None:
        return left, f"{reads} beyond a box and leaves out some of its rows, by its strides"
    return None


def _swizzles(tensor: TensorMap, layout: Chunks) -> str:
    """How the copy and the descriptor differ."""
    if pattern(tensor) == layout.pattern:
        return f"a tile as if its swizzle of {layout.width} bytes began elsewhere, by its base offset"
    read, wrote = (f"a swizzle of {n} bytes" if n else "no swizzle" for n in (layout.width, tensor.swizzle))
    unit = f", {tensor.atomicity} at a time" if tensor.atomicity != "16B" else ""
    return f"with {read} what the tensor map of the copy writes with {wrote}{unit}"


def _left_out(tiles: Tiles, chunks: Array) -> _Box | None:
    """A box of which some rows between the first and the last that are read are not, if several boxes are read."""
    numbers = tiles.number[chunks]
    if (numbers == numbers.flat[0]).all():
        return None
    for number in np.unique(numbers).tolist():
        box: _Box = tiles.boxes[number]
        rows = np.unique((tiles.unswizzled[chunks[numbers == number]] - box.start) // box.tensor.pitch)
        if rows[-1] - rows[0] >= len(rows):
            return box
    return None
