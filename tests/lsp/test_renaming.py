"""Names are replaced in text that is being written, or not at all."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("lsprotocol", reason="the language server needs lsprotocol")

from tclint.lsp.renaming import RenameError, Renaming
from tclint.syntax import parse

HEAD = b".version 8.6\n.target sm_90\n.address_size 64\n.global .b32 g;\n.visible .entry k(.param .u64 p)\n"
BODY = b"{\n.reg .b32 %r<4>;\n.reg .b32 %x;\nL:\nmov.b32 %r1, g;\nadd.s32 %r1, %r2, %x;\n@%x bra L;\nld.param.u64 %x, [p];\n}\n"


def test_a_register_of_a_range_without_an_end_is_not_renamed() -> None:
    data = HEAD + b"{\n add.s32 %r1, %r2, %r1; .reg .b32 %r<4>\n}"
    with pytest.raises(RenameError, match="the declaration of its range has no end"):
        Renaming(parse(data), data, data.index(b"%r1") + 1).edits("%y")


def test_no_text_and_place_is_too_broken_to_be_asked() -> None:
    rng = random.Random(7)
    for _ in range(300):
        broken = bytearray(HEAD + BODY)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(broken))
            broken[at : at + rng.randint(0, 9)] = rng.choice(
                (b"", b"{", b";", b"%r2", b".reg .b32 %x;", b"\xff")
            )
        data = bytes(broken)
        renaming = Renaming(parse(data), data, rng.randrange(len(data)))
        try:
            edits = renaming.edits("%y")
        except RenameError:
            continue
        assert all(data[edit.start : edit.end].strip() or edit.new.startswith(b" .reg") for edit in edits)
