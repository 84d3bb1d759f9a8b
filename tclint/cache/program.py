"""What identifies the tclint that is running: a digest of all of its files, and of the libraries that decide answers.

A release number would not do, since in a checkout the rules change between releases. Reading all files takes 30 ms, and
comparing their sizes and times one, so the digest of files whose sizes and times are known is in the cache too. The times
alone would not do either: they differ wherever tclint is installed anew, as in most CI jobs.

If files change while tclint runs, it is unknown which of them it has imported. Its results are kept only if no file has
changed between the start of the process and the time at which the result is there (:meth:`ProgramFiles.unchanged`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from tclint._data import PACKAGE, STARTED_NS, data
from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.cache.hashing import digest

if TYPE_CHECKING:
    from tclint.cache.store import Store

__all__ = ["SUFFIXES", "ProgramFiles", "program", "sources"]

SUFFIXES = (".py", ".toml", ".md", ".scm", ".so", ".pyd")
"""The files that decide what is reported. Others in the package are parts of the page of ``tclint show``, and notes."""
_LIBRARIES = ("networkx", "tree_sitter", "tree_sitter_cpp", "tree_sitter_python")
"""Their folders contain extension modules, and an ``__init__.py`` with the release number of those that have none."""
_CLOCK_STEP_NS = 100_000_000
"""By how much the time of a file may be earlier than the clock of the process at its change."""


@dataclass(frozen=True, slots=True)
class ProgramFiles:
    """The files of the tclint that is running, as they were when the first result was looked up."""

    digest: str
    """Of their names and contents, and of the version of Python."""
    signature: str
    """Of their names, sizes and times."""
    changed_ns: int
    """When the last of them was changed."""

    def unchanged(self) -> bool:
        """Whether the code that this process has imported is that of the files."""
        return self.changed_ns < STARTED_NS - _CLOCK_STEP_NS and _signature(_listed())[0] == self.signature


@cache
def program(store: Store) -> ProgramFiles:
    """The tclint that is running. Its digest is taken from *store* if the files have not changed since it was made."""
    listed = _listed()
    signature, changed_ns = _signature(listed)
    key = digest("program", signature)
    known = store.get(key)
    if known is None:
        known = digest(sys.version, _contents(listed)).encode()
        store.put(key, known)
    return ProgramFiles(known.decode("latin-1"), signature, changed_ns)


@cache
def sources() -> str:
    """A digest of the files of tclint that are the same on every platform: what two machines must agree on."""
    return _contents([file for file in _own() if not file.path.endswith((".so", ".pyd"))])


class _File(NamedTuple):
    name: str
    """Relative to the folder of its package or library, with slashes."""
    path: str
    at: os.stat_result


def _listed() -> list[_File]:
    """The files of tclint and of the libraries, in an order that does not depend on where they are."""
    listed = _own()
    for name in _LIBRARIES:
        found = PathFinder.find_spec(name)
        for folder in (found.submodule_search_locations or ()) if found is not None else ():
            listed += sorted(_inside(folder, f"{name}/"))
    return listed


def _own() -> list[_File]:
    listed: list[_File] = []
    for root in dict.fromkeys((PACKAGE, data("rules"), data("queries"))):
        listed += sorted(_below(str(root), f"{root.name}/"))
    return listed


def _below(folder: str, prefix: str) -> Iterator[_File]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(SUFFIXES):
                yield _File(prefix + entry.name, entry.path, entry.stat())
            elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                yield from _below(entry.path, f"{prefix}{entry.name}/")


def _inside(folder: str, prefix: str) -> Iterator[_File]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == "__init__.py" or entry.name.endswith((".so", ".pyd")):
                yield _File(prefix + entry.name, entry.path, entry.stat())


def _signature(listed: list[_File]) -> tuple[str, int]:
    """The signature of the files, and when the last of them was changed."""
    parts = [f"{path}\0{at.st_size}\0{at.st_mtime_ns}\0{at.st_ctime_ns}" for _, path, at in listed]
    changed_ns = max(max(at.st_mtime_ns, at.st_ctime_ns) for _, _, at in listed)
    return digest(sys.version, *parts), changed_ns


def _contents(listed: list[_File]) -> str:
    parts: list[str | bytes] = []
    for name, path, _ in listed:
        parts += [name, Path(path).read_bytes()]
    return digest(*parts)
