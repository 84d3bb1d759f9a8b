"""Does the hardware run ahead where a ``tcgen05.ld`` or ``.st`` is outstanding at a release? What ptxas makes of it.

    python -m benchmarks.studies.scoreboards [FOLDER...] [--limit N] [--also PTXAS...] [--record]

The ISA asks for ``tcgen05.wait`` before a thread signals to others that it is done with tensor memory. Each load and store
that the PTX leaves outstanding at an arrival or a barrier, by the letter, is looked up in the SASS that ptxas makes of
the kernel: the scoreboard that it holds up is waited for on every path to the arrival (*ordered*), or on some path
nothing waits (*ahead*). tclint's error, note or silence is compared with that.

FOLDER has a subfolder of ``.ptx`` files for each producer; the corpus, where none is named.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import agreement, ptxas, results
from benchmarks.corpus.builder import default_cache
from benchmarks.studies import sass
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.tmem_transfers import TmemTransfers, TransfersState
from tclint.checks.tcgen05 import register_use_before_wait, tensor_memory_hazards
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence
from tclint.ir.frontend import analyse
from tclint.ir.inline import inlinable, inline
from tclint.isa.target import TOOLKITS, parse_version
from tclint.syntax.source import Source

__all__ = [
    "COLUMNS",
    "WORST",
    "Listing",
    "Ordering",
    "Pair",
    "Refused",
    "Said",
    "Tools",
    "Unwaited",
    "figure",
    "find",
    "judged",
    "main",
    "outstanding",
    "pairs",
    "releases",
    "tables",
]

SIGNALS = ("mbarrier-arrive", "barrier-sync", "barrier-arrive")
"""Events of the ISA table by which a thread lets others continue."""


class Unwaited(TmemTransfers):
    """Loads and stores until a ``tcgen05.wait``, as the letter of the ISA has it: no use of a register ends them."""

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.derived = {}


def releases(model: KernelModel) -> list[tuple[int, int]]:
    """Every load or store and signal to other threads between which the PTX has a feasible path without the wait."""
    if not (model.sites("issue", "tcgen05.ld") or model.sites("issue", "tcgen05.st")):
        return []
    unwaited, solution = model.solution(Unwaited)
    signals = model.fact(HappensBefore).points.release_points.intersection(
        i for event in SIGNALS for i in model.sites(event)
    )
    found = []
    for block in model.cfg.order:
        for signal, state in solution.walk(block):
            if not state or signal not in signals:
                continue
            for site in sorted(unwaited.originating_sites(state)):
                step, goal = partial(unwaited.follow, site), partial(_at, signal)
                query = FactQuery(site, unwaited.issued(site), solution, step, goal, (signal,))
                if model.path(query).witness is not None:
                    found.append((site, signal))
    return found


def _at(signal: int, state: TransfersState, at: int) -> bool:
    return at == signal


class Said(NamedTuple):
    """What tclint says of a load or store."""

    verdict: str
    """``error``, ``low`` (an error of low confidence, which is hidden), ``note`` or ``silent``."""
    rule: str = ""
    site: int = -1
    doubt: str = ""


def said(model: KernelModel) -> dict[int, Said]:
    """What tclint says of each load and store of which it says anything."""
    verdicts: dict[int, Said] = {}
    for hit in register_use_before_wait(model):
        verdicts |= {site: Said("note", hit.rule, hit.site) for site in hit.about}
    rules = all_rules()
    hits = (hit for hit in tensor_memory_hazards(model) if hit.rule != "TC001")
    by_confidence = ((hit.confidence or rules[hit.rule].confidence, hit) for hit in hits)
    for confidence, hit in sorted(by_confidence, key=lambda item: item[0]):
        verdict = "error" if confidence > Confidence.LOW else "low"
        verdicts |= {site: Said(verdict, hit.rule, hit.site, hit.doubt) for site in hit.about}
    return verdicts


# ---------------------------------------------------------------- SASS

_SIGNAL = re.compile(r"SYNCS\.ARRIVE|ARRIVES|BAR\.|UCGABAR_ARV|BARRIER")
_FENCE = "FENCE.VIEW.ASYNC.T"
"""What ``tcgen05.wait::st`` becomes; ``wait::ld`` is a wait for scoreboards and leaves no instruction."""


class Ordering(NamedTuple):
    """What orders a load or store before a signal in the SASS."""

    verdict: str
    """``ahead``, ``ordered``, ``fenced`` (after the fence of a ``wait::st`` only) or ``unknown``."""
    why: str
    """Of *ordered*: the instruction that waits first; of *unknown*: what is not known."""


class _Pending(NamedTuple):
    """How far the operation is on a way."""

    board: int
    """The scoreboard that it holds up."""
    fence: int
    """That of a fence of stores after it."""
    fenced: bool
    """Whether that fence has been waited for."""


class Reach(NamedTuple):
    """The instructions that may be issued while an operation is under way."""

    ahead: frozenset[int]
    fenced: frozenset[int]
    """Those after the fence of a ``wait::st`` when the operation is a load."""
    waiters: tuple[int, ...]
    """Those that wait for it, the nearest first."""


def reach(code: sass.Code, start: int) -> Reach:
    """How far other instructions may get while the operation at *start* is under way.

    A load is done when its scoreboard is free. The scoreboard of a store says that it has read its registers, not
    that tensor memory was written: for that a fence must follow it, and its own scoreboard be free. The first
    half of a split load holds up none and is done with the next one, for the two go through one pipe in order.
    """
    instructions = code.instructions
    load = instructions[start].opcode.startswith("LDTM")
    begin = _Pending(instructions[start].written if load else sass.NONE, sass.NONE, False)
    work = deque((at, begin) for at in code.successors[start])
    seen = set(work)
    ahead: set[int] = set()
    fenced: set[int] = set()
    waiters: list[int] = []
    while work:
        at, pending = work.popleft()
        instruction = instructions[at]
        if load and instruction.waits >> pending.board & 1:
            waiters.append(at)
            continue
        if instruction.waits >> pending.fence & 1:
            if not load:
                waiters.append(at)
                continue
            # What the fence of stores means for loads is nowhere said.
            pending = pending._replace(fence=sass.NONE, fenced=True)
        (fenced if pending.fenced else ahead).add(at)
        if instruction.opcode == _FENCE:
            pending = pending._replace(fence=instruction.written)
        elif load and pending.board == sass.NONE and instruction.opcode.startswith("LDTM"):
            pending = pending._replace(board=instruction.written)
        for following in code.successors[at]:
            if following != start and (following, pending) not in seen:
                seen.add((following, pending))
                work.append((following, pending))
    return Reach(frozenset(ahead), frozenset(fenced), tuple(waiters))


def between(code: sass.Code, reached: Reach, signals: frozenset[int], load: bool) -> Ordering:
    """What *reached* means for an operation and *signals*, one of which must not be issued too early."""
    if reached.ahead & signals:
        return Ordering("ahead", "")
    if reached.fenced & signals:
        return Ordering("fenced", "only the fence of a wait::st intervenes")
    if not reached.waiters:
        return Ordering("unknown", "no path leads from one to the other")
    if signals.intersection(reached.waiters):
        return Ordering("ordered", "the signal itself waits")
    kind = code.instructions[reached.waiters[0]].opcode.split(".")[0]
    if kind in ("BRA", "BRX", "BRXU", "BSYNC", "BSSY", "CALL", "EXIT"):
        return Ordering("ordered", "a branch waits")
    return Ordering("ordered", "a use of the value waits" if load else "the fence is waited for")


WORST = ("ahead", "fenced", "unknown", "ordered")
"""What the SASS can say, the worst first."""


class Listing:
    """One kernel in SASS, to be asked about lines of its PTX."""

    def __init__(self, code: sass.Code) -> None:
        self.code = code
        self.lines: dict[int, list[int]] = {}
        for at, instruction in enumerate(code.instructions):
            self.lines.setdefault(instruction.line, []).append(at)
        self.reached: dict[int, Reach] = {}

    def _on(self, lines: range) -> Iterator[tuple[int, str]]:
        return ((at, self.code.instructions[at].opcode) for line in lines for at in self.lines.get(line, ()))

    def ordering(self, operation: range, signal: range, load: bool) -> Ordering:
        """What orders an operation before a signal on these lines of the PTX; the worst of all copies."""
        opcode = "LDTM" if load else "STTM"
        starts = [at for at, name in self._on(operation) if name.startswith(opcode)]
        signals = frozenset(at for at, name in self._on(signal) if _SIGNAL.match(name))
        if not starts:
            return Ordering("unknown", f"no {opcode} has the line of the operation")
        if not signals:
            return Ordering("unknown", "no arrival has the line of the signal")
        for start in starts:
            if start not in self.reached:
                self.reached[start] = reach(self.code, start)
        return _worst(between(self.code, self.reached[start], signals, load) for start in starts)

    def ahead(self) -> Iterator[tuple[int, int]]:
        """The lines of each load or store and of each signal that may be issued while it is under way.

        Of the PTX only the line numbers are used.
        """
        instructions = self.code.instructions
        signals = frozenset(at for at, each in enumerate(instructions) if _SIGNAL.match(each.opcode))
        for start, each in enumerate(instructions):
            if each.opcode.startswith(("LDTM", "STTM")):
                for at in sorted(reach(self.code, start).ahead & signals):
                    yield each.line, instructions[at].line


def _worst(orderings: Iterable[Ordering]) -> Ordering:
    return min(orderings, key=lambda ordering: WORST.index(ordering.verdict))


class Refused(Exception):
    """ptxas or nvdisasm does not take a file; the text is what it says."""


@dataclass(frozen=True)
class Tools:
    """The programs that make SASS of PTX."""

    assembler: ptxas.Ptxas
    disassembler: sass.Nvdisasm

    @property
    def versions(self) -> dict[str, str]:
        """Their releases, as a record has them."""
        return {"ptxas": self.assembler.release, "nvdisasm": self.disassembler.release}

    def compile(self, data: bytes, target: str) -> dict[str, Listing]:
        """The kernels of a module by name, each instruction with the line of the PTX that it comes from.

        ``-lineinfo`` changes nothing but the table of lines.
        """
        with tempfile.TemporaryDirectory() as folder:
            source, cubin = Path(folder, "t.ptx"), Path(folder, "t.cubin")
            source.write_bytes(data)
            command: list[str | Path] = [
                self.assembler.path,
                "-arch",
                target,
                "-lineinfo",
                source,
                "-o",
                cubin,
            ]
            try:
                run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
                if run.returncode:
                    raise Refused(f"ptxas: {(run.stderr + run.stdout).strip().splitlines()[0]}")
                return {code.name: Listing(code) for code in self.disassembler.disassemble(cubin)}
            except subprocess.TimeoutExpired:
                raise Refused("ptxas takes more than 15 minutes") from None
            except ValueError as error:
                raise Refused(f"nvdisasm: {error}") from error


# ---------------------------------------------------------------- comparing


def find() -> Tools:
    """The programs to use. Raises :class:`ptxas.PtxasMissing` or :class:`sass.NvdisasmMissing`."""
    return Tools(ptxas.find(), sass.find())


class Pair(NamedTuple):
    """An operation outstanding at a signal, as PTX, tclint and SASS have it."""

    kernel: str
    operation: int
    """Line of the PTX, as all places here."""
    signal: int
    load: bool
    event: str
    said: Said
    """``site`` is a line too."""
    ordering: Ordering


class Outstanding(NamedTuple):
    """An operation and a signal, as the PTX has them."""

    kernel: str
    operation: range
    """Lines of the PTX, as all places here."""
    signal: range
    load: bool
    event: str
    said: Said
    """``site`` is a line too."""


def outstanding(source: Source) -> tuple[str, list[Outstanding]]:
    """The target of *source*, and every load and store that is outstanding at a signal. Raises :class:`Refused`."""
    module, problems = analyse(source)
    if problems or not module.targets:
        raise Refused("tclint: " + (problems[0].message if problems else "no .target"))
    callees = inlinable(module)
    found = []
    for function in module.functions:
        if function.declared_only or not function.instructions or not function.entry:
            continue
        model = KernelModel(inline(function, callees), module)
        met = releases(model)
        verdicts = said(model) if met else {}
        for site, signal in met:
            about = verdicts.get(site, Said("silent"))
            if about.site >= 0:
                about = about._replace(site=_lines(source, model, about.site)[0])
            instruction = model.instruction(signal)
            load = model.instruction(site).group == "tcgen05.ld"
            operation, lines = _lines(source, model, site), _lines(source, model, signal)
            found.append(Outstanding(function.name, operation, lines, load, instruction.event, about))
        model.release()
    return module.targets[0], found


def pairs(source: Source, tools: Tools, known: Collection[tuple[str, range, range]] = ()) -> list[Pair]:
    """What :func:`outstanding` finds but for what is *known*, with what the SASS says. Raises :class:`Refused`."""
    target, met = outstanding(source)
    met = [one for one in met if one[:3] not in known]
    listings = tools.compile(source.data, target) if met else {}
    found = []
    for one in met:
        listing = listings.get(one.kernel)
        ordering = (
            listing.ordering(one.operation, one.signal, one.load)
            if listing
            else Ordering("unknown", "the kernel is not in the cubin")
        )
        found.append(
            Pair(one.kernel, one.operation[0], one.signal[0], one.load, one.event, one.said, ordering)
        )
    return found


def _lines(source: Source, model: KernelModel, site: int) -> range:
    function, instruction = model.function, model.instruction(site)
    first = source.position(function.start + instruction.start).line
    return range(first, source.position(function.start + instruction.end).line + 1)


def judged(found: Iterable[Pair]) -> list[Pair]:
    """One pair for each operation: the one that tclint speaks of, or else the one where the SASS is worst.

    A wait that is missing shows at every later signal, and tclint reports it once.
    """
    operations: dict[tuple[str, int], list[Pair]] = {}
    for pair in found:
        operations.setdefault((pair.kernel, pair.operation), []).append(pair)
    chosen = []
    for group in operations.values():
        reported = [pair for pair in group if pair.signal == pair.said.site and pair.said.rule == "TC002"]
        chosen.append(min(reported or group, key=lambda pair: WORST.index(pair.ordering.verdict)))
    return chosen


def agrees(pair: Pair) -> bool:
    """Whether tclint's verdict is what the SASS would have one expect: an error exactly where it runs ahead."""
    return (pair.said.verdict == "error") == (pair.ordering.verdict == "ahead")


def _row(name: str, pair: Pair) -> dict[str, Any]:
    return {
        "file": name,
        "operation": pair.operation,
        "signal": pair.signal,
        "what": "ld" if pair.load else "st",
        "event": pair.event,
        "tclint": pair.said.verdict,
        "sass": pair.ordering.verdict,
        "why": pair.ordering.why or pair.said.doubt or "nothing is said of it",
    }


def _has_accesses(data: bytes) -> bool:
    return re.search(rb"tcgen05\.(ld|st)\b", data) is not None


def sources(folders: Iterable[Path]) -> Iterator[tuple[str, Source]]:
    """The files with loads or stores of tensor memory, each text once, named by folder and producer."""
    seen = set()
    for folder in folders:
        for path in sorted(folder.glob("*/*.ptx")):
            data = path.read_bytes()
            digest = hashlib.sha256(data).digest()
            if digest not in seen and _has_accesses(data):
                seen.add(digest)
                yield "/".join(path.parts[-2:]), Source(data, str(path))


def measure(
    folders: Iterable[Path], tools: Tools, others: Sequence[Tools], limit: int | None, skipped: list[str]
) -> dict[str, Any]:
    """Compare tclint with the SASS of every file below *folders*; what could not be compared goes to *skipped*."""
    files = met = operations = 0
    matrix: Counter[tuple[str, str, str]] = Counter()
    reasons: Counter[str] = Counter()
    differences = []
    for name, source in sources(folders):
        if limit is not None and files >= limit:
            break
        files += 1
        try:
            found = pairs(source, tools)
        except Refused as error:
            skipped.append(f"{name}: {error}")
            continue
        met += len(found)
        rows = []
        for pair in judged(found):
            operations += 1
            matrix["ld" if pair.load else "st", pair.said.verdict, pair.ordering.verdict] += 1
            if pair.ordering.verdict == "unknown":
                reasons[pair.ordering.why] += 1
            elif not agrees(pair):
                rows.append(_row(name, pair))
        _ask_others(source, [row for row in rows if row["tclint"] == "error"], others)
        differences += rows
        print(f"{name}: {len(found)} outstanding", file=sys.stderr, flush=True)
    return {
        "files": files,
        "outstanding": met,
        "operations": operations,
        "matrix": _nested(matrix),
        "unknown": dict(reasons.most_common()),
        "differences": differences,
    }


def _ask_others(source: Source, rows: list[dict[str, Any]], others: Sequence[Tools]) -> None:
    """Add to *rows* what other releases of ptxas make of them; an older one is shown an older ``.version``."""
    for other in others if rows else ():
        release = other.assembler.release
        newest = TOOLKITS.get(parse_version(release))
        version = re.search(rb"^\s*\.version\s+(\d+\.\d+)", source.data, re.MULTILINE)
        target = analyse(source)[0].targets[0]
        data = source.data
        if newest and version and parse_version(version[1].decode()) > newest:
            data = data[: version.start(1)] + "{}.{}".format(*newest).encode() + data[version.end(1) :]
        try:
            listings = list(other.compile(data, target).values())
        except Refused:
            listings = []
        for row in rows:
            operation, signal = (range(row[at], row[at] + 1) for at in ("operation", "signal"))
            orderings = [
                listing.ordering(operation, signal, row["what"] == "ld").verdict for listing in listings
            ]
            known = [one for one in orderings if one != "unknown"]
            row.setdefault("also", {})[release] = known[0] if known else "unknown" if orderings else "refused"


def _nested(counts: Mapping[tuple[str, str, str], int]) -> dict[str, dict[str, dict[str, int]]]:
    nested: dict[str, dict[str, dict[str, int]]] = {}
    for (first, second, third), number in sorted(counts.items()):
        nested.setdefault(first, {}).setdefault(second, {})[third] = number
    return nested


# ---------------------------------------------------------------- the page

TITLE = "Scoreboards: does the hardware run ahead?"
COMMAND = "python -m benchmarks.studies.scoreboards --record"
SLICE = "python -m benchmarks.studies.scoreboards fixtures"
ABOUT = """\
Every `tcgen05.ld` and `tcgen05.st` that a kernel leaves outstanding, by the letter of the ISA, where its thread arrives on
an mbarrier or a barrier. The hardware may *run ahead* if, in the control bits of the SASS, nothing on some path to the
arrival waits for the access: it is free to be wrong, which does not mean that the other thread is ever fast enough. That
ptxas put one in *order* does not make it correct (9.7.16.6.4): another version, option or line of source undoes it."""

COLUMNS = {
    "ahead": "runs ahead",
    "fenced": "store fence",
    "ordered": "ordered",
    "unknown": "unknown",
}
_VERDICTS = {
    "error": "error",
    "low": "error, low confidence (hidden)",
    "note": "note TC007 only",
    "silent": "silent",
}


def figure(data: Any) -> str:
    """How many accesses are outstanding, and in how many the hardware may run ahead."""
    ahead = {
        what: {verdict: counts.get("ahead", 0) for verdict, counts in of.items()}
        for what, of in data["matrix"].items()
    }
    total = sum(sum(of.values()) for of in ahead.values())
    silent = sum(of.get("silent", 0) for of in ahead.values())
    errors = sum(of.get("error", 0) for of in ahead.values())
    return (
        f"{data['operations']:,} loads and stores in {data['files']:,} files are outstanding at some signal "
        f"({data['outstanding']:,} pairs of both). The hardware may run ahead of {total:,}: {errors:,} are errors, and of "
        f"{silent:,} tclint says nothing."
    )


def tables(data: Any) -> list[str]:
    """What tclint says beside what the SASS shows, each access at one signal, and where the two differ."""
    rows = [
        (f"`{what}`: {words}", *(counts.get(column, 0) for column in COLUMNS))
        for what, of in data["matrix"].items()
        for verdict, words in _VERDICTS.items()
        if (counts := of.get(verdict, {})) or verdict == "silent"
    ]
    lines = results.table(["tclint", *COLUMNS.values()], rows)
    for why, number in data["unknown"].items():
        lines.append(f"- unknown: {why} ({number:,})")
    lines += ["", "Where the two differ:", "", *_differences(data["differences"])]
    also = [row for row in data["differences"] if "also" in row]
    if also:
        lines += ["The errors that this ptxas puts in order, as others do:", "", *_also(also)]
    return lines


def _also(rows: list[dict[str, Any]]) -> list[str]:
    releases = list(dict.fromkeys(release for row in rows for release in row["also"]))
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row["also"].get(release, "") for release in releases), []).append(row)
    table = [
        (
            len(group),
            f"{group[0]['file'].rpartition('/')[2]}:{group[0]['signal']}",
            *(COLUMNS.get(one, one) for one in orderings),
        )
        for orderings, group in groups.items()
    ]
    return results.table(["operations", "such as", *(f"ptxas {release}" for release in releases)], table)


def _differences(rows: list[dict[str, Any]]) -> list[str]:
    groups: dict[tuple[str, str, str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        key = row["tclint"], row["sass"], row["what"], row["event"], row["why"]
        groups.setdefault(key, []).append(row)
    table = []
    for (verdict, ordering, what, event, why), group in sorted(
        groups.items(), key=lambda item: -len(item[1])
    ):
        places = sorted({f"{row['file'].rpartition('/')[2]}:{row['signal']}" for row in group})
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        table.append(
            (
                f"{verdict}, {COLUMNS[ordering]}",
                f"`{what}` at {event}",
                why,
                len(group),
                len({row["file"] for row in group}),
                ", ".join(places[:3]) + more,
            )
        )
    return results.table(["tclint, SASS", "what", "cause", "operations", "files", "signal"], table)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the figures; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.scoreboards",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", metavar="FOLDER", nargs="*", type=Path, default=[default_cache()])
    parser.add_argument("--limit", type=int, help="take the first files only")
    parser.add_argument(
        "--also",
        metavar="PTXAS",
        action="append",
        type=Path,
        default=[],
        help="ask another ptxas about the errors that the first one puts in order (may be repeated; default: the"
        " releases that benchmarks.agreement installs)",
    )
    parser.add_argument("--record", action="store_true", help="leave a record, and write docs/results.md")
    options = parser.parse_args(arguments)
    for folder in options.folders:
        if not folder.is_dir():
            parser.error(f"{folder} is not a folder")
    try:
        tools = find()
        versions = tools.versions
        programs, skipped = agreement.programs(options.also, default_cache())
        others = [Tools(p, tools.disassembler) for p in programs if p.build != tools.assembler.build]
        if others:
            versions["other ptxas"] = ", ".join(other.assembler.release for other in others)
    except (ptxas.PtxasMissing, sass.NvdisasmMissing) as error:
        print(f"scoreboards are not measured: {error}", file=sys.stderr)
        return 2
    data = measure(options.folders, tools, others, options.limit, skipped)
    print("\n".join([figure(data), "", *tables(data), *(f"skipped: {reason}" for reason in skipped)]))
    if options.record:
        results.save("scoreboards", data, versions, skipped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
