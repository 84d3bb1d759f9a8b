"""How many threads issue an operation that one thread, or one per warp, should issue (PTX ISA 9.7.9.25.4, 9.7.16.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tclint.analyses.execution import conditions
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import registers
from tclint.isa.table import Form, Match
from tclint.values import Level
from tclint.values import thread_masks as T

__all__ = [
    "by_several_threads",
    "copies_in_bulk",
    "issued_by_each_lane",
    "once_for_a_warp",
    "reachable",
    "same_in_all_lanes",
]


def reachable(model: KernelModel, wanted: Callable[[Match], bool]) -> list[int]:
    """The reachable instructions that are *wanted*."""
    rank, block_of = model.cfg.rank, model.cfg.block_of
    return [
        i
        for use in model.function.uses
        if use.match is not None and wanted(use.match)
        for i in use.sites
        if block_of[i] in rank
    ]


def _deciding(model: KernelModel, site: int) -> Iterator[int]:
    """The predicate values that hold when the instruction executes, each alone."""
    values = model.values
    for condition in conditions(model, site):
        p = values.before(condition.register, condition.at)
        yield p if condition.value else values.negate(p)


def by_several_threads(model: KernelModel, sites: Iterable[int]) -> dict[int, list[int]]:
    """Those of *sites* that several threads of a warp are proven to execute, by these."""
    found: dict[int, list[int]] = {}
    for site in sites:
        threads = _several(model, site)
        if threads:
            found.setdefault(threads, []).append(site)
    return found


def _several(model: KernelModel, site: int) -> int:
    """The threads that are proven to execute *site*, several of a warp; 0 when that is not so.

    Every condition on the way must depend on the thread index alone or be the
    same in the whole warp: then no lane that is left drops out.
    """
    if not model.function.entry:
        return 0  # the callers may leave one thread
    threads, values = model.present(site), model.values
    if T.at_most_one_lane(threads):
        return 0
    sure = all(values.mask(p) is not None or values.level(p) <= Level.WARP for p in _deciding(model, site))
    return threads if sure else 0


def copies_in_bulk(form: Form) -> bool:
    """Whether a form copies in bulk: it has a number of bytes, or a tensor map that says it."""
    return form.event == "issue" and not form.roles.keys().isdisjoint(("bytes", "tensormap"))


def issued_by_each_lane(match: Match) -> bool:
    """Whether each thread starts a copy of its own: ptxas 13 lets a warp store once, and loops for all else."""
    return copies_in_bulk(match.form) and (match.form.group == "mbarrier" or "redOp" in match.binding)


def same_in_all_lanes(model: KernelModel, site: int) -> bool:
    """Whether all lanes of a warp copy to the same place, and, into global memory, from the same one."""
    instruction = model.instruction(site)
    roles = ("destination",) if instruction.group == "mbarrier" else ("destination", "coords", "source")
    operands = [o for role in roles if (o := instruction.role(role)) is not None]
    values = model.values
    return bool(operands) and all(
        values.level(values.before(r, site)) <= Level.WARP for o in operands for r in registers(o)
    )


def once_for_a_warp(model: KernelModel, site: int) -> bool:
    """Whether ptxas 13 lets a warp start an operation once: a plain store, the same one in all lanes."""
    match = model.instruction(site).match
    return (
        match is not None
        and copies_in_bulk(match.form)
        and not issued_by_each_lane(match)
        and same_in_all_lanes(model, site)
    )
