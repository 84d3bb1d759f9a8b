"""``tclint barriers``: the synchronisation of a kernel as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from tclint.commands import CLEAN, FAILURE
from tclint.commands._common import usage, use_color, write
from tclint.commands._kernels import kernel_options, shown_of

if TYPE_CHECKING:
    from tclint.inspect.barriers import ShownProtocols


@click.command()
@kernel_options("docs/barriers.schema.json")
@click.option(
    "--object",
    "objects",
    multiple=True,
    metavar="NAME",
    help="Show only this mbarrier (full, full[4], smem+163840), CTA barrier (its number) or cluster barrier (cluster);"
    " may be repeated.",
)
@click.option(
    "--at",
    "lines",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="LINE",
    help="Show only the objects that the instructions in this line of the PTX use; may be repeated.",
)
def command(
    paths: tuple[str, ...],
    entry: tuple[str, ...],
    stdin_filename: str | None,
    output_format: str,
    color: str,
    limit: int,
    objects: tuple[str, ...],
    lines: tuple[int, ...],
) -> int:
    """Show which threads of a kernel wait for which.

    Shows the mbarriers with their arrivals, bytes and parities, the other barriers, the shared memory, and the events
    of each role in order. What cannot be resolved is marked as unknown. KERNEL is a PATH as for check.

    Exit code: 0 shown, 2 usage error, or an input that could not be analysed.
    """
    from tclint.inspect.barriers import narrowed, render_json, render_text, show

    shown = shown_of(show, paths, entry, stdin_filename, limit)
    if objects or lines:
        every, shown = shown, [narrowed(one, objects, lines) for one in shown]
        if not any(one.kernels or one.problems for one in shown):
            raise _nothing(every, objects, lines)
    write(render_json(shown) if output_format == "json" else render_text(shown, use_color(color)))
    broken = any(one.problems or any(kernel.problems for kernel in one.kernels) for one in shown)
    return FAILURE if broken else CLEAN


def _nothing(
    every: Iterable[ShownProtocols], objects: tuple[str, ...], lines: tuple[int, ...]
) -> click.UsageError:
    """The error that no kernel has one of *objects*, or uses an object in *lines*."""
    from tclint.inspect.protocol.selection import names
    from tclint.inspect.tables import few

    if not objects:
        return usage(f"no mbarrier or barrier is used at line {few(list(map(str, lines)))}")
    protocols = [kernel.protocol for one in every for kernel in one.kernels if kernel.protocol is not None]
    known = list(dict.fromkeys(name for protocol in protocols for name in names(protocol)))
    quoted = ", ".join(f"'{name}'" for name in objects)
    return usage(f"no mbarrier or barrier is called {quoted}: there is {few(known) if known else 'none'}")
