"""What the checks know about one function, collected once and lazily.

:class:`KernelModel` owns the graph, the values, the views and the solved
analyses of a function, and the list of its events: everything asynchronous or
collective in program order, with the object it is about. Checks ask it; none
of them looks for events or solves an analysis by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from tclint.config.config import Config
from tclint.dataflow import (
    Analysis,
    Answer,
    Found,
    Path,
    Results,
    Search,
    Survey,
    find_paths,
    next_answer,
    solve,
)
from tclint.dataflow.answers import Ledger
from tclint.dataflow.feasible_paths import find_lead
from tclint.dataflow.reachability import Reachability
from tclint.dataflow.views import View, Views
from tclint.findings.scales import Confidence
from tclint.ir.cfg import CFG, Edge
from tclint.ir.nodes import Function, Immediate, Instruction, Module, Operand, Variable
from tclint.values import Along, Facts, Values
from tclint.values import thread_masks as T
from tclint.values.shared_memory import SharedMemory

__all__ = ["Event", "KernelModel"]

A = TypeVar("A", bound=Analysis[Any])
B = TypeVar("B")

_OTHERWISE = "as often as the loops on this way have gone round, a branch goes another way"
"""What there is to say where no path is found on which each branch is taken as it is there."""
_LEFT_OVER = (
    "a loop for what an unrolled one leaves over decides it, and how its numbers go together is not known"
)
"""What there is to say where every path takes a branch by such a number."""


def _go_on() -> None:
    """Nobody wants to end it."""


@dataclass(frozen=True, slots=True)
class Event:
    """One asynchronous or collective instruction: what it means, and what completes it."""

    site: int
    kind: str
    group: str


class KernelModel:
    """Everything that is known about one function with a body.

    *pause* is called before each of its parts is made, and before each search for a path; what it raises ends that, and
    the model is of no use any more.
    """

    def __init__(
        self,
        function: Function,
        module: Module,
        config: Config | None = None,
        pause: Callable[[], None] | None = None,
    ) -> None:
        self.function = function
        self.module = module
        self.config = config or Config()
        self.pause = pause or _go_on
        self._solved: dict[type, tuple[Any, Results[Any]]] = {}
        self._made: dict[Callable[[KernelModel], Any], Any] = {}
        self._firsts: dict[int, Answer[Along]] = {}
        self._leads: dict[tuple[int, int, bool], Answer[Path]] = {}
        self.ledger = Ledger()
        """Every question about this function that a search, a replay or an analysis leaves open."""

    def shaped(self, shape: tuple[int, ...]) -> KernelModel:
        """The same function in CTAs of so many threads along x, y and z, as if ``.reqntid`` said so."""
        directives = {**self.function.directives, ".reqntid": shape}
        made = KernelModel(
            replace(self.function, directives=directives), self.module, self.config, self.pause
        )
        made.cfg, made.ledger = self.cfg, self.ledger
        return made

    @cached_property
    def cfg(self) -> CFG:
        return CFG(self.function)

    @cached_property
    def values(self) -> Values:
        values = Values(self.function, self.cfg, self.module.variables)
        values.gave_up = partial(self.ledger.give_up, "expression on a path", -1)
        return values

    @cached_property
    def cta(self) -> int:
        """The threads of a CTA, as many as there can be."""
        return T.full(self.function.most_threads or T.LIMIT)

    @cached_property
    def reachability(self) -> Reachability:
        """Which threads reach which block."""
        return Reachability(self.cfg, self.values)

    @cached_property
    def views(self) -> Views:
        return Views(self.reachability)

    @cached_property
    def shared(self) -> SharedMemory:
        return SharedMemory(self.function, self.values)

    @cached_property
    def survey(self) -> Survey:
        return Survey(self.cfg, self.values, self.views, self.ledger)

    @cached_property
    def readers(self) -> dict[int, list[int]]:
        """The instructions that read a register, or stand under it as their guard."""
        found: dict[int, list[int]] = {}
        for i, instruction in enumerate(self.function.instructions):
            for register in instruction.reads:
                found.setdefault(register, []).append(i)
            if instruction.guard >= 0:
                found.setdefault(instruction.guard, []).append(i)
        return found

    def takers(self, site: int) -> Iterator[tuple[int, bool]]:
        """What takes the numbers that *site* makes, or others that are made of them: branches, accesses to memory, events.

        And whether its guard is made of them. Registers count wherever they are read, so it may be one too many.
        """
        made = set(self.instruction(site).writes)
        work = list(made)
        while work:
            for i in self.readers.get(work.pop(), ()):
                instruction = self.instruction(i)
                match = instruction.match
                if match is None or match.form.event or match.form.memory or instruction.flow:
                    yield i, instruction.guard in made
                if match is not None and not match.form.memory:
                    work += set(instruction.writes) - made
                    made.update(instruction.writes)

    @cached_property
    def events(self) -> list[Event]:
        """The events in program order; unreachable ones are left out."""
        found = [
            Event(i, use.match.form.event, use.match.form.group)
            for use in self.function.uses
            if use.match is not None and use.match.form.event
            for i in use.sites
        ]
        if found:
            reachable, block_of = self.cfg.rank, self.cfg.block_of
            found = sorted((e for e in found if block_of[e.site] in reachable), key=lambda e: e.site)
        return found

    def sites(self, kind: str, group: str | None = None) -> list[int]:
        """The instructions with event *kind* (and *group*)."""
        return list(self._sites.get((kind, group), ()))

    @cached_property
    def _sites(self) -> dict[tuple[str, str | None], list[int]]:
        found: dict[tuple[str, str | None], list[int]] = {}
        for event in self.events:
            for group in (event.group, None):
                found.setdefault((event.kind, group), []).append(event.site)
        return found

    def instruction(self, site: int) -> Instruction:
        return self.function.instructions[site]

    def name(self, site: int) -> str:
        """The first two words of an opcode: ``tcgen05.mma``."""
        return self.instruction(site).name

    def present(self, site: int) -> int:
        """The threads that may execute *site*, but for lanes of the last warp that a CTA does not have (11.4.2, 11.4.4)."""
        most = self.function.most_threads
        threads = self.views.at(site).threads
        return threads if most is None else threads & T.full(most)

    def who(self, threads: int) -> str:
        """*threads* in words: ``warps 4-7``."""
        return T.describe(threads, self.values.threads)

    def space(self, value: int) -> str:
        """The state space of the variable that *value* is the address of, "" when it is none."""
        node = self.values.node(value)
        return self.space_of(str(node[1])) if node[0] == "symbol" else ""

    def space_of(self, name: str) -> str:
        """The state space of the variable called *name*, "" when there is none."""
        variable = self.variable(name)
        return variable.space if variable is not None else ""

    def size(self, value: int) -> int:
        """The bytes of the variable that *value* is the address of; 0: it is none, or its size is not known."""
        variable = self.values.variable(value)
        return variable.size if variable is not None else 0

    def separate(self, a: int, b: int) -> bool:
        """Whether these are the addresses of different variables, none of which reaches into the other.

        Those without a size are names for the same memory, behind that of all others (5.1.7).
        """
        kinds = {self.values.node(v)[0] for v in (a, b)}
        return a != b and kinds == {"symbol"} and bool(self.size(a) or self.size(b))

    def variable(self, name: str) -> Variable | None:
        """The variable called *name*, of the function or of the module."""
        return self.function.variables.get(name) or self.module.variables.get(name)

    def value(self, site: int, role: str) -> int | None:
        """The value of the operand that plays *role* at *site*, if the instruction has one."""
        operand: Operand | None = self.instruction(site).role(role)
        return None if operand is None else self.values.operand(operand, site)

    def known(self, site: int, role: str) -> int | None:
        """The integer that the operand that plays *role* at *site* is; a literal needs no values."""
        operand = self.instruction(site).role(role)
        if isinstance(operand, Immediate):
            return operand.value if isinstance(operand.value, int) else None
        return None if operand is None else self.values.known(self.values.operand(operand, site))

    def solved(self, analysis: type[A]) -> tuple[A, Results[Any]]:
        """*analysis* made for this function, and its solution; solved once."""
        if analysis not in self._solved:
            self.pause()
            made = analysis(self)  # type: ignore[call-arg]
            self._solved[analysis] = (made, solve(made, self.cfg))
        return self._solved[analysis]

    def made(self, kind: Callable[[KernelModel], B]) -> B:
        """What *kind*, a class in :mod:`tclint.analyses`, knows about this function; made once."""
        if kind not in self._made:
            self.pause()
            self._made[kind] = kind(self)
        found: B = self._made[kind]
        return found

    def path(
        self,
        start: int,
        state: Hashable,
        results: Results[Any],
        step: Callable[[Any, int, Instruction], Hashable],
        goal: Callable[[Any, int], bool],
        to: Iterable[int],
        closed: AbstractSet[Edge] = frozenset(),
    ) -> Answer[Path]:
        """The first of :meth:`paths`, or why there is none."""
        return next_answer(self.paths(start, state, results, step, goal, to, closed))

    def paths(
        self,
        start: int,
        state: Hashable,
        results: Results[Any],
        step: Callable[[Any, int, Instruction], Hashable],
        goal: Callable[[Any, int], bool],
        to: Iterable[int],
        closed: AbstractSet[Edge] = frozenset(),
        *,
        together: bool = False,
    ) -> Search[Path]:
        """Paths from *start* on which the fact lives until *goal*, taken by the threads that execute *start*.

        *to* are the instructions at which *goal* can be met; none: where the
        function is left. No edge of *closed* is taken. They go on from the
        round of a loop that *start* is in.
        """
        self.pause()
        relevant: Sequence[Sequence[int]] = results.relevant
        sites: dict[int, set[int]] = {}
        for site in to:
            sites.setdefault(self.cfg.block_of[site], set()).add(site)
        goals = set(sites) or self.cfg.exits | self.reachability.dispatchers
        merged: list[Sequence[int]] | None = None
        for block, inside in sites.items():  # goal is asked there although the analysis does not change
            if not inside.issubset(relevant[block]):
                relevant = merged = merged or list(relevant)
                merged[block] = sorted(inside.union(merged[block]))
        alive = results.carrying(start) if start >= 0 else None
        return find_paths(
            self.survey,
            start,
            self.views.now(start),
            state,
            relevant,
            step,
            goal,
            goals,
            alive,
            closed,
            together=together,
        )

    def lead(self, site: int, view: View | None = None) -> Answer[Path]:
        """A path from the entry of the function to *site*, or another instruction of its block under the same guard.

        It is taken by the threads of *view*; without one by any.
        """
        if view is not None:
            return self._lead(site, view)
        key = self.place(site)
        if key not in self._leads:
            self._leads[key] = self._lead(site, self.views.at(-1))
        return self._leads[key]

    def place(self, site: int) -> tuple[int, int, bool]:
        """The block that an instruction is in, and its guard there: -1 when it has none, and whether that is negated."""
        instruction = self.instruction(site)
        guard = self.values.before(instruction.guard, site) if instruction.guard >= 0 else -1
        return self.cfg.block_of[site], guard, instruction.negated

    def _lead(self, site: int, view: View) -> Answer[Path]:
        block = self.cfg.block_of[site]
        relevant: list[Sequence[int]] = [()] * len(self.cfg.blocks)
        relevant[block] = (site,)
        found = find_paths(
            self.survey,
            -1,
            view,
            True,
            relevant,
            lambda state, i, ins: state,
            lambda state, i: i == site,
            (block,),
        )
        return next_answer(found)

    def at_first(self, site: int) -> Answer[Along]:
        """What an expression stands for when *site* is executed for the first time, or why no path to it is found."""
        block = self.cfg.block_of[site]
        if block not in self._firsts:
            self._firsts[block] = self._first(site)
        return self._firsts[block]

    def _first(self, site: int) -> Answer[Along]:
        path = self.lead(site)
        if not isinstance(path, Found):
            return path
        edges = path.witness.edges
        if any(self._contrary(edges, Facts())):
            lead = find_lead(self.survey, self.cfg.block_of[site])
            if not isinstance(lead, Found):
                return lead
            edges = lead.witness
        return Found(self.values.along(edges, frozenset()))

    def _contrary(self, edges: Sequence[Edge], facts: Facts, since: int = 0) -> Iterator[Edge]:
        """Those of *edges*, from number *since* on, where the way up to there says that the branch goes another way."""
        return (edge for edge, truth in self._told(edges, facts, since) if truth is (not edge.value))

    def _told(
        self, edges: Sequence[Edge], facts: Facts, since: int = 0
    ) -> Iterator[tuple[Edge, bool | None]]:
        """Those of *edges* that a branch decides, from number *since* on, and what the way up to there says of the predicate."""
        along = self.values.along(edges, frozenset())
        for k, edge in enumerate(edges[since:], since):
            p = self.reachability.edge_value(edge)
            if p is not None:
                yield edge, self.values.decide(along.walk(p, k), facts)

    def _at_first(self, start: int, path: Path) -> Iterator[tuple[Edge, bool | None]]:
        """The same of the edges of *path* when *start* is executed for the first time."""
        first = self.at_first(start).witness if start >= 0 else None  # else of whatever iteration
        lead = () if first is None else (*first.edges,)
        return self._told((*lead, *path.edges), self.views.at(start).facts, len(lead))

    def settled(self, start: int, path: Path) -> frozenset[Edge]:
        """The edges of *path* that are taken for certain when *start* is executed for the first time."""
        return frozenset(edge for edge, truth in self._at_first(start, path) if truth is edge.value)

    def untaken(self, start: int, path: Path, relevant: Sequence[Sequence[int]]) -> Edge | None:
        """The first branch on *path* that goes the other way when *start* is executed for the first time; None: none does.

        One that leaves a loop in which nothing is *relevant* may be taken in a later round.
        """
        for edge, truth in self._at_first(start, path):
            loop = self.cfg.innermost(edge.source)
            if truth is (not edge.value) and (
                edge.target in loop or not loop or any(relevant[block] for block in loop)
            ):
                return edge
        return None

    def likely(
        self,
        start: int,
        state: Hashable,
        results: Results[Any],
        step: Callable[[Any, int, Instruction], Hashable],
        goal: Callable[[Any, int], bool],
        to: Collection[int],
    ) -> Answer[tuple[Path, str]]:
        """The first of :meth:`paths` without anything to say against it; else the first one, and what there is.

        A branch may contradict it (:meth:`untaken`), or depend on how the loop for the rest and the unrolled one before it
        go together.
        """
        closed = set[Edge]()
        first: Found[tuple[Path, str]] | None = None
        while True:
            found = next_answer(self.paths(start, state, results, step, goal, to, closed, together=True))
            if not isinstance(found, Found):
                return first or found
            path = found.witness
            wrong, doubt = self.untaken(start, path, results.relevant), _OTHERWISE
            if wrong is None:
                wrong, doubt = self._by_the_rest(start, path), _LEFT_OVER
            if wrong is None:
                return Found((path, ""))
            first = first or Found((path, doubt))
            if wrong not in path.edges:
                return first
            closed.add(wrong)

    def _by_the_rest(self, start: int, path: Path) -> Edge | None:
        """A branch on *path*, or to *start*, that a number of a loop for the rest decides, and which does not end that loop."""
        cfg, values = self.cfg, self.values
        before = cfg.controllers(cfg.block_of[start]) if start >= 0 else ()
        for edge in (*path.edges, *before):
            p = self.reachability.edge_value(edge)
            if p is not None and any(
                values.counts_the_rest(head, p)
                and any(values.node(v)[:2] == ("phi", head) for v in values.made_of(p))
                for head in cfg.around(edge.source)
            ):
                found: Edge = edge
                return found
        return None

    def along(self, path: Path, start: int) -> Along:
        """What expressions stand for at the end of *path*, in terms of the values at *start*, where it begins."""
        return self.values.along(path.edges, path.passed(self.cfg, start))

    def changes(self, value: int, path: Path, start: int) -> bool:
        """Whether *value* may have become another one on *path*, which begins at *start*."""
        places = self.values.volatile(value)
        if not places:
            return False
        entered = {edge.target for edge in path.edges}
        passed = set(path.sites(self.cfg, start))
        return any(where in (entered if kind == "block" else passed) for kind, where in places)

    def reaches(self, start: int, end: int, avoiding: Collection[int] = ()) -> bool:
        """Whether some way leads from instruction *start*, or from the entry (-1), to *end* and passes none of *avoiding*."""
        cfg = self.cfg
        first, last = cfg.block_of[max(start, 0)], cfg.block_of[end]
        straight = first == last and start < end
        if not avoiding or not (straight or cfg.following[first] >> last & 1):
            return straight or bool(cfg.following[first] >> last & 1)
        barred: dict[int, list[int]] = {}
        for i in avoiding:
            barred.setdefault(cfg.block_of[i], []).append(i)
        if straight and not any(start < i < end for i in barred.get(first, ())):
            return True
        if any(i > start for i in barred.get(first, ())) or any(i < end for i in barred.get(last, ())):
            return False
        work, seen = [first], set[int]()
        while work:
            for edge in cfg.successors[work.pop()]:
                if edge.target == last:
                    return True
                if edge.target not in seen and edge.target not in barred:
                    seen.add(edge.target)
                    work.append(edge.target)
        return False

    def release(self) -> None:
        """Drop what knows this model, or its values: without that they go as soon as nobody holds them."""
        if "values" in self.__dict__:
            self.values.release()
        self._solved.clear()
        self._made.clear()
        self._firsts.clear()
        self._leads.clear()

    def drop_facts(self, analysis: Analysis[Any], site: int) -> None:
        """Records that *analysis* drops its facts at *site*, which is a call or a branch table that selects a role."""
        call = self.instruction(site).flow == "call"
        question = "facts past a call" if call else "facts past a branch table"
        self.ledger.drop(question, site, f"{type(analysis).__name__} drops its facts there")

    def confidence(self, path: Path, start: int) -> Confidence | None:
        """Lowered by a step when the path passes a call whose body is not known; None: the rule's own."""
        calls = any(self.instruction(i).flow == "call" for i in path.sites(self.cfg, start))
        return Confidence.MEDIUM if calls else None
