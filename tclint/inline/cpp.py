"""Finds the inline assembly of CUDA C++: ``asm volatile("..." : outputs : inputs : clobbers)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from tree_sitter import Language, Node, Parser, Query, QueryCursor

from tclint.findings.finding import Edit
from tclint.findings.spans import Span
from tclint.inline.asm import Asm, AsmOperand
from tclint.inline.text import MappedText

__all__ = ["find"]

_MARK = re.compile(rb"\b(?:asm|__asm__|__asm)\b")
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f", b"a": b"\a", b"b": b"\b"}


@cache
def _language() -> Language:
    import tree_sitter_cpp

    return Language(tree_sitter_cpp.language())


@cache
def _query(text: str) -> Query:
    return Query(_language(), text)


def _captured(query: str, name: str, node: Node) -> list[Node]:
    found = QueryCursor(_query(query)).captures(node).get(name, [])
    return sorted(found, key=lambda one: one.start_byte)


_OPERANDS = ("gnu_asm_output_operand", "gnu_asm_input_operand")
_VOLATILE = frozenset((b"volatile", b"__volatile__", b"__volatile"))
_WANTED = "(gnu_asm_expression) @asm (preproc_arg) @macro (comment) @comment"


def find(data: bytes) -> tuple[list[Asm], list[Span]]:
    """The asm statements of a source in the order of the text, and its comments."""
    data = _without_arguments(data)
    tree = Parser(_language()).parse(data)
    captures = QueryCursor(_query(_WANTED)).captures(tree.root_node)
    found = [asm for node in captures.get("asm", []) if (asm := _asm(node, data)) is not None]
    for node in captures.get("macro", []):
        if _MARK.search(data, node.start_byte, node.end_byte):
            found += _in_macro(node, data)
    comments = [Span(node.start_byte, node.end_byte) for node in captures.get("comment", [])]
    return sorted(found, key=lambda asm: asm.statement.start), sorted(comments, key=lambda span: span.start)


_MACRO = re.compile(
    rb"""((?:"|\(|\bvolatile\s*\()\s*[A-Za-z_]\w*\s*)(\([^()"\n]*\))(?=\s*(?:\\\r?\n)?\s*["R])"""
)


def _without_arguments(data: bytes) -> bytes:
    """*data* with blanks for the arguments of macros next to strings: the grammar knows only macros without
    arguments."""
    return _MACRO.sub(lambda match: match[1] + b" " * len(match[2]), data)


def _in_macro(macro: Node, data: bytes) -> Iterator[Asm]:
    """The asm statements in the body of a macro; the values of its parameters are unknown."""
    begin, end = macro.start_byte, macro.end_byte
    body = re.sub(rb"\\\r?\n", lambda match: b" " * (len(match[0]) - 1) + b"\n", data[begin:end])
    # The result of # and ## is treated as a name, like the parameter itself.
    body = re.sub(rb"#+(?=\s*[A-Za-z_])", lambda match: b" " * len(match[0]), body)
    # The body keeps its offset, so that offsets are those of the file; the context does not matter to an asm.
    before = b" " * (begin - 1) + b"{" if begin else b""
    tree = Parser(_language()).parse(b"%b%b}" % (before, body))
    text = before + body
    for node in _captured("(gnu_asm_expression) @asm", "asm", tree.root_node):
        if (asm := _asm(node, text)) is not None:
            asm.conditions = (*_conditions(macro, data), "?")
            asm.entry = asm.scope = None
            yield asm


def _asm(node: Node, data: bytes) -> Asm | None:
    code = node.child_by_field_name("assembly_code")
    if code is None:
        return None
    template = MappedText()
    _literal(code, data, template)
    outputs, inputs = (node.child_by_field_name(name) for name in ("output_operands", "input_operands"))
    children = [
        child
        for listed in (outputs, inputs)
        for child in (listed.named_children if listed is not None else ())
        if child.type != "comment"
    ]
    readable = all(child.type in _OPERANDS and not child.has_error for child in children)
    certain = True
    for error in _errors(node) if node.has_error else ():
        # A macro next to the strings is not an error in the source. Any other error may hide operands.
        readable = readable and re.fullmatch(rb"[\w\s]+", _text(error, data)) is not None
        if error.start_byte >= code.end_byte:
            template.add_unknown(Span(error.start_byte, error.end_byte))
        certain = certain and code.start_byte <= error.start_byte < code.end_byte
    asm = Asm(
        Span(node.start_byte, node.end_byte),
        template,
        tuple(_operand(child, data) for child in children) if readable else None,
        "gcc",
        *_entry(node, data),
        tuple(_conditions(node, data)),
        outputs is None and inputs is None and not node.has_error,
    )
    if readable and certain:
        _qualified(asm, node, data)
    return asm


def _qualified(asm: Asm, node: Node, data: bytes) -> None:
    """Set whether *asm* is volatile, whether it has the clobber ``"memory"``, and the edits that make it so."""
    keyword, *_, closing = node.children
    words = {_text(child, data) for child in node.children if child.type == "gnu_asm_qualifier"}
    # A statement without outputs is volatile.
    asm.volatile = bool(words & _VOLATILE) or not any(operand.output for operand in asm.operands or ())
    clobbers = node.child_by_field_name("clobbers")
    listed = clobbers.named_children if clobbers is not None else []
    listed = [child for child in listed if child.type != "comment"]
    if any(child.type != "string_literal" for child in listed):
        return
    asm.memory = any(_text(child, data) == b'"memory"' for child in listed)
    asm.qualify = Edit(Span(keyword.end_byte, keyword.end_byte), " volatile")
    lists = [node.child_by_field_name(name) for name in ("output_operands", "input_operands")]
    colons = ":" * (3 - sum(one is not None for one in lists))
    before = ", " if listed else "" if clobbers is not None else f" {colons} "
    if closing.type == ")" and not (asm.basic and b"%" in asm.template.data):
        asm.clobber = Edit(Span(closing.start_byte, closing.start_byte), f'{before}"memory"')


def _errors(node: Node) -> Iterator[Node]:
    """The ERROR and MISSING nodes in *node*."""
    for child in node.children:
        if child.is_error or child.is_missing:
            yield child
        elif child.has_error:
            yield from _errors(child)


def _operand(node: Node, data: bytes) -> AsmOperand:
    constraint = node.child_by_field_name("constraint")
    symbol = node.child_by_field_name("symbol")
    value = node.child_by_field_name("value")
    text = MappedText()
    if constraint is not None:
        _literal(constraint, data, text)
    letters = "" if 0 in text.data else text.data.decode(errors="replace")
    number = _text(value, data).strip() if value is not None and value.type == "number_literal" else b""
    wide = value is not None and letters == "l" and _generic(value, data)
    return AsmOperand(
        letters,
        _text(symbol, data).decode(errors="replace") if symbol is not None else "",
        number.decode() if re.fullmatch(rb"\d{1,9}", number) else "",
        re.sub(rb"\s+", b"", _text(value, data)).decode(errors="replace") if value is not None else "",
        wide,
        text.whole(0, len(text.data)),
    )


_CASTS = re.compile(rb"(?:reinterpret|static)_cast\b")


def _generic(value: Node, data: bytes) -> bool:
    """Whether an expression is a C++ address, which is generic: ``&x``, or a parameter that is a pointer; perhaps cast to
    another type, or with an offset."""
    inner: Node | None = value
    while inner is not None:
        value = inner
        if value.type == "parenthesized_expression":
            inner = value.named_children[0] if value.named_children else None
        elif value.type == "cast_expression":
            inner = value.child_by_field_name("value")
        elif value.type == "binary_expression" and _text(value.children[1], data) in (b"+", b"-"):
            inner = value.child_by_field_name("left")
        elif value.type == "call_expression" and _CASTS.match(data, value.start_byte):
            listed = value.child_by_field_name("arguments")
            inner = listed.named_children[0] if listed is not None and listed.named_children else None
        else:
            break
    if value.type == "pointer_expression":
        return _text(value, data)[:1] == b"&"
    return value.type == "identifier" and _text(value, data) in _pointers(value, data)


def _pointers(node: Node, data: bytes) -> Iterator[bytes]:
    """The parameters of the function that contains *node* which are pointers."""
    parent = node.parent
    while parent is not None and parent.type != "function_definition":
        parent = parent.parent
    declarator = parent.child_by_field_name("declarator") if parent is not None else None
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    parameters = declarator.child_by_field_name("parameters") if declarator is not None else None
    for child in parameters.named_children if parameters is not None else ():
        pointer = child.child_by_field_name("declarator") if child.type == "parameter_declaration" else None
        name = pointer.child_by_field_name("declarator") if pointer is not None else None
        if pointer is not None and pointer.type == "pointer_declarator" and name is not None:
            yield _text(name, data)


def _text(node: Node, data: bytes) -> bytes:
    return data[node.start_byte : node.end_byte]


def _literal(node: Node, data: bytes, out: MappedText) -> None:
    """Append the text of a string literal, or of several adjacent ones."""
    if node.type == "concatenated_string":
        for child in node.children:
            if child.type != "comment":
                _literal(child, data, out)
        return
    if node.type == "raw_string_literal":
        for child in node.children:
            if child.type == "raw_string_content":
                out.add(_text(child, data), Span(child.start_byte, child.end_byte))
        return
    if node.type != "string_literal" or _text(node, data)[:1] != b'"':
        out.add_unknown(Span(node.start_byte, node.end_byte))  # a macro, or a string of wide characters
        return
    at = node.start_byte + 1
    for match in _ESCAPE.finditer(data, at, node.end_byte - 1):
        out.add(data[at : match.start()], Span(at, match.start()))
        out.add(_escaped(match[1]), Span(*match.span()))
        at = match.end()
    out.add(data[at : node.end_byte - 1], Span(at, node.end_byte - 1))


_ESCAPE = re.compile(rb"\\(\r?\n|x[0-9a-fA-F]+|[0-7]{1,3}|[^\n])")


def _escaped(code: bytes) -> bytes:
    if code[-1:] == b"\n":
        return b""
    if code[:1] == b"x" and len(code) > 1:
        return bytes((int(code[1:], 16) & 0xFF,))
    if code.isdigit():
        return bytes((int(code, 8) & 0xFF,))
    return _ESCAPES.get(code, code)


def _entry(node: Node, data: bytes) -> tuple[str | None, Span | None]:
    """The name and the span of the function that contains *node*; None for both if there is none."""
    parent = node.parent
    while parent is not None and parent.type != "function_definition":
        parent = parent.parent
    declarator = parent.child_by_field_name("declarator") if parent is not None else None
    while declarator is not None and declarator.child_by_field_name("declarator") is not None:
        declarator = declarator.child_by_field_name("declarator")
    if declarator is None or parent is None:
        return None, None
    name = _text(declarator, data).rpartition(b"::")[2].decode(errors="replace")
    return (name, Span(parent.start_byte, parent.end_byte)) if re.fullmatch(r"\w+", name) else (None, None)


# ---------------------------------------------------------------- conditions


def _conditions(node: Node, data: bytes) -> Iterator[str]:
    """The conditions under which *node* is compiled, as C expressions; ``?`` for one that cannot be expressed."""
    below, parent = node, node.parent
    while parent is not None:
        kind = parent.type
        if kind in ("preproc_if", "preproc_elif", "preproc_ifdef", "preproc_elifdef"):
            condition = _condition(parent, data)
            if not _is(parent, "alternative", below):
                if not _is(parent, "condition", below) and not _guards_file(parent, data):
                    yield condition
            elif not _guards_file(parent, data):
                yield f"!({condition})" if condition != "?" else "?"
        elif kind == "if_statement" and b"constexpr" in data[parent.start_byte : parent.start_byte + 24]:
            yield "?"
        elif kind in ("argument_list", "ERROR"):
            yield "?"  # an argument of a macro such as NV_IF_TARGET
        below, parent = parent, parent.parent


def _is(parent: Node, field: str, child: Node) -> bool:
    found = parent.child_by_field_name(field)
    return found is not None and found.start_byte == child.start_byte and found.end_byte == child.end_byte


def _condition(node: Node, data: bytes) -> str:
    if node.type in ("preproc_ifdef", "preproc_elifdef"):
        name = node.child_by_field_name("name")
        word = _text(name, data).decode(errors="replace") if name is not None else "?"
        negated = node.children[0].type in ("#ifndef", "#elifndef")
        return f"{'!' if negated else ''}defined({word})"
    condition = node.child_by_field_name("condition")
    return _text(condition, data).decode(errors="replace").strip() if condition is not None else "?"


def _guards_file(node: Node, data: bytes) -> bool:
    """Whether *node* is the include guard of a header: ``#ifndef X`` with ``#define X``."""
    name = node.child_by_field_name("name")
    if node.type != "preproc_ifdef" or name is None:
        return False
    first = next(
        (child for child in node.named_children if child.type not in ("identifier", "comment")), None
    )
    defined = first.child_by_field_name("name") if first is not None and first.type == "preproc_def" else None
    return defined is not None and _text(defined, data) == _text(name, data)
