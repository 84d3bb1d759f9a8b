"""Execute an entry of a module: allocate memory, decode the kernel, run the machine, and return the outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from time import perf_counter
from typing import Literal

import numpy as np

import tclint.executor.instructions  # noqa: F401  registers the factories
from tclint._dataclass import dataclass
from tclint.executor.assume import Assumed
from tclint.executor.costs import Count
from tclint.executor.counts import counting
from tclint.executor.decode import Decoder
from tclint.executor.errors import Unsupported
from tclint.executor.launch import Launch, LaunchError, LaunchFile, fits, geometry
from tclint.executor.machine import Machine
from tclint.executor.memory import Array, Fault, Global
from tclint.executor.observations import Deadlock, DeadlockedWait, Observation, OutOfBudget
from tclint.executor.policy import STEPS, Policy, line_of
from tclint.executor.schedule import schedule
from tclint.executor.state import Geometry
from tclint.executor.tensor_maps import TensorMap
from tclint.executor.variables import initial
from tclint.ir.inline import inline
from tclint.ir.nodes import Function, Module
from tclint.syntax.source import Source

__all__ = [
    "STEPS",
    "Argument",
    "End",
    "Execution",
    "Memories",
    "Policy",
    "call",
    "execute",
    "execute_assumed",
    "execute_file",
    "layout",
    "line_of",
    "prepared",
]

End = Literal["done", "fault", "deadlock", "budget", "unsupported"]


@dataclass
class Execution:
    """How one execution ended, and its observations."""

    function: Function
    """The entry, with the functions that it calls inlined."""
    end: End
    reason: str = ""
    """Why the kernel did not run to completion; empty if it did."""
    observations: list[Observation] = field(default_factory=list)
    site: int = -1
    """The instruction at which a fault, or an unsupported instruction, stopped it; else -1."""
    fault: str = ""
    """The kind of a fault (:class:`~tclint.executor.memory.Fault`); empty for any other end."""
    waits: tuple[DeadlockedWait, ...] = ()
    """In a deadlock, what threads wait for."""
    steps: int = 0
    """Instructions that warps executed."""
    seconds: float = 0.0
    schedule: str = ""
    notes: Mapping[str, int] = field(default_factory=dict)
    """Deviations from what a GPU does: the text, with the first instruction that it applies to."""
    unwritten: Mapping[int, int] = field(default_factory=dict)
    """Bytes of shared memory that were read although nothing had written them, by the instruction that read them
    first."""
    counts: Mapping[int, Count] = field(default_factory=dict)
    """By instruction, what its accesses to memory have cost; empty unless that was counted."""
    reached: frozenset[int] = frozenset()
    """Of the instructions that were watched, those that some thread executed."""

    @property
    def right(self) -> bool:
        """Whether the kernel ran to completion with no observation."""
        return self.end == "done" and not self.observations


class Memories:
    """Global memory for one or more launches: buffers, and the variables of a module."""

    def __init__(
        self,
        module: Module,
        buffers: Mapping[str, Array],
        more: Mapping[str, int] | None = None,
        addresses: Mapping[str, int] | None = None,
    ) -> None:
        """*more*: the names of further allocations, with their sizes in bytes; *addresses*: where buffers must be."""
        self._variables = [v for v in module.variables.values() if v.space in (".global", ".const")]
        sizes = {name: array.nbytes for name, array in buffers.items()} | dict(more or {})
        for variable in self._variables:
            sizes.setdefault(variable.name, max(variable.size, 8))
        self.memory = Global(sizes, addresses)
        for name, array in buffers.items():
            if array.any():  # memory is zero already, and a large buffer of zeros then stays unmapped
                self.put(name, np.ascontiguousarray(array).tobytes())
        for variable in self._variables:
            if variable.name not in buffers and variable.initial:
                self.put(variable.name, initial(variable, self.find))

    def find(self, name: str) -> int | None:
        """The generic address of a buffer or variable; None for an unknown name."""
        return self.memory.address(name) if name in self.memory.offsets else None

    def put(self, name: str, data: bytes) -> None:
        """Write *data* to the start of an allocation."""
        at = self.memory.offsets[name]
        self.memory.data[at : at + len(data)] = np.frombuffer(data, np.uint8)

    def get(self, name: str, like: Array) -> Array:
        """A copy of the contents of a buffer, with the type and shape of *like*."""
        at = self.memory.offsets[name]
        return self.memory.data[at : at + like.nbytes].view(like.dtype).reshape(like.shape).copy()


def prepared(module: Module, entry: str) -> Function:
    """*entry* with the functions that it calls inlined. Raises :class:`Unsupported` if the module has no such entry."""
    function = module.function(entry)
    if function is None or not function.entry or function.declared_only:
        known = [f.name for f in module.functions if f.entry and not f.declared_only]
        raise Unsupported(f"no entry {entry!r}; available: {', '.join(known) or 'none'}")
    bodies = {f.name: f for f in module.functions if f.instructions and not f.damaged and not f.entry}
    return inline(function, bodies)


def execute(
    module: Module,
    function: Function,
    geometry: Geometry,
    memories: Memories,
    parameters: bytes,
    policy: Policy,
) -> Execution:
    """Execute *function* (see :func:`prepared`) once; *parameters* are the bytes of its parameters.

    Nothing that the kernel does raises an exception: see :attr:`Execution.end`.
    """
    began = perf_counter()
    chosen = schedule(policy.how)
    result = Execution(function, "done", schedule=chosen.name)
    machine: Machine | None = None
    try:
        decoder = Decoder(function, module, memories.memory, parameters, policy, chosen.late)
        decoder.counting = counting if policy.counts else None
        machine = Machine(decoder.decode(), geometry, memories.memory, chosen, policy)
        if policy.tracer is not None:
            policy.tracer(machine)
        machine.run()
    except Deadlock as deadlock:
        result.end, result.reason = "deadlock", str(deadlock)
        result.waits = deadlock.waits
    except Fault as fault:
        result.end, result.reason, result.fault = "fault", str(fault), fault.kind
    except OutOfBudget as problem:
        result.end, result.reason = "budget", str(problem)
    except Unsupported as problem:
        result.end, result.reason = "unsupported", str(problem)
        where = policy.place(function, machine.at) if machine is not None and machine.at >= 0 else ""
        if where and not result.reason.startswith(where):  # raised by the op, not by the decoder
            result.reason = f"{where}: {function.instructions[machine.at].opcode}: {problem}"  # type: ignore[union-attr]
    if machine is not None:
        _observed(result, machine)
    result.seconds = perf_counter() - began
    return result


def _observed(result: Execution, machine: Machine) -> None:
    """Add what the machine observed to the result."""
    if machine.unwritten:
        count = sum(machine.unwritten.values())
        text = f"{count} bytes of shared memory are read that nothing has written: they are zero here"
        machine.note(text, min(machine.unwritten))
    result.observations = machine.observations
    result.steps, result.notes, result.unwritten = machine.steps, machine.notes, machine.unwritten
    result.reached, result.counts = frozenset(machine.code.reached), machine.code.counts
    if result.end in ("fault", "unsupported"):
        result.site = machine.at


def execute_assumed(module: Module, function: Function, launch: Assumed, policy: Policy) -> Execution:
    """Execute *function* once with an assumed launch.

    Raises :class:`Unsupported` for variables that cannot be initialised.
    """
    memories = Memories(module, launch.buffers)
    values = launch.values({name: memories.memory.address(name) for name in launch.buffers})
    return execute(module, function, launch.geometry, memories, layout(function, values), policy)


def execute_file(
    module: Module, file: LaunchFile, policy: Policy, number: int = 0
) -> tuple[list[Execution], dict[str, Array]]:
    """Execute the launches of a launch file in order: the executions, and the final contents of each buffer.

    Stops after the first launch that does not run to completion. *number* is the run number, which seeds random
    buffers. Raises :class:`LaunchError` if a launch does not fit its kernel, and :class:`Unsupported` for variables
    that cannot be initialised.
    """
    arrays = file.arrays(number)
    fixed = {name: buffer.address for name, buffer in file.buffers.items() if buffer.address is not None}
    others = {name: size for name, size in file.sizes.items() if name not in arrays}
    memories = Memories(module, arrays, others, fixed)
    memories.memory.recorded_map = file.recorded_map
    addresses = {name: memories.memory.address(name) for name in file.sizes}
    for name in file.sizes:
        if name in file.maps:
            memories.put(name, file.map_bytes(name, addresses))
    executions: list[Execution] = []
    overlaps = [*(launch.dependent for launch in file.launches[1:]), False]
    earlier: Array | None = None
    for launch, overlapped in zip(file.launches, overlaps, strict=True):
        try:
            function = prepared(module, launch.entry)
        except Unsupported as problem:
            raise LaunchError(f"{file.path}: {problem}") from None
        fits(launch, function)
        if file.recorded is not None and file.recorded.cooperative:
            # Its barrier over the grid is in memory that the driver provides, and all CTAs must be resident.
            executions.append(Execution(function, "unsupported", "a cooperative launch (grid.sync)"))
            break
        grid, cluster = geometry(launch, function)
        explicit = launch.cluster is not None or ".reqnctapercluster" in function.directives
        extent = Geometry(grid, launch.block, cluster, launch.shared, explicit)
        values = layout(function, file.parameters(launch, addresses))
        memories.memory.earlier = earlier if launch.dependent else None
        before = memories.memory.data.copy() if overlapped else None
        result = execute(module, function, extent, memories, values, policy)
        executions.append(result)
        if result.end != "done":
            break
        earlier = memories.memory.data != before if before is not None else None
    return executions, {name: memories.get(name, array) for name, array in arrays.items()}


Argument = Array | np.generic | bytes | tuple[Array, TensorMap]


def call(
    source: Source | str, launch: Launch, arguments: Sequence[Argument], policy: Policy | None = None
) -> Execution:
    """Launch a kernel on numpy arrays, and copy its results back into them.

    An argument is an array (the kernel gets its address), a numpy scalar such as ``np.int32(5)``, raw bytes, or a pair
    of an array and a tensor map, whose address is an offset in the array; they replace those of *launch*. *source* is a
    file or its name.
    Raises :class:`LaunchError` if the launch does not fit the kernel, :class:`Unsupported` if there is no such entry,
    and :class:`~tclint.syntax.source.SourceError` for a file that cannot be read.
    """
    from tclint.ir.frontend import analyse

    text = source if isinstance(source, Source) else Source.read(source)
    module, _ = analyse(text)
    function = prepared(module, launch.entry)
    arrays: dict[str, Array] = {}
    names: dict[int, str] = {}
    for n, argument in enumerate(arguments):
        array = argument[0] if isinstance(argument, tuple) else argument
        if isinstance(array, np.ndarray) and id(array) not in names:
            names[id(array)] = f"argument {n}"
            arrays[f"argument {n}"] = array
    memories = Memories(module, arrays)

    def value(argument: Argument) -> bytes:
        if isinstance(argument, bytes):
            return argument
        if isinstance(argument, np.ndarray):
            return memories.memory.address(names[id(argument)]).to_bytes(8, "little")
        if isinstance(argument, tuple):
            array, tensor = argument
            return replace(
                tensor, address=memories.memory.address(names[id(array)]) + tensor.address
            ).encode()
        return argument.tobytes()

    values = tuple(map(value, arguments))
    launch = replace(launch, arguments=values)
    fits(launch, function)
    ctas, width = geometry(launch, function)
    extent = Geometry(ctas, launch.block, width, launch.shared, launch.cluster is not None)
    result = execute(
        module, function, extent, memories, layout(function, values), replace(policy or Policy(), source=text)
    )
    for name, array in arrays.items():
        array[...] = memories.get(name, array)
    return result


def layout(function: Function, values: Sequence[bytes]) -> bytes:
    """The parameter space of a kernel for these *values*: each parameter at its alignment (5.1.6.1)."""
    data = bytearray()
    for parameter, value in zip(function.parameters, values, strict=True):
        data += bytes(-len(data) % max(parameter.align, 1))
        data += value[: parameter.size].ljust(parameter.size, b"\0")
    return bytes(data)
