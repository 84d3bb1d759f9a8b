"""The check of parities that stay the same while the phase of the mbarrier advances (PTX ISA 9.7.13.15.4,
9.7.13.15.16)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.mbarriers import Mbarriers, Ring
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check

MB007 = RuleId("MB007")

_ARRIVALS = ("mbarrier-arrive", "commit")


@check(MB007, needs="mbarrier", analyses=(Mbarriers,))
def invariant_parity(model: KernelModel) -> Iterator[Hit]:
    """Report waits that a loop repeats for one mbarrier with the same parity, while its phases advance."""
    mbarriers = model.fact(Mbarriers)
    for ring in (
        mbarriers.rings if model.function.entry and not model.reachability.unresolved_dispatchers else ()
    ):
        if any(model.cfg.block_of[i] in model.cfg.in_cycle for i in ring.inits):
            continue  # initialised in each iteration, so its first phase is the current one
        waits = ring.uses.get("mbarrier-wait", ())
        arrivals = [i for event in _ARRIVALS for i in ring.uses.get(event, ()) if _repeats(model, ring, i)]
        if not arrivals or any(model.constant_of(i, "parity") is None for i in waits):
            continue
        if len({model.constant_of(i, "parity") for i in waits}) == 1:
            wait = next((i for i in waits if _repeats(model, ring, i, each=True)), None)
            if wait is not None:
                yield _hit(model, wait, arrivals[0])


def _repeats(model: KernelModel, ring: Ring, site: int, each: bool = False) -> bool:
    """True if a loop other than a spin loop repeats *site* for one mbarrier; with *each*, in every iteration."""
    cfg = model.cfg
    if model.value(site, "mbarrier") is None or len(ring.stages) > 1:
        return False
    block = cfg.block_of[site]
    waits = ring.uses.get("mbarrier-wait", ())
    for head in cfg.enclosing_loops(block):
        inside = cfg.loops[head]
        events = [e.site for e in model.events if cfg.block_of[e.site] in inside]
        if any(i not in waits and model.instruction(i).event != "elect" for i in events) and (
            not each or cfg.in_every_iteration(block, head)
        ):
            return True
    return False


def _hit(model: KernelModel, wait: int, arrival: int) -> Hit:
    parity = model.constant_of(wait, "parity")
    return MB007.hit(
        site=wait,
        message=f"waits for parity {parity} in every iteration, while each iteration completes a phase: "
        "from the second iteration on it returns at once, or waits for the phase after the next",
        steps=(
            Mark(
                arrival,
                "arrives in every iteration",
                role=model.describe_threads(model.views.context_of(arrival).threads),
            ),
            Mark(
                wait,
                f"waits for parity {parity} again",
                role=model.describe_threads(model.views.context_of(wait).threads),
            ),
        ),
        help="flip the parity after each wait for the mbarrier",
        about=frozenset((wait,)),
    )
