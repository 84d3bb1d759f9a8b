"""Whether a loop makes an index take every value within its bounds.

An interval bounds where an access may be. That it reaches a byte inside does not follow: a mask is as wide as the type
that a compiler chose, an index may come from a table in memory, a ring may have fewer stages than its variable has room
for. Only a counter that goes through its bounds shows it, if the loop has enough iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import gcd

from tclint.dataflow.kernel import Kernel
from tclint.values.nodes import Arithmetic, Masked, Phi, Select, Terms

__all__ = ["AttainedValues"]


class AttainedValues:
    """The indices of a function whose loops reach all values within their bounds."""

    def __init__(self, model: Kernel) -> None:
        self.model = model
        self._counting: dict[int, bool] = {}
        """The results of :meth:`_counts`; False for a value about which it is still being asked."""

    def sum(self, terms: Terms) -> bool:
        """Whether a sum takes every value that :meth:`Addresses.steps` has for it.

        Several terms do so if they are counters of loops of their own, and each one steps as far as the others reach,
        as the digits of a number do.
        """
        values = self.model.values
        ring = values.remainder(terms)
        if ring is not None:
            phis = [t for t, _ in terms if values.is_phi(t)]
            return bool(phis) and all(self._steps_by(t, ring[2]) for t in phis)
        digits, changes = list[tuple[int, int]](), set[tuple[str, int]]()
        for term, factor in terms:
            own, bounds = values.varying_at(term), values.interval(term)
            if bounds is None or not changes.isdisjoint(own) or not self.value(term):
                return False
            changes.update(own)
            unit = values.addresses.unit(term)
            digits.append((unit * abs(factor), (bounds[1] - bounds[0]) // unit + 1))
        digits.sort()
        return all(low * count == high for (low, count), (high, _) in pairwise(digits))

    def value(self, value: int) -> bool:
        """Whether a loop is certain to reach every value within the bounds of *value*, if it iterates often enough."""
        return self._counts(self.unmasked(value))

    def unmasked(self, value: int) -> int:
        """*value* without masks that narrow its type and clear no bit of it."""
        values = self.model.values
        while True:
            node = values.node(value)
            if type(node) is not Masked or node.mask & node.mask + 1:
                return value
            inner = values.interval(node.value)
            if inner is None or inner[0] < 0 or inner[1] > node.mask:
                return value
            value = node.value

    def _steps_by(self, value: int, modulus: int) -> bool:
        """Whether *value* is a loop counter that reaches every remainder modulo a number."""
        induction = self.model.values.induction(value)
        return induction is not None and gcd(induction[1], modulus) == 1

    def _counts(self, value: int) -> bool:
        """Whether *value* is a loop counter, which reaches both of its bounds, or a mask of one."""
        found = self._counting.get(value)
        if found is None:
            # What a phi of a cycle with several entries reaches is not known: it is asked for again within the question.
            self._counting[value] = False
            bounds = self.model.values.interval(value)
            found = self._counting[value] = bounds is not None and self._reaches(value, bounds)
        return found

    def _reaches(self, value: int, bounds: tuple[int, int]) -> bool:
        """See :meth:`_counts`.

        A loop that packs a stage and a phase into one value need not reach all combinations of its bits.
        """
        values = self.model.values
        node = values.node(value)
        if type(node) is Phi and node.block not in self.model.cfg.loops:
            return self._joined(values.arguments(value), bounds, values.addresses.unit(value))
        if type(node) is Select and all(values.constant_of(arm) is not None for arm in node.arms):
            return self._joined(node.arms, bounds, values.addresses.unit(value))
        if type(node) is Masked:
            period = (node.mask & -node.mask) << 1
            varying = [t for t, _ in values.linear(node.value)[0] if values.varying_at(t)]
            return bool(varying) and all(self._steps_by(t, period) for t in varying)
        # A select makes the next stage of a ring: it is back to 0, or one more.
        for arm in node.arms if type(node) is Select else ():
            terms, _ = values.linear(arm)
            if not terms:
                continue
            within = values.interval(terms[0][0]) if len(terms) == 1 and terms[0][1] == 1 else None
            if within is None or bounds[0] < within[0] or bounds[1] > within[1]:
                return False
        return isinstance(node, Phi | Select) and self._carries(value)

    def _joined(self, incoming: Sequence[int], bounds: tuple[int, int], unit: int) -> bool:
        """Whether the *incoming* values of a join cover its bounds: one of them alone, or constants in steps of *unit*."""
        values = self.model.values
        others = [a for a in incoming if values.constant_of(a) is None]
        if others:
            return all(map(self._counts, others)) and any(values.interval(a) == bounds for a in others)
        return len({*map(values.constant_of, incoming)}) == (bounds[1] - bounds[0]) // unit + 1

    def _carries(self, value: int) -> bool:
        """Whether each iteration of a loop keeps *value* or makes it the next one, up to the last one.

        The last one is known by a comparison with a constant, or by the width of a mask alone.
        """
        values = self.model.values
        seen, work = set[int](), [value]
        while work:
            each = work.pop()
            terms, constant = values.linear(each)
            node = values.node(each)
            if len(terms) == 1 and terms[0][1] == 1 and type(values.node(terms[0][0])) is Phi:
                counter = terms[0][0]
                if abs(constant) > values.addresses.unit(counter):
                    return False
                if counter not in seen:
                    seen.add(counter)
                    work += values.arguments(counter)
            elif type(node) is Select and self._compares_with_constant(node.condition):
                work += node.arms
            elif type(node) is Masked and not node.mask & (node.mask + 1):
                inner = values.linear(node.value)[0]  # of the counter itself: no other test ends the ring
                if any(not values.is_phi(t) for t, _ in inner):
                    return False
                work.append(node.value)
            elif type(node) is Arithmetic and node.name == "xor":
                work += node.operands
            elif terms:
                return False
        return True

    def _compares_with_constant(self, predicate: int) -> bool:
        values = self.model.values
        node, _ = values.comparison(predicate)
        return node is not None and any(values.constant_of(side) is not None for side in node.operands)
