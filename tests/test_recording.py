"""Reading of recorded launches, and what is wrong with a folder in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tclint.recording import RecordingError, read_recording
from tests.tools.recordings import DOUBLE, write_recording

BUFFERS = {0x302000000: (bytes(256), bytes(range(256))), 0x7F4400000000: (bytes(256), None)}
VALUES = [0x302000000.to_bytes(8, "little"), 0x7F4400000000.to_bytes(8, "little"), (64).to_bytes(4, "little")]
MAP: dict[str, Any] = {
    "bytes": "5a" * 128, "mode": "tile", "address": 0, "type": 6, "dimensions": [64, 64], "strides": [128],
    "element_strides": [1, 1], "box": [32, 5], "interleave": 0, "swizzle": 0, "fill": 0,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_recording(tmp_path / "folder", DOUBLE, "double", VALUES, BUFFERS)


def change(folder: Path, **changes: Any) -> None:
    path = folder / "launch.json"
    found = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in found.items() if value is not ...}, default=str))


def error(folder: Path) -> str:
    with pytest.raises(RecordingError) as raised:
        read_recording(folder)
    return str(raised.value).removeprefix(f"{folder}: ")


def test_a_recording_is_read(folder: Path) -> None:
    found = read_recording(folder)
    assert (found.kernel, found.grid, found.block, found.cluster) == ("double", (1, 1, 1), (64, 1, 1), None)
    assert found.values == tuple(VALUES)
    first, second = found.allocations
    assert (first.address, first.size, first.after) == (0x302000000, 256, folder / "buffer_0.after")
    assert second.after is None


def test_a_folder_without_a_description_is_named(tmp_path: Path) -> None:
    assert error(tmp_path) == "not a recorded launch: it has no launch.json"


def test_a_description_that_is_nested_too_deeply_is_an_error(folder: Path) -> None:
    (folder / "launch.json").write_text("[" * 200_000)
    assert error(folder).startswith("launch.json: ")


def test_what_a_killed_capture_leaves_is_incomplete(tmp_path: Path) -> None:
    (tmp_path / "123").mkdir()
    (tmp_path / "123/log").write_text("ready\n")
    assert error(tmp_path) == "an incomplete capture"


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "buffer_1.before").unlink()
    assert error(folder) == "an incomplete capture: buffer_1.before is missing"


def test_a_file_of_another_size_is_named(folder: Path) -> None:
    (folder / "buffer_0.after").write_bytes(bytes(100))
    assert error(folder) == "buffer_0.after has 100 bytes, not 256"


def test_a_newer_version_is_named(folder: Path) -> None:
    change(folder, version=2)
    assert error(folder) == "has version 2 of the format; this tclint reads 1"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"grid": ...}, "launch.json: grid is missing"),
        ({"grid": [1, 1]}, "launch.json: grid is '[1, 1]'"),
        ({"block": [0, 1, 1]}, "launch.json: block is '[0, 1, 1]'"),
        ({"block": [1, 1, 65]}, "launch.json: block is '[1, 1, 65]'"),
        ({"block": [1024, 2, 1]}, "launch.json: block is '[1024, 2, 1]'"),
        ({"grid": [1, 1 << 64, 1]}, "launch.json: grid is '[1, 18446744073709551616, 1]'"),
        ({"cluster": [1 << 31, 1, 1]}, "launch.json: cluster is '[2147483648, 1, 1]'"),
        ({"cluster": [4, 4, 2]}, "launch.json: cluster is '[4, 4, 2]'"),
        ({"shared": 1 << 31}, "launch.json: shared is '2147483648'"),
        ({"kernel": 5}, "launch.json: kernel is '5'"),
        ({"version": "x"}, "launch.json does not describe a launch"),
        ({"ptx": "../kernel.ptx"}, "launch.json: '../kernel.ptx' is not the name of a file in the folder"),
        ({"ptx": "a" * 300}, f"{'a' * 60} cannot be read: File name too long"),
        ({"parameters": {"bytes": "0g", "layout": []}}, "launch.json: bytes is not hexadecimal"),
        ({"parameters": {"bytes": "00", "layout": [[0, 8]]}}, "parameters.layout: 8 bytes at 0 are not in the 1 bytes"),
        ({"maps": [{**MAP, "bytes": "00"}]}, "launch.json: a tensor map of 1 bytes"),
        ({"maps": [{**MAP, "box": ["x"]}]}, "launch.json: box is \"['x']\""),
    ],
)  # fmt: skip
def test_a_wrong_description_is_named(folder: Path, changes: dict[str, Any], words: str) -> None:
    change(folder, **changes)
    assert error(folder) == words


def test_text_that_is_not_json_is_named(folder: Path) -> None:
    (folder / "launch.json").write_text("{")
    assert error(folder).startswith("launch.json: Expecting property name")


def test_overlapping_allocations_are_named(tmp_path: Path) -> None:
    buffers = {0x1000: (bytes(256), None), 0x10FF: (bytes(16), None)}
    folder = write_recording(tmp_path / "folder", DOUBLE, "double", VALUES, buffers)
    assert error(folder) == "buffers: those at 0x1000 and 0x10ff overlap"


def test_memory_that_is_not_recorded_is_named_where_it_is_needed(folder: Path) -> None:
    change(folder, buffers=[{"address": 4096, "size": 8, "problem": "4 of at most 4 bytes are left"}])
    found = read_recording(folder)
    with pytest.raises(
        RecordingError, match="the 8 bytes at 0x1000 are not recorded: 4 of at most 4 bytes are left"
    ):
        found.require_memory()


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 2 * 32 * 5),
        ({"type": 0}, 32 * 5),
        ({"element_strides": [1, 2]}, 2 * 32 * 3),
        ({"type": 13}, 16 * 5),
        ({"type": 99}, None),
    ],
)
def test_the_bytes_of_a_box(folder: Path, changes: dict[str, Any], count: int | None) -> None:
    change(folder, maps=[MAP | changes])
    assert read_recording(folder).maps[0].box_bytes == count


def test_a_kernel_with_other_parameters_is_named(folder: Path) -> None:
    found = read_recording(folder)
    found.require_kernel("k.ptx", [8, 8, 4])
    with pytest.raises(
        RecordingError, match=r"double has parameters of 8, 8, 4 bytes; in k\.ptx, of 8 bytes"
    ):
        found.require_kernel("k.ptx", [8])
    with pytest.raises(RecordingError, match=r"a launch of double, which k\.ptx does not contain"):
        found.require_kernel("k.ptx", None)
