"""Membermasks of elect, shfl, vote, match, redux and bar.warp.sync (PTX ISA 9.7.9.6, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial, reduce
from operator import or_

from tclint._dataclass import dataclass
from tclint.analyses.divergent_branches import DivergentBranches
from tclint.analyses.execution import Condition, branches, conditions, executing, guards
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._repairs import arrive_together
from tclint.checks._wording import agreeing, split_at
from tclint.findings.edits import Repair, operand
from tclint.findings.scales import Confidence, Severity
from tclint.ir.nodes import Immediate
from tclint.isa.effects import Barrier, Exchange, Order
from tclint.isa.lane_exchange import shuffled
from tclint.isa.special_registers import ALL_LANES
from tclint.values import thread_masks as T
from tclint.values.divergence import Split
from tclint.values.nodes import Compare, Loaded, ParameterRead, SpecialRead
from tclint.values.trials import Trial

CV005 = RuleId("CV005")
CV006 = RuleId("CV006")

_TOGETHER = frozenset(("lanes", "warp", "warpgroup", "cta", "cluster"))
"""The scopes of instructions that some other thread must execute too."""
_ROUNDED_UP = (
    "another bound of the same index decides what a lane has, so this one may be a number of whole warps"
)
_STRONG = (Order.VOLATILE, Order.RELAXED, Order.ACQUIRE)
"""The orders of loads that can observe a word which another thread writes."""


@check(CV005, CV006, analyses=(DivergentBranches,))
def membermasks(model: KernelModel) -> Iterator[Hit]:
    """Lanes in a membermask that cannot reach the instruction, and lanes outside of it that execute the instruction."""
    function = model.function
    sites = grouped(
        (
            use.match.form.event,
            (i, None if (mask := model.constant_of(i, "mask")) is None else mask & ALL_LANES),
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
    made_up: list[tuple[_Fault, int]] = []
    for alike in sites.values():
        for i, mask in alike:
            outside = lanes.outside(i, mask) if function.entry and mask not in (None, ALL_LANES) else 0
            if outside and mask is not None:
                excluded.setdefault((outside, mask), []).append(i)
            elif mask is not None and lanes.split(i) and lanes.missing(i, mask, alike):
                awaited.setdefault((lanes.arriving(i), mask), []).append(i)
            elif function.entry and (fault := lanes.fault(i, mask, alike)) is not None:
                made_up.append((fault, i))
    for same in grouped((fault.kind(model), (fault, i)) for fault, i in made_up).values():
        yield _at_fault(model, same[0][0], [i for _, i in same])
    named = reduce(or_, (mask for alike in sites.values() for _, mask in alike if mask is not None), 0)
    # If all masks together name the first lanes of a warp, the kernel may be launched with only these lanes.
    partial_warp = function.most_threads is None and not named & (named + 1)
    for (outside, mask), where in excluded.items():
        absent = partial_warp and not _lanes_of(outside) & named and not _needs_more(model, named)
        hit = _excluded(model, where, mask, outside)
        if absent and model.awaits(Barrier.CTA):  # of which a CTA of less than a warp has no need
            yield hit.unshown(Severity.ERROR)
            continue
        doubt = "no membermask includes these lanes, and the CTA may be launched without them"
        yield hit.doubted(doubt if absent else "")
    for (arriving, mask), where in awaited.items():
        yield _awaited(model, lanes, where, mask, arriving)


@dataclass(frozen=True, slots=True)
class _Fault:
    """What is wrong with a membermask for numbers that were made up; texts are in words, for the message."""

    rule: RuleId
    condition: Condition | None
    """Where lanes part; None if they need not."""
    when: str
    """What must hold, in words that follow *if*."""
    reaching: str
    """The threads that execute it then."""
    lane: int
    """One that its own mask excludes; -1: lanes that the mask includes are missing."""
    lanes: int
    """The mask of that lane, or the missing lanes."""
    reads: bool = False
    """Whether a shuffle gets the value of a missing lane."""
    own: bool = False
    """Whether data of each thread decide which lanes execute it."""
    doubt: str = ""
    """Why no launch may be of that kind."""

    def kind(self, model: KernelModel) -> Hashable:
        """What is the same for faults that are one in the source."""
        where = None if self.condition is None else split_at(model, self.condition)
        return self.rule, where, self.when, self.reads, self.own


class _Lanes:
    """Upper and lower bounds of the threads that execute an instruction."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.branches = model.fact(DivergentBranches)
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

    def fault(self, site: int, mask: int | None, alike: list[tuple[int, int | None]]) -> _Fault | None:
        """What is wrong with *mask*, or with the mask in a register, for numbers that a launch, or what threads load, may
        have; None if that is not known."""
        model, branches = self.model, self.branches
        arriving = model.reachability.threads_at.get(model.cfg.block_of[site], 0)
        for condition in conditions(model, site):
            p = model.values.before(condition.register, condition.at)
            known = mask is not None and model.values.mask(p) is not None
            split = None if known else branches.parting(condition, site, arriving)
            if split is not None and not (split.leaving and mask is None):
                found = self._judged(split, condition, site, alike)
                if found is not None:
                    return found
        return None if mask is not None else self._unlike(site, arriving)

    def _unlike(self, site: int, arriving: int) -> _Fault | None:
        """Whether a mask in a register excludes the lane itself in a CTA of some shape, on whose size it depends."""
        model = self.model
        value = model.values.operand(model.instruction(site).role("mask"), site)
        nodes = [model.values.node(v) for v in model.values.subexpressions(value)]
        if not any(type(node) is SpecialRead and node.name.startswith("%ntid") for node in nodes):
            return None
        for trial in self.branches.launches(site, arriving):
            masks = trial.lanes(value)
            executing = trial.executing(site)
            out = [
                lane
                for lane, mask in enumerate(masks)
                if executing[lane] and mask is not None and not mask >> lane & 1
            ]
            if out:
                x, y, _ = trial.made.shape
                return _Fault(CV006, None, f"the CTA has {x} x {y} threads", "", out[0], masks[out[0]] or 0)
        return None

    def _judged(
        self, split: Split, condition: Condition, site: int, alike: list[tuple[int, int | None]]
    ) -> _Fault | None:
        """What is wrong with the mask of *site* where lanes part as in *split*."""
        trial, first = split.trial, split.trial.first
        here = split.reaching >> first
        executing = trial.executing(site)
        absent = split.others >> first
        if not split.leaving:
            here = sum(1 << lane for lane, e in enumerate(executing) if e)
            absent = sum(1 << lane for lane, e in enumerate(executing) if e == 0)
        masks = trial.lanes(self.model.values.operand(self.model.instruction(site).role("mask"), site))
        named = reduce(or_, (mask or 0 for lane, mask in enumerate(masks) if here >> lane & 1), 0)
        missing = named & absent
        for other, _ in alike:
            there = sum(1 << lane for lane, e in enumerate(trial.executing(other)) if e != 0)
            if other != site and not there & here:
                missing &= ~there
        if not missing:
            return None
        when = self.branches.condition(split, condition)
        which = self.branches.threads(here << first)
        doubt = self._filling(split, condition, site)
        if self._reads(trial, site, here, missing):
            return _Fault(CV005, condition, when, which, -1, missing, reads=True, own=split.own, doubt=doubt)

        def surely(other: int) -> int:
            lanes = trial.executing(other) if other != site else ()
            return sum(1 << first + lane for lane, executes in enumerate(lanes) if executes)

        waits = self._may_wait(condition, missing << first, surely)
        return (
            _Fault(CV005, condition, when, which, -1, missing, own=split.own, doubt=doubt) if waits else None
        )

    def _filling(self, split: Split, condition: Condition, site: int) -> str:
        """The doubt about a bound that is a number of lanes rounded up: those past the bound of the data, a lesser one, stay.

        A kernel with two bounds of one index, of which the first lets threads leave and the second decides what a thread
        has, gives the other lanes of a warp something that changes nothing.
        """
        model, edge = self.model, condition.edge
        if edge is None or not split.unless_multiple(edge):
            return ""
        values, cfg, bound = model.values, model.cfg, split.bounds[0][0]
        deciding = {values.before(each.register, each.at) for each in conditions(model, site)}

        def compared(p: int) -> Iterator[tuple[int, int]]:
            for node in map(values.node, values.subexpressions(p)):
                if type(node) is Compare:
                    yield from ((node.left, node.right), (node.right, node.left))

        p = values.before(condition.register, condition.at)
        indices = {index for index, limit in compared(p) if limit == bound}
        others = (
            values.after(model.instruction(i).writes[0], i)
            for use in model.function.uses
            if use.match is not None and use.match.form.compute == "setp"
            for i in use.sites
            if cfg.dominates(edge.target, cfg.block_of[i])
        )
        stay = any(
            index in indices and limit != bound and type(values.node(limit)) is ParameterRead
            for other in others
            if other not in deciding
            for index, limit in compared(other)
        )
        return _ROUNDED_UP if stay else ""

    def _reads(self, trial: Trial, site: int, here: int, missing: int) -> bool:
        """Whether *site* is a shuffle in which a lane of *here* gets the undefined value of a *missing* one, and uses it."""
        instruction = self.model.instruction(site)
        if instruction.effects.exchange is not Exchange.SHUFFLE or instruction.match is None:
            return False
        by, bounds = (trial.lanes(self.model.values.operand(o, site)) for o in instruction.operands[2:4])
        return any(
            here >> lane & 1
            and b is not None
            and c is not None
            and missing >> shuffled(instruction.match, lane, b, c)[0] & 1
            and self._used(trial, site, lane)
            for lane, (b, c) in enumerate(zip(by, bounds, strict=True))
        )

    def _used(self, trial: Trial, site: int, lane: int) -> bool:
        """Whether a *lane* may use the result of *site*: not where it does not execute the use, or selects another value."""
        model = self.model
        derived = set(model.instruction(site).writes[:1])
        work = list(derived)
        while work:
            register = work.pop()
            for i in model.readers.get(register, ()):
                instruction = model.instruction(i)
                form = None if instruction.match is None else instruction.match.form
                if trial.executing(i)[lane] == 0 or not self._selects(trial, i, register, lane):
                    continue
                if form is None or form.event or form.flow or form.memory:
                    return True
                work += set(instruction.writes) - derived
                derived.update(instruction.writes)
        return False

    def _selects(self, trial: Trial, site: int, register: int, lane: int) -> bool:
        """Whether the instruction at *site* may use *register* in a *lane*: a selection uses one of two."""
        instruction = self.model.instruction(site)
        if instruction.match is None or instruction.match.form.compute != "selp":
            return True
        _, yes, no, p = instruction.operands
        truth = trial.lanes(self.model.values.operand(p, site))[lane]
        return truth is None or register == p or register == (yes if truth else no)

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
        """Whether *site* is a shuffle in which all *readers* of a warp with a *missing* lane receive the undefined value of one.

        At least one of them may store it, or branch on it: a sum of the CTA has no use for what a warp without work adds up.
        """
        values, instruction = self.model.values, self.model.instruction(site)
        readers &= T.whole(missing, 32)
        if instruction.effects.exchange is not Exchange.SHUFFLE or instruction.match is None:
            return False
        if not any(
            self.arriving(user) & readers
            for user, _ in self.model.transitive_users(site)
            if self.model.instruction(user).accesses or self.model.instruction(user).flow
        ):
            return False
        by, bounds = (values.constant_operand(o, site) for o in instruction.operands[2:4])
        if by is None or bounds is None:
            return False
        threads = (t for t in range(readers.bit_length()) if readers >> t & 1)
        return all(missing >> shuffled(instruction.match, t, by, bounds)[0] & 1 for t in threads)

    def _may_wait(
        self, condition: Condition, missing: int, executing: Callable[[int], int] | None = None
    ) -> bool:
        """Whether those of the *missing* lanes for which *condition* does not hold may wait before they exit.

        Lanes that wait for others may wait for those that wait for them. *executing* are the threads that execute an
        instruction; by default, those that may.
        """
        model, cfg = self.model, self.model.cfg
        source, threads_at = cfg.block_of[condition.at], model.reachability.threads_at
        p = model.values.before(condition.register, condition.at)
        others = missing & threads_at.get(source, 0) & model.values.feasible_threads(p, not condition.value)
        edge, seen, work = condition.edge, set[int](), [source]
        wait = partial(self._waits, others, executing or self.arriving)
        if edge is None and wait(range(condition.at + 1, cfg.blocks[source].end)):
            return True
        while work:
            for e in cfg.successors[work.pop()]:
                block = cfg.blocks[e.target]
                if e == edge or e.target in seen or not threads_at.get(e.target, 0) & others:
                    continue
                if self._polls(e.target) or wait(range(block.start, block.end)):
                    return True
                seen.add(e.target)
                work.append(e.target)
        return False

    def _waits(self, threads: int, executing: Callable[[int], int], sites: range) -> bool:
        """Whether some of *threads* may execute an instruction of *sites* that waits for other threads."""
        matches = ((i, self.model.instruction(i).match) for i in sites)
        return any(
            match is not None
            and (match.scope in _TOGETHER or match.form.effects.awaits_threads)
            and bool(executing(i) & threads)
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
        known = executing(self.model, site, inner=True)
        if known is None:
            return 0
        threads, sure = known
        outside = threads & ~self.members(mask)
        # If an unknown condition also selects among the warps, every warp must have such a lane.
        return outside if sure or T.whole(outside, 32) & threads == threads else 0


def _needs_more(model: KernelModel, named: int) -> bool:
    """Whether the kernel distinguishes other lanes of the first warp from those *named*, which its masks include.

    Something that it computes of the index of the thread is the same in these and not in all: a CTA of only these would
    have no use for it.
    """
    values = model.values
    return any(
        all(plane & named in (0, named) for plane in planes)
        and any(plane & ALL_LANES not in (0, ALL_LANES) for plane in planes)
        for use in model.function.uses
        if use.match is not None and use.match.form.compute
        for i in use.sites
        for register in model.instruction(i).writes[:1]
        if (planes := values.bit_slices(values.after(register, i)))
    )


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
        found.add(threads & ALL_LANES)
        threads >>= 32
    found.discard(0)
    return found.pop() if len(found) == 1 else 0


def _masked(model: KernelModel, sites: list[int], mask: int) -> tuple[Repair, ...]:
    """*mask* as the membermask of *sites*; empty unless it is an immediate operand in each of them."""
    if not mask or not all(isinstance(model.instruction(site).role("mask"), Immediate) for site in sites):
        return ()
    changes = tuple(operand(site, "mask", f"0x{mask:x}") for site in sites)
    return (Repair(f"use the membermask 0x{mask:x}", changes),)


def _at_fault(model: KernelModel, fault: _Fault, sites: list[int]) -> Hit:
    i, condition = min(sites), fault.condition
    opcode = model.instruction(i).opcode
    if fault.lane >= 0:
        mask = fault.lanes & ALL_LANES
        message = (
            f"{opcode} is executed by lane {fault.lane} with the membermask 0x{mask:x}, which excludes it"
        )
        help = "compute the mask from the lanes of the group that the lane belongs to"
    else:
        does = "gets the values of" if fault.reads else "waits for"
        who = "which lanes do depends on data that differs from thread to thread"
        if not fault.own:
            who = f"only {agreeing(fault.reaching, 'does', 'do')}"
        message = f"{opcode} {does} lanes of its membermask that may not execute it: {who}"
        help = "execute it where all lanes of the mask converge, or compute the mask of those that take the branch"
    return fault.rule.hit(
        site=i,
        message=message if fault.own or not fault.when else f"{message} if {fault.when}",
        steps=(
            *(
                ()
                if condition is None or condition.edge is None
                else (Mark(condition.at, "lanes of the mask part here"),)
            ),
            Mark(i, "needs all lanes of its membermask"),
        ),
        help=help,
        count=len(sites),
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
        condition=fault.when,
    ).doubted(fault.doubt)


def _excluded(model: KernelModel, sites: list[int], mask: int, outside: int) -> Hit:
    opcode = model.instruction(min(sites)).opcode
    threads = model.describe_threads(outside)
    return CV006.hit(
        site=min(sites),
        message=f"{opcode} is executed by {threads}, which its membermask 0x{mask:x} excludes",
        fixes=_masked(model, sites, ALL_LANES) if all(_whole(model, site) for site in sites) else (),
        help="include every lane that executes it in the membermask, 0xffffffff for a whole warp, "
        "or keep the other lanes out with a branch",
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
        help="execute it where all lanes of the mask converge, or narrow the mask to the lanes that reach it if they need no others",
        count=len(sites),
        confidence=_confidence(model),
    )
