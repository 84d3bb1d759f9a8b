"""Of the faults planted in real kernels, how many does ``tclint diff`` report, as what they are and where they are?

    python -m benchmarks.differences FILE... [--each N]

Each fault of ``benchmarks/faults/`` that touches synchronisation is planted N times at most in each kernel, and the kernel
is compared with itself as it was. *Exact* is a report of this fault, at its line, and of nothing else; *found* is one
of it beside others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from benchmarks.arguments import command_line
from benchmarks.faults import OPERATORS, Fault, Kernel, apply
from tclint.diff.compare import OpChange, compare
from tclint.diff.skeleton import Skeleton, skeleton
from tclint.ir.frontend import analyse
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import Function, Module
from tclint.syntax.source import Source

__all__ = ["WANTED", "main", "measure"]

WANTED: dict[str, str] = {
    **{
        name: "lost"
        for name in OPERATORS
        if name.endswith(" deleted") and " and " not in name and "behind" not in name
    },
    "mbarrier wait loop dropped": "lost",
    "election dropped": "changed",
    "wgmma.wait_group 0 to 1": "weakened",
    "wgmma.wait_group N to N+1": "weakened",
    "cp.async.wait_group N to N+1": "weakened",
    "bulk wait_group N to N+1": "weakened",
    "bulk wait_group to .read": "weakened",
    "mbarrier wait asked once": "weakened",
    "mbarrier.init count lowered": "weakened",
    "mbarrier wait relaxed": "weakened",
    "mbarrier arrive relaxed": "weakened",
    "proxy fence narrowed": "weakened changed",
    "CTA barrier to warp barrier": "weakened",
    "elect mask narrowed": "weakened",
    "shuffle mask narrowed": "weakened",
    "vote mask narrowed": "weakened",
    "mbarrier.init count raised": "strengthened",
    "mbarrier arrive count raised": "changed",
    "mbarrier wait parity flipped": "changed",
    "setmaxnreg.inc to .dec": "changed",
    "setmaxnreg.dec to .inc": "changed",
    "barrier count beyond the CTA": "strengthened",
    "mbarrier arrive doubled": "added",
    "cluster arrival doubled": "added",
    "tcgen05.dealloc doubled": "added",
    **{
        name: "moved"
        for name in OPERATORS
        if (" after the " in name and "changed" not in name) or " moved past " in name
    },
    "CTA barrier before the cp.async.wait": "moved",
}
"""What each fault is."""


def _skeleton(data: bytes, name: str) -> tuple[Module, Function, Skeleton] | None:
    source = Source.from_bytes(data, "kernel.ptx")
    module, problems = analyse(source)
    function = module.function(name)
    if problems or function is None:
        return None
    return module, function, skeleton(source, module, inline(function, inlinable(module)))


def _verdict(changes: list[OpChange], wanted: str, lines: set[int]) -> str:
    hits = [
        change
        for change in changes
        if change.status in wanted.split() and any((at.old or at.op).line in lines for at in change.op_pairs)
    ]
    if not hits and wanted == "moved":  # too far to be called so: lost and added
        here = {(c.status, at.op.line in lines) for c in changes for at in c.op_pairs}
        return (
            "found" if {("lost", True), ("added", True)} <= here else "another way" if changes else "silent"
        )
    if not hits:
        return "another way" if changes else "silent"
    return "exact" if len(changes) == 1 else "found"


def measure(data: bytes, each: int = 2) -> Iterator[tuple[str, str, Fault]]:
    """Operator, verdict and fault for the faults of one file."""
    source = Source.from_bytes(data, "kernel.ptx")
    module, _ = analyse(source)
    for function in module.functions:
        if not function.entry or not function.instructions or function.damaged:
            continue
        made = _skeleton(data, function.name)
        if made is None:
            continue
        kernel = Kernel(data, module, function)
        waits = {kernel.line(kernel.span(site).start) for site in kernel.sites("mbarrier-wait")}
        for operator, wanted in WANTED.items():
            for fault in islice(OPERATORS[operator].plant(kernel), each):
                mutant = _skeleton(apply(data, fault.edits), function.name)
                if mutant is None:
                    continue
                lines = {kernel.line(edit.span.start) for edit in fault.edits}
                if operator == "mbarrier wait asked once":  # the edit is that of the branch
                    lines = {max(n for n in waits if n <= min(lines))}
                changes = compare(made[2], mutant[2]).changes
                yield operator, _verdict(changes, wanted, lines), fault


def main() -> None:
    """Measures the files, and prints a line for each operator."""
    parser = command_line("benchmarks.differences", __doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--each", type=int, default=2, help="faults of a kind in each kernel, at most")
    parser.add_argument("--show", action="store_true", help="print what is not exact")
    options = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    for path in options.files:
        for operator, verdict, fault in measure(path.read_bytes(), options.each):
            counts.setdefault(operator, Counter())[verdict] += 1
            if options.show and verdict != "exact":
                print(f"{path.name}: {operator}: {verdict}: {' '.join(fault.note.split())[:100]}")
    total: Counter[str] = Counter()
    print(f"{'':44} {'planted':>8} {'exact':>6} {'found':>6} {'other':>6} {'silent':>6}")
    for operator, count in counts.items():
        total += count
        print(_row(operator, count))
    print(_row("all", total))


def _row(name: str, count: Counter[str]) -> str:
    numbers = [count.total(), *(count[verdict] for verdict in ("exact", "found", "another way", "silent"))]
    return f"{name:44} {numbers[0]:8}" + "".join(f"{number:7}" for number in numbers[1:])


if __name__ == "__main__":
    main()
