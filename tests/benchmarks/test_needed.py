"""Kernels whose synchronisation a GPU shows to be needed: their changes, the record, and what a note on one counts as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import needed, results
from benchmarks.needed import score
from benchmarks.needed.__main__ import main
from tclint.syntax.source import Source

TEXTS = dict(needed.kernels())
DATA = results.records()["needed"]["data"]


def test_a_change_replaces_one_marked_line_and_no_other() -> None:
    for name, text in TEXTS.items():
        marked = [n for n, line in enumerate(text.splitlines(), 1) if line.endswith(needed.MARK)]
        found = list(needed.changes(text))
        assert sorted({change.line for change in found}) == marked, name
        for change in found:
            pairs = list(zip(text.splitlines(), change.text.splitlines(), strict=True))
            assert [n for n, (old, new) in enumerate(pairs, 1) if old != new] == [change.line], name


def test_a_fence_is_deleted_and_narrowed() -> None:
    text = TEXTS["pass-fence.acq_rel.sys"]
    assert [change.what for change in needed.changes(text)] == ["deleted", "fence.acq_rel.cta"] * 2
    assert [change.what for change in needed.changes(TEXTS["pass-membar.gl"])][1] == "membar.cta"
    (deleted, narrowed) = needed.changes(TEXTS["bulk_load-fence.proxy.async.global"])
    assert narrowed.what == "fence.proxy.async.shared::cta"
    assert narrowed.text.splitlines()[narrowed.line - 1] == "    fence.proxy.async.shared::cta;"
    assert deleted.text.splitlines()[deleted.line - 1] == ""


def test_the_record_is_about_the_kernels_as_they_are() -> None:
    changes = {
        (name, change.line, change.what) for name, text in TEXTS.items() for change in needed.changes(text)
    }
    assert {(job["kernel"], job["line"], job["what"]) for job in DATA["jobs"] if job["line"]} == changes
    assert {job["kernel"] for job in DATA["jobs"] if not job["line"]} == set(TEXTS)


def test_kernels_as_they_are_count_no_mistakes_on_the_gpu() -> None:
    assert [
        job for job in DATA["jobs"] if not job["line"] and (score.is_wrong(job) or job["launches"] < 100)
    ] == []


def test_no_note_contradicts_the_gpu() -> None:
    names = {"copies_two", "remote_flag-fence.acq_rel.gpu", "bulk_store-fence.proxy.async", "wgmma_128"}
    data = {**DATA, "jobs": [dict(job) for job in DATA["jobs"] if job["kernel"] in names]}
    score.judge(data)
    assert "Of these, 0 have a note" in score.figure(data)


@pytest.mark.parametrize(
    ("what", "notes", "count"),
    [
        ("deleted", ["CO001"], 1),
        ("deleted", ["CO004"], 0),
        ("fence.acq_rel.cta", ["CO005"], 1),
        ("fence.acq_rel.cta", [], 0),
    ],
)
def test_a_note_is_wrong_if_the_change_that_it_advises_is_convicted(
    what: str, notes: list[str], count: int
) -> None:
    original = {"kernel": "k", "line": 0, "what": "", "launches": 100, "wrong": 0, "hang": False}
    change = original | {"line": 5, "what": what, "wrong": 3, "opcode": "fence.acq_rel.gpu", "notes": notes}
    data = DATA | {"jobs": [original, change]}
    assert f"Of these, {count} have a note" in score.figure(data)
    assert f"| memory fence | 1 | 1 | {count} |" in score.tables(data)
    right = score.figure(DATA | {"jobs": [original, change | {"wrong": 0}]})
    assert "0 of 1 changes are convicted, of 0 instructions. Of these, 0 have a note" in right


def test_an_answer_becomes_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs: list[dict[str, Any]] = [
        {"kernel": "copies_all", "line": 0, "what": "", "launches": 100, "wrong": 0, "cubin": "x"},
        {"kernel": "copies_all", "line": 54, "what": "deleted", "hang": True, "cubin": "y"},
    ]
    assert main(["collect", answer(tmp_path, jobs)]) == 0
    assert (
        "1 of 1 changes are convicted, of 1 instructions. Of these, 0 have a note" in capsys.readouterr().out
    )


def test_what_was_not_launched_to_the_end_is_named_and_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs: list[dict[str, Any]] = [
        {"kernel": "copies_all", "line": 0, "what": "", "launches": 100, "wrong": 0},
        {"kernel": "copies_all", "line": 54, "what": "deleted", "error": "not started"},
        {"kernel": "copies_all", "line": 55, "what": "deleted", "launches": 7, "wrong": 0},
        {"kernel": "copies_two", "line": 0, "what": "", "error": "cuCtxSynchronize: 700"},
        {"kernel": "copies_two", "line": 50, "what": "deleted", "launches": 100, "wrong": 5},
    ]
    assert main(["collect", answer(tmp_path, jobs)]) == 0
    said = capsys.readouterr()
    assert "0 of 0 changes are convicted" in said.out
    assert said.err.splitlines() == [
        "copies_all, line 54 deleted: not started",
        "copies_all, line 55 deleted: 7 launches took too long",
        "copies_two, line 0: cuCtxSynchronize: 700",
        "copies_two, line 50 deleted: cuCtxSynchronize: 700",
    ]


def answer(folder: Path, jobs: list[dict[str, Any]]) -> str:
    """The file that the launcher writes when *jobs* have been launched."""
    path = folder / "needed.json"
    found = {"gpu": "NVIDIA H100", "driver": "580", "ptxas": "13.3", "launches": 100, "jobs": jobs}
    path.write_text(json.dumps(found), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["copies_three", "pass-fence.acq_rel.gpu", "own_part-fence.proxy.async"])
def test_a_kernel_counts_its_mistakes(name: str) -> None:
    np = pytest.importorskip("numpy", reason="the executor computes with numpy")
    from tclint.executor.launch import Launch
    from tclint.executor.run import call

    text = TEXTS[name]
    block = int(needed.settings(text)["block"])
    for number, changed in enumerate((text, next(needed.changes(text)).text)):
        out = np.zeros(4, np.uint32)
        memory = np.zeros(1 << 21, np.uint8)
        found = call(
            Source(changed.encode(), name),
            Launch(needed.ENTRY, grid=(2, 1, 1), block=(block, 1, 1)),
            [out, memory, np.uint32(6)],
        )
        assert found.end == "done", found.reason
        assert out[1] > 0
        assert (out[0] > 0) == (
            number == 1 and name != "pass-fence.acq_rel.gpu"
        )  # global memory is coherent here
