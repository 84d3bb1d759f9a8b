"""``tclint report``: what reproduces a finding that seems wrong, in one archive."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tclint.commands import CLEAN
from tclint.commands._common import (
    STDIN,
    STDIN_NAME,
    at,
    complete_rules,
    only_source,
    seconds_option,
    usage,
    write,
)
from tclint.commands._settings import SettingsCommand, resolve

if TYPE_CHECKING:
    from tclint.api import Report
    from tclint.config.config import Config
    from tclint.findings.finding import FileReport, Finding
    from tclint.syntax.source import Source

_DECISIVE = ("min_confidence", "pedantic", "strict", "toolkit", "arch", "assume")
"""The settings that decide whether there is a finding, besides the rules; none of them has a name or a path of the user."""
_UNUSED = (
    *("fail_on", "exit_zero", "min_severity", "exclude", "force_exclude", "include", "per_file_ignores"),
    *(
        "per_entry_ignores",
        "baseline",
        "jobs",
        "cache",
        "confirm",
        "confirm_steps",
        "execute",
        "execute_steps",
    ),
    *("verdict", "require", "ptxas_budget", "accept_ptxas_change", "entry"),
)
_NAME = "kernel.ptx"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of all files in the archive, so that equal contents are equal bytes."""
_CHOSEN = re.compile(r"%[\w$]+|\d+")
"""What reducing changes in a message."""


@click.command(cls=SettingsCommand, unused=_UNUSED)
@click.argument("kernel")
@click.argument("rule", shell_complete=complete_rules)
@click.option(
    "--at",
    "line",
    type=click.IntRange(min=1),
    metavar="LINE",
    help="Line of the finding, if the rule has several.",
)
@click.option("-o", "--output", metavar="FILE", help="Archive to write. Defaults to tclint-report-RULE.zip.")
@seconds_option("How long to look for what the finding does not need.")
def command(
    kernel: str,
    rule: str,
    line: int | None,
    output: str | None,
    seconds: float,
    configs: tuple[str, ...],
    isolated: bool,
    **options: Any,
) -> int:
    """Bundle a finding that you do not believe, to report it.

    KERNEL is a file with PTX, and RULE the id or the name of the finding's rule. The archive has the functions and variables
    that the finding needs, without comments and line information; the finding in them; the settings that decide it; and what
    tclint version prints. It has nothing else: no path, no source, no setting that names something of yours. Names of
    kernels and variables stay in the PTX. Nothing is sent anywhere.

    Exit code: 0 written, 2 usage error, or a KERNEL without such a finding.
    """
    from tclint._write import OutputError, refuse
    from tclint._write import write as write_files
    from tclint.findings.rules import UnknownRule, find
    from tclint.syntax.source import SourceError

    resolved = resolve(configs, isolated, options)
    try:
        id = find(rule).id
        target = output or f"tclint-report-{id}.zip"
        refuse([target], [*([] if kernel == STDIN else [kernel]), *resolved.files])
        case = _Case(id, _decisive(resolved.config))
        source = only_source(kernel, resolved.config.max_bytes)
        case.choose(source, line)
        text = case.reduced(source.data, seconds)
        contents = case.contents(text)
        write_files({target: _archive(contents)})
    except (UnknownRule, OutputError) as error:
        raise usage(error) from None
    except SourceError as error:
        raise click.ClickException(at(STDIN_NAME if kernel == STDIN else kernel, error)) from None
    write(_said(target, contents, source.data, case.stopped))
    return CLEAN


def _decisive(config: Config) -> Config:
    """What of *config* decides whether there is a finding."""
    from tclint.config.config import Config

    kept = {name: getattr(config, name) for name in _DECISIVE}
    return Config(rules=config.rules, cache=False, **kept)


class _Case:
    """A finding, and the texts in which it is found."""

    def __init__(self, rule: str, config: Config) -> None:
        self._rule = rule
        self._config = config
        self._kind: object = None
        self.stopped = False
        """Whether the time ended before all was tried without which the finding may still be there."""

    def choose(self, source: Source, line: int | None) -> None:
        """Takes the first finding of the rule, or the one in *line*. Raises SourceError if there is none."""
        from tclint.findings.places import region
        from tclint.inline.hosts import is_host
        from tclint.syntax.source import SourceError

        if is_host(source.path, source.member):
            raise SourceError("is not PTX by its name; report the PTX that is made of it")
        report = self._checked(source.data)
        found = [(region(file, finding.span)[0].line, finding) for file, finding in self._findings(report)]
        lines = ", ".join(str(number) for number, _ in found)
        chosen = [finding for number, finding in found if line in (None, number)]
        if not chosen:
            elsewhere = f" in line {line}; there is one in: {lines}" if line and lines else ""
            raise SourceError(f"has no finding of {self._rule}{elsewhere}")
        self._kind = _kind(chosen[0])

    def _checked(self, data: bytes) -> Report:
        from tclint.api import lint

        return lint(data, self._config, _NAME)

    def _findings(self, report: Report) -> Iterator[tuple[FileReport, Finding]]:
        for file in report.files:
            yield from ((file, f) for f in file.findings if f.rule.id == self._rule and f.suppressed is None)

    def _holds(self, data: bytes) -> bool:
        """Whether the finding is in a text that was fully analysed."""
        report = self._checked(data)
        return not report.problems and any(_kind(f) == self._kind for _, f in self._findings(report))

    def reduced(self, data: bytes, seconds: float) -> bytes:
        """The functions and variables without which the finding is not there, as far as there is time to look; without comments
        and line information, if the finding needs none of them. Raises SourceError."""
        from time import monotonic

        from tclint.text.reduce import Reduction, Spent

        end = monotonic() + seconds

        def first(texts: Iterator[bytes]) -> int | None:
            for number, text in enumerate(texts):
                if monotonic() > end:
                    raise Spent
                if self._holds(text):
                    return number
            return None

        reduction = Reduction(data, first, lambda _: None)
        try:
            reduction.run(whole=True)  # what makes the finding wrong may be a statement that it does not need
        except Spent:
            self.stopped = True
        return reduction.data

    def contents(self, text: bytes) -> dict[str, bytes]:
        """The files of the archive, by name."""
        from dataclasses import replace
        from json import dumps

        from tclint._json import to_json
        from tclint.api import Report
        from tclint.commands.version import facts
        from tclint.config.config import settings
        from tclint.findings.rules import all_rules
        from tclint.findings.scales import Severity

        written = [
            f"{setting.key} = {dumps(setting.kind.write(value))}\n"
            for setting in settings()
            if setting.name in _DECISIVE and (value := getattr(self._config, setting.name)) != setting.default
        ]
        if self._config.rules is not None:
            written.append(f"select = {dumps(sorted(all_rules().keys() & self._config.rules))}\n")
        report = self._checked(text)
        shown = Report(report.files, report.summary, replace(report.config, min_severity=Severity.INFO))
        return {
            _NAME: text,
            "finding.txt": shown.render(locate="ptx").encode(),
            "tclint-ptx.toml": "".join(written).encode(),
            "version.json": to_json(facts()).encode(),
        }


def _kind(finding: Finding) -> object:
    """What stays of a finding while its kernel becomes smaller."""
    return finding.severity, finding.confidence, finding.method, _CHOSEN.sub("", finding.message)


def _archive(contents: dict[str, bytes]) -> bytes:
    import zipfile
    from io import BytesIO

    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _said(target: str, contents: dict[str, bytes], before: bytes, stopped: bool) -> str:
    from tclint.report.formats._style import printable
    from tclint.text.reduce import instructions

    text = contents[_NAME]
    left = (
        "line information and comments"
        if b".loc" in text or b"//" in text
        else "names of functions and variables"
    )
    about = {
        _NAME: f"the PTX, {instructions(text):,} of {instructions(before):,} instructions, with {left}",
        "finding.txt": "what tclint says of it",
        "tclint-ptx.toml": "the settings that decide it"
        if contents["tclint-ptx.toml"]
        else "empty: no setting does",
        "version.json": "tclint, Python and the system",
    }
    rows = "".join(f"  {name:<16} {words}\n" for name, words in about.items())
    more = "stopped after --seconds: the finding may need less than that\n" if stopped else ""
    return f"{printable(target)} contains, and nothing was sent:\n{rows}{more}"
