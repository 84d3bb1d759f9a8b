"""Stages of a ring buffer that a bulk load refills while other roles may still read them (PTX ISA 9.7.9.25, 9.7.13.15).

A producer must observe that the readers of a stage have finished before it refills the stage. A hit requires a loop in
which no wait may be ordered after the reads. Which phase a wait is for is not considered, so any such wait
in the loop silences the rule: the check under-approximates.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from tclint.analyses.bulk_rings import BulkRings, Filled
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.objects import ObjectNames
from tclint.analyses.role_paths import whole_program
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._race_rules import READERS_ARRIVE, race_rule
from tclint.isa.effects import NO_ENGINE, TCGEN05, TRANSACTIONS, WGMMA, Barrier, Engine
from tclint.values.shared_memory import SharedAccess

BK011 = RuleId("BK011")
TC012 = RuleId("TC012")
WG011 = RuleId("WG011")

_READERS = {WGMMA: "wgmma.mma_async", TCGEN05: "tcgen05.mma", NO_ENGINE: "another thread"}
"""The group of the reading operations, "" for ordinary reads -> what a message calls them."""


@check(BK011, also=(WG011, TC012), analyses=(BulkRings, HappensBefore, Mbarriers, ObjectNames))
def refilled(model: KernelModel) -> Iterator[Hit]:
    """A loop that refills the stages of a ring buffer without waiting for the readers."""
    if not model.begins(TRANSACTIONS) or not whole_program(model):
        return
    for filled in model.fact(BulkRings).filled:
        copies = [i for i in filled.copies if _refills(model, filled, i)]
        if not copies:
            continue
        by_group = grouped(
            (model.instruction(read.site).group if read.later else NO_ENGINE, read) for read in filled.reads
        )
        if not _READERS.keys() >= by_group.keys():
            continue
        for group, reads in by_group.items():
            hit = _unsynchronised(model, copies, group, reads)
            if hit is not None:
                yield hit


def _refills(model: KernelModel, filled: Filled, copy: int) -> bool:
    """Whether a loop makes the copy fill each stage repeatedly: its address wraps, or the ring has one stage."""
    cfg, mbarriers = model.cfg, model.fact(Mbarriers)
    loop = cfg.innermost(cfg.block_of[copy])
    addresses = mbarriers.addresses.of(copy)
    if not loop or any(a.form.count is None or a.remote for a in addresses) or not addresses:
        return False
    alone = all(cfg.block_of[i] in loop for i in filled.copies)
    waits = any(cfg.block_of[i] in loop for i in model.awaits(Barrier.MBARRIER))
    return (alone or waits) and not _fills_once(model, loop, len(filled.ring.stages))


def _fills_once(model: KernelModel, loop: AbstractSet[int], stages: int) -> bool:
    """Whether the trip count of *loop* is a constant not larger than the number of *stages*."""
    cfg, values = model.cfg, model.values
    exits = [e for b in loop for e in cfg.successors[b] if e.target not in loop and e.predicate >= 0]
    for edge in exits:
        node, _ = values.comparison(values.before(edge.predicate, cfg.blocks[edge.source].end - 1))
        bound = None if node is None else values.constant_of(node.right)
        if node is None or bound is None:
            continue
        terms, constant = values.linear(node.left)
        counter = values.induction(terms[0][0]) if len(terms) == 1 else None
        start = values.constant_of(counter[0]) if counter is not None and counter[2] is None else None
        if counter is not None and start is not None and counter[1]:
            return abs((bound - constant - start) // counter[1]) <= stages
    return False


def _unsynchronised(
    model: KernelModel, copies: list[int], group: Engine, reads: list[SharedAccess]
) -> Hit | None:
    """The hit for the first of *copies* that refills a stage with no wait for *reads* in its loop; None if all wait."""
    order = model.fact(HappensBefore)
    if not order.completion_signals([a.site for a in reads], group):
        return None  # the completion of the reads is not visible, or another rule reports it
    waits = order.completion_points(a.site for a in reads)
    for copy in copies:
        readers = [a for a in reads if a.site != copy]
        if not readers or not any(_repeats(model, copy, arming, waits) for arming in _arming(model, copy)):
            continue
        # A signal must follow the last of the reads that complete together.
        block_of = model.cfg.block_of
        read = max(a.site for a in readers if block_of[a.site] == block_of[readers[0].site])
        producer = model.describe_threads(model.views.context_of(copy).threads)
        return race_rule("source-overwritten", group, "unordered-refill").hit(
            site=copy,
            message=f"{model.name(copy)} refills shared memory that {_READERS[group]} may still read: no wait in the loop covers the read",
            steps=(
                Mark(copy, "starts to fill a stage", role=producer),
                Mark(
                    read,
                    "reads the stage",
                    role=model.describe_threads(model.views.context_of(read).threads),
                    object=model.fact(ObjectNames).accessed(read, writes=False),
                ),
                Mark(
                    copy,
                    "refills the stage in a later iteration without waiting for the readers",
                    role=producer,
                ),
            ),
            pairs=tuple((each.site, refill) for refill in copies for each in reads if each.site != refill),
            help=f"{group.words.observed or READERS_ARRIVE}, and wait for that phase before the copy",
            about=frozenset((copy,)),
        )
    return None


def _repeats(model: KernelModel, copy: int, arming: int, waits: frozenset[int]) -> bool:
    """Whether a loop has *copy* and *arming*, none of *waits*, and an unsynchronised path between the two each way.

    A wait that only some iterations execute counts as sufficient.
    """
    cfg, order = model.cfg, model.fact(HappensBefore)
    loop = cfg.innermost(cfg.block_of[copy], cfg.block_of[arming])
    if not loop or any(cfg.block_of[i] in loop for i in waits):
        return False
    return (
        order.unsynchronised_path(arming, waits, copy) is not None
        and order.unsynchronised_path(copy, waits, arming) is not None
    )


def _arming(model: KernelModel, copy: int) -> list[int]:
    """The instructions at which the threads that copy expect the bytes of another phase of the mbarrier."""
    mbarriers, threads = model.fact(Mbarriers), model.views.context_of(copy).threads
    return [
        i
        for ring in mbarriers.rings_at(copy)
        for i in mbarriers.expects(ring)
        if model.views.context_of(i).threads & threads
    ]
