"""Whether each rule of the provers and checkers is held by a test: what happens if it always gives one answer.

    python -m benchmarks.prover_rules [--rule completion.Completion._waited] [--journal FILE] [--record] [TESTS...]

A rule is a function of ``tclint.verdicts``, or one within another, that

- answers yes or no. Yes proves something in most of them, and no in others, such as "may another thread arrive here". So
  each is made to answer yes, and then no;
- states why something does not hold, in words that may be empty, or yields such reasons. It is made to state nothing;
- refuses a certificate. Each refusal in turn is left out.

Then the tests of that package are run until one fails: because a checker accepts what it refused, because a kernel is proved
that is not right, or because one that is right is not proved. A change after which no test fails is printed. Either no proof
rests on it, which a person decides (``benchmarks/readings.tsv``, class ``prover``), or a test is missing.

First all tests run once, and what each rule answers in each of them is noted. Only a test in which a rule has given
another answer can notice that it always gives one; of these the shortest comes first. Each change has a process of its
own. A run that is repeated with a ``--journal`` asks only what it lacks: a test that fails after a change is known until
tclint or the file of that test is edited.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest

import tclint.verdicts
from benchmarks.arguments import command_line
from benchmarks.journal import Journal, key, sources
from benchmarks.verdict_score import readings, record

__all__ = ["Question", "asked", "main", "questions", "rules"]

PACKAGE = Path(tclint.verdicts.__file__).parent
TESTS = "tests/verdicts"
OPTIONS = (
    "-s",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:terminal",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)
TRUE, FALSE, EMPTY, NEVER = "always true", "always false", "always empty", "never raises "
REASONS = ("Iterator[Reason]", "Iterable[Reason]", "Iterator[tuple[int, str]]")
"""What the rules return that yield why something does not hold."""
PATIENCE = 600
"""The seconds after which a test does not end."""
UNENDING = "a test does not end"


class Question(NamedTuple):
    """A rule, and how it is changed: the class ``prover`` of the readings has the two as *kernel* and *what*."""

    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule} {self.what}"


class Rule(NamedTuple):
    """A function with its changes."""

    name: str
    node: ast.FunctionDef
    changes: tuple[str, ...]


def rules(module: str, tree: ast.AST) -> Iterator[Rule]:
    """The rules in the *tree* of a module, in order."""
    for node in ast.iter_child_nodes(tree):
        name = module
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            name = f"{module}.{node.name}"
        if isinstance(node, ast.FunctionDef) and (changes := tuple(_changes(node))):
            yield Rule(name, node, changes)
        yield from rules(name, node)


def _changes(function: ast.FunctionDef) -> Iterator[str]:
    returned = "" if function.returns is None else ast.unparse(function.returns)
    if returned in ("bool", "bool | None") or returned.startswith("TypeGuard["):
        yield from (TRUE, FALSE)
    elif returned in REASONS or (returned == "str" and '""' in (ast.get_docstring(function) or "")):
        yield EMPTY
    yield from dict.fromkeys(filter(None, map(_refusal, ast.walk(function))))


def _refusal(node: ast.AST) -> str:
    """The change that leaves a statement out which refuses a certificate; "" for any other."""
    raised = node.exc if isinstance(node, ast.Raise) else None
    if isinstance(raised, ast.Call) and ast.unparse(raised.func) == "Refused":
        return NEVER + ast.unparse(raised.args[1])
    return ""


def questions() -> Iterator[Question]:
    """What is asked of the rules of the package."""
    for path in sorted(PACKAGE.glob("*.py")):
        for rule in rules(path.stem, _tree(path)):
            yield from (Question(rule.name, what) for what in rule.changes)


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


# ---------------------------------------------------------------- changes


def _change(path: Path, change: Callable[[Rule], None]) -> None:
    """Makes a *change* of each rule in a module that is loaded."""
    tree = _tree(path)
    for rule in list(rules(path.stem, tree)):
        change(rule)
    code = compile(ast.fix_missing_locations(tree), str(path), "exec")
    _replace(code, importlib.import_module(f"tclint.verdicts.{path.stem}"))


def _replace(code: CodeType, owner: object) -> None:
    """Gives the functions of a module or class their code in *code*."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            found = inspect.getattr_static(owner, each.co_name, None)
            for wrapped in ("fget", "func", "__func__", "__wrapped__"):
                found = getattr(found, wrapped, found)
            if isinstance(found, type):
                _replace(each, found)
            elif isinstance(found, FunctionType):
                found.__code__ = each


def _ask(question: Question) -> None:
    """Makes the change that a question is about."""

    def change(rule: Rule) -> None:
        if rule.name != question.rule:
            return
        if question.what.startswith(NEVER):
            _Without(question.what).visit(rule.node)
        else:
            nothing = None if ast.unparse(rule.node.returns or rule.node) in REASONS else ast.Constant("")
            values = {TRUE: ast.Constant(True), FALSE: ast.Constant(False), EMPTY: nothing}
            rule.node.body.insert(0, ast.Return(values[question.what]))

    _change(PACKAGE / f"{question.rule.split('.')[0]}.py", change)


class _Without(ast.NodeTransformer):
    """Leaves a refusal out."""

    def __init__(self, what: str) -> None:
        self.what = what

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        return ast.Pass() if _refusal(node) == self.what else node


class _Noting(ast.NodeTransformer):
    """Makes a function note what it returns, that it yields something, and what it refuses."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _noted(self, value: ast.expr) -> ast.Call:
        return ast.Call(ast.Name("__noted__", ast.Load()), [ast.Constant(self.name), value], [])

    def visit_Return(self, node: ast.Return) -> ast.Return:
        return ast.Return(self._noted(node.value or ast.Constant(None)))

    def visit_Yield(self, node: ast.Yield) -> ast.Yield:
        return ast.Yield(self._noted(node.value or ast.Constant(None)))

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.YieldFrom:
        return ast.YieldFrom(self._noted(node.value))

    def visit_Raise(self, node: ast.Raise) -> list[ast.stmt]:
        return [ast.Expr(self._noted(ast.Constant(_refusal(node)))), node]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node


def _unlike(answer: object) -> tuple[str, ...]:
    """The changes after which a rule would not have answered so."""
    if isinstance(answer, bool):
        return (FALSE if answer else TRUE,)
    if isinstance(answer, str) and (not answer or answer.startswith(NEVER)):
        return (answer,)
    return (TRUE, FALSE, EMPTY)


# ---------------------------------------------------------------- runs


class _Runs:
    """A plugin of pytest that runs the tests that were collected, changed in one way after the other."""

    def __init__(self, asked: Sequence[Question], journal: Journal) -> None:
        self.asked, self.journal, self.package = asked, journal, sources(Path("tests/tools"))
        """The last is a digest of tclint, and of what tests share."""
        self.failed = ""
        self.found: dict[Question, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Each question in turn."""
        if session.testsfailed:
            raise RuntimeError("the tests cannot be collected")
        items = {item.nodeid: item for item in session.items}
        keys = {test: key(self.package, item.path.read_bytes()) for test, item in items.items()}
        every = key(*keys.values())
        known = self.journal.known
        fresh = [item for test, item in items.items() if f"{keys[test]} {test}" not in known]
        for test, noted in _forked(partial(self._noted, fresh)).items() if fresh else ():
            self.journal.keep(f"{keys[test]} {test}", noted)
        noted = {test: known[f"{keys[test]} {test}"] for test in items}
        if failed := [test for test in items if noted[test]["fails"]]:
            raise RuntimeError(f"{failed[0]} fails without a change")
        read = readings()
        for question in self.asked:
            name = str(question)
            caught = known.get(f"{every} {name}")
            for test in items if caught is None else ():
                caught = caught or known.get(f"{keys[test]} {name}: {test}")
            if caught is None:
                chosen = [test for test in items if name in noted[test]["others"]]
                chosen.sort(key=lambda test: noted[test]["seconds"])
                try:
                    caught = _forked(partial(self._caught, question, [items[test] for test in chosen]))
                except TimeoutError:
                    caught = UNENDING
                where = f"{keys[caught]} {name}: {caught}" if caught in keys else f"{every} {name}"
                self.journal.keep(where, caught)
            print(f"{name}: {caught or read.get(('prover', *question, '0')) or 'no test fails'}", flush=True)
            self.found[question] = caught
        return True

    def _noted(self, items: Sequence[pytest.Item]) -> dict[str, Any]:
        """For each test, how long it takes, whether it fails, and the changes of rules that would be one in it."""
        others = set[str]()

        def noted(rule: str, answer: object) -> object:
            others.update(f"{rule} {what}" for what in _unlike(answer))
            return answer

        def change(rule: Rule) -> None:
            rule.node.body = [_Noting(rule.name).visit(each) for each in rule.node.body]

        for path in PACKAGE.glob("*.py"):
            vars(importlib.import_module(f"tclint.verdicts.{path.stem}"))["__noted__"] = noted
            _change(path, change)
        found = dict[str, Any]()
        for item in items:
            others.clear()
            start = time.process_time()
            _run(item)
            seconds = time.process_time() - start
            found[item.nodeid] = {"seconds": seconds, "fails": bool(self.failed), "others": sorted(others)}
            self.failed = ""
        return found

    def _caught(self, question: Question, items: Sequence[pytest.Item]) -> str:
        """The first of *items* that fails after a change; "" if none does."""
        _ask(question)
        for item in items:
            _run(item)
            if self.failed:
                break
        return self.failed


def _run(item: pytest.Item) -> None:
    signal.alarm(PATIENCE)
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)


def _forked(run: Callable[[], Any]) -> Any:
    """What *run* returns in a process of its own, which prints nothing.

    Raises TimeoutError if a test does not end, and RuntimeError if anything else fails.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            with os.fdopen(writer, "w", encoding="utf-8") as pipe:
                json.dump(run(), pipe)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        text = pipe.read()
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended == -signal.SIGALRM:
        raise TimeoutError
    if ended:
        raise RuntimeError(f"the tests do not run: exit status {ended}")
    return json.loads(text)


def asked(
    chosen: Sequence[Question], tests: Sequence[str], journal: Path | None = None
) -> dict[Question, str]:
    """The first of the *tests* that each question makes fail; "" if none does. Raises RuntimeError if they do not run."""
    runs = _Runs(chosen, Journal(journal))
    ended = pytest.main([*OPTIONS, *tests], plugins=[runs])
    if ended is not pytest.ExitCode.OK:
        raise RuntimeError(f"pytest ends with {ended!r}")
    return runs.found


def main() -> None:
    """Ask about each rule; exit status 1 if a change is neither caught nor read."""
    parser = command_line("benchmarks.prover_rules", __doc__)
    parser.add_argument(
        "tests", nargs="*", default=[TESTS], help="the tests to run, by default all of the package"
    )
    parser.add_argument("--rule", action="append", default=[], help="only this one (may be repeated)")
    parser.add_argument("--journal", type=Path, help="keep what is found, so that the run can be resumed")
    parser.add_argument("--record", action="store_true", help="leave a record, and write docs/results.md")
    options = parser.parse_args()
    chosen = [each for each in questions() if not options.rule or each.rule in options.rule]
    left = [each for each, caught in asked(chosen, options.tests, options.journal).items() if not caught]
    read = readings()
    known = {each: read.get(("prover", *each, "0")) for each in left}
    unread = [str(each) for each, why in known.items() if why is None]
    names = len({each.rule for each in chosen})
    print(f"{names} rules, {len(chosen)} changes, {len(chosen) - len(left)} caught, {len(unread)} not read")
    if options.record and not options.rule and options.tests == [TESTS]:
        harmless = {str(each): why for each, why in known.items() if why is not None}
        record(
            "rules",
            "provers",
            {"rules": names, "changes": len(chosen), "harmless": harmless, "unread": unread},
            {},
        )
    sys.exit(bool(unread))


if __name__ == "__main__":
    main()
