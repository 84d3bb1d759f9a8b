"""From a function to what is executed: one Python function for each instruction, made once.

``FORMS`` has a *factory* for each form of the ISA table: it looks at the operands and modifiers once, and returns the
*op* that executes the instruction for a warp. Immediates, symbols and special registers get a place behind the
registers of the function, so that an operand is nearly always a place in ``warp.regs``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tclint.executor.code import Code, Op
from tclint.executor.errors import Unsupported
from tclint.executor.memory import LOCAL, PARAM, RESERVED, SHARED, UNSIGNED, Array, Global
from tclint.executor.special import special
from tclint.executor.state import LANES, Warp
from tclint.ir.cfg import CFG
from tclint.ir.nodes import (
    SINK,
    Function,
    Immediate,
    Instruction,
    Memory,
    Module,
    Not,
    Operand,
    Pair,
    Special,
    Symbol,
    Variable,
    Vector,
    registers,
)
from tclint.isa.special_registers import SPECIAL_REGISTERS

__all__ = ["FORMS", "Decoder", "executes"]


Factory = Callable[["Decoder", Instruction], Op]
FORMS: dict[str, Factory] = {}
"""Form name -> factory."""

_WHOLE = frozenset(("warp", "warpgroup", "cta", "cluster"))
"""Convergence scopes that whole warps execute together."""
_NONE_MAY_HAVE_LEFT = ("mma.", "wmma.", "ldmatrix", "stmatrix", "tcgen05.ld", "tcgen05.st", "tcgen05.alloc")
"""Forms that are undefined once a thread of the warp has exited."""


def executes(*names: str) -> Callable[[Factory], Factory]:
    """Register a factory for forms."""

    def register(factory: Factory) -> Factory:
        for name in names:
            if name in FORMS:
                raise ValueError(f"two factories for {name}")
            FORMS[name] = factory
        return factory

    return register


class Decoder:
    """Decodes one function."""

    def __init__(
        self,
        function: Function,
        module: Module,
        memory: Global,
        parameters: bytes,
        place: Callable[[int], str] = str,
        watched: frozenset[int] = frozenset(),
    ) -> None:
        self.function = function
        self.module = module
        self.memory = memory
        self.code = Code(function)
        self.code.place = place
        self.code.parameters = np.frombuffer(parameters, np.uint8)
        self.cfg = CFG(function)
        self._watched = watched
        self.types = [_kind(r.type) for r in function.registers]
        self.code.template = [np.zeros(LANES, kind) for kind in self.types]
        self._constants: dict[Any, int] = {}
        self.site = 0
        self.code.symbols = self._layout()

    # ------------------------------------------------------------ variables

    def _layout(self) -> dict[str, int]:
        """The address of every variable and parameter, in its own state space.

        Dynamic shared memory lies behind the static one (5.1.7).
        """
        found: dict[str, int] = {}
        self.spaces: dict[str, str] = {}
        at = 0
        self.entry_parameters = {p.name for p in self.function.parameters}
        for parameter in self.function.parameters:
            at = _align(at, parameter.align)
            found[parameter.name] = at
            self.spaces[parameter.name] = ".param"
            at += parameter.size
        shared, local = RESERVED, 0
        open_ended: list[Variable] = []
        for variable in (*self.module.variables.values(), *self.function.variables.values()):
            if variable.name in self.entry_parameters:
                continue
            self.spaces[variable.name] = variable.space
            if variable.space == ".shared" and variable.size:
                shared = _align(shared, variable.align)
                found[variable.name] = shared
                shared += variable.size
            elif variable.space == ".shared":
                open_ended.append(variable)
            elif variable.space in (".local", ".param"):  # .param: what a call passes on, each thread its own
                local = _align(local, variable.align)
                found[variable.name] = local
                local += max(variable.size, 8)
            elif variable.name in self.memory.places:
                found[variable.name] = self.memory.address(variable.name)
        shared = _align(shared, max([16, *(v.align for v in open_ended)])) if open_ended else shared
        found |= dict.fromkeys((v.name for v in open_ended), shared)
        self.code.shared_size, self.code.local_size = shared - RESERVED, _align(local, 16)
        return found

    # ------------------------------------------------------------ operands

    def constant(self, value: int, size: int) -> int:
        """The place of an unsigned constant of *size* bytes (0: a predicate)."""
        key = (value, size)
        if key not in self._constants:
            if size:
                array = np.full(LANES, value & (1 << 8 * size) - 1, UNSIGNED[size] if size < 16 else object)
            else:
                array = np.full(LANES, bool(value))
            array.flags.writeable = False
            self._constants[key] = self._append(array)
        return self._constants[key]

    def _append(self, array: Array) -> int:
        self.code.template.append(array)
        return len(self.code.template) - 1

    def special(self, name: str) -> int:
        if name not in self._constants:
            self._constants[name] = self._append(np.zeros(LANES, np.uint32))
            self.code.specials.append((self._constants[name], name))
        return self._constants[name]

    def address_of(self, symbol: Symbol) -> int:
        """The place that holds the address of a variable, in its state space."""
        at = self.code.symbols.get(symbol.name)
        if at is None:
            raise Unsupported(f"the address of {symbol.name}, which is not a variable of this module")
        space = self.spaces[symbol.name]
        if space == ".shared":
            return self.special(f"shared+{at + symbol.offset}")
        return self.constant(at + symbol.offset, 8)

    def source(self, operand: Operand, size: int) -> int:
        """The place of a source operand; an immediate is one of *size* bytes."""
        if isinstance(operand, int):
            return operand
        if isinstance(operand, Immediate):
            return self.constant(operand.pattern(size), size)
        if isinstance(operand, Special):
            return self.special(operand.name)
        if isinstance(operand, Symbol):
            return self.address_of(operand)
        raise Unsupported(f"the operand {operand}")

    def fetch(self, operand: Operand, size: int = 4) -> Callable[[Warp], Array]:
        """What gives an operand's value, with negation."""
        if isinstance(operand, Not):
            negated = operand.register
            return lambda w: ~w.regs[negated]
        if isinstance(operand, Special) and SPECIAL_REGISTERS[operand.name].varies:
            name = operand.name
            return lambda w: special(w, name)
        at = self.source(operand, size)
        return lambda w: w.regs[at]

    def uniform(self, operand: Operand, size: int = 4) -> Callable[[Warp], int]:
        """What gives the value of an operand that is the same in all lanes: that of the lowest one."""
        if isinstance(operand, Immediate) and isinstance(operand.value, int):
            value = operand.value & (1 << 8 * size) - 1
            return lambda w: value
        fetch = self.fetch(operand, size)
        return lambda w: int(fetch(w)[int(w.mask.argmax())])

    def needed(self, instruction: Instruction, name: str) -> Operand:
        """The operand that the syntax line calls *name*."""
        operand = instruction.named(name)
        if operand is None:
            raise Unsupported(f"the form without {name}")
        return operand

    def put(self, operand: Operand, signed: bool = False) -> Callable[[Warp, Array], None]:
        """What writes a value to a destination, in the lanes that execute; wider registers are extended (9.4.1)."""
        if operand is SINK:
            return lambda w, value: None
        if not isinstance(operand, int):
            raise Unsupported(f"the destination {operand}")
        at, kind = operand, self.types[operand]

        def write(w: Warp, value: Array) -> None:
            if value.dtype != kind:
                value = _extend(value, kind, signed)
            regs = w.regs
            regs[at] = value if w.full else np.where(w.mask, value, regs[at])

        return write

    def address(self, operand: Operand) -> Callable[[Warp], Array]:
        """What gives the addresses (int64) that an address operand names in each lane."""
        if isinstance(operand, Memory):
            base, offset = operand.base, operand.offset
        else:
            base, offset = operand, 0
        if isinstance(base, Symbol):
            base = Symbol(base.name, base.offset + offset)
            offset = 0
        at = self.source(base, 8)
        if self.code.template[at].dtype == np.uint64:
            if not offset:
                return lambda w: w.regs[at].view(np.int64)
            step = np.int64(offset)
            return lambda w: w.regs[at].view(np.int64) + step
        small = np.uint32(offset & 0xFFFFFFFF)
        if not offset:
            return lambda w: w.regs[at].astype(np.int64)
        return lambda w: (w.regs[at].astype(np.uint32, copy=False) + small).astype(np.int64)

    # ------------------------------------------------------------ decoding

    def decode(self) -> Code:
        """The code. Raises :class:`Unsupported` for what cannot be executed, naming the instruction's place."""
        code = self.code
        for site, instruction in enumerate(self.function.instructions):
            self.site = site
            op = self._op(instruction)
            if site in self._watched:
                op = _noticed(op, site, code.reached)
            code.ops.append(self._guarded(instruction, op))
            self._accesses(site, instruction)
        code.ops.append(_fall_off)
        self._unfenced()
        return code

    def _op(self, instruction: Instruction) -> Op:
        match = instruction.match
        where = self.code.place(self.site)
        if match is None or match.problem:
            reason = match.problem if match is not None else "the ISA table does not have it"
            return _refuse(f"{where}: {instruction.opcode}: {reason}")
        factory = FORMS.get(match.form.name)
        if factory is None:
            return _refuse(
                f"{where}: {instruction.opcode}: the executor does not know the form {match.form.name}"
            )
        try:
            op = factory(self, instruction)
            if match.scope not in _WHOLE:
                return op
            whole = match.form.name.startswith(_NONE_MAY_HAVE_LEFT)
            return _together(op, instruction.name, whole, match.scope == "warpgroup")
        except Unsupported as problem:
            return _refuse(f"{where}: {instruction.opcode}: {problem}")

    def _guarded(self, instruction: Instruction, op: Op) -> Op:
        guard, negated = instruction.guard, instruction.negated
        if guard < 0 or instruction.flow in ("branch", "branch-table"):
            return op

        def guarded(w: Warp) -> int | None:
            mask, full = w.mask, w.full
            taken = w.regs[guard]
            taken = mask & ~taken if negated else mask & taken
            count = np.count_nonzero(taken)
            if not count:
                return None
            w.mask, w.full = taken, count == LANES
            signal = op(w)
            if w.mask is taken:
                w.mask, w.full = mask, full
            return signal

        return guarded

    def _accesses(self, site: int, instruction: Instruction) -> None:
        if instruction.event == "issue" and instruction.group == "wgmma":
            return
        reads = instruction.reads
        if instruction.guard >= 0:
            reads = (*reads, instruction.guard)
        if reads or instruction.writes:
            self.code.touches[site] = (reads, instruction.writes)

    def _unfenced(self) -> None:
        operands: set[int] = set()
        for use in self.function.uses:
            if use.match is not None and use.match.form.event == "issue" and use.match.form.group == "wgmma":
                for site in use.sites:
                    instruction = self.function.instructions[site]
                    for name in ("d", "a"):
                        operand = instruction.named(name)
                        if operand is not None:
                            operands.update(registers(operand))
        if operands:
            for site, instruction in enumerate(self.function.instructions):
                written = operands.intersection(instruction.writes)
                # Copies between registers are the compiler's, and ptxas does without them.
                copies = instruction.match is not None and instruction.match.form.compute in (
                    "mov",
                    "pack",
                    "unpack",
                )
                if written and instruction.group != "wgmma" and not copies:
                    self.code.unfenced[site] = dict.fromkeys(written, site)


def _noticed(op: Op, site: int, reached: set[int]) -> Op:
    def noticed(w: Warp) -> int | None:
        reached.add(site)
        return op(w)

    return noticed


def _together(op: Op, name: str, whole: bool, group: bool) -> Op:
    """*op*, observing when not all lanes of the warp execute what all of them must (``.aligned``, 9.7.13.1).

    Lanes that have left do not count, unless the *whole* warp must be there (9.7.14.5.14, 9.7.16.8.2). The warps of a
    warpgroup, *group*, must all be there (9.7.15.1).
    """

    def checked(w: Warp) -> int | None:
        if not w.full and not w.loose:
            missing = int(np.count_nonzero((w.started if whole else w.alive) & ~w.mask))
            if missing:
                w.machine.observe(
                    "divergent", w, f"{missing} lanes of the warp do not execute {name}, which all must"
                )
        if group:
            first = w.index & ~3
            others = w.cta.warps[first : first + 4]
            came = w.cta.came.setdefault(w.site, set())
            came.add(w.index)
            if len(others) < 4 or any(other.index not in came and not other.alive.any() for other in others):
                w.machine.observe(
                    "divergent", w, f"not all warps of the warpgroup are there to execute {name}"
                )
        return op(w)

    return checked


def _refuse(message: str) -> Op:
    def refuse(w: Warp) -> int | None:
        raise Unsupported(message)

    return refuse


def _fall_off(w: Warp) -> int | None:
    return w.machine.leave(w.split, w.mask)


def _kind(name: str) -> Any:
    """How a register of a type is stored."""
    if name == ".pred":
        return np.dtype(bool)
    bits = int("".join(c for c in name if c.isdigit()) or 32)
    return np.dtype(UNSIGNED[bits // 8]) if bits <= 64 else np.dtype(object)


def _extend(value: Array, kind: Any, signed: bool) -> Array:
    """*value* as a register of another width holds it."""
    if kind == object or value.dtype == object:
        if kind == object:
            return value.astype(object)
        mask = (1 << 8 * kind.itemsize) - 1
        return np.array([v & mask for v in value.tolist()], kind)
    if kind == bool:
        return value.astype(bool)
    if signed and value.dtype.itemsize < kind.itemsize:
        return value.view(f"i{value.dtype.itemsize}").astype(f"i{kind.itemsize}").view(kind)
    return value.astype(kind)


def _align(at: int, to: int) -> int:
    return -(-at // max(to, 1)) * max(to, 1)


def windows() -> Mapping[str, int]:
    """State space -> what its generic addresses begin with."""
    return {".shared": SHARED, ".local": LOCAL, ".param": PARAM, ".global": 0, ".const": 0}


def parts(operand: Operand | None) -> tuple[Operand, ...]:
    """The elements of a vector; another operand is one element."""
    if operand is None:
        return ()
    return operand.items if isinstance(operand, Vector) else (operand,)


def pair(operand: Operand) -> tuple[Operand, Operand]:
    """Both names of ``d|p``; the sink for the second one where it is not written."""
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, SINK)
