"""How many machine instructions does a run of ``tclint check`` retire, from the start of Python to its end?

    python -m benchmarks.instructions [--update]

Callgrind counts them, so the start, the imports and everything native (tree-sitter, sets, sorting) are included, and a
busy machine changes nothing. Each of a few fixtures is linted in a process of its own, without the cache; one of them is
linted again with it. The counts are held against ``records/instructions.json``: more than a few per cent above it is a
failure. ``--update`` records the counts of now.

A count depends on how CPython, the C library and the dependencies were built. The record names them, and on a machine
with others nothing is compared. Exit status 1 where valgrind is missing.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.arguments import command_line
from benchmarks.results import RECORDS, ROOT
from benchmarks.speed import check_command

__all__ = ["CASES", "compare", "counts", "main", "surroundings"]

RECORD = RECORDS / "instructions.json"
TOLERANCE = 0.03
"""By what share a count may exceed the recorded one."""
TIMEOUT_S = 600
"""Of one run; callgrind takes about fifty times as long as the processor."""
CASES: Mapping[str, str] = {
    "start": "kernels/nvcc-grids.sm_90.ptx",
    "wgmma, a finding": "wgmma_unwaited.ptx",
    "wgmma": "kernels/triton-descriptors-f16-128x128x64.sm_90.ptx",
    "tcgen05": "kernels/nvcc-tcgen05_gemm.sm_100a.ptx",
}
"""What is counted: name, and the fixture."""
REPEATED = "tcgen05"
"""The case that is counted a second time, when its report is in the cache."""

_COLLECTED = re.compile(r"^==\d+== Collected : (\d+)$", re.MULTILINE)


def _run(fixture: str, folder: Path, *options: str, under: Sequence[str] = ()) -> str:
    """What linting *fixture* writes to standard error; *folder* has the cache and Python's compiled modules.

    Raises ValueError when the run fails.
    """
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "TCLINT_"))}
    done = subprocess.run(
        [*under, *check_command("--jobs", "1", *options, ROOT / "fixtures" / fixture)],
        env={
            **kept,
            "PYTHONPATH": str(ROOT),
            "PYTHONHASHSEED": "0",
            "PYTHONPYCACHEPREFIX": str(folder / "modules"),
            "TCLINT_CACHE_DIR": str(folder / "reports"),
        },
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise ValueError(f"{fixture}: exit status {done.returncode}: {done.stderr[-1000:]}")
    return done.stderr


def _count(fixture: str, folder: Path, *options: str) -> int:
    """The instructions that linting *fixture* retires. Raises ValueError when the run fails."""
    said = _run(
        fixture, folder, *options, under=("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
    )
    collected = _COLLECTED.search(said)
    if collected is None:
        raise ValueError(f"{fixture}: callgrind gives no count: {said[-1000:]}")
    return int(collected[1])


def counts() -> dict[str, int]:
    """The count of each case. Raises ValueError when a run fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for fixture in CASES.values():
            _run(fixture, folder)  # Python compiles the modules, and the report is in the cache
        found = {case: _count(fixture, folder, "--no-cache") for case, fixture in CASES.items()}
        found[f"{REPEATED}, again"] = _count(CASES[REPEATED], folder)
    return found


def surroundings() -> dict[str, str]:
    """What decides a count besides tclint."""
    said = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "CPython": f"{platform.python_version()}, {platform.python_compiler()}",
        "C library": " ".join(platform.libc_ver()),
        "valgrind": said.strip(),
        **{name: version(name) for name in ("click", "tree-sitter")},
    }


def compare(recorded: Mapping[str, int], now: Mapping[str, int]) -> Iterator[tuple[bool, str]]:
    """For each case, whether it is a failure, and words for it."""
    for name in sorted(recorded.keys() ^ now.keys()):
        yield True, f"{name}: is in the record or in the run only; --update the record"
    for name in recorded.keys() & now.keys():
        by = now[name] / recorded[name] - 1
        yield by > TOLERANCE, f"{name}: {now[name] / 1e6:,.0f} million instructions, {by:+.1%} of the record"


def main(arguments: list[str] | None = None) -> int:
    """Compare with the record, or make it; the exit status."""
    parser = command_line("benchmarks.instructions", __doc__)
    parser.add_argument("--update", action="store_true", help="record the counts of now")
    options = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        print("Error: valgrind is not installed", file=sys.stderr)
        return 1
    around = surroundings()
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
    if not options.update and record.get("surroundings") != around:
        recorded = record.get("surroundings", {})
        others = [name for name in around if recorded.get(name) != around[name]]
        print(f"nothing is compared: the record is of another {', '.join(others)}")
        return 0
    try:
        now = counts()
    except (ValueError, subprocess.TimeoutExpired) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    if options.update:
        record = {"surroundings": around, "counts": now}
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    failed = False
    for failure, message in compare(record["counts"], now):
        failed |= failure
        print(message)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
