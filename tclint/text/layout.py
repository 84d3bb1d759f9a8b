"""The formatter: where lines begin, and what is between two tokens of a line.

The layout is that of NVIDIA's compilers: one statement on a line, indented by a tab, labels at the margin, a blank and a tab
after an opcode. A scope in braces is indented by one more tab. Nothing but white space changes, which :func:`formatted`
verifies with a second parse, and a formatted text stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tclint._named_tuple import NamedTuple
from tclint._pattern import pattern
from tclint.syntax import Node, Tree, parse, problems
from tclint.syntax.source import SourceError
from tclint.text.names import LABELS

__all__ = ["checked", "formatted", "tokens"]

_BLANK = b" \t\n\f\r\x1a"
"""Blanks as the grammar has them."""
_BLANKS = pattern(rb"[ \t\n\f\r\x1a]+")
_COMMA = pattern(rb"[ \t\n\f\r\x1a]*,[ \t\f\r\x1a]*(\n?)[ \t\n\f\r\x1a]*")
_LINE_END = pattern(rb"\r+\n")
_VERBATIM = frozenset({"string", "source_section_directive"})
_EXTRAS = frozenset({"comment", "preprocessor"})
"""What may be between any two tokens."""
_OPERATORS = frozenset("+ - * / << >> < > <= >= == != & ^ | && || ? : %".split())
_CLOSE = frozenset({"+", "-", "|", "*"})
"""The operators without blanks around them, outside of parentheses: ``[%rd1+8]``, ``%r1|%p1``."""


class _Place(NamedTuple):
    """A node on the path to a token."""

    kind: str
    depth: int
    """The indentation of the statement."""
    inner: int
    """The indentation of lines in it: its statements, or the rest of itself."""
    listed: bool = False
    """Whether each of its parameters begins a line."""


class _Leaf(NamedTuple):
    """A token of a text."""

    text: bytes
    """Without the white space that may be in it."""
    kind: str
    """The type of its node."""
    place: _Place
    """The node around it."""
    start: int
    end: int
    begins: int
    """The indentation of the line that begins with it; -1 if none does."""
    statement: bool = False
    """Whether it begins a statement, or is a comment between statements, so that a blank line may precede it."""

    @property
    def to_the_end(self) -> bool:
        """Whether the token extends to the end of its line."""
        return self.kind == "preprocessor" or self.text.startswith((b"//", b"@@"))


def formatted(data: bytes, blank_lines: bool = True) -> bytes:
    """The text of a module in the layout of this module; equal to *data* if it is laid out so.

    Of several blank lines one is kept; without *blank_lines*, none except after a function. Raises SourceError, naming the
    line, if *data* has a syntax error.
    """
    leaves = list(_leaves(checked(data), data))
    text = _written(leaves, data, blank_lines)
    if text == data:
        return text
    after = parse(text)
    same = _BLANKS.sub(b"", data) == _BLANKS.sub(b"", text) and _texts(leaves) == _texts(_leaves(after, text))
    if problems(after) or not same:
        raise AssertionError("the formatted text has other tokens")
    return text


def checked(data: bytes) -> Tree:
    """The syntax tree of *data*. Raises SourceError, naming the line, if it has a syntax error."""
    tree = parse(data)
    if found := problems(tree):
        raise SourceError(f"syntax error: {found[0].message}", data.count(b"\n", 0, found[0].start_byte) + 1)
    return tree


def tokens(data: bytes) -> list[bytes]:
    """The tokens of a text, comments included, without the white space between and in them."""
    return _texts(_leaves(parse(data), data))


def _texts(leaves: Iterable[_Leaf]) -> list[bytes]:
    """The tokens without white space. A ``.loc`` is one, which the tree has as one or several."""
    texts: list[bytes] = []
    located = False
    for leaf in leaves:
        text = leaf.text if leaf.kind in _VERBATIM else _BLANKS.sub(b"", leaf.text)
        within = leaf.place.kind == "loc_directive" and leaf.kind not in _EXTRAS
        if within and located:
            texts[-1] += text
        else:
            texts.append(text)
        located = within
    return texts


# ---------------------------------------------------------------- tokens


def _leaves(tree: Tree, data: bytes) -> Iterator[_Leaf]:
    """The tokens in order. A token that the tree hides, the position in a ``.loc`` with a comment, is one as well."""
    cursor = tree.walk()
    path: list[_Place] = []
    line, at = -1, 0  # the indentation of the next token if a line begins with it; the end of the last one
    statement = False
    while True:
        node = cursor.node
        assert node is not None
        kind = node.type
        extra = kind in _EXTRAS
        begins = -1 if extra or not path else _begins(kind, path[-1])
        if begins >= 0:
            line, statement = begins, path[-1].kind in ("module", "block") and kind != "}"
        if node.child_count and not extra:
            path.append(_place(node, path[-1] if path else None, begins, cursor.field_name))
            cursor.goto_first_child()
            continue
        start, end = node.start_byte, node.end_byte
        if path and end > start:
            place = path[-1]
            if hidden := data[at:start].strip(_BLANK):
                first = data.index(hidden, at)
                text = _text("loc_directive", hidden, place)
                yield _Leaf(text, "hidden", place, first, first + len(hidden), line, statement)
                line, statement = -1, False
            raw = data[start:end].lstrip(_BLANK)  # some tokens begin with blanks
            text = _text(kind, raw, place)
            if extra:
                between = place.kind in ("module", "block")
                yield _Leaf(text, kind, place, end - len(raw), end, -1, between)
            else:
                yield _Leaf(text, kind, place, end - len(raw), end, line, statement)
                line, statement = -1, False
            at = end
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            if path:
                path.pop()


def _begins(kind: str, place: _Place) -> int:
    """The indentation of the line that begins with a node in *place*; -1 if none does."""
    if place.kind == "module":
        return 0
    if place.kind == "block":
        return -1 if kind == "{" else place.depth if kind == "}" else 0 if kind in LABELS else place.inner
    if place.kind == "function":
        return place.depth if kind in ("block", "performance_directive", "pragma_directive") else -1
    if place.listed:
        return place.inner if kind == "parameter" else place.depth if kind == ")" else -1
    return -1


def _place(node: Node, around: _Place | None, begins: int, field: str | None) -> _Place:
    """What is known of a node with children; *field* is its role in the node *around* it."""
    kind = node.type
    if around is None:
        return _Place(kind, 0, 0)
    depth = begins if begins >= 0 else around.depth
    if kind == "initializer":
        return _Place(kind, depth, (around.inner if around.kind == kind else depth) + 1)
    listed = around.kind == "function" and field == "parameters" and node.named_child_count > 0
    return _Place(kind, depth, depth + (kind != "function"), listed)


def _text(kind: str, raw: bytes, place: _Place) -> bytes:
    """A token in its layout, with line feeds for line ends."""
    if kind in _VERBATIM:
        return raw
    if kind == "comment":
        return raw.rstrip(b" \t\f\r\x1a") if raw.startswith(b"//") else _LINE_END.sub(b"\n", raw)
    if kind == "section_directive":
        return _LINE_END.sub(b"\n", raw)
    if kind in ("opcode", "selector", "cast"):
        return _BLANKS.sub(b"", raw)
    if kind in ("loc_directive", "loc_intermediate_directive"):
        return _COMMA.sub(b", ", _BLANKS.sub(b" ", raw)).replace(b" ", b"\t", 1)
    if kind == "data":
        following = b",\n" + b"\t" * place.inner
        return _COMMA.sub(lambda found: following if found[1] else b", ", raw)
    return raw.strip(_BLANK)


# ---------------------------------------------------------------- lines


def _written(leaves: list[_Leaf], data: bytes, blank_lines: bool) -> bytes:
    """The tokens with the white space between them."""
    crlf = _crlf(leaves, data)
    lines = _Lines(blank_lines)
    parts: list[bytes] = []
    for leaf in leaves:
        for text, verbatim in ((lines.lead(leaf, data), False), (leaf.text, leaf.kind in _VERBATIM)):
            parts.append(text.replace(b"\n", b"\r\n") if crlf and not verbatim else text)
    if parts:
        parts.append(b"\r\n" if crlf else b"\n")
    return b"".join(parts)


def _crlf(leaves: list[_Leaf], data: bytes) -> bool:
    """Whether the first line that ends between two tokens ends with a carriage return."""
    at = 0
    for end, following in ((leaf.start, leaf.end) for leaf in leaves):
        if (newline := data.find(b"\n", at, end)) >= 0:
            return data[max(newline - 1, 0) : newline] == b"\r"
        at = following
    newline = data.find(b"\n", at)
    return newline > 0 and data[newline - 1 : newline] == b"\r"


class _Lines:
    """What precedes each token in the formatted text; asked for one token after the other."""

    def __init__(self, blank_lines: bool) -> None:
        self.blank_lines = blank_lines
        self.last: _Leaf | None = None
        self.head = b""  # the first token of the statement
        self.commented = False  # whether the line has only comments so far
        self.opened = False  # whether it has the brace that opens a scope
        self.ended = False  # whether it has the brace that ends a function

    def lead(self, leaf: _Leaf, data: bytes) -> bytes:
        """The white space before *leaf* in the text *data*."""
        last, self.last = self.last, leaf
        newlines = data.count(b"\n", last.end if last else 0, leaf.start)
        if leaf.begins >= 0:
            self.head = leaf.text
        depth = self._line(last, leaf, newlines)
        if depth < 0:
            self.commented &= leaf.kind in _EXTRAS
            self._note(leaf)
            return self._within(last, leaf)
        kept = self.blank_lines and newlines > 1 and leaf.statement and not self.opened
        blank = self.ended or kept
        self.opened = self.ended = False
        self.commented = leaf.kind in _EXTRAS
        self._note(leaf)
        return (b"\n\n" if blank else b"\n") * (last is not None) + b"\t" * depth

    def _note(self, leaf: _Leaf) -> None:
        self.opened |= leaf.kind == "{" and leaf.place.kind == "block"
        self.ended |= leaf.kind == "}" and leaf.place.kind == "block" and leaf.begins == 0

    def _line(self, last: _Leaf | None, leaf: _Leaf, newlines: int) -> int:
        """The indentation of the line that begins with *leaf*; -1 if none does."""
        place = leaf.place
        brace = leaf.text in (b"{", b"}") and place.kind == "initializer"
        if leaf.kind == "preprocessor":
            return 0
        if leaf.kind in _EXTRAS:
            return place.inner if last is None or newlines or last.to_the_end else -1
        if leaf.begins >= 0:
            commented = last is not None and self.commented and not last.to_the_end
            return -1 if commented and not newlines else leaf.begins
        if last is None or last.to_the_end:
            return place.inner - brace
        element = last.place.kind == "initializer" and last.text in (b"{", b",")
        closes = brace and leaf.text == b"}"
        return place.inner - brace if newlines and (element or closes) else -1

    def _within(self, last: _Leaf | None, leaf: _Leaf) -> bytes:
        if last is None or leaf.kind in _EXTRAS or last.kind in _EXTRAS:
            return b" "
        if self.head == b".file" and last.text == self.head:
            return b"\t"
        declares = leaf.kind == "identifier" and leaf.place.kind == "variable_declaration"
        if self.head == b".reg" and declares and last.text != b",":
            return b" \t"
        return _between(last, leaf)


def _between(last: _Leaf, leaf: _Leaf) -> bytes:
    """The white space between two tokens of a line."""
    before, after = last.text, leaf.text
    if after in (b",", b";", b")", b"]", b"}") or leaf.kind == "selector":
        return b""
    if before in (b"(", b"[", b"{", b"@") or "range" in (leaf.place.kind, last.place.kind):
        return b""
    if after == b":" and leaf.place.kind in LABELS:
        return b""
    if last.kind in ("!", "~", "+", "-", "cast") and last.place.kind in ("unary", "guard"):
        return b" " if last.kind == "-" and leaf.kind in ("integer", "float") else b""  # `- 1` is not `-1`
    if last.kind == "opcode":
        return b" \t"
    for operator in (last, leaf):
        if operator.kind in _OPERATORS and operator.place.kind not in ("unary", *LABELS):
            doubled = operator is last and after[:1] == before
            return b"" if operator.kind in _CLOSE and operator.place.kind != "group" and not doubled else b" "
    if after == b"[" and (leaf.place.kind == "dimension" or last.place.kind == "indexed"):
        return b""
    if after == b"(" and _adheres(last, leaf):
        return b""
    return b" "


def _adheres(last: _Leaf, leaf: _Leaf) -> bool:
    """Whether a parenthesis follows a name without a blank: the parameters of a function, a call in an initialiser."""
    named = last.kind == "identifier" and last.place.kind == "function"
    return named or last.place.kind in ("indexed", "attribute") or leaf.place.kind == "attribute"
