"""Loads, stores, atomic operations and addresses (PTX ISA 9.7.9, 9.7.14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tclint.executor.code import Op
from tclint.executor.decode import Decoder, executes, parts, windows
from tclint.executor.errors import Unsupported
from tclint.executor.formats import types
from tclint.executor.memory import (
    GENERIC,
    LOCAL,
    PARAM,
    RANK,
    SHARED,
    UNSIGNED,
    WINDOW,
    Array,
    Fault,
    Global,
    Misaligned,
    SpaceMemory,
)
from tclint.executor.state import LANES, Released, Shared, Warp
from tclint.executor.sync import Clocks
from tclint.executor.tensor_maps import reduce
from tclint.ir.nodes import Instruction, Operand, Symbol
from tclint.ir.nodes import Memory as Address
from tclint.isa.effects import Order

__all__ = [
    "Change",
    "change_of",
    "check_started",
    "locate",
    "reading",
    "shared_of",
    "single",
    "writing",
]

_LOW = (1 << RANK) - 1
_OFFSET = (1 << WINDOW) - 1
_EVERY = np.arange(LANES)


def shared_of(w: Warp, address: int, generic: bool = False) -> tuple[Shared, int]:
    """The shared memory of a CTA, and the offset in it, that an address in the shared window refers to (5.1.7).

    *generic*: the instruction states no space, so an offset in the window is not an address for it.
    Raises :class:`Fault` for an address outside shared memory or outside the cluster.
    """
    if generic and not address >> GENERIC:
        raise Fault(f"{address:#x} is not a generic address of shared memory", "address")
    if address >> GENERIC:
        if address >> WINDOW != SHARED >> WINDOW:
            raise Fault(f"{address:#x} is not an address of shared memory", "address")
        address &= _OFFSET
    rank = address >> RANK
    ctas = w.cta.cluster.ctas
    if rank >= len(ctas):
        raise Fault(f"{address:#x} is outside the cluster of {len(ctas)} CTAs", "cluster")
    if rank != w.cta.rank:
        check_started(w, rank)
    return ctas[rank].shared, address & _LOW


def check_started(w: Warp, rank: int) -> None:
    """Report an access to shared memory of another CTA if nothing orders it after the start of that CTA (5.1.6).

    A phase of the cluster barrier shows that all CTAs have started, also with ``.relaxed``.
    """
    cluster = w.cta.cluster
    warps = w.machine.geometry.warps
    if not cluster.barrier.phase and not w.clocks.seen[rank * warps : (rank + 1) * warps].any():
        text = f"uses shared memory of CTA {rank} of the cluster, and nothing shows that it has started"
        w.machine.observe("unstarted-cta", w, text)


def locate(
    w: Warp, space: str, addresses: Array, lanes: Array, size: int
) -> list[tuple[SpaceMemory, Array, Array]]:
    """The memories that *size* bytes at each of *addresses* are in.

    For each memory: the offsets in it, and the indices of their addresses. *lanes* are the lanes of the addresses,
    which have their own local memory.
    """
    if space == "":
        window = addresses >> WINDOW
        first = int(window[0])
        if (window != first).any():
            found = []
            for one in np.unique(window).tolist():
                mine = window == one
                for memory, offsets, at in locate(w, "", addresses[mine], lanes[mine], size):
                    found.append((memory, offsets, np.flatnonzero(mine)[at]))
            return found
        space = ".global" if first in w.machine.memory.windows else _WINDOWS.get(first << WINDOW, "")
        if not space:
            raise Fault(f"generic address {int(addresses[0]):#x} is in no state space", "address")
        if space != ".global":
            addresses = addresses & _OFFSET
    every = np.arange(len(addresses))
    if space in (".global", ".const"):
        return [(w.machine.memory, w.machine.memory.located(addresses), every)]
    if space.startswith(".shared"):
        ranks = addresses >> RANK
        first = int(ranks[0])
        if (ranks == first).all():
            return [(shared_of(w, first << RANK)[0], addresses & _LOW, every)]
        return [
            (shared_of(w, rank << RANK)[0], addresses[ranks == rank] & _LOW, np.flatnonzero(ranks == rank))
            for rank in np.unique(ranks).tolist()
        ]
    if space == ".local":
        room = w.machine.code.local_size
        low, high = int(addresses.min()), int(addresses.max()) + size
        if low < 0 or high > room:
            raise Fault(
                f"local memory: offset {low if low < 0 else high - size} is out of bounds ({room} bytes)",
                "bounds",
            )
        if w.local is None:
            w.local = SpaceMemory(room * LANES)
        return [(w.local, addresses + lanes * room, every)]
    if space.startswith(".param"):
        memory = SpaceMemory(len(w.machine.parameters))
        memory.data[: memory.size] = w.machine.parameters
        return [(memory, addresses, every)]
    raise Unsupported(f"state space {space}")


def single(w: Warp, space: str, address: int, lane: int, size: int) -> tuple[SpaceMemory, int]:
    """The memory that *size* bytes at the address of one lane are in, and the offset in it."""
    ((memory, offsets, _),) = locate(w, space, np.array([address], np.int64), np.array([lane]), size)
    return memory, int(offsets[0])


_WINDOWS = {SHARED: ".shared", LOCAL: ".local", PARAM: ".param"}


def _words(offsets: Array, size: int, count: int) -> Array:
    """The numbers of the words that accesses of *count* integers of *size* bytes touch."""
    total = size * count
    if total <= 4:
        return offsets >> 2
    return (offsets >> 2)[:, None] + np.arange(total >> 2)


def reading(w: Warp, memory: Shared, offsets: Array, size: int, count: int, plain: bool) -> None:
    """Check a read of shared memory for conflicts, and record it.

    Only *plain* accesses, which are neither atomic nor synchronising, are checked for races and recorded.
    """
    memory.check(offsets, size * count)
    words = _words(offsets, size, count)
    if memory.operations and memory.filling[words].any():
        for operation in memory.pending_operations(words, writes=True):
            w.machine.observe(
                "read-too-early",
                w,
                f"reads shared memory that the pending {operation.what} has yet to write",
                operation,
            )
    if memory.exited:
        w.machine.observe("exited-cta", w, "reads shared memory of a CTA that has exited")
    w.machine.count_unwritten(w, memory, words)
    if not plain:
        return
    for stamp, site in memory.unordered_accesses(words, True, w.clocks.seen):
        writer = w.machine.who(w, stamp)
        w.machine.observe(
            "unordered", w, f"reads shared memory that {writer} wrote, and nothing orders the two", site
        )
    memory.read_by[words] = w.stamp
    memory.reader[words] = w.site


def writing(w: Warp, memory: Shared, offsets: Array, size: int, count: int, plain: bool) -> None:
    """Check a write to shared memory for conflicts, and record it; see :func:`reading`.

    A plain write is compared with the last read here, and with the last write where its values are known
    (:func:`_racing`); any other write clears the record of the last write.
    """
    memory.check(offsets, size * count)
    words = _words(offsets, size, count)
    if memory.operations:
        for counts, writes, kind, text in (
            (
                memory.draining,
                False,
                "source-overwritten",
                "overwrites shared memory that the pending {} still reads",
            ),
            (
                memory.filling,
                True,
                "filled-twice",
                "writes shared memory that the pending {} has yet to write",
            ),
        ):
            for operation in memory.pending_operations(words, writes) if counts[words].any() else ():
                w.machine.observe(kind, w, text.format(operation.what), operation)
    if memory.exited:
        w.machine.observe("exited-cta", w, "writes shared memory of a CTA that has exited")
    for stamp, site in memory.unordered_accesses(words, False, w.clocks.seen) if plain else ():
        other = w.machine.who(w, stamp)
        w.machine.observe(
            "unordered", w, f"writes shared memory that {other} read, and nothing orders the two", site
        )
    memory.written[words] = w.stamp if plain else 0
    memory.writer[words] = w.site


def _racing(w: Warp, memory: Shared, offsets: Array, size: int, values: list[Array]) -> None:
    """Report a plain store of *values* to words that a plain write has changed which nothing orders before it (8.7.1).

    Two stores of equal values are not reported, and neither is a store of less than a word: two such stores may be to
    different bytes.
    """
    count = len(values)
    memory.check(offsets, size * count)
    if size * count < 4:
        memory.narrow.add(w.site)
        return
    words = _words(offsets, size, count)
    if not memory.unordered_accesses(words, True, w.clocks.seen):
        return
    units = offsets >> size.bit_length() - 1
    views = memory.views[size]
    changed = np.any([views[units + n] != value for n, value in enumerate(values)], axis=0)
    for stamp, site in memory.unordered_accesses(words[changed], True, w.clocks.seen):
        if site not in memory.narrow:
            other = w.machine.who(w, stamp)
            text = f"writes shared memory to which {other} wrote another value, and nothing orders the two"
            w.machine.observe("unordered", w, text, site)


def before_grid(w: Warp, memory: SpaceMemory, offsets: Array, size: int) -> None:
    """Report a read of data that the previous grid wrote, before ``griddepcontrol.wait`` (9.7.13.16)."""
    if w.waited_for_grid or not isinstance(memory, Global) or memory.earlier is None:
        return
    if memory.earlier[offsets.ravel()[:, None] + np.arange(size)].any():
        w.machine.observe(
            "grid-dependency", w, "reads data of the previous grid with no preceding griddepcontrol.wait"
        )


def fetch(w: Warp, space: str, addresses: Array, size: int, count: int, plain: bool = True) -> list[Array]:
    """Load *count* integers of *size* bytes from the address of each active lane; the other lanes get 0."""
    kind = UNSIGNED[size]
    lanes = None if w.full else w.lanes
    active = addresses if lanes is None else addresses[lanes]
    results = [np.zeros(LANES, kind) for _ in range(count)]
    for memory, offsets, at in locate(w, space, active, _EVERY if lanes is None else lanes, size * count):
        if isinstance(memory, Shared):
            reading(w, memory, offsets, size, count, plain)
        else:
            before_grid(w, memory, offsets, size * count)
        targets = at if lanes is None else lanes[at]
        if count == 1:
            results[0][targets] = memory.load(offsets, size)
        else:
            if (offsets & (size * count - 1)).any():
                raise Misaligned(f"a vector of {size * count} bytes at {int(offsets[0]):#x}")
            memory.check(offsets, size * count)
            units = (offsets >> size.bit_length() - 1)[:, None] + np.arange(count)
            block = memory.views[size][units]
            for n in range(count):
                results[n][targets] = block[:, n]
    return results


def store(w: Warp, space: str, addresses: Array, size: int, values: list[Array], plain: bool = True) -> None:
    """Store a vector of integers of *size* bytes at the address of each active lane."""
    lanes = w.lanes
    count = len(values)
    w.machine.changes += 1
    for memory, offsets, at in locate(w, space, addresses[lanes], lanes, size * count):
        chosen = lanes[at]
        if isinstance(memory, Shared):
            if plain:
                _racing(w, memory, offsets, size, [value[chosen] for value in values])
            writing(w, memory, offsets, size, count, plain)
        if (offsets & (size * count - 1)).any():
            raise Misaligned(f"{size * count} bytes at {int(offsets[0]):#x}")
        memory.check(offsets, size * count)
        units = offsets >> size.bit_length() - 1
        for n, value in enumerate(values):
            memory.views[size][units + n] = value[chosen]


def _space(d: Decoder, i: Instruction, address: Operand) -> str:
    """The state space of an access; parameters of device functions are in the local memory of the thread."""
    assert i.match is not None
    space = i.match.space.partition("::entry")[0]
    if space.startswith(".param") and isinstance(address, Address) and isinstance(address.base, Symbol):
        return ".param" if address.base.name in d.entry_parameters else ".local"
    return space


def _width(i: Instruction) -> int:
    """The bytes of an element."""
    assert i.match is not None
    return int("".join(c for c in i.match.element if c.isdigit())) // 8


def _plain(i: Instruction) -> bool:
    """Whether an access is weak, so that it can race."""
    return i.order is Order.WEAK


@executes("ld", "ld.volatile", "ld.sync", "ld.mmio", "ld.nc", "ld.readonly", "ldu")
def _ld(d: Decoder, i: Instruction) -> Op:
    address = i.operands[1]
    space, size, plain = _space(d, i, address), _width(i), _plain(i)
    targets = parts(i.operands[0])
    signed = i.match is not None and i.match.element.startswith(".s")
    if space == ".param" and isinstance(address, Address) and isinstance(address.base, Symbol):
        return _parameter(d, i, address.base.name, address.base.offset + address.offset, size)
    wide = size == 16
    size, count = (8, 2) if wide else (size, len(targets))
    where = d.address(address)
    puts = [d.put(t, signed) for t in targets]
    acquires, wide_scope = not plain, i.wide

    def op(w: Warp) -> None:
        addresses = where(w)
        values = fetch(w, space, addresses, size, count, plain)
        if acquires:
            acquire(w, addresses, wide_scope)
            w.machine.polls += 1
            w.polled = int(addresses[int(w.mask.argmax())])
        if wide:
            values = [values[0].astype(object) | values[1].astype(object) << 64]
        for put, value in zip(puts, values, strict=True):
            put(w, value)

    return op


def _parameter(d: Decoder, i: Instruction, name: str, offset: int, size: int) -> Op:
    """Loads a kernel parameter as a constant, because all threads see the same value (5.1.6.1)."""
    at = d.code.symbols[name] + offset
    data = d.code.parameters.tobytes()
    sources = []
    for n in range(len(parts(i.operands[0]))):
        piece = data[at + n * size : at + (n + 1) * size]
        if len(piece) < size:
            raise Unsupported(f"a load past the end of the parameters, from {name}")
        sources.append(d.constant(int.from_bytes(piece, "little"), size))
    signed = i.match is not None and i.match.element.startswith(".s")
    puts = [d.put(t, signed) for t in parts(i.operands[0])]

    def op(w: Warp) -> None:
        for put, source in zip(puts, sources, strict=True):
            put(w, w.regs[source])

    return op


@executes("st", "st.volatile", "st.sync", "st.mmio", "st.async.release")
def _st(d: Decoder, i: Instruction) -> Op:
    """Also ``st.async`` to global memory: it may complete at once, and nothing signals its completion (9.7.9.12)."""
    space, size, plain = _space(d, i, i.operands[0]), _width(i), _plain(i)
    where = d.address(i.operands[0])
    sources = [d.fetch(o, size) for o in parts(i.operands[1])]
    wide = size == 16
    releases, wide_scope, fenced = not plain, i.wide, not i.order.releases

    def op(w: Warp) -> None:
        addresses = where(w)
        if releases:
            release(w, addresses, wide_scope, fenced)
        if wide:
            halves = _bytes(sources[0](w), 16).view(np.uint64).T
            store(w, space, addresses, 8, list(halves), plain)
        else:
            store(
                w, space, addresses, size, [f(w).astype(UNSIGNED[size], copy=False) for f in sources], plain
            )

    return op


# ---------------------------------------------------------------- release and acquire through memory


def release(w: Warp, addresses: Array, wide: bool, fenced: bool) -> None:
    """Release the clock of the warp to the addresses that it writes (8.8).

    The CTA of the warp acquires all of it. Other CTAs acquire nothing unless the access is *wide*. If the access is
    *fenced*, because it is not a release itself, and the last fence was of CTA scope, they acquire only what precedes the last wide fence.
    """
    everything = w.widely_fenced if fenced and w.narrowly_fenced else w.clocks
    for address in set(addresses[w.mask].tolist()):
        known = w.machine.released.get(address)
        if known is None or known.cluster is not w.cta.cluster:
            known = w.machine.released[address] = Released(w.cta.cluster, Clocks.new(w.cta.cluster.agents))
        if w.cta.rank in known.within:
            known.within[w.cta.rank].join(w.clocks)
        else:
            known.within[w.cta.rank] = w.clocks.copy()
        if wide:
            known.beyond.join(everything)
    w.tick()


def acquire(w: Warp, addresses: Array, wide: bool) -> None:
    """Acquire the clocks that were released to the addresses by warps of the CTA and, if the access is *wide*, of the
    cluster."""
    released = w.machine.released
    if released:
        for address in set(addresses[w.mask].tolist()):
            known = released.get(address)
            if known is None or known.cluster is not w.cta.cluster:
                continue
            if w.cta.rank in known.within:
                w.clocks.join(known.within[w.cta.rank])
            if wide:
                w.clocks.join(known.beyond)


# ---------------------------------------------------------------- atomic operations

Change = Callable[..., Array]
"""Computes the new contents of memory from the old ones and the operands: all are bytes, with one row per lane."""


def change_of(operation: str, element: str) -> Change:
    """The function of an atomic *operation* (with its dot) on the type *element* (without a dot)."""
    if operation == ".exch":
        return lambda old, new: new
    if operation == ".cas":
        return _swapped
    if operation == ".add" and element == "s64":
        element = "u64"
    return lambda old, new: reduce(operation, element, old.ravel(), new.ravel()).reshape(old.shape)


def _swapped(old: Array, expected: Array, new: Array) -> Array:
    return np.where((old == expected).all(axis=-1, keepdims=True), new, old)


def _batches(offsets: Array) -> Iterator[Array]:
    """Batches of indices of *offsets* without equal offsets in a batch: lanes at one address are serialised."""
    left = np.arange(len(offsets))
    while len(left):
        _, first = np.unique(offsets[left], return_index=True)
        yield left[first]
        left = np.delete(left, first)


def _bytes(value: Array, size: int) -> Array:
    """The low *size* bytes of a register in each lane."""
    if size == 16:
        data = b"".join((int(v) & (1 << 128) - 1).to_bytes(16, "little") for v in value.tolist())
        return np.frombuffer(data, np.uint8).reshape(LANES, 16)
    return np.ascontiguousarray(value.astype(UNSIGNED[size], copy=False)).view(np.uint8).reshape(LANES, size)


def _register(data: Array, size: int) -> Array:
    """The register that holds *size* bytes in each lane."""
    if size == 16:
        low, high = np.ascontiguousarray(data).view(np.uint64).T.astype(object)
        wide: Array = low | high << 64
        return wide
    return np.ascontiguousarray(data).view(UNSIGNED[size]).reshape(LANES)


@executes(
    "atom", "atom.cas", "atom.noftz", "atom.vector", "red", "red.noftz", "red.vector", "red.async.release"
)  # fmt: skip
def _atom(d: Decoder, i: Instruction) -> Op:
    """Lanes execute one after another; each element of a vector is a separate operation (9.7.13.5, 9.7.13.6).

    ``red.async`` may complete at once, and nothing signals its completion (9.7.13.7).
    """
    match = i.match
    assert match is not None
    operation = match.combination
    kind = types(match.modifiers)[-1]
    size, space = kind.width * kind.count // 8, match.space
    where = d.address(d.needed(i, "a"))
    sources = [[d.fetch(o, size) for o in parts(i.named(name))] for name in ("b", "c") if name in match.named]
    puts = [d.put(o) for o in parts(i.named("d"))]
    length = size * len(sources[0])
    change = change_of(operation, kind.name)
    wide_scope, fenced = i.wide, not i.order.releases
    flushed = (
        change_of(operation, "f32.ftz") if kind.name == "f32" and not match.modes.keeps_subnormals else change
    )

    def op(w: Warp) -> None:
        addresses = where(w)
        acquire(w, addresses, wide_scope)
        release(w, addresses, wide_scope, fenced)
        values = [np.concatenate([_bytes(f(w), size) for f in group], axis=1) for group in sources]
        results = np.zeros((LANES, length), np.uint8)
        lanes, changed = w.lanes, False
        for memory, offsets, at in locate(w, space, addresses[lanes], lanes, length):
            memory.check(offsets, length)
            if (offsets & (length - 1)).any():
                raise Misaligned(f"{length} bytes at {int(offsets[0]):#x}")
            if isinstance(memory, Shared):
                reading(w, memory, offsets, length, 1, False)
                writing(w, memory, offsets, length, 1, False)
            now = flushed if memory is w.machine.memory else change
            for batch in _batches(offsets):
                cells, active = offsets[batch, None] + np.arange(length), lanes[at[batch]]
                old = results[active] = memory.data[cells]
                new = now(old, *(v[active] for v in values))
                memory.data[cells] = new
                same = bool((old == new).all())
                w.machine.polls += same  # perhaps a failed attempt to take a lock
                changed |= not same
        w.polled = int(addresses[lanes[0]])
        if changed:
            w.machine.progress()
        for n, put in enumerate(puts):
            put(w, _register(results[:, n * size : (n + 1) * size], size))

    return op


# ---------------------------------------------------------------- addresses


@executes("cvta", "cvta.to")
def _cvta(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    space = next((m for m in match.modifiers if m.split("::")[0] in windows()), ".global").split("::")[0]
    window = windows()[space]
    source, put = d.fetch(i.operands[1], 8), d.put(i.operands[0])
    size = np.uint64 if match.element.endswith("64") else np.uint32
    if match.form.name == "cvta.to":
        if not window:
            return lambda w: put(w, source(w))
        mask = np.uint64(_OFFSET)
        return lambda w: put(w, (source(w).astype(np.uint64) & mask).astype(size))
    base = np.uint64(window)
    return lambda w: put(w, (source(w).astype(np.uint64) | base).astype(size))


@executes("isspacep")
def _isspacep(d: Decoder, i: Instruction) -> Op:
    assert i.match is not None
    space = i.match.modifiers[0]
    source, put = d.fetch(i.operands[1], 8), d.put(i.operands[0])
    window = windows()[space.split("::")[0]]
    constants = [
        (d.memory.address(v.name), v.size) for v in d.module.variables.values()
        if v.space == ".const" and v.name in d.memory.offsets
    ]  # fmt: skip

    def op(w: Warp) -> None:
        addresses = source(w).astype(np.int64)
        inside = (
            addresses >> WINDOW == window >> WINDOW
            if window
            else np.isin(addresses >> WINDOW, list(w.machine.memory.windows))
        )
        if not window and constants:
            constant = np.any([(a <= addresses) & (addresses < a + size) for a, size in constants], axis=0)
            inside = inside & (constant == (space == ".const"))
        elif space == ".const":
            inside = np.zeros(LANES, bool)
        if space in (".shared", ".shared::cta"):
            inside = inside & ((addresses & _OFFSET) >> RANK == w.cta.rank)
        put(w, inside)

    return op


@executes("mapa")
def _mapa(d: Decoder, i: Instruction) -> Op:
    """The address of the same variable in the shared memory of another CTA (9.7.9.24).

    A rank that the cluster does not have is not a fault until the address is used: lanes may map more ranks than exist.
    """
    source, rank, put = d.fetch(i.operands[1], 8), d.fetch(i.operands[2]), d.put(i.operands[0])

    def op(w: Warp) -> None:
        addresses = source(w)
        ranks = rank(w).astype(addresses.dtype)
        low = addresses & addresses.dtype.type(_LOW)
        if addresses.dtype.itemsize == 8 and int(addresses[w.mask][0]) >> GENERIC:
            low = low | addresses.dtype.type(SHARED)
        put(w, low | ranks << addresses.dtype.type(RANK))

    return op


@executes("getctarank")
def _getctarank(d: Decoder, i: Instruction) -> Op:
    source, put = d.fetch(i.operands[1], 8), d.put(i.operands[0])

    def op(w: Warp) -> None:
        addresses = source(w).astype(np.uint64)
        put(w, (addresses >> np.uint64(RANK) & np.uint64(0xFFFF)).astype(np.uint32))

    return op
