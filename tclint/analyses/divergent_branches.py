"""The conditions of a kernel at which lanes of a warp can part, in words."""

from __future__ import annotations

from tclint.analyses.execution import Condition
from tclint.analyses.pretty import ValuePrinter
from tclint.dataflow.kernel import Kernel
from tclint.values import thread_masks as T
from tclint.values.divergence import MAX_QUESTIONS, Divergence, Split

__all__ = ["DivergentBranches"]

_QUESTION = "lanes that part at a branch"
"""What the ledger calls the question."""
_MAX_NAME = 400
"""Characters of the name of a parameter, which contains that of its kernel."""


class DivergentBranches(Divergence):
    """:class:`~tclint.values.divergence.Divergence` of the conditions of one kernel."""

    def __init__(self, model: Kernel) -> None:
        super().__init__(model.values, model.cfg)
        self._words = ValuePrinter(model.values)
        self._ledger = model.ledger

    def gave_up(self, site: int) -> None:
        self._ledger.give_up(_QUESTION, site, f"more than {MAX_QUESTIONS} branches with what depends on them")

    def parting(self, condition: Condition, site: int, threads: int) -> Split | None:
        """How lanes of a warp among *threads* part at *condition*, so that only some execute *site*; None if unknown."""
        if condition.edge is None:
            return self.at_guard(site, threads)
        return self.at_branch(condition.edge, site, threads)

    def threads(self, taken: int) -> str:
        """Threads of a split in words."""
        return T.describe(taken, self.values.threads)

    def condition(self, split: Split, of: Condition) -> str:
        """When lanes part as in *split*, in words that follow *if*; "" if they do in any launch that is large enough."""
        if split.own:
            return "what the lanes of a warp load differs"
        bounds = split.bounds
        if not bounds and split.rows:
            return " and ".join(f"{name} is {number}" for name, number in split.rows)
        if not bounds:
            return "" if split.of_any_launch else "a word that all lanes load is between their indices"
        names = [self._words.text(value, _MAX_NAME) or "a parameter" for value, _ in bounds]
        if len(bounds) == 1 and of.edge is not None and split.unless_multiple(of.edge):
            return f"{names[0]} is not a multiple of 32"
        return " and ".join(f"{name} is {number}" for name, (_, number) in zip(names, bounds, strict=True))
