"""What a gate requires of the verdicts, and what proofs may assume, as settings write it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from tclint._named_tuple import NamedTuple
from tclint.findings.verdicts import Assumption, HazardClass, Status, Verdict

__all__ = ["ALL_ASSUMPTIONS", "NO_ASSUMPTION", "Requirement", "assumptions", "of_proofs", "requirements"]

NO_ASSUMPTION = "none"
_OF_CHECKS = frozenset((Assumption.DEPENDENT,))
ALL_ASSUMPTIONS = frozenset(Assumption) - _OF_CHECKS
"""What proofs take for granted if nothing is said."""
_REQUIRED = (Status.PROVED, Status.BOUNDED)
V = TypeVar("V")


class Requirement(NamedTuple):
    """A class of hazards that must be proved, or at least bounded, in each kernel that uses it."""

    status: Status
    hazard: HazardClass

    def __str__(self) -> str:
        return f"{self.status.value}:{self.hazard.value}"

    def met_by(self, verdict: Verdict) -> bool:
        """Whether a kernel with this verdict satisfies it. A verdict on another class does."""
        enough = _REQUIRED[: _REQUIRED.index(self.status) + 1]
        return verdict.hazard is not self.hazard or verdict.status in enough


def requirements(words: Iterable[str]) -> tuple[Requirement, ...]:
    """The requirements in ``proved:wgmma``, ``convergence``, ``bounded:mbarrier``: a status applies until the next one.

    Raises ValueError for a status or a class that does not exist; its message lists those that do.
    """
    found: dict[Requirement, None] = {}
    status: Status | None = None
    for word in (part.strip() for text in words for part in text.split(",")):
        before, colon, name = word.rpartition(":")
        if colon:
            status = _named(before.strip(), {s.value: s for s in _REQUIRED}, "status")
        if status is None:
            raise ValueError(f"{word!r} has no status: write {_REQUIRED[0].value}:{word}")
        found[Requirement(status, _named(name.strip(), {h.value: h for h in HazardClass}, "class"))] = None
    return tuple(found)


def assumptions(words: Iterable[str]) -> frozenset[Assumption]:
    """The assumptions with these names; ``none``, alone, stands for none. Raises ValueError as :func:`requirements` does."""
    names = [part.strip() for text in words for part in text.split(",")]
    if names == [NO_ASSUMPTION]:
        return frozenset()
    known: dict[str, Assumption | None] = {a.value: a for a in Assumption} | {NO_ASSUMPTION: None}
    found = [_named(name, known, "assumption") for name in names]
    if None in found:
        raise ValueError(f"{NO_ASSUMPTION!r} excludes every other assumption")
    return frozenset(one for one in found if one is not None)


def of_proofs(named: frozenset[Assumption] | None) -> frozenset[Assumption]:
    """What proofs may take for granted if these assumptions are *named*: all, if none is or only such as are of checks."""
    return ALL_ASSUMPTIONS if named is None or named == _OF_CHECKS else named - _OF_CHECKS


def _named(name: str, known: dict[str, V], what: str) -> V:
    if name.lower() not in known:
        raise ValueError(f"unknown {what} {name!r}; must be one of {', '.join(known)}")
    return known[name.lower()]
