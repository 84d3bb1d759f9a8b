"""What programs that know nothing of a proof say of the kernels that are proved.

*wgmma*: ptxas reports each function whose wgmma it repairs because a register is accessed too early (C7504 to C7520).
*tcgen05-ldst*: in the SASS that ptxas makes, a signal to other threads may be issued while a load or store of tensor
memory is under way. Neither should be so in a kernel that is proved. A person reads each case and decides whether
the proof is wrong (``benchmarks.verdict_score``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import NamedTuple

from benchmarks import ptxas, scoreboards
from tclint.findings.verdicts import HazardClass
from tclint.hang.machine_code import MachineCodeError

__all__ = ["ORACLES", "Asked", "Case", "Oracle", "digest", "oracle"]


class Asked(NamedTuple):
    """What is asked about a class."""

    name: str
    """What the results page calls it."""
    uses: bytes
    """A pattern that a file matches if it may use the class."""


ORACLES = {
    HazardClass.WGMMA: Asked("wgmma that ptxas repairs", rb"\bwgmma\.mma_async"),
    HazardClass.TMEM_ACCESS: Asked("arrivals that run ahead in SASS", rb"\btcgen05\.(ld|st)\."),
}
OTHERWISE = re.compile(r"Extern calls|function boundary|insufficient register resources")
"""What ptxas reports when it serialises wgmma for another reason than an access of a register."""


class Case(NamedTuple):
    """Something that speaks against the proof of a class, in one kernel."""

    hazard: HazardClass
    kernel: str
    """The digest of its file and its name."""
    what: str
    """The operator of a mutant that is still proved, or what an oracle says."""
    line: int
    note: str
    """What was changed, or where the case is, for those who read it."""

    @property
    def key(self) -> tuple[str, ...]:
        """What the readings know it by."""
        return self.hazard.value, self.kernel, self.what, str(self.line)


Oracle = Callable[[bytes, Collection[str]], Iterator[Case]]
"""The cases in the kernels of a file that are proved. Raises ValueError if the file is not assembled."""


def digest(data: bytes, kernel: str) -> str:
    """What identifies a kernel in the readings."""
    return hashlib.sha256(data + kernel.encode()).hexdigest()[:12]


def oracle(hazard: HazardClass) -> tuple[Oracle, dict[str, str]]:
    """What decides about a class, and the versions of its programs.

    Raises :class:`benchmarks.ptxas.PtxasMissing` or MachineCodeError.
    """
    if hazard is HazardClass.WGMMA:
        assembler = ptxas.find()
        return partial(_repaired, assembler), {"ptxas": assembler.build}
    return _ahead, scoreboards.versions()


def _repaired(assembler: ptxas.Ptxas, data: bytes, proved: Collection[str]) -> Iterator[Case]:
    done = assembler.compile(data)
    if not done.accepted:
        raise ValueError(done.errors[0].text if done.errors else "ptxas crashes")
    for said in done.advisories:
        if said.function in proved and not OTHERWISE.search(said.text):
            yield Case(
                HazardClass.WGMMA, digest(data, said.function), f"ptxas {said.code}", said.line, said.text
            )


def _ahead(data: bytes, proved: Collection[str]) -> Iterator[Case]:
    try:
        listings = scoreboards.compiled(data)
    except MachineCodeError as error:
        raise ValueError(str(error)) from None
    for entry in sorted(listings.keys() & set(proved)):
        for operation, signal in sorted(set(listings[entry].ahead())):
            note = f"the signal of line {signal} in {entry}"
            yield Case(HazardClass.TMEM_ACCESS, digest(data, entry), "SASS runs ahead", operation, note)
