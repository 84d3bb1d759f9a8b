"""What instructions do, apart from their spelling: the meaning that every analysis and both machines ask for."""

from __future__ import annotations

__all__ = ["MAX_GROUPS_LEFT", "groups_left"]

MAX_GROUPS_LEFT = 63
"""The most groups that a wait leaves pending: hardware has six bits for the number."""


def groups_left(number: int) -> int:
    """The groups that ``wait_group`` *number* leaves pending (9.7.9.25.3.3, 9.7.9.27.2.2, 9.7.15.7.3).

    ptxas 13.5 waits for :data:`MAX_GROUPS_LEFT` instead of a larger number, and keeps the low six bits of a negative one.
    """
    return min(number, MAX_GROUPS_LEFT) if number >= 0 else number & MAX_GROUPS_LEFT
