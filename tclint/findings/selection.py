"""Which rules, files and functions are meant, and whether a finding is shown: the only module that filters findings.

A selector is ``ALL``, the id or name of a rule, a family, or an id prefix, in any case.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

from tclint._dataclass import dataclass
from tclint.findings.finding import FileReport, Finding
from tclint.findings.moved import all_moved, moved_to, subjects
from tclint.findings.rules import UnknownRule, all_rules, default_rules, nearest
from tclint.findings.scales import Confidence, Severity
from tclint.isa.target import Version

if TYPE_CHECKING:
    from tclint.findings.facts import Fact
    from tclint.findings.figures import Judged
    from tclint.findings.verdicts import Assumption
    from tclint.recording import Recording

__all__ = [
    "BASELINED",
    "SUPPRESSED",
    "Request",
    "Selected",
    "SettingsError",
    "former_named",
    "meant",
    "path_matches",
]

ALL = "ALL"
_EXACT = 99

SUPPRESSED, IGNORED, LOW_SEVERITY, LOW_CONFIDENCE = "suppressed", "ignored", "severity", "confidence"
BASELINED = "baselined"
"""The reasons why a finding is hidden."""

Ignores = tuple[tuple[str, tuple[str, ...]], ...]
"""Patterns, each with the selectors of rules."""


class SettingsError(Exception):
    """What was asked for is invalid; the message states where, and what is expected."""


@lru_cache(maxsize=1024)
def meant(selector: str) -> tuple[frozenset[str], int]:
    """The subjects that a selector denotes (:mod:`tclint.findings.moved`), and how specific it is.

    Raises UnknownRule, with a suggestion, if there are none.
    """
    rules = all_rules()
    upper, lower = selector.strip().upper(), selector.strip().lower()
    if upper == ALL:
        return subjects(rules), 0
    exact = frozenset(id for id, rule in rules.items() if id == upper or rule.name == lower)
    if exact:
        return subjects(exact).union(*map(moved_to, exact)), _EXACT
    family = frozenset(id for id, rule in rules.items() if rule.family == lower)
    if family:
        return subjects(family), len(min(family).rstrip("0123456789"))
    prefix = frozenset(id for id in rules if upper and id.startswith(upper))
    if prefix:
        return subjects(prefix), len(upper)
    words = [ALL, *rules, *(rule.name for rule in rules.values()), *{r.family for r in rules.values()}]
    raise UnknownRule(
        f"unknown rule {selector.strip()!r}{nearest(selector, words) or '; tclint rules lists them'}"
    )


def former_named(selector: str) -> str:
    """The rule that a selector names by id or name, if findings of it moved to others; else empty. Raises UnknownRule."""
    ids, specificity = meant(selector)
    return next((id for id in all_moved() if specificity == _EXACT and id in ids), "")


@dataclass(frozen=True, slots=True)
class Selected:
    """The rules that are checked, the functions in which they are, and the findings that are shown."""

    rules: frozenset[str] | None = None
    """The subjects of the rules, as :func:`meant` gives them; None: those of the rules that are on by default."""
    entry: tuple[str, ...] = ()
    """Patterns for the names of the functions; empty: all."""
    per_file_ignores: Ignores = ()
    """Rules that are off in files whose path matches."""
    per_entry_ignores: Ignores = ()
    """Rules that are off in functions whose name matches."""
    min_severity: Severity = Severity.INFO
    """The lowest severity that is shown."""
    min_confidence: Confidence = Confidence.MEDIUM
    """The lowest confidence that is shown."""
    strict: bool = False
    """Whether what is only against the letter of the ISA has the severity that the ISA gives it."""

    @property
    def on(self) -> frozenset[str]:
        """The subjects of the rules."""
        return subjects(default_rules()) if self.rules is None else self.rules

    def wants(self, function: str) -> bool:
        """Whether the function with that name is selected."""
        return not self.entry or any(fnmatchcase(function, glob) for glob in self.entry)

    def ignored(self, path: str, entry: str) -> frozenset[str]:
        """The subjects that are off for a file or a kernel."""
        return _off_in_file(self.per_file_ignores, path) | _off_in_entry(self.per_entry_ignores, entry)

    def hidden(self, report: FileReport, finding: Finding) -> str:
        """Why a finding is not shown; empty if it is."""
        if finding.suppressed is not None:
            return SUPPRESSED
        if finding.subject in self.ignored(report.path, finding.entry or ""):
            return IGNORED
        if finding.severity < self.min_severity:
            return LOW_SEVERITY
        if finding.confidence < self.min_confidence:
            return LOW_CONFIDENCE
        return BASELINED if finding.baselined else ""


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
    dependent: bool = False
    """Whether kernels with ``griddepcontrol`` are launched as programmatic dependents (:attr:`Assumption.DEPENDENT`)."""
    what_if: Fact | None = None
    """The fact with which unknown classes are judged as well, an empty one for some that might decide them; None: that is not
    asked. It needs :attr:`assume`."""
    bounded: bool = False
    """Whether kernels are no longer checked once the budget of the verdicts is spent: nothing but these is wanted."""
    judged: Judged | None = None
    """What ptxas makes of the text, and the budget for it; None: that is not asked."""


def path_matches(path: str, glob: str) -> bool:
    """Whether *glob* matches the absolute form of *path*.

    Without a slash it is matched with the name; ``*`` matches a slash too, as in ruff.
    """
    whole = os.path.abspath(path).replace(os.sep, "/")
    if "/" not in glob:
        return fnmatchcase(whole.rpartition("/")[2], glob)
    return any(fnmatchcase(whole, form) for form in (glob, glob.replace("**/", "")))


@lru_cache(maxsize=4096)
def _off_in_file(ignores: Ignores, path: str) -> frozenset[str]:
    return _off(ignores, lambda glob: path_matches(path, glob))


@lru_cache(maxsize=4096)
def _off_in_entry(ignores: Ignores, entry: str) -> frozenset[str]:
    return _off(ignores, lambda glob: bool(entry) and fnmatchcase(entry, glob))


def _off(ignores: Ignores, matches: Callable[[str], bool]) -> frozenset[str]:
    return frozenset().union(*(meant(word)[0] for glob, words in ignores if matches(glob) for word in words))
