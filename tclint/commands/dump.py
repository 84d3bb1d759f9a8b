"""``tclint dump``: the result of one stage of the analysis of a file."""

from __future__ import annotations

import click

from tclint.commands import CLEAN, FAILURE
from tclint.commands._common import (
    STDIN,
    STDIN_NAME,
    Choice,
    at,
    max_input_option,
    only_source,
    write,
    write_notes,
)


@click.command(hidden=True)
@click.argument("stage", type=Choice(("tree", "ir", "cfg", "states")))
@click.argument("file")
@click.option("--dot", is_flag=True, help="Print a graph for Graphviz.")
@click.option("--entry", metavar="NAME", help="Show this function only.")
@max_input_option
def command(stage: str, file: str, dot: bool, entry: str | None, limit: int) -> int:
    """Print the result of a stage of the analysis of FILE.

    FILE may be - for standard input.

    Exit code: 0 shown, 2 usage error, or a FILE that could not be analysed or only in part; its errors are in the output.
    """
    from tclint.inspect import dump as stages
    from tclint.ir.frontend import analyse
    from tclint.report.formats._style import printable
    from tclint.syntax.source import SourceError

    name = STDIN_NAME if file == STDIN else file
    try:
        source = only_source(file, limit)
        text: str = getattr(stages, stage)(source, dot=dot, entry=entry)
    except SourceError as error:
        raise click.ClickException(at(name, error)) from None
    write(printable(text if text.endswith("\n") else text + "\n"))
    _, problems = analyse(source)
    write_notes([f"error: {at(name, SourceError(problem.message, problem.line))}" for problem in problems])
    return FAILURE if problems else CLEAN
