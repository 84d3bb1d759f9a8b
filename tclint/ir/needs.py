"""What a module requires of its ``.version`` and ``.target``, one feature at a time (PTX ISA 11.1.1, 11.1.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tclint._named_tuple import NamedTuple
from tclint.ir.feature_uses import feature_uses, special_registers
from tclint.ir.nodes import SINK, Function, Immediate, Instruction, Module, Operand
from tclint.isa.directives import directives
from tclint.isa.forms import Match
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.isa.target import Availability, Target, Version
from tclint.isa.widths import width_of

__all__ = ["Need", "first_version", "instruction_needs", "name_of", "needs"]


class Need(NamedTuple):
    """Something that a module uses, where, and which versions and targets have it."""

    kind: str
    """``instruction``, ``register`` (a special one), ``directive`` (of a function) or ``feature`` (all others)."""
    what: str
    """The feature; empty for an instruction itself."""
    available: Availability
    function: Function | None
    span: tuple[int, int]
    """Of the first use, in the module."""
    sites: tuple[int, ...] = ()
    """The instructions of the function that use it, if instructions do."""
    until: Version | None = None
    """The first ``.version`` without it."""
    refused: bool = False
    """``ptxas`` rejects it in every version."""

    def allows(self, target: Target, version: Version) -> bool:
        """Whether *target* and *version* have the feature."""
        if self.refused or (self.until is not None and version >= self.until):
            return False
        return not self.available.lacking(target, version)


def needs(module: Module, target: Target | None) -> Iterator[Need]:
    """Everything that *module* uses and that some version or target lacks.

    Instructions that the table does not know are left out. So are features that no single statement shows, if *target*
    and the version of the module are recent enough to have them all; with None for *target*, they are included.
    """
    for function in module.functions:
        yield from _of_instructions(function)
        yield from _of_special_registers(function)
    for function in module.declared:
        yield from _of_directives(function)
    for use in feature_uses(module, target):
        spec = use.spec
        yield Need(
            "feature", spec.name, spec.available, use.function, use.span, (), spec.until, bool(spec.refused)
        )


def _of_instructions(function: Function) -> Iterator[Need]:
    for use in function.uses:
        if use.match is not None and use.sites:
            span = _span(function, use.sites[0])
            for what, available in use.match.needs:
                yield Need("instruction", what, available, function, span, tuple(use.sites))
            for site in use.sites if use.match.form.valued else ():
                for what, available in _of_values(function, use.match, function.instructions[site]):
                    yield Need("instruction", what, available, function, _span(function, site), (site,))


def instruction_needs(function: Function, instruction: Instruction) -> list[tuple[str, Availability]]:
    """Each feature that an instruction of *function* uses: ``(what, availability)``, as :attr:`Match.needs` has them,
    and those that depend on the value or the type of an operand."""
    match = instruction.match
    return [] if match is None else [*match.needs, *_of_values(function, match, instruction)]


def _of_values(
    function: Function, match: Match, instruction: Instruction
) -> Iterator[tuple[str, Availability]]:
    for requirement in match.form.valued:
        operand = instruction.part(requirement.operand)
        if requirement.when.issubset(match.modifiers) and _is(function, operand, requirement.given):
            yield requirement.what, requirement.available


def _is(function: Function, operand: Operand | None, given: str) -> bool:
    """Whether *operand* is what the key ``given`` of a requirement describes; not if there is no such operand."""
    if given == "_":
        return operand is SINK
    if given == "register" or given.startswith("."):
        if type(operand) is not int:
            return False
        return given == "register" or width_of(function.registers[operand].type) == width_of(given)
    low, _, high = given.partition("..")
    return isinstance(operand, Immediate) and int(low) <= operand.value <= int(high or low)


def _of_special_registers(function: Function) -> Iterator[Need]:
    for site, name in special_registers(function):
        register = SPECIAL_REGISTERS[name]
        what = register.vector or name
        yield Need("register", what, register.available, function, _span(function, site), (site,))


def _of_directives(function: Function) -> Iterator[Need]:
    for directive in function.stated:
        spec = directives().get(directive.name)
        if spec is not None and ("entry" if function.entry else "func") in spec.on:
            span = function.start + directive.start, function.start + directive.end
            yield Need("directive", spec.name, spec.available, function, span, (), spec.until)


def _span(function: Function, site: int) -> tuple[int, int]:
    instruction = function.instructions[site]
    return function.start + instruction.start, function.start + instruction.end


def first_version(wanted: Collection[Need], target: Target, least: Version = (0, 0)) -> Version | None:
    """The first ``.version`` from *least* on under which *target* has everything *wanted*; None if none does."""
    if not all(need.available.on(target) for need in wanted):
        return None
    version = max((least, target.introduced, *(need.available.version_for(target) for need in wanted)))
    return version if all(need.allows(target, version) for need in wanted) else None


def name_of(instruction: Instruction, what: str) -> str:
    """The name of an instruction, or of its modifier or operand *what*, as a message shows it: ``cp.async.bulk``."""
    name, _, second = instruction.opcode.partition(".")
    if second and not second[0].isdigit():
        name = ".".join(instruction.opcode.split(".", 2)[:2])
    match = instruction.match
    if match is not None:
        name = max(name, match.syntax.short_name(match.modifiers), key=len)
    return f"{what} of {name}" if what else name
