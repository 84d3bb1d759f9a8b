"""How wide registers must be: what is refused, ptxas refuses as well, for every instruction of the table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import count, product

import pytest

from benchmarks.ptxas import Ptxas, PtxasMissing, find
from benchmarks.shapes import statement
from tclint.ir.operands import split_operands
from tclint.isa.forms import Match
from tclint.isa.notation import TYPE
from tclint.isa.table import split_opcode, table
from tclint.isa.target import TOOLKITS, Target
from tclint.isa.widths import Width, needed, width_of

ISA = table()
NEWEST = max(TOOLKITS.values())
REGISTERS = {
    ".pred": "%p", ".b16": "%h", ".b32": "%r", ".b64": "%rd", ".b128": "%rq", ".f32": "%f", ".f64": "%fd",
}  # fmt: skip
"""What ``benchmarks.ptxas`` declares, by the type."""
_BITS = {1: ".pred", 16: ".b16", 32: ".b32", 64: ".b64", 128: ".b128"}
_REGISTER = re.compile(r"%(?:p|h|r|rd|f|fd|rq)\d+")


@pytest.mark.parametrize(
    ("type_", "bits"),
    [
        (".b32", 32),
        (".s8", 8),
        (".f16x2", 32),
        (".bf16x2", 32),
        (".f32x2", 64),
        (".u8x4", 32),
        (".tf32", 32),
        (".pred", 1),
        (".b128", 128),
        (".e4m3x2", 0),
        (".ue8m0x2", 0),
        (".texref", 0),
        (".b18446744073709551616", 0),
    ],
)
def test_the_bits_of_a_type(type_: str, bits: int) -> None:
    assert width_of(type_) == bits


def test_what_a_register_may_be() -> None:
    types = [".pred", ".b8", ".b16", ".b32", ".b64", ".b128", ""]

    def taken(width: Width) -> list[str]:
        return [type_ for type_ in types if width.takes(type_)]

    assert taken(Width(32, False)) == [".b32", ""]
    assert taken(Width(32, True)) == [".b32", ".b64", ".b128", ""]
    assert taken(Width(1, False)) == [".pred", ""]
    assert taken(Width(8, True)) == [*types[1:]]


@pytest.mark.parametrize(
    ("operand", "taken"),
    [
        (".b32", ".b32 .u32 .s32 .f32 .f16x2"),
        (".s32", ".b32 .u32 .s32 .f16x2"),
        (".f32", ".b32 .f32"),
        (".f16x2", ".b32 .f16x2"),
        (".bf16x2", ".b32"),
        (".s16x2", ".b32 .f16x2"),
        (".u8x4", ".b32 .f16x2"),
    ],
)
def test_the_kind_of_a_register_must_agree(operand: str, taken: str) -> None:
    types = (".b32", ".u32", ".s32", ".f32", ".f16x2")
    assert [type_ for type_ in types if Width(32, False, operand).takes(type_)] == taken.split()


@pytest.mark.parametrize(
    ("type_", "taken"),
    [
        (".b32", "integer single"),
        (".b64", "integer double"),
        (".s32", "integer"),
        (".b16", "integer"),
        (".f32", "single double"),
        (".f16", ""),
        (".f16x2", ""),
        (".pred", "integer"),
        ("", "integer single double"),
    ],
)
def test_the_kind_of_a_constant_must_agree(type_: str, taken: str) -> None:
    width = Width(32, False, type_)
    assert [kind for kind in ("integer", "single", "double") if width.takes_constant(kind)] == taken.split()


def test_types_name_operands_of_the_form() -> None:
    """Those of a whole file may be about operands that some of its forms lack."""
    everything = {name for form in ISA for syntax in form.syntax for o in syntax.operands for name in o.names}
    for form in ISA:
        assert set(form.types) <= everything, form.name
        assert all(
            re.fullmatch(r"|[12][+w/]?|\.\w+( \.pred)?", said) or said.isalpha()
            for said in form.types.values()
        ), form.name
        # A choice has a number for each spelling.
        for line in form.syntax:
            for name in {form.types.get(o.name, "") for o in line.operands}:
                for slot in line.slots if name.isalpha() else ():
                    if slot.name == name:
                        assert slot.spellings == set(form.numbers[name]), form.name


def _variants() -> Iterator[tuple[Match, str, list[str]]]:
    """The examples of all forms, with each type that they may have: the match, opcode and operands."""
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for form in ISA:
        for example in form.examples:
            opcode, shapes = statement(example)
            written = re.match(r"\s*(?:@!?%\w+\s+)?[\w.:]+\s*(.*?);\s*$", example, re.DOTALL)
            assert written is not None
            root, modifiers = split_opcode(opcode)
            choices = []
            for modifier in modifiers:
                slots = [s for _, line in ISA.roots[root] for s in line.slots if modifier in s.spellings]
                spellings = frozenset().union(*(slot.spellings for slot in slots))
                types = sorted(s for s in spellings if TYPE.fullmatch(s))
                choices.append(types if TYPE.fullmatch(modifier) else [modifier])
            for chosen in product(*choices):
                name = root + "".join(chosen)
                match = ISA.match(name, shapes)
                if (
                    (name, shapes) not in seen
                    and match is not None
                    and match.form is form
                    and not match.problem
                ):
                    seen.add((name, shapes))
                    yield match, name, [operand.strip() for operand in split_operands(written[1])]


def _with(operand: str, type_: str) -> str:
    number = count(1)
    first, *second = operand.split("|")
    return "|".join((_REGISTER.sub(lambda _: f"{REGISTERS[type_]}{next(number)}", first), *second))


@pytest.mark.slow
def test_ptxas_refuses_every_register_that_is_refused() -> None:
    try:
        oracle: Ptxas = find()
    except PtxasMissing as error:
        pytest.skip(str(error))
    asked: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    for match, opcode, operands in _variants():
        available = [a for _, a in match.needs]
        targets = ((name, Target.parse(name)) for name in oracle.targets)
        name = next(
            (n for n, t in targets if t and all(a.on(t) and a.version_for(t) <= NEWEST for a in available)),
            None,
        )
        lengths = {at: operand.count(",") + 1 for at, operand in enumerate(operands) if operand[:1] == "{"}
        places = {
            at: w for at, w in needed(match, lengths).items() if _REGISTER.search(operands[at].split("|")[0])
        }
        if name is None or not places:
            continue
        right = list(operands)
        for at, width in places.items():
            right[at] = _with(operands[at], _BITS[max(width.bits, 16) if width.bits > 1 else 1])
        asked[name].append((f"{opcode} {', '.join(right)};", True))
        for at, width in places.items():
            for type_ in REGISTERS:
                if not width.takes(type_):
                    wrong = [*right[:at], _with(operands[at], type_), *right[at + 1 :]]
                    asked[name].append((f"{opcode} {', '.join(wrong)};", False))
    taken, wrong_ones = 0, []
    for name, lines in asked.items():
        errors = oracle.errors([line for line, _ in lines], NEWEST, name)
        taken += sum(right and not error for (_, right), error in zip(lines, errors, strict=True))
        wrong_ones += [
            line for (line, right), error in zip(lines, errors, strict=True) if not (right or error)
        ]
    assert wrong_ones == []
    assert taken > 900  # where ptxas refuses all of it, the rest says nothing
