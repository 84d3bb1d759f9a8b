"""The text of a document as UTF-8 bytes, in which tclint counts, and conversion of positions in a client's units."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate

from lsprotocol import types

from tclint.findings.spans import Span
from tclint.syntax.source import BYTE_ORDER_MARK

__all__ = ["DocumentText"]


class DocumentText:
    """One state of a document. Only ``\\n``, ``\\r\\n`` and ``\\r`` end a line."""

    def __init__(self, data: bytes, encoding: str = "utf-16") -> None:
        self.data = data
        self.encoding = encoding
        """The encoding whose code units columns count: ``utf-8``, ``utf-16`` or ``utf-32``."""

    @classmethod
    def of(cls, text: str, encoding: str) -> DocumentText:
        """The text that a client sent. A lone surrogate is replaced by a question mark."""
        return cls(text.encode("utf-8", "replace"), encoding)

    @cached_property
    def analysed(self) -> bytes:
        """The bytes to analyse, at the same offsets as in :attr:`data`. A byte order mark is replaced by blanks."""
        marked = self.data.startswith(BYTE_ORDER_MARK)
        return b"   " + self.data[3:] if marked else self.data

    @cached_property
    def _starts(self) -> list[int]:
        return _line_starts(self.data)

    @property
    def line_feeds(self) -> list[int] | None:
        """The starts of lines if only a line feed ends a line; None if these may be others."""
        return None if b"\r" in self.data else self._starts

    @property
    def line_count(self) -> int:
        return len(self._starts)

    def line(self, number: int) -> Span:
        """The bytes of a 0-based line without its ending; an empty span at the end of the text past the last line."""
        if number >= len(self._starts):
            return Span(len(self.data), len(self.data))
        start = self._starts[number]
        end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self.data)
        while end > start and self.data[end - 1] in b"\r\n":
            end -= 1
        return Span(start, end)

    def line_of(self, offset: int) -> int:
        """The 0-based line that contains a byte."""
        return bisect_right(self._starts, offset) - 1

    def position(self, offset: int) -> types.Position:
        """The position of a byte. A byte inside a character has the position of the character."""
        line = self.line_of(offset)
        before = self.data[self._starts[line] : offset].decode("utf-8", "ignore")
        return types.Position(line, self._units(before))

    def range(self, span: Span) -> types.Range:
        return types.Range(self.position(span.start), self.position(span.end))

    def offset(self, position: types.Position) -> int:
        """The byte at a position. A column past the end of its line is clamped to the end."""
        line = self.line(position.line)
        content = self.data[line.start : line.end]
        if content.isascii() or self.encoding == "utf-8":
            inside = min(position.character, len(content))
            while 0 < inside < len(content) and content[inside] & 0xC0 == 0x80:
                inside -= 1
            return line.start + inside
        passed = units = 0
        for character in content.decode():
            units += self._units(character)
            if units > position.character:
                break
            passed += len(character.encode())
        return line.start + passed

    def _units(self, text: str) -> int:
        if self.encoding == "utf-8":
            return len(text.encode())
        if self.encoding == "utf-32" or text.isascii():
            return len(text)
        return len(text.encode("utf-16-le")) // 2

    def changed(self, changes: Iterable[types.TextDocumentContentChangeEvent]) -> DocumentText:
        """The text after *changes*, each of which refers to the result of the previous ones."""
        text = self
        for change in changes:
            new = change.text.encode("utf-8", "replace")
            if isinstance(change, types.TextDocumentContentChangePartial):
                start, end = text.offset(change.range.start), text.offset(change.range.end)
                text = text._spliced(start, max(start, end), new)
            else:
                text = DocumentText(new, self.encoding)
        return text

    def _spliced(self, start: int, end: int, new: bytes) -> DocumentText:
        """The text with *new* in place of the bytes from *start* to *end*."""
        made = DocumentText(self.data[:start] + new + self.data[end:], self.encoding)
        # Lines that were read are not read again, but for those beside the edit, whose endings may join or part.
        starts, delta = self._starts, len(new) - (end - start)
        first, after = max(self.line_of(start) - 1, 0), self.line_of(end) + 2
        low = starts[first]
        high = starts[after] + delta if after < len(starts) else len(made.data)
        between = [low + at for at in _line_starts(made.data[low:high])]
        if after < len(starts):
            between.pop()
        made._starts = [*starts[:first], *between, *[at + delta for at in starts[after:]]]
        return made


def _line_starts(data: bytes) -> list[int]:
    starts = list(accumulate(map(len, data.splitlines(keepends=True)), initial=0))
    # A text that ends with a line ending has an empty last line.
    return starts if data.endswith((b"\n", b"\r")) else starts[:-1] or [0]
