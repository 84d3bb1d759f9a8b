"""Launch each kernel of a folder once under compute-sanitizer, and record what racecheck and synccheck report.

    python sanitize.py FOLDER [--sanitizer compute-sanitizer] [--jobs 8] [--limit 60]

``python -m benchmarks.hardware prepare`` makes FOLDER, with a copy of this file and of ``launch.py``, as ``run.py``,
which it imports. ``sanitizer.jsonl`` in the folder gets a line for the machine and one for each job and tool.

A job that has a mutant launches the mutant alone, so no report about the original is taken for one about the mutant.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import Any

__all__ = ["TOOLS", "main", "reports"]

TOOLS = ("racecheck", "synccheck")
_REPORT = re.compile(
    r"=+ +(?:(?P<severity>Error|Warning): Race reported|Barrier error detected\. (?P<barrier>.+?)\.?$"
    r"|(?P<invalid>Potential invalid \S+ (?:read|write)))"
)


def reports(output: Iterable[str]) -> list[str]:
    """The kinds of reports in the *output* of a tool, sorted."""
    found = set()
    for match in filter(None, map(_REPORT.match, output)):
        kind = match["severity"] and f"race ({match['severity']})"
        found.add((kind or match["barrier"] or match["invalid"]).lower())
    return sorted(found)


def role_of(job: dict[str, Any]) -> str:
    """Which cubin of a job is launched."""
    return "mutant" if "mutant" in job["cubins"] else "original"


def attend(folder: Path, name: str, tool: str, sanitizer: str, limit: float) -> dict[str, Any]:
    """Run a job under *tool* in a process group, and end the group after *limit* seconds."""
    command = [sanitizer, "--tool", tool, sys.executable, __file__, str(folder), "--job", name]
    alone = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=alone,
        start_new_session=True,
    ) as child:
        try:
            output, hung = child.communicate(timeout=limit)[0], False
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            output, hung = child.communicate()[0], True
    return {"job": name, "tool": tool, **outcome(output.splitlines(), hung, child.returncode)}


def outcome(output: list[str], hung: bool, status: int) -> dict[str, Any]:
    """What happened in a launch, as ``run.py`` names it, and what the tool reported."""
    run = importlib.import_module("run")
    events = [json.loads(line) for line in output if line.startswith("{")]
    said = list(run.summary(events, hung, status).values())
    if not said:
        return {"trouble": "no launch" if hung else "\n".join(output)[-500:] or f"exit status {status}"}
    return {"outcome": said[0]["outcome"], "reports": reports(output)}


def main() -> None:
    """Run all jobs of a folder under both tools, or launch one of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--sanitizer", default="compute-sanitizer", help="the program (compute-sanitizer)")
    parser.add_argument("--jobs", type=int, default=8, help="processes at a time (8)")
    parser.add_argument("--limit", type=float, default=60, help="seconds for a launch under a tool (60)")
    options = parser.parse_args()
    run = importlib.import_module("run")
    plan = json.loads((options.folder / "jobs.json").read_text(encoding="utf-8"))
    if options.job:
        job = plan["jobs"][options.job]
        cubins = {role_of(job): job["cubins"][role_of(job)]}
        spec = plan["launches"][job["launch"]]
        run.work(options.folder, spec, cubins, 1, lambda event: print(json.dumps(event), flush=True))
        return

    def results() -> Iterator[dict[str, Any]]:
        said = subprocess.run([options.sanitizer, "--version"], check=True, capture_output=True, text=True)
        version = re.search(r"\d+(\.\d+)+", said.stdout)
        yield run.machine() | {"sanitizer": version[0] if version else "", "limit": options.limit}
        with ThreadPoolExecutor(options.jobs) as pool:
            running = [
                pool.submit(attend, options.folder, name, tool, options.sanitizer, options.limit)
                for tool, name in product(TOOLS, plan["jobs"])
            ]
            yield from (done.result() for done in as_completed(running))

    with (options.folder / "sanitizer.jsonl").open("w", encoding="utf-8") as stream:
        for result in results():
            print(json.dumps(result), file=stream, flush=True)


if __name__ == "__main__":
    main()
