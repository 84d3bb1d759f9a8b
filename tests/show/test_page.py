"""``tclint show``: the data of a page, the positions of blocks, the page as text, and the command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tclint.inspect.in_flight import CHANNELS
from tclint.ir.frontend import analyse
from tclint.isa.effects import Barrier
from tclint.linting.check import check_source
from tclint.show.flight import in_flight_facts
from tclint.show.kernel import kernel as describe
from tclint.show.layout import GAP_X, HEIGHT, WIDTH, layout
from tclint.show.page import render
from tclint.syntax.source import Source
from tests.tools.project import PACKAGE, ROOT
from tests.tools.show import LOCATED, NASTY, page_data
from tests.tools.support import HOPPER, WGMMA, kernel, model, module

FIXTURES = ROOT / "fixtures"


def fixture(name: str, entry: str | None = None) -> dict[str, Any]:
    return page_data((FIXTURES / name).read_text(), entry)


def facts_before(data: dict[str, Any], at: int) -> set[tuple[str, int, str]]:
    """``(channel, instruction that began it, words)`` as the page works it out from the changes."""
    now: set[int] = set()
    for where, come, gone in data["flight"]["changes"]:
        if where > at:
            break
        assert now.issuperset(gone)
        assert now.isdisjoint(come)
        now = (now - set(gone)) | set(come)
    facts = (data["flight"]["facts"][n] for n in now)
    return {(data["flight"]["channels"][f[0]], f[1], data["words"][f[2]]) for f in facts}


def site(data: dict[str, Any], text: str, times: int = 0) -> int:
    found: int = [i for i, line in enumerate(data["text"]) if text in line][times]
    return found


# ---------------------------------------------------------------- what is in flight


def test_groups_age_along_a_pipelined_loop() -> None:
    data = page_data(
        module(
            kernel(
                f"""
    wgmma.fence.sync.aligned;
    {WGMMA}
    wgmma.commit_group.sync.aligned;
    {WGMMA}
    wgmma.wait_group.sync.aligned 1;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    ret;
"""
            ),
            header=HOPPER,
        )
    )
    first, second = site(data, "mma_async"), site(data, "mma_async", 1)
    assert facts_before(data, first) == set()
    assert facts_before(data, first + 1) == {("wgmma", first, "not committed")}
    assert facts_before(data, second) == {("wgmma", first, "in the newest group")}
    assert facts_before(data, second + 2) == {
        ("wgmma", first, "in the newest group"),
        ("wgmma", second, "not committed before a wait"),
    }
    assert facts_before(data, len(data["text"]) - 1) == set()


@pytest.mark.parametrize("name", ["tcgen05_gemm.ptx", "wgmma_pipelined.ptx", "tcgen05_role_table.ptx"])
def test_the_changes_say_what_the_analyses_say_at_every_instruction(name: str) -> None:
    source = Source.read(FIXTURES / name)
    found, _ = analyse(source)
    from tclint.analyses.model import KernelModel

    for function in (f for f in found.functions if f.instructions):
        of = KernelModel(function, found)
        changes = {at: (come, gone) for at, come, gone in in_flight_facts(of).changes}
        now: set[Any] = set()
        for i in range(len(function.instructions)):
            come, gone = changes.get(i, ((), ()))
            now = (now - set(gone)) | set(come)
            want = set()
            if of.cfg.block_of[i] in of.cfg.rank:
                for number, channel in enumerate(CHANNELS):
                    analysis, results = of.solution(channel.analysis)
                    want |= {(number, *fact) for fact in channel.render(analysis, results.before(i), of)}
            assert {(f.channel, f.site, f.words, f.ring) for f in now} == want, i


def test_loads_multiplications_and_mbarriers_are_shown() -> None:
    data = fixture("tcgen05_gemm.ptx")
    first = data["protocol"]["rings"]
    assert first == ["full[2]", "empty[2]", "acc_full", "acc_empty"]
    multiply = site(data, "tcgen05.mma")
    commit = site(data, "tcgen05.commit")
    assert ("tcgen05", multiply, "not committed") in facts_before(data, multiply + 1)
    assert ("tcgen05", multiply, "not committed") not in facts_before(data, commit + 1)
    wait = max(i for i in range(multiply) if "try_wait" in data["text"][i])
    assert ("mbarrier", wait, "last wait") in facts_before(data, multiply)
    reads = {data["words"][n] for n in data["touches"][str(multiply)]}
    assert any(words.startswith("reads shared memory tile_a") for words in reads), reads
    assert any("of tensor memory" in words for words in reads), reads


def test_a_wait_makes_the_last_word_about_its_mbarrier() -> None:
    of = model(
        """
    .shared .align 8 .b64 bar;
    mbarrier.init.shared::cta.b64 [bar], 1;
    bar.sync 0;
    mbarrier.arrive.shared::cta.b64 _, [bar];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra wait;
    ret;
"""
    )
    changes = [
        (at, [f.words for f in come], [f.words for f in gone])
        for at, come, gone in in_flight_facts(of).changes
    ]
    (arrive,), (wait,) = of.arrives(Barrier.MBARRIER), of.awaits(Barrier.MBARRIER)
    assert (arrive + 1, ["arrived", "last wait"], []) in changes  # the head of the loop, in any round
    assert (wait + 1, [], ["arrived"]) in changes


# ---------------------------------------------------------------- roles, graph, findings


def test_roles_are_the_sets_of_threads_that_have_blocks_of_their_own() -> None:
    data = fixture("tcgen05_gemm.ptx")
    who = [data["words"][role["who"]] for role in data["roles"]]
    assert "warps 4-7" in who
    assert "elected lane of warp 1" in who
    assert "all threads" not in who
    assert {data["words"][block["who"]] for block in data["blocks"]} == {*who, "all threads"}


def test_partitions_and_elected_lanes_are_named() -> None:
    table = (FIXTURES / "tcgen05_role_table.ptx").read_text()
    for text, roles in (
        (table.replace("roles", "global_smem"), {"warps 0-3", "warps 4-5"}),
        (table, {"partition 0", "partition 1", "partition 2"}),
    ):
        data = page_data(text, "role_table_ok")
        assert roles <= {data["words"][role["who"]] for role in data["roles"]}
        assert any(block["dispatches"] for block in data["blocks"])
    elected = page_data(
        module(
            kernel(
                """
    .shared .align 8 .b64 bar;
    elect.sync _|%p1, -1;
    @!%p1 bra done;
    mbarrier.init.shared::cta.b64 [bar], 1;
done:
    ret;
"""
            )
        )
    )
    assert "elected lane of each warp" in {elected["words"][role["who"]] for role in elected["roles"]}


def test_edges_say_what_decides_them_and_which_close_loops() -> None:
    data = fixture("tcgen05_gemm.ptx")
    back = [(a, b) for a, b, closing, *_ in data["edges"] if closing]
    heads = {loop["head"] for loop in data["loops"]}
    assert back
    assert {b for _, b in back} == heads
    assert any(condition.startswith("!%p") for _, _, _, condition, _ in data["edges"])


def test_findings_carry_their_steps_as_instructions() -> None:
    data = fixture("tcgen05_gemm_uncommitted.ptx")
    (finding,) = data["findings"]
    assert finding["rule"] == "TC005"
    assert [data["text"][step["site"]].split()[0] for step in finding["steps"]] == [
        "tcgen05.mma.cta_group::1.kind::f16",
        "@%p11",  # ends the role without a commit
        "ret;",
    ]
    assert all(step["role"] == "lane 0 of warp 1" for step in finding["steps"])
    assert data["rules"]["TC005"]["why"]


def test_what_execution_saw_is_there() -> None:
    from tclint.findings.finding import Confirmation, Step
    from tclint.findings.spans import Span

    text = (FIXTURES / "tcgen05_gemm_uncommitted.ptx").read_text()
    source = Source.from_bytes(text.encode(), "kernel.ptx")
    found, _ = analyse(source)
    report = check_source(source)
    from dataclasses import replace

    function = next(f for f in found.functions if f.instructions)
    last = function.instructions[-1]
    seen = Step(Span(function.start + last.start, function.start + last.end), "ends here", role="thread 32")
    confirmation = Confirmation("confirmed", schedule="lazy", observation="never completed", steps=(seen,))
    (only,) = report.findings
    reported = replace(only, confirmation=confirmation, steps=(*only.steps, seen))
    (finding,) = describe(source, found, function, replace(report, findings=(reported,)))["findings"]
    assert len(finding["steps"]) == len(only.steps)
    assert finding["confirmation"]["words"] == "confirmed (lazy): never completed"
    assert finding["confirmation"]["steps"][0]["site"] == len(function.instructions) - 1


def test_the_tables_are_those_of_tclint_barriers(run_tclint: Any) -> None:
    data = fixture("tcgen05_gemm.ptx")
    printed = run_tclint("barriers", str(FIXTURES / "tcgen05_gemm.ptx"), "--color", "never").stdout
    for section in data["protocol"]["sections"]:
        assert section["title"] in printed
        for cells, _ in section["rows"]:
            assert re.search(r"\s+".join(re.escape(cell) for cell in cells if cell), printed), cells


def test_a_kernel_without_control_flow_or_findings() -> None:
    data = page_data(module(kernel("ret;")))
    assert data["text"] == ["ret;"]
    assert data["flight"]["changes"] == []
    assert data["size"][:2] == [WIDTH, HEIGHT]


# ---------------------------------------------------------------- positions of blocks


def test_boxes_do_not_overlap_and_edges_lead_down_but_for_loops() -> None:
    order = [0, 1, 2, 3, 4, 5, 6, 7]
    edges = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 5), (4, 6), (5, 6), (6, 0), (6, 7), (0, 7), (5, 5)]
    laid = layout(order, edges)
    boxes = list(laid.boxes.values())
    for k, (x, y) in enumerate(boxes):
        assert 0 <= x <= laid.width - WIDTH
        assert 0 <= y <= laid.height - HEIGHT
        for u, v in boxes[:k]:
            assert y != v or abs(x - u) >= WIDTH + GAP_X - 1
    for a, b, back, points in laid.edges:
        assert back == (order.index(b) <= order.index(a))
        assert (points[0][1] < points[-1][1]) == (not back)
        for x, y in points:
            assert 0 <= x <= laid.width
            assert -12 <= y <= laid.height + 12


def test_an_empty_graph_has_no_size() -> None:
    assert layout([], []).boxes == {}


# ---------------------------------------------------------------- source text


def located(name: str, folder: Path | None) -> dict[str, Any]:
    return page_data(LOCATED.replace("NAME", name), sources=folder)


def test_lines_come_from_files_below_the_folder_only(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "secret.py"
    (root / "src").mkdir(parents=True)
    (root / "src/gemm.py").write_text("one\ntwo\nthree\nfour\nfive\n")
    (root / "notes.txt").write_text("one\ntwo\n")
    outside.write_text("one\nsecret\n")
    (root / "link.py").symlink_to(outside)
    inside = str(root / "src/gemm.py")
    lines = {"1": "one", "2": "two", "3": "three", "4": "four"}
    assert located(inside, root)["sources"] == {inside: lines}
    assert located("src/gemm.py", root)["sources"] == {"src/gemm.py": lines}
    assert located("/build/elsewhere/src/gemm.py", root)["sources"] == {"/build/elsewhere/src/gemm.py": lines}
    assert located(inside, None)["sources"] == {}
    for name in (str(outside), "../secret.py", "link.py", "notes.txt", "absent.py", "x" * 5000 + ".py"):
        assert located(name, root)["sources"] == {}, name


# ---------------------------------------------------------------- the page as text


def test_nothing_from_the_input_is_markup() -> None:
    text = LOCATED.replace("NAME", NASTY.replace('"', "'")).replace("ret;", f"ret; // {NASTY}")
    data = page_data(text)
    assert NASTY in data["text"][0]
    assert "onerror" in data["files"][0]
    html = render({**data, "name": NASTY})
    assert "<img" not in html
    assert html.count("</script>") == 2
    assert html.count("<script") == 2
    embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert embedded is not None
    assert json.loads(embedded[1])["text"] == data["text"]


def test_the_page_is_self_contained() -> None:
    html = render(page_data(module(kernel("ret;"))))
    assert "{{" not in html
    assert not re.search(
        r"""(?:src|href)\s*=\s*(?!["']?#)|url\((?!#)|@import|\bfetch\(|XMLHttpRequest""", html
    )
    assert "default-src 'none'" in html
    assert "innerHTML" not in html


def test_what_is_in_flight_is_not_repeated() -> None:
    """The data of twice as long a kernel with twice as much in flight are twice as long, not four times."""
    sizes = []
    for times in (100, 200, 400):
        body = f"wgmma.fence.sync.aligned;\n{WGMMA}\n" * times
        data = page_data(module(kernel(body + "wgmma.commit_group.sync.aligned;\nret;"), header=HOPPER))
        sizes.append(len(json.dumps(data["flight"])))
    assert sizes[2] - sizes[1] < 2.3 * (sizes[1] - sizes[0])


def luminance(color: tuple[float, float, float]) -> float:
    parts = [c / 255 for c in color]
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(a: tuple[float, float, float], b: tuple[float, float, float]) -> float:
    """WCAG 2.2, 1.4.3."""
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_have_the_contrast_that_wcag_asks_for(theme: int) -> None:
    css = (PACKAGE / "show/colors.css").read_text()
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", css)
    colors = {name: tuple(int(both[theme][k : k + 2], 16) for k in (1, 3, 5)) for name, *both in found}
    roles = [name for name in colors if name.startswith("role-")]
    assert len(roles) == 8
    severities = ["error", "warning", "info"]
    for role in [*roles, "strong-line"]:
        mixed = zip(colors[role], colors["raised"], strict=True)
        colors[f"tint of {role}"] = tuple(0.09 * a + 0.91 * b for a, b in mixed)
    tints = [name for name in colors if name.startswith("tint")]
    surfaces = ["paper", "panel", "raised", "selected"]
    texts = {
        "ink": [*surfaces, "found", *tints],
        "dim": [*surfaces, *tints],
        "accent": surfaces,
        "opcode": ["paper", "selected", "found"],
        "register": ["paper", "selected", "found"],
        "chip-ink": [*roles, *severities],
        **{role: ["paper", "panel", "selected", "found"] for role in roles},
        **{name: ["paper", "panel", "raised", *tints] for name in severities},
    }
    low = {
        (text, on): round(contrast(colors[text], colors[on]), 2)
        for text, backgrounds in texts.items()
        for on in backgrounds
        if contrast(colors[text], colors[on]) < 4.5
    }
    assert low == {}
    for line in ("strong-line", "accent", *roles):  # 1.4.11
        assert contrast(colors[line], colors["panel"]) >= 3, line


# ---------------------------------------------------------------- the command


@pytest.fixture
def show(run_tclint: Any) -> Any:
    """Runs the command, which must exit with *code*."""

    def run(*args: str, code: int = 0, **options: Any) -> Any:
        done = run_tclint("show", *args, **({"stdin": None} if "input" in options else {}), **options)
        assert done.returncode == code, done.stderr
        return done

    return run


TWO = module(kernel("ret;", "one"), kernel("ret;", "two"))


def test_the_page_gets_a_name_and_says_which_kernel_it_is(show: Any, tmp_path: Path) -> None:
    done = show(str(FIXTURES / "wgmma_unwaited.ptx"), cwd=tmp_path)
    assert done.stdout == ""
    assert done.stderr == "wgmma_unwaited.tclint.html: gemm_unwaited_bad\n"
    assert (tmp_path / "wgmma_unwaited.tclint.html").read_text().startswith("<!doctype html>")


def test_standard_input_and_output(show: Any) -> None:
    done = show("-", "-o", "-", input=TWO, code=2)
    assert "choose one with --entry" in done.stderr
    done = show("-", "-o", "-", "--entry", "two", input=TWO)
    assert done.stdout.startswith("<!doctype html>")
    assert "<title>two - tclint</title>" in done.stdout


def test_of_several_kernels_the_one_with_findings_is_shown(show: Any, tmp_path: Path) -> None:
    bad = (FIXTURES / "wgmma_unwaited.ptx").read_text()
    (tmp_path / "a.ptx").write_text(bad + kernel("ret;", "clean"))
    done = show("a.ptx", cwd=tmp_path)
    assert done.stderr == "a.tclint.html: gemm_unwaited_bad\n"
    (tmp_path / "two.ptx").write_text(TWO)
    done = show("two.ptx", cwd=tmp_path, code=2)
    assert "two.ptx has 2 kernels; choose one with --entry:\n  one\n  two\n" in done.stderr
    assert not (tmp_path / "two.tclint.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.ptx"], "absent.ptx: no such file or directory"),
        (["two.ptx", "--entry", "twi"], "no function matches 'twi'; did you mean two?"),
        (["two.ptx", "--entry", "one", "-o", "two.ptx"], "two.ptx is an input and would be overwritten"),
        (["two.ptx", "--entry", "one", "-o", "no/such/a.html"], "there is no folder no/such"),
        (["two.ptx", "--entry", "one", "-o", "."], ". is a folder, not a file"),
        (["two.ptx", "--sources", "absent"], "Directory 'absent' does not exist"),
        (["*.ptx"], "has 2 modules, but show draws one kernel"),
        (["two.ptx", "--select", "NOPE"], "unknown rule 'NOPE'"),
    ],
)
def test_errors_of_the_command_are_reported(
    show: Any, tmp_path: Path, arguments: list[str], message: str
) -> None:
    for name in ("two.ptx", "other.ptx"):
        (tmp_path / name).write_text(TWO)
    before = sorted(path.name for path in tmp_path.iterdir())
    done = show(*arguments, cwd=tmp_path, code=2)
    assert message in done.stderr.replace("\n", " ")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "two.ptx").read_text() == TWO


def test_a_page_has_verdicts_if_they_are_asked_for(show: Any) -> None:
    page = show(str(FIXTURES / "wgmma_unwaited.ptx"), "--verdict", "-o", "-").stdout
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert data is not None
    verdicts = {one["class"]: one for one in json.loads(data[1])["verdicts"]}
    assert verdicts["wgmma"]["status"] == "violated"
    assert "WG001" in verdicts["wgmma"]["why"]
    assert "verdicts" not in fixture("wgmma_unwaited.ptx")


def test_settings_choose_the_findings(show: Any) -> None:
    path = str(FIXTURES / "tcgen05_gemm_uncommitted.ptx")
    assert '"rule":"TC005"' in show(path, "-o", "-").stdout
    assert '"rule":"TC005"' not in show(path, "-o", "-", "--ignore", "TC005").stdout


def test_a_kernel_with_a_syntax_error_is_drawn_and_not_called_analysed(show: Any, tmp_path: Path) -> None:
    (tmp_path / "a.ptx").write_text(module(kernel("mov.u32 %r1, %r2\n ) ;\nret;")))
    done = show("a.ptx", cwd=tmp_path, code=2)
    assert "error: a.ptx:" in done.stderr
    assert (tmp_path / "a.tclint.html").exists()
