"""The promises of pyproject.toml and README.md that need no installation; .ci/run installs for the others."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from tclint._data import data
from tclint.commands.version import EXTRAS
from tests.tools.command import invoke
from tests.tools.project import PACKAGE, PROJECT, ROOT
from tests.tools.sources import project

SETUPTOOLS = PROJECT["tool"]["setuptools"]
MODULES = sorted((ROOT / "tclint").rglob("*.py"))


@cache
def imports(path: Path) -> frozenset[str]:
    """The top-level packages that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return frozenset(found)


def test_every_folder_with_modules_is_a_listed_package() -> None:
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in MODULES}
    assert folders | {"tclint.rules", "tclint.queries", "tclint.docs"} == set(SETUPTOOLS["packages"])


def test_every_package_has_an_init() -> None:
    assert [path for path in MODULES if not (path.parent / "__init__.py").is_file()] == []


def test_every_data_file_of_the_package_is_listed() -> None:
    for package, patterns in SETUPTOOLS["package-data"].items():
        folder = ROOT / SETUPTOOLS["package-dir"].get(package, package.replace(".", "/"))
        for pattern in patterns:
            assert any(folder.glob(pattern)), f"{package}: {pattern} matches nothing"
    listed = {
        path
        for pattern in SETUPTOOLS["package-data"]["tclint.isa"]
        for path in (ROOT / "tclint/isa").glob(pattern)
    }
    assert listed >= set((ROOT / "tclint/isa").glob("*.toml"))


def test_data_folders_are_found_inside_the_package_or_beside_it() -> None:
    for name in ("rules", "queries"):
        assert data(name) in (PACKAGE / name, PACKAGE.parent / name)
        assert any(data(name).iterdir())


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", text)[0].replace("-", "_") for text in requirements}


def test_every_dependency_is_declared_and_used() -> None:
    declared = names(PROJECT["project"]["dependencies"])
    extras = [
        names(wanted)
        for extra, wanted in PROJECT["project"]["optional-dependencies"].items()
        if extra not in ("dev", "docs", "capture")  # which has headers and a library of CUPTI
    ]
    used = (
        set().union(*map(imports, MODULES))
        - set(sys.stdlib_module_names)
        - {"tclint", "__future__", "tomllib", "compression"}  # in the standard library of newer versions
        - {"typing_extensions"}  # type checkers include it, and only they read those imports
    )
    assert used == declared.union(*extras)


def test_version_knows_every_extra() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    first = {extra: re.split(r"[^\w-]", wanted[0])[0] for extra, wanted in extras.items() if extra != "dev"}
    assert first == EXTRAS


def test_only_the_executor_needs_the_extra_run() -> None:
    """So that linting starts fast, and does not install it."""
    extra = names(PROJECT["project"]["optional-dependencies"]["run"])
    assert {path.relative_to(PACKAGE).parts[0] for path in MODULES if imports(path) & extra} == {"executor"}


def test_only_the_sarif_output_knows_sarif_om() -> None:
    assert [path.name for path in MODULES if imports(path) & {"sarif_om", "attrs"}] == ["sarif.py"]


def test_only_the_syntax_package_knows_tree_sitter() -> None:
    users = [path for path in MODULES if "tree_sitter" in imports(path) and path.parent.name != "inline"]
    assert all(path.parent.name == "syntax" for path in users)


def test_the_readme_starts_with_the_two_commands_that_ci_runs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    install, test = re.findall(r"^```sh\n(.*?)\n```$", readme, re.MULTILINE | re.DOTALL)[:2]
    assert "pip install" in install
    assert "tclint check" in install
    assert "pytest" in test
    assert "\n" not in install + test
    assert (ROOT / install.split()[-1]).is_file()
    assert readme.index(test) < 1600


def test_the_readme_shows_findings_as_they_are_printed_and_leads_to_the_rest_within_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```text\n(.*?)```$", readme, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(project(tmp_path))
    for name, frame in zip(("copy", "softmax"), shown, strict=True):
        printed = invoke("check", "--no-cache", "--color", "never", f"out/{name}.ptx")[1]
        assert printed.startswith(frame)
    assert len(readme.partition("\n## ")[0].splitlines()) <= 60


def test_no_file_has_the_marks_of_a_merge() -> None:
    mark = re.compile(rb"^(?:<{7}|={7}|>{7})(?: |$)", re.MULTILINE)
    folders = ("tclint", "rules", "queries", "docs", "tests", "benchmarks", "editors", ".ci", ".github")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    assert len(files) > len(MODULES)
    ignored = {"node_modules", "__pycache__", "src"}
    assert [f for f in files if not ignored & {*f.parts} and mark.search(f.read_bytes())] == []


def test_no_file_names_a_folder_of_one_machine() -> None:
    own = re.compile(r"(?<![\w.])/(?:" + "tmp|work|home|root" + r")/\w")
    suspects = [*MODULES, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "pyproject.toml"]
    assert [path for path in suspects if own.search(path.read_text(encoding="utf-8"))] == []
