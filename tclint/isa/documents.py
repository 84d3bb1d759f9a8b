"""The TOML files beside this module, parsed once for many runs.

Parsing all of them takes as long as linting ten small kernels. So what they say is kept beside them in
``documents.marshal`` (:mod:`tclint._kept`), which ``setup.py`` makes when the package is built.
A form is unmarshalled when one of its opcodes is first looked up: most kernels use few of them.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from tclint import _toml
from tclint._kept import VERSION, keep, kept
from tclint._named_tuple import NamedTuple
from tclint.isa.notation import NotationError, parse_syntax

__all__ = [
    "Documents",
    "Raw",
    "TableError",
    "documents",
    "parse_toml",
    "prepare",
    "read_documents",
    "read_toml",
]

_FOLDER = Path(__file__).parent
_PREPARED = _FOLDER / "documents.marshal"
_READERS = ("documents.py", "notation.py")
"""The modules that decide what is kept."""


class TableError(ValueError):
    """A TOML file of the ISA table is malformed or has an unknown key or value."""


class Raw(NamedTuple):
    """A form as its file has it."""

    family: str
    """The name of the file, without its suffix."""
    number: int
    """The index among the forms of the file."""
    keys: Mapping[str, Any]


class Documents(NamedTuple):
    """What TOML files say. Its parts are what marshal can keep."""

    shared: dict[str, bytes]
    """Family -> the marshalled keys of the file, without its forms."""
    forms: list[tuple[str, int, bytes]]
    """The family, the number and the marshalled keys of each form."""
    lines: dict[str, list[tuple[int, tuple[str, ...]]]]
    """First word of an opcode -> the syntax lines that begin with it: the index of the form, and the modifiers that the
    line requires literally."""

    def document(self, family: str) -> dict[str, Any]:
        """The keys of a file, without its forms."""
        found: dict[str, Any] = marshal.loads(self.shared[family])
        return found

    def raw(self, index: int) -> Raw:
        """A form."""
        family, number, keys = self.forms[index]
        return Raw(family, number, marshal.loads(keys))

    def may_accept(self, root: str, modifiers: frozenset[str]) -> Iterator[int]:
        """The indices of the forms that may accept an opcode of *root* and *modifiers*; some more than once."""
        return (index for index, required in self.lines.get(root, ()) if modifiers.issuperset(required))


@cache
def documents() -> Documents:
    """What the files of this package say. Raises :class:`TableError`."""
    texts = _texts(_FOLDER)
    return Documents(*kept(_PREPARED, _made_of(texts), lambda: tuple(_parsed(texts))))


def prepare() -> None:
    """Keep what the files of this package say. Raises :class:`TableError`, and OSError if it cannot be kept."""
    texts = _texts(_FOLDER)
    keep(_PREPARED, _made_of(texts), tuple(_parsed(texts)))


def read_documents(folder: Path) -> Documents:
    """What the files in *folder* say. Raises :class:`TableError`."""
    return _parsed(_texts(folder))


def read_toml(path: Path) -> dict[str, Any]:
    """The TOML document in *path*. Raises :class:`TableError` if it is malformed."""
    return parse_toml(path.read_text("utf-8"), path)


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """The TOML document *text*, a part of *path*. Raises :class:`TableError` if it is malformed."""
    try:
        return _toml.parse(text)
    except ValueError as error:
        raise TableError(f"{path.name}: {error}") from error


def _texts(folder: Path) -> list[tuple[Path, bytes]]:
    paths = (folder / name for name in sorted(os.listdir(folder)) if name.endswith(".toml"))
    return [(path, path.read_bytes()) for path in paths]


def _made_of(texts: Iterable[tuple[Path, bytes]]) -> bytes:
    """All that decides what is kept."""
    parts = []
    for name in _READERS:
        with suppress(OSError):  # an installation may have compiled modules only
            parts.append((_FOLDER / name).read_bytes())
    for path, text in texts:
        parts += f"\0{path.name}\0{len(text)}\0".encode(), text
    return b"".join(parts)


def _parsed(texts: Iterable[tuple[Path, bytes]]) -> Documents:
    made = Documents({}, [], {})
    for path, text in texts:
        shared = parse_toml(text.decode(), path)
        forms = shared.pop("form", [])
        made.shared[path.stem] = marshal.dumps(shared, VERSION)
        for number, keys in enumerate(forms):
            try:
                for root, required in _lines(keys, shared):
                    made.lines.setdefault(root, []).append((len(made.forms), required))
            except NotationError as error:
                raise TableError(f"{path.name}: form {keys.get('name', '')}: {error}") from error
            made.forms.append((path.stem, number, marshal.dumps(keys, VERSION)))
    return made


def _lines(keys: Mapping[str, Any], shared: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each syntax line of a form as its root and the modifiers that it requires and that are not names of choices."""
    lines, where = keys.get("syntax", ()), {**shared.get("where", {}), **keys.get("where", {})}
    for line in (lines,) if isinstance(lines, str) else lines:
        syntax = parse_syntax(line, where)
        literal = (s.name for s in syntax.slots if not s.optional and s.spellings == {s.name})
        yield syntax.root, tuple(literal)
