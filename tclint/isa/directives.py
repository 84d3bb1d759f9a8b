"""The directives of kernels and functions (PTX ISA 11.4, 11.7, 11.8), read from ``directives.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from tclint._dataclass import dataclass
from tclint.isa.documents import documents
from tclint.isa.target import Availability, Version, parse_version

__all__ = ["DirectiveSpec", "directives"]


@dataclass(frozen=True)
class DirectiveSpec:
    """The description of one directive. Field meanings: ``README.md`` beside this module."""

    name: str
    on: frozenset[str]
    available: Availability
    until: Version | None
    instead: str
    numbers: range
    refused: range
    most: int | None
    once: bool
    excludes: frozenset[str]
    needs: tuple[str, ...]
    idle: tuple[str, ...]
    manual: str
    example: str


def _range(bounds: list[int] | None) -> range:
    return range(bounds[0], bounds[1] + 1) if bounds else range(0)


def _spec(raw: Mapping[str, Any]) -> DirectiveSpec:
    until = raw.get("until")
    return DirectiveSpec(
        name=raw["name"], on=frozenset(raw["on"].split()), example=raw["example"], manual=raw.get("manual", ""),
        available=Availability.parse(raw.get("since", "1.0"), raw.get("targets", "")),
        until=parse_version(until) if until else None, instead=raw.get("instead", ""),
        numbers=_range(raw.get("numbers")) or range(1), refused=_range(raw.get("refused")),
        most=raw.get("most"), once=raw.get("once", False),
        excludes=frozenset(raw.get("excludes", "").split()), needs=tuple(raw.get("needs", "").split()),
        idle=tuple(raw.get("idle", "").split()),
    )  # fmt: skip


@cache
def directives() -> Mapping[str, DirectiveSpec]:
    """Name -> description of every directive."""
    return {raw["name"]: _spec(raw) for raw in documents().document("directives")["directive"]}
