"""The content of the page for one kernel, as JSON data.

Instructions are given by number, in the kernel with callees inlined. Repeated values (texts, source locations, facts)
are stored once and given by number too. Operations in flight are stored where they change, so the size of the data
depends on the size of the kernel, and not on how many operations are in flight.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tclint._version import __version__
from tclint.analyses.model import KernelModel
from tclint.analyses.tensor_memory import TensorMemory
from tclint.dataflow import LimitExceeded
from tclint.driver.user_sources import source_below
from tclint.findings.finding import FileReport, Finding, SourceLocation, Step
from tclint.findings.places import displayed_name, source_location
from tclint.findings.rules import Rule, manual_reference
from tclint.findings.spans import Span
from tclint.findings.verdicts import Verdict
from tclint.inspect.barriers import region_words, sections
from tclint.inspect.in_flight import CHANNELS
from tclint.inspect.protocol import partitions, protocol
from tclint.inspect.protocol.parts import Protocol
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import Function, Module
from tclint.isa.effects import TCGEN05, TCGEN05_LD, TCGEN05_ST
from tclint.isa.target import Version
from tclint.report.formats._details import certainty, parties
from tclint.report.formats._verdicts import reason_words
from tclint.report.summary import count
from tclint.show.flight import in_flight_facts
from tclint.show.layout import HEIGHT, WIDTH, layout
from tclint.syntax.source import Source
from tclint.values import thread_masks as T
from tclint.values.nodes import Elected

__all__ = ["SCHEMA", "kernel"]

SCHEMA = 1
"""The version of the data, incremented when a key is removed or changes its meaning."""
_CONTEXT_LINES = 2
"""Lines of source text that are shown before and after the line of an instruction."""


class _Interned:
    """Distinct values in order of first occurrence."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Hashable, int] = {}

    def number(self, value: Any, key: Hashable | None = None) -> int:
        key = value if key is None else key
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]


def kernel(
    source: Source,
    module: Module,
    function: Function,
    report: FileReport,
    *,
    toolkit: Version | None = None,
    sources: Path | None = None,
) -> dict[str, Any]:
    """The content for *function*: its instructions, graph, protocol, operations in flight, and findings.

    *report* is that of the whole module, without hidden findings. Lines of CUDA or Python are read only from files
    below the folder *sources*, because untrusted PTX may name any file.
    """
    body = inline(function, inlinable(module))
    model = KernelModel(body, module, toolkit)
    try:
        return _Kernel(source, module, function, model, report, sources).data()
    finally:
        model.release()


class _Kernel:
    def __init__(
        self,
        source: Source,
        module: Module,
        function: Function,
        model: KernelModel,
        report: FileReport,
        sources: Path | None,
    ) -> None:
        self.source, self.module, self.function, self.model = source, module, function, model
        self.report, self.sources = report, sources
        self.instructions = model.function.instructions
        self.start = model.function.start
        self.words = _Interned()
        self.places = _Interned()
        self.problems = [problem.message for problem in report.problems]
        self.sites: dict[int, int] = {}
        """Offset of an instruction -> its number; the first one if it was inlined several times."""
        for i, instruction in enumerate(self.instructions):
            self.sites.setdefault(self.start + instruction.start, i)

    def data(self) -> dict[str, Any]:
        found = self._protocol()
        parts = partitions(self.model)
        who = [self._who(b, parts) for b in range(len(self.model.cfg.blocks))]
        files = self.module.files
        data: dict[str, Any] = {
            "schema": SCHEMA,
            "version": __version__,
            "name": self.function.name,
            "entry": self.function.entry,
            "input": displayed_name(self.report),
            "origin": self.report.origin,
            "line": self._line(self.start),
            "target": ", ".join(self.module.targets),
            "threads": self.function.threads,
            "most_threads": self.function.most_threads,
            "text": [self._text(i) for i in range(len(self.instructions))],
            "lines": _steps(self._line(self.start + i.start) for i in self.instructions),
            "labels": {str(i): label for i, label in self.model.function.labels.items()},
            "events": self._events(),
            "locations": list(self._locations()),
            **self._graph(who),
            "flight": self._flight(),
            "touches": self._touches(found),
            "protocol": self._tables(found),
            "roles": self._roles(who, found),
            "guards": self._guards(who, parts),
            "findings": [self._finding(f) for f in self.report.findings if self._mine(f)],
            "rules": self._rules(),
        }
        if verdicts := [v for v in self.report.verdicts if v.kernel == self.function.name]:
            data["verdicts"] = [self._verdict(verdict) for verdict in verdicts]
        return {
            **data,
            "words": self.words.values,
            "places": self.places.values,
            "sources": dict(_texts(self.places.values, self.sources)) if self.sources else {},
            "files": list(files.values()),
            "problems": self.problems,
        }

    # ------------------------------------------------------------ text

    def _line(self, offset: int) -> int:
        return self.source.position(offset).line

    def _text(self, i: int) -> str:
        """The text of an instruction, with a comment that follows it on the same line."""
        data, instruction = self.source.data, self.instructions[i]
        end = self.start + instruction.end
        stop = data.find(b"\n", end)
        rest = data[end : stop if stop >= 0 else len(data)].strip()
        text = data[self.start + instruction.start : end].decode(errors="replace")
        comment = rest.decode(errors="replace") if rest.startswith(b"//") else ""
        return " ".join(text.split()) + (f" {comment}" if comment else "")

    def _locations(self) -> Iterator[list[int]]:
        """``[first instruction, source location]`` of each run of instructions from one location; -1 if unknown."""
        last = -1
        for i in range(len(self.instructions)):
            found = source_location(self.module, self.model.function.location(i))
            number = -1 if found is None else self._place(found)
            if number != last:
                yield [i, number]
                last = number

    def _place(self, found: SourceLocation) -> int:
        calls = [[call.file, call.line, call.column] for call in found.inlined_at]
        return self.places.number([found.file, found.line, found.column, calls], found)

    # ------------------------------------------------------------ graph

    def _events(self) -> dict[str, list[str]]:
        """Kind of event -> the instructions."""
        found: dict[str, list[Any]] = {}
        for site in self.model.events:
            instruction = self.instructions[site]
            found.setdefault(f"{instruction.event} {instruction.group}".strip(), []).append(site)
        return found

    def _graph(self, who: Sequence[str]) -> dict[str, Any]:
        cfg = self.model.cfg
        edges = [edge for b in cfg.order for edge in cfg.successors[b] if edge.target in cfg.rank]
        pairs = list(dict.fromkeys((edge.source, edge.target) for edge in edges))
        conditions: dict[tuple[int, int], list[str]] = {}
        for edge in edges:
            name = self.model.function.registers[edge.predicate].name if edge.predicate >= 0 else ""
            case = [f"case {edge.case}"] if edge.case >= 0 else []
            words = ", ".join([*case, *([("" if edge.value else "!") + name] if name else [])])
            conditions.setdefault((edge.source, edge.target), []).append(words)
        laid = layout(cfg.order, pairs)
        blocks = []
        for b, block in enumerate(cfg.blocks):
            x, y = laid.boxes.get(b, (None, None))
            blocks.append(
                {
                    "start": block.start,
                    "end": block.end,
                    "who": self.words.number(who[b]),
                    "at": None if x is None or y is None else [round(x), round(y)],
                    "exits": b in cfg.exits,
                    "dispatches": b in self.model.reachability.dispatchers,
                }
            )
        return {
            "blocks": blocks,
            "edges": [
                [
                    a,
                    b,
                    int(back),
                    "; ".join(filter(None, conditions[a, b])),
                    [round(v) for p in points for v in p],
                ]
                for a, b, back, points in laid.edges
            ],
            "loops": [{"head": head, "body": sorted(body)} for head, body in sorted(cfg.loops.items())],
            "size": [round(laid.width), round(laid.height), WIDTH, HEIGHT],
        }

    # ------------------------------------------------------------ threads

    def _who(self, b: int, parts: dict[int, int]) -> str:
        """The threads that may reach a block, in words."""
        if b not in self.model.cfg.rank:
            return "unreachable"
        threads = self.model.reachability.threads_at.get(b, 0)
        block = self.model.cfg.blocks[b]
        inside = (i for i in range(block.start, block.end) if self.instructions[i].guard < 0)
        return self._threads(threads, parts.get(b), next(inside, -1))

    def _threads(self, threads: int, part: int | None, site: int) -> str:
        if not threads & self.model.cta:
            return "no thread"
        elected = site >= 0 and self._elected(site)
        if part is not None:
            lone = "a lane of " if T.at_most_one_lane(threads) else ""
            return f"{'elected lane of ' if elected else lone}partition {part}"
        if not elected:
            return self.model.describe_threads(threads)
        warps = self.model.describe_threads(T.whole(threads, 32))
        return f"elected lane of {'each warp' if warps == 'all threads' else warps}"

    def _elected(self, site: int) -> bool:
        """Whether only a lane that ``elect.sync`` elected executes an instruction (9.7.13.14)."""
        values = self.model.values
        facts = self.model.views.context_of(site).facts
        return any(held and type(values.node(p)) is Elected for p, held in facts.items())

    def _guards(self, who: Sequence[str], parts: dict[int, int]) -> dict[str, int]:
        """Guarded event -> the threads that execute it, if not all that reach its block do."""
        found = {}
        for site in self.model.events:
            if self.instructions[site].guard >= 0:
                b = self.model.cfg.block_of[site]
                words = self._threads(self.model.views.context_of(site).threads, parts.get(b), site)
                if words != who[b]:
                    found[str(site)] = self.words.number(words)
        return found

    def _roles(self, who: Sequence[str], found: Protocol | None) -> list[dict[str, Any]]:
        """The sets of threads with blocks of their own, except that of all threads."""
        cfg, roles = self.model.cfg, dict[str, list[int]]()
        for b in cfg.order:
            if who[b] != "all threads":
                roles.setdefault(who[b], []).append(b)
        return [
            {
                "who": self.words.number(words),
                "blocks": sorted(blocks),
                "instructions": sum(cfg.blocks[b].end - cfg.blocks[b].start for b in blocks),
            }
            for words, blocks in sorted(roles.items(), key=lambda item: min(item[1]))
        ]

    # ------------------------------------------------------------ states

    def _flight(self) -> dict[str, Any]:
        """The facts, and ``[instruction, added, removed]`` where they change."""
        found = in_flight_facts(self.model)
        self.problems += [
            f"operations in flight of {name} are left out: no fixpoint within the limit"
            for name in found.unsettled
        ]
        facts = _Interned()

        def numbers(some: Iterable[Any]) -> list[int]:
            return [facts.number([f.channel, f.site, self.words.number(f.words), f.ring], f) for f in some]

        changes = [[at, numbers(added), numbers(removed)] for at, added, removed in found.changes]
        return {"channels": [channel.name for channel in CHANNELS], "facts": facts.values, "changes": changes}

    def _touches(self, found: Protocol | None) -> dict[str, list[int]]:
        """Instruction -> its accesses to shared memory and Tensor Memory."""
        touches: dict[int, list[str]] = {}
        for region in found.regions if found is not None else ():
            for use in region.uses:
                for site in use.sites:
                    touches.setdefault(site, []).append(f"{use.verb}s shared memory {region_words(region)}")
        for site, words in self._tensor_memory():
            touches.setdefault(site, []).append(words)
        return {str(site): [self.words.number(w) for w in words] for site, words in sorted(touches.items())}

    def _tensor_memory(self) -> Iterator[tuple[int, str]]:
        sites = [s for g in (TCGEN05, TCGEN05_LD, TCGEN05_ST) for s in self.model.begins(g)]
        if not sites:
            return
        memory = self.model.fact(TensorMemory)
        for site in sites:
            verbs = {"d": "writes", "a": "reads", "taddr": "reads" if site in memory.loads else "writes"}
            for role, verb in verbs.items():
                covered, address = memory.range(site, role), self.model.value(site, role)
                if covered is None or address is None:
                    continue
                relative = memory.relative(address)
                column = None if relative is None else self.model.values.constant_of(relative.distance)
                where = "" if column is None else f" from column {column & 0xFFFF} of the allocation"
                many = "1 column" if covered.columns == 1 else f"{covered.columns} columns"
                yield site, f"{verb} at least {many} of tensor memory{where}"

    # ------------------------------------------------------------ protocol

    def _protocol(self) -> Protocol | None:
        try:
            return protocol(self.model)
        except LimitExceeded as error:
            self.problems.append(f"the protocol is left out: {error}")
            return None

    def _tables(self, found: Protocol | None) -> dict[str, Any]:
        """The tables of ``tclint barriers``, with the instructions of each row."""
        if found is None:
            return {"rings": [], "sections": [], "names": [], "unresolved": []}
        return {
            "rings": [ring.name for ring in found.mbarriers],
            "sections": [
                {
                    "title": section.title,
                    "place": section.place,
                    "note": section.note,
                    "rows": [[list(row.cells), list(row.sites)] for row in section.rows],
                }
                for section in sections(found)
                if section.rows
            ],
            "names": [[n.name, n.meaning, n.site] for n in found.names],
            "unresolved": [[u.why, list(u.sites)] for u in found.unresolved],
        }

    # ------------------------------------------------------------ findings

    def _mine(self, finding: Finding) -> bool:
        return finding.entry in (None, self.function.name)

    def _finding(self, finding: Finding) -> dict[str, Any]:
        confirmation = finding.confirmation
        # The steps of a confirmed finding include those of the confirmation.
        seen = confirmation.steps if confirmation is not None else ()
        return {
            "rule": finding.rule.id,
            "severity": finding.severity.label,
            "certainty": certainty(finding),
            "message": finding.message,
            "help": finding.help,
            "count": finding.count,
            "suppressed": finding.suppressed,
            "fingerprint": finding.fingerprint,
            **self._where(finding.span, finding.source_location),
            "steps": [self._step(step) for step in finding.steps if step not in seen],
            "deadlock": [{**self._step(step), "indented": inner} for inner, step in parties(finding)],
            "variants": [
                v.line for v in finding.variants if (v.path, v.entry) == (self.report.path, finding.entry)
            ],
            "elsewhere": sum(
                (v.path, v.entry) != (self.report.path, finding.entry) for v in finding.variants
            ),
            "fixes": [{"message": fix.message, "safe": fix.safe} for fix in finding.fixes],
            "confirmation": None
            if confirmation is None
            else {"words": str(confirmation), "steps": [self._step(step) for step in seen]},
        }

    def _verdict(self, verdict: Verdict) -> dict[str, Any]:
        """The class, its status, and what supports it in words, one line each."""
        why = [reason_words(self.report, reason) for reason in verdict.reasons] + [
            *verdict.launches,
            *verdict.rules,
        ]
        if verdict.obligations:
            done = sum(one.discharge is not None for one in verdict.obligations)
            why.append(f"{done} of {count(len(verdict.obligations), 'obligation')} discharged")
        why += [f"assuming {assumption.value}" for assumption in verdict.assumptions]
        return {"class": verdict.hazard.value, "status": verdict.status.value, "why": why}

    def _step(self, step: Step) -> dict[str, Any]:
        where = self._where(step.span, step.source_location)
        return {**where, "message": step.message, "role": step.role, "object": step.object}

    def _where(self, span: Span, location: SourceLocation | None) -> dict[str, Any]:
        """The instruction (-1 if it is not in this kernel), the line, and the source location (-1 if unknown)."""
        return {
            "site": self.sites.get(span.start, -1),
            "line": self._line(span.start),
            "place": -1 if location is None else self._place(location),
        }

    def _rules(self) -> dict[str, Any]:
        rules = {f.rule.id: f.rule for f in self.report.findings if self._mine(f)}
        return {
            id: {
                "name": rule.name,
                "manual": manual_reference(rule.manual),
                "summary": rule.summary,
                "why": _why(rule),
            }
            for id, rule in sorted(rules.items())
        }


def _why(rule: Rule) -> str:
    """The section "Why it is wrong" of the rule's page, one line per paragraph."""
    text = rule.body.partition("## Why it is wrong")[2].partition("\n## ")[0]
    return "\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def _steps(numbers: Iterable[int]) -> list[int]:
    """The differences of consecutive numbers, which are shorter to write."""
    found, last = [], 0
    for number in numbers:
        found.append(number - last)
        last = number
    return found


# ---------------------------------------------------------------- source text


def _texts(locations: Iterable[Any], folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """``(name, {line number: text})`` for each readable file: the lines in *locations* and their context."""
    wanted: dict[str, set[int]] = {}
    for file, line, _, calls in locations:
        for name, number in [(file, line), *((call[0], call[1]) for call in calls)]:
            context = range(number - _CONTEXT_LINES, number + _CONTEXT_LINES + 1)
            wanted.setdefault(name, set()).update(context)
    for name, numbers in wanted.items():
        path = source_file(name, folder)
        if path is None:
            continue
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        yield name, {str(n): lines[n - 1] for n in sorted(numbers) if 0 < n <= len(lines)}


def source_file(name: str, folder: Path) -> Path | None:
    """The source file *name* below *folder*; None if there is none.

    Also tries trailing parts of *name*, since the build may have been in another folder.
    """
    root = folder.resolve()
    parts = Path(name).parts
    candidates = [Path(name) if os.path.isabs(name) else root / name]
    candidates += [root.joinpath(*parts[k:]) for k in range(1, len(parts))]
    return next(filter(None, (source_below(candidate, root) for candidate in candidates)), None)
