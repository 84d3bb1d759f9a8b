"""The check of calls that make ``ptxas`` serialise the ``wgmma`` of a kernel."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.isa.callees import SYSTEM_CALLS, is_instruction
from tclint.isa.effects import WGMMA

CO002 = RuleId("CO002")


@check(CO002)
def serialised_by_a_call(model: KernelModel) -> Iterator[Hit]:
    """A call that is left in a function with wgmma: of a function of the driver, or of one that is not known."""
    multiplications = model.begins(WGMMA)
    reachable, block_of = model.cfg.rank, model.cfg.block_of
    calls = [
        (i, instruction.callee)
        for i, instruction in enumerate(model.function.instructions)
        if instruction.flow == "call" and block_of[i] in reachable and _stays(instruction.callee)
    ]
    if not multiplications or not calls:
        return
    call, callee = calls[0]
    yield CO002.hit(
        site=call,
        message="ptxas serialises every wgmma of the kernel because of this call "
        + (f"of {callee}" if callee else "through a pointer")
        + ", wherever it is",
        steps=(
            Mark(multiplications[0], "is issued and waited for at once"),
            Mark(call, "is a call that ptxas cannot inline"),
        ),
        count=len(calls),
        help="remove the call, such as an assert or a printf, from the kernel that multiplies",
    )


def _stays(callee: str) -> bool:
    """Whether a call stays one in machine code: it is indirect, or the driver has the body of the callee."""
    return not callee or (callee in SYSTEM_CALLS and not is_instruction(callee))
