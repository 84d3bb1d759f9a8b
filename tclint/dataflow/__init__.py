"""The one solver, and the search for a path that shows a fact."""

from tclint.dataflow.engine import Analysis, LimitExceeded, Results, solve
from tclint.dataflow.paths import EXIT, Path, Survey, find_paths

__all__ = ["EXIT", "Analysis", "LimitExceeded", "Path", "Results", "Survey", "find_paths", "solve"]
