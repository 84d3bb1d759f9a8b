"""The launches with which an entry is executed: those of a launch file, or assumed ones.

``confirm`` and ``executing`` execute the same launches; what they conclude from an execution differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from tclint._dataclass import dataclass
from tclint.analyses.undefined import first_reads
from tclint.driver.evidence import Basis
from tclint.executor.assume import ParameterUses
from tclint.executor.errors import Unsupported
from tclint.executor.launch import LaunchFile, triton_beside
from tclint.executor.run import STEPS, Execution, Policy, execute_assumed, execute_file
from tclint.executor.schedule import Schedule
from tclint.executor.state import Geometry
from tclint.executor.unwritten import FirstRead, Outcome, observe_undefined, observe_unwritten
from tclint.ir.nodes import Function, Module
from tclint.syntax.source import Source

__all__ = ["Candidate", "candidates"]


_Execute = Callable[[Policy], Execution]
"""Executes an entry once."""


@dataclass(frozen=True)
class Candidate:
    """A launch with which an entry can be executed."""

    name: str
    """For a message that begins with *under*."""
    basis: Basis
    geometry: Geometry | None
    """The size of the launch, and the value of integer parameters; None and 0 for a launch file."""
    number: int
    source: Source
    function: Function
    execute: _Execute

    @property
    def cluster(self) -> tuple[int, int, int] | None:
        """The size of its clusters; None for a launch file."""
        return self.geometry.cluster if self.geometry is not None else None

    def run(
        self,
        how: Schedule,
        *,
        steps: int = STEPS,
        seconds: float = float("inf"),
        watched: frozenset[int] = frozenset(),
    ) -> Execution:
        """Execute the entry once under a schedule, within limits.

        *watched* are the instructions of :attr:`~tclint.executor.run.Execution.reached`. Raises
        :class:`~tclint.executor.launch.LaunchError` if a launch does not fit the kernel.
        """
        try:
            return self.execute(Policy(how, steps, seconds, self.source, {self.function.name: watched}))
        except Unsupported as problem:  # before the first instruction: variables, parameters
            return Execution(self.function, "unsupported", str(problem))


def candidates(
    source: Source, module: Module, function: Function, file: LaunchFile | None
) -> Iterator[Candidate]:
    """All launches of a launch *file* at once, or assumed launches, the most plausible ones first.

    *function* is the entry, with the functions that it calls inlined (:func:`~tclint.executor.run.prepared`).
    """
    if file is not None:
        name = str(file.path)
        yield Candidate(name, Basis(name), None, 0, source, function, _given(module, function, file))
        return
    parameters = ParameterUses(function)
    for assumed in parameters.launches(module, triton_beside(source.path)):
        basis = Basis(
            f"assuming {assumed.assumptions}",
            assumed.assumes,
            parameters.is_guessed,
            partial(parameters.is_guessed, everywhere=True),
            parameters.branches_on_memory,
        )
        yield Candidate(
            f"an assumed launch ({assumed})", basis, assumed.geometry, assumed.number, source, function,
            partial(execute_assumed, module, function, assumed),
        )  # fmt: skip


def _given(module: Module, function: Function, file: LaunchFile) -> _Execute:
    reads: list[FirstRead] | None = None

    def execute(policy: Policy) -> Execution:
        nonlocal reads
        first = execute_file(module, file, policy)
        own = [e for e in first[0] if e.function.name == function.name]
        if not own:
            raise Unsupported(f"{file.path} does not launch {function.name}")
        if any(e.observations for e in first[0]):
            return own[-1]  # what is read too early was not written for another reason
        if reads is None:
            found = first_reads(module, function)
            reads = [FirstRead(r, function.registers[r].name, site) for r, site in found]

        def filled(registers: frozenset[int]) -> Outcome:
            return execute_file(module, file, replace(policy, filled={function.name: registers}))

        observe_unwritten(first, lambda fill: execute_file(module, file, replace(policy, fill=fill)))
        observe_undefined(first, own[-1], reads, filled)
        own[-1].observations += (o for e in own[:-1] for o in e.observations if o.kind == "unwritten")
        return own[-1]

    return execute
