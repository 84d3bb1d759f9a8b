"""The settings of a document: the nearest configuration file, and what the editor says on top of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tclint.config.config import Config
from tclint.config.selection import excluded
from tclint.config.settings import Layer, Settings, SettingsError, discover, resolve

__all__ = ["SECTION", "Configuration"]

SECTION = "tclint"
_OWN = {"debounce": 0.1, "patience": 0.05}
"""Settings of the server alone, in seconds: how long it waits for further changes before it pushes diagnostics, and how
long a first answer to a change may take; what takes longer follows in a second one."""


class Configuration:
    """What was said about the settings; files are read when a document asks, and once until they change."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, Any]] = {}
        self._files: dict[Path, Config] = {}
        self.own = dict(_OWN)
        self.folder = Path.cwd()
        """The root of the workspace, to which patterns that the editor gives are relative."""

    def say(self, origin: str, values: object) -> None:
        """Take what the editor says, in place of what the same *origin* said before. Raises SettingsError."""
        said = (
            {key: value for key, value in values.items() if value is not None}
            if isinstance(values, Mapping)
            else {}
        )
        own = {name: said.pop(name) for name in _OWN if name in said}
        self._said.pop(origin, None)
        self.forget()
        for name, value in own.items():
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 60:
                raise SettingsError(f"{origin}: {name} must be a number of seconds up to 60, not {value!r}")
            self.own[name] = float(value)
        resolve([Layer(origin, said, self.folder)])  # refused as a whole, or not at all
        self._said[origin] = said

    def forget(self) -> None:
        """Read files anew."""
        self._files.clear()

    def of(self, path: str) -> Config | None:
        """The settings of a file; None: it is excluded. Raises SettingsError."""
        file = Path(path)
        folder = file.parent if file.is_absolute() else self.folder
        config = self._files.get(folder)
        if config is None:
            config = self._files[folder] = self._resolved(folder).config
        above = (file, *file.parents) if config.exclude else ()
        return None if any(excluded(config, str(part)) for part in above) else config

    def without_files(self) -> Config:
        """What the editor says alone, for when a file is wrong."""
        return resolve(self._layers()).config

    def _resolved(self, folder: Path) -> Settings:
        found = discover(folder)
        return resolve([*([found] if found is not None else []), *self._layers()])

    def _layers(self) -> list[Layer]:
        return [Layer(origin, values, self.folder) for origin, values in self._said.items()]
