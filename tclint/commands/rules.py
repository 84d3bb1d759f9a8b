"""``tclint rules``: a list of the rules."""

from __future__ import annotations

import sys

import click

from tclint.commands import CLEAN
from tclint.commands._common import Choice, complete_rules, usage, width, write


@click.command()
@click.argument("selectors", nargs=-1, metavar="[RULES]...", shell_complete=complete_rules)
@click.option(
    "--output-format",
    type=Choice(("text", "markdown")),
    default="text",
    show_default=True,
    help="One line per rule, or one table per family.",
)
def command(selectors: tuple[str, ...], output_format: str) -> int:
    """List all rules, or some by id, name, family or id prefix."""
    from tclint.findings.rules import UnknownRule, all_rules
    from tclint.findings.selection import meant
    from tclint.inspect.explain import rule_list, rules_table

    try:
        wanted = frozenset().union(*(meant(selector)[0] for selector in selectors or ("ALL",)))
    except UnknownRule as error:
        raise usage(error) from None
    found = [rule for id, rule in all_rules().items() if id in wanted]
    # Lines for other programs stay whole.
    columns = width() if sys.stdout.isatty() else None
    write(rules_table(found) if output_format == "markdown" else rule_list(found, columns))
    return CLEAN
