"""What is proved of real kernels: shares by class and producer, and the commonest reasons of what is not known.

A row is what a run with verdicts reports of one class in one kernel: findings violate it, and replays bound it. Only the
first reason of an unknown class counts. All kernels take many minutes, so what was found of each text can be kept in a
journal: a run that is repeated with it judges only what it lacks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import results
from benchmarks.journal import Journal, key, sources
from tclint.analyses.model import KernelModel
from tclint.findings.requirements import ALL_ASSUMPTIONS
from tclint.findings.selection import Request
from tclint.findings.verdicts import Assumption, HazardClass, Status, Verdict
from tclint.ir.frontend import analyse
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import Function, Module
from tclint.linting.check import check_source
from tclint.syntax.source import Source, SourceError
from tclint.verdicts import verdicts

__all__ = ["Row", "files", "kernels", "proved", "rows", "section", "shares", "table"]

REASONS = 5
_NUMBER = re.compile(r"\b\d+\b")
_COUNTS = ("kernels", "violated", "proved", "assuming", "bounded", "unknown")


class Row(NamedTuple):
    """What is known of one class in one kernel."""

    producer: str
    """The folder of the file."""
    file: str
    """The name of the file."""
    kernel: str
    hazard: str
    status: str
    assuming: bool
    """Whether a proof rests on assumptions."""
    why: str
    """The first reason of an unknown class, without its numbers."""


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
    module: Module,
    function: Function,
    only: Collection[HazardClass],
    assume: frozenset[Assumption] = ALL_ASSUMPTIONS,
) -> tuple[Verdict, ...]:
    """What proofs alone show of one kernel about the classes *only*, if *assume* may be assumed."""
    return verdicts(KernelModel(function, module), only=only, assume=assume)


def rows(
    paths: Sequence[Path], only: Collection[HazardClass], journal: Path | None = None, jobs: int = 1
) -> Iterator[Row]:
    """The rows of all kernels of *paths*, which *jobs* processes judge.

    What the *journal* has of this version of tclint is not judged again.
    """
    known = Journal(journal)
    asked = " ".join((sources(), *sorted(hazard.value for hazard in only)))
    keys = {path: key(data, asked) for path in paths if (data := _read(path))}
    lacking = {name: path for path, name in reversed(keys.items()) if name not in known.known}
    chosen = [path for path, name in keys.items() if lacking.get(name) == path]  # each text once
    with ExitStack() as stack:
        judge = partial(_judged, only=only)
        if jobs > 1 and len(chosen) > 1:
            # They are not forked: this process may have threads, whose locks no other thread would release there.
            context = get_context("spawn")
            pool = stack.enter_context(ProcessPoolExecutor(min(jobs, len(chosen)), context))
            found = pool.map(judge, chosen)
        else:
            found = map(judge, chosen)
        for path, name in keys.items():
            yield from (
                Row(path.parent.name, path.name, *row) for row in known.of(name, partial(next, found))
            )


def _read(path: Path) -> bytes:
    """The text of a module; empty if it has none."""
    try:
        return Source.read(path).data
    except SourceError:
        return b""


def _judged(path: Path, only: Collection[HazardClass]) -> list[tuple[str, str, str, bool, str]]:
    """The rows of a text, without where it is: a journal has it for all files with this text."""
    return list(_of(Source.read(path), only))


def _of(source: Source, only: Collection[HazardClass]) -> Iterator[tuple[str, str, str, bool, str]]:
    for verdict in check_source(source, Request(assume=ALL_ASSUMPTIONS)).verdicts:
        if verdict.hazard in only:
            why = _NUMBER.sub("N", verdict.reasons[0].what) if verdict.reasons else ""
            assuming = verdict.status is Status.PROVED and bool(verdict.assumptions)
            yield verdict.kernel, verdict.hazard.value, verdict.status.value, assuming, why


def shares(found: Sequence[Row]) -> dict[str, Any]:
    """Of each class, the counts of all producers and of each, and the commonest reasons."""
    classes: dict[str, Any] = {}
    for hazard in (each.value for each in HazardClass):
        mine = [row for row in found if row.hazard == hazard]
        if not mine:
            continue
        counts = {
            producer: _counts([r for r in mine if r.producer == producer])
            for producer in sorted({r.producer for r in mine})
        }
        whys = Counter(row.why for row in mine if row.status == Status.UNKNOWN.value)
        classes[hazard] = {"all": _counts(mine), "producers": counts, "reasons": whys.most_common(REASONS)}
    return classes


def _counts(mine: Sequence[Row]) -> dict[str, int]:
    status = Counter(row.status for row in mine)
    return {
        "kernels": len(mine),
        "violated": status[Status.VIOLATED.value],
        "proved": status[Status.PROVED.value],
        "assuming": sum(row.assuming for row in mine),
        "bounded": status[Status.BOUNDED.value],
        "unknown": status[Status.UNKNOWN.value],
    }


def table(classes: Mapping[str, Any]) -> str:
    """The shares in lines of text."""
    lines = ["class              producer       kernels  violated  proved  assuming  bounded  unknown  share"]
    for hazard, of in classes.items():
        for producer, counts in (("all", of["all"]), *of["producers"].items()):
            name = hazard if counts is of["all"] else ""
            kernels, violated, proofs, assuming, bounded, unknown = (counts[each] for each in _COUNTS)
            lines.append(
                f"{name:<18} {producer:<14} {kernels:>7} {violated:>9} {proofs:>7} {assuming:>9} "
                f"{bounded:>8} {unknown:>8} {proofs / kernels:>6.0%}"
            )
        lines += [f"    {n:>4}  {why}" for why, n in of["reasons"]]
    return "\n".join(lines)


def section(classes: Mapping[str, Any]) -> list[str]:
    """The shares in Markdown: a table of classes, one of their producers, and the reasons."""
    ordered = [(hazard.value, classes[hazard.value]) for hazard in HazardClass if hazard.value in classes]
    if not ordered:
        return []
    head = (
        "class", "asked", "kernels", "violated", "proved", "of these under assumptions", "bounded", "unknown", "share proved",
    )  # fmt: skip
    lines = results.table(head, [(f"`{name}`", of["sample"], *_cells(of["all"])) for name, of in ordered])
    producers = sorted({producer for _, of in ordered for producer in of["producers"]})
    lines += ["Proved, of the kernels of each producer that use the class:", ""]
    lines += results.table(
        ["class", *producers],
        [(f"`{name}`", *(_share(of["producers"].get(each)) for each in producers)) for name, of in ordered],
    )
    lines += ["The commonest first reasons of the kernels that are unknown:", ""]
    lines += [f"- `{name}`, {n}: {why}" for name, of in ordered for why, n in of["reasons"]]
    return [*lines, ""]


def _cells(counts: Mapping[str, int]) -> tuple[object, ...]:
    return *(counts[each] for each in _COUNTS), f"{counts['proved'] / counts['kernels']:.0%}"


def _share(counts: Mapping[str, int] | None) -> str:
    return "" if counts is None else f"{counts['proved']} of {counts['kernels']}"
