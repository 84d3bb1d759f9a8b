"""tclint for programs: :func:`check` takes PTX and says what is wrong with it.

What ``tclint`` exports is stable: ``tclint.check(ptx)``. docs/api.md describes it; everything else in tclint may change from
one version to the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from tclint.config.config import Config
from tclint.config.settings import Layer, SettingsError, named, resolve
from tclint.driver.one import Input
from tclint.driver.pool import reports
from tclint.findings.finding import FileReport, Finding
from tclint.findings.places import region
from tclint.report import baseline
from tclint.report.fold import presented
from tclint.report.locate import MODES, Locator, Mode
from tclint.report.summary import Context, Summary, exit_code
from tclint.syntax.source import Position, Problem, Source, SourceError

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Options", "Report", "SettingsError", "check", "check_paths"]


class Options(TypedDict, total=False):
    """The settings of a run, as docs/configuration.md describes them; values are those of a configuration file."""

    select: Iterable[str]
    extend_select: Iterable[str]
    ignore: Iterable[str]
    fail_on: str
    exit_zero: bool
    min_severity: str
    min_confidence: str
    pedantic: bool
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
    confirm: bool
    confirm_seconds: int


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in some inputs; ``str()`` of it is what ``tclint check`` prints."""

    files: tuple[FileReport, ...]
    """A report for each module, with the findings that are to be shown and those that a comment suppresses."""
    summary: Summary
    """The numbers, those of what is hidden among them."""
    config: Config

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings that are shown, in the order of the files and of their lines."""
        return tuple(f for report in self.files for f in report.findings if f.suppressed is None)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why some of it could not be analysed; empty when all of it was."""
        return tuple(problem for report in self.files for problem in report.problems)

    @property
    def exit_code(self) -> int:
        """That of ``tclint check``: 0 clean, 1 findings at or above ``fail_on``, 2 not analysed, or not all of it."""
        return exit_code(self.files, self.config.failing)

    @property
    def ok(self) -> bool:
        """Whether all of it was analysed and nothing in it fails a run."""
        return self.exit_code == 0

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __str__(self) -> str:
        return self.render()

    def position(self, finding: Finding) -> tuple[str, Position]:
        """The path of the input and the line and column, from 1, where a finding of this report starts.

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

        Raises ValueError for a format or a place that there is not.
        """
        from tclint.report.formats import formats, renderer

        if output_format not in formats():
            raise ValueError(f"there is no output format {output_format}: {', '.join(formats())}")
        if locate not in MODES:
            raise ValueError(f"locate is {locate}, which is none of {', '.join(MODES)}")
        context = Context(
            self.summary,
            color=color,
            width=width,
            locate=Locator.of(locate, self.files),
            fail_on=self.config.failing,
            rules=self.config.rules,
            baseline=self.config.baseline is not None,
        )
        return renderer(output_format)(self.files, context)


def check(
    source: Source | str | bytes | os.PathLike[str],
    *,
    name: str = "<string>",
    config: str | os.PathLike[str] | None = None,
    **options: Unpack[Options],
) -> Report:
    """Lint PTX text, or what a path names.

    A path, or a string without a line feed, is that of a file or folder, as for :func:`check_paths`. Bytes and any
    other string are PTX, shown as *name*. *config* is a configuration file to use; none is looked for. An input that
    cannot be read or is not PTX makes a report with a problem. Raises SettingsError for settings that are not as they
    must be.
    """
    return lint(source, configured(config, options), name)


def check_paths(
    paths: Iterable[str | os.PathLike[str]],
    *,
    config: str | os.PathLike[str] | None = None,
    **options: Unpack[Options],
) -> Report:
    """Lint files, folders and patterns, as ``tclint check PATH...`` does. Raises SettingsError as :func:`check` does."""
    return lint_paths(paths, configured(config, options))


# ---------------------------------------------------------------- for the rest of tclint


def lint(source: Source | str | bytes | os.PathLike[str], config: Config, name: str = "<string>") -> Report:
    """:func:`check` with settings that are resolved already."""
    if isinstance(source, os.PathLike) or (isinstance(source, str) and "\n" not in source):
        return lint_paths([source], config)
    if isinstance(source, Source):
        return _report([(source.path, source)], config)
    data = source.encode(errors="surrogateescape") if isinstance(source, str) else source
    try:
        return _report([(name, Source.from_bytes(data, name))], config)
    except SourceError as error:
        return _report([(name, error)], config)


def lint_paths(paths: Iterable[str | os.PathLike[str]], config: Config) -> Report:
    """:func:`check_paths` with settings that are resolved already."""
    from tclint.driver.inputs import LeftOut, inputs

    left_out = LeftOut(config)
    names = [os.fspath(path) for path in paths]
    report = _report(inputs(names, "<stdin>", left_out), config, names)
    return replace(report, summary=replace(report.summary, excluded=len(left_out.paths)))


def configured(
    file: str | os.PathLike[str] | None, options: Mapping[str, object], before: Iterable[Layer] = ()
) -> Config:
    """The settings of a call: what *before* says, then the *file*, then the *options*. Raises SettingsError."""
    layers = list(before)
    if file is not None:
        layers.append(named(Path(file)))
    values = {key.replace("_", "-"): _as_in_a_file(value) for key, value in options.items()}
    config = resolve([*layers, Layer("the call", values, Path.cwd())]).config
    if config.confirm and find_spec("numpy") is None:
        raise SettingsError("confirm executes kernels, which needs numpy: pip install 'tclint-ptx[run]'")
    return config


def _as_in_a_file(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _as_in_a_file(item) for key, item in value.items()}
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else value


def _report(inputs: Iterable[Input], config: Config, paths: Iterable[str] = ()) -> Report:
    known = baseline.of(config)
    files, summary = presented([item.report for item in reports(inputs, config)], config, paths, known)
    return Report(tuple(files), summary, config)
