"""``tclint check --fix``, ``--unsafe-fixes`` and ``--diff``."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from time import process_time
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tclint.analyses.model import KernelModel
from tclint.commands._cli import cli
from tclint.config.config import Config
from tclint.driver import fixing, pool, rewriting
from tclint.driver.fixing import Fixed, Fixing, apply_fixes, shown, tried, verified_fixes
from tclint.findings.finding import Edit, Fix
from tclint.findings.scales import Severity
from tclint.findings.spans import Span
from tclint.linting import check
from tclint.linting.subsumption import related
from tclint.syntax.source import Source
from tests.tools.pages import block as page_block
from tests.tools.support import HOPPER, WGMMA, before_the_wait, checked_kernels, kernel, module

Process = Callable[..., subprocess.CompletedProcess[str]]

USE = "    st.global.f32 [%rd0], %f0;"
WAIT = "    wgmma.wait_group.sync.aligned 0;\n"
WRONG = HOPPER + before_the_wait(USE)
RIGHT = WRONG.replace(USE, WAIT + USE)
OTHER = HOPPER.replace("sm_90a", "sm_90") + kernel(
    "    setp.ne.b32 %p0, 0, 0; ld.param.u64 %rd0, [pointer]; mov.b64 %rd1, %rd0;\n"
    f"    wgmma.fence.sync.aligned;\n    {WGMMA}\n    ret;"
)


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "k.ptx"
    path.write_bytes(WRONG.encode())
    return path


# ---------------------------------------------------------------- one text


def test_a_text_is_fixed_and_then_stays_as_it_is() -> None:
    done = apply_fixes(Source(WRONG.encode(), "k.ptx"), Config())
    assert done.source.data.decode() == RIGHT
    assert [f.rule.id for f in done.fixed] == ["WG001"]
    assert not done.report.findings
    again = apply_fixes(done.source, Config())
    assert (again.source.data, again.fixed, again.refused) == (done.source.data, (), ())


def test_many_findings_are_fixed_together() -> None:
    kernels = [before_the_wait(USE, f"k{i}") for i in range(4)]
    calls = 0
    real = fixing.lint

    def counted(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        return real(*args, **kwargs)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fixing, "lint", counted)
        done = apply_fixes(Source(module(*kernels, header=HOPPER).encode(), "k.ptx"), Config())
    assert len(done.fixed) == 4
    assert calls == 2  # before and after


def test_only_what_a_fix_changes_is_analysed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = checked_kernels(monkeypatch)
    text = module(before_the_wait(USE, "a"), *(kernel("    ret;", f"k{i}") for i in range(9)), header=HOPPER)
    checked = pool.check(("k.ptx", Source(text.encode(), "k.ptx")), Config())
    assert [finding.entry for finding in checked.report.findings if finding.fixes] == ["a"]
    assert asked.count("a") == 2
    assert len(asked) == 11


def test_fixes_in_a_report_are_verified_with_their_rules_and_applied_with_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[frozenset[str]] = []
    hits = check._kernel_hits

    def note(model: KernelModel, on: frozenset[str], *rest: object) -> object:
        checked.append(on)
        return hits(model, on, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(check, "_kernel_hits", note)
    source = Source(WRONG.encode(), "k.ptx")
    report = pool.check(("k.ptx", source), Config()).report
    assert [f.rule.id for f in report.findings if f.fixes] == ["WG001"]
    assert checked == [Config().selected.on, related(["WG001"])]
    checked.clear()
    assert apply_fixes(source, Config()).fixed
    assert checked == [Config().selected.on] * 2


def test_an_unsafe_fix_is_made_only_when_it_is_asked_for() -> None:
    source = Source(OTHER.encode(), "k.ptx")
    found = [f for f in shown(source, Config()).findings if f.rule.id == "AV001"]
    assert found
    assert all(not fix.safe for f in found for fix in f.fixes)
    assert not [f for f in apply_fixes(source, Config()).fixed if f.rule.id == "AV001"]
    done = apply_fixes(source, Config(), unsafe=True)
    assert b".target sm_90a" in done.source.data
    assert "AV001" in {f.rule.id for f in done.fixed}


def test_a_note_counts_no_fix_as_safe_until_strict_makes_it_a_warning(
    run_tclint: Process, tmp_path: Path
) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(page_block("TC011", "overwritten"))
    assert "1 fix with --unsafe-fixes" in run_tclint("check", "k.ptx").stdout
    assert "(1 fixed" not in run_tclint("check", "--fix", "k.ptx").stdout
    assert "1 fixable with --fix" in run_tclint("check", "--strict", "k.ptx").stdout
    run_tclint("check", "--fix", "--unsafe-fixes", "k.ptx")
    assert path.read_text().count("tcgen05.wait::ld") == 2


def _changed(text: str, old: str, new: str) -> Fix:
    start = text.index(old)
    return Fix("", (Edit(Span(start, start + len(old)), new),), True)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (USE, USE + "  // looked at", "the fix does not remove the finding"),
        (USE, "    st.global.f32 [%rd0], %f0", "the fix causes an error"),
        (USE, WAIT + USE + "\n    nothing.u32 %r0;", "the fix causes PX001 in line"),
    ],
)
def test_a_fix_that_does_not_hold_is_not_made(old: str, new: str, why: str) -> None:
    report = shown(Source(WRONG.encode(), "k.ptx"), Config())
    (finding,) = report.findings
    made = tried(report, [(finding, _changed(WRONG, old, new))], Config())
    assert isinstance(made, str)
    assert made.startswith(why)


def test_the_others_are_made_when_one_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    text = module(before_the_wait(USE, "a"), before_the_wait(USE, "b"), header=HOPPER)
    from dataclasses import replace

    real = fixing.lint

    def spoiled(source: Source, config: Config, **kwargs: object) -> object:
        report = real(source, config, **kwargs)
        findings = (
            replace(f, fixes=(_changed(source.data.decode(), ".version", ".verzion"),))
            if f.entry == "a"
            else f
            for f in report.findings
        )
        return replace(report, findings=tuple(findings))

    monkeypatch.setattr(fixing, "lint", spoiled)
    done = apply_fixes(Source(text.encode(), "k.ptx"), Config())
    assert [f.entry for f in done.fixed] == ["b"]
    ((finding, reason),) = done.refused
    assert (finding.entry, "the fix causes an error" in reason) == ("a", True)
    assert done.source.data.count(WAIT.encode()) == 3


def test_overlapping_fixes_are_not_made_together(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []
    real = fixing.tried

    def counted(report: object, chosen: list[object], config: Config, **kwargs: object) -> Fixed | str:
        tries.append(len(chosen))
        return real(report, chosen, config, **kwargs)  # type: ignore[arg-type]

    at = Fix("", (Edit(Span(5, 5), "a"),), True)
    same = Fix("", (Edit(Span(5, 5), "a"),), True)
    other = Fix("", (Edit(Span(5, 5), "b"),), True)
    around = Fix("", (Edit(Span(2, 9), "c"),), True)
    finding = shown(Source(WRONG.encode(), "k.ptx"), Config()).findings[0]
    chosen = fixing.compatible([(finding, [fix]) for fix in (at, same, other, around)])
    assert [fix for _, fix in chosen] == [at, same]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4), st.sampled_from("ab")), max_size=12))
def test_compatible_fixes_are_those_that_clash_with_no_earlier_one(drawn: list[tuple[int, int, str]]) -> None:
    """Of fixes in any order; an edit that an earlier fix makes as well does not clash with it."""
    (finding,) = shown(Source(WRONG.encode(), "k.ptx"), Config()).findings
    fixes = [Fix("", (Edit(Span(start, start + size), text),), True) for start, size, text in drawn]
    expected: list[Fix] = []
    for fix in fixes:
        (own,) = fix.edits
        clashes = [
            other
            for before in expected
            for other in before.edits
            if other != own
            and (
                other.span == own.span
                or (other.span.start < own.span.end and own.span.start < other.span.end)
            )
        ]
        if not clashes:
            expected.append(fix)
    assert [fix for _, fix in fixing.compatible([(finding, [fix]) for fix in fixes])] == expected


def test_many_fixes_take_no_more_than_their_number() -> None:
    """Ten thousand comments that hide nothing are ten thousand findings with a fix."""
    comments = "// tclint: ignore[WG001] x\n" * 3_000
    report = shown(Source(RIGHT.replace("ret;", f"\n{comments}ret;").encode(), "k.ptx"), Config())
    began = process_time()
    verified = fixing.verified_fixes(report, Config())
    assert sum(bool(finding.fixes) for finding in verified.findings) == 3_000
    assert process_time() - began < 6


# ---------------------------------------------------------------- files


def test_fix_changes_the_file_and_says_what_is_left(run_tclint: Process, wrong: Path) -> None:
    done = run_tclint("check", "--isolated", "--fix", "k.ptx")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Found 1 error (1 fixed, 0 remaining).\n"
    assert wrong.read_text() == RIGHT
    again = run_tclint("check", "--isolated", "--fix", "k.ptx")
    assert (again.returncode, again.stdout) == (0, "No findings in 1 file.\n")
    assert os.listdir(wrong.parent) == ["k.ptx"]


def test_without_fix_nothing_changes_and_the_counts_are_reported(run_tclint: Process, wrong: Path) -> None:
    (wrong.parent / "o.ptx").write_text(OTHER)
    done = run_tclint("check", "--isolated", "k.ptx", "o.ptx", "--output-format", "json")
    assert done.returncode == 1
    summary = json.loads(done.stdout)["summary"]
    assert (summary["fixed"], summary["fixable"], summary["unsafe_fixable"] > 0) == (
        0,
        summary["fixable"],
        True,
    )
    text = run_tclint("check", "--isolated", "k.ptx", "o.ptx").stdout
    assert ": add wgmma.wait_group.sync.aligned 0 (--fix)" in text
    assert f"; {summary['fixable']} fixable with --fix; {summary['unsafe_fixable']} more fix" in text
    assert "with --unsafe-fixes" in text
    assert wrong.read_text() == WRONG


def test_diff_shows_what_would_change_and_changes_nothing(run_tclint: Process, wrong: Path) -> None:
    done = run_tclint("check", "--isolated", "--diff", "k.ptx")
    assert (done.returncode, done.stderr) == (1, "Would fix 1 finding.\n")
    lines = done.stdout.splitlines()
    assert lines[:2] == ["--- k.ptx", "+++ k.ptx"]
    assert [l for l in lines[2:] if l[0] in "+-"] == ["+" + WAIT.rstrip()]
    assert wrong.read_text() == WRONG
    wrong.write_text(RIGHT)
    done = run_tclint("check", "--isolated", "--diff", "k.ptx")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_diff_can_be_applied(run_tclint: Process, wrong: Path) -> None:
    wrong.write_bytes(WRONG.rstrip("\n").encode())
    done = run_tclint("check", "--isolated", "--diff", "k.ptx")
    try:
        subprocess.run(
            ["patch", "k.ptx"],
            input=done.stdout,
            text=True,
            check=True,
            cwd=wrong.parent,
            capture_output=True,
        )
    except FileNotFoundError:
        pytest.skip("there is no patch")
    assert wrong.read_text() == RIGHT.rstrip("\n")


def test_diff_of_what_cannot_be_analysed_is_an_error(run_tclint: Process, wrong: Path) -> None:
    wrong.write_text(WRONG.replace(".version 8.0\n", ""))
    done = run_tclint("check", "--isolated", "--diff", "k.ptx", "no.ptx")
    assert done.returncode == 2
    assert "k.ptx:1: error: .version is missing: it must be the first directive\n" in done.stderr
    assert "no.ptx: error: no such file or directory\n" in done.stderr


def test_diff_of_an_entry_that_is_not_there_does_not_look_clean(run_tclint: Process, wrong: Path) -> None:
    done = run_tclint("check", "--isolated", "--diff", "--entry", "nothing", "k.ptx")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no function matches 'nothing'" in done.stderr


def test_the_exit_code_is_that_of_what_is_left(run_tclint: Process, wrong: Path) -> None:
    wrong.write_text(OTHER)
    done = run_tclint("check", "--isolated", "--fix", "k.ptx")
    assert done.returncode == 1
    assert "fixed," in done.stdout
    done = run_tclint("check", "--isolated", "--fix", "--unsafe-fixes", "k.ptx", "--output-format", "json")
    summary = json.loads(done.stdout)["summary"]
    assert summary["fixed"] >= 1
    assert ".target sm_90a" in wrong.read_text()


def test_standard_input_comes_out_fixed(run_tclint: Process) -> None:
    done = run_tclint("check", "--isolated", "--fix", "-", input=WRONG, stdin=None)
    assert (done.returncode, done.stdout) == (0, RIGHT)
    assert done.stderr == "Found 1 error (1 fixed, 0 remaining).\n"
    done = run_tclint("check", "--isolated", "--diff", "-", input=WRONG, stdin=None)
    assert done.returncode == 1
    assert done.stdout.startswith("--- <stdin>\n+++ <stdin>\n")
    done = run_tclint("check", "--isolated", "--fix", "-", input=RIGHT, stdin=None)
    assert (done.returncode, done.stdout) == (0, RIGHT)


def test_standard_input_must_be_alone(run_tclint: Process, wrong: Path) -> None:
    done = run_tclint("check", "--isolated", "--fix", "-", "k.ptx", input=WRONG, stdin=None)
    assert (done.returncode, done.stdout) == (2, "")
    assert "standard input must be the only path" in done.stderr
    assert wrong.read_text() == WRONG


@pytest.mark.parametrize(
    "changed",
    [
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.rstrip("\n").encode(),
        lambda text: text.encode() + b"\0",
        lambda text: text.replace(".visible", "// größer\n.visible").encode(),
    ],
    ids=["crlf", "mark", "no-final-newline", "nul", "utf-8"],
)
def test_bytes_that_are_not_fixed_stay(tmp_path: Path, changed: Callable[[str], bytes]) -> None:
    path = tmp_path / "k.ptx"
    path.write_bytes(changed(WRONG))
    assert _fixed(path).notes == []
    assert path.read_bytes() == changed(RIGHT)


def _fixed(path: Path, **options: bool) -> Fixing:
    run = Fixing(Config(), **options)
    from tclint.driver.inputs import inputs

    list(run.fixed_inputs(inputs([str(path)], "<stdin>"), "<stdin>"))
    return run


def test_permissions_stay_and_links_are_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target.ptx", tmp_path / "link.ptx"
    target.write_text(WRONG)
    target.chmod(0o640)
    link.symlink_to(target)
    assert _fixed(link).counts() == ({Severity.ERROR: 1}, 0)
    assert link.is_symlink()
    assert target.read_text() == RIGHT
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_file_with_another_hard_link_is_not_separated_from_it(wrong: Path) -> None:
    os.link(wrong, wrong.with_name("other.ptx"))
    run = _fixed(wrong)
    assert run.notes == [
        f"{wrong}: 1 finding could be fixed, but it has another hard link, which would keep the old text"
    ]
    assert (wrong.read_text(), wrong.stat().st_nlink, run.unwritten) == (WRONG, 2, False)


def test_a_compressed_file_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx.gz"
    packed = gzip.compress(WRONG.encode())
    path.write_bytes(packed)
    run = _fixed(path)
    assert path.read_bytes() == packed
    assert run.notes == [f"{path}: 1 finding could be fixed, but the file is compressed"]


def test_a_module_of_a_container_is_not_changed() -> None:
    run = Fixing(Config())
    source = Source(WRONG.encode(), "lib.so", "an ELF file", "k.ptx")
    ((_, after),) = run.fixed_inputs([("lib.so", source)], "<stdin>")
    assert after is source
    assert run.notes == ["lib.so(k.ptx): 1 finding could be fixed, but it is a module of a container"]


def test_a_file_that_has_changed_meanwhile_is_not_overwritten(
    wrong: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = rewriting._store

    def late(path: str, old: bytes, new: bytes) -> str:
        wrong.write_text("// changed meanwhile\n")
        return real(path, old, new)

    monkeypatch.setattr(rewriting, "_store", late)
    run = _fixed(wrong)
    assert run.notes == [f"{wrong}: 1 finding could be fixed, but the file has changed since it was read"]
    assert wrong.read_text() == "// changed meanwhile\n"
    assert os.listdir(wrong.parent) == ["k.ptx"]


def test_two_runs_do_not_both_replace_a_file(wrong: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = rewriting.read_bytes
    answers: list[str] = []
    other = Thread(target=lambda: answers.append(rewriting._store(str(wrong), WRONG.encode(), b"theirs")))

    def slow(path: str, limit: int) -> bytes:
        data = read(path, limit)
        if other.ident is None:
            other.start()
            other.join(0.3)
        return data

    monkeypatch.setattr(rewriting, "read_bytes", slow)
    assert rewriting._store(str(wrong), WRONG.encode(), b"ours") == ""
    other.join()
    assert answers == ["the file has changed since it was read"]
    assert wrong.read_bytes() == b"ours"


def test_a_full_disk_leaves_the_file_as_it_is(wrong: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    run = _fixed(wrong)
    assert "No space left" in run.notes[0]
    assert wrong.read_text() == WRONG
    assert (run.unwritten, run.counts()) == (True, ({}, 0))
    assert os.listdir(wrong.parent) == ["k.ptx"]


def test_a_failed_write_is_exit_2(wrong: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "_store", lambda *_: "the file cannot be written: No space left on device")
    monkeypatch.setenv("TCLINT_NO_CACHE", "1")
    result = CliRunner().invoke(cli, ["check", "--fix", str(wrong)], standalone_mode=False)
    assert (result.return_value, "No space left" in result.stderr) == (2, True)


def test_check_and_fix_count_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One source line, compiled into three modules: one defect with two duplicates, before, while and after it is fixed."""
    monkeypatch.setenv("TCLINT_NO_CACHE", "1")
    lined = WRONG.replace("{\n", "{\n    .loc 1 12 3\n", 1) + '.file 1 "/src/gemm.cu"\n'
    for name in "abc":
        (tmp_path / f"{name}.ptx").write_text(lined)

    def summary(*options: str) -> dict[str, Any]:
        arguments = ["check", *options, "--output-format", "json", str(tmp_path)]
        document = json.loads(CliRunner().invoke(cli, arguments, standalone_mode=False).stdout)
        assert isinstance(document["summary"], dict)
        listed = [finding for file in document["files"] for finding in file["findings"]]
        kept = [finding for finding in listed if finding["duplicate_of"] is None]
        assert len(kept) == sum(document["summary"]["severities"].values())
        assert len(listed) - len(kept) == document["summary"]["folded"]
        return dict(document["summary"])

    before = summary()
    said = CliRunner().invoke(cli, ["check", "--diff", str(tmp_path)], standalone_mode=False)
    assert "Would fix 1 finding, and 2 duplicates." in said.stderr
    during, after = summary("--fix"), summary()
    numbers = ("fixed", "fixed_duplicates", "fixable", "folded")
    assert [before[name] for name in numbers] == [0, 0, 1, 2]
    assert [during[name] for name in numbers] == [1, 2, 0, 0]
    assert [after[name] for name in numbers] == [0, 0, 0, 0]
    assert sum(before["severities"].values()) == sum(during["severities"].values()) + during["fixed"] == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_is_not_replaced(wrong: Path) -> None:
    wrong.chmod(0o444)
    assert "Permission denied" in _fixed(wrong).notes[0]
    assert wrong.read_text() == WRONG


def test_only_fixes_that_hold_are_offered() -> None:
    """Alone or with the others: the reader of a report applies them without linting again."""
    from dataclasses import replace

    text = module(before_the_wait(USE, "a"), before_the_wait(USE, "b"), header=HOPPER)
    report = shown(Source(text.encode(), "k.ptx"), Config())
    first, second = (f for f in report.findings if f.fixes)
    idle = Fix("say nothing", (Edit(Span(0, 0), "// nothing\n"),), True)
    spoiled = replace(report, findings=(replace(first, fixes=(idle, *first.fixes)), second))
    reported = verified_fixes(spoiled, Config())
    assert [f.fixes for f in reported.findings] == [first.fixes, second.fixes]
    alone = replace(report, findings=(replace(first, fixes=(idle,)), second))
    assert [f.fixes for f in verified_fixes(alone, Config()).findings] == [(), second.fixes]
    quiet = replace(first, fixes=(idle,), suppressed="so it shall be")
    note = replace(first, fixes=(idle,), severity=Severity.INFO)
    for untried in (quiet, note):
        assert verified_fixes(replace(report, findings=(untried,)), Config()).findings == (untried,)


def test_fixes_beside_one_that_fails_are_verified_together(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    text = module(*(before_the_wait(USE, name) for name in "abcd"), header=HOPPER)
    report = shown(Source(text.encode(), "k.ptx"), Config())
    first, *others = (f for f in report.findings if f.fixes)
    idle = Fix("say nothing", (Edit(Span(0, 0), "// nothing\n"),), True)
    wrong = _changed(text, ".version", ".version 8.0\n.version")
    real, trials = fixing.lint, list[Source]()

    def counted(source: Source, config: Config, **kwargs: object) -> object:
        trials.append(source)
        return real(source, config, **kwargs)

    monkeypatch.setattr(fixing, "lint", counted)
    spoiled = replace(report, findings=(replace(first, fixes=(idle,)), *others))
    assert [f.fixes for f in verified_fixes(spoiled, Config()).findings] == [(), *(f.fixes for f in others)]
    assert len(trials) == 3  # all, all but the first, the first
    trials.clear()
    broken = replace(report, findings=(replace(first, fixes=(wrong,)), *others))
    assert [f.fixes for f in verified_fixes(broken, Config()).findings] == [(), *(f.fixes for f in others)]
    assert len(trials) == 5  # an error points to none of them, so each is tried alone
    trials.clear()
    alone = replace(report, findings=(replace(first, fixes=(idle,)),))
    assert [f.fixes for f in verified_fixes(alone, Config()).findings] == [()]
    assert len(trials) == 1
