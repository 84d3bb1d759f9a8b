"""The lines of an edited text are those of the text as a whole."""

from __future__ import annotations

from random import Random

from lsprotocol import types

from tclint.lsp.text import DocumentText
from tclint.syntax.source import Source


def test_the_lines_after_random_edits_are_those_of_a_new_text() -> None:
    random, same = Random(1), 0
    for ends in (b"\n", b"\r\n", b"\r\n\r\n\na"):
        text = DocumentText(b"one\ntwo\n" if ends == b"\n" else b"one\r\ntwo\n\rthree")
        for _ in range(400):
            start = random.randrange(len(text.data) + 1)
            end = min(len(text.data), start + random.choice([0, 0, 1, 2, 5]))
            pieces = [b"", b"a", b"\n", ends, b"b" + ends * 3, ends[:1], ends[-1:]]
            area = types.Range(text.position(start), text.position(end))
            new = random.choice(pieces if len(text.data) < 60 else [b""])
            text = text.changed([types.TextDocumentContentChangePartial(range=area, text=new.decode())])
            fresh = DocumentText(text.data)
            assert text._starts == fresh._starts, text.data
            if (starts := text.line_feeds) is not None:
                same += 1
                known, source = (Source.from_bytes(text.data, "k.ptx", starts=s) for s in (starts, None))
                assert known.line_count == source.line_count
                offsets = range(len(text.data) + 1)
                assert [*map(known.position, offsets)] == [*map(source.position, offsets)]
    assert same >= 400


def test_the_lines_of_a_text_that_is_cut_are_read_anew() -> None:
    """Zeros at the end of a text are no part of it."""
    text = DocumentText(b"one\n\0\0")
    assert text.line_feeds == [0, 4]
    source = Source.from_bytes(b"\xef\xbb\xbf" + text.data, "k.ptx", starts=[0, 7])
    assert source.position(4) == (2, 1)
