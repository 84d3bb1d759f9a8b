"""Every rule page is a test: its examples are found, its corrections are clean, and names and layout do not matter."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tclint.checks import registered
from tclint.findings.figures import RULES as GATE
from tclint.findings.figures import Judged
from tclint.findings.finding import FileReport
from tclint.findings.moved import subjects
from tclint.findings.rules import CodeBlock, Rule, all_rules, default_rules
from tclint.findings.scales import Confidence
from tclint.findings.selection import Request, Selected
from tclint.inline.module import STATEMENT
from tclint.isa.target import KNOWN, parse_version
from tclint.linting import suppress
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.budgets import judged
from tests.tools.ptxas import find_ptxas
from tests.tools.rewriting import REWRITERS, Identity, identities

RULES = all_rules()


def blocks(part: Callable[[Rule], tuple[CodeBlock, ...]]) -> Iterator[object]:
    for rule in RULES.values():
        for block in part(rule):
            yield pytest.param(rule, block, id=f"{rule.id}-{_names(block.code)[-1]}")


def _names(code: str) -> list[str]:
    return re.findall(r"\.entry (\w+)", code)


EXAMPLES = list(blocks(lambda rule: rule.examples))
CORRECTIONS = list(blocks(lambda rule: rule.corrections))


def lint(
    code: str,
    toolkit: tuple[int, int] | None,
    rules: frozenset[str] | None = None,
    judged: Judged | None = None,
) -> FileReport:
    request = Request(Selected(rules=rules), toolkit, judged=judged)
    return check_source(Source.from_bytes(code.encode(), "block.ptx"), request)


def lint_page(rule: Rule, block: CodeBlock, code: str) -> FileReport:
    """The report on *code*, the text of a block of a page or a variant of it, with the rules that are on by default and that of
    the page."""
    return lint(code, rule.toolkit, subjects(default_rules() | {rule.id}), judged(rule, block))


@cache
def page(rule: Rule, block: CodeBlock) -> FileReport:
    """The report on a block of a page."""
    return lint_page(rule, block, block.code)


def reported(report: FileReport) -> str:
    """The findings of a report, for a failing test to show."""
    assert report.source is not None
    return "\n".join(
        f"line {report.source.position(f.span.start).line}: {f.rule.id} ({f.confidence.label}) {f.message}"
        for f in report.findings
    )


def test_every_page_has_a_check_and_every_check_a_page() -> None:
    assert sorted((*registered(), *suppress.RULES, *STATEMENT, *GATE)) == sorted(RULES)


def test_every_block_has_a_kernel_of_its_own_name() -> None:
    """Otherwise test ids, and fingerprints in a combined module, would collide."""
    for rule in RULES.values():
        names = [n for block in (*rule.examples, *rule.corrections) for n in _names(block.code)]
        assert len(names) == len(set(names)), rule.id


@pytest.mark.parametrize(("rule", "block"), EXAMPLES)
def test_an_example_is_found(rule: Rule, block: CodeBlock) -> None:
    report = page(rule, block)
    assert rule.id in {finding.rule.id for finding in report.findings}, reported(report) or "nothing found"


_WITHOUT_SUBJECT = re.compile(r"(?!ptxas )(its|this|these|may|has|is|[a-z]+s) ")


@pytest.mark.parametrize(("rule", "block"), EXAMPLES)
def test_a_message_names_its_subject(rule: Rule, block: CodeBlock) -> None:
    """Formats without a frame show the message alone, so it must not begin with a verb."""
    begun = [f.message for f in page(rule, block).findings if _WITHOUT_SUBJECT.match(f.message)]
    assert not begun


@pytest.mark.parametrize(("rule", "block"), CORRECTIONS)
def test_a_correction_is_clean(rule: Rule, block: CodeBlock) -> None:
    report = page(rule, block)
    assert report.status == "analysed", report.problems
    assert not [f for f in report.findings if f.confidence > Confidence.LOW and f.suppressed is None], (
        reported(report)
    )


# What a finding is must not depend on what a compiler chooses freely. The statements of a module are numbered in the
# order of the text; a rewriter changes the text and must leave the findings on the same statements.


def rewritten(code: str) -> str:
    """*code* after all rewriters in turn, each of which must change what it can."""
    for rewrite in REWRITERS:
        changed = rewrite(code)
        assert changed != code or not REWRITERS[rewrite].search(code)
        code = changed
    return code


@pytest.mark.parametrize(("rule", "block"), EXAMPLES)
def test_findings_do_not_depend_on_names_or_layout(rule: Rule, block: CodeBlock) -> None:
    changed = rewritten(block.code)
    report = lint_page(rule, block, changed)
    assert identities(report) == identities(page(rule, block)), changed


_HEADER = re.compile(
    r"(?P<header>\.version[^\n]*\n\.target[^\n]*\n(?:\.address_size[^\n]*\n)?)(?P<functions>.*)", re.DOTALL
)


def test_findings_do_not_depend_on_the_order_of_kernels() -> None:
    """Kernels of all examples with one header, alone and in one module, where others come first that follow it here."""
    modules: dict[tuple[str, tuple[int, int] | None], list[str]] = {}
    for rule in RULES.values():
        for block in rule.examples:
            parts = _HEADER.match(block.code)
            assert parts is not None
            name = rf"\1 {rule.id.lower()}_\2"
            unique = re.sub(r"(\.entry|\.func|call(?:\.uni)?) (\w+)", name, parts["functions"])
            modules.setdefault((parts["header"], rule.toolkit), []).append(unique)
    assert sum(len(functions) > 1 for functions in modules.values()) >= 3

    def of_kernels(text: str, toolkit: tuple[int, int] | None) -> list[Identity]:
        """Without what is said of the module as a whole, as GD002 does: whether another kernel waits."""
        return [i for i in identities(lint(text, toolkit)) if i[1] is not None and i[0] != "GD002"]

    for (header, toolkit), functions in modules.items():
        if len(functions) == 1:
            continue
        alone = sorted((i for f in functions for i in of_kernels(header + f, toolkit)), key=str)
        assert of_kernels(header + "".join(reversed(functions)), toolkit) == alone


# ptxas as a witness that the pages are true.


@pytest.mark.slow
def test_ptxas_takes_and_refuses_what_the_pages_say(tmp_path: Path) -> None:
    ptxas = find_ptxas()
    wrong = []
    for rule in RULES.values():
        for block in (*rule.examples, *rule.corrections):
            refused = not rule.assembles and block in rule.examples
            version = re.search(r"\.version ([\d.]+)", block.code)
            assert version is not None
            if parse_version(version[1]) > KNOWN:
                continue  # no ptxas can say anything about it
            target = re.search(r"\.target (\w+)", block.code)
            assert target is not None
            file = tmp_path / "block.ptx"
            file.write_text(block.code)
            arch = target[1].replace("sm_101", "sm_110")  # CUDA 13 knows no other -arch for it
            command = [ptxas, "-arch", arch, file, "-o", tmp_path / "block.cubin"]
            run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
            if (run.returncode != 0) != refused:
                wrong.append(
                    f"{rule.id}.md:{block.line}: {'accepted' if refused else run.stdout + run.stderr}"
                )
    assert not wrong, "\n".join(wrong)
