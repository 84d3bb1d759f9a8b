"""Immediates, addresses and orders of modifiers that ptxas accepts: those of the ISA table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from benchmarks.ptxas import OLDEST, Ptxas
from benchmarks.shapes import statement
from tclint.ir.operands import HEAD, split_operands
from tclint.isa.forms import Form, Match
from tclint.isa.notation import TYPE
from tclint.isa.table import parse_operand, table
from tclint.isa.target import NEWEST
from tests.tools.ptxas import find_ptxas

HOSTS = (
    *((NEWEST, f"sm_{name}") for name in ("100a", "90a", "103a", "107a", "120a", "110a", "75", "80")),
    (OLDEST, "sm_75"),
)
"""Every form is available at one of them."""


def _examples() -> Iterator[tuple[Form, str, Match, list[str]]]:
    """Each example of the table: the form, the opcode, the match, and the operands."""
    for form in table():
        for example in form.examples:
            head = HEAD.match(example)
            match = table().match(*statement(example))
            assert head is not None
            assert match is not None
            yield form, head[3], match, split_operands(example[head.end() :].rstrip().removesuffix(";"))


def _replaced(opcode: str, operands: Sequence[str], at: int, text: str) -> str:
    return f"{opcode} {', '.join([*operands[:at], text, *operands[at + 1 :]])};"


def _refused(instructions: Sequence[str]) -> list[bool]:
    """Whether ptxas refuses each instruction everywhere."""
    ptxas, left = Ptxas(find_ptxas()), {*instructions}
    for version, target in HOSTS:
        asked = sorted(left)
        errors = ptxas.errors(asked, version, target)
        left -= {one for one, error in zip(asked, errors, strict=True) if not error}
    return [one in left for one in instructions]


@pytest.mark.slow
def test_ptxas_refuses_the_immediates_that_the_table_does_not_have() -> None:
    asked = []
    for form, opcode, match, operands in _examples():
        for name, at in match.named.items():
            spec = form.operands.get(name)
            if spec is None or spec.immediates is None or not operands[at].lstrip("-").isalnum():
                continue
            ranges = spec.immediates
            steps = {r.start - r.step for r in ranges} | {r[-1] + r.step for r in ranges}
            for value in sorted(steps | {-1, 0, 256, 2**31, 2**32 - 1, 2**32, 2**63}):
                known = any(value in r for r in (*ranges, *spec.passed))
                if value > min(r.start for r in ranges) or not known:
                    asked.append((_replaced(opcode, operands, at, str(value)), not known))
    assert len(asked) > 400
    refused = _refused([instruction for instruction, _ in asked])
    assert [one for (one, wrong), said in zip(asked, refused, strict=True) if wrong and not said] == []


@pytest.mark.slow
def test_ptxas_takes_an_address_without_brackets_where_the_table_has_one() -> None:
    asked = []
    for form, opcode, match, operands in _examples():
        for name, at in match.named.items():
            if operands[at].startswith("[") and "," not in operands[at]:
                bare = "bare" in form.operands.get(name, parse_operand("")).access
                alone = table().match(*statement(_replaced(opcode, operands, at, "%rd1")))
                if bare or (alone is not None and alone.problem):
                    asked.append((_replaced(opcode, operands, at, "%rd1"), not bare))
    assert sum(not wrong for _, wrong in asked) > 15
    refused = _refused([instruction for instruction, _ in asked])
    assert [one for (one, wrong), said in zip(asked, refused, strict=True) if wrong != said] == []


def _moved(opcode: str) -> set[str]:
    """The opcode with one modifier in another position, in all ways."""
    root, *words = opcode.split(".")
    found = set()
    for at, word in enumerate(words):
        others = [*words[:at], *words[at + 1 :]]
        found |= {".".join((root, *others[:to], word, *others[to:])) for to in range(len(words))}
    return found - {opcode}


def _types(opcode: str) -> list[str]:
    return [word for word in opcode.split(".")[1:] if TYPE.fullmatch(f".{word}")]


@pytest.mark.slow
def test_ptxas_and_the_table_take_the_same_orders_of_modifiers() -> None:
    """Registers may not fit types in another order, which is a matter of the operands."""
    asked = []
    for _, opcode, _, operands in _examples():
        opcode = "".join(opcode.split())
        for moved in sorted(_moved(opcode)):
            instruction = f"{moved} {', '.join(operands)};"
            match = table().match(*statement(instruction))
            asked.append((instruction, match is None or match.problem != "", _types(moved) == _types(opcode)))
    refused = _refused([instruction for instruction, *_ in asked])
    found = list(zip(asked, refused, strict=True))
    assert [one for (one, wrong, _), said in found if wrong and not said] == []
    assert [one for (one, wrong, same), said in found if said and not wrong and same] == []


@pytest.mark.parametrize(
    ("instruction", "problem"),
    [
        ("cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes %r1, [%rd1, {%r1}], bar;", ""),
        ("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {%r1}], %r1;", ""),
        ("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {%r1}], 8;", "an address [srcMem] is required"),
        ("ld.shared.b32 %r1, %r2;", "an address [a] is required"),
    ],
)  # fmt: skip
def test_an_address_may_lack_its_brackets_in_some_instructions(instruction: str, problem: str) -> None:
    match = table().match(*statement(instruction))
    assert match is not None
    assert match.problem.partition(": ")[2] == problem
