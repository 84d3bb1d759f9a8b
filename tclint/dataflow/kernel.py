"""One function with a body: its graph, its values, the contexts of its threads, and which instructions do what.

Analyses and questions about memory ask a :class:`Kernel`. What analyses find out is in :mod:`tclint.analyses.model`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

from tclint.dataflow.answers import Decision, Guard, Ledger
from tclint.dataflow.feasible_paths import Path
from tclint.dataflow.path_search_cache import PathSearchCache
from tclint.dataflow.reachability import Reachability
from tclint.dataflow.solver import Analysis
from tclint.dataflow.views import Views
from tclint.ir.cfg import CFG, Edge
from tclint.ir.nodes import Function, Immediate, Instruction, Module, Operand, Site, Variable
from tclint.isa.effects import Barrier, Effects, Engine, Exchange, Fence, Query, Resource
from tclint.isa.forms import Match
from tclint.values import PathCondition, PathSubstitution, Values
from tclint.values import thread_masks as T
from tclint.values.nodes import AddressOf, Value
from tclint.values.shared_memory import SharedMemory

__all__ = ["Kernel"]


def _keys(effects: Effects) -> Iterator[tuple[object, object]]:
    """What an instruction is listed under."""
    engines = (
        ("begins", effects.begins), ("commits", effects.commits), ("waits", effects.waits), ("tracks", effects.tracks),
    )  # fmt: skip
    for name, engine in engines:
        if engine is not None:
            yield from ((name, engine), (name, None))
    yield from (("arrives", effects.arrives), ("awaits", effects.awaits))
    for what in (effects.fence, effects.resource, effects.exchange, effects.query):
        if what is not None:
            yield what, None


class Kernel:
    """A function with a body, and what follows from its text alone.

    *strict* values assume less, as a proof must (:class:`~tclint.values.Values`).
    """

    def __init__(self, function: Function, module: Module, *, strict: bool = False) -> None:
        self.function = function
        self.module = module
        self.strict = strict
        self.ledger = Ledger()
        """The questions about this function that a search, a replay or an analysis left open."""

    @cached_property
    def cfg(self) -> CFG:
        return CFG(self.function)

    @cached_property
    def values(self) -> Values:
        gave_up = partial(self.ledger.give_up, "expression on a path", -1)
        return Values(self.function, self.cfg, self.module.variables, gave_up, self.strict)

    @cached_property
    def cta(self) -> T.Threads:
        """The threads of a CTA, as many as a launch may have."""
        return T.full(self.function.most_threads or T.LIMIT)

    @cached_property
    def reachability(self) -> Reachability:
        """The threads that may reach each block."""
        return Reachability(self.cfg, self.values)

    @cached_property
    def views(self) -> Views:
        return Views(self.reachability)

    @cached_property
    def shared(self) -> SharedMemory:
        return SharedMemory(self.function, self.values)

    @cached_property
    def search_cache(self) -> PathSearchCache:
        """What all searches for a path in this function share."""
        return PathSearchCache(self.cfg, self.values, self.views, self.ledger, strict=self.strict)

    @cached_property
    def readers(self) -> dict[int, list[Site]]:
        """Register -> the instructions that read it or have it as their guard."""
        found: dict[int, list[int]] = {}
        for i, instruction in enumerate(self.function.instructions):
            for register in instruction.reads:
                found.setdefault(register, []).append(i)
            if instruction.guard >= 0:
                found.setdefault(instruction.guard, []).append(i)
        return found

    def transitive_users(self, site: Site) -> Iterator[tuple[Site, bool]]:
        """The branches, memory accesses, events and operations of a whole warp that use the results of *site*, or values
        computed from them.

        Each comes with whether its guard is computed from them. The search is by registers and not by values, so it
        over-approximates. It does not follow values through memory.
        """
        derived = set(self.instruction(site).writes)
        work = list(derived)
        while work:
            for i in self.readers.get(work.pop(), ()):
                instruction = self.instruction(i)
                match = instruction.match
                if (
                    match is None
                    or match.form.event
                    or match.form.memory
                    or match.scope == "warp"
                    or instruction.flow
                ):
                    yield i, instruction.guard in derived
                if match is not None and not match.form.memory:
                    work += set(instruction.writes) - derived
                    derived.update(instruction.writes)

    @cached_property
    def events(self) -> list[Site]:
        """The reachable instructions that do more than their accesses, in program order."""
        found = [i for use in self.function.uses if use.match and use.match.form.event for i in use.sites]
        if found:
            reachable, block_of = self.cfg.rank, self.cfg.block_of
            found = sorted(i for i in found if block_of[i] in reachable)
        return found

    def sites(self, effect: Fence | Resource | Exchange | Query) -> list[Site]:
        """The reachable instructions with this effect, in program order."""
        return list(self._sites.get((effect, None), ()))

    def begins(self, engine: Engine | None = None) -> list[Site]:
        """The reachable instructions that begin an operation (of *engine*), in program order."""
        return list(self._sites.get(("begins", engine), ()))

    def commits(self, engine: Engine | None = None) -> list[Site]:
        """The reachable instructions that commit operations (of *engine*), in program order."""
        return list(self._sites.get(("commits", engine), ()))

    def waits(self, engine: Engine | None = None) -> list[Site]:
        """The reachable instructions that wait for operations (of *engine*), in program order."""
        return list(self._sites.get(("waits", engine), ()))

    def tracks(self, engine: Engine) -> list[Site]:
        """The reachable arrivals that take place when operations of *engine* are complete, in program order."""
        return list(self._sites.get(("tracks", engine), ()))

    def arrives(self, barrier: Barrier) -> list[Site]:
        """The reachable instructions whose thread arrives at a *barrier* of this kind, in program order."""
        return list(self._sites.get(("arrives", barrier), ()))

    def awaits(self, barrier: Barrier) -> list[Site]:
        """The reachable instructions that wait for a *barrier* of this kind or test it, in program order."""
        return list(self._sites.get(("awaits", barrier), ()))

    def where(self, holds: Callable[[Effects], bool]) -> list[Site]:
        """The reachable instructions with effects for which *holds* is true, in program order."""
        return [i for i in self.events if holds(self.instruction(i).effects)]

    def matching(self, holds: Callable[[Match], bool]) -> list[Site]:
        """The reachable instructions for whose match *holds* is true, in program order."""
        rank, block_of = self.cfg.rank, self.cfg.block_of
        uses = (use for use in self.function.uses if use.match is not None and holds(use.match))
        return sorted(i for use in uses for i in use.sites if block_of[i] in rank)

    @cached_property
    def _sites(self) -> dict[tuple[object, object], list[Site]]:
        found: dict[tuple[object, object], list[int]] = {}
        for site in self.events:
            for key in _keys(self.instruction(site).effects):
                found.setdefault(key, []).append(site)
        return found

    def instruction(self, site: Site) -> Instruction:
        return self.function.instructions[site]

    def name(self, site: Site) -> str:
        """The words of an opcode that name the operation: ``tcgen05.mma``."""
        return self.instruction(site).full_name

    def present(self, site: Site) -> T.Threads:
        """The threads that may execute *site*, without the lanes that a partial last warp lacks (11.4.2, 11.4.4)."""
        most = self.function.most_threads
        threads = self.views.context_of(site).threads
        return threads if most is None else threads & T.full(most)

    def describe_threads(self, threads: T.Threads) -> str:
        """*threads* in words: ``warps 4-7``."""
        return T.describe(threads, self.values.threads)

    def space(self, value: Value) -> str:
        """The state space of the variable whose address *value* is; "" if it is not the address of a variable."""
        node = self.values.node(value)
        return self.space_of(node.name) if type(node) is AddressOf else ""

    def space_of(self, name: str) -> str:
        """The state space of the variable called *name*; "" if there is none."""
        variable = self.variable(name)
        return variable.space if variable is not None else ""

    def size(self, value: Value) -> int:
        """The size in bytes of the variable whose address *value* is; 0 if it is not one, or the size is unknown."""
        variable = self.values.variable(value)
        return variable.size if variable is not None else 0

    def variable(self, name: str) -> Variable | None:
        """The variable called *name*, of the function or else of the module; None if there is none."""
        return self.function.variables.get(name) or self.module.variables.get(name)

    def value(self, site: Site, role: str) -> Value | None:
        """The value of the operand that plays *role* at *site*; None if the instruction has no such operand."""
        operand: Operand | None = self.instruction(site).role(role)
        return None if operand is None else self.values.operand(operand, site)

    def named_value(self, site: Site, name: str) -> Value | None:
        """The value of the operand *name* of the syntax line at *site*; None if the instruction has no such operand."""
        operand: Operand | None = self.instruction(site).named(name)
        return None if operand is None else self.values.operand(operand, site)

    def mbarrier(self, site: Site) -> Value | None:
        """The value that is the address of the mbarrier at *site*; None if the instruction names none."""
        return self.value(site, "mbarrier")

    def constant_of(self, site: Site, role: str) -> int | None:
        """The integer constant that the operand that plays *role* at *site* is; None if unknown."""
        operand = self.instruction(site).role(role)
        if isinstance(operand, Immediate):  # does not need the values of the function
            return operand.value if isinstance(operand.value, int) else None
        return None if operand is None else self.values.constant_operand(operand, site)

    def guarded_block(self, site: Site) -> tuple[int, Value, bool]:
        """The block of an instruction, the value of its guard, -1 if it has none, and whether the guard is negated."""
        instruction = self.instruction(site)
        guard = self.values.before(instruction.guard, site) if instruction.guard >= 0 else -1
        return self.cfg.block_of[site], guard, instruction.negated

    def evaluated(
        self,
        edges: Sequence[Edge],
        facts: PathCondition,
        since: int = 0,
        guards: Iterable[tuple[int, Guard]] = (),
    ) -> Iterator[tuple[Decision, bool | None]]:
        """The conditional *edges* from index *since* on, and the *guards*, each with whether it is as the path assumes.

        Each predicate has the value of its iteration.
        """
        along = self.values.along(edges, frozenset())
        for k, p, required, decision in self.decisions(edges, guards, since):
            truth = self.values.entails(along.walk(p, k), facts)
            yield decision, None if truth is None else truth is required

    def decisions(
        self, edges: Sequence[Edge], guards: Iterable[tuple[int, Guard]], since: int = 0
    ) -> list[tuple[int, int, bool, Decision]]:
        """``(number of edges before it, predicate, truth, decision)`` for all that a path along *edges* assumes, in its order.

        Only for *edges* from index *since* on, and for *guards*, each of which has the number of edges before it.
        """
        found: list[tuple[int, int, bool, Decision]] = []
        for k, guard in guards:
            instruction = self.instruction(guard.site)
            if instruction.guard >= 0:
                predicate = self.values.before(instruction.guard, guard.site)
                found.append((k, predicate, guard.executes is not instruction.negated, guard))
        for k, edge in enumerate(edges[since:], since):
            p = self.reachability.edge_predicate(edge)
            if p is not None:
                found.append((k, p, edge.value, edge))
        return sorted(found, key=lambda decision: decision[0])

    def along(self, path: Path, start: Site) -> PathSubstitution:
        """The substitution of expressions at the end of *path*, in terms of the values at *start*, where it begins."""
        return self.values.along(path.edges, path.passed(self.cfg, start))

    def changes(self, value: Value, path: Path, start: Site) -> bool:
        """Whether *value* may change on *path*, which begins at *start*."""
        changes = self.values.varying_at(value)
        if not changes:
            return False
        entered = {edge.target for edge in path.edges}
        passed = set(path.sites(self.cfg, start))
        return any(at in (entered if kind == "block" else passed) for kind, at in changes)

    def drop_facts(self, analysis: Analysis[Any], site: int) -> None:
        """Records that *analysis* drops its facts at *site*, which is a call or the branch table of a dispatcher."""
        call = self.instruction(site).flow == "call"
        question = "facts past a call" if call else "facts past a branch table"
        self.ledger.drop(question, site, f"{analysis} drops its facts there")

    def reaches(self, start: Site, end: Site, avoiding: Collection[Site] = ()) -> bool:
        """Whether a path of the CFG leads from *start*, or the entry (-1), to *end* and passes none of *avoiding*.

        Predicates and guards are ignored, so the path need not be feasible.
        """
        return self.cut(start, end, avoiding) is None

    def cut(self, start: Site, end: Site, avoiding: Collection[Site] = ()) -> frozenset[Site] | None:
        """Those of *avoiding* of which every such path passes one; None if a path passes none.

        These are few, so that a question about other instructions is answered where they are among them.
        """
        cfg = self.cfg
        first, last = cfg.block_of[max(start, 0)], cfg.block_of[end]
        straight = first == last and start < end
        if not avoiding or not (straight or cfg.reachable_from[first] >> last & 1):
            return None if straight or cfg.reachable_from[first] >> last & 1 else frozenset()
        avoided: dict[int, list[int]] = {}
        for i in avoiding:
            avoided.setdefault(cfg.block_of[i], []).append(i)
        if straight and not any(start < i < end for i in avoided.get(first, ())):
            return None
        after = [i for i in avoided.get(first, ()) if i > start]
        if after or (after := [i for i in avoided.get(last, ()) if i < end]):
            return frozenset(after[:1])
        work, seen = [first], set[int]()
        found: list[int] = []
        while work:
            for edge in cfg.successors[work.pop()]:
                target = edge.target
                if target == last:
                    return None
                if target in seen:
                    continue
                seen.add(target)
                if target not in avoided:
                    work.append(target)
                elif cfg.reachable_from[target] >> last & 1:
                    found.append(avoided[target][0])
        return frozenset(found)

    def reaching(self, starts: Iterable[Site], ends: Iterable[Site]) -> frozenset[Site]:
        """Those of *starts* from which a path of the CFG leads to one of *ends*; see :meth:`reaches`."""
        cfg, last = self.cfg, dict[int, int]()
        for end in ends:
            block = cfg.block_of[end]
            last[block] = max(end, last.get(block, end))
        blocks = sum(1 << block for block in last)
        return frozenset(
            start
            for start in starts
            if cfg.reachable_from[block := cfg.block_of[start]] & blocks or start < last.get(block, start)
        )

    def reached_from(
        self, starts: Iterable[Site], ends: Iterable[Site], avoiding: Iterable[Site]
    ) -> frozenset[Site]:
        """Those of *ends* that a path reaches from one of *starts* and passes none of *avoiding*; see :meth:`reaches`."""
        cfg = self.cfg
        avoided, ending = dict[int, list[int]](), dict[int, list[int]]()
        for sites, by_block in ((avoiding, avoided), (ends, ending)):
            for i in sorted(sites):
                by_block.setdefault(cfg.block_of[i], []).append(i)
        found, work, seen = set[int](), list[int](), set[int]()

        def barrier(block: int, start: Site) -> Site | None:
            """The first instruction to avoid in *block* from *start* on."""
            sites = avoided.get(block, ())
            at = bisect_left(sites, start)
            return sites[at] if at < len(sites) else None

        def enter(block: int, start: Site) -> None:
            """Takes the *ends* in *block* from *start* on, up to the first instruction to avoid."""
            barred, sites = barrier(block, start), ending.get(block, ())
            until = len(sites) if barred is None else bisect_right(sites, barred)
            found.update(sites[bisect_left(sites, start) : until])
            if barred is None:
                work.append(block)

        entered = set[tuple[int, int | None]]()
        for start in sorted(starts):
            block = cfg.block_of[max(start, 0)]
            segment = block, barrier(block, start + 1)
            if segment not in entered:  # else an earlier start in the block has taken all that this one would
                entered.add(segment)
                enter(block, start + 1)
        targets = cfg.targets
        while work:
            for target in targets[work.pop()]:
                if target in seen:
                    continue
                seen.add(target)
                if target in avoided or target in ending:
                    enter(target, cfg.blocks[target].start)
                else:
                    work.append(target)
        self.search_cache.count(len(seen))
        return frozenset(found)

    def may_follow(self, first: Site, second: Site) -> bool:
        """Whether one thread may execute *second* after *first*: a path leads there, and the two do not exclude each other.

        Roles that share a loop and test the same predicate again have such a path, but no thread takes it.
        """
        return self.reaches(first, second) and not self.views.mutually_exclusive(first, second)
