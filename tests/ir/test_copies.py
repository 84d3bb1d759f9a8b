"""Registers that ``mov`` renames."""

from __future__ import annotations

from tests.tools.support import function, kernel


def test_a_chain_of_moves_copies_a_register_and_nothing_else_does() -> None:
    body = "mov.b32 %r2, %r1;\nmov.b32 %r3, %r2;\nadd.s32 %r4, %r3, 1;\nmov.b64 %rd1, {%r3, %r3};\nmov.b32 %r5, 7;\nret;"
    made = function(kernel(body))
    number = {register.name: at for at, register in enumerate(made.registers)}
    first, second, third = (number[f"%r{i}"] for i in (1, 2, 3))
    assert [i.renames for i in made.instructions] == [True, True, False, False, False, False]
    assert [i.moves for i in made.instructions] == [True, True, False, True, True, False]
    assert made.copies({first}) == {second, third}
    assert made.copies({third}, back=True) == {first, second}
    assert made.copies(()) == set()
