"""``tclint verdict``: what is known of each class of hazards in a kernel, with every obligation and what discharges it.

docs/verdicts.md shows the text; docs/verdicts.schema.json is the schema of the JSON. ``schema`` is incremented when a key is
removed or changes its meaning, not when one is added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from tclint._dataclass import dataclass
from tclint._json import to_json
from tclint.driver.one import Input
from tclint.findings.finding import FileReport
from tclint.findings.places import displayed_name, region
from tclint.findings.requirements import ALL_ASSUMPTIONS
from tclint.findings.selection import Request, Selected
from tclint.findings.spans import Span
from tclint.findings.verdicts import Assumption, HazardClass, Obligation, Status, Verdict
from tclint.inspect.inputs import shown
from tclint.inspect.tables import few, printable_line, short_name
from tclint.linting.check import check_source
from tclint.report.formats._style import BLUE, BOLD, RED, YELLOW, Style
from tclint.report.formats._verdicts import by_kernel, details, reason_fields, reason_words
from tclint.syntax.source import Problem, Source

__all__ = [
    "MAX_OBLIGATIONS",
    "SCHEMA",
    "KernelVerdicts",
    "ShownVerdicts",
    "read",
    "render_json",
    "render_text",
    "show",
]

SCHEMA = 1
MAX_OBLIGATIONS = 20
"""Obligations of one class that the text lists unless all are wanted; those that are open come first."""
_COLORS = {Status.VIOLATED: RED, Status.UNKNOWN: YELLOW, Status.BOUNDED: BLUE, Status.PROVED: BOLD}


@dataclass(frozen=True, slots=True)
class KernelVerdicts:
    """One kernel, with the verdicts on the classes that are wanted."""

    name: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class ShownVerdicts:
    """What is shown of one input."""

    report: FileReport
    kernels: tuple[KernelVerdicts, ...] = ()

    @property
    def problems(self) -> Sequence[Problem]:
        return self.report.problems

    @property
    def functions(self) -> Sequence[str]:
        """The names of all functions with a body."""
        return self.report.entries


def show(
    item: Input,
    entry: tuple[str, ...],
    *,
    assume: frozenset[Assumption],
    hazards: Collection[HazardClass] = (),
) -> ShownVerdicts:
    """What is shown of one input: the verdicts on *hazards*, by default on all classes that a kernel uses.

    Every error becomes a problem, unless ``TCLINT_DEBUG`` is set.
    """
    return shown(item, entry, partial(read, assume=assume, hazards=hazards), _failed)


def _failed(path: str, member: str | None, why: Problem) -> ShownVerdicts:
    return ShownVerdicts(FileReport(path=path, member=member, status="failed", problems=(why,)))


def read(
    source: Source,
    entry: tuple[str, ...] = (),
    *,
    assume: frozenset[Assumption] = ALL_ASSUMPTIONS,
    hazards: Collection[HazardClass] = (),
) -> ShownVerdicts:
    """The verdicts on the kernels in *source*, or on those that match a pattern in *entry*; all rules are checked that
    are on by default."""
    report = check_source(source, Request(Selected(entry=entry), assume=assume))
    kernels = (
        KernelVerdicts(name, tuple(v for v in verdicts if not hazards or v.hazard in hazards))
        for name, verdicts in by_kernel(report)
    )
    return ShownVerdicts(report, tuple(kernels))


# ---------------------------------------------------------------- text


def render_text(
    shown: Iterable[ShownVerdicts], color: bool = False, most: int | None = MAX_OBLIGATIONS
) -> str:
    """Each kernel with its classes, and below each the reasons, launches, and at most *most* obligations; None: all."""
    style = Style(color)
    blocks = [block for one in shown for block in _blocks(one, style, most)]
    return "\n".join("".join(f"{printable_line(line, color)}\n" for line in block) for block in blocks)


def _blocks(one: ShownVerdicts, style: Style, most: int | None) -> Iterator[list[str]]:
    report = one.report
    where = displayed_name(report)
    for problem in report.problems:
        at = f"{where}:{problem.line}" if problem.line else where
        yield [f"{style(RED, 'error')}: {at}: {problem.message}"]
    for kernel in one.kernels:
        lines = [f"{style(BOLD, f'kernel {short_name(kernel.name)}')}  {where}"]
        for verdict in kernel.verdicts:
            lines += _lines(report, verdict, style, most)
        yield lines if kernel.verdicts else [*lines, "  uses no such class"]


def _lines(report: FileReport, verdict: Verdict, style: Style, most: int | None) -> Iterator[str]:
    status = style(_COLORS[verdict.status], verdict.status.value)
    known = details(report, verdict) if verdict.status in (Status.VIOLATED, Status.PROVED) else ""
    yield f"  {verdict.hazard.value}: {status}{known}"
    yield from (f"    {reason_words(report, reason)}" for reason in verdict.reasons)
    yield from (f"    {launch}" for launch in verdict.launches)
    obligations = sorted(verdict.obligations, key=lambda one: one.discharge is not None)
    yield from (f"    {_words(report, one)}" for one in obligations[:most])
    if most is not None and len(obligations) > most:
        yield f"    and {len(obligations) - most} more obligations; --all lists them"


def _words(report: FileReport, one: Obligation) -> str:
    """``line 40, for line 52: what must hold: wait in line 50``."""
    use = f", for line {_line(report, one.use)}" if one.use is not None else ""
    if one.discharge is None:
        known = f"not shown: {one.why}"
    else:
        lines = [str(_line(report, at)) for at in one.by]
        known = one.discharge.value + (f" in line {few(lines)}" if lines else "")
    return f"line {_line(report, one.operation)}{use}: {one.what}: {known}"


def _line(report: FileReport, span: Span) -> int:
    return region(report, span)[0].line


# ---------------------------------------------------------------- JSON


def render_json(shown: Iterable[ShownVerdicts]) -> str:
    """The same as a JSON document, with all obligations."""
    files = [_file(one) for one in shown]
    return to_json({"schema": SCHEMA, "files": files})


def _file(one: ShownVerdicts) -> dict[str, Any]:
    report = one.report
    return {
        "path": report.path,
        "member": report.member,
        "status": report.status,
        "problems": [{"line": problem.line, "message": problem.message} for problem in report.problems],
        "kernels": [
            {"name": kernel.name, "verdicts": [_verdict(report, verdict) for verdict in kernel.verdicts]}
            for kernel in one.kernels
        ],
    }


def _verdict(report: FileReport, verdict: Verdict) -> dict[str, Any]:
    return {
        "class": verdict.hazard.value,
        "status": verdict.status.value,
        "rules": list(verdict.rules),
        "assumptions": [assumption.value for assumption in verdict.assumptions],
        "launches": list(verdict.launches),
        "reasons": [reason_fields(report, reason) for reason in verdict.reasons],
        "obligations": [_obligation(report, one) for one in verdict.obligations],
    }


def _obligation(report: FileReport, one: Obligation) -> dict[str, Any]:
    return {
        "line": _line(report, one.operation),
        "use_line": _line(report, one.use) if one.use is not None else None,
        "what": one.what,
        "discharge": one.discharge.value if one.discharge is not None else None,
        "by": [_line(report, at) for at in one.by],
        "why": one.why or None,
    }
