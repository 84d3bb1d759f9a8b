"""Does a change of tclint change what it reports, and does anything but the input?

    python -m benchmarks.same record [--oracle] FILE [PATH...]
    python -m benchmarks.same compare OLD NEW [--without-texts]
    python -m benchmarks.same orders [PATH...]

*record* lints every file below the PATHs as ``tclint check`` does, findings of low confidence included, and writes one
line of JSON for each report; ``--oracle`` adds the verdicts, a digest of every replay, proof and execution
(``benchmarks.observed``), and the launches of ``benchmarks/launches``. Faults that ``benchmarks.mutation --write``
planted are files like others. *compare* lists the findings that two such files do not share; ``--without-texts`` leaves
out messages, help, steps' words, the cycles of deadlocks and the titles of fixes, so that a change of wording alone
compares equal. *orders* records the same reports with the checks in their usual order and reversed, so that each is
once before each other one, under two hash seeds, and compares them. Without a PATH: the fixtures, the examples of the rule pages, the kernels and cases
in ``../shared``, and the corpus; those that this machine does not have are named as left out, since a record without
them compares with no record that has them. Exit status 0 if all is the same, 1 if something differs.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.arguments import command_line
from benchmarks.corpus.builder import default_cache
from benchmarks.observed import launches, watched

__all__ = ["differences", "main", "record", "without_texts"]

Report = dict[str, Any]

SHARED = results.ROOT.parent / "shared"
ARCHIVES = "kernels/*.tar.xz"
CASES = "cases"
ORDERS = ("usual", "reversed")
WORDS = (
    "message",
    "help",
    "help_source",
    "doubt",
    "origin",
    "role",
    "object",
    "title",
    "reason",
    "observation",
    "name",
)
"""Keys whose values are sentences or names that people read; identity, place, severity and edits are elsewhere."""
EXPLANATIONS = ("deadlock", "method")
"""Keys whose values explain a finding in more detail than its steps, without which it is the same finding."""
_RUNNER = "from benchmarks.same import _lint; import sys; _lint(*sys.argv[1:])"


def record(
    paths: Sequence[Path], order: str = "usual", hash_seed: str = "0", *, oracle: bool = False
) -> dict[str, Report]:
    """The report of every file below *paths* by its name, made by a new process with checks in that *order*.

    With *oracle* it has verdicts, and under ``observed`` what its file made tclint compute. Raises RuntimeError where
    tclint itself fails.
    """
    reports: dict[str, Report] = {}
    with _unpacked(paths) as folders, tempfile.TemporaryDirectory(prefix="tclint-observed-") as scratch:
        observed = Path(scratch, "observed.json")
        for name, folder in folders:
            done = subprocess.run(
                [sys.executable, "-c", _RUNNER, order, str(observed) if oracle else ""],
                cwd=folder,
                env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(results.ROOT)},
                stdout=subprocess.PIPE,
                check=False,
            )
            try:
                document = json.loads(done.stdout)
            except ValueError:
                raise RuntimeError(
                    f"{name}: tclint check ended with {done.returncode} and no report"
                ) from None
            seen = json.loads(observed.read_text(encoding="utf-8")) if oracle else {}
            for report in document["files"]:
                own = "/".join(filter(None, (report["path"], report["member"])))
                if broken := [p["message"] for p in report["problems"] if "internal error" in p["message"]]:
                    raise RuntimeError(f"{name}/{own}: {broken[0]}")
                reports[f"{name}/{own}"] = report | ({"observed": seen[own]} if own in seen else {})
    return reports


def _lint(order: str, observed: str) -> None:
    """``tclint check`` of the current folder in this process, which it ends, with the checks in another order.

    *observed* is the file for what it computes; empty: that is not recorded.
    """
    from tclint import checks
    from tclint.commands._cli import main as tclint

    checks._discover()
    _reorder(checks._kernel, order)
    _reorder(checks._module, order)
    options = "--isolated --pedantic --fail-on never --include *.cu --output-format json".split()
    if not observed:
        tclint(["check", *options, "."])
    with watched() as seen:
        try:
            tclint(["check", *options, "--verdict", "--no-cache", "--jobs", "1", "."])
        finally:
            Path(observed).write_text(json.dumps(seen), encoding="utf-8")


def _reorder(registry: list[Any], order: str) -> None:
    if order == "reversed":
        registry.reverse()


@contextmanager
def _unpacked(paths: Sequence[Path]) -> Iterator[list[tuple[str, Path]]]:
    """Folders of PTX with a name for each: archives are unpacked, and the kernels of rule pages written, for a while."""
    with tempfile.TemporaryDirectory(prefix="tclint-same-") as scratch:
        found = []
        for number, path in enumerate(paths):
            if path.name.endswith(".tar.xz"):
                folder = Path(scratch, str(number))
                with tarfile.open(path) as archive:
                    archive.extractall(folder, filter="data")
                found.append((path.name.partition(".")[0], folder))
            elif (path / "WG001.md").is_file():
                folder = Path(scratch, str(number))
                folder.mkdir()
                _examples(folder)
                found.append((path.name, folder))
            else:
                found.append((path.name, path.resolve()))
        yield found


def _examples(folder: Path) -> None:
    from tclint.findings.rules import all_rules

    for rule in all_rules().values():
        for kind, blocks in (("example", rule.examples), ("correct", rule.corrections)):
            for number, block in enumerate(blocks):
                Path(folder, f"{rule.id}_{kind}{number}.ptx").write_text(block.code, encoding="utf-8")


def default_paths() -> tuple[list[Path], list[str]]:
    """What is recorded without a PATH, and what of it is left out because this machine does not have it."""
    found = [results.ROOT / "fixtures", results.ROOT / "rules"]
    archives = sorted(SHARED.glob(ARCHIVES))
    absent = [] if archives else [f"{SHARED / ARCHIVES}: no such archive"]
    for path in (SHARED / CASES, default_cache()):
        if path.is_dir():
            archives.append(path)
        else:
            absent.append(f"{path}: no such folder")
    return found + archives, absent


def _say_what_is_recorded(paths: Sequence[Path], absent: Sequence[str]) -> None:
    """One line for each folder, archive or omission, before the minutes that recording takes."""
    for path in paths:
        print(f"recorded: {path}")
    for omission in absent:
        print(f"left out: {omission}", flush=True)


def without_texts(value: Any) -> Any:
    """*value*, a report or a part of one, without what only people read or what only explains it."""
    if isinstance(value, dict):
        return {key: without_texts(item) for key, item in value.items() if key not in (*WORDS, *EXPLANATIONS)}
    return [without_texts(item) for item in value] if isinstance(value, list) else value


def differences(old: dict[str, Report], new: dict[str, Report]) -> list[str]:
    """Each file that only one side has, and each finding or problem that only one side reports."""
    found = []
    for path in sorted(old.keys() | new.keys()):
        if path not in old or path not in new:
            found.append(f"{'+' if path in new else '-'} {path}: the whole report")
            continue
        if old[path] == new[path]:
            continue
        before, after = (_parts(side[path]) for side in (old, new))
        lines = [f"- {path}:{part}" for part in before if part not in after]
        lines += [f"+ {path}:{part}" for part in after if part not in before]
        found += lines or [f"~ {path}: the same findings in another order"]
    return found


def _parts(report: Report) -> list[str]:
    rest = {key: value for key, value in report.items() if key != "findings"}
    lines = [f" {json.dumps(rest, sort_keys=True)}"]
    for finding in report["findings"]:
        lines.append(f"{finding['line']}: {finding['id']} {json.dumps(finding, sort_keys=True)}")
    return lines


def _load(path: Path) -> dict[str, Report]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return dict(json.loads(line) for line in file)


def _save(path: Path, reports: dict[str, Report]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(item) + "\n" for item in reports.items())


def _say(found: list[str], files: int) -> int:
    for line in found:
        print(line[:400])
    print(f"{files} files, {len(found)} differences" if found else f"{files} files, the same reports")
    return 1 if found else 0


def main(arguments: list[str] | None = None) -> int:
    """Record, compare, or try orders; the exit status."""
    parser = command_line("benchmarks.same", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("record", "orders"):
        command = commands.add_parser(name)
        if name == "record":
            command.add_argument(
                "--oracle", action="store_true", help="verdicts, replays, proofs and launches too"
            )
            command.add_argument("file", type=Path)
        command.add_argument("paths", nargs="*", type=Path)
    command = commands.add_parser("compare")
    command.add_argument("old", type=Path)
    command.add_argument("new", type=Path)
    command.add_argument("--without-texts", action="store_true")
    options = parser.parse_args(arguments)
    if options.command == "compare":
        old, new = _load(options.old), _load(options.new)
        if options.without_texts:
            old, new = without_texts(old), without_texts(new)
        return _say(differences(old, new), len(old.keys() | new.keys()))
    paths, absent = (options.paths, []) if options.paths else default_paths()
    _say_what_is_recorded(paths, absent)
    if options.command == "record":
        usual = record(paths, oracle=options.oracle)
        if options.oracle:
            usual |= {f"launch {name}": {"observed": lines, "findings": []} for name, lines in launches()}
        _save(options.file, usual)
        print(f"{len(usual)} files")
        return 0
    usual = record(paths)
    print("checks reversed, hash seed 1: ", end="", flush=True)
    return _say(differences(usual, record(paths, "reversed", "1")), len(usual))


if __name__ == "__main__":
    sys.exit(main())
