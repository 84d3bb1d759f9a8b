"""Answers about the instructions of a function that the next state of an edited text takes over."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from tclint.ir.nodes import FormUse, Function, Instruction

__all__ = ["KeptAnswers"]

T = TypeVar("T")


class KeptAnswers(Generic[T]):
    """The answers to a *question* about single instructions, each with the number of the instruction.

    They may depend on *facts* and on the operands of the instructions of one use, but not on where these are. After an
    edit most uses have the same instructions as before (:mod:`tclint.ir.rebuild`), and keep their answers if the facts
    are the same. Only a function of an edited text keeps any (:attr:`Function.answers`), and only those of its last state.
    """

    def __init__(self, function: Function, question: str, facts: object = None) -> None:
        self._instructions = function.instructions
        self._earlier: dict[FormUse, tuple[list[Instruction], list[tuple[int, T]]]] = {}
        self._kept: dict[FormUse, tuple[list[Instruction], list[tuple[int, T]]]] | None = None
        if function.answers is not None:
            then, earlier = function.answers.get(question, (facts, {}))
            self._earlier, self._kept = earlier if then == facts else {}, {}
            function.answers[question] = facts, self._kept

    def about(
        self, use: FormUse, ask: Callable[..., Iterable[tuple[int, T]]], *arguments: object
    ) -> Iterable[tuple[int, T]]:
        """The answers about the instructions of *use*; *ask* is called with the *arguments* if they are not known."""
        if self._kept is None:
            return ask(*arguments)
        instructions = [*map(self._instructions.__getitem__, use.sites)]
        known = self._earlier.get(use)
        if known is None or known[0] != instructions:
            known = instructions, [(bisect_left(use.sites, site), answer) for site, answer in ask(*arguments)]
        self._kept[use] = known
        return [(use.sites[at], answer) for at, answer in known[1]]
