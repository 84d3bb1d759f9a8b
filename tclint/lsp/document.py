"""One open document: its text, cached results, and the analysis of its current state."""

from __future__ import annotations

from dataclasses import field
from math import inf
from time import perf_counter

from tclint import inline as asm
from tclint._dataclass import dataclass
from tclint.analyses.model import KernelModel
from tclint.cache.results import EarlierResults, opened
from tclint.config.config import Config
from tclint.driver.user_sources import UserSources
from tclint.findings.finding import FileReport, SourceComment
from tclint.findings.selection import Request
from tclint.inline.hosts import is_host
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import Function, Module
from tclint.linting.cache import IncrementalCache
from tclint.linting.check import check_source
from tclint.lsp.text import DocumentText
from tclint.report import baseline
from tclint.report.in_source import suppressed
from tclint.report.summary import present
from tclint.syntax import Tree
from tclint.syntax.source import Source, SourceError

__all__ = ["Document", "Lint", "Superseded"]


class Superseded(Exception):
    """The text changed during its analysis, whose result is no longer needed."""


@dataclass(frozen=True, slots=True)
class Lint:
    """The result for one state of a document."""

    version: int
    text: DocumentText
    config: Config
    report: FileReport
    """Without findings that the settings hide."""
    complete: bool = True
    """Whether nothing is owed: all findings are those of this state, and the next state can build on how they were made.

    Otherwise some are from an earlier state, for lack of time, or all are from the cache.
    """
    stale: frozenset[str] = frozenset()
    """The functions whose checks have not run since they were edited; their findings are those of the state before."""


@dataclass(slots=True)
class Document:
    """A document. Only ``text`` and ``version`` are shared between threads; the other fields belong to the worker."""

    uri: str
    path: str
    text: DocumentText
    version: int
    past: IncrementalCache = field(default_factory=IncrementalCache)
    last: Lint | None = None
    _opened: DocumentText = field(init=False)
    """The state that was opened. The cache of results has only these: one file is opened often, but an edit is made once."""
    _model: tuple[Module, Function, KernelModel] | None = None

    def __post_init__(self) -> None:
        self._opened = self.text

    def lint(self, version: int, text: DocumentText, config: Config, seconds: float = inf) -> Lint:
        """The result for a state. Findings that would take longer than *seconds* are those of an earlier state.

        With a limit, those of a document that was just opened are taken from the results of earlier runs. The run that
        makes up for it makes what the next edit needs. Raises Superseded once there is a newer state.
        """
        last = self.last
        if (
            last is not None
            and last.text is text
            and last.config == config
            and (last.complete or seconds != inf)
        ):
            return last
        self._check_current(version)
        self.past.stale.clear()
        self.past.pause, self.past.until = lambda: self._check_current(version), perf_counter() + seconds
        complete, sources = True, UserSources()
        comments: tuple[SourceComment, ...] = ()
        try:
            source = Source.from_bytes(text.analysed, self.path, starts=text.line_feeds)
            comments = sources.comments(source)
            if text is self._opened and (results := opened(config)) is not None:
                report, complete = self._known_or_made(results, source, config, seconds)
                results.flush()
            else:
                report, complete = self._made(source, config)
        except SourceError as error:
            report = FileReport.failed(self.path, str(error), error.line)
        except Superseded:
            raise
        except Exception:
            self.past = IncrementalCache()  # the cache may contain the cause
            raise
        whole = suppressed([sources.completed(report, comments)], config.selected)
        found, _ = baseline.of(config.baseline).compared(whole, config.selected, ())
        (shown,), _ = present(found, config.selected)
        self.last = Lint(version, text, config, shown, complete, frozenset(self.past.stale))
        return self.last

    def _known_or_made(
        self, results: EarlierResults, source: Source, config: Config, seconds: float
    ) -> tuple[FileReport, bool]:
        """The report on the state that was opened, and whether nothing is owed."""
        key = results.key(source, config, proven=False)
        if seconds != inf and (known := results.find(key, source)) is not None:
            return known, False
        report, complete = self._made(source, config)
        if complete:
            results.keep(key, report)
        return report, complete

    def _made(self, source: Source, config: Config) -> tuple[FileReport, bool]:
        """The report on a state, and whether all findings are its own. Raises SourceError and Superseded."""
        if self.host:
            return asm.check(source, config.selected, config.toolkit, config.arch), True
        report = check_source(
            source,
            Request(config.selected, config.toolkit, assume=config.assuming, dependent=config.dependent),
            past=self.past,
        )
        return report, not self.past.owing

    def current(self, text: DocumentText) -> FileReport | None:
        """The report on a state; None if that is not the last state that was linted, or not all of it was."""
        last = self.last
        return last.report if last is not None and last.text is text and last.complete else None

    @property
    def host(self) -> bool:
        """Whether it is CUDA C++ or Python, whose strings may contain PTX."""
        return is_host(self.path)

    def ptx_begin(self, offset: int) -> int | None:
        """Where the PTX around a byte begins; None if there is no PTX."""
        if not self.host:
            return 0
        piece = asm.string_at(self.text.analysed, self.path, offset)
        return None if piece is None else piece.start

    def _check_current(self, version: int) -> None:
        if self.version != version:
            raise Superseded

    def built(self, text: DocumentText) -> tuple[Tree, Module]:
        """The tree and module of a state; those of an empty text for a host language, which only gets findings."""
        return self.past.builds.build(b"" if self.host else text.analysed)

    def model(self, module: Module, function: Function, config: Config) -> KernelModel:
        """The model of one function of the module, cached until another one is requested."""
        known = self._model
        if known is None or known[0] is not module or known[1] is not function:
            whole = inline(function, inlinable(module))
            known = self._model = module, function, KernelModel(whole, module, config.toolkit)
        return known[2]
