"""Membermasks of elect, shfl, vote, match, redux and bar.warp.sync (PTX ISA 9.7.9.6, 9.7.13)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_

from tclint.analyses.execution import Condition, branches, conditions, executing, guards
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._repairs import arrive_together
from tclint.findings.edits import Repair, operand
from tclint.findings.scales import Confidence
from tclint.ir.nodes import Immediate
from tclint.isa.effects import Exchange, Order
from tclint.replay.lane_exchange import shuffled
from tclint.values import thread_masks as T
from tclint.values.nodes import Loaded

CV005 = RuleId("CV005")
CV006 = RuleId("CV006")

_EVERY_LANE = 0xFFFFFFFF
_TOGETHER = frozenset(("lanes", "warp", "warpgroup", "cta", "cluster"))
"""The scopes of instructions that some other thread must execute too."""
_STRONG = (Order.VOLATILE, Order.RELAXED, Order.ACQUIRE)
"""The orders of loads that can observe a word which another thread writes."""


@check(CV005, CV006)
def membermasks(model: KernelModel) -> Iterator[Hit]:
    """Lanes in a membermask that cannot reach the instruction, and lanes outside of it that execute the instruction."""
    function = model.function
    sites = grouped(
        (
            use.match.form.event,
            (i, None if (mask := model.constant_of(i, "mask")) is None else mask & _EVERY_LANE),
        )
        for use in function.uses
        if use.match is not None and use.match.scope == "lanes"
        for i in use.sites
    )
    if not sites:
        return
    lanes = _Lanes(model)
    excluded: dict[tuple[int, int], list[int]] = {}
    awaited: dict[tuple[int, int], list[int]] = {}
    for alike in sites.values():
        for i, mask in alike:
            if mask is None:
                continue
            outside = lanes.outside(i, mask) if function.entry and mask != _EVERY_LANE else 0
            if outside:
                excluded.setdefault((outside, mask), []).append(i)
            elif lanes.split(i) and lanes.missing(i, mask, alike):
                awaited.setdefault((lanes.arriving(i), mask), []).append(i)
    named = reduce(or_, (mask for alike in sites.values() for _, mask in alike if mask is not None), 0)
    # If all masks together name the first lanes of a warp, the kernel may be launched with only these lanes.
    partial_warp = function.most_threads is None and not named & (named + 1)
    for (outside, mask), where in excluded.items():
        absent = partial_warp and not _lanes_of(outside) & named
        doubt = (
            "no membermask includes these lanes, and the CTA may be launched without them" if absent else ""
        )
        yield _excluded(model, where, mask, outside).doubted(doubt)
    for (arriving, mask), where in awaited.items():
        yield _awaited(model, lanes, where, mask, arriving)


class _Lanes:
    """Upper and lower bounds of the threads that execute an instruction."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._known: dict[Condition, bool] = {}
        self._split: dict[int, bool] = {}

    def split(self, site: int) -> bool:
        """Whether a condition of *site* provably admits a part of a warp: a cheap test that most sites fail."""
        block = self.model.cfg.block_of[site]
        if block not in self._split:
            self._split[block] = any(map(self.splits, branches(self.model, block)))
        return self._split[block] or any(map(self.splits, guards(self.model, site)))

    def splits(self, condition: Condition) -> bool:
        """Whether *condition* provably admits only a part of a warp."""
        if condition not in self._known:
            values = self.model.values
            p = values.before(condition.register, condition.at)
            every = T.full(values.threads)
            self._known[condition] = T.partial_groups(values.feasible_threads(p, condition.value), every, 32)
        return self._known[condition]

    def arriving(self, site: int) -> int:
        """The threads that may execute *site*: an over-approximation."""
        model = self.model
        threads = model.reachability.threads_at.get(model.cfg.block_of[site], 0) & self.model.cta
        instruction = model.instruction(site)
        if instruction.guard >= 0 and threads:
            p = model.values.before(instruction.guard, site)
            threads &= model.values.feasible_threads(p, not instruction.negated)
        return threads

    def members(self, mask: int) -> int:
        """The threads whose lane is in *mask*."""
        return T.lane_zero(self.model.values.threads) * mask & self.model.cta

    def missing(self, site: int, mask: int, alike: list[tuple[int, int | None]]) -> int:
        """Members of *mask*, in the warps at *site*, that reach neither *site* nor a matching one of those *alike*.

        0 if they exit without waiting, since no warp waits for lanes that have exited, and if they are not the only
        lanes that a shuffle reads.
        """
        here = self.arriving(site)
        missing = self.members(mask) & T.whole(here, 32) & ~here
        for other, same in alike:
            if not missing:
                return 0
            if same is None or same == mask:
                there = self.arriving(other)
                # An instruction that threads waiting here also reach is a second collective, not a match.
                if not there & here:
                    missing &= ~there
        if self._reads_only(site, here, missing):
            return missing
        splitting = filter(self.splits, conditions(self.model, site))
        return missing if any(self._may_wait(c, missing) for c in splitting) else 0

    def _reads_only(self, site: int, readers: int, missing: int) -> bool:
        """Whether *site* is a shuffle in which all *readers* receive the undefined value of a *missing* lane."""
        values, instruction = self.model.values, self.model.instruction(site)
        if instruction.effects.exchange is not Exchange.SHUFFLE or instruction.match is None:
            return False
        by, bounds = (values.constant_operand(o, site) for o in instruction.operands[2:4])
        if by is None or bounds is None:
            return False
        threads = (t for t in range(readers.bit_length()) if readers >> t & 1)
        return all(missing >> shuffled(instruction.match, t, by, bounds)[0] & 1 for t in threads)

    def _may_wait(self, condition: Condition, missing: int) -> bool:
        """Whether those of the *missing* lanes for which *condition* does not hold may wait before they exit.

        Lanes that wait for others may wait for those that wait for them.
        """
        model, cfg = self.model, self.model.cfg
        source, threads_at = cfg.block_of[condition.at], model.reachability.threads_at
        p = model.values.before(condition.register, condition.at)
        others = missing & threads_at.get(source, 0) & model.values.feasible_threads(p, not condition.value)
        edge, seen, work = condition.edge, set[int](), [source]
        if edge is None and self._waits(range(condition.at + 1, cfg.blocks[source].end), others):
            return True
        while work:
            for e in cfg.successors[work.pop()]:
                block = cfg.blocks[e.target]
                if e == edge or e.target in seen or not threads_at.get(e.target, 0) & others:
                    continue
                if self._polls(e.target) or self._waits(range(block.start, block.end), others):
                    return True
                seen.add(e.target)
                work.append(e.target)
        return False

    def _waits(self, sites: range, threads: int) -> bool:
        """Whether some of *threads* may execute an instruction of *sites* that waits for other threads."""
        matches = ((i, self.model.instruction(i).match) for i in sites)
        return any(
            match is not None
            and (match.scope in _TOGETHER or match.form.effects.awaits_threads)
            and bool(self.arriving(i) & threads)
            for i, match in matches
        )

    def _polls(self, block: int) -> bool:
        """Whether *block* leaves a loop when a word that another thread may write has a certain value."""
        cfg, values, last = self.model.cfg, self.model.values, self.model.cfg.blocks[block].end - 1
        bodies = [cfg.loops[head] for head in cfg.enclosing_loops(block)]
        leaving = [
            e for e in cfg.successors[block] for body in bodies if e.target not in body and e.predicate >= 0
        ]
        nodes = map(values.node, values.subexpressions(*(values.before(e.predicate, last) for e in leaving)))
        loads = [node.site for node in nodes if type(node) is Loaded]
        return any(
            (match := self.model.instruction(i).match) is not None
            and match.order in _STRONG
            and any(cfg.block_of[i] in body for body in bodies)
            for i in loads
        )

    def outside(self, site: int, mask: int) -> int:
        """The threads that execute *site* and are not members of *mask*; 0 if that is not certain for any thread."""
        known = executing(self.model, site)
        if known is None:
            return 0
        threads, sure = known
        outside = threads & ~self.members(mask)
        # If an unknown condition also selects among the warps, every warp must have such a lane.
        return outside if sure or T.whole(outside, 32) & threads == threads else 0


def _confidence(model: KernelModel) -> Confidence | None:
    """Medium if the CTA may be launched with a partial warp; None, the rule's own, otherwise."""
    return None if model.function.threads else Confidence.MEDIUM


def _whole(model: KernelModel, site: int) -> bool:
    """Whether all lanes of a warp execute *site* if one does."""
    return model.instruction(site).guard < 0 and arrive_together(model, site, "warp")


def _lanes_of(threads: int) -> int:
    """The lanes of *threads* if they are the same in every warp that has any; 0 otherwise."""
    found = set()
    while threads:
        found.add(threads & _EVERY_LANE)
        threads >>= 32
    found.discard(0)
    return found.pop() if len(found) == 1 else 0


def _masked(model: KernelModel, sites: list[int], mask: int) -> tuple[Repair, ...]:
    """*mask* as the membermask of *sites*; empty unless it is an immediate operand in each of them."""
    if not mask or not all(isinstance(model.instruction(site).role("mask"), Immediate) for site in sites):
        return ()
    changes = tuple(operand(site, "mask", f"0x{mask:x}") for site in sites)
    return (Repair(f"use the membermask 0x{mask:x}", changes),)


def _excluded(model: KernelModel, sites: list[int], mask: int, outside: int) -> Hit:
    opcode = model.instruction(min(sites)).opcode
    threads = model.describe_threads(outside)
    return CV006.hit(
        site=min(sites),
        message=f"{opcode} is executed by {threads}, which its membermask 0x{mask:x} excludes",
        fixes=_masked(model, sites, _EVERY_LANE) if all(_whole(model, site) for site in sites) else (),
        help="include every lane that executes it in the membermask, 0xffffffff for a whole warp, "
        "or exclude the other lanes by a branch",
        count=len(sites),
        confidence=_confidence(model),
    )


def _awaited(model: KernelModel, lanes: _Lanes, sites: list[int], mask: int, arriving: int) -> Hit:
    i = min(sites)
    opcode = model.instruction(i).opcode
    here = model.describe_threads(arriving)
    branch = [c for c in conditions(model, i) if c.edge is not None and lanes.splits(c)][:1]
    return CV005.hit(
        site=i,
        message=f"{opcode} waits for all lanes of its membermask 0x{mask:x}, but only {here} can reach it",
        steps=(
            *(Mark(c.at, "the other lanes of the mask take the other path here") for c in branch),
            Mark(i, "waits for lanes that cannot reach it"),
        ),
        fixes=_masked(model, sites, _lanes_of(arriving)),
        help="execute it where all lanes of the mask converge, or include only the lanes that reach it in the mask",
        count=len(sites),
        confidence=_confidence(model),
    )
