"""Whether a search says that it gave up, and whether that is recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path as File

import pytest

import tclint
from tclint.analyses import role_paths
from tclint.analyses.groups import WgmmaGroups
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import path_avoiding
from tclint.commands import _cli
from tclint.dataflow import (
    Answer,
    Found,
    GaveUp,
    Infeasible,
    Path,
    PathQuery,
    Search,
    feasible_paths,
    find_paths,
    next_answer,
)
from tclint.dataflow.answers import Ledger, Unanswered
from tclint.dataflow.feasible_paths import ENTRY_PATH, FEASIBLE_PATH, concrete_entry_path
from tclint.dataflow.views import ThreadContext
from tclint.findings.selection import Selected
from tclint.ir.cfg import Edge
from tclint.linting.cache import IncrementalCache
from tclint.linting.check import check_source
from tclint.report.formats.json import render
from tclint.report.summary import FormatContext, present
from tclint.syntax.source import Source
from tclint.values import substitution
from tclint.values import thread_masks as T
from tests.tools.support import analysed, label, model, value

NUMBER = "ld.param.u32 %r1, [number];\n"


def diamonds(number: int, use: str = "use: mov.u32 %r9, 1;\nret;", before: str = "") -> str:
    """As many branches that are independent, tested twice; only a path that takes all of them leads to the *use*."""
    rows = "".join(
        f"ld.global.u32 %r{20 + n}, [%rd0+{64 + 4 * n}];\nsetp.eq.s32 %p{n}, %r{20 + n}, 0;\n"
        for n in range(number)
    )
    first = "".join(f"@%p{n} bra A{n};\nadd.s32 %r2, %r2, 1;\nA{n}:\n" for n in range(number))
    second = "".join(f"@%p{n} bra other;\n" for n in range(number))
    return f"{rows}{before}start: mov.u32 %r8, 1;\n{first}{second}{use}\nother: ret;"


def maze(number: int, use: str, before: str) -> str:
    """As many branches that are independent, tested twice; two paths lead to the *use*, and each contradicts itself."""
    rows = "".join(
        f"ld.global.u32 %r{20 + n}, [%rd0+{64 + 4 * n}];\nsetp.eq.s32 %p{n}, %r{20 + n}, 0;\n"
        for n in range(number)
    )
    twice = "".join(
        f"@%p{n} bra {name}{n};\nadd.s32 %r2, %r2, 1;\n{name}{n}:\n" for name in "AB" for n in range(number)
    )
    ways = "@%p0 bra left;\n@%p1 bra other;\n@!%p1 bra other;\nbra goal;\nleft: @%p2 bra other;\n@!%p2 bra other;\n"
    return f"{rows}{before}{twice}{ways}goal: {use}\nother: ret;"


def search(of: KernelModel, start: str = "start", to: str = "use", **options: int) -> Answer[Path]:
    """Whether a thread gets from one label to another one."""
    first, last = label(of.function, start), label(of.function, to)
    relevant: list[Sequence[int]] = [()] * len(of.cfg.blocks)
    block = of.cfg.block_of[last]
    relevant[block] = (last,)
    query = PathQuery(
        start=first,
        context=of.views.context_of(first),
        fact=True,
        relevant=relevant,
        step=lambda fact, i, instruction: fact,
        goal=lambda fact, i: i == last,
        goals=(block,),
    )
    return next_answer(find_paths(of.search_cache, query, **options))


# ---------------------------------------------------------------- paths


def test_a_feasible_path_is_found() -> None:
    of = model(f"{NUMBER}start: setp.eq.s32 %p1, %r1, 1;\n@%p1 bra end;\nuse: mov.u32 %r9, 1;\nend: ret;")
    assert isinstance(search(of), Found)
    assert not of.ledger.unanswered


def test_an_infeasible_path_names_the_edge_that_closes_it() -> None:
    of = model(
        f"{NUMBER}setp.eq.s32 %p1, %r1, 1;\n@%p1 bra end;\nstart: mov.u32 %r8, 1;\n"
        "@!%p1 bra end;\nuse: mov.u32 %r9, 1;\nend: ret;"
    )
    answer = search(of)
    assert isinstance(answer, Infeasible)
    assert isinstance(answer.by, Edge)
    assert answer.by.target == of.cfg.block_of[label(of.function, "use")]
    assert answer.witness is None
    assert not of.ledger.unanswered


def test_a_goal_before_the_start_is_infeasible() -> None:
    of = model(f"use: mov.u32 %r9, 1;\nbra on;\non: {NUMBER}start: mov.u32 %r8, 1;\nret;")
    assert search(of) == Infeasible("no path in the control-flow graph carries the fact to the goal")


def test_no_thread_has_no_path() -> None:
    of = model("start: mov.u32 %r8, 1;\nuse: ret;")
    query = PathQuery(-1, ThreadContext(0), True, [()], lambda s, i, x: s, lambda s, i: True, (0,))
    assert next_answer(find_paths(of.search_cache, query)) == Infeasible("no thread executes the start")


def test_a_search_that_exceeds_its_budget_gives_up_and_is_recorded() -> None:
    of = model(diamonds(4))
    assert isinstance(search(of), Found)
    site = label(of.function, "start")
    assert search(of, budget=5) == GaveUp("more than 5 edges away", site)
    assert search(of, budget=15) == GaveUp("more than 15 states", site)
    assert dict(of.ledger.unanswered) == {
        Unanswered(FEASIBLE_PATH, site, "more than 5 edges away"): 1,
        Unanswered(FEASIBLE_PATH, site, "more than 15 states"): 1,
    }


def test_a_role_after_a_dispatcher_is_not_called_infeasible() -> None:
    of = model(
        "ld.shared.u8 %r1, [roles];\nT: .branchtargets one, two;\nbrx.idx %r1, T;\n"
        "one: mov.u32 %r8, 1;\nret;\ntwo: mov.u32 %r9, 1;\nret;",
        before=".shared .b8 roles[4];",
    )
    site = label(of.function, "two")
    for answer in (
        of.entry_path(site),
        of.at_first(site),
        concrete_entry_path(of.search_cache, of.cfg.block_of[site]),
    ):
        assert isinstance(answer, GaveUp)
    assert {(open_.question, open_.site) for open_ in of.ledger.unanswered} == {(ENTRY_PATH, site)}


def test_a_path_that_avoids_what_is_on_every_path_is_infeasible() -> None:
    of = model(f"start: {NUMBER}stop: mov.u32 %r8, 1;\nuse: ret;")
    start, stop, use = (label(of.function, name) for name in ("start", "stop", "use"))
    everybody = T.full(128)
    assert isinstance(path_avoiding(of, start, everybody, (use,), (stop,)), Infeasible)
    assert isinstance(path_avoiding(of, start, everybody, (use,), ()), Found)


LOOP = """
again:
    setp.eq.s32 %p1, %r1, 3;
    start: mov.u32 %r7, 1;
    {stop}
    use: add.s32 %r1, %r1, 1;
    setp.lt.s32 %p2, %r1, 100;
    @%p2 bra again;
    ret;
"""


@pytest.mark.parametrize(
    ("stop", "to", "ends", "found"),
    [
        ("stop: mov.u32 %r8, 1;", "use", ("stop",), False),
        ("stop: mov.u32 %r8, 1;", "start", ("stop",), False),
        ("@%p1 mov.u32 %r8, 1;", "start", (), True),
        ("stop: @%p1 mov.u32 %r8, 1;", "use", ("stop",), True),
        ("stop: @%p1 mov.u32 %r8, 1;", "start", ("stop",), True),
        ("stop: mov.u32 %r8, 1;", "stop", ("start",), True),
        ("stop: mov.u32 %r8, 1;", "use", ("start",), True),
    ],
)
def test_no_path_is_searched_for_in_a_loop_where_an_instruction_to_avoid_is_on_every_path(
    monkeypatch: pytest.MonkeyPatch, stop: str, to: str, ends: tuple[str, ...], found: bool
) -> None:
    """The start itself is not on the path, and an instruction under a guard may be skipped."""
    of = model(NUMBER + LOOP.format(stop=stop))
    searched: list[int] = []

    def noted(cache: object, query: PathQuery) -> Search[Path]:
        searched.append(query.start)
        return find_paths(of.search_cache, query)

    monkeypatch.setattr(role_paths, "find_paths", noted)
    start, goal, *avoided = (label(of.function, name) for name in ("start", to, *ends))
    answer = path_avoiding(of, start, T.full(128), (goal,), avoided)
    assert isinstance(answer, Found if found else Infeasible)
    assert searched == [start] * found


# ---------------------------------------------------------------- paths from the entry


def counted(rounds: str) -> KernelModel:
    return model(
        f"{NUMBER}mov.u32 %r2, 0;\nmov.u32 %r3, {rounds};\nagain: add.s32 %r2, %r2, 1;\nsetp.lt.s32 %p1, %r2, %r3;\n"
        "@%p1 bra again;\nsetp.eq.s32 %p2, %r2, 1;\n@%p2 bra end;\nuse: mov.u32 %r9, 1;\nend: ret;"
    )


def lead(of: KernelModel) -> Answer[tuple[Edge, ...]]:
    return concrete_entry_path(of.search_cache, of.cfg.block_of[label(of.function, "use")])


def test_a_loop_with_a_constant_trip_count_is_iterated() -> None:
    answer = lead(counted("8"))
    assert isinstance(answer, Found)
    assert len(answer.witness) == 1 + 7 + 1 + 1


def test_an_entry_path_that_no_iteration_allows_is_infeasible() -> None:
    of = counted("1")
    answer = lead(of)
    assert isinstance(answer, Infeasible)
    assert isinstance(answer.by, Edge)
    assert not of.ledger.unanswered


@pytest.mark.parametrize(
    ("name", "most", "why"),
    [
        ("MAX_EDGES_PER_ENTRY_PATH", 6, "more than 6 edges"),
        ("MAX_BLOCKS_PER_ENTRY_PATH", 5, "more than 5 blocks, or comparisons that take as long"),
    ],
)
def test_an_entry_path_beyond_its_budget_is_given_up(
    name: str, most: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feasible_paths, name, most)
    of = counted("8")
    site = label(of.function, "use")
    assert lead(of) == GaveUp(why, site)
    assert dict(of.ledger.unanswered) == {Unanswered(ENTRY_PATH, site, why): 1}


# ---------------------------------------------------------------- budgets


def test_a_question_about_a_path_has_a_budget_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many others were asked before about the same path."""
    monkeypatch.setattr(substitution, "MAX_EXPRESSIONS_PER_QUESTION", 8)
    body = f"{NUMBER}setp.eq.s32 %p1, %r1, 7;\n" + "".join(f"mov.u32 %r{n}, {n};\n" for n in range(2, 30))
    body += "@%p1 bra join;\n" + "".join(f"mov.u32 %r{n}, {n + 100};\n" for n in range(2, 30))
    of = model(f"{body}join: mov.u32 %r60, 1;\nend: ret;")
    path = of.entry_path(label(of.function, "join"))
    assert isinstance(path, Found)

    def numbers(names: Sequence[int]) -> dict[int, int | None]:
        along = of.values.along(path.witness.edges, frozenset())
        return {n: of.values.constant_of(along(value(of, f"%r{n}"))) for n in names}

    every = range(2, 30)
    assert numbers(every) == numbers([*reversed(every)])
    assert None not in numbers(every).values()
    assert not of.ledger.unanswered


def test_a_question_about_a_path_that_takes_too_many_expressions_is_opaque_and_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(substitution, "MAX_EXPRESSIONS_PER_QUESTION", 3)
    of = model(
        f"{NUMBER}setp.eq.s32 %p1, %r1, 7;\nmov.u32 %r2, 2;\nmov.u32 %r3, 3;\nmov.u32 %r4, 4;\n@%p1 bra join;\n"
        "mov.u32 %r2, 5;\nmov.u32 %r3, 6;\nmov.u32 %r4, 7;\njoin: xor.b32 %r5, %r2, %r3;\nxor.b32 %r5, %r5, %r4;\n"
        "xor.b32 %r5, %r5, %r2;\nend: ret;"
    )
    path = of.entry_path(label(of.function, "join"))
    assert isinstance(path, Found)
    along = of.values.along(path.witness.edges, frozenset())
    whole = value(of, "%r5")
    assert along(whole) == whole
    assert [open_.why for open_ in of.ledger.unanswered] == ["more than 3 expressions"]
    assert of.values.constant_of(along(value(of, "%r3"))) is not None


# ---------------------------------------------------------------- what analyses drop


def test_facts_dropped_at_a_branch_table_are_recorded_once() -> None:
    of = analysed(WGMMA.replace("BODY", TABLE))
    of.solution(WgmmaGroups)
    of.solution(WgmmaGroups)
    (open_,) = of.ledger.unanswered
    assert open_.question == "facts past a branch table"
    assert open_.why == "the analysis 'wgmma groups' drops its facts there"
    assert of.instruction(open_.site).flow == "branch-table"
    assert of.ledger.unanswered[open_] == 1


WGMMA = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 da, .param .u64 db, .param .u32 number) .reqntid 128
{
  .reg .b64 %rd<8>; .reg .b32 %r<90>; .reg .f32 %f<8>; .reg .pred %p<60>;
  ld.param.u64 %rd0, [p]; ld.param.u64 %rd1, [da]; ld.param.u64 %rd2, [db];
  mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
  BODY
}
"""
ISSUE = """wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0,%f1,%f2,%f3}, %rd1, %rd2, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
"""
TABLE = f""".shared .align 4 .b32 role;
{ISSUE}
ld.shared.u32 %r1, [role];
ts: .branchtargets L0, L1;
brx.idx %r1, ts;
L0: ret;
L1: ret;
"""
READ = "use: st.global.f32 [%rd0+16], %f0;\nret;"


# ---------------------------------------------------------------- --timings


@pytest.fixture
def folder(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> File:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TCLINT_DEBUG", raising=False)
    for name, number in (("few", 3), ("many", 10), ("more", 10)):
        code = maze(number, READ.removeprefix("use: "), ISSUE).replace(
            "other: ret;", "other: wgmma.wait_group.sync.aligned 0;\nret;"
        )
        (tmp_path / f"{name}.ptx").write_text(WGMMA.replace("BODY", code))
    return tmp_path


def timings(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    with pytest.raises(SystemExit):
        _cli.main(["check", "--isolated", "--timings", *arguments])
    err = capsys.readouterr().err
    return err.partition("all stages\n")[2].splitlines()


def test_a_search_that_gives_up_is_counted_with_the_timings(
    folder: File, capsys: pytest.CaptureFixture[str]
) -> None:
    assert timings(capsys, "few.ptx") == []
    (row,) = timings(capsys, "many.ptx")
    assert re.fullmatch(r"gave up +[1-9]\d*  feasible path: more than 500 states", row)


def test_kernels_with_open_questions_are_counted_in_the_last_line(
    folder: File, capsys: pytest.CaptureFixture[str]
) -> None:
    def last_line(*paths: str) -> str:
        with pytest.raises(SystemExit):
            _cli.main(["check", "--isolated", *paths])
        return capsys.readouterr().out.splitlines()[-1]

    assert "left open" not in last_line("few.ptx")
    assert "; questions left open in 1 kernel (--timings counts them)" in last_line("few.ptx", "many.ptx")


def test_json_lists_each_open_question_with_its_location(folder: File) -> None:
    (report,) = tclint.check("many.ptx").files
    text = (folder / "many.ptx").read_text()
    (question,) = report.open_questions
    assert (question.kernel, question.question, question.why) == (
        "k",
        "feasible path",
        "more than 500 states",
    )
    assert question.line == text[: text.index("wgmma.mma_async")].count("\n") + 1
    (listed,) = json.loads(render([report], FormatContext(present([report], Selected())[1])))["files"]
    assert listed["open_questions"] == [asdict(question)]


def test_an_edited_text_has_the_open_questions_of_functions_that_were_not_checked_again(folder: File) -> None:
    past = IncrementalCache()
    text = (folder / "many.ptx").read_bytes()
    first = check_source(Source(text, "k.ptx"), past=past)
    second = check_source(Source(b"// one more line\n" + text, "k.ptx"), past=past)
    assert [(q.line + 1, q.question) for q in first.open_questions] == [
        (q.line, q.question) for q in second.open_questions
    ]
    assert first.open_questions


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_give_ups_of_all_inputs_and_processes_are_counted(
    jobs: str, folder: File, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(*paths: str) -> int:
        (row,) = timings(capsys, "--jobs", jobs, *paths)
        assert row.endswith("  feasible path: more than 500 states")
        return int(row.removeprefix("gave up").split()[0])

    assert count("few.ptx", "many.ptx", "more.ptx") == 2 * count("few.ptx", "many.ptx") > 0
    monkeypatch.setenv("TCLINT_DEBUG", "1")
    _, *lines = timings(capsys, "--jobs", jobs, "few.ptx", "many.ptx", "more.ptx")
    text = (folder / "many.ptx").read_text()
    line = text[: text.index("wgmma.mma_async")].count("\n") + 1
    assert [row.partition(" (")[0] for row in lines] == [
        f"{name}.ptx:{line}: k: feasible path: more than 500 states" for name in ("many", "more")
    ]


@pytest.mark.parametrize(("wanted", "recorded"), [(2, False), (3, True)])
def test_a_question_is_open_only_if_more_than_the_limit_is_wanted(wanted: int, recorded: bool) -> None:
    ledger = Ledger()
    tried = list(islice(ledger.at_most(2, range(5), "question", 7, "candidates"), wanted))
    assert tried == [0, 1]
    open_ = Unanswered("question", 7, "more than 2 candidates")
    assert dict(ledger.unanswered) == ({open_: 1} if recorded else {})


def test_as_many_candidates_as_the_limit_leave_nothing_open() -> None:
    ledger = Ledger()
    assert list(ledger.at_most(2, range(2), "question", 7, "candidates")) == [0, 1]
    assert not ledger.unanswered
