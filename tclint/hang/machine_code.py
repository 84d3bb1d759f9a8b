"""From offsets in machine code to lines of PTX, by the line table that nvdisasm prints.

``ptxas -lineinfo`` records the line of PTX from which it made each instruction, and does not change the code.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping

from tclint._named_tuple import NamedTuple
from tclint.driver.cuda_tools import ToolError, candidates, complaint, run, variable
from tclint.hang.positions import PositionError

__all__ = ["LineTable", "MachineCodeError", "assembled", "disassembled", "parsed", "printed"]

_SECTION = re.compile(r"\s*\.section\s+\.text\.([^\s,\"]+)")
_PLACE = re.compile(r"\s*//## File \"([^\"]*)\", line (\d+)")
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?\w+\s+)?([\w.]+)")
_LABEL = re.compile(r"\.L_x_\d+:")
_BARRIERS = ("BAR.SYNC", "BAR.RED", "UCGABAR_WAIT")
"""Instructions after which the program counter of a warp that waits is."""
_FIXED = frozenset(
    "BMSK FADD FFMA FMNMX FMUL FSEL FSETP IABS IADD3 IMAD IMNMX ISETP LEA LOP3 MOV NOP PLOP3 PRMT R2UR SEL SGXT SHF"
    " UIADD3 UIMAD UISETP ULEA ULOP3 UMOV UPLOP3 UPRMT USEL USHF VIADD VIMNMX".split()
)
"""Instructions of fixed latency: a warp that waits at a barrier (``DEFER_BLOCKING``) still executes those that follow it,
and stops at the first other one. On an H200, that was an ``LDS``, ``LD``, ``LDC``, ``I2F`` or ``ENDCOLLECTIVE``."""
_PTX = ".nv_debug_ptx_txt"
"""The name that a line table has for the PTX."""
_LIMIT = 600
"""Seconds for ptxas or nvdisasm."""


class MachineCodeError(Exception):
    """There is no machine code, or it has no line table."""


class Line(NamedTuple):
    """A line of the PTX; of a source file if *file* is not empty."""

    line: int
    file: str = ""


class LineTable:
    """The line of each instruction in the machine code of some functions."""

    def __init__(self, functions: Mapping[str, Mapping[int, Line | None]]) -> None:
        self._functions = functions

    def at(self, offset: int, function: str) -> Line:
        """The line of the instruction at an offset of *function*. Raises PositionError."""
        lines = self._functions.get(function)
        if lines is None:
            raise PositionError(f"the machine code has no function {function}")
        if offset not in lines:
            last = max(lines)
            where = "is not the start of an instruction" if offset <= last else f"is after the end, {last:#x}"
            raise PositionError(f"{function}+{offset:#x} {where}")
        found = lines[offset]
        if found is None:
            raise PositionError(f"{function}+{offset:#x} has no line")
        return found


def parsed(text: str) -> LineTable:
    """The line table in the output of ``nvdisasm -gp`` or ``nvdisasm -g``. Raises MachineCodeError if it has none.

    Lines of the PTX are preferred to lines of its source. The instructions after a barrier have the line of the barrier up
    to where the program counter of a warp that waits may be.
    """
    functions: dict[str, dict[int, Line | None]] = {}
    current: dict[int, Line | None] | None = None
    ptx: Line | None = None
    source: Line | None = None
    barrier: Line | None = None
    for text_line in text.splitlines():
        if section := _SECTION.match(text_line):
            current, ptx, source, barrier = functions.setdefault(section[1], {}), None, None, None
        elif place := _PLACE.match(text_line):
            if place[1].endswith(_PTX):
                ptx = Line(int(place[2]))
            else:
                source = Line(int(place[2]), place[1])
        elif (instruction := _INSTRUCTION.match(text_line)) and current is not None:
            offset = int(instruction[1], 16)
            current[offset] = barrier or ptx or source
            if instruction[2].startswith(_BARRIERS):
                current[offset] = barrier = ptx or source
            elif instruction[2].partition(".")[0] not in _FIXED:
                barrier = None
        elif _LABEL.match(text_line):
            barrier = None
    if not any(line for lines in functions.values() for line in lines.values()):
        raise MachineCodeError(
            "the machine code has no line table: compile with -lineinfo, print with nvdisasm -gp"
        )
    return LineTable({name: lines for name, lines in functions.items() if lines})


def assembled(ptx: bytes, target: str) -> LineTable:
    """The line table of *ptx* as ptxas compiles it for *target* (``sm_90a``). Raises MachineCodeError."""
    return parsed(disassembled(ptx, target, "-gp"))


def disassembled(ptx: bytes, target: str, *options: str) -> str:
    """What nvdisasm with *options* prints of *ptx* as ptxas compiles it for *target*. Raises MachineCodeError."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = os.path.join(folder, "kernel.ptx"), os.path.join(folder, "kernel.cubin")
        with open(source, "wb") as file:
            file.write(ptx)
        printed("ptxas", "-arch", target, "-lineinfo", source, "-o", cubin)
        return printed("nvdisasm", *options, cubin)


def printed(tool: str, *arguments: str) -> str:
    """What one of NVIDIA's tools prints. Raises MachineCodeError if it is not there, or fails."""
    program = next(candidates(tool), None)
    if program is None:
        raise MachineCodeError(
            f"an offset needs {tool}, which was not found: set {variable(tool)} to its path,"
            " or give the output of nvdisasm -gp with --sass"
        )
    try:
        done = run(program, *arguments, seconds=_LIMIT)
    except ToolError as error:
        raise MachineCodeError(f"{tool} {error}") from None
    if done.returncode:
        raise MachineCodeError(f"{tool} failed: {complaint(done)}")
    return done.stdout
