"""Does the hardware run ahead where a ``tcgen05.ld`` or ``.st`` is outstanding at a release? What ptxas makes of it.

    python -m benchmarks.scoreboards [FOLDER...] [--mutants 40] [--limit N] [--record]

The ISA asks for ``tcgen05.wait`` before a thread tells others that it is done with tensor memory. Each load and store
that the PTX leaves outstanding at an arrival or a barrier, by the letter, is looked up in the SASS that ptxas makes of
the kernel: the scoreboard that it holds up is waited for on every way to the arrival (*ordered*), or on some way
nothing waits (*ahead*). tclint's error, note or silence is compared with that. Then waits are deleted, or moved behind
the arrival, in kernels that have them, and the same is asked.

FOLDER has a subfolder of ``.ptx`` files for each producer; the corpus, where none is named.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import mutation, ptxas, results, sass
from benchmarks.corpus.builder import default_cache
from benchmarks.faults import OPERATORS, apply
from tclint.analyses.tensor_memory import ISSUED, State, Tcgen05
from tclint.analyses.warps import of_the_cta
from tclint.checks.tcgen05 import register_use_before_wait, tensor_memory_hazards
from tclint.driver import analyse
from tclint.finding import Confidence, Edit, Span
from tclint.ir.inline import inline
from tclint.model import KernelModel
from tclint.rules import all_rules
from tclint.source import Source

__all__ = ["Unwaited", "Way", "follow", "hardware", "main", "releases", "section"]

SIGNALS = ("mbarrier-arrive", "barrier-sync", "barrier-arrive")
"""Events of the ISA table by which a thread tells others to go on."""


class Unwaited(Tcgen05):
    """Loads and stores until a ``tcgen05.wait``, as the letter of the ISA has it: no use of a register ends them."""

    groups = ("tcgen05.ld", "tcgen05.st")

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.derived = {}
        self.by_opcode = True


def releases(model: KernelModel) -> list[tuple[int, int]]:
    """Every load or store and signal to other threads between which the PTX has a feasible path without the wait."""
    if not (model.sites("issue", "tcgen05.ld") or model.sites("issue", "tcgen05.st")):
        return []
    tmem, solution = model.solved(Unwaited)
    found = []
    for block in model.cfg.order:
        for signal, state in solution.walk(block):
            if not state or model.instruction(signal).event not in SIGNALS or not of_the_cta(model, signal):
                continue
            for site, _ in sorted(state):
                step, goal = partial(tmem.follow, site), partial(_at, signal)
                start = frozenset({(site, ISSUED)})
                if model.path(site, start, solution, step, goal, (signal,)) is not None:
                    found.append((site, signal))
    return found


def _at(signal: int, state: State, at: int) -> bool:
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
    told: dict[int, Said] = {}
    for rule, hit in register_use_before_wait(model):
        told |= {site: Said("note", rule, hit.site) for site in hit.about}
    hits = [(rule, hit) for rule, hit in tensor_memory_hazards(model) if rule != "TC001"]
    rules = all_rules()
    for rule, hit in sorted(hits, key=lambda item: item[1].confidence or rules[item[0]].confidence):
        confidence = hit.confidence or rules[rule].confidence
        verdict = "error" if confidence > Confidence.LOW else "low"
        told |= {site: Said(verdict, rule, hit.site, hit.doubt) for site in hit.about}
    return told


# ---------------------------------------------------------------- SASS

_SIGNAL = re.compile(r"SYNCS\.ARRIVE|ARRIVES|BAR\.|UCGABAR_ARV|BARRIER")
_FENCE = "FENCE.VIEW.ASYNC.T"
"""What ``tcgen05.wait::st`` becomes; ``wait::ld`` is a wait for scoreboards and leaves no instruction."""


class Way(NamedTuple):
    """What stands between a load or store and a signal in the SASS."""

    verdict: str
    """``ahead``, ``ordered``, ``fenced`` (behind the fence of a ``wait::st`` only) or ``unknown``."""
    why: str
    """Of *ordered*: the instruction that waits first; of *unknown*: what cannot be told."""


class _Pending(NamedTuple):
    """How far the operation is on a way."""

    board: int
    """The scoreboard that it holds up."""
    fence: int
    """That of a fence of stores behind it."""
    fenced: bool
    """Whether that fence has been waited for."""


def follow(code: sass.Code, start: int, signals: frozenset[int]) -> Way:
    """Whether the operation at *start* may be under way at one of *signals*.

    A load is done when its scoreboard is free. The scoreboard of a store says that it has read its registers, not
    that tensor memory was written: for that a fence must stand behind it, and its own scoreboard be free. The first
    half of a split load holds up none and is done with the next one, for the two go through one pipe in order.
    """
    instructions = code.instructions
    load = instructions[start].opcode.startswith("LDTM")
    begin = _Pending(instructions[start].written if load else sass.NONE, sass.NONE, False)
    work = [(at, begin) for at in code.successors[start]]
    seen = set(work)
    waiter, fenced = -1, False
    while work:
        at, pending = work.pop()
        instruction = instructions[at]
        if load and instruction.waits >> pending.board & 1:
            waiter = at if waiter < 0 or at in signals else waiter
            continue
        if instruction.waits >> pending.fence & 1:
            if not load:
                waiter = at
                continue
            # What the fence of stores means for loads is nowhere said.
            pending = pending._replace(fence=sass.NONE, fenced=True)
        if at in signals:
            if not pending.fenced:
                return Way("ahead", "")
            fenced = True
        if instruction.opcode == _FENCE:
            pending = pending._replace(fence=instruction.written)
        elif load and pending.board == sass.NONE and instruction.opcode.startswith("LDTM"):
            pending = pending._replace(board=instruction.written)
        for following in code.successors[at]:
            if following != start and (following, pending) not in seen:
                seen.add((following, pending))
                work.append((following, pending))
    if fenced:
        return Way("fenced", "only the fence of a wait::st stands between")
    if waiter < 0:
        return Way("unknown", "no way leads from one to the other")
    if waiter in signals:
        return Way("ordered", "the signal itself waits")
    opcode = instructions[waiter].opcode
    jump = opcode.split(".")[0] in ("BRA", "BRX", "BRXU", "BSYNC", "BSSY", "CALL", "EXIT")
    return Way(
        "ordered", "a branch waits" if jump else "a fence waits" if not load else "a use of the value waits"
    )


_WORST = ("ahead", "fenced", "unknown", "ordered")


def hardware(code: sass.Code | None, operation: range, signal: range, load: bool) -> Way:
    """What the SASS says of an operation and a signal that stand on these lines of the PTX; the worst of all copies."""
    if code is None:
        return Way("unknown", "the kernel is not in the cubin")
    opcode = "LDTM" if load else "STTM"
    numbered = list(enumerate(code.instructions))
    starts = [at for at, i in numbered if i.line in operation and i.opcode.startswith(opcode)]
    signals = frozenset(at for at, i in numbered if i.line in signal and _SIGNAL.match(i.opcode))
    if not starts:
        return Way("unknown", f"no {opcode} has the line of the operation")
    if not signals:
        return Way("unknown", "no arrival has the line of the signal")
    return _worst(follow(code, start, signals) for start in starts)


def _worst(ways: Iterable[Way]) -> Way:
    return min(ways, key=lambda way: _WORST.index(way.verdict))


class Refused(Exception):
    """ptxas or nvdisasm does not take a file; the text is what it says."""


@dataclass(frozen=True)
class Tools:
    """The programs that make SASS of PTX."""

    assembler: ptxas.Ptxas
    disassembler: sass.Nvdisasm

    def compile(self, data: bytes, target: str) -> dict[str, sass.Code]:
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
                return {code.name: code for code in self.disassembler.disassemble(cubin)}
            except subprocess.TimeoutExpired:
                raise Refused("ptxas takes more than 15 minutes") from None
            except ValueError as error:
                raise Refused(f"nvdisasm: {error}") from error


# ---------------------------------------------------------------- comparing


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
    way: Way


def pairs(source: Source, tools: Tools) -> list[Pair]:
    """Every load and store that is outstanding at a signal in the kernels of *source*. Raises :class:`Refused`."""
    module, problems = analyse(source)
    if problems or not module.targets:
        raise Refused("tclint: " + (problems[0].message if problems else "no .target"))
    codes: dict[str, sass.Code] | None = None
    found = []
    for function in module.functions:
        if function.declared_only or not function.instructions or not function.entry:
            continue
        model = KernelModel(inline(function, module), module)
        outstanding = releases(model)
        if not outstanding:
            continue
        if codes is None:
            codes = tools.compile(source.data, module.targets[0])
        told, lines = said(model), partial(_lines, source, model)
        for site, signal in outstanding:
            load = model.instruction(site).group == "tcgen05.ld"
            way = hardware(codes.get(function.name), lines(site), lines(signal), load)
            about = told.get(site, Said("silent"))
            if about.site >= 0:
                about = about._replace(site=lines(about.site)[0])
            event = model.instruction(signal).event
            found.append(Pair(function.name, lines(site)[0], lines(signal)[0], load, event, about, way))
        model.release()
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
        chosen.append(min(reported or group, key=lambda pair: _WORST.index(pair.way.verdict)))
    return chosen


def agrees(pair: Pair) -> bool:
    """Whether tclint's verdict is what the SASS would have one expect: an error exactly where it runs ahead."""
    return (pair.said.verdict == "error") == (pair.way.verdict == "ahead")


def _row(name: str, pair: Pair) -> dict[str, Any]:
    return {
        "file": name,
        "operation": pair.operation,
        "signal": pair.signal,
        "what": "ld" if pair.load else "st",
        "event": pair.event,
        "tclint": pair.said.verdict,
        "sass": pair.way.verdict,
        "why": pair.way.why or pair.said.doubt or "nothing is said of it",
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


def measure(folders: Sequence[Path], tools: Tools, limit: int | None, skipped: list[str]) -> dict[str, Any]:
    """Compare tclint with the SASS of every file below *folders*; what could not be compared goes to *skipped*."""
    files = outstanding = operations = 0
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
        outstanding += len(found)
        for pair in judged(found):
            operations += 1
            matrix["ld" if pair.load else "st", pair.said.verdict, pair.way.verdict] += 1
            if pair.way.verdict == "unknown":
                reasons[pair.way.why] += 1
            elif not agrees(pair):
                if pair.said.verdict in ("note", "silent") and pair.way.verdict == "ordered":
                    continue
                differences.append(_row(name, pair))
    return {
        "files": files,
        "outstanding": outstanding,
        "operations": operations,
        "matrix": _nested(matrix),
        "unknown": dict(reasons.most_common()),
        "differences": differences,
    }


def _nested(counts: Mapping[tuple[str, str, str], int]) -> dict[str, dict[str, dict[str, int]]]:
    nested: dict[str, dict[str, dict[str, int]]] = {}
    for (first, second, third), number in sorted(counts.items()):
        nested.setdefault(first, {}).setdefault(second, {})[third] = number
    return nested


_WAITS = re.compile(r"tcgen05\.wait::")


def mutants(folders: Sequence[Path], each: int, tools: Tools, skipped: list[str]) -> list[dict[str, Any]]:
    """Take waits out of kernels that have them, *each* times for every operator; what tclint and the SASS then say."""
    done = []
    for folder in folders:
        for path, records in mutation.choose(folder, _WAITS, each, seed=7).items():
            source = Source.read(path)
            try:
                before = {pair[:4] for pair in pairs(source, tools)}
            except Refused as error:
                skipped.append(f"{path.name}: {error}")
                continue
            report = mutation.lint(path, source.data)
            for record in records:
                edits = tuple(Edit(Span(start, end), text) for start, end, text in record["edits"])
                data = apply(source.data, edits)
                rules = OPERATORS[record["operator"]].rules
                places = frozenset(record["places"])
                verdict, _ = mutation.verdict(report, mutation.lint(path, data), rules, places)
                try:
                    new = [p for p in pairs(Source(data, str(path)), tools) if p[:4] not in before]
                except Refused as error:
                    skipped.append(f"{path.name}, {record['operator']} in line {record['line']}: {error}")
                    continue
                worst = min(new, key=lambda pair: _WORST.index(pair.way.verdict), default=None)
                done.append(
                    {
                        "operator": record["operator"],
                        "file": "/".join(path.parts[-2:]),
                        "line": record["line"],
                        "tclint": verdict,
                        "sass": worst.way.verdict if worst else "no release",
                        "operation": worst.operation if worst else 0,
                        "signal": worst.signal if worst else 0,
                        "event": worst.event if worst else "",
                        "why": (worst.way.why or worst.said.doubt or worst.said.verdict) if worst else "",
                    }
                )
    return done


# ---------------------------------------------------------------- the page

TITLE = "Scoreboards: does the hardware run ahead?"
COMMAND = "python -m benchmarks.scoreboards --record FOLDER..."
ABOUT = (
    "Every `tcgen05.ld` and `tcgen05.st` that a kernel leaves outstanding, by the letter of the ISA, where its thread "
    "arrives on an mbarrier or a barrier. ptxas assembles the kernel, and the control bits of the SASS say whether the "
    "arrival can be issued before the load or store is done: *runs ahead*, if some way from the `LDTM` or `STTM` to the "
    "arrival waits for nothing that tells; *ordered*, if something on every way waits for its scoreboard, mostly an "
    "instruction that takes the loaded value; *store fence*, if only what `wait::st` becomes stands between a load and "
    "the arrival, of which nobody says what it does to loads. *Ordered* does not mean correct. The ISA calls an access "
    "without `tcgen05.wait` unordered with what other threads do (9.7.16.6.4); that this ptxas put a use of the value in "
    "front of the arrival is chance, which another version, option or line of source undoes. *Runs ahead* means that the "
    "hardware is free to be wrong, not that the other thread is ever fast enough."
)

_COLUMNS = {
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
_SHOWN = 12
"""Places that the page names of each group; the record has all."""


def section(data: Any) -> list[str]:
    """The part of ``docs/results.md``."""
    rows = [
        (f"`{what}`: {words}", *(counts.get(column, 0) for column in _COLUMNS))
        for what, of in data["matrix"].items()
        for verdict, words in _VERDICTS.items()
        if (counts := of.get(verdict))
    ]
    head = (
        f"{data['operations']:,} loads and stores in {data['files']:,} files are outstanding at some signal "
        f"({data['outstanding']:,} pairs of both). Each counts once, at the signal that tclint names, or else where the "
        "SASS is worst."
    )
    lines = [
        head,
        "",
        *results.table(["tclint", *_COLUMNS.values()], rows),
    ]
    for why, number in data["unknown"].items():
        lines.append(f"- unknown: {why} ({number:,})")
    lines += ["", "Where the two differ:", "", *_differences(data["differences"])]
    if data["mutants"]:
        lines += _mutants(data["mutants"])
    return lines


def _differences(rows: list[dict[str, Any]]) -> list[str]:
    groups: dict[tuple[str, str, str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        key = row["tclint"], row["sass"], row["what"], row["event"], row["why"]
        groups.setdefault(key, []).append(row)
    table = []
    for (verdict, way, what, event, why), group in sorted(groups.items(), key=lambda item: -len(item[1])):
        places = sorted({f"{row['file'].rpartition('/')[2]}:{row['signal']}" for row in group})
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        table.append(
            (
                f"{verdict}, {_COLUMNS[way]}",
                f"`{what}` at {event}",
                why,
                len(group),
                len({row["file"] for row in group}),
                ", ".join(places[:3]) + more,
            )
        )
    return results.table(["tclint, SASS", "what", "cause", "operations", "files", "signal"], table)


def _mutants(rows: list[dict[str, Any]]) -> list[str]:
    columns = {**_COLUMNS, "no release": "no release follows"}
    counts = Counter((row["operator"], row["tclint"], row["sass"]) for row in rows)
    verdicts = ("found", "low", "note", "other", "missed", "refused")
    table = [
        (name, verdict, *(counts[name, verdict, column] for column in columns))
        for name in dict.fromkeys(row["operator"] for row in rows)
        for verdict in verdicts
        if any(counts[name, verdict, column] for column in columns)
    ]
    head = (
        f"Waits taken out of real kernels, {len(rows):,} of them one at a time. *No release follows*: before the next "
        "signal another wait stands on every path, or the deleted one only guarded what the same thread does."
    )
    lines = [
        head,
        "",
        *results.table(["planted", "tclint", *columns.values()], table),
    ]
    hidden = [row for row in rows if row["sass"] == "ahead" and row["tclint"] != "found"]
    if hidden:
        lines += ["Not found although the hardware may run ahead:", ""]
        groups: dict[tuple[str, str, str, str], list[str]] = {}
        for row in hidden:
            key = row["operator"], row["tclint"], row["event"], row["why"]
            groups.setdefault(key, []).append(f"{row['file']}:{row['line']}")
        table = [
            (operator, verdict, event, why, len(places), ", ".join(places[:2]))
            for (operator, verdict, event, why), places in groups.items()
        ]
        lines += results.table(["planted", "tclint", "at", "cause", "times", "such as"], table[:_SHOWN])
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the section; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scoreboards",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", metavar="FOLDER", nargs="*", type=Path, default=[default_cache()])
    parser.add_argument("--limit", type=int, help="take the first files only, and plant nothing")
    parser.add_argument("--mutants", type=int, default=40, help="faults of each operator and folder (40)")
    parser.add_argument("--record", action="store_true", help="leave a record, and write docs/results.md")
    options = parser.parse_args(arguments)
    for folder in options.folders:
        if not folder.is_dir():
            parser.error(f"{folder} is no folder")
    try:
        tools = Tools(ptxas.find(), sass.find())
        versions = {"ptxas": tools.assembler.release, "nvdisasm": tools.disassembler.release}
    except (ptxas.PtxasMissing, sass.NvdisasmMissing) as error:
        print(f"scoreboards are not measured: {error}", file=sys.stderr)
        return 2
    skipped: list[str] = []
    data = measure(options.folders, tools, options.limit, skipped)
    planted = options.limit is None and options.mutants
    data["mutants"] = mutants(options.folders, options.mutants, tools, skipped) if planted else []
    print("\n".join([*section(data), *(f"skipped: {reason}" for reason in skipped)]))
    if options.record:
        results.save("scoreboards", data, versions, skipped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
