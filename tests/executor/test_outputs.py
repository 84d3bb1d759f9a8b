"""The outputs of a launch file: where they are written, and over what they never are."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tclint._write import OutputError
from tclint.executor.launch import LaunchFile, read
from tclint.executor.outputs import LIST, Outputs

TEXT = """
[buffers]
a = {{ type = "f32", shape = [3], output = "{a}" }}
b = {{ type = "u16", shape = [2], output = "{b}" }}
c = {{ type = "u16", shape = [2] }}
[[launches]]
entry = "k"
grid = [1]
block = [1]
"""
ARRAYS: dict[str, Any] = {
    "a": np.array([1, 2, 3], np.float32),
    "b": np.array([1, 515], np.uint16),
    "c": np.zeros(2, np.uint16),
}


def launch(folder: Path, a: str = "a.npy", b: str = "sub/b.bin") -> LaunchFile:
    path = folder / "k.launch.toml"
    path.write_text(TEXT.format(a=a, b=b))
    return read(path)


def written(file: LaunchFile, folder: Path) -> None:
    Outputs(file, folder, map(str, file.files)).write(ARRAYS)


def test_outputs_are_arrays_or_bytes_in_the_named_folder(tmp_path: Path) -> None:
    written(launch(tmp_path), tmp_path / "new" / "out")
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["k.launch.toml"]
    out = tmp_path / "new" / "out"
    assert np.load(out / "a.npy").tolist() == [1, 2, 3]
    assert (out / "sub" / "b.bin").read_bytes() == b"\1\0\3\2"
    assert set(json.loads((out / LIST).read_text())) == {"a.npy", "sub/b.bin"}


def test_an_output_replaces_the_one_of_an_earlier_run_unless_it_has_changed(tmp_path: Path) -> None:
    file = launch(tmp_path)
    written(file, tmp_path)
    changed = ARRAYS | {"a": np.zeros(3, np.float32)}
    Outputs(file, tmp_path, ()).write(changed)
    assert np.load(tmp_path / "a.npy").tolist() == [0, 0, 0]
    (tmp_path / "a.npy").write_text("edited")
    with pytest.raises(OutputError, match="exists and is not an output of an earlier run"):
        Outputs(file, tmp_path, ())
    assert (tmp_path / "a.npy").read_text() == "edited"


def existing(folder: Path) -> None:
    (folder / "a.npy").write_text("mine")


def a_folder(folder: Path) -> None:
    (folder / "a.npy").mkdir()


def link_to_a_file(folder: Path) -> None:
    (folder.parent / "other").write_text("mine")
    (folder / "a.npy").symlink_to(folder.parent / "other")


def dangling_link(folder: Path) -> None:
    (folder / "a.npy").symlink_to(folder.parent / "nothing")


def link_to_a_folder(folder: Path) -> None:
    (folder / "sub").symlink_to(folder.parent, target_is_directory=True)


def link_for_the_list(folder: Path) -> None:
    (folder / LIST).symlink_to(folder.parent / "k.launch.toml")


def a_list_of_something_else(folder: Path) -> None:
    (folder / LIST).write_text("[1]")


@pytest.mark.parametrize(
    "prepare",
    [
        existing,
        a_folder,
        link_to_a_file,
        dangling_link,
        link_to_a_folder,
        link_for_the_list,
        a_list_of_something_else,
    ],
)
def test_nothing_else_in_the_folder_is_overwritten(tmp_path: Path, prepare: Callable[[Path], None]) -> None:
    file, out = launch(tmp_path), tmp_path / "out"
    out.mkdir()
    prepare(out)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(OutputError):
        Outputs(file, out, ())
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"a": ".git/config"}, "begins with a dot"),
        ({"a": ".profile"}, "begins with a dot"),
        ({"a": LIST}, "has the list of the outputs"),
        ({"a": "x", "b": "./x"}, "two outputs for the same file"),
    ],
)
def test_some_names_are_never_written(tmp_path: Path, names: dict[str, str], said: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("[core]")
    with pytest.raises(OutputError, match=said):
        Outputs(launch(tmp_path, **names), tmp_path, ())
    assert (tmp_path / ".git" / "config").read_text() == "[core]"


def test_a_listed_output_that_is_an_input_now_is_not_overwritten(tmp_path: Path) -> None:
    written(launch(tmp_path), tmp_path)
    file = launch(tmp_path)
    with pytest.raises(OutputError, match="is an input"):
        Outputs(file, tmp_path, [os.path.join(tmp_path, "sub", "..", "a.npy")])
