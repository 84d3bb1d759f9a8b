"""``tclint explain``: the page of a rule, of a remark of ptxas, or of an error of the driver."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from tclint._read import MAX_BYTES
from tclint.commands import CLEAN, FAILURE
from tclint.commands._common import Choice, at, complete_rules, only_source, usage, width, write

if TYPE_CHECKING:
    from tclint.findings.rules import Rule
    from tclint.isa.diagnostics import Diagnostic

    _Named = Rule | Diagnostic | tuple[Rule, ...]
    """What a word stands for: one of them, or the rules of a family."""


@click.command()
@click.argument("rules", nargs=-1, metavar="RULE... [KERNEL]...", shell_complete=complete_rules)
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
    """Show the documentation of RULE, an id such as WG001 or a name. For a family, such as wgmma, its rules are listed.

    RULE may also be a code that ptxas prints, such as C7510, or an error of the CUDA driver, by number or name, such as
    222 or CUDA_ERROR_MISALIGNED_ADDRESS: what it means, what causes it, and which rules look for that.

    After these, a KERNEL is a PTX file in which these rules are checked, so that their findings show where it is; for 222,
    the oldest driver that compiles the file is shown.

    Exit code: 0 shown, 2 usage error, or a KERNEL that could not be analysed.
    """
    if every == bool(rules):
        raise click.UsageError(
            "Name at least one rule, or use --all." if not every else "--all cannot be combined with rules."
        )
    if short and output_format == "json":
        raise click.UsageError("--short cannot be combined with --output-format json, which has the summary.")
    found, kernels = _named(rules, every)
    if kernels and output_format == "json":
        raise click.UsageError("A KERNEL cannot be combined with --output-format json: use tclint check.")
    write(_pages(found, output_format, short))
    return max((_places(found, kernel) for kernel in kernels), default=CLEAN)


def _named(words: Sequence[str], every: bool) -> tuple[list[_Named], list[str]]:
    """The rules, families and diagnostics that *words* name, and the files after them."""
    from tclint.findings.rules import UnknownRule, all_rules, find
    from tclint.isa.diagnostics import diagnostic, diagnostics

    if every:
        return list(all_rules().values()), []
    found: list[_Named] = []
    kernels: list[str] = []
    for word in words:
        known = diagnostic(word) or tuple(r for r in all_rules().values() if r.family == word.lower())
        try:
            found.append(known or find(word))
        except UnknownRule as error:
            if found and (os.path.exists(word) or os.path.splitext(word)[1]):
                kernels.append(word)
            elif os.path.isfile(word):
                raise click.UsageError(f"Name a rule before the file {word}.") from None
            elif re.fullmatch(r"[cC]?\d{3,5}", word):
                codes = list(diagnostics())
                raise usage(LookupError(f"unknown code {word}; known are {', '.join(codes)}")) from None
            else:
                raise usage(error) from None
    return found, kernels


def _each(found: Sequence[_Named]) -> Iterator[Rule | Diagnostic]:
    """The rules of families among the others."""
    for one in found:
        yield from one if isinstance(one, tuple) else (one,)


def _pages(found: Sequence[_Named], output_format: str, short: bool) -> str:
    from tclint._json import to_json
    from tclint.findings.rules import Rule
    from tclint.inspect import diagnostics as codes
    from tclint.inspect import explain as texts

    if output_format == "json":
        return to_json(
            [
                texts.rule_json(one) if isinstance(one, Rule) else codes.diagnostic_json(one)
                for one in _each(found)
            ]
        )
    page = [
        texts.rule_list(one, width())
        if isinstance(one, tuple)
        else (texts.rules_short((one,), width()) if short else texts.rules_markdown((one,)))
        if isinstance(one, Rule)
        else (codes.diagnostic_short(one) if short else codes.diagnostic_markdown(one))
        for one in found
    ]
    return "\n".join(page)


def _places(found: Sequence[_Named], kernel: str) -> int:
    """Writes what the rules of *found* report in a file, and which driver it needs, if that is asked; returns the exit code.
    Raises ClickException."""
    from tclint.api import check_paths
    from tclint.findings.rules import Rule
    from tclint.inspect.diagnostics import UNSUPPORTED_VERSION, needed_driver
    from tclint.syntax.source import SourceError

    rules: list[str] = []
    lines: list[str] = []
    for one in _each(found):
        if isinstance(one, Rule):
            rules.append(one.id)
        elif one.code != UNSUPPORTED_VERSION:  # its rule compares the version with a toolkit
            rules += one.rules
        else:
            try:
                lines += [f"{kernel}: {line}" for line in needed_driver(only_source(kernel, MAX_BYTES))]
            except SourceError as error:
                raise click.ClickException(at(kernel, error)) from None
    failed = False
    if rules:
        report = check_paths([kernel], select=tuple(dict.fromkeys(rules)), exit_zero=True)
        failed = bool(report.problems)
        lines += report.render("concise").splitlines()
    elif not lines:
        lines.append(f"{kernel}: not checked, because no rule looks for this")
    write("".join(f"{line}\n" for line in ("", *lines)))
    return FAILURE if failed else CLEAN
