"""The command line: finds the command, runs it, and turns its result or exception into an exit code.

The commands are modules of :mod:`tclint.commands`, which also defines the exit codes.
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
    """The commands. For the name of a file instead of a command, the error suggests ``tclint check``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return commands.names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return commands.load(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            if os.path.exists(name) or os.path.splitext(name)[1] or os.sep in name:
                raise usage(f"no such command '{name}'; did you mean tclint check {name}?")
            raise click.UsageError(f"No such command {name!r}.{_suggestion(name)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands in groups, by what a user wants to do."""
        from tclint.commands._help import COMMANDS, grouped

        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        shown = {name: command for name, command in found if command is not None and not command.hidden}
        limit = formatter.width - 6 - max(map(len, shown))
        rows = ((name, (name, command.get_short_help_str(limit))) for name, command in shown.items())
        for title, listed in grouped(rows, COMMANDS):
            with formatter.section(title):
                formatter.write_dl(listed, col_max=max(map(len, shown)))


def _suggestion(name: str) -> str:
    from tclint.findings.rules import closest

    near = closest(name, commands.names())
    return f" Did you mean {near!r}?" if near else ""


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="tclint", message="%(prog)s %(version)s")
def cli() -> None:
    """A linter for NVIDIA PTX. It finds missing waits, fences and commits around asynchronous instructions."""


def main(args: Sequence[str] | None = None) -> None:
    """The entry point: runs a command and exits. Exceptions become tracebacks only with ``TCLINT_DEBUG``."""
    with unwound_by_signals():
        code = _run(args)
    _keep()
    sys.exit(code)


_KEPT: list[object] = []


def _keep() -> None:
    """Keeps all that is left until the process ends: freeing it, and searching it for cycles, takes longer than some runs.

    The interpreter clears modules at its end. A cycle that is not searched refers to the same objects as the modules.
    """
    if not _KEPT:
        _KEPT.extend((_KEPT, *(getattr(module, "__dict__", {}).copy() for module in [*sys.modules.values()])))
    gc.freeze()


def _run(args: Sequence[str] | None) -> int:
    """Runs a command and returns the exit code."""
    if sys.stdout is None:  # closed: open a file that refuses writes, so that they fail like other errors
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    # A run keeps most of its objects, and searching them for cycles took a tenth of the time of a short run.
    gc.set_threshold(50_000)
    try:
        code: int = cli.main(args=args, prog_name="tclint", standalone_mode=False)
    except SystemExit as end:  # from click: after a closed pipe, or after shell completion
        code = FAILURE if end.code else CLEAN
    except click.ClickException as error:
        code = _failed(error)
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except Exception as error:
        from tclint.driver.one import debug, internal_error

        if debug():
            raise
        # An OSError without a file name comes from writing --help or --version, which click does itself.
        if writing := isinstance(error, OSError) and error.filename is None:
            abandon(sys.stdout)
        code = _failed(click.ClickException(unwritable(error) if writing else internal_error(error)))
    return code


def _failed(error: click.ClickException) -> int:
    from io import StringIO

    from tclint.report.formats._style import printable

    shown = StringIO()
    error.show(shown)
    try:
        # It may quote a file or a configuration of a stranger.
        click.echo(printable(shown.getvalue()), err=True, nl=False)
    except OSError:
        abandon(sys.stderr)
    return FAILURE
