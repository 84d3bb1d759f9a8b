"""What follows from a path condition, and what remains of it along a path."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from tclint.ir.cfg import Edge
from tclint.isa.widths import width_of
from tclint.values.columns import Columns
from tclint.values.contradictions import Contradictions
from tclint.values.entailment import ConditionalIntervals
from tclint.values.nodes import Compare, Constant, Logic, Negation, Phi, Select, Value
from tclint.values.path_condition import PathCondition
from tclint.values.value_table import Comparisons

__all__ = ["Conditions"]


class Conditions:
    """Decides predicates under path conditions, and extends and restates these."""

    def __init__(self, ranges: ConditionalIntervals, columns: Columns | None = None) -> None:
        self.columns = columns
        """Decides predicates about %tid.x where the shape of the CTA is unknown."""
        self.ranges, self.loops = ranges, ranges.loops
        self.contradictions = Contradictions(ranges)
        self._nothing = PathCondition()
        """No facts: what is assumed first is looked up where it was assumed first before."""
        self.table, self.cfg = ranges.table, ranges.loops.cfg
        self.registers, self.lifetimes = ranges.loops.registers, ranges.loops.lifetimes
        self._facts: dict[frozenset[tuple[int, bool]], PathCondition] = {}
        self._shared_terms: dict[int, bool] = {}
        self._equalities: dict[tuple[int, int], int] = {}
        self._translated: dict[tuple[int, int, int], int] = {}
        """``(predicate, source and target of a back edge)`` -> the predicate in the next iteration; -1: none."""
        self._translations: set[int] = set()
        """The predicates that such translations produced."""

    def entails(self, p: Value, facts: PathCondition) -> bool | None:
        """Whether predicate *p* holds under the path condition *facts*; None when neither answer follows."""
        p = self.table.representative(p)
        fact = facts.get(p)
        if fact is not None:
            return fact
        try:
            return facts.decided[p]
        except KeyError:
            result = self._entails(p, facts)
            if result is None and self.columns is not None:
                result = self.columns.decide(p, facts)
            facts.decided[p] = result
            return result

    def _entails(self, p: Value, facts: PathCondition) -> bool | None:
        node = self.table.nodes[p]
        if type(node) is Constant:
            return bool(node.number)
        if type(node) is Negation:
            inner = self.entails(node.operand, facts)
            return None if inner is None else not inner
        if type(node) is Logic:
            return self._entails_logic(p, node, facts)
        if type(node) is Compare:
            if (alone := self.ranges.bounds.compared(p)) is not None:
                return alone
            return (
                self._entails_comparison(p, node, facts) if facts or self.ranges.needs_no_facts(p) else None
            )
        return self._entails_phi(p, facts) if type(node) is Phi else None

    def _entails_logic(self, p: Value, node: Logic, facts: PathCondition) -> bool | None:
        """:meth:`entails` for two predicates together."""
        left = self.entails(node.left, facts)
        right = self.entails(node.right, facts)
        if node.name != "xor":
            absorbing = node.name == "or"
            if absorbing in (left, right):
                return absorbing
            if left is None and right is None and facts and self._share_a_term(p, node):
                # The right operand, in the case in which the left one does not determine the result.
                left = self.entails(node.right, self.refine(node.left, not absorbing, facts))
                return absorbing if left is absorbing else None
            return None if left is None or right is None else not absorbing
        return None if left is None or right is None else left != right

    def _entails_comparison(self, p: Value, node: Compare, facts: PathCondition) -> bool | None:
        """:meth:`entails` for a comparison that its sides alone do not decide."""
        if self.table.constant_of(node.right) == 1 and node.relation == "lt" and not node.signed:
            # The only unsigned number below 1 is 0.
            zero = self.table.compare("eq", node.left, self.table.constant(0), True, node.width)
            return self.entails(zero, facts)
        known = self._entailed_by_constants(node, facts)
        if known is None and (rewritten := self.table.difference(p)) is not None:
            known = self._entailed_by_constants(rewritten[0], facts)
            if known is None:
                known = self.ranges.entails(p, rewritten[0], facts)
            known = None if known is None else known is not rewritten[1]
        if known is None:
            known = self.ranges.entails(p, node, facts)
        if known is None and node.relation == "eq":
            known = self.ranges.bits(p, facts)
        if known is None:
            known = self.ranges.equated(p, facts)
        return self._entailed_by_choice(node, facts) if known is None else known

    def _share_a_term(self, p: Value, node: Logic) -> bool:
        """Whether both operands of the logic operation *p* compare sums that have a term in common."""
        found = self._shared_terms.get(p)
        if found is None:
            left, right = map(self._terms_of, node.operands)
            found = self._shared_terms[p] = not left.isdisjoint(right)
        return found

    def _terms_of(self, p: Value) -> frozenset[Value]:
        """The terms of both sides of a comparison, negated or not; empty for any other predicate."""
        node, _ = self.table.comparison(p)
        sides = () if node is None else node.operands
        return frozenset(t for side in sides for t, _ in self.table.linear(side)[0])

    def _entails_phi(self, phi: Value, facts: PathCondition) -> bool | None:
        """The truth that all values joined by *phi* have.

        None if they differ, or one of them is unknown or may change in a loop.
        """
        found: bool | None = None
        seen = {phi}
        work = list(self.table.arguments(phi))
        while work:
            value = work.pop()
            if value in seen:
                continue
            seen.add(value)
            truth = facts.get(value)
            node = self.table.nodes[value]
            if truth is None and type(node) is Constant:
                truth = bool(node.number)
            if truth is None and type(node) is Phi and (arguments := self.table.arguments(value)):
                work += arguments
                continue
            if truth is None or found is (not truth) or self.lifetimes.loop_varying_at(value):
                return None
            found = truth
        return found

    def _entailed_by_constants(self, node: Compare, facts: PathCondition) -> bool | None:
        """Whether a comparison with a constant follows from comparisons of the same value with other constants."""
        if self.table.constant_of(node.right) is None:
            return None
        if facts.bounds is None:
            facts.bounds = {}
            for fact, truth in facts.items():
                self._add_bound(fact, truth, facts.bounds)
        return self.table.implied_comparison(node, facts.bounds)

    def _add_bound(self, fact: Value, truth: bool, bounds: Comparisons) -> None:
        """Add to *bounds* a fact that compares with a constant, as it is and as a comparison of a difference."""
        node = self.table.nodes[fact]
        if type(node) is not Compare:
            return
        if self.table.constant_of(node.right) is not None:
            bounds[node.left] = (*bounds.get(node.left, ()), (node, truth))
        if (rewritten := self.table.difference(fact)) is not None:
            node, negated = rewritten
            bounds[node.left] = (*bounds.get(node.left, ()), (node, truth is not negated))

    def _entailed_by_choice(self, node: Compare, facts: PathCondition) -> bool | None:
        """Whether a comparison follows once the selects that it compares are replaced by the arms that *facts*
        choose."""
        left, right = (self._chosen(side, facts) for side in node.operands)
        if (left, right) == node.operands:
            return None
        return self.entails(self.table.compare(node.relation, left, right, node.signed, node.width), facts)

    def _chosen(self, value: Value, facts: PathCondition) -> Value:
        """The arm of the select *value* that *facts* choose; *value* itself if it is not a select or they choose
        none."""
        node = self.table.node(value)
        if type(node) is not Select or (truth := self.entails(node.condition, facts)) is None:
            return value
        return node.yes if truth else node.no

    def differences(self, p: Value) -> Iterator[Value]:
        """The differences x - y, without their constants, on which the comparisons in *p* depend."""
        work = [p]
        while work:
            value = self.table.representative(work.pop())
            node = self.table.nodes[value]
            if type(node) is Negation or type(node) is Logic:
                work += node.operands
            for base in self.compared(value) if type(node) is Compare else ():
                if sorted(factor for _, factor in self.table.linear(base)[0]) == [-1, 1]:
                    yield base

    def satisfiable(self, literals: Sequence[tuple[Value, bool]]) -> bool:
        """False if the *literals* are certainly unsatisfiable."""
        return self._together(literals[::-1]) is not None

    def contradicted(
        self, predicates: Iterable[Value], literals: Sequence[tuple[Value, bool]]
    ) -> Iterator[bool]:
        """For each of *predicates*, whether it cannot hold where all the *literals* do, if any do."""
        # Whether one literal refutes another may depend on which of them is assumed first.
        facts = self._together(literals[::-1])
        return (facts is None or self._contradicted(p, literals, facts) for p in predicates)

    def _contradicted(self, p: Value, literals: Sequence[tuple[Value, bool]], facts: PathCondition) -> bool:
        """Whether *p* cannot hold where all the *literals* do, which are *facts* in reverse order."""
        number = self.table.constant_of(p)
        if number is not None:
            return not number or self._together(literals) is None
        if self.entails(p, facts) is False or self.unsatisfiable(self.refine(p, True, facts), facts):
            return True
        return self._together(((p, True), *literals)) is None

    def unsatisfiable(self, facts: PathCondition, before: PathCondition | None = None) -> bool:
        """Whether *facts* are unsatisfiable because of what they say about sums and differences taken together.

        They are *before* extended, or *before* is None.
        """
        return self.contradictions.impossible(facts, before) or self.contradictions.excluded(facts, before)

    def _together(self, literals: Iterable[tuple[int, bool]]) -> PathCondition | None:
        """The path condition of *literals*, assumed one after the other; None if they are certainly unsatisfiable."""
        facts = self._nothing
        for q, truth in literals:
            if self.entails(q, facts) is (not truth):
                return None
            facts = self.refine(q, truth, facts)
        return None if self.unsatisfiable(facts) else facts

    def compared(self, p: Value) -> frozenset[Value]:
        """The values by which other predicates can decide the comparison *p*: sides, their difference, their parts."""
        sides = self.table.nodes[p].operands
        if (rewritten := self.table.difference(p)) is not None:
            sides += (rewritten[0].left,)
        bases = (self.ranges.bases(side) for side in sides if self.table.constant_of(side) is None)
        point = self.ranges.point(p)
        return frozenset((sides[0], *sides[2:], *(point or ())[:1])).union(*bases)

    def equals_constant(self, phi: Value, number: int) -> Value:
        """The predicate "the integer joined by *phi* equals the constant *number*"."""
        found = self._equalities.get((phi, number))
        if found is None:
            node = self.table.nodes[phi]
            assert type(node) is Phi
            width = width_of(self.registers.function.registers[node.register].type)
            found = self.table.compare("eq", phi, self.table.constant(number), True, width or 32)
            self._equalities[phi, number] = found
        return found

    def choice_among(self, value: Value, numbers: Iterable[int], facts: PathCondition) -> int | None:
        """The constant that *value* is, or that *facts* equate it with if it is a phi; otherwise None.

        Only the constants *numbers* are considered for a phi.
        """
        known = self.table.constant_of(value)
        if known is not None or type(self.table.node(value)) is not Phi:
            return known
        return next(
            (n for n in numbers if facts.get(self.table.representative(self.equals_constant(value, n)))), None
        )

    def refine(self, p: Value, truth: bool, facts: PathCondition) -> PathCondition:
        """The path condition *facts* extended by *p* being *truth*, and by what follows from that structurally."""
        p = self.table.representative(p)
        if facts.get(p) is truth:
            return facts
        found = facts.followed.get((p, truth))
        if found is None:
            found = facts.followed[p, truth] = self._refined(p, truth, facts)
        return found

    def _refined(self, p: Value, truth: bool, facts: PathCondition) -> PathCondition:
        bounds = None if facts.bounds is None else dict(facts.bounds)
        ranges = facts.ranges
        before, facts = facts, PathCondition(facts)
        work, seen = [(p, truth)], set[tuple[Value, bool]]()
        while work:
            q, value = work.pop()
            if (q, value) in seen:  # conjunctions may share operands
                continue
            seen.add((q, value))
            node = self.table.nodes[q]
            if type(node) is Negation:
                work.append((self.table.representative(node.operand), not value))
                continue
            if type(node) is Constant:
                continue
            if q in facts:
                bounds = ranges = None
            if bounds is not None:
                self._add_bound(q, value, bounds)
            if ranges is not None:
                ranges = self.ranges.refine(q, value, ranges)
            facts[q] = value
            work += self._left_by(q, value, before)
            self.lifetimes.loop_varying_at(q)  # registers where the fact is invalidated
            if type(node) is Logic and node.name == ("and" if value else "or"):
                work += [(self.table.representative(operand), value) for operand in node.operands]
            elif type(node) is Logic and node.name != "xor":
                # If one operand does not determine the result, the other one does.
                for one, other in (node.operands, node.operands[::-1]):
                    if self.entails(one, before) is (not value):
                        work.append((self.table.representative(other), value))
            elif type(node) is Compare:
                work += self._implied_by_select(node, value)
                above = self._nonzero_side(node, value)
                if above is not None:
                    work.append((above, False))
        facts.bounds, facts.ranges = bounds, ranges
        return facts

    def _left_by(self, p: Value, truth: bool, facts: PathCondition) -> Iterator[tuple[Value, bool]]:
        """What follows from known conjunctions and disjunctions of which *p* is an operand that does not determine them."""
        for fact, value in facts.items():
            node = self.table.nodes[fact]
            if type(node) is Logic and node.name == ("or" if value else "and"):
                operands = [self._plain(operand, value) for operand in node.operands]
                if (p, not truth) in operands:
                    yield from (each for each in operands if each != (p, not truth))

    def _plain(self, p: Value, truth: bool) -> tuple[Value, bool]:
        """The predicate and truth that *p* being *truth* means, without a negation."""
        p = self.table.representative(p)
        while type(node := self.table.nodes[p]) is Negation:
            p, truth = self.table.representative(node.operand), not truth
        return p, truth

    def _nonzero_side(self, node: Compare, truth: bool) -> Value | None:
        """The predicate ``x == 0`` if an unsigned comparison places x above another number; otherwise None."""
        below, above = (node.left, node.right) if truth else (node.right, node.left)
        number = self.table.constant_of(below)
        if node.relation != "lt" or node.signed or (not truth and (number is None or number == 0)):
            return None
        zero = self.table.representative(
            self.table.compare("eq", above, self.table.constant(0), True, node.width)
        )
        return None if type(self.table.node(zero)) is Constant else zero

    def _implied_by_select(self, node: Compare, truth: bool) -> list[tuple[Value, bool]]:
        """What follows if a constant arm of the compared select would give the opposite result: the other arm was
        selected.
        """
        select = self.table.node(node.left)
        if type(select) is not Select or self.table.constant_of(node.right) is None:
            return []
        for arm, other, condition in ((select.yes, select.no, False), (select.no, select.yes, True)):
            if self.table.constant_of(arm) is not None and self.table.constant_of(
                self.table.compare(node.relation, arm, node.right, node.signed, node.width)
            ) == (not truth):
                rest = self.table.compare(node.relation, other, node.right, node.signed, node.width)
                return [
                    (self.table.representative(select.condition), condition),
                    (self.table.representative(rest), truth),
                ]
        return []

    def surviving_sites(self, facts: PathCondition, low: int, high: int) -> PathCondition:
        """*facts* without those about values that the instructions in ``range(low, high)`` may change."""
        sites = self.lifetimes.invalidating_sites
        begin = bisect_left(sites, low)
        if begin == len(sites) or sites[begin] >= high or not facts:
            return facts
        stale = {
            p
            for i in sites[begin : bisect_left(sites, high)]
            for p in self.lifetimes.invalidated["site", i]
            if p in facts
        }
        return PathCondition((p, v) for p, v in facts.items() if p not in stale) if stale else facts

    def crossing(self, facts: PathCondition, edge: Edge) -> tuple[PathCondition, Sequence[tuple[int, bool]]]:
        """*facts* without those about values that may change where *edge* leads, and what takes their place.

        On a back edge, facts about values that the loop carries along it unchanged are kept, and other comparisons are
        restated for the next iteration: ``i + 1 != n`` becomes ``i != n``. The result of a translation is not
        translated again.
        """
        invalidated = self.lifetimes.invalidated.get(("block", edge.target))
        if invalidated is None or invalidated.isdisjoint(facts):
            return facts, ()
        source, head, *_ = edge
        back = source in self.cfg.loops.get(head, ())
        kept, restated = PathCondition(), list[tuple[int, bool]]()
        for p, truth in facts.items():
            q = p
            if p in invalidated:
                q = self._in_next_iteration(p, source, head) if back else -1
            if q == p:
                kept[p] = truth
            elif q >= 0 and p not in self._translations:
                restated.append((q, truth))
        return kept, restated

    def _in_next_iteration(self, p: Value, source: int, head: int) -> Value:
        """*p* in terms of the values after the back edge from *source* to *head*; *p* itself if none of them changes.

        -1 if it is not a comparison, or a term that changes has no such value.
        """
        q = self._translated.get((p, source, head))
        if q is None:
            q = p if self._carried(p, source, head) else self._translate(p, source, head)
            self._translated[p, source, head] = q
            if q not in (p, -1):
                self._translations.add(q)
        return q

    def _carried(self, value: Value, source: int, head: int) -> bool:
        """Whether *value* does not change on the edge from *source* to *head*: each phi of *head* in it is carried."""
        table = self.table
        for part in table.subexpressions(value, until=table.is_phi):
            node = table.node(part)
            if (
                type(node) is Phi
                and node.block == head
                and table.representative(self.registers.after_block(node.register, source)) != part
            ):
                return False
        return True

    def _translate(self, p: Value, source: int, head: int) -> Value:
        """A comparison in terms of the next iteration's values; -1 if it is not one, or a varying term has none."""
        node = self.table.nodes[p]
        if type(node) is not Compare:
            return -1
        sides = list[int]()
        for side in node.operands:
            terms, number = self.table.linear(side)
            total = self.table.constant(number)
            for term, factor in terms:
                following = self._following(term, source, head)
                if following < 0:
                    return -1
                total = self.table.add(total, self.table.times(following, factor))
            sides.append(total)
        left, right = sides
        return self.table.representative(
            self.table.compare(node.relation, left, right, node.signed, node.width)
        )

    def _following(self, term: Value, source: int, head: int) -> Value:
        """What *term* is after the back edge from *source* to *head*, in terms of the next iteration's values.

        The term is carried unchanged, a counter, or what the next value of a counter is computed from: ``i`` and
        ``i == n ? 0 : i`` are ``i - 1`` after ``i = i + 1`` and ``i = (i == n ? 0 : i) + 1``. -1 for any other term.
        """
        table = self.table
        if self._carried(term, source, head):
            return term
        for part in table.subexpressions(term, until=table.is_phi):
            node = table.node(part)
            if type(node) is Phi and node.block == head:
                terms, step = table.linear(self.registers.after_block(node.register, source))
                if terms == ((term, 1),):
                    return table.add(part, table.constant(-step))
        return -1

    def interned(self, facts: PathCondition) -> PathCondition:
        """The canonical object for an equal set of facts, which carries the conclusions cached so far."""
        return self._facts.setdefault(facts.pairs(), facts)

    def invariant(self, facts: PathCondition) -> PathCondition:
        """The facts that hold for the whole life of a thread."""
        if facts.invariant is None:
            facts.invariant = self.interned(
                PathCondition((p, v) for p, v in facts.items() if not self.lifetimes.loop_varying_at(p))
            )
        return facts.invariant
