"""Shared by several commands: options, error messages, and writing of output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from tclint._read import MAX_BYTES
from tclint._version import installs
from tclint.commands import FAILURE

if TYPE_CHECKING:
    from tclint.recording import Recording
    from tclint.syntax.source import Source, SourceError

F = TypeVar("F", bound=Callable[..., Any])

STDIN = "-"
STDIN_NAME = "<stdin>"
_TEXT_WIDTH = 120
"""Columns of the output without a terminal."""


class Choice(click.Choice[str]):
    """One of a list of words. The error for any other word suggests the nearest one."""

    def __init__(self, choices: Sequence[str]) -> None:
        super().__init__(choices, case_sensitive=False)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        from tclint.findings.rules import closest

        near = closest(str(value), self.choices)
        message = super().get_invalid_choice_message(value, ctx)
        return f"{message} Did you mean {near!r}?" if near else message


def complete_rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from tclint.findings.rules import all_rules

    words = [*all_rules(), *(rule.name for rule in all_rules().values())]
    return [word for word in words if word.lower().startswith(incomplete.lower())]


stdin_filename_option = click.option(
    "--stdin-filename", metavar="NAME", help="Name to show for standard input (-)."
)
color_option = click.option(
    "--color",
    type=Choice(("auto", "always", "never")),
    default="auto",
    show_default=True,
    help="Colour the output; auto: on a terminal or with FORCE_COLOR, unless NO_COLOR is set.",
)


max_input_option = click.option(
    "--max-input",
    "limit",
    type=click.IntRange(min=1),
    callback=lambda _context, _option, mebibytes: MAX_BYTES if mebibytes is None else mebibytes << 20,
    metavar="MIB",
    help=f"Largest input in MiB, with what it unpacks to; of a container, its PTX. [default: {MAX_BYTES >> 20}]",
)
verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Print to stderr what was reused of earlier runs, and why results were not kept.",
)


def seconds_option(text: str, default: float = 60.0) -> Callable[[F], F]:
    """``--seconds``, whose help is *text*."""
    return click.option(
        "--seconds", type=click.FloatRange(min=0.1), default=default, show_default=True, help=text
    )


def decorated(function: F, decorators: Sequence[Callable[[Any], Any]]) -> F:
    """*function* with the *decorators* in the order in which they would be above it."""
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def refuse_unused(stdin_filename: str | None, paths: Sequence[str]) -> None:
    if stdin_filename is not None and STDIN not in paths:
        raise click.UsageError("--stdin-filename requires '-' among the paths.")


def usage(message: object) -> click.UsageError:
    text = str(message)
    return click.UsageError(text if text.endswith("?") else f"{text}.")


def no_function(patterns: Sequence[str], names: Iterable[str]) -> click.UsageError:
    """The error that no function among *names* matches ``--entry``."""
    from tclint.findings.rules import nearest

    quoted = ", ".join(f"'{pattern}'" for pattern in patterns)
    return usage(f"no function matches {quoted}{nearest(patterns[0], names)}")


def need_numpy() -> None:
    """Raises ClickException if numpy is missing, which the executor needs and linting does not."""
    from importlib.util import find_spec

    if find_spec("numpy") is None:
        raise click.ClickException(f"executing a kernel needs numpy: {installs('run')}")


def only_source(path: str, limit: int) -> Source:
    """The only module of *path*, of up to *limit* bytes. Raises SourceError."""
    from tclint.driver.inputs import read_sources
    from tclint.syntax.source import SourceError

    sources = list(read_sources(path, STDIN_NAME if path == STDIN else path, limit))
    if len(sources) > 1:
        members = ", ".join(str(source.member) for source in sources)
        raise SourceError(f"contains several modules ({members}); extract one with cuobjdump -xptx")
    return sources[0]


def source_of(path: str, command: str) -> tuple[str, Recording | None]:
    """The file with the PTX for *command*, and the launch if *path* is the folder of a recorded one. Raises
    ClickException."""
    if not os.path.isdir(path):
        return path, None
    from tclint.recording import RecordingError, read_recording

    try:
        found = read_recording(path)
    except RecordingError as error:
        raise click.ClickException(str(error)) from None
    if found.ptx is None:
        raise click.ClickException(
            f"{path}: contains no PTX of {found.kernel}: tclint {command} KERNEL.ptx --launch {path}"
        )
    return str(found.ptx), found


def use_color(choice: str, stream: TextIO | None = None) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def use_links() -> bool:
    """Whether to write hyperlinks: on terminals, which ignore them if unsupported unless very old, but not in logs."""
    if (forced := os.environ.get("FORCE_HYPERLINK")) is not None:
        return forced not in ("", "0")
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def width() -> int:
    """The columns of the terminal or the value of COLUMNS; a width that reads well in a log without a terminal."""
    if not sys.stdout.isatty():
        return _TEXT_WIDTH
    from shutil import get_terminal_size

    return get_terminal_size((_TEXT_WIDTH, 24)).columns


def write(text: str | bytes, stream: TextIO | None = None) -> None:
    """Writes *text* to *stream*, by default standard output.

    If the reader of a pipe has gone away, the command ends without a message, but with the exit code of a failure.
    """
    stream = stream or sys.stdout
    encoded = text.encode(stream.encoding or "utf-8", "replace") if isinstance(text, str) else text
    data = memoryview(encoded)
    try:
        # Without buffering (PYTHONUNBUFFERED), a pipe or a full disk may accept only a part of the data.
        while data:
            data = data[stream.buffer.write(data) :]
        stream.flush()
    except BrokenPipeError:
        abandon(stream)
        raise click.exceptions.Exit(FAILURE) from None
    except OSError as error:
        abandon(stream)
        raise click.ClickException(unwritable(error)) from None


def write_notes(notes: Sequence[str]) -> None:
    """Writes each of the *notes* on a line of standard error."""
    if not notes:
        return
    from tclint.report.formats._style import printable

    write("".join(f"{printable(note)}\n" for note in notes), sys.stderr)


def abandon(stream: TextIO) -> None:
    """Redirects *stream* to the null device, so that the interpreter's flush at exit does not fail."""
    with suppress(OSError):  # it may not be a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def unwritable(error: Exception) -> str:
    return f"cannot write the output: {getattr(error, 'strerror', None) or error}"


def at(path: str, error: SourceError) -> str:
    return f"{path}:{error.line}: {error}" if error.line else f"{path}: {error}"
