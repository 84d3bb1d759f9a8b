"""What each name in a module refers to: the declaration in the innermost scope around it (PTX ISA 5.4.1, 6.4.4)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.findings.spans import Span
from tclint.ir.operands import integer
from tclint.ir.scopes import containing, split_name
from tclint.syntax import Node, Tree

__all__ = ["LABELS", "Declaration", "Use", "nodes", "resolved", "span_of"]

LABELS = frozenset({"label", "branch_targets", "call_targets", "call_prototype"})
"""The statements that begin with a label."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """A name that a module declares, or a range of registers (``%r<8>``)."""

    name: str
    kind: str
    """``register``, ``argument`` (a parameter that is a register), ``label``, ``variable``, ``parameter`` or ``function``."""
    start: int
    end: int
    """The span of its name."""
    statement: int
    """The start of the statement or parameter that declares it."""
    function: int
    """The start of the function around it; -1 at the level of the module."""
    type: bytes = b""
    """What a register declaration has between ``.reg`` and the first name: ``.b32``."""


class Use(NamedTuple):
    """A name where it is used, and what it refers to."""

    start: int
    end: int
    declaration: Declaration
    element: int | None
    """The register of a range; None for any other name."""


class _Scope:
    def __init__(self, parent: _Scope | None, function: int) -> None:
        self.parent = parent
        self.function = function
        self.names: dict[str, Declaration] = {}
        self.ranges: dict[str, tuple[int, str]] = {}
        self.known: dict[str, tuple[Declaration, int | None] | None] = {}

    def find(self, name: str) -> tuple[Declaration, int | None] | None:
        """The declaration of *name*, and the number of a register in its range."""
        if name not in self.known:
            self.known[name] = self._here(name) or (self.parent.find(name) if self.parent else None)
        return self.known[name]

    def _here(self, name: str) -> tuple[Declaration, int | None] | None:
        if name in self.names and name not in self.ranges:
            return self.names[name], None
        prefix = name.rstrip("0123456789")
        found = containing(self.ranges, prefix, name[len(prefix) :]) or split_name(
            self.ranges, name, len(prefix)
        )
        return None if found is None else (self.names[found[1]], int(name[len(found[1]) :]))


def nodes(root: Node, kinds: Collection[str]) -> Iterator[Node]:
    """The outermost nodes of some *kinds* in *root*, in the order of the text."""
    cursor = root.walk()
    depth = 0
    while True:
        node = cursor.node
        assert node is not None
        if node.type in kinds:
            yield node
        elif cursor.goto_first_child():
            depth += 1
            continue
        while not cursor.goto_next_sibling():
            if not depth:
                return
            cursor.goto_parent()
            depth -= 1


def span_of(node: Node) -> Span:
    """The bytes of a node."""
    return Span(node.start_byte, node.end_byte)


def resolved(tree: Tree, data: bytes) -> tuple[list[Declaration], list[Use], set[str]]:
    """The declarations and the uses of names in order, and the names that refer to nothing in the module."""
    declarations: list[Declaration] = []
    names: list[tuple[int, int, _Scope]] = []
    for node, kind, scope in _identifiers(tree):
        if kind == "use":
            names.append((node.start_byte, node.end_byte, scope))
            continue
        text = data[node.start_byte : node.end_byte].decode()
        parent = node.parent
        assert parent is not None
        type = _type(parent, data) if kind == "register" else b""
        span = (node.start_byte, node.end_byte)
        found = Declaration(text, kind, *span, parent.start_byte, scope.function, type)
        declarations.append(found)
        scope.names[text] = found
        if (count := _count(node)) is not None:
            scope.ranges[text] = (count, text)
    uses: list[Use] = []
    unknown: set[str] = set()
    for start, end, scope in names:
        name = data[start:end].decode()
        if (referred := scope.find(name)) is not None:
            uses.append(Use(start, end, *referred))
        else:
            unknown.add(name)
    return declarations, uses, unknown


def _identifiers(tree: Tree) -> Iterator[tuple[Node, str, _Scope]]:
    """Each identifier with the kind of what it declares, or ``use``, and the scope in which it does."""
    cursor = tree.walk()
    scopes = [_Scope(None, -1)]
    path: list[Node] = []
    while True:
        node = cursor.node
        assert node is not None
        if node.type == "identifier" and path:
            kind = _declared(path[-1], cursor.field_name)
            scope = scopes[-2] if kind == "function" else scopes[-1]
            if kind != "prototype":
                yield node, kind, scope
        if node.child_count:
            if node.type in ("function", "block"):
                function = node.start_byte if len(scopes) == 1 else scopes[-1].function
                scopes.append(_Scope(scopes[-1], function))
            path.append(node)
            cursor.goto_first_child()
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            if path.pop().type in ("function", "block"):
                scopes.pop()


def _declared(parent: Node, field: str | None) -> str:
    """What an identifier in *parent*, with the role *field*, declares."""
    kind = parent.type
    if field == "name":
        if kind == "function":
            return "function"
        if kind == "label":
            return "label"
        if kind == "variable_declaration":
            first = parent.child(0)
            return "register" if first is not None and first.type == ".reg" else "variable"
        if kind == "parameter":
            around = parent.parent and parent.parent.parent
            if around is not None and around.type == "call_prototype":
                return "prototype"
            first = parent.child(0)
            return "argument" if first is not None and first.type == ".reg" else "parameter"
    return "label" if field == "label" and kind in LABELS else "use"


def _type(statement: Node, data: bytes) -> bytes:
    first = statement.child_by_field_name("name")
    assert first is not None
    words = data[statement.start_byte : first.start_byte].replace(b"\x1a", b" ").split()
    return b" ".join(words).removeprefix(b".reg").strip()


def _count(node: Node) -> int | None:
    """The number of registers in a range whose name is *node*; None if it is the name of one thing."""
    after = node.next_sibling
    number = after.named_child(0) if after is not None and after.type == "range" else None
    if number is None or number.text is None:
        return None
    return integer(number.text.decode())
