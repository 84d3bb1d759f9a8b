"""What a signal to other threads may overtake in the SASS of a kernel: loads and stores of tensor memory.

ptxas turns a ``tcgen05.ld`` into ``LDTM`` and a ``tcgen05.st`` into ``STTM``, each of which holds up a scoreboard
(:mod:`benchmarks.sass`). The hardware may *run ahead* if some path leads from one to an arrival or a barrier on which
nothing waits for it. Both directions of a branch are taken to be possible, so no thread may take that path.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks import ptxas, sass
from tclint.hang.machine_code import disassembled, printed

__all__ = ["Listing", "compiled", "versions"]

_SIGNAL = re.compile(r"SYNCS\.ARRIVE|ARRIVES|BAR\.|UCGABAR_ARV|BARRIER")
_FENCE = "FENCE.VIEW.ASYNC.T"
"""What ``tcgen05.wait::st`` becomes; ``wait::ld`` is a wait for scoreboards and leaves no instruction."""


class _Pending(NamedTuple):
    """How far the operation is on a way."""

    board: int
    """The scoreboard that it holds up."""
    fence: int
    """That of a fence of stores after it."""


def ahead(code: sass.Code, start: int) -> frozenset[int]:
    """The instructions that may be issued while the operation at *start* is under way.

    A load is done when its scoreboard is free. The scoreboard of a store says that it has read its registers, not
    that tensor memory was written: for that a fence must follow it, and its own scoreboard be free. What that fence means
    for loads is nowhere said; here it ends them. The first half of a split load holds up none and is done with the next
    one, for the two go through one pipe in order.
    """
    instructions = code.instructions
    load = instructions[start].opcode.startswith("LDTM")
    begin = _Pending(instructions[start].written if load else sass.NONE, sass.NONE)
    work = deque((at, begin) for at in code.successors[start])
    seen = set(work)
    found: set[int] = set()
    while work:
        at, pending = work.popleft()
        instruction = instructions[at]
        if (load and instruction.waits >> pending.board & 1) or instruction.waits >> pending.fence & 1:
            continue
        found.add(at)
        if instruction.opcode == _FENCE:
            pending = pending._replace(fence=instruction.written)
        elif load and pending.board == sass.NONE and instruction.opcode.startswith("LDTM"):
            pending = pending._replace(board=instruction.written)
        for following in code.successors[at]:
            if following != start and (following, pending) not in seen:
                seen.add((following, pending))
                work.append((following, pending))
    return frozenset(found)


class Listing:
    """One kernel in SASS, each instruction with the line of the PTX that it comes from."""

    def __init__(self, code: sass.Code) -> None:
        self.code = code

    def ahead(self) -> Iterator[tuple[int, int]]:
        """The lines of each load or store and of each signal that may be issued while it is under way."""
        instructions = self.code.instructions
        signals = frozenset(at for at, each in enumerate(instructions) if _SIGNAL.match(each.opcode))
        for start, each in enumerate(instructions):
            if each.opcode.startswith(("LDTM", "STTM")):
                for at in sorted(ahead(self.code, start) & signals):
                    yield each.line, instructions[at].line


def compiled(data: bytes) -> dict[str, Listing]:
    """The kernels of a module by name, as ptxas compiles it for its own target. Raises MachineCodeError.

    ``-lineinfo`` changes nothing but the table of lines.
    """
    text = disassembled(data, ptxas.target_of(data), "-c", "-gp", "-hex")
    return {code.name: Listing(code) for code in sass.parse(text)}


def versions() -> dict[str, str]:
    """The releases of the programs that make SASS of PTX. Raises PtxasMissing, or MachineCodeError without nvdisasm."""
    release = re.findall(r"release (\d+\.\d+)", printed("nvdisasm", "--version"))
    return {"ptxas": ptxas.find().release, "nvdisasm": release[0]}
