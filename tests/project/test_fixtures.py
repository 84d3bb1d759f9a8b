"""Whole kernels with the findings that they must have, written into their comments.

``// want WG001 "regexp"`` is on the line of the finding and describes its message; ``at file:line`` after it is the
place in the user's source. ``// want-step 2 "regexp"`` is on the line of the second step of a finding.

The end of an entry's name says what tclint makes of it: ``_ok`` is correct and clean; ``_bad`` has the findings that are
written down, and no others; ``_fn`` has a fault, written down, that tclint does not find yet; ``_fp`` is correct, and what
tclint finds wrongly is written down. ``_fn`` and ``_fp`` fail when tclint gets better, so that the name is corrected.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from tclint.findings.finding import FileReport, Finding, SourceLocation
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence
from tclint.findings.spans import Span
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.project import ROOT
from tests.tools.ptxas import find_ptxas
from tests.tools.rewriting import REWRITERS, identities

FIXTURES = sorted((ROOT / "fixtures").glob("*.ptx"))

_ENTRY = re.compile(r"\.entry\s+(\w+)")
_WANT = re.compile(r'// want (?P<rule>\w+) "(?P<message>[^"]*)"(?: at (?P<place>\S+:\d+))?')
_STEP = re.compile(r'// want-step (?P<number>\d+) "(?P<message>[^"]*)"')
_ANY = re.compile(r"//\s*want\b")


class Want(NamedTuple):
    """A finding that a comment asks for, or with a ``step`` one step of some finding."""

    line: int
    entry: str
    rule: str
    message: str
    place: str
    step: int


def wants(text: str) -> list[Want]:
    """The expectations in the comments of a fixture."""
    found = []
    entry = ""
    for number, line in enumerate(text.splitlines(), 1):
        if named := _ENTRY.search(line):
            entry = named[1]
        for want in _WANT.finditer(line):
            found.append(Want(number, entry, want["rule"], want["message"], want["place"] or "", 0))
        for want in _STEP.finditer(line):
            found.append(Want(number, entry, "", want["message"], "", int(want["number"])))
        if len(_ANY.findall(line)) != len(_WANT.findall(line)) + len(_STEP.findall(line)):
            raise ValueError(f"line {number}: not an expectation: {line.strip()}")
    return found


def disagreements(report: FileReport, text: str) -> list[str]:
    """What the findings of a report and the comments and names in its text say differently."""
    assert report.source is not None
    wrong = [f"line {p.line}: {p.message}" for p in report.problems]
    findings = [f for f in report.findings if f.confidence > Confidence.LOW]
    expected = wants(text)
    met: set[int] = set()
    for want in expected:
        hits = [k for k, f in enumerate(findings) if _meets(report, f, want)]
        met.update(hits if not want.step else ())
        known_miss = want.entry.endswith("_fn")
        if bool(hits) == known_miss:
            what = f"step {want.step}" if want.step else want.rule
            verdict = "is found now: rename the entry" if known_miss else "is not found"
            wrong.append(f'line {want.line}: {what} "{want.message}" in {want.entry} {verdict}')
    for k, finding in enumerate(findings):
        if k not in met:
            line = _line(report, finding.span)
            wrong.append(f"line {line}: unexpected {finding.rule.id} in {finding.entry}: {finding.message}")
    for entry in _ENTRY.findall(text):
        asked = any(want.entry == entry and not want.step for want in expected)
        if asked != entry.endswith(("_bad", "_fn", "_fp")) or not (asked or entry.endswith("_ok")):
            wrong.append(f"{entry}: the name does not fit the expectations")
    return wrong


def _meets(report: FileReport, finding: Finding, want: Want) -> bool:
    if finding.entry not in (want.entry, None):
        return False
    if want.step:
        steps: Iterable[tuple[Span, str]] = (
            (s.span, s.message) for s in finding.steps[want.step - 1 : want.step]
        )
    else:
        steps = [(finding.span, finding.message)] if finding.rule.id == want.rule else []
    if want.place and want.place != _place(finding.source_location):
        return False
    return any(
        _line(report, span) == want.line and re.search(want.message, message) for span, message in steps
    )


def _line(report: FileReport, span: Span) -> int:
    assert report.source is not None
    return report.source.position(span.start).line


def _place(location: SourceLocation | None) -> str:
    """The user's own line: the last of the calls through which the code was inlined."""
    if location is None:
        return ""
    outermost = location.inlined_at[-1] if location.inlined_at else location
    return f"{Path(outermost.file).name}:{outermost.line}"


def report_of(text: str, path: str) -> FileReport:
    return check_source(Source.from_bytes(text.encode(), path))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_fixture(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    wrong = disagreements(report_of(text, str(path)), text)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("rewrite", REWRITERS)
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_findings_do_not_depend_on_names_or_layout(path: Path, rewrite: Callable[[str], str]) -> None:
    text = path.read_text(encoding="utf-8")
    assert identities(report_of(rewrite(text), str(path))) == identities(report_of(text, str(path)))


def test_expectations_name_rules_that_exist() -> None:
    for path in FIXTURES:
        for want in wants(path.read_text(encoding="utf-8")):
            assert want.step or want.rule in all_rules(), f"{path.name}:{want.line}"


BAD = next(path for path in FIXTURES if path.stem == "wgmma_unwaited").read_text(encoding="utf-8")
STORE = '// want WG001 "%f0"'


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (STORE, "", "unexpected WG001"),
        (STORE, '// want WG001 "no such words"', 'WG001 "no such words" in gemm_unwaited_bad is not found'),
        (STORE, '// want WG002 "%f0"', "WG002 .* is not found"),
        (STORE, f'{STORE[:-5]}"." at kernel.cu:1', "is not found"),
        (STORE, f'{STORE} // want-step 9 "."', 'step 9 "." .* is not found'),
        ("_bad", "_ok", "the name does not fit"),
        ("_bad", "", "the name does not fit"),
        ("_bad", "_fn", "is found now: rename the entry"),
        (".version 8.0", "", ".version is missing"),
    ],
)
def test_a_fixture_that_is_wrong_fails(old: str, new: str, complaint: str) -> None:
    assert disagreements(report_of(BAD, "x.ptx"), BAD) == []
    text = BAD.replace(old, new)
    assert text != BAD
    assert re.search(complaint, "\n".join(disagreements(report_of(text, "x.ptx"), text)))


def test_a_misspelt_expectation_is_an_error() -> None:
    with pytest.raises(ValueError, match="line 2: not an expectation"):
        wants("ret;\nret; // want WG001 %f0\n")


@pytest.mark.slow
def test_ptxas_takes_every_fixture(tmp_path: Path) -> None:
    ptxas = find_ptxas()
    for path in FIXTURES:
        target = re.search(r"^\.target (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert target is not None
        command = [ptxas, "-arch", target[1], path, "-o", tmp_path / "fixture.cubin"]
        run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stdout + run.stderr
