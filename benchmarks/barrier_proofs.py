"""Barriers that order nothing which another barrier does not order as well (PTX ISA 8.9.4, 9.7.13.1, 9.7.13.3).

A barrier separates what was done since the barrier before it, or since the kernel began, from what is done until
the one after it, or the end. If no access on one side conflicts with one on the other side, nothing
can observe that it is gone. With anything else on either side that is not known to be harmless, nothing is proven.
Variables that are declared with a size share no byte (5.1.7), wherever in them an index points. A wait for bulk copies is
one for all of the kernel, and what they read and write.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from tclint.ir.cfg import CFG, Edge
from tclint.ir.nodes import Function, Immediate, Instruction, Memory, Operand, Special, Symbol
from tclint.isa.forms import Match

__all__ = ["EXCHANGES", "in_other_intervals", "in_turn", "ordered_by_others"]

_BARRIERS = ("barrier-sync", "barrier-arrive", "barrier-wait")
_NO_EFFECT = ("memory-fence", "proxy-fence", "commit", "tmem-relinquish")
_PREFETCH = "cp.async.bulk.prefetch"
"""Copies to the cache alone."""
_WARP = ("elect", "match", "redux", "shuffle", "vote")
_SILENT = frozenset(
    "integer logic float half convert compare extended video misc control".split()  # no memory, no synchronisation
)
EXCHANGES = frozenset((".volatile", ".relaxed", ".acquire", ".release", ".acq_rel", ".mmio"))
"""Modifiers of accesses by which one thread may observe what another has done (8.7)."""
_TYPE = re.compile(r"\.[busf]{1,2}(\d+)$")
_OF_CLUSTER = ("%nctaid", "%nclusterid", "%cluster_nctaid", "%cluster_nctarank", "%ntid", "%clusterid")
"""Special registers that are the same in all threads of a cluster (10)."""
_OF_CTA = (*_OF_CLUSTER, "%ctaid", "%cluster_ctaid", "%cluster_ctarank")
_OBJECT = 8
"""Bytes of an mbarrier object (9.7.13.15.1)."""


class Touch(NamedTuple):
    """Bytes that are read or written: so many from *offset* on, after the beginning of a variable."""

    writes: bool
    space: str
    """"": any."""
    root: str | None = None
    offset: int | None = 0
    """None: not known, but in the variable."""
    size: int | None = None
    makes: bool = False
    """Whether it makes an mbarrier of them."""
    declared: bool = False
    """Whether *root* is declared with a size: it shares no byte with another such variable (5.1.7)."""

    def meets(self, other: Touch) -> bool:
        """Whether both may be the same bytes, and one of them is written."""
        if not (self.writes or other.writes) or (self.space and other.space and self.space != other.space):
            return False
        if self.root != other.root and self.declared and other.declared:
            return False
        if self.root is None or self.root != other.root or self.size is None or other.size is None:
            return True
        if self.offset is None or other.offset is None:
            return True
        return self.offset < other.offset + other.size and other.offset < self.offset + self.size


_ANYTHING = Touch(True, "")


def ordered_by_others(function: Function, cfg: CFG, gone: list[int]) -> bool:
    """Whether the barriers at *gone*, one of a CTA, or the arrival and the wait of one of a cluster, order nothing."""
    return _Barriers(function, cfg).idle(gone)


def in_turn(function: Function, cfg: CFG, site: int) -> bool:
    """Whether the instruction at *site* is a barrier for all threads of the CTA that all of them reach as the same instance.

    All threads of the CTA execute the same aligned barrier (9.7.13.1). Roles do not always keep to that, so every other
    one that it may be taken for must come before or after it, and it must have no guard.
    """
    return _for_all(function, cfg, site) and _Barriers(function, cfg).in_order(site, [site])


def _for_all(function: Function, cfg: CFG, site: int) -> bool:
    """Whether the instruction at *site* is a barrier for all threads of the CTA, aligned and with no guard."""
    i = function.instructions[site]
    aligned = i.match is not None and (i.opcode.startswith("bar.") or ".aligned" in i.match.modifiers)
    return aligned and i.guard < 0 and _Barriers(function, cfg).of_all(site)


def in_other_intervals(function: Function, cfg: CFG, site: int, others: Iterable[int]) -> bool:
    """Whether no thread executes one of *others* in an interval in which one executes the instruction at *site*.

    Barriers that all threads of the CTA reach as the same instance divide what they do into intervals. Two that
    different barriers begin are not the same.
    """
    barriers = (at for at, i in enumerate(function.instructions) if i.event == "barrier-sync")
    together = frozenset(at for at in barriers if in_turn(function, cfg, at))
    begins = _last_of(cfg, together, site)
    return all(begins.isdisjoint(_last_of(cfg, together, other)) for other in others)


def _last_of(cfg: CFG, sites: Collection[int], before: int) -> set[int]:
    """Which of some *sites* is the last one on a path to *before*; -1: none, on a path from the entry."""
    work, seen, found = [(cfg.block_of[before], before)], set[int](), set[int]()
    while work:
        block, end = work.pop()
        last = next((at for at in range(end - 1, cfg.blocks[block].start - 1, -1) if at in sites), None)
        if last is not None:
            found.add(last)
            continue
        if block == 0:
            found.add(-1)
        fresh = set(cfg.sources[block]) - seen
        seen |= fresh
        work += [(source, cfg.blocks[source].end) for source in fresh]
    return found


class _Barriers:
    def __init__(self, function: Function, cfg: CFG) -> None:
        self.function = function
        self.cfg = cfg
        self.instructions = function.instructions
        self.gone: list[int] = []
        self.first = False
        """Whether a cluster barrier may be the first to guarantee that the other CTAs have begun."""
        self.made: bool | None = None
        """Whether there is anything before what is gone: mbarriers that are made (true), nothing at all (false), or more.

        With nothing before it, it only says that the other CTAs have begun.
        """
        self.defined: dict[int, list[Instruction]] = {}
        for i in self.instructions:
            for register in i.writes:
                self.defined.setdefault(register, []).append(i)

    def idle(self, gone: list[int]) -> bool:
        self.gone = gone
        events = {self.instructions[i].event for i in gone}
        cluster = events == {"barrier-arrive", "barrier-wait"} and len(gone) == 2
        if any(self.instructions[i].guard >= 0 or self.instructions[i].writes for i in gone):
            return False
        if not cluster and not (events == {"barrier-sync"} and len(gone) == 1 and self.of_all(gone[0])):
            return False
        if not all(self.in_order(i, gone) for i in gone):
            return False
        self.made, self.first = None, False
        before = list(self._side(min(gone), cluster, back=True))
        if cluster and not before and not self.first:
            return True
        if cluster and all(t is not None and t.makes for t in before):
            self.made = bool(before)
        after = list(self._side(max(gone), cluster, back=False))
        between = range(min(gone) + 1, max(gone))
        if cluster and (
            self.cfg.block_of[min(gone)] != self.cfg.block_of[max(gone)]
            or any(self._touches(i, back=False) != [] for i in between)
            or None in after
            or any(t.space == "" for t in after if t)
        ):
            return False
        return not any((a or _ANYTHING).meets(b or _ANYTHING) for a in before for b in after)

    # ------------------------------------------------------------ barriers

    def of_all(self, site: int) -> bool:
        """Whether a barrier is for all threads of the CTA."""
        i = self.instructions[site]
        if i.match is None or i.match.form.scope == "lanes" or i.event != "barrier-sync":
            return False
        count = i.role("count")
        most = self.function.most_threads
        return count is None or (most is not None and (self._constant(count) or 0) >= most)

    def in_order(self, site: int, gone: list[int]) -> bool:
        """Whether every other barrier that it may be taken for comes before it or after it: each has its turn."""
        here, block = self.instructions[site], self.cfg.block_of[site]
        for other, i in enumerate(self.instructions):
            if other in gone or i.event not in _BARRIERS or i.match is None or i.match.form.scope == "lanes":
                continue
            named, mine = i.role("id"), here.role("id")
            if (named is None) != (mine is None):
                continue
            if named is not None and mine is not None:
                a, b = self._constant(named), self._constant(mine)
                if a is not None and b is not None and a != b:
                    continue
            there = self.cfg.block_of[other]
            if there not in self.cfg.rank or self._alternatives(block, there, cluster=mine is None):
                continue
            if not any(
                self.cfg.dominates(a, b) or self._follows(a, b) for a, b in ((block, there), (there, block))
            ):
                return False
        return True

    def _alternatives(self, one: int, other: int, *, cluster: bool) -> bool:
        """Whether all threads of a CTA, or of a *cluster*, reach the same one of two blocks, if any."""
        cfg = self.cfg

        def leads(edge: Edge, block: int) -> bool:
            return edge.target == block or bool(cfg.reachable_from[edge.target] >> block & 1)

        above = cfg.idom[one]
        while not cfg.dominates(above, other):
            above = cfg.idom[above]
        ways = cfg.successors[above]
        return (
            not cfg.reachable_from[above] >> above & 1
            and not any(leads(edge, one) and leads(edge, other) for edge in ways)
            and all(self._alike(edge.predicate, cluster) for edge in ways if edge.predicate >= 0)
        )

    def _alike(self, register: int, cluster: bool) -> bool:
        """Whether a register is the same in all threads of a CTA, or of a *cluster*: made of what comes with the launch."""
        same, work, seen = (_OF_CLUSTER if cluster else _OF_CTA), [register], set[int]()
        while work:
            register = work.pop()
            if register in seen:
                continue
            seen.add(register)
            made = self.defined.get(register, ())
            if len(made) != 1 or made[0].guard >= 0 or made[0].match is None or made[0].match.problem:
                return False
            i, form = made[0], made[0].match.form
            if not (form.family in _SILENT or i.opcode.startswith(("mov.", "ld.param."))):
                return False
            if any(isinstance(o, Special) and not o.name.startswith(same) for o in i.operands[1:]):
                return False
            work += i.reads
        return True

    def _follows(self, after: int, block: int) -> bool:
        """Whether every path from *block* reaches *after*."""
        while block not in (after, -1) and block in self.cfg.ipdom:
            block = self.cfg.ipdom[block]
        return block == after

    def _covers(self, site: int, cluster: bool, back: bool) -> bool:
        """Whether another barrier orders what lies on its two sides at least as this one does."""
        i = self.instructions[site]
        if i.guard >= 0:
            return False
        if i.event == ("barrier-arrive" if back else "barrier-wait") and i.role("id") is None:
            return self.made is False or not any(
                at not in self.gone
                and j.event == "barrier-arrive"
                and j.match
                and ".relaxed" in j.match.modifiers
                and not (self.made and self._publishes(at))
                for at, j in enumerate(self.instructions)
            )
        return not cluster and self.of_all(site)

    def _publishes(self, arrival: int) -> bool:
        """Whether mbarriers initialised before an arrival for the whole cluster are initialised for all threads that wait.

        A fence in its block says so where the arrival itself is relaxed (9.7.13.4).
        """
        i = self.instructions[arrival]
        if i.event != "barrier-arrive" or i.role("id") is not None or i.guard >= 0:
            return False
        block = self.cfg.blocks[self.cfg.block_of[arrival]]
        return any(
            i.guard < 0 and i.opcode.startswith("fence.mbarrier_init")
            for i in self.instructions[block.start : arrival]
        )

    # ------------------------------------------------------------ what lies on a side

    def _side(self, site: int, cluster: bool, *, back: bool) -> Iterator[Touch | None]:
        """The accesses on one side of *site*, up to the next barrier; None: an unknown access."""
        cfg = self.cfg
        work, seen = [(cfg.block_of[site], site, False)], set[tuple[int, bool]]()
        while work:
            block, at, published = work.pop()
            begin, end = cfg.blocks[block].start, cfg.blocks[block].end
            for i in range(at - 1, begin - 1, -1) if back else range(at + 1, end):
                if self._covers(i, cluster, back):
                    break
                touched = self._touches(i, back=back)
                # What a barrier publishes that orders nothing else: the mbarriers made before it.
                published = published or (back and cluster and self._publishes(i))
                yield from (None,) if touched is None else (t for t in touched if not (published and t.makes))
            else:
                following = cfg.sources[block] if back else [e.target for e in cfg.successors[block]]
                if cluster and not back and not following:
                    yield None  # the others continue after this CTA has ended
                self.first = self.first or (back and block == 0 and not published)
                for other in following:
                    if (other, published) not in seen:
                        seen.add((other, published))
                        start = cfg.blocks[other].end if back else cfg.blocks[other].start - 1
                        work.append((other, start, published))

    def _touches(self, site: int, *, back: bool) -> list[Touch] | None:
        """What an instruction reads and writes that other threads may; None: not known, or it synchronises with them."""
        i = self.instructions[site]
        match = i.match
        if match is None or match.problem or match.form.flow == "call":
            return None
        form = match.form
        if form.event == "mbarrier-init":
            return [self._touch(i.role("mbarrier"), True, "cta", _OBJECT)._replace(makes=True)]
        if form.event == "mbarrier-inval":
            return [self._touch(i.role("mbarrier"), True, "cta", _OBJECT)]
        if form.event == "issue" and form.group == "bulk" and "mbarrier" not in form.roles:
            read = (a.operand for a in match.accesses if a.shared and not a.object and not a.writes)
            sources = [self._touch(i.named(operand), False, "cta", None) for operand in read]
            return [*sources, Touch(True, "global")]
        if form.event == "wait" and form.group == "bulk" and back:
            return self._copied()
        if form.event == "tmem-dealloc":
            return [Touch(True, "tensor")]
        if form.event == "wait" and not back:
            return []  # waiting for more is harmless
        if form.event in (*_NO_EFFECT, *_WARP, *_BARRIERS) or i.opcode.startswith(_PREFETCH):
            return []
        if form.event and form.event != "tmem-alloc":
            return None
        if not form.memory:
            return [] if form.flow or form.family in _SILENT or form.name.startswith(_PLAIN) else None
        if match.space in (".param", ".const", ".local") or ".nc" in match.modifiers:
            return []
        if len({verb for verb, _ in form.memory}) > 1 or not EXCHANGES.isdisjoint(match.modifiers):
            return None
        return [
            self._touch(i.named(name), verb == "write", _space(match), _size(match))
            for verb, name in form.memory
        ]

    def _copied(self) -> list[Touch] | None:
        """What the bulk copies access that a wait may be for."""
        found = list[Touch]()
        for site, i in enumerate(self.instructions):
            if i.event == "issue" and i.group == "bulk":
                touched = self._touches(site, back=True)
                if touched is None:
                    return None
                found += touched
        return found

    def _touch(self, operand: Operand | None, writes: bool, space: str, size: int | None) -> Touch:
        if not isinstance(operand, Memory):
            return Touch(writes, space, None)
        root, offset = self._root(operand.base, operand.offset)
        variable = self.function.variables.get(root or "")
        declared = variable is not None and variable.size > 0 and variable.space == ".shared"
        return Touch(writes, space, root, offset, size, declared=declared)

    def _root(self, operand: Operand, offset: int | None) -> tuple[str | None, int | None]:
        """The variable that an address is reckoned from, and how far it is from there.

        None for the variable: not known. None for the distance: it may differ in threads.
        """
        while not isinstance(operand, Symbol):
            made = self.defined.get(operand, ()) if isinstance(operand, int) else ()
            if len(made) != 1 or made[0].guard >= 0 or len(made[0].operands) < 2:
                return None, offset
            (i,), verb = made, made[0].opcode.split(".")[0]
            operand, by = i.operands[1], 0
            if verb == "add":
                other = i.operands[2]
                if isinstance(other, Immediate) and isinstance(other.value, int):
                    by = other.value
                else:
                    roots = {self._root(o, None)[0] for o in i.operands[1:3]} - {None}
                    return (roots.pop(), None) if len(roots) == 1 else (None, None)
            elif verb != "mov" and not i.opcode.startswith("shfl.sync.idx"):  # a lane has what all have
                return None, offset
            offset = None if offset is None else offset + by
        return operand.name, None if offset is None else offset + operand.offset

    def _constant(self, operand: Operand) -> int | None:
        """The number that an operand is: a literal, or a register that is set to one and nothing else."""
        if isinstance(operand, Immediate):
            return operand.value if isinstance(operand.value, int) else None
        made = self.defined.get(operand, ()) if isinstance(operand, int) else ()
        found = {
            i.operands[1].value
            if i.opcode.split(".")[0] == "mov" and isinstance(i.operands[1], Immediate)
            else None
            for i in made
        }
        number = found.pop() if len(found) == 1 else None
        return number if isinstance(number, int) else None


_PLAIN = ("mov", "cvta", "isspacep", "mapa", "prefetch", "activemask")


def _space(match: Match) -> str:
    """The memory that an address is of: "" where it may be any, or that of another CTA."""
    if match.space in (".shared", ".shared::cta"):
        return "cta"
    return "global" if match.space == ".global" else ""


def _size(match: Match) -> int | None:
    """The bytes of one access; None where that is not a matter of the type alone."""
    if match.scope == "warp" and match.form.event != "tmem-alloc":
        return None
    width = next((int(m[1]) for m in map(_TYPE.match, reversed(match.modifiers)) if m), None)
    length = (match.number("vec") or 1) if "vec" in match.binding else 1
    return width and width // 8 * length
