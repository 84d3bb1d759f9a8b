"""``tclint verdict``: what is known of each class of hazards in each kernel, and why."""

from __future__ import annotations

import os
from functools import partial

import click

from tclint.commands import CLEAN, FAILURE
from tclint.commands._common import Choice, need_numpy, usage, use_color, write
from tclint.commands._kernels import kernel_options, shown_of
from tclint.findings.verdicts import HazardClass


@click.command()
@kernel_options("docs/verdicts.schema.json")
@click.option(
    "--class",
    "classes",
    type=Choice([hazard.value for hazard in HazardClass]),
    multiple=True,
    help="Show only this class of hazards; may be repeated.",
)
@click.option(
    "--assume",
    multiple=True,
    metavar="NAMES",
    help="What proofs may take for granted, by default everything; none refuses every assumption.",
)
@click.option(
    "--what-if",
    multiple=True,
    metavar="FACT",
    help="Show what would be known if FACT is true of the launches: a name for --assume, reqntid=X,Y,Z, PARAMETER=NUMBER,"
    " PARAMETER=PARAMETER, or a launch file, which is executed; may be repeated.",
)
@click.option("--all", "every", is_flag=True, help="Print each obligation, also those that are proved.")
def command(
    paths: tuple[str, ...],
    entry: tuple[str, ...],
    stdin_filename: str | None,
    output_format: str,
    color: str,
    limit: int,
    classes: tuple[str, ...],
    assume: tuple[str, ...],
    what_if: tuple[str, ...],
    every: bool,
) -> int:
    """Show what is proved of a kernel, and what is not.

    Each class that the kernel uses is violated, proved, bounded or unknown. Below it are the launches for which it is
    bounded, the reasons why it is unknown, and the obligations that nothing is known to discharge, which are counted if they
    differ in their lines alone. --all prints each obligation with what discharges it, for those who want to check a proof
    by hand. An unknown class names a fact about launches that proves it, if one is found; --what-if shows what a fact would
    prove. KERNEL is a PATH as for check.

    Exit code: 0 shown, 2 usage error, or an input that could not be analysed.
    """
    from tclint.findings.requirements import assumptions, of_proofs
    from tclint.inspect.verdicts import render_json, render_text, show
    from tclint.inspect.what_if import supposed

    try:
        assumed = of_proofs(assumptions(assume) if assume else None)
    except ValueError as error:
        raise usage(f"--assume: {error}") from None
    if any(map(os.path.exists, what_if)):
        need_numpy()
    try:
        given = supposed(what_if) if what_if else None
    except ValueError as error:
        raise usage(f"--what-if: {error}") from None
    hazards = frozenset(map(HazardClass, classes))
    judge = partial(show, assume=assumed, hazards=hazards, what_if=given)
    shown = shown_of(judge, paths, entry, stdin_filename, limit)
    if output_format == "json":
        write(render_json(shown))
    else:
        write(render_text(shown, use_color(color), every))
    return FAILURE if any(one.problems for one in shown) else CLEAN
