"""Incomplete warpgroups at instructions that a whole warpgroup must execute (PTX ISA 9.7.15.1, 9.7.19.5)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.execution import conditions, executing
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._wording import agreeing, together
from tclint.findings.scales import Confidence, Severity
from tclint.isa.effects import Resource
from tclint.values import thread_masks as T

CV004 = RuleId("CV004")

_WARPGROUP = 128


@check(also=(CV004,))
def incomplete(model: KernelModel) -> Iterator[Hit]:
    """Warpgroup instructions of a CTA with an incomplete warpgroup, and setmaxnreg in some warps of one."""
    if not model.function.entry:
        return
    sites = [i for u in model.function.uses if u.match and u.match.scope == "warpgroup" for i in u.sites]
    if not sites:
        return
    changes = [i for i in sites if model.instruction(i).effects.resource is Resource.REGISTERS]
    bound = model.function.most_threads
    if bound and bound % _WARPGROUP:
        yield from _partial_cta(model, [i for i in sites if i not in changes], bound)
    if changes:
        yield from _without_setmaxnreg(model, changes)


def _partial_cta(model: KernelModel, sites: list[int], bound: int) -> Iterator[Hit]:
    """One hit for those of *sites* that the warps of an incomplete warpgroup execute, in a CTA of *bound* threads."""
    last = T.full(bound) & ~T.full(bound // _WARPGROUP * _WARPGROUP)
    found = []
    for i in sites:
        known = executing(model, i)
        if known is None or not known[0] & last:
            continue
        # A launch may have fewer threads than a bound, and an unknown condition may exclude the last warps, unless the
        # CTA has no other warps.
        if bound < _WARPGROUP or (known[1] and model.values.cta_size):
            found.append(i)
    if found:
        opcode = together(model.instruction(found[0]))
        has = f"the CTA has {bound} threads"
        if bound > _WARPGROUP:
            has = f"the last warpgroup of a CTA of {bound} threads has only {bound % _WARPGROUP} threads"
        yield CV004.hit(
            site=min(found),
            message=f"{opcode} needs the four warps of a warpgroup, but {has}",
            help=f"launch a multiple of {_WARPGROUP} threads, or execute it in complete warpgroups only",
            count=len(found),
            confidence=None if model.function.threads or bound < _WARPGROUP else Confidence.MEDIUM,
        )


def _without_setmaxnreg(model: KernelModel, sites: list[int]) -> Iterator[Hit]:
    """A hit for the first setmaxnreg of *sites* whose warpgroup has warps that execute none of them."""
    arriving = 0
    for i in sites:
        arriving |= T.whole(model.views.context_of(i).threads, 32)  # CV001 to CV003 report a part of a warp
    for i in sites:
        known = executing(model, i)
        if known is None or not known[1]:
            continue
        missing = T.whole(known[0], _WARPGROUP) & model.cta & ~arriving
        if missing:
            branches = [c for c in conditions(model, i) if c.edge is not None]
            yield CV004.hit(
                site=i,
                message="setmaxnreg must be executed by all warps of a warpgroup, but "
                f"{agreeing(model.describe_threads(missing), 'executes', 'execute')} none",
                steps=(
                    *(Mark(c.at, "decides which warps execute it") for c in branches[:1]),
                    Mark(i, "executed by only some warps of the warpgroup"),
                ),
                confidence=Confidence.MEDIUM,
                help="execute a setmaxnreg with the same count in the other warps of the warpgroup",
            ).unshown(Severity.WARNING)  # each warp changes its own registers
            return
