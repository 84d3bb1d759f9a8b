"""One open document: its text, what is known of it, and the analysis of its present state."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from time import perf_counter

from tclint import inline as asm
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
    """The text changed while it was analysed: nobody wants the result any more."""


@dataclass(frozen=True, slots=True)
class Lint:
    """What was found in one state of a document."""

    version: int
    text: Text
    config: Config
    report: FileReport
    """As it is to be shown: with the findings that the settings do not hide."""
    complete: bool = True
    """False: some findings are those of an earlier state, as there was no time for new ones."""


@dataclass(slots=True)
class Document:
    """A document. Only ``text`` and ``version`` may be used by two threads: everything else is the worker's."""

    uri: str
    path: str
    text: Text
    version: int
    past: IncrementalCache = field(default_factory=IncrementalCache)
    last: Lint | None = None
    _model: tuple[Module, Function, KernelModel] | None = None

    def lint(self, version: int, text: Text, config: Config, seconds: float = inf) -> Lint:
        """The findings in a state, those that take longer than *seconds* left as they were in an earlier one.

        Raises Superseded as soon as there is a newer state.
        """
        last = self.last
        if (
            last is not None
            and last.text is text
            and last.config == config
            and (last.complete or seconds != inf)
        ):
            return last
        self._go_on(version)
        self.past.pause, self.past.until = lambda: self._go_on(version), perf_counter() + seconds
        complete = True
        try:
            source = Source.from_bytes(text.analysed, self.path)
            if self.host:
                report = asm.check(source, config)
            else:
                report = check_source(source, config, past=self.past)
                complete = not self.past.owing
        except SourceError as error:
            report = FileReport.failed(self.path, str(error), error.line)
        except Superseded:
            raise
        except Exception:
            self.past = IncrementalCache()  # whatever went wrong may be in it
            raise
        found, _ = baseline.of(config).compared([report], config, ())
        (shown,), _ = present(found, config)
        self.last = Lint(version, text, config, shown, complete)
        return self.last

    @property
    def host(self) -> bool:
        """Whether it is CUDA C++ or Python, in the strings of which PTX may stand."""
        return is_host(self.path)

    def _go_on(self, version: int) -> None:
        if self.version != version:
            raise Superseded

    def built(self, text: Text) -> tuple[Tree, Module]:
        """The tree and the module of a state; those of no text for a host, of which only findings are told."""
        return self.past.builds.build(b"" if self.host else text.analysed)

    def model(self, module: Module, function: Function, config: Config) -> KernelModel:
        """What is known about one function of the module; kept until another one is asked for."""
        known = self._model
        if known is None or known[0] is not module or known[1] is not function:
            whole = inline(function, inlinable(module))
            known = self._model = module, function, KernelModel(whole, module, config)
        return known[2]
