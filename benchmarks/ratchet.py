"""How often the code restates what the ISA table knows: counts that may only fall.

    python -m benchmarks.ratchet [--list COUNT] [--update]

The meaning of an instruction belongs into ``tclint/isa``; what is counted here repeats it elsewhere, or reads data by
position where a name would do. ``--list`` prints each place of a count, ``--update`` records lower counts in
``benchmarks/records/ratchet.json`` and refuses higher ones. ``tests/project/test_ratchet.py`` holds the code to the
record.

Two names are not counted as literals, since they are above all words of other things: ``cluster``, which as a group only
says which barrier an event is about, is also a scope, a state space and a dimension of a launch; ``none`` is the name of
what only the end of a CTA completes.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import results
from benchmarks.arguments import command_line
from tclint.isa.effects import ENDLESS, ENGINES
from tclint.isa.table import EVENTS

__all__ = ["COUNTS", "RECORD", "counts", "main", "places"]

RECORD = results.RECORDS / "ratchet.json"
PACKAGE = results.ROOT / "tclint"
NAMES = EVENTS | ENGINES.keys() - {str(ENDLESS)}
_TEXT = frozenset(("opcode", "modifiers"))
"""Attributes and variables that hold the text of an opcode, or parts of it."""
_STRING_METHODS = frozenset(
    "startswith endswith split partition rpartition find index removeprefix removesuffix".split()
)


def _is_text(node: ast.expr) -> bool:
    """Whether an expression is, or is taken from, the text of an opcode."""
    if isinstance(node, ast.Attribute):
        return node.attr in _TEXT
    if isinstance(node, ast.Name):
        return node.id in _TEXT
    if isinstance(node, ast.Subscript):
        return _is_text(node.value)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_text(node.func.value)


def _literals(node: ast.AST) -> bool:
    """A string that is the name of an event, or of an engine, which is a group."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NAMES


def _opcode_tests(node: ast.AST) -> bool:
    """A comparison with the text of an opcode, or a string method of it."""
    if isinstance(node, ast.Compare):
        return any(map(_is_text, (node.left, *node.comparators)))
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _STRING_METHODS
        and _is_text(node.func.value)
    )


def _event_sets(node: ast.AST) -> bool:
    """A collection of two or more names of events or groups, and of nothing else; keys of a mapping included."""
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        members = node.elts
    elif isinstance(node, ast.Dict):
        members = [key for key in node.keys if key is not None]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        text = node.func.value
        if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
            return False
        return len(words := text.value.split()) > 1 and NAMES.issuperset(words)
    else:
        return False
    return len(members) > 1 and all(map(_literals, members))


def _positional_reads(node: ast.AST) -> bool:
    """``node[k]``: a field of a value node by its position."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "node"
        and isinstance(node.slice, ast.Constant)
    )


def _kernel_models(node: ast.AST) -> bool:
    """An import of ``KernelModel``."""
    return isinstance(node, ast.ImportFrom) and any(alias.name == "KernelModel" for alias in node.names)


COUNTS: dict[str, Callable[[ast.AST], bool]] = {
    "literals of events and groups": _literals,
    "tests of opcode text": _opcode_tests,
    "hand-written sets of events": _event_sets,
    "positional reads of value nodes": _positional_reads,
    "importers of KernelModel": _kernel_models,
}
"""What is counted, outside ``tclint/isa``, with the test of a node of the syntax tree."""


def places(package: Path = PACKAGE) -> dict[str, list[str]]:
    """Each place of every count, as ``file:line``."""
    found: dict[str, list[str]] = {name: [] for name in COUNTS}
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] != "isa":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                for name, counted in COUNTS.items():
                    if counted(node):
                        place = f"{path.relative_to(package.parent)}:{getattr(node, 'lineno', 0)}"
                        found[name].append(place)
    return found


def counts(package: Path = PACKAGE) -> dict[str, int]:
    """Every count."""
    return {name: len(found) for name, found in places(package).items()}


def main(arguments: list[str] | None = None) -> int:
    """Print counts beside the recorded ones; the exit status is 1 if one has risen."""
    parser = command_line("benchmarks.ratchet", __doc__)
    parser.add_argument("--list", choices=COUNTS, help="print each place of a count")
    parser.add_argument("--update", action="store_true", help="record lower counts")
    options = parser.parse_args(arguments)
    if options.list:
        print(*places()[options.list], sep="\n")
        return 0
    recorded = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    now = counts()
    risen = [name for name, count in now.items() if count > recorded.get(name, count)]
    for name, count in now.items():
        print(
            f"{count:6,}  {name}"
            + (f", {recorded[name]:,} recorded" if recorded.get(name, count) != count else "")
        )
    if options.update and not risen:
        RECORD.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    return 1 if risen else 0


if __name__ == "__main__":
    sys.exit(main())
