"""What there is to show of one kernel, as data that JSON can hold.

Instructions are named by number, as the kernel has them with its callees inside. What repeats (texts, places, facts) is
held once and named by number too, and what is in flight is told where it changes, so the data grow with the kernel and
not with what is in flight in it.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tclint._version import __version__
from tclint.analyses.model import KernelModel
from tclint.analyses.tcgen05 import Outstanding
from tclint.config.config import Config
from tclint.dataflow import LimitExceeded
from tclint.findings.finding import FileReport, Finding, SourceLocation, Span, Step
from tclint.findings.places import place, source_location
from tclint.findings.rules import Rule
from tclint.inspect.barriers import region_words, sections
from tclint.inspect.in_flight import CHANNELS
from tclint.inspect.protocol import Protocol, partitions, protocol
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import Function, Module
from tclint.show.flight import flight
from tclint.show.layout import HEIGHT, WIDTH, layout
from tclint.syntax.source import Source
from tclint.values import thread_masks as T

__all__ = ["SCHEMA", "kernel"]

SCHEMA = 1
"""Of the data: grows when a key changes its meaning or goes."""
_SOURCES = frozenset(".c .cc .cpp .cu .cuh .cxx .h .hpp .inl .py".split())
"""How files of source text end; no other file that PTX names is opened."""
_AROUND = 2
"""Lines of source text that are shown before and after one that an instruction comes from."""
_LARGEST = 8_000_000
"""Bytes of a source file that is read."""


class _Interned:
    """Values in order of first occurrence, each once."""

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
    config: Config | None = None,
    sources: Path | None = None,
) -> dict[str, Any]:
    """What there is to show of *function*: its instructions, graph, protocol, what is in flight, and its findings.

    *report* is that of the whole module, as it is to be shown. Lines of CUDA or Python come from files below the
    folder *sources*, and from nowhere else: PTX that nobody trusts names any file it likes.
    """
    body = inline(function, inlinable(module))
    model = KernelModel(body, module, config)
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
        """The first byte of an instruction -> its number; of those that were inlined several times the first."""
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
            "input": place(self.report),
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
        """An instruction as it is written, and a comment behind it."""
        data, instruction = self.source.data, self.instructions[i]
        end = self.start + instruction.end
        stop = data.find(b"\n", end)
        rest = data[end : stop if stop >= 0 else len(data)].strip()
        text = data[self.start + instruction.start : end].decode(errors="replace")
        comment = rest.decode(errors="replace") if rest.startswith(b"//") else ""
        return " ".join(text.split()) + (f" {comment}" if comment else "")

    def _locations(self) -> Iterator[list[int]]:
        """``[first instruction, place]``, from which on instructions come from that place; -1: it is not known."""
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
        for event in self.model.events:
            found.setdefault(f"{event.kind} {event.group}".strip(), []).append(event.site)
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

    # ------------------------------------------------------------ who

    def _who(self, b: int, parts: dict[int, int]) -> str:
        """The threads that may reach a block, in words."""
        if b not in self.model.cfg.rank:
            return "never reached"
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
        """Whether a lane that ``elect.sync`` chose executes an instruction (9.7.13.14)."""
        values = self.model.values
        facts = self.model.views.context_of(site).facts
        return any(held and values.node(p)[0] == "elect" for p, held in facts.items())

    def _guards(self, who: Sequence[str], parts: dict[int, int]) -> dict[str, int]:
        """The guarded events that fewer threads execute than reach their block."""
        found = {}
        for event in self.model.events:
            if self.instructions[event.site].guard >= 0:
                b = self.model.cfg.block_of[event.site]
                words = self._threads(
                    self.model.views.context_of(event.site).threads, parts.get(b), event.site
                )
                if words != who[b]:
                    found[str(event.site)] = self.words.number(words)
        return found

    def _roles(self, who: Sequence[str], found: Protocol | None) -> list[dict[str, Any]]:
        """The sets of threads that have blocks of their own, those of all threads not among them."""
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
        """The facts, and ``[instruction, come, gone]`` where they change."""
        found = flight(self.model)
        self.problems += [
            f"what is in flight of {name} did not settle and is left out" for name in found.unsettled
        ]
        facts = _Interned()

        def numbers(some: Iterable[Any]) -> list[int]:
            return [facts.number([f.channel, f.site, self.words.number(f.words), f.ring], f) for f in some]

        changes = [[at, numbers(come), numbers(gone)] for at, come, gone in found.changes]
        return {"channels": [channel.name for channel in CHANNELS], "facts": facts.values, "changes": changes}

    def _touches(self, found: Protocol | None) -> dict[str, list[int]]:
        """What instructions read and write in shared and in tensor memory."""
        touches: dict[int, list[str]] = {}
        for region in found.regions if found is not None else ():
            for use in region.uses:
                for site in use.sites:
                    touches.setdefault(site, []).append(f"{use.verb}s shared memory {region_words(region)}")
        for site, words in self._tensor_memory():
            touches.setdefault(site, []).append(words)
        return {str(site): [self.words.number(w) for w in words] for site, words in sorted(touches.items())}

    def _tensor_memory(self) -> Iterator[tuple[int, str]]:
        sites = [s for g in ("tcgen05", "tcgen05.ld", "tcgen05.st") for s in self.model.sites("issue", g)]
        if not sites:
            return
        try:
            memory, _ = self.model.solution(Outstanding)
        except LimitExceeded:
            return
        for site in sites:
            verbs = {"d": "writes", "a": "reads", "taddr": "reads" if site in memory.loads else "writes"}
            if self.instructions[site].group == "tcgen05.ld":
                verbs["taddr"] = "reads"
            for role, verb in verbs.items():
                covered, address = memory.range(site, role), self.model.value(site, role)
                if covered is None or address is None:
                    continue
                place = memory.relative(address)
                column = None if place is None else self.model.values.constant_of(place.distance)
                where = "" if column is None else f" from column {column & 0xFFFF} of the allocation"
                many = "a column" if covered.columns == 1 else f"{covered.columns} columns"
                yield site, f"{verb} {many} or more of tensor memory{where}"

    # ------------------------------------------------------------ protocol

    def _protocol(self) -> Protocol | None:
        try:
            return protocol(self.model)
        except LimitExceeded as error:
            self.problems.append(f"the protocol is left out: {error}")
            return None

    def _tables(self, found: Protocol | None) -> dict[str, Any]:
        """The tables of ``tclint barriers``, whose rows name instructions."""
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
        seen = (
            confirmation.steps if confirmation is not None else ()
        )  # a finding that is confirmed has them too
        return {
            "rule": finding.rule.id,
            "severity": finding.severity.label,
            "confidence": finding.confidence.label,
            "message": finding.message,
            "help": finding.help,
            "count": finding.count,
            "suppressed": finding.suppressed,
            "fingerprint": finding.fingerprint,
            **self._where(finding.span, finding.source_location),
            "steps": [self._step(step) for step in finding.steps if step not in seen],
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

    def _step(self, step: Step) -> dict[str, Any]:
        where = self._where(step.span, step.source_location)
        return {**where, "message": step.message, "role": step.role}

    def _where(self, span: Span, location: SourceLocation | None) -> dict[str, Any]:
        """An instruction, -1 when it is none of this kernel, the line, and the place in the source."""
        return {
            "site": self.sites.get(span.start, -1),
            "line": self._line(span.start),
            "place": -1 if location is None else self._place(location),
        }

    def _rules(self) -> dict[str, Any]:
        rules = {f.rule.id: f.rule for f in self.report.findings if self._mine(f)}
        return {
            id: {"name": rule.name, "manual": list(rule.manual), "summary": rule.summary, "why": _why(rule)}
            for id, rule in sorted(rules.items())
        }


def _why(rule: Rule) -> str:
    """The section of the page that says why it is wrong, its paragraphs in one line each."""
    text = rule.body.partition("## Why it is wrong")[2].partition("\n## ")[0]
    return "\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def _steps(numbers: Iterable[int]) -> list[int]:
    """Each number less the one before it: small numbers are short."""
    found, last = [], 0
    for number in numbers:
        found.append(number - last)
        last = number
    return found


# ---------------------------------------------------------------- source text


def _texts(places: Iterable[Any], folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """For each file that can be read the lines that are named, and some around each: ``(name, {number: text})``."""
    wanted: dict[str, set[int]] = {}
    for file, line, _, calls in places:
        for name, number in [(file, line), *((call[0], call[1]) for call in calls)]:
            wanted.setdefault(name, set()).update(range(number - _AROUND, number + _AROUND + 1))
    for name, numbers in wanted.items():
        path = _found(name, folder)
        if path is None:
            continue
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        yield name, {str(n): lines[n - 1] for n in sorted(numbers) if 0 < n <= len(lines)}


def _found(name: str, folder: Path) -> Path | None:
    """The file called *name* below *folder*: as it stands, or by the last parts of its name; a build may be elsewhere."""
    root = folder.resolve()
    parts = Path(name).parts
    candidates = [Path(name) if os.path.isabs(name) else root / name]
    candidates += [root.joinpath(*parts[k:]) for k in range(1, len(parts))]
    for candidate in candidates:
        try:
            real = candidate.resolve()
            if (
                real.is_relative_to(root)
                and real.suffix.lower() in _SOURCES
                and real.is_file()
                and real.stat().st_size <= _LARGEST
            ):
                return real
        except (OSError, ValueError, RuntimeError):  # too long a name, a NUL in it, a loop of links
            continue
    return None
