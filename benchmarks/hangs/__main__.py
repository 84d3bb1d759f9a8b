"""``python -m benchmarks.hangs``."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import hangs, ptxas, results
from benchmarks.arguments import command_line
from benchmarks.hangs import score


def main(arguments: list[str] | None = None) -> int:
    """Prepares a folder, or reads what came out of it; the exit status."""
    parser = command_line("benchmarks.hangs", hangs.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare", help="plant, compile, list the jobs")
    first.add_argument("folder", type=Path)
    second = commands.add_parser("collect", help="read an answer and judge it")
    second.add_argument("folder", type=Path)
    third = commands.add_parser("judge", help="judge the hangs of the record again")
    for command in (second, third):
        command.add_argument("--record", action="store_true", help="write the record and the page of results")
    options = parser.parse_args(arguments)
    if options.command != "prepare":
        return _judge(options.folder if options.command == "collect" else None, options.record)
    try:
        plan = hangs.prepare(options.folder)
    except ptxas.PtxasMissing as error:
        print(error, file=sys.stderr)
        return 1
    count = sum(job["planted"] for job in plan["jobs"].values())
    print(f"{count} planted deadlocks, {len(plan['refused'])} refused by ptxas: {', '.join(plan['refused'])}")
    print(f"next, where the GPU is: OUT=ANSWER sh {options.folder}/run.sh")
    return 0


def _judge(answer: Path | None, record: bool) -> int:
    """Judges an answer, added to the record, or the record; the exit status."""
    known = results.records().get("hangs")
    if answer is not None:
        data = score.collect(score.read(answer), known["data"] if known is not None else None)
    elif known is not None:
        data = known["data"]
    else:
        print("no hangs.json: prepare, run and collect first", file=sys.stderr)
        return 1
    score.judge(data)
    print(score.figure(data), "", *score.tables(data), sep="\n")
    if record:
        results.save("hangs", data, {"ptxas": data["ptxas"], "driver": data["driver"]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
