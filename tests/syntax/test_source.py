from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tclint.syntax.source import Position, Source, SourceError


def make(text: str) -> Source:
    return Source.from_bytes(text.encode(), "a.ptx")


def test_positions_count_code_points_and_end_after_the_last_character() -> None:
    source = make("ab\n// é𝄞 x\n")
    assert source.position(0) == Position(1, 1)
    assert source.position(2) == Position(1, 3)
    assert source.position(3) == Position(2, 1)
    assert source.position(source.data.index(b"x")) == Position(2, 7)
    assert source.position(len(source.data)) == Position(3, 1)


def test_an_offset_inside_a_character_is_that_character() -> None:
    source = make("é𝄞")
    assert [source.position(offset).column for offset in range(7)] == [1, 1, 2, 2, 2, 2, 3]


@pytest.mark.parametrize("offset", [-1, 4])
def test_an_offset_outside_is_refused(offset: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        make("abc").position(offset)


def test_lines_have_no_line_end() -> None:
    source = make("a\r\nb\n\nc")
    assert [source.line_text(line) for line in range(1, source.line_count + 1)] == ["a", "b", "", "c"]
    with pytest.raises(IndexError):
        source.line_text(5)
    with pytest.raises(IndexError):
        source.line_text(0)


@given(st.text(alphabet="aé𝄞\n\t ", max_size=60))
def test_positions_agree_with_counting(text: str) -> None:
    source = make(text)
    for index in range(len(text) + 1):
        before = text[:index]
        expected = Position(before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1)
        assert source.position(len(before.encode())) == expected


def test_the_text_is_what_was_encoded() -> None:
    assert make("// é").text == "// é"


def test_a_byte_order_mark_and_the_terminating_nul_of_nvrtc_are_dropped() -> None:
    assert Source.from_bytes(b"\xef\xbb\xbf.version 8.0\n\0", "a").data == b".version 8.0\n"


def test_comments_may_have_bytes_that_are_not_utf_8() -> None:
    data = b'// caf\xe9 "\n/* \xff\xc3 */ .file 1 "a" // \xe9'
    source = Source.from_bytes(data, "a.ptx")
    assert source.data == data
    assert source.line_text(1) == '// caf\ufffd "'
    assert source.text.count("\ufffd") == 4
    assert source.position(data.index(b".file")) == Position(2, 10)


@pytest.mark.parametrize(
    ("data", "message", "line"),
    [
        (b"\x7fELF\x02\x01", "ELF", 0),
        (b"\x50\xed\x55\xba\x01\0", "fatbin", 0),
        (b"\x1f\x8b\x08", "gzip", 0),
        (".version 8.0".encode("utf-16"), "UTF-16", 1),
        (b"a\nb\0c", r"byte 3 \(line 2\) is NUL", 2),
        (b"a\n\n// caf\xe9\n\xe9 //", r"byte 11 \(line 4\) is 0xe9", 4),
        (b'.file 1 "// caf\xe9"\n', r"byte 15 \(line 1\) is 0xe9", 1),
    ],
)
def test_what_is_not_text_is_refused_with_its_place(data: bytes, message: str, line: int) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        Source.from_bytes(data, "a.ptx")
    assert caught.value.line == line


def test_reading_says_why_it_failed(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        Source.read(tmp_path / "absent.ptx")
    with pytest.raises(SourceError, match="directory"):
        Source.read(tmp_path)
    with pytest.raises(SourceError, match="cannot be read"):
        Source.read("a\0b")
    (tmp_path / "a.ptx").write_bytes(b"x")
    assert Source.read(tmp_path / "a.ptx").path == str(tmp_path / "a.ptx")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "a.ptx"
    path.touch(mode=0)
    with pytest.raises(SourceError, match="cannot be read: Permission"):
        Source.read(path)


def test_a_line_of_a_megabyte_has_columns() -> None:
    source = make("x" * 1_000_000 + "\ny")
    assert source.position(999_999) == Position(1, 1_000_000)
    assert source.position(1_000_001) == Position(2, 1)
