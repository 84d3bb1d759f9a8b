"""``tclint verdict``: what is known of each class of hazards in a kernel, with every obligation and what discharges it.

docs/verdicts.md shows the text; docs/verdicts.schema.json is the schema of the JSON. ``schema`` is incremented when a key is
removed or changes its meaning, not when one is added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from tclint._dataclass import dataclass
from tclint._json import to_json
from tclint.driver.one import Input
from tclint.findings.facts import Fact
from tclint.findings.finding import FileReport
from tclint.findings.places import displayed_name, region
from tclint.findings.requirements import ALL_ASSUMPTIONS
from tclint.findings.selection import Request, Selected
from tclint.findings.spans import Span
from tclint.findings.verdicts import (
    UNEXECUTED,
    Assumption,
    Discharge,
    HazardClass,
    Obligation,
    Reason,
    Status,
    Verdict,
)
from tclint.inspect.inputs import shown
from tclint.inspect.tables import columns, few, printable_line, short_name
from tclint.inspect.what_if import Supposed, WhatIf, supposing
from tclint.linting.check import check_source
from tclint.report.formats._style import BLUE, BOLD, RED, YELLOW, Style
from tclint.report.formats._verdicts import by_kernel, details, reason_fields, reason_lines
from tclint.report.summary import count
from tclint.syntax.source import Problem, Source

__all__ = [
    "SCHEMA",
    "KernelVerdicts",
    "ShownVerdicts",
    "read",
    "render_json",
    "render_text",
    "show",
]

SCHEMA = 1
_COLORS = {Status.VIOLATED: RED, Status.UNKNOWN: YELLOW, Status.BOUNDED: BLUE, Status.PROVED: BOLD}


@dataclass(frozen=True, slots=True)
class KernelVerdicts:
    """One kernel, with the verdicts on the classes that are wanted."""

    name: str
    verdicts: tuple[Verdict, ...]
    then: Supposed | None = None
    """What would be known in the launches that are supposed; None if none are, or the kernel cannot be launched so."""


@dataclass(frozen=True, slots=True)
class ShownVerdicts:
    """What is shown of one input."""

    report: FileReport
    kernels: tuple[KernelVerdicts, ...] = ()
    supposing: bool = False
    """Whether launches are supposed."""

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
    what_if: WhatIf | None = None,
) -> ShownVerdicts:
    """What is shown of one input: the verdicts on *hazards*, by default on all classes that a kernel uses.

    Every error becomes a problem, unless ``TCLINT_DEBUG`` is set.
    """
    return shown(item, entry, partial(read, assume=assume, hazards=hazards, what_if=what_if), _failed)


def _failed(path: str, member: str | None, why: Problem) -> ShownVerdicts:
    return ShownVerdicts(FileReport(path=path, member=member, status="failed", problems=(why,)))


def read(
    source: Source,
    entry: tuple[str, ...] = (),
    *,
    assume: frozenset[Assumption] = ALL_ASSUMPTIONS,
    hazards: Collection[HazardClass] = (),
    what_if: WhatIf | None = None,
) -> ShownVerdicts:
    """The verdicts on the kernels in *source*, or on those that match a pattern in *entry*; all rules are checked that
    are on by default.

    With *what_if* also those in the launches that it describes; without, what would prove a class that is unknown.
    """
    alone = what_if is not None and what_if.launches is not None
    fact = Fact() if what_if is None else None if alone else what_if.fact
    request = Request(Selected(entry=entry), assume=assume, what_if=fact, bounded=True)
    report = check_source(source, request)
    then = {} if what_if is None else supposing(source, request, report, what_if)
    kernels = [
        KernelVerdicts(
            name,
            tuple(v for v in verdicts if not hazards or v.hazard in hazards),
            then.get(name),
        )
        for name, verdicts in by_kernel(report)
    ]
    return ShownVerdicts(report, tuple(kernels), what_if is not None)


# ---------------------------------------------------------------- text


def render_text(shown: Iterable[ShownVerdicts], color: bool = False, every: bool = False) -> str:
    """Each kernel with its classes, and below each the launches, the reasons, and the obligations that are open.

    Those that differ in their places alone are one, with the first places. With *every*, each obligation has a line.
    """
    style = Style(color)
    blocks = [block for one in shown for block in _blocks(one, style, every)]
    return "\n".join("".join(f"{printable_line(line, color)}\n" for line in block) for block in blocks)


def _blocks(one: ShownVerdicts, style: Style, every: bool) -> Iterator[list[str]]:
    report = one.report
    where = displayed_name(report)
    for problem in report.problems:
        at = f"{where}:{problem.line}" if problem.line else where
        yield [f"{style(RED, 'error')}: {at}: {problem.message}"]
    for kernel in one.kernels:
        lines = [f"{style(BOLD, f'kernel {short_name(kernel.name)}')}  {where}"]
        if one.supposing:
            yield [*lines, *_compared(report, kernel)]
            continue
        alike: dict[tuple[str, ...], list[str]] = {}
        for verdict in kernel.verdicts:
            alike.setdefault(tuple(_lines(report, verdict, style, every)), []).append(verdict.hazard.value)
        for (known, *below), names in alike.items():
            lines += [f"  {name}: {known}" for name in ([", ".join(names)] if below else names)]
            lines += below
        lines += _undecided(kernel)
        yield lines if kernel.verdicts else [*lines, "  uses no such class"]


def _compared(report: FileReport, kernel: KernelVerdicts) -> Iterator[str]:
    """A table of what is known of each class, and of what would be known in the launches that are supposed."""
    if kernel.then is None:
        yield "  no launch of it is like that"
        return
    yield f"  with {kernel.then.fact}"
    then = {verdict.hazard: verdict for verdict in kernel.then.verdicts}
    rows = [("  class", "now", "with it")]
    for now in kernel.verdicts:
        known = then.get(now.hazard, now)
        words = details(report, known) if known.status is not Status.UNKNOWN else ""
        rows.append((f"  {now.hazard.value}", now.status.value, f"{known.status.value}{words}"))
    yield from columns(rows)


def _undecided(kernel: KernelVerdicts) -> Iterator[str]:
    """Of what is unknown: what no fact that was tried decides, and what an execution would bound."""
    left = [v for v in kernel.verdicts if v.decided is not None and not v.decided.fact]
    tried = dict.fromkeys(fact for v in left if v.decided is not None for fact in v.decided.tried)
    if tried:
        names = ", ".join(v.hazard.value for v in left)
        yield f"  of {count(len(tried), 'fact')} about its launches, none proves {names}"
    open_ = [v.hazard for v in kernel.verdicts if v.status is Status.UNKNOWN and v.hazard not in UNEXECUTED]
    if open_:
        yield f"  for one launch, check --verdict --execute may bound {', '.join(h.value for h in open_)}"


def _lines(report: FileReport, verdict: Verdict, style: Style, every: bool) -> Iterator[str]:
    """What is known of a class, and the lines below it."""
    status = style(_COLORS[verdict.status], verdict.status.value)
    known = details(report, verdict) if verdict.status in (Status.VIOLATED, Status.PROVED) else ""
    yield f"{status}{known}{_counted(verdict)}"
    yield from (f"    {launch}" for launch in verdict.launches)
    if verdict.decided is not None and verdict.decided.fact:
        assumed = ", ".join(assumption.value for assumption in verdict.decided.assumptions)
        yield f"    proved with {verdict.decided.fact}{f' (assuming {assumed})' if assumed else ''}"
    if every:
        yield from (f"    {_reason(report, reason, every)}" for reason in verdict.reasons)
        obligations = sorted(verdict.obligations, key=lambda one: one.discharge is not None)
        yield from (f"    {_words(report, one)}" for one in obligations)
    elif verdict.status is not Status.BOUNDED:
        yield from (f"    {line}" for line in _open(report, verdict))


def _counted(verdict: Verdict) -> str:
    """``; 5 obligations: 2 not shown, 3 wait``: how many are open, and how many are discharged by what."""
    found = Counter(one.discharge for one in verdict.obligations)
    words = [f"{found[None]} not shown"] * (found[None] > 0)
    words += [f"{found[each]} {each.value}" for each in Discharge if found[each]]
    return f"; {count(found.total(), 'obligation')}: {', '.join(words)}" if words else ""


def _open(report: FileReport, verdict: Verdict) -> Iterator[str]:
    """The obligations that are open, once if they differ in their places alone, after the reasons that they do not state."""
    groups: dict[tuple[str, str], list[Obligation]] = {}
    for one in verdict.obligations:
        if one.discharge is None:
            groups.setdefault((one.what, one.why), []).append(one)
    stated = {why for _, why in groups}
    yield from (_reason(report, reason) for reason in verdict.reasons if reason.what not in stated)
    for (what, why), found in groups.items():
        yield f"not shown{f' {len(found)} times' if len(found) > 1 else ''}: {what}"
        yield f"  {_places(report, found)}: {why}"
        yield from (f"  {reason.help}" for reason in verdict.reasons if reason.what == why and reason.help)


def _reason(report: FileReport, reason: Reason, every: bool = False) -> str:
    """``lines 12, 14: what is not known; what would make it known``; all lines if *every* one is wanted."""
    lines = reason_lines(report, reason)
    at = f"{_named_lines(lines, every)}: " if lines else ""
    return f"{at}{reason.what}{f'; {reason.help}' if reason.help else ''}"


def _places(report: FileReport, obligations: Sequence[Obligation]) -> str:
    """``lines 40, 44, for line 52``: the operations, and what each of some of them must precede."""
    uses = dict.fromkeys(_line(report, one.use) for one in obligations if one.use is not None)
    at = _named_lines(dict.fromkeys(_line(report, one.operation) for one in obligations))
    return f"{at}, for {_named_lines(uses)}" if uses else at


def _named_lines(lines: Collection[int], every: bool = False) -> str:
    """``line 4``, ``lines 4, 6``, or the first ones and how many more there are; all if *every* one is wanted."""
    numbers = [str(line) for line in sorted(lines)]
    return f"line{'s' * (len(numbers) != 1)} {', '.join(numbers) if every else few(numbers)}"


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
            {
                "name": kernel.name,
                "verdicts": [_verdict(report, verdict) for verdict in kernel.verdicts],
                **_then(one, kernel),
            }
            for kernel in one.kernels
        ],
    }


def _then(one: ShownVerdicts, kernel: KernelVerdicts) -> dict[str, Any]:
    """What would be known in the launches that are supposed; null if the kernel is not launched so."""
    if not one.supposing:
        return {}
    if kernel.then is None:
        return {"what_if": None}
    wanted = {verdict.hazard for verdict in kernel.verdicts}
    known = [_verdict(one.report, verdict) for verdict in kernel.then.verdicts if verdict.hazard in wanted]
    return {"what_if": {"fact": kernel.then.fact, "verdicts": known}}


def _verdict(report: FileReport, verdict: Verdict) -> dict[str, Any]:
    return {
        "class": verdict.hazard.value,
        "status": verdict.status.value,
        "rules": list(verdict.rules),
        "assumptions": [assumption.value for assumption in verdict.assumptions],
        "launches": list(verdict.launches),
        "decided_by": verdict.decided.fact or None if verdict.decided is not None else None,
        "tried": list(verdict.decided.tried) if verdict.decided is not None else [],
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
