"""``tclint check``: lint."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tclint.commands import CLEAN
from tclint.commands._common import (
    STDIN_NAME,
    Choice,
    color_option,
    need_numpy,
    refuse_unused,
    stdin_filename_option,
    usage,
    use_color,
    use_links,
    width,
    write,
)
from tclint.commands._settings import SettingsCommand, resolve
from tclint.output import formats

if TYPE_CHECKING:
    from tclint.baseline import Baseline
    from tclint.config import Config
    from tclint.finding import FileReport
    from tclint.locate import Mode


@click.command(cls=SettingsCommand)
@click.argument("paths", nargs=-1, metavar="PATH...")
@stdin_filename_option
@click.option(
    "--output-format",
    type=Choice(formats()),
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
    type=Choice(("auto", "ptx", "source")),
    default="auto",
    show_default=True,
    help="Where findings point: to the PTX or to the line of CUDA or Python that it was made from. "
    "auto: to the PTX where git tracks it.",
)
@click.option(
    "--launch",
    metavar="FILE",
    help="How --confirm launches the kernel; by default KERNEL.launch.toml beside it, or else a launch is assumed.",
)
@color_option
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead of showing them.")
@click.option("--timings", is_flag=True, help="Say on standard error what the time was spent on.")
@click.option("--show-settings", is_flag=True, help="Show the settings and where each comes from, and stop.")
def command(
    paths: tuple[str, ...],
    stdin_filename: str | None,
    output_format: str,
    outputs: tuple[str, ...],
    locate: Mode,
    launch: str | None,
    color: str,
    statistics: bool,
    timings: bool,
    configs: tuple[str, ...],
    isolated: bool,
    show_settings: bool,
    **options: Any,
) -> int:
    """Lint PTX files.

    A PATH is a file, a folder (all *.ptx, *.ptx.gz and *.ptx.zst below it), a pattern such as 'out/**/*.ptx', or - for
    standard input. A fatbin, cubin, object, library or executable is opened with NVIDIA's cuobjdump.

    RULES are ids, names, families, beginnings of ids, or ALL, separated by commas.

    Exit code: 0 clean, 1 findings at or above --fail-on, 2 usage error, an input that could not be analysed, or a
    comment that suppresses nothing.
    """
    from dataclasses import replace

    from tclint import settings
    from tclint.fold import fold
    from tclint.inputs import LeftOut, inputs
    from tclint.locate import Locator
    from tclint.output import renderer
    from tclint.output._files import OutputError, parse, refuse_inputs
    from tclint.output._files import write as write_files
    from tclint.pool import reports
    from tclint.progress import shown_on
    from tclint.report import Context, exit_code, present, statistics_of, timings_of

    if statistics and output_format not in ("text", "concise"):
        raise click.UsageError(f"--statistics is text; {output_format} has these numbers in its summary.")
    resolved = resolve(configs, isolated, options)
    config = replace(resolved.config, launch=launch)
    if show_settings:
        write(settings.show(resolved))
        return CLEAN
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    refuse_unused(stdin_filename, paths)
    _refuse_unconfirmable(config)
    try:
        files = parse(outputs)
    except OutputError as error:
        raise usage(f"--output: {error}") from None
    left_out = LeftOut(config)
    sources = inputs(paths, stdin_filename or STDIN_NAME, left_out)
    known = _baseline(config)
    checked = list(shown_on(sys.stderr, reports(sources, config)))
    _refuse_unmatched(config, [item.report for item in checked])
    found, known = known.compared([item.report for item in checked], config, paths)
    shown, summary = fold(*present(found, config, known.gone))
    summary = replace(summary, excluded=len(left_out.paths))
    context = Context(
        summary,
        locate=Locator.of(locate, shown),
        fail_on=config.failing,
        rules=config.rules,
        baseline=config.baseline is not None,
    )
    try:
        refuse_inputs(files, [report.path for report in shown])
        write_files({path: renderer(name)(shown, context) for path, name in files.items()})
    except OutputError as error:
        raise click.ClickException(str(error)) from None
    terminal = replace(context, color=use_color(color), width=width(), links=use_links())
    write(statistics_of(shown, summary) if statistics else renderer(output_format)(shown, terminal))
    if timings:
        write(timings_of(item.seconds for item in checked), sys.stderr)
    return exit_code(shown, config.failing)


def _refuse_unmatched(config: Config, reports: Iterable[FileReport]) -> None:
    """That nothing is called as ``--entry`` says must not look clean."""
    from tclint.rules import nearest
    from tclint.select import wants_entry

    names = {name: None for report in reports for name in report.entries}
    if names and not any(wants_entry(config, name) for name in names):
        patterns = ", ".join(config.entry)
        raise usage(f"no function is called {patterns}{nearest(config.entry[0], names)}")


def _baseline(config: Config) -> Baseline:
    from tclint import baseline
    from tclint.settings import SettingsError

    try:
        return baseline.of(config)
    except SettingsError as error:
        raise usage(error) from None


def _refuse_unconfirmable(config: Config) -> None:
    if config.launch and not config.confirm:
        raise click.UsageError("--launch needs --confirm.")
    if config.confirm:
        need_numpy()
        from tclint.executor.launch import LaunchError, read

        try:
            if config.launch:
                read(config.launch)
        except (LaunchError, OSError) as error:
            raise usage(error) from None
