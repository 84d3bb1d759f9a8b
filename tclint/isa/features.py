"""What PTX has besides instructions, special registers and directives of functions, read from ``features.toml``:
linkage, types and initial values of variables, attributes of parameters, pragmas, information for debuggers (PTX ISA 5,
11, 12).

A feature is a pattern in the text of one kind of statement, so one pass over the few statements that are not
instructions finds them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from tclint._dataclass import dataclass
from tclint.isa.documents import TableError, documents
from tclint.isa.target import Availability, Version, parse_version

__all__ = ["KINDS", "FeatureSpec", "feature", "features", "used"]

KINDS = frozenset(
    """module-variable variable initial entry-parameter func-parameter entry func alias calltargets callprototype
    module-pragma head-pragma pragma module-loc loc-intermediate source-section
    file section address-size named""".split()
)
"""The kinds of statements, and of parts of them, that have features (key ``on``). For ``entry`` and ``func`` the text
is what precedes the word; for a variable, it ends at the ``=`` of its initial value, and ``initial`` is the value. A
feature of the kind ``named`` has no pattern: a check recognises it."""

_TYPES = frozenset([*(f".{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)), ".f32", ".f64"])
_REGISTER_TYPES = _TYPES.union((".pred", ".f16"))
_OF_PROTOTYPES = _TYPES.union((".callprototype", ".param", ".reg", ".align"))
_WORDS = str.maketrans({mark: f" {mark} " for mark in "()[]<>,;="})
_INITIAL = frozenset(" \t\r\n{},0123456789xXabcdefABCDEF.+-;")
_LINKAGE = ("", ".visible", ".weak", ".extern")
_PLAIN_WORDS: Mapping[str, tuple[str, ...]] = {
    "entry": _LINKAGE, "func": _LINKAGE, "address-size": (".address_size 64", ".address_size 32"),
    "module-pragma": ('.pragma "nounroll";',), "head-pragma": ('.pragma "nounroll";',),
    "pragma": ('.pragma "nounroll";',),
}  # fmt: skip
"""Kinds of which only a few texts are common."""
_COMPLETE = frozenset(("section", "calltargets"))
"""Kinds of statements all features of which a module of version :data:`COMMON` has."""
COMMON: Version = (7, 5)
"""From this version on, modules have every feature of the statements that compilers usually emit."""


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
def _read(index: int) -> FeatureSpec:
    return _spec(_raw()[index])


@cache
def _raw() -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = documents().document("features")["feature"]
    return found


def features() -> tuple[FeatureSpec, ...]:
    """The description of every feature; several have one name where its availability depends on the statement."""
    return tuple(map(_read, range(len(_raw()))))


@cache
def _of_kind(kind: str) -> tuple[FeatureSpec, ...]:
    """The features of a kind: their patterns are compiled only for the kinds that a kernel has."""
    return tuple(_read(index) for index, raw in enumerate(_raw()) if kind in raw["on"].split())


def feature(name: str) -> FeatureSpec:
    """The feature called *name* that has no pattern. Raises StopIteration if there is none."""
    return next(spec for spec in _of_kind("named") if spec.name == name)


def used(kind: str, text: str, version: Version) -> tuple[FeatureSpec, ...]:
    """The features of a statement of *kind* that is *text*, without comments, in a module of *version*."""
    return () if version >= COMMON and _plain(kind, text) else _used(kind, text)


def _plain(kind: str, text: str) -> bool:
    """Whether *text* certainly has no feature that a module of version :data:`COMMON` may lack.

    That holds for nearly all texts, so few kernels need the table. The text is split into words, as compiling regular
    expressions would take longer than linting a small kernel.
    """
    if kind in _COMPLETE or text.strip() in _PLAIN_WORDS.get(kind, ()):
        return True
    if kind == "initial":
        return _INITIAL.issuperset(text)
    if kind == "file":
        word, number, *name = [*text.split(None, 2), "", ""][:3]
        return word == ".file" and number.isdigit() and name[0].startswith('"') and text.isascii()
    return kind in _DECLARES and _declares_plainly(kind, text)


@lru_cache(maxsize=1024)
def _declares_plainly(kind: str, text: str) -> bool:
    """As :func:`_plain`, for a declaration: these are short, unlike initial values, and kernels repeat them."""
    return _DECLARES[kind](text.translate(_WORDS).split())


def _is_variable(words: list[str]) -> bool:
    if words[-1:] == [";"]:
        words = words[:-1]
    if words[:1] == [".reg"]:
        names = words[2:]
        if not names or words[1] not in _REGISTER_TYPES:
            return False
        if "<" in names and not all(_is_size(after) for word, after in pairwise(names) if word == "<"):
            return False
        return all(map(_is_part_of_names, names))
    return words[:1] in ([".param"], [".local"], [".shared"]) and _is_array(_typed(words[1:]))


def _is_part_of_names(word: str) -> bool:
    return word in ("<", ">", ",") or word.isdigit() or _is_name(word)


def _is_module_variable(words: list[str]) -> bool:
    initialised = words[-1:] == ["="]
    if initialised or words[-1:] == [";"]:
        words = words[:-1]
    linkage = words[0] if words[:1] in ([".visible"], [".weak"], [".extern"]) else ""
    words = words[1:] if linkage else words
    declared = _typed(words[1:])
    if initialised and (linkage == ".extern" or words[:1] == [".shared"]):
        return False
    if words[:1] == [".shared"] and linkage in ("", ".extern"):
        return _is_array(declared) or (linkage != "" and declared[1:] == ["[", "]"] and _is_name(declared[0]))
    return words[:1] in ([".global"], [".const"]) and _is_array(declared)


def _is_entry_parameter(words: list[str]) -> bool:
    declared = _typed(words[1:])
    if declared[:1] == [".ptr"]:
        declared = declared[1:]
        if declared[:1] in ([".global"], [".shared"], [".const"], [".local"]):
            declared = declared[1:]
    return words[:1] == [".param"] and _is_array(_aligned(declared))


def _is_func_parameter(words: list[str]) -> bool:
    if words[:1] == [".reg"]:
        return len(words) == 3 and words[1] in _TYPES and _is_name(words[2])
    return words[:1] == [".param"] and _is_array(_typed(words[1:]))


def _is_prototype(words: list[str]) -> bool:
    return all(word in _OF_PROTOTYPES or "." not in word for word in words)


_DECLARES: Mapping[str, Callable[[list[str]], bool]] = {
    "variable": _is_variable, "module-variable": _is_module_variable,
    "entry-parameter": _is_entry_parameter, "func-parameter": _is_func_parameter, "callprototype": _is_prototype,
}  # fmt: skip


def _typed(words: list[str]) -> list[str]:
    """What follows the alignment and the type of a declaration; nothing if it has another type."""
    words = _aligned(words)
    return words[1:] if words and words[0] in _TYPES else []


def _aligned(words: list[str]) -> list[str]:
    return words[2:] if words[:1] == [".align"] and len(words) > 1 and words[1].isdigit() else words


def _is_array(words: list[str]) -> bool:
    """Whether these are a name and the sizes of its dimensions."""
    sizes = words[2::3]
    brackets = words[1::3], words[3::3]
    return (
        bool(words)
        and _is_name(words[0])
        and len(words) == 1 + 3 * len(sizes)
        and brackets == (["["] * len(sizes), ["]"] * len(sizes))
        and all(_is_size(size) and not size.startswith("0") for size in sizes)
    )


def _is_size(word: str) -> bool:
    return word.isdigit() and len(word) <= 18


def _is_name(word: str) -> bool:
    return word != "WARP_SZ" and word.translate(_LETTERS).isalnum()


_LETTERS = str.maketrans("_$%", "aaa")


@lru_cache(maxsize=1024)
def _used(kind: str, text: str) -> tuple[FeatureSpec, ...]:
    return tuple(spec for spec in _of_kind(kind) if spec.pattern is not None and spec.pattern.search(text))
