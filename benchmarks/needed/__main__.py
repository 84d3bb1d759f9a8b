"""``python -m benchmarks.needed``."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import needed, ptxas, results
from benchmarks.arguments import add_judgement, command_line
from benchmarks.needed import score


def main(arguments: list[str] | None = None) -> int:
    """Prepares a folder, or reads what came out of it; the exit status."""
    parser = command_line("benchmarks.needed", needed.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare", help="change, compile, list the jobs")
    first.add_argument("folder", type=Path)
    add_judgement(commands, "instructions")
    options = parser.parse_args(arguments)
    if options.command == "prepare":
        with ptxas.needing_ptxas():
            plan = needed.prepare(options.folder)
        print(
            f"{len(plan['jobs'])} jobs; next, where the GPU is: python3 {options.folder}/launcher.py ANSWER"
        )
        return 0
    if options.command == "collect":
        data, skipped = score.collect(options.answer)
    else:
        known = results.recorded("needed")
        data, skipped = known["data"], known["skipped"]
    score.judge(data)
    print(score.figure(data), "", *score.tables(data), sep="\n")
    print(*skipped, sep="\n", file=sys.stderr)
    if options.record:
        results.save("needed", data, {"ptxas": data["ptxas"], "driver": data["driver"]}, skipped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
