"""``tclint barriers``: the synchronisation of a kernel as a table."""

from __future__ import annotations

import click

from tclint.commands import CLEAN, FAILURE
from tclint.commands._common import (
    STDIN_NAME,
    Choice,
    color_option,
    no_function,
    refuse_unused,
    stdin_filename_option,
    use_color,
    write,
)


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="KERNEL...")
@click.option(
    "--entry", multiple=True, metavar="NAME", help="Show only functions whose name matches; may be repeated."
)
@stdin_filename_option
@click.option(
    "--output-format",
    type=Choice(("text", "json")),
    default="text",
    show_default=True,
    help="A table, or JSON as described by docs/barriers.schema.json.",
)
@color_option
def command(
    paths: tuple[str, ...],
    entry: tuple[str, ...],
    stdin_filename: str | None,
    output_format: str,
    color: str,
) -> int:
    """Show which threads of a kernel wait for which.

    Shows the mbarriers with their arrivals, bytes and parities, the other barriers, the shared memory, and the events
    of each role in order. What cannot be resolved is marked as unknown. KERNEL is a PATH as for check.

    Exit code: 0 shown, 2 usage error, or an input that could not be analysed.
    """
    from tclint.driver.inputs import inputs
    from tclint.inspect.barriers import render_json, render_text, show

    refuse_unused(stdin_filename, paths)
    shown = [show(item, entry) for item in inputs(paths, stdin_filename or STDIN_NAME)]
    names = dict.fromkeys(name for one in shown for name in one.functions)
    if entry and names and not any(one.kernels or one.problems for one in shown):
        raise no_function(entry, names)
    write(render_json(shown) if output_format == "json" else render_text(shown, use_color(color)))
    broken = any(one.problems or any(kernel.problems for kernel in one.kernels) for one in shown)
    return FAILURE if broken else CLEAN
