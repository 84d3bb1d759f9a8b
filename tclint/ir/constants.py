"""Constant expressions (PTX ISA 4.5.4), with the precedence of C."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

__all__ = ["evaluate"]

_TOKEN = re.compile(
    r"\s*(0[fF][\da-fA-F]{8}(?![\w$])|0[dD][\da-fA-F]{16}(?![\w$])|\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?"
    r"|\d+[eE][-+]?\d+|(?:0[xX][\da-fA-F]+|0[bB][01]+|\d+)U?(?![\w$])|\(\s*\.[su]64\s*\)|<<|>>|<=|>=|==|!=|&&|\|\|"
    r"|[-+*/%<>&^|?:~!()])"
)
_MOST_TOKENS = 200
"""The tokens of the longest expression that is evaluated."""

_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_LEVEL = {sign: level for level, signs in enumerate(_LEVELS) for sign in signs}
"""Binary operator -> how tightly it binds."""


def _quotient(a: int, b: int) -> int:
    """a / b rounded towards zero, as the assembler does."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_BINARY: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: bool(a or b), "&&": lambda a, b: bool(a and b), "|": operator.or_, "^": operator.xor,
    "&": operator.and_, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "<<": lambda a, b: a << (b & 63), ">>": lambda a, b: a >> (b & 63), "+": operator.add, "-": operator.sub,
    "*": operator.mul, "/": _quotient, "%": lambda a, b: a - b * _quotient(a, b),
}  # fmt: skip
_OF_FLOATS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
_UNARY: dict[str, Callable[[int], int]] = {"~": operator.invert, "!": operator.not_}

Literal = Callable[[str], int | float | None]
"""The value of a literal; None if the text is not one."""


def evaluate(text: str, literal: Literal) -> int | float | None:
    """The value of the constant expression *text*, whose literals *literal* reads; None if it is not one.

    A floating-point constant is combined with others of its kind only.
    """
    try:
        return _Expression(text, literal).value()
    except ValueError:
        return None


class _Expression:
    """An expression that is being evaluated from left to right. All methods raise ValueError where it ends."""

    def __init__(self, text: str, literal: Literal) -> None:
        self.literal = literal
        self.tokens: list[str] = []
        """The tokens to come, the last one first."""
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None or len(self.tokens) == _MOST_TOKENS:
                raise ValueError(text)
            self.tokens.append(match[1])
            at = match.end()
        self.tokens.reverse()

    def value(self) -> int | float:
        """The value of the whole expression."""
        value = self.choice()
        if self.tokens:
            raise ValueError(self.tokens)
        return value

    def next(self) -> str:
        """The next token, which is consumed."""
        if not self.tokens:
            raise ValueError("the expression ends")
        return self.tokens.pop()

    def expect(self, token: str) -> None:
        """Consume *token*."""
        if self.next() != token:
            raise ValueError(self.tokens)

    def choice(self) -> int | float:
        """``a ? b : c``, or a binary expression."""
        value = self.binary(0)
        if self.tokens[-1:] != ["?"]:
            return value
        self.expect("?")
        first = self.choice()
        self.expect(":")
        second = self.choice()
        return first if value else second

    def binary(self, least: int) -> int | float:
        """Operators that bind as tightly as level *least* or more tightly."""
        value = self.unary()
        while self.tokens and _LEVEL.get(self.tokens[-1], -1) >= least:
            sign = self.next()
            other = self.binary(_LEVEL[sign] + 1)
            value = _computed(sign, value, other)
        return value

    def unary(self) -> int | float:
        """Signs, casts, literals and parentheses."""
        token = self.next()
        if token in ("-", "+"):
            return -self.unary() if token == "-" else self.unary()
        if token in _UNARY:
            value = self.unary()
            if isinstance(value, float):
                raise ValueError(value)
            return int(_UNARY[token](value))
        if token == "(":
            value = self.choice()
            self.expect(")")
            return value
        if token[0] == "(":  # a cast
            return self.unary()
        found = self.literal(token)
        if found is None:
            raise ValueError(token)
        return found


def _computed(sign: str, a: float, b: float) -> int | float:
    """The result of a binary operator. Raises ValueError if there is none."""
    if isinstance(a, int) and isinstance(b, int) and not (sign in "/%" and b == 0):
        return int(_BINARY[sign](a, b))
    if isinstance(a, float) and isinstance(b, float) and sign in _OF_FLOATS and not (sign == "/" and b == 0):
        return _OF_FLOATS[sign](a, b)
    raise ValueError(sign)
