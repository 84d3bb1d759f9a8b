"""Whether ptxas makes the same machine code of two texts.

That is a fact about one compiler and one target, and says less than a proof from the ISA: ptxas repairs some faults (it
waits for a ``wgmma`` whose wait is missing) and has no use for some instructions. So it is a label of its own.

What counts is what is loaded: code, constants, memory and attributes of the kernels, not what a debugger reads.
"""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from functools import cached_property
from pathlib import Path

from benchmarks.ptxas import Ptxas

__all__ = ["Assembler", "loaded"]

_LOADED = re.compile(r"\.(text|nv\.constant\d*|nv\.shared|nv\.global|nv\.info)(\.|$)|\.rela?\.text\.")


def loaded(cubin: bytes) -> dict[str, tuple[int, bytes]]:
    """The sections of an ELF file that hold code, data and their attributes: ``{name: (size, bytes)}``.

    Raises ValueError when *cubin* is not a 64-bit ELF file.
    """
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("not a cubin")
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    count, names = struct.unpack_from("<HH", cubin, 0x3C)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + 64 * i) for i in range(count)]
    at = headers[names][4]
    found = {}
    for name, kind, _, _, offset, size in headers:
        text = cubin[at + name : cubin.index(b"\0", at + name)].decode()
        if _LOADED.match(text):
            found[text] = (size, b"" if kind == 8 else cubin[offset : offset + size])  # 8: takes no space
    return found


class Assembler:
    """ptxas at ``-O3``, as a question about two texts. *limit* is in seconds for each text."""

    def __init__(self, ptxas: Ptxas, limit: float = 60) -> None:
        self.ptxas = ptxas
        self.limit = limit
        self._last: tuple[bytes, object] = (b"", None)

    @cached_property
    def name(self) -> str:
        return f"ptxas {self.ptxas.release}"

    def compare(self, before: bytes, after: bytes) -> str:
        """``same``, ``different``, ``refused`` (*after* only), or ``unknown``: *before* refused, or out of time."""
        old = self._last[1] if self._last[0] == before else self._code(before)
        self._last = before, old
        if not isinstance(old, dict):
            return "unknown"
        new = self._code(after)
        if new is None:
            return "refused"
        return "unknown" if new == "late" else "same" if new == old else "different"

    def _code(self, text: bytes) -> dict[str, tuple[int, bytes]] | str | None:
        """What is loaded of the cubin; None when *text* is refused, ``late`` when it takes too long."""
        target = re.search(rb"^\s*\.target\s+sm_(\w+)", text, re.MULTILINE)
        if target is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            source, cubin = Path(folder, "k.ptx"), Path(folder, "k.cubin")
            source.write_bytes(text)
            try:
                subprocess.run(
                    [self.ptxas.path, "-O3", "-arch", f"sm_{target[1].decode()}", source, "-o", cubin],
                    check=True, capture_output=True, timeout=self.limit,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return "late"
            except subprocess.CalledProcessError:
                return None
            return loaded(cubin.read_bytes())
