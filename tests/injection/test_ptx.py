"""Where the PTX of a recorded kernel is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tclint.injection.ptx import find, not_found
from tests.tools.recordings import DOUBLE

HERE: dict[str, Any] = {"kernel": "double", "capability": [9, 0]}


def found(
    folder: Path,
    environment: dict[str, str] | None = None,
    unused: dict[Path, str] | None = None,
    **launch: Any,
) -> tuple[str, str] | None:
    elsewhere = {
        "HOME": str(folder / "home"),
        "PWD": str(folder / "program"),
        "TORCHINDUCTOR_CACHE_DIR": "/none",
    }
    return find(folder, {**HERE, **launch}, elsewhere | (environment or {}), {} if unused is None else unused)


def test_an_image_that_is_ptx_is_taken(tmp_path: Path) -> None:
    (tmp_path / "image").write_text(DOUBLE)
    assert found(tmp_path, image="image") == (DOUBLE, "the image that the program loaded")


def test_an_image_for_a_newer_gpu_is_not_what_ran(tmp_path: Path) -> None:
    (tmp_path / "image").write_text(DOUBLE.replace("sm_90a", "sm_100a"))
    assert found(tmp_path, image="image") is None


def test_an_image_of_other_kernels_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "image").write_text(DOUBLE.replace("double", "double_more"))
    assert found(tmp_path, image="image") is None


def test_ptx_beside_an_equal_cubin_in_the_cache_of_triton_is_taken(tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "KEY"
    cache.mkdir(parents=True)
    (tmp_path / "cubin").write_bytes(b"\x7fELF one")
    (cache / "other.cubin").write_bytes(b"\x7fELF two")
    (cache / "other.ptx").write_text("// of another kernel of the same size")
    assert found(tmp_path, {"TRITON_CACHE_DIR": str(tmp_path / "cache")}, cubin="cubin") is None
    (cache / "double.cubin").write_bytes(b"\x7fELF one")
    (cache / "double.ptx").write_text(DOUBLE)
    text, origin = found(tmp_path, {"TRITON_CACHE_DIR": str(tmp_path / "cache")}, cubin="cubin") or ("", "")
    assert (text, origin) == (DOUBLE, str(cache / "double.ptx"))


def test_ptx_beside_an_equal_cubin_that_is_damaged_is_named(tmp_path: Path) -> None:
    (tmp_path / "cubin").write_bytes(b"\x7fELF one")
    (tmp_path / "double.cubin").write_bytes(b"\x7fELF one")
    beside = tmp_path / "double.ptx"
    beside.write_bytes(DOUBLE.encode() + b"\0\xff")
    unused: dict[Path, str] = {}
    cache = {"TRITON_CACHE_DIR": str(tmp_path)}
    assert found(tmp_path, cache, unused, cubin="cubin") is None
    assert not_found(unused).endswith(f"; {beside} {unused[beside]}")
    beside.unlink()
    unused.clear()
    assert found(tmp_path, cache, unused, cubin="cubin") is None
    assert not unused


def test_kept_ptx_is_taken_if_only_one_file_has_the_kernel(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.mkdir()
    (program / "a.ptx").write_text(DOUBLE)
    (program / "unrelated.ptx").write_text(DOUBLE.replace("double", "triple"))
    text, origin = found(tmp_path) or ("", "")
    assert (text, origin) == (DOUBLE, f"{program / 'a.ptx'}, by the name of the kernel alone")
    (program / "b.ptx").write_text(DOUBLE.replace("add.f32", "mul.f32"))
    unused: dict[Path, str] = {}
    assert found(tmp_path, unused=unused) is None
    assert unused == dict.fromkeys(
        (program / "a.ptx", program / "b.ptx"), "has one of 2 different PTX modules with the kernel"
    )


def test_files_that_may_contain_the_ptx_and_are_not_read_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tclint.injection.ptx._MAX_OBJECT", 1 << 10)
    (tmp_path / "image").write_bytes(b"\x1f\x8b\x08 damaged")
    large, weights = tmp_path / "large.so", tmp_path / "weights"
    large.write_bytes(b"\x7fELF" + bytes(1 << 10))
    weights.write_bytes(bytes(1 << 11))
    unused: dict[Path, str] = {}
    objects = [str(tmp_path / "gone.so"), str(large), str(weights)]
    assert found(tmp_path, unused=unused, image="image", objects=objects) is None
    text = not_found(unused)
    assert text.startswith("only SASS of the kernel was found")
    assert f"{tmp_path / 'image'} is a damaged gzip file" in text
    assert text.endswith(f"; {large} has more than 1 KiB")
