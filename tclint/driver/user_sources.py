"""The user's CUDA C++ and Python from which PTX was compiled: the lines that ``.loc`` names, and the comments about findings.

A name in ``.file`` is that of a stranger. A file is opened only if its suffix is that of a source, and if it is below the
working folder or the root of the work tree, links followed, in no hidden folder and among no installed packages; or if it is
the input that nvcc compiles. What is read is shown, and a comment can suppress findings of its line
(:mod:`tclint.report.in_source`).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tclint._dataclass import dataclass
from tclint._pattern import pattern
from tclint._read import read_file
from tclint.findings.finding import (
    MARK,
    BlockedWait,
    FileReport,
    Finding,
    SourceComment,
    SourceLocation,
    Step,
)
from tclint.findings.spans import Span
from tclint.inline.hosts import PYTHON, is_host
from tclint.report.locate import calls, project_root
from tclint.syntax.source import Source

if TYPE_CHECKING:
    from tclint.linting.suppress import Directive

__all__ = ["UserSources", "source_below"]

_SUFFIXES = frozenset(".c .cc .cpp .cu .cuh .cxx .h .hh .hpp .hxx .inl .py .pyi".split())
"""Suffixes of source files. Other files that PTX names are not opened."""
_MAX_BYTES = 8_000_000
"""The size of the largest source file that is read."""
_MAX_LINE = 4000
"""Characters of a line that are kept."""
_INSTALLED = frozenset(("site-packages", "dist-packages", "node_modules"))
"""Folders whose files are not the user's."""
_MIN_TRAILING = 2
"""Trailing parts of a name that a file of another folder must agree in: many are called ``kernel.cu``."""
_FILE = pattern(rb'\.file[ \t]+(\d{1,9})[ \t]+"([^"\n]*)"')
_CODE = pattern(
    rb"(?<![\w.])\.loc[ \t]+(?P<file>\d{1,9})[ \t]+(?P<line>\d{1,9})(?P<more>[^\n]*)"
    rb"|(?<![\w.])\.(?:entry|func)\s+(?:\([^)]*\)\s*)?(?P<name>[\w$%]+)"
)
"""A ``.loc``, or the beginning of a function (PTX ISA 11.5.4, 5.4)."""
_CALLED = pattern(rb"inlined_at[ \t]+(\d{1,9})[ \t]+(\d{1,9})")


def source_below(path: Path, folder: Path) -> Path | None:
    """The real path of a source file, if that is below *folder*, itself a real path; else None."""
    try:
        real = path.resolve()
        if (
            real.is_relative_to(folder)
            and real.suffix.lower() in _SUFFIXES
            and real.is_file()
            and real.stat().st_size <= _MAX_BYTES
        ):
            return real
    except (OSError, ValueError, RuntimeError):  # too long a name, a NUL in it, a loop of links
        pass
    return None


@dataclass(frozen=True, slots=True)
class _UserFile:
    """A source of the user."""

    name: str
    """The path under which it is shown: that of the PTX if it leads there, else the real one."""
    source: Source
    changed: int
    """When it was last changed, in nanoseconds."""

    def line(self, number: int) -> str | None:
        """A 1-based line; None if there is none, since the file has changed."""
        if not 1 <= number <= self.source.line_count:
            return None
        return self.source.line_text(number)[:_MAX_LINE]


class UserSources:
    """The sources of the inputs of one run. Not for several threads."""

    def __init__(self) -> None:
        try:
            folders = [os.path.realpath(os.getcwd()), os.path.realpath(project_root())]
        except OSError:  # the working folder is gone
            folders = []
        self._folders = [Path(folder) for folder in dict.fromkeys(folders)]
        self._found: dict[tuple[str, str], _UserFile | None] = {}
        self._read: dict[Path, tuple[Source, int] | None] = {}
        self._directives: dict[str, list[Directive]] = {}

    def completed(self, report: FileReport, comments: tuple[SourceComment, ...] = ()) -> FileReport:
        """*report* with the lines of the sources that its findings name, and with the *comments* that apply to it."""
        texts: dict[SourceLocation, SourceLocation] = {}
        newer: dict[str, None] = {}
        try:
            made = os.stat(report.path).st_mtime_ns
        except (OSError, ValueError):  # it was not read from a file
            made = -1

        def located(location: SourceLocation | None) -> SourceLocation | None:
            if location is None:
                return None
            if location not in texts:
                first, *rest = [self._with_text(call, report.path) for call in calls(location)]
                texts[location] = replace(first, inlined_at=tuple(rest))
                for call in (first, *rest):
                    file = self._find(call.file, report.path) if call.text is not None else None
                    if file is not None and 0 <= made < file.changed:
                        newer[file.name] = None
            return texts[location]

        findings = tuple(_relocated(finding, located) for finding in report.findings)
        if findings == report.findings and not comments:
            return report
        return replace(report, findings=findings, comments=comments, newer=tuple(newer))

    def comments(self, source: Source) -> tuple[SourceComment, ...]:
        """The comments in the sources of a PTX text that apply to code of it, or to a kernel of it."""
        data = source.data
        if is_host(source.path, source.member) or b".loc" not in data:
            return ()
        files: dict[int, _UserFile] = {}
        for number, name in _file_names(data):
            file = self._find(name.decode("utf-8", "surrogateescape"), source.path)
            if file is not None and MARK in file.source.data:
                files[number] = file
        if not files:
            return ()
        code = _Code(data, frozenset(files))
        named = {file.name: (number, file) for number, file in files.items()}.values()
        return tuple(comment for number, file in named for comment in self._applying(file, code, number))

    def _applying(self, file: _UserFile, code: _Code, number: int) -> Iterator[SourceComment]:
        """The comments of *file*, the one with that *number*, that apply to *code*."""
        from tclint.linting.suppress import directives  # what needs no comment of a source starts without it

        if file.name not in self._directives:
            python = file.name.lower().endswith(PYTHON)
            self._directives[file.name] = list(directives(file.source, python))
        for directive in self._directives[file.name]:
            line, column = file.source.position(directive.span.start)
            if directive.line:
                at, entries = code.lines.get((number, directive.line), (None, ()))
            else:
                begins = directive.begins or line
                around = {
                    name: span
                    for name, (of, first, last, span) in code.functions.items()
                    if of == number and (first <= line <= last or line <= first <= begins)
                }
                at, entries = next(iter(around.values()), None), tuple(around)
            if at is not None:
                yield SourceComment(
                    SourceLocation(file.name, line, column, text=file.line(line)),
                    at,
                    directive.line,
                    tuple(entries),
                    directive.rules,
                    directive.reason,
                    directive.problem,
                    directive.remedy,
                )

    def _with_text(self, call: SourceLocation, path: str) -> SourceLocation:
        """*call*, a position without calls, with the text of its line if that is at hand."""
        file = self._find(call.file, path)
        text = file.line(call.line) if file is not None else None
        return call if file is None or text is None else replace(call, file=file.name, text=text)

    def _find(self, name: str, path: str) -> _UserFile | None:
        """The source of the user that *name* is, in the PTX of the input at *path*; None if there is none."""
        key = name, path if is_host(path) else os.path.dirname(path)
        if key not in self._found:
            self._found[key] = self._opened(name, path)
        return self._found[key]

    def _opened(self, name: str, path: str) -> _UserFile | None:
        for folder, candidate in self._candidates(name, path):
            real = source_below(candidate, folder)
            own = real is not None and _same(real, path)
            if real is None or not (own or _is_users(real.relative_to(folder))):
                continue
            if real not in self._read:
                self._read[real] = _text(real)
            if (found := self._read[real]) is not None:
                return _UserFile(name if _same(real, name) else str(real), *found)
        return None

    def _candidates(self, name: str, path: str) -> Iterator[tuple[Path, Path]]:
        """The paths that *name* may mean, each with the folder that it must be below: also of a build in another folder."""
        written = Path(name)
        if is_host(path) and _same(Path(os.path.realpath(path)), name):  # nvcc compiles it
            real = Path(os.path.realpath(path))
            yield real.parent, real
        for folder in self._folders:
            yield folder, folder / written
            yield folder, folder / os.path.dirname(path) / written
        parts = written.parts
        for kept in range(1, len(parts) - _MIN_TRAILING + 1):
            for folder in self._folders:
                yield folder, folder.joinpath(*parts[kept:])


def _file_names(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The number and the name of each ``.file``."""
    at = data.find(b".file")
    while at >= 0:
        if found := _FILE.match(data, at):
            yield int(found[1]), found[2]
        at = data.find(b".file", at + 1)


def _text(real: Path) -> tuple[Source, int] | None:
    """The text of a file and when it was last changed; None if it cannot be read."""
    try:
        return Source(read_file(real, _MAX_BYTES), str(real)), real.stat().st_mtime_ns
    except (OSError, ValueError):
        return None


def _is_users(path: Path) -> bool:
    """Whether a *path* in a folder of the user leads to a file of theirs, and not to what is installed there."""
    return not any(part.startswith(".") or part in _INSTALLED for part in path.parts)


def _same(real: Path, name: str) -> bool:
    """Whether *name*, from the working folder, leads to the file whose real path is known."""
    try:
        return os.path.realpath(name) == str(real)
    except ValueError:  # a NUL in it
        return False


def _relocated(
    finding: Finding, located: Callable[[SourceLocation | None], SourceLocation | None]
) -> Finding:
    """*finding* with each of its source locations replaced."""

    def step(one: Step) -> Step:
        return (
            one if one.source_location is None else replace(one, source_location=located(one.source_location))
        )

    confirmation = finding.confirmation
    return replace(
        finding,
        source_location=located(finding.source_location),
        steps=tuple(map(step, finding.steps)),
        deadlock=tuple(
            BlockedWait(step(party.wait), tuple(map(step, party.arrivals))) for party in finding.deadlock
        ),
        confirmation=(
            None
            if confirmation is None
            else replace(confirmation, steps=tuple(map(step, confirmation.steps)))
        ),
    )


class _Code:
    """Which lines of some sources a PTX text has code of, and which lines are those of its functions."""

    def __init__(self, data: bytes, files: frozenset[int]) -> None:
        self.lines: dict[tuple[int, int], tuple[Span, tuple[str, ...]]] = {}
        """File and line -> the first ``.loc`` that names it, and the functions with code of it."""
        self.functions: dict[str, tuple[int, int, int, Span]] = {}
        """Function -> its file, first and last line there, and first ``.loc``: only lines that are not of inlined calls."""
        owners: defaultdict[tuple[int, int], dict[str, None]] = defaultdict(dict)
        first: dict[tuple[int, int], Span] = {}
        function = ""
        for found in _CODE.finditer(data):
            if found["name"] is not None:
                function = found["name"].decode()
                continue
            own = int(found["file"]), int(found["line"])
            call = _CALLED.search(found["more"])
            span = Span(found.start(), found.end("line"))
            for place in (own, *([(int(call[1]), int(call[2]))] if call else [])):
                if place[0] in files:
                    first.setdefault(place, span)
                    owners[place][function] = None
            if call is None and own[1] and own[0] in files:
                file, low, high, at = self.functions.get(function, (*own, own[1], span))
                if file == own[0]:
                    self.functions[function] = file, min(low, own[1]), max(high, own[1]), at
        self.lines = {place: (first[place], tuple(functions)) for place, functions in owners.items()}
