"""Parser for the text of one instruction: guard, opcode, operands.

The syntax tree has established that the statement is well formed. The text only has to be split, which is done once for
the IR, and once more, on demand, for the carets of messages and for fixes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import lru_cache
from math import inf
from sys import float_info

from tclint._pattern import pattern
from tclint.ir.nodes import (
    DECIMAL,
    LARGEST,
    SINK,
    Immediate,
    Memory,
    Negated,
    Not,
    Operand,
    OperandPair,
    Single,
    Special,
    Symbol,
    Vector,
)
from tclint.isa.special_registers import SPECIAL_REGISTERS

__all__ = [
    "HEAD",
    "abnormal",
    "clean",
    "integer",
    "only_short_integers",
    "overflows",
    "parse_operand",
    "quoted",
    "shape",
    "split_operands",
]

HEAD = re.compile(r"\s*(?:@\s*(!?)\s*([\w%$]+)\s+)?([A-Za-z_]\w*(?:::\d+:\d+|\s*(?:\.|::)\w+)*)\s*")
"""Guard and opcode of an instruction."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|#[^\n]*", re.DOTALL)
_NAME = r"[A-Za-z_$%][\w$]*"
_INTEGER = re.compile(r"[-+~]?\s*(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_FLOAT = pattern(rf"[-+]?\s*(?:{DECIMAL})$")
_BITS = pattern(r"0([fFdD])([0-9a-fA-F]+)$")
_SUM = re.compile(rf"({_NAME}(?:\.\w+)?)\s*((?:\+\s*-?\s*\w+\s*)*)$")
_EXPRESSION = pattern(rf"({_NAME})\s*\+(.*)$", re.DOTALL)
_TERM = re.compile(r"\+\s*(-?)\s*(\w+)")
_WARP_SZ = "32"
"""The predefined constant of this name (4.5.1)."""


def clean(text: str) -> str:
    """*text* without comments and the line markers of a preprocessor."""
    return _COMMENT.sub(" ", text)


_PART = re.compile(r"\s*((?:[^,\[\]{}()]|\[[^\]]*\]|\{[^{}]*\}|\([^()]*\))+)(?:,|$)")


def split_operands(text: str) -> list[str]:
    """The parts of *text* between commas outside brackets, without surrounding blanks."""
    if not text:
        return []
    if "{" not in text and "[" not in text and "(" not in text:
        return [part.strip() for part in text.split(",")]
    parts, at = [], 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            return _split_nested(text)
        parts.append(match[1].rstrip())
        at = match.end()
    return parts


def _split_nested(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return parts


def integer(text: str) -> int:
    """The value of the integer constant *text* (4.5.1), of which 64 bits count, as in ptxas."""
    sign, digits, base = _digits(text)
    # Python refuses to convert decimal numbers with thousands of digits.
    value = LARGEST if len(digits) > 99 and base == 10 else int(digits, base) & LARGEST
    return -value if sign == "-" else ~value if sign == "~" else value


def _digits(text: str) -> tuple[str, str, int]:
    """The sign, the digits with their prefix, and the base of an integer constant."""
    text = text.replace(" ", "").rstrip("U")
    sign, digits = (text[0], text[1:]) if text[0] in "-+~" else ("", text)
    if digits[:2] in ("0x", "0X"):
        return sign, digits, 16
    if digits[:2] in ("0b", "0B"):
        return sign, digits, 2
    return sign, digits, 8 if digits[0] == "0" and "8" not in digits and "9" not in digits else 10


def overflows(text: str) -> bool:
    """Whether the assembler rejects the integer constant *text* because it has more than 64 bits.

    ptxas computes with 64 bits, and rejects a constant if bit 63 is set and another digit follows; others wrap.
    """
    _, digits, base = _digits(text)
    value = 0
    for digit in digits[2:] if base in (2, 16) else digits:
        if value >> 63:
            return True
        value = (value * base + int(digit, base)) & LARGEST
    return False


_KIND_OF_BYTE = bytes(
    0x30 if chr(byte) in "0123456789" else 0x20 if chr(byte) in " \t\r\n{},;" else 0x78 for byte in range(256)
)
"""Byte -> `0` for a digit, a blank for what separates constants, `x` for everything else."""
_LONG_DIGITS = b"0" * 17
"""The fewest digits of a constant that may have more than 64 bits."""


def only_short_integers(initial: str) -> bool:
    """Whether an initial value consists of decimal integers below 64 bits: no name, no floating-point constant.

    Libraries define tables of a megabyte, and this costs a hundredth of a regular expression that looks at each number.
    """
    kinds = initial.encode("latin-1").translate(_KIND_OF_BYTE)
    return b"x" not in kinds and _LONG_DIGITS not in kinds


def quoted(name: str) -> str:
    """*name* as a message shows it, truncated if it is long."""
    return name if len(name) <= 60 else name[:60] + "…"


def abnormal(text: str) -> bool:
    """Whether the assembler rejects the constant *text* because it is decimal with a point or an exponent, but neither
    zero nor a normal number of double precision.

    ptxas reads each as a double, whatever the type of the instruction or variable.
    """
    if not _FLOAT.match(text):
        return False
    mantissa, _, _ = text.lower().partition("e")
    size = abs(float(text.replace(" ", "")))
    return size == inf or (size < float_info.min and mantissa.strip("-+ 0.") != "")


_PLAIN_ADDRESS = re.compile(rf"\[\s*({_NAME})\s*(?:\+\s*(-?\d{{1,18}})\s*)?\]$")


@lru_cache(maxsize=8192)
def _literal(text: str) -> Immediate | None:
    """The value of the literal *text*; None if it is not a single literal."""
    if _INTEGER.match(text):
        return Immediate(integer(text))
    bits = _BITS.match(text)
    if bits and bits[1] in "fF":
        return Immediate(Single(struct.unpack("!f", bytes.fromhex(bits[2].rjust(8, "0")[-8:]))[0]))
    if bits:
        return Immediate(struct.unpack("!d", bytes.fromhex(bits[2].rjust(16, "0")[-16:]))[0])
    if _FLOAT.match(text):
        return Immediate(float(text.replace(" ", "")))
    return None


def parse_operand(text: str, lookup: Callable[[str], int | None]) -> Operand:
    """The operand written as *text*; *lookup* returns the register with a name, or None."""
    if not text:
        return Symbol("")
    first = text[0]
    if first in "0123456789-+~.":
        literal = _literal(text)
        if literal is not None:
            return literal
    elif first == "[":
        plain = _PLAIN_ADDRESS.match(text)
        if plain:
            register = lookup(plain[1])
            name: Operand = Special(plain[1]) if plain[1] in SPECIAL_REGISTERS else Symbol(plain[1])
            base = register if register is not None else name
            return Memory(base, int(plain[2] or 0))
        parts = split_operands(text[1:-1].strip())
        base, offset = _address(parts[0], lookup) if parts else (Symbol(""), 0)
        return Memory(base, offset, tuple(parse_operand(part, lookup) for part in parts[1:]))
    elif first == "{" and text[-1] == "}":
        return _list(text, lookup)
    elif first == "(" and _encloses(text):
        value = _constant(text)
        return _list(text, lookup) if value is None else Immediate(value)
    register = lookup(text)
    if register is not None:
        return register
    if text == "_":
        return SINK
    if first == "!" and (inner := lookup(text[1:].strip())) is not None:
        return Not(inner)
    if text.count("|") == 1:
        left, _, right = text.partition("|")
        if not left.strip().isdigit():
            return OperandPair(parse_operand(left.strip(), lookup), parse_operand(right.strip(), lookup))
    if text in SPECIAL_REGISTERS:
        return Special(text)
    if "." in text and first not in "(-+~":
        # A selector: %r1.b0 of a video instruction, %v.x of a vector register.
        register = lookup(text.rpartition(".")[0])
        if register is not None:
            return register
    value = _constant(text)
    if value is not None:
        return Immediate(value)
    if first == "-" and (rest := text[1:].strip())[:1] != "-":
        negated = parse_operand(rest, lookup)
        if isinstance(negated, int):
            return Negated(negated)
    base, offset = _address(text, lookup)
    return Symbol(base.name, offset) if isinstance(base, Symbol) else base


def _list(text: str, lookup: Callable[[str], int | None]) -> Vector:
    """A vector, or the arguments of a call; neither can contain another list."""
    items: list[Operand] = []
    for part in split_operands(text[1:-1].strip()):
        if part[:1] in ("(", "{"):
            value = _constant(part)
            items.append(Symbol(part) if value is None else Immediate(value))
        else:
            items.append(parse_operand(part, lookup))
    return Vector(tuple(items))


def _encloses(text: str) -> bool:
    """Whether the parenthesis at the start of *text* closes at its end: a list, not the start of a constant
    expression."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return at == len(text) - 1
    return False


def _address(text: str, lookup: Callable[[str], int | None]) -> tuple[Operand, int]:
    """Base and byte offset of ``base``, ``base+4``, ``base+-4`` or ``4``."""
    register = lookup(text)
    if register is not None:
        return register, 0
    if _INTEGER.match(text):
        return Immediate(0), integer(text)
    match = _SUM.match(text)
    if match is None and (sum_ := _EXPRESSION.match(text)) and isinstance(added := _constant(sum_[2]), int):
        register = lookup(sum_[1])
        return (register if register is not None else Symbol(sum_[1])), added
    if match:
        offset = 0
        for sign, term in _TERM.findall(match[2]):
            if not _INTEGER.match(term):
                return Symbol(text), 0
            offset += -integer(term) if sign == "-" else integer(term)
        register = lookup(match[1])
        if register is not None:
            return register, offset
        if match[1] in SPECIAL_REGISTERS and not match[2]:
            return Special(match[1]), 0
        return Symbol(match[1]), offset
    value = _constant(text)
    return (Immediate(0), value) if isinstance(value, int) else (Symbol(text), 0)


_ARITHMETIC = frozenset("0123456789abcdefABCDEFxXUsu.+-*/%()<>&|^~!?:= \t\n\r\f")
"""The characters of constant expressions."""


def _constant(text: str) -> int | float | None:
    """The value of a constant expression over literals (4.5.4); None if *text* is not one."""
    text = text.replace("WARP_SZ", _WARP_SZ)
    if not _ARITHMETIC.issuperset(text):
        return None
    from tclint.ir.constants import evaluate  # few kernels have one

    return evaluate(text, _value)


def _value(text: str) -> int | float | None:
    literal = _literal(text)
    return None if literal is None else literal.value


def shape(operand: Operand) -> str:
    """The kind of *operand* as :func:`tclint.isa.table.fits` reads it."""
    if isinstance(operand, int | Special):
        return "r"
    if isinstance(operand, Immediate):
        return "i" if isinstance(operand.value, int) else "f"
    if isinstance(operand, Symbol):
        return "s"
    if isinstance(operand, Memory):
        return "+".join(("m", *map(shape, operand.extras)))
    if isinstance(operand, Vector):
        return f"v{len(operand.items)}"
    if isinstance(operand, Not):
        return "n"
    if isinstance(operand, Negated):
        return "-"
    if isinstance(operand, OperandPair):
        return f"{shape(operand.first)}|{shape(operand.second)}"
    return "_"
