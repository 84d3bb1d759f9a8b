"""The operands and qualifiers of wgmma: registers, descriptors, .aligned, scale-d (PTX ISA 9.7.15.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.wgmma_accumulators import UnwrittenAccumulators
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.findings.edits import InstructionEdit, Repair, opcode
from tclint.ir.nodes import Instruction, Vector, registers
from tclint.isa.accesses import Via
from tclint.isa.effects import WGMMA
from tclint.values import UniformityScope, Values
from tclint.values.divergent_bits import divergent_bits
from tclint.values.nodes import Loaded

WG006 = RuleId("WG006")
WG010 = RuleId("WG010")
WG012 = RuleId("WG012")
WG013 = RuleId("WG013")


@check(WG006)
def register_tuple_alias(model: KernelModel) -> Iterator[Hit]:
    """A register that appears twice in an accumulator, or in both the accumulator and the A fragment."""
    for site in model.begins(WGMMA):
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
        where = (
            "appears twice in the accumulator" if twice else "is in both the accumulator and the A fragment"
        )
        why = (
            "two elements of the result are written to one register"
            if twice
            else "the result is written to it while A is still being read"
        )
        yield WG006.hit(
            site=site,
            message=f"{name} {where}: {why}",
            count=len({*twice, *shared}),
            help="use a distinct register for every element of D and of A",
        )


def _aligned(model: KernelModel, site: int) -> InstructionEdit:
    """The opcode at *site* with ``.aligned``."""
    return opcode(site, model.instruction(site).opcode.replace(".sync", ".sync.aligned", 1))


@check(WG010)
def optional_aligned(model: KernelModel) -> Iterator[Hit]:
    """Instructions without ``.aligned``, which is mandatory in the manual's syntax."""
    bare = sorted(
        site
        for use in model.function.uses
        if use.match is not None and use.match.form.group == WGMMA and not use.match.modes.aligned
        for site in use.sites
    )
    if bare:
        yield WG010.hit(
            site=bare[0],
            message=f"{model.instruction(bare[0]).opcode} has no .aligned, which the ISA requires",
            count=len(bare),
            help="write .sync.aligned: it changes nothing, since all threads of the warpgroup must execute it",
            fixes=(
                Repair(
                    "write .sync.aligned", tuple(_aligned(model, site) for site in bare), True, respelled=True
                ),
            ),
        )


def _descriptors(instruction: Instruction) -> list[str]:
    """The names of the operands that are descriptors of matrices in shared memory."""
    return [a.operand for a in instruction.accesses if a.via is Via.DESCRIPTOR]


_LOADED = "it depends on loaded data, which may be the same in all these threads"


@check(WG012)
def nonuniform_descriptor(model: KernelModel) -> Iterator[Hit]:
    """A matrix descriptor that provably differs between threads of a warpgroup."""
    values = model.values
    uses = grouped(
        ((name, values.before(operand, site)), site)
        for site in model.begins(WGMMA)
        for name in _descriptors(model.instruction(site))
        if isinstance(operand := model.instruction(site).named(name), int)
    )
    different = (
        (name, (site, value, level))
        for (name, value), sites in uses.items()
        if (level := _differs(model, value, sites[0])) is not None
        for site in sites
    )
    for name, found in grouped(
        different
    ).items():  # all descriptors of one operand are usually computed from one base
        site, value, level = min(found)
        operand = model.instruction(site).named(name)
        assert isinstance(operand, int)
        register = model.function.registers[operand].name
        threads = "the lanes of a warp" if level is UniformityScope.DIVERGENT else "the warps of a warpgroup"
        definition = [i for i in values.defs[operand] if i < site][-1:]
        yield WG012.hit(
            site=site,
            message=f"descriptor {register} differs between {threads}, but must be warpgroup-uniform",
            steps=(
                *(Mark(i, f"{register} is computed here") for i in definition),
                Mark(site, f"used as {name}"),
            ),
            count=len(found),
            help="compute it from warpgroup-uniform values, such as %tid.x / 128 broadcast from lane 0 with shfl.sync",
        ).doubted(_LOADED if _loaded(values, value) else "")


def _differs(model: KernelModel, value: int, site: int) -> UniformityScope | None:
    """WARP if *value* provably differs between warps of a warpgroup, DIVERGENT if between lanes; None otherwise."""
    values = model.values
    level = values.uniformity(value)
    if level <= UniformityScope.WARPGROUP:
        return None
    known = divergent_bits(values, value)
    if known is not None:
        return known.level(model.views.context_of(site).threads)
    return level if level is UniformityScope.DIVERGENT else None


def _loaded(values: Values, value: int) -> bool:
    """Whether the divergence of *value* comes from loaded words, which may be equal although their addresses differ."""
    node = values.node(value)
    if type(node) is Loaded:
        return True
    return any(
        values.uniformity(p) is UniformityScope.DIVERGENT and _loaded(values, p) for p in node.operands
    )


@check(WG013, analyses=(UnwrittenAccumulators,))
def undefined_accumulate(model: KernelModel) -> Iterator[Hit]:
    """A wgmma that adds to an accumulator which is uninitialised on some path from the entry."""
    adding = [i for i in model.begins(WGMMA) if model.instruction(i).writes and _adds(model, i)]
    if not adding:
        return
    unwritten, results = model.solution(UnwrittenAccumulators)
    reported: set[frozenset[int]] = set()
    for site in adding:
        accumulators = unwritten.written[site]
        key = frozenset(model.instruction(site).writes)
        if key in reported or not results.before(site) & accumulators:
            continue

        def arrives(state: int, at: int, site: int = site) -> bool:
            return at == site

        path = model.path(
            FactQuery(-1, unwritten.boundary() & accumulators, results, unwritten.left, arrives, (site,))
        ).witness
        if path is None:
            continue
        reported.add(key)
        name = model.function.registers[unwritten.register(path.state)].name
        yield WG013.hit(
            site=site,
            message=f"{model.name(site)} adds to accumulator {name}, which is uninitialised on a path from the entry: scale-d is true",
            count=path.state.bit_count(),
            help="zero the accumulators, or pass a false scale-d to the first wgmma.mma_async",
            confidence=model.confidence(path, 0),
        )


def _adds(model: KernelModel, site: int) -> bool:
    """Whether scale-d at *site* is known to be true."""
    value = model.value(site, "scale")
    return value is not None and bool(model.values.constant_of(value))
