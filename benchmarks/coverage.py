"""Which instruction statements of PTX files have no form in the ISA table?

    python -m benchmarks.coverage PATH...        # files or folders; prints the commonest ones, by opcode

The statements are cut out with regular expressions, without the grammar, so that the table can be measured alone.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tclint.ir.operands import split_operands
from tclint.isa.table import Table, table

__all__ = ["operands_of", "shape", "statement", "statements"]

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


_NO_CODE = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | "(?:[^"\\\n]|\\.)*"      # comments and strings
      | ^\s*\.(?:loc|file)\b[^\n]*                      # directives that end with their line
      | ^\s*\.section\b[^{]*\{[^}]*\}""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
_DECLARED = re.compile(r"\.reg\s+(?:\.v[24]\s+)?\.\w+\s+([^;()]*)")
_BEFORE = re.compile(r"(?:\s|[{}]|[A-Za-z_$%][\w$]*\s*:(?!:))*")
_HEADER = re.compile(r"\.[^={]*\.?(?:entry|func)\b[^{]*\{")


def statements(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Opcode and operand shapes of every instruction of the PTX module *text*."""
    text = _NO_CODE.sub(" ", text)
    registers: set[str] = set()
    for declared in _DECLARED.findall(text):
        for name in declared.split(","):
            stem, many, count = name.strip().partition("<")
            registers.update(f"{stem}{n}" for n in range(int(count.rstrip("> ")))) if many else registers.add(
                stem
            )
    known = frozenset(registers)
    for piece in text.split(";"):
        at = _end(_BEFORE, piece, 0)
        # The body of a function begins in the piece of its header.
        while header := _HEADER.match(piece, at):
            at = _end(_BEFORE, piece, header.end())
        if at < len(piece) and piece[at] != ".":
            yield statement(piece[at:], known)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def main() -> None:
    """Print the statements without a form, and those whose operands fit no form, most frequent first."""
    isa: Table = table()
    files = [f for p in map(Path, sys.argv[1:]) for f in (sorted(p.rglob("*.ptx")) if p.is_dir() else [p])]
    seen: Counter[tuple[str, tuple[str, ...]]] = Counter()
    where: dict[tuple[str, tuple[str, ...]], str] = {}
    for file in files:
        found = Counter(statements(file.read_text("utf-8", "replace")))
        seen += found
        for key in found:
            where.setdefault(key, str(file))
    total = sum(seen.values())
    unknown: Counter[tuple[str, str, str]] = Counter()
    for (opcode, shapes), count in seen.items():
        match = isa.match(opcode, shapes)
        if match is None or match.problem:
            why = "no form" if match is None else f"{match.form.name}: {match.problem}"
            unknown[opcode, f"{' '.join(shapes)}  ({why})", where[opcode, shapes]] += count
    for (opcode, why, path), count in sorted(
        unknown.items(), key=lambda item: (item[0][0].split(".")[0], -item[1])
    ):
        print(f"{count:8} {opcode} {why}  e.g. {path}")
    bad = sum(unknown.values())
    print(f"{bad} of {total} statements ({bad / max(total, 1):.4%}) in {len(files)} files fit no form")


if __name__ == "__main__":
    main()
