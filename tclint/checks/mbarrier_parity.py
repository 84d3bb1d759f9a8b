"""The check of parities that stay the same while the phase of the mbarrier advances (PTX ISA 9.7.13.15.4,
9.7.13.15.16)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.mbarriers import Mbarriers, Ring
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._wording import TWICE, repeats
from tclint.findings.scales import Severity
from tclint.isa.effects import Barrier, Exchange

MB007 = RuleId("MB007")


@check(MB007, analyses=(Mbarriers,))
def invariant_parity(model: KernelModel) -> Iterator[Hit]:
    """Report waits that a loop repeats for one mbarrier with the same parity, while its phases advance."""
    mbarriers = model.fact(Mbarriers)
    for ring in (
        mbarriers.rings if model.function.entry and not model.reachability.unresolved_dispatchers else ()
    ):
        if any(model.cfg.block_of[i] in model.cfg.in_cycle for i in ring.inits):
            continue  # initialised in each iteration, so its first phase is the current one
        waits = ring.waits
        arriving = ring.where(lambda effects: effects.arrival is Barrier.MBARRIER)
        arrivals = [i for i in arriving if _repeating(model, ring, i) is not None]
        if not arrivals or any(model.constant_of(i, "parity") is None for i in waits):
            continue
        if len({model.constant_of(i, "parity") for i in waits}) == 1:
            for wait in waits:
                head = _repeating(model, ring, wait, each=True)
                if head is not None and model.values.trip_count(head) != 1:
                    yield _hit(model, ring, wait, arrivals, head)
                    break


def _repeating(model: KernelModel, ring: Ring, site: int, each: bool = False) -> int | None:
    """The header of a loop other than a spin loop that repeats *site* for one mbarrier; with *each*, in every iteration.

    None without one.
    """
    cfg = model.cfg
    if model.mbarrier(site) is None or len(ring.stages) > 1:
        return None
    block = cfg.block_of[site]
    waits = ring.waits
    for head in cfg.enclosing_loops(block):
        inside = cfg.loops[head]
        events = [i for i in model.events if cfg.block_of[i] in inside]
        if any(
            i not in waits and model.instruction(i).effects.exchange is not Exchange.ELECT for i in events
        ) and (not each or cfg.in_every_iteration(block, head)):
            return head
    return None


def _completes_one_phase(model: KernelModel, ring: Ring, arrivals: list[int], head: int) -> bool:
    """True if each iteration of the loop of *head* is certain to complete one phase, and no more than one."""
    (stage,) = ring.stages
    bounds = model.fact(Mbarriers).arrivals(stage)
    if bounds is None or bounds.most is None or bounds.most != stage.count:
        return False
    return all(_in_each_iteration(model, i, head) for i in arrivals)


def _in_each_iteration(model: KernelModel, site: int, head: int) -> bool:
    """True if only the thread index decides within the loop of *head* whether a thread executes *site*."""
    cfg, values = model.cfg, model.values
    loop, ends = cfg.loops[head], {edge.source for edge in cfg.leaving[head]}
    work, seen = [cfg.block_of[site]], set[int]()
    guard = model.instruction(site).guard
    predicates: list[int | None] = [values.before(guard, site)] if guard >= 0 else []
    while work:
        block = work.pop()
        if block not in loop:
            return False
        for edge in cfg.control_dependences(block):
            if edge.source in loop and edge.source not in ends and edge.source not in seen:
                seen.add(edge.source)
                work.append(edge.source)
                predicates.append(model.reachability.edge_predicate(edge))
    return all(p is not None and values.mask(p) is not None for p in predicates)


def _hit(model: KernelModel, ring: Ring, wait: int, arrivals: list[int], head: int) -> Hit:
    parity = model.constant_of(wait, "parity")
    condition = "" if repeats(model, head) else TWICE
    then = f"if {condition}, the second wait" if condition else "from the second iteration on it"
    return MB007.hit(
        site=wait,
        message=f"{model.name(wait)} waits for parity {parity} in every iteration, while each iteration completes a phase: "
        f"{then} may return before the phase of its iteration completes, or wait for a later one",
        steps=(
            Mark(
                arrivals[0],
                "arrives in every iteration",
                role=model.describe_threads(model.views.context_of(arrivals[0]).threads),
            ),
            Mark(
                wait,
                f"waits for parity {parity} again",
                role=model.describe_threads(model.views.context_of(wait).threads),
            ),
        ),
        help="flip the parity after each wait for the mbarrier",
        about=frozenset((wait,)),
        condition=condition,
        severity=None if _completes_one_phase(model, ring, arrivals, head) else Severity.WARNING,
    )
