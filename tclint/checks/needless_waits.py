"""Checks of waits for asynchronous operations: those that complete nothing, or more than they need to."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.in_flight import GROUPS, OPEN, UNCLEAR, InFlight, depth
from tclint.analyses.model import KernelModel
from tclint.analyses.repeated import Repeated
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._needless import decidable, own_sites
from tclint.findings.edits import Repair, operand, without
from tclint.isa.effects import BULK, CP_ASYNC, TCGEN05_LD, TCGEN05_ST, WGMMA, Engine

CO001 = RuleId("CO001")
CO008 = RuleId("CO008")

_NAMES = {WGMMA: "wgmma.mma_async", BULK: "bulk copy of a bulk group"}
"""Engine -> its operations, if it is not called like them."""
_CLASSES = {
    WGMMA: "wgmma",
    CP_ASYNC: "cp-async",
    BULK: "bulk",
    TCGEN05_LD: "tcgen05-ldst",
    TCGEN05_ST: "tcgen05-ldst",
}
"""The class of hazards that a wait of a group prevents."""


@check(CO001, analyses=(InFlight, Repeated))
def completes_nothing(model: KernelModel) -> Iterator[Hit]:
    """A wait that no operation which it would complete reaches on any path."""
    waits = [(group, i) for group in GROUPS for i in own_sites(model, model.waits(group))]
    if not waits or not decidable(model):
        return
    in_flight, states = model.solution(InFlight)
    repeated, done = model.solution(Repeated)
    for group, wait in waits:
        instruction = model.instruction(wait)
        if depth(instruction) == UNCLEAR:
            continue
        before = states.before(wait)
        if not in_flight.waited_for(before, instruction):
            why = _nothing(
                group, depth(instruction), any(model.instruction(o.site).group == group for o in before)
            )
        elif repeated.before(done.before(wait), wait):
            why = "an earlier wait has completed all that it waits for, and nothing was committed since"
        else:
            continue
        yield CO001.hit(
            site=wait,
            message=f"completes nothing: {why}",
            steps=(Mark(wait, "waits for nothing"),),
            help="remove the wait, or leave fewer groups pending if it is meant to complete one"
            if depth(instruction) > 0
            else "remove the wait",
            fixes=(Repair("delete the wait", (without(wait),), proves=(_CLASSES[group],)),),
        )


def _nothing(group: Engine, groups: int, pending: bool) -> str:
    """Why a wait that may leave *groups* pending completes nothing; *pending*: something of the *group* may be."""
    if not pending:
        return f"no {_NAMES.get(group, group)} is in flight on any path to it"
    if groups > 0:
        return (
            f"no more than {groups} {'group is' if groups == 1 else 'groups are'} pending on any path to it"
        )
    return "an earlier wait has completed the sources of all copies on any path to it"


@check(CO008, needs="cp", analyses=(InFlight,))
def waits_for_the_newest(model: KernelModel) -> Iterator[Hit]:
    """A wait for all groups in a loop, although the thread could leave the newest one in flight.

    Each hit is subject to the proof that the kernel is right with a wait that does.
    """
    cfg = model.cfg
    waits = [
        i
        for i in own_sites(model, model.waits(CP_ASYNC))
        if depth(model.instruction(i)) == 0 and cfg.block_of[i] in cfg.in_cycle
    ]
    if not waits or not decidable(model):
        return
    in_flight, states = model.solution(InFlight)
    for wait in waits:
        pending = in_flight.waited_for(states.before(wait), model.instruction(wait))
        newest = [o.site for o in pending if o.age == 0]
        if newest and all(o.age != OPEN for o in pending) and not _waits_again(model, wait):
            yield CO008.hit(
                site=wait,
                message="waits for the newest group too, which nothing uses before the next wait",
                steps=(
                    Mark(max(newest), "issues an operation of the newest group"),
                    Mark(wait, "waits for all groups"),
                ),
                help="wait with cp.async.wait_group 1, so that the copies of the newest group continue",
                provided=Repair(
                    "leave the newest group pending",
                    (operand(wait, "depth", "1"),),
                    proves=("cp-async", "shared-memory"),
                ),
            )


def _waits_again(model: KernelModel, wait: int) -> bool:
    """Whether another wait follows *wait* in its block before any access to memory, so that it gains nothing to shorten
    this one."""
    end = model.cfg.blocks[model.cfg.block_of[wait]].end
    for i in range(wait + 1, end):
        match = model.instruction(i).match
        if match is not None and match.form.effects.waits == CP_ASYNC:
            return True
        if match is None or match.form.memory or match.form.effects.begins is not None:
            return False
    return False
