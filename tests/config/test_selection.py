from __future__ import annotations

import pytest

from tclint._version import __version__
from tclint.config.config import Config, Selection
from tclint.config.selection import enabled
from tclint.findings.figures import RULES
from tclint.findings.moved import all_moved, subject
from tclint.findings.rules import UnknownRule, all_rules, default_rules
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected, meant
from tclint.report.summary import present, tally
from tclint.syntax.source import Source
from tests.tools.findings import finding, report

ALL = meant("ALL")[0]
"""With the subjects of what moved from one rule to another."""
CO = {id for id in ALL if id.startswith("CO")}
DEFAULT = ALL - CO - {"AV003", "MO006", "TC026", *RULES}
WG = frozenset(id for id in ALL if id.startswith("WG"))
TC = frozenset(id for id in ALL if id.startswith("TC"))


@pytest.mark.parametrize(
    ("selector", "ids"),
    [
        ("ALL", ALL),
        ("all", ALL),
        ("WG001", {"WG001"}),
        ("wg001", {"WG001"}),
        ("wgmma-unwaited-accumulator-read", {"WG001"}),
        ("wgmma", WG),
        ("WG", WG),
        ("WG00", {id for id in WG if id < "WG01"}),
        ("tcgen05", TC),
        ("suppression", {"SU001", "SU002"}),
    ],
)
def test_a_selector_means(selector: str, ids: set[str]) -> None:
    assert meant(selector)[0] == ids


@pytest.mark.parametrize(
    ("selector", "suggestion"),
    [("WG0001", "did you mean WG001"), ("wgma", "did you mean wgmma?"), ("", "tclint rules lists them")],
)
def test_an_unknown_one_suggests(selector: str, suggestion: str) -> None:
    with pytest.raises(UnknownRule, match=suggestion):
        meant(selector)


def selection(text: str) -> Selection:
    """``select=WG,TC ignore=TC001`` as a Selection."""
    pairs = (word.split("=") for word in text.split())
    return Selection(**{key: tuple(value.split(",")) for key, value in pairs})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("places", "ids"),
    [
        ([], DEFAULT),
        (["ignore=WG"], DEFAULT - WG),
        (["select=ALL"], ALL),
        (["extend_select=AV003"], DEFAULT | {"AV003"}),
        (["extend_select=AV003,CO,MO006,PB,TC026,UV"], ALL),
        (["select=AV003"], {"AV003"}),
        (["select=WG", "extend_select=arch-specific-overspecified"], WG | {"AV003"}),
        (["select=WG"], WG),
        (["select=ALL ignore=ALL"], set()),
        (["select=WG ignore=WG001"], WG - {"WG001"}),
        (["select=WG001 ignore=WG"], {"WG001"}),
        (["select=wgmma ignore=WG"], set()),
        (["select=WG00 ignore=wgmma"], {id for id in WG if id < "WG01"}),
        (["select=wgmma-missing-fence ignore=WG00"], {"WG002"}),
        (["ignore=ALL extend_select=WG001"], {"WG001"}),
        (["select=WG extend_select=TC003"], WG | {"TC003"}),
        # A later setting is added to it, and one with a select of its own replaces everything.
        (["select=WG", "extend_select=TC003"], WG | {"TC003"}),
        (["select=WG", "ignore=WG001"], WG - {"WG001"}),
        (["ignore=WG001", "extend_select=WG"], DEFAULT),
        (["select=WG extend_select=TC", "select=TC003"], {"TC003"}),
        (["ignore=WG001", "select=WG"], WG),
    ],
)
def test_the_more_specific_wins(places: list[str], ids: set[str]) -> None:
    assert enabled(map(selection, places)) == ids


RACES = {subject(id, "MB016") for id in all_moved()["MB016"].rules}


@pytest.mark.parametrize(
    ("places", "rules", "races"),
    [
        (["select=MB016"], {"MB016"}, RACES),
        (["select=mbarrier-protocol-broken"], {"MB016"}, RACES),
        (["select=BK001"], {"BK001"}, {subject("BK001", "MB016")}),
        (["select=MB016 ignore=BK001"], {"MB016"}, RACES - {subject("BK001", "MB016")}),
        (["ignore=MB016"], set(default_rules()) - {"MB016"}, set()),
        (["ignore=MB01,MB00"], {id for id in default_rules() if not id.startswith("MB")}, RACES),
        (["ignore=MB016", "extend_select=BK"], set(default_rules()) - {"MB016"}, {r for r in RACES if r[:2] == "BK"}),
    ],
)  # fmt: skip
def test_a_former_id_denotes_what_moved_and_nothing_else_of_the_other_rules(
    places: list[str], rules: set[str], races: set[str]
) -> None:
    on = enabled(map(selection, places))
    assert on & all_rules().keys() == rules
    assert on & RACES == races


def test_findings_move_to_rules_that_exist() -> None:
    for old, moved in all_moved().items():
        assert {old, *moved.rules} <= all_rules().keys()


def test_a_former_id_denotes_nothing_that_moved_from_the_version_of_its_removal_on() -> None:
    def parts(version: str) -> list[int]:
        return [int(part) for part in version.split(".")]

    overdue = [old for old, moved in all_moved().items() if parts(moved.until) <= parts(__version__)]
    assert not overdue, "delete what these pages say has moved"


def test_entries_are_chosen_by_pattern() -> None:
    assert Selected().wants("anything")
    selected = Selected(entry=("gemm*", "att[ae]n"))
    assert [selected.wants(name) for name in ("gemm_1", "atten", "Gemm", "my_gemm")] == [
        True,
        True,
        False,
        False,
    ]


SOURCE = Source.from_bytes(b"error low info", "out/gen/a.ptx")


@pytest.mark.parametrize(
    ("config", "shown", "sentence"),
    [
        (Config(), "error info", "1 low-confidence finding hidden (--pedantic shows it)"),
        (Config(pedantic=True), "error low info", "files"),
        (Config(min_confidence=Confidence.LOW), "error low info", "files"),
        (Config(min_confidence=Confidence.HIGH), "error", "2 findings below high confidence hidden"),
        (Config(min_severity=Severity.WARNING), "error", "1 finding below --min-severity hidden"),
        (Config(per_file_ignores=(("*.ptx", ("WG",)),)), "", "3 findings ignored by the configuration"),
        (Config(per_file_ignores=(("/else/*", ("WG",)),)), "error info", "files"),
        (Config(per_file_ignores=(("b.ptx", ("WG",)),)), "error info", "files"),
        (Config(per_file_ignores=(("*/gen/*", ("TC",)),)), "error info", "files"),
        (Config(per_file_ignores=(("*/gen/**/*.ptx", ("WG001",)),)), "", "3 findings"),
        (Config(per_entry_ignores=(("ge*", ("wgmma",)),)), "", "3 findings ignored by the configuration"),
        (Config(per_entry_ignores=(("*x*", ("ALL",)),)), "error info", "files"),
    ],
)
def test_what_is_shown_and_why_the_rest_is_not(config: Config, shown: str, sentence: str) -> None:
    made = report(
        SOURCE,
        finding(SOURCE, "error"),
        finding(SOURCE, "low", confidence=Confidence.LOW),
        finding(SOURCE, "info", confidence=Confidence.MEDIUM, severity=Severity.INFO),
    )
    (after,), summary = present([made], config.selected)
    words = [SOURCE.text[f.span.start : f.span.end] for f in after.findings]
    assert words == shown.split()
    assert sentence.removesuffix("files") in tally(summary)
    hidden = (summary.hidden, summary.below_severity, summary.ignored, summary.suppressed)
    assert sum(n for counts in hidden for n in counts.values()) == 3 - len(words)
