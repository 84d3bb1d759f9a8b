"""What is searched of a folder, and what a folder holds that is not checked.

Of the folders below one that was named, hidden ones, ``SKIPPED`` and what git ignores are left out, since they hold copies of
other people's sources. Git is asked, where a folder is in a repository and there is git, or else the files ``.gitignore``
are read. A folder that git ignores is searched whole if it was named.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from tclint._git import asked, names, repository
from tclint._pattern import pattern
from tclint._read import read_file
from tclint.inline.hosts import PYTHON

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = ["SKIPPED", "SUFFIXES", "contents", "walk"]

SKIPPED = frozenset((".venv", "build", "node_modules", "site-packages"))
"""Names of folders that are searched only if they are named."""
_FOREIGN = SKIPPED - {"build"} | {".git"}
"""Those in which nothing is the user's own."""
_IGNORED = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
_MAX_GIT_SECONDS = 20
SUFFIXES = (".ptx", ".ptx.gz", ".ptx.zst")
"""Names of the files that are read in a folder. Containers must be named: a cubin beside its PTX adds nothing."""
_CONTAINERS = (".a", ".cubin", ".dll", ".exe", ".fatbin", ".lib", ".o", ".obj", ".so")
_MAX_FOLDERS = 2000
"""Folders that are looked at to say what one holds."""
_DSL = pattern(rb"^\s*(?:import|from)\s+(triton|cutlass)\b", re.MULTILINE)


def walk(
    folder: str, left_out: Callable[[str], bool], failed: Callable[[OSError], None]
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each folder that is searched, the names of the files in it, and of those that git ignores, all in order.

    *left_out* decides about a folder below *folder*, and *failed* is called for one that cannot be read.
    """
    ignored: set[str] = set()
    for parent, folders, files in os.walk(folder, onerror=failed):
        if parent == folder or ".git" in folders or ".git" in files:
            ignored |= _ignored(parent)
        paths = {name: os.path.join(parent, name) for name in sorted(folders)}
        folders[:] = [
            name
            for name, path in paths.items()
            if not (name in SKIPPED or name.startswith(".") or path in ignored or left_out(path))
        ]
        out = [name for name in sorted(files) if os.path.join(parent, name) in ignored]
        yield parent, sorted({*files} - {*out}), out


def _ignored(folder: str) -> set[str]:
    """The files and folders below *folder* that its repository ignores, those in an ignored folder left out; none if it is in
    no repository, or ignored itself."""
    root = repository(folder)
    if root is None:
        return set()
    from subprocess import TimeoutExpired

    try:
        printed = asked(folder, *_IGNORED, seconds=_MAX_GIT_SECONDS)
    except (OSError, TimeoutExpired):
        return _matching(root, folder)
    return {os.path.join(folder, name.rstrip("/")) for name in names(printed) if name != "./"}


def _matching(root: str, folder: str) -> set[str]:
    """What the ``.gitignore`` files of the repository at *root* match below *folder*, as :func:`_ignored` gives it."""
    from pathspec import GitIgnoreSpec

    specs: dict[str, GitIgnoreSpec] = {}

    def enter(at: str) -> None:
        try:
            lines = read_file(os.path.join(at, ".gitignore")).decode(errors="replace").splitlines()
        except (OSError, ValueError):
            return
        specs[at] = GitIgnoreSpec.from_lines(lines)

    def match(path: str, slash: str = "") -> bool:
        """Whether the deepest file that says something of *path* ignores it."""
        for at, spec in reversed(specs.items()):
            if path.startswith(os.path.join(at, "")):
                said = spec.check_file(os.path.relpath(path, at).replace(os.sep, "/") + slash).include
                if said is not None:
                    return said
        return False

    inside, real = root, os.path.realpath(folder)
    enter(root)
    for part in os.path.relpath(real, root).split(os.sep) if real != root else ():
        inside = os.path.join(inside, part)
        if match(inside, "/"):
            return set()
        enter(inside)
    found: set[str] = set()
    for parent, folders, files in os.walk(real):
        if parent != real:
            enter(parent)
        out = {name for name in folders if name == ".git" or match(os.path.join(parent, name), "/")}
        out |= {name for name in files if match(os.path.join(parent, name))}
        folders[:] = [name for name in folders if name not in out]
        found |= {os.path.join(folder, os.path.relpath(os.path.join(parent, name), real)) for name in out}
    return found


def contents(folder: str) -> Iterator[str]:
    """What *folder* holds that ``tclint check`` reads otherwise, each with the command for it; at most one of a kind."""
    first: dict[str, str] = {}
    number: Counter[str] = Counter()
    for path in _every(folder):
        kind = _kind(path, folder)
        first.setdefault(kind, path)
        number[kind] += 1
    for kind, command in _COMMANDS.items():
        if kind in first:
            shown = os.path.normpath(first[kind])
            inside = os.path.relpath(shown, folder).split(os.sep)[:-1]
            top = os.path.normpath(os.path.join(folder, *inside[:1], "**", "*.ptx"))
            others = f" and {number[kind] - 1} more" if number[kind] > 1 else ""
            yield f"{shown}{others}: {command.format(path=shown, all=top, named=os.path.normpath(folder))}"


_PTX, _SOURCE, _CONTAINER = "ptx", "source", "container"
_COMMANDS = {
    _PTX: "tclint check '{all}'",  # a pattern names files, also those that git ignores
    _SOURCE: "tclint check --compile {named}",
    "triton": "run it, then tclint check ~/.triton/cache",
    "cutlass": "run it with CUTE_DSL_KEEP_PTX=1, then tclint check *.ptx",
    _CONTAINER: "tclint check {path}",
}
"""Kind of a file -> what checks it, in the order in which they are named."""


def _every(folder: str) -> Iterator[str]:
    """The files below *folder*, also those that are not searched."""
    for parent, folders, files in islice(os.walk(folder), _MAX_FOLDERS):
        folders[:] = sorted(set(folders) - _FOREIGN)
        yield from (os.path.join(parent, name) for name in sorted(files))


def _kind(path: str, folder: str) -> str:
    """What a file is; empty if it is nothing that contains kernels."""
    name = path.lower()
    if name.endswith(SUFFIXES):
        return _PTX
    inside = os.path.relpath(path, folder).split(os.sep)[:-1]
    if not SKIPPED.isdisjoint(inside) or any(part.startswith(".") for part in inside):
        return ""
    if name.endswith(".cu"):
        return _SOURCE
    if name.endswith(PYTHON) and os.path.isfile(path):
        try:
            found = _DSL.search(read_file(path))
        except (OSError, ValueError):
            return ""
        return found[1].decode() if found else ""
    return _CONTAINER if name.endswith(_CONTAINERS) else ""
