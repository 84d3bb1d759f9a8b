"""``tclint mcp``: the server of the Model Context Protocol."""

from __future__ import annotations

import click

from tclint._version import installs
from tclint.commands._common import max_input_option, seconds_option


@click.command()
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False),
    help="Folder below which calls may name files; may be repeated. Without one, calls pass text only.",
)
@seconds_option("Time limit of each call.")
@max_input_option
def command(roots: tuple[str, ...], seconds: float, limit: int) -> None:
    """Start the server of the Model Context Protocol for agents.

    It offers the tools check, explain, fix, isa, hang, barriers, diff and run over standard input and output. Each call is a
    process of its own with a limit of time and of size. Nothing is written, and no file outside --root is read.
    """
    from importlib.util import find_spec

    if find_spec("mcp") is None or find_spec("mcp.server.mcpserver") is None:
        raise click.ClickException(f"the server needs mcp 2 or later: {installs('mcp')}")
    from tclint.commands._mcp import Tools, serve
    from tclint.commands._signals import ended_by_signals

    ended_by_signals()  # one thread blocks on input from the client
    serve(Tools(roots, seconds, limit))
