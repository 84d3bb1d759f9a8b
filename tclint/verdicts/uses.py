"""Which classes of hazards a kernel uses: those of which a proof may have an obligation, by the predicates with which the
checkers enumerate theirs.

A call that is not inlined uses what the bodies that it reaches use. An instruction after or inside which anything may
happen (:func:`~tclint.analyses.gaps.hidden`) uses every class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache

from tclint.analyses.gaps import hidden
from tclint.analyses.model import KernelModel
from tclint.findings.verdicts import HazardClass
from tclint.ir.cfg import CFG
from tclint.ir.inline import reached
from tclint.ir.nodes import Function, Instruction
from tclint.isa.effects import Resource
from tclint.replay.bounds import operates
from tclint.verdicts.checker import Graph, names_shared
from tclint.verdicts.completion import BULK_GROUPS, COPY_GROUPS, TENSOR_GROUPS, WGMMA_GROUPS
from tclint.verdicts.epochs import SHARED
from tclint.verdicts.mma_checker import MMA_GROUPS
from tclint.verdicts.own_loops import observing_loops
from tclint.verdicts.proxy_checker import concerns
from tclint.verdicts.tensor_space import TENSOR_MEMORY
from tclint.verdicts.uniform import collective

__all__ = ["events"]

_CONCERNS: Mapping[HazardClass, Callable[[Instruction], bool]] = {
    HazardClass.WGMMA: lambda i: i.effects.begins in WGMMA_GROUPS,
    HazardClass.TMEM_ACCESS: lambda i: i.effects.begins in TENSOR_GROUPS,
    HazardClass.TCGEN05_MMA: lambda i: i.effects.begins in MMA_GROUPS,
    HazardClass.CP_ASYNC: lambda i: i.effects.begins in COPY_GROUPS,
    HazardClass.BULK: lambda i: i.effects.begins in BULK_GROUPS,
    HazardClass.PROXIES: concerns,
    HazardClass.CONVERGENCE: lambda i: collective(0, i) is not None,
    HazardClass.SHARED_MEMORY: SHARED.concerns,
    HazardClass.TENSOR_MEMORY: TENSOR_MEMORY.concerns,
    HazardClass.MBARRIER: operates,
    HazardClass.REGISTER_POOL: lambda i: i.effects.resource is Resource.REGISTERS,
    HazardClass.DEADLOCK: lambda i: i.effects.may_block or collective(0, i) is not None,
}
"""Class -> whether an obligation of it may be about an instruction that is not a call."""


def events(model: KernelModel) -> dict[HazardClass, frozenset[int]]:
    """The classes that the kernel uses but availability, which every kernel uses, in the order of :class:`HazardClass`, each
    with the reachable instructions for which it does."""
    found: dict[HazardClass, set[int]] = {}
    function, module, block_of = model.function, model.module, model.cfg.block_of
    everything = (function, *reached(function, module))
    shares = _has_shared(everything, model)

    @cache
    def of_callee(name: str) -> Collection[HazardClass]:
        body = module.function(name)
        bodies = () if body is None else (body, *reached(body, module))
        classes = {
            hazard
            for f in bodies
            for use in f.uses
            if use.sites and f.instructions[use.sites[0]].flow != "call"
            for hazard in _classes(f.instructions[use.sites[0]], shares)
        }
        return classes | {HazardClass.DEADLOCK for f in bodies if _polls(f, CFG(f))}

    for use in function.uses:
        sites = [site for site in use.sites if block_of[site] in model.cfg.rank]
        if sites and function.instructions[sites[0]].flow == "call":
            for site in sites:
                for hazard in of_callee(function.instructions[site].callee):
                    found.setdefault(hazard, set()).add(site)
        elif sites:
            for hazard in _classes(function.instructions[sites[0]], shares):
                found.setdefault(hazard, set()).update(sites)
    if polls := _polls(function, model.cfg):
        found.setdefault(HazardClass.DEADLOCK, set()).update(polls)
    if anything := {site for site, _, _ in hidden(model)}:
        for hazard in _CONCERNS:
            found.setdefault(hazard, set()).update(anything)
    return {hazard: frozenset(found[hazard]) for hazard in HazardClass if hazard in found}


def _polls(function: Function, cfg: CFG) -> set[int]:
    """The branches of loops whose end other threads may decide, or which end under an assumption alone."""
    blocks = [range(block.start, block.end) for block in cfg.blocks]
    loops = observing_loops(function, Graph(blocks, cfg.successors, cfg.exits))
    return {loop.site for loop in loops if loop.by is not None or loop.assumed}


def _classes(instruction: Instruction, shares: bool) -> Iterator[HazardClass]:
    """The classes of which an obligation may be about an instruction; a generic address may be one of shared memory only if
    the kernel *shares*."""
    for hazard, concern in _CONCERNS.items():
        if concern(instruction) and (
            hazard is not HazardClass.SHARED_MEMORY or shares or names_shared(instruction)
        ):
            yield hazard


def _has_shared(functions: Collection[Function], model: KernelModel) -> bool:
    """Whether *functions* may have an address of shared memory: they name a variable in it, or the state space itself."""
    scopes = [model.module.variables, *(f.variables for f in functions)]
    variables = [variable for scope in scopes for variable in scope.values()]
    matches = [use.match for f in functions for use in f.uses if use.match is not None]
    return any(variable.space.startswith(".shared") for variable in variables) or any(
        match.form.name == "mapa" or any(m.startswith(".shared") for m in (match.space, *match.modifiers))
        for match in matches
    )
