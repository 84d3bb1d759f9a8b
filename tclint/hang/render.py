"""The explanation of a hang as text for people and as JSON for programs.

docs/hang.md shows the text; docs/hang.schema.json is the schema of the JSON. ``schema`` is incremented when a key is
removed or changes its meaning, not when one is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tclint._json import to_json
from tclint.findings.finding import Finding
from tclint.hang.cycle import End
from tclint.hang.explain import Explanation
from tclint.hang.launched import DeadlockedLaunch
from tclint.hang.phases import CurrentPhase
from tclint.hang.stops import REGISTERS, RUNNING, Stop
from tclint.hang.waits import CompletionStatus, Share, Waiter
from tclint.inspect.protocol.parts import used
from tclint.inspect.tables import Cells, columns, few, printable_line, short_name
from tclint.report.formats._style import BOLD, CYAN, RED, YELLOW, Style

__all__ = ["SCHEMA", "render_json", "render_text"]

SCHEMA = 1
_LINES = 40
"""How many lines the text has at most."""


# ---------------------------------------------------------------- text


def render_text(found: Explanation, color: bool = False) -> str:
    """The causes, the cycle, and the positions and waits that they follow from, in 40 lines at most."""
    lines = _Text(found, Style(color)).lines()
    return "".join(f"{printable_line(line, color)}\n" for line in lines)


class _Text:
    def __init__(self, found: Explanation, style: Style) -> None:
        self._found, self._style = found, style
        self._model, self._locations = found.model, found.locations

    def lines(self) -> Iterator[str]:
        """The cause, the chain of waits and what the checks say, then the positions and waits that these follow from."""
        found, source = self._found, self._found.source
        line = source.position(found.function.start).line
        where = source.path if source.member is None else f"{source.path}({source.member})"
        yield self._style(BOLD, f"kernel {short_name(found.function.name)}") + f"  {where}:{line}"
        shown = 1
        for part in self._parts():
            lines = list(part)
            if not lines:
                continue
            left = _LINES - shown - 2
            yield from ("", *lines[:left])
            shown += 1 + min(len(lines), left)
            if len(lines) > left:
                yield (
                    self._style(YELLOW, "more")
                    + ": --output-format json has all positions, waits and findings"
                )
                return

    def _parts(self) -> Iterator[Iterable[str]]:
        """The parts of the text, the most important ones first."""
        found = self._found
        if found.executed is not None:
            yield (_executed(found.executed),)
        if found.causes:
            causes = [(cause.what, self._locations.words(cause.sites)) for cause in found.causes]
            yield self._table("causes", causes)
        yield self._chain()
        problems = [("not checked", problem.message, f"line {problem.line}") for problem in found.problems]
        if found.findings or problems:
            yield self._table("tclint check", (*self._findings(), *problems))
        yield self._table("positions", map(self._position, found.stops))
        chained = found.chain.waiters if found.chain is not None else ()
        for number in dict.fromkeys((*chained, *range(len(found.waiters)))):
            yield self._waiter(number, found.waiters[number])
        if names := list(self._names()):
            yield self._table("where", names)

    def _findings(self) -> Iterator[Cells]:
        """The findings, those of one rule and message once with all their lines."""
        lines: dict[tuple[str, str], list[int]] = {}
        for finding in self._found.findings:
            line = self._found.source.position(finding.span.start).line
            lines.setdefault((finding.rule.id, finding.message), []).append(line)
        for (rule, message), at in lines.items():
            yield rule, message, f"line {few(list(map(str, dict.fromkeys(at))))}"

    def _table(self, title: str, rows: Iterable[Cells]) -> Iterator[str]:
        yield self._style(CYAN, title)
        yield from (f"  {line}" for line in columns(rows))

    def _position(self, stop: Stop) -> Cells:
        what = self._model.name(stop.site)
        if stop.kind == RUNNING:
            what += ", not a wait"
        if not stop.expected:
            what += ", where these threads were not expected"
        return self._who(stop), what, self._locations.words((stop.site,))

    def _who(self, stop: Stop) -> str:
        who = self._model.describe_threads(stop.threads) + self._of(stop)
        if stop.warps and not stop.ctas:
            who += f" ({stop.warps} warp{'s' if stop.warps > 1 else ''})"
        return who

    def _those(self, share: Share) -> str:
        """The threads of a share, in words."""
        where = self._of(self._found.stops[share.at]) if share.at >= 0 else ""
        return self._model.describe_threads(share.threads) + where

    def _of(self, stop: Stop) -> str:
        """The CTAs of a stop, if the positions name more than one."""
        if len({cta for each in self._found.stops for cta in each.ctas}) < 2:
            return ""
        numbers = [str(cta) for cta in sorted(stop.ctas)]
        return f" of CTA{'s' if len(numbers) > 1 else ''} {few(numbers)}" if numbers else ""

    def _at(self, stop: Stop) -> str:
        return self._locations.words((stop.site,))

    def _waiter(self, number: int, waiter: Waiter) -> Iterator[str]:
        stop = self._found.stops[waiter.stop]
        what = ", ".join((waiter.object.name, *self._phase(number, waiter)))
        yield self._style(BOLD, f"wait of {self._who(stop)} at {self._at(stop)}") + f" for {what}"
        alike: dict[tuple[str, str, str], list[int]] = {}
        for operation in waiter.operations:
            for share in operation.shares:
                status = self._share(share) if operation.certain else "may be on this object"
                alike.setdefault((operation.deed, self._those(share), status), []).append(operation.site)
        if not alike:
            yield "  no instruction would complete it"
        rows = [(deed, who, self._locations.words(at), status) for (deed, who, status), at in alike.items()]
        yield from (f"  {line}" for line in columns(rows))

    def _phase(self, number: int, waiter: Waiter) -> Iterator[str]:
        """The parity that the threads wait for, and the phases if they are known."""
        wait = self._found.wait(self._found.stops[waiter.stop].site)
        if wait is not None and not wait[1].token:
            yield f"parity {wait[1].parity or 'unknown'}"
        phases = self._found.phases.get(number, ())
        if phases:
            yield f"{_where(self._found)} {few([_received(phase) for phase in phases])}"

    def _names(self) -> Iterator[Cells]:
        """What the names in the parities of the waits are for."""
        waits = filter(None, (self._found.wait(stop.site) for stop in self._found.stops))
        for name in used(self._found.names, (wait.parity for _, wait in waits)):
            yield name.name, name.meaning, f"loop from line {self._locations.line(name.site)}"

    def _share(self, share: Share) -> str:
        """Where some threads of an operation are, in words."""
        line = self._locations.line(self._found.stops[share.at].site) if share.at >= 0 else 0
        return {
            CompletionStatus.ARRIVED: "arrived",
            CompletionStatus.BLOCKED: f"only after the wait at line {line}",
            CompletionStatus.OWN: "only after this wait",
            CompletionStatus.RUNNING: f"not yet, at line {line}",
            CompletionStatus.PASSED: f"past it, at line {line}",
            CompletionStatus.ABSENT: "exited, or not listed",
        }[share.status]

    def _chain(self) -> Iterator[str]:
        found = self._found
        chain = found.chain
        if chain is None:
            yield self._style(YELLOW, "undecided") + ": no thread of these positions waits"
            return
        cycle = chain.end is End.CYCLE
        title = {End.CYCLE: "cycle of waits", End.UNDECIDED: "undecided"}.get(chain.end, "chain of waits")
        yield self._style(YELLOW if chain.end is End.UNDECIDED else RED, title)
        rows: list[Cells] = []
        for n in chain.waiters:
            stop = found.stops[found.waiters[n].stop]
            rows.append((f"{self._who(stop)} at {self._at(stop)}", f"for {found.waiters[n].object.name}"))
        yield from (f"  {line}" for line in columns(rows))
        last = found.waiters[chain.waiters[-1]]
        yield f"  {_end(chain.end, last, again=cycle and len(chain.waiters) > 1)}"
        if chain.end is End.UNDECIDED:
            rest = [n for n in chain.waiters if found.waiters[n].open]
            candidates = [op.site for n in rest for op in found.waiters[n].operations]
            if candidates:
                yield f"  candidates: {self._locations.words(candidates)}"
            if any(found.stops[found.waiters[n].stop].others for n in rest):
                yield "  a line stands for several waits: give program counters, with what 'x/i $pc' prints"
        if found.not_replayed:
            yield f"  the phases are unknown: {found.not_replayed}"


def _executed(found: DeadlockedLaunch) -> str:
    """The execution that the positions are from."""
    on_gpu = {"": "", "unfinished": "; on the GPU, it did not end", "done": "; on the GPU, it completed"}.get(
        found.on_gpu, f"; on the GPU, it failed with {found.on_gpu}"
    )
    return f"{found.launch} deadlocks after {found.steps:,} instructions ({found.schedule}){on_gpu}"


def _where(found: Explanation) -> str:
    """Where the phases are known from."""
    return "in a replay" if found.executed is None else "in the launch"


def _received(phase: CurrentPhase) -> str:
    """What a phase has received."""
    if phase.bytes is None:
        return f"{phase.arrived} of {phase.count} threads have arrived"
    if phase.arrived < phase.count:
        return f"phase {phase.number}: {phase.arrived} of {phase.count} arrivals"
    return f"phase {phase.number}: all arrivals, and {phase.bytes} bytes are pending"


def _end(end: End, last: Waiter, again: bool) -> str:
    """How a chain ends, in words."""
    registers = last.object.kind == REGISTERS
    absent = any(share.status is CompletionStatus.ABSENT for share in last.shares)
    exited = "has exited, or is not listed" if absent else "or has exited"
    verb = "gives up" if registers else "arrives at"
    return {
        End.CYCLE: f"what {verb} {last.object.name} follows {'the first of these waits' if again else 'this wait'}",
        End.SHORT: f"{last.object.name} counts more threads than use it",
        End.NOTHING: f"no instruction {verb} {last.object.name}",
        End.GONE: f"no thread {verb} {last.object.name} any more: each one that could has done so, is past it, {exited}",
        End.UNDECIDED: f"it is unknown whether an operation on {last.object.name} still follows",
    }[end]


# ---------------------------------------------------------------- JSON


def render_json(found: Explanation) -> str:
    """The explanation as one object."""
    return to_json(_Json(found).document())


class _Json:
    def __init__(self, found: Explanation) -> None:
        self._found, self._model, self._locations = found, found.model, found.locations

    def document(self) -> dict[str, Any]:
        found, source = self._found, self._found.source
        chain = found.chain
        return {
            "schema": SCHEMA,
            "path": source.path,
            "member": source.member,
            "kernel": found.function.name,
            "line": source.position(found.function.start).line,
            "decided": found.decided,
            "positions": [self._stop(stop) for stop in found.stops],
            "waits": [self._waiter(n, waiter) for n, waiter in enumerate(found.waiters)],
            "chain": None if chain is None else {"end": chain.end.value, "waits": list(chain.waiters)},
            "causes": [
                {
                    "kind": cause.kind,
                    "message": cause.what,
                    "objects": list(cause.objects),
                    "places": self._locations.json(cause.sites),
                }
                for cause in found.causes
            ],
            "findings": [self._finding(n, finding) for n, finding in enumerate(found.findings)],
            "problems": [{"line": problem.line, "message": problem.message} for problem in found.problems],
            "not_replayed": found.not_replayed or None,
            "execution": _execution(found.executed),
        }

    def _stop(self, stop: Stop) -> dict[str, Any]:
        return {
            "given": list(stop.given),
            "kind": stop.kind,
            "instruction": self._model.name(stop.site),
            "threads": self._model.describe_threads(stop.threads),
            "expected": stop.expected,
            "ctas": sorted(stop.ctas),
            "place": self._locations.json((stop.site,))[0],
        }

    def _waiter(self, number: int, waiter: Waiter) -> dict[str, Any]:
        wait = self._found.wait(self._found.stops[waiter.stop].site)
        phases = [_phase(phase) for phase in self._found.phases.get(number, ())]
        executed = self._found.executed is not None
        return {
            "position": waiter.stop,
            "threads": self._model.describe_threads(waiter.threads),
            "kind": waiter.object.kind,
            "object": waiter.object.name if waiter.object.known else None,
            "parity": None if wait is None else wait[1].parity,
            "replayed": None if executed or not phases else phases[0],
            "executed": phases if executed else None,
            "operations": [
                {
                    "deed": operation.deed,
                    "certain": operation.certain,
                    "place": self._locations.json((operation.site,))[0],
                    "threads": [
                        {
                            "threads": self._model.describe_threads(share.threads),
                            "status": share.status.value,
                            "position": share.at if share.at >= 0 else None,
                        }
                        for share in operation.shares
                    ],
                }
                for operation in waiter.operations
            ],
            "next": list(waiter.next),
        }

    def _finding(self, number: int, finding: Finding) -> dict[str, Any]:
        return {
            "rule": finding.rule.id,
            "message": finding.message,
            "line": self._found.source.position(finding.span.start).line,
            "about": number < self._found.about,
        }


def _execution(found: DeadlockedLaunch | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "launch": found.launch,
        "schedule": found.schedule,
        "instructions": found.steps,
        "recorded_end": found.on_gpu or None,
    }


def _phase(phase: CurrentPhase) -> dict[str, Any]:
    number = phase.number if phase.bytes is not None else None
    return {"phase": number, "arrived": phase.arrived, "count": phase.count, "bytes": phase.bytes or 0}
