"""The reducer: delta debugging on the syntax tree.

Parts are taken out in chunks that halve, from the end of the text to its start, as long as what is left is *interesting*:
functions and variables first, then blocks, then statements, and then whatever is left, one by one, until nothing can be taken
out. After that, what remains is made simpler: guards go, and operands become constants. A declaration, label or function
stays as long as something uses it. Text that does not parse is never asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import pairwise
from typing import TypeVar

from tclint.findings.edits import joined
from tclint.findings.finding import Edit
from tclint.findings.spans import Span
from tclint.syntax import Tree, parse, problems
from tclint.syntax.source import SourceError
from tclint.text.layout import checked, formatted
from tclint.text.names import nodes, resolved, span_of
from tclint.text.normal import normal, without_comments, without_debug_data
from tclint.text.units import Units

__all__ = ["First", "Reduction", "Spent", "instructions"]

K = TypeVar("K")
First = Callable[[Iterator[bytes]], "int | None"]
"""The number of the first interesting text among those given; None if there is none. It need not ask for all of them, and may
ask for more than it needs. Raises Spent."""

_CONSTANTS = {b".f32": "0f00000000", b".f64": "0d0000000000000000"}
"""The constant for a register of such a type; one of any other type but predicates becomes 0."""


class Spent(Exception):
    """No more texts may be asked about."""


def instructions(data: bytes) -> int:
    """The number of instructions in a text."""
    return sum(1 for _ in nodes(parse(data).root_node, ("instruction",)))


class Reduction:
    """The reduction of one text."""

    def __init__(self, data: bytes, first: First, found: Callable[[bytes], None]) -> None:
        """*found* is called with each smaller text. Raises SourceError if *data*, which must be interesting, does not
        parse."""
        checked(data)
        self.data = data
        self._first = first
        self._found = found
        self._refused: set[bytes] = set()
        self.minimal = False
        """Whether no single statement can be taken out of the text."""

    def run(self, *, whole: bool = False) -> None:
        """Reduces the text as far as possible; with *whole*, what functions are left are whole. Raises Spent."""
        self._whole(normal, _plain(without_debug_data), _plain(without_comments), formatted)
        self._take(Units.top)
        if whole:
            return
        blocks = self._take(Units.blocks)
        self._take(Units.each, chunks=blocks)
        while self._sweep() or self._simplify():
            pass
        self.minimal = True

    def _sweep(self) -> bool:
        """Takes out single parts until none can be; returns whether any was."""
        before = now = self.data
        while True:
            self._take(Units.each, size=2)
            if self.data == now:
                return now != before
            now = self.data

    def _whole(self, *changes: Callable[[bytes], bytes]) -> None:
        """Applies the first of some changes of the whole text that leaves it interesting."""
        made: list[tuple[int, bytes]] = []
        for number, change in enumerate(changes):
            with suppress(SourceError):  # some text parses only with what is left out
                made.append((number, change(self.data)))
        self._ask(made)

    def _take(
        self, parts: Callable[[Units], list[frozenset[int]]], size: int | None = None, chunks: int = 1
    ) -> int:
        """Takes out as many of the parts as possible, and returns how many are left.

        The first chunks have *size* parts; by default they are so many *chunks*.
        """
        units = Units(checked(self.data), self.data)
        given = parts(units)
        size = size or max(len(given) // max(chunks, 1), 1)
        return len(self._chunks(given, size, lambda chunk: units.without(frozenset().union(*chunk))))

    def _simplify(self) -> bool:
        """Drops guards, initialisers and braces and makes constants of operands; returns whether anything changed.

        Names and layout are those of the normal form in the end, as far as possible.
        """
        before = self.data
        for changes in (_guards, _operands, _initialisers, _braces):
            data = self.data
            edits = list(changes(checked(data), data))
            self._chunks(edits, len(edits), partial(_edited, data))
        self._whole(normal, formatted)
        return self.data != before

    def _chunks(self, given: Sequence[K], size: int, make: Callable[[Sequence[K]], bytes]) -> list[K]:
        """Applies as many of the changes *given* as possible, which *make* does to the text as it was, and returns the
        others. The first chunks have *size* changes."""
        left: list[K] = list(given)
        done: list[K] = []
        size = min(size, len(left))
        while size:
            end = len(left)
            while end > 0:
                ends = range(end, 0, -size)
                taken = self._ask((at, make([*done, *left[max(at - size, 0) : at]])) for at in ends)
                if taken is None:
                    break
                end = max(taken - size, 0)
                done += left[end:taken]
                del left[end:taken]
            size = min(size // 2, len(left))
        return left

    def _ask(self, candidates: Iterable[tuple[K, bytes]]) -> K | None:
        """Keeps the first of the *candidates* that is interesting, and returns its key; None if none is."""
        asked: list[tuple[K, bytes]] = []

        def texts() -> Iterator[bytes]:
            for key, text in candidates:
                if text != self.data and _digest(text) not in self._refused and not problems(parse(text)):
                    asked.append((key, text))
                    yield text

        number = self._first(texts())
        self._refused.update(_digest(text) for _, text in asked[:number])
        if number is None:
            return None
        key, self.data = asked[number]
        self._found(self.data)
        return key


def _plain(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """A change of the text, and its layout."""
    return lambda data: formatted(change(data))


def _edited(data: bytes, changes: Iterable[list[Edit]]) -> bytes:
    return joined(data, (edit for change in changes for edit in change))


def _digest(text: bytes) -> bytes:
    return sha256(text).digest()


# ---------------------------------------------------------------- what makes a text simpler


def _guards(tree: Tree, data: bytes) -> Iterator[list[Edit]]:
    """Each guard, to be dropped."""
    for guard in nodes(tree.root_node, ("guard",)):
        yield [Edit(span_of(guard), "")]


def _operands(tree: Tree, data: bytes) -> Iterator[list[Edit]]:
    """Each register that is an operand of its own, but for the first one, to become a constant."""
    _, uses, _ = resolved(tree, data)
    types = {use.start: use.declaration.type for use in uses if use.declaration.kind == "register"}
    for instruction in nodes(tree.root_node, ("instruction",)):
        terms = [child for child in instruction.children if child.type not in ("guard", "opcode", "comment")]
        for before, node in pairwise(terms):
            type = types.get(node.start_byte, b".pred") if node.type == "identifier" else b".pred"
            if before.type == "," and not type.endswith(b".pred"):
                yield [Edit(span_of(node), _CONSTANTS.get(type, "0"))]


def _initialisers(tree: Tree, data: bytes) -> Iterator[list[Edit]]:
    """The initial value of each variable, to be dropped."""
    for variable in nodes(tree.root_node, ("variable_declaration",)):
        begin = -1
        for child in variable.children:
            if child.type == "=":
                begin = child.start_byte
            elif child.type in (",", ";") and begin >= 0:
                yield [Edit(Span(begin, child.start_byte), "")]
                begin = -1


def _braces(tree: Tree, data: bytes) -> Iterator[list[Edit]]:
    """The braces of each scope, to be dropped without what is between them."""
    for body in nodes(tree.root_node, ("block",)):
        todo = [body]
        while todo:
            for node in todo.pop().children:
                if node.type == "block":
                    todo.append(node)
                    yield [Edit(Span(at, at + 1), "") for at in (node.start_byte, node.end_byte - 1)]
