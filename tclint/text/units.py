"""The parts that a module can do without, and its text without some of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator

from tclint._dataclass import dataclass
from tclint.findings.edits import joined
from tclint.findings.finding import Edit
from tclint.findings.spans import Span
from tclint.syntax import Node, Tree
from tclint.text.names import Declaration, resolved

__all__ = ["Unit", "Units"]

_KEPT = frozenset({"version_directive", "target_directive", "comment", "preprocessor"})
"""What is not a part: text without the first two is not a module, and comments go together (see ``normal``)."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a module: a function, variable, statement, scope, label, parameter or directive of a function."""

    start: int
    end: int
    kind: str
    """The type of its node."""
    parent: int
    """The unit around it; -1 if there is none."""
    list: int = -1
    """The start of the list of parameters that it is in; -1 for what is not a parameter."""


class Units:
    """The units of a text, numbered in its order, outer ones first.

    A unit that declares what another one uses is not removed as long as that stays.
    """

    def __init__(self, tree: Tree, data: bytes) -> None:
        self.data = data
        self.units = list(_units(tree.root_node))
        self.declarations, self.uses, _ = resolved(tree, data)
        self._starts = [unit.start for unit in self.units]
        self._needs: list[set[int]] = [set() for _ in self.units]
        declaring = {declared: self._declaring(declared) for declared in self.declarations}
        for use in self.uses:
            user, owner = self.around(use.start), declaring[use.declaration]
            if user >= 0 <= owner != user:
                self._needs[user].add(owner)

    def around(self, offset: int) -> int:
        """The innermost unit around an offset; -1 if there is none."""
        at = bisect_right(self._starts, offset) - 1
        while at >= 0 and self.units[at].end <= offset:
            at = self.units[at].parent
        return at

    def _declaring(self, declared: Declaration) -> int:
        """The unit that declares a name; -1 if there is none, as for a parameter of a prototype."""
        at = bisect_left(self._starts, declared.statement)
        return at if at < len(self.units) and self._starts[at] == declared.statement else -1

    def top(self) -> list[frozenset[int]]:
        """The units of the module, each alone."""
        return [frozenset({i}) for i, unit in enumerate(self.units) if unit.parent < 0]

    def blocks(self) -> list[frozenset[int]]:
        """The statements from each label or brace to the next one."""
        found: list[list[int]] = []
        before = None
        for i, unit in enumerate(self.units):
            if unit.parent < 0 or unit.list >= 0:
                continue
            if unit.kind in ("label", "block") or unit.parent != before:
                found.append([])
            before = unit.parent
            found[-1].append(i)
        return [frozenset(block) for block in found]

    def each(self) -> list[frozenset[int]]:
        """Every unit alone."""
        return [frozenset({i}) for i in range(len(self.units))]

    def without(self, removed: Collection[int]) -> bytes:
        """The text without some units and what is in them, except for what the others need."""
        return joined(self.data, self._edits(self._gone(removed)))

    def _gone(self, removed: Collection[int]) -> list[bool]:
        """For each unit, whether it goes."""
        gone: list[bool] = []
        for i, unit in enumerate(self.units):
            gone.append(i in removed or (unit.parent >= 0 and gone[unit.parent]))
        todo = [i for i, out in enumerate(gone) if not out]
        while todo:
            i = todo.pop()
            for needed in (*self._needs[i], self.units[i].parent):
                if needed >= 0 and gone[needed]:
                    gone[needed] = False
                    todo.append(needed)
        return gone

    def _edits(self, gone: list[bool]) -> Iterator[Edit]:
        lists: defaultdict[int, list[int]] = defaultdict(list)
        for i, unit in enumerate(self.units):
            if unit.list >= 0 and not (unit.parent >= 0 and gone[unit.parent]):
                lists[unit.list].append(i)
            elif gone[i] and unit.list < 0 and not (unit.parent >= 0 and gone[unit.parent]):
                yield Edit(Span(unit.start, unit.end), "")
        for members in lists.values():
            if any(gone[i] for i in members):
                kept = (self.data[self.units[i].start : self.units[i].end] for i in members if not gone[i])
                span = Span(self.units[members[0]].start, self.units[members[-1]].end)
                yield Edit(span, b", ".join(kept).decode())


def _units(root: Node) -> Iterator[Unit]:
    """The units below *root*, in the order of the text."""
    count = 0
    todo: list[tuple[Node, int, int]] = [
        (root, -1, -2)
    ]  # node, unit around it, list that it is in; -2: not a unit
    while todo:
        node, parent, members = todo.pop()
        if members != -2:
            yield Unit(node.start_byte, node.end_byte, node.type, parent, members)
            parent, count = count, count + 1
        kind = node.type
        inner: list[tuple[Node, int, int]] = []
        for child in node.named_children:
            within = child.type in ("block", "parameter_list") and kind == "function"
            if kind in ("module", "block"):
                inner.append((child, parent, -2 if child.type in _KEPT else -1))
            elif within or child.type == "performance_directive":
                inner.append((child, parent, -2 if within else -1))
            elif kind == "parameter_list" and child.type == "parameter":
                inner.append((child, parent, node.start_byte))
        todo += reversed(inner)
