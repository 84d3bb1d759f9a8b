"""Text that was made of pieces of another one, and where each of its bytes came from.

A string literal becomes PTX by several steps: escapes, operands, a place in a module. Each makes a :class:`Text` of
the one before it, so that a span of the PTX is always a span of the file that people wrote.
"""

from __future__ import annotations

from bisect import bisect_right

from tclint.findings.finding import Span

__all__ = ["UNKNOWN", "Text"]

UNKNOWN = 0
"""The byte that stands for a piece whose text is not known: a macro, an interpolation, a constant of a template."""


class Text:
    """Bytes with the span of the host that each of them stands for."""

    __slots__ = ("_hosts", "_starts", "data")

    def __init__(self) -> None:
        self.data = bytearray()
        self._starts: list[int] = []
        self._hosts: list[Span] = []
        """For each segment the span it came from. One of the same length maps byte by byte, any other as a whole."""

    def add(self, data: bytes, host: Span) -> None:
        """Append *data*, which was made of *host*."""
        if data:
            self._starts.append(len(self.data))
            self._hosts.append(host)
            self.data += data

    def add_unknown(self, host: Span) -> None:
        """Append a piece whose text is not known."""
        self.add(bytes((UNKNOWN,)), host)

    def add_part(self, other: Text, start: int, end: int) -> None:
        """Append the bytes ``start`` to ``end`` of *other*, each with the span it has there."""
        at = bisect_right(other._starts, start) - 1
        while start < end:
            begin = other._starts[at]
            stop = min(end, other._end(at))
            host = other._hosts[at]
            if other._exact(at):
                host = Span(host.start + start - begin, host.start + stop - begin)
            self.add(bytes(other.data[start:stop]), host)
            start, at = stop, at + 1

    def inside(self, outer: Text) -> Text:
        """The same text, made of the bytes of *outer*, with the spans that those came from."""
        made = Text()
        for at, start in enumerate(self._starts):
            host, data = self._hosts[at], bytes(self.data[start : self._end(at)])
            if data == outer.data[host.start : host.end]:
                made.add_part(outer, host.start, host.end)
            else:
                made.add(data, outer.host(host.start, host.end))
        return made

    def host(self, start: int, end: int) -> Span:
        """The span of the host that the bytes ``start`` to ``end`` came from, whatever stands between its ends."""
        first = self._at(start, end=False)
        return Span(first, max(first, self._at(max(start, end - 1), end=True)))

    def whole(self, start: int, end: int) -> Span | None:
        """The span that has the same bytes in the host; None where these do not stand there as they are."""
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
