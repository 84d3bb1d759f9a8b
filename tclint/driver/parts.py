"""Parts of a run: what ``check --shard`` adds to its JSON and SARIF, and how the parts become one run again.

Findings of several files that have one source line are merged, and a baseline hides findings that have moved to another
file. So a part has the reports as they are before that, the settings, and the lines that the reports refer to: the whole
is presented without the files, exactly as a run that was not divided presents it.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tclint._dataclass import dataclass
from tclint._read import read_file
from tclint._version import __version__
from tclint.cache import record
from tclint.config.config import Config, Selection, Setting, settings
from tclint.findings.finding import FileReport
from tclint.findings.rules import Rule
from tclint.findings.selection import SettingsError
from tclint.findings.spans import Span
from tclint.syntax.source import Source

__all__ = ["Part", "PartError", "read", "whole", "written"]

SCHEMA = 1
"""Incremented when a part changes its meaning."""
_UNIMPORTANT = frozenset(("jobs", "cache", "exit_zero"))
"""The settings that may differ between parts: they change nothing in what a run prints, or are those of a job."""


class PartError(Exception):
    """A file that is not a part, or parts that are not those of one run. The message is meant for the user."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a run."""

    number: int
    parts: int
    names: tuple[str, ...]
    """All inputs of the run, in their order."""
    arguments: tuple[str, ...]
    """The paths that the run was asked to check."""
    locate: str
    excluded: int
    """The files and folders that ``exclude`` left out of the whole run."""
    config: Config
    reports: tuple[FileReport, ...]
    """Those of this part, with all findings, before any is hidden or merged."""


class _Excerpts(Source):
    """A text of which only some lines are known; all offsets, lines and columns are those of the whole."""

    __slots__ = ("_digest",)

    def __init__(self, data: bytes, path: str, member: str | None, digest: str) -> None:
        super().__init__(data, path, None if member is None else path, member)
        self._digest = digest

    @property
    def sha256(self) -> str:
        return self._digest


def written(part: Part) -> dict[str, Any]:
    """What the JSON and the SARIF of a part contain so that :func:`read` can restore it."""
    content = {
        "names": part.names,
        "arguments": part.arguments,
        "locate": part.locate,
        "excluded": part.excluded,
        "settings": _settings(part.config),
        "reports": [_report(report) for report in part.reports],
    }
    packed = zlib.compress(json.dumps(content, separators=(",", ":")).encode())
    return {
        "schema": SCHEMA,
        "version": __version__,
        "number": part.number,
        "parts": part.parts,
        "data": b64encode(packed).decode(),
    }


def read(path: str) -> Part:
    """The part in the JSON or SARIF file at *path*. Raises PartError."""
    try:
        document = json.loads(read_file(path).decode("utf-8-sig"))
    except OSError as error:
        raise PartError(f"cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise PartError("is not JSON") from None
    found = _found(document)
    if found is None:
        raise PartError("is not the JSON or SARIF of a run of tclint check with --shard")
    if found.get("version") != __version__ or found.get("schema") != SCHEMA:
        raise PartError(f"is of tclint {found.get('version')}, and this is tclint {__version__}")
    try:
        return _part(found)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, zlib.error):
        raise PartError("is damaged") from None
    except SettingsError as error:
        raise PartError(f"is damaged: {error}") from None


def _found(document: Any) -> dict[str, Any] | None:
    """The part in a JSON report or a SARIF log; None if there is none."""
    try:
        found = (
            document["part"] if "runs" not in document else document["runs"][0]["properties"]["tclint/part"]
        )
    except (KeyError, TypeError, IndexError):
        return None
    return found if isinstance(found, dict) else None


def _part(found: Mapping[str, Any]) -> Part:
    """Raises ValueError, TypeError, KeyError or SettingsError for what :func:`written` does not write."""
    content = json.loads(zlib.decompress(b64decode(found["data"], validate=True)))
    number, parts = found["number"], found["parts"]
    if not (type(number) is int and type(parts) is int and 1 <= number <= parts):
        raise ValueError
    locate, excluded = content["locate"], content["excluded"]
    if type(locate) is not str or type(excluded) is not int:
        raise ValueError
    return Part(
        number,
        parts,
        _texts(content["names"]),
        _texts(content["arguments"]),
        locate,
        excluded,
        _config(content["settings"]),
        tuple(map(_restored, content["reports"])),
    )


def _texts(values: Sequence[str]) -> tuple[str, ...]:
    if not all(type(value) is str for value in values):
        raise ValueError
    return tuple(values)


def whole(parts: Mapping[str, Part]) -> Part:
    """The run that *parts*, by the files that have them, are parts of. Raises PartError if they are not all of one run."""
    (first_name, first), *others = parts.items()
    owners = {first.number: first_name}
    mine = _settings(first.config)
    for name, part in others:
        if (part.parts, part.names) != (first.parts, first.names):
            raise PartError(f"{first_name} and {name} are parts of runs over different files")
        if (part.arguments, part.locate) != (first.arguments, first.locate):
            raise PartError(f"{first_name} and {name} are of runs with different arguments")
        its = _settings(part.config)
        if differing := sorted(key for key in mine.keys() | its.keys() if mine.get(key) != its.get(key)):
            raise PartError(
                f"{first_name} and {name} were checked with different settings: {', '.join(differing)}"
            )
        if (other := owners.setdefault(part.number, name)) != name:
            raise PartError(f"{other} and {name} are both part {part.number} of {part.parts}")
    missing = [str(number) for number in range(1, first.parts + 1) if number not in owners]
    if missing:
        which = f"part{'s' * (len(missing) > 1)} {', '.join(missing)}"
        raise PartError(f"{which} of {first.parts} {'are' if len(missing) > 1 else 'is'} missing")
    position = {name: at for at, name in enumerate(first.names)}
    origin: dict[str, str] = {}
    for name, part in parts.items():
        for report in part.reports:
            if report.path not in position:
                raise PartError(f"{name} is damaged: {report.path} is not one of its inputs")
            if (other := origin.setdefault(report.path, name)) != name:
                raise PartError(f"{other} and {name} both have {report.path}: the jobs had different files")
    if left := [name for name in first.names if name not in origin]:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise PartError(f"no part has {left[0]}{more}: the jobs had different files")
    reports = (report for part in parts.values() for report in part.reports)
    return replace(first, reports=tuple(sorted(reports, key=lambda report: position[report.path])))


def _declared() -> Iterator[Setting]:
    """The settings that a part has. What selects rules is not among them: the rules that were selected are."""
    left_out = {*_UNIMPORTANT, *Selection.__slots__}
    return (setting for setting in settings() if setting.name not in left_out)


def _settings(config: Config) -> dict[str, Any]:
    """The settings that differ from the default, as a file has them."""
    found = {
        setting.key: setting.kind.write(getattr(config, setting.name))
        for setting in _declared()
        if getattr(config, setting.name) != setting.default
    }
    if config.rules is not None:
        found["rules"] = sorted(config.rules)
    return found


def _config(values: Mapping[str, Any]) -> Config:
    """The Config of which *values* are the :func:`_settings`."""
    declared = {setting.key: setting for setting in _declared()}
    made = {
        declared[key].name: declared[key].kind.read(value) for key, value in values.items() if key != "rules"
    }
    rules = values.get("rules")
    return Config(**made, rules=None if rules is None else frozenset(_texts(rules)))


def _report(report: FileReport) -> list[Any]:
    source = report.source
    text = None if source is None else [source.sha256, *_excerpts(source, set(_spans(report)))]
    return [report.path, report.member, report.origin, text, json.loads(record.encode(report, sources=True))]


def _restored(values: Sequence[Any]) -> FileReport:
    path, member, origin, text, encoded = values
    if type(path) is not str or not all(one is None or type(one) is str for one in (member, origin)):
        raise ValueError
    digest, size, lines, excerpts = text or ("", 0, 0, ())
    source = _Excerpts(_filled(size, lines, excerpts), path, member, str(digest))
    report = record.decode(json.dumps(encoded).encode(), source, sources=True)
    return replace(report, origin=origin, source=None if text is None else source)


def _spans(value: Any) -> Iterator[Span]:
    """All spans in a report."""
    if isinstance(value, Span):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _spans(item)
    elif is_dataclass(value) and not isinstance(value, (type, Rule)):
        for field in fields(value):
            yield from _spans(getattr(value, field.name))


def _excerpts(source: Source, spans: Iterable[Span]) -> tuple[int, int, list[tuple[int, int, str]]]:
    """The size of the text, its line feeds, and the lines with *spans*: offset, line feeds before it, text."""
    kept: list[tuple[int, int]] = []
    data = source.data
    for begin, end in sorted((data.rfind(b"\n", 0, s.start) + 1, data.find(b"\n", s.end)) for s in spans):
        end = len(data) if end < 0 else end
        if kept and begin <= kept[-1][1]:
            kept[-1] = kept[-1][0], max(end, kept[-1][1])
        else:
            kept.append((begin, end))
    found = [
        (begin, source.position(begin).line - 1, data[begin:end].decode("utf-8", "surrogateescape"))
        for begin, end in kept
    ]
    return len(data), source.line_count - 1, found


def _filled(size: int, lines: int, excerpts: Iterable[Sequence[Any]]) -> bytes:
    """A text of *size* bytes and that many line feeds which has the *excerpts* at their places. Raises ValueError."""
    made, passed = bytearray(), 0
    for begin, before, text in (*excerpts, (size, lines, "")):
        gap, feeds = begin - len(made), before - passed
        if not 0 <= feeds <= gap:
            raise ValueError
        ending = min(feeds, 1) if made else 0  # of the line before
        made += b"\n" * ending + b" " * (gap - feeds) + b"\n" * (feeds - ending)
        made += text.encode("utf-8", "surrogateescape")
        passed = before + text.count("\n")
    return bytes(made)
