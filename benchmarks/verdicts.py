"""What tclint proves of real kernels, and whether a fault in a kernel that is proved takes the proof away.

    python -m benchmarks.verdicts PATH... [--every 6] [--class wgmma] [--largest N] [--journal FILE] [--record]
    python -m benchmarks.verdicts --mutants 300 PATH... [--class wgmma] [--kernels 40] [--largest N] [--seed 7]
                                  [--journal FILE] [--record]
    python -m benchmarks.verdicts --against ptxas PATH... [--class wgmma] [--record]

PATH is a ``.ptx`` file, or a folder of them; *every* takes each n-th file. The first command counts, for each class of
hazards and each producer (the folder of a file), the kernels that use the class, those that are proved, those whose proof
rests on assumptions, those that findings violate or replays bound, and the commonest reasons of the others
(``benchmarks.verdict_shares``).

The second plants faults of ``benchmarks.faults`` and ``benchmarks.proof_faults`` that are about a class into kernels that
are proved for it. A mutant that is still proved is printed, with its change: either the change is harmless to the class, or the proof is wrong.
The third asks ptxas, and the SASS that it makes, about the kernels that are proved (``benchmarks.verdict_oracles``).
A person reads what speaks against a proof: ``benchmarks/readings.tsv`` has why the class holds nevertheless. If
anything was not read, the exit status is 1. What a ``--journal`` has is not judged again. With ``--record`` the numbers are
recorded for ``docs/results.md``; the first command then lists what it asked of all classes, and writes
``docs/proved.md``.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import ptxas, verdict_page
from benchmarks.arguments import command_line
from benchmarks.corpus.builder import default_cache
from benchmarks.faults import OPERATORS, Fault, Kernel, apply
from benchmarks.journal import Journal, key, sources
from benchmarks.proof_faults import PROOF_FAULTS
from benchmarks.verdict_oracles import ORACLES, Case, digest, oracle
from benchmarks.verdict_score import read, record
from benchmarks.verdict_shares import Row, files, kernels, proved, rows, shares, table
from tclint.findings.requirements import ALL_ASSUMPTIONS
from tclint.findings.verdicts import Assumption, HazardClass, Status
from tclint.hang.machine_code import MachineCodeError
from tclint.syntax.source import Source

__all__ = ["ABOUT", "Mutants", "against", "main", "mutants"]

BY_LETTER = ALL_ASSUMPTIONS - {Assumption.IMPLIED_FENCES, Assumption.COMPLETED_READS}
"""What a proof may assume if each ``tcgen05.fence`` is needed (9.7.16.6.3), and each proxy fence (9.7.16.6.5)."""
LARGEST = 400_000
"""Bytes of the largest file that faults are planted in, and that others are asked about."""

ABOUT = {
    HazardClass.WGMMA: r"^(wgmma\.(wait|commit|fence)|accumulator (read|written|changed)|copy of|A fragment|call while)",
    HazardClass.TMEM_ACCESS: r"^tcgen05\.wait",
    HazardClass.CP_ASYNC: r"^cp\.async\.",
    HazardClass.BULK: r"^bulk (wait|commit)",
    HazardClass.TCGEN05_MMA: r"^(tcgen05\.commit|mbarrier wait (loop|asked|parity|relaxed|after)|mbarrier\.init (count (raised|lowered)|done))",
    HazardClass.PROXIES: r"^(proxy fence|store right before)",
    HazardClass.AVAILABILITY: r"^(version lowered|target )",
    HazardClass.REGISTER_POOL: r"^(entry register count|setmaxnreg)",
    HazardClass.SHARED_MEMORY: r"^(CTA barrier|cp\.async\.(wait|commit))",
    HazardClass.TENSOR_MEMORY: r"^(CTA barrier (deleted|to)|tcgen05\.(wait|fence))",
    HazardClass.CONVERGENCE: r"^(aligned instruction|some lanes|part of a warpgroup|wgmma skipped|(shuffle|vote|elect) mask|barrier thread count)",
    HazardClass.DEADLOCK: r"^(aligned instruction|some lanes|part of a warpgroup|wgmma skipped|(shuffle|vote|elect) mask|barrier thread count)",
}
"""Class -> the names of the faults that are about it."""


class Mutants(NamedTuple):
    """What became of the faults of one class."""

    kernels: int
    """The kernels in which they were planted."""
    lost: Counter[str]
    """How many of each kind took the proof away."""
    survivors: list[Case]
    """The mutants that are still proved."""

    @property
    def planted(self) -> int:
        return sum(self.lost.values()) + len(self.survivors)


def mutants(
    paths: Sequence[Path],
    hazard: HazardClass,
    wanted: int,
    seed: int,
    most: int = sys.maxsize,
    journal: Path | None = None,
) -> Mutants:
    """Plants *wanted* faults about *hazard* in kernels that are proved for it: in *most* of them, drawn by *seed*."""
    rng, known, asked = random.Random(seed), Journal(journal), f"{sources()} proved {hazard.value}"
    operators = {name: o.plant for name, o in OPERATORS.items() if re.search(ABOUT[hazard], name)}
    places: list[tuple[Path, Kernel, str, Fault]] = []
    strict = set[tuple[Path, str]]()
    """The kernels that are proved by the letter: a fence that they need by the letter is a fault to leave out."""
    found = 0
    for path in rng.sample(paths, len(paths)):
        if found >= most:
            break
        source = Source.read(path)
        names = known.of(key(source.data, asked), partial(_proved_names, source, hazard))
        if names:
            letter = partial(_proved_names, source, hazard, assume=BY_LETTER)
            strict.update((path, name) for name in known.of(key(source.data, "by the letter", asked), letter))
        for module, function in kernels(source) if names else ():
            written = module.function(function.name)
            if function.name not in names or written is None:
                continue
            found += 1
            kernel = Kernel(source.data, module, written)
            for name, plant in {**operators, **PROOF_FAULTS.get(hazard, {})}.items():
                places += ((path, kernel, name, fault) for fault in plant(kernel))
    done = Mutants(found, Counter(), [])
    for path, kernel, name, fault in _spread(places, rng):
        if done.planted == wanted:
            break
        source = Source(apply(kernel.data, fault.edits), str(path))
        entry = kernel.function.name
        assume = BY_LETTER if (path, entry) in strict else ALL_ASSUMPTIONS
        if known.of(key(source.data, entry, asked), partial(_proved_names, source, hazard, entry, assume)):
            note = f"{path}, {entry}: {fault.note}"
            line = kernel.line(fault.edits[0].span.start)
            done.survivors.append(Case(hazard, digest(kernel.data, entry), name, line, note))
        else:
            done.lost[name] += 1
    return done


def _proved_names(
    source: Source,
    hazard: HazardClass,
    only: str | None = None,
    assume: frozenset[Assumption] = ALL_ASSUMPTIONS,
) -> list[str]:
    """The kernels of a file that are proved for a class, if *assume* may be assumed: the one called *only*, or any."""
    return [
        function.name
        for module, function in kernels(source)
        if only in (None, function.name)
        and any(v.status is Status.PROVED for v in proved(module, function, [hazard], assume))
    ]


def against(paths: Sequence[Path], hazard: HazardClass) -> tuple[int, list[Case], dict[str, str], list[str]]:
    """Asks what knows nothing of proofs about all kernels that are proved for *hazard*.

    Returns how many these are, what speaks against their proofs, the versions of the programs that were asked, and what
    could not be asked.
    """
    ask, versions = oracle(hazard)
    asked, cases, skipped = 0, list[Case](), list[str]()
    for path in paths:
        data = path.read_bytes() if path.stat().st_size <= LARGEST else b""
        if not re.search(ORACLES[hazard].uses, data):
            continue
        found = set(_proved_names(Source(data, str(path)), hazard))
        try:
            cases += ask(data, found) if found else ()
        except ValueError as error:
            skipped.append(f"{path.name}: {error}")
            continue
        asked += len(found)
    return asked, cases, versions, skipped


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
    """Count, plant faults, or ask others."""
    parser = command_line("benchmarks.verdicts", __doc__)
    parser.add_argument(
        "paths", metavar="PATH", type=Path, nargs="*", default=[default_cache()], help="default: the corpus"
    )
    parser.add_argument("--every", type=int, default=1, help="only each n-th file")
    parser.add_argument(
        "--class", dest="hazards", action="append", choices=[h.value for h in HazardClass], default=[]
    )
    parser.add_argument("--mutants", type=int, default=0, help="plant so many faults of each class")
    parser.add_argument("--kernels", type=int, default=sys.maxsize, help="plant them in so many kernels")
    parser.add_argument("--against", choices=["ptxas"], help="ask ptxas about the kernels that are proved")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--largest",
        type=int,
        default=sys.maxsize,
        help="only files up to so many bytes, or those in which faults are planted",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes that count what is proved (1)")
    parser.add_argument("--journal", type=Path, help="keep what is found, so that the run can be resumed")
    parser.add_argument(
        "--record", action="store_true", help="leave a record, and write docs/results.md and docs/proved.md"
    )
    options = parser.parse_args()
    chosen = [HazardClass(name) for name in options.hazards] or list(HazardClass)
    paths = files(options.paths, options.every)
    if options.mutants:
        left = [_plant(paths, hazard, options) for hazard in chosen if hazard in ABOUT]
        sys.exit(any(left))
    if options.against:
        try:
            left = [_ask(paths, hazard, options.record) for hazard in chosen if hazard in ORACLES]
        except (ptxas.PtxasMissing, MachineCodeError) as error:
            sys.exit(f"nothing is asked: {error}")
        sys.exit(any(left))
    counted = [path for path in paths if path.stat().st_size <= options.largest]
    sample = f"{len(counted)} files" + (
        f" up to {options.largest // 1000} kB" if len(counted) < len(paths) else ""
    )
    found = list[Row]()
    with suppress(KeyboardInterrupt):  # what was counted until then is shown
        for row in rows(counted, chosen, options.journal, options.jobs):
            found.append(row)
        for hazard, row in shares(found).items() if options.record else ():
            record("shares", hazard, {"sample": sample, **row}, {})
        if options.record and not options.hazards:
            verdict_page.write(found)
    print(table(shares(found)))


def _plant(paths: Sequence[Path], hazard: HazardClass, options: argparse.Namespace) -> bool:
    """Plants faults of one class; whether a mutant that is still proved was not read."""
    largest = min(options.largest, LARGEST)
    small = [path for path in paths if path.stat().st_size <= largest]
    done = mutants(small, hazard, options.mutants, options.seed, options.kernels, options.journal)
    judged = read(done.survivors)
    print(f"{hazard.value}: {done.planted} faults planted, {len(done.survivors)} mutants are still proved")
    for name, number in sorted(done.lost.items()):
        print(f"    {number:>4}  {name}")
    _report(judged)
    if options.record:
        most = f"at most {options.kernels} kernels, " if options.kernels < sys.maxsize else ""
        sample = f"{most}seed {options.seed}, files up to {largest // 1000} kB"
        row = {
            "sample": sample,
            "kernels": done.kernels,
            "planted": done.planted,
            "lost": sum(done.lost.values()),
            **judged,
        }
        record("mutants", hazard.value, row, {})
    return bool(judged["unread"])


def _ask(paths: Sequence[Path], hazard: HazardClass, recorded: bool) -> bool:
    """Asks about the kernels that are proved for one class; whether a case was not read."""
    asked, cases, versions, skipped = against(paths, hazard)
    judged = read(cases)
    print(f"{hazard.value}: {asked} kernels are proved, {len(cases)} cases speak against a proof")
    print("".join(f"    skipped: {reason}\n" for reason in skipped), end="")
    _report(judged)
    if recorded:
        sample = f"files up to {LARGEST // 1000} kB"
        row = {
            "sample": sample,
            "oracle": ORACLES[hazard].name,
            "kernels": asked,
            "skipped": skipped,
            **judged,
        }
        record("oracles", hazard.value, row, versions)
    return bool(judged["unread"])


def _report(judged: Mapping[str, Any]) -> None:
    for reason, number in judged["harmless"].items():
        print(f"    no fault, {number}: {reason}")
    for case in judged["unread"]:
        print(f"    not read: {' '.join(case)}")


if __name__ == "__main__":
    main()
