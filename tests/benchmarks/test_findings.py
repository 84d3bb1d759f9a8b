"""The findings on real kernels are counted as they are shown, and each needs a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import findings
from tests.tools.project import ROOT

TRUE_ONE = "rule\tfile\tline\tverdict\treason\nWG001\tnvcc/bad.ptx\t{line}\t{verdict}\tread before the wait\n"


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "nvcc"
    folder.mkdir()
    (folder / "bad.ptx").write_bytes((ROOT / "fixtures" / "wgmma_unwaited.ptx").read_bytes())
    (folder / "good.ptx").write_bytes((ROOT / "fixtures" / "wgmma_waited.ptx").read_bytes())
    monkeypatch.setattr(findings, "VERDICTS", tmp_path / "verdicts.tsv")
    return tmp_path


def failing(folder: Path) -> int:
    (folder / "verdicts.tsv").write_text("rule\tfile\tline\tverdict\treason\n")
    (found,) = findings.measure(folder, [folder / "nvcc" / "bad.ptx"])["failing"]
    assert found["rule"] == "WG001"
    assert found["verdict"] == "not judged"
    return int(found["line"])


@pytest.mark.parametrize(("verdict", "status"), [("true", 0), ("undecidable", 0), ("false", 1)])
def test_a_false_alarm_fails(
    corpus: Path, capsys: pytest.CaptureFixture[str], verdict: str, status: int
) -> None:
    line = failing(corpus)
    (corpus / "verdicts.tsv").write_text(TRUE_ONE.format(line=line, verdict=verdict))
    assert findings.main([str(corpus)]) == status
    said = capsys.readouterr().out
    assert f"1 of 2 files (50.0%) exit 0. Errors and warnings shown: 1; judged: 1 {verdict}." in said
    assert "| nvcc | 2 | 1 | 1 | 0 |" in said
    assert f"| WG001 | error | `nvcc/bad.ptx` | {line} | {verdict} |" in said


def test_a_file_that_cannot_be_analysed_fails(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = failing(corpus)
    (corpus / "verdicts.tsv").write_text(TRUE_ONE.format(line=line, verdict="true"))
    (corpus / "nvcc" / "broken.ptx").write_text(".version 8.0\n.target sm_90a\n.entry k() { add.s32 ")
    assert findings.main([str(corpus)]) == 1
    assert "- not analysed as a whole: nvcc/broken.ptx:3:" in capsys.readouterr().out


def test_no_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert findings.main([str(tmp_path)]) == 2
    assert "no .ptx file; python -m benchmarks.corpus builds some" in capsys.readouterr().err


def test_the_verdicts_can_be_read() -> None:
    assert all(line == findings.ALL or line.isdigit() for _, _, line in findings.verdicts())
    assert set(findings.verdicts().values()) <= {"true", "false", "undecidable"}
