"""Lint a set once, and lint copies of a part of it with one planted fault each."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks import mutation
from benchmarks.equivalence import equivalent
from benchmarks.faults import OPERATORS, Fault, Kernel, apply
from benchmarks.strangers.ledger import Row
from benchmarks.strangers.pool import Candidate
from tclint.findings.finding import FileReport
from tclint.findings.scales import Severity
from tclint.findings.selection import Selected
from tclint.linting.check import check_source
from tclint.syntax.source import Source, SourceError

__all__ = ["FAULTS", "lint", "mutant", "plant"]

FAULTS = 300
"""Faults that are planted for a set."""
PER_KERNEL = 4
"""Copies of one kernel, each with a fault of another operator."""


def lint(name: str, candidate: Candidate, path: Path) -> tuple[Row, list[Row]]:
    """The rows of the tables of kernels and of findings: errors and warnings that are shown by default."""
    selected = Selected()
    found: list[Row] = []
    try:
        report = check_source(Source.from_bytes(candidate.text.encode(), str(path)))
    except SourceError as error:
        status, found = 2, [_row(name, candidate, "unreadable", 0, str(error))]
    except Exception as error:  # noqa: BLE001  # a crash is a result
        status, found = 3, [_row(name, candidate, "crash", 0, f"{type(error).__name__}: {error}")]
    else:
        found = [_row(name, candidate, "problem", p.line, p.message) for p in report.problems]
        status = 2 if found else 0
        for finding in report.findings:
            if finding.severity >= Severity.WARNING and not selected.hidden(report, finding):
                status = status or 1
                scales = (finding.severity.label, finding.confidence.label)
                line = _line(report, finding)
                found.append(_row(name, candidate, finding.rule.id, line, finding.message, *scales))
    about = {
        "set": name, "digest": candidate.digest, "skeleton": candidate.skeleton, "source": candidate.source,
        "origin": candidate.origin, "name": candidate.name, "target": candidate.target,
        "asynchronous": "yes" if candidate.asynchronous else "no", "status": str(status),
    }  # fmt: skip
    return about, found


def _line(report: FileReport, finding: Any) -> int:
    assert report.source is not None
    return report.source.position(finding.span.start).line


def _row(
    name: str,
    candidate: Candidate,
    rule: str,
    line: int,
    message: str,
    severity: str = "",
    confidence: str = "",
) -> Row:
    return {
        "set": name, "digest": candidate.digest, "rule": rule, "severity": severity, "confidence": confidence,
        "line": str(line), "message": " ".join(message.split()), "verdict": "", "reason": "",
    }  # fmt: skip


def plant(name: str, drawn: Sequence[Candidate], seed: int, folder: Path) -> Iterator[Row]:
    """A row for each of the :data:`FAULTS` copies of a kernel with a fault, or for fewer if the set has too few sites.

    The kernels are drawn from those with a site for a fault, the operators of a kernel from those with a site in it.
    """
    rng = random.Random(seed)
    left = FAULTS
    for candidate in rng.sample(drawn, len(drawn)):
        if not left:
            return
        path = folder / f"{candidate.digest}.ptx"
        if len(candidate.text) > mutation.LARGEST:
            continue
        try:
            for row in islice(_planted(name, candidate, path, rng), left):
                left -= 1
                yield row
        except Exception as error:  # noqa: BLE001  # one kernel must not cost the faults in all others
            left -= 1
            yield _fault(name, candidate, "", 0, "crash", "", [f"{type(error).__name__}: {error}"])


def mutant(folder: Path, digest: str, operator: str, line: int | str) -> Path:
    """Where the copy of a kernel is whose *line* an operator changed."""
    return folder / "planted" / f"{digest}.{operator.replace(' ', '-')}.{line}.ptx"


def _planted(name: str, candidate: Candidate, path: Path, rng: random.Random) -> Iterator[Row]:
    sites: dict[str, list[tuple[Kernel, Fault]]] = {}
    for kernel in mutation.kernels(path):
        for operator in OPERATORS.values():
            if operator.rules and (faults := list(operator.plant(kernel))):
                sites.setdefault(operator.name, []).extend((kernel, fault) for fault in faults)
    before: FileReport | None = None
    for chosen in rng.sample(sorted(sites), min(PER_KERNEL, len(sites))):
        operator = OPERATORS[chosen]
        kernel, fault = rng.choice(sites[chosen])
        changed = apply(kernel.data, fault.edits)
        line = kernel.line(fault.edits[0].span.start)
        target = mutant(path.parent, candidate.digest, chosen, line)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(changed)
        places = frozenset(kernel.line(kernel.span(i).start) for i in fault.places)
        before = before or mutation.lint(path, kernel.data)
        said = mutation.verdict(before, mutation.lint(path, changed), operator.rules, places)
        proof = equivalent(kernel, fault)
        yield _fault(name, candidate, chosen, line, said.result, proof.reason if proof else "", said.new)


def _fault(
    name: str, candidate: Candidate, operator: str, line: int, result: str, proof: str, new: Sequence[str]
) -> Row:
    return {
        "set": name, "digest": candidate.digest, "operator": operator, "line": str(line), "result": result,
        "proof": proof, "findings": " | ".join(" ".join(word.split()) for word in new),
    }  # fmt: skip
