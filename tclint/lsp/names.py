"""Name resolution at a position: the meaning, definitions and uses of a name.

Registers and instructions are those of the IR. Everything else (labels, functions, variables, declarations) is looked
up in the syntax tree: a name refers to the declaration in the innermost enclosing block (PTX ISA 5.4.1, 6.4.4).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property

from tclint._dataclass import dataclass
from tclint.analyses.mbarriers import MbarrierObject, Mbarriers
from tclint.analyses.model import KernelModel
from tclint.findings.finding import FileReport
from tclint.findings.spans import Span, span
from tclint.ir.nodes import Function, Memory, Module, registers
from tclint.syntax import Node, Tree
from tclint.text.names import span_of

__all__ = ["Cursor"]

_DEFINERS = ("label", "branch_targets", "call_targets", "call_prototype")
_SCOPES = ("block", "function", "module")


@dataclass(frozen=True)
class Cursor:
    """A position in a module, with the name, instruction and function there."""

    tree: Tree
    module: Module
    data: bytes
    offset: int
    model: Callable[[Function], KernelModel]
    report: FileReport | None = None
    """That of this state of the text; None if that has not been linted, or not all of it."""

    # ---------------------------------------------------------------- what is there

    @cached_property
    def node(self) -> Node | None:
        """The node of the name at the position or just before it; None if there is none."""
        for offset in (self.offset, self.offset - 1):
            if 0 <= offset < len(self.data):
                node = self.tree.root_node.descendant_for_byte_range(offset, offset + 1)
                if node is not None and node.type in ("identifier", "opcode", "comment"):
                    return node
        return None

    @cached_property
    def function(self) -> Function | None:
        """The enclosing function, if it has a body."""
        enclosing = (
            f for f in self.module.functions if f.start <= self.offset < f.end and not f.declared_only
        )
        return next(enclosing, None)

    @cached_property
    def site(self) -> int | None:
        """The enclosing instruction, by its number in the function."""
        if self.function is None:
            return None
        inside = self.offset - self.function.start
        at = bisect_right(self.function.instructions, inside, key=lambda i: i.start) - 1
        return at if at >= 0 and inside <= self.function.instructions[at].end else None

    @property
    def name(self) -> str:
        return _text(self.data, self.node) if self.node is not None else ""

    @cached_property
    def register(self) -> int | None:
        """The register that the name denotes, by its number in the function."""
        if self.function is None or self.site is None or self.node is None or self.node.type != "identifier":
            return None
        instruction = self.function.instructions[self.site]
        named = {r for operand in instruction.operands for r in registers(operand)} | {instruction.guard}
        return next((r for r in named if r >= 0 and self.function.registers[r].name == self.name), None)

    @cached_property
    def mbarriers(self) -> tuple[MbarrierObject, ...]:
        """The mbarriers to which the enclosing address operand may refer."""
        if self.function is None or self.site is None or self.node is None:
            return ()
        operand = self.function.instructions[self.site].mbarrier
        parent = self.node.parent
        if not isinstance(operand, Memory) or parent is None or parent.type != "address":
            return ()
        base = operand.base
        known = self.function.registers[base].name if isinstance(base, int) else getattr(base, "name", "")
        if known != self.name:
            return ()
        model = self.model(self.function)
        if model.function is not self.function:  # calls are inlined, so sites differ
            return ()
        return tuple(model.fact(Mbarriers).named(self.site))

    # ---------------------------------------------------------------- definitions and uses

    def declarations(self) -> list[Span]:
        """The declarations of the name: the ``.reg`` of a register; the label, function or variable itself."""
        return [span_of(node) for node in self._definitions[1]]

    def definitions(self) -> list[Span]:
        """The definitions: the writes of a register, the inits of an mbarrier, else the declarations."""
        found = [self._instruction(i) for m in self.mbarriers for i in m.inits]
        if self.register is not None:
            found += self._mentions(lambda i: self.register in self._instructions[i].writes)
        return _in_order(found) or self.declarations()

    def references(self, declaration: bool) -> list[Span]:
        """The uses of the name, or of the mbarrier to which it refers; with *declaration*, its declarations too."""
        own = self.declarations() if declaration else []
        if self.mbarriers and self.function is not None:
            barriers = self.model(self.function).fact(Mbarriers)
            mine = set(self.mbarriers)
            sites = (i for i in barriers.sites if mine & barriers.named(i).keys())
            return _in_order([*own, *map(self._instruction, sites)])
        if self.register is not None:
            return _in_order([*own, *self._mentions(lambda i: True)])
        scope, declared = self._definitions
        if scope is None:
            return []
        defining = {node.id for node in declared}
        uses = (
            node
            for node in self._named(self.name, scope)
            if node.id not in defining and self._scope_of(node) == scope.id
        )
        return _in_order([*own, *map(span_of, uses)])

    @property
    def _instructions(self) -> list:  # type: ignore[type-arg]
        return self.function.instructions if self.function is not None else []

    def _instruction(self, site: int) -> Span:
        assert self.function is not None
        return span(self.function, site)

    def _mentions(self, wanted: Callable[[int], bool]) -> list[Span]:
        """The first occurrence of the register in each of the *wanted* instructions."""
        register, found = self.register, []
        spelled = re.compile(rb"(?<![\w$%])" + re.escape(self.name.encode()) + rb"(?![\w$])")
        for i, instruction in enumerate(self._instructions):
            if (
                register in instruction.reads
                or register in instruction.writes
                or register == instruction.guard
            ) and wanted(i):
                span = self._instruction(i)
                if match := spelled.search(self.data, span.start, span.end):
                    found.append(Span(*match.span()))
        return found

    # ---------------------------------------------------------------- scopes

    @cached_property
    def _definitions(self) -> tuple[Node | None, list[Node]]:
        """The innermost enclosing scope that declares the name, and its declarations there; (None, []) if none does."""
        if self.node is None or self.node.type != "identifier":
            return None, []
        by_scope: dict[int, tuple[Node, list[Node]]] = {}
        for scope, node in self._declaring:
            by_scope.setdefault(scope.id, (scope, []))[1].append(node)
        enclosing: Node | None = self.node
        while enclosing is not None:
            if enclosing.id in by_scope:
                return by_scope[enclosing.id]
            enclosing = enclosing.parent
        return None, []

    def _scope_of(self, node: Node | None) -> int | None:
        """The innermost scope around *node* that declares the name."""
        scopes = {scope.id for scope, _ in self._declaring}
        while node is not None and node.id not in scopes:
            node = node.parent
        return node.id if node is not None else None

    @cached_property
    def _declaring(self) -> list[tuple[Node, Node]]:
        """(scope, node) of every declaration of the name, including ranges such as ``%r<8>``."""
        root, name, found = self.tree.root_node, self.name, []
        for node in self._named(name, root):
            parent = node.parent
            if parent is None or (
                parent.child_by_field_name("name") is None and parent.type not in _DEFINERS
            ):
                continue
            field = (
                "name"
                if parent.type in ("function", "parameter", "variable_declaration", "label")
                else "label"
            )
            fields = parent.children_by_field_name(field)
            follows = node.next_sibling
            ranged = follows is not None and follows.type == "range"
            if not ranged and any(other.id == node.id for other in fields):
                found += [(scope, node) for scope in _scope(node)]
        digits = len(name) - len(name.rstrip("0123456789"))
        for at in range(len(name) - digits, len(name)):
            number = name[at:]
            if number != "0" and number[0] == "0":
                continue
            for node in self._named(name[:at], root):
                follows = node.next_sibling
                count = follows.named_child(0) if follows is not None and follows.type == "range" else None
                if count is not None and int(number) < int(_text(self.data, count).rstrip("U"), 0):
                    found += [(scope, node) for scope in _scope(node)]
        return found

    def _named(self, name: str, scope: Node) -> Iterator[Node]:
        """The identifiers spelled *name* in a scope."""
        spelled = re.compile(rb"(?<![\w$%])" + re.escape(name.encode()) + rb"(?![\w$])")
        for match in spelled.finditer(self.data, scope.start_byte, scope.end_byte):
            node = self.tree.root_node.descendant_for_byte_range(*match.span())
            if node is not None and node.type == "identifier" and span_of(node) == Span(*match.span()):
                yield node


def _scope(node: Node) -> Iterator[Node]:
    """The scope of a declaration. A function's name belongs to the scope around it, its parameters to the function."""
    above = node.parent
    if above is not None and above.type == "function":
        above = above.parent
    while above is not None and above.type not in _SCOPES:
        above = above.parent
    if above is not None:
        yield above


def _text(data: bytes, node: Node) -> str:
    return data[node.start_byte : node.end_byte].decode()


def _in_order(spans: list[Span]) -> list[Span]:
    return sorted(set(spans), key=lambda span: (span.start, span.end))
