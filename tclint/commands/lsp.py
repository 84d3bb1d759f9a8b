"""``tclint lsp``: the language server."""

from __future__ import annotations

import sys

import click

from tclint._version import installs


@click.command
@click.option("--stdio", is_flag=True, help="Use standard input and output (always the case).")
def command(stdio: bool) -> int:
    """Start the language server for editors.

    It speaks the Language Server Protocol over standard input and output. Messages for people go to standard error.
    """
    from importlib.util import find_spec

    if find_spec("pygls") is None or find_spec("lsprotocol") is None:
        raise click.ClickException(f"the language server needs pygls: {installs('lsp')}")
    from tclint.commands._signals import ended_by_signals
    from tclint.lsp.requests import make_server

    ended_by_signals()  # one thread blocks on input from the client, and the server joins that thread
    return make_server().serve(sys.stdin.buffer)
