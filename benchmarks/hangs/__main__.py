"""``python -m benchmarks.hangs``."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import hangs, ptxas, results
from benchmarks.arguments import add_judgement, command_line
from benchmarks.hangs import score


def main(arguments: list[str] | None = None) -> int:
    """Prepares a folder, or reads what came out of it; the exit status."""
    parser = command_line("benchmarks.hangs", hangs.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare", help="plant, compile, list the jobs")
    first.add_argument("folder", type=Path)
    add_judgement(commands, "hangs")
    options = parser.parse_args(arguments)
    if options.command != "prepare":
        return _judge(options.answer if options.command == "collect" else None, options.record)
    with ptxas.needing_ptxas():
        plan = hangs.prepare(options.folder)
    count = sum(job["planted"] for job in plan["jobs"].values())
    print(f"{count} planted deadlocks, {len(plan['refused'])} refused by ptxas: {', '.join(plan['refused'])}")
    print(f"next, where the GPU is: OUT=ANSWER sh {options.folder}/run.sh")
    return 0


def _judge(answer: Path | None, record: bool) -> int:
    """Judges an answer, added to the record, or the record; the exit status."""
    if answer is not None:
        known = results.records().get("hangs")
        data = score.collect(score.read(answer), known["data"] if known is not None else None)
    else:
        data = results.recorded("hangs")["data"]
    score.judge(data)
    print(score.figure(data), "", *score.tables(data), sep="\n")
    if record:
        results.save("hangs", data, {"ptxas": data["ptxas"], "driver": data["driver"]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
