"""Baselines: what they hide, what they say is gone, and what is written."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tclint
from tclint.commands._cli import main
from tclint.config.config import Config
from tclint.driver.inputs import inputs
from tclint.driver.pool import Checked, reports
from tclint.findings.finding import FileReport
from tclint.findings.scales import Confidence
from tclint.findings.selection import Selected, SettingsError
from tclint.report import baseline
from tclint.report.baseline import Baseline
from tclint.report.summary import present
from tests.tools.project import ROOT
from tests.tools.support import HOPPER, WGMMA, kernel, module

Process = Callable[..., subprocess.CompletedProcess[str]]
USE = "    st.global.f32 [%rd2], %f0;"
CLEAN = "    mov.u32 %r1, 0;"
ROUND = """
    wgmma.fence.sync.aligned;
    {wgmma}
    wgmma.commit_group.sync.aligned;
{use}
    wgmma.wait_group.sync.aligned 0;
"""


def wrong(*names: str) -> str:
    """A module of kernels with a defect each."""
    return _module(*names, body=ROUND.format(wgmma=WGMMA, use=USE))


def equal(number: int) -> str:
    """A kernel with *number* defects that differ in nothing but the registers."""
    text = ROUND.format(wgmma=WGMMA, use=USE)
    rounds = (re.sub(r"%f(?=\d)", f"%f{n}", text) for n in range(1, number + 1))
    return _module("k", body="".join(rounds) + "\n")


def right(*names: str) -> str:
    return _module(*names, body=ROUND.format(wgmma=WGMMA, use=CLEAN))


def _module(*names: str, body: str) -> str:
    pointers = "ld.param.u64 %rd0, [pointer]; mov.b64 %rd1, %rd0; mov.b64 %rd2, %rd0;"
    kernels = (kernel(f"    setp.ne.b32 %p0, 0, 0; {pointers}{body}    ret;", name) for name in names)
    return module(*kernels, header=HOPPER)


def numbers(folder: Path, *paths: str, **options: Any) -> tuple[int, int, int]:
    """How many findings are shown, in the baseline, and gone."""
    known = folder / baseline.DEFAULT
    report = tclint.check_paths([folder / path for path in paths or (".",)], baseline=str(known), **options)
    return len(report.findings), sum(report.summary.baselined.values()), len(report.summary.gone)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two files, each with a defect, and their baseline."""
    (tmp_path / "a.ptx").write_text(wrong("a"))
    (tmp_path / "b.ptx").write_text(wrong("b"))
    record(tmp_path)
    return tmp_path


def _reports(*paths: str) -> list[FileReport]:
    return [item.report for item in reports(inputs(paths, "<stdin>"), Config())]


def record(folder: Path, *paths: str, prune: bool = False, **changes: Any) -> Baseline:
    """What tclint baseline does, in this process."""
    known = folder / baseline.DEFAULT
    config = Config(**changes)
    old = baseline.read(known) if known.exists() else Baseline(str(known))
    arguments = [str(folder / path) for path in paths or (".",)]
    found, old = old.compared(_reports(*arguments), config.selected, arguments)
    new = old.updated(found, config.selected, prune=prune)
    known.write_text(str(new))
    return new


def test_what_is_in_it_is_hidden_and_counted(folder: Path) -> None:
    assert numbers(folder) == (0, 2, 0)
    report = tclint.check_paths([folder], baseline=str(folder / baseline.DEFAULT))
    assert report.ok
    assert str(report) == "No findings in 2 files; 2 findings hidden by the baseline.\n"
    assert json.loads(report.render("json"))["summary"]["baselined"] == {"total": 2, "rules": {"WG001": 2}}


def test_a_new_finding_is_shown(folder: Path) -> None:
    (folder / "a.ptx").write_text(wrong("a", "c"))
    assert numbers(folder) == (1, 2, 0)
    report = tclint.check_paths([folder], baseline=str(folder / baseline.DEFAULT))
    assert [finding.entry for finding in report] == ["c"]
    (result,) = json.loads(report.render("sarif"))["runs"][0]["results"]
    assert result["baselineState"] == "new"
    for result in json.loads(tclint.check_paths([folder]).render("sarif"))["runs"][0]["results"]:
        assert "baselineState" not in result


def test_entries_that_vanished_are_reported(folder: Path) -> None:
    (folder / "a.ptx").write_text(right("a"))
    assert numbers(folder) == (0, 1, 1)
    report = tclint.check_paths([folder], baseline=str(folder / baseline.DEFAULT))
    assert report.ok
    (gone,) = json.loads(report.render("json"))["summary"]["gone"]
    assert (gone["path"], gone["entry"], gone["rule"]) == ("a.ptx", "a", "WG001")
    assert "1 baseline finding gone (tclint baseline --prune removes them)" in str(report)
    assert "WG001 in a, a.ptx, recorded at line" in str(report)
    assert record(folder, prune=True).entries == tuple(
        entry for entry in baseline.read(folder / baseline.DEFAULT).entries if entry.path == "b.ptx"
    )


def test_what_was_not_looked_for_has_not_vanished(folder: Path) -> None:
    (folder / "a.ptx").write_text(right("a"))
    assert numbers(folder, "b.ptx") == (0, 1, 0)
    assert numbers(folder, select=["TC"]) == (0, 0, 0)
    assert numbers(folder, entry=["b"]) == (0, 1, 0)
    assert numbers(folder, per_file_ignores={"a.ptx": ["WG"]}) == (0, 1, 0)
    assert numbers(folder, per_entry_ignores={"a": ["WG"]}) == (0, 1, 0)
    assert len(record(folder, "b.ptx").entries) == 2


def test_what_could_not_be_analysed_has_not_vanished(folder: Path) -> None:
    (folder / "a.ptx").write_text(right("a") + "\n.visible .entry broken( {")
    assert numbers(folder) == (0, 1, 0)
    (folder / "a.ptx").write_bytes(b"\xff\xfe.")
    assert numbers(folder) == (0, 1, 0)
    assert len(record(folder).entries) == 2
    (folder / "a.ptx").unlink()
    (folder / "b.ptx").unlink()  # nothing was compiled yet: the folder is a problem of its own
    assert numbers(folder) == (0, 0, 0)


def test_what_is_hidden_for_another_reason_has_not_vanished(folder: Path) -> None:
    known = baseline.read(folder / baseline.DEFAULT)
    hiding = Config(min_confidence=Confidence.CONFIRMED)
    _, known = known.compared(_reports(str(folder)), hiding.selected, [str(folder)])
    assert (len(known.entries), known.gone) == (2, ())


def test_a_comment_takes_the_place_of_an_entry(folder: Path) -> None:
    text = wrong("a").replace(USE, USE + " // tclint: ignore[WG001] why")
    (folder / "a.ptx").write_text(text)
    assert numbers(folder) == (0, 1, 1)


def test_a_wrong_comment_is_never_recorded(tmp_path: Path) -> None:
    (tmp_path / "a.ptx").write_text(right("a").replace(CLEAN, CLEAN + " // tclint: ignore[WG001]"))
    assert [f.rule.id for f in tclint.check_paths([tmp_path])] == ["SU001"]
    assert record(tmp_path).entries == ()


def test_one_of_several_equal_ones_goes(tmp_path: Path) -> None:
    """Ordinals shift; the old ones stay hidden, and one more than there were is shown."""
    (tmp_path / "a.ptx").write_text(equal(3))
    assert len(record(tmp_path).entries) == 3
    for uses, expected in ((2, (0, 2, 1)), (1, (0, 1, 2)), (3, (0, 3, 0)), (4, (1, 3, 0))):
        (tmp_path / "a.ptx").write_text(equal(uses))
        shown, hidden, gone = numbers(tmp_path)
        assert (shown, hidden, gone) == expected


def test_a_renamed_file_takes_its_findings_along(folder: Path) -> None:
    (folder / "a.ptx").rename(folder / "c.ptx")
    assert numbers(folder) == (0, 2, 0)


def test_a_copy_is_new_while_the_first_file_is_there(folder: Path) -> None:
    (folder / "c.ptx").write_text((folder / "a.ptx").read_text())
    assert numbers(folder) == (1, 2, 0)
    (folder / "a.ptx").write_text(right("a"))  # its entry is gone, and not for the copy
    assert numbers(folder) == (1, 1, 1)
    (folder / "a.ptx").unlink()
    assert numbers(folder) == (0, 2, 0)


def test_a_new_finding_is_hidden_by_no_entry_that_another_one_has(tmp_path: Path) -> None:
    """For any change of files: shown findings are, kind by kind, those that are more than there were."""
    rng = random.Random(5)
    names = ["a", "b", "c", "d"]
    for _ in range(15):
        before = {name: rng.randrange(3) for name in names}
        after = {name: rng.choice((count, rng.randrange(3))) for name, count in before.items()}
        for path in tmp_path.glob("*"):
            path.unlink()
        for name, uses in before.items():
            (tmp_path / f"{name}.ptx").write_text(equal(uses))
        record(tmp_path)
        for name, uses in after.items():
            (tmp_path / f"{name}.ptx").write_text(equal(uses))
        new = sum(max(0, after[name] - before[name]) for name in names)
        gone = sum(max(0, before[name] - after[name]) for name in names)
        assert numbers(tmp_path) == (new, sum(after.values()) - new, gone)


def test_an_update_keeps_order_and_what_stays_as_it_was(folder: Path) -> None:
    before = (folder / baseline.DEFAULT).read_text()
    (folder / "a.ptx").write_text("\n\n\n" + wrong("a"))  # lines move
    record(folder)
    assert (folder / baseline.DEFAULT).read_text() == before
    (folder / "aa.ptx").write_text(wrong("aa"))
    record(folder)
    after = (folder / baseline.DEFAULT).read_text()
    assert [line for line in after.splitlines() if line not in before.splitlines()] == [
        line for line in after.splitlines() if '"aa.ptx"' in line
    ]
    assert len(after.splitlines()) == len(before.splitlines()) + 1
    paths = [json.loads(line.rstrip(","))["path"] for line in after.splitlines()[3:-2]]
    assert paths == sorted(paths)


def test_lines_that_a_merge_doubled_do_no_harm(folder: Path) -> None:
    known = folder / baseline.DEFAULT
    lines = known.read_text().splitlines()
    known.write_text("\n".join([*lines[:4], *lines[3:]]))
    assert numbers(folder) == (0, 2, 1)
    assert len(record(folder).entries) == 2


def test_entries_of_a_rule_that_is_no_more_are_gone(folder: Path) -> None:
    known = folder / baseline.DEFAULT
    text = known.read_text().replace('"WG001"', '"WG999"')
    known.write_text(text.replace('"fingerprint": "', '"fingerprint": "0'))
    assert numbers(folder) == (2, 0, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "known.json: No such file"),
        ("", "is not valid JSON"),
        ("{\n<<<<<<< HEAD\n", "has the markers of a merge conflict and is not valid JSON: take either side"),
        ('{"text": "<<<<<<< HEAD"', "is not valid JSON: Expecting"),
        ("[" * 100_000, "is not valid JSON"),
        ("[]", "is not a tclint baseline"),
        ('{"schema": 1}', "is not a tclint baseline"),
        ('{"schema": 99, "findings": []}', "has schema 99, but this tclint supports up to 1"),
        ('{"schema": 1, "findings": [3]}', "finding 1 is not an object"),
        ('{"schema": 1, "findings": [{"path": 1}]}', "finding 1 has a missing or invalid 'path'"),
        (
            '{"schema": 1, "findings": [{"path": "a", "rule": "b", "fingerprint": "c"}]}',
            "missing or invalid 'line'",
        ),
    ],
)
def test_a_broken_baseline_is_refused(
    run_tclint: Process, tmp_path: Path, text: str | None, message: str
) -> None:
    (tmp_path / "a.ptx").write_text(right("a"))
    known = tmp_path / "known.json"
    if text is not None:
        known.write_text(text)
    with pytest.raises(SettingsError, match=message):
        tclint.check(tmp_path / "a.ptx", baseline=str(known))
    done = run_tclint("check", "--baseline", "known.json", "a.ptx")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in " ".join(done.stderr.split())
    if text is not None:
        done = run_tclint("baseline", "--output", "known.json", "a.ptx")
        assert done.returncode == 2
        assert known.read_text() == text


def test_the_command(run_tclint: Process, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.ptx").write_text(wrong("a"))
    done = run_tclint("baseline", "out")
    assert (done.returncode, done.stdout) == (0, "tclint-baseline.json: 1 finding (1 new, 0 gone)\n")
    assert run_tclint("check", "out").returncode == 1
    assert run_tclint("check", "--baseline", "tclint-baseline.json", "out").returncode == 0
    # The setting is relative to its file, and the paths in the baseline to the baseline.
    (tmp_path / "tclint-ptx.toml").write_text('baseline = "known/base.json"\n')
    (tmp_path / "known").mkdir()
    assert run_tclint("baseline", "a.ptx", cwd=tmp_path / "out").returncode == 0
    assert '"../out/a.ptx"' in (tmp_path / "known" / "base.json").read_text()
    assert run_tclint("check", "out/a.ptx").returncode == 0
    assert run_tclint("check", ".", cwd=tmp_path / "out").returncode == 0
    (tmp_path / "out" / "a.ptx").write_text(right("a"))
    (tmp_path / "out" / "b.ptx").write_text(wrong("b"))
    done = run_tclint("baseline", "--prune", "out")
    assert done.stdout.endswith("base.json: 0 findings (0 new, 1 gone)\n")
    assert run_tclint("check", "out").returncode == 1
    assert "has no findings" in run_tclint("baseline", "--prune", "out").stderr
    (tmp_path / "out" / "c.ptx").write_bytes(b"\xff\xfe.")
    done = run_tclint("baseline", "out")
    assert (done.returncode, "error: out/c.ptx" in done.stdout) == (2, True)
    assert len(baseline.read(tmp_path / "known" / "base.json").entries) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork, or it would take a minute")
def test_concurrent_runs_lose_nothing(tmp_path: Path) -> None:
    for n in range(20):
        (tmp_path / f"{n}.ptx").write_text(wrong(f"k{n}"))
    program = (
        "import gc, os, tclint; from tclint.commands._cli import main; tclint.check('0.ptx'); gc.freeze()\n"
        "go, gone = os.pipe()\n"
        "for n in range(20):\n"
        "    if os.fork() == 0:\n"
        "        os.close(gone); os.read(go, 1)\n"
        "        try: main(['baseline', '--isolated', f'{n}.ptx'])\n"
        "        except SystemExit as end: os._exit(end.code)\n"
        "os.close(gone)\n"
        "print([os.wait()[1] for _ in range(20)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert (done.stdout.splitlines()[-1], done.stderr) == (str([0] * 20), "")
    entries = baseline.read(tmp_path / baseline.DEFAULT).entries
    assert sorted(entry.path for entry in entries) == sorted(f"{n}.ptx" for n in range(20))
    assert sorted(os.listdir(tmp_path)) == sorted([*(f"{n}.ptx" for n in range(20)), baseline.DEFAULT])


def test_an_update_during_the_analysis_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is that of the runs in the order in which they write."""

    def during(*options: str, during: Callable[[], object] = lambda: None) -> int:
        def slow(*args: Any) -> list[Checked]:
            checked = list(reports(*args))
            monkeypatch.setattr("tclint.driver.pool.reports", reports)
            during()
            return checked

        monkeypatch.setattr("tclint.driver.pool.reports", slow)
        with pytest.raises(SystemExit) as raised:
            main(["baseline", "--isolated", *options])
        assert isinstance(raised.value.code, int)
        return raised.value.code

    def recorded() -> list[str]:
        return [entry.path for entry in baseline.read(baseline.DEFAULT).entries]

    monkeypatch.chdir(folder)
    for name in ("c", "d", "e"):
        (folder / f"{name}.ptx").write_text(wrong(name))
    assert during("c.ptx", during=lambda: during("d.ptx")) == 0
    assert recorded() == ["a.ptx", "b.ptx", "c.ptx", "d.ptx"]
    # What both found is recorded once, and what one removed does not come back.
    (folder / "a.ptx").write_text(right("a"))
    assert during("e.ptx", during=lambda: during(".")) == 0
    assert recorded() == ["b.ptx", "c.ptx", "d.ptx", "e.ptx"]
    # It may also have gone, or have become unreadable.
    for path in folder.glob("*.ptx"):
        path.write_text(right(path.stem))
    assert during("--prune", ".", during=lambda: during(".")) == 2
    assert recorded() == []
    assert during(".", during=lambda: Path(baseline.DEFAULT).write_text("<<<<<<<")) == 2
    assert Path(baseline.DEFAULT).read_text() == "<<<<<<<"


def test_counts_agree_with_what_is_shown(folder: Path) -> None:
    (folder / "a.ptx").write_text(wrong("a", "x"))
    known = baseline.read(folder / baseline.DEFAULT)
    found, known = known.compared(_reports(str(folder)), Selected(), [str(folder)])
    _, summary = present(found, Selected(), known.gone)
    marked = Counter(finding.baselined for file in found for finding in file.findings)
    assert summary.baselined == {"WG001": marked[True]}
    assert summary.by_rule == {"WG001": marked[False]}
