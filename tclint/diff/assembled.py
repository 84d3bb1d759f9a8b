"""What ptxas makes of a kernel: registers, spills, advice, and matrix instructions, for ``tclint diff --ptxas``.

ptxas prints the first three with ``-v``. The instructions are counted in the machine code if NVIDIA's nvdisasm is found.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter, defaultdict
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tclint.driver.cuda_tools import candidates, complaint
from tclint.syntax.source import Source, SourceError

__all__ = ["Assembly", "assembled", "compared"]

_TARGET = re.compile(rb"^\s*\.target\s+(sm_\w+)", re.MULTILINE)
_ERROR = re.compile(r", line (\d+); (?:error|fatal)\s*: (.*)")
_FUNCTION = re.compile(r"Function properties for (\S+)")
_ADVICE = re.compile(r"\((C7\d{3})\) .*in(?: the)? function '([^']+)'")
_NUMBERS = {
    "registers": re.compile(r"Used (\d+) registers"),
    "barriers": re.compile(r"used (\d+) barriers"),
    "bytes of stack": re.compile(r"(\d+) bytes stack frame"),
    "bytes of spill stores": re.compile(r"(\d+) bytes spill stores"),
    "bytes of spill loads": re.compile(r"(\d+) bytes spill loads"),
    "bytes of shared memory": re.compile(r"(\d+) bytes smem"),
}
_SECTION = re.compile(r"^\.text\.(\S+):$")
_MATRIX = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9]*MMA)\b")
_MAX_SECONDS = 300

Facts = dict[str, int]
"""What is counted, such as ``registers``, ``C7510`` or ``HGMMA``, and how much there is of it; absent: none."""


class Assembly(NamedTuple):
    """What two compilations of a kernel differ in."""

    old: str
    new: str
    changes: tuple[tuple[str, int, int], ...]
    """What is counted, and how much there is of it in the old and the new version."""


def assembled(source: Source, ptxas: str) -> dict[str, Facts]:
    """Kernel -> what *ptxas* makes of it. Raises SourceError if it rejects the module, or a tool fails."""
    target = _TARGET.search(source.data)
    if target is None:
        raise SourceError(".target is missing, so it cannot be assembled")
    with TemporaryDirectory(prefix="tclint-") as folder:
        text, cubin = os.path.join(folder, "k.ptx"), os.path.join(folder, "k.cubin")
        with open(text, "wb") as file:
            file.write(source.data)
        done = _run(ptxas, "-v", f"-arch={target[1].decode()}", "-o", cubin, text)
        if done.returncode:
            raise _rejected(ptxas, done.stderr or done.stdout or f"exit code {done.returncode}")
        facts = _printed(done.stderr + done.stdout)
        disassembler = next(candidates("nvdisasm"), None)
        if disassembler is not None:
            listed = _run(disassembler, cubin)
            if listed.returncode:
                raise SourceError(f"{disassembler} failed: {complaint(listed)}")
            for kernel, counts in _matrix_instructions(listed.stdout).items():
                facts[kernel].update(counts)
    return dict(facts)


def _rejected(ptxas: str, output: str) -> SourceError:
    """The first error that *ptxas* printed."""
    if error := _ERROR.search(output):
        return SourceError(f"{ptxas} rejects it: {error[2].strip()}", int(error[1]))
    return SourceError(f"{ptxas} rejects it: {output.strip().splitlines()[0]}")


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


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    """The output of a tool. Raises SourceError if it cannot be run."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_MAX_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SourceError(f"{command[0]} took longer than {_MAX_SECONDS} s") from None
    except OSError as error:
        raise SourceError(f"{command[0]} cannot be run: {error.strerror or error}") from None


def _printed(text: str) -> defaultdict[str, Facts]:
    """Function -> what ``ptxas -v`` prints about it."""
    found: defaultdict[str, Facts] = defaultdict(dict)
    kernel = ""
    for line in text.splitlines():
        if advice := _ADVICE.search(line):
            facts = found[advice[2]]
            facts[advice[1]] = facts.get(advice[1], 0) + 1
        elif function := _FUNCTION.search(line):
            kernel = function[1]
        elif kernel:
            for what, pattern in _NUMBERS.items():
                if number := pattern.search(line):
                    found[kernel][what] = int(number[1])
    return found


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
