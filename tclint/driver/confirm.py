"""Confirm findings by executing the kernel: the last step of ``tclint check --confirm``.

A finding is *confirmed* if an execution has an observation that demonstrates its claim (:mod:`tclint.driver.evidence`),
*not reproduced*, with a reason, if no execution has one, *not confirmable* if no observation demonstrates what its rule
claims, and *unsupported* if the kernel cannot be executed that far. No finding is dropped, and none changes its
severity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from itertools import chain
from time import perf_counter

from tclint._dataclass import dataclass
from tclint.driver.evidence import EVIDENCE, Basis, Claim, demonstrations, evidence
from tclint.driver.launches import Candidate, candidates
from tclint.executor.errors import Unsupported
from tclint.executor.launch import LaunchFile
from tclint.executor.run import Execution, prepared
from tclint.executor.schedule import Schedule
from tclint.findings.finding import Confirmation, FileReport, Finding, Step
from tclint.findings.scales import Confidence, Method
from tclint.findings.spans import Span, span
from tclint.ir.nodes import Module
from tclint.syntax.source import Source

__all__ = ["BUDGET", "confirm"]

BUDGET = 10.0
"""Seconds for each finding."""
_EXECUTION_SHARE = 0.4
"""The fraction of the budget that one execution may take."""

_NOT_CONFIRMABLE = "no observation of an execution demonstrates what this rule claims"


@dataclass
class _Case:
    """A finding to confirm."""

    finding: Finding
    claims: tuple[Claim, ...]
    """What the finding shows, and the other conflicts with the same cause, each of which demonstrates it as well."""
    spent: float = 0.0
    """Seconds of its budget that are used."""
    reached: bool = False
    """Whether an execution has reached one of its instructions."""
    numbers: dict[tuple[str, int, int], Basis] = field(default_factory=dict)
    """The first launch with each observation that counts only if launches with other integers have it too."""
    verdict: Confirmation | None = None

    @property
    def sites(self) -> frozenset[int]:
        """The instructions that the finding is about."""
        return frozenset().union(*(claim.sites for claim in self.claims))


def confirm(report: FileReport, launches: LaunchFile | None = None, budget: float = BUDGET) -> FileReport:
    """*report* with a verdict on each finding in an entry that is not suppressed.

    *launches* is the launch file, or None to assume launches; *budget* is in seconds for each finding. Raises
    :class:`~tclint.executor.launch.LaunchError` if a launch does not fit the kernel.
    """
    source = report.source
    open_ = {n: f for n, f in enumerate(report.findings) if f.suppressed is None and f.confirmation is None}
    if source is None or not open_:
        return report
    verdicts = {
        n: replace(f, confirmation=Confirmation("not-confirmable", _NOT_CONFIRMABLE))
        for n, f in open_.items()
        if f.rule.id not in EVIDENCE
    }
    confirmable = {n: f for n, f in open_.items() if f.entry and n not in verdicts}
    if confirmable:
        verdicts |= _executed(source, confirmable, launches, budget)
    findings = tuple(verdicts.get(n, f) for n, f in enumerate(report.findings))
    return replace(report, findings=findings)


def _executed(
    source: Source, findings: Mapping[int, Finding], launches: LaunchFile | None, budget: float
) -> dict[int, Finding]:
    """The findings with the verdicts that executions of their entries lead to."""
    from tclint.ir.frontend import analyse

    module, _ = analyse(source)
    verdicts: dict[int, Finding] = {}
    for entry in dict.fromkeys(f.entry for f in findings.values() if f.entry):
        function = module.function(entry)
        if function is None or not function.entry:
            continue
        own = {n: f for n, f in findings.items() if f.entry == entry}
        verdicts |= _Entry(source, module, entry, own, launches, budget).run()
    return verdicts


def _with_verdict(finding: Finding, verdict: Confirmation) -> Finding:
    """The finding with its verdict; if it is confirmed, also with the observation as steps."""
    finding = replace(finding, confirmation=verdict)
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
        findings: Mapping[int, Finding],
        launches: LaunchFile | None,
        budget: float,
    ) -> None:
        self.source = source
        self.module = module
        self.entry = entry
        self.findings = findings
        self.cases: dict[int, _Case] = {}
        self.launches = launches
        self.budget = budget
        self.failure = ""
        """Why the last execution did not run to completion."""
        self.last: Execution | None = None

    def run(self) -> dict[int, Finding]:
        """Execute the entry until all its findings have a verdict, or no launch or budget is left: the findings."""
        try:
            self.function = prepared(self.module, self.entry)
        except Unsupported as problem:
            verdict = Confirmation("unsupported", str(problem))
            return {n: _with_verdict(finding, verdict) for n, finding in self.findings.items()}
        starts: dict[int, list[int]] = {}
        for site, instruction in enumerate(self.function.instructions):
            starts.setdefault(self.function.start + instruction.start, []).append(site)
        self.cases = {n: _Case(f, tuple(self._claims(f, starts))) for n, f in self.findings.items()}
        for candidate in candidates(self.source, self.module, self.function, self.launches):
            if not self._try(candidate):
                break
        return {n: _with_verdict(case.finding, self._verdict(case)) for n, case in self.cases.items()}

    def _claims(self, finding: Finding, starts: Mapping[int, list[int]]) -> Iterator[Claim]:
        """What a finding is about, given the instructions that start at each byte."""
        shown = [finding.span, *(step.span for step in finding.steps)]
        for use, spans in ((finding.span, shown), *((p.second, [p.first, p.second]) for p in finding.pairs)):
            site = starts.get(use.start, [-1])[0]
            yield self._claim(
                finding.rule.id, site, frozenset(s for at in spans for s in starts.get(at.start, ()))
            )

    def _claim(self, rule: str, site: int, sites: frozenset[int]) -> Claim:
        instructions = self.function.instructions
        accesses = frozenset(
            s for s in sites if not instructions[s].flow and instructions[s].event in ("", "issue")
        )
        return Claim(
            rule,
            site,
            sites,
            accesses,
            frozenset(s for s in sites if instructions[s].event == "mbarrier-init"),
            site >= 0 and instructions[site].event == "mbarrier-wait",
        )

    def _open(self) -> list[_Case]:
        return [c for c in self.cases.values() if c.verdict is None and c.spent < self.budget]

    def _try(self, candidate: Candidate) -> bool:
        """Execute a launch under the schedules that may demonstrate the open findings.

        All of them under ``lazy``, then each one that was reached for the first time under further schedules. False if
        no further launch needs to be tried.
        """
        if not self._open():
            return False
        fresh = [c for c in self._open() if not c.reached]
        late = self._execute(candidate, Schedule("lazy"), self._open())
        if late.end == "unsupported":
            return False
        for case in fresh:
            for schedule in (
                Schedule("targeted", case.claims[0].sites),
                Schedule("eager"),
                Schedule("random:1"),
            ):
                if case.reached and case.verdict is None and case.spent < self.budget:
                    self._execute(candidate, schedule, [case])
        return bool(self._open())

    def _execute(self, candidate: Candidate, schedule: Schedule, cases: list[_Case]) -> Execution:
        """Execute a launch once, and match the result with all open findings; *cases* share its cost."""
        began = perf_counter()
        seconds = self.budget * _EXECUTION_SHARE
        watched = frozenset().union(*(c.sites for c in cases))
        result = candidate.run(schedule, seconds=seconds, watched=watched)
        took = (perf_counter() - began) / len(cases)
        self.last = result
        self.failure = result.reason
        if result.end in ("fault", "deadlock", "budget"):
            self.failure = f"under {candidate.name}, {result.reason}"
        for case in cases:
            case.spent += took
            case.reached |= bool(case.sites & result.reached)
            for other in self.cases.values():
                if other.verdict is None:
                    self._match(other, result, candidate.basis)
        return result

    def _match(self, case: _Case, result: Execution, basis: Basis) -> None:
        """Confirm a finding if the execution demonstrates it, together with an earlier one if it needs two."""
        found = (demonstrations(claim, result, basis) for claim in case.claims)
        for observation, twice in chain.from_iterable(found):
            key = observation.kind, observation.site, observation.other
            first = case.numbers.setdefault(key, basis)
            if twice and first is basis:
                continue
            launch = f"{basis.name}; and {first.name}" if twice else basis.name
            steps = tuple(
                Step(self._span(site), f"executed ({result.schedule}): {message}", self.entry, role)
                for site, message, role in evidence(observation)
            )
            case.verdict = Confirmation("confirmed", "", result.schedule, observation.text, launch, steps)
            return

    def _span(self, site: int) -> Span:
        return span(self.function, min(site, len(self.function.instructions) - 1))

    def _verdict(self, case: _Case) -> Confirmation:
        """The verdict on a finding after the last execution."""
        if case.verdict is not None:
            return case.verdict
        schedule = self.last.schedule if self.last is not None else ""
        if self.last is not None and self.last.end == "unsupported":
            return Confirmation("unsupported", self.failure, schedule)
        if case.spent >= self.budget:
            return Confirmation("not-reproduced", f"budget of {self.budget:g} s exhausted", schedule)
        what = "no observation demonstrates it in these runs" if case.reached else "not reached"
        failure = f"; {self.failure}" if self.failure else ""
        return Confirmation("not-reproduced", what + failure, schedule)
