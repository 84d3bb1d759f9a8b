"""Checks of what is read before anything writes it: registers (PTX ISA 5.1.1) and shared memory (5.1.7)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.first_reads import UnwrittenRegisters
from tclint.analyses.model import KernelModel
from tclint.analyses.unwritten_shared import UnwrittenShared
from tclint.checks import Hit, Mark, RuleId, check, grouped

UV001 = RuleId("UV001")
UV002 = RuleId("UV002")


@check(UV001, analyses=(UnwrittenRegisters,))
def undefined_register(model: KernelModel) -> Iterator[Hit]:
    """A register without a value whose bits decide what can be observed."""
    unwritten = model.fact(UnwrittenRegisters).registers
    if unwritten:
        # Most kernels have none, and do not pay for the imports.
        from tclint.checks._undefined import undefined

        yield from undefined(model, unwritten, UV001)


@check(UV002, analyses=(UnwrittenShared,))
def unwritten_shared(model: KernelModel) -> Iterator[Hit]:
    """Shared memory that is read although nothing can have written it."""
    for (variable, later), reads in grouped(
        ((read.variable, read.later), read.site) for read in model.fact(UnwrittenShared).reads()
    ).items():
        first = reads[0]
        when = "writes before" if later else "writes"
        yield UV002.hit(
            site=first,
            message=f"{model.name(first)} reads bytes of {variable} in shared memory that nothing {when}",
            count=len({*reads}),
            steps=(
                Mark(first, "read here"),
                *(Mark(site, "written here, after the read") for site in later[:1]),
            ),
            about=frozenset((first,)),
            help=f"write {variable} before it is read, and let a barrier follow if other threads do",
        )
