"""What can stop an execution that is not the kernel's own fault."""

from __future__ import annotations

__all__ = ["Unsupported"]


class Unsupported(Exception):
    """An instruction, or a variant of one, that the executor does not know how to execute."""
