"""Plant one fault at a time in real kernels and count how many tclint finds.

    python -m benchmarks.mutation [FOLDER...] [--operator REGEX] [--each 20] [--seed 7] [--output FILE.jsonl]
                                  [--record]
    python -m benchmarks.mutation [FOLDER...] --write INTO
    python -m benchmarks.mutation FOLDER... --strict --files 120 --largest 80000 --each 1 --seed 5

FOLDER has a subfolder of ``.ptx`` files for each producer, or files named ``PRODUCER-KERNEL.ptx``; without one the
corpus is taken. A fault is *found* when linting the changed kernel gives a finding that the original does not have, of
a rule that is about the operator, at the right place: the finding or one of its steps lies on an instruction that the
fault concerns. ``note`` and ``low`` are the same with severity info, or with low confidence; ``other`` is a new finding
of another rule or elsewhere; ``missed`` is none. What is found is also *located*: whether the primary location of such
a finding, one of its steps, or an edit that it suggests lies within three lines of the change. A change that is proven
to be none (``benchmarks.equivalence``) is labelled so, and whatever else was not found has a cause
(``benchmarks.misses``).

The places are drawn with a fixed seed, evenly over producers and kernels. With ``--files``, so many files are drawn instead,
each with the same chance, and ``--each`` faults of every operator in each of them. With ``--strict``, the verdict is that of
``tclint check --strict``, and the table also counts what is found without that setting. The records are written one JSON object a
line, with the edits, so that a later version of tclint can be asked again: ``--replay FILE.jsonl``. ``--write`` writes
the changed kernels into a folder instead, for ``benchmarks.same``.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks import locations, results
from benchmarks.arguments import command_line
from benchmarks.corpus.builder import default_cache
from benchmarks.equivalence import equivalent
from benchmarks.faults import OPERATORS, Fault, Kernel, apply
from benchmarks.machine_code import Assembler
from benchmarks.misses import cause
from benchmarks.mutation_score import ABOUT, COMMAND, SLICE, TITLE, figure, summary, table, tables
from benchmarks.ptxas import PtxasMissing, find
from tclint.findings.finding import Edit, FileReport, Finding
from tclint.findings.scales import Confidence, Method, Severity
from tclint.findings.selection import Request, Selected
from tclint.findings.spans import Span
from tclint.ir.frontend import analyse
from tclint.linting.check import check_source
from tclint.syntax.source import Source, SourceError

__all__ = ["ABOUT", "COMMAND", "SLICE", "TITLE", "Verdict", "figure", "fresh", "main", "tables", "verdict"]

LARGEST = 250_000
"""Bytes of the largest file that is changed: a thousand mutants are linted, and many of them assembled."""
FILES = 40
"""Files of a producer that places are drawn from."""
PTXAS_SECONDS = 20
"""How long ptxas may take for a kernel."""


def kernels(path: Path) -> Iterator[Kernel]:
    """The functions of a file that can be analysed. Files that cannot be read have none."""
    try:
        source = Source.read(path)
    except SourceError:
        return
    module, problems = analyse(source)
    if not problems:
        for function in module.functions:
            if not function.declared_only and function.instructions:
                yield Kernel(source.data, module, function)


def lint(path: Path, data: bytes, *, strict: bool = False) -> FileReport:
    """The report on *data* with the default settings, or with ``strict``."""
    return check_source(Source(data, str(path)), Request(selected=Selected(strict=strict)))


def _key(report: FileReport, finding: Finding) -> tuple[Any, ...]:
    """What makes a finding the same one in the original and in a mutant, whose lines are the same."""
    assert report.source is not None
    line = report.source.position(finding.span.start).line
    return finding.rule.id, line, finding.severity, finding.confidence, finding.message


def _about(finding: Finding) -> frozenset[str]:
    """The rules by which an operator may name *finding*: its own, and MB016 for all that a replay shows."""
    return frozenset((finding.rule.id, "MB016") if finding.method is Method.REPLAY else (finding.rule.id,))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What linting says about a fault."""

    result: str
    """``found``, ``note``, ``low``, ``other``, ``refused`` or ``missed``."""
    new: list[str]
    """The new findings in words."""
    fitting: tuple[Finding, ...] = ()
    """The new findings that make it found; empty unless it is."""


def fresh(before: FileReport, after: FileReport) -> list[Finding]:
    """The findings of the report *after* a change that the one *before* it does not have."""
    known = Counter(_key(before, finding) for finding in before.findings)
    added = []
    for finding in after.findings:
        key = _key(after, finding)
        if known[key]:
            known[key] -= 1
        else:
            added.append(finding)
    return added


def verdict(before: FileReport, after: FileReport, rules: frozenset[str], lines: frozenset[int]) -> Verdict:
    """What the report *after* a change has that the one *before* it does not have.

    *lines* are the right places; empty: anywhere.
    """
    assert after.source is not None
    added = fresh(before, after)
    said = [
        f"{f.rule.id} {f.severity.label}/{f.confidence.label} "
        f"line {after.source.position(f.span.start).line}: {f.message}"
        for f in added
    ]

    def place(finding: Finding) -> bool:
        spans = [finding.span, *(step.span for step in finding.steps)]
        return not lines or any(after.source.position(s.start).line in lines for s in spans)  # type: ignore[union-attr]

    fitting = [f for f in added if not rules.isdisjoint(_about(f)) and place(f)]
    if counted := tuple(filter(_counts, fitting)):
        return Verdict("found", said, counted)
    if fitting:
        return Verdict("note" if any(f.confidence > Confidence.LOW for f in fitting) else "low", said)
    if added:
        return Verdict("other", said)
    return Verdict("refused" if after.problems and not before.problems else "missed", said)


def producers(folder: Path) -> dict[str, list[Path]]:
    """The files by producer: its subfolder, or what comes before the first ``-`` in the name of a file."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted((*folder.glob("*.ptx"), *folder.glob("*/*.ptx"))):
        producer = path.name.partition("-")[0] if path.parent == folder else path.parent.name
        found[producer].append(path)
    return dict(sorted(found.items()))


def choose(
    folder: Path,
    wanted: re.Pattern[str],
    each: int,
    seed: int,
    containing: re.Pattern[bytes] = re.compile(b""),
) -> dict[Path, list[dict[str, Any]]]:
    """Places for *each* faults of every operator: ``{file: [record, ...]}``.

    Files in which *containing* is not found are left out, and those with a fault of their own.
    """
    rng = random.Random(seed)
    operators = [o for o in OPERATORS.values() if wanted.search(o.name)]
    pools: dict[str, dict[str, dict[Path, list[dict[str, Any]]]]] = {
        o.name: defaultdict(lambda: defaultdict(list)) for o in operators
    }
    for producer, paths in producers(folder).items():
        files = [p for p in paths if p.stat().st_size <= LARGEST and containing.search(p.read_bytes())]
        rng.shuffle(files)
        files.sort(key=lambda p: not re.search(rb"wgmma|tcgen05|cp\.async", p.read_bytes()))
        for path in _without_findings(files[:FILES]):
            for kernel in kernels(path):
                for o in operators:
                    for fault in o.plant(kernel):
                        record = _record(o.name, producer, path.relative_to(folder), kernel, fault)
                        pools[o.name][producer][path].append(record)
    chosen: dict[Path, list[dict[str, Any]]] = defaultdict(list)
    for by_producer in pools.values():
        queues = [_in_turn(files, rng) for files in by_producer.values()]
        taken = 0
        while taken < each and queues:
            for queue in list(queues):
                record = next(queue, {})
                if not record:
                    queues.remove(queue)
                elif taken < each:
                    chosen[folder / record["file"]].append(record)
                    taken += 1
    return chosen


def sample(
    folders: Iterable[Path],
    wanted: re.Pattern[str],
    each: int,
    seed: int,
    count: int,
    largest: int,
    *,
    strict: bool = False,
) -> dict[Path, list[dict[str, Any]]]:
    """Places for *each* faults of every operator in each of *count* files, which are drawn with the same chance from those
    of at most *largest* bytes: ``{file: [record, ...]}``. Files with a fault of their own are drawn, and left out; with
    *strict*, so are the operators that are about a rule of which the file then has a finding."""
    files = {
        path: (producer, folder)
        for folder in folders
        for producer, paths in producers(folder).items()
        for path in paths
        if path.stat().st_size <= largest
    }
    drawn = random.Random(seed).sample(sorted(files, key=lambda p: (p.name, str(p))), min(count, len(files)))
    operators = [o for o in OPERATORS.values() if wanted.search(o.name)]
    chosen: dict[Path, list[dict[str, Any]]] = {}
    for path in _without_findings(drawn):
        producer, folder = files[path]
        name, here = path.relative_to(folder), [*kernels(path)]
        found = lint(path, path.read_bytes(), strict=True).findings if strict else ()
        known = {finding.rule.id for finding in found if _counts(finding)}
        chosen[path] = records = []
        for o in operators:
            if not known.isdisjoint(o.rules):
                continue
            places = [(kernel, fault) for kernel in here for fault in o.plant(kernel)]
            rng = random.Random(f"{seed} {path.name} {o.name}")
            for kernel, fault in rng.sample(places, min(each, len(places))):
                records.append(_record(o.name, producer, name, kernel, fault))
    return chosen


def _without_findings(paths: Iterable[Path]) -> Iterator[Path]:
    """The files without an error or a warning as they are: of a second fault of a kind a rule may say nothing."""
    for path in paths:
        try:
            source = Source.read(path)
        except SourceError:
            continue
        if not any(_counts(finding) for finding in check_source(source).findings):
            yield path


def _counts(finding: Finding) -> bool:
    """Whether it is shown by default, as more than a note."""
    return finding.confidence > Confidence.LOW and finding.severity > Severity.INFO


def _in_turn(files: dict[Path, list[dict[str, Any]]], rng: random.Random) -> Iterator[dict[str, Any]]:
    """One place of each file, then a second one of each, and so on."""
    lists = [rng.sample(records, len(records)) for _, records in sorted(files.items())]
    rng.shuffle(lists)
    while lists:
        for records in lists:
            yield records.pop()
        lists = [records for records in lists if records]


def _record(name: str, producer: str, path: Path, kernel: Kernel, fault: Fault) -> dict[str, Any]:
    return {
        "operator": name,
        "producer": producer,
        "file": str(path),
        "sha256": kernel.digest,
        "entry": kernel.function.name,
        "line": kernel.line(fault.edits[0].span.start),
        "note": fault.note,
        "places": sorted({kernel.line(kernel.span(i).start) for i in fault.places}),
        "edits": [(e.span.start, e.span.end, e.text) for e in fault.edits],
    }


_PLANTED = ("operator", "producer", "file", "sha256", "entry", "line", "note", "places", "edits")
"""What a record says before it is asked about."""


def run(
    chosen: dict[Path, list[dict[str, Any]]],
    assembler: Assembler | None = None,
    *,
    strict: bool = False,
    jobs: int = 1,
) -> Iterator[dict[str, Any]]:
    """Lint every mutant and complete its record, in *jobs* processes. The original is linted once for all of its mutants.

    *strict*: the verdict is that of the setting, and ``default`` in a record is the one without it. Mutants of a file that
    is another one by now are left out, with a word on standard error.
    """
    ask = partial(_ask_all, assembler=assembler, strict=strict)
    if jobs == 1:
        yield from chain.from_iterable(map(ask, chosen, chosen.values()))
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from chain.from_iterable(pool.map(ask, chosen, chosen.values()))


def _ask_all(
    path: Path, records: list[dict[str, Any]], *, assembler: Assembler | None, strict: bool
) -> list[dict[str, Any]]:
    """The *records* of a file completed, as :func:`run` does it."""
    functions = {kernel.function.name: kernel for kernel in kernels(path)}
    same = [r for r in records if r["entry"] in functions and functions[r["entry"]].digest == r["sha256"]]
    if len(same) < len(records):
        print(f"{path} has changed: {len(records) - len(same)} mutants left out", file=sys.stderr)
    if not same:
        return []
    data = functions[same[0]["entry"]].data
    before = {kind: lint(path, data, strict=kind) for kind in {strict, False}}
    return [_ask(path, before, functions[record["entry"]], record, assembler) for record in same]


def write(chosen: dict[Path, list[dict[str, Any]]], into: Path) -> int:
    """Write every mutant into the folder *into* as a file of its own; how many there are."""
    into.mkdir(parents=True, exist_ok=True)
    count = 0
    for path, records in chosen.items():
        data = path.read_bytes()
        for record in records:
            edits = tuple(Edit(Span(a, b), text) for a, b, text in record["edits"])
            (into / f"{count:05}-{path.name}").write_bytes(apply(data, edits))
            count += 1
    return count


def _ask(
    path: Path,
    reports: dict[bool, FileReport],
    kernel: Kernel,
    record: dict[str, Any],
    assembler: Assembler | None,
) -> dict[str, Any]:
    """*record* with what linting its mutant says. *reports* are those on the original, by whether they are strict; the
    strict one decides if there is one."""
    strict = max(reports)
    before = reports[strict]
    operator, places = OPERATORS[record["operator"]], frozenset(record["places"])
    edits = tuple(Edit(Span(a, b), text) for a, b, text in record["edits"])
    fault = Fault(edits, frozenset(), record["note"])
    changed = apply(kernel.data, edits)

    def asked(strict: bool = strict) -> Verdict:
        return verdict(reports[strict], lint(path, changed, strict=strict), operator.rules, places)

    began = process_time()
    said = asked()
    record = record | {"verdict": said.result, "new": said.new, "seconds": round(process_time() - began, 3)}
    if strict:
        record["default"] = asked(strict=False).result
    if proof := equivalent(kernel, fault):
        record |= {"equivalent": proof.reason, "manual": proof.manual}
    if said.result == "found":
        lines = {kernel.line(edit.span.start) for edit in edits}
        record["located"] = locations.located(Source(changed, str(path)), said.fitting, lines)
    else:
        if proof is None and operator.rules and assembler:
            record["code"] = assembler.compare(kernel.data, changed)
        known = frozenset[str]().union(*map(_about, before.findings))
        record["cause"] = cause(record, kernel, fault, operator, known)
    return record


def main() -> None:
    """Plant, lint, print the score."""
    parser = command_line("benchmarks.mutation", __doc__)
    parser.add_argument("folders", metavar="FOLDER", type=Path, nargs="*", help="kernels; the corpus if none")
    parser.add_argument(
        "--operator", default="", help="only operators whose name this regular expression finds"
    )
    parser.add_argument("--each", type=int, default=20, help="faults of each operator in a folder (20)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--files", type=int, help="draw so many files, and --each faults in each of them")
    parser.add_argument(
        "--largest", type=int, default=LARGEST, help=f"bytes of the largest of these ({LARGEST})"
    )
    parser.add_argument("--strict", action="store_true", help="lint with the setting of that name")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--output", type=Path, help="where the records go, one JSON object a line")
    parser.add_argument("--write", metavar="INTO", type=Path, help="write the mutants there, and lint none")
    parser.add_argument("--replay", type=Path, help="ask again about the mutants of an earlier run")
    parser.add_argument("--no-ptxas", action="store_true", help="do not ask ptxas about what was not found")
    parser.add_argument("--record", action="store_true", help="record the score for docs/results.md")
    options = parser.parse_args()
    folders: list[Path] = options.folders or [default_cache()]
    if missing := [folder for folder in folders if not folder.is_dir()]:
        sys.exit(f"{missing[0]} is not a folder")
    skipped = []
    assembler = None
    try:
        assembler = None if options.no_ptxas else Assembler(find(), PTXAS_SECONDS)
        name = assembler.name if assembler else ""
    except PtxasMissing as error:
        name = ""
        skipped.append(f"whether ptxas makes the same code of what was not found: {error}")
        print(skipped[-1], file=sys.stderr)
    wanted = re.compile(options.operator)
    chosen: dict[Path, list[dict[str, Any]]] = defaultdict(list)
    if options.replay:
        for line in options.replay.read_text().splitlines():
            record = json.loads(line)
            if wanted.search(record["operator"]):
                planted = {k: record[k] for k in _PLANTED}
                paths = [folder / record["file"] for folder in folders]
                chosen[next(filter(Path.exists, paths), paths[0])].append(planted)
    elif options.files:
        drawn = (options.each, options.seed, options.files, options.largest)
        chosen |= sample(folders, wanted, *drawn, strict=options.strict)
    else:
        for folder in folders:
            chosen.update(choose(folder, wanted, options.each, options.seed))
    if not chosen:
        sys.exit(f"no fault can be planted: no kernel in {', '.join(map(str, folders))} has a place for one")
    if options.write:
        print(f"{write(chosen, options.write)} mutants")
        return
    done: list[dict[str, Any]] = []
    with options.output.open("w") if options.output else nullcontext() as stream:
        for record in run(chosen, assembler if name else None, strict=options.strict, jobs=options.jobs):
            done.append(record)
            if stream:
                print(json.dumps(record), file=stream, flush=True)
    print(table(done))
    if lost := sum(map(len, chosen.values())) - len(done):
        skipped.append(f"{lost} changes in files that another build replaced meanwhile")
    if options.record:
        data = summary(done, each=options.each, seed=options.seed, assembler=name)
        results.save("mutation", data, {"ptxas": name.partition(" ")[2]} if name else {}, skipped)


if __name__ == "__main__":
    main()
