"""A report as data: JSON in which each object is the list of its fields.

What is read may be damaged or foreign, so nothing in it names code: the types are those of
:class:`~tclint.findings.finding.FileReport`, every value is compared with them, rules are looked up by id, and spans must
be within the text. The path, the text and what is derived from other files are not part of the data.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from tclint.findings.figures import Assembled
from tclint.findings.finding import FileReport
from tclint.findings.rules import Rule, all_rules
from tclint.findings.spans import Span
from tclint.findings.verdicts import Verdict
from tclint.syntax.source import Source

__all__ = ["decode", "encode"]

_OF_THE_INPUT = frozenset(("path", "member", "origin", "source"))
"""The fields of a report that come from the input and not from its text."""
_OF_SOURCES = frozenset(("comments", "newer"))
"""Those that come from the sources from which the text was compiled."""

Read = Callable[[Any, int], Any]
"""Makes an object of its data, given the size of the text. Raises ValueError for data of another type."""


def encode(report: FileReport, *, sources: bool = False) -> bytes:
    """*report* without what comes from its input; with what comes from its *sources*, if that is wanted."""
    values = [_plain(getattr(report, name)) for name in _stored(sources)]
    return json.dumps(values, separators=(",", ":")).encode()


def decode(data: bytes, source: Source, *, sources: bool = False) -> FileReport:
    """The report on *source* that :func:`encode` made *data* of. Raises ValueError if it is not such data."""
    try:
        values = json.loads(data)
        readers, size = _readers(sources), len(source.data)
        _check(isinstance(values, list) and len(values) == len(readers))
        made = [reader(value, size) for reader, value in zip(readers, values, strict=True)]
    except RecursionError:
        raise ValueError("nested too deeply") from None
    made_of = dict(zip(_stored(sources), made, strict=True))
    return FileReport(path=source.path, member=source.member, source=source, **made_of)


def _plain(value: Any) -> Any:
    """What JSON can hold of a value; enumerations by name, rules by id."""
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, tuple):  # a named one too
        return [_plain(item) for item in value]
    if isinstance(value, Rule):
        return value.id
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in fields(value)]
    raise TypeError(f"a report has a {type(value).__name__}")


@cache
def _stored(sources: bool) -> tuple[str, ...]:
    """The fields of a report that are stored, with those that come from its *sources* or without."""
    left_out = _OF_THE_INPUT if sources else _OF_THE_INPUT | _OF_SOURCES
    return tuple(field.name for field in fields(FileReport) if field.name not in left_out)


@cache
def _readers(sources: bool) -> list[Read]:
    """How each of these fields is read."""
    hints = _hints(FileReport)
    return [_reader(hints[name]) for name in _stored(sources)]


def _hints(kind: type) -> dict[str, Any]:
    """The types of the fields; ``finding`` imports some of them for type checkers only."""
    return get_type_hints(kind, localns={"Assembled": Assembled, "Rule": Rule, "Verdict": Verdict})


@cache
def _reader(kind: Any) -> Read:
    """How a value of a type is read."""
    if kind is Rule:
        return lambda value, _: all_rules()[_typed(value, str)]
    if kind is Span:
        return _span
    if kind in (str, int, bool, NoneType):
        return lambda value, _: _typed(value, kind)
    if get_origin(kind) is Literal:
        return lambda value, _: _one_of(value, get_args(kind))
    if get_origin(kind) is UnionType:
        return _optional(kind)
    if get_origin(kind) is tuple:
        return _sequence(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = kind.__members__
        return lambda value, _: members[_one_of(value, members)]
    if is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, tuple)):
        return _composite(kind)
    raise TypeError(f"a report has a {kind}")


def _optional(kind: Any) -> Read:
    whole = tuple(each for each in get_args(kind) if each is not NoneType)
    if len(whole) != 1 or NoneType not in get_args(kind):
        raise TypeError(f"a report has a {kind}")
    reader = _reader(whole[0])
    return lambda value, size: None if value is None else reader(value, size)


def _sequence(kind: Any) -> Read:
    element, *rest = get_args(kind)
    if rest != [...]:
        raise TypeError(f"a report has a {kind}")
    reader: Read | None = None

    def read(value: Any, size: int) -> tuple[Any, ...]:
        nonlocal reader  # made when needed: a source location contains source locations
        if not _typed(value, list):
            return ()
        reader = reader or _reader(element)
        return tuple([reader(item, size) for item in value])

    return read


def _composite(kind: Any) -> Read:
    """For a dataclass or a named tuple."""
    hints = _hints(kind)
    named = fields(kind) if is_dataclass(kind) else ()
    names = [field.name for field in named] or list(kind._fields)
    keyword = any(field.kw_only for field in named)
    readers = [_reader(hints[name]) for name in names]

    def read(value: Any, size: int) -> Any:
        _check(len(_typed(value, list)) == len(readers))
        made = [reader(item, size) for reader, item in zip(readers, value, strict=True)]
        return kind(**dict(zip(names, made, strict=True))) if keyword else kind(*made)

    return read


def _span(value: Any, size: int) -> Span:
    start, end = _typed(value, list)
    _check(type(start) is int and type(end) is int and 0 <= start <= end <= size)
    return Span(start, end)


def _typed(value: Any, kind: type) -> Any:
    _check(type(value) is kind)
    return value


def _one_of(value: Any, allowed: Any) -> Any:
    _check(type(value) is str and value in allowed)
    return value


def _check(right: bool) -> None:
    if not right:
        raise ValueError("not the data of a report")
