"""What the function of an instruction returns to the machine where the lanes do not simply continue after it."""

from __future__ import annotations

__all__ = ["AGAIN", "ENDED", "MOVED"]

AGAIN = -1
"""The instruction has to wait and is executed again."""
MOVED = -2
"""The group of lanes goes on behind the instruction, once it is woken."""
ENDED = -3
"""The group of lanes is no more: it left, or went several ways."""
