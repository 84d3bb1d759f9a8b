"""Does tclint agree with NVIDIA's ptxas on what is PTX, and on what happens to the registers of wgmma?

    python -m benchmarks.agreement [FOLDER] [--ptxas PROGRAM]... [--limit N] [--each N] [--record]

FOLDER has a subfolder of ``.ptx`` files for each producer; without it, the corpus. Two releases of ptxas are installed
from PyPI into the cache where none is named. What they said is kept there too, so that a second run asks about new
files alone.

*Accepted or refused*: every file is compiled for its own target, and again with a lower ``.version`` where that is all
that was wrong. tclint refuses a file that it cannot analyse, or that has an error of a rule about what ptxas refuses.

*Registers*: ptxas says what it had to do to wgmma (C7509 to C7520). For each function and each of these advisories: is
there one, and is there a finding of the rules that predict it? Real kernels have few, so the same is asked about faults
planted in them, in functions of which ptxas had nothing to say before.

Every difference gets a cause, computed from what ptxas says and from the instructions around the place; what has none
is listed as unexplained.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.corpus.builder import Skipped, default_cache, environment
from benchmarks.faults import OPERATORS, Kernel, apply
from benchmarks.mutation import choose
from benchmarks.ptxas import Archive, Compilation, Message, Ptxas, PtxasMissing
from tclint.analyses.groups import Groups, is_move
from tclint.analyses.model import KernelModel
from tclint.analyses.wgmma_accumulators import ignores_accumulator
from tclint.checks import Hit, module_checks
from tclint.findings.finding import Edit, FileReport, Finding
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected
from tclint.findings.spans import Span
from tclint.ir.frontend import analyse
from tclint.ir.nodes import Instruction, Module, Vector, registers
from tclint.isa.target import TOOLKITS, Version
from tclint.linting.check import check_source
from tclint.syntax.source import Problem, Source, SourceError

__all__ = ["ABOUT", "ADVISORIES", "COMMAND", "TITLE", "Advisory", "figure", "main", "measure", "tables"]

TITLE = "Agreement with ptxas"
COMMAND = "python -m benchmarks.agreement --record"
SLICE = "python -m benchmarks.agreement fixtures --each 1"
ABOUT = """\
Two releases of ptxas compiled every file of the corpus, and kernels with one wgmma fault planted in each. Does tclint
refuse what ptxas refuses, and do its rules predict what ptxas says it had to do to the registers of wgmma?"""

PACKAGES = {"13.5.37": "nvidia-cuda-nvcc==13.5.37", "12.9.86": "nvidia-cuda-nvcc-cu12==12.9.86"}
"""The releases that are compared, and the packages that have them."""
SEED = 7

REFUSALS = frozenset(["TL001", *(id for id, rule in all_rules().items() if not rule.assembles)])
"""Rules about code that ptxas rejects; TL001 is about the ptxas of an older toolkit."""


@dataclass(frozen=True, slots=True)
class Advisory:
    """Something that ptxas may report about the wgmma of a function, recognised by its words: the codes change between releases."""

    name: str
    words: str
    rules: frozenset[str]
    """A finding of one of these predicts it. Empty: it is about nothing in the PTX, or is not a fault."""
    about: str = ""
    """What the finding must speak of, where its rule has more than one subject."""

    def predicted(self, found: Iterable[Finding]) -> bool:
        """Whether one of the findings in a function predicts it."""
        return any(f.rule.id in self.rules and self.about in f.message for f in found)


ADVISORIES = tuple(
    Advisory(name, words, frozenset(rules.split()), *about)
    for name, words, rules, *about in (
        (
            "accumulator used too early: one of the next two",
            "reading accumulator registers|(?:warpgroup.wait|wait_group) is injected",
            "WG001 WG007",
        ),
        ("serialised: accumulator read", "reading accumulator registers", "WG001"),
        ("wait injected", "(?:warpgroup.wait|wait_group) is injected", "WG001 WG007"),
        ("serialised: accumulator written", "defining accumulator registers", "WG004", "accumulator"),
        ("fence injected", "warpgroup.arrive is injected", "WG002"),
        ("serialised: divergent path", "in divergent path", "CV001 CV002 CV004"),
        ("serialised: fragment of A written", "defining input registers", "WG004", "A fragment"),
        ("serialised: registers run out", "insufficient register resources", "WG006"),
        ("serialised: call", "Extern calls|function boundary", ""),
        ("serialised: ill-formed stage", "ill formed pipeline stage", ""),
    )
)
EARLY, READ, WAIT, WRITTEN, FENCE, DIVERGENT, INPUT, REGISTERS, CALL, _ = (a.name for a in ADVISORIES)
WATCHED = frozenset(id for id in all_rules() if id.startswith("WG")).union(*(a.rules for a in ADVISORIES))
"""The rules whose findings are held against the advisories."""

NOTHING = "nothing"
AS_IS, LOWERED = "as it is", "with a lower .version"
UNEXPLAINED = "unexplained"
_MOVED = "only `mov` touches the registers: renaming to tclint, which ptxas could not make it"

_REFUSED = (
    (r"Unsupported \.version", "the .version is newer than this ptxas"),
    (
        r"not defined for option 'gpu-name'|SM version specified by \.target",
        "this ptxas does not know the target",
    ),
    (r"Unresolved extern|undefined reference", "it needs another module: this is not a link step"),
    (r"uses too much", "it uses more memory than this ptxas gives a function"),
)
"""What ptxas says in refusing, and what that is a sign of."""


# ------------------------------------------------------------ what both say


@dataclass
class Text:
    """One module, as it is or with a fault in it."""

    path: Path
    data: bytes

    @cached_property
    def source(self) -> Source:
        return Source(self.data, str(self.path))

    @cached_property
    def analysed(self) -> tuple[Module, list[Problem]]:
        return analyse(self.source)

    @property
    def module(self) -> Module:
        return self.analysed[0]

    @cached_property
    def report(self) -> FileReport:
        return check_source(self.source, Selected(rules=REFUSALS | WATCHED))

    @cached_property
    def kernels(self) -> dict[str, Kernel]:
        """The functions that have wgmma."""
        if b"wgmma.mma_async" not in self.data:
            return {}
        bodies = [f for f in self.module.functions if f.instructions and not f.declared_only]
        found = (Kernel(self.data, self.module, function) for function in bodies)
        return {kernel.function.name: kernel for kernel in found if kernel.sites("issue", "wgmma")}

    def lowered(self, version: Version) -> Text:
        """The same with another ``.version``; the file's lines stay."""
        start, end = self.module.version_span
        spelled = b"%d.%d" % version
        directive = re.sub(rb"\d+\.\d+", spelled, self.data[start:end], count=1)
        text = Text(self.path, self.data[:start] + directive + self.data[end:])
        text.analysed = replace(self.module, version=version), self.analysed[1]
        return text

    def refusals(self, release: Version) -> list[str]:
        """The rules by which tclint says that the ptxas of a toolkit refuses the file; ``exit 2`` if it cannot read it."""
        found = {"exit 2"} if self.analysed[1] else set()
        for check in module_checks():
            if not REFUSALS.isdisjoint(check.rules):
                found |= {
                    hit.rule
                    for hit in check.run(self.module, release)
                    if hit.rule in REFUSALS and _error(hit)
                }
        if any(use.opcode.startswith("tcgen05.ld") for f in self.module.functions for use in f.uses):
            found |= {f.rule.id for f in self.report.findings if f.rule.id == "TC018"}
        return sorted(found)

    def findings(self, entry: str) -> list[Finding]:
        """The findings in that function that are shown, or would be in a build that is not for debugging."""
        debug = self.module.debug
        return [
            f for f in self.report.findings if f.entry == entry and (debug or f.confidence > Confidence.LOW)
        ]


def _error(hit: Hit) -> bool:
    rule = all_rules()[hit.rule]
    severity, confidence = hit.severity or rule.severity, hit.confidence or rule.confidence
    return severity == Severity.ERROR and confidence > Confidence.LOW


def named(message: Message) -> list[str]:
    """The names of the advisories that a message is; its code where nothing is known about it."""
    return [a.name for a in ADVISORIES if re.search(a.words, message.text)] or [message.code]


def advised(done: Compilation) -> dict[str, dict[str, list[Message]]]:
    """Function -> advisory -> the messages."""
    found: dict[str, dict[str, list[Message]]] = defaultdict(lambda: defaultdict(list))
    for message in done.advisories:
        for name in named(message):
            found[message.function][name].append(message)
    return found


def release_of(ptxas: Ptxas) -> Version:
    major, minor = ptxas.release.split(".")
    return int(major), int(minor)


# ------------------------------------------------------------ causes


def refused_because(done: Compilation) -> str:
    """What the messages of a ptxas that refuses a file are a sign of."""
    for message in done.errors:
        for words, cause in _REFUSED:
            if re.search(words, message.text):
                return cause
    return UNEXPLAINED


@dataclass
class Case:
    """One function under one ptxas: what that says, and what tclint finds."""

    kernel: Kernel
    said: Mapping[str, Sequence[Message]]
    found: Sequence[Finding]
    speaks: frozenset[str]
    """The advisories that this ptxas has words for."""

    def not_predicted(self, advisory: Advisory) -> str:
        """Why ptxas says it and no rule does."""
        if advisory.name == REGISTERS:
            return "registers run out in its own allocation: nothing in the PTX"
        if advisory.name == CALL or (advisory.name in (DIVERGENT, FENCE) and self._calls):
            return "a call while a wgmma is in flight: legal, only slow"
        if advisory.name == FENCE:
            return self._no_fence(advisory)
        if advisory.name == DIVERGENT:
            for word, what, rules in (("WG.AR", "fence", {"WG002"}), ("WG.DP", "wait", {"WG001", "WG007"})):
                said = any(word in message.text for message in self.said[DIVERGENT])
                if said and any(f.rule.id in rules for f in self.found):
                    return f"ptxas puts in the {what} that tclint misses too, on a path that it takes for divergent"
        if advisory.name in (EARLY, READ, WRITTEN, WAIT):
            if self._moved_in_flight():
                return _MOVED
            if self._read_after_partial_wait():
                return "read after a wait_group N that completes it, while others are in flight: ptxas treats all as one"
            for rule, words in (
                ("WG005", "names the wait that is too shallow"),
                ("WG002", "asks for a fence there"),
            ):
                if any(f.rule.id == rule for f in self.found):
                    return f"tclint {words} ({rule})"
        return UNEXPLAINED

    def not_said(self, advisory: Advisory) -> str:
        """Why a rule finds something and ptxas does not say it."""
        mine = [f for f in self.found if advisory.predicted((f,))]
        if advisory.name in (READ, WAIT) and EARLY in self.said:
            return "the same fault: ptxas reports it as the other one of C7514 and C7517"
        if others := {
            m.code for name, said in self.said.items() for m in said if name.startswith("serialised")
        }:
            return f"still serialised, for another reason ({', '.join(sorted(others))})"
        if advisory.name not in self.speaks:
            return "this ptxas fixes it and has no message for it"
        if advisory.name in (WRITTEN, INPUT):
            if advisory.name == WRITTEN and (
                FENCE in self.said or any(f.rule.id == "WG002" for f in self.found)
            ):
                return "ptxas inserts a fence after the write and no wait before it: in samples, its machine code has the fault"
            return "silent: in samples of the machine code the new value has a register of its own"
        if advisory.name == REGISTERS and all(self._only_written(finding) for finding in mine):
            return "the accumulator that is named twice is only written there (scale-d is 0)"
        if all(f.severity == Severity.INFO for f in mine):
            return "a note of tclint: the accumulator is not read (scale-d is 0)"
        if advisory.name in (EARLY, READ, WAIT) and all(
            self._wait_before_commit(finding) for finding in mine
        ):
            return "a wait intervenes, and the commit follows it: ptxas waits for uncommitted operations too"
        if advisory.name == FENCE and WAIT in self.said:
            return "ptxas puts a wait there, and no fence (C7517)"
        if advisory.name == FENCE and all(self._fence_in_front(finding) for finding in mine):
            return "a fence immediately precedes the access: in a sample, ptxas moves the access before it"
        return UNEXPLAINED

    def _fence_in_front(self, finding: Finding) -> bool:
        """Whether a fence precedes what a finding is about, with no branch and no wgmma in between."""
        kernel = self.kernel
        sites = {kernel.span(i).start: i for i in range(len(kernel.instructions))}
        first = sites.get(finding.steps[0].span.start if finding.steps else -1, 0)
        for instruction in reversed(kernel.instructions[:first]):
            if instruction.flow or instruction.group == "wgmma":
                return instruction.event == "register-fence"
        return False

    def _only_written(self, finding: Finding) -> bool:
        """Whether the wgmma that a finding is about does not read its accumulator."""
        kernel = self.kernel
        model = KernelModel(kernel.function, kernel.module)
        spans = {kernel.span(site).start: site for site in kernel.sites("issue", "wgmma")}
        site = spans.get(finding.span.start)
        return site is not None and ignores_accumulator(model, site)

    def _wait_before_commit(self, finding: Finding) -> bool:
        """Whether, in the order of the text, a wait and no commit intervenes between a wgmma and its use too early."""
        kernel = self.kernel
        issue = finding.steps[0].span.start if finding.steps else finding.span.start
        between = (
            i.event
            for site, i in enumerate(kernel.instructions)
            if i.group == "wgmma" and issue < kernel.span(site).start < finding.span.start
        )
        return next((event for event in between if event in ("wait", "commit")), "") == "wait"

    @cached_property
    def _calls(self) -> bool:
        """Whether something is called between a wgmma and the next wait, in the order of the text."""
        return any(i.flow == "call" for i in self._in_flight())

    def _in_flight(self) -> Iterator[Instruction]:
        flying = False
        for instruction in self.kernel.instructions:
            if instruction.group == "wgmma" and instruction.event in ("issue", "wait"):
                flying = instruction.event == "issue"
            elif flying:
                yield instruction

    def _moved_in_flight(self) -> bool:
        accumulators = {
            r for i in self.kernel.sites("issue", "wgmma") for r in self.kernel.instructions[i].writes
        }
        return any(
            is_move(i) and not accumulators.isdisjoint((*i.reads, *i.writes)) for i in self._in_flight()
        )

    def _read_after_partial_wait(self) -> bool:
        """Whether an accumulator is read after a wait that leaves groups in flight, in the order of the text."""
        accumulators = {
            r for i in self.kernel.sites("issue", "wgmma") for r in self.kernel.instructions[i].writes
        }
        partial = False
        for instruction in self.kernel.instructions:
            if instruction.group == "wgmma" and instruction.event == "wait":
                partial = Groups.depth(instruction) > 0
            elif partial and instruction.group != "wgmma" and not accumulators.isdisjoint(instruction.reads):
                return True
        return False

    def _no_fence(self, advisory: Advisory) -> str:
        if DIVERGENT in self.said:
            return "follows from the divergent path"
        causes = {self._after_the_fence(message.line) for message in self.said[advisory.name]}
        return UNEXPLAINED if UNEXPLAINED in causes else min(causes)

    def _after_the_fence(self, line: int) -> str:
        """What touches the registers of the wgmma at a line since the fence before it, in the order of the text."""
        kernel = self.kernel
        lines = {
            site: kernel.data.count(b"\n", 0, kernel.span(site).start) + 1
            for site in kernel.sites("issue", "wgmma")
        }
        site = min(lines, key=lambda site: abs(lines[site] - line))
        fragment = kernel.instructions[site].role("a")
        wanted = {
            *kernel.instructions[site].writes,
            *(registers(fragment) if isinstance(fragment, Vector) else ()),
        }
        moved = False
        for instruction in reversed(kernel.instructions[:site]):
            if instruction.event == "register-fence":
                break
            if instruction.group != "wgmma" and not wanted.isdisjoint(
                (*instruction.reads, *instruction.writes)
            ):
                if not instruction.opcode.startswith("mov."):
                    return UNEXPLAINED
                moved = True
        if moved:
            return _MOVED
        return (
            "only wgmma accesses the registers after the fence: the manual requires no other one (9.7.15.7.1)"
        )


# ------------------------------------------------------------ the measurement


@dataclass
class Tally:
    """Counts of agreements, and every difference with its cause."""

    both: Counter[str] = field(default_factory=Counter)
    neither: Counter[str] = field(default_factory=Counter)
    codes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    differences: list[dict[str, Any]] = field(default_factory=list)

    def differ(self, what: str, who: str, cause: str, **where: Any) -> None:
        self.differences.append({"what": what, "only": who, "cause": cause, **where})

    def data(self) -> dict[str, Any]:
        return {
            "both": dict(self.both),
            "neither": dict(self.neither),
            "codes": {name: sorted(codes) for name, codes in self.codes.items()},
            "differences": self.differences,
        }


class Measurement:
    """What some ptxas programs and tclint say of the same texts."""

    def __init__(self, folder: Path, programs: Sequence[Ptxas], archive: Archive) -> None:
        self.folder = folder
        self.programs = programs
        self.archive = archive
        self.files = 0
        self.left_out: Counter[str] = Counter()
        self.operators: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        """Operator -> ``tclint`` or the build of a ptxas -> the rules or codes, and how many faults got each."""
        self.silent: dict[str, Counter[str]] = {p.build: Counter() for p in programs}
        self.accepted = {p.build: {AS_IS: Tally(), LOWERED: Tally()} for p in programs}
        self.registers = {p.build: {"kernels": Tally(), "planted": Tally()} for p in programs}
        self._speaks = {p.build: _vocabulary(p) for p in programs}

    def readable(self, ptxas: Ptxas, text: Text) -> Text:
        """The text itself, or with the newest ``.version`` that this ptxas knows."""
        newest = TOOLKITS.get(release_of(ptxas), max(TOOLKITS.values()))
        version = text.module.version
        return text.lowered(newest) if version is not None and version > newest else text

    def compile(self, ptxas: Ptxas, text: Text) -> Compilation:
        """What ptxas says of a text, whose ``.version`` is lowered where it is too new."""
        return self.archive.compile(ptxas, self.readable(ptxas, text).data)

    def file(self, path: Path) -> None:
        """Compare what is said of a file, and of the functions in it that have wgmma."""
        name = str(path.relative_to(self.folder))
        try:
            text = Text(path, Source.read(path).data)
        except SourceError as error:
            self.left_out[f"{name}: {error}"] += 1
            return
        self.files += 1
        for ptxas in self.programs:
            try:
                self._accepted(ptxas, AS_IS, text, self.archive.compile(ptxas, text.data), name)
                lower = self.readable(ptxas, text)
                done = self.archive.compile(ptxas, lower.data)
            except ValueError as error:
                self.left_out[f"{name}: {error}"] += 1
                continue
            if lower is not text:
                self._accepted(ptxas, LOWERED, lower, done, name)
            if done.accepted:
                for entry in text.kernels:
                    self._registers(ptxas, "kernels", text, done, entry, file=name)

    def _accepted(self, ptxas: Ptxas, manner: str, text: Text, done: Compilation, name: str) -> None:
        tally = self.accepted[ptxas.build][manner]
        refusals = text.refusals(release_of(ptxas))
        if done.accepted != bool(refusals):
            (tally.neither if done.accepted else tally.both)["refused"] += 1
        elif done.accepted:
            tally.differ("refused", "tclint", UNEXPLAINED, file=name, said=refusals)
        else:
            said = [f"line {m.line}: {m.text}" if m.line else m.text for m in done.errors[:2]] or [
                *done.said[:2]
            ]
            tally.differ("refused", "ptxas", refused_because(done), file=name, said=said)

    def planted(self, each: int) -> None:
        """Compare what is said of kernels with one fault."""
        family = [name for name, operator in OPERATORS.items() if operator.family == "wgmma"]
        wanted = re.compile("|".join(f"^{re.escape(name)}$" for name in family))
        chosen = choose(self.folder, wanted, each, SEED, re.compile(rb"wgmma\.mma_async"))
        for number, (path, records) in enumerate(sorted(chosen.items())):
            _progress(f"planted faults, file {number + 1} of {len(chosen)}: {path.name}")
            original = Text(path, path.read_bytes())
            for record in records:
                self._planted(original, record)

    def _planted(self, original: Text, record: Mapping[str, Any]) -> None:
        edits = tuple(Edit(Span(start, end), text) for start, end, text in record["edits"])
        text = Text(original.path, apply(original.data, edits))
        entry = record["entry"]
        answers = self.operators[record["operator"]]
        answers["tclint"].update({f.rule.id for f in text.findings(entry)} or {NOTHING})
        answers["planted"]["faults"] += 1
        for ptxas in self.programs:
            before = self.compile(ptxas, original)
            if not before.accepted or entry in advised(before):
                self.left_out["ptxas had something to say before the fault was planted"] += 1
                continue
            done = self.compile(ptxas, text)
            if not done.accepted:
                self.left_out[f"ptxas refuses the fault: {record['operator']}"] += 1
            elif entry not in text.kernels:
                self.left_out["the last wgmma of the function was the fault"] += 1
            else:
                where = {key: record[key] for key in ("operator", "file", "line")}
                codes = {m.code for said in advised(done).get(entry, {}).values() for m in said}
                answers[ptxas.build].update(codes or {NOTHING})
                self._registers(ptxas, "planted", text, done, entry, **where)

    def _registers(
        self, ptxas: Ptxas, part: str, text: Text, done: Compilation, entry: str, **where: Any
    ) -> None:
        tally = self.registers[ptxas.build][part]
        said = advised(done).get(entry, {})
        case = Case(text.kernels[entry], said, text.findings(entry), self._speaks[ptxas.build])
        tally.both["functions"] += 1
        for advisory in ADVISORIES:
            predicted = advisory.predicted(case.found)
            tally.codes[advisory.name].update(m.code for m in said.get(advisory.name, ()))
            if predicted == (advisory.name in said):
                (tally.both if predicted else tally.neither)[advisory.name] += 1
                continue
            cause = case.not_said(advisory) if predicted else case.not_predicted(advisory)
            tally.differ(
                advisory.name,
                "tclint" if predicted else "ptxas",
                cause,
                entry=entry[:80],
                said=sorted({m.code for some in said.values() for m in some}),
                found=sorted({f.rule.id for f in case.found}),
                **where,
            )
        for name in said.keys() - {a.name for a in ADVISORIES}:
            tally.differ(name, "ptxas", UNEXPLAINED, entry=entry[:80], **where)
        if not said:
            self.silent[ptxas.build].update({f.rule.id for f in case.found if f.rule.id.startswith("WG")})

    def data(self) -> dict[str, Any]:
        """What was measured, for the record."""
        return {
            "files": self.files,
            "left_out": dict(self.left_out),
            "operators": {
                name: {who: dict(counts.most_common()) for who, counts in answers.items()}
                for name, answers in sorted(self.operators.items())
            },
            "silent": {build: dict(sorted(rules.items())) for build, rules in self.silent.items()},
            "accepted": {b: {m: t.data() for m, t in by.items()} for b, by in self.accepted.items()},
            "registers": {b: {p: t.data() for p, t in by.items()} for b, by in self.registers.items()},
        }


def _vocabulary(ptxas: Ptxas) -> frozenset[str]:
    """The advisories whose words appear in the program."""
    program = ptxas.path.read_bytes()
    return frozenset(a.name for a in ADVISORIES if re.search(a.words.encode(), program))


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:100]}", end="", file=sys.stderr, flush=True)


def measure(
    folder: Path, programs: Sequence[Ptxas], archive: Archive, limit: int | None, each: int
) -> dict[str, Any]:
    """Compare on *limit* files of each producer (None: all) and those with wgmma, and on *each* faults of every operator."""
    measurement = Measurement(folder, programs, archive)
    folders = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    paths = [path for producer in folders for path in spread(sorted(producer.glob("*.ptx")), limit)]
    if limit is not None:
        every = (path for producer in folders for path in producer.glob("*.ptx"))
        paths = sorted({*paths, *(path for path in every if b"wgmma.mma_async" in path.read_bytes())})
    for number, path in enumerate(paths):
        _progress(f"file {number + 1} of {len(paths)}: {path.name}")
        measurement.file(path)
    if each:
        measurement.planted(each)
    return {"limit": limit} | measurement.data()


def spread(paths: Sequence[Path], limit: int | None) -> Sequence[Path]:
    """At most *limit* of them, evenly."""
    if limit is None or len(paths) <= limit:
        return paths
    return [paths[number * len(paths) // limit] for number in range(limit)]


# ------------------------------------------------------------ the page


def figure(data: Any) -> str:
    """What was compiled, and how many answers differ."""
    chosen = "" if data["limit"] is None else f" (those with wgmma, and {data['limit']} of each producer)"
    planted = sum(answers["planted"]["faults"] for answers in data["operators"].values())
    refused = sum(len(tally["differences"]) for by in data["accepted"].values() for tally in by.values())
    registers = [
        difference
        for parts in data["registers"].values()
        for tally in parts.values()
        for difference in tally["differences"]
    ]
    unexplained = sum(difference["cause"] == UNEXPLAINED for difference in registers)
    return (
        f"{data['files']:,} files{chosen}, {planted:,} planted faults. Answers to whether a file is accepted that differ:"
        f" {refused}. Of the differences about registers of wgmma, {len(registers) - unexplained} of {len(registers)} have a"
        " cause that was found."
    )


def tables(data: Any) -> Iterator[str]:
    """What each release of ptxas accepts and says, beside tclint."""
    yield from _accepted_section(data["accepted"])
    for part, about in (
        ("kernels", "Functions with wgmma, as they are"),
        ("planted", "With a planted fault"),
    ):
        yield from _registers_section(data["registers"], part, about)
    silent = [[build, _listed(rules) or "none"] for build, rules in data["silent"].items()]
    builds = list(data["registers"])
    rows = [
        [name, answers["planted"]["faults"], *(_listed(answers.get(who, {})) for who in ("tclint", *builds))]
        for name, answers in data["operators"].items()
    ]
    yield "Each kind of fault, the rules of tclint that find something, and the codes that ptxas gives:"
    yield ""
    yield from results.table(["fault", "planted", "tclint", *(f"ptxas {build}" for build in builds)], rows)
    if data["left_out"]:
        yield "Left out:"
        yield ""
        yield from (f"- {reason}: {count}" for reason, count in sorted(data["left_out"].items()))
        yield ""
    yield "Functions with findings of tclint about wgmma of which ptxas says nothing at all, by rule:"
    yield ""
    yield from results.table(["ptxas", "rule and functions"], silent)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _count(tally: Any, what: str, who: str) -> int:
    return sum(d["what"] == what and d["only"] == who for d in tally["differences"])


def _accepted_section(accepted: Any) -> Iterator[str]:
    tallies = {(build, manner): tally for build, by in accepted.items() for manner, tally in by.items()}
    asked = {key: tally for key, tally in tallies.items() if any(tally.values())}
    yield "### Accepted or refused"
    yield ""
    head = ["ptxas", "file", "both accept", "both refuse", "tclint alone refuses", "ptxas alone refuses"]
    rows = [
        [
            *key,
            tally["neither"].get("refused", 0),
            tally["both"].get("refused", 0),
            _count(tally, "refused", "tclint"),
            _count(tally, "refused", "ptxas"),
        ]
        for key, tally in asked.items()
    ]
    yield from results.table(head, rows)
    yield from _causes([(", ".join(key), tally) for key, tally in asked.items()])


def _registers_section(registers: Any, part: str, about: str) -> Iterator[str]:
    tallies = {build: parts[part] for build, parts in registers.items()}
    functions = [
        f"{tally['both'].get('functions', 0):,} with ptxas {build}" for build, tally in tallies.items()
    ]
    rows, never = [], []
    for advisory in ADVISORIES:
        counts = [
            [
                advisory.name,
                ", ".join(tally["codes"].get(advisory.name, ())),
                build,
                ", ".join(sorted(advisory.rules)),
                tally["both"].get(advisory.name, 0),
                tally["neither"].get(advisory.name, 0),
                _count(tally, advisory.name, "tclint"),
                _count(tally, advisory.name, "ptxas"),
            ]
            for build, tally in tallies.items()
        ]
        if any(row[4] or row[6] or row[7] for row in counts):
            rows += counts
        else:
            never.append(advisory.name)
    yield f"### {about}"
    yield ""
    yield f"Functions compared: {', '.join(functions)}."
    yield ""
    head = ["ptxas says", "code", "ptxas", "predicted by", "both", "neither", "tclint alone", "ptxas alone"]
    yield from results.table(head, rows)
    if never:
        yield f"Neither said nor predicted anywhere: {', '.join(never)}."
        yield ""
    yield from _causes(tallies.items())


SHOWN = 12
"""Differences without a cause that the page lists; the record has them all."""


def _causes(tallies: Iterable[tuple[str, Any]]) -> Iterator[str]:
    counts: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    open_ones = []
    names = []
    for name, tally in tallies:
        names.append(name)
        for difference in tally["differences"]:
            counts[difference["what"], difference["only"], difference["cause"]][name] += 1
            if difference["cause"] == UNEXPLAINED:
                open_ones.append((name, difference))
    rows = [
        [what, who, cause, *(count[name] for name in names)]
        for (what, who, cause), count in sorted(counts.items())
    ]
    if not rows:
        yield "No difference."
        yield ""
        return
    yield "Every difference, by its cause:"
    yield ""
    yield from results.table(["what", "only", "because", *names], rows)
    if not open_ones:
        return
    yield f"Unexplained ({min(len(open_ones), SHOWN)} of {len(open_ones)}):"
    yield ""
    for name, difference in open_ones[:SHOWN]:
        place = ":".join(str(difference[key]) for key in ("file", "line") if key in difference)
        planted = f", {difference['operator']}" if "operator" in difference else ""
        said = "; ".join(difference.get("said", ()))
        found = ", ".join(difference.get("found", ()))
        yield f"- {difference['only']} alone, {difference['what']}, `{place}`{planted} ({name}): {' / '.join(filter(None, (said, found)))}"
    yield ""


# ------------------------------------------------------------ the command


def programs(named_ones: Sequence[Path], cache: Path) -> tuple[list[Ptxas], list[str]]:
    """The ptxas to ask, and what is left out and why. Without names, :data:`PACKAGES` are installed into *cache*."""
    found, skipped = [], []
    for path in named_ones:
        found.append(Ptxas(path))
    for build, package in {} if named_ones else PACKAGES.items():
        folder = cache / "environments" / f"ptxas-{build}"
        try:
            environment(folder, (package,))
            found.append(Ptxas(next(folder.rglob("bin/ptxas"))))
        except (Skipped, StopIteration) as why:
            skipped.append(f"ptxas {build} ({package}): {why or 'it is not in the package'}")
    for ptxas in list(found):
        try:
            ptxas.build  # noqa: B018  (does it run?)
        except PtxasMissing as why:
            found.remove(ptxas)
            skipped.append(f"{ptxas.path}: {why}")
    return found, skipped


def main(arguments: list[str] | None = None) -> int:
    """Compare, print the figures, record; the exit status is 1 where nothing or not all could be asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.agreement",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, nargs="?", help="a folder of .ptx files; without it, the corpus")
    parser.add_argument(
        "--ptxas", type=Path, action="append", default=[], help="a ptxas to ask; may be repeated"
    )
    parser.add_argument("--limit", type=int, help="that many files of each producer, and those with wgmma")
    parser.add_argument("--each", type=int, default=40, help="faults of each operator (40); 0: none")
    parser.add_argument("--record", action="store_true", help="write the record and docs/results.md")
    options = parser.parse_args(arguments)
    cache = default_cache()
    folder = options.folder or cache
    if not folder.is_dir():
        print(f"{folder} is not a folder; python -m benchmarks.corpus builds the corpus", file=sys.stderr)
        return 1
    asked, skipped = programs(options.ptxas, cache)
    for reason in skipped:
        print(f"skipped: {reason}", file=sys.stderr)
    if not asked:
        return 1
    data = measure(folder, asked, Archive(cache / "ptxas"), options.limit, options.each)
    print(figure(data), "", *tables(data), sep="\n")
    if options.record:
        versions = {"ptxas": " and ".join(ptxas.build for ptxas in asked)}
        results.save("agreement", data, versions, skipped)
    return 1 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
