"""The events of a protocol in program order, and the threads that execute each of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import prod

from tclint.analyses.mbarriers import transferred
from tclint.analyses.model import KernelModel
from tclint.analyses.objects import ObjectNames
from tclint.analyses.pretty import ValuePrinter
from tclint.analyses.role_paths import controlling_predicates
from tclint.inspect.protocol.parts import Multicast, Role
from tclint.ir.cfg import CFG
from tclint.ir.loops import Loop
from tclint.isa.accesses import Via
from tclint.isa.effects import BARRIERS, ENDLESS, TENSOR_MEMORY, Barrier, Effects, Fence, Order, Resource
from tclint.isa.forms import Form
from tclint.values import UniformityScope
from tclint.values import thread_masks as T

__all__ = ["Sites", "partitions"]

_KINDS: dict[Fence | Resource | None, str] = {
    Fence.PROXY: "proxy fence",
    Fence.MEMORY: "fence",
    Resource.MBARRIER_INIT: "init",
    Resource.MBARRIER_INVAL: "inval",
}
_SETUP = frozenset(("init", "inval", "fence", "proxy fence", "pdl wait", "pdl launch"))
"""Events that do not define a role, since any thread may execute them."""
_MAX_NAME = 1000
"""Characters of the name of a variable."""
_MAX_MULTICAST_CTAS = 16
"""Bits of a CTA mask."""
_ALL = "all threads"


def partitions(model: KernelModel) -> dict[int, int]:
    """Block -> case, for blocks that only one case of an unresolved role dispatcher reaches.

    Which warps take the case is then unknown.
    """
    cfg, found = model.cfg, dict[int, int]()
    for dispatcher in sorted(model.reachability.unresolved_dispatchers):
        cases: dict[int, int] = {}
        for edge in cfg.successors[dispatcher]:
            cases.setdefault(edge.target, edge.case)
        reached = {case: _from(cfg, target, dispatcher) for target, case in cases.items()}
        for case, blocks in reached.items():
            others = set[int]().union(*(b for c, b in reached.items() if c != case))
            found.update(dict.fromkeys(blocks - others, case))
    return found


def _from(cfg: CFG, start: int, without: int) -> set[int]:
    found, work = {start}, [start]
    while work:
        for edge in cfg.successors[work.pop()]:
            if edge.target != without and edge.target not in found:
                found.add(edge.target)
                work.append(edge.target)
    return found


class Sites:
    """Which instructions are events of the protocol, what they are, and which threads execute them."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.words = ValuePrinter(model.values)
        """Values as expressions; it names what loops change."""
        self.objects = model.fact(ObjectNames)

    def base(self, value: int) -> str | None:
        """The base of an address as text; None if it has no name."""
        return self.words.text(value, _MAX_NAME)

    @cached_property
    def kinds(self) -> dict[int, str]:
        """The events of the protocol in program order, each with its kind."""
        model, found = self.model, dict[int, str]()
        for site in model.events:
            match = model.instruction(site).match
            if match is None or match.problem or match.form.scope == "lanes":
                continue
            begins = match.form.effects.begins is not None
            kind = _issued(match.form) if begins else _kind(match.form.effects)
            if kind and self.threads(site):
                found[site] = kind
        return found

    def waits(self, site: int) -> bool:
        """Whether an instruction waits for a phase of an mbarrier, or tests it."""
        return self.model.instruction(site).effects.awaits is Barrier.MBARRIER

    def threads(self, site: int) -> int:
        return self.model.views.context_of(site).threads & self.model.cta

    def who(self, site: int) -> str:
        """The threads that may execute an instruction, in words."""
        threads = self.threads(site)
        partition = self._partitions.get(self.model.cfg.block_of[site])
        if partition is not None:
            lanes = "" if T.whole(threads, 32) == threads else "some lanes of "
            return f"{'a lane of ' if T.at_most_one_lane(threads) else lanes}partition {partition}"
        words = self.model.describe_threads(threads)
        if not self._some(site) or words.startswith("some "):
            return words
        return "some threads" if words == _ALL else f"some of {words}"

    def _some(self, site: int) -> bool:
        """Whether an unknown predicate decides which of the threads execute it. Results of waits do not count."""
        if site not in self._split:
            model, threads = self.model, self.threads(site)
            values = model.values
            self._split[site] = threads & (threads - 1) != 0 and any(
                values.mask(p) is None
                and values.uniformity(p) > UniformityScope.WARPGROUP
                and not any(
                    at in self.kinds and self.waits(at) for kind, at in values.varying_at(p) if kind == "site"
                )
                for p in controlling_predicates(model, site)
            )
        return self._split[site]

    @cached_property
    def _split(self) -> dict[int, bool]:
        return {}

    @cached_property
    def roles(self) -> tuple[Role, ...]:
        block_of = self.model.cfg.block_of
        warps: dict[int, list[int]] = {}
        dispatched: dict[int, int] = {}
        for number, (site, kind) in enumerate(self.kinds.items()):
            threads = self.threads(site)
            partition = self._partitions.get(block_of[site])
            if partition is not None:
                dispatched[partition] = dispatched.get(partition, 0) | T.whole(threads, 32)
            elif kind not in _SETUP:
                for w in _warps(threads):
                    warps.setdefault(w, []).append(number)
        alike: dict[tuple[int, ...], list[int]] = {}
        for w in _warps(self.model.cta):
            alike.setdefault(tuple(warps.get(w, ())), []).append(w)
        found = []
        for members in alike.values():
            threads = sum(0xFFFFFFFF << 32 * w for w in members) & self.model.cta
            found.append(Role(self.model.describe_threads(threads), tuple(members), threads))
        for partition, threads in sorted(dispatched.items()):
            found.append(Role(f"partition {partition}", tuple(_warps(threads)), threads, partition))
        return tuple(found)

    @cached_property
    def _partitions(self) -> dict[int, int]:
        return partitions(self.model)

    def roles_of(self, site: int) -> tuple[int, ...]:
        """The roles that take part in an event."""
        partition = self._partitions.get(self.model.cfg.block_of[site])
        threads = self.threads(site)
        return tuple(
            n for n, role in enumerate(self.roles) if role.partition == partition and role.threads & threads
        )

    def count(self, site: int) -> int | None:
        """The number of threads that execute an instruction; None if it or the CTA size is unknown."""
        threads = self.threads(site)
        known = threads.bit_count() <= 1 or self.model.function.most_threads is not None
        return threads.bit_count() if known and not self._some(site) else None

    def multicast(self, site: int) -> Multicast | None:
        """The destination CTAs; None without multicast. Bit *r* of the mask is the CTA of rank *r* (9.7.9.25.4.1)."""
        model = self.model
        match = model.instruction(site).match
        if match is None or not match.multicast:
            return None
        if match.to_all_ctas:
            size = model.function.directives.get(".reqnctapercluster")
            return Multicast("all CTAs", tuple(range(prod(size))) if size else None)
        value = model.value(site, "mask")
        if value is None:
            return None
        mask = model.values.constant_of(value)
        if mask is None:
            words = self.words.text(value)
            return Multicast(f"CTAs of mask {words}" if words else "unknown CTAs", None)
        ctas = tuple(rank for rank in range(_MAX_MULTICAST_CTAS) if mask >> rank & 1)
        ranks = ", ".join(map(str, ctas))
        return Multicast({0: "no CTA", 1: f"CTA {ranks}"}.get(len(ctas), f"CTAs {ranks}"), ctas)

    def size(self, site: int, role: str) -> int | None:
        """The number of bytes that are expected or copied; None if unknown."""
        match = self.model.instruction(site).match
        own = None if match is None else transferred(match)
        return self.model.constant_of(site, role) if own is None else own

    def around(self, site: int) -> tuple[int, ...]:
        """The first sites of the loops around *site*, the outermost first."""
        cfg = self.model.cfg
        inside = sorted((-len(body), head) for head, body in self.loops.items() if cfg.block_of[site] in body)
        return tuple(cfg.blocks[head].start for _, head in inside)

    @cached_property
    def loops(self) -> dict[int, Loop]:
        """The loops, by header, except those that only spin on one phase."""
        cfg, found = self.model.cfg, dict[int, Loop]()
        for head, body in cfg.loops.items():
            inside = [i for i in self.kinds if cfg.block_of[i] in body]
            if any(not self.waits(i) or self._moves(i, body) for i in inside):
                found[head] = body
        return found

    def _moves(self, wait: int, body: Loop) -> bool:
        """Whether a loop changes the mbarrier, parity or state of a wait in it."""
        cfg = self.model.cfg
        model = self.model
        for value in (model.mbarrier(wait), model.value(wait, "parity"), model.value(wait, "state")):
            for kind, at in self.model.values.varying_at(value) if value is not None else ():
                if (at if kind == "block" else cfg.block_of[at]) in body:
                    return True
        return False

    def via(self, site: int) -> Via:
        """How an operation says where its bytes are."""
        ways = {access.via for access in self.model.instruction(site).accesses if access.later}
        return next((way for way in (Via.MAP, Via.DESCRIPTOR) if way in ways), Via.ADDRESS)

    def opcode(self, site: int) -> str:
        """The name of the instruction's form in the ISA table; without a form, its own name."""
        match = self.model.instruction(site).match
        return match.form.name if match is not None else self.model.instruction(site).name

    def scope(self, site: int) -> str:
        """The scope of an operation's release or acquire; ``cta`` by default (9.7.13.15.13), or ``relaxed``."""
        match = self.model.instruction(site).match
        if match is not None and match.order is Order.RELAXED:
            return "relaxed"
        return (match.order_scope if match is not None else "") or "cta"


def _kind(effects: Effects) -> str:
    """The kind of an event that begins no operation; empty if it is not part of a protocol."""
    if effects.barrier in BARRIERS:
        joins = effects.synchronises is not None
        return f"barrier {'sync' if joins else 'wait' if effects.arrives is None else 'arrive'}"
    if effects.barrier is Barrier.GRIDS:
        return "pdl wait" if effects.arrives is None else "pdl launch"
    if effects.barrier is Barrier.MBARRIER:
        return "wait" if effects.arrives is None else "arrive"
    if effects.expects or effects.completes:
        return "expect" if effects.expects else "complete"
    if effects.commits is not None or effects.waits is not None:
        return "commit" if effects.waits is None else "wait group"
    return "copy" if effects.transacts else _KINDS.get(effects.fence or effects.resource, "")


def _issued(form: Form) -> str:
    """The kind of an asynchronous operation: ``mma`` if it has the roles ``b`` and ``d``, or ``copy``; else empty."""
    if form.effects.begins in (*TENSOR_MEMORY, ENDLESS):
        return ""
    if "b" in form.roles and "d" in form.roles:
        return "mma"
    return "copy" if "*" in "".join((*form.async_reads, *form.async_writes)) else ""


def _warps(threads: int) -> Iterator[int]:
    return (w for w in range((threads.bit_length() + 31) // 32) if threads >> 32 * w & 0xFFFFFFFF)
