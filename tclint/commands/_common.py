"""What several commands share: options, how errors are said, and how text is written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

import click

from tclint.commands import FAILURE

if TYPE_CHECKING:
    from tclint.syntax.source import SourceError

STDIN = "-"
STDIN_NAME = "<stdin>"
_TEXT_WIDTH = 120
"""Columns of the output where there is no terminal."""


class Choice(click.Choice[str]):
    """One of a list of words; a wrong one gets the nearest suggested."""

    def __init__(self, choices: Sequence[str]) -> None:
        super().__init__(choices, case_sensitive=False)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        from difflib import get_close_matches

        near = get_close_matches(str(value).lower(), self.choices, n=1)
        message = super().get_invalid_choice_message(value, ctx)
        return f"{message} Did you mean {near[0]!r}?" if near else message


def complete_rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from tclint.findings.rules import all_rules

    words = [*all_rules(), *(rule.name for rule in all_rules().values())]
    return [word for word in words if word.lower().startswith(incomplete.lower())]


stdin_filename_option = click.option(
    "--stdin-filename", metavar="NAME", help="The name under which standard input (-) is shown."
)
color_option = click.option(
    "--color",
    type=Choice(("auto", "always", "never")),
    default="auto",
    show_default=True,
    help="auto: on a terminal, unless NO_COLOR is set; FORCE_COLOR turns it on elsewhere.",
)


def refuse_unused(stdin_filename: str | None, paths: Sequence[str]) -> None:
    if stdin_filename is not None and STDIN not in paths:
        raise click.UsageError("--stdin-filename needs '-' among the paths.")


def usage(message: object) -> click.UsageError:
    from tclint.report.formats._style import printable

    text = printable(str(message))  # it may quote the configuration of a project that nobody trusts
    return click.UsageError(text if text.endswith("?") else f"{text}.")


def no_function(patterns: Sequence[str], names: Iterable[str]) -> click.UsageError:
    """That none of the functions *names* is called as ``--entry`` says."""
    from tclint.findings.rules import nearest

    return usage(f"no function is called {', '.join(patterns)}{nearest(patterns[0], names)}")


def need_numpy() -> None:
    """The executor computes with numpy, which linting does without."""
    from importlib.util import find_spec

    if find_spec("numpy") is None:
        raise click.ClickException("executing a kernel needs numpy: pip install 'tclint-ptx[run]'")


def use_color(choice: str, stream: TextIO | None = None) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def use_links() -> bool:
    """Terminals that know no hyperlinks leave them out, except for very old ones; logs are no terminals."""
    if (forced := os.environ.get("FORCE_HYPERLINK")) is not None:
        return forced not in ("", "0")
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def width() -> int:
    """The width of the terminal or of COLUMNS; elsewhere one that reads well in a log."""
    if not sys.stdout.isatty():
        return _TEXT_WIDTH
    from shutil import get_terminal_size

    return get_terminal_size((_TEXT_WIDTH, 24)).columns


def write(text: str, stream: TextIO | None = None) -> None:
    """Write to standard output. A reader that went away is no reason to say anything, but the work is not done."""
    stream = stream or sys.stdout
    data = memoryview(text.encode(stream.encoding or "utf-8", "replace"))
    try:
        while (
            data
        ):  # a pipe or a full disk takes a part of it where Python does not buffer (PYTHONUNBUFFERED)
            data = data[stream.buffer.write(data) :]
        stream.flush()
    except BrokenPipeError:
        abandon(stream)
        raise click.exceptions.Exit(FAILURE) from None
    except OSError as error:
        abandon(stream)
        raise click.ClickException(unwritable(error)) from None


def abandon(stream: TextIO) -> None:
    """The interpreter flushes once more on its way out; let that succeed."""
    with suppress(OSError):  # it may be no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def unwritable(error: Exception) -> str:
    return f"the output cannot be written: {getattr(error, 'strerror', None) or error}"


def at(path: str, error: SourceError) -> str:
    return f"{path}:{error.line}: {error}" if error.line else f"{path}: {error}"
