"""The threads that issue what one thread, or one per warp, should issue (PTX ISA 9.7.9.25.4, 9.7.16.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tclint.analyses.execution import conditions
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import registers
from tclint.isa.effects import TRANSACTIONS
from tclint.isa.forms import Form, Match
from tclint.values import UniformityScope
from tclint.values import thread_masks as T

__all__ = [
    "by_several_threads",
    "copies_in_bulk",
    "issued_by_each_lane",
    "once_for_a_warp",
    "same_in_all_lanes",
]


def _deciding(model: KernelModel, site: int) -> Iterator[int]:
    """The values of the predicates that *site* depends on, negated where necessary: each is true when it executes."""
    values = model.values
    for condition in conditions(model, site):
        p = values.before(condition.register, condition.at)
        yield p if condition.value else values.negate(p)


def by_several_threads(model: KernelModel, sites: Iterable[int]) -> dict[T.Threads, list[int]]:
    """The *sites* that several threads of one warp are proven to execute, keyed by the threads that execute them."""
    found: dict[int, list[int]] = {}
    for site in sites:
        threads = _several(model, site)
        if threads:
            found.setdefault(threads, []).append(site)
    return found


def _several(model: KernelModel, site: int) -> T.Threads:
    """The threads that execute *site* whenever it is executed, if they are proven to be several of one warp; else 0.

    The proof requires that every condition depend on the thread index alone or be warp-uniform: then none of the lanes
    that the thread index admits is excluded by another condition.
    """
    if not model.function.entry:
        return 0  # a caller may call it with one thread
    threads, values = model.present(site), model.values
    if T.at_most_one_lane(threads):
        return 0
    proven = all(
        values.mask(p) is not None or values.uniformity(p) <= UniformityScope.WARP
        for p in _deciding(model, site)
    )
    return threads if proven else 0


def copies_in_bulk(form: Form) -> bool:
    """Whether a form is a bulk copy that a thread issues: it has a byte count, or a tensor map that determines it."""
    roles = form.roles.keys()
    return (
        form.effects.begins is not None
        and form.scope == "thread"
        and not roles.isdisjoint(("bytes", "tensormap"))
    )


def issued_by_each_lane(match: Match) -> bool:
    """Whether each executing thread issues a copy of its own.

    ptxas 13 issues a plain bulk store once for a warp, and compiles every other bulk copy to a loop over the lanes.
    """
    return copies_in_bulk(match.form) and (match.form.group == TRANSACTIONS or "redOp" in match.binding)


def same_in_all_lanes(model: KernelModel, site: int) -> bool:
    """Whether the destination of a bulk copy is warp-uniform, and, for a copy to global memory, the source as well."""
    instruction = model.instruction(site)
    roles = ("destination",) if instruction.group == TRANSACTIONS else ("destination", "coords", "source")
    operands = [o for role in roles if (o := instruction.role(role)) is not None]
    values = model.values
    return bool(operands) and all(
        values.uniformity(values.before(r, site)) <= UniformityScope.WARP
        for o in operands
        for r in registers(o)
    )


def once_for_a_warp(model: KernelModel, site: int) -> bool:
    """Whether ptxas 13 issues the operation once for a warp: a plain bulk store with the same operands in all lanes."""
    match = model.instruction(site).match
    return (
        match is not None
        and copies_in_bulk(match.form)
        and not issued_by_each_lane(match)
        and same_in_all_lanes(model, site)
    )
