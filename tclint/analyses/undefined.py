"""Registers whose value depends on one that nothing has written, and where such a value decides what can be observed.

LLVM prints a value that nothing needs as a register without a definition, so most reads of such registers are
harmless: a half that is shifted out, a lane that a select leaves, a sum that another one overwrites. What counts is where
undefined *bits* arrive: at an address, a branch, a guard, a stored number. :class:`MayBeUndefined` says which registers can
have any on some path, :class:`CertainlyUndefined` which have nothing else on every path, and so in every thread;
:class:`UndefinedPaths` follows their bits along one path.

Which reads of an unwritten register count at all, :mod:`~tclint.analyses.first_reads` knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tclint._named_tuple import NamedTuple
from tclint.analyses.first_reads import FirstReads, Kept, UnwrittenRegisters
from tclint.analyses.model import KernelModel
from tclint.dataflow.solver import Analysis
from tclint.exact.undefined import undefined_results
from tclint.ir.nodes import Function, Instruction, Memory, Module, Operand, Site, Vector, registers
from tclint.isa.accesses import StateSpace
from tclint.isa.forms import Match
from tclint.isa.widths import width_of

__all__ = [
    "QUESTION",
    "UNWRITTEN",
    "CertainlyUndefined",
    "Decides",
    "MayBeUndefined",
    "UndefinedBits",
    "UndefinedPaths",
    "first_reads",
    "may_keep",
]

UndefinedBits = frozenset[tuple[int, int]]
"""Registers, each with its undefined bits; ``UNWRITTEN`` for one that nothing has written."""
UNWRITTEN = -1
MAX_FOLLOWED = 20_000
"""The definitions that are followed to the registers from which the undefined values of one kernel come."""
QUESTION = "what is undefined"
"""The name of this module's question in a ledger."""
_OWN = (StateSpace.LOCAL, StateSpace.PARAM)
"""What is stored there is observed where it is loaded, if at all."""


class Decides(NamedTuple):
    """Undefined bits of a register at an instruction where they decide something."""

    register: int
    what: str
    """What they decide, in words."""


class MayBeUndefined(Analysis[int]):
    """The registers of which bits may be undefined, one bit each."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.unwritten = model.fact(UnwrittenRegisters).registers
        self._number = {r: k for k, r in enumerate(self._derived())}
        self.every = (1 << len(self._number)) - 1
        """All registers that may be undefined at all."""

    def _derived(self) -> list[int]:
        """The registers that are unwritten or computed from such ones."""
        if not self.unwritten:
            return []
        found, readers = dict.fromkeys(sorted(self.unwritten)), self.model.readers
        work = list(found)
        while work:
            for site in readers.get(work.pop(), ()):
                instruction = self.model.instruction(site)
                if _computes(instruction):
                    new = [r for r in instruction.writes if r not in found]
                    found.update(dict.fromkeys(new))
                    work += new
        return list(found)

    def bits(self, some: Iterable[int]) -> int:
        """The set of those of *some* registers that may be undefined at all."""
        number, found = self._number, 0
        for register in some:
            if register in number:
                found |= 1 << number[register]
        return found

    def boundary(self) -> int:
        return self.bits(self.unwritten)

    def bottom(self) -> int:
        return 0

    def join(self, a: int, b: int) -> int:
        return a | b

    def affecting_sites(self) -> Iterable[Site]:
        if not self._number:
            return ()
        readers, defs = self.model.readers, self.model.values.defs
        return {site for r in self._number for site in (*readers.get(r, ()), *defs.get(r, ()))}

    def transfer(self, state: int, at: Site, instruction: Instruction) -> int:
        undefined = _computes(instruction) and state & self.bits(instruction.reads)
        written = self.bits(instruction.writes)
        return state | written if undefined else state & ~written


class CertainlyUndefined(MayBeUndefined):
    """The registers of which every path leaves all bits undefined."""

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self._results = _Results(model, lambda at, register, bits: True)

    def bottom(self) -> int:
        return self.every

    def join(self, a: int, b: int) -> int:
        return a & b

    def transfer(self, state: int, at: Site, instruction: Instruction) -> int:
        undefined = {r: self._results.whole(r) for r in instruction.reads if state & self.bits((r,))}
        results = self._results.of(at, instruction, undefined) if undefined else {}
        whole = self.bits(r for r, mask in results.items() if mask == self._results.whole(r))
        return state & ~self.bits(instruction.writes) | whole


Everywhere = Callable[[Site, int, int], bool]
"""Whether a register with these undefined bits at an instruction is undefined in all threads that execute it: what they
compute together is undefined only then."""


class _Results:
    """The undefined bits of what instructions compute."""

    def __init__(self, model: KernelModel, everywhere: Everywhere) -> None:
        self.model, self.everywhere = model, everywhere
        self._known: dict[tuple[Site, UndefinedBits], dict[int, int]] = {}

    def whole(self, register: int) -> int:
        """All bits of a register."""
        return (1 << width_of(self.model.function.registers[register].type)) - 1

    def of(self, at: Site, instruction: Instruction, undefined: Mapping[int, int]) -> dict[int, int]:
        """Register -> its undefined bits after the instruction, of those that it writes, given those of what it reads."""
        key = at, frozenset(undefined.items())
        if key not in self._known:
            self._known[key] = self._computed(at, instruction, undefined)
        return self._known[key]

    def kept(self, at: Site, register: int) -> bool:
        """Whether an instruction that writes a register leaves it undefined if it was: a sum is, a select need not be."""
        instruction = self.model.instruction(at)
        return register in instruction.reads and register in self.of(at, instruction, {register: UNWRITTEN})

    def _computed(self, at: Site, instruction: Instruction, undefined: Mapping[int, int]) -> dict[int, int]:
        if not _computes(instruction):
            return {}
        if _is_product(instruction):
            return self._product(at, instruction, undefined)
        if instruction.effects.exchange is not None:
            source = instruction.named("a")
            of = registers(source) if source is not None else ()
            whole = any(r in undefined and self.everywhere(at, r, undefined[r]) for r in of)
            return {r: self.whole(r) for r in instruction.writes} if whole else {}

        def number(operand: Operand) -> int | None:
            return self.model.values.constant_operand(operand, at)

        masks = {r: self.whole(r) if bits == UNWRITTEN else bits for r, bits in undefined.items()}
        return undefined_results(self.model.function, instruction, masks, number)

    def _product(self, at: Site, instruction: Instruction, undefined: Mapping[int, int]) -> dict[int, int]:
        """The undefined elements of A * B + C: those of which C is, or all if A or B is undefined as a whole."""
        for factor in map(instruction.named, "ab"):
            of = registers(factor) if factor is not None else ()
            if of and all(r in undefined and self.everywhere(at, r, undefined[r]) for r in of):
                return {r: self.whole(r) for r in instruction.writes}
        d, c = instruction.named("d"), instruction.named("c")
        if not isinstance(d, Vector) or not isinstance(c, Vector):
            return {}
        return {
            result: self.whole(result)
            for result, addend in zip(d.items, c.items, strict=False)
            if isinstance(result, int)
            and isinstance(addend, int)
            and undefined.get(addend) in (UNWRITTEN, self.whole(addend))
        }


def may_keep(model: KernelModel) -> Kept:
    """Whether an instruction that writes a register leaves it undefined, whatever other threads have in it."""
    return _Results(model, lambda at, register, bits: False).kept


def first_reads(module: Module, function: Function) -> list[tuple[int, Site]]:
    """The registers of an entry that some path reads before it writes them, each with where it is read first."""
    model = KernelModel(function, module)
    unwritten, readers = model.fact(UnwrittenRegisters).registers, model.readers
    first = FirstReads(model, unwritten, may_keep(model))
    found = [
        (r, next((at for at in readers[r] if first.unwritten_at(r, at)), readers[r][0]))
        for r in sorted(unwritten)
    ]
    model.release()
    return found


class UndefinedPaths:
    """How undefined bits pass on paths of the threads that *first* is about, and what they decide."""

    def __init__(self, model: KernelModel, first: FirstReads) -> None:
        self.model, self.first = model, first
        self.may, self.results = model.solution(MayBeUndefined)
        self._bits = _Results(model, self._everywhere)
        self._last: tuple[UndefinedBits, Mapping[int, int]] = frozenset(), {}
        self._followed = 0
        """The definitions that :meth:`origins` has followed so far."""

    def _everywhere(self, at: Site, register: int, bits: int) -> bool:
        return (self.first.threads is None and bits == UNWRITTEN) or self._is_certain(register, at)

    def _is_certain(self, register: int, at: Site) -> bool:
        """Whether every path to an instruction leaves all bits of a register undefined."""
        certain, results = self.model.solution(CertainlyUndefined)
        return bool(results.before(at) & certain.bits((register,)))

    def _masks(self, state: UndefinedBits) -> Mapping[int, int]:
        """The undefined bits by register: a search asks about one state at one instruction after the other."""
        if state is not self._last[0]:
            self._last = state, dict(state)
        return self._last[1]

    def _read(self, at: Site, state: UndefinedBits, reads: Iterable[int]) -> dict[int, int]:
        """The undefined bits of the registers *reads*, as far as they count at an instruction."""
        masks = self._masks(state)
        if masks.keys().isdisjoint(reads):
            return {}
        return {
            r: masks[r]
            for r in reads
            if r in masks and (masks[r] != UNWRITTEN or self.first.unwritten_at(r, at))
        }

    def step(self, state: UndefinedBits, at: Site, instruction: Instruction) -> UndefinedBits | None:
        """The undefined bits after an instruction whose guard is true; None if there are none."""
        undefined = self._read(at, state, instruction.reads)
        if not undefined and self._masks(state).keys().isdisjoint(instruction.writes):
            return state or None
        results = self._bits.of(at, instruction, undefined) if undefined else {}
        kept = [pair for pair in state if pair[0] not in instruction.writes]
        return frozenset((*kept, *results.items())) or None

    # ------------------------------------------------------------ where bits decide something

    def may_decide(self, at: Site) -> bool:
        """Whether the instruction would decide something with undefined bits in all registers that may have some."""
        if self.model.cfg.block_of[at] not in self.model.cfg.rank:
            return False
        state = self.results.before(at)
        undefined = {r: UNWRITTEN for r in self._used(at) if state & self.may.bits((r,))}
        return self._decided(at, undefined) is not None

    def certainly_decided(self, at: Site) -> Decides | None:
        """What registers decide at an instruction that are undefined on every path to it; None if nothing."""
        undefined = {r: self._bits.whole(r) for r in self._used(at) if self._is_certain(r, at)}
        return self._decided(at, undefined)

    def origins(self, register: int, at: Site) -> list[int]:
        """The unwritten registers that make *register* undefined on every path to an instruction.

        Empty, and said in the ledger, once :data:`MAX_FOLLOWED` definitions of the kernel have been followed.
        """
        found, seen, work, site = set[int](), set[tuple[int, Site]](), [(register, at)], at
        while work:
            register, at = work.pop()
            if (register, at) in seen or not self._is_certain(register, at):
                continue
            seen.add((register, at))
            defined = self.model.values.defs.get(register, ())
            self._followed += 1 + len(defined)
            if self._followed > MAX_FOLLOWED:
                self.model.ledger.give_up(QUESTION, site, f"more than {MAX_FOLLOWED} definitions followed")
                return []
            defs = self.model.reaching(defined, (at,))
            if register in self.may.unwritten and self.first.unwritten_at(register, at):
                found.add(register)
            work += [(r, d) for d in defs for r in self.model.instruction(d).reads]
        return sorted(found)

    def decided(self, at: Site, state: UndefinedBits) -> Decides | None:
        """What undefined bits decide at an instruction; None if they decide nothing that can be observed there."""
        return self._decided(at, self._read(at, state, self._used(at)))

    def _used(self, at: Site) -> tuple[int, ...]:
        """The registers that an instruction reads, and its guard, which is -1 if it has none."""
        instruction = self.model.instruction(at)
        return (*instruction.reads, instruction.guard)

    def _decided(self, at: Site, undefined: Mapping[int, int]) -> Decides | None:
        instruction = self.model.instruction(at)
        match, flow = instruction.match, instruction.flow
        if not undefined or match is None or match.problem:
            return None
        if not (flow or match.accesses or match.form.event):
            return None
        if instruction.guard in undefined:
            return Decides(
                instruction.guard,
                "whether this branch is taken" if flow == "branch" else "whether this executes",
            )
        if flow == "call" or match.form.handled:
            return None
        for name, k in match.named.items():
            operand = instruction.operands[k]
            of = [r for r in registers(operand) if r in undefined]
            if of and (k in match.reads or isinstance(operand, Memory)):
                what = self._by_operand(at, name, {r: undefined[r] for r in of})
                if what is not None:
                    return what
        return None

    def _by_operand(self, at: Site, name: str, undefined: Mapping[int, int]) -> Decides | None:
        """What the *undefined* registers of one operand decide."""
        instruction = self.model.instruction(at)
        match, operand = instruction.match, instruction.named(name)
        assert match is not None
        assert operand is not None
        first = next(iter(undefined))
        if isinstance(operand, Memory):
            rows = any(a.rows for a in match.accesses)  # then only some lanes have an address that counts
            return (
                Decides(first, "the address")
                if not rows or self._everywhere(at, first, undefined[first])
                else None
            )
        if name in match.form.async_writes or "policy" in name:
            return None  # an accumulator; a hint
        if name in match.form.async_reads:
            of = registers(operand)
            whole = all(r in undefined and self._everywhere(at, r, undefined[r]) for r in of)
            return Decides(first, "a matrix that is multiplied") if whole else None
        if instruction.effects.exchange is not None and name == "a":
            return None  # what lanes get is followed
        spaces = {access.space for access in match.accesses if access.writes and not access.object}
        if not match.form.memory or not spaces:
            counts = match.form.event or instruction.flow
            return Decides(first, f"the operand {name}") if counts else None
        stored = self._stored(at, match, undefined) if spaces.isdisjoint(_OWN) else []
        if spaces != {StateSpace.GLOBAL}:
            stored = [r for r in stored if self._everywhere(at, r, undefined[r])]
        return Decides(stored[0], "what it stores") if stored else None

    def _stored(self, at: Site, match: Match, undefined: Mapping[int, int]) -> list[int]:
        """Those of the registers of which more than half of what is stored is undefined: padding may be."""
        element = (1 << max(width_of(match.element), 1)) - 1
        stored = {r: element & self._bits.whole(r) for r in undefined}
        return [
            r for r, bits in undefined.items() if 2 * (bits & stored[r]).bit_count() > stored[r].bit_count()
        ]


def _computes(instruction: Instruction) -> bool:
    """Whether it computes its results from registers, so that undefined bits may pass."""
    match = instruction.match
    return match is not None and not match.problem and not match.accesses and not instruction.flow


def _is_product(instruction: Instruction) -> bool:
    """Whether a warp multiplies matrices, which lie in its registers."""
    match = instruction.match
    return (
        match is not None
        and match.scope == "warp"
        and all(name in match.named for name in "dabc")
        and bool(match.shape)
    )
