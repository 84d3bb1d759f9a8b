"""The command line: it finds the command, runs it, and makes an exit code of whatever comes of it.

The commands are modules of :mod:`tclint.commands`, which has the exit codes too.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

import click

from tclint import commands
from tclint._version import __version__
from tclint.commands import CLEAN, FAILURE, INTERRUPTED
from tclint.commands._common import abandon, unwritable, usage
from tclint.commands._signals import unwound_by_signals


class _Commands(click.Group):
    """The commands; a file in the place of one gets what was meant suggested."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return commands.names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return commands.load(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            if os.path.exists(name):
                raise usage(f"there is no command {name}; did you mean tclint check {name}?")
            raise click.UsageError(f"No such command {name!r}.{_suggestion(name)}", ctx)
        return super().resolve_command(ctx, args)


def _suggestion(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, commands.names(), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="tclint", message="%(prog)s %(version)s")
def cli() -> None:
    """A linter for NVIDIA PTX: finds missing waits, fences and commits around asynchronous instructions."""


def main(args: Sequence[str] | None = None) -> None:
    """The entry point of the command: runs it and exits. No exception becomes a traceback without TCLINT_DEBUG."""
    with unwound_by_signals():
        code = _run(args)
    sys.exit(code)


def _run(args: Sequence[str] | None) -> int:
    """Run a command; the exit code."""
    if sys.stdout is None:  # closed; now writing to it is an error like any other
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    # Most of what a run makes it keeps: looking for cycles in that took a tenth of a short one.
    gc.set_threshold(50_000)
    try:
        code: int = cli.main(args=args, prog_name="tclint", standalone_mode=False)
    except SystemExit as end:  # from click: a closed pipe, and what completion has for a shell
        code = FAILURE if end.code else CLEAN
    except click.ClickException as error:
        code = _failed(error)
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except Exception as error:
        from tclint.driver.one import debug, internal_error

        if debug():
            raise
        # --help and --version are written by click.
        if writing := isinstance(error, OSError) and error.filename is None:
            abandon(sys.stdout)
        code = _failed(click.ClickException(unwritable(error) if writing else internal_error(error)))
    return code


def _failed(error: click.ClickException) -> int:
    try:
        error.show()
    except OSError:
        abandon(sys.stderr)
    return FAILURE
