"""Spellings of PTX ISA 9.4 that CCCL and ptxas 13.5 know and the ISA table does not have yet."""

from __future__ import annotations

import re

__all__ = ["later"]


_LATER = (
    r"fabric\b|\.override::|\.mbarrier::report::|\.multicast::cluster::32b\b|\.sync_restrict::|\.phase_type::"
    r"|\.layout::v|\.check_layout\b|\.alias\b|\.valid_addr\b|\.exclusive\b|\.spcompress\b"
    r"|^applypriority\.async\b|\.prefetch\b.*\.L2::evict_last\b"
)


def later(text: str) -> bool:
    """Whether *text* contains a spelling of PTX ISA 9.4 that the table does not have, so that it may be valid."""
    return re.search(_LATER, text) is not None
