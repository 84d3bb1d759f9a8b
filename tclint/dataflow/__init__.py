"""The one dataflow solver, and the search for a feasible path that witnesses a fact.

Owns :class:`Analysis` and :func:`solve` (may-analyses over the CFG; ``may`` is the one in which no fact ends at an edge), the threads that reach each block
(``reachability``), what holds for the threads that execute an instruction (``views``), loop invariants
(``loop_invariants``), the search :func:`find_paths` (``feasible_paths``, and
``path_search_cache`` for what searches share), and the answers to may-questions
(``answers``). Imports ``values``, ``ir`` and ``isa``.

Change this package when a path is reported that no thread can take, or a feasible one is not found.
"""

from tclint.dataflow.answers import (
    Answer,
    Decision,
    Found,
    GaveUp,
    Guard,
    Infeasible,
    Search,
    Unanswered,
    next_answer,
)
from tclint.dataflow.feasible_paths import EXIT, Path, PathQuery, find_paths
from tclint.dataflow.path_search_cache import PathSearchCache
from tclint.dataflow.solver import Analysis, LimitExceeded, Results, solve

__all__ = [
    "EXIT",
    "Analysis",
    "Answer",
    "Decision",
    "Found",
    "GaveUp",
    "Guard",
    "Infeasible",
    "LimitExceeded",
    "Path",
    "PathQuery",
    "PathSearchCache",
    "Results",
    "Search",
    "Unanswered",
    "find_paths",
    "next_answer",
    "solve",
]
