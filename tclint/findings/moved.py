"""Findings that moved to other rules, and how long selectors that name their former rule still denote them.

A selector denotes *subjects*: the id of a rule, for its findings, and for those of them that another rule reported in
earlier releases a string with both ids. So the former id selects, ignores and suppresses the moved findings and no
others, and the new id those and all others of the rule. The page of the former rule says what has ``moved``; that is deleted
in the release that it names, which changes what the former id denotes and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.findings.rules import declared
from tclint.findings.scales import Method

__all__ = ["Former", "Moved", "all_moved", "former", "moved_to", "note", "subject", "subjects"]


@dataclass(frozen=True, slots=True)
class Moved:
    """Findings of one rule that other rules report now."""

    what: str
    """What they are about, for a note."""
    method: Method
    """How they are found; those of the other rules that are found by another method have not moved."""
    rules: tuple[str, ...]
    """The ids of the rules that report them now."""
    until: str
    """The first version in which the former id no longer denotes them."""


class Former(NamedTuple):
    """The rule that reported a finding in earlier releases."""

    rule: str
    fingerprint: str
    """The fingerprint that the finding had there."""
    named_by: str = ""
    """What hides the finding by naming that rule: ``a comment``, ``the baseline``; empty if nothing does."""


@cache
def all_moved() -> Mapping[str, Moved]:
    """Former rule -> what it no longer reports."""
    return {
        id: Moved(entry["what"], Method(entry["method"]), tuple(entry["rules"]), entry["until"])
        for id, entry in declared("moved").items()
    }


def former(rule: str, method: Method) -> str:
    """The id of the rule that reported the findings of *rule* by *method* in earlier releases; empty if it is the same."""
    return next(
        (old for old, moved in all_moved().items() if rule in moved.rules and method is moved.method), ""
    )


def subject(rule: str, former: str) -> str:
    """What a selector must denote to apply to a finding of *rule* that *former* reported earlier, if that is not empty."""
    return f"{rule} from {former}" if former else rule


def subjects(ids: Iterable[str]) -> frozenset[str]:
    """The subjects of all findings of the rules *ids*."""
    on = frozenset(ids)
    return on.union(
        subject(id, old) for old, moved in all_moved().items() for id in on.intersection(moved.rules)
    )


def moved_to(id: str) -> frozenset[str]:
    """The subjects of the findings that the rule *id* no longer reports."""
    return (
        frozenset(subject(rule, id) for rule in all_moved()[id].rules) if id in all_moved() else frozenset()
    )


def note(where: str, id: str, remedy: str) -> str:
    """That the former *id*, which is named *where*, no longer reports everything, and the *remedy*."""
    return f"{where}: {id} no longer reports {all_moved()[id].what}; {remedy} before tclint {all_moved()[id].until}"
