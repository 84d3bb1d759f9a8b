"""What the command lines of the benchmarks share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

__all__ = ["add_judgement", "command_line"]


def command_line(name: str, description: str | None) -> argparse.ArgumentParser:
    """The parser of ``python -m NAME``, whose help shows *description* line by line, as it was written."""
    return argparse.ArgumentParser(
        prog=f"python -m {name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_judgement(commands: Any, subject: str) -> None:
    """Adds the commands ``collect ANSWER``, which reads what came out on another machine, and ``judge``, for the record, to
    the subparsers *commands*; *subject* is what is judged."""
    collect = commands.add_parser("collect", help=f"read an answer and judge the {subject}")
    collect.add_argument("answer", type=Path)
    judge = commands.add_parser("judge", help=f"judge the {subject} of the record again")
    for command in (collect, judge):
        command.add_argument("--record", action="store_true", help="write the record and the page of results")
