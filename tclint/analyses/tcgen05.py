"""``tcgen05`` operations that one thread has in flight, and the columns that they access (PTX ISA 9.7.16.6).

A load or store of tensor memory is in flight until ``tcgen05.wait``. An MMA, copy or shift is in flight until a wait
for the mbarrier of a later ``tcgen05.commit`` of the same thread, or until an acquire point at which the thread may
observe that another thread has waited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from tclint.analyses.extents import Extents
from tclint.analyses.fact_set import FactSet
from tclint.analyses.happens_before import HappensBefore, Scope
from tclint.analyses.model import KernelModel
from tclint.dataflow import Path
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Instruction, Memory, Operand, registers
from tclint.isa.forms import Match
from tclint.isa.target import tensor_columns
from tclint.values.descriptors import INSTRUCTION, Form, shape

__all__ = [
    "COPIED",
    "ISSUED",
    "LANES",
    "USED",
    "ColumnRange",
    "Outstanding",
    "Tcgen05",
    "TensorMemory",
    "TmemLocation",
    "computes",
]

ISSUED = 0
"""Neither waited for, nor tracked by a commit, nor used."""
COPIED = -1
"""A load whose registers were moved or packed, and not used otherwise: ptxas may have eliminated the move."""
USED = -2
"""A load from whose registers a value was computed in the same block: ptxas may sink the computation below a signal."""
Tcgen05State = frozenset[tuple[int, int]]
"""``(site, status)``. The status of an MMA, copy or shift that a commit tracks is that commit's site plus one."""

_A_COLUMNS = 8
"""Columns of A in tensor memory: K elements are 32 bytes (9.7.16.2.1)."""

_MAX_COMMITS = 4
"""Commits that may track one operation before it is dropped: following all of them is quadratic."""

LANES = 128
"""Lanes of tensor memory (9.7.16.1)."""
_SIGN = 1 << 15
"""The sign bit of an offset in columns: the lower half of an address selects the column (9.7.16.1.1)."""

_COLUMNS = {
    ".32x32b": 1, ".16x64b": 2, ".16x128b": 4, ".16x256b": 8, ".16x32bx2": 1,
    ".128x256b": 8, ".4x256b": 8, ".128x128b": 4, ".64x128b": 4, ".32x128b": 4,
}  # fmt: skip
"""Columns that a shape covers; for ld and st, those of one unit of .num (9.7.16.2.3)."""


def computes(match: Match | None) -> bool:
    """Whether the instruction only computes registers from registers: ptxas may move it past stores and signals."""
    if match is None:
        return False
    form = match.form
    return not (form.event or form.flow or form.memory or form.async_reads or form.async_writes)


class ColumnRange:
    """Columns of tensor memory: the address of the first one, without lanes, and how many there are at least."""

    __slots__ = ("columns", "lanes", "start")

    def __init__(self, start: int, columns: int, lanes: int) -> None:
        self.start = start
        self.columns = columns
        self.lanes = lanes


class TmemLocation(NamedTuple):
    """An address of tensor memory, relative to an allocation."""

    base: int | None
    """The shared word that holds the address of the allocation; None for a constant address."""
    distance: int
    size: int
    """Columns of the allocation, or of all of tensor memory."""
    column: int
    """A lower bound on the column, relative to the base."""
    lane: int
    """A lower bound on the lane."""


class Tcgen05(FactSet[tuple[int, int]]):
    """Facts ``(site, status)`` of the operations that one thread has in flight."""

    groups: tuple[str, ...] = ("tcgen05", "tcgen05.ld", "tcgen05.st")
    """The groups of the operations that are tracked."""

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.loads, self.stores = (
            frozenset(model.sites("issue", group) if group in self.groups else ())
            for group in ("tcgen05.ld", "tcgen05.st")
        )
        self.operations = frozenset(model.sites("issue", "tcgen05"))
        self.filled: dict[int, set[int]] = {}
        """Register -> the loads that write it, or write a register that it is copied from."""
        for site in self.loads:
            operand = model.instruction(site).role("destination")
            for register in registers(operand) if operand is not None else ():
                self.filled.setdefault(register, set()).add(site)
        self._copy()
        self.bits = {site: 1 << at for at, site in enumerate(sorted(self.loads))}
        """Load -> its bit in a set of loads. One value may be computed from many loads."""
        self._filled_bits = {
            register: sum(self.bits[s] for s in sites) for register, sites in self.filled.items()
        }
        """Register -> its loads of :attr:`filled`, as a set of loads."""
        self.derived = self._computed()
        """Register -> the set of loads that it is loaded or computed from."""
        self.by_opcode = not self.derived
        self._pending: dict[Tcgen05State, int] = {}
        self._computing: dict[tuple[Tcgen05State, int, int], Tcgen05State] = {}
        """``(state, loads, status)`` -> the state in which these loads have at most that status."""
        self._distances: dict[tuple[int, int], set[int]] = {}
        """Distance between two addresses, and threads -> its values in these threads; none if unknown."""
        self._ranges: dict[tuple[int, str], ColumnRange | None] = {}
        self._widths: dict[tuple[int, str], int | None] = {}
        self._order = model.fact(HappensBefore)
        self._barriers = self._order.points.barrier_sites(Scope.WARPS)
        self._completions: dict[int, frozenset[int]] = {}
        self._observations: dict[tuple[int, int], bool] = {}
        self.cta_groups = self._cta_groups()
        """Operation or commit -> its ``.cta_group``; "" if the kernel mixes both, which is a defect of its own."""

    def _copy(self) -> None:
        """Adds the copies of loaded registers. A ``mov``, packing included, renames: using the copy uses the load."""
        if not self.filled:
            return
        moves = [
            self.model.function.instructions[i]
            for use in self.model.function.uses
            if use.opcode.startswith("mov.")
            for i in use.sites
        ]
        grown = True
        while grown:
            grown = False
            for move in moves:
                sites = {s for r in move.reads for s in self.filled.get(r, ())}
                for register in move.writes:
                    known = (
                        self.filled.setdefault(register, set()) if sites else self.filled.get(register, set())
                    )
                    if not sites <= known:
                        known |= sites
                        grown = True

    def _computed(self) -> dict[int, int]:
        """The registers computed from loads. One pass suffices, as values computed in an earlier block do not count."""
        derived = self._filled_bits.copy()
        for instruction in self.model.function.instructions if derived else ():
            taken = derived.get(instruction.guard, 0)
            for register in instruction.reads:
                if register in derived:
                    taken |= derived[register]
            if taken and computes(instruction.match):
                for register in instruction.writes:
                    derived[register] = derived.get(register, 0) | taken
        return derived

    def _cta_groups(self) -> dict[int, str]:
        model = self.model
        matches = {
            i: model.instruction(i).match for i in (*self.operations, *model.sites("commit", "tcgen05"))
        }
        groups = {i: match.binding.get("cta_group", "") if match else "" for i, match in matches.items()}
        return groups if len(set(groups.values())) == 1 else dict.fromkeys(groups, "")

    def takes(self, instruction: Instruction) -> int:
        """The set of loads whose results, or values computed from them, an instruction reads."""
        derived = self.derived
        taken = derived.get(instruction.guard, 0)
        for register in instruction.reads:
            if register in derived:
                taken |= derived[register]
        return taken

    def _loading(self, state: Tcgen05State) -> int:
        """The set of loads that *state* has facts about."""
        found = self._pending.get(state)
        if found is None:
            bits = self.bits
            found = self._pending[state] = sum({bits[s] for s, _ in state if s in bits})
        return found

    # ------------------------------------------------------------ dataflow

    def affecting(self, instruction: Instruction) -> bool:
        match = instruction.match
        if match is not None and match.form.event:
            event, group = match.form.event, match.form.group
            if group in self.groups or event in (
                "mbarrier-wait", "barrier-sync", "barrier-wait", "mbarrier-arrive", "barrier-arrive", "tmem-dealloc",
            ):  # fmt: skip
                return True
        derived = self.derived
        if not derived:
            return False
        reads = instruction.reads
        if derived.keys().isdisjoint(reads) and instruction.guard not in derived:
            return False
        return not computes(match) or not self.filled.keys().isdisjoint(reads)

    def transfer(self, state: Tcgen05State, at: int, instruction: Instruction) -> Tcgen05State:
        if state and self.filled and instruction.group != "tcgen05.ld":
            used = self.takes(instruction)
            if used and used & self._loading(state):
                # The hardware makes a use wait for the load; in the ISA only one note mentions it (9.7.16.6.4.5).
                state = self._after_use(state, used, instruction)
        event, group = instruction.event, instruction.group
        if not event:
            return state
        if event == "issue" and group in self.groups:
            again = state if group == "tcgen05" else state.difference(((at, COPIED), (at, USED)))
            return again | {(at, ISSUED)}
        if event == "wait" and group in self.groups:
            done = self.loads if group == "tcgen05.ld" else self.stores
            return frozenset(f for f in state if f[0] not in done)
        if event == "commit" and group == "tcgen05":
            pair = self.cta_groups[at]
            tracked = {s for s, _ in state if s in self.operations and self.cta_groups[s] == pair}
            # If several commits have tracked an operation, the wait for it is up to another role.
            commits = Counter(s for s, status in state if s in tracked and status != ISSUED)
            followed = {s for s in tracked if s in self.compared and commits[s] < _MAX_COMMITS}
            left = frozenset(f for f in state if f[0] not in tracked or (f[1] != ISSUED and f[0] in followed))
            return left | {(s, at + 1) for s in followed}
        if event == "mbarrier-wait":
            committed = [f for f in state if f[0] in self.operations and f[1] != ISSUED]
            complete = {s for s, status in committed if at in self._completed(status - 1)}
            return state.difference(f for f in committed if f[0] in complete) if complete else state
        if at in self._barriers:
            # Another thread may have waited for the mbarrier before it arrived here.
            return frozenset(
                f
                for f in state
                if f[0] not in self.operations or f[1] == ISSUED or not self._observed(f[1] - 1, at)
            )
        return state

    def _after_use(self, state: Tcgen05State, used: int, instruction: Instruction) -> Tcgen05State:
        """*state* after an instruction that uses the results of the loads *used*, or values computed from them."""
        if computes(instruction.match):
            direct, filled = 0, self._filled_bits
            for register in instruction.reads:
                direct |= filled.get(register, 0)
            status = COPIED if instruction.opcode.startswith("mov.") else USED
            key = state, direct, status
            if key not in self._computing:  # many instructions use the registers of one load
                bits = self.bits
                self._computing[key] = frozenset(
                    (s, min(before, status) if bits.get(s, 0) & direct else before) for s, before in state
                )
            return self._computing[key]
        return self._without(state, used)

    def _without(self, state: Tcgen05State, loads: int) -> Tcgen05State:
        """*state* without the facts about a set of loads."""
        bits = self.bits
        return frozenset(f for f in state if not bits.get(f[0], 0) & loads)

    def _completed(self, commit: int) -> frozenset[int]:
        """The waits after which a thread may know, directly or from others, that what the commit tracks is complete."""
        if commit not in self._completions:
            self._completions[commit] = self._order.completed((commit,))
        return self._completions[commit]

    def _observed(self, commit: int, barrier: int) -> bool:
        """Whether a thread that reaches *barrier* may have waited for the phase of the commit's mbarrier.

        A wait that only precedes the commit is for an earlier phase, and one that only follows the barrier for a later
        one.
        """
        key = (commit, barrier)
        if key not in self._observations:
            self._observations[key] = any(
                not self._precedes(wait, commit) and not self._precedes(barrier, wait)
                for wait in self._order.waits_completed_by(commit).intersection(
                    self.model.sites("mbarrier-wait")
                )
            )
        return self._observations[key]

    def _precedes(self, first: int, second: int) -> bool:
        """Whether a path leads from *first* to *second*, and none back."""
        return self.model.reaches(first, second) and not self.model.reaches(second, first)

    def guarded(self, state: Tcgen05State, after: Tcgen05State, at: int) -> Tcgen05State:
        # The instruction uses its guard even if it does not execute.
        instruction = self.model.instruction(at)
        used = 0 if computes(instruction.match) else self.derived.get(instruction.guard, 0)
        before = self._without(state, used) if used else state
        return super().guarded(before, after, at)

    def edge(self, state: Tcgen05State, edge: Edge) -> Tcgen05State:
        # Values computed in a block are available at its end.
        used = [f for f in state if f[1] == USED]
        return super().edge(state.difference(used) if used else state, edge)

    def follow(
        self, site: int, state: Tcgen05State, at: int, instruction: Instruction
    ) -> Tcgen05State | None:
        """The facts about one operation after one more instruction; None if it has ended or is issued again."""
        if at == site:
            return None
        after = self.transfer(state, at, instruction)
        if after is not state:
            after = frozenset(f for f in after if f[0] == site)
        return after or None

    def pending_causes(self, paths: Iterable[tuple[int, Path]]) -> frozenset[int]:
        """What leaves operations in flight at the ends of *paths*: the operation, or its commit without a wait."""
        return frozenset(
            status - 1 if status > ISSUED else site
            for site, path in paths
            for s, status in path.state
            if s == site
        )

    @cached_property
    def compared(self) -> frozenset[int]:
        """The operations whose result a load or store of the function has a chance of being proven to overlap."""
        linear = self.model.values.linear
        every, at_first = (
            {linear(columns.start)[0] for i in self.loads | self.stores if (columns := find(i, "taddr"))}
            for find in (self.range, self.at_first)
        )
        return frozenset(
            site
            for site in self.operations
            if (columns := self.range(site, "d"))
            and linear(columns.start)[0] in (every | at_first if self._is_mma(site) else every)
        )

    def _is_mma(self, site: int) -> bool:
        match = self.model.instruction(site).match
        return match is not None and match.form.name.startswith("tcgen05.mma")

    # ------------------------------------------------------------ addresses

    def range(self, site: int, role: str) -> ColumnRange | None:
        """The columns that *role* of the instruction at *site* covers, at least; None if it has no such address."""
        key = (site, role)
        if key not in self._ranges:
            self._ranges[key] = self._range(site, role)
        return self._ranges[key]

    def at_first(self, site: int, role: str) -> ColumnRange | None:
        """:meth:`range` when the instruction first executes; None if that is unknown, or the address does not vary."""
        here = self.range(site, role)
        if here is None or not self.model.values.varying_at(here.start):
            return None
        resolve = self.model.at_first(site).witness
        if resolve is None:
            return None
        return ColumnRange(self._columns(resolve(here.start)), here.columns, here.lanes)

    def _range(self, site: int, role: str) -> ColumnRange | None:
        model = self.model
        instruction = model.instruction(site)
        operand: Operand | None = instruction.role(role)
        if operand is None or (role == "a" and not isinstance(operand, Memory)):
            return None
        address = model.values.operand(operand, site)
        _, constant = model.values.linear(address)
        return ColumnRange(self._columns(address), self._width(site, role), constant >> 16)

    def _width(self, site: int, role: str) -> int:
        """The minimum number of columns that *role* covers."""
        return self.exact_width(site, role) or 1

    def exact_width(self, site: int, role: str) -> int | None:
        """The number of columns that *role* covers; None if unknown."""
        key = (site, role)
        if key not in self._widths:
            self._widths[key] = self._exact_width(site, role)
        return self._widths[key]

    def _exact_width(self, site: int, role: str) -> int | None:
        instruction, values = self.model.instruction(site), self.model.values
        match, idesc = instruction.match, self.model.value(site, "idesc")
        if match is not None and idesc is not None:
            form = Form.of(match)
            if role == "a":
                return 1 if form.weights or not INSTRUCTION[form.kind] else _A_COLUMNS
            found = shape(form, values.known_bits(idesc))
            return found.columns(form) if found is not None else None
        if match is not None and "shape" in match.binding:
            # Two 16-bit elements from adjacent columns share a register.
            packed = 1 + any(m in match.modifiers for m in (".pack::16b", ".unpack::16b"))
            return _COLUMNS[match.binding["shape"]] * (match.number("num") or 1) * packed
        count = instruction.role("columns") if instruction.event == "tmem-dealloc" else None
        return values.constant_operand(count, site) if count is not None else None

    @cached_property
    def _all(self) -> int:
        """The columns of all of tensor memory."""
        return tensor_columns(self.model.function.target)

    @cached_property
    def _sizes(self) -> dict[int, int]:
        """Shared word -> the maximum number of columns allocated through it."""
        sizes: dict[int, int] = {}
        for site in self.model.sites("tmem-alloc"):
            word, columns = self.model.value(site, "destination"), self.model.value(site, "columns")
            constant = self.model.values.constant_of(columns) if columns is not None else None
            if word is not None:
                word = self.model.values.representative(word)
                sizes[word] = max(sizes.get(word, 0), constant or self._all)
        return sizes

    def relative(self, address: int) -> TmemLocation | None:
        """*address* relative to its allocation; None if its base is unknown."""
        values = self.model.values
        terms, constant = values.linear(address)
        bases = [t for t, f in terms if f == 1 and values.node(t)[0] == "allocated"]
        if len(bases) > 1 or (terms and not bases):
            return None
        distance = values.total(tuple(term for term in terms if term[0] not in bases), constant)
        word = values.representative(values.node(bases[0])[1]) if bases else None
        size = self._all if word is None else self._sizes.get(word, self._all)
        start = self._columns(distance)
        column, bounds = values.known_bits(start)[1] & 0xFFFF, values.interval(start)
        if bounds is not None and bounds[0] >= 0 and bounds[1] < 1 << 16:
            column = max(column, bounds[0])
        return TmemLocation(word, distance, size, column, values.known_bits(distance)[1] >> 16 & 0xFFFF)

    def _columns(self, address: int) -> int:
        """*address* without the terms that affect only its upper half, which selects the lane (9.7.16.1.1).

        A constant with the highest bit of the lower half set subtracts columns.
        """
        values = self.model.values
        terms, constant = values.linear(address)
        columns = tuple((t, f) for t, f in terms if ~values.known_bits(values.times(t, f))[0] & 0xFFFF)
        return values.total(columns, (constant + _SIGN & 0xFFFF) - _SIGN)

    def meet(self, a: ColumnRange | None, b: ColumnRange | None, threads: int = 0) -> bool:
        """Whether two ranges provably share a column (and start in the same lane).

        Where the distance between the two depends on the thread index, they do if they share one in all of *threads*.
        """
        if a is None or b is None or a.lanes != b.lanes:
            return False
        values = self.model.values
        disjoint = values.disjoint(a.start, a.columns, b.start, b.columns)
        if disjoint is not None or not threads:
            return disjoint is False
        distance = values.add(b.start, values.times(a.start, -1))
        key = distance, threads
        if key not in self._distances:
            self._distances[key] = self.model.shared.offsets(distance, threads) or set()
        found = self._distances[key]
        return bool(found) and all(-b.columns < columns < a.columns for columns in found)

    def apart(self, a: int, role_a: str, b: int, role_b: str) -> bool:
        """Whether the columns of an operand of *a* and of one of *b* provably differ, whatever their lanes.

        It suffices that they differ where both instructions execute for the first time, or over all their threads and
        iterations.
        """
        sizes = self.exact_width(a, role_a), self.exact_width(b, role_b)
        here, there = self.range(a, role_a), self.range(b, role_b)
        if here is None or there is None or None in sizes:
            return False
        (low, high), (other_low, other_high) = self._bounds(here.start), self._bounds(there.start)
        if high + here.columns <= other_low or other_high + there.columns <= low:
            return True
        first = self.at_first(a, role_a) or here, self.at_first(b, role_b) or there
        return any(
            self.model.values.disjoint(one.start, one.columns, two.start, two.columns) is True
            for one, two in ((here, there), first)
        ) or self._extents_apart(a, here, b, there)

    def _extents_apart(self, a: int, here: ColumnRange, b: int, there: ColumnRange) -> bool:
        """Whether the columns that *a* covers in any thread and iteration differ from those of *b*."""
        extents, views = self.model.fact(Extents), self.model.views
        mine = extents.reach(here.start, here.columns, views.context_of(a).threads)
        other = extents.reach(there.start, there.columns, views.context_of(b).threads)
        return mine is not None and other is not None and not mine.meets(other)

    def _bounds(self, address: int) -> tuple[int, int]:
        """The least and the greatest column that *address* may select, by its known bits (9.7.16.1.1)."""
        zeros, ones = self.model.values.known_bits(address)
        return ones & 0xFFFF, ~zeros & 0xFFFF

    def columns_read(self, site: int) -> list[int]:
        """The addresses of the operands of an MMA in tensor memory: A, its metadata, scale factors."""
        instruction = self.model.instruction(site)
        match = instruction.match
        assert match is not None
        positions = (match.named.get(name.lstrip("*")) for name in match.form.async_reads)
        operands = [instruction.operands[at] for at in positions if at is not None]
        return [self.model.values.operand(o, site) for o in operands if isinstance(o, Memory)]


class TensorMemory(Tcgen05):
    """All operations on tensor memory; a load ends when it has been waited for, or when its registers are used."""


class Outstanding(Tcgen05):
    """MMAs, copies and shifts alone, each until it is known to be complete, whether or not its result is used."""

    groups = ("tcgen05",)

    @cached_property
    def compared(self) -> frozenset[int]:
        return self.operations
