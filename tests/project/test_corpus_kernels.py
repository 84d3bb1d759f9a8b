"""What tclint says of kernels of the corpus: the findings that ``benchmarks/verdicts.tsv`` judges, and no others.

A kernel that is not in this machine's corpus is passed over.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from benchmarks.corpus.builder import default_cache
from benchmarks.findings import ALL, verdicts
from tclint.findings.scales import Confidence, Severity
from tclint.linting.check import check_source
from tclint.syntax.source import Source


def recorded() -> dict[str, set[tuple[str, str]]]:
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for rule, kernel, line in verdicts():
        found[kernel].add((rule, line))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kernel", sorted(recorded()))
def test_the_findings_are_those_on_record(kernel: str) -> None:
    path = default_cache() / kernel
    if not path.is_file():
        pytest.skip(f"{kernel} is not in the corpus of this machine (python -m benchmarks.corpus)")
    report = check_source(Source.read(path))
    assert report.source is not None
    judged = recorded()[kernel]
    alike = {rule for rule, line in judged if line == ALL}
    shown = {
        (
            finding.rule.id,
            ALL if finding.rule.id in alike else str(report.source.position(finding.span.start).line),
        )
        for finding in report.findings
        if finding.severity >= Severity.WARNING and finding.confidence > Confidence.LOW
    }
    assert shown == judged
