"""What analyses and searches find out about one kernel, computed on demand and once.

:class:`KernelModel` is a :class:`~tclint.dataflow.kernel.Kernel` with its solved analyses and the paths that were searched
for. A check asks it, and neither looks for instructions nor solves an analysis by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from tclint._dataclass import dataclass
from tclint.dataflow import (
    Analysis,
    Answer,
    Decision,
    Found,
    Path,
    PathQuery,
    Results,
    Search,
    find_paths,
    next_answer,
    solve,
)
from tclint.dataflow.feasible_paths import concrete_entry_path
from tclint.dataflow.kernel import Kernel
from tclint.dataflow.views import ThreadContext, Views
from tclint.findings.scales import Confidence
from tclint.ir.nodes import Function, Instruction, Module
from tclint.isa.target import Version
from tclint.values import PathCondition, PathSubstitution
from tclint.values.shared_memory import SharedAccess, SharedMemory

if TYPE_CHECKING:
    from tclint.recording import Recording

__all__ = ["FactQuery", "KernelModel"]

A = TypeVar("A", bound=Analysis[Any])
B = TypeVar("B")


def _never_cancel() -> None:
    """The default pause hook."""


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
    context: ThreadContext | None = None
    """The threads that may take the paths, and what holds for them; None: those that execute *start*."""


class KernelModel(Kernel):
    """Everything that is known about one function with a body.

    *toolkit* is the version of the CUDA toolkit whose ptxas will compile the code; None: not named. *pause* is called
    before each analysis and before each search for a path. If it raises, the model must not be used any more. *recorded*
    is the launch to replay; None: replays assume some.
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
        super().__init__(function, module, strict=strict)
        self.toolkit = toolkit
        self.pause = pause or _never_cancel
        self.recorded = recorded
        self.on: frozenset[str] | None = None
        """The subjects of the rules whose hits are shown; None: all. No analysis asks for it."""
        self.dependent = False
        """Whether the kernel is launched as a programmatic dependent of a grid whose results it uses (9.7.13.13)."""
        self.by_letter = False
        """Whether checks look for what the ISA alone forbids, and hardware is taken to order. No analysis asks for it."""
        self._solved: dict[type, tuple[Any, Results[Any]]] = {}
        self._made: dict[tuple[Any, ...], Any] = {}
        self._first_times: dict[tuple[int, int, bool], Answer[PathSubstitution]] = {}
        self._entry_paths: dict[tuple[int, int, bool], Answer[Path]] = {}
        self._first_shape: dict[tuple[int, ...], KernelModel] = {}

    def wants(self, *rules: str) -> bool:
        """Whether a hit of one of *rules* is shown. A check leaves out what only hits of other rules need."""
        return self.on is None or not self.on.isdisjoint(rules)

    def shaped(
        self, shape: tuple[int, ...], arguments: Mapping[tuple[str, int], int] | None = None
    ) -> KernelModel:
        """The model of the same function in CTAs of *shape*, the threads along x, y and z, as if by ``.reqntid``.

        With *arguments*, in launches with these (:attr:`Function.arguments`). The model of the shape that is asked for
        first, without arguments, is kept: the searches over launches all begin with it.
        """
        if not arguments and shape in self._first_shape:
            return self._first_shape[shape]
        directives = {**self.function.directives, ".reqntid": shape}
        function = replace(self.function, directives=directives, arguments=arguments or {})
        model = KernelModel(function, self.module, self.toolkit, self.pause)
        model.cfg, model.ledger = self.cfg, self.ledger
        model.views = Views(model.reachability, self.views)
        if not arguments and not self._first_shape:
            self._first_shape[shape] = model
        return model

    def bounded(self, threads: int) -> KernelModel:
        """The model of the same function in CTAs of at most so many threads, as if by ``.maxntid``.

        It shares what is known of values, so the number of threads must decide none of them.
        """
        directives = {**self.function.directives, ".maxntid": (threads, 1, 1)}
        model = KernelModel(
            replace(self.function, directives=directives), self.module, self.toolkit, self.pause
        )
        model.cfg, model.ledger, model.values = self.cfg, self.ledger, self.values
        model.reachability, model.views, model.search_cache = self.reachability, self.views, self.search_cache
        return model

    @cached_property
    def _shared_if_smaller(self) -> SharedMemory:
        return SharedMemory(self.function, self.values, smaller=True)

    def solution(self, analysis: type[A]) -> tuple[A, Results[Any]]:
        """An instance of *analysis* for this function, and its fixpoint; solved once."""
        if analysis not in self._solved:
            self.pause()
            instance = analysis(self)  # type: ignore[call-arg]
            self._solved[analysis] = (instance, solve(instance, self.cfg))
        return self._solved[analysis]

    def fact(self, kind: Callable[..., B], *given: Hashable) -> B:
        """The instance of *kind*, a class in :mod:`tclint.analyses` or what else is made of a model and of what is *given*,
        for this function; created once."""
        key = (kind, *given)
        if key not in self._made:
            self.pause()
            self._made[key] = kind(self, *given)
        found: B = self._made[key]
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
        context = query.context or self.views.context_in_iteration(start)
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

    def release(self) -> None:
        """Drops what refers back to this model, so that it is freed without a garbage collection."""
        self._solved.clear()
        self._made.clear()
        self._first_times.clear()
        self._entry_paths.clear()

    def size_confidence(
        self, a: SharedAccess, b: SharedAccess, threads_a: int, threads_b: int
    ) -> Confidence | None:
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
