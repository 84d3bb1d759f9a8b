"""The TOML files of the ISA table, and what is kept of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from tclint.isa.documents import documents, read_documents
from tests.tools.project import PACKAGE

KEPT = "tclint/isa/documents.marshal"
READ = """
import sys
from tclint.isa import documents
from tclint.isa.table import table
found = documents.documents()
print("tomllib" in sys.modules or "tomli" in sys.modules, table().candidates("bra.uni")[0][0].summary)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a copy of the package from which nothing has been kept."""
    copied = ("*.py", "*.toml")
    ignored = lambda folder, names: (
        {n for n in names if not (Path(folder, n).is_dir() or any(Path(n).match(p) for p in copied))}
        | ignore_patterns("__pycache__")(folder, names)
    )
    copytree(PACKAGE, tmp_path / "tclint", ignore=ignored)
    return tmp_path


def read(package: Path) -> tuple[bool, str]:
    """Whether a run over *package* parses TOML, and what the table says of a branch."""
    done = subprocess.run(
        [sys.executable, "-c", READ], cwd=package, capture_output=True, text=True, check=True
    )
    parsed, _, summary = done.stdout.strip().partition(" ")
    return parsed == "True", summary


def test_what_is_kept_is_what_the_files_say() -> None:
    documents()
    documents.cache_clear()
    again = documents()
    assert again == read_documents(PACKAGE / "isa")
    assert len(again.forms) > 300
    assert {"directives", "features"} <= again.shared.keys()


def test_files_are_parsed_again_only_when_one_has_changed(package: Path) -> None:
    first = read(package)
    assert first[0]
    assert read(package) == (False, first[1])
    control = package / "tclint/isa/control.toml"
    at = control.stat()
    control.write_text(control.read_text("utf-8").replace(first[1], first[1][::-1]), "utf-8")
    os.utime(control, ns=(at.st_atime_ns, at.st_mtime_ns))  # with its size and its time of before
    assert read(package) == (True, first[1][::-1])
    assert read(package) == (False, first[1][::-1])
    (package / "tclint/isa/zebra.toml").write_text("# nothing", "utf-8")
    assert read(package)[0]
    with (package / "tclint/isa/notation.py").open("a") as reader:
        reader.write("# changed")
    assert read(package)[0]
    assert not read(package)[0]


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:5], lambda b: b"", lambda b: b[:-9] + b"x" + b[-8:]]
)
def test_what_is_damaged_is_made_again(package: Path, damage: object) -> None:
    assert callable(damage)
    summary = read(package)[1]
    whole = (package / KEPT).read_bytes()
    (package / KEPT).write_bytes(damage(whole))
    assert read(package) == (True, summary)
    assert (package / KEPT).read_bytes() == whole


def test_nothing_is_kept_where_nothing_can_be_written(package: Path) -> None:
    (package / KEPT).mkdir()  # which no file can replace, even for root
    assert read(package)[0]
    assert sorted(path.name for path in (package / "tclint/isa").glob("documents.*")) == [
        Path(KEPT).name,
        "documents.py",
    ]


def test_processes_that_start_at_once_see_whole_files(package: Path) -> None:
    command = [sys.executable, "-c", READ]
    runs = [subprocess.Popen(command, cwd=package, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = {run.communicate()[0].partition(" ")[2] for run in runs}
    assert [run.returncode for run in runs] == [0] * 4
    assert said == {f"{read(package)[1]}\n"}
    assert not read(package)[0]
