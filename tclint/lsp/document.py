"""One open document: its text, cached results, and the analysis of its current state."""

from __future__ import annotations

from dataclasses import field
from math import inf
from time import perf_counter

from tclint import inline as asm
from tclint._dataclass import dataclass
from tclint.analyses.model import KernelModel
from tclint.config.config import Config
from tclint.findings.finding import FileReport
from tclint.inline.hosts import is_host
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import Function, Module
from tclint.linting.cache import IncrementalCache
from tclint.linting.check import check_source
from tclint.lsp.text import Text
from tclint.report import baseline
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
    text: Text
    config: Config
    report: FileReport
    """Without findings that the settings hide."""
    complete: bool = True
    """Whether all findings are those of this state; otherwise, some are from an earlier one, for lack of time."""


@dataclass(slots=True)
class Document:
    """A document. Only ``text`` and ``version`` are shared between threads; the other fields belong to the worker."""

    uri: str
    path: str
    text: Text
    version: int
    past: IncrementalCache = field(default_factory=IncrementalCache)
    last: Lint | None = None
    _model: tuple[Module, Function, KernelModel] | None = None

    def lint(self, version: int, text: Text, config: Config, seconds: float = inf) -> Lint:
        """The result for a state. Findings that would take longer than *seconds* are those of an earlier state.

        Raises Superseded once there is a newer state.
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
        self.past.pause, self.past.until = lambda: self._check_current(version), perf_counter() + seconds
        complete = True
        try:
            source = Source.from_bytes(text.analysed, self.path)
            if self.host:
                report = asm.check(source, config.selected, config.toolkit, config.arch)
            else:
                report = check_source(
                    source, config.selected, config.toolkit, past=self.past, assume=config.assuming
                )
                complete = not self.past.owing
        except SourceError as error:
            report = FileReport.failed(self.path, str(error), error.line)
        except Superseded:
            raise
        except Exception:
            self.past = IncrementalCache()  # the cache may contain the cause
            raise
        found, _ = baseline.of(config.baseline).compared([report], config.selected, ())
        (shown,), _ = present(found, config.selected)
        self.last = Lint(version, text, config, shown, complete)
        return self.last

    def current(self, text: Text) -> FileReport | None:
        """The report on a state; None if that is not the last state that was linted, or not all of it was."""
        last = self.last
        return last.report if last is not None and last.text is text and last.complete else None

    @property
    def host(self) -> bool:
        """Whether it is CUDA C++ or Python, whose strings may contain PTX."""
        return is_host(self.path)

    def _check_current(self, version: int) -> None:
        if self.version != version:
            raise Superseded

    def built(self, text: Text) -> tuple[Tree, Module]:
        """The tree and module of a state; those of an empty text for a host language, which only gets findings."""
        return self.past.builds.build(b"" if self.host else text.analysed)

    def model(self, module: Module, function: Function, config: Config) -> KernelModel:
        """The model of one function of the module, cached until another one is requested."""
        known = self._model
        if known is None or known[0] is not module or known[1] is not function:
            whole = inline(function, inlinable(module))
            known = self._model = module, function, KernelModel(whole, module, config.toolkit)
        return known[2]
