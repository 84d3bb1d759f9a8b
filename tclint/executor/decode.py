"""The decoder: turns each instruction of a function into a Python function that executes it.

``FORMS`` has a *factory* for each form of the ISA table, which inspects the operands and modifiers once and returns the
*op* that executes the instruction for a warp. Immediates, symbols and special registers get indices after the registers
of the function, so that nearly every operand is an index into ``warp.regs``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tclint.executor.code import Code, Op
from tclint.executor.errors import Unsupported
from tclint.executor.memory import LOCAL, PARAM, RESERVED, SHARED, UNSIGNED, Array, Global
from tclint.executor.missing import MISSING
from tclint.executor.policy import FILL, Policy
from tclint.executor.signals import MOVED
from tclint.executor.special import require_known, special
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
    OperandPair,
    Special,
    Symbol,
    Variable,
    Vector,
    registers,
)
from tclint.isa.effects import WGMMA, Resource
from tclint.isa.forms import Form
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.isa.table import table

__all__ = ["FORMS", "Decoder", "executes", "executes_where"]


Factory = Callable[["Decoder", Instruction], Op]
FORMS: dict[str, Factory] = {}
"""Form name -> factory."""

_WHOLE = frozenset(("warp", "warpgroup", "cta", "cluster"))
"""Convergence scopes in which all threads of a warp must execute the instruction together."""
_NOT_EXECUTED = (
    ".override::", ".mbarrier::report::validity", ".multicast::cluster::32b", ".im2col_no_offs::w", ".kind::ti16", ".decompress::",
    ".alloc_",
)  # fmt: skip
"""Beginnings of modifiers that change what an instruction of an older form does; all but the last belong to sm_107."""

_UNDEFINED_AFTER_EXIT = (
    "mma.", "wgmma.", "wmma.", "ldmatrix", "stmatrix", "tcgen05.ld", "tcgen05.st", "tcgen05.alloc",
)  # fmt: skip
"""Prefixes of forms whose behaviour is undefined if a thread of the warp has exited."""


def executes(*names: str) -> Callable[[Factory], Factory]:
    """Decorator that registers a factory for the forms *names*. Raises ValueError for a second factory of a form."""

    def register(factory: Factory) -> Factory:
        for name in names:
            if name in FORMS:
                raise ValueError(f"two factories for {name}")
            FORMS[name] = factory
        return factory

    return register


def executes_where(holds: Callable[[Form], bool]) -> Callable[[Factory], Factory]:
    """Decorator that registers a factory for the forms for which *holds* is true. Raises ValueError as :func:`executes`."""
    return executes(*(name for name, form in table().forms.items() if holds(form)))


class Decoder:
    """Decodes one function for one launch.

    Executing one of the instructions that *policy* watches is recorded in :attr:`~tclint.executor.code.Code.reached`, and
    lanes that have executed one of *held* wait until no others can run.
    """

    def __init__(
        self,
        function: Function,
        module: Module,
        memory: Global,
        parameters: bytes,
        policy: Policy,
        held: frozenset[int] = frozenset(),
    ) -> None:
        self.function = function
        self.module = module
        self.memory = memory
        self.code = Code(function)
        self.code.place = partial(policy.place, function)
        self.code.parameters = np.frombuffer(parameters, np.uint8)
        self.cfg = CFG(function)
        exits = (n for n, i in enumerate(function.instructions) if i.exits and i.guard < 0)
        self.leaving = frozenset((*exits, len(function.instructions)))
        """Where all lanes exit that get there: the end of the function too."""
        self._watched = policy.watched.get(function.name, frozenset())
        self.counting: Callable[[Decoder, Instruction, Op], Op] | None = None
        """Makes an op of one that counts what its accesses cost, too; None if nothing is counted."""
        self._held = held
        self.types = [_kind(r.type) for r in function.registers]
        filled = policy.filled.get(function.name, frozenset())
        self.code.template = [_initial(kind, r in filled) for r, kind in enumerate(self.types)]
        self._constants: dict[Any, int] = {}
        self.site = 0
        self.code.symbols = self._layout()

    # ------------------------------------------------------------ variables

    def _layout(self) -> dict[str, int]:
        """The address of every variable and parameter in its state space.

        Dynamic shared memory follows static shared memory (5.1.7).
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
            elif variable.space in (".local", ".param"):  # .param: arguments of a call, one copy per thread
                local = _align(local, variable.align)
                found[variable.name] = local
                local += max(variable.size, 8)
            elif variable.name in self.memory.offsets:
                found[variable.name] = self.memory.address(variable.name)
        shared = _align(shared, max([16, *(v.align for v in open_ended)])) if open_ended else shared
        found |= dict.fromkeys((v.name for v in open_ended), shared)
        self.code.shared_size, self.code.local_size = shared - RESERVED, _align(local, 16)
        return found

    # ------------------------------------------------------------ operands

    def constant(self, value: int, size: int) -> int:
        """The index of an unsigned constant of *size* bytes (0: a predicate)."""
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
        """Add a value to the registers of every warp: its index."""
        self.code.template.append(array)
        return len(self.code.template) - 1

    def special(self, name: str) -> int:
        """The index of a special register. Raises :class:`Unsupported` if its value is not known."""
        require_known(name)
        if name not in self._constants:
            self._constants[name] = self._append(np.zeros(LANES, np.uint32))
            self.code.specials.append((self._constants[name], name))
        return self._constants[name]

    def address_of(self, symbol: Symbol) -> int:
        """The index of the address of a variable in its state space. Raises :class:`Unsupported` if it has none."""
        at = self.code.symbols.get(symbol.name)
        if at is None:
            what = "a function" if self.module.function(symbol.name) else "not a variable of this module"
            raise Unsupported(f"the address of {symbol.name}, which is {what}")
        space = self.spaces[symbol.name]
        if space == ".shared":
            return self.special(f"shared+{at + symbol.offset}")
        return self.constant(at + symbol.offset, 8)

    def source(self, operand: Operand, size: int) -> int:
        """The index of a source operand; an immediate has *size* bytes."""
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
        """A function that returns the value of an operand in each lane, negated if the operand is."""
        if isinstance(operand, Not):
            negated = operand.register
            return lambda w: ~w.regs[negated]
        if isinstance(operand, Special) and SPECIAL_REGISTERS[operand.name].varies:
            name = operand.name
            return lambda w: special(w, name)
        at = self.source(operand, size)
        return lambda w: w.regs[at]

    def uniform(self, operand: Operand, size: int = 4) -> Callable[[Warp], int]:
        """A function that returns the value of a warp-uniform operand: that of the lowest active lane."""
        if isinstance(operand, Immediate) and isinstance(operand.value, int):
            value = operand.value & (1 << 8 * size) - 1
            return lambda w: value
        fetch = self.fetch(operand, size)
        return lambda w: int(fetch(w)[int(w.mask.argmax())])

    def needed(self, instruction: Instruction, name: str) -> Operand:
        """The operand that is named *name* in the syntax of the form. Raises :class:`Unsupported` if it is absent."""
        operand = instruction.named(name)
        if operand is None:
            raise Unsupported(f"the form without {name}")
        return operand

    def put(self, operand: Operand, signed: bool = False) -> Callable[[Warp, Array], None]:
        """A function that writes a value to a destination in the active lanes, extended to a wider register (9.4.1)."""
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
        """A function that returns the address, int64, that an address operand names in each lane."""
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
        """The decoded function. What cannot be executed raises :class:`Unsupported` when it is reached, not here."""
        code = self.code
        for site, instruction in enumerate(self.function.instructions):
            self.site = site
            op = self._op(instruction)
            if self.counting is not None:
                op = self.counting(self, instruction, op)
            if site in self._watched:
                op = _recorded(op, site, code.reached)
            if site in self._held:
                op = _holding(op)
            code.ops.append(self._guarded(instruction, op))
            self._accesses(site, instruction)
        code.ops.append(_fall_off)
        self._unfenced()
        return code

    def _op(self, instruction: Instruction) -> Op:
        match = instruction.match
        where = self.code.place(self.site)
        if match is None or match.problem:
            reason = match.problem if match is not None else "not in the ISA table"
            return _refuse(f"{where}: {instruction.opcode}: {reason}")
        newer = next((m for m in match.modifiers if m.startswith(_NOT_EXECUTED)), None)
        if newer is not None:
            return _refuse(f"{where}: {instruction.opcode}: the executor does not implement {newer}")
        factory = FORMS.get(match.form.name)
        if factory is None:
            return _refuse(
                f"{where}: {instruction.opcode}: the executor does not implement the form {match.form.name}: "
                f"{MISSING[match.form.name]}"
            )
        try:
            op = factory(self, instruction)
            if match.scope not in _WHOLE:
                return op
            whole = match.form.name.startswith(_UNDEFINED_AFTER_EXIT)
            # setmaxnreg works for each warp by itself (docs/isa-notes.md), and each role has its own.
            group = match.scope == "warpgroup" and instruction.effects.resource is not Resource.REGISTERS
            return _convergent(op, instruction.name, whole, group, self.leaving)
        except Unsupported as problem:
            return _refuse(f"{where}: {instruction.opcode}: {problem}")

    def _guarded(self, instruction: Instruction, op: Op) -> Op:
        """*op* restricted to the lanes in which the guard of the instruction holds; branches evaluate it themselves."""
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
        """Record the registers that an instruction accesses; a ``wgmma`` checks its own."""
        if instruction.effects.begins == WGMMA:
            return
        reads = instruction.reads
        if instruction.guard >= 0:
            reads = (*reads, instruction.guard)
        if reads or instruction.writes:
            self.code.touches[site] = (reads, instruction.writes)

    def _unfenced(self) -> None:
        """Record the instructions that write operands of ``wgmma`` or read its accumulators (9.7.15.7.1), other than
        ``wgmma`` itself and copies."""
        operands: set[int] = set()
        accumulators: set[int] = set()
        for use in self.function.uses:
            if use.match is not None and use.match.form.effects.begins == WGMMA:
                for site in use.sites:
                    instruction = self.function.instructions[site]
                    for name in ("d", "a"):
                        operand = instruction.named(name)
                        if operand is not None:
                            operands.update(registers(operand))
                            accumulators.update(registers(operand) if name == "d" else ())
        if operands:
            for site, instruction in enumerate(self.function.instructions):
                accessed = operands.intersection(instruction.writes) | accumulators.intersection(
                    instruction.reads
                )
                # The compiler inserts copies between registers, and ptxas eliminates them.
                copies = instruction.match is not None and instruction.match.form.compute in (
                    "mov",
                    "pack",
                    "unpack",
                )
                if accessed and instruction.group != WGMMA and not copies:
                    self.code.unfenced[site] = dict.fromkeys(accessed, site)


def _recorded(op: Op, site: int, reached: set[int]) -> Op:
    """*op*, adding *site* to *reached* when it executes."""

    def recorded(w: Warp) -> int | None:
        reached.add(site)
        return op(w)

    return recorded


def _holding(op: Op) -> Op:
    """*op*, after which the lanes do not continue before all others have to wait for them."""

    def holding(w: Warp) -> int | None:
        signal = op(w)
        if signal is not None:
            return signal
        w.machine.hold(w.split)
        return MOVED

    return holding


def _convergent(op: Op, name: str, whole: bool, group: bool, leaving: frozenset[int]) -> Op:
    """*op*, with an observation if lanes are missing that must execute it together (``.aligned``, 9.7.13.1).

    Lanes that have exited, or do so next (at one of *leaving*), are not expected, unless *whole*: the instruction needs
    the whole warp (9.7.14.5.14, 9.7.16.8.2). With *group*, all four warps of the warpgroup must execute it (9.7.15.1).
    """

    def checked(w: Warp) -> int | None:
        if not w.full and not w.forced_apart:
            expected = w.started if whole else w.alive
            for split in () if whole else w.splits:
                if split.pc in leaving:
                    expected = expected & ~split.mask
            missing = int(np.count_nonzero(expected & ~w.mask))
            if missing:
                w.machine.observe(
                    "divergent", w, f"{missing} lanes of the warp do not execute {name}, which requires all"
                )
        if group:
            first = w.index & ~3
            others = w.cta.warps[first : first + 4]
            arrived = w.cta.warpgroup_arrivals.setdefault(w.site, set())
            arrived.add(w.index)
            if len(others) < 4 or any(
                other.index not in arrived and not other.alive.any() for other in others
            ):
                w.machine.observe("warpgroup", w, f"not all warps of the warpgroup execute {name}")
        return op(w)

    return checked


def _refuse(message: str) -> Op:
    """An op that raises :class:`Unsupported`."""

    def refuse(w: Warp) -> int | None:
        raise Unsupported(message)

    return refuse


def _fall_off(w: Warp) -> int | None:
    """Exit at the end of the function."""
    return w.machine.leave(w.split, w.mask)


def _initial(kind: Any, filled: bool) -> Array:
    """What a register of a type begins with in all lanes."""
    found = np.zeros(LANES, kind)
    if filled:
        found.view(np.uint8)[:] = True if found.dtype == bool else FILL
    return found


def _kind(name: str) -> Any:
    """The numpy type of a register of type *name*."""
    if name == ".pred":
        return np.dtype(bool)
    bits = int("".join(c for c in name if c.isdigit()) or 32)
    return np.dtype(UNSIGNED[bits // 8]) if bits <= 64 else np.dtype(object)


def _extend(value: Array, kind: Any, signed: bool) -> Array:
    """*value* extended or truncated to the numpy type *kind*."""
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
    """State space -> the window of its generic addresses; 0 where addresses are generic in any case."""
    return {".shared": SHARED, ".local": LOCAL, ".param": PARAM, ".global": 0, ".const": 0}


def parts(operand: Operand | None) -> tuple[Operand, ...]:
    """The elements of a vector; any other operand is its only element, and None has none."""
    if operand is None:
        return ()
    return operand.items if isinstance(operand, Vector) else (operand,)


def pair(operand: Operand) -> tuple[Operand, Operand]:
    """Both operands of ``d|p``; the second one is the sink if it is omitted."""
    return (operand.first, operand.second) if isinstance(operand, OperandPair) else (operand, SINK)
