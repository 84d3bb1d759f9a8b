"""Checks of waits for asynchronous operations: those that complete nothing, or more than they need to."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.in_flight import InFlight, SourcesInFlight, depth
from tclint.analyses.model import KernelModel
from tclint.analyses.repeated import Repeated
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._needless import decidable, own_sites
from tclint.findings.edits import Repair, operand, without
from tclint.isa.effects import CP_ASYNC, SELF_AWAITED, Engine
from tclint.sync.operations import OPEN, UNCLEAR

CO001 = RuleId("CO001")
CO008 = RuleId("CO008")


@check(CO001, analyses=(InFlight, SourcesInFlight, Repeated))
def completes_nothing(model: KernelModel) -> Iterator[Hit]:
    """A wait that no operation which it would complete reaches on any path."""
    waits = [(group, i) for group in SELF_AWAITED for i in own_sites(model, model.waits(group))]
    if not waits or not decidable(model):
        return
    results, sources = model.solution(InFlight), model.solution(SourcesInFlight)
    repeated, done = model.solution(Repeated)
    for group, wait in waits:
        instruction = model.instruction(wait)
        if depth(instruction) == UNCLEAR:
            continue
        in_flight, states = sources if instruction.effects.sources else results
        if not in_flight.waited_for(states.before(wait), instruction):
            pending = results[1].before(wait)
            why = _nothing(
                group, depth(instruction), any(model.instruction(o.site).group == group for o in pending)
            )
        elif repeated.before(done.before(wait), wait):
            why = "an earlier wait has completed all that it waits for, and nothing was committed since"
        else:
            continue
        yield CO001.hit(
            site=wait,
            message=f"{model.name(wait)} completes nothing: {why}",
            steps=(Mark(wait, "waits for nothing"),),
            help="remove the wait, or leave fewer groups pending if it is meant to complete one"
            if depth(instruction) > 0
            else "remove the wait",
            fixes=(Repair("delete the wait", (without(wait),), proves=(group.words.hazard,)),),
        )


def _nothing(group: Engine, groups: int, pending: bool) -> str:
    """Why a wait that may leave *groups* pending completes nothing; *pending*: something of the *group* may be."""
    if not pending:
        return f"no {group.words.operation} is in flight on any path to it"
    if groups > 0:
        return (
            f"no more than {groups} {'group is' if groups == 1 else 'groups are'} pending on any path to it"
        )
    return "an earlier wait has completed the sources of all copies on any path to it"


@check(CO008, analyses=(InFlight,))
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
                message=f"{model.name(wait)} waits for the newest group too, which nothing uses before the next wait",
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
