"""What the key of a report has, and which reports are kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from tclint.cache import program as program_module
from tclint.cache import results as module
from tclint.cache.results import EarlierResults, opened
from tclint.cache.store import DEFAULT_LIMIT
from tclint.config.config import Config
from tclint.driver import pool
from tclint.findings.figures import Budget, Limit
from tclint.findings.requirements import requirements
from tclint.findings.scales import Confidence, Severity
from tclint.findings.verdicts import Assumption
from tclint.syntax.source import Source
from tests.tools.project import PROJECT, ROOT

UNWAITED = ROOT / "fixtures" / "wgmma_unwaited.ptx"

CHANGED: dict[str, Any] = {
    "min_severity": Severity.ERROR,
    "min_confidence": Confidence.LOW,
    "pedantic": True,
    "strict": True,
    "entry": ("k*",),
    "toolkit": (12, 8),
    "arch": "sm_90a",
    "per_file_ignores": (("*.ptx", ("WG001",)),),
    "per_entry_ignores": (("*", ("WG001",)),),
    "verdict": True,
    "require": requirements(("proved:wgmma",)),
    "rules": frozenset(("WG001",)),
    "ptxas_budget": Budget((Limit(most=(("registers", 8),)),)),
    "accept_ptxas_change": True,
}
"""Another value of each setting that decides what a report says."""


@pytest.fixture
def folder(own_cache: Path) -> Path:
    return own_cache


@pytest.fixture
def results(folder: Path) -> EarlierResults:
    found = opened(Config())
    assert found is not None
    return found


def lint(*paths: Path, config: Config | None = None) -> tuple[list[pool.Checked], str]:
    """The results for files, and how many of them were reused."""
    notes: list[str] = []
    inputs = [(str(path), Source.read(path)) for path in paths]
    made = list(pool.reports(inputs, config or Config(jobs=1), notes.append))
    return made, notes[0].split(" reports")[0] if notes else "off"


# ---------------------------------------------------------------- the key


def test_every_setting_is_in_the_key_or_known_to_be_neutral(results: EarlierResults) -> None:
    source = Source.read(UNWAITED)
    plain = results.key(source, Config())
    names = {field.name for field in fields(Config)}
    assert names == {*CHANGED, *module.NEUTRAL, *module._EXECUTING, "assume"}
    keys = {name: results.key(source, replace(Config(), **{name: value})) for name, value in CHANGED.items()}
    assert plain not in keys.values()
    asked = replace(Config(), verdict=True)
    assert keys["require"] == keys["verdict"] == results.key(source, asked)  # one report for both
    del keys["require"]
    assert len(set(keys.values())) == len(keys)
    for assumed in (frozenset[Assumption](), frozenset((Assumption.THREADS,))):
        assert results.key(source, replace(asked, assume=assumed)) not in {*keys.values(), plain}


def test_neutral_settings_share_a_report(results: EarlierResults) -> None:
    source = Source.read(UNWAITED)
    other = Config(
        fail_on=None, exit_zero=True, exclude=("x",), force_exclude=True, include=("*.cu",), baseline="b", jobs=7
    )  # fmt: skip
    assert results.key(source, other) == results.key(source, Config())


def test_key_has_the_text_its_language_and_what_is_off_for_its_path(results: EarlierResults) -> None:
    data = UNWAITED.read_bytes()

    def key(path: str, *ignores: tuple[str, tuple[str, ...]], data: bytes = data, proven: bool = True) -> str:
        config = Config(per_file_ignores=ignores)
        return results.key(Source(data, path), config, proven=proven)

    assert key("a.ptx") == key("b/c.PTX") == key("<stdin>")
    assert len({key("a.ptx"), key("a.cu"), key("a.py")}) == 3
    assert key("a.ptx", ("a.*", ("WG001",))) != key("b.ptx", ("a.*", ("WG001",)))
    assert key("b.ptx", ("a.*", ("WG001",))) == key("b.ptx")
    assert key("a.ptx", ("a.*", ("WG001",))) != key("a.ptx", ("a.*", ("WG002",)))
    assert key("a.ptx", data=data + b" ") != key("a.ptx")
    assert key("a.ptx", proven=False) != key("a.ptx")


def test_key_does_not_depend_on_the_hash_seed(folder: Path) -> None:
    code = (
        "from tclint.cache.results import opened\n"
        "from tclint.config.config import Config\n"
        "from tclint.syntax.source import Source\n"
        "rules = frozenset(f'WG{n:03}' for n in range(30))\n"
        "print(opened(Config()).key(Source(b'', 'a.ptx'), Config(rules=rules, verdict=True)))\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }  # fmt: skip
    assert len(printed) == 1


# ---------------------------------------------------------------- what is reused


def test_reports_are_reused_in_the_order_of_the_inputs(folder: Path, tmp_path: Path) -> None:
    paths = []
    for n in range(6):
        path = tmp_path / f"{n}.ptx"
        path.write_bytes(UNWAITED.read_bytes() + b"// %d\n" % n)
        paths.append(path)
    known = [paths[n] for n in (0, 1, 3)]
    assert lint(*known)[1] == "cache: 0 of 3"
    cold, _ = lint(*paths, config=Config(jobs=1, cache=False))
    for jobs in (1, 2):
        warm, reused = lint(*paths, config=Config(jobs=jobs))
        assert reused == ("cache: 3 of 6" if jobs == 1 else "cache: 6 of 6")
        assert [item.report.path for item in warm] == [str(path) for path in paths]
        assert [item.report.findings for item in warm] == [item.report.findings for item in cold]


def test_moved_file_is_known_and_is_shown_under_its_name(folder: Path, tmp_path: Path) -> None:
    lint(UNWAITED)
    copy = tmp_path / "other" / "copy.ptx"
    copy.parent.mkdir()
    shutil.copy(UNWAITED, copy)
    copy.with_suffix(".json").write_text('{"name": "gemm", "num_warps": 4}')
    (checked,), reused = lint(copy)
    assert reused == "cache: 1 of 1"
    assert (checked.report.path, checked.report.origin) == (str(copy), "gemm, Triton, 4 warps")


def test_inputs_that_cannot_be_read_need_no_cache(folder: Path, tmp_path: Path) -> None:
    from tclint.driver.inputs import inputs

    notes: list[str] = []
    for _ in range(2):
        names = [str(tmp_path / "missing.ptx"), str(UNWAITED), str(tmp_path / "gone.ptx")]
        made = list(pool.reports(inputs(names, "-"), Config(jobs=1), notes.append))
        assert [item.report.status for item in made] == ["failed", "analysed", "failed"]
    assert [note.split(" reports")[0] for note in notes] == ["cache: 0 of 1", "cache: 1 of 1"]


def test_damaged_entry_is_made_again(folder: Path) -> None:
    lint(UNWAITED)
    for path in folder.glob("??/*"):
        path.write_bytes(b"damaged")
    (checked,), reused = lint(UNWAITED)
    assert (reused, len(checked.report.findings)) == ("cache: 0 of 1", 1)
    assert lint(UNWAITED)[1] == "cache: 1 of 1"


def test_valid_entry_that_is_no_report_is_made_again(results: EarlierResults) -> None:
    key = results.key(Source.read(UNWAITED), Config(jobs=1))
    for data in (b"[]", b"not json", b"\xff", b'["analysed",[],[],[],null,[],[],[["k","wgmma"]]]'):
        results.store.put(key, data)
        (checked,), reused = lint(UNWAITED)
        assert (reused, len(checked.report.findings)) == ("cache: 0 of 1", 1)


def test_report_that_an_internal_error_ended_is_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(pool, "lint", fail)
        (checked,), _ = lint(UNWAITED)
    assert "internal error" in checked.report.problems[0].message
    (checked,), reused = lint(UNWAITED)
    assert (reused, checked.report.status) == ("cache: 0 of 1", "analysed")


def test_interrupted_run_keeps_what_it_made(folder: Path) -> None:
    for _ in pool.reports([(str(UNWAITED), Source.read(UNWAITED))] * 3, Config(jobs=1)):
        break
    assert lint(UNWAITED)[1] == "cache: 1 of 1"


@pytest.mark.parametrize("variable", ["TCLINT_NO_CACHE", "TCLINT_DEBUG"])
def test_environment_turns_the_cache_off(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    assert opened(Config()) is None
    monkeypatch.setenv(variable, "0")
    assert opened(Config()) is not None


def test_runs_that_execute_kernels_use_no_results(folder: Path) -> None:
    assert opened(Config(confirm=True)) is None
    assert opened(Config(execute=True)) is None
    assert opened(Config(cache=False)) is None


def test_environment_sets_the_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, limit in (
        ("3", 3 * 2**20),
        ("much", DEFAULT_LIMIT),
        ("", DEFAULT_LIMIT),
        ("-1", DEFAULT_LIMIT),
    ):
        monkeypatch.setenv("TCLINT_CACHE_SIZE", text)
        found = module.store()
        assert found is not None
        assert found.limit == limit


# ---------------------------------------------------------------- the running tclint


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of tclint, whose files were changed before any process starts."""
    root = tmp_path_factory.mktemp("checkout")
    for name in ("tclint", "rules", "queries"):
        shutil.copytree(ROOT / name, root / name)
    time.sleep(0.2)
    return root


def run(checkout: Path, folder: Path, *options: str) -> tuple[str, str]:
    """The output, and the first note, of ``tclint check`` in a copy."""
    done = subprocess.run(
        [sys.executable, "-m", "tclint", "check", "-v", "--output-format", "concise", *options, str(UNWAITED)],
        env={**os.environ, "PYTHONPATH": str(checkout), "TCLINT_NO_CACHE": "", "TCLINT_CACHE_DIR": str(folder)},
        cwd=folder.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout, done.stderr.split(" reports")[0]


def test_edited_rule_changes_the_answer_at_once(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    first, _ = run(checkout, folder)
    assert " error WG" in first
    assert run(checkout, folder) == (first, "cache: 1 of 1")
    page = checkout / "rules" / f"{first.split(' error ')[1][:5]}.md"
    text = page.read_text()
    at = page.stat()
    page.write_text(text.replace('severity = "error"', 'severity = "info" '))
    os.utime(page, ns=(at.st_atime_ns, at.st_mtime_ns))  # the size is the same too
    time.sleep(0.2)
    second, reused = run(checkout, folder)
    assert reused == "cache: 0 of 1"
    assert second != first
    page.write_text(text)
    time.sleep(0.2)
    assert run(checkout, folder) == (first, "cache: 1 of 1")


def test_file_that_is_new_or_gone_changes_the_key(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    run(checkout, folder)
    new = checkout / "tclint" / "checks" / "new_check.py"
    new.write_text("")
    time.sleep(0.2)
    assert run(checkout, folder)[1] == "cache: 0 of 1"
    new.unlink()
    time.sleep(0.2)
    assert run(checkout, folder)[1] == "cache: 1 of 1"


def test_results_survive_a_new_installation_of_the_same_files(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    run(checkout, folder)
    again = tmp_path / "again"
    shutil.copytree(checkout, again)
    assert run(again, folder)[1] == "cache: 1 of 1"


def test_results_of_a_tclint_that_changes_meanwhile_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TCLINT_NO_CACHE")
    monkeypatch.setenv("TCLINT_CACHE_DIR", str(tmp_path))
    found = opened(Config())
    assert found is not None
    known = found.program
    monkeypatch.setattr(program_module, "STARTED_NS", known.changed_ns + 10**9)
    assert known.unchanged()
    assert not replace(known, signature="of other files").unchanged()
    monkeypatch.setattr(program_module, "STARTED_NS", known.changed_ns)
    assert not known.unchanged()
    assert lint(UNWAITED)[1] == "cache: 0 of 1"
    assert lint(UNWAITED)[1] == "cache: 0 of 1"


def test_all_installed_files_that_decide_answers_are_in_the_digest() -> None:
    installed = [
        pattern for patterns in PROJECT["tool"]["setuptools"]["package-data"].values() for pattern in patterns
    ]
    others = {os.path.splitext(pattern)[1] for pattern in installed} - {*program_module.SUFFIXES}
    assert others == {
        ".c",
        ".css",
        ".h",
        ".html",
        ".js",
        ".json",
        ".marshal",  # made of files that are
        ".typed",
    }  # the page of tclint show, the injection library, the schemas of reports, and a note for type checkers
