"""``tclint diff``: changes in the synchronisation between two builds."""

from __future__ import annotations

from typing import Any

import click

from tclint.commands import CLEAN, FAILURE, FINDINGS
from tclint.commands._common import Choice, color_option, usage, use_color, write
from tclint.commands._reports import gated
from tclint.commands._settings import SettingsCommand, resolve


@click.command(
    cls=SettingsCommand,
    unused=(
        *("fail_on", "exclude", "force_exclude", "include", "baseline", "jobs"),
        *("verdict", "require", "assume", "accept_ptxas_change"),
    ),
)
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW", required=False)
@click.option(
    "--output-format",
    type=Choice(("text", "json", "sarif")),
    default="text",
    show_default=True,
    help="Text for people, JSON as described by docs/diff.schema.json, or SARIF for code scanning.",
)
@click.option(
    "--no-findings",
    is_flag=True,
    help="Compare only the synchronisation, which takes a fraction of the time.",
)
@click.option(
    "--ptxas",
    metavar="OLD,NEW",
    help="Also compare what two versions of ptxas make of the kernels: registers, spills, advice, matrix instructions.",
)
@color_option
def command(
    old: str,
    new: str | None,
    output_format: str,
    no_findings: bool,
    ptxas: str | None,
    color: str,
    configs: tuple[str, ...],
    isolated: bool,
    **options: Any,
) -> int:
    """Show how a new compiler or source changed the synchronisation.

    OLD and NEW are two files or two folders, whose files are paired by name. For each kernel, shows the waits, fences,
    commits, barriers, arrivals and elections that were lost, added or moved, or became weaker or stronger, and the
    findings that are new or resolved.

    With --ptxas, the first ptxas assembles OLD and the second one NEW, and the difference in what they print and make is
    shown. Without NEW, both assemble OLD, which shows what another ptxas does with the same PTX.

    With a ptxas-budget in the configuration, one ptxas compiles both, and a figure that has grown by more than its allowance
    is a new finding.

    Exit code: 0 nothing changed, 1 something changed, 2 usage error, or an input that could not be analysed.
    """
    from dataclasses import replace

    from tclint.diff.pairs import differences, sides
    from tclint.diff.show import render
    from tclint.syntax.source import SourceError

    assemblers = _assemblers(ptxas)
    if new is None and assemblers is None:
        raise click.UsageError("Missing argument 'NEW', which only --ptxas makes optional.")
    if assemblers is not None and output_format == "sarif":
        raise click.UsageError("--ptxas requires the format text or json: what it finds has no location.")
    config = resolve(configs, isolated, options).config
    config = replace(config, ptxas_budget=None) if assemblers is not None else gated(config)
    try:
        found = list(
            differences(sides(old, new or old, config.max_bytes), config, not no_findings, assemblers)
        )
    except SourceError as error:
        raise usage(error) from None
    write(render(found, output_format, config, use_color(color)))
    if any(difference.problems for difference in found):
        return FAILURE
    return FINDINGS if any(difference.changed for difference in found) and not config.exit_zero else CLEAN


def _assemblers(text: str | None) -> tuple[str, str] | None:
    """The paths of the two programs that ``--ptxas`` names. Raises UsageError."""
    if text is None:
        return None
    import shutil

    first, comma, second = text.partition(",")
    if not (comma and first and second) or "," in second:
        raise click.UsageError("--ptxas must name two programs: OLD,NEW.")
    for name in (first, second):
        if shutil.which(name) is None:
            raise usage(f"--ptxas: {name} is not a program")
    return first, second
