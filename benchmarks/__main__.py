"""How true and how fast is tclint? Everything, one part after the other, into ``docs/results.md``.

    python -m benchmarks [PART...] [--slice]

Each part is the command that ``docs/results.md`` names, in a process of its own; the order is that of the page, and the
first one builds the corpus. What cannot be measured here (no ptxas, no network, no GPU) costs its part alone, and the
page says why. ``--slice`` takes a few kernels of ``fixtures/`` for each part that can, records nothing, and needs
minutes: that is what CI runs.
"""

from __future__ import annotations

import importlib
import os
import shlex
import subprocess
import sys
import tempfile
import time

from benchmarks import results
from benchmarks.arguments import command_line

__all__ = ["main", "run"]


def run(command: str) -> str:
    """Run ``python -m … && python -m …`` from the root of the checkout, with what it prints; why it failed, or ""."""
    for step in command.split(" && "):
        _, *arguments = shlex.split(step)
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=results.ROOT,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(results.ROOT), os.environ.get("PYTHONPATH", "")]),
            },
        )
        last = ""
        assert process.stderr is not None
        with process:
            for line in process.stderr:
                sys.stderr.write(line)
                last = line.strip() or last
        if process.returncode:
            return f"`{step}` ended with status {process.returncode}" + (f": {last}" if last else "")
    return ""


def main(arguments: list[str] | None = None) -> int:
    """Measure the parts that were asked for; 1 if one of them could not be."""
    parser = command_line("benchmarks", __doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(results.PARTS)}; default: all"
    )
    parser.add_argument("--slice", action="store_true", help="a few kernels, and no record")
    options = parser.parse_args(arguments)
    if unknown := [part for part in options.parts if part not in results.PARTS]:
        parser.error(f"no part is called {unknown[0]}: {', '.join(results.PARTS)}")
    failed = []
    for name, module in results.PARTS.items():
        if options.parts and name not in options.parts:
            continue
        part: results.Part = importlib.import_module(module)
        command = part.SLICE if options.slice else part.COMMAND
        if not command:
            continue
        began = time.monotonic()
        print(f"\n== {part.TITLE}: {command}", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            why = run(command.replace("{scratch}", scratch))
        if why:
            failed.append(name)
            if not options.slice:
                results.skip(name, why)
        print(f"-- {name}: {why or 'done'}, {time.monotonic() - began:.0f} s", flush=True)
    if failed:
        print(f"not measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
