"""The result of a run as the output formats get it: the findings to show, and the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import compress
from typing import TYPE_CHECKING

from tclint._dataclass import dataclass
from tclint._version import __version__
from tclint.findings import selection
from tclint.findings.finding import AsmCount, FileReport, Finding
from tclint.findings.moved import note
from tclint.findings.places import displayed_name
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected
from tclint.report.locate import Locator

if TYPE_CHECKING:
    from tclint.findings.requirements import Requirement
    from tclint.report.baseline import Entry
    from tclint.report.gate import Unmet


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of a run: findings that are shown, then findings that are hidden, by reason and rule id."""

    files: int
    partial: int
    failed: int
    files_with_findings: int
    by_severity: dict[Severity, int]
    """Every severity has an entry, the gravest first."""
    by_rule: dict[str, int]
    """By rule id, sorted; only rules with findings."""
    folded: int = field(default=0, kw_only=True)
    """Findings that are shown only as variants of another one."""
    hidden: dict[str, int]
    """Below ``min-confidence``."""
    version: str = __version__
    below_severity: dict[str, int] = field(default_factory=dict)
    """Below ``min-severity``."""
    ignored: dict[str, int] = field(default_factory=dict)
    """By ``per-file-ignores`` or ``per-entry-ignores``. A rule that is off has no findings, so none are counted."""
    suppressed: dict[str, int] = field(default_factory=dict)
    """By a comment in the source."""
    baselined: dict[str, int] = field(default_factory=dict)
    """By the baseline."""
    gone: tuple[Entry, ...] = ()
    """The entries of the baseline whose finding this run looked for and did not find."""
    fixed: Mapping[Severity, int] = field(default_factory=dict)
    """Findings that ``--fix`` fixed; the other counts do not include them."""
    fixed_duplicates: int = 0
    """Duplicates of findings that ``--fix`` fixed; ``folded`` does not include them."""
    fixable: int = 0
    """Shown findings with a safe fix that can be applied to a file."""
    unsafe_fixable: int = 0
    """Shown findings that have only unsafe fixes."""
    excluded: int = 0
    """Files and folders that ``exclude`` left out."""
    min_confidence: Confidence = Confidence.MEDIUM
    """The lowest confidence that is shown."""
    asm: AsmCount = field(default_factory=AsmCount)
    """The inline assembly strings of all inputs."""
    arch: str | None = None
    """The architecture for which inline assembly is compiled; None if not given."""
    kernels_with_open_questions: int = 0
    """Functions in which the search for some hazard gave up, so that the absence of a finding proves nothing."""
    executed: int = 0
    """Kernels without findings that were to be executed."""
    incomplete: int = 0
    """Those of them that did not run to completion."""
    notes: tuple[str, ...] = ()
    """What comments and the baseline should name instead of the former rule of a finding."""
    unmet: tuple[Unmet, ...] = ()
    """What kernels lack of the requirements."""
    unlisted: int = 0
    """Shown findings that are only counted, because of ``--max-findings``."""
    unprinted: int = 0
    """Shown notes that are only counted, because the format is text."""


@dataclass(frozen=True, slots=True)
class FormatContext:
    """What a format may know about the run and about where its text is written."""

    summary: Summary
    color: bool = False
    width: int = 120
    """Columns of the terminal; without one, a width that reads well."""
    quiet: bool = False
    """Whether people want the findings without the tally."""
    verbose: bool = False
    """Whether people want the PTX below the source from which it was compiled."""
    links: bool = False
    """Whether the terminal probably supports hyperlinks (OSC 8)."""
    locate: Locator = field(default_factory=Locator)
    fail_on: Severity | None = Severity.WARNING
    """The lowest severity that fails the run."""
    baseline: bool = False
    """Whether findings were compared with a baseline, in which case every shown finding is new."""
    notes: bool = True
    """Whether people want all notes; without it, the text format prints those of hazards that hardware was seen to break."""
    part: Mapping[str, object] | None = None
    """What ``tclint merge`` needs of a part of a run, for the formats that it reads; None: the run is not a part."""

    def fails(self, finding: Finding) -> bool:
        """Whether *finding* makes the exit code 1 or 2."""
        return _code(finding, self.fail_on) > 0


def present(
    reports: Iterable[FileReport],
    selected: Selected,
    gone: tuple[Entry, ...] = (),
    arch: str | None = None,
) -> tuple[list[FileReport], Summary]:
    """The reports without hidden findings, and the counts. *gone* are baseline entries that are no longer found,
    and *arch* is the architecture for which inline assembly was checked.

    Findings that a comment suppresses are kept, since some formats show them as suppressed.
    """
    shown: list[FileReport] = []
    by_severity = dict.fromkeys(sorted(Severity, reverse=True), 0)
    by_rule: Counter[str] = Counter()
    out: dict[str, Counter[str]] = {}
    notes: list[str] = []
    for report in reports:
        visible: list[Finding] = []
        for finding in sorted(report.findings, key=lambda f: (f.span.start, f.span.end, f.rule.id)):
            reason = selected.hidden(report, finding)
            if reason:
                out.setdefault(reason, Counter())[finding.rule.id] += 1
            else:
                by_severity[finding.severity] += 1
                by_rule[finding.rule.id] += 1
            if reason in ("", selection.SUPPRESSED):
                visible.append(finding)
            former = finding.former
            if former is not None and former.named_by:
                remedy = "record it again" if finding.baselined else f"name {finding.rule.id}"
                notes.append(note(f"{displayed_name(report)}: {former.named_by}", former.rule, remedy))
        shown.append(replace(report, findings=tuple(visible)))
    summary = Summary(
        files=len(shown),
        partial=sum(report.status == "partial" for report in shown),
        failed=sum(report.status == "failed" for report in shown),
        files_with_findings=sum(any(f.suppressed is None for f in report.findings) for report in shown),
        by_severity=by_severity,
        by_rule=_in_order(by_rule),
        hidden=_in_order(out.get(selection.LOW_CONFIDENCE)),
        below_severity=_in_order(out.get(selection.LOW_SEVERITY)),
        ignored=_in_order(out.get(selection.IGNORED)),
        suppressed=_in_order(out.get(selection.SUPPRESSED)),
        baselined=_in_order(out.get(selection.BASELINED)),
        gone=gone,
        min_confidence=selected.min_confidence,
        asm=_added([report.asm for report in shown if report.asm is not None]),
        arch=arch,
        kernels_with_open_questions=sum(
            len({open_.kernel for open_ in report.open_questions}) for report in shown
        ),
        executed=sum(len(report.executions) for report in shown),
        incomplete=sum(run.end != "done" for report in shown for run in report.executions),
        notes=tuple(dict.fromkeys(notes)),
    )
    return shown, summary


def of_text(
    reports: Sequence[FileReport], context: FormatContext
) -> tuple[Sequence[FileReport], FormatContext]:
    """The reports without the notes that the text format only counts, and a context whose summary has their number."""
    if context.notes:
        return reports, context
    listed, left_out = [], 0
    for report in reports:
        printed = [f.severity > Severity.INFO or f.rule.broke for f in report.findings]
        listed.append(replace(report, findings=tuple(compress(report.findings, printed))))
        left_out += sum(
            not told and f.suppressed is None and f.duplicate_of is None
            for f, told in zip(report.findings, printed, strict=True)
        )
    summary = replace(context.summary, unprinted=left_out)
    return listed, replace(context, summary=summary, notes=True)


def first_of(reports: Iterable[FileReport], limit: int) -> tuple[list[FileReport], int]:
    """The reports with the first *limit* findings, each defect once, that no comment suppresses; the number of the others."""
    listed: list[FileReport] = []
    left, more = limit, 0
    for report in reports:
        findings = [f for f in report.findings if f.suppressed is None and f.duplicate_of is None]
        listed.append(replace(report, findings=tuple(findings[:left])))
        more += len(findings[left:])
        left -= len(findings[:left])
    return listed, more


def _added(counts: list[AsmCount]) -> AsmCount:
    return AsmCount(
        sum(one.strings for one in counts),
        sum(one.unknown for one in counts),
        sum(one.unsure for one in counts),
        sum(one.modules for one in counts),
        sum(one.cpp for one in counts),
    )


def _in_order(counts: Mapping[str, int] | None) -> dict[str, int]:
    return dict(sorted((counts or {}).items()))


def exit_code(reports: Iterable[FileReport], fail_on: Severity | None, unmet: Sequence[Unmet] = ()) -> int:
    """0: clean; 1: findings at or above *fail_on*, or requirements that are *unmet*; 2: an input was not fully analysed
    or has a wrong suppression."""
    codes = [1 if unmet else 0]
    for report in reports:
        codes.append(2 if report.problems else 0)
        codes += [_code(finding, fail_on) for finding in report.findings]
    return max(codes)


def _code(finding: Finding, fail_on: Severity | None) -> int:
    """The exit code for a finding alone."""
    if finding.suppressed is not None:
        return 0
    # With a wrong suppression, what the input hides is unknown, so fail_on and severities do not excuse it.
    if finding.rule.family == "suppression":
        return 2
    return int(fail_on is not None and finding.severity >= fail_on)


def unmet(reports: Iterable[FileReport], required: Sequence[Requirement]) -> tuple[Unmet, ...]:
    """What the kernels of *reports* lack of what is *required*."""
    if not required:
        return ()
    from tclint.report.gate import missing

    return tuple(missing(reports, required))


def tally(summary: Summary) -> str:
    """The run in one sentence: what was found, what is hidden, and what could not be analysed."""
    fixed = sum(summary.fixed.values())
    found = [
        count(number, "note" if severity is Severity.INFO else severity.label)
        for severity, left in summary.by_severity.items()
        if (number := left + summary.fixed.get(severity, 0))
    ]
    readable = summary.files - summary.failed
    files = count(readable, "file")
    if found:
        where = f"{summary.files_with_findings} of {files}" if readable > 1 else files
        parts = [f"Found {', '.join(found)} in {where}"]
        if fixed:
            remaining = sum(summary.by_severity.values())
            parts = [f"Found {', '.join(found)} ({fixed} fixed, {remaining} remaining)"]
        if merged := summary.folded + summary.fixed_duplicates:
            parts.append(f"{count(merged, 'duplicate')} merged")
    else:
        parts = [f"No findings in {files}" if readable else "Nothing was analysed"]
    if summary.unprinted:
        parts.append(
            f"{count(summary.unprinted, 'note')} not printed (--min-severity info prints {_them(summary.unprinted)})"
        )
    if summary.unlisted:
        parts.append(f"{summary.unlisted} of them not shown (--max-findings)")
    if summary.fixable:
        parts.append(f"{summary.fixable} fixable with --fix")
    if summary.unsafe_fixable:
        hidden = count(summary.unsafe_fixable, "more fix" if summary.fixable else "fix").replace(
            "fixs", "fixes"
        )
        parts.append(f"{hidden} with --unsafe-fixes")
    parts += _executed(summary)
    parts += _inline(summary)
    parts += _hidden(summary)
    if summary.kernels_with_open_questions:
        parts.append(
            f"questions left open in {count(summary.kernels_with_open_questions, 'kernel')} (--timings counts them)"
        )
    if summary.excluded:
        parts.append(f"{count(summary.excluded, 'path')} excluded by the configuration")
    if summary.failed:
        parts.append(f"{count(summary.failed, 'input')} could not be analysed")
    if summary.partial:
        parts.append(f"{count(summary.partial, 'input')} only partly analysed")
    return "; ".join(parts) + "."


def statistics_of(reports: Iterable[FileReport], context: FormatContext) -> str:
    """Errors of inputs, the number of findings of each rule with the most frequent first, and the tally."""
    summary = context.summary
    problems = [
        f"{displayed_name(report)}{f':{problem.line}' if problem.line else ''}: error: {problem.message}"
        for report in reports
        for problem in report.problems
    ]
    rules = all_rules()
    width = len(str(max(summary.by_rule.values(), default=0)))
    counted = sorted(summary.by_rule.items(), key=lambda item: (-item[1], item[0]))
    rows = [f"{number:>{width}}  {id}  {rules[id].name}" for id, number in counted]
    return "".join(f"{line}\n" for line in (*problems, *rows, *closing(context)))


def closing(context: FormatContext) -> list[str]:
    """The tally as the last line of a report for people, unless they want none."""
    return [] if context.quiet else [tally(context.summary)]


def timings_of(seconds: Iterable[Mapping[str, float]]) -> str:
    """The seconds of each stage, summed over all inputs, the longest first."""
    total: Counter[str] = Counter()
    for stages in seconds:
        total.update(stages)
    whole = sum(total.values())
    rows = [f"{took:8.3f} s  {took / whole:4.0%}  {stage}" for stage, took in total.most_common()]
    return "\n".join([*rows, f"{whole:8.3f} s        all stages"]) + "\n"


def gave_up_of(reports: Iterable[FileReport], each: bool = False) -> str:
    """How often each question was given up over all inputs, with its most frequent reason; the most frequent first.

    With *each*, every occurrence follows with its location.
    """
    total, reasons, lines = Counter[str](), Counter[tuple[str, str]](), list[str]()
    for report in reports:
        for open_ in report.open_questions:
            total[open_.question] += open_.times
            reasons[open_.question, open_.why] += open_.times
            often = f" ({open_.times} times)" if open_.times > 1 else ""
            lines.append(f"{report.path}:{open_.line}: {open_.kernel}: {open_.question}: {open_.why}{often}")
    rows = [
        f"gave up {number:>6}  {question}: {max((n, why) for (of, why), n in reasons.items() if of == question)[1]}"
        for question, number in total.most_common()
    ]
    return "".join(f"{line}\n" for line in (*rows, *(lines if each else ())))


def _executed(summary: Summary) -> Iterator[str]:
    """The number of kernels that were executed since they have no finding."""
    if summary.executed:
        incomplete = f", {summary.incomplete} of them not to completion (--timings gives the reasons)"
        yield f"{count(summary.executed, 'kernel')} executed{incomplete if summary.incomplete else ''}"


def _inline(summary: Summary) -> Iterator[str]:
    """What was not checked of inline assembly, so that an empty report is not taken for more than it is."""
    asm = summary.asm
    if asm.cpp and not asm.strings:
        none = "" if asm.modules else ", and there is none"
        yield f"nothing was compiled: only the strings with PTX are read{none}"
    if asm.strings:
        checked = "syntax, operands and availability" if summary.arch else "syntax and operands"
        yield f"{count(asm.strings, 'asm string')} checked for {checked} only"
        if asm.unknown:
            yield f"{asm.unknown} of them with statements known only to the preprocessor or to Python"
        if summary.arch and asm.unsure:
            yield f"unknown whether {asm.unsure} of them are compiled for {summary.arch}"
        if not summary.arch:
            yield "use --arch sm_XX to check availability too"
    if asm.cpp:
        yield "'tclint check --compile FILE' checks all PTX that nvcc makes of CUDA C++"


def _hidden(summary: Summary) -> Iterator[str]:
    """The number of hidden findings, for each reason."""
    if hidden := sum(summary.hidden.values()):
        if summary.min_confidence > Confidence.MEDIUM:
            yield f"{count(hidden, 'finding')} below {summary.min_confidence.label} confidence hidden"
        else:
            yield f"{count(hidden, 'low-confidence finding')} hidden (--pedantic shows {_them(hidden)})"
    if below := sum(summary.below_severity.values()):
        yield f"{count(below, 'finding')} below --min-severity hidden"
    if ignored := sum(summary.ignored.values()):
        yield f"{count(ignored, 'finding')} ignored by the configuration"
    if suppressed := sum(summary.suppressed.values()):
        yield f"{count(suppressed, 'finding')} suppressed by comments"
    if baselined := sum(summary.baselined.values()):
        yield f"{count(baselined, 'finding')} hidden by the baseline"
    if summary.gone:
        yield f"{count(len(summary.gone), 'baseline finding')} gone (tclint baseline --prune removes them)"


def _them(number: int) -> str:
    return "it" if number == 1 else "them"


def count(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
