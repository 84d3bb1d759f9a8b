"""Confirm findings by executing the kernel: the last step of ``tclint check --confirm``.

A finding is *confirmed* when an execution shows an observation at one of its instructions, *not reproduced* when no
execution does, with the reason, and *unsupported* when the kernel cannot be executed that far. None is dropped, and
none changes its severity.
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
from tclint.findings.scales import Confidence
from tclint.ir.nodes import Module
from tclint.syntax.source import Source

__all__ = ["BUDGET", "confirm"]

BUDGET = 10.0
"""Seconds for each finding."""
_SHARE = 0.4
"""Of the budget, what one execution may take."""

_STATIC = frozenset(("arch", "operands", "ptx", "suppression", "toolchain"))
"""Families of rules about what no execution shows."""


@dataclass
class _Case:
    """A finding, and the instructions that it names."""

    finding: Finding
    sites: frozenset[int]
    spent: float = 0.0
    reached: bool = False
    verdict: Confirmation | None = None


def confirm(report: FileReport, launches: LaunchFile | None = None, budget: float = BUDGET) -> FileReport:
    """*report* with a verdict on each of its findings that is about an entry.

    Raises :class:`~tclint.executor.launch.LaunchError` when *launches* does not fit the kernel.
    """
    source = report.source
    open_ = {
        n: f
        for n, f in enumerate(report.findings)
        if f.entry and f.suppressed is None and f.rule.family not in _STATIC
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
            verdicts[n] = _judged(case)
    findings = tuple(verdicts.get(n, f) for n, f in enumerate(report.findings))
    return replace(report, findings=findings)


def _judged(case: _Case) -> Finding:
    verdict = case.verdict
    assert verdict is not None
    finding = replace(case.finding, confirmation=verdict)
    if verdict.status != "confirmed":
        return finding
    return replace(finding, confidence=Confidence.CONFIRMED, steps=(*finding.steps, *verdict.steps))


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
        self.last: Execution | None = None

    def run(self) -> None:
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
        """Launches, and what they are called: those of the launch file, or assumed ones."""
        if self.launches is not None:
            yield str(self.launches.path), self._given(self.launches)
            return
        for assumed in Parameters(self.function).launches(self.module, triton_beside(self.source.path)):
            yield f"the launch that was assumed ({assumed})", self._assumed(assumed)

    def _assumed(self, assumed: Assumed) -> _Launch:
        def run(schedule: Schedule, seconds: float, watched: frozenset[int]) -> Execution:
            return execute_assumed(
                self.module, self.function, assumed, schedule, seconds=seconds, place=self._place, watched=watched
            )  # fmt: skip

        return run

    def _given(self, file: LaunchFile) -> _Launch:
        def run(schedule: Schedule, seconds: float, watched: frozenset[int]) -> Execution:
            executions, _ = execute_file(
                self.module, file, schedule, seconds=seconds, place=lambda f, site: self._place(site),
                watched={self.entry: watched},
            )  # fmt: skip
            mine = [e for e in executions if e.function.name == self.entry]
            why = f"{file.path} does not launch {self.entry}"
            return mine[-1] if mine else Execution(self.function, "unsupported", why)

        return run

    def _try(self, name: str, launch: _Launch) -> bool:
        """Execute a launch under the schedules that may show what the open findings say; False: no more launches."""
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
        began = perf_counter()
        seconds = self.budget * _SHARE
        watched = frozenset().union(*(c.sites for c in cases))
        try:
            result = launch(schedule, seconds, watched)
        except Unsupported as problem:  # what comes before the first instruction: variables, parameters
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
        found = _fitting(case, result)
        if found is None:
            return
        seen, text = found
        steps = tuple(
            Step(self._span(site), f"executed ({result.schedule}): {message}", self.entry, role)
            for site, message, role in seen
        )
        case.verdict = Confirmation("confirmed", "", result.schedule, text, steps)

    def _span(self, site: int) -> Span:
        instruction = self.function.instructions[min(site, len(self.function.instructions) - 1)]
        return Span(self.function.start + instruction.start, self.function.start + instruction.end)

    def _place(self, site: int) -> str:
        return f"line {line_of(self.source, self.function, site)}"

    def _close(self) -> None:
        for case in self.cases.values():
            if case.verdict is not None:
                continue
            schedule = self.last.schedule if self.last is not None else ""
            if self.last is not None and self.last.end == "unsupported":
                case.verdict = Confirmation("unsupported", self.failure, schedule)
            elif case.spent >= self.budget:
                case.verdict = Confirmation("not-reproduced", f"budget spent ({self.budget:g} s)", schedule)
            else:
                what = "synchronised in these runs" if case.reached else "not reached"
                why = f"; {self.failure}" if self.failure else ""
                case.verdict = Confirmation("not-reproduced", what + why, schedule)


def _fitting(case: _Case, result: Execution) -> tuple[list[tuple[int, str, str | None]], str] | None:
    """What an execution saw of a finding: the steps (instruction, message, threads), and a line about it."""
    best = max(result.observations, key=lambda seen: _fit(case, result, seen), default=None)
    if best is not None and not _fit(case, result, best):
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
        return [(site, "threads wait here for ever", None) for site in result.sites[:1]], result.reason
    return None


def _fit(case: _Case, result: Execution, seen: Observation) -> int:
    """How well an observation fits a finding: 0 not at all, 3 when it is about the same two instructions."""
    hits = (seen.site in case.sites) + (seen.other in case.sites)
    if hits:
        return hits + 1
    # A finding about an mbarrier need not name the copy that reports to it.
    about = case.finding.rule.family == "mbarrier" and seen.other in result.reports
    return int(about and bool(case.sites & result.reports[seen.other]))


# ---------------------------------------------------------------- launches

_Launch = Callable[[Schedule, float, frozenset[int]], Execution]
"""Executes the kernel: under a schedule, for some seconds, with instructions to watch."""
