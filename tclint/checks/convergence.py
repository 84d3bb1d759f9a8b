"""Convergence: collective instructions that only some of the threads they require execute (PTX ISA 9.7, ``.aligned``).

A *condition* of an instruction is its guard or a branch on which it is control-dependent. It *splits* a group (a warp,
a warpgroup or the CTA) if it holds for some threads of the group and not for others, so that only some reach the
instruction. It does not if the others bypass the instruction only under uniform conditions that keep every thread from
reaching it.

Under-approximates: a condition counts only if it is exact in the thread index (``Values.mask``), if a conjunct
restricts it to one lane of a warp, if its value is divergent, or if it compares the thread index with a bound before an
exit. All others are unknown and never reported. Over-approximates where divergent data happens to be equal in a whole
warp, or the bound is a multiple of 32, hence the lower confidence in these cases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from tclint._dataclass import dataclass
from tclint.analyses.divergent_branches import DivergentBranches
from tclint.analyses.execution import Condition, branches, guards, others_exit
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._wording import agreeing, split_at, together
from tclint.dataflow import EXIT, Found, Path, PathQuery, Search, find_paths, next_answer
from tclint.dataflow.feasible_paths import FEASIBLE_PATH
from tclint.dataflow.views import ThreadContext
from tclint.findings.scales import Confidence, Severity
from tclint.ir.cfg import Edge
from tclint.isa.effects import Resource
from tclint.isa.forms import Match
from tclint.values import PathCondition, UniformityScope
from tclint.values import thread_masks as T

CV001 = RuleId("CV001")
CV002 = RuleId("CV002")
CV003 = RuleId("CV003")
CV004 = RuleId("CV004")

MAX_PATHS_PER_BRANCH = 8
"""Paths past an instruction that are tried for one branch, before the search gives up."""
_SIZES = {"warp": 32, "warpgroup": 128, "cta": 32}


def _group_size(match: Match | None) -> int | None:
    """How many threads must execute the instruction together; None if it is not collective."""
    if match is None:
        return None
    # Triton executes a separate setmaxnreg in every warp of a warpgroup, so only whole warps are required.
    if match.form.effects.resource is Resource.REGISTERS:
        return 32
    return _SIZES.get(match.scope)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """How a condition splits a group; texts are in words, for the message."""

    rule: RuleId
    group: str
    """The group that must execute the instruction together."""
    confidence: Confidence
    reaching: str = ""
    """The threads for which the condition holds: ``thread 0``. "" if unknown."""
    others: str = ""
    """The threads of the same groups for which it does not hold."""
    limit: str = "only"
    """``at most`` if fewer than the *reaching* threads may satisfy the condition."""
    left: str = ""
    """The threads that have exited, if the other edge leaves the kernel (CV003)."""
    reason: str = ""
    """Why it diverges, or why threads exit, if the threads are unknown."""
    severity: Severity | None = None
    """That of the rule if None."""
    condition: str = ""
    """When the group is split, in words that follow *if*; empty if it is in any launch."""
    own: bool = False
    """Whether data of each thread decide it, as *reason* says."""


@check(CV001, CV002, CV003, CV004, analyses=(DivergentBranches,))
def divergent_aligned(model: KernelModel) -> Iterator[Hit]:
    """Collective instructions under a condition that provably splits the threads they require."""
    found = (
        ((split_at(model, condition), verdict), (condition, verdict, i))
        for condition, (verdict, i) in _splitting(model)
    )
    for alike in grouped(found).values():
        condition, verdict, _ = alike[0]
        yield _hit(model, condition, verdict, [i for _, _, i in alike])


def _splitting(model: KernelModel) -> Iterator[tuple[Condition, tuple[_Verdict, int]]]:
    """For each collective instruction, the first condition that splits its threads, with the verdict and the site."""
    by_block = grouped(
        (model.cfg.block_of[i], (i, size))
        for use in model.function.uses
        if (size := _group_size(use.match)) is not None
        for i in use.sites
    )
    judge = _Judge(model)
    for b, members in by_block.items():
        if b not in model.cfg.rank:
            continue
        before = branches(model, b)
        splitting = {
            size: [c for c in before if judge.may_split(c, size)] for size in {m[1] for m in members}
        }
        for i, size in sorted(members):
            # A CTA barrier is also split by conditions that admit whole warps.
            for condition in [*guards(model, i), *(before if judge.barrier(i) else splitting[size])]:
                verdict = judge.verdict(condition, b, i, size)
                if verdict is not None:
                    yield condition, (verdict, i)
                    break


def _hit(model: KernelModel, condition: Condition, verdict: _Verdict, sites: list[int]) -> Hit:
    i, group = sites[0], verdict.group
    opcode = together(model.instruction(i))
    if verdict.rule == CV003:
        remedy = f"let only whole {group}s exit early, or move the exit after {opcode}"
    else:
        remedy = f"move {opcode} out of the divergent region"
        if (
            model.instruction(i).effects.synchronises is None
            or model.instruction(i).role("count") is not None
        ):
            remedy += f", or make the condition {group}-uniform"
    return verdict.rule.hit(
        site=i,
        message=f"{opcode} needs all threads of its {group}, but {_cause(verdict, condition)}",
        steps=(
            *(() if condition.edge is None else (_split(model, verdict, condition, opcode),)),
            Mark(i, f"needs all threads of its {group}"),
        ),
        count=len(sites),
        help=remedy,
        confidence=verdict.confidence,
        severity=verdict.severity,
        condition=verdict.condition,
    )


def _cause(verdict: _Verdict, condition: Condition) -> str:
    """Why some threads do not execute the instruction, for the headline."""
    detail = f", {verdict.reason}" if verdict.reason else ""
    branch = "it is control-dependent on a divergent branch"
    if verdict.left:
        what = f"{agreeing(verdict.left, 'has', 'have')} left the kernel before it{detail}"
    elif condition.edge is None:
        what = f"its guard {verdict.reason or f'admits {verdict.limit} {verdict.reaching}'}"
    elif verdict.reason:
        what = f"{branch}, whose condition {verdict.reason}"
    else:
        what = f"{branch}, from which {verdict.limit} {agreeing(verdict.reaching, 'reaches', 'reach')} it"
    return f"{what} if {verdict.condition}" if verdict.condition and not verdict.own else what


def _split(model: KernelModel, verdict: _Verdict, condition: Condition, opcode: str) -> Mark:
    """The step of what happens at the branch of *condition*: which threads skip the instruction, and which continue to it.

    Which of them take the branch is not said: compilers invert the conditions of the source.
    """
    name = model.function.registers[condition.register].name
    if verdict.left:
        detail = f", {verdict.reason}" if verdict.reason else ""
        return Mark(condition.at, f"leaves the kernel here{detail} ({name})", role=verdict.left)
    if verdict.reason:
        return Mark(condition.at, f"diverges: the condition {verdict.reason} ({name})")
    branch = model.instruction(condition.at)
    most = "at most " if verdict.limit == "at most" else ""
    reaching, others = (most, verdict.reaching), ("", verdict.others)
    if branch.flow != "branch":  # a guarded exit or return
        what = f"{_do(others, 'exits', 'exit')}, {_do(reaching, 'continues', 'continue')}"
    else:
        what = f"{_do(others, 'skips', 'skip')} {opcode}, {_do(reaching, 'continues', 'continue')} to it"
    return Mark(condition.at, f"{what} ({name})", role="")


def _do(who: tuple[str, str], singular: str, plural: str) -> str:
    """A limit, such as "at most ", and threads, followed by the form of the verb that agrees."""
    limit, threads = who
    return limit + agreeing(threads, singular, plural)


class _Judge:
    """Decides whether conditions split groups, and memoises the answers."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._existing = T.full(model.function.threads or model.values.threads)
        """The threads of a CTA, without those that complete its last warp if their number is stated."""
        self._verdicts: dict[tuple[Condition, int, int], _Verdict | None] = {}
        self._may_split: dict[tuple[int, int], bool] = {}  # by where the predicate is read
        self._can_separate: dict[tuple[Condition, int], bool] = {}

    def verdict(self, condition: Condition, block: int, site: int, size: int) -> _Verdict | None:
        """How *condition* splits a group that the instruction at *site* in *block* requires; None if it does not."""
        # Groups of which no thread reaches the instruction do not matter.
        arriving = T.whole(self.model.reachability.threads_at.get(block, 0), size)
        if self.splits(condition, size):
            key = (condition, arriving, size)
            if key not in self._verdicts:
                self._verdicts[key] = self._by_index(condition, arriving, size)
            found = self._verdicts[key]
            if found is not None and self.barrier(site) and self._others_exit(condition):
                # A barrier does not wait for threads that have exited, unless it counts them.
                counts = self.model.instruction(site).role("count") is not None
                found = replace(found, severity=Severity.WARNING) if counts else None
            if found is not None and self._separates(condition, site):
                return found
        p = self.model.values.before(condition.register, condition.at)
        known = self.model.values.mask(p) is not None
        found = None if known else self._by_numbers(condition, site, arriving, size)
        if found is None and self._waits_for_all(site):
            found = self._whole_cta(condition, site)
        return found

    def _waits_for_all(self, site: int) -> bool:
        """Whether the instruction at *site* is a barrier for the whole CTA."""
        instruction = self.model.instruction(site)
        return (
            self.barrier(site)
            and instruction.role("count") is None
            and instruction.effects.synchronises is not None
        )

    def _others_exit(self, condition: Condition) -> bool:
        """Whether the threads for which *condition* does not hold leave the function at once."""
        return condition.edge is not None and others_exit(self.model.cfg, condition.edge)

    def _separates(self, condition: Condition, site: int) -> bool:
        """Whether some threads can reach *site* by *condition* while others bypass it, given the facts that all share.

        Jump threading makes a branch go directly where a later uniform branch would lead. A path past *site* is then no
        evidence of divergence if it is feasible only when no thread reaches *site*.
        """
        edge, cfg = condition.edge, self.model.cfg
        if edge is None or len(cfg.successors[edge.source]) != 2:
            return True
        block = cfg.block_of[site]
        key = condition, block
        if key not in self._can_separate:
            self._can_separate[key] = self._bypassed_while_reached(edge, site)
        return self._can_separate[key]

    def _bypassed_while_reached(self, edge: Edge, site: int) -> bool:
        """Whether the facts that all threads share on some path past *site* allow others to reach it by *edge*."""
        model, cfg = self.model, self.model.cfg
        join = cfg.ipdom.get(edge.source, -1)
        meet = EXIT if join < 0 else cfg.blocks[join].start
        others = frozenset(e for e in cfg.successors[edge.source] if e != edge)
        view = model.views.block_context(edge.source)
        past = self._paths(edge, frozenset((edge,)), view, meet, (site, meet))
        for tried, path in enumerate(past):
            if tried == MAX_PATHS_PER_BRANCH:
                model.ledger.give_up(FEASIBLE_PATH, site, f"more than {MAX_PATHS_PER_BRANCH} paths")
                break
            facts = self._shared_facts(path, edge, view)
            here = self._paths(edge, others, ThreadContext(view.threads, facts), site, (meet,))
            if isinstance(next_answer(here), Found):
                return True
        return False

    def _shared_facts(self, path: Path, branch: Edge, view: ThreadContext) -> PathCondition:
        """The facts of *path* that hold for all threads, whether or not they take it from the divergent *branch*."""
        cfg, values, views = self.model.cfg, self.model.values, self.model.views
        facts = view.facts
        for edge in path.edges:
            p = views.reachability.edge_predicate(edge)
            if edge.target in cfg.loops and branch.source in cfg.loops[edge.target]:
                break  # the next iteration evaluates the conditions again
            if p is None or edge.source == branch.source or values.mask(p) is not None:
                continue
            if values.uniformity(p) is not UniformityScope.DIVERGENT:
                facts = values.refine(p, edge.value, facts)
        return facts

    def _paths(
        self, branch: Edge, closed: AbstractSet[Edge], view: ThreadContext, goal: int, ends: Collection[int]
    ) -> Search[Path]:
        """The paths from *branch* to *goal* that pass none of *ends* before and take no *closed* edge."""
        cfg = self.model.cfg
        relevant: list[Sequence[int]] = [()] * len(cfg.blocks)
        for i in {goal, *ends} - {EXIT}:
            relevant[cfg.block_of[i]] = sorted({i, *relevant[cfg.block_of[i]]})
        query = PathQuery(
            start=cfg.blocks[branch.source].end - 1,
            context=view,
            fact=True,
            relevant=relevant,
            step=lambda fact, i, _: None if i in ends else fact,
            goal=lambda _, i: i == goal,
            goals=cfg.exits | self.model.reachability.dispatchers if goal == EXIT else (cfg.block_of[goal],),
            closed=closed,
        )
        return find_paths(self.model.search_cache, query)

    def barrier(self, site: int) -> bool:
        """Whether the instruction at *site* is a CTA barrier."""
        match = self.model.instruction(site).match
        return match is not None and match.form.scope == "cta"

    def may_split(self, condition: Condition, size: int) -> bool:
        """Whether *condition* may split any group of *size* threads: a cheap test that most conditions fail."""
        p = self.model.values.before(condition.register, condition.at)
        return self.splits(condition, size) or self.model.fact(DivergentBranches).may_split(p)

    def splits(self, condition: Condition, size: int) -> bool:
        """Whether the thread index alone decides that *condition* splits a group of *size* threads: a cheap test."""
        key = (condition.at, size)
        if key not in self._may_split:
            values = self.model.values
            p = values.before(condition.register, condition.at)
            mask = values.mask(p)
            self._may_split[key] = (
                T.partial_groups(mask, self._existing, size)
                if mask is not None
                else any(
                    T.partial_groups(values.feasible_threads(p, truth), self._existing, size)
                    for truth in (True, False)
                )
            )
        return self._may_split[key]

    def _by_index(self, condition: Condition, arriving: int, size: int) -> _Verdict | None:
        """How the index of each thread of those *arriving* splits groups of *size* threads; None if it does not."""
        values, views = self.model.values, self.model.views
        group = "warpgroup" if size == 128 else "warp"
        p = values.before(condition.register, condition.at)
        mask = values.mask(p)
        if mask is None:
            return self._at_most(values.feasible_threads(p, condition.value) & arriving, arriving, group)
        active = views.reachability.threads_at.get(self.model.cfg.block_of[condition.at], 0) & arriving
        taken = (mask if condition.value else ~mask) & active
        if not T.partial_groups(taken, active, size):
            return None
        whole_warps = not T.partial_groups(taken, active, 32)
        if self.model.function.entry and self._others_exit(condition) and not whole_warps:
            left = T.describe(active & ~taken, values.threads)
            return _Verdict(CV003, group, Confidence.HIGH, left=left)
        rule = CV004 if whole_warps else CV002 if T.at_most_one_lane(taken) else CV001
        return self._divided(rule, group, taken, active)

    def _at_most(self, taken: int, arriving: int, group: str) -> _Verdict | None:
        """The verdict where no other threads than those *taken* satisfy a condition, whatever else decides it.

        None if that may be all threads of some warp.
        """
        if not taken or any(mine == arriving & T.one_warp(mine) for _, mine in T.by_warp(taken)):
            return None
        rule = CV002 if T.at_most_one_lane(taken) else CV001
        reaching = T.describe(taken, self.model.values.threads)
        return _Verdict(
            rule, group, Confidence.HIGH, reaching=reaching, others="all other threads", limit="at most"
        )

    def _by_numbers(self, condition: Condition, site: int, arriving: int, size: int) -> _Verdict | None:
        """How *condition* splits a warp for numbers that a launch, or what threads load, may have; None if unknown."""
        branches = self.model.fact(DivergentBranches)
        exits = self._others_exit(condition)
        split = branches.parting(condition, site, arriving)
        if split is None:
            return None
        if exits and self.barrier(site) and not (split.own and (split.leaving or self.model.shared.writers)):
            return None  # it does not wait for them, and misses nothing that they would have written
        leave = exits and self.model.function.entry and not (self.barrier(site) or split.leaving)
        when = branches.condition(split, condition)
        left, reason = "", ""
        if split.own:
            reason = f"{'depending' if leave else 'depends'} on data that differs from thread to thread"
        elif split.leaving:
            reason = "ends its loop after another number of iterations in some lanes"
        elif not when and not leave:
            reason = "compares an index with a bound that lies within a warp"
        if leave:
            left = "some threads" if split.own else "threads whose index is past a bound"
        return _Verdict(
            CV003 if leave else CV001,
            "warpgroup" if size == 128 else "warp",
            Confidence.MEDIUM,
            reaching="" if reason else branches.threads(split.reaching),
            others="" if reason else branches.threads(split.others),
            left=left,
            reason=reason,
            severity=Severity.WARNING if when else None,
            condition=when,
            own=split.own,
        )

    def _divided(self, rule: RuleId, group: str, reaching: int, active: int) -> _Verdict:
        """The verdict where exactly the threads *reaching*, out of those *active*, satisfy the condition."""
        threads = self.model.values.threads
        sure = self.model.function.threads is not None or group != "CTA"
        return _Verdict(
            rule,
            group,
            Confidence.HIGH if sure else Confidence.MEDIUM,
            reaching=T.describe(reaching, threads),
            others=T.describe(active & ~reaching, threads),
        )

    def _whole_cta(self, condition: Condition, site: int) -> _Verdict | None:
        """How *condition* splits the CTA at a barrier without a thread count, which waits for all threads (9.7.13.1).

        None if that is not known, or if the other threads may arrive at another barrier before the paths join.
        """
        model, edge = self.model, condition.edge
        if edge is None or not self._others_pass(edge):
            return None
        active = model.reachability.threads_at.get(edge.source, 0)
        mask = model.values.mask(model.values.before(condition.register, condition.at))
        if self._others_exit(condition):  # it does not wait for them
            return None
        if mask is None:
            return self._warps_by_numbers(condition, edge, site)
        taken = (mask if condition.value else ~mask) & active
        others = active & ~taken
        if not taken or not others:
            return None
        found = self._divided(CV001, "CTA", taken, active)
        if model.values.cta_size is not None:
            return found
        # A launch with fewer threads has only one kind of them.
        fewest = max((some & -some).bit_length() - 1 for some in (taken, others))
        when = f"the CTA has more than {fewest} threads"
        return replace(found, severity=Severity.WARNING, confidence=Confidence.MEDIUM, condition=when)

    def _warps_by_numbers(self, condition: Condition, edge: Edge, site: int) -> _Verdict | None:
        """How *condition* parts whole warps for numbers that a launch may have; None if unknown."""
        branches = self.model.fact(DivergentBranches)
        split = branches.between_warps(edge, site, self.model.cta)
        when = "" if split is None else branches.condition(split, condition)
        if split is None or not when:
            return None
        ends = "ends its loop after another number of iterations in some warps" if split.leaving else ""
        return _Verdict(
            CV001,
            "CTA",
            Confidence.MEDIUM,
            reaching="" if ends else branches.threads(split.reaching),
            others="" if ends else branches.threads(split.others),
            reason=ends,
            severity=Severity.WARNING,
            condition=when,
        )

    def _others_pass(self, edge: Edge) -> bool:
        """Whether the threads that do not take *edge* arrive at no barrier before they join those that do."""
        model, cfg = self.model, self.model.cfg
        join = cfg.ipdom.get(edge.source, -1)
        if join == -1:
            return False
        seen = {join}
        work = [e.target for e in cfg.successors[edge.source] if e != edge]
        while work:
            b = work.pop()
            if b in seen:
                continue
            seen.add(b)
            for i in range(cfg.blocks[b].start, cfg.blocks[b].end):
                if model.instruction(i).effects.at_barrier:
                    return False
            work.extend(e.target for e in cfg.successors[b])
        return True
