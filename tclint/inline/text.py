"""Text composed of pieces of a host source, with the source position of each of its bytes.

A string literal becomes PTX in several steps: escapes, operands, insertion into a module. Each step creates a new
:class:`MappedText` from the previous one, so that every span of the PTX can be mapped to a span of the host source.
"""

from __future__ import annotations

from bisect import bisect_right

from tclint.findings.spans import Span

__all__ = ["UNKNOWN", "MappedText"]

UNKNOWN = 0
"""The byte that represents a piece of unknown text: a macro, an interpolation, a template constant."""


class MappedText:
    """Bytes, each mapped to a span of the host."""

    __slots__ = ("_hosts", "_starts", "data")

    def __init__(self) -> None:
        self.data = bytearray()
        self._starts: list[int] = []
        self._hosts: list[Span] = []
        """The host span of each segment. A span of the same length maps byte by byte, any other as a whole."""

    def add(self, data: bytes, host: Span) -> None:
        """Append *data*, which comes from *host*."""
        if data:
            self._starts.append(len(self.data))
            self._hosts.append(host)
            self.data += data

    def add_unknown(self, host: Span) -> None:
        """Append a piece of unknown text."""
        self.add(bytes((UNKNOWN,)), host)

    def add_part(self, other: MappedText, start: int, end: int) -> None:
        """Append the bytes ``start`` to ``end`` of *other*, each with its host span there."""
        at = bisect_right(other._starts, start) - 1
        while start < end:
            begin = other._starts[at]
            stop = min(end, other._end(at))
            host = other._hosts[at]
            if other._exact(at):
                host = Span(host.start + start - begin, host.start + stop - begin)
            self.add(bytes(other.data[start:stop]), host)
            start, at = stop, at + 1

    def inside(self, outer: MappedText) -> MappedText:
        """The same text, whose host is *outer*, mapped to the host of *outer*."""
        made = MappedText()
        for at, start in enumerate(self._starts):
            host, data = self._hosts[at], bytes(self.data[start : self._end(at)])
            if data == outer.data[host.start : host.end]:
                made.add_part(outer, host.start, host.end)
            else:
                made.add(data, outer.host(host.start, host.end))
        return made

    def host(self, start: int, end: int) -> Span:
        """The host span from the origin of byte ``start`` to that of the byte before ``end``."""
        first = self._at(start, end=False)
        return Span(first, max(first, self._at(max(start, end - 1), end=True)))

    def piece(self, offset: int) -> Span | None:
        """The host span of the piece that byte *offset* of the host is in, or just after; None if it is in no piece."""
        return next((host for host in self._hosts if host.start <= offset <= host.end), None)

    def whole(self, start: int, end: int) -> Span | None:
        """The host span with exactly the bytes ``start`` to ``end``; None if the host does not contain them
        unchanged."""
        at = bisect_right(self._starts, start) - 1
        if at < 0 or not self._exact(at) or end > self._end(at):
            return None
        begin = self._hosts[at].start + start - self._starts[at]
        return Span(begin, begin + end - start)

    def _at(self, offset: int, *, end: bool) -> int:
        at = max(bisect_right(self._starts, offset) - 1, 0)
        host = self._hosts[at]
        if self._exact(at) and offset < self._end(at):
            return host.start + offset - self._starts[at] + end
        return host.end if end or offset >= self._end(at) else host.start

    def _end(self, at: int) -> int:
        return self._starts[at + 1] if at + 1 < len(self._starts) else len(self.data)

    def _exact(self, at: int) -> bool:
        host = self._hosts[at]
        return host.end - host.start == self._end(at) - self._starts[at]
