"""``tclint check --fix``: the fixes of findings made in the text, each checked again before it counts.

A fix is kept only if what it mends is gone and nothing new is found; otherwise the text stays as it was, and the reason
is told. Overlapping edits are never made together. A file is replaced in one step, with its permissions, and only if it
still is what was read.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from tclint.config.config import Config
from tclint.driver.one import Input, debug, internal_error, lint
from tclint.findings.edits import joined
from tclint.findings.finding import Edit, FileReport, Finding, Fix
from tclint.findings.places import place
from tclint.findings.scales import Severity
from tclint.linting.cache import IncrementalCache
from tclint.report.summary import count, present
from tclint.syntax.source import Source, SourceError, read_bytes

if TYPE_CHECKING:
    from tclint.report.baseline import Baseline

__all__ = ["Fixed", "Fixing", "Refused", "apply_fixes", "compatible", "shown", "tried", "verified_fixes"]

_ROUNDS = 10
"""How often what is left is looked at again: a fix may be possible only after another one."""
_PROOFS = 12
"""So many fixes of a text are looked at one by one, each of which takes as long as linting what it changes."""
_MARK = b"\xef\xbb\xbf"


class Refused(NamedTuple):
    """A fix that was tried and not kept."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """What became of a text."""

    source: Source
    report: FileReport
    """What is still found in it and shown."""
    fixed: tuple[Finding, ...] = ()
    """What is gone, where it was in the text that had it."""
    refused: tuple[Refused, ...] = ()


def apply_fixes(source: Source, config: Config, unsafe: bool = False, known: Baseline | None = None) -> Fixed:
    """*source* with the fixes of the findings that are shown and not *known*: the safe ones, or all of them."""
    return _Mending(source, replace(config, confirm=False), unsafe, known).run()


_Key = tuple[str, str | None, int]
"""Rule, entry, and where the finding starts."""


class _Mending:
    def __init__(self, source: Source, config: Config, unsafe: bool, known: Baseline | None) -> None:
        self.config = config
        self.unsafe = unsafe
        self.known = known
        self.source = source
        self.past = IncrementalCache()
        self.report = shown(source, config, known, self.past)
        self.fixed: list[Finding] = []
        self.refused: dict[str, Refused] = {}

    def run(self) -> Fixed:
        for _ in range(_ROUNDS):
            todo = self._todo()
            if not todo or (self._try(compatible(todo)) is not None and not self._one_by_one(todo)):
                break
        left = {finding.fingerprint for finding in self.report.findings}
        refused = (refusal for name, refusal in self.refused.items() if name in left)
        return Fixed(self.source, self.report, tuple(self.fixed), tuple(refused))

    def _todo(self) -> list[tuple[Finding, list[Fix]]]:
        """The findings that have a fix, with those that may be applied."""
        found = []
        for finding in self.report.findings:
            fixes = [fix for fix in finding.fixes if fix.safe or self.unsafe]
            if fixes and finding.fingerprint not in self.refused:
                found.append((finding, sorted(fixes, key=lambda fix: not fix.safe)))
        return found

    def _one_by_one(self, todo: Sequence[tuple[Finding, list[Fix]]]) -> bool:
        """Each finding alone, since something among all of them is not right; whether that changed anything."""
        changed = False
        for name in [finding.fingerprint for finding, _ in todo]:
            now = next((pair for pair in self._todo() if pair[0].fingerprint == name), None)
            if now is None:
                continue  # gone with another one
            finding, fixes = now
            reasons = []
            for fix in fixes:
                reason = self._try([(finding, fix)])
                if reason is None:
                    changed = True
                    break
                reasons.append(reason)
            else:
                self.refused[name] = Refused(finding, reasons[0])
        return changed

    def _try(self, chosen: Sequence[tuple[Finding, Fix]]) -> str | None:
        """Make these fixes if that is right; otherwise why they were not made."""
        made = tried(self.report, chosen, self.config, self.known, self.past)
        if isinstance(made, str):
            return made
        self.fixed += made.fixed
        self.source, self.report = made.source, made.report
        return None


def shown(
    source: Source, config: Config, known: Baseline | None = None, past: IncrementalCache | None = None
) -> FileReport:
    """The report on *source* with the findings that are shown, not *known*, and that no comment suppresses."""
    found = [lint(source, config, past=past)]
    if known is not None:
        found, _ = known.compared(found, config, ())
    return replace(_visible(found[0], config), source=source)


def _visible(report: FileReport, config: Config) -> FileReport:
    (visible,), _ = present([report], config)
    return replace(visible, findings=tuple(f for f in visible.findings if f.suppressed is None))


def tried(
    report: FileReport,
    chosen: Sequence[tuple[Finding, Fix]],
    config: Config,
    known: Baseline | None = None,
    past: IncrementalCache | None = None,
) -> Fixed | str:
    """The text of *report* with these fixes, if the findings are gone then and no other one comes; otherwise why not.

    The edits of the fixes must not overlap. With the *past* of that text only what they change is analysed again.
    """
    old = report.source
    assert old is not None  # see shown
    edits = {edit for _, fix in chosen for edit in fix.edits}
    source = Source(joined(old.data, edits), old.path, old.container, old.member)
    then = shown(source, config, known, past)
    before = {_key(finding, edits): finding for finding in report.findings}
    after = {_key(finding): finding for finding in then.findings}
    if len(then.problems) > len(report.problems):
        return f"the text would then have a problem: {then.problems[-1].message}"
    for key, finding in after.items():
        if key not in before:
            return f"it would bring {finding.rule.id} in line {source.position(finding.span.start).line}"
    if any(_key(finding, edits) in after for finding, _ in chosen):
        return "it would still be found"
    return Fixed(source, then, tuple(finding for key, finding in before.items() if key not in after))


def verified_fixes(report: FileReport, config: Config, past: IncrementalCache | None = None) -> FileReport:
    """*report* without the fixes that do not hold: whoever reads one may make it without looking again.

    The best ones are made together, and where that does not mend them all, and for their alternatives, each alone. What
    is hidden is left as it is, since nobody will be shown it, and so are notes: what they are about works, and linting a
    kernel twice to tell of it would take twice as long.
    """
    before = _visible(report, config)
    seen = [f for f in before.findings if f.fixes and f.severity > Severity.INFO]
    if not seen:
        return report
    good: list[tuple[Finding, Fix]] = []
    best = compatible((finding, list(finding.fixes)) for finding in seen)
    if isinstance(tried(before, best, config, past=past), Fixed):
        good += best
    others = [(f, fix) for f in seen for fix in f.fixes if not any(f is g and fix is x for g, x in good)]
    good += [pair for pair in others[:_PROOFS] if isinstance(tried(before, [pair], config, past=past), Fixed)]
    kept = {id(f): tuple(x for x in f.fixes if any(f is g and x is y for g, y in good)) for f in seen}
    findings = tuple(replace(f, fixes=kept[id(f)]) if id(f) in kept else f for f in report.findings)
    return replace(report, findings=findings)


def compatible(todo: Iterable[tuple[Finding, list[Fix]]]) -> list[tuple[Finding, Fix]]:
    """The best fix of each finding, but for those whose edits get in the way of one before."""
    chosen: list[tuple[Finding, Fix]] = []
    taken: list[Edit] = []
    for finding, (fix, *_) in todo:
        new = [edit for edit in fix.edits if edit not in taken]
        if not any(_clash(edit, other) for edit in new for other in taken):
            chosen.append((finding, fix))
            taken += new
    return chosen


def _clash(a: Edit, b: Edit) -> bool:
    """Whether two edits change the same bytes, or insert at the same place: which comes first is not known then."""
    return a.span == b.span or (a.span.start < b.span.end and b.span.start < a.span.end)


def _key(finding: Finding, edits: Iterable[Edit] = ()) -> _Key:
    """What a finding is known by, in the text with *edits* made."""
    start = finding.span.start
    moved = sum(len(e.text.encode()) - (e.span.end - e.span.start) for e in edits if e.span.end <= start)
    return finding.rule.id, finding.entry, start + moved


# ---------------------------------------------------------------- files


@dataclass(slots=True)
class Fixing:
    """A run with ``--fix`` or ``--diff``: inputs go through it, and come out mended."""

    config: Config
    unsafe: bool = False
    diff: bool = False
    """Show what would change, and change nothing."""
    known: Baseline | None = None
    """What is in it is left alone."""
    fixed: Counter[Severity] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    """What was not changed, and why."""
    diffs: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Why some of it could not be analysed."""
    reports: list[FileReport] = field(default_factory=list)
    """What is left in each input that could be read."""
    stdin: bytes | None = None
    """Standard input as it comes out."""

    def through(self, inputs: Iterable[Input], stdin_name: str) -> Iterator[Input]:
        """The inputs, mended."""
        for name, item in inputs:
            if isinstance(item, SourceError):
                self.problems.append(f"{name}{f':{item.line}' if item.line else ''}: problem: {item}")
                yield name, item
            else:
                yield name, self._one(name, item, name == stdin_name)

    def _one(self, name: str, source: Source, is_stdin: bool) -> Source:
        try:
            mended = apply_fixes(source, self.config, self.unsafe, self.known)
        except Exception as error:
            if debug():
                raise
            self.problems.append(f"{name}: problem: {internal_error(error)}")
            if is_stdin:
                self.stdin = source.data
            return source
        self.reports.append(mended.report)
        where = place(mended.report)
        self.problems += [f"{where}:{p.line}: problem: {p.message}" for p in mended.report.problems]
        for finding, reason in mended.refused:
            line = mended.source.position(finding.span.start).line
            self.notes.append(f"{where}:{line}: {finding.rule.id} was not fixed: {reason}")
        if is_stdin and not self.diff:
            self.stdin = mended.source.data
        if not mended.fixed:
            return source
        why = self._kept(name, source, mended, is_stdin)
        if why:
            self.notes.append(f"{where}: {count(len(mended.fixed), 'finding')} could be fixed, but {why}")
            return source
        self.fixed.update(finding.severity for finding in mended.fixed)
        return source if self.diff else mended.source

    def _kept(self, name: str, source: Source, mended: Fixed, is_stdin: bool) -> str:
        """Show or store what was mended; the reason why that cannot be, or nothing."""
        if source.member is not None:
            return "it is a module of a container"
        raw = b"" if is_stdin else read_bytes(name)
        begin = raw.find(source.data)
        if not is_stdin and (begin not in (0, len(_MARK)) or raw[begin + len(source.data) :].strip(b"\0")):
            return "the file is compressed, or has changed meanwhile"
        if self.diff:
            self.diffs.append(_diff(name, source.data, mended.source.data))
        elif not is_stdin:
            return _store(name, raw, raw[:begin] + mended.source.data + raw[begin + len(source.data) :])
        return ""


def _store(path: str, old: bytes, new: bytes) -> str:
    """Put *new* in the place of *old*; the reason why that cannot be, or nothing."""
    from contextlib import suppress

    from tclint.report.formats._files import OutputError, beside, locked

    if not os.access(path, os.W_OK):
        return "the file cannot be written: Permission denied"
    target = os.path.realpath(path)
    try:
        temporary = beside(path, target, new)
    except OutputError as error:
        return str(error)
    try:
        with locked(path):  # or two runs may both find it unchanged, and the fixes of one of them are lost
            if read_bytes(target) != old:
                return "the file has changed meanwhile"
            os.replace(temporary, target)
    except OutputError as error:
        return str(error)
    except (SourceError, OSError) as error:
        return f"the file cannot be written: {error}"
    finally:
        with suppress(OSError):
            os.unlink(temporary)  # gone already where it took its place
    return ""


def _diff(name: str, old: bytes, new: bytes) -> str:
    """What changes, as ``diff -u`` says it."""
    from difflib import unified_diff

    before, after = (data.decode().split("\n") for data in (old, new))
    lines = []
    for line in unified_diff(_ended(before), _ended(after), name, name):
        lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(lines)


def _ended(lines: list[str]) -> list[str]:
    """Lines with their ends, as a file has them; a carriage return is a character like others."""
    *whole, last = lines
    return [f"{line}\n" for line in whole] + ([last] if last else [])
