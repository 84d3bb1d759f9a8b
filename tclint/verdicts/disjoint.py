"""Whether what an operation accesses later and what the thread accesses meanwhile have nothing in common.

True is a proof under the assumptions of :mod:`tclint.values`. Two addresses of one iteration can be subtracted; whether
they are of one iteration, the caller says with *passes*. Otherwise the ranges over all iterations are compared
(:meth:`.Addresses.disjoint`).
"""

from __future__ import annotations

from tclint.analyses.model import KernelModel
from tclint.analyses.tensor_memory import TensorMemory
from tclint.findings.verdicts import Assumption
from tclint.ir.nodes import Immediate, Memory, registers
from tclint.isa.accesses import Via
from tclint.values import thread_masks as T
from tclint.values.addresses import AT_ONCE, EVER, MemoryRange, Pairs, Passes
from tclint.values.nodes import CollectiveResult, Loaded, Phi, Unmodelled
from tclint.verdicts.checker import TENSOR
from tclint.verdicts.definitions import Definitions
from tclint.verdicts.matrices import Matrices, ranges
from tclint.verdicts.rings import Numbers, RingStates, State

__all__ = [
    "COLUMNS",
    "AccessedBytes",
    "column_ranges_disjoint",
    "columns_disjoint",
]

_FROM_OTHERS = frozenset((Loaded, Unmodelled, CollectiveResult))
"""Nodes that what other threads do may decide."""
MAX_CHOICES = 64
"""Ranges that the phis of an address may choose from. Their number doubles with each branch that adds to an address."""
COLUMNS = 1 << 16
"""The columns that addresses of tensor memory distinguish."""
_FAR = 1 << 31
"""More than addresses of tensor memory differ by."""


def columns_disjoint(model: KernelModel, first: int, second: int, passes: Passes) -> bool:
    """Whether two loads or stores of tensor memory have no column in common; their lanes are not compared."""
    a, b = _columns(model, first), _columns(model, second)
    return a is not None and b is not None and column_ranges_disjoint(model, a, b, passes)


def column_ranges_disjoint(
    model: KernelModel, a: MemoryRange, b: MemoryRange, passes: Passes, pairs: Pairs | None = None
) -> bool:
    """Whether two ranges of columns are disjoint, whatever the lanes, which the upper bits of an address select; with *pairs*, for
    two of these threads.

    The low bits of an address are its column (9.7.16.1.1), so addresses a multiple of 65536 apart have the same one: each
    range must end before the other one begins again.
    """
    values, (start, size) = model.values, b
    after = values.add(start, values.constant(COLUMNS)), _FAR
    before = values.add(start, values.constant(size - COLUMNS - _FAR)), _FAR
    return all(values.addresses.disjoint(a, other, passes, pairs) for other in (b, after, before))


def _columns(model: KernelModel, site: int) -> MemoryRange | None:
    """The columns that a load or store of tensor memory accesses at most."""
    tensor = model.fact(TensorMemory)
    columns, width = tensor.range(site, "taddr"), tensor.exact_width(site, "taddr")
    if columns is None or width is None:
        return None
    split = model.instruction(site).named("immHalfSplitoff")
    if split is not None:  # the upper lanes access other columns
        if not isinstance(split, Immediate) or not isinstance(split.value, int) or split.value < 0:
            return None
        width += split.value
    return columns.start, width


class AccessedBytes:
    """The bytes of shared memory that the instructions of one kernel access."""

    def __init__(self, model: KernelModel, rings: RingStates) -> None:
        self.model, self.rings, self.values = model, rings, model.values
        self.matrices, self.definitions = Matrices(model), Definitions(model)
        self.everyone: Pairs = (T.full(model.values.threads),) * 2
        self._known: dict[int, list[MemoryRange] | None] = {}

    def disjoint(self, copy: int, access: int, passes: Passes) -> bool:
        """Whether a ``cp.async`` and an access of shared memory have no byte in common, whatever threads of the CTA
        execute the two."""
        written, accessed = self.of(copy), self.of(access)
        if written is None or accessed is None:
            return False
        if not all(self._same_for_all(address) for address, _ in (*written, *accessed)):
            return False
        return all(
            self._ever_disjoint(a, b, passes) or self._stages_disjoint(copy, access, a, b, passes)
            for a in written
            for b in accessed
        )

    def of(self, site: int) -> list[MemoryRange] | None:
        """All bytes of shared memory that an instruction accesses; None if they are not all known."""
        if site not in self._known:
            self._known[site] = self._find(site)
        return self._known[site]

    def columns(self, site: int, operand: str) -> MemoryRange | None:
        """The columns of tensor memory that an operand covers at most; None if unknown."""
        match, tensor = self.model.instruction(site).match, self.model.fact(TensorMemory)
        assert match is not None
        if match.form.group in TENSOR:
            return _columns(self.model, site)
        role = next((r for r in ("d", "taddr", "a") if match.form.roles.get(r) == operand), None)
        known = "src_fmt" not in match.binding and "immHalfSplitoff" not in match.named
        if (
            role is None
            or not known
            or match.of_pair
            or match.modes.weight_stationary
            or match.modes.sparse
            or (role == "a" and not self.matrices.documented)
        ):
            return None
        columns, width = tensor.range(site, role), tensor.exact_width(site, role)
        return None if columns is None or width is None else (columns.start, width)

    def assumptions(self, site: int) -> frozenset[Assumption]:
        """What :meth:`of` rests on for an instruction."""
        described = any(a.via is Via.DESCRIPTOR for a in self.model.instruction(site).accesses)
        read = self.matrices.read(site) if described else None
        return frozenset() if read is None else read[1]

    def _find(self, site: int) -> list[MemoryRange] | None:
        instruction = self.model.instruction(site)
        accesses = instruction.accesses
        described = any(a.via is Via.DESCRIPTOR for a in accesses)
        named = (
            [
                instruction.named(role)
                for role in ("idesc", *(a.operand for a in accesses if a.via is Via.DESCRIPTOR))
            ]
            if described
            else [o for o in instruction.operands if isinstance(o, Memory)]
        )
        addressed = (r for each in named if each is not None for r in registers(each))
        if not all(self.definitions.dominate(register, site) for register in addressed):
            return None
        if described:
            read = self.matrices.read(site)
            return None if read is None else read[0]
        return ranges(self.model, site, (a for a in accesses if a.shared))

    def ever_apart(self, a: MemoryRange, b: MemoryRange) -> bool:
        """Whether two ranges are disjoint in all iterations, whatever threads of the CTA access them."""
        same = self._same_for_all(a[0]) and self._same_for_all(b[0])
        return same and self._ever_disjoint(a, b, EVER)

    def _ever_disjoint(self, a: MemoryRange, b: MemoryRange, passes: Passes) -> bool:
        """Whether two ranges are disjoint in all iterations, or in those in which the operation can be pending."""
        chosen = self._chosen_from(b)
        return all(
            self._disjoint(x, y, EVER) for x in self._chosen_from(a) for y in chosen
        ) or self._disjoint(a, b, passes)

    def _disjoint(self, a: MemoryRange, b: MemoryRange, passes: Passes = AT_ONCE) -> bool:
        """Whether two ranges are disjoint, whatever threads of the CTA access them."""
        return self.values.addresses.disjoint(a, b, passes, self.everyone) is True

    def _chosen_from(self, of: MemoryRange) -> list[MemoryRange]:
        """Ranges one of which *of* is in any iteration: those that phis in its address choose from.

        *of* alone if that is not known, or if there are more than ``MAX_CHOICES``.
        """
        found, work = list[MemoryRange](), [(of, frozenset[int]())]
        while work:
            each, within = work.pop()
            phi, chosen = self._choice(each)
            if chosen and phi not in within:
                work += ((one, within | {phi}) for one in chosen)
            else:
                found.append(each)
            if len(found) + len(work) > MAX_CHOICES:
                return [of]
        return found

    def _choice(self, of: MemoryRange) -> tuple[int, list[MemoryRange]]:
        """The only phi in the address of a range, and the ranges that it chooses from; none if it is not the only unknown."""
        values = self.values
        terms, constant = values.linear(of[0])
        phis = [(values.representative(t), factor) for t, factor in terms if values.is_phi(t)]
        rest = [term for term in terms if type(values.node(term[0])) is not Phi]
        if self._is_bounded(of) or len(phis) != 1 or any(values.varying_at(t) for t, _ in rest):
            return -1, []
        ((phi, factor),) = phis
        base = values.total(tuple(rest), constant)
        arguments = (argument for argument in values.arguments(phi) if argument != phi)
        return phi, [(values.add(base, values.times(argument, factor)), of[1]) for argument in arguments]

    def _is_bounded(self, of: MemoryRange) -> bool:
        """Whether all bytes of a range, over all threads and iterations, are known."""
        form = self.values.addresses.over_iterations(of[0])
        return self.values.addresses.span(form, of[1], self.everyone[0]) is not None

    def _same_for_all(self, address: int) -> bool:
        """Whether no part of an address but the thread index may differ between threads, whatever memory holds."""
        return self.unknown(address) is None

    def unknown(self, address: int) -> int | None:
        """The first part of an address that may differ between threads and that their index does not decide; None if there
        is none.

        Values take a load from one address as uniform, but other threads may store between two threads' loads.
        """
        parts = self.values.subexpressions(*(term for term, _ in self.values.linear(address)[0]))
        return next((v for v in parts if type(self.values.node(v)) in _FROM_OTHERS), None)

    def _stages_disjoint(
        self, copy: int, access: int, a: MemoryRange, b: MemoryRange, passes: Passes
    ) -> bool:
        """Whether two ranges are disjoint in all states of the loop that selects their stages."""
        states = self.rings.states(copy, access, (a[0], b[0]))
        if states is None:
            return False
        known = set[tuple[int, int]]()
        for first, then in states:
            here, there = self._selected(a[0], first, passes), self._selected(b[0], then, passes)
            if here is None or there is None:
                return False
            if (here, there) not in known:
                known.add((here, there))
                if not self._disjoint((here, a[1]), (there, b[1])):
                    return False
        return True

    def disjoint_when(
        self, a: MemoryRange, first: Numbers, b: MemoryRange, then: Numbers, passes: Passes
    ) -> bool:
        """Whether two ranges are disjoint, whatever threads access them, if counters have these numbers at each."""
        here, there = (
            self._selected(address, State(numbers, {}), passes)
            for address, numbers in ((a[0], first), (b[0], then))
        )
        if here is None or there is None or not (self._same_for_all(here) and self._same_for_all(there)):
            return False
        return self._disjoint((here, a[1]), (there, b[1]))

    def _selected(self, address: int, state: State, passes: Passes) -> int | None:
        """*address* in a *state* of its loop; None if anything else in it may change."""
        terms, constant = self.values.linear(address)
        kept, carried = list[tuple[int, int]](), self.values.constant(0)
        for term, factor in terms:
            changes = self.values.varying_at(term)
            came_from = state.carried.get(self.values.representative(term))
            number = self.rings.evaluated(term, state.numbers) if changes else None
            if came_from is not None:
                value, numbers = came_from
                before = self._selected(value, State(numbers, {}), EVER)
                if before is None:
                    return None
                carried = self.values.add(carried, self.values.times(before, factor))
            elif number is not None:
                constant += number * factor
            elif any(passes(kind, at) for kind, at in changes):
                return None
            else:
                kept.append((term, factor))
        return self.values.add(self.values.total(tuple(kept), constant), carried)
