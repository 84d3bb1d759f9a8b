"""Which rules a word means, which of them are on, and whether a finding is shown: the only place that filters.

A selector is ``ALL``, the id or name of a rule, a family, or the beginning of an id, in any case. As in ruff, the more
specific of ``select`` and ``ignore`` wins, ``ignore`` wins between equals, and what a later place says (the command
line after a file) is applied on top, or replaces everything when it has a ``select`` of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

from tclint.config.config import Config, Selection
from tclint.findings.finding import FileReport, Finding
from tclint.findings.rules import UnknownRule, all_rules, nearest

__all__ = ["BASELINED", "SUPPRESSED", "enabled", "excluded", "hidden", "included", "meant", "wants_entry"]

ALL = "ALL"
_EXACT = 99

SUPPRESSED, IGNORED, LOW_SEVERITY, LOW_CONFIDENCE = "suppressed", "ignored", "severity", "confidence"
BASELINED = "baselined"
"""Why a finding is hidden."""


@lru_cache(maxsize=1024)
def meant(selector: str) -> tuple[frozenset[str], int]:
    """The ids that a selector stands for, and how specific it is. Raises UnknownRule, with a suggestion."""
    rules = all_rules()
    upper, lower = selector.strip().upper(), selector.strip().lower()
    if upper == ALL:
        return frozenset(rules), 0
    exact = frozenset(id for id, rule in rules.items() if id == upper or rule.name == lower)
    if exact:
        return exact, _EXACT
    family = frozenset(id for id, rule in rules.items() if rule.family == lower)
    if family:
        return family, len(min(family).rstrip("0123456789"))
    prefix = frozenset(id for id in rules if upper and id.startswith(upper))
    if prefix:
        return prefix, len(upper)
    words = [ALL, *rules, *(rule.name for rule in rules.values()), *{r.family for r in rules.values()}]
    raise UnknownRule(
        f"{selector.strip()!r} names no rule{nearest(selector, words) or '; tclint rules lists them'}"
    )


def enabled(selections: Iterable[Selection]) -> frozenset[str]:
    """The rules that are on after these places have spoken, the weakest first. Raises UnknownRule."""
    on = frozenset(all_rules())
    for selection in selections:
        votes = [
            (specificity, not vote, vote, ids)
            for words, vote in (
                (selection.select or (), True),
                (selection.extend_select, True),
                (selection.ignore, False),
            )
            for ids, specificity in map(meant, words)
        ]
        decided: dict[str, bool] = {}
        for _, _, vote, ids in sorted(votes, key=lambda item: item[:2]):  # what comes later overrides
            decided |= dict.fromkeys(ids, vote)
        if selection.select is not None:
            on = frozenset()
        on = on.union(id for id, vote in decided.items() if vote) - {
            id for id, vote in decided.items() if not vote
        }
    return on


def wants_entry(config: Config, name: str) -> bool:
    """Whether a function of that name is to be checked."""
    return not config.entry or any(fnmatchcase(name, glob) for glob in config.entry)


def excluded(config: Config, path: str) -> bool:
    """Whether a file or folder is left out, going by its own name and place; its folders are up to the caller."""
    return any(_path_matches(_whole(path), glob) for glob in config.exclude)


def included(config: Config, path: str) -> bool:
    """Whether ``include`` asks for a file in a folder."""
    return any(_path_matches(_whole(path), glob) for glob in config.include)


def hidden(config: Config, report: FileReport, finding: Finding) -> str:
    """Why a finding is not shown; empty: it is."""
    if finding.suppressed is not None:
        return SUPPRESSED
    if finding.rule.id in ignored(config, report.path, finding.entry or ""):
        return IGNORED
    if finding.severity < config.min_severity:
        return LOW_SEVERITY
    if finding.confidence < config.confidence:
        return LOW_CONFIDENCE
    return BASELINED if finding.baselined else ""


def ignored(config: Config, path: str, entry: str) -> frozenset[str]:
    """The rules that the settings turn off for a file or a kernel."""
    return _off_in_file(config, path) | _off_in_entry(config, entry)


@lru_cache(maxsize=4096)
def _off_in_file(config: Config, path: str) -> frozenset[str]:
    return _off(config.per_file_ignores, lambda glob: _path_matches(_whole(path), glob))


@lru_cache(maxsize=4096)
def _off_in_entry(config: Config, entry: str) -> frozenset[str]:
    return _off(config.per_entry_ignores, lambda glob: bool(entry) and fnmatchcase(entry, glob))


def _off(ignores: Iterable[tuple[str, tuple[str, ...]]], matches: Callable[[str], bool]) -> frozenset[str]:
    return frozenset().union(*(meant(word)[0] for glob, words in ignores if matches(glob) for word in words))


def _whole(path: str) -> str:
    return os.path.abspath(path).replace(os.sep, "/")


def _path_matches(path: str, glob: str) -> bool:
    """A pattern without a slash is about the name; ``*`` matches a slash too, as in ruff."""
    if "/" not in glob:
        return fnmatchcase(path.rpartition("/")[2], glob)
    return any(fnmatchcase(path, form) for form in (glob, glob.replace("**/", "")))
