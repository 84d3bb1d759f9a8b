"""Linting of one input, and how internal errors are reported."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tclint.config.config import Config
from tclint.findings.finding import FileReport
from tclint.syntax.source import Source, SourceError

if TYPE_CHECKING:
    from tclint.findings.figures import Judged
    from tclint.linting.cache import IncrementalCache
    from tclint.linting.check import Observer
    from tclint.recording import Recording

__all__ = ["Input", "debug", "internal_error", "lint"]


Input = tuple[str, Source | SourceError]
"""The name under which an input is shown, and its text, or the error that prevented reading it."""


def lint(
    source: Source,
    config: Config,
    clock: Callable[[str, float], None] | None = None,
    past: IncrementalCache | None = None,
    observer: Observer | None = None,
    judged: Judged | None = None,
) -> FileReport:
    """The report on one text: PTX, or a CUDA C++ or Python source with PTX in its strings, as its file name indicates.

    *past* caches earlier states of a PTX text, and *observer* adds hits, as in :func:`tclint.linting.check.check_source`.
    *judged* is what ptxas makes of it, if that was asked.
    Raises SourceError for a recorded launch that cannot be read.
    """
    from tclint.inline.hosts import is_host

    if not is_host(source.path, source.member):
        from tclint.findings.selection import Request
        from tclint.linting.check import check_source

        recorded = _recorded(config.launch)
        request = Request(
            config.selected, config.toolkit, config.assuming, recorded, config.dependent, judged=judged
        )
        return check_source(source, request, clock=clock, past=past, observer=observer)
    from time import perf_counter

    from tclint import inline

    began = perf_counter()
    report = inline.check(source, config.selected, config.toolkit, config.arch)
    if clock is not None:
        clock("inline assembly", perf_counter() - began)
    return report


def _recorded(launch: str | None) -> Recording | None:
    """The recorded launch, if a folder is given and no launch file. Raises SourceError."""
    if launch is None or not os.path.isdir(launch):
        return None
    from tclint.recording import read_recording

    return read_recording(launch)


def debug() -> bool:
    """Whether internal errors are to be raised with their traceback."""
    return os.environ.get("TCLINT_DEBUG", "") not in ("", "0")


def internal_error(error: Exception) -> str:
    """The message for an exception that is a bug of tclint."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return f"internal error: {name}{f': {text}' if text else ''} (TCLINT_DEBUG=1 shows where)"
