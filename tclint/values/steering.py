"""What to make up so that a value becomes a number in one lane, or a predicate a truth (:mod:`tclint.values.trials`).

An expression is inverted from its result to something that is made up: a parameter, the index of the CTA, a word of
memory, the iterations of a loop. An answer is a proposal: another part of the expression may change with it, so that
a trial decides whether the number is reached.
"""

from __future__ import annotations

from tclint.values.integers import as_signed
from tclint.values.nodes import (
    Applied,
    Broadcast,
    Compare,
    Loaded,
    Logic,
    Masked,
    Negation,
    Node,
    ParameterRead,
    Phi,
    Select,
    SpecialRead,
    Sum,
)
from tclint.values.trials import Made, Trial

__all__ = ["equated", "forced"]

MAX_STEPS = 24
"""Operands of operands that are inverted."""
MAX_TRIED = 500
"""Inversions tried for one answer: exponentially many paths may lead to operands that expressions share."""


def forced(trial: Trial, p: int, truth: bool, lane: int) -> Made | None:
    """What to make up for *p* to be *truth* in a *lane*; None if that is not known."""
    return _Search(trial).forced(p, truth, lane, MAX_STEPS)


def equated(trial: Trial, value: int, number: int, lane: int) -> Made | None:
    """What to make up for *value* to be *number* in a *lane*, or not much more; None if that is not known."""
    return _Search(trial).equated(value, number, lane, MAX_STEPS)


class _Search:
    """The search for one answer, which asks nothing twice."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self._tried = set[tuple[int, int, int]]()
        """The questions asked: a predicate and its truth, or a value and its number, with the lane. No value is both."""

    def _is_idle(self, asked: tuple[int, int, int], steps: int) -> bool:
        """Whether a question is not worth asking: it was asked before, or too many were, or it is too deep."""
        if steps == 0 or asked in self._tried or len(self._tried) >= MAX_TRIED:
            return True
        self._tried.add(asked)
        return False

    def forced(self, p: int, truth: bool, lane: int, steps: int) -> Made | None:
        """As the function of this name, in at most so many *steps*."""
        trial = self.trial
        node = trial.values.node(p)
        if self._is_idle((p, truth, lane), steps):
            return None
        if type(node) is Negation:
            return self.forced(node.operand, not truth, lane, steps - 1)
        if type(node) is Logic and node.name != "xor":
            wrong = [q for q in node.operands if trial.lanes(q)[lane] != int(truth)]
            if (node.name == "and") is not truth:
                wrong = list(node.operands)  # one of them suffices
            found = (self.forced(q, truth, lane, steps - 1) for q in wrong)
            return next((made for made in found if made is not None), None)
        if type(node) is Phi:
            argument = _chosen(trial, node, p, lane)
            return None if argument is None else self.forced(argument, truth, lane, steps - 1)
        if type(node) is not Compare:
            return None
        left, right = (trial.lanes(side)[lane] for side in node.operands)
        before = int(node.relation == "lt") if truth else 0
        beside = int(node.relation == "eq" and not truth)
        for side, number in ((node.left, right), (node.right, left)):
            if number is not None:
                number += beside - before if side == node.left else beside + before
                made = self.equated(side, number, lane, steps - 1)
                if made is not None:
                    return made
        return None

    def equated(self, value: int, number: int, lane: int, steps: int) -> Made | None:
        """As the function of this name, in at most so many *steps*."""
        values, node = self.trial.values, self.trial.values.node(value)
        value = values.representative(value)
        if self._is_idle((value, number, lane), steps):
            return None
        if (type(node) is ParameterRead and node.size <= 4) or type(node) is SpecialRead:
            return _given(self.trial, value, node, number)
        if type(node) is Loaded:
            return _stored(self.trial, node, number, lane)
        if type(node) is Sum:
            return self._of_sum(node, number, lane, steps)
        if type(node) is Masked:
            return self.equated(node.value, number & node.mask, lane, steps - 1)
        if type(node) is Broadcast:
            return self.equated(node.source, number, node.lane, steps - 1)
        if type(node) is Select:
            truth = self.trial.lanes(node.condition)[lane]
            return None if truth is None else self.equated(node.arms[not truth], number, lane, steps - 1)
        if type(node) is Phi:
            if (made := _counted(self.trial, value, node, number, lane)) is not None:
                return made
            argument = _chosen(self.trial, node, value, lane)
            return None if argument is None else self.equated(argument, number, lane, steps - 1)
        return self._of_operation(node, number, lane, steps) if isinstance(node, Applied) else None

    def _of_sum(self, node: Sum, number: int, lane: int, steps: int) -> Made | None:
        held = [self.trial.lanes(term)[lane] for term, _ in node.terms]
        products = [None if n is None else n * f for n, (_, f) in zip(held, node.terms, strict=True)]
        for at, (term, factor) in enumerate(node.terms):
            others = [n for i, n in enumerate(products) if i != at]
            known = [n for n in others if n is not None]
            if len(known) == len(others):
                rest = number - node.constant - sum(known)
                made = self.equated(term, rest // factor, lane, steps - 1)
                if made is not None:
                    return made
        return None

    def _of_operation(self, node: Applied, number: int, lane: int, steps: int) -> Made | None:
        """:meth:`equated` for the operations that have an inverse as far as positive numbers go."""
        name = node.name.partition(".")[0]
        held = [self.trial.lanes(operand)[lane] for operand in node.operands]
        wanted: list[tuple[int, int]] = []
        first, *rest = node.operands
        second = held[1] if rest else None
        if name in ("min", "max", "cvt", "mov"):
            wanted = [(operand, number) for operand in node.operands]
        elif name == "shr" and second is not None:
            wanted = [(first, number << (second & 63))]
        elif name == "div" and second:
            wanted = [(first, number * second)]
        elif name in ("mul", "mad"):
            third = held[2] if len(held) > 2 else 0
            if third is not None:
                for operand, other in ((first, held[1]), (node.operands[1], held[0])):
                    wanted += [(operand, (number - third) // other)] if other else []
            if len(held) > 2 and None not in held[:2]:
                wanted.append((node.operands[2], number - (held[0] or 0) * (held[1] or 0)))
        elif name == "rem" and second and 0 <= number < abs(second):
            wanted = [(first, number)]
        found = (self.equated(operand, goal, lane, steps - 1) for operand, goal in wanted)
        return next((made for made in found if made is not None), None)


def _given(trial: Trial, value: int, node: Node, number: int) -> Made | None:
    """*number* for a value that the launch chooses."""
    if type(node) is SpecialRead:
        index = node.name.startswith("%ctaid") and 0 <= number < 1 << 16
        return trial.made.with_value(value, number) if index else None
    return trial.made.with_value(value, as_signed(number, 32)) if abs(number) < 1 << 31 else None


def _stored(trial: Trial, node: Loaded, number: int, lane: int) -> Made | None:
    addresses = trial.lanes(node.address)
    address = addresses[lane]
    own = len(set(addresses)) > 1 and not trial.made.own
    if address is None or own or trial.values.is_private(node):
        return None
    return trial.made.with_word(address + node.index * trial.size(node), number)


def _counted(trial: Trial, value: int, node: Phi, number: int, lane: int) -> Made | None:
    """The iteration in which a counter is *number*; None if it is not one, or starts there."""
    counter = trial.values.induction(value)
    leaving = {edge.source for edge in trial.cfg.leaving.get(node.block, ())}
    if counter is None or counter[2] is not None or trial.made.header >= 0 or len(leaving) != 1:
        return None
    start, stride, _ = counter
    first = trial.lanes(start)[lane]
    iterations = 0 if first is None or not stride else (number - first) // stride
    return trial.made.in_iteration(node.block, iterations) if iterations > 0 else None


def _chosen(trial: Trial, node: Phi, phi: int, lane: int) -> int | None:
    """The argument of a phi in a *lane*; that which enters a loop, for a header."""
    arguments = trial.values.arguments(phi)
    body = trial.cfg.loops.get(node.block, ())
    pairs = zip(trial.cfg.sources[node.block], arguments, strict=False)
    able = [a for source, a in pairs if source not in body and trial.arriving(source, node.block)[lane] != 0]
    return able[0] if len(able) == 1 else None
