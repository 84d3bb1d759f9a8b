"""mbarrier objects (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tclint.executor.code import Op
from tclint.executor.decode import Decoder, executes, pair, parts
from tclint.executor.instructions.memory import shared_of
from tclint.executor.memory import RANK, Array, Fault, Misaligned
from tclint.executor.signals import AGAIN
from tclint.executor.state import LANES, AsyncOperation, Warp
from tclint.executor.sync import Clocks, ExecutorMbarrier
from tclint.ir.nodes import SINK, Immediate, Instruction
from tclint.sync.mbarriers import MAX_COUNT

__all__ = ["arrive_on", "complete", "mbarrier_at"]


def _key(w: Warp, address: int) -> int:
    """The address of an mbarrier in the shared window of the cluster."""
    shared, offset = shared_of(w, address)
    return shared.rank << RANK | offset


def mbarrier_at(w: Warp, address: int) -> ExecutorMbarrier:
    """The mbarrier object at an address. Raises :class:`Fault` if none is initialised there."""
    key = _key(w, address)
    cta = w.cta.cluster.ctas[key >> RANK]
    if cta.shared.exited:
        w.machine.observe("exited-cta", w, "uses an mbarrier of a CTA that has exited")
    found = cta.mbarriers.get(key)
    if found is None:
        text = f"no mbarrier is initialised at {key & (1 << RANK) - 1:#x} in CTA {key >> RANK} of the cluster"
        w.machine.observe("mbarrier-absent", w, text, cta.invalidated.get(key, -1))
        raise Fault(text)
    epoch, agent = found.made >> 10, found.made & 1023
    barrier = w.cta.cluster.barrier
    if epoch > w.clocks.seen[agent] and (found.offered is None or barrier.phase <= found.offered):
        text = f"uses an mbarrier that {w.machine.who(w, found.made)} initialised, and nothing orders the two"
        w.machine.observe("mbarrier-unordered", w, text, found)
    found.users.add(w.site)
    return found


def arrive_on(w: Warp, mbarrier: ExecutorMbarrier, count: int, drop: bool = False) -> None:
    """Perform *count* arrivals, which may complete the phase; *drop* also lowers the count of later phases."""
    if count > mbarrier.pending:
        w.machine.observe(
            "mbarrier-overrun", w,
            f"{count} arrivals at an mbarrier with {mbarrier.pending} pending in its phase", mbarrier,
        )  # fmt: skip
        count = mbarrier.pending
    mbarrier.arrive(count, drop)
    w.machine.advance_phase(mbarrier)


def expect(w: Warp, mbarrier: ExecutorMbarrier, size: int) -> None:
    """Perform expect_tx: raise the tx-count by *size* bytes."""
    mbarrier.expect_tx(size)
    mbarrier.expects = w.site
    if abs(mbarrier.bytes) > MAX_COUNT:
        w.machine.observe("mbarrier-overrun", w, f"a tx-count of {mbarrier.bytes} is out of range", mbarrier)


def complete(w: Warp, mbarrier: ExecutorMbarrier, size: int | None) -> None:
    """Perform complete_tx for *size* bytes (None: an unknown number), which may complete the phase."""
    mbarrier.complete_tx(size)
    w.machine.advance_phase(mbarrier)


def _address(d: Decoder, i: Instruction) -> Callable[[Warp], Array]:
    assert i.match is not None
    return d.address(d.needed(i, i.match.form.mbarrier))


@executes("mbarrier.init")
def _init(d: Decoder, i: Instruction) -> Op:
    assert i.match is not None
    where, count, site, layout = _address(d, i), d.fetch(i.operands[1]), d.site, i.match.layout

    def op(w: Warp) -> None:
        addresses, counts = where(w), count(w)
        for lane in w.lanes.tolist():
            key, number = _key(w, int(addresses[lane])), int(counts[lane])
            if key & 7:
                raise Misaligned(f"an mbarrier at {key:#x}")
            if not 0 < number <= MAX_COUNT:
                w.machine.observe("mbarrier-count", w, f"initialises an mbarrier with a count of {number}")
            mbarriers = w.cta.cluster.ctas[key >> RANK].mbarriers
            if key in mbarriers:
                w.machine.observe("mbarrier-init", w, "re-initialises a live mbarrier", mbarriers[key])
            clocks = Clocks.new(w.cta.cluster.agents)
            mbarriers[key] = ExecutorMbarrier(number, key, clocks, site=site, made=w.stamp, layout=layout)

    return op


@executes("mbarrier.check_layout")
def _check_layout(d: Decoder, i: Instruction) -> Op:
    assert i.match is not None
    where, put, layout = d.address(i.operands[1]), d.put(i.operands[0]), i.match.layout

    def op(w: Warp) -> None:
        results = np.zeros(LANES, bool)
        addresses = where(w)
        for lane in w.lanes.tolist():
            results[lane] = mbarrier_at(w, int(addresses[lane])).layout == layout
        put(w, results)

    return op


@executes("mbarrier.inval")
def _inval(d: Decoder, i: Instruction) -> Op:
    where = _address(d, i)

    def op(w: Warp) -> None:
        for address in set(where(w)[w.mask].tolist()):
            mbarrier = mbarrier_at(w, address)
            busy = [f for f in w.machine.operations if f.mbarrier is mbarrier]
            if busy:
                w.machine.observe(
                    "mbarrier-inval",
                    w,
                    f"invalidates an mbarrier on which a pending {busy[0].what} completes",
                    busy[0],
                )
            cta = w.cta.cluster.ctas[mbarrier.address >> RANK]
            cta.invalidated[mbarrier.address] = cta.mbarriers.pop(mbarrier.address)

    return op


@executes("mbarrier.expect_tx", "mbarrier.complete_tx")
def _tx(d: Decoder, i: Instruction) -> Op:
    where, size = _address(d, i), d.fetch(d.needed(i, "txCount"))
    adds = i.effects.expects

    def op(w: Warp) -> None:
        addresses, sizes = where(w), size(w)
        for lane in w.lanes.tolist():
            mbarrier = mbarrier_at(w, int(addresses[lane]))
            if adds:
                expect(w, mbarrier, int(sizes[lane]))
            else:
                complete(w, mbarrier, int(sizes[lane]))

    return op


@executes(
    "mbarrier.arrive", "mbarrier.arrive.remote", "mbarrier.arrive.noComplete", "mbarrier.arrive.expect_tx",
    "mbarrier.arrive.expect_tx.remote",
)  # fmt: skip
def _arrive(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    where = _address(d, i)
    counted, expected = i.named("count"), i.named("txCount")
    count = d.fetch(counted if counted is not None else Immediate(1))
    size = d.fetch(expected) if expected is not None else None
    state = i.operands[0]
    put = d.put(state) if state is not SINK and match.writes else None
    drop, releases, incomplete = match.drops, match.order.releases, not match.may_complete

    def op(w: Warp) -> None:
        addresses, counts = where(w), count(w)
        sizes = size(w) if size is not None else None
        tokens = np.zeros(LANES, np.uint64)
        for address in dict.fromkeys(addresses[w.mask].tolist()):
            mbarrier = mbarrier_at(w, address)
            lanes = w.mask & (addresses == address)
            if releases:
                mbarrier.clocks.join(w.clocks)
            else:
                own = shared_of(w, address)[0] is w.cta.shared
                mbarrier.clocks.join(w.released if own else w.widely_fenced)
            tokens[lanes] = mbarrier.phase << 20 | mbarrier.pending
            if sizes is not None:
                expect(w, mbarrier, int(sizes[lanes].sum()))
            before = mbarrier.phase
            arrive_on(w, mbarrier, int(counts[lanes].sum()), drop)
            if incomplete and mbarrier.phase != before:
                w.machine.observe(
                    "mbarrier-overrun", w, "completes the phase, which .noComplete forbids", mbarrier
                )
        if releases:
            w.tick()
        if put is not None:
            put(w, tokens)

    return op


@executes("mbarrier.wait", "mbarrier.wait.parity")
def _wait(d: Decoder, i: Instruction) -> Op:
    """``mbarrier.test_wait`` and ``try_wait``.

    While the phase is not complete, a wait may return false at any time (9.7.13.15.16). Unless the schedule is eager,
    the first wait for a phase does so at once. A second one blocks until the phase is complete, or until no other
    thread can make progress.
    """
    match = i.match
    assert match is not None
    where = _address(d, i)
    parity = match.form.name == "mbarrier.wait.parity"
    phase = d.fetch(d.needed(i, "phaseParity" if parity else "state"), 4 if parity else 8)
    result, *reported = *pair(i.operands[0]), *parts(i.named("reportValue"))
    put, silent = d.put(result), [d.put(o) for o in reported if o is not SINK]
    acquires = match.order.acquires

    def op(w: Warp) -> int | None:
        addresses, values = where(w), phase(w)
        lanes = w.lanes
        first = int(addresses[lanes[0]])
        same = bool((addresses[lanes] == first).all() and (values[lanes] == values[lanes[0]]).all())
        results = np.zeros(LANES, bool)
        late: ExecutorMbarrier | None = None
        for lane in lanes[:1].tolist() if same else lanes.tolist():
            mbarrier = mbarrier_at(w, int(addresses[lane]))
            value = int(values[lane])
            done = mbarrier.complete(value) if parity else mbarrier.passed(value >> 20)
            results[lane] = done
            if not done:
                late = mbarrier
            elif mbarrier.released is not None:
                (w.clocks if acquires else w.observed).join(mbarrier.released)
        if same:
            results[:] = results[lanes[0]]
        if late is not None and not results.any() and not w.split.timeout:
            asked = (late.address, late.phase)
            if w.machine.schedule.kind == "eager" or w.split.asked == asked:
                w.machine.park(w.split, late)
                return AGAIN
            w.split.asked = asked
        w.split.timeout = False
        put(w, results)
        for report in silent:  # what is executed here reports nothing
            report(w, np.zeros(LANES, bool))
        return None

    return op


@executes("mbarrier.pending_count")
def _pending(d: Decoder, i: Instruction) -> Op:
    put, state = d.put(i.operands[0]), d.fetch(i.operands[1], 8)
    return lambda w: put(w, (state(w) & np.uint64(MAX_COUNT)).astype(np.uint32))


@executes("cp.async.mbarrier.arrive")
def _cp_async_arrive(d: Decoder, i: Instruction) -> Op:
    """Arrives when all ``cp.async`` that the thread has issued so far are complete (9.7.9.25.3.3)."""
    where, site = _address(d, i), d.site
    assert i.match is not None
    keeps = not i.match.raises_pending

    def op(w: Warp) -> None:
        addresses = where(w)
        operations = [operation for groups in w.groups_of(i.group) for group in groups for operation in group]
        for address in sorted(set(addresses[w.mask].tolist())):
            mbarrier = mbarrier_at(w, address)
            count = int(np.count_nonzero(w.mask & (addresses == address)))
            if not keeps:
                mbarrier.expect_arrivals(count)
            clocks = w.clocks.copy()
            stamped = w.stamp

            def finish(
                mbarrier: ExecutorMbarrier = mbarrier, count: int = count, clocks: Clocks = clocks
            ) -> None:
                mbarrier.clocks.join(clocks)
                arrive_on(w, mbarrier, count)

            w.machine.issue(
                AsyncOperation(
                    site, w, "cp.async.mbarrier.arrive", finish=finish, mbarrier=mbarrier,
                    before=[f for f in operations if not f.done], stamp=stamped,
                )
            )  # fmt: skip
        for operation in operations:
            if not operation.note.get("signalled"):
                operation.written, operation.note["signalled"] = w.stamp, True
        w.tick()

    return op
