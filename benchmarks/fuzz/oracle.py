"""What came of a run: how the command would end, and whether anything went wrong."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from xml.etree import ElementTree

from benchmarks.ptxas import Ptxas
from tclint.findings.finding import FileReport
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected
from tclint.inspect import dump
from tclint.linting.check import check_source
from tclint.report.fold import fold
from tclint.report.formats import formats, renderer
from tclint.report.locate import Locator
from tclint.report.summary import FormatContext, present
from tclint.syntax import parse
from tclint.syntax.source import Source, SourceError

__all__ = [
    "ASKED", "ENDS", "LIMIT", "PACKAGE", "SECONDS", "Hang", "Judge", "Outcome", "ask", "lint", "message_class", "where",
]  # fmt: skip

SECONDS = 30
"""After which a run counts as a hang."""
ENDS = {
    "clean": "nothing found, exit 0",
    "notes": "notes only, exit 0",
    "findings": "errors or warnings, exit 1",
    "partial": "analysed in part, exit 2",
    "failed": "no function to analyse, exit 2",
    "refused": "no text, exit 2",
}
"""How a run can end."""
REFUSING = re.compile(r"PX|AV|SU")
"""Rules that say that an assembler, or tclint, takes an input amiss; all others are about what it does."""


PACKAGE = os.path.join(str(Path(__file__).resolve().parents[2]), "tclint", "")
"""With what the names of files of tclint begin."""


class Hang(Exception):
    """A run was stopped after :data:`SECONDS`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended (a key of :data:`ENDS`, "" after a failure), what went wrong ("": nothing), and CPU seconds."""

    end: str
    failure: str = ""
    seconds: float = 0.0
    refusals: tuple[str, ...] = field(default=())
    """The rules by which tclint says that no assembler takes the input, in errors that are shown by default."""

    @property
    def refused(self) -> bool:
        """Whether tclint says that no assembler takes the input, or does not analyse all of it."""
        return self.end in ("partial", "failed", "refused") or bool(self.refusals)


def lint(data: bytes, usual: float = 1e9, names: Sequence[str] = (), stages: Sequence[str] = ()) -> Outcome:
    """Lint *data*, write the report in the formats of *names*, dump *stages*, and judge all of it.

    *usual* are the CPU seconds that the kernel took which *data* was made from.
    """
    began = process_time()
    try:
        source = Source.from_bytes(data, "fuzz.ptx")
        report = check_source(source)
        took = process_time() - began
        shown, context = _shown(report)
        for name in names:
            if said := _written(name, renderer(name)(shown, context)):
                return Outcome("", said, took)
        for stage in stages:
            _dump(stage, source)
    except SourceError:
        return Outcome("refused", "", process_time() - began)
    except Hang:
        return Outcome("", f"hang: more than {SECONDS} s", process_time() - began)
    except Exception as error:  # noqa: BLE001  # that is what is looked for
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.name}"
        return Outcome("", f"{type(error).__name__} in {where}", process_time() - began)
    end = _end(report)
    said = ""
    if took > 2 and took > 10 * usual:
        said = "slow: more than ten times its kernel, and 2 s"
    elif report.status == "analysed" and parse(source.data).root_node.has_error:
        said = "broken text that looks clean"
    refusals = {
        finding.rule.id
        for finding in report.findings
        if finding.severity is Severity.ERROR
        and finding.confidence >= Selected().min_confidence
        and REFUSING.match(finding.rule.id)
    }
    return Outcome(end, said, took, tuple(sorted(refusals)))


def _end(report: FileReport) -> str:
    if report.status != "analysed":
        return report.status
    if not report.findings:
        return "clean"
    grave = any(finding.severity > Severity.INFO for finding in report.findings)
    return "findings" if grave else "notes"


_LOCATOR = Locator("source")
_FORMATS = formats()


def _shown(report: FileReport) -> tuple[Sequence[FileReport], FormatContext]:
    shown, summary = fold(*present([report], Selected(min_confidence=Confidence.LOW)))
    return shown, FormatContext(summary, color=True, links=True, locate=_LOCATOR)


def _json(text: str) -> None:
    json.loads(text)


_READERS: dict[str, Callable[[str], object]] = {
    "json": _json, "gitlab": _json, "sarif": _json, "junit": ElementTree.fromstring,
}  # fmt: skip


def _written(name: str, text: str) -> str:
    """Why a report is not what its format promises, or ""."""
    try:
        text.encode()
        if name in _READERS:
            _READERS[name](text)
    except (ValueError, ElementTree.ParseError) as error:
        return f"{name} is malformed: {re.sub(r'[0-9]+', 'N', str(error))[:60]}"
    return "" if not text or text.endswith("\n") else f"{name} does not end with a line feed"


def _dump(stage: str, source: Source) -> None:
    stage, _, graph = stage.partition(" ")
    show: Callable[..., str] = getattr(dump, stage)
    show(source, dot=bool(graph)).encode()


def extras(rng: random.Random, number: int) -> tuple[Sequence[str], Sequence[str]]:
    """The formats and stages that run *number* tries: one format, all of every 16th, a dump every 128th."""
    stages = [f"{stage}{graph}" for stage in ("tree", "ir", "cfg", "states") for graph in ("", " --dot")]
    return (
        _FORMATS if number % 16 == 0 else [rng.choice(_FORMATS)],
        [rng.choice(stages)] if number % 128 == 1 else [],
    )


def where(error: BaseException) -> str:
    """The kind of an exception and the function of tclint that raised it; the words of an AssertionError."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(PACKAGE)] or frames
    at = f" in {Path(own[-1].filename).name}:{own[-1].name}" if own else ""
    return (
        f"{type(error).__name__}{at}: {str(error)[:80]}"
        if not isinstance(error, AssertionError)
        else str(error)
    )


# ---------------------------------------------------------------- ptxas

ASKED = 100
"""Every so many runs ptxas is asked too, unless the command says otherwise."""
LIMIT = re.compile("uses too much|[Ll]imit exceeded")
"""Messages of ptxas about the memory and registers of the machine, not about the text."""


@dataclass(frozen=True, slots=True)
class Judge:
    """The ptxas that is asked about every run whose number ``every`` divides."""

    ptxas: Ptxas
    every: int = ASKED


_TARGET = re.compile(rb"^\s*\.target\s+(sm_\d+[af]?)", re.MULTILINE)
_ERROR = re.compile(r"(?:error|fatal)\s*: (.*)")


def ask(ptxas: Ptxas, data: bytes, refused: bool = False) -> str | None:
    """The first error of ptxas, "" when it takes *data*; None when it cannot be asked (an older target, a crash).

    ptxas only reads *data*, which is fast; what it takes so is compiled if tclint *refused* it, since ptxas reports
    some errors, such as a pragma that it does not know, only then.
    """
    found = _TARGET.search(data)
    if found is None or found[1].decode() not in ptxas.targets:
        return None
    with tempfile.NamedTemporaryFile(suffix=".ptx") as file:
        file.write(data)
        file.flush()
        said = _error(ptxas, file.name, found[1].decode().replace("sm_", "compute_"))
        return _error(ptxas, file.name, found[1].decode()) if refused and said == "" else said


def _error(ptxas: Ptxas, name: str, architecture: str) -> str | None:
    command = [str(ptxas.path), "-arch", architecture, name, "-o", os.devnull]
    try:
        run = subprocess.run(command, check=False, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None
    if run.returncode < 0:
        return None
    said = (run.stdout + run.stderr).decode(errors="replace")
    match = _ERROR.search(said)
    return match[1] if match else "" if run.returncode == 0 else said.strip().partition("\n")[0]


def message_class(message: str) -> str:
    """A message of ptxas without the names and numbers in it."""
    words = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", message)
    words = re.sub(r"\b(0x)?\d[\w.]*\b", "N", words)
    return re.sub(r"\s+", " ", words)[:90]
