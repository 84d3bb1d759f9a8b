"""``tclint baseline``: record the current findings, so that later runs show only new ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tclint.commands import CLEAN, FAILURE
from tclint.commands._common import (
    STDIN,
    STDIN_NAME,
    refuse_unused,
    stdin_filename_option,
    usage,
    verbose_option,
    write,
    write_notes,
)
from tclint.commands._reports import gated
from tclint.commands._settings import SettingsCommand, resolve

if TYPE_CHECKING:
    from tclint.findings.finding import FileReport
    from tclint.findings.selection import Selected
    from tclint.report.baseline import Baseline


@click.command(
    cls=SettingsCommand,
    unused=("fail_on", "exit_zero", "verdict", "require", "assume", "accept_ptxas_change"),
)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@stdin_filename_option
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Baseline to write. Defaults to the one in the settings, or else to tclint-baseline.json.",
)
@click.option("--prune", is_flag=True, help="Only remove findings that are gone; add none.")
@verbose_option
def command(
    paths: tuple[str, ...],
    stdin_filename: str | None,
    output: str | None,
    prune: bool,
    verbose: bool,
    configs: tuple[str, ...],
    isolated: bool,
    **options: Any,
) -> int:
    """Record the findings in PTX files, for check --baseline to hide.

    PATH (by default the working folder) and the settings are as for check: the findings that check would show are
    recorded. An existing baseline is updated: findings that are gone are removed, new ones are added, and those this run
    did not look for are kept. With a ptxas-budget, the figures of the kernels are recorded too. Wrong suppression comments (SU001, SU002) are not recorded.

    Exit code: 0 written, 2 usage error, or an input that could not be analysed. Findings in the other inputs are still
    written, unless there are none or a PATH does not exist.
    """
    from tclint._write import OutputError, refuse
    from tclint.commands._progress import shown_on
    from tclint.driver.inputs import Exclusions, files, read
    from tclint.driver.pool import reports
    from tclint.report.baseline import DEFAULT
    from tclint.report.formats._style import printable
    from tclint.report.summary import count

    paths = paths or (os.curdir,)
    resolved = resolve(configs, isolated, options)
    config = gated(resolved.config)
    refuse_unused(stdin_filename, paths)
    path = output or config.baseline or DEFAULT
    _known(path, prune)  # refuses an invalid one before the analysis
    exclusions = Exclusions(config)
    chosen = files(paths, stdin_filename or STDIN_NAME, exclusions)
    write_notes(exclusions.warnings)
    if not chosen:
        raise click.ClickException("there is nothing to check; nothing was written")
    for name, _ in chosen:
        if name != STDIN and not os.path.exists(name):
            raise click.ClickException(f"{name}: no such file or directory; nothing was written")
    try:
        refuse([path], [*(name for name, _ in chosen), *resolved.files])
    except OutputError as error:
        raise usage(f"--output: {error}") from None
    notes: list[str] = []
    made = reports(read(chosen, config.max_bytes), config, notes.append)
    found = [item.report for item in shown_on(sys.stderr, made, len(chosen))]
    if verbose:
        write_notes(notes)
    _write_problems(found)
    if found and all(report.status == "failed" for report in found):
        return FAILURE
    old, new = _updated(path, prune, found, config.selected, paths)
    added = len(new.entries) - len(old.entries) + len(old.gone)
    text = f"{path}: {count(len(new.entries), 'finding')} ({added} new, {len(old.gone)} gone)"
    if new.kernels:
        text += f", figures of {count(len({each.figures.kernel for each in new.kernels}), 'kernel')}"
    write(printable(text) + "\n")
    return FAILURE if any(report.problems for report in found) else CLEAN


def _updated(
    path: str, prune: bool, found: Sequence[FileReport], selected: Selected, paths: Sequence[str]
) -> tuple[Baseline, Baseline]:
    """The baseline before and after the findings are recorded in it. Raises ClickException."""
    from tclint._write import OutputError, locked
    from tclint._write import write as write_files

    try:
        with locked(path):
            # Read it again, since another run may have updated it during the analysis.
            found, old = _known(path, prune).compared(list(found), selected, paths)
            new = old.updated(found, selected, prune=prune)
            write_files({path: str(new)})
    except OutputError as error:
        raise click.ClickException(str(error)) from None
    return old, new


def _write_problems(found: Sequence[FileReport]) -> None:
    """Writes why inputs could not be analysed."""
    from tclint.findings.places import displayed_name
    from tclint.report.formats._style import printable

    for report in found:
        for problem in report.problems:
            line = f":{problem.line}" if problem.line else ""
            write(printable(f"error: {displayed_name(report)}{line}: {problem.message}") + "\n")


def _known(path: str, prune: bool) -> Baseline:
    """The baseline to update; an empty one if the file does not exist. Raises click.UsageError."""
    from tclint.findings.selection import SettingsError
    from tclint.report.baseline import Baseline, read

    try:
        known = read(path) if os.path.lexists(path) else Baseline(path)
    except SettingsError as error:
        raise usage(error) from None
    if prune and not known.entries:
        raise click.UsageError(f"--prune: {path} does not exist or has no findings.")
    return known
