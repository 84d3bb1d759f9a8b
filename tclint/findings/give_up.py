"""The record of a question that the analysis of a kernel could not answer, for ``--timings``."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GiveUp"]


class GiveUp(NamedTuple):
    """A question about one line of a kernel that was left unanswered, so that the absence of a finding proves
    nothing."""

    kernel: str
    line: int
    question: str
    why: str
