"""``tclint barriers``: the synchronisation protocol of a kernel, as a table for people and as JSON for programs.

docs/barriers.md shows both; docs/barriers.schema.json is the schema of the JSON. ``schema`` is incremented when a key
is removed or changes its meaning, not when one is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

from tclint._dataclass import dataclass
from tclint._json import to_json
from tclint._named_tuple import NamedTuple
from tclint.analyses.model import KernelModel
from tclint.dataflow import GaveUp, LimitExceeded
from tclint.driver.one import Input
from tclint.inspect.inputs import chosen, shown
from tclint.inspect.locations import Locations
from tclint.inspect.protocol import protocol
from tclint.inspect.protocol.parts import (
    ON_MBARRIER,
    Arrive,
    BarrierUse,
    Event,
    MbarrierRing,
    Multicast,
    Protocol,
    ProtocolBarrier,
    ProtocolWait,
    Region,
    RegionUse,
    TransactionBytes,
    UnknownPart,
)
from tclint.inspect.protocol.selection import about
from tclint.inspect.tables import Cells, columns, few, printable_line, short_name
from tclint.ir.frontend import analyse
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import Function, Module
from tclint.isa.accesses import Via
from tclint.replay.verdict import Replay
from tclint.report.formats._style import BOLD, CYAN, RED, Style
from tclint.syntax.source import Problem, Source
from tclint.values import thread_masks as T

__all__ = ["SCHEMA", "Section", "ShownProtocols", "TableRow", "narrowed", "read", "render_json", "render_text", "sections", "show"]  # fmt: skip

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class KernelProtocol:
    """One function of a file. If it could not be analysed, it has no protocol, and *problems* give the reasons."""

    function: Function
    body: Function
    """The function with callees inlined, to which sites refer."""
    protocol: Protocol | None
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class ShownProtocols:
    """What is shown of one input."""

    path: str
    member: str | None
    source: Source | None
    module: Module | None
    problems: tuple[Problem, ...]
    kernels: tuple[KernelProtocol, ...]
    functions: tuple[str, ...] = ()
    """The names of all functions with a body."""

    def locations(self, kernel: KernelProtocol) -> Locations:
        assert self.source is not None
        assert self.module is not None
        return Locations(self.source, self.module, kernel.body)


def read(source: Source, entry: tuple[str, ...] = ()) -> ShownProtocols:
    """The protocols of the kernels in *source*, or of the functions that match a pattern in *entry*."""
    module, problems = analyse(source)
    callees = inlinable(module)
    return ShownProtocols(
        source.path,
        source.member,
        source,
        module,
        tuple(problems),
        tuple(_kernel(source, f, inline(f, callees), module) for f in chosen(module, entry)),
        tuple(f.name for f in module.bodies),
    )


def show(item: Input, entry: tuple[str, ...] = ()) -> ShownProtocols:
    """What is shown of one input. Every error becomes a problem, unless ``TCLINT_DEBUG`` is set."""
    return shown(
        item, entry, read, lambda path, member, why: ShownProtocols(path, member, None, None, (why,), ())
    )


def narrowed(shown: ShownProtocols, objects: tuple[str, ...], lines: tuple[int, ...]) -> ShownProtocols:
    """*shown* with only *objects*, and those that instructions in *lines* use, and the kernels that have any.

    A kernel that could not be analysed may have any of them, so it remains.
    :func:`tclint.inspect.protocol.selection.about` says how objects are named.
    """
    kernels = []
    for kernel in shown.kernels:
        if kernel.protocol is None:
            kernels.append(kernel)
        elif found := about(kernel.protocol, objects, lines, shown.locations(kernel).line):
            kernels.append(replace(kernel, protocol=found))
    return replace(shown, kernels=tuple(kernels))


def _kernel(source: Source, function: Function, body: Function, module: Module) -> KernelProtocol:
    line = source.position(function.start).line
    errors = [
        Problem(source.position(function.start + t.start).line, t.message) for t in function.flow_errors
    ]
    if function.damaged:
        errors.insert(0, Problem(line, "contains a syntax error: its barriers are unknown"))
    if errors:
        return KernelProtocol(function, body, None, tuple(errors))
    model = KernelModel(body, module)
    try:
        found = protocol(model)
        found = replace(found, unresolved=(*found.unresolved, *_replayed(model)))
    except LimitExceeded as error:
        return KernelProtocol(function, body, None, (Problem(line, str(error)),))
    finally:
        model.release()
    return KernelProtocol(function, body, found, ())


def _replayed(model: KernelModel) -> Iterator[UnknownPart]:
    """Why the synchronisation was not replayed to the end for all launches, which rule MB016 needs to detect a deadlock."""
    replay = model.fact(Replay)
    verdict = replay.verdict
    if isinstance(verdict, GaveUp):
        sites = (verdict.site,) if verdict.site >= 0 else ()
        yield UnknownPart(sites, replay.incomplete)


# ---------------------------------------------------------------- text


def render_text(shown: Iterable[ShownProtocols], color: bool = False) -> str:
    """Every kernel with its barriers, one block per ring."""
    style = Style(color)
    blocks = []
    for one in shown:
        where = one.path if one.member is None else f"{one.path}({one.member})"
        for problem in one.problems:
            at = f"{where}:{problem.line}" if problem.line else where
            blocks.append([f"{style(RED, 'error')}: {at}: {problem.message}"])
        blocks += [list(_Text(one, kernel, style).kernel(where)) for kernel in one.kernels]
    return "\n".join("".join(f"{printable_line(line, color)}\n" for line in block) for block in blocks)


class TableRow(NamedTuple):
    """One line of a table: its cells, and the instructions to which it refers."""

    cells: tuple[str, ...]
    sites: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A table about a kernel."""

    title: str
    rows: tuple[TableRow, ...]
    place: str = ""
    """The address of an mbarrier, if the section is about one."""
    note: str = ""
    """A line below the table."""


def sections(found: Protocol) -> Iterator[Section]:
    """A protocol as tables, without the list of its events."""
    if found.shown_mbarriers:
        yield Section("roles", tuple(_roles(found)))
    for ring in found.shown_mbarriers:
        note = f"per phase: {', '.join(_phase(ring))}"
        yield Section(f"mbarrier {ring.name}", tuple(_ring(found, ring)), _addresses(ring), note)
    yield Section("CTA barriers", tuple(_barriers(found.barriers)))
    if found.cluster is not None:
        yield Section("cluster barrier", tuple(_barrier_uses(found.cluster)))
    if found.selected is None:
        yield Section("shared memory", tuple(_regions(found)))


class _Text:
    def __init__(self, shown: ShownProtocols, kernel: KernelProtocol, style: Style) -> None:
        self._kernel = kernel
        assert shown.source is not None
        self._locations = shown.locations(kernel)
        self._style = style
        self._line = shown.source.position(kernel.function.start).line

    def kernel(self, where: str) -> Iterator[str]:
        function = self._kernel.function
        kind = "kernel" if function.entry else "function"
        size = _size(function)
        yield self._style(BOLD, f"{kind} {short_name(function.name)}") + f"  {where}:{self._line}, {size}"
        for problem in self._kernel.problems:
            yield f"  {self._style(RED, 'not shown')}: line {problem.line}: {problem.message}"
        found = self._kernel.protocol
        if found is None:
            return
        if not (found.mbarriers or found.barriers or found.cluster or found.unresolved or found.events):
            yield "  no barriers, and nothing asynchronous"
            return
        for section in sections(found):
            lines = columns(map(self._cells, section.rows))
            if lines:
                yield ""
                at = f"  at {section.place}" if section.place else ""
                yield self._style(CYAN, section.title) + at
                yield from (f"  {line}" for line in [*lines, *filter(None, (section.note,))])
        yield from self._program(found)
        yield from self._section("where", self._names(found))
        unresolved = [(self._locations.words(u.sites) if u.sites else "", u.why) for u in found.unresolved]
        yield from self._section("unresolved", unresolved)

    def _cells(self, row: TableRow) -> Cells:
        return (*row.cells, self._locations.words(row.sites)) if row.sites else row.cells

    def _names(self, found: Protocol) -> Iterator[Cells]:
        for n in found.names:
            yield n.name, n.meaning, f"loop from line {self._locations.line(n.site)}"

    def _section(self, title: str, rows: Iterable[Cells]) -> Iterator[str]:
        lines = columns(rows)
        if lines:
            yield ""
            yield self._style(CYAN, title)
            yield from (f"  {line}" for line in lines)

    def _program(self, found: Protocol) -> Iterator[str]:
        """The events in program order, in sections by role."""
        rows = []
        for event in found.events:
            first = "  " * len(event.loops) + event.kind
            rows.append((first, _about(found, event), event.who, self._locations.words(event.sites)))
        lines = iter(columns(rows))
        for number, section in enumerate(_sections(found.events)):
            if not number:
                yield ""
                yield self._style(CYAN, "program")
            yield f"  {self._style(BOLD, _together(found, section))}"
            loops: tuple[int, ...] = ()
            for event in section:
                for depth, head in enumerate(event.loops):
                    if head not in loops:
                        yield f"    {'  ' * depth}loop from line {self._locations.line(head)}"
                loops = event.loops
                yield f"    {next(lines)}"


def _roles(found: Protocol) -> Iterator[TableRow]:
    """The mbarriers that each role waits for and signals."""
    for number, role in enumerate(found.roles):
        waits = [r.name for r in found.shown_mbarriers if any(number in w.roles for w in r.waits)]
        signals = [
            r.name
            for r in found.shown_mbarriers
            if any(number in a.roles for a in r.arrives) or any(number in c.roles for c in r.copies)
        ]
        if waits or signals:
            signalling = f"signals {few(signals)}" if signals else ""
            yield TableRow((role.name, f"waits for {few(waits)}" if waits else "", signalling))


def _ring(found: Protocol, ring: MbarrierRing) -> Iterator[TableRow]:
    wanted = "unknown" if ring.count is None else str(ring.count)
    for i in ring.inits:
        yield TableRow(("init", i.who, wanted), i.sites)
    arriving = {site for a in ring.arrives for site in a.sites}
    for a in ring.arrives:
        bytes_ = [_bytes(e.bytes) for e in ring.expects if not set(a.sites).isdisjoint(e.sites)]
        yield TableRow(
            ("arrive", a.who, ", ".join([_arriving(a), *(f"expects {b}" for b in bytes_)])), a.sites
        )
    for b in ring.expects:
        if arriving.isdisjoint(b.sites):
            yield TableRow(("expect", b.who, _bytes(b.bytes)), b.sites)
    for b in ring.copies:
        what = [_bytes(b.bytes, b.via), b.opcode, *_to(b.multicast)]
        yield TableRow(("copy", b.who, ", ".join(what)), b.sites)
    for w in ring.waits:
        yield TableRow(("wait", w.who, _parity(w)), w.sites)
    for then in ring.then:
        stage = {True: "same stage", False: "another stage", None: ""}[then.same_stage]
        name = found.mbarriers[then.ring].name
        yield TableRow(("then", then.who, f"{name}, {stage}" if stage else name), then.sites)


def _barriers(barriers: Iterable[ProtocolBarrier]) -> Iterator[TableRow]:
    for barrier in barriers:
        number = "unknown" if barrier.number is None else str(barrier.number)
        for row in _barrier_uses(barrier):
            yield TableRow((number, *row.cells), row.sites)


def _barrier_uses(barrier: ProtocolBarrier) -> Iterator[TableRow]:
    for use in barrier.uses:
        count = f"for {use.count} threads" if use.count is not None else ""
        yield TableRow((use.kind, use.who, count), use.sites)


def _regions(found: Protocol) -> Iterator[TableRow]:
    names = {site: _waits_for(found, event) for event in found.events for site in event.sites}
    for region in found.regions:
        for number, use in enumerate(region.uses):
            name = region_words(region) if not number else ""
            yield TableRow((name, use.verb, f"{use.proxy} proxy", use.who), use.sites)
            for order in use.orderings:
                other = region.uses[order.of]
                access = f"the {other.verb} by {other.who}"
                if order.ordered is None:
                    yield TableRow(("", "ordered after", access, "unknown"))
                elif order.ordered:
                    at = dict.fromkeys(names.get(i, "the warp barrier") for i in order.at)
                    yield TableRow(("", "ordered after", access, f"at {few([*at])}"), order.at)
                else:
                    yield TableRow(("", "ordered after", access, "not on every path"), order.way)


def _waits_for(found: Protocol, event: Event) -> str:
    """The name of the barrier or mbarriers that an event waits for."""
    if event.rings:
        return few([found.mbarriers[n].name for n in event.rings])
    return f"barrier {event.barrier}" if event.barrier is not None else "the cluster barrier"


def _sections(events: Iterable[Event]) -> list[list[Event]]:
    """The events in runs that at least one role executes completely, in one outermost loop or in none."""
    found: list[list[Event]] = []
    core: set[int] = set()
    for event in events:
        last = found[-1][-1] if found else None
        roles = set(event.roles)
        if (
            last is not None
            and core & roles
            and (last.loops[:1] == event.loops[:1] or set(last.roles) == roles == core)
        ):
            found[-1].append(event)
            core &= roles
        else:
            found.append([event])
            core = roles
    return found


def _together(found: Protocol, section: Iterable[Event]) -> str:
    """The names of the roles that take part in a section."""
    roles = [found.roles[r] for r in sorted({r for event in section for r in event.roles})]
    warps = [role for role in roles if role.partition is None]
    every = sum(role.threads for role in found.roles if role.partition is None)
    names = [T.describe(sum(role.threads for role in warps), every.bit_length())] if warps else []
    return " and ".join([*names, *(role.name for role in roles if role.partition is not None)])


def _size(function: Function) -> str:
    if function.threads is not None:
        return f"{function.threads} threads"
    if function.most_threads is not None:
        return f"at most {function.most_threads} threads"
    return "CTA size unknown"


def _addresses(ring: MbarrierRing) -> str:
    start = f"{ring.base}{ring.offset:+d}" if ring.offset else ring.base
    if ring.stages == 1:
        return start
    if ring.stride is not None:
        return f"{start}, a stage every {ring.stride} bytes"
    return f"{ring.base}, offsets {', '.join(map(str, ring.offsets))}"


def _arriving(arrive: Arrive) -> str:
    each = "unknown" if arrive.count is None else str(arrive.count)
    many = "each thread" if arrive.threads is None else str(arrive.threads)
    text = each if arrive.threads == 1 else f"{many} x {each}"
    notes = [arrive.scope] if arrive.scope != "cta" else []
    notes += _to(arrive.multicast)
    notes += ["possibly in a peer CTA"] if arrive.remote and arrive.multicast is None else []
    notes += [f"when its {arrive.after} operations complete"] if arrive.after else []
    return ", ".join([text, *notes])


def _to(multicast: Multicast | None) -> list[str]:
    return [] if multicast is None else [f"multicast to {multicast.to}"]


def _bytes(number: int | None, via: Via = Via.ADDRESS) -> str:
    return f"{number} bytes" if number is not None else _UNKNOWN_BYTES.get(via, "bytes unknown")


_UNKNOWN_BYTES = {Via.DESCRIPTOR: "a matrix", Via.MAP: "a box of its tensor map"}


def _parity(wait: ProtocolWait) -> str:
    if wait.token:
        return "the state of an arrival"
    text = f"parity {wait.parity or 'unknown'}"
    first = f", first {wait.first}" if wait.first is not None and wait.parity not in ("0", "1") else ""
    return text + first + (f", {wait.scope}" if wait.scope != "cta" else "")


def _phase(ring: MbarrierRing) -> Iterator[str]:
    """The arrivals and bytes of a phase, each as expected and received."""
    yield _arrivals(ring)
    if ring.delivered is None:
        yield "bytes unknown"
        return
    seen = dict.fromkeys((d.expected, d.copied, bool(d.expects), bool(d.copies)) for d in ring.delivered)
    tensors = any(copy.via is Via.MAP for copy in ring.copies)
    for expected, copied, expects, copies in seen:
        want = "bytes unknown" if expected is None else f"{expected} bytes"
        got = "an unknown number" if copied is None else str(copied)
        if copied is None and tensors:
            got = "boxes of tensor maps"
        if expects and copies:
            yield f"{want} expected and {got} copied"
        elif expects:
            yield f"{want} expected by threads that copy none"
        elif copies:
            yield f"{got} copied by threads that expect none"


def _arrivals(ring: MbarrierRing) -> str:
    found = ring.arrivals
    if ring.arriving is not None:
        received = str(ring.arriving)
    elif found is not None and found.most is not None:
        received = f"{found.least} to {found.most}"
    else:
        return "arrivals unknown" if ring.count is None else f"{ring.count} expected, arrivals unknown"
    return (
        f"{received} arrivals, count unknown"
        if ring.count is None
        else f"{received} of {ring.count} arrivals"
    )


def region_words(region: Region) -> str:
    """``tiles+0..8192``."""
    if region.base is None:
        return "address unknown"
    if region.start is None:
        return f"{region.name}, somewhere"
    return f"{region.name}+{region.start}..{region.end}{'+' if region.more else ''}"


def _about(found: Protocol, event: Event) -> str:
    """The operands of an event in a few words."""
    parts = [found.mbarriers[r].name for r in event.rings]
    if event.kind in ON_MBARRIER and not parts:
        parts = ["unknown mbarrier"]
    if event.kind == "copy":
        where = [region_words(found.regions[r]) for r in event.regions]
        parts = [_bytes(event.bytes, event.via), *(["to " + p for p in parts]), *where]
    elif event.kind == "mma":
        parts = [event.opcode, *(region_words(found.regions[r]) for r in event.regions)]
    elif event.kind in ("fence", "proxy fence"):
        parts = [event.opcode]
    elif event.kind in ("init", "arrive"):
        count = "count unknown" if event.count is None else str(event.count)
        parts += [count] if count != "1" or event.kind == "init" else []
        parts += [f"expects {_bytes(event.bytes)}"] if event.expects else []
    elif event.kind in ("expect", "complete"):
        parts.append(_bytes(event.bytes))
    elif event.kind == "wait":
        parts.append(f"parity {event.parity}" if event.parity else "")
    elif event.kind.startswith("barrier"):
        parts = ["unknown" if event.barrier is None else str(event.barrier)]
        parts += [f"for {event.count} threads"] if event.count is not None else []
    elif event.kind == "wait group":
        parts = [event.group, f"all but {event.depth}" if event.depth else ""]
        parts.append("sources only" if event.sources else "")
    elif event.kind == "commit" and not event.rings:
        parts = [event.group]
    parts += _to(event.multicast)
    return ", ".join(filter(None, parts))


# ---------------------------------------------------------------- JSON


def render_json(shown: Iterable[ShownProtocols]) -> str:
    """All inputs as one object."""
    document = {"schema": SCHEMA, "files": [_file(one) for one in shown]}
    return to_json(document)


def _file(shown: ShownProtocols) -> dict[str, Any]:
    broken = shown.problems or any(kernel.problems for kernel in shown.kernels)
    return {
        "path": shown.path,
        "member": shown.member,
        "status": "failed" if not shown.functions and broken else "partial" if broken else "analysed",
        "problems": [_problem(problem) for problem in shown.problems],
        "kernels": [_Json(shown, kernel).kernel() for kernel in shown.kernels],
    }


def _problem(problem: Problem) -> dict[str, Any]:
    return {"line": problem.line or None, "message": problem.message}


def _multicast(found: Multicast | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)


class _Json:
    def __init__(self, shown: ShownProtocols, kernel: KernelProtocol) -> None:
        assert shown.source is not None
        self._kernel = kernel
        self._locations = shown.locations(kernel)
        self._line = shown.source.position(kernel.function.start).line

    def kernel(self) -> dict[str, Any]:
        function, found = self._kernel.function, self._kernel.protocol
        document: dict[str, Any] = {
            "name": function.name,
            "entry": function.entry,
            "line": self._line,
            "threads": function.threads,
            "most_threads": function.most_threads,
            "problems": [_problem(problem) for problem in self._kernel.problems],
        }
        if found is None:
            return document
        names = [role.name for role in found.roles]
        self._roles = names
        return {
            **document,
            "roles": [
                {
                    "name": role.name,
                    "warps": list(role.warps),
                    "partition": role.partition,
                    "events": [k for k, event in enumerate(found.events) if n in event.roles],
                }
                for n, role in enumerate(found.roles)
            ],
            "mbarriers": [self._ring(found, ring) for ring in found.shown_mbarriers],
            "barriers": [
                {"number": barrier.number, "uses": [self._barrier_use(use) for use in barrier.uses]}
                for barrier in found.barriers
            ],
            "cluster": [self._barrier_use(use) for use in found.cluster.uses] if found.cluster else [],
            "regions": [
                {
                    "name": region.name or None,
                    "base": region.base,
                    "start": region.start,
                    "end": region.end,
                    "more": region.more,
                    "uses": [self._region_use(use) for use in region.uses],
                }
                for region in found.regions
            ],
            "events": [self._event(found, event) for event in found.events],
            "names": [
                {"name": n.name, "meaning": n.meaning, "line": self._locations.line(n.site)}
                for n in found.names
            ],
            "unresolved": [
                {
                    "line": self._locations.line(u.sites[0]) if u.sites else None,
                    "count": len(u.sites),
                    "places": self._locations.json(u.sites),
                    "why": u.why,
                }
                for u in found.unresolved
            ],
        }

    def _who(self, of: Any) -> dict[str, Any]:
        return {
            "who": of.who,
            "roles": [self._roles[r] for r in of.roles],
            "places": self._locations.json(of.sites),
        }

    def _ring(self, found: Protocol, ring: MbarrierRing) -> dict[str, Any]:
        arrivals = ring.arrivals
        return {
            "name": ring.name,
            "base": ring.base,
            "offset": ring.offset,
            "offsets": list(ring.offsets),
            "stride": ring.stride,
            "stages": ring.stages,
            "count": ring.count,
            "init": [self._who(init) for init in ring.inits],
            "arrive": [
                {
                    **self._who(a),
                    "instruction": a.opcode,
                    "threads": a.threads,
                    "count": a.count,
                    "scope": a.scope,
                    "remote": a.remote,
                    "multicast": _multicast(a.multicast),
                }
                for a in ring.arrives
            ],
            "arrivals": None
            if arrivals is None
            else {"least": arrivals.least, "most": arrivals.most, "usual": sorted(arrivals.known)},
            "expect": [self._bytes(b) for b in ring.expects],
            "copy": [self._bytes(b) for b in ring.copies],
            "bytes": None
            if ring.delivered is None
            else [
                {
                    "expected": d.expected,
                    "copied": d.copied,
                    "expect": self._locations.json(d.expects),
                    "copy": self._locations.json(d.copies),
                }
                for d in ring.delivered
            ],
            "wait": [
                {
                    **self._who(w),
                    "parity": w.parity,
                    "first": w.first,
                    "state": w.token,
                    "scope": w.scope,
                }
                for w in ring.waits
            ],
            "then": [
                {**self._who(n), "mbarrier": found.mbarriers[n.ring].name, "same_stage": n.same_stage}
                for n in ring.then
            ],
        }

    def _bytes(self, of: TransactionBytes) -> dict[str, Any]:
        return {
            **self._who(of),
            "instruction": of.opcode,
            "bytes": of.bytes,
            "multicast": _multicast(of.multicast),
        }

    def _barrier_use(self, use: BarrierUse) -> dict[str, Any]:
        return {**self._who(use), "kind": use.kind, "threads": use.threads, "count": use.count}

    def _region_use(self, use: RegionUse) -> dict[str, Any]:
        return {
            **self._who(use),
            "verb": use.verb,
            "proxy": use.proxy,
            "heard": [
                {
                    "of": order.of,
                    "ordered": order.ordered,
                    "at": self._locations.json(order.at),
                    "way": self._locations.json(order.way),
                }
                for order in use.orderings
            ],
        }

    def _event(self, found: Protocol, event: Event) -> dict[str, Any]:
        return {
            "kind": event.kind,
            **self._who(event),
            "instruction": event.opcode,
            "loops": [self._locations.line(site) for site in event.loops],
            "mbarriers": [found.mbarriers[r].name for r in event.rings],
            "regions": list(event.regions),
            "count": event.count,
            "bytes": event.bytes,
            "parity": event.parity,
            "group": event.group or None,
            "depth": event.depth,
            "sources": event.sources,
            "barrier": event.barrier,
            "scope": event.scope,
            "multicast": _multicast(event.multicast),
        }
