"""Launch files: the benchmarks' own, every key and every error, and whether a launch suits a kernel."""

from __future__ import annotations

import json
import os
import re
import struct
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import launch as benchmark
from benchmarks.corpus.fixtures import FOLDER as KERNELS
from benchmarks.hardware import LAUNCHES, launches
from tclint.executor import tensor_maps
from tclint.executor.launch import (
    TYPES,
    Buffer,
    Launch,
    LaunchError,
    LaunchFile,
    MapValue,
    Metadata,
    Pointer,
    fits,
    geometry,
    read,
    triton_launch,
)  # fmt: skip
from tclint.executor.results import compared
from tclint.executor.tensor_maps import TensorMap, decode
from tclint.ir import Function, Module
from tests.tools.project import ROOT
from tests.tools.support import HOPPER, built, function

FILES = sorted(LAUNCHES.glob("*.launch.toml"))
START = """
[buffers]
x = { type = "f32", shape = [8, 64], values = [-9, 9] }
y = { type = "f16", shape = [4, 16, 64] }

[maps]
tiles = { buffer = "y", box = [1, 8, 64], swizzle = 128 }

[[launches]]
entry = "k"
grid = [6, 2]
block = [128]
cluster = [2]
shared = 1024
arguments = ["x", "tiles", { i32 = -5 }]
"""


def _read(folder: Path, text: str) -> LaunchFile:
    path = folder / "k.launch.toml"
    path.write_text(text, "utf-8")
    return read(path)


def _refused(folder: Path, text: str) -> str:
    """What is said about a file, without its path."""
    with pytest.raises(LaunchError) as caught:
        _read(folder, text)
    path, _, rest = str(caught.value).partition("k.launch.toml: ")
    assert path == f"{folder}/"
    return rest


# ---------------------------------------------------------------- the benchmarks' own


@cache
def _module(path: Path) -> Module:
    return built(path.read_text("utf-8"))


def test_the_benchmarks_have_launch_files() -> None:
    assert len(FILES) >= 38


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_launch_files_of_the_benchmarks(path: Path) -> None:
    """Read, they hold the same as in the benchmarks, and they suit their kernels."""
    file, spec = read(path), launches()[path.name.partition(".")[0]]
    for number in (0, benchmark.FIRST_MUTANT):
        wanted = benchmark.inputs(spec, number)
        found = file.arrays(number)
        assert list(found) == list(wanted)
        for name, array in found.items():
            assert (array.dtype, array.shape) == (wanted[name].dtype, wanted[name].shape)
            assert array.tobytes() == wanted[name].tobytes()
    assert file.ptx is not None
    module = _module(KERNELS / file.ptx.name)
    for launch, step in zip(file.launches, spec["launches"], strict=True):
        kernel = module.function(launch.entry)
        assert kernel is not None
        fits(launch, kernel)
        assert [launch.grid, launch.block] == [
            benchmark._three(step["grid"]),
            benchmark._three(step["block"]),
        ]
        assert (launch.shared, launch.dependent) == (step.get("shared", 0), step.get("dependent", False))


# ---------------------------------------------------------------- what a file says


def test_a_file(tmp_path: Path) -> None:
    file = _read(
        tmp_path, 'ptx = "out/k.ptx"\ntolerance = 0.1\n' + START + '\n[expected]\ny = "x"\n[observed]\n'
    )
    assert file.ptx == tmp_path / "out/k.ptx"
    assert file.buffers == {"x": Buffer("f32", (8, 64), (-9, 9)), "y": Buffer("f16", (4, 16, 64))}
    tensor = TensorMap(0, "f16", (64, 16, 4), (128, 2048), (64, 8, 1), swizzle=128)
    assert file.maps["tiles"].tensor == tensor
    arguments = (Pointer("x"), MapValue("tiles"), struct.pack("<i", -5))
    assert file.launches == (Launch("k", (6, 2, 1), (128, 1, 1), (2, 1, 1), 1024, arguments),)
    assert file.sizes == {"x": 8 * 64 * 4, "y": 4 * 16 * 64 * 2}
    x, y, number = file.parameters(file.launches[0], {"x": 0x1000, "y": 0x20000})
    assert (x, number) == (struct.pack("<Q", 0x1000), struct.pack("<i", -5))
    assert decode(y) == file.maps["tiles"].at(0x20000)
    assert decode(y).address == 0x20000


def test_the_least_file(tmp_path: Path) -> None:
    file = _read(tmp_path, '[[launches]]\nentry = "k"\ngrid = [1]\nblock = [16, 1, 64]\ndependent = true\n')
    assert file.launches == (Launch("k", (1, 1, 1), (16, 1, 64), dependent=True),)
    assert (file.ptx, file.buffers, file.maps, file.arrays(), file.sizes) == (None, {}, {}, {}, {})


SCALARS = {
    "{ u8 = 200 }": b"\xc8",
    "{ s8 = -2 }": b"\xfe",
    "{ i16 = -2 }": b"\xfe\xff",
    "{ s16 = 258 }": b"\x02\x01",
    "{ u32 = 4294967295 }": b"\xff" * 4,
    "{ s64 = -2 }": b"\xfe" + b"\xff" * 7,
    "{ u64 = 9223372036854775807 }": b"\xff" * 7 + b"\x7f",
    "{ f16 = 1.5 }": b"\x00\x3e",
    "{ f16 = 1e9 }": b"\x00\x7c",
    "{ bf16 = -2 }": b"\x00\xc0",
    "{ f32 = 1 }": struct.pack("<f", 1),
    "{ f64 = -inf }": struct.pack("<d", -np.inf),
    "{ e4m3 = 1 }": b"\x38",
    '{ bytes = "00ff10" }': b"\x00\xff\x10",
}


@pytest.mark.parametrize("text", SCALARS)
def test_arguments_by_value(tmp_path: Path, text: str) -> None:
    file = _read(tmp_path, START.replace("{ i32 = -5 }", text))
    assert file.launches[0].arguments[2] == SCALARS[text]


def test_pointers_into_buffers_and_to_maps(tmp_path: Path) -> None:
    text = START.replace("{ i32 = -5 }", '{ buffer = "x", offset = 64 }, { map = "tiles" }, '
                         '{ map = "tiles", pointer = true }')  # fmt: skip
    file = _read(tmp_path, text)
    assert file.launches[0].arguments[2:] == (Pointer("x", 64), MapValue("tiles"), Pointer("tiles"))
    assert file.sizes == {"x": 2048, "y": 8192, "tiles": 128}
    addresses = {"x": 512, "y": 4096, "tiles": 16384}
    found = file.parameters(file.launches[0], addresses)
    assert found[2] == struct.pack("<Q", 576)
    assert decode(found[3]) == file.maps["tiles"].at(4096)
    assert found[4] == struct.pack("<Q", 16384)


# ---------------------------------------------------------------- buffers


def _arrays(folder: Path, buffers: str, number: int = 0) -> dict[str, Any]:
    step = '[[launches]]\nentry = "k"\ngrid = [1]\nblock = [32]\n'
    return _read(folder, f"[buffers]\n{buffers}\n{step}").arrays(number)


def test_contents(tmp_path: Path) -> None:
    buffers = """
a = { type = "f64", shape = [3], values = 0.5 }
b = { type = "i32", shape = [2, 50], values = [-3, 4] }
c = { type = "i32", shape = [2, 50], values = [-3, 4] }
d = { type = "i32", shape = [2, 50], values = [-3, 4], seed = 1 }
e = { type = "f16", shape = [2] }
f = { type = "bf16", shape = [2], values = -1.5 }
g = { type = "e5m2", shape = [400], values = [-2, 2] }
h = { type = "f32", shape = [400], values = [-0.5, 2] }
"""
    found = _arrays(tmp_path, buffers, 3)
    assert found["a"].tolist() == [0.5] * 3
    assert found["b"].dtype == np.int32
    assert set(found["b"].ravel().tolist()) == set(range(-3, 5))
    assert (found["b"] != found["c"]).any()
    assert (found["b"] == found["d"]).all()
    assert (found["b"] != _arrays(tmp_path, buffers, 4)["b"]).any()
    assert np.isnan(found["e"]).all()
    assert (found["f"].dtype, found["f"].tolist()) == (np.uint16, [0xBFC0] * 2)
    assert set(found["g"].tolist()) == {0xC0, 0xBC, 0, 0x3C, 0x40}
    assert -0.5 <= found["h"].min() < 0
    assert 1 < found["h"].max() < 2
    assert len(set(found["h"].tolist())) > 300


def test_contents_from_files(tmp_path: Path) -> None:
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "x.npy", np.asfortranarray(numbers))
    (tmp_path / "in").mkdir()
    (tmp_path / "in/x.bin").write_bytes(numbers.tobytes())
    np.save(
        tmp_path / "b.npy", np.array([0x3F80, 0xC000], "<u2").view("V2")
    )  # as ml_dtypes' bfloat16 is saved
    buffers = """
a = { type = "f32", shape = [3, 4], file = "x.npy" }
b = { type = "f32", shape = [3, 4], file = "in/x.bin" }
c = { type = "bf16", shape = [2], file = "b.npy" }
"""
    found = _arrays(tmp_path, buffers)
    assert (found["a"] == numbers).all()
    assert (found["b"] == numbers).all()
    assert found["c"].tolist() == [0x3F80, 0xC000]
    for array in found.values():
        assert array.flags.c_contiguous
        array.flat[0] = 0  # the file is not touched
    assert (np.load(tmp_path / "x.npy") == numbers).all()


EXPECTED = """
expected = { a = %s }
tolerance = 0.01
[buffers]
a = { type = "%s", shape = [2, 2] }
[[launches]]
entry = "k"
grid = [1]
block = [1]
"""


@pytest.mark.parametrize(
    ("expected", "type", "contents", "message"),
    [
        ("3", "f32", [3, 3, 3.02, 3], ""),
        ("3", "f32", [3, 3, 3.04, 4], "a: 2 of 4 values (50 %) are not as expected, the first at [1, 0]: 3.04 instead of 3; the largest difference is 1, from 3"),
        ("3", "f32", [3, np.nan, 3, 3], "a: 1 of 4 values (25 %) are not as expected, the first at [0, 1]: nan instead of 3"),
        ("'a.npy'", "f32", [0, 1, 2, 3], ""),
        ("'a.npy'", "f32", [0, 1, 2, 5], "a: 1 of 4 values (25 %) are not as expected, the first at [1, 1]: 5 instead of 3"),
        ("'a.npy'", "u32", [0, 1, 2, 3], ""),
        ("1", "bf16", [0x3F80] * 4, ""),
        ("1", "bf16", [0x3F80, 0x3F80, 0x4000, 0x3F80], "a: 1 of 4 values (25 %) are not as expected, the first at [1, 0]: 2 instead of 1"),
        ("'a + 1'", "f32", [7, 7, 7, 7], ""),
    ],
)  # fmt: skip
def test_what_is_expected(
    tmp_path: Path, expected: str, type: str, contents: list[Any], message: str
) -> None:
    np.save(tmp_path / "a.npy", np.arange(4.0).reshape(2, 2))
    file = _read(tmp_path, EXPECTED % (expected, type))
    found = np.array(contents, file.buffers["a"].dtype).reshape(2, 2)
    assert compared(file, {"a": found}) == ((message,) * bool(message), 0, ())
    assert file.unevaluated == (("a",) if "+" in expected else ())


@pytest.mark.parametrize(
    ("type", "want", "got", "differ"),
    [
        ("f32", [1.0, 2, 3, 4], [1.000001, 2, 3, 4], 0),
        ("f32", [1.0, 2, 3, 4], [1.0001, 2, 3, 4], 1),
        ("f32", [1e-7, 2e-7, 3e-7, 4e-7], [2e-7, 2e-7, 3e-7, 4e-7], 1),
        ("f32", [0.0, 2, 3, 4], [1e-6, 2, 3, 4], 0),
        ("f32", [0.0, 0, 0, 0], [1e-6, 0, 0, 0], 1),
        ("f32", [np.inf, 2, 3, 4], [1, 2, 3, 4], 1),
        ("f16", [1.0, 2, 3, 4], [1.001, 2, 3, 4], 0),
        ("f16", [1.0, 2, 3, 4], [1.01, 2, 3, 4], 1),
        ("s32", [1, 2, 3, 400000], [1, 2, 3, 400001], 1),
    ],
)
def test_what_rounding_explains_is_as_expected(
    tmp_path: Path, type: str, want: list[float], got: list[float], differ: int
) -> None:
    """Without a tolerance, that of the type counts; small numbers are not equal because they are small."""
    np.save(tmp_path / "a.npy", np.array(want).reshape(2, 2))
    file = _read(tmp_path, (EXPECTED % ("'a.npy'", type)).replace("tolerance = 0.01\n", ""))
    found = np.array(got, file.buffers["a"].dtype).reshape(2, 2)
    assert len(compared(file, {"a": found}).differences) == differ


def test_an_expected_file_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    file = _read(tmp_path, EXPECTED % ("'a.npy'", "f32"))
    with pytest.raises(LaunchError, match=r"a\.npy: .*: expected\.a"):
        compared(file, {"a": np.zeros((2, 2), np.float32)})
    np.save(tmp_path / "a.npy", np.zeros(4))
    with pytest.raises(LaunchError, match=r"a\.npy has shape \[4\], not \[2, 2\]: expected\.a"):
        compared(file, {"a": np.zeros((2, 2), np.float32)})


@pytest.mark.parametrize(
    ("buffer", "said"),
    [
        ('type = "f32", shape = [4], file = "none.npy"', "No such file"),
        ('type = "f32", shape = [4], file = "none.bin"', "No such file"),
        ('type = "f32", shape = [4], file = "x.npy"', "x.npy has shape [2, 3], not [4]"),
        ('type = "i32", shape = [2, 3], file = "x.npy"', "x.npy holds float32, not int32"),
        ('type = "bf16", shape = [2, 3], file = "x.npy"', "x.npy holds float32, not uint16"),
        ('type = "f32", shape = [4], file = "x.bin"', "x.bin has 12 bytes, not 16"),
        ('type = "f32", shape = [2, 3], file = "text.npy"', "text.npy: "),
        ('type = "f32", shape = [2], file = "objects.npy"', "objects.npy: "),
    ],
)
def test_files_that_do_not_suit(tmp_path: Path, buffer: str, said: str) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    np.save(tmp_path / "objects.npy", np.array([{}, {}]))
    (tmp_path / "x.bin").write_bytes(bytes(12))
    (tmp_path / "text.npy").write_text("x = 1")
    message = _refused(tmp_path, START.replace('type = "f32", shape = [8, 64], values = [-9, 9]', buffer))
    assert said in message
    assert message.endswith(": buffers.x.file")


# ---------------------------------------------------------------- maps


def _map(folder: Path, text: str, buffer: str = 'type = "f16", shape = [4, 16, 64]') -> TensorMap:
    start = START.replace('type = "f16", shape = [4, 16, 64]', buffer)
    text = start.replace('buffer = "y", box = [1, 8, 64], swizzle = 128', f'buffer = "y", {text}')
    return _read(folder, text).maps["tiles"].at(4096)


def test_maps(tmp_path: Path) -> None:
    """Every list is outermost first, as a shape is."""
    found = _map(tmp_path, "box = [2, 8, 32], element_strides = [2, 4, 1], swizzle = 64, fill = 'nan'")
    wanted = TensorMap(4096, "f16", (64, 16, 4), (128, 2048), (32, 8, 2), (1, 4, 2), swizzle=64, fill="nan")
    assert found == wanted
    found = _map(tmp_path, "dimensions = [3, 40], strides = [256], offset = 32, box = [2, 8]")
    assert found == TensorMap(4128, "f16", (40, 3), (256,), (8, 2))
    found = _map(tmp_path, "dimensions = [64, 64], box = [8, 8]")
    assert found == TensorMap(4096, "f16", (64, 64), (128,), (8, 8))
    found = _map(
        tmp_path, "type = 'b4x16', dimensions = [2, 128], box = [1, 64], swizzle = 128, atomicity = '32B'"
    )
    assert found == TensorMap(4096, "b4x16", (128, 2), (64,), (64, 1), swizzle=128, atomicity="32B")
    found = _map(tmp_path, "box = [1, 8, 8], interleave = 32")
    assert found.interleave == 32


@pytest.mark.parametrize(
    ("buffer", "wanted"),
    [("u8", "u8"), ("s8", "u8"), ("e4m3", "u8"), ("ue8m0", "u8"), ("i16", "u16"), ("bf16", "bf16"), ("i32", "s32"),
     ("s64", "s64"), ("u64", "u64"), ("f64", "f64")],
)  # fmt: skip
def test_types_of_maps(tmp_path: Path, buffer: str, wanted: str) -> None:
    found = _map(tmp_path, "box = [4, 16]", f'type = "{buffer}", shape = [16, 32]')
    assert (found.type, found.strides) == (wanted, (32 * found.bits // 8,))


def test_maps_of_images(tmp_path: Path) -> None:
    text = "mode = 'im2col', lower = [-1, -2], upper = [1, 2], channels = 16, pixels = 40, element_strides = [1, 3, 2, 1]"
    found = _map(tmp_path, text, 'type = "f16", shape = [2, 5, 7, 64]')
    wanted = TensorMap(4096, "f16", (64, 7, 5, 2), (128, 896, 4480), (), (1, 2, 3, 1), mode="im2col",
                       lower=(-2, -1), upper=(2, 1), channels=16, pixels=40)  # fmt: skip
    assert found == wanted


# ---------------------------------------------------------------- errors


ERRORS = [
    ("[buffers]", "tol = 3\n[buffers]", "unknown key: tol"),
    ("[buffers]", "ptx = 3\n[buffers]", "3 is not a string: ptx"),
    ("[[launches]]", "[[launch]]", "missing: launches"),
    ("[[launches]]", "[launches]", "is not a list of tables: launches"),
    ("[maps]", "[maps", "Expected ']'"),
    ('x = { type = "f32"', 'x = { type = "f33"', "'f33' is not one of u8, u16"),
    ('x = { type = "f32", shape = [8, 64], values = [-9, 9] }', "x = 3", "not a table: buffers.x"),
    ('type = "f32", ', "", "missing: buffers.x.type"),
    ("shape = [8, 64], ", "", "missing: buffers.x.shape"),
    ("shape = [8, 64]", "shape = []", "no dimensions: buffers.x.shape"),
    ("shape = [8, 64]", "shape = [8, 0]", "a size below 1: buffers.x.shape"),
    ("shape = [8, 64]", "shape = [8, 1.5]", "[8, 1.5] is not a list of integers: buffers.x.shape"),
    ("values = [-9, 9]", "value = [-9, 9]", "unknown key: buffers.x.value"),
    ("values = [-9, 9]", "values = [9, -9]", "[9, -9] is not [low, high]: buffers.x.values"),
    ("values = [-9, 9]", "values = [1, 2, 3]", "[1, 2, 3] is not [low, high]: buffers.x.values"),
    ("values = [-9, 9]", "values = [-9, 9223372036854775808]", "no number can be drawn from [-9, 9223372036854775808]"),
    ("values = [-9, 9]", "values = [-9, inf]", "no number can be drawn from [-9, inf]: buffers.x.values"),
    ("values = [-9, 9]", "values = [nan, 9]", "[nan, 9] is not [low, high]: buffers.x.values"),
    ("values = [-9, 9]", "values = [0, '5']", "[0, '5'] is not [low, high]: buffers.x.values"),
    ('"f32", shape = [8, 64], values = [-9, 9]', '"u8", shape = [8], values = [0, 0.5]', "0.5 is not an integer: buffers.x.values"),
    ("values = [-9, 9]", "values = true", "True is not a number: buffers.x.values"),
    ("values = [-9, 9]", "values = '1'", "'1' is not a number: buffers.x.values"),
    ('"f32", shape = [8, 64], values = [-9, 9]', '"u8", shape = [8], values = [-1, 9]', "-1 is not in 0 to 255: buffers.x.values"),
    ('"f32", shape = [8, 64], values = [-9, 9]', '"u8", shape = [8], values = 0.5', "0.5 is not an integer: buffers.x.values"),
    ("values = [-9, 9]", "values = 1, file = 'x.npy'", "values and file are mutually exclusive: buffers.x.values"),
    ("values = [-9, 9]", "values = 1, seed = 1", "seed without random numbers: buffers.x.seed"),
    ("values = [-9, 9]", "values = [0, 1], seed = -1", "-1 is not an integer of at least 0: buffers.x.seed"),
    ('buffer = "y"', 'buffer = "z"', "no buffer 'z': maps.tiles.buffer"),
    ('buffer = "y", ', "", "missing: maps.tiles.buffer"),
    ("tiles = {", "x = {", "a buffer has the same name: maps.x"),
    ("box = [1, 8, 64]", "box = [8, 64]", "2 values, expected 3: maps.tiles.box"),
    ("box = [1, 8, 64]", "box = [1, 8, 60]", "120 bytes in the innermost dimension are not a multiple of 16: maps.tiles.box"),
    ("box = [1, 8, 64], ", "", "missing: maps.tiles.box"),
    ("swizzle = 128", "swizzle = 48", "48 is not one of 0, 32, 64, 128, 96: maps.tiles.swizzle"),
    ("swizzle = 128", "swizzled = 128", "unknown key: maps.tiles.swizzled"),
    ("swizzle = 128", "offset = 8", "0x8 is not a multiple of 16: maps.tiles.offset"),
    ("swizzle = 128", "offset = 8192", "8192 is not an integer from 0 to 8191: maps.tiles.offset"),
    ("swizzle = 128", "strides = [2048, 120]", "120 is not a multiple of 16: maps.tiles.strides"),
    ("swizzle = 128", "strides = [2048]", "1 values, expected 2: maps.tiles.strides"),
    ("swizzle = 128", "type = 'u8'", "missing, but required with a type: maps.tiles.dimensions"),
    ("swizzle = 128", "type = 'e4m3', dimensions = [64]", "'e4m3' is not one of u8"),
    ("swizzle = 128", "mode = 'im2col'", "missing: maps.tiles.lower"),
    ("swizzle = 128", "lower = [1]", "unknown key: maps.tiles.lower"),
    ("swizzle = 128", "mode = 'im2col::w', lower = [], upper = [], channels = 1, pixels = 1", "unknown key: maps.tiles.box"),
    ('entry = "k"\n', "", "missing: launches[0].entry"),
    ("grid = [6, 2]\n", "", "missing: launches[0].grid"),
    ("grid = [6, 2]", "grid = 6", "6 is not a list of integers: launches[0].grid"),
    ("grid = [6, 2]", "grid = [6, 2, 1, 1]", "4 sizes, expected 1 to 3: launches[0].grid"),
    ("grid = [6, 2]", "grid = [6, 65536]", "65536 is not in 1 to 65535: launches[0].grid"),
    ("grid = [6, 2]", "grid = [0]", "0 is not in 1 to 2147483647: launches[0].grid"),
    ("grid = [6, 2]", "grid = [5, 2]", "[5, 2, 1] is not a multiple of the cluster, [2, 1, 1]: launches[0].grid"),
    ("block = [128]", "block = [64, 32]", "2048 threads, more than 1024: launches[0].block"),
    ("block = [128]", "block = [1, 1, 65]", "65 is not in 1 to 64: launches[0].block"),
    ("cluster = [2]", "cluster = [6, 2, 2]", "24 CTAs, more than 16: launches[0].cluster"),
    ("shared = 1024", "shared = 232449", "232449 is not an integer from 0 to 232448: launches[0].shared"),
    ("shared = 1024", "dependent = 1", "1 is not true or false: launches[0].dependent"),
    ("shared = 1024", "share = 1024", "unknown key: launches[0].share"),
    ('arguments = ["x"', 'arguments = ["z"', "no buffer or map 'z': launches[0].arguments[0]"),
    ("{ i32 = -5 }", "-5", "not a table: launches[0].arguments[2]"),
    ("{ i32 = -5 }", "{ i33 = -5 }", "needs one of buffer, map, bytes, u8"),
    ("{ i32 = -5 }", "{ i32 = -5, f32 = 1 }", "unknown key: launches[0].arguments[2].f32"),
    ("{ i32 = -5 }", "{ i32 = 2147483648 }", "2147483648 is not in -2147483648 to 2147483647: launches[0].arguments[2].i32"),
    ("{ i32 = -5 }", "{ i32 = 1.0 }", "1.0 is not an integer: launches[0].arguments[2].i32"),
    ("{ i32 = -5 }", "{ f32 = true }", "True is not a number: launches[0].arguments[2].f32"),
    ("{ i32 = -5 }", "{ buffer = 'z' }", "no buffer 'z': launches[0].arguments[2].buffer"),
    ("{ i32 = -5 }", "{ buffer = 'x', offset = 2049 }", "2049 is not an integer from 0 to 2048: launches[0].arguments[2].offset"),
    ("{ i32 = -5 }", "{ map = 'x' }", "no map 'x': launches[0].arguments[2].map"),
    ("{ i32 = -5 }", "{ map = 'tiles', pointer = 1 }", "1 is not true or false: launches[0].arguments[2].pointer"),
    ("{ i32 = -5 }", "{ bytes = '0g' }", "'0g' is not hexadecimal: launches[0].arguments[2].bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), ERRORS)
def test_errors_say_what_and_where(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in START
    assert said in _refused(tmp_path, START.replace(old, new, 1))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="No such file"):
        read(tmp_path / "none.launch.toml")


# ---------------------------------------------------------------- launches and kernels


PARAMETERS = ".param .u64 x, .param .align 64 .b8 tiles[128], .param .u32 n"


def _kernel(directives: str = "", parameters: str = PARAMETERS, name: str = "k") -> Function:
    return function(f"{HOPPER}.visible .entry {name}({parameters})\n{directives}\n{{\n ret;\n}}\n", name)


def _launch(**change: Any) -> Launch:
    values = {
        "entry": "k",
        "grid": (6, 2, 1),
        "block": (128, 1, 1),
        "arguments": (Pointer("x"), MapValue("t"), b"1234"),
    }
    return Launch(**{**values, **change})


@pytest.mark.parametrize(
    ("directives", "change"),
    [
        ("", {}),
        ("", {"arguments": (Pointer("x"), bytes(128), bytes(4))}),
        (".reqntid 128", {}),
        (".reqntid 16, 8", {"block": (16, 8, 1)}),
        (".maxntid 16, 8, 1", {}),
        (".maxntid 256", {"block": (4, 8, 8)}),
        (".reqnctapercluster 2", {}),
        (".reqnctapercluster 3, 2", {"cluster": (3, 2, 1)}),
        (".explicitcluster", {"cluster": (1, 1, 1)}),
        (".explicitcluster .reqnctapercluster 2", {}),
        (".maxclusterrank 2", {"cluster": (2, 1, 1)}),
        (".maxclusterrank 2", {}),
    ],
)
def test_launches_that_suit(directives: str, change: dict[str, Any]) -> None:
    fits(_launch(**change), _kernel(directives))


@pytest.mark.parametrize(
    ("directives", "change", "said"),
    [
        ("", {"entry": "l"}, "l: the kernel is named k: entry"),
        ("", {"arguments": ()}, "k: 0 arguments for 3 parameters: arguments"),
        ("", {"arguments": (Pointer("x"), MapValue("t"), Pointer("x"))}, "k: 8 bytes for n, which has 4: arguments[2]"),
        ("", {"arguments": (Pointer("x"), Pointer("t"), b"1234")}, "k: 8 bytes for tiles, which has 128: arguments[1]"),
        (".reqntid 64", {}, "k: [128, 1, 1] does not match .reqntid [64, 1, 1]: block"),
        (".reqntid 16, 8", {}, "k: [128, 1, 1] does not match .reqntid [16, 8, 1]: block"),
        (".maxntid 16, 4", {}, "k: 128 threads, more than the .maxntid of 64: block"),
        (".reqnctapercluster 2", {"cluster": (1, 2, 1)}, "k: [1, 2, 1] does not match .reqnctapercluster [2, 1, 1]: cluster"),
        (".reqnctapercluster 4", {}, "k: [6, 2, 1] is not a multiple of the cluster, [4, 1, 1]: grid"),
        (".explicitcluster", {}, "k: missing: cluster"),
        (".maxclusterrank 2", {"cluster": (3, 1, 1)}, "k: 3 CTAs, more than the .maxclusterrank of 2: cluster"),
    ],
)  # fmt: skip
def test_launches_that_do_not_suit(directives: str, change: dict[str, Any], said: str) -> None:
    with pytest.raises(LaunchError, match=f"^{re.escape(said)}$"):
        fits(_launch(**change), _kernel(directives))


def test_a_device_function_is_not_launched() -> None:
    kernel = function(f"{HOPPER}.func k()\n{{\n ret;\n}}\n", "k")
    with pytest.raises(LaunchError, match="entry"):
        fits(_launch(arguments=()), kernel)


def test_the_cluster_comes_from_the_launch_or_the_kernel() -> None:
    assert geometry(_launch(), _kernel()) == ((6, 2, 1), (1, 1, 1))
    assert geometry(_launch(cluster=(3, 1, 1)), _kernel()) == ((6, 2, 1), (3, 1, 1))
    assert geometry(_launch(), _kernel(".reqnctapercluster 2, 2")) == ((6, 2, 1), (2, 2, 1))
    counted = _kernel(".reqntid 128 .reqnctapercluster 4, 3 .blocksareclusters")
    assert geometry(_launch(), counted) == ((24, 6, 1), (4, 3, 1))
    fits(_launch(), counted)


# ---------------------------------------------------------------- Triton


TRITON = {
    "hash": "e058e4c4", "target": {"backend": "cuda", "arch": 90, "warp_size": 32}, "num_warps": 12, "num_ctas": 1,
    "num_stages": 3, "warp_size": 32, "maxnreg": None, "triton_version": "3.9.0",
    "tensordesc_meta": [{"swizzle": 3, "elem_size": 2, "elem_type": 10, "block_size": [128, 64], "fp4_padded": False}],
    "shared": 180348, "tmem_size": 0, "global_scratch_size": 0, "profile_scratch_size": 0, "name": "matmul_persistent",
}  # fmt: skip
"""What Triton 3.9 writes beside a kernel, less some of the keys."""


def _triton(folder: Path, **change: Any) -> Path:
    path = folder / "matmul.json"
    path.write_text(
        json.dumps({key: value for key, value in {**TRITON, **change}.items() if value is not ...})
    )
    return path


@pytest.mark.parametrize(
    ("change", "threads", "cluster"),
    [
        ({}, 384, None),
        ({"num_ctas": 2}, 384, (2, 1, 1)),
        ({"num_warps": 1, "num_ctas": ...}, 32, None),
        ({"num_warps": 4, "warp_size": ..., "num_ctas": 4, "cluster_dims": [2, 2, 1]}, 128, (2, 2, 1)),
        ({"cluster_dims": [1, 1, 1]}, 384, None),
        ({"num_ctas": 2, "cluster_dims": [1, 1, 1]}, 384, (2, 1, 1)),
    ],
)
def test_the_metadata_of_triton(tmp_path: Path, change: dict[str, Any], threads: int, cluster: Any) -> None:
    found = triton_launch(_triton(tmp_path, **change))
    assert found == Metadata("matmul_persistent", (threads, 1, 1), 180348, cluster)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_warps": ...}, "not the metadata of a Triton kernel"),
        ({"name": ...}, "missing: name"),
        ({"shared": None}, "None is not an integer from 0 to 232448: shared"),
        ({"num_warps": 64}, "2048 threads, more than 1024: num_warps"),
        ({"num_ctas": 0}, "0 is not an integer from 1 to 16: num_ctas"),
    ],
)
def test_other_metadata(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(LaunchError, match=r"matmul\.json: ") as caught:
        triton_launch(_triton(tmp_path, **change))
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["", "[1]", "{"])
def test_what_is_not_metadata_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(LaunchError, match=r"x\.json: "):
        triton_launch(path)


def test_a_launch_takes_what_triton_says_and_adds_to_it(tmp_path: Path) -> None:
    _triton(tmp_path, num_ctas=2)
    step = '[[launches]]\nmetadata = "matmul.json"\ngrid = [6]\n'
    (launch,) = _read(tmp_path, step).launches
    assert launch == Launch("matmul_persistent", (6, 1, 1), (384, 1, 1), (2, 1, 1), 180348)
    (launch,) = _read(tmp_path, step + 'shared = 8\nentry = "k"\ncluster = [1]\nblock = [32]').launches
    assert launch == Launch("k", (6, 1, 1), (32, 1, 1), (1, 1, 1), 8)
    assert "[5, 1, 1] is not a multiple of the cluster" in _refused(tmp_path, step.replace("6", "5"))
    said = _refused(tmp_path, step.replace("matmul.json", "none.json"))
    assert "none.json" in said
    assert said.endswith(": launches[0].metadata")


# ---------------------------------------------------------------- the documentation


PAGE = (ROOT / "docs/launch-files.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_the_documentation(tmp_path: Path, example: str) -> None:
    np.save(tmp_path / "weights.npy", np.zeros((128, 512), np.uint16))
    (tmp_path / "add.json").write_text(json.dumps(TRITON | {"name": "add"}))
    file = _read(tmp_path, example)
    assert file.arrays().keys() == file.buffers.keys()
    (launch,) = file.launches
    assert file.parameters(launch, dict.fromkeys(file.sizes, 4096))


def test_the_documentation_has_every_type_and_key() -> None:
    words = set(re.findall(r"[\w.]+", " ".join(re.findall(r"`([^`\n]+)`", PAGE))))
    assert set(TYPES) - words == {"i16"}  # of "i8 to i64"
    keys = {field.name for kind in (Buffer, Launch, TensorMap) for field in fields(kind)}
    assert keys - words == {"address"}
    assert set(tensor_maps.TYPES) <= words


# ---------------------------------------------------------------- launch files of strangers

ONE = """
[buffers]
a = {{ type = "f32", shape = {shape}{more} }}
[[launches]]
entry = "k"
grid = [1]
block = [1]
"""


@pytest.mark.parametrize("output", ["../a.npy", "/tmp/a.npy", "b/../../a.npy", ".", "", "a\\u0000b"])
def test_an_output_elsewhere_is_refused(tmp_path: Path, output: str) -> None:
    with pytest.raises(LaunchError, match=r"not a file below the folder.*: buffers\.a\.output"):
        _read(tmp_path, ONE.format(shape="[1]", more=f', output = "{output}"'))


def test_buffers_that_no_machine_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"the buffers have more than 4 GiB: buffers\.a\.shape"):
        _read(tmp_path, ONE.format(shape="[100000, 100000]", more=""))


def test_a_file_that_is_no_array_is_refused(tmp_path: Path) -> None:
    text = ONE.format(shape="[4]", more=', file = "a.npy"')
    np.savez(tmp_path / "a.npz", x=np.zeros(1))
    (tmp_path / "a.npz").rename(tmp_path / "a.npy")
    with pytest.raises(LaunchError, match="an archive"):
        _read(tmp_path, text)
    whole = b"\x93NUMPY\x01\0\x10\0" + b"{'descr': [[[[\n\n\n"
    (tmp_path / "a.npy").write_bytes(whole)
    with pytest.raises(LaunchError, match=r"a\.npy: .*: buffers\.a\.file"):
        _read(tmp_path, text)
    if hasattr(os, "mkfifo"):
        (tmp_path / "a.npy").unlink()
        os.mkfifo(tmp_path / "a.npy")
        with pytest.raises(LaunchError, match="No such file"):
            _read(tmp_path, text)
