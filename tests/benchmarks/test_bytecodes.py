"""The count of bytecode instructions is repeatable, and what grew is named."""

from __future__ import annotations

import json
from functools import partial

import pytest

from benchmarks import bytecodes
from tests.tools.support import kernel, module

DATA = module(kernel("mov.u32 %r1, %tid.x;\nbar.sync 0;\nret;")).encode()


def work(rounds: int) -> int:
    return sum(inner(number) for number in range(rounds))


def inner(number: int) -> int:
    return number * number


def test_work_is_counted_by_function() -> None:
    few, many = bytecodes.count(lambda: work(10)), bytecodes.count(lambda: work(20))
    name = next(name for name in few if name.endswith("inner"))
    assert name == "tests/benchmarks/test_bytecodes.py:inner"
    assert many[name] == 2 * few[name] > 0


@pytest.mark.parametrize("lines", [False, True], ids=["instructions", "lines"])
def test_each_iteration_of_a_comprehension_counts(lines: bool) -> None:
    def pairs(number: int) -> int:
        return sum([a for a in range(number) for _ in range(number)])

    few, many = (bytecodes.count(partial(pairs, number), lines=lines) for number in (40, 80))
    assert 3.5 < sum(many.values()) / sum(few.values()) < 4.1


@pytest.mark.skipif(not hasattr(bytecodes.os, "fork"), reason="each count is made in a copy of this process")
def test_the_same_work_has_the_same_count_each_time() -> None:
    lint = bytecodes._lint("k.ptx", DATA)
    lint()
    first, second = bytecodes._apart(lint), bytecodes._apart(lint)
    assert first == second
    assert any(name.startswith("tclint/ir/functions.py:") for name in first)


def test_more_work_is_a_failure_that_names_kernel_and_functions() -> None:
    before = {"a": 1000, "b": 1000}
    assert [*bytecodes.compare({"k.ptx": before}, {"k.ptx": {"a": 1010, "b": 1010}})] == []
    ((failed, said),) = bytecodes.compare({"k.ptx": before}, {"k.ptx": {"a": 1001, "b": 1099}})
    assert failed
    assert said.startswith(
        "k.ptx: 2,100 bytecode instructions, 5.0% more than recorded; most: b +99 (1.10 times)"
    )


def test_less_work_and_a_stale_record_are_distinguished() -> None:
    ((failed, said),) = bytecodes.compare({"k.ptx": {"a": 1000}}, {"k.ptx": {"a": 900}})
    assert (failed, said) == (False, "k.ptx: 900 bytecode instructions, 10.0% fewer than recorded")
    reported = [*bytecodes.compare({"old.ptx": {"a": 1}}, {"new.ptx": {"a": 1}})]
    assert reported == [
        (True, "old.ptx: is in the record only; --update it"),
        (True, "new.ptx: is not in the record; --update it"),
    ]


def test_growth_that_is_not_linear_is_named() -> None:
    assert bytecodes.too_steep("k", {"a": 100, "b": 100}, {"a": 200, "b": 220}) == ""
    said = bytecodes.too_steep("k", {"a": 100, "b": 100}, {"a": 200, "b": 400})
    assert said.startswith("k: 3.00 times the work for twice the size")
    assert said.endswith("beyond twice: b +200 (4.00 times)")


def test_the_record_is_of_the_kernels_that_there_are() -> None:
    record = json.loads(bytecodes.RECORD.read_text(encoding="utf-8"))
    assert set(record["counts"]) == {
        "start",
        "ISA table",
        *(path.name for path in bytecodes.kernels()),
    }
    assert all(sum(found.values()) > 10_000 for found in record["counts"].values())


def test_another_python_checks_growth_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(bytecodes.SEED, "0")
    monkeypatch.setattr(bytecodes, "_version", lambda: "3.99")
    monkeypatch.setattr(bytecodes, "doublings", lambda: iter([("k", {"a": 100}, {"a": 300})]))
    assert bytecodes.main([]) == 1
    said = capsys.readouterr().out
    assert "k: 3.00 times the work" in said
    assert "this is 3.99: only growth is checked" in said
