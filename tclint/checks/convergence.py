"""Checks of convergence: collective instructions that not all of their threads reach (PTX ISA 9.7, ``.aligned``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tclint.analyses.execution import Condition, branches, guards, others_exit
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.dataflow import EXIT, Found, Path, Search, find_paths, next_answer
from tclint.dataflow.feasible_paths import FEASIBLE_PATH
from tclint.dataflow.views import ThreadContext
from tclint.findings.scales import Confidence
from tclint.ir.cfg import Edge
from tclint.isa.table import Match
from tclint.values import PathCondition, UniformityScope
from tclint.values import thread_masks as T

CV001 = RuleId("CV001")
CV002 = RuleId("CV002")
CV003 = RuleId("CV003")
CV004 = RuleId("CV004")

MAX_PATHS_PER_BRANCH = 8
"""Ways past an instruction that are looked at."""
_SIZES = {"warp": 32, "warpgroup": 128, "cta": 32}


def _group_size(match: Match | None) -> int | None:
    """How many threads must execute the instruction together; None for one that needs no company."""
    if match is None:
        return None
    # Triton runs one setmaxnreg of its own in every warp of a warpgroup; its warps need be whole, no more.
    if match.form.event == "setmaxnreg":
        return 32
    return _SIZES.get(match.scope)


@dataclass(frozen=True, slots=True)
class _Verdict:
    rule: RuleId
    why: str
    group: str
    confidence: Confidence


@check(CV001, CV002, CV003, CV004)
def divergent_aligned(model: KernelModel) -> Iterator[Hit]:
    """Collective instructions under a condition that provably splits the threads they need."""
    for condition, found in grouped(_splitting(model)).items():
        verdict = found[0][0]
        yield _hit(model, condition, verdict, [i for _, i in found])


def _splitting(model: KernelModel) -> Iterator[tuple[Condition, tuple[_Verdict, int]]]:
    """The first condition of each collective instruction that splits its threads, and the instruction."""
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
        splitting = {size: [c for c in before if judge.splits(c, size)] for size in {m[1] for m in members}}
        for i, size in sorted(members):
            # A barrier also minds conditions that let whole warps through.
            for condition in [*guards(model, i), *(before if judge.barrier(i) else splitting[size])]:
                verdict = judge.verdict(condition, b, i, size)
                if verdict is not None:
                    yield condition, (verdict, i)
                    break


def _hit(model: KernelModel, condition: Condition, verdict: _Verdict, sites: list[int]) -> Hit:
    i, group = sites[0], verdict.group
    name = model.function.registers[condition.register].name
    opcode = model.instruction(i).opcode.partition(".sync")[0]
    if verdict.rule == CV003:
        cause, remedy = f"{verdict.why} before it", "let whole warps leave only, or move the exit behind it"
    else:
        where = "its guard" if condition.edge is None else "a branch before it"
        cause = f"{where} lets only some of them through: {verdict.why}"
        remedy = f"move it out of the divergent region, or make the condition the same in the whole {group}"
    return verdict.rule.hit(
        site=i,
        message=f"{opcode} needs all threads of its {group}, but {cause}",
        steps=(
            *(() if condition.edge is None else (Mark(condition.at, f"{verdict.why} ({name})"),)),
            Mark(i, f"needs all threads of its {group}"),
        ),
        count=len(sites),
        help=remedy,
        confidence=verdict.confidence,
    )


class _Judge:
    """Decides about conditions; equal questions are answered once."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._known: dict[tuple[Condition, int, int], _Verdict | None] = {}
        self._may_split: dict[tuple[int, int], bool] = {}  # by where the predicate is read
        self._parting: dict[tuple[Condition, int], bool] = {}

    def verdict(self, condition: Condition, block: int, site: int, size: int) -> _Verdict | None:
        """Why *condition* splits a group that the instruction at *site* needs, or None."""
        instruction = self.model.instruction(site)
        barrier = self.barrier(site)
        found: _Verdict | None = None
        if self.splits(condition, size):
            # Only groups count of which some thread arrives at the instruction.
            arriving = T.whole(self.model.reachability.threads_at.get(block, 0), size)
            key = (condition, arriving, size)
            if key not in self._known:
                self._known[key] = self._judge(condition, arriving, size)
            found = self._known[key]
        if (
            found is not None
            and barrier
            and condition.edge is not None
            and others_exit(self.model.cfg, condition.edge)
        ):
            return None  # a barrier does not wait for threads that have exited
        if found is not None and not self._can_part(condition, site):
            found = None
        if (
            found is None
            and barrier
            and instruction.role("count") is None
            and instruction.event == "barrier-sync"
        ):
            return self._whole_cta(condition, site)
        return found

    def _can_part(self, condition: Condition, site: int) -> bool:
        """Whether some threads can come to *site* by *condition* while the others go past it, by what is the same for all.

        A compiler lets a branch go at once where a later one would send it: that some threads have a way past *site*
        says nothing when it is open only while nobody else comes there.
        """
        edge, cfg = condition.edge, self.model.cfg
        if edge is None or len(cfg.successors[edge.source]) != 2:
            return True
        block = cfg.block_of[site]
        key = condition, block
        if key not in self._parting:
            self._parting[key] = self._parts(edge, site)
        return self._parting[key]

    def _parts(self, edge: Edge, site: int) -> bool:
        """Whether what all threads know on some path past *site* lets others reach it by *edge*."""
        model, cfg = self.model, self.model.cfg
        join = cfg.ipdom.get(edge.source, -1)
        meet = EXIT if join < 0 else cfg.blocks[join].start
        others = frozenset(e for e in cfg.successors[edge.source] if e != edge)
        view = model.views.block_context(edge.source)
        past = self._ways(edge, frozenset((edge,)), view, meet, (site, meet))
        for number, path in enumerate(past):
            if number == MAX_PATHS_PER_BRANCH:
                model.ledger.give_up(FEASIBLE_PATH, site, f"more than {MAX_PATHS_PER_BRANCH} paths")
                break
            facts = self._shared(path, edge, view)
            here = self._ways(edge, others, ThreadContext(view.threads, facts), site, (meet,))
            if isinstance(next_answer(here), Found):
                return True
        return False

    def _shared(self, path: Path, branch: Edge, view: ThreadContext) -> PathCondition:
        """What all threads know, whether they take a *path* from a branch that parts them or not."""
        cfg, values, views = self.model.cfg, self.model.values, self.model.views
        facts = view.facts
        for edge in path.edges:
            p = views.reachability.edge_predicate(edge)
            if edge.target in cfg.loops and branch.source in cfg.loops[edge.target]:
                break  # the next round decides anew
            if p is None or edge.source == branch.source or values.mask(p) is not None:
                continue
            if values.uniformity(p) is not UniformityScope.DIVERGENT:
                facts = values.refine(p, edge.value, facts)
        return facts

    def _ways(
        self, branch: Edge, closed: AbstractSet[Edge], view: ThreadContext, goal: int, ends: Collection[int]
    ) -> Search[Path]:
        """The ways from a branch to *goal* that pass none of *ends* before."""
        cfg = self.model.cfg
        relevant: list[Sequence[int]] = [()] * len(cfg.blocks)
        for i in {goal, *ends} - {EXIT}:
            relevant[cfg.block_of[i]] = sorted({i, *relevant[cfg.block_of[i]]})
        return find_paths(
            self.model.survey,
            cfg.blocks[branch.source].end - 1,
            view,
            True,
            relevant,
            lambda state, i, _: None if i in ends else state,
            lambda _, i: i == goal,
            cfg.exits | self.model.reachability.dispatchers if goal == EXIT else (cfg.block_of[goal],),
            closed=closed,
        )

    def barrier(self, site: int) -> bool:
        """Whether the instruction at *site* needs the whole CTA."""
        match = self.model.instruction(site).match
        return match is not None and match.form.scope == "cta"

    def splits(self, condition: Condition, size: int) -> bool:
        """Whether *condition* can split a group at all: cheap, and for most conditions the end of it."""
        key = (condition.at, size)
        if key not in self._may_split:
            values = self.model.values
            p = values.before(condition.register, condition.at)
            mask = values.mask(p)
            if mask is not None:
                split = T.partial_groups(mask, T.full(values.threads), size)
            else:
                split = (
                    bool(self._single_lane_part(p))
                    or values.uniformity(p) is UniformityScope.DIVERGENT
                    or self._bounds_index(p)
                )
            self._may_split[key] = split
        return self._may_split[key]

    def _judge(self, condition: Condition, arriving: int, size: int) -> _Verdict | None:
        values, views = self.model.values, self.model.views
        group = "warpgroup" if size == 128 else "warp"
        leaves = (
            condition.edge is not None
            and self.model.function.entry
            and others_exit(self.model.cfg, condition.edge)
        )
        p = values.before(condition.register, condition.at)
        mask = values.mask(p)
        if mask is not None:
            active = views.reachability.threads_at.get(self.model.cfg.block_of[condition.at], 0) & arriving
            taken = (mask if condition.value else ~mask) & active
            if not T.partial_groups(taken, active, size):
                return None
            whole_warps = not T.partial_groups(taken, active, 32)
            if leaves and not whole_warps:
                gone = T.describe(active & ~taken, values.threads)
                return _Verdict(CV003, f"{gone} have left the kernel", group, Confidence.HIGH)
            if whole_warps:
                rule, verb = CV004, "take"
            else:
                rule, verb = (CV002, "takes") if T.at_most_one_lane(taken) else (CV001, "take")
            return _Verdict(
                rule, f"only {T.describe(taken, values.threads)} {verb} it", group, Confidence.HIGH
            )
        part = self._single_lane_part(p) if condition.value else ""
        if part:
            return _Verdict(CV002, part, group, Confidence.HIGH)
        if size > 32:
            return None
        if values.uniformity(p) is UniformityScope.DIVERGENT:
            if leaves:
                return _Verdict(
                    CV003, "threads have left the kernel by data of their own", group, Confidence.LOW
                )
            why = "it depends on data that differs from thread to thread"
            return _Verdict(CV001, why, group, Confidence.MEDIUM)
        if leaves and self._bounds_index(p):
            # The bound may well be a multiple of 32: nobody can know that here.
            return _Verdict(
                CV003, "threads whose index is past a bound have left the kernel", group, Confidence.LOW
            )
        return None

    def _bounds_index(self, p: int) -> bool:
        """Whether *p* compares an index, different in each lane, with something that all lanes share."""
        values = self.model.values
        node = values.node(p)
        if node[0] == "not":
            node = values.node(node[1])
        if node[0] != "compare":
            return False
        index, limit = sorted(node[2:4], key=self._varies, reverse=True)
        return self._varies(index) and values.uniformity(limit) <= UniformityScope.WARP

    def _varies(self, value: int) -> bool:
        """Whether *value* is the thread index plus, or times, what all lanes share."""
        values = self.model.values
        if values.uniformity(value) is UniformityScope.DIVERGENT:
            return True
        node = values.node(value)
        if node[:2] != ("op", "mad"):
            return False
        *factors, term = map(values.uniformity, values.parts(node))
        return term is UniformityScope.DIVERGENT and max(factors) <= UniformityScope.WARP

    def _single_lane_part(self, p: int) -> str:
        """Why *p* can hold for one lane of a warp at most, although other parts of it are unknown."""
        values = self.model.values
        node = values.node(p)
        if node[0] == "logic" and node[1] == "and":
            for part in node[2:4]:
                mask = values.mask(part)
                if mask is not None and T.at_most_one_lane(mask):
                    return f"at most {T.describe(mask, values.threads)} takes it"
                inner = self._single_lane_part(part)
                if inner:
                    return inner
        return ""

    def _whole_cta(self, condition: Condition, site: int) -> _Verdict | None:
        """A barrier without a thread count waits for the whole CTA (9.7.13.1): do the other threads come?"""
        model = self.model
        values, cfg, edge = model.values, model.cfg, condition.edge
        mask = values.mask(values.before(condition.register, condition.at))
        if mask is None or edge is None or model.function.threads is None:
            return None
        active = model.reachability.threads_at.get(edge.source, 0)
        taken = (mask if condition.value else ~mask) & active
        if not taken or taken == active:
            return None
        join = cfg.ipdom.get(edge.source, -1)
        if join == -1:
            return None
        seen = {join}
        work = [e.target for e in cfg.successors[edge.source] if e != edge]
        while work:
            b = work.pop()
            if b in seen:
                continue
            seen.add(b)
            for i in range(cfg.blocks[b].start, cfg.blocks[b].end):
                if model.instruction(i).event in ("barrier-sync", "barrier-arrive"):
                    return None  # they meet a barrier of their own
            work.extend(e.target for e in cfg.successors[b])
        return _Verdict(CV001, f"only {T.describe(taken, values.threads)} take it", "CTA", Confidence.HIGH)
