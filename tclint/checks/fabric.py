"""Checks of fabric operations: their mbarrier, and their submission (PTX ISA 9.3)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.fabric_submission import FabricSubmission, is_fabric
from tclint.analyses.mbarrier_addresses import MbarrierAddresses
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.plausibility import Doubt, most_plausible_path
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.dataflow import EXIT, Path
from tclint.ir.nodes import Instruction
from tclint.isa.effects import TRANSACTIONS, Barrier, Resource

FB001 = RuleId("FB001")
FB002 = RuleId("FB002")


def _operations(model: KernelModel) -> list[int]:
    return [site for site in model.begins(TRANSACTIONS) if is_fabric(model.instruction(site))]


def _has_layout_1(model: KernelModel, init: int) -> bool:
    match = model.instruction(init).match
    return match is not None and match.layout == 1


@check(FB001, analyses=(MbarrierAddresses,))
def wrong_layout(model: KernelModel) -> Iterator[Hit]:
    """Fabric operations on an mbarrier that no thread initialises with layout v1."""
    addresses = model.fact(MbarrierAddresses)
    found = []
    for site in _operations(model):
        inits = [
            init for init in model.sites(Resource.MBARRIER_INIT) if addresses.same(site, init) is not False
        ]
        known = [init for init in inits if addresses.same(site, init)]
        if known and not any(_has_layout_1(model, init) for init in inits):
            found.append((known[0], site))
    for init, sites in grouped(found).items():
        yield FB001.hit(
            site=sites[0],
            message=f"{model.instruction(sites[0]).name} signals an mbarrier of layout v0: it requires layout v1",
            steps=(Mark(init, "initialised with layout v0"), Mark(sites[0], "signalled with layout v1")),
            count=len(sites),
            help="initialise the mbarrier with mbarrier.init.layout::v1",
            about=frozenset((init,)),
        )


@check(FB002, analyses=(FabricSubmission, MbarrierAddresses))
def never_submitted(model: KernelModel) -> Iterator[Hit]:
    """Fabric operations whose thread waits for their mbarrier, or ends, without having submitted them."""
    for site in _operations(model):
        match = model.instruction(site).match
        # A warp issues one operation together, and the submission of one of its lanes may be enough.
        hit = _unsubmitted(model, site) if match is not None and match.scope == "thread" else None
        if hit is not None:
            yield hit


def _unsubmitted(model: KernelModel, site: int) -> Hit | None:
    """The finding about the operation at *site* if its thread can wait for it, or end, without submitting it."""
    addresses = model.fact(MbarrierAddresses)
    waits = [wait for wait in model.awaits(Barrier.MBARRIER) if addresses.same(site, wait)]
    found = _first_path(model, site, waits) if waits else None
    if found is None and model.function.entry:
        found = _first_path(model, site, [])
    if found is None:
        return None
    path, doubt = found
    return _hit(model, site, path.end).doubted(doubt.why)


def _first_path(model: KernelModel, site: int, waits: list[int]) -> tuple[Path, Doubt] | None:
    """A path on which the operation at *site* is not submitted, to one of *waits*, or to the end if there are none."""
    submission, results = model.solution(FabricSubmission)
    fact = frozenset(((site,),))

    def step(state: bool, at: int, instruction: Instruction) -> bool | None:
        alive = not submission.affecting(instruction) or fact <= submission.transfer(fact, at, instruction)
        return state if alive else None

    def goal(state: bool, at: int) -> bool:
        return at in waits if waits else at == EXIT

    return most_plausible_path(model, FactQuery(site, True, results, step, goal, waits)).witness


def _hit(model: KernelModel, site: int, wait: int) -> Hit:
    """The finding about the operation at *site*, for which its thread waits at *wait*, or never."""
    name = model.instruction(site).name
    where = (
        "its thread waits for it before it submits it"
        if wait != EXIT
        else "its thread ends without submitting it"
    )
    waited = (Mark(wait, "waits for the mbarrier that the operation completes"),) if wait != EXIT else ()
    return FB002.hit(
        site=site,
        message=f"{name} may not be executed: {where}",
        steps=(Mark(site, "issued here"), *waited),
        help="execute fabric.submit after the operation, before the phase of its mbarrier ends",
    )
