"""Brace scopes, and the names of the registers that ranges declare in them (PTX ISA 5.4.6, 6.4.4)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from tclint._pattern import pattern
from tclint.ir.nodes import RegisterCount
from tclint.ir.operands import integer

__all__ = ["BraceScope", "containing", "ranges_in", "split_name", "too_small"]

_REGISTERS = pattern(r"\.reg\b[^;{}<]*<[^;{}]*")
_RANGE = pattern(r"(?<![\w$%])([\w$%]+)\s*<\s*(\d+)\s*>")


class BraceScope:
    """One brace scope: the names declared in it, and a cache of the names looked up through it."""

    __slots__ = (
        "absent", "apart", "known", "labels", "last", "parent", "pending", "ranges", "tables", "variables",
    )  # fmt: skip

    def __init__(self, parent: BraceScope | None) -> None:
        self.parent = parent
        self.last = -1  # end of its last declaration, relative to the function
        self.known: dict[str, int] = {}
        self.ranges: dict[str, tuple[int, str]] = {}  # prefix -> (count, type)
        self.labels: dict[str, int] = {}
        self.tables: dict[str, list[str]] = {}
        self.variables: set[str] = set()
        self.apart: dict[str, str] = {}
        """Variables that another scope declares, too -> the names that the function has for those of this scope."""
        self.absent: set[str] = set()  # names known not to be registers
        self.pending: dict[
            str, list[tuple[int, int]]
        ] = {}  # unresolved label -> (instruction, index in its targets)


def containing(ranges: dict[str, tuple[int, str]], prefix: str, digits: str) -> tuple[int, str] | None:
    """The range called *prefix* if the register *prefix* + *digits* is one of its elements, or None."""
    found = ranges.get(prefix) if digits else None
    if found is None or digits[0] == "0" != digits or len(digits) > 9 or int(digits) >= found[0]:
        return None
    return found


def split_name(ranges: dict[str, tuple[int, str]], name: str, first: int) -> tuple[int, str] | None:
    """The range that declares *name* and whose own name ends in digits (``%r12`` is element 2 of ``%r1<9>``), or
    None."""
    for at in range(max(first + 1, len(name) - 9), len(name)):
        found = ranges.get(name[:at])
        short = at > len(name) - 10 and (name[at] != "0" or at == len(name) - 1)
        if found is not None and short and int(name[at:]) < found[0]:
            return found
    return None


def ranges_in(text: str) -> Mapping[str, list[re.Match[str]]]:
    """The declarations of ranges of registers in *text*, in any scope, by the name of the range."""
    found: defaultdict[str, list[re.Match[str]]] = defaultdict(list)
    for statement in _REGISTERS.finditer(text):
        for match in _RANGE.finditer(text, *statement.span()):
            found[match[1]].append(match)
    return found


def too_small(ranges: Mapping[str, list[re.Match[str]]], name: str) -> RegisterCount | None:
    """The count in the only declaration of a range that would contain the undeclared register *name* if it were
    larger; None if there is no such declaration, or several of the same name."""
    prefix = name.rstrip("0123456789")
    digits = name[len(prefix) :]
    found = ranges.get(prefix, [])
    if not digits or len(digits) > 9 or digits[0] == "0" != digits:
        return None
    if len(found) != 1 or integer(found[0][2]) > int(digits):
        return None
    return RegisterCount(*found[0].span(2), int(digits) + 1)
