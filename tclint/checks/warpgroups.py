"""Warpgroups that are not whole (PTX ISA 9.7.15.1, 9.7.19.5)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.execution import conditions, executing
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.findings.scales import Confidence, Severity
from tclint.values import thread_masks as T

CV004 = RuleId("CV004")

_WARPGROUP = 128


@check(also=(CV004,))
def incomplete(model: KernelModel) -> Iterator[Hit]:
    """Instructions of a warpgroup in a CTA that has no whole one for them, and setmaxnreg in some of its warps."""
    if not model.function.entry:
        return
    sites = [i for u in model.function.uses if u.match and u.match.scope == "warpgroup" for i in u.sites]
    if not sites:
        return
    changes = [i for i in sites if model.instruction(i).event == "setmaxnreg"]
    bound = model.function.most_threads
    if bound and bound % _WARPGROUP:
        yield from _broken(model, [i for i in sites if i not in changes], bound)
    if changes:
        yield from _left_behind(model, changes)


def _broken(model: KernelModel, sites: list[int], bound: int) -> Iterator[Hit]:
    """Those of *sites* that warps of an incomplete warpgroup execute."""
    last = T.full(bound) & ~T.full(bound // _WARPGROUP * _WARPGROUP)
    found = []
    for i in sites:
        known = executing(model, i)
        if known is None or not known[0] & last:
            continue
        # A bound may not be reached, and a condition may keep the last warps away, unless there are no others.
        if bound < _WARPGROUP or (known[1] and model.function.threads):
            found.append(i)
    if found:
        opcode = model.instruction(found[0]).opcode.partition(".sync")[0]
        has = f"the CTA has {bound} threads"
        if bound > _WARPGROUP:
            has = f"the last one of a CTA of {bound} threads has {bound % _WARPGROUP} threads"
        yield CV004.hit(
            site=min(found),
            message=f"{opcode} needs the four warps of a warpgroup, but {has}",
            help=f"launch a multiple of {_WARPGROUP} threads, or let whole warpgroups execute it only",
            count=len(found),
        )


def _left_behind(model: KernelModel, sites: list[int]) -> Iterator[Hit]:
    """A setmaxnreg whose warpgroup has warps that come to none."""
    arriving = 0
    for i in sites:
        arriving |= T.whole(
            model.views.context_of(i).threads, 32
        )  # a part of a warp is what CV001 to CV003 are about
    for i in sites:
        known = executing(model, i)
        if known is None or not known[1]:
            continue
        missing = T.whole(known[0], _WARPGROUP) & model.cta & ~arriving
        if missing:
            decisive = [c for c in conditions(model, i) if c.edge is not None]
            yield CV004.hit(
                site=i,
                message="setmaxnreg must be executed by all warps of a warpgroup, but none is executed by "
                f"{model.describe_threads(missing)}",
                steps=(*(Mark(c.at, "decides which warps come") for c in decisive[:1]), Mark(i, "here")),
                # Undefined by the manual, but each warp changes its own registers: an H200 does not mind.
                severity=Severity.WARNING,
                confidence=Confidence.MEDIUM,
                help="execute one with the same count in the other warps of the warpgroup",
            )
            return
