"""Value nodes: one class for each kind, interned, and read by name."""

from __future__ import annotations

import pytest

from tclint.values import nodes
from tclint.values.nodes import Applied, Arithmetic, Leaf, Masked, Node, Opaque, extremum_type, is_choice
from tclint.values.value_table import ValueTable
from tests.tools.support import model, value

KINDS = [
    kind
    for name in nodes.__all__
    if isinstance(kind := getattr(nodes, name), type)
    and issubclass(kind, Node)
    and kind not in (Node, Leaf, Applied)
]


def table() -> ValueTable:
    values = model("ret;").values
    return ValueTable(values.function, {})


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_has_slots_and_no_positions(kind: type[Node]) -> None:
    node = kind(*range(1, len(kind.__slots__) + 1))
    assert not hasattr(node, "__dict__")
    assert not hasattr(node, "__getitem__")
    assert getattr(kind, "__final__", True)


def test_two_equal_nodes_of_a_table_are_one() -> None:
    values = table()
    one, two = values.constant(1), values.special("%tid.x")
    first = values.compare("lt", two, one, True)
    assert values.compare("lt", two, one, True) == first
    assert values.compare("lt", two, one, False) != first
    assert values.node(first) is values.nodes[first]
    assert values.node(first).operands == (two, one)


def test_an_instruction_is_opaque_unless_its_type_alone_matters() -> None:
    m = model(
        """
        ld.param.u32 %r1, [number]; ld.param.u32 %r2, [other];
        min.s32 %r3, %r1, %r2; min.relu.s32 %r4, %r1, %r2; div.s32 %r5, %r1, %r2; and.b32 %r6, %r1, 3;
        end: ret;
        """,
        parameters=".param .u32 number, .param .u32 other",
    )
    least, positive, quotient, bits = (m.values.node(value(m, name)) for name in ("%r3", "%r4", "%r5", "%r6"))
    assert type(least) is Arithmetic
    assert (least.name, least.type, least.modifiers) == ("min", ".s32", (".s32",))
    assert type(positive) is Opaque
    assert (positive.name, positive.type) == ("min", ".s32")
    assert ".relu" in positive.modifiers
    assert type(quotient) is Opaque
    assert type(bits) is Masked
    assert [extremum_type(node) for node in (least, positive, quotient, bits)] == [".s32", "", "", ""]
    assert [is_choice(node) for node in (least, positive, quotient, bits)] == [True, False, False, True]
