"""The check of defects that a replay of the synchronisation of a kernel shows (PTX ISA 9.7.13.15, 9.7.9.25).

:mod:`tclint.replay` executes the synchronisation for assumed launches. It yields a failing run only if no launch that
reaches the same code succeeds. Here, the failures of that run are put into words: unordered accesses, each reported
under the rule of the hazard, or else an arrival in excess of the count, a deadlock, or a wait that may miss its phase.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.objects import ObjectNames
from tclint.checks import Hit, check
from tclint.checks._race_rules import HAZARDS
from tclint.checks._replay_hits import MB016, conditional, seen
from tclint.findings.scales import Method
from tclint.isa.effects import TRANSACTIONS, Barrier
from tclint.replay.interface import Faulty
from tclint.replay.verdict import Replay

_LOOP_NOT_ENTERED = (
    "no launch that was tried enters one of the loops that wait, so the sizes of each launch may "
    "be inconsistent"
)
"""The doubt where :meth:`Replay.misses_loop` holds."""
_UNRELATED = (
    "the trip counts of the two sides come from different values of the launch, whose relation is unknown"
)
"""The doubt where :meth:`Replay.mixes_trip_counts` holds."""


@check(
    MB016,
    also=HAZARDS,
    method=Method.REPLAY,
    analyses=(Mbarriers, ObjectNames, Replay),
)
def replayed(model: KernelModel) -> Iterator[Hit]:
    """Report accesses, a wait or an arrival that are wrong in every assumed launch that reaches them.

    There is one hit for each hazard, in the order of the replay. The later ones may be consequences of the first.
    """
    if not (model.awaits(Barrier.MBARRIER) or model.begins(TRANSACTIONS)):
        return
    replay = model.fact(Replay)
    verdict = replay.verdict
    if not isinstance(verdict, Faulty):
        return
    run = verdict.run
    for hit in seen(model, run):
        if verdict.assumed_cluster:
            shape = "x".join(map(str, verdict.assumed_cluster))
            hit = replace(
                hit,
                message=f"{hit.message} (if launched in clusters of {shape}; no other shape succeeds)",
                condition=f"it is launched in clusters of {shape}",
            )
        if verdict.needs is not None:
            hit = conditional(model, hit, verdict.needs)
        yield hit.doubted(
            _LOOP_NOT_ENTERED
            if replay.misses_loop(run)
            else _UNRELATED
            if replay.mixes_trip_counts(run)
            else ""
        )
