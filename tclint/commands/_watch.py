"""``tclint check --watch``: checks again whenever a file changes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from types import FrameType
from typing import Any, NoReturn

import click

from tclint.commands._common import STDIN_NAME, write, write_notes

_POLL_SECONDS = 0.5
_SHARE = 10
"""Looking at the files takes at most one part in so many of the time."""
_CLEAR = "\x1b[2J\x1b[3J\x1b[H"
_Stamps = dict[str, tuple[int, int, int] | None]


def watch(once: Callable[[], int], observed: Callable[[], Iterable[str]]) -> NoReturn:
    """Calls *once*, and again whenever one of the files *observed* is changed, made or removed, until interrupted.

    An error of a run is shown, and the next change may fix it.
    """
    interrupted = _interrupts()
    while True:
        before = _stamps(observed())  # before the run, so that a change during it is not missed
        if sys.stdout.isatty():
            write(_CLEAR)
        try:
            once()
        except click.ClickException as error:
            error.show()
        write_notes(["Watching for changes; Ctrl-C ends."])
        wait = _POLL_SECONDS
        while True:
            if interrupted:
                raise KeyboardInterrupt
            sleep(wait)
            began = monotonic()
            if _stamps(observed()) != before:
                break
            wait = max(_POLL_SECONDS, _SHARE * (monotonic() - began))


def _interrupts() -> list[int]:
    """The interrupts from now on: Python drops the exception of one that arrives in a finaliser."""
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    with suppress(ValueError):  # only the main thread may set a handler
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, interrupt)
    return received


def observed(
    paths: tuple[str, ...], compiles: bool, configs: tuple[str, ...], isolated: bool, given: dict[str, Any]
) -> Iterator[str]:
    """The inputs of a run, which *compiles* CUDA C++ or not, and the files that decide its settings, whether they exist or
    not."""
    from tclint.commands._settings import layers
    from tclint.config import settings
    from tclint.driver.inputs import Exclusions, files
    from tclint.findings.selection import SettingsError

    yield from configs
    yield from map(str, settings.candidates(Path.cwd()))
    try:
        config = settings.resolve(layers(configs, isolated, given)).config
    except SettingsError:
        return  # the run reports it
    if config.baseline is not None:
        yield config.baseline
    yield from (path for path, _ in files(paths, STDIN_NAME, Exclusions(config, compiles)))


def _stamps(paths: Iterable[str]) -> _Stamps:
    """What changes with the content of each file; None for one that does not exist."""
    found: _Stamps = {}
    for path in paths:
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            found[path] = None
        else:
            found[path] = status.st_mtime_ns, status.st_size, status.st_ino
    return found
