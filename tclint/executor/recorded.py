"""A recorded launch (:mod:`tclint.recording`) as a launch file: the same memory, at the same addresses."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from tclint.executor import launch
from tclint.executor.errors import Unsupported
from tclint.executor.launch import Buffer, Launch, LaunchError, LaunchFile
from tclint.executor.tensor_maps import INTERLEAVES, TensorMap
from tclint.recording import RecordedMap, Recording, RecordingError, read_recording

__all__ = ["map_type", "read"]

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
    step = Launch(found.kernel, found.grid, found.block, found.cluster, found.shared, found.values)
    wanted = {name: file for name, file in expected.items() if file is not None}
    return LaunchFile(
        path,
        found.ptx,
        buffers,
        {},
        (step,),
        wanted,
        recorded=found,
        recorded_map=_maps(found),
        files=tuple(file for file in path.rglob("*") if file.is_file()),
    )


def _maps(found: Recording) -> Callable[[bytes], TensorMap | None]:
    """The tensor map that 128 bytes of the launch are; None if they are none. It raises :class:`Unsupported` for a map
    that cannot be executed."""

    @cache
    def read_map(data: bytes) -> TensorMap | None:
        recorded = found.map_of(data)
        try:
            return None if recorded is None else _tensor_map(recorded)
        except ValueError as error:
            raise Unsupported(f"a tensor map that cannot be executed: {error}") from None

    return read_map


def map_type(recorded: RecordedMap) -> str:
    """What a tensor map of PTX calls the type of the elements; empty for a number that is not known."""
    return _TYPES[recorded.type] if recorded.type < len(_TYPES) else ""


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
