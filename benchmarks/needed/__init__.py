"""Synchronisation that a GPU shows to be needed, and whether the family CO notes any of it.

    python -m benchmarks.needed prepare FOLDER
    python3 FOLDER/launcher.py ANSWER               # on a machine with an H100 or H200
    python -m benchmarks.needed collect ANSWER [--record]

Each kernel in ``kernels`` counts its own mistakes: ``out[0]``, of so many checks, ``out[1]``. *prepare* deletes each
instruction that is marked as needed, or narrows the scope or the proxies of a fence, and compiles all of it. The change
of an instruction is *convicted* if launches of the changed kernel count mistakes, or do not end, and those of the kernel
as it is do not. *collect* asks for the notes on the kernels as they are: none may be on a convicted instruction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import ptxas
from benchmarks.gpu import stand_alone
from benchmarks.hardware import assemble

__all__ = ["KERNELS", "LAUNCHES", "Change", "changes", "kernels", "prepare", "settings"]

KERNELS = Path(__file__).resolve().parent / "kernels"
ENTRY = "k"
MARK = ";  // needed"
LAUNCHES = 100

_FENCES = {
    "gpu": ("fence.acq_rel.gpu", "fence.sc.gpu", "membar.gl", "fence.acq_rel.sys", "membar.sys"),
    "cluster": ("fence.acq_rel.cluster", "fence.sc.cluster", "fence.acq_rel.gpu", "membar.gl"),
    "sc": ("fence.sc.gpu", "membar.gl", "fence.sc.sys", "membar.sys"),
    "proxy": ("fence.proxy.async", "fence.proxy.async.global"),
    "proxy_cta": ("fence.proxy.async.shared::cta", "fence.proxy.async"),
}
"""What takes the place of ``FENCE`` in a kernel, by the name in its first line."""


class Change(NamedTuple):
    """A change of a needed instruction."""

    line: int
    what: str
    """``deleted``, or the opcode that takes its place."""
    text: str
    """The kernel with the change."""


def settings(text: str) -> dict[str, str]:
    """The launch in the first line of a kernel."""
    return dict(word.split("=") for word in text.partition("\n")[0].split()[2:])


def kernels() -> Iterator[tuple[str, str]]:
    """The name and the text of each kernel, with each of its fences."""
    for path in sorted(KERNELS.glob("*.ptx")):
        text = path.read_text(encoding="utf-8")
        fences = settings(text).get("fences")
        if fences is None:
            yield path.stem, text
            continue
        for fence in _FENCES[fences]:
            yield f"{path.stem}-{fence}", text.replace("FENCE;", f"{fence};")


def changes(text: str) -> Iterator[Change]:
    """What may be changed in a kernel; all lines keep their numbers."""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if not line.endswith(MARK):
            continue
        opcode = line.split()[0].rstrip(";")
        narrow = re.sub(r"\.(gl|gpu|sys|cluster)$", ".cta", opcode)
        if opcode.startswith("fence.proxy."):
            narrow = "fence.proxy.async.shared::cta"
        for what, new in (("deleted", ""), (narrow, f"    {narrow};")):
            if what != opcode:
                changed = [*lines[: number - 1], new, *lines[number:]]
                yield Change(number, what, "\n".join(changed) + "\n")


def prepare(folder: Path) -> dict[str, Any]:
    """Compiles all kernels into *folder*, with the launcher; returns the plan. Raises PtxasMissing."""
    tool = ptxas.find()
    folder.mkdir(parents=True, exist_ok=True)
    plan: dict[str, Any] = {"ptxas": tool.release, "launches": LAUNCHES, "jobs": []}
    for name, text in kernels():
        variants = [(0, "", text), *changes(text)]
        for number, (line, what, changed) in enumerate(variants):
            code, said = assemble(tool, changed.encode())
            assert code, (name, line, what, said)
            cubin = f"{name.replace(':', '_')}.{number}.cubin"
            (folder / cubin).write_bytes(code)
            launch = {key: int(value) for key, value in settings(text).items() if key != "fences"}
            plan["jobs"].append({"kernel": name, "line": line, "what": what, "cubin": cubin, **launch})
    (folder / "jobs.json").write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")
    stand_alone(folder, Path(__file__).parent / "launcher.py")
    return plan
