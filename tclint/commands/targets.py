"""``tclint targets``: the least versions and targets for each kernel."""

from __future__ import annotations

import click

from tclint.commands import CLEAN, FAILURE
from tclint.commands._common import use_color, write
from tclint.commands._kernels import kernel_options, shown_of


@click.command()
@kernel_options("docs/targets.schema.json")
def command(
    paths: tuple[str, ...],
    entry: tuple[str, ...],
    stdin_filename: str | None,
    output_format: str,
    color: str,
    limit: int,
) -> int:
    """Show for which targets a kernel can be assembled.

    Shows the least targets, PTX versions and CUDA toolkits, with what decides each, and the instructions that some of
    these targets accept but do not implement: those that become a trap, a call of the driver, an emulation or a synchronous access. KERNEL is
    a PATH as for check.

    Exit code: 0 shown, 2 usage error, or an input that could not be analysed.
    """
    from tclint.inspect.targets import render_json, render_text, show

    shown = shown_of(show, paths, entry, stdin_filename, limit)
    write(render_json(shown) if output_format == "json" else render_text(shown, use_color(color)))
    return FAILURE if any(one.problems for one in shown) else CLEAN
