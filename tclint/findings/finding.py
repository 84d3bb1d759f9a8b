"""Findings and reports: one type of finding for every rule, and one report per input.

Spans are absolute byte offsets into the :class:`~tclint.syntax.source.Source`; the output formats turn them into lines and
columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from tclint._dataclass import dataclass
from tclint.findings.moved import Former, subject
from tclint.findings.scales import Confidence, Method, Severity
from tclint.findings.spans import Span
from tclint.syntax.source import Problem, Source

if TYPE_CHECKING:
    from tclint.findings.figures import Assembled
    from tclint.findings.rules import Rule
    from tclint.findings.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A position in CUDA or Python from ``.loc`` (PTX ISA 11.5.4); line and column are 1-based, column 0 means
    unknown."""

    file: str
    line: int
    column: int = 0
    inlined_at: tuple[SourceLocation, ...] = ()
    """The positions of the calls through which it was inlined, innermost first; the last one is in the kernel
    itself."""
    text: str | None = None
    """The line, if the file is one of the user's (:mod:`tclint.driver.user_sources`); None if it was not read."""


LATER = "in a later iteration: "
"""How the message of a step begins that follows the one before it only after a back edge."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the path that leads to a finding, in the order of execution."""

    span: Span
    message: str
    entry: str | None = None
    """The function in which the step happens."""
    role: str | None = None
    """The threads that execute it: ``warps 4-7``, ``lane 0 of warp 4``; None if that is not known."""
    source_location: SourceLocation | None = None
    object: str | None = None
    """What it operates on, by the names of the kernel: ``tile+0..2048``, ``mbarrier empty[0]``; None if that has no
    name."""
    aside: bool = False
    """Whether it explains the path: findings that differ in it alone are the same, and it is not in the fingerprint."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The two instructions of a conflict."""

    first: Span
    """The operation or access whose bytes or registers the other one uses."""
    second: Span


@dataclass(frozen=True, slots=True)
class BlockedWait:
    """One party of a deadlock: threads that wait indefinitely."""

    wait: Step
    """Which threads wait, for which object, and what that still needs."""
    arrivals: tuple[Step, ...] = ()
    """The operations that would complete it, each with the reason why it is not executed."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Another occurrence of one defect: the same cause in the same kernel, or the same source line compiled again."""

    path: str
    member: str | None
    entry: str | None
    line: int
    column: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the bytes of ``span`` by ``text``."""

    span: Span
    text: str


def overlapping(edits: tuple[Edit, ...]) -> bool:
    """Whether two of *edits*, which are in the order of the text, change the same bytes or insert at the same offset."""
    return any(b.span.start < a.span.end or a.span == b.span for a, b in pairwise(edits))


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that removes the finding; several fixes of one finding are alternatives."""

    message: str
    edits: tuple[Edit, ...]
    safe: bool
    """Whether the fix cannot change the results of a correct program."""


@dataclass(frozen=True, slots=True)
class SourceHelp:
    """What to change in the source from which the PTX was generated (:mod:`tclint.findings.vocabulary`)."""

    producer: str
    """The language or library of the source: ``CUTLASS``, ``CUDA C++``."""
    text: str


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The result of executing the kernel to confirm a finding (:mod:`tclint.driver.confirm`)."""

    status: Literal["confirmed", "not-reproduced", "not-confirmable", "unsupported"]
    reason: str = ""
    """Why it is not confirmed; empty if it is."""
    schedule: str = ""
    """The schedule of asynchronous completions in the deciding execution: ``lazy``, ``random:1``."""
    observation: str = ""
    """What happened, and to which threads, if it is confirmed; else empty."""
    launch: str = ""
    """The launch that demonstrated it: the launch file, or what was assumed; empty if it is not confirmed."""
    steps: tuple[Step, ...] = ()
    """The observation as additional steps of the path."""

    def __str__(self) -> str:
        how = ", ".join(part for part in (self.schedule, self.launch) if part)
        how = f" ({how})" if how else ""
        detail = self.observation or self.reason
        return f"{self.status.replace('-', ' ')}{how}: {detail}" if detail else f"{self.status}{how}"


@dataclass(frozen=True, slots=True)
class KernelExecution:
    """How a kernel without findings fared when it was executed (:mod:`tclint.driver.executing`)."""

    entry: str
    end: Literal["done", "fault", "deadlock", "budget", "unsupported"]
    """``done`` if it ran to completion in some launch; else how the last launch ended."""
    reason: str = ""
    """Why it did not run to completion; empty if it did."""
    launch: str = ""
    """The launch file, or what was assumed; empty if nothing was executed."""
    instructions: int = 0
    """Instructions that warps executed, in all launches."""
    line: int = 0
    """The line at which the kernel begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One defect: one finding per (rule, asynchronous operation, cause)."""

    rule: Rule
    severity: Severity
    confidence: Confidence
    span: Span
    message: str
    entry: str | None = None
    """The kernel or device function; None for the module itself."""
    steps: tuple[Step, ...] = ()
    """The path from the cause to the defect, in the order of execution."""
    method: Method = Method.STATIC
    """How it was found."""
    replayed: bool = False
    """Whether it follows from the code, and a replay shows it too."""
    deadlock: tuple[BlockedWait, ...] = ()
    """If it is a deadlock, its parties: each one waits for an operation of the next ones, and the last for the first."""
    count: int = 1
    """The number of uses that share this cause; ``span`` is the first."""
    pairs: tuple[Pair, ...] = ()
    """The conflicts that share this cause, including the one that is shown; empty if that is the only one."""
    doubt: str = ""
    """Why the finding may be wrong or harmless; empty if no reason is known."""
    help: str = ""
    """How to fix it, in the imperative; may be empty."""
    help_source: SourceHelp | None = None
    """The help in terms of the source from which the PTX was generated; None if that is unknown."""
    fingerprint: str = ""
    """See :class:`Fingerprints`."""
    former: Former | None = None
    """The rule that reported it in earlier releases; None if it is the same."""
    source_location: SourceLocation | None = None
    variants: tuple[Variant, ...] = ()
    """The findings that were folded into this one (:mod:`tclint.report.fold`)."""
    duplicate_of: Variant | None = None
    """The finding of another kernel into which it was folded, and which has it among its ``variants``."""
    fixes: tuple[Fix, ...] = ()
    suppressed: str | None = None
    """The reason given in the comment that suppresses it; None if none does."""
    baselined: bool = False
    """Whether it is in the baseline (:mod:`tclint.report.baseline`)."""
    confirmation: Confirmation | None = None
    """The result of executing the kernel; None if it was not executed for this finding."""

    @property
    def subject(self) -> str:
        """What a selector must denote to apply to it (:mod:`tclint.findings.moved`)."""
        return subject(self.rule.id, self.former.rule if self.former is not None else "")


@dataclass(frozen=True, slots=True)
class AsmCount:
    """The numbers of inline assembly strings in a source (:mod:`tclint.inline`)."""

    strings: int = 0
    unknown: int = 0
    """Strings with some unknown statements; their other statements were checked."""
    unsure: int = 0
    """Strings of which it is unknown whether they are compiled for the given architecture."""
    modules: int = 0
    """Strings that are whole modules, which are checked as such."""
    cpp: int = 0
    """Sources in CUDA C++, which nvcc compiles; the others are in Python."""


MARK = b"tclint:"
"""What each comment that suppresses findings contains."""


@dataclass(frozen=True, slots=True)
class SourceComment:
    """A comment in CUDA C++ or Python that suppresses findings in the PTX compiled from a line (:mod:`tclint.report.in_source`)."""

    location: SourceLocation
    span: Span
    """Where the PTX has the code of its line, or its kernel, for the first time."""
    line: int
    """The line of code to which it applies; 0 if it applies to :attr:`entries`."""
    entries: tuple[str, ...] = ()
    """The kernels to which it applies, or that have code of its line."""
    rules: tuple[str, ...] = ()
    """Its selectors."""
    reason: str = ""
    problem: str = ""
    """Why it is malformed; empty if it is not."""
    remedy: str = ""
    """What to do about the problem, in the imperative."""


Status = Literal["analysed", "partial", "failed"]


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question about one line of a kernel that was left unanswered, so that the absence of a finding proves
    nothing."""

    kernel: str
    line: int
    question: str
    why: str
    times: int
    """How often it was left open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """The result for one input.

    ``analysed``: the whole input was analysed; ``partial``: only some functions could be, and the findings are theirs;
    ``failed``: nothing could be. ValueError is raised if there is no problem for a status other than ``analysed``, if there
    is one for ``analysed``, and if there are findings without the source that their spans index.
    """

    path: str
    member: str | None = None
    """The name inside a container such as a fatbin."""
    origin: str | None = None
    """A description from the compiler's metadata beside the file: ``matmul_kernel, Triton 3.9.0, 8 warps``."""
    status: Status = "analysed"
    problems: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()
    source: Source | None = None
    entries: tuple[str, ...] = ()
    """The functions that have a body, whether or not they were selected."""
    asm: AsmCount | None = None
    """The inline assembly in the input; None if the input is PTX."""
    open_questions: tuple[OpenQuestion, ...] = ()
    executions: tuple[KernelExecution, ...] = ()
    """The kernels that were executed since they have no finding."""
    verdicts: tuple[Verdict, ...] = ()
    """What is known of each class of hazards in each kernel, in the order of the text; empty if that was not asked."""
    assembled: Assembled | None = None
    """What ptxas makes of it; None if the settings have no ``ptxas-budget``."""
    comments: tuple[SourceComment, ...] = ()
    """The comments about suppression in the user's sources from which it was compiled."""
    newer: tuple[str, ...] = ()
    """Those of these sources that have changed since, so that their lines may have moved."""

    def __post_init__(self) -> None:
        if (self.status == "analysed") == bool(self.problems):
            raise ValueError(f"{self.path}: status {self.status} with {len(self.problems)} problems")
        if self.findings and self.source is None:
            raise ValueError(f"{self.path}: findings without their source")

    @classmethod
    def failed(cls, path: str, message: str, line: int = 0) -> FileReport:
        """The report for an input that could not be analysed at all."""
        return cls(path=path, status="failed", problems=(Problem(line, message),))


class Fingerprints:
    """Generates fingerprints, which identify the same defect after the module is compiled again.

    A fingerprint is ``"<16 hex digits>:<n>"``: a hash of the rule, the entry and the parts, and the ordinal among equal
    ones in the same module. The parts must not contain what a compiler chooses freely: no line numbers, and registers and
    labels only by the order of their first occurrence (``r0``, ``r1``).
    """

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def make(self, rule_id: str, entry: str | None, parts: Iterable[str]) -> str:
        """The next fingerprint for these. Call it in the order of the text, so that ordinals are stable."""
        # A run without findings needs no hash, and importing hashlib takes as long as linting a small file.
        from hashlib import sha256

        digest = sha256()
        for part in (rule_id, entry or "", *parts):
            encoded = part.encode(errors="surrogateescape")
            digest.update(
                b"%d:%b" % (len(encoded), encoded)
            )  # the length distinguishes "ab" "c" from "a" "bc"
        name = digest.hexdigest()[:16]
        self._seen[name] += 1
        return f"{name}:{self._seen[name]}"
