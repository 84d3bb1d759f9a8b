"""The flags among the modifiers of an opcode."""

from __future__ import annotations

import pytest

from tclint.isa.modes import Modes
from tclint.isa.table import table

FLAGS = {name: flag.spelling for name, flag in vars(Modes).items() if hasattr(flag, "spelling")}


def test_every_flag_is_a_modifier_of_some_instruction() -> None:
    syntaxes = [syntax for form in table().forms.values() for syntax in form.syntax]
    known = {spelling for syntax in syntaxes for slot in syntax.slots for spelling in slot.spellings}
    assert sorted(set(FLAGS.values()) - known) == []


def test_no_two_flags_have_the_same_spelling() -> None:
    assert len(set(FLAGS.values())) == len(FLAGS) > 30


@pytest.mark.parametrize(
    ("opcode", "shapes", "flags"),
    [
        ("mul.wide.u32", ("r", "r", "r"), {"widens"}),
        ("mul.hi.u32", ("r", "r", "r"), {"upper_half"}),
        ("add.sat.s32", ("r", "r", "r"), {"saturates"}),
        ("add.s32", ("r", "r", "r"), set()),
    ],
)
def test_flags_of_an_opcode(opcode: str, shapes: tuple[str, ...], flags: set[str]) -> None:
    match = table().match(opcode, shapes)
    assert match is not None
    assert {name for name in FLAGS if getattr(match.modes, name)} == flags
