"""Items without work: a word of global memory, the size of an item, that a kernel compares with 0 (PTX ISA 9.7.13.15).

All words of memory are equal in most launches that are replayed, so an item is empty in none of them. Where all roles
read the sizes from one buffer, a launch in which empty items alternate with others is as real. It counts only if the
kernel is made for empty items: what synchronises depends on whether there is one, and not only as the body of a loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from tclint.ir.cfg import Edge
from tclint.isa.effects import Barrier
from tclint.replay.interface import EmptyItem
from tclint.replay.program import ReplaySlice

__all__ = ["empty_item"]


def empty_item(program: ReplaySlice) -> EmptyItem | None:
    """The load of the size of an item that decides more than how often a loop iterates; None if there is none.

    Also None if what the kernel loads from global memory may be other than the sizes of one list of items.
    """
    model, sites = program.model, program.memory_loads
    uses = [(site, match) for site in sites if (match := model.instruction(site).match) is not None]
    lists = {(program.inputs.buffer(site), program.inputs.word(site), match.element) for site, match in uses}
    if len(lists) != 1 or any(
        match.element[1] == "f"
        or len(model.instruction(site).writes) != 1
        or [verb for verb, _ in match.form.memory] != ["read"]
        for site, match in uses
    ):
        return None
    decided = (each for site in sites for each in _decided(program, site))
    return max(decided, key=lambda item: item.if_zero, default=None)


def _decided(program: ReplaySlice, load: int) -> Iterator[EmptyItem]:
    """What threads do at an mbarrier only if what *load* reads is 0, or only if it is not, outside the loop that it bounds."""
    model, cfg = program.model, program.model.cfg
    register = model.instruction(load).writes[0]
    size, name = model.values.after(register, load), model.function.registers[register].name
    for block in sorted(program.synchronising):
        for edge in cfg.control_dependences(block):
            empty = _taken_if_empty(program, edge, size)
            if empty or (empty is False and edge.source in cfg.innermost(block)):
                inside = range(cfg.blocks[block].start, cfg.blocks[block].end)
                site = next(
                    (i for i in inside if model.instruction(i).effects.barrier is Barrier.MBARRIER), None
                )
                if site is not None:
                    yield EmptyItem(load, name, site, empty)


def _taken_if_empty(program: ReplaySlice, edge: Edge, size: int) -> bool | None:
    """Whether *edge* is taken if *size* is 0, or none, and not otherwise; None of a branch on anything else."""
    model, values = program.model, program.model.values
    p = model.reachability.edge_predicate(edge)
    if p is None:
        return None
    test, taken = values.comparison(p, edge.value)
    if test is None:
        return None
    left, right = map(values.representative, test.operands)
    size, limit = values.representative(size), 0 if test.relation == "eq" else 1
    if left == size and values.constant_of(right) == limit:
        return taken
    return not taken if right == size and test.relation == "lt" and values.constant_of(left) == 0 else None
