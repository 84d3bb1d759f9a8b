"""What does tclint say of real kernels that work, and is it right?

    python -m benchmarks.findings [FOLDER] [--record]

Every file of the corpus is linted as ``tclint check`` does by default. Errors and warnings that are shown make a
working kernel fail, so each is to be judged by a person who reads the PTX: ``verdicts.tsv`` has the verdicts, and one
that is not there is listed as not judged. Exit status 1 if a finding was judged false, or a file cannot be analysed.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.arguments import command_line
from benchmarks.corpus.builder import default_cache
from benchmarks.strangers.ledger import Ledger
from tclint.findings.scales import Severity
from tclint.findings.selection import Selected
from tclint.linting.check import check_source
from tclint.syntax.source import Source, SourceError

__all__ = ["ABOUT", "COMMAND", "SLICE", "TITLE", "VERDICTS", "figure", "main", "measure", "tables"]

TITLE = "Findings on real kernels"
COMMAND = "python -m benchmarks.findings --record"
SLICE = "python -m benchmarks.findings fixtures/kernels"
ABOUT = """\
Every file of the corpus, linted with the default settings. These kernels work, so an error or a warning is a defect that
their authors did not see, or a false alarm; each was judged by reading the PTX ([verdicts](../benchmarks/verdicts.tsv)).
[real-kernels.md](real-kernels.md) does the same for a second set, with the reasons."""

VERDICTS = Path(__file__).with_name("verdicts.tsv")
UNJUDGED = "not judged"
SHOWN = 4
"""Lines of one rule in a file that the page lists; the record has all."""


ALL = "*"
"""As a line in the verdicts: every finding of the rule in the file, instances of one template that were judged alike."""


def verdicts() -> dict[tuple[str, str, str], str]:
    """Rule, file and line of each finding that was judged, and the verdict: true, false or undecidable."""
    strangers = {
        (r, f"strangers/{name}.ptx", at): said for (r, name, at), said in Ledger().verdicts().items()
    }
    with VERDICTS.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, dialect="excel-tab")
        return strangers | {(row["rule"], row["file"], row["line"]): row["verdict"] for row in rows}


def measure(folder: Path, files: Iterable[Path]) -> dict[str, Any]:
    """Lint *files* below *folder*: counts by producer and rule, and every error and warning that is shown."""
    judged = verdicts()
    selected = Selected()
    producers: dict[str, Counter[str]] = defaultdict(Counter)
    rules: dict[str, Counter[str]] = defaultdict(Counter)
    failing, broken = [], []
    for path in files:
        name = path.relative_to(folder).as_posix()
        about = producers[name.rpartition("/")[0] or "."]
        about["files"] += 1
        try:
            report = check_source(Source.read(path))
        except SourceError as error:
            about["exit 2"] += 1
            broken.append(f"{name}: {error}")
            continue
        assert report.source is not None
        broken += [f"{name}:{problem.line}: {problem.message}" for problem in report.problems]
        status = 2 if report.problems else 0
        for finding in report.findings:
            why = selected.hidden(report, finding)
            kind = f"hidden ({why})" if why else finding.severity.label
            rules[finding.rule.id][kind] += 1
            if not why and finding.severity >= Severity.WARNING:
                status = status or 1
                line = report.source.position(finding.span.start).line
                alike = judged.get((finding.rule.id, name, ALL), UNJUDGED)
                verdict = judged.get((finding.rule.id, name, str(line)), alike)
                failing.append(
                    {
                        "rule": finding.rule.id,
                        "severity": finding.severity.label,
                        "file": name,
                        "line": line,
                        "verdict": verdict,
                        "message": finding.message,
                    }
                )
        about[f"exit {status}"] += 1
    return {
        "producers": dict(sorted(producers.items())),
        "rules": dict(sorted(rules.items())),
        "failing": failing,
        "broken": broken,
    }


def figure(data: Any) -> str:
    """What passes, and the verdicts."""
    producers, failing = data["producers"], data["failing"]
    total: Counter[str] = Counter()
    for counts in producers.values():
        total.update(counts)
    said = Counter(f["verdict"] for f in failing)
    words = ", ".join(f"{count} {verdict}" for verdict, count in said.most_common()) or "none"
    return (
        f"{total['exit 0']:,} of {total['files']:,} files ({total['exit 0'] / max(total['files'], 1):.1%}) exit 0. Errors"
        f" and warnings shown: {len(failing)}; judged: {words}."
    )


def tables(data: Any) -> list[str]:
    """What passes of each producer, what each rule reports, and what fails."""
    producers, failing = data["producers"], data["failing"]
    columns = ("files", "exit 0", "exit 1", "exit 2")
    rows = [[name, *(counts.get(c, 0) for c in columns)] for name, counts in producers.items()]
    lines = results.table(["producer", *columns], rows)
    kinds = [s.label for s in sorted(Severity, reverse=True)]
    kinds += sorted({kind for counts in data["rules"].values() for kind in counts} - {*kinds})
    rows = [[name, *(counts.get(kind, 0) for kind in kinds)] for name, counts in data["rules"].items()]
    lines += results.table(["rule", *kinds], rows)
    together: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for f in failing:
        together[f["rule"], f["severity"], f["file"], f["verdict"]].append(f["line"])
    rows = [
        [rule, severity, f"`{file}`", _places(at), verdict]
        for (rule, severity, file, verdict), at in together.items()
    ]
    lines += results.table(["rule", "severity", "file", "lines", "verdict"], rows)
    return lines + [f"- not analysed as a whole: {problem}" for problem in data["broken"]]


def _places(lines: list[int]) -> str:
    more = f" and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return ", ".join(map(str, lines[:SHOWN])) + more


def main(arguments: list[str] | None = None) -> int:
    """Lint, print the figures, record them; the exit status."""
    parser = command_line("benchmarks.findings", __doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=default_cache(), help="default: the corpus")
    parser.add_argument("--record", action="store_true", help="keep the result for docs/results.md")
    options = parser.parse_args(arguments)
    files = results.kernels(options.folder)
    if not files:
        print(f"{options.folder}: no .ptx file; python -m benchmarks.corpus builds some", file=sys.stderr)
        return 2
    data = measure(options.folder, files)
    print(figure(data), "", *tables(data), sep="\n")
    if options.record:
        results.save("findings", data)
    wrong = [f for f in data["failing"] if f["verdict"] == "false"]
    return 1 if wrong or data["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
