"""The uses of features that are not instructions, and of special registers, in a whole module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import TypeVar, cast

from tclint._named_tuple import NamedTuple
from tclint._pattern import pattern
from tclint.ir.kept_answers import KeptAnswers
from tclint.ir.nodes import (
    MAX_SHARED_BYTES,
    FormUse,
    Function,
    Instruction,
    Memory,
    Module,
    Operand,
    OperandPair,
    Special,
    Symbol,
    Variable,
    Vector,
    specials,
)
from tclint.isa.features import FeatureSpec, feature
from tclint.isa.target import Target, Version

__all__ = ["UsedEntry", "feature_uses", "operands_of", "special_registers"]

T = TypeVar("T")

EVERYWHERE: tuple[Version, int] = (8, 1), 70
"""A module of at least this version, for a target of at least this number, has all features that no single statement
shows."""
_LARGE, _TOO_LARGE = 4352, 32764
"""Bytes of the parameters of a kernel: more are a feature of their own, and more than the second are refused."""
_SIGNED = 1 << 31
"""ptxas 13.5 takes a size that is negative in 32 bits."""
_NAME = pattern(r"[A-Za-z_$%][\w$]*")


class UsedEntry(NamedTuple):
    """An entry of the table of features that a module uses, and where."""

    spec: FeatureSpec
    function: Function | None
    span: tuple[int, int]
    """In the module."""
    word: str = ""
    """The word of the statement for which it is refused, if it is one."""


def feature_uses(module: Module, target: Target | None) -> Iterator[UsedEntry]:
    """Every feature that *module* uses: those of single statements, and those that only a name or a size shows."""
    for use in module.features:
        yield UsedEntry(use.spec, None, (use.start, use.end), use.word)
    for name in _of_header(module):
        yield UsedEntry(feature(name), None, module.target_span)
    located: set[tuple[int, ...]] = set()
    version, number = EVERYWHERE
    old = module.version is None or target is None or module.version < version or target.number < number
    for function in module.declared:
        at = function.start
        for use in function.features:
            yield UsedEntry(use.spec, function, (at + use.start, at + use.end), use.word)
        for call, start, end in function.unlocated:
            if call not in located:
                yield UsedEntry(feature("inlined_at without its .loc"), function, (at + start, at + end))
        located.update(function.positions)
        if function.damaged:
            continue
        head = at, at + len(function.name)
        if function.entry and (size := _size(function.parameters)) > _LARGE:
            yield UsedEntry(feature(f"parameters of more than {_LARGE} bytes"), function, head)
            if size > _TOO_LARGE:
                yield UsedEntry(feature(f"parameters of more than {_TOO_LARGE} bytes"), function, head)
        shared = sum(v.size for v in function.variables.values() if v.space == ".shared")
        if function.entry and MAX_SHARED_BYTES < shared < _SIGNED:
            yield UsedEntry(feature(f"more than {MAX_SHARED_BYTES} bytes of shared memory"), function, head)
        if old:
            yield from _old(module, function)
    for variable in module.variables.values():
        if variable.type == ".samplerref" and "texmode_independent" not in module.targets:
            yield UsedEntry(feature("sampler in unified mode"), None, module.target_span)
        for name in _NAME.findall(variable.initial) if old else ():
            if (spec := _address_of(module, name)) is not None:
                yield UsedEntry(spec, None, module.version_span)


def _of_header(module: Module) -> Iterator[str]:
    """The features that the options of ``.target`` show."""
    options = set(module.targets)
    if "debug" in options and not module.sections:
        yield "debug without sections"
    if "map_f64_to_f32" in options and module.target is not None and module.target.number >= 13:
        yield "map_f64_to_f32"
    if {"texmode_unified", "texmode_independent"} <= options:
        yield "two texturing modes"


def _size(parameters: Iterable[Variable]) -> int:
    """The bytes of parameters in a row, each at its alignment; as in ptxas, sums wrap at 32 bits, and sizes are negative
    in the last 31 bits of 64."""
    end = 0
    for parameter in parameters:
        size = parameter.size
        if 1 << 32 <= size < (1 << 64) - (1 << 31):
            return size
        end = (end + -end % max(parameter.align, 1) + size) & 0xFFFFFFFF
    return end


def _old(module: Module, function: Function) -> Iterator[UsedEntry]:
    """The features of a function that an old version or target lacks and that no single statement shows."""
    at = function.start
    for site, symbol in sorted(operands_of(function, Symbol), key=itemgetter(0)):
        instruction = function.instructions[site]
        if instruction.moves and (spec := _address_of_function(module, symbol.name)):
            yield UsedEntry(spec, function, (at + instruction.start, at + instruction.end))


def _address_of(module: Module, name: str) -> FeatureSpec | None:
    """The feature of an initial value that contains *name*; None if nothing of the module has that name."""
    if name in module.variables:
        return feature("address in an initial value")
    return _address_of_function(module, name)


def _address_of_function(module: Module, name: str) -> FeatureSpec | None:
    function = module.function(name)
    return None if function is None else feature(f"address of a {'kernel' if function.entry else 'function'}")


def special_registers(function: Function) -> Iterator[tuple[int, str]]:
    """Each special register that an instruction of *function* names: the instruction, and the name."""
    answers: KeptAnswers[str] = KeptAnswers(function, "special registers")
    for use in function.uses:
        yield from answers.about(use, _special_registers, function.instructions, use)


def _special_registers(instructions: Sequence[Instruction], use: FormUse) -> Iterator[tuple[int, str]]:
    first = instructions[use.sites[0]].operands if use.sites else ()
    for at, kind in enumerate(first):
        if not isinstance(kind, Special | Vector | Memory | OperandPair):
            continue
        column = [instructions[site].operands[at] for site in use.sites]
        if not _of_registers(column):
            for site, operand in zip(use.sites, column, strict=True):
                for special in specials((operand,)):
                    yield site, special.name


def _of_registers(column: list[Operand]) -> bool:
    """Whether all operands of a column are vectors of registers, or all of them addresses in one register."""
    kinds = {*map(type, column)}
    if kinds == {Vector}:
        vectors = cast("list[Vector]", column)
        return {*map(type, chain.from_iterable(vector.items for vector in vectors))} == {int}
    if kinds != {Memory}:
        return False
    addresses = cast("list[Memory]", column)
    return {type(address.base) for address in addresses} == {int} and not any(a.extras for a in addresses)


def operands_of(function: Function, *kinds: type[T]) -> Iterator[tuple[int, T]]:
    """The operands of *kinds* in *function*, each with the index of its instruction.

    The first instruction of a :class:`~tclint.ir.nodes.FormUse` determines which operands of the others can be of these
    kinds, so only few operands are examined.
    """
    for use in function.uses:
        first = function.instructions[use.sites[0]].operands if use.sites else ()
        for at, kind in enumerate(first):
            if isinstance(kind, kinds):
                for site in use.sites:
                    operand = function.instructions[site].operands[at]
                    if isinstance(operand, kinds):
                        yield site, operand
