"""What a check reports: one type of finding for every rule, and one report per input.

Spans are absolute byte offsets into the :class:`~tclint.syntax.source.Source`; the outputs turn them into lines and columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tclint.findings.scales import Confidence, Severity
from tclint.syntax.source import Problem, Source

if TYPE_CHECKING:
    from tclint.findings.rules import Rule


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes ``start`` (inclusive) to ``end`` (exclusive) of a Source."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The place in CUDA or Python that ``.loc`` (PTX ISA 11.5.4) gives; line and column are 1-based, column 0 unknown."""

    file: str
    line: int
    column: int = 0
    inlined_at: tuple[SourceLocation, ...] = ()
    """The calls through which it was inlined, innermost first; the last one is in the kernel itself."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the path that leads to a finding, in the order of execution."""

    span: Span
    message: str
    entry: str | None = None
    """The function in which the step happens."""
    role: str | None = None
    """Which threads take it: ``warps 4-7``, ``elected lane``; None: all of them."""
    source_location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """Where else one defect was found: the same cause in the same kernel, or the same source line compiled once more."""

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


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that removes the finding; several fixes of one finding are alternatives."""

    message: str
    edits: tuple[Edit, ...]
    safe: bool
    """It cannot change what a correct program computes."""


@dataclass(frozen=True, slots=True)
class SourceHelp:
    """What to change where the PTX was made from (:mod:`tclint.findings.vocabulary`)."""

    producer: str
    """What that is written in: ``CUTLASS``, ``CUDA C++``."""
    text: str


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What came of executing the kernel to confirm a finding (:mod:`tclint.driver.confirm`)."""

    status: Literal["confirmed", "not-reproduced", "unsupported"]
    reason: str = ""
    """Why it is not confirmed."""
    schedule: str = ""
    """When asynchronous operations completed in the execution that decided: ``lazy``, ``random:1``."""
    observation: str = ""
    """What happened, and to which threads, when it is confirmed."""
    steps: tuple[Step, ...] = ()
    """The same as further steps of the path."""

    def __str__(self) -> str:
        how = f" ({self.schedule})" if self.schedule else ""
        said = self.observation or self.reason
        return f"{self.status.replace('-', ' ')}{how}: {said}" if said else f"{self.status}{how}"


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
    """The path from the cause to the bad use, in the order of execution."""
    count: int = 1
    """How many uses share this cause; ``span`` is the first."""
    doubt: str = ""
    """What speaks against it; empty: nothing that is known."""
    help: str = ""
    """What would fix it, as an instruction to the user; empty: nothing to say."""
    help_source: SourceHelp | None = None
    """The same for whoever wrote what the PTX was made from; None: that is not known."""
    fingerprint: str = ""
    """See :class:`Fingerprints`."""
    source_location: SourceLocation | None = None
    variants: tuple[Variant, ...] = ()
    """The findings that were folded into this one (:mod:`tclint.report.fold`)."""
    fixes: tuple[Fix, ...] = ()
    suppressed: str | None = None
    """The reason given where it was suppressed; None: it was not."""
    baselined: bool = False
    """It is in the baseline (:mod:`tclint.report.baseline`)."""
    confirmation: Confirmation | None = None
    """What the executor says of it; None: it was not asked."""


@dataclass(frozen=True, slots=True)
class AsmCount:
    """The strings of inline assembly in a source (:mod:`tclint.inline`), in numbers."""

    strings: int = 0
    unknown: int = 0
    """Those of which some statements are not known; the others were checked."""
    unsure: int = 0
    """Those of which it is not known whether they are compiled for the architecture that was named, if one was."""
    modules: int = 0
    """Strings that are whole modules, which are checked as such."""


Status = Literal["analysed", "partial", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """The result for one input.

    ``analysed``: all of it was; ``partial``: the findings are those of the functions that could be; ``failed``: nothing
    was. Anything but ``analysed`` needs a problem that says why, and findings need the source that their spans index.
    """

    path: str
    member: str | None = None
    """The name inside a container such as a fatbin."""
    origin: str | None = None
    """What the compiler's metadata beside the file says of it: ``matmul_kernel, Triton 3.9.0, 8 warps``."""
    status: Status = "analysed"
    problems: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()
    source: Source | None = None
    entries: tuple[str, ...] = ()
    """The functions that have a body, asked for or not."""
    asm: AsmCount | None = None
    """None: the input is PTX."""

    def __post_init__(self) -> None:
        if (self.status == "analysed") == bool(self.problems):
            raise ValueError(f"{self.path}: status {self.status} with {len(self.problems)} problems")
        if self.findings and self.source is None:
            raise ValueError(f"{self.path}: findings without their source")

    @classmethod
    def failed(cls, path: str, message: str, line: int = 0) -> FileReport:
        """The report for an input of which nothing could be analysed."""
        return cls(path=path, status="failed", problems=(Problem(line, message),))


class Fingerprints:
    """Names findings so that the same defect keeps its name when the module is compiled again.

    A fingerprint is ``"<16 hex digits>:<n>"``: a hash of the rule, the entry and the parts, and the ordinal among equal
    ones in the same module. The parts must not hold what a compiler chooses freely: no line numbers, and registers and
    labels only as the order of their first occurrence (``r0``, ``r1``).
    """

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def make(self, rule_id: str, entry: str | None, parts: Iterable[str]) -> str:
        """The next fingerprint for these; ask in the order of the text, so that ordinals are stable."""
        # A clean run needs no hash, and loading it takes as long as linting a small file.
        from hashlib import sha256

        digest = sha256()
        for part in (rule_id, entry or "", *parts):
            encoded = part.encode(errors="surrogateescape")
            digest.update(b"%d:%b" % (len(encoded), encoded))  # the length keeps "ab" "c" and "a" "bc" apart
        name = digest.hexdigest()[:16]
        self._seen[name] += 1
        return f"{name}:{self._seen[name]}"
