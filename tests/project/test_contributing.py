"""Carries out the walk-throughs of CONTRIBUTING.md and docs/architecture.md, each in its own copy of the project.

A walk-through is a second-level section. What its code blocks mean is said at the top of CONTRIBUTING.md.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tools.project import PACKAGE, ROOT

COPIED = (
    *("tclint", "rules", "queries", "fixtures", "tests", "benchmarks", "docs"),
    *("pyproject.toml", "CONTRIBUTING.md", "README.md"),
)


class Block(NamedTuple):
    place: str
    """The file and the line, for messages."""
    language: str
    options: dict[str, str]
    text: str


def walkthroughs(text: str, page: str) -> dict[str, list[Block]]:
    """The code blocks of each second-level section that has some, by its heading."""
    found: dict[str, list[Block]] = {}
    heading = ""
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if line.startswith("## "):
            heading = line[3:].strip()
        elif opened := re.fullmatch(r"( *)(`{3,})(.*)", line):
            indentation, fence = opened[1], opened[2]
            language, *options = opened[3].split() or [""]
            inside: list[str] = []
            for _, content in lines:
                if content == indentation + fence:
                    break
                inside.append(content.removeprefix(indentation))
            else:
                raise ValueError(f"{page}:{number}: code block without an end")
            pairs = dict(option.split("=", 1) for option in options)
            block = Block(f"{page}:{number}", language, pairs, "".join(f"{content}\n" for content in inside))
            found.setdefault(heading, []).append(block)
    return found


def carry_out(blocks: list[Block], project: Path) -> None:
    for block in blocks:
        if unknown := block.options.keys() - {"file", "append"}:
            raise ValueError(f"{block.place}: unknown option {unknown}")
        if "file" in block.options:
            path = project / block.options["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif "append" in block.options:
            with open(project / block.options["append"], "r+", encoding="utf-8") as file:
                file.seek(0, os.SEEK_END)
                file.write("\n" + block.text)
        elif block.language == "console":
            for command, expected in commands(block.text):
                run(f"{block.place}: {command}", command, expected, project)


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that it must print."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *expected = part.splitlines()
        yield command, expected


def run(where: str, command: str, expected: list[str], project: Path) -> None:
    command, _, code = command.partition("  # exit ")
    command, _, target = command.partition(" > ")
    program, *args = shlex.split(command)
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    done = subprocess.run(
        [sys.executable, *(() if program == "python" else ("-m", program)), *args],
        cwd=project,
        env=environment | {"PYTHONPATH": str(project), "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == int(code or 0), f"{where}\n{done.stdout}"
    printed = done.stdout
    if target:
        (project / target).write_text(printed, encoding="utf-8")
        printed = ""
    pattern = "".join("(?:.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in expected)
    assert re.fullmatch(pattern, printed), f"{where}\n{done.stdout}"


def of_page(name: str) -> dict[str, list[Block]]:
    """The walk-throughs of a page: its sections with a command."""
    found = walkthroughs((ROOT / name).read_text(encoding="utf-8"), name)
    return {h: blocks for h, blocks in found.items() if any(block.language == "console" for block in blocks)}


CONTRIBUTING = of_page("CONTRIBUTING.md")
WALKTHROUGHS = CONTRIBUTING | of_page("docs/architecture.md")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project that runs: with the compiled grammar, wherever it is installed, and with the bytecode there is."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("src", "*.pyc.*"))
        elif source.exists():
            shutil.copy(source, tmp_path / name)
    if (PACKAGE / "syntax").is_dir():
        binding = importlib.util.find_spec("tclint.syntax._binding")
        assert binding is not None
        assert binding.origin is not None
        shutil.copy(binding.origin, tmp_path / "tclint" / "syntax")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("heading", WALKTHROUGHS)
def test_walkthrough(heading: str, project: Path) -> None:
    carry_out(WALKTHROUGHS[heading], project)


def test_there_are_walkthroughs_and_each_is_checked_by_a_command() -> None:
    subjects = ("an instruction", "a rule", "an analysis", "an output format")
    assert list(CONTRIBUTING) == [f"Add {subject}" for subject in subjects]
    assert list(WALKTHROUGHS)[len(subjects) :] == ["From a finding to the line that made it"]


def test_a_rule_is_a_page_and_a_check() -> None:
    """No other file of the project is written by hand; the walk-through shows that tests of all rules then pass."""
    written = [name for block in WALKTHROUGHS["Add a rule"] for name in block.options.values()]
    assert [name for name in written if "/" in name] == ["rules/PD001.md", "tclint/checks/pdl.py"]


@pytest.mark.parametrize(
    "console",
    [
        "$ tclint --version\ntclint 0.0.0\n",
        "$ tclint --version  # exit 1\n...\n",
        "$ tclint rules --absent\n",
        "$ tclint --version\n...\nmore\n",
        "$ tclint --version > version.txt\n...\ntclint\n",
    ],
)
def test_a_walkthrough_that_is_wrong_fails(console: str, project: Path) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:1: tclint"):
        carry_out([Block("page.md:1", "console", {}, console)], project)


def test_blocks_are_written_appended_and_run(project: Path) -> None:
    blocks = walkthroughs(
        "## A\n  ```python file=tclint/a/b.py\n  print(1)\n  ```\n````python append=tclint/a/b.py\n```\nprint(2)\n````\n"
        "## B\ntext\n",
        "page.md",
    )
    assert list(blocks) == ["A"]
    carry_out(blocks["A"], project)
    assert (project / "tclint/a/b.py").read_text() == "print(1)\n\n```\nprint(2)\n"
    carry_out([Block("page.md:1", "console", {}, "$ python tclint/a/b.py > c.txt  # exit 1\n")], project)
    assert "SyntaxError" in (project / "c.txt").read_text()
    with pytest.raises(FileNotFoundError):
        carry_out([Block("page.md:1", "python", {"append": "absent.py"}, "")], project)
    with pytest.raises(ValueError, match="without an end"):
        walkthroughs("```\n", "page.md")
