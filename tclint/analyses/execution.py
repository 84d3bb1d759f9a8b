"""Which threads execute an instruction: the conditions that it depends on, and whether they are known to hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tclint.analyses.model import KernelModel
from tclint.ir.cfg import CFG, Edge
from tclint.values import Level
from tclint.values import thread_masks as T

__all__ = ["Condition", "Executed", "branches", "conditions", "executing", "guards", "others_leave"]


_COMPUTED = frozenset("const special sum op parameter select compare logic not part pack".split())
"""What is computed from where a thread stands, and from what comes with the launch, round no loop."""


class Executed:
    """Whether it is known which threads execute an instruction, or one decision for the whole CTA says.

    A value that is loaded for each thread may single one out, and a bound that is not known may leave few of them. One of
    where threads stand in the grid leaves all of them in all CTAs but the last. A wait is repeated until it succeeds, and
    how often a loop is repeated does not matter.
    """

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._blocks: dict[int, bool] = {}
        self._decided: dict[tuple[int, int, bool], bool] = {}
        self._takers: dict[int, int] = {}

    def certainly(self, site: int) -> bool:
        block = self.model.cfg.block_of[site]
        if block not in self._blocks:
            threads = self.model.reachability.reach.get(block, 0)
            self._blocks[block] = all(self._certain(threads, *decision) for decision in self._entering(block))
        threads = self.model.views.at(site).threads
        return self._blocks[block] and all(
            self._certain(threads, *decision) for decision in self._guards(site)
        )

    def takers(self, site: int) -> int:
        """The threads of the warps in which what *site* reads gets to memory, to a branch or to an operation.

        None where a loaded value singles out the threads of each: compilers read ahead of a guard, in all threads, what few
        of them need. All, where nothing is read into registers.
        """
        if site not in self._takers:
            model = self.model
            threads, needed = 0, not model.instruction(site).writes
            for taker, decided in model.takers(site):
                threads |= model.views.at(taker).threads
                needed = needed or not self._singled(taker, guarded=not decided)
            every = T.full(model.values.threads)
            taken = T.whole(threads, 32) if model.instruction(site).writes else every
            self._takers[site] = taken if needed else 0
        return self._takers[site]

    def _singled(self, site: int, guarded: bool) -> bool:
        """Whether it takes a number from memory, of which nothing is known, to say which threads come to *site*.

        Or, where it counts that it is *guarded*, which ones execute it.
        """
        values = self.model.values
        threads = self.model.views.at(site).threads
        decisions = [*(self._guards(site) if guarded else ()), *self._entering(self.model.cfg.block_of[site])]
        return any(
            not self._certain(threads, p, truth)
            and any(values.node(v)[0] in ("load", "unknown") for v in values.made_of(p))
            for p, truth in decisions
        )

    def _guards(self, site: int) -> Iterator[tuple[int, bool]]:
        """The predicate that *site* stands under, and what it is where that is executed."""
        instruction = self.model.instruction(site)
        if instruction.guard >= 0:
            yield self.model.values.before(instruction.guard, site), not instruction.negated

    def _entering(self, block: int) -> Iterator[tuple[int, bool]]:
        """The predicates that decide whether *block* is entered at all, and what they are then."""
        cfg = self.model.cfg
        for edge in cfg.controllers(block):
            if not (cfg.dominates(edge.target, edge.source) and cfg.dominates(edge.target, block)):
                yield self.model.values.before(edge.predicate, cfg.blocks[edge.source].end - 1), edge.value

    def _certain(self, threads: int, p: int, truth: bool) -> bool:
        """Whether *p* is *truth* for all of *threads*, or one decision for all says whether it is."""
        key = threads, p, truth
        if key not in self._decided:
            values = self.model.values
            self._decided[key] = (
                not threads & values.may(p, not truth)
                or values.level(p) is Level.CTA
                or self._waited(p)
                or self._bounded(threads, p, truth)
            )
        return self._decided[key]

    def _bounded(self, threads: int, p: int, truth: bool) -> bool:
        """Whether *p* is *truth* for those of *threads* that stand in the grid before a bound that comes with the launch."""
        values = self.model.values
        kind, *rest = node = values.node(p)
        if kind == "not":
            return self._bounded(threads, rest[0], not truth)
        if kind == "logic":
            return (rest[0] == "and") is truth and all(
                self._certain(threads, q, truth) for q in values.parts(node)
            )
        if kind != "compare" or rest[0] != "lt":
            return False
        place, bound = rest[1:3] if truth else (rest[2], rest[1])
        made = [values.node(v) for v in values.made_of(place)]
        return (
            values.level(bound) is Level.CTA
            and any(values.node(v)[0] == "parameter" for v in values.made_of(bound))
            and any(n[0] == "special" and n[1].startswith("%ctaid") for n in made)
            and all(n[0] in _COMPUTED for n in made)
        )

    def _waited(self, value: int) -> bool:
        """Whether *value* is made from what waits for an mbarrier say, and from nothing else."""
        values = self.model.values
        seen, work = {value}, [value]
        while work:
            node = values.node(work.pop())
            parts = values.parts(node)
            if node[0] == "unknown":
                if self.model.instruction(node[1]).event != "mbarrier-wait":
                    return False
            elif not parts and node[0] != "const":
                return False
            fresh = set(parts) - seen
            seen |= fresh
            work += fresh
        return True


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate that decides whether an instruction executes: read at ``at``, it must be ``value``."""

    at: int
    register: int
    value: bool
    edge: Edge | None
    """The branch; None for the instruction's own guard."""


def conditions(model: KernelModel, site: int) -> list[Condition]:
    """What decides whether *site* executes: its guard first, then the branches before it."""
    return [*guards(model, site), *branches(model, model.cfg.block_of[site])]


def guards(model: KernelModel, site: int) -> list[Condition]:
    """The guard of *site*, if it has one."""
    instruction = model.instruction(site)
    return (
        [] if instruction.guard < 0 else [Condition(site, instruction.guard, not instruction.negated, None)]
    )


def branches(model: KernelModel, block: int) -> list[Condition]:
    """The branches that decide whether *block* runs."""
    return [
        Condition(model.cfg.blocks[e.source].end - 1, e.predicate, e.value, e)
        for e in model.cfg.controllers(block)
        if e.predicate >= 0
    ]


def executing(model: KernelModel, site: int) -> tuple[int, bool] | None:
    """The threads that execute *site*, as far as the thread index decides; None when something unknown splits warps.

    The flag says that nothing else decides: otherwise each warp of them comes whole or not at all.
    """
    values, cfg = model.values, model.cfg
    block, sure, threads = cfg.block_of[site], True, model.cta
    if block not in cfg.rank:
        return None  # never reached
    for table in cfg.controllers(block):
        if table.predicate < 0:
            last = cfg.blocks[table.source].end - 1
            if values.level(values.operand(model.instruction(last).operands[0], last)) > Level.WARP:
                return None
            sure = False
    for condition in conditions(model, site):
        edge = condition.edge
        if edge is not None and (
            cfg.dominates(block, edge.source) or cfg.dominates(edge.target, edge.source)
        ):
            continue  # decides only whether it executes again
        p = values.before(condition.register, condition.at)
        mask = values.mask(p)
        if mask is not None:
            threads &= mask if condition.value else ~mask
        elif values.level(p) <= Level.WARP:
            sure = False
        else:
            return None
    return threads, sure


def others_leave(cfg: CFG, edge: Edge) -> bool:
    """Whether the threads that do not take *edge* leave the function at once."""
    others = [e for e in cfg.successors[edge.source] if e != edge]
    return all(
        e.target in cfg.exits
        and not cfg.successors[e.target]
        and cfg.blocks[e.target].end - cfg.blocks[e.target].start == 1
        for e in others
    )
