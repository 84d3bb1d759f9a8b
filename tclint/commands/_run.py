"""``tclint run``: execute the launches of a kernel, and render the observations."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path

from tclint._dataclass import dataclass
from tclint._json import to_json
from tclint._named_tuple import NamedTuple
from tclint._write import OutputError, refuse, write
from tclint.commands._counts import count_lines, counts_json
from tclint.driver.hazards import is_note
from tclint.executor.assume import ParameterUses
from tclint.executor.errors import Unsupported
from tclint.executor.launch import Array, LaunchError, LaunchFile, beside, metadata_of, triton_beside
from tclint.executor.observations import Observation
from tclint.executor.outputs import Outputs
from tclint.executor.recorded import read
from tclint.executor.results import compared
from tclint.executor.run import Execution, Policy, execute_assumed, execute_file, line_of, prepared
from tclint.executor.schedule import schedule
from tclint.executor.stored_types import Piece, pieces
from tclint.executor.trace import Trace
from tclint.executor.unwritten import Outcome, observe_unwritten
from tclint.ir.nodes import Function, Memory, Module, Symbol
from tclint.recording import Recording
from tclint.report.formats._style import printable
from tclint.report.summary import count
from tclint.syntax.source import Source

__all__ = ["Invocation", "RunError", "RunOptions", "render_json", "render_text", "run"]


class RunError(Exception):
    """The kernel cannot be executed; the message is for the user."""


@dataclass(frozen=True)
class RunOptions:
    """The options of the command."""

    launch: Path | None = None
    entry: str | None = None
    schedule: str = "lazy"
    """The schedules to execute under, one after another, separated by commas."""
    seconds: float = 60.0
    number: int = 0
    """The run number, which seeds the random contents of buffers."""
    trace: str | None = None
    """The file that a trace is written to."""
    outputs: Path | None = None
    """The folder for the outputs of the launch file; None if they are not written."""
    tolerance: float | None = None
    """The largest difference from a result; None for that of the launch file."""
    count: bool = False
    """Whether what accesses to memory cost is counted."""
    strict: bool = False
    """Whether what `tclint check` reports as a note is a violation here, and hides data."""
    type: str = ""
    """The type of the elements as which the results of a recorded launch are compared; empty for bytes."""


class Observed(NamedTuple):
    """An observation, and others that are equal but for the instructions, which a compiler has made of the same ones."""

    first: Observation
    more: tuple[Observation, ...]
    note: bool
    """Whether it is a note, and no violation."""


def _equal(o: Observation, function: Function) -> Hashable:
    """What equal observations have in common: where there is line information, the lines; else the thread."""
    sites = [site for site in (o.site, o.other) if site >= 0]
    places = tuple(function.location(site) for site in sites)
    names = tuple(function.instructions[site].name for site in sites)
    return o.kind, o.message, names, places, o.thread if None in places else ""


@dataclass
class Invocation:
    """The executions of one invocation, one for each launch, in order."""

    source: Source
    module: Module
    executions: list[Execution] = field(default_factory=list)
    assumed: str = ""
    """A description of the assumed launch; empty with a launch file."""
    differences: list[str] = field(default_factory=list)
    """What differs from the results that the launch file expects, a message for each buffer and schedule."""
    unevaluated: tuple[str, ...] = ()
    """Buffers whose expected contents are an expression, which is not evaluated."""
    notes: list[str] = field(default_factory=list)
    """What is known of a recorded launch besides differences."""
    counted: bool = False
    """Whether what accesses to memory cost was counted."""
    strict: bool = False
    """Whether observations that are notes of the checks are violations."""

    @property
    def code(self) -> int:
        """The exit code: 0 all is right; 1 an observation, a deadlock or a wrong result; 2 a launch was stopped early."""
        ends = {e.end for e in self.executions}
        if ends & {"unsupported", "budget", "fault"}:
            return 2
        violated = any(not seen.note for execution in self.executions for seen in self.observed(execution))
        return int(violated or bool(self.differences) or any(e.end != "done" for e in self.executions))

    def observed(self, execution: Execution) -> list[Observed]:
        """The observations of an execution, in their order, those that are equal only once."""
        alike: dict[Hashable, list[Observation]] = {}
        for o in execution.observations:
            alike.setdefault(_equal(o, execution.function), []).append(o)
        return [
            Observed(first, tuple(more), not self.strict and is_note(first, execution.function))
            for first, *more in alike.values()
        ]

    def line(self, execution: Execution, site: int) -> int:
        """The line of an instruction."""
        return line_of(self.source, execution.function, site)


def run(source: Source, options: RunOptions) -> Invocation:
    """Execute a kernel; write the outputs and the trace that were asked for. Raises :class:`RunError`."""
    from tclint.ir.frontend import analyse

    module, problems = analyse(source)
    if problems:
        raise RunError(f"{source.path}:{problems[0].line}: {problems[0].message}")
    try:
        names = options.schedule.split(",")
        for name in names:
            schedule(name)
        path = options.launch or beside(source.path)
        file = _read(path, options) if path is not None else None
        inputs = [
            source.path,
            str(metadata_of(source.path)),
            *map(str, file.files if file is not None else ()),
        ]
        outputs = Outputs(file, options.outputs, inputs) if file is not None and options.outputs else None
        files = [options.trace] if options.trace else []
        refuse([*files, *(outputs.paths if outputs is not None else ())], inputs)
        result = Invocation(source, module, counted=options.count, strict=options.strict)
        trace = Trace() if options.trace else None
        arrays: Mapping[str, Array] = {}
        for name in names:
            if file is not None:
                arrays = _given(result, module, file, name, options, trace)
            else:
                _assumed(result, module, name, options, trace)
        if outputs is not None:
            outputs.write(arrays)
        elif file is not None and file.outputs:
            named = ", ".join(file.outputs)
            result.notes.append(f"outputs are written only with --outputs FOLDER; not written: {named}")
        write({path: str(trace) for path in files})
    except (LaunchError, OutputError, Unsupported, ValueError) as error:
        raise RunError(str(error)) from None
    except OSError as error:
        raise RunError(f"{error.filename}: {error.strerror}") from None
    return result


def _read(path: Path, options: RunOptions) -> LaunchFile:
    """The launch file with the options of the command. Raises LaunchError, RunError."""
    file = read(path)
    if options.type and file.recorded is None:
        raise RunError("--type needs a recorded launch")
    tolerance = file.tolerance if options.tolerance is None else options.tolerance
    return replace(file, element_type=options.type, tolerance=tolerance)


def _given(
    result: Invocation, module: Module, file: LaunchFile, how: str, options: RunOptions, trace: Trace | None
) -> Mapping[str, Array]:
    """Execute the launches of a file: the final contents of its buffers."""

    def execute(fill: int, trace: Trace | None) -> Outcome:
        tracer = trace.follow if trace else None
        policy = Policy(
            how, seconds=options.seconds, source=result.source, tracer=tracer, fill=fill,
            counts=options.count and not fill, noted=None if options.strict else is_note,
        )  # fmt: skip
        return execute_file(module, file, policy, options.number)

    executions, arrays = execute(0, trace)
    # A trace changes when warps are switched, so the repetition is traced too.
    observe_unwritten((executions, arrays), lambda fill: execute(fill, Trace() if trace else None))
    result.executions += executions
    if file.recorded is not None:
        result.notes += [text for text in _limits(file.recorded, module) if text not in result.notes]
    result.unevaluated = file.unevaluated
    if len(executions) == len(file.launches) and executions[-1].end == "done":
        found, maps, rounded = compared(file, arrays, partial(_pieces, file, executions[-1].function, module))
        result.differences += [f"{text} ({how})" for text in found]
        if maps:
            these, are = ("maps", "are") if maps > 1 else ("map", "is")
            result.notes.append(f"{maps} tensor {these} that the kernel made {are} not compared ({how})")
        if file.recorded is not None and file.expected and not found:
            changed = sum(allocation.after is not None for allocation in file.recorded.allocations)
            what = (
                "byte for byte"
                if not rounded
                else f"within rounding as {', '.join(rounded)}"
                if file.tolerance is None
                else f"within {file.tolerance:g} as {', '.join(rounded)}"
            )
            result.notes.append(
                f"{changed} of {len(file.buffers)} allocations change, as on the GPU, {what} ({how})"
            )
    return arrays


def _pieces(file: LaunchFile, function: Function, module: Module) -> Mapping[int, tuple[Piece, ...]]:
    """What a recorded launch of *function* stores in each allocation, by address."""
    return {} if file.recorded is None else pieces(function, module, file.recorded)


def _limits(recorded: Recording, module: Module) -> Iterator[str]:
    """What of a recorded launch is not known."""
    if recorded.end != "done":
        what = "did not end" if recorded.end == "unfinished" else f"failed with {recorded.end}"
        yield f"on the GPU, the launch {what}: there are no results to compare"
    known = {allocation.variable for allocation in recorded.allocations}
    if names := [name for name in _used_variables(module, recorded.kernel) if name not in known]:
        yield f"the contents of variables are not recorded: {', '.join(names)} begin as the PTX initialises them"


def _used_variables(module: Module, kernel: str) -> list[str]:
    """The variables that a program can write before it launches *kernel*, and that it may access."""
    functions = [f for f in module.functions if f.name == kernel or not f.entry]
    operands = [o for f in functions for instruction in f.instructions for o in instruction.operands]
    symbols = {o.base if isinstance(o, Memory) else o for o in operands if isinstance(o, Memory | Symbol)}
    used = {symbol.name for symbol in symbols if isinstance(symbol, Symbol)}
    found = [v for v in module.variables.values() if v.space in (".global", ".const") and v.name in used]
    return [v.name for v in found if not v.name.startswith("$")]  # those are strings of the program


def _assumed(result: Invocation, module: Module, how: str, options: RunOptions, trace: Trace | None) -> None:
    entries = [f.name for f in module.functions if f.entry and not f.declared_only]
    entry = options.entry or (entries[0] if len(entries) == 1 else None)
    if entry is None:
        raise RunError(
            f"{result.source.path}: more than one entry; --entry takes one of {', '.join(entries)}"
            if entries
            else f"{result.source.path}: contains no entry"
        )
    function = prepared(module, entry)
    tracer = trace.follow if trace else None
    policy = Policy(
        how, seconds=options.seconds, source=result.source, tracer=tracer, counts=options.count,
        noted=None if options.strict else is_note,
    )  # fmt: skip
    for assumed in ParameterUses(function).launches(module, triton_beside(result.source.path)):
        execution = execute_assumed(module, function, assumed, policy)
        result.assumed = str(assumed)
        if execution.fault != "cluster":  # else the kernel is made for a cluster of another shape
            break
    result.executions.append(execution)


# ---------------------------------------------------------------- rendering

_ENDS = {
    "done": "done",
    "fault": "stopped by a fault",
    "deadlock": "deadlocked",
    "budget": "out of budget",
    "unsupported": "stopped at an unsupported instruction",
}
"""How a launch ended, for its summary line."""


def render_text(result: Invocation) -> str:
    """The notes, observations and summary line of each launch, one per line."""
    return "".join(f"{printable(line)}\n" for line in _lines(result))


def _lines(result: Invocation) -> Iterator[str]:
    path = result.source.path
    if result.assumed:
        yield f"no launch file: assuming {result.assumed}; use --launch to override"
    for execution in result.executions:
        for text, site in execution.notes.items():
            yield f"{path}:{result.line(execution, site)}: note: {text}"
        observed = result.observed(execution)
        for seen in observed:
            o, more, note = seen
            kind = f"note: {o.kind}" if note else o.kind
            yield f"{path}:{result.line(execution, o.site)}: {kind}: {o.message}{f' ({o.thread})' if o.thread else ''}"
            if o.other >= 0:
                yield f"{path}:{result.line(execution, o.other)}: note: {o.cause}"
            if more:
                yield f"{path}: note: {len(more)} more like this {_where(result, execution, seen)}"
        if execution.end != "done":
            at = f"{path}:{result.line(execution, execution.site)}: " if execution.site >= 0 else f"{path}: "
            yield f"{at}{execution.end}: {execution.reason}"
        yield (
            f"{execution.function.name}: {_ENDS[execution.end]} after {execution.steps:,} instructions"
            f" in {execution.seconds:.2f} s ({execution.schedule}){_violations(execution, observed)}"
        )
        if result.counted:
            yield from count_lines(result.source, result.module, execution)
    for text in result.notes:
        yield f"{path}: note: {text}"
    for name in result.unevaluated:
        yield f"{path}: note: expected.{name} is an expression, which is not evaluated"
    for text in result.differences:
        yield f"{path}: expected: {text}"


_SHOWN_LINES = 8
"""The lines of equal observations that are named."""


def _where(result: Invocation, execution: Execution, seen: Observed) -> str:
    """Where the further ones of equal observations are: ``at lines 7 and 9``, and no more than a few lines.

    If all are at the line of the first one, the lines of the other instructions.
    """
    word, sites = "at", {o.site for o in seen.more}
    if sites == {seen.first.site}:
        word, sites = "with", {o.other for o in seen.more}
    lines = [str(n) for n in sorted({result.line(execution, site) for site in sites})]
    if len(lines) == 1:
        return f"{word} line {lines[0]}"
    if len(lines) > _SHOWN_LINES:
        return f"{word} lines {', '.join(lines[:_SHOWN_LINES])} and {len(lines) - _SHOWN_LINES} others"
    return f"{word} lines {', '.join(lines[:-1])} and {lines[-1]}"


def _violations(execution: Execution, observed: Sequence[Observed]) -> str:
    """The end of a summary line: how much was observed. A fault and a deadlock are violations themselves."""
    counts = {note: sum(1 + len(o.more) for o in observed if o.note is note) for note in (False, True)}
    notes = f", {count(counts[True], 'note')}" if counts[True] else ""
    if counts[False]:
        return f"; {count(counts[False], 'observation')}{notes}"
    if execution.end in ("fault", "deadlock"):
        return notes.replace(",", ";")
    return f"; no violation observed{'' if execution.end == 'done' else ' before'}{notes}"


def _lines_of(result: Invocation, execution: Execution, o: Observation) -> dict[str, int | None]:
    """The lines of an observation, for JSON."""
    other = result.line(execution, o.other) if o.other >= 0 else None
    return {"line": result.line(execution, o.site), "other_line": other}


def render_json(result: Invocation) -> str:
    """A JSON object with one entry for each launch; see docs/executor.md."""
    launches = [
        {
            "entry": execution.function.name,
            "end": execution.end,
            "reason": execution.reason or None,
            "schedule": execution.schedule,
            "instructions": execution.steps,
            "seconds": round(execution.seconds, 3),
            "observations": [
                {
                    "kind": o.kind,
                    "note": note,
                    "message": o.message,
                    "thread": o.thread,
                    **_lines_of(result, execution, o),
                    "more": [_lines_of(result, execution, other) for other in more],
                }
                for o, more, note in result.observed(execution)
            ],
            "notes": [{"line": result.line(execution, s), "message": t} for t, s in execution.notes.items()],
            "counts": counts_json(result.source, result.module, execution) if result.counted else None,
        }
        for execution in result.executions
    ]
    found = {
        "path": result.source.path, "assumed": result.assumed or None, "launches": launches,
        "notes": result.notes, "differences": result.differences,
    }  # fmt: skip
    return to_json(found)
