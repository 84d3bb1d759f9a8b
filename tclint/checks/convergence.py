"""Checks of convergence: collective instructions that not all of their threads reach (PTX ISA 9.7, ``.aligned``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tclint.analyses import threads as T
from tclint.analyses.values import Level
from tclint.cfg import Edge
from tclint.checks import Hit, Mark, check
from tclint.finding import Confidence
from tclint.isa.table import Match
from tclint.model import KernelModel

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
class _Condition:
    """A predicate that decides whether an instruction executes: read at ``at``, it must be ``value``."""

    at: int
    register: int
    value: bool
    edge: Edge | None
    """The branch; None for the instruction's own guard."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    rule: str
    why: str
    group: str
    confidence: Confidence


@check("CV001", "CV002")
def divergent_aligned(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """Collective instructions under a condition that provably splits the threads they need."""
    by_block: dict[int, list[tuple[int, int]]] = {}
    for use in model.function.uses:
        size = _group_size(use.match)
        if size is not None:
            for i in use.sites:
                by_block.setdefault(model.cfg.block_of[i], []).append((i, size))
    judge = _Judge(model)
    found: dict[_Condition, tuple[_Verdict, list[int]]] = {}
    for b, members in by_block.items():
        if b not in model.cfg.rank:
            continue
        branches = [
            _Condition(model.cfg.blocks[e.source].end - 1, e.predicate, e.value, e)
            for e in model.cfg.controllers(b)
            if e.predicate >= 0
        ]
        for i, size in sorted(members):
            instruction = model.instruction(i)
            conditions = branches
            if instruction.guard >= 0:
                conditions = [_Condition(i, instruction.guard, not instruction.negated, None), *branches]
            for condition in conditions:
                verdict = judge.verdict(condition, b, i, size)
                if verdict is not None:
                    found.setdefault(condition, (verdict, []))[1].append(i)
                    break
    for condition, (verdict, sites) in found.items():
        i = sites[0]
        name = model.function.registers[condition.register].name
        opcode = model.instruction(i).opcode.partition(".sync")[0]
        where = "its guard" if condition.edge is None else "a branch before it"
        steps = [] if condition.edge is None else [Mark(condition.at, f"{verdict.why} ({name})")]
        yield (
            verdict.rule,
            Hit(
                site=i,
                message=f"{opcode} needs all threads of its {verdict.group}, but {where} lets only some of them through: "
                f"{verdict.why}",
                steps=(*steps, Mark(i, f"needs all threads of its {verdict.group}")),
                count=len(sites),
                help=f"move it out of the divergent region, or make the condition the same in the whole {verdict.group}",
                confidence=verdict.confidence,
            ),
        )


class _Judge:
    """Decides about conditions; equal questions are answered once."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._known: dict[tuple[_Condition, int, int], _Verdict | None] = {}
        self._may_split: dict[tuple[_Condition, int], bool] = {}

    def verdict(self, condition: _Condition, block: int, site: int, size: int) -> _Verdict | None:
        """Why *condition* splits a group that the instruction at *site* needs, or None."""
        instruction = self.model.instruction(site)
        barrier = instruction.match is not None and instruction.match.form.scope == "cta"
        found: _Verdict | None = None
        if self._splits(condition, size):
            # Only groups count of which some thread arrives at the instruction.
            arriving = T.whole(self.model.views.reach.get(block, 0), size)
            key = (condition, arriving, size)
            if key not in self._known:
                self._known[key] = self._judge(condition, arriving, size)
            found = self._known[key]
        if (
            found is not None
            and barrier
            and condition.edge is not None
            and self._others_leave(condition.edge)
        ):
            return None  # a barrier does not wait for threads that have exited
        if (
            found is None
            and barrier
            and instruction.role("count") is None
            and instruction.event == "barrier-sync"
        ):
            return self._whole_cta(condition, site)
        return found

    def _splits(self, condition: _Condition, size: int) -> bool:
        """Whether *condition* can split a group at all: cheap, and for most conditions the end of it."""
        key = (condition, size)
        if key not in self._may_split:
            values = self.model.values
            p = values.before(condition.register, condition.at)
            mask = values.mask(p)
            if mask is not None:
                split = T.partial_groups(mask, T.full(values.threads), size)
            else:
                split = bool(self._single_lane_part(p)) or values.level(p) is Level.DIVERGENT
            self._may_split[key] = split
        return self._may_split[key]

    def _judge(self, condition: _Condition, arriving: int, size: int) -> _Verdict | None:
        values, views = self.model.values, self.model.views
        group = "warpgroup" if size == 128 else "warp"
        p = values.before(condition.register, condition.at)
        mask = values.mask(p)
        if mask is not None:
            active = views.reach.get(self.model.cfg.block_of[condition.at], 0) & arriving
            taken = (mask if condition.value else ~mask) & active
            if not T.partial_groups(taken, active, size):
                return None
            rule, verb = ("CV002", "takes") if T.at_most_one_lane(taken) else ("CV001", "take")
            return _Verdict(
                rule, f"only {T.describe(taken, values.threads)} {verb} it", group, Confidence.HIGH
            )
        part = self._single_lane_part(p) if condition.value else ""
        if part:
            return _Verdict("CV002", part, group, Confidence.HIGH)
        if values.level(p) is Level.DIVERGENT and size <= 32:
            if condition.edge is not None and self._others_leave(condition.edge):
                return None
            why = "it depends on data that differs from thread to thread"
            return _Verdict("CV001", why, group, Confidence.MEDIUM)
        return None

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

    def _others_leave(self, edge: Edge) -> bool:
        """Whether the threads that do not take *edge* leave the function at once."""
        cfg = self.model.cfg
        others = [e for e in cfg.successors[edge.source] if e != edge]
        return all(
            e.target in cfg.exits
            and not cfg.successors[e.target]
            and cfg.blocks[e.target].end - cfg.blocks[e.target].start == 1
            for e in others
        )

    def _whole_cta(self, condition: _Condition, site: int) -> _Verdict | None:
        """A barrier without a thread count waits for the whole CTA (9.7.13.1): do the other threads come?"""
        model = self.model
        values, cfg, edge = model.values, model.cfg, condition.edge
        mask = values.mask(values.before(condition.register, condition.at))
        if mask is None or edge is None or model.function.threads is None:
            return None
        active = model.views.reach.get(edge.source, 0)
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
        return _Verdict("CV001", f"only {T.describe(taken, values.threads)} take it", "CTA", Confidence.HIGH)
