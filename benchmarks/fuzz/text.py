"""Changes that know nothing of PTX but bytes and tokens."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

__all__ = ["BYTES", "TOKENS", "Change"]

Change = Callable[[random.Random, bytes], bytes]
_STATEMENT = re.compile(rb"[^;{}\n]*(;|)")
"""A statement if it ends with the semicolon; what has none is matched so that a long line is read once."""
_TOKEN = re.compile(rb"[%$\w.:]+|[^\s\w]")
_OPERAND = re.compile(rb"%\w+|\b\d+\b")


# ---------------------------------------------------------------- bytes


def _flip(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes((data[at] ^ 1 << rng.randrange(8),)) + data[at + 1 :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randrange(1, 40) :]


def _double(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    end = start + rng.randrange(1, 200)
    return data[:end] + data[start:end] + data[end:]


def _truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


_ODD_BYTES = (
    "\N{GRINNING FACE}", "é", "\ufeff", "\u2028", "\u202e", "\x00", "\r", "\r\n", "\x0b", "\x0c", "\x1b[31m", "\x7f",
    "\x85", '"', "'", "`", "\\", "{", "}", "{{{{{{{{", "}}}}", "(", ")", "[", "]", "<", ">", "/*", "*/", "//", "#", "@@",
    "::", ";", "%", "&", "]]>", "<!--", "\t" * 100, " " * 1000, "A" * 5000,
)  # fmt: skip
"""What terminals, XML, JSON and line counts stumble over, and what opens or ends something in PTX."""


def _odd_bytes(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + rng.choice(_ODD_BYTES).encode() + data[at:]


def _line_ends(rng: random.Random, data: bytes) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b" ", b"\n\t")))


# ---------------------------------------------------------------- tokens


def _spans(pattern: re.Pattern[bytes], data: bytes) -> list[tuple[int, int]]:
    return [match.span() for match in pattern.finditer(data)]


def _statements(data: bytes) -> list[tuple[int, int]]:
    return [match.span() for match in _STATEMENT.finditer(data) if match[1]]


def _drop_statement(rng: random.Random, data: bytes) -> bytes:
    spans = _statements(data)
    if not spans:
        return data
    start, end = rng.choice(spans)
    return data[:start] + data[end:]


def _move_statement(rng: random.Random, data: bytes) -> bytes:
    spans = _statements(data)
    if len(spans) < 2:
        return data
    (start, end), (_, place) = sorted(rng.sample(spans, 2))
    return data[:start] + data[end:place] + data[start:end] + data[place:]


def _repeat_statement(rng: random.Random, data: bytes) -> bytes:
    spans = _statements(data)
    if not spans:
        return data
    (start, end), (_, place) = rng.choice(spans), rng.choice(spans)
    return data[:place] + b" " + data[start:end] + data[place:]


def _exchange_tokens(rng: random.Random, data: bytes) -> bytes:
    spans = _spans(_TOKEN, data)
    if len(spans) < 2:
        return data
    (a, b), (c, d) = sorted(rng.sample(spans, 2))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _replace_token(rng: random.Random, data: bytes) -> bytes:
    spans = _spans(_TOKEN, data)
    if len(spans) < 2:
        return data
    (a, b), (c, d) = rng.sample(spans, 2)
    return data[:a] + data[c:d] + data[b:]


def _drop_token(rng: random.Random, data: bytes) -> bytes:
    spans = _spans(_TOKEN, data)
    if not spans:
        return data
    start, end = rng.choice(spans)
    return data[:start] + data[end:]


_ODD_OPERANDS = (
    b"0", b"-1", b"4294967296", b"0xffffffffffffffff", b"18446744073709551616", b"0f7F800000", b"_", b"%tid.x", b"",
)  # fmt: skip


def _odd_operand(rng: random.Random, data: bytes) -> bytes:
    spans = _spans(_OPERAND, data)
    if not spans:
        return data
    start, end = rng.choice(spans)
    return data[:start] + rng.choice(_ODD_OPERANDS) + data[end:]


BYTES: tuple[Change, ...] = (_flip, _cut, _double, _truncate, _odd_bytes, _line_ends)
"""They need at least one byte."""
TOKENS: tuple[Change, ...] = (
    _drop_statement, _move_statement, _repeat_statement, _exchange_tokens, _replace_token, _drop_token, _odd_operand,
)  # fmt: skip
"""They keep most of the text PTX."""
