"""Pairs the files and kernels of the two versions, and compares the kernels and findings of each pair."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from tclint._dataclass import dataclass
from tclint._read import MAX_BYTES
from tclint.config.config import Config
from tclint.dataflow import LimitExceeded
from tclint.diff.compare import KernelChanges, compare
from tclint.diff.skeleton import Skeleton, skeleton
from tclint.driver.inputs import inputs
from tclint.driver.one import Input
from tclint.driver.pool import Checked, cores, reports
from tclint.findings.figures import ANYWHERE, RULES, Assembled, Recorded
from tclint.findings.finding import FileReport, Finding
from tclint.ir.frontend import analyse
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import Function, Module
from tclint.report.fold import causes
from tclint.report.summary import present
from tclint.syntax.source import Problem, Source, SourceError

if TYPE_CHECKING:
    from tclint.diff.assembled import Assembly

__all__ = ["Difference", "KernelPair", "ReportedFinding", "Sides", "differences", "sides", "total"]

How = Literal["name", "base name", "likeness", "only one"]
_MIN_SIMILARITY = 0.5
"""Similarity, from 0 to 1, above which two kernels with different names are paired."""
_MAX_CANDIDATES = 200
"""Kernels without a partner that are compared by similarity, on each side, since the work is quadratic."""

GATE = frozenset(RULES)
"""What is checked if findings are not wanted, and the settings have a budget."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """A finding with its report."""

    report: FileReport
    finding: Finding


@dataclass(slots=True)
class KernelPair:
    """A kernel that is in both versions."""

    how: How
    comparison: KernelChanges


@dataclass(slots=True)
class Difference:
    """The differences of one file."""

    old: str | None
    """The name of the old file; None if the file is new."""
    new: str | None
    """The name of the new file; None if the file was removed."""
    how: How = "name"
    kernels: list[KernelPair] = field(default_factory=list)
    only_old: list[str] = field(default_factory=list)
    """Kernels without a partner."""
    only_new: list[str] = field(default_factory=list)
    problems: list[tuple[str, Problem]] = field(default_factory=list)
    """(path, problem) for what could not be analysed."""
    came: list[ReportedFinding] = field(default_factory=list)
    """New findings."""
    went: list[ReportedFinding] = field(default_factory=list)
    """Resolved findings."""
    compared: int = 0
    """The number of kernels in both versions, including those of identical files."""
    assembled: list[Assembly] = field(default_factory=list)
    """The kernels of which two versions of ptxas make something else, if they were asked for."""
    figures: list[Assembly] = field(default_factory=list)
    """The kernels of which one ptxas makes something else, if the settings have a budget. By itself that is no change; what is
    too much of it is among the new findings."""
    source: Source | None = None
    """The text of the new file; None if it is identical to the old one, or could not be read."""

    @property
    def changed(self) -> bool:
        """Whether there is a difference, problems aside."""
        return bool(
            None in (self.old, self.new)
            or self.only_old
            or self.only_new
            or self.came
            or self.went
            or self.assembled
            or any(kernel.comparison.changes for kernel in self.kernels)
        )


@dataclass(frozen=True, slots=True)
class Sides:
    """The modules of both versions in pairs; one of a pair is None if the other has no partner."""

    pairs: tuple[tuple[Input | None, Input | None, How], ...]


def sides(old: str, new: str, limit: int = MAX_BYTES) -> Sides:
    """The modules at two paths, which must be two files or two folders; otherwise raises SourceError.

    *limit* are the bytes that each input may have.
    """
    folders = os.path.isdir(old), os.path.isdir(new)
    if folders[0] != folders[1]:
        raise SourceError(f"{old if folders[0] else new} is a folder and {new if folders[0] else old} is not")
    here, there = (list(inputs([path], "<stdin>", limit=limit)) for path in (old, new))
    if not folders[0] and len(here) == len(there) == 1:
        return Sides(((here[0], there[0], "name"),))
    roots = (old, new) if folders[0] else (os.path.dirname(old), os.path.dirname(new))
    one = not folders[0]
    found, left, right = _partners(
        here, there, lambda item: _relative(item, roots[0], one), lambda item: _relative(item, roots[1], one)
    )
    pairs: list[tuple[Input | None, Input | None, How]] = [(a, b, "name") for a, b in found]
    again, left, right = _partners(left, right, _base, _base)
    pairs += [(a, b, "base name") for a, b in again]
    pairs += [(a, None, "name") for a in left]
    pairs += [(None, b, "name") for b in right]
    return Sides(tuple(sorted(pairs, key=lambda pair: (pair[0] or pair[1] or ("",))[0])))


def _relative(item: Input, root: str, one: bool) -> Hashable:
    path, source = item
    member = source.member if isinstance(source, Source) else None
    return "" if one else os.path.relpath(path, root), member


def _base(item: Input) -> Hashable:
    path, source = item
    return os.path.basename(path), source.member if isinstance(source, Source) else None


def _partners(
    old: Sequence[T], new: Sequence[T], here: Callable[[T], Hashable], there: Callable[[T], Hashable]
) -> tuple[list[tuple[T, T]], list[T], list[T]]:
    """Pairs of items whose equal keys are unique on each side, and the remaining items of both sides."""
    left, right = defaultdict[Hashable, list[T]](list), defaultdict[Hashable, list[T]](list)
    for item in old:
        left[here(item)].append(item)
    for item in new:
        right[there(item)].append(item)
    keys = [key for key in left if len(left[key]) == len(right.get(key, ())) == 1]
    found = [(left[key][0], right[key][0]) for key in keys]
    taken = set(keys)
    return (
        found,
        [item for item in old if here(item) not in taken],
        [item for item in new if there(item) not in taken],
    )


# ---------------------------------------------------------------- differences


def differences(
    found: Sides, config: Config, findings: bool = True, assemblers: tuple[str, str] | None = None
) -> Iterator[Difference]:
    """The difference of each pair of files, in order. Without *findings*, no rule is checked.

    With *assemblers*, the paths of two versions of ptxas, what they make of the old and the new file is compared too.
    """
    if config.gate is not None:
        _assemble_ahead(found, config)
    for old, new, how in found.pairs:
        difference = _difference(old, new, how, config, findings)
        if assemblers is not None and old is not None and new is not None:
            _assemble(difference, (old, new), assemblers)
        yield difference


def _assemble_ahead(found: Sides, config: Config) -> None:
    """Compiles what differs, as many files side by side as there are jobs, so that their figures are in the cache."""
    from concurrent.futures import ThreadPoolExecutor

    from tclint.cache.results import chosen
    from tclint.driver.assembling import judged

    differing = [(old, new) for old, new, _ in found.pairs if old and new and _data(old) != _data(new)]
    if len(differing) < 2 or chosen(config) is None:
        return
    sources = [item[1] for pair in differing for item in pair if isinstance(item[1], Source)]
    with ThreadPoolExecutor(config.jobs or cores()) as pool:
        for _ in pool.map(lambda source: judged(source, config), sources):
            pass


def _assemble(difference: Difference, pair: tuple[Input, Input], assemblers: tuple[str, str]) -> None:
    """Sets what two versions of ptxas make of a pair of files in *difference*."""
    from tclint.diff.assembled import assembled, compared

    made = []
    for (path, source), ptxas in zip(pair, assemblers, strict=True):
        if isinstance(source, Source):
            try:
                made.append(assembled(source, ptxas))
            except SourceError as error:
                difference.problems.append((path, Problem(error.line, str(error))))
    if len(made) == len(pair):
        before, after = made
        names = {kernel.comparison.old.name: kernel.comparison.new.name for kernel in difference.kernels}
        difference.assembled = compared(before, after, names)


def _difference(old: Input | None, new: Input | None, how: How, config: Config, findings: bool) -> Difference:
    difference = Difference(_name(old), _name(new), how)
    there = _modules(new, difference)
    if there is not None and _data(old) == there[0].data:
        difference.compared = len(_wanted(there[1], config))
        return difference
    here = _modules(old, difference)
    if old is None or new is None:
        return difference
    if here is not None and there is not None:
        difference.source = there[0]
        partners = _kernels(here, there, config, difference)
        difference.compared = len(partners)
        if findings or config.gate is not None:
            names = {k.comparison.old.name: k.comparison.new.name for k in partners}
            _findings(difference, (old, new), config if findings else replace(config, rules=GATE), names)
    return difference


def _name(item: Input | None) -> str | None:
    if item is None:
        return None
    path, source = item
    member = source.member if isinstance(source, Source) else None
    return f"{path}({member})" if member else path


def _data(item: Input | None) -> bytes | None:
    return item[1].data if item is not None and isinstance(item[1], Source) else None


def _modules(item: Input | None, difference: Difference) -> tuple[Source, Module] | None:
    """The source and module of an input; None if it has none. Adds its problems to *difference*."""
    if item is None:
        return None
    path, source = item
    if isinstance(source, SourceError):
        difference.problems.append((path, Problem(source.line, str(source))))
        return None
    try:
        module, problems = analyse(source)
    except SourceError as error:
        difference.problems.append((path, Problem(error.line, str(error))))
        return None
    difference.problems += ((path, problem) for problem in problems)
    return source, module


def _wanted(module: Module, config: Config) -> list[Function]:
    """The functions to compare: kernels and functions that are not inlined into them; without a kernel, all."""
    bodies = module.bodies
    seen = inlinable(module) if any(f.entry for f in bodies) else {}
    return [f for f in bodies if (f.entry or f.name not in seen) and config.selected.wants(f.name)]


def _kernels(
    old: tuple[Source, Module], new: tuple[Source, Module], config: Config, difference: Difference
) -> list[KernelPair]:
    """All pairs of kernels. Those worth showing, and kernels without a partner, are set in *difference*."""
    here, there = list(_skeletons(*old, config, difference)), list(_skeletons(*new, config, difference))
    found, left, right = _partners(here, there, lambda s: s.name, lambda s: s.name)
    pairs: list[tuple[Skeleton, Skeleton, How]] = [(a, b, "name") for a, b in found]
    if len(left) == len(right) == 1 and not found:
        pairs.append((left.pop(), right.pop(), "only one"))
    for a, b in _alike(left, right):
        left.remove(a)
        right.remove(b)
        pairs.append((a, b, "likeness"))
    order = {id(s): n for n, s in enumerate(here)}
    kernels = [
        KernelPair(how, compare(a, b)) for a, b, how in sorted(pairs, key=lambda pair: order[id(pair[0])])
    ]
    difference.kernels = [
        kernel
        for kernel in kernels
        if kernel.how != "name" or kernel.comparison.changes or kernel.comparison.operations
    ]
    difference.only_old, difference.only_new = [s.name for s in left], [s.name for s in right]
    return kernels


def _skeletons(source: Source, module: Module, config: Config, difference: Difference) -> Iterator[Skeleton]:
    callees = inlinable(module)
    for function in _wanted(module, config):
        line = source.position(function.start).line
        if function.damaged or function.flow_errors:
            continue  # among the problems of the module
        try:
            yield skeleton(source, module, inline(function, callees))
        except LimitExceeded as error:
            difference.problems.append((source.path, Problem(line, str(error))))


def _alike(old: Sequence[Skeleton], new: Sequence[Skeleton]) -> Iterator[tuple[Skeleton, Skeleton]]:
    """Pairs of kernels with different names and similar names and skeletons, the most similar first."""
    left = [(s, _words(s.name), Counter(op.kind for op in s.ops)) for s in old[:_MAX_CANDIDATES]]
    right = [(s, _words(s.name), Counter(op.kind for op in s.ops)) for s in new[:_MAX_CANDIDATES]]
    scores = []
    for i, (_, names, ops) in enumerate(left):
        for j, (_, other_names, other_ops) in enumerate(right):
            name = _similarity(names, other_names)
            score = (2 * name + _similarity(ops, other_ops)) / 3
            if name >= _MIN_SIMILARITY and score >= _MIN_SIMILARITY:
                scores.append((-score, i, j))
    taken: set[tuple[str, int]] = set()
    for _, i, j in sorted(scores):
        if not taken & {("old", i), ("new", j)}:
            taken |= {("old", i), ("new", j)}
            yield left[i][0], right[j][0]


def _words(name: str) -> Counter[str]:
    """The words and numbers in a name. Different suffixes or template arguments change only a few of them."""
    return Counter(re.findall(r"[A-Za-z]+|\d+", name))


def _similarity(old: Counter[str], new: Counter[str]) -> float:
    total = old.total() + new.total()
    return 2 * (old & new).total() / total if total else 1.0


# ---------------------------------------------------------------- findings


def _findings(
    difference: Difference, pair: tuple[Input, Input], config: Config, names: dict[str, str]
) -> None:
    """Sets the new and resolved findings in *difference*.

    Two findings are the same if they have the same fingerprint, or the same message at the same source line. Those that
    remain are merged as in a report.
    """
    made = _judged(difference, pair, config, names) if config.gate is not None else reports(pair, config)
    shown, _ = present((item.report for item in made), config.selected)
    old, new = shown
    for report in shown:
        known = {problem for _, problem in difference.problems}
        difference.problems += ((report.path, problem) for problem in report.problems if problem not in known)
    went = [ReportedFinding(old, f) for f in old.findings if f.suppressed is None]
    came = [ReportedFinding(new, f) for f in new.findings if f.suppressed is None]
    for key in (_fingerprint, _message):
        went, came = _unmatched(went, came, lambda f, key=key: key(f, names), lambda f, key=key: key(f, {}))  # type: ignore[misc]
    difference.went, difference.came = _once(went), _once(came)


def _once(found: Sequence[ReportedFinding]) -> list[ReportedFinding]:
    """Findings of one report, each defect once."""
    if not found:
        return []
    report = replace(found[0].report, findings=tuple(each.finding for each in found))
    return [ReportedFinding(found[0].report, finding) for finding in causes(report)]


def _judged(
    difference: Difference, pair: tuple[Input, Input], config: Config, names: dict[str, str]
) -> Iterator[Checked]:
    """The results for both files, where the figures of the new one are compared with those of the old one."""
    from tclint.diff.assembled import compared, facts

    assert config.gate is not None
    (old,) = reports(pair[:1], config)
    before = old.report.assembled or Assembled(config.gate.version)
    known = tuple(
        Recorded(
            *ANYWHERE, before.ptxas, before.target, replace(each, kernel=names.get(each.kernel, each.kernel))
        )
        for each in before.kernels
    )
    (new,) = reports(pair[1:], replace(config, gate=replace(config.gate, known={ANYWHERE: known})))
    after = new.report.assembled or Assembled(config.gate.version)
    difference.figures = compared(facts(before.kernels), facts(after.kernels), names)
    yield from (old, new)


def _fingerprint(found: ReportedFinding, names: dict[str, str]) -> Hashable:
    finding = found.finding
    return finding.fingerprint.partition(":")[0]


def _message(found: ReportedFinding, names: dict[str, str]) -> Hashable:
    finding = found.finding
    entry = names.get(finding.entry, finding.entry) if finding.entry else None
    location = finding.source_location
    message = re.sub(r"%\w+", "%", finding.message)
    return finding.rule.id, entry, message, location and (location.file, location.line)


def _unmatched(
    old: list[ReportedFinding],
    new: list[ReportedFinding],
    here: Callable[[ReportedFinding], Hashable],
    there: Callable[[ReportedFinding], Hashable],
) -> tuple[list[ReportedFinding], list[ReportedFinding]]:
    left: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for number, found in enumerate(old):
        left[here(found)].append(number)
    matched: set[int] = set()
    rest = []
    for found in new:
        if numbers := left.get(there(found)):
            matched.add(numbers.popleft())
        else:
            rest.append(found)
    return [found for number, found in enumerate(old) if number not in matched], rest


def total(found: Iterable[Difference]) -> Counter[str]:
    """Status -> the number of instructions with such a change; a repeated block counts once."""
    return Counter(
        change.status
        for difference in found
        for kernel in difference.kernels
        for change in kernel.comparison.changes
        for _ in (change.op_pairs if change.status != "repeated" else "1")
    )
