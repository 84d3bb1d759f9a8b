"""The command line. Thin: it turns arguments into sources and a Config, and reports into text and an exit code.

Exit codes: 0 clean; 1 findings at or above ``--fail-on``; 2 a usage error, an input that could not be analysed or one
with a suppression that is wrong, whatever else was found; 130 interrupted. Modules that cost start-up time are imported where they are used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

import click

from tclint import __version__
from tclint.output import formats

if TYPE_CHECKING:
    from tclint.config import Config
    from tclint.finding import FileReport, Severity
    from tclint.locate import Mode
    from tclint.settings import Layer
    from tclint.source import SourceError

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


class _Commands(click.Group):
    """The commands; a file in the place of one gets what was meant suggested."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and os.path.exists(args[0]):
            raise _usage(f"there is no command {args[0]}; did you mean tclint check {args[0]}?")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="tclint", message="%(prog)s %(version)s")
def cli() -> None:
    """A linter for NVIDIA PTX: finds missing waits, fences and commits around asynchronous instructions."""


class _Check(click.Command):
    """``check``, with an option for each setting; those cost imports that ``--version`` does not need."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        *own, helping = super().get_params(ctx)
        return [*own, *_setting_options(), helping]


def _setting_options() -> Iterator[click.Option]:
    from tclint.config import settings

    for setting in settings():
        kind, flag = setting.kind, f"--{setting.key}"
        default = "" if setting.default in (None, False, ()) else f" [default: {kind.write(setting.default)}]"
        common: dict[str, Any] = {"help": setting.help + default, "default": None}
        if kind.option == "flag":
            yield click.Option([f"{flag}/--no-{setting.key}"], **common)
        elif kind.option == "choice":
            yield click.Option([flag], type=_Choice(kind.schema["enum"]), **common)
        elif kind.option == "list":
            rules = _complete_rules if kind.metavar == "RULES" else None
            yield click.Option([flag], multiple=True, metavar=kind.metavar, shell_complete=rules, **common)
        elif kind.option == "value":
            yield click.Option([flag], metavar=kind.metavar, **common)


def _complete_rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from tclint.rules import all_rules

    words = [*all_rules(), *(rule.name for rule in all_rules().values())]
    return [word for word in words if word.lower().startswith(incomplete.lower())]


_stdin_filename = click.option(
    "--stdin-filename", metavar="NAME", help="The name under which standard input (-) is shown."
)
_color = click.option(
    "--color",
    type=_Choice(("auto", "always", "never")),
    default="auto",
    show_default=True,
    help="auto: on a terminal, unless NO_COLOR is set; FORCE_COLOR turns it on elsewhere.",
)


def _refuse_unused(stdin_filename: str | None, paths: Sequence[str]) -> None:
    if stdin_filename is not None and _STDIN not in paths:
        raise click.UsageError("--stdin-filename needs '-' among the paths.")


@cli.command(cls=_Check)
@click.argument("paths", nargs=-1, metavar="PATH...")
@_stdin_filename
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
    "--launch",
    metavar="FILE",
    help="How --confirm launches the kernel; by default KERNEL.launch.toml beside it, or else a launch is assumed.",
)
@_color
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead of showing them.")
@click.option("--timings", is_flag=True, help="Say on standard error what the time was spent on.")
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="FILE|KEY=VALUE",
    help="A configuration file to use, or one setting as in a file.",
)
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
@click.option("--show-settings", is_flag=True, help="Show the settings and where each comes from, and stop.")
def check(
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
    from tclint.output._files import OutputError, parse, refuse_inputs, write
    from tclint.pool import reports
    from tclint.progress import shown_on
    from tclint.report import Context, present, statistics_of, timings_of

    if statistics and output_format not in ("text", "concise"):
        raise click.UsageError(f"--statistics is text; {output_format} has these numbers in its summary.")
    try:
        resolved = settings.resolve(_layers(configs, isolated, options))
    except settings.SettingsError as error:
        raise _usage(error) from None
    config = replace(resolved.config, launch=launch)
    if show_settings:
        _write(settings.show(resolved))
        return CLEAN
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    _refuse_unused(stdin_filename, paths)
    _refuse_unconfirmable(config)
    try:
        files = parse(outputs)
    except OutputError as error:
        raise _usage(f"--output: {error}") from None
    left_out = LeftOut(config)
    sources = inputs(paths, stdin_filename or _STDIN_NAME, left_out)
    checked = list(shown_on(sys.stderr, reports(sources, config)))
    _refuse_unmatched(config, [item.report for item in checked])
    shown, summary = fold(*present([item.report for item in checked], config))
    summary = replace(summary, excluded=len(left_out.paths))
    context = Context(summary, locate=Locator.of(locate, shown), fail_on=config.failing, rules=config.rules)
    try:
        refuse_inputs(files, [report.path for report in shown])
        write({path: renderer(name)(shown, context) for path, name in files.items()})
    except OutputError as error:
        raise click.ClickException(str(error)) from None
    terminal = replace(context, color=_use_color(color), width=_width(), links=_use_links())
    _write(statistics_of(shown, summary) if statistics else renderer(output_format)(shown, terminal))
    if timings:
        _write(timings_of(item.seconds for item in checked), sys.stderr)
    return _exit_code(shown, config.failing)


def _usage(message: object) -> click.UsageError:
    from tclint.output._style import printable

    text = printable(str(message))  # it may quote the configuration of a project that nobody trusts
    return click.UsageError(text if text.endswith("?") else f"{text}.")


def _layers(configs: Iterable[str], isolated: bool, options: dict[str, Any]) -> Iterator[Layer]:
    """Every place that says something about the settings, the weakest first."""
    from pathlib import Path

    from tclint import settings

    inline = [text for text in configs if "=" in text and not os.path.exists(text)]
    files = [text for text in configs if text not in inline]
    if len(files) > 1:
        raise settings.SettingsError(f"--config names two files: {files[0]} and {files[1]}")
    if files and isolated:
        raise settings.SettingsError(f"--isolated and --config {files[0]} contradict each other")
    if files:
        layer = settings.load(Path(files[0]))
        if layer is None:
            raise settings.SettingsError(f"{files[0]}: there is no table [tool.{settings.TABLE}] in it")
        yield layer
    elif not isolated and (found := settings.discover(Path.cwd())) is not None:
        yield found
    yield from map(settings.inline, inline)
    given = {name.replace("_", "-"): _as_in_a_file(value) for name, value in options.items()}
    values = {key: value for key, value in given.items() if value not in (None, [])}
    yield settings.Layer(settings.COMMAND_LINE, values, Path.cwd())


def _as_in_a_file(value: Any) -> Any:
    """What a file would have for the value of an option."""
    if isinstance(value, tuple):
        return [word.strip() for text in value for word in text.split(",") if word.strip()]
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else value


def _refuse_unmatched(config: Config, reports: Iterable[FileReport]) -> None:
    """That nothing is called as ``--entry`` says must not look clean."""
    from tclint.rules import nearest
    from tclint.select import wants_entry

    names = {name: None for report in reports for name in report.entries}
    if names and not any(wants_entry(config, name) for name in names):
        patterns = ", ".join(config.entry)
        raise _usage(f"no function is called {patterns}{nearest(config.entry[0], names)}")


@cli.command()
@click.argument("stage", type=_Choice(("tree", "ir", "cfg", "states")))
@click.argument("file")
@click.option("--dot", is_flag=True, help="As a graph for Graphviz.")
@click.option("--entry", metavar="NAME", help="This function only.")
def dump(stage: str, file: str, dot: bool, entry: str | None) -> int:
    """Show what a stage of the analysis made of FILE.

    FILE may be - for standard input.
    """
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
@click.argument("selectors", nargs=-1, metavar="[RULES]...", shell_complete=_complete_rules)
@click.option(
    "--output-format",
    type=_Choice(("text", "markdown")),
    default="text",
    show_default=True,
    help="Lines, or a table for each family.",
)
def rules(selectors: tuple[str, ...], output_format: str) -> int:
    """List all rules, or those of a family or a prefix."""
    from tclint.explain import rule_list, rules_table
    from tclint.rules import UnknownRule, all_rules
    from tclint.select import meant

    try:
        wanted = frozenset().union(*(meant(selector)[0] for selector in selectors or ("ALL",)))
    except UnknownRule as error:
        raise _usage(error) from None
    found = [rule for id, rule in all_rules().items() if id in wanted]
    _write(rules_table(found) if output_format == "markdown" else rule_list(found))
    return CLEAN


@cli.command()
@click.argument("rules", nargs=-1, metavar="RULE...", shell_complete=_complete_rules)
@click.option("--all", "every", is_flag=True, help="The pages of all rules.")
@click.option(
    "--output-format",
    type=_Choice(("markdown", "json")),
    default="markdown",
    show_default=True,
    help="Their form.",
)
def explain(rules: tuple[str, ...], every: bool, output_format: str) -> int:
    """Show the page of RULE, an id such as WG001 or a name."""
    from tclint import explain as texts
    from tclint.rules import UnknownRule, all_rules, find

    if every == bool(rules):
        raise click.UsageError(
            "Name rules, or give --all." if not every else "--all contradicts naming rules."
        )
    try:
        found = list(all_rules().values()) if every else [find(rule) for rule in rules]
    except UnknownRule as error:
        raise _usage(error) from None
    _write(texts.rules_json(found) if output_format == "json" else texts.rules_markdown(found))
    return CLEAN


def _complete_opcodes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from tclint.isa.table import table

    return [name for name in table().forms if name.startswith(incomplete)]


@cli.command()
@click.argument("opcode", shell_complete=_complete_opcodes)
def isa(opcode: str) -> int:
    """Describe an instruction.

    OPCODE is a whole one, its first words, or the name of a form.
    """
    from tclint import explain as texts
    from tclint.isa.table import table

    try:
        _write(texts.isa(table(), opcode))
    except texts.UnknownOpcode as error:
        raise _usage(error) from None
    return CLEAN


@cli.command()
@click.argument("paths", nargs=-1, required=True, metavar="KERNEL...")
@click.option(
    "--entry", multiple=True, metavar="NAME", help="This function only; a pattern, may be repeated."
)
@_stdin_filename
@click.option(
    "--output-format",
    type=_Choice(("text", "json")),
    default="text",
    show_default=True,
    help="A table, or an object as docs/barriers.schema.json describes it.",
)
@_color
def barriers(
    paths: tuple[str, ...],
    entry: tuple[str, ...],
    stdin_filename: str | None,
    output_format: str,
    color: str,
) -> int:
    """Show who waits for whom in a kernel.

    Its mbarriers with their arrivals, bytes and parities, its other barriers, its shared memory, and the events of each
    role in order. A KERNEL is a PATH as check takes it. What cannot be resolved is said to be.

    Exit code: 0 shown, 2 usage error, or an input that could not be analysed.
    """
    from tclint.barriers import render_json, render_text, show
    from tclint.inputs import inputs
    from tclint.rules import nearest

    _refuse_unused(stdin_filename, paths)
    shown = [show(item, entry) for item in inputs(paths, stdin_filename or _STDIN_NAME)]
    names = dict.fromkeys(name for one in shown for name in one.functions)
    if entry and names and not any(one.kernels or one.problems for one in shown):
        raise _usage(f"no function is called {', '.join(entry)}{nearest(entry[0], names)}")
    _write(render_json(shown) if output_format == "json" else render_text(shown, _use_color(color)))
    broken = any(one.problems or any(kernel.problems for kernel in one.kernels) for one in shown)
    return FAILURE if broken else CLEAN


@cli.command("run")
@click.argument("path", metavar="KERNEL")
@click.option(
    "--launch", metavar="FILE", help="How the kernel is launched; by default KERNEL.launch.toml beside it."
)
@click.option("--entry", metavar="NAME", help="The entry to launch, where no launch file says it.")
@click.option(
    "--schedule",
    default="lazy",
    show_default=True,
    metavar="NAME",
    help="When asynchronous operations complete: eager, lazy (as late as the ISA allows) or random:SEED.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    help="The longest a launch may take.",
)
@click.option(
    "--number",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the run; random inputs depend on it.",
)
@click.option("--trace", metavar="FILE", help="Write what every warp did, for Perfetto or chrome://tracing.")
@click.option(
    "--output-format",
    type=_Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Lines, or an object.",
)
def run_(
    path: str,
    launch: str | None,
    entry: str | None,
    schedule: str,
    seconds: float,
    number: int,
    trace: str | None,
    output_format: str,
) -> int:
    """Execute a kernel on the CPU.

    KERNEL is a PTX file. Asynchronous operations complete as late as the ISA allows, so that a missing wait, fence or
    barrier shows; what a GPU would do without a word is reported.

    Exit code: 0 it ended and nothing wrong was seen; 1 something was, or it hung; 2 usage error, or it stopped: an
    address out of bounds, a trap, an instruction that cannot be executed, no end in time.
    """
    from pathlib import Path

    from tclint.source import Source, SourceError

    _need_numpy()
    from tclint.executor.command import Options, RunError, render_json, render_text, run

    try:
        source = Source.read(path)
        options = Options(
            Path(launch) if launch else None, entry, schedule, seconds, number, Path(trace) if trace else None
        )
        result = run(source, options)
    except SourceError as error:
        raise click.ClickException(_at(path, error)) from None
    except RunError as error:
        raise click.ClickException(str(error)) from None
    _write(render_json(result) if output_format == "json" else render_text(result))
    return result.code


def _need_numpy() -> None:
    """The executor computes with numpy, which linting does without."""
    from importlib.util import find_spec

    if find_spec("numpy") is None:
        raise click.ClickException("executing a kernel needs numpy: pip install 'tclint-ptx[run]'")


def _refuse_unconfirmable(config: Config) -> None:
    if config.launch and not config.confirm:
        raise click.UsageError("--launch needs --confirm.")
    if config.confirm:
        _need_numpy()
        from tclint.executor.launch import LaunchError, read

        try:
            if config.launch:
                read(config.launch)
        except (LaunchError, OSError) as error:
            raise _usage(error) from None


@cli.command()
def schema() -> int:
    """Print the JSON schema of the configuration."""
    from tclint.settings import schema

    _write(schema())
    return CLEAN


def main(args: Sequence[str] | None = None) -> None:
    """The entry point of the command: runs it and exits. No exception becomes a traceback without TCLINT_DEBUG."""
    if sys.stdout is None:  # closed; now writing to it is an error like any other
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        code = cli.main(args=args, prog_name="tclint", standalone_mode=False)
    except SystemExit as end:  # from click: a closed pipe, and what completion has for a shell
        code = FAILURE if end.code else CLEAN
    except click.ClickException as error:
        code = _failed(error)
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except Exception as error:
        from tclint.pool import debug, internal_error

        if debug():
            raise
        # --help and --version are written by click.
        if writing := isinstance(error, OSError) and error.filename is None:
            _abandon(sys.stdout)
        code = _failed(click.ClickException(_unwritable(error) if writing else internal_error(error)))
    sys.exit(code)


def _failed(error: click.ClickException) -> int:
    try:
        error.show()
    except OSError:
        _abandon(sys.stderr)
    return FAILURE


def _exit_code(reports: Iterable[FileReport], fail_on: Severity | None) -> int:
    code = CLEAN
    for report in reports:
        shown = [finding for finding in report.findings if finding.suppressed is None]
        # A comment that is wrong about what it hides is no defect to be forgiven: the input cannot be trusted.
        if report.problems or any(finding.rule.family == "suppression" for finding in shown):
            return FAILURE
        if fail_on is not None and any(finding.severity >= fail_on for finding in shown):
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
    if not sys.stdout.isatty():
        return _TEXT_WIDTH
    from shutil import get_terminal_size

    return get_terminal_size((_TEXT_WIDTH, 24)).columns


def _write(text: str, stream: TextIO | None = None) -> None:
    """Write to standard output. A reader that went away is no reason to say anything, but the work is not done."""
    stream = stream or sys.stdout
    data = memoryview(text.encode(stream.encoding or "utf-8", "replace"))
    try:
        while (
            data
        ):  # a pipe or a full disk takes a part of it where Python does not buffer (PYTHONUNBUFFERED)
            data = data[stream.buffer.write(data) :]
        stream.flush()
    except BrokenPipeError:
        _abandon(stream)
        raise click.exceptions.Exit(FAILURE) from None
    except OSError as error:
        _abandon(stream)
        raise click.ClickException(_unwritable(error)) from None


def _abandon(stream: TextIO) -> None:
    """The interpreter flushes once more on its way out; let that succeed."""
    with suppress(OSError):  # it may be no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _unwritable(error: Exception) -> str:
    return f"the output cannot be written: {getattr(error, 'strerror', None) or error}"


def _at(path: str, error: SourceError) -> str:
    return f"{path}:{error.line}: {error}" if error.line else f"{path}: {error}"
