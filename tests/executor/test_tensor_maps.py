"""Tensor maps: what the driver takes, what a GPU copied, and loops over elements written from the manual."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tclint.executor import tensor_maps
from tclint.executor.errors import Unsupported
from tclint.executor.tensor_maps import TensorMap, TensorTransfer, box, decode, loaded, reduce, swizzle

Array = Any
PLAIN = TensorMap(0x1000, "f16", (256, 64, 8), (512, 512 * 64), (64, 8, 2))
COLUMNS = TensorMap(
    0,
    "f16",
    (64, 9, 14, 64),
    (128, 1152, 16128),
    mode="im2col",
    lower=(-1, -1),
    upper=(-1, -1),
    channels=8,
    pixels=64,
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


# ---------------------------------------------------------------- what the driver takes and refuses


TAKEN: list[tuple[TensorMap, dict[str, Any]]] = [
    (PLAIN, {"address": 0}),
    (PLAIN, {"address": (1 << 57) - 16}),
    (PLAIN, {"dimensions": (256, 64, 1 << 31)}),
    (PLAIN, {"dimensions": (1, 64, 8)}),
    (PLAIN, {"strides": (0, 0)}),
    (PLAIN, {"strides": (16, (1 << 40) - 16)}),
    (PLAIN, {"box": (8, 8, 2)}),
    (PLAIN, {"box": (256, 256, 1)}),
    (PLAIN, {"box": (256, 228, 2)}),
    (PLAIN, {"box": (256, 256, 2), "element_strides": (1, 2, 1)}),
    (PLAIN, {"element_strides": (2, 8, 1)}),
    (PLAIN, {"swizzle": 32, "box": (16, 8, 2)}),
    (PLAIN, {"swizzle": 64, "box": (32, 8, 2)}),
    (PLAIN, {"swizzle": 128, "box": (8, 8, 2)}),
    (PLAIN, {"fill": "nan"}),
    (PLAIN, {"interleave": 16}),
    (PLAIN, {"interleave": 32, "swizzle": 128}),
    (COLUMNS, {"pixels": 1024}),
    (COLUMNS, {"channels": 64, "swizzle": 128}),
    (COLUMNS, {"channels": 256, "pixels": 1}),
    (COLUMNS, {"lower": (8, 0), "upper": (0, 0)}),
    (COLUMNS, {"lower": (5, 0), "upper": (-3, 0)}),
    (COLUMNS, {"lower": (-128, 0), "upper": (127, 0)}),
    (COLUMNS, {"element_strides": (1, 8, 1, 2)}),
]
REFUSED: list[tuple[str, TensorMap, dict[str, Any]]] = [
    ("address", PLAIN, {"address": 0x1008}),
    ("address", PLAIN, {"address": 1 << 57}),
    ("address", PLAIN, {"address": 0x1010, "interleave": 32, "swizzle": 32}),
    ("dimensions", PLAIN, {"dimensions": (0, 64, 8)}),
    ("dimensions", PLAIN, {"dimensions": (256, 64, (1 << 32) + 1)}),
    ("dimensions", PLAIN, {"dimensions": (8,) * 6, "strides": (16,) * 5, "box": (8,) * 6}),
    ("dimensions", PLAIN, {"dimensions": (8, 8), "strides": (16,), "box": (8, 8), "interleave": 16}),
    ("dimensions", COLUMNS, {"dimensions": (64, 9), "strides": (128,), "lower": (), "upper": ()}),
    ("strides", PLAIN, {"strides": (24, 32768)}),
    ("strides", PLAIN, {"strides": (512, 1 << 40)}),
    ("strides", PLAIN, {"strides": (528, 1 << 16), "interleave": 32, "swizzle": 32}),
    ("box", PLAIN, {"box": (0, 8, 2)}),
    ("box", PLAIN, {"box": (64, 257, 1)}),
    ("box", PLAIN, {"box": (4, 8, 2)}),
    ("box", PLAIN, {"box": (100, 8, 2)}),
    ("box", PLAIN, {"box": (256, 232, 2)}),
    ("box", PLAIN, {"box": (7, 8, 2), "interleave": 16}),
    ("box", PLAIN, {"swizzle": 32, "box": (32, 8, 2)}),
    ("box", PLAIN, {"swizzle": 128, "box": (72, 8, 2)}),
    ("element_strides", PLAIN, {"element_strides": (1, 0, 1)}),
    ("element_strides", PLAIN, {"element_strides": (9, 1, 1)}),
    ("fill", PLAIN, {"fill": "nan", "type": "u16"}),
    ("pixels", COLUMNS, {"pixels": 0}),
    ("pixels", COLUMNS, {"pixels": 1025}),
    ("channels", COLUMNS, {"channels": 257}),
    ("channels", COLUMNS, {"channels": 12}),
    ("channels", COLUMNS, {"channels": 64, "swizzle": 32}),
    ("lower", COLUMNS, {"lower": (-129, 0)}),
    ("upper", COLUMNS, {"upper": (128, 0)}),
    ("upper", COLUMNS, {"lower": (5, 0), "upper": (-4, 0)}),
]
"""What ``cuTensorMapEncodeTiled`` and ``cuTensorMapEncodeIm2col`` of driver 580.159 said on an H200."""
OURS: list[tuple[str, TensorMap, dict[str, Any]]] = [
    ("type", PLAIN, {"type": "e4m3"}),
    ("mode", PLAIN, {"mode": "im2col::w"}),
    ("swizzle", PLAIN, {"swizzle": 16}),
    ("atomicity", PLAIN, {"swizzle": 64, "box": (32, 8, 2), "atomicity": "32B"}),
    ("interleave", PLAIN, {"interleave": 8}),
    ("fill", PLAIN, {"fill": "zero"}),
    ("strides", PLAIN, {"strides": (512,)}),
    ("box", PLAIN, {"box": (64, 8)}),
    ("element_strides", PLAIN, {"element_strides": (1, 1)}),
    ("lower", COLUMNS, {"lower": (0,)}),
    ("fill", PLAIN, {"type": "b4x16", "fill": "nan"}),
    ("dimensions", PLAIN, {"type": "b4x16", "dimensions": (255, 64, 8)}),
    ("dimensions", PLAIN, {"type": "b6x16_p32", "box": (128, 8, 2), "dimensions": (320, 64, 8)}),
    ("box", PLAIN, {"type": "b4x16_p64"}),
    ("address", PLAIN, {"type": "b4x16_p64", "box": (128, 8, 2), "address": 0x1010}),
]
"""What it never saw: by the comments of ``cuda.h`` (13.2) and by section 9.7.9.27.1.1."""


@pytest.mark.parametrize(("start", "change"), TAKEN)
def test_what_the_driver_takes_is_a_map(start: TensorMap, change: dict[str, Any]) -> None:
    tensor = replace(start, **change)
    assert decode(tensor.encode()) == tensor


@pytest.mark.parametrize(("field", "start", "change"), REFUSED + OURS)
def test_what_the_driver_refuses_is_an_error_that_names_the_field(
    field: str, start: TensorMap, change: dict[str, Any]
) -> None:
    if "dimensions" in change and "element_strides" not in change:
        change = {**change, "element_strides": ()}
    with pytest.raises(ValueError, match=rf"^{field}: "):
        replace(start, **change)


# ---------------------------------------------------------------- the 128 bytes


def _maps() -> st.SearchStrategy[TensorMap]:
    return st.builds(
        lambda rank, type, swizzle, steps, numbers: TensorMap(
            16 * numbers[0],
            type,
            tuple(numbers[1 : 1 + rank]),
            tuple(16 * n for n in numbers[6 : 5 + rank]),
            (16, *(1 + n % 5 for n in numbers[11 : 10 + rank])),
            tuple(steps[:rank]),
            swizzle=swizzle,
            atomicity="64B" if swizzle == 128 and numbers[0] % 2 else "16B",
            fill="nan" if type in ("f16", "f64") and numbers[0] % 3 else "zeros",
        ),
        st.integers(1, 5),
        st.sampled_from(["u8", "f16", "f64", "tf32", "f32.ftz", "s64"]),
        st.sampled_from([0, 128]),
        st.lists(st.integers(1, 8), min_size=5, max_size=5),
        st.lists(st.integers(1, (1 << 32) - 1), min_size=16, max_size=16),
    )


@given(_maps())
def test_every_field_survives(tensor: TensorMap) -> None:
    data = tensor.encode()
    assert len(data) == 128
    again = decode(data)
    assert [getattr(again, f.name) for f in fields(again)] == [
        getattr(tensor, f.name) for f in fields(tensor)
    ]


def test_im2col_fields_survive() -> None:
    tensor = replace(
        COLUMNS, lower=(-7, 3), upper=(-2, 5), element_strides=(1, 2, 3, 4), fill="nan", pixels=1000
    )
    assert decode(tensor.encode()) == tensor


@pytest.mark.parametrize(
    "data",
    [
        bytes(128),
        b"\xff" * 128,
        b"\xfb" * 128,
        np.arange(32, dtype=np.uint32).tobytes(),
        np.arange(64).astype(np.float16).tobytes(),
        PLAIN.encode()[:64],
        PLAIN.encode()[:100] + b"\x01" + bytes(27),
        PLAIN.encode()[:90] + b"\x01" + bytes(37),  # a corner of a box of im2col
    ],
)
def test_other_bytes_are_no_map(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not a tensor map$"):
        decode(data)


def _replaced(data: bytes, *changes: tuple[str, int | None, int]) -> bytes:
    for field, ordinal, value in changes:
        data = tensor_maps.replace(data, field, ordinal, value)
    return data


def test_zeros_become_a_map_when_every_field_is_replaced() -> None:
    """As Triton makes descriptors on the device: in its order, which is that of 9.7.9.28."""
    data = _replaced(
        bytes(128),
        (".global_address", None, 0x7F0000000400),
        (".rank", None, 1),
        (".box_dim", 0, 64),
        (".box_dim", 1, 128),
        (".global_dim", 0, 500),
        (".global_dim", 1, 300),
        (".global_stride", 0, 1024),
        (".element_stride", 0, 1),
        (".element_stride", 1, 1),
        (".elemtype", None, 10),
        (".interleave_layout", None, 0),
        (".swizzle_mode", None, 3),
        (".fill_mode", None, 0),
    )
    assert decode(data) == TensorMap(0x7F0000000400, "bf16", (500, 300), (1024,), (64, 128), swizzle=128)


def test_half_a_map_names_what_is_missing() -> None:
    data = _replaced(
        bytes(128), (".global_address", None, 1024), (".global_dim", 0, 64), (".element_stride", 0, 1)
    )
    with pytest.raises(ValueError, match=r"^box: "):
        decode(data)


def test_a_grouped_gemm_moves_a_map_to_another_problem() -> None:
    """As CUTLASS does: dimensions that are not used become ones with a stride of zero."""
    tensor = TensorMap(0x1000, "f16", (64,) * 5, (128, 8192, 8192, 8192), (64, 8, 1, 1, 1), swizzle=128)
    changes = [(".global_address", None, 0x2000), (".global_dim", 0, 72), (".global_dim", 1, 5)]
    changes += [(".global_dim", axis, 1) for axis in (2, 3, 4)]
    changes += [(".global_stride", 0, 144)] + [(".global_stride", axis, 0) for axis in (1, 2, 3)]
    found = decode(_replaced(tensor.encode(), *changes))
    assert found == replace(tensor, address=0x2000, dimensions=(72, 5, 1, 1, 1), strides=(144, 0, 0, 0))


@pytest.mark.parametrize(
    ("field", "value", "name", "wanted"),
    [
        (".elemtype", 0, "type", "u8"),
        (".elemtype", 5, "type", "s64"),
        (".elemtype", 8, "type", "f32.ftz"),
        (".elemtype", 9, "type", "f64"),
        (".elemtype", 12, "type", "tf32.ftz"),
        (".interleave_layout", 1, "interleave", 16),
        (".interleave_layout", 2, "interleave", 32),
        (".swizzle_mode", 0, "swizzle", 0),
        (".swizzle_mode", 1, "swizzle", 32),
        (".swizzle_mode", 2, "swizzle", 64),
        (".swizzle_mode", 4, "swizzle", 96),
        (".swizzle_atomicity", 1, "atomicity", "32B"),
        (".swizzle_atomicity", 2, "atomicity", "32B+8B flip"),
        (".swizzle_atomicity", 3, "atomicity", "64B"),
        (".fill_mode", 1, "fill", "nan"),
        (".rank", 2, "rank", 3),
    ],
)
def test_values_of_fields_are_those_of_the_manual(field: str, value: int, name: str, wanted: Any) -> None:
    mode = 128 if field == ".swizzle_atomicity" else 0
    start = TensorMap(4096, "f32", (64, 64, 64), (256, 16384), (16, 4, 4), swizzle=mode)
    start = replace(start, type="f16", box=(8, 4, 4)) if field == ".swizzle_mode" else start
    assert getattr(decode(tensor_maps.replace(start.encode(), field, None, value)), name) == wanted


def test_an_element_type_beyond_the_table_is_not_a_map() -> None:
    with pytest.raises(ValueError, match="not a tensor map"):
        decode(tensor_maps.replace(PLAIN.encode(), ".elemtype", None, 16))


@pytest.mark.parametrize(
    ("field", "ordinal", "value", "name"),
    [
        (".box_dim", 5, 1, "box"),
        (".global_stride", 4, 16, "strides"),
        (".rank", 1, 1, "dimensions"),
        (".box_dim", 0, 1 << 16, "box"),
        (".element_stride", 0, 256, "element_strides"),
    ],
)
def test_what_a_field_cannot_hold_is_an_error(field: str, ordinal: int, value: int, name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: .*\{field}"):
        tensor_maps.replace(PLAIN.encode(), field, ordinal, value)


# ---------------------------------------------------------------- copies, element by element


def _bytes_of(transfer: TensorTransfer) -> dict[int, int | None]:
    """Where each byte of shared memory comes from; None: from outside the tensor."""
    assert transfer.unit in (1, 2, 4, 8, 16)
    assert not (transfer.offsets % transfer.unit).any()
    found: dict[int, int | None] = {}
    rows = zip(transfer.offsets.tolist(), transfer.addresses.tolist(), transfer.inside.tolist(), strict=True)
    for offset, address, inside in rows:
        for byte in range(transfer.unit):
            assert offset + byte not in found
            found[offset + byte] = address + byte if inside else None
    return found


def _element(tensor: TensorMap, at: Sequence[int]) -> int | None:
    """The address of an element, if it is one (5.5.3.3)."""
    if any(not 0 <= a < size for a, size in zip(at, tensor.dimensions, strict=True)):
        return None
    outer = sum(a * stride for a, stride in zip(at[1:], tensor.strides, strict=True))
    return tensor.address + at[0] * tensor.bits // 8 + outer


def _rows(tensor: TensorMap, first: int, rows: Sequence[Sequence[int]]) -> dict[int, int | None]:
    """The bytes of *rows*, each at its coordinates but the first."""
    size = tensor.bits // 8
    count = tensor.box[0] if tensor.mode == "tile" else tensor.channels
    found = {}
    for number, row in enumerate(rows):
        pitch = max(count * size, tensor.swizzle)
        for element in range(count):
            address = _element(tensor, (first + element, *row))
            for byte in range(size):
                place = number * pitch + element * size + byte
                found[place] = None if address is None else address + byte
    return found


def _counted(tensor: TensorMap) -> list[range]:
    return [
        range(0, size, step) for size, step in zip(tensor.box[1:], tensor.element_strides[1:], strict=True)
    ]


TILES = [
    (TensorMap(0, "f16", (64, 8), (128,), (64, 8), swizzle=128), (0, 0)),
    (TensorMap(4096, "f16", (70, 9), (144,), (32, 4), swizzle=64), (48, 7)),
    (TensorMap(0, "f16", (16, 9), (32,), (16, 4), swizzle=128), (0, 2)),
    (TensorMap(16, "u8", (37, 5), (48,), (32, 3)), (16, -1)),
    (TensorMap(0, "u8", (37,), (), (256,)), (-16,)),
    (TensorMap(0, "f64", (6, 3, 3), (48, 0), (8, 2, 2)), (-2, 1, 2)),
    (TensorMap(0, "f32", (5, 6, 7, 3), (32, 192, 1344), (4, 5, 6, 2), (1, 2, 4, 1)), (4, -3, 2, 1)),
    (TensorMap(0, "s64", (2, 3, 2, 3, 2), (16, 48, 96, 288), (2, 2, 1, 3, 2)), (0, 2, 1, -1, 1)),
    (TensorMap(0, "u16", (8, 4), (16,), (8, 4)), (0, -(1 << 31))),
    (TensorMap(0, "u16", (8, 4), (16,), (8, 4)), ((1 << 31) - 8, (1 << 31) - 1)),
]


@pytest.mark.parametrize(("tensor", "coordinates"), TILES)
def test_tiles(tensor: TensorMap, coordinates: tuple[int, ...]) -> None:
    order = itertools.product(*reversed(_counted(tensor)))  # the innermost of them varies fastest
    rows = [[c + a for c, a in zip(coordinates[1:], reversed(at), strict=True)] for at in order]
    found = box(tensor, coordinates)
    assert _bytes_of(found) == _rows(tensor, coordinates[0], rows)
    assert found.size == len(rows) * tensor.row


@pytest.mark.parametrize("mode", ["tile::gather4", "tile::scatter4"])
@pytest.mark.parametrize("numbers", [(3, 0, 4, 1), (2, 2, 2, 2), (9, 5, 4, 0)])
def test_four_rows(mode: str, numbers: tuple[int, ...]) -> None:
    tensor = TensorMap(256, "f16", (40, 6), (96,), (16, 1), swizzle=32)
    found = box(tensor, (32, *numbers), mode, store=mode == "tile::scatter4")
    assert _bytes_of(found) == _rows(tensor, 32, [[number] for number in numbers])
    assert found.size == 4 * 32


def test_gathered_rows_may_be_missing() -> None:
    tensor = TensorMap(256, "f16", (40, 6), (96,), (16, 1))
    assert _bytes_of(box(tensor, (-8, -1, 0, 6, 7), "tile::gather4")) == _rows(
        tensor, -8, [[-1], [0], [6], [7]]
    )


def _walk(tensor: TensorMap, start: Sequence[int]) -> list[list[int]]:
    """The pixels of a column: an odometer through the box, whose first digit moves fastest (5.5.4)."""
    spans = zip(tensor.lower, tensor.dimensions[1:-1], tensor.upper, strict=True)
    edges = [(low, size - 1 + high) for low, size, high in spans]
    at, found = list(start), []
    for _ in range(tensor.pixels):
        found.append(list(at))
        for axis, (low, high) in enumerate(edges):
            at[axis] += tensor.element_strides[1 + axis]
            if at[axis] <= high:
                break
            at[axis] = low
        else:
            at[-1] += tensor.element_strides[-1]
    return found


IM2COL = [
    (COLUMNS, (0, 7, 4, 7), (0, 0)),
    (COLUMNS, (56, -1, -1, 63), (2, 2)),
    (replace(COLUMNS, element_strides=(1, 2, 2, 1), upper=(0, -2), pixels=150), (8, 4, 5, 0), (1, 3)),
    (TensorMap(0, "u8", (40, 5, 3), (48, 240), (), (1, 3, 2), 64, mode="im2col", lower=(1,), upper=(-1,), channels=32,
               pixels=20), (16, 2, 0), (3,)),
    (TensorMap(64, "f32", (6, 4, 3, 2, 2), (32, 128, 384, 768), mode="im2col", lower=(-1, 0, 0), upper=(-2, 0, 1),
               channels=4, pixels=70), (4, 0, 2, 1, 0), (1, 0, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("tensor", "coordinates", "offsets"), IM2COL)
def test_columns(tensor: TensorMap, coordinates: tuple[int, ...], offsets: tuple[int, ...]) -> None:
    pixels = _walk(tensor, coordinates[1:])
    moved = [[*(a + o for a, o in zip(at[:-1], offsets, strict=True)), at[-1]] for at in pixels]
    found = box(tensor, coordinates, "im2col", offsets)
    assert _bytes_of(found) == _rows(tensor, coordinates[0], moved)
    assert found.size == tensor.pixels * tensor.row


def test_padded_elements_take_sixteen_bytes_for_sixteen() -> None:
    tensor = TensorMap(0x2000, "b4x16_p64", (256, 3), (128,), (128, 2))
    found = box(tensor, (128, 2))
    inside = {
        16 * group + byte: 0x2000 + 256 + 64 + 8 * group + byte for group in range(8) for byte in range(8)
    }
    outside = {128 + place: None for place in inside}
    assert _bytes_of(found) == inside | outside
    assert found.size == 256
    tensor = TensorMap(0x2000, "b6x16_p32", (128, 1), (96,), (128, 1))
    inside = {16 * group + byte: 0x2000 + 12 * group + byte for group in range(8) for byte in range(12)}
    assert _bytes_of(box(tensor, (0, 0))) == inside


def test_packed_elements_lie_as_in_global_memory() -> None:
    found = box(TensorMap(0x2000, "b4x16", (98, 1), (64,), (64, 1)), (64, 0))
    assert _bytes_of(found) == {byte: 0x2000 + 32 + byte if byte < 17 else None for byte in range(32)}


@pytest.mark.parametrize(
    ("field", "tensor", "coordinates", "more"),
    [
        ("coordinates", PLAIN, (0, 0), {}),
        ("coordinates", PLAIN, (4, 0, 0), {}),
        ("coordinates", PLAIN, (0, -1, 0), {"store": True}),
        ("mode", PLAIN, (0, 0, 0), {"mode": "im2col"}),
        ("mode", COLUMNS, (0, 0, 0, 0), {}),
        ("dimensions", PLAIN, (0, 0, 0, 0, 0), {"mode": "tile::gather4"}),
        ("box", TensorMap(0, "f16", (8, 8), (16,), (8, 4)), (0, 0, 1, 2, 3), {"mode": "tile::gather4"}),
        ("coordinates", TensorMap(0, "f16", (8, 8), (16,), (8, 1)), (0, 0), {"mode": "tile::gather4"}),
        ("coordinates", COLUMNS, (0, 8, 0, 0), {"mode": "im2col"}),
        ("coordinates", COLUMNS, (0, 0, -2, 0), {"mode": "im2col"}),
        ("offsets", COLUMNS, (0, 0, 0, 0), {"mode": "im2col", "offsets": (1,)}),
        ("lower", COLUMNS, (0, 0, 0, 0), {"mode": "im2col_no_offs", "store": True}),
        ("upper", replace(COLUMNS, lower=(0, 0), upper=(1, 0)), (0, 0, 0, 0), {"mode": "im2col_no_offs", "store": True}),
        ("coordinates", TensorMap(0, "b4x16_p64", (256, 3), (128,), (128, 2)), (64, 0), {}),
    ],
)  # fmt: skip
def test_copies_that_no_gpu_takes(
    field: str, tensor: TensorMap, coordinates: Any, more: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=rf"^{field}: "):
        box(tensor, coordinates, **more)


@pytest.mark.parametrize(
    ("tensor", "mode"), [(replace(PLAIN, interleave=16), "tile"), (COLUMNS, "im2col::w")]
)
def test_an_unsupported_copy_is_reported(tensor: TensorMap, mode: str) -> None:
    with pytest.raises(Unsupported):
        box(tensor, (0,) * tensor.rank, mode)


# ---------------------------------------------------------------- swizzling


PATTERNS: dict[tuple[int, str], list[str]] = {
    (32, "16B"): ["01234567", "10325476"],
    (64, "16B"): ["01234567", "10325476", "23016745", "32107654"],
    (128, "16B"): [
        "01234567",
        "10325476",
        "23016745",
        "32107654",
        "45670123",
        "54761032",
        "67452301",
        "76543210",
    ],
    (128, "32B"): ["01234567", "23016745", "45670123", "67452301"],
    (128, "64B"): ["01234567", "45670123"],
}
"""The tables of 5.5.7: which 16 bytes of a line of 128 are in each position; they repeat."""


@pytest.mark.parametrize("mode", PATTERNS)
@pytest.mark.parametrize("base", [0, 1024, 128, 640])
def test_swizzling_follows_the_tables(mode: tuple[int, str], base: int) -> None:
    tensor = TensorMap(0, "u8", (mode[0], 64), (128,), (mode[0], 64), swizzle=mode[0], atomicity=mode[1])
    found = swizzle(tensor, np.arange(0, 2048, 8), base)
    for offset, address in zip(range(0, 2048, 8), found.tolist(), strict=True):
        pattern = PATTERNS[mode]
        line, within = divmod(base + offset, 128)
        place = pattern[line % len(pattern)].index(str(within // 16))
        assert address == line * 128 + place * 16 + within % 16


def test_no_swizzling_and_unknown_swizzling() -> None:
    assert swizzle(PLAIN, np.array([0, 130]), 128).tolist() == [128, 258]
    for tensor in (
        replace(PLAIN, swizzle=96, box=(48, 8, 2)),
        replace(PLAIN, swizzle=128, atomicity="32B+8B flip"),
    ):
        with pytest.raises(Unsupported):
            swizzle(tensor, np.array([0]), 0)


# ---------------------------------------------------------------- what an H200 left in memory


Seen = tuple[tuple[Any, ...], tuple[int, ...], tuple[int, ...], int, int]
"""A map without its address, coordinates, offsets, where the box began in shared memory, and a checksum."""

# fmt: off
TILES_SEEN: list[Seen] = [
    (("f16", (10, 8), (64,), (48, 3), (1, 1), 128), (0, 5), (), 640, 0xFDCCC71F),
    (("u32", (12,), (), (52,), (1,), 0), (-12,), (), 128, 0xE5DE8ADA),
    (("s32", (2, 7), (48,), (4, 7), (1, 1), 32), (0, -5), (), 1024, 0xF0D53FCC),
    (("f16", (17,), (), (240,), (1,), 0), (-160,), (), 640, 0x615F8FF8),
    (("f64", (7,), (), (4,), (1,), 64), (6,), (), 384, 0x7EE64367),
    (("s64", (3, 3, 6, 25), (64, 208, 1264), (16, 1, 5, 8), (1, 2, 1, 1), 128), (-14, 2, 0, 1), (), 256, 0x31CCF936),
    (("f32", (5, 3, 4, 12), (48, 160, 656), (8, 3, 1, 6), (1, 1, 3, 1), 64), (-4, 2, 2, 3), (), 768, 0x76493BE3),
    (("u64", (23,), (), (10,), (1,), 128), (22,), (), 384, 0x269A50A8),
    (("u16", (1, 5, 6), (16, 80), (8, 3, 3), (1, 3, 2), 64), (0, 3, 4), (), 1024, 0xED64BF94),
    (("f16", (10,), (), (104,), (1,), 0), (-96,), (), 768, 0xC9239A35),
    (("u16", (18, 3), (80,), (8, 6), (1, 3), 64), (16, -2), (), 512, 0xC5A4588A),
    (("s64", (6, 13, 8), (48, 624), (4, 4, 8), (1, 1, 3), 32), (0, 7, 7), (), 512, 0xC0C6B63B),
    (("s64", (35, 5), (304,), (38, 2), (1, 3), 0), (12, 4), (), 512, 0xADC014EF),
    (("f64", (5, 11), (48,), (14, 6), (1, 2), 128), (-10, 3), (), 896, 0x5A898BB5),
]
COLUMNS_SEEN: list[Seen] = [
    (("s64", (2, 6, 5, 3), (16, 112, 576), (), (1, 3, 1, 1), 32, "16B", 0, "zeros", "im2col", (0, -1), (0, 1), 2, 94), (0, 0, 3, 1), (0, 3), 896, 0x1A6E7FB0),
    (("s32", (33, 6, 5), (176, 1056), (), (1, 2, 1), 0, "16B", 0, "zeros", "im2col", (1,), (-2,), 24, 18), (-4, 1, 4), (1,), 512, 0x53DE4C3C),
    (("s32", (31, 5, 5, 4), (144, 720, 3600), (), (1, 2, 1, 1), 64, "16B", 0, "zeros", "im2col", (1, -2), (1, 1), 16, 10), (0, 3, 5, 0), (2, 0), 1024, 0x77F2EFFD),
    (("u32", (6, 8, 4, 7, 3), (48, 400, 1616, 11328), (), (1, 2, 2, 1, 1), 64, "16B", 0, "zeros", "im2col", (1, -2, 0), (-1, -1, -2), 8, 41), (0, 1, -2, 4, 0), (1, 3, 2), 896, 0x1A189C14),
    (("u16", (4, 5, 4, 7, 4), (48, 240, 976, 6832), (), (1, 1, 2, 3, 1), 0, "16B", 0, "zeros", "im2col", (1, -2, 0), (-2, 0, -1), 8, 6), (0, 2, -2, 3, 0), (2, 1, 1), 384, 0x54C265E3),
    (("u16", (11, 3, 5, 7, 1), (32, 96, 496, 3472), (), (1, 1, 2, 2, 1), 64, "16B", 0, "zeros", "im2col", (-1, -2, -2), (1, -2, 0), 32, 9), (0, 2, 0, 4, 0), (0, 1, 1), 0, 0xA720B310),
    (("s64", (60, 7, 1), (480, 3376), (), (1, 1, 1), 0, "16B", 0, "zeros", "im2col", (1,), (-1,), 30, 36), (12, 1, 0), (0,), 640, 0x5E2C13C8),
    (("bf16", (68, 8, 7, 8, 5), (160, 1296, 9088, 72704), (), (1, 2, 3, 1, 1), 128, "16B", 0, "zeros", "im2col", (0, -1, 0), (-2, -2, 1), 56, 49), (40, 0, 3, 2, 4), (0, 2, 2), 0, 0x51727376),
    (("u64", (16, 4, 7, 5, 5), (144, 576, 4032, 20176), (), (1, 1, 2, 1, 1), 0, "16B", 0, "zeros", "im2col", (1, -1, -2), (-2, 0, 0), 8, 13), (0, 1, 5, 0, 1), (1, 3, 0), 256, 0x4797B052),
    (("u8", (50, 8, 4, 7, 3), (96, 784, 3152, 22080), (), (1, 1, 3, 1, 1), 32, "16B", 0, "zeros", "im2col", (-2, -2, 1), (-1, -2, -2), 32, 95), (16, 4, -1, 2, 2), (1, 2, 3), 896, 0x240949B7),
    (("f32", (5, 5, 8, 3, 3), (32, 176, 1408, 4224), (), (1, 3, 3, 3, 1), 32, "16B", 0, "zeros", "im2col", (1, 1, -1), (-1, 0, -1), 4, 12), (0, 1, 4, -1, 0), (0, 3, 2), 512, 0x9038AA51),
    (("f64", (9, 8, 4, 3), (96, 768, 3088), (), (1, 1, 1, 1), 128, "16B", 0, "zeros", "im2col", (-2, 0), (-2, -2), 12, 54), (2, 3, 1, 0), (2, 1), 0, 0x3FE658F0),
    (("s32", (2, 4, 7, 4), (32, 144, 1024), (), (1, 3, 1, 1), 32, "16B", 0, "zeros", "im2col", (-2, 1), (-2, 0), 4, 84), (0, -2, 4, 0), (3, 0), 512, 0x473068ED),
    (("f32", (4, 8, 6, 6, 2), (32, 256, 1536, 9216), (), (1, 2, 1, 1, 1), 64, "16B", 0, "zeros", "im2col", (-1, 0, 0), (-1, -1, -2), 8, 4), (0, 5, 3, 3, 0), (3, 0, 1), 256, 0xB88B6FEC),
]
TILES_STORED: list[Seen] = [
    (("f64", (44, 5, 10, 8), (352, 1776, 17760), (52, 4, 5, 6), (1, 1, 4, 1), 0), (0, 0, 8, 0), (), 896, 0x9CFFCF12),
    (("u32", (26, 2, 14, 4), (128, 272, 3808), (16, 1, 5, 5), (1, 3, 1, 1), 128), (8, 0, 0, 0), (), 1024, 0x13D88884),
    (("u64", (33, 5, 7, 4, 9), (288, 1440, 10096, 40400), (16, 3, 7, 7, 7), (1, 2, 4, 1, 2), 128), (0, 4, 2, 0, 0), (), 512, 0x991D0E43),
    (("f32", (45, 2, 3, 12), (224, 448, 1360), (24, 1, 7, 6), (1, 1, 1, 1), 0), (4, 0, 1, 3), (), 512, 0x413059DF),
    (("u16", (71, 1, 11, 3), (144, 160, 1760), (32, 4, 6, 1), (1, 4, 1, 3), 64), (24, 0, 7, 0), (), 896, 0x382350C4),
    (("u32", (12,), (), (8,), (1,), 64), (8,), (), 896, 0xEC8A6844),
    (("f16", (28, 4, 9), (80, 336), (16, 3, 3), (1, 1, 3), 32), (0, 2, 7), (), 384, 0x356E30A0),
]
COLUMNS_STORED: list[Seen] = [
    (("f32", (12, 7, 4, 4), (48, 352, 1408), (), (1, 1, 1, 1), 64, "16B", 0, "zeros", "im2col", (0, 0), (0, -1), 16, 46), (0, 0, 2, 0), (), 0, 0xC9881F87),
    (("s64", (7, 4, 4, 7, 2), (96, 400, 1600, 11200), (), (1, 2, 3, 1, 1), 0, "16B", 0, "zeros", "im2col", (0, 0, 0), (-1, -1, -1), 4, 54), (0, 1, 2, 2, 1), (), 896, 0x5A1F15CA),
    (("f16", (9, 6, 3, 7, 5), (48, 304, 912, 6400), (), (1, 2, 1, 3, 1), 64, "16B", 0, "zeros", "im2col", (0, 0, 0), (0, -2, -1), 8, 69), (0, 0, 0, 0, 4), (), 1024, 0xE0AE882F),
    (("u64", (8, 8, 6, 2), (64, 512, 3088), (), (1, 3, 1, 1), 0, "16B", 0, "zeros", "im2col", (0, 0), (0, -1), 20, 54), (2, 6, 0, 0), (), 384, 0x168356FE),
    (("f64", (2, 4, 3, 3), (32, 128, 384), (), (1, 1, 3, 1), 32, "16B", 0, "zeros", "im2col", (0, 0), (0, -2), 2, 32), (0, 0, 0, 1), (), 128, 0xA9EDA45E),
    (("u64", (8, 4, 3), (64, 256), (), (1, 1, 1), 32, "16B", 0, "zeros", "im2col", (0,), (-2,), 4, 53), (0, 0, 0), (), 768, 0x1040CED1),
    (("f64", (12, 5, 3), (96, 496), (), (1, 1, 1), 128, "16B", 0, "zeros", "im2col", (0,), (0,), 6, 69), (0, 3, 1), (), 1024, 0xBF980C2E),
]
# fmt: on

BASE = 1 << 18


def _global() -> Array:
    return (np.arange(1 << 20) * 2654435761 >> 11 & 255).astype(np.uint8)


def _units(starts: Array, unit: int) -> Array:
    return starts[:, None] + np.arange(unit)


def _extent(tensor: TensorMap, transfer: TensorTransfer, start: int) -> int:
    return start + transfer.size // tensor.row * max(tensor.row, tensor.swizzle)


@pytest.mark.parametrize("seen", TILES_SEEN + COLUMNS_SEEN)
def test_loads_as_an_h200_does_them(seen: Seen) -> None:
    fields, coordinates, offsets, start, checksum = seen
    tensor = TensorMap(BASE, *fields)
    transfer = box(tensor, coordinates, tensor.mode, offsets)
    shared = np.full((_extent(tensor, transfer, start) + 1024 + 127) // 128 * 128, 0xA5, np.uint8)
    data = _global()[_units(np.where(transfer.inside, transfer.addresses, 0), transfer.unit)]
    data[~transfer.inside] = transfer.fill
    shared[_units(swizzle(tensor, transfer.offsets, start), transfer.unit)] = data
    assert zlib.crc32(shared.tobytes()) == checksum


@pytest.mark.parametrize("seen", TILES_STORED + COLUMNS_STORED)
def test_stores_as_an_h200_does_them(seen: Seen) -> None:
    fields, coordinates, _, start, checksum = seen
    tensor = TensorMap(BASE, *fields)
    transfer = box(tensor, coordinates, {"im2col": "im2col_no_offs"}.get(tensor.mode, "tile"), store=True)
    shared = (np.arange(_extent(tensor, transfer, start)) * 2246822519 >> 9 & 255).astype(np.uint8)
    memory, inside = _global(), transfer.inside
    data = shared[_units(swizzle(tensor, transfer.offsets, start)[inside], transfer.unit)]
    memory[_units(transfer.addresses[inside], transfer.unit)] = data
    assert zlib.crc32(memory.tobytes()) == checksum


@pytest.mark.parametrize(("type", "dtype"), [("f16", "<u2"), ("bf16", "<u2"), ("f32", "<u4"), ("f64", "<u8")])
def test_missing_elements_are_the_nan_that_an_h200_writes(type: str, dtype: str) -> None:
    size = np.dtype(dtype).itemsize
    tensor = TensorMap(0, type, (5,), (), (32 // size,), fill="nan")
    fill = box(tensor, (0,)).fill
    assert set(fill.view(dtype).tolist()) == {int("7ff7" * (size // 2), 16)}
    assert box(replace(tensor, fill="zeros"), (0,)).fill.tolist() == [0] * len(fill)


TF32 = {
    0x00000000: 0x00000000, 0x00000001: 0x00000000, 0x80000001: 0x80000000, 0x007FFFFF: 0x00800000,
    0x00003000: 0x00004000, 0x00001FFF: 0x00002000, 0x3F800FFF: 0x3F800000, 0x3F801000: 0x3F800000,
    0x3F801001: 0x3F802000, 0x3F803000: 0x3F804000, 0xBF801000: 0xBF800000, 0x3FFFF000: 0x40000000,
    0x7F7FFFFF: 0x7F800000, 0xFF7FFFFF: 0xFF800000, 0xFF800000: 0xFF800000, 0x7F800001: 0x7FFFE000,
    0xFFFFFFFF: 0x7FFFE000,
}  # fmt: skip
"""What an H200 loaded of ``.f32`` as ``.tf32``."""


def test_loads_round_to_tf32() -> None:
    data = np.array(list(TF32), np.uint32).view(np.uint8)
    for type in ("tf32", "tf32.ftz"):
        found = loaded(TensorMap(0, type, (4,), (), (4,)), data)
        assert found.view(np.uint32).tolist() == list(TF32.values())
    for type in ("f32", "f32.ftz", "u32"):
        assert loaded(TensorMap(0, type, (4,), (), (4,)), data).tolist() == data.tolist()


# ---------------------------------------------------------------- reductions


WORDS = {
    "f16": (0, 0x8000, 1, 0x8001, 0x3FF, 0x83FF, 0x400, 0x8400, 0x3C00, 0xBC00, 0x3C01, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00,
            0x7E00, 0x7C01, 0xFE01, 0x7FFF, 0x1400, 0x1000, 0x0FFF),
    "bf16": (0, 0x8000, 1, 0x8001, 0x7F, 0x807F, 0x80, 0x8080, 0x3F80, 0xBF80, 0x3F81, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80,
             0x7FC0, 0x7F81, 0xFFC1, 0x7FFF, 0x3B80, 0x3C00, 0x3B7F),
    "f32": (0, 1 << 31, 1, 0x80000001, 0x7FFFFF, 0x807FFFFF, 0x800000, 0x80800000, 0x800001, 0x80FFFFFF, 0x3F800000,
            0xBF800000, 0x3F800001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC00001,
            0x33800000, 0xC00000),
    "f64": (0, 1 << 63, 1, (1 << 63) | 1, (1 << 52) - 1, 1 << 52, 0x801 << 52, 0x3FF << 52, 0xBFF << 52,
            (0x3FF << 52) | 1, (0x7FF << 52) - 1, (0xFFF << 52) - 1, 0x7FF << 52, 0xFFF << 52, 0x3CA << 52, 3 << 51),
    "32": (0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 5, 0xFFFFFFFE),
    "64": (0, 1, 2, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 5, (1 << 64) - 2),
}  # fmt: skip
LAYOUT = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11)}
GOLD = {
    ".add u32": 0x74F7C2C6,
    ".add s32": 0x74F7C2C6,
    ".add u64": 0xA3177EC3,
    ".add f32": 0xCFB33EF6,
    ".add f16": 0xC8AF8E87,
    ".add bf16": 0x03EAA99F,
    ".min u32": 0x39B70A1D,
    ".min s32": 0x110172C0,
    ".min u64": 0xCCD7BD60,
    ".min s64": 0x8B60A545,
    ".min f16": 0xDF025586,
    ".min bf16": 0xAB1D8723,
    ".max u32": 0x054153B0,
    ".max s32": 0x2DF72B6D,
    ".max u64": 0xA1E5B5DA,
    ".max s64": 0xE652ADFF,
    ".max f16": 0x2DA6829A,
    ".max bf16": 0xB46B2EFF,
    ".inc u32": 0x1CA0DD8C,
    ".dec u32": 0x65937116,
    ".and b32": 0x73A5ACAA,
    ".and b64": 0xDFBA39C8,
    ".or b32": 0x4F53F507,
    ".or b64": 0xB2883172,
    ".xor b32": 0x3160DCF5,
    ".xor b64": 0xDF987DC2,
}
"""Checksums of what ``cp.reduce.async.bulk`` left on an H200; with a map it was the same."""


def _pairs(type: str) -> tuple[int, list[tuple[int, int]]]:
    words = WORDS.get(type) or WORDS[type[1:]]
    bits = 16 if type == "bf16" else int(type[1:])
    return bits, list(itertools.product(words, words))


def _run(op: str, type: str) -> tuple[list[tuple[int, int]], list[int]]:
    bits, pairs = _pairs(type)
    old, new = (np.array(column, f"<u{bits // 8}") for column in zip(*pairs, strict=True))
    found = reduce(op, type, old.view(np.uint8), new.view(np.uint8))
    assert found.dtype == np.uint8
    return pairs, found.view(old.dtype).tolist()


def _integer(op: str, type: str, old: int, new: int) -> int:
    """The tables of 9.7.9.25.4.2 in words of Python."""
    bits = int(type[1:])
    whole = 1 << bits
    signed = (lambda n: n - whole if n >= whole // 2 else n) if type[0] == "s" else (lambda n: n)
    return {
        ".add": lambda: (old + new) % whole,
        ".min": lambda: min(old, new, key=signed),
        ".max": lambda: max(old, new, key=signed),
        ".inc": lambda: 0 if old >= new else old + 1,
        ".dec": lambda: new if old == 0 or old > new else old - 1,
        ".and": lambda: old & new,
        ".or": lambda: old | new,
        ".xor": lambda: old ^ new,
    }[op]()


INTEGERS = [
    *((op, type) for op in (".min", ".max") for type in ("u32", "s32", "u64", "s64")),
    *((".add", type) for type in ("u32", "s32", "u64")),
    *((op, type) for op in (".and", ".or", ".xor") for type in ("b32", "b64", "s32")),
    (".inc", "u32"),
    (".dec", "u32"),
]


@pytest.mark.parametrize(("op", "type"), INTEGERS)
def test_integers_are_reduced(op: str, type: str) -> None:
    pairs, found = _run(op, type)
    assert found == [_integer(op, type, old, new) for old, new in pairs]


def _value(type: str, bits: int) -> Fraction | float:
    """What a bit pattern means: exactly, or an infinity or NaN."""
    fraction, exponents = LAYOUT[type]
    sign = -1 if bits >> fraction + exponents else 1
    exponent, mantissa = bits >> fraction & (1 << exponents) - 1, bits & (1 << fraction) - 1
    if exponent == (1 << exponents) - 1:
        return math.nan if mantissa else sign * math.inf
    bias = (1 << exponents - 1) - 1
    whole = mantissa + (1 << fraction if exponent else 0)
    return sign * Fraction(whole) * Fraction(2) ** (max(exponent, 1) - bias - fraction)


def _nearest(type: str, exact: Fraction) -> int:
    """The pattern of the nearest number, ties to even: patterns of one sign are ordered as their numbers are."""
    fraction, exponents = LAYOUT[type]
    infinity = (1 << exponents) - 1 << fraction
    size, low, high = abs(exact), 0, infinity
    while high - low > 1:  # low <= size < high; infinity stands for the number that would come next
        middle = (low + high) // 2
        low, high = (middle, high) if _value(type, middle) <= size else (low, middle)
    below, above = _value(type, low), _value(type, high)
    if above == math.inf:
        below_it = _value(type, low - 1)
        above = 2 * below - below_it
    assert isinstance(below, Fraction)
    assert isinstance(above, Fraction)
    up = 2 * size > below + above or (2 * size == below + above and low % 2)
    return (high if up else low) | (exact < 0) << fraction + exponents


@pytest.mark.parametrize("type", ["f16", "bf16", "f32", "f64"])
def test_sums_are_exact_and_rounded_once(type: str) -> None:
    fraction, exponents = LAYOUT[type]
    pairs, found = _run(".add", type)
    top = 1 << fraction + exponents
    for (old, new), result in zip(pairs, found, strict=True):
        a, b = _value(type, old), _value(type, new)
        if isinstance(a, Fraction) and isinstance(b, Fraction):
            zero = top if old & new & top else 0  # only -0 + -0 is -0
            assert result == (_nearest(type, a + b) if a + b else zero), (hex(old), hex(new))
        elif math.isnan(a) or math.isnan(b) or (isinstance(a, float) and a == -b):
            value = _value(type, result)
            assert math.isnan(value)
            assert type == "f64" or result == top - 1
        else:
            assert _value(type, result) == a + b


@pytest.mark.parametrize("type", ["f16", "bf16"])
@pytest.mark.parametrize("op", [".min", ".max"])
def test_the_smaller_and_the_larger_half(op: str, type: str) -> None:
    def order(bits: int) -> tuple[Any, int]:
        value = _value(type, bits)
        return value, -(bits >> 15)  # -0 is below +0

    pairs, found = _run(op, type)
    for (old, new), result in zip(pairs, found, strict=True):
        numbers = [bits for bits in (old, new) if _value(type, bits) == _value(type, bits)]
        wanted = (min if op == ".min" else max)(numbers, key=order) if numbers else 0x7FFF
        assert result == wanted, (hex(old), hex(new))


@pytest.mark.parametrize("key", GOLD)
def test_reductions_as_an_h200_does_them(key: str) -> None:
    op, type = key.split()
    _, found = _run(op, type)
    bits, _ = _pairs(type)
    assert zlib.crc32(np.array(found, f"<u{bits // 8}").tobytes()) == GOLD[key]


def test_flushing_is_a_type_of_its_own() -> None:
    """As an H200 adds ``.f32.ftz``; ``.f32`` keeps subnormal numbers there, whatever 9.7.9.25.4.2 says."""
    old = np.array([0, 0x80000000, 0x7FFFFF, 0x807FFFFF, 0x800000, 0x80001000, 0x3F800000], np.uint32)
    new = np.array([0x7FF000, 0x7FFFFF, 0x80001000, 0x1000, 0x3000, 0x800FFF, 0x3F800000], np.uint32)
    flushed = reduce(".add", "f32.ftz", old.view(np.uint8), new.view(np.uint8)).view(np.uint32)
    assert flushed.tolist() == [0, 0, 0, 0, 0x800000, 0x800FFF, 0x40000000]
    kept = reduce(".add", "f32", old.view(np.uint8), new.view(np.uint8)).view(np.uint32)
    assert kept.tolist() == [0x7FF000, 0x7FFFFF, 0x7FEFFF, 0x807FEFFF, 0x803000, 0x7FFFFF, 0x40000000]


@pytest.mark.parametrize(
    ("op", "type"), [(".add", "u8"), (".min", "f32"), (".or", "s64"), (".inc", "s32"), (".cas", "u32")]
)
def test_reductions_that_do_not_exist(op: str, type: str) -> None:
    with pytest.raises(Unsupported):
        reduce(op, type, np.zeros(8, np.uint8), np.zeros(8, np.uint8))
