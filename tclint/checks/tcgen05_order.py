"""Checks of the order of tcgen05 operations of one thread (PTX ISA 9.7.16.6.2, 9.7.16.6.4.5, 9.7.16.10)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from tclint.analyses import tcgen05_collector
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.tcgen05 import ISSUED, OperationsState, Tcgen05Operations
from tclint.analyses.tcgen05_collector import ENTRY, Collector
from tclint.analyses.tensor_memory import TensorMemory
from tclint.analyses.tmem_transfers import TmemTransfers, TransfersState, TransferStatus
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._repairs import wait_in_block
from tclint.dataflow import Path, Results
from tclint.ir.nodes import Instruction, registers
from tclint.isa.effects import TCGEN05, TCGEN05_LD, Barrier

TC009 = RuleId("TC009")
TC011 = RuleId("TC011")
TC021 = RuleId("TC021")
TC024 = RuleId("TC024")

_ANTI = "overwrites an operand in tensor memory of"
"""The effect of a copy over an operand of an MMA: not ordered either, but block-scaled loops do it and work."""
_SHAPE = 0x1F7E0000
"""M and N in an instruction descriptor of any kind (9.7.16.4.2)."""


def _path(
    model: KernelModel,
    results: Results[Any],
    site: int,
    fact: Hashable,
    step: Callable[[Any, int, Instruction], Hashable],
    to: int,
) -> Path | None:
    """A path on which *fact*, a state about *site*, holds until the instruction *to*."""
    return model.path(FactQuery(site, fact, results, step, lambda state, at: at == to, (to,))).witness


_WORKS = "block-scaled loops of libraries rely on this order, and work"


@check(TC009, analyses=(Tcgen05Operations, TensorMemory))
def unordered_pair(model: KernelModel) -> Iterator[Hit]:
    """Two operations of one thread on the same tensor memory that are not implicitly pipelined (9.7.16.6.2)."""
    if not model.begins(TCGEN05):
        return
    operations, results = model.solution(Tcgen05Operations)
    pairs = _Pairs(model)
    after: dict[int, dict[int, str]] = {}
    """Operation -> the operations that may start before it has completed, with what each does to it."""
    for b in model.cfg.order:
        for at, state in results.walk(b):
            if not pairs.may_be_unordered(at):
                continue
            for site in {s for s, _ in state if s != at}:
                if why := pairs.unordered(site, at):
                    after.setdefault(site, {})[at] = why
    found: dict[int, tuple[str, int, Path]] = {}
    for site in sorted(after, reverse=True):
        others = after[site].keys() - found.keys()
        for path in _begun(model, results, operations, site, others) if others else ():
            found[path.end] = (after[site][path.end], site, path)
    for at, (why, site, path) in found.items():
        role = model.describe_threads(path.threads)
        yield TC009.hit(
            site=at,
            message=f"{model.name(at)} {why} an earlier {model.name(site)} that may not have completed: "
            "the two are not implicitly pipelined",
            steps=(
                Mark(site, f"{model.name(site)} starts", role=role),
                Mark(at, f"{model.name(at)} is not ordered after it", role=role),
            ),
            help="commit the first operation to an mbarrier, and wait for that before this instruction",
            confidence=model.confidence(path, site),
        ).doubted(_WORKS if why == _ANTI or pairs.kinds[site] == pairs.kinds[at] == "cp" else "")


def _begun(
    model: KernelModel,
    results: Results[OperationsState],
    operations: Tcgen05Operations,
    site: int,
    others: Iterable[int],
) -> Iterator[Path]:
    """Paths from *site* to each of the *others* that may start before it has completed."""
    step, left = partial(_outstanding, operations, site), set(others)
    for path in model.paths(
        FactQuery(site, operations.issued(site), results, step, lambda state, at: at in left, left.copy())
    ):
        left.remove(path.end)
        yield path


def _outstanding(
    operations: Tcgen05Operations, site: int, state: OperationsState, at: int, instruction: Instruction
) -> OperationsState | None:
    """Transfer function of one pending operation: it ends at any wait after its commit, which may guarantee
    completion."""
    after = operations.follow(site, state, at, instruction)
    waits = (
        instruction.effects.awaits is Barrier.MBARRIER
        or instruction.effects.synchronises is not None
        or instruction.effects.awaits is Barrier.CLUSTER
    )
    return None if after and waits and (site, ISSUED) not in after else after


def _binding(model: KernelModel, site: int) -> Mapping[str, str]:
    match = model.instruction(site).match
    return match.binding if match is not None else {}


class _Pairs:
    """Which pairs of operations on the same columns are implicitly pipelined, that is, execute in order."""

    def __init__(self, model: KernelModel) -> None:
        self.tmem = tmem = model.fact(TensorMemory)
        self.kinds = {i: model.instruction(i).name.partition(".")[2] for i in tmem.operations}
        self.bindings = {i: _binding(model, i) for i in tmem.operations}
        self.shapes = {i: _shape(model, i) for i, kind in self.kinds.items() if kind == "mma"}
        self.operands = {i: tmem.columns_read(i) for i in self.shapes}
        self.values = model.values
        self._several_shapes = len(set(self.shapes.values()) - {None}) > 1

    def may_be_unordered(self, then: int) -> bool:
        """Whether :meth:`unordered` may hold for *then* and some other operation; false if *then* is not an operation.

        MMAs of one shape whose A is in shared memory are all in order.
        """
        kind = self.kinds.get(then)
        return kind is not None and (
            kind != "mma" or self._several_shapes or self.tmem.range(then, "a") is not None
        )

    def unordered(self, first: int, then: int) -> str:
        """What *then* does, unordered, to the tensor memory of *first*; empty if they do not conflict or are in
        order."""
        kinds, tmem = self.kinds, self.tmem
        if kinds[then] == "mma":
            if kinds[first] != "mma":
                return ""
            read = tmem.range(then, "a")
            if read is not None and tmem.overlap(tmem.range(first, "d"), read):
                return "reads as its A the result of"
            shapes = self.shapes[first], self.shapes[then]
            if shapes[0] == shapes[1] or None in shapes or not self._same_columns(first, then):
                return ""
            return "adds, with another M or N, to the result of"
        if (kinds[first], kinds[then]) == ("mma", "shift"):
            return ""
        if kinds[first] == "shift" and self.bindings[then].get("shape") == ".4x256b":
            return ""
        if (kinds[first], kinds[then]) == ("cp", "cp") and self.bindings[first] != self.bindings[then]:
            return ""  # another shape or multicast may write other lanes
        if not self._same_columns(first, then):
            return _ANTI if kinds[then] == "cp" and self._overwritten(first, then) else ""
        return "overwrites the columns of" if kinds[then] == "cp" else "moves the columns of"

    def _overwritten(self, mma: int, copy: int) -> bool:
        written = self.tmem.range(copy, "d")
        return written is not None and any(
            self.values.addresses.disjoint((start, 1), (written.start, 1)) is False
            for start in self.operands.get(mma, ())
        )

    def _same_columns(self, first: int, then: int) -> bool:
        return self.tmem.overlap(self.tmem.range(first, "d"), self.tmem.range(then, "d"))


def _shape(model: KernelModel, mma: int) -> int | None:
    """The bits of the instruction descriptor of *mma* that hold M and N; None if the descriptor is not a constant."""
    value = model.value(mma, "idesc")
    known = model.values.constant_of(value) if value is not None else None
    return None if known is None else known & _SHAPE


_RELOADED = "the path may not need the values of the first load"


@check(TC011, analyses=(TmemTransfers,))
def register_overwritten(model: KernelModel) -> Iterator[Hit]:
    """Another instruction writes a register that a pending tcgen05.ld has yet to fill (9.7.16.6.4.5)."""
    if not model.begins(TCGEN05_LD):
        return
    for load, ats in grouped(_overwritten(model)).items():
        at = ats[0]
        filled = {*model.instruction(load).writes}.intersection(model.instruction(at).writes)
        register = model.function.registers[min(filled)].name
        yield TC011.hit(
            site=at,
            message=f"{model.name(at)} writes {register}, which an earlier tcgen05.ld may not have filled yet: no intervening tcgen05.wait::ld",
            steps=(Mark(load, "tcgen05.ld starts"), Mark(at, f"writes {register}")),
            count=len(ats),
            help="add tcgen05.wait::ld before the register gets a new value",
            fixes=wait_in_block(model, "ld", (load,)),
        ).doubted(_RELOADED if model.instruction(at).group == TCGEN05_LD else "")


def _overwritten(model: KernelModel) -> Iterator[tuple[int, int]]:
    """Loads one of whose registers is written before they have filled it, with the instruction that writes it."""
    transfers, results = model.solution(TmemTransfers)
    writers: dict[int, set[int]] = {}
    for load in transfers.loads:
        operand = model.instruction(load).role("destination")
        for register in registers(operand) if operand is not None else ():
            for at in model.values.defs[register]:
                if at != load:
                    writers.setdefault(at, set()).add(load)
    for at, loads in writers.items():
        instruction = model.instruction(at)
        if model.cfg.block_of[at] not in model.cfg.rank:
            continue
        issued = transfers.having(results.before(at), TransferStatus.ISSUED)
        for register in instruction.reads:
            issued &= ~transfers.filled.get(register, 0)
        for load in sorted(loads):
            if not issued & transfers.bits[load]:
                continue
            step, fact = partial(_unfilled, transfers, load), transfers.issued(load)
            if _path(model, results, load, fact, step, at):
                yield load, at
                break


def _unfilled(
    transfers: TmemTransfers, load: int, state: TransfersState, at: int, instruction: Instruction
) -> TransfersState | None:
    """Transfer function of one pending load: it ends where one of its registers is read or moved, or at a wait."""
    after = transfers.follow(load, state, at, instruction)
    return after if after and transfers.having(after, TransferStatus.ISSUED) else None


_FILLED_ELSEWHERE = "on other paths an MMA fills the buffer"


@check(TC021, analyses=(Collector,))
def empty_collector(model: KernelModel) -> Iterator[Hit]:
    """A collector buffer that is used on a path on which no MMA has filled it since the entry, or since it was
    discarded (9.7.16.10.9)."""
    uses = {
        i: tcgen05_collector.usage(model.instruction(i))[0]
        for i in model.begins(TCGEN05)
        if tcgen05_collector.usage(model.instruction(i))[1] in ("use", "lastuse")
    }
    if not uses or not model.function.entry:
        return
    buffers, results = model.solution(Collector)
    for at, buffer in uses.items():
        last = {fact for fact in results.before(at) if fact[1] == buffer}
        empty = [fact for fact in sorted(last) if fact[0] == ENTRY or not _fills(model, fact[0])]
        for fact in empty:
            site = fact[0]
            if _path(model, results, site, frozenset({fact}), partial(_empty, buffers, fact), at):
                emptied = [] if site == ENTRY else [Mark(site, f"discards collector buffer {buffer}")]
                yield TC021.hit(
                    site=at,
                    message=f"{model.name(at)} takes its matrix from collector buffer {buffer}, which no earlier MMA has filled",
                    steps=(*emptied, Mark(at, "uses the buffer")),
                    help=f"fill the buffer first: put .collector::{buffer}::fill on the MMA that loads the matrix",
                ).doubted("" if len(empty) == len(last) else _FILLED_ELSEWHERE)
                break


def _fills(model: KernelModel, site: int) -> bool:
    return tcgen05_collector.usage(model.instruction(site))[1] == "fill"


def _empty(
    buffers: Collector,
    fact: tuple[int, str],
    state: frozenset[tuple[int, str]],
    at: int,
    instruction: Instruction,
) -> frozenset[tuple[int, str]] | None:
    """Transfer function of one empty buffer: it ends where the buffer is filled."""
    return buffers.transfer(state, at, instruction) & {fact} or None


@check(TC024, analyses=(TensorMemory,))
def accumulates_on_nothing(model: KernelModel) -> Iterator[Hit]:
    """MMAs that all add to an accumulator that nothing initialises."""
    function = model.function
    mmas = [i for i in model.begins(TCGEN05) if model.instruction(i).role("enable") is not None]
    if not mmas or not function.entry or any(ins.flow == "call" for ins in function.instructions):
        return
    tmem = model.fact(TensorMemory)
    adding = [i for i in mmas if _adds(model, i)]
    if not adding:
        return
    others = [*(tmem.operations - set(adding)), *tmem.stores]
    written = [(tmem.range(i, "taddr" if i in tmem.stores else "d")) for i in others]
    alone = (
        ((mine.start, mine.lanes), i)
        for i in adding
        if (mine := tmem.range(i, "d")) is not None
        and all(w is not None and _separate(model, mine.start, w.start, w.columns) for w in written)
    )
    for sites in grouped(alone).values():
        yield TC024.hit(
            site=sites[0],
            message=f"{model.name(sites[0])} adds to an accumulator in tensor memory that nothing has initialised",
            steps=(Mark(sites[0], "enable-input-d is true"),),
            count=len(sites),
            help="set enable-input-d to false for the first multiplication, or store the start value first",
        )


def _separate(model: KernelModel, mine: int, start: int, columns: int) -> bool:
    """Whether an accumulator at *mine*, of any size, provably shares no column with the *columns* from *start* on."""
    return model.values.addresses.disjoint((mine, 256), (start, max(columns, 256))) is True


def _adds(model: KernelModel, site: int) -> bool:
    value = model.value(site, "enable")
    return value is not None and bool(model.values.constant_of(value))
