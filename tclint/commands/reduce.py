"""``tclint reduce``: shrink a kernel as long as a command says that it still fails."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tclint.commands import CLEAN
from tclint.commands._common import (
    STDIN,
    at,
    max_input_option,
    only_source,
    seconds_option,
    usage,
    write_notes,
)

if TYPE_CHECKING:
    from tclint.text.command import Command

_COMMAND = "command"
"""Where the context has what follows ``--``."""


class _Reduce(click.Command):
    """What follows ``--`` is the command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = tuple(args[end + 1 :])
        return super().parse_args(ctx, args[:end])


@click.command(cls=_Reduce, options_metavar="[OPTIONS]")
@click.argument("kernel", metavar="KERNEL -- COMMAND...")
@click.option(
    "-o", "--output", metavar="FILE", help="Where to write the result. Defaults to KERNEL.reduced.ptx."
)
@seconds_option("How long a call of the command may take; one that takes longer counts as not failing.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="How many calls to make at a time. The result is the same.",
)
@click.option("--max-calls", type=click.IntRange(min=3), metavar="N", help="Stop after so many calls.")
@max_input_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    kernel: str,
    output: str | None,
    seconds: float,
    jobs: int,
    max_calls: int | None,
    limit: int,
) -> int:
    """Shrink a kernel as long as COMMAND says that it still fails.

    COMMAND is run with the path of a smaller kernel in place of each {}, or after its arguments. It exits with 0 if that
    kernel still fails in the way that is of interest, and with anything else if not, as for creduce and llvm-reduce. Use
    sh -c 'COMMAND' for pipes, and a script for more.

    \b
    tclint reduce k.ptx -- sh -c 'ptxas -arch=sm_90a {} -o /dev/null 2>&1 | grep -q "internal error"'
    tclint reduce k.ptx -- sh -c 'tclint check --select WG001 --output-format concise {} | grep -q WG001'

    Functions, variables, blocks, statements and parameters are taken out until none can be, guards are dropped, and operands
    become constants. KERNEL is never changed; the output has the best result at any time, also after Ctrl-C. docs/text.md
    has recipes for crashes, hangs, miscompilations and wrong findings.

    Exit code: 0 the result is written, 2 usage error, a kernel that does not fail to begin with, or a command that says
    something else when it is asked again.
    """
    from tclint.text.command import Command

    arguments: tuple[str, ...] = ctx.meta[_COMMAND]
    if not arguments:
        raise click.UsageError("There is no COMMAND: tclint reduce KERNEL -- COMMAND.")
    target = _target(kernel, output)
    with Command(arguments, seconds, jobs, max_calls) as asked:
        _reduce(kernel, target, asked, limit)
    return CLEAN


def _target(kernel: str, output: str | None) -> str:
    """Where to write the result. Raises UsageError."""
    from tclint._write import OutputError, refuse

    if output is None and kernel == STDIN:
        raise click.UsageError("--output is needed for a kernel from standard input.")
    target = output or f"{kernel.removesuffix('.ptx')}.reduced.ptx"
    try:
        refuse([target], [kernel])
    except OutputError as error:
        raise usage(f"--output: {error}") from None
    return target


def _reduce(kernel: str, target: str, command: Command, limit: int) -> None:
    """Writes the smallest text that is found for *kernel* to *target*. Raises ClickException."""
    from tclint._write import OutputError
    from tclint.syntax.source import SourceError
    from tclint.text.command import CommandError
    from tclint.text.reduce import Reduction, Spent

    try:
        data = only_source(kernel, limit).data
        result = _Result(target, data, command)
        reduction = Reduction(data, command.first, result.keep)
        _refuse_unfit(kernel, command, data)
        try:
            reduction.run()
            result.refuse_flaky()
        except Spent:
            pass
        finally:  # also after an interrupt
            result.finish(reduction.minimal)
    except SourceError as error:
        raise click.ClickException(at(kernel, error)) from None
    except (CommandError, OutputError) as error:
        raise click.ClickException(str(error)) from None


def _refuse_unfit(kernel: str, command: Command, data: bytes) -> None:
    """Raises ClickException unless the command says twice that the kernel fails as it is."""
    first, second = command.status(data), command.status(data)
    if first != second:
        raise click.ClickException(
            f"the command is flaky: for {kernel} it {_ended(first)} and then it {_ended(second)}"
        )
    if first != 0:
        raise click.ClickException(
            f"the command {_ended(first)} for {kernel} as it is; exit code 0 must say that the kernel fails"
        )


def _ended(status: int | None) -> str:
    if status is None:
        return "exceeds --seconds"
    return f"is killed by signal {-status}" if status < 0 else f"exits with {status}"


class _Result:
    """The best text so far, which is in the output."""

    def __init__(self, target: str, data: bytes, command: Command) -> None:
        from tclint.commands._progress import Line
        from tclint.text.reduce import instructions

        self.target = target
        self.data = data
        self.written = False
        self.before = (len(data), instructions(data))
        self.command = command
        self.line = Line(sys.stderr)

    def keep(self, text: bytes) -> None:
        """Writes a smaller text. Raises OutputError."""
        from tclint._write import write

        write({self.target: text})
        self.data, self.written = text, True
        if self.line.due:
            self.line.show(f"{len(text):,} of {self.before[0]:,} bytes, {self.command.calls} calls")

    def refuse_flaky(self) -> None:
        """Raises ClickException if the command says something else of the result when it is asked again."""
        status = self.command.status(self.data) if self.written else 0
        if status != 0:
            raise click.ClickException(
                f"the command is flaky: for {self.target} it exited with 0, and now it {_ended(status)}"
            )

    def finish(self, minimal: bool) -> None:
        """Reports what is in the output, and writes it if nothing could be taken out."""
        from tclint.report.summary import count
        from tclint.text.reduce import instructions

        self.line.clear()
        if not self.written:
            self.keep(self.data)
        size, number = self.before
        left = instructions(self.data)
        share = f" ({left / number:.1%})" if number else ""
        sizes = f"{left:,} of {number:,} instructions{share}, {len(self.data):,} of {size:,} bytes"
        end = "no statement can be taken out" if minimal else "stopped before nothing more can be taken out"
        write_notes([f"{self.target}: {sizes}, after {count(self.command.calls, 'call')}; {end}."])
