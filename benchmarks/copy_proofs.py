"""Bulk copies that a CTA may leave in flight when it ends (PTX ISA 9.7.9.25.1.1, 9.7.9.27.2.2).

What becomes of a copy when its CTA ends is not specified, kernels in use leave it in flight, and GPUs complete it. Only
what is executed after a wait for it can go wrong without the wait: an access to memory of this or another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tclint.ir.cfg import CFG
from tclint.ir.nodes import Function, Instruction
from tclint.isa.effects import Order

__all__ = ["only_the_end_follows"]

_OWN = (".param", ".local", ".const")
"""State spaces that no copy accesses, and no other thread."""
_HARMLESS = frozenset(
    "wait commit barrier-sync elect tcgen05-fence-before tcgen05-fence-after tmem-dealloc tmem-relinquish".split()
)
"""Events that access no memory of a copy. What a barrier lets other threads do follows it in their program."""


def only_the_end_follows(
    function: Function,
    cfg: CFG,
    site: int,
    together: Callable[[Function, CFG, int], bool],
    *,
    read: bool = False,
) -> bool:
    """Whether nothing that may be executed after *site* accesses memory, or lets another thread do so.

    A barrier that all threads of the CTA reach as the same instance, by *together*, lets them do what follows it. Any
    other signal may let them do more. With *read*, the sources of the copies, in shared memory, have been read: weak accesses
    to the shared memory of the CTA, and the end of an mbarrier there, count as nothing.
    """
    return function.entry and all(
        (_harmless(i) or (read and _in_shared(i)))
        and (i.event != "barrier-sync" or together(function, cfg, at))
        for at, i in _after(function, cfg, site)
    )


def _harmless(instruction: Instruction) -> bool:
    match = instruction.match
    if match is None or match.problem or instruction.flow == "call":
        return False
    form = match.form
    accesses = bool(form.memory) and match.space not in _OWN and form.event != "tmem-dealloc"
    return not accesses and (not form.event or form.event in _HARMLESS)


def _in_shared(instruction: Instruction) -> bool:
    """Whether it only accesses the shared memory of its CTA, and no other thread learns of it."""
    match = instruction.match
    if match is None or match.problem or match.space not in (".shared", ".shared::cta"):
        return False
    ends = match.form.event == "mbarrier-inval"
    return ends or (not match.form.event and bool(match.form.memory) and match.order is Order.WEAK)


def _after(function: Function, cfg: CFG, site: int) -> Iterator[tuple[int, Instruction]]:
    """What may be executed after *site*."""
    work, seen = [(cfg.block_of[site], site + 1)], set[int]()
    while work:
        block, start = work.pop()
        for at in range(start, cfg.blocks[block].end):
            yield at, function.instructions[at]
        fresh = {edge.target for edge in cfg.successors[block]} - seen
        seen |= fresh
        work += [(target, cfg.blocks[target].start) for target in fresh]
