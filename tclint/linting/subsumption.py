"""Each defect is reported once: a hit is dropped if hits of rules that may be its cause cover all its ``about``
instructions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tclint.checks import Hit
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence, Method, Severity

__all__ = ["without_subsumed"]

_COMMITS = ("TC005", "TC008", "TC010")
_READS = ("WG001", "WG003")
_CAUSES = {
    "BK005": ("BK002", "BK004"),
    "CL002": ("CL001",),
    "MB004": ("MB008",),
    "MB006": ("MB003", "MB004", "MB005"),
    "MB008": ("MB003", "TC008", "TC010"),
    "TC001": _COMMITS,
    "TC005": ("TC008", "TC010"),
    "TC007": ("TC002", "TC003"),
    "TC010": ("TC008",),
    "TC012": (*_COMMITS, "TC001"),
    "TM003": ("TC017",),
    "TM011": ("TM006",),
    "WG004": _READS,
    "WG005": (*_READS, "WG004", "WG011"),
    "WG007": (*_READS, "WG004", "WG005", "WG011"),
    "WG011": (*_READS, "WG004"),
}
"""Rule -> the rules whose findings may be the cause of its own, or describe the same defect more precisely."""

_AFFECTING_REPLAYS = frozenset("mbarrier bulk wgmma tcgen05 cluster convergence".split())
"""Rule families whose defects change the rest of a replay."""


def without_subsumed(
    found: Iterable[Hit], shown: Confidence, ignored: Collection[str] = (), strict: bool = False
) -> Iterator[Hit]:
    """The hits in one function that are not subsumed by others.

    Hits below the confidence *shown*, and hits of rules that are *ignored* there, subsume nothing. *strict* is
    the setting of that name, on which severities depend.
    """
    hits = list(found)
    for hit in hits:
        if hit.method is Method.REPLAY and any(
            _explains_replay(h, shown, strict) and h.rule not in ignored for h in hits
        ):
            continue
        wanted = {id for id in _CAUSES.get(hit.rule, ()) if id not in ignored}
        causes = (h for h in hits if h.rule in wanted and _outweighs(h, hit, shown, strict))
        left = set(hit.about)
        for cause in causes:
            if not cause.missing_before or cause.site < hit.site:
                left -= cause.about
        if left or not hit.about:
            yield hit


def _explains_replay(hit: Hit, shown: Confidence, strict: bool) -> bool:
    """Whether a hit may be the cause of everything that goes wrong in a replay."""
    severity, confidence = _weight(hit, strict)
    return (
        all_rules()[hit.rule].family in _AFFECTING_REPLAYS
        and hit.method is not Method.REPLAY
        and severity > Severity.INFO
        and confidence >= max(shown, Confidence.MEDIUM)
    )


def _outweighs(hit: Hit, than: Hit, shown: Confidence, strict: bool) -> bool:
    """Whether *hit* is shown if *than* is not, and is as severe and as certain."""
    (severity, confidence), (least, known) = _weight(hit, strict), _weight(than, strict)
    return severity >= least and confidence >= min(known, max(shown, Confidence.MEDIUM))


def _weight(hit: Hit, strict: bool) -> tuple[Severity, Confidence]:
    """The severity and the confidence of the finding that *hit* becomes."""
    rule = all_rules()[hit.rule]
    return hit.severity_if(rule, strict), hit.confidence or rule.confidence
