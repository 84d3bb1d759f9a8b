"""Addresses on whatever path: what loops add to them, and whether two of them ever are a known distance apart.

Which path leads from one access to another takes a search; that no path makes their bytes the same is often plain
without one. A pointer that a loop advances is what it begins with, and a number of steps; what an instruction loads, or
computes from a value that the launch determines, is a number on no path.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from operator import sub

from tclint._named_tuple import NamedTuple
from tclint.values import thread_masks as T
from tclint.values.addresses import Addresses, AddressForm, numbers
from tclint.values.nodes import CollectiveResult, Loaded, Opaque, Select, Terms, Unmodelled, Value
from tclint.values.thread_predicates import UniformityScope

__all__ = ["PathForms"]

MAX_PHIS = 32
"""Phis that one address may depend on."""
FAR = 1 << 64
"""More than the distance of any two addresses."""
_PRODUCED = frozenset((Loaded, Unmodelled, CollectiveResult))
"""What an instruction produces: a new value each time."""
_Sum = tuple[Terms, int]


class _Parts(NamedTuple):
    """A sum as one of its alternatives has it."""

    base: Mapping[Value, int]
    own: Mapping[Value, int]
    """What the thread index decides."""
    constant: int

    def plus(self, other: _Parts, factor: int) -> _Parts:
        base, own = dict(self.base), dict(self.own)
        for total, terms in ((base, other.base), (own, other.own)):
            for term, its in terms.items():
                total[term] = total.get(term, 0) + its * factor
        return _Parts(_present(base), _present(own), self.constant + other.constant * factor)


class _Moves(NamedTuple):
    """By how much alternatives of a sum may differ: multiples of a number, and any of some terms."""

    stride: int = 0
    terms: frozenset[Value] = frozenset()

    def plus(self, other: _Moves, factor: int) -> _Moves:
        return _Moves(gcd(self.stride, other.stride * factor), self.terms | other.terms)


def _present(terms: dict[Value, int]) -> dict[Value, int]:
    return {term: factor for term, factor in terms.items() if factor}


class PathForms:
    """The forms of the addresses of one function on whatever path."""

    def __init__(self, addresses: Addresses) -> None:
        self.addresses, self.table = addresses, addresses.table
        self._varying_at = addresses.lifetimes.varying_at
        self._uniformity = addresses.uniformity.uniformity
        self._forms: dict[Value, AddressForm | None] = {}
        self._phis: dict[Value, tuple[_Parts, _Moves] | None] = {}
        self._spacings: dict[tuple[Value, int, int], tuple[int, int]] = {}

    def form(self, address: Value) -> AddressForm | None:
        """The form of *address* on whatever path, with no bound on the count; None if a path may make anything of it.

        The base is a sum of what no path makes a number of: values that never change, that an instruction produces
        anew, and operations on these. *moving* are those that loops add, and operations whose operands vary: two
        addresses are a known distance apart on no path if their bases differ in others.
        """
        if address not in self._forms:
            self._forms[address] = self._find(address)
        return self._forms[address]

    def may_be_apart(self, a: AddressForm, b: AddressForm) -> bool:
        """Whether two addresses of these forms may be a known distance apart on some path."""
        if a.base == b.base:
            return True
        terms, its = (dict(self.table.linear(form.base)[0]) for form in (a, b))
        differing = {term for term in {**terms, **its} if terms.get(term) != its.get(term)}
        moving = {term for form in (a, b) for term, _ in form.moving}
        remade = any(map(self._is_remade, moving))
        return all(t in moving or (remade and type(self.table.node(t)) is Opaque) for t in differing)

    def differs(self, form: AddressForm, scope: UniformityScope) -> bool:
        """Whether no path makes the base of *form* one that all threads of a *scope* have in common."""
        moving = {term for term, _ in form.moving}
        terms = [term for term, _ in self.table.linear(form.base)[0]]
        remade = [term for term in terms if self._is_remade(term)]
        if not remade:
            return any(self._uniformity(term) > scope for term in terms if term not in moving)
        # Two operations may cancel out.
        only = len(remade) == 1 and all(
            type(self.table.node(t)) is not Opaque for t in moving.difference(remade)
        )
        fixed = (value for value in self.table.node(remade[0]).operands if not self._varying_at(value))
        return (only and any(self._uniformity(value) > scope for value in fixed)) or any(
            self._uniformity(t) > scope and type(self.table.node(t)) is not Opaque
            for t in terms
            if t not in moving
        )

    def spacing(self, index: Value, stride: int, group: int) -> tuple[int, int]:
        """How far the values of *index* in two threads of one *group* are apart: the least, modulo *stride* unless it is 0,
        and the greatest distance.

        A group is as many threads, from a multiple of this number on. If the values are unknown, any distance may be.
        """
        key = index, stride, group
        if key not in self._spacings:
            thread_sets, found = self.addresses.thread_sets, (0, FAR)
            planes = thread_sets.bit_slices(index)
            if planes is not None:
                own = list(numbers(planes, T.full(thread_sets.threads)))
                groups = [sorted(own[k : k + group]) for k in range(0, len(own), group)]
                found = (
                    min(_least_gap(each, stride) for each in groups),
                    max(each[-1] - each[0] for each in groups),
                )
            self._spacings[key] = found
        return self._spacings[key]

    # ------------------------------------------------------------ forms

    def _find(self, address: Value) -> AddressForm | None:
        found = self._sum(self.table.linear(address))
        if found is None:
            return None
        (base, own, offset), (stride, terms) = found
        total = self.table.total
        moving = tuple((term, 1) for term in sorted(terms.union(filter(self._is_remade, base))))
        return AddressForm(
            total(tuple(sorted(base.items())), 0),
            total(tuple(sorted(own.items())), 0),
            offset,
            stride,
            None,
            moving,
        )

    def _sum(self, of: _Sum) -> tuple[_Parts, _Moves] | None:
        """What a sum is, and what is added to it; None if a path may make anything of it."""
        terms, constant = of
        parts, moves = _Parts({}, {}, constant), _Moves()
        for term, factor in terms:
            if self.addresses.is_index(term):
                parts = parts.plus(_Parts({}, {term: 1}, 0), factor)
            elif self._is_symbol(term):
                parts = parts.plus(_Parts({term: 1}, {}, 0), factor)
            else:
                if term not in self._phis:
                    self._solve(term)
                known = self._phis[term]
                if known is None:
                    return None
                parts, moves = parts.plus(known[0], factor), moves.plus(known[1], factor)
        return parts, moves

    def _solve(self, phi: Value) -> None:
        """Fill in what *phi* is, and all phis that it depends on."""
        alternatives = self._depended_on(phi)
        if not alternatives:
            self._phis[phi] = None
            return
        asked = set(alternatives)
        while asked:  # an alternative of which all phis are known makes its own phi known
            begins = {p: next((s for s in alternatives[p] if self._is_known(s)), None) for p in asked}
            if not any(begins.values()):
                self._phis.update(dict.fromkeys(alternatives))
                return
            for each, start in begins.items():
                if start is not None:
                    found = self._sum(start)
                    self._phis[each] = found
                    asked.discard(each)
        while True:
            before = {p: self._phis[p] for p in alternatives}
            for each, sums in alternatives.items():
                self._phis[each] = self._joined(each, sums)
                if self._phis[each] is None:
                    self._phis.update(dict.fromkeys(alternatives))
                    return
            if all(self._phis[p] == known for p, known in before.items()):
                return

    def _is_known(self, of: _Sum) -> bool:
        return all(
            self._phis.get(term) is not None or self.addresses.is_index(term) or self._is_symbol(term)
            for term, _ in of[0]
        )

    def _joined(self, phi: Value, sums: list[_Sum]) -> tuple[_Parts, _Moves] | None:
        """What *phi* is and how it moves, if it may also be each of *sums*; None if the thread index moves it."""
        known = self._phis[phi]
        for each in sums if known else ():
            found = self._sum(each)
            if known is None or found is None or found[0].own != known[0].own:
                return None
            (base, _, constant), (its_base, _, its_constant) = known[0], found[0]
            terms = {t for t in {**base, **its_base} if base.get(t) != its_base.get(t)}
            moves = known[1].plus(found[1], 1).plus(_Moves(its_constant - constant, frozenset(terms)), 1)
            known = known[0], moves
        return known

    def _depended_on(self, phi: Value) -> dict[Value, list[_Sum]]:
        """*phi* and the phis that it depends on, each with the sums that it may be; empty if it depends on something else."""
        found: dict[Value, list[_Sum]] = {}
        work = [phi]
        while work:
            value = work.pop()
            if value in found or self._phis.get(value) is not None:
                continue
            if value in self._phis or not self.table.arguments(value) or len(found) == MAX_PHIS:
                return {}
            found[value] = []
            arguments = list(self.table.arguments(value))
            while arguments:
                argument = arguments.pop()
                node = self.table.node(argument)
                if type(node) is Select:
                    arguments += node.arms
                    continue
                of = self.table.linear(argument)
                found[value].append(of)
                rest = [t for t, _ in of[0] if not (self.addresses.is_index(t) or self._is_symbol(t))]
                if not all(map(self.table.is_phi, rest)):
                    return {}
                work += rest
        return found

    def _is_symbol(self, value: Value) -> bool:
        """Whether no path makes a number of *value*, unless it is one of the thread index."""
        return (
            not self._varying_at(value) or type(self.table.node(value)) in _PRODUCED or self._is_remade(value)
        )

    def _is_remade(self, value: Value) -> bool:
        """Whether a path makes another operation of *value*, one operand of which never changes and is not a number."""
        node, varying = self.table.node(value), self._varying_at
        return (
            type(node) is Opaque
            and bool(varying(value))
            and any(self.table.constant_of(v) is None and not varying(v) for v in node.operands)
        )


def _least_gap(values: list[int], stride: int) -> int:
    """The least distance of two of *values*, which are sorted, modulo *stride* unless it is 0; more than any distance if there is only one."""
    if stride:
        values = sorted(value % stride for value in values)
    around = [values[0] + stride] if stride else []
    return min(map(sub, values[1:] + around, values), default=FAR)
