"""The details of a finding as plain text, shared by several formats for programs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tclint.findings.finding import FileReport, Finding, Step, Variant
from tclint.findings.places import displayed_name, region
from tclint.findings.rules import manual_reference
from tclint.findings.scales import Confidence
from tclint.report.locate import Locator, ShownLocation, calls
from tclint.report.summary import FormatContext, count

SHOWN_VARIANTS = 5
"""Locations of variants that are listed; the remaining ones are only counted."""

NO_LINE = "no .loc directive gives its source line; compile with line information (nvcc -lineinfo)"


def details(report: FileReport, finding: Finding, context: FormatContext) -> Iterator[str]:
    """Lines of plain text: the steps of the path, the help, the variants, and where the finding comes from."""
    for number, step in enumerate(finding.steps, 1):
        yield f"{number}. {_at(context.locate(report, step))}: {step_words(step)}"
    for indented, step in parties(finding):
        yield f"deadlock: {'  ' * indented}{_at(context.locate(report, step))}: {step_words(step)}"
    if finding.help:
        yield f"help: {finding.help}"
    if finding.help_source is not None:
        yield f"help: {finding.help_source.producer}: {finding.help_source.text}"
    yield from (f"note: {text}" for text in variant_notes(report, finding, counted=True))
    line, column = region(report, finding.span)[0]
    yield f"PTX: {displayed_name(report)}:{line}:{column}{f' in {finding.entry}' if finding.entry else ''}"
    if finding.confirmation is not None:
        yield f"executed: {finding.confirmation}"
    if finding.source_location is not None:
        yield f"source: {', '.join(chain(finding))}"
    elif context.locate.mode == "source":
        yield f"note: {NO_LINE}"
    yield f"rule: {finding.rule.name} ({certainty(finding)}), {manual_reference(finding.rule.manual)}"


def step_words(step: Step) -> str:
    """``[warps 4-7] reads it (tile+0..2048)``: which threads do what to which object."""
    role = f"[{step.role}] " if step.role else ""
    return f"{role}{step.message}{f' ({step.object})' if step.object else ''}"


def certainty(finding: Finding) -> str:
    """The confidence of a finding and how it was found: ``high confidence, static and replay``."""
    confirmed = finding.confidence is Confidence.CONFIRMED
    methods = f"{finding.method.value}{' and replay' if finding.replayed else ''}"
    return f"{finding.confidence.label}{'' if confirmed else ' confidence'}, {methods}"


def parties(finding: Finding) -> Iterator[tuple[bool, Step]]:
    """The parties of a deadlock: each wait, and after it, indented, the operations that would complete it.

    These operate on what is waited for, so their object is left out.
    """
    for party in finding.deadlock:
        yield False, party.wait
        yield from ((True, replace(arrival, object=None)) for arrival in party.arrivals)


def source_of(step: Step, locate: Locator) -> str:
    """The source line of a step that the user wrote, without folders: ``gemm.cu:50``; "" if it is unknown."""
    if step.source_location is None:
        return ""
    line = locate.user_line(step.source_location)
    return f"{os.path.basename(line.file)}:{line.line}"


def chain(finding: Finding) -> list[str]:
    """``a.cuh:10:3``, then ``inlined at gemm.cu:50:1`` for each call through which it was inlined."""
    assert finding.source_location is not None
    first, *rest = (
        f"{call.file}:{call.line}{f':{call.column}' if call.column else ''}"
        for call in calls(finding.source_location)
    )
    return [first, *(f"inlined at {call}" for call in rest)]


def listed(
    reports: Sequence[FileReport], context: FormatContext
) -> Iterator[tuple[FileReport, list[tuple[Finding, ShownLocation]]]]:
    """Each report with its findings and their locations, for a program that lists findings by location.

    A duplicate is left out if it is at the location of the finding that it duplicates: a source line.
    """
    located = [(report, [(f, context.locate(report, f)) for f in report.findings]) for report in reports]
    taken = {
        (finding.rule.id, target)
        for _, findings in located
        for finding, target in findings
        if finding.duplicate_of is None
    }
    for report, findings in located:
        yield (
            report,
            [
                pair
                for pair in findings
                if pair[0].duplicate_of is None or (pair[0].rule.id, pair[1]) not in taken
            ],
        )


def variant_notes(
    report: FileReport, finding: Finding, *, ptx: bool = False, counted: bool = False
) -> Iterator[str]:
    """Notes that give the locations of the findings merged into this one, or of the one that it duplicates.

    *ptx*: whether they have to say that the lines are those of the PTX; *counted*: whether they count what has the same cause.
    """
    if finding.duplicate_of is not None:
        yield f"a duplicate of the finding at {named(finding.duplicate_of)}"
    home = (report.path, report.member, finding.entry)
    here = [v for v in finding.variants if (v.path, v.member, v.entry) == home]
    there = [v for v in finding.variants if (v.path, v.member, v.entry) != home]
    lines = in_lines(v.line for v in here) + " of the PTX" * ptx
    if counted and finding.count > 1:
        yield f"{finding.count} places have this cause{f', among them {lines}' if here else '; the first is shown'}"
    elif here:
        yield f"the same cause is also reported at {lines}"
    if there:
        kernels = {(v.path, v.member, v.entry) for v in there}
        yield f"also in {count(len(kernels), 'other compiled variant')}: {_listed([named(v) for v in there])}"


def where(target: ShownLocation) -> str:
    """``gemm.cu:50:3``."""
    return f"{target.path}:{target.line}{f':{target.column}' if target.column else ''}"


def _at(target: ShownLocation) -> str:
    """``gemm.cu:50``, or ``line 42`` in the PTX."""
    return f"{target.path}:{target.line}" if target.source else f"line {target.line}"


def named(variant: Variant) -> str:
    """``gemm.fatbin(gemm.ptx):42``."""
    return f"{variant.path}{f'({variant.member})' if variant.member else ''}:{variant.line}"


def in_lines(numbers: Iterable[int]) -> str:
    """``line 3``, ``lines 3, 5``; of many lines, the first."""
    names = list(map(str, numbers))
    return f"{'line' if len(names) == 1 else 'lines'} {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - SHOWN_VARIANTS
    shown = names if more <= 1 else names[:SHOWN_VARIANTS]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(shown) < len(names) else "")
