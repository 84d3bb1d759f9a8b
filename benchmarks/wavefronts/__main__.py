"""``python -m benchmarks.wavefronts``."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import ptxas, wavefronts
from benchmarks.arguments import command_line


def main(arguments: list[str] | None = None) -> int:
    """Prepares a folder for the launcher; the exit status."""
    parser = command_line("benchmarks.wavefronts", wavefronts.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare", help="compile the kernels, and count what each case should take")
    first.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    with ptxas.needing_ptxas():
        cases = wavefronts.prepare(options.folder)
    print(f"{len(cases)} cases; next, where the GPU is: python3 {options.folder}/launcher.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
