"""Reading of recorded launches, and what is wrong with a folder in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tclint.recording import RecordedMap, RecordingError, decode_map, read_recording
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
        (
            {"maps": [{**MAP, "element_strides": [1]}]},
            "launch.json: a tensor map with lists for different numbers of dimensions",
        ),
        ({"maps": [{**MAP, "element_strides": [1, 0]}]}, "launch.json: a tensor map with a size or step below 1"),
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


# ---------------------------------------------------------------- tensor maps that a program makes itself

ENCODED = {
    "c0f243c8507e000080020600000000000000000000000000000000000000000004000000000000000000000000000000000000000000001f0000000000000000":
        ("tile", 138885422379712, 5, (5,), (), (1,), (32,), (), (), 0, 0, 0, 0, 0),
    "a0fa214989040000906303006240000000000000000000000000000000000000ffff0000000000000000000000000000000000000000001f0300000000000000":
        ("tile", 4987683994272, 11, (65536, 1), (263712,), (1, 1), (32, 4), (), (), 0, 0, 0, 3, 0),
    "407a278b0700000040ad00005800002060010080800500000016000000820000fefffffffeffffff630000003f0000007f0000003a70000f03000f3f00000000":
        ("tile", 32399391296, 9, (4294967295, 4294967295, 100, 64, 128), (8589936000, 34359744000, 137438976000, 549755904000),
         (3, 8, 1, 1, 8), (16, 4, 1, 16, 64), (), (), 0, 0, 1, 1, 1),
    "a08d4db60b000000a03402001001000040040000000000000000000000000000bf000000ffff0f00010000000000000000000000c101001f01ff000000000000":
        ("tile", 50303176096, 8, (192, 1048576, 2), (4352, 17408), (2, 1, 8), (32, 2, 256), (), (), 0, 0, 2, 1, 0),
    "401780ff22c6020021040300190000006400000000000000000000000000000063000000ffff0f000700000000000000000000000000000ffcff0300ff030000":
        ("im2col", 780803571193664, 12, (100, 1048576, 8), (400, 1600), (1, 1, 1), (), (-4,), (3,), 16, 1024, 0, 0, 0),
    "a0ec86e2905e0000318506000000020000000800000020000000000000000000ffff0f00e7030000ffff0000e703000000000000790e000ff800f9ffff030000":
        ("im2col", 103976368794784, 9, (1048576, 1000, 65536, 1000), (2097152, 8388608, 33554432), (2, 8, 2, 8), (), (-8, 0),
         (-7, -1), 16, 1024, 0, 0, 1),
    "70e7e81306000000418404006c000000b0010000d80700002a200000000000000f00000004000000ffff00000f000000e70300004f100003190f00600f000000":
        ("im2col", 26103834480, 10, (16, 5, 65536, 16, 1000), (1728, 6912, 32128, 131744), (8, 2, 2, 1, 2), (), (-7, -8, 3),
         (0, 0, -8), 4, 16, 0, 0, 1),
}  # fmt: skip
"""The first 64 bytes of tensor maps that a driver made on an H100, and the arguments that it was given."""


@pytest.mark.parametrize("given", ENCODED)
def test_the_bytes_of_a_tensor_map_are_decoded(given: str) -> None:
    data = bytes.fromhex(given) + bytes(range(64))  # the second half has no meaning
    assert decode_map(data) == RecordedMap(data, *ENCODED[given])


def changed(given: str, bit: int) -> bytes:
    return (int.from_bytes(bytes.fromhex(given), "little") ^ 1 << bit).to_bytes(64, "little") + bytes(64)


@pytest.mark.parametrize(
    "bit", [3, 70, 83, 86, 95, 240, 255, 384, 430, 431, 439, 456, 511], ids=lambda bit: f"bit {bit}"
)
def test_bytes_with_a_bit_that_no_tensor_map_has_are_none(bit: int) -> None:
    tile = next(iter(ENCODED))
    assert decode_map(changed(tile, 300)) is None, "a dimension beyond the rank"
    assert decode_map(changed(list(ENCODED)[3] if bit == 70 else tile, bit)) is None


def test_other_parameters_are_no_tensor_maps() -> None:
    pointer = (0x7F4400000000).to_bytes(8, "little")
    assert decode_map(bytes(128)) is None
    assert decode_map(pointer * 16) is None
    for count in (1, 16, 256, 0x380):  # a pointer, and a number that could be a type
        assert decode_map(pointer + count.to_bytes(8, "little") + bytes(112)) is None


KERNEL = """\
.version 8.3
.target sm_90a
.address_size 64
.visible .entry with_map(.param .align 64 .b8 given[192], .param .u64 to) { ret; }
"""


@pytest.mark.parametrize(
    ("capability", "address", "count"), [([9, 0], 0, 1), ([10, 0], 0, 0), ([9, 0], 1 << 20, 0)]
)
def test_a_tensor_map_that_the_program_made_is_found_in_the_parameters(
    tmp_path: Path, capability: list[int], address: int, count: int
) -> None:
    """It is in a structure, after 64 other bytes, and refers to recorded memory."""
    encoded = bytes.fromhex(list(ENCODED)[1])
    start = int.from_bytes(encoded[:8], "little")
    given = bytes(range(64)) + encoded + bytes(64)
    memory = {start - address: (bytes(256), None)}
    values = [given, bytes(8)]
    folder = write_recording(tmp_path / "map", KERNEL, "with_map", values, memory, capability=capability)
    found = read_recording(folder)
    maps = [found.map_at(0, at) for at in range(0, 192, 64)]
    assert [recorded.address for recorded in maps if recorded is not None] == [start] * count
    assert (maps[1] is not None) == bool(count)
    assert found.map_at(2, 0) is None


def test_a_tensor_map_in_memory_is_found_by_its_address(tmp_path: Path) -> None:
    encoded = bytes.fromhex(list(ENCODED)[1]) + bytes(64)
    start = int.from_bytes(encoded[:8], "little")
    at, held = 0x302000000, bytes(64) + encoded
    memory = {start: (bytes(256), None), at: (held, None)}
    folder = write_recording(
        tmp_path / "map", KERNEL, "with_map", [bytes(192), bytes(8)], memory, capability=[9, 0]
    )
    found = read_recording(folder)
    maps = [found.map_in(address) for address in (at, at + 64, at + 128, at - 64, 0)]
    assert [None if recorded is None else recorded.address for recorded in maps] == [
        None,
        start,
        None,
        None,
        None,
    ]
