"""``tclint capture``: record a launch of a running program."""

from __future__ import annotations

import re

import click

from tclint.commands import CLEAN, FAILURE
from tclint.commands._common import seconds_option, write, write_notes

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class _Bytes(click.ParamType[int]):
    """A number of bytes: ``4096``, ``512M``, ``2GiB``."""

    name = "bytes"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+)\s*([KMG]?)(?:i?B)?", str(value), re.IGNORECASE)
        if found is None:
            self.fail(f"{value!r} is not a number of bytes such as 4096, 512M or 2GiB", param, ctx)
        return int(found[1]) * _UNITS[found[2].upper()]


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("program", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- PROGRAM...")
@click.option(
    "--kernel", default="*", show_default=True, metavar="GLOB", help="Name of the kernel; a pattern."
)
@click.option(
    "--nth",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Which launch to record, of those with such a name.",
)
@click.option(
    "--limit",
    type=_Bytes(),
    default="1GiB",
    show_default=True,
    help="Record at most this much memory; K, M and G are units.",
)
@seconds_option(
    "A launch that takes longer hangs: it is recorded without results, and the program is ended.",
    default=10.0,
)
@click.option(
    "--output", default="tclint.capture", show_default=True, metavar="FOLDER", help="Folder to create."
)
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="Print the names of the kernels that PROGRAM launches, and record none.",
)
def command(
    program: tuple[str, ...], kernel: str, nth: int, limit: int, seconds: float, output: str, listing: bool
) -> int:
    """Record one launch of a kernel in a program.

    Runs PROGRAM, and records the launch with its grid, parameters, tensor maps and memory, before and after it, into a
    folder that tclint run and tclint check --launch accept. Needs a C compiler and the headers and library of CUPTI
    (pip install 'tclint-ptx[capture]', or a CUDA toolkit).

    Exit code: 0 the launch was recorded; 2 usage error, or something was not recorded, which is named.
    """
    from pathlib import Path

    from tclint.injection.build import CaptureError
    from tclint.injection.program import Wanted, launched, record
    from tclint.report.formats._style import printable

    try:
        if listing:
            names, in_graphs = launched(program)
            write("".join(f"{printable(name)}\n" for name in names))
            write_notes([f"{name}: launched by a CUDA graph, which cannot be recorded" for name in in_graphs])
            return CLEAN
        found = record(program, Path(output), Wanted(kernel, nth, limit, seconds))
    except CaptureError as error:
        raise click.ClickException(str(error)) from None
    launch = found.launch
    buffers = [b for b in launch["buffers"] if "before" in b]
    size = sum(b["size"] for b in buffers) / 2**20
    write(
        printable(
            f"{output}: launch {nth} of {launch['kernel']}, {len(buffers)} allocations, {size:.1f} MiB;"
            f" PTX: {launch.get('ptx_origin', 'not found')}"
        )
        + "\n"
    )
    notes = []
    if launch["end"] == "unfinished":
        notes.append(
            f"{output}: note: the kernel did not end within {seconds:g} s; its results are not recorded"
        )
    elif launch["end"] != "done":
        notes.append(f"{output}: note: the launch failed with {launch['end']}; its results are not recorded")
    if found.code:
        notes.append(f"{output}: note: the program ended with exit code {found.code}")
    write_notes([*notes, *(f"{output}: {problem}" for problem in found.problems)])
    return FAILURE if found.problems else CLEAN
