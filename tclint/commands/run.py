"""``tclint run``: execute a kernel."""

from __future__ import annotations

import click

from tclint.commands._common import Choice, at, max_input_option, need_numpy, seconds_option, source_of, write


@click.command()
@click.argument("path", metavar="KERNEL")
@click.option(
    "--launch",
    metavar="FILE",
    help="Launch file, or folder of tclint capture; by default KERNEL.launch.toml beside it.",
)
@click.option("--entry", metavar="NAME", help="Entry to launch if there is no launch file.")
@click.option(
    "--schedule",
    default="lazy",
    show_default=True,
    metavar="NAME",
    help="When asynchronous operations complete: eager, lazy (as late as the ISA allows) or random:SEED; several"
    " separated by commas.",
)
@seconds_option("Time limit of each launch.")
@click.option(
    "--number",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Run number; seeds random inputs.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    metavar="NUMBER",
    help="Largest difference from an expected value, times that value if it is larger than 1; 0 is exact. Without it, what "
    "rounding to the type of the elements explains.",
)
@click.option(
    "--type",
    "element_type",
    metavar="NAME",
    help="Type of the values, such as bf16, as which the results of a recorded launch are compared. Without it, "
    "those that the kernel stores, where all stores through a pointer have one floating-point type, else bytes.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Treat what check reports as a note, since no hardware was seen to get it wrong, as a violation that hides data.",
)
@click.option(
    "--trace", metavar="FILE", help="Write a trace of every warp, for Perfetto or chrome://tracing."
)
@click.option(
    "--count",
    is_flag=True,
    help="Count what each line costs: executions, wavefronts of shared memory, sectors of global memory, and the fewest"
    " possible.",
)
@click.option(
    "--outputs",
    metavar="FOLDER",
    help="Write the outputs that the launch file names to this folder, over earlier outputs only; else to none.",
)
@click.option(
    "--output-format",
    type=Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Format of the report.",
)
@max_input_option
def command(
    path: str,
    launch: str | None,
    entry: str | None,
    schedule: str,
    seconds: float,
    number: int,
    tolerance: float | None,
    element_type: str | None,
    strict: bool,
    trace: str | None,
    count: bool,
    outputs: str | None,
    output_format: str,
    limit: int,
) -> int:
    """Execute a kernel on the CPU.

    KERNEL is a PTX file, or a folder that tclint capture wrote, whose results are compared with those of the GPU.
    Asynchronous operations complete as late as the ISA allows, which exposes missing waits,
    fences and barriers. Violations that a GPU executes silently are reported.

    Exit code: 0 the kernel ran to completion with no observation but notes; 1 there was an observation, a deadlock or a result
    other than the launch file or the GPU has; 2 usage error, or the kernel was stopped: an address out of bounds, a trap,
    an instruction that cannot be executed, or the time limit.
    """
    from pathlib import Path

    from tclint.syntax.source import Source, SourceError

    need_numpy()
    from tclint.commands._run import RunError, RunOptions, render_json, render_text, run
    from tclint.executor.launch import TYPES

    if element_type and element_type not in TYPES:
        raise click.UsageError(f"--type takes one of {', '.join(TYPES)}.")
    try:
        ptx, recorded = source_of(path, "run")
        source = Source.read(ptx, limit)
        folder = None if recorded is None else recorded.path
        options = RunOptions(
            Path(launch) if launch else folder, entry, schedule, seconds, number, trace,
            Path(outputs) if outputs else None,
            tolerance, count, strict, element_type or "",
        )  # fmt: skip
        result = run(source, options)
    except SourceError as error:
        raise click.ClickException(at(path, error)) from None
    except RunError as error:
        raise click.ClickException(str(error)) from None
    write(render_json(result) if output_format == "json" else render_text(result))
    return result.code
