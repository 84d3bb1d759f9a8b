"""The baseline: findings that existed when it was written and are hidden in later runs.

An entry hides one finding of the same rule, kernel and instructions, which the hash in a fingerprint identifies
(:class:`~tclint.findings.finding.Fingerprints`); of a finding that moved to another rule, the former one counts too. Only the number of findings with the same hash matters, not their
order. The finding must be in the file of the entry or, if that file no longer exists, in any other file, since it may
have been renamed. So no entry hides two findings, and a new finding is hidden only if an equal one disappeared.

If the settings have a ``ptxas-budget``, it also has the figures of each kernel, with which those of later runs are compared.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields, replace
from fnmatch import fnmatchcase
from typing import Any

from tclint._dataclass import dataclass
from tclint._json import clean, to_json
from tclint._read import read_file
from tclint.findings.figures import CODES, WORDS, Figure, KernelFigures, Recorded
from tclint.findings.finding import FileReport, Finding
from tclint.findings.moved import moved_to, subjects
from tclint.findings.places import region
from tclint.findings.rules import all_rules
from tclint.findings.selection import Selected, SettingsError

__all__ = ["DEFAULT", "Baseline", "Entry", "of", "read"]

DEFAULT = "tclint-baseline.json"
SCHEMA = 1
"""Incremented when a key is removed or changes its meaning, not when one is added."""

ModuleKey = tuple[str, str | None]
"""The path of a module relative to the folder of the baseline, with slashes, and its name in a container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A finding as recorded in a baseline."""

    path: str
    """Relative to the folder of the baseline, with slashes; absolute if on another drive."""
    member: str | None = None
    entry: str | None = None
    rule: str
    fingerprint: str
    line: int
    """The line at the time of recording. It and the message are for the reader only; nothing depends on them."""
    message: str

    @property
    def kind(self) -> str:
        """The part of the fingerprint that interchangeable findings share."""
        return _kind(self.fingerprint)

    @property
    def module_key(self) -> ModuleKey:
        return self.path, self.member


@dataclass(frozen=True, slots=True)
class Baseline:
    """The entries of a baseline file, and which of them a run did not find again."""

    path: str
    entries: tuple[Entry, ...] = ()
    kernels: tuple[Recorded, ...] = ()
    """The figures of kernels; their paths are as those of the entries."""
    vanished: frozenset[int] = frozenset()
    """Indices of the entries whose finding a run looked for and did not find."""

    @property
    def gone(self) -> tuple[Entry, ...]:
        return tuple(self.entries[number] for number in sorted(self.vanished))

    def compared(
        self, reports: Sequence[FileReport], selected: Selected, paths: Iterable[str | os.PathLike[str]]
    ) -> tuple[list[FileReport], Baseline]:
        """The reports with baselined findings marked, and the baseline with ``vanished`` set.

        Entries with the former rule of their finding are replaced by entries with the present one.

        *paths* are the arguments of the run. Findings that would be shown use up entries before those that are hidden
        for another reason. A finding that a comment suppresses uses none.
        """
        places = [self._module_key(report) for report in reports]
        here = frozenset(places)
        arguments = [os.path.abspath(path) for path in paths]
        failed = [os.path.abspath(report.path) for report in reports if report.status == "failed"]
        kernels = tuple(
            each for each in self.kernels if not self._lost((each.path, each.member), here, arguments, failed)
        )
        if not self.entries:
            return list(reports), replace(self, kernels=kernels)
        own: defaultdict[tuple[ModuleKey, str], deque[int]] = defaultdict(deque)
        moved: defaultdict[str, deque[int]] = defaultdict(deque)
        for number, entry in enumerate(self.entries):
            own[entry.module_key, entry.kind].append(number)
            if self._missing(entry.module_key, here):
                moved[entry.kind].append(number)
        used: dict[tuple[int, int], int] = {}
        candidates = list(_candidates(reports, selected))
        # Findings in the file of their entry go first. Only the entries left over may have moved.
        for at, index, kinds in candidates:
            if entries := next(filter(None, (own[places[at], kind] for kind in kinds)), None):
                used[at, index] = entries.popleft()
        for at, index, kinds in candidates:
            if (at, index) not in used and (
                entries := next(filter(None, map(moved.__getitem__, kinds)), None)
            ):
                used[at, index] = entries.popleft()
        hiding = frozenset(used.values())
        analysed = {place: r.path for place, r in zip(places, reports, strict=True) if r.status == "analysed"}
        vanished = frozenset(
            number
            for number, entry in enumerate(self.entries)
            if number not in hiding and self._looked_for(entry, analysed, here, arguments, failed, selected)
        )
        kept, shown = list(self.entries), []
        for at, report in enumerate(reports):
            findings = list(report.findings)
            for index, finding in enumerate(findings):
                if (at, index) in used:
                    number, old = used[at, index], finding.former
                    if old is not None and kept[number].kind != _kind(finding.fingerprint):
                        kept[number], old = (
                            self._entry(report, finding),
                            old._replace(named_by="the baseline"),
                        )
                    findings[index] = replace(finding, baselined=True, former=old)
            shown.append(replace(report, findings=tuple(findings)))
        return shown, replace(self, entries=tuple(kept), kernels=kernels, vanished=vanished)

    def updated(self, reports: Iterable[FileReport], selected: Selected, *, prune: bool) -> Baseline:
        """The baseline without vanished entries and, unless *prune*, with the findings not marked by :meth:`compared`.

        Other entries that remain are unchanged, so a version control diff shows only additions and removals.
        """
        entries = [entry for number, entry in enumerate(self.entries) if number not in self.vanished]
        if not prune:
            entries += [
                self._entry(report, finding)
                for report in reports
                for finding in report.findings
                if _recordable(finding) and not selected.hidden(report, finding)
            ]
        kernels = self.kernels if prune else self._with_figures(reports)
        return Baseline(self.path, tuple(sorted(entries, key=_order)), kernels)

    def _with_figures(self, reports: Iterable[FileReport]) -> tuple[Recorded, ...]:
        """The kernels with the figures of this run, in the order of the file."""
        made = {
            self._module_key(report): report.assembled
            for report in reports
            if report.assembled is not None and report.assembled.kernels
        }
        kernels = [each for each in self.kernels if (each.path, each.member) not in made]
        for place, assembled in made.items():
            kernels += (
                Recorded(*place, assembled.ptxas, assembled.target, each) for each in assembled.kernels
            )
        return tuple(sorted(kernels, key=lambda k: (k.path, k.member or "", k.figures.kernel, k.target)))

    def recorded(self) -> tuple[Recorded, ...]:
        """The figures of the kernels. Those of a file that no longer exists are for the kernel of that name and target in any
        file, unless two have both."""
        found, moved = [], defaultdict[tuple[str, str], list[Recorded]](list)
        for each in self.kernels:
            path = os.path.normpath(os.path.join(self._folder, each.path))
            if os.path.lexists(path):
                found.append(each._replace(path=path))
            else:
                moved[each.figures.kernel, each.target].append(each._replace(path=""))
        return (*found, *(alone[0] for alone in moved.values() if len(alone) == 1))

    def __str__(self) -> str:
        """The text of the file: JSON with one entry per line, in an order that does not depend on line numbers."""
        parts = {"findings": [asdict(entry) for entry in self.entries]}
        if self.kernels:
            parts["kernels"] = [*map(_kernel_object, self.kernels)]
        lines = {
            key: ",".join(f"\n{to_json(each, indent=None)[:-1]}" for each in objects)
            for key, objects in parts.items()
        }
        lists = "".join(f',\n"{key}": [{text}\n]' for key, text in lines.items())
        return f'{{\n"schema": {SCHEMA}{lists}\n}}\n'

    def _entry(self, report: FileReport, finding: Finding) -> Entry:
        path, member = self._module_key(report)
        return Entry(
            path=path,
            member=member,
            entry=finding.entry,
            rule=finding.rule.id,
            fingerprint=finding.fingerprint,
            line=region(report, finding.span)[0].line,
            message=finding.message,
        )

    @property
    def _folder(self) -> str:
        return os.path.dirname(os.path.abspath(self.path))

    def _module_key(self, report: FileReport) -> ModuleKey:
        try:
            path = os.path.relpath(report.path, self._folder)
        except ValueError:  # another drive
            path = os.path.abspath(report.path)
        return clean(path.replace(os.sep, "/")), report.member

    def _missing(self, module: ModuleKey, here: frozenset[ModuleKey]) -> bool:
        """Whether the module of an entry no longer exists, in which case its findings may have moved."""
        if module in here:
            return False
        path, member = module
        if member is not None and any(path == other for other, _ in here):
            return True
        return not os.path.lexists(os.path.join(self._folder, path))

    def _looked_for(
        self,
        entry: Entry,
        analysed: dict[ModuleKey, str],
        here: frozenset[ModuleKey],
        arguments: Sequence[str],
        failed: Sequence[str],
        selected: Selected,
    ) -> bool:
        """Whether this run would have reported the finding of an entry if it still existed."""
        # Whether its finding moved to another rule, or from one, is not recorded.
        denoted = subjects((entry.rule,)) | moved_to(entry.rule)
        if selected.rules is not None and not denoted <= selected.rules:
            return False
        if entry.entry is not None and not selected.wants(entry.entry):
            return False
        if (path := analysed.get(entry.module_key)) is not None:
            return entry.rule not in all_rules() or entry.rule not in selected.ignored(
                path, entry.entry or ""
            )
        return self._lost(entry.module_key, here, arguments, failed)

    def _lost(
        self,
        module: ModuleKey,
        here: frozenset[ModuleKey],
        arguments: Sequence[str],
        failed: Sequence[str],
    ) -> bool:
        """Whether this run would have had the module of an entry if it still existed."""
        path = os.path.normpath(os.path.join(self._folder, module[0]))
        named = any(_in(path, argument) or fnmatchcase(path, argument) for argument in arguments)
        return named and not any(_in(path, other) for other in failed) and self._missing(module, here)


def of(path: str | None) -> Baseline:
    """The baseline of a run, in the file *path*; empty if that is None. Raises SettingsError as :func:`read` does."""
    return Baseline("") if path is None else read(path)


_CONFLICT = b"<<<<<<< "
"""How the first line begins that git writes to a file in conflict."""


def read(path: str | os.PathLike[str]) -> Baseline:
    """The baseline in a file. Raises SettingsError if the file cannot be read or is not a baseline."""
    import json

    path, data = os.fspath(path), b""
    try:
        data = read_file(path)
        document = json.loads(data.decode("utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"cannot read the baseline {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        if any(line.startswith(_CONFLICT) for line in data.splitlines()):
            raise SettingsError(
                f"the baseline {path} has the markers of a merge conflict and is not valid JSON: take either side, and"
                " write it again with tclint baseline"
            ) from None
        raise SettingsError(f"the baseline {path} is not valid JSON: {error}") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(schema, int) or not isinstance(document.get("findings"), list):
        raise SettingsError(
            f"{path} is not a tclint baseline: 'schema' or 'findings' is missing or has the wrong type"
        )
    if schema > SCHEMA:
        raise SettingsError(
            f"the baseline {path} has schema {schema}, but this tclint supports up to {SCHEMA}; update tclint"
        )
    kernels = document.get("kernels", [])
    if not isinstance(kernels, list):
        raise SettingsError(f"the baseline {path}: 'kernels' has the wrong type")
    return Baseline(
        path,
        tuple(_read(path, n, found) for n, found in enumerate(document["findings"], 1)),
        tuple(_read_kernel(path, n, found) for n, found in enumerate(kernels, 1)),
    )


def _read(path: str, number: int, found: Any) -> Entry:
    """The entry for object *number* of a file. Unknown keys are ignored. Raises SettingsError."""
    text = (str,)
    kinds = {"line": (int,), "member": (str, type(None)), "entry": (str, type(None))}
    try:
        values = {field.name: found.get(field.name) for field in fields(Entry)}
        wrong = [name for name, value in values.items() if not isinstance(value, kinds.get(name, text))]
    except AttributeError:
        raise SettingsError(f"the baseline {path}: finding {number} is not an object") from None
    if wrong:
        raise SettingsError(f"the baseline {path}: finding {number} has a missing or invalid '{wrong[0]}'")
    return Entry(**values)


def _read_kernel(path: str, number: int, found: Any) -> Recorded:
    """As :func:`_read`, for an object among ``kernels``."""
    kinds = {
        "path": (str,),
        "member": (str, type(None)),
        "entry": (str, type(None)),
        "ptxas": (str,),
        "target": (str,),
    }
    if not isinstance(found, dict):
        raise SettingsError(f"the baseline {path}: kernel {number} is not an object")
    figures = {key: amount for key, amount in found.items() if key in WORDS or CODES.fullmatch(key)}
    wrong = [
        *(key for key, kind in kinds.items() if not isinstance(found.get(key), kind)),
        *(key for key, amount in figures.items() if amount is not None and type(amount) is not int),
    ]
    if wrong:
        raise SettingsError(f"the baseline {path}: kernel {number} has a missing or invalid '{wrong[0]}'")
    kernel = KernelFigures(found.get("entry") or "", tuple(Figure(*pair) for pair in figures.items()))
    return Recorded(found["path"], found.get("member"), found["ptxas"], found["target"], kernel)


def _kernel_object(one: Recorded) -> dict[str, Any]:
    """The object that :func:`_read_kernel` reads."""
    return {
        "path": one.path,
        "member": one.member,
        "entry": one.figures.kernel or None,
        "ptxas": one.ptxas,
        "target": one.target,
        **dict(one.figures.figures),
    }


def _in(path: str, other: str) -> bool:
    """Whether *path* is *other* or inside it."""
    return path == other or path.startswith(os.path.join(other, ""))


def _kind(fingerprint: str) -> str:
    return fingerprint.partition(":")[0]


def _recordable(finding: Finding) -> bool:
    """Whether a finding may have an entry: not if a comment suppresses it or if it reports a wrong suppression."""
    return finding.suppressed is None and finding.rule.family != "suppression"


def _candidates(reports: Sequence[FileReport], selected: Selected) -> list[tuple[int, int, tuple[str, ...]]]:
    """(report, index, kinds) of the findings that may have an entry; those that would be shown come first.

    The kind of the former fingerprint, if the finding has one, follows that of the present one.
    """
    found = [
        (bool(selected.hidden(report, finding)), at, finding.span.start, index, _kinds(finding))
        for at, report in enumerate(reports)
        for index, finding in enumerate(report.findings)
        if _recordable(finding)
    ]
    return [(at, index, kinds) for _, at, _, index, kinds in sorted(found)]


def _kinds(finding: Finding) -> tuple[str, ...]:
    """The kinds of the entries that may be of *finding*, the present one first."""
    former = finding.former
    return _kind(finding.fingerprint), *(() if former is None else (_kind(former.fingerprint),))


def _order(entry: Entry) -> tuple[object, ...]:
    kind, _, ordinal = entry.fingerprint.partition(":")
    number = int(ordinal) if ordinal.isdecimal() else 0
    return entry.path, entry.member or "", entry.entry or "", entry.rule, kind, number
