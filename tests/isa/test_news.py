"""The forms of PTX ISA 9.2 to 9.5, each in a module with what ptxas says of it: ``../shared/spec/isa_news.tsv``."""

from __future__ import annotations

import csv
from collections.abc import Iterator

import pytest

from benchmarks.ptxas import before
from tclint.findings.scales import Severity
from tclint.isa.target import dotted, parse_version
from tests.tools.project import ROOT
from tests.tools.support import lint

NEWS = ROOT.parent / "shared" / "spec" / "isa_news.tsv"

pytestmark = pytest.mark.skipif(
    not NEWS.is_file(), reason="the list of new forms (../shared/spec) is not beside this checkout"
)

OF_THE_MODULE = "'Type .b128'"
"""ptxas refuses the module here because of one of its registers: that says nothing about the form."""


def _accepts(row: dict[str, str], version: str, target: str) -> bool:
    text = row["module"].replace("\\n", "\n").replace("\\t", "\t")
    report = lint(text.replace("{V}", version).replace("{T}", target))
    errors = [f for f in report.findings if f.rule.id[:2] in ("PX", "AV") and f.severity is Severity.ERROR]
    return not errors and not report.problems


def _points(row: dict[str, str]) -> Iterator[tuple[str, str, bool]]:
    """Version, target, and whether ptxas accepts the module there."""
    first, target = row["min_version"], row["min_version_target"]
    if first == "-":
        yield "9.5", "sm_107a", False
        return
    yield first, target, True
    if row["min_version_is_target_intro"] == "False" and OF_THE_MODULE not in row["ptxas_below_version"]:
        yield dotted(before(parse_version(first))), target, False
    if row["first_refused_plain_target"] != "-" and OF_THE_MODULE not in row["ptxas_below_target"]:
        yield "9.5", row["first_refused_plain_target"], False
    yield from (("9.5", name, True) for name in row["accepted_targets_at_9.5"].split())


def test_new_forms_are_accepted_where_ptxas_accepts_them() -> None:
    """Directives and pragmas, whose names begin with a dot, are not in the table of instructions."""
    with NEWS.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if not row["feature"].startswith(".")]
    assert len(rows) > 240
    differing = [
        f"{row['feature']}: {version} {target}"
        for row in rows
        for version, target, accepted in _points(row)
        if _accepts(row, version, target) != accepted
    ]
    assert differing == []
