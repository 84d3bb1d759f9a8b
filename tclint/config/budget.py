"""How a file writes the setting ``ptxas-budget``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tclint._pattern import pattern
from tclint.findings.figures import CODES, WORDS, Budget, Limit
from tclint.findings.rules import nearest
from tclint.findings.selection import SettingsError

__all__ = ["SCHEMA", "read", "write"]

_OPTION = pattern(
    r"--(opt-level|maxrregcount|maxntid|minnctapersm|register-usage-level|fmad|allow-expensive-optimizations"
    r"|def-load-cache|def-store-cache|Ofast-compile|device-debug|compile-only)(=[\w,]+)?"
)
"""The options of ptxas that a file may give: none of them names a file."""
_FIGURES = f"{', '.join(WORDS)}, and codes such as C7510"
_TEXTS = {"type": "array", "items": {"type": "string", "minLength": 1}}
_AMOUNT = {"type": "integer", "minimum": 0}
_AMOUNTS = {
    "properties": {name: {"description": f"{words}, at most", **_AMOUNT} for name, words in WORDS.items()},
    "patternProperties": {r"^C7[0-9x]{3}$": {"description": "messages with this code, at most", **_AMOUNT}},
    "additionalProperties": False,
}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "limits": {
            "description": "Limits on figures; of several for one figure of a kernel, the last one counts.",
            "type": "array",
            "items": {
                "type": "object",
                **_AMOUNTS,
                "properties": {
                    "kernels": {
                        "description": "Patterns for the names of kernels; all without it.",
                        **_TEXTS,
                    },
                    "targets": {
                        "description": "Patterns for targets, such as sm_90a; all without it.",
                        **_TEXTS,
                    },
                    **_AMOUNTS["properties"],  # type: ignore[dict-item]
                },
            },
        },
        "allowance": {
            "description": "By how much a figure may exceed that of the baseline or of the old build; 0 without it.",
            "type": "object",
            **_AMOUNTS,
        },
        "options": {"description": "Options of ptxas, such as --maxrregcount=128.", **_TEXTS},
        "timeout": {
            "description": "Seconds that ptxas may take for a module.",
            "type": "integer",
            "minimum": 1,
        },
    },
}
"""The JSON schema of the table."""


def read(value: object) -> Budget:
    """The budget that a table stands for. Raises SettingsError."""
    table = _table(value, "it")
    for key in table:
        if key not in SCHEMA["properties"]:
            raise SettingsError(f"unknown key {key}{nearest(key, SCHEMA['properties'])}")
    limits = table.get("limits", [])
    if not isinstance(limits, list):
        raise SettingsError(
            "limits must be a list of tables, each of which begins with [[ptxas-budget.limits]]"
        )
    options = _texts(table, "options")
    for option in options:
        if not _OPTION.fullmatch(option):
            raise SettingsError(
                f"{option!r} is not one of the options of ptxas that a configuration may give, such as --maxrregcount=128"
            )
    seconds = table.get("timeout", Budget().seconds)
    if not _whole(seconds) or seconds < 1:
        raise SettingsError("timeout must be a number of seconds, at least 1")
    allowance = _table(table.get("allowance", {}), "allowance")
    return Budget(tuple(map(_limit, limits)), tuple(_amounts(allowance)), options, seconds)


def write(budget: Budget) -> dict[str, Any]:
    """The table of a budget: the inverse of :func:`read`."""
    limits = [
        {
            **({"kernels": list(limit.kernels)} if limit.kernels else {}),
            **({"targets": list(limit.targets)} if limit.targets else {}),
            **dict(limit.most),
        }
        for limit in budget.limits
    ]
    return {
        **({"limits": limits} if limits else {}),
        **({"allowance": dict(budget.allowance)} if budget.allowance else {}),
        **({"options": list(budget.options)} if budget.options else {}),
        "timeout": budget.seconds,
    }


def _limit(value: object) -> Limit:
    table = _table(value, "limits")
    amounts = {key: amount for key, amount in table.items() if key not in ("kernels", "targets")}
    if not amounts:
        raise SettingsError(f"an entry of limits limits nothing; there are {_FIGURES}")
    return Limit(_texts(table, "kernels"), _texts(table, "targets"), tuple(_amounts(amounts)))


def _amounts(table: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for key, amount in table.items():
        if key not in WORDS and not CODES.fullmatch(key):
            raise SettingsError(f"unknown figure {key}{nearest(key, WORDS) or f'; there are {_FIGURES}'}")
        if not _whole(amount) or amount < 0:
            raise SettingsError(f"{key} must be a number, at least 0")
        yield key, amount


def _table(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SettingsError(f"{name} must be a table")
    return value


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise SettingsError(f"{key} must be a list of texts")
    return tuple(value)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
