"""Evaluation of preprocessor conditions: whether code is compiled for an architecture."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tclint.isa.target import Target

__all__ = ["compiled"]

_TOKEN = re.compile(r"\s*(defined\s*\(\s*\w+\s*\)|defined\s+\w+|\w+|&&|\|\||[<>=!]=|[<>!()])")
_DEFINED = re.compile(r"defined\s*\(?\s*(\w+)")
_ALWAYS = frozenset(("__CUDACC__", "__CUDA_ARCH__", "__cplusplus"))


def compiled(conditions: Iterable[str], target: Target) -> bool | None:
    """True if all *conditions* hold for *target*, False if one does not, None if that is unknown."""
    answers = [_decide(condition, target) for condition in conditions]
    if False in answers:
        return False
    return None if None in answers else True


def _decide(condition: str, target: Target) -> bool | None:
    tokens: list[str] = []
    at = 0
    text = re.sub(r"//.*|/\*.*?\*/|\\\r?\n", " ", condition).rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        tokens.append(match[1])
        at = match.end()
    value, rest = _either(tokens, target)
    return None if rest or value is None else bool(value)


# A value is a number, or None if it is unknown. Each function parses a prefix of the tokens and returns the rest.


def _either(tokens: list[str], target: Target) -> tuple[int | None, list[str]]:
    value, tokens = _both(tokens, target)
    while tokens[:1] == ["||"]:
        right, tokens = _both(tokens[1:], target)
        value = 1 if value or right else None if value is None or right is None else 0
    return value, tokens


def _both(tokens: list[str], target: Target) -> tuple[int | None, list[str]]:
    value, tokens = _compared(tokens, target)
    while tokens[:1] == ["&&"]:
        right, tokens = _compared(tokens[1:], target)
        value = 0 if value == 0 or right == 0 else None if value is None or right is None else 1
    return value, tokens


def _compared(tokens: list[str], target: Target) -> tuple[int | None, list[str]]:
    value, tokens = _single(tokens, target)
    if tokens[:1] and tokens[0] in (">=", "<=", ">", "<", "==", "!="):
        sign = tokens[0]
        right, tokens = _single(tokens[1:], target)
        if value is None or right is None:
            return None, tokens
        answers = {
            ">=": value >= right, "<=": value <= right, ">": value > right,
            "<": value < right, "==": value == right, "!=": value != right,
        }  # fmt: skip
        return int(answers[sign]), tokens
    return value, tokens


def _single(tokens: list[str], target: Target) -> tuple[int | None, list[str]]:
    if not tokens:
        return None, tokens
    word, rest = tokens[0], tokens[1:]
    if word == "!":
        value, rest = _single(rest, target)
        return None if value is None else int(not value), rest
    if word == "(":
        value, rest = _either(rest, target)
        return (value, rest[1:]) if rest[:1] == [")"] else (None, ["?"])
    if match := _DEFINED.match(word):
        return (1 if match[1] in _ALWAYS else None), rest
    if word == "__CUDA_ARCH__":
        return target.number * 10, rest
    if re.fullmatch(r"\d{1,9}", word):
        return int(word), rest
    if rest[:1] == ["("]:  # a macro with arguments, which are skipped
        depth = 0
        for at, token in enumerate(rest):
            depth += (token == "(") - (token == ")")
            if depth == 0:
                return None, rest[at + 1 :]
        return None, ["?"]
    return None, rest
