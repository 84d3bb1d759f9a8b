"""One input, whatever happens to it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from tclint.config.config import Config
from tclint.findings.finding import FileReport
from tclint.findings.give_up import GiveUp
from tclint.syntax.source import Source, SourceError

if TYPE_CHECKING:
    from tclint.linting.cache import IncrementalCache

__all__ = ["Input", "debug", "internal_error", "lint"]


Input = tuple[str, Source | SourceError]
"""The name under which an input is shown, and its text or why there is none."""


def lint(
    source: Source,
    config: Config,
    clock: Callable[[str, float], None] | None = None,
    past: IncrementalCache | None = None,
    gave_up: Counter[GiveUp] | None = None,
) -> FileReport:
    """The findings in one text: PTX, or PTX in the strings of what its name says. Raises SourceError as inline.check does.

    *past* knows earlier states of a text of PTX, and *gave_up* counts questions left open, as in
    :func:`tclint.linting.check.check_source`.
    """
    from tclint.inline.hosts import is_host

    if not is_host(source.path):
        from tclint.linting.check import check_source

        return check_source(source, config, clock, past, gave_up)
    from time import perf_counter

    from tclint import inline

    began = perf_counter()
    report = inline.check(source, config)
    if clock is not None:
        clock("inline assembly", perf_counter() - began)
    return report


def debug() -> bool:
    """Whether an internal error shall show its traceback."""
    return os.environ.get("TCLINT_DEBUG", "") not in ("", "0")


def internal_error(error: Exception) -> str:
    """What to say of an exception that should not have happened."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    return f"internal error: {name}{f': {text}' if text else ''} (TCLINT_DEBUG=1 shows where)"
