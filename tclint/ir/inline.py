"""Inlining: calls replaced by the bodies of their callees.

An asynchronous operation may be issued in one function and waited for in another, so the analyses see a kernel with its
callees inlined. Only relevant callees are inlined: those that contain an instruction with an event, directly or in a
callee, and those that are short including all their callees; a debug build converts and queries every address in such a
function. Recursive and indirect calls stay calls.

A parameter of a call (5.1.6.2, 7.1) becomes registers: each part that the caller stores and the callee loads, or vice
versa, is one register of this call, and the accesses become moves. If the two access different parts, take the address,
or extend a loaded value, the parameter stays in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tclint.ir.call_parameters import Parameters, access_of, passed_by, same_parts
from tclint.ir.nodes import (
    FormUse,
    Function,
    Immediate,
    Instruction,
    Location,
    Module,
    Register,
    Symbol,
    renamed,
)
from tclint.ir.operands import shape
from tclint.isa.table import table

__all__ = ["callees", "inlinable", "inline", "reached"]

MAX_INSTRUCTIONS = 50_000
"""The size to which a function may grow by inlining; a call that would exceed it stays a call."""
Names = dict[str, str]
"""Parameter of a callee, variable that it passes on, or variable that another function also declares -> its name in the function into which it is inlined."""

Parts = dict[int, int]
"""Byte offset of a part of a parameter -> its register."""
MAX_SHORT_INSTRUCTIONS = 32
"""The size, with all callees, of a function that is inlined although it has no event: its result may be an address."""
MAX_DEPTH = 64
"""The nesting of calls that are inlined; a call that is deeper stays a call."""


def callees(function: Function) -> set[str]:
    """The names of the functions that *function* calls directly."""
    return {function.instructions[i].callee for use in function.uses if use.flow for i in use.sites} - {""}


def reached(function: Function, module: Module) -> tuple[Function, ...]:
    """The functions of *module* that *function* calls, directly or indirectly, in the order of the text.

    Written here and not taken from networkx, whose import costs each run over a module with calls more than 100 ms.
    """
    names: set[str] = set()
    fresh = callees(function)
    while fresh:
        names |= fresh
        fresh = (
            set[str]().union(*(callees(module.by_name[n][-1]) for n in fresh & module.by_name.keys())) - names
        )
    found = (each for name in names & module.by_name.keys() for each in module.by_name[name])
    return tuple(sorted(found, key=lambda each: each.start)) if names else ()


def inlinable(module: Module) -> dict[str, Function]:
    """Name -> function, for the functions of *module* whose calls are inlined, whichever function contains the call."""
    bodies = {f.name: f for f in module.functions if f.instructions and not f.damaged and not f.entry}
    return _relevant(bodies)


def inline(function: Function, wanted: dict[str, Function]) -> Function:
    """*function* with its calls of :func:`inlinable` functions inlined; *function* itself if there are none."""
    if not any(_callee(function, i, wanted) for use in function.uses if use.flow for i in use.sites):
        return function
    return _Inliner(function, wanted).run()


def _relevant(bodies: dict[str, Function]) -> dict[str, Function]:
    """The functions that contain an event, directly or in a callee, and the short ones."""
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
    """Name -> size including all callees, for the functions of at most ``MAX_SHORT_INSTRUCTIONS``."""
    found: dict[str, int] = {}
    left = {name: _called(f) for name, f in bodies.items() if len(f.instructions) <= MAX_SHORT_INSTRUCTIONS}
    while ready := [name for name, called in left.items() if found.keys() >= set(called)]:
        for name in ready:
            size = len(bodies[name].instructions) + sum(map(found.__getitem__, left.pop(name)))
            if size <= MAX_SHORT_INSTRUCTIONS:
                found[name] = size
    return found


def _called(function: Function) -> list[str]:
    """The name of the callee of each call; empty for an indirect call."""
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
            parameters=function.parameters,
            directives=function.directives,
            errors=function.errors,
            noreturn=function.noreturn,
        )
        self.function = function
        self.labels: dict[int, str] = {}
        self.locations: list[tuple[int, Location]] = []
        self.variables = dict(function.variables)
        self.owners = dict.fromkeys(function.variables, function.name)
        """Variable -> the function that declares it; of several, the first one whose body is copied."""
        self.branch = table().match("bra", ("s",))
        self._known: dict[str, Parameters] = {}

    def run(self) -> Function:
        self._body(self.function, 0, (), {}, {})
        result = self.result
        uses: dict[tuple[str, int], FormUse] = {}
        for i, instruction in enumerate(result.instructions):
            key = (instruction.opcode, id(instruction.match))
            use = uses.get(key)
            if use is None:
                flow = bool(instruction.flow)
                use = uses[key] = FormUse(instruction.opcode, instruction.match, (), (), False, flow)
            use.sites.append(i)
        result.uses = list(uses.values())
        result.labels, result.locations = self.labels, tuple(self.locations)
        result.variables = self.variables
        return result

    def _body(
        self, body: Function, shift: int, active: tuple[str, ...], names: Names, passed: dict[int, Parts]
    ) -> None:
        """Append *body* with its registers renumbered by *shift* and its parameters renamed by *names*.

        *passed* has the accesses to parameters that become moves.
        """
        out = self.result.instructions
        moved: dict[int, int] = {}  # index in body -> index in the result
        jumps: list[tuple[Instruction, tuple[int, ...]]] = []
        returns: list[Instruction] = []
        offset = body.start - self.result.start
        where = iter([*body.locations, (len(body.instructions), Location(0, 0, 0))])
        next_location = next(where)
        calls = dict(self._calls(body))
        inlined: dict[int, dict[int, Parts]] = {}
        for i, instruction in enumerate(body.instructions):
            moved[i] = len(out)
            while next_location[0] <= i:
                self.locations.append((len(out), next_location[1]))
                next_location = next(where)
            if i in body.labels:
                self.labels.setdefault(len(out), body.labels[i])
            if i in calls and self._fits(body, calls[i], active):
                here, inlined[calls[i]] = self._passing(body, calls[i])
                passed = passed | here
            if i in inlined:
                self._call(body, i, shift, active, names, inlined[i])
                continue
            if i in passed:
                self._moves(body, i, shift, passed[i])
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

    def _calls(self, body: Function) -> Iterator[tuple[int, int]]:
        """The calls that may be inlined, each preceded by the start of the straight-line code that leads to it."""
        for use in body.uses:
            for call in use.sites if use.flow else ():
                if _callee(body, call, self.bodies) is not None:
                    yield self._parameters(body).start(call), call

    def _fits(self, body: Function, call: int, active: tuple[str, ...]) -> bool:
        callee = self.bodies[body.instructions[call].callee]
        size = len(self.result.instructions) + len(callee.instructions)
        return callee.name not in active and len(active) < MAX_DEPTH and size < MAX_INSTRUCTIONS

    def _parameters(self, body: Function) -> Parameters:
        found = self._known.get(body.name)
        if found is None:
            found = self._known[body.name] = Parameters(body)
        return found

    def _passing(self, body: Function, call: int) -> tuple[dict[int, Parts], dict[int, Parts]]:
        """The accesses to the parameters of a call that become registers: those of *body*, and those of the callee."""
        callee = self.bodies[body.instructions[call].callee]
        outside, inside = self._parameters(body), self._parameters(callee)
        caller: dict[int, Parts] = {}
        within: dict[int, Parts] = {}
        often = Counter(passed_by(body.instructions[call]))
        for formal, name, result in _arguments(body.instructions[call], callee):
            given, taken = outside.around(call, name, result), inside.of(formal)
            if (
                given is None
                or taken is None
                or often[name, result] > 1
                or not same_parts(given, body, taken, callee)
            ):
                continue
            sizes = {at: a.size for a in (*given, *taken) for at, _ in a.parts()}
            parts = {at: len(self.result.registers) + n for n, at in enumerate(sizes)}
            self.result.registers += [Register(f"{formal}+{at}", f".b{8 * sizes[at]}") for at in parts]
            caller.update((a.site, parts) for a in given)
            within.update((a.site, parts) for a in taken)
        return caller, within

    def _moves(self, body: Function, site: int, shift: int, parts: Parts) -> None:
        """Append the moves that replace a load from a parameter, or a store to it."""
        instruction = body.instructions[site]
        found = access_of(site, instruction)
        assert found is not None
        access, offset = found[1], body.start - self.result.start
        for at, item in access.parts():
            item = renamed(item, {}, shift)
            to, source = (parts[at], item) if access.stores else (item, parts[at])
            assert isinstance(to, int)
            kind = "f" if isinstance(source, Immediate) and isinstance(source.value, float) else "b"
            opcode = f"mov.{kind}{8 * access.size}"
            match = table().match(opcode, ("r", shape(source)))
            reads = (source,) if isinstance(source, int) else ()
            guard = instruction.guard + shift if instruction.guard >= 0 else -1
            self.result.instructions.append(
                Instruction(
                    opcode, match, guard, instruction.negated, (to, source), reads, (to,),
                    instruction.start + offset, instruction.end + offset,
                )
            )  # fmt: skip

    def _call(
        self,
        body: Function,
        site: int,
        shift: int,
        active: tuple[str, ...],
        names: Names,
        passed: dict[int, Parts],
    ) -> None:
        result, call = self.result, body.instructions[site]
        callee, offset = self.bodies[call.callee], body.start - self.result.start
        skip: Instruction | None = None
        if call.guard >= 0:
            skip = Instruction(
                "bra", self.branch, call.guard + shift, not call.negated, (Symbol("skip"),), (), (),
                call.start + offset, call.end + offset,
            )  # fmt: skip
            result.instructions.append(skip)
        inner = len(result.registers)
        own = {formal: names.get(name, name) for formal, name, _ in _arguments(call, callee)}
        for name, variable in callee.variables.items():
            if variable.space == ".param":  # a parameter that it passes on is a new variable in each call
                own.setdefault(name, f"{name}.{inner}")
            elif variable.size and self.owners.setdefault(name, callee.name) != callee.name:
                own[name] = f"{name}#{callee.name}"  # one variable for all calls of the callee
            self.variables.setdefault(own.get(name, name), variable._replace(name=own.get(name, name)))
        result.registers.extend(callee.registers)
        self._body(callee, inner, (*active, callee.name), own, passed)
        if skip is not None:
            skip.targets = (len(result.instructions),)

    @staticmethod
    def _copy(instruction: Instruction, shift: int, offset: int, names: Names) -> Instruction:
        copy = Instruction(
            instruction.opcode,
            instruction.match,
            instruction.guard + shift if instruction.guard >= 0 else -1,
            instruction.negated,
            tuple(renamed(o, names, shift) for o in instruction.operands),
            tuple(r + shift for r in instruction.reads),
            tuple(r + shift for r in instruction.writes),
            instruction.start + offset,
            instruction.end + offset,
        )
        copy.targets = instruction.targets
        return copy


def _arguments(call: Instruction, callee: Function) -> list[tuple[str, str, bool]]:
    """The parameters of the callee, results first: name in the callee, name in the caller, whether it is a result.

    Empty if the call does not have as many arguments as the callee has parameters.
    """
    given = passed_by(call)
    if len(given) != len(callee.parameters):
        return []
    return [
        (parameter.name, name, result)
        for parameter, (name, result) in zip(callee.parameters, given, strict=True)
        if name
    ]
