"""The numbers of uniform counters, for certificates that follow them (:mod:`tclint.verdicts.epochs`).

A counter is a phi. What it becomes on an edge into its block is the argument of that edge, which the numbers of the counters
before the edge may decide: the next stage, half of a distance, a bit that is flipped. Where only the low bits of a counter
decide an address, these alone are followed, and on an edge after which they are not known they may be any. An expression is
evaluated for numbers only if the bits that are followed decide all of it. Of a counter that is an address of one variable, the
number is the distance from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import product

from tclint.dataflow.kernel import Kernel
from tclint.ir.cfg import Edge
from tclint.values.substitution import Replacement
from tclint.verdicts.definitions import Definitions
from tclint.verdicts.epochs import Counters, Numbers
from tclint.verdicts.rings import LARGEST, RingStates

__all__ = ["Counting"]

MAX_BITS = 4
"""The low bits of a counter that are followed; of one of which more matter, all are."""


class Counting:
    """The counters of one kernel."""

    def __init__(self, model: Kernel, rings: RingStates, definitions: Definitions) -> None:
        self.values, self.cfg, self.rings, self.definitions = model.values, model.cfg, rings, definitions
        self._bases: dict[int, int] = {}
        self._replacing: dict[tuple[tuple[int, int], ...], Replacement] = {}

    def counters(self, addresses: Iterable[int]) -> Counters:
        """The counters on which *addresses* depend, and those from which these are computed."""
        needed: dict[int, int | None] = {}
        work: list[tuple[int, int | None]] = [(address, None) for address in addresses]
        while work:
            value, width = work.pop()
            for phi in self.rings.counters(value):
                bits = self.rings.decisive(value, phi, width)
                known = needed.get(phi, 0)
                most = None if bits is None or known is None else max(bits, known)
                if phi not in needed or most != known:
                    needed[phi] = most
                    work += ((argument, most) for argument in self.values.arguments(phi))
        return {phi: bits if bits is not None and bits <= MAX_BITS else 0 for phi, bits in needed.items()}

    def at(self, value: int, numbers: Numbers, counters: Counters, width: int | None = None) -> int:
        """*value* for the *numbers* of counters, as far as they decide it, or its low *width* bits."""
        depends = self.rings.counters(value)
        known = tuple(
            each for each in numbers if each[0] in depends and self._decides(value, each[0], counters, width)
        )
        if not known:
            return value
        if known not in self._replacing:
            others = {
                phi: self.values.add(self._base(phi), self.values.constant(number)) for phi, number in known
            }
            self._replacing[known] = self.values.replacing(others)
        return self._replacing[known](value)

    def _decides(self, value: int, counter: int, counters: Counters, width: int | None) -> bool:
        """Whether what is followed of a *counter* is all of it that decides *value*, or its low *width* bits."""
        bits = counters[counter]
        if not bits:
            return True
        found = self.rings.decisive(value, counter, width)
        return found is not None and found <= bits

    def _base(self, counter: int) -> int:
        """The address of the variable to which each of the addresses adds a number that a counter may be; the number 0 if there is none."""
        if counter not in self._bases:
            found, seen, work = set[int](), {counter}, [counter]
            while work:
                for argument in self.values.arguments(work.pop()):
                    terms, _ = self.values.linear(argument)
                    bases = [t for t, f in terms if f == 1 and self.values.variable(t) is not None]
                    if len(terms) == 1 and self.values.is_phi(terms[0][0]) and terms[0][1] == 1:
                        work += {terms[0][0]} - seen
                        seen.add(terms[0][0])
                    else:
                        found.add(bases[0] if len(bases) == 1 else -1)
            known = found.pop() if len(found) == 1 else -1
            self._bases[counter] = self.values.constant(0) if known < 0 else known
        return self._bases[counter]

    def after(self, edge: Edge, numbers: Numbers, counters: Counters) -> Collection[Numbers] | None:
        """What the counters may be after an edge; None if one of them is not known."""
        entered = [phi for phi in counters if self.values.phi(phi).block == edge.target]
        if not entered:
            return (numbers,)
        choices = list[Collection[int]]()
        for phi in entered:
            found = self._next(phi, edge, numbers, counters)
            if found is None:
                return None
            choices.append(found)
        kept = {phi: number for phi, number in numbers if phi not in entered}
        return [
            tuple(sorted((kept | dict(zip(entered, chosen, strict=True))).items()))
            for chosen in product(*choices)
        ]

    def _next(self, phi: int, edge: Edge, numbers: Numbers, counters: Counters) -> Collection[int] | None:
        """The numbers that a counter may have after an edge into its block; None if they are not known."""
        arguments, sources = self.values.arguments(phi), self.cfg.sources[edge.target]
        bits = counters[phi]
        number = None
        last = self.cfg.blocks[edge.source].end - 1
        if len(arguments) == len(sources) and self.definitions.dominate(self.values.phi(phi).register, last):
            argument = self.values.representative(arguments[sources.index(edge.source)])
            argument = self.at(argument, numbers, counters, bits or None)
            number = self.values.constant_of(self.values.minus(argument, self._base(phi)))
        if number is None or abs(number) >= LARGEST:
            return range(1 << bits) if bits else None
        return (number & (1 << bits) - 1,) if bits else (number,)
