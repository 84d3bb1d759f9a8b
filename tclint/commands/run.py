"""``tclint run``: execute a kernel."""

from __future__ import annotations

import click

from tclint.commands._common import Choice, at, need_numpy, write


@click.command()
@click.argument("path", metavar="KERNEL")
@click.option(
    "--launch", metavar="FILE", help="How the kernel is launched; by default KERNEL.launch.toml beside it."
)
@click.option("--entry", metavar="NAME", help="The entry to launch, where no launch file says it.")
@click.option(
    "--schedule",
    default="lazy",
    show_default=True,
    metavar="NAME",
    help="When asynchronous operations complete: eager, lazy (as late as the ISA allows) or random:SEED.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    help="The longest a launch may take.",
)
@click.option(
    "--number",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the run; random inputs depend on it.",
)
@click.option("--trace", metavar="FILE", help="Write what every warp did, for Perfetto or chrome://tracing.")
@click.option(
    "--output-format",
    type=Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Lines, or an object.",
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

    KERNEL is a PTX file. Asynchronous operations complete as late as the ISA allows, so that a missing wait, fence or
    barrier shows; what a GPU would do without a word is reported.

    Exit code: 0 it ended and nothing wrong was seen; 1 something was, or it hung; 2 usage error, or it stopped: an
    address out of bounds, a trap, an instruction that cannot be executed, no end in time.
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
