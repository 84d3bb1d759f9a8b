"""Planted deadlocks: the edits fit, the marks change nothing else, and the record is what tclint shows today."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks import hangs, results
from benchmarks.hangs import score
from benchmarks.hangs.plants import PLANTS, Plant
from tclint.analyses.model import KernelModel
from tclint.findings.scales import Confidence
from tclint.hang.stops import RUNNING, kind_of
from tclint.inspect.locations import Locations
from tclint.ir.frontend import analyse
from tclint.syntax.source import Source
from tests.tools.support import lint

PATH = results.RECORDS / "hangs.json"


@pytest.fixture(scope="module")
def record() -> Any:
    return json.loads(PATH.read_text(encoding="utf-8"))["data"]


@pytest.mark.parametrize("name", hangs.kernels())
def test_a_kernel_has_no_finding(name: str) -> None:
    """PR004 is true of them: they stay as a GPU ran them, and what they wait for does not depend on that fence."""
    shown = [f.rule.id for f in lint(hangs.text_of(name)).findings if f.confidence is not Confidence.LOW]
    assert set(shown) <= {"PR004"}


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.job)
def test_an_edit_keeps_the_lines(plant: Plant) -> None:
    before, after = hangs.text_of(plant.kernel).splitlines(), hangs.planted(plant).splitlines()
    changed = {number for number, pair in enumerate(zip(before, after, strict=True), 1) if pair[0] != pair[1]}
    assert changed == {hangs.line_of(plant.kernel, edit.tag) for edit in plant.edits}
    assert all(hangs.line_of(plant.kernel, tag) for tag in (*plant.waits, *plant.places))


def test_names_of_plants_are_unique() -> None:
    assert len({(plant.kernel, plant.name) for plant in PLANTS}) == len(PLANTS)


@pytest.mark.parametrize("name", hangs.kernels())
def test_marks_keep_the_lines_and_name_the_waits(name: str) -> None:
    text = hangs.text_of(name)
    after = hangs.marked(text).splitlines()
    source = Source.from_bytes(text.encode(), "k.ptx")
    parsed, _ = analyse(source)
    model = KernelModel(parsed.bodies[0], parsed)
    locations = Locations(source, parsed, parsed.bodies[0])
    sites = range(len(parsed.bodies[0].instructions))
    waits = {locations.line(site) for site in sites if kind_of(model.instruction(site)) != RUNNING}
    assert {n for n, line in enumerate(after, 1) if f"[%mark], {n};" in line} == waits
    assert len(after) == len(text.splitlines())
    assert [line for line in after if str(hangs.EXITED) in line]


def test_lanes_that_left_a_barrier_have_no_position() -> None:
    text = hangs.text_of("lanes")
    left, right = hangs.line_of("lanes", "wait seen"), 27
    marks = [0] * 32 + [left] + [right] * 31
    assert [(p.line, p.warp, p.lanes) for p in score.positions(text, marks, 64)] == [(left, 1, 1)]


def test_at_least_forty_hang_and_nine_of_ten_are_shown(record: Any) -> None:
    hanging = [planted for planted in record["planted"] if "at" in planted]
    shown = [planted for planted in hanging if planted["cycle"] and planted["place"]]
    assert len({planted["kernel"] for planted in hanging}) >= 10
    assert len(hanging) >= 40
    assert len(shown) >= 0.9 * len(hanging)


def test_every_kernel_completes_without_an_edit(record: Any) -> None:
    assert set(record["kernels"].values()) == {"completed"}


@pytest.mark.parametrize("kernel", ["handoff", "named", "relay"])
def test_what_is_shown_is_what_is_recorded(kernel: str, record: Any) -> None:
    data = {
        **record,
        "planted": [dict(planted) for planted in record["planted"] if planted["kernel"] == kernel],
    }
    score.judge(data)
    assert data["planted"] == [planted for planted in record["planted"] if planted["kernel"] == kernel]
