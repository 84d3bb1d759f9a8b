"""The ptxas that tests ask, where there is one, and stand-ins for it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.ptxas import PtxasMissing, find


def find_ptxas() -> Path:
    """The program, or the calling test is skipped with the reason."""
    try:
        found = find()
        if found.release < "13.5":
            pytest.skip(f"ptxas {found.release} is older than 13.5, which the pages speak of")
    except PtxasMissing as missing:
        pytest.skip(str(missing))
    return Path(found.path)


BANNER = "ptxas: NVIDIA (R) Ptx optimizing assembler\nCuda compilation tools, release {}, V{}\n"


def cubin(shared: Mapping[str, int]) -> bytes:
    """An ELF file with the sections of kernels, each with its bytes of shared memory."""
    sizes = {"": 0, ".strtab": 0}
    for kernel, size in shared.items():
        sizes |= {f".text.{kernel}": 128, f".nv.shared.{kernel}": size}
    names = b"".join(name.encode() + b"\0" for name in sizes)
    headers, at = b"", 0
    for name, size in sizes.items():
        start, length = (64, len(names)) if name == ".strtab" else (0, size)
        headers += struct.pack("<IIQQQQIIQQ", at, 3, 0, 0, start, length, 0, 0, 1, 0)
        at += len(name) + 1
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64 + len(names), 0, 64, 0, 0, 64, len(sizes), 1
    )
    return header + names + headers


def printed(
    kernel: str, *, registers: int = 40, stores: int = 0, loads: int = 0, stack: int = 0, barriers: int = 1
) -> str:
    """What ``ptxas -v`` prints for a kernel."""
    cumulative = f", {stack} bytes cumulative stack size" if stack else ""
    return (
        f"ptxas info    : Compiling entry function '{kernel}' for 'sm_90a'\n"
        f"ptxas info    : Function properties for {kernel}\n"
        f"    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n"
        f"ptxas info    : Used {registers} registers, used {barriers} barriers{cumulative}\n"
    )


def fake_ptxas(
    path: Path,
    text: str,
    *,
    shared: Mapping[str, int] | None = None,
    version: str = "13.5.37",
    end: str = "exit 0",
) -> str:
    """A program that prints its *version*, and otherwise *text*, writes a cubin with the *shared* memory of kernels (by default
    of ``k``) and ends as the shell command *end* says. It adds a line to ``path.calls`` for each module."""
    made = path.with_suffix(".made")
    made.write_bytes(cubin({"k": 0} if shared is None else shared))
    release = ".".join(version.split(".")[:2])
    path.write_text(
        "#!/bin/sh\n"
        f"if [ \"$1\" = --version ]; then\ncat <<'END'\n{BANNER.format(release, version)}END\nexit 0\nfi\n"
        f"echo \"$@\" >> '{path}.calls'\n"
        f"cat >&2 <<'END'\n{text}END\n"
        'while [ $# -gt 1 ]; do [ "$1" = -o ] && '
        f"cp '{made}' \"$2\"; shift; done\n"
        f"{end}\n"
    )
    path.chmod(0o755)
    return str(path)
