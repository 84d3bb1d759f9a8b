"""Loops that poll: a word of memory which nothing in them reads again, or an mbarrier that could suspend them (PTX ISA 8.4, 9.7.13.15.16)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._needless import is_pure
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Instruction, Special, specials
from tclint.isa.effects import Barrier
from tclint.values.nodes import Loaded

MO004 = RuleId("MO004")
CO007 = RuleId("CO007")

_INTRODUCED = (7, 8)
_TARGET = 90
"""The version and the target with ``mbarrier.try_wait``."""

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
        if loads and not _advances(model, body):
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


def _advances(model: KernelModel, body: Collection[int]) -> bool:
    """Whether the loop writes elsewhere in each iteration, so that it fills an array and does not wait.

    Compilers keep the condition of a loop that they unroll, although it holds in no iteration or in one.
    """
    return any(
        model.cfg.block_of[at] in body if kind == "site" else at in body
        for block in body
        for i in range(model.cfg.blocks[block].start, model.cfg.blocks[block].end)
        for access in model.instruction(i).accesses
        if access.writes and (operand := model.instruction(i).named(access.operand)) is not None
        for kind, at in model.values.varying_at(model.values.operand(operand, i))
    )


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
        message=f"{model.name(load)} loads a word once, and the loop that waits for it never loads it again: once entered, it does not end",
        steps=(
            Mark(load, "loads the word, once"),
            Mark(test, "tests it"),
            Mark(start, "iterates without loading it"),
        ),
        help="load the word in the loop, with ld.acquire, ld.relaxed or ld.volatile, which a compiler does not move out of "
        "it",
        about=frozenset((load,)),
    )


@check(CO007)
def polls_busily(model: KernelModel) -> Iterator[Hit]:
    """A loop of test_wait with nothing else in it, where try_wait exists."""
    module = model.module
    target, version = module.target, module.version
    if target is None or version is None or target.number < _TARGET or version < _INTRODUCED:
        return
    tests = [i for i in model.awaits(Barrier.MBARRIER) if _tests(model.instruction(i))]
    cfg = model.cfg
    for test in tests:
        body = cfg.innermost(cfg.block_of[test])
        if body and _polls(model, body, test):
            yield CO007.hit(
                site=test,
                message=f"{model.name(test)} polls the mbarrier in a loop that does nothing else: each iteration takes an issue slot from "
                "the warps that work",
                steps=(Mark(test, "tests the phase and continues at once"),),
                help="use mbarrier.try_wait, which suspends the thread until the phase completes or a limit passes",
            )


def _tests(instruction: Instruction) -> bool:
    return (
        instruction.effects.awaits is Barrier.MBARRIER
        and instruction.match is not None
        and not instruction.match.suspends
    )


def _polls(model: KernelModel, body: Collection[int], test: int) -> bool:
    """Whether the loop of the blocks *body* only tests, and leaves when the test succeeds.

    A register that one iteration passes to the next, such as a counter, or a clock that it reads, ends the loop, too.
    """
    instructions = model.function.instructions
    others = [i for b in body for i in range(model.cfg.blocks[b].start, model.cfg.blocks[b].end) if i != test]
    computing = [i for i in others if not instructions[i].flow.startswith("branch")]
    if not all(is_pure(instructions[i]) and not any(specials(instructions[i].operands)) for i in computing):
        return False
    computed = {r for i in computing for r in instructions[i].writes}
    written = computed.union(instructions[test].writes)
    known, tested = set[int](), False
    for i in sorted((*others, test)):
        each = instructions[i]
        used = {*each.reads, *((each.guard,) if each.guard >= 0 else ())}
        if not (used & written) <= known:
            return False
        known.update(each.writes)
        tested = tested or not used.isdisjoint(instructions[test].writes)
    return tested
