"""What a long run has found, kept in a file, so that a run that is repeated asks only what it lacks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tclint

__all__ = ["Journal", "key", "sources"]

PACKAGE = Path(tclint.__file__).parent


class Journal:
    """What was found, by a key that has a digest of all that it depends on; kept in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.is_file() else ()
        self.known: dict[str, Any] = dict(map(json.loads, lines))

    def keep(self, key: str, found: Any) -> None:
        """Adds what was *found*, values of JSON."""
        self.known[key] = found
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, found]) + "\n")

    def of(self, key: str, find: Callable[[], Any]) -> Any:
        """What is known of *key*, and otherwise what *find* returns."""
        if key not in self.known:
            self.keep(key, find())
        return self.known[key]


def key(*parts: bytes | str) -> str:
    """A digest of *parts*."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else part.encode())
    return found.hexdigest()[:16]


def sources(*folders: Path) -> str:
    """A digest of the sources of tclint, and of those below *folders*."""
    paths = (path for folder in (PACKAGE, *folders) for path in sorted(folder.rglob("*")))
    return key(*(path.read_bytes() for path in paths if path.suffix in (".py", ".toml", ".md")))
