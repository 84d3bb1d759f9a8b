"""The notation of the ISA table: spellings, syntax lines, the order of modifiers."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tclint.isa.notation import NotationError, expand, parse_syntax
from tclint.isa.table import table


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("", ()),
        (".u32", (".u32",)),
        (".u32  .s32", (".u32", ".s32")),
        (".x{1,2,4}", (".x1", ".x2", ".x4")),
        (".m64n{8..32/8}k16", (".m64n8k16", ".m64n16k16", ".m64n24k16", ".m64n32k16")),
        (".b{0..2}", (".b0", ".b1", ".b2")),
        (".{a,b}{0..1}", (".a0", ".a1", ".b0", ".b1")),
        (".collector::{a,b}::fill", (".collector::a::fill", ".collector::b::fill")),
    ],
)
def test_expand(written: str, meant: tuple[str, ...]) -> None:
    assert expand(written) == meant


@given(low=st.integers(0, 40), count=st.integers(1, 9), step=st.integers(1, 16))
def test_a_range_has_both_ends(low: int, count: int, step: int) -> None:
    high = low + (count - 1) * step
    assert expand(f".n{{{low}..{high}/{step}}}") == tuple(f".n{low + k * step}" for k in range(count))


WHERE = {"type": ".s32 .u32", "atype": ".s32 .u32", "rnd": ".rn .rz"}


def test_slots_are_literals_and_choices() -> None:
    line = parse_syntax("fma.rnd{.ftz}.type d, a, b", WHERE)
    assert line.root == "fma"
    assert [(s.name, s.optional) for s in line.slots] == [("rnd", False), (".ftz", True), ("type", False)]
    assert line.slots[0].spellings == {".rn", ".rz"}
    assert line.slots[1].spellings == {".ftz"}


def test_an_optional_choice() -> None:
    line = parse_syntax("add{.rnd}.type d, a, b", WHERE)
    assert line.bind((".s32",)) == {"type": ".s32"}
    assert line.bind((".rz", ".u32")) == {"rnd": ".rz", "type": ".u32"}
    assert line.bind((".rz",)) is None


def test_operand_styles() -> None:
    line = parse_syntax("op.x d|p, [a], [map, {coords}], n-x {, policy} {, x, y};", {})
    assert [(o.names, o.style, o.optional) for o in line.operands] == [
        (("d", "p"), "pair", False),
        (("a",), "memory", False),
        (("map", "coords"), "memory", False),
        (("n-x",), "plain", False),
        (("policy",), "plain", True),
        (("x",), "plain", True),
        (("y",), "plain", True),
    ]
    assert not line.open


def test_any_operands() -> None:
    line = parse_syntax("call{.uni} ...", {})
    assert line.open
    assert line.operands == ()


def test_no_operands() -> None:
    line = parse_syntax("ret{.uni}", {})
    assert not line.open
    assert line.operands == ()


MODIFIERS = (".rn", ".ftz", ".s32", ".u32")


@given(order=st.permutations(MODIFIERS))
def test_the_order_of_modifiers_is_free(order: list[str]) -> None:
    line = parse_syntax("op.rnd{.ftz}.type.atype d, a", WHERE)
    bound = line.bind(tuple(order))
    assert bound is not None
    assert (bound["rnd"], bound[".ftz"]) == (".rn", ".ftz")
    # Two choices over the same spellings are filled in the order they are written in.
    first, second = (m for m in order if m.endswith("32"))
    assert (bound["type"], bound["atype"]) == (first, second)


@given(st.lists(st.sampled_from([*MODIFIERS, ".rz", ".f16"]), max_size=6))
def test_binding_takes_each_slot_once(modifiers: list[str]) -> None:
    """Against the definition: some assignment of modifiers to different slots fills every mandatory slot."""
    line = parse_syntax("op.rnd{.ftz}.type{.atype} d, a", WHERE)
    slots = range(len(line.slots))
    possible = any(
        all(m in line.slots[i].spellings for m, i in zip(modifiers, chosen, strict=True))
        and all(line.slots[i].optional for i in set(slots) - set(chosen))
        for chosen in permutations(slots, len(modifiers))
    )
    assert (line.bind(tuple(modifiers)) is not None) == possible


def test_a_modifier_twice_needs_two_slots() -> None:
    assert parse_syntax("op.type d, a", WHERE).bind((".s32", ".s32")) is None
    assert parse_syntax("op.type.atype d, a", WHERE).bind((".s32", ".s32")) is not None
    assert parse_syntax("mma.f16.f16 d, a", {}).bind((".f16", ".f16")) is not None
    assert parse_syntax("mma.f16.f16 d, a", {}).bind((".f16",)) is None


@pytest.mark.parametrize(
    "line", [".add d, a", "{.x}.y d", "add.{type} d", "add.s32 d, {a", "add.s32 d, +a", "", "add.s32} d"]
)
def test_what_is_not_the_notation(line: str) -> None:
    with pytest.raises(NotationError):
        parse_syntax(line, WHERE)


@pytest.mark.parametrize(
    ("opcode", "known"),
    [
        ("cp.async.bulk.dst.src.hint", True),
        ("cp.async.bulk.hint.dst.src", True),
        ("cp.bulk.async.dst.src.hint", False),
        ("cp.async.dst.bulk.src", False),
        ("cp.hint.async.bulk.dst.src", False),
    ],
)
def test_the_first_modifiers_of_a_name_come_before_all_others(opcode: str, known: bool) -> None:
    line = parse_syntax("cp.async.bulk.dst.src{.hint} [d], [a]", {}, stem=2)
    assert (line.bind(tuple(f".{word}" for word in opcode.split(".")[1:])) is not None) == known


def test_layouts_and_state_spaces_keep_their_order() -> None:
    layouts = parse_syntax("mma.row.col.f32 d, a", {})
    assert layouts.bind((".f32", ".row", ".col")) is not None
    assert layouts.bind((".col", ".row", ".f32")) is None
    spaces = parse_syntax("cp.shared::cta.global.ca [d], [a]", {})
    assert spaces.bind((".ca", ".shared::cta", ".global")) is not None
    assert spaces.bind((".global", ".ca", ".shared::cta")) is None


@pytest.mark.parametrize(
    ("opcode", "known"),
    [
        ("tensormap.replace.tile.rank.b32.b1024", True),
        ("tensormap.b32.replace.tile.rank.b1024", False),
        ("shfl.b32.up", True),
        ("vote.pred.all", True),
        ("createpolicy.range.b64.L2::evict_first.L2::evict_last", False),
        ("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.popc.and", False),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared::cta.b6x16_p32.b8x16", False),
        ("ldmatrix.b8x16.sync.aligned.m16n16.x1.b6x16_p32.trans.shared::cta", True),
    ],
)
def test_the_size_of_a_tensor_map_moves_and_pairs_of_one_kind_keep_their_order(
    opcode: str, known: bool
) -> None:
    assert bool(table().candidates(opcode)) == known
