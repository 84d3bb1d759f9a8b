"""Addresses by which each thread takes elements of its own, as many apart as the CTA has threads.

In ``for (i = tid; i < n; i += ntid)``, every ``i`` of a thread leaves its index as the remainder by the number of threads of a CTA
of one dimension, whatever that number is and in whatever iteration. So two threads never have the same ``i``, in one loop or in two.
"""

from __future__ import annotations

from math import gcd

from tclint._named_tuple import NamedTuple
from tclint.values import Values
from tclint.values.nodes import Phi

__all__ = ["Elements", "Strides"]


class Elements(NamedTuple):
    """Addresses ``element * i + rest + offset``, of which ``i`` leaves the index of the thread as remainder by their number."""

    element: int
    """The bytes from one element to the next; negative if they descend."""
    rest: tuple[tuple[int, int], ...]
    """Other terms and their factors."""
    offset: int


class Strides:
    """The addresses of one kernel that are such elements."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.index, self.number = values.special("%tid.x"), values.special("%ntid.x")
        self._known: dict[int, Elements | None] = {}

    def elements(self, address: int) -> Elements | None:
        """The elements that *address* is one of; None if it is not known to be one."""
        if address not in self._known:
            self._known[address] = self._elements(address)
        return self._known[address]

    def _elements(self, address: int) -> Elements | None:
        terms, offset = self.values.linear(address)
        found, followed, step = dict[int, int](), set[int](), 0
        work = list(terms)
        while work:
            term, factor = work.pop()
            counter = None if term in followed else self._counter(term)
            if counter is None:
                found[term] = found.get(term, 0) + factor
                continue
            followed.add(term)
            more, constant = self.values.linear(counter[0])
            offset += constant * factor
            step = gcd(step, counter[1] * factor)
            work += ((each, its * factor) for each, its in more)
        element, times = found.pop(self.index, 0), found.pop(self.number, 0)
        if not element or gcd(step, times) % element:
            return None
        return Elements(element, tuple(sorted(each for each in found.items() if each[1])), offset)

    def _counter(self, value: int) -> tuple[int, int] | None:
        """What a counter begins with, and how many numbers of threads it grows by; None if *value* is not such a counter."""
        if type(self.values.node(value)) is not Phi:
            return None
        starts, step = set[int](), 0
        for argument in map(self.values.representative, self.values.arguments(value)):
            terms, constant = self.values.linear(argument)
            factors = dict(terms)
            if factors.pop(value, 0) != 1:
                starts.add(argument)
            elif constant or factors.keys() - {self.number}:
                return None
            else:
                step = gcd(step, factors.get(self.number, 0))
        return (starts.pop(), step) if len(starts) == 1 and step else None
