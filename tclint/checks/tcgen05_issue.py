"""Checks of who issues: tcgen05.mma, .cp, .shift and .commit are for one thread (PTX ISA 9.7.16.5, 9.7.16.12.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tclint.analyses import threads as T
from tclint.analyses.values import Level, Values
from tclint.checks import Hit, Mark, check
from tclint.ir.nodes import Instruction
from tclint.isa.table import Form
from tclint.model import KernelModel


def _name(instruction: Instruction) -> str:
    words = instruction.opcode.split(".")
    return ".".join(words[:2] if words[0] == "tcgen05" else words[:3])


def _sites(model: KernelModel, wanted: Callable[[Form], bool]) -> list[int]:
    """The reachable instructions whose form is *wanted*."""
    reachable, block_of = model.cfg.rank, model.cfg.block_of
    return [
        i
        for use in model.function.uses
        if use.match is not None and wanted(use.match.form)
        for i in use.sites
        if block_of[i] in reachable
    ]


def _for_one_thread(form: Form) -> bool:
    """Whether one thread must execute the instruction for all."""
    return form.issued_by == "thread"


def _once_for_a_warp(form: Form) -> bool:
    """Whether ptxas makes a loop over the threads: it does not for stores that a bulk group completes."""
    return form.issued_by == "thread" or (
        form.event == "issue" and form.group == "mbarrier" and any(r[0] == "*" for r in form.async_reads)
    )


class _Conditions:
    """What decides whether an instruction executes: its guard, and the branches that its block depends on."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._of_block: dict[int, frozenset[int]] = {}

    def of(self, site: int) -> frozenset[int]:
        """The predicate values that hold when it executes, each alone."""
        model, values = self.model, self.model.values
        block = model.cfg.block_of[site]
        if block not in self._of_block:
            found = set()
            for edge in model.cfg.controllers(block):
                p = model.views.edge_value(edge)
                if p is not None:
                    found.add(p if edge.value else values.negate(p))
            self._of_block[block] = frozenset(found)
        instruction = model.instruction(site)
        if instruction.guard < 0:
            return self._of_block[block]
        p = values.before(instruction.guard, site)
        return self._of_block[block] | {values.negate(p) if instruction.negated else p}


@check("TC010", needs="tcgen05")
def issued_by_several_threads(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """An operation for one thread that several threads of a warp are proven to execute.

    Every condition on the way must depend on the thread index alone or be the
    same in the whole warp: then no lane that is left drops out.
    """
    if not model.function.entry:
        return  # the callers may leave one thread
    values = model.values
    conditions = _Conditions(model)
    found: dict[int, list[int]] = {}
    for i in _sites(model, _for_one_thread):
        threads = model.views.at(i).threads
        if T.at_most_one_lane(threads):
            continue
        if all(values.mask(p) is not None or values.level(p) <= Level.WARP for p in conditions.of(i)):
            found.setdefault(threads, []).append(i)
    for threads, sites in found.items():
        name = _name(model.instruction(sites[0]))
        who = T.describe(threads, values.threads)
        yield (
            "TC010",
            Hit(
                site=sites[0],
                message=f"{name} is executed by {who}, and each of these threads starts an operation of its own: "
                "one thread must issue it",
                steps=(Mark(sites[0], "executed once for each thread", role=who),),
                count=len(sites),
                help="guard it with the predicate of elect.sync, in one warp",
            ),
        )


@check("CV009")
def not_elected(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """One note per kernel: warp-wide instructions for one thread, of which ptxas cannot see that one executes them."""
    values = model.values
    conditions = _Conditions(model)
    found: list[tuple[int, int]] = []
    for i in _sites(model, _once_for_a_warp):
        threads = model.views.at(i).threads
        if not threads or not T.at_most_one_lane(threads):
            continue
        choosing = [p for p in conditions.of(i) if _chooses(values, p)]
        if choosing and not any(_recognised(model, p) for p in choosing):
            found.append((i, threads))
    # Setting something up once costs nothing.
    if len(found) <= 2 and not any(model.cfg.block_of[i] in model.cfg.in_cycle for i, _ in found):
        return
    site, threads = min(found)
    role = T.describe(threads, values.threads)
    yield (
        "CV009",
        Hit(
            site=site,
            message=f"{_name(model.instruction(site))} is executed by {role} only, but ptxas cannot see from the condition that "
            "it is one thread, and makes a loop over the active threads",
            steps=(Mark(site, "becomes ELECT, the instruction and a branch back", role=role),),
            count=len(found),
            help="let elect.sync choose the thread, after a branch that leaves one warp",
        ),
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
