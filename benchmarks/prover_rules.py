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

import tclint.verdicts
from benchmarks.verdict_score import readings, record

__all__ = ["Rule", "is_caught", "main", "rules"]

PACKAGE = Path(tclint.verdicts.__file__).parent
TESTS = Path("tests/verdicts")
ALWAYS = "always true"


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


def _files(rule: Rule) -> list[str]:
    """The tests of the package, those that name the module of the *rule* first."""
    found = sorted(TESTS.glob("test_*.py"))
    names = {path: rule.module in path.read_text(encoding="utf-8") for path in found}
    return [str(path) for path in sorted(found, key=lambda path: not names[path])]


def is_caught(rule: Rule, files: Sequence[str] = ()) -> bool:
    """Whether a test of *files*, by default of all, fails if the *rule* always holds. Runs them in a process of its own."""
    import pytest

    child = os.fork()
    if not child:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        _set(rule)
        given = list(files) or _files(rule)
        os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *given]))
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"the tests of {rule} did not run: exit status {ended}")
    return ended == pytest.ExitCode.TESTS_FAILED


def main() -> None:
    """Ask about each rule; exit status 1 if one is neither caught nor read."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rule", action="append", default=[], help="only this one (may be repeated)")
    parser.add_argument("--record", action="store_true", help="leave a record, and write docs/results.md")
    options = parser.parse_args()
    every = [rule for rule in rules() if not options.rule or str(rule) in options.rule]
    known = {
        kernel: why
        for (kind, kernel, what, _), why in readings().items()
        if (kind, what) == ("prover", ALWAYS)
    }
    left = list[str]()
    for rule in every:
        caught = is_caught(rule)
        print(f"{rule}: {'caught' if caught else known.get(str(rule), 'no test fails')}", flush=True)
        left += [] if caught else [str(rule)]
    unread = [name for name in left if name not in known]
    print(f"{len(every)} rules, {len(every) - len(left)} caught, {len(unread)} not read")
    if options.record and not options.rule:
        row = {
            "rules": len(every),
            "caught": len(every) - len(left),
            "harmless": {n: known[n] for n in left if n in known},
            "unread": unread,
        }
        record("rules", "provers", row, {})
    sys.exit(bool(unread))


if __name__ == "__main__":
    main()
