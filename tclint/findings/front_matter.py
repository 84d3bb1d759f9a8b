"""The TOML at the start of the page of a rule: all that the program knows of the rule, apart from its text and its check.

The fields of :class:`tclint.findings.rules.Rule` explain the keys. A rule about the ptxas of some CUDA toolkit names one,
``toolkit = "12.8"``, for which its examples are checked. ``assembles = false`` states that ptxas rejects the code that the
rule reports. ``strict = "warning"`` gives the severity with the setting ``strict``: the ISA forbids the code, and neither
hardware nor machine code has shown it to go wrong. ``default = false`` leaves the rule off unless a setting selects it.
``hazards`` is empty for a rule about something else, such as an operand or speed.

``words`` states what to change in the source language from which the PTX was generated. It is a table with a
text for each of ``PRODUCERS``, or ``"none"`` for one without such a text; or the id of a rule with such a table, which
then applies to both; or ``"none"`` if no producer has a text. A comment beside each ``"none"`` gives the reason.
"""

from __future__ import annotations

import marshal
import os
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from tclint import _toml
from tclint._kept import VERSION, keep, kept
from tclint._pattern import pattern
from tclint.findings.scales import Confidence, Severity

__all__ = ["ID", "INLINE", "PRODUCERS", "FrontMatter", "RuleError", "fields", "parse"]

PRODUCERS = ("CUTLASS", "CuTe DSL", "CUDA C++", "Triton")
"""The languages and libraries in which the source of a module can be written."""
INLINE = ("string", "statement", "architecture")
"""What a rule may need to know of inline assembly: the string, the statement around it, or the architecture too."""
ID = re.compile(r"[A-Z]{2,4}[0-9]{3}")
"""The id of a rule: the letters of its family, and three digits."""

_NAME = pattern(r"[a-z0-9]+(-[a-z0-9]+)*")
_VERSION = pattern(r"\d+\.\d+\.\d+")
_SECTION = pattern(r"\d+(\.\d+)*")
_TOOLKIT = pattern(r"(\d+)\.(\d+)")
_OBSERVATION = pattern(r"[a-z-]+( (of|at) [\w.]+)?")
_MODULE = pattern(r"[a-z0-9_]+")
_NEED = pattern(r"[a-z0-9. ]+")
_KEYS: dict[str, type] = {
    "name": str,
    "severity": str,
    "confidence": str,
    "family": str,
    "hazards": list,
    "since": str,
    "manual": list,
}
_OPTIONAL_KEYS: dict[str, type] = {
    "toolkit": str,
    "assembles": bool,
    "strict": str,
    "default": bool,
    "broke": bool,
    "denies": str,
    "checks": list,
    "needs": list,
    "confirmed_by": dict,
    "observed_as": list,
    "inline": str,
    "moved": dict,
    "race": bool,
    "subsumed_by": list,
    "subsumed_by_worse": list,
}
_LISTS = {
    "manual": (_SECTION, 'section numbers such as "9.7.15.7.3"'),
    "hazards": (_NAME, 'classes such as "wgmma"'),
    "checks": (_MODULE, 'modules such as "wgmma_order"'),
    "needs": (_NEED, 'what a kernel contains, such as "bulk copy"'),
    "observed_as": (_OBSERVATION, 'observations such as "read-too-early of cp.async"'),
    "subsumed_by": (ID, "rules such as WG001"),
    "subsumed_by_worse": (ID, "rules such as WG001"),
}
"""Key -> the form of each member of its list, and what a message calls them."""
_NO_WORDS = "none"
_READ = 1 << 11
"""Bytes of a page that are read at once."""
_LAYOUT = 1
"""A number for how what is kept is laid out, of which older files are not read."""
_Parsed = tuple[dict[str, dict[str, Any]], dict[str, bytes]]
"""Optional key -> id -> its value, and id -> the marshalled front matter, which a run needs of few pages."""


class RuleError(Exception):
    """A rule page is invalid; the message names the file and the line."""


class FrontMatter:
    """What all pages of a folder state, whose *paths* are given by the id of the rule.

    It is *kept* in a file, if one is given, and parsed when a page has changed: parsing all of them takes as long as
    linting a small kernel.
    """

    def __init__(self, paths: Mapping[str, str], kept: Path | None) -> None:
        self._paths = paths
        self._kept = kept

    def of(self, id: str) -> Mapping[str, Any]:
        """What one page states, as TOML has it. Raises RuleError if that of any page is not TOML."""
        found: Mapping[str, Any] = marshal.loads(self._all[1][id])
        return found

    @cached_property
    def _all(self) -> _Parsed:
        """Raises RuleError if the front matter of a page is not TOML."""
        texts = self._texts()
        if self._kept is None:
            return _parsed(texts)
        found: _Parsed = kept(self._kept, _made_of(texts), lambda: _parsed(texts))
        return found

    def declared(self, key: str) -> Mapping[str, Any]:
        """Id -> what the front matter of the page states as *key*, an optional one, as TOML has it; without the pages that
        state nothing. Raises RuleError if that of a page is not TOML."""
        return self._all[0].get(key, {})

    def keep(self) -> None:
        """Keep the front matter. Raises RuleError if that of a page is not TOML, and OSError if it cannot be kept."""
        assert self._kept is not None
        texts = self._texts()
        keep(self._kept, _made_of(texts), _parsed(texts))

    def _texts(self) -> Mapping[str, bytes]:
        return {id: _head(path) for id, path in self._paths.items()}


def _head(path: str) -> bytes:
    """The front matter of a page, without the lines around it. Every run reads all of them, so no more is read."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        text = b""
        while b"\n+++" not in text and (more := os.read(file, _READ)):
            text += more
    finally:
        os.close(file)
    return text.partition(b"\n+++")[0].partition(b"\n")[2]


def _made_of(texts: Mapping[str, bytes]) -> bytes:
    names = f"{_LAYOUT} {' '.join(_OPTIONAL_KEYS)} {' '.join(texts)}"
    return b"\0".join((names.encode(), *texts.values()))


def _parsed(texts: Mapping[str, bytes]) -> _Parsed:
    fronts = {id: parse(id, text.decode()) for id, text in texts.items()}
    declared = {
        key: {id: front[key] for id, front in fronts.items() if key in front} for key in _OPTIONAL_KEYS
    }
    return declared, {id: marshal.dumps(front, VERSION) for id, front in fronts.items()}


def parse(id: str, text: str) -> dict[str, Any]:
    """The front matter *text* of the page of a rule, as TOML has it. Raises RuleError if it is not TOML."""
    try:
        return _toml.parse(text)
    except ValueError as error:
        raise RuleError(f"{id}.md:1: front matter: {error}") from None


def fields(front: Mapping[str, Any], fail: Callable[[str], RuleError]) -> dict[str, Any]:
    """The fields of Rule that the front matter specifies; ``fail`` makes the exception for a message."""
    meta = dict(front)
    for key, kind in _KEYS.items():
        if not isinstance(meta.get(key), kind):
            raise fail(f"front matter: {key} must be a {kind.__name__}")
    for key, kind in _OPTIONAL_KEYS.items():
        if not isinstance(meta.get(key, kind()), kind):
            raise fail(f"front matter: {key} must be a {kind.__name__}")
    meta["words"] = _words(meta.get("words"), fail)
    if unknown := meta.keys() - _KEYS.keys() - _OPTIONAL_KEYS.keys() - {"words"}:
        raise fail(f"front matter: unknown key {min(unknown)}")
    for key, scale in (("severity", Severity), ("confidence", Confidence), ("strict", Severity)):
        labels = {step.label: step for step in scale}
        if key in meta or key in _KEYS:
            if meta[key] not in labels:
                raise fail(f"front matter: {key} must be one of {', '.join(labels)}")
            meta[key] = labels[meta[key]]
    if meta.get("inline", INLINE[0]) not in INLINE:
        raise fail(f"front matter: inline must be one of {', '.join(INLINE)}")
    if "strict" in meta and meta["strict"] <= meta["severity"]:
        raise fail("front matter: strict must be above severity")
    if meta["confidence"] is Confidence.CONFIRMED:
        raise fail("front matter: confidence must not be confirmed, which only the executor assigns")
    for key, form in (("name", _NAME), ("since", _VERSION)):
        if not form.fullmatch(meta[key]):
            raise fail(f"front matter: {key} = {meta[key]!r} is malformed")
    for key, (form, members) in _LISTS.items():
        if not all(isinstance(each, str) and form.fullmatch(each) for each in meta.get(key, ())):
            raise fail(f"front matter: {key} must list {members}")
        meta[key] = tuple(meta.get(key, ()))
    if not meta["manual"]:
        raise fail("front matter: manual must list section numbers")
    proofs = meta.get("confirmed_by", {})
    if not all(isinstance(kinds, list) and kinds for kinds in proofs.values()):
        raise fail("front matter: confirmed_by must have lists of observations")
    meta["confirmed_by"] = {where: tuple(kinds) for where, kinds in proofs.items()}
    if "moved" in meta and meta["moved"].keys() != {"what", "method", "rules", "until"}:
        raise fail("front matter: moved must have what, method, rules and until")
    if "toolkit" in meta:
        toolkit = _TOOLKIT.fullmatch(meta["toolkit"])
        if toolkit is None:
            raise fail(f'front matter: toolkit = {meta["toolkit"]!r} is not a version such as "12.8"')
        meta["toolkit"] = (int(toolkit[1]), int(toolkit[2]))
    return meta


def _words(value: object, fail: Callable[[str], RuleError]) -> Mapping[str, str] | str:
    """``Rule.words`` from the front matter; ``fail`` makes the exception for a message."""
    if value == _NO_WORDS:
        return {}
    if isinstance(value, str) and ID.fullmatch(value):
        return value
    if not isinstance(value, dict):
        raise fail(f'front matter: words must be a table, the id of a rule such as WG001, or "{_NO_WORDS}"')
    if unknown := value.keys() - set(PRODUCERS):
        raise fail(
            f"front matter: words: unknown producer {min(unknown)}: must be one of {', '.join(PRODUCERS)}"
        )
    for producer in PRODUCERS:
        if not (isinstance(value.get(producer), str) and value[producer]):
            raise fail(f'front matter: words: {producer} must be a text, or "{_NO_WORDS}"')
    return {producer: text for producer, text in value.items() if text != _NO_WORDS}
