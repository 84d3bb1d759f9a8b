"""A question that the analysis of a kernel left open, for ``--timings``."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GiveUp"]


class GiveUp(NamedTuple):
    """A question about one line of a kernel that was left open: silence about it is not an answer."""

    kernel: str
    line: int
    question: str
    why: str
