"""A report as data: nothing is lost, and nothing that is not a report is accepted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tclint.cache import record
from tclint.config.config import Config
from tclint.driver.pool import check
from tclint.findings.finding import FileReport
from tclint.findings.rules import all_rules
from tclint.syntax.source import Source
from tests.tools.project import ROOT

FIXTURES = sorted((ROOT / "fixtures").glob("*.ptx"))
UNWAITED = ROOT / "fixtures" / "wgmma_unwaited.ptx"


def made(source: Source, config: Config) -> FileReport:
    report = check((source.path, source), config).report
    return replace(report, source=source, origin=None)


def examples() -> Iterator[Source]:
    for rule in all_rules().values():
        for block in (*rule.examples, *rule.corrections):
            yield Source.from_bytes(block.code.encode(), f"{rule.id}.ptx")


@pytest.mark.slow
def test_report_of_every_example_of_a_rule_survives() -> None:
    for source in examples():
        report = made(source, Config(verdict=True))
        assert record.decode(record.encode(report), source) == report, source.path


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_findings_and_verdicts_survive(path: Path) -> None:
    source = Source.read(path)
    report = made(source, Config(verdict=True))
    assert report.verdicts
    assert record.decode(record.encode(report), source) == report


def test_problems_and_names_outside_utf_8_survive() -> None:
    source = Source.from_bytes(b".version 8.0\n.target sm_90\n.visible .entry k() { bogus \n", "a\udcff.ptx")
    report = made(source, Config())
    assert report.problems
    assert record.decode(record.encode(report), source) == report


def test_report_gets_path_and_member_of_its_input() -> None:
    source = Source.read(UNWAITED)
    data = record.encode(made(source, Config()))
    other = Source(source.data, "elsewhere.fatbin", "elsewhere.fatbin", "b.ptx")
    read = record.decode(data, other)
    assert (read.path, read.member, read.source) == ("elsewhere.fatbin", "b.ptx", other)


def test_spans_outside_the_text_are_refused() -> None:
    source = Source.read(UNWAITED)
    data = record.encode(made(source, Config()))
    with pytest.raises(ValueError, match="not the data of a report"):
        record.decode(data, Source.from_bytes(source.data[:100], source.path))


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "[" * 100_000, '["analysed"]', "NaN", "\x80"])
def test_other_data_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json has messages of its own
        record.decode(text.encode("latin-1"), Source.read(UNWAITED))


def test_changed_data_is_refused_or_read_as_a_report() -> None:
    """Whatever is changed in the data, the result is a report or one of three exceptions that mean that it is none."""
    source = Source.read(UNWAITED)
    document = json.loads(record.encode(made(source, Config(verdict=True))))
    random = Random(1)
    refused = 0
    for _ in range(2_000):
        changed = json.loads(json.dumps(document))
        _change(changed, random)
        try:
            read = record.decode(json.dumps(changed).encode(), source)
        except (ValueError, TypeError, KeyError):
            refused += 1
        else:
            assert isinstance(read, FileReport)
            assert all(f.span.end <= len(source.data) and isinstance(f.message, str) for f in read.findings)
    assert refused > 1_000


def _change(value: list[object], random: Random) -> None:
    """Replaces, drops or doubles something in nested lists."""
    at = random.randrange(len(value))
    inside = value[at]
    if isinstance(inside, list) and inside and random.random() < 0.8:
        _change(inside, random)
    elif (how := random.randrange(3)) == 0:
        value[at] = random.choice((None, True, -1, 10**12, "x", "../../etc", 0.5, [], {}, [[]]))
    elif how == 1:
        del value[at]
    else:
        value.insert(at, inside)
