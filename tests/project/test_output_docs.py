"""The commands of docs/output.md and docs/ci.md are carried out as written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tclint.findings.rules import all_rules
from tclint.report.formats import formats
from tests.tools.project import PACKAGE, ROOT

PAGE = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("output.md", "ci.md"))
BLOCKS = re.findall(r"^```(sh|yaml|groovy)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def commands() -> list[tuple[str, list[str]]]:
    """Each command with the report files that the block around it names."""
    found = []
    for language, block in BLOCKS:
        lines = [block] if language == "sh" else re.findall(r"(?:- run:|-|sh ')\s*(tclint [^'\n]*)", block)
        reports = (
            [] if language == "sh" else re.findall(r"(?:sarif_file|codequality): (\S+)|junit '(\S+)'", block)
        )
        found += [(line, ["".join(names) for names in reports]) for line in lines]
    return found


def test_every_format_is_in_the_table_and_every_block_has_a_command() -> None:
    table = PAGE.partition("`--output-format` chooses")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == formats()
    blocks = [
        block for _, block in BLOCKS if "uses: OWNER/" not in block
    ]  # tests/project/test_ci.py runs the action
    assert len(commands()) == len(blocks) >= 5


@pytest.mark.parametrize(("command", "reports"), commands())
def test_the_snippets_work(command: str, reports: list[str], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    shutil.copy(ROOT / "fixtures" / "inlined_loc.ptx", tmp_path / "out")
    (tmp_path / "tclint").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tclint "$@"\n')
    (tmp_path / "tclint").chmod(0o755)
    path = os.pathsep.join((str(tmp_path), os.environ["PATH"]))
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        env=os.environ | {"PATH": path, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == (0 if "never" in command or "|" in command else 1)
    assert "kernel.cu" in done.stdout
    for name in [*reports, *re.findall(r"--output \w+=(\S+)", command)]:
        assert "kernel.cu" in (tmp_path / name).read_text()


def test_the_example_of_the_text_format_is_its_output(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^```text\n(\w+\[MB016\].*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "ring.ptx").write_text(all_rules()["MB016"].examples[0].code)
    done = subprocess.run(
        [sys.executable, "-m", "tclint", "check", "--isolated", "--color", "never", "ring.ptx"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == shown
