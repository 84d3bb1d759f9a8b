"""``tclint check``: lint PTX files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tclint.commands import CLEAN, FAILURE, FINDINGS
from tclint.commands._common import (
    STDIN,
    STDIN_NAME,
    Choice,
    color_option,
    need_numpy,
    no_function,
    refuse_unused,
    stdin_filename_option,
    usage,
    use_color,
    use_links,
    verbose_option,
    width,
    write,
    write_notes,
)
from tclint.commands._settings import SettingsCommand, resolve
from tclint.report.formats import formats

if TYPE_CHECKING:
    from tclint.config.config import Config
    from tclint.driver.fixing import Fixing
    from tclint.driver.one import Input
    from tclint.findings.finding import FileReport
    from tclint.report.baseline import Baseline
    from tclint.report.locate import Mode


@click.command(cls=SettingsCommand)
@click.argument("paths", nargs=-1, metavar="PATH...")
@stdin_filename_option
@click.option(
    "--output-format",
    type=Choice(formats()),
    default="text",
    show_default=True,
    help="Format of the findings on standard output.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="FORMAT=FILE",
    help="Also write a report to a file, such as sarif=tclint.sarif; may be repeated.",
)
@click.option(
    "--locate",
    type=Choice(("auto", "ptx", "source")),
    default="auto",
    show_default=True,
    help="Whether findings point to the PTX or to the CUDA or Python line it was compiled from; "
    "auto: to the PTX if git tracks it.",
)
@click.option(
    "--launch",
    metavar="FILE",
    help="Launch file for --confirm and --execute. Defaults to KERNEL.launch.toml beside the kernel, or else to an assumed"
    " launch. A folder of tclint capture also gives the replays of that kernel their numbers.",
)
@click.option(
    "--fix",
    is_flag=True,
    help="Apply safe fixes to the files; fixed standard input is written to standard output.",
)
@click.option(
    "--unsafe-fixes", is_flag=True, help="Also apply fixes that may change what the program computes."
)
@click.option("--diff", is_flag=True, help="Show the changes of --fix as a unified diff without making them.")
@color_option
@click.option("--statistics", is_flag=True, help="Show counts per rule only.")
@click.option(
    "--timings",
    is_flag=True,
    help="Print to stderr how long each stage took and how often the analyses gave up, with the reason; implies --no-cache.",
)
@verbose_option
@click.option(
    "--shard",
    metavar="I/N",
    callback=lambda _context, _option, text: _shard(text),
    help="Check only the I-th of N parts of the files, of about equal sizes, for jobs that run side by side.",
)
@click.option("--show-settings", is_flag=True, help="Print the settings and the origin of each, then exit.")
def command(
    paths: tuple[str, ...],
    stdin_filename: str | None,
    output_format: str,
    outputs: tuple[str, ...],
    locate: Mode,
    launch: str | None,
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    color: str,
    statistics: bool,
    timings: bool,
    verbose: bool,
    shard: tuple[int, int] | None,
    configs: tuple[str, ...],
    isolated: bool,
    show_settings: bool,
    **options: Any,
) -> int:
    """Lint PTX files, and the inline assembly of CUDA C++ and Python.

    A PATH is a file, a folder (all *.ptx, *.ptx.gz and *.ptx.zst files below it, and files matching --include), a
    pattern such as 'out/**/*.ptx' or 'src/**/*.cuh', or - for standard input. PTX is extracted from a fatbin, cubin,
    object, library or executable with NVIDIA's cuobjdump.

    RULES are ids, names, families, id prefixes, or ALL, separated by commas.

    A comment '// tclint: ignore[RULES] reason' suppresses the findings of its statement, and one with
    ignore-entry[RULES], before or in a function, those of the function. To hide all present findings, use tclint
    baseline.

    If nothing is reported, the last line counts the findings that are hidden and the kernels in which the analyses left
    questions open. --pedantic shows findings of low confidence, and --timings counts the open questions.

    --verdict states for each kernel which classes of hazards are violated, proved, bounded by replays, or unknown, and
    --require fails unless they are proved or bounded; docs/verdicts.md describes both.

    Exit code: 0 clean, 1 findings at or above --fail-on or a requirement that is not met, 2 usage error, an input that
    could not be analysed, a file that --fix could not write, or a comment that suppresses nothing. With --fix, only the remaining findings count; with --diff, it is 1 if anything
    would change.
    """
    from dataclasses import replace

    from tclint.commands._progress import shown_on
    from tclint.config import settings
    from tclint.driver import inputs
    from tclint.driver.inputs import Exclusions, files, read
    from tclint.driver.one import debug
    from tclint.driver.pool import reports
    from tclint.report.fold import presented
    from tclint.report.formats import renderer
    from tclint.report.formats._files import OutputError, parse, refuse_inputs
    from tclint.report.formats._files import write as write_files
    from tclint.report.locate import Locator
    from tclint.report.summary import Context, exit_code, gave_up_of, statistics_of, timings_of, unmet

    if statistics and output_format not in ("text", "concise"):
        raise click.UsageError(f"--statistics requires the format text or concise, not {output_format}.")
    resolved = resolve(configs, isolated, options)
    config = replace(resolved.config, launch=launch, cache=resolved.config.cache and not (timings or launch))
    if show_settings:
        write(settings.show(resolved))
        return CLEAN
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    refuse_unused(stdin_filename, paths)
    _refuse_unexecutable(config)
    _refuse_ineffective(fix, diff, unsafe_fixes, output_format, outputs, statistics, timings)
    try:
        targets = parse(outputs)
    except OutputError as error:
        raise usage(f"--output: {error}") from None
    exclusions = Exclusions(config)
    chosen = files(paths, stdin_filename or STDIN_NAME, exclusions)
    if shard is not None:
        chosen = inputs.shard(chosen, *shard)
    sources = read(chosen, config.max_bytes)
    known = _baseline(config)
    fixing = None
    if fix or diff:
        from tclint.driver.fixing import Fixing

        _refuse_unfixable(paths, diff)
        fixing = Fixing(config, unsafe_fixes, diff, known)
        sources = fixing.fixed_inputs(sources, stdin_filename or STDIN_NAME)
    if fixing is not None and diff:
        return _show(fixing, sources)
    notes: list[str] = []
    checked = list(shown_on(sys.stderr, reports(sources, config, notes.append), len(chosen)))
    if verbose:
        write_notes(notes)
    found = [item.report for item in checked]
    _refuse_unreadable(found)
    if shard is None:  # else the function may be in another part
        _refuse_unmatched(config, found)
    shown, summary = presented(found, config.selected, paths, known, config.arch)
    fixed, fixed_duplicates = fixing.counts() if fixing is not None else ({}, 0)
    summary = replace(
        summary,
        excluded=len(exclusions.paths),
        fixed=fixed,
        fixed_duplicates=fixed_duplicates,
        unmet=unmet(shown, config.require),
    )
    context = Context(
        summary,
        locate=Locator.of(locate, shown),
        fail_on=config.failing,
        rules=config.rules,
        baseline=known is not None,
    )
    try:
        refuse_inputs(targets, [report.path for report in shown])
        write_files({path: renderer(name)(shown, context) for path, name in targets.items()})
    except OutputError as error:
        raise click.ClickException(str(error)) from None
    terminal = replace(context, color=use_color(color), width=width(), links=use_links())
    text = statistics_of(shown, summary) if statistics else renderer(output_format)(shown, terminal)
    if fixing is not None and fixing.stdin is not None:
        write(fixing.stdin)
    write(text, sys.stdout if fixing is None or fixing.stdin is None else sys.stderr)
    if fixing is not None:
        write_notes(fixing.notes)
    write_notes(summary.notes)
    if summary.unmet and (output_format != "text" or statistics):  # the text has them
        from tclint.report.formats._verdicts import unmet_words

        write_notes([f"error: {unmet_words(one)}" for one in summary.unmet])
    if timings:
        write(timings_of(item.seconds for item in checked), sys.stderr)
        write(gave_up_of(found, each=debug()), sys.stderr)
    code = exit_code(shown, config.failing, summary.unmet)
    return FAILURE if fixing is not None and fixing.unwritten else code


def _shard(text: str | None) -> tuple[int, int] | None:
    """What ``--shard`` says. Raises BadParameter."""
    if text is None:
        return None
    number, slash, shards = text.partition("/")
    numbers = slash and all(part.isdecimal() and len(part) < 7 for part in (number, shards))
    if numbers and 1 <= int(number) <= int(shards):
        return int(number), int(shards)
    raise click.BadParameter(f"'{text}' is not of the form I/N with I from 1 to N, such as 1/4.")


def _refuse_unfixable(paths: tuple[str, ...], diff: bool) -> None:
    if STDIN in paths and len(paths) > 1 and not diff:
        raise click.UsageError(
            "With --fix, standard input must be the only path, since it is written to standard output."
        )


def _show(fixing: Fixing, sources: Iterable[Input]) -> int:
    """Writes the diffs to standard output and everything else to standard error; returns the exit code."""
    from tclint.report.summary import count

    for _ in sources:
        pass
    _refuse_unmatched(fixing.config, fixing.after)
    write("".join(fixing.diffs).encode("utf-8", "surrogateescape"))
    fixing.notes = [*fixing.problems, *fixing.notes]
    if fixing.diffs:
        fixed, duplicates = fixing.counts()
        merged = f", and {count(duplicates, 'duplicate')}" if duplicates else ""
        fixing.notes.append(f"Would fix {count(sum(fixed.values()), 'finding')}{merged}.")
    write_notes(fixing.notes)
    return FAILURE if fixing.problems or fixing.unwritten else FINDINGS if fixing.diffs else CLEAN


def _refuse_unmatched(config: Config, reports: Iterable[FileReport]) -> None:
    """Raises UsageError if no function matches ``--entry``, since otherwise the run would look clean."""
    names = {name: None for report in reports for name in report.entries}
    if names and not any(config.selected.wants(name) for name in names):
        raise no_function(config.entry, names)


def _refuse_ineffective(
    fix: bool,
    diff: bool,
    unsafe_fixes: bool,
    output_format: str,
    outputs: tuple[str, ...],
    statistics: bool,
    timings: bool,
) -> None:
    """Raises UsageError for an option that would change nothing, since it was given for a reason."""
    if unsafe_fixes and not (fix or diff):
        raise click.UsageError("--unsafe-fixes requires --fix or --diff.")
    unused = {
        f"--output-format {output_format}": output_format != "text",
        "--output": bool(outputs),
        "--statistics": statistics,
        "--timings": timings,
    }
    for option, given in unused.items():
        if diff and given:
            raise click.UsageError(f"--diff shows changes only, so {option} has no effect.")


def _baseline(config: Config) -> Baseline | None:
    if config.baseline is None:
        return None
    from tclint.findings.selection import SettingsError
    from tclint.report import baseline

    try:
        return baseline.of(config.baseline)
    except SettingsError as error:
        raise usage(error) from None


def _refuse_unreadable(reports: Iterable[FileReport]) -> None:
    """Raises ClickException if the grammars of other languages are not installed, once and not for every file."""
    from tclint.inline.hosts import MISSING

    if any(problem.message == MISSING for report in reports for problem in report.problems):
        raise click.ClickException(MISSING)


def _refuse_unexecutable(config: Config) -> None:
    recorded = config.launch is not None and os.path.isdir(config.launch)
    if config.launch and not (config.executes or recorded):
        raise click.UsageError("--launch requires --confirm or --execute, or a folder of tclint capture.")
    if config.executes:
        need_numpy()
        from tclint.executor.launch import LaunchError
        from tclint.executor.recorded import read

        try:
            if config.launch:
                read(config.launch)
        except (LaunchError, OSError) as error:
            raise usage(error) from None
