"""What PTX ISA has that the table of instructions does not: unknown, and not wrong."""

from __future__ import annotations

import re

from tclint.isa.table import split_opcode, table
from tclint.isa.target import KNOWN, Version

__all__ = ["beyond_table", "later", "may_synchronise"]


_LATER = (
    r"fabric\b|\.override::|\.mbarrier::report::|\.multicast::cluster::32b\b|\.sync_restrict::|\.phase_type::"
    r"|\.layout::v|\.check_layout\b|\.alias\b|\.valid_addr\b|\.exclusive\b|\.spcompress\b"
    r"|^applypriority\.async\b|\.prefetch\b.*\.L2::evict_last\b"
)


def later(text: str) -> bool:
    """Whether *text* contains a spelling of PTX ISA 9.4 that the table does not have, so that it may be valid.

    For inline assembly, whose version is seldom known.
    """
    return re.search(_LATER, text) is not None


def beyond_table(version: Version | None) -> bool:
    """Whether a module of *version* may contain instructions, modifiers and directives that the table lacks."""
    return version is not None and version > KNOWN


def may_synchronise(opcode: str) -> bool:
    """Whether *opcode*, which no form matches, may issue, signal or wait for something: others of its name do, or none
    is known."""
    lines = table().roots.get(split_opcode(opcode)[0])
    return not lines or any(form.event or form.group for form, _ in lines)
