"""What is planted is needless, and what is needed is not noted, in the kernels of the fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import mutation
from benchmarks.needless import PLANTS, figure, main, needed, noted, planted, tables
from tclint.findings.edits import joined
from tests.tools.project import ROOT

KERNELS = ROOT / "fixtures" / "kernels"
HOPPER = KERNELS / "nvcc-bulk_ring.sm_90.ptx"


def test_every_kind_that_is_planted_names_a_rule_of_the_family() -> None:
    assert all(rule.startswith("CO") for rule, _ in PLANTS.values())


def test_a_fence_that_is_planted_is_found_at_its_line() -> None:
    rows = planted([HOPPER], 2)
    assert {row["plant"] for row in rows} >= {"bulk wait twice", "proxy fence twice", "poll made busy"}
    assert all(row["found"] for row in rows)


def test_a_wait_whose_deletion_is_found_is_needed_and_not_noted() -> None:
    rows = needed([HOPPER], 3)
    assert len(rows) >= 3
    assert not any(row["noted"] for row in rows)


def test_a_wait_after_the_fact_is_in_the_block_of_the_first_one() -> None:
    for kernel in mutation.kernels(KERNELS / "nvcc-stream.sm_90a.ptx"):
        for edit, _ in PLANTS["cp.async wait after the fact"][1](kernel):
            changed = joined(kernel.data, (edit,))
            assert changed.count(b"\n") == kernel.data.count(b"\n")
            assert ("CO001", kernel.line(edit.span.start)) in noted(HOPPER, changed)


def test_the_tables_count_what_is_needed_and_what_is_found() -> None:
    data = {
        "planted": [
            {"plant": "proxy fence twice", "found": True},
            {"plant": "proxy fence twice", "found": False},
        ],
        "needed": [{"operator": "cp.async.wait deleted", "noted": False}],
    }
    assert figure(data).startswith("Of 1 instructions that are needed, 0 have a note")
    assert "| proxy fence twice (CO003) | 2 | 1 |" in tables(data)


def test_notes_are_listed_with_their_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "twice.ptx").write_bytes((KERNELS / "nvcc-twice.sm_90a.ptx").read_bytes())
    assert main([str(tmp_path), "--draw", "3"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 3
    assert all(rule.startswith("CO") and int(line) > 0 for rule, _, line, _ in rows)
