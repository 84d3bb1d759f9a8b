"""How large a function of the package may be. No rule of ruff counts lines, or exempts the callbacks of click."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tools.project import PACKAGE

MAX_LINES = 60
MAX_PARAMETERS = 6
"""Without ``self`` and ``cls``, and without ``*args`` and ``**options``."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(text: str) -> Iterator[_Function]:
    """The functions that a module defines, nested ones and methods included."""
    return (node for node in ast.walk(ast.parse(text)) if isinstance(node, _Function))


def lines(function: _Function) -> int:
    """The lines of a function without its decorators."""
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def is_callback(function: _Function) -> bool:
    """Whether click calls it: its parameters are then the options of the command line."""
    called = [d.func for d in function.decorator_list if isinstance(d, ast.Call)]
    return any(ast.unparse(each) in ("click.command", "click.group") for each in called)


def parameters(function: _Function) -> int:
    """The parameters that a caller can name or count."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_every_function_fits_on_a_screen_and_takes_few_parameters() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}: {function.name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for function in functions(path.read_text(encoding="utf-8"))
        if lines(function) > MAX_LINES
        or (parameters(function) > MAX_PARAMETERS and not is_callback(function))
    }
    assert found == set()


@pytest.mark.parametrize(
    ("code", "count", "callback"),
    [
        ("def f(self, a, /, b, *, c): ...", 3, False),
        ("def f(a, *args, **options): ...", 1, False),
        ("@click.command(cls=C)\n@click.option('--a')\ndef f(a, b): ...", 2, True),
        ("@command()\n@cache\ndef f(a): ...", 1, False),
    ],
)
def test_parameters_are_counted_and_callbacks_recognised(code: str, count: int, callback: bool) -> None:
    (function,) = functions(code)
    assert (parameters(function), is_callback(function)) == (count, callback)
    assert lines(function) == 1
