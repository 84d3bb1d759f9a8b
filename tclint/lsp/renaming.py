"""Occurrences of a name, and its replacement by another one (PTX ISA 4.4, 5.4.1, 6.4.4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from lsprotocol import types

from tclint._named_tuple import NamedTuple
from tclint.findings.spans import Span
from tclint.lsp.names import Cursor
from tclint.lsp.text import DocumentText
from tclint.syntax import Node, Tree, parse
from tclint.text.names import Declaration, Use, resolved

__all__ = ["RenameError", "Renaming", "highlights"]

_IDENTIFIER = re.compile(r"[A-Za-z][\w$]*|[_$%][\w$]+", re.ASCII)


class RenameError(ValueError):
    """A name cannot be replaced, or not by the one that is wanted; the message is for the user."""


class _Edit(NamedTuple):
    start: int
    end: int
    new: bytes


class Renaming:
    """The name at a position of a module, and where else it is.

    A register of a range (``%r<8>``) is renamed where it is used, and gets a declaration of its own; on the range itself, all
    its registers are renamed.
    """

    def __init__(self, tree: Tree, data: bytes, offset: int) -> None:
        self._tree, self._data = tree, data
        self._declarations, self._uses, self._unknown = resolved(tree, data)
        self._at = offset

    @cached_property
    def _found(self) -> tuple[Declaration, int | None, Span] | None:
        """What is declared under the name at the position, the register of a range, and the span of the name."""
        for use in self._uses:
            if use.start <= self._at <= use.end:
                return use.declaration, use.element, Span(use.start, use.end)
        for each in self._declarations:
            if each.start <= self._at <= each.end:
                return each, None, Span(each.start, each.end)
        return None

    @property
    def place(self) -> Span | None:
        """The bytes of the name at the position; None if there is none that the module declares."""
        return None if self._found is None else self._found[2]

    @cached_property
    def _alike(self) -> list[Declaration]:
        """The declarations of the name: those of a function may be several."""
        assert self._found is not None
        declared = self._found[0]
        if declared.kind != "function":
            return [declared]
        return [d for d in self._declarations if d.kind == "function" and d.name == declared.name]

    def occurrences(self) -> list[Span]:
        """Where the name is, in the order of the text: also its declarations, but for the range of a register."""
        if self._found is None:
            return []
        element = self._found[1]
        spans = [Span(use.start, use.end) for use in self._mine()]
        if element is None:
            spans += [Span(d.start, d.end) for d in self._alike]
        return sorted(spans, key=lambda span: (span.start, span.end))

    def _mine(self) -> Iterator[Use]:
        assert self._found is not None
        declared, element, _ = self._found
        alike = {d.start for d in self._alike}
        whole = element is None and any(
            u.element is not None for u in self._uses if u.declaration is declared
        )
        for use in self._uses:
            if use.declaration.start in alike and (whole or use.element == element):
                yield use

    def edits(self, name: str) -> list[_Edit]:
        """The edits by which the name becomes *name*. Raises :class:`RenameError`."""
        if self._found is None:
            raise RenameError("no name that the module declares is here")
        declared, element, _ = self._found
        if not _IDENTIFIER.fullmatch(name):
            raise RenameError(f"{name!r} is not an identifier of PTX")
        spans = [(use.start, use.end, use.element) for use in self._mine()]
        edits = [
            # All registers of a range keep their numbers.
            _Edit(start, end, f"{name}{number if element is None and number is not None else ''}".encode())
            for start, end, number in spans
        ]
        if element is None:
            edits += [_Edit(d.start, d.end, name.encode()) for d in self._alike]
        else:
            at = self._data.find(b";", declared.end) + 1
            if not at:
                raise RenameError("the declaration of its range has no end")
            edits.append(_Edit(at, at, b" .reg %s %s;" % (declared.type, name.encode())))
        edits = sorted(set(edits))
        if not self._means_the_same(edits):
            raise RenameError(f"{name} would refer to something else here, or hide it")
        return edits

    def _means_the_same(self, edits: list[_Edit]) -> bool:
        """Whether each use refers to the same declaration after the *edits* as before."""
        pieces, last = [], 0
        for edit in edits:
            pieces += [self._data[last : edit.start], edit.new]
            last = edit.end
        data = b"".join((*pieces, self._data[last:]))
        declarations, uses, unknown = resolved(parse(data), data)
        added = len(declarations) - len(self._declarations)
        if unknown != self._unknown or len(uses) != len(self._uses) or added not in (0, 1):
            return False
        before = {d.start: n for n, d in enumerate(self._declarations)}
        after = {d.start: n for n, d in enumerate(declarations)}
        assert self._found is not None
        number = before[self._found[0].start]
        mine = {use.start for use in self._mine()}
        for old, new in zip(self._uses, uses, strict=True):
            wanted, element = before[old.declaration.start], old.element
            if added and old.start in mine:
                wanted, element = number + 1, None
            elif added and wanted > number:
                wanted += 1
            if (after[new.declaration.start], new.element) != (wanted, element):
                return False
        return True


def highlights(place: Cursor, text: DocumentText) -> list[types.DocumentHighlight]:
    """The occurrences of the name at a position; those of a register as what reads, and what writes it."""
    found = []
    for span in Renaming(place.tree, place.data, place.offset).occurrences():
        kind = types.DocumentHighlightKind.Text
        if place.register is not None:
            writes = _writes(place, span)
            kind = types.DocumentHighlightKind.Write if writes else types.DocumentHighlightKind.Read
        found.append(types.DocumentHighlight(text.range(span), kind))
    return found


def _writes(place: Cursor, span: Span) -> bool:
    """Whether an instruction writes the register of *place* where its name is at *span*: as an operand before the first comma."""
    function, register = place.function, place.register
    assert function is not None
    site = next(
        (
            i
            for i, each in enumerate(function.instructions)
            if each.start <= span.start - function.start < each.end
        ),
        None,
    )
    if site is None or register not in function.instructions[site].writes:
        return False
    node: Node | None = place.tree.root_node.descendant_for_byte_range(span.start, span.end)
    while node is not None and node.parent is not None and node.parent.type != "instruction":
        node = node.parent
    if node is None or node.parent is None or node.type not in ("identifier", "vector"):
        return False
    before = [each.type for each in node.parent.children if each.start_byte < node.start_byte]
    return before[-1] in ("opcode", "|")
