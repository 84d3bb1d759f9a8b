"""``tclint cache``: what is kept of earlier runs."""

from __future__ import annotations

import os

import click

from tclint.commands import CLEAN
from tclint.commands._common import write


@click.command()
@click.option("--clear", is_flag=True, help="Remove all results, and the counts of lookups.")
@click.option(
    "--add", metavar="FOLDER", multiple=True, help="Add the results in another cache folder; may be repeated."
)
@click.option("--folder", "only_folder", is_flag=True, help="Print the folder only.")
def command(clear: bool, add: tuple[str, ...], only_folder: bool) -> int:
    """Show, clear or merge the results of earlier runs.

    check, baseline, ptxas, lsp and the pytest plugin reuse the results for inputs, settings and a tclint that are the same;
    --no-cache turns that off. TCLINT_CACHE_DIR gives another folder, TCLINT_CACHE_SIZE another limit in MiB, and
    TCLINT_NO_CACHE=1 turns the cache off.

    After jobs that each checked a part of the files (check --shard), --add merges their results: a check of all files then
    makes the report of a run that was not divided.

    Exit code: 0 done, 2 usage error, or results that could not be removed or added.
    """
    from tclint.cache.results import store
    from tclint.report.formats._style import printable
    from tclint.report.summary import count

    if clear + bool(add) + only_folder > 1:
        raise click.UsageError("Only one of --clear, --add and --folder can be used.")
    found = store()
    if found is None:
        raise click.ClickException("there is no home folder; set TCLINT_CACHE_DIR")
    if only_folder:
        write(f"{found.folder}\n")
        return CLEAN
    for folder in add:
        if not os.path.isdir(folder):
            raise click.UsageError(f"--add: {folder} is not a folder.")
        added, problem = found.add(folder)
        write(f"Added {count(added, 'file')} of {printable(folder)}.\n")
        if problem:
            raise click.ClickException(problem)
    if add:
        return CLEAN
    content = found.content()
    if clear:
        if problem := found.clear():
            raise click.ClickException(problem)
        write(f"Removed {count(content.entries, 'file')}.\n")
        return CLEAN
    hits, misses = found.lookups()
    share = f" ({hits / (hits + misses):.0%})" if hits + misses else ""
    write(
        f"folder   {printable(found.folder)}\n"
        f"files    {content.entries:,}\n"
        f"size     {content.size / 2**20:,.1f} of {found.limit / 2**20:,.0f} MiB\n"
        f"hits     {hits:,} of {hits + misses:,} lookups{share}\n"
    )
    return CLEAN
