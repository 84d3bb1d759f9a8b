"""The command line in the process of the test."""

from __future__ import annotations

import click
from click.testing import CliRunner

from tclint.commands._cli import cli


def invoke(*arguments: str) -> tuple[int, str]:
    """The exit code of ``tclint`` with *arguments*, and what it prints; 2 and the message of an error.

    Raises an exception of which a user would read that it is an internal error.
    """
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    if result.exception is not None:
        if not isinstance(result.exception, click.ClickException):
            raise result.exception
        return 2, str(result.exception)
    return int(result.return_value), result.output
