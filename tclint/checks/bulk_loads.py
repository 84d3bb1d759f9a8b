"""The check of shared memory that is read before a bulk load into it has completed (PTX ISA 9.7.9.25).

A path is wrong if its thread reaches the read without passing an acquire point that may order it after the completion
of the load. Waits that return at once on a fresh mbarrier (parity 1) are not such points when the thread reaches them
first.
"""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.bulk_rings import BulkRings, Filled
from tclint.analyses.execution import executing
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.mbarriers import first_waits_for
from tclint.analyses.model import KernelModel
from tclint.analyses.plausibility import Doubt, assumes_sentinel, depends_on_what_skips, skips_for_launch
from tclint.analyses.role_paths import dominated_by, whole_program
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._race_rules import AWAIT_HERE, UNWAITED
from tclint.checks._wording import avoided
from tclint.dataflow import Decision, Path
from tclint.isa.effects import TRANSACTIONS
from tclint.values.shared_memory import SharedAccess

BK001 = RuleId("BK001")

_SAME_CONDITION = (
    "the launch determines whether the thread waits, and may also determine whether the copy is issued"
)
"""The doubt about a path from the entry that skips the wait."""
_SAME_DATA = "what makes the thread skip the wait also decides whether it reads"
"""The doubt about a path on which the same data decides both."""


@check(BK001, analyses=(BulkRings, HappensBefore))
def read_before_complete(model: KernelModel) -> Iterator[Hit]:
    """Report reads of what bulk loads write on paths without a wait for their mbarrier."""
    if not model.begins(TRANSACTIONS) or not whole_program(model):
        return
    order = model.fact(HappensBefore)
    for filled in model.fact(BulkRings).filled:
        idle = frozenset(i for i in filled.waits if _passes_at_once(model, filled, i))
        written = filled.writers | order.observers_of(filled.writers)
        observers = [order.completed(filled.copies) | written]
        if idle:
            observers.append((order.completed(filled.copies, idle) | written) - idle)
        first = [
            b for b in order.points.cta_wide_barriers if all(dominated_by(model, b, i) for i in filled.copies)
        ]
        for read in filled.reads:
            if any(model.reaches(read.site, b) and not model.reaches(b, read.site) for b in first):
                continue  # no copy begins before all threads have read
            found = _unwaited(model, filled, read, observers)
            if found is not None:
                start, path, doubt = found
                passed = next((i for i in path.sites(model.cfg, start) if i in filled.waits), -1)
                yield _hit(model, filled, read, passed if passed in idle else None, path).doubted(doubt.why)
                break


def _unwaited(
    model: KernelModel, filled: Filled, read: SharedAccess, observers: list[frozenset[int]]
) -> tuple[int, Path, Doubt] | None:
    """A path to the read that avoids one of the sets *observers*, its start, a copy or -1 for the entry, and its doubt.

    None if there is no such path. One that no single branch makes doubtful is preferred.
    """
    order, into = model.fact(HappensBefore), model.fact(BulkRings).feeding(filled, read)
    given = order.common_facts(into)
    # A read that follows the copy in its own thread must wait for it, unless the destination changes meanwhile.
    destinations = {i: model.value(i, "destination") for i in into if len(filled.ring.stages) == 1}
    own = [
        i
        for i, address in destinations.items()
        if address is not None and not model.values.varying_at(address)
    ]
    first: tuple[int, Path, Doubt] | None = None
    for start in (-1, *own):
        for ends in observers:
            closed = frozenset[Decision]()
            while (path := order.unsynchronised_path(read.site, ends, start, given, closed)) is not None:
                doubt = _doubt(model, filled, start, path)
                if doubt.edge is None or doubt.edge in closed:
                    return start, path, doubt
                first = first or (start, path, doubt)
                closed |= {doubt.edge}
    return first


def _doubt(model: KernelModel, filled: Filled, start: int, path: Path) -> Doubt:
    """The doubt about a path from *start* that skips the waits."""
    doubt = assumes_sentinel(model, path) or depends_on_what_skips(model, path, filled.waits, _SAME_DATA)
    if doubt or start >= 0 or _certainly_issued(model, filled, path):
        return doubt
    # Another path may skip the waits for another value of the launch: none of them is closed.
    return skips_for_launch(model, path, filled.waits, _SAME_CONDITION)._replace(edge=None)


def _certainly_issued(model: KernelModel, filled: Filled, path: Path) -> bool:
    """Whether a copy is issued before the end of *path*, from the entry, whatever the launch determines.

    The thread index alone decides which threads issue it, and the path passes the copy or the branches that decide.
    """
    cfg, passed = model.cfg, path.passed(model.cfg, -1)
    for copy in filled.copies:
        deciding = {cfg.blocks[e.source].end - 1 for e in cfg.control_dependences(cfg.block_of[copy])} or {
            copy
        }
        threads, by_index_alone = executing(model, copy) or (0, False)
        if threads and by_index_alone and all(i in passed for i in deciding):
            return True
    return False


def _passes_at_once(model: KernelModel, filled: Filled, wait: int) -> bool:
    """True if *wait* may be the first one of a thread for the ring and then has parity 1, so it returns at once."""
    before = model.reaching((i for i in filled.waits if i != wait), (wait,))
    return (
        all(model.reaches(wait, i) for i in before)
        and first_waits_for(model, wait, 1)
        and model.fact(HappensBefore).unsynchronised_path(wait, before) is not None
    )


def _hit(model: KernelModel, filled: Filled, read: SharedAccess, idle: int | None, path: Path) -> Hit:
    """The finding about *read* at the end of *path*. *idle* is the wait on it that returns at once; None without one."""
    copy = min(filled.extents)
    role = model.describe_threads(model.views.context_of(read.site).threads)
    if idle is None:
        why, remedy = UNWAITED, AWAIT_HERE
    else:
        why = (
            "the first wait for its mbarrier is for parity 1, the phase before the first, and returns at once"
        )
        remedy = "wait for parity 0 first, and flip the parity each time the stage is reused"
    return BK001.hit(
        site=read.site,
        message=f"{model.name(read.site)} reads shared memory that a bulk copy may still be writing: {why}",
        steps=(
            Mark(
                copy, "starts to fill it", role=model.describe_threads(model.views.context_of(copy).threads)
            ),
            *(
                avoided(model, path, filled.waits, role)
                if idle is None
                else (Mark(idle, "returns at once on a fresh mbarrier", role=role),)
            ),
            Mark(read.site, "reads it", role=role),
        ),
        help=remedy,
        count=len({a.site for a in filled.reads}),
        pairs=tuple((each, read.site) for each in filled.copies),
        about=frozenset(filled.waits),
    )
