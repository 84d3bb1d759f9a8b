"""Lints the examples of NVIDIA's PTX ISA manual: no error but in those that the manual itself calls wrong.

    python -m benchmarks.manual PATH

PATH is a checkout of the manual as Markdown; nothing of it is kept here. An example is what follows a line ``Examples``
(or ``Example``) up to the next heading. It is linted as the body of a function, or one statement at a time if it has
pieces that are no PTX, for the first target of :data:`TARGETS` that has all of its instructions. The names that it
uses are declared by the types of the instructions that use them, so what depends on declarations is not reported
(:data:`UNDECIDED`). Exit status 0 if there is no other error than those of :data:`WRONG`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tclint.findings.finding import FileReport
from tclint.findings.scales import Confidence, Severity
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.isa.target import KNOWN, dotted
from tclint.linting.check import check_source
from tclint.syntax.source import Source

__all__ = ["WRONG", "Example", "errors", "examples", "main"]

TARGETS = ("sm_100a", "sm_90a", "sm_103a", "sm_120a", "sm_110a", "sm_75")
"""The targets that are tried, in this order."""
UNDECIDED = frozenset(("PX003", "PX005", "PX006", "PX007"))
"""Rules whose findings depend on declarations, which examples leave out."""
WRONG: Mapping[str, str] = {
    "10.2": "mad.u32 lacks .lo or .hi",
    "11.2.2": "other is a placeholder",
    "9.7.1.19": "bfe has no type .b32",
    "9.7.3.7": "mad.f32 without rounding is of sm_1x",
    "9.7.5.3": "repeats .sat; ptxas accepts that",
    "9.7.9.5": "shfl without .sync, of targets before sm_70",
    "9.7.9.9": "misspells .global",
    "9.7.9.25.3.1": "a listing and no program: all copies have one destination",
    "9.7.9.11": "cvt to .f16 lacks a rounding",
    "9.7.9.14": "multimem.red has no maximum of .f64",
    "9.7.9.21": "conversions without a rounding, and misspelt types",
    "9.7.9.25.4.2": "cp.reduce.async.bulk has no .xor of .s32",
    "9.7.9.27.1.2": "the load lacks its completion mechanism",
    "9.7.9.27.1.3": "the prefetch is misspelt",
    "9.7.11.1": "suld lacks .trap, .clamp or .zero",
    "9.7.11.2": "sust lacks .trap, .clamp or .zero",
    "9.7.11.3": "sured.p",
    "9.7.13.1": "loads and stores without a type",
    "9.7.13.4": "an mbarrier.init without a type, and a load without a completion mechanism",
    "9.7.13.5": "atom has no type .b16x2",
    "9.7.13.6": "red has no .acquire",
    "9.7.13.8": "vote without .sync, of targets before sm_70",
    "9.7.13.15.14": "a piece of a program: nothing writes the state that is tested",
    "9.7.13.16": "the order of the modifiers, and a load without a completion mechanism",
    "9.7.14.4.4": "wmma.store lacks .aligned",
    "9.7.14.5.16": "stmatrix of .m16n8 lacks .trans",
    "9.7.16.5": "the modifier .2cta",
    "9.7.16.10.9.1": ".kind::mxf8f6f4 without .block_scale",
    "9.7.16.11.1": "relaxed accesses without a scope, and .cta_group without a number",
    "9.7.17.3": "alloca without a type",
    "9.7.18.2.4": "vset4 has no .max",
}
"""Section (of the manual of 9.1) -> why an example there is wrong, or no program.

ptxas 13.5 refuses each of the wrong ones but that of 9.7.5.3; the two of older targets need an older version too.
"""

_TITLE = re.compile(r"(?:Examples?|.*\bExamples? of .*)\s*:?\s*$")
_HEADING = re.compile(r"#+\s+(?:(\d+(?:\.\d+)+)\.)?")
_NUMBERED = re.compile(r"//\s*Example\s+\d+[^\n]*")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r"(?<![\w.$%:])[%a-zA-Z_$][\w$]*(?![\w$(:])")
_TYPE = re.compile(r"\.(?:[busf]|bf|tf|e\dm)(\d+)(x2)?")
_DECLARED = re.compile(r"(?:^|[;{])\s*(?:\.extern\s+)?\.(?:reg|shared|global|local|const|param)\b([^;]*)")
_WORDS = frozenset(("WARP_SZ", "_"))


class Example(NamedTuple):
    """One example of the manual."""

    section: str
    """Its section number, or the name of the file without one."""
    line: int
    text: str


def examples(path: Path) -> Iterator[Example]:
    """The examples in the Markdown files below *path*."""
    for file in sorted(path.rglob("*.md")):
        number = re.match(r"\d+(?:\.\d+)+", file.name)
        section, begin, body = number[0] if number else file.stem, 0, list[str]()
        for line, text in enumerate([*file.read_text("utf-8").splitlines(), "# end"], 1):
            heading = _HEADING.match(text)
            if heading or _TITLE.match(text.strip("* ")):
                # Numbered examples are programs of their own.
                for text_of in _NUMBERED.split("\n".join(body)) if begin else ():
                    if text_of.strip():
                        yield Example(section, begin, text_of)
                begin, body = 0 if heading else line, []
                section = heading[1] if heading and heading[1] else section
            elif begin:
                body.append("" if text.startswith("```") else text)


def errors(example: Example) -> tuple[str, list[str]]:
    """How *example* was linted (``whole``, ``statements``, ``unreadable``), and its errors: rule and message."""
    text = _COMMENT.sub("", example.text)
    found = _best(text)
    if found is not None:
        return "whole", found
    each = [_best(f"{part};") for part in map(str.strip, text.split(";")) if part]
    if all(one is None for one in each):
        return "unreadable", []
    return "statements", [error for one in each for error in one or ()]


def _best(body: str) -> list[str] | None:
    """The errors for the target with the fewest; None if *body* is not PTX."""
    fewest: list[str] | None = None
    for target in TARGETS:
        report = _lint(body, target)
        if report is None:
            return None
        found = [
            f"{f.rule.id} {f.message}"
            for f in report.findings
            if f.severity is Severity.ERROR
            and f.confidence >= Confidence.MEDIUM
            and f.rule.id not in UNDECIDED
        ]
        if fewest is None or len(found) < len(fewest):
            fewest = found
        if not found:
            break
    return fewest


def _lint(body: str, target: str) -> FileReport | None:
    """The report on a function with *body*; None if there is nothing in it to check."""
    header = f".version {dotted(KNOWN)}\n.target {target}\n.address_size 64\n"
    code = f"{header}.func example()\n{{\n{_declarations(body)}{body}\n}}\n"
    report = check_source(Source.from_bytes(code.encode(), "example.ptx"))
    broken = any("is not declared" not in problem.message for problem in report.problems)
    return None if broken or not report.entries else report


_SIZES = (8, 16, 32, 64, 128)
"""The sizes of registers, in bits."""


def _declarations(body: str) -> str:
    """Declarations of the names that *body* uses and does not declare itself."""
    known = {name for declared in _DECLARED.findall(body) for name in _NAME.findall(declared)}
    widths: dict[str, str] = {}
    for statement in body.split(";"):
        guard = re.match(r"\s*@!?([%\w$]+)\s+", statement)
        if guard:
            widths.setdefault(guard[1], ".pred")
        rest = statement[guard.end() :] if guard else statement
        opcode, _, operands = rest.strip().partition(" ")
        if opcode.startswith((".", "bra", "call", "brx")) or ":" in opcode.replace("::", ""):
            continue
        types = [int(n) * (2 if pair else 1) for n, pair in _TYPE.findall(opcode)]
        addresses = {name for part in re.findall(r"\[([^\]]*)", operands) for name in _NAME.findall(part)}
        for at, operand in enumerate(operands.split(",")):
            for name in _NAME.findall(operand):
                bits = 64 if name in addresses else max(types[0 if at == 0 else -1], 8) if types else 32
                bits = bits if bits in _SIZES else 32  # the example may be wrong
                predicate = re.fullmatch(r"%?[pq]\d*", name) or (at == 0 and opcode.startswith("setp"))
                widths.setdefault(name, ".pred" if predicate and name not in addresses else f".b{bits}")
    return "".join(
        f".reg {kind} {name};\n"
        for name, kind in widths.items()
        if name not in known | _WORDS and name not in SPECIAL_REGISTERS
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description="Lint the examples of the PTX ISA manual.")
    parser.add_argument("path", type=Path, help="a checkout of the manual as Markdown")
    path = parser.parse_args(arguments).path
    counts: Counter[str] = Counter()
    unexpected = 0
    for example in examples(path):
        how, found = errors(example)
        counts[how] += 1
        for error in found if example.section not in WRONG else ():
            unexpected += 1
            print(f"{example.section} (line {example.line}): {error}")
    print(", ".join(f"{number} {how}" for how, number in sorted(counts.items())) + f"; {unexpected} errors")
    return 1 if unexpected or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
