"""The Python API: :func:`check` lints PTX and returns a :class:`Report`.

What the package ``tclint`` exports, such as ``tclint.check(ptx)``, is stable and described in docs/api.md. Everything
else in tclint may change between versions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from tclint._dataclass import dataclass
from tclint._version import installs
from tclint.config.config import Config
from tclint.config.settings import Layer, named, resolve
from tclint.driver.one import Input
from tclint.driver.pool import ExecutorError, reports
from tclint.findings.finding import FileReport, Finding
from tclint.findings.places import region
from tclint.findings.selection import SettingsError
from tclint.report import baseline
from tclint.report.fold import presented
from tclint.report.locate import MODES, Locator, Mode
from tclint.report.summary import FormatContext, Summary, exit_code, unmet
from tclint.syntax.source import Position, Problem, Source, SourceError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from typing_extensions import Unpack

__all__ = ["ExecutorError", "Options", "Report", "SettingsError", "check", "check_many", "check_paths"]


class Options(TypedDict, total=False):
    """The settings of a run (docs/configuration.md), with the values that a configuration file would have."""

    select: Iterable[str]
    extend_select: Iterable[str]
    ignore: Iterable[str]
    fail_on: str
    exit_zero: bool
    min_severity: str
    min_confidence: str
    pedantic: bool
    strict: bool
    entry: Iterable[str]
    exclude: Iterable[str]
    force_exclude: bool
    toolkit: str
    arch: str
    include: Iterable[str]
    per_file_ignores: Mapping[str, Iterable[str]]
    per_entry_ignores: Mapping[str, Iterable[str]]
    baseline: str
    jobs: int
    max_input: int
    cache: bool
    confirm: bool
    confirm_steps: int
    execute: bool
    execute_steps: int
    verdict: bool
    require: Iterable[str]
    assume: Iterable[str]
    ptxas_budget: Mapping[str, object]
    accept_ptxas_change: bool


@dataclass(frozen=True, slots=True)
class Report:
    """The result for some inputs. ``str()`` of it is the output of ``tclint check``."""

    files: tuple[FileReport, ...]
    """A report for each module, with the findings that are shown and those that a comment suppresses.

    A module with a finding that was merged into one of another kernel has it too, with ``duplicate_of`` set.
    """
    summary: Summary
    """The counts, including those of hidden findings."""
    config: Config

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings that are shown, each defect once, ordered by file and line."""
        return tuple(
            finding
            for report in self.files
            for finding in report.findings
            if finding.suppressed is None and finding.duplicate_of is None
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why inputs or parts of them could not be analysed; empty if everything was."""
        return tuple(problem for report in self.files for problem in report.problems)

    @property
    def exit_code(self) -> int:
        """The exit code of ``tclint check``: 0 clean, 1 findings at or above ``fail_on`` or ``require`` not met, 2 not
        fully analysed.

        It is also 2 if a suppression comment is unused or malformed.
        """
        return exit_code(self.files, self.config.failing, self.summary.unmet)

    @property
    def ok(self) -> bool:
        """Whether everything was analysed and no finding fails the run."""
        return self.exit_code == 0

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __str__(self) -> str:
        return self.render()

    def position(self, finding: Finding) -> tuple[str, Position]:
        """The path of the input, and the 1-based line and column at which a finding of this report starts.

        Raises ValueError for a finding of another report.
        """
        for report in self.files:
            if any(finding is other for other in report.findings):
                return report.path, region(report, finding.span)[0]
        raise ValueError(f"{finding.rule.id}: not a finding of this report")

    def render(
        self, output_format: str = "text", *, locate: Mode = "auto", color: bool = False, width: int = 120
    ) -> str:
        """The report as ``tclint check`` writes it with ``--output-format`` and ``--locate``, *width* columns wide.

        Raises ValueError for an unknown *output_format* or *locate*.
        """
        from tclint.report.formats import formats, renderer

        if output_format not in formats():
            raise ValueError(f"unknown output format '{output_format}'; available: {', '.join(formats())}")
        if locate not in MODES:
            raise ValueError(f"invalid locate '{locate}'; must be one of {', '.join(MODES)}")
        context = FormatContext(
            self.summary,
            color=color,
            width=width,
            locate=Locator.of(locate, self.files),
            fail_on=self.config.failing,
            baseline=self.config.baseline is not None,
            notes=self.config.prints_notes,
        )
        return renderer(output_format)(self.files, context)


def check(
    source: Source | str | bytes | os.PathLike[str],
    *,
    name: str = "<string>",
    config: str | os.PathLike[str] | None = None,
    **options: Unpack[Options],
) -> Report:
    """Lints PTX text, or the files at a path.

    A path object, or a string without a line feed, names a file or folder, as for :func:`check_paths`. Bytes and any
    other string are PTX, shown as *name*. *config* is the configuration file to use; without it, none is searched for.
    An input that cannot be read or is not PTX results in a report with a problem. Unless the option *cache* is true,
    nothing is read from the results of earlier runs, and nothing is written. Raises SettingsError for invalid settings.
    """
    return lint(source, configured(config, {"cache": False, **options}), name)


def check_paths(
    paths: Iterable[str | os.PathLike[str]],
    *,
    config: str | os.PathLike[str] | None = None,
    **options: Unpack[Options],
) -> Report:
    """Lints files, folders and patterns like ``tclint check PATH...``, and otherwise like :func:`check`.

    A folder without anything to check is a problem of the report, and no warning.
    Raises SettingsError for invalid settings.
    """
    return lint_paths(paths, configured(config, {"cache": False, **options}))


def check_many(
    inputs: Iterable[str | os.PathLike[str] | tuple[str, str | bytes]],
    *,
    executor: Executor,
    config: str | os.PathLike[str] | None = None,
    **options: Unpack[Options],
) -> Report:
    """Lints many inputs by the workers of *executor*, which may be on other machines.

    An input is a path, as for :func:`check_paths`, or the pair of a name and PTX text. The texts are read on this machine and
    sent to the workers, which need the same tclint. The report is that of :func:`check_paths`, in the order of the inputs,
    whatever happens to a worker: an input whose worker dies is linted on this machine instead.

    Raises ExecutorError if the executor cannot be used, for instance because its workers lack tclint, and SettingsError for
    invalid settings.
    """
    settings = configured(config, {"cache": False, **options})
    paths: list[str] = []
    return report_on(_many(inputs, settings, paths), settings, paths, executor)


def _many(
    inputs: Iterable[str | os.PathLike[str] | tuple[str, str | bytes]], config: Config, paths: list[str]
) -> Iterator[Input]:
    """The texts of *inputs*, which are read as they are needed; those that are paths are added to *paths*."""
    from tclint.driver.inputs import Exclusions
    from tclint.driver.inputs import inputs as found

    exclusions = Exclusions(config)
    for one in inputs:
        if isinstance(one, tuple):
            yield _text(*one)
        else:
            paths.append(os.fspath(one))
            yield from found(paths[-1:], "<stdin>", exclusions, config.max_bytes)


def _text(name: str, text: str | bytes) -> Input:
    data = text.encode(errors="surrogateescape") if isinstance(text, str) else text
    try:
        return name, Source.from_bytes(data, name)
    except SourceError as error:
        return name, error


# ---------------------------------------------------------------- for the rest of tclint


def lint(source: Source | str | bytes | os.PathLike[str], config: Config, name: str = "<string>") -> Report:
    """:func:`check` with resolved settings."""
    if isinstance(source, os.PathLike) or (isinstance(source, str) and "\n" not in source):
        return lint_paths([source], config)
    if isinstance(source, Source):
        return report_on([(source.path, source)], config)
    return report_on([_text(name, source)], config)


def lint_paths(paths: Iterable[str | os.PathLike[str]], config: Config) -> Report:
    """:func:`check_paths` with resolved settings."""
    from tclint.driver.inputs import Exclusions, inputs

    exclusions = Exclusions(config)
    names = [os.fspath(path) for path in paths]
    report = report_on(inputs(names, "<stdin>", exclusions, config.max_bytes), config, names)
    return replace(report, summary=replace(report.summary, excluded=len(exclusions.paths)))


def configured(
    file: str | os.PathLike[str] | None, options: Mapping[str, object], before: Iterable[Layer] = ()
) -> Config:
    """The settings of a call: *options* override *file*, which overrides *before*. Raises SettingsError."""
    layers = list(before)
    if file is not None:
        layers.append(named(Path(file)))
    values = {key.replace("_", "-"): _as_in_a_file(value) for key, value in options.items()}
    config = resolve([*layers, Layer("the call", values, Path.cwd())]).config
    if config.executes and find_spec("numpy") is None:
        raise SettingsError(
            f"{'confirm' if config.confirm else 'execute'} executes kernels, which needs numpy: {installs('run')}"
        )
    return config


def _as_in_a_file(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _as_in_a_file(item) for key, item in value.items()}
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else value


def report_on(
    inputs: Iterable[Input], config: Config, paths: Iterable[str] = (), executor: Executor | None = None
) -> Report:
    known = baseline.of(config.baseline)
    if config.ptxas_budget is not None:
        from tclint.driver.assembling import gated

        config = gated(config, known.recorded())
    files, summary = presented(
        [item.report for item in reports(inputs, config, executor=executor)],
        config.selected,
        paths,
        known,
        config.arch,
    )
    summary = replace(summary, unmet=unmet(files, config.require))
    return Report(tuple(files), summary, config)
