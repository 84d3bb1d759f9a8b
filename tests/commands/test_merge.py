"""``tclint merge``: the parts of a run make the report of the whole run, and nothing else."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate

from tclint.driver import parts
from tclint.report.formats import formats
from tclint.syntax.source import Source
from tests.tools.project import ROOT

FIXTURES = ROOT / "fixtures"
_TIMESTAMP = re.compile(r' timestamp="[^"]*"')
"""The time of a report in the format junit."""
Run = Callable[..., "subprocess.CompletedProcess[str]"]

SAME_LINE = """.version 8.0
.target sm_90a
.address_size 64
.file 1 "/src/gemm.py"
.visible .entry {name}(.param .u64 p)
{{
    .reg .f32 %f<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd2, [p];
    wgmma.fence.sync.aligned;
    .loc 1 7 3
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %rd0, %rd1, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    st.global.f32 [%rd2], %f{read};
    st.global.f32 [%rd2], %f0;
    ret;
}}
"""


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Findings of one source line in several files, with steps, fixes, suppressions; inputs that are not analysed."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(5):
        text = SAME_LINE.format(name=f"k{number}", read=number % 4)
        (folder / f"kernel{number}.ptx").write_text(
            text + "\n" * number + f"// {'x' * 997 * number}\n", newline=""
        )
    suppressed = SAME_LINE.format(name="quiet", read=0).replace(
        ".loc 1 7 3", "// tclint: ignore[ALL] ä known\n    .loc 1 7 3"
    )
    (folder / "suppressed.ptx").write_text(suppressed.replace("\n", "\r\n"), encoding="utf-8", newline="")
    shutil.copy(FIXTURES / "wgmma_unwaited.ptx", folder)
    (folder / "broken.ptx").write_bytes(
        SAME_LINE.format(name="b", read=1).encode() + b"/* \xff */ .visible .entry"
    )
    (folder / "binary.ptx").write_bytes(b"\0\1\2")
    (folder / "source.cu").write_text('__global__ void k() { asm volatile("bar.sync 99;"); }\n')
    return folder


@pytest.fixture
def run(run_tclint: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return run_tclint


def divided(run: Run, number: int, *options: str, suffix: str = "json") -> list[str]:
    """The files of so many parts of a run over the folder ``in``."""
    names = [f"part{index}.{suffix}" for index in range(1, number + 1)]
    for index, name in enumerate(names, 1):
        run(
            "check", "--shard", f"{index}/{number}", *options, "--output", f"{suffix}={name}", "--quiet", "in"
        )
    return names


def comparable(done: subprocess.CompletedProcess[str]) -> tuple[str, str, int]:
    return _TIMESTAMP.sub("", done.stdout), done.stderr, done.returncode


OPTIONS = ("--pedantic", "--include", "*.cu")


def written(done: subprocess.CompletedProcess[str], folder: str) -> dict[str, object]:
    """What a run printed, and the reports that it wrote into a folder."""
    reports = {path.name: _TIMESTAMP.sub("", path.read_text()) for path in Path(folder).iterdir()}
    return {"printed": comparable(done), **reports}


def outputs(folder: str) -> list[str]:
    """The options for reports of all formats in a new folder."""
    Path(folder).mkdir()
    return [f"--output={name}={folder}/{name}" for name in formats()]


def test_parts_make_the_reports_of_a_run_that_was_not_divided(run: Run, inputs: Path) -> None:
    whole = written(run("check", *OPTIONS, *outputs("whole"), "in"), "whole")
    assert "duplicates merged" in str(whole["printed"])
    for index in (1, 2, 3):
        files = (f"--output=json=part{index}.json", f"--output=sarif=part{index}.sarif")
        run("check", *OPTIONS, "--shard", f"{index}/3", *files, "--quiet", "in")
    for suffix in ("json", "sarif"):
        names = (f"part{index}.{suffix}" for index in (3, 1, 2))
        assert written(run("merge", *outputs(suffix), *names), suffix) == whole


def test_a_merge_needs_no_inputs_and_keeps_the_settings_of_the_parts(run: Run, inputs: Path) -> None:
    (inputs.parent / "tclint-ptx.toml").write_text(
        'ignore = ["MO"]\nmin-severity = "error"\nper-file-ignores = {"kernel1.ptx" = ["WG"]}\n'
    )
    options = ("--require", "proved:wgmma", "--exit-zero")
    whole = run("check", *options, "--output-format", "json", "in")
    names = divided(run, 4, *options)
    inputs.rename(inputs.parent / "elsewhere")
    (inputs.parent / "tclint-ptx.toml").unlink()
    merged = run("merge", "--exit-zero", "--output-format", "json", *names)
    assert comparable(merged) == comparable(whole)
    validate(json.loads(merged.stdout), json.loads((ROOT / "docs" / "check.schema.json").read_text()))
    failing = run("merge", "--output-format", "json", *names)
    assert any(f["fails"] for file in json.loads(failing.stdout)["files"] for f in file["findings"])
    assert failing.returncode == 2


def test_a_part_is_a_valid_report(run: Run, inputs: Path) -> None:
    schema = json.loads((ROOT / "docs" / "check.schema.json").read_text())
    for name in divided(run, 2):
        document = json.loads((inputs.parent / name).read_text())
        validate(document, schema)
        assert document["part"]["parts"] == 2
    assert "part" not in json.loads(run("check", "--output-format", "json", "in").stdout)


def test_a_baseline_applies_to_all_parts(run: Run, inputs: Path) -> None:
    run("baseline", "in", "--output", "known.json")
    (inputs / "kernel2.ptx").rename(inputs / "moved.ptx")
    (inputs / "kernel3.ptx").write_text(
        SAME_LINE.format(name="k3", read=0) + SAME_LINE.format(name="new", read=2)[65:]
    )
    options = ("--baseline", "known.json", "--output-format", "json")
    whole = run("check", *options, "in")
    assert comparable(run("merge", "--output-format", "json", *divided(run, 3, *options))) == comparable(
        whole
    )
    assert '"baselined"' in whole.stdout


def test_more_parts_than_files_are_merged(run: Run, inputs: Path) -> None:
    names = divided(run, 20)
    assert comparable(run("merge", *names)) == comparable(run("check", "in"))


def edited(path: Path, **changes: Any) -> None:
    """The part in a JSON report with some of its content replaced."""
    document = json.loads(path.read_text())
    part = document["part"]
    content = json.loads(zlib.decompress(base64.b64decode(part["data"])))
    content |= {key: value for key, value in changes.items() if key in content}
    part |= {key: value for key, value in changes.items() if key not in content}
    part["data"] = (
        changes.get("data") or base64.b64encode(zlib.compress(json.dumps(content).encode())).decode()
    )
    path.write_text(json.dumps(document))


def refused(run: Run, *names: str) -> str:
    done = run("merge", "--output", "sarif=merged.sarif", *names)
    assert (done.returncode, done.stdout) == (2, "")
    assert not Path("merged.sarif").exists()
    return done.stderr.splitlines()[-1]


def test_missing_double_and_foreign_parts_are_refused(run: Run, inputs: Path) -> None:
    first, second, third = divided(run, 3)
    assert refused(run, first, third) == "Error: part 2 of 3 is missing."
    assert refused(run, third) == "Error: parts 1, 2 of 3 are missing."
    shutil.copy(first, "copy.json")
    assert (
        refused(run, first, second, third, "copy.json")
        == "Error: part1.json and copy.json are both part 1 of 3."
    )
    assert refused(run, first, first) == "Error: part1.json is given twice."
    Path("whole.json").write_text(run("check", "--output-format", "json", "in").stdout)
    wanted = "is not the JSON or SARIF of a run of tclint check with --shard."
    assert refused(run, first, "whole.json") == f"Error: whole.json {wanted}"
    Path("other.json").write_text("[1, 2]")
    assert refused(run, "other.json") == f"Error: other.json {wanted}"
    Path("other.json").write_text("{")
    assert refused(run, "other.json") == "Error: other.json is not JSON."
    assert refused(run, "nowhere.json") == "Error: nowhere.json cannot be read: No such file or directory."
    run(
        "check",
        "--shard",
        "2/3",
        "--min-severity",
        "error",
        "--no-cache",
        "--output",
        "json=strict.json",
        "in",
    )
    message = "part1.json and strict.json were checked with different settings: min-severity."
    assert refused(run, first, "strict.json", third) == f"Error: {message}"
    run("check", "--shard", "2/3", "--output", "json=few.json", "in/kernel1.ptx")
    message = "part1.json and few.json are parts of runs over different files."
    assert refused(run, first, "few.json", third) == f"Error: {message}"


def test_parts_of_jobs_with_other_files_are_refused(run: Run, inputs: Path) -> None:
    first, second = divided(run, 2)
    largest = max(inputs.iterdir(), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:1])
    run("check", "--shard", "2/2", "--output", f"json={second}", "in")
    assert refused(run, first, second).endswith("the jobs had different files.")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": "0.0.1"}, "is of tclint 0.0.1, and this is tclint"),
        ({"schema": 99}, "is of tclint"),
        ({"number": 9}, "is damaged"),
        ({"parts": True}, "is damaged"),
        ({"data": "????"}, "is damaged"),
        ({"data": base64.b64encode(b"nothing").decode()}, "is damaged"),
        ({"names": [1]}, "is damaged"),
        ({"locate": None}, "is damaged"),
        ({"settings": {"min-severity": "dire"}}, "is damaged"),
        ({"settings": {"unheard": 1}}, "is damaged"),
        ({"reports": [["a.ptx", None, None, None, [1]]]}, "is damaged"),
        ({"reports": [["a.ptx", 1, None, None, []]]}, "is damaged"),
        ({"reports": [["a.ptx", None, None, ["", 3, 9, []], []]]}, "is damaged"),
        ({"reports": 3}, "is damaged"),
    ],
)
def test_a_damaged_part_is_refused(run: Run, inputs: Path, changes: dict[str, Any], reason: str) -> None:
    (name,) = divided(run, 1)
    edited(Path(name), **changes)
    assert reason in refused(run, name)


def test_only_the_lines_of_findings_are_in_a_part(inputs: Path) -> None:
    text = b"a\n" + b"b" * 50_000 + b"\nfind me\r\nnext\n" + b"c\n" * 9_000 + b"last"
    source = Source(text, "k.ptx")
    start = text.index(b"me")
    size, lines, excerpts = parts._excerpts(source, [parts.Span(start, start + 2)])
    assert excerpts == [(start - 5, 2, "find me\r")]
    filled = Source(parts._filled(size, lines, excerpts), "k.ptx")
    assert len(filled.data) == len(text)
    assert filled.line_count == source.line_count
    assert filled.position(start) == source.position(start)
    assert filled.line_text(3) == "find me"
