"""Bounds of addresses by the comparisons that hold where they are accessed.

A thread that executes an access has taken the branches that lead to it. Where such a branch compares what the index of the
thread decides with a value that all threads share, ``tid < s``, the address of the thread is bounded by that value: the words
of the threads below ``s`` end where the word at ``s`` begins, whatever ``s`` is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tclint._named_tuple import NamedTuple
from tclint.dataflow.kernel import Kernel
from tclint.values import thread_masks as T
from tclint.values.addresses import AddressForm
from tclint.verdicts.definitions import Definitions

__all__ = ["Guards"]


class _Fact(NamedTuple):
    """What a comparison says in the threads that execute an access: ``compared <= bound + plus``, or ``>=``."""

    compared: int
    bound: int
    """A value that all threads share."""
    plus: int
    below: bool


class Guards:
    """The comparisons that hold at the instructions of one kernel; *is_index* says what the thread index decides."""

    def __init__(self, model: Kernel, definitions: Definitions, is_index: Callable[[int], bool]) -> None:
        self.model, self.values, self.cfg = model, model.values, model.cfg
        self.definitions, self.is_index = definitions, is_index
        self._known: dict[int, list[_Fact]] = {}
        special = self.values.special
        self._within = [_Fact(special(f"%tid.{axis}"), special(f"%ntid.{axis}"), -1, True) for axis in "xyz"]
        """The index of a thread is less than the number of them."""

    def ends(
        self, site: int, form: AddressForm, size: int, threads: T.Threads, is_shared: Callable[[int], bool]
    ) -> tuple[list[int], list[int]]:
        """Values before which no thread of *threads* begins an access of *site*, and at which all have ended theirs.

        The access is one of *size* bytes at *form*, at one place for each thread.
        """
        extremes = self.values.addresses.extremes(form.index, threads)
        if form.stride or form.count != 1 or extremes is None:
            return [], []
        at = self.values.add(form.base, self.values.constant(form.offset))
        begins = [self._plus(at, extremes[0])]
        ends = [self._plus(at, extremes[1] + size)]
        for fact in self._facts(site):
            scaled = self._scaled(form.index, fact.compared)
            if scaled is None or not is_shared(fact.bound):
                continue
            factor, constant = scaled
            limit = self.values.add(at, self.values.times(fact.bound, factor))
            limit = self._plus(limit, factor * fact.plus + constant)
            if fact.below == (factor > 0):
                ends.append(self._plus(limit, size))
            else:
                begins.append(limit)
        return begins, ends

    def _plus(self, value: int, number: int) -> int:
        return self.values.add(value, self.values.constant(number))

    def _scaled(self, index: int, compared: int) -> tuple[int, int] | None:
        """A factor other than 0 and a constant that make an *index* of what is *compared*; None if there are none."""
        (terms, _), (its, _) = self.values.linear(index), self.values.linear(compared)
        if not terms or len(terms) != len(its):
            return None
        factor, rest = divmod(terms[0][1], its[0][1])
        if rest or not factor:
            return None
        difference = self.values.add(index, self.values.times(compared, -factor))
        constant = self.values.constant_of(difference)
        return None if constant is None else (factor, constant)

    # ------------------------------------------------------------ comparisons

    def _facts(self, site: int) -> list[_Fact]:
        if site not in self._known:
            found = (self._fact(*each) for each in self._predicates(site))
            self._known[site] = [*self._within, *(fact for fact in found if fact is not None)]
        return self._known[site]

    def _predicates(self, site: int) -> Iterator[tuple[int, bool]]:
        """The predicates that hold where an instruction executes, each with its truth.

        A branch decides them whose edge is the only one into a block that dominates the instruction. A phi in one of them has
        not been entered again since: its block dominates the branch, so each path from there to the instruction would take
        the edge again.
        """
        instruction = self.model.function.instructions[site]
        if instruction.guard >= 0 and self.definitions.dominate(instruction.guard, site):
            yield self.values.before(instruction.guard, site), not instruction.negated
        here = self.cfg.block_of[site]
        for block in self.cfg.rank:
            for edge in self.cfg.successors[block]:
                only = len(self.cfg.predecessors[edge.target]) == 1
                if edge.predicate >= 0 and only and self.cfg.dominates(edge.target, here):
                    last = self.cfg.blocks[block].end - 1
                    if self.definitions.dominate(edge.predicate, last):
                        yield self.values.before(edge.predicate, last), edge.value

    def _fact(self, predicate: int, truth: bool) -> _Fact | None:
        """What a predicate says of the thread index and a bound; None if it says nothing."""
        node, truth = self.values.comparison(predicate, truth)
        if node is None or node.relation != "lt":
            return None
        left, right = node.operands
        if not node.signed and not (self._positive(left) and self._positive(right)):
            return None
        if self.is_index(left):  # left < right, or left >= right
            return _Fact(left, right, -1 if truth else 0, truth)
        if self.is_index(right):  # right > left, or right <= left
            return _Fact(right, left, 1 if truth else 0, not truth)
        return None

    def _positive(self, value: int) -> bool:
        """Whether a value is the same number if it is read as a signed and as an unsigned one."""
        bounds = self.values.interval(value)
        return bounds is not None and bounds[0] >= 0
