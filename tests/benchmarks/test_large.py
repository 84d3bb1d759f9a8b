"""The costs of large kernels are those of the commands, and the layers add up to one run."""

from __future__ import annotations

import tarfile
from pathlib import Path
from time import process_time

import pytest

pytest.importorskip("resource", reason="the benchmark measures processes as Unix does")

from benchmarks import large
from tests.tools.support import HOPPER, before_the_wait, kernel, module

FIXABLE = module(before_the_wait("    st.global.f32 [%rd0], %f0;"), header=HOPPER)


def test_the_kernels_of_the_list_come_from_all_producers() -> None:
    names = [name for kernels in large.KERNELS.values() for name in kernels]
    assert len(names) == len({*names}) == 12
    assert {name.partition("/")[0] for name in names} == {
        "cutedsl",
        "pyptx",
        "triton-libs",
        "triton-tlx",
        "nvcc",
    }


def test_only_the_kernels_of_the_list_are_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "KERNELS", {"a.tar.xz": ("one/k.ptx",)})
    (tmp_path / "one").mkdir()
    for name in ("k", "other"):
        (tmp_path / "one" / f"{name}.ptx").write_text(FIXABLE)
    with tarfile.open(tmp_path / "a.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "one", "one")
    with large.unpacked(tmp_path) as paths:
        assert [path.read_text() for path in paths] == [FIXABLE]
        assert [path.name for path in paths[0].parent.iterdir()] == ["k.ptx"]
    with pytest.raises(FileNotFoundError), large.unpacked(tmp_path / "absent"):
        pass


def test_a_cost_is_that_of_the_process(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(FIXABLE)
    one = large.cost(path, None)
    assert (one.kernel, one.ptxas) == ("k.ptx", None)
    assert one.tclint > 0.02  # no Python starts in less


def test_the_layers_are_one_run_with_its_fixes(tmp_path: Path) -> None:
    for name, text in {"k": FIXABLE, "right": module(kernel("    ret;"))}.items():
        (tmp_path / f"{name}.ptx").write_text(text)
    paths = sorted(tmp_path.iterdir())
    large.layers(paths)  # imports
    began = process_time()
    found = large.layers(paths)
    assert sum(found.values()) == pytest.approx(process_time() - began, rel=0.3, abs=0.02)
    assert found.keys() <= large.LAYERS.keys()
    assert found["fixes"] > 0.2 * found["checks, with the values that they ask for"]
    assert found["parse"] > 0


def test_the_tables_have_a_ratio_only_where_both_were_measured() -> None:
    costs = [large.Cost("a.ptx", 1.0, 2.0), large.Cost("b.ptx", 2.0, 2.0)]
    lines = large.table(costs, {"parse": 1.0, "replay": 3.0})
    assert "| all | 3.00 | 4.00 | 0.75 |" in lines
    assert any(line.startswith("| replay | 3.00 | 75%") for line in lines)
    assert "| all | 3.00 |  |  |" in large.table([costs[0], costs[1]._replace(ptxas=None)], {"parse": 1.0})
