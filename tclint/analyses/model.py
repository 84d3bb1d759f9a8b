"""Everything that checks may ask about one function, computed on demand and once.

:class:`KernelModel` owns the CFG, the values, the contexts and the solved analyses of a function, and the list of its
events: everything asynchronous or collective, in program order. A check asks the model, and neither looks for events
nor solves an analysis by itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from tclint._dataclass import dataclass
from tclint.dataflow import (
    Analysis,
    Answer,
    Decision,
    Found,
    Guard,
    Path,
    PathQuery,
    PathSearchCache,
    Results,
    Search,
    find_paths,
    next_answer,
    solve,
)
from tclint.dataflow.answers import Ledger
from tclint.dataflow.feasible_paths import concrete_entry_path
from tclint.dataflow.reachability import Reachability
from tclint.dataflow.views import ThreadContext, Views
from tclint.findings.scales import Confidence
from tclint.ir.cfg import CFG, Edge
from tclint.ir.nodes import Function, Immediate, Instruction, Module, Operand, Variable
from tclint.isa.effects import Barrier, Effects, Engine, Exchange, Fence, Query, Resource
from tclint.isa.target import Version
from tclint.values import PathCondition, PathSubstitution, Values
from tclint.values import thread_masks as T
from tclint.values.nodes import AddressOf
from tclint.values.shared_memory import Access, SharedMemory

if TYPE_CHECKING:
    from tclint.recording import Recording

__all__ = ["FactQuery", "KernelModel"]

A = TypeVar("A", bound=Analysis[Any])
B = TypeVar("B")


def _never_cancel() -> None:
    """The default pause hook."""


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


@dataclass(frozen=True, slots=True)
class FactQuery:
    """Which feasible paths of the threads that execute *start* does a fact live on until *goal* holds?

    Inside a loop, a path continues from the iteration in which *start* executes.
    """

    start: int
    """The instruction after which the paths begin; -1: the entry of the function."""
    state: Hashable
    """The state of the fact there."""
    results: Results[Any]
    """The solution of the analysis that tracks such facts."""
    step: Callable[[Any, int, Instruction], Hashable]
    """The state of the fact after one more instruction; None if the fact ends there."""
    goal: Callable[[Any, int], bool]
    """Whether a path ends at an instruction, or at ``EXIT``, in that state of the fact."""
    to: Iterable[int]
    """The instructions at which *goal* can hold; empty if it can hold only where the function is left."""


class KernelModel:
    """Everything that is known about one function with a body.

    *toolkit* is the version of the CUDA toolkit whose ptxas will compile the code; None: not named. *pause* is called
    before each analysis and before each search for a path. If it raises, the model must not be used any more. *strict*
    models assume less of values, as a proof must (:class:`~tclint.values.Values`). *recorded* is the launch to replay;
    None: replays assume some.
    """

    def __init__(
        self,
        function: Function,
        module: Module,
        toolkit: Version | None = None,
        pause: Callable[[], None] | None = None,
        *,
        strict: bool = False,
        recorded: Recording | None = None,
    ) -> None:
        self.function = function
        self.module = module
        self.toolkit = toolkit
        self.pause = pause or _never_cancel
        self.strict = strict
        self.recorded = recorded
        self.on: frozenset[str] | None = None
        """The subjects of the rules whose hits are shown; None: all. No analysis asks for it."""
        self._solved: dict[type, tuple[Any, Results[Any]]] = {}
        self._made: dict[Callable[[KernelModel], Any], Any] = {}
        self._first_times: dict[tuple[int, int, bool], Answer[PathSubstitution]] = {}
        self._entry_paths: dict[tuple[int, int, bool], Answer[Path]] = {}
        self.ledger = Ledger()
        """The questions about this function that a search, a replay or an analysis left open."""

    def wants(self, *rules: str) -> bool:
        """Whether a hit of one of *rules* is shown. A check leaves out what only hits of other rules need."""
        return self.on is None or not self.on.isdisjoint(rules)

    def shaped(self, shape: tuple[int, ...]) -> KernelModel:
        """The model of the same function in CTAs of *shape*, the threads along x, y and z, as if by ``.reqntid``."""
        directives = {**self.function.directives, ".reqntid": shape}
        model = KernelModel(
            replace(self.function, directives=directives), self.module, self.toolkit, self.pause
        )
        model.cfg, model.ledger = self.cfg, self.ledger
        return model

    @cached_property
    def cfg(self) -> CFG:
        return CFG(self.function)

    @cached_property
    def values(self) -> Values:
        gave_up = partial(self.ledger.give_up, "expression on a path", -1)
        return Values(self.function, self.cfg, self.module.variables, gave_up, self.strict)

    @cached_property
    def cta(self) -> int:
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
    def _shared_if_smaller(self) -> SharedMemory:
        return SharedMemory(self.function, self.values, smaller=True)

    @cached_property
    def search_cache(self) -> PathSearchCache:
        """What all searches for a path in this function share."""
        return PathSearchCache(self.cfg, self.values, self.views, self.ledger, strict=self.strict)

    @cached_property
    def readers(self) -> dict[int, list[int]]:
        """Register -> the instructions that read it or have it as their guard."""
        found: dict[int, list[int]] = {}
        for i, instruction in enumerate(self.function.instructions):
            for register in instruction.reads:
                found.setdefault(register, []).append(i)
            if instruction.guard >= 0:
                found.setdefault(instruction.guard, []).append(i)
        return found

    def transitive_users(self, site: int) -> Iterator[tuple[int, bool]]:
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
    def events(self) -> list[int]:
        """The reachable instructions that do more than their accesses, in program order."""
        found = [i for use in self.function.uses if use.match and use.match.form.event for i in use.sites]
        if found:
            reachable, block_of = self.cfg.rank, self.cfg.block_of
            found = sorted(i for i in found if block_of[i] in reachable)
        return found

    def sites(self, effect: Fence | Resource | Exchange | Query) -> list[int]:
        """The reachable instructions with this effect, in program order."""
        return list(self._sites.get((effect, None), ()))

    def begins(self, engine: Engine | None = None) -> list[int]:
        """The reachable instructions that begin an operation (of *engine*), in program order."""
        return list(self._sites.get(("begins", engine), ()))

    def commits(self, engine: Engine | None = None) -> list[int]:
        """The reachable instructions that commit operations (of *engine*), in program order."""
        return list(self._sites.get(("commits", engine), ()))

    def waits(self, engine: Engine | None = None) -> list[int]:
        """The reachable instructions that wait for operations (of *engine*), in program order."""
        return list(self._sites.get(("waits", engine), ()))

    def tracks(self, engine: Engine) -> list[int]:
        """The reachable arrivals that take place when operations of *engine* are complete, in program order."""
        return list(self._sites.get(("tracks", engine), ()))

    def arrives(self, barrier: Barrier) -> list[int]:
        """The reachable instructions whose thread arrives at a *barrier* of this kind, in program order."""
        return list(self._sites.get(("arrives", barrier), ()))

    def awaits(self, barrier: Barrier) -> list[int]:
        """The reachable instructions that wait for a *barrier* of this kind or test it, in program order."""
        return list(self._sites.get(("awaits", barrier), ()))

    def where(self, holds: Callable[[Effects], bool]) -> list[int]:
        """The reachable instructions with effects for which *holds* is true, in program order."""
        return [i for i in self.events if holds(self.instruction(i).effects)]

    @cached_property
    def _sites(self) -> dict[tuple[object, object], list[int]]:
        found: dict[tuple[object, object], list[int]] = {}
        for site in self.events:
            for key in _keys(self.instruction(site).effects):
                found.setdefault(key, []).append(site)
        return found

    def instruction(self, site: int) -> Instruction:
        return self.function.instructions[site]

    def name(self, site: int) -> str:
        """The first two words of an opcode: ``tcgen05.mma``."""
        return self.instruction(site).name

    def present(self, site: int) -> int:
        """The threads that may execute *site*, without the lanes that a partial last warp lacks (11.4.2, 11.4.4)."""
        most = self.function.most_threads
        threads = self.views.context_of(site).threads
        return threads if most is None else threads & T.full(most)

    def describe_threads(self, threads: int) -> str:
        """*threads* in words: ``warps 4-7``."""
        return T.describe(threads, self.values.threads)

    def space(self, value: int) -> str:
        """The state space of the variable whose address *value* is; "" if it is not the address of a variable."""
        node = self.values.node(value)
        return self.space_of(node.name) if type(node) is AddressOf else ""

    def space_of(self, name: str) -> str:
        """The state space of the variable called *name*; "" if there is none."""
        variable = self.variable(name)
        return variable.space if variable is not None else ""

    def size(self, value: int) -> int:
        """The size in bytes of the variable whose address *value* is; 0 if it is not one, or the size is unknown."""
        variable = self.values.variable(value)
        return variable.size if variable is not None else 0

    def variable(self, name: str) -> Variable | None:
        """The variable called *name*, of the function or else of the module; None if there is none."""
        return self.function.variables.get(name) or self.module.variables.get(name)

    def value(self, site: int, role: str) -> int | None:
        """The value of the operand that plays *role* at *site*; None if the instruction has no such operand."""
        operand: Operand | None = self.instruction(site).role(role)
        return None if operand is None else self.values.operand(operand, site)

    def mbarrier(self, site: int) -> int | None:
        """The value that is the address of the mbarrier at *site*; None if the instruction names none."""
        return self.value(site, "mbarrier")

    def constant_of(self, site: int, role: str) -> int | None:
        """The integer constant that the operand that plays *role* at *site* is; None if unknown."""
        operand = self.instruction(site).role(role)
        if isinstance(operand, Immediate):  # does not need the values of the function
            return operand.value if isinstance(operand.value, int) else None
        return None if operand is None else self.values.constant_operand(operand, site)

    def solution(self, analysis: type[A]) -> tuple[A, Results[Any]]:
        """An instance of *analysis* for this function, and its fixpoint; solved once."""
        if analysis not in self._solved:
            self.pause()
            instance = analysis(self)  # type: ignore[call-arg]
            self._solved[analysis] = (instance, solve(instance, self.cfg))
        return self._solved[analysis]

    def fact(self, kind: Callable[[KernelModel], B]) -> B:
        """The instance of *kind*, a class in :mod:`tclint.analyses`, for this function; created once."""
        if kind not in self._made:
            self.pause()
            self._made[kind] = kind(self)
        found: B = self._made[kind]
        return found

    def path(self, query: FactQuery) -> Answer[Path]:
        """The first of :meth:`paths`, or the reason why there is none."""
        return next_answer(self.paths(query))

    def paths(
        self, query: FactQuery, closed: AbstractSet[Decision] = frozenset(), *, together: bool = False
    ) -> Search[Path]:
        """The feasible paths that answer *query*; no path assumes any of *closed*.

        With *together*, facts that contradict each other only jointly close a branch as well
        (:func:`~tclint.dataflow.feasible_paths.find_paths`).
        """
        self.pause()
        start, results = query.start, query.results
        relevant: Sequence[Sequence[int]] = results.affecting
        sites: dict[int, set[int]] = {}
        for site in query.to:
            sites.setdefault(self.cfg.block_of[site], set()).add(site)
        goals = set(sites) or self.cfg.exits | self.reachability.dispatchers
        merged: list[Sequence[int]] | None = None
        for (
            block,
            goal_sites,
        ) in sites.items():  # the search must stop there although the state does not change
            if not goal_sites.issubset(relevant[block]):
                relevant = merged = merged or list(relevant)
                merged[block] = sorted(goal_sites.union(merged[block]))
        alive = results.blocks_reached_by(start) if start >= 0 else None
        context = self.views.context_in_iteration(start)
        return find_paths(
            self.search_cache,
            PathQuery(
                start, context, query.state, relevant, query.step, query.goal, goals, alive, closed, together
            ),
        )

    def entry_path(self, site: int, view: ThreadContext | None = None) -> Answer[Path]:
        """A feasible path from the entry to *site*, or to another instruction of its block under the same guard.

        It is a path of the threads of the context *view*; without one, of any thread.
        """
        if view is not None:
            return self._search_entry_path(site, view)
        key = self.guarded_block(site)
        if key not in self._entry_paths:
            self._entry_paths[key] = self._search_entry_path(site, self.views.context_of(-1))
        return self._entry_paths[key]

    def guarded_block(self, site: int) -> tuple[int, int, bool]:
        """The block of an instruction, the value of its guard, -1 if it has none, and whether the guard is negated."""
        instruction = self.instruction(site)
        guard = self.values.before(instruction.guard, site) if instruction.guard >= 0 else -1
        return self.cfg.block_of[site], guard, instruction.negated

    def _search_entry_path(self, site: int, view: ThreadContext) -> Answer[Path]:
        block = self.cfg.block_of[site]
        relevant: list[Sequence[int]] = [()] * len(self.cfg.blocks)
        relevant[block] = (site,)
        query = PathQuery(
            start=-1,
            context=view,
            fact=True,
            relevant=relevant,
            step=lambda fact, i, instruction: fact,
            goal=lambda fact, i: i == site,
            goals=(block,),
        )
        return next_answer(find_paths(self.search_cache, query))

    def at_first(self, site: int) -> Answer[PathSubstitution]:
        """The substitution of expressions when *site* executes for the first time, or why no path was found."""
        key = self.guarded_block(site)
        if key not in self._first_times:
            self._first_times[key] = self._substitution_at_first(site)
        return self._first_times[key]

    def _substitution_at_first(self, site: int) -> Answer[PathSubstitution]:
        path = self.entry_path(site)
        if not isinstance(path, Found):
            return path
        edges = path.witness.edges
        if any(holds is False for _, holds in self.evaluated(edges, PathCondition())):
            entry_path = concrete_entry_path(self.search_cache, self.cfg.block_of[site])
            if not isinstance(entry_path, Found):
                return entry_path
            edges = entry_path.witness
        return Found(self.values.along(edges, frozenset()))

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
        for k, p, wanted, decision in self.decisions(edges, guards, since):
            truth = self.values.entails(along.walk(p, k), facts)
            yield decision, None if truth is None else truth is wanted

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

    def along(self, path: Path, start: int) -> PathSubstitution:
        """The substitution of expressions at the end of *path*, in terms of the values at *start*, where it begins."""
        return self.values.along(path.edges, path.passed(self.cfg, start))

    def changes(self, value: int, path: Path, start: int) -> bool:
        """Whether *value* may change on *path*, which begins at *start*."""
        changes = self.values.varying_at(value)
        if not changes:
            return False
        entered = {edge.target for edge in path.edges}
        passed = set(path.sites(self.cfg, start))
        return any(at in (entered if kind == "block" else passed) for kind, at in changes)

    def reaches(self, start: int, end: int, avoiding: Collection[int] = ()) -> bool:
        """Whether a path of the CFG leads from *start*, or the entry (-1), to *end* and passes none of *avoiding*.

        Predicates and guards are ignored, so the path need not be feasible.
        """
        return self.cut(start, end, avoiding) is None

    def cut(self, start: int, end: int, avoiding: Collection[int] = ()) -> frozenset[int] | None:
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

    def reaching(self, starts: Iterable[int], ends: Iterable[int]) -> frozenset[int]:
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
        self, starts: Iterable[int], ends: Iterable[int], avoiding: Iterable[int]
    ) -> frozenset[int]:
        """Those of *ends* that a path reaches from one of *starts* and passes none of *avoiding*; see :meth:`reaches`."""
        cfg = self.cfg
        avoided, wanted = dict[int, list[int]](), dict[int, list[int]]()
        for sites, by_block in ((avoiding, avoided), (ends, wanted)):
            for i in sorted(sites):
                by_block.setdefault(cfg.block_of[i], []).append(i)
        found, work, seen = set[int](), list[int](), set[int]()

        def barrier(block: int, start: int) -> int | None:
            """The first instruction to avoid in *block* from *start* on."""
            sites = avoided.get(block, ())
            at = bisect_left(sites, start)
            return sites[at] if at < len(sites) else None

        def enter(block: int, start: int) -> None:
            """Takes the *ends* in *block* from *start* on, up to the first instruction to avoid."""
            barred, sites = barrier(block, start), wanted.get(block, ())
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
                if target in avoided or target in wanted:
                    enter(target, cfg.blocks[target].start)
                else:
                    work.append(target)
        self.search_cache.count(len(seen))
        return frozenset(found)

    def may_follow(self, first: int, second: int) -> bool:
        """Whether one thread may execute *second* after *first*: a path leads there, and the two do not exclude each other.

        Roles that share a loop and test the same predicate again have such a path, but no thread takes it.
        """
        return self.reaches(first, second) and not self.views.mutually_exclusive(first, second)

    def release(self) -> None:
        """Drops what refers back to this model, so that it is freed without a garbage collection."""
        self._solved.clear()
        self._made.clear()
        self._first_times.clear()
        self._entry_paths.clear()

    def drop_facts(self, analysis: Analysis[Any], site: int) -> None:
        """Records that *analysis* drops its facts at *site*, which is a call or the branch table of a dispatcher."""
        call = self.instruction(site).flow == "call"
        question = "facts past a call" if call else "facts past a branch table"
        self.ledger.drop(question, site, f"{analysis} drops its facts there")

    def size_confidence(self, a: Access, b: Access, threads_a: int, threads_b: int) -> Confidence | None:
        """MEDIUM if two accesses overlap only in CTAs of as many threads as ``.maxntid`` allows.

        None, for the confidence of the rule, if they overlap in smaller ones too, or ``.reqntid`` fixes the size.
        """
        if self.function.threads is not None or self.values.cta_size is None:
            return None
        shared = self._shared_if_smaller
        overlap = shared.overlap_in_one_thread(a, b, threads_a & threads_b)
        overlap = overlap or shared.overlap(a, b, threads_a, threads_b)
        return None if overlap else Confidence.MEDIUM

    def confidence(self, path: Path, start: int) -> Confidence | None:
        """MEDIUM if *path* passes a call, whose body is unknown; None for the confidence of the rule."""
        calls = any(self.instruction(i).flow == "call" for i in path.sites(self.cfg, start))
        return Confidence.MEDIUM if calls else None
