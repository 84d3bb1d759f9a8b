"""Whether the report on a text is known, and keeping one that was made.

The key of a report has all that decides it: the bytes of the text, whether they are PTX, C++ or Python, the settings that
linting reads, the rules that are off for the path, and tclint itself (:mod:`tclint.cache.program`). What is made of a report
afterwards is not in the key, as it is made anew: what the baseline and the output format do, and ``origin``.

A run that executes kernels (``--confirm``, ``--execute``) uses no results: they depend on launch files and on files that these
name.
"""

from __future__ import annotations

import os
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import lru_cache
from time import monotonic
from typing import Any

from tclint.cache.hashing import digest
from tclint.cache.program import ProgramFiles, program
from tclint.cache.store import DEFAULT_LIMIT, Store, default_folder
from tclint.config.config import Config
from tclint.findings.finding import FileReport
from tclint.inline.hosts import PYTHON, is_host
from tclint.syntax.source import Source

__all__ = ["FOLDER", "OFF", "SIZE", "EarlierResults", "chosen", "opened", "store"]

FOLDER = "TCLINT_CACHE_DIR"
"""The environment variable that names another folder than that of the user."""
SIZE = "TCLINT_CACHE_SIZE"
"""The environment variable with the limit in MiB."""
OFF = "TCLINT_NO_CACHE"
"""The environment variable that turns the cache off."""

NEUTRAL = frozenset(
    "fail_on exit_zero exclude force_exclude include baseline jobs cache max_input gate".split()
)
"""The settings that decide which inputs there are, or what becomes of their reports, but nothing in a report."""
_EXECUTING = frozenset("confirm confirm_steps execute execute_steps launch".split())
"""The settings of runs that execute kernels."""
_JUDGED = frozenset(("verdict", "require", "assume", "per_file_ignores"))
"""The settings of which only a consequence is in the key."""
_MAX_SECONDS = 1.0
"""How long reports wait to be written together, as each time the files of tclint are looked at again."""


def store() -> Store | None:
    """The cache that the environment chooses; None if there is no folder for it."""
    folder = os.environ.get(FOLDER) or default_folder()
    size = os.environ.get(SIZE, "")
    limit = int(size) * 2**20 if size.isdecimal() and len(size) < 10 else DEFAULT_LIMIT
    return Store(os.path.abspath(folder), limit) if folder else None


def opened(config: Config) -> EarlierResults | None:
    """The results of earlier runs; None if they are not to be used."""
    if config.executes or _set("TCLINT_DEBUG"):
        return None
    found = chosen(config)
    try:
        return EarlierResults(found, program(found)) if found is not None else None
    except (OSError, ValueError):  # tclint was imported from something that is no folder
        return None


def chosen(config: Config) -> Store | None:
    """The cache of a run; None if it has none."""
    return store() if config.cache and not _set(OFF) else None


def _set(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")


class EarlierResults:
    """The results of earlier runs, for one tclint. Not for several threads."""

    def __init__(self, store: Store, program: ProgramFiles) -> None:
        self.store = store
        self.program = program
        self.hits = self.misses = 0
        self.problems: dict[str, None] = {}
        """Why reports were not kept."""
        self._made: list[tuple[str, bytes]] = []
        self._written = monotonic()

    def key(self, source: Source, config: Config, *, proven: bool = True) -> str:
        """The key of the report on *source*. *proven*: whether its fixes have been verified."""
        python = source.path.lower().endswith(PYTHON)
        host = is_host(source.path, source.member)
        language = "ptx" if not host else "python" if python else "c++"
        off = config.selected.ignored(source.path, "")
        settings = _settings(config if config.gate is None else replace(config, gate=None))
        kind = "proven" if proven else "raw"
        gate = ""
        if config.gate is not None:
            gate = _written((config.gate.banner, config.gate.of(source.path, source.member)))
        return digest(
            "report", kind, self.program.digest, settings, _written(off), gate, language, source.data
        )

    def find(self, key: str, source: Source) -> FileReport | None:
        """The report on *source*, whose *key* that is; None if it is not known."""
        if (found := self.store.get(key)) is not None:
            from tclint.cache import record

            try:
                report = record.decode(found, source)
            except (ValueError, TypeError, KeyError):
                pass
            else:
                self.hits += 1
                return report
        self.misses += 1
        return None

    def keep(self, key: str, report: FileReport) -> None:
        """Keeps a *report*. It is written within a second of the next one, and by :meth:`flush`."""
        from tclint.cache import record

        self._made.append((key, record.encode(report)))
        if monotonic() >= self._written + _MAX_SECONDS:
            self._write()

    def flush(self) -> list[str]:
        """Writes what is not written yet, at the end of a run. Returns what the user may want to know about it."""
        self._write()
        total = self.hits + self.misses
        notes = [f"cache: {self.hits} of {total} reports reused ({self.store.folder})"]
        notes += [f"cache: not kept: {problem}" for problem in self.problems]
        self.store.count(self.hits, self.misses)
        self.hits = self.misses = 0
        self.problems.clear()
        return notes

    def _write(self) -> None:
        if self._made and not self.program.unchanged():
            self.problems["the files of tclint have changed since it started"] = None
            self._made.clear()
        for key, data in self._made:
            if problem := self.store.put(key, data):
                self.problems[problem] = None
        self._made.clear()
        self._written = monotonic()


@lru_cache(maxsize=64)
def _settings(config: Config) -> str:
    """The settings that are in the key."""
    values = {
        field.name: getattr(config, field.name)
        for field in fields(config)
        if field.name not in NEUTRAL | _EXECUTING | _JUDGED
    }
    return _written((tuple(values.items()), config.assuming, config.dependent))


def _written(value: Any) -> str:
    """The text of a value; that of a set does not depend on the order of its elements."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, (frozenset, set)):
        return f"{{{','.join(sorted(map(_written, value)))}}}"
    if isinstance(value, (tuple, list)):
        return f"({','.join(map(_written, value))})"
    if value is None or isinstance(value, (str, int)):
        return repr(value)
    if is_dataclass(value):
        return _written(tuple(getattr(value, field.name) for field in fields(value)))
    raise TypeError(f"a setting is a {type(value).__name__}")
