"""Loops that wait for a word of memory which nothing in them reads again (PTX ISA 8.4)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Instruction, Special
from tclint.values.nodes import Loaded

MO004 = RuleId("MO004")

_SHARED_BY_THREADS = (".global", ".shared", "")
"""The state spaces that other threads may write, as a load states them; "" is a generic address."""


@check(MO004)
def poll_outside_loop(model: KernelModel) -> Iterator[Hit]:
    """A loop whose exit depends on a word that was loaded before it, and on nothing that the loop changes."""
    cfg, values = model.cfg, model.values
    ended = cfg.nest.having(b for b in cfg.order if b in cfg.exits or cfg.aborts(b))
    for header, body in cfg.loops.items():
        ends = cfg.leaving[header]
        if header in ended or any(e.predicate < 0 or not _fixed(model, e, body) for e in ends):
            continue
        if not ends and _does_nothing(model, body):
            ends = [e for e in cfg.predecessors[header] if e.source not in body and e.predicate >= 0]
        tested = [(cfg.blocks[e.source].end - 1, e.predicate) for e in ends]
        conditions = [values.before(register, at) for at, register in tested]
        loads = [
            node.site
            for node in map(values.node, values.subexpressions(*conditions))
            if type(node) is Loaded and node.space.partition("::")[0] in _SHARED_BY_THREADS
        ]
        if loads:
            yield _hit(model, loads[0], tested[0][0], cfg.blocks[header].start)


def _fixed(model: KernelModel, end: Edge, body: Collection[int]) -> bool:
    """Whether the condition of *end* is the same in every iteration of a loop that consists of the blocks *body*.

    It is if its block computes it from other registers alone.
    """
    needed = {end.predicate}
    for each in reversed(_instructions(model, end.source)):
        if needed.isdisjoint(each.writes):
            continue
        computed = each.match is not None and each.match.form.compute and each.guard < 0
        if not computed or any(isinstance(o, Special) for o in each.operands):
            return False  # a special register may be a clock
        needed = needed.difference(each.writes).union(each.reads)
    return not any(_written_in(model, register, body) for register in needed)


def _written_in(model: KernelModel, register: int, body: Collection[int]) -> bool:
    """Whether one of the blocks *body* writes a register."""
    writes = model.values.defs.get(register, ())
    if len(writes) > len(body):
        return any(register in each.writes for block in body for each in _instructions(model, block))
    return any(model.cfg.block_of[site] in body for site in writes)


def _does_nothing(model: KernelModel, body: Collection[int]) -> bool:
    """Whether no iteration of the loop accesses memory, synchronises or calls, so that it can only have been a poll."""
    return not any(
        match is None or match.form.memory or match.form.event or match.form.flow == "call"
        for b in body
        for match in (each.match for each in _instructions(model, b))
    )


def _instructions(model: KernelModel, block: int) -> list[Instruction]:
    return model.function.instructions[model.cfg.blocks[block].start : model.cfg.blocks[block].end]


def _hit(model: KernelModel, load: int, test: int, start: int) -> Hit:
    return MO004.hit(
        site=load,
        message="the loop that waits for this word never loads it again: once entered, it does not end",
        steps=(
            Mark(load, "loads the word, once"),
            Mark(test, "tests it"),
            Mark(start, "iterates without loading it"),
        ),
        help="load the word in the loop, with ld.acquire, ld.relaxed or ld.volatile, which a compiler does not move out of "
        "it",
        about=frozenset((load,)),
    )
