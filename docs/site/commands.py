"""What click knows of the commands, for the pages of the site and the man page."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import NamedTuple

import click

from tclint.commands._cli import cli


class Paragraph(NamedTuple):
    """A paragraph of a help text."""

    text: str
    verbatim: bool
    """Its lines are not to be wrapped."""


class Option(NamedTuple):
    """An option as ``--help`` shows it."""

    spelling: str
    """``--jobs N``"""
    help: str


class Command(NamedTuple):
    """A command with what ``--help`` says of it."""

    path: tuple[str, ...]
    """``("tclint", "check")``"""
    usage: str
    """What follows the path: ``[OPTIONS] PATH...``"""
    summary: str
    paragraphs: tuple[Paragraph, ...]
    options: tuple[Option, ...]
    group: bool
    """Whether it has commands of its own, which follow it."""


def commands() -> Iterator[Command]:
    """``tclint`` and all commands that are not hidden, each before its own commands."""
    yield from _commands(cli, click.Context(cli, info_name="tclint", **cli.context_settings))


def _commands(command: click.Command, context: click.Context) -> Iterator[Command]:
    records = (parameter.get_help_record(context) for parameter in command.get_params(context))
    text = inspect.cleandoc(command.help or "").partition("\f")[0]
    yield Command(
        tuple(context.command_path.split()),
        " ".join(command.collect_usage_pieces(context)),
        command.get_short_help_str(limit=200),
        tuple(_paragraphs(text)),
        tuple(Option(*record) for record in records if record and record[1]),
        isinstance(command, click.Group),
    )
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from _commands(
                    child, click.Context(child, parent=context, info_name=name, **child.context_settings)
                )


def _paragraphs(text: str) -> Iterator[Paragraph]:
    for paragraph in text.split("\n\n"):
        verbatim = paragraph.startswith("\b\n")
        lines = paragraph.removeprefix("\b\n").rstrip()
        if lines:
            yield Paragraph(lines if verbatim else " ".join(lines.split()), verbatim)
