"""Comparison of two skeletons: what was lost, added or moved, and what became weaker or stronger.

Aligned instructions are the same instruction. Of the others, a lost and an added one are taken for one that moved if
they are at the same source line, use the same mbarrier, or are near each other. The correspondence of mbarriers and
barriers is taken from the alignment, since compilers choose their addresses and numbers freely.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from itertools import groupby
from typing import Literal

from tclint._dataclass import dataclass
from tclint.diff.align import align
from tclint.diff.skeleton import ACCESS, SCOPES, SEMANTICS, Op, Skeleton
from tclint.isa.effects import BARRIERS, Fence, Resource

__all__ = ["STATUSES", "KernelChanges", "OpChange", "OpPair", "compare"]

Status = Literal["lost", "weakened", "changed", "moved", "repeated", "strengthened", "added"]
STATUSES: tuple[Status, ...] = ("lost", "weakened", "changed", "moved", "repeated", "strengthened", "added")
"""What may have happened to an instruction, the gravest first."""
_MAX_CANDIDATES = 8
"""Added instructions that are considered as the new position of a lost one."""
_MAX_DISTANCE, _MAX_DISTANCE_ON_A_LINE = 8, 16
"""Aligned instructions between the old and new positions of one that moved: in general, and on the same source line."""
_SAME_SOURCE = 0.5
"""The share of aligned instructions with equal source lines from which on both versions have the same source."""

_SAME_LAYOUT = 0.9
"""The share of aligned instructions with equal mbarrier addresses from which on both versions have the same layout."""

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class OpPair:
    """One instruction in the old and in the new version; one of them is None if it was added or lost."""

    old: Op | None
    new: Op | None

    @property
    def op(self) -> Op:
        found = self.old or self.new
        assert found is not None
        return found


@dataclass(frozen=True, slots=True)
class OpChange:
    """A change of one instruction, or of several in a row."""

    status: Status
    message: str
    """The difference in words; empty if the status is sufficient."""
    op_pairs: tuple[OpPair, ...]
    between: tuple[tuple[Op | None, Op | None], tuple[Op | None, Op | None]] | None = None
    """If lost, added or moved: its predecessor and successor in the old and in the new version."""

    @property
    def what(self) -> str:
        """The class, such as ``wait`` or ``fence``; several are separated by commas."""
        return ", ".join(
            dict.fromkeys(_class(at.op) for at in self.op_pairs if at.op.what or self.status != "repeated")
        )


@dataclass(slots=True)
class KernelChanges:
    """The changes of one kernel."""

    old: Skeleton
    new: Skeleton
    changes: list[OpChange] = field(default_factory=list)
    operations: dict[str, Pair] = field(default_factory=dict)
    """Name -> old and new count of operations whose count changed. Not synchronisation, but may explain its changes."""


def compare(old: Skeleton, new: Skeleton) -> KernelChanges:
    """The changes, in the order of the old kernel."""
    pairs = _pairs(old.ops, new.ops, _keys(False))
    same_source = _same_source(old.ops, new.ops, pairs)
    names = _named_alike(old.ops, new.ops, pairs)
    # Source lines distinguish equal instructions, but a compiler may assign another line. Try with and without lines,
    # and take the alignment with more unchanged instructions.
    pairs = max(
        (
            _fill(old.ops, new.ops, _pairs(old.ops, new.ops, _keys(lines, names)))
            for lines in sorted({same_source, False}, reverse=True)
        ),
        key=lambda found: _unchanged(old.ops, new.ops, found),
    )
    names = _named_alike(old.ops, new.ops, pairs)
    comparer = _Comparer(old.ops, new.ops, pairs, names, same_source)
    return KernelChanges(old, new, comparer.changes(), _counted(old.ops, new.ops))


def _unchanged(old: Sequence[Op], new: Sequence[Op], pairs: Iterable[Pair]) -> int:
    """The number of aligned synchronising instructions that are equal and at the same loop depth."""
    return sum(
        bool(old[a].what) and old[a].token == new[b].token and old[a].loops == new[b].loops for a, b in pairs
    )


def _same_source(old: Sequence[Op], new: Sequence[Op], pairs: Iterable[Pair]) -> bool:
    """Whether line numbers mean the same in both versions, that is, only the compiler differs and not the source."""
    known = [(old[a].at, new[b].at) for a, b in pairs if old[a].at is not None and new[b].at is not None]
    return sum(here == there for here, there in known) > _SAME_SOURCE * len(known)


# ---------------------------------------------------------------- alignment


class _Key:
    """The properties that must be equal for two instructions to be aligned."""

    def __init__(
        self,
        names: dict[Hashable, Hashable] | None = None,
        *,
        numbers: bool = False,
        line: bool = False,
        loops: bool = False,
    ) -> None:
        self._names, self._numbers, self._line, self._loops = names, numbers, line, loops

    def __call__(self, op: Op, new: bool) -> Hashable:
        key: list[Hashable] = [op.token]
        if self._names is not None and op.object is not None:
            key.append(op.object if new else self._names.get(op.object, ("old", op.object)))
        if self._numbers:
            key += op.numbers.items()
        if self._line and op.source is not None:
            key.append(op.at)
        if self._loops:
            key.append(op.loops)
        return tuple(key)


def _keys(same_source: bool, names: dict[Hashable, Hashable] | None = None) -> list[_Key]:
    """Keys from the most to the least specific: with line, object, numbers and loops, then with fewer of these."""
    return [
        *([_Key(names, numbers=True, line=True, loops=True)] if same_source else []),
        *([_Key(names, line=True)] if same_source else []),
        _Key(names, numbers=True, loops=True),
        _Key(names, loops=True),
        *([_Key(names)] if names is not None else []),
        _Key(numbers=True),
        _Key(),
    ]


def _pairs(old: Sequence[Op], new: Sequence[Op], keys: Iterable[_Key]) -> list[Pair]:
    """The alignment by the first key, refined between its pairs by each following key."""
    found: list[Pair] = []
    for key in keys:
        here, there = [key(op, False) for op in old], [key(op, True) for op in new]
        found = _between(here, there, found)
    return found


def _between(here: Sequence[Hashable], there: Sequence[Hashable], found: list[Pair]) -> list[Pair]:
    """The pairs in *found*, and an alignment of the equal elements between them. None equals nothing."""
    pairs = []
    a = c = 0
    for b, d in [*found, (len(here), len(there))]:
        if a < b and c < d:
            left = [i for i in range(a, b) if here[i] is not None]
            right = [j for j in range(c, d) if there[j] is not None]
            aligned = align([here[i] for i in left], [there[j] for j in right])
            pairs += [(left[x], right[y]) for x, y in aligned]
        if b < len(here) or d < len(there):
            pairs.append((b, d))
        a, c = b + 1, d + 1
    return pairs


def _fill(old: Sequence[Op], new: Sequence[Op], pairs: list[Pair]) -> list[Pair]:
    """*pairs*, and between them instructions of equal kind, which may be weaker or stronger forms of one."""
    return _between([None if op.access else op.kind for op in old], [op.kind for op in new], pairs)


def _named_alike(old: Sequence[Op], new: Sequence[Op], pairs: Iterable[Pair]) -> dict[Hashable, Hashable]:
    """Object of the old version -> its counterpart in the new one; injective.

    The counterpart is the object with which it is aligned most often; but if the layout of shared memory is unchanged,
    it is the object at the same address.
    """
    votes = Counter(
        (old[a].object, new[b].object)
        for a, b in pairs
        if old[a].object is not None and new[b].object is not None and old[a].kind == new[b].kind
    )
    names: dict[Hashable, Hashable] = {}
    taken: set[Hashable] = set()
    for (here, there), _ in sorted(votes.items(), key=lambda item: -item[1]):
        if here not in names and there not in taken:
            names[here] = there
            taken.add(there)
    same = sum(number for (here, there), number in votes.items() if here == there)
    if same >= _SAME_LAYOUT * sum(number for pair, number in votes.items() if names.get(pair[0]) == pair[1]):
        every = {op.object for op in (*old, *new) if op.object is not None}
        return {name: name for name in every}
    return names


# ---------------------------------------------------------------- changes


class _Comparer:
    def __init__(
        self,
        old: Sequence[Op],
        new: Sequence[Op],
        pairs: list[Pair],
        names: dict[Hashable, Hashable],
        same_source: bool,
    ) -> None:
        self._same_source = same_source
        # Accesses are needed only for the alignment.
        self._old = [op for op in old if not op.access]
        self._new = [op for op in new if not op.access]
        here = {id(op): i for i, op in enumerate(self._old)}
        there = {id(op): i for i, op in enumerate(self._new)}
        self._pairs = [
            (here[id(old[a])], there[id(new[b])]) for a, b in pairs if not (old[a].access or new[b].access)
        ]
        self._names = names
        self._owners = {name: owner for owner, name in names.items()}

    def changes(self) -> list[OpChange]:
        """All changes. An instruction with a class is in at most one of them, or in a move in addition."""
        lost = _missing(len(self._old), {a for a, _ in self._pairs})
        added = _missing(len(self._new), {b for _, b in self._pairs})
        found: list[tuple[Pair, OpChange]] = []
        lost = self._repeats(self._old, lost, found, old=True)
        added = self._repeats(self._new, added, found, old=False)
        moved = self._moved(lost, added)
        moved_from, moved_to = {a for a, _ in moved}, {b for _, b in moved}
        for a, b in (*self._pairs, *moved):
            here, there = self._old[a], self._new[b]
            status, message = self._facets(here, there)
            if status is not None:
                found.append(((a, b), OpChange(status, message, (OpPair(here, there),))))
        for a, b in moved:
            here, there = self._old[a], self._new[b]
            message = "; ".join(filter(None, (self._nesting(here, there), _lateness(here, there))))
            change = OpChange("moved", message, (OpPair(self._old[a], self._new[b]),), self._around(a, b))
            found.append(((a, b), change))
        for a, b in self._pairs:
            if message := self._nesting(self._old[a], self._new[b]):
                found.append(((a, b), OpChange("moved", message, (OpPair(self._old[a], self._new[b]),))))
        for a in (a for run in lost for a in run if a not in moved_from and self._old[a].what):
            pair = OpPair(self._old[a], None)
            found.append((self._rank(a, None), OpChange("lost", "", (pair,), self._around(a, None))))
        for b in (b for run in added for b in run if b not in moved_to and self._new[b].what):
            pair = OpPair(None, self._new[b])
            found.append((self._rank(None, b), OpChange("added", "", (pair,), self._around(None, b))))
        found += self._late([change for _, change in found])
        found.sort(key=lambda item: item[0])
        return list(_grouped([change for _, change in found]))

    def _rank(self, a: int | None, b: int | None) -> Pair:
        """The sort key of a change, which puts it after the last aligned instruction before it."""
        if a is not None:
            return a, -1
        assert b is not None
        at = self._aligned(b, 1)
        return (self._pairs[at - 1][0] if at else -1), b

    def _around(
        self, a: int | None, b: int | None
    ) -> tuple[tuple[Op | None, Op | None], tuple[Op | None, Op | None]]:
        """The predecessor and successor, in the old and in the new version.

        In the version without the instruction, they are the counterparts of its nearest aligned neighbours.
        """
        here, there = (
            self._neighbours(b, 1) if a is None else (a - 1, a + 1),
            (self._neighbours(a, 0) if b is None else (b - 1, b + 1)),
        )
        return (
            (_at(self._old, here[0]), _at(self._old, here[1])),
            (_at(self._new, there[0]), _at(self._new, there[1])),
        )

    def _neighbours(self, index: int | None, side: int) -> Pair:
        """The counterparts of the aligned instructions before and after one of *side*; -1 for none."""
        assert index is not None
        at = self._aligned(index, side)
        before = self._pairs[at - 1][1 - side] if at else -1
        after = self._pairs[at][1 - side] if at < len(self._pairs) else -1
        return before, after

    def _repeats(
        self, ops: Sequence[Op], runs: list[list[int]], found: list[tuple[Pair, OpChange]], old: bool
    ) -> list[list[int]]:
        """*runs* without those that repeat an adjacent block including its operations, which are added to *found*."""
        tokens = [op.token for op in ops]
        left = []
        for run in runs:
            first, length = run[0], len(run)
            period = _period(tokens[first : first + length])
            block = ops[first : first + period]
            before = _repetitions(tokens, first, period, -1)
            after = _repetitions(tokens, first + length - period, period, 1)
            if not (any(op.operation for op in block) and any(op.what for op in block) and before + after):
                left.append(run)
                continue
            here = length // period + before + after
            there = before + after
            was, now = (here, there) if old else (there, here)
            message = f"a block of {len(block)} instructions appears {_times(now)} instead of {_times(was)}"
            pairs = tuple(
                OpPair(op, None) if old else OpPair(None, op) for op in block if op.what or op.operation
            )
            rank = self._rank(first, None) if old else self._rank(None, first)
            found.append((rank, OpChange("repeated", message, pairs)))
        return left

    def _moved(self, lost: list[list[int]], added: list[list[int]]) -> list[Pair]:
        """Pairs of a lost and an added instruction that are one that moved."""
        there: dict[Hashable, list[int]] = {}
        for b in (b for run in added for b in run if self._new[b].what):
            there.setdefault(self._new[b].token, []).append(b)
        moved = []
        for a in (a for run in lost for a in run if self._old[a].what):
            candidates = there.get(self._old[a].token, [])
            best = min(candidates[:_MAX_CANDIDATES], key=lambda b: self._dissimilarity(a, b), default=None)
            if best is not None and self._dissimilarity(a, best)[0] < 2:
                candidates.remove(best)
                moved.append((a, best))
        return moved

    def _dissimilarity(self, a: int, b: int) -> tuple[int, int]:
        """(score, distance), to be minimised: with a score of 2 or more, the two are not one instruction that moved."""
        here, there = self._old[a], self._new[b]
        distance = abs(self._aligned(a, 0) - self._aligned(b, 1))
        if here.object is not None and there.object is not None and self._conflict(here, there):
            return 2, distance
        if here.source is not None and there.source is not None:
            if here.at == there.at:
                return 2 * (distance > _MAX_DISTANCE_ON_A_LINE), distance
            if self._same_source:
                return 2 * (distance > 2), distance
        if here.object is not None and self._names.get(here.object) == there.object:
            return 0, distance
        return 1 + (distance > _MAX_DISTANCE), distance

    def _aligned(self, index: int, side: int) -> int:
        """The number of aligned instructions before index *index* of *side*."""
        return bisect_left(self._pairs, index, key=lambda pair: pair[side])

    def _conflict(self, here: Op, there: Op) -> bool:
        """Whether the two use different mbarriers or barriers, and both of these have a counterpart."""
        name, owner = self._names.get(here.object), self._owners.get(there.object)
        return name is not None and owner is not None and name != there.object and owner != here.object

    def _facets(self, here: Op, there: Op) -> tuple[Status | None, str]:
        """The status and description of the difference in the instruction itself; (None, "") if there is none."""
        found = list(_differences(here, there))
        if here.object is not None and there.object is not None and self._conflict(here, there):
            found.append((0, "another mbarrier" if "mbarrier" in here.text else "another barrier"))
        if not found:
            return None, ""
        signs = {sign for sign, _ in found}
        status: Status = "weakened" if signs == {-1} else "strengthened" if signs == {1} else "changed"
        return status, "; ".join(words for _, words in found)

    def _nesting(self, here: Op, there: Op) -> str:
        if not here.what or here.loops == there.loops:
            return ""
        return f"in {_loops(there.loops)} instead of {_loops(here.loops)}"

    def _late(self, reported: Iterable[OpChange]) -> Iterator[tuple[Pair, OpChange]]:
        """The waits that moved after, or before, a read of a register that they wait for.

        Groups of which a *reported* change concerns a wait or commit are left out, since it may be the cause.
        """
        changed = {
            at.op.group
            for change in reported
            for at in change.op_pairs
            if at.op.effects.waits is not None or at.op.effects.commits is not None
        }
        for a, b in self._pairs:
            here, there = self._old[a], self._new[b]
            if (message := _lateness(here, there)) and here.group not in changed:
                yield (a, b), OpChange("moved", message, (OpPair(here, there),))


def _lateness(here: Op, there: Op) -> str:
    """Whether a wait moved after, or before, a read of a register that it waits for, in words; empty if it did neither."""
    order = "after" if there.late else "no longer after"
    return f"{order} a read of a register that it waits for" if here.late != there.late else ""


def _differences(here: Op, there: Op) -> Iterator[tuple[int, str]]:
    """(sign, description) of each difference of two instructions of a kind: -1 weaker, 1 stronger, 0 neither."""
    for order, a, b in ((SEMANTICS, here.semantics, there.semantics), (SCOPES, here.scope, there.scope)):
        if a != b:
            rank, other = order.get(a, -1), order.get(b, -1)
            words = f".{b} instead of .{a}" if a and b else f"without .{a}" if a else f"with .{b}"
            yield (other > rank) - (other < rank), words
    if here.retried and not there.retried:
        yield -1, "no longer repeated until the phase completes"
    if there.retried and not here.retried:
        yield 1, "now repeated until the phase completes"
    if here.guarded and not there.guarded and there.controls <= here.controls:
        yield 0, "no longer conditional"
    if there.guarded and not here.guarded and there.controls >= here.controls:
        yield 0, "now conditional"
    yield from _modifiers(here, there)
    for role, number in here.numbers.items():
        now = there.numbers.get(role)
        if now is not None and number != now:
            yield _number(here, role, number, now)


def _modifiers(here: Op, there: Op) -> Iterator[tuple[int, str]]:
    removed, added = here.words - there.words, there.words - here.words
    if not removed and not added:
        return
    if "lanes" in removed | added and here.effects.synchronises is not None:
        if "lanes" in added:
            yield -1, "synchronises the lanes of a warp instead of all warps"
        else:
            yield 1, "synchronises all warps instead of the lanes of a warp"
        return
    spaces = {word for word in removed | added if word.startswith(("shared", "global"))}
    if here.effects.fence is Fence.PROXY and spaces == removed | added and not (removed and added):
        yield (-1, f"only for .{_all(added)}") if added else (1, f"no longer only for .{_all(removed)}")
        return
    if removed | added == {"read"}:
        if added:
            yield -1, "waits until the sources are read, not until the writes complete"
        else:
            yield 1, "waits until the writes complete, not only until the sources are read"
        return
    words = [f".{_all(added)} instead of .{_all(removed)}"] if removed and added else []
    yield 0, (words or [f"without .{_all(removed)}" if removed else f"with .{_all(added)}"])[0]


def _number(here: Op, role: str, a: int, b: int) -> tuple[int, str]:
    fewer = 1 if b > a else -1
    if role == "depth":
        return -fewer, f"leaves {_count(b, 'group')} pending instead of {a}"
    if role == "mask":
        sign = 0
        if here.effects.begins is None and here.effects.commits is None:  # their masks are CTA masks
            sign = -1 if a & b == b else 1 if a & b == a else 0
        return sign, f"mask {b:#x} instead of {a:#x}"
    if role == "count" and here.effects.barrier in BARRIERS:
        return fewer, f"for {b} threads instead of {a}"
    if role == "count" and here.effects.resource is Resource.MBARRIER_INIT:
        return fewer, f"expects {_count(b, 'arrival')} per phase instead of {a}"
    words = {"tx": "bytes", "count": "count", "parity": "parity", "columns": "columns"}[role]
    return 0, f"{words} {b} instead of {a}"


def _grouped(changes: list[OpChange]) -> Iterator[OpChange]:
    """*changes* with equal consecutive ones merged: a move of several instructions, or one instruction many times."""

    def alike(change: OpChange) -> Hashable:
        op = change.op_pairs[0].op
        if change.status == "repeated":
            return id(change)
        if change.status == "moved" and change.between is None:
            return change.status, change.message
        return change.status, change.message, op.token, op.what, op.at

    for _, run in groupby(changes, alike):
        first, *others = run
        yield replace(first, op_pairs=(*first.op_pairs, *(p for other in others for p in other.op_pairs)))


def _missing(number: int, aligned: set[int]) -> list[list[int]]:
    """The runs of indices below *number* that are not aligned."""
    runs: list[list[int]] = []
    for i in range(number):
        if i in aligned:
            continue
        if runs and runs[-1][-1] == i - 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


def _period(tokens: Sequence[Hashable]) -> int:
    """The length of the shortest block whose repetition yields *tokens* (Knuth, Morris and Pratt 1977)."""
    border = [0] * len(tokens)
    k = 0
    for i in range(1, len(tokens)):
        while k and tokens[i] != tokens[k]:
            k = border[k - 1]
        k += tokens[i] == tokens[k]
        border[i] = k
    period = len(tokens) - border[-1]
    return period if len(tokens) % period == 0 else len(tokens)


def _repetitions(tokens: Sequence[Hashable], at: int, period: int, direction: int) -> int:
    """How often the block at *at* is repeated directly before (-1) or after (1) it."""
    number = 0
    while True:
        begin = at + direction * period
        if (
            begin < 0
            or begin + period > len(tokens)
            or tokens[begin : begin + period] != tokens[at : at + period]
        ):
            return number
        at, number = begin, number + 1


def _counted(old: Sequence[Op], new: Sequence[Op]) -> dict[str, Pair]:
    here, there = (Counter(op.group for op in ops if op.operation) for ops in (old, new))
    return {name: (here[name], there[name]) for name in sorted({*here, *there}) if here[name] != there[name]}


def _at(ops: Sequence[Op], index: int) -> Op | None:
    return ops[index] if 0 <= index < len(ops) else None


def _class(op: Op) -> str:
    return op.what or (
        "operation" if op.operation else ACCESS if op.kind.startswith("ordered") else "exchange"
    )


def _loops(number: int) -> str:
    return "no loop" if number == 0 else "a loop" if number == 1 else f"{number} loops"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _all(words: Iterable[str]) -> str:
    return ".".join(sorted(words))
