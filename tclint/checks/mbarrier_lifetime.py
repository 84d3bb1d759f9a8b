"""The check of operations on mbarriers that have been invalidated (PTX ISA 9.7.13.15.3, 9.7.13.15.10)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses import role_paths
from tclint.analyses.mbarrier_addresses import MbarrierAddresses
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._mbarrier_objects import MbarrierObjects
from tclint.dataflow.views import ThreadContext
from tclint.findings.scales import Confidence
from tclint.isa.effects import Resource
from tclint.values import thread_masks as T

MB009 = RuleId("MB009")


@check(also=(MB009,), analyses=(MbarrierAddresses,))
def invalidated(model: KernelModel) -> Iterator[Hit]:
    """Report uses of an mbarrier that has been invalidated, and mbarriers that are invalidated before any use."""
    if not model.sites(Resource.MBARRIER_INVAL):
        return
    known = model.fact(MbarrierObjects)
    hits = list(_ended(known))
    yield from hits
    yield from _unusable(known, {hit.steps[0].site for hit in hits})


def _ended(known: MbarrierObjects) -> Iterator[Hit]:
    """Report uses of an mbarrier that has been invalidated."""
    model = known.model
    ended_at = known.unambiguous(known.invals)
    used = grouped(
        (location, use) for use in (known.uses if ended_at else ()) for location in known.addresses.each(use)
    )
    for location, sites in ended_at.items():
        for ended in sites:
            to, view = used.get(location, []), model.views.context_of(ended)
            made = known.makers(location)
            if not any(model.reaches(ended, i) for i in made):
                # It is never initialised again, so a use that follows it is wrong in any thread.
                to = [i for i in to if not model.reaches(i, ended)]
                view = ThreadContext(T.full(model.values.threads))
            path = role_paths.follow(model, ended, view, to, made).witness if to else None
            if path is None:
                continue
            yield MB009.hit(
                site=path.end,
                message=f"{model.name(path.end)} uses the mbarrier {known.words(location)} after it was invalidated by mbarrier.inval",
                steps=(Mark(ended, "invalidated here"), Mark(path.end, "used here")),
                help="invalidate it after its last use, or initialise it again",
                about=frozenset((path.end,)),
            )
            break


def _unusable(known: MbarrierObjects, reported: set[int]) -> Iterator[Hit]:
    """Report mbarriers that the thread which initialises them invalidates at once, though the kernel uses mbarriers.

    Of a use that is known to name such an mbarrier, the use is *reported* instead.
    """
    model, same = known.model, known.addresses.same
    for ended in known.invals.keys() - reported:
        made = _just_made(model, ended)
        if made is None or any(
            i != made and model.reaches(ended, i) and same(ended, i) is not False for i in known.inits
        ):
            continue
        if uses := [i for i in known.uses if same(ended, i) is not False]:
            yield MB009.hit(
                site=ended,
                message=f"{model.name(ended)} invalidates an mbarrier that no thread can have used since it was initialised",
                steps=(
                    Mark(made, "initialised here"),
                    Mark(ended, "invalidated here, before another thread can observe the initialisation"),
                    Mark(uses[0], "uses an mbarrier, which may be this one"),
                ),
                help="invalidate it after its last use",
                confidence=Confidence.MEDIUM,
                about=frozenset((ended,)),
            )


def _just_made(model: KernelModel, ended: int) -> int | None:
    """The mbarrier.init before *ended* in its block, of the same address and with no event between; None if there is none."""
    address, start = model.mbarrier(ended), model.cfg.blocks[model.cfg.block_of[ended]].start
    for site in range(ended - 1, start - 1, -1):
        instruction = model.instruction(site)
        if instruction.effects.resource is Resource.MBARRIER_INIT:
            made = model.mbarrier(site)
            alike = (
                address is not None
                and made is not None
                and model.values.linear(made) == model.values.linear(address)
            )
            by = model.instruction(ended)
            together = (instruction.guard, instruction.negated) == (by.guard, by.negated)
            return site if alike and together else None
        if instruction.event or instruction.flow:
            return None
    return None
