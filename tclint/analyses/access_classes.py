"""Classes of accesses to memory that a question cannot distinguish, so that one access answers for its class.

An analysis changes its state at certain instructions, here called *events*: a fence, a wait, a commit. Two accesses are
equivalent with respect to a set of events if they are in one basic block, no event intervenes, and the same value
guards both with the same sense. Then, in every iteration and on every path,

- the same threads execute both, since control enters and leaves a block as a whole;
- the state before the one is the state before the other, apart from the facts that members of the class add; and
- an event follows, or precedes, either both or neither of them.

Whether an access is ordered, pending or fenced is therefore a property of its class: a state needs one fact for a
class, and a path search one start or end. The first member is the representative. The relation does not cover which
bytes a member touches, or whether it reads or writes: questions about those go through the members.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from tclint.dataflow.kernel import Kernel

__all__ = ["AccessClass", "AccessClasses"]

AccessClass = tuple[int, int, int, bool]
"""The number of events that precede the accesses in the text, their block, and their guard
(:meth:`Kernel.guarded_block`)."""


class AccessClasses:
    """The classes of the accesses of one kernel with respect to *events*.

    An event that is itself an access is in the class that it closes: the state before it is that of the accesses
    before.
    """

    def __init__(self, model: Kernel, events: Iterable[int]) -> None:
        self._model = model
        self._events = sorted(events)

    def of(self, site: int) -> AccessClass:
        """The class of the access at *site*."""
        return bisect_left(self._events, site), *self._model.guarded_block(site)

    def partition(self, sites: Iterable[int]) -> dict[int, list[int]]:
        """The classes of the accesses at *sites*, keyed by their representatives, all in program order."""
        classes: dict[AccessClass, list[int]] = {}
        for site in sorted(sites):
            classes.setdefault(self.of(site), []).append(site)
        return {members[0]: members for members in classes.values()}
