"""What a replay assumes about the launch: one table of values, why each is tried, and the test that needs it.

The text of a kernel leaves its launch open: the size of the grid, the parameters, the contents of global memory, often
the shape of a CTA or a cluster. Each row gives the values that are tried for one of these (a *hypothesis*), or bounds
how long a replay with such values may take (a *budget*). No row is a fact of the ISA, so no verdict may rest on one
value alone: :class:`~tclint.replay.verdict.Replay` reports a fault only if the launches of all rows that reach it agree.

Code reads ``hypotheses.NAME.value`` when it needs a value, so a test can replace a row.
``tests/replay/test_hypotheses.py`` alters each row and requires the named test to fail.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple

__all__ = ["CANCELLED", "GRID", "MEMORY", "HypothesisRow", "LaunchHypothesis", "LaunchWord", "Shape", "rows"]

T = TypeVar("T")

Shape = tuple[int, ...]
"""Threads of a CTA, or CTAs of a cluster, in up to three dimensions."""


class LaunchWord(NamedTuple):
    """32 bits that come with the launch."""

    base: Hashable
    """The parameter."""
    position: int = 0
    """Which 32-bit word of it."""
    high: bool = False
    """It is the upper half of a 64-bit value."""


MEMORY = LaunchWord("memory")
"""Stands for all words of global and constant memory."""
GRID = LaunchWord("grid")
"""The number of CTAs or clusters of the grid."""
CANCELLED = LaunchWord("cancelled")
"""How many clusters a cluster takes over with ``clusterlaunchcontrol.try_cancel`` (9.7.13.17)."""


class LaunchHypothesis(NamedTuple):
    """The values that one launch assumes."""

    size: int
    """The value of every 32-bit parameter and word of global memory: matrix sizes, from which trip counts follow."""
    grid: int
    """The number of CTAs, or of clusters if the kernel has any."""
    cta: int = 0
    """The CTA or cluster that is replayed."""
    large: frozenset[LaunchWord] = frozenset()
    """The words that are :data:`MANY_TILES` instead of *size*."""
    roles: int = 0
    """The value of the words that decide which threads take a branch; 0: *size*, as of all others."""
    work: int = 0
    """The value of the same words where it is to be work for all threads alike; 0: *size*."""
    others: tuple[tuple[LaunchWord, int], ...] = ()
    """Words with a value of their own."""


@dataclass(frozen=True, slots=True)
class HypothesisRow(Generic[T]):
    """One hypothesis about the launch, or one budget of its replays."""

    value: T
    why: str
    """What the value is for, and why it is this one."""
    needed_by: str
    """The test in ``tests/replay`` that fails with another value."""


# ---------------------------------------------------------------- values of a launch

SIZES = HypothesisRow(
    (LaunchHypothesis(512, 8), LaunchHypothesis(1280, 24), LaunchHypothesis(1098, 5)),
    "Matrix sizes with their grids: a power of two, a multiple of 256, and one that leaves a remainder for "
    "any tile. A fault must not rest on one value.",
    "test_a_deadlock_in_the_last_iterations_is_reported_if_one_value_is_the_trip_count_of_all",
)
ODD_SIZES = HypothesisRow(
    (LaunchHypothesis(832, 13), LaunchHypothesis(1088, 3), LaunchHypothesis(640, 7)),
    "Sizes whose halves and quarters leave remainders, for blocks that a mask or a remainder of the size guards.",
    "test_what_is_left_over_of_a_loop",
)
LAST_CTAS = HypothesisRow(
    tuple(h._replace(cta=h.grid - 1) for h in SIZES.value),
    "The last CTA of each grid, for blocks that a comparison of %ctaid or %clusterid guards.",
    "test_what_only_the_last_cta_executes",
)
MIDDLE_CTAS = HypothesisRow(
    tuple(h._replace(cta=h.grid // 2) for h in SIZES.value),
    "A CTA that is neither the first nor the last of its grid, for blocks that these two do not enter.",
    "test_what_neither_the_first_nor_the_last_cta_executes",
)
FEW_CTAS = HypothesisRow(
    (LaunchHypothesis(1098, 3), LaunchHypothesis(1280, 2)),
    "Few CTAs for much work, so that each iterates again in a loop over tiles that strides by the size of the grid.",
    "test_later_tiles_of_a_persistent_kernel",
)
MANY_TILES = HypothesisRow(
    4096,
    "The bound of a loop over tiles whose stride is a constant: large enough for a second iteration.",
    "test_later_tiles_of_a_persistent_kernel",
)
ELEMENTS_THAT_INCREASE = HypothesisRow(
    7,
    "Where memory holds offsets, lengths are differences of neighbours: so many elements increase, the rest are equal.",
    "test_rounds_that_are_a_difference_in_memory",
)
DISTINCT_ELEMENTS = HypothesisRow(
    3,
    "How much each element of memory exceeds the one before it in the launches that confirm a fault, in which no two words "
    "are equal: as many iterations where neighbours are the begin and the end of a loop.",
    "test_words_of_memory_that_must_be_equal_for_a_fault",
)
DISTINCT_BUFFERS = HypothesisRow(
    1 << 16,
    "How much the words of one buffer exceed those of another in these launches.",
    "test_words_of_two_buffers_are_equal_in_no_launch_that_confirms",
)
COUNTER_READS = HypothesisRow(
    8,
    "Consecutive values that a CTA gets from an atomic counter in global memory: a ring of a few stages wraps. Then other "
    "CTAs take the most, the counter grows fast, and the work ends.",
    "test_tiles_that_a_counter_in_memory_hands_out",
)
CANCELLED_CLUSTERS = HypothesisRow(
    2,
    "Clusters that one cluster takes over (9.7.13.17): the loop over tiles iterates, and ends.",
    "test_clusters_that_are_cancelled_for_a_running_one",
)
ALTERNATING_ITEMS = HypothesisRow(
    tuple(LaunchHypothesis(512, 64, others=((MEMORY, size),)) for size in (5, 6)),
    "Eight items for each CTA, of which every second one is empty: their sizes are words of memory, small so that no trip "
    "count has to be reduced, and an odd and an even one, since a parity has the same value after two phases.",
    "test_items_without_work_among_others",
)

ROLES = HypothesisRow(
    (1, 2, 3, 4, 7, 8, 32, 64, 96, 128, 256),
    "What a count of warps or threads may be that the launch determines. A branch that compares a thread with such a count "
    "may be a bound that all threads meet, or the place where roles part, and then a large value gives a role no thread: a "
    "fault must show with each of these counts that reaches it.",
    "test_roles_that_a_parameter_decides",
)

WORK_FOR_ALL = HypothesisRow(
    1 << 16,
    "Where a bound that threads are compared with admits only some of them, it is tried so large that all have work: more "
    "than a tile of 16 KB for each warp. A fault must also show with each of ROLES that reaches it.",
    "test_work_that_is_too_little_for_all_warps",
)

RELATED_WORDS = HypothesisRow(
    tuple(sorted(n << k for n in (1, 3) for k in range(12))),
    "Values of one word, with the largest of SIZES in all others, in the launches that may excuse a deadlock of roles whose "
    "trip counts are different expressions of the launch: one word may be a quotient of another, or the size of a tile, and "
    "what the host guarantees of them is unknown.",
    "test_trip_counts_that_agree_in_some_launches_only",
)

# ---------------------------------------------------------------- shapes

CTA_SHAPES: HypothesisRow[tuple[Shape, ...]] = HypothesisRow(
    ((128,), (256,), (384,), (512,)),
    "One to four warpgroups, tried with all values where the kernel does not state the shape of its CTA. Every other number "
    "of warps is asked once.",
    "test_a_launch_that_fails_early_is_not_replayed_to_the_end",
)
CLUSTER_SHAPES: HypothesisRow[tuple[Shape, ...]] = HypothesisRow(
    (
        (1,), (2,), (1, 2), (2, 2), (4,), (1, 4), (4, 2), (2, 4), (8,), (1, 8), (3,), (1, 3), (3, 2), (2, 3), (6,), (1, 6),
        (5,), (1, 5), (7,), (1, 7), (1, 1, 2), (2, 1, 2), (1, 2, 2), (1, 1, 4), (2, 2, 2), (4, 1, 2), (1, 4, 2), (2, 1, 4),
        (1, 2, 4), (1, 1, 8), (4, 4), (8, 2), (2, 8), (16,), (1, 16),
    ),
    "Tried in this order where the kernel does not state its cluster, the common ones first: shapes of up to 8 CTAs, and "
    "of 16 where a device allows them. Ranks, masks and arrival counts fit one shape only.",
    "test_the_clusters_that_a_kernel_is_made_for",
)  # fmt: skip

# ---------------------------------------------------------------- budgets

MAX_STEPS = HypothesisRow(
    5_000,
    "Steps of one replay: a few iterations of each loop of most kernels.",
    "test_a_barrier_that_too_few_threads_reach_deadlocks",
)
MAX_EXTRA_STEPS = HypothesisRow(
    15_000,
    "Further steps where no value of the launch would shorten the replay: the kernel is large, or its trip counts are "
    "constants.",
    "test_a_kernel_of_many_steps_gets_more_of_them",
)
MAX_EXTENDED_REPLAYS = HypothesisRow(
    3,
    "Replays per kernel and cluster shape that may take the extra steps: one for each of SIZES.",
    "test_a_kernel_of_many_steps_gets_more_of_them",
)
MAX_PREVIEW_STEPS = HypothesisRow(
    1_000,
    "Steps after which a replay with another number of warps may already show the fault that was seen before.",
    "test_a_launch_that_fails_early_is_not_replayed_to_the_end",
)
MAX_CLUSTER_SEARCH_STEPS = HypothesisRow(
    400_000,
    "Steps of all replays together that search for the cluster shape.",
    "test_the_clusters_that_a_kernel_is_made_for",
)
MAX_RELATED_STEPS = HypothesisRow(
    200_000,
    "Steps of all replays together of launches whose words are related otherwise.",
    "test_trip_counts_that_agree_in_some_launches_only",
)
STEPS_PER_ITERATION = HypothesisRow(
    60,
    "Steps for each iteration when a loop is replayed with its full trip count, to confirm a deadlock that fewer "
    "iterations show.",
    "test_a_deadlock_in_the_last_iterations_is_reported_if_one_value_is_the_trip_count_of_all",
)
MAX_REDUCTIONS = HypothesisRow(
    12,
    "Replays of one launch, each with smaller trip counts than the one before.",
    "test_a_barrier_that_too_few_threads_reach_deadlocks",
)
MAX_ITERATIONS = HypothesisRow(
    32,
    "Iterations of a loop after which smaller trip counts are tried: a ring of a few stages has wrapped several times.",
    "test_a_deadlock_in_the_last_iterations_is_reported_if_one_value_is_the_trip_count_of_all",
)
MIN_ITERATIONS = HypothesisRow(
    3,
    "Iterations that a replay must see before it extrapolates a trip count or shortens a loop.",
    "test_the_trip_count_of_a_long_loop_is_extrapolated",
)
MIN_EXCESS = HypothesisRow(
    2,
    "How many times over its budget an extrapolated loop must be before the replay stops for smaller trip counts.",
    "test_the_trip_count_of_a_long_loop_is_extrapolated",
)
MAX_GRID = HypothesisRow(
    1 << 10,
    "A grid is not widened beyond this to leave each CTA less work.",
    "test_what_makes_no_difference_is_not_tried_again",
)
GRID_FACTOR = HypothesisRow(
    16,
    "How many times wider the grid becomes each time it is widened.",
    "test_what_makes_no_difference_is_not_tried_again",
)
VALUE_DIVISOR = HypothesisRow(
    4,
    "How many times smaller the other words of the launch become each time they are reduced.",
    "test_what_makes_no_difference_is_not_tried_again",
)
MIN_FAILING_LAUNCHES = HypothesisRow(
    2,
    "Launches that must show a fault in blocks where others succeed: one may be a launch the kernel is not made for.",
    "test_later_tiles_of_a_persistent_kernel",
)


def rows() -> dict[str, HypothesisRow[object]]:
    """All rows of the table by name."""
    return {name: row for name, row in globals().items() if isinstance(row, HypothesisRow)}
