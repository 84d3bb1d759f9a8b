"""Checks of tensor memory that is not freed, or not as it was allocated (PTX ISA 9.7.16.7.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.role_paths import path_avoiding, whole_program
from tclint.analyses.tmem_allocation import HELD, Ledger, TensorAllocation
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._wording import avoided
from tclint.dataflow import EXIT, Path
from tclint.findings.edits import Repair, before, operand
from tclint.findings.scales import Confidence, Severity
from tclint.ir.nodes import Immediate, Instruction, Memory, Symbol
from tclint.isa.effects import Resource
from tclint.isa.target import tensor_columns
from tclint.values import PathCondition, UniformityScope
from tclint.values import thread_masks as T

TM001 = RuleId("TM001")
TM003 = RuleId("TM003")


@check(TM001, TM003, analyses=(HappensBefore, TensorAllocation))
def balance(model: KernelModel) -> Iterator[Hit]:
    """Allocations that are not freed exactly once, as a whole, by the address that tcgen05.alloc returned."""
    if not model.sites(Resource.TMEM_ALLOC) and not model.sites(Resource.TMEM_DEALLOC):
        return
    memory, _ = model.solution(TensorAllocation)
    wrong = list(_mismatches(model, memory))
    yield from wrong
    if not model.sites(Resource.TMEM_DEALLOC):
        if model.function.entry and memory.allocations:
            yield _never_freed(model, memory)
    elif memory.allocations and memory.deallocations and not wrong:
        yield from _unbalanced(model, memory)


def _never_freed(model: KernelModel, memory: TensorAllocation) -> Hit:
    site, cfg = memory.allocations[0], model.cfg
    ends = (cfg.blocks[b].end - 1 for b in cfg.exits if b in cfg.rank)
    return TM001.hit(
        site=site,
        message=f"{model.name(site)} allocates tensor memory that the kernel never frees: it has no tcgen05.dealloc",
        steps=(
            Mark(site, "allocated here", role=model.describe_threads(model.views.context_of(site).threads)),
            *(
                Mark(end, "the kernel ends here with the columns still allocated")
                for end in sorted(ends)[-1:]
                if model.reaches(site, end)
            ),
        ),
        count=len(memory.allocations),
        help="free it with tcgen05.dealloc after the last access of any warp, before the kernel ends",
    ).doubted(
        ""
        if whole_program(model)
        else "a function outside of this module, or an unknown instruction, may free it"
    )


def _never_allocated(model: KernelModel, deallocations: Sequence[int]) -> Hit:
    site = deallocations[0]
    load = _loaded(model, site)
    steps = [
        Mark(i, "gives up the right to allocate; nothing is allocated before")
        for i in model.sites(Resource.TMEM_RELINQUISH)[:1]
    ]
    if load is not None:
        steps.append(Mark(load, "loads the address that is freed; no tcgen05.alloc stores it"))
    return TM003.hit(
        site=site,
        message=f"{model.name(site)} frees tensor memory in a kernel that allocates none",
        steps=(*sorted(steps, key=lambda step: step.site), Mark(site, "freed here")),
        count=len(deallocations),
        help="allocate it with tcgen05.alloc in the same kernel",
        fixes=_allocated(model, site, load) if load is not None else (),
    )


def _loaded(model: KernelModel, site: int) -> int | None:
    """The load from shared memory of the address that *site* frees; None if not a single load defines it."""
    address = model.instruction(site).role("taddr")
    defined = model.values.defs.get(address, ()) if isinstance(address, int) else ()
    return defined[0] if len(defined) == 1 and model.name(defined[0]).startswith("ld.shared") else None


def _allocated(model: KernelModel, site: int, load: int) -> tuple[Repair, ...]:
    """The repair that allocates what *site* frees, before the barrier that precedes the *load* of the address.

    It is executed by the warp that frees it: under the guard of *site*, which must have the same value there.
    """
    instruction, values = model.instruction(site), model.values
    block = model.cfg.blocks[model.cfg.block_of[load]]
    barriers = (
        i
        for i in range(load - 1, block.start - 1, -1)
        if model.instruction(i).effects.synchronises is not None
    )
    at, columns = next(barriers, -1), instruction.role("columns")
    source = next((o for o in model.instruction(load).operands if isinstance(o, Memory)), None)
    guard = instruction.guard
    if at < 0 or source is None or not isinstance(source.base, Symbol) or not isinstance(columns, Immediate):
        return ()
    if guard < 0 or instruction.negated or values.before(guard, at) != values.before(guard, site):
        return ()
    opcode = instruction.opcode.replace(".dealloc", ".alloc").replace(".b32", ".shared::cta.b32")
    address = f"{source.base.name}+{source.base.offset + source.offset}"
    name = model.function.registers[guard].name
    statement = f"@{name} {opcode} [{address}], {columns.value};"
    return (Repair("add tcgen05.alloc before the address is loaded", (before(at, statement),)),)


def _mismatches(model: KernelModel, memory: TensorAllocation) -> Iterator[Hit]:
    """Deallocations that match no allocation of this kernel."""
    if not memory.deallocations:
        return
    if not memory.allocations:
        if not model.sites(Resource.TMEM_ALLOC) and whole_program(model):
            yield _never_allocated(model, memory.deallocations)
        return
    wrong = (_wrong_address(model, memory, i) or _wrong_count(memory, i) for i in memory.deallocations)
    for first, *others in grouped(
        ((hit.message, hit.about), hit) for hit in wrong if hit is not None
    ).values():
        yield replace(first, count=1 + len(others))


def _wrong_address(model: KernelModel, memory: TensorAllocation, site: int) -> Hit | None:
    address = memory.address(site)
    if address is not None:
        if not address[1]:
            return None
        origin = memory.words[address[0]][0]
        return TM003.hit(
            site=site,
            message=f"{model.name(site)} frees tensor memory by an address {address[1]} beyond the one that tcgen05.alloc returned",
            steps=(Mark(origin, "allocated here"), Mark(site, "freed by another address")),
            help="free the whole allocation by the address that tcgen05.alloc returned",
            confidence=Confidence.MEDIUM,
        )
    beyond = _beyond(model, memory, site)
    if beyond:
        every = tensor_columns(model.function.target)
        return TM003.hit(
            site=site,
            message=f"{model.name(site)} frees tensor memory at column {beyond}, where no allocation of {every} columns begins",
            steps=(
                Mark(memory.allocations[0], f"all {every} columns are allocated here"),
                Mark(site, "freed by another address"),
            ),
            help="free the whole allocation by the address that tcgen05.alloc returned",
        )
    if _is_shared_address(model, site):
        return TM003.hit(
            site=site,
            message=f"{model.name(site)} frees an address of shared memory, which is where tcgen05.alloc writes the address of the tensor memory",
            help="load the word that tcgen05.alloc wrote, and free the address that it contains",
        )
    return None


def _wrong_count(memory: TensorAllocation, site: int) -> Hit | None:
    origins = sorted(memory.frees(site))
    counts = {memory.columns(origin) for origin in origins}
    columns = memory.columns(site)
    if columns is None or None in counts or columns in counts:
        return None
    stated = [(site, columns), *((origin, memory.columns(origin)) for origin in origins)]
    if not all(
        any(n in numbers for numbers in memory.allowed(memory.model.instruction(i))) for i, n in stated
    ):
        return None  # TM002
    allocated = " or ".join(str(n) for n in sorted(n for n in counts if n is not None))
    piecewise = any((a := memory.address(d)) is not None and a[1] for d in memory.deallocations)
    return TM003.hit(
        site=site,
        message=f"{memory.model.name(site)} frees {columns} columns of an allocation of {allocated}",
        steps=(
            Mark(origins[0], f"{memory.columns(origins[0])} columns are allocated here"),
            Mark(site, f"{columns} columns are freed"),
        ),
        help="free as many columns as were allocated",
        fixes=(Repair(f"free {allocated} columns", (operand(site, "columns", allocated),)),)
        if allocated.isdigit()
        else (),
        about=frozenset(origins),
    ).doubted(
        "the kernel also frees at other columns, so it may free the allocation in parts" if piecewise else ""
    )


def _beyond(model: KernelModel, memory: TensorAllocation, site: int) -> int:
    """The constant column that is freed although every allocation has all columns and so starts at 0; else 0."""
    value = model.value(site, "taddr")
    assert value is not None
    column = (model.values.constant_of(value) or 0) & 0xFFFF
    every = tensor_columns(model.function.target)
    return column if {memory.columns(a) for a in memory.allocations} == {every} else 0


def _is_shared_address(model: KernelModel, site: int) -> bool:
    value = model.value(site, "taddr")
    assert value is not None
    return any(
        model.space(term) == ".shared" for term, factor in model.values.linear(value)[0] if factor == 1
    )


def _unbalanced(model: KernelModel, memory: TensorAllocation) -> Iterator[Hit]:
    """The first allocation that some path does not free, and one that some path frees twice."""
    if not model.function.entry:
        return
    freeing = 0
    for free in memory.deallocations:
        freeing |= model.views.context_of(free).threads
    for site in memory.allocations:
        warp = T.one_warp(model.views.context_of(site).threads)
        if not warp:
            continue
        if not freeing & ~warp:
            leak = _held_at_the_end(model, memory, site)
        elif T.one_warp(freeing) and not freeing & warp:
            leak = _skipped_by_another(model, memory, site, freeing) or _too_many(model, memory, site)
        else:
            leak = None
        if leak is not None:
            yield leak
            break
    twice = _freed_twice(model, memory)
    if twice is not None:
        yield twice


def _held_at_the_end(model: KernelModel, memory: TensorAllocation, site: int) -> Hit | None:
    """The hit for a path of the warp that allocates and frees on which it does not free everything; None if there is
    none."""
    _, results = model.solution(TensorAllocation)
    cfg = model.cfg
    # With several allocations, a state does not show which of them a deallocation freed; a path does.
    if (
        len(memory.allocations) == 1
        and cfg.block_of[site] not in cfg.in_cycle
        and not any((site, HELD) in results.leave(b) for b in cfg.exits if b in cfg.rank)
    ):
        return None

    def step(ledger: Ledger, i: int, instruction: Instruction) -> Ledger | None:
        return memory.entered(ledger, i, instruction) or None

    path = model.path(FactQuery(site, (site,), results, step, lambda ledger, i: i == EXIT, ())).witness
    if path is None or path.block(model.cfg, site) in model.reachability.dispatchers:
        return None
    return _leaked(model, memory, path.state[0], path, site)


def _skipped_by_another(model: KernelModel, memory: TensorAllocation, site: int, freeing: int) -> Hit | None:
    """The hit for a path of the warp that frees for another one, from a barrier after the allocation to the end.

    None if every such path frees, or none is found.
    """
    values = model.values
    facts = PathCondition(
        (p, truth)
        for p, truth in model.views.context_of(site).invariant(values).items()
        if values.uniformity(p) is UniformityScope.CTA
    )
    for barrier in model.fact(HappensBefore).points.cta_wide_barriers:
        if model.reaches(site, barrier) and not model.reaches(barrier, site):
            path = path_avoiding(model, barrier, freeing, (), memory.deallocations, facts).witness
            if path is None or path.block(model.cfg, barrier) in model.reachability.dispatchers:
                return None
            return _leaked(model, memory, site, path, barrier)
    return None


def _too_many(model: KernelModel, memory: TensorAllocation, site: int) -> Hit | None:
    """The hit for a path with more allocations than the kernel has deallocations, none of them in a loop; else None."""
    _, results = model.solution(TensorAllocation)
    cfg, freed = model.cfg, len(memory.deallocations)
    if len(memory.allocations) <= freed or any(cfg.block_of[d] in cfg.in_cycle for d in memory.deallocations):
        return None

    def step(ledger: Ledger, i: int, instruction: Instruction) -> Ledger:
        return (
            memory.entered(ledger, i, instruction)
            if instruction.effects.resource is Resource.TMEM_ALLOC
            else ledger
        )

    path = model.path(
        FactQuery(site, (site,), results, step, lambda ledger, i: i == EXIT and len(ledger) > freed, ())
    ).witness
    return None if path is None else _leaked(model, memory, site, path, site)


def _leaked(model: KernelModel, memory: TensorAllocation, site: int, path: Path, start: int) -> Hit:
    columns = memory.columns(site)
    role = model.describe_threads(T.whole(path.threads, 32))
    return TM001.hit(
        site=site,
        message=f"{model.name(site)} allocates {columns or 'some'} columns of tensor memory that are not freed on a path to the end of the kernel",
        steps=(
            Mark(site, "allocated here", role=model.describe_threads(model.views.context_of(site).threads)),
            *avoided(model, path, memory.deallocations, role, "the deallocation"),
            Mark(
                path.last(model.cfg, start),
                "the kernel ends here with the columns still allocated",
                role=role,
            ),
        ),
        help="free them with tcgen05.dealloc on every path to the end of the kernel",
        severity=Severity.WARNING,
        confidence=model.confidence(path, start),
    )


def _freed_twice(model: KernelModel, memory: TensorAllocation) -> Hit | None:
    """The hit for a path that deallocates the only allocation twice; None if there is none."""
    cfg = model.cfg
    addresses = {model.value(d, "taddr") for d in memory.deallocations}
    if (
        len(memory.allocations) != 1
        or len(addresses) != 1
        or cfg.block_of[memory.allocations[0]] in cfg.in_cycle
    ):
        return None
    for first in memory.deallocations:
        path = path_avoiding(model, first, T.full(model.values.threads), memory.deallocations, ()).witness
        if path is not None:
            role = model.describe_threads(T.whole(path.threads, 32))
            return TM003.hit(
                site=path.end,
                message=f"{model.name(path.end)} frees an allocation of tensor memory that is already freed",
                steps=(
                    Mark(memory.allocations[0], "allocated here"),
                    Mark(first, "freed here", role=role),
                    Mark(path.end, "freed again", role=role),
                ),
                help="free each allocation once",
                confidence=model.confidence(path, first),
            )
    return None
