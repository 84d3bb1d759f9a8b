"""``benchmarks.confirmations``: a verdict that the kernel without the fault would get as well is refuted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.confirmations import main, moved, run, table
from tclint.findings.finding import Edit
from tclint.findings.spans import Span
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.support import HOPPER, before_the_wait, module

DESCRIPTIONS = "    mov.b64 %rd0, 64;\n    mov.b64 %rd1, 64;\n"
READ = "    add.f32 %f8, %f0, %f1;"
WAIT = "wgmma.wait_group.sync.aligned 0;"
COMMIT = "wgmma.commit_group.sync.aligned;"


def kernel(use: str) -> str:
    """A kernel with a wgmma whose descriptors name the start of shared memory."""
    text = before_the_wait(use).replace("    wgmma.fence", DESCRIPTIONS + "    wgmma.fence")
    return module(text, header=HOPPER)


def record(text: str, removed: str) -> dict[str, Any]:
    at = text.index(removed)
    return {"operator": "deleted", "edits": [(at, at + len(removed), " " * len(removed))]}


def verdicts(tmp_path: Path, text: str, removed: str) -> list[tuple[str, str]]:
    path = tmp_path / "kernel.ptx"
    path.write_text(text)
    return [(r["rule"], r["status"]) for r in run(path, [record(text, removed)], 5.0)]


def test_an_observation_that_only_the_fault_causes_is_confirmed(tmp_path: Path) -> None:
    waited = kernel("").replace("    ret;", f"{READ}\n    ret;")
    assert verdicts(tmp_path, waited, WAIT) == [("WG001", "confirmed")]


def test_an_observation_that_the_kernel_had_before_refutes_the_verdict(tmp_path: Path) -> None:
    """The read is too early already; without the commit, the finding has another message."""
    assert verdicts(tmp_path, kernel(READ), COMMIT) == [("WG001", "refuted")]


def test_a_finding_moves_back_across_the_edits() -> None:
    text = kernel(READ)
    (finding,) = [f for f in check_source(Source(text.encode(), "k.ptx")).findings if f.rule.id == "WG001"]
    at = text.index("wgmma.fence")
    edits = (Edit(Span(at, at), "bar.sync 0; "),)
    later = text[:at] + edits[0].text + text[at:]
    (shifted,) = [f for f in check_source(Source(later.encode(), "k.ptx")).findings if f.rule.id == "WG001"]
    assert shifted.span != finding.span
    assert moved(shifted, edits).span == finding.span
    assert [s.span for s in moved(shifted, edits).steps] == [s.span for s in finding.steps]


def test_the_table_counts_by_rule() -> None:
    rows = table(
        [{"rule": "WG001", "status": "confirmed"}, {"rule": "WG003", "status": "refuted"}]
    ).splitlines()
    assert rows[2:] == ["| WG001 | 1 | 0 | 0 | 0 |", "| WG003 | 0 | 1 | 0 | 0 |", "| all | 1 | 1 | 0 | 0 |"]


def test_a_folder_of_kernels_is_planted_and_confirmed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "made-kernel.ptx").write_text(kernel("").replace("    ret;", f"{READ}\n    ret;"))
    main([str(tmp_path), "--operator", "wgmma.wait_group deleted", "--output", str(tmp_path / "out.jsonl")])
    assert "| WG001 | 1 | 0 | 0 | 0 |" in capsys.readouterr().out
    assert '"status": "confirmed"' in (tmp_path / "out.jsonl").read_text()
