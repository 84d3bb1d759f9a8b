"""Whether each rule of the provers and checkers is held by a test: what happens if it always holds.

    python -m benchmarks.prover_rules [--rule completion.Completion._waited] [--record]

A rule is a function of ``tclint.verdicts`` that answers yes or no. One after the other is made to answer yes, and the
tests of that package are run until one fails: because a checker accepts what it refused, because a kernel is proved that
is not right, or because one that is right is not proved. A rule after which no test fails is printed. It is one that a
proof does not rest on, which a person decides (``benchmarks/readings.tsv``, class ``prover``), or a test is missing.

Each rule has a process of its own. All of them take some minutes on an idle machine.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tclint.verdicts
from benchmarks.verdict_score import readings, record

__all__ = ["Rule", "caught_by", "main", "rules"]

PACKAGE = Path(tclint.verdicts.__file__).parent
TESTS = Path("tests/verdicts")
ALWAYS = "always true"
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")


class Rule(NamedTuple):
    """A function that answers yes or no."""

    module: str
    owner: str
    """The class that has it; "" for a function of the module."""
    name: str
    is_property: bool

    def __str__(self) -> str:
        return ".".join(part for part in (self.module, self.owner, self.name) if part)


def rules() -> Iterator[Rule]:
    """The rules of the package, in order."""
    for path in sorted(PACKAGE.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            owner, body = (node.name, node.body) if isinstance(node, ast.ClassDef) else ("", [node])
            for each in body:
                if isinstance(each, ast.FunctionDef) and _answers(each):
                    decorators = {d.id for d in each.decorator_list if isinstance(d, ast.Name)}
                    yield Rule(
                        path.stem, owner, each.name, bool(decorators & {"property", "cached_property"})
                    )


def _answers(function: ast.FunctionDef) -> bool:
    return isinstance(function.returns, ast.Name) and function.returns.id == "bool"


def _set(rule: Rule) -> None:
    """Makes a *rule* answer yes, wherever it was imported."""

    def yes(*arguments: Any, **named: Any) -> bool:
        return True

    module = importlib.import_module(f"tclint.verdicts.{rule.module}")
    if rule.owner:
        owner = getattr(module, rule.owner)
        setattr(owner, rule.name, property(yes) if rule.is_property else staticmethod(yes))
        return
    was = getattr(module, rule.name)
    for name, each in list(sys.modules.items()):
        if name.startswith("tclint.verdicts"):
            for attribute in [a for a, value in vars(each).items() if value is was]:
                setattr(each, attribute, yes)


def _files(rule: Rule | None) -> list[str]:
    """The tests of the package, those that name the module of the *rule* first."""
    found = sorted(TESTS.glob("test_*.py"))
    names = {path: rule is not None and rule.module in path.read_text(encoding="utf-8") for path in found}
    return [str(path) for path in sorted(found, key=lambda path: not names[path])]


class _First:
    """A plugin of pytest that keeps the name of the first test that fails."""

    name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid


def caught_by(rule: Rule | None, files: Sequence[str] = ()) -> str:
    """The first test of *files*, by default of all, that fails if the *rule* always holds; "" if none does.

    Without a rule, nothing is changed. The tests run in a process of their own. Raises RuntimeError if they cannot.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        first = _First()
        if rule is not None:
            _set(rule)
        given = list(files) or _files(rule)
        ended = pytest.main([*OPTIONS, *given], plugins=[first])
        os.write(writer, first.name.encode())
        os._exit(ended)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        name = pipe.read()
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    if ended != (pytest.ExitCode.TESTS_FAILED if name else pytest.ExitCode.OK):
        raise RuntimeError(f"the tests of {rule} do not run: exit status {ended}")
    return name


def main() -> None:
    """Ask about each rule; exit status 1 if one is neither caught nor read."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rule", action="append", default=[], help="only this one (may be repeated)")
    parser.add_argument("--record", action="store_true", help="leave a record, and write docs/results.md")
    options = parser.parse_args()
    if broken := caught_by(None):
        sys.exit(f"nothing is asked: {broken} fails without a change")
    every = [rule for rule in rules() if not options.rule or str(rule) in options.rule]
    known = {
        kernel: why
        for (kind, kernel, what, _), why in readings().items()
        if (kind, what) == ("prover", ALWAYS)
    }
    left = list[str]()
    for rule in every:
        caught = caught_by(rule)
        print(f"{rule}: {caught or known.get(str(rule), 'no test fails')}", flush=True)
        left += [] if caught else [str(rule)]
    unread = [name for name in left if name not in known]
    print(f"{len(every)} rules, {len(every) - len(left)} caught, {len(unread)} not read")
    if options.record and not options.rule:
        row = {"rules": len(every), "harmless": {n: known[n] for n in left if n in known}, "unread": unread}
        record("rules", "provers", row, {})
    sys.exit(bool(unread))


if __name__ == "__main__":
    main()
