"""Pairs of accesses to shared memory that no thread makes both of, on two sides of one branch or under opposite guards.

No path leads a thread from the one to the other, so no search for paths finds them. What orders them, if anything does,
is synchronisation between the last block that all threads pass before either and the access itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.since_barrier import SinceBarrier
from tclint.values import PathCondition, UniformityScope
from tclint.values import thread_masks as T
from tclint.values.shared_memory import Access

__all__ = ["parted_accesses"]

MAX_PAIRS = 2_000
"""Pairs of one kernel that are looked at. One whose warps have many programs has more, and these synchronise."""


def parted_accesses(since: SinceBarrier) -> Iterator[tuple[Access, Access]]:
    """An access that *since* follows, and another one, of other threads, that are in the same barrier interval.

    Both come with addresses that no loop changes, and the second one may precede the first in the text.
    """
    if not since.operations:
        return
    model = since.model
    every, context_of = T.full(model.values.threads), model.views.context_of
    operations = [i for i in sorted(since.operations) if context_of(i).threads != every]
    if not operations:
        return
    block_of, rank = model.cfg.block_of, model.cfg.rank
    others = [i for i in sorted(since.memory.sites) if block_of[i] in rank and context_of(i).threads != every]
    pairs = [
        (i, j)
        for i in operations
        for j in others
        if i != j and not context_of(i).threads & context_of(j).threads
    ]
    if len(pairs) > MAX_PAIRS:
        model.ledger.drop(
            "overlap", operations[0], f"more than {MAX_PAIRS} pairs of accesses of different threads"
        )
        return
    for i, j in pairs:
        accesses = [
            (first, second)
            for first in since.memory.accesses(i)
            for second in since.memory.accesses(j)
            if first.writes is since.writes
            and not (first.later or second.later)
            and (second.writes or since.writes)
            and (i < j or first.writes is not second.writes)
            and _is_fixed(since, first)
            and _is_fixed(since, second)
        ]
        if accesses and _in_one_interval(since, i, j) and _in_one_launch(since, i, j):
            yield from accesses


def _is_fixed(since: SinceBarrier, access: Access) -> bool:
    """Whether the bytes and the threads of *access* are known, the same in all iterations."""
    base = since.memory.addresses.form(access.address).base
    return since.memory.counts(access) and not since.model.values.varying_at(base)


def _in_one_interval(since: SinceBarrier, i: int, j: int) -> bool:
    """Whether threads synchronise nowhere between the last block that dominates both and either of the two."""
    model = since.model
    results = model.solution(type(since))[1]
    if any(since.loose(results.before(site)) for site in (i, j)):
        return False
    cfg = model.cfg
    common = cfg.block_of[i]
    while not cfg.dominates(common, cfg.block_of[j]):
        common = cfg.idom[common]
    start = (
        cfg.blocks[common].start
        if common in map(cfg.block_of.__getitem__, (i, j))
        else cfg.blocks[common].end - 1
    )
    for site in (i, j):
        passed = model.reached_from((start,), since.ends, (start,))
        if start in since.ends or model.reached_from(passed - {start}, (site,), (start,)):
            return False
    return True


def _in_one_launch(since: SinceBarrier, i: int, j: int) -> bool:
    """Whether no CTA-uniform condition of the one contradicts those of the other, so that a CTA may execute both."""
    values, views = since.model.values, since.model.views
    first, second = (
        PathCondition(
            (p, truth)
            for p, truth in views.context_in_iteration(site).facts.items()
            if values.uniformity(p) is UniformityScope.CTA
        )
        for site in (i, j)
    )
    return all(values.entails(p, second) in (None, truth) for p, truth in first.items())
