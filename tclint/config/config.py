"""The settings of a run: one frozen dataclass, and one declaration for each of them.

A setting is a field with a :class:`Kind`, which says how its value is written. The options of the command line
(``commands/_settings.py``), the keys of a file and their schema (``settings.py``) and the table in docs/configuration.md
all follow from it: a new setting is a new field here, and a line in ``api.Options``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from tclint._dataclass import dataclass
from tclint._read import MAX_BYTES
from tclint.config import budget
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected, SettingsError
from tclint.isa.target import Target, dotted

if TYPE_CHECKING:
    from tclint.findings.figures import Budget, Gate
    from tclint.findings.requirements import Requirement
    from tclint.findings.verdicts import Assumption

__all__ = ["Config", "Kind", "Selection", "Setting", "settings"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind:
    """How a value is written."""

    wanted: str
    """What a message says is wanted here: ``one of error, warning``."""
    schema: Mapping[str, Any]
    """The JSON schema of a setting's value in a file."""
    read: Callable[[Any], Any]
    """The value that a file's stands for; raises ValueError, TypeError or KeyError for one that stands for none, and
    SettingsError with the reason if a word in it is unknown."""
    write: Callable[[Any], Any]
    """The inverse."""
    option: str = "value"
    """On the command line: ``flag``, ``choice``, ``list``, ``value``, or ``none`` for what only a file can say."""
    metavar: str = ""


def _check(right: bool) -> None:
    if not right:
        raise TypeError


def _choice(values: Mapping[str, Any]) -> Kind:
    labels = {value: label for label, value in values.items()}
    return Kind(
        f"one of {', '.join(values)}",
        {"enum": list(values)},
        values.__getitem__,
        labels.__getitem__,
        "choice",
    )


def _boolean(value: object) -> bool:
    _check(isinstance(value, bool))
    return bool(value)


def _strings(value: object) -> tuple[str, ...]:
    _check(isinstance(value, list) and all(isinstance(item, str) and item.strip() for item in value))
    return tuple(item.strip() for item in value)  # type: ignore[attr-defined]


def _ignores(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    _check(isinstance(value, dict))
    return tuple((glob, _strings(rules)) for glob, rules in value.items())  # type: ignore[attr-defined]


def _toolkit(value: object) -> tuple[int, int]:
    _check(isinstance(value, str))
    major, minor = re.fullmatch(r"(\d+)\.(\d+)", str(value)).groups()  # type: ignore[union-attr]
    return int(major), int(minor)


def _arch(value: object) -> str:
    target = Target.parse(value) if isinstance(value, str) else None
    _check(target is not None)
    return str(target)


def _jobs(value: object) -> int:
    if value == "auto":
        return 0
    _check(isinstance(value, int) and not isinstance(value, bool) and value >= 0)
    return int(value)  # type: ignore[call-overload, no-any-return]


def _path(value: object) -> str:
    _check(isinstance(value, str) and bool(value.strip()))
    return str(value)


def _requirements(value: object) -> tuple[Requirement, ...]:
    from tclint.findings.requirements import requirements

    return _understood(requirements, _strings(value))


def _assumptions(value: object) -> frozenset[Assumption]:
    from tclint.findings.requirements import assumptions

    return _understood(assumptions, _strings(value))


def _understood(parse: Callable[[tuple[str, ...]], T], words: tuple[str, ...]) -> T:
    """What *parse* makes of *words*. Raises SettingsError, whose message lists the words that exist."""
    try:
        return parse(words)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _positive(value: object) -> int:
    _check(isinstance(value, int) and not isinstance(value, bool) and value >= 1)
    return int(value)  # type: ignore[call-overload, no-any-return]


_STRINGS = {"type": "array", "items": {"type": "string", "minLength": 1}}
_SEVERITIES = {step.label: step for step in sorted(Severity, reverse=True)}
_CONFIDENCES = {step.label: step for step in sorted(Confidence, reverse=True) if step < Confidence.CONFIRMED}

FAIL_ON = _choice(_SEVERITIES | {"never": None})
SEVERITY = _choice(_SEVERITIES)
CONFIDENCE = _choice(_CONFIDENCES)
FLAG = Kind("true or false", {"type": "boolean"}, _boolean, bool, "flag")
RULES = Kind("a list of rules", _STRINGS, _strings, list, "list", "RULES")
GLOBS = Kind("a list of patterns", _STRINGS, _strings, list, "list", "GLOB")
PATHS = Kind("a list of patterns", _STRINGS, _strings, list, "list", "GLOB")
IGNORES = Kind(
    "a table from patterns to lists of rules",
    {"type": "object", "additionalProperties": _STRINGS},
    _ignores,
    lambda pairs: {glob: list(rules) for glob, rules in pairs},
    "none",
)
TOOLKIT = Kind(
    'a CUDA version such as "12.8", in quotes',
    {"type": "string", "pattern": r"^\d+\.\d+$"},
    _toolkit,
    dotted,
    metavar="X.Y",
)
PATH = Kind("a path", {"type": "string", "minLength": 1}, _path, str, metavar="FILE")
"""Relative to the folder of the file that says it."""
ARCH = Kind(
    'an architecture such as "sm_90a"',
    {"type": "string", "pattern": r"^(sm|compute)_\d+[af]?$"},
    _arch,
    str,
    metavar="sm_XX",
)
JOBS = Kind(
    'a number, or "auto" (or 0) for one for each core',
    {"anyOf": [{"type": "integer", "minimum": 0}, {"const": "auto"}]},
    _jobs,
    lambda number: number or "auto",
    metavar="N",
)


_CLASS = (
    "(wgmma|tcgen05-ldst|tcgen05-mma|cp-async|bulk|proxies|convergence|shared-memory|tensor-memory|mbarrier|register-pool"
    "|deadlock|availability)"
)
"""The names of the classes of hazards, spelled out, since a run without verdicts does not import them."""
REQUIREMENTS = Kind(
    "a list of requirements such as proved:wgmma",
    {
        "type": "array",
        "items": {
            "type": "string",
            "pattern": rf"^\s*((proved|bounded):)?{_CLASS}(\s*,\s*((proved|bounded):)?{_CLASS})*\s*$",
        },
    },
    _requirements,
    lambda required: [*map(str, required)],
    "list",
    "STATUS:CLASSES",
)
ASSUMPTIONS = Kind(
    'a list of assumptions, or "none"',
    {
        "type": "array",
        "items": {
            "enum": [
                "no-overflow",
                "same-loads",
                "threads",
                "no-alias",
                "reconvergence",
                "elect",
                "expected",
                "boxes",
                "aligned",
                "registers",
                "shape",
                "full-cta",
                "read-only",
                "allocated",
                "tables",
                "implied-fences",
                "completed-reads",
                "in-bounds",
                "dependent",
                "none",
            ]
        },
    },
    _assumptions,
    lambda some: sorted(a.value for a in some) or ["none"],
    "list",
    "NAMES",
)
BUDGET = Kind("a table", budget.SCHEMA, budget.read, budget.write, "none")
_POSITIVE = {"type": "integer", "minimum": 1}
MEBIBYTES = Kind("a number of MiB, at least 1", _POSITIVE, _positive, int, metavar="MIB")
STEPS = Kind("a number of instructions, at least 1", _POSITIVE, _positive, int, metavar="N")


def _about(kind: Kind, text: str) -> dict[str, Any]:
    """What makes a field a setting."""
    return {"kind": kind, "help": text}


@dataclass(frozen=True, slots=True)
class Selection:
    """What one place (a file, ``--config``, the command line) says about the rules; see :mod:`tclint.config.selection`."""

    select: tuple[str, ...] | None = field(
        default=None,
        metadata=_about(
            RULES,
            "Rules to check, by id, name, family or id prefix, or ALL; by default all but those that are off.",
        ),
    )
    extend_select: tuple[str, ...] = field(
        default=(), metadata=_about(RULES, "Rules to check in addition to those of select.")
    )
    ignore: tuple[str, ...] = field(
        default=(),
        metadata=_about(RULES, "Rules not to check. The more specific of select and ignore wins."),
    )


@dataclass(frozen=True, slots=True)
class Config:
    """What the user asked for, apart from how it is displayed."""

    fail_on: Severity | None = field(
        default=Severity.WARNING, metadata=_about(FAIL_ON, "Lowest severity that makes the exit code 1.")
    )
    """None: no finding does."""

    exit_zero: bool = field(
        default=False, metadata=_about(FLAG, "Exit with 0 instead of 1 if there are findings.")
    )

    min_severity: Severity | None = field(
        default=None,
        metadata=_about(
            SEVERITY,
            "Hide findings below this severity. By default the text format counts notes and prints few; info prints all.",
        ),
    )
    """None: no finding is hidden, and the text format prints few notes."""

    min_confidence: Confidence = field(
        default=Confidence.MEDIUM, metadata=_about(CONFIDENCE, "Hide findings below this confidence.")
    )

    pedantic: bool = field(
        default=False,
        metadata=_about(FLAG, "Show low-confidence findings too, and count them towards the exit code."),
    )

    strict: bool = field(
        default=False,
        metadata=_about(
            FLAG,
            "Report as an error or warning what the ISA forbids, although nothing has shown it to go wrong.",
        ),
    )

    entry: tuple[str, ...] = field(
        default=(), metadata=_about(GLOBS, "Check only functions whose name matches.")
    )
    """Empty: all of them."""

    exclude: tuple[str, ...] = field(
        default=(),
        metadata=_about(PATHS, "Leave out matching files and folders, unless they are named explicitly."),
    )

    force_exclude: bool = field(
        default=False, metadata=_about(FLAG, "Apply exclude even to paths that are named explicitly.")
    )

    toolkit: tuple[int, int] | None = field(
        default=None, metadata=_about(TOOLKIT, "CUDA toolkit whose ptxas will compile the code.")
    )
    """``(12, 8)``; None: not named."""

    arch: str | None = field(
        default=None,
        metadata=_about(ARCH, "Architecture for which inline assembly in CUDA C++ and Python is compiled."),
    )
    """``sm_90a``; None: not named, and availability is not checked there."""

    include: tuple[str, ...] = field(
        default=("*.cu", "*.cuh", "*.py"),
        metadata=_about(PATHS, "Also check matching files in folders for inline assembly, if they have any."),
    )

    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = field(
        default=(), metadata=_about(IGNORES, "Rules to ignore in files whose path matches.")
    )

    per_entry_ignores: tuple[tuple[str, tuple[str, ...]], ...] = field(
        default=(), metadata=_about(IGNORES, "Rules to ignore in functions whose name matches.")
    )

    baseline: str | None = field(
        default=None, metadata=_about(PATH, "Hide the findings that tclint baseline recorded in this file.")
    )
    """None: there is none."""

    jobs: int = field(
        default=0, metadata=_about(JOBS, "Number of processes; a few small files are checked in one.")
    )
    """0: one for each core."""

    max_input: int = field(
        default=MAX_BYTES >> 20,
        metadata=_about(MEBIBYTES, "Largest input in MiB, with what it unpacks to; of a container, its PTX."),
    )

    cache: bool = field(
        default=True,
        metadata=_about(
            FLAG, "Reuse the results of earlier runs for inputs, settings and a tclint that are the same."
        ),
    )

    confirm: bool = field(
        default=False,
        metadata=_about(
            FLAG, "Confirm findings by executing their kernels on the CPU (needs tclint-ptx[run])."
        ),
    )

    confirm_steps: int = field(
        default=200_000,
        metadata=_about(STEPS, "Maximum number of instructions that --confirm executes for a finding."),
    )

    execute: bool = field(
        default=False,
        metadata=_about(
            FLAG,
            "Also execute kernels without findings on the CPU, and report what goes wrong there (needs"
            " tclint-ptx[run]).",
        ),
    )

    execute_steps: int = field(
        default=100_000,
        metadata=_about(STEPS, "Maximum number of instructions that --execute executes for a kernel."),
    )

    verdict: bool = field(
        default=False,
        metadata=_about(
            FLAG, "State for each kernel which classes of hazards are violated, proved, bounded or unknown."
        ),
    )

    require: tuple[Requirement, ...] = field(
        default=(),
        metadata=_about(
            REQUIREMENTS,
            "Fail if a class of hazards that a kernel uses is not proved, or not bounded: proved:wgmma,cp-async.",
        ),
    )

    assume: frozenset[Assumption] | None = field(
        default=None,
        metadata=_about(
            ASSUMPTIONS,
            "What proofs may take for granted, none refusing all; and dependent: kernels with griddepcontrol are launched as dependents.",
        ),
    )
    """None: everything."""

    ptxas_budget: Budget | None = field(
        default=None,
        metadata=_about(
            BUDGET,
            "Limits on what ptxas makes of each kernel: registers, spills, stack, shared memory, C75xx.",
        ),
    )
    """None: ptxas is not run."""

    accept_ptxas_change: bool = field(
        default=False,
        metadata=_about(FLAG, "Accept a ptxas whose version is not that of the baseline."),
    )

    gate: Gate | None = None
    """What ``ptxas_budget`` needs to know of the machine and of the baseline; None: it was not asked for."""

    launch: str | None = None
    """The launch file for ``confirm`` and ``execute``; None: the one beside the kernel, or an assumed launch."""

    rules: frozenset[str] | None = None
    """The subjects of the rules to check, which the Selections made; None: those that are on by default."""

    @property
    def max_bytes(self) -> int:
        """The largest input in bytes."""
        return self.max_input << 20

    @property
    def executes(self) -> bool:
        """Whether kernels are executed, which needs numpy."""
        return self.confirm or self.execute

    @property
    def assuming(self) -> frozenset[Assumption] | None:
        """What the proofs of the verdicts may take for granted; None: no verdicts are wanted."""
        if not (self.verdict or self.require):
            return None
        from tclint.findings.requirements import of_proofs

        return of_proofs(self.assume)

    @property
    def dependent(self) -> bool:
        """Whether kernels with ``griddepcontrol`` are taken to be launched as programmatic dependents."""
        from tclint.findings.verdicts import Assumption

        return self.assume is not None and Assumption.DEPENDENT in self.assume

    @property
    def failing(self) -> Severity | None:
        """The lowest severity that makes the exit code 1; None: none does."""
        return None if self.exit_zero else self.fail_on

    @property
    def prints_notes(self) -> bool:
        """Whether the text format prints all notes."""
        return Severity.INFO in (self.min_severity, self.fail_on)

    @property
    def selected(self) -> Selected:
        """What is checked, and which findings are shown."""
        confidence = Confidence.LOW if self.pedantic else self.min_confidence
        return Selected(
            self.rules,
            self.entry,
            self.per_file_ignores,
            self.per_entry_ignores,
            self.min_severity or Severity.INFO,
            confidence,
            self.strict,
        )


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as its declaration says."""

    key: str
    """As a file has it: ``min-severity``."""
    name: str
    """As the dataclass has it: ``min_severity``."""
    kind: Kind
    default: Any
    help: str


def settings() -> Iterator[Setting]:
    """All settings, in the order of the documentation."""
    declared: tuple[Field[Any], ...] = (*fields(Selection), *fields(Config))
    for item in declared:
        if kind := item.metadata.get("kind"):
            key = item.name.replace("_", "-")
            yield Setting(key, item.name, kind, item.default, item.metadata["help"])
