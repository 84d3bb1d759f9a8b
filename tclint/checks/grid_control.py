"""Checks of programmatic dependent launch: reads of what earlier grids write (PTX ISA 9.7.13.13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tclint.analyses.global_memory import global_operands
from tclint.analyses.happens_before import HappensBefore, OrderScope
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import known_functions, path_avoiding
from tclint.checks import Hit, Mark, RuleId, check, module_check
from tclint.checks._repairs import fence_before, first_of_blocks
from tclint.findings.edits import Repair, before
from tclint.findings.scales import Severity
from tclint.ir.nodes import Function, Module
from tclint.isa.accesses import StateSpace
from tclint.isa.effects import Barrier, Effects
from tclint.isa.target import Version
from tclint.values import Values
from tclint.values import thread_masks as T
from tclint.values.nodes import Arithmetic, ParameterRead, Phi, Select

GD001 = RuleId("GD001")
GD002 = RuleId("GD002")

MAX_PHI_DEPTH = 4
"""Nested phis and selects through which a pointer is traced to a parameter."""
_POINTER = 8
"""The size in bytes of a parameter that may be a pointer."""
Given = tuple[int, int]
"""A buffer passed to the kernel: the value of a parameter and 0, or the address of a parameter and an offset."""


@check(GD001, analyses=(HappensBefore,))
def read_before_wait(model: KernelModel) -> Iterator[Hit]:
    """Report reads of global memory by threads that are not ordered after the completion of earlier grids."""
    waits = model.awaits(Barrier.GRIDS)
    if not waits or not model.function.entry:
        return
    for hit in (_role_without_wait(model, waits), _before_the_wait(model, waits)):
        if hit is not None:
            yield hit


_WEIGHTS = "the role may load only weights, which no grid writes"


def _role_without_wait(model: KernelModel, waits: list[int]) -> Hit | None:
    """The finding about a read by a role that never waits and is not ordered after one that does; None without one."""
    views = model.views
    others = _accesses(model, "read", lambda site: all(views.mutually_exclusive(site, w) for w in waits))
    if not others:
        return None
    observers = {
        w for w in model.fact(HappensBefore).transitive_observers(waits) if not _passes_at_once(model, w)
    }
    late = _accesses(model, "read", lambda site: any(model.may_follow(w, site) for w in waits))
    shared = frozenset().union(*late.values(), *_accesses(model, "write").values())
    alike = {site for site, bases in others.items() if bases & shared}
    every = T.full(model.values.threads)
    path = path_avoiding(model, -1, every, alike, observers).witness if alike else None
    sure = path is not None
    path = path or path_avoiding(model, -1, every, others, observers).witness
    if path is None:
        return None
    site, role = path.end, model.describe_threads(path.threads)
    return GD001.hit(
        site=site,
        message="reads global memory that an earlier grid may still be writing: this role never executes "
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
        severity=Severity.WARNING if not sure or model.instruction(site).effects.begins is not None else None,
        about=frozenset((site,)),
    ).doubted("" if sure else _WEIGHTS)


def _before_the_wait(model: KernelModel, waits: list[int]) -> Hit | None:
    """The finding about a read before the wait from a buffer that the kernel also writes, so not weights; or None."""
    early = _accesses(model, "read", lambda site: any(model.may_follow(site, w) for w in waits))
    if not early:
        return None
    written = frozenset().union(*_accesses(model, "write").values())
    sites = {site for site, bases in early.items() if bases & written}
    path = (
        path_avoiding(
            model,
            -1,
            T.full(model.values.threads),
            sites,
            model.fact(HappensBefore).points.acquire_points(OrderScope.WARPS).union(waits),
        ).witness
        if sites
        else None
    )
    if path is None:
        return None
    wait = next(w for w in waits if model.may_follow(path.end, w))
    return GD001.hit(
        site=path.end,
        message="reads global memory before griddepcontrol.wait, from a buffer that the kernel also writes: "
        "an earlier grid may still be writing it",
        steps=(Mark(path.end, "reads the buffer"), Mark(wait, "waits for the earlier grids only here")),
        count=len(sites),
        help="move the read after griddepcontrol.wait, unless no earlier grid writes what it reads",
        fixes=fence_before(first_of_blocks(model, sites), "griddepcontrol.wait;"),
        about=frozenset(sites),
    )


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
            if type(node) is ParameterRead and node.size == _POINTER:
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


@module_check(GD002)
def launch_without_wait(module: Module, toolkit: Version | None) -> Iterator[Hit]:
    """Report kernels that let dependents start, in a module in which no kernel waits for earlier grids."""
    launching = [(f, site) for f in module.functions if (site := _first(f, _launches)) is not None]
    if not launching or any(_first(f, _awaits) is not None for f in module.functions):
        return  # a kernel that only lets dependents start may be the first of its chain
    known = known_functions(module)
    if any(i.flow == "call" and i.callee not in known for f, _ in launching for i in f.instructions):
        return
    readers = [
        (f, site) for f in module.functions if f.entry and (site := _first_read(f, module)) is not None
    ]
    for function, site in launching:
        if any(f is function for f, _ in readers):
            instruction = function.instructions[site]
            yield GD002.hit(
                span=(function.start + instruction.start, function.start + instruction.end),
                message=f"{function.name} lets dependent grids start, but no kernel of the module executes "
                "griddepcontrol.wait: a dependent may read what this grid, or an earlier one, has not written yet",
                steps=tuple(
                    Mark(read, f"{f.name} reads global memory and may be a dependent", f)
                    for f, read in readers
                    if f is not function
                ),
                fixes=(
                    Repair(
                        "add griddepcontrol.wait before the first read of each kernel",
                        tuple(before(read, "griddepcontrol.wait;", function=f) for f, read in readers),
                        True,
                    ),
                ),
                help="execute griddepcontrol.wait in this kernel, unless it is the first of its chain, and in "
                "its dependents",
            )


def _launches(effects: Effects) -> bool:
    return effects.arrives is Barrier.GRIDS


def _awaits(effects: Effects) -> bool:
    return effects.awaits is Barrier.GRIDS


def _first(function: Function, holds: Callable[[Effects], bool]) -> int | None:
    """The first instruction with effects for which *holds* is true; None without one."""
    sites = (i for u in function.uses if u.match is not None and holds(u.match.form.effects) for i in u.sites)
    return min(sites, default=None)


def _first_read(function: Function, module: Module) -> int | None:
    """The first instruction that reads global memory, by name or through a parameter; None without one."""
    named = (
        i
        for u in function.uses
        if u.match is not None
        and any(a.space is StateSpace.GLOBAL and not a.writes for a in u.match.accesses)
        for i in u.sites
    )
    return min((*named, *_accesses(KernelModel(function, module), "read")), default=None)
