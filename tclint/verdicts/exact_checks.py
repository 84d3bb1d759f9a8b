"""Answers of :mod:`tclint.values` that proofs rest on, tried by the interpreter of :mod:`tclint.exact`.

A prover and a checker may ask what a register is in each thread (as an address, a guard, the condition of a branch, or an
operand that all threads must agree on), and whether a path is infeasible. Both answers come from expressions that were
simplified, so a mistake in them would make a proof wrong that the checker accepts. Before a proof is shown,

- each register on which the bytes, guards and branches of the kernel depend, and which values take for decided by the index
  of the thread alone, is evaluated in every thread of each shape of the CTA; and
- each search that found no path is tried with :data:`RUNS` threads of different launches, which may not meet its goal.

One contradiction refuses the proof. So does what cannot be evaluated, and a search that fewer threads could try.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tclint.dataflow import PathQuery
from tclint.dataflow.kernel import Kernel
from tclint.exact import PathClaim, Runs, TooDeep, Vectors, World, shapes, worlds
from tclint.findings.spans import span
from tclint.findings.verdicts import Reason
from tclint.ir.nodes import Instruction, Memory, registers
from tclint.isa.effects import Exchange
from tclint.isa.widths import width_of
from tclint.values import thread_masks as T
from tclint.verdicts.convergence import index_alone
from tclint.verdicts.paths import value_assumptions
from tclint.verdicts.uniform import MOVES

__all__ = ["RUNS", "refuted_by_index", "refuted_paths"]

RUNS, MAX_RUNS = 50, 256
"""The runs with which a search that found no path is tried, each of one thread in another launch, and the launches of which
they are taken: not all runs count. If fewer do, the proof is refused."""
_VARIATIONS = 4
"""The worlds for each shape of a CTA in which a register is evaluated that not the index of the thread alone decides."""


def refuted_by_index(model: Kernel) -> Reason | None:
    """Why a register is not what values take it for in some thread; None if none was found to be something else."""
    claims = list(_claims(model))
    if not claims:
        return None
    found = shapes(model.function)
    # In one dimension, a CTA of fewer threads has the same numbers in these; the first shape has the most.
    first_has_all = len(found) == 1 or all(shape[1:] == (1, 1) for shape in found)
    known = set[tuple[int, int]]()
    for world in worlds(model.function, model.module.variables, len(found) * _VARIATIONS):
        vectors = Vectors(model.cfg, model.values.defs, world)
        for register, at, planes in claims:
            if (register, at) in known:
                continue  # no other world has another value
            try:
                vectors.varies = False
                numbers = vectors.before(register, at)
            except TooDeep:
                return _open(
                    model, at, "its operands depend on too many instructions to be evaluated exactly"
                )
            if not vectors.varies and first_has_all:
                known.add((register, at))
            width = width_of(model.function.registers[register].type)
            thread = _differing(numbers, planes, width, world)
            if thread is not None:
                return _contradicted(model, at, thread, world, vectors)
    return None


def _contradicted(model: Kernel, at: int, thread: int, world: World, vectors: Vectors) -> Reason:
    if vectors.open:
        name = model.name(min(vectors.open))
        return _open(model, at, f"its operands may depend on {name}, which is not evaluated exactly")
    shape = "x".join(map(str, world.shape))
    return _open(
        model,
        at,
        f"an exact evaluation of its operands contradicts what the proof takes for their values in thread {thread} of a CTA "
        f"of {shape} threads",
    )


def _open(model: Kernel, at: int, what: str) -> Reason:
    return Reason(span(model.function, at), what)


def _differing(numbers: int | list[int], planes: Sequence[int], width: int, world: World) -> int | None:
    """The first thread in which a number differs in its low *width* bits from the one that *planes* have: signed if they are
    fewer."""
    planes = (tuple(planes) + tuple(planes[-1:]) * (width - len(planes)))[:width]
    everyone, mask = T.full(world.threads), (1 << width) - 1
    if isinstance(numbers, int):
        wrong = 0
        for bit, plane in enumerate(planes):
            wrong |= (plane if not numbers >> bit & 1 else ~plane) & everyone
        return (wrong & -wrong).bit_length() - 1 if wrong else None
    claimed = {number & mask: who for number, who in T.numbers(planes, everyone)}
    for thread, number in enumerate(numbers):
        if not claimed.get(number & mask, 0) >> thread & 1:
            return thread
    return None


def _claims(model: Kernel) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """The registers that values take for decided by the thread index, each at an instruction that reads it, with one int
    for each bit: the threads in which it is set."""
    values, instructions, rank = model.values, model.function.instructions, model.cfg.rank
    block_of = model.cfg.block_of
    work = [(r, i) for i in range(len(instructions)) if block_of[i] in rank for r in _asked(model, i)]
    seen, elects = set[tuple[int, int]](), value_assumptions(model) is not None
    while work:
        register, at = work.pop()
        value = values.representative(values.before(register, at))
        if (register, value) in seen:
            continue
        seen.add((register, value))
        if model.function.registers[register].type == ".pred":
            mask = values.mask(value)
            planes: tuple[int, ...] | None = None if mask is None else (mask,)
        else:
            planes = values.exact_slices(value)
        # No proof rests on which lane is elected among those of a membermask that is not constant.
        if planes is not None and (elects or index_alone(values, value)):
            yield register, at, planes
            continue
        for site in values.defs.get(register, ()):
            definition = instructions[site]
            if block_of[site] in rank and _computes(definition):
                work += [(r, site) for r in (*definition.reads, definition.guard) if r >= 0]


def _computes(definition: Instruction) -> bool:
    """Whether the index of the thread may decide what an instruction writes through its operands."""
    form = definition.match.form if definition.match is not None else None
    if form is None:
        return False
    return form.from_operands or form.effects.exchange is Exchange.SHUFFLE or form.name.split(".")[0] in MOVES


def _asked(model: Kernel, at: int) -> Iterator[int]:
    """The registers of an instruction that a proof may ask about."""
    instruction = model.function.instructions[at]
    match = instruction.match
    if instruction.guard >= 0:
        yield instruction.guard
    if match is None:
        return
    form = match.form
    if form.flow == "branch-table" or form.scope not in ("", "thread"):
        yield from instruction.reads
    elif form.memory or form.async_reads or form.async_writes or form.roles:
        if match.space.startswith((".global", ".param", ".const", ".local")):
            return
        for operand in instruction.operands:
            if isinstance(operand, Memory):
                yield from registers(operand)
        if any("write" in verb for verb, _ in form.memory):
            yield from instruction.reads


def refuted_paths(model: Kernel, queries: Sequence[PathQuery]) -> Reason | None:
    """Why a path is not infeasible that a search has not found; None if no thread takes one."""
    if not queries:
        return None
    tried = [
        PathClaim(q.start, q.fact, q.step, q.goal, frozenset(i for sites in q.relevant for i in sites))
        for q in queries
    ]
    marked = frozenset[int]().union(*(q.relevant for q in tried), (q.start for q in tried))
    runs = Runs(model.cfg, model.values.defs, marked)
    found = runs.refuted(tried, worlds(model.function, model.module.variables, MAX_RUNS), RUNS)
    if found is None:
        query, counted = runs.fewest or (tried[0], 0)
        if counted >= RUNS:
            return None
        return _open(
            model,
            query.start,
            "the proof takes a path after it for infeasible, and that could be tried exactly in only "
            f"{counted} of the {RUNS} launches required",
        )
    query, world, thread = found
    numbers = world.described(model.function)
    return _open(
        model,
        query.start,
        f"thread {thread} takes a path after it that the proof takes for infeasible, if it is executed exactly"
        + (f" with {numbers}" if numbers else ""),
    )
