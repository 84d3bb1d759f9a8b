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
_NAMES = rf"{_RANGE}(?:\s*,\s*{_RANGE})*\s*;?\s*$"
_ARRAY = rf"{_NAME}(?:\s*\[\s*[1-9]\d{{0,17}}\s*\])*\s*"
_ALIGNED = r"(?:\s+\.align\s+\d{1,18})?"
_PLAIN = re.compile(
    rf"""(?x)\.reg\s+(?:{_TYPE}|\.pred|\.f16)\s+{_NAMES}
    |\.(?:param|local|shared){_ALIGNED}\s+{_TYPE}\s+{_ARRAY};?\s*$"""
)
"""Declarations in a function that have no feature: nearly all, so that few kernels need the table."""
_PLAIN_OUTSIDE = re.compile(
    rf"""(?x)(?:\.(?:visible|weak)\s+)?\.(?:global|const){_ALIGNED}\s+{_TYPE}\s+{_ARRAY}(?:;?\s*|=)$
    |\.extern\s+\.(?:global|const){_ALIGNED}\s+{_TYPE}\s+{_ARRAY};?\s*$
    |\.extern\s+\.shared{_ALIGNED}\s+{_TYPE}\s+{_NAME}\s*(?:\[\s*\])?\s*;?\s*$
    |(?:\.extern\s+)?\.shared{_ALIGNED}\s+{_TYPE}\s+{_ARRAY};?\s*$"""
)
_PLAIN_PARAMETER = re.compile(
    rf"""(?x)\.param{_ALIGNED}\s+{_TYPE}(?:\s+\.ptr(?:\s+\.(?:global|shared|const|local))?{_ALIGNED})?{_ALIGNED}\s+
    {_ARRAY}$"""
)
_PLAIN_FUNC_PARAMETER = re.compile(
    rf"\.(?:param|reg){_ALIGNED}\s+{_TYPE}\s+{_NAME}\s*(?:\[\s*[1-9]\d{{0,17}}\s*\])?\s*$"
)
_PLAIN_TEXTS: Mapping[str, re.Pattern[str]] = {
    "variable": _PLAIN,
    "module-variable": _PLAIN_OUTSIDE,
    "initial": re.compile(r"[\s{},0-9xXa-fA-F.+-]*;?\s*$"),
    "entry-parameter": _PLAIN_PARAMETER,
    "func-parameter": _PLAIN_FUNC_PARAMETER,
    "entry": re.compile(r"\s*(?:\.(?:visible|weak|extern)\s*)?$"),
    "func": re.compile(r"\s*(?:\.(?:visible|weak|extern)\s*)?$"),
    "module-pragma": re.compile(r'\.pragma\s+"nounroll"\s*;'),
    "head-pragma": re.compile(r'\.pragma\s+"nounroll"\s*;'),
    "pragma": re.compile(r'\.pragma\s+"nounroll"\s*;'),
    "address-size": re.compile(r"\.address_size\s+(?:32|64)\s*$"),
    "file": re.compile(r'\.file\s+\d+\s+"[^"]*"'),
    "callprototype": re.compile(
        r"[^.]*\.callprototype\s*[^.]*(?:\.(?:param|reg|align|b\d+|[usf]\d+)[^.]*)*$"
    ),
    "calltargets": re.compile(""),
}
COMMON: Version = (4, 0)
"""From this version on, every target has what :data:`_PLAIN_TEXTS` matches."""


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
    plain = _PLAIN_TEXTS.get(kind) if version >= COMMON else None
    return () if plain is not None and plain.match(text) else _used(kind, text)


@lru_cache(maxsize=1024)
def _used(kind: str, text: str) -> tuple[FeatureSpec, ...]:
    return tuple(spec for spec in _of_kind(kind) if spec.pattern is not None and spec.pattern.search(text))
