"""What a gate requires of the verdicts and kernels do not satisfy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tclint._named_tuple import NamedTuple
from tclint.findings.finding import FileReport
from tclint.findings.requirements import Requirement
from tclint.findings.verdicts import Verdict

__all__ = ["Unmet", "missing"]


class Unmet(NamedTuple):
    """A requirement that a kernel does not satisfy."""

    report: FileReport
    verdict: Verdict
    requirement: Requirement


def missing(reports: Iterable[FileReport], required: Sequence[Requirement]) -> Iterator[Unmet]:
    """What the kernels of *reports* lack of what is *required*, in their order. A kernel satisfies a requirement on a
    class that it does not use."""
    for report in reports:
        for verdict in report.verdicts:
            for requirement in required:
                if not requirement.met_by(verdict):
                    yield Unmet(report, verdict, requirement)
