"""Why a replay ends without a verdict."""

from __future__ import annotations

from enum import Enum

__all__ = ["NotReplayed"]


class NotReplayed(str, Enum):
    """What keeps a replay from a verdict. The value is what is reported after ``not replayed:``."""

    # The kernel cannot be replayed.
    UNSEEN_CALL = "it calls code outside the module"
    COUNT_FROM_LAUNCH = "an arrival count depends on the launch"
    """A made-up count of arrivals deadlocks a kernel that works."""
    PHASE_FROM_LAUNCH = "a parity that is waited for depends on the launch"
    """A made-up parity deadlocks a kernel that works."""
    NO_CLUSTER_SHAPE = "the kernel does not state how many CTAs a cluster has"
    """The shape of its CTA is open as well, or no shape of a cluster initialises the mbarriers that it names."""
    NO_CTA_SHAPE = "the kernel does not state how its threads are arranged"
    """It uses more than one dimension of the thread index, so a number of threads is not enough; or CTAs of the usual sizes
    have more threads than its arrays in shared memory have room for.
    """

    # A budget is exhausted.
    TOO_LONG = "the replay takes too long"
    """The steps of a replay, or of the search for a cluster shape, are used up, and no loop is to blame."""
    TOO_MANY_ITERATIONS = "a loop has too many iterations to be replayed to its end"
    """The steps are used up, and no value of the launch ends the longest loop earlier."""

    # A value that decides which threads synchronise is unknown.
    UNRELATED_TRIP_COUNTS = "the trip counts of two roles agree in some launches only"
    """The host may launch the kernel with no other values."""
    UNKNOWN_BRANCH = "a branch depends on an unknown value"
    """Two successors are possible, and neither of them traps."""
    ROLES_FROM_LAUNCH = "which threads take a branch depends on the launch"
    """A made-up value would distribute the roles as no launch does."""
    UNKNOWN_GUARD = "whether it is executed depends on an unknown value"
    """The guard of an instruction that synchronises is unknown."""
    UNKNOWN_OPERAND = "an operand is unknown"
    """The mbarrier, its count, its bytes, the parity or the number of groups is unknown."""
    UNKNOWN_MASK = "the member mask is unknown"
    """The member mask of ``elect.sync`` is unknown, or differs between lanes."""
    UNKNOWN_BARRIER = "the number of the barrier is unknown"
    UNKNOWN_BARRIER_COUNT = "the thread count of the barrier is unknown"
    UNKNOWN_RESPONSE = "the response is unknown"
    """The response of ``clusterlaunchcontrol.try_cancel`` was not loaded from where it was written."""

    # Lanes of a warp have diverged where the model of a replay is too coarse.
    SPLIT_WARP = "some lanes of a warp arrive at a barrier without the others"
    LANES_ELSEWHERE = "some lanes of the member mask are elsewhere"

    # The kernel is not made for this launch, or is faulty.
    ABORTED = "a thread aborts the launch there"
    """A ``trap`` or ``brkpt`` ends all threads of the grid, so none of them deadlocks (9.7.19.4)."""
    UNINITIALISED_MBARRIER = "no mbarrier is initialised at this address"
    TOO_MANY_MBARRIERS = "the launch has more mbarriers than there is room for"
    NO_SUCH_CTA = "it names a CTA that the cluster does not have"

    def __str__(self) -> str:
        return self.value

    @property
    def truncated(self) -> bool:
        """Whether only a budget ended the replay: with more steps, it might have reached a verdict."""
        return self in (NotReplayed.TOO_LONG, NotReplayed.TOO_MANY_ITERATIONS)
