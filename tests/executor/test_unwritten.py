"""Reads of shared memory that nothing has written: a note, and an observation if the outcome depends on one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from tclint.commands._cli import cli
from tclint.executor.memory import Array
from tclint.executor.run import End, Execution
from tclint.executor.unwritten import FirstRead, Outcome, observe_undefined, observe_unwritten
from tests.tools.support import HOPPER, built, kernel, module

BODY = """
    .shared .align 16 .b8 tile[1024];
    ld.param.u64 %rd0, [pointer];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd2, %rd0, %rd1;
    mov.u32 %r1, tile;
    mad.lo.u32 %r2, %r0, 4, %r1;
    st.shared.u32 [%r2], %r0;
    bar.sync 0;
    mov.u32 %r4, 1;
    {use}
    st.global.u32 [%rd2], %r4;
    ret;"""
"""Writes the first half of the tile."""
LAUNCH = """
[buffers]
data = { type = "u32", shape = [128], values = 5 }
[[launches]]
entry = "k"
grid = [1]
block = [128]
arguments = ["data", { u32 = 7 }]
"""


def invoke(folder: Path, use: str, *options: str) -> tuple[int, str]:
    path = folder / "tile.ptx"
    path.write_text(module(kernel(BODY.replace("{use}", use)), header=HOPPER))
    (folder / "tile.launch.toml").write_text(LAUNCH)
    result = CliRunner().invoke(cli, ["run", str(path), *options], standalone_mode=False)
    assert result.exception is None
    return int(result.return_value), result.output


@pytest.mark.parametrize(
    "use",
    [
        "ld.shared.u32 %r4, [%r2+512];",
        "ld.shared.u32 %r3, [%r2+512];\n    setp.ne.u32 %p1, %r3, 0;\n    @%p1 mov.u32 %r4, 2;",
        "ld.shared.u32 %r3, [%r2+512];\n    setp.ne.u32 %p1, %r3, 0;\n    @%p1 bra LATER;\n    add.u32 %r5, %r0, 1;\nLATER:",
        "atom.shared.add.u32 %r4, [%r2+512], 1;",
    ],
    ids=["stored", "selects", "branch", "atomic"],
)
def test_a_value_that_nothing_has_written_and_that_is_used_is_observed(tmp_path: Path, use: str) -> None:
    code, output = invoke(tmp_path, use)
    assert code == 1
    assert "unwritten: reads shared memory that nothing has written" in output
    assert "512 bytes of shared memory are read that nothing has written" in output


@pytest.mark.parametrize(
    "use",
    [
        "ld.shared.u32 %r3, [%r2+512];",
        "ld.shared.u32 %r3, [%r2+512];\n    mul.lo.u32 %r3, %r3, 0;\n    add.u32 %r4, %r4, %r3;",
    ],
    ids=["dropped", "times zero"],
)
def test_a_value_that_nothing_has_written_and_that_is_not_used_is_a_note(tmp_path: Path, use: str) -> None:
    code, output = invoke(tmp_path, use)
    assert code == 0
    assert "note: 512 bytes of shared memory are read that nothing has written" in output


def test_a_value_that_is_written_is_neither(tmp_path: Path) -> None:
    code, output = invoke(tmp_path, "ld.shared.u32 %r4, [%r2];")
    assert code == 0
    assert "nothing has written" not in output


def test_a_value_that_a_copy_writes_is_neither(tmp_path: Path) -> None:
    use = """
    cp.async.ca.shared.global [%r2+512], [%rd2], 4;
    cp.async.wait_all;
    ld.shared.u32 %r4, [%r2+512];"""
    code, output = invoke(tmp_path, use)
    assert code == 0
    assert "nothing has written" not in output


def test_bytes_are_counted_once_and_the_other_reads_are_counted(tmp_path: Path) -> None:
    first, second = "ld.shared.u32 %r4, [%r2+512];", "ld.shared.u8 %r5, [%r1+1020];"
    _, output = invoke(tmp_path, f"{second}\n    {first}\n    {first}\n    add.u32 %r4, %r4, %r5;")
    assert "512 bytes" in output
    assert "or on one of 1 others" in output


def test_the_observation_of_a_run_has_no_thread(tmp_path: Path) -> None:
    _, output = invoke(tmp_path, "ld.shared.u32 %r4, [%r2+512];", "--output-format", "json")
    (run,) = json.loads(output)["launches"]
    (observation,) = run["observations"]
    assert observation["kind"] == "unwritten"
    assert observation["thread"] == ""


def test_a_trace_does_not_make_a_dropped_value_one_that_is_used(tmp_path: Path) -> None:
    """How often a warp polls depends on when warps are switched, which a trace changes."""
    use = """
    ld.shared.u32 %r3, [%r2+512];
    setp.lt.u32 %p1, %r0, 96;
    @%p1 bra POLL;
    mov.u32 %r5, 1000;
    st.volatile.shared.u32 [%r1], %r5;
POLL:
    ld.volatile.shared.u32 %r3, [%r1];
    setp.ne.u32 %p1, %r3, 1000;
    @%p1 bra POLL;"""
    steps = set()
    for options in ((), ("--trace", str(tmp_path / "trace.json"))):
        code, output = invoke(tmp_path, use, "--output-format", "json", *options)
        assert code == 0
        (launch,) = json.loads(output)["launches"]
        assert launch["observations"] == []
        assert [note["message"][:9] for note in launch["notes"]] == ["512 bytes"]
        steps.add(launch["instructions"])
    assert len(steps) == 2


def test_a_loop_that_other_contents_make_endless_is_observed(tmp_path: Path) -> None:
    use = "LOOP:\n    ld.shared.u32 %r3, [%r2+512];\n    setp.ne.u32 %p1, %r3, 0;\n    @%p1 bra LOOP;"
    code, output = invoke(tmp_path, use, "--seconds", "1")
    assert code == 1
    assert "unwritten: reads shared memory that nothing has written" in output


def _outcome(end: End, steps: int) -> tuple[list[Execution], Mapping[str, Array]]:
    function = built(module(kernel("    ret;"))).functions[0]
    return [Execution(function, end, steps=steps, unwritten={7: 4, 5: 4})], {}


@pytest.mark.parametrize(
    ("steps", "kinds", "notes"),
    [(99, 0, {5}), (100, 0, {5}), (101, 1, set())],
    ids=["less", "as far", "more"],
)
def test_a_repetition_that_ends_at_its_budget_shows_a_difference_only_if_it_is_longer(
    steps: int, kinds: int, notes: set[int]
) -> None:
    first = _outcome("done", 100)
    observe_unwritten(first, lambda fill: _outcome("budget", steps))
    (execution,) = first[0]
    assert len(execution.observations) == kinds
    assert set(execution.notes.values()) == notes


def test_an_execution_that_ended_at_its_budget_is_not_repeated() -> None:
    first = _outcome("budget", 100)
    observe_unwritten(first, lambda fill: pytest.fail("repeated"))
    assert not first[0][0].observations
    assert not first[0][0].notes


UNDEFINED = """
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd2, %rd0, %rd1;
    mov.u32 %r4, 1;
    {use}
    st.global.u32 [%rd2], %r4;
    ret;"""


def confirmed(folder: Path, text: str, rule: str, *options: str) -> list[tuple[str, str]]:
    """What ``tclint check`` with *options* says of the findings of a rule: how it knows, and the confirmation."""
    path = folder / "tile.ptx"
    path.write_text(module(kernel(text), header=HOPPER))
    (folder / "tile.launch.toml").write_text(LAUNCH)
    arguments = ["check", "--no-cache", "--output-format", "json", *options, str(path)]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert result.exception is None
    found = [f for file in json.loads(result.output)["files"] for f in file["findings"] if f["id"] == rule]
    return [(f["method"], (f["confirmation"] or {}).get("status", "")) for f in found]


@pytest.mark.parametrize(
    ("use", "status"),
    [
        ("mov.u32 %r4, %r3;", "confirmed"),
        ("setp.eq.u32 %p1, %r3, 7;\n    @%p1 bra LATER;\n    add.u32 %r4, %r4, 1;\nLATER:", "not-reproduced"),
        ("setp.eq.u32 %p1, %r3, 0;\n    @%p1 bra LATER;\n    add.u32 %r4, %r4, 1;\nLATER:", "confirmed"),
        ("setp.eq.u32 %p1, %r9, 0;\n    @%p1 mov.u32 %r4, %r3;", "not-reproduced"),
        ("add.u32 %r4, %r3, %r9;\n    add.u32 %r4, %r4, %r5;\n    sub.u32 %r4, %r4, %r5;", "confirmed"),
    ],
    ids=["stored", "same path", "other path", "not reached", "one of two"],
)
def test_an_undefined_register_on_which_the_outcome_depends_is_confirmed(
    tmp_path: Path, use: str, status: str
) -> None:
    found = confirmed(tmp_path, UNDEFINED.replace("{use}", use), "UV001", "--confirm")
    assert [how for _, how in found][:1] == [status]


@pytest.mark.parametrize("use", ["ld.shared.u32 %r4, [%r2+512];", "ld.shared.u32 %r4, [tile+600];"])
def test_a_read_of_unwritten_shared_memory_on_which_the_outcome_depends_is_confirmed(
    tmp_path: Path, use: str
) -> None:
    assert confirmed(tmp_path, BODY.replace("{use}", use), "UV002", "--confirm") == [
        ("execution", "confirmed")
    ]


def test_a_read_that_no_check_finds_is_reported_where_it_is_executed(tmp_path: Path) -> None:
    """The store is to an address that no check knows: it is read from memory, which holds 5."""
    unknown = "ld.global.u32 %r6, [%rd0];\n    add.u32 %r6, %r6, %r1;\n    st.shared.u8 [%r6], %r0;\n    "
    text = BODY.replace("{use}", unknown + "{use}")
    read, written = (text.replace("{use}", f"ld.shared.u32 %r4, [%r2+{at}];") for at in (512, 0))
    assert confirmed(tmp_path, read, "UV002") == []
    assert confirmed(tmp_path, read, "UV002", "--execute") == [("execution", "confirmed")]
    assert confirmed(tmp_path, written, "UV002", "--execute") == []


def test_registers_are_tried_one_by_one_if_the_outcome_depends_on_some() -> None:
    first, changed = _outcome("done", 5), _outcome("done", 6)
    reads = [FirstRead(register, f"%r{register}", register) for register in range(20)]
    asked: list[frozenset[int]] = []

    def again(registers: frozenset[int]) -> Outcome:
        asked.append(registers)
        return changed if 3 in registers else first

    (reader,) = first[0]
    observe_undefined(first, reader, reads, again)
    assert [(o.kind, o.site) for o in reader.observations] == [("undefined", 3)]
    assert [sorted(registers) for registers in asked] == [[*range(8)], *([r] for r in range(8))]


def test_registers_are_not_tried_where_the_repetition_ends_early() -> None:
    first = _outcome("done", 5)
    (reader,) = first[0]
    observe_undefined(first, reader, [FirstRead(1, "%r1", 1)], lambda registers: _outcome("budget", 4))
    observe_undefined(first, reader, [], lambda registers: pytest.fail("repeated"))
    assert reader.observations == []
