"""What tclint proves of real kernels, and whether a fault in a kernel that is proved takes the proof away.

    python -m benchmarks.verdicts PATH... [--every 6] [--class wgmma] [--findings]
    python -m benchmarks.verdicts --mutants 300 PATH... [--class wgmma] [--seed 7]

PATH is a ``.ptx`` file, or a folder of them; *every* takes each n-th file. The first command counts, for each class of
hazards and each producer (the folder of a file), the kernels that use the class, those that are proved, those whose proof
rests on assumptions, and the commonest reasons of the others. With ``--findings`` the files are linted as well, and a
finding of the class makes a kernel *violated*.

The second plants faults of ``benchmarks.faults`` that are about a class into kernels that are proved for it. A mutant
that is still proved is printed, with its change: either the change is harmless to the class, or the proof is wrong. The
exit status is then 1.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.faults import OPERATORS, Fault, Kernel, apply
from tclint.analyses.model import KernelModel
from tclint.findings.verdicts import HazardClass, Status, Verdict
from tclint.ir.frontend import analyse
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import Function, Module
from tclint.linting.check import check_source
from tclint.syntax.source import Source, SourceError
from tclint.verdicts import verdicts

__all__ = ["ABOUT", "Survivor", "kernels", "main", "mutants", "table"]

LARGEST = 400_000
"""Bytes of the largest file that faults are planted in."""
REASONS = 5
_NUMBER = re.compile(r"\b\d+\b")

ABOUT = {
    HazardClass.WGMMA: r"^(wgmma\.(wait|commit|fence)|accumulator (read|written|changed)|copy of|A fragment|call while)",
    HazardClass.TMEM_ACCESS: r"^tcgen05\.wait",
    HazardClass.CP_ASYNC: r"^cp\.async\.",
    HazardClass.BULK: r"^bulk (wait|commit)",
    HazardClass.AVAILABILITY: r"^(version lowered|target )",
    HazardClass.REGISTER_POOL: r"^(entry register count|setmaxnreg)",
    HazardClass.CONVERGENCE: r"^(aligned instruction|some lanes|part of a warpgroup|wgmma skipped|(shuffle|vote|elect) mask|barrier thread count)",
}
"""Class -> the names of the faults that are about it."""


class Row(NamedTuple):
    """What is known of one class in one kernel."""

    producer: str
    file: Path
    verdict: Verdict


class Survivor(NamedTuple):
    """A mutant that is proved for the class of its fault."""

    operator: str
    file: Path
    kernel: str
    line: int
    note: str


def files(paths: Sequence[Path], every: int) -> list[Path]:
    """The files below *paths*, in order, and of these each n-th."""
    found = sorted(f for p in paths for f in (p.rglob("*.ptx") if p.is_dir() else [p]))
    return found[::every]


def kernels(source: Source) -> Iterator[tuple[Module, Function]]:
    """The kernels of a module that can be analysed, with the callees inlined that its checks see."""
    module, _ = analyse(source)
    callees = inlinable(module)
    for function in module.functions:
        if function.entry and function.instructions and not function.declared_only:
            yield module, inline(function, callees)


def proved(
    module: Module, function: Function, only: Collection[HazardClass], violated: Collection[HazardClass] = ()
) -> tuple[Verdict, ...]:
    """The verdicts of one kernel about the classes *only*."""
    model = KernelModel(function, module)
    return verdicts(model, violated, only=only)


def rows(paths: Sequence[Path], only: Collection[HazardClass], findings: bool) -> Iterator[Row]:
    """The verdicts of all kernels of *paths*."""
    for path in paths:
        try:
            source = Source.read(path)
        except SourceError:
            continue
        broken: dict[str | None, set[HazardClass]] = defaultdict(set)
        for finding in check_source(source).findings if findings else ():
            broken[finding.entry] |= {HazardClass(name) for name in finding.rule.hazards}
        for module, function in kernels(source):
            for verdict in proved(module, function, only, broken[function.name] | broken[None]):
                yield Row(path.parent.name, path, verdict)


def table(found: Sequence[Row]) -> str:
    """Shares by class and producer, and the commonest reasons of what is unknown."""
    lines = ["class              producer       kernels  violated  proved  assuming  unknown  share"]
    for hazard in HazardClass:
        mine = [row for row in found if row.verdict.hazard is hazard]
        for producer in ("", *sorted({row.producer for row in mine})) if mine else ():
            counted = [row.verdict for row in mine if producer in ("", row.producer)]
            status = Counter(v.status for v in counted)
            assuming = sum(v.status is Status.PROVED and bool(v.assumptions) for v in counted)
            share = status[Status.PROVED] / len(counted)
            lines.append(
                f"{hazard.value if not producer else '':<18} {producer or 'all':<14} {len(counted):>7} "
                f"{status[Status.VIOLATED]:>9} {status[Status.PROVED]:>7} {assuming:>9} {status[Status.UNKNOWN]:>8} "
                f"{share:>6.0%}"
            )
        whys = Counter(_NUMBER.sub("N", row.verdict.reasons[0].what) for row in mine if row.verdict.reasons)
        lines += [f"    {n:>4}  {why}" for why, n in whys.most_common(REASONS)]
    return "\n".join(lines)


def mutants(
    paths: Sequence[Path], hazard: HazardClass, wanted: int, seed: int
) -> tuple[int, Counter[str], list[Survivor]]:
    """Plants *wanted* faults about *hazard* in kernels that are proved for it.

    Returns how many were planted, how many of each kind took the proof away, and the mutants that are still proved.
    """
    rng = random.Random(seed)
    places: list[tuple[Path, Kernel, str, Fault]] = []
    for path in paths:
        if path.stat().st_size > LARGEST:
            continue
        source = Source.read(path)
        for module, function in kernels(source):
            verdict = [v for v in proved(module, function, [hazard]) if v.status is Status.PROVED]
            written = module.function(function.name)
            if not verdict or written is None:
                continue
            kernel = Kernel(source.data, module, written)
            for name, operator in OPERATORS.items():
                if re.search(ABOUT[hazard], name):
                    places += ((path, kernel, name, fault) for fault in operator.plant(kernel))
    taken, lost, survivors = 0, Counter[str](), list[Survivor]()
    for path, kernel, name, fault in _spread(places, rng):
        if taken == wanted:
            break
        source = Source(apply(kernel.data, fault.edits), str(path))
        after = [
            v
            for module, function in kernels(source)
            if function.name == kernel.function.name
            for v in proved(module, function, [hazard])
        ]
        taken += 1
        if any(v.status is Status.PROVED for v in after):
            line = kernel.line(fault.edits[0].span.start)
            survivors.append(Survivor(name, path, kernel.function.name, line, fault.note))
        else:
            lost[name] += 1
    return taken, lost, survivors


def _spread(
    places: Sequence[tuple[Path, Kernel, str, Fault]], rng: random.Random
) -> Iterator[tuple[Path, Kernel, str, Fault]]:
    """All places, one of each kind and kernel after the other."""
    queues: dict[tuple[str, Path, str], list[tuple[Path, Kernel, str, Fault]]] = defaultdict(list)
    for place in places:
        path, kernel, name, _ = place
        queues[name, path, kernel.function.name].append(place)
    by_name: dict[str, list[list[tuple[Path, Kernel, str, Fault]]]] = defaultdict(list)
    for (name, *_), queue in sorted(queues.items(), key=lambda item: item[0]):
        rng.shuffle(queue)
        by_name[name].append(queue)
    for lists in by_name.values():
        rng.shuffle(lists)
    while by_name:
        for name in list(by_name):
            lists = by_name[name]
            queue = lists.pop(0)
            yield queue.pop()
            if queue:
                lists.append(queue)
            if not lists:
                del by_name[name]


def main() -> None:
    """Count, or plant faults."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", metavar="PATH", type=Path, nargs="+")
    parser.add_argument("--every", type=int, default=1, help="only each n-th file")
    parser.add_argument(
        "--class", dest="hazards", action="append", choices=[h.value for h in HazardClass], default=[]
    )
    parser.add_argument("--findings", action="store_true", help="lint the files, too")
    parser.add_argument("--mutants", type=int, default=0, help="plant so many faults of each class")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    chosen = [HazardClass(name) for name in options.hazards] or list(HazardClass)
    paths = files(options.paths, options.every)
    if not options.mutants:
        found = list[Row]()
        with suppress(KeyboardInterrupt):  # what was counted until then is shown
            for row in rows(paths, chosen, options.findings):
                found.append(row)
        print(table(found))
        return
    left = 0
    for hazard in chosen:
        if hazard not in ABOUT:
            continue
        planted, lost, survivors = mutants(paths, hazard, options.mutants, options.seed)
        print(f"{hazard.value}: {planted} faults planted, {len(survivors)} mutants are still proved")
        for name, number in sorted(lost.items()):
            print(f"    {number:>4}  {name}")
        for each in survivors:
            print(f"    proved: {each.operator}: {each.file}:{each.line} in {each.kernel}: {each.note}")
        left += len(survivors)
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
