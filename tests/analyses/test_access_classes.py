"""Which accesses a question does not distinguish."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tclint.analyses.access_classes import AccessClasses
from tclint.analyses.model import KernelModel
from tests.tools.support import model

BODY = """
    .shared .align 4 .b32 words[8];
    ld.param.u32 %r1, [number];
    setp.eq.u32 %p1, %r1, 0;
{}
    ret;
"""


def _model(statements: str) -> KernelModel:
    return model(BODY.format(statements))


def _sites(made: KernelModel, opcode: str) -> list[int]:
    return [i for i, ins in enumerate(made.function.instructions) if ins.opcode == opcode]


def _stores(statements: str, events: Iterable[str] = ("bar.sync",)) -> list[list[int]]:
    """The classes of the stores among *statements*, each store by its number among them."""
    made = _model(statements)
    stores = _sites(made, "st.shared.u32")
    classes = AccessClasses(made, [i for event in events for i in _sites(made, event)])
    return [[stores.index(i) for i in members] for members in classes.partition(stores).values()]


def test_accesses_with_no_event_between_are_one_class() -> None:
    assert _stores("st.shared.u32 [words], 0;\nmembar.cta;\nst.shared.u32 [words+4], 0;") == [[0, 1]]


def test_an_event_separates_the_accesses_before_it_from_those_after() -> None:
    assert _stores("st.shared.u32 [words], 0;\nbar.sync 0;\nst.shared.u32 [words+4], 0;") == [[0], [1]]


def test_a_branch_target_between_two_accesses_separates_them() -> None:
    assert _stores(
        "@%p1 bra skip;\nst.shared.u32 [words], 0;\nskip:\nst.shared.u32 [words+4], 0;\nst.shared.u32 [words+8], 0;"
    ) == [[0], [1, 2]]


def test_accesses_under_other_guards_are_other_classes() -> None:
    assert _stores(
        "st.shared.u32 [words], 0;\n@%p1 st.shared.u32 [words], 1;\n@!%p1 st.shared.u32 [words], 2;\n"
        "@%p1 st.shared.u32 [words+4], 1;\nst.shared.u32 [words+8], 0;"
    ) == [[0, 4], [1, 3], [2]]


def test_guards_count_by_value_and_not_by_register() -> None:
    assert _stores(
        "setp.eq.u32 %p2, %r1, 0;\n@%p1 st.shared.u32 [words], 0;\n@%p2 st.shared.u32 [words+4], 0;\n"
        "setp.eq.u32 %p1, %r1, 1;\n@%p1 st.shared.u32 [words+8], 0;"
    ) == [[0, 1], [2]]


def test_an_access_that_is_itself_an_event_closes_its_class() -> None:
    assert _stores("st.shared.u32 [words], 0;\nst.shared.u32 [words+4], 0;", events=("st.shared.u32",)) == [
        [0],
        [1],
    ]
    made = _model(
        "st.shared.u32 [words], 0;\natom.shared.add.u32 %r2, [words], 1;\nst.shared.u32 [words], 2;"
    )
    (atomic,) = _sites(made, "atom.shared.add.u32")
    before, after = _sites(made, "st.shared.u32")
    classes = AccessClasses(made, (atomic,))
    assert classes.of(before) == classes.of(atomic) != classes.of(after)


def test_the_first_access_of_a_class_represents_it_in_whatever_order_they_come() -> None:
    made = _model(
        "st.shared.u32 [words], 0;\nst.shared.u32 [words+4], 0;\nbar.sync 0;\nst.shared.u32 [words], 1;"
    )
    first, second, third = _sites(made, "st.shared.u32")
    classes = AccessClasses(made, _sites(made, "bar.sync"))
    assert list(classes.partition((third, second, first)).items()) == [
        (first, [first, second]),
        (third, [third]),
    ]


@pytest.mark.parametrize("event", ["", "bar.sync 0;"])
def test_a_loop_does_not_join_the_classes_of_two_blocks(event: str) -> None:
    assert _stores(
        f"st.shared.u32 [words], 0;\nagain:\nst.shared.u32 [words+4], 0;\n{event}\n@%p1 bra again;"
    ) == [[0], [1]]
