"""Accepts or refuses a certificate that one thread separates its accesses through different proxies (PTX ISA 8.6).

The obligations are the pairs of accesses that one thread may execute one after the other, that go through different
proxies, may be of the same memory, and of which one writes. Three kinds of pairs differ in what separates them:

**Fenced.** The first access is through the generic proxy and the second one through the async proxy: a
``fence.proxy.async`` for its state space is executed after the first one and before the second one (9.7.13.4). It counts
only when the first access has been performed: after the wait for a ``cp.async``. A ``tcgen05.mma`` or ``cp`` reads shared
memory through the async proxy, and no fence is implied when it completes (9.7.16.6.5): a fence is needed before the thread
writes, after a wait or a barrier that follows the commit. Whether that wait is for that commit is not decided here.

**Published.** A write through the generic proxy, and the use of a tensor map: a fence that releases, followed by one that
acquires the map that is used.

**Never.** No fence orders the two: a tensor map that is used and then written, or written by a copy, and what other
proxies (textures, surfaces, the fabric) have in common with ordinary memory.

After any other operation through the async proxy, a fence is implied when it completes (9.7.9.25.2, 9.7.15.4); that the
thread waits for it is not decided here. What operations on an mbarrier access is not data: only ``mbarrier.inval`` ends
that. What ``tcgen05.alloc`` writes is an address for loads: whatever reads its location through the async proxy needs what
has been written there since, in an access with an obligation of its own. ``.nc`` loads read what the kernel never writes. A call may read and write everything.

**Transfer.** Nothing but a fence ends a fact, and a guarded fence may not be executed. The unidirectional fences between
threads (``.sync_restrict``) separate nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.findings.verdicts import Discharge
from tclint.ir.nodes import Function, Instruction
from tclint.isa.accesses import Access as Made
from tclint.isa.accesses import Proxy, StateSpace, Via
from tclint.isa.effects import GENERIC_COPIES, TCGEN05, Fence, Resource
from tclint.sync.operations import OPEN
from tclint.verdicts.checker import CompletionTransfer, Graph, Refused

__all__ = [
    "FENCED",
    "NEVER",
    "PUBLISHED",
    "READY",
    "OperandAccess",
    "ProxyCertificate",
    "ProxyFenced",
    "ProxyPair",
    "ProxyQuestions",
    "UnfencedAccess",
    "accesses",
    "check_proxies",
    "concerns",
    "conflicts",
    "pairs",
    "published",
]

READY = -2
"""The access has been performed: a fence orders it."""
NARROW = -3
"""A fence for the shared memory of the CTA has followed, but the access may be in that of another CTA."""
ISSUED, COMMITTED = -4, -5
"""A tensor core operation that reads shared memory, and one that a commit tracks."""
ALLOCATED = -7
"""The address that an allocation of tensor memory writes, which is performed."""
STUCK = -6
"""An asynchronous access for which no wait is known."""
FENCED, PUBLISHED, NEVER = "fenced", "published", "never"
_MEMORIES = StateSpace.SHARED, StateSpace.GLOBAL
"""Where accesses through different proxies may meet."""


class OperandAccess(NamedTuple):
    """What an instruction accesses through one operand."""

    proxy: Proxy
    memory: StateSpace
    """``SHARED`` or ``GLOBAL``: an access by a generic address is one of each."""
    writes: bool
    operand: str = ""
    """The operand with the address; empty for what a tensor map or a callee addresses."""
    own: bool = False
    """Whether it is certainly in the shared memory of the CTA itself."""
    start: int = READY
    """The stage of its fact when the instruction has been executed."""
    later: bool = False
    extent: int | str = ""
    """How many bytes it has (:attr:`tclint.isa.accesses.Access.extent`); empty also if other lanes give the addresses."""


class ProxyPair(NamedTuple):
    """Two accesses, ``operation`` before ``use``, that must be separated."""

    operation: int
    use: int
    memory: StateSpace
    what: str
    """``FENCED``, ``PUBLISHED`` or ``NEVER``."""


class UnfencedAccess(NamedTuple):
    """An access that no fence has separated from later ones."""

    site: int
    memory: StateSpace
    stage: int
    """``READY`` and the like; of a ``cp.async``, its age while it is in flight."""


State = frozenset[UnfencedAccess]


@dataclass(frozen=True)
class ProxyCertificate:
    """The claims of a proof."""

    unfenced: Sequence[State]
    """What may not be fenced at the entry of each block."""
    claims: Mapping[ProxyPair, Discharge]


class ProxyQuestions(NamedTuple):
    """What the checker asks others, since it knows no values; True is a proof."""

    infeasible: Callable[[ProxyPair, ProxyFenced], bool]
    """Whether no feasible path leads from the one access to the other on which they are not separated."""
    disjoint: Callable[[ProxyPair, Sequence[State]], bool]
    """Whether the two have no byte in common, given what may not be fenced at the entry of each block."""
    acquires: Callable[[int, int], bool]
    """Whether a fence acquires the tensor map that an instruction uses."""


# ---------------------------------------------------------------- accesses


def accesses(instruction: Instruction) -> tuple[OperandAccess, ...]:
    """What *instruction* accesses in shared and global memory, now or later."""
    if instruction.flow == "call":
        return tuple(OperandAccess(Proxy.GENERIC, memory, True) for memory in _MEMORIES)
    if instruction.match is None or instruction.match.modes.read_only:
        return ()
    objects = instruction.effects.resource is Resource.MBARRIER_INVAL
    found = (a for a in instruction.accesses if objects or not a.object)
    return tuple(
        OperandAccess(
            a.proxy, memory, a.writes, "" if a.via is Via.MAP else a.operand, a.own,
            _start(instruction, a, memory), a.later, "" if a.rows else a.extent,
        )
        for a in found
        for memory in _MEMORIES
        if a.space in (memory, StateSpace.GENERIC)
    )  # fmt: skip


def _start(instruction: Instruction, access: Made, memory: StateSpace) -> int:
    """The stage of an access when *instruction* has been executed."""
    effects = instruction.effects
    if effects.resource is Resource.TMEM_ALLOC and memory is StateSpace.SHARED:
        return ALLOCATED
    if not access.later:
        return READY
    if access.proxy is Proxy.GENERIC:
        return OPEN if effects.begins in GENERIC_COPIES else STUCK
    return ISSUED if effects.begins == TCGEN05 else READY


def concerns(instruction: Instruction) -> bool:
    """Whether an obligation may be about *instruction*: it orders proxies, or accesses memory later or through another proxy
    than the generic one."""
    found = accesses(instruction) if instruction.flow != "call" else ()
    return instruction.effects.fence is Fence.PROXY or any(
        each.proxy is not Proxy.GENERIC or each.start not in (READY, ALLOCATED) for each in found
    )


def conflicts(
    first: Iterable[OperandAccess], then: Iterable[OperandAccess]
) -> Iterator[tuple[StateSpace, str, OperandAccess, OperandAccess]]:
    """The accesses of one instruction that must be separated from accesses of a later one, and by what."""
    for a, b in product(first, then):
        if a.memory is b.memory and a.proxy is not b.proxy and (a.writes or b.writes):
            what = _separated_by(a, b)
            if what:
                yield a.memory, what, a, b


def _separated_by(a: OperandAccess, b: OperandAccess) -> str:
    """What must separate two accesses through different proxies; empty if the completion of the first one does."""
    if (a.proxy, b.proxy) == (Proxy.GENERIC, Proxy.ASYNC):
        return "" if a.start == ALLOCATED and not b.writes else FENCED
    if (a.proxy, b.proxy) == (Proxy.ASYNC, Proxy.GENERIC):
        return FENCED if a.start == ISSUED else ""
    return PUBLISHED if (a.proxy, b.proxy) == (Proxy.GENERIC, Proxy.MAP) else NEVER


# ---------------------------------------------------------------- transfer


def _begun(site: int, found: Iterable[OperandAccess]) -> Iterator[UnfencedAccess]:
    for access in found:
        if access.proxy is Proxy.GENERIC or access.start == ISSUED:
            yield UnfencedAccess(site, access.memory, access.start)


def _is_of_maps(instruction: Instruction) -> bool:
    match = instruction.match
    return match is not None and match.form.effects.fence is Fence.PROXY and match.form.proxy == "tensormap"


class ProxyFenced:
    """What may not be fenced after an instruction, given what may not be before it."""

    def __init__(self, function: Function, reachable: Iterable[range]) -> None:
        self.instructions = function.instructions
        blocks = list(reachable)
        self.accesses = {i: found for b in blocks for i in b if (found := accesses(self.instructions[i]))}
        """The instructions that access memory, each with its accesses."""
        self.copies = CompletionTransfer(function, GENERIC_COPIES, [i for block in blocks for i in block])
        self.begun = {i: frozenset(_begun(i, found)) for i, found in self.accesses.items()}
        """The facts that begin when an instruction is executed."""
        self.affecting = frozenset(
            i
            for block in blocks
            for i in block
            if self.begun.get(i) or i in self.copies.affecting or self._ends(self.instructions[i])
        )
        """The instructions that can change a state."""
        self.of_maps = [i for block in blocks for i in block if _is_of_maps(self.instructions[i])]
        """The fences between other proxies and that of tensor maps."""

    @staticmethod
    def _ends(instruction: Instruction) -> bool:
        effects = instruction.effects
        return effects.awaits_threads or effects.fence is Fence.PROXY or effects.commits == TCGEN05

    def after(self, state: State, at: int) -> State:
        """The state after instruction *at*, whose guard may be true or false."""
        after = self.executed(state, at)
        return state | after if self.instructions[at].guard >= 0 else after

    def executed(self, state: State, at: int) -> State:
        """The state after an instruction whose guard is true."""
        if at not in self.affecting:
            return state
        instruction = self.instructions[at]
        if state:
            state = frozenset(self._follow(state, at, instruction))
        return state.union(self.begun.get(at, ()))

    def _follow(self, state: State, at: int, instruction: Instruction) -> Iterator[UnfencedAccess]:
        """The facts of *state* after an instruction."""
        for fact in state:
            yield from (fact._replace(stage=stage) for stage in self._stages(fact, at, instruction))

    def _stages(self, fact: UnfencedAccess, at: int, instruction: Instruction) -> Iterable[int]:
        """The stages of an access after an instruction; none if it is separated from all that follows."""
        effects, stage = instruction.effects, fact.stage
        if stage >= OPEN and instruction.group in GENERIC_COPIES:
            after = self.copies.stage(stage, at, instruction)
            return (READY if after is None else after,)
        if stage == ISSUED and effects.commits == TCGEN05:
            return (COMMITTED if self._tracks(instruction, fact.site) else stage,)
        if stage == COMMITTED and effects.awaits_threads:
            return (READY,)
        if stage in (READY, NARROW, ALLOCATED) and effects.fence is Fence.PROXY:
            return self._fenced(fact, instruction)
        return (stage,)

    def _tracks(self, commit: Instruction, operation: int) -> bool:
        """Whether a commit tracks an operation that was issued before: for one CTA, or for a pair (9.7.16.12.1)."""
        one, other = commit.match, self.instructions[operation].match
        if one is None or other is None:
            return False
        return one.binding.get("cta_group") == other.binding.get("cta_group")

    def _fenced(self, fact: UnfencedAccess, fence: Instruction) -> Iterable[int]:
        """The stages of an access that has been performed, after a fence."""
        match = fence.match
        assert match is not None
        if match.form.proxy != "async" or match.restricted:
            return (fact.stage,)
        space = match.space
        if space and not space.startswith(f".{fact.memory.value}"):
            return (fact.stage,)
        if match.own_shared and not self.own(fact.site):
            return (NARROW,)
        return ()

    def own(self, site: int) -> bool:
        """Whether what an instruction accesses in shared memory is certainly in that of the CTA itself."""
        return all(a.own for a in self.accesses[site] if a.memory is StateSpace.SHARED)

    def kinds(self) -> Iterator[tuple[StateSpace, str, list[int], list[int]]]:
        """Instructions with equal accesses, and those whose accesses must be separated from theirs."""
        kinds: dict[tuple[OperandAccess, ...], list[int]] = {}
        for site, found in sorted(self.accesses.items()):
            kinds.setdefault(found, []).append(site)
        for (first, firsts), (then, uses) in product(kinds.items(), repeat=2):
            for memory, what in {(memory, what) for memory, what, _, _ in conflicts(first, then)}:
                yield memory, what, firsts, uses

    def separated(self, pair: ProxyPair, state: State) -> bool:
        """Whether a fence separates the two accesses on every path, given what may not be fenced before the use."""
        return all(
            fact.stage == NARROW and self.own(pair.use)
            for fact in state
            if fact.site == pair.operation and fact.memory is pair.memory
        )


# ---------------------------------------------------------------- obligations


def pairs(fences: ProxyFenced, graph: Graph) -> Iterator[ProxyPair]:
    """The pairs of accesses that must be separated, and that may be executed one after the other, by the graph alone."""
    block_of = {i: b for b in graph.reached((0,)) for i in graph.blocks[b]}
    after = {
        b: graph.reached(edge.target for edge in graph.successors[b])
        for b in {block_of[site] for site in fences.accesses}
    }
    for memory, what, firsts, uses in fences.kinds():
        for first in firsts:
            here = block_of[first]
            for use in uses:
                there = block_of[use]
                if there in after[here] or (here == there and first < use):
                    yield ProxyPair(first, use, memory, what)


def check_proxies(
    function: Function, graph: Graph, certificate: ProxyCertificate, questions: ProxyQuestions
) -> frozenset[ProxyPair]:
    """The obligations of *function*, all of which *certificate* proves.

    Raises :class:`~tclint.verdicts.checker.Refused` if it does not.
    """
    order = sorted(graph.reached((0,)))
    fences = ProxyFenced(function, [graph.blocks[b] for b in order])
    needed = frozenset(pairs(fences, graph))
    if extra := certificate.claims.keys() - needed:
        raise Refused(
            min(p.use for p in extra), "the certificate claims an obligation that the kernel does not have"
        )
    by_use: dict[int, list[ProxyPair]] = {}
    for pair in needed:
        by_use.setdefault(pair.use, []).append(pair)
    for b in order:
        state = certificate.unfenced[b]
        for i in graph.blocks[b]:
            for pair in by_use.get(i, ()):
                if not _holds(pair, state, graph, fences, certificate, questions):
                    raise Refused(pair.use, "nothing proves that a fence separates the two proxies")
            state = fences.after(state, i)
        for edge in graph.successors[b]:
            if not state <= certificate.unfenced[edge.target]:
                raise Refused(
                    graph.blocks[b][-1],
                    "the certificate omits an access that no fence follows after this block",
                )
    return needed


def _holds(
    pair: ProxyPair,
    state: State,
    graph: Graph,
    fences: ProxyFenced,
    certificate: ProxyCertificate,
    questions: ProxyQuestions,
) -> bool:
    claimed = certificate.claims.get(pair)
    if claimed is Discharge.FENCED:
        if pair.what == FENCED:
            return fences.separated(pair, state)
        return pair.what == PUBLISHED and published(pair, graph, fences, questions.acquires)
    if claimed is Discharge.DISJOINT:
        return questions.disjoint(pair, certificate.unfenced)
    return claimed is Discharge.INFEASIBLE and questions.infeasible(pair, fences)


def published(
    pair: ProxyPair, graph: Graph, fences: ProxyFenced, acquires: Callable[[int, int], bool]
) -> bool:
    """Whether the write of a tensor map is released, and then the map acquired, on every path to its use."""
    releases, acquiring = _map_fences(pair, fences, acquires)
    if not releases or not acquiring:
        return False
    first = next(b for b, block in enumerate(graph.blocks) if pair.operation in block)
    released = pair.operation in releases
    work, seen = [(first, pair.operation + 1, released)], set[tuple[int, int, bool]]()
    while work:
        here = work.pop()
        if here in seen:
            continue
        seen.add(here)
        b, start, released = here
        for i in range(start, graph.blocks[b].stop):
            if i == pair.use:
                return False
            if i in acquiring and released:
                break
            released = released or i in releases
        else:
            work += [(edge.target, graph.blocks[edge.target].start, released) for edge in graph.successors[b]]
    return True


def _map_fences(
    pair: ProxyPair, fences: ProxyFenced, acquires: Callable[[int, int], bool]
) -> tuple[set[int], set[int]]:
    """The fences without guards that release tensor maps, and those that acquire the one of the use."""
    releases, acquiring = set[int](), set[int]()
    for i in fences.of_maps:
        instruction = fences.instructions[i]
        assert instruction.match is not None
        if i == pair.operation:
            releases.add(i)  # it releases what it copies itself, and nothing else
        elif instruction.guard >= 0 or instruction.match.form.memory:
            continue
        elif "tensormap" not in instruction.match.form.roles:
            releases.add(i)
        elif acquires(i, pair.use):
            acquiring.add(i)
    return releases, acquiring
