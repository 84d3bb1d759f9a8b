"""Where bits of registers that nothing has written decide something, and what findings say about it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

from tclint.analyses.first_reads import FirstReads, threads_without
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.plausibility import most_plausible_path
from tclint.analyses.undefined import QUESTION, UNWRITTEN, Decides, UndefinedBits, UndefinedPaths, may_keep
from tclint.checks import Hit, Mark, RuleId
from tclint.dataflow import Path
from tclint.dataflow.views import ThreadContext

__all__ = ["undefined"]

MAX_SEARCHES = 12
"""The searches for paths in one kernel: each finding and each group of registers without one takes one."""


def undefined(model: KernelModel, unwritten: Collection[int], rule: RuleId) -> Iterator[Hit]:
    """The hits of *rule* about registers that some path reads before it writes them."""
    kept, left, searches = may_keep(model), set(unwritten), MAX_SEARCHES
    for threads in chain((None,), threads_without(model, unwritten, kept)):
        first = FirstReads(model, unwritten, kept, threads)
        if first.counting(left):
            search = _Search(rule, UndefinedPaths(model, first), left, searches)
            yield from search.hits()
            left, searches = search.left, search.searches


class _Search:
    """Where undefined bits of the registers that are *left* decide something, with at most so many *searches* for paths."""

    def __init__(self, rule: RuleId, paths: UndefinedPaths, left: set[int], searches: int) -> None:
        self.rule, self.paths, self.model = rule, paths, paths.model
        self.left, self.searches = left, searches
        affecting = sorted(site for block in paths.results.affecting for site in block)
        self.uses = [site for site in affecting if paths.may_decide(site)]

    def hits(self) -> Iterator[Hit]:
        """Where they do: in all threads on every path first."""
        if self.uses and self.paths.first.threads is None:
            yield from self.certain()
        if self.uses:
            yield from self.on_paths()

    def certain(self) -> Iterator[Hit]:
        """Where they do on every path."""
        for site in self.uses:
            if not self.left:
                return
            decides = self.paths.certainly_decided(site)
            origins = [] if decides is None else self.paths.origins(decides.register, site)
            if decides is not None and not self.left.isdisjoint(origins):
                yield self._hit(site, decides, origins)

    def on_paths(self) -> Iterator[Hit]:
        """Where they do on a feasible path."""
        while self.left:
            if not self.searches:
                if self.paths.first.counting(self.left):
                    self.model.ledger.give_up(QUESTION, -1, f"more than {MAX_SEARCHES} searches for paths")
                return
            self.searches -= 1
            path = self._path()
            origins = [] if path is None else [r for r in sorted(self.left) if self._decided(path, {r})]
            decides = None if path is None else self._decided(path, origins)
            if path is None or decides is None:
                return
            yield self._hit(path.end, decides, origins, path)

    def _path(self) -> Path | None:
        """A feasible path from the entry to where undefined bits decide something."""
        counting = self.paths.first.counting(self.left)
        if not counting:
            return None

        def goal(state: UndefinedBits, at: int) -> bool:
            return at >= 0 and self.paths.decided(at, state) is not None

        threads = self.paths.first.threads
        context = None if threads is None else ThreadContext(threads)
        results, step = self.paths.results, self.paths.step
        query = FactQuery(-1, _unwritten(counting), results, step, goal, tuple(self.uses), context)
        found = most_plausible_path(self.model, query).witness
        return None if found is None or found[1] else found[0]

    def _decided(self, path: Path, origins: Iterable[int]) -> Decides | None:
        """What undefined bits of *origins* decide at the end of *path*."""
        state: UndefinedBits | None = _unwritten(origins)
        for site in path.marks:
            if state is not None:
                state = self.paths.step(state, site, self.model.instruction(site))
        return None if state is None else self.paths.decided(path.end, state)

    def _hit(self, site: int, decides: Decides, origins: Sequence[int], path: Path | None = None) -> Hit:
        """The hit about *origins*, after which what the same instructions read or write is not left."""
        model, origin = self.model, origins[0]
        readers, defs = model.readers, model.values.defs
        about = {i for r in origins for i in (*readers[r], *defs.get(r, ()))}
        self.left = {r for r in self.left if about.isdisjoint((*readers[r], *defs.get(r, ())))}
        name = model.function.registers[origin].name
        why, condition = self._unwritten(origin, path)
        first = next(i for i in readers[origin] if self.paths.first.unwritten_at(origin, i))
        read = (Mark(first, f"{name} is read here"),) if first != site else ()
        return self.rule.hit(
            site=site,
            message=f"{model.name(site)}: {decides.what} depends on {name}, {why}",
            count=len(origins),
            steps=(
                *(self._skipped(path, origin) if path else ()),
                *read,
                Mark(site, f"{decides.what} depends on it"),
            ),
            about=frozenset((site,)),
            help=f"give {name} a value before it is read",
            confidence=model.confidence(path, 0) if path else None,
            condition=condition,
        )

    def _unwritten(self, origin: int, path: Path | None) -> tuple[str, str]:
        """Why a register has no value, and the condition on a launch for that."""
        model, among = self.model, self.paths.first.threads
        if not model.values.defs.get(origin):
            return "which nothing writes", ""
        if path is None or among is None:
            return "which nothing has written before", ""
        least = (path.threads & -path.threads).bit_length() - 1
        threads = model.describe_threads(path.threads & among)
        if least < (model.values.cta_size or 1):
            return f"which nothing writes in {threads}", ""
        condition = f"the CTA has more than {least} threads"
        return f"which nothing writes in {threads} (if {condition})", condition

    def _skipped(self, path: Path, origin: int) -> Iterator[Mark]:
        """Where the path takes a branch that leads past a definition of a register."""
        cfg = self.model.cfg
        taken, seen = {edge.source: edge for edge in path.edges}, set[int]()
        for site in self.model.values.defs.get(origin, ()):
            for edge in cfg.control_dependences(cfg.block_of[site]):
                if edge.source not in seen and taken.get(edge.source, edge) != edge:
                    seen.add(edge.source)
                    yield Mark(cfg.blocks[edge.source].end - 1, "this branch skips what would write it")


def _unwritten(origins: Iterable[int]) -> UndefinedBits:
    return frozenset((r, UNWRITTEN) for r in origins)
