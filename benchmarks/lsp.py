"""How long the language server takes from an edit to the diagnostics, on kernels of about 10,000 lines.

``python -m benchmarks.lsp KERNEL...`` edits each kernel ``--edits`` times as :mod:`benchmarks.edits` does, and measures
what the server does from the moment that it has read the message until the diagnostics are there to be sent: the change
applied, the analysis, its findings as diagnostics. Seconds are those of one core (``process_time``), so that other work
on the machine does not count. ``--exact`` compares each result with that of a fresh run.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from statistics import quantiles
from time import process_time

from lsprotocol import types

from benchmarks.edits import edits
from tclint.config import Config
from tclint.driver import check_source
from tclint.finding import FileReport
from tclint.lsp.diagnostics import diagnostics
from tclint.lsp.document import Document
from tclint.lsp.text import Text
from tclint.report import present
from tclint.source import Source
from tclint.syntax import Change

__all__ = ["main"]


def changes(before: Text, data: bytes) -> list[types.TextDocumentContentChangeEvent]:
    """What a client sends."""
    change = Change.between(before.data, data)
    area = types.Range(before.position(change.start), before.position(change.old_end))
    inserted = data[change.start : change.new_end].decode()
    return [types.TextDocumentContentChangePartial(range=area, text=inserted)]


def times(path: Path, random: Random, number: int, exact: bool) -> Iterator[tuple[str, float]]:
    """The kind of each edit of a kernel, and the seconds until its diagnostics. Raises AssertionError (*exact*)."""
    config = Config()
    text = Text(path.read_bytes())
    document = Document(path.absolute().as_uri(), str(path), text, 0)
    diagnostics(document, document.lint(0, text, config))
    for version, (kind, data) in enumerate(islice(edits(text.data, random), number), 1):
        sent = changes(document.text, data)
        began = process_time()
        document.text = document.text.changed(sent)
        document.version = version
        lint = document.lint(version, document.text, config)
        diagnostics(document, lint)
        yield kind, process_time() - began
        if exact:
            assert document.text.data == data
            fresh = check_source(Source(data, str(path)), config)
            (shown,), _ = present([fresh], config)
            assert _said(lint.report) == _said(shown), f"{path}: another result after {kind} ({version})"


def _said(report: FileReport) -> tuple[object, ...]:
    return report.status, report.problems, report.findings, report.entries


def row(kind: str, seconds: Sequence[float]) -> str:
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [*seconds] * 99
    within = sum(s <= 0.1 for s in seconds) / len(seconds)
    return (
        f"{kind:20} {len(seconds):6} {1000 * cuts[49]:8.0f} {1000 * cuts[94]:8.0f} "
        f"{1000 * max(seconds):8.0f} {within:8.0%}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lsp", description=__doc__.split("\n")[0])
    parser.add_argument("kernels", nargs="+", type=Path, metavar="KERNEL")
    parser.add_argument("--edits", type=int, default=100, help="of each kernel [default: 100]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--exact", action="store_true", help="compare each result with a fresh run")
    options = parser.parse_args(arguments)
    random = Random(options.seed)
    by_kind: dict[str, list[float]] = {}
    print(f"{'milliseconds':20} {'edits':>6} {'p50':>8} {'p95':>8} {'most':>8} {'<= 100':>8}")
    for path in options.kernels:
        own = []
        for kind, seconds in times(path, random, options.edits, options.exact):
            by_kind.setdefault(kind, []).append(seconds)
            own.append(seconds)
        print(row(path.name[-20:], own), flush=True)
        gc.collect()
    print()
    for kind, found in sorted(by_kind.items()):
        print(row(kind, found))
    print(row("all", [s for found in by_kind.values() for s in found]))


if __name__ == "__main__":
    main()
