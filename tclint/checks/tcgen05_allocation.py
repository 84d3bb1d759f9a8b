"""Checks of the allocation of tensor memory (PTX ISA 9.7.16.7.1 and 9.7.16.5)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from math import prod

from tclint.analyses import threads as T
from tclint.analyses.tensor_allocation import HELD, Ledger, TensorAllocation
from tclint.analyses.values import Facts, Level
from tclint.checks import Hit, Mark, check
from tclint.dataflow import EXIT, Path, find_path
from tclint.finding import Confidence, Severity
from tclint.ir.nodes import Instruction, registers
from tclint.model import KernelModel
from tclint.views import View

_LEGAL = (32, 64, 128, 256, 512)
_MANAGEMENT = ("tmem-alloc", "tmem-dealloc", "tmem-relinquish")


# ---------------------------------------------------------------- what several rules ask


def _name(model: KernelModel, site: int) -> str:
    return ".".join(model.instruction(site).opcode.split(".")[:2])


def _role(model: KernelModel, threads: int) -> str:
    return T.describe(threads, model.values.threads)


def _warps(model: KernelModel, threads: int) -> str:
    """The warps of *threads* in words, when it is known how many there are."""
    return _role(model, T.whole(threads, 32)) if model.function.threads else "other warps"


def _whole_program(model: KernelModel) -> bool:
    """Whether everything that the kernel executes is before us: no call leads out of the module."""
    bodies = {f.name for f in model.module.functions if f.instructions}
    return model.function.entry and all(model.instruction(i).callee in bodies for i in _calls(model))


def _one_warp(threads: int) -> int:
    """The threads of the warp that *threads* belong to; 0 when they belong to several or to none."""
    first = ((threads & -threads).bit_length() - 1) // 32 * 32
    warp = 0xFFFFFFFF << max(first, 0)
    return warp if threads and not threads & ~warp else 0


def _exclusive(model: KernelModel, a: int, b: int) -> bool:
    """Whether a condition that is the same in the whole CTA lets it execute only one of two instructions."""
    values = model.values
    facts = model.views.at(b).lasting(values)
    return any(
        values.decide(p, facts) is (not truth) and values.level(p) is Level.CTA
        for p, truth in model.views.at(a).lasting(values).items()
    )


def _barriers(model: KernelModel) -> list[int]:
    """The barriers that every thread of the CTA waits at, once."""
    return [
        i
        for i in model.sites("barrier-sync")
        if _of_the_cta(model, i)
        and model.instruction(i).role("count") is None
        and model.instruction(i).guard < 0
        and model.cfg.block_of[i] not in model.cfg.in_cycle
    ]


def _of_the_cta(model: KernelModel, site: int) -> bool:
    """Whether a barrier is for more than the lanes of a warp."""
    match = model.instruction(site).match
    return match is not None and match.form.scope != "lanes"


def _behind(model: KernelModel, barrier: int, site: int) -> bool:
    """Whether *site* is executed only after *barrier*."""
    block_of = model.cfg.block_of
    if block_of[barrier] == block_of[site]:
        return barrier < site
    return model.cfg.dominates(block_of[barrier], block_of[site])


def _reaches(model: KernelModel, start: int, end: int) -> bool:
    return model.reaches(start, end, -1)


_ACQUIRE, _RELEASE = (
    frozenset((".acquire", ".acq_rel", ".volatile")),
    frozenset((".release", ".acq_rel", ".volatile")),
)


def _waits(model: KernelModel) -> list[int]:
    """Where a warp learns of others: barriers, loops that load what others release, calls."""
    cfg = model.cfg
    loops = (i for i in _exchanges(model, (), _ACQUIRE) if cfg.block_of[i] in cfg.in_cycle)
    return [*_exchanges(model, _WAITS, frozenset()), *loops]


def _exchanges(model: KernelModel, events: Collection[str], orders: frozenset[str]) -> list[int]:
    """Instructions by which warps exchange news: *events* of more than a warp, accesses in *orders*, calls."""
    found = _calls(model)
    for use in model.function.uses:
        match = use.match
        if match is None:
            continue
        form = match.form
        if form.event in events:
            if form.scope != "lanes":
                found += use.sites
        elif form.memory and not orders.isdisjoint(match.modifiers):
            found += use.sites
    return found


def _calls(model: KernelModel) -> list[int]:
    return [
        i
        for use in model.function.uses
        if use.match is not None and use.match.form.flow == "call"
        for i in use.sites
    ]


_WAITS = ("barrier-sync", "barrier-wait", "mbarrier-wait")
_SIGNALS = ("barrier-sync", "barrier-arrive", "mbarrier-arrive", "commit")


def _way(
    model: KernelModel,
    start: int,
    threads: int,
    to: Collection[int],
    ends: Collection[int],
    facts: Facts | None = None,
) -> Path | None:
    """A path of *threads* from *start* to an instruction of *to* (none: the end) that passes none of *ends*.

    A warp is followed by its first lane, which does what one lane does for all.
    """
    here = model.views.at(start)
    view = View(here.threads & threads & T.lane_zero(model.values.threads), facts or here.facts)
    cfg, first = model.cfg, max(start, 0)
    if not view.threads or (cfg.block_of[first] not in cfg.in_cycle and not _last(model, (first,), ends, to)):
        return None
    relevant: list[list[int]] = [[] for _ in cfg.blocks]
    for i in sorted({*to, *ends}):
        relevant[cfg.block_of[i]].append(i)
    blocks = {cfg.block_of[i] for i in to} or cfg.exits

    def step(state: object, i: int, instruction: Instruction) -> object:
        return None if i in ends else state

    def goal(state: object, i: int) -> bool:
        return i in to if to else i == EXIT

    return find_path(model.survey, start, view, True, relevant, step, goal, blocks)


def _last(
    model: KernelModel, sites: Iterable[int], barring: Collection[int], to: Collection[int] = ()
) -> list[int]:
    """The last of *sites* in each block from which *to* (none: an end) may be reached without passing *barring*."""
    cfg = model.cfg
    unguarded: dict[int, list[int]] = {}
    for i in barring:
        if model.instruction(i).guard < 0:
            unguarded.setdefault(cfg.block_of[i], []).append(i)
    work = [(cfg.block_of[i], i) for i in to] or [(b, cfg.blocks[b].end) for b in cfg.exits if b in cfg.rank]
    seen = set(work)
    free: dict[int, list[tuple[int, int]]] = {}
    """Block -> the instructions behind which, and before which, nothing bars the way."""
    while work:
        b, end = work.pop()
        begin = max((i for i in unguarded.get(b, ()) if i < end), default=-1)
        free.setdefault(b, []).append((begin, end))
        if begin < 0:
            before = {(e.source, cfg.blocks[e.source].end) for e in cfg.predecessors[b]} - seen
            seen |= before
            work += before
    last: dict[int, int] = {}
    for site in sorted(sites):
        b = cfg.block_of[site]
        if any(begin < site < end for begin, end in free.get(b, ())):
            last[b] = site
    return list(last.values())


def _last_block(model: KernelModel, start: int, path: Path) -> int:
    return path.edges[-1].target if path.edges else model.cfg.block_of[start]


def _end(model: KernelModel, start: int, path: Path) -> int:
    """The last instruction of a path that leaves the function."""
    return model.cfg.blocks[_last_block(model, start, path)].end - 1


# ---------------------------------------------------------------- allocation and deallocation


@check("TM001", "TM003", needs="tcgen05")
def balance(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """What is allocated is freed: once, as a whole, by the address that the allocation gave."""
    if not model.sites("tmem-alloc") and not model.sites("tmem-dealloc"):
        return
    memory, _ = model.solved(TensorAllocation)
    wrong = list(_mismatches(model, memory))
    yield from (("TM003", hit) for hit in wrong)
    if not model.sites("tmem-dealloc"):
        if model.function.entry and memory.allocations:
            yield "TM001", _never_freed(model, memory)
    elif memory.allocations and memory.deallocations and not wrong:
        yield from _unbalanced(model, memory)


def _never_freed(model: KernelModel, memory: TensorAllocation) -> Hit:
    site = memory.allocations[0]
    return Hit(
        site=site,
        message="allocates tensor memory that the kernel never frees: it has no tcgen05.dealloc",
        steps=(Mark(site, "allocated here", role=_role(model, model.views.at(site).threads)),),
        count=len(memory.allocations),
        help="free it with tcgen05.dealloc when all warps are done with it, before the kernel ends",
        confidence=None if _whole_program(model) else Confidence.LOW,
    )


def _mismatches(model: KernelModel, memory: TensorAllocation) -> Iterator[Hit]:
    """Deallocations that cannot be of an allocation of this kernel."""
    if not memory.deallocations:
        return
    if not memory.allocations:
        if not model.sites("tmem-alloc") and _whole_program(model):
            yield Hit(
                site=memory.deallocations[0],
                message="frees tensor memory in a kernel that allocates none",
                count=len(memory.deallocations),
                help="allocate it with tcgen05.alloc in the same kernel",
            )
        return
    piecewise = any((a := memory.address(d)) is not None and a[1] for d in memory.deallocations)
    for site in memory.deallocations:
        address = memory.address(site)
        if address is None:
            beyond = _beyond(model, memory, site)
            if beyond:
                yield Hit(
                    site=site,
                    message=f"frees tensor memory at column {beyond}, where no allocation of 512 columns begins",
                    steps=(
                        Mark(memory.allocations[0], "all 512 columns are allocated here"),
                        Mark(site, "freed by another address"),
                    ),
                    help="free the whole allocation by the address that tcgen05.alloc gave",
                )
                continue
            if _is_shared_address(model, site):
                yield Hit(
                    site=site,
                    message="frees an address of shared memory: tcgen05.alloc writes the address of the tensor memory there",
                    help="load the word that tcgen05.alloc wrote, and free what it holds",
                )
                continue
        elif address[1]:
            origin = memory.words[address[0]][0]
            yield Hit(
                site=site,
                message=f"frees tensor memory by an address {address[1]} beyond the one that tcgen05.alloc gave",
                steps=(Mark(origin, "allocated here"), Mark(site, "freed by another address")),
                help="free the whole allocation by the address that tcgen05.alloc gave",
                confidence=Confidence.MEDIUM,
            )
            continue
        origins = sorted(memory.frees(site))
        counts = {memory.columns(origin) for origin in origins}
        columns = memory.columns(site)
        if columns is None or None in counts or columns in counts or not {columns, *counts}.issubset(_LEGAL):
            continue
        had = " or ".join(str(n) for n in sorted(n for n in counts if n is not None))
        yield Hit(
            site=site,
            message=f"frees {columns} columns of an allocation of {had}",
            steps=(
                Mark(origins[0], f"{memory.columns(origins[0])} columns are allocated here"),
                Mark(site, f"{columns} columns are freed"),
            ),
            help="free as many columns as were allocated",
            confidence=Confidence.LOW if piecewise else None,
        )


def _beyond(model: KernelModel, memory: TensorAllocation, site: int) -> int:
    """The constant column that is freed although all allocations are of all columns, which begin at 0."""
    value = model.value(site, "taddr")
    assert value is not None
    column = (model.values.known(value) or 0) & 0xFFFF
    return column if {memory.columns(a) for a in memory.allocations} == {512} else 0


def _is_shared_address(model: KernelModel, site: int) -> bool:
    value = model.value(site, "taddr")
    assert value is not None
    return any(
        _space(model, term) == ".shared" for term, factor in model.values.linear(value)[0] if factor == 1
    )


def _space(model: KernelModel, value: int) -> str:
    """The state space of the variable that *value* is the address of, "" when it is none."""
    node = model.values.node(value)
    if node[0] != "symbol":
        return ""
    name = str(node[1])
    variable = model.function.variables.get(name) or model.module.variables.get(name)
    return variable.space if variable is not None else ""


def _unbalanced(model: KernelModel, memory: TensorAllocation) -> Iterator[tuple[str, Hit]]:
    """Allocations that a path never frees, and one that a path frees twice."""
    if not model.function.entry:
        return
    freeing = 0
    for free in memory.deallocations:
        freeing |= model.views.at(free).threads
    for site in memory.allocations:
        warp = _one_warp(model.views.at(site).threads)
        if not warp:
            continue
        if not freeing & ~warp:
            leak = _held_at_the_end(model, memory, site)
        elif _one_warp(freeing) and not freeing & warp:
            leak = _skipped_by_another(model, memory, site, freeing) or _too_many(model, memory, site)
        else:
            leak = None
        if leak is not None:
            yield "TM001", leak
            break
    twice = _freed_twice(model, memory)
    if twice is not None:
        yield "TM003", twice


def _held_at_the_end(model: KernelModel, memory: TensorAllocation, site: int) -> Hit | None:
    """A path of the warp that allocates and frees, on which it does not free all that it allocated."""
    _, results = model.solved(TensorAllocation)
    cfg = model.cfg
    # Of several allocations a state cannot tell which one a deallocation was about; a path can.
    if (
        len(memory.allocations) == 1
        and cfg.block_of[site] not in cfg.in_cycle
        and not any((site, HELD) in results.leave(b) for b in cfg.exits if b in cfg.rank)
    ):
        return None

    def step(ledger: Ledger, i: int, instruction: Instruction) -> Ledger | None:
        return memory.entered(ledger, i, instruction) or None

    path = model.path(site, (site,), results, step, lambda ledger, i: i == EXIT, ())
    if path is None or _last_block(model, site, path) in model.views.dispatchers:
        return None
    return _leaked(model, memory, path.state[0], path, site)


def _skipped_by_another(model: KernelModel, memory: TensorAllocation, site: int, freeing: int) -> Hit | None:
    """A path of the warp that frees what another one allocated, from a barrier behind the allocation to the end."""
    values = model.values
    facts = Facts(
        (p, truth)
        for p, truth in model.views.at(site).lasting(values).items()
        if values.level(p) is Level.CTA
    )
    for barrier in _barriers(model):
        if _reaches(model, site, barrier) and not _reaches(model, barrier, site):
            path = _way(model, barrier, freeing, (), memory.deallocations, facts)
            if path is None or _last_block(model, barrier, path) in model.views.dispatchers:
                return None
            return _leaked(model, memory, site, path, barrier)
    return None


def _too_many(model: KernelModel, memory: TensorAllocation, site: int) -> Hit | None:
    """A path with more allocations than there are deallocations, each of which is executed once."""
    _, results = model.solved(TensorAllocation)
    cfg, most = model.cfg, len(memory.deallocations)
    if len(memory.allocations) <= most or any(cfg.block_of[d] in cfg.in_cycle for d in memory.deallocations):
        return None

    def step(ledger: Ledger, i: int, instruction: Instruction) -> Ledger:
        return memory.entered(ledger, i, instruction) if instruction.event == "tmem-alloc" else ledger

    path = model.path(site, (site,), results, step, lambda ledger, i: i == EXIT and len(ledger) > most, ())
    return None if path is None else _leaked(model, memory, site, path, site)


def _leaked(model: KernelModel, memory: TensorAllocation, site: int, path: Path, start: int) -> Hit:
    columns = memory.columns(site)
    role = _role(model, T.whole(path.threads, 32))
    return Hit(
        site=site,
        message=f"allocates {columns or 'some'} columns of tensor memory that are not freed on a path to the end of the kernel",
        steps=(
            Mark(site, "allocated here", role=_role(model, model.views.at(site).threads)),
            Mark(_end(model, start, path), "the kernel ends here with the columns allocated", role=role),
        ),
        help="free them with tcgen05.dealloc on every path to the end",
        severity=Severity.WARNING,
        confidence=model.confidence(path, start),
    )


def _freed_twice(model: KernelModel, memory: TensorAllocation) -> Hit | None:
    """A second deallocation of the only allocation."""
    cfg = model.cfg
    addresses = {model.value(d, "taddr") for d in memory.deallocations}
    if (
        len(memory.allocations) != 1
        or len(addresses) != 1
        or cfg.block_of[memory.allocations[0]] in cfg.in_cycle
    ):
        return None
    for first in memory.deallocations:
        path = _way(model, first, T.full(model.values.threads), memory.deallocations, ())
        if path is not None:
            role = _role(model, T.whole(path.threads, 32))
            return Hit(
                site=path.end,
                message="frees an allocation of tensor memory that was freed before",
                steps=(
                    Mark(memory.allocations[0], "allocated here"),
                    Mark(first, "freed here", role=role),
                    Mark(path.end, "freed again", role=role),
                ),
                help="free each allocation once",
                confidence=model.confidence(path, first),
            )
    return None


@check("TM002", needs="tcgen05")
def column_count(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """A number of columns that no allocation can have; an immediate is the assembler's to refuse."""
    values = model.values
    for site in (*model.sites("tmem-alloc"), *model.sites("tmem-dealloc")):
        operand = model.instruction(site).role("columns")
        if not isinstance(operand, int):
            continue
        value = values.operand(operand, site)
        known = _alternatives(model, value)
        verb = "allocates" if model.instruction(site).event == "tmem-alloc" else "frees"
        if known and not known & set(_LEGAL):
            numbers = " or ".join(map(str, sorted(known)))
            yield (
                "TM002",
                Hit(
                    site=site,
                    message=f"{verb} {numbers} columns of tensor memory: it must be 32, 64, 128, 256 or 512",
                    help="round the number of columns up to a power of two, 32 at least",
                ),
            )
        elif values.level(value) is Level.DIVERGENT:
            yield (
                "TM002",
                Hit(
                    site=site,
                    message="the number of columns differs between the threads of the warp, which must agree on it",
                    help="make the number of columns the same in the whole warp",
                    confidence=Confidence.MEDIUM,
                ),
            )


def _alternatives(model: KernelModel, value: int) -> set[int]:
    """The constants that *value* is one of; empty when it may be something else."""
    values = model.values
    found: set[int] = set()
    seen: set[int] = set()
    work = [value]
    while work:
        value = values.find(work.pop())
        if value in seen:
            continue
        seen.add(value)
        node = values.node(value)
        if node[0] == "select":
            work += node[2:4]
        elif node[0] == "phi" and values.arguments(value):
            work += values.arguments(value)
        elif node[0] == "const":
            found.add(node[1] & 0xFFFFFFFF)
        else:
            return set()
    return found


# ---------------------------------------------------------------- the order of allocations


@check("TM004", "TM005", needs="tcgen05")
def order(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """Allocations after the permit was given up, and larger ones after smaller ones."""
    allocations, given_up = model.sites("tmem-alloc"), model.sites("tmem-relinquish")
    if len(allocations) + len(given_up) < 2:
        return
    memory, _ = model.solved(TensorAllocation)
    for site in memory.allocations:
        for first in given_up:
            steps = _earlier(
                model, first, site, "the right to allocate is given up", "allocates all the same"
            )
            if steps:
                yield (
                    "TM004",
                    Hit(
                        site=site,
                        message="allocates tensor memory after the CTA gave up the right to: tcgen05.relinquish_alloc_permit is final",
                        steps=steps,
                        help="move tcgen05.relinquish_alloc_permit behind the last allocation",
                        confidence=None if len(steps) == 2 else Confidence.MEDIUM,
                    ),
                )
                break
        columns = memory.columns(site)
        for first in memory.allocations:
            before = memory.columns(first)
            if columns is None or before is None or before >= columns:
                continue
            steps = _earlier(model, first, site, f"{before} columns are allocated", f"then {columns} columns")
            if steps:
                yield (
                    "TM005",
                    Hit(
                        site=site,
                        message=f"allocates {columns} columns of tensor memory after an allocation of {before}: "
                        "allocations of a CTA must not grow",
                        steps=steps,
                        help="allocate the largest number of columns first",
                        confidence=None if len(steps) == 2 else Confidence.MEDIUM,
                    ),
                )
                break


def _earlier(model: KernelModel, first: int, second: int, once: str, then: str) -> tuple[Mark, ...]:
    """The steps by which *first* comes before *second*: one thread's path, or a barrier between two warps."""
    _, results = model.solved(TensorAllocation)
    path = model.path(
        first, True, results, lambda state, i, instruction: state, lambda state, i: i == second, (second,)
    )
    if path is not None:
        role = _role(model, path.threads)
        return Mark(first, once, role=role), Mark(second, then, role=role)
    if _exclusive(model, first, second):
        return ()
    for barrier in _barriers(model):
        if (
            _behind(model, barrier, second)
            and _reaches(model, first, barrier)
            and not _reaches(model, barrier, first)
        ):
            return (
                Mark(first, once, role=_role(model, model.views.at(first).threads)),
                Mark(barrier, "all threads of the CTA wait"),
                Mark(second, then, role=_role(model, model.views.at(second).threads)),
            )
    return ()


# ---------------------------------------------------------------- other warps


@check("TM007", needs="tcgen05")
def not_one_warp(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """Allocation, deallocation or relinquishment that several warps of the CTA execute for certain."""
    if not model.function.entry:
        return  # its caller decides who comes here
    values = model.values
    found: list[tuple[int, int]] = []
    for kind in _MANAGEMENT:
        for site in model.sites(kind):
            threads = _executing(model, site)
            if threads and not _one_warp(threads):
                found.append((site, threads))
    if not found or values.threads <= 32:
        return
    site, threads = min(found)
    directives = model.function.directives
    sure = bool(model.function.threads)
    spread = any(_own_word(model, i) for i, _ in found)
    confidence = None if sure else Confidence.MEDIUM if ".maxntid" in directives else Confidence.LOW
    yield (
        "TM007",
        Hit(
            site=site,
            message=f"{_name(model, site)} is executed by {_role(model, threads)}: one warp of the CTA must do it for all",
            steps=tuple(Mark(i, f"{_name(model, i)} is executed", role=_role(model, t)) for i, t in found),
            count=len(found),
            help="let one warp execute it, by a test of the warp index around it",
            confidence=Confidence.LOW if spread else confidence,
        ),
    )


def _executing(model: KernelModel, site: int) -> int:
    """The threads that execute *site* in some launch; 0 when something unknown tells warps apart."""
    values = model.values
    known = all(values.mask(p) is not None or values.level(p) is Level.CTA for p in _conditions(model, site))
    return model.views.at(site).threads if known else 0


def _conditions(model: KernelModel, site: int) -> Iterator[int]:
    """The predicates that decide whether *site* is executed; that of a branch table is an unknown one."""
    cfg, values = model.cfg, model.values
    for edge in cfg.controllers(cfg.block_of[site]):
        yield values.before(edge.predicate, cfg.blocks[edge.source].end - 1)
    guard = model.instruction(site).guard
    if guard >= 0:
        yield values.before(guard, site)


def _own_word(model: KernelModel, site: int) -> bool:
    """Whether each warp allocates to, or frees from, a place of its own."""
    value = model.value(site, "destination")
    if value is None:
        value = model.value(site, "taddr")
    return value is not None and model.values.level(value) is not Level.CTA


@check("TM008", needs="tcgen05")
def result_unsynced(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """The address that an allocation wrote is read by another warp, which has not waited for it."""
    if not model.sites("tmem-alloc") or not model.function.entry:
        return
    memory, _ = model.solved(TensorAllocation)
    readers = _readers(model, memory)
    if not readers:
        return
    every = T.full(model.values.threads)
    waits = _waits(model)
    for word, sites in readers.items():
        allocations = memory.words[word]
        warps = [_one_warp(model.views.at(a).threads) for a in allocations]
        if not all(warps):
            continue
        others = every
        for warp in warps:
            others &= ~warp
        ends = [w for w in waits if not all(_too_early(model, w, a) for a in allocations)]
        sites = [s for s in sites if not any(_before(model, s, a) for a in allocations)]
        path = _way(model, -1, others, sites, ends) if sites else None
        if path is not None:
            yield "TM008", _unsynced(model, allocations[0], path)


def _before(model: KernelModel, load: int, allocation: int) -> bool:
    """Whether *load* is about what the word held before: the allocation follows it, and not the other way round."""
    return _reaches(model, load, allocation) and not _reaches(model, allocation, load)


def _readers(model: KernelModel, memory: TensorAllocation) -> dict[int, list[int]]:
    """The loads of each word that an allocation is written to."""
    values = model.values
    found: dict[int, list[int]] = {}
    for use in model.function.uses:
        match = use.match
        if match is None or match.problem or match.form.event or not match.space.startswith(".shared"):
            continue
        if ("read", "a") in match.form.memory and ("write", "a") not in match.form.memory:
            for i in use.sites:
                if model.cfg.block_of[i] not in model.cfg.rank:
                    continue
                instruction = model.instruction(i)
                address = values.operand(instruction.named("a"), i)
                for k in range(len(registers(instruction.operands[0]))):
                    word = values.find(values.add(address, values.constant(4 * k)))
                    if word in memory.words:
                        found.setdefault(word, []).append(i)
    return found


def _too_early(model: KernelModel, wait: int, allocation: int) -> bool:
    """Whether all threads meet at *wait*, and the allocating warp has done so before it allocates."""
    instruction = model.instruction(wait)
    return (
        instruction.event in ("barrier-sync", "barrier-wait")
        and instruction.role("count") is None
        and instruction.guard < 0
        and _behind(model, wait, allocation)
        and not _reaches(model, allocation, wait)
    )


def _unsynced(model: KernelModel, allocation: int, path: Path) -> Hit:
    return Hit(
        site=path.end,
        message="reads the address of the tensor memory while another warp may not have allocated it: no barrier lies between",
        steps=(
            Mark(
                allocation,
                "written by tcgen05.alloc",
                role=_role(model, model.views.at(allocation).threads),
            ),
            Mark(path.end, "read without waiting", role=_role(model, T.whole(path.threads, 32))),
        ),
        help="add bar.sync 0 for all warps between tcgen05.alloc and this load",
        confidence=Confidence.MEDIUM if path.edges and _passes_call(model, path) else None,
    )


def _passes_call(model: KernelModel, path: Path) -> bool:
    return any(model.instruction(i).flow == "call" for i in path.sites(model.cfg, -1))


# ---------------------------------------------------------------- freed while in use


@check("TM006", needs="tcgen05")
def freed_in_use(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """Tensor memory is freed while this thread's operations, or other warps, may still be using it (9.7.16.5)."""
    frees = model.sites("tmem-dealloc")
    if not frees or not model.sites("issue") or not model.function.entry:
        return
    for site in frees:
        hit = _own_operation(model, site)
        if hit is not None:
            yield "TM006", hit
    hit = _ends_unheard(model, frees) or _waits_for_nothing(model, frees)
    if hit is not None:
        yield "TM006", hit


def _own_operation(model: KernelModel, free: int) -> Hit | None:
    """An MMA, copy or shift of the same thread that is not complete; its loads and stores are other rules'."""
    commits = model.sites("commit", "tcgen05")
    # Whatever is waited for may tell of the operation too, and an access to its result is the first fault.
    ends = {
        *_waits(model),
        *model.sites("issue", "tcgen05.ld"),
        *model.sites("issue", "tcgen05.st"),
    }
    for site in _last(model, model.sites("issue", "tcgen05"), ends, (free,)):
        if not _may_use(model, site, (free,)):
            continue
        path = _way(model, site, T.full(model.values.threads), (free,), ends)
        if path is None:
            continue
        committed = not {*commits}.isdisjoint(path.sites(model.cfg, site))
        if not committed and not any(_reaches(model, free, commit) for commit in commits):
            continue  # it is never committed, which is a fault of its own
        role = _role(model, path.threads)
        return Hit(
            site=free,
            message=f"frees tensor memory that {_name(model, site)} of the same thread may still be using: "
            + ("nothing was waited for since its commit" if committed else "it is committed later"),
            steps=(
                Mark(site, f"{_name(model, site)} starts", role=role),
                Mark(free, "its tensor memory is freed", role=role),
            ),
            help="wait for the mbarrier of its tcgen05.commit before this instruction",
            confidence=Confidence.MEDIUM,
        )
    return None


def _others(model: KernelModel, frees: Iterable[int], site: int) -> int:
    """The threads that execute *site* and belong to a warp that frees nothing."""
    freeing = 0
    for free in frees:
        freeing |= model.views.at(free).threads
    return model.views.at(site).threads & ~T.whole(freeing, 32)


def _ends_unheard(model: KernelModel, frees: list[int]) -> Hit | None:
    """A warp that accesses tensor memory and ends without a word, while another warp frees it."""
    if model.views.dispatchers:
        return None
    signals = {*_exchanges(model, _SIGNALS, _RELEASE), *frees}
    # What is stored and then told to nobody is no use to anyone: such a path is not taken.
    for site in _last(model, _seen_loads(model), signals):
        others = _others(model, frees, site)
        free = next((f for f in frees if not _exclusive(model, site, f)), None)
        if not others or free is None or not _may_use(model, site, frees) or _joined(model, site, free):
            continue
        path = _way(model, site, others, (), signals)
        if path is None:
            continue
        role = _warps(model, path.threads)
        return Hit(
            site=free,
            message=f"frees tensor memory that {role} may still be using: nothing tells this warp that they are done",
            steps=(
                Mark(site, f"last {_name(model, site)} of another warp", role=role),
                Mark(_end(model, site, path), "it ends without arriving at a barrier", role=role),
                Mark(free, "freed here", role=_role(model, model.views.at(free).threads)),
            ),
            help="add a barrier of all warps between the last access to tensor memory and this instruction",
            confidence=None if model.function.threads else Confidence.MEDIUM,
        )
    return None


def _joined(model: KernelModel, site: int, free: int) -> bool:
    """Whether the freeing warp may wait for all threads after *site*: a barrier does not wait for those that ended."""
    threads = model.views.at(free).threads
    return any(
        model.instruction(b).role("count") is None
        and _of_the_cta(model, b)
        and model.views.at(b).threads & threads
        and not _behind(model, b, site)
        and _reaches(model, b, free)
        for b in model.sites("barrier-sync")
    )


def _always(model: KernelModel, site: int) -> bool:
    """Whether the thread index alone decides who executes *site*: then somebody does in every launch."""
    return all(model.values.mask(p) is not None for p in _conditions(model, site))


def _waits_for_nothing(model: KernelModel, frees: list[int]) -> Hit | None:
    """A deallocation whose warp waits for nothing since a barrier behind which other warps start to use the memory."""
    views = model.views
    waits = _waits(model)
    uses = [*_seen_loads(model), *model.sites("issue", "tcgen05.st"), *model.sites("issue", "tcgen05")]
    for free in frees:
        threads = views.at(free).threads
        barriers = [b for b in _barriers(model) if _behind(model, b, free)]
        barriers = [b for b in barriers if all(b is c or _behind(model, c, b) for c in barriers)]
        if not threads or not barriers or views.dispatchers:
            continue
        (last,) = barriers
        between = (w for w in waits if w != last and views.at(w).threads & threads)
        if any(_reaches(model, last, w) and _reaches(model, w, free) for w in between):
            continue
        for site in uses:
            if (
                _behind(model, last, site)
                and _others(model, frees, site)
                and _may_use(model, site, frees)
                and (_always(model, free) or _reaches(model, site, free))
                and not _exclusive(model, site, free)
            ):
                role = _warps(model, _others(model, frees, site))
                return Hit(
                    site=free,
                    message=f"frees tensor memory that {role} may still be using: "
                    "this warp waits for nothing after they start",
                    steps=(
                        Mark(last, "all warps go on from here"),
                        Mark(site, f"{_name(model, site)} of another warp", role=role),
                        Mark(free, "freed here", role=_role(model, threads)),
                    ),
                    help="add a barrier of all warps between the last access to tensor memory and this instruction",
                    confidence=None if model.function.threads else Confidence.MEDIUM,
                )
    return None


_USES = ("tcgen05.ld", "tcgen05.st", "tcgen05")


def _seen_loads(model: KernelModel) -> list[int]:
    """The loads of which some register is read: what the others fetch makes no difference."""
    loads = model.sites("issue", "tcgen05.ld")
    read = {r for i in model.function.instructions for r in i.reads} if loads else set()
    return [i for i in loads if not read.isdisjoint(model.instruction(i).writes)]


def _may_use(model: KernelModel, site: int, frees: Iterable[int]) -> bool:
    """Whether *site* accesses what is freed: its address is one of these plus something."""
    values = model.values
    terms = {
        t
        for role in ("taddr", "d")
        if (v := model.value(site, role)) is not None
        for t in values.linear(v)[0]
    }
    return any(
        terms.issuperset(values.linear(value)[0])
        for free in frees
        if (value := model.value(free, "taddr")) is not None
    )


# ---------------------------------------------------------------- where the address goes


@check("TM009", needs="tcgen05")
def destination(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """An allocation that writes the address somewhere else than to the shared memory of the CTA."""
    values = model.values
    for site in model.sites("tmem-alloc"):
        value = model.value(site, "destination")
        if value is None:
            continue
        terms = [term for term, factor in values.linear(value)[0] if factor == 1]
        spaces = {space for term in terms if (space := _space(model, term))}
        wrong = sorted(spaces - {".shared"})
        sure = True
        if wrong and ".shared" not in spaces:
            where = f"a {wrong[0].lstrip('.')} variable"
        elif len(terms) == 1 and not spaces and _is_pointer(model, terms[0]):
            # No host can make a pointer to the shared memory of a CTA.
            where, sure = "a pointer that the kernel was given", False
        else:
            continue
        yield (
            "TM009",
            Hit(
                site=site,
                message=f"writes the address of the tensor memory to {where}, which is not in the shared memory of the CTA",
                help="give it a word of shared memory, and copy the address from there if need be",
                confidence=None if sure else Confidence.MEDIUM,
            ),
        )


def _is_pointer(model: KernelModel, value: int) -> bool:
    node = model.values.node(value)
    return bool(node[0] == "parameter" and node[2] == 8)


# ---------------------------------------------------------------- pairs of CTAs


def _paired(model: KernelModel, sites: Iterable[int]) -> list[int]:
    """Those of *sites* that are about a pair of CTAs."""
    return [
        i
        for i in sites
        if (match := model.instruction(i).match) is not None
        and match.binding.get("cta_group") == ".cta_group::2"
    ]


@check("TM010", needs="tcgen05")
def pair_without_cluster(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """Operations of a pair of CTAs in a kernel whose clusters have no pairs."""
    directives = model.function.directives
    size = prod(directives.get(".reqnctapercluster", ()))
    if ".reqnctapercluster" in directives:
        odd, what = bool(size % 2), f"clusters of {size} CTA{'s' * (size != 1)} (.reqnctapercluster)"
    else:
        odd, what = directives.get(".maxclusterrank") == (1,), "clusters of one CTA (.maxclusterrank 1)"
        size = 1
    if not odd:
        return
    uses = (i for use in model.function.uses if use.match is not None for i in use.sites)
    sites = [i for i in _paired(model, uses) if model.cfg.block_of[i] in model.cfg.rank]
    if sites:
        site = min(sites)
        yield (
            "TM010",
            Hit(
                site=site,
                message=f"{_name(model, site)} with .cta_group::2 needs a peer CTA, but the kernel runs in {what}",
                count=len(sites),
                help="make the number of CTAs of a cluster even, or use .cta_group::1",
                severity=Severity.ERROR if size == 1 else None,
            ),
        )


@check("TM011", needs="tcgen05")
def pair_freed_unsynced(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """The tensor memory of a pair is freed without waiting for the peer CTA (9.7.16.5)."""
    frees = _paired(model, model.sites("tmem-dealloc"))
    allocations = model.sites("tmem-alloc")
    if not frees or not allocations or not model.function.entry:
        return
    uses = [site for group in _USES for site in model.sites("issue", group)] or allocations
    late = [w for w in model.sites("barrier-wait") if _follows(model, w, uses)]
    # A handshake: the warp arrives on an mbarrier of the peer, and one of the two waits.
    told = [i for i in model.sites("mbarrier-arrive") if _is_remote(model, i)]
    for free in frees:
        path = _way(model, -1, model.views.at(free).threads, (free,), [*late, *told, *_calls(model)])
        if path is None:
            continue
        yield (
            "TM011",
            Hit(
                site=free,
                message="frees the tensor memory of a pair of CTAs without waiting for the peer, which may still be using it",
                steps=(
                    Mark(allocations[0], "allocated by both CTAs"),
                    Mark(
                        free,
                        "freed without a barrier of the cluster",
                        role=_role(model, T.whole(path.threads, 32)),
                    ),
                ),
                help="add barrier.cluster.arrive and barrier.cluster.wait in both CTAs between the last access and this instruction",
                confidence=Confidence.LOW if late or told else None,
            ),
        )
        return


def _is_remote(model: KernelModel, arrive: int) -> bool:
    """Whether an arrival may be on an mbarrier of another CTA."""
    match = model.instruction(arrive).match
    return match is not None and match.space == ".shared::cluster"


def _follows(model: KernelModel, wait: int, sites: Iterable[int]) -> bool:
    """Whether *wait* may be executed after one of *sites*."""
    cfg = model.cfg
    here = cfg.block_of[wait]
    before: set[int] = set()
    work = [e.source for e in cfg.predecessors[here]]
    while work:
        b = work.pop()
        if b not in before:
            before.add(b)
            work += [e.source for e in cfg.predecessors[b]]
    return any(cfg.block_of[i] in before or (cfg.block_of[i] == here and i < wait) for i in sites)
