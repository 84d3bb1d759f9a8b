"""The outputs that a launch file names, in the folder that the user names (``tclint run --outputs``).

A launch file may be from a stranger, so it decides the names and never the folder. A file that is there already is
replaced only if an earlier run wrote it and nothing has changed it since: ``tclint-outputs.json`` in the folder has the
digest of each output.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import NoReturn

import numpy as np

from tclint._json import to_json
from tclint._read import read_file
from tclint._write import OutputError, locked, refuse, write
from tclint.executor.launch import Array, LaunchFile

__all__ = ["LIST", "Outputs"]

LIST = "tclint-outputs.json"
"""The file with the digests of the outputs in a folder."""
_PIECE = 1 << 20


class Outputs:
    """The outputs of a launch file in a folder, which is created if it does not exist."""

    def __init__(self, file: LaunchFile, folder: Path, inputs: Iterable[str]) -> None:
        """Raises :class:`~tclint._write.OutputError` before the kernel runs for whatever :meth:`write` must not do."""
        self._folder, self._inputs = folder, tuple(inputs)
        self._names = {name: buffer.output for name, buffer in file.buffers.items() if buffer.output}
        self._guard()

    @property
    def paths(self) -> list[str]:
        """The files that are written."""
        return [str(self._folder / name) for name in self._names.values()]

    def write(self, arrays: Mapping[str, Array]) -> None:
        """Write *arrays*, the final contents of the buffers by name. Raises :class:`~tclint._write.OutputError`."""
        if not self._names:
            return
        list_path = str(self._folder / LIST)
        with locked(list_path):
            digests = self._guard()
            contents = {output: _content(output, arrays[name]) for name, output in self._names.items()}
            digests |= {output: hashlib.sha256(data).hexdigest() for output, data in contents.items()}
            files = {str(self._folder / output): data for output, data in contents.items()}
            write({**files, list_path: to_json(dict(sorted(digests.items())), indent=1)})

    def _guard(self) -> dict[str, str]:
        """The digests of earlier outputs. Raises :class:`~tclint._write.OutputError`."""
        if not self._names:
            return {}
        real = os.path.realpath(self._folder)
        for output in (*self._names.values(), LIST):
            # Of what is hidden, or a link, a program or the user may make more than a result of a kernel.
            if any(part.startswith(".") for part in PurePath(output).parts):
                raise OutputError(f"{output} is not written: its name begins with a dot")
            if os.path.realpath(self._folder / output) != os.path.join(real, *PurePath(output).parts):
                raise OutputError(
                    f"{self._folder / output} is not written: it is, or is below, a symbolic link"
                )
        if any(output.lower() == LIST for output in self._names.values()):
            raise OutputError(f"{LIST} is not written: it has the list of the outputs")
        try:
            for path in self.paths:
                os.makedirs(os.path.dirname(path), exist_ok=True)
        except OSError as error:
            raise OutputError(f"{error.filename} cannot be created: {error.strerror}") from None
        refuse(self.paths, self._inputs)
        digests = _listed(self._folder / LIST)
        for output in self._names.values():
            target = self._folder / output
            if target.exists() and (not target.is_file() or _digest(target) != digests.get(output)):
                raise OutputError(
                    f"{target} exists and is not an output of an earlier run: it is not overwritten"
                )
        return digests


def _content(output: str, array: Array) -> bytes:
    if not output.endswith(".npy"):
        return array.tobytes()
    data = io.BytesIO()
    np.save(data, array)
    return data.getvalue()


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                found.update(piece)
    except OSError as error:
        _unreadable(path, error.strerror)
    return found.hexdigest()


def _listed(path: Path) -> dict[str, str]:
    """The digests in the list at *path*, by output. Raises OutputError if it is no such list."""
    try:
        found = json.loads(read_file(path))
    except FileNotFoundError:
        return {}
    except OSError as error:
        _unreadable(path, error.strerror)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise OutputError(f"{path} is not a list of outputs")
    return found


def _unreadable(path: Path, reason: str | None) -> NoReturn:
    raise OutputError(f"{path} cannot be read: {reason}")
