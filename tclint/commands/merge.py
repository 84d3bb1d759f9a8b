"""``tclint merge``: one report from those of the parts of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tclint.commands._common import usage
from tclint.commands._reports import (
    Made,
    Output,
    known_findings,
    output_options,
    refuse_unmatched,
    write_reports,
)

if TYPE_CHECKING:
    from tclint.driver.parts import Part


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PART...")
@output_options
@click.option("--exit-zero", is_flag=True, help="Exit with 0 although there are findings.")
def command(paths: tuple[str, ...], exit_zero: bool, **given: Any) -> int:
    """Make the report of one run from the reports of its parts.

    A PART is a file that 'tclint check --shard I/N' wrote as JSON or SARIF. The report is the one of a run that was not
    divided, in any format: findings of one source line are merged across the parts, and a baseline applies to all of them. The
    settings are those of the parts, except --exit-zero. The files that were checked are not needed.

    All N parts must be given, of the same files, settings and version of tclint.

    Exit code: as that of tclint check; 2 also for parts that are missing, given twice, or not of one run.
    """
    from dataclasses import replace
    from typing import cast

    from tclint.report.fold import presented
    from tclint.report.locate import Mode
    from tclint.report.summary import exit_code, unmet

    output = Output(**given)
    output.refuse_contradictions()
    run = _read(paths)
    config = replace(run.config, exit_zero=exit_zero)
    targets = output.files([*paths, *filter(None, [config.baseline])])
    known = known_findings(config)
    refuse_unmatched(config, run.reports)
    shown, summary = presented(run.reports, config.selected, run.arguments, known, config.arch)
    summary = replace(summary, excluded=run.excluded, unmet=unmet(shown, config.require))
    write_reports(output, cast("Mode", run.locate), config, targets, Made(shown, summary))
    return exit_code(shown, config.failing, summary.unmet)


def _read(paths: tuple[str, ...]) -> Part:
    """The run that the files at *paths* are the parts of. Raises UsageError."""
    from tclint.driver import parts

    found: dict[str, Part] = {}
    for path in paths:
        if path in found:
            raise usage(f"{path} is given twice")
        try:
            found[path] = parts.read(path)
        except parts.PartError as error:
            raise usage(f"{path} {error}") from None
    try:
        return parts.whole(found)
    except parts.PartError as error:
        raise usage(error) from None
