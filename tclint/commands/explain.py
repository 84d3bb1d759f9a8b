"""``tclint explain``: the page of a rule."""

from __future__ import annotations

import click

from tclint.commands import CLEAN
from tclint.commands._common import Choice, complete_rules, usage, width, write


@click.command()
@click.argument("rules", nargs=-1, metavar="RULE...", shell_complete=complete_rules)
@click.option("--all", "every", is_flag=True, help="Show the pages of all rules.")
@click.option(
    "--output-format",
    type=Choice(("markdown", "json")),
    default="markdown",
    show_default=True,
    help="Output format.",
)
@click.option("--short", is_flag=True, help="Show only what a rule finds and what to write instead.")
def command(rules: tuple[str, ...], every: bool, output_format: str, short: bool) -> int:
    """Show the documentation of RULE, an id such as WG001 or a name."""
    from tclint.findings.rules import UnknownRule, all_rules, find
    from tclint.inspect import explain as texts

    if every == bool(rules):
        raise click.UsageError(
            "Name at least one rule, or use --all." if not every else "--all cannot be combined with rules."
        )
    try:
        found = list(all_rules().values()) if every else [find(rule) for rule in rules]
    except UnknownRule as error:
        raise usage(error) from None
    if short:
        if output_format == "json":
            raise click.UsageError(
                "--short cannot be combined with --output-format json, which has the summary."
            )
        write(texts.rules_short(found, width()))
    else:
        write(texts.rules_json(found) if output_format == "json" else texts.rules_markdown(found))
    return CLEAN
