"""Checks of the warp that allocates tensor memory, and of the address that it passes on (PTX ISA 9.7.16.7.1)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import controlling_predicates, path_avoiding
from tclint.analyses.tmem_allocation import TensorAllocation
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._repairs import barrier_between
from tclint.dataflow import Path
from tclint.findings.scales import Confidence
from tclint.ir.nodes import registers
from tclint.isa.effects import Resource
from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.nodes import ParameterRead

TM007 = RuleId("TM007")
TM008 = RuleId("TM008")
TM009 = RuleId("TM009")

_ONLY_RELINQUISHED = "the first warp relinquishes the permit for the whole CTA, and no other state is shared"
"""The doubt if only ``tcgen05.relinquish_alloc_permit`` is executed by several warps."""
_OWN_COLUMNS = "the address differs between threads, so each warp may have columns of its own"
_ONE_WARP = "a launch may have one warp only"


@check(TM007)
def not_one_warp(model: KernelModel) -> Iterator[Hit]:
    """Allocation, deallocation or relinquishment that several warps of the CTA provably execute."""
    if not model.function.entry:
        return  # the callers decide which threads call it
    values = model.values
    found: list[tuple[int, int]] = []
    for site in model.where(lambda e: e.manages_tensor_memory):
        threads = _executing(model, site)
        if threads and not T.one_warp(threads):
            found.append((site, threads))
    if not found or values.threads <= 32:
        return
    site, threads = min(found)
    sure = bool(model.function.threads)
    spread = any(_own_word(model, i) for i, _ in found)
    relinquished = all(model.instruction(i).effects.resource is Resource.TMEM_RELINQUISH for i, _ in found)
    doubt = (
        _ONLY_RELINQUISHED
        if relinquished
        else _OWN_COLUMNS
        if spread
        else ""
        if sure or values.cta_size
        else _ONE_WARP
    )
    yield TM007.hit(
        site=site,
        message=f"{model.name(site)} is executed by {model.describe_threads(threads)}: a single warp must execute it for the whole CTA",
        steps=tuple(
            Mark(i, f"{model.name(i)} is executed", role=model.describe_threads(t)) for i, t in found
        ),
        count=len(found),
        help="execute it in one warp only, under a test of the warp index",
        confidence=None if sure else Confidence.MEDIUM,
    ).doubted(doubt)


def _executing(model: KernelModel, site: int) -> int:
    """The threads that execute *site* in some launch; 0 if an unknown condition selects the warps."""
    values = model.values
    known = all(
        values.mask(p) is not None or values.uniformity(p) is UniformityScope.CTA
        for p in controlling_predicates(model, site)
    )
    return model.views.context_of(site).threads if known else 0


def _own_word(model: KernelModel, site: int) -> bool:
    """Whether the address is not CTA-uniform, so that each warp may allocate to, or free, its own columns."""
    value = model.value(site, "destination")
    if value is None:
        value = model.value(site, "taddr")
    return value is not None and model.values.uniformity(value) is not UniformityScope.CTA


@check(TM008, analyses=(HappensBefore, TensorAllocation))
def result_unsynced(model: KernelModel) -> Iterator[Hit]:
    """A load of the address that an allocation writes, by another warp that has not waited for the allocation."""
    if not model.sites(Resource.TMEM_ALLOC) or not model.function.entry:
        return
    memory, _ = model.solution(TensorAllocation)
    readers = _readers(model, memory)
    if not readers:
        return
    every = T.full(model.values.threads)
    for word, sites in readers.items():
        allocations = memory.words[word]
        warps = [T.one_warp(model.views.context_of(a).threads) for a in allocations]
        if not all(warps):
            continue
        others = every
        for warp in warps:
            others &= ~warp
        observers = model.fact(HappensBefore).observers_of(allocations)
        sites = [
            s for s in sites if _used(model, s, others) and not any(_before(model, s, a) for a in allocations)
        ]
        path = path_avoiding(model, -1, others, sites, observers).witness if sites else None
        if path is not None:
            yield _unsynced(model, allocations[0], path)


def _used(model: KernelModel, load: int, threads: int) -> bool:
    """Whether some of *threads* use the loaded value."""
    return any(
        model.views.context_of(i).threads & threads and model.reaches(load, i, model.values.defs[register])
        for register in model.instruction(load).writes
        for i in model.readers.get(register, ())
    )


def _before(model: KernelModel, load: int, allocation: int) -> bool:
    """Whether *load* reads the earlier contents of the word: it reaches *allocation*, which does not reach it."""
    return model.reaches(load, allocation) and not model.reaches(allocation, load)


def _readers(model: KernelModel, memory: TensorAllocation) -> dict[int, list[int]]:
    """Word to which an allocation writes its address -> the loads of that word."""
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
                    word = values.representative(values.add(address, values.constant(4 * k)))
                    if word in memory.words:
                        found.setdefault(word, []).append(i)
    return found


def _unsynced(model: KernelModel, allocation: int, path: Path) -> Hit:
    return TM008.hit(
        site=path.end,
        message=f"{model.name(path.end)} reads the address of the tensor memory, which another warp may not have allocated yet: no intervening barrier",
        steps=(
            Mark(
                allocation,
                "tcgen05.alloc writes the address",
                role=model.describe_threads(model.views.context_of(allocation).threads),
            ),
            Mark(path.end, "read without waiting", role=model.describe_threads(T.whole(path.threads, 32))),
        ),
        help="add bar.sync 0 for all warps between tcgen05.alloc and this load",
        fixes=barrier_between(model, allocation, path.end),
        about=frozenset((allocation, path.end)),
        confidence=model.confidence(path, -1),
    )


@check(TM009)
def destination(model: KernelModel) -> Iterator[Hit]:
    """An allocation that does not write the address to the shared memory of the CTA."""
    values = model.values
    for site in model.sites(Resource.TMEM_ALLOC):
        value = model.value(site, "destination")
        if value is None:
            continue
        terms = [term for term, factor in values.linear(value)[0] if factor == 1]
        spaces = {space for term in terms if (space := model.space(term))}
        wrong = sorted(spaces - {".shared"})
        sure = True
        if wrong and ".shared" not in spaces:
            where = f"a {wrong[0].lstrip('.')} variable"
        elif len(terms) == 1 and not spaces and _is_pointer(model, terms[0]):
            # The host cannot have a pointer to the shared memory of a CTA.
            where, sure = "a pointer parameter of the kernel", False
        else:
            continue
        yield TM009.hit(
            site=site,
            message=f"{model.name(site)} writes the address of the tensor memory to {where}, which is not in the shared memory of the CTA",
            help="pass the address of a word in shared memory, and copy the result from there if needed",
            confidence=None if sure else Confidence.MEDIUM,
        )


def _is_pointer(model: KernelModel, value: int) -> bool:
    node = model.values.node(value)
    return type(node) is ParameterRead and node.size == 8
