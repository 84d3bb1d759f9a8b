"""The rules that the settings turn on, and the files that they exclude and include.

As in ruff, the more specific of ``select`` and ``ignore`` wins, and ``ignore`` wins between equals. A later layer (the
command line after a file) is applied on top, or replaces the earlier ones if it has a ``select`` of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from tclint.config.config import Config, Selection
from tclint.findings.moved import subjects
from tclint.findings.rules import default_rules
from tclint.findings.selection import meant, path_matches

__all__ = ["enabled", "excluded", "included"]


def enabled(selections: Iterable[Selection]) -> frozenset[str]:
    """The subjects that are on after applying *selections*, the lowest priority first. Raises UnknownRule."""
    on = subjects(default_rules())
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


def excluded(config: Config, path: str) -> bool:
    """Whether a file or folder is excluded by its own path; the caller must ask for its parent folders too."""
    return any(path_matches(path, glob) for glob in config.exclude)


def included(config: Config, path: str) -> bool:
    """Whether a file in a folder matches ``include``."""
    return any(path_matches(path, glob) for glob in config.include)
