"""Where the outputs point: at the PTX, or at the line of CUDA or Python that ``.loc`` names.

Paths are told as the project knows them: relative to the root of the git work tree, or else to the current folder. Files
that a PTX file names are never opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tclint.findings.finding import FileReport, Finding, SourceLocation, Step
from tclint.syntax.source import Position

Mode = Literal["auto", "ptx", "source"]
MODES: tuple[Mode, ...] = ("auto", "ptx", "source")

_GIT = ("git", "-c", "core.fsmonitor=false", "--literal-pathspecs", "ls-files", "-z", "--")
_GIT_ARGUMENTS = 500
_GIT_SECONDS = 10


class Target(NamedTuple):
    """The place of a finding; column 0 and ``end`` None: not known."""

    path: str
    line: int
    column: int
    end: Position | None
    source: SourceLocation | None
    """What is pointed at, where it is a source line; None: the PTX is."""


def project_root() -> str:
    """The nearest folder upwards from the current one that holds ``.git``, or else the current one."""
    folder = here = os.getcwd()
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return here
        folder = parent
    return folder


@dataclass(frozen=True, slots=True)
class Locator:
    """Decides where findings are shown; without anything given, in the PTX."""

    mode: Mode = "ptx"
    root: str = field(default_factory=project_root)
    tracked: frozenset[str] = frozenset()
    """The absolute paths of the inputs and source files that git tracks."""

    @classmethod
    def of(cls, mode: Mode, reports: Sequence[FileReport]) -> Locator:
        """The one for these reports; asks git about the files of those findings that have a source line."""
        root = project_root()
        files: dict[str, None] = {}
        for report in reports if mode != "ptx" else ():
            parts: list[Finding | Step] = [*report.findings, *(s for f in report.findings for s in f.steps)]
            for location in {part.source_location for part in parts if part.source_location is not None}:
                files[_absolute(report.path)] = None
                files |= dict.fromkeys(_absolute(call.file) for call in calls(location))
        return cls(mode, root, _tracked(root, files))

    def __call__(self, report: FileReport, what: Finding | Step) -> Target:
        """Where a finding or a step of this report is to be shown; for PTX, its path is the user's spelling."""
        assert report.source is not None  # FileReport makes sure
        if what.source_location is not None and self._in_source(report):
            line = self.user_line(what.source_location)
            return Target(_local(line.file), line.line, line.column, None, line)
        start, end = report.source.position(what.span.start), report.source.position(what.span.end)
        return Target(report.path, start.line, start.column, end, None)

    def _in_source(self, report: FileReport) -> bool:
        return self.mode == "source" or (self.mode == "auto" and _absolute(report.path) not in self.tracked)

    def user_line(self, location: SourceLocation) -> SourceLocation:
        """The line that the user wrote: the innermost in a file that git tracks, or else the outermost call.

        The outermost call alone would be the same line of a library for all kernels made from its templates.
        """
        chain = calls(location)
        return next((call for call in chain if _absolute(call.file) in self.tracked), chain[-1])

    def relative(self, path: str) -> str:
        """The path for a program: relative to the root, with slashes; absolute where it lies outside."""
        absolute = _absolute(path)
        inside = os.path.relpath(absolute, self.root) if _below(absolute, self.root) else absolute
        return inside.replace(os.sep, "/")


def calls(location: SourceLocation) -> list[SourceLocation]:
    """The place itself and the calls through which it was inlined, innermost first."""
    return [SourceLocation(location.file, location.line, location.column), *location.inlined_at]


def _absolute(path: str) -> str:
    """The absolute path as git knows it: through the real folder, but of the link where it is one itself."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(folder if "\0" in folder else os.path.realpath(folder), name)


def _local(path: str) -> str:
    """The path as seen from the current folder."""
    absolute, here = _absolute(path), os.getcwd()
    return os.path.relpath(absolute, here) if _below(absolute, here) else absolute


def _below(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))


def _tracked(root: str, files: Iterable[str]) -> frozenset[str]:
    """Those of the files that git tracks in ``root``; none where there is no git."""
    found: set[str] = set()
    inside = [os.path.relpath(path, root) for path in files if _below(path, root) and "\0" not in path]
    if inside and os.path.lexists(os.path.join(root, ".git")):
        import subprocess

        for first in range(0, len(inside), _GIT_ARGUMENTS):
            command = [*_GIT, *inside[first : first + _GIT_ARGUMENTS]]
            try:
                done = subprocess.run(
                    command,
                    check=False,
                    cwd=root,
                    capture_output=True,
                    stdin=subprocess.DEVNULL,
                    timeout=_GIT_SECONDS,
                )
            except (OSError, subprocess.TimeoutExpired):
                break
            names = done.stdout.split(b"\0") if done.returncode == 0 else []
            found |= {os.path.join(root, os.fsdecode(name)) for name in names if name}
    return frozenset(found)
