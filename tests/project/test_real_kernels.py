"""What tclint says of real kernels: the archives in ``../shared/kernels``, which are beside a checkout, not in it.

``real_kernels.tsv`` records every finding of severity warning or error, with the verdict that docs/real-kernels.md
argues for. A change of the findings over the whole corpus is part of every review, so it has to be made there.

Files above :data:`LARGE` bytes take most of the time. But for the smallest with a finding of each rule on record, they
are linted only where :data:`WHOLE` is set: before a release, and before a change of rules, analyses or replays is
merged.
"""

from __future__ import annotations

import gc
import os
import tarfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from tclint.analyses.model import KernelModel
from tclint.checks.tcgen05 import missing_commit
from tclint.dataflow import Analysis, solve
from tclint.driver.pool import cores
from tclint.findings.finding import FileReport
from tclint.findings.scales import Confidence, Severity
from tclint.ir import Function, Instruction, build
from tclint.linting.check import check_source
from tclint.syntax import parse
from tclint.syntax.source import Source
from tests.tools.project import ROOT

KERNELS = ROOT.parent / "shared" / "kernels"
ARCHIVES = [KERNELS / "real_kernels.tar.xz", KERNELS / "nvcc_kernels.tar.xz"]
RECORD = Path(__file__).parent / "real_kernels.tsv"
WHOLE = "TCLINT_WHOLE_CORPUS"
LARGE = 60_000
"""Half of the kernels have fewer bytes, and together a tenth of the bytes of the archives."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(archive.is_file() for archive in ARCHIVES),
        reason="the archives of real kernels (../shared/kernels) are not beside this checkout",
    ),
]


def sources(archive: Path) -> Iterator[Source]:
    """The kernels of an archive, in its order."""
    with tarfile.open(archive) as members:
        for member in members:
            if member.name.endswith(".ptx"):
                file = members.extractfile(member)
                assert file is not None
                yield Source.from_bytes(file.read(), member.name.removeprefix("./"))


def recorded() -> list[list[str]]:
    """Rule, kernel, line and verdict of each finding on record."""
    return [row.split("\t") for row in RECORD.read_text("utf-8").splitlines()[1:]]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[FileReport]:
    """One report for each kernel, made by as many processes as there are cores."""
    folder = tmp_path_factory.mktemp("kernels")
    every = {source.path: source.data for archive in ARCHIVES for source in sources(archive)}
    smallest: dict[str, str] = {}
    for rule, kernel, *_ in recorded():
        smallest[rule] = min(kernel, smallest.get(rule, kernel), key=lambda name: len(every[name]))
    names = [
        name
        for name, data in every.items()
        if len(data) <= LARGE or name in smallest.values() or WHOLE in os.environ
    ]
    paths = [folder / str(number) for number in range(len(names))]
    for path, name in zip(paths, names, strict=True):
        path.write_bytes(every[name])
    with ProcessPoolExecutor(cores(), get_context("spawn")) as pool:
        return list(pool.map(checked, paths, names, chunksize=4))


def checked(path: Path, name: str) -> FileReport:
    return check_source(Source.from_bytes(path.read_bytes(), name))


def test_the_corpus_is_whole(reports: list[FileReport]) -> None:
    assert len(reports) == (930 if WHOLE in os.environ else 491)


def test_every_kernel_is_analysed(reports: list[FileReport]) -> None:
    assert [(r.path, r.problems) for r in reports if r.status != "analysed"] == []


def test_the_assembler_rules_are_silent(reports: list[FileReport]) -> None:
    """Public compilers made these kernels and ptxas takes them."""
    found = [
        (r.path, f.message)
        for r in reports
        for f in r.findings
        if f.rule.id[:2] in ("PX", "AV") and f.severity >= Severity.WARNING
    ]
    assert found == []


def test_the_findings_are_those_on_record(reports: list[FileReport]) -> None:
    found = set()
    for report in reports:
        assert report.source is not None
        for finding in report.findings:
            if finding.severity >= Severity.WARNING and finding.confidence > Confidence.LOW:
                line = report.source.position(finding.span.start).line
                found.add((finding.rule.id, report.path, str(line)))
    linted = {report.path for report in reports}
    assert found == {(rule, kernel, line) for rule, kernel, line, _ in recorded() if kernel in linted}


def test_kernels_without_a_defect_are_clean(reports: list[FileReport]) -> None:
    """Those that fail have a finding that docs/real-kernels.md calls true; few do."""
    dirty = {
        r.path
        for r in reports
        if any(f.severity >= Severity.WARNING and f.confidence > Confidence.LOW for f in r.findings)
    }
    defective = {kernel for _, kernel, _, verdict in recorded() if verdict.startswith("true")}
    assert dirty <= defective
    assert len(dirty) <= 38


class Literal(Analysis[frozenset[int]]):
    """The MMAs without a commit after them, whatever the guards and branches say."""

    def __init__(self, deleted: int = -1) -> None:
        self.deleted = deleted

    def boundary(self) -> frozenset[int]:
        return frozenset()

    bottom = boundary

    def join(self, a: frozenset[int], b: frozenset[int]) -> frozenset[int]:
        return a | b

    def affecting(self, instruction: Instruction) -> bool:
        return instruction.group == "tcgen05"

    def transfer(self, state: frozenset[int], at: int, instruction: Instruction) -> frozenset[int]:
        if instruction.event == "issue":
            return state | {at}
        return frozenset() if instruction.event == "commit" and at != self.deleted else state


def unguarded(function: Function) -> Function:
    """*function* with every operation and commit of tcgen05 unguarded."""
    copy = Function(function.name, function.entry, function.start, function.end, registers=function.registers)
    copy.uses = function.uses
    for ins in function.instructions:
        guard = -1 if ins.group == "tcgen05" else ins.guard
        made = Instruction(
            ins.opcode, ins.match, guard, ins.negated, ins.operands, ins.reads, ins.writes, ins.start, ins.end
        )
        made.targets = ins.targets
        copy.instructions.append(made)
    return copy


def decided(function: Function, predicate: int, value: bool) -> Function:
    """:func:`unguarded`, with every branch on *predicate* taken or not as its *value* says."""
    copy = unguarded(function)
    for at, ins in enumerate(copy.instructions):
        if ins.guard == predicate and ins.flow == "branch":
            if value != ins.negated:
                made = Instruction(ins.opcode, ins.match, -1, False, ins.operands, (), (), ins.start, ins.end)
                made.targets = ins.targets
            else:
                made = Instruction("nop", None, -1, False, ins.operands, (), (), ins.start, ins.end)
            copy.instructions[at] = made
    return copy


def open_at_end(model: KernelModel, deleted: int) -> frozenset[int]:
    results = solve(Literal(deleted), model.cfg)
    ends = [b for b in model.cfg.order if b in model.cfg.exits]
    return frozenset().union(*(results.leave(b) for b in ends)) if ends else frozenset()


@pytest.mark.skipif(WHOLE not in os.environ, reason=f"{WHOLE} is not set: its counts are of all kernels")
def test_missing_commits() -> None:
    """Silent on every real function with an MMA; finds each deleted commit that no other one replaces.

    A deletion that is not found must be covered: by another commit on every path of the graph, or, where warps and
    elected lanes decide, on every path of the threads that issued the MMA. The latter are counted; they are kernels
    of Triton, whose MMAs and commits are under one warp test that is repeated for each batch, or which issue the
    MMAs of the next iteration only if there is one, whose commits follow. In between are those that a branch decides
    whose predicate has one definition: whatever its value, another commit follows.
    """
    functions = flagged = 0
    verdicts: Counter[str] = Counter()
    for source in sources(ARCHIVES[0]):
        if b"tcgen05.mma" not in source.data:
            continue
        module = build(parse(source.data), source.data)
        for function in module.functions:
            if not any(use.opcode.startswith("tcgen05.mma") for use in function.uses):
                continue
            functions += 1
            flagged += bool(list(missing_commit(KernelModel(function, module))))
            literal = KernelModel(unguarded(function), module)
            before = open_at_end(literal, -1)
            once = {
                r for r, n in Counter(r for f in function.instructions for r in f.writes).items() if n == 1
            }
            branches = Counter(
                f.guard for f in function.instructions if f.flow == "branch" and f.guard in once
            )
            cases = [
                [KernelModel(decided(function, predicate, value), module) for value in (False, True)]
                for predicate, times in branches.most_common(2)
                if times > 1
            ]
            commits = [
                (u, i) for u in function.uses if u.match and u.match.form.event == "commit" for i in u.sites
            ]
            for use, i in commits:
                commit, sites = function.instructions[i], use.sites
                if commit.group != "tcgen05":
                    continue
                function.instructions[i] = Instruction(
                    "nop", None, -1, False, commit.operands, (), (), commit.start, commit.end
                )
                use.sites = [site for site in sites if site != i]
                if list(missing_commit(KernelModel(function, module))):
                    verdicts["found"] += 1
                elif open_at_end(literal, i) <= before:
                    verdicts["covered on every path"] += 1
                elif any(all(open_at_end(model, i) <= before for model in case) for case in cases):
                    verdicts["covered whatever a predicate is"] += 1
                else:
                    assert "triton" in source.path, (source.path, i)
                    verdicts["covered for the issuing threads"] += 1
                function.instructions[i], use.sites = commit, sites
        gc.collect(0)
    assert (functions, flagged) == (140, 0)
    assert verdicts == {
        "found": 174,
        "covered on every path": 250,
        "covered whatever a predicate is": 153,
        "covered for the issuing threads": 74,
    }
