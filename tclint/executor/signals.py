"""What an op returns to the machine when its lanes do not continue with the next instruction."""

from __future__ import annotations

__all__ = ["AGAIN", "ENDED", "MOVED"]

AGAIN = -1
"""The group of lanes is blocked, and executes the instruction again when it is woken."""
MOVED = -2
"""The group of lanes is blocked, and continues after the instruction when it is woken."""
ENDED = -3
"""The group of lanes no longer exists: it has exited or diverged."""
