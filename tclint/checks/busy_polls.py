"""The check of loops that poll an mbarrier with ``test_wait``."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._needless import is_pure
from tclint.ir.nodes import Instruction, specials
from tclint.isa.effects import Barrier

CO007 = RuleId("CO007")

_INTRODUCED = (7, 8)
_TARGET = 90
"""The version and the target with ``mbarrier.try_wait``."""


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
                message="polls the mbarrier in a loop that does nothing else: each iteration takes an issue slot from "
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
