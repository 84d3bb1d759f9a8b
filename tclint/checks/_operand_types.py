"""Operands that an assembler rejects: wrong types, kinds and state spaces (PTX ISA 6, 9.2, 9.4.1)."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain
from typing import cast

from tclint.ir.nodes import (
    SINK,
    FormUse,
    Function,
    Immediate,
    Memory,
    Module,
    Negated,
    Not,
    Operand,
    OperandPair,
    Special,
    Symbol,
    Variable,
    Vector,
    registers,
)
from tclint.isa.forms import Match, floating
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.isa.widths import ADDRESSES, SPECIAL, Width, needed, width_of

__all__ = ["OperandTypes"]

_SPACES = (".global", ".shared", ".local", ".const", ".param")
_UNCHECKED = "fence.proxy.tensormap.acquire"
"""ptxas 13.5 accepts any address in it."""

_MASKED = 256
"""The bits of the vectors of which a store may leave elements out (9.7.9.11)."""

_PER_CTA, _PER_CTA_DIRECTIVE = "%perctamemory", ".minperctamemory"
"""The beginning of the names of the special registers that depend on a directive, and this directive (9.4; in no manual)."""

_NARROWER = ("%tid", "%ntid", "%ctaid", "%nctaid", "%gridid")
"""The special registers that were .u16 in PTX 1.x (10.1, 10.2, 10.6, 10.7, 10.10): `mov` still reads their low bits."""

_BITS = (".b32", ".b64")
"""The types that hold a floating-point constant as bits: as an argument any one, else that of their size."""

_NOT_PASSED = {
    Negated: "a negated register",
    Not: "a negated predicate",
    Memory: "an address",
    Special: "a special register",
}
"""Operands that a call does not take in its lists (9.7.12.5)."""

_UNMIXED = ("tcgen05", "tex")
"""ptxas 13.5 takes a predicate for a .b32 register in a vector with another .b32 register, but not in these."""

Misfit = tuple[int, str]
"""An instruction, and what is wrong with one of its operands."""


def _takes_sink(match: Match, vector: Vector) -> bool:
    """Whether ptxas 13.5 accepts a sink in the source *vector*: ``mov.b32`` packs parts, and wide stores are masked."""
    if match.form.memory:
        return match.syntax.root == "st" and width_of(match.element) * len(vector.items) == _MASKED
    return (match.syntax.root, *match.modifiers) == ("mov", ".b32")


class OperandTypes:
    """The types of the registers and the state spaces of the variables that a function names."""

    def __init__(self, function: Function, module: Module) -> None:
        self.module = module
        self.instructions = function.instructions
        self.registers = function.registers
        self.redeclared = function.redeclared
        self.directives = function.directives
        self.types = [register.type for register in function.registers]
        self.present = {*self.types}
        parameters = {parameter.name: parameter for parameter in function.parameters}
        self.variables = ChainMap(dict(function.variables), parameters, module.variables)
        """The variables and parameters by name."""
        self.facts = self.registers, self.redeclared, self.directives, self.variables.maps
        """All that the answer of :meth:`misfits` about an instruction other than a call depends on, apart from it."""

    @cached_property
    def functions(self) -> dict[str, Function]:
        """The functions of the module by name, without those that contain a syntax error."""
        return {f.name: f for f in self.module.declared if not f.damaged}

    def misfits(self, use: FormUse, match: Match) -> Iterator[Misfit]:
        """The instructions of *use* with an operand that ptxas rejects, with what is wrong with the first such operand
        of each."""
        if match.form.flow == "call":
            for i in use.sites:
                if problem := self._call(self.instructions[i].operands):
                    yield i, problem
            return
        columns = [*zip(*[self.instructions[i].operands for i in use.sites], strict=True)]
        # At all sites of a use the vectors have the same lengths. A register may be declared as a vector (5.4.2).
        lengths = {
            at: next(len(operand.items) for operand in column if isinstance(operand, Vector))
            for at, column in enumerate(columns)
            if Vector in map(type, column)
        }
        called = {at: name for name, at in reversed(list(match.named.items()))}
        widths = needed(match, lengths)
        reported: set[int] = set()
        for at, column in enumerate(columns):
            for i, problem in self._column(use, match, at, column, widths.get(at)):
                if i not in reported:
                    reported.add(i)
                    yield i, f"operand {at + 1} ({called.get(at, '')}) is {problem}"

    def _call(self, operands: tuple[Operand, ...]) -> str:
        """What is wrong with a call of a function of the module, or with an indirect call; empty if nothing is."""
        passed = chain.from_iterable(o.items for o in operands if isinstance(o, Vector))
        if wrong := next(
            (what for o in passed for kind, what in _NOT_PASSED.items() if isinstance(o, kind)), ""
        ):
            return f"{wrong} cannot be an argument or a result"
        at = next((at for at, operand in enumerate(operands) if not isinstance(operand, Vector)), -1)
        callee = operands[at] if at >= 0 else None
        if isinstance(callee, int) and not isinstance(operands[-1], Symbol):
            return "an indirect call must name its .callprototype or .calltargets"
        function = self.functions.get(callee.name) if isinstance(callee, Symbol) else None
        # `(1)` is the same as `1`, so a list of one constant is that constant.
        if function is None or not all(isinstance(o, Vector | Immediate) for o in operands[at + 1 :]):
            return ""
        if function.entry:
            return f"{function.name} is a kernel, which cannot be called"
        given = tuple(
            [item for o in some for item in (o.items if isinstance(o, Vector) else (o,))]
            for some in (operands[:at], operands[at + 1 :])
        )
        lists = [*zip(("result", "argument"), given, function.formals or (), strict=False)]
        for what, have, formals in lists:
            if len(have) != len(formals):
                return f"{function.name} has {len(formals)} {what}s, not {len(have)}"
        for what, have, formals in lists:
            for number, (operand, formal) in enumerate(zip(have, formals, strict=True), 1):
                if problem := self._passed(operand, formal):
                    return f"{what} {number} ({formal.name}) of {function.name} is {problem}"
        return ""

    def _passed(self, operand: Operand, formal: Variable) -> str:
        """What an argument or a result is and must not be, for a parameter that is declared as *formal* (7.1); empty if
        it is accepted."""
        bits = width_of(formal.type)
        if not bits:
            return ""
        width = Width(bits, False, formal.type)
        array = formal.size * 8 > bits > 1
        if isinstance(operand, Symbol):
            variable = self.variables.get(operand.name)
            if variable is None or variable.space != ".param" or operand.name in self.redeclared:
                return ""
            if array != (variable.size * 8 > width_of(variable.type)) or variable.size != formal.size:
                return f"{_extent(variable)}, but must be {_extent(formal)}"
            if variable.align != formal.align:
                return f"aligned to {variable.align} bytes, but must be aligned to {formal.align}"
            return "" if array or width.takes(variable.type) else _mistyped(variable.type, width)
        if isinstance(operand, Immediate):
            fits = not array and (formal.type in _BITS or width.takes_constant(operand.kind))
            return "" if fits else f"{_constant(operand)}, but must be {_extent(formal)}"
        if type(operand) is not int or self._is_vector(operand):
            return ""
        if array:
            return f"a register, but must be {_extent(formal)}"
        return "" if width.takes(self.types[operand]) else _sized(self.types[operand], width)

    def _is_vector(self, register: int) -> bool:
        """Whether a register is declared with ``.v2`` or ``.v4``; its first element is then the next one (5.4.2)."""
        some = self.registers[register : register + 2]
        return len(some) == 2 and some[1].name == f"{some[0].name}.x"

    def _column(
        self, use: FormUse, match: Match, at: int, column: tuple[Operand, ...], width: Width | None
    ) -> Iterator[Misfit]:
        """What is wrong with one operand of the instructions of *use*; it is of one kind in all of them."""
        first = column[0]
        if isinstance(first, Vector) and width is not None and width.bits & (width.bits - 1):
            problem = f"a vector of {len(first.items)}, which does not divide {match.modifiers[-1]}"
            yield from ((i, problem) for i in use.sites)
            return
        if isinstance(first, Memory):
            for i, operand in zip(use.sites, column, strict=True):
                if problem := self._address(match, cast("Memory", operand)):
                    yield i, problem
        elif not isinstance(first, int | Vector | OperandPair):
            if _constants_fit(column, width):
                return
            for i, operand in zip(use.sites, column, strict=True):
                if problem := self._value(match, at, operand, width):
                    yield i, problem
        elif width is not None and (refused := {t for t in self.present if not width.takes(t)}):
            yield from self._registers(use, column, refused, width)
        if isinstance(first, OperandPair):
            for i, operand in zip(use.sites, column, strict=True):
                if what := self._not_predicate(cast("OperandPair", operand).second):
                    yield i, f"a pair whose second part is {what}, but must be a predicate"
        if isinstance(first, Vector) and at in match.writes:
            for i, operand in zip(use.sites, column, strict=True):
                if Immediate in map(type, cast("Vector", operand).items):
                    yield i, "a result, but contains a constant"
        elif isinstance(first, Vector) and not _takes_sink(match, first):
            for i, operand in zip(use.sites, column, strict=True):
                if SINK in cast("Vector", operand).items:
                    yield i, "a source, but contains the sink _"

    def _not_predicate(self, operand: Operand) -> str:
        """What *operand* is, in words; empty if it is a predicate or a sink."""
        if isinstance(operand, int):
            bits = width_of(self.types[operand])
            return f"a {bits}-bit register" if bits > 1 else ""
        return "" if operand is SINK else "not a register"

    def guards(self) -> Iterator[Misfit]:
        """The instructions whose guard is not a predicate, with what it is."""
        types = self.types
        wrong = {i.guard for i in self.instructions if i.guard >= 0 and types[i.guard] not in (".pred", "")}
        for at, instruction in enumerate(self.instructions) if wrong else ():
            if instruction.guard in wrong:
                yield at, f"the guard is a {types[instruction.guard]} register, but must be a predicate"

    def _registers(
        self, use: FormUse, column: tuple[Operand, ...], refused: AbstractSet[str], width: Width
    ) -> Iterator[Misfit]:
        types = self.types
        if refused.isdisjoint(map(types.__getitem__, _together(column))):
            return
        mixed = ".b32" not in refused and use.match is not None and use.match.syntax.root not in _UNMIXED
        for i, operand in zip(use.sites, column, strict=True):
            have = [types[r] for r in _typed(operand)]
            passed = ".pred" if mixed and isinstance(operand, Vector) and ".b32" in have else ""
            wrong = next((t for t in have if t in refused and t != passed), "")
            if wrong:
                yield i, _sized(wrong, width)

    def _value(self, match: Match, at: int, operand: Operand, width: Width | None) -> str:
        """What an operand that is not a register is and must not be, in words; empty if it is accepted."""
        root = match.syntax.root
        if isinstance(operand, Special):
            return self._special(match, at, operand, width)
        if isinstance(operand, Not) and width_of(self.types[operand.register]) > 1:
            return f"a negated {self.types[operand.register]} register, but only a predicate can be negated"
        if width is None:
            return ""
        if isinstance(operand, Symbol) and operand.name in self.variables and root not in ADDRESSES:
            return f"the address of {operand.name}, but must be a register"
        if isinstance(operand, Immediate):
            fits = width.takes_constant(operand.kind)
            precision = f" of {operand.kind} precision" if width.type in _BITS else ""
            return "" if fits else f"{_constant(operand)}{precision}, but the type is {width.type}"
        return ""

    def _special(self, match: Match, at: int, operand: Special, width: Width | None) -> str:
        """What a special register is and must not be, in words; empty if it is accepted: `mov` reads one of its own
        size, `cvt` between integers also the low bits of a larger one."""
        if operand.name.startswith(_PER_CTA) and _PER_CTA_DIRECTIVE not in self.directives:
            return f"{operand.name}, which the kernel has only with {_PER_CTA_DIRECTIVE}"
        if match.syntax.open:
            return ""
        if match.syntax.root not in SPECIAL or at in match.writes or floating(match.modifiers):
            return f"the special register {operand.name}, but must be a register"
        _, vector, type_ = SPECIAL_REGISTERS[operand.name].type.rpartition(".v4")
        if vector and vector not in match.modifiers:
            return f"the special register {operand.name}, which is a vector"
        low_bits = match.syntax.root == "cvt" or operand.name.partition(".")[0] in _NARROWER
        if width is None or width._replace(wider=low_bits and width.bits > 1).takes(type_):
            return ""
        return _sized(type_, width)

    def _address(self, match: Match, operand: Memory) -> str:
        """What an address is and must not be, in words; empty if it is accepted."""
        base = operand.base
        if any(isinstance(part, Vector) and SINK in part.items for part in operand.extras):
            return "an address, but contains the sink _"
        if match.form.name == _UNCHECKED or operand.extras:
            return ""
        if isinstance(base, int):
            type_ = self.types[base]
            floating = type_.startswith(".f") or type_ == ".pred"
            return f"an address in a {type_} register, but must be an integer" if floating else ""
        space = _space(match)
        if isinstance(base, Immediate):
            return "" if space == ".local" else "a constant address, which only .local has"
        variable = self.variables.get(base.name) if isinstance(base, Symbol) else None
        if space and variable is not None and variable.space in _SPACES and variable.space != space:
            return f"an address in {variable.space}, but must be in {space}"
        return ""


def _constants_fit(column: tuple[Operand, ...], width: Width | None) -> bool:
    """Whether all operands of a column are constants that an operand of *width* may be."""
    if {*map(type, column)} != {Immediate}:
        return False
    kinds = {constant.kind for constant in cast("tuple[Immediate, ...]", column)}
    return width is None or all(map(width.takes_constant, kinds))


def _space(match: Match) -> str:
    """The only state space that the opcode names; empty if it names none, or several."""
    named = [space for m in match.modifiers if (space := m.partition("::")[0]) in _SPACES]
    return named[0] if len(named) == 1 else ""


def _together(column: tuple[Operand, ...]) -> Iterable[int]:
    """The registers with the type of the operand, in the same operand of several instructions."""
    kinds = {*map(type, column)}
    if kinds == {int}:
        return cast("tuple[int, ...]", column)
    if kinds == {Vector}:
        items = [*chain.from_iterable(vector.items for vector in cast("tuple[Vector, ...]", column))]
        if {*map(type, items)} == {int}:
            return cast("list[int]", items)
    return chain.from_iterable(map(_typed, column))


def _typed(operand: Operand) -> tuple[int, ...]:
    """The registers of an operand that have its type: the first of a pair, all of a vector, none of an address."""
    if isinstance(operand, OperandPair):
        return registers(operand.first)
    if isinstance(operand, Vector):
        return tuple(item for item in operand.items if type(item) is int)
    return (operand,) if isinstance(operand, int) else ()


def _constant(operand: Immediate) -> str:
    return "an integer" if operand.kind == "integer" else "a floating-point constant"


def _extent(variable: Variable) -> str:
    """The type of a parameter, and its size if it is an array."""
    if variable.size * 8 > width_of(variable.type):
        return f"an array of {variable.size} bytes"
    return f"of type {variable.type}"


def _mistyped(type_: str, width: Width) -> str:
    return f"of type {type_}, but must be of type {width.type}"


def _sized(register: str, width: Width) -> str:
    """The type of a register that an operand does not accept, and what it must be."""
    have, want = width_of(register), width.bits
    if have == want or (width.wider and have > want > 1):  # not its size, but its kind is wrong
        return f"a {register} register, but the type is {width.type}"
    wanted = "a predicate" if want == 1 else f"a {want}-bit register"
    if width.wider and want > 1:
        wanted = f"a register of {want} or more bits"
    if width.predicate:
        wanted += " or a predicate"
    return f"{'a predicate' if have == 1 else f'a {have}-bit register'}, but must be {wanted}"
