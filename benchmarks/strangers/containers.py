"""PTX in the files of a package: as text, in fatbins, and as strings in libraries. Nothing of them is executed."""

from __future__ import annotations

import mmap
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tclint.syntax.source import CONTAINERS

__all__ = ["CannotRead", "modules"]

SECONDS = 300
"""How long cuobjdump may take for a library."""
FATBIN = b"\x50\xed\x55\xba"
_TEXT = re.compile(rb"\.version[ \t]+\d+\.\d+\s+\.target[ \t]+sm_[^\0]+")
_LIBRARY = re.compile(r"\.(?:so(?:\.\d+)*|a|o|fatbin|dll|pyd|bin)$")
_SMALLEST = 200


class CannotRead(RuntimeError):
    """A file of a source cannot be read; the text says why."""


def modules(path: Path, cuobjdump: Path) -> Iterator[tuple[str, str]]:
    """(name, text) of each module of PTX in a file, none for a file that has none. Raises CannotRead."""
    if path.suffix == ".ptx":
        yield path.name, _text(path.read_bytes())
    elif _LIBRARY.search(path.name) and path.stat().st_size > _SMALLEST:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if not any(data[: len(magic)] == magic for magic, _ in CONTAINERS):
                return
            strings = [text for match in _TEXT.finditer(data) for text in _strings(match[0])]
            fatbins = data.find(FATBIN) >= 0
        for index, string in enumerate(strings):
            yield f"{path.name}.string{index}", string
        if fatbins:
            yield from _fatbins(path, cuobjdump)


def _strings(data: bytes) -> Iterator[str]:
    """The modules in a string: Rust puts several in a row, and other strings after the last one.

    A text whose braces do not match is the beginning of a compressed module, which cuobjdump extracts.
    """
    for text in re.split(r"(?m)^(?=\.version\b)", _text(data)):
        whole = text[: text.rfind("\n}") + 3]
        if ".entry" in whole and whole.count("{") == whole.count("}"):
            yield whole


def _fatbins(path: Path, cuobjdump: Path) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        command = [str(cuobjdump), "-xptx", "all", str(path.resolve())]
        try:
            run = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=SECONDS, cwd=folder
            )
        except subprocess.TimeoutExpired:
            raise CannotRead(f"cuobjdump took more than {SECONDS} s") from None
        found = sorted(Path(folder).glob("*.ptx"))
        said = (run.stderr + run.stdout).strip()
        if run.returncode and not found and "does not contain device code" not in said:
            raise CannotRead(f"cuobjdump: {said[:200]}")
        for module in found:
            yield module.name, _text(module.read_bytes())


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode("utf-8", "replace").replace("\r\n", "\n")
