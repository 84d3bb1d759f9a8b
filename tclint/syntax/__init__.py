"""The text of a module and its syntax tree: the only package besides ``inline`` that imports tree_sitter.

Owns the grammar (`grammar.js`, which knows no instruction), the generated parser, :func:`parse`, :func:`problems`, and
:class:`~tclint.syntax.source.Source` with its line index. A syntax error is confined to its statement: `parse` always
returns a tree, and `problems` describes the errors in it. Offsets are bytes everywhere; section numbers are those of the
PTX ISA manual. Imports no other package of tclint.

Change this package to accept new PTX *syntax*: a directive, an operand form, a literal. A new instruction needs no
change here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, zip_longest

from tree_sitter import Language, Node, Parser, Point, Query, QueryCursor, Tree, TreeCursor

from tclint._dataclass import dataclass
from tclint.syntax._binding import language

__all__ = [
    "LANGUAGE",
    "Node",
    "Query",
    "QueryCursor",
    "SyntaxProblem",
    "TextChange",
    "Tree",
    "TreeCursor",
    "first_item",
    "language",
    "parse",
    "problems",
    "reparse",
    "statements",
    "unknown_directive",
]

LANGUAGE = Language(language())

# Syntax errors that are listed for a file; the rest is counted. A binary file has one for nearly every byte.
MAX_PROBLEMS = 20

# The changes that an edit in several places is taken apart into, the bytes of each, and those that are the same after it.
MAX_CHANGES = 64
MAX_CHANGED = 1024
CONTEXT = 48

# The bytes of two texts that are compared at once.
MAX_PIECE = 1 << 14

# Characters of the input that a message quotes.
MAX_QUOTED = 40

CLOSERS = {"{": "}", "(": ")", "[": "]"}

# The descriptions of missing tokens without a fixed spelling.
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
    """A syntax error. `start_byte` and `end_byte` delimit it, and may be equal."""

    start_byte: int
    end_byte: int
    message: str
    function: int = -1
    """The start of the function that is not closed before the end of the text; -1 if there is none."""


def parse(text: bytes, old_tree: Tree | None = None) -> Tree:
    """The syntax tree of a module; never fails, whatever the text (see `problems`).

    `old_tree` is the tree of an earlier state of the text, on which `Tree.edit` was called for each change since;
    unchanged parts are reused from it. NUL bytes at the end, as in PTX extracted from a program, are ignored.
    """
    text = text.rstrip(b"\0")
    parser = Parser(LANGUAGE)
    return parser.parse(text) if old_tree is None else parser.parse(text, old_tree)


@dataclass(frozen=True, slots=True)
class TextChange:
    """An edit: bytes ``start`` to ``old_end`` of a text were replaced by bytes ``start`` to ``new_end`` of the next one.

    Several changes follow each other in the text, and each is one of the text with those before it.
    """

    start: int
    old_end: int
    new_end: int

    @classmethod
    def between(cls, old: bytes, new: bytes) -> TextChange:
        """The smallest change that turns *old* into *new*."""
        shorter = min(len(old), len(new))
        start = _same(shorter, lambda low, high: old[low:high] == new[low:high])
        before, after = len(old), len(new)
        tail = _same(
            shorter - start,
            lambda low, high: old[before - high : before - low] == new[after - high : after - low],
        )
        return cls(start, before - tail, after - tail)

    @classmethod
    def all_between(cls, old: bytes, new: bytes) -> list[TextChange]:
        """Small changes that turn *old* into *new*, as where statements are inserted in several places; or else one."""
        whole = cls.between(old, new)
        found: list[TextChange] = []
        at, then = whole.start, whole.start  # in the old text, and in the new one
        while at < whole.old_end and then < whole.new_end:
            if max(whole.old_end - at, whole.new_end - then) <= CONTEXT:
                break
            resumed = _resumption(old, at, new, then)
            if resumed is None or len(found) == MAX_CHANGES:
                return [whole]
            resumed_at, resumed_then = resumed
            if resumed_at >= whole.old_end or resumed_then >= whole.new_end:
                break
            found.append(cls(then, then + resumed_at - at, resumed_then))
            same = _common(old, resumed_at, new, resumed_then, whole)
            at, then = resumed_at + same, resumed_then + same
        if not found:
            return [whole]
        last = cls.between(old[at:], new[then:])
        return [*found, cls(then + last.start, then + last.old_end, then + last.new_end)]

    @property
    def delta(self) -> int:
        """The number of bytes by which the text after it moved."""
        return self.new_end - self.old_end


def _same(limit: int, equal: Callable[[int, int], bool]) -> int:
    """How many of *limit* bytes are the same up to the first that differs; *equal* compares those from one number to
    another. All are read once, in pieces that grow."""
    low, size = 0, CONTEXT
    while low < limit and equal(low, high := min(low + size, limit)):
        low, size = high, min(4 * size, MAX_PIECE)
    if low == limit:
        return limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if equal(low, middle) else (low, middle)
    return low


def _resumption(old: bytes, at: int, new: bytes, then: int) -> tuple[int, int] | None:
    """Where *old* and *new*, which differ from *at* and *then* on, are the same again for a while: what is inserted or
    deleted ends there, or else lines are replaced. None if that is nowhere near."""
    inserted = new.find(old[at : at + CONTEXT], then, then + MAX_CHANGED)
    deleted = old.find(new[then : then + CONTEXT], at, at + MAX_CHANGED)
    if inserted >= 0 and not 0 <= deleted - at <= inserted - then:
        return at, inserted
    if deleted >= 0:
        return deleted, then
    line = at
    while (line := old.find(b"\n", line, at + MAX_CHANGED) + 1) > 0:
        resumed = new.find(old[line : line + CONTEXT], then, then + MAX_CHANGED)
        if resumed >= 0:
            return line, resumed
    return None


def _common(old: bytes, at: int, new: bytes, then: int, within: TextChange) -> int:
    """The number of bytes that are the same in *old* from *at* on and in *new* from *then* on, *within* a change."""
    limit = min(within.old_end - at, within.new_end - then)
    return _same(limit, lambda low, high: old[at + low : at + high] == new[then + low : then + high])


def reparse(
    old_tree: Tree,
    old: bytes,
    new: bytes,
    changes: Sequence[TextChange],
    sound: tuple[Tree, bytes] | None = None,
) -> tuple[Tree, list[tuple[int, int]]]:
    """The tree of *new*, and the byte ranges of *new* outside of which both trees are equal; each contains a change.

    *old_tree*, the tree of *old*, is modified: its positions are adjusted to *changes*. Error recovery depends on what is
    reused, so nothing is reused from a tree with errors, nor for a text with errors; the result always equals that of
    `parse`. *sound* is the last state without errors, from which the tree is made where *old_tree* has some.
    """
    if _is_nothing(changes):
        return old_tree, [(change.start, change.start) for change in changes]
    broken = old_tree.root_node.has_error
    _edit(old_tree, old, new, changes)
    if not broken:
        tree = parse(new, old_tree)
    elif sound is None:
        tree = parse(new)
    else:
        before, text = sound
        since = TextChange.all_between(text, new)
        tree = before if _is_nothing(since) else parse(new, _edit(before.copy(), text, new, since))
    if tree.root_node.has_error and not (broken and sound is None):
        tree = parse(new)
    differing = [(r.start_byte, r.end_byte) for r in old_tree.changed_ranges(tree)]
    changed = [(change.start, change.new_end) for change in changes]
    return tree, _merged(changed, differing)


def _is_nothing(changes: Sequence[TextChange]) -> bool:
    return all(change.start == change.old_end == change.new_end for change in changes)


def _edit(tree: Tree, old: bytes, new: bytes, changes: Sequence[TextChange]) -> Tree:
    """*tree*, that of *old*, once its positions are adjusted to the *changes* that make *new* of it."""
    at, moved, point = 0, 0, Point(0, 0)
    for change in changes:
        start = _advanced(point, new[at : change.start])
        removed = old[change.start - moved : change.old_end - moved]
        at, moved, point = (
            change.new_end,
            moved + change.delta,
            _advanced(start, new[change.start : change.new_end]),
        )
        tree.edit(
            start_byte=change.start,
            old_end_byte=change.old_end,
            new_end_byte=change.new_end,
            start_point=start,
            old_end_point=_advanced(start, removed),
            new_end_point=point,
        )
    return tree


def _merged(changed: list[tuple[int, int]], differing: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges *changed*, extended by those *differing*; a single range if one of these is beside none of them."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted((*changed, *differing)):
        if merged and low <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    if any(not any(low <= start <= high for start, _ in changed) for low, high in merged):
        return [(merged[0][0], merged[-1][1])]
    return merged


def _advanced(point: Point, text: bytes) -> Point:
    """The point after *text*, which begins at *point*."""
    lines = text.count(b"\n")
    return Point(point.row + lines, len(text) - text.rfind(b"\n") - 1 if lines else point.column + len(text))


def problems(tree: Tree) -> list[SyntaxProblem]:
    """The syntax errors in `tree`, by position; empty for a well-formed module.

    After the first 20, a last entry counts the others. Takes time linear in the size of the broken parts.
    """
    root = tree.root_node
    # An unterminated comment hides the braces after it, so unclosed blocks are not reported then.
    found = [*_unterminated_comment(root)] or [*_unclosed(root)]
    count = len(found)
    if (unopened := next(_unopened(root), None)) is not None:
        return [unopened]  # all that follows is outside a function
    if root.has_error:
        errors = _independent(_errors(tree.walk()))
        for node in islice(errors, MAX_PROBLEMS):
            count += 1
            problem = _missing(node) if node.is_missing else _unexpected(node)
            if problem not in found:  # an unknown directive may have several
                found.append(problem)
        count += sum(1 for _ in errors)
    found.sort(key=lambda problem: problem.start_byte)
    del found[MAX_PROBLEMS:]
    if count > MAX_PROBLEMS:
        end = found[-1].end_byte
        found.append(SyntaxProblem(end, end, f"and {count - MAX_PROBLEMS} more syntax errors"))
    return found


def _unclosed(root: Node) -> Iterator[SyntaxProblem]:
    """The functions with blocks that the scanner closed (`unclosed` in the grammar), one problem each.

    Such a block is the last statement of its parent.
    """
    for function in root.children:
        block = function.child_by_field_name("body") if function.type == "function" else None
        innermost, depth = None, 0
        while block is not None and block.type == "block" and _last(block).type == "unclosed":
            innermost, depth = block, depth + 1
            block = block.child(block.child_count - 2)
        if innermost is not None:
            blocks = "its body is" if depth == 1 else f"{depth} nested blocks are"
            last = function.end_byte == _last(root).end_byte
            before = "the end of the file" if last else "what follows it"
            name = _quote(_text(function.child_by_field_name("name")))
            message = f"unbalanced `{{` in {name}: {blocks} not closed before {before}"
            begins = function.start_byte if last else -1
            yield SyntaxProblem(innermost.start_byte, innermost.start_byte + 1, message, begins)


def statements(text: bytes, broken: Sequence[SyntaxProblem]) -> list[tuple[int, int]]:
    """For each syntax error, the bytes of the statement that contains it, delimited by semicolons and braces."""
    return [
        (max(text.rfind(mark, 0, problem.start_byte) for mark in (b";", b"{", b"}")) + 1, end)
        for problem in broken
        for end in (_end(text, problem.end_byte),)
    ]


def _end(text: bytes, start: int) -> int:
    end = text.find(b";", start)
    return len(text) if end < 0 else end + 1


def first_item(tree: Tree) -> int:
    """Where the first item of the module begins that is no comment; 0 if there is none."""
    items = (child.start_byte for child in tree.root_node.children if not child.is_extra)
    return next(items, 0)


def _unopened(root: Node) -> Iterator[SyntaxProblem]:
    """The functions of which a declaration follows the head, as if the body had begun, before any other error."""
    for function in root.children if root.has_error else ():
        if function.type == "function" and function.has_error:
            inside = (c for c in function.children if c.type == "performance_directive")
            begun = next((c for c in inside if _text(c).decode("latin-1") in _SPACES), None)
            if begun is not None:
                name = _quote(_text(function.child_by_field_name("name")))
                message = f"expected `{{` before {_quote(_text(begun))}: the body of {name} has not begun"
                yield SyntaxProblem(begun.start_byte, root.end_byte, message)
        if function.has_error:
            return


def _unterminated_comment(root: Node) -> Iterator[SyntaxProblem]:
    """The problem of a comment without an end; such a comment extends to the end of the file."""
    node = root.descendant_for_byte_range(max(root.end_byte - 1, 0), root.end_byte)
    if node is not None and node.type == "unterminated_comment":
        yield SyntaxProblem(node.start_byte, node.start_byte + 2, "the comment that starts here has no `*/`")


def _errors(cursor: TreeCursor) -> Iterator[Node]:
    """Each outermost ERROR node and each MISSING node, in order. Only nodes with errors below them are visited."""
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


def _independent(errors: Iterator[Node]) -> Iterator[Node]:
    """*errors* without those that only follow from another one: what is outside a function that was closed too early,
    what an unknown directive has swallowed, and the rest of a broken statement, which begins like a directive."""
    outside = -1
    for node in errors:
        top, rest = node, node.parent
        before = _previous(rest) if rest is not None and rest.type == "directive" else None
        if before is not None and before.has_error and before.end_point.row == node.start_point.row:
            continue
        while top.parent is not None and top.parent.parent is not None:
            top = top.parent
        if top.type == "function":
            outside = -1
        elif outside not in (-1, top.start_byte):
            continue
        elif top.type in ("ERROR", "directive"):
            outside = top.start_byte
        yield node


def _missing(node: Node) -> SyntaxProblem:
    """The problem of a token that is not there. It is reported at the end of the text before it, not after a comment."""
    parent, before = node.parent, _previous(node)
    if node.type == ";" and before is not None and parent is not None and _is_label(parent, before):
        return _missing_colon(before)
    message = f"expected {DESCRIPTIONS.get(node.type, f'`{node.type}`')}"
    at = node.start_byte if before is None else before.end_byte
    if node.type == ";" and parent is not None and parent.type == "instruction":
        at = next(_ends(parent, node), at)
    if node.type == "]" and parent is not None and b"{" not in (text := _text(parent)):
        # A comma is in an address only before coordinates.
        at = parent.start_byte + len(text.partition(b",")[0].rstrip())
    if parent is not None and parent.start_byte < at:
        message += f" after {_quote(_text(parent)[: at - parent.start_byte])}"
    return SyntaxProblem(at, at, message)


def _previous(node: Node) -> Node | None:
    """The sibling before *node* that is no comment."""
    before = node.prev_sibling
    while before is not None and before.is_extra:
        before = before.prev_sibling
    return before


def _is_label(instruction: Node, opcode: Node) -> bool:
    """Whether *opcode*, the first word of an instruction, looks like a label without its colon: no opcode has ``$``, and
    none begins with ``_`` or a capital letter."""
    first = _text(opcode)[:1]
    plain = instruction.type == "instruction" and opcode.type == "opcode"
    return (
        plain and instruction.start_byte == opcode.start_byte and (first in (b"$", b"_") or first.isupper())
    )


def _unexpected(node: Node) -> SyntaxProblem:
    """The problem of a piece of text that could not be parsed: an unbalanced quote or bracket in it, or else its first
    words."""
    text = _text(node)
    if text.count(b'"') % 2:
        quote = node.start_byte + text.rindex(b'"')
        return SyntaxProblem(quote, quote + 1, "the string that starts here has no end on its line")
    parent = node.parent
    first = None if parent is None else next((child for child in parent.children if not child.is_extra), None)
    if parent is not None and first is not None and _is_label(parent, first):
        return _missing_colon(first)
    specific = _foreign(node, text) or _unended(node) or _unseparated(node, text) or _incomplete(node, text)
    if specific is not None:
        return specific
    openers: list[Node] = []
    for child in node.children:
        word = not openers and child.type in ("dot_word", "identifier")
        if word and _directive(_text(child).decode("latin-1")):
            return _unknown_directive(child)
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
    start = node.start_byte
    if (rest := text.lstrip(b", \t\r\n")) and rest != text and b"\n" in text[: len(text) - len(rest)]:
        start, text = start + len(text) - len(rest), rest  # the comma before it is on another line, and right
    message = f"unexpected {_quote(text)}"
    before = node.prev_named_sibling
    if before is not None and before.type == "function":
        message += " outside a function, which an unbalanced `}` may have closed"
    return SyntaxProblem(start, node.end_byte, message)


def _foreign(node: Node, text: bytes) -> SyntaxProblem | None:
    """The problem of a character outside ASCII, which only comments and strings may have (4.1)."""
    found = re.search(rb"[\x80-\xff]+", text)
    if found is None or b'"' in text:
        return None
    character = found[0].decode("utf-8", "replace")[0]
    start = node.start_byte + found.start()
    message = f"unexpected character {_quote(character.encode())} (U+{ord(character):04X}{_named(character)}), which is not ASCII"
    return SyntaxProblem(start, start + len(character.encode()), message)


def _named(character: str) -> str:
    """The name of a character, after a blank; empty if it has none."""
    import unicodedata

    name = unicodedata.name(character, "")
    return f" {name}" if name else ""


def _unended(node: Node) -> SyntaxProblem | None:
    """The problem of a statement without its semicolon, to which the next line was added: in a token of its own, or in the
    last operand of an instruction, as in ``%rd1 .loc``."""
    parent = node.parent
    if parent is None or parent.type not in ("instruction", "indexed", "variable_declaration", "block"):
        return None
    statement = node if parent.type == "block" else parent
    if (end := next(_ends(statement, node), None)) is None:
        return None
    if parent.type == "indexed" and parent.parent is not None:
        statement = parent.parent
    begun = _quote(_text(statement)[: end - statement.start_byte])
    return SyntaxProblem(end, end, f"expected `;` after {begun}")


def _ends(statement: Node, error: Node) -> Iterator[int]:
    """Where a *statement* probably ends before or in an *error*, because what follows is on the next line."""
    for node in dict.fromkeys((statement, error)):
        shown = [c for c in node.children if c.is_error or not c.is_extra]
        parts = [c for c in shown if c.start_byte <= error.end_byte]
        if _NUMERAL.fullmatch(_text(error)):  # an operand that the next word made unexpected
            parts += [c for c in shown if c.start_byte > error.end_byte][:1]
        for last, following in zip_longest(parts, parts[1:]):
            first, newline, _ = _text(last).partition(b"\n")
            if (
                last.type in ("selection", "opcode") and newline
            ):  # with what begins the next line: `%rd1 .loc`
                yield last.start_byte + len(first.rstrip())
            elif following is not None and _apart(last, following, statement.type):
                yield last.end_byte


def _apart(last: Node, following: Node, statement: str) -> bool:
    """Whether a *statement* of some type probably ends between two of its parts, since they are on two lines."""
    first = _text(following)[:1]
    if last.end_point.row == following.start_point.row or not last.is_named or first in (b",", b";"):
        return False
    operand = last.type == "identifier" or (last.type not in _NO_OPERANDS and statement == "instruction")
    return operand or (last.type == "opcode" and first not in (b"%", b"[", b"{"))


_WORD = re.compile(rb"[\w$%.]+")
_NUMERAL = re.compile(rb"[-+]?\d[\w.+-]*")
_GROUP = re.compile(rb"\[[^\[\]]*\]|\{[^{}]*\}")
"""An address or a vector."""
_NO_OPERANDS = frozenset(("opcode", "guard", "dot_word", "label"))


def _unseparated(node: Node, text: bytes) -> SyntaxProblem | None:
    """The problem of an operand that no comma separates from the one before or after it, or of the rest of a word that
    is no constant, such as ``08``."""
    is_word = _WORD.fullmatch(text) is not None
    if (
        not (is_word or _GROUP.fullmatch(text))
        or node.parent is None
        or node.parent.type not in ("instruction", "vector")
    ):
        return None
    before, after = _previous(node), node.next_sibling
    while after is not None and after.is_extra:
        after = after.next_sibling
    if is_word and after is not None and after.is_named and after.start_byte == node.end_byte:
        word = text + _text(after)
        message = f"{_quote(word)} is neither a name nor a constant"
        return SyntaxProblem(node.start_byte, after.end_byte, message)
    if before is not None and before.is_named and before.type not in _NO_OPERANDS:
        if is_word and before.end_byte == node.start_byte:
            word = _text(before) + text
            reason = ": a constant that begins with 0 is octal" if re.fullmatch(rb"0\d+", word) else ""
            return SyntaxProblem(
                before.start_byte, node.end_byte, f"{_quote(word)} is neither a name nor a constant{reason}"
            )
        end = "}" if node.parent.type == "vector" else ";"
        return SyntaxProblem(
            node.start_byte, node.end_byte,
            f"unexpected {_quote(text)}: expected `,` or `{end}` after {_quote(_text(before))}",
        )  # fmt: skip
    if before is not None and before.type == "opcode" and after is not None and after.is_named:
        start = node.parent.start_byte
        between = _text(node.parent)[node.end_byte - start : after.start_byte - start]
        if b"\n" in between:
            statement = _quote(_text(node.parent)[: node.end_byte - start])
            return SyntaxProblem(node.end_byte, node.end_byte, f"expected `;` after {statement}")
        return SyntaxProblem(node.start_byte, node.end_byte, f"expected `,` after {_quote(text)}")
    return None


def _missing_colon(word: Node) -> SyntaxProblem:
    message = f"expected `:` after label {_quote(_text(word))}, or `;` after an instruction"
    return SyntaxProblem(word.start_byte, word.end_byte, message)


def _incomplete(node: Node, text: bytes) -> SyntaxProblem | None:
    """The problem of a declaration without a type or a count, or of an unknown directive."""
    space = re.match(rb"[\s,]*(\.\w+)(?=\s*$|\s+[\w$%])", text)
    if space is not None and space[1].decode("latin-1") in _SPACES:
        start, end = (node.start_byte + offset for offset in space.span(1))
        return SyntaxProblem(start, end, f"expected a type after {_quote(space[1])}")
    if text in (b",", b";") and node.parent is not None and node.parent.type in ("instruction", "vector"):
        before, after = _previous(node), node.next_sibling
        if text == b";" and before is not None and before.type == ",":
            return SyntaxProblem(before.start_byte, before.end_byte, "expected an operand after `,`")
        if text == b",":
            where = "before" if after is None or after.is_named or after.type == "," else "after"
            return SyntaxProblem(node.start_byte, node.end_byte, f"expected an operand {where} `,`")
    if (
        node.parent is not None
        and node.parent.type == "directive"
        and (word := node.parent.child(0)) is not None
    ):
        return _unknown_directive(word)
    if (
        node.parent is not None
        and node.parent.type == "parameter_list"
        and node.children
        and node.children[0].type == "parameter"
    ):
        return SyntaxProblem(node.end_byte, node.end_byte, f"expected `,` after {_quote(text)}")
    if re.fullmatch(rb"<\s*>", text):
        return SyntaxProblem(node.start_byte, node.end_byte, "expected a number between `<` and `>`")
    return None


def unknown_directive(word: str) -> str:
    """The message about a *word* that is no directive, with the one that was probably meant if one is close."""
    near = _directive(word)
    return f"unknown directive {_quote(word.encode('latin-1'))}" + (
        f"; did you mean `{near}`?" if near else ""
    )


def _unknown_directive(word: Node) -> SyntaxProblem:
    return SyntaxProblem(word.start_byte, word.end_byte, unknown_directive(_text(word).decode("latin-1")))


def _directive(word: str) -> str:
    """The directive that was probably meant by *word*, which may lack its period; empty if none is close."""
    from difflib import get_close_matches

    if not word.startswith("."):
        return f".{word}" if f".{word}" in _DIRECTIVES else ""
    return next(iter(get_close_matches(word, sorted(_DIRECTIVES), n=1, cutoff=0.75)), "")


_DIRECTIVES = frozenset(
    kind
    for number in range(LANGUAGE.node_kind_count)
    if (kind := LANGUAGE.node_kind_for_id(number) or "").startswith(".")
)
"""The directives that the grammar knows."""
_SPACES = _DIRECTIVES & frozenset(
    (".reg", ".sreg", ".shared", ".global", ".local", ".const", ".param", ".tex")
)


def _cut(node: Node, openers: Sequence[Node]) -> SyntaxProblem | None:
    """The problem of a function that the end of the text cuts off in the middle of a statement; None if that is not the case.

    All of it is one ERROR node, the last node of the text, except for the head of a `.func`, which looks like a prototype.
    The first unclosed bracket is that of its body or its parameters.
    """
    after = node.next_sibling
    while after is not None and after.is_extra:
        after = after.next_sibling
    words = [child for child in node.children if child.type in (".entry", ".func", "identifier")]
    heads = [i for i, word in enumerate(words) if word.type != "identifier"]
    before = node.prev_named_sibling
    if heads:
        head = words[heads[-1]]
        name = next(iter(words[heads[-1] + 1 :]), None)
    elif before is not None and before.type == "function" and _last(before).type not in ("block", ";"):
        head, name = before, before.child_by_field_name("name")
    else:
        return None
    opener = next((o for o in openers if o.start_byte > head.start_byte), None)
    if name is None or opener is None or after is not None:
        return None
    part = "body" if opener.type == "{" else "head"
    message = f"unbalanced `{opener.type}` in {_quote(_text(name))}: its {part} is not closed before the end of the file"
    return SyntaxProblem(opener.start_byte, opener.end_byte, message, head.start_byte)


def _last(node: Node) -> Node:
    return node.child(node.child_count - 1) or node


def _text(node: Node | None) -> bytes:
    """The text of a node; empty if the tree was edited since it was parsed."""
    return (node.text or b"") if node is not None else b""


def _quote(text: bytes) -> str:
    """The text on one line in backticks, truncated, with unprintable characters escaped."""
    words = " ".join(text[: 4 * MAX_QUOTED].decode("utf-8", "backslashreplace").split())
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
    return f"`{shown}`" if len(shown) <= MAX_QUOTED else f"`{shown[:MAX_QUOTED]}…`"
