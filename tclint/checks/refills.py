"""Checks of stages that a bulk load fills again while other roles may still read them (PTX ISA 9.7.9.25, 9.7.13.15)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.bulk_rings import BulkRings, Filled
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import whole_program
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.values.shared_memory import Access

BK011 = RuleId("BK011")
TC012 = RuleId("TC012")
WG011 = RuleId("WG011")

_RULES = {"wgmma": WG011, "tcgen05": TC012, "": BK011}
_WHO = {"wgmma": "wgmma.mma_async", "tcgen05": "tcgen05.mma", "": "another thread"}


@check(BK011, also=(WG011, TC012), needs="cp", analyses=(BulkRings, Mbarriers, HappensBefore))
def refilled(model: KernelModel) -> Iterator[Hit]:
    """A loop that fills the stages of a ring again, and hears nothing of those who read them."""
    if not model.sites("issue", "mbarrier") or not whole_program(model):
        return
    for filled in model.fact(BulkRings).filled:
        copies = [i for i in filled.copies if _comes_again(model, filled, i)]
        if not copies:
            continue
        by_group = grouped(
            (model.instruction(read.site).group if read.later else "", read) for read in filled.reads
        )
        if not _RULES.keys() >= by_group.keys():
            continue
        for group, reads in by_group.items():
            hit = _unheard(model, copies, group, reads)
            if hit is not None:
                yield hit


def _comes_again(model: KernelModel, filled: Filled, copy: int) -> bool:
    """Whether a loop brings the copy to each stage again and again: its address wraps, or there is one stage."""
    cfg, mbarriers = model.cfg, model.fact(Mbarriers)
    loop = cfg.innermost(cfg.block_of[copy])
    addresses = mbarriers.addresses.of(copy)
    if not loop or any(a.stages is None or a.remote for a in addresses) or not addresses:
        return False
    alone = all(cfg.block_of[i] in loop for i in filled.copies)
    waits = any(cfg.block_of[i] in loop for i in mbarriers.sites.get("mbarrier-wait", ()))
    return (alone or waits) and not _few_rounds(model, loop, len(filled.ring.stages))


def _few_rounds(model: KernelModel, loop: frozenset[int], stages: int) -> bool:
    """Whether a constant says that the loop has no more rounds than there are stages."""
    cfg, values = model.cfg, model.values
    leaving = [e for b in loop for e in cfg.successors[b] if e.target not in loop and e.predicate >= 0]
    for edge in leaving:
        node = values.node(values.before(edge.predicate, cfg.blocks[edge.source].end - 1))
        while node[0] == "not":
            node = values.node(node[1])
        bound = values.constant_of(node[3]) if node[0] == "compare" else None
        terms, constant = values.linear(node[2]) if bound is not None else ((), 0)
        counter = values.induction(terms[0][0]) if len(terms) == 1 else None
        start = values.constant_of(counter[0]) if counter is not None and counter[2] is None else None
        if bound is not None and counter is not None and start is not None and counter[1]:
            return abs((bound - constant - start) // counter[1]) <= stages
    return False


def _unheard(model: KernelModel, copies: list[int], group: str, reads: list[Access]) -> Hit | None:
    order = model.fact(HappensBefore)
    if not order.completion_signals([a.site for a in reads], group):
        return None  # how the operation ends is not seen, or another rule's business
    stops = order.completion_points(a.site for a in reads)
    for copy in copies:
        readers = [a for a in reads if a.site != copy]
        if not readers or not any(_goes_round(model, copy, arming, stops) for arming in _arming(model, copy)):
            continue
        read = readers[0].site
        who = model.describe_threads(model.views.context_of(copy).threads)
        return _RULES[group].hit(
            site=copy,
            message=f"fills shared memory again that {_WHO[group]} may still read: nothing in the loop waits for that",
            steps=(
                Mark(copy, "fills a stage", role=who),
                Mark(read, "reads it", role=model.describe_threads(model.views.context_of(read).threads)),
                Mark(copy, "fills it again in a later round, and has heard of nothing", role=who),
            ),
            help="let the readers arrive at an mbarrier when they are done, and wait for that before the copy",
            about=frozenset((copy,)),
        )
    return None


def _goes_round(model: KernelModel, copy: int, arming: int, stops: frozenset[int]) -> bool:
    """Whether a loop over both hears of nothing at all: a wait that only some rounds come to is believed."""
    cfg, order = model.cfg, model.fact(HappensBefore)
    loop = cfg.innermost(cfg.block_of[copy], cfg.block_of[arming])
    if not loop or any(cfg.block_of[i] in loop for i in stops):
        return False
    return (
        order.unsynchronised_path(arming, stops, copy) is not None
        and order.unsynchronised_path(copy, stops, arming) is not None
    )


def _arming(model: KernelModel, copy: int) -> list[int]:
    """Where the threads that copy begin another phase of the mbarrier: they expect the bytes of it."""
    mbarriers, threads = model.fact(Mbarriers), model.views.context_of(copy).threads
    return [
        i
        for ring in mbarriers.rings_at(copy)
        for event in ("mbarrier-expect", "mbarrier-arrive")
        for i in ring.uses.get(event, ())
        if model.instruction(i).role("tx") is not None and model.views.context_of(i).threads & threads
    ]
