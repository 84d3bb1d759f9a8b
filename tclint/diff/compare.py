"""Two skeletons compared: what was lost, added, moved, and what became weaker or stronger.

What is aligned is the same instruction. Of the rest, a lost and an added one at one source line, or at one mbarrier, or
near each other, is one that moved. Which mbarrier or barrier is which is taken from the alignment, since their addresses
and numbers change freely.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal

from tclint.diff.align import align
from tclint.diff.skeleton import ACCESS, SCOPES, SEMANTICS, Op, Skeleton

__all__ = ["STATUSES", "Change", "Comparison", "Place", "compare"]

Status = Literal["lost", "weakened", "changed", "moved", "repeated", "strengthened", "added"]
STATUSES: tuple[Status, ...] = ("lost", "weakened", "changed", "moved", "repeated", "strengthened", "added")
"""What may have become of an instruction, the gravest first."""
_NEAR, _NEAR_ON_A_LINE = 8, 16
"""Aligned instructions between two places of one that moved, at most: in general, and when its source line is the same."""
_SAME_SOURCE = 0.5
"""The part of the aligned instructions that have the same source line in both when the source is the same."""

_SAME_LAYOUT = 0.9
"""The part of the aligned instructions about mbarriers that agree on their places when these are the same."""

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Place:
    """One instruction as it was and as it is; one of the two is None where it was lost or added."""

    old: Op | None
    new: Op | None

    @property
    def op(self) -> Op:
        found = self.old or self.new
        assert found is not None
        return found


@dataclass(frozen=True, slots=True)
class Change:
    """Something that became of one instruction, or of several that follow each other."""

    status: Status
    message: str
    """What is different, in words; empty where the status says all."""
    places: tuple[Place, ...]
    between: tuple[tuple[Op | None, Op | None], tuple[Op | None, Op | None]] | None = None
    """For what was lost, added or moved: what stands before and behind it, in the old version and in the new."""

    @property
    def what(self) -> str:
        """The class: ``wait``, ``fence``; of several the words for all."""
        return ", ".join(
            dict.fromkeys(_class(at.op) for at in self.places if at.op.what or self.status != "repeated")
        )


@dataclass(slots=True)
class Comparison:
    """What became of one kernel."""

    old: Skeleton
    new: Skeleton
    changes: list[Change] = field(default_factory=list)
    operations: dict[str, Pair] = field(default_factory=dict)
    """Instructions whose number is another one, with both: they are not synchronisation, but may be why it changed."""


def compare(old: Skeleton, new: Skeleton) -> Comparison:
    """The changes, in the order of the old kernel."""
    pairs = _pairs(old.ops, new.ops, _keys(False))
    same_source = _same_source(old.ops, new.ops, pairs)
    names = _named_alike(old.ops, new.ops, pairs)
    # Lines tell equal instructions apart, but a compiler gives some of them another one: what leaves fewer changes counts.
    pairs = max(
        (
            _fill(old.ops, new.ops, _pairs(old.ops, new.ops, _keys(lines, names)))
            for lines in sorted({same_source, False}, reverse=True)
        ),
        key=lambda found: _unchanged(old.ops, new.ops, found),
    )
    names = _named_alike(old.ops, new.ops, pairs)
    made = _Comparer(old.ops, new.ops, pairs, names, same_source)
    return Comparison(old, new, made.changes(), _counted(old.ops, new.ops))


def _unchanged(old: Sequence[Op], new: Sequence[Op], pairs: Iterable[Pair]) -> int:
    """How many instructions are what they were, at the same depth of loops."""
    return sum(
        bool(old[a].what) and old[a].token == new[b].token and old[a].loops == new[b].loops for a, b in pairs
    )


def _same_source(old: Sequence[Op], new: Sequence[Op], pairs: Iterable[Pair]) -> bool:
    """Whether a line number says the same in both versions: the compiler is another one, and not the source."""
    known = [(old[a].at, new[b].at) for a, b in pairs if old[a].at is not None and new[b].at is not None]
    return sum(here == there for here, there in known) > _SAME_SOURCE * len(known)


# ---------------------------------------------------------------- alignment


class _Key:
    """What must be equal for two instructions to be aligned."""

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
    """The most telling first: with the line, the objects, the numbers and the loops, then less and less of it."""
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
    """What is aligned by the first key, and between that by the next ones."""
    found: list[Pair] = []
    for key in keys:
        here, there = [key(op, False) for op in old], [key(op, True) for op in new]
        found = _between(here, there, found)
    return found


def _between(here: Sequence[Hashable], there: Sequence[Hashable], found: list[Pair]) -> list[Pair]:
    """The pairs of *found*, and between them what is equal; None is equal to nothing."""
    made = []
    a = c = 0
    for b, d in [*found, (len(here), len(there))]:
        if a < b and c < d:
            left = [i for i in range(a, b) if here[i] is not None]
            right = [j for j in range(c, d) if there[j] is not None]
            aligned = align([here[i] for i in left], [there[j] for j in right])
            made += [(left[x], right[y]) for x, y in aligned]
        if b < len(here) or d < len(there):
            made.append((b, d))
        a, c = b + 1, d + 1
    return made


def _fill(old: Sequence[Op], new: Sequence[Op], pairs: list[Pair]) -> list[Pair]:
    """The pairs, and what is left between them of one kind: the same instruction, weaker or stronger."""
    return _between([None if op.access else op.kind for op in old], [op.kind for op in new], pairs)


def _named_alike(old: Sequence[Op], new: Sequence[Op], pairs: Iterable[Pair]) -> dict[Hashable, Hashable]:
    """For each object of the old version the one that takes its place; each is taken once.

    That is the one with which it is aligned most often; but where the layout of shared memory stayed what it was, the one
    at the same place.
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
        # The accesses have done their work.
        self._old = [op for op in old if not op.access]
        self._new = [op for op in new if not op.access]
        here = {id(op): i for i, op in enumerate(self._old)}
        there = {id(op): i for i, op in enumerate(self._new)}
        self._pairs = [
            (here[id(old[a])], there[id(new[b])]) for a, b in pairs if not (old[a].access or new[b].access)
        ]
        self._names = names
        self._owners = {name: owner for owner, name in names.items()}

    def changes(self) -> list[Change]:
        """All of them, each instruction of which the class is known in one at most, or in a move as well."""
        lost = _missing(len(self._old), {a for a, _ in self._pairs})
        added = _missing(len(self._new), {b for _, b in self._pairs})
        found: list[tuple[Pair, Change]] = []
        lost = self._repeats(self._old, lost, found, old=True)
        added = self._repeats(self._new, added, found, old=False)
        moved = self._moved(lost, added)
        gone, came = {a for a, _ in moved}, {b for _, b in moved}
        for a, b in (*self._pairs, *moved):
            here, there = self._old[a], self._new[b]
            status, message = self._facets(here, there)
            if status is not None:
                found.append(((a, b), Change(status, message, (Place(here, there),))))
        for a, b in moved:
            message = self._nesting(self._old[a], self._new[b])
            change = Change("moved", message, (Place(self._old[a], self._new[b]),), self._around(a, b))
            found.append(((a, b), change))
        for a, b in self._pairs:
            if message := self._nesting(self._old[a], self._new[b]):
                found.append(((a, b), Change("moved", message, (Place(self._old[a], self._new[b]),))))
        for a in (a for run in lost for a in run if a not in gone and self._old[a].what):
            place = Place(self._old[a], None)
            found.append((self._rank(a, None), Change("lost", "", (place,), self._around(a, None))))
        for b in (b for run in added for b in run if b not in came and self._new[b].what):
            place = Place(None, self._new[b])
            found.append((self._rank(None, b), Change("added", "", (place,), self._around(None, b))))
        found += self._late([change for _, change in found])
        found.sort(key=lambda item: item[0])
        return list(_grouped([change for _, change in found]))

    def _rank(self, a: int | None, b: int | None) -> Pair:
        """Where a change is to be told: behind the last aligned instruction before it."""
        if a is not None:
            return a, -1
        assert b is not None
        at = self._aligned(b, 1)
        return (self._pairs[at - 1][0] if at else -1), b

    def _around(
        self, a: int | None, b: int | None
    ) -> tuple[tuple[Op | None, Op | None], tuple[Op | None, Op | None]]:
        """What stands before and behind: in the version that has it, and in the other one what is aligned with that."""
        here, there = (
            self._neighbours(b, 1) if a is None else (a - 1, a + 1),
            (self._neighbours(a, 0) if b is None else (b - 1, b + 1)),
        )
        return (
            (_at(self._old, here[0]), _at(self._old, here[1])),
            (_at(self._new, there[0]), _at(self._new, there[1])),
        )

    def _neighbours(self, index: int | None, side: int) -> Pair:
        """What is aligned with what stands before and behind an instruction of *side*, on the other side."""
        assert index is not None
        at = self._aligned(index, side)
        before = self._pairs[at - 1][1 - side] if at else -1
        behind = self._pairs[at][1 - side] if at < len(self._pairs) else -1
        return before, behind

    def _repeats(
        self, ops: Sequence[Op], runs: list[list[int]], found: list[tuple[Pair, Change]], old: bool
    ) -> list[list[int]]:
        """The runs without those that repeat a block that stands beside them, whose operations went or came as well."""
        tokens = [op.token for op in ops]
        left = []
        for run in runs:
            first, length = run[0], len(run)
            period = _period(tokens[first : first + length])
            block = ops[first : first + period]
            before = _repetitions(tokens, first, period, -1)
            behind = _repetitions(tokens, first + length - period, period, 1)
            if not (any(op.operation for op in block) and any(op.what for op in block) and before + behind):
                left.append(run)
                continue
            here = length // period + before + behind
            there = before + behind
            was, now = (here, there) if old else (there, here)
            message = f"a block of {len(block)} instructions stands {_times(now)} instead of {_times(was)}"
            places = tuple(
                Place(op, None) if old else Place(None, op) for op in block if op.what or op.operation
            )
            rank = self._rank(first, None) if old else self._rank(None, first)
            found.append((rank, Change("repeated", message, places)))
        return left

    def _moved(self, lost: list[list[int]], added: list[list[int]]) -> list[Pair]:
        """What was lost at one place and added at another."""
        there: dict[Hashable, list[int]] = {}
        for b in (b for run in added for b in run if self._new[b].what):
            there.setdefault(self._new[b].token, []).append(b)
        moved = []
        for a in (a for run in lost for a in run if self._old[a].what):
            places = there.get(self._old[a].token, [])
            best = min(places[:_NEAR], key=lambda b: self._likeness(a, b), default=None)
            if best is not None and self._likeness(a, best)[0] < 2:
                places.remove(best)
                moved.append((a, best))
        return moved

    def _likeness(self, a: int, b: int) -> tuple[int, int]:
        """How far two instructions are from being one that moved: 2 and more, they are not."""
        here, there = self._old[a], self._new[b]
        distance = abs(self._aligned(a, 0) - self._aligned(b, 1))
        if here.object is not None and there.object is not None and self._conflict(here, there):
            return 2, distance
        if here.source is not None and there.source is not None:
            if here.at == there.at:
                return 2 * (distance > _NEAR_ON_A_LINE), distance
            if self._same_source:
                return 2 * (distance > 2), distance
        if here.object is not None and self._names.get(here.object) == there.object:
            return 0, distance
        return 1 + (distance > _NEAR), distance

    def _aligned(self, index: int, side: int) -> int:
        """How many aligned instructions stand before."""
        return bisect_left(self._pairs, index, key=lambda pair: pair[side])

    def _conflict(self, here: Op, there: Op) -> bool:
        """Whether it is another mbarrier or barrier, both of which are known in both versions."""
        name, owner = self._names.get(here.object), self._owners.get(there.object)
        return name is not None and owner is not None and name != there.object and owner != here.object

    def _facets(self, here: Op, there: Op) -> tuple[Status | None, str]:
        """What is different in the instruction itself."""
        found = list(_differences(here, there))
        if here.object is not None and there.object is not None and self._conflict(here, there):
            found.append((0, "another mbarrier" if "mbarrier" in here.text else "another barrier"))
        if not found:
            return None, ""
        ways = {way for way, _ in found}
        status: Status = "weakened" if ways == {-1} else "strengthened" if ways == {1} else "changed"
        return status, "; ".join(words for _, words in found)

    def _nesting(self, here: Op, there: Op) -> str:
        if not here.what or here.loops == there.loops:
            return ""
        return f"in {_loops(there.loops)} instead of {_loops(here.loops)}"

    def _late(self, told: Iterable[Change]) -> Iterator[tuple[Pair, Change]]:
        """The waits that went behind a read of what they wait for, or in front of it; not where that follows from another
        change of a wait or commit of the group, which is *told*."""
        changed = {at.op.group for change in told for at in change.places if at.op.what in ("wait", "commit")}
        for a, b in self._pairs:
            here, there = self._old[a], self._new[b]
            if here.late != there.late and here.group not in changed:
                way = "behind" if there.late else "no longer behind"
                change = Change("moved", f"{way} a read of what it waits for", (Place(here, there),))
                yield (a, b), change


def _differences(here: Op, there: Op) -> Iterator[tuple[int, str]]:
    """What two instructions of a kind do differently: -1 weaker, 1 stronger, 0 neither."""
    for order, a, b in ((SEMANTICS, here.semantics, there.semantics), (SCOPES, here.scope, there.scope)):
        if a != b:
            rank, other = order.get(a, -1), order.get(b, -1)
            words = f".{b} instead of .{a}" if a and b else f".{a} is gone" if a else f".{b} is new"
            yield (other > rank) - (other < rank), words
    if here.retried and not there.retried:
        yield -1, "not repeated until the phase is complete any more"
    if there.retried and not here.retried:
        yield 1, "repeated until the phase is complete"
    if here.guarded and not there.guarded and there.controls <= here.controls:
        yield 0, "not under a condition any more"
    if there.guarded and not here.guarded and there.controls >= here.controls:
        yield 0, "under a condition now"
    yield from _words_apart(here, there)
    for role, number in here.numbers.items():
        now = there.numbers.get(role)
        if now is not None and number != now:
            yield _number(here, role, number, now)


def _words_apart(here: Op, there: Op) -> Iterator[tuple[int, str]]:
    gone, came = here.words - there.words, there.words - here.words
    if not gone and not came:
        return
    if "lanes" in gone | came and here.kind.startswith("barrier-sync"):
        yield (
            (-1, "the lanes of a warp meet instead of all warps")
            if "lanes" in came
            else (
                1,
                "all warps meet instead of the lanes of a warp",
            )
        )
        return
    spaces = {word for word in gone | came if word.startswith(("shared", "global"))}
    if here.kind.startswith("proxy-fence") and spaces == gone | came and not (gone and came):
        yield (-1, f"for .{_all(came)} alone") if came else (1, f"not for .{_all(gone)} alone any more")
        return
    if gone | came == {"read"}:
        yield (
            (-1, "waits until the sources are read, not until all is written")
            if came
            else (
                1,
                "waits until all is written, not until the sources are read",
            )
        )
        return
    words = [f".{_all(came)} instead of .{_all(gone)}"] if gone and came else []
    yield 0, (words or [f"without .{_all(gone)}" if gone else f"with .{_all(came)}"])[0]


def _number(here: Op, role: str, a: int, b: int) -> tuple[int, str]:
    fewer = 1 if b > a else -1
    if role == "depth":
        return -fewer, f"leaves {_count(b, 'group')} in flight instead of {a}"
    if role == "mask":
        way = 0
        if not here.kind.startswith(("issue", "commit")):  # there it is a mask of CTAs
            way = -1 if a & b == b else 1 if a & b == a else 0
        return way, f"mask {b:#x} instead of {a:#x}"
    if role == "count" and here.kind.startswith("barrier-"):
        return fewer, f"for {b} threads instead of {a}"
    if role == "count" and here.kind.startswith("mbarrier-init"):
        return fewer, f"a phase needs {_count(b, 'arrival')} instead of {a}"
    words = {"tx": "bytes", "count": "count", "parity": "parity", "columns": "columns"}[role]
    return 0, f"{words} {b} instead of {a}"


def _grouped(changes: list[Change]) -> Iterator[Change]:
    """Changes that follow each other and say the same as one: all of a move, or one instruction many times."""

    def alike(change: Change) -> Hashable:
        op = change.places[0].op
        if change.status == "repeated":
            return id(change)
        if change.status == "moved" and change.between is None:
            return change.status, change.message
        return change.status, change.message, op.token, op.what, op.at

    for _, run in groupby(changes, alike):
        first, *others = run
        yield replace(first, places=(*first.places, *(p for other in others for p in other.places)))


def _missing(number: int, aligned: set[int]) -> list[list[int]]:
    """The runs of what is not aligned."""
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
    """The length of the shortest block that the tokens are a whole number of (Knuth, Morris and Pratt 1977)."""
    border = [0] * len(tokens)
    k = 0
    for i in range(1, len(tokens)):
        while k and tokens[i] != tokens[k]:
            k = border[k - 1]
        k += tokens[i] == tokens[k]
        border[i] = k
    period = len(tokens) - border[-1]
    return period if len(tokens) % period == 0 else len(tokens)


def _repetitions(tokens: Sequence[Hashable], at: int, period: int, way: int) -> int:
    """How often the block at *at* stands before (-1) or behind (1) it without a gap."""
    number = 0
    while True:
        begin = at + way * period
        if (
            begin < 0
            or begin + period > len(tokens)
            or tokens[begin : begin + period] != tokens[at : at + period]
        ):
            return number
        at, number = begin, number + 1


def _counted(old: Sequence[Op], new: Sequence[Op]) -> dict[str, Pair]:
    here, there = (
        Counter(op.kind.removeprefix("issue ") for op in ops if op.operation) for ops in (old, new)
    )
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
