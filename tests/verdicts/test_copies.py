"""What is proved of cp.async: the thread accesses what it copies only after it has waited."""

from __future__ import annotations

import pytest

from tclint.findings.verdicts import Assumption, Discharge, Status
from tclint.values import addresses
from tclint.verdicts import rings
from tests.tools.copies import COMMIT, copies, copy, read, ring, wait


def masked(mask: int = 2048, depth: int = 0, start: str = "0") -> str:
    """A loop over two stages that bits of a counter without end select: it waits, copies the next one and reads this one."""
    return f"""{copy("%r4")}
{COMMIT}
mov.b32 %r10, {start};
mov.b32 %r11, 0;
top:
{wait(depth)}
bar.sync 0;
and.b32 %r13, %r10, {mask};
add.s32 %r14, %r4, %r13;
add.s32 %r10, %r10, 2048;
and.b32 %r16, %r10, {mask};
add.s32 %r17, %r4, %r16;
{copy("%r17")}
{COMMIT}
{read("%r14")}
bar.sync 0;
add.s32 %r11, %r11, 1;
setp.lt.s32 %p1, %r11, %r9;
@%p1 bra top;
{wait()}"""


def carried(wrap: int = 2, depth: int = 0, first: int = 0) -> str:
    """A loop that copies a stage, and reads the one that the previous iteration copied, whose address it kept."""
    return f"""{copy(f"%r4+{first}")}
{COMMIT}
mov.b32 %r10, 0;
mov.b32 %r12, 0;
add.s32 %r18, %r4, {first};
top:
{wait(depth)}
bar.sync 0;
add.s32 %r13, %r12, 1;
setp.ge.s32 %p2, %r13, {wrap};
selp.b32 %r12, 0, %r13, %p2;
mul.lo.s32 %r14, %r12, 2048;
add.s32 %r19, %r4, %r14;
{copy("%r19")}
{COMMIT}
{read("%r18")}
bar.sync 0;
mov.b32 %r18, %r19;
add.s32 %r10, %r10, 1;
setp.lt.s32 %p1, %r10, %r9;
@%p1 bra top;
{wait()}"""


def signed(test: str) -> str:
    """A loop that copies the stage at 0 after the one at 2048, by a *test* of a negative number with some bits masked."""
    return f"""mov.b32 %r10, 0;
mov.b32 %r12, 2048;
top:
add.s32 %r18, %r4, %r12;
{wait()}
bar.sync 0;
{copy("%r18")}
{COMMIT}
add.s32 %r13, %r12, -4096;
and.b32 %r14, %r13, -2048;
{test}
selp.b32 %r12, 0, 2048, %p2;
{read("%r4")}
bar.sync 0;
add.s32 %r10, %r10, 1;
setp.lt.s32 %p1, %r10, %r9;
@%p1 bra top;
{wait()}"""


def divided(offset: int) -> str:
    """A loop that reads *offset* bytes after the stage which a division chose in the previous iteration, and copies to it."""
    return f"""mov.b32 %r10, 0;
mov.b32 %r12, 0;
mov.b32 %r18, %r4;
top:
{read(f"%r18+{offset}")}
{wait()}
bar.sync 0;
{copy("%r18")}
{COMMIT}
add.s32 %r13, %r12, 1;
and.b32 %r12, %r13, 3;
rem.u32 %r14, %r12, 3;
mul.lo.s32 %r14, %r14, 2048;
add.s32 %r18, %r4, %r14;
add.s32 %r10, %r10, 1;
setp.lt.s32 %p1, %r10, %r9;
@%p1 bra top;
{wait()}"""


MATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r50, %r51, %r52, %r53}, [%r15];"
PROVED = {
    "waited": f"{copy('%r4')}\n{COMMIT}\n{wait()}\n{read('%r4')}",
    "waited for all": f"{copy('%r4')}\ncp.async.wait_all;\n{read('%r4')}",
    "other bytes of the thread": f"{copy('%r4')}\n{COMMIT}\n{read('%r4+2048')}\n{wait()}",
    "bytes in between": (
        f"shl.b32 %r5, %r1, 5;\nadd.s32 %r5, %r5, %r3;\n{copy('%r5')}\n{COMMIT}\n{read('%r5+16')}\n{wait()}"
    ),
    "the older group": f"{copy('%r4')}\n{COMMIT}\n{copy('%r4+2048')}\n{COMMIT}\n{wait(1)}\n{read('%r4')}",
    "pending at the exit": f"{copy('%r4')}\n{COMMIT}",
    "global memory meanwhile": f"{copy('%r4')}\n{COMMIT}\nld.global.u32 %r50, [%rd1];\n{wait()}",
    "another variable": f"{copy('%r4')}\n{COMMIT}\nld.shared.u32 %r50, [other+124];\n{wait()}",
    "a ring of four stages": ring(),
    "a ring read by the warp": ring(use=MATRIX),
    "a ring of three stages": ring(stages=3, depth=1, ahead=2, wrap=3),
    "a ring that waits for more than it must": ring(depth=1),
    "stages that bits of a counter select": masked(),
    "stages whose addresses are kept for an iteration": carried(),
    "a first stage elsewhere": carried(first=4096),
    "three stages whose addresses are kept": carried(wrap=3),
}
UNKNOWN = {
    "read by another thread": (
        f"setp.ne.u32 %p1, %r1, 0;\nsetp.ne.u32 %p2, %r1, 1;\n@%p1 bra next;\n{copy('%r3')}\n{COMMIT}\n"
        f"next:\nbar.sync 0;\n@%p2 bra done;\n{read('%r3')}\ndone:\n{wait()}"
    ),
    "bits of a counter that change too late": masked(mask=4096),
    "stages that bits of a counter select, too few waited for": masked(depth=1),
    "one stage whose address is kept": carried(wrap=1),
    "stages whose addresses are kept, too few waited for": carried(depth=1),
    "a first stage that the first iteration overwrites": carried(first=2048),
    "a first stage of three that the first iteration overwrites": carried(wrap=3, first=2048),
    "a stage that is read before the wait in the next iteration": ring(depth=3),
    "stages of a ring that threads share in part": ring(size=1024),
    "a ring whose reader skips stages": ring().replace("add.s32 %r13, %r11, 1;", "add.s32 %r13, %r11, 2;"),
    "a ring whose writer starts one stage early": ring().replace("mov.b32 %r12, 2;", "mov.b32 %r12, 1;"),
    "a ring in which every second copy is committed": ring().replace(
        f"{copy('%r18')}\n{COMMIT}",
        f"{copy('%r18')}\nand.b32 %r60, %r10, 1;\nsetp.eq.s32 %p6, %r60, 0;\n@%p6 {COMMIT}",
    ),
    "not waited": f"{copy('%r4')}\n{COMMIT}\n{read('%r4')}\n{wait()}",
    "not committed": f"{copy('%r4')}\n{wait()}\n{read('%r4')}",
    "the newer group": f"{copy('%r4')}\n{COMMIT}\n{copy('%r4+2048')}\n{COMMIT}\n{wait(1)}\n{read('%r4+2048')}",
    "overwritten": f"{copy('%r4')}\n{COMMIT}\nst.shared.u32 [%r4+12], %r9;\n{wait()}",
    "overwritten by another copy": f"{copy('%r4')}\n{copy('%r4')}\n{COMMIT}\n{wait()}",
    "another thread's bytes": (
        f"{copy('%r4')}\n{COMMIT}\nmov.u32 %r5, 2032;\nsub.s32 %r5, %r5, %r2;\nadd.s32 %r5, %r5, %r3;\n{read('%r5')}\n{wait()}"
    ),
    "a neighbour's bytes read by the warp": (
        f"{copy('%r4')}\n{COMMIT}\nadd.s32 %r15, %r4, 16;\n{MATRIX}\n{wait()}"
    ),
    "bytes past the end of another variable": f"{copy('%r4')}\n{COMMIT}\nld.shared.u32 %r50, [other+128];\n{wait()}",
    "bytes before another variable": f"{copy('other')}\n{COMMIT}\nld.shared.u32 %r50, [%r3+-16];\n{wait()}",
    "bytes at an offset that other threads may store meanwhile": (
        f"atom.shared.add.u32 %r6, [other], 16;\nld.shared.u32 %r5, [other];\nadd.s32 %r6, %r3, %r5;\n"
        f"{copy('%r6')}\n{COMMIT}\nld.shared.u32 %r50, [%r6+16];\n{wait()}"
    ),
    "an offset that a branch chooses for some threads": (
        f"mov.b32 %r6, 0;\nsetp.lt.u32 %p1, %r1, 64;\n@%p1 bra join;\nmov.b32 %r6, 1024;\njoin:\nadd.s32 %r7, %r4, %r6;\n"
        f"{copy('%r7')}\n{COMMIT}\n{read('%r7+2048')}\n{wait()}"
    ),
    "an offset that many branches choose for some threads": (
        "mov.b32 %r6, 0;\nsetp.lt.u32 %p1, %r1, 64;\n"
        + "".join(f"@%p1 bra join{n};\nadd.s32 %r6, %r6, {1 << n};\njoin{n}:\n" for n in range(24))
        + f"add.s32 %r7, %r4, %r6;\n{copy('%r7')}\n{COMMIT}\n{read('%r7+2048')}\n{wait()}"
    ),
    "an unknown address": f"{copy('%r4')}\n{COMMIT}\nadd.s32 %r5, %r3, %r9;\n{read('%r5')}\n{wait()}",
    "a generic address": f"{copy('%r4')}\n{COMMIT}\nld.u32 %r50, [%rd1];\n{wait()}",
    "a wait on one of two paths": (
        f"{copy('%r4')}\n{COMMIT}\nsetp.eq.s32 %p1, %r9, 0;\n@%p1 bra a;\n{wait()}\na:\n{read('%r4')}"
    ),
    "a stage that a division chose in the previous iteration": divided(4096),
    "a ring that waits for too little": ring(depth=3),
    "a ring whose counters return too early": ring(wrap=2),
    "a ring whose stages overlap": ring(size=8),
    "a ring whose stages overlap for other threads": ring(size=1024),
    "a ring whose stages overlap for the warp": ring(size=1024, use=MATRIX),
    "a ring that is read one stage ahead": ring(use="add.s32 %r15, %r15, 2048;\n" + read("%r15")),
    "a stage that the sign of masked bits selects": signed("setp.lt.s32 %p2, %r14, 0;"),
    "a stage that negative masked bits select": signed("setp.eq.s32 %p2, %r14, -2048;"),
    "an mbarrier, which only other threads may wait for": (
        f"{copy('%r4')}\ncp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r3+65536];\n{read('%r4')}"
    ),
}


@pytest.mark.parametrize("name", PROVED)
def test_copies_that_are_waited_for_are_proved(name: str) -> None:
    found = copies(PROVED[name])
    assert found.status is Status.PROVED, found.reasons


@pytest.mark.parametrize("name", UNKNOWN)
def test_copies_that_may_be_pending_are_unknown(name: str) -> None:
    assert copies(UNKNOWN[name]).status is Status.UNKNOWN


def test_a_ring_is_proved_by_disjoint_stages_under_assumptions() -> None:
    found = copies(PROVED["a ring of four stages"])
    assert Discharge.DISJOINT in {o.discharge for o in found.obligations}
    assert Assumption.NO_OVERFLOW in found.assumptions
    assert copies(PROVED["a ring of four stages"], frozenset()).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("name", "limit", "words"),
    [
        ("MAX_STATES", 3, "its loop has more than 3 states"),
        ("MAX_FOLLOWED", 1, "it is pending for more than 1 visits of blocks"),
    ],
)
def test_a_reason_names_the_limit_because_of_which_a_ring_was_not_followed(
    name: str, limit: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rings, name, limit)
    found = copies(PROVED["a ring of four stages"])
    assert found.status is Status.UNKNOWN
    assert words in found.reasons[0].what


BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], %r9, [%r4+4096];"


@pytest.mark.parametrize(
    ("to", "use", "words"),
    [
        ("%r41", "ld.shared.b32 %r20, [%r4];", "an address in cp.async.cg depends on memory"),
        ("%r4", BULK, "which bytes cp.async.bulk accesses is not known"),
    ],
)
def test_a_reason_says_what_is_unknown_of_the_bytes(to: str, use: str, words: str) -> None:
    loaded = "ld.global.b32 %r40, [%rd1];\nadd.s32 %r41, %r4, %r40;"
    first, *_ = copies(f"{loaded}\n{copy(to)}\n{COMMIT}\n{use}").reasons
    assert words in first.what
    assert first.at is not None
    assert "execute cp.async.wait_group before it on every path" in first.help


def test_a_wait_alone_needs_no_assumption() -> None:
    found = copies(PROVED["waited"], frozenset())
    assert found.status is Status.PROVED
    assert found.assumptions == ()


def nested(restart: str) -> str:
    """The ring within an outer loop that begins with *restart*."""
    inner = ring()
    return f"mov.b32 %r20, 0;\nouter:\n{inner.removesuffix(wait())}\n{restart}\nadd.s32 %r20, %r20, 1;\nsetp.lt.s32 %p4, %r20, 9;\n@%p4 bra outer;"  # fmt: skip


def test_a_ring_that_is_entered_again_while_copies_are_pending_is_unknown() -> None:
    assert copies(nested(wait())).status is Status.PROVED
    assert copies(nested("")).status is Status.UNKNOWN


def test_addresses_far_apart_are_not_compared_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"shl.b32 %r20, %r1, 21;\nadd.s32 %r21, %r3, %r20;\n{copy('%r21')}\n{COMMIT}\n{read('%r21+64')}\n{wait()}"
    compared = list[int]()
    monkeypatch.setattr(addresses, "Footprint", lambda low, bytes: compared.append(low))
    assert copies(body).status is Status.UNKNOWN
    assert not compared
