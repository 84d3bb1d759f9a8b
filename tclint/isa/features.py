"""What PTX has besides instructions, special registers and directives of functions, read from ``features.toml``: linkage,
types and initial values of variables, attributes of parameters, pragmas, information for debuggers (PTX ISA 5, 11, 12).

A feature is a pattern in the text of one kind of statement, so one pass over the few statements that are no instructions
finds them all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from tclint.isa.table import TableError, read_toml
from tclint.isa.target import Availability, Version, parse_version

__all__ = ["KINDS", "FeatureSpec", "feature", "features", "used"]

KINDS = frozenset(
    """module-variable variable initial entry-parameter func-parameter entry func alias calltargets callprototype
    module-pragma head-pragma pragma module-loc loc-intermediate source-section
    file section address-size named""".split()
)
"""The kinds of statements, and of parts of them, that have features (key ``on``). For ``entry`` and ``func`` the text is
what precedes the word; for a variable, it ends at the ``=`` of its initial value, and ``initial`` is the value. A feature
of the kind ``named`` has no pattern: a check recognises it."""

_TYPE = r"\.(?:[bus](?:8|16|32|64)|f(?:32|64))"
_NAME = r"(?!WARP_SZ\b)[\w$%]+"
_RANGE = rf"{_NAME}(?:<\d{{1,18}}>)?"
_ARRAY = rf"{_NAME}(?:\s*\[\s*[1-9]\d{{0,17}}\s*\])*\s*"
_ALIGNED = r"(?:\s+\.align\s+\d{1,18})?"
_PLAIN: Mapping[str, str] = {
    "variable": rf"\.reg\s+(?:{_TYPE}|\.pred|\.f16)\s+{_RANGE}(?:\s*,\s*{_RANGE})*\s*;?\s*$"
    rf"|\.(?:param|local|shared){_ALIGNED}\s+{_TYPE}\s+{_ARRAY};?\s*$",
    "module-variable": rf"(?:\.(?:visible|weak)\s+)?\.(?:global|const){_ALIGNED}\s+{_TYPE}\s+{_ARRAY}(?:;?\s*|=)$"
    rf"|\.extern\s+\.(?:global|const){_ALIGNED}\s+{_TYPE}\s+{_ARRAY};?\s*$"
    rf"|\.extern\s+\.shared{_ALIGNED}\s+{_TYPE}\s+{_NAME}\s*(?:\[\s*\])?\s*;?\s*$"
    rf"|(?:\.extern\s+)?\.shared{_ALIGNED}\s+{_TYPE}\s+{_ARRAY};?\s*$",
    "initial": r"[\s{},0-9xXa-fA-F.+-]*;?\s*$",
    "entry-parameter": rf"\.param{_ALIGNED}\s+{_TYPE}(?:\s+\.ptr(?:\s+\.(?:global|shared|const|local))?{_ALIGNED})?{_ALIGNED}"
    rf"\s+{_ARRAY}$",
    "func-parameter": rf"\.param{_ALIGNED}\s+{_TYPE}\s+{_ARRAY}$|\.reg\s+{_TYPE}\s+{_NAME}\s*$",
    "file": r'\.file\s+\d+\s+"[^"]*"',
    "callprototype": r"[^.]*\.callprototype\s*[^.]*(?:\.(?:param|reg|align|b\d+|[usf]\d+)[^.]*)*$",
}
"""Kind of statement -> the texts that have no feature that a module of version :data:`COMMON` may lack: nearly all, so that
few kernels need the table."""
_LINKAGE = ("", ".visible", ".weak", ".extern")
_PLAIN_WORDS: Mapping[str, tuple[str, ...]] = {
    "entry": _LINKAGE, "func": _LINKAGE, "address-size": (".address_size 64", ".address_size 32"),
    "module-pragma": ('.pragma "nounroll";',), "head-pragma": ('.pragma "nounroll";',), "pragma": ('.pragma "nounroll";',),
}  # fmt: skip
"""The same, for kinds of which only a few texts are common."""
_COMPLETE = frozenset(("section", "calltargets"))
"""Kinds of statements all features of which a module of version :data:`COMMON` has."""
COMMON: Version = (7, 5)


@dataclass(frozen=True)
class FeatureSpec:
    """The description of one feature. Field meanings: ``README.md`` beside this module."""

    name: str
    on: frozenset[str]
    pattern: re.Pattern[str] | None
    available: Availability
    until: Version | None
    instead: str
    refused: str
    manual: str
    example: str


_KEYS = frozenset("name on text since targets until instead refused manual example".split())


def _spec(raw: Mapping[str, Any]) -> FeatureSpec:
    on, until = frozenset(raw["on"].split()), raw.get("until")
    if unknown := (raw.keys() - _KEYS) | (on - KINDS):
        raise TableError(f"features.toml: {raw['name']}: unknown key or kind {', '.join(sorted(unknown))}")
    return FeatureSpec(
        name=raw["name"], on=on, example=raw["example"], manual=raw.get("manual", ""),
        pattern=re.compile(raw["text"], re.DOTALL) if "text" in raw else None,
        available=Availability.parse(raw.get("since", "1.0"), raw.get("targets", "")),
        until=parse_version(until) if until else None, instead=raw.get("instead", ""), refused=raw.get("refused", ""),
    )  # fmt: skip


@cache
def features() -> tuple[FeatureSpec, ...]:
    """The description of every feature; several have one name where its availability depends on the statement."""
    return tuple(_spec(raw) for raw in read_toml(Path(__file__).parent / "features.toml")["feature"])


@cache
def _of_kind(kind: str) -> tuple[FeatureSpec, ...]:
    return tuple(spec for spec in features() if kind in spec.on)


def feature(name: str) -> FeatureSpec:
    """The feature called *name* that has no pattern. Raises StopIteration if there is none."""
    return next(spec for spec in _of_kind("named") if spec.name == name)


def used(kind: str, text: str, version: Version) -> tuple[FeatureSpec, ...]:
    """The features of a statement of *kind* that is *text*, without comments, in a module of *version*."""
    return () if version >= COMMON and _plain(kind, text) else _used(kind, text)


def _plain(kind: str, text: str) -> bool:
    if kind in _COMPLETE or text.strip() in _PLAIN_WORDS.get(kind, ()):
        return True
    return kind in _PLAIN and _pattern(kind).match(text) is not None


@cache
def _pattern(kind: str) -> re.Pattern[str]:
    return re.compile(_PLAIN[kind])


@lru_cache(maxsize=1024)
def _used(kind: str, text: str) -> tuple[FeatureSpec, ...]:
    return tuple(spec for spec in _of_kind(kind) if spec.pattern is not None and spec.pattern.search(text))
