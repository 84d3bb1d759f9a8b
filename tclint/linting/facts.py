"""The facts about the launches of a kernel that may prove a class which is unknown, and the kernel that states one.

A fact (:class:`~tclint.findings.facts.Fact`) is true of some launches of the kernel. What is proved of the kernel as if it
stated the fact is proved of these launches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import prod

from tclint.findings.facts import Fact
from tclint.findings.requirements import ALL_ASSUMPTIONS
from tclint.findings.verdicts import Assumption
from tclint.ir.nodes import MAX_CTA_THREADS, Function, Instruction, Memory, Symbol, specials

__all__ = ["candidates", "under"]

MAX_PARAMETERS = 6
"""Parameters of which numbers and equality are tried, the first ones that are loaded."""
_SHAPES = ((256, 1, 1), (128, 1, 1), (512, 1, 1))
_PLANES = ((16, 16, 1), (32, 8, 1), (8, 8, 1))
"""Shapes of a CTA of a kernel that states none, and of one that reads the index of a thread in a second dimension."""
_NUMBERS = (8, 4, 3, 2)
"""Numbers of stages, of parts, or of iterations that a parameter may be, besides the number of threads, the largest ones first:
a kernel in which few threads do anything is proved easily, but real launches have more."""


def under(function: Function, fact: Fact) -> Function | None:
    """*function* as if it stated a *fact*, but for what may be assumed; None if no launch of it satisfies the fact."""
    sizes = {parameter.name: parameter.size for parameter in function.parameters}
    words = {(name, offset): number for name, offset, number in fact.numbers}
    fits = all(offset + 4 <= sizes.get(name, 0) for name, offset in words)
    fits &= len(words) == len(fact.numbers)  # one number for each word
    fits &= all(sizes.get(a) == sizes.get(b) is not None for a, b in fact.equal)
    directives = dict(function.directives)
    if fact.shape:
        stated, most = function.directives.get(".reqntid"), function.most_threads or MAX_CTA_THREADS
        fits &= fact.shape == (*(stated or fact.shape), 1, 1)[:3] and 0 < prod(fact.shape) <= most
        directives[".reqntid"] = fact.shape
    if not fits:
        return None
    names = {b: a for a, b in sorted(fact.equal)}
    instructions = (
        [_renamed(each, names) for each in function.instructions] if names else function.instructions
    )
    return replace(
        function, directives=directives, arguments={**function.arguments, **words}, instructions=instructions
    )


def _renamed(instruction: Instruction, names: dict[str, str]) -> Instruction:
    """*instruction* with the parameters whose addresses it accesses renamed."""
    operands = tuple(
        operand._replace(base=operand.base._replace(name=names[operand.base.name]))
        if isinstance(operand, Memory) and isinstance(operand.base, Symbol) and operand.base.name in names
        else operand
        for operand in instruction.operands
    )
    return instruction if operands == instruction.operands else replace(instruction, operands=operands)


def candidates(function: Function, assume: frozenset[Assumption]) -> Iterator[Fact]:
    """The facts to try, those that say least first."""
    if refused := ALL_ASSUMPTIONS - assume:
        yield Fact(refused)
    if function.threads is None:
        stated = function.directives.get(".maxntid")
        plane = any(
            special.name in ("%tid.y", "%ntid.y")
            for each in function.instructions
            for special in specials(each.operands)
        )
        for shape in ((*stated, 1, 1)[:3],) if stated else _PLANES if plane else _SHAPES:
            yield Fact(shape=shape)
    names = _numbers(function)
    yield from (Fact(equal=frozenset((pair,))) for pair in combinations(names, 2))
    threads = (function.most_threads,) if function.most_threads is not None else ()
    for name in names:
        yield from (Fact(numbers=frozenset(((name, 0, number),))) for number in (*threads, *_NUMBERS))


def _numbers(function: Function) -> list[str]:
    """The first parameters that are loaded as one integer of 32 bits, in the order of their loads."""
    scalars = {p.name for p in function.parameters if p.size == 4 and p.type != ".f32"}
    loaded = dict.fromkeys(
        operand.base.name
        for each in function.instructions
        if each.match is not None and each.match.space.startswith(".param")
        for operand in each.operands
        if isinstance(operand, Memory) and isinstance(operand.base, Symbol) and operand.base.name in scalars
    )
    return list(loaded)[:MAX_PARAMETERS]
