"""Checks of what the ptxas of a certain CUDA toolkit does to a module: versions it lacks, code it gets wrong."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from tclint.analyses.groups import State, WgmmaGroups, is_move
from tclint.analyses.model import KernelModel
from tclint.analyses.wgmma_accumulators import ignores_accumulator
from tclint.checks import Hit, Mark, RuleId, check, grouped, module_check
from tclint.checks._repairs import drained, together
from tclint.config.config import Config
from tclint.findings.edits import Repair, before, reversion
from tclint.findings.scales import Confidence
from tclint.ir.nodes import Module, Vector, registers
from tclint.isa.target import TOOLKITS, Target, Version, dotted, toolkit_for

TL001 = RuleId("TL001")
TL002 = RuleId("TL002")
TL003 = RuleId("TL003")

MERGES: tuple[Version, Version] = (12, 0), (13, 5)
"""The toolkits, first and last, whose ptxas merges repeated wgmma: all that were ever tested."""

_REACH = 135
"""How far into a basic block ptxas was seen to merge for certain: instructions, and registers that a wgmma writes."""

REUSES: tuple[Version, Version] = (12, 0), (13, 2)
"""The toolkits whose ptxas may reuse the registers of an A fragment too early; 13.3 does not."""


@module_check(TL001)
def version_too_high(module: Module, config: Config) -> Iterator[Hit]:
    """A ``.version`` that the ptxas of the named toolkit does not know."""
    newest = TOOLKITS.get(config.toolkit) if config.toolkit is not None else None
    if config.toolkit is None or newest is None or module.version is None or module.version <= newest:
        return
    first = toolkit_for(module.version)
    yield TL001.hit(
        span=module.version_span,
        message=f"the ptxas of CUDA {dotted(config.toolkit)} knows PTX {dotted(newest)} at most, "
        f"this module is {dotted(module.version)}",
        help=f"write .version {dotted(newest)}"
        + (f", or use CUDA {dotted(first)} or newer" if first is not None else ""),
        fixes=_lowered(module, newest),
    )


def _lowered(module: Module, newest: Version) -> tuple[Repair, ...]:
    """The older version, where it has all that the module uses."""
    target = next((t for t in map(Target.parse, module.targets) if t), None)
    uses = [use for function in module.functions for use in function.uses]
    if target is None or any(use.match is None or use.match.missing(target, newest) for use in uses):
        return ()
    return reversion(module, newest)


@check(TL002, needs="wgmma")
def identical_repeat(model: KernelModel) -> Iterator[Hit]:
    """A wgmma that repeats an earlier one of its group word for word, which ptxas takes for superfluous."""
    toolkit = model.config.toolkit
    tested = toolkit is None or MERGES[0] <= toolkit <= MERGES[1]
    repeats = ((frozenset(model.instruction(pair[1]).writes), pair) for pair in _repeats(model))
    for pairs in grouped(repeats).values():
        earlier, site = min(pairs)
        yield TL002.hit(
            site=site,
            message="repeats an earlier wgmma with the same registers, descriptors and scale-d: "
            "ptxas executes only one of them",
            steps=(Mark(earlier, "the first of them"), Mark(site, "the same again")),
            count=len(pairs),
            help="commit the group between the two (wgmma.commit_group), or give the second one descriptors "
            "of its own",
            fixes=_kept_apart(model, [site for _, site in pairs]),
            confidence=None if tested else Confidence.LOW,
        )


def _kept_apart(model: KernelModel, sites: list[int]) -> tuple[Repair, ...]:
    """A commit in front of each repetition."""
    commit = "wgmma.commit_group.sync.aligned;"
    if not all(together(model, site, "warpgroup", (site,)) for site in sites):
        return ()
    changes = tuple(before(site, commit) for site in sites)
    return (Repair("put them into groups of their own", changes, drained(model, "wgmma")),)


def _repeats(model: KernelModel) -> Iterator[tuple[int, int]]:
    """Pairs of equal wgmma that ptxas was seen to merge.

    They stand near the start of a block outside of loops, with nothing between them that keeps them apart.
    """
    latest: dict[Hashable, int] = {}
    for i in model.sites("issue", "wgmma"):
        instruction = model.instruction(i)
        block = model.cfg.block_of[i]
        if instruction.guard >= 0 or block in model.cfg.in_cycle or _only_writes(model, i):
            continue
        d = instruction.role("d")
        operands = [model.values.operand(o, i) for o in instruction.operands if o is not d]
        key = (block, instruction.opcode, instruction.writes, *operands)
        earlier = latest.get(key)
        if earlier is not None and _merged(model, model.cfg.blocks[block].start, earlier, i):
            yield earlier, i
        latest[key] = i


def _only_writes(model: KernelModel, site: int) -> bool:
    """Whether a wgmma is compiled to one that only writes D: scale-d is false, or D is zero."""
    if ignores_accumulator(model, site):
        return True
    accumulators = (model.values.before(r, site) for r in model.instruction(site).writes)
    return all(model.values.node(value)[1:] == (0,) for value in accumulators)


def _merged(model: KernelModel, start: int, earlier: int, site: int) -> bool:
    """Whether ptxas merges the wgmma at *site* with an equal one before it in the block that begins at *start*."""
    if any(_separates(model, i, site) for i in range(earlier + 1, site)):
        return False
    wgmmas = (model.instruction(i) for i in range(start, site + 1) if model.instruction(i).group == "wgmma")
    return site - start + sum(len(instruction.writes) for instruction in wgmmas) <= _REACH


def _separates(model: KernelModel, between: int, site: int) -> bool:
    """Whether an instruction keeps ptxas from merging the wgmma at *site* with one before it."""
    instruction = model.instruction(between)
    match = instruction.match
    if match is not None and match.form.event == "issue" and match.form.group == "wgmma":
        return False  # and whatever it adds to D is lost
    if match is None or match.form.memory or match.form.flow or match.form.event:
        return True
    return not set(instruction.writes).isdisjoint(model.instruction(site).writes)


@check(TL003, needs="wgmma", analyses=(WgmmaGroups,))
def fragment_register_reused(model: KernelModel) -> Iterator[Hit]:
    """An A fragment copied from registers that the next round of a loop rewrites while the wgmma is in flight."""
    toolkit = model.config.toolkit
    if toolkit is None or not REUSES[0] <= toolkit <= REUSES[1]:
        return
    found: list[tuple[int, int, int, int]] = []
    for site in model.sites("issue", "wgmma"):
        for source, copy in _copied_from(model, site).items():
            write = _rewritten_next_round(model, site, source)
            if write is not None:
                found.append((site, copy, source, write))
                break
    if not found:
        return
    site, copy, source, write = found[0]
    copy_name, source_name = (model.function.registers[r].name for r in (copy, source))
    yield TL003.hit(
        site=site,
        message=f"{source_name} is written in the next round of the loop while the wgmma may still read its copy "
        f"{copy_name}: the ptxas of CUDA {dotted(toolkit)} keeps both in one register",
        steps=(
            Mark(site, f"the wgmma starts to read {copy_name}"),
            Mark(write, f"the next round writes {source_name}"),
        ),
        count=len(found),
        help="use CUDA 13.3 or newer, or wait for the wgmma (wgmma.wait_group 0) before the end of the loop",
    )


def _copied_from(model: KernelModel, site: int) -> dict[int, int]:
    """Registers that the A fragment of a wgmma was copied from, each with the copy."""
    fragment = model.instruction(site).role("a")
    found: dict[int, int] = {}
    if not isinstance(fragment, Vector):
        return found
    start = model.cfg.blocks[model.cfg.block_of[site]].start
    for copy in registers(fragment):
        register, before = copy, site
        while True:
            made = max((i for i in model.values.defs.get(register, ()) if start <= i < before), default=None)
            if made is None or not is_move(model.instruction(made)) or model.instruction(made).guard >= 0:
                break
            register, before = model.instruction(made).reads[0], made
            found[register] = copy
    return found


def _rewritten_next_round(model: KernelModel, site: int, source: int) -> int | None:
    """The write to *source* in a later round of a loop while the wgmma at *site* is in flight, if there is one.

    In one and the same round ptxas sees the conflict and serialises.
    """
    groups, results = model.solution(WgmmaGroups)

    for write in model.values.defs.get(source, ()):
        if site not in groups.originating_sites(results.before(write)):
            continue

        def arrives(state: State, at: int, write: int = write) -> bool:
            return at == write

        path = model.path(
            site, groups.start(site), results, groups.following(site), arrives, (write,)
        ).witness
        if path is not None and any(model.cfg.dominates(e.target, e.source) for e in path.edges):
            return write
    return None
