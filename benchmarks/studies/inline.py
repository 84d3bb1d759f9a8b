"""Inline assembly of real sources: what tclint says of each string, and what ptxas says of the same module.

``python -m benchmarks.studies.inline NAME=FOLDER...`` prints a row for each source: files, strings, strings with unknown pieces,
findings, and how often tclint and ptxas agree on the strings that are wholly known. A string counts as taken by ptxas if
it takes it for one of ``TARGETS``. With ``--plant N``, N strings that both take are damaged in each of five ways, and
it is counted how many of those damages that ptxas refuses are found.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tclint.findings.finding import FileReport
from tclint.findings.scales import Confidence
from tclint.findings.selection import Selected
from tclint.findings.spans import Span
from tclint.inline import module as inline
from tclint.inline.asm import Asm, AsmOperand
from tclint.inline.hosts import is_host
from tclint.inline.text import Text
from tclint.isa.target import TOOLKITS
from tclint.syntax.source import Source, SourceError

TARGETS = ("sm_100a", "sm_90a", "sm_120a", "sm_107a", "sm_103a", "sm_80", "sm_75")
PTXAS = os.environ.get("TCLINT_PTXAS", "ptxas")
_LINE = re.compile(r", line (\d+); (?:error|fatal)")


def sources(folder: Path) -> Iterator[Source]:
    """The files of a folder that may have inline assembly."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and is_host(path.name):
            try:
                yield Source.read(path)
            except SourceError:
                continue


def refused(strings: Sequence[Asm], target: str) -> set[int]:
    """The numbers of the *strings* that ptxas does not take for *target*."""
    wrong: set[int] = set()
    while True:
        left = [number for number in range(len(strings)) if number not in wrong]
        if not left:
            return wrong
        data, placed = inline.modules([strings[number] for number in left], target, max(TOOLKITS.values()))
        said = _assemble(data, target)
        if said is None:
            return wrong
        starts = [data.count(b"\n", 0, one.start) for one in placed]
        found = {
            max(at for at, start in enumerate(starts) if start < int(line))
            for line in _LINE.findall(said)
            if int(line) > starts[0]
        }
        if not found:  # an error without a line: halve
            if len(left) == 1:
                return wrong | set(left)
            middle = len(left) // 2
            for half in (left[:middle], left[middle:]):
                wrong |= {half[at] for at in refused([strings[number] for number in half], target)}
            return wrong
        wrong |= {left[at] for at in found}


def _assemble(data: bytes, target: str) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "strings.ptx")
        path.write_bytes(data)
        command = [PTXAS, "-arch", target, "-O0", "-o", os.devnull, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stdout + done.stderr


def taken(strings: Sequence[Asm]) -> list[bool]:
    """Whether ptxas takes each of the *strings* for one of the targets."""
    left = list(range(len(strings)))
    for target in TARGETS:
        wrong = refused([strings[number] for number in left], target)
        left = [left[at] for at in sorted(wrong)]
        if not left:
            break
    return [number not in left for number in range(len(strings))]


def reported(report: FileReport, span: Span) -> bool:
    """Whether there is a problem in the string at *span*, or a finding that is shown and not about its statement (IA)."""
    assert report.source is not None
    first, last = report.source.position(span.start).line, report.source.position(span.end).line
    return any(
        span.start <= finding.span.start < span.end
        and not finding.rule.id.startswith("IA")
        and not Selected().hidden(report, finding)
        for finding in report.findings
    ) or any(first <= problem.line <= last for problem in report.problems)


def measure(name: str, folder: Path) -> list[tuple[Source, Asm]]:
    """Print the row of a source; the strings that both take."""
    files = unknown = findings = 0
    known: list[tuple[Source, Asm, bool]] = []
    for source in sources(folder):
        report = inline.check(source)
        if report.asm is None or not report.asm.strings:
            continue
        files += 1
        unknown += report.asm.unknown
        findings += sum(f.confidence > Confidence.LOW for f in report.findings) + len(report.problems)
        for asm, ptx in inline.strings(source):
            if ptx.whole and not ptx.values:  # ptxas would judge values that were made up
                known.append((source, asm, reported(report, asm.statement)))
    good = taken([asm for _, asm, _ in known])
    both = sum(ok and not said for ok, (_, _, said) in zip(good, known, strict=True))
    neither = sum(not ok and said for ok, (_, _, said) in zip(good, known, strict=True))
    false = [(s, a) for ok, (s, a, said) in zip(good, known, strict=True) if ok and said]
    missed = [(s, a) for ok, (s, a, said) in zip(good, known, strict=True) if not ok and not said]
    print(
        f"| {name} | {files} | {len(known)} | {unknown} | {findings} | {both} | {neither} | {len(false)} | {len(missed)} |",
        flush=True,
    )
    for title, several in (("ptxas takes", false), ("ptxas refuses", missed)):
        for source, asm in several[:12]:
            line = source.position(asm.statement.start).line
            print(f"  {title}: {source.path}:{line}: {bytes(asm.template.data)[:90]!r}")
    return [(s, a) for ok, (s, a, said) in zip(good, known, strict=True) if ok and not said]


_OPCODE = re.compile(rb"(?:^|[;{}\n])\s*(?:@!?\w+\s+)?([a-z]\w+(?:(?:\.|::)\w+)+)\s")


def damaged(text: bytes, how: str, chance: random.Random) -> bytes | None:
    """The string with a mistake in one of its instructions; None where there is no place for it."""
    if not (opcodes := list(_OPCODE.finditer(text))):
        return None
    match = chance.choice(opcodes)
    opcode, at = match[1], match.start(1)
    if how == "typo in the opcode":
        root = opcode.partition(b".")[0]
        made = root[:-2] + root[-1:] + root[-2:-1]
        return None if made == root else text[:at] + made + text[at + len(root) :]
    if how == "wrong modifier":
        word: bytes = chance.choice(opcode.split(b".")[1:])
        place = at + opcode.index(b"." + word) + 1
        return text[:place] + word[:-1] + b"x" + text[place + len(word) :]
    end = text.find(b";", match.end())
    if end < 0:
        return None
    if how == "dropped operand":
        comma = text.rfind(b",", match.end(), end)
        return None if comma < 0 or b"}" in text[comma:end] else text[:comma] + text[end:]
    number = re.compile(rb"[%$]\d+").search(text, match.end(), end)
    if number is None:
        return None
    return text[: number.start() + 1] + b"99" + text[number.end() :]


CONSTRAINT = "constraint of another size"
WAYS = ("typo in the opcode", "wrong modifier", "dropped operand", CONSTRAINT, "operand that is not there")
_OTHER_SIZE = {"h": "r", "r": "l", "l": "r", "f": "d", "d": "f"}


def resized(operands: tuple[AsmOperand, ...] | None, chance: random.Random) -> tuple[AsmOperand, ...] | None:
    """The operands with one register of another size; None where there is none."""
    places = [at for at, one in enumerate(operands or ()) if one.constraint[-1:] in _OTHER_SIZE]
    if operands is None or not places:
        return None
    at = chance.choice(places)
    constraint = operands[at].constraint
    other = replace(operands[at], constraint=constraint[:-1] + _OTHER_SIZE[constraint[-1]])
    return (*operands[:at], other, *operands[at + 1 :])


def _damaged(asm: Asm, way: str, chance: random.Random) -> Asm | None:
    """The string by itself, with a mistake in it or in its operands; None where there is no place for it."""
    text: bytes | None = bytes(asm.template.data)
    operands = asm.operands
    if way == CONSTRAINT:
        operands = resized(operands, chance)
        if operands is None:
            return None
    else:
        text = damaged(bytes(asm.template.data), way, chance)
    if text is None:
        return None
    span = Span(0, len(text))
    template = Text()
    template.add(text, span)
    return replace(asm, statement=span, template=template, operands=operands, scope=None, conditions=())


def plant(strings: Sequence[tuple[Source, Asm]], count: int) -> None:
    """Damage *count* strings in each way, and print how many of those that ptxas refuses are found."""
    chance = random.Random(1)
    for way in WAYS:
        made: list[Asm] = []
        for _, asm in chance.sample(list(strings), len(strings)):
            if asm.dialect != "module" and len(made) < count and (wrong := _damaged(asm, way, chance)):
                made.append(wrong)
        good = taken(made)
        # What has no operand never gets to ptxas: the compiler refuses it.
        bad = [asm for asm, ok in zip(made, good, strict=True) if not ok or way == WAYS[-1]]
        found = sum(inline.has_findings(asm) for asm in bad)
        print(f"| {way} | {len(made)} | {len(bad)} | {found} |", flush=True)
        for asm in [asm for asm in bad if not inline.has_findings(asm)][:6]:
            print(f"  missed: {bytes(asm.template.data)[:150]!r}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--plant", type=int, default=0, metavar="N")
    arguments = parser.parse_args()
    print(
        "| source | files | strings | unknown | findings | both take | both refuse | only ptxas takes | only tclint takes |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    strings: list[tuple[Source, Asm]] = []
    for text in arguments.sources:
        name, _, folder = text.partition("=")
        strings += measure(name, Path(folder))
    if arguments.plant:
        print("| damage | planted | refused | found |\n|---|---|---|---|")
        plant(strings, arguments.plant)


if __name__ == "__main__":
    main()
