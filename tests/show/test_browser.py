"""The page of ``tclint show`` in a browser: what is read, clicked and typed in it, and how fast it is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tclint.show.page import render
from tests.tools.project import ROOT
from tests.tools.show import LOCATED, NASTY, page_data
from tests.tools.support import HOPPER, WGMMA, kernel, module

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

CHROMIUM = os.environ.get("TCLINT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 400, "height": 800}
UNCOMMITTED = (ROOT / "fixtures/tcgen05_gemm_uncommitted.ptx").read_text()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Opens the page of a kernel. Nothing may be asked of a network, and no script may fail."""
    contexts, asked, said = [], [], []

    def open_page(text: str, *, data: Any = None, at: str = "", viewport: Any = WIDE, **options: Any) -> Any:
        path = tmp_path / "page.html"
        path.write_text(render(data or page_data(text)), encoding="utf-8")
        context = browser.new_context(viewport=viewport, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("console", lambda message: said.append(message.text))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.goto(path.as_uri() + at)
        page.wait_for_selector("html[data-drawn]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [url for url in asked if not url.startswith("file:")] == []
    assert said == []


def text_of(page: Any, selector: str) -> str:
    words: str = page.inner_text(selector)
    return words


def selected(page: Any) -> str:
    """What a screen reader announces for the chosen row."""
    row = page.get_attribute("#listing", "aria-activedescendant")
    label: str = page.get_attribute(f"#{row}", "aria-label")
    return label


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_a_finding_is_walked_with_the_mouse(opened: Any) -> None:
    page = opened(UNCOMMITTED)
    page.click("#finding0")
    assert "line 150; tcgen05.mma" in selected(page)
    assert page.locator("#paths .pin").count() == 3
    assert page.locator("#paths .path").count() == 2
    page.wait_for_selector(".steps li:nth-child(3) [aria-current=step]")
    assert "ret" in selected(page)
    assert "TC005, step 3 of 3, line 168: lane 0 of warp 1" in text_of(page, "#said")
    page.click(".steps button >> nth=0")
    assert "line 150" in selected(page)


def test_a_finding_is_walked_with_the_keyboard_and_let_go(opened: Any) -> None:
    page = opened(UNCOMMITTED, reduced_motion="reduce")
    press(page, "n")
    assert "step 1 of the finding" in selected(page)
    press(page, "]")
    assert "step 2 of the finding" in selected(page)
    press(page, "[", "w")
    assert "step 1 of the finding" in selected(page)
    press(page, "Escape")
    assert page.locator("#paths .pin").count() == 0


def test_instructions_blocks_and_events_by_keyboard(opened: Any) -> None:
    page = opened(UNCOMMITTED, at="#L28")
    press(page, "l")
    assert "line 28; mov.u32" in selected(page)
    press(page, "j", "ArrowDown", "k")
    assert "line 29" in selected(page)
    press(page, "J")
    assert "line 35" in selected(page)
    press(page, "e")
    assert "fence.mbarrier_init.release.cluster; barrier or fence" in selected(page)
    press(page, "K", "K")
    assert "line 28" in selected(page)
    press(page, "ArrowLeft", "ArrowLeft")
    assert selected(page).startswith("Block B0, all threads, 7 instructions")
    assert page.get_attribute("#row-1", "aria-expanded") == "false"
    press(page, "ArrowDown")
    assert selected(page).startswith("Block B1, thread 0")
    press(page, "End")
    assert "ret" in selected(page)
    press(page, "c")
    assert page.locator(".row[aria-level='2']").count() == 0
    press(page, "c", "g", "ArrowUp")
    assert page.evaluate("document.activeElement.id") == "graph"


def test_everything_is_reached_by_tab_and_the_focus_is_seen(opened: Any) -> None:
    page = opened(UNCOMMITTED)
    seen = set()
    for _ in range(40):
        press(page, "Tab")
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        outline = page.evaluate(
            "document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle"
        )
        assert outline in (True, "solid"), page.evaluate("document.activeElement.outerHTML")
    assert {"query", "next-match", "theme", "show-help", "graph", "listing", "finding0", "zoom-in"} <= seen


def test_search(opened: Any) -> None:
    page = opened(UNCOMMITTED)
    for query, matches, first in (
        ("tcgen05.mma", "1 of 1", "line 150"),
        ("%r18", "of 14", ""),
        (":150", "1 of 1", "line 150"),
        ("TC005", "of 3", "line 150"),
        ("multiply_stage", "of 2", "line 129"),
        ("B23", "1 of 1", "line 129"),
        ("nothing like it", "no match", ""),
    ):
        press(page, "l", "Home", "/")
        page.keyboard.type(query)
        assert matches in text_of(page, "#match-count"), query
        assert first in selected(page), query
        press(page, "Enter", "Shift+Enter")
        assert first in selected(page), query
        press(page, "Escape")
        assert text_of(page, "#match-count") == ""


def test_what_is_in_flight_and_what_an_instruction_does(opened: Any) -> None:
    page = opened((ROOT / "fixtures/tcgen05_gemm.ptx").read_text(), at="#L151")
    press(page, "i")
    words = " ".join(text_of(page, "#instruction").split())
    assert "elected lane of warp 1" in words
    assert "+tcgen05.mma.cta_group::1.…: not committed" in words
    assert "reads shared memory tile_a" in words
    assert "full[2] last wait for parity" in words
    press(page, "j")
    assert "tcgen05\n\ntcgen05.mma.cta_group::1.…: not committed; line 151" in text_of(page, "#instruction")
    page.click("#instruction .facts .link >> nth=0")
    assert "line 151" in selected(page)


def test_rows_of_the_protocol_lead_to_instructions(opened: Any) -> None:
    page = opened(UNCOMMITTED)
    press(page, "b")
    assert "mbarrier full[2] at full, a stage every 8 bytes" in text_of(page, "#protocol")
    page.click("#protocol table[aria-label='mbarrier full[2]'] .link >> nth=-1")
    assert "mbarrier" in selected(page) or "cp.async.bulk" in selected(page)
    assert page.evaluate("document.activeElement.id") == "listing"


def test_the_legend_shows_the_blocks_of_a_role_without_colour(opened: Any) -> None:
    page = opened(UNCOMMITTED)
    page.click("#legend button:has-text('warps 4-7')")
    assert page.get_attribute("#legend button:has-text('warps 4-7')", "aria-pressed") == "true"
    bright = page.locator(".box:not(.faded)")
    letter = text_of(page, "#legend button:has-text('warps 4-7') .chip")
    assert bright.count() == 5
    assert {bright.nth(n).locator(".letter").text_content() for n in range(5)} == {letter}


def test_light_dark_and_a_choice_that_stays(opened: Any) -> None:
    page = opened(UNCOMMITTED, color_scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(paper) == "rgb(14, 17, 22)"
    press(page, "t")
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    press(page, "t")
    assert page.evaluate(paper) == "rgb(14, 17, 22)"
    page.reload()
    assert page.get_attribute("#theme", "aria-label") == "Theme: Dark"


def test_help_takes_the_keys_until_it_is_closed(opened: Any) -> None:
    page = opened(UNCOMMITTED)
    press(page, "?")
    assert page.is_visible("#help")
    press(page, "Escape")
    assert not page.is_visible("#help")


def test_a_narrow_window_shows_one_part_at_a_time(opened: Any) -> None:
    page = opened(UNCOMMITTED, viewport=NARROW)
    panes = ["graph-pane", "listing-pane", "instruction", "findings", "protocol"]
    for name, pane in zip(["graph", "listing", "instruction", "findings", "protocol"], panes, strict=True):
        page.click(f"#tab-{name}")
        assert [p for p in panes if page.is_visible(f"#{p}")] == [pane]
    assert page.evaluate("document.documentElement.scrollWidth") == NARROW["width"]


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_paper_has_all_that_is_not_folded(opened: Any, viewport: Any) -> None:
    page = opened(UNCOMMITTED, viewport=viewport)
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    words = text_of(page, "body")
    assert page.is_visible("#box0")
    assert page.locator("#graph").bounding_box()["height"] > 300
    assert "tcgen05.dealloc" in words
    assert "the thread ends without a commit" in words
    assert "mbarrier full[2]" in words
    assert "Skip to" not in words


def test_what_the_input_says_is_text(opened: Any) -> None:
    text = LOCATED.replace("NAME", NASTY.replace('"', "'")).replace("ret;", f"ret; // {NASTY}")
    data = {**page_data(text), "name": NASTY, "problems": [NASTY]}
    page = opened("", data=data, at="#i0")
    assert page.locator("img").count() == 0
    assert page.title() != "1"
    assert text_of(page, "h1") == NASTY
    assert NASTY in text_of(page, "#instruction .full")
    assert "onerror" in text_of(page, "#instruction .mono >> nth=0")


def test_ten_thousand_instructions(opened: Any) -> None:
    """Rows are made for what is in the window only; a generous limit keeps a slow machine from failing."""
    block = "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra L{n};\nL{n}:\nwgmma.fence.sync.aligned;\n" + f"{WGMMA}\n"
    block += (
        "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\n" + "add.u32 %r1, %r1, 1;\n" * 19
    )
    text = module(kernel("".join(block.replace("{n}", str(n)) for n in range(400)) + "ret;"), header=HOPPER)
    page = opened(text)
    assert "10,001 instructions" in text_of(page, "#meta")
    assert float(page.get_attribute("html", "data-ready")) < 5000
    assert page.locator(".row").count() < 120
    press(page, "l", "End")
    assert "ret" in selected(page)
    took = page.evaluate(
        """() => {
            const began = performance.now();
            for (let n = 0; n < 50; n++) document.getElementById("listing").dispatchEvent(
                new KeyboardEvent("keydown", {key: "PageUp", bubbles: true}));
            return (performance.now() - began) / 50;
        }"""
    )
    assert took < 200, "milliseconds for a page of the listing"
