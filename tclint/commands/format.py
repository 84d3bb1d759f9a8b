"""``tclint format``: one layout for all PTX, and a normal form that can be compared."""

from __future__ import annotations

import os
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import click

from tclint._dataclass import dataclass
from tclint.commands import CLEAN, FAILURE, FINDINGS
from tclint.commands._common import (
    STDIN,
    STDIN_NAME,
    at,
    only_source,
    refuse_unused,
    stdin_filename_option,
    write,
    write_notes,
)
from tclint.commands._settings import SettingsCommand, resolve

if TYPE_CHECKING:
    from tclint.syntax.source import Source, SourceError


@click.command(
    cls=SettingsCommand,
    unused=(
        *("select", "extend_select", "ignore", "fail_on", "exit_zero", "min_severity", "min_confidence"),
        *("pedantic", "strict", "entry", "toolkit", "arch", "include", "baseline", "jobs", "cache"),
        *("confirm", "confirm_steps", "execute", "execute_steps", "verdict", "require", "assume"),
    ),
)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@stdin_filename_option
@click.option("--check", is_flag=True, help="Change nothing; list the files that would be changed.")
@click.option("--diff", is_flag=True, help="Change nothing; show the changes as a unified diff.")
@click.option(
    "--normalize",
    is_flag=True,
    help="Write to standard output the form in which two compilations can be compared, and change nothing.",
)
def command(
    paths: tuple[str, ...],
    stdin_filename: str | None,
    check: bool,
    diff: bool,
    normalize: bool,
    configs: tuple[str, ...],
    isolated: bool,
    **options: Any,
) -> int:
    """Lay out PTX as NVIDIA's compilers do.

    Only white space changes. A PATH is as for check: a file, a folder (by default the working folder), a pattern, or - for
    standard input, whose formatted text is written to standard output. Files are rewritten in place, and only if something
    changes. A file with a syntax error is left as it is.

    With --normalize, registers and labels are numbered in the order of the text, and comments, line information and DWARF
    are left out: 'diff <(tclint format --normalize A.ptx) <(tclint format --normalize B.ptx)' shows what two compilations
    do differently. docs/text.md describes both forms.

    Exit code: 0 formatted, or nothing to change; 1 with --check or --diff, if anything would change; 2 usage error, or a file
    that could not be read, formatted or written.
    """
    from tclint.driver.inputs import Exclusions, files, read

    paths = paths or (os.curdir,)
    refuse_unused(stdin_filename, paths)
    config = resolve(configs, isolated, options).config
    if normalize:
        if check or diff:
            raise click.UsageError(f"--normalize cannot be combined with --{'check' if check else 'diff'}.")
        if len(paths) > 1 or os.path.isdir(paths[0]):
            raise click.UsageError("--normalize needs one file, since it is written to standard output.")
        return _normalized(paths[0], stdin_filename, config.max_bytes)
    if STDIN in paths and len(paths) > 1 and not (check or diff):
        raise click.UsageError(
            "Standard input must be the only path, since it is written to standard output."
        )
    exclusions = Exclusions(replace(config, include=()))
    chosen = files(paths, stdin_filename or STDIN_NAME, exclusions)
    formatting = _Formatting(config.max_bytes, check, diff, frozenset(paths))
    formatting.notes += [f"warning: {folder}: no .ptx file in this folder" for folder in exclusions.empty]
    for path, name in chosen:
        for _, item in read([(path, name)], config.max_bytes):
            formatting.one(path, name, item)
    return formatting.finished()


def _normalized(path: str, stdin_filename: str | None, limit: int) -> int:
    """Writes the normal form of a file; returns the exit code. Raises ClickException."""
    from tclint.syntax.source import SourceError
    from tclint.text.normal import normal

    name = (stdin_filename or STDIN_NAME) if path == STDIN else path
    try:
        source = only_source(path, limit)
        _refuse_host(source)
        write(normal(source.data))
    except SourceError as error:
        raise click.ClickException(at(name, error)) from None
    return CLEAN


def _refuse_host(source: Source) -> None:
    """Raises SourceError for a text in another language."""
    from tclint.inline.hosts import is_host
    from tclint.syntax.source import SourceError

    if is_host(source.path, source.member):
        raise SourceError("is not PTX by its name, and only PTX is formatted")


@dataclass(slots=True)
class _Formatting:
    """A run over several files."""

    limit: int
    check: bool
    diff: bool
    named: frozenset[str]
    """The paths that the user named."""
    notes: list[str] = field(default_factory=list)
    changed: int = 0
    unchanged: int = 0
    failed: bool = False

    def one(self, path: str, name: str, item: Source | SourceError) -> None:
        """Formats one input; *item* is its text, or why it could not be read."""
        from tclint.driver.one import debug, internal_error
        from tclint.driver.rewriting import rewritten
        from tclint.syntax.source import SourceError
        from tclint.text.layout import formatted

        try:
            if isinstance(item, SourceError):
                raise item
            _refuse_host(item)
            text = formatted(item.data)
        except SourceError as error:
            self._problem(at(name, error))
            return
        except Exception as error:
            if debug():
                raise
            self._problem(f"{name}: {internal_error(error)}")
            return
        if path == STDIN and not (self.check or self.diff):
            write(text)
            return
        if text == item.data:
            self.unchanged += 1
            return
        if not self.check or self.diff:
            kept = rewritten(None if path == STDIN else path, item, text, self.limit, self.diff)
            if kept.reason:
                self.notes.append(f"{name}: not formatted: {kept.reason}")
                self.failed |= kept.failed or path in self.named
                return
            write(kept.diff.encode("utf-8", "surrogateescape"))
        elif self.check:
            self.notes.append(f"would format {name}")
        self.changed += 1

    def _problem(self, text: str) -> None:
        self.notes.append(f"error: {text}")
        self.failed = True

    def finished(self) -> int:
        """Writes the notes; returns the exit code."""
        from tclint.report.summary import count

        dry = self.check or self.diff
        if self.changed or self.unchanged:
            verb = "would be formatted" if dry else "formatted"
            self.notes.append(f"{count(self.changed, 'file')} {verb}, {self.unchanged} unchanged.")
        write_notes(self.notes)
        return FAILURE if self.failed else FINDINGS if dry and self.changed else CLEAN
