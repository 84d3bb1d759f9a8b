"""The states of loads and stores of tensor memory in flight, and whether what a load filled is read later."""

from __future__ import annotations

import pytest

from tclint.analyses.model import KernelModel
from tclint.analyses.tcgen05_liveness import LoadLiveness
from tclint.analyses.tmem_transfers import TmemTransfers, TransferStatus
from tclint.isa.effects import TCGEN05_LD, Barrier
from tests.tools.support import model

ISSUED, COPIED, USED = TransferStatus
LOAD = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0, %r1}, [%r9];"
OTHER = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r9+8];"
STORE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9+16], {%r10};"
SIGNAL = "mbarrier.arrive.shared.b64 _, [%r20];"


def statuses(m: KernelModel, at: int) -> list[tuple[int, TransferStatus]]:
    """The loads and stores in flight before an instruction, each with its statuses."""
    transfers, results = m.solution(TmemTransfers)
    state = results.before(at)
    return sorted(
        (site, status)
        for status in TransferStatus
        for site in transfers.members(transfers.having(state, status))
    )


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("", [(0, ISSUED), (1, ISSUED), (2, ISSUED)]),
        ("tcgen05.wait::ld.sync.aligned;", [(2, ISSUED)]),
        ("tcgen05.wait::st.sync.aligned;", [(0, ISSUED), (1, ISSUED)]),
        ("mov.b32 %r3, %r0;", [(0, COPIED), (1, ISSUED), (2, ISSUED)]),
        ("mov.b32 %r3, %r0; mov.b32 %r4, %r1;", [(0, COPIED), (1, ISSUED), (2, ISSUED)]),
        ("mov.b32 %r3, %r0; add.u32 %r4, %r3, 1;", [(0, USED), (1, ISSUED), (2, ISSUED)]),
        ("add.u32 %r4, %r0, 1; mov.b32 %r5, %r0;", [(0, USED), (1, ISSUED), (2, ISSUED)]),
        ("add.u32 %r4, %r0, %r2;", [(0, USED), (1, USED), (2, ISSUED)]),
        ("add.u32 %r4, %r0, 1; add.u32 %r5, %r4, 1;", [(0, USED), (1, ISSUED), (2, ISSUED)]),
        ("st.shared.b32 [%r21], %r1;", [(1, ISSUED), (2, ISSUED)]),
        ("add.u32 %r4, %r0, 1; st.shared.b32 [%r21], %r4;", [(1, ISSUED), (2, ISSUED)]),
        ("@%p0 st.shared.b32 [%r21], %r1;", [(0, ISSUED), (1, ISSUED), (2, ISSUED)]),
        ("setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.b32 [%r21], %r10;", [(1, ISSUED), (2, ISSUED)]),
        ("@%p0 add.u32 %r4, %r0, 1;", [(0, ISSUED), (0, USED), (1, ISSUED), (2, ISSUED)]),
        ("add.u32 %r4, %r0, 1; bra next; next:", [(1, ISSUED), (2, ISSUED)]),
        ("mov.b32 %r3, %r0; bra next; next:", [(0, COPIED), (1, ISSUED), (2, ISSUED)]),
        ("mov.b32 %r3, %r2; tcgen05.wait::ld.sync.aligned; " + OTHER, [(2, ISSUED), (5, ISSUED)]),
    ],
)
def test_what_ends_a_load_or_store_and_what_is_done_with_its_registers(
    body: str, left: list[tuple[int, TransferStatus]]
) -> None:
    m = model(f"{LOAD} {OTHER} {STORE} {body} {SIGNAL} ret;")
    (signal,) = m.arrives(Barrier.MBARRIER)
    assert statuses(m, signal) == left


def test_a_load_that_is_issued_again_has_only_its_new_status() -> None:
    m = model(f"again: {LOAD} mov.b32 %r3, %r0; @%p0 bra again; {SIGNAL} ret;")
    assert statuses(m, 1) == [(0, ISSUED)]
    assert statuses(m, 0) == [(0, COPIED)]


def test_an_edge_that_no_thread_of_a_load_takes_ends_it() -> None:
    m = model(f"setp.eq.u32 %p0, %tid.x, 0; @!%p0 bra next; {LOAD} next: @%p0 bra end; {SIGNAL} end: ret;")
    (load,), (signal,) = m.begins(TCGEN05_LD), m.arrives(Barrier.MBARRIER)
    assert statuses(m, signal) == []
    assert statuses(m, signal - 1) == [(load, ISSUED)]


def test_the_instructions_that_change_a_state_are_found_by_their_registers() -> None:
    body = (
        f"mov.b32 %r10, 1; {LOAD} {OTHER} add.u32 %r11, %r10, 1; mov.b32 %r3, %r0; add.u32 %r4, %r3, 1;"
        "add.u32 %r5, %r4, 1; setp.eq.u32 %p1, %r5, 0; @%p1 add.u32 %r12, %r10, 1; st.shared.b32 [%r21], %r10;"
        f"@%p1 st.shared.b32 [%r21], %r10; st.shared.b32 [%r21], %r5; {STORE} {SIGNAL} bar.sync 0; ret;"
    )
    m = model(body)
    transfers = m.fact(TmemTransfers)
    affecting = {i for i, ins in enumerate(m.function.instructions) if transfers.affecting(ins)}
    assert set(transfers.affecting_sites()) == affecting
    assert 3 not in affecting  # neither reads a loaded register
    assert {4, 5, 10, 11} <= affecting


@pytest.mark.parametrize(
    ("after", "filled", "computed"),
    [
        ("ret;", False, False),
        ("st.shared.b32 [%r21], %r0; ret;", True, True),
        ("bra next; next: st.shared.b32 [%r21], %r1; ret;", True, True),
        ("@%p0 bra next; mov.b32 %r0, 0; mov.b32 %r1, 0; next: add.u32 %r5, %r0, %r1; ret;", True, True),
        ("mov.b32 %r0, 0; mov.b32 %r1, 0; add.u32 %r5, %r0, %r1; ret;", False, False),
        ("@%p0 mov.b32 %r0, 0; add.u32 %r5, %r0, 1; ret;", True, True),
        ("mov.b32 %r0, 0; add.u32 %r5, %r0, 1; bra next; next: st.shared.b32 [%r21], %r1; ret;", True, True),
        ("st.shared.b32 [%r21], %r4; ret;", False, True),
        ("mov.b32 %r4, 0; st.shared.b32 [%r21], %r4; ret;", False, False),
        ("back: mov.b32 %r1, 0; add.u32 %r6, %r1, %r4; @%p0 bra back; ret;", False, True),
        ("back: add.u32 %r6, %r10, 1; @%p0 bra back; st.shared.b32 [%r21], %r0; ret;", True, True),
    ],
)
def test_whether_what_a_load_filled_is_read_later(after: str, filled: bool, computed: bool) -> None:
    m = model(f"{LOAD} add.u32 %r4, %r0, 1; {SIGNAL} {after}")
    liveness, (signal,) = m.fact(LoadLiveness), m.arrives(Barrier.MBARRIER)
    assert liveness.read_after(0, signal, computed=False) is filled
    assert liveness.read_after(0, signal, computed=True) is computed


def test_what_another_load_filled_is_not_read_for_this_one() -> None:
    m = model(f"{LOAD} {OTHER} {SIGNAL} st.shared.b32 [%r21], %r2; ret;")
    (signal,) = m.arrives(Barrier.MBARRIER)
    assert [m.fact(LoadLiveness).read_after(load, signal, computed=True) for load in (0, 1)] == [False, True]
