"""The index of many kernels: one self-contained HTML file without a script, with a link to the page of each kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from tclint._dataclass import dataclass
from tclint._version import __version__
from tclint.findings.figures import figures_line
from tclint.findings.finding import FileReport, Finding
from tclint.findings.places import displayed_name, region
from tclint.findings.scales import Severity
from tclint.findings.verdicts import Status, Verdict
from tclint.ir.nodes import Function
from tclint.report.summary import count
from tclint.show.page import filled, hashed, read

__all__ = ["Row", "render", "row"]

_SAID = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_MAX_SHOWN = 4
"""Findings of a kernel that are shown; the remaining ones are counted."""


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel in the index."""

    name: str
    page: str
    """The file of its page, beside the index."""
    place: str
    """Its file and line."""
    targets: str
    report: FileReport
    findings: tuple[Finding, ...]
    """Those that are shown, the gravest first."""
    verdicts: tuple[Verdict, ...]
    instructions: int
    figures: str
    """What ptxas makes of it, in words; empty if that is not known."""

    @property
    def gravity(self) -> tuple[int, int]:
        """Orders kernels: the gravest finding, and how many there are of that severity."""
        worst = max((finding.severity for finding in self.findings), default=None)
        return -(worst or 0), -sum(finding.severity is worst for finding in self.findings)


def row(report: FileReport, function: Function, targets: Iterable[str], page: str) -> Row:
    """The row for a kernel of the module with this *report*."""
    assert report.source is not None  # guaranteed by FileReport
    found = [
        finding
        for finding in report.findings
        if finding.entry == function.name and finding.suppressed is None
    ]
    figures = () if report.assembled is None else report.assembled.kernels
    return Row(
        function.name,
        page,
        f"{displayed_name(report)}:{report.source.position(function.start).line}",
        ", ".join(targets),
        report,
        tuple(sorted(found, key=lambda finding: (-finding.severity, finding.span.start))),
        tuple(verdict for verdict in report.verdicts if verdict.kernel == function.name),
        len(function.instructions),
        next((figures_line(each) for each in figures if each.kernel == function.name), ""),
    )


def render(title: str, rows: Sequence[Row], problems: Sequence[str]) -> str:
    """The page: kernels with the gravest findings first, then in the order in which they come.

    *problems* are what could not be analysed. The content security policy allows only the style of the page.
    """
    style = read("colors.css") + read("index.css")
    ordered = sorted(rows, key=lambda each: each.gravity)
    return filled(
        "index.html",
        {
            "policy": f"default-src 'none'; style-src {hashed(style)}; base-uri 'none'; form-action 'none'",
            "title": escape(f"{title} - tclint"),
            "style": style,
            "heading": escape(title),
            "summary": escape(_summary(rows, problems)),
            "problems": _problems(problems),
            "rows": "".join(map(_row, ordered)),
            "version": escape(__version__),
        },
    )


def _summary(rows: Sequence[Row], problems: Sequence[str]) -> str:
    worst = Counter(max((f.severity for f in each.findings), default=None) for each in rows)
    files = len({each.report.path for each in rows})
    words = [f"{count(len(rows), 'kernel')} in {count(files, 'file')}"]
    words += [f"{worst[severity]} with {word}s" for severity, word in _SAID.items() if worst[severity]]
    words += [f"{worst[None]} without findings"] if worst[None] else []
    words += [count(len(problems), "problem")] if problems else []
    return ", ".join(words)


def _problems(problems: Sequence[str]) -> str:
    items = "".join(f'  <li class="error">{escape(problem)}</li>\n' for problem in problems)
    return f'<ul class="problems">\n{items}</ul>\n' if items else ""


def _row(each: Row) -> str:
    cost = count(each.instructions, "instruction") + (f", {each.figures}" if each.figures else "")
    return (
        "  <tr>\n"
        f'    <th scope="row"><a href="{escape(each.page)}"><code>{escape(each.name)}</code></a>'
        f'<span class="place">{escape(each.place)} {escape(each.targets)}</span></th>\n'
        f'    <td data-title="Findings">{_findings(each)}</td>\n'
        f'    <td data-title="Verdict">{_verdicts(each.verdicts)}</td>\n'
        f'    <td data-title="Cost">{escape(cost)}</td>\n'
        "  </tr>\n"
    )


def _findings(each: Row) -> str:
    if not each.findings:
        return '<span class="dim">none</span>'
    items = [f"<li>{text}</li>" for text in _listed(each)]
    return f"<ul>{''.join(items)}</ul>"


def _listed(each: Row) -> Iterator[str]:
    for finding in each.findings[:_MAX_SHOWN]:
        line = region(each.report, finding.span)[0][0]
        word = _SAID[finding.severity]
        yield (
            f'<span class="{finding.severity.label}">{word} {escape(finding.rule.id)}</span> line {line}: '
            f"{escape(finding.message)}"
        )
    if (more := len(each.findings) - _MAX_SHOWN) > 0:
        yield f'<span class="dim">and {count(more, "other")}</span>'


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    """The classes of hazards, by what is known of them."""
    items = [
        f'<li><span class="{status.value}">{status.value}</span> {escape(", ".join(names))}</li>'
        for status in Status
        if (names := [verdict.hazard.value for verdict in verdicts if verdict.status is status])
    ]
    return f"<ul>{''.join(items)}</ul>" if items else '<span class="dim">not asked</span>'
