"""Does the ISA table say what ptxas says? Every form, every modifier, on a grid of versions and targets.

    python -m benchmarks.availability [--form tcgen05.] [--family matrix] [--limit 40] [--pairs] [--every-version] [--record]

The examples of each form, and its spellings (:mod:`benchmarks.spellings`) with operands found by trial. Each instruction
is judged by what tclint says that it requires (:mod:`tclint.ir.needs`) and by ptxas on every target it knows, at the
first ``.version`` that the table allows there, one step below it, 9.1 and the newest, or at every one. Printed are

* spellings that ptxas refuses everywhere, with its reason (a table too permissive, or operands not found),
* spellings that a ``combinations`` rule excludes and ptxas accepts (a table too strict),
* disagreements on availability: form, instruction, targets, version, which side accepts what,
* the scores: points that agree, and (form, modifier) pairs that agree on all points.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from benchmarks import results
from benchmarks.arguments import command_line
from benchmarks.ptxas import OLDEST, PRELUDE, Ptxas, before, find, needing_ptxas, without_target
from benchmarks.shapes import statement
from benchmarks.spellings import Spelling, operand_lists, spellings
from tclint.ir.frontend import analyse
from tclint.ir.needs import instruction_needs
from tclint.isa.forms import Form, Match
from tclint.isa.table import Table, table
from tclint.isa.target import RELEASED, Availability, Target, Version, dotted
from tclint.syntax.source import Source

NEWEST = RELEASED[-1]
GRID = ((9, 1), NEWEST)
EVERYWHERE: list[tuple[Version, str]] = [
    *((NEWEST, f"sm_{n}") for n in ("100a", "90a", "103a", "107a", "110a", "120a", "75")),
    (OLDEST, "sm_75"),
]
"""Places that together have every instruction ptxas 13.5 knows, also those that were removed later."""
FEW = 8
"""Operand lists for a spelling that the table excludes: nearly all of these are rightly excluded."""


# ---------------------------------------------------------------- asking ptxas


@dataclass
class Probe:
    """A spelling with the operands that ptxas takes, and what the table says about that text."""

    spelling: Spelling
    text: str = ""
    match: Match | None = None
    needed: Sequence[Availability] = ()
    refused: str = ""


def required(texts: Sequence[str]) -> list[tuple[Availability, ...]]:
    """What each of *texts*, instructions that the table knows, requires, as the checks of a kernel see it."""
    head = PRELUDE.format(version=dotted(NEWEST), target="sm_100a", wide=".reg .b128 %rq<16>;")
    source = Source("\n".join((head, *texts, "L0: L1: ret; }")).encode(), "grid.ptx")
    kernel = analyse(source)[0].functions[-1]
    *instructions, _ = kernel.instructions
    return [
        tuple(available for _, available in instruction_needs(kernel, instruction))
        for instruction, _ in zip(instructions, texts, strict=True)
    ]


def examples(forms: Sequence[Form], isa: Table) -> list[Probe]:
    """The examples of *forms*: they have operands with requirements of their own, which no modifier shows."""
    found = []
    for form in forms:
        for text in form.examples:
            match = isa.match(*statement(text))
            assert match is not None
            found.append(Probe(Spelling(form, match.syntax, match.modifiers, f"example {text}"), text, match))
    return found


_OPERANDS = re.compile(
    r"[Aa]rgument|[Aa]rray|[Oo]perand|expression|symbol|vector|crashes|mmediate|onstant|ddress|Parsing|Label|Call "
)
_PLACE = re.compile(r"\.target|PTX ISA|not supported on")


def find_operands(oracle: Ptxas, isa: Table, found: Sequence[Spelling], most: int) -> list[Probe]:
    """Give each spelling operands: the first operand list that ptxas takes somewhere, or its reason to refuse.

    The first list is tried everywhere, the others (at most *most*) where the table says that the instruction
    exists. ptxas looks at operands first, so an error about anything else ends the search.
    """
    probes = [Probe(spelling) for spelling in found]
    tries = [islice(operand_lists(s, isa), most if s.allowed else FEW) for s in found]
    hosts = [_hosts(spelling) for spelling in found]
    left, width = list(range(len(probes))), 1
    unreadable: dict[str, str] = {}  # what ptxas cannot read under one target, it cannot read under any
    while left:
        asked: dict[tuple[Version, str], list[tuple[int, str]]] = defaultdict(list)
        exhausted = set()
        for i in left:
            lists = list(islice(tries[i], width))
            if not lists:
                exhausted.add(i)
            lines = [f"{probes[i].spelling.opcode} {operands}".strip() + ";" for operands in lists]
            for version, name in hosts[i] if width > 1 else EVERYWHERE:
                asked[version, name + probes[i].spelling.mode] += [(i, line) for line in lines]
        for (version, target), pairs in asked.items():
            pairs = [(i, line) for i, line in pairs if not probes[i].text and line not in unreadable]
            errors = oracle.errors([line for _, line in pairs], version, target)
            for (i, line), error in zip(pairs, errors, strict=True):
                if not error:
                    probes[i].text = probes[i].text or line
                    continue
                if "syntax error" in error:
                    unreadable[line] = error
                if _weight(error) > _weight(probes[i].refused):
                    probes[i].refused = f"{error}   [{line}]"
        left = [
            i for i in left if i not in exhausted and not probes[i].text and _weight(probes[i].refused) < 3
        ]
        width = min(max(width * 4, 20), 400)
    for probe in probes:
        if probe.text:
            probe.refused = ""
            probe.match = isa.match(*statement(probe.text))
        elif not probe.refused:
            probe.refused = "no operands could be made"
    return probes


def _weight(error: str) -> int:
    """How much an error says about the spelling itself: 3 when it is neither about operands nor about the place."""
    return 0 if not error else 1 if _PLACE.search(error) else 2 if _OPERANDS.search(error) else 3


def _hosts(spelling: Spelling) -> list[tuple[Version, str]]:
    """One or two places where the table says that the instruction exists."""
    needed = [a for _, a in spelling.form.availability(spelling.modifiers)]
    found = [
        (version, name)
        for version, name in EVERYWHERE
        if (target := Target.parse(name)) and all(a.on(target) for a in needed)
    ]
    return [*found[:1], *found[-1:]] if len(found) > 1 else found or EVERYWHERE


def grid(probe: Probe, target: Target, every: bool = False) -> Iterator[tuple[Version, bool]]:
    """The versions to ask about under *target*, each with the table's verdict; *every*: all since it came."""
    needed = probe.needed
    oldest = max(target.introduced, OLDEST)
    versions = {*RELEASED} if every else {*GRID}
    if all(a.on(target) for a in needed):
        first = max(oldest, *(a.version_for(target) for a in needed))
        versions |= {first, before(first)}
    for version in sorted(versions):
        if oldest <= version <= NEWEST:
            yield version, not any(a.lacking(target, version) for a in needed)


def ask(
    oracle: Ptxas, probes: Sequence[Probe], every: bool = False
) -> list[tuple[Probe, Version, str, bool, str]]:
    """Every point of the grid: ``(probe, version, target, the table's verdict, ptxas' error)``."""
    batches: dict[tuple[Version, str], list[tuple[Probe, bool]]] = defaultdict(list)
    for name in oracle.targets:
        target = Target.parse(name)
        if target is None:
            continue
        for probe in probes:
            for version, verdict in grid(probe, target, every):
                batches[version, name + probe.spelling.mode].append((probe, verdict))

    def run(item: tuple[tuple[Version, str], list[tuple[Probe, bool]]]) -> list[str]:
        (version, name), points = item
        return oracle.errors([probe.text for probe, _ in points], version, name)

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(run, batches.items()))
    return [
        (probe, version, name.partition(",")[0], verdict, error)
        for ((version, name), points), errors in zip(batches.items(), answers, strict=True)
        for (probe, verdict), error in zip(points, errors, strict=True)
    ]


# ---------------------------------------------------------------- the report

TITLE = "Availability of instructions"
COMMAND = "python -m benchmarks.availability --every-version --record"
SLICE = "python -m benchmarks.availability --family mbarrier --family barrier --family wgmma"
ABOUT = """\
Every modifier of every syntax line of the ISA table, on every target that ptxas knows, at every `.version` since the
target came: does the table's answer (exists, or needs another target or version) equal that of ptxas?"""


def figure(data: Any) -> str:
    """How many points of the grid agree."""
    return (
        f"{data['agreed']:,} of {data['points']:,} points agree ({data['agreed'] / max(data['points'], 1):.4%}), over"
        f" {data['forms']} forms, {data['probed']:,} spellings, {len(data['targets'])} targets and"
        f" {len(data['versions'])} versions ({data['versions'][0]} to {data['versions'][-1]}). On all of its points"
        f" agree {data['whole']:,} of {data['pairs']:,} pairs of form and modifier."
    )


def tables(data: Any) -> list[str]:
    """The points of each family, and what differs."""
    head = ["family", "forms", "spellings", "points", "agree", "differ"]
    families = sorted(data["families"].items())
    rows = [
        [
            name,
            f["forms"],
            f"{f['probed']:,}",
            f"{f['points']:,}",
            f"{f['agreed']:,}",
            f["points"] - f["agreed"],
        ]
        for name, f in families
    ]
    lines = results.table(head, rows)
    rows = [[f"`{d['text']}`", d["who"], d["places"]] for d in data["differences"][:SHOWN]]
    lines += results.table(
        [f"differences ({len(data['differences'])})", "which side accepts what", "where"], rows
    )
    for key, about in (
        ("refused", "The table has it and ptxas refuses it everywhere with every operand list tried"),
        ("excluded", "ptxas accepts it and a combination rule of the table excludes it"),
        ("operands", "ptxas takes operands that the table does not"),
    ):
        found = [f"`{text.partition(' ')[0]}`" for _, text in data[key]]
        some = ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
        lines.append(f"- {about}: {len(found)}{': ' if found else ''}{some}")
    return lines


SHOWN = 20
"""Differences, and spellings of a kind, on the results page; the record has all."""


def _short(names: Sequence[str], targets: Sequence[str]) -> str:
    if len(names) == len(targets):
        return "every target"
    if len(names) > len(targets) * 2 // 3:
        return "all but " + " ".join(t for t in targets if t not in names)
    return " ".join(names)


def measure(oracle: Ptxas, forms: Sequence[Form], pairs: bool, most: int, every: bool) -> dict[str, Any]:
    """Ask about *forms*; what :func:`tables` shows, and every difference. *every*: at every version."""
    isa = table()
    found = [s for form in forms for line in form.syntax for s in spellings(form, line, pairs)]
    found = [s for s in found if s.allowed or not isa.candidates(s.opcode)]
    probes = [*find_operands(oracle, isa, found, most), *examples(forms, isa)]
    usable = [p for p in probes if p.spelling.allowed and p.text]
    unfit = [p for p in usable if p.match is None or p.match.problem]
    usable = [p for p in usable if p.match is not None and not p.match.problem]
    for probe, needed in zip(usable, required([p.text for p in usable]), strict=True):
        probe.needed = needed
    points = ask(oracle, usable, every)
    wrong: dict[tuple[str, str, str], dict[Version, list[str]]] = defaultdict(lambda: defaultdict(list))
    about: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    families: dict[str, Counter[str]] = defaultdict(Counter)
    for form in forms:
        families[form.family]["forms"] += 1
    for probe in usable:
        families[probe.spelling.form.family]["probed"] += 1
    for probe, version, name, verdict, error in points:
        form = probe.spelling.form
        agree = verdict == (not error)
        families[form.family].update(points=1, agreed=agree)
        score = about[form.name, probe.spelling.about]
        score[0] += agree
        score[1] += 1
        if agree:
            continue
        who = f"table: yes, ptxas: {without_target(error)}" if verdict else "table: NO, ptxas: accepts"
        if name not in wrong[form.name, probe.text, who][version]:
            wrong[form.name, probe.text, who][version].append(name)
    differences = []
    for (name, text, who), at in sorted(wrong.items()):
        places = "; ".join(
            f"{dotted(version)} {_short(names, oracle.targets)}" for version, names in sorted(at.items())
        )
        differences.append({"form": name, "text": text, "who": who, "places": places})
    return {
        "targets": list(oracle.targets),
        "versions": [dotted(v) for v in sorted({version for _, version, *_ in points})],
        "forms": len(forms),
        "spellings": len(found),
        "probed": len(usable),
        "points": len(points),
        "agreed": sum(good for good, _ in about.values()),
        "pairs": len(about),
        "whole": sum(good == total for good, total in about.values()),
        "families": families,
        "differences": differences,
        "refused": [(p.refused, p.spelling.opcode) for p in probes if p.spelling.allowed and not p.text],
        "excluded": [(p.spelling.form.name, p.text) for p in probes if not p.spelling.allowed and p.text],
        "operands": [(p.match.problem if p.match else "no form", p.text) for p in unfit],
    }


def report(data: Mapping[str, Any], limit: int) -> None:
    """Print what :func:`measure` found, *limit* differences of each form."""
    print("\ntable accepts, ptxas refuses everywhere:")
    for why, opcode in data["refused"]:
        print(f"  {opcode} - {why}")
    print("\nptxas accepts, a combination rule of the table refuses:")
    for form, text in data["excluded"]:
        print(f"  {form}: {text}")
    print("\noperands that ptxas takes and the table does not:")
    for problem, text in data["operands"]:
        print(f"  {text} - {problem}")
    print("\navailability:")
    shown: Counter[str] = Counter()
    for d in data["differences"]:
        shown[d["form"]] += 1
        if shown[d["form"]] <= limit:
            print(f"  {d['form']}: {d['text']}\n      {d['who']}\n      at {d['places']}")
    if hidden := sum(max(n - limit, 0) for n in shown.values()):
        print(f"  ... and {hidden} more (--limit)")
    share = data["agreed"] / max(data["points"], 1)
    print(f"points that agree: {data['agreed']} of {data['points']} ({share:.4%})")
    print(f"(form, modifier) pairs that agree on all points: {data['whole']} of {data['pairs']}")


def main() -> None:
    """Run the grid; exit 1 when less than 99.9 % of the points agree."""
    arguments = command_line("benchmarks.availability", __doc__)
    arguments.add_argument(
        "--form", action="append", default=[], help="only forms whose name starts so (repeatable)"
    )
    arguments.add_argument("--family", action="append", default=[], help="only this TOML file (repeatable)")
    arguments.add_argument("--limit", type=int, default=12, help="disagreements shown per form (default 12)")
    arguments.add_argument("--pairs", action="store_true", help="vary two modifiers at a time (slow)")
    arguments.add_argument(
        "--most", type=int, default=800, help="operand lists tried per spelling (default 800)"
    )
    arguments.add_argument(
        "--every-version", action="store_true", help="ask at every .version (a few minutes)"
    )
    arguments.add_argument("--record", action="store_true", help="keep the result for docs/results.md")
    options = arguments.parse_args()
    started = time.monotonic()
    with needing_ptxas():
        oracle = find()
        print(f"ptxas {oracle.release}, {len(oracle.targets)} targets")
    forms = [
        form
        for form in table()
        if (not options.form or form.name.startswith(tuple(options.form)))
        and (not options.family or form.family in options.family)
    ]
    data = measure(oracle, forms, options.pairs, options.most, options.every_version)
    report(data, options.limit)
    print(
        f"{len(forms)} forms, {data['spellings']} spellings, {data['probed']} probed,"
        f" {time.monotonic() - started:.0f} s"
    )
    if options.record:
        results.save("availability", data, {"ptxas": oracle.release})
    sys.exit(data["agreed"] < 0.999 * data["points"])


if __name__ == "__main__":
    main()
