"""The commands, one module each: ``tclint NAME`` is ``tclint/commands/NAME.py``, discovered by file name.

The module has a function ``command`` decorated with ``@click.command()``, which returns the exit code. Only the module
of the command that runs is imported, and that module imports anything slow inside the function. ``_cli`` finds and runs
the command. This package may import all others and is imported by none.

Add a module here to add a command.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tclint._data import modules

if TYPE_CHECKING:
    import click

CLEAN, FINDINGS, FAILURE, INTERRUPTED = 0, 1, 2, 130
"""The exit codes: no findings; findings; a usage error or an input that was not analysed, with or without findings;
interrupted."""


def names() -> list[str]:
    """The names of all commands, sorted."""
    return modules(__path__)


def load(name: str) -> click.Command | None:
    """The command called *name*; None if there is none."""
    if name.startswith("_") or not name.isidentifier():
        return None
    try:
        command: click.Command = import_module(f"{__name__}.{name}").command
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise  # a dependency of the command is missing
        return None
    command.name = name
    return command
