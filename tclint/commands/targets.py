"""``tclint targets``: the least versions and targets for each kernel."""

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
    help="A table, or JSON as described by docs/targets.schema.json.",
)
@color_option
def command(
    paths: tuple[str, ...],
    entry: tuple[str, ...],
    stdin_filename: str | None,
    output_format: str,
    color: str,
) -> int:
    """Show for which targets a kernel can be assembled.

    Shows the least targets, PTX versions and CUDA toolkits, with what decides each, and the instructions that some of
    these targets accept but do not implement: those that become a trap, an emulation or a synchronous access. KERNEL is
    a PATH as for check.

    Exit code: 0 shown, 2 usage error, or an input that could not be analysed.
    """
    from tclint.driver.inputs import inputs
    from tclint.inspect.targets import render_json, render_text, show

    refuse_unused(stdin_filename, paths)
    shown = [show(item, entry) for item in inputs(paths, stdin_filename or STDIN_NAME)]
    names = dict.fromkeys(name for one in shown for name in one.functions)
    if entry and names and not any(one.kernels or one.problems for one in shown):
        raise no_function(entry, names)
    write(render_json(shown) if output_format == "json" else render_text(shown, use_color(color)))
    return FAILURE if any(one.problems for one in shown) else CLEAN
