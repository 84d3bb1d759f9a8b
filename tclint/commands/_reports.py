"""The reports of a run on standard output and in files: the options for them, and writing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tclint._dataclass import dataclass
from tclint.commands._common import (
    Choice,
    F,
    color_option,
    decorated,
    no_function,
    usage,
    use_color,
    use_links,
    width,
    write,
    write_notes,
)
from tclint.report.formats import formats

if TYPE_CHECKING:
    from tclint.config.config import Config
    from tclint.driver.fixing import Fixing
    from tclint.findings.finding import FileReport
    from tclint.report.baseline import Baseline
    from tclint.report.locate import Mode
    from tclint.report.summary import FormatContext, Summary

_FOR_PEOPLE = ("text", "concise")
"""The formats that --statistics and --max-findings shorten; a program wants all there is."""
_OF_PARTS = frozenset(("json", "sarif"))
"""The formats that tclint merge reads."""


def output_options(function: F) -> F:
    """The options whose values are an :class:`Output`."""
    return decorated(
        function,
        (
            click.option(
                "--output-format",
                type=Choice(formats()),
                default="text",
                show_default=True,
                help="Format of the findings on standard output.",
            ),
            click.option(
                "--output",
                "outputs",
                multiple=True,
                metavar="FORMAT=FILE",
                help="Also write a report to a file, such as sarif=tclint.sarif; may be repeated.",
            ),
            click.option(
                "-o",
                "--output-file",
                metavar="FILE",
                help="Write the findings to a file instead of standard output.",
            ),
            color_option,
            click.option("--statistics", is_flag=True, help="Show counts per rule only."),
            click.option(
                "--max-findings",
                type=click.IntRange(min=0),
                metavar="N",
                help="Show the first N findings, and count the others.",
            ),
            click.option("-q", "--quiet", is_flag=True, help="Show the findings and nothing else."),
        ),
    )


@dataclass(frozen=True, slots=True)
class Output:
    """Where the findings are written, and in which form."""

    output_format: str
    outputs: tuple[str, ...]
    output_file: str | None
    color: str
    statistics: bool
    max_findings: int | None
    quiet: bool

    def refuse_contradictions(self) -> None:
        """Raises UsageError."""
        given = {"--statistics": self.statistics, "--max-findings": self.max_findings is not None}
        for name in (name for name, asked in given.items() if asked):
            if self.output_format not in _FOR_PEOPLE:
                raise click.UsageError(
                    f"{name} requires the format text or concise, not {self.output_format}."
                )
        if all(given.values()):
            raise click.UsageError("--statistics cannot be combined with --max-findings.")

    def files(self, inputs: Iterable[str]) -> dict[str, str]:
        """File -> format of the reports to write, none of which may be one of the *inputs*. Raises UsageError.

        What would fail after the analysis is refused before it.
        """
        if not self.outputs and self.output_file is None:
            return {}
        from tclint._write import OutputError, refuse

        own = [] if self.output_file is None else [(self.output_file, self.output_format)]
        try:
            if self.output_file is not None:
                _refuse_request(self.output_file)
            requests = [*map(_request, self.outputs), *own]
            refuse([path for path, _ in requests], inputs)
        except OutputError as error:
            raise usage(f"--output{'' if self.outputs else '-file'}: {error}") from None
        return dict(requests)

    def mergeable(self, files: Mapping[str, str]) -> bool:
        """Whether a report, on standard output or in *files*, is one that tclint merge reads."""
        return not _OF_PARTS.isdisjoint((self.output_format, *files.values()))


def _refuse_request(path: str) -> None:
    """Raises OutputError for a file name that is meant for ``--output``."""
    from tclint._write import OutputError

    name, equals, file = path.partition("=")
    if equals and name.lower() in formats():
        raise OutputError(
            f"{path!r} is not the name of a file: --output {path} writes that report beside the one on standard output,"
            f" and --output-format {name.lower()} -o {file or 'FILE'} in its place"
        )


def _request(text: str) -> tuple[str, str]:
    """The file and the format of a *text* of the form ``FORMAT=FILE``. Raises OutputError."""
    from tclint._write import OutputError
    from tclint.findings.rules import nearest

    name, equals, path = text.partition("=")
    if not equals or not path:
        raise OutputError(f"{text!r} is not of the form FORMAT=FILE, such as sarif=tclint.sarif")
    if name.lower() not in formats():
        near = nearest(name.lower(), formats()) or f"; available: {', '.join(formats())}"
        raise OutputError(f"unknown format {name!r}{near}")
    if path in ("-", "/dev/stdout"):
        raise OutputError(f"{text!r}: use --output-format {name.lower()} for standard output")
    return path, name.lower()


@dataclass(frozen=True, slots=True)
class Made:
    """What a run has made, for its reports."""

    shown: Sequence[FileReport]
    summary: Summary
    fixing: Fixing | None = None
    part: Mapping[str, Any] | None = None
    """What identifies the run as a part of a divided one."""
    verbose: bool = False
    """Whether frames in a source have the PTX below them."""


def write_reports(
    output: Output, locate: Mode, config: Config, targets: Mapping[str, str], made: Made
) -> None:
    """Writes the reports to the files *targets* and to standard output. Raises ClickException."""
    from dataclasses import replace

    from tclint._write import OutputError
    from tclint._write import write as write_files
    from tclint.report.formats import renderer
    from tclint.report.locate import Locator
    from tclint.report.summary import FormatContext

    context = FormatContext(
        made.summary,
        locate=Locator.of(locate, made.shown),
        fail_on=config.failing,
        baseline=config.baseline is not None,
        notes=config.prints_notes,
        part=made.part,
    )
    texts = {
        path: renderer(name)(made.shown, context)
        for path, name in targets.items()
        if path != output.output_file
    }
    context = replace(context, quiet=output.quiet, verbose=made.verbose)
    if output.output_file is None:
        context = replace(context, color=use_color(output.color), width=width(), links=use_links())
    text = _rendered(output, made, context)
    if output.output_file is not None:
        texts[output.output_file] = text
    try:
        write_files(texts)
    except OutputError as error:
        raise click.ClickException(str(error)) from None
    fixed_stdin = None if made.fixing is None else made.fixing.stdin
    if fixed_stdin is not None:
        write(fixed_stdin)
    if output.output_file is None:
        write(text, sys.stdout if fixed_stdin is None else sys.stderr)
    _write_notes(output, made)


def _rendered(output: Output, made: Made, context: FormatContext) -> str:
    """The report in the form that the options ask for: counts only, the first findings, or all of them."""
    from dataclasses import replace

    from tclint.report.formats import renderer
    from tclint.report.summary import first_of, of_text, statistics_of

    if output.statistics:
        return statistics_of(made.shown, context)
    if output.max_findings is None:
        return renderer(output.output_format)(made.shown, context)
    printed, context = (
        of_text(made.shown, context) if output.output_format == "text" else (made.shown, context)
    )
    listed, more = first_of(printed, output.max_findings)
    shortened = replace(context, summary=replace(context.summary, unlisted=more))
    return renderer(output.output_format)(listed, shortened)


def _write_notes(output: Output, made: Made) -> None:
    """Writes to standard error what was fixed, and, unless it is to be quiet, what else there is to say of the run."""
    if made.fixing is not None:
        write_notes(made.fixing.notes)
    if output.quiet:
        return
    write_notes(made.summary.notes)
    if made.summary.unmet and (output.output_format != "text" or output.statistics):  # the text has them
        from tclint.report.formats._verdicts import unmet_words

        write_notes([f"error: {unmet_words(one)}" for one in made.summary.unmet])


def refuse_unmatched(config: Config, reports: Iterable[FileReport]) -> None:
    """Raises UsageError if no function matches ``--entry``, since otherwise the run would look clean."""
    names = {name: None for report in reports for name in report.entries}
    if names and not any(config.selected.wants(name) for name in names):
        raise no_function(config.entry, names)


def gated(config: Config, known: Baseline | None = None) -> Config:
    """*config* with the gate on what ptxas makes, if the settings have one; *known* is the baseline. Raises UsageError."""
    if config.ptxas_budget is None:
        return config
    from tclint.driver import assembling
    from tclint.findings.selection import SettingsError

    try:
        return assembling.gated(config, () if known is None else known.recorded())
    except SettingsError as error:
        raise usage(error) from None


def known_findings(config: Config) -> Baseline | None:
    """The baseline of the run; None without one. Raises UsageError."""
    if config.baseline is None:
        return None
    from tclint.findings.selection import SettingsError
    from tclint.report import baseline

    try:
        return baseline.of(config.baseline)
    except SettingsError as error:
        raise usage(error) from None
