"""What the measurements said: ``docs/results.md``, made of one record for each part.

    python -m benchmarks.results [--check]
    python -m benchmarks.results PART...

A part is a module with ``TITLE``, ``COMMAND`` (what measures it), ``SLICE`` (the same on a few kernels, or "";
``{scratch}`` stands for a temporary folder), ``ABOUT`` (what was done, for a reader of the page), ``figure(data)`` (a sentence or two with the figures
of what it recorded, for the page) and ``tables(data)`` (all of it, in lines of Markdown). Measuring ends with :func:`save`, which writes
``benchmarks/records/PART.json`` and the page again. But for ``once.md`` nothing on the page comes from anywhere else; a
part without a record is named as not measured. With the names of parts, it prints their tables and writes nothing.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

from benchmarks.arguments import command_line
from tclint import __version__ as tclint_version

__all__ = [
    "PARTS",
    "RECORDS",
    "Part",
    "grouped",
    "kernels",
    "main",
    "page",
    "places",
    "processor",
    "recorded",
    "save",
    "skip",
    "table",
]

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "benchmarks" / "records"
PAGE = ROOT / "docs" / "results.md"
ONCE = ROOT / "benchmarks" / "once.md"
"""The answers of measurements whose programs are gone."""

PARTS: dict[str, str] = {
    "corpus": "benchmarks.corpus.__main__",
    "findings": "benchmarks.findings",
    "strangers": "benchmarks.strangers.score",
    "availability": "benchmarks.availability",
    "features": "benchmarks.features",
    "headers": "benchmarks.headers",
    "mutation": "benchmarks.mutation",
    "verdicts": "benchmarks.verdict_score",
    "needless": "benchmarks.needless",
    "needed": "benchmarks.needed.score",
    "hardware": "benchmarks.hardware",
    "hangs": "benchmarks.hangs.score",
    "executor": "benchmarks.executor",
    "speed": "benchmarks.speed",
    "fuzz": "benchmarks.fuzz.__main__",
    "surfaces": "benchmarks.fuzz.surfaces",
}
"""Name of each part's record, and its module, in the order of the page."""

Record = Mapping[str, Any]


class Part(Protocol):
    """A module that measures something."""

    TITLE: str
    COMMAND: str
    SLICE: str
    ABOUT: str

    def figure(self, data: Any) -> str: ...

    def tables(self, data: Any) -> Iterable[str]: ...


def processor() -> str:
    """The machine's processor and the cores that this process may use."""
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        match = None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{match[1] if match else platform.processor() or platform.machine()}, {cores} cores"


def commit() -> str:
    """The commit that is checked out, with a ``+`` when the linter or the benchmarks differ from it."""
    git = ["git", "-C", str(ROOT)]
    try:
        said = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True
        )
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "tclint", "rules"], check=False)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return said.stdout.strip() + ("+" if changed.returncode else "")


def save(
    part: str, data: Any, versions: Mapping[str, str] | None = None, skipped: Sequence[str] = ()
) -> Path:
    """Record what *part* measured, and update the page.

    *versions* are those of other programs that took part; *skipped* says what was not measured and why.
    """
    assert part in PARTS, part
    record = {
        "part": part,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "processor": processor(),
        "versions": {
            "tclint": " ".join(filter(None, (tclint_version, commit()))),
            "CPython": platform.python_version(),
            **(versions or {}),
        },
        "skipped": list(skipped),
        "data": data,
    }
    path = RECORDS / f"{part}.json"
    _write(path, record)
    return path


def skip(part: str, why: str) -> None:
    """Say on the page that *part* could not be measured now; what an earlier run measured stays."""
    assert part in PARTS, part
    path = RECORDS / f"{part}.json"
    record: Record = (
        json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"part": part, "skipped": []}
    )
    today = datetime.now(timezone.utc).date().isoformat()
    _write(path, {**record, "skipped": [*record["skipped"], f"the whole part on {today}: {why}"]})


def _write(path: Path, record: Record) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


def kernels(folder: Path) -> list[Path]:
    """The ``.ptx`` files in *folder* and in the folders of producers in it, by name.

    Nothing deeper: the corpus has the environments of its compilers beside them.
    """
    return sorted([*folder.glob("*.ptx"), *folder.glob("*/*.ptx")])


def grouped(rows: Iterable[Mapping[str, Any]], *keys: str) -> list[tuple[Any, list[Mapping[str, Any]]]]:
    """The rows of a record by what they have under *keys* (a tuple if there are several), sorted by that."""
    value = itemgetter(*keys)
    return [(key, list(found)) for key, found in groupby(sorted(rows, key=value), value)]


def places(mutants: Sequence[Mapping[str, Any]], shown: int = 3) -> str:
    """Kernel and line of the first *shown* mutants, and how many more there are."""
    named = [f"{m['launch']}:{m['line']}" for m in mutants]
    left = len(named) - shown
    return ", ".join(named[:shown]) + (f" and {left} more" if left > 0 else "")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table in Markdown; columns of numbers are aligned to the right. An empty line follows."""
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    if not cells:
        return []

    def numeric(column: int) -> bool:
        return all(re.fullmatch(r"[-+\d.,%]*|\*\*missed\*\*|met", row[column]) for row in cells)

    rule = ["---:" if column and numeric(column) else "---" for column in range(len(head))]
    lines = [f"| {' | '.join(row)} |" for row in ([*head], *cells)]
    return [lines[0], f"|{'|'.join(rule)}|", *lines[1:], ""]


def records() -> dict[str, Record]:
    """Every record there is, by part."""
    found = ((part, RECORDS / f"{part}.json") for part in PARTS)
    return {part: json.loads(path.read_text(encoding="utf-8")) for part, path in found if path.is_file()}


def recorded(part: str) -> Record:
    """The record of *part*; without one, the program ends."""
    if (found := records().get(part)) is None:
        sys.exit(f"no {part}.json: prepare, run and collect first")
    return found


def page() -> str:
    """The text of ``docs/results.md``."""
    known = records()
    lines = [
        "# Results",
        "",
        "How true and how fast tclint is, as measured. `python -m benchmarks.results` writes this page from",
        "[benchmarks/records](../benchmarks/records), which have all data; do not edit it. `python -m benchmarks.results PART`",
        "prints a record as tables. [benchmarks/README.md](../benchmarks/README.md) says how each part is measured. The line",
        "under a part names the machine that measured it, so times of two parts cannot be compared; GPUs are in the text.",
        "",
    ]
    for name, module in PARTS.items():
        part: Part = importlib.import_module(module)
        lines += [f"## {part.TITLE}", ""]
        record = known.get(name, {"skipped": []})
        if "data" in record:
            versions = ", ".join(f"{program} {version}" for program, version in record["versions"].items())
            lines += [
                part.ABOUT,
                "",
                part.figure(record["data"]),
                "",
                (
                    f"`{part.COMMAND}`, {record['date']}, {record['processor']}; {versions};"
                    f" [data](../benchmarks/records/{name}.json)."
                ),
            ]
        else:
            lines.append(f"Not measured yet: `{part.COMMAND}`.")
        if record["skipped"]:
            lines += ["", "Skipped:", "", *(f"- {reason}" for reason in record["skipped"])]
        lines.append("")
    lines += [
        "## Measured once",
        "",
        "What answered one question, by a program that is no longer kept.",
        "",
        ONCE.read_text(encoding="utf-8"),
    ]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the page, print tables, or see whether the page is what the records say; the exit status."""
    parser = command_line("benchmarks.results", __doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if the page is out of date"
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: the page")
    options = parser.parse_args(arguments)
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"no part is called {unknown[0]}: {', '.join(PARTS)}")
    if options.parts:
        known = records()
        for name in options.parts:
            part: Part = importlib.import_module(PARTS[name])
            lines = (
                part.tables(known[name]["data"]) if "data" in known.get(name, {}) else ["Not measured yet."]
            )
            print(f"# {part.TITLE}", "", *lines, sep="\n")
        return 0
    text = page()
    if options.check:
        same = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text
        print(f"{PAGE.relative_to(ROOT)} {'is up to date' if same else 'is not what the records say'}")
        return 0 if same else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
