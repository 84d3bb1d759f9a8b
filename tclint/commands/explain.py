"""``tclint explain``: the page of a rule."""

from __future__ import annotations

import click

from tclint.commands import CLEAN
from tclint.commands._common import Choice, complete_rules, usage, write


@click.command()
@click.argument("rules", nargs=-1, metavar="RULE...", shell_complete=complete_rules)
@click.option("--all", "every", is_flag=True, help="The pages of all rules.")
@click.option(
    "--output-format",
    type=Choice(("markdown", "json")),
    default="markdown",
    show_default=True,
    help="Their form.",
)
def command(rules: tuple[str, ...], every: bool, output_format: str) -> int:
    """Show the page of RULE, an id such as WG001 or a name."""
    from tclint.findings.rules import UnknownRule, all_rules, find
    from tclint.inspect import explain as texts

    if every == bool(rules):
        raise click.UsageError(
            "Name rules, or give --all." if not every else "--all contradicts naming rules."
        )
    try:
        found = list(all_rules().values()) if every else [find(rule) for rule in rules]
    except UnknownRule as error:
        raise usage(error) from None
    write(texts.rules_json(found) if output_format == "json" else texts.rules_markdown(found))
    return CLEAN
