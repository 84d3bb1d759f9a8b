"""How many findings have a fix, and how many of the fixes hold: the finding is gone, nothing new comes, ptxas agrees.

    python -m benchmarks.fixes FOLDER... [--faults] [--most FILES] [--each 20] [--seed 7]

Every fix of every finding in the ``.ptx`` files below the folders is made alone and checked again; what ptxas took before
it must take afterwards. With ``--faults`` the findings are those of faults that are planted in the files, waits, fences
and commits deleted or weakened (``benchmarks.faults``), and in the fixed text nothing may be found that the original
does not have.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.arguments import command_line
from benchmarks.faults import OPERATORS, Fault, Kernel, apply
from benchmarks.mutation import kernels
from benchmarks.ptxas import PtxasMissing, find
from tclint.config.config import Config
from tclint.driver.fixing import apply_fixes, shown, tried
from tclint.syntax.source import Source, SourceError

__all__ = ["DELETIONS", "assembles", "faults", "findings"]

DELETIONS = (
    "wgmma.wait_group deleted",
    "wgmma.commit_group deleted",
    "wgmma.fence deleted",
    "tcgen05.wait::ld deleted",
    "tcgen05.wait::st deleted",
    "cp.async.commit_group deleted",
    "cp.async.wait deleted",
    "bulk commit_group deleted",
    "bulk wait_group deleted",
    "proxy fence deleted",
    "wgmma.wait_group 0 to 1",
    "wgmma.wait_group N to N+1",
    "cp.async.wait_group N to N+1",
    "bulk wait_group N to N+1",
    "bulk wait_group to .read",
    "griddepcontrol.wait deleted",
)
"""The operators whose faults an edit of the text can fix exactly."""
CONFIG = Config()
SECONDS = 60
"""How long ptxas may take for a module."""


def assembles(data: bytes) -> bool | None:
    """Whether ptxas takes a module; None where there is none, or where it takes too long."""
    try:
        return find().compile(data, SECONDS).status == 0
    except (PtxasMissing, ValueError):
        return None


def findings(path: Path) -> Iterator[tuple[str, str, str]]:
    """``(rule, kind, outcome)`` of each fix of each finding in a file, kind ``safe``, ``unsafe`` or ``none``."""
    try:
        report = shown(Source.read(path), CONFIG)
    except SourceError:
        return
    assert report.source is not None
    taken = assembles(report.source.data) if any(f.fixes for f in report.findings) else None
    for finding in report.findings:
        if not finding.fixes:
            yield finding.rule.id, "none", ""
        for fix in finding.fixes[:1]:
            made = tried(report, [(finding, fix)], CONFIG)
            outcome = made if isinstance(made, str) else "clean"
            if not isinstance(made, str) and taken and not assembles(made.source.data):
                outcome = "ptxas refuses it"
            yield finding.rule.id, "safe" if fix.safe else "unsafe", outcome


def faults(path: Path, operator: str) -> Iterator[tuple[Kernel, Fault]]:
    """The places of a file at which the fault can be planted."""
    for kernel in kernels(path):
        for fault in OPERATORS[operator].plant(kernel):
            yield kernel, fault


def fixed(kernel: Kernel, fault: Fault, name: str) -> str:
    """What ``--fix`` makes of a planted fault: ``silent`` (nothing is found), ``clean``, or what is left."""
    whole = {f.rule.id for f in shown(Source(kernel.data, name), CONFIG).findings}
    planted = Source(apply(kernel.data, fault.edits), name)
    found = [f for f in shown(planted, CONFIG).findings if f.rule.id not in whole]
    if not found:
        return "silent"
    if not any(fix.safe for f in found for fix in f.fixes):
        return "no safe fix"
    done = apply_fixes(planted, CONFIG)
    left = sorted({f.rule.id for f in done.report.findings} - whole)
    if left:
        return f"left: {' '.join(left)}"
    if assembles(kernel.data) and not assembles(done.source.data):
        return "ptxas refuses it"
    return "clean"


def _files(folders: Iterable[Path]) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.ptx"))


def main() -> None:
    parser = command_line("benchmarks.fixes", __doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--each", type=int, default=20, help="faults of each operator")
    parser.add_argument("--most", type=int, default=None, help="look at so many files, drawn with the seed")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    files = _files(given.folders)
    random.Random(given.seed).shuffle(files)
    files = files[: given.most]
    counts: Counter[tuple[str, str, str]] = Counter()
    if given.faults:
        rng = random.Random(given.seed)
        for operator in DELETIONS:
            rng.shuffle(files)
            places = (
                (path, *item) for path in files for item in list(faults(path, operator))[:1]
            )  # one of each file
            for (path, kernel, fault), _ in zip(places, range(given.each), strict=False):
                counts[operator, "", fixed(kernel, fault, path.name)] += 1
    else:
        for path in files:
            counts.update(findings(path))
    for (what, kind, outcome), number in sorted(counts.items()):
        print(f"{number:6}  {what:<28}  {kind:<7} {outcome}")


if __name__ == "__main__":
    main()
