"""Names that a stranger chose, in every command that shows them: none reaches the terminal as a control sequence."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tclint.commands import _cli
from tests.tools.project import ROOT
from tests.tools.recordings import DOUBLE, write_recording

HOSTILE = "\x1b[2J\x9b\u202e\x07"
NAME = f"k{HOSTILE}.ptx"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")
COLOUR = re.compile(r"\x1b\[[\d;]*m")

Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """What a command writes, in a folder with a kernel, a launch file and a recorded launch of such names."""
    monkeypatch.chdir(tmp_path)
    kernel = (ROOT / "fixtures" / "wgmma_unwaited.ptx").read_text(encoding="utf-8")
    Path(NAME).write_text(kernel.replace("ret;", f"ret; // {HOSTILE}", 1), encoding="utf-8")
    Path("good.ptx").write_text(DOUBLE)
    Path("broken.ptx").write_text(kernel.replace("wgmma.fence", f"wgmma.{HOSTILE}fence", 1), encoding="utf-8")
    data = [bytes(8), bytes(8), bytes(4)]
    write_recording(tmp_path / "hung", DOUBLE, "double", data, {}, end=HOSTILE)
    buffers = [{"address": 16, "size": 1, "before": HOSTILE}]
    write_recording(tmp_path / "missing", DOUBLE, "double", data, {}, buffers=buffers)
    write_recording(tmp_path / "other", DOUBLE, HOSTILE, data, {})

    def command(*arguments: str) -> str:
        with pytest.raises(SystemExit):
            _cli.main(arguments)
        return "".join(capsys.readouterr())

    return command


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", NAME, "broken.ptx"),
        ("check", NAME, "--output-format", "concise"),
        ("check", "good.ptx", "--launch", "other"),
        ("check", f"absent{HOSTILE}"),
        *(
            ("dump", stage, name)
            for stage in ("tree", "ir", "cfg", "states")
            for name in (NAME, "broken.ptx")
        ),
        ("dump", "tree", NAME, "--dot"),
        ("dump", "ir", f"absent{HOSTILE}"),
        *((name, NAME) for name in ("barriers", "verdict", "targets")),
        *((name, NAME, "--color", "always") for name in ("check", "barriers", "verdict", "targets")),
        ("hang", NAME, "--at", f"51{HOSTILE}"),
        ("hang", NAME, "--at", "51", "--color", "always"),
        ("run", "hung"),
        ("run", "missing"),
        ("run", "other"),
        ("run", f"absent{HOSTILE}"),
        ("diff", NAME, "broken.ptx", "--color", "always"),
        ("show", f"absent{HOSTILE}"),
        ("explain", HOSTILE),
        ("cache", HOSTILE),
        ("cache", "--add", HOSTILE),
        ("merge", f"absent{HOSTILE}"),
        ("merge", HOSTILE, HOSTILE),
        ("baseline", f"absent{HOSTILE}"),
        ("format", "--check", NAME),
        ("format", f"absent{HOSTILE}", "broken.ptx"),
        ("format", "--normalize", "broken.ptx"),
        ("reduce", "broken.ptx", "--", "true"),
        ("reduce", NAME, "--", f"absent{HOSTILE}"),
        ("reduce", NAME, "--max-calls", "3", "--", "true"),
    ],
)
def test_no_name_reaches_the_terminal_as_a_control_sequence(run: Run, arguments: tuple[str, ...]) -> None:
    if arguments[0] == "run":
        pytest.importorskip("numpy")
    said = run(*arguments)
    assert said
    assert CONTROL.findall(COLOUR.sub("", said)) == []
