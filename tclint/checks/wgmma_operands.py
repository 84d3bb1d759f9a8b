"""Checks of what a wgmma instruction is given: registers, descriptors, qualifiers (PTX ISA 9.7.15.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tclint.analyses.model import KernelModel
from tclint.analyses.wgmma_accumulators import UnwrittenAccumulators
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.findings.edits import Change, Repair, opcode
from tclint.findings.scales import Confidence
from tclint.ir.nodes import Instruction, Vector, registers
from tclint.values import UniformityScope, Values
from tclint.values.divergence import divergent_bits

WG006 = RuleId("WG006")
WG010 = RuleId("WG010")
WG012 = RuleId("WG012")
WG013 = RuleId("WG013")


@check(WG006, needs="wgmma")
def register_tuple_alias(model: KernelModel) -> Iterator[Hit]:
    """One register in two places of an accumulator, or in the accumulator and the A fragment."""
    for site in model.sites("issue", "wgmma"):
        instruction = model.instruction(site)
        accumulator, fragment = instruction.role("d"), instruction.role("a")
        if not isinstance(accumulator, Vector):
            continue
        written = registers(accumulator)
        twice = [r for r, n in Counter(written).items() if n > 1] if len({*written}) < len(written) else []
        shared = [r for r in registers(fragment) if r in written] if isinstance(fragment, Vector) else []
        if not twice and not shared:
            continue
        name = model.function.registers[(twice or shared)[0]].name
        where = "stands twice in the accumulator" if twice else "is in the accumulator and in the A fragment"
        why = (
            "two elements of the result go to one register"
            if twice
            else "the result is written to it while A is still read"
        )
        yield WG006.hit(
            site=site,
            message=f"{name} {where}: {why}",
            count=len({*twice, *shared}),
            help="give every element of D, and of A, a register of its own",
        )


def _aligned(model: KernelModel, site: int) -> Change:
    return opcode(site, model.instruction(site).opcode.replace(".sync", ".sync.aligned", 1))


@check(WG010, needs="wgmma")
def optional_aligned(model: KernelModel) -> Iterator[Hit]:
    """``.aligned`` left out, which the manual's syntax does not allow."""
    bare = sorted(
        site
        for use in model.function.uses
        if use.match is not None and use.match.form.group == "wgmma" and ".aligned" not in use.match.modifiers
        for site in use.sites
    )
    if bare:
        yield WG010.hit(
            site=bare[0],
            message=f"{model.instruction(bare[0]).opcode} has no .aligned, which the ISA makes mandatory",
            count=len(bare),
            help="write .sync.aligned: it changes nothing, since all threads of the warpgroup must execute it",
            fixes=(Repair("write .sync.aligned", tuple(_aligned(model, site) for site in bare), True),),
        )


def _descriptors(instruction: Instruction) -> list[str]:
    """The names of the operands that describe a matrix in shared memory."""
    assert instruction.match is not None
    return [name[1:] for name in instruction.match.form.async_reads if name.startswith("*")]


@check(WG012, needs="wgmma")
def nonuniform_descriptor(model: KernelModel) -> Iterator[Hit]:
    """A matrix descriptor that was shown to differ between threads of the warpgroup."""
    values = model.values
    uses = grouped(
        ((name, values.before(operand, site)), site)
        for site in model.sites("issue", "wgmma")
        for name in _descriptors(model.instruction(site))
        if isinstance(operand := model.instruction(site).named(name), int)
    )
    different = (
        (name, (site, value, level))
        for (name, value), sites in uses.items()
        if (level := _differs(model, value, sites[0])) is not None
        for site in sites
    )
    for name, found in grouped(different).items():  # the descriptors of a kernel are made from one
        site, value, level = min(found)
        operand = model.instruction(site).named(name)
        assert isinstance(operand, int)
        register = model.function.registers[operand].name
        who = "the lanes of a warp" if level is UniformityScope.DIVERGENT else "the warps of a warpgroup"
        made = [i for i in values.defs[operand] if i < site][-1:]
        yield WG012.hit(
            site=site,
            message=f"the descriptor {register} differs between {who}; it must be the same in the whole warpgroup",
            steps=(*(Mark(i, f"{register} is computed") for i in made), Mark(site, f"used as {name}")),
            count=len(found),
            help="compute it from values that are the same in all 128 threads, such as %tid.x / 128 "
            "that shfl.sync has taken from lane 0",
            confidence=Confidence.LOW if _loaded(values, value) else None,
        )


def _differs(model: KernelModel, value: int, site: int) -> UniformityScope | None:
    """Between what *value* was shown to differ inside a warpgroup: WARP for warps, DIVERGENT for lanes."""
    values = model.values
    level = values.uniformity(value)
    if level <= UniformityScope.WARPGROUP:
        return None
    known = divergent_bits(values, value)
    if known is not None:
        return known.level(model.views.context_of(site).threads)
    return level if level is UniformityScope.DIVERGENT else None


def _loaded(values: Values, value: int) -> bool:
    """Whether what differs in *value* are loaded words, which may be equal although their addresses differ."""
    node = values.node(value)
    if node[0] == "load":
        return True
    return any(
        values.uniformity(p) is UniformityScope.DIVERGENT and _loaded(values, p) for p in values.parts(node)
    )


@check(WG013, needs="wgmma", analyses=(UnwrittenAccumulators,))
def undefined_accumulate(model: KernelModel) -> Iterator[Hit]:
    """D is added to, but nothing has written it on some path."""
    adding = [i for i in model.sites("issue", "wgmma") if _adds(model, i)]
    if not adding:
        return
    unwritten, results = model.solution(UnwrittenAccumulators)
    told: set[frozenset[int]] = set()
    for site in adding:
        wanted = unwritten.written[site]
        key = frozenset(model.instruction(site).writes)
        if key in told or not results.before(site) & wanted:
            continue

        def arrives(state: int, at: int, site: int = site) -> bool:
            return at == site

        path = model.path(
            -1, unwritten.boundary() & wanted, results, unwritten.left, arrives, (site,)
        ).witness
        if path is None:
            continue
        told.add(key)
        name = model.function.registers[unwritten.register(path.state)].name
        yield WG013.hit(
            site=site,
            message=f"adds to accumulator {name}, which no instruction has written before: scale-d is true",
            count=path.state.bit_count(),
            help="set the accumulators to 0, or pass a scale-d that is false for the first wgmma",
            confidence=model.confidence(path, 0),
        )


def _adds(model: KernelModel, site: int) -> bool:
    """Whether scale-d is known to be true."""
    value = model.value(site, "scale")
    return value is not None and bool(model.values.constant_of(value))
