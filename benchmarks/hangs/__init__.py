"""Deadlocks that are planted in small kernels, which of them hang on a GPU, and what ``tclint hang`` makes of those.

    python -m benchmarks.hangs prepare FOLDER
    sh FOLDER/run.sh                                # on a machine with an H100 or H200; OUT is the folder of its answer
    python -m benchmarks.hangs collect ANSWER [--record]

*prepare* plants the deadlocks, compiles each kernel twice and puts all that a launch needs into FOLDER. The second
build stores the line of each wait before it waits, by every thread, to memory of the host: after a hang, that is where
the threads are. *collect* passes these lines, and nothing else of the launch, to ``tclint hang``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import ptxas
from benchmarks.gpu import stand_alone
from benchmarks.hangs.plants import PLANTS, Plant
from benchmarks.hardware import assemble

__all__ = ["DATA", "EXITED", "KERNELS", "line_of", "marked", "planted", "prepare"]

KERNELS = Path(__file__).resolve().parent / "kernels"
EXITED = 0xFFFFFFFF
"""What a thread stores before it exits; 0: it has not reached a wait."""
DATA = 1 << 18
"""Bytes of memory for a kernel, as in ``launcher.py``."""
ITERATIONS = 12
"""The argument *n* of every kernel."""

_WAIT = re.compile(
    r"(?P<guard>@!?%\w+ )?(?:mbarrier\.(?:try|test)_wait|bar\.sync|barrier\.sync|barrier\.cluster\.wait|bar\.warp\.sync"
    r"|setmaxnreg\.inc)\b"
)
_MARKS = (
    ".reg .b64 %mark; .reg .b32 %marks<3>; ld.param.u64 %mark, [marks]; cvta.to.global.u64 %mark, %mark;"
    " mov.u32 %marks0, %tid.x; mov.u32 %marks1, %ctaid.x; mov.u32 %marks2, %ntid.x;"
    " mad.lo.u32 %marks0, %marks1, %marks2, %marks0; mad.wide.u32 %mark, %marks0, 4, %mark;"
)


def text_of(kernel: str) -> str:
    return (KERNELS / f"{kernel}.ptx").read_text(encoding="utf-8")


def line_of(kernel: str, tag: str) -> int:
    """The line of *kernel* that ends with the comment *tag*. Raises ValueError unless there is exactly one."""
    lines = text_of(kernel).splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"; // {tag}")]
    return found


def planted(plant: Plant) -> str:
    """The text of the kernel with a deadlock. Raises ValueError if an edit does not fit."""
    lines = text_of(plant.kernel).splitlines()
    for tag, old, new in plant.edits:
        at = line_of(plant.kernel, tag) - 1
        code, _, comment = lines[at].rpartition("; // ")
        code += ";"
        if old and code.count(old) != 1:
            raise ValueError(f"{plant.kernel}: {old!r} is not in the line {tag!r} exactly once")
        lines[at] = f"{code.replace(old, new) if old else '   '} // {comment}"
    return "\n".join(lines) + "\n"


def marked(text: str) -> str:
    """*text* with a store of the line before each wait and before the exit; its lines keep their numbers."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        code = line.partition("//")[0]
        found = _WAIT.search(code)
        if line == "{":
            lines[at] = f"{{ {_MARKS}"
        elif line.startswith(".visible .entry"):
            lines[at] = line.replace(")", ", .param .u64 marks)")
        elif "ret;" in code:
            lines[at] = re.sub(
                r"((?:@!?%\w+ )?)ret;", rf"\1st.volatile.global.u32 [%mark], {EXITED}; \1ret;", line
            )
        elif found is not None:
            store = f"{found['guard'] or ''}st.volatile.global.u32 [%mark], {at + 1}; "
            lines[at] = line[: found.start()] + store + line[found.start() :]
    return "\n".join(lines) + "\n"


def kernels() -> list[str]:
    """The names of the kernels."""
    return sorted({plant.kernel for plant in PLANTS})


def threads_of(text: str) -> int:
    """The threads of a CTA of a kernel."""
    found = re.search(r"\.(?:req|max)ntid (\d+)", text)
    assert found is not None
    return int(found[1])


def ctas_of(text: str) -> int:
    """The CTAs of the launch of a kernel: one cluster."""
    found = re.search(r"\.reqnctapercluster (\d+)", text)
    return int(found[1]) if found else 1


def jobs() -> Iterator[tuple[str, str, str]]:
    """Name, kernel and text of everything that is launched: the kernels as they are, then the planted ones."""
    for kernel in kernels():
        yield kernel, kernel, text_of(kernel)
    for plant in PLANTS:
        yield plant.job, plant.kernel, planted(plant)


def prepare(folder: Path) -> dict[str, Any]:
    """Compiles all kernels into *folder*, with the launcher; returns the plan. Raises PtxasMissing."""
    tool = ptxas.find()
    folder.mkdir(parents=True, exist_ok=True)
    plan: dict[str, Any] = {"ptxas": tool.release, "n": ITERATIONS, "jobs": {}, "refused": {}}
    for name, kernel, text in jobs():
        cubins = []
        for build, ptx in (("plain", text), ("marked", marked(text))):
            code, said = assemble(tool, ptx.encode())
            if not code:
                plan["refused"][name] = said
                break
            (folder / f"{name}.{build}.cubin").write_bytes(code)
            cubins.append(f"{name}.{build}.cubin")
        else:
            plan["jobs"][name] = {
                "entry": kernel,
                "cubins": cubins,
                "grid": ctas_of(text),
                "block": threads_of(text),
                "planted": name != kernel,
            }
    (folder / "jobs.json").write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")
    stand_alone(folder, *(Path(__file__).parent / name for name in ("launcher.py", "run.sh")))
    return plan
