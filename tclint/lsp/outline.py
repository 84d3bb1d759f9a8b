"""Document symbols and folding ranges, from the tree-sitter queries of the grammar."""

from __future__ import annotations

from functools import cache

from lsprotocol import types

from tclint._data import data
from tclint.findings.spans import Span
from tclint.lsp.text import DocumentText
from tclint.syntax import LANGUAGE, Node, Query, QueryCursor, Tree

__all__ = ["folds", "symbols"]

_KINDS = {
    "function": types.SymbolKind.Function,
    "label": types.SymbolKind.Key,
    "variable": types.SymbolKind.Variable,
}


@cache
def _query(name: str) -> Query:
    return Query(LANGUAGE, (data("queries") / f"{name}.scm").read_text(encoding="utf-8"))


def symbols(tree: Tree, text: DocumentText) -> list[types.DocumentSymbol]:
    """Functions with their labels, and the variables of the module."""
    found: list[tuple[Node, types.DocumentSymbol]] = []
    for _, captures in QueryCursor(_query("tags")).matches(tree.root_node):
        (name,) = captures.pop("name")
        ((kind, (whole,)),) = captures.items()
        spelled = text.data[name.start_byte : name.end_byte].decode()
        symbol = types.DocumentSymbol(
            name=spelled,
            kind=_KINDS[kind.rpartition(".")[2]],
            range=text.range(Span(whole.start_byte, whole.end_byte)),
            selection_range=text.range(Span(name.start_byte, name.end_byte)),
            detail=_detail(whole, text),
            children=[],
        )
        found.append((whole, symbol))
    found.sort(key=lambda pair: pair[0].start_byte)
    top: list[types.DocumentSymbol] = []
    owner: tuple[Node, types.DocumentSymbol] | None = None
    for node, symbol in found:
        inside = owner is not None and node.end_byte <= owner[0].end_byte
        (owner[1].children if inside and owner is not None else top).append(symbol)  # type: ignore[union-attr]
        if node.type == "function":
            owner = node, symbol
    return top


def _detail(node: Node, text: DocumentText) -> str | None:
    kind = node.child_by_field_name("kind")
    return text.data[kind.start_byte : kind.end_byte].decode() if kind is not None else None


def folds(tree: Tree, text: DocumentText) -> list[types.FoldingRange]:
    """The folding ranges: nodes that cover more than one line."""
    found = []
    for node in QueryCursor(_query("folds")).captures(tree.root_node).get("fold", ()):
        first, last = text.line_of(node.start_byte), text.line_of(max(node.end_byte - 1, node.start_byte))
        if last > first:
            kind = types.FoldingRangeKind.Comment if node.type == "comment" else None
            found.append(types.FoldingRange(first, last, kind=kind))
    return sorted(found, key=lambda fold: (fold.start_line, -fold.end_line))
