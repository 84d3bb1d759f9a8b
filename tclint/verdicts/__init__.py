"""What is proved of the classes of hazards that a kernel uses.

A class is *proved* if its obligations are listed and each is discharged, and a checker that knows neither the solver nor
the analyses accepts the list. The absence of findings proves nothing, and whatever is not understood makes the class
*unknown*, with the reason. It runs only when it is asked for.

``uses`` lists the classes of which a checker may have an obligation, ``tclint.analyses.gaps`` what is not known of a kernel
at all. Each class has a
prover, which lists the obligations and claims what discharges them, and a checker, which accepts or refuses the claims:

    availability                            availability    (the tables of the ISA)
    wgmma, tcgen05-ldst, cp-async, bulk     completion      checker
    tcgen05-mma                             mma             mma_checker
    proxies                                 proxies         proxy_checker
    convergence                             convergence     uniform; parties for barriers that count some of the threads
    shared-memory                           shared_order    epochs, with phases and meetings
      (and both together, where a word of shared memory decides a branch)
    tensor-memory                           tensor_order    epochs, with tensor_space
    mbarrier                                mbarrier_order  mbarrier_checker, with path_facts
    register-pool                           register_pool   warp_registers
    deadlock                                deadlock        the checkers of convergence, register-pool and mbarrier, own_loops

Several provers ask which bytes an operation and an access have in common: ``disjoint``, with ``rings`` for stages of a ring
buffer, ``matrices`` for descriptors, ``across_threads`` for two threads, ``counting`` for the counters of their epoch,
``tracked`` for what mbarriers track, with ``boxes`` for the sizes of tensor copies and ``skipped`` for what ends a pipeline,
``guards`` for comparisons that hold at an access, ``strides`` for elements as many apart as there are threads,
``admitted_threads`` for the threads that variables admit, and ``lanes`` for what a warp stores twice. ``definitions`` says
whether an address is that of the same iteration, ``undefined`` which registers may be read before they are written.
``exact_checks`` tries the answers about values that a proof rests on by another interpreter, :mod:`tclint.exact`.
``invalidation`` is not a prover: it is what a bound of the class *mbarrier* needs besides replays. ``paths`` is what the
provers assume of a path, ``outcome`` what they return. Imports ``analyses`` and what is below it.

Change this package when a kernel that is right is *unknown*, or to prove another class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from tclint.analyses.budget import Spent
from tclint.analyses.gaps import damage, gaps
from tclint.analyses.model import KernelModel
from tclint.dataflow import LimitExceeded
from tclint.findings.requirements import ALL_ASSUMPTIONS
from tclint.findings.spans import Span, span
from tclint.findings.verdicts import Assumption, HazardClass, Reason, Status, Verdict
from tclint.ir.cfg import Edge
from tclint.isa.effects import Resource
from tclint.verdicts.availability import available
from tclint.verdicts.completion import (
    COPY_GROUPS,
    TENSOR_GROUPS,
    WGMMA_GROUPS,
    Completion,
    bulk_completion,
)
from tclint.verdicts.deadlock import Waits
from tclint.verdicts.exact_checks import refuted_by_index, refuted_paths
from tclint.verdicts.mbarrier_order import MbarrierOrder
from tclint.verdicts.mma import Multiplications
from tclint.verdicts.outcome import Outcome, merged, ordered
from tclint.verdicts.proxies import Proxies
from tclint.verdicts.register_pool import pooled
from tclint.verdicts.shared_order import converged, ordered_in_shared
from tclint.verdicts.tensor_order import TensorOrder, TensorOrderByLetter
from tclint.verdicts.uses import events

__all__ = ["PROVABLE", "verdicts"]

Prover = Callable[[KernelModel, frozenset[Assumption]], Outcome]


def verdicts(
    model: KernelModel,
    violated: Collection[HazardClass] = (),
    assume: frozenset[Assumption] = ALL_ASSUMPTIONS,
    only: Collection[HazardClass] = tuple(HazardClass),
    pause: Callable[[], None] | None = None,
) -> tuple[Verdict, ...]:
    """What is known of each class of hazards that the kernel of *model* uses, in the order of the classes.

    *violated* are the classes of which a finding is reported, *assume* what a proof may take for granted, and *only* the
    classes that are asked for. The verdicts do not depend on what *model* was asked before. *pause* is called instead of the
    hook of *model*; where it raises :class:`~tclint.analyses.budget.Spent`, what is left is unknown.
    """
    function = model.function
    if function.damaged:
        return (
            _verdict(
                function.name, HazardClass.AVAILABILITY, violated, Outcome(reasons=tuple(damage(function)))
            ),
        )
    fresh = KernelModel(function, model.module, model.toolkit, pause or model.pause, strict=True)
    try:
        unknown, used = tuple(gaps(fresh)), events(fresh)
    except Spent as spent:
        unknown, used = (_spent(spent),), dict.fromkeys(HazardClass, frozenset[int]())
    uses = {**used, HazardClass.AVAILABILITY: frozenset[int]()}
    found = {
        hazard: _verdict(
            function.name, hazard, violated, _prove(fresh, hazard, assume, unknown, uses[hazard])
        )
        for hazard in sorted(uses, key=_cost)
        if hazard in only
    }
    fresh.release()
    return tuple(found[hazard] for hazard in uses if hazard in found)


def _prove(
    model: KernelModel,
    hazard: HazardClass,
    assume: frozenset[Assumption],
    unknown: tuple[Reason, ...],
    sites: frozenset[int],
) -> Outcome:
    """What is proved of one class; *unknown* is what is not known of the kernel, whatever the class, and *sites* the
    instructions for which the kernel uses the class."""
    if not model.function.entry:
        return Outcome(reasons=(Reason(None, "what its callers have left pending is unknown"),))
    if hazard is not HazardClass.AVAILABILITY and unknown:
        return Outcome(reasons=unknown)
    first = span(model.function, min(sites)) if sites else None
    calls = (site for site in sorted(sites) if model.instruction(site).flow == "call")
    if (inside := next(calls, None)) is not None:
        what = (
            f"the class applies to instructions of {model.instruction(inside).callee}, which is not inlined"
        )
        return _located(Outcome(reasons=(Reason(span(model.function, inside), what),)), first)
    prover = _PROVERS.get(hazard)
    if prover is None:
        return _located(Outcome(reasons=(Reason(None, "no proof covers this class"),)), first)
    try:
        model.pause()  # a model whose hook has raised is asked nothing
        return _located(_tried(model, hazard, prover(model, assume)), first)
    except Spent as spent:
        return _located(Outcome(reasons=(_spent(spent),)), first)
    except LimitExceeded as error:
        failed = Outcome(reasons=(Reason(None, f"an analysis exceeded its limit: {error}"),))
        return _located(failed, first)


def _spent(spent: Spent) -> Reason:
    return Reason(None, f"the budget was spent: {spent}", "judge kernels one by one, with --entry")


def _tried(model: KernelModel, hazard: HazardClass, outcome: Outcome) -> Outcome:
    """*outcome*, unless it is a proof and an exact evaluation contradicts an answer that it rests on."""
    if outcome.reasons or hazard is HazardClass.AVAILABILITY:
        return outcome
    reason = model.fact(refuted_by_index) or refuted_paths(model, outcome.closed)
    return outcome if reason is None else replace(outcome, reasons=(reason,))


def _located(outcome: Outcome, first: Span | None) -> Outcome:
    """*outcome* with a location for each reason: by default *first*, the first instruction that uses the class."""
    return replace(outcome, reasons=tuple(replace(r, at=r.at or first) for r in outcome.reasons))


def _verdict(name: str, hazard: HazardClass, violated: Collection[HazardClass], outcome: Outcome) -> Verdict:
    if hazard in violated:
        return Verdict(name, hazard, Status.VIOLATED, outcome.obligations)
    if outcome.reasons:
        return Verdict(name, hazard, Status.UNKNOWN, outcome.obligations, reasons=merged(outcome.reasons))
    return Verdict(name, hazard, Status.PROVED, outcome.obligations, ordered(outcome.assumptions))


def _deadlock_free(model: KernelModel, assume: frozenset[Assumption]) -> Outcome:
    """What is proved of waits, from what is proved of collective instructions and the register pool."""
    pool = model.fact(pooled, assume) if model.sites(Resource.REGISTERS) else None
    return Waits(*model.fact(converged, assume), pool, lambda: model.fact(_phases, assume)).outcome()


def _phases(model: KernelModel, assume: frozenset[Assumption]) -> tuple[Outcome, Mapping[Edge, int]]:
    """What is proved of mbarriers, and the edges that a thread takes once the wait before them has succeeded."""
    order = MbarrierOrder(model, assume)
    return order.outcome(), order.protocol.questions.awaited


def _ordered_in_tensor(model: KernelModel, assume: frozenset[Assumption]) -> Outcome:
    """What is proved of accesses of different warps to tensor memory, by the letter or else with what may be assumed of fences."""
    found = TensorOrderByLetter(model, assume).outcome()
    return TensorOrder(model, assume).outcome() if found.reasons and TensorOrder.implied <= assume else found


_PROVERS: dict[HazardClass, Prover] = {
    HazardClass.AVAILABILITY: available,
    HazardClass.WGMMA: lambda model, assume: Completion(model, WGMMA_GROUPS, assume).outcome(),
    HazardClass.TMEM_ACCESS: lambda model, assume: Completion(model, TENSOR_GROUPS, assume).outcome(),
    HazardClass.BULK: bulk_completion,
    HazardClass.CONVERGENCE: lambda model, assume: model.fact(converged, assume)[1],
    HazardClass.REGISTER_POOL: lambda model, assume: model.fact(pooled, assume),
    HazardClass.DEADLOCK: _deadlock_free,
    HazardClass.SHARED_MEMORY: ordered_in_shared,
    HazardClass.TENSOR_MEMORY: _ordered_in_tensor,
    HazardClass.TCGEN05_MMA: lambda model, assume: Multiplications(model, assume).outcome(),
    HazardClass.MBARRIER: lambda model, assume: model.fact(_phases, assume)[0],
    HazardClass.PROXIES: lambda model, assume: Proxies(model, assume).outcome(),
    HazardClass.CP_ASYNC: lambda model, assume: Completion(model, COPY_GROUPS, assume).outcome(),
}
_COSTLY = (
    HazardClass.TENSOR_MEMORY,
    HazardClass.DEADLOCK,
    HazardClass.SHARED_MEMORY,
    HazardClass.TCGEN05_MMA,
    HazardClass.MBARRIER,
    HazardClass.PROXIES,
)
"""The classes that may spend the budget of a file, the most expensive one last: the others are judged before them."""
PROVABLE = frozenset(_PROVERS)
"""The classes that a proof covers."""


def _cost(hazard: HazardClass) -> int:
    return _COSTLY.index(hazard) if hazard in _COSTLY else -1
