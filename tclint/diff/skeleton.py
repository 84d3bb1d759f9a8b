"""The synchronisation skeleton of a function: waits, fences, commits, barriers, arrivals, elections in program order.

Between these are the asynchronous operations to which they refer (copies, matrix multiplications), and the kinds of
memory that are accessed, so that one barrier can be distinguished from the next. Registers, labels, addresses and
arithmetic are not part of it.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import field
from functools import cached_property

from tclint._dataclass import dataclass
from tclint.analyses.mbarriers import MbarrierObject, Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.tmem_transfers import computes
from tclint.dataflow import LimitExceeded
from tclint.findings.finding import SourceLocation
from tclint.findings.places import source_location
from tclint.findings.spans import Span
from tclint.inspect.in_flight import operations
from tclint.ir.nodes import Function, Module
from tclint.isa.effects import (
    BARRIERS,
    INERT,
    TCGEN05_LD,
    WGMMA,
    Barrier,
    Effects,
    Engine,
    Exchange,
    Fence,
    Order,
    Resource,
)
from tclint.isa.forms import Form, Match
from tclint.syntax.source import Source
from tclint.values.nodes import AddressOf

__all__ = ["Op", "Skeleton", "skeleton", "synchronisation"]

ACCESS = "ordered access"
SEMANTICS = {"weak": 0, "relaxed": 1, "acquire": 2, "release": 2, "acq_rel": 3, "sc": 4}
SCOPES = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 3}
_ORDERS = frozenset(order.value for order in Order) | {"mmio"}
"""Words of an opcode that state a memory order."""
_IGNORED = frozenset("sync async cta b32 b64 b128 u32 s32 warp shared shared::cta".split())
"""Words of an opcode that do not affect synchronisation, or whose meaning is recorded otherwise."""
_RESULTS = frozenset((WGMMA, TCGEN05_LD))
"""The groups whose operations write registers."""
_RESOURCES: dict[Resource | None, str] = {
    Resource.MBARRIER_INIT: "mbarrier", Resource.MBARRIER_INVAL: "mbarrier", Resource.REGISTERS: "registers",
    Resource.TMEM_ALLOC: "tensor memory", Resource.TMEM_DEALLOC: "tensor memory",
    Resource.TMEM_RELINQUISH: "tensor memory",
}  # fmt: skip
_NUMBERS = ("depth", "mask", "count", "tx", "parity", "columns")
"""Roles of operands whose constant values are compared."""
_MAX_TEXT = 100
"""Characters of an instruction's text."""


@dataclass(slots=True, eq=False)
class Op:
    """An instruction of the skeleton."""

    site: int
    line: int
    span: Span
    source: SourceLocation | None
    what: str
    """The class; "" for an operation or an access, which is not synchronisation itself."""
    kind: str
    """Instructions of equal kind may be weaker or stronger forms of one instruction."""
    text: str
    words: frozenset[str] = frozenset()
    semantics: str = ""
    scope: str = ""
    effects: Effects = INERT
    numbers: dict[str, int] = field(default_factory=dict)
    """Role -> constant value of the operand; unknown values are left out."""
    object: Hashable = None
    """The mbarriers to which it may refer, or the barrier number; None if unknown, or if it refers to none."""
    loops: int = 0
    """Loop depth, without loops that only wait."""
    retried: bool = False
    """Whether it is a wait in a loop that only waits."""
    late: bool = False
    """Whether it is a wait after a read of a register that it waits for."""
    guarded: bool = False
    controls: int = 0
    """The number of branches on which it is control-dependent."""
    role: str = ""
    """The threads that execute it, in words."""

    @property
    def at(self) -> tuple[str, int] | None:
        """The file name and line in the source, without the folder, which differs between machines; None if unknown."""
        return (os.path.basename(self.source.file), self.source.line) if self.source is not None else None

    @property
    def operation(self) -> bool:
        """Whether it issues an asynchronous operation."""
        return self.effects.begins is not None

    @property
    def group(self) -> str:
        """The engine that it waits for or to which it commits, or the name of an operation; "" for none."""
        return self.kind.partition(" ")[2]

    @property
    def access(self) -> bool:
        """Whether it is a memory access, which serves only the alignment."""
        return self.kind.startswith("access ")

    @property
    def token(self) -> Hashable:
        """The properties of the instruction itself, without values that a compiler may keep in a register."""
        depth = self.numbers.get("depth", -1)
        return self.kind, self.words, self.semantics, self.scope, depth, self.retried


@dataclass(slots=True, eq=False)
class Skeleton:
    """The skeleton of one function."""

    function: Function
    ops: list[Op]

    @property
    def name(self) -> str:
        return self.function.name


def skeleton(source: Source, module: Module, function: Function) -> Skeleton:
    """The skeleton of *function*, in which callees are inlined already. Raises LimitExceeded if it is too large."""
    model = KernelModel(function, module)
    try:
        ops = list(_without_repeats(_Reader(source, model).ops()))
    finally:
        model.release()
    return Skeleton(function, ops)


def _without_repeats(ops: Iterator[Op]) -> Iterator[Op]:
    """*ops*, with only the first of consecutive accesses of one kind."""
    before = ""
    for op in ops:
        if not (op.access and op.kind == before):
            yield op
        before = op.kind


class _Reader:
    def __init__(self, source: Source, model: KernelModel) -> None:
        self._source, self._model, self._function = source, model, model.function
        self._mbarriers = Mbarriers(model)
        self._loops, self._spins = self._nesting()

    def ops(self) -> Iterator[Op]:
        """The reachable instructions of the skeleton in program order."""
        cfg = self._model.cfg
        found: list[tuple[int, Match]] = []
        for use in self._function.uses:
            match = use.match
            if match is not None and (match.form.event or _accessed(match)):
                found += ((i, match) for i in use.sites if cfg.block_of[i] in cfg.rank)
        for site, match in sorted(found, key=lambda item: item[0]):
            yield self._op(site, match)

    def _op(self, site: int, match: Match) -> Op:
        function, instruction = self._function, self._function.instructions[site]
        form, effects = match.form, match.form.effects
        start, end = function.start + instruction.start, function.start + instruction.end
        block = self._model.cfg.block_of[site]
        words, semantics, scope = _words(match, instruction.opcode)
        what = synchronisation(effects)
        if not form.event:
            ordered = SEMANTICS.get(semantics, 0) > 0
            what = ACCESS if SEMANTICS.get(semantics, 0) > 1 else ""
            kind = f"{'ordered' if ordered else 'access'} {_accessed(match)}"
            words = frozenset()
        elif what:
            kind = f"{form.event} {form.group}".strip()
        else:
            kind, words = f"{form.event} {instruction.name}", frozenset()
        op = Op(
            site,
            self._source.position(start).line,
            Span(start, end),
            source_location(self._model.module, function.location(site)),
            what,
            kind,
            "",
            words,
            semantics,
            scope,
            effects,
            loops=self._loops.get(block, 0),
        )
        if op.access:
            op.text = instruction.name
            return op
        text = " ".join(self._source.data[start:end].decode(errors="replace").split())
        op.text = text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
        op.retried = effects.awaits is Barrier.MBARRIER and block in self._spins
        op.late = effects.waits is not None and effects.waits in _RESULTS and self._late(site, effects.waits)
        op.numbers = dict(self._numbers(site, match.form))
        op.object = self._object(site, match.form)
        op.guarded = instruction.guard >= 0
        op.controls = len(self._model.cfg.control_dependences(block))
        op.role = self._model.describe_threads(self._model.views.context_of(site).threads)
        return op

    def _late(self, site: int, group: Engine) -> bool:
        """Whether an instruction before a wait, in its block, reads a result of an operation it waits for."""
        cfg, instructions = self._model.cfg, self._function.instructions
        try:
            found = operations(self._model, site, (group,))
        except LimitExceeded:
            return False
        read: set[int] = set()
        waited = False
        for i in range(site - 1, cfg.blocks[cfg.block_of[site]].start - 1, -1):
            instruction = instructions[i]
            if instruction.group != group:
                # Correct code has arithmetic on loaded values before and after the wait, as the hardware interlocks.
                if group == WGMMA or not computes(instruction.match):
                    read.update(instruction.reads)
            elif instruction.effects.waits is not None:
                waited = True
            elif instruction.effects.begins is not None:
                # An operation with no wait after it is in flight here, even a load that the analysis no longer tracks,
                # because the hardware interlocks on its use.
                if (i in found or not waited) and not read.isdisjoint(instruction.results):
                    return True
                found.discard(i)
        return any(not read.isdisjoint(instructions[i].results) for i in found)

    def _numbers(self, site: int, form: Form) -> Iterator[tuple[str, int]]:
        if form.effects.waits is not None:
            yield "depth", 0
        for role in _NUMBERS:
            if role in form.roles and (number := self._model.constant_of(site, role)) is not None:
                yield role, number & 0xFFFFFFFF

    def _object(self, site: int, form: Form) -> Hashable:
        if not form.mbarrier:
            return self._model.constant_of(site, "id")
        makes = form.effects.resource is Resource.MBARRIER_INIT
        found = self._inits.get(site) if makes else self._mbarriers.named(site)
        return frozenset((self._base(m.base), m.offset) for m in found) if found else None

    def _base(self, value: int) -> Hashable:
        """The name of the variable that contains the mbarriers; for any other base, its value number."""
        node = self._model.values.node(value)
        return node.name if type(node) is AddressOf else value

    @cached_property
    def _inits(self) -> dict[int, list[MbarrierObject]]:
        """Site of an init -> the mbarriers that it initialises."""
        made: dict[int, list[MbarrierObject]] = {}
        for mbarrier in self._mbarriers.objects.values():
            for site in mbarrier.inits:
                made.setdefault(site, []).append(mbarrier)
        return made

    def _nesting(self) -> tuple[dict[int, int], set[int]]:
        """The loop depth of each block, and the blocks of loops that only wait.

        Those loops have no other event and access no memory; they do not count for the depth.
        """
        cfg = self._model.cfg
        waits, others = set[int](), set[int]()
        for use in self._function.uses:
            if use.match is not None and (use.match.form.event or _accessed(use.match)):
                found = waits if use.match.form.effects.awaits is Barrier.MBARRIER else others
                found.update(cfg.block_of[site] for site in use.sites)
        depth: defaultdict[int, int] = defaultdict(int)
        spins: set[int] = set()
        for body in cfg.loops.values():
            if others.isdisjoint(body) and not waits.isdisjoint(body):
                spins |= body
            else:
                for block in body:
                    depth[block] += 1
        return dict(depth), spins


def synchronisation(effects: Effects) -> str:
    """The class of what synchronises; empty for an operation, of which only the mbarrier and the lanes are compared."""
    if effects.waits is not None or effects.awaits in (Barrier.MBARRIER, Barrier.GRIDS):
        return "wait"
    if effects.commits is not None or effects.submits is not None:
        return "commit"
    if effects.fence is not None:
        return "fence"
    if effects.barrier in BARRIERS:
        return "barrier"
    if effects.arrives is not None or effects.expects or effects.completes:
        return "arrival"
    return "election" if effects.exchange is Exchange.ELECT else _RESOURCES.get(effects.resource, "")


def _accessed(match: Match) -> str:
    """The kind of access of an instruction without an event: ``ld.shared``; "" for memory private to a thread."""
    form = match.form
    space = match.space.partition("::")[0]
    if form.event or not form.memory or space in (".param", ".local", ".const"):
        return ""
    return form.name.partition(".")[0] + space


def _words(match: Match, opcode: str) -> tuple[frozenset[str], str, str]:
    """The words of an opcode that affect synchronisation, and its semantics and scope, with defaults filled in."""
    root, *words = opcode.split(".")
    effects, order = match.form.effects, Order.RELAXED if match.order is Order.VOLATILE else match.order
    barrier = effects.barrier in BARRIERS
    rest = []
    for word in words:
        ordering = word in _ORDERS or (not barrier and word in SCOPES) or (root == "membar" and word == "gl")
        ignored = word in _IGNORED or (effects.commits is not None and "shared" in word)
        if not ordering and (effects.fence is Fence.PROXY or not ignored):
            rest.append(word)
    if barrier and root == "bar":  # bar.sync is barrier.sync.aligned (9.7.13.1)
        rest.append("lanes" if "warp" in words else "aligned")
    return frozenset(rest), "" if order is Order.WEAK else order.value, match.order_scope
