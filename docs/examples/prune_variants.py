"""Prune the variants of an autotuner: lint each one in a pool of processes, and keep those without an error or warning.

python prune_variants.py FOLDER

FOLDER is Triton's cache, or any folder with PTX; a .json file beside a variant names its configuration.
"""

import json
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import tclint


def configuration(variant: Path) -> str:
    """``4 warps, 3 stages``, or the name of the variant if it has no metadata."""
    try:
        known = json.loads(variant.with_suffix(".json").read_text())
    except (OSError, ValueError):
        return variant.stem
    return f"{known['name']}, {known['num_warps']} warps, {known['num_stages']} stages"


def findings(variants: list[Path], jobs: int | None = None) -> dict[str, set[str]]:
    """Path -> the rules of the errors and warnings in it. A variant that cannot be analysed has the rule ``failed``."""
    texts = [(str(variant), variant.read_bytes()) for variant in variants]
    with ProcessPoolExecutor(jobs) as executor:
        report = tclint.check_many(texts, executor=executor)
    found = defaultdict(set)
    for file in report.files:
        if file.problems:
            found[file.path].add("failed")
    for finding in report:
        if finding.severity >= tclint.Severity.WARNING:
            # One defect of several variants is one finding, which lists the others.
            for path in (report.position(finding)[0], *(variant.path for variant in finding.variants)):
                found[path].add(finding.rule.id)
    return found


def table(variants: list[Path], found: dict[str, set[str]]) -> str:
    """A row for each configuration, with a column for each rule."""
    rules = sorted(set().union(*found.values()))
    names = [configuration(variant) for variant in variants]
    width = max(map(len, names))
    rows = [[" " * width, *rules]]
    for variant, name in zip(variants, names, strict=True):
        marks = ("x" if rule in found.get(str(variant), ()) else "." for rule in rules)
        rows.append(
            [name.ljust(width), *(mark.center(len(rule)) for mark, rule in zip(marks, rules, strict=True))]
        )
    return "\n".join("  ".join(row).rstrip() for row in rows)


def main(folder: str) -> int:
    variants = sorted(Path(folder).rglob("*.ptx"))
    if not variants:
        print(f"{folder}: there is no .ptx file", file=sys.stderr)
        return 2
    found = findings(variants)
    print(table(variants, found))
    kept = [variant for variant in variants if not found.get(str(variant))]
    print(f"{len(kept)} of {len(variants)} variants are left")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
