"""Checks of who issues: tcgen05.mma, .cp, .shift and .commit are for one thread (PTX ISA 9.7.16.5, 9.7.16.12.1)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.issuers import _deciding, by_several_threads, reachable
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.ir.nodes import Instruction
from tclint.isa.table import Match
from tclint.values import Values
from tclint.values import thread_masks as T

CV009 = RuleId("CV009")
TC010 = RuleId("TC010")


def _name(instruction: Instruction) -> str:
    words = instruction.opcode.split(".")
    return ".".join(words[:2] if words[0] == "tcgen05" else words[:3])


def _for_one_thread(match: Match) -> bool:
    """Whether one thread must execute the instruction for all."""
    return match.form.issued_by == "thread"


def _once_for_a_warp(match: Match) -> bool:
    """Whether ptxas makes a loop over the threads: it does not for stores that a bulk group completes."""
    form = match.form
    return form.issued_by == "thread" or (
        form.event == "issue" and form.group == "mbarrier" and any(r[0] == "*" for r in form.async_reads)
    )


@check(TC010, needs="tcgen05")
def issued_by_several_threads(model: KernelModel) -> Iterator[Hit]:
    """An operation for one thread that several threads of a warp are proven to execute."""
    for threads, sites in by_several_threads(model, reachable(model, _for_one_thread)).items():
        name = _name(model.instruction(sites[0]))
        who = model.describe_threads(threads)
        yield TC010.hit(
            site=sites[0],
            message=f"{name} is executed by {who}, and each of these threads starts an operation of its own: "
            "one thread must issue it",
            steps=(Mark(sites[0], "executed once for each thread", role=who),),
            count=len(sites),
            about=frozenset(sites),
            help="guard it with the predicate of elect.sync, in one warp",
        )


@check(CV009)
def not_elected(model: KernelModel) -> Iterator[Hit]:
    """One note per kernel: warp-wide instructions for one thread, of which ptxas cannot see that one executes them."""
    values = model.values
    found: list[tuple[int, int]] = []
    for i in reachable(model, _once_for_a_warp):
        threads = model.views.context_of(i).threads
        if not threads or not T.at_most_one_lane(threads):
            continue
        choosing = [p for p in _deciding(model, i) if _chooses(values, p)]
        if choosing and not any(_recognised(model, p) for p in choosing):
            found.append((i, threads))
    # Setting something up once costs nothing.
    if len(found) <= 2 and not any(model.cfg.block_of[i] in model.cfg.in_cycle for i, _ in found):
        return
    site, threads = min(found)
    role = model.describe_threads(threads)
    yield CV009.hit(
        site=site,
        message=f"{_name(model.instruction(site))} is executed by {role} only, but ptxas cannot see from the condition that "
        "it is one thread, and makes a loop over the active threads",
        steps=(Mark(site, "becomes ELECT, the instruction and a branch back", role=role),),
        count=len(found),
        help="let elect.sync choose the thread, after a branch that leaves one warp",
    )


def _chooses(values: Values, p: int) -> bool:
    """Whether *p* is known to hold in one thread of a warp at most."""
    mask = values.mask(p)
    return mask is not None and T.at_most_one_lane(mask)


def _recognised(model: KernelModel, p: int) -> bool:
    """Whether ptxas 13 takes *p* for true in one thread: an election, or an index that equals a number.

    The index is %laneid, or %tid.x where .reqntid says that there is no other dimension.
    """
    values = model.values
    node = values.node(p)
    if node[0] == "logic" and node[1] == "and":
        return any(values.node(q)[0] in ("elect", "logic") and _recognised(model, q) for q in node[2:4])
    if node[0] == "compare" and node[1] == "eq":
        indices = ["%laneid"]
        if model.function.threads is not None and values.one_dimensional:
            indices.append("%tid.x")
        return any(values.node(x) == ("special", index) for x in node[2:4] for index in indices)
    return bool(node[0] == "elect")
