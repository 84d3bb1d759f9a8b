"""Where tests are: a folder for each package, and no test module that another one needs."""

from __future__ import annotations

import ast

from tests.tools.project import PACKAGE, ROOT

TESTS = ROOT / "tests"


def test_every_package_has_a_folder_of_tests_and_every_folder_a_subject() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    folders = {path.parent.name for path in TESTS.glob("*/test_*.py")}
    assert folders == packages | {"benchmarks", "project", "reference"}


def imports(text: str) -> set[str]:
    """Each name that a module imports, as ``module.name`` where it is imported from a module."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {
                part for alias in node.names for part in (node.module or "", f"{node.module}.{alias.name}")
            }
    return found


def of_tests(names: set[str]) -> set[str]:
    return {name for name in names if name.rpartition(".")[2].startswith("test_")}


def test_no_test_module_imports_another_one() -> None:
    names = {name for path in TESTS.rglob("*.py") for name in imports(path.read_text(encoding="utf-8"))}
    assert "tests.tools.support" in names
    assert of_tests(names) == set()


def test_an_import_of_a_test_module_is_seen_however_it_is_written() -> None:
    for text in (
        "import test_a",
        "from test_a import x",
        "from tests.b import test_a",
        "import tests.b.test_a",
    ):
        assert of_tests(imports(text)), text
