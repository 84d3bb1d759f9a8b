"""The opcode of an instruction and the shapes of its operands, cut out with regular expressions.

The grammar is not used, so that the ISA table can be measured alone.
"""

from __future__ import annotations

import re

from tclint.ir.operands import split_operands

__all__ = ["operands_of", "shape", "statement"]

_INTEGER = re.compile(r"[-+~]*(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$|WARP_SZ$|\([-\d(\s]")
_FLOAT = re.compile(
    r"[-+]?(?:0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)$"
)


_STATEMENT = re.compile(r"\s*(?:@!?[\w$%]+\s+)?([^\s{\[(;]*)\s*(.*?)[\s;]*$", re.DOTALL)


def shape(operand: str, registers: frozenset[str] = frozenset()) -> str:
    """The shape of one operand, in the letters of :func:`tclint.isa.table.fits`.

    A name is a register when it starts with ``%`` or is one of *registers*, else a symbol.
    """
    if "|" in operand:
        return "|".join(shape(part.strip(), registers) for part in operand.split("|"))
    if operand.startswith("["):
        return "+".join(("m", *(shape(part, registers) for part in split_operands(operand[1:-1])[1:])))
    if operand.startswith("{"):
        return f"v{len(split_operands(operand[1:-1]))}"
    if operand == "_":
        return "_"
    if operand.startswith("!"):
        return "n"
    if _FLOAT.match(operand):
        return "f"
    if _INTEGER.match(operand):
        return "i"
    if operand.startswith("-"):
        return "-"
    return "r" if operand.startswith("%") or operand.partition(".")[0] in registers else "s"


def statement(text: str, registers: frozenset[str] = frozenset()) -> tuple[str, tuple[str, ...]]:
    """Opcode and operand shapes of one instruction without label; guard and ``;`` are dropped.

    >>> statement("@!%p1 ld.global.v2.b32 {%r1, %r2}, [%rd1+8];")
    ('ld.global.v2.b32', ('v2', 'm'))
    """
    opcode, operands = _cut(text)
    return opcode, tuple(shape(operand, registers) for operand in split_operands(operands))


def operands_of(text: str) -> list[str]:
    """The operands of one instruction, as written."""
    return split_operands(_cut(text)[1])


def _cut(text: str) -> tuple[str, str]:
    match = _STATEMENT.match(text)
    assert match is not None, text
    return match[1], match[2]
