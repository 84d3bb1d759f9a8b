"""Calls replaced by the bodies of their callees.

An asynchronous operation may be issued in one function and waited for in
another, so the analyses see a kernel with its callees inside. Only callees
that matter are inlined: those that contain, or call something that contains,
an instruction with an event, and those that are short with all that they call:
a debug build converts every address in one, and asks others about it.
Recursion and indirect calls stay calls.
"""

from __future__ import annotations

from collections.abc import Iterable

from tclint.ir.nodes import (
    Function,
    Instruction,
    Location,
    Memory,
    Module,
    Not,
    Operand,
    Pair,
    Symbol,
    Use,
    Vector,
)
from tclint.isa.table import table

__all__ = ["callees", "inlinable", "inline", "reached"]

_LIMIT = 50_000
"""Instructions that a function may grow to; a call beyond that stays a call."""
Names = dict[str, str]
"""Parameters of a callee, and what it passes on, by what they are called where it is inlined."""

_SHORT = 32
"""Instructions of a function that is inlined without an event, and of all it calls: what it returns may be an address."""
_DEPTH = 64
"""Calls inside calls that are inlined; one beyond that stays a call."""


def callees(function: Function) -> set[str]:
    """The names of the functions that *function* calls directly."""
    return {function.instructions[i].callee for use in function.uses if use.flow for i in use.sites} - {""}


def reached(function: Function, functions: Iterable[Function]) -> tuple[Function, ...]:
    """Those of *functions* that *function* calls, or that a function calls that it calls; in their order."""
    names: set[str] = set()
    if fresh := callees(function):
        functions = tuple(functions)
        bodies = {f.name: f for f in functions}
        while fresh:
            names |= fresh
            fresh = set().union(*(callees(bodies[name]) for name in fresh if name in bodies)) - names
    return tuple(f for f in functions if f.name in names)


def inlinable(module: Module) -> dict[str, Function]:
    """The functions of *module* whose calls are worth inlining, by name; the same for all of its functions."""
    bodies = {f.name: f for f in module.functions if f.instructions and not f.damaged and not f.entry}
    return _worth_it(bodies)


def inline(function: Function, wanted: dict[str, Function]) -> Function:
    """*function* with its calls of :func:`inlinable` functions inlined; itself when there are none."""
    if not any(_callee(function, i, wanted) for use in function.uses if use.flow for i in use.sites):
        return function
    return _Inliner(function, wanted).run()


def _worth_it(bodies: dict[str, Function]) -> dict[str, Function]:
    """The functions that have an event themselves or through a callee, and short ones."""
    found = {
        name: f
        for name, f in bodies.items()
        if any(u.match is not None and u.match.form.event for u in f.uses)
    }
    grown = True
    while grown:
        grown = False
        for name, f in bodies.items():
            if name not in found and any(
                _callee(f, i, found) for use in f.uses if use.flow for i in use.sites
            ):
                found[name] = f
                grown = True
    return {name: bodies[name] for name in _short(bodies)} | found


def _short(bodies: dict[str, Function]) -> dict[str, int]:
    """The functions of few instructions, with those of what they call inside; how many these are."""
    found: dict[str, int] = {}
    left = {name: _called(f) for name, f in bodies.items() if len(f.instructions) <= _SHORT}
    while ready := [name for name, called in left.items() if found.keys() >= set(called)]:
        for name in ready:
            size = len(bodies[name].instructions) + sum(map(found.__getitem__, left.pop(name)))
            if size <= _SHORT:
                found[name] = size
    return found


def _called(function: Function) -> list[str]:
    """The callee of each call; empty: which one is not known."""
    uses = (u for u in function.uses if u.match is not None and u.match.form.flow == "call")
    return [function.instructions[i].callee for u in uses for i in u.sites]


def _callee(function: Function, site: int, bodies: dict[str, Function]) -> Function | None:
    return bodies.get(function.instructions[site].callee)


class _Inliner:
    def __init__(self, function: Function, bodies: dict[str, Function]) -> None:
        self.bodies = bodies
        self.result = Function(
            name=function.name,
            entry=function.entry,
            start=function.start,
            end=function.end,
            target=function.target,
            version=function.version,
            registers=list(function.registers),
            variables=dict(function.variables),
            parameters=function.parameters,
            directives=function.directives,
            troubles=function.troubles,
            noreturn=function.noreturn,
        )
        self.function = function
        self.branch = table().match("bra", ("s",))

    def run(self) -> Function:
        self._body(self.function, 0, (), {})
        result = self.result
        uses: dict[tuple[str, int], Use] = {}
        for i, instruction in enumerate(result.instructions):
            key = (instruction.opcode, id(instruction.match))
            use = uses.get(key)
            if use is None:
                flow = bool(instruction.flow)
                use = uses[key] = Use(instruction.opcode, instruction.match, (), (), False, flow)
            use.sites.append(i)
        result.uses = list(uses.values())
        return result

    def _body(self, body: Function, shift: int, active: tuple[str, ...], names: Names) -> None:
        """Append *body*, its registers renumbered by *shift* and its parameters renamed."""
        out = self.result.instructions
        moved: dict[int, int] = {}  # index in body -> index in the result
        jumps: list[tuple[Instruction, tuple[int, ...]]] = []
        returns: list[Instruction] = []
        offset = body.start - self.result.start
        where = iter([*body.locations, (len(body.instructions), Location(0, 0, 0))])
        next_location = next(where)
        for i, instruction in enumerate(body.instructions):
            moved[i] = len(out)
            while next_location[0] <= i:
                self.result.locations.append((len(out), next_location[1]))
                next_location = next(where)
            if i in body.labels:
                self.result.labels.setdefault(len(out), body.labels[i])
            callee = _callee(body, i, self.bodies)
            if (
                callee is not None
                and callee.name not in active
                and len(active) < _DEPTH
                and len(out) + len(callee.instructions) < _LIMIT
            ):
                self._call(instruction, callee, shift, offset, (*active, callee.name), names)
                continue
            copy = self._copy(instruction, shift, offset, names)
            out.append(copy)
            if body is not self.function and instruction.flow == "return":
                copy.opcode, copy.match, copy.operands = "bra", self.branch, (Symbol("return"),)
                returns.append(copy)
            elif instruction.targets:
                jumps.append((copy, instruction.targets))
        moved[len(body.instructions)] = len(out)
        for copy, targets in jumps:
            copy.targets = tuple(moved.get(t, -1) for t in targets)
        for copy in returns:
            copy.targets = (len(out),)

    def _call(
        self,
        call: Instruction,
        callee: Function,
        shift: int,
        offset: int,
        active: tuple[str, ...],
        names: Names,
    ) -> None:
        result = self.result
        skip: Instruction | None = None
        if call.guard >= 0:
            skip = Instruction(
                "bra", self.branch, call.guard + shift, not call.negated, (Symbol("skip"),), (), (),
                call.start + offset, call.end + offset,
            )  # fmt: skip
            result.instructions.append(skip)
        inner = len(result.registers)
        own = _arguments(call, callee, names)
        for name, variable in callee.variables.items():
            if variable.space == ".param":  # what it passes on, in each call of it anew
                own.setdefault(name, f"{name}.{inner}")
            result.variables.setdefault(own.get(name, name), variable._replace(name=own.get(name, name)))
        result.registers.extend(callee.registers)
        self._body(callee, inner, active, own)
        if skip is not None:
            skip.targets = (len(result.instructions),)

    @staticmethod
    def _copy(instruction: Instruction, shift: int, offset: int, names: Names) -> Instruction:
        copy = Instruction(
            instruction.opcode,
            instruction.match,
            instruction.guard + shift if instruction.guard >= 0 else -1,
            instruction.negated,
            tuple(_moved(o, shift, names) for o in instruction.operands),
            tuple(r + shift for r in instruction.reads),
            tuple(r + shift for r in instruction.writes),
            instruction.start + offset,
            instruction.end + offset,
        )
        copy.targets = instruction.targets
        return copy


def _arguments(call: Instruction, callee: Function, names: Names) -> dict[str, str]:
    """What the caller calls the parameters of the callee, its results first (9.7.13.5)."""
    given = [o for operand in call.operands if isinstance(operand, Vector) for o in operand.items]
    if len(given) != len(callee.parameters):
        return {}
    return {
        parameter.name: names.get(argument.name, argument.name)
        for parameter, argument in zip(callee.parameters, given, strict=True)
        if isinstance(argument, Symbol)
    }


def _moved(operand: Operand, shift: int, names: Names) -> Operand:
    if isinstance(operand, int):
        return operand + shift
    if isinstance(operand, Symbol):
        return operand._replace(name=names[operand.name]) if operand.name in names else operand
    if isinstance(operand, Vector):
        return Vector(tuple(_moved(o, shift, names) for o in operand.items))
    if isinstance(operand, Memory):
        return Memory(
            _moved(operand.base, shift, names),
            operand.offset,
            tuple(_moved(o, shift, names) for o in operand.extras),
        )
    if isinstance(operand, Pair):
        return Pair(_moved(operand.first, shift, names), _moved(operand.second, shift, names))
    if isinstance(operand, Not):
        return Not(operand.register + shift)
    return operand
