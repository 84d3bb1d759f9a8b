from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import click
import pytest

from tclint import commands
from tclint._version import __version__
from tclint.commands import _cli
from tclint.commands._help import COMMANDS, GROUPS
from tclint.driver.inputs import inputs
from tclint.findings import rules
from tclint.findings.finding import FileReport
from tclint.findings.scales import Confidence, Severity
from tclint.isa.documents import prepare
from tclint.syntax.source import Problem, Source, SourceError
from tests.tools.command import invoke
from tests.tools.findings import RULE, finding
from tests.tools.project import ROOT

GOOD = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n    ret;\n}\n"

Run = Callable[..., tuple[int, str, str]]


def fake_check(source: Source, *_: object, **__: object) -> FileReport:
    """A driver that reports the words that it sees."""
    text = source.text
    if "crash" in text:
        raise RuntimeError("out of\ncheese")
    if "empty" in text:
        raise SourceError("holds no module", 1)
    words: dict[str, dict[str, Any]] = {
        "error": {"severity": Severity.ERROR},
        "warning": {"severity": Severity.WARNING},
        "info": {"severity": Severity.INFO},
        "doubt": {"confidence": Confidence.LOW},
    }
    if "kept" in text:
        words = {"error": {"suppressed": "because"}}
    if "stale" in text:
        words = {"stale": {"rule": rules.all_rules()["SU001"]}}
    found = tuple(finding(source, word, **changes) for word, changes in words.items() if word in text)
    broken = (Problem(1, "unbalanced {"),) if "broken" in text else ()
    return FileReport(
        path=source.path,
        status="partial" if broken else "analysed",
        problems=broken,
        findings=found,
        source=source,
        entries=("gemm",),
    )


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command in this process, in an empty folder, with a driver that finds words."""
    driver = ModuleType("tclint.linting.check")
    driver.check_source = fake_check  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tclint.linting.check", driver)
    for name in ("NO_COLOR", "FORCE_COLOR", "TCLINT_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def command(*args: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as exited:
            _cli.main(args)
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        assert isinstance(exited.value.code, int)
        return exited.value.code, out, err

    return command


def write(**files: str) -> None:
    for name, text in files.items():
        Path(f"{name}.ptx").write_text(text)


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        ("fine", [], 0),
        ("error", [], 1),
        ("warning", [], 1),
        ("info", [], 0),
        ("doubt", [], 0),
        ("doubt", ["--pedantic"], 1),
        ("warning", ["--fail-on", "error"], 0),
        ("info", ["--fail-on", "info"], 1),
        ("error", ["--fail-on", "never"], 0),
        ("broken", [], 2),
        ("broken error", [], 2),
        ("broken", ["--fail-on", "never"], 2),
        ("empty", [], 2),
        ("crash", [], 2),
    ],
)
def test_exit_codes(run: Run, text: str, options: list[str], code: int) -> None:
    write(a=text)
    assert run("check", "a.ptx", *options)[0] == code


def test_a_finding_is_shown_beside_a_problem(run: Run) -> None:
    write(a="broken error")
    _, out, _ = run("check", "a.ptx", "--output-format", "concise")
    assert out.splitlines()[:2] == [
        "a.ptx:1: error: unbalanced {",
        "a.ptx:1:8: error WG001 error is wrong [wgmma-unwaited-accumulator-read]",
    ]


def test_text_counts_notes_and_prints_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write(a="info error", b="info")
    code, out, _ = run("check", "a.ptx", "b.ptx")
    assert (code, out.count(" is wrong")) == (1, 1)
    assert out.splitlines()[-1].startswith(
        "Found 1 error, 2 notes in 2 of 2 files; 2 notes not printed (--min-severity info prints them)"
    )
    assert run("check", "b.ptx") == (
        0,
        "Found 1 note in 1 file; 1 note not printed (--min-severity info prints it).\n",
        "",
    )
    for options in (("--min-severity", "info"), ("--fail-on", "info"), ("--output-format", "concise")):
        _, out, _ = run("check", "a.ptx", "b.ptx", *options)
        assert (out.count(" is wrong"), "not printed" in out) == (3, False)
    code, out, _ = run("check", "a.ptx", "b.ptx", "--max-findings", "1")
    assert (out.count(" is wrong"), "--max-findings" in out, "2 notes not printed" in out) == (1, False, True)
    _, out, _ = run("check", "b.ptx", "--output-format", "json")
    assert [finding["severity"] for finding in json.loads(out)["files"][0]["findings"]] == ["info"]
    monkeypatch.setattr(RULE.__class__, "broke", True)
    assert run("check", "b.ptx")[1].count(" is wrong") == 1


def test_hidden_findings_are_counted(run: Run) -> None:
    write(a="doubt")
    assert run("check", "a.ptx")[1] == (
        "No findings in 1 file; 1 low-confidence finding hidden (--pedantic shows it).\n"
    )


def paths_of(output: str) -> list[tuple[str, str]]:
    return [(file["path"], file["status"]) for file in json.loads(output)["files"]]


def test_folders_are_walked_in_order_and_every_file_once(run: Run) -> None:
    for name in ("out/b.ptx", "out/a.PTX", "out/deep/c.ptx", "out/note.txt", "out/.git/d.ptx"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("fine")
    if hasattr(os, "mkfifo"):
        os.mkfifo("out/pipe.ptx")
    code, out, _ = run("check", "out", "./out/b.ptx", os.path.abspath("out"), "--output-format", "json")
    names = [os.path.join("out", name) for name in ("a.PTX", "b.ptx", os.path.join("deep", "c.ptx"))]
    assert (code, paths_of(out)) == (0, [(name, "analysed") for name in names])


def test_patterns_are_expanded(run: Run) -> None:
    write(a="fine", b="fine", **{"c[1]": "fine"})
    Path("x/y").mkdir(parents=True)
    Path("x/y/z.ptx").write_text("fine")
    code, out, _ = run("check", "[ab].ptx", "c[1].ptx", "x/**/*.ptx", "--output-format", "json")
    assert code == 0
    assert [path for path, _ in paths_of(out)] == ["a.ptx", "b.ptx", "c[1].ptx", os.path.join("x/y", "z.ptx")]


def test_what_cannot_be_read_is_a_problem_and_the_others_are_linted(run: Run) -> None:
    write(a="error", crash="crash", b="warning")
    Path("folder").mkdir()
    Path("binary.ptx").write_bytes(b"a\nb\0c")
    args = ("a.ptx", "absent.ptx", "folder", "*.nothing", "binary.ptx", "crash.ptx", "b.ptx")
    code, out, err = run("check", *args, "--output-format", "concise")
    assert (code, err) == (2, "warning: folder: nothing to check in this folder\n")
    assert out.splitlines() == [
        "a.ptx:1:1: error WG001 error is wrong [wgmma-unwaited-accumulator-read]",
        "absent.ptx: error: no such file or directory",
        "*.nothing: error: no file matches this pattern",
        "binary.ptx:2: error: is binary, not PTX text: byte 3 (line 2) is NUL",
        "crash.ptx: error: internal error: RuntimeError: out of cheese (TCLINT_DEBUG=1 shows where)",
        "b.ptx:1:1: warning WG001 warning is wrong [wgmma-unwaited-accumulator-read]",
        "Found 1 error, 1 warning in 2 of 2 files; 4 inputs could not be analysed.",
    ]


def test_a_folder_without_inputs_is_a_warning(run: Run) -> None:
    Path("folder").mkdir()
    warning = "warning: folder: nothing to check in this folder\n"
    assert run("check", "folder") == (0, "Nothing was analysed.\n", warning)
    assert run("check", "folder", "--quiet") == (0, "", "")
    assert run("check", "folder", "--diff") == (0, "", warning)
    code, out, _ = run("check", "folder", "--output-format", "json")
    assert (code, json.loads(out)["outcome"]) == (0, "not-analysed")
    write(a="error")
    code, _, err = run("check", "a.ptx", "folder")
    assert (code, err) == (1, warning)
    assert run("format", "folder") == (0, "", "warning: folder: no .ptx file in this folder\n")


def test_a_pattern_or_a_guard_without_inputs_fails(run: Run) -> None:
    Path("folder").mkdir()
    assert run("check", "folder", "*.nothing")[0] == 2
    assert run("check", "fold*")[0] == 2
    write(a="fine")
    assert run("baseline", "a.ptx")[0] == 0
    guards = {
        "require": ("--require", "proved:wgmma"),
        "baseline": ("--baseline", "tclint-baseline.json"),
        "ptxas-budget": ("--config", "ptxas-budget = { limits = [{ registers = 255 }] }"),
    }
    for key, options in guards.items():
        code, out, err = run("check", "folder", *options)
        assert (code, out) == (2, "")
        assert f"there is nothing to check, so {key} decides nothing" in err
    code, _, err = run("check", ".", "--exclude", "*.ptx", *guards["baseline"])
    assert (code, "so baseline decides nothing" in err) == (2, True)
    Path("k.cu").write_text('void f() { asm("exit;"); }')
    code, _, err = run("check", ".", "--exclude", "*.ptx", *guards["require"])
    assert (code, "so require decides nothing" in err) == (2, True)
    # What pre-commit names was looked at, although it is excluded.
    assert run("check", "--force-exclude", "a.ptx", "--exclude", "*.ptx", *guards["baseline"])[0] == 0
    Path("k.cu").write_text("void f() {}")
    assert run("check", "k.cu", *guards["require"])[0] == 0
    before = Path("tclint-baseline.json").read_text()
    code, _, err = run("baseline", "folder")
    assert (code, "nothing was written" in err) == (2, True)
    assert Path("tclint-baseline.json").read_text() == before


def test_the_debug_variable_propagates_the_exception(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write(a="crash")
    monkeypatch.setenv("TCLINT_DEBUG", "1")
    with pytest.raises(RuntimeError, match="cheese"):
        _cli.main(["check", "a.ptx"])


def test_standard_input(run: Run) -> None:
    code, out, _ = run("check", "-", "--output-format", "concise", stdin=b"error")
    assert (code, out.split(":")[0]) == (1, "<stdin>")
    code, out, _ = run(
        "check", "-", "--stdin-filename", "k.ptx", "--output-format", "concise", stdin=b"error"
    )
    assert (code, out.split(":")[0]) == (1, "k.ptx")
    code, out, _ = run(
        "check", "-", "--stdin-filename", "k.ptx", "--output-format", "concise", stdin=b"\0\0x"
    )
    assert (code, out.split(": ")[0]) == (2, "k.ptx:1")
    assert run("check", "a.ptx", "--stdin-filename", "k.ptx")[0] == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["check", "a", "-q", "-v"], "--quiet cannot be combined with --verbose"),
        (["check", "a", "--fix", "--add-ignore"], "--fix cannot be combined with --add-ignore"),
        (["check", "a", "--watch", "--diff"], "--watch cannot be combined with --diff"),
        (["check", "a", "--statistics", "--max-findings", "0"], "--statistics cannot be combined with --max"),
        (["check", "-", "--watch"], "--watch needs files"),
        (["check", "-", "a", "--add-ignore"], "With --add-ignore, standard input must be the only path"),
        (
            ["check", "a", "--max-findings", "3", "--output-format", "json"],
            "--max-findings requires the format",
        ),
        (["check", "a", "--max-findings", "-3"], "is not in the range"),
        (["check", "a", "-o", "absent/b"], "--output-file: "),
        (["baseline", "a", "--fail-on", "error"], "No such option '--fail-on'"),
        (["diff", "a", "b", "--shard", "1/2"], "No such option '--shard'"),
        (["chekc", "a"], "Did you mean 'check'"),
        (["check", "a", "--pedantik"], "'--pedantic'?"),
        (["check", "a", "--output-format", "jason"], "Did you mean 'json'"),
        (["check", "a", "--fail-on", "warn"], "Did you mean 'warning'"),
        (["explain", "WG999"], "unknown rule WG999"),
        (["dump", "tre", "a"], "Did you mean 'tree'"),
        (["check", "a", "--select", "wgma"], "--select: unknown rule 'wgma'; did you mean wgmma?"),
        (
            ["check", "a", "--pedantic", "--min-confidence", "high"],
            "--pedantic and min-confidence contradict",
        ),
        (["check", "a", "--exit-zero", "--fail-on", "error"], "--exit-zero and fail-on contradict"),
        (["check", "a", "--ignore", "ALL"], "leave no rules to check"),
        (["check", "a", "--toolkit", "12"], "--toolkit must be a CUDA version"),
        (["check", "a", "--exclude"], "requires an argument"),
        (["check", "a", "--jobs", "x"], "--jobs must be a number"),
        (["check", "a", "--config", "b.toml"], "b.toml: cannot be read: No such file"),
        (["check", "a", "--config", "x.toml", "--config", "y.toml"], "two files: x.toml and y.toml"),
        (
            ["check", "a", "--config", "x.toml", "--isolated"],
            "--isolated cannot be used with --config x.toml",
        ),
        (["check", "a", "--config", "fail-on=error"], "needs quotes"),
        (
            ["check", "a", "--statistics", "--output-format", "json"],
            "--statistics requires the format text or concise",
        ),
        (["explain"], "Name at least one rule, or use --all"),
        (["explain", "--all", "WG001"], "--all cannot be combined with rules"),
        (["explain", "--short", "WG001", "--output-format", "json"], "--short cannot be combined"),
        (["explain", "WG1"], "unknown rule WG1; did you mean WG001?"),
        (["rules", "WX"], "unknown rule 'WX'"),
        (["isa", "wgma"], "unknown instruction 'wgma' in the table of PTX ISA 9.5; did you mean wgmma?"),
    ],
)
def test_usage_errors_suggest(run: Run, args: list[str], message: str) -> None:
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("command", ["check", "baseline"])
def test_without_a_path_the_working_folder_is_meant(run: Run, command: str) -> None:
    Path("below").mkdir()
    Path("below/a.ptx").write_text("error")
    code, out, _ = run(command)
    assert (code, "1 finding" in out or "1 error in 1 file" in out) == (int(command == "check"), True)
    assert run("check", "--stdin-filename", "x")[0] == 2


def test_quiet_leaves_the_findings_alone(run: Run) -> None:
    write(a="error doubt", b="broken")
    for output_format in ("text", "concise"):
        loud = run("check", "--output-format", output_format)[1]
        code, out, err = run("check", "-q", "--output-format", output_format)
        assert (code, err) == (2, "")
        assert loud.startswith(out)
        assert loud.removeprefix(out).strip().startswith("Found 1 error in 1 of 2 files")
    Path("b.ptx").unlink()
    assert run("check", "-q", "--statistics")[1] == f"1  WG001  {RULE.name}\n"
    write(a="fine")
    assert run("check", "-q") == (0, "", "")


def test_the_first_findings_are_shown_and_the_others_counted(run: Run) -> None:
    write(a="error warning", b="error", c="kept")
    whole = run("check", "--output-format", "concise")[1].splitlines()
    code, out, _ = run("check", "--output-format", "concise", "--max-findings", "2")
    *shown, tally = out.splitlines()
    assert (code, shown) == (1, whole[:2])
    assert tally.startswith("Found 2 errors, 1 warning in 2 of 3 files; 1 of them not shown (--max-findings)")
    assert run("check", "--max-findings", "3", "--output-format", "concise")[1].splitlines() == whole
    code, out, _ = run("check", "--max-findings", "0")
    assert (code, len(out.splitlines())) == (1, 1)


def test_the_findings_go_to_a_file_instead(run: Run) -> None:
    write(a="error")
    shown = run("check", "--output-format", "concise")[1]
    assert run("check", "--output-format", "concise", "-o", "out.txt") == (1, "", "")
    assert Path("out.txt").read_text() == shown
    code, out, _ = run("check", "--output-file", "out.txt", "--statistics", "--output", "json=all.json")
    assert (code, out) == (1, "")
    assert Path("out.txt").read_text().startswith("1  WG001")
    assert json.loads(Path("all.json").read_text())["summary"]["files"] == 1
    assert "two outputs for the same file" in run("check", "-o", "x", "--output", "json=x")[2]
    assert "is an input" in run("check", "a.ptx", "-o", "a.ptx")[2]
    assert Path("a.ptx").read_text() == "error"


@pytest.mark.parametrize("command", ["check", "baseline", "diff", "nvcc", "ptxas", "show"])
def test_every_option_with_settings_has_a_heading(run: Run, command: str) -> None:
    out = run(command, "--help")[1]
    headings = [line[:-1] for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings
    assert set(headings) <= set(GROUPS)


def test_every_heading_is_of_options_that_exist() -> None:
    named = [name for names in GROUPS.values() for name in names]
    assert len(named) == len(set(named))
    known = {
        option.opts[-1].lstrip("-")
        for name in commands.names()
        if (command := commands.load(name)) is not None
        for option in command.get_params(click.Context(command))
        if isinstance(option, click.Option)
    }
    assert set(named) <= known


def test_every_visible_command_has_a_heading(run: Run) -> None:
    found = {name: commands.load(name) for name in commands.names()}
    visible = [name for name, command in found.items() if command is not None and not command.hidden]
    assert sorted(name for names in COMMANDS.values() for name in names) == visible
    assert len({*visible} - {"format", "reduce"}) <= 22
    out = run("--help")[1]
    headings = [line[:-1] for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options", *COMMANDS]
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")][4:] == [
        name for names in COMMANDS.values() for name in names
    ]


def test_a_file_is_not_a_command(run: Run) -> None:
    Path("folder").mkdir()
    for name in ("a.ptx", "out/b", "folder"):  # the first two do not exist
        code, _, err = run(name)
        assert (code, err.splitlines()[-1]) == (
            2,
            f"Error: no such command '{name}'; did you mean tclint check {name}?",
        )
    code, _, err = run("chekc")
    assert (code, err.splitlines()[-1]) == (2, "Error: No such command 'chekc'. Did you mean 'check'?")


def test_an_option_of_nvcc_without_the_hyphens_before_it_has_a_hint(run: Run) -> None:
    for words in (["k.cu", "-arch=sm_90a"], ["--compile", "k.cu", "-gencode", "arch=compute_90a"]):
        code, _, err = run("check", *words)
        option = next(word for word in words if re.match("-[a-z]", word))
        assert code == 2
        assert f"no such option {option}; those of nvcc follow '--'" in err
        assert f"tclint check --compile kernel.cu -- {option}" in err
    code, _, err = run("check", "--archh", "x")
    assert (code, "nvcc" in err) == (2, False)


def test_a_report_in_place_of_a_file_name_is_refused(run: Run) -> None:
    write(a="error")
    code, _, err = run("check", "a.ptx", "-o", "sarif=x.sarif")
    assert (code, Path("sarif=x.sarif").exists()) == (2, False)
    assert "--output sarif=x.sarif" in err
    assert "--output-format sarif -o x.sarif" in err
    assert run("check", "a.ptx", "-o", "size=1.txt")[0] == 1
    assert Path("size=1.txt").exists()


def test_a_configuration_cannot_steer_the_terminal(run: Run) -> None:
    Path("tclint-ptx.toml").write_text('"\\u009b31m" = 1\n')
    code, _, err = run("check", "a.ptx")
    assert (code, "unknown setting \ufffd31m" in err) == (2, True)


def test_settings_come_from_a_file_and_options_override(run: Run) -> None:
    write(a="warning doubt")
    assert run("check", "a.ptx")[0] == 1
    Path("tclint-ptx.toml").write_text('fail-on = "error"\npedantic = true\n')
    code, out, _ = run("check", "a.ptx", "--output-format", "concise")
    assert (code, len(out.splitlines())) == (1, 3)  # the doubt is an error, too
    assert run("check", "a.ptx", "--no-pedantic")[0] == 0
    assert run("check", "a.ptx", "--no-pedantic", "--fail-on", "warning")[0] == 1
    assert run("check", "a.ptx", "--isolated")[0] == 1
    assert run("check", "a.ptx", "--config", "pedantic = false")[0] == 0
    Path("other.toml").write_text('per-file-ignores = { "a.ptx" = ["WG"] }\n')
    code, out, _ = run("check", "a.ptx", "--config", "other.toml")
    assert (code, out) == (0, "No findings in 1 file; 2 findings ignored by the configuration.\n")
    Path("pyproject.toml").write_text("[tool.tclint-ptx]\nfail-no = 1\n")
    code, _, err = run("check", "a.ptx", "--config", "pyproject.toml")
    assert (code, "unknown setting fail-no; did you mean fail-on?" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "checked", "excluded"),
    [
        (["."], ["./new.ptx"], 2),
        (["**/*.ptx"], ["new.ptx"], 2),
        (["old"], [], 1),
        (["old/*.ptx"], [], 1),
        (["old/a.ptx", "gen/b.ptx"], ["old/a.ptx", "gen/b.ptx"], 0),
        (["--force-exclude", "old/a.ptx", "gen/b.ptx", "new.ptx"], ["new.ptx"], 2),
        (["--force-exclude", "gen", "-", "--stdin-filename", "gen/x.ptx"], [], 1),
        (["--exclude", "new*,old/*", "."], ["./gen/b.ptx"], 2),
        (["--exclude", "gen/", "."], ["./new.ptx", "./old/a.ptx"], 1),
        (["--exclude", "**/a.ptx", "old", "new.ptx"], ["new.ptx"], 1),
    ],
)
def test_what_is_excluded_is_left_out_unless_it_is_named(
    run: Run, arguments: list[str], checked: list[str], excluded: int
) -> None:
    for name in ("old/a.ptx", "gen/b.ptx", "new.ptx"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("info")
    Path("tclint-ptx.toml").write_text('exclude = ["gen", "old/a.*"]\n')
    code, out, err = run("check", "--output-format", "json", *arguments)
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert [file["path"] for file in document["files"]] == checked
    assert document["summary"]["excluded"] == excluded


def test_folders_above_the_working_folder_exclude_nothing(run: Run) -> None:
    here = Path.cwd()
    write(k="fine")
    arguments = ("check", "--force-exclude", "--exclude", f"{here.name},{here.parent.name}")
    assert run(*arguments, str(here / "k.ptx")) == (0, "No findings in 1 file.\n", "")
    beside = here.parent / f"{here.name}-cache"
    beside.mkdir()
    (beside / "k.ptx").write_text("error")
    code, out, _ = run("check", "--force-exclude", "--exclude", "*-cache", str(beside / "k.ptx"))
    assert (code, out) == (0, "Nothing was analysed; 1 path excluded by the configuration.\n")


def test_settings_are_shown_without_a_path(run: Run) -> None:
    Path("tclint-ptx.toml").write_text("jobs = 1\n")
    code, out, _ = run("check", "--show-settings", "--min-severity", "error")
    assert code == 0
    assert f"jobs = 1  # {Path.cwd() / 'tclint-ptx.toml'}\n" in out
    assert 'min-severity = "error"  # the command line\n' in out


def test_lists_are_split_and_added_up(run: Run) -> None:
    _, out, _ = run("check", "--show-settings", "--entry", "a*, b", "--entry", "c", "--select", "WG001,WG002")
    assert 'entry = ["a*", "b", "c"]' in out
    assert out.count("WG00") == 2


def test_statistics_and_timings(run: Run) -> None:
    write(a="error warning", b="broken")
    code, out, err = run("check", "a.ptx", "b.ptx", "--statistics", "--timings")
    assert (code, out.splitlines()) == (
        2,
        [
            "b.ptx:1: error: unbalanced {",
            "2  WG001  wgmma-unwaited-accumulator-read",
            "Found 1 error, 1 warning in 1 of 2 files; 1 input only partly analysed.",
        ],
    )
    assert err == "   0.000 s        all stages\n"
    write(a="fine")
    assert run("check", "a.ptx", "--statistics")[1] == "No findings in 1 file.\n"


def test_an_error_in_a_comment_cannot_be_suppressed(run: Run) -> None:
    """The input gave the linter wrong information: 2, whatever other options are given."""
    write(a="stale", b="kept error")
    assert run("check", "a.ptx", "--exit-zero")[0] == 2
    assert run("check", "a.ptx", "--fail-on", "never")[0] == 2
    code, out, _ = run("check", "b.ptx")
    assert (code, out) == (0, "No findings in 1 file; 1 finding suppressed by comments.\n")


def test_an_unknown_entry_is_an_error(run: Run) -> None:
    write(a="fine")
    assert run("check", "a.ptx", "--entry", "ge*")[0] == 0
    code, out, err = run("check", "a.ptx", "--entry", "gem")
    assert (code, out) == (2, "")
    assert err.endswith("Error: no function matches 'gem'; did you mean gemm?\n")


def test_color(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write(a="error")

    def colored(*args: str) -> bool:
        return "\x1b[" in run("check", "a.ptx", *args)[1]

    assert not colored()
    assert colored("--color", "always")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert colored()
    assert not colored("--color", "never")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colored()
    assert colored("--color", "always")


def test_dump_calls_the_stage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = ModuleType("tclint.inspect.dump")

    def tree(source: Source, *, dot: bool, entry: str | None) -> str:
        if entry == "absent":
            raise SourceError("there is no function absent")
        return f"{source.text} {dot} {entry}"

    stages.tree = tree  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tclint.inspect.dump", stages)
    monkeypatch.setattr("tclint.inspect.dump", stages, raising=False)
    header = ".version 8.0 .target sm_90 .address_size 64"
    Path("a.ptx").write_text(header)
    assert run("dump", "tree", "a.ptx", "--dot", "--entry", "gemm") == (0, f"{header} True gemm\n", "")
    Path("b.ptx").write_text(f"{header} }}")
    code, out, err = run("dump", "tree", "b.ptx")
    assert (code, out, err.startswith("error: b.ptx:1: ")) == (2, f"{header} }} False None\n", True)
    assert run("dump", "tree", "a.ptx", "--entry", "absent") == (
        2,
        "",
        "Error: a.ptx: there is no function absent\n",
    )
    assert run("dump", "tree", "absent.ptx")[::2] == (2, "Error: absent.ptx: no such file or directory\n")


def test_rules_and_explain(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class OneRule(dict[str, rules.Rule]):
        front = rules.all_rules().front

    monkeypatch.setattr(rules, "all_rules", lambda: OneRule(WG001=RULE))
    code, out, _ = run("rules")
    assert (code, out) == (0, f"WG001  error  {RULE.name}  {RULE.summary}\n")
    code, out, _ = run("explain", RULE.name)
    assert code == 0
    assert out.startswith(f"# WG001 {RULE.name}\n\nSeverity error, confidence high, PTX ISA 9.1, §9.7.15.7.3")


def test_an_unexpected_error_outside_a_file_prints_no_traceback(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("no page")

    monkeypatch.setattr(rules, "all_rules", fail)
    code, _, err = run("rules")
    assert (code, err) == (2, "Error: internal error: RuntimeError: no page (TCLINT_DEBUG=1 shows where)\n")


def test_explain_lists_the_rules_of_a_family() -> None:
    family = [rule.id for rule in rules.all_rules().values() if rule.family == "wgmma"]
    code, out = invoke("explain", "wgmma")
    assert (code, re.findall(r"^WG\d+", out, re.MULTILINE)) == (0, family)
    code, out = invoke("explain", "WG001", "WGMMA", "--output-format", "json")
    assert [document["id"] for document in json.loads(out)] == ["WG001", *family]
    assert invoke("explain", "wgmna")[0] == 2


def test_rules_of_a_family_and_all_pages() -> None:
    assert [line[:5] for line in invoke("rules", "suppression")[1].splitlines()] == ["SU001", "SU002"]
    table = invoke("rules", "suppression", "--output-format", "markdown")[1]
    assert re.findall(r"^\| \[(\w+)\]", table, re.MULTILINE) == ["SU001", "SU002"]
    code, out = invoke("explain", "--all", "--output-format", "json")
    assert (code, [document["id"] for document in json.loads(out)]) == (0, list(rules.all_rules()))
    assert invoke("isa", "wgmma.wait_group")[1].startswith("wgmma.wait_group: Waits")
    assert json.loads(invoke("schema")[1])["title"] == "Configuration of tclint-ptx"


def test_the_short_page_of_a_rule(run: Run) -> None:
    code, out, _ = run("explain", "--short", "wg001")
    assert (code, out.splitlines()[0]) == (0, f"WG001 {RULE.name}: error, confidence high")
    assert "## Example" not in out


def test_the_version_for_people_and_for_programs(run: Run) -> None:
    code, out, _ = run("version", "--output-format", "json")
    facts = json.loads(out)
    assert (code, facts["version"], facts["rules"]) == (0, __version__, len(rules.all_rules()))
    assert {"ptx_isa", "json_schema", "python", "platform", "extras"} <= facts.keys()
    assert run("version")[1].splitlines()[0] == f"tclint {__version__}"


Process = Callable[..., subprocess.CompletedProcess[str]]


def test_the_module_runs_as_a_command(run_tclint: Process) -> None:
    done = run_tclint("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("tclint ")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("tclint expl", "explain"),
        ("tclint explain WG00", "WG001"),
        ("tclint check --sel", "--select"),
        ("tclint check --select wgmma-m", "wgmma-missing-fence"),
        ("tclint check --fail-on w", "warning"),
        ("tclint isa wgmma.wait", "wgmma.wait_group"),
    ],
)
def test_the_shell_completes(run_tclint: Process, words: str, expected: str) -> None:
    env = {"_TCLINT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert f"plain,{expected}" in run_tclint(env=env).stdout.splitlines()


def test_the_script_for_a_shell(run_tclint: Process) -> None:
    assert "_TCLINT_COMPLETE=zsh_complete" in run_tclint(env={"_TCLINT_COMPLETE": "zsh_source"}).stdout


def test_names_that_the_terminal_cannot_show_are_no_crash(run_tclint: Process) -> None:
    done = run_tclint("check", "é𝄞.ptx", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (2, "")
    assert "??.ptx: no such file" in done.stdout


def test_the_overview_of_commands_is_whole_sentences(run_tclint: Process) -> None:
    listed = run_tclint("--help").stdout.partition("Check kernels:\n")[2].splitlines()
    commands = [line for line in listed if line.startswith("  ")]
    assert len(commands) >= 6
    assert all(line.endswith(".") and not line.endswith("..") for line in commands)


def test_a_closed_pipe_is_quiet(tmp_path: Path, run_tclint: Process) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = run_tclint(
            "check", "absent.ptx", capture_output=False, stdout=write_end, stderr=subprocess.PIPE
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (2, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_a_message(run_tclint: Process) -> None:
    with open("/dev/full", "w") as full:
        done = run_tclint("check", "absent.ptx", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (
        2,
        "Error: cannot write the output: No space left on device\n",
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        ("--help >/dev/full", 2, "", "Error: cannot write the output: No space left on device\n"),
        ("check --help | true; exit $PIPESTATUS", 2, "", ""),
        ("--version >&-", 2, "", "Error: cannot write the output: Bad file descriptor\n"),
        ("check absent.ptx >&-", 2, "", "Error: cannot write the output: Bad file descriptor\n"),
        ("check good.ptx 2>&-", 0, "No findings in 1 file.\n", ""),
        ("check good.ptx --timings 2>/dev/full", 2, "No findings in 1 file.\n", ""),
        ("check --no-such-option 2>/dev/full", 2, "", ""),
        ("check absent.ptx >/dev/full 2>/dev/full", 2, "", ""),
        ("explain --all | (read line); exit $PIPESTATUS", 2, "", ""),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_streams_that_are_closed_or_full(
    tmp_path: Path, words: str, code: int, out: str, err: str, unbuffered: str
) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs a shell that can close streams")
    (tmp_path / "good.ptx").write_text(GOOD)
    script = f'"{sys.executable}" -m tclint {words}'
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        [bash, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)


def test_standard_input_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def error_from(stdin: object) -> str:
        monkeypatch.setattr(sys, "stdin", stdin)
        return str(next(iter(inputs(["-"], "<stdin>")))[1])

    def broken(count: int) -> bytes:
        raise OSError(5, "Input/output error")

    assert error_from(None) == "cannot be read: it is closed"
    assert (
        error_from(SimpleNamespace(buffer=SimpleNamespace(read=broken)))
        == "cannot be read: Input/output error"
    )


def test_starting_imports_nothing_heavy(run_tclint: Process) -> None:
    """--version stays below 0.15 s only while what costs time is imported where it is used."""
    code = "import sys, tclint.commands._cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "tree_sitter",
        "networkx",
        "tclint.findings.finding",
        "tclint.findings.rules",
        "tclint.linting.check",
        "rich",
        "difflib",
        "sarif_om",
    }
    assert not heavy & set(done.stdout.split())


def test_nothing_is_freed_at_the_end_but_what_was_registered_for_it_runs() -> None:
    code = (
        "import atexit, sys, tclint.commands as c; from tclint.commands._cli import main\n"
        "class Left:\n    def __del__(self): sys.stderr.write('freed')\n"
        "c.left = Left(); sys.modules['absent'] = None\n"
        "atexit.register(print, 'ended')\n"
        "main(['--version'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"tclint {__version__}\nended\n"


def test_a_clean_small_file_imports_nothing_that_it_does_not_need() -> None:
    """Linting one stays below 0.15 s only while this holds, and while instructions and rules are read as needed."""
    prepare()
    file = str(ROOT / "fixtures" / "wgmma_waited.ptx")
    code = (
        "import sys; from tclint.commands._cli import main\n"
        f"try: main(['check', '--isolated', {file!r}])\n"
        "except SystemExit: print(*sys.modules)\n"
        "from tclint.isa.table import table; print(*(form.family for form in table()._forms.values()))\n"
        "from tclint.findings.rules import all_rules; print(len(all_rules()._read), len(table()._forms), len(table().forms))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    _, modules, families, numbers = done.stdout.splitlines()
    heavy = {
        "networkx",
        "hashlib",
        "_hashlib",
        "multiprocessing",
        "concurrent.futures",
        "difflib",
        "json",
        "sarif_om",
        "shutil",
        "socket",
        "subprocess",
        "tomllib",
        "tomli",
    }
    assert not heavy & set(modules.split())
    assert not {"tcgen05", "texture", "matrix"} & set(families.split())
    rules, forms, every = map(int, numbers.split())
    assert rules == 0
    assert 0 < forms < every / 4
