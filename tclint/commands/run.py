"""``tclint run``: execute a kernel."""

from __future__ import annotations

import click

from tclint.commands._common import Choice, at, need_numpy, write


@click.command()
@click.argument("path", metavar="KERNEL")
@click.option(
    "--launch",
    metavar="FILE",
    help="Launch file that describes the launch; by default KERNEL.launch.toml beside it.",
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
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    help="Time limit of each launch.",
)
@click.option(
    "--number",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Run number; seeds random inputs.",
)
@click.option(
    "--trace", metavar="FILE", help="Write a trace of every warp, for Perfetto or chrome://tracing."
)
@click.option(
    "--output-format",
    type=Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Format of the report.",
)
def command(
    path: str,
    launch: str | None,
    entry: str | None,
    schedule: str,
    seconds: float,
    number: int,
    trace: str | None,
    output_format: str,
) -> int:
    """Execute a kernel on the CPU.

    KERNEL is a PTX file. Asynchronous operations complete as late as the ISA allows, which exposes missing waits,
    fences and barriers. Violations that a GPU executes silently are reported.

    Exit code: 0 the kernel ran to completion with no observation; 1 there was an observation, a deadlock or a result
    other than the launch file expects; 2 usage error, or the kernel was stopped: an address out of bounds, a trap, an instruction that cannot be executed, or the
    time limit.
    """
    from pathlib import Path

    from tclint.syntax.source import Source, SourceError

    need_numpy()
    from tclint.commands._run import Options, RunError, render_json, render_text, run

    try:
        source = Source.read(path)
        options = Options(
            Path(launch) if launch else None, entry, schedule, seconds, number, Path(trace) if trace else None
        )
        result = run(source, options)
    except SourceError as error:
        raise click.ClickException(at(path, error)) from None
    except RunError as error:
        raise click.ClickException(str(error)) from None
    write(render_json(result) if output_format == "json" else render_text(result))
    return result.code
