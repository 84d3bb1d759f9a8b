"""Confirm findings by executing the kernel: the last step of ``tclint check --confirm``.

A finding is *confirmed* if an execution has an observation, fault or deadlock at one of its instructions,
*not reproduced*, with a reason, if no execution has one, and *unsupported* if the kernel cannot be executed that far.
No finding is dropped, and none changes its severity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter

from tclint.executor.assume import Assumed, Parameters
from tclint.executor.errors import Unsupported
from tclint.executor.launch import LaunchFile, triton_beside
from tclint.executor.machine import Observation
from tclint.executor.run import Execution, execute_assumed, execute_file, line_of, prepared
from tclint.executor.schedule import Schedule
from tclint.findings.finding import Confirmation, FileReport, Finding, Span, Step
from tclint.findings.scales import Confidence, Method
from tclint.ir.nodes import Module
from tclint.syntax.source import Source

__all__ = ["BUDGET", "confirm"]

BUDGET = 10.0
"""Seconds for each finding."""
_EXECUTION_SHARE = 0.4
"""The fraction of the budget that one execution may take."""

_STATIC_FAMILIES = frozenset(("arch", "operands", "ptx", "suppression", "toolchain"))
"""Families of rules whose findings no execution can demonstrate."""


@dataclass
class _Case:
    """A finding to confirm."""

    finding: Finding
    sites: frozenset[int]
    """The instructions of its span and its steps."""
    spent: float = 0.0
    """Seconds of its budget that are used."""
    reached: bool = False
    """Whether an execution has reached one of :attr:`sites`."""
    verdict: Confirmation | None = None


def confirm(report: FileReport, launches: LaunchFile | None = None, budget: float = BUDGET) -> FileReport:
    """*report* with a verdict on each finding in an entry that is not suppressed and that an execution can demonstrate.

    *launches* is the launch file, or None to assume launches; *budget* is in seconds for each finding. Raises
    :class:`~tclint.executor.launch.LaunchError` if a launch does not fit the kernel.
    """
    source = report.source
    open_ = {
        n: f
        for n, f in enumerate(report.findings)
        if f.entry and f.suppressed is None and f.rule.family not in _STATIC_FAMILIES
    }
    if source is None or not open_:
        return report
    from tclint.ir.frontend import analyse

    module, _ = analyse(source)
    verdicts: dict[int, Finding] = {}
    for entry in dict.fromkeys(f.entry for f in open_.values() if f.entry):
        cases = {n: _Case(f, frozenset()) for n, f in open_.items() if f.entry == entry}
        _Entry(source, module, entry, cases, launches, budget).run()
        for n, case in cases.items():
            verdicts[n] = _with_verdict(case)
    findings = tuple(verdicts.get(n, f) for n, f in enumerate(report.findings))
    return replace(report, findings=findings)


def _with_verdict(case: _Case) -> Finding:
    """The finding with its verdict; if it is confirmed, also with the observation as steps."""
    verdict = case.verdict
    assert verdict is not None
    finding = replace(case.finding, confirmation=verdict)
    if verdict.status != "confirmed":
        return finding
    return replace(
        finding,
        confidence=Confidence.CONFIRMED,
        method=Method.EXECUTION,
        steps=(*finding.steps, *verdict.steps),
    )


class _Entry:
    """The findings about one entry, and the executions that may confirm them."""

    def __init__(
        self,
        source: Source,
        module: Module,
        entry: str,
        cases: Mapping[int, _Case],
        launches: LaunchFile | None,
        budget: float,
    ) -> None:
        self.source = source
        self.module = module
        self.entry = entry
        self.cases = cases
        self.launches = launches
        self.budget = budget
        self.failure = ""
        """Why the last execution did not run to completion."""
        self.last: Execution | None = None

    def run(self) -> None:
        """Execute the entry until all its findings have a verdict, or no launch or budget is left."""
        try:
            self.function = prepared(self.module, self.entry)
        except Unsupported as problem:
            for case in self.cases.values():
                case.verdict = Confirmation("unsupported", str(problem))
            return
        starts: dict[int, list[int]] = {}
        for site, instruction in enumerate(self.function.instructions):
            starts.setdefault(self.function.start + instruction.start, []).append(site)
        for case in self.cases.values():
            spans = [case.finding.span, *(s.span for s in case.finding.steps)]
            case.sites = frozenset(site for span in spans for site in starts.get(span.start, ()))
        for name, launch in self._launches():
            if not self._try(name, launch):
                break
        self._close()

    def _open(self) -> list[_Case]:
        return [c for c in self.cases.values() if c.verdict is None and c.spent < self.budget]

    def _launches(self) -> Iterator[tuple[str, _Launch]]:
        """What to execute, with a name for messages: all launches of the launch file at once, or assumed launches."""
        if self.launches is not None:
            yield str(self.launches.path), self._given(self.launches)
            return
        for assumed in Parameters(self.function).launches(self.module, triton_beside(self.source.path)):
            yield f"an assumed launch ({assumed})", self._assumed(assumed)

    def _assumed(self, assumed: Assumed) -> _Launch:
        def run(schedule: Schedule, seconds: float, watched: frozenset[int]) -> Execution:
            return execute_assumed(
                self.module, self.function, assumed, schedule, seconds=seconds, place=self._location, watched=watched
            )  # fmt: skip

        return run

    def _given(self, file: LaunchFile) -> _Launch:
        def run(schedule: Schedule, seconds: float, watched: frozenset[int]) -> Execution:
            executions, _ = execute_file(
                self.module, file, schedule, seconds=seconds, place=lambda f, site: self._location(site),
                watched={self.entry: watched},
            )  # fmt: skip
            own = [e for e in executions if e.function.name == self.entry]
            reason = f"{file.path} does not launch {self.entry}"
            return own[-1] if own else Execution(self.function, "unsupported", reason)

        return run

    def _try(self, name: str, launch: _Launch) -> bool:
        """Execute a launch under the schedules that may demonstrate the open findings.

        All of them under ``lazy``, then each one that was reached for the first time under further schedules. False if
        no further launch needs to be tried.
        """
        if not self._open():
            return False
        fresh = [c for c in self._open() if not c.reached]
        late = self._execute(name, launch, Schedule("lazy"), self._open())
        if late.end == "unsupported":
            return False
        for case in fresh:
            for schedule in (Schedule("targeted", case.sites), Schedule("eager"), Schedule("random:1")):
                if case.reached and case.verdict is None and case.spent < self.budget:
                    self._execute(name, launch, schedule, [case])
        return bool(self._open())

    def _execute(self, name: str, launch: _Launch, schedule: Schedule, cases: list[_Case]) -> Execution:
        """Execute a launch once, and match the result with all open findings; *cases* share its cost."""
        began = perf_counter()
        seconds = self.budget * _EXECUTION_SHARE
        watched = frozenset().union(*(c.sites for c in cases))
        try:
            result = launch(schedule, seconds, watched)
        except Unsupported as problem:  # before the first instruction: variables, parameters
            result = Execution(self.function, "unsupported", str(problem))
        took = (perf_counter() - began) / len(cases)
        self.last = result
        self.failure = result.reason
        if result.end in ("fault", "deadlock", "budget"):
            self.failure = f"under {name}, {result.reason}"
        for case in cases:
            case.spent += took
            case.reached |= bool(case.sites & result.reached)
            for other in self.cases.values():
                if other.verdict is None:
                    self._match(other, result)
        return result

    def _match(self, case: _Case, result: Execution) -> None:
        """Confirm a finding if the execution demonstrates it."""
        found = _evidence(case, result)
        if found is None:
            return
        evidence, text = found
        steps = tuple(
            Step(self._span(site), f"executed ({result.schedule}): {message}", self.entry, role)
            for site, message, role in evidence
        )
        case.verdict = Confirmation("confirmed", "", result.schedule, text, steps)

    def _span(self, site: int) -> Span:
        instruction = self.function.instructions[min(site, len(self.function.instructions) - 1)]
        return Span(self.function.start + instruction.start, self.function.start + instruction.end)

    def _location(self, site: int) -> str:
        return f"line {line_of(self.source, self.function, site)}"

    def _close(self) -> None:
        """Give the remaining findings their verdict."""
        for case in self.cases.values():
            if case.verdict is not None:
                continue
            schedule = self.last.schedule if self.last is not None else ""
            if self.last is not None and self.last.end == "unsupported":
                case.verdict = Confirmation("unsupported", self.failure, schedule)
            elif case.spent >= self.budget:
                case.verdict = Confirmation(
                    "not-reproduced", f"budget of {self.budget:g} s exhausted", schedule
                )
            else:
                what = "no violation observed in these runs" if case.reached else "not reached"
                failure = f"; {self.failure}" if self.failure else ""
                case.verdict = Confirmation("not-reproduced", what + failure, schedule)


def _evidence(case: _Case, result: Execution) -> tuple[list[tuple[int, str, str | None]], str] | None:
    """The evidence for a finding in an execution: steps (instruction, message, threads), and a one-line summary.

    None if the execution does not demonstrate the finding.
    """
    best = max(
        result.observations, key=lambda observation: _relevance(case, result, observation), default=None
    )
    if best is not None and not _relevance(case, result, best):
        best = None
    if best is not None:
        steps: list[tuple[int, str, str | None]] = []
        if best.other >= 0:
            steps.append((best.other, best.cause, None))
        steps.append((best.site, best.message, best.thread))
        return steps, f"{best.thread}: {best.message}"
    if result.end == "fault" and result.site in case.sites:
        return [(result.site, result.reason, None)], result.reason
    if result.end == "deadlock" and (case.sites.intersection(result.sites) or case.sites & result.involved):
        return [(site, "threads wait here indefinitely", None) for site in result.sites[:1]], result.reason
    return None


def _relevance(case: _Case, result: Execution, observation: Observation) -> int:
    """How closely an observation matches a finding: 0 not at all, 3 if both instructions are those of the finding."""
    hits = (observation.site in case.sites) + (observation.other in case.sites)
    if hits:
        return hits + 1
    # The steps of a finding about an mbarrier need not include the copy that completes on it.
    related = case.finding.rule.family == "mbarrier" and observation.other in result.reports
    return int(related and bool(case.sites & result.reports[observation.other]))


# ---------------------------------------------------------------- launches

_Launch = Callable[[Schedule, float, frozenset[int]], Execution]
"""Executes the kernel once, given a schedule, a limit in seconds, and the instructions to watch."""
