"""Matrix descriptors against the tiles that tensor copies wrote: swizzles, strides and base offsets that contradict each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tclint.commands._run import RunOptions, run
from tclint.executor import tensor_maps
from tclint.executor.descriptors import Major, Matrix
from tclint.executor.memory import RESERVED
from tclint.executor.state import Shared
from tclint.executor.tensor_maps import TensorMap
from tclint.executor.tiles import check_matrices, land
from tclint.isa.effects import TCGEN05, WGMMA, Engine
from tclint.syntax.source import Source

ROOT = Path(__file__).parents[2]
START = 8192
MODES = {WGMMA: {0: 0, 128: 1, 64: 2, 32: 3}, TCGEN05: {0: 0, 128: 2, 64: 4, 32: 6}}


def tensor(box: tuple[int, int], swizzle: int = 128, atomicity: str = "16B") -> TensorMap:
    """A map of f16 with rows of *box[0]* elements, *box[1]* of them."""
    return TensorMap(0, "f16", (512, 512), (1024,), box, swizzle=swizzle, atomicity=atomicity)


def descriptor(
    start: int = START, sbo: int = 1024, lbo: int = 16, swizzle: int = 128, base: int = 0, of: Engine = WGMMA
) -> int:
    fixed = 1 << 46 if of == TCGEN05 else 0
    mode = MODES[of][swizzle] << (62 if of == WGMMA else 61)
    return start >> 4 | lbo >> 4 << 16 | sbo >> 4 << 32 | base << 49 | fixed | mode


def k_major(rows: int = 64, columns: int = 16, of: Engine = WGMMA, major: Major = "K") -> Matrix:
    return Matrix(rows, columns, 16, major, of)


class Tile:
    """Shared memory into which boxes are copied, and what is observed when a matrix of it is read."""

    def __init__(self) -> None:
        self.memory = Shared(65536, 0, 0)
        self.machine = self
        self.seen: list[tuple[str, str]] = []

    def observe(self, kind: str, w: Any, text: str, other: int, site: int) -> None:
        assert (other, site) == (7, 9)
        self.seen.append((kind, text))

    def copy(self, of: TensorMap, start: int = START) -> Tile:
        transfer = tensor_maps.box(of, (0, 0))
        starts = tensor_maps.swizzle(of, transfer.offsets, start)
        self.memory.writer[np.unique(starts >> 2)[:, None] + np.arange(transfer.unit // 4)] = 7
        land(self.memory, 7, of, start, starts, transfer.offsets + start)
        return self

    def read(self, of: int, matrix: Matrix) -> str:
        """What is wrong with reading a matrix; empty if nothing is."""
        self.seen = []
        check_matrices(self, 9, self.memory, [(of, matrix)])  # type: ignore[arg-type]
        assert {kind for kind, _ in self.seen} <= {"tile-layout"}
        return "; ".join(text for _, text in self.seen)


@pytest.mark.parametrize("of", [WGMMA, TCGEN05])
@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_a_tile_that_is_read_as_it_was_written(of: Engine, swizzle: int) -> None:
    tile = Tile().copy(tensor((swizzle // 2, 64), swizzle))
    for step in range(0, swizzle, 32):
        read = descriptor(START + step, 8 * swizzle, swizzle=swizzle, of=of)
        assert tile.read(read, k_major(of=of)) == ""


@pytest.mark.parametrize("of", [WGMMA, TCGEN05])
@pytest.mark.parametrize(
    ("wrote", "reads"), [(128, 64), (128, 32), (128, 0), (64, 128), (64, 32), (32, 128), (0, 128), (0, 32)]
)
def test_another_swizzle(of: Engine, wrote: int, reads: int) -> None:
    tile = Tile().copy(tensor((wrote // 2 or 64, 64), wrote))
    text = tile.read(descriptor(sbo=8 * (reads or 16), swizzle=reads, lbo=1024, of=of), k_major(of=of))
    words = {n: f"a swizzle of {n} bytes" if n else "no swizzle" for n in (wrote, reads)}
    assert text.endswith(
        f"reads with {words[reads]} what the tensor map of the copy writes with {words[wrote]}"
    )


@pytest.mark.parametrize("atomicity", ["32B", "64B"])
def test_another_unit_of_the_swizzle(atomicity: str) -> None:
    text = Tile().copy(tensor((64, 64), 128, atomicity)).read(descriptor(), k_major())
    assert text.endswith(f"with a swizzle of 128 bytes, {atomicity} at a time")


@pytest.mark.parametrize("base", range(1, 8))
def test_another_base_offset(base: int) -> None:
    assert "began elsewhere" in Tile().copy(tensor((64, 64))).read(descriptor(base=base), k_major())


@pytest.mark.parametrize(
    ("sbo", "rows", "said"),
    [
        (1024, 64, ""),
        (512, 64, "twice"),
        (256, 64, "twice"),
        (16, 64, "twice"),
        (0, 64, ""),  # every group of rows is the same one
        (512, 8, ""),  # one group: the stride leads nowhere
        (2048, 64, ""),  # every other group of a box of 128 rows may be meant
        (2048, 128, "leaves out"),
        (1152, 128, "leaves out"),
    ],
)
def test_another_stride(sbo: int, rows: int, said: str) -> None:
    tile = Tile().copy(tensor((64, 128))).copy(tensor((64, 128)), START + 16384)
    text = tile.read(descriptor(sbo=sbo), k_major(rows))
    assert said in text
    assert bool(text) == bool(said)


def test_a_matrix_of_several_boxes() -> None:
    tile = Tile().copy(tensor((64, 64))).copy(tensor((64, 64)), START + 8192)
    assert tile.read(descriptor(), k_major(128)) == ""
    assert tile.read(descriptor(START + 4096), k_major(64)) == ""


def test_a_transposed_matrix_of_two_boxes() -> None:
    """Along M, the leading stride leads from one box to the next, the other stride along K."""
    tile = Tile().copy(tensor((64, 64))).copy(tensor((64, 64)), START + 8192)
    transposed = k_major(128, 16, major="MN")
    assert tile.read(descriptor(lbo=8192), transposed) == ""
    assert tile.read(descriptor(START + 2048, lbo=8192), transposed) == ""
    assert "leaves out" in tile.read(descriptor(lbo=7168), transposed)
    assert "twice" in tile.read(descriptor(lbo=1024), transposed)
    assert "with a swizzle of 64 bytes" in tile.read(descriptor(lbo=8192, swizzle=64), transposed)


def test_a_tile_of_one_row_has_no_pattern() -> None:
    assert Tile().copy(tensor((64, 1))).read(descriptor(swizzle=0), k_major(8, 8)) == ""


@pytest.mark.parametrize(
    ("type", "bits", "padded", "said"),
    [
        ("b4x16_p64", 8, 4, ""),
        ("b6x16_p32", 8, 6, ""),
        ("u8", 8, 4, ""),  # what is padded in global memory too is copied as bytes
        ("b4x16_p64", 8, 0, "elements that are not padded"),
        ("b4x16_p64", 8, 6, "elements of 6 bits"),
        ("b6x16_p32", 8, 4, "elements of 4 bits"),
    ],
)
def test_elements_of_less_than_a_byte(type: str, bits: int, padded: int, said: str) -> None:
    of = TensorMap(0, type, (256, 64), (256,), (128, 64), swizzle=128)
    text = Tile().copy(of).read(descriptor(of=TCGEN05), Matrix(64, 32, bits, "K", TCGEN05, padded))
    assert said in text
    assert bool(text) == bool(said)


def test_what_others_have_written_since_is_not_judged() -> None:
    tile = Tile().copy(tensor((64, 64)))
    assert tile.read(descriptor(swizzle=64), k_major())
    tile.memory.writer[START // 4 : START // 4 + 2048] = 3
    assert tile.read(descriptor(swizzle=64), k_major()) == ""
    tile.memory.writer[START // 4 + 1024 : START // 4 + 2048] = 7  # half of the rows
    assert tile.read(descriptor(), k_major()) == ""
    assert tile.read(descriptor(sbo=512), k_major()) == ""


def test_memory_without_tiles_is_not_judged() -> None:
    assert Tile().read(descriptor(), k_major()) == ""
    assert Tile().copy(tensor((64, 64)), RESERVED).read(descriptor(32768, swizzle=64), k_major()) == ""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("a_tiles = ", "a_tiles = ", ""),
        (
            "swizzle = 128",
            "swizzle = 0",
            "reads with a swizzle of 128 bytes what the tensor map of the copy writes with no",
        ),
        ("1073758272", str(1073758272 - 32), "reads some rows of a box twice"),
    ],
)
def test_a_kernel_is_executed_with_a_contradiction(tmp_path: Path, old: str, new: str, said: str) -> None:
    spec = (ROOT / "benchmarks" / "launches" / "triton_matmul_100.launch.toml").read_text(encoding="utf-8")
    name = re.findall(r'^ptx = "(.*)"', spec)[0]
    text = (ROOT / "fixtures" / "kernels" / name).read_text(encoding="utf-8")
    path = tmp_path / name
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    (tmp_path / "l.launch.toml").write_text(
        spec.partition("[expected]")[0].replace(old, new, 1), encoding="utf-8"
    )
    found = run(Source.read(path), RunOptions(tmp_path / "l.launch.toml"))
    (execution,) = found.executions
    assert execution.end == "done"
    assert {o.kind for o in execution.observations} == ({"tile-layout"} if said else set())
    assert all(said in o.message for o in execution.observations)
    assert found.code == bool(said)
