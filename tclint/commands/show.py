"""``tclint show``: a kernel as an HTML page."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tclint.commands import CLEAN, FAILURE
from tclint.commands._common import (
    STDIN,
    STDIN_NAME,
    at,
    need_numpy,
    no_function,
    refuse_unused,
    stdin_filename_option,
    usage,
    write,
)
from tclint.commands._settings import SettingsCommand, resolve

if TYPE_CHECKING:
    from tclint.config.config import Config
    from tclint.config.settings import Settings
    from tclint.findings.finding import FileReport
    from tclint.ir.nodes import Function
    from tclint.syntax.source import Source


@click.command(
    cls=SettingsCommand,
    unused=(
        *("fail_on", "exit_zero", "exclude", "force_exclude", "include", "arch", "baseline", "jobs", "cache"),
        *("require", "accept_ptxas_change"),
    ),
)
@click.argument("path", metavar="KERNEL|FOLDER")
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="File to write, or - for standard output; for FOLDER, the folder to write to. Defaults to KERNEL.tclint.html or "
    "FOLDER.tclint in the current folder.",
)
@click.option(
    "--sources",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Show lines of CUDA or Python files below this folder. Without it, no file that the PTX names is opened.",
)
@stdin_filename_option
def command(
    path: str,
    output: str | None,
    sources: Path | None,
    stdin_filename: str | None,
    configs: tuple[str, ...],
    isolated: bool,
    **options: Any,
) -> int:
    """Draw a kernel, or those of a folder, as HTML pages.

    The page shows the control flow with the threads that execute each block, the operations that may be in flight at
    each instruction, the barriers, and the findings with their paths. It needs only a browser, and loads nothing. KERNEL is a PATH as for
    check; if it contains several kernels, select one with --entry. For FOLDER, each kernel has a page, and index.html lists
    them with their findings, verdicts and costs, those with the gravest findings first.

    Exit code: 0 written, 2 usage error, or a kernel that could not be fully analysed.
    """
    refuse_unused(stdin_filename, (path,))
    resolved = resolve(configs, isolated, options)
    config = resolved.config
    if config.executes:
        need_numpy()
    if not os.path.isdir(path):
        return _show_kernel(path, output, sources, stdin_filename or STDIN_NAME, resolved)
    from tclint.commands._index import show_folder

    if output == STDIN:
        raise usage("--output must be a folder if KERNEL is one")
    return show_folder(path, output, sources, config, resolved.inputs)


def _show_kernel(
    path: str, output: str | None, sources: Path | None, stdin_name: str, resolved: Settings
) -> int:
    """Writes the page of the kernel that is chosen of a file; returns the exit code. Raises ClickException."""
    from tclint._write import OutputError, refuse
    from tclint.driver.pool import check
    from tclint.inspect.tables import short_name
    from tclint.ir.frontend import analyse
    from tclint.report.fold import presented
    from tclint.report.formats._style import printable
    from tclint.show.kernel import kernel, source_file
    from tclint.show.page import render
    from tclint.syntax.source import SourceError

    config = resolved.config
    target = output or _default(stdin_name if path == STDIN else path)
    try:
        if target != STDIN:
            refuse((target,), (path, *resolved.inputs))
    except OutputError as error:
        raise usage(f"--output: {error}") from None
    shown_as, source = _only_module(path, stdin_name, config)
    report = check((shown_as, source), config).report
    reports, _ = presented([report], config.selected, arch=config.arch)
    module, _ = analyse(source)
    if report.status == "failed":
        raise click.ClickException(
            "; ".join(at(shown_as, SourceError(p.message, p.line)) for p in report.problems)
        )
    function = _chosen(module.bodies, reports[0], config)
    drawn = kernel(source, module, function, reports[0], toolkit=config.toolkit, sources=sources)
    text = render(drawn)
    if target == STDIN:
        write(text)
    else:
        quoted = [source_file(name, sources) for name in drawn["sources"]] if sources is not None else []
        _write_page(target, text, quoted)
        write(f"{printable(target)}: {printable(short_name(function.name))}\n", sys.stderr)
    for problem in report.problems:
        write(f"error: {printable(at(shown_as, SourceError(problem.message, problem.line)))}\n", sys.stderr)
    return FAILURE if report.problems else CLEAN


def _only_module(path: str, stdin_name: str, config: Config) -> tuple[str, Source]:
    """The name and the text of the module that an input has. Raises ClickException for any other number of them."""
    from tclint.driver.inputs import inputs
    from tclint.syntax.source import SourceError

    found = list(inputs((path,), stdin_name, limit=config.max_bytes))
    if len(found) != 1:
        raise usage(
            f"{path} has {len(found)} modules, but show draws one kernel: name the file that contains it"
        )
    shown_as, source = found[0]
    if isinstance(source, SourceError):
        raise click.ClickException(at(shown_as, source))
    return shown_as, source


def _write_page(target: str, text: str, quoted: Sequence[Path | None]) -> None:
    """Writes the page, which must not replace one of the files that it quotes. Raises ClickException."""
    from tclint._write import OutputError, refuse
    from tclint._write import write as write_files

    try:
        refuse((target,), map(str, quoted))
        write_files({target: text})
    except OutputError as error:
        raise click.ClickException(str(error)) from None


def _default(path: str) -> str:
    name = Path(path).name.removesuffix(".gz").removesuffix(".zst").removesuffix(".ptx")
    return f"{name.strip('<>') or 'kernel'}.tclint.html"


def _chosen(bodies: list[Function], report: FileReport, config: Config) -> Function:
    """The only function that matches ``entry``; without it, the only kernel, or the only kernel with findings.

    If there are several candidates, the only one with findings. Raises ClickException if none can be chosen.
    """
    from tclint.report.summary import count

    if not bodies:
        raise click.ClickException(f"{report.path}: contains no function with a body")
    if config.entry:
        wanted = [f for f in bodies if config.selected.wants(f.name)]
        if not wanted:
            raise no_function(config.entry, [f.name for f in bodies])
    else:
        wanted = [f for f in bodies if f.entry] or bodies
    if len(wanted) == 1:
        return wanted[0]
    times = {f.name: sum(x.entry == f.name and x.suppressed is None for x in report.findings) for f in wanted}
    found = [f for f in wanted if times[f.name]]
    if len(found) == 1:
        return found[0]
    names = "".join(f"\n  {name}" + (f" ({count(n, 'finding')})" if n else "") for name, n in times.items())
    raise click.UsageError(f"{report.path} has {len(wanted)} kernels; choose one with --entry:{names}")
