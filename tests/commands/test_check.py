"""``tclint check --verdict`` and ``--require``: lines, exit codes, and what is refused; and ``--watch``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tclint
from tests.tools.command import invoke
from tests.tools.project import PACKAGE
from tests.tools.support import HOPPER, before_the_wait, kernel, module

WAITED = module(before_the_wait("    mov.b32 %r9, 0;"), kernel("    ret;", "other"), header=HOPPER)
READ = module(before_the_wait("    st.global.f32 [%rd0], %f0;"), header=HOPPER)


@pytest.fixture
def waited(tmp_path: Path) -> str:
    (tmp_path / "waited.ptx").write_text(WAITED)
    return str(tmp_path / "waited.ptx")


@pytest.fixture
def read(tmp_path: Path) -> str:
    (tmp_path / "read.ptx").write_text(READ)
    return str(tmp_path / "read.ptx")


def check(*arguments: str) -> tuple[int, str]:
    return invoke("check", "--isolated", "--locate", "ptx", *arguments)


def test_a_kernel_has_one_line(waited: str) -> None:
    code, output = check("--verdict", waited)
    assert code == 0
    first, second, blank, last = output.splitlines()
    limit = "within each thread; PR001 and PR004 are about fences between threads"
    ends = "what waits for no thread of the kernel is taken to end"
    assert first == (
        f"kernel k in {waited}: wgmma, convergence, shared-memory, availability proved; proxies proved ({limit}); "
        f"deadlock proved ({ends})"
    )
    assert second == f"kernel other in {waited}: availability proved"
    assert (blank, last) == ("", "No findings in 1 file.")
    assert check(waited) == (0, "No findings in 1 file.\n")


def test_a_violated_class_names_its_rules(read: str) -> None:
    code, output = check("--verdict", read)
    assert code == 1
    assert f"kernel k in {read}: wgmma violated (WG001); " in output


@pytest.mark.parametrize(
    ("required", "code"),
    [
        ("proved:wgmma,availability", 0),
        ("bounded:wgmma", 0),
        ("proved:tensor-memory", 0),
        ("bounded:mbarrier", 0),
        ("proved:wgmma", 0),
    ],
)
def test_a_requirement_that_is_met_or_about_another_class_holds(
    waited: str, required: str, code: int
) -> None:
    assert check("--require", required, waited)[0] == code


def test_what_lacks_is_named_and_fails_the_run(read: str, waited: str) -> None:
    code, output = check("--exit-zero", "--require", "proved:wgmma", read, waited)
    assert code == 1
    wanted = f"error: {read}: k: wgmma is violated (WG001), but proved:wgmma is required\n"
    assert output.count("is required") == 1
    assert wanted in output
    for options in (["--output-format", "concise"], ["--statistics"]):
        assert wanted in check("--exit-zero", "--require", "proved:wgmma", *options, read)[1]
    assert check("--exit-zero", "--require", "proved:wgmma", waited)[0] == 0


def test_json_has_verdicts_and_what_lacks(read: str) -> None:
    document = json.loads(
        check("--require", "bounded:wgmma", "--output-format", "json", read)[1].partition("\nerror:")[0]
    )
    (verdict,) = [v for v in document["files"][0]["verdicts"] if v["class"] == "wgmma"]
    assert (verdict["kernel"], verdict["status"], verdict["rules"]) == ("k", "violated", ["WG001"])
    assert document["summary"]["unmet"] == [
        {"path": read, "member": None, "kernel": "k", "required": "bounded:wgmma", "status": "violated"}
    ]
    plain = json.loads(check("--output-format", "json", read)[1])
    assert "verdicts" not in plain["files"][0]
    assert "unmet" not in plain["summary"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--require", "proved:wgma"], "--require: unknown class 'wgma'; must be one of wgmma, tcgen05-ldst"),
        (["--require", "safe:wgmma"], "--require: unknown status 'safe'; must be one of proved, bounded"),
        (["--require", "wgmma"], "--require: 'wgmma' has no status: write proved:wgmma"),
        (
            ["--verdict", "--assume", "luck"],
            "--assume: unknown assumption 'luck'; must be one of no-overflow",
        ),
    ],
)
def test_an_unknown_name_is_a_usage_error(waited: str, options: list[str], message: str) -> None:
    code, output = check(*options, waited)
    assert code == 2
    assert message in output


def test_a_file_that_is_not_analysed_satisfies_nothing(tmp_path: Path) -> None:
    path = tmp_path / "broken.ptx"
    path.write_text(READ.replace("st.global.f32 [%rd0], %f0;", "st.global.f32 {{;"))
    code, output = check("--require", "proved:wgmma", str(path))
    assert code == 2
    assert "wgmma is unknown" in output


def test_verdicts_of_several_processes_are_those_of_one(waited: str, read: str) -> None:
    assert check("--verdict", "--jobs", "2", waited, read) == check("--verdict", "--jobs", "1", waited, read)


def test_a_report_of_the_api_fails_a_requirement() -> None:
    report = tclint.check(READ, fail_on="never", require=["proved:wgmma"])
    assert (report.exit_code, report.ok) == (1, False)
    assert "but proved:wgmma is required" in str(report)
    assert tclint.check(WAITED, require=["proved:wgmma"]).ok
    assert tclint.check(WAITED).files[0].verdicts == ()


GOOD = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"


@pytest.mark.skipif(os.name == "nt", reason="there, a process is not interrupted with a signal")
def test_watch_checks_again_after_each_change_until_it_is_interrupted(tmp_path: Path) -> None:
    changes = [
        ("k.ptx", GOOD, "No findings in 1 file."),
        ("k.ptx", GOOD.replace("ret", "bar.sync 16; ret"), "Found 1 error in 1 file."),
        ("tclint-ptx.toml", 'ignore = ["XX"]', "unknown rule 'XX'"),
        ("tclint-ptx.toml", 'ignore = ["PX004"]', "No findings in 1 file."),
        ("new.ptx", GOOD, "No findings in 2 files."),
    ]
    (tmp_path / "k.ptx").write_text(GOOD)
    with subprocess.Popen(
        [sys.executable, "-m", "tclint", "check", "--no-cache", "--watch"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A shell starts what runs in the background with interrupts ignored, and Python leaves it so.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509  (no threads here)
    ) as process:
        assert process.stdout is not None
        try:
            for number, (name, text, expected) in enumerate(changes):
                if number:
                    (tmp_path / name).write_text(text)
                while expected not in (line := process.stdout.readline()):
                    assert line, f"it ended before: {expected}"
                while not process.stdout.readline().startswith("Watching"):
                    pass
            process.send_signal(signal.SIGINT)
            assert process.wait(10) in (130, -signal.SIGINT)
        finally:
            process.kill()


# ---------------------------------------------------------------- options without an effect, and what writes nothing


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--unsafe-fixes",), "--unsafe-fixes requires --fix or --diff"),
        (("--diff", "--output-format", "json"), "--output-format json has no effect"),
        (("--diff", "--output", "sarif=x.sarif"), "--output has no effect"),
        (("--diff", "--statistics"), "--statistics has no effect"),
        (("--diff", "--timings"), "--timings has no effect"),
        (("--add-ignore", "--output-file", "x"), "--output-file has no effect"),
        (("--add-ignore", "--max-findings", "3"), "--max-findings has no effect"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    (tmp_path / "k.ptx").write_text("// nothing\n")
    code, text = invoke("check", *options, str(tmp_path / "k.ptx"))
    assert (code, said in text) == (2, True), text


def test_a_baseline_of_what_is_not_there_or_not_analysed_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"
    )
    (tmp_path / "binary.ptx").write_bytes(b"a\0b")
    target = str(tmp_path / "b.json")
    for paths in (["k.ptx", "absent.ptx"], ["binary.ptx"]):
        code, _ = invoke("baseline", "--output", target, *(str(tmp_path / path) for path in paths))
        assert (code, (tmp_path / "b.json").exists()) == (2, False), paths
    assert (
        invoke("baseline", "--output", target, *(str(tmp_path / n) for n in ("k.ptx", "binary.ptx")))[0] == 2
    )
    assert (tmp_path / "b.json").exists()


def test_an_undeclared_register_is_one_finding(tmp_path: Path) -> None:
    body = "setp.eq.u32 %p1, %r1, %r1;\n@%p1 add.u32 %r1, %r7, %r7;\n@!%p1 mov.u32 %r1, %r7;\nret;"
    head = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<3>;\n"
    (tmp_path / "k.ptx").write_text(f"{head}{body}\n}}\n")
    for name in ("concise", "github"):
        _, text = invoke("check", "--output-format", name, str(tmp_path / "k.ptx"))
        assert text.replace("%25", "%").count("register %p1 is not declared") == 1, text
        assert text.replace("%25", "%").count("register %r7 is not declared") == 1, text
    code, text = invoke("check", "--output-format", "json", str(tmp_path / "k.ptx"))
    (file,) = json.loads(text)["files"]
    assert [[step["line"] for step in f["steps"]] for f in file["findings"]] == [[6, 7, 8], [7, 8]]
    assert (code, len(file["problems"])) == (2, 2)
