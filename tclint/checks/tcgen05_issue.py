"""Checks of the issuing threads: one thread executes tcgen05.mma, .cp, .shift and .commit (PTX ISA 9.7.16.5,
9.7.16.12.1)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.issuers import _deciding, by_several_threads
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._wording import called
from tclint.isa.effects import TRANSACTIONS
from tclint.isa.forms import Match
from tclint.values import Values
from tclint.values import thread_masks as T
from tclint.values.nodes import Compare, Elected, Logic

CV009 = RuleId("CV009")
TC010 = RuleId("TC010")


def _for_one_thread(match: Match) -> bool:
    """Whether a single thread must execute the instruction on behalf of the others."""
    return match.form.issued_by == "thread"


def _once_for_a_warp(match: Match) -> bool:
    """Whether ptxas compiles it to a loop over the active threads: it does not for bulk stores, which a bulk group
    completes."""
    form = match.form
    return form.issued_by == "thread" or (
        form.effects.begins == TRANSACTIONS and any(r[0] == "*" for r in form.async_reads)
    )


@check(TC010)
def issued_by_several_threads(model: KernelModel) -> Iterator[Hit]:
    """An instruction for a single thread that several threads of a warp provably execute."""
    for threads, sites in by_several_threads(model, model.matching(_for_one_thread)).items():
        name = called(model, sites[0])
        who = model.describe_threads(threads)
        yield TC010.hit(
            site=sites[0],
            message=f"{name} is executed by {who}, and each of these threads starts an operation of its own: "
            "a single thread must issue it",
            steps=(Mark(sites[0], "starts one operation for each thread", role=who),),
            count=len(sites),
            about=frozenset(sites),
            help="guard it with the predicate of elect.sync, in one warp only",
        )


@check(CV009)
def not_elected(model: KernelModel) -> Iterator[Hit]:
    """One note per kernel: instructions for a single thread whose condition ptxas does not recognise as such."""
    values = model.values
    found: list[tuple[int, int]] = []
    for i in model.matching(_once_for_a_warp):
        threads = model.views.context_of(i).threads
        if not threads or not T.at_most_one_lane(threads):
            continue
        electing = [p for p in _deciding(model, i) if _elects(values, p)]
        if electing and not any(_recognised(model, p) for p in electing):
            found.append((i, threads))
    # A loop around one or two instructions that are executed once costs nothing.
    if len(found) <= 2 and not any(model.cfg.block_of[i] in model.cfg.in_cycle for i, _ in found):
        return
    site, threads = min(found)
    role = model.describe_threads(threads)
    yield CV009.hit(
        site=site,
        message=f"{called(model, site)} is executed by {role} only, but ptxas does not recognise the condition as "
        "true in a single thread, and generates a loop over the active threads",
        steps=(Mark(site, "compiles to an ELECT loop", role=role),),
        count=len(found),
        help="select the thread with elect.sync, after a branch that only one warp takes",
    )


def _elects(values: Values, p: int) -> bool:
    """Whether *p* provably holds in at most one thread of each warp."""
    mask = values.mask(p)
    return mask is not None and T.at_most_one_lane(mask)


def _recognised(model: KernelModel, p: int) -> bool:
    """Whether ptxas 13 recognises that *p* is true in one thread: an election, or an index tested for equality.

    The index is %laneid, or %tid.x if .reqntid declares one dimension.
    """
    values = model.values
    node = values.node(p)
    if type(node) is Logic and node.name == "and":
        return any(
            isinstance(values.node(q), Elected | Logic) and _recognised(model, q) for q in node.operands
        )
    if type(node) is Compare and node.relation == "eq":
        indices = ["%laneid"]
        if model.function.threads is not None and values.one_dimensional:
            indices.append("%tid.x")
        return any(values.is_special(x, index) for x in node.operands for index in indices)
    return type(node) is Elected
