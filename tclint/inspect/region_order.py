"""Whether the uses of a region of shared memory are ordered (PTX ISA 8.8, 9.7.13).

Reads must be ordered after the writes, and the writes of the next iteration after the reads. Threads that execute both
accesses may touch only their own bytes, so a missing order between them is reported as unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from tclint.analyses.access_classes import AccessClasses
from tclint.analyses.happens_before import HappensBefore, Ordering, Scope
from tclint.analyses.model import KernelModel
from tclint.dataflow import Path

__all__ = ["RegionOrdering", "region_ordering"]

_MAX_CLASSES = 32
"""Access classes that are compared. Only unrolled loops have more."""


class RegionOrdering(NamedTuple):
    """Whether some accesses are ordered after others."""

    ordered: bool | None
    """Whether they are on every path; None if unknown."""
    at: tuple[int, ...]
    """The acquire points that order them."""
    way: tuple[int, ...]
    """The branches of a path on which they are not ordered."""


def region_ordering(
    model: KernelModel, first: Collection[int], then: Collection[int], again: bool
) -> RegionOrdering | None:
    """Whether *then* is ordered after *first*; None if no path leads from *first* to *then*.

    With *again*, *first* follows *then* in an iteration, so only *then* of the next iteration must be ordered after it.
    """
    order = model.fact(HappensBefore)
    completions = order.completion_points(first)
    verdicts = list(_verdicts(model, order, completions, first, then, again))
    if not verdicts:
        return None
    wrong = next((v.path for v in verdicts if v.path is not None), None)
    unknown = model.reachability.unresolved_dispatchers or any(v.ordered is None for v in verdicts)
    return RegionOrdering(
        False if wrong is not None else None if unknown else True,
        tuple(sorted({i for v in verdicts for i in v.at})),
        () if wrong is None else _branches(model, wrong),
    )


def _verdicts(
    model: KernelModel,
    order: HappensBefore,
    completions: frozenset[int],
    first: Collection[int],
    then: Collection[int],
    again: bool,
) -> Iterator[Ordering]:
    given = order.common_facts(first)
    classes = AccessClasses(model, completions)
    for use in [*classes.partition(then)][:_MAX_CLASSES]:
        if all(model.views.mutually_exclusive(i, use) for i in first):
            if not again or model.reaches(use, use):
                yield order.verdict(use, completions, use if again else -1, given=given)
            continue
        # Threads that execute both may access only their own bytes, so a path without a barrier is not a defect.
        for start in [*classes.partition(i for i in first if model.reaches(i, use))][:_MAX_CLASSES]:
            found = order.verdict(use, completions, start, scope=Scope.LANES)
            yield found if found.path is None else Ordering(None, (), False)


def _branches(model: KernelModel, path: Path) -> tuple[int, ...]:
    """The conditional branches on *path*."""
    return tuple(model.cfg.blocks[edge.source].end - 1 for edge in path.edges if edge.predicate >= 0)
