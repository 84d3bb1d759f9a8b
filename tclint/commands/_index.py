"""``tclint show FOLDER``: a page for each kernel below a folder, and an index of them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import click

from tclint._named_tuple import NamedTuple
from tclint._write import OutputError, refuse
from tclint._write import write as write_files
from tclint.commands import CLEAN, FAILURE
from tclint.commands._common import STDIN_NAME, at, usage, write
from tclint.commands._reports import gated, refuse_unmatched
from tclint.config.config import Config
from tclint.driver.inputs import Exclusions, files, nothing_in, read
from tclint.driver.one import debug, internal_error
from tclint.driver.pool import reports
from tclint.findings.finding import FileReport
from tclint.findings.places import displayed_name
from tclint.inline.hosts import is_host
from tclint.ir.frontend import analyse
from tclint.ir.nodes import Function, Module
from tclint.report.fold import presented
from tclint.report.formats._style import printable
from tclint.report.summary import count
from tclint.show.index import Row, render, row
from tclint.show.kernel import kernel
from tclint.show.page import render as render_page
from tclint.syntax.source import Source, SourceError

__all__ = ["show_folder"]

INDEX = "index.html"
_OURS = b'<meta name="generator" content="tclint show">'
_HEAD = 4096
"""The bytes of a page in which that is."""
_NAME = 40
"""Characters of a kernel's name in that of its page."""


class _Asked(NamedTuple):
    folder: str
    output: Path
    sources: Path | None
    config: Config
    inputs: Sequence[str]
    """The files that must not be overwritten."""


def show_folder(
    folder: str, output: str | None, sources: Path | None, config: Config, inputs: Sequence[str]
) -> int:
    """Writes the pages, with verdicts, and the index to the folder *output*; returns the exit code.

    Files are written only where there are none, or over pages of tclint; *inputs* are files that the settings name. Lines of
    CUDA or Python are read from the folder *sources* alone. Raises ClickException.
    """
    name = os.path.basename(os.path.abspath(folder)) or "kernels"
    config = gated(replace(config, verdict=True))
    every = [each for each in files((folder,), STDIN_NAME, Exclusions(config)) if not is_host(each[0])]
    if not every:
        raise usage(nothing_in(folder))
    target = Path(output or f"{name}.tclint")
    asked = _Asked(folder, target, sources, config, (*inputs, *(path for path, _ in every)))
    _refuse(asked, target / INDEX)
    found = [item.report for item in reports(read(every, config.max_bytes), config)]
    refuse_unmatched(config, found)
    shown, _ = presented(found, config.selected, (folder,), arch=config.arch)
    rows, problems = list[Row](), list[str]()
    for (path, source), report in zip(read(every, config.max_bytes), shown, strict=True):
        problems += (at(displayed_name(report), SourceError(p.message, p.line)) for p in report.problems)
        if isinstance(source, Source) and report.status != "failed":
            rows += _pages(asked, replace(report, source=source), source, problems)
        elif not report.problems:
            problems.append(f"{path}: not analysed")
    _write(asked, target / INDEX, render(name, rows, problems))
    write(f"{printable(str(target / INDEX))}: {count(len(rows), 'kernel')}\n", sys.stderr)
    for problem in problems:
        write(f"error: {printable(problem)}\n", sys.stderr)
    return FAILURE if problems else CLEAN


def _pages(asked: _Asked, report: FileReport, source: Source, problems: list[str]) -> Iterator[Row]:
    """Writes the page of each kernel of a module: the rows of the index. What goes wrong is added to *problems*."""
    module, _ = analyse(source)
    for function in module.bodies:
        if not function.entry or not asked.config.selected.wants(function.name):
            continue
        try:
            text = _page(asked, module, function, report, source)
        except Exception as error:
            if debug():
                raise
            problems.append(f"{displayed_name(report)}: {function.name}: {internal_error(error)}")
            continue
        name = _file(report, function)
        _write(asked, asked.output / name, text)
        yield row(report, function, module.targets, name)


def _page(asked: _Asked, module: Module, function: Function, report: FileReport, source: Source) -> str:
    config = asked.config
    return render_page(
        kernel(source, module, function, report, toolkit=config.toolkit, sources=asked.sources), INDEX
    )


def _file(report: FileReport, function: Function) -> str:
    """The name of the file of a page, which a later run gives to the same kernel again."""
    words = re.sub(r"[^A-Za-z0-9_.]+", "-", function.name)[:_NAME].strip("-.")
    number = crc32(f"{displayed_name(report)}\0{function.name}".encode("utf-8", "surrogateescape"))
    return f"{words or 'kernel'}-{number:08x}.html"


def _refuse(asked: _Asked, path: Path) -> None:
    """Raises ClickException if a page must not be written to *path*: it is an input, or a file that is not a page of tclint."""
    try:
        os.makedirs(asked.output, exist_ok=True)
        if path.is_symlink():
            raise OutputError(f"{path} is a symbolic link: it is not overwritten")
        refuse((str(path),), asked.inputs)
        if path.exists():
            with path.open("rb") as file:
                if _OURS not in file.read(_HEAD):
                    raise OutputError(
                        f"{path} exists and is not a page of tclint show: it is not overwritten"
                    )
    except OutputError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from None


def _write(asked: _Asked, path: Path, text: str) -> None:
    _refuse(asked, path)
    try:
        write_files({str(path): text})
    except OutputError as error:
        raise click.ClickException(str(error)) from None
