"""PTX text to a syntax tree, and the text itself: the only package that imports tree_sitter besides ``inline``.

Owns the grammar (`grammar.js`, which knows no instruction), the generated parser, :func:`parse`, :func:`problems`, and
:class:`~tclint.syntax.source.Source` with its line index. A syntax error stays inside its statement: `parse` always
returns a tree, and `problems` describes what in it is not PTX. Offsets are bytes everywhere; section numbers are those
of the PTX ISA manual. Imports nothing else of tclint.

Change this package to accept new PTX *syntax*: a directive, an operand form, a literal. A new instruction needs no
change here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from tree_sitter import Language, Node, Parser, Point, Query, QueryCursor, Tree, TreeCursor

from tclint.syntax._binding import language

__all__ = [
    "LANGUAGE",
    "Change",
    "Node",
    "Query",
    "QueryCursor",
    "SyntaxProblem",
    "Tree",
    "TreeCursor",
    "language",
    "parse",
    "problems",
    "reparse",
]

LANGUAGE = Language(language())

# So many are shown for a file; the rest is counted. A binary file has one for nearly each byte.
LIMIT = 20

# So many characters of the input a message quotes.
QUOTE = 40

CLOSERS = {"{": "}", "(": ")", "[": "]"}

# What to call a missing token that has no spelling of its own.
DESCRIPTIONS = {
    "identifier": "a name",
    "integer": "an integer",
    "string": "a string",
    "float": "a number",
    "opcode": "an instruction",
    "dot_word": "a directive",
}


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """A place where the text is not PTX. `start_byte` and `end_byte` bound it, and may be equal."""

    start_byte: int
    end_byte: int
    message: str
    function: int = -1
    """Where the function begins that the text ends in, so that it has no end; -1: there is none."""


def parse(text: bytes, old_tree: Tree | None = None) -> Tree:
    """The syntax tree of a module; never fails, whatever the text (see `problems`).

    `old_tree` is the tree of an earlier state of the text on which `Tree.edit` was called for each change since; the
    parts that did not change are taken from it. NUL bytes at the end, as in PTX cut out of a program, are ignored.
    """
    text = text.rstrip(b"\0")
    parser = Parser(LANGUAGE)
    return parser.parse(text) if old_tree is None else parser.parse(text, old_tree)


@dataclass(frozen=True, slots=True)
class Change:
    """The bytes from ``start`` to ``old_end`` of a text became those from ``start`` to ``new_end`` of the next one."""

    start: int
    old_end: int
    new_end: int

    @classmethod
    def between(cls, old: bytes, new: bytes) -> Change:
        """The smallest change that makes *new* of *old*."""
        start = _alike(min(len(old), len(new)), lambda n: old[:n] == new[:n])
        most = min(len(old), len(new)) - start
        tail = _alike(most, lambda n: n == 0 or old[-n:] == new[-n:])
        return cls(start, len(old) - tail, len(new) - tail)

    @property
    def delta(self) -> int:
        """How far what stands behind it moved."""
        return self.new_end - self.old_end


def _alike(most: int, equal: Callable[[int], bool]) -> int:
    """The largest number up to *most* for which *equal*, which holds for all smaller ones, holds."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if equal(middle) else (low, middle - 1)
    return low


def reparse(old_tree: Tree, old: bytes, new: bytes, change: Change) -> tuple[Tree, tuple[int, int]]:
    """The tree of *new*, and the bytes of it outside of which both trees are the same.

    *old_tree*, the tree of *old*, is moved to where *change* put its parts. How an error is recovered from depends on
    what was reused, so a text with errors is parsed as a whole: the tree is always the one that `parse` makes.
    """
    if change.start == change.old_end == change.new_end:
        return old_tree, (change.start, change.start)
    old_tree.edit(
        start_byte=change.start,
        old_end_byte=change.old_end,
        new_end_byte=change.new_end,
        start_point=_point(old, change.start),
        old_end_point=_point(old, change.old_end),
        new_end_point=_point(new, change.new_end),
    )
    broken = old_tree.root_node.has_error
    tree = parse(new, None if broken else old_tree)
    if tree.root_node.has_error and not broken:
        tree = parse(new)
    ranges = old_tree.changed_ranges(tree)
    return tree, (
        min([change.start, *(r.start_byte for r in ranges)]),
        max([change.new_end, *(r.end_byte for r in ranges)]),
    )


def _point(text: bytes, offset: int) -> Point:
    return Point(text.count(b"\n", 0, offset), offset - text.rfind(b"\n", 0, offset) - 1)


def problems(tree: Tree) -> list[SyntaxProblem]:
    """What in `tree` is not PTX, by position; empty for a well-formed module.

    After the first 20 a last entry counts the others. Takes time linear in the size of the broken parts.
    """
    root = tree.root_node
    # A comment without end hides the braces behind it.
    found = [*_unterminated_comment(root)] or [*_unclosed(root)]
    count = len(found)
    if root.has_error:
        errors = _errors(tree.walk())
        for node in islice(errors, LIMIT):
            count += 1
            found.append(_missing(node) if node.is_missing else _unexpected(node))
        count += sum(1 for _ in errors)
    found.sort(key=lambda problem: problem.start_byte)
    del found[LIMIT:]
    if count > LIMIT:
        end = found[-1].end_byte
        found.append(SyntaxProblem(end, end, f"and {count - LIMIT} more syntax errors"))
    return found


def _unclosed(root: Node) -> Iterator[SyntaxProblem]:
    """Blocks that the scanner ended (`unclosed` in the grammar): each is the last statement of its parent."""
    for function in root.children:
        block = function.child_by_field_name("body") if function.type == "function" else None
        innermost, depth = None, 0
        while block is not None and block.type == "block" and _last(block).type == "unclosed":
            innermost, depth = block, depth + 1
            block = block.child(block.child_count - 2)
        if innermost is not None:
            blocks = "its body is" if depth == 1 else f"{depth} blocks, one in another, are"
            last = function.end_byte == _last(root).end_byte
            before = "the end of the file" if last else "what follows it"
            name = _quote(_text(function.child_by_field_name("name")))
            message = f"unbalanced `{{` in {name}: {blocks} not closed before {before}"
            begins = function.start_byte if last else -1
            yield SyntaxProblem(innermost.start_byte, innermost.start_byte + 1, message, begins)


def _unterminated_comment(root: Node) -> Iterator[SyntaxProblem]:
    """It reaches the end of the file."""
    node = root.descendant_for_byte_range(max(root.end_byte - 1, 0), root.end_byte)
    if node is not None and node.type == "unterminated_comment":
        yield SyntaxProblem(node.start_byte, node.start_byte + 2, "the comment that starts here has no `*/`")


def _errors(cursor: TreeCursor) -> Iterator[Node]:
    """Each outermost ERROR node and each MISSING one, in order. Enters only nodes that have errors below them."""
    in_error: list[bool] = []  # for each node above the cursor: is it an ERROR?
    while True:
        node = cursor.node
        assert node is not None
        if node.is_missing or (node.is_error and not (in_error and in_error[-1])):
            yield node
        if node.has_error and cursor.goto_first_child():
            in_error.append(node.is_error)
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            in_error.pop()


def _missing(node: Node) -> SyntaxProblem:
    message = f"expected {DESCRIPTIONS.get(node.type, f'`{node.type}`')}"
    parent = node.parent
    if parent is not None and parent.start_byte < node.start_byte:
        message += f" after {_quote(_text(parent)[: node.start_byte - parent.start_byte])}"
    return SyntaxProblem(node.start_byte, node.end_byte, message)


def _unexpected(node: Node) -> SyntaxProblem:
    """Why a stretch of text could not be parsed: an unbalanced quote or bracket in it, or else its first words."""
    text = _text(node)
    if text.count(b'"') % 2:
        quote = node.start_byte + text.rindex(b'"')
        return SyntaxProblem(quote, quote + 1, "the string that starts here has no end on its line")
    openers: list[Node] = []
    for child in node.children:
        kind = child.type
        if kind in CLOSERS:
            openers.append(child)
        elif kind in CLOSERS.values() and (not openers or CLOSERS[openers.pop().type] != kind):
            return SyntaxProblem(child.start_byte, child.end_byte, f"unbalanced `{kind}`")
    if openers:
        last = openers[-1]
        return _cut(node, openers) or SyntaxProblem(
            last.start_byte, last.end_byte, f"unbalanced `{last.type}`"
        )
    message = f"unexpected {_quote(text)}"
    before = node.prev_named_sibling
    if before is not None and before.type == "function":
        message += " outside a function, which an unbalanced `}` may have closed"
    return SyntaxProblem(node.start_byte, node.end_byte, message)


def _cut(node: Node, openers: Sequence[Node]) -> SyntaxProblem | None:
    """A function in which the text ends, in the middle of a statement: all of it is one error, the last thing of the text.

    The first bracket that has no end is that of its body, or of its parameters.
    """
    after = node.next_sibling
    while after is not None and after.is_extra:
        after = after.next_sibling
    head = next((child for child in reversed(node.children) if child.type in (".entry", ".func")), None)
    name = head
    while name is not None and name.type != "identifier":
        name = name.next_sibling
    opener = next((o for o in openers if head is not None and o.start_byte > head.start_byte), None)
    if head is None or name is None or opener is None or after is not None:
        return None
    part = "body" if opener.type == "{" else "head"
    message = f"unbalanced `{opener.type}` in {_quote(_text(name))}: its {part} is not closed before the end of the file"
    return SyntaxProblem(opener.start_byte, opener.end_byte, message, head.start_byte)


def _last(node: Node) -> Node:
    return node.child(node.child_count - 1) or node


def _text(node: Node | None) -> bytes:
    """The text of a node; empty when the tree was edited since it was parsed."""
    return (node.text or b"") if node is not None else b""


def _quote(text: bytes) -> str:
    """The text on one line in backticks, shortened, with what cannot be printed escaped."""
    words = " ".join(text[: 4 * QUOTE].decode("utf-8", "backslashreplace").split())
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
    return f"`{shown}`" if len(shown) <= QUOTE else f"`{shown[:QUOTE]}…`"
