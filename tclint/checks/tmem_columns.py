"""Checks of the sizes and the order of tensor memory allocations (PTX ISA 9.7.16.7.1)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.role_paths import dominated_by
from tclint.analyses.tmem_allocation import TensorAllocation
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._wording import in_words
from tclint.findings.scales import Confidence
from tclint.isa.effects import Resource
from tclint.values import UniformityScope
from tclint.values.nodes import Constant, Phi, Select

TM002 = RuleId("TM002")
TM004 = RuleId("TM004")
TM005 = RuleId("TM005")


@check(TM002)
def column_count(model: KernelModel) -> Iterator[Hit]:
    """A number of columns, given in a register, that no allocation can have; the assembler rejects an immediate."""
    values = model.values
    wrong: dict[tuple[str, tuple[range, ...]], list[int]] = {}
    divergent: dict[int, list[int]] = {}
    for site in (*model.sites(Resource.TMEM_ALLOC), *model.sites(Resource.TMEM_DEALLOC)):
        operand = model.instruction(site).role("columns")
        if not isinstance(operand, int):
            continue
        value = values.operand(operand, site)
        known, allowed = _alternatives(model, value), TensorAllocation.allowed(model.instruction(site))
        if known and not any(number in numbers for number in known for numbers in allowed):
            wrong.setdefault((" or ".join(map(str, sorted(known))), allowed), []).append(site)
        elif values.uniformity(value) is UniformityScope.DIVERGENT:
            divergent.setdefault(value, []).append(site)
    for (numbers, allowed), sites in wrong.items():
        step = max(len(numbers) for numbers in allowed) > 1
        verb = "allocates" if model.instruction(sites[0]).effects.resource is Resource.TMEM_ALLOC else "frees"
        yield TM002.hit(
            site=sites[0],
            message=f"{model.name(sites[0])} {verb} {numbers} columns of tensor memory: the number must be {in_words(allowed)}",
            count=len(sites),
            help="round the number of columns up to a multiple of 32"
            if step
            else "round the number of columns up to a power of two, at least 32",
        )
    for sites in divergent.values():
        yield TM002.hit(
            site=sites[0],
            message="the number of columns differs between the threads of the warp, but must be warp-uniform",
            count=len(sites),
            help="pass the same number of columns in all threads of the warp",
            confidence=Confidence.MEDIUM,
        )


def _alternatives(model: KernelModel, value: int) -> set[int]:
    """The constants that *value* may be; empty if it may be something else."""
    values = model.values
    found: set[int] = set()
    seen: set[int] = set()
    work = [value]
    while work:
        value = values.representative(work.pop())
        if value in seen:
            continue
        seen.add(value)
        node = values.node(value)
        if type(node) is Select:
            work += node.arms
        elif type(node) is Phi and values.arguments(value):
            work += values.arguments(value)
        elif type(node) is Constant:
            found.add(node.number & 0xFFFFFFFF)
        else:
            return set()
    return found


@check(TM004, TM005, analyses=(HappensBefore, TensorAllocation))
def order(model: KernelModel) -> Iterator[Hit]:
    """Allocations after the permit was relinquished, and larger ones after smaller ones."""
    allocations, relinquished = model.sites(Resource.TMEM_ALLOC), model.sites(Resource.TMEM_RELINQUISH)
    if len(allocations) + len(relinquished) < 2:
        return
    memory, _ = model.solution(TensorAllocation)
    for site in memory.allocations:
        for first in relinquished:
            steps = _earlier(
                model, first, site, "relinquishes the permit to allocate", "allocates after relinquishing"
            )
            if steps:
                yield TM004.hit(
                    site=site,
                    message=f"{model.name(site)} allocates tensor memory after the CTA relinquished the permit: tcgen05.relinquish_alloc_permit is permanent",
                    steps=steps,
                    help="move tcgen05.relinquish_alloc_permit after the last allocation",
                    confidence=None if len(steps) == 2 else Confidence.MEDIUM,
                )
                break
        columns = memory.columns(site)
        for first in memory.allocations:
            before = memory.columns(first)
            if columns is None or before is None or before >= columns:
                continue
            steps = _earlier(
                model, first, site, f"{before} columns are allocated", f"then allocates {columns} columns"
            )
            if steps:
                yield TM005.hit(
                    site=site,
                    message=f"{model.name(site)} allocates {columns} columns of tensor memory after an allocation of {before}: "
                    "the allocations of a CTA must not grow",
                    steps=steps,
                    help="allocate the largest number of columns first",
                    confidence=None if len(steps) == 2 else Confidence.MEDIUM,
                )
                break


def _earlier(model: KernelModel, first: int, second: int, once: str, then: str) -> tuple[Mark, ...]:
    """The steps that show *first* before *second*: a path of one thread, or a barrier between two warps; else empty."""
    _, results = model.solution(TensorAllocation)
    path = model.path(
        FactQuery(
            first, True, results, lambda state, i, instruction: state, lambda state, i: i == second, (second,)
        )
    ).witness
    if path is not None:
        role = model.describe_threads(path.threads)
        return Mark(first, once, role=role), Mark(second, then, role=role)
    if model.views.exclusive(first, second):
        return ()
    for barrier in model.fact(HappensBefore).points.cta_wide_barriers:
        if (
            dominated_by(model, barrier, second)
            and model.reaches(first, barrier)
            and not model.reaches(barrier, first)
        ):
            return (
                Mark(first, once, role=model.describe_threads(model.views.context_of(first).threads)),
                Mark(barrier, "all threads of the CTA wait here"),
                Mark(second, then, role=model.describe_threads(model.views.context_of(second).threads)),
            )
    return ()
