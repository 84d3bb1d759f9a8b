"""Checks of programmatic dependent launch: reads of what earlier grids write (PTX ISA 9.7.13.13)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from functools import reduce
from math import gcd
from operator import or_

from tclint.analyses.global_memory import global_operands
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import known_functions, path_avoiding
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._repairs import fence_before, first_of_blocks
from tclint.dataflow import Path
from tclint.findings.edits import Repair, before
from tclint.findings.scales import Severity
from tclint.ir.nodes import Function
from tclint.isa.accesses import StateSpace
from tclint.isa.effects import Barrier, Effects
from tclint.isa.special_registers import SPECIAL_REGISTERS, Scope
from tclint.values import Values
from tclint.values import thread_masks as T
from tclint.values.nodes import Arithmetic, Node, ParameterRead, Phi, Select, SpecialRead

GD001 = RuleId("GD001")
GD002 = RuleId("GD002")
GD003 = RuleId("GD003")

MAX_PHI_DEPTH = 4
"""Nested phis and selects through which a pointer is traced to a parameter."""
_POINTER = 8
"""The size in bytes of a parameter that may be a pointer."""
Given = tuple[int, int]
"""A buffer passed to the kernel: the value of a parameter and 0, or the address of a parameter and an offset."""


_WEIGHTS = "the role may load only weights, which no grid writes"
_ASSUMED = " (assuming the kernel is launched as a programmatic dependent)"


class _Evidence(Enum):
    """Why a read before the wait may be of what an earlier grid writes; that of weights has none of these."""

    WRITTEN = "from a buffer that the kernel also writes"
    INDEXED = "at the index at which it also accesses its other buffers"
    DECIDES = "and its result decides a branch"


@check(GD001, GD003, analyses=(HappensBefore,))
def access_before_wait(model: KernelModel) -> Iterator[Hit]:
    """Report accesses to global memory by threads that are not ordered after the completion of earlier grids."""
    waits = model.awaits(Barrier.GRIDS)
    if not waits or not model.function.entry:
        return
    observers = frozenset(
        w for w in model.fact(HappensBefore).transitive_observers(waits) if not _passes_at_once(model, w)
    )
    for hit in (
        _role_without_wait(model, waits, observers),
        _read_before(model, waits, observers),
        _write_before(model, waits, observers),
    ):
        if hit is not None:
            yield hit


def _role_without_wait(model: KernelModel, waits: list[int], observers: frozenset[int]) -> Hit | None:
    """The finding about a read by a role that never waits and is not ordered after one that does; None without one."""
    views = model.views
    others = _accesses(model, "read", lambda site: all(views.mutually_exclusive(site, w) for w in waits))
    late = _accesses(model, "read", lambda site: any(model.may_follow(w, site) for w in waits))
    shared = frozenset().union(*late.values(), *_accesses(model, "write").values())
    alike = {site for site, bases in others.items() if bases & shared}
    # A read that some threads execute after their wait, and others without one: a branch on the index decides which.
    waiting = reduce(or_, (views.context_of(w).threads for w in waits))
    path = _unordered(model, alike, observers) or _unordered(model, late, observers, ~waiting)
    sure = path is not None
    path = path or _unordered(model, others, observers)
    if path is None:
        return None
    site, role = path.end, model.describe_threads(path.threads)
    severity = _severity(model) if sure else Severity.WARNING
    if severity is None and model.instruction(site).effects.begins is not None:
        severity = Severity.WARNING
    return GD001.hit(
        site=site,
        message=f"{model.name(site)} reads global memory that an earlier grid may still be writing: this role never executes "
        "griddepcontrol.wait, "
        + ("and another role that does uses the same buffer" if sure else "as other roles of the kernel do"),
        steps=(
            Mark(
                waits[0],
                "other warps wait for the earlier grids",
                role=model.describe_threads(views.context_of(waits[0]).threads),
            ),
            Mark(site, "reads without waiting for the earlier grids, or for a warp that has", role=role),
        ),
        help="execute griddepcontrol.wait in this role too, or let it wait at a barrier for a role that has done so",
        fixes=fence_before((site,), "griddepcontrol.wait;"),
        # A value that several roles load may have been written before the earlier grid.
        severity=severity,
        about=frozenset((site,)),
    ).doubted("" if sure else _WEIGHTS)


def _read_before(model: KernelModel, waits: list[int], observers: frozenset[int]) -> Hit | None:
    """The finding about reads before the wait with evidence that they are not of weights; None without one."""
    early = _accesses(model, "read", lambda site: any(model.may_follow(site, w) for w in waits))
    evidence = _evidence(model, waits, early) if early else {}
    for kind in _Evidence:
        sites = {site for site, known in evidence.items() if known is kind}
        path = _unordered(model, sites, observers)
        if path is None:
            continue
        wait = next(w for w in waits if model.may_follow(path.end, w))
        return GD001.hit(
            site=path.end,
            message=f"{model.name(path.end)} reads global memory before griddepcontrol.wait, {kind.value}: "
            + (
                f"an earlier grid may still be writing it{_ASSUMED}"
                if model.dependent
                else "does an earlier grid write it?"
            ),
            steps=(Mark(path.end, "reads it"), Mark(wait, "waits for the earlier grids only here")),
            count=len(sites),
            help="move the read after griddepcontrol.wait, unless no earlier grid writes what it reads",
            fixes=fence_before(first_of_blocks(model, sites), "griddepcontrol.wait;"),
            severity=Severity.WARNING if kind is _Evidence.DECIDES and model.dependent else _severity(model),
            about=frozenset(sites),
        )
    return None


def _write_before(model: KernelModel, waits: list[int], observers: frozenset[int]) -> Hit | None:
    """The finding about writes to global memory before the wait, or on a path without one; None if there are none."""
    early = _accesses(
        model,
        "write",
        lambda site: (
            any(model.may_follow(site, w) for w in waits) or not any(model.may_follow(w, site) for w in waits)
        ),
    )
    path = _unordered(model, early, observers)
    if path is None:
        return None
    wait = next((w for w in waits if model.may_follow(path.end, w)), waits[0])
    before_it = model.may_follow(path.end, wait)
    return GD003.hit(
        site=path.end,
        message=f"{model.name(path.end)} writes global memory {'before' if before_it else 'on a path without'} griddepcontrol.wait: "
        + (
            f"an earlier grid may still read or write it{_ASSUMED}"
            if model.dependent
            else "does an earlier grid read or write it?"
        ),
        steps=(
            Mark(path.end, "writes the buffer"),
            Mark(wait, "waits for the earlier grids only here" if before_it else "other threads wait here"),
        ),
        count=len(early),
        help="move the write after griddepcontrol.wait, unless no earlier grid uses what it writes",
        fixes=fence_before(first_of_blocks(model, early), "griddepcontrol.wait;"),
        severity=_severity(model),
        about=frozenset(early),
    )


def _severity(model: KernelModel) -> Severity | None:
    """That of what is wrong in a dependent grid; None for the severity of the rule, where the launch is unknown."""
    return Severity.ERROR if model.dependent else None


def _unordered(
    model: KernelModel, sites: Collection[int], observers: frozenset[int], threads: int = -1
) -> Path | None:
    """A path of *threads* from the entry to one of *sites* on which none may have observed the end of earlier grids."""
    some = T.full(model.values.threads) & threads
    return path_avoiding(model, -1, some, sites, observers).witness if sites and some else None


def _evidence(
    model: KernelModel, waits: list[int], early: Mapping[int, frozenset[Given]]
) -> dict[int, _Evidence]:
    """Why the *early* reads may be of what an earlier grid writes, for those for which there is a reason.

    Weights are read by column or by tile. What each thread reads at the index of its result, which is in its CTA's part of
    an activation, is likely to be an activation as well, and so is a length that decides what a thread does.
    """
    writes = _accesses(model, "write")
    written = frozenset().union(*writes.values())
    late = _accesses(model, "read", lambda site: any(model.may_follow(w, site) for w in waits))
    indices = {
        i
        for verb, sites in (("write", writes), ("read", late))
        for s in sites
        for i in _indices(model, s, verb)
    }
    deciding = _deciding(model) if model.dependent else frozenset()
    found = {}
    for site, bases in early.items():
        if bases & written:
            found[site] = _Evidence.WRITTEN
        elif not indices.isdisjoint(_indices(model, site, "read")):
            found[site] = _Evidence.INDEXED
        elif not deciding.isdisjoint(model.instruction(site).writes):
            found[site] = _Evidence.DECIDES
    return found


def _indices(model: KernelModel, site: int, verb: str) -> Iterator[tuple[tuple[int, int], ...]]:
    """The indices at which *site* reads or writes (*verb*) global memory, if CTA and thread decide them: terms with factors.

    They are those of an address without its pointer, divided by what the factors have in common: the size of an element.
    """
    instruction, values = model.instruction(site), model.values
    names = () if instruction.match is None else global_operands(instruction.match, verb)
    for operand in map(instruction.named, names):
        terms = [
            (t, f)
            for t, f in (() if operand is None else values.linear(values.operand(operand, site))[0])
            if not _is_pointer(values.node(t)) and not model.space(t).startswith(".param")
        ]
        parts = map(values.node, values.subexpressions(*(t for t, _ in terms)))
        scopes = {SPECIAL_REGISTERS[n.name].scope for n in parts if type(n) is SpecialRead}
        if any(Scope.CTA <= scope < Scope.GRID for scope in scopes) and min(scopes) < Scope.CTA:
            common = gcd(*(f for _, f in terms))
            yield tuple((t, f // common) for t, f in terms)


def _deciding(model: KernelModel) -> frozenset[int]:
    """The registers on which a branch depends directly, or by a comparison."""
    instructions, found = model.function.instructions, set[int]()
    for edges in model.cfg.successors:
        for edge in edges:
            for site in model.values.defs.get(edge.predicate, ()) if edge.predicate >= 0 else ():
                found.update(instructions[site].reads)
    return frozenset(found)


def _passes_at_once(model: KernelModel, wait: int) -> bool:
    """True if an mbarrier wait may start with parity 1, and then returns at once without an arrival (9.7.13.15.16)."""
    value = model.value(wait, "parity")
    return value is not None and 1 in _starts(model.values, value)


def _starts(values: Values, parity: int) -> set[int]:
    """The values that a parity may have in the first iteration of a loop; empty if unknown."""
    constant = values.constant_of(parity)
    if constant is not None:
        return {constant & 1}
    node = values.node(parity)
    found: set[int] = set()
    if type(node) is Phi:
        found = {n for a in values.arguments(parity) if (n := values.constant_of(a)) is not None}
    elif type(node) is Arithmetic and node.name == "xor":
        first, second = (_starts(values, part) for part in node.operands)
        found = {a ^ b for a in first for b in second}
    return found


def _accesses(
    model: KernelModel, verb: str, wanted: Callable[[int], bool] = lambda _: True
) -> dict[int, frozenset[Given]]:
    """The *wanted* instructions that read or write (*verb*) global memory through parameters, each with its buffers."""
    found = {}
    for use in model.function.uses:
        names = () if use.match is None else global_operands(use.match, verb)
        for site in use.sites if names else ():
            if model.cfg.block_of[site] in model.cfg.rank and wanted(site):
                bases = frozenset[Given]().union(*(_given(model, site, name) for name in names))
                if bases:
                    found[site] = bases
    return found


def _given(model: KernelModel, site: int, name: str) -> frozenset[Given]:
    """The buffers that the operand called *name* may point into: pointer parameters, or tensor maps in parameters."""
    operand = model.instruction(site).named(name)
    if operand is None:
        return frozenset()
    values, found, seen = model.values, set[Given](), set[int]()
    work = [(values.operand(operand, site), 0)]
    while work:
        value, depth = work.pop()
        terms, constant = values.linear(value)
        for term, _ in terms:
            node = values.node(term)
            if _is_pointer(node):
                found.add((term, 0))
            elif model.space(term).startswith(".param"):
                found.add((term, constant))
            elif depth < MAX_PHI_DEPTH and term not in seen:
                seen.add(term)
                inner = (
                    values.arguments(term) if type(node) is Phi else node.arms if type(node) is Select else ()
                )
                work += [(a, depth + 1) for a in inner]
    return frozenset(found)


def _is_pointer(node: Node) -> bool:
    """Whether a value is a parameter that may be a pointer."""
    return type(node) is ParameterRead and node.size == _POINTER


@check(GD002)
def launch_without_wait(model: KernelModel) -> Iterator[Hit]:
    """Report kernels that let dependents start, in a module in which no kernel waits for earlier grids.

    One that only lets dependents start may be the first of its chain, unless it is launched as a dependent itself.
    """
    function, module = model.function, model.module
    site = _first(function, _launches)
    if site is None or not function.entry or model.awaits(Barrier.GRIDS):
        return
    if not model.dependent and any(_first(f, _awaits) is not None for f in module.functions):
        return
    known, own = known_functions(module), _first_read(model)
    launching = [f for f in (function, *module.functions) if _first(f, _launches) is not None]
    if own is None or any(
        i.flow == "call" and i.callee not in known for f in launching for i in f.instructions
    ):
        return
    message = (
        f"{function.name} lets dependent grids start, but no kernel of the module executes griddepcontrol.wait: "
        "a dependent may read what this grid, or an earlier one, has not written yet"
    )
    steps: tuple[Mark, ...] = ()
    edits = [before(own, "griddepcontrol.wait;")]
    if model.dependent:
        message = (
            f"{function.name} lets dependent grids start and never executes griddepcontrol.wait: it may read what an "
            f"earlier grid has not written yet{_ASSUMED}"
        )
        steps = (Mark(own, "reads global memory without waiting for the earlier grids"),)
    else:
        for f in (f for f in module.functions if f.entry and f.name != function.name):
            if (read := _first_read(KernelModel(f, module))) is not None:
                steps += (Mark(read, f"{f.name} reads global memory and may be a dependent", f),)
                edits.append(before(read, "griddepcontrol.wait;", function=f))
    yield GD002.hit(
        site=site,
        message=message,
        steps=steps,
        fixes=(Repair("add griddepcontrol.wait before the first read of each kernel", tuple(edits), True),),
        help="execute griddepcontrol.wait in this kernel, unless it is the first of its chain, and in its dependents",
        severity=_severity(model),
    )


def _launches(effects: Effects) -> bool:
    return effects.arrives is Barrier.GRIDS


def _awaits(effects: Effects) -> bool:
    return effects.awaits is Barrier.GRIDS


def _first(function: Function, holds: Callable[[Effects], bool]) -> int | None:
    """The first instruction with effects for which *holds* is true; None without one."""
    sites = (i for u in function.uses if u.match is not None and holds(u.match.form.effects) for i in u.sites)
    return min(sites, default=None)


def _first_read(model: KernelModel) -> int | None:
    """The first instruction that reads global memory, by name or through a parameter; None without one."""
    named = (
        i
        for u in model.function.uses
        if u.match is not None
        and any(a.space is StateSpace.GLOBAL and not a.writes for a in u.match.accesses)
        for i in u.sites
    )
    return min((*named, *_accesses(model, "read")), default=None)
