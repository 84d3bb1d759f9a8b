"""Asynchronous copies: ``cp.async``, bulk and tensor copies, ``st.async``, and tensor maps (PTX ISA 9.7.9.25 to 28)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import takewhile

import numpy as np

from tclint._named_tuple import NamedTuple
from tclint.executor import tensor_maps
from tclint.executor.code import Op
from tclint.executor.decode import Decoder, executes, executes_where, parts
from tclint.executor.errors import Unsupported
from tclint.executor.formats import types
from tclint.executor.instructions.mbarriers import complete, mbarrier_at
from tclint.executor.instructions.memory import (
    Change,
    before_grid,
    change_of,
    check_started,
    shared_of,
    single,
    writing,
)
from tclint.executor.memory import GENERIC, RANK, UNSIGNED, Array, Fault, Misaligned, SpaceMemory
from tclint.executor.signals import AGAIN
from tclint.executor.state import LANES, AsyncOperation, Range, Shared, Warp, stretch
from tclint.executor.sync import Box, ExecutorMbarrier
from tclint.executor.tiles import land
from tclint.ir.nodes import Instruction, Not, Operand
from tclint.ir.nodes import Memory as Address
from tclint.isa.effects import BULK, GENERIC_COPIES, GROUPED
from tclint.isa.forms import Match
from tclint.sync.operations import completed

__all__: list[str] = []

_LOW = (1 << RANK) - 1
_EVERY = np.arange(LANES)


def merged(starts: Array, size: int) -> list[tuple[int, int]]:
    """The maximal intervals ``(start, end)`` that pieces of *size* bytes cover."""
    order = np.sort(starts)
    breaks = np.flatnonzero(np.diff(order) > size) + 1
    return [(int(part[0]), int(part[-1]) + size) for part in np.split(order, breaks)]


def _name(i: Instruction) -> str:
    """The name of a copy for messages, such as ``cp.async.bulk.tensor``."""
    return ".".join(
        takewhile(frozenset("cp reduce st red async bulk tensor".split()).__contains__, i.opcode.split("."))
    )


# ---------------------------------------------------------------- cp.async


@executes_where(lambda form: form.effects.begins in GENERIC_COPIES)
def _cp_async(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    to, source = d.address(i.operands[0]), d.address(i.operands[1])
    count_operand = i.role("bytes")
    assert count_operand is not None
    size = d.uniform(count_operand)
    given = i.named("src-size")
    amount = d.fetch(given) if given is not None else None
    # A predicate is the operand that the manual calls ignore-src.
    ignored = isinstance(given, Not) or (isinstance(given, int) and d.types[given] == bool)
    site, engine = d.site, i.group

    def op(w: Warp) -> None:
        lanes = w.lanes
        count = size(w)
        targets, sources = to(w)[lanes], w.machine.memory.located(source(w)[lanes])
        lengths = amount(w)[lanes].astype(np.int64) if amount is not None else np.full(len(lanes), count)
        if ignored:
            lengths = np.where(lengths, 0, count)
        if (lengths > count).any():
            raise Fault(f"cp.async: src-size {int(lengths.max())} is larger than cp-size {count}")
        memory, _ = shared_of(w, int(targets[0]))
        if (targets >> RANK != int(targets[0]) >> RANK).any():
            raise Fault("cp.async into the shared memory of several CTAs")
        offsets = targets & _LOW
        if (offsets & (count - 1)).any() or (sources[lengths > 0] & (count - 1)).any():
            raise Misaligned(f"cp.async of {count} bytes")
        memory.check(offsets, count)
        if (lengths > 0).any():
            w.machine.memory.check(sources[lengths > 0], count)
            before_grid(w, w.machine.memory, sources[lengths > 0], count)
        data = np.zeros((len(lanes), count), np.uint8)
        every = np.arange(count)

        def capture() -> None:
            inside = every < lengths[:, None]
            at = np.where(inside, sources[:, None] + every, 0)
            data[:] = np.where(inside, w.machine.memory.data[at], 0)

        def finish() -> None:
            memory.data[offsets[:, None] + every] = data

        operation = AsyncOperation(
            site, w, engine, writes=[stretch(memory, s, e) for s, e in merged(offsets, count)], capture=capture,
            finish=finish, written=w.stamp,
        )  # fmt: skip
        w.join_group(engine, operation)
        w.machine.issue(operation)

    return op


@executes_where(lambda form: form.effects.commits in GROUPED)
def _commit(d: Decoder, i: Instruction) -> Op:
    kind = i.group

    def op(w: Warp) -> None:
        w.groups.setdefault((kind, w.mask.tobytes()), [[]])
        for groups in w.groups_of(kind):
            groups.append([])  # an empty group counts too (9.7.9.25.3.2)

    return op


@executes_where(lambda form: form.effects.waits in GROUPED)
def _wait(d: Decoder, i: Instruction) -> Op:
    kind, left, sources = i.group, i.groups_left, i.effects.sources
    if left is None:
        raise Unsupported("a number of groups that targets read differently")

    def op(w: Warp) -> int | None:
        machine = w.machine
        pending = [
            operation
            for groups in w.groups_of(kind)
            for group in groups[: completed(len(groups) - 1, left)]
            for operation in group
        ]
        for operation in pending:
            if not machine.can_complete(operation):
                machine.park(w.split, operation)
                return AGAIN
        for operation in pending:
            if operation.written:
                operation.written = w.stamp
                for memory, words in operation.writes if operation.done else ():
                    memory.written[words] = w.stamp
            if sources:
                machine.capture(operation)
            else:
                machine.complete(operation)
                machine.unlock(w, operation)
        if not sources:
            for groups in w.groups_of(kind):
                del groups[: completed(len(groups) - 1, left)]
                if not groups:
                    groups.append([])
        return None

    return op


# ---------------------------------------------------------------- destinations and mbarriers of bulk copies


def _targets(w: Warp, address: int, mask: int | None) -> list[tuple[Shared, int]]:
    """The destinations of a copy: one address, or the same offset in every CTA of *mask*."""
    memory, offset = shared_of(w, address)
    if mask is None:
        return [(memory, offset)]
    ctas = w.cta.cluster.ctas
    if mask >> len(ctas):
        text = f"the CTA mask {mask:#x} exceeds the cluster of {len(ctas)} CTAs"
        w.machine.observe("cta-mask", w, text)
        raise Fault(text, "cluster")
    if not mask:
        w.machine.observe("cta-mask", w, "the CTA mask names no CTA")
    for rank in range(len(ctas)):
        if mask >> rank & 1 and rank != w.cta.rank:
            check_started(w, rank)
    return [(ctas[rank].shared, offset) for rank in range(len(ctas)) if mask >> rank & 1]


def _mbarriers(
    w: Warp, address: int, targets: Sequence[tuple[Shared, int]], multicast: bool, pair: bool
) -> list[ExecutorMbarrier]:
    """The mbarrier on which each destination's copy completes; for a multicast, that at the same offset in its CTA.

    With *pair* (``.cta_group::2``), it is in the CTA of the destination's pair that has the rank parity of *address*.
    """
    if not multicast:
        return [mbarrier_at(w, address)]
    memory, offset = shared_of(w, address)
    ranks = [t.rank & ~1 | memory.rank & 1 if pair else t.rank for t, _ in targets]
    return [mbarrier_at(w, rank << RANK | offset) for rank in ranks]


def _check(address: int, align: int, what: str) -> None:
    """Raises :class:`Misaligned` for a misaligned address of *what*."""
    if address & (align - 1):
        raise Misaligned(f"{what} at {address:#x} is not a multiple of {align}")


class _Content(NamedTuple):
    """What a copy into shared memory moves."""

    size: int
    source: Callable[[], Array]
    """Reads it."""
    write: Callable[[Shared, int, Array], None]
    """Writes it to an offset in the shared memory of one CTA."""
    reads: Sequence[Range] = ()
    """The shared memory that the source is in."""
    unknown: Box | None = None
    """The box of an unknown tensor map, whose number of bytes is unknown too."""
    adds: bool = False
    """Whether it is reduced into the memory."""


def _load(
    w: Warp, site: int, what: str, targets: Sequence[tuple[Shared, int]], mbarriers: Sequence[ExecutorMbarrier],
    content: _Content,
) -> None:  # fmt: skip
    """Issue a copy into shared memory that completes on an mbarrier."""
    size, source, write, reads, unknown, adds = content
    clocks = w.clocks.copy() if reads else None
    for (memory, offset), mbarrier in zip(targets, mbarriers, strict=True):
        memory.check(np.array([offset]), size)
        mbarrier.unknown += unknown is not None
        data: list[Array] = []

        def capture(data: list[Array] = data) -> None:
            data.append(source())

        def finish(
            memory: Shared = memory,
            offset: int = offset,
            mbarrier: ExecutorMbarrier = mbarrier,
            data: list[Array] = data,
        ) -> None:
            write(memory, offset, data[0])
            if clocks is not None:  # a wait for the copy is ordered after the read of its source
                mbarrier.clocks.join(clocks)
            if unknown is not None:
                memory.presume_written(offset, site)
                mbarrier.unknown -= 1
                mbarrier.boxes[unknown] += 1
            complete(w, mbarrier, size if unknown is None else None)

        w.machine.issue(
            AsyncOperation(
                site, w, what, reads=list(reads), writes=[stretch(memory, offset, offset + size)], capture=capture,
                finish=finish, mbarrier=mbarrier, adds=adds, stamp=w.stamp,
            )
        )  # fmt: skip


def _operands(d: Decoder, i: Instruction) -> tuple[Callable[[Warp], Array] | None, Callable[[Warp], Array]]:
    """The CTA mask, if there is one, and the mbarrier of a copy."""
    mask = i.role("mask")
    mbar = i.mbarrier
    if mbar is None:
        raise Unsupported("a copy without an mbarrier")
    return (d.fetch(mask, 2) if mask is not None else None), d.address(mbar)


# ---------------------------------------------------------------- bulk copies


@executes("cp.async.bulk.load", "cp.async.bulk.dsmem", "cp.reduce.async.bulk.dsmem")
def _bulk_load(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    if match.modes.ignores_out_of_bounds:
        raise Unsupported(".ignore_oob")
    to, source = d.address(i.operands[0]), d.address(i.operands[1])
    size = d.fetch(i.operands[2])
    mask, mbar = _operands(d, i)
    site, own = d.site, match.form.name != "cp.async.bulk.load"
    change = _reduction(match)

    def op(w: Warp) -> None:
        addresses, sources, sizes, bars = to(w), source(w), size(w), mbar(w)
        for lane in w.lanes.tolist():
            count = int(sizes[lane])
            _check(int(addresses[lane]), 16, "the destination of a bulk copy")
            _check(int(sources[lane]), 16, "the source of a bulk copy")
            if count & 15:
                raise Fault(f"a bulk copy of {count} bytes, which is not a multiple of 16", "misaligned")
            targets = _targets(w, int(addresses[lane]), int(mask(w)[lane]) if mask is not None else None)
            mbarriers = _mbarriers(w, int(bars[lane]), targets, mask is not None, False)
            memory: SpaceMemory
            if own:
                memory, start = shared_of(w, int(sources[lane]))
                reads: list[Range] = [stretch(memory, start, start + count)]
            else:
                (memory, start), reads = single(w, ".global", int(sources[lane]), lane, count), []
            memory.check(np.array([start]), count)
            before_grid(w, memory, np.array([start]), count)

            def take(memory: SpaceMemory = memory, start: int = start, count: int = count) -> Array:
                return memory.read(start, count)

            def write(target: Shared, offset: int, data: Array) -> None:
                if change is not None:
                    data = change(target.read(offset, len(data)), data)
                target.write(offset, data)

            content = _Content(count, take, write, reads, adds=change is not None)
            _load(w, site, _name(i), targets, mbarriers, content)

    return op


def _reduction(match: Match) -> Change | None:
    """The operation of a reducing copy on the old bytes and the copied ones; None for a plain copy."""
    change = match.combination
    return change_of(change, types(match.modifiers)[-1].name) if change else None


def _store(
    w: Warp,
    site: int,
    what: str,
    reads: list[Range],
    read: Callable[[], Array],
    write: Callable[[Array], None],
) -> None:
    """Issue a copy out of shared memory, which completes as part of a bulk group."""
    data: list[Array] = []
    operation = AsyncOperation(
        site, w, what, reads=reads, capture=lambda: data.append(read()), finish=lambda: write(data[0])
    )
    w.join_group(BULK, operation)
    w.machine.issue(operation)


@executes("cp.async.bulk.store", "cp.reduce.async.bulk.store")
def _bulk_store(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    to, source = d.address(i.operands[0]), d.address(i.operands[1])
    size, masked = d.fetch(i.operands[2]), i.named("byteMask")
    mask = d.fetch(masked, 2) if masked is not None else None
    change, site = _reduction(match), d.site

    def op(w: Warp) -> None:
        addresses, sources, sizes = to(w), source(w), size(w)
        for lane in w.lanes.tolist():
            count = int(sizes[lane])
            _check(int(addresses[lane]), 16, "the destination of a bulk copy")
            _check(int(sources[lane]), 16, "the source of a bulk copy")
            if count & 15:
                raise Fault(f"a bulk copy of {count} bytes, which is not a multiple of 16", "misaligned")
            shared, start = shared_of(w, int(sources[lane]))
            shared.check(np.array([start]), count)
            memory, at = single(w, ".global", int(addresses[lane]), lane, count)
            memory.check(np.array([at]), count)
            chosen = None
            if mask is not None:
                chosen = np.tile((int(mask(w)[lane]) >> np.arange(16) & 1).astype(bool), count // 16)

            def write(
                data: Array,
                memory: SpaceMemory = memory,
                at: int = at,
                count: int = count,
                chosen: Array | None = chosen,
            ) -> None:
                target = memory.data[at : at + count]
                if change is not None:
                    target[:] = change(target, data)
                elif chosen is None:
                    target[:] = data
                else:
                    target[chosen] = data[chosen]

            def read(shared: Shared = shared, start: int = start, count: int = count) -> Array:
                return shared.read(start, count)

            _store(w, site, _name(i), [stretch(shared, start, start + count)], read, write)

    return op


# ---------------------------------------------------------------- tensor copies


def _map(w: Warp, address: int) -> tensor_maps.TensorMap | None:
    """The tensor map at a generic address; None for an unknown one (:data:`~tclint.executor.tensor_maps.UNKNOWN`).

    Raises :class:`Fault` for bytes that are not a tensor map, and for an address in ``.param`` space that ``cvta.param``
    has not made a generic one: an H100 faults.
    """
    if not address >> GENERIC:
        raise Fault(
            f"the tensor map at {address:#x}: not a generic address, cvta.param is missing", "address"
        )
    _check(address, 64, "the tensor map")
    memory, offset = single(w, "", address, 0, tensor_maps.SIZE)
    data = memory.read(offset, tensor_maps.SIZE).tobytes()
    if data == tensor_maps.UNKNOWN:
        return None
    try:
        return _recorded_map(w, data) or tensor_maps.decode(data)
    except ValueError as problem:
        raise Fault(f"the tensor map at {address:#x}: {problem}") from None


def _recorded_map(w: Warp, data: bytes) -> tensor_maps.TensorMap | None:
    """The tensor map that these bytes are in the format of the GPU of a recorded launch; None if they are none."""
    recorded_map = w.machine.memory.recorded_map
    return recorded_map(data) if recorded_map is not None else None


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


class _Boxes:
    """The boxes of a tensor that the threads of an instruction copy, from its operand ``[tensorMap, {x, y}]``."""

    def __init__(self, d: Decoder, i: Instruction, operand: Operand, moves: Operand | None = None) -> None:
        """*moves* are the offsets of an im2col mode."""
        assert i.match is not None
        assert isinstance(operand, Address)
        self.mode = next((m[1:] for m in i.match.modifiers if m.startswith((".tile", ".im2col"))), "tile")
        self._name = i.name
        self._where = d.address(Address(operand.base, operand.offset))
        self._at = [d.fetch(o) for extra in operand.extras for o in parts(extra)]
        self._moves = [d.fetch(o, 2) for o in parts(moves)]

    def of(
        self, w: Warp, lane: int, store: bool = False
    ) -> tuple[tensor_maps.TensorMap | None, tensor_maps.TensorTransfer]:
        """The tensor map and the transfer of one lane's copy; the map is None if it is unknown."""
        tensor = _map(w, int(self._where(w)[lane]))
        if tensor is None:
            return None, tensor_maps.unknown()
        coordinates = [_signed(int(f(w)[lane])) for f in self._at]
        try:
            return tensor, tensor_maps.box(
                tensor, coordinates, self.mode, self._offsets(w, lane), store=store
            )
        except ValueError as problem:
            raise Fault(f"{self._name}: {problem}") from None

    def unknown(self, w: Warp, lane: int) -> Box:
        """What the number of bytes depends on if the map is unknown: in a mode other than tiles, the offsets too."""
        return int(self._where(w)[lane]), self.mode, *self._offsets(w, lane)

    def _offsets(self, w: Warp, lane: int) -> list[int]:
        return [int(f(w)[lane]) for f in self._moves]


@executes("cp.async.bulk.tensor.load.tile", "cp.async.bulk.tensor.load.gather4", "cp.async.bulk.tensor.load.im2col",
          "cp.async.bulk.tensor.load.im2col_w")  # fmt: skip
def _tensor_load(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    to = d.address(i.operands[0])
    boxes = _Boxes(d, i, i.operands[1], i.named("im2colInfo"))
    mask, mbar = _operands(d, i)
    site, pair = d.site, match.of_pair

    def op(w: Warp) -> None:
        addresses, bars = to(w), mbar(w)
        for lane in w.lanes.tolist():
            tensor, transfer = boxes.of(w, lane)
            _check(int(addresses[lane]) & _LOW, 128, "the destination of a tensor copy")
            targets = _targets(w, int(addresses[lane]), int(mask(w)[lane]) if mask is not None else None)
            mbarriers = _mbarriers(w, int(bars[lane]), targets, mask is not None, pair)

            def take(
                transfer: tensor_maps.TensorTransfer = transfer, tensor: tensor_maps.TensorMap | None = tensor
            ) -> Array:
                data = _gather(w, transfer)
                if tensor is None or not tensor.type.startswith("tf32"):
                    return data
                return tensor_maps.loaded(tensor, data.view(np.uint8)).view(data.dtype)

            def write(
                memory: Shared, offset: int, data: Array, tensor: tensor_maps.TensorMap | None = tensor,
                transfer: tensor_maps.TensorTransfer = transfer,
            ) -> None:  # fmt: skip
                starts = (
                    tensor_maps.swizzle(tensor, transfer.offsets, offset)
                    if tensor
                    else transfer.offsets + offset
                )
                _units(memory.data, transfer.unit)[starts // transfer.unit] = data
                if tensor is not None:
                    land(memory, site, tensor, offset, starts, transfer.offsets + offset)

            unknown = boxes.unknown(w, lane) if tensor is None else None
            content = _Content(transfer.size, take, write, unknown=unknown)
            _load(w, site, _name(i), targets, mbarriers, content)

    return op


def _units(data: Array, unit: int) -> Array:
    """*data* with *unit* bytes to an element, so that one index selects a whole unit."""
    kind = UNSIGNED.get(unit, np.complex128)
    length = len(data) // unit * unit
    return data[:length].view(kind)


def _gather(w: Warp, transfer: tensor_maps.TensorTransfer) -> Array:
    """The units of a transfer from global memory, with the fill value outside the tensor."""
    memory = w.machine.memory
    offsets = memory.located(transfer.addresses)
    inside = transfer.inside
    fill = np.ascontiguousarray(transfer.fill).view(UNSIGNED.get(transfer.unit, np.complex128))[0]
    before_grid(w, memory, offsets[inside], transfer.unit)
    if inside.all():
        memory.check(offsets, transfer.unit)
        found: Array = _units(memory.data, transfer.unit)[offsets // transfer.unit]
        return found
    data = np.full(len(offsets), fill)
    if inside.any():
        memory.check(offsets[inside], transfer.unit)
        data[inside] = _units(memory.data, transfer.unit)[offsets[inside] // transfer.unit]
    return data


@executes("cp.async.bulk.tensor.store", "cp.async.bulk.tensor.store.scatter4", "cp.reduce.async.bulk.tensor",
          "cp.reduce.async.bulk.tensor.scatter4")  # fmt: skip
def _tensor_store(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    boxes = _Boxes(d, i, i.operands[0])
    source = d.address(i.operands[1])
    combination = match.combination
    site = d.site

    def op(w: Warp) -> None:
        sources = source(w)
        for lane in w.lanes.tolist():
            tensor, transfer = boxes.of(w, lane, store=True)
            shared, start = shared_of(w, int(sources[lane]))
            _check(start, 128, "the source of a tensor copy")
            shared.check(np.array([start]), transfer.size)
            unit, inside = transfer.unit, transfer.inside
            starts = (
                tensor_maps.swizzle(tensor, transfer.offsets, start) if tensor else transfer.offsets + start
            )
            units = (starts // unit)[inside]
            offsets = w.machine.memory.located(transfer.addresses[inside])
            if len(offsets):
                w.machine.memory.check(offsets, unit)

            def read(shared: Shared = shared, units: Array = units, unit: int = unit) -> Array:
                return _units(shared.data, unit)[units]

            def write(
                data: Array,
                offsets: Array = offsets,
                unit: int = unit,
                tensor: tensor_maps.TensorMap | None = tensor,
            ) -> None:
                target = _units(w.machine.memory.data, unit)
                if combination and tensor is not None:
                    old = target[offsets // unit]
                    new = tensor_maps.reduce(
                        combination, tensor.type, old.view(np.uint8).ravel(), data.view(np.uint8).ravel()
                    )
                    data = np.ascontiguousarray(new).view(target.dtype)
                target[offsets // unit] = data

            _store(w, site, _name(i), [stretch(shared, start, start + transfer.size)], read, write)

    return op


# ---------------------------------------------------------------- st.async, st.bulk


@executes("st.async.mbarrier", "red.async.mbarrier")
def _st_async(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    to, mbar = d.address(i.operands[0]), d.address(i.operands[2])
    size = int(match.element[2:]) // 8
    sources = [d.fetch(o, size) for o in parts(i.operands[1])]
    kind, site, change = UNSIGNED[size], d.site, _reduction(match)

    def op(w: Warp) -> None:
        addresses, bars = to(w), mbar(w)
        values = [f(w).astype(kind, copy=False) for f in sources]
        for lane in w.lanes.tolist():
            memory, offset = shared_of(w, int(addresses[lane]))
            data = np.array([v[lane] for v in values], kind).view(np.uint8)
            _check(offset, len(data), "the destination of st.async")
            mbarrier = mbarrier_at(w, int(bars[lane]))

            def write(target: Shared, start: int, new: Array) -> None:
                if change is not None:
                    new = change(target.read(start, len(new)), new)
                target.write(start, new)

            content = _Content(len(data), partial(np.copy, data), write, adds=change is not None)
            _load(w, site, _name(i), [(memory, offset)], [mbarrier], content)

    return op


@executes("st.bulk")
def _st_bulk(d: Decoder, i: Instruction) -> Op:
    to, size = d.address(i.operands[0]), d.fetch(i.operands[1], 8)

    def op(w: Warp) -> None:
        addresses, sizes = to(w), size(w)
        for lane in w.lanes.tolist():
            memory, offset = shared_of(w, int(addresses[lane]))
            count = int(sizes[lane])
            _check(offset | count, 8, "the destination, or the size, of st.bulk")
            if count:
                writing(w, memory, np.arange(offset, offset + count, 8), 8, 1, True)
                memory.write(offset, np.zeros(count, np.uint8))

    return op


# ---------------------------------------------------------------- cluster launch control


@executes("clusterlaunchcontrol.try_cancel")
def _try_cancel(d: Decoder, i: Instruction) -> Op:
    """Cancels the next cluster that has not started, so that the requesting CTA can do its work (9.7.13.17)."""
    to, mbar = d.address(i.operands[0]), d.address(i.operands[1])
    assert i.match is not None
    multicast, site = i.match.multicast, d.site

    def op(w: Warp) -> None:
        addresses, bars = to(w), mbar(w)
        for lane in w.lanes.tolist():
            mask = (1 << len(w.cta.cluster.ctas)) - 1 if multicast else None
            targets = _targets(w, int(addresses[lane]), mask)
            _check(targets[0][1], 16, "the response of try_cancel")
            mbarriers = _mbarriers(w, int(bars[lane]), targets, multicast, False)
            response = cache(partial(_respond, w))  # cancels one cluster, however many CTAs get the response
            content = _Content(16, response, _write)
            _load(w, site, "clusterlaunchcontrol.try_cancel", targets, mbarriers, content)

    return op


def _respond(w: Warp) -> Array:
    """The 16-byte response: three coordinates of a CTA, and whether a cluster was cancelled."""
    ctaid = w.machine.cancel()
    return np.array([0, 0, 0, 0] if ctaid is None else [*ctaid, 1], np.uint32).view(np.uint8)


def _write(memory: Shared, offset: int, data: Array) -> None:
    memory.write(offset, data)


@executes("clusterlaunchcontrol.query_cancel")
def _query_cancel(d: Decoder, i: Instruction) -> Op:
    source = d.fetch(d.needed(i, "response"), 16)
    assert i.match is not None
    if i.match.modes.tests_cancellation:
        result = d.put(i.operands[0])
        return lambda w: result(w, (source(w) >> 96 & 1).astype(bool))
    axis = "xyz".find(i.match.binding.get("coordinate", " ")[-1])
    puts = [d.put(o) for o in parts(i.operands[0])]
    shifts = [32 * n for n in range(len(puts))] if axis < 0 else [32 * axis]

    def op(w: Warp) -> None:
        for put, shift in zip(puts, shifts, strict=True):
            put(w, (source(w) >> shift & 0xFFFFFFFF).astype(np.uint32))

    return op


# ---------------------------------------------------------------- tensor maps


@executes("tensormap.replace")
def _replace(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    field = next(m for m in match.modifiers if m in tensor_maps._FIELDS)
    where, space = d.address(i.operands[0]), match.space
    ordinal = d.uniform(i.operands[1]) if len(i.operands) > 2 else None
    value = d.uniform(i.operands[-1], 8)

    def op(w: Warp) -> None:
        lane = int(w.mask.argmax())
        memory, at = single(w, space, int(where(w)[lane]), lane, tensor_maps.SIZE)
        old = memory.read(at, tensor_maps.SIZE).tobytes()
        if (recorded := _recorded_map(w, old)) is not None:
            old = recorded.encode()
        try:
            new = tensor_maps.replace(old, field, ordinal(w) if ordinal is not None else None, value(w))
        except ValueError as problem:
            raise Fault(f"tensormap.replace: {problem}") from None
        memory.write(at, np.frombuffer(new, np.uint8))

    return op


@executes("tensormap.cp_fenceproxy")
def _cp_fenceproxy(d: Decoder, i: Instruction) -> Op:
    to, source = d.address(i.operands[0]), d.address(i.operands[1])

    def op(w: Warp) -> None:
        lane = int(w.mask.argmax())
        shared, start = shared_of(w, int(source(w)[lane]))
        memory, at = single(w, ".global", int(to(w)[lane]), lane, tensor_maps.SIZE)
        memory.write(at, shared.read(start, tensor_maps.SIZE))

    return op
