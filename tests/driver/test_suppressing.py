"""``--add-ignore``: where the comments go, and that each suppresses its finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from tclint.config.config import Config
from tclint.driver.suppressing import add_ignores
from tclint.syntax.source import Source
from tests.tools.command import invoke
from tests.tools.project import ROOT

UNWAITED = (ROOT / "fixtures" / "wgmma_unwaited.ptx").read_text()
HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def kernel(*lines: str) -> str:
    body = "\n".join(lines)
    return f"{HEAD}.visible .entry k()\n{{\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n{body}\nret;\n}}\n"


def suppressed(text: str) -> str:
    """The text with comments, which have suppressed all findings and cause none."""
    source = Source.from_bytes(text.encode(), "k.ptx")
    result = add_ignores(source, Config())
    assert result.refused == ()
    assert result.fixed
    assert result.report.findings == ()
    again = add_ignores(result.source, Config())
    assert (again.source.text, again.fixed) == (result.source.text, ())
    return result.source.text


def line_with(text: str, part: str) -> str:
    (line,) = [line for line in text.splitlines() if part in line]
    return line


BAR = "bar.sync 16;"
"""There are sixteen barriers, from 0."""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([BAR], f"{BAR} // tclint: ignore[PX004]"),
        ([BAR + "  "], f"{BAR} // tclint: ignore[PX004]  "),
        ([f"{BAR} // late"], f"{BAR} // late // tclint: ignore[PX004]"),
        ([f"{BAR} /* late */"], f"{BAR} /* late */ // tclint: ignore[PX004]"),
        ([f"{BAR} /* late", "*/"], f"{BAR} /* tclint: ignore[PX004] */ /* late"),
        (["bar.sync", "16;"], "16; // tclint: ignore[PX004]"),
        (
            [f"{BAR} mov.b32 %r1,", "1;"],
            f"{BAR} /* tclint: ignore[PX004] */ mov.b32 %r1,",
        ),
    ],
)
def test_the_comment_follows_the_statement(before: list[str], after: str) -> None:
    assert after in suppressed(kernel(*before)).splitlines()


def test_line_ends_of_windows_stay() -> None:
    text = suppressed(kernel(BAR).replace("\n", "\r\n"))
    assert f"{BAR} // tclint: ignore[PX004]\r\n" in text


def test_several_rules_at_a_statement_share_a_comment() -> None:
    text = suppressed(UNWAITED)
    comments = [line.partition("//")[2] for line in text.splitlines() if "tclint:" in line]
    assert comments
    assert all(comment.count("tclint:") == 1 for comment in comments)


def test_a_list_that_is_there_is_continued() -> None:
    two = "setmaxnreg.inc.sync.aligned.u32 25;"  # CV007 and PX004
    text = suppressed(kernel(f"{two} // tclint: ignore[CV007] first"))
    assert line_with(text, two).endswith("// tclint: ignore[CV007, PX004] first")


def test_strings_of_another_language_are_left_alone() -> None:
    code = 'void f() { asm volatile("mov.b32 %0, %1, %2, %3;" :: "r"(1)); }\n'
    source = Source.from_bytes(code.encode(), "k.cu")
    result = add_ignores(source, Config())
    assert result.refused
    assert result.source.text == code
    assert "is not added" in result.refused[0].reason


def test_the_command_writes_the_comments_once(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(UNWAITED)
    code, out = invoke("check", "--isolated", "--add-ignore", "--diff", str(path))
    assert (code, path.read_text()) == (1, UNWAITED)
    assert "+" in out
    assert "tclint: ignore[" in out
    code, out = invoke("check", "--isolated", "--add-ignore", str(path))
    written = path.read_text()
    assert code == 0
    assert out.startswith("Suppressed ")
    assert "tclint: ignore[" in written
    assert invoke("check", "--isolated", str(path))[0] == 0
    assert invoke("check", "--isolated", "--add-ignore", str(path)) == (0, "Suppressed 0 findings.\n")
    assert path.read_text() == written
