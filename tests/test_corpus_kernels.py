"""What tclint says of kernels of the corpus (benchmarks/README.md) that docs/real-kernels.md judges.

``corpus_kernels.tsv`` records the findings, with their verdicts; a kernel that is not in this machine's corpus is
passed over.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from benchmarks.corpus.builder import default_cache
from tclint.driver import check_source
from tclint.finding import Confidence, Severity
from tclint.source import Source

RECORD = Path(__file__).parent / "corpus_kernels.tsv"


def recorded() -> dict[str, set[tuple[str, int]]]:
    found: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for row in RECORD.read_text("utf-8").splitlines()[1:]:
        rule, kernel, line, verdict = row.split("\t")
        assert verdict in ("true", "false", "undecidable")
        found[kernel].add((rule, int(line)))
    return found


@pytest.mark.parametrize("kernel", sorted(recorded()))
def test_the_findings_are_those_on_record(kernel: str) -> None:
    path = default_cache() / kernel
    if not path.is_file():
        pytest.skip(f"{kernel} is not in the corpus of this machine (python -m benchmarks.corpus)")
    report = check_source(Source.read(path))
    assert report.source is not None
    shown = {
        (finding.rule.id, report.source.position(finding.span.start).line)
        for finding in report.findings
        if finding.severity >= Severity.WARNING and finding.confidence > Confidence.LOW
    }
    assert shown == recorded()[kernel]
