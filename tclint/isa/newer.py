"""What PTX ISA has that the table of instructions does not: unknown, and not wrong."""

from __future__ import annotations

from tclint.isa.table import split_opcode, table
from tclint.isa.target import KNOWN, Version

__all__ = ["beyond_table", "may_synchronise"]


def beyond_table(version: Version | None) -> bool:
    """Whether a module of *version* may contain instructions, modifiers and directives that the table lacks."""
    return version is not None and version > KNOWN


def may_synchronise(opcode: str) -> bool:
    """Whether *opcode*, which no form matches, may issue, signal or wait for something: others of its name do, or none
    is known."""
    lines = table().roots.get(split_opcode(opcode)[0])
    return not lines or any(form.event or form.group for form, _ in lines)
