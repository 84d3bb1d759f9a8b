"""Constant expressions (PTX ISA 4.5.4), with the precedence of C."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator

from tclint.ir.nodes import DECIMAL, LARGEST

__all__ = ["evaluate"]

_TOKEN = re.compile(
    rf"\s*(0[fF][\da-fA-F]{{8}}(?![\w$])|0[dD][\da-fA-F]{{16}}(?![\w$])|{DECIMAL}"
    r"|(?:0[xX][\da-fA-F]+|0[bB][01]+|\d+)U?(?![\w$])|\(\s*\.[su]64\s*\)|<<|>>|<=|>=|==|!=|&&|\|\|"
    r"|[-+*/%<>&^|?:~!()])"
)

_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_LEVEL = {sign: level for level, signs in enumerate(_LEVELS) for sign in signs}
"""Binary operator -> how tightly it binds."""
_PREFIX, _OPEN = len(_LEVELS), -1
"""How tightly a sign before an operand binds, and what ``(``, ``?`` and ``:`` have instead."""


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
_UNARY: dict[str, Callable[[int], int]] = {
    "-": operator.neg, "+": operator.pos, "~": operator.invert, "!": operator.not_,
}  # fmt: skip
_UNARY_OF_FLOATS: dict[str, Callable[[float], float]] = {"-": operator.neg, "+": operator.pos}

Literal = Callable[[str], int | float | None]
"""The value of a literal; None if the text is not one."""


def evaluate(text: str, literal: Literal) -> int | float | None:
    """The value of the constant expression *text*, whose literals *literal* reads; None if it is not one.

    A floating-point constant is combined with others of its kind only.
    """
    try:
        return _Expression(literal).value(text)
    except ValueError:
        return None


def _tokens(text: str) -> Iterator[str]:
    """The tokens of *text*. Raises ValueError where there is none."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(text)
        yield match[1]
        at = match.end()


class _Expression:
    """An expression that is evaluated from left to right, without recursion: ptxas takes thousands of parentheses.

    All methods raise ValueError where it is not an expression.
    """

    def __init__(self, literal: Literal) -> None:
        self.literal = literal
        self.values: list[int | float] = []
        """The operands to which no operator has been applied yet."""
        self.signs: list[tuple[int, str]] = [(_OPEN, "(")]
        """The operators that have not been applied yet, each with how tightly it binds."""

    def value(self, text: str) -> int | float:
        """The value of the whole expression."""
        operand = True  # whether one is next
        for token in _tokens(text):
            if operand:
                if token in _UNARY:
                    self.signs.append((_PREFIX, token))
                elif token == "(":
                    self.signs.append((_OPEN, token))
                elif token[0] != "(":  # else a cast
                    self.values.append(self.read(token))
                    operand = False
            elif token == ")":
                self.close("(")
            else:
                self.infix(token)
                operand = True
            if not operand:
                self.apply(_PREFIX)
        if operand:
            raise ValueError(text)
        self.close("(")
        if self.signs:
            raise ValueError(text)
        return self.values.pop()

    def read(self, token: str) -> int | float:
        """The value of a literal."""
        found = self.literal(token)
        if found is None:
            raise ValueError(token)
        return found

    def infix(self, token: str) -> None:
        """Take a token between two operands."""
        level = _LEVEL.get(token, _OPEN)
        if token == ":":
            self.close("?")
        elif token == "?" or level >= 0:
            self.apply(max(level, 0))
        else:
            raise ValueError(token)
        self.signs.append((level, token))

    def apply(self, least: int) -> None:
        """Apply the last operators that bind as tightly as level *least* or more tightly."""
        while self.signs and self.signs[-1][0] >= least:
            level, sign = self.signs.pop()
            value = self.values.pop()
            result = _signed(sign, value) if level == _PREFIX else _computed(sign, self.values.pop(), value)
            self.values.append(result)

    def close(self, opening: str) -> None:
        """Complete what follows the last *opening*, which is consumed."""
        self.apply(0)
        while self.signs and self.signs[-1][1] == ":":
            self.signs.pop()
            second, first, condition = self.values.pop(), self.values.pop(), self.values.pop()
            self.values.append(first if condition else second)
        if not self.signs or self.signs.pop()[1] != opening:
            raise ValueError(opening)


def _signed(sign: str, value: float) -> int | float:
    """The result of a unary operator. Raises ValueError if there is none."""
    if isinstance(value, int):
        return _wrapped(_UNARY[sign](value))
    if sign in _UNARY_OF_FLOATS:
        return _UNARY_OF_FLOATS[sign](value)
    raise ValueError(sign)


def _computed(sign: str, a: float, b: float) -> int | float:
    """The result of a binary operator. Raises ValueError if there is none."""
    if isinstance(a, int) and isinstance(b, int) and not (sign in "/%" and b == 0):
        return _wrapped(_BINARY[sign](a, b))
    if isinstance(a, float) and isinstance(b, float) and sign in _OF_FLOATS and not (sign == "/" and b == 0):
        return _OF_FLOATS[sign](a, b)
    raise ValueError(sign)


def _wrapped(value: int) -> int:
    """*value* in the 64 bits with which ptxas computes."""
    return int(value) if -(1 << 63) <= value <= LARGEST else value & LARGEST
