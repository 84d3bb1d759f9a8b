"""What instructions do, apart from their spelling: the meaning that every analysis and both machines ask for.

A form of the table has one :class:`Effects`, which its keys ``event`` and ``group`` select; a match adds what its modifiers
say (:attr:`~tclint.isa.forms.Match.order`, :attr:`~tclint.isa.forms.Match.order_scope`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple

__all__ = [
    "BARRIERS",
    "BULK",
    "CP_ASYNC",
    "ENDLESS",
    "ENGINES",
    "FABRIC",
    "GENERIC_COPIES",
    "GROUPED",
    "INERT",
    "NO_ENGINE",
    "SELF_AWAITED",
    "TCGEN05",
    "TCGEN05_ALL",
    "TCGEN05_LD",
    "TCGEN05_ST",
    "TENSOR_MEMORY",
    "TRANSACTIONS",
    "WGMMA",
    "Barrier",
    "Effects",
    "Engine",
    "Exchange",
    "Fence",
    "Order",
    "Query",
    "Resource",
    "Words",
    "effects_of",
    "groups_left",
    "spelled_order",
    "spelled_scope",
]


class Words(NamedTuple):
    """How reports name the operations of an engine, and the instructions by which their thread waits for them."""

    operation: str = ""
    wait: str = ""
    """Without its modifiers, as the others; empty if a thread does not wait for the operations by itself."""
    read: str = ""
    """The wait for the sources alone."""
    whole: str = ""
    """The wait that needs no commit."""
    commit: str = ""
    modifiers: str = ""
    """Those of a commit and a wait."""
    scope: str = ""
    """The threads that execute a commit and a wait together, if each thread does not by itself."""
    hazard: str = ""
    """The class of hazards that a wait prevents, as in verdicts."""
    observed: str = ""
    """What to do so that other threads can observe that an operation has completed."""

    @property
    def enough(self) -> str:
        """The weakest wait after which memory and registers that the operations read may be written."""
        return self.read or self.wait

    @property
    def commit_statement(self) -> str:
        """What precedes :attr:`wait_statement`; empty if nothing has to."""
        return "" if self.whole else f"{self.commit}{self.modifiers};"

    @property
    def wait_statement(self) -> str:
        """The wait for all operations."""
        return f"{self.whole};" if self.whole else f"{self.enough}{self.modifiers} 0;"


class Engine(str):
    """What executes asynchronous operations, and thereby how a thread learns that they are complete.

    It is its own name: ``wgmma``, in reports too.
    """

    __slots__ = ()

    @property
    def words(self) -> Words:
        """How reports name what it executes."""
        return _WORDS.get(self, _NO_WORDS)


WGMMA = Engine("wgmma")
"""Groups, and ``wgmma.wait_group`` (9.7.15.7)."""
CP_ASYNC = Engine("cp.async")
"""Groups, and ``cp.async.wait_group`` (9.7.9.25.3.3), or ``cp.async.mbarrier.arrive`` (9.7.13.15.15)."""
BULK = Engine("bulk")
"""Bulk groups, and ``cp.async.bulk.wait_group`` (9.7.9.27.2)."""
FABRIC = Engine("fabric")
"""Groups of ``fabric`` operations, and ``fabric.wait``."""
TRANSACTIONS = Engine("mbarrier")
"""An mbarrier, which counts the bytes of the operation."""
TCGEN05 = Engine("tcgen05")
"""``tcgen05.commit`` and an mbarrier (9.7.16.12.1)."""
TCGEN05_LD = Engine("tcgen05.ld")
"""``tcgen05.wait::ld`` (9.7.16.8.5)."""
TCGEN05_ST = Engine("tcgen05.st")
"""``tcgen05.wait::st`` (9.7.16.8.5)."""
ENDLESS = Engine("none")
"""Nothing but the end of the CTA: stores that release by themselves."""
NO_ENGINE = Engine("")
"""That of an instruction which has to do with none."""
TENSOR_MEMORY = (TCGEN05_LD, TCGEN05_ST)
"""What moves registers to and from tensor memory."""
GENERIC_COPIES = (CP_ASYNC,)
"""What copies through the generic proxy, for the thread that commits its copies and waits for them."""
TCGEN05_ALL = (TCGEN05, *TENSOR_MEMORY)
"""What accesses tensor memory."""

ENGINES = {
    str(engine): engine
    for engine in (
        WGMMA, CP_ASYNC, BULK, FABRIC, TRANSACTIONS, TCGEN05, TCGEN05_LD, TCGEN05_ST, ENDLESS,
    )
}  # fmt: skip
"""Every engine by its name."""
_WORDS = {
    WGMMA: Words(
        "wgmma.mma_async", "wgmma.wait_group", commit="wgmma.commit_group", modifiers=".sync.aligned", scope="warpgroup",
        hazard="wgmma",
        observed="wait for its group (wgmma.wait_group), then let those threads arrive at an mbarrier",
    ),
    CP_ASYNC: Words(
        "cp.async", "cp.async.wait_group", whole="cp.async.wait_all", commit="cp.async.commit_group", hazard="cp-async",
        observed="wait for it (cp.async.wait_group), then let that thread arrive at an mbarrier, or let an mbarrier track it"
        " (cp.async.mbarrier.arrive)",
    ),
    BULK: Words(
        "bulk copy of a bulk group", "cp.async.bulk.wait_group", read="cp.async.bulk.wait_group.read",
        commit="cp.async.bulk.commit_group", hazard="bulk",
        observed="wait until its source has been read (cp.async.bulk.wait_group.read), then let that thread arrive at an mbarrier",
    ),
    TRANSACTIONS: Words(observed="use the mbarrier on which the copy completes"),
    TCGEN05: Words(observed="commit that operation to an mbarrier (tcgen05.commit)"),
    TCGEN05_LD: Words(
        "tcgen05.ld", "tcgen05.wait::ld", hazard="tcgen05-ldst",
        observed="let those threads arrive at an mbarrier after tcgen05.wait::ld",
    ),
    TCGEN05_ST: Words(
        "tcgen05.st", "tcgen05.wait::st", hazard="tcgen05-ldst",
        observed="let those threads arrive at an mbarrier after tcgen05.wait::st",
    ),
}  # fmt: skip
_NO_WORDS = Words()
SELF_AWAITED = tuple(engine for engine in ENGINES.values() if engine.words.wait)
"""Those for whose operations the thread that has begun them waits by itself."""
GROUPED = tuple(engine for engine in SELF_AWAITED if engine.words.commit)
"""Those of them that need a commit."""


class Barrier(Enum):
    """What threads arrive at and wait for."""

    MBARRIER = "mbarrier"
    CTA = "CTA barrier"
    """One of the 16 of the CTA (9.7.13.1)."""
    WARP = "warp barrier"
    """``bar.warp.sync`` (9.7.13.2)."""
    CLUSTER = "cluster barrier"
    """``barrier.cluster`` (9.7.13.3)."""
    GRIDS = "grids"
    """The end of earlier grids, and the launch of dependent ones (9.7.13.13)."""


class Fence(Enum):
    """What a fence orders."""

    MEMORY = "memory"
    """Accesses to memory before and after it (9.7.13.4)."""
    PROXY = "proxy"
    """Accesses through one proxy and those through another."""
    REGISTERS = "registers"
    """Accesses to registers and the ``wgmma`` operations that read and write them (9.7.15.7.1)."""
    TCGEN05_BEFORE = "tcgen05 before"
    """Earlier ``tcgen05`` operations and what synchronises the thread with others (9.7.16.11.1)."""
    TCGEN05_AFTER = "tcgen05 after"


class Exchange(Enum):
    """What lanes of a warp compute together (9.7.9.6, 9.7.13.9 to 9.7.13.14)."""

    ELECT = "elect"
    VOTE = "vote"
    SHUFFLE = "shuffle"
    MATCH = "match"
    REDUCTION = "redux"


class Resource(Enum):
    """What an instruction makes, ends, takes or gives up."""

    MBARRIER_INIT = "mbarrier-init"
    MBARRIER_INVAL = "mbarrier-inval"
    TMEM_ALLOC = "tmem-alloc"
    TMEM_DEALLOC = "tmem-dealloc"
    TMEM_RELINQUISH = "tmem-relinquish"
    """The right to allocate tensor memory."""
    REGISTERS = "setmaxnreg"


class Query(Enum):
    """What an instruction asks for without an access that the table describes."""

    CANCEL = "clc-request"
    """The cancellation of a cluster that is not launched yet (9.7.13.17): its response is written later."""
    CANCELLED = "clc-query"
    PENDING_COUNT = "mbarrier-pending"


class Order(Enum):
    """The memory order of an access, an arrival, a wait or a fence (8.6 to 8.8)."""

    WEAK = "weak"
    """It orders nothing."""
    RELAXED = "relaxed"
    VOLATILE = "volatile"
    """Relaxed at the scope of the system, and always performed (8.4)."""
    ACQUIRE = "acquire"
    RELEASE = "release"
    BOTH = "acq_rel"
    SC = "sc"

    @property
    def acquires(self) -> bool:
        return self in (Order.ACQUIRE, Order.BOTH, Order.SC)

    @property
    def releases(self) -> bool:
        return self in (Order.RELEASE, Order.BOTH, Order.SC)


_SPELLED = {f".{order.value}": order for order in Order}
_SCOPES = {".cta": "cta", ".cluster": "cluster", ".gpu": "gpu", ".gl": "gpu", ".sys": "sys"}


def spelled_order(modifiers: Iterable[str]) -> Order | None:
    """The memory order that an opcode states; None if it states none."""
    return next((_SPELLED[m] for m in modifiers if m in _SPELLED), None)


def spelled_scope(modifiers: Iterable[str]) -> str:
    """The scope of the memory order that an opcode states (8.5): ``cta``, ``cluster``, ``gpu``, ``sys`` or empty."""
    return next((_SCOPES[m] for m in modifiers if m in _SCOPES), "")


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of a form, apart from its accesses. What it does not do is None."""

    begins: Engine | None = None
    """It begins an operation, whose accesses happen later."""
    submits: Engine | None = None
    """What its thread has begun is handed over (``fabric.submit``), without a group."""
    commits: Engine | None = None
    """What its thread has begun becomes a group; that of ``tcgen05`` arrives at an mbarrier when it is complete."""
    waits: Engine | None = None
    """Its thread continues when operations are complete."""
    sources: bool = False
    """What it waits for, or what its commit tracks, are the sources alone: the operations have read them."""
    tracks: Engine | None = None
    """Its arrival takes place when the operations that its thread has begun are complete."""
    arrives: Barrier | None = None
    """Its thread arrives. A commit does not count as one."""
    awaits: Barrier | None = None
    """It waits for a phase, or tests it."""
    expects: bool = False
    """It raises the bytes that a phase of an mbarrier lacks, and does not arrive."""
    completes: bool = False
    """It lowers them, by itself."""
    fence: Fence | None = None
    """It is a fence, and orders this."""
    resource: Resource | None = None
    """It makes, ends, takes or gives up this."""
    exchange: Exchange | None = None
    """Lanes compute this together."""
    query: Query | None = None
    """It asks for this."""

    @property
    def barrier(self) -> Barrier | None:
        """That at which its thread arrives, or for which it waits; with :attr:`synchronises` it does both."""
        return self.arrives or self.awaits

    @property
    def arrival(self) -> Barrier | None:
        """That of which a phase lacks one arrival less: now, or when what it commits is complete."""
        return Barrier.MBARRIER if self.commits is TCGEN05 else self.arrives

    @property
    def awaits_threads(self) -> bool:
        """Whether its thread continues when others have arrived, or tests that: at an mbarrier or a barrier."""
        return self.awaits in _ORDERING

    @property
    def may_block(self) -> bool:
        """Whether its thread may have to wait there, or tests in a loop whether it has to, until others have done something:
        arrived, ended, or given up what it takes. A wait for operations of its own thread is none."""
        return self.awaits is not None or self.resource in _TAKEN

    @property
    def at_barrier(self) -> bool:
        """Whether its thread arrives at a barrier that is no mbarrier: of a warp, the CTA or the cluster."""
        return self.arrives in BARRIERS

    @property
    def signals(self) -> bool:
        """Whether others may learn by it how far its thread has come: it arrives, or completes bytes by itself."""
        return self.completes or self.arrives_for_threads

    @property
    def arrives_for_threads(self) -> bool:
        """Whether its thread arrives where threads of the cluster wait: at an mbarrier or a barrier."""
        return self.arrives in _ORDERING

    @property
    def changes_phase(self) -> bool:
        """Whether it changes what a phase of an mbarrier lacks, now or when what it commits is complete."""
        return self.expects or self.completes or self.arrival is Barrier.MBARRIER

    @property
    def only_accesses(self) -> bool:
        """Whether it does nothing but access registers and memory, now or later."""
        return self is INERT or self == Effects(begins=self.begins)

    @property
    def transacts(self) -> bool:
        """Whether the operation that it begins completes bytes of a phase of an mbarrier when it is done."""
        return self.begins is TRANSACTIONS or self.query is Query.CANCEL

    @property
    def until_phase(self) -> bool:
        """Whether the operation that it begins is complete when a phase of an mbarrier is: by its bytes, or by a commit."""
        return self.transacts or self.begins is TCGEN05

    @property
    def arrives_later(self) -> bool:
        """Whether it arrives at an mbarrier when what its thread has begun is complete: a commit of ``tcgen05``."""
        return self.arrives is None and self.arrival is not None

    @property
    def publishes(self) -> bool:
        """Whether others may learn by it, or by what follows it, what its thread has done before.

        It arrives or changes a phase, now or later, hands on operations, a request, or memory, or is a fence that a
        signal may follow. A fence of registers or proxies is none of these, nor is what a thread waits for or takes.
        """
        return (
            self.arrives is not None
            or self.changes_phase
            or self.commits is not None
            or self.submits is not None
            or self.query is Query.CANCEL
            or self.fence in (Fence.MEMORY, Fence.TCGEN05_BEFORE)
            or self.resource in (Resource.MBARRIER_INVAL, Resource.TMEM_DEALLOC)
        )

    @property
    def bounds_mbarrier(self) -> bool:
        """Whether it makes an mbarrier, or ends it; whatever else names one needs it in between."""
        return self.resource in _BOUNDS

    @property
    def exchanges(self) -> bool:
        """Whether lanes get what is computed from the operands of others."""
        return self.exchange is not None and self.exchange is not Exchange.ELECT

    @property
    def manages_tensor_memory(self) -> bool:
        """Whether it allocates or frees tensor memory, or gives up the right to (9.7.16.7.1)."""
        return self.resource in _OF_TENSOR_MEMORY

    @property
    def order(self) -> Order:
        """The memory order, where the opcode states none (9.7.13.1 to 9.7.13.4, 9.7.13.15)."""
        if self.fence is Fence.MEMORY or self.synchronises is not None:
            return Order.BOTH
        if self.expects or self.completes:
            return Order.RELAXED
        if self.arrives in _ORDERING and self.tracks is None:
            return Order.RELEASE
        return Order.ACQUIRE if self.awaits in _ORDERING else Order.WEAK

    @property
    def synchronises(self) -> Barrier | None:
        """That at which its thread arrives and then waits: ``bar.sync``."""
        return self.arrives if self.arrives is self.awaits else None


_ORDERING = (Barrier.MBARRIER, Barrier.CTA, Barrier.WARP, Barrier.CLUSTER)
"""The barriers that order memory by themselves."""
_BOUNDS = (Resource.MBARRIER_INIT, Resource.MBARRIER_INVAL)
BARRIERS = (Barrier.CTA, Barrier.WARP, Barrier.CLUSTER)
"""Those that are no mbarriers, and at which threads of one CTA or cluster wait for each other."""
_TAKEN = (Resource.TMEM_ALLOC, Resource.REGISTERS)
"""What others may have."""
_OF_TENSOR_MEMORY = (Resource.TMEM_ALLOC, Resource.TMEM_DEALLOC, Resource.TMEM_RELINQUISH)
INERT = Effects()
"""The effects of an instruction that has none beside its accesses."""

_OF_EVENT = {
    "register-fence": Effects(fence=Fence.REGISTERS),
    "tmem-alloc": Effects(resource=Resource.TMEM_ALLOC),
    "tmem-dealloc": Effects(resource=Resource.TMEM_DEALLOC),
    "tmem-relinquish": Effects(resource=Resource.TMEM_RELINQUISH),
    "tcgen05-fence-before": Effects(fence=Fence.TCGEN05_BEFORE),
    "tcgen05-fence-after": Effects(fence=Fence.TCGEN05_AFTER),
    "mbarrier-init": Effects(resource=Resource.MBARRIER_INIT),
    "mbarrier-inval": Effects(resource=Resource.MBARRIER_INVAL),
    "mbarrier-expect": Effects(expects=True),
    "mbarrier-complete": Effects(completes=True),
    "mbarrier-wait": Effects(awaits=Barrier.MBARRIER),
    "mbarrier-pending": Effects(query=Query.PENDING_COUNT),
    "barrier-wait": Effects(awaits=Barrier.CLUSTER),
    "proxy-fence": Effects(fence=Fence.PROXY),
    "memory-fence": Effects(fence=Fence.MEMORY),
    "elect": Effects(exchange=Exchange.ELECT),
    "vote": Effects(exchange=Exchange.VOTE),
    "shuffle": Effects(exchange=Exchange.SHUFFLE),
    "match": Effects(exchange=Exchange.MATCH),
    "redux": Effects(exchange=Exchange.REDUCTION),
    "setmaxnreg": Effects(resource=Resource.REGISTERS),
    "pdl-wait": Effects(awaits=Barrier.GRIDS),
    "pdl-launch": Effects(arrives=Barrier.GRIDS),
    "clc-request": Effects(query=Query.CANCEL),
    "clc-query": Effects(query=Query.CANCELLED),
}
"""Event -> effects, where they do not depend on the group."""


def effects_of(event: str, group: str, scope: str, completion: str) -> Effects:
    """The effects of a form with these keys; *scope* says which threads execute it together."""
    engine = ENGINES.get(group)
    match event:
        case "issue":
            return Effects(begins=engine)
        case "submit":
            return Effects(submits=engine)
        case "commit":
            return Effects(commits=engine, sources=completion == "read")
        case "wait":
            return Effects(waits=engine, sources=completion == "read")
        case "mbarrier-arrive":
            return Effects(arrives=Barrier.MBARRIER, tracks=engine)
        case "barrier-arrive":
            return Effects(arrives=Barrier.CLUSTER if group == "cluster" else Barrier.CTA)
        case "barrier-sync":
            barrier = Barrier.WARP if scope == "lanes" else Barrier.CTA
            return Effects(arrives=barrier, awaits=barrier)
    return _OF_EVENT.get(event, INERT)


_MOST_GROUPS_LEFT = {WGMMA: 7}
"""The most groups of an engine that a wait leaves pending, where its instruction has no six bits for the number."""


def groups_left(engine: Engine, number: int) -> int | None:
    """The groups of *engine* that ``wait_group`` *number* leaves pending; None if unknown.

    By the manual, at most *number* (9.7.9.25.3.3, 9.7.9.27.2.2, 9.7.15.7.3). The instructions of the hardware have six
    bits for it, and three for ``wgmma``: ptxas 12.4 and 13.5 make the largest such number of a larger one. A negative one
    is not PTX; ptxas 13.5 accepts it, and targets differ: of -64 it makes 0 on sm_80 to sm_89, and 63 from sm_90 on.
    """
    return min(number, _MOST_GROUPS_LEFT.get(engine, 63)) if 0 <= number < 1 << 31 else None
