"""What is asked of git: names of files and objects, and nothing that runs a program of the repository."""

from __future__ import annotations

import os
from collections.abc import Iterator

__all__ = ["absolute", "asked", "names", "repository"]

_GIT = ("git", "-c", "core.fsmonitor=false", "--literal-pathspecs")


def repository(folder: str) -> str | None:
    """The root of the work tree that *folder* is in: the nearest folder upwards that contains ``.git``."""
    above = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(above, ".git")):
        above, below = os.path.dirname(above), above
        if above == below:
            return None
    return above


def absolute(path: str) -> str:
    """The absolute path as git records it: links are resolved in the folder, but not in the last component."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(folder if "\0" in folder else os.path.realpath(folder), name)


def asked(folder: str, *arguments: str, seconds: int) -> bytes | None:
    """What git prints in *folder*; None if it fails.

    Raises OSError if it cannot be run, and subprocess.TimeoutExpired after so many *seconds*.
    """
    import subprocess

    done = subprocess.run(
        [*_GIT, *arguments],
        check=False,
        cwd=folder,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=seconds,
    )
    return done.stdout if done.returncode == 0 else None


def names(printed: bytes | None) -> Iterator[str]:
    """The names in what git printed with ``-z``."""
    return (os.fsdecode(name) for name in (printed or b"").split(b"\0") if name)
