"""What ptxas makes of a kernel: registers, spills, advice, and matrix instructions, for ``tclint diff --ptxas``.

ptxas prints the first three with ``-v``. The instructions are counted in the machine code if NVIDIA's nvdisasm is found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from tempfile import TemporaryDirectory

from tclint._named_tuple import NamedTuple
from tclint.driver.assembling import MAX_SECONDS, Program, compiled, figures
from tclint.driver.cuda_tools import ToolError, candidates, complaint, run
from tclint.findings.figures import WORDS, KernelFigures
from tclint.syntax.source import Source, SourceError

__all__ = ["Assembly", "Facts", "assembled", "compared", "facts"]

_SECTION = re.compile(r"^\.text\.(\S+):$")
_MATRIX = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9]*MMA)\b")

Facts = dict[str, int]
"""What is counted, such as ``registers``, ``C7510`` or ``HGMMA``, and how much there is of it; absent: none."""


class Assembly(NamedTuple):
    """What two compilations of a kernel differ in."""

    old: str
    new: str
    changes: tuple[tuple[str, int, int], ...]
    """What is counted, and how much there is of it in the old and the new version."""


def facts(kernels: Iterable[KernelFigures]) -> dict[str, Facts]:
    """Kernel -> its figures, as far as they are known."""
    return {
        each.kernel: {WORDS.get(name, name): amount for name, amount in each.figures if amount is not None}
        for each in kernels
    }


def assembled(source: Source, ptxas: str) -> dict[str, Facts]:
    """Kernel -> what *ptxas* makes of it. Raises SourceError if it rejects the module, or a tool fails."""
    with TemporaryDirectory(prefix="tclint-") as folder:
        built = compiled(source, Program(ptxas, ptxas), folder)
        found = facts(figures(built))
        disassembler = next(candidates("nvdisasm"), None)
        if disassembler is not None:
            for kernel, counts in _matrix_instructions(_disassembled(disassembler, built.cubin)).items():
                found.setdefault(kernel, {}).update(counts)
    return found


def compared(old: dict[str, Facts], new: dict[str, Facts], names: dict[str, str]) -> list[Assembly]:
    """The kernels that differ. *names* has the new name of those that were renamed."""
    found = []
    for name, before in old.items():
        then = names.get(name, name)
        if (after := new.get(then)) is None:
            continue
        rows = ((what, before.get(what, 0), after.get(what, 0)) for what in dict.fromkeys((*before, *after)))
        changes = tuple((what, a, b) for what, a, b in rows if a != b)
        if changes:
            found.append(Assembly(name, then, changes))
    return found


def _disassembled(program: str, cubin: str) -> str:
    """What a disassembler prints. Raises SourceError."""
    try:
        done = run(program, cubin, seconds=MAX_SECONDS)
    except ToolError as error:
        raise SourceError(f"{program} {error}") from None
    if done.returncode:
        raise SourceError(f"{program} failed: {complaint(done)}")
    return done.stdout


def _matrix_instructions(listing: str) -> dict[str, Counter[str]]:
    """Function -> how often each matrix instruction is in the output of nvdisasm."""
    found: dict[str, Counter[str]] = {}
    counts = Counter[str]()
    for line in listing.splitlines():
        if section := _SECTION.match(line):
            counts = found[section[1]] = Counter()
        elif instruction := _MATRIX.search(line):
            counts[instruction[1]] += 1
    return found
