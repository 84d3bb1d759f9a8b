"""Expected results of a launch, compared with what the kernels left in the buffers.

What is expected is in the launch file (docs/launch-files.md), or is what the GPU made in a recorded launch
(docs/capture.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np

from tclint._named_tuple import NamedTuple
from tclint.executor.formats import decode
from tclint.executor.launch import TYPES, Buffer, Expectation, LaunchError, LaunchFile, load_array
from tclint.executor.memory import Array
from tclint.executor.stored_types import Piece
from tclint.executor.tensor_maps import SIZE
from tclint.executor.tensor_maps import decode as tensor_map

__all__ = ["Compared", "compared"]


class Compared(NamedTuple):
    """The comparison of the buffers of a launch with its expected results."""

    differences: tuple[str, ...]
    """A message for each buffer that differs."""
    made_maps: int
    """How many tensor maps the kernel made or changed in memory. Their bytes on the GPU have the driver's format."""
    rounded: tuple[str, ...] = ()
    """The types of numbers that differ by no more than is allowed."""


def compared(
    file: LaunchFile, found: Mapping[str, Array], split: Callable[[], Mapping[int, tuple[Piece, ...]]] = dict
) -> Compared:
    """Compares the contents *found* with the results that the launch file expects, or that the GPU had in a recorded launch.

    *split* has the pieces of each allocation of a recorded launch, by address; one without pieces is a piece of bytes.
    Raises :class:`~tclint.executor.launch.LaunchError` for a file that does not fit its buffer.
    """
    if file.recorded is None:
        return Compared(tuple(_unexpected(file, found)), 0)
    parts = cache(split)
    pairs = [_recorded(file, name, found[name], parts) for name in file.expected]
    differences = [each for some, _ in pairs for each in some]
    return Compared(
        tuple(each.text for each in differences if each.text),
        sum(maps for _, maps in pairs),
        tuple(sorted({each.type for each in differences if not each.text})),
    )


def _unexpected(file: LaunchFile, found: Mapping[str, Array]) -> Iterator[str]:
    """A message for each buffer that differs from what a launch file expects.

    A value differs if it is off by more than :func:`_allowed`.
    """
    for name, expected in file.expected.items():
        buffer = file.buffers[name]
        want, got = _numbers(buffer, _wanted(file, name, expected)), _numbers(buffer, found[name])
        bad = _off(got, want, _allowed(file, buffer.type, want, want))
        if bad.any():
            at = tuple(int(n) for n in np.argwhere(bad)[0])
            yield (
                f"{name}: {int(bad.sum())} of {bad.size} values ({_share(int(bad.sum()), bad.size)}) are not as expected, the "
                f"first at {list(at)}: {got[at]:g} instead of {want[at]:g}{_largest(got[bad], want[bad])}"
            )


def _made_maps(data: Array, at: Array) -> Array:
    """Of the blocks of 128 bytes in which the bytes *at* are, those that are a tensor map of the executor."""
    blocks = np.unique(at // SIZE)
    return np.array(
        [n for n in blocks.tolist() if _is_map(data[n * SIZE : (n + 1) * SIZE].tobytes())], np.int64
    )


def _is_map(data: bytes) -> bool:
    try:
        tensor_map(data)
    except ValueError:
        return False
    return True


_ROUNDING = {
    "f64": 2.0**-44, "f32": 2.0**-16, "f16": 2.0**-9, "bf16": 2.0**-6, "e4m3": 2.0**-2, "e5m2": 2.0**-1,
}  # fmt: skip
"""The relative difference that sums of another order and approximate instructions explain, by the type of the elements: two
units in the last place of a type that a result is rounded to, and more where sums have the same type. Others are exact."""


def _allowed(file: LaunchFile, type: str, want: Array, tensor: Array) -> Array:
    """How far each number may be off the expected ones, *want*, which are some of those of a *tensor*.

    That is the tolerance of the file, times the number if it is larger than 1. Without one, it is what rounding explains, times
    the number, or times the median of the tensor if that is larger: a sum that cancels is as inexact as its terms.
    """
    size = np.abs(want)
    if file.tolerance is not None:
        return np.asarray(file.tolerance * np.maximum(1, size))
    sizes = np.abs(tensor[np.isfinite(tensor) & (tensor != 0)])
    return np.asarray(_ROUNDING.get(type, 0.0) * np.maximum(size, np.median(sizes) if sizes.size else 0.0))


def _off(got: Array, want: Array, allowed: Array) -> Array:
    """Which numbers are off by more than is *allowed*."""
    with np.errstate(invalid="ignore", over="ignore"):
        bad: Array = ~((np.isfinite(want) & (np.abs(got - want) <= allowed)) | (got == want))
    return bad & ~(np.isnan(got) & np.isnan(want))


def _share(some: int, all: int) -> str:
    """The share of *some* of *all* in percent, with two digits: ``0.024 %``."""
    return f"{100 * some / all:.2g} %" if some < all else "100 %"


def _largest(got: Array, want: Array) -> str:
    """The largest difference of numbers, in words; empty if there are not two, or one is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(got - want)
    if off.size < 2 or not np.isfinite(off).all():
        return ""
    at = int(np.argmax(off))
    return f"; the largest difference is {off[at]:.3g}, from {want[at]:g}"


class _Difference(NamedTuple):
    """How a piece of a buffer differs from what the GPU left there."""

    text: str
    """A message; empty if rounding explains all of it."""
    type: str
    """The type as which it was compared; empty for bytes."""


def _recorded(
    file: LaunchFile, name: str, found: Array, split: Callable[[], Mapping[int, tuple[Piece, ...]]]
) -> tuple[list[_Difference], int]:
    """How a buffer differs from what the GPU left in it, by pieces, and the number of tensor maps that the kernel made there.

    The pieces are those of *split*, or the whole buffer, if its type is stated.
    """
    buffer, expected = file.buffers[name], file.expected[name]
    assert isinstance(expected, Path)
    want, found = np.fromfile(expected, np.uint8), found.view(np.uint8)
    at = np.flatnonzero(found != want)
    if not at.size:
        return [], 0
    made = _made_maps(found, at)
    for number in made.tolist():
        want[number * SIZE : (number + 1) * SIZE] = found[number * SIZE : (number + 1) * SIZE]
    whole = Piece(0, buffer.size, file.element_type)
    parts = (whole,) if file.element_type else split().get(buffer.address or 0, (whole,))
    differing = (_difference(file, name, piece, found, want) for piece in parts)
    return [each for each in differing if each is not None], len(made)


def _difference(file: LaunchFile, name: str, piece: Piece, found: Array, want: Array) -> _Difference | None:
    """How a *piece* of a buffer differs; None if its bytes are equal.

    Bytes are compared; with a type of the elements, those that differ are compared as numbers, within the tolerance. A
    piece that no number of such elements fills is not an array of them, and is compared as bytes.
    """
    start, size = piece.start, piece.stop - piece.start
    type = piece.type if piece.type and not size % TYPES[piece.type].itemsize else ""
    kind = TYPES[type] if type else np.dtype("u4" if size % 4 == 0 else "u1")
    ours, theirs = (data[start : piece.stop].view(kind) for data in (found, want))
    at = np.flatnonzero(ours.view(f"u{kind.itemsize}") != theirs.view(f"u{kind.itemsize}"))
    if not at.size:
        return None
    got, wanted = ours[at], theirs[at]
    if type:
        element = Buffer(type, (at.size,))
        got, wanted = _numbers(element, got), _numbers(element, wanted)
        bad = _off(got, wanted, _allowed(file, type, wanted, _numbers(Buffer(type, (len(theirs),)), theirs)))
        at, got, wanted = at[bad], got[bad], wanted[bad]
    if not at.size:
        return _Difference("", type)
    unit = type or f"{kind.itemsize}-byte word"
    values = [f"{v[0]:g}" if type else f"{int(v[0]):#x}" for v in (got, wanted)]
    why = f"{piece.why}: " if piece.why else ""
    return _Difference(
        f"{name} at {(file.buffers[name].address or 0) + start:#x}: {at.size} of {len(ours)} values ({unit},"
        f" {_share(at.size, len(ours))}) differ from those of the GPU, the first at byte {int(at[0]) * kind.itemsize}:"
        f" {values[0]} instead of {values[1]}"
        f"{_largest(got, wanted) if type else f'; {why}name their --type to compare them as numbers'}",
        type,
    )


def _wanted(file: LaunchFile, name: str, expected: Expectation) -> Array:
    buffer = file.buffers[name]
    if isinstance(expected, int | float):
        return np.full(buffer.shape, expected, np.float64)
    try:
        wanted = load_array(expected)
    except (OSError, ValueError) as error:
        raise LaunchError(f"{file.path}: {expected.name}: {error}: expected.{name}") from None
    if wanted.dtype.kind == "V" and wanted.dtype.itemsize == buffer.dtype.itemsize:
        wanted = wanted.view(buffer.dtype)  # numpy saves the types of ml_dtypes as void
    if wanted.shape != buffer.shape:
        shapes = f"{list(wanted.shape)}, not {list(buffer.shape)}"
        raise LaunchError(f"{file.path}: {expected.name} has shape {shapes}: expected.{name}")
    return wanted


def _numbers(buffer: Buffer, values: Array) -> Array:
    """Values of a buffer as numbers; bit patterns are decoded."""
    if buffer.has_bit_patterns and values.dtype == buffer.dtype:
        values = decode(buffer.type, values)
    with np.errstate(invalid="ignore"):  # signalling NaNs, which bytes of other types may be
        return values.astype(np.float64)
