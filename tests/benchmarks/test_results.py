"""The results page is what the records say, and says what was not measured."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as command
from benchmarks import results

PART = SimpleNamespace(
    TITLE="Weights",
    COMMAND="python -m benchmarks.weights",
    SLICE="",
    ABOUT="Every stone on the scales.",
    figure=lambda data: f"{len(data)} stones.",
    tables=lambda data: results.table(["stone", "kg"], data),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(results, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "PARTS", {"weights": "benchmarks.weights"})
    monkeypatch.setitem(sys.modules, "benchmarks.weights", PART)  # type: ignore[arg-type]
    return tmp_path


def test_a_part_without_a_record_is_not_measured(home: Path) -> None:
    assert "## Weights\n\nNot measured yet: `python -m benchmarks.weights`." in results.page()


def test_a_record_makes_the_page(home: Path) -> None:
    path = results.save("weights", [["flint", "1.5"], ["a|b", "20"]], {"scales": "3"}, ["marble: too heavy"])
    record = json.loads(path.read_text())
    text = results.PAGE.read_text()
    assert text == results.page()
    assert record["date"] in text
    assert results.processor() in text
    assert "scales 3" in text
    assert "2 stones." in text
    assert "[data](../benchmarks/records/weights.json)" in text
    assert "Skipped:\n\n- marble: too heavy" in text


def test_the_tables_of_a_part_are_printed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert results.main(["weights"]) == 0
    assert "Not measured yet." in capsys.readouterr().out
    results.save("weights", [["flint", "1.5"], ["a|b", "20"]])
    assert results.main(["weights"]) == 0
    assert "| stone | kg |\n|---|---:|\n| flint | 1.5 |\n| a\\|b | 20 |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        results.main(["lengths"])


def test_what_cannot_be_measured_is_reported_and_costs_no_result(home: Path) -> None:
    results.skip("weights", "no scales")
    assert "Not measured yet" in results.PAGE.read_text()
    results.save("weights", [["flint", "1.5"]])
    results.skip("weights", "the scales are broken")
    text = results.PAGE.read_text()
    assert "1 stones." in text
    assert "no scales" not in text
    assert re.search(r"- the whole part on [-\d]+: the scales are broken", text)


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [("", 0, "-- weights: done"), ("import sys; sys.exit('no scales here')", 1, "status 1: no scales here")],
)
def test_the_command_runs_the_parts(
    home: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    status: int,
    said: str,
) -> None:
    (home / "weights.py").write_text(code)
    monkeypatch.setattr(PART, "COMMAND", "python -m weights && python -m weights")
    monkeypatch.setattr(PART, "SLICE", "python -m weights {scratch}")
    assert command.main(["weights"]) == status
    assert said in capfd.readouterr().out
    assert ("no scales here" in results.page()) == bool(status)
    assert command.main(["--slice"]) == status
    assert results.page().count("no scales here") == status


def test_a_part_that_does_not_exist(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["lengths"])
    assert "no part is called lengths: weights" in capsys.readouterr().err


def test_a_page_that_was_typed_is_distinguished_from_one_that_was_measured(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert results.main(["--check"]) == 1
    assert results.main([]) == 0
    assert results.main(["--check"]) == 0
    results.PAGE.write_text(results.PAGE.read_text().replace("Not measured", "Measured"))
    assert results.main(["--check"]) == 1
    assert "results.md is not what the records say" in capsys.readouterr().out


def test_the_page_of_the_project_is_up_to_date() -> None:
    assert results.PAGE.read_text(encoding="utf-8") == results.page()


@pytest.mark.parametrize("module", results.PARTS.values())
def test_a_part_has_what_the_page_needs(module: str) -> None:
    part = importlib.import_module(module)
    assert part.TITLE
    assert part.ABOUT
    assert re.match(r"python -m benchmarks\.\w+", part.COMMAND)
