"""The error for what the executor cannot execute."""

from __future__ import annotations

__all__ = ["Unsupported"]


class Unsupported(Exception):
    """The executor does not implement an instruction or a variant of it, or there is nothing to execute."""
