"""Each defect is reported once.

A hit is dropped if hits of rules that may be its cause cover all its ``about`` instructions. What a replay shows is
reported once for a function, and not if a rule explains it; if the code shows the same two accesses to be unordered,
the finding is the one that follows from the code. The page of a rule names those that may be its cause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from tclint.checks import Hit
from tclint.findings.rules import all_rules, declared
from tclint.findings.scales import Confidence, Method, Severity

__all__ = ["related", "without_subsumed"]

_AFFECTING_REPLAYS = frozenset("mbarrier bulk wgmma tcgen05 cluster convergence".split())
"""Rule families whose defects change the rest of a replay."""


def related(rules: Iterable[str]) -> frozenset[str]:
    """The *rules* with those whose hits may subsume theirs, or be subsumed by these."""
    found = frozenset(rules)
    subsumed, worse = declared("subsumed_by"), declared("subsumed_by_worse")
    while True:
        causes = (cause for rule in found for cause in (*subsumed.get(rule, ()), *worse.get(rule, ())))
        consequences = (rule for rule, causes in subsumed.items() if not found.isdisjoint(causes))
        more = found.union(causes, consequences)
        if more == found:
            return found
        found = more


def without_subsumed(
    found: Iterable[Hit], shown: Confidence, ignored: Collection[str] = (), strict: bool = False
) -> Iterator[Hit]:
    """The hits in one function that are not subsumed by others.

    Hits below the confidence *shown*, and hits whose subjects are *ignored* there, subsume nothing. *strict* is the
    setting of that name, on which severities depend.
    """
    hits = _with_one_replayed(list(found), shown, ignored, strict)
    for hit in hits:
        wanted, worse = (
            {*declared(key).get(hit.rule, ())}.difference(ignored)
            for key in ("subsumed_by", "subsumed_by_worse")
        )
        causes = (
            h
            for h in hits
            if (h.rule in wanted or (h.rule in worse and _weight(h, strict)[0] > _weight(hit, strict)[0]))
            and _outweighs(h, hit, shown, strict)
        )
        left = set(hit.about)
        for cause in causes:
            if not cause.missing_before or cause.site < hit.site:
                left -= cause.about
        if left or not hit.about:
            yield hit


def _with_one_replayed(
    hits: list[Hit], shown: Confidence, ignored: Collection[str], strict: bool
) -> list[Hit]:
    """*hits* with at most one that a replay shows: the first that is not *ignored*, since others may follow from it.

    It is dropped if another hit explains it, and merged into the hit that follows from the code and is about the same
    accesses, if there is one. If that hit does not explain it, both the severity and the confidence are the higher ones.
    """
    static = [hit for hit in hits if hit.method is not Method.REPLAY]
    replays = [hit for hit in hits if hit.method is Method.REPLAY]
    if not replays:
        return hits
    first = min(replays, key=lambda hit: hit.subject in ignored)
    effective = [hit for hit in static if hit.subject not in ignored]
    same = None
    if first.subject not in ignored:
        same = next((hit for hit in effective if _same_accesses(hit, first)), None)
    explaining = [hit for hit in effective if _explains_replay(hit, shown)]
    if same is not None and explaining in ([], [same]):
        merged = _corroborated(same, first, strict) if not explaining else replace(same, replayed=True)
        return [merged if hit is same else hit for hit in static]
    return static if explaining else [hit for hit in hits if hit in static or hit is first]


def _same_accesses(hit: Hit, replayed: Hit) -> bool:
    """Whether a *hit* that follows from the code is about the two accesses of one that a replay shows.

    The second access may be another one to the same object.
    """
    if not {hit.rule, replayed.rule} <= declared("race").keys():
        return False
    sites = {hit.site, *hit.about, *(mark.site for mark in hit.steps if not mark.aside)}
    pair = {replayed.steps[0].site, replayed.site}
    if len(pair) == 1:
        return sites == pair
    object_ = replayed.steps[-1].object
    return pair <= sites or (
        replayed.steps[0].site in sites
        and object_ is not None
        and any(mark.site == hit.site and mark.object == object_ for mark in hit.steps)
    )


def _corroborated(hit: Hit, replayed: Hit, strict: bool) -> Hit:
    """*hit*, which follows from the code, with the evidence of a replay that shows the same defect."""
    (severity, confidence), (least, known) = _weight(hit, strict), _weight(replayed, strict)
    return replace(
        hit,
        severity=max(severity, least),
        confidence=max(confidence, known),
        doubt=hit.doubt if confidence >= known else replayed.doubt,
        replayed=True,
    )


def _explains_replay(hit: Hit, shown: Confidence) -> bool:
    """Whether a hit may be the cause of everything that goes wrong in a replay. What the letter alone forbids is not."""
    severity, confidence = _weight(hit, strict=False)
    return (
        all_rules()[hit.rule].family in _AFFECTING_REPLAYS
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
