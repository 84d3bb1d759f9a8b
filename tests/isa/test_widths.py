"""How wide registers must be: what is refused, ptxas refuses as well, for every instruction of the table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import count, product

import pytest

from benchmarks.coverage import statement
from benchmarks.ptxas import Ptxas, PtxasMissing, find
from tclint.ir.operands import split_operands
from tclint.isa.notation import TYPE
from tclint.isa.table import Match, split_opcode, table
from tclint.isa.target import TOOLKITS, Target
from tclint.isa.widths import Width, needed, width_of

ISA = table()
NEWEST = max(TOOLKITS.values())
REGISTERS = {1: "%p", 16: "%h", 32: "%r", 64: "%rd", 128: "%rq"}
"""What ``benchmarks.ptxas`` declares, by the bits."""
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
    ],
)
def test_the_bits_of_a_type(type_: str, bits: int) -> None:
    assert width_of(type_) == bits


def test_what_a_register_may_be() -> None:
    assert Width(32, False).fits == {0, 32}
    assert Width(32, True).fits == {0, 32, 64, 128}
    assert Width(1, False).fits == {0, 1}
    assert Width(8, True).fits == {0, 8, 16, 32, 64, 128}


def test_types_name_operands_of_the_form() -> None:
    """Those of a whole file may be about operands that some of its forms lack."""
    everything = {name for form in ISA for syntax in form.syntax for o in syntax.operands for name in o.names}
    for form in ISA:
        assert set(form.types) <= everything, form.name
        assert all(
            re.fullmatch(r"|[12][+w/]?|\.\w+", said) or said.isalpha() for said in form.types.values()
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


def _with(operand: str, bits: int) -> str:
    number = count(1)
    first, *second = operand.split("|")
    return "|".join((_REGISTER.sub(lambda _: f"{REGISTERS[bits]}{next(number)}", first), *second))


@pytest.mark.slow
def test_ptxas_refuses_every_register_that_is_refused() -> None:
    try:
        oracle: Ptxas = find()
    except PtxasMissing as error:
        pytest.skip(str(error))
    asked: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    for match, opcode, operands in _variants():
        available = [a for _, a in match.form.availability(match.modifiers, match.named)]
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
            right[at] = _with(operands[at], max(width.bits, 16) if width.bits > 1 else 1)
        asked[name].append((f"{opcode} {', '.join(right)};", True))
        for at, width in places.items():
            for bits in REGISTERS:
                if bits not in width.fits:
                    wrong = [*right[:at], _with(operands[at], bits), *right[at + 1 :]]
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
