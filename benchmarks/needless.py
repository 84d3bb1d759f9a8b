"""Does the family CO note what is needed, and does it find what is not?

    python -m benchmarks.needless [FOLDER...] [--each 40] [--needed 400] [--seed 7] [--record]
    python -m benchmarks.needless [FOLDER...] --draw 60 [--seed 7]

*Needed*: a wait or a fence is taken out of a kernel in which the rules about these find nothing. If they then find the
fault (:mod:`benchmarks.faults`), the instruction was needed, and a note that it is needless is wrong.

*Planted*: a wait or a proxy fence is executed again, where it follows or as late in its block as nothing of its group
has been issued or committed; a fence is widened; a poll is made busy. Each is needless by construction, and *found* if
the rule that is about it notes the line.

With *--draw*, it lists notes on the kernels as they are, drawn by the seed, to be read against the PTX. What was read is in
``needless.tsv``.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import mutation, results
from benchmarks.arguments import command_line
from benchmarks.corpus.builder import default_cache
from benchmarks.faults import OPERATORS, Kernel, apply
from tclint.findings.edits import joined
from tclint.findings.finding import Edit, FileReport
from tclint.findings.moved import subjects
from tclint.findings.scales import Severity
from tclint.findings.selection import Request, Selected
from tclint.findings.spans import Span
from tclint.ir.cfg import CFG
from tclint.isa.effects import SELF_AWAITED
from tclint.linting.check import check_source
from tclint.syntax.source import Source

__all__ = ["ABOUT", "COMMAND", "PLANTS", "SLICE", "TITLE", "figure", "main", "measure", "tables"]

TITLE = "Synchronisation that is not needed"
COMMAND = "python -m benchmarks.needless --record"
SLICE = "python -m benchmarks.needless fixtures/kernels --each 2 --needed 6"
ABOUT = """\
The rules of the family CO note waits and fences that are not needed. A wait or a fence is taken out of real kernels; where
tclint finds the fault, the instruction was needed. Needless ones are planted into the same kernels."""

LARGEST = 120_000
"""Bytes of the largest file that is changed."""
NEEDLESS = ("CO001", "CO003", "CO004", "CO005")
"""The rules that call an instruction, or its scope, needless. The others say that it is early, or waits for too much."""
DELETIONS = re.compile(
    r"^(wgmma\.wait_group|cp\.async\.wait|bulk wait_group|tcgen05\.wait::\w+|proxy fence) deleted$"
)
PER_KERNEL = 4
"""The places of one operator in one kernel."""

Place = tuple[Edit, int]
"""A change, and the instruction that is needless after it."""


def _again(kernel: Kernel, sites: Iterable[int]) -> Iterator[Place]:
    """An instruction, executed twice in a row."""
    for site in sites:
        text, end = kernel.flat(site), kernel.span(site).end
        if text is not None:
            yield Edit(Span(end, end), f" {text}"), site


def _later(kernel: Kernel, group: str) -> Iterator[Place]:
    """A wait, executed again as late in its block as its group has no new operation."""
    cfg, members = CFG(kernel.function), kernel.of_group(group)
    for site in kernel.sites("wait", group):
        last = site
        for i in range(site + 1, cfg.blocks[cfg.block_of[site]].end):
            if i in members or kernel.instructions[i].flow:
                break
            last = i
        text, end = kernel.flat(site), kernel.span(last).end
        if text is not None and kernel.instructions[site].guard < 0 and last > site:
            yield Edit(Span(end, end), f" {text}"), last


def _waits(group: str) -> Callable[[Kernel], Iterator[Place]]:
    return lambda kernel: _again(kernel, kernel.sites("wait", group))


def _waits_later(group: str) -> Callable[[Kernel], Iterator[Place]]:
    return lambda kernel: _later(kernel, group)


def _proxy_fences(kernel: Kernel) -> list[int]:
    return sorted(kernel.where(lambda m: m.form.event == "proxy-fence" and m.form.proxy == "async"))


def _widened(kernel: Kernel) -> Iterator[Place]:
    """A proxy fence for all state spaces, in a kernel that writes global memory through the async proxy alone."""
    if kernel.where(
        lambda m: m.space in ("", ".global") and any(verb == "write" for verb, _ in m.form.memory)
    ):
        return
    for site in _proxy_fences(kernel):
        edit = kernel.rewrite(site, r"\.shared::cta", "")
        if edit is not None:
            yield edit, site


def _busy(kernel: Kernel) -> Iterator[Place]:
    """A poll by test_wait, in a loop."""
    cfg = CFG(kernel.function)
    for site in kernel.sites("mbarrier-wait"):
        edit = kernel.rewrite(site, r"\btry_wait\b", "test_wait")
        if edit is not None and edit.text.count(",") < 3 and cfg.block_of[site] in cfg.in_cycle:
            yield edit, site


PLANTS: dict[str, tuple[str, Callable[[Kernel], Iterator[Place]]]] = {
    **{f"{group} wait twice": ("CO001", _waits(group)) for group in SELF_AWAITED},
    **{f"{group} wait after the fact": ("CO001", _waits_later(group)) for group in SELF_AWAITED},
    "proxy fence twice": ("CO003", lambda kernel: _again(kernel, _proxy_fences(kernel))),
    "proxy fence widened": ("CO004", _widened),
    "poll made busy": ("CO007", _busy),
}
"""What is planted -> the rule that is about it, and its places."""


def noted(path: Path, data: bytes, rules: Iterable[str] = NEEDLESS) -> set[tuple[str, int]]:
    """The notes of *rules* on a text: rule and line."""
    report = check_source(Source(data, str(path)), Request(Selected(rules=subjects(rules))))
    source = report.source
    assert source is not None
    return {(f.rule.id, source.position(f.span.start).line) for f in report.findings}


def _files(folders: Iterable[Path], rng: random.Random) -> list[Path]:
    found = [p for folder in folders for p in sorted(folder.rglob("*.ptx")) if p.stat().st_size <= LARGEST]
    rng.shuffle(found)
    return found


def planted(files: Iterable[Path], each: int) -> list[dict[str, Any]]:
    """What was planted, *each* times for every kind, and whether it was found."""
    taken, rows = Counter[str](), list[dict[str, Any]]()
    for path in files:
        wanted = [name for name in PLANTS if taken[name] < each]
        if not wanted:
            break
        for kernel in mutation.kernels(path):
            for name in wanted if kernel.function.entry else ():
                rule, plant = PLANTS[name]
                for edit, site in list(plant(kernel))[: min(2, each - taken[name])]:
                    line = kernel.line(kernel.span(site).end)
                    found = (rule, line) in noted(path, joined(kernel.data, (edit,)), (rule,))
                    taken[name] += 1
                    rows.append({"plant": name, "file": _short(path), "line": line, "found": found})
    return rows


def needed(files: Iterable[Path], most: int) -> list[dict[str, Any]]:
    """At least *most* instructions whose deletion tclint finds, and whether a note calls them needless."""
    rows = list[dict[str, Any]]()
    for path in files:
        if len(rows) >= most:
            break
        places = list(_deletions(path))
        if not places:
            continue
        data = path.read_bytes()
        before = _asked(path, data)
        if any(f.severity > Severity.INFO for f in before.findings) or before.problems:
            continue
        notes = {line for _, line in noted(path, data)}
        for name, kernel, fault in places:
            rules = OPERATORS[name].rules
            after = _asked(path, apply(kernel.data, fault.edits))
            lines = frozenset(kernel.line(kernel.span(i).start) for i in fault.places)
            if _exposed(before, after, rules, lines):
                line = kernel.line(fault.edits[0].span.start)
                rows.append({"operator": name, "file": _short(path), "line": line, "noted": line in notes})
    return rows


def _deletions(path: Path) -> Iterator[tuple[str, Kernel, Any]]:
    for kernel in mutation.kernels(path):
        for name, each in OPERATORS.items() if kernel.function.entry else ():
            if DELETIONS.match(name):
                yield from ((name, kernel, fault) for fault in list(each.plant(kernel))[:PER_KERNEL])


def _asked(path: Path, data: bytes) -> FileReport:
    """What the rules about the deletions find; what a replay alone shows is left out, as it takes longest."""
    about = frozenset().union(*(OPERATORS[name].rules for name in OPERATORS if DELETIONS.match(name)))
    return check_source(Source(data, str(path)), Request(Selected(rules=about - {"MB016"})))


def _exposed(before: FileReport, after: FileReport, rules: frozenset[str], lines: frozenset[int]) -> bool:
    return mutation.verdict(before, after, rules, lines).result in ("found", "note")


def _short(path: Path) -> str:
    return "/".join(path.parts[-2:])


def measure(folders: Iterable[Path], each: int, most: int, seed: int) -> dict[str, Any]:
    """What was planted and what is needed, in the files below *folders*."""
    files = _files(folders, random.Random(seed))
    return {"seed": seed, "planted": planted(files, each), "needed": needed(files, most)}


def figure(data: dict[str, Any]) -> str:
    """What is noted of what is needed, and of what is not."""
    planted = [row["found"] for row in data["planted"]]
    wrong = sum(row["noted"] for row in data["needed"])
    return (
        f"Of {len(data['needed'])} instructions that are needed, {wrong} have a note that calls them needless. Of "
        f"{len(planted)} needless ones that were planted, {sum(planted)} are found."
    )


def tables(data: dict[str, Any]) -> list[str]:
    """The same by operator and by plant."""
    kinds: dict[str, list[bool]] = defaultdict(list)
    for row in data["planted"]:
        kinds[row["plant"]].append(row["found"])
    operators: dict[str, list[bool]] = defaultdict(list)
    for row in data["needed"]:
        operators[row["operator"]].append(row["noted"])
    return [
        "| needed: its deletion is found | instructions | noted |",
        "|---|---|---|",
        *(f"| {name} | {len(said)} | {sum(said)} |" for name, said in sorted(operators.items())),
        "",
        "| planted | places | found |",
        "|---|---|---|",
        *(
            f"| {name} ({PLANTS[name][0]}) | {len(kinds[name])} | {sum(kinds[name])} |"
            for name in PLANTS
            if kinds[name]
        ),
    ]


def notes(folders: Iterable[Path], draw: int, seed: int) -> list[tuple[str, str, int, str]]:
    """*draw* notes of the family on the files below *folders*: rule, file, line, message."""
    on, found = Selected(rules=subjects(_family())), list[tuple[str, str, int, str]]()
    for path in _files(folders, random.Random(seed)):
        report = check_source(Source(path.read_bytes(), str(path)), Request(on))
        source = report.source
        assert source is not None
        for f in report.findings:
            found.append((f.rule.id, str(path), source.position(f.span.start).line, f.message))
    return random.Random(seed).sample(found, min(draw, len(found)))


def _family() -> frozenset[str]:
    return frozenset((*NEEDLESS, "CO002", "CO006", "CO007", "CO008", "CO009"))


def main(arguments: list[str] | None = None) -> int:
    """Measure, or draw notes; the exit status."""
    parser = command_line("benchmarks.needless", __doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--each", type=int, default=40, help="places of each kind that is planted (40)")
    parser.add_argument("--needed", type=int, default=400, help="needed instructions to ask about (400)")
    parser.add_argument("--draw", type=int, help="list this many notes on the kernels as they are instead")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--record", action="store_true", help="write the record and the page of results")
    options = parser.parse_args(arguments)
    folders = options.folders or [default_cache() / "ptx"]
    if options.draw is not None:
        for row in notes(folders, options.draw, options.seed):
            print(*row, sep="\t")
        return 0
    data = measure(folders, options.each, options.needed, options.seed)
    print(figure(data), "", *tables(data), sep="\n")
    for row in data["needed"]:
        if row["noted"]:
            print(f"{row['file']}, line {row['line']}: needed, and noted", file=sys.stderr)
    if options.record:
        results.save("needless", data, {}, [])
    return 0


if __name__ == "__main__":
    sys.exit(main())
