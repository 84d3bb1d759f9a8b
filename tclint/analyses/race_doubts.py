"""Why two accesses of different warps may not race although nothing in the text orders them.

The launch may exclude the path, the CTA may have fewer threads, or the value that is read too early may be unused.
"""

from __future__ import annotations

from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import Conflict
from tclint.analyses.plausibility import (
    NO_DOUBT,
    Doubt,
    differ_by_data,
    has_unused_result,
    runs_past_array,
    synchronises_lanes,
)
from tclint.analyses.since_barrier import WritesSince
from tclint.values import thread_masks as T

__all__ = ["race_doubt"]


def race_doubt(model: KernelModel, meeting: Conflict) -> Doubt:
    """The doubt about a conflict: about its path, about the shape of the CTA, or about its two accesses."""
    if meeting.doubt:
        return meeting.doubt
    first, second = meeting.operation.site, meeting.use.site
    few = model.values.is_alone or not all(
        model.views.context_of(site).threads & T.full(32) for site in (first, second)
    )
    if few and model.function.most_threads is None:
        return Doubt("the launch determines whether the CTA has this many threads")
    if _strides_by_cta(model, meeting):
        return Doubt("the two are the stores of one loop whose stride is the size of a smaller CTA")
    return (
        (NO_DOUBT if meeting.operation.writes else has_unused_result(model, meeting.path, first, second))
        or (
            synchronises_lanes(model, meeting.path, first)
            if differ_by_data(model, first, second)
            else NO_DOUBT
        )
        or runs_past_array(model, meeting.path, first, second)
    )


def _strides_by_cta(model: KernelModel, meeting: Conflict) -> bool:
    """Whether two stores are a constant number of elements apart, and do not meet in a CTA of as many threads.

    A loop over an array by the size of the CTA, unrolled, has such stores. ``.maxntid`` may then be larger than the
    CTAs that are launched. A store that only the first threads execute shows that there are more, unless the array ends
    for the others, as it does that many elements later for the earlier store.
    """
    first, second = meeting.operation, meeting.use
    values = model.values
    if (
        model.function.threads is not None
        or not (first.writes and second.writes)
        or first.size != second.size
    ):
        return False
    apart = values.constant_of(values.add(second.address, values.times(first.address, -1)))
    size = abs(apart or 0) // first.size
    if not size or size % 32 or apart is None or apart % first.size or size >= values.threads:
        return False
    here, there = (model.views.context_of(access.site).threads for access in (first, second))
    few, count = T.full(size), here.bit_length()
    of_loop = here == T.full(count) and count < values.threads and there == T.full(max(count - size, 0))
    if not of_loop and not (here & ~few and there & ~few):
        return False
    memory = model.solution(WritesSince)[0].memory
    return bool(here & few and there & few) and not memory.across(first, second, here & few, there & few)
