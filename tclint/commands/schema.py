"""``tclint schema``: the JSON schema of the configuration."""

from __future__ import annotations

import click

from tclint.commands import CLEAN
from tclint.commands._common import write


@click.command()
def command() -> int:
    """Print the JSON schema of the configuration."""
    from tclint.config.settings import schema

    write(schema())
    return CLEAN
