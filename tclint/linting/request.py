"""What is asked of the run over one text."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from tclint._dataclass import dataclass
from tclint.findings.selection import Selected
from tclint.isa.target import Version

if TYPE_CHECKING:
    from tclint.findings.verdicts import Assumption
    from tclint.recording import Recording

__all__ = ["Request"]


@dataclass(frozen=True, slots=True)
class Request:
    """What decides the report on a text, besides the text."""

    selected: Selected = field(default_factory=Selected)
    """The rules that are checked, by default all, and what is shown."""
    toolkit: Version | None = None
    """The CUDA toolkit whose ptxas will compile the code; None: not named."""
    assume: frozenset[Assumption] | None = None
    """What the proofs of the verdicts may take for granted; None: the report has no verdicts."""
    recorded: Recording | None = None
    """The launch that the kernel of its name is replayed with."""
