"""The command line. Thin: it turns arguments into sources and a Config, and reports into text and an exit code.

Exit codes: 0 clean; 1 findings at or above ``--fail-on``; 2 a usage error or an input that could not be analysed,
whatever else was found; 130 interrupted. Modules that cost start-up time are imported where they are used.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from tclint import __version__
from tclint.output import formats

if TYPE_CHECKING:
    from tclint.config import Config
    from tclint.finding import FileReport, Severity
    from tclint.locate import Mode
    from tclint.source import Source, SourceError

CLEAN, FINDINGS, FAILURE, INTERRUPTED = 0, 1, 2, 130

_STDIN = "-"
_STDIN_NAME = "<stdin>"
_TEXT_WIDTH = 120
"""Columns of the output where there is no terminal."""


class _Choice(click.Choice[str]):
    """One of a list of words; a wrong one gets the nearest suggested."""

    def __init__(self, choices: Sequence[str]) -> None:
        super().__init__(choices, case_sensitive=False)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        from difflib import get_close_matches

        near = get_close_matches(str(value).lower(), self.choices, n=1)
        message = super().get_invalid_choice_message(value, ctx)
        return f"{message} Did you mean {near[0]!r}?" if near else message


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tclint", message="%(prog)s %(version)s")
def cli() -> None:
    """A linter for NVIDIA PTX: finds missing waits, fences and commits around asynchronous instructions."""


@cli.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--stdin-filename", metavar="NAME", help="The name under which standard input (-) is shown.")
@click.option(
    "--output-format",
    type=_Choice(formats()),
    default="text",
    show_default=True,
    help="How findings are written to standard output.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="FORMAT=FILE",
    help="Write a report to a file as well, such as sarif=tclint.sarif; may be repeated.",
)
@click.option(
    "--locate",
    type=_Choice(("auto", "ptx", "source")),
    default="auto",
    show_default=True,
    help="Where findings point: to the PTX or to the line of CUDA or Python that it was made from. "
    "auto: to the PTX where git tracks it.",
)
@click.option(
    "--fail-on",
    type=_Choice(("error", "warning", "info", "never")),
    default="warning",
    show_default=True,
    help="The lowest severity that makes the exit code 1.",
)
@click.option("--pedantic", is_flag=True, help="Show findings of low confidence too.")
@click.option(
    "--color",
    type=_Choice(("auto", "always", "never")),
    default="auto",
    show_default=True,
    help="auto: on a terminal, unless NO_COLOR is set; FORCE_COLOR turns it on elsewhere.",
)
def check(
    paths: tuple[str, ...],
    stdin_filename: str | None,
    output_format: str,
    outputs: tuple[str, ...],
    locate: Mode,
    fail_on: str,
    pedantic: bool,
    color: str,
) -> int:
    """Lint PTX files.

    A PATH is a file, a folder (all *.ptx, *.ptx.gz and *.ptx.zst below it), a pattern such as 'out/**/*.ptx', or - for
    standard input. A fatbin, cubin, object, library or executable is opened with NVIDIA's cuobjdump.

    Exit code: 0 clean, 1 findings at or above --fail-on, 2 usage error or an input that could not be analysed.
    """
    from dataclasses import replace

    from tclint.config import Config
    from tclint.finding import Severity
    from tclint.fold import fold
    from tclint.inputs import inputs
    from tclint.locate import Locator
    from tclint.output import renderer
    from tclint.output._files import OutputError, parse, refuse_inputs, write
    from tclint.report import Context, present

    if stdin_filename is not None and _STDIN not in paths:
        raise click.UsageError("--stdin-filename needs '-' among the paths.")
    config = Config(fail_on=None if fail_on == "never" else Severity[fail_on.upper()], pedantic=pedantic)
    try:
        files = parse(outputs)
    except OutputError as error:
        raise click.UsageError(f"--output: {error}.") from None
    reports = [_check(item, config) for item in inputs(paths, stdin_filename or _STDIN_NAME)]
    shown, summary = fold(*present(reports, pedantic=pedantic))
    context = Context(summary, locate=Locator.of(locate, shown), fail_on=config.fail_on)
    try:
        refuse_inputs(files, [report.path for report in shown])
        write({path: renderer(name)(shown, context) for path, name in files.items()})
    except OutputError as error:
        raise click.ClickException(str(error)) from None
    terminal = replace(context, color=_use_color(color), width=_width(), links=_use_links())
    _write(renderer(output_format)(shown, terminal))
    return _exit_code(shown, config.fail_on)


@cli.command()
@click.argument("stage", type=_Choice(("tree", "ir", "cfg", "states")))
@click.argument("file")
@click.option("--dot", is_flag=True, help="As a graph for Graphviz.")
@click.option("--entry", metavar="NAME", help="This function only.")
def dump(stage: str, file: str, dot: bool, entry: str | None) -> int:
    """Show what a stage of the analysis made of FILE (- for standard input)."""
    from tclint import dump as stages
    from tclint.inputs import read_sources
    from tclint.source import SourceError

    name = _STDIN_NAME if file == _STDIN else file
    try:
        sources = list(read_sources(file, name))
        if len(sources) > 1:
            members = ", ".join(str(source.member) for source in sources)
            raise SourceError(f"holds several modules ({members}): take one out with cuobjdump -xptx")
        text: str = getattr(stages, stage)(sources[0], dot=dot, entry=entry)
    except SourceError as error:
        raise click.ClickException(_at(name, error)) from None
    _write(text if text.endswith("\n") else text + "\n")
    return CLEAN


@cli.command()
def rules() -> int:
    """List all rules."""
    from tclint.rules import all_rules

    rows = list(all_rules().values())
    widths = [
        max((len(text) for text in column), default=0) for column in zip(*map(_columns, rows), strict=True)
    ]
    for rule in rows:
        columns = (text.ljust(width) for text, width in zip(_columns(rule), widths, strict=True))
        _write(f"{'  '.join(columns)}  {rule.summary}\n")
    return CLEAN


def _columns(rule: Any) -> tuple[str, str, str]:
    return rule.id, rule.severity.label, rule.name


@cli.command()
@click.argument("rule")
def explain(rule: str) -> int:
    """Show the page of RULE, an id such as WG001 or a name."""
    from tclint.rules import UnknownRule, find

    try:
        found = find(rule)
    except UnknownRule as error:
        raise click.UsageError(f"{error}.") from None
    _write(
        f"# {found.id} {found.name}\n\n"
        f"Severity {found.severity.label}, confidence {found.confidence.label}, "
        f"PTX ISA {', '.join(found.manual)}, since tclint {found.since}.\n\n{found.body}"
    )
    return CLEAN


def main(args: Sequence[str] | None = None) -> None:
    """The entry point of the command: runs it and exits. No exception becomes a traceback without TCLINT_DEBUG."""
    try:
        code = cli.main(args=args, prog_name="tclint", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = FAILURE
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except Exception as error:
        if _debug():
            raise
        click.echo(f"Error: {_internal_error(error)}", err=True)
        code = FAILURE
    sys.exit(code)


def _check(item: tuple[str, Source | SourceError], config: Config) -> FileReport:
    """The report for one input, whatever happens to it."""
    from dataclasses import replace

    from tclint.finding import FileReport
    from tclint.inputs import origin
    from tclint.source import SourceError

    path, source = item
    if isinstance(source, SourceError):
        return FileReport.failed(path, str(source), source.line)
    try:
        from tclint.driver import check_source

        report = check_source(source, config)
    except SourceError as error:
        return replace(FileReport.failed(path, str(error), error.line), member=source.member)
    except Exception as error:
        if _debug():
            raise
        return replace(FileReport.failed(path, _internal_error(error)), member=source.member)
    if not report.findings:
        # Nothing will be shown of the text: let it go before the next one is read.
        return replace(report, source=None)
    return replace(report, origin=origin(path))


def _exit_code(reports: Iterable[FileReport], fail_on: Severity | None) -> int:
    code = CLEAN
    for report in reports:
        if report.problems:
            return FAILURE
        if fail_on is not None and any(finding.severity >= fail_on for finding in report.findings):
            code = FINDINGS
    return code


def _use_color(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _use_links() -> bool:
    """Terminals that know no hyperlinks leave them out, except for very old ones; logs are no terminals."""
    if (forced := os.environ.get("FORCE_HYPERLINK")) is not None:
        return forced not in ("", "0")
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _width() -> int:
    """The width of the terminal or of COLUMNS; elsewhere one that reads well in a log."""
    return shutil.get_terminal_size((_TEXT_WIDTH, 24)).columns if sys.stdout.isatty() else _TEXT_WIDTH


def _write(text: str) -> None:
    """Write to standard output. A reader that went away is no reason to say anything, but the work is not done."""
    stream = sys.stdout
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        # The interpreter flushes once more on its way out; let that succeed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise click.exceptions.Exit(FAILURE) from None
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise click.ClickException(f"the output cannot be written: {error.strerror or error}") from None


def _at(path: str, error: SourceError) -> str:
    return f"{path}:{error.line}: {error}" if error.line else f"{path}: {error}"


def _debug() -> bool:
    return os.environ.get("TCLINT_DEBUG", "") not in ("", "0")


def _internal_error(error: Exception) -> str:
    text = " ".join(str(error).split())
    name = type(error).__name__
    return f"internal error: {name}{f': {text}' if text else ''} (TCLINT_DEBUG=1 shows where)"
