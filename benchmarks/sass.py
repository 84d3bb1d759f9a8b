"""SASS as nvdisasm prints it: instructions, what they wait for, where they come from in the PTX, and where they lead.

ptxas decides when an instruction may be issued, and writes it into the upper bits of the 128 of its encoding: six
scoreboards count what is under way. An instruction may hold up one until it has written its result and another until
it has read its operands, and waits before it is issued until all scoreboards of its mask are free. The layout is not
documented; it is the one that has been read out of every architecture since Volta, and the tests hold it against
pairs of instructions that must wait for each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

__all__ = ["Code", "Sass", "parse"]

NONE = 7
"""The number of a scoreboard where the instruction holds up none."""


@dataclass(frozen=True, slots=True)
class Sass:
    """One instruction."""

    text: str
    """Guard, opcode and operands, without what nvdisasm adds as a comment."""
    line: int
    """The line of the PTX that it was made from; 0 where nothing says."""
    written: int
    """The scoreboard that is held up until the result is there, or :data:`NONE`."""
    read: int
    """The one that is held up until the operands have been read, or :data:`NONE`."""
    waits: int
    """The scoreboards that must be free before the instruction is issued, as a mask."""

    @property
    def guarded(self) -> bool:
        """Whether a predicate decides if it is executed. Its waits are executed regardless."""
        return self.text.startswith("@")

    @property
    def opcode(self) -> str:
        return self.text.split()[1 if self.guarded else 0]


@dataclass
class Code:
    """The instructions of one kernel, and where control goes from each."""

    name: str
    instructions: list[Sass] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    targets: dict[int, list[str]] = field(default_factory=dict)
    """The labels that an instruction names."""

    @cached_property
    def successors(self) -> list[tuple[int, ...]]:
        """The instructions that may come next. A call is taken to return, an indirect jump to go where nvdisasm says."""
        meet: dict[str, set[int]] = {}
        for at, labels in self.targets.items():
            instruction = self.instructions[at]
            if instruction.opcode.startswith("BSSY"):
                barrier = instruction.text.split(instruction.opcode, 1)[1].split()[0].rstrip(",")
                meet.setdefault(barrier, set()).update(self._at(labels))
        return [tuple(sorted(set(self._next(at, meet)))) for at in range(len(self.instructions))]

    def _at(self, labels: Iterable[str]) -> Iterator[int]:
        return (self.labels[label] for label in labels if label in self.labels)

    def _next(self, at: int, meet: dict[str, set[int]]) -> Iterator[int]:
        instruction = self.instructions[at]
        kind = instruction.opcode.split(".")[0]
        jumps = kind in ("BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU")
        following = at + 1 if at + 1 < len(self.instructions) else None
        if jumps or kind == "WARPSYNC":
            yield from self._at(self.targets.get(at, ()))
        if kind == "BSYNC":
            # Threads that have reconverged continue where the BSSY of that barrier indicated, mostly right after it.
            places = meet.get(instruction.text.split()[-1], set())
            if following is not None and (following in places or not places):
                yield following
            else:
                yield from places
            return
        ends = kind in ("EXIT", "RET", "KILL") or (kind == "BPT" and "TRAP" in instruction.opcode)
        # BRA.U and the like test a uniform predicate, which is an operand and no guard.
        conditional = instruction.guarded or bool(re.search(r"\s!?U?P[0-6]\b", instruction.text))
        if following is not None and (not (jumps or ends) or conditional):
            yield following


_INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*/\* 0x([0-9a-f]{16}) \*/\s*$")
_UPPER = re.compile(r"\s+/\* 0x([0-9a-f]{16}) \*/\s*$")
_LINE = re.compile(r'\s*//## File ".nv_debug_ptx_txt[^"]*", line (\d+)')
_SECTION = re.compile(r"\s*\.section\s+\.text\.([^\s,]+)")
_LABEL = re.compile(r"([.$\w]+):\s*$")
_NAMED = re.compile(r"`\(([^)\s]+)\)")
_BRANCHES = re.compile(r"BRANCH_TARGETS ([^\"]*)")
_DEPBAR = re.compile(r"DEPBAR\.LE SB([0-5]), 0x0\b")
_OTHERS = re.compile(r"DEPBAR[^{]*\{([0-5, ]+)\}")


def parse(text: str) -> list[Code]:
    """The kernels in what ``nvdisasm -c -gp -hex`` printed."""
    codes: list[Code] = []
    line = 0
    first: tuple[str, str] | None = None
    for row in text.splitlines():
        if first and (match := _UPPER.match(row)):
            _add(codes[-1], first[0], line, int(match[1], 16))
            first = None
        elif match := _INSTRUCTION.match(row):
            first = match[2], match[3]
        elif match := _LINE.match(row):
            line = int(match[1])
        elif match := _SECTION.match(row):
            codes.append(Code(match[1]))
            line = 0
        elif codes and (match := _LABEL.match(row)):
            codes[-1].labels[match[1]] = len(codes[-1].instructions)
    return codes


def _add(code: Code, printed: str, line: int, upper: int) -> None:
    text = re.sub(r"\s*\(\*.*?\*\)", "", printed).rstrip(" ;")
    control = upper >> 41
    waits = control >> 11 & 63
    # The counter of a scoreboard may also be asked for by an instruction of its own.
    if match := _DEPBAR.search(text):
        waits |= 1 << int(match[1])
    if match := _OTHERS.search(text):
        waits |= sum(1 << int(number) for number in match[1].replace(" ", "").split(","))
    labels = _NAMED.findall(printed)
    if match := _BRANCHES.search(printed):
        labels += [label.strip(" `()") for label in match[1].split(",")]
    if labels:
        code.targets[len(code.instructions)] = labels
    code.instructions.append(Sass(text, line, control >> 5 & 7, control >> 8 & 7, waits))
