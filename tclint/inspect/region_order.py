"""Whether those who use a region of shared memory have heard of each other: who reads of the write, who writes again of the
reads (PTX ISA 8.8, 9.7.13)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from tclint.analyses.access_classes import AccessClasses
from tclint.analyses.happens_before import HappensBefore, Ordering, Scope
from tclint.analyses.model import KernelModel
from tclint.dataflow import Path

__all__ = ["RegionOrdering", "news_of"]

_MOST = 32
"""Classes of accesses that are looked at: more are those of an unrolled loop."""


class RegionOrdering(NamedTuple):
    """What the threads that execute some instructions have heard of others when they come there."""

    ordered: bool | None
    """Whether they have heard of them on every path; None: unknown."""
    at: tuple[int, ...]
    """The waits at which they do."""
    way: tuple[int, ...]
    """The branches of a path on which they do not."""


def news_of(
    model: KernelModel, first: Collection[int], then: Collection[int], again: bool
) -> RegionOrdering | None:
    """What those who come to *then* have heard of *first*; None: no way leads from the one to the other.

    *again*: only a second round of *then* has to wait for *first*, as that comes behind it.
    """
    order = model.fact(HappensBefore)
    told = order.completion_points(first)
    verdicts = list(_verdicts(model, order, told, first, then, again))
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
    told: frozenset[int],
    first: Collection[int],
    then: Collection[int],
    again: bool,
) -> Iterator[Ordering]:
    given = order.common_facts(first)
    classes = AccessClasses(model, told)
    for use in [*classes.partition(then)][:_MOST]:
        if all(model.views.mutually_exclusive(i, use) for i in first):
            if not again or model.reaches(use, use):
                yield order.verdict(use, told, use if again else -1, given=given)
            continue
        # Who does both may do it to bytes of its own: that no barrier stands between is no fault then.
        for start in [*classes.partition(i for i in first if model.reaches(i, use))][:_MOST]:
            found = order.verdict(use, told, start, scope=Scope.LANES)
            yield found if found.path is None else Ordering(None, (), False)


def _branches(model: KernelModel, path: Path) -> tuple[int, ...]:
    """Where a path is decided."""
    return tuple(model.cfg.blocks[edge.source].end - 1 for edge in path.edges if edge.predicate >= 0)
