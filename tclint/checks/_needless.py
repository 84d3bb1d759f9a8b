"""In which kernels an operation can be known to be needless, and where: shared by the checks of the family CO.

A note that is wrong advises a race. So these checks are silent in a function whose callers are unknown, in a kernel with
an instruction, a call or a branch that is not understood, and about an instruction that several calls share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tclint.analyses.gaps import gaps
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Instruction

__all__ = ["decidable", "is_pure", "own_sites"]


def decidable(model: KernelModel) -> bool:
    """Whether everything that can happen before and after an instruction of the kernel is known."""
    return model.function.entry and not any(gaps(model))


def own_sites(model: KernelModel, sites: Iterable[int]) -> Iterator[int]:
    """Those of *sites* that are in the text of the kernel itself, and not in that of a function that it calls."""
    length = model.function.end - model.function.start
    for site in sites:
        instruction = model.instruction(site)
        if instruction.start >= 0 and instruction.end <= length:
            yield site


def is_pure(instruction: Instruction) -> bool:
    """Whether all that *instruction* does is to compute registers from registers and constants."""
    match = instruction.match
    if match is None or match.problem or not instruction.writes or instruction.flow:
        return False
    form = match.form
    known = not form.handled
    return known and not (form.event or form.memory or form.async_reads or form.async_writes)
