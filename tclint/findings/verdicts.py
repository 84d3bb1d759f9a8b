"""What is known of one class of hazards in one kernel: violated, proved, bounded or unknown.

A class is a kind of guarantee that a kernel needs, such as "registers of a ``wgmma`` are not accessed before it has
completed". The absence of findings says nothing about it. *Proved* needs a list of obligations, each with what
discharges it, which a checker of its own has accepted.
"""

from __future__ import annotations

from enum import Enum

from tclint._dataclass import dataclass
from tclint.findings.spans import Span

__all__ = [
    "LIMITS",
    "UNEXECUTED",
    "Assumption",
    "Decided",
    "Discharge",
    "Executed",
    "HazardClass",
    "Obligation",
    "Reason",
    "Status",
    "Verdict",
]


class HazardClass(Enum):
    """A class of hazards; the value is its name in options and in output."""

    WGMMA = "wgmma"
    """Registers of ``wgmma.mma_async`` are accessed only when it has completed (PTX ISA 9.7.15.7)."""
    TMEM_ACCESS = "tcgen05-ldst"
    """Registers and columns of ``tcgen05.ld`` and ``tcgen05.st`` are used only after ``tcgen05.wait`` (9.7.16.6.4)."""
    TCGEN05_MMA = "tcgen05-mma"
    """The issuing thread waits for its ``tcgen05.mma``, ``cp`` and ``shift`` before it relies on them, or leaves that to others
    (9.7.16.6)."""
    CP_ASYNC = "cp-async"
    """A thread waits for its ``cp.async`` before it, or a thread in step with it, accesses the bytes (9.7.9.25.3)."""
    BULK = "bulk"
    """A thread waits for its bulk groups before it overwrites their sources, reads their results or exits (9.7.9.27.2).

    A copy that completes on an mbarrier is in no group; that a read of its result is ordered after it is
    :attr:`SHARED_MEMORY`.
    """
    PROXIES = "proxies"
    """A thread executes a proxy fence between accesses of one location through two proxies (8.6)."""
    CONVERGENCE = "convergence"
    """All threads that an ``.aligned`` or collective instruction requires execute it together (9.7.13.1)."""
    SHARED_MEMORY = "shared-memory"
    """Accesses of different threads to shared memory are ordered (8.7.1)."""
    TENSOR_MEMORY = "tensor-memory"
    """Accesses of different threads to tensor memory are ordered (9.7.16.6)."""
    MBARRIER = "mbarrier"
    """mbarriers are initialised, their phases are not mistaken, and every wait ends (9.7.13.15)."""
    REGISTER_POOL = "register-pool"
    """``setmaxnreg`` never requests registers that the CTA does not have (9.7.19.5)."""
    DEADLOCK = "deadlock"
    """No thread waits indefinitely for others: at a barrier, for a phase, for registers or in a loop (9.7.13)."""
    AVAILABILITY = "availability"
    """Version and target of the module have all that it uses."""


LIMITS = {
    HazardClass.PROXIES: "within each thread; PR001 and PR004 are about fences between threads",
    HazardClass.TCGEN05_MMA: "of the issuing thread; what others do before it completes belongs to tensor-memory",
    HazardClass.DEADLOCK: "what waits for no thread of the kernel is taken to end",
}
"""What a class leaves out that its name suggests. A proof states it, since a reader would take the class to be wider."""
UNEXECUTED = frozenset((
    HazardClass.AVAILABILITY, HazardClass.BULK, HazardClass.REGISTER_POOL, HazardClass.TENSOR_MEMORY,
))  # fmt: skip
"""Classes of which an execution does not observe all: what reads global memory while the result of a copy is pending, how
many registers a warp is launched with, and what orders accesses of tensor memory that have completed, are not followed."""


class Status(Enum):
    """What is known of a class of hazards."""

    VIOLATED = "violated"
    """A finding of the class is reported."""
    PROVED = "proved"
    """On every path and for every launch within the assumptions, each obligation is discharged."""
    BOUNDED = "bounded"
    """It holds in the launches that were replayed or executed."""
    UNKNOWN = "unknown"


class Assumption(Enum):
    """What a proof may take for granted, or a check; the value is its name in ``--assume``."""

    NO_OVERFLOW = "no-overflow"
    """Signed arithmetic of counters and addresses does not wrap, and what is truncated to 32 bits fits in them."""
    SAME_LOADS = "same-loads"
    """Loads of one address by one thread yield one value where nothing in the kernel stores to it."""
    THREADS = "threads"
    """The CTA has no more threads than the directives of the kernel, or else the hardware, admit. If the kernel neither
    states its shape, nor bounds several dimensions by ``.maxntid``, nor reads %tid or %ntid in a second one, but to number
    the threads, the CTA has one."""
    NO_ALIAS = "no-alias"
    """What different pointers and tensor maps among the parameters give access to does not overlap, no tensor contains a tensor
    map, and no pointer that the kernel is given leads to shared memory."""
    RECONVERGENCE = "reconvergence"
    """The threads of a warp that diverge at a branch reconverge at its immediate post-dominator."""
    ELECT = "elect"
    """``elect.sync`` elects the lowest lane of its membermask."""
    EXPECTED = "expected"
    """A tensor copy writes no more bytes than the largest number that one operation on an mbarrier of the kernel expects."""
    BOXES = "boxes"
    """Where the distances from the tensor copies of each phase to the next place at which a copy or an mbarrier begins are
    together what the phase expects, each of them writes no more bytes than its distance."""
    ALIGNED = "aligned"
    """Variables of shared memory that hold swizzled matrices begin at a multiple of 128 bytes."""
    REGISTERS = "registers"
    """A kernel with ``setmaxnreg`` is launched with the registers per thread that ``ptxas`` chooses by its directives."""
    SHAPE = "shape"
    """Without ``.reqntid``, a CTA consists of whole warps, of whole warpgroups if a kernel uses these, and has one
    dimension."""
    FULL_CTA = "full-cta"
    """Without ``.reqntid``, the CTA has as many threads as ``.maxntid`` admits."""
    READ_ONLY = "read-only"
    """While the kernel runs, no thread writes memory that ``ld.global.nc`` loads (9.7.9.9), and no other grid what a weak load reads
    that the kernel itself does not write."""
    ALLOCATED = "allocated"
    """Nothing but ``tcgen05.alloc``, and stores whose address is the same expression, writes the word of shared memory to
    which it writes an address, and threads that do not allocate load it only after the allocation."""
    TABLES = "tables"
    """Where warps branch by a number from a table in shared memory, they find one that the kernel stores there as a constant: none
    loads it before, and nothing else writes there."""
    IMPLIED_FENCES = "implied-fences"
    """A CTA barrier, and a wait that acquires, order the ``tcgen05`` operations before and after them, as a ``tcgen05.fence`` at
    each side does (9.7.16.6.3)."""
    COMPLETED_READS = "completed-reads"
    """A ``tcgen05`` operation that is complete for a thread has read shared memory before what that thread, and those that a
    barrier orders after it, write there through the generic proxy, as if a proxy fence followed (9.7.16.6.5)."""
    IN_BOUNDS = "in-bounds"
    """Without ``.reqntid``, a CTA has no more threads than those whose accesses to a variable of shared memory stay within it,
    where the index of the thread alone decides whether and where they make them."""
    DEPENDENT = "dependent"
    """A kernel that executes ``griddepcontrol`` is launched as a programmatic dependent of a grid whose results it uses
    (9.7.13.13). Checks take that for granted only where it is named, and no proof does."""


class Discharge(Enum):
    """Why an obligation holds."""

    WAIT = "wait"
    """A wait on every path from the operation to the access completes it."""
    INFEASIBLE = "infeasible"
    """Every path without such a wait is closed by predicates whose values are decided."""
    DISJOINT = "disjoint"
    """The access and the operation touch different bytes or columns."""
    ORDERED = "ordered"
    """The ISA orders the two: the use reads what a load fills, is a wgmma on the same accumulators in the same shape, or is
    the second one of a pair of tcgen05 operations in a pipeline."""
    FENCED = "fenced"
    """A fence between the two proxies is executed between the accesses on every path."""
    UNIFORM = "uniform"
    """All branches and the guard that decide whether it executes agree in the threads that it needs."""
    POOL = "pool"
    """What the warps own together never exceeds what the CTA has at launch."""
    BARRIER = "barrier"
    """Every path between the two passes a barrier at which all threads of the CTA meet."""
    ATOMIC = "atomic"
    """Both are atomic operations of one type."""
    ENDS = "ends"
    """What is waited for ends whatever the threads of the kernel do, or what decides a loop is of its thread alone."""
    TRACKED = "tracked"
    """A commit has an mbarrier track the operation, and another thread waits for that mbarrier."""
    TABLE = "table"
    """The tables of the ISA decide it."""


@dataclass(frozen=True, slots=True)
class Obligation:
    """One fact that a class of hazards needs, for instance that an operation has completed before an access."""

    operation: Span
    """The instruction that the obligation is about."""
    use: Span | None
    """The access, release or exit before which it must hold; None if there is none."""
    what: str
    """The obligation in words."""
    discharge: Discharge | None
    """Why it holds; None if that is not known."""
    by: tuple[Span, ...] = ()
    """The waits, branches or barriers that discharge it."""
    why: str = ""
    """Why it is not known whether it holds; "" if it is discharged."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a class is unknown."""

    at: Span | None
    """The instruction, address or call that is not understood; None for the kernel as a whole."""
    what: str
    """What is not known, in words."""
    help: str = ""
    """What would make it known, such as ``.reqntid`` or a launch file; "" if nothing is known that would."""
    also: tuple[Span, ...] = ()
    """The other instructions of which the same is not known, in the order in which they were found."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What is known of an unknown class in the launches of which a fact is true (:mod:`tclint.findings.facts`)."""

    fact: str
    """The fact with which it is proved; "" if none that was tried proves it."""
    assumptions: tuple[Assumption, ...] = ()
    """What that proof rests on."""
    tried: tuple[str, ...] = ()
    """The facts that prove nothing, if none does."""


@dataclass(frozen=True, slots=True)
class Executed:
    """Executions of a kernel that all ran to completion, and in which nothing was observed."""

    launches: tuple[str, ...]
    """The launches and schedules, in words."""
    reached: frozenset[Span]
    """The synchronising and asynchronous instructions, and those that access shared memory, that some thread executed."""
    observed: frozenset[HazardClass]
    """The classes of which these executions would have observed every hazard that occurred."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The status of one class of hazards in one kernel that uses it."""

    kernel: str
    hazard: HazardClass
    status: Status
    obligations: tuple[Obligation, ...] = ()
    """Empty unless the class can be proved."""
    assumptions: tuple[Assumption, ...] = ()
    """What a proof rests on."""
    launches: tuple[str, ...] = ()
    """The launches for which a bounded class was replayed or executed."""
    reasons: tuple[Reason, ...] = ()
    """The first reasons for which the class is unknown."""
    rules: tuple[str, ...] = ()
    """The rules of the findings that violate the class."""
    decided: Decided | None = None
    """Which fact would prove an unknown class, if that was asked and a proof could cover it."""
