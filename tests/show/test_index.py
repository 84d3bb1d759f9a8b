"""``tclint show FOLDER``: the index, the pages that it links to, and what is never overwritten."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner

from tclint.commands._cli import cli
from tests.tools.show import NASTY
from tests.tools.support import HOPPER, before_the_wait, kernel, module

WRONG = module(before_the_wait("    add.f32 %f5, %f0, %f1;"), header=HOPPER)
RIGHT = module(kernel("ret;", name="right"), kernel("ret;", name="also_right"), header=HOPPER)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files with three kernels, one of which has an error, and one file that is not PTX."""
    (tmp_path / "kernels" / "below").mkdir(parents=True)
    (tmp_path / "kernels" / "a.ptx").write_text(RIGHT)
    (tmp_path / "kernels" / "below" / "b.ptx").write_text(WRONG)
    (tmp_path / "kernels" / "asm.cu").write_text('__device__ void f() { asm("ret;"); }\n')
    return tmp_path / "kernels"


def show(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["show", *arguments], standalone_mode=False)
    if result.exception is not None:
        return 2, str(result.exception)
    return int(result.return_value), result.output


def rows(index: Path) -> list[tuple[str, str, str]]:
    """The name, the page, and the text of the rest of each row."""
    found = re.findall(
        r'<tr>\s*<th scope="row"><a href="(.*?)"><code>(.*?)</code></a>(.*?)</tr>',
        index.read_text(),
        re.DOTALL,
    )
    return [
        (unescape(name), page, " ".join(re.sub("<.*?>", " ", rest).split())) for page, name, rest in found
    ]


def test_the_gravest_kernels_come_first_with_findings_verdicts_and_costs(
    folder: Path, tmp_path: Path
) -> None:
    code, said = show(str(folder), "-o", str(tmp_path / "pages"))
    assert (code, "3 kernels" in said) == (0, True), said
    wrong, *right = rows(tmp_path / "pages" / "index.html")
    assert wrong[0] == "k"
    assert "error WG001 line" in wrong[2]
    assert "violated wgmma" in wrong[2]
    assert re.search(r"\d+ instructions", wrong[2])
    assert [name for name, _, _ in right] == ["right", "also_right"]
    for _, _, rest in right:
        assert "none" in rest
        assert "proved availability" in rest or "proved" in rest
    head = (tmp_path / "pages" / "index.html").read_text()
    assert "3 kernels in 2 files, 1 with errors, 2 without findings" in head
    # The line below a link would hide the underscores of a name, and the focus must be seen.
    assert "text-underline-offset: 4px" in head
    assert ":focus-visible { outline: 2px" in head


def test_each_kernel_has_a_page_that_leads_back(folder: Path, tmp_path: Path) -> None:
    show(str(folder), "-o", str(tmp_path / "pages"))
    linked = {page for _, page, _ in rows(tmp_path / "pages" / "index.html")}
    assert {p.name for p in (tmp_path / "pages").iterdir()} == {*linked, "index.html"}
    for page in linked:
        assert '<a class="up" href="index.html">' in (tmp_path / "pages" / page).read_text()


def test_a_second_run_replaces_the_pages_of_the_first_one(folder: Path, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    show(str(folder), "-o", str(pages))
    before = {path.name for path in pages.iterdir()}
    (folder / "below" / "b.ptx").write_text(RIGHT.replace("right", "k2").replace("also_k2", "k"))
    assert show(str(folder), "-o", str(pages))[0] == 0
    assert "WG001" not in (pages / "index.html").read_text()
    assert before < {path.name for path in pages.iterdir()}


def test_nothing_is_overwritten_that_is_not_a_page(folder: Path, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.html").write_text("mine")
    code, said = show(str(folder), "-o", str(pages))
    assert (code, "is not a page of tclint show" in said) == (2, True)
    assert [path.name for path in pages.iterdir()] == ["index.html"]
    (pages / "index.html").unlink()
    (pages / "index.html").symlink_to(tmp_path / "elsewhere.html")
    code, said = show(str(folder), "-o", str(pages))
    assert (code, "is a symbolic link" in said) == (2, True)
    assert not (tmp_path / "elsewhere.html").exists()
    (tmp_path / "file").write_text("")
    assert show(str(folder), "-o", str(tmp_path / "file"))[0] == 2
    assert show(str(folder), "-o", "-")[0] == 2


def test_what_cannot_be_analysed_is_on_the_page(folder: Path, tmp_path: Path) -> None:
    (folder / "broken.ptx").write_text(".version 8.0\n.target sm_90\n.entry k() { add.u32 }\n")
    code, said = show(str(folder), "-o", str(tmp_path / "pages"))
    assert code == 2
    assert "error: " in said
    index = (tmp_path / "pages" / "index.html").read_text()
    assert 'class="problems"' in index
    assert "broken.ptx:3" in index
    assert ("k", "error WG001") in {(name, rest[rest.index("error") :][:11]) for name, _, rest in rows(tmp_path / "pages" / "index.html") if "error" in rest}  # fmt: skip


def test_names_from_files_are_text_and_the_page_runs_no_script(folder: Path, tmp_path: Path) -> None:
    (folder / "a.ptx").rename(folder / f"{NASTY.replace('/', '')}.ptx")
    show(str(folder), "-o", str(tmp_path / "pages"))
    index = (tmp_path / "pages" / "index.html").read_text()
    assert "<img" not in index
    assert "<script" not in index
    assert "default-src 'none'" in index
    assert "&lt;img" in index


def test_a_folder_without_kernels_is_a_usage_error(tmp_path: Path) -> None:
    code, said = show(str(tmp_path))
    assert (code, "nothing to check in this folder" in said) == (2, True)


def test_entries_can_be_selected(folder: Path, tmp_path: Path) -> None:
    assert show(str(folder), "--entry", "right", "-o", str(tmp_path / "pages"))[0] == 0
    assert [name for name, _, _ in rows(tmp_path / "pages" / "index.html")] == ["right"]
    assert show(str(folder), "--entry", "absent", "-o", str(tmp_path / "pages"))[0] == 2
