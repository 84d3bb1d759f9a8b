"""The explanation of a hang in one kernel, with what a replay and the checks know of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tclint._dataclass import dataclass
from tclint.analyses.model import KernelModel
from tclint.findings.finding import FileReport, Finding
from tclint.findings.scales import Severity
from tclint.findings.selection import Request, Selected
from tclint.hang.causes import Cause, causes
from tclint.hang.cycle import Chain, End, chain
from tclint.hang.launched import DeadlockedLaunch
from tclint.hang.machine_code import LineTable
from tclint.hang.phases import Phases, executed, replayed
from tclint.hang.positions import CodePosition, PositionError
from tclint.hang.stops import RUNNING, Stop, Stops, kind_of
from tclint.hang.waits import Waiter, Waits
from tclint.inspect.locations import Locations
from tclint.inspect.protocol import changing
from tclint.inspect.protocol.parts import Changing, MbarrierRing, ProtocolWait
from tclint.inspect.protocol.rings import DescribedRings
from tclint.inspect.protocol.sites import Sites
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import Function, Module
from tclint.linting.check import check_source
from tclint.syntax.source import Problem, Source

__all__ = ["Explanation", "Hang", "chosen", "explain"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known of a hang."""

    source: Source
    module: Module
    function: Function
    """The kernel, with callees inlined."""
    locations: Locations
    model: KernelModel
    rings: tuple[MbarrierRing, ...]
    """The mbarriers, in the order of :attr:`Mbarriers.rings_by_init`."""
    names: tuple[Changing, ...]
    """What the names in the parities stand for."""
    stops: tuple[Stop, ...]
    waiters: tuple[Waiter, ...]
    chain: Chain | None
    causes: tuple[Cause, ...]
    executed: DeadlockedLaunch | None
    """The execution of the launch that the positions are from."""
    phases: Phases
    """The phases at the end of that execution, or of a replay that ends with threads at the same waits."""
    not_replayed: str
    """:attr:`Replay.incomplete`, if there is neither."""
    findings: tuple[Finding, ...]
    """The errors and warnings of ``tclint check`` in this kernel, those about an instruction of the hang first."""
    about: int
    """How many of them are about such an instruction."""
    problems: tuple[Problem, ...]
    """What kept ``tclint check`` from checking everything."""

    @property
    def decided(self) -> bool:
        return self.chain is not None and self.chain.end is not End.UNDECIDED

    def wait(self, site: int) -> tuple[MbarrierRing, ProtocolWait] | None:
        """The ring and the wait at *site*; None if there is not exactly one."""
        found = [(ring, wait) for ring in self.rings for wait in ring.waits if site in wait.sites]
        return found[0] if len(found) == 1 else None


def chosen(source: Source, module: Module, entry: str | None, positions: Iterable[CodePosition]) -> Function:
    """The function called *entry*; without it, the one that the positions name, or that contains their lines.

    Raises PositionError.
    """
    bodies = module.bodies
    if not bodies:
        raise PositionError("the input has no function with a body")
    named = list(dict.fromkeys(p.kernel for p in positions if p.kernel))
    if entry is None and len(named) > 1:
        raise PositionError(
            f"the positions are in several kernels, {named[0]} and {named[1]}: choose with --entry"
        )
    wanted = entry or next(iter(named), None)
    if wanted is not None:
        found = next((f for f in bodies if f.name == wanted), None)
        if found is None:
            raise PositionError(
                f"there is no kernel {wanted}; there is {', '.join(f.name for f in bodies[:5])}"
            )
        return found
    kernels = [f for f in bodies if f.entry] or bodies
    lines = [p.line for p in positions if p.line and not p.file]
    if lines:
        inside = [f for f in bodies if any(_first(source, f) <= n <= _last(source, f) for n in lines)]
        entries = [f for f in inside if f.entry]
        if len(entries or inside) == 1:
            return (entries or inside)[0]
        if entries:
            raise PositionError(
                f"the positions are in several kernels, {entries[0].name} and {entries[1].name}: choose with --entry"
            )
    if len(kernels) == 1:
        return kernels[0]
    raise PositionError(
        f"choose one of the {len(kernels)} kernels with --entry: {', '.join(f.name for f in kernels[:5])}"
    )


def _first(source: Source, function: Function) -> int:
    return source.position(function.start).line


def _last(source: Source, function: Function) -> int:
    return source.position(function.end).line


@dataclass(frozen=True, slots=True)
class Hang:
    """What is known of a hang."""

    positions: Sequence[CodePosition]
    """Where its threads are."""
    table: LineTable | None = None
    """The lines of the offsets in positions."""
    shape: tuple[int, ...] | None = None
    """The threads of a CTA along x, y and z."""
    launch: DeadlockedLaunch | None = None
    """The execution that has the positions."""


def explain(source: Source, module: Module, function: Function, known: Hang) -> Explanation:
    """Explains a hang of *function*.

    Raises PositionError, also if the kernel has no wait, and LimitExceeded.
    """
    shape, launch = known.shape, known.launch
    body = inline(function, inlinable(module))
    model = KernelModel(body, module)
    if shape is not None and body.threads is None:
        model = model.shaped(shape)
    if all(kind_of(instruction) == RUNNING for instruction in body.instructions):
        raise PositionError(f"{function.name} has no instruction that waits")
    locations, sites = Locations(source, module, body), Sites(model)
    resolver = Stops(sites, locations, _first(source, function), _last(source, function), function.name)
    stops = tuple(resolver.all(known.positions, known.table))
    described = DescribedRings(sites)
    rings = tuple(map(described.described, described.found))
    waits = Waits(sites, stops)
    waiters = tuple(waits.waiters)
    hang = chain(waiters, stops)
    phases, not_replayed = (
        replayed(model, stops, waiters)
        if launch is None
        else (executed(launch, locations, stops, waiters), "")
    )
    shown = causes(waits, rings, waiters, hang, phases) if hang is not None else []
    report = check_source(source, Request(Selected(entry=(function.name,))))
    findings, about = _findings(report, source, locations, waiters, stops, shown)
    return Explanation(
        source, module, body, locations, model, rings, tuple(changing(sites)), stops, waiters, hang, tuple(shown), launch, phases, not_replayed,
        tuple(findings), about, report.problems,
    )  # fmt: skip


def _findings(
    report: FileReport,
    source: Source,
    locations: Locations,
    waiters: Sequence[Waiter],
    stops: Sequence[Stop],
    shown: Sequence[Cause],
) -> tuple[list[Finding], int]:
    """The errors and warnings of the kernel, and how many of them, which come first, are about the hang."""
    found = [f for f in report.findings if f.severity is not Severity.INFO and f.suppressed is None]
    lines = {locations.line(stop.site) for stop in stops}
    for waiter in waiters:
        lines.update(locations.line(operation.site) for operation in waiter.operations)
        if waiter.object.ring is not None:
            lines.update(map(locations.line, waiter.object.ring.inits))
    for cause in shown:
        lines.update(map(locations.line, cause.sites))
    about = [f for f in found if not lines.isdisjoint(_lines(source, f))]
    return [*about, *(f for f in found if f not in about)], len(about)


def _lines(source: Source, finding: Finding) -> set[int]:
    """The lines of a finding and of the steps of its path."""
    waits = [step for party in finding.deadlock for step in (party.wait, *party.arrivals)]
    spans = [finding.span, *(step.span for step in (*finding.steps, *waits) if not step.aside)]
    return {source.position(span.start).line for span in spans}
