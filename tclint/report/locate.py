"""Locations in the output: in the PTX, or in the CUDA or Python source line that ``.loc`` gives.

Paths for programs are relative to the root of the git work tree, or to the current folder outside of one. Which files that a
PTX file names are opened is decided by :mod:`tclint.driver.user_sources`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import Literal

from tclint._dataclass import dataclass
from tclint._git import absolute, asked, names, repository
from tclint._named_tuple import NamedTuple
from tclint.findings.finding import FileReport, Finding, SourceLocation, Step
from tclint.syntax.source import Position

Mode = Literal["auto", "ptx", "source"]
MODES: tuple[Mode, ...] = ("auto", "ptx", "source")

_MAX_GIT_PATHS = 500
"""Paths per invocation of git, well below the limits of operating systems on a command line."""
_MAX_GIT_SECONDS = 10
"""After this time without an answer, the remaining files count as untracked."""


class ShownLocation(NamedTuple):
    """The location at which a finding or step is shown. Column 0 and ``end`` None mean unknown."""

    path: str
    line: int
    column: int
    end: Position | None
    source: SourceLocation | None
    """The source line that the target is, with no calls; None if the target is in the PTX."""


def project_root() -> str:
    """The nearest folder from the current one upwards that contains ``.git``; else the current folder."""
    return repository(os.curdir) or os.getcwd()


@dataclass(frozen=True, slots=True)
class Locator:
    """Decides where findings are shown; the default is the PTX."""

    mode: Mode = "ptx"
    root: str = field(default_factory=project_root)
    tracked: frozenset[str] = frozenset()
    """The absolute paths of the inputs and source files that git tracks."""
    compiled: frozenset[str] = frozenset()
    """The absolute paths of the inputs that were compiled for the run."""

    @classmethod
    def of(cls, mode: Mode, reports: Sequence[FileReport]) -> Locator:
        """The locator for *reports*. Asks git about the inputs with source lines, and about the source files."""
        root = project_root()
        files: dict[str, None] = {}
        for report in reports if mode != "ptx" else ():
            parts: list[Finding | Step] = [*report.findings, *(s for f in report.findings for s in f.steps)]
            waits = [party for f in report.findings for party in f.deadlock]
            parts += [step for party in waits for step in (party.wait, *party.arrivals)]
            for location in {part.source_location for part in parts if part.source_location is not None}:
                files[absolute(report.path)] = None
                files |= dict.fromkeys(absolute(call.file) for call in calls(location))
        hosts = {absolute(report.path) for report in reports if report.member is not None}
        return cls(mode, root, _tracked(root, files), frozenset(hosts))

    def __call__(self, report: FileReport, what: Finding | Step) -> ShownLocation:
        """The location at which to show a finding or step of *report*. A PTX path keeps the user's spelling."""
        assert report.source is not None  # guaranteed by FileReport
        location = place(what)
        if location is not None and self._in_source(report):
            line = self.user_line(location)
            return ShownLocation(_local(line.file), line.line, line.column, None, line)
        start, end = report.source.position(what.span.start), report.source.position(what.span.end)
        return ShownLocation(report.path, start.line, start.column, end, None)

    def _in_source(self, report: FileReport) -> bool:
        return self.mode == "source" or (self.mode == "auto" and absolute(report.path) not in self.tracked)

    def user_line(self, location: SourceLocation) -> SourceLocation:
        """The line that the user wrote: the innermost one in a file that is an input of the run, or that git tracks, or else the
        outermost call of which the line was read, or else the outermost call.

        The outermost call alone may be a line of a library that all kernels instantiated from its templates share.
        """
        chain = calls(location)
        for files in (self.compiled, self.tracked):
            if files and (own := next((call for call in chain if absolute(call.file) in files), None)):
                return own
        return next((call for call in reversed(chain) if call.text is not None), chain[-1])

    def has_no_ptx(self, report: FileReport) -> bool:
        """Whether *report* is about PTX that exists only during the run: what nvcc made of a source."""
        return report.member is not None and any(
            absolute(call.file) == absolute(report.path)
            for finding in report.findings
            if finding.source_location is not None
            for call in calls(finding.source_location)
        )

    @staticmethod
    def local(path: str) -> str:
        """*path* relative to the current folder, for people; absolute if it is outside."""
        return _local(path)

    def relative(self, path: str) -> str:
        """*path* relative to the root, for programs, with slashes; absolute if it is outside the root."""
        own = absolute(path)
        inside = os.path.relpath(own, self.root) if _below(own, self.root) else own
        return inside.replace(os.sep, "/")


def place(what: Finding | Step) -> SourceLocation | None:
    """The source location of a finding or step; None if it has none.

    A compiler gives code that it merges no line. Such a finding is at the last step of its path whose line was read.
    """
    if what.source_location is not None or isinstance(what, Step):
        return what.source_location
    steps = (step.source_location for step in reversed(what.steps) if not step.aside)
    return next((location for location in steps if location is not None and location.text is not None), None)


def calls(location: SourceLocation) -> list[SourceLocation]:
    """The location itself, then the calls through which it was inlined, innermost first."""
    return [replace(location, inlined_at=()), *location.inlined_at]


def _local(path: str) -> str:
    """*path* relative to the current folder; absolute if it is outside."""
    own, here = absolute(path), os.getcwd()
    return os.path.relpath(own, here) if _below(own, here) else own


def _below(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))


def _tracked(root: str, files: Iterable[str]) -> frozenset[str]:
    """The subset of *files* that git tracks in *root*; empty without a repository or without git."""
    found: set[str] = set()
    inside = [os.path.relpath(path, root) for path in files if _below(path, root) and "\0" not in path]
    if inside and os.path.lexists(os.path.join(root, ".git")):
        from subprocess import TimeoutExpired

        for first in range(0, len(inside), _MAX_GIT_PATHS):
            try:
                some = inside[first : first + _MAX_GIT_PATHS]
                printed = asked(root, "ls-files", "-z", "--", *some, seconds=_MAX_GIT_SECONDS)
            except (OSError, TimeoutExpired):
                break
            found.update(os.path.join(root, name) for name in names(printed))
    return frozenset(found)
