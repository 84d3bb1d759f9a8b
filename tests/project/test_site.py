"""The documentation: its pages, the site made of them, the check of its links, the table of fixes, and the man page."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tclint import commands as known
from tclint.findings.rules import all_rules, url
from tclint.findings.selection import Selected
from tclint.isa.table import table
from tclint.report.formats import renderer
from tclint.report.summary import FormatContext, present
from tests.tools.project import PACKAGE, ROOT

SITE = ROOT / "docs" / "site"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The modules of docs/site by name; they are no package, since nothing of them is installed."""
    monkeypatch.syspath_prepend(str(SITE))
    names = [path.stem for path in SITE.glob("*.py")]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield lambda name: importlib.import_module(name)
    for name in names:
        sys.modules.pop(name, None)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def visible() -> list[str]:
    """The commands that ``--help`` lists."""
    loaded = {name: known.load(name) for name in known.names()}
    return [name for name, command in loaded.items() if command is not None and not command.hidden]


# ---------------------------------------------------------------- pages


def test_every_rule_form_and_command_has_its_place(site: Any, tmp_path: Path) -> None:
    site("generate").generate(tmp_path)
    docs = tmp_path / "docs"
    assert {path.stem for path in (docs / "rules").iterdir()} == set(all_rules())
    described = "".join(path.read_text(encoding="utf-8") for path in (docs / "isa").glob("*.md"))
    assert {form.name for form in table()} <= set(re.findall(r"^## (\S+)$", described, re.MULTILINE))
    assert {path.stem for path in (docs / "commands").iterdir()} >= {*visible(), "index"}
    nav = (tmp_path / "zensical.toml").read_text(encoding="utf-8")
    pages = [path.relative_to(docs).as_posix() for path in docs.rglob("*.md")]
    assert [page for page in pages if f'"{page}"' not in nav] == []


def test_the_page_of_a_rule_links_to_the_manual_and_to_related_rules(site: Any) -> None:
    page = site("generate").rule_page(all_rules()["TM006"])
    assert "| PTX ISA 9.1 | [9.7.16." in page
    assert "(https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-" in page
    assert re.search(r"^\| Related \|.*\[TC003\]\(TC003\.md\)", page, re.MULTILINE)
    assert "`tclint explain TM006`" in page
    assert not re.search(r"```ptx[^`]*\[TC", page), "code is left alone"


def test_a_section_without_a_known_anchor_leads_to_the_one_above(site: Any) -> None:
    generate = site("generate")
    assert generate.manual("9.7.15.7.3").endswith(
        "#asynchronous-warpgroup-level-matrix-instructions-wgmma-wait-group"
    )
    assert generate.manual("9.7.15.7.3.99") == generate.manual("9.7.15.7.3")
    assert generate.manual("1") == generate.MANUAL


def test_links_are_those_of_the_repository(site: Any) -> None:
    generate = site("generate")

    def relinked(text: str, base: str = "") -> str:
        changed: str = generate._relinked(text, "docs/output.md", base)
        return changed

    assert relinked("[a](../rules/WG001.md#example)") == "[a](../rules/WG001.md#example)"
    assert relinked("[a](../README.md)") == "[a](../index.md)"
    assert relinked("[a](../rules) [b](#json)") == "[a](rules.md) [b](#json)"
    assert relinked("[ci.md](ci.md#gitlab)") == "[In CI](ci.md#gitlab)"
    assert relinked("[a](../LICENSE)") == "a"
    assert relinked("[a](../LICENSE)", "https://example.org/x/") == "[a](https://example.org/x/LICENSE)"
    with pytest.raises(generate.PageError, match=r"docs/output\.md links to nowhere\.md"):
        relinked("[a](nowhere.md)")
    assert generate._outside_code("`[a](b)` [c](d)\n```\n[e](f)\n```\n", str.upper) == (
        "`[a](b)` [C](D)\n```\n[e](f)\n```\n"
    )


def test_ptx_is_coloured_by_the_grammar_whether_it_is_a_module_or_statements(site: Any) -> None:
    highlighted = site("ptx_fence").highlighted
    opcode = '<span class="nf">wgmma.fence.sync.aligned</span>'
    assert opcode in highlighted("wgmma.fence.sync.aligned;\nmov.u32 %r0, 1;")
    assert opcode in highlighted(
        ".version 8.0\n.target sm_90a\n.visible .entry k()\n{\n wgmma.fence.sync.aligned;\n}\n"
    )
    text = 'a < b & "c" // é𝄞\n'
    assert re.sub(r"<[^>]*>", "", highlighted(text)) == 'a &lt; b &amp; "c" // é𝄞\n'


# ---------------------------------------------------------------- the built site


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("zensical is not installed")
    folder = tmp_path_factory.mktemp("built")
    done = run(SITE / "build.py", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


# How wide a page is, what of it is beyond the screen and cannot be scrolled to, the size of its smallest text in pixels,
# the number of commands, and those that do not fit.
MEASURED = """() => {
  const width = document.documentElement.clientWidth;
  const scrolls = (e) => e && (["auto", "scroll"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  const beyond = (e) => e.getBoundingClientRect().right > width + 1 && !scrolls(e.parentElement);
  const all = (selector) => [...document.querySelectorAll(selector)];
  return {
    wide: document.documentElement.scrollWidth > width,
    beyond: all("article *").filter(beyond).map((e) => e.outerHTML.slice(0, 80)),
    smallest: Math.min(...all("article :is(p, li, td, pre code)").map((e) => parseFloat(getComputedStyle(e).fontSize))),
    commands: all("article .language-sh code").length,
    cut: all("article .language-sh code").filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent),
  };
}"""


@pytest.mark.slow
def test_the_site_is_readable_on_a_telephone(built: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    chromium = os.environ.get("TCLINT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium")
    commands = 0
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.route(
            "**/*",
            lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort(),
        )
        for file in sorted(built.rglob("index.html")):
            if file.parent.parent.name == "rules" and file.parent.name not in ("WG001", "TC025"):
                continue  # they are alike
            page.goto(file.as_uri())
            found = page.evaluate(MEASURED)
            assert (found["wide"], found["beyond"], found["cut"]) == (False, [], []), file
            assert found["smallest"] >= 12, file
            commands += found["commands"]
        browser.close()
    assert commands > 30


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(built: Path) -> None:
    for id in all_rules():
        assert (built / "rules" / id / "index.html").is_file()
    found = {
        item["location"] for item in json.loads((built / "search.json").read_text(encoding="utf-8"))["items"]
    }
    assert {"rules/WG001/", "isa/tcgen05/#tcgen05alloc", "commands/check/"} <= found


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('<a href="../b/">', ""),
        ('<a href="../b/#there">', ""),
        ('<a href="../b/#gone">', "no such anchor"),
        ('<a href="../c/">', "leads nowhere"),
        ('<a href="#gone">', "no such anchor"),
        ('<a href="https://example.org/x">', ""),
        ('<a href="http://example.org/">', "is not an https URL"),
        (
            '<a href="https://docs.nvidia.com/cuda/parallel-thread-execution/#made-up">',
            "no such anchor is known",
        ),
        ('<script src="https://example.org/x.js"></script>', "is loaded from elsewhere"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "is loaded from elsewhere"),
        ("<style></style>", ""),
    ],
)
def test_wrong_links_are_found(site: Any, tmp_path: Path, body: str, why: str) -> None:
    for name, text in (("a", body), ("b", '<h1 id="there">')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text(text)
    (tmp_path / "x.css").write_text("a { background: url(x.png) }")
    found = list(site("check").problems(tmp_path))
    assert [line.rpartition(": ")[2] for line in found] == ([why] if why else [])
    (tmp_path / "x.css").write_text("@import 'https://example.org/x.css';")
    assert len(list(site("check").problems(tmp_path))) == len(found) + 1


# ---------------------------------------------------------------- where the pages are


def test_reports_link_to_the_site_only_where_it_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    def address() -> str:
        shown, summary = present([], Selected())
        (made,) = json.loads(renderer("sarif")(shown, FormatContext(summary)))["runs"]
        return str(made["tool"]["driver"]["informationUri"])

    rule = all_rules()["WG001"]
    monkeypatch.delenv("TCLINT_DOCS_URL", raising=False)
    assert url(rule) is None
    assert "example.org" not in address()
    monkeypatch.setenv("TCLINT_DOCS_URL", "https://example.org/a b/")
    assert url(rule) == "https://example.org/a%20b/rules/WG001/"
    assert address() == "https://example.org/a%20b/"


# ---------------------------------------------------------------- the table of fixes


def test_the_table_of_fixes_is_up_to_date(site: Any) -> None:
    written = (ROOT / "docs" / "fixes.md").read_text(encoding="utf-8")
    assert written == site("fixes").page(), "python docs/site/fixes.py"


def test_the_table_of_fixes_is_made_anew_within_its_page(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixes = site("fixes")
    rules = {id: all_rules()[id] for id in ("SU002", "BK001", "WG010")}
    monkeypatch.setattr(fixes, "all_rules", lambda: rules)
    monkeypatch.setattr(fixes, "PAGE", tmp_path / "fixes.md")
    head = "| rule | fix | what it does in the examples |\n|---|---|---|\n"
    fixes.PAGE.write_text(f"before\n\n{head}| gone | safe | nothing |\n\nafter\n")
    assert fixes.page() == (
        f"before\n\n{head}"
        "| [SU002](../rules/SU002.md) | safe | remove the comment |\n"
        "| [SU002](../rules/SU002.md) | unsafe | write WG001 |\n"
        "| [WG010](../rules/WG010.md) | safe | write .sync.aligned |\n"
        "\nafter\n"
    )
    fixes.PAGE.write_text("no table\n")
    with pytest.raises(ValueError, match="has 0 tables of fixes, not one"):
        fixes.page()


# ---------------------------------------------------------------- the tables of observations


def test_the_tables_of_observations_are_up_to_date(site: Any) -> None:
    written = (ROOT / "docs" / "executor.md").read_text(encoding="utf-8")
    assert written == site("evidence").page(), "python docs/site/evidence.py"


def test_a_page_without_a_table_of_observations_is_refused(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = site("evidence")
    monkeypatch.setattr(evidence, "PAGE", tmp_path / "executor.md")
    evidence.PAGE.write_text("no table\n")
    with pytest.raises(ValueError, match="has 0 tables with the head"):
        evidence.page()


# ---------------------------------------------------------------- the man page


def test_the_man_page_is_up_to_date() -> None:
    made = run(SITE / "manpage.py")
    assert made.returncode == 0, made.stderr
    page = (ROOT / "docs" / "tclint.1").read_text(encoding="utf-8")
    assert made.stdout == page, "python docs/site/manpage.py > docs/tclint.1"
    for name in visible():
        assert f'.SS "tclint {name}"' in page
    assert '.SS "tclint dump"' not in page


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--a-b", r"\-\-a\-b"),
        (r'C:\x "y" \'z\'', r"C:\ex \(dqy\(dq \e\(aqz\e\(aq"),
        ("a\n  b", "a b"),
    ],
)
def test_roff_takes_text_literally(site: Any, text: str, expected: str) -> None:
    assert site("manpage").roff(text) == expected


def test_no_line_of_text_becomes_a_request(site: Any) -> None:
    assert list(site("manpage")._lines(".so x")) == [r"\&.so x"]
    assert list(site("manpage")._lines("'so x")) == [r"\(aqso x"]


@pytest.mark.parametrize(
    "command",
    [("groff", "-man", "-ww", "-Tutf8", "-z"), ("mandoc", "-T", "lint", "-W", "error")],
    ids=lambda command: command[0],
)
def test_the_man_page_is_sound(command: tuple[str, ...]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(
        [*command, str(ROOT / "docs" / "tclint.1")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


# ---------------------------------------------------------------- what docs/how-it-decides.md quotes


def test_the_numbers_that_it_quotes_are_where_its_links_point() -> None:
    page = (ROOT / "docs" / "how-it-decides.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^- ((?:.+\n)+?)(?=- |\n|\Z)", page, re.MULTILINE)
    checked = 0
    for text in quoted:
        links = re.findall(r"\]\(((?:results|real-kernels)\.md)#", text)
        words = re.sub(r"\[[^\]]*\]\([^)]*\)|`[^`]*`|\b[A-Z]{2}\d{3}\b|\bH200\b", "", text)
        for name in links:
            there = (ROOT / "docs" / name).read_text(encoding="utf-8")
            for number in re.findall(r"\d[\d,.]*\d%?|\d%?", words):
                assert re.search(rf"(?<![\d,.]){re.escape(number)}(?![\d%]|[,.]\d)", there), (number, text)
                checked += 1
    assert checked > 15
