"""False findings on kernels that no rule has seen.

    python -m benchmarks.strangers gather [--only SOURCE]... [--cache FOLDER]
    python -m benchmarks.strangers draw SET [--known FOLDER]... [--cache FOLDER]
    python -m benchmarks.strangers run SET [--known FOLDER]... [--cache FOLDER]
    python -m benchmarks.strangers table SET [--cache FOLDER]
    python -m benchmarks.strangers score [--record]

``gather`` fetches the sources and keeps their kernels in the cache; what cannot be fetched, read or compiled is named
and skipped. ``run`` draws a set by its seed in ``sets.toml``, which must be committed, lints it once, and adds it to the
ledger. ``draw`` shows what ``run`` would lint: the members of each source, and the rules of a set that they break. ``--known`` names further folders of kernels that were seen before. ``table`` prints the findings of a set for
those who judge them: ``findings.tsv`` takes the verdicts. ``score`` prints the shares.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.arguments import command_line
from benchmarks.corpus.builder import Skipped, default_cache
from benchmarks.strangers import draw, ledger, measure, pool, score, sources
from benchmarks.strangers.compile import Toolkit
from benchmarks.strangers.table import table

__all__ = ["main"]


def _gather(options: argparse.Namespace) -> int:
    try:
        toolkit = Toolkit(options.cache)
    except Skipped as why:
        print(f"no toolkit: {why}", file=sys.stderr)
        return 2
    for source in sources.listed():
        if options.only and source.name not in options.only:
            continue
        about = pool.gather(source, options.cache, toolkit)
        if about["unreachable"]:
            print(f"{source.name}: skipped: {about['unreachable']}", flush=True)
            continue
        print(
            f"{source.name}: {about['modules']} modules, {about['kernels']} kernels, {about['large']} too large;"
            f" {about['skeletons']} skeletons, {about['files']} files, {about['asynchronous']} hard",
            flush=True,
        )
        for failure in about["failures"]:
            print(f"  {failure}", flush=True)
    return 0


def _drawn(
    options: argparse.Namespace, book: ledger.Ledger, entry: Mapping[str, Any]
) -> tuple[list[pool.Candidate], list[str]]:
    """The members of a set, and the rules that they break."""
    seen = book.seen() | pool.known([results.ROOT / "fixtures", default_cache(), *options.known])
    unit, before = ledger.unit(entry), book.sources()
    rules = draw.RULES[unit]
    listed = [
        source
        for source in sources.listed()
        if source.name in entry.get("sources", (source.name,))
        and bool(source.programs) == (unit == "program")
    ]
    offered = pool.held(options.cache, listed, unit)
    fresh = (c for c in offered if not (rules.new_sources and c.source in before))
    drawn = draw.draw(fresh, entry["seed"], seen, rules)
    return drawn, draw.breaches(drawn, rules, before)


def _entry(options: argparse.Namespace, book: ledger.Ledger) -> Mapping[str, Any]:
    """What ``sets.toml`` has of the set, or nothing, with a message, if that is no seed."""
    entry = next((entry for entry in book.sets() if entry["name"] == options.set), {})
    if "seed" not in entry:
        print(f"sets.toml has no seed for a set {options.set}", file=sys.stderr)
        return {}
    return entry


def _draw(options: argparse.Namespace) -> int:
    book = ledger.Ledger()
    entry = _entry(options, book)
    if not entry:
        return 2
    drawn, broken = _drawn(options, book, entry)
    print("\n".join(draw.composition(drawn)))
    for breach in broken:
        print(f"broken: {breach}")
    return 1 if broken else 0


def _run(options: argparse.Namespace) -> int:
    book = ledger.Ledger()
    entry = _entry(options, book)
    if not entry:
        return 2
    if any(row["set"] == options.set for row in book.rows("kernels")):
        print(f"{options.set} was linted before: it does not count again", file=sys.stderr)
        return 2
    if changed := ledger.uncommitted([sources.LIST, book.folder / "sets.toml"]):
        print(f"commit {', '.join(changed)} before the run", file=sys.stderr)
        return 2
    drawn, broken = _drawn(options, book, entry)
    if broken:
        print(f"{options.set} breaks the rules of a set: {'; '.join(broken)}", file=sys.stderr)
        return 1
    _lint(options.set, drawn, entry["seed"], options.cache / "sets" / options.set, book)
    print("\n".join(score.tables(score.score(book))))
    return 0


def _lint(name: str, drawn: Sequence[pool.Candidate], seed: int, folder: Path, book: ledger.Ledger) -> None:
    """Write the kernels to *folder*, lint them, and add the results to the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    kernels, findings = [], []
    for candidate in drawn:
        path = folder / f"{candidate.digest}.ptx"
        path.write_text(candidate.text, encoding="utf-8")
        about, found = measure.lint(name, candidate, path)
        kernels.append(about)
        findings += found
    planted = list(measure.plant(name, drawn, seed, folder))
    book.add("kernels", ledger.KERNELS, kernels)
    book.add("findings", ledger.FINDINGS, findings)
    book.add("planted", ledger.PLANTED, planted)


def _table(options: argparse.Namespace) -> int:
    print("\n".join(table(ledger.Ledger(), options.set, options.cache / "sets" / options.set)))
    return 0


def _score(options: argparse.Namespace) -> int:
    data = score.score(ledger.Ledger())
    print("\n".join(score.tables(data)))
    if options.record:
        results.save("strangers", data)
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Do what was asked; the exit status."""
    parser = command_line("benchmarks.strangers", __doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    gather = commands.add_parser("gather", help="fetch the sources")
    gather.add_argument("--only", action="append", metavar="SOURCE", default=[])
    show = commands.add_parser("draw", help="draw a set and show its composition")
    run = commands.add_parser("run", help="draw a set and lint it, once")
    for command in (show, run):
        command.add_argument("set", metavar="SET")
        command.add_argument("--known", action="append", type=Path, metavar="FOLDER", default=[])
    judge = commands.add_parser("table", help="print the findings of a set")
    judge.add_argument("set", metavar="SET")
    shares = commands.add_parser("score", help="print the shares of false findings")
    shares.add_argument("--record", action="store_true", help="keep the result for docs/results.md")
    for command, do in ((gather, _gather), (show, _draw), (run, _run), (judge, _table), (shares, _score)):
        command.add_argument("--cache", type=Path, default=default_cache().with_name("strangers"))
        command.set_defaults(do=do)
    options = parser.parse_args(arguments)
    options.cache = options.cache.resolve()
    status: int = options.do(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
