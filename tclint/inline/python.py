"""Finds PTX in Python: string arguments of the calls in ``CALLS``, and strings marked by a comment ``# tclint:
ptx``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from tree_sitter import Language, Node, Parser, Query, QueryCursor

from tclint._dataclass import dataclass
from tclint.findings.finding import Edit
from tclint.findings.spans import Span
from tclint.inline.asm import Asm, AsmOperand, Dialect, operands_of
from tclint.inline.text import UNKNOWN, MappedText

__all__ = ["CALLS", "MARKER", "SOURCES", "Call", "find"]


@dataclass(frozen=True, slots=True)
class SideEffects:
    """An argument that states whether assembly has side effects, so that each execution of it counts."""

    where: tuple[int, str]
    """Position and keyword."""
    volatile: str
    """Its value if there are side effects: ``True``, or ``False`` for an argument such as ``is_pure``."""
    default: bool | None = None
    """Whether there are if the argument is absent; None if it cannot be."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function that takes PTX: the positions of the text and of the constraints among its arguments."""

    library: str
    text: tuple[int, str]
    """Position and keyword."""
    constraints: tuple[int, str] | None = None
    """Position and keyword; None if the text is a module and not inline assembly."""
    beside: str = ""
    """A string that must be another argument of the call."""
    effects: SideEffects | None = None
    """The argument that states whether the assembly has side effects."""


CALLS = {
    "inline_asm_elementwise": Call(
        "Triton, Gluon", (0, "asm"), (1, "constraints"), effects=SideEffects((4, "is_pure"), "False")
    ),
    "inline_asm": Call(
        "CuTe DSL and other users of MLIR's llvm dialect",
        (2, "asm_string"),
        (3, "constraints"),
        effects=SideEffects((4, "has_side_effects"), "True", default=False),
    ),
    "InlineAsm": Call(
        "numba-cuda, llvmlite",
        (1, "asm"),
        (2, "constraint"),
        effects=SideEffects((3, "side_effect"), "True", default=False),
    ),
    "Program": Call("cuda.core", (0, "code"), beside="ptx"),
    "from_ptx": Call("cuda.core", (0, "module")),
    "add_ptx": Call("numba-cuda", (0, "ptx")),
    "module_from_buffer": Call("PyCUDA", (0, "buffer")),
}
"""Name of the called function or method -> description."""

SOURCES = {
    "RawKernel": Call("CuPy", (0, "code")),
    "RawModule": Call("CuPy", (0, "code")),
    "SourceModule": Call("PyCUDA", (0, "source")),
    "load_inline": Call("PyTorch", (2, "cuda_sources")),
    "Program": Call("cuda.core", (0, "code"), beside="c++"),
}
"""The functions that take CUDA C++, one string or a list, which may contain asm statements."""

MARKER = re.compile(rb"#\s*tclint:\s*ptx\b")
"""Marks the string on this line, or on the next one, as PTX."""

_CALL = (
    "(call function: [(identifier) @name (attribute attribute: (identifier) @name)]) @call "
    "(comment) @comment "
    "(assignment left: (identifier) @target right: (_) @value) "
    "(augmented_assignment left: (identifier) @target right: (_) @value)"
)
_Assigned = dict[tuple[int, bytes], list[Node]]
"""``(scope, name)`` -> the values assigned to the name."""

_ESCAPES = {
    b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f", b"a": b"\a", b"b": b"\b",
}  # fmt: skip


@cache
def _language() -> Language:
    import tree_sitter_python

    return Language(tree_sitter_python.language())


@cache
def _query() -> Query:
    return Query(_language(), _CALL)


def find(data: bytes) -> tuple[list[Asm], list[Span]]:
    """The PTX strings of a source in the order of the text, and its comments."""
    tree = Parser(_language()).parse(data)
    captures = QueryCursor(_query()).captures(tree.root_node)
    assigned: _Assigned = {}
    for value in captures.get("value", []):
        assignment = value.parent
        target = assignment.child_by_field_name("left") if assignment is not None else None
        if target is not None:
            assigned.setdefault((_scope(value), _text(target, data)), []).append(value)
    found: dict[int, Asm] = {}
    spans: list[Span] = []
    for name in captures.get("name", []):
        called = _text(name, data).decode(errors="replace")
        call, node = CALLS.get(called), _call_of(name)
        if node is not None and called in SOURCES:
            for text in _sources(SOURCES[called], node, data, assigned):
                asms, within = _statements(text, tuple(_conditions(node)))
                found |= {asm.statement.start: asm for asm in asms}
                spans += within
        if call is None or node is None:
            continue
        asm = _asm(call, node, data, assigned)
        if asm is not None:
            found[asm.statement.start] = asm
    comments = sorted(captures.get("comment", []), key=lambda one: one.start_byte)
    for comment in comments:
        if MARKER.match(_text(comment, data)):
            asm = _marked(comment, data)
            if asm is not None:
                found.setdefault(asm.statement.start, asm)
    spans += (Span(node.start_byte, node.end_byte) for node in comments)
    return [found[start] for start in sorted(found)], spans


def _call_of(name: Node) -> Node | None:
    node = name.parent
    if node is not None and node.type == "attribute":
        node = node.parent
    return node if node is not None and node.type == "call" else None


def _sources(call: Call, node: Node, data: bytes, assigned: _Assigned) -> Iterator[MappedText]:
    """The CUDA C++ strings passed to a call, except those with unknown pieces."""
    value = _value(call, node, data)
    if value is None:
        return
    value = _resolved(value, data, assigned)
    for one in value.named_children if value.type in ("list", "tuple") else (value,):
        text = MappedText()
        _literal(_resolved(one, data, assigned), data, text)
        if UNKNOWN not in text.data:
            yield text


def _statements(text: MappedText, conditions: tuple[str, ...]) -> tuple[list[Asm], list[Span]]:
    """The asm statements in a CUDA C++ string, and its comments, with their spans in the Python source."""
    from tclint.inline.cpp import find

    def host(span: Span) -> Span:
        return text.host(span.start, span.end)

    def operand(one: AsmOperand) -> AsmOperand:
        return replace(one, span=text.whole(one.span.start, one.span.end) if one.span is not None else None)

    def edit(one: Edit | None) -> Edit | None:
        # The byte before it must be the same in the Python source, and so need no escape.
        span = text.whole(one.span.start - 1, one.span.end) if one is not None else None
        plain = one is not None and '"' not in one.text
        return replace(one, span=Span(span.start + 1, span.end)) if one and span and plain else None

    asms, comments = find(bytes(text.data))
    found = [
        replace(
            asm,
            statement=host(asm.statement),
            template=asm.template.inside(text),
            scope=host(asm.scope) if asm.scope is not None else None,
            conditions=(*asm.conditions, *conditions),
            operands=tuple(map(operand, asm.operands)) if asm.operands is not None else None,
            qualify=edit(asm.qualify),
            clobber=edit(asm.clobber),
        )
        for asm in asms
    ]
    return found, [host(span) for span in comments]


def _arguments(node: Node) -> list[Node]:
    listed = node.child_by_field_name("arguments")
    if listed is None or listed.type != "argument_list":
        return []
    return [child for child in listed.named_children if child.type != "comment"]


def _value(call: Call, node: Node, data: bytes) -> Node | None:
    """The argument that is the text; None if there is none, or ``beside`` is missing."""
    arguments = _arguments(node)
    if call.beside and not any(_plain(one, data) == call.beside for one in arguments):
        return None
    return _argument(arguments, call.text, data)


def _asm(call: Call, node: Node, data: bytes, assigned: _Assigned) -> Asm | None:
    value = _value(call, node, data)
    if value is None:
        return None
    template = MappedText()
    _literal(_resolved(value, data, assigned), data, template)
    operands = constraints = None
    dialect: Dialect = "module"
    if call.constraints is not None:
        dialect = "llvm"
        listed_constraints = _argument(_arguments(node), call.constraints, data)
        if listed_constraints is not None:
            constraints = _plain(_resolved(listed_constraints, data, assigned), data)
            operands = None if constraints is None else operands_of(constraints)
    elif b".version" not in template.data:
        return None  # the value is unknown, or is not PTX
    asm = Asm(
        Span(node.start_byte, node.end_byte), template, operands, dialect, *_entry(node, data),
        tuple(_conditions(node)),
    )  # fmt: skip
    if call.effects is not None and constraints is not None:
        _qualified(asm, call.effects, _arguments(node), data)
        asm.memory = "~{memory}" in constraints
    return asm


def _qualified(asm: Asm, effects: SideEffects, arguments: list[Node], data: bytes) -> None:
    """Set whether *asm* is volatile, and the edit that makes it so."""
    value = _argument(arguments, effects.where, data)
    asm.qualifier = f"{effects.where[1]}={effects.volatile}"
    if value is None:
        unpacked = any(one.type in ("list_splat", "dictionary_splat") for one in arguments)
        asm.volatile = None if unpacked else effects.default
    elif (text := _text(value, data).decode(errors="replace")) in ("True", "False"):
        asm.volatile = text == effects.volatile
        asm.qualify = Edit(Span(value.start_byte, value.end_byte), effects.volatile)


def _argument(arguments: list[Node], where: tuple[int, str], data: bytes) -> Node | None:
    position, keyword = where
    for argument in arguments:
        if argument.type == "keyword_argument":
            name = argument.child_by_field_name("name")
            if name is not None and _text(name, data).decode(errors="replace") == keyword:
                return argument.child_by_field_name("value")
    positional = [one for one in arguments if one.type != "keyword_argument"]
    before = positional[: position + 1]
    starred = any(one.type in ("list_splat", "dictionary_splat") for one in before)
    return positional[position] if len(positional) > position and not starred else None


def _resolved(node: Node, data: bytes, assigned: _Assigned) -> Node:
    """The value of a name that its function, or else the module, assigns exactly once; *node* itself for anything
    else."""
    if node.type != "identifier":
        return node
    name = _text(node, data)
    values = assigned.get((_scope(node), name)) or assigned.get((0, name), [])
    return values[0] if len(values) == 1 else node


def _scope(node: Node) -> int:
    """The end of the function that contains *node*, which identifies it; 0 for the module."""
    parent = node.parent
    while parent is not None and parent.type not in ("function_definition", "lambda"):
        parent = parent.parent
    return parent.end_byte if parent is not None else 0


def _marked(comment: Node, data: bytes) -> Asm | None:
    """The string marked by *comment*, on the same line or on the next; None if there is none."""
    root: Node = comment
    while (parent := root.parent) is not None:
        root = parent
    first = data.rfind(b"\n", 0, comment.start_byte) + 1
    alone = not data[first : comment.start_byte].strip()
    begin = comment.end_byte if alone else first
    end = comment.start_byte
    if alone:
        match = re.compile(rb"\s*[^\n]*").match(data, comment.end_byte)
        end = match.end() if match else len(data)
    node = next(_strings(root, begin, end), None)
    if node is None:
        return None
    template = MappedText()
    _literal(node, data, template)
    dialect: Dialect = "module" if b".version" in template.data else "llvm"
    return Asm(
        Span(node.start_byte, node.end_byte),
        template,
        None,
        dialect,
        *_entry(node, data),
        tuple(_conditions(node)),
    )


def _strings(node: Node, begin: int, end: int) -> Iterator[Node]:
    """The strings that start between two offsets, the outermost first."""
    if node.end_byte <= begin or node.start_byte >= end:
        return
    if node.type in ("string", "concatenated_string") and begin <= node.start_byte:
        yield node
        return
    for child in node.children:
        yield from _strings(child, begin, end)


def _text(node: Node, data: bytes) -> bytes:
    return data[node.start_byte : node.end_byte]


def _plain(node: Node, data: bytes) -> str | None:
    """The text of a literal; None if a piece of it is unknown."""
    text = MappedText()
    _literal(node, data, text)
    return None if UNKNOWN in text.data else text.data.decode(errors="replace")


def _literal(node: Node, data: bytes, out: MappedText) -> None:
    """Append the text of a literal: adjacent strings, sums of strings, parentheses; interpolations are unknown."""
    kind = node.type
    if kind in ("concatenated_string", "parenthesized_expression"):
        for child in node.named_children:
            if child.type != "comment":
                _literal(child, data, out)
    elif kind == "binary_operator" and node.children[1].type == "+":
        _literal(node.children[0], data, out)
        _literal(node.children[2], data, out)
    elif kind == "string":
        _string(node, data, out)
    else:
        out.add_unknown(Span(node.start_byte, node.end_byte))


def _string(node: Node, data: bytes, out: MappedText) -> None:
    start = node.children[0]
    prefix = _text(start, data).rstrip(b"\"'").lower()
    at = start.end_byte
    parts: list[tuple[int, int, bytes | None]] = []  # None: unknown
    for child in node.children[1:-1]:
        if child.type == "interpolation":
            parts.append((child.start_byte, child.end_byte, None))
        elif child.type == "string_content":
            for part in child.children:
                if part.type == "escape_sequence" and b"r" not in prefix:
                    parts.append((part.start_byte, part.end_byte, _escaped(_text(part, data)[1:])))
                elif part.type == "escape_interpolation":
                    parts.append((part.start_byte, part.end_byte, _text(part, data)[:1]))
    for begin, end, made in parts:
        out.add(data[at:begin], Span(at, begin))
        if made is None:
            out.add_unknown(Span(begin, end))
        else:
            out.add(made, Span(begin, end))
        at = end
    out.add(data[at : node.children[-1].start_byte], Span(at, node.children[-1].start_byte))


def _escaped(code: bytes) -> bytes:
    if code[-1:] == b"\n":
        return b""
    if code[:1] == b"x":
        return bytes((int(code[1:], 16),))
    if code.isdigit():
        return bytes((int(code, 8) & 0xFF,))
    if code[:1] in (b"u", b"U", b"N"):
        return b"?"
    return _ESCAPES.get(code, code if code in (b"\\", b"'", b'"') else b"\\" + code)


def _entry(node: Node, data: bytes) -> tuple[str | None, Span | None]:
    """The name and the span of the function that contains *node*; None for both if there is none."""
    parent = node.parent
    while parent is not None and parent.type != "function_definition":
        parent = parent.parent
    name = parent.child_by_field_name("name") if parent is not None else None
    if name is None or parent is None:
        return None, None
    return _text(name, data).decode(errors="replace"), Span(parent.start_byte, parent.end_byte)


def _conditions(node: Node) -> Iterator[str]:
    """A ``?`` for each Python branch that contains *node*: its condition cannot be decided."""
    parent = node.parent
    while parent is not None:
        if parent.type in ("if_statement", "conditional_expression", "match_statement", "try_statement"):
            yield "?"
        parent = parent.parent
