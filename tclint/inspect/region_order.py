"""Whether the uses of a region of shared memory are ordered (PTX ISA 8.8, 9.7.13).

Reads must be ordered after the writes, and the writes of the next iteration after the reads. Threads that execute both
accesses may touch only their own bytes, so a missing order between them is reported as unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tclint._named_tuple import NamedTuple
from tclint.analyses.access_classes import AccessClasses
from tclint.analyses.happens_before import (
    HappensBefore,
    Ordered,
    Ordering,
    OrderScope,
    Unknown,
    Unordered,
)
from tclint.analyses.model import KernelModel
from tclint.dataflow import Path

__all__ = ["RegionOrdering", "region_ordering"]

_QUESTION = "order of a region"
"""What :attr:`KernelModel.ledger` calls the question of this module."""
_MAX_CLASSES = 32
"""Access classes that are compared; whether others are ordered is unknown. Only unrolled loops have more."""
_OWN_BYTES = "threads that execute both may access only their own bytes"


class RegionOrdering(NamedTuple):
    """Whether some accesses are ordered after others."""

    ordered: bool | None
    """Whether they are on every path; None if unknown."""
    at: tuple[int, ...]
    """The acquire points that order them."""
    branches: tuple[int, ...]
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
    wrong = next((v.path for v in verdicts if isinstance(v, Unordered)), None)
    unknown = model.reachability.unresolved_dispatchers or any(isinstance(v, Unknown) for v in verdicts)
    return RegionOrdering(
        False if wrong is not None else None if unknown else True,
        tuple(sorted({i for v in verdicts if isinstance(v, Ordered | Unknown) for i in v.at})),
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
    classes = AccessClasses(model, completions)
    uses = [*classes.partition(then)]
    yield from _cut(model, uses, -1)
    for use in uses[:_MAX_CLASSES]:
        if all(model.views.mutually_exclusive(i, use) for i in first):
            if not again or model.reaches(use, use):
                yield order.order(first, use, use if again else -1)
            continue
        # Threads that execute both may access only their own bytes, so a path without a barrier is not a defect.
        starts = [*classes.partition(i for i in first if model.reaches(i, use))]
        yield from _cut(model, starts, use)
        for start in starts[:_MAX_CLASSES]:
            found = order.order(first, use, start, scope=OrderScope.LANES)
            yield Unknown((), (_OWN_BYTES,)) if isinstance(found, Unordered) else found


def _cut(model: KernelModel, classes: Sequence[int], site: int) -> Iterator[Ordering]:
    """An unknown ordering if there are more *classes* than are compared, for the use *site* or (-1) for all of them."""
    if len(classes) > _MAX_CLASSES:
        why = f"more than {_MAX_CLASSES} access classes"
        model.ledger.give_up(_QUESTION, site, why)
        yield Unknown((), (why,))


def _branches(model: KernelModel, path: Path) -> tuple[int, ...]:
    """The conditional branches on *path*."""
    return tuple(model.cfg.blocks[edge.source].end - 1 for edge in path.edges if edge.predicate >= 0)
