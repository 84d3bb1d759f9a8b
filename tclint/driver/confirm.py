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

from tclint._dataclass import dataclass
from tclint.config.config import Config
from tclint.driver.evidence import Claim, demonstrations, evidence
from tclint.driver.launches import Candidate, candidates
from tclint.executor.errors import Unsupported
from tclint.executor.launch import LaunchFile
from tclint.executor.observations import Observation
from tclint.executor.run import End, Execution, prepared
from tclint.executor.schedule import Schedule
from tclint.findings.finding import Confirmation, FileReport, Finding, Step
from tclint.findings.scales import Confidence, Method
from tclint.findings.spans import Span, span
from tclint.ir.nodes import Module
from tclint.isa.effects import Barrier, Resource
from tclint.syntax.source import Source

__all__ = ["STEPS", "confirm"]

STEPS = Config().confirm_steps
"""Instructions of warps for each finding, unless another budget is given."""
_SHARES = ((1 / 32, 1 / 2), (1 / 4, 1))
"""The fractions of the budget that one execution and all of them may take: first of all launches, and then of those that
this cut short."""

_ROUNDS = (1, 3)
"""Launches that are executed under all schedules, of those that reach some instructions of a finding, and of those that
reach all; the others only under ``lazy``."""

_ASSUMED = {
    "threads": "number of threads",
    "cluster": "size of the cluster",
    "addresses": "values from which addresses are computed",
    "integers": "integers",
    "contents": "contents of global memory",
}
"""The keys of :data:`~tclint.driver.evidence.CAUSED_BY`, for a message."""
_REPEATED = frozenset(("cluster", "integers"))
"""The assumptions to which an observation is not due if other launches have it too."""
_NOT_CONFIRMABLE = "no observation of an execution demonstrates what this rule claims"


@dataclass
class _Case:
    """A finding to confirm."""

    finding: Finding
    claims: tuple[Claim, ...]
    """What the finding shows, and the other conflicts with the same cause, each of which demonstrates it as well."""
    spent: int = 0
    """Steps of its budget that are used."""
    reached: bool = False
    """Whether an execution has reached one of its instructions."""
    rounds: list[int] = field(default_factory=lambda: [0, 0])
    """Launches that were executed under all schedules: those that reach some of its instructions, and all."""
    seen: dict[tuple[str, int, int], dict[tuple[object, int], str]] = field(default_factory=dict)
    """The launches with each observation that demonstrates it: cluster and integers, with their names."""
    doubts: dict[frozenset[str], Observation] = field(default_factory=dict)
    """The first observation that demonstrates it unless it is due to these assumptions."""
    verdict: Confirmation | None = None

    @property
    def sites(self) -> frozenset[int]:
        """The instructions that the finding is about."""
        return frozenset().union(*(claim.sites for claim in self.claims))


def confirm(report: FileReport, launches: LaunchFile | None = None, steps: int = STEPS) -> FileReport:
    """*report* with a verdict on each finding in an entry that is not suppressed.

    *launches* is the launch file, or None to assume launches; *steps* is the budget of each finding in executed
    instructions of warps, so every machine gives the same verdicts. Raises
    :class:`~tclint.executor.launch.LaunchError` if a launch does not fit the kernel.
    """
    source = report.source
    open_ = {n: f for n, f in enumerate(report.findings) if f.suppressed is None and f.confirmation is None}
    if source is None or not open_:
        return report
    verdicts = {
        n: replace(f, confirmation=Confirmation("not-confirmable", _NOT_CONFIRMABLE))
        for n, f in open_.items()
        if not f.rule.confirmed_by
    }
    confirmable = {n: f for n, f in open_.items() if f.entry and n not in verdicts}
    if confirmable:
        verdicts |= _executed(source, confirmable, launches, steps)
    findings = tuple(verdicts.get(n, f) for n, f in enumerate(report.findings))
    return replace(report, findings=findings)


def _executed(
    source: Source, findings: Mapping[int, Finding], launches: LaunchFile | None, steps: int
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
        verdicts |= _Entry(source, module, entry, own, launches, steps).run()
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
        steps: int,
    ) -> None:
        self.source = source
        self.module = module
        self.entry = entry
        self.findings = findings
        self.cases: dict[int, _Case] = {}
        self.launches = launches
        self.steps = self.budget = steps
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
        self.moves: dict[int, set[int]] = {}
        for site, instruction in enumerate(self.function.instructions):
            starts.setdefault(self.function.start + instruction.start, []).append(site)
            if instruction.match is not None and instruction.match.form.name == "mov":
                for register in instruction.writes:
                    self.moves.setdefault(register, set()).add(site)
        self.cases = {n: _Case(f, tuple(self._claims(f, starts))) for n, f in self.findings.items()}
        left = list(candidates(self.source, self.module, self.function, self.launches))
        self.clusters = {candidate.cluster for candidate in left}
        for one, all_ in _SHARES:
            limit, self.budget = max(1, int(self.steps * one)), int(self.steps * all_)
            left = [c for c in left if not self._is_worthwhile() or self._try(c, limit) == "budget"]
        return {n: _with_verdict(case.finding, self._verdict(case)) for n, case in self.cases.items()}

    def _claims(self, finding: Finding, starts: Mapping[int, list[int]]) -> Iterator[Claim]:
        """What a finding is about, given the instructions that start at each byte."""
        shown = [finding.span, *(step.span for step in finding.steps if not step.aside)]
        for use, spans in ((finding.span, shown), *((p.second, [p.first, p.second]) for p in finding.pairs)):
            site = starts.get(use.start, [-1])[0]
            yield self._claim(
                finding.rule.id, site, frozenset(s for at in spans for s in starts.get(at.start, ()))
            )

    def _claim(self, rule: str, site: int, sites: frozenset[int]) -> Claim:
        instructions = self.function.instructions
        accesses = frozenset(
            s for s in sites if not instructions[s].flow and instructions[s].effects.only_accesses
        )
        return Claim(
            rule,
            site,
            sites,
            accesses,
            frozenset(s for s in sites if instructions[s].effects.resource is Resource.MBARRIER_INIT),
            site >= 0 and instructions[site].effects.awaits is Barrier.MBARRIER,
            self._copies(site),
        )

    def _copies(self, site: int) -> frozenset[int]:
        """The moves between registers from which the instruction *site* has what it reads."""
        found: set[int] = set()
        work = list(self.function.instructions[site].reads) if site >= 0 else []
        while work:
            moves = self.moves.get(work.pop(), set()) - found
            found |= moves
            work += [r for move in moves for r in self.function.instructions[move].reads]
        return frozenset(found)

    def _open(self) -> list[_Case]:
        return [c for c in self.cases.values() if c.verdict is None and c.spent < self.budget]

    def _is_worthwhile(self) -> bool:
        """Whether a further launch may demonstrate a finding."""
        return bool(self._open()) and not (self.last is not None and self.last.end == "unsupported")

    def _try(self, candidate: Candidate, limit: int) -> End:
        """Execute a launch, for at most *limit* steps each, under the schedules that may demonstrate the open findings.

        All of them under ``lazy``, then each one that this reached under further schedules, unless that was done in
        several launches. Returns how the execution under ``lazy`` ended.
        """
        late = self._execute(candidate, Schedule("lazy"), self._open(), limit)
        for case in self._open():
            whole = any(claim.sites <= late.reached for claim in case.claims)
            if case.sites.isdisjoint(late.reached) or case.rounds[whole] == _ROUNDS[whole]:
                continue
            if any(causes <= _REPEATED for causes in case.doubts):
                continue  # only other launches decide
            case.rounds[whole] += 1
            for schedule in (
                Schedule("targeted", case.claims[0].sites),
                Schedule("held", case.claims[0].sites),
                Schedule("eager"),
                Schedule("random:1"),
            ):
                if case.verdict is None and case.spent < self.budget:
                    self._execute(candidate, schedule, [case], limit)
        return late.end

    def _execute(self, candidate: Candidate, schedule: Schedule, cases: list[_Case], limit: int) -> Execution:
        """Execute a launch once, and match the result with all open findings; *cases* share its cost."""
        watched = frozenset().union(*(c.sites for c in cases))
        result = candidate.run(schedule, steps=limit, watched=watched)
        # Decoding takes time for every instruction, however few of them are executed.
        took = -(-max(result.steps, len(self.function.instructions)) // len(cases))
        self.last = result
        self.failure = result.reason
        if result.end in ("fault", "deadlock", "budget"):
            self.failure = f"under {candidate.name}, {result.reason}"
        for case in cases:
            case.spent += took
            case.reached |= bool(case.sites & result.reached)
            for other in self.cases.values():
                if other.verdict is None:
                    self._match(other, result, candidate)
        return result

    def _match(self, case: _Case, result: Execution, candidate: Candidate) -> None:
        """Confirm a finding if the execution demonstrates it, or those of several launches together do."""
        found = (demonstrations(claim, result, candidate.basis) for claim in case.claims)
        for observation, causes in chain.from_iterable(found):
            key = observation.kind, observation.site, observation.other
            seen = case.seen.setdefault(key, {})
            seen.setdefault((candidate.cluster, candidate.number), candidate.basis.name)
            clusters, numbers = ({shape for shape, _ in seen}, {number for _, number in seen})
            if (
                causes - _REPEATED
                or ("cluster" in causes and clusters < self.clusters)
                or ("integers" in causes and len(numbers) == 1)
            ):
                case.doubts.setdefault(causes, observation)
                continue
            steps = tuple(
                Step(self._span(site), f"executed ({result.schedule}): {message}", self.entry, role)
                for site, message, role in evidence(observation)
            )
            launch = "; and ".join(seen.values()) if causes else candidate.basis.name
            case.verdict = Confirmation("confirmed", "", result.schedule, observation.text, launch, steps)
            return

    def _span(self, site: int) -> Span:
        return span(self.function, min(site, len(self.function.instructions) - 1))

    def _verdict(self, case: _Case) -> Confirmation:
        """The verdict on a finding after the last execution."""
        if case.verdict is not None:
            return case.verdict
        schedule = self.last.schedule if self.last is not None else ""
        for causes, observation in case.doubts.items():
            assumed = " and ".join(_ASSUMED[cause] for cause in sorted(causes))
            reason = f"{observation.text}, but that may be due to the assumed {assumed}: use a launch file"
            return Confirmation("not-reproduced", reason, schedule)
        if self.last is not None and self.last.end == "unsupported":
            return Confirmation("unsupported", self.failure, schedule)
        what = "no observation demonstrates it" if case.reached else "not reached"
        if case.spent >= self.steps:
            return Confirmation("not-reproduced", f"{what} within {self.steps:,} instructions", schedule)
        what += " in these runs" if case.reached else ""
        failure = f"; {self.failure}" if self.failure else ""
        return Confirmation("not-reproduced", what + failure, schedule)
