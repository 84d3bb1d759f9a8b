"""Initial values of variables (PTX ISA 5.4.4)."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from tclint.executor.errors import Unsupported
from tclint.ir.nodes import Variable
from tclint.ir.operands import integer

__all__ = ["initial"]

_ELEMENT = re.compile(r"[^\s,{}]+(?:\([^)]*\))?(?:\s*\+\s*\d+)?")
_SYMBOL = re.compile(r"(generic\()?\s*([A-Za-z_$%][\w$]*)\s*\)?\s*(?:\+\s*(\d+))?")


def initial(variable: Variable, address: Callable[[str], int | None]) -> bytes:
    """The bytes of a variable before the kernel starts; bytes without an initialiser are zero.

    *address* returns the generic address of another variable, or None. Raises :class:`Unsupported` for an initialiser
    that is not a list of numbers and addresses.
    """
    width = int("".join(c for c in variable.type if c.isdigit()) or 8) // 8
    pieces = [_bytes(text, variable, width, address) for text in _ELEMENT.findall(variable.initial)]
    data = b"".join(pieces)
    return data[: variable.size] + bytes(max(0, variable.size - len(data)))


def _bytes(text: str, variable: Variable, width: int, address: Callable[[str], int | None]) -> bytes:
    if text[:2].lower() in ("0f", "0d"):
        return bytes.fromhex(text[2:])[::-1]
    if re.fullmatch(r"-?\d[\da-fA-FxX]*U?", text):
        value = -integer(text[1:]) if text.startswith("-") else integer(text)
        return (value & (1 << 8 * width) - 1).to_bytes(width, "little")
    if re.fullmatch(r"-?\d+\.\d*(?:[eE][+-]?\d+)?", text):
        return struct.pack("<d" if width == 8 else "<f", float(text))
    symbol = _SYMBOL.fullmatch(text)
    target = address(symbol[2]) if symbol else None
    if symbol is None or target is None:
        raise Unsupported(
            f"the initialiser of {variable.name}: {text} is neither a number nor the address of a variable"
        )
    return (target + int(symbol[3] or 0)).to_bytes(8, "little")[:width]
