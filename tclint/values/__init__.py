"""What registers hold: one sparse, demand-driven analysis of abstract values.

A value is a number: an index into a hash-consed table of expressions, so equal numbers mean equal values. Nothing is
computed for a register that nobody asks about. Four questions are answered over the same table because they need each
other: base plus constant (:meth:`Values.linear`), the threads for which a predicate can hold (:meth:`Values.may`),
whether it follows from a path condition (:meth:`Values.decide`), and uniformity (:meth:`Values.level`). Each module is
a layer that asks only those below it:

    value_table        expressions, sums and predicates, simplified as they are made
    thread_predicates  what they are in every thread of a CTA
    ssa                which of them a register holds
    substitution       where they change, and what they become along a path
    uniformity         the scope in which they are the same for all threads
    induction          loop counters, quotients, remainders
    intervals          ranges and known bits
    entailment         what comparisons imply about sums
    (here)             whether a predicate follows from a path condition

``shared_memory``, ``divergence`` and ``descriptors`` combine several of these. Imports ``ir``, ``isa`` and ``syntax``.

Change this package when tclint does not see that two addresses differ, that a branch is infeasible, or that a value is
uniform.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from tclint.ir.cfg import CFG, Edge
from tclint.ir.nodes import Function, Variable
from tclint.isa.widths import width_of
from tclint.values.entailment import Ranges
from tclint.values.intervals import Bits, Bounds
from tclint.values.path_condition import Facts
from tclint.values.substitution import Along
from tclint.values.thread_predicates import Level
from tclint.values.value_table import Comparisons, Node

__all__ = ["Along", "Bits", "Facts", "Level", "Node", "Values"]


class Values(Bounds):
    """The values of one function. Ask; nothing is computed beforehand but the index of definitions."""

    def __init__(self, function: Function, cfg: CFG, variables: Mapping[str, Variable]) -> None:
        super().__init__(function, cfg, variables)
        self._facts: dict[frozenset[tuple[int, bool]], Facts] = {}
        self._alike: dict[int, bool] = {}
        self._turned: dict[tuple[int, int, int], int] = {}
        """Predicates, and the edge by which a round ends, to what they are in the next one."""
        self._turns: set[int] = set()
        """What they are there."""

    @cached_property
    def _ranges(self) -> Ranges:
        return Ranges(self)

    def release(self) -> None:
        """Drop what knows these values: without that they go as soon as nobody holds them."""
        self.__dict__.pop("_ranges", None)

    def decide(self, p: int, facts: Facts) -> bool | None:
        """Whether predicate *p* holds, given what is known of others; None when that does not follow."""
        p = self.find(p)
        fact = facts.get(p)
        if fact is not None:
            return fact
        try:
            return facts.decided[p]
        except KeyError:
            facts.decided[p] = result = self._decide(p, facts)
            return result

    def _decide(self, p: int, facts: Facts) -> bool | None:
        node = self.nodes[p]
        kind = node[0]
        if kind == "const":
            return bool(node[1])
        if kind == "not":
            inner = self.decide(node[1], facts)
            return None if inner is None else not inner
        if kind == "logic":
            left = self.decide(node[2], facts)
            right = self.decide(node[3], facts)
            if node[1] in ("and", "or"):
                settles: bool = node[1] == "or"
                if settles in (left, right):
                    return settles
                if left is None and right is None and facts and self._about_one(p, node):
                    # Where the one does not settle it, the other one may have to.
                    left = self.decide(node[3], self.assume(node[2], not settles, facts))
                    return settles if left is settles else None
                return None if left is None or right is None else node[1] == "and"
            return None if left is None or right is None else left != right
        if kind == "compare" and (facts or self._ranges.limited(p)):
            if (
                self.known(node[3]) == 1 and node[1] == "lt" and not node[4]
            ):  # of unsigned numbers it is 0 alone
                return self.decide(self.compare("eq", node[2], self.constant(0), True, node[5]), facts)
            known = self._ordered(node, facts)
            if known is None and (moved := self.difference(p)) is not None:
                known = self._ordered(moved[0], facts)
                if known is None:
                    known = self._ranges.decide(p, moved[0], facts)
                known = None if known is None else known is not moved[1]
            if known is None:
                known = self._ranges.decide(p, node, facts)
            if known is None and node[1] == "eq":
                known = self._ranges.bits(p, facts)
            return self._ranges.equated(p, facts) if known is None else known
        if kind == "phi":
            return self._joined(p, facts)
        return None

    def _about_one(self, p: int, node: Node) -> bool:
        """Whether both sides of *p* compare one number with others."""
        found = self._alike.get(p)
        if found is None:
            found = self._alike[p] = not self._terms_of(node[2]).isdisjoint(self._terms_of(node[3]))
        return found

    def _terms_of(self, p: int) -> frozenset[int]:
        """The terms of what a predicate compares."""
        node = self.node(p)
        while node[0] == "not":
            node = self.node(node[1])
        return (
            frozenset(t for side in node[2:4] for t, _ in self.linear(side)[0])
            if node[0] == "compare"
            else frozenset()
        )

    def _joined(self, phi: int, facts: Facts) -> bool | None:
        """A predicate is what all that it is joined from are, if they stay what they are."""
        found: bool | None = None
        seen = {phi}
        work = list(self.arguments(phi))
        while work:
            value = work.pop()
            if value in seen:
                continue
            seen.add(value)
            truth = facts.get(value)
            node = self.nodes[value]
            if truth is None and node[0] == "const":
                truth = bool(node[1])
            if truth is None and node[0] == "phi" and (arguments := self.arguments(value)):
                work += arguments
                continue
            if truth is None or found is (not truth) or self.renewed(value):
                return None
            found = truth
        return found

    def _ordered(self, node: Node, facts: Facts) -> bool | None:
        """Comparisons of one value with several constants decide each other."""
        if self.known(node[3]) is None:
            return None
        if facts.bounds is None:
            facts.bounds = {}
            for fact, truth in facts.items():
                self._bind(fact, truth, facts.bounds)
        return self._compared_with(node, facts.bounds)

    def _bind(self, fact: int, truth: bool, bounds: Comparisons) -> None:
        """Adds a fact to *bounds* where it compares with a constant, or what it says of a difference."""
        node = self.nodes[fact]
        if node[0] != "compare":
            return
        if self.known(node[3]) is not None:
            bounds[node[2]] = (*bounds.get(node[2], ()), (node, truth))
        if (moved := self.difference(fact)) is not None:
            node, negated = moved
            bounds[node[2]] = (*bounds.get(node[2], ()), (node, truth is not negated))

    def differences(self, p: int) -> Iterator[int]:
        """The differences of two numbers by which comparisons decide *p*, each without its constant."""
        work = [p]
        while work:
            value = self.find(work.pop())
            node = self.nodes[value]
            if node[0] in ("not", "logic"):
                work += self.parts(node)
            for base in self.compared(value) if node[0] == "compare" else ():
                if sorted(factor for _, factor in self.linear(base)[0]) == [-1, 1]:
                    yield base

    def contradicts(self, p: int, said: Iterable[tuple[int, bool]]) -> bool:
        """Whether *p* cannot hold where all that is *said* of other predicates does, or all that cannot be either."""
        number = self.known(p)
        if number == 0:
            return True
        every = [*([] if number else [(p, True)]), *said]
        # What the one says of the other may be known only when the other has been said.
        return self._disagree(every) or self._disagree(every[::-1])

    def counts_the_rest(self, head: int, p: int) -> bool:
        """Whether a loop goes round for the rest of a division by a power of two, and *p* is not what ends it."""
        return self._ranges.counts_the_rest(head, p)

    def impossible(self, facts: Facts) -> bool:
        """Whether what is known cannot all be so, as sums and differences of numbers say together."""
        return self._ranges.impossible(facts)

    def _disagree(self, said: Iterable[tuple[int, bool]]) -> bool:
        facts = Facts()
        for q, truth in said:
            if self.decide(q, facts) is (not truth):
                return True
            facts = self.assume(q, truth, facts)
        return self.impossible(facts)

    def compared(self, p: int) -> frozenset[int]:
        """The values that a comparison says something of, and by which others decide it."""
        sides: tuple[int, ...] = self.nodes[p][2:4]
        if (moved := self.difference(p)) is not None:
            sides += moved[0][2:3]
        bases = (self._ranges.bases(side) for side in sides if self.known(side) is None)
        apart = self._ranges.point(p)
        return frozenset((sides[0], *sides[2:], *(apart or ())[:1])).union(*bases)

    def equals(self, phi: int, number: int) -> int:
        """The predicate that the number that ways bring to where they join is *number*."""
        width = width_of(self.function.registers[self.nodes[phi][2]].type)
        return self.compare("eq", phi, self.constant(number), True, width or 32)

    def chosen(self, value: int, numbers: Iterable[int], facts: Facts) -> int | None:
        """Which of *numbers* a *value* is, given what is known; None when that does not follow."""
        known = self.known(value)
        if known is not None or self.node(value)[0] != "phi":
            return known
        return next((n for n in numbers if facts.get(self.find(self.equals(value, n)))), None)

    def assume(self, p: int, truth: bool, facts: Facts) -> Facts:
        """*facts* with *p* and what follows from it structurally."""
        p = self.find(p)
        if facts.get(p) is truth:
            return facts
        found = facts.followed.get((p, truth))
        if found is None:
            found = facts.followed[p, truth] = self._assumed(p, truth, facts)
        return found

    def _assumed(self, p: int, truth: bool, facts: Facts) -> Facts:
        bounds = None if facts.bounds is None else dict(facts.bounds)
        ranges = facts.ranges
        before, facts = facts, Facts(facts)
        work = [(p, truth)]
        while work:
            q, value = work.pop()
            node = self.nodes[q]
            if node[0] == "not":
                work.append((self.find(node[1]), not value))
                continue
            if node[0] == "const":
                continue
            if q in facts:
                bounds = ranges = None
            if bounds is not None:
                self._bind(q, value, bounds)
            if ranges is not None:
                ranges = self._ranges.learn(q, value, ranges)
            facts[q] = value
            self.renewed(q)  # so that it is known where the fact ends
            if node[0] == "logic" and ((node[1] == "and" and value) or (node[1] == "or" and not value)):
                work += [(self.find(node[2]), value), (self.find(node[3]), value)]
            elif node[0] == "logic" and node[1] != "xor":
                # Where one of the two does not settle it, the other one does.
                for one, other in (node[2:], node[:1:-1]):
                    if self.decide(one, before) is (not value):
                        work.append((self.find(other), value))
            elif node[0] == "compare":
                work += self._chosen(node, value)
                above = self._above(node, value)
                if above is not None:
                    work.append((above, False))
        facts.bounds, facts.ranges = bounds, ranges
        return facts

    def _above(self, node: Node, truth: bool) -> int | None:
        """Where a comparison of unsigned numbers says of one that it is above another one: that it is 0, which it is not."""
        _, relation, left, right, signed, width = node
        number = self.known(left if truth else right)
        if relation != "lt" or signed or (number is None and not truth) or (not truth and number == 0):
            return None
        above = self.find(self.compare("eq", right if truth else left, self.constant(0), True, width))
        return None if self.node(above)[0] == "const" else above

    def _chosen(self, node: Node, truth: bool) -> list[tuple[int, bool]]:
        """What follows where a select compares with a constant as one of its arms, also a constant, cannot."""
        _, relation, left, right, signed, width = node
        select = self.node(left)
        if select[0] != "select" or self.known(right) is None:
            return []
        for arm, other, condition in ((select[2], select[3], False), (select[3], select[2], True)):
            if self.known(arm) is not None and self.known(
                self.compare(relation, arm, right, signed, width)
            ) == (not truth):
                rest = self.compare(relation, other, right, signed, width)
                return [(self.find(select[1]), condition), (self.find(rest), truth)]
        return []

    def passing(self, facts: Facts, low: int, high: int) -> Facts:
        """*facts* without those about values that may change from instruction *low* on and before *high*."""
        sites = self._ending_sites
        begin = bisect_left(sites, low)
        if begin == len(sites) or sites[begin] >= high or not facts:
            return facts
        stale = {
            p for i in sites[begin : bisect_left(sites, high)] for p in self._ending["site", i] if p in facts
        }
        return Facts((p, v) for p, v in facts.items() if p not in stale) if stale else facts

    def entering(self, facts: Facts, block: int) -> Facts:
        """*facts* without those about values that may change on entry to *block*."""
        ending = self._ending.get(("block", block))
        if ending is None or ending.isdisjoint(facts):
            return facts
        return Facts((p, v) for p, v in facts.items() if p not in ending)

    def turned(self, facts: Facts, edge: Edge) -> Iterator[tuple[int, bool]]:
        """What comparisons that are known say in the next round, where *edge* leads back to the head of a loop.

        ``i + 1 != n`` is ``i != n`` then. What was turned before is not turned again.
        """
        head = edge.target
        ending = self._ending.get(("block", head), ())
        for p, truth in facts.items() if ending and edge.source in self.cfg.loops.get(head, ()) else ():
            if p in ending and p not in self._turns:
                q = self._turned.get((p, edge.source, edge.target))
                if q is None:
                    q = self._turned[p, edge.source, edge.target] = self._turn(p, edge.source, edge.target)
                if q >= 0:
                    yield q, truth

    def _turn(self, p: int, source: int, head: int) -> int:
        """A comparison as it is about the numbers of the next round, which counters have been changed for; -1: it is none."""
        node = self.nodes[p]
        if node[0] != "compare":
            return -1
        sides = list[int]()
        for side in node[2:4]:
            terms, by = self.linear(side)
            for term, factor in terms:
                if ("block", head) in self.volatile(term):
                    moved = self.node(term)[:2] == ("phi", head) and self.linear(
                        self.after_block(self.node(term)[2], source)
                    )
                    if not moved or moved[0] != ((term, 1),):
                        return -1
                    by -= factor * moved[1]
            sides.append(self.total(terms, by))
        turned = self.find(self.compare(node[1], sides[0], sides[1], node[4], node[5]))
        self._turns.add(turned)
        return turned

    def once(self, facts: Facts) -> Facts:
        """The same facts, and with them all that has been concluded from them."""
        return self._facts.setdefault(facts.pairs(), facts)

    def lasting(self, facts: Facts) -> Facts:
        """The facts that hold for the whole life of a thread."""
        if facts.lasting is None:
            facts.lasting = self.once(Facts((p, v) for p, v in facts.items() if not self.renewed(p)))
        return facts.lasting
