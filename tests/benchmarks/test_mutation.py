"""The tool that plants faults: every operator has its kernel among the pages of the rules, and what is planted is found."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from benchmarks import mutation
from benchmarks.faults import OPERATORS, Fault, Kernel, apply
from benchmarks.locations import located
from benchmarks.mutation import kernels, table, verdict
from tclint.findings.finding import BlockedWait, Edit, Fix, Step
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence, Severity
from tclint.findings.spans import Span
from tclint.syntax.source import Source
from tests.tools.findings import RULE, finding, report
from tests.tools.project import ROOT

ELSEWHERE = """\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry others(.param .u64 in)
.reqntid 128
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    .shared .align 16 .b8 tile[64];
    .shared .align 8 .b64 bar;
    ld.param.u64 %rd1, [in];
    mov.u64 %rd2, tile;
    mbarrier.init.shared.b64 [bar], 1;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 32;
    mbarrier.arrive.shared::cta.b64 _, [bar], 2;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%rd2], [%rd1], 16, [bar];
    fence.proxy.async;
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    st.shared.u32 [tile], %r1;
    vote.sync.any.pred %p1, %p0, 0xffffffff;
    griddepcontrol.wait;
    ret;
}
"""

ROLES = """\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry both_wait(.param .u64 in, .param .u64 out)
.reqntid 128
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 64;
    @%p1 bra first;
    griddepcontrol.wait;
    ld.global.u32 %r2, [%rd1];
    st.global.u32 [%rd2], %r2;
    ret;
first:
    griddepcontrol.wait;
    ld.global.u32 %r2, [%rd1+4];
    st.global.u32 [%rd2+4], %r2;
    ret;
}
"""


@cache
def corpus(folder: Path) -> list[Path]:
    """The modules of all rule pages that are right, the fixtures, and what none of them has."""
    texts = [block.code for rule in all_rules().values() for block in rule.corrections]
    for number, text in enumerate([*texts, ELSEWHERE, ROLES]):
        (folder / f"{number}.ptx").write_text(text)
    return [*sorted(folder.glob("*.ptx")), *sorted((ROOT / "fixtures").glob("*.ptx"))]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Kernel]]:
    folder = tmp_path_factory.mktemp("pages")
    return [(path, kernel) for path in corpus(folder) for kernel in kernels(path)]


def planted(pages: list[tuple[Path, Kernel]], name: str) -> Iterator[tuple[Path, Kernel, Fault]]:
    for path, kernel in pages:
        for fault in OPERATORS[name].plant(kernel):
            yield path, kernel, fault


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_changes_a_kernel_and_leaves_its_lines(
    pages: list[tuple[Path, Kernel]], name: str
) -> None:
    made = list(islice(planted(pages, name), 5))
    assert made, "no kernel of the pages has a place for it"
    for _, kernel, fault in made:
        changed = apply(kernel.data, fault.edits)
        assert changed != kernel.data
        assert changed.count(b"\n") == kernel.data.count(b"\n")


def test_a_look_ahead_is_not_a_loop(pages: list[tuple[Path, Kernel]]) -> None:
    """Nothing repeats it: without its branch, the wait after it is executed in any case."""
    found = [
        f
        for _, kernel, f in planted(pages, "mbarrier wait asked once")
        if kernel.function.name == "looks_ahead"
    ]
    assert [f.note for f in found] == ["mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0;"]


@pytest.mark.parametrize(
    ("use", "faults"), [("wgmma.fence.sync.aligned;", 1), ("griddepcontrol.wait;", 0), ("bar.sync 0;", 0)]
)
def test_a_suffix_that_no_instruction_needs_may_be_dropped(use: str, faults: int, tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(
        f".version 8.0\n.target sm_90a\n.address_size 64\n.entry k()\n{{\n{use}\nret;\n}}\n"
    )
    (kernel,) = kernels(tmp_path / "k.ptx")
    assert len(list(OPERATORS["target without its suffix"].plant(kernel))) == faults


def test_a_wait_for_earlier_grids_is_missing_only_where_another_role_waits(tmp_path: Path) -> None:
    (tmp_path / "one.ptx").write_text(ELSEWHERE)
    (tmp_path / "two.ptx").write_text(ROLES)
    (one,), (two,) = kernels(tmp_path / "one.ptx"), kernels(tmp_path / "two.ptx")
    found = [list(OPERATORS["griddepcontrol.wait deleted"].plant(kernel)) for kernel in (one, two)]
    assert list(map(len, found)) == [0, 2]


@pytest.mark.parametrize(("address", "faults"), [("tile", 0), ("tile+4", 0), ("%r1", 1), ("%r1+4", 1)])
def test_an_address_that_names_its_variable_keeps_its_space(
    address: str, faults: int, tmp_path: Path
) -> None:
    (tmp_path / "k.ptx").write_text(
        ".version 8.0\n.target sm_90\n.address_size 64\n.entry k()\n{\n.reg .b32 %r<4>;\n.shared .b32 tile[4];\n"
        f"st.shared.b32 [{address}], %r2;\nret;\n}}\n"
    )
    (kernel,) = kernels(tmp_path / "k.ptx")
    assert len(list(OPERATORS["state space .shared dropped"].plant(kernel))) == faults


NOTED = ("mbarrier.init done twice", "fence after mbarrier.init deleted")
"""Faults of which a rule only takes note, as kernels that work have them."""


def quiet(name: str) -> set[str]:
    """The verdicts of an operator about which only rules speak that are notes, or not sure, by their pages."""
    about = [all_rules()[id] for id in OPERATORS[name].rules]
    return {
        what
        for what, always in (
            ("note", name in NOTED or any(rule.severity is Severity.INFO for rule in about)),
            ("low", all(rule.confidence is Confidence.LOW for rule in about)),
        )
        if always
    }


@pytest.mark.parametrize("name", [name for name, o in OPERATORS.items() if o.rules])
def test_a_fault_is_found_in_some_kernel(pages: list[tuple[Path, Kernel]], name: str) -> None:
    """What share of the real ones is found is for the benchmark to say."""
    assert OPERATORS[name].rules <= set(all_rules())
    verdicts = []
    for path, kernel, fault in islice(planted(pages, name), 150):
        before = mutation.lint(path, kernel.data)
        after = mutation.lint(path, apply(kernel.data, fault.edits))
        lines = frozenset(kernel.data.count(b"\n", 0, kernel.span(i).start) + 1 for i in fault.places)
        verdicts.append(verdict(before, after, OPERATORS[name].rules, lines).result)
        if verdicts[-1] in ("found", *quiet(name)):
            return
    raise AssertionError(verdicts)


SOURCE = Source.from_bytes(b"one\ntwo\nthree\n", "a.ptx")
OLD = finding(SOURCE, "one")
NEW = finding(SOURCE, "two")


@pytest.mark.parametrize(
    ("changes", "rules", "lines", "expected"),
    [
        ({}, {RULE.id}, {2}, "found"),
        ({}, {RULE.id}, set(), "found"),
        ({}, {RULE.id}, {3}, "other"),
        ({}, {"XX001"}, {2}, "other"),
        ({"severity": Severity.INFO}, {RULE.id}, {2}, "note"),
        ({"confidence": Confidence.LOW}, {RULE.id}, {2}, "low"),
    ],
)
def test_a_verdict_is_about_new_findings_of_the_right_rule_at_the_right_place(
    changes: dict[str, object], rules: set[str], lines: set[int], expected: str
) -> None:
    before = report(SOURCE, OLD)
    after = report(SOURCE, OLD, finding(SOURCE, "two", **changes))
    assert verdict(before, after, frozenset(rules), frozenset(lines)).result == expected
    assert verdict(before, before, frozenset(rules), frozenset(lines)).result == "missed"
    twice = report(SOURCE, NEW, NEW)
    assert verdict(report(SOURCE, NEW), twice, frozenset((RULE.id,)), frozenset((2,))).result == "found"


def test_a_change_is_located_by_what_lies_within_three_lines() -> None:
    source = Source.from_bytes(b"".join(b"line%02d\n" % i for i in range(1, 21)), "a.ptx")

    def span(line: int) -> Span:
        return Span(7 * (line - 1), 7 * line - 1)

    wait, arrival = Step(span(9), "waits"), Step(span(13), "arrives")
    found = replace(
        finding(source, "line01"),
        steps=(Step(span(5), "one"),),
        deadlock=(BlockedWait(wait, (arrival,)),),
        fixes=(Fix("add it", (Edit(span(18), "new"),), True),),
    )
    how = {line: located(source, [found], [line]) for line in range(1, 21)}
    assert [line for line, one in how.items() if one == "primary"] == [1, 2, 3, 4]
    assert [line for line, one in how.items() if one == "step"] == [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
    assert [line for line, one in how.items() if one == "edit"] == [17, 18, 19, 20]
    assert located(source, [replace(found, fixes=())], [19, 20]) == ""
    assert located(source, [found], [20, 2]) == "primary"


def test_comments_do_not_count_as_lines_of_code() -> None:
    asm = b"// begin inline asm\nwait;\n// end inline asm\n\n.loc 1 2 3\n"
    source = Source.from_bytes(b"first;\n" + asm * 4, "a.ptx")
    first = finding(source, "first")
    assert [located(source, [first], [line]) for line in (3, 8, 13, 18)] == ["primary", "code", "code", ""]


def test_the_table_of_places_sums_up_what_locates_a_change() -> None:
    fault = "wgmma.fence deleted"
    records = [
        {"operator": fault, "producer": "a", "verdict": "found", "located": how}
        for how in ("primary", "step", "step", "edit", "code", "")
    ]
    missed = {"operator": fault, "producer": "a", "verdict": "missed", "cause": "memory"}
    lines = table([*records, missed]).splitlines()
    assert "| wgmma.fence deleted | 6 | 1 | 3 | 4 | 5 | 17% | 50% | 67% | 83% |" in lines
    assert "| all | 6 | 1 | 3 | 4 | 5 | 17% | 50% | 67% | 83% |" in lines


def test_edits_are_made_from_the_end() -> None:
    edits = (Edit(Span(0, 1), "ab"), Edit(Span(2, 2), "!"))
    assert apply(b"x y", edits) == b"ab !y"
    with pytest.raises(AssertionError):
        apply(b"x y", (Edit(Span(0, 1), "\n"),))


def test_a_run_is_reproducible_and_can_be_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kernels" / "pages"
    folder.mkdir(parents=True)
    corpus(folder)

    def run(*options: str) -> str:
        arguments = [str(tmp_path / "kernels"), "--each", "2", "--operator", "wgmma.*deleted", *options]
        monkeypatch.setattr(sys, "argv", ["mutation", *arguments])
        mutation.main()
        return capsys.readouterr().out

    first = run("--output", str(tmp_path / "a.jsonl"))
    assert "| wgmma.fence deleted | 2 |" in first
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert {record["producer"] for record in records} == {"pages"}
    assert run() == first
    assert run("--replay", str(tmp_path / "a.jsonl")) == first
    assert table(records) + "\n" == first
    assert run("--write", str(tmp_path / "mutants")) == f"{len(records)} mutants\n"
    for path, record in zip(sorted((tmp_path / "mutants").iterdir()), records, strict=True):
        written, (start, _, text) = path.read_bytes(), record["edits"][0]
        assert path.name.endswith(record["file"].removeprefix("pages/"))
        assert written[start : start + len(text)] == text.encode()
        assert written != (tmp_path / "kernels" / record["file"]).read_bytes()
    for path in folder.glob("*.ptx"):
        path.write_text(path.read_text() + "// another build\n")
    assert run("--replay", str(tmp_path / "a.jsonl")) == "\n"


COPIED = """\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry stored(.param .u64 out)
{
    .reg .b64 %out;
    .shared .align 16 .b8 tile[64];
    ld.param.u64 %out, [out];
    st.shared.u32 [tile], 1;
    fence.proxy.async;
    cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ret;
}
"""


def test_what_only_the_letter_forbids_is_found_with_strict_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "made").mkdir()
    for number in range(5):
        (tmp_path / "made" / f"{number}.ptx").write_text(f"{COPIED}// {number}\n")
    (tmp_path / "made" / "large.ptx").write_text(f"{COPIED}//{'.' * 1000}\n")

    def run(*options: str) -> str:
        arguments = [str(tmp_path), "--each", "1", "--operator", "bulk wait_group deleted"]
        drawn = ["--files", "3", "--largest", "1000", "--no-ptxas", "--strict", *options]
        monkeypatch.setattr(sys, "argv", ["mutation", *arguments, *drawn])
        mutation.main()
        return capsys.readouterr().out

    first = run("--output", str(tmp_path / "a.jsonl"))
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert len({r["file"] for r in records} - {"made/large.ptx"}) == 3
    assert [(r["verdict"], r["default"]) for r in records] == [("found", "missed")] * 3
    (row,) = (line for line in first.splitlines() if line.startswith("| bulk wait_group deleted | 3 | 0 | 3"))
    assert row.endswith("| 100% | 0 |")
    assert run("--jobs", "2") == first


def test_a_folder_without_kernels_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mutation", str(tmp_path)])
    with pytest.raises(SystemExit, match="no fault can be planted"):
        mutation.main()
