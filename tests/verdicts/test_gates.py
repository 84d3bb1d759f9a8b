"""Classes that have a verdict where the checkers look at nothing else of the kernel: the gate on them is not met."""

from __future__ import annotations

from pathlib import Path

import pytest

from tclint.findings.requirements import ALL_ASSUMPTIONS, requirements
from tclint.findings.selection import Request
from tclint.linting.check import check_source
from tclint.report.gate import missing
from tclint.syntax.source import Source

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "wrong_proofs"
FOUND = sorted(path for kind in ("g", "w4", "w5") for path in CASES.glob(f"{kind}*.ptx"))


@pytest.mark.skipif(not FOUND, reason=f"{CASES} is not here")
def test_the_gate_on_the_class_of_each_case_is_not_met() -> None:
    for path in FOUND:
        data = path.read_bytes()
        hazard = data.split(b"// class ", 1)[1].split(b":", 1)[0].decode()
        report = check_source(Source(data, path.name), Request(assume=ALL_ASSUMPTIONS))
        assert list(missing([report], requirements([f"proved:{hazard}"]))), path.name
