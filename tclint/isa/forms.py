"""The forms of the ISA table: what the TOML files say of an instruction, and how one matches.

``README.md`` in this folder describes the keys of a form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property

from tclint._dataclass import dataclass
from tclint.isa.accesses import MBARRIER_BYTES, Access, Proxy, StateSpace, Via
from tclint.isa.effects import CP_ASYNC, Barrier, Effects, Engine, Fence, Order, spelled_order, spelled_scope
from tclint.isa.modes import Modes
from tclint.isa.notation import OperandSlot, Syntax
from tclint.isa.special_registers import WARP
from tclint.isa.target import Availability, Target, Version

__all__ = [
    "DEFAULT",
    "CombinationRule",
    "Form",
    "FormRequirement",
    "Match",
    "OperandSpec",
    "Replacement",
    "floating",
]


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """What an operand accepts: access, kinds, vector length, range of immediates.

    ``kinds`` are the first letters of operand shapes (see :func:`tclint.isa.table.fits`). ``vector`` is an expression
    over modifier numbers (``""``: no vector, ``"*"``: any length). ``immediates`` are the allowed integers, None for
    any; ``passed`` are others that ptxas 13.5 accepts.
    """

    access: str = "read"
    kinds: str = "rifsn"
    vector: str = ""
    immediates: tuple[range, ...] | None = None
    passed: tuple[range, ...] = ()

    def allows(self, value: int) -> bool:
        """Whether the ISA allows the integer *value*. A constant has 64 bits (4.5.1), so that 0xFFFFFFFFFFFFFFFF is -1."""
        values = {value, value - (value >> 63 << 64)}
        return self.immediates is None or any(one in r for one in values for r in self.immediates)


DEFAULT = OperandSpec()
"""What an operand without a description accepts."""
_NUMBER = re.compile(r"\d+")
_ROLE_WORDS = {
    "id": "the barrier number",
    "count": "the count",
    "tx": "the transaction count",
    "parity": "the phase parity",
    "depth": "the number of pending groups",
    "columns": "the number of columns",
    "bytes": "the number of bytes",
}
"""Role -> what a message calls the operand that has it."""
_FROM_OPERANDS = frozenset(("integer", "logic", "float", "half", "convert", "compare"))
"""Families of instructions that compute from their operands alone."""


@dataclass(frozen=True)
class FormRequirement:
    """Availability of one modifier, combination of modifiers, or operand of a form."""

    when: frozenset[str]
    operand: str
    available: Availability
    given: str = ""
    """What the operand must be for it to count (``README.md``); empty if it only must be there."""

    @property
    def what(self) -> str:
        """The modifiers or the operand, as a message names them."""
        words = [" ".join(sorted(self.when))] if self.when else []
        if self.given:
            given = _GIVEN_WORDS.get(self.given, self.given.replace("..", " to "))
            words.append(f"{f'a {given} register' if given.startswith('.') else given} as {self.operand}")
        return " with ".join(words) or f"operand {self.operand}"


_GIVEN_WORDS = {"register": "a register", "_": "the sink _"}


@dataclass(frozen=True)
class CombinationRule:
    """A combination rule: an opcode with all of ``when`` must have one of ``needs`` and none of ``forbids``."""

    when: frozenset[str]
    needs: frozenset[str]
    forbids: frozenset[str]


@dataclass(frozen=True)
class Replacement:
    """What to do where a target does not have a form, or the form with all modifiers of ``when``."""

    when: frozenset[str]
    available: Availability
    """The targets for which this is the advice."""
    use: str


@dataclass(frozen=True)
class Form:
    """One instruction form. Field meanings: ``README.md`` beside this module."""

    name: str
    family: str
    place: tuple[str, int]
    """Its position in the table: its family (the TOML file), and its index there."""
    syntax: tuple[Syntax, ...]
    available: Availability
    requires: tuple[FormRequirement, ...]
    optimized: tuple[FormRequirement, ...]
    lowered: tuple[tuple[str, FormRequirement], ...]
    """What ``ptxas`` makes of it (``LOWERINGS``), and the modifiers and targets that it does that with."""
    combinations: tuple[CombinationRule, ...]
    replacements: tuple[Replacement, ...]
    operands: Mapping[str, OperandSpec]
    with_: Mapping[str, frozenset[str]]
    numbers: Mapping[str, Mapping[str, int]]
    manual: str
    examples: tuple[str, ...]
    summary: str
    event: str
    group: Engine
    effects: Effects
    flow: str
    compute: str
    scope: str
    scope_when: str
    issued_by: str
    proxy: str
    space: str
    memory: tuple[tuple[str, str], ...]
    async_reads: tuple[str, ...]
    async_writes: tuple[str, ...]
    roles: Mapping[str, str]
    align: Mapping[str, int | str]
    types: Mapping[str, str]
    address_lanes: Mapping[str, int]
    all_lanes_valid: Availability | None

    @property
    def handled(self) -> bool:
        """Whether a texture, a surface or an endpoint of the fabric says where its memory is."""
        return self.family in _HANDLED

    @property
    def unchanging(self) -> bool:
        """Whether it loads from memory that no thread writes while the kernel runs (9.7.9.9, 9.7.9.10)."""
        return self.name in _UNCHANGING

    @property
    def updates(self) -> bool:
        """Whether it reads and writes the same bytes, as atomic operations and reductions do (9.7.13.5)."""
        return {verb for verb, _ in self.memory} == {"read", "write"}

    @property
    def of_tcgen05(self) -> bool:
        """Whether it is an instruction of section 9.7.16."""
        return self.family == "tcgen05"

    def replacement(self, modifiers: Iterable[str], lacking: Iterable[str], target: Target) -> str:
        """What to do on *target* instead of an instruction with *modifiers*, some of which it is *lacking*, or the form if
        that is empty. Empty if the table has no advice."""
        have, some = frozenset(modifiers), frozenset(lacking)
        for one in self.replacements:
            if one.when <= have and one.available.on(target) and (not some or one.when & some):
                return one.use
        return ""

    def number(self, slot: str, binding: Mapping[str, str]) -> int | None:
        """The number that the modifier in *slot* denotes; None if it is absent or denotes none.

        ``.x16`` denotes 16; a slot ``shape.n`` denotes the n of ``.m64n8k16``.
        """
        slot, _, letter = slot.partition(".")
        spelling = binding.get(slot)
        if spelling is None:
            return None
        if letter:
            match = re.search(letter + r"(\d+)", spelling)
            return int(match[1]) if match else None
        mapped = self.numbers.get(slot)
        if mapped is not None:
            return mapped.get(spelling)
        found = _NUMBER.findall(spelling)
        return int(found[-1]) if found else None

    def operands_for(
        self, operands: tuple[OperandSlot, ...], binding: Mapping[str, str]
    ) -> list[tuple[OperandSlot, bool]]:
        """The operands of a line that an instruction with these modifiers may have, and whether each may be left out.

        An optional operand with an entry in the key ``with`` is present exactly if one of its modifiers is.
        """
        found = []
        for operand in operands:
            modifiers = self.with_.get(operand.name) if operand.optional else None
            if modifiers is None:
                found.append((operand, operand.optional))
            elif not modifiers.isdisjoint(binding.values()):
                found.append((operand, False))
        return found

    def vector_length(self, spec: OperandSpec, binding: Mapping[str, str]) -> int | None:
        """The number of registers that a vector operand must have; None if it may not be a vector, or of any length."""
        if not spec.vector or spec.vector == "*":
            return None
        total = 1
        for sign, factor in re.findall(r"([*/-]?)\s*([\w.]+)", spec.vector):
            value = int(factor) if factor.isdigit() else self.number(factor, binding)
            if value is None:
                return None
            total = total // value if sign == "/" else total - value if sign == "-" else total * value
        return total

    def availability(
        self, modifiers: Iterable[str], operands: Iterable[str] = ()
    ) -> list[tuple[str, Availability]]:
        """Each feature that an instruction uses, as ``(what, availability)``; the form itself is first, with ``what``
        empty. What depends on the value or the type of an operand is omitted (:attr:`valued`)."""
        have, named = set(modifiers), set(operands)
        wanted = [("", self.available)]
        for requirement in self.requires:
            if requirement.given:
                continue
            if requirement.when <= have and (not requirement.operand or requirement.operand in named):
                wanted.append((requirement.what, requirement.available))
        return wanted

    @property
    def mbarrier(self) -> str:
        """The name of the operand that is the address of an mbarrier; empty if there is none."""
        return self.roles.get("mbarrier", "")

    @property
    def from_operands(self) -> bool:
        """Whether it belongs to a family that computes from its operands alone; others may read a carry or memory."""
        return self.family in _FROM_OPERANDS

    def operand_words(self, name: str, at: int) -> str:
        """What a message calls the operand *name* at position *at*: by its role if that has words, or by its name unless
        that is but a letter of the syntax line."""
        role = next((role for role, operand in self.roles.items() if operand == name), "")
        words = _ROLE_WORDS.get(role, "")
        if role == "count" and self.effects.barrier is Barrier.CTA:
            words = "the number of threads"
        return words or (name if len(name) > 1 else f"operand {at + 1} ({name})")

    @cached_property
    def valued(self) -> tuple[FormRequirement, ...]:
        """The requirements that depend on the value or the type of an operand."""
        return tuple(requirement for requirement in self.requires if requirement.given)


@dataclass(frozen=True)
class Match:
    """The form that matches an opcode spelling and operand shapes, with its bindings."""

    form: Form
    syntax: Syntax
    binding: Mapping[str, str]
    modifiers: tuple[str, ...]
    named: Mapping[str, int]
    """Operand name -> its index in the instruction (both names of a pair share one)."""
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    problem: str = ""
    """Why the operands do not fit; empty if they do."""

    def number(self, slot: str) -> int | None:
        return self.form.number(slot, self.binding)

    @cached_property
    def limited(self) -> tuple[tuple[int, str, OperandSpec], ...]:
        """Position, name and description of each operand that does not take every integer."""
        specs = ((at, name, self.form.operands.get(name, DEFAULT)) for name, at in self.named.items())
        return tuple(one for one in specs if one[2].immediates is not None)

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """Its accesses to memory, and those to registers that happen later; other registers are accessed at once."""
        return tuple(_accesses(self))

    @cached_property
    def address_lanes(self) -> int:
        """The lanes of a warp whose addresses count, from lane 0 on: one for each row that the warp moves together."""
        rows = next((n for shape, n in self.form.address_lanes.items() if shape in self.modifiers), WARP)
        return min(rows * (self.number("num") or 1), WARP)

    def checked_lanes(self, target: Target | None) -> int:
        """The lanes that must hold valid addresses on *target*: on some targets also those whose addresses do not
        count."""
        every = self.form.all_lanes_valid
        return WARP if every is not None and target is not None and every.on(target) else self.address_lanes

    @cached_property
    def order(self) -> Order:
        """Its memory order (8.6): what it states, or the default of its form. An atomic operation is relaxed (9.7.13.5),
        another that reads and writes is weak, such as ``tensormap.replace`` (9.7.9.28)."""
        stated = spelled_order(self.modifiers)
        if stated is not None:
            return stated
        if self.form.memory:
            return Order.RELAXED if self.combination and self.form.updates else Order.WEAK
        return Order.SC if self.syntax.root == "membar" else self.form.effects.order

    @cached_property
    def order_scope(self) -> str:
        """The scope of its memory order (8.5): ``cta``, ``cluster``, ``gpu`` or ``sys``; empty if it has none."""
        stated = spelled_scope(self.modifiers)
        if stated or self.order is Order.WEAK:
            return stated
        if self.order is Order.VOLATILE:
            return "sys"
        if self.form.memory:
            return "gpu"
        return "cluster" if self.form.effects.barrier is Barrier.CLUSTER else "cta"

    @property
    def strong(self) -> bool:
        """Whether it is an access by which threads may synchronise (8.6)."""
        return self.order is not Order.WEAK

    @cached_property
    def wide(self) -> bool:
        """Whether the scope of its memory order includes threads of other CTAs."""
        return self.order_scope not in ("", "cta")

    def fence_order(self, *, shared: bool = False) -> Order:
        """The memory order of a fence, for accesses to any memory, or to *shared* memory; weak for what is no such fence.

        ``.sync_restrict`` restricts a fence to objects in shared memory, and ``fence.mbarrier_init`` one to
        initialisations (9.7.13.4). A proxy fence orders proxies.
        """
        if self.form.effects.fence is not Fence.MEMORY or ".mbarrier_init" in self.modifiers:
            return Order.WEAK
        return Order.WEAK if self.restricted and not shared else self.order

    @cached_property
    def restricted(self) -> bool:
        """Whether a fence orders, or a wait is for, accesses of one kind alone: those through one proxy, or to some objects."""
        return any(m.startswith(".sync_restrict") for m in self.modifiers)

    @cached_property
    def drops(self) -> bool:
        """Whether an arrival leaves the expected count of all later phases lower (9.7.13.15.14)."""
        return ".arrive_drop" in self.modifiers

    @cached_property
    def may_complete(self) -> bool:
        """Whether an arrival may complete the phase: with ``.noComplete`` it must not (9.7.13.15.13)."""
        return ".noComplete" not in self.modifiers

    @cached_property
    def raises_pending(self) -> bool:
        """Whether an arrival first raises the pending count, so that both cancel out (9.7.13.15.15)."""
        return self.form.effects.tracks == CP_ASYNC and ".noinc" not in self.modifiers

    @property
    def layout(self) -> int:
        """The layout of an mbarrier that it states (9.7.13.15.12); 0 if it states none."""
        return int(self.binding.get("layout", "0")[-1])

    @property
    def transaction_unit(self) -> int:
        """The bytes for which the completion of its copies lowers the count of an mbarrier by one (9.7.13.15.6)."""
        return 16 if ".mbarrier::complete_tx::16B" in self.modifiers else 1

    @property
    def suspends(self) -> bool:
        """Whether a test of a phase first lets its thread wait for some time (9.7.13.15.16)."""
        return ".try_wait" in self.modifiers

    @property
    def from_nearest_cache(self) -> bool:
        """Whether what a weak load reads may have been cached by its multiprocessor: not with ``.cg`` and ``.cv`` (9.7.9.1)."""
        return not self.strong and {".cg", ".cv"}.isdisjoint(self.modifiers)

    @cached_property
    def multicast(self) -> bool:
        """Whether it acts on several CTAs of the cluster, those of a mask or all."""
        return any(m.startswith(".multicast") for m in self.modifiers)

    @cached_property
    def to_all_ctas(self) -> bool:
        """Whether it acts on all CTAs of the cluster."""
        return ".multicast::cluster::all" in self.modifiers

    @cached_property
    def of_pair(self) -> bool:
        """Whether it acts on the two CTAs of a pair (9.7.16.5)."""
        return ".cta_group::2" in self.modifiers

    @property
    def multiplies(self) -> bool:
        """Whether it is a ``tcgen05.mma`` (9.7.16.10): nothing else has an instruction descriptor."""
        return "idesc" in self.named

    @cached_property
    def own_shared(self) -> bool:
        """Whether it names shared memory of the CTA that executes it (4.1.3, 5.1.6)."""
        return self.space in (".shared", ".shared::cta")

    @cached_property
    def parts(self) -> Mapping[str, tuple[int, int]]:
        """Role -> the index of the operand that has it, and which half of a pair it is (0 or 1)."""
        first: dict[int, str] = {}
        for name, at in self.named.items():
            first.setdefault(at, name)
        named = {role: self.named.get(name, -1) for role, name in self.form.roles.items()}
        return {role: (at, int(self.form.roles[role] != first[at])) for role, at in named.items() if at >= 0}

    @cached_property
    def space(self) -> str:
        """The state space accessed: ``.shared::cta``, ``.global``; empty for generic addressing."""
        space = self.form.space
        return self.binding.get(space, "") if space and not space.startswith(".") else space

    @cached_property
    def spelled_space(self) -> str:
        """The state space that it spells; empty if its addresses are generic, also where they must be in shared memory
        (``st.bulk``, 9.7.9.13)."""
        return self.space if self.space in self.modifiers else ""

    @cached_property
    def modes(self) -> Modes:
        """The flags among its modifiers."""
        return Modes(self.modifiers)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The M, N and K of the matrices, or the rows and columns of one, that its modifiers state; empty if none does."""
        found = (_SHAPE.fullmatch(m) for m in self.modifiers)
        return next((tuple(int(n) for n in match.groups() if n) for match in found if match), ())

    @property
    def shuffle(self) -> str:
        """From which lane a shuffle takes values (9.7.9.6): ``up``, ``down``, ``bfly`` or ``idx``; empty if it is none."""
        return self.binding.get("shuffle", "")[1:]

    @property
    def reduction(self) -> str:
        """The integer operation by which ``redux.sync`` combines the values of the lanes (9.7.13.12): ``add``, ``xor``."""
        return (self.binding.get("arith") or self.binding.get("bitwise", ""))[1:]

    @cached_property
    def combination(self) -> str:
        """The operation by which an atomic operation or a reduction combines what is there with its operands (9.7.13.5), as
        it is spelled: ``.add``; empty if it is none."""
        return next((m for m in self.modifiers if m in _COMBINATIONS), "")

    @cached_property
    def relation(self) -> str:
        """The relation of a comparison (9.3.1): ``eq``, ``lo``, ``geu``; empty if it is none."""
        return next((self.binding[slot][1:] for slot in _RELATION_SLOTS if slot in self.binding), "")

    @cached_property
    def element(self) -> str:
        """The type of the scalar, or of an element of the vector: the last type among the modifiers."""
        return self.types[-1] if self.types else ".b32"

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types among its modifiers, as they are spelled, without those that are narrower than a byte or alternative
        floating-point formats."""
        return tuple(m for m in self.modifiers if m[1:2] in "busf" and m[2:].isdigit())

    @cached_property
    def scope(self) -> str:
        """The convergence scope; ``thread`` if ``.aligned`` decides it and is absent."""
        form = self.form
        if form.scope_when and form.scope_when not in self.modifiers:
            return "thread"
        return form.scope

    @cached_property
    def needs(self) -> list[tuple[str, Availability]]:
        """Each feature that the instruction uses: ``(what, availability)``; ``what`` is empty for the instruction
        itself."""
        return self.form.availability(self.modifiers, self.named)

    def missing(self, target: Target, version: Version) -> list[tuple[str, str, Availability]]:
        """Each feature that *target* or *version* does not have: ``(kind, what, availability)``.

        ``kind`` is ``target`` or ``version``; ``what`` is empty for the instruction itself.
        """
        lacking = ((available.lacking(target, version), what, available) for what, available in self.needs)
        return [lack for lack in lacking if lack[0]]

    def lowered(self, target: Target) -> tuple[str, str] | None:
        """What ``ptxas`` makes of it on *target* (``LOWERINGS``), and the modifiers that it does that with; None if the
        target implements it."""
        have = set(self.modifiers)
        entries = ((to, when.when) for to, when in self.form.lowered if when.available.on(target))
        return next(((to, " ".join(sorted(when))) for to, when in entries if when <= have), None)

    def slower(self, target: Target) -> FormRequirement | None:
        """What the manual warns that *target* executes slowly, although it is available, with the targets that do not;
        None if nothing."""
        have = set(self.modifiers)
        return next((o for o in self.form.optimized if o.when <= have and not o.available.on(target)), None)


_COMBINATIONS = frozenset(".add .min .max .inc .dec .and .or .xor .exch .cas".split())
_RELATION_SLOTS = ("bcmp", "scmp", "ucmp", "fcmp")
"""Relations of bit patterns, of signed, of unsigned and of floating-point numbers."""
_SHAPE = re.compile(r"\.m(\d+)n(\d+)(?:k(\d+))?")
_FLOATING = re.compile(r"\.(?:b?f|tf|e\d|ue\d)\d")


@cache
def floating(modifiers: tuple[str, ...]) -> bool:
    """Whether one of the types among the *modifiers* is a floating-point type."""
    return any(map(_FLOATING.match, modifiers))


# ---------------------------------------------------------------- accesses

_MAP_BYTES = 128
"""The size of a tensor map (5.5.8)."""
_ROW_BYTES = 16
"""A row of a matrix, at the address of one lane (9.7.14.5.15)."""
_TYPE = re.compile(r"\.(?:[busf]{1,2}(\d+)|e\dm\d)(?:x(\d))?$")
"""The type of a value: the bits of one part, and the number of parts (5.2)."""
_SPACES = {
    "": StateSpace.GENERIC,
    ".shared": StateSpace.SHARED,
    ".global": StateSpace.GLOBAL,
    ".local": StateSpace.LOCAL,
    ".param": StateSpace.PARAM,
    ".const": StateSpace.CONST,
}
_PROXIES = {proxy.value: proxy for proxy in Proxy} | {"": Proxy.GENERIC}
_UNCHANGING = ("ld.nc", "ld.readonly", "ldu")
_HANDLED = ("texture", "surface", "fabric")
"""The families of instructions that access memory through handles."""


def _accesses(match: Match) -> Iterator[Access]:
    """The accesses of an instruction: those to data now, those later, and that to an mbarrier."""
    form = match.form
    yield from _now(match)
    yield from _later(match, form.async_reads, writes=False)
    yield from _later(match, form.async_writes, writes=True)
    yield from _by_map(match)
    if form.handled:  # queries too, which access nothing but what describes a texture or surface
        yield Access("", Via.HANDLE, StateSpace.GLOBAL, True, proxy=Proxy.OTHER)
    if (mbarrier := form.roles.get("mbarrier", "")) and _present(match, mbarrier):
        writes = form.effects.awaits is not Barrier.MBARRIER
        own = (
            form.effects.resource is not None or match.own_shared
        )  # one cannot make or end that of another CTA
        yield Access(
            mbarrier, Via.ADDRESS, StateSpace.SHARED, writes, extent=MBARRIER_BYTES, own=own, object=True
        )


def _present(match: Match, name: str) -> bool:
    """Whether an instruction has the operand; any may be there if what is written does not fit the form."""
    return name in match.named or bool(match.problem)


def _in_shared(match: Match) -> tuple[str, ...]:
    """The roles of a copy's addresses in shared memory. If two memories are named, the destination's is the first."""
    spaces = [m for m in match.modifiers if m == ".global" or m.startswith(".shared")]
    if ".global" not in spaces:
        return () if match.space == ".global" else ("source", "destination")
    return ("source",) if spaces[0] == ".global" else ("destination",)


def _now(match: Match) -> Iterator[Access]:
    form = match.form
    elsewhere = {"source", "destination"}.difference(_in_shared(match))
    for verb, name in form.memory:
        other = name in [form.roles.get(side) for side in elsewhere]
        space = StateSpace.GLOBAL if other else _SPACES[match.space.partition("::")[0]]
        own = not other and match.own_shared
        extent = _MAP_BYTES if "tensormap" in form.roles else _extent(match)
        yield Access(
            name, Via.ADDRESS, space, verb == "write", extent=extent, own=own, rows=bool(form.address_lanes)
        )


def _later(match: Match, names: Iterable[str], *, writes: bool) -> Iterator[Access]:
    form = match.form
    proxy = _PROXIES.get(form.proxy, Proxy.OTHER)
    shared = [form.roles[side] for side in _in_shared(match) if side in form.roles]
    one_cta = not (match.multicast or match.of_pair)
    for each in names:
        name = each.lstrip("*")
        if not _present(match, name):
            continue
        if each == name:
            yield Access(name, Via.REGISTERS, StateSpace.REGISTERS, writes, True, proxy)
        elif "tmem" in name or name == "taddr":
            yield Access(name, Via.ADDRESS, StateSpace.TENSOR, writes, True, proxy)
        elif name.endswith("desc"):
            yield Access(name, Via.DESCRIPTOR, StateSpace.SHARED, writes, True, proxy, own=one_cta)
        else:
            space = StateSpace.SHARED if name in shared else StateSpace.GLOBAL
            own = name in shared and one_cta and (match.own_shared or name == form.roles.get("source"))
            part = "" if writes or form.roles.get("part") not in match.named else form.roles["part"]
            yield Access(name, Via.ADDRESS, space, writes, True, proxy, _extent(match), part, own)


def _by_map(match: Match) -> Iterator[Access]:
    """The tensor map that an instruction uses, and what it addresses: the other side of a copy."""
    form = match.form
    name = form.roles.get("tensormap", "")
    if not name or form.memory or form.effects.fence is Fence.PROXY:
        return
    yield Access(name, Via.ADDRESS, StateSpace.GLOBAL, False, proxy=Proxy.MAP, extent=_MAP_BYTES)
    proxy = _PROXIES.get(form.proxy, Proxy.OTHER)
    if form.async_writes or "redOp" in match.binding:
        yield Access(name, Via.MAP, StateSpace.GLOBAL, False, True, proxy)
    if form.async_reads and not form.async_writes:
        yield Access(name, Via.MAP, StateSpace.GLOBAL, True, True, proxy)


def _extent(match: Match) -> int | str:
    """The bytes that an instruction accesses at an address (:attr:`Access.extent`)."""
    form = match.form
    if "bytes" in form.roles:
        return form.roles["bytes"]
    if form.address_lanes:
        return _ROW_BYTES
    if "tensormap" in form.roles or (match.scope == "warp" and form.effects.resource is None):
        return ""  # a box, or the layout of a matrix
    types = filter(None, map(_TYPE.match, reversed(match.modifiers)))
    width = next((int(m[1] or 8) * int(m[2] or 1) for m in types), 8)
    length = match.number("vec") if "vec" in match.binding else 1
    return width // 8 * (length or 1)
