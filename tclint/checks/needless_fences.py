"""Checks of fences: those that a fence before them makes needless, and those wider than what they order."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.global_memory import origins
from tclint.analyses.model import KernelModel
from tclint.analyses.outside_shared import OutsideAfter, OutsideBefore, leaves_the_cta
from tclint.analyses.repeated import Done, Repeated, what
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._needless import decidable, own_sites
from tclint.findings.edits import Repair, opcode, without
from tclint.ir.nodes import Instruction
from tclint.isa.accesses import Proxy, StateSpace
from tclint.isa.effects import BULK, Barrier, Effects, Exchange, Fence, Resource
from tclint.isa.forms import Match

CO003 = RuleId("CO003")
CO004 = RuleId("CO004")
CO005 = RuleId("CO005")

_WIDER = {".cluster": ".cta", ".gpu": ".cta", ".sys": ".cta", ".gl": ".cta"}
"""Scopes that are wider than the CTA, each with the one that serves there."""
_PRIVATE = (".local", ".param", ".const")


def _proxy_fences(model: KernelModel) -> dict[int, Done]:
    """The fences between the generic and the async proxy, in both directions, in the text of the kernel."""
    fences = own_sites(model, model.sites(Fence.PROXY))
    return {i: done for i in fences if (done := what(model.instruction(i))) is not None}


@check(CO003, analyses=(Repeated,))
def repeated_fence(model: KernelModel) -> Iterator[Hit]:
    """A proxy fence after another one, with no access and no synchronisation in between on any path."""
    fences = _proxy_fences(model)
    if not fences or not decidable(model):
        return
    repeated, done = model.solution(Repeated)
    for fence in fences:
        if repeated.before(done.before(fence), fence):
            yield CO003.hit(
                site=fence,
                message=f"{model.name(fence)} orders nothing: on every path, an earlier proxy fence follows the last access to memory",
                steps=(Mark(fence, "is executed with no access since the fence before it"),),
                help="remove the fence",
                fixes=(Repair("delete the fence", (without(fence),), proves=("proxies",)),),
            )


@check(CO004)
def fence_of_all_spaces(model: KernelModel) -> Iterator[Hit]:
    """A fence.proxy.async for all state spaces in a kernel that writes nothing but its own shared memory before."""
    fences = [i for i, done in _proxy_fences(model).items() if not done.detail]
    if not fences or not decidable(model) or _observes_other_ctas(model):
        return
    writes, reads = _global_accesses(model)
    stores = [i for i in model.begins(BULK) if _writes_global_later(model.instruction(i))]
    accesses = writes + [i for i in reads if any(_may_overlap(model, i, store) for store in stores)]
    for fence in fences:
        if any(_may_precede(model, access, fence) for access in accesses):
            continue
        new = "fence.proxy.async.shared::cta"
        yield CO004.hit(
            site=fence,
            message=f"{model.name(fence)} orders accesses to all state spaces, but only shared memory is accessed through the generic proxy "
            "before it",
            steps=(Mark(fence, "waits for accesses to global memory, too"),),
            help=f"use {new}",
            fixes=(Repair(f"use {new}", (opcode(fence, new),), proves=("proxies",)),),
        )


@check(CO005, analyses=(OutsideBefore, OutsideAfter))
def fence_of_wide_scope(model: KernelModel) -> Iterator[Hit]:
    """A memory fence of a wider scope than the CTA between accesses that are all to shared memory of the CTA."""
    fences = [i for i in own_sites(model, model.sites(Fence.MEMORY)) if _scope(model.instruction(i))]
    if not fences or not decidable(model):
        return
    if any(leaves_the_cta(each) for each in _reachable(model)):
        return
    before, after = model.solution(OutsideBefore)[1], model.solution(OutsideAfter)[1]
    for fence in fences:
        if before.before(fence) or after.before(fence):
            continue
        instruction = model.instruction(fence)
        scope = _scope(instruction)
        new = instruction.opcode.replace(scope, _WIDER[scope])
        yield CO005.hit(
            site=fence,
            message=f"{model.name(fence)} has the scope {scope}, but all that it orders are accesses to shared memory of the CTA",
            steps=(
                Mark(fence, "waits until the accesses are performed for threads that cannot observe them"),
            ),
            help=f"use {new}",
            fixes=(Repair(f"use {new}", (opcode(fence, new),), proves=("shared-memory",)),),
        )


def _reachable(model: KernelModel) -> Iterator[Instruction]:
    for block in model.cfg.order:
        yield from model.function.instructions[model.cfg.blocks[block].start : model.cfg.blocks[block].end]


def _scope(fence: Instruction) -> str:
    """The scope of a memory fence if it could be narrower; else empty."""
    match = fence.match
    if match is None or match.problem or match.form.name not in ("fence", "membar"):
        return ""
    return next((m for m in match.modifiers if m in _WIDER), "")


# ---------------------------------------------------------------- accesses to global memory


def _global_accesses(model: KernelModel) -> tuple[list[int], list[int]]:
    """The instructions that may write memory which is not shared memory of the CTA, and those that may only read it."""
    writes, reads = list[int](), list[int]()
    for block in model.cfg.order:
        for i in range(model.cfg.blocks[block].start, model.cfg.blocks[block].end):
            match = model.instruction(i).match
            if match is None or not _outside(match):
                continue
            form = match.form
            if form.family in ("texture", "surface") or any(verb == "write" for verb, _ in form.memory):
                writes.append(i)
            elif form.memory and not match.modes.read_only:
                reads.append(i)
    return writes, reads


def _outside(match: Match) -> bool:
    """Whether it may name memory other than shared memory of the CTA and what no other CTA writes."""
    return not match.own_shared and not match.space.startswith(_PRIVATE)


def _writes_global_later(instruction: Instruction) -> bool:
    """Whether it writes global memory through the async proxy."""
    return any(
        a.writes and a.proxy is Proxy.ASYNC and a.space is StateSpace.GLOBAL for a in instruction.accesses
    )


def _may_overlap(model: KernelModel, read: int, store: int) -> bool:
    """Whether a read of global memory and a bulk store may be to the same memory, if different parameters give access to
    different memory."""
    of, to = origins(model, read, "read"), origins(model, store, "write")
    return not of or not to or not of.isdisjoint(to)


def _observes_other_ctas(model: KernelModel) -> bool:
    """Whether the kernel may be ordered after writes of other CTAs, grids or functions.

    That is the case after a strong access to memory other than shared memory of the CTA, a fence of a wider scope, a
    cluster barrier, the wait for an earlier grid, and a call.
    """
    for each in _reachable(model):
        match = each.match
        if match is None or each.flow == "call" or each.effects.awaits is Barrier.GRIDS:
            return True
        if _scope(each):
            return True
        if each.effects.barrier is Barrier.CLUSTER:
            return True
        if match.form.memory and match.strong and _outside(match):
            return True
    return False


def _orders_others(effects: Effects) -> bool:
    """Whether another thread may be ordered after it; the completion of an operation may be, and follows its commit."""
    of_own = (
        effects.begins or effects.commits or effects.waits or effects.exchange is Exchange.ELECT
        or effects.fence in (Fence.REGISTERS, Fence.PROXY) or effects.resource is Resource.REGISTERS
    )  # fmt: skip
    return not of_own


def _may_precede(model: KernelModel, access: int, fence: int) -> bool:
    """Whether a thread may execute *access* before the same thread, or one that is ordered after it, executes *fence*."""
    return model.reaches(access, fence) or any(
        model.reaches(access, site) for site in model.where(_orders_others)
    )
