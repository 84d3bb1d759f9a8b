"""The settings of a document: those of the nearest configuration file, overridden by those of the editor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tclint.config.config import Config
from tclint.config.selection import excluded
from tclint.config.settings import Layer, Settings, discover, resolve
from tclint.findings.selection import SettingsError

__all__ = ["SECTION", "Configuration"]

SECTION = "tclint"
_SECONDS = {"debounce": 0.1, "patience": 0.05}
"""Settings of the server itself, in seconds.

``debounce`` is how long it waits for further changes before it pushes diagnostics. ``patience`` is how long a first
answer to a change may take; findings that take longer follow in a second one.
"""
_HINTS = "inlay-hints"
"""The setting of the server that switches inlay hints off."""


class Configuration:
    """The settings from all sources. Files are read on demand and cached until they change."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, Any]] = {}
        """Settings from the client, by origin."""
        self._files: dict[Path, Config] = {}
        self.own = dict(_SECONDS)
        self.hints = True
        """Whether inlay hints are shown."""
        self.folder = Path.cwd()
        """The root of the workspace, to which patterns from the editor are relative."""

    def say(self, origin: str, values: object) -> None:
        """Replaces the settings from *origin*. Raises SettingsError if they are invalid."""
        given = (
            {key: value for key, value in values.items() if value is not None}
            if isinstance(values, Mapping)
            else {}
        )
        own = {name: given.pop(name) for name in _SECONDS if name in given}
        hints = given.pop(_HINTS, self.hints)
        self._values.pop(origin, None)
        self.forget()
        for name, value in own.items():
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 60:
                raise SettingsError(f"{origin}: {name} must be a number of seconds up to 60, not {value!r}")
            self.own[name] = float(value)
        if not isinstance(hints, bool):
            raise SettingsError(f"{origin}: {_HINTS} must be true or false, not {hints!r}")
        self.hints = hints
        resolve([Layer(origin, given, self.folder)])  # raises if any of them is invalid; then none is kept
        self._values[origin] = given

    def forget(self) -> None:
        """Drops cached files, so that they are read again."""
        self._files.clear()

    def of(self, path: str) -> Config | None:
        """The settings of a file; None if it is excluded. Raises SettingsError."""
        file = Path(path)
        folder = file.parent if file.is_absolute() else self.folder
        config = self._files.get(folder)
        if config is None:
            config = self._files[folder] = self._resolved(folder).config
        above = (file, *file.parents) if config.exclude else ()
        return None if any(excluded(config, str(part)) for part in above) else config

    def without_files(self) -> Config:
        """The settings of the editor alone, for use when a configuration file is invalid."""
        return resolve(self._layers()).config

    def _resolved(self, folder: Path) -> Settings:
        found = discover(folder)
        return resolve([*([found] if found is not None else []), *self._layers()])

    def _layers(self) -> list[Layer]:
        return [Layer(origin, values, self.folder) for origin, values in self._values.items()]
