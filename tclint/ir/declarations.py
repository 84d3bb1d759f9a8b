"""What declarations of variables and registers (PTX ISA 5) and directives say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tclint._pattern import pattern
from tclint.ir.nodes import LARGEST, Variable
from tclint.ir.operands import clean, integer, split_operands

__all__ = [
    "ONE_REGISTER",
    "declared",
    "misaligned",
    "misspelt_directive",
    "positions",
    "size_of",
    "targets_of",
]

_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
ONE_REGISTER = re.compile(r"\.reg\s+(\.(?:pred|[busf](?:8|16|32|64)))\s+(%[a-z]+\d{1,9})\s*;")
"""A declaration of one numbered register, with its type and name: some compilers write thousands of them."""
_DECLARATION = re.compile(
    r"\s*(?:\.(?:extern|visible|weak|common)\s+)*\.(reg|sreg|shared|global|const|local|param|tex)\b((?:\s*(?:\[\d+\])|\s*\.\w+(?:\s+\d+U?)?(?=[\s.(])(?:\s*\([^)]*\))?)*)\s*(.*?);?\s*$",
    re.DOTALL,
)
_DECLARATOR = re.compile(r"([\w$%]+)\s*(?:<\s*(\d+)\s*>)?\s*((?:\[[^\]]*\]\s*)*)")
_DIMENSION = re.compile(r"\[([^\]]*)\]")
_ALIGN = re.compile(r"\.align\s+((?:0[xX][0-9a-fA-F]+|\d+)U?)")
_TYPE = re.compile(r"\.([busf]|f16x|bf|e\dm)(\d+)(?:x\d+)?\b|\.pred\b|\.(?:tex|sampler|surf)ref\b|\.b128\b")
_VECTOR = re.compile(r"\.v([248])\b")
_NOTHING = pattern(
    r"\s*(?:\.align\s+\w+\s*|\.v[248]\s*)*\.(?:pred|[busf](?:8|16|32|64|128)|f16x2|e4m3|e5m2)\s*;"
)
"""A type by itself, which ptxas accepts as a declaration of nothing."""
_LOC = pattern(
    r"\.loc\s+(\d{1,18})\s+(\d{1,18})\s+(\d{1,18})(?:\s*,\s*function_name\s+[^,]+,\s*inlined_at\s+(\d{1,18})\s+(\d{1,18})\s+(\d{1,18}))?"
)


@lru_cache(maxsize=1024)
def declared(text: str) -> tuple[tuple[str, str, str, int, Variable], ...]:
    """``(space, type, name, size of a range or 0, variable)`` for each declarator of a declaration."""
    register = ONE_REGISTER.fullmatch(text)
    if register is None:
        return tuple(_declarators(text))
    kind, name = register.groups()
    size = size_of(kind)
    return (("reg", kind, name, 0, Variable(name, ".reg", size or 1, size, kind)),)


def _declarators(text: str) -> Iterator[tuple[str, str, str, int, Variable]]:
    text = clean(text) if "/" in text else text
    match = _DECLARATION.match(text)
    if not match:
        return
    space, attributes, names = match.groups()
    type_name, width, align, pointee = _type(attributes)
    for part in split_operands(names):
        declarator = _DECLARATOR.match(part)
        if not declarator:
            continue
        name, count, dimensions = declarator.groups()
        size = width
        for dimension in _DIMENSION.findall(dimensions) if dimensions else ():
            digits = dimension.strip()
            size *= integer(digits) if re.fullmatch(r"0[xX][0-9a-fA-F]+|[1-9]\d*|0", digits) else 0
        if not dimensions and space == "shared" and type_name == ".b8" and align > 1:
            # LLVM prints an array of no elements that it has moved into a kernel without its brackets, and a scalar of one byte as
            # .u8. MLIR names dynamic shared memory by such an array.
            size = 0
        initial = _initial(part, declarator.end())
        variable = Variable(name, "." + space, align, min(size, LARGEST), type_name, initial, pointee)
        yield space, type_name, name, integer(count) if count else 0, variable


@lru_cache(maxsize=64)
def _type(attributes: str) -> tuple[str, int, int, int]:
    """The type that the *attributes* of a declaration name, its size with that of a vector, the alignment, and that of what
    a pointer points to."""
    kind = _TYPE.search(attributes)
    type_name = kind[0] if kind else ""
    vector = _VECTOR.search(attributes)
    width = size_of(type_name) * (int(vector[1]) if vector else 1)
    aligned, pointed = map(_ALIGN.search, attributes.partition(".ptr")[::2])
    return (
        type_name,
        width,
        integer(aligned[1]) if aligned else width or 1,
        integer(pointed[1]) if pointed else 1,
    )


def _initial(declarator: str, at: int) -> str:
    """The initialiser of a declarator, without ``=``; empty if it has none."""
    rest = declarator[at:].lstrip()
    return rest[1:].strip() if rest.startswith("=") else ""


@lru_cache(maxsize=64)
def size_of(kind: str) -> int:
    """The size of a type in bytes: 4 for ``.b32``; 0 for a predicate."""
    return _SIZES.get(re.sub(r"\D", "", kind)[:3], 0)


def misaligned(text: str) -> str:
    """What is wrong with the alignments in a declaration; empty if nothing is."""
    for digits in _ALIGN.findall(text):
        align = integer(digits)
        if align.bit_count() != 1:
            return f"an alignment of {align} is not a power of two"
        if align >> 32:
            return f"an alignment of {align} has more than 32 bits"
    return ""


@lru_cache(maxsize=4096)
def positions(text: str) -> tuple[tuple[int, int, int], tuple[int, int, int] | None] | None:
    """File, line and column of a ``.loc``, and those of its ``inlined_at`` if it has one; None if it is malformed."""
    match = _LOC.match(text)
    if not match:
        return None
    file, line, column, *outer = match.groups()
    call = (int(outer[0]), int(outer[1]), int(outer[2])) if outer[0] else None
    return (int(file), int(line), int(column)), call


def targets_of(text: str) -> tuple[str, ...]:
    """The names after ``.target`` (11.1.2)."""
    words = clean(text).partition(".target")[2].split(",")
    return tuple(word.strip() for word in words if word.strip())


def misspelt_directive(text: str) -> str:
    """The error for a directive without a rule in the grammar; empty for the lines of DWARF data and for a type."""
    if text.startswith("@@") or _NOTHING.fullmatch(clean(text)):
        return ""
    from tclint.syntax import unknown_directive  # few modules need it

    return unknown_directive(text.split()[0].rstrip(";"))
