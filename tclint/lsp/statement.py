"""The statement that is being typed, read from the text before the cursor.

Such a statement is incomplete, so neither the tree nor the IR has it, and an answer must not wait for either.
"""

from __future__ import annotations

import re

from tclint._dataclass import dataclass

__all__ = ["Statement", "names", "statement"]

_REACH = 1 << 12
"""The bytes before the cursor among which a statement begins."""
_COMMENT = re.compile(rb"//[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z)", re.DOTALL)
_BEGIN = re.compile(rb"(?:\s|[{}]|[\w$%]+\s*:(?!:))*", re.DOTALL)
"""What may precede a statement: blanks, braces of blocks and labels."""
_PARTS = re.compile(rb"(@!?\s*[\w$%]*\s+)?([A-Za-z][\w.:]*|\.[\w.:]*|)(\s.*)?", re.DOTALL)
_WORD = re.compile(rb"[.%\w$]*\Z")
_FUNCTION = re.compile(rb"\.(?:entry|func)\b")
_REGISTERS = re.compile(rb"\.reg\s+(?:\.v[24]\s+)?(\.\w+)\s+([^;]*);")
_VARIABLE = re.compile(
    rb"\.(shared|global|const|local|param)(?:::\w+)?\s+(?:\.align\s+\d+\s+|\.ptr\s+(?:\.\w+\s+)*|\.\w+\s+)*([A-Za-z_$%][\w$]*)"
)
_LABEL = re.compile(rb"\s*([A-Za-z_$%][\w$]*):(?!:)")
_NAME = re.compile(rb"%?[A-Za-z_$][\w$]*")
_MAX_NUMBER = 1 << 12
"""The registers of one declaration that are offered."""
_RECENT = 1 << 13
"""The bytes before the cursor in which a use makes a name recent."""


@dataclass(frozen=True)
class Statement:
    """What precedes the cursor in its statement."""

    opcode: str
    """The opcode, or the directive with its dot; what has been typed of it if ``operands`` is None."""
    operands: str | None
    """What follows the opcode; None if the cursor is in the opcode."""

    @property
    def word(self) -> str:
        """The part of the last word that precedes the cursor."""
        match = _WORD.search((self.opcode if self.operands is None else self.operands).encode())
        return match[0].decode() if match else ""

    @property
    def operand(self) -> int:
        """The index of the operand at the cursor."""
        depth = found = 0
        for character in self.operands or "":
            if character in "[{(":
                depth += 1
            elif character in "]})":
                depth -= 1
            elif character == "," and depth <= 0:
                found += 1
        return found


def statement(data: bytes, offset: int, begin: int = 0) -> Statement | None:
    """The statement at *offset* of a text in which PTX begins at *begin*; None in a comment or string."""
    text = data[max(begin, offset - _REACH) : offset]
    blanked = _COMMENT.sub(lambda match: b" " * len(match[0]), text)
    last_line = text[text.rfind(b"\n") + 1 :]
    if b"//" in last_line or text.rfind(b"/*") > text.rfind(b"*/"):
        return None
    blanked = blanked[blanked.rfind(b";") + 1 :]
    start = _BEGIN.match(blanked)
    parts = _PARTS.fullmatch(blanked, start.end() if start else 0)
    if parts is None or b'"' in parts[0]:
        return None
    return Statement(
        parts[2].decode("utf-8", "replace"), None if parts[3] is None else parts[3].decode("utf-8", "replace")
    )


def names(data: bytes, offset: int) -> tuple[dict[str, str], dict[str, str]]:
    """The names that are declared around *offset*, each with its kind: ``.b32``, ``shared``, ``label``.

    First those that were used before it, the most recent ones first, then the others. Declarations in blocks that have
    ended count too.
    """
    begin = _last_function(data, offset)
    following = _FUNCTION.search(data, offset)
    # A search for a pattern without a literal prefix costs more than splitting the text into lines.
    lines = data[begin : following.start() if following else len(data)].split(b"\n")
    declaring = b"\n".join(line for line in lines if b"." in line and line.lstrip().startswith(b"."))
    found: dict[bytes, str] = {
        name: space.decode()
        for space, name in _VARIABLE.findall(data, 0, begin)
        if space in (b"shared", b"global", b"const")
    }
    for type_, listed in _REGISTERS.findall(declaring):
        for name in listed.split(b","):
            found[name.strip()] = type_.decode()
    found |= {name: space.decode() for space, name in _VARIABLE.findall(declaring)}
    found |= {match[1]: "label" for line in lines if b":" in line and (match := _LABEL.match(line))}
    single: dict[bytes, str] = {}
    for name, kind in found.items():
        stem, bracket, number = name.partition(b"<")
        if bracket and (count := number.rstrip(b">").strip()).isdigit():
            single |= {b"%s%d" % (stem, n): kind for n in range(min(int(count), _MAX_NUMBER))}
        elif not bracket:
            single[name] = kind
    recent = dict.fromkeys(reversed(_NAME.findall(data, max(begin, offset - _RECENT), offset)))
    used = {name.decode("utf-8", "replace"): single[name] for name in recent if name in single}
    others = {name.decode("utf-8", "replace"): kind for name, kind in single.items() if name not in recent}
    return used, others


def _last_function(data: bytes, offset: int) -> int:
    """Where the line of the function around *offset* begins; 0 if there is none."""
    at = max(data.rfind(b".entry", 0, offset), data.rfind(b".func", 0, offset))
    return data.rfind(b"\n", 0, max(at, 0)) + 1
