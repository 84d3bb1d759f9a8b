"""``tclint hang``: why the threads of a hang wait, from where they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tclint.commands import CLEAN, FINDINGS
from tclint.commands._common import (
    STDIN,
    Choice,
    at,
    color_option,
    max_input_option,
    need_numpy,
    only_source,
    seconds_option,
    source_of,
    use_color,
    write,
)

if TYPE_CHECKING:
    from tclint.executor.launch import LaunchFile
    from tclint.hang.launched import DeadlockedLaunch
    from tclint.hang.machine_code import LineTable
    from tclint.hang.positions import CodePosition
    from tclint.ir.nodes import Module
    from tclint.syntax.source import Source


@click.command()
@click.argument("path", metavar="KERNEL")
@click.option(
    "--at",
    "places",
    multiple=True,
    metavar="POSITIONS",
    help="Where threads are: a line of the PTX (72), of its source (kernel.cu:41), or an offset in the machine code"
    " (kernel+0x1a0); with a number of warps (72x4) or for one warp of a CTA (0:3=72). Several, separated by commas.",
)
@click.option(
    "--from",
    "listing",
    metavar="FILE",
    help="Read the positions from a file, or - for standard input: a list of them, JSON, or what cuda-gdb prints.",
)
@click.option("--entry", metavar="NAME", help="The kernel that hangs, if the positions do not determine it.")
@click.option(
    "--sass",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Output of nvdisasm -gp for the cubin that was launched, to find the lines of offsets. Without it, ptxas"
    " compiles KERNEL again.",
)
@click.option(
    "--launch",
    metavar="FILE",
    help="Launch file, or folder of tclint capture: the shape of the CTAs, and without --at and --from the positions.",
)
@seconds_option("Time limit for each execution of a launch.")
@click.option(
    "--output-format",
    type=Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Text, or JSON as described by docs/hang.schema.json.",
)
@color_option
@max_input_option
def command(
    path: str,
    places: tuple[str, ...],
    listing: str | None,
    entry: str | None,
    sass: Path | None,
    launch: str | None,
    seconds: float,
    output_format: str,
    color: str,
    limit: int,
) -> int:
    """Explain a hang from where its threads are.

    Shows which threads wait for which phase of which barrier, which operations would complete it, where the threads of
    these are, and the cycle of waits with its cause. KERNEL is a PTX file, - for standard input, or a folder that tclint
    capture wrote: without --at and --from, its launch is executed on the CPU until it deadlocks.

    Exit code: 0 explained, 1 not decided, 2 usage error, or positions that do not fit the kernel.
    """
    from tclint.dataflow.solver import LimitExceeded
    from tclint.hang.explain import Hang, chosen, explain
    from tclint.hang.machine_code import MachineCodeError
    from tclint.hang.positions import PositionError
    from tclint.hang.render import render_json, render_text
    from tclint.ir.frontend import analyse
    from tclint.syntax.source import SourceError

    try:
        positions = _positions(places, listing, path)
        name, recorded = (path, None) if path == STDIN else source_of(path, "hang")
        source = only_source(name, limit)
        if recorded is not None:
            entry, launch = entry or recorded.kernel, launch or path
        module, problems = analyse(source)
        function = chosen(source, module, entry, positions)
        if function.damaged:
            raise SourceError(f"{function.name} contains a syntax error", next((p.line for p in problems), 0))
        if wrong := function.flow_errors:
            raise SourceError(wrong[0].message, source.position(function.start + wrong[0].start).line)
        file = _launch(launch) if launch is not None else None
        executed = None
        if not positions:
            executed = _executed(source, module, function.name, file, seconds)
            positions = executed.positions
        table = _table(source, module, sass) if any(p.offset >= 0 for p in positions) else None
        shape = _shape(file, function.name) if file is not None else None
        found = explain(source, module, function, Hang(positions, table, shape, executed))
    except SourceError as error:
        raise click.ClickException(at(path, error)) from None
    except (PositionError, MachineCodeError, LimitExceeded) as error:
        raise click.ClickException(str(error)) from None
    write(render_json(found) if output_format == "json" else render_text(found, use_color(color)))
    return CLEAN if found.decided else FINDINGS


def _positions(places: tuple[str, ...], listing: str | None, path: str) -> list[CodePosition]:
    """The positions of the command line. Raises PositionError."""
    from tclint.hang.debugger import read
    from tclint.hang.positions import listed, merged

    found = [position for text in places for position in listed(text)]
    if listing is not None:
        if listing == STDIN == path:
            raise click.UsageError("standard input cannot be both KERNEL and the list of positions.")
        try:
            with click.open_file(listing, encoding="utf-8", errors="replace") as file:
                found += read(file.read())
        except OSError as error:
            raise click.ClickException(f"{listing}: {error.strerror}") from None
    return merged(found)


def _table(source: Source, module: Module, sass: Path | None) -> LineTable:
    """The lines of the machine code. Raises MachineCodeError."""
    from tclint.hang.machine_code import MachineCodeError, assembled, parsed

    if sass is not None:
        return parsed(sass.read_text(encoding="utf-8", errors="replace"))
    if module.target is None:
        raise MachineCodeError("the PTX names no target")
    return assembled(source.data, str(module.target))


def _launch(path: str) -> LaunchFile:
    """The launch file, or the recorded launch, at *path*. Raises ClickException."""
    need_numpy()
    from tclint.executor.launch import LaunchError
    from tclint.executor.recorded import read

    try:
        return read(path)
    except LaunchError as error:
        raise click.ClickException(str(error)) from None


def _executed(
    source: Source, module: Module, kernel: str, file: LaunchFile | None, seconds: float
) -> DeadlockedLaunch:
    """The execution of a launch that deadlocks in *kernel*. Raises UsageError, ClickException, PositionError."""
    if file is None:
        raise click.UsageError(
            "no position is given: use --at or --from, or --launch for a launch that deadlocks when it is executed."
        )
    from tclint.executor.errors import Unsupported
    from tclint.executor.launch import LaunchError
    from tclint.hang.launched import execute

    try:
        return execute(source, module, kernel, file, seconds)
    except (LaunchError, Unsupported) as error:
        raise click.ClickException(str(error)) from None


def _shape(file: LaunchFile, kernel: str) -> tuple[int, ...]:
    """The shape of the CTAs of *kernel* in a launch file. Raises ClickException."""
    launches = [found for found in file.launches if found.entry == kernel]
    if not launches:
        raise click.ClickException(f"{file.path} does not launch {kernel}")
    return launches[0].block
