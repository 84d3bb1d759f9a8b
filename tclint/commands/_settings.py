"""The options that set settings, and the layers from which settings are resolved."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from tclint.commands._common import Choice, complete_rules, usage, write_notes

if TYPE_CHECKING:
    from tclint.config.settings import Layer, Settings


class SettingsCommand(click.Command):
    """A command with an option for each setting that it uses, made on demand, since ``--version`` does not need their
    imports.

    Its function takes ``configs``, ``isolated`` and the settings as ``**options``, and passes all to :func:`resolve`.
    """

    def __init__(self, *args: Any, unused: Iterable[str] = (), **attributes: Any) -> None:
        """*unused* are the names of the settings that change nothing in what the command does."""
        super().__init__(*args, **attributes)
        self._unused = frozenset(unused)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        *own, helping = super().get_params(ctx)
        used = (option for option in _setting_options() if option.name not in self._unused)
        return [*own, _config, _isolated, *used, helping]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options in groups, by what a user wants to do with them."""
        from tclint.commands._help import grouped

        options = (option for option in self.get_params(ctx) if isinstance(option, click.Option))
        records = ((option.opts[-1].lstrip("-"), option.get_help_record(ctx)) for option in options)
        for title, rows in grouped((name, record) for name, record in records if record is not None):
            with formatter.section(title):
                formatter.write_dl(rows)


_config = click.Option(
    ["--config", "configs"],
    multiple=True,
    metavar="FILE|KEY=VALUE",
    help="Configuration file to use, or a single setting as in a file.",
)
_isolated = click.Option(["--isolated"], is_flag=True, help="Ignore all configuration files.")


@cache
def _setting_options() -> tuple[click.Option, ...]:
    """The option of each setting, made once, as click asks for the parameters of a command several times."""
    return tuple(_made_options())


def _made_options() -> Iterator[click.Option]:
    from tclint.config.config import settings

    for setting in settings():
        kind, flag = setting.kind, f"--{setting.key}"
        written = kind.write(setting.default) if setting.default not in (None, False, ()) else ""
        shown = "on" if written is True else ", ".join(written) if isinstance(written, list) else written
        default = f" [default: {shown}]" if shown else ""
        common: dict[str, Any] = {"help": setting.help + default, "default": None}
        if kind.option == "flag":
            yield click.Option([f"{flag}/--no-{setting.key}"], **common)
        elif kind.option == "choice":
            yield click.Option([flag], type=Choice(kind.schema["enum"]), **common)
        elif kind.option == "list":
            rules = complete_rules if kind.metavar == "RULES" else None
            yield click.Option([flag], multiple=True, metavar=kind.metavar, shell_complete=rules, **common)
        elif kind.option == "value":
            yield click.Option([flag], metavar=kind.metavar, **common)


def resolve(configs: Iterable[str], isolated: bool, options: dict[str, Any]) -> Settings:
    """The settings of this run; notes about them go to standard error. Raises click.UsageError."""
    from tclint.config import settings
    from tclint.findings.selection import SettingsError

    try:
        resolved = settings.resolve(layers(configs, isolated, options))
    except SettingsError as error:
        raise usage(error) from None
    write_notes(resolved.notes)
    return resolved


def layers(configs: Iterable[str], isolated: bool, options: dict[str, Any]) -> Iterator[Layer]:
    """The sources of settings in increasing precedence: file, ``--config KEY=VALUE``, options."""
    from pathlib import Path

    from tclint.config import settings
    from tclint.findings.selection import SettingsError

    inline = [text for text in configs if "=" in text and not os.path.exists(text)]
    files = [text for text in configs if text not in inline]
    if len(files) > 1:
        raise SettingsError(f"--config was given two files: {files[0]} and {files[1]}")
    if files and isolated:
        raise SettingsError(f"--isolated cannot be used with --config {files[0]}")
    if files:
        yield settings.named(Path(files[0]))
    elif not isolated and (found := settings.discover(Path.cwd())) is not None:
        yield found
    yield from map(settings.inline, inline)
    given = {name.replace("_", "-"): _as_in_a_file(value) for name, value in options.items()}
    values = {key: value for key, value in given.items() if value not in (None, [])}
    yield settings.Layer(settings.COMMAND_LINE, values, Path.cwd())


def _as_in_a_file(value: Any) -> Any:
    """The value of an option in the form that a configuration file would use."""
    if isinstance(value, tuple):
        return [word.strip() for text in value for word in text.split(",") if word.strip()]
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else value
