"""What is newer than the ISA table: spellings of PTX ISA 9.4 that CCCL and ptxas 13.5 have."""

from __future__ import annotations

import re

__all__ = ["later"]


_LATER = (
    r"fabric\b|\.override::|\.mbarrier::report::|\.multicast::cluster::32b\b|\.sync_restrict::|\.phase_type::"
    r"|\.layout::v|\.check_layout\b|\.alias\b|\.valid_addr\b|\.exclusive\b|\.spcompress\b"
    r"|^applypriority\.async\b|\.prefetch\b.*\.L2::evict_last\b"
)


def later(text: str) -> bool:
    """Whether it has what CCCL and ptxas 13.5 have of PTX ISA 9.4 and the table has not: it may well be right."""
    return re.search(_LATER, text) is not None
