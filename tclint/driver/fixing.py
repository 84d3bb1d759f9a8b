"""``tclint check --fix``: applies the fixes of findings, and verifies each of them by checking the new text.

:class:`Fixing` also writes what another function makes of a text, such as the comments of ``--add-ignore``.

A fix is kept only if its finding is gone and no new finding appears. Otherwise the text is left unchanged, and the
reason is reported. Overlapping edits are never applied together. :mod:`tclint.driver.rewriting` replaces the file.
"""

from __future__ import annotations

from bisect import bisect, bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.config.config import Config
from tclint.driver.one import Input, debug, internal_error, lint
from tclint.driver.rewriting import rewritten
from tclint.driver.user_sources import UserSources
from tclint.findings.edits import joined
from tclint.findings.finding import Edit, FileReport, Finding, Fix
from tclint.findings.moved import all_moved, moved_to
from tclint.findings.places import displayed_name
from tclint.findings.scales import Method, Severity
from tclint.linting.cache import IncrementalCache
from tclint.linting.subsumption import related
from tclint.report.in_source import suppressed
from tclint.report.summary import count, present
from tclint.syntax.source import Source, SourceError

if TYPE_CHECKING:
    from tclint.report.baseline import Baseline

__all__ = [
    "Fixed",
    "Fixing",
    "RefusedFix",
    "apply_fixes",
    "compatible",
    "moved",
    "shown",
    "tried",
    "verified_fixes",
]

_MAX_PASSES = 10
"""Passes over the remaining findings. A fix may become possible only after another one."""
_MAX_SINGLE_TRIALS = 12
"""Fixes of a text that are verified one by one. Each takes as long as linting the functions that it changes."""


class RefusedFix(NamedTuple):
    """A fix that was tried and rejected."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """A text after fixing."""

    source: Source
    report: FileReport
    """The findings that remain and are shown."""
    before: FileReport | None = None
    """The findings that were shown before anything was fixed."""
    fixed: tuple[Finding, ...] = ()
    """The findings that are gone, each with its span in the last text that had it."""
    refused: tuple[RefusedFix, ...] = ()


def apply_fixes(source: Source, config: Config, unsafe: bool = False, known: Baseline | None = None) -> Fixed:
    """*source* with the fixes of findings that are shown and not *known*: the safe fixes, with *unsafe* all of them."""
    return _Fixer(source, replace(config, confirm=False, execute=False), unsafe, known).run()


_Key = tuple[str, str | None, int]
"""Rule, entry, and the offset at which the finding starts."""


class _Fixer:
    def __init__(self, source: Source, config: Config, unsafe: bool, known: Baseline | None) -> None:
        self.config = config
        self.unsafe = unsafe
        self.known = known
        self.source = source
        self.past = IncrementalCache()
        self.report = self.before = shown(source, config, known, self.past)
        self.fixed: list[Finding] = []
        self.refused: dict[str, RefusedFix] = {}

    def run(self) -> Fixed:
        for _ in range(_MAX_PASSES):
            todo = self._todo()
            if not todo or (self._try(compatible(todo)) is not None and not self._one_by_one(todo)):
                break
        left = {finding.fingerprint for finding in self.report.findings}
        refused = (refusal for name, refusal in self.refused.items() if name in left)
        return Fixed(self.source, self.report, self.before, tuple(self.fixed), tuple(refused))

    def _todo(self) -> list[tuple[Finding, list[Fix]]]:
        """The findings with fixes that may be applied, safe fixes first."""
        found = []
        for finding in self.report.findings:
            fixes = [fix for fix in finding.fixes if fix.safe or self.unsafe]
            if fixes and finding.fingerprint not in self.refused:
                found.append((finding, sorted(fixes, key=lambda fix: not fix.safe)))
        return found

    def _one_by_one(self, todo: Sequence[tuple[Finding, list[Fix]]]) -> bool:
        """Tries to fix each finding alone, after fixing all together failed; returns whether anything changed."""
        changed = False
        for name in [finding.fingerprint for finding, _ in todo]:
            now = next((pair for pair in self._todo() if pair[0].fingerprint == name), None)
            if now is None:
                continue  # fixed along with another one
            finding, fixes = now
            reasons = []
            for fix in fixes:
                reason = self._try([(finding, fix)])
                if reason is None:
                    changed = True
                    break
                reasons.append(reason)
            else:
                self.refused[name] = RefusedFix(finding, reasons[0])
        return changed

    def _try(self, chosen: Sequence[tuple[Finding, Fix]]) -> str | None:
        """Applies these fixes and returns None; or changes nothing and returns the reason."""
        result = tried(self.report, chosen, self.config, self.known, self.past)
        if isinstance(result, str):
            return result
        self.fixed += result.fixed
        self.source, self.report = result.source, result.report
        return None


def shown(
    source: Source, config: Config, known: Baseline | None = None, past: IncrementalCache | None = None
) -> FileReport:
    """The report on *source* with only those findings that are shown, not *known*, and not suppressed by a comment."""
    found = [lint(source, replace(config, verdict=False, require=()), past=past)]
    sources = UserSources()
    found = list(suppressed([sources.completed(found[0], sources.comments(source))], config.selected))
    if known is not None:
        found, _ = known.compared(found, config.selected, ())
    return replace(_visible(found[0], config), source=source)


def _visible(report: FileReport, config: Config) -> FileReport:
    (visible,), _ = present([report], config.selected)
    return replace(visible, findings=tuple(f for f in visible.findings if f.suppressed is None))


def tried(
    report: FileReport,
    chosen: Sequence[tuple[Finding, Fix]],
    config: Config,
    known: Baseline | None = None,
    past: IncrementalCache | None = None,
) -> Fixed | str:
    """The text of *report* with these fixes, if the findings are gone and there are no new ones; otherwise the reason.

    The edits of the fixes must not overlap. With the *past* of that text, only functions that they change are analysed.
    """
    made = _tried(report, chosen, config, known, past)
    return made if isinstance(made, Fixed) else made.reason


class _Failed(NamedTuple):
    """Fixes that do not hold together."""

    reason: str
    suspects: Sequence[tuple[Finding, Fix]]
    """Those of the fixes that remove nothing, or are next to a new finding; the others may hold without them."""


def _tried(
    report: FileReport,
    chosen: Sequence[tuple[Finding, Fix]],
    config: Config,
    known: Baseline | None = None,
    past: IncrementalCache | None = None,
) -> Fixed | _Failed:
    """See :func:`tried`."""
    old = report.source
    assert old is not None  # set by shown
    edits = {edit for _, fix in chosen for edit in fix.edits}
    source = Source(joined(old.data, edits), old.path, old.container, old.member)
    then = shown(source, config, known, past)
    move = moved(edits)
    before = {_key(finding, move): finding for finding in report.findings}
    after = {_key(finding): finding for finding in then.findings}
    if len(then.problems) > len(report.problems):
        return _Failed(f"the fix causes an error: {then.problems[-1].message}", chosen)
    if new := [finding for key, finding in after.items() if key not in before]:
        line = source.position(new[0].span.start).line
        beside = _nearest(chosen, (finding.span.start for finding in new), move)
        return _Failed(f"the fix causes {new[0].rule.id} in line {line}", beside)
    if idle := [pair for pair in chosen if _key(pair[0], move) in after]:
        return _Failed("the fix does not remove the finding", idle)
    gone = tuple(finding for key, finding in before.items() if key not in after)
    return Fixed(source, then, report, gone)


def _nearest(
    chosen: Sequence[tuple[Finding, Fix]], starts: Iterable[int], move: Callable[[int], int]
) -> list[tuple[Finding, Fix]]:
    """For each of *starts*, offsets in the changed text, the fix that changes the text nearest to it."""
    places = sorted((move(e.span.start), n) for n, (_, fix) in enumerate(chosen) for e in fix.edits)
    found = []
    for start in starts:
        at = bisect(places, (start, -1))
        _, number = min(places[max(at - 1, 0) : at + 1], key=lambda place: abs(place[0] - start))
        found.append(chosen[number])
    return found


def verified_fixes(report: FileReport, config: Config, past: IncrementalCache | None = None) -> FileReport:
    """*report* without the fixes that fail verification, so that a reader can apply any one of them without checking.

    The best fix of each finding is tried together with the others. If that fails, it is tried without those to which the
    failure points. What remains, and alternative fixes, are tried alone. Hidden findings are left as they are, since they
    are not shown. So are notes: their code works, and verifying their fixes would double the time for a kernel.

    Only the rules of these findings are checked, with those whose findings decide whether theirs are reported: the
    others cost most of a run, and :func:`apply_fixes` checks all rules before it keeps a fix.
    """
    before = _visible(report, config)
    seen = [f for f in before.findings if f.fixes and f.severity > Severity.INFO]
    if not seen:
        return report
    config = _about(config, seen)
    good: list[tuple[Finding, Fix]] = []
    best = compatible((finding, list(finding.fixes)) for finding in seen)
    made = _tried(before, best, config, past=past)
    done = best if isinstance(made, Fixed) or len(best) == 1 else []
    if isinstance(made, Fixed):
        good += best
    else:
        unsuspected = _without(best, made.suspects)
        if len(unsuspected) > 1 and _hold(before, unsuspected, config, past):
            good += unsuspected
            done = unsuspected
    others = _without([(f, fix) for f in seen for fix in f.fixes], done)
    good += [pair for pair in others[:_MAX_SINGLE_TRIALS] if _hold(before, [pair], config, past)]
    held = {(id(finding), id(fix)) for finding, fix in good}
    kept = {id(f): tuple(fix for fix in f.fixes if (id(f), id(fix)) in held) for f in seen}
    findings = tuple(replace(f, fixes=kept[id(f)]) if id(f) in kept else f for f in report.findings)
    return replace(report, findings=findings)


def _without(
    pairs: Iterable[tuple[Finding, Fix]], others: Iterable[tuple[Finding, Fix]]
) -> list[tuple[Finding, Fix]]:
    """Those of *pairs* that are not among the *others*: a fix that equals one of another finding is not that one."""
    left_out = {(id(finding), id(fix)) for finding, fix in others}
    return [(finding, fix) for finding, fix in pairs if (id(finding), id(fix)) not in left_out]


def _hold(
    before: FileReport, pairs: Sequence[tuple[Finding, Fix]], config: Config, past: IncrementalCache | None
) -> bool:
    """Whether fixes hold without those that were tried last."""
    return isinstance(_tried(before, pairs, config, past=past), Fixed)


def _about(config: Config, findings: Iterable[Finding]) -> Config:
    """*config* with only those of its rules that are related to the rules of *findings*.

    If a replay shows one of them, all that replays show is included, since it decides which one is reported.
    """
    rules = related(finding.rule.id for finding in findings)
    if any(finding.replayed or finding.method is Method.REPLAY for finding in findings):
        former = [id for id, moved in all_moved().items() if moved.method is Method.REPLAY]
        rules = rules.union(former, *map(moved_to, former))
    return replace(config, rules=rules & config.selected.on)


def compatible(todo: Iterable[tuple[Finding, list[Fix]]]) -> list[tuple[Finding, Fix]]:
    """The best fix of each finding, without those whose edits conflict with an earlier one."""
    chosen: list[tuple[Finding, Fix]] = []
    known = set[Edit]()
    taken = list[tuple[int, int]]()  # the spans of edits that do not clash, in the order of the text
    for finding, (fix, *_) in todo:
        new = [edit for edit in fix.edits if edit not in known]
        spans = [(edit.span.start, edit.span.end) for edit in new]
        at = [bisect_left(taken, span) for span in spans]
        beside = (taken[max(i - 1, 0) : i + 1] for i in at)
        if not any(
            _clash(span, other) for span, others in zip(spans, beside, strict=True) for other in others
        ):
            chosen.append((finding, fix))
            known.update(new)
            for span in spans:
                insort(taken, span)
    return chosen


def _clash(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether two edits change the same bytes, or insert at the same offset, where their order would be unknown."""
    return a == b or (a[0] < b[1] and b[0] < a[1])


def _key(finding: Finding, move: Callable[[int], int] = int) -> _Key:
    """The identity of a finding, in the text in which *move* says where an offset is."""
    return finding.rule.id, finding.entry, move(finding.span.start)


def moved(edits: Iterable[Edit]) -> Callable[[int], int]:
    """A function from an offset to where it is in the text to which *edits* have been applied."""
    ordered = sorted(edits, key=lambda edit: edit.span.end)
    ends = [edit.span.end for edit in ordered]
    grown = [0, *accumulate(len(e.text.encode()) - (e.span.end - e.span.start) for e in ordered)]
    return lambda offset: offset + grown[bisect(ends, offset)]


# ---------------------------------------------------------------- files


@dataclass(slots=True)
class Fixing:
    """A run with ``--fix``, ``--diff`` or ``--add-ignore``, which passes inputs through and changes them."""

    config: Config
    unsafe: bool = False
    diff: bool = False
    """Collect the changes in ``diffs`` and change nothing."""
    known: Baseline | None = None
    """Findings in it are not fixed."""
    make: Callable[[Source, Config, bool, Baseline | None], Fixed] = apply_fixes
    """What changes a text; it has the parameters of :func:`apply_fixes`."""
    verb: str = "fix"
    """What it does with a finding; with an ending, also what was done with it."""
    notes: list[str] = field(default_factory=list)
    """What was not fixed, and why."""
    diffs: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Errors of inputs or parts of them that could not be analysed."""
    unwritten: bool = False
    """Whether a file that could be fixed could not be written."""
    before: list[FileReport] = field(default_factory=list)
    """The findings in each input that could be read."""
    after: list[FileReport] = field(default_factory=list)
    """The findings that remain in it."""
    stdin: bytes | None = None
    """The fixed standard input, to be written to standard output; None if there is none."""

    def fixed_inputs(self, inputs: Iterable[Input], stdin_name: str) -> Iterator[Input]:
        """The inputs, fixed. Files are rewritten unless ``diff`` is set."""
        for name, item in inputs:
            if isinstance(item, SourceError):
                self.problems.append(f"{name}{f':{item.line}' if item.line else ''}: error: {item}")
                yield name, item
            else:
                yield name, self._one(name, item, name == stdin_name)

    def counts(self) -> tuple[dict[Severity, int], int]:
        """How many findings are gone, by severity, and how many duplicates of findings.

        They are counted as ``check`` counts findings, each defect once: a source line that many kernels were compiled from
        is fixed once the last of them is.
        """
        from tclint.report.fold import fold

        before, after = (fold(*present(r, self.config.selected))[1] for r in (self.before, self.after))
        fixed = {each: number - after.by_severity[each] for each, number in before.by_severity.items()}
        return {each: number for each, number in fixed.items() if number > 0}, max(
            before.folded - after.folded, 0
        )

    def _one(self, name: str, source: Source, is_stdin: bool) -> Source:
        try:
            result = self.make(source, self.config, self.unsafe, self.known)
        except Exception as error:
            if debug():
                raise
            self.problems.append(f"{name}: error: {internal_error(error)}")
            if is_stdin:
                self.stdin = source.data
            return source
        where = displayed_name(result.report)
        self.problems += [f"{where}:{p.line}: error: {p.message}" for p in result.report.problems]
        for finding, reason in result.refused:
            line = result.source.position(finding.span.start).line
            self.notes.append(f"{where}:{line}: {finding.rule.id} was not {self.verb}ed: {reason}")
        if is_stdin and not self.diff:
            self.stdin = result.source.data
        reason = self._keep(name, source, result.source, is_stdin) if result.fixed else ""
        if reason:
            self.notes.append(
                f"{where}: {count(len(result.fixed), 'finding')} could be {self.verb}ed, but {reason}"
            )
        before = result.before or result.report
        self.before.append(before)
        self.after.append(before if reason else result.report)
        return source if reason or self.diff else result.source

    def _keep(self, name: str, source: Source, fixed: Source, is_stdin: bool) -> str:
        """Records the diff, or writes the file; returns the reason if that is impossible, else an empty string."""
        kept = rewritten(None if is_stdin else name, source, fixed.data, self.config.max_bytes, self.diff)
        if kept.diff:
            self.diffs.append(kept.diff)
        self.unwritten = self.unwritten or kept.failed
        return kept.reason
