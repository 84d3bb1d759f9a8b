"""How long a person waits: for the start of `tclint check`, for a large module, and for `tclint ptxas`.

    python -m benchmarks.waiting [--runs 5]

Wall seconds of whole commands, the least of some runs each, since other work on the machine only adds to them; and their
CPU seconds. The kernels are those of ``fixtures/kernels``. Of the module, the two outputs must be equal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import processes, results
from benchmarks.arguments import command_line
from benchmarks.grow import concatenated, repeated
from benchmarks.ptxas import PtxasMissing, find
from benchmarks.speed import check_command, process

__all__ = ["main", "module"]

FIXTURES = results.ROOT / "fixtures" / "kernels"
KERNELS = tuple(
    FIXTURES / f"triton-{name}.sm_90.ptx"
    for name in ("descriptors-f16-128x128x64", "attention-descriptors-f16-128x64x64")
)
"""The kernels of the module: 16 of each, with the body of each twice."""
NUMBER = 32
SMALL = FIXTURES / "triton-softmax.sm_90.ptx"
"""A kernel of 20 kB."""
LARGE = FIXTURES / "triton-attention-descriptors-f16-128x64x64.sm_100.ptx"
"""A Triton kernel of 85 kB."""


def module(number: int = NUMBER) -> str:
    """A module of *number* kernels, an even one."""
    sources = [repeated(path.read_bytes(), 2).encode() for path in KERNELS]
    head = ".version 9.4\n.target sm_90a\n.address_size 64\n"
    return concatenated(sources, int((number - 0.5) / len(sources) * sum(map(len, sources))), head)


def least(run: Callable[[], processes.Run], runs: int) -> tuple[float, float]:
    """The least wall and CPU seconds of some runs."""
    done = [run() for _ in range(runs)]
    return min(one.wall for one in done), min(one.cpu for one in done)


def rows(runs: int, folder: Path) -> Iterator[list[str]]:
    """What is run, and its wall and CPU seconds. Raises AssertionError if two outputs differ, and PtxasMissing."""
    many = folder / "module.ptx"
    many.write_text(module())
    check = check_command("--no-cache", "--output-format", "json")
    jobs = {number: [*check, "--jobs", str(number), many] for number in (1, 2)}
    outputs = {number: process(command).output for number, command in jobs.items()}
    assert outputs[1] == outputs[2], "the report depends on the number of processes"
    ptxas = find()
    compile_: list[str | Path] = [
        "-arch",
        ptxas.arch(LARGE.read_bytes()),
        LARGE,
        "-o",
        folder / "kernel.cubin",
    ]
    shim: list[str | Path] = [
        sys.executable,
        "-m",
        "tclint",
        "ptxas",
        "--isolated",
        "--no-cache",
        "--",
        *compile_,
    ]
    commands: dict[str, Sequence[str | Path]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "tclint check of 20 kB": [*check, SMALL],
        "a module of 32 kernels, --jobs 1": jobs[1],
        "a module of 32 kernels, --jobs 2": jobs[2],
        "ptxas, a Triton kernel": [ptxas.path, *compile_],
        "tclint ptxas, the same kernel": shim,
    }
    for name, command in commands.items():
        wall, cpu = least(lambda command=command: process(command), runs)  # type: ignore[misc]
        yield [name, f"{wall:.3f}", f"{cpu:.3f}"]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status."""
    parser = command_line("benchmarks.waiting", __doc__)
    parser.add_argument("--runs", type=int, default=5, help="of each command [default: 5]")
    options = parser.parse_args(arguments)
    try:
        with TemporaryDirectory() as folder:
            print(
                "\n".join(results.table(["command", "wall s", "CPU s"], [*rows(options.runs, Path(folder))]))
            )
    except PtxasMissing as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
