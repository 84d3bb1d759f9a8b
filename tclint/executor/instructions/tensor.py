"""``tcgen05``: tensor memory and its matrix instructions (PTX ISA 9.7.16)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from tclint.executor import tcgen05, tensor_memory
from tclint.executor.code import Op
from tclint.executor.decode import Decoder, executes, parts
from tclint.executor.instructions.mbarriers import arrive_on, mbarrier_at
from tclint.executor.instructions.memory import shared_of, writing
from tclint.executor.instructions.wgmma import reader
from tclint.executor.memory import RANK, Array, Fault
from tclint.executor.signals import AGAIN
from tclint.executor.state import AsyncOperation, Cta, Tensor, TmemBlock, Warp, stretches
from tclint.executor.sync import ExecutorMbarrier
from tclint.executor.tiles import check_matrices
from tclint.ir.nodes import Immediate, Instruction, Operand
from tclint.isa.effects import TCGEN05_LD, TCGEN05_ST
from tclint.isa.forms import Match

__all__: list[str] = []

Cells = tuple[Tensor, "Array | slice", "Array | slice"]
"""A tensor memory, and lanes and columns in it."""


def _rectangle(tensor: Tensor, box: tcgen05.Rectangle, what: str) -> Cells:
    """The cells of a rectangle. Raises :class:`Fault` if it extends beyond tensor memory."""
    if not (0 <= box.lane < box.lane_end <= 128 and 0 <= box.column < box.column_end <= 512):
        raise Fault(
            f"{what}: lanes {box.lane} to {box.lane_end - 1}, columns {box.column} to {box.column_end - 1} are"
            " outside tensor memory",
            "tensor-memory",
        )
    return tensor, slice(box.lane, box.lane_end), slice(box.column, box.column_end)


def _begin(w: Warp, operation: AsyncOperation, reads: Sequence[Cells], writes: Sequence[Cells]) -> None:
    """Report what conflicts with an operation on tensor memory, and count the operation on the cells that it uses."""
    machine = w.machine
    for cells, written in [(c, False) for c in reads] + [(c, True) for c in writes]:
        tensor, lanes, columns = cells
        if not tensor.allocated[columns].all():
            machine.observe(
                "tensor-memory-unallocated", w,
                f"the {operation.what} uses columns of tensor memory that are not allocated",
            )  # fmt: skip
        for counts, kind in ((tensor.filling, "writes"), (tensor.draining, "reads")):
            if kind == "reads" and not written:
                continue
            busy = counts[lanes, columns]
            if busy.any():
                _report_conflict(w, operation, cells, kind, written)
    operation.note["cells"] = (tuple(reads), tuple(writes))
    for tensor, lanes, columns in writes:
        tensor.filling[lanes, columns] += 1
    for tensor, lanes, columns in reads:
        tensor.draining[lanes, columns] += 1
    for tensor in {id(c[0]): c[0] for c in (*reads, *writes)}.values():
        tensor.operations.append(operation)


def _report_conflict(w: Warp, operation: AsyncOperation, cells: Cells, kind: str, written: bool) -> None:
    """Report an unordered pending operation that *kind* (reads, writes) some of *cells*, if there is one."""
    tensor, lanes, columns = cells
    mine = np.zeros(tensor.filling.shape, bool)
    mine[lanes, columns] = True
    for other in tensor.operations:
        if other in operation.before or _pipelined(operation, other):
            continue
        for used, other_lanes, other_columns in other.note["cells"][kind == "writes"]:
            if used is tensor and mine[other_lanes, other_columns].any():
                how = "overwrites" if written else "reads"
                still = "has yet to write" if kind == "writes" else "still reads"
                w.machine.observe(
                    "tensor-memory",
                    w,
                    f"the {operation.what} {how} tensor memory that the pending {other.what} {still}",
                    other,
                )
                return


def _pipelined(one: AsyncOperation, other: AsyncOperation) -> bool:
    """Whether two operations are implicitly pipelined: they complete in the order of issue (9.7.16.6.2.1)."""
    return "engine" in one.note and one.note["engine"] is other.note.get("engine")


def _end(operation: AsyncOperation) -> None:
    """Release the cells that a completed operation used."""
    reads, writes = operation.note.get("cells", ((), ()))
    for tensor, lanes, columns in writes:
        tensor.filling[lanes, columns] -= 1
    for tensor, lanes, columns in reads:
        tensor.draining[lanes, columns] -= 1
    for tensor, _, _ in (*reads, *writes):
        if operation in tensor.operations:
            tensor.operations.remove(operation)


def _tensor(cta: Cta) -> Tensor:
    if cta.tensor is None:
        cta.tensor = Tensor()
    return cta.tensor


def _group(w: Warp, pair: bool) -> list[Cta]:
    """The CTA of *w*, or its CTA pair with the even rank first. Raises :class:`Fault` if the cluster has no pair."""
    ctas = w.cta.cluster.ctas
    if not pair:
        return [w.cta]
    if len(ctas) < 2:
        raise Fault("cta_group::2 in a cluster of one CTA", "cluster")
    first = w.cta.rank & ~1
    return ctas[first : first + 2]


# ---------------------------------------------------------------- allocation


@executes("tcgen05.alloc")
def _alloc(d: Decoder, i: Instruction) -> Op:
    where, count = d.address(i.operands[0]), d.uniform(i.operands[1])

    def op(w: Warp) -> int | None:
        tensor, wanted = _tensor(w.cta), count(w)
        if wanted not in (32, 64, 128, 256, 512):
            raise Fault(
                f"tcgen05.alloc of {wanted} columns: must be 32, 64, 128, 256 or 512", "tensor-memory"
            )
        if not tensor.permitted:
            w.machine.observe(
                "tensor-memory-allocation", w, "allocates tensor memory after relinquishing the permit"
            )
        start = next(
            (at for at in range(0, 513 - wanted, 32) if not tensor.allocated[at : at + wanted].any()), None
        )
        if start is None:
            w.machine.park(w.split, f"{wanted} columns of tensor memory")
            return AGAIN
        tensor.allocated[start : start + wanted] = True
        w.cta.columns[start] = TmemBlock(wanted, w.site)
        memory, offset = shared_of(w, int(where(w)[int(w.mask.argmax())]))
        writing(w, memory, np.array([offset]), 4, 1, True)
        memory.store(np.array([offset]), 4, np.array([start], np.uint32))
        w.machine.progress()
        return None

    return op


@executes("tcgen05.dealloc")
def _dealloc(d: Decoder, i: Instruction) -> Op:
    address, count = _uniform_address(d, i.operands[0]), d.uniform(i.operands[1])

    def op(w: Warp) -> None:
        tensor, start, number = _tensor(w.cta), address(w) & 0xFFFF, count(w)
        known = w.cta.columns.get(start)
        if known is None or known.columns != number:
            w.machine.observe(
                "tensor-memory-allocation",
                w,
                f"deallocates {number} columns at {start}, which is not an allocation",
            )
            return
        busy = [
            f
            for f in tensor.operations
            if any(
                _within(c, start, number)
                for c in (*f.note["cells"][0], *f.note["cells"][1])
                if c[0] is tensor
            )
        ]
        if busy:
            w.machine.observe(
                "tensor-memory",
                w,
                f"deallocates tensor memory that the pending {busy[0].what} still uses",
                busy[0],
            )
        tensor.allocated[start : start + number] = False
        del w.cta.columns[start]
        for split in [
            s for s in w.machine.parked if isinstance(s.waits, str) and s.waits.endswith("tensor memory")
        ]:
            w.machine.wake(split.waits)
        w.machine.progress()

    return op


def _within(cells: Cells, start: int, number: int) -> bool:
    """Whether some of *cells* are in *number* columns from *start* on."""
    mine = np.zeros(512, bool)
    mine[cells[2]] = True
    return bool(mine[start : start + number].any())


@executes("tcgen05.relinquish_alloc_permit")
def _relinquish(d: Decoder, i: Instruction) -> Op:
    def op(w: Warp) -> None:
        _tensor(w.cta).permitted = False

    return op


# ---------------------------------------------------------------- loads and stores


def _address(d: Decoder, operand: Operand | None) -> Callable[[Warp], int]:
    """A function that returns an address of tensor memory, that of the lowest active lane; 0 for an absent operand."""
    if operand is None:
        return lambda w: 0
    where = d.address(operand)
    return lambda w: int(where(w)[int(w.mask.argmax())]) & 0xFFFFFFFF


def _uniform_address(d: Decoder, operand: Operand | None) -> Callable[[Warp], int]:
    """The same, with an observation if it is not warp-uniform as a load, store or deallocation requires."""
    address = _address(d, operand)
    where = d.address(operand) if operand is not None else None

    def checked(w: Warp) -> int:
        found = where(w)[w.mask] if where is not None else np.zeros(1)
        if (found != found[0]).any():
            w.machine.observe("nonuniform", w, "lanes of the warp pass different addresses of tensor memory")
        return address(w)

    return checked


def _fragment(i: Instruction, match: Match) -> tuple[Array, Array]:
    """The cells of a load or store: lanes and columns relative to its address."""
    split = i.named("immHalfSplitoff")
    return tensor_memory.fragment(match, int(split.value) if isinstance(split, Immediate) else 0)


def _cells(w: Warp, what: str, address: int, lanes: Array, columns: Array) -> Cells:
    """The cells that a warp accesses, in its own quarter of the lanes (9.7.16.8.1).

    The address of another quarter is an observation: hardware ignores those bits (docs/isa-notes.md). Raises
    :class:`Fault` for columns outside tensor memory, and for lanes beyond the end of the quarter.
    """
    lane, column = address >> 16, address & 0xFFFF
    mine = tensor_memory.allowed(w.index)
    quarter = len(mine)
    if lane // quarter * quarter != mine.start:
        w.machine.observe(
            "tensor-memory-lanes", w,
            f"addresses lane {lane} of tensor memory, but may access lanes {mine.start} to {mine.stop - 1}",
        )  # fmt: skip
        lane = mine.start + lane % quarter
    if lane + int(lanes.max()) >= mine.stop:
        raise Fault(
            f"{what}: warp {w.index} may access lanes {mine.start} to {mine.stop - 1}, not those from lane {lane} on",
            "tensor-memory",
        )
    if column + int(columns.max()) >= 512:
        raise Fault(f"{what}: column {column + int(columns.max())} is outside tensor memory", "tensor-memory")
    return _tensor(w.cta), lanes + lane, columns + column


@executes("tcgen05.ld", "tcgen05.ld.16x32bx2", "tcgen05.ld.red", "tcgen05.ld.red.16x32bx2")
def _ld(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    lanes, columns = _fragment(i, match)
    take = tensor_memory.registers(match)
    targets = [r for r in parts(i.named("r")) if isinstance(r, int)]
    rows = [n for n, r in enumerate(parts(i.named("r"))) if isinstance(r, int)]
    address = _uniform_address(d, i.named("taddr"))
    reduced = i.named("redval")
    reduce = tensor_memory.reduction(match) if reduced is not None else None
    extra = (reduced,) if isinstance(reduced, int) else ()
    site = d.site

    def op(w: Warp) -> None:
        cells = _cells(w, i.name, address(w), lanes, columns)
        found: list[Array] = []

        def capture() -> None:
            found.append(take(cells[0].data[cells[1], cells[2]]))

        def finish() -> None:
            for row, register in zip(rows, targets, strict=True):
                w.regs[register] = found[0][row]
            if reduce is not None and extra:
                w.regs[extra[0]] = reduce(found[0])
            _end(operation)

        operation = AsyncOperation(
            site, w, i.name, capture=capture, finish=finish, filling={w: (*targets, *extra)}, dependent=True
        )
        _begin(w, operation, [cells], [])
        w.join_group(TCGEN05_LD, operation)
        w.machine.issue(operation)

    return op


@executes("tcgen05.st", "tcgen05.st.16x32bx2")
def _st(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    lanes, columns = _fragment(i, match)
    give = tensor_memory.cells(match)
    operands = parts(i.named("r"))
    sources = [d.fetch(o) for o in operands]
    registers = tuple(o for o in operands if isinstance(o, int))
    address = _uniform_address(d, i.named("taddr"))
    site = d.site

    def op(w: Warp) -> None:
        cells = _cells(w, i.name, address(w), lanes, columns)
        found: list[Array] = []

        def capture() -> None:
            found.append(give(np.stack([f(w).astype(np.uint32, copy=False) for f in sources])))

        def finish() -> None:
            cells[0].data[cells[1], cells[2]] = found[0]
            _end(operation)

        operation = AsyncOperation(
            site, w, i.name, capture=capture, finish=finish, draining={w: registers}, dependent=True
        )
        _begin(w, operation, [], [cells])
        w.join_group(TCGEN05_ST, operation)
        w.machine.issue(operation)

    return op


@executes("tcgen05.wait::ld", "tcgen05.wait::st")
def _wait(d: Decoder, i: Instruction) -> Op:
    kind = i.group

    def op(w: Warp) -> None:
        for groups in w.groups_of(kind):
            for operation in groups[-1]:
                w.machine.complete(operation)
            groups[:] = [[]]

    return op


# ---------------------------------------------------------------- the tensor core


class _Pair:
    """The CTAs of a multiplication, as a :class:`tclint.executor.tcgen05.MmaCtas`."""

    def __init__(self, ctas: Sequence[Cta]) -> None:
        self.ctas = ctas

    @cached_property
    def _readers(self) -> list[Callable[[Array], Array]]:
        return [reader(cta.shared) for cta in self.ctas]

    def read(self, rank: int, addresses: Array) -> Array:
        return self._readers[rank](addresses)

    def tmem(self, rank: int) -> Array:
        return _tensor(self.ctas[rank]).data


def _enqueue(w: Warp, operation: AsyncOperation) -> None:
    """Append *operation* to the operations of the CTA's tensor core, which completes them in order (9.7.16.6.2)."""
    engine = w.cta.engine
    engine[:] = [f for f in engine if not f.done]
    operation.before = engine[-1:]
    if operation.mbarrier is None:
        w.cta.uncommitted[operation] = w.mask
    operation.note["engine"] = engine
    engine.append(operation)


@executes(*tcgen05.MMA)
def _mma(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    run = tcgen05.MMA[match.form.name](match)
    pair, site = match.of_pair, d.site

    def number(name: str, size: int = 4) -> Callable[[Warp], int]:
        operand = i.named(name)
        return d.uniform(operand, size) if operand is not None else lambda w: 0

    to, descriptor = _address(d, i.named("d-tmem")), number("b-desc", 8)
    a = _address(d, i.named("a-tmem")) if run.a_in_tmem else number("a-desc", 8)
    idesc, enable = number("idesc"), d.fetch(d.needed(i, "enable-input-d"), 0)
    scale, scale_a, scale_b = (
        number("scale-input-d"),
        _address(d, i.named("scale-A-tmem")),
        _address(d, i.named("scale-B-tmem")),
    )
    meta, zero = _address(d, i.named("sp-meta-tmem")), number("zero-column-mask-desc", 8)
    disabled = [d.uniform(o) for o in parts(i.named("disable-output-lane"))]

    def op(w: Warp) -> None:
        ctas = _group(w, pair)
        operands = tcgen05.Operands(
            to(w), a(w), descriptor(w), idesc(w), bool(enable(w)[int(w.mask.argmax())]), tuple(f(w) for f in disabled),
            scale(w), scale_a(w), scale_b(w), meta(w), zero(w),
        )  # fmt: skip
        ranges = run.ranges(operands)
        context = _Pair(ctas)

        def finish() -> None:
            for cta in ctas:
                check_matrices(w, site, cta.shared, run.matrices(operands))
            run(context, operands)
            _end(operation)

        operation = AsyncOperation(
            site, w, "tcgen05.mma", reads=[stretches(c.shared, ranges.shared) for c in ctas], finish=finish,
            stamp=w.stamp,
        )  # fmt: skip
        _enqueue(w, operation)
        reads = [_rectangle(_tensor(c), box, i.name) for c in ctas for box in ranges.reads]
        writes = [_rectangle(_tensor(c), box, i.name) for c in ctas for box in ranges.writes]
        _begin(w, operation, reads, writes)
        w.machine.issue(operation)

    return op


@executes("tcgen05.cp")
def _cp(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    run = tensor_memory.copy(match)
    pair, site = match.of_pair, d.site
    where, source = d.address(i.operands[0]), d.uniform(i.operands[1], 8)

    def op(w: Warp) -> None:
        ctas = _group(w, pair)
        address, descriptor = int(where(w)[int(w.mask.argmax())]), source(w)
        lane, column = address >> 16 & 0xFFFF, address & 0xFFFF
        lanes, columns = run.lanes + lane, run.columns + column
        if int(lanes.max()) >= 128 or int(columns.max()) >= 512:
            raise Fault(
                f"{i.name}: lane {int(lanes.max())}, column {int(columns.max())} is outside tensor memory",
                "tensor-memory",
            )
        data: list[Array] = []

        def capture() -> None:
            data.extend(run(reader(c.shared), descriptor) for c in ctas)

        def finish() -> None:
            for cta, values in zip(ctas, data, strict=True):
                _tensor(cta).data[lanes, columns] = values
            _end(operation)

        operation = AsyncOperation(
            site, w, "tcgen05.cp", reads=[stretches(c.shared, run.intervals(descriptor)) for c in ctas],
            capture=capture, finish=finish, stamp=w.stamp,
        )  # fmt: skip
        _enqueue(w, operation)
        _begin(w, operation, [], [(_tensor(c), lanes, columns) for c in ctas])
        w.machine.issue(operation)

    return op


@executes("tcgen05.shift")
def _shift(d: Decoder, i: Instruction) -> Op:
    """Shape ``.31x256b`` (9.7.16.2.3): the first 31 of 32 rows each receive 32 bytes of the following row.

    The manual does not define which direction is down; docs/isa-notes.md explains why it is the last row that remains
    to be refilled.
    """
    assert i.match is not None
    pair, site, where = i.match.of_pair, d.site, _address(d, i.operands[0])

    def op(w: Warp) -> None:
        lane, column = divmod(where(w), 1 << 16)
        if lane % 32:
            raise Fault(f"{i.name}: lane {lane} is not a multiple of 32", "tensor-memory")
        box = tcgen05.Rectangle(lane, lane + 31, column, column + 8)
        following = tcgen05.Rectangle(lane + 1, lane + 32, column, column + 8)
        tensors = [_tensor(cta) for cta in _group(w, pair)]
        reads = [_rectangle(tensor, following, i.name) for tensor in tensors]
        writes = [_rectangle(tensor, box, i.name) for tensor in tensors]

        def finish() -> None:
            for tensor in tensors:
                rows = tensor.data[lane : lane + 32, column : column + 8]
                rows[:-1] = rows[1:].copy()
            _end(operation)

        operation = AsyncOperation(site, w, "tcgen05.shift", finish=finish, stamp=w.stamp)
        _enqueue(w, operation)
        _begin(w, operation, reads, writes)
        w.machine.issue(operation)

    return op


@executes("tcgen05.commit")
def _commit(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    where, mask = d.address(i.operands[0]), i.named("ctaMask")
    chosen, site = (d.uniform(mask, 2) if mask is not None else None), d.site

    def op(w: Warp) -> None:
        address = int(where(w)[int(w.mask.argmax())])
        addresses = [address]
        if chosen is not None:
            _, offset = shared_of(w, address)
            addresses = [rank << RANK | offset for rank in range(16) if chosen(w) >> rank & 1]
            if not addresses:
                w.machine.observe("cta-mask", w, "the CTA mask names no CTA")
        clocks = w.clocks.copy()
        tracks = [
            f
            for f, lanes in w.cta.uncommitted.items()
            if f.what != "tcgen05.mma" or (f.warp is w and (lanes & w.mask).any())
        ]
        for operation in tracks:
            del w.cta.uncommitted[operation]
        for one in addresses:
            mbarrier = mbarrier_at(w, one)

            def finish(mbarrier: ExecutorMbarrier = mbarrier) -> None:
                mbarrier.clocks.join(clocks)
                arrive_on(w, mbarrier, 1)

            for tracked in tracks:
                tracked.tracked.append(mbarrier)
            operation = AsyncOperation(site, w, "tcgen05.commit", finish=finish, mbarrier=mbarrier)
            _enqueue(w, operation)  # commits, too, signal in the order of issue
            w.machine.issue(operation)
        w.tick()

    return op


@executes("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")
def _fence(d: Decoder, i: Instruction) -> Op:
    return lambda w: None
