"""The rules that a selector denotes, the rules that are on, and whether a finding is shown: the only module that filters.

A selector is ``ALL``, the id or name of a rule, a family, or an id prefix, in any case. As in ruff, the more specific of
``select`` and ``ignore`` wins, and ``ignore`` wins between equals. A later layer (the command line after a file) is applied
on top, or replaces the earlier ones if it has a ``select`` of its own.
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
"""The reasons why a finding is hidden."""


@lru_cache(maxsize=1024)
def meant(selector: str) -> tuple[frozenset[str], int]:
    """The ids that a selector denotes, and how specific it is.

    Raises UnknownRule, with a suggestion, if there are none.
    """
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
        f"unknown rule {selector.strip()!r}{nearest(selector, words) or '; tclint rules lists them'}"
    )


def enabled(selections: Iterable[Selection]) -> frozenset[str]:
    """The rules that are on after applying *selections*, the lowest priority first. Raises UnknownRule."""
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
        for _, _, vote, ids in sorted(votes, key=lambda item: item[:2]):  # later votes override earlier ones
            decided |= dict.fromkeys(ids, vote)
        if selection.select is not None:
            on = frozenset()
        on = on.union(id for id, vote in decided.items() if vote) - {
            id for id, vote in decided.items() if not vote
        }
    return on


def wants_entry(config: Config, name: str) -> bool:
    """Whether the function with that name is selected."""
    return not config.entry or any(fnmatchcase(name, glob) for glob in config.entry)


def excluded(config: Config, path: str) -> bool:
    """Whether a file or folder is excluded by its own path; the caller must ask for its parent folders too."""
    return any(_path_matches(_whole(path), glob) for glob in config.exclude)


def included(config: Config, path: str) -> bool:
    """Whether a file in a folder matches ``include``."""
    return any(_path_matches(_whole(path), glob) for glob in config.include)


def hidden(config: Config, report: FileReport, finding: Finding) -> str:
    """Why a finding is not shown; empty if it is."""
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
    """Whether *glob* matches *path*.

    Without a slash it is matched with the name; ``*`` matches a slash too, as in ruff.
    """
    if "/" not in glob:
        return fnmatchcase(path.rpartition("/")[2], glob)
    return any(fnmatchcase(path, form) for form in (glob, glob.replace("**/", "")))
