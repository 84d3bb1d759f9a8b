"""What the commands share that show each kernel of some inputs as a table or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import click

from tclint.commands._common import (
    STDIN_NAME,
    Choice,
    F,
    color_option,
    decorated,
    max_input_option,
    no_function,
    refuse_unused,
    stdin_filename_option,
)

if TYPE_CHECKING:
    from tclint.driver.one import Input


class Shown(Protocol):
    """What is shown of one input."""

    @property
    def problems(self) -> Sequence[object]: ...
    @property
    def kernels(self) -> Sequence[object]: ...
    @property
    def functions(self) -> Sequence[str]:
        """The names of all functions with a body."""
        ...


S = TypeVar("S", bound=Shown)


def kernel_options(schema: str) -> Callable[[F], F]:
    """The argument and the options of such a command, whose JSON *schema* describes."""
    decorators = (
        click.argument("paths", nargs=-1, required=True, metavar="KERNEL..."),
        click.option(
            "--entry",
            multiple=True,
            metavar="NAME",
            help="Show only functions whose name matches; may be repeated.",
        ),
        stdin_filename_option,
        click.option(
            "--output-format",
            type=Choice(("text", "json")),
            default="text",
            show_default=True,
            help=f"A table, or JSON as described by {schema}.",
        ),
        color_option,
        max_input_option,
    )

    return lambda function: decorated(function, decorators)


def shown_of(
    show: Callable[[Input, tuple[str, ...]], S],
    paths: tuple[str, ...],
    entry: tuple[str, ...],
    stdin_filename: str | None,
    limit: int,
) -> list[S]:
    """What *show* makes of each input of up to *limit* bytes. Raises UsageError if no function matches *entry*."""
    from tclint.driver.inputs import inputs

    refuse_unused(stdin_filename, paths)
    shown = [show(item, entry) for item in inputs(paths, stdin_filename or STDIN_NAME, limit=limit)]
    names = dict.fromkeys(name for one in shown for name in one.functions)
    if entry and names and not any(one.kernels or one.problems for one in shown):
        raise no_function(entry, names)
    return shown
