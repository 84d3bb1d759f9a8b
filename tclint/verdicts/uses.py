"""Which classes of hazards a kernel uses: those of whose events it has at least one that is reachable."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.model import KernelModel
from tclint.findings.verdicts import HazardClass
from tclint.isa.forms import Match

__all__ = ["events", "uses"]

_BY_GROUP = {
    "wgmma": HazardClass.WGMMA,
    "tcgen05": HazardClass.TCGEN05_MMA,
    "tcgen05.ld": HazardClass.TMEM_ACCESS,
    "tcgen05.st": HazardClass.TMEM_ACCESS,
    "cp.async": HazardClass.CP_ASYNC,
    "bulk": HazardClass.BULK,
}
"""The group of an operation -> the class of its completion for the thread that issues it."""
_ALONE = ("active", "thread")
"""The scopes of instructions that need no other thread."""


def uses(model: KernelModel) -> tuple[HazardClass, ...]:
    """The classes that the kernel uses, in the order of :class:`HazardClass`; availability is one of every kernel."""
    found = {HazardClass.AVAILABILITY, *events(model)}
    return tuple(hazard for hazard in HazardClass if hazard in found)


def events(model: KernelModel) -> dict[HazardClass, frozenset[int]]:
    """The reachable instructions for which the kernel uses each class but availability."""
    found: dict[HazardClass, set[int]] = {}
    reachable, block_of = model.cfg.rank, model.cfg.block_of
    variables = (*model.function.variables.values(), *model.module.variables.values())
    shares = any(variable.space.startswith(".shared") for variable in variables)
    for use in model.function.uses:
        sites = {site for site in use.sites if block_of[site] in reachable}
        for hazard in _classes(use.match, shares) if use.match is not None and sites else ():
            found.setdefault(hazard, set()).update(sites)
    return {hazard: frozenset(sites) for hazard, sites in found.items()}


def _classes(match: Match, shares: bool) -> Iterator[HazardClass]:
    """The classes that an instruction makes a kernel use; a generic address may be one of shared memory if it *shares*."""
    form = match.form
    if form.event == "issue" and form.group in _BY_GROUP:
        yield _BY_GROUP[form.group]
    if form.event.startswith("mbarrier"):
        yield HazardClass.MBARRIER
    if form.event == "setmaxnreg":
        yield HazardClass.REGISTER_POOL
    if match.scope and match.scope not in _ALONE:
        yield HazardClass.CONVERGENCE
    if form.group.startswith("tcgen05") or form.event.startswith("tmem"):
        yield HazardClass.TENSOR_MEMORY
    if form.proxy and form.proxy != "tcgen05":
        yield HazardClass.PROXIES
    somewhere = shares and not match.space
    if (somewhere or match.space.startswith(".shared")) and (
        form.memory or form.async_reads or form.async_writes
    ):
        yield HazardClass.SHARED_MEMORY
