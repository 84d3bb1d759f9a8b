"""``tclint check``: lint PTX files."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tclint._dataclass import dataclass
from tclint.commands import CLEAN, FAILURE, FINDINGS
from tclint.commands._common import (
    STDIN,
    STDIN_NAME,
    Choice,
    need_numpy,
    refuse_unused,
    stdin_filename_option,
    usage,
    write,
    write_notes,
)
from tclint.commands._reports import (
    Made,
    Output,
    gated,
    known_findings,
    output_options,
    refuse_unmatched,
    write_reports,
)
from tclint.commands._settings import SettingsCommand, resolve

if TYPE_CHECKING:
    from tclint.config.config import Config
    from tclint.config.settings import Settings
    from tclint.driver.fixing import Fixing
    from tclint.driver.inputs import Exclusions
    from tclint.driver.one import Input
    from tclint.driver.pool import Checked
    from tclint.report.baseline import Baseline
    from tclint.report.locate import Mode

_NVCC = "nvcc"
"""Where the context of the command has the arguments for nvcc."""
_CONTRADICTIONS = (
    ("--quiet", "--verbose"),
    ("--fix", "--add-ignore"),
    ("--watch", "--diff"),
    ("--compile", "--fix"),
    ("--compile", "--add-ignore"),
    ("--compile", "--since"),  # a header may have changed
)


class _Check(SettingsCommand):
    """With ``--compile``, what follows ``--`` belongs to nvcc. An option of nvcc in front of it is named in the error."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--compile" in args and "--" in args else len(args)
        ctx.meta[_NVCC] = tuple(args[end + 1 :])
        own = args[:end]
        try:
            return super().parse_args(ctx, [*own])  # which takes words out of it
        except click.NoSuchOption as error:
            for word in own:
                if word.startswith(error.option_name) and re.match(r"-[a-zA-Z]{2}", word):
                    wanted = f"tclint check --compile kernel.cu -- {word}"
                    raise usage(f"no such option {word}; those of nvcc follow '--': {wanted}") from None
            raise


@click.command(cls=_Check)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@stdin_filename_option
@output_options
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
@click.option(
    "--diff",
    is_flag=True,
    help="Show the changes of --fix or --add-ignore as a unified diff without making them.",
)
@click.option(
    "--add-ignore",
    is_flag=True,
    help="Add to the statement of each finding a comment that suppresses it.",
)
@click.option(
    "--timings",
    is_flag=True,
    help="Print to stderr how long each stage took and how often the analyses gave up, with the reason; implies --no-cache.",
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show the PTX below the lines of the source; print to stderr what was reused of earlier runs, and why results were"
    " not kept.",
)
@click.option("--watch", is_flag=True, help="Check again whenever an input or the configuration changes.")
@click.option(
    "--compile",
    is_flag=True,
    help="Check the PTX that nvcc makes of CUDA C++, and not only its strings; arguments for nvcc follow '--'.",
)
@click.option(
    "--shard",
    metavar="I/N",
    callback=lambda _context, _option, text: _shard(text),
    help="Check only the I-th of N parts of the files, of about equal sizes, for jobs that run side by side.",
)
@click.option(
    "--since",
    metavar="REF",
    help="Check only files that have changed since the current branch left REF, and those that git does not track.",
)
@click.option("--show-settings", is_flag=True, help="Print the settings and the origin of each, then exit.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    paths: tuple[str, ...],
    configs: tuple[str, ...],
    isolated: bool,
    show_settings: bool,
    **given: Any,
) -> int:
    """Lint PTX files, and the inline assembly of CUDA C++ and Python.

    A PATH is a file, a folder (by default the working folder; all *.ptx, *.ptx.gz and *.ptx.zst files below it, and files
    matching --include that have inline assembly, except in hidden folders, build, and what git ignores), a pattern such as
    'out/**/*.ptx' or 'src/**/*.cuh', or - for standard input. PTX is extracted from a fatbin, cubin, object, library or executable with NVIDIA's cuobjdump. Of CUDA C++ and Python, only the strings
    with PTX are checked; 'tclint check --compile kernel.cu -- -gencode arch=compute_90a,code=sm_90a' checks what
    nvcc makes of CUDA C++.

    RULES are ids, names, families, id prefixes, or ALL, separated by commas.

    A comment '// tclint: ignore[RULES] reason' suppresses the findings of its statement, and one with
    ignore-entry[RULES], before or in a function, those of the function. --add-ignore writes such comments. To hide all
    present findings without changing a file, use tclint baseline.

    If nothing is reported, the last line counts the findings that are hidden and the kernels in which the analyses left
    questions open. --pedantic shows findings of low confidence, and --timings counts the open questions.

    --verdict states for each kernel which classes of hazards are violated, proved, bounded by replays, or unknown, and
    --require fails unless they are proved or bounded; docs/verdicts.md describes both.

    --compile takes the arguments for nvcc from the nearest compile_commands.json, in the folder of a source, above it, or in
    build there, unless some follow '--'. Such a file may also be the PATH: it stands for the sources in it.

    A table ptxas-budget in the configuration has ptxas compile each module, and limits what it makes of the kernels:
    registers, spills, stack, shared memory, messages such as C7510; docs/configuration.md describes it.

    Exit code: 0 clean, 1 findings at or above --fail-on or a requirement that is not met, 2 usage error, an input that
    could not be analysed, a file that --fix could not write, or a comment that suppresses nothing. With --fix, only the
    remaining findings count; with --diff, it is 1 if anything would change. With --add-ignore it is 0 or 2, and with
    --watch that of an interrupted run.
    """
    output = Output(**{name: given.pop(name) for name in Output.__slots__})
    own = {name: given.pop(name) for name in Asked.__slots__ if name in given}
    asked = Asked(paths=paths or (os.curdir,), nvcc_arguments=ctx.meta[_NVCC], output=output, **own)
    asked.refuse_contradictions()
    if show_settings:
        from tclint.config import settings

        write(settings.show(resolve(configs, isolated, given)))
        return CLEAN

    def once() -> int:
        return _checked(asked, resolve(configs, isolated, given))

    if asked.watch:
        from tclint.commands._watch import observed, watch

        beside = () if asked.launch is None else (asked.launch,)
        watch(once, lambda: (*beside, *observed(asked.paths, asked.compile, configs, isolated, given)))
    return once()


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of a run that are not settings."""

    paths: tuple[str, ...]
    stdin_filename: str | None
    locate: Mode
    launch: str | None
    fix: bool
    unsafe_fixes: bool
    diff: bool
    add_ignore: bool
    timings: bool
    verbose: bool
    watch: bool
    compile: bool
    nvcc_arguments: tuple[str, ...]
    shard: tuple[int, int] | None
    since: str | None
    output: Output

    def refuse_contradictions(self) -> None:
        """Raises UsageError."""
        self.output.refuse_contradictions()
        given = {
            f"--{name.replace('_', '-')}"
            for options in (self, self.output)
            for name in options.__slots__
            if getattr(options, name) is not None and getattr(options, name) is not False
        }
        if self.unsafe_fixes and not (self.fix or self.diff):
            raise click.UsageError("--unsafe-fixes requires --fix or --diff.")
        if self.diff or self.add_ignore:
            self._refuse_ineffective()
        for first, second in _CONTRADICTIONS:
            if {first, second} <= given:
                raise click.UsageError(f"{first} cannot be combined with {second}.")
        if self.watch and STDIN in self.paths:
            raise click.UsageError("--watch needs files: standard input is read only once.")
        refuse_unused(self.stdin_filename, self.paths)
        if STDIN in self.paths and len(self.paths) > 1 and not self.diff and (self.fix or self.add_ignore):
            raise click.UsageError(
                f"With --{'fix' if self.fix else 'add-ignore'}, standard input must be the only path, since it is"
                " written to standard output."
            )

    def _refuse_ineffective(self) -> None:
        """Raises UsageError for an option about findings in a run that only shows or makes changes."""
        ineffective = {
            f"--output-format {self.output.output_format}": self.output.output_format != "text",
            "--output": bool(self.output.outputs),
            "--output-file": self.output.output_file is not None,
            "--statistics": self.output.statistics,
            "--max-findings": self.output.max_findings is not None,
            "--timings": self.timings,
        }
        reason = "--diff shows changes only" if self.diff else "--add-ignore shows no findings"
        for option, given in ineffective.items():
            if given:
                raise click.UsageError(f"{reason}, so {option} has no effect.")


def _checked(asked: Asked, resolved: Settings) -> int:
    """Checks once and writes the reports; returns the exit code."""
    from dataclasses import replace

    from tclint.commands._progress import shown_on
    from tclint.driver import inputs
    from tclint.driver.inputs import read
    from tclint.driver.pool import reports
    from tclint.report.fold import presented
    from tclint.report.summary import exit_code, unmet

    cached = resolved.config.cache and not (asked.timings or asked.launch)
    config = replace(resolved.config, launch=asked.launch, cache=cached)
    _refuse_unexecutable(config)
    search = _Search.of(asked, config)
    given = [path for path, _ in search.every] + [path for path in (asked.launch,) if path is not None]
    targets = asked.output.files([*given, *resolved.inputs])
    chosen = search.every if asked.shard is None else inputs.shard(search.every, *asked.shard)
    sources = (
        _compiled(chosen, asked, search.database, config) if asked.compile else read(chosen, config.max_bytes)
    )
    known = known_findings(config)
    config = gated(config, known)
    fixing = _fixing(asked, config, known)
    if fixing is not None:
        sources = fixing.fixed_inputs(sources, asked.stdin_filename or STDIN_NAME)
        if asked.diff or asked.add_ignore:
            return _show(fixing, sources, search.notes)
    notes: list[str] = []
    made = reports(sources, config, notes.append)
    checked = list(made if asked.output.quiet else shown_on(sys.stderr, made, len(chosen)))
    if asked.verbose:
        write_notes(notes)
    found = [item.report for item in checked]
    part = None
    if asked.shard is None:  # else the function may be in another part
        refuse_unmatched(config, found)
    elif fixing is None and asked.output.mergeable(targets):
        from tclint.driver.parts import Part, written

        names = tuple(name for _, name in search.every)
        out, whole = search.excluded, tuple(found)
        part = written(Part(*asked.shard, names, search.paths, asked.locate, out, config, whole))
    shown, summary = presented(found, config.selected, search.paths, known, config.arch)
    fixed, fixed_duplicates = fixing.counts() if fixing is not None else ({}, 0)
    summary = replace(
        summary,
        excluded=search.excluded,
        fixed=fixed,
        fixed_duplicates=fixed_duplicates,
        unmet=unmet(shown, config.require),
        notes=(*summary.notes, *search.notes),
    )
    write_reports(
        asked.output, asked.locate, config, targets, Made(shown, summary, fixing, part, asked.verbose)
    )
    if asked.timings:
        _write_timings(checked)
    code = exit_code(shown, config.failing, summary.unmet)
    return FAILURE if fixing is not None and fixing.unwritten else code


@dataclass(frozen=True, slots=True)
class _Search:
    """The files of a run."""

    every: list[tuple[str, str]]
    """Path and name of each."""
    paths: tuple[str, ...]
    """The files and folders in which they are all that there is."""
    excluded: int
    """Files and folders that the configuration left out."""
    notes: tuple[str, ...]
    """What to say of folders that have nothing to check, and of files that were left out."""
    database: str | None
    """The ``compile_commands.json`` that was named."""

    @classmethod
    def of(cls, asked: Asked, config: Config) -> _Search:
        """The files that *asked* names. Raises ClickException."""
        from tclint.driver.inputs import Exclusions, files

        exclusions = Exclusions(config, asked.compile)
        paths, database = _sources(asked.paths) if asked.compile else (asked.paths, None)
        every = files(paths, asked.stdin_filename or STDIN_NAME, exclusions)
        _refuse_nothing(asked, config, exclusions, every)
        notes = exclusions.warnings
        if asked.since is not None:
            found, every = every, _changed(every, asked.since, config.max_bytes)
            paths = tuple(path for path, _ in every)
            notes += (f"note: {len(found) - len(every)} of {len(found)} files are as in {asked.since}",)
        return cls(every, paths, len(exclusions.paths), notes, database)


def _sources(paths: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """*paths*, a ``compile_commands.json`` replaced by the sources that nvcc compiles there; that file. Raises
    ClickException."""
    from tclint.driver.compile_commands import NAME, calls
    from tclint.syntax.source import SourceError

    named = [path for path in paths if os.path.basename(path) == NAME]
    if not named:
        return paths, None
    if len(named) > 1:
        raise usage(f"two files describe the compilation: {named[0]} and {named[1]}")
    try:
        found = [os.path.relpath(source) for source in calls(named[0]) if os.path.isfile(source)]
    except SourceError as error:
        raise click.ClickException(f"{named[0]} {error}") from None
    if not found:
        raise click.ClickException(f"{named[0]} has no source that there is and that nvcc compiles")
    return (*(path for path in paths if path != named[0]), *sorted(found)), named[0]


def _changed(every: Sequence[tuple[str, str]], ref: str, limit: int) -> list[tuple[str, str]]:
    from tclint.driver.since import SinceError, changed

    try:
        return changed(every, ref, limit)
    except SinceError as error:
        raise usage(f"--since: {error}") from None


def _refuse_nothing(
    asked: Asked, config: Config, exclusions: Exclusions, every: Sequence[tuple[str, str]]
) -> None:
    """Raises ClickException if what the settings ask of the inputs would hold because there are none; strings are no kernels.

    A file that force-exclude leaves out was looked at.
    """
    from tclint.inline.hosts import is_host

    kernels = [path for path, _ in every if asked.compile or not is_host(path)]
    guards = {
        "require": config.require and not kernels,
        "ptxas-budget": config.ptxas_budget is not None and not kernels,
        "baseline": config.baseline is not None and not every,
    }
    hollow = [key for key, holds in guards.items() if holds]
    if hollow and not all(map(os.path.isfile, asked.paths)):
        raise click.ClickException(
            "\n".join((f"there is nothing to check, so {hollow[0]} decides nothing", *exclusions.warnings))
        )


def _write_timings(checked: Sequence[Checked]) -> None:
    from tclint.driver.one import debug
    from tclint.report.summary import gave_up_of, timings_of

    write(timings_of(item.seconds for item in checked), sys.stderr)
    write(gave_up_of([item.report for item in checked], each=debug()), sys.stderr)


def _compiled(
    chosen: list[tuple[str, str]], asked: Asked, database: str | None, config: Config
) -> Iterator[Input]:
    """The inputs of a run with --compile. Raises ClickException if there is no nvcc."""
    from tclint.driver.compiling import MISSING, compiled, find_nvcc

    if (nvcc := find_nvcc()) is None:
        raise click.ClickException(f"--compile needs nvcc, but {MISSING}")
    return compiled(chosen, nvcc, asked.nvcc_arguments, config.max_bytes, database)


def _fixing(asked: Asked, config: Config, known: Baseline | None) -> Fixing | None:
    """What changes the inputs, if anything was asked for that does."""
    if asked.add_ignore:
        from tclint.driver.fixing import Fixing
        from tclint.driver.suppressing import add_ignores

        return Fixing(config, asked.unsafe_fixes, asked.diff, known, add_ignores, "suppress")
    if asked.fix or asked.diff:
        from tclint.driver.fixing import Fixing

        return Fixing(config, asked.unsafe_fixes, asked.diff, known)
    return None


def _shard(text: str | None) -> tuple[int, int] | None:
    """What ``--shard`` says. Raises BadParameter."""
    if text is None:
        return None
    number, slash, shards = text.partition("/")
    numbers = slash and all(part.isdecimal() and len(part) < 7 for part in (number, shards))
    if numbers and 1 <= int(number) <= int(shards):
        return int(number), int(shards)
    raise click.BadParameter(f"'{text}' is not of the form I/N with I from 1 to N, such as 1/4.")


def _show(fixing: Fixing, sources: Iterable[Input], warnings: Sequence[str]) -> int:
    """Writes what --diff or --add-ignore did: diffs to standard output, everything else to standard error, *warnings* first;
    returns the exit code."""
    from tclint.report.summary import count

    for _ in sources:
        pass
    refuse_unmatched(fixing.config, fixing.after)
    write("".join(fixing.diffs).encode("utf-8", "surrogateescape"))
    if fixing.stdin is not None:
        write(fixing.stdin)
    fixing.notes = [*warnings, *fixing.problems, *fixing.notes]
    if fixing.diffs or not fixing.diff:
        fixed, duplicates = fixing.counts()
        merged = f", and {count(duplicates, 'duplicate')}" if duplicates else ""
        done = f"Would {fixing.verb}" if fixing.diff else f"{fixing.verb.capitalize()}ed"
        fixing.notes.append(f"{done} {count(sum(fixed.values()), 'finding')}{merged}.")
    write_notes(fixing.notes)
    return FAILURE if fixing.problems or fixing.unwritten else FINDINGS if fixing.diffs else CLEAN


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
