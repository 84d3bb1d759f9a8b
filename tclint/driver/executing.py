"""Execute kernels that have no finding: ``tclint check --execute``.

A finding that an execution demonstrates is left to :mod:`tclint.driver.confirm`. What is observed in any other kernel
becomes a finding of the rule that describes it (:mod:`tclint.driver.hazards`), with the method ``execution``. The budget
is counted in executed instructions, so two machines report the same.

With an assumed launch, most kernels could be led into states that no caller causes. An observation therefore becomes a
finding only if it cannot be due to an assumption (:mod:`tclint.driver.evidence`), if the kernel did not fault or
deadlock, and if every other assumed launch that reaches the same instructions has it too.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace

from tclint._dataclass import dataclass
from tclint.checks import Hit, Mark
from tclint.driver.evidence import bounded_classes, due_to, evidence, seen
from tclint.driver.hazards import hazard
from tclint.driver.launches import Candidate, candidates
from tclint.driver.one import debug, internal_error
from tclint.executor.errors import Unsupported
from tclint.executor.launch import LaunchError, LaunchFile
from tclint.executor.observations import Observation
from tclint.executor.run import Execution, prepared
from tclint.executor.schedule import Schedule
from tclint.findings.finding import Confirmation, KernelExecution
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence, Method, Severity
from tclint.findings.selection import Selected
from tclint.findings.spans import span
from tclint.findings.verdicts import Executed, HazardClass
from tclint.ir.nodes import Function, Module
from tclint.syntax.source import Source

__all__ = ["Executor"]

MAX_LAUNCHES = 7
"""Assumed launches that are tried for a kernel; a real one ends the search if it reaches all that can be observed."""
_SCHEDULES = ("lazy", "random:1", "eager")
"""One after the other, in each launch."""
_STOPPED = ("fault", "deadlock")

_Key = tuple[str, int, int]


class Executor:
    """Executes the kernels of one source, as the hook of :func:`tclint.linting.check.check_source`."""

    def __init__(
        self, source: Source, steps: int, selected: Selected, launches: Callable[[], LaunchFile | None]
    ) -> None:
        """*steps* are the instructions to execute for each kernel, *selected* determines which hits are shown, and
        *launches* reads the launch file, if there is one."""
        self._source = source
        self._steps = steps
        self._selected = selected
        self._launches = launches
        self.executions: list[KernelExecution] = []
        """How each kernel that was to be executed fared."""
        self._bounds: dict[int, Executed] = {}
        """The executions of kernels in which nothing was observed, by the positions of the kernels."""

    def __call__(self, module: Module, function: Function, hits: Sequence[Hit]) -> Iterator[Hit]:
        """The hits that executing an entry adds to *hits*; none if one of these is for ``--confirm``.

        Notes among *hits* are not repeated. *function* has the callees inlined that *hits* refer to. Raises
        :class:`~tclint.executor.launch.LaunchError` if a launch file does not fit the kernel.
        """
        shown = [hit for hit in hits if self._is_shown(hit)]
        if not function.entry or any(self._is_grave(hit) for hit in shown):
            return
        known = {(hit.rule, function.instructions[hit.site].start) for hit in shown if hit.site >= 0}
        launches = self._launches()
        with _collected():
            kernel = _Kernel(self._source, module, function.name, self._steps, launches)
            try:
                kernel.run()
            except Exception as error:
                if debug() or isinstance(error, LaunchError):
                    raise
                kernel.outcome = replace(kernel.outcome, end="unsupported", reason=internal_error(error))
        line = self._source.position(function.start).line
        self.executions.append(replace(kernel.outcome, line=line))
        if bound := kernel.bound():
            self._bounds[function.start] = bound
        for hit in kernel.hits():
            if (hit.rule, kernel.function.instructions[hit.site].start) not in known:
                yield hit

    def executed(self, function: Function) -> Executed | None:
        """The executions of a kernel, if all of them ran to completion and nothing was observed; else None."""
        return self._bounds.get(function.start)

    def _is_shown(self, hit: Hit) -> bool:
        """Whether a hit will be shown and is about something that an execution can demonstrate."""
        rule = all_rules()[hit.rule]
        return (
            bool(rule.confirmed_by) and (hit.confidence or rule.confidence) >= self._selected.min_confidence
        )

    def _is_grave(self, hit: Hit) -> bool:
        return hit.severity_if(all_rules()[hit.rule], self._selected.strict) > Severity.INFO


@contextmanager
def _collected() -> Iterator[None]:
    """Free the machines of executions, which are cyclic: the linter, within which they run, disables the collector."""
    gc.freeze()  # what exists already needs no search
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()


@dataclass
class _Found:
    """An observation that may become a finding."""

    observation: Observation
    schedule: str
    candidate: Candidate
    hit: Hit
    counts: bool
    """Whether it counts without another launch that has it."""


@dataclass
class _Kernel:
    """The executions of one entry."""

    source: Source
    module: Module
    entry: str
    steps: int
    """Instructions that are left of the budget."""
    file: LaunchFile | None
    found: dict[_Key, _Found] = field(default_factory=dict)
    spent: int = 0
    runs: list[tuple[Candidate, Execution]] = field(default_factory=list)
    """The executions that looked for observations."""

    def run(self) -> None:
        """Execute the entry, first to observe and then to see whether other launches contradict."""
        self.outcome = KernelExecution(self.entry, "unsupported")
        try:
            self.function = prepared(self.module, self.entry)
            self.candidates = list(candidates(self.source, self.module, self.function, self.file))
            self._observe(self.steps)
            if self.found and self.file is None:
                self._compare(self.steps)
        except Unsupported as problem:
            self.outcome = replace(self.outcome, reason=str(problem))

    def _observe(self, steps: int) -> None:
        """Execute launches under all schedules until one reaches everything of interest or *steps* are spent."""
        missing = _of_interest(self.function)
        collective = _collective(self.function)
        for candidate in self.candidates[:MAX_LAUNCHES]:
            for schedule in _SCHEDULES:
                watched = missing | collective
                result = candidate.run(Schedule(schedule), steps=max(steps, 1), watched=watched)
                self.runs.append((candidate, result))
                steps -= result.steps
                self._conclude(candidate, result)
                if result.end in _STOPPED and self.file is None:
                    break
                self._record(candidate, result)
                missing -= result.reached
                if result.end != "done":
                    break
            if steps <= 0 or not missing or result.end == "unsupported":
                return

    def bound(self) -> Executed | None:
        """What the executions show of the classes of the kernel; None if one did not go right, or not as on a GPU."""
        if not self.runs or any(not result.right or result.notes for _, result in self.runs):
            return None
        schedules: dict[str, list[str]] = {}
        for candidate, result in self.runs:
            schedules.setdefault(candidate.basis.name, []).append(result.schedule)
        reached = frozenset[int]().union(*(result.reached for _, result in self.runs))
        observed = [bounded_classes(self.function, candidate.basis) for candidate, _ in self.runs]
        return Executed(
            tuple(f"{name} (executed: {', '.join(how)})" for name, how in schedules.items()),
            frozenset(span(self.function, site) for site in reached),
            frozenset(HazardClass).intersection(*observed),
        )

    def _conclude(self, candidate: Candidate, result: Execution) -> None:
        """Remember the best end of an execution: one that ran to completion, else the last one."""
        self.spent += result.steps
        if self.outcome.end != "done":
            reason = result.reason
            if result.end == "budget":
                reason = f"budget of {self.steps:,} instructions exhausted"
            self.outcome = KernelExecution(self.entry, result.end, reason, candidate.basis.name, self.spent)
        self.outcome = replace(self.outcome, instructions=self.spent)

    def _record(self, candidate: Candidate, result: Execution) -> None:
        """Keep the observations that no assumption explains and a rule describes."""
        if candidate.basis.branches_on_memory:
            return  # zeros in memory are no items, which no caller may pass
        integers = "integers" in (candidate.basis.assumes or ())
        for observation in _plausible(result):
            if due_to(observation, candidate.basis):
                continue
            hit = hazard(observation, self.function)
            if hit is not None:
                key = observation.kind, observation.site, observation.other
                self.found.setdefault(
                    key, _Found(observation, result.schedule, candidate, hit, counts=not integers)
                )

    def _compare(self, steps: int) -> None:
        """Drop observations that another launch which reaches their instructions does not have.

        If integers are assumed, a launch with other integers must have it too.
        """
        first = next(iter(self.found.values())).candidate
        others = [c for c in self.candidates if c is not first]
        others.sort(key=lambda other: other.geometry != first.geometry)
        for candidate in others[:MAX_LAUNCHES]:
            for schedule in dict.fromkeys(found.schedule for found in self.found.values()):
                open_ = {
                    key: found
                    for key, found in self.found.items()
                    if found.schedule == schedule and found.candidate is not candidate
                }
                if not open_ or steps <= 0:
                    continue
                sites = frozenset(site for _, *both in open_ for site in both if site >= 0)
                result = candidate.run(Schedule(schedule), steps=steps, watched=sites)
                steps -= result.steps
                has = {(o.kind, o.site, o.other) for o in result.observations}
                for key, found in open_.items():
                    if key in has:
                        found.counts |= (
                            result.end not in _STOPPED and candidate.number != found.candidate.number
                        )
                    elif result.end == "done" and result.reached >= {s for s in key[1:] if s >= 0}:
                        del self.found[key]

    def hits(self) -> Iterator[Hit]:
        """What was observed: one hit for each rule and instruction, the pairs of which it counts.

        Which of two unordered accesses came first is chance, so a pair counts in one order only.
        """
        groups: dict[tuple[str, int], list[_Found]] = {}
        pairs: set[tuple[str, frozenset[int]]] = set()
        for found in self.found.values():
            rule, both = found.hit.rule, frozenset((found.observation.site, found.observation.other))
            if found.counts and (rule, both) not in pairs:
                pairs.add((rule, both))
                groups.setdefault((rule, found.observation.site), []).append(found)
        for first, *others in groups.values():
            yield _as_hit(first, 1 + len(others))


def _as_hit(found: _Found, count: int) -> Hit:
    """The hit of an observation, with its execution as the path."""
    o = found.observation
    return replace(
        found.hit,
        count=count,
        confidence=Confidence.CONFIRMED,
        method=Method.EXECUTION,
        steps=tuple(
            Mark(site, f"executed ({found.schedule}): {message}", role=role)
            for site, message, role in evidence(o)
        ),
        confirmation=Confirmation("confirmed", "", found.schedule, o.text, found.candidate.basis.name),
    )


def _plausible(result: Execution) -> Iterator[Observation]:
    """The observations of an execution, and its deadlock as one of them: the wait for an mbarrier, if there is one."""
    waits = [o for o in seen(result) if o.kind.startswith("deadlock-")]
    yield from (o for o in seen(result) if not o.kind.startswith("deadlock-"))
    lacking = [o for o in waits if o.kind in ("deadlock-arrivals", "deadlock-bytes")]
    if lacking or all(o.kind == "deadlock-barrier" for o in waits):
        yield from (lacking or waits)[:1]


def _of_interest(function: Function) -> frozenset[int]:
    """The instructions that execute asynchronously, synchronise, or access shared memory."""
    return frozenset(
        site
        for site, instruction in enumerate(function.instructions)
        if instruction.event
        or (instruction.match is not None and instruction.match.space.startswith(".shared"))
    )


def _collective(function: Function) -> frozenset[int]:
    """The instructions that several threads must execute together."""
    return frozenset(
        site
        for site, instruction in enumerate(function.instructions)
        if instruction.match is not None and instruction.match.scope not in ("", "active", "thread")
    )
