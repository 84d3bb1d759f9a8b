"""``tclint ptxas``: a replacement for ptxas that lints its inputs while it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from tclint._named_tuple import NamedTuple
from tclint.commands import CLEAN, FAILURE
from tclint.commands._common import color_option, need_numpy, usage, use_color
from tclint.commands._settings import SettingsCommand, resolve

if TYPE_CHECKING:
    from tclint.api import Report
    from tclint.commands._ptxas import Given, Started
    from tclint.config.config import Config

_HELP = ("--help", "-h")
_END = "--"
"""Ends tclint's own options. It is not an argument of ptxas or nvcc."""


class DropIn(SettingsCommand):
    """All arguments belong to the program that is replaced, except those before ``--``, if present, and a lone ``--help``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if len(args) == 1 and args[0] in _HELP:
            return super().parse_args(ctx, args)
        end = args.index(_END) if _END in args else 0
        ctx.meta[_END] = end > 0
        return super().parse_args(ctx, [*args[:end], _END, *args[end + (_END in args) :]])


@click.command(
    cls=DropIn, unused=("include", "arch", "jobs", "accept_ptxas_change"), options_metavar="[OPTIONS --]"
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="PTXAS_ARGUMENTS...")
@click.option(
    "--refuse",
    is_flag=True,
    envvar="TCLINT_PTXAS_REFUSE",
    show_envvar=True,
    help="Do not compile if tclint check would fail.",
)
@click.option(
    "--output-format",
    envvar="TCLINT_PTXAS_FORMAT",
    show_envvar=True,
    default="text",
    show_default=True,
    help="Format of the findings, as for tclint check.",
)
@click.option(
    "--log",
    metavar="FILE",
    envvar="TCLINT_PTXAS_LOG",
    show_envvar=True,
    help="Also append the findings to a file, for compilers that hide the output of ptxas.",
)
@click.option(
    "--reports",
    metavar="FOLDER",
    envvar="TCLINT_PTXAS_REPORTS",
    show_envvar=True,
    help="Write a SARIF report for every compiled module to this folder.",
)
@color_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    arguments: tuple[str, ...],
    refuse: bool,
    output_format: str,
    log: str | None,
    reports: str | None,
    color: str,
    configs: tuple[str, ...],
    isolated: bool,
    **options: Any,
) -> int:
    """Lint the inputs of ptxas while it runs.

    The real ptxas gets the same arguments; its output and exit status are passed on. Once it has ended, findings are
    written to standard error. TCLINT_PTXAS gives its path; by default it is the first ptxas on PATH or in a toolkit.

    tclint's own options come first and end with '--'. Without '--', all arguments belong to ptxas, and tclint's options
    come from the environment and from the configuration file, which TCLINT_PTXAS_CONFIG can set. The program
    tclint-ptxas is the same without options of its own.

    Exit code: that of ptxas. With --refuse, 1 or 2 as from tclint check, without running ptxas. 2 also if no ptxas is
    found.
    """
    from tclint.commands._ptxas import TRIED, PtxasMissing, execute, find, given

    try:
        ptxas = find()
    except PtxasMissing as error:
        raise click.ClickException(str(error)) from None
    asked, code, beside = given(arguments), CLEAN, _Beside()
    # With TRIED set, this was called by a program that it started itself, and has linted already.
    if asked and TRIED not in os.environ:
        with beside.linting(refuse or ctx.meta[_END]):
            piped = _standard_input() if asked.standard_input else b""
            if not refuse:
                beside.start(
                    ptxas, arguments
                )  # before the settings, whose imports take a fifth of a short run
            if not (configs or isolated) and (named := os.environ.get("TCLINT_PTXAS_CONFIG")):
                configs = (named,)
            settings = resolve(configs, isolated, options)
            shown = _output(output_format, log, reports, use_color(color, sys.stderr))
            modules = list(_modules(asked, piped, settings.config))
            inputs = [*asked.paths, *settings.inputs]
            code = _lint(ptxas, modules, inputs, settings.config, shown, beside.texts)
    if refuse and code:
        _say("ptxas was not run (--refuse)")
        return code
    if beside.running is not None:
        return beside.running.status()
    try:
        execute(ptxas, arguments)
    except OSError as error:
        raise click.ClickException(f"cannot run {ptxas}: {error.strerror or error}") from None


class _Beside:
    """The ptxas that runs while its inputs are linted, if it is started, and what is written once it has ended."""

    def __init__(self) -> None:
        self.running: Started | None = None
        self.texts: list[str] = []

    def start(self, ptxas: str, arguments: Sequence[str]) -> None:
        """Start *ptxas*, if it can be run."""
        from tclint._signals import signals_held
        from tclint.commands._ptxas import Started

        # What a handler raises, it raises when the process is noted, which is then ended.
        with suppress(OSError), signals_held() as before:
            self.running = Started(ptxas, arguments, before)

    @contextmanager
    def linting(self, strict: bool) -> Iterator[None]:
        """Lint in the ``with`` block. What fails there is a line of the texts, and if *strict* a ClickException."""
        try:
            yield
        except Exception as error:  # no failure of the linter is a reason not to compile
            if strict:
                if self.running is not None:
                    self.running.end()
                raise click.ClickException(_reason(error)) from error
            self.texts.append(_line(_reason(error)))
        except BaseException:
            if self.running is not None:
                self.running.end()
            raise
        finally:
            if self.running is not None:
                self.running.wait()
            with suppress(OSError, ValueError):
                print(*self.texts, sep="", end="", file=sys.stderr, flush=True)


class _Output(NamedTuple):
    """Where the findings go: to standard error in a format, and to a file and a folder of reports if there are any."""

    output_format: str
    log: str | None
    folder: str | None
    color: bool


def _output(output_format: str, log: str | None, folder: str | None, color: bool) -> _Output:
    """Raises click.UsageError for an unknown format."""
    from tclint.findings.rules import nearest
    from tclint.report.formats import formats

    if output_format not in formats():
        raise usage(f"unknown output format '{output_format}'{nearest(output_format, formats())}")
    return _Output(output_format, log, folder, color)


def _lint(
    ptxas: str,
    modules: Iterable[tuple[str, bytes | str]],
    inputs: Sequence[str],
    config: Config,
    output: _Output,
    texts: list[str],
) -> int:
    """Lints the *modules* of ptxas and adds the findings to *texts*. Returns the exit code of ``tclint check``."""
    from dataclasses import replace

    from tclint._write import append, refuse
    from tclint.api import lint
    from tclint.commands._ptxas import release

    output_format, log, folder, color = output
    config = replace(config, ptxas_budget=None)  # it would compile everything twice
    if config.executes:
        need_numpy()
    if config.toolkit is None:
        config = replace(config, toolkit=release(ptxas))
    refuse([log] if log else [], inputs)
    code = CLEAN
    for name, data in modules:
        if isinstance(data, str):
            texts.append(_line(f"{name} is not linted: {data}"))
            code = FAILURE
            continue
        report = lint(data, config, name)
        code = max(code, report.exit_code)
        if report.findings or report.problems:
            texts.append(report.render(output_format, color=color))
            if log:
                append(log, report.render(output_format))
        if folder:
            _collect(report, data, folder, inputs)
    return code


def _modules(asked: Given, piped: bytes, config: Config) -> Iterator[tuple[str, bytes | str]]:
    """The name of each module that ptxas will compile, with its text, or with the reason why it cannot be linted.

    *piped* is the content of standard input.
    """
    import errno

    from tclint._read import read_file
    from tclint.commands._ptxas import PIPED
    from tclint.driver.inputs import Exclusions
    from tclint.syntax.source import unreadable

    for text in asked.texts:
        yield "<argument>", text.encode(errors="surrogateescape")
    exclusions = Exclusions(config)
    for path in asked.paths:
        if exclusions.named(path):
            continue
        if path in PIPED:
            yield "<stdin>", piped
        elif os.path.isfile(path):
            try:
                yield path, read_file(path, config.max_bytes)
            except OSError as error:  # ptxas will report any other error
                if error.errno == errno.EFBIG:
                    yield path, str(unreadable(error))
        elif os.path.exists(path) and not os.path.isdir(path):
            yield path, "it can be read only once"


def _standard_input() -> bytes:
    """The content of standard input, which is replaced by a copy for ptxas to read."""
    from tempfile import TemporaryFile

    data = sys.stdin.buffer.read()
    with TemporaryFile() as copy:
        copy.write(data)
        copy.seek(0)
        os.dup2(copy.fileno(), 0)
    return data


def _collect(report: Report, data: bytes, folder: str, inputs: Sequence[str]) -> None:
    """Writes a report under a name derived from the module's text, so that compiling it twice makes one report."""
    from hashlib import sha256

    from tclint._write import refuse, write

    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{sha256(data).hexdigest()[:16]}.sarif")
    refuse([path], inputs)
    write({path: report.render("sarif")})


def _reason(error: Exception) -> str:
    from tclint._write import OutputError
    from tclint.driver.one import internal_error

    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the output'}: {error.strerror}"
    return str(error) if isinstance(error, OutputError) else internal_error(error)


def _say(text: str) -> None:
    with suppress(OSError, ValueError):
        print(_line(text), end="", file=sys.stderr)


def _line(text: str) -> str:
    from tclint.report.formats._style import printable

    return f"tclint: {printable(text)}\n"
