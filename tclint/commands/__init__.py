"""The commands, one module each: ``tclint NAME`` is ``tclint/commands/NAME.py``, found by discovery.

The module has a function ``command`` decorated with ``@click.command()``, which returns the exit code. Only the module
of the command that runs is imported, and what costs time is imported inside the function. ``cli`` finds and runs the
command. Imports everything; nothing imports it.

Add a module here to add a command.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tclint._data import modules

if TYPE_CHECKING:
    import click

CLEAN, FINDINGS, FAILURE, INTERRUPTED = 0, 1, 2, 130
"""The exit codes: nothing found; findings; an error of usage or input, whatever else was found; interrupted."""


def names() -> list[str]:
    """The commands there are, sorted."""
    return modules(__path__)


def load(name: str) -> click.Command | None:
    """The command of that name; None when there is none."""
    if name.startswith("_") or not name.isidentifier():
        return None
    try:
        command: click.Command = import_module(f"{__name__}.{name}").command
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise  # of something that the command needs
        return None
    command.name = name
    return command
