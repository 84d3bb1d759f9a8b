"""What the command lines of the benchmarks share."""

from __future__ import annotations

import argparse

__all__ = ["command_line"]


def command_line(name: str, description: str | None) -> argparse.ArgumentParser:
    """The parser of ``python -m NAME``, whose help shows *description* line by line, as it was written."""
    return argparse.ArgumentParser(
        prog=f"python -m {name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
