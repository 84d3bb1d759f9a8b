"""What docstrings and the page about the architecture refer to exists, so that a reader can follow them."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from tests.tools.project import PACKAGE, ROOT

ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([\w.]+)`")
"""A reference in a docstring."""
MEMBER = re.compile(r"`([A-Z]\w*[a-z]\w*)\.(\w+)`")
"""A member of a class in a page: `Values.linear`."""
FILE = re.compile(r"`([\w./]+\.(?:py|toml|md|js))`")
"""A file in a page: `replay/machine.py`."""


def definitions(some: Iterable[ast.AST]) -> Iterator[str]:
    """The names that *some* nodes define, import or assign, attributes of objects included."""
    for each in some:
        match each:
            case ast.FunctionDef(name) | ast.ClassDef(name):
                yield name
            case ast.alias(name, other):
                yield other or name
            case ast.Name(name, ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


@cache
def modules() -> dict[str, ast.Module]:
    """The modules of the package by dotted name; a package has the name of its folder."""
    paths = {path.relative_to(PACKAGE.parent).with_suffix(""): path for path in PACKAGE.rglob("*.py")}
    return {
        ".".join(name.parts).removesuffix(".__init__"): ast.parse(path.read_text(encoding="utf-8"))
        for name, path in paths.items()
    }


@cache
def nodes(module: str) -> tuple[ast.AST, ...]:
    """All nodes of a module: to walk it takes longer than what is asked of them."""
    return tuple(ast.walk(modules()[module]))


@cache
def defined(module: str) -> frozenset[str]:
    """The names that a module defines or imports."""
    return frozenset(definitions(nodes(module)))


@cache
def members() -> dict[str, set[str]]:
    """The members of each class of the package, with those of its bases."""
    classes = [c for module in modules() for c in nodes(module) if isinstance(c, ast.ClassDef)]
    found: dict[str, set[str]] = {}
    for each in classes:
        found.setdefault(each.name, set()).update(definitions(ast.walk(each)))
    changed = True
    while changed:
        changed = False
        for each in classes:
            bases = (re.match(r"\w+", ast.unparse(base)) for base in each.bases)
            inherited = set[str]().union(*(found.get(base[0], set()) for base in bases if base))
            changed |= not inherited <= found[each.name]
            found[each.name] |= inherited
    return found


def resolves(reference: str, module: str) -> bool:
    """Whether *reference*, in a docstring of *module*, is a module, a name, or a member of a class of the package.

    A leading dot is the package that *module* is, or is in.
    """
    if reference.startswith("."):
        package = any(name.startswith(f"{module}.") for name in modules())
        reference = (module if package else module.rpartition(".")[0]) + reference
    if reference in modules():
        return True
    home, _, name = reference.rpartition(".")
    if home in modules():
        return name in defined(home)
    owner = home.rpartition(".")[2]
    if owner:
        return name in members().get(owner, set())
    return name in local(module) or hasattr(builtins, name)


@cache
def local(module: str) -> frozenset[str]:
    """The names that a module defines or imports, with the members of its classes."""
    classes = (c.name for c in nodes(module) if isinstance(c, ast.ClassDef))
    return defined(module).union(*(members()[c] for c in classes))


def docstrings(module: str) -> Iterator[str]:
    """The docstrings of a module and of what it defines, those after assignments included."""
    for node in nodes(module):
        match node:
            case ast.Expr(ast.Constant(str(text))):
                yield text


def test_what_a_docstring_refers_to_exists() -> None:
    references = [
        (module, name) for module in modules() for text in docstrings(module) for name in ROLE.findall(text)
    ]
    assert len(references) > 100
    assert [f"{module}: {name}" for module, name in references if not resolves(name, module)] == []


def test_a_reference_to_what_was_renamed_is_seen() -> None:
    module = "tclint.analyses.model"
    assert resolves("KernelModel.path", module)
    assert resolves("Values.linear", module)  # inherited
    assert resolves("tclint.analyses.mbarrier_addresses", module)
    assert resolves(".mbarrier_addresses", module)
    assert not resolves(".walkers", module)
    for renamed in (
        "KernelModel.stroll",
        "stroll",
        "Walker.path",
        "tclint.stroll",
        "tclint.analyses.model.Walker",
    ):
        assert not resolves(renamed, module), renamed


def exists(file: str) -> bool:
    """Whether a page may name *file*: by its path in the project or the package, or by its name alone."""
    if any((folder / file).is_file() for folder in (ROOT, PACKAGE)):
        return True
    return "/" not in file and any(path for folder in (PACKAGE, ROOT / "docs") for path in folder.rglob(file))


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/how-it-decides.md", "CONTRIBUTING.md"])
def test_what_a_page_about_the_code_refers_to_exists(page: str) -> None:
    text = re.sub(
        r"^(`{3,}).*?^\1", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    assert [
        f"{owner}.{name}" for owner, name in MEMBER.findall(text) if name not in members().get(owner, ())
    ] == []
    assert [file for file in FILE.findall(text) if not exists(file)] == []


def test_each_function_in_the_table_of_questions_is_defined_in_the_file_named_with_it() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("## Where to look")[2].partition("\n## ")[0]
    named = re.findall(r"`([\w.]+)` in `([\w/]+\.py)`", table)
    assert len(named) >= 15
    for name, file in named:
        module = "tclint." + file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        tree = modules()[module]
        classes = {c.name: c for c in ast.walk(tree) if isinstance(c, ast.ClassDef)}
        owner, _, function = name.rpartition(".")
        inside = classes[owner] if owner else tree
        here = {f.name for f in ast.walk(inside) if isinstance(f, ast.FunctionDef)}
        assert function in here, f"{file} does not define {name}"
