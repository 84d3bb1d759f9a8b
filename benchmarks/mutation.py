"""Plant one fault at a time in real kernels and count how many tclint finds.

    python -m benchmarks.mutation FOLDER [--operator REGEX] [--each 40] [--seed 7] [--output FILE.jsonl]

FOLDER has a subfolder of ``.ptx`` files for each producer. A fault is *found* when linting the changed kernel gives a
finding that the original does not have, of a rule that is about the operator, at the right place: the finding or one of
its steps lies on an instruction that the fault concerns. ``note`` and ``low`` are the same with severity info, or with
low confidence; ``other`` is a new finding of another rule or elsewhere; ``missed`` is none.

The places are drawn with a fixed seed, evenly over producers and kernels. The records are written one JSON object a
line, with the edits, so that a later version of tclint can be asked again: ``--replay FILE.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks.faults import OPERATORS, Fault, Kernel, apply
from tclint.driver import analyse, check_source
from tclint.finding import Confidence, Edit, FileReport, Finding, Severity, Span
from tclint.source import Source, SourceError

__all__ = ["main", "verdict"]

LARGEST = 400_000
"""Bytes of the largest file that is changed: a few hundred mutants of each size are linted."""
FILES = 40
"""Files of a producer that places are drawn from."""


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


def lint(path: Path, data: bytes) -> FileReport:
    return check_source(Source(data, str(path)))


def _key(report: FileReport, finding: Finding) -> tuple[Any, ...]:
    """What makes a finding the same one in the original and in a mutant, whose lines are the same."""
    assert report.source is not None
    line = report.source.position(finding.span.start).line
    return finding.rule.id, line, finding.severity, finding.confidence, finding.message


def verdict(
    before: FileReport, after: FileReport, rules: frozenset[str], lines: frozenset[int]
) -> tuple[str, list[str]]:
    """``found``, ``note``, ``low``, ``other``, ``refused`` or ``missed``, and the new findings in words.

    *lines* are the right places; empty: anywhere.
    """
    assert before.source is not None
    assert after.source is not None
    known = Counter(_key(before, finding) for finding in before.findings)
    fresh = []
    for finding in after.findings:
        key = _key(after, finding)
        if known[key]:
            known[key] -= 1
        else:
            fresh.append(finding)
    said = [
        f"{f.rule.id} {f.severity.label}/{f.confidence.label} "
        f"line {after.source.position(f.span.start).line}: {f.message}"
        for f in fresh
    ]

    def place(finding: Finding) -> bool:
        spans = [finding.span, *(step.span for step in finding.steps)]
        return not lines or any(after.source.position(s.start).line in lines for s in spans)  # type: ignore[union-attr]

    fitting = [f for f in fresh if f.rule.id in rules and place(f)]
    if any(f.confidence > Confidence.LOW and f.severity > Severity.INFO for f in fitting):
        return "found", said
    if fitting:
        return ("note" if any(f.confidence > Confidence.LOW for f in fitting) else "low"), said
    if fresh:
        return "other", said
    return ("refused" if after.problems and not before.problems else "missed"), said


def choose(
    folder: Path,
    wanted: re.Pattern[str],
    each: int,
    seed: int,
    containing: re.Pattern[bytes] = re.compile(b""),
) -> dict[Path, list[dict[str, Any]]]:
    """Places for *each* faults of every operator: ``{file: [record, ...]}``.

    Files in which *containing* is not found are left out.
    """
    rng = random.Random(seed)
    operators = [o for o in OPERATORS.values() if wanted.search(o.name)]
    pools: dict[str, dict[str, dict[Path, list[dict[str, Any]]]]] = {
        o.name: defaultdict(lambda: defaultdict(list)) for o in operators
    }
    for producer in sorted(p for p in folder.iterdir() if p.is_dir()):
        files = [p for p in sorted(producer.glob("*.ptx")) if p.stat().st_size <= LARGEST]
        files = [p for p in files if containing.search(p.read_bytes())]
        rng.shuffle(files)
        files.sort(key=lambda p: not re.search(rb"wgmma|tcgen05|cp\.async", p.read_bytes()))
        for path in files[:FILES]:
            for kernel in kernels(path):
                for o in operators:
                    for fault in o.plant(kernel):
                        record = _record(o.name, producer.name, path.relative_to(folder), kernel, fault)
                        pools[o.name][producer.name][path].append(record)
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


def _in_turn(files: dict[Path, list[dict[str, Any]]], rng: random.Random) -> Iterator[dict[str, Any]]:
    """One place of each file, then a second one of each, and so on."""
    lists = [rng.sample(records, len(records)) for _, records in sorted(files.items())]
    rng.shuffle(lists)
    while lists:
        for records in lists:
            yield records.pop()
        lists = [records for records in lists if records]


def _record(name: str, producer: str, path: Path, kernel: Kernel, fault: Fault) -> dict[str, Any]:
    def line(offset: int) -> int:
        return kernel.data.count(b"\n", 0, offset) + 1

    return {
        "operator": name,
        "producer": producer,
        "file": str(path),
        "entry": kernel.function.name,
        "line": line(fault.edits[0].span.start),
        "note": fault.note,
        "places": sorted({line(kernel.span(i).start) for i in fault.places}),
        "edits": [(e.span.start, e.span.end, e.text) for e in fault.edits],
    }


def run(folder: Path, chosen: dict[Path, list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Lint every mutant and complete its record."""
    for path, records in chosen.items():
        data = path.read_bytes()
        before = lint(path, data)
        for record in records:
            edits = tuple(Edit(Span(a, b), text) for a, b, text in record["edits"])
            began = process_time()
            after = lint(path, apply(data, edits))
            rules = OPERATORS[record["operator"]].rules
            result, said = verdict(before, after, rules, frozenset(record["places"]))
            yield record | {"verdict": result, "new": said, "seconds": round(process_time() - began, 3)}


def table(records: Iterable[dict[str, Any]]) -> str:
    """The score by operator, as Markdown."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        counts[record["operator"]][record["verdict"]] += 1
    columns = ("found", "note", "low", "other", "refused", "missed")
    lines = [
        "| operator | planted | " + " | ".join(columns) + " |",
        "|---|" + "---:|" * (1 + len(columns)),
    ]
    for name in OPERATORS:
        if name in counts:
            row = [name, str(sum(counts[name].values())), *(str(counts[name][c]) for c in columns)]
            lines.append(f"| {' | '.join(row)} |" + ("" if OPERATORS[name].rules else " no rule yet"))
    return "\n".join(lines)


def main() -> None:
    """Plant, lint, print the score."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--operator", default="", help="only operators whose name this regular expression finds"
    )
    parser.add_argument("--each", type=int, default=40, help="faults of each operator (40)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--output", type=Path, help="where the records go, one JSON object a line")
    parser.add_argument("--replay", type=Path, help="ask again about the mutants of an earlier run")
    options = parser.parse_args()
    if not options.folder.is_dir():
        sys.exit(f"{options.folder} is no folder")
    wanted = re.compile(options.operator)
    if options.replay:
        chosen: dict[Path, list[dict[str, Any]]] = defaultdict(list)
        for line in options.replay.read_text().splitlines():
            record = json.loads(line)
            if wanted.search(record["operator"]):
                chosen[options.folder / record["file"]].append(record)
    else:
        chosen = choose(options.folder, wanted, options.each, options.seed)
    done = []
    with options.output.open("w") if options.output else nullcontext() as stream:
        for record in run(options.folder, chosen):
            done.append(record)
            if stream:
                print(json.dumps(record), file=stream, flush=True)
    print(table(done))


if __name__ == "__main__":
    main()
