"""``tclint barriers``: the synchronisation of a kernel as a table."""

from __future__ import annotations

import click

from tclint.commands import CLEAN, FAILURE
from tclint.commands._common import use_color, write
from tclint.commands._kernels import kernel_options, shown_of


@click.command()
@kernel_options("docs/barriers.schema.json")
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
    from tclint.inspect.barriers import render_json, render_text, show

    shown = shown_of(show, paths, entry, stdin_filename)
    write(render_json(shown) if output_format == "json" else render_text(shown, use_color(color)))
    broken = any(one.problems or any(kernel.problems for kernel in one.kernels) for one in shown)
    return FAILURE if broken else CLEAN
