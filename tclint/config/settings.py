"""From files, ``--config`` and the command line to one :class:`~tclint.config.config.Config`.

``tclint-ptx.toml``, or the table ``[tool.tclint-ptx]`` of ``pyproject.toml``, is looked for in the working folder and
its parents; the nearest one is used. Later layers override earlier ones: file, ``--config key=value``, options. A file
contains data only; nothing in it can name code to load.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tclint import _toml
from tclint._dataclass import dataclass
from tclint._read import read_file
from tclint.config.config import IGNORES, PATH, PATHS, Config, Selection, Setting, settings
from tclint.config.selection import enabled
from tclint.findings.figures import RULES
from tclint.findings.moved import all_moved, moved_to, note, subject
from tclint.findings.rules import UnknownRule, all_rules, nearest
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import SettingsError, former_named, meant

__all__ = [
    "Layer",
    "Settings",
    "candidates",
    "discover",
    "inline",
    "load",
    "named",
    "resolve",
    "schema",
    "show",
]

FILE = "tclint-ptx.toml"
PROJECT = "pyproject.toml"
TABLE = "tclint-ptx"
COMMAND_LINE = "the command line"


@dataclass(frozen=True, slots=True)
class Layer:
    """The settings of one origin: keys and values as they are written in a file."""

    origin: str
    values: Mapping[str, Any]
    folder: Path
    """Paths, and patterns for paths, are relative to it."""
    is_file: bool = False
    """Whether the origin is the path of a file."""

    def where(self, key: str) -> str:
        return f"--{key}" if self.origin == COMMAND_LINE else f"{self.origin}: {key}"


@dataclass(frozen=True, slots=True)
class Settings:
    """The resolved settings, and the origin of each key that was set."""

    config: Config
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()
    """What the user should write instead of a former id of a rule."""
    files: tuple[str, ...] = ()
    """The configuration files that were read."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The files that decide what is reported, besides those that are checked."""
        return (*self.files, *((self.config.baseline,) if self.config.baseline is not None else ()))


def discover(folder: Path) -> Layer | None:
    """The configuration file for *folder*, in it or the nearest parent; None if there is none. Raises SettingsError."""
    for path in candidates(folder):
        if os.path.isfile(path) and (layer := load(path)) is not None:
            return layer
    return None


def candidates(folder: Path) -> Iterator[Path]:
    """Where the configuration file for *folder* may be, the nearest place first."""
    return (parent / name for parent in (folder, *folder.parents) for name in (FILE, PROJECT))


def load(path: Path) -> Layer | None:
    """The settings in a file; None for a ``pyproject.toml`` without a table for tclint. Raises SettingsError."""
    try:
        text = read_file(path, special=True).decode("utf-8-sig")  # editors on Windows write a byte order mark
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"{path}: cannot be read: {reason}") from None
    project = path.name == PROJECT
    if project and TABLE not in text:  # even if it is not valid TOML
        return None
    values = _parsed(text, str(path))
    if project:
        tool = values.get("tool")
        values = tool.get(TABLE) if isinstance(tool, dict) else None
        if values is None:
            return None
        if not isinstance(values, dict):
            raise SettingsError(f"{path}: [tool.{TABLE}] must be a table")
    return Layer(str(path), values, path.parent.absolute(), is_file=True)


def named(path: Path) -> Layer:
    """The settings in a file that the user named. Raises SettingsError, also if it has no table for tclint."""
    if (layer := load(path)) is None:
        raise SettingsError(f"{path}: has no table [tool.{TABLE}]")
    return layer


def inline(text: str, origin: str = "--config", folder: Path | None = None) -> Layer:
    """The settings in the text ``key = value`` of ``--config`` or a similar *origin*. Raises SettingsError."""
    key, _, value = (part.strip() for part in text.partition("="))
    try:
        values = _parsed(text, origin)
    except SettingsError as error:
        hint = f" (a string needs quotes: {origin} '{key} = \"{value}\"')" if value[:1].isalpha() else ""
        raise SettingsError(f"{error}{hint}") from None
    return Layer(origin, values, folder or Path.cwd())


def _parsed(text: str, origin: str) -> Any:
    try:
        return _toml.parse(text)
    except ValueError as error:
        raise SettingsError(f"{origin}: is not TOML: {error}") from None


def resolve(layers: Iterable[Layer]) -> Settings:
    """The settings that result from *layers*, the lowest priority first. Raises SettingsError."""
    values: dict[str, Any] = {}
    selections: list[Selection] = []
    origins: dict[str, str] = {}
    notes: list[str] = []
    files: list[str] = []
    declared = {setting.key: setting for setting in settings()}
    in_selection = set(Selection.__slots__)
    for layer in layers:
        read = {
            setting.name: _read(layer, setting, layer.values[key]) for key, setting in _known(layer, declared)
        }
        _refuse_contradictions(layer, read)
        for key, setting in _known(layer, declared):
            notes += _former_names(layer.where(key), tuple(_selectors(setting, read[setting.name])))
        selection = {name: read.pop(name) for name in in_selection & read.keys()}
        if selection:
            selections.append(Selection(**selection))
        # These pairs of settings decide the same question, so the one in the later layer is used.
        if "min_confidence" in read:
            values.pop("pedantic", None)
        if "fail_on" in read:
            values.pop("exit_zero", None)
        values |= read
        origins |= dict.fromkeys(layer.values, layer.origin)
        if layer.is_file:
            files.append(layer.origin)
    if values.get("ptxas_budget") is not None:
        selections.insert(0, Selection(extend_select=RULES))  # as if they were on by default
    if selections:
        values["rules"] = enabled(selections)
        if not values["rules"]:
            raise SettingsError("select and ignore leave no rules to check")
    return Settings(Config(**values), origins, tuple(dict.fromkeys(notes)), tuple(files))


def _known(layer: Layer, declared: Mapping[str, Setting]) -> Iterator[tuple[str, Setting]]:
    for key, value in layer.values.items():
        if key == "tool" and isinstance(value, dict) and TABLE in value:
            raise SettingsError(
                f"{layer.origin}: [tool.{TABLE}] is for {PROJECT}; in this file settings need no table"
            )
        if key not in declared:
            raise SettingsError(f"{layer.origin}: unknown setting {key}{nearest(key, declared)}")
        yield key, declared[key]


def _read(layer: Layer, setting: Setting, raw: Any) -> Any:
    try:
        value = setting.kind.read(raw)
    except SettingsError as error:
        raise SettingsError(f"{layer.where(setting.key)}: {error}") from None
    except (TypeError, ValueError, KeyError, AttributeError):
        shown = _spelled(raw)
        choices = setting.kind.schema.get("enum", ())
        suggestion = nearest(raw, choices) if isinstance(raw, str) else ""
        raise SettingsError(
            f"{layer.where(setting.key)} must be {setting.kind.wanted}, not {shown}{suggestion}"
        ) from None
    try:
        for selector in _selectors(setting, value):
            meant(selector)
    except UnknownRule as error:
        raise SettingsError(f"{layer.where(setting.key)}: {error}") from None
    if setting.name == "per_file_ignores":
        return tuple((_anchored(pattern, layer.folder), rules) for pattern, rules in value)
    if setting.kind is PATHS:
        return tuple(_anchored(pattern.rstrip("/") or pattern, layer.folder) for pattern in value)
    if setting.kind is PATH:
        return os.path.join(layer.folder, value)
    return value


def _anchored(pattern: str, folder: Path) -> str:
    """*pattern* made absolute; unchanged if it has no slash, because it is then matched with names."""
    if "/" not in pattern or pattern.startswith("**/") or Path(pattern).is_absolute():
        return pattern
    from glob import escape

    return f"{escape(folder.as_posix())}/{pattern}"


def _selectors(setting: Setting, value: Any) -> Iterator[str]:
    if setting.name in Selection.__slots__:
        yield from value
    elif setting.kind is IGNORES:
        for _, selectors in value:
            yield from selectors


def _former_names(where: str, selectors: tuple[str, ...]) -> Iterator[str]:
    """A note for each former rule among the *selectors* of one setting, unless they denote all that moved as well."""
    named = frozenset().union(*(meant(selector)[0] for selector in selectors))
    for old in filter(None, map(former_named, selectors)):
        if rules := [rule for rule in all_moved()[old].rules if rule not in named]:
            yield note(where, old, f"name {', '.join(rules)}")


def _refuse_contradictions(layer: Layer, read: Mapping[str, Any]) -> None:
    """Raise SettingsError for contradictory settings in one layer; a later layer may override an earlier one."""
    if read.get("pedantic") and read.get("min_confidence", Confidence.LOW) > Confidence.LOW:
        raise SettingsError(f"{layer.where('pedantic')} and min-confidence contradict each other")
    if "fail_on" not in read:
        return
    fail_on: Severity | None = read["fail_on"]
    if read.get("exit_zero") and fail_on is not None:
        raise SettingsError(f"{layer.where('exit-zero')} and fail-on contradict each other")
    if fail_on is not None and fail_on < read.get("min_severity", fail_on):
        raise SettingsError(
            f"{layer.where('fail-on')} is below min-severity: a hidden finding cannot affect the exit code"
        )


def show(found: Settings) -> str:
    """The settings as TOML, each with its origin in a comment; the rules are the ids that are on."""
    lines: list[str] = []
    for setting in settings():
        origin = found.origins.get(setting.key, "default")
        if setting.name in Selection.__slots__:
            continue
        value = getattr(found.config, setting.name)
        if value is None and setting.default is None:
            lines.append(f"# {setting.key} is not set")
        else:
            lines.append(f"{setting.key} = {_spelled(setting.kind.write(value))}  # {origin}")
    chosen = [found.origins[key] for key in ("select", "extend-select", "ignore") if key in found.origins]
    on = found.config.selected.on
    rules = all_rules().keys() & on
    lines.append(f"\n# rules: {', '.join(dict.fromkeys(chosen)) or 'default'}")
    lines += ["select = [", *(f"    {_spelled(id)}," for id in sorted(rules)), "]"]
    # An id denotes what moved to the rule, and a former id what moved from it.
    for old, moved in all_moved().items():
        if old in on:
            off = [id for id in moved.rules if subject(id, old) not in on]
        else:
            off = [old] * (not on.isdisjoint(moved.rules) and on.isdisjoint(moved_to(old)))
        if off:
            lines.append(f"ignore = {_spelled(off)}")
    return "\n".join(lines) + "\n"


def _spelled(value: Any) -> str:
    """A value as TOML, on one line."""
    import json

    if isinstance(value, dict):
        pairs = (f"{_spelled(key)} = {_spelled(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_spelled, value))}]"
    return json.dumps(value, ensure_ascii=False, default=str)


def schema() -> str:
    """The JSON schema of a ``tclint-ptx.toml`` and of ``[tool.tclint-ptx]``."""
    import json

    properties: dict[str, Any] = {}
    for setting in settings():
        properties[setting.key] = {"description": setting.help, **setting.kind.schema}
        if setting.default is not None:
            properties[setting.key]["default"] = setting.kind.write(setting.default)
    document = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Configuration of tclint-ptx",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
