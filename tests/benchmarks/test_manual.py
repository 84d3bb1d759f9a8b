"""The benchmark that lints the examples of the manual, on pages made up here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import manual

PAGE = """\
#### 9.9.1. [Instruction: braid](<#braid>)

Syntax

    braid.type d, a, b;

Examples

    add.u32 d, a, b;     // a comment; with a semicolon
    {text}

#### 9.9.2. [Another](<#another>)

    other.u32 a;
"""


@pytest.mark.parametrize(
    ("text", "status", "printed"),
    [
        ("@p mov.u64 x, y;", 0, "1 whole; 0 errors"),
        ("add.u23 d, a, b;", 1, "9.9.1 (line 7): PX002 add does not accept the modifier .u23 here"),
        ("... ;\n    add.u23 d, a, b;", 1, "1 statements; 1 errors"),
        ("mbarrier.arrive.release.cluster.b64 _, [addr];", 0, "1 whole; 0 errors"),
        ("// Example 2\n    ad.u32 d, a, b;", 1, "2 whole; 1 errors"),
        ("wgmma.fence.sync.aligned;\n    @%p1 shl.b32 r0, r1, 3;", 0, "1 whole; 0 errors"),
    ],
)
def test_an_error_in_an_example_is_listed_with_its_section(
    text: str, status: int, printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "9.9.1-braid.md").write_text(PAGE.format(text=text))
    assert manual.main([str(tmp_path)]) == status
    assert printed in capsys.readouterr().out


def test_an_example_that_the_manual_spells_wrong_is_not_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "9.9.1-braid.md").write_text(PAGE.format(text="add.u23 d, a, b;"))
    monkeypatch.setattr(manual, "WRONG", {"9.9.1": "misspelt"})
    assert manual.main([str(tmp_path)]) == 0
    assert "0 errors" in capsys.readouterr().out


def test_a_folder_without_examples_is_not_a_manual(tmp_path: Path) -> None:
    assert manual.main([str(tmp_path)]) == 1


def test_names_are_declared_by_the_instructions_that_use_them() -> None:
    declared = manual._declarations(
        "cvt.u64.u32 wide, narrow; @q ld.global.f32 f, [wide]; mov.u32 r, %tid.x;"
    )
    assert set(declared.splitlines()) == {
        ".reg .b64 wide;", ".reg .b32 narrow;", ".reg .pred q;", ".reg .b32 f;", ".reg .b32 r;",
    }  # fmt: skip
