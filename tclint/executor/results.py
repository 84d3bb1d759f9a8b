"""Expected results of a launch file, compared with what the kernels left in the buffers (docs/launch-files.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tclint.executor.formats import decode
from tclint.executor.launch import Buffer, Expectation, LaunchError, LaunchFile, load_array
from tclint.executor.memory import Array

__all__ = ["differences"]


def differences(file: LaunchFile, found: Mapping[str, Array]) -> Iterator[str]:
    """A message for each buffer whose final contents in *found* differ from what *file* expects.

    A value differs if it is off by more than the tolerance of the file, times the expected value if that is larger
    than 1. Raises :class:`~tclint.executor.launch.LaunchError` for a file that does not fit its buffer.
    """
    for name, expected in file.expected.items():
        buffer = file.buffers[name]
        want, got = _numbers(buffer, _wanted(file, name, expected)), _numbers(buffer, found[name])
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.abs(got - want)
            bad = ~((off <= file.tolerance * np.maximum(1, np.abs(want))) | (got == want))
            bad &= ~(np.isnan(got) & np.isnan(want))
        if bad.any():
            at = tuple(int(n) for n in np.argwhere(bad)[0])
            yield (
                f"{name}: {int(bad.sum())} of {bad.size} values are not as expected, the first at {list(at)}:"
                f" {got[at]:g} instead of {want[at]:g}"
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
        return decode(buffer.type, values).astype(np.float64)
    return values.astype(np.float64)
