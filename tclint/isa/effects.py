"""What instructions do, apart from their spelling: the meaning that every analysis and both machines ask for."""

from __future__ import annotations

__all__ = ["MAX_GROUPS_LEFT", "groups_left"]

MAX_GROUPS_LEFT = 63
"""The most groups that a wait leaves pending: hardware has six bits for the number."""


def groups_left(number: int) -> int | None:
    """The groups that ``wait_group`` *number* leaves pending (9.7.9.25.3.3, 9.7.9.27.2.2, 9.7.15.7.3); None if unknown.

    ptxas 13.5 makes :data:`MAX_GROUPS_LEFT` of a larger number. A negative one is not PTX; ptxas accepts it, and targets
    differ: of -64 it makes 0 on sm_80 to sm_89, and 63 from sm_90 on.
    """
    return min(number, MAX_GROUPS_LEFT) if 0 <= number < 1 << 31 else None
