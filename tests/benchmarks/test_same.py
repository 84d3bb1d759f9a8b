"""The comparison of two versions of tclint: every difference in what they report is listed, and wording only if asked."""

from __future__ import annotations

import copy
import tarfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from benchmarks import results, same
from benchmarks.observed import watched
from tclint import checks
from tclint.config.config import Config
from tclint.driver import pool
from tclint.findings.rules import all_rules
from tclint.replay.machine import ReplayMachine
from tclint.syntax.source import Source
from tests.tools.project import ROOT
from tests.tools.support import HOPPER, kernel, module

WRONG = (ROOT / "fixtures" / "wgmma_unwaited.ptx").read_text(encoding="utf-8")
REPLAYED = (ROOT / "fixtures/kernels/nvcc-pipeline.sm_90a.ptx").read_text(encoding="utf-8")
RIGHT = module(kernel("ret;"), header=HOPPER.replace("sm_90a", "sm_90"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel with findings, and one without in a folder below."""
    made = tmp_path_factory.mktemp("kernels")
    (made / "below").mkdir()
    (made / "wrong.ptx").write_text(WRONG)
    (made / "below" / "right.ptx").write_text(RIGHT)
    return made


@pytest.fixture(scope="module")
def reports(folder: Path) -> dict[str, same.Report]:
    return same.record([folder])


def finding(**changes: Any) -> dict[str, Any]:
    return {"id": "WG001", "line": 7, "severity": "error", "message": "is wrong", **changes}


def report(*findings: dict[str, Any], **changes: Any) -> same.Report:
    return {"path": "k.ptx", "status": "analysed", "findings": list(findings), **changes}


def test_every_file_of_a_folder_has_a_report_under_its_name(
    folder: Path, reports: dict[str, same.Report]
) -> None:
    wrong, right = f"{folder.name}/./wrong.ptx", f"{folder.name}/./below/right.ptx"
    assert set(reports) == {wrong, right}
    assert "WG001" in {found["id"] for found in reports[wrong]["findings"]}
    assert reports[right]["findings"] == []


def test_an_archive_is_recorded_as_its_folder_is(
    folder: Path, reports: dict[str, same.Report], tmp_path: Path
) -> None:
    with tarfile.open(tmp_path / f"{folder.name}.tar.xz", "w:xz") as archive:
        archive.add(folder, ".")
    assert same.record([tmp_path / f"{folder.name}.tar.xz"]) == reports


def test_the_oracle_has_verdicts_proofs_and_replays_and_repeats_them(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "replayed.ptx").write_text(REPLAYED)
    (recorded,) = same.record([folder], oracle=True).values()
    assert recorded["verdicts"]
    observed = recorded["observed"]
    assert observed["replays"], "the kernel is one that is replayed"
    assert all(" accesses " in line for line in observed["replays"])
    assert len(observed["proofs"]) == len(recorded["verdicts"])
    assert same.record([folder], hash_seed="1", oracle=True) == {"kernels/./replayed.ptx": recorded}


def test_a_replay_that_takes_other_steps_is_a_difference_where_the_report_is_the_same(
    tmp_path: Path,
) -> None:
    def lines() -> list[str]:
        with watched() as seen:
            pool.check(("k.ptx", Source(REPLAYED.encode(), "k.ptx")), Config())
        return seen["k.ptx"]["replays"]

    before = lines()
    assert before == lines()
    assert before != []
    with patch.object(ReplayMachine, "record", lambda *_, **__: None):
        assert lines() != before


def test_an_error_of_the_watching_itself_is_not_a_report(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = "from benchmarks import same, observed; observed._replayed = None; import sys; same._lint(*sys.argv[1:])"
    monkeypatch.setattr(same, "_RUNNER", broken)
    (folder / "replayed.ptx").write_text(REPLAYED)
    with pytest.raises(RuntimeError, match=r"replayed\.ptx: internal error"):
        same.record([folder], oracle=True)
    (folder / "replayed.ptx").unlink()


def test_the_kernels_of_the_rule_pages_become_files(tmp_path: Path) -> None:
    same._examples(tmp_path)
    written = {path.stem for path in tmp_path.iterdir()}
    for rule in all_rules().values():
        assert {f"{rule.id}_example{n}" for n in range(len(rule.examples))} <= written
        assert {f"{rule.id}_correct{n}" for n in range(len(rule.corrections))} <= written


def test_a_run_without_a_report_raises(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same, "_RUNNER", "raise SystemExit(3)")
    with pytest.raises(RuntimeError, match=f"{folder.name}: tclint check ended with 3 and no report"):
        same.record([folder])


def test_without_texts_ids_lines_severities_and_edits_stay(reports: dict[str, same.Report]) -> None:
    (before,) = (r for path, r in reports.items() if path.endswith("wrong.ptx"))
    after = same.without_texts(before)
    fixed = [(f, g) for f, g in zip(before["findings"], after["findings"], strict=True) if f["fixes"]]
    assert fixed
    for old, new in fixed:
        assert "message" in old
        assert not {"message", "method", "deadlock"} & new.keys()
        assert all("object" in step for step in old["steps"])
        assert not any("object" in step for step in new["steps"])
        for key in ("id", "line", "severity", "confidence"):
            assert new[key] == old[key]
        assert [fix["edits"] for fix in new["fixes"]] == [fix["edits"] for fix in old["fixes"]]
        assert [step["line"] for step in new["steps"]] == [step["line"] for step in old["steps"]]


def test_equal_reports_have_no_difference(reports: dict[str, same.Report]) -> None:
    assert same.differences(reports, copy.deepcopy(reports)) == []


def test_a_changed_finding_is_listed_with_both_sides() -> None:
    old = {"k.ptx": report(finding(), finding(line=9))}
    new = {"k.ptx": report(finding(severity="warning"), finding(line=9))}
    gone, come = same.differences(old, new)
    assert gone.startswith("- k.ptx:7: WG001 ")
    assert '"severity": "error"' in gone
    assert come.startswith("+ k.ptx:7: WG001 ")
    assert '"severity": "warning"' in come


def test_a_file_that_only_one_side_has_is_listed() -> None:
    assert same.differences({"old.ptx": report()}, {"new.ptx": report()}) == [
        "+ new.ptx: the whole report",
        "- old.ptx: the whole report",
    ]


def test_a_changed_status_is_listed() -> None:
    gone, come = same.differences({"k.ptx": report()}, {"k.ptx": report(status="partial")})
    assert (gone[0], come[0]) == ("-", "+")
    assert '"status": "partial"' in come


def test_findings_in_another_order_are_a_difference() -> None:
    old = {"k.ptx": report(finding(), finding(line=9))}
    new = {"k.ptx": report(finding(line=9), finding())}
    assert same.differences(old, new) == ["~ k.ptx: the same findings in another order"]


def test_compare_ignores_wording_only_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, moved = (tmp_path / f"{name}.gz" for name in ("old", "new", "moved"))
    same._save(old, {"k.ptx": report(finding())})
    same._save(new, {"k.ptx": report(finding(message="is still wrong"))})
    same._save(moved, {"k.ptx": report(finding(line=8))})
    assert same.main(["compare", str(old), str(old)]) == 0
    assert capsys.readouterr().out == "1 files, the same reports\n"
    assert same.main(["compare", str(old), str(new)]) == 1
    assert capsys.readouterr().out.endswith("1 files, 2 differences\n")
    assert same.main(["compare", str(old), str(new), "--without-texts"]) == 0
    assert same.main(["compare", str(old), str(moved), "--without-texts"]) == 1


def test_record_writes_what_compare_reads(
    folder: Path, reports: dict[str, same.Report], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "record.gz"
    assert same.main(["record", str(file), str(folder)]) == 0
    assert capsys.readouterr().out == f"recorded: {folder}\n2 files\n"
    assert same._load(file) == reports


def test_a_record_without_paths_names_what_it_records_and_what_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shared, cache = tmp_path / "shared", tmp_path / "cache"
    own = [results.ROOT / "fixtures", results.ROOT / "rules"]
    asked: list[list[Path]] = []
    monkeypatch.setattr(same, "SHARED", shared)
    monkeypatch.setattr(same, "default_cache", lambda: cache)

    def record(paths: list[Path], *, oracle: bool) -> dict[str, same.Report]:
        asked.append(paths)
        return {}

    monkeypatch.setattr(same, "record", record)
    assert same.main(["record", str(tmp_path / "record.gz")]) == 0
    assert asked.pop() == own
    assert capsys.readouterr().out.splitlines() == [
        *(f"recorded: {path}" for path in own),
        f"left out: {shared / 'kernels' / '*.tar.xz'}: no such archive",
        f"left out: {shared / 'cases'}: no such folder",
        f"left out: {cache}: no such folder",
        "0 files",
    ]
    archive = shared / "kernels" / "a.tar.xz"
    for folder in (archive.parent, shared / "cases", cache):
        folder.mkdir(parents=True)
    archive.touch()
    assert same.main(["record", str(tmp_path / "record.gz")]) == 0
    assert asked.pop() == [*own, archive, shared / "cases", cache]
    assert "left out" not in capsys.readouterr().out


@pytest.mark.parametrize("order", same.ORDERS)
def test_an_order_keeps_every_check_and_only_the_usual_one_the_sequence(order: str) -> None:
    checks._discover()
    registry = list(checks._kernel)
    same._reorder(registry, order)
    assert sorted(map(id, registry)) == sorted(map(id, checks._kernel))
    assert (registry == checks._kernel) == (order == "usual")


def test_orders_records_each_order_once_and_fails_where_one_differs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def record(paths: list[Path], order: str = "usual", hash_seed: str = "0") -> dict[str, same.Report]:
        asked.append((order, hash_seed))
        return {"k.ptx": report(finding(line=8 if order == wrong else 7))}

    monkeypatch.setattr(same, "record", record)
    wrong = ""
    assert same.main(["orders", str(folder)]) == 0
    assert asked == [("usual", "0"), ("reversed", "1")]
    wrong = "reversed"
    assert same.main(["orders", str(folder)]) == 1
    assert "checks reversed, hash seed 1: - k.ptx:7: WG001" in capsys.readouterr().out
