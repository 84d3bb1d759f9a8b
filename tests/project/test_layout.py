"""Where tests are: a folder for each package, and no test module that another one needs."""

from __future__ import annotations

import ast

from tests.tools.project import PACKAGE, ROOT

TESTS = ROOT / "tests"


def test_every_package_has_a_folder_of_tests_and_every_folder_a_subject() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    folders = {path.parent.name for path in TESTS.glob("*/test_*.py")}
    assert folders == packages | {"benchmarks", "project"}


def test_no_test_module_imports_another_one() -> None:
    imported = {
        name
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        )
    }
    assert {name for name in imported if name.startswith("tests.")} >= {"tests.tools.support"}
    assert {
        name for name in imported if name.partition(".")[2].rpartition(".")[2].startswith("test_")
    } == set()
