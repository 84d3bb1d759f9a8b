"""``tclint nvcc``: runs nvcc and lints the PTX that it makes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click

from tclint.commands import CLEAN
from tclint.commands._common import Choice, color_option, need_numpy, use_color, width, write
from tclint.commands._settings import resolve
from tclint.commands.ptxas import DropIn
from tclint.report.formats import formats

if TYPE_CHECKING:
    from tclint.driver.one import Input

_NAME = "nvcc"
"""The container in which the modules are shown."""
_SIGNALLED = 128
"""What a shell adds to the number of the signal that ended a program."""


@click.command(
    cls=DropIn,
    unused=("include", "exclude", "force_exclude", "arch", "accept_ptxas_change"),
    options_metavar="[OPTIONS --]",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="NVCC_ARGUMENTS...")
@click.option("--refuse", is_flag=True, help="If nvcc succeeds, exit with 1 or 2 where tclint check would.")
@click.option(
    "--output-format",
    type=Choice(formats()),
    default="text",
    show_default=True,
    help="Format of the findings on standard error.",
)
@color_option
def command(
    arguments: tuple[str, ...],
    refuse: bool,
    output_format: str,
    color: str,
    configs: tuple[str, ...],
    isolated: bool,
    **options: Any,
) -> int:
    """Compile with nvcc, and lint the PTX that it makes.

    nvcc runs with the same arguments, with -lineinfo, so that findings name the lines of the source, and with --keep in
    a folder of its own, unless --keep-dir names one. The findings follow its output on standard error. A call that makes
    no PTX, such as one that links, is left as it is. The nvcc is that of TCLINT_NVCC, or the first one on PATH, in a
    toolkit or in a Python package.

    tclint's own options come first and end with '--'. Without '--', all arguments belong to nvcc.

    Exit code: that of nvcc. With --refuse, 1 or 2 as from tclint check if nvcc succeeds; what it made is kept. 2 also if
    no nvcc is found.
    """
    from dataclasses import replace

    from tclint.api import report_on
    from tclint.driver.compiling import MISSING, find_nvcc, kept
    from tclint.syntax.source import SourceError

    config = replace(resolve(configs, isolated, options).config, ptxas_budget=None)
    if config.executes:
        need_numpy()
    if (nvcc := find_nvcc()) is None:
        raise click.ClickException(MISSING)
    with kept([nvcc, *arguments]) as run:
        try:
            code = subprocess.run(run.command, check=False).returncode
        except OSError as error:
            raise click.ClickException(f"cannot run {nvcc}: {error.strerror or error}") from None
        try:
            found = [_module(name, data) for name, data in run.modules(config.max_bytes)]
        except SourceError as error:
            raise click.ClickException(f"a module of nvcc {error}") from None
    code = _SIGNALLED - code if code < 0 else code
    if not found:
        return code
    report = report_on(found, config)
    if report.findings or report.problems or output_format != "text":
        text = report.render(output_format, color=use_color(color, sys.stderr), width=width())
        write(text, sys.stderr)
    return report.exit_code if refuse and code == CLEAN else code


def _module(name: str, data: bytes) -> Input:
    """A module that nvcc made, which is gone when the findings are read, so that no fix is offered for it."""
    from tclint.syntax.source import Source, SourceError

    try:
        return _NAME, Source.from_bytes(data, _NAME, name)
    except SourceError as error:
        return f"{_NAME}({name})", error
