"""What instructions do, apart from their spelling: the meaning that every analysis and both machines ask for."""

from __future__ import annotations

__all__ = ["groups_left"]

_MOST_GROUPS_LEFT = {"wgmma": 7}
"""The most groups of a mechanism that a wait leaves pending, where its instruction has no six bits for the number."""


def groups_left(group: str, number: int) -> int | None:
    """The groups of the mechanism *group* that ``wait_group`` *number* leaves pending; None if unknown.

    By the manual, at most *number* (9.7.9.25.3.3, 9.7.9.27.2.2, 9.7.15.7.3). The instructions of the hardware have six
    bits for it, and three for ``wgmma``: ptxas 12.4 and 13.5 make the largest such number of a larger one. A negative one
    is not PTX; ptxas 13.5 accepts it, and targets differ: of -64 it makes 0 on sm_80 to sm_89, and 63 from sm_90 on.
    """
    return min(number, _MOST_GROUPS_LEFT.get(group, 63)) if 0 <= number < 1 << 31 else None
