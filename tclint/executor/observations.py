"""What an execution records: observations, and how a launch ends that does not run to completion."""

from __future__ import annotations

from collections.abc import Sequence

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.executor.memory import Fault

__all__ = ["KINDS", "Deadlock", "DeadlockedWait", "Observation", "OutOfBudget", "Received"]

KINDS = {
    "register-in-flight": "a register of a `wgmma` is used before the wait",
    "register-twice": "a register appears twice in the accumulator of a `wgmma`",
    "wgmma-fence": "an operand of `wgmma` was written, or an accumulator read, and no `wgmma.fence` follows",
    "read-too-early": "shared memory is read that a copy is still to write",
    "unwritten": "shared memory is read that nothing has written, and a stored result or the path taken depends on it",
    "undefined": "a register is read that nothing has written, and a stored result or the path taken depends on it",
    "source-overwritten": "shared memory is overwritten that a copy or a multiplication is still to read",
    "filled-twice": "two writes to the same bytes, one of which is still in flight",
    "unordered": (
        "two threads access the same shared memory and nothing orders them, regardless of their order in this run"
    ),
    "proxy": (
        "the async proxy reads what was written through the generic proxy, with no intervening proxy fence"
    ),
    "tensor-memory": "tensor memory is used, or freed, while another operation is still using it",
    "tensor-memory-unallocated": "tensor memory is used that is not allocated",
    "tensor-memory-allocation": "tensor memory is allocated without the permit, or freed that is not allocated",
    "tensor-memory-lanes": "a `tcgen05.ld` or `.st` addresses lanes of another warp; its own lanes are used",
    "uncommitted": "a warp or CTA exits and no `tcgen05.commit` tracks a `tcgen05` operation that it has issued",
    "tensor-memory-leak": "a CTA exits with tensor memory still allocated",
    "divergent": "some lanes do not execute an instruction that all lanes of the warp must execute",
    "warpgroup": "some warps do not execute an instruction that all warps of the warpgroup must execute",
    "nonuniform": "an operand that must be warp-uniform, or equal in all warps of a warpgroup, is not",
    "membermask": "a lane executes an instruction whose membermask excludes it",
    "shuffle": "a lane is read that does not take part",
    "barrier-count": "the threads of a CTA barrier do not add up",
    "cluster-barrier": "a thread arrives at the cluster barrier twice in a phase, or waits without having arrived",
    "mbarrier-absent": "no mbarrier is initialised at the address that an instruction uses as one",
    "mbarrier-unordered": (
        "an mbarrier is used that another warp initialises, and nothing orders the two, regardless of their order in this run"
    ),
    "mbarrier-overrun": "an mbarrier receives more arrivals, or more bytes, than it can count",
    "mbarrier-count": "an mbarrier is initialised with a count that is out of range",
    "mbarrier-init": "a live mbarrier is initialised again",
    "mbarrier-inval": "an mbarrier is invalidated while an operation is still to complete on it",
    "cta-mask": "a CTA mask names a CTA that the cluster does not have, or no CTA",
    "grid-dependency": (
        "a grid that may begin early reads data that the previous grid wrote, without `griddepcontrol.wait`"
    ),
    "registers": "`setmaxnreg.inc` to fewer registers than the warp has, or `.dec` to more",
    "left-in-flight": "a CTA exits before an operation on its shared memory has completed",
    "box-bytes": "two phases expect different numbers of bytes of the same copies through tensor maps",
    "tile-layout": "a matrix descriptor reads a tile in another layout than that in which a tensor copy wrote it",
    "exited-cta": "shared memory of a CTA is used that has exited",
    "unstarted-cta": "shared memory of another CTA is used, and nothing orders that after the start of the CTA",
}
"""The kinds of observations, with what each one means."""

_CAUSES = {
    "unordered": "the other access",
    "proxy": "the write",
    "wgmma-fence": "the access",
    "nonuniform": "the instruction with the other operand",
    "mbarrier-unordered": "the mbarrier is initialised",
    "mbarrier-overrun": "the mbarrier is initialised",
    "mbarrier-init": "the mbarrier is initialised",
    "mbarrier-absent": "the mbarrier is initialised, which has been invalidated since",
    "box-bytes": "the same copies, and another number of bytes",
    "tensor-memory-leak": "the allocation",
    "tile-layout": "the copy",
}
"""What the other instruction of an observation is, by kind; for any other kind it issued an operation."""


@dataclass(frozen=True)
class Observation:
    """Undefined behaviour, or another violation of the ISA's rules, in one execution."""

    kind: str
    """A key of :data:`KINDS`."""
    site: int
    """The instruction that exhibits it: ``function.instructions[site]``."""
    message: str
    thread: str
    """The warp, or the lane if only one executes."""
    other: int = -1
    """The instruction of the conflicting operation or access; -1 if none is involved."""
    step: int = 0
    """Instructions that the machine had executed."""
    users: frozenset[int] = frozenset()
    """The instructions that initialised and had used the mbarrier that it concerns, or on which the conflicting
    operation completes."""
    crosses: bool = False
    """Whether the two accesses, or the access and the operation, are of different warps."""
    later: frozenset[int] = frozenset()
    """Further instructions that use this mbarrier until the execution ends."""

    @property
    def text(self) -> str:
        """The thread and what it does, for a message."""
        return f"{self.thread}: {self.message}" if self.thread else self.message

    @property
    def cause(self) -> str:
        """What the *other* instruction does, for a note at its line."""
        return _CAUSES.get(self.kind, "the operation is issued")


class Received(NamedTuple):
    """What the current phase of an mbarrier or a barrier has received."""

    number: int
    """The phases that are complete."""
    arrived: int
    needed: int
    """The arrivals that it needs; of a barrier, the threads."""
    bytes: int | None = None
    """The tx-count of an mbarrier; None for a barrier."""


@dataclass(frozen=True)
class DeadlockedWait:
    """A group of lanes that waits in a deadlock."""

    site: int
    """The instruction at which it waits."""
    thread: str
    what: str
    """What it waits for, for a message that begins with the thread; may be empty."""
    kind: str
    """``arrivals`` or ``bytes``, whichever the phase of the mbarrier lacks, ``barrier``, ``lanes``, ``registers``,
    ``memory``, or ``other``."""
    users: frozenset[int] = frozenset()
    """The instructions that initialised and used the mbarrier, or issued the operation, that it waits for."""
    received: Received | None = None
    """The phase of the mbarrier or barrier that it waits for."""
    cta: int = 0
    """The number of its CTA in the grid."""
    warp: int = 0
    """The number of its warp in the CTA."""
    lanes: int = 0
    """A mask of its lanes."""


class Deadlock(Fault):
    """No thread can make progress, and some have not exited."""

    def __init__(self, waits: Sequence[DeadlockedWait]) -> None:
        shown = "; ".join(f"{wait.thread} waits{wait.what}" for wait in waits[:16])
        super().__init__(f"no thread can make progress: {shown}", "deadlock")
        self.waits = tuple(waits)


class OutOfBudget(Exception):
    """The kernel did not terminate within its budget of instructions or seconds."""
