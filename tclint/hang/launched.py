"""Where the threads of a launch are that deadlocks when the executor executes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tclint._dataclass import dataclass
from tclint.hang.positions import CodePosition, PositionError
from tclint.ir.nodes import Module
from tclint.syntax.source import Source

if TYPE_CHECKING:
    from tclint.executor.launch import LaunchFile
    from tclint.executor.observations import DeadlockedWait

__all__ = ["SCHEDULES", "DeadlockedLaunch", "execute"]

SCHEDULES = ("lazy", "eager")
"""The schedules under which a launch is executed until it deadlocks."""


@dataclass(frozen=True, slots=True)
class DeadlockedLaunch:
    """A launch that deadlocks when it is executed."""

    launch: str
    """The file or folder that describes the launch."""
    schedule: str
    steps: int
    """The instructions of warps that were executed."""
    waits: tuple[tuple[int, DeadlockedWait], ...]
    """Each group of lanes that waits, after the line at which it does."""
    on_gpu: str
    """How the launch ended when it was recorded (:attr:`~tclint.recording.Recording.end`); empty: it was not recorded."""

    @property
    def positions(self) -> list[CodePosition]:
        """Where its threads are."""
        return [
            CodePosition(line, cta=wait.cta, warp=wait.warp, lanes=wait.lanes) for line, wait in self.waits
        ]


def execute(
    source: Source, module: Module, kernel: str, file: LaunchFile, seconds: float
) -> DeadlockedLaunch:
    """Executes the launches of *file*, one of which must deadlock in *kernel*.

    It has *seconds* for each of :data:`SCHEDULES`. Raises PositionError if no execution ends in a deadlock, and
    LaunchError if the launch does not fit the kernel.
    """
    from tclint.executor.run import Policy, execute_file, line_of

    path = str(file.path)
    for schedule in SCHEDULES:
        executions, _ = execute_file(module, file, Policy(schedule, seconds=seconds, source=source))
        last = executions[-1]
        if last.end == "deadlock":
            if last.function.name != kernel:
                raise PositionError(f"{path} deadlocks in {last.function.name}, not in {kernel}")
            waits = tuple((line_of(source, last.function, wait.site), wait) for wait in last.waits)
            on_gpu = file.recorded.end if file.recorded is not None else ""
            return DeadlockedLaunch(path, last.schedule, last.steps, waits, on_gpu)
        if last.end != "done":
            raise PositionError(f"{path}: no deadlock was executed: {last.reason} ({schedule})")
    raise PositionError(
        f"{path}: {kernel} completes when it is executed ({', '.join(SCHEDULES)}): give the positions of a hang"
        " with --at or --from"
    )
