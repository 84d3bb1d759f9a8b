"""Checks of waits that come long before what depends on them."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.in_flight import InFlight
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._needless import decidable, is_pure, own_sites
from tclint.ir.nodes import Instruction
from tclint.isa.effects import TCGEN05_LD, TCGEN05_ST, Barrier, Effects, Exchange, Fence, Resource

CO006 = RuleId("CO006")
CO009 = RuleId("CO009")

LONG = 32
"""The instructions between a tcgen05.wait and the first that depends on it from which on the wait is reported."""
_OWN = (".shared", ".shared::cta", ".param", ".const")
"""The memory that no earlier grid writes."""


@check(CO006)
def waits_before_the_set_up(model: KernelModel) -> Iterator[Hit]:
    """A griddepcontrol.wait of all threads before the initialisation of mbarriers, or a barrier, that it does not concern."""
    cfg = model.cfg
    waits = [
        i
        for i in own_sites(model, model.awaits(Barrier.GRIDS))
        if model.instruction(i).guard < 0 and not cfg.control_dependences(cfg.block_of[i])
    ]
    if not waits or not decidable(model):
        return
    wait = waits[0]
    found = _independent(model, wait)
    if found:
        yield CO006.hit(
            site=wait,
            message=f"{model.name(wait)} waits for the earlier grids before a set-up that does not depend on them",
            steps=(
                Mark(wait, "waits until the earlier grids have completed"),
                Mark(found[-1], "does not depend on them"),
            ),
            count=len(found),
            help="execute griddepcontrol.wait in the same threads after the set-up, and before the first access to global "
            "memory",
        )


def _independent(model: KernelModel, wait: int) -> list[int]:
    """The instructions that set something up after *wait*, and before which no path from it passes one that may depend
    on an earlier grid."""
    sites = [i for b in model.cfg.order for i in range(model.cfg.blocks[b].start, model.cfg.blocks[b].end)]
    depending = [i for i in sites if _may_depend(model.instruction(i))]
    set_up = model.where(_sets_up)
    first = model.reached_from((wait,), depending, depending)
    later = model.reached_from(first, set_up, ()) | first
    return sorted(model.reached_from((wait,), set_up, ()) - later)


def _sets_up(effects: Effects) -> bool:
    return (
        effects.resource is Resource.MBARRIER_INIT or effects.at_barrier or effects.awaits is Barrier.CLUSTER
    )


def _may_depend(instruction: Instruction) -> bool:
    """Whether *instruction* may depend on what an earlier grid wrote, or let other threads or grids continue that do.

    All threads have waited, so a barrier lets none continue too early.
    """
    match = instruction.match
    if (
        match is None
        or match.problem
        or instruction.flow == "call"
        or instruction.effects.awaits is Barrier.GRIDS
    ):
        return True
    form = match.form
    if (
        _sets_up(instruction.effects)
        or instruction.effects.fence is Fence.MEMORY
        or instruction.effects.fence is Fence.PROXY
        or instruction.effects.exchange is Exchange.ELECT
    ):
        return bool(form.roles.get("tensormap"))
    if form.flow in ("branch", "branch-table") or is_pure(instruction):
        return False
    return not (form.memory and not form.event and match.space in _OWN)


@check(CO009, analyses=(InFlight,))
def waits_long_before_the_use(model: KernelModel) -> Iterator[Hit]:
    """A tcgen05.wait after which many instructions follow that it does not concern."""
    waits = list(own_sites(model, (*model.waits(TCGEN05_LD), *model.waits(TCGEN05_ST))))
    if not waits or not decidable(model):
        return
    in_flight, states = model.solution(InFlight)
    for wait in waits:
        instruction = model.instruction(wait)
        pending = in_flight.waited_for(states.before(wait), instruction)
        if not pending or instruction.guard >= 0:
            continue
        operations = [model.instruction(o.site) for o in pending]
        used = _derived(model, {r for each in operations for r in (*each.reads, *each.writes)})
        first = _first_dependent(model, wait, used)
        if first - wait > LONG:
            yield CO009.hit(
                site=wait,
                message=f"{model.name(wait)} waits {first - wait - 1} instructions before the first one that depends on it",
                steps=(
                    Mark(wait, "waits for the operations on tensor memory"),
                    Mark(first, "is the first instruction that depends on them"),
                ),
                help="wait where the result is needed, so that the instructions in between overlap with the operation",
            )


def _derived(model: KernelModel, work: set[int]) -> set[int]:
    """The registers *work*, and all that may be computed from them, since compilers move copies of them before the wait."""
    found = set[int]()
    while work:
        register = work.pop()
        if register not in found:
            found.add(register)
            work.update(w for i in model.readers.get(register, ()) for w in model.instruction(i).writes)
    return found


def _first_dependent(model: KernelModel, wait: int, used: set[int]) -> int:
    """The first instruction after *wait*, in its block, that may depend on it; the end of the block if none does."""
    end = model.cfg.blocks[model.cfg.block_of[wait]].end
    for i in range(wait + 1, end):
        instruction = model.instruction(i)
        touched = {*instruction.reads, *instruction.writes, instruction.guard}
        if (not is_pure(instruction) and not _loads(instruction)) or not used.isdisjoint(touched):
            return i
    return end - 1


def _loads(instruction: Instruction) -> bool:
    """Whether *instruction* is an ordinary load, by which no thread synchronises."""
    match = instruction.match
    if match is None or match.problem or match.form.event:
        return False
    if match.strong or match.form.family != "memory":
        return False
    return all(verb == "read" for verb, _ in match.form.memory) and bool(match.form.memory)
