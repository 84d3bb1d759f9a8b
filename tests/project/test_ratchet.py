"""What the ISA table knows is not restated: the counts of ``benchmarks.ratchet`` only fall, and it counts what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import ratchet

RESTATED = """\
from tclint.analyses.model import KernelModel

SIGNALS = {"mbarrier-arrive", "barrier-arrive"}
WAITS = "mbarrier-wait barrier-wait".split()
SPACES = (".shared", ".global")


def tests(step, node):
    if step.event == "wait" and ".relaxed" in step.instruction.opcode.split("."):
        return node[1]
    return step.opcode.startswith("wgmma") or node.items[0]
"""
FOUND = {
    "literals of events and groups": [3, 3, 9, 11],
    "tests of opcode text": [9, 9, 11],
    "hand-written sets of events": [3, 4],
    "positional reads of value nodes": [10],
    "importers of KernelModel": [1],
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "tclint"
    (folder / "isa").mkdir(parents=True)
    (folder / "isa" / "table.py").write_text(RESTATED)
    (folder / "rule.py").write_text(RESTATED)
    return folder


def test_each_restatement_outside_the_table_is_counted(package: Path) -> None:
    lines = {
        count: sorted(int(place.removeprefix("tclint/rule.py:")) for place in found)
        for count, found in ratchet.places(package).items()
    }
    assert lines == FOUND


def test_no_count_has_risen_and_a_lower_one_is_recorded() -> None:
    assert ratchet.counts() == json.loads(ratchet.RECORD.read_text(encoding="utf-8")), (
        "restate nothing that the ISA table knows; record a lower count with `python -m benchmarks.ratchet --update`"
    )


def test_a_count_that_has_risen_is_not_recorded(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ratchet, "RECORD", tmp_path / "ratchet.json")
    monkeypatch.setattr(ratchet, "counts", lambda: {"literals of events and groups": 3})
    assert ratchet.main(["--update"]) == 0
    monkeypatch.setattr(ratchet, "counts", lambda: {"literals of events and groups": 4})
    assert ratchet.main(["--update"]) == 1
    assert "4  literals of events and groups, 3 recorded" in capsys.readouterr().out
    assert json.loads(ratchet.RECORD.read_text()) == {"literals of events and groups": 3}
    monkeypatch.setattr(ratchet, "counts", lambda: {"literals of events and groups": 2})
    assert ratchet.main(["--update"]) == 0
    assert json.loads(ratchet.RECORD.read_text()) == {"literals of events and groups": 2}
