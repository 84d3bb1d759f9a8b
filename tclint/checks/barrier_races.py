"""The check of races that a replay shows in kernels whose threads are ordered by CTA barriers alone (PTX ISA 9.7.13.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, check
from tclint.checks._race_rules import HAZARDS
from tclint.findings.scales import Method
from tclint.isa.effects import Resource
from tclint.replay.faults import fault

_ADD_BARRIER = (
    "add a CTA barrier (bar.sync, __syncthreads()) between the two, after the wait for what is asynchronous"
)


@check(also=HAZARDS, method=Method.REPLAY, analyses=(Mbarriers,))
def raced_between_barriers(model: KernelModel) -> Iterator[Hit]:
    """Report accesses that no barrier orders in any assumed launch, in a kernel without mbarriers."""
    if model.sites(Resource.MBARRIER_INIT) or not model.shared.writers:
        return
    verdict = fault(model)
    if verdict is not None and verdict.run.races and verdict.assumed_cluster is None:
        from tclint.checks._replay_hits import conditional, seen

        for hit in seen(model, verdict.run):
            # As severe as what static analysis reports of such kernels.
            shown = replace(hit, severity=None, help=_ADD_BARRIER)
            yield shown if verdict.needs is None else conditional(model, shown, verdict.needs)
