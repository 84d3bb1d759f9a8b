"""How long the language server takes from an edit to the diagnostics, on kernels of about 10,000 lines.

``python -m benchmarks.lsp KERNEL...`` edits each kernel ``--edits`` times as :mod:`benchmarks.edits` does, and measures
what the server does from the moment that it has read the message until the diagnostics are there to be sent: the change
applied, the analysis, its findings as diagnostics. Two times are reported: that of the first answer, in which the findings
of a function that would take too long are those of its earlier state, and that of the complete one, which follows. A
third one is how long an analysis continues, at most, after another edit has made it useless. Seconds are those of one
core (``process_time``), so that other work on the machine does not count. ``--exact`` compares each complete result
with that of a fresh run.

``--typing`` measures completion, signature help and inlay hints instead: each of three statements is begun at places that
a seed decides, and the hints of a screen of 60 lines are asked for.
"""

from __future__ import annotations

import argparse
import gc
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from statistics import quantiles
from time import process_time
from typing import NamedTuple

from lsprotocol import types

from benchmarks.edits import edits
from tclint.config.config import Config
from tclint.findings.finding import FileReport
from tclint.findings.selection import Request
from tclint.findings.spans import Span
from tclint.linting.check import check_source
from tclint.lsp.completion import complete, signatures
from tclint.lsp.configuration import Configuration
from tclint.lsp.diagnostics import STALE, diagnostics
from tclint.lsp.document import Document
from tclint.lsp.hints import hints
from tclint.lsp.text import DocumentText
from tclint.report.summary import present
from tclint.syntax import TextChange
from tclint.syntax.source import Source

__all__ = ["main"]


def changes(before: DocumentText, data: bytes) -> list[types.TextDocumentContentChangeEvent]:
    """What a client sends."""
    change = TextChange.between(before.data, data)
    area = types.Range(before.position(change.start), before.position(change.old_end))
    inserted = data[change.start : change.new_end].decode()
    return [types.TextDocumentContentChangePartial(range=area, text=inserted)]


class Times(NamedTuple):
    """Seconds after one edit."""

    first: float
    """Until the first answer."""
    complete: float
    """Until the complete one."""
    longest: float
    """Between two moments at which the analysis could have been ended."""
    same: bool
    """Whether both answers say the same."""


def times(path: Path, random: Random, number: int, exact: bool) -> Iterator[tuple[str, Times]]:
    """The kind of each edit of a kernel, and what it took. Raises AssertionError (*exact*)."""
    config, patience = Config(), Configuration().own["patience"]
    text = DocumentText(path.read_bytes())
    document = Watched(path.absolute().as_uri(), str(path), text, 0)
    diagnostics(document, document.lint(0, text, config))
    for version, (kind, data) in enumerate(islice(edits(text.data, random), number), 1):
        sent = changes(document.text, data)
        began = process_time()
        document.text = document.text.changed(sent)
        document.version = version
        lint = document.lint(version, document.text, config, patience)
        said = diagnostics(document, lint)
        first = process_time() - began
        document.moments = [process_time()]
        if not lint.complete:
            lint = document.lint(version, document.text, config)
        then = diagnostics(document, lint)
        moments = [*document.moments, process_time()]
        longest = max(after - before for before, after in pairwise(moments))
        yield kind, Times(first, process_time() - began, longest, _places(said) == _places(then))
        if exact:
            assert document.text.data == data
            fresh = check_source(Source(data, str(path)), Request(config.selected, config.toolkit))
            (shown,), _ = present([fresh], config.selected)
            assert _found(lint.report) == _found(shown), f"{path}: another result after {kind} ({version})"


class Watched(Document):
    """A document that notes when its analysis could be ended."""

    moments: list[float] = []  # noqa: RUF012 - a class with slots has no other place

    def _check_current(self, version: int) -> None:
        self.moments.append(process_time())
        super()._check_current(version)


def _places(found: Sequence[types.Diagnostic]) -> list[tuple[object, ...]]:
    """What diagnostics say, but not whether a finding is from before the edit."""
    return [(d.range, d.code, d.message.removesuffix(f"\n{STALE}")) for d in found]


def _found(report: FileReport) -> tuple[object, ...]:
    return report.status, report.problems, report.findings, report.entries


def row(kind: str, found: Sequence[Times]) -> str:
    columns = [f"{kind:20} {len(found):6}"]
    for seconds in ([t.first for t in found], [t.complete for t in found], [t.longest for t in found]):
        cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [*seconds] * 99
        columns.append(f"{1000 * cuts[49]:6.0f} {1000 * cuts[94]:6.0f} {1000 * max(seconds):6.0f}")
    within = sum(t.first <= 0.1 for t in found) / len(found)
    same = sum(t.same for t in found) / len(found)
    return " | ".join(columns) + f" | {within:5.0%} {same:5.0%}"


_TYPED = (b"cp.async.bulk.", b"add.u32 %r1, %r", b"wgm")
"""What is typed at the beginning of a line."""
_SCREEN = 60
"""The lines of a screen."""


def typing(path: Path, random: Random, number: int) -> dict[str, list[float]]:
    """The seconds that each kind of request takes in a kernel."""
    text, config = DocumentText(path.read_bytes()), Config()
    document = Document(path.absolute().as_uri(), str(path), text, 0)
    _, module = document.built(text)
    ends = [match.end() for match in re.finditer(rb";[ \t]*\n", text.data)]
    found: dict[str, list[float]] = {}

    def timed(kind: str, request: Callable[[], object]) -> None:
        began = process_time()
        request()
        found.setdefault(kind, []).append(process_time() - began)

    for turn in range(number):
        at = random.choice(ends)
        word = _TYPED[turn % len(_TYPED)]
        typed, cursor = DocumentText(text.data[:at] + word + b"\n" + text.data[at:]), at + len(word)
        timed("completion", lambda typed=typed, cursor=cursor: complete(typed, cursor))  # type: ignore[misc]
        timed("signature help", lambda typed=typed, cursor=cursor: signatures(typed, cursor))  # type: ignore[misc]
        line = random.randrange(max(1, text.line_count - _SCREEN))
        screen = Span(text.line(line).start, text.line(line + _SCREEN).end)

        def shown(screen: Span = screen) -> object:
            return hints(module, text, screen, lambda function: document.model(module, function, config))

        timed("hints", shown)
    return found


def typing_table(paths: Sequence[Path], random: Random, number: int) -> Iterator[str]:
    """The times of requests while typing, in milliseconds."""
    every: dict[str, list[float]] = {}
    for path in paths:
        for kind, seconds in typing(path, random, number).items():
            every.setdefault(kind, []).extend(seconds)
        gc.collect()
    yield f"{'milliseconds':20} {'times':>6} | {'p50':>6} {'p95':>6} {'most':>6}"
    for kind, seconds in every.items():
        cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [*seconds] * 99
        yield f"{kind:20} {len(seconds):6} | {1000 * cuts[49]:6.1f} {1000 * cuts[94]:6.1f} {1000 * max(seconds):6.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lsp", description=__doc__.split("\n")[0])
    parser.add_argument("kernels", nargs="+", type=Path, metavar="KERNEL")
    parser.add_argument("--edits", type=int, default=100, help="of each kernel [default: 100]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--exact", action="store_true", help="compare each complete result with a fresh run")
    parser.add_argument("--typing", action="store_true", help="measure completion, signature help and hints")
    options = parser.parse_args(arguments)
    random = Random(options.seed)
    if options.typing:
        for line in typing_table(options.kernels, random, options.edits):
            print(line, flush=True)
        return
    by_kind: dict[str, list[Times]] = {}
    cuts = f"{'p50':>6} {'p95':>6} {'most':>6}"
    print(f"{'milliseconds':27} | {'first answer':20} | {'complete answer':20} | {'to its end':20} |")
    print(f"{'':20} {'edits':>6} | {cuts} | {cuts} | {cuts} | <=100  same")
    for path in options.kernels:
        own = []
        for kind, found in times(path, random, options.edits, options.exact):
            by_kind.setdefault(kind, []).append(found)
            own.append(found)
        print(row(path.name[-20:], own), flush=True)
        gc.collect()
    print()
    for kind, every in sorted(by_kind.items()):
        print(row(kind, every))
    print(row("all", [t for every in by_kind.values() for t in every]))


if __name__ == "__main__":
    main()
