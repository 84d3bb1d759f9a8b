"""A recorded launch (:mod:`tclint.recording`) as a launch file: the same memory, at the same addresses."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tclint.executor import launch
from tclint.executor.launch import Buffer, Launch, LaunchError, LaunchFile, translate_maps
from tclint.executor.tensor_maps import INTERLEAVES, TensorMap
from tclint.recording import RecordedMap, Recording, RecordingError, read_recording

__all__ = ["read"]

_TYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32.ftz", "tf32", "tf32.ftz",
    "b4x16", "b4x16_p64", "b6x16_p32",
)  # fmt: skip
"""In the order of CUDA's enumeration, which is not that of the ISA."""
_SWIZZLES = (
    (0, "16B"),
    (32, "16B"),
    (64, "16B"),
    (128, "16B"),
    (128, "32B"),
    (128, "32B+8B flip"),
    (128, "64B"),
)
"""Swizzle and atomicity, in the order of CUDA's enumeration."""
_FILLS = ("zeros", "nan")


def read(path: Path | str) -> LaunchFile:
    """The launch file at *path*, or the recorded launch in a folder. Raises :class:`LaunchError`."""
    path = Path(path)
    return _recorded(path) if path.is_dir() else launch.read(path)


def _recorded(path: Path) -> LaunchFile:
    try:
        found = read_recording(path)
        found.require_memory()
    except RecordingError as error:
        raise LaunchError(str(error)) from None
    buffers, expected = {}, {}
    for number, allocation in enumerate(found.allocations):
        name = allocation.variable or f"buffer_{number}"
        buffers[name] = Buffer("u8", (allocation.size,), file=allocation.before, address=allocation.address)
        if found.end == "done" and not allocation.problem:
            expected[name] = allocation.after or allocation.before
    encoded = _encoded(found)
    parameters = (np.frombuffer(value, np.uint8).copy() for value in found.values)
    values = tuple(translate_maps(value, encoded).tobytes() for value in parameters)
    step = Launch(found.kernel, found.grid, found.block, found.cluster, found.shared, values)
    wanted = {name: file for name, file in expected.items() if file is not None}
    return LaunchFile(path, found.ptx, buffers, {}, (step,), wanted, recorded=found, encoded=encoded)


def _encoded(found: Recording) -> dict[bytes, bytes]:
    """The maps that the executor can read: the driver's bytes, and those of the executor.

    Raises :class:`LaunchError` for any other map that is passed in a parameter.
    """
    encoded = {}
    for recorded in found.maps:
        try:
            encoded[recorded.data] = _tensor_map(recorded).encode()
        except ValueError as error:
            if any(recorded.data in value for value in found.values):
                raise LaunchError(f"{found.path}: a tensor map that cannot be executed: {error}") from None
    return encoded


def _tensor_map(recorded: RecordedMap) -> TensorMap:
    """Raises ValueError for what the executor does not know."""
    numbers = (recorded.type, len(_TYPES)), (recorded.swizzle, len(_SWIZZLES)), (recorded.fill, len(_FILLS))
    if recorded.mode == "im2col-wide" or any(number >= count for number, count in numbers):
        raise ValueError(f"mode {recorded.mode}, type {recorded.type}, swizzle {recorded.swizzle}")
    if recorded.interleave >= len(INTERLEAVES):
        raise ValueError(f"interleave {recorded.interleave}")
    swizzle, atomicity = _SWIZZLES[recorded.swizzle]
    return TensorMap(
        recorded.address, _TYPES[recorded.type], recorded.dimensions, recorded.strides, recorded.box,
        recorded.element_strides, swizzle, atomicity, INTERLEAVES[recorded.interleave], _FILLS[recorded.fill],
        recorded.mode, recorded.lower, recorded.upper, recorded.channels, recorded.pixels,
    )  # fmt: skip
