"""What a producer of PTX is, and what it hands over.

A producer is a module in :mod:`benchmarks.corpus.producers` with

- ``PACKAGES``: what pip installs for it, pinned and complete (pip is run with ``--no-deps``),
- ``obstacle()``: why nothing can be built on this machine, or "" (asked in the producer's environment),
- ``jobs()``: a :class:`Job` for every file, cheap to list: the work is in ``make``.

Only ``PACKAGES`` is read in the project's own environment, so third-party modules are imported inside functions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["Job", "Producer", "Refused", "key"]

FORMAT = 1
"""To be raised when all files have to be made again."""


class Refused(RuntimeError):
    """A compiler refused a job; the text says why."""


@dataclass(frozen=True)
class Job:
    """One PTX file to make."""

    name: str
    """Name of the file without its suffix, unique within the producer."""
    target: str
    command: str
    """How the file is made, for a reader of the manifest: a command line or the call with its settings."""
    sources: tuple[Path, ...]
    """Files whose change makes the result out of date."""
    make: Callable[[], str]
    """Compile and return the PTX; may raise anything."""


class Producer(Protocol):
    """A module that makes PTX."""

    PACKAGES: tuple[str, ...]

    def obstacle(self) -> str: ...

    def jobs(self) -> Iterator[Job]: ...


def key(job: Job, versions: Mapping[str, str]) -> str:
    """A digest of everything that the result of *job* depends on."""
    digest = hashlib.sha256(
        repr((FORMAT, job.name, job.target, job.command, sorted(versions.items()))).encode()
    )
    for source in job.sources:
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()
