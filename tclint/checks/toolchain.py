"""What the ptxas of a certain CUDA toolkit does to a module: versions it does not support, code it miscompiles."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from tclint.analyses.groups import GroupsState, WgmmaGroups
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.wgmma_accumulators import ignores_accumulator
from tclint.checks import Hit, Mark, RuleId, check, grouped, module_check
from tclint.checks._repairs import arrive_together, waits_for_all_groups
from tclint.findings.edits import Repair, before, reversion
from tclint.ir.needs import needs
from tclint.ir.nodes import Module, Vector, registers
from tclint.isa.effects import WGMMA
from tclint.isa.target import TOOLKITS, Version, dotted, toolkit_for
from tclint.values.nodes import Constant, FloatConstant

TL001 = RuleId("TL001")
TL002 = RuleId("TL002")
TL003 = RuleId("TL003")

MERGES: tuple[Version, Version] = (12, 0), (13, 5)
"""The first and the last toolkit whose ptxas merges repeated wgmma: all that were tested."""

MAX_MERGE_DISTANCE = 135
"""How far into a basic block ptxas was observed to merge reliably.

The sum of the instructions and of the registers that each wgmma writes, from the start of the block.
"""

REUSES: tuple[Version, Version] = (12, 0), (13, 2)
"""The first and the last toolkit whose ptxas may reuse the registers of an A fragment too early; 13.3 does not."""


@module_check(TL001)
def version_too_high(module: Module, toolkit: Version | None) -> Iterator[Hit]:
    """A ``.version`` that the ptxas of the configured toolkit does not support."""
    newest = TOOLKITS.get(toolkit) if toolkit is not None else None
    if toolkit is None or newest is None or module.version is None or module.version <= newest:
        return
    from tclint.isa.diagnostics import driver_for  # few modules need it

    first, driver = toolkit_for(module.version), driver_for(module.version)
    yield TL001.hit(
        span=module.version_span,
        message=f"the ptxas of CUDA {dotted(toolkit)} supports PTX {dotted(newest)} at most, "
        f"but this module declares {dotted(module.version)}",
        help=f"write .version {dotted(newest)}"
        + (f", or use CUDA {dotted(first)} or newer" if first is not None else "")
        + (f"; compiled at run time, it requires driver {driver} or newer" if driver is not None else ""),
        fixes=_lowered(module, newest),
    )


def _lowered(module: Module, newest: Version) -> tuple[Repair, ...]:
    """*newest* as the ``.version``; empty if the module uses a form that it does not have."""
    target = module.target
    uses = [use for function in module.functions for use in function.uses]
    if target is None or any(use.match is None for use in uses):
        return ()
    if any(need.available.lacking(target, newest) for need in needs(module, target)):
        return ()
    return reversion(module, newest)


_UNTESTED = "whether the ptxas of this toolkit merges the two has not been tested"


@check(TL002)
def identical_repeat(model: KernelModel) -> Iterator[Hit]:
    """A wgmma that repeats an earlier one of its group with equal operands, which ptxas treats as redundant."""
    toolkit = model.toolkit
    tested = toolkit is None or MERGES[0] <= toolkit <= MERGES[1]
    repeats = ((frozenset(model.instruction(pair[1]).writes), pair) for pair in _repeats(model))
    for pairs in grouped(repeats).values():
        earlier, site = min(pairs)
        yield TL002.hit(
            site=site,
            message=f"{model.name(site)} repeats an earlier wgmma.mma_async with the same registers, descriptors and scale-d: "
            "ptxas merges the two and executes only one",
            steps=(Mark(earlier, "the first multiplication"), Mark(site, "the same multiplication again")),
            count=len(pairs),
            help="commit the group between the two (wgmma.commit_group), or give the second one its own descriptors",
            fixes=_separated(model, [site for _, site in pairs]),
        ).doubted("" if tested else _UNTESTED)


def _separated(model: KernelModel, sites: list[int]) -> tuple[Repair, ...]:
    """A commit before each repetition; empty if a warpgroup may be divergent at one of them."""
    commit = "wgmma.commit_group.sync.aligned;"
    if not all(arrive_together(model, site, "warpgroup", (site,)) for site in sites):
        return ()
    changes = tuple(before(site, commit) for site in sites)
    return (Repair("commit the group between the two", changes, waits_for_all_groups(model, WGMMA)),)


def _repeats(model: KernelModel) -> Iterator[tuple[int, int]]:
    """Pairs of equal wgmma that ptxas was observed to merge.

    Both are near the start of the same block, outside of loops, with no intervening instruction that prevents it.
    """
    latest: dict[Hashable, int] = {}
    for i in model.begins(WGMMA):
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
    """Whether ptxas compiles the wgmma at *site* to one that overwrites D: scale-d is false, or D is zero."""
    if ignores_accumulator(model, site):
        return True
    nodes = (model.values.node(model.values.before(r, site)) for r in model.instruction(site).writes)
    return all(isinstance(node, Constant | FloatConstant) and node.number == 0 for node in nodes)


def _merged(model: KernelModel, start: int, earlier: int, site: int) -> bool:
    """Whether ptxas merges the wgmma at *site* with an equal one before it in the block that begins at *start*."""
    if any(_separates(model, i, site) for i in range(earlier + 1, site)):
        return False
    wgmmas = (model.instruction(i) for i in range(start, site + 1) if model.instruction(i).group == WGMMA)
    return site - start + sum(len(instruction.writes) for instruction in wgmmas) <= MAX_MERGE_DISTANCE


def _separates(model: KernelModel, intervening: int, site: int) -> bool:
    """Whether the *intervening* instruction keeps ptxas from merging the wgmma at *site* with one before it."""
    instruction = model.instruction(intervening)
    match = instruction.match
    if match is not None and match.form.effects.begins == WGMMA:
        return False  # what it adds to D is lost, too
    if match is None or match.form.memory or match.form.flow or match.form.event:
        return True
    return not set(instruction.writes).isdisjoint(model.instruction(site).writes)


@check(TL003, analyses=(WgmmaGroups,))
def fragment_register_reused(model: KernelModel) -> Iterator[Hit]:
    """An A fragment copied from registers that the next iteration of a loop rewrites while the wgmma is in flight."""
    toolkit = model.toolkit
    if toolkit is None or not REUSES[0] <= toolkit <= REUSES[1]:
        return
    found: list[tuple[int, int, int, int]] = []
    for site in model.begins(WGMMA):
        for source, copy in _copied_from(model, site).items():
            write = _rewritten_in_later_iteration(model, site, source)
            if write is not None:
                found.append((site, copy, source, write))
                break
    if not found:
        return
    site, copy, source, write = found[0]
    copy_name, source_name = (model.function.registers[r].name for r in (copy, source))
    yield TL003.hit(
        site=site,
        message=f"{source_name} is written in the next iteration while wgmma.mma_async may still read its copy "
        f"{copy_name}: the ptxas of CUDA {dotted(toolkit)} keeps both in one register",
        steps=(
            Mark(site, f"starts to read {copy_name}"),
            Mark(write, f"the next iteration writes {source_name}"),
        ),
        count=len(found),
        help="use CUDA 13.3 or newer, or wait for the wgmma (wgmma.wait_group 0) before the end of the loop",
    )


def _copied_from(model: KernelModel, site: int) -> dict[int, int]:
    """The registers that were moved to the A fragment of the wgmma in its block -> the register of the fragment."""
    fragment = model.instruction(site).role("a")
    found: dict[int, int] = {}
    if not isinstance(fragment, Vector):
        return found
    start = model.cfg.blocks[model.cfg.block_of[site]].start
    for copy in registers(fragment):
        register, before = copy, site
        while True:
            move = max((i for i in model.values.defs.get(register, ()) if start <= i < before), default=None)
            if move is None or not model.instruction(move).renames or model.instruction(move).guard >= 0:
                break
            register, before = model.instruction(move).reads[0], move
            found[register] = copy
    return found


def _rewritten_in_later_iteration(model: KernelModel, site: int, source: int) -> int | None:
    """The write to *source* in a later iteration while the wgmma at *site* is in flight; None if there is none.

    Within one iteration ptxas detects the conflict and serialises.
    """
    groups, results = model.solution(WgmmaGroups)

    for write in model.values.defs.get(source, ()):
        if site not in groups.originating_sites(results.before(write)):
            continue

        def arrives(state: GroupsState, at: int, write: int = write) -> bool:
            return at == write

        path = model.path(
            FactQuery(site, groups.start(site), results, groups.following(site), arrives, (write,))
        ).witness
        if path is not None and any(model.cfg.dominates(e.target, e.source) for e in path.edges):
            return write
    return None
