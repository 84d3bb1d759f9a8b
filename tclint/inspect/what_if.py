"""What would be known of a kernel in launches of which more is true than its text states: ``tclint verdict --what-if``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tclint._dataclass import dataclass
from tclint.findings.facts import Fact
from tclint.findings.facts import fact as fact_of
from tclint.findings.finding import FileReport
from tclint.findings.selection import Request
from tclint.findings.verdicts import Status, Verdict
from tclint.ir.frontend import analyse
from tclint.ir.nodes import Function
from tclint.linting.check import check_source
from tclint.linting.facts import under
from tclint.report.formats._verdicts import by_kernel
from tclint.syntax.source import Source, SourceError

if TYPE_CHECKING:  # only a launch file needs numpy
    from tclint.executor.launch import Launch, LaunchFile

__all__ = ["Supposed", "WhatIf", "supposed", "supposing"]

_STEPS = 100_000
"""Instructions of a kernel that are executed with a launch file, as ``check --execute`` does by default."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What is taken for true of launches."""

    fact: Fact
    launches: LaunchFile | None = None
    """The launches that are meant, of which each also has what it states; None: all of which the fact is true."""


@dataclass(frozen=True, slots=True)
class Supposed:
    """What would be known of a kernel in the launches that are supposed."""

    fact: str
    """What is true of them, in words."""
    verdicts: tuple[Verdict, ...]


def supposed(words: Sequence[str]) -> WhatIf:
    """What *words* state together: a fact (:func:`~tclint.findings.facts.fact`), or the path of a launch file.

    Raises ValueError for what is neither, for two launch files, and for one that cannot be read.
    """
    paths = [word for word in words if word.endswith(".toml") or os.path.exists(word)]
    stated = fact_of(word for word in words if word not in paths)
    if len(paths) > 1:
        raise ValueError("only one launch file can be given")
    if not paths:
        return WhatIf(stated)
    from tclint.executor.recorded import read

    return WhatIf(stated, read(paths[0]))


def supposing(source: Source, request: Request, report: FileReport, what_if: WhatIf) -> dict[str, Supposed]:
    """What would be known of each kernel that can be launched so; *report* is what *request* makes of *source*.

    Raises SourceError for a launch file that does not fit a kernel.
    """
    if what_if.launches is not None:
        return dict(_launched(source, request, what_if.fact, what_if.launches))
    fitting = {f.name for f in analyse(source)[0].functions if under(f, what_if.fact) is not None}
    return {
        name: Supposed(str(what_if.fact), tuple(map(_with_fact, verdicts)))
        for name, verdicts in by_kernel(report)
        if name in fitting
    }


def _with_fact(verdict: Verdict) -> Verdict:
    """*verdict* in launches of which the fact is true with which it was judged if it is unknown."""
    if verdict.decided is None or not verdict.decided.fact:
        return verdict
    return replace(verdict, status=Status.PROVED, reasons=(), assumptions=verdict.decided.assumptions)


def _launched(
    source: Source, request: Request, fact: Fact, file: LaunchFile
) -> Iterator[tuple[str, Supposed]]:
    """What is known of each kernel in its launches, by proofs and by executing them.

    A proof covers all launches of the size and with the numbers of the launch file.
    """
    from tclint.driver.executing import Executor
    from tclint.executor.launch import LaunchError

    for function in analyse(source)[0].functions:
        own = [_stated(launch, function) for launch in file.launches if launch.entry == function.name]
        if not own or not function.entry or not request.selected.wants(function.name):
            continue
        stated = fact | _common(own)
        selected = replace(request.selected, entry=(function.name,))
        executor = Executor(source, _STEPS, selected, lambda: file)
        asked = replace(request, selected=selected, what_if=stated)
        try:
            report = check_source(source, asked, observer=executor)
        except LaunchError as error:
            raise SourceError(str(error)) from None
        yield function.name, Supposed(f"{file.path}", tuple(map(_with_fact, report.verdicts)))


def _stated(launch: Launch, function: Function) -> Fact:
    """The size of a launch, and the numbers that it passes. A number of more than 31 bits is left out."""
    numbers = {
        (parameter.name, at, int.from_bytes(argument[at : at + 4], "little"))
        for parameter, argument in zip(function.parameters, launch.arguments, strict=False)
        if isinstance(argument, bytes)
        for at in range(0, len(argument) - 3, 4)
    }
    return Fact(shape=launch.block, numbers=frozenset(n for n in numbers if n[2] < 1 << 31))


def _common(facts: Sequence[Fact]) -> Fact:
    """What all of several launches have in common."""
    shapes = {each.shape for each in facts}
    return Fact(
        shape=facts[0].shape if len(shapes) == 1 else (),
        numbers=frozenset.intersection(*(each.numbers for each in facts)),
    )
