"""Symbols of a workspace: the functions and variables of the modules that are open, or in files below its folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic

from lsprotocol import types
from pygls.uris import from_fs_path

from tclint._read import read_file
from tclint.driver.folders import walk
from tclint.lsp.outline import symbols
from tclint.lsp.text import DocumentText
from tclint.syntax import parse

__all__ = ["WorkspaceSymbols"]

_MAX_SYMBOLS = 1000
_MAX_FILE = 8 * 2**20
"""Bytes of a file that is read for its symbols."""
_SECONDS = 2.0
"""How long files are read for one request; the next one reads on."""

_Found = list[tuple[str, types.SymbolKind, types.Range]]


class WorkspaceSymbols:
    """The symbols of the files of one workspace, which are read again when they have changed."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[tuple[int, int], _Found]] = {}
        """Path -> time of modification and size, and the symbols of the file."""

    def find(
        self, query: str, opened: Mapping[str, DocumentText], folder: Path | None, encoding: str
    ) -> list[types.WorkspaceSymbol]:
        """The symbols with *query* in their names, without regard to case: those of the *opened* texts, by URI, then of
        the files below *folder*."""
        wanted, found = query.casefold(), list[types.WorkspaceSymbol]()
        for uri, symbols_of in self._all(opened, folder, encoding):
            for name, kind, place in symbols_of:
                if wanted in name.casefold():
                    file = uri.rpartition("/")[2]
                    found.append(
                        types.WorkspaceSymbol(types.Location(uri, place), name, kind, container_name=file)
                    )
            if len(found) >= _MAX_SYMBOLS:
                break
        return found[:_MAX_SYMBOLS]

    def _all(
        self, opened: Mapping[str, DocumentText], folder: Path | None, encoding: str
    ) -> Iterator[tuple[str, _Found]]:
        for uri, text in opened.items():
            yield uri, _symbols(text)
        deadline = monotonic() + _SECONDS
        for path in _files(folder) if folder is not None else ():
            uri = from_fs_path(str(path)) or ""
            if (
                uri not in opened
                and (known := self._read(path, encoding, monotonic() > deadline)) is not None
            ):
                yield uri, known

    def _read(self, path: Path, encoding: str, late: bool) -> _Found | None:
        """The symbols of a file; None if it cannot be read, is too large, or has changed and it is too *late* to read it."""
        try:
            status = path.stat()
            state = status.st_mtime_ns, status.st_size
            known = self._files.get(str(path))
            if known is not None and known[0] == state:
                return known[1]
            if late or status.st_size > _MAX_FILE:
                return None
            found = _symbols(DocumentText(read_file(path, _MAX_FILE), encoding))
        except (OSError, ValueError):
            return None
        self._files[str(path)] = state, found
        return found


def _files(folder: Path) -> Iterator[Path]:
    """The PTX files below *folder* that ``tclint check`` would read there."""
    for parent, names, _ in walk(str(folder), lambda path: False, lambda error: None):
        yield from (Path(parent, name) for name in names if name.endswith(".ptx"))


def _symbols(text: DocumentText) -> _Found:
    return [(s.name, s.kind, s.selection_range) for s in symbols(parse(text.analysed), text)]
