"""What is proved of cp.async while ``wgmma`` and ``tcgen05`` read other bytes through descriptors."""

from __future__ import annotations

import random

import pytest

from tclint.executor.descriptors import Generation, Major, Matrix, intervals
from tclint.findings.verdicts import Assumption, Discharge, Status, Verdict
from tclint.values.addresses import MemoryRange
from tclint.verdicts.matrices import Matrices
from tests.tools.copies import COMMIT, copies, copy, ring, wait
from tests.tools.matrices import ATOMS_32, LINES_32, LINES_64, LINES_128, NO_SWIZZLE, descriptor, wgmma
from tests.tools.support import HEADER, HOPPER, analysed, kernel, module


def pending(address: str, use: str, header: str = HOPPER) -> Verdict:
    """What is proved if a copy to *address* is pending during *use*."""
    body = f"add.s32 %r5, {address};\n{copy('%r5')}\n{COMMIT}\n{use}\n{wait()}"
    return copies(body, header=header)


FRAGMENT = "{%r50, %r51, %r52, %r53}"


@pytest.mark.parametrize(
    ("address", "use"),
    [
        ("%r4, 16384", wgmma()),
        ("%r4, 16384", wgmma(a=32, b=8288)),
        ("%r4, 4096", wgmma(bits=LINES_64)),
        ("%r4, 2048", wgmma(bits=LINES_32)),
        ("%r4, 17920", wgmma(bits=NO_SWIZZLE)),
        ("%r4, 10240", wgmma(transposed=1)),
        ("%r4, 0", wgmma(left=FRAGMENT)),
    ],
)
def test_bytes_that_no_matrix_of_wgmma_spans_may_be_pending(address: str, use: str) -> None:
    found = pending(address, use)
    assert found.status is Status.PROVED, found.reasons
    assert Discharge.DISJOINT in {o.discharge for o in found.obligations}


@pytest.mark.parametrize(
    ("address", "use"),
    [
        ("%r4, 0", wgmma()),
        ("%r4, 4096", wgmma()),
        ("%r4, 6160", wgmma()),
        ("%r4, 8192", wgmma()),
        ("%r4, 16368", wgmma()),
        ("%r4, 16384", wgmma(b=8304)),
        ("%r4, 4080", wgmma(bits=LINES_64)),
        ("%r4, 2032", wgmma(bits=LINES_32)),
        ("%r4, 17360", wgmma(bits=NO_SWIZZLE)),
        ("%r4, 10224", wgmma(transposed=1)),
        ("%r4, 10240", wgmma(b=8224, transposed=1)),
        ("%r4, 8192", wgmma(left=FRAGMENT)),
        ("%r4, 65536", wgmma(sparse=True)),
        ("%r4, 65536", wgmma(bits=ATOMS_32)),
        ("%r4, 65536", wgmma(b="%r9")),
    ],
)
def test_bytes_that_a_matrix_of_wgmma_may_span_are_unknown(address: str, use: str) -> None:
    assert pending(address, use).status is Status.UNKNOWN


def test_a_swizzled_matrix_is_known_only_if_its_variable_is_aligned() -> None:
    body = f"add.s32 %r5, %r4, 16384;\n{copy('%r5')}\n{COMMIT}\n{wgmma()}\n{wait()}"
    assert Assumption.ALIGNED in copies(body).assumptions
    assert copies(body, frozenset(Assumption) - {Assumption.ALIGNED}).status is Status.UNKNOWN
    plain = body.replace(wgmma(), wgmma(bits=NO_SWIZZLE)).replace("16384", "17920")
    assert Assumption.ALIGNED not in copies(plain).assumptions


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({}, Status.PROVED),
        ({"depth": 3}, Status.UNKNOWN),
        ({"size": 1024}, Status.UNKNOWN),
        ({"wrap": 2}, Status.UNKNOWN),
    ],
)
def test_a_ring_that_wgmma_reads_is_proved_by_its_stages(options: dict[str, int], status: Status) -> None:
    use = f"add.s32 %r63, %r3, %r14;\n{wgmma(a='%r63', b='%r63', bits=LINES_32)}"
    assert copies(ring(use=use, **options)).status is status


MMA = f"""mov.u32 %r6, 136314896;
{descriptor("%rd5", "%r3", LINES_128)}
add.s32 %r61, %r3, 16384;
{descriptor("%rd6", "%r61", LINES_128)}
tcgen05.mma.cta_group::1.kind::f16 [%r7], %rd5, %rd6, %r6, %p1;"""
ARRIVE = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3+65536];"


@pytest.mark.parametrize(
    ("address", "use", "status"),
    [
        ("%r4, 32768", MMA, Status.PROVED),
        ("%r4, 32752", MMA, Status.UNKNOWN),
        ("%r4, 0", MMA, Status.UNKNOWN),
        ("%r4, 32768", MMA.replace("::1", "::2"), Status.UNKNOWN),
        ("%r4, 65544", ARRIVE, Status.PROVED),
        ("%r4, 65536", ARRIVE, Status.UNKNOWN),
        ("%r4, 63504", ARRIVE, Status.UNKNOWN),
    ],
)
def test_what_tcgen05_accesses_in_shared_memory_is_compared_with_a_copy(
    address: str, use: str, status: Status
) -> None:
    assert pending(address, use, HEADER).status is status


def test_what_tcgen05_reads_on_a_target_without_documented_rows_is_unknown() -> None:
    newer = HEADER.replace("8.6", "9.4").replace("sm_100a", "sm_107a")
    assert pending("%r4, 32768", MMA, HEADER).status is Status.PROVED
    assert pending("%r4, 32768", MMA, newer).status is Status.UNKNOWN
    assert pending("%r4, 65544", ARRIVE, newer).status is Status.PROVED


def chosen(first: str, second: str, rest: str = "0") -> str:
    """A load from one of two addresses, by a path that memory decides."""
    return f"""ld.global.b32 %r40, [%rd1];
mov.b32 %r41, {first};
setp.eq.s32 %p1, %r40, 0;
@%p1 bra join;
mov.b32 %r41, {second};
join:
add.s32 %r42, %r41, {rest};
ld.shared.b32 %r43, [%r42];"""


@pytest.mark.parametrize(
    ("use", "status"),
    [
        (chosen("other", "%r3"), Status.PROVED),
        (chosen("other", "%r3", "16"), Status.PROVED),
        (chosen("other", "%r5"), Status.UNKNOWN),
        (chosen("%r5", "other"), Status.UNKNOWN),
        (chosen("other", "%r3", "8192"), Status.UNKNOWN),
        (chosen("other", "%r40"), Status.UNKNOWN),
        (chosen("other", "%r3", "%r40"), Status.UNKNOWN),
    ],
)
def test_an_address_that_is_one_of_several_is_compared_as_each_of_them(use: str, status: Status) -> None:
    assert pending("%r4, 8192", use).status is status


def test_a_descriptor_whose_rows_are_guessed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Matrices, "_of_wgmma", lambda *arguments: (8, 32, False, 2))
    assert pending("%r4, 4096", wgmma()).status is Status.PROVED


KINDS = {".kind::f16": (16, 16), ".kind::tf32": (32, 8), ".kind::f8f6f4": (8, 32)}
"""The bits of an element, and the elements of a row along K."""
A_AND_B = {"wgmma": (64, 64), "tcgen05": (128, 64)}


def random_descriptor(rng: random.Random, generation: Generation) -> int:
    modes, constant = ((0, 2, 4, 6), 0) if generation == "wgmma" else ((0, 1, 2, 4, 6), 1)
    start = rng.choice((rng.randrange(256), rng.randrange(32) * 8))
    leading, stride = rng.choice((1, 8, 64, 128)), rng.choice((8, 16, 32, 64, 130))
    return start | leading << 16 | stride << 32 | constant << 46 | rng.choice(modes) << 61


def operation(generation: Generation, kind: str, major: Major, a: int, b: int) -> str:
    """A kernel with one operation on two constant descriptors, both matrices of which are K-major or not."""
    transposed = int(major == "MN")
    setup = f"mov.b64 %rd5, {a:#x};\nmov.b64 %rd6, {b:#x};"
    if generation == "wgmma":
        accumulators = ", ".join(f"%f{n}" for n in range(32))
        use = f"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{accumulators}}}, %rd5, %rd6, 1, 1, 1, {transposed}, {transposed};"
        return module("", kernel(f"{setup}\n{use}\nret;"), header=HOPPER)
    idesc = 1 << 4 | transposed << 15 | transposed << 16 | 64 // 8 << 17 | 128 // 16 << 24
    use = f"mov.u32 %r6, {idesc};\ntcgen05.mma.cta_group::1{kind} [%r7], %rd5, %rd6, %r6, %p1;"
    return module("", kernel(f"{setup}\n{use}\nret;"), header=HEADER)


def spans(text: str) -> list[MemoryRange] | None:
    """The ranges that a proof takes the one operation of a kernel to read; None if they are unknown."""
    model = analysed(text)
    (site,) = model.begins()
    read = Matrices(model).read(site)
    return None if read is None else [(model.values.constant_of(a) or 0, size) for a, size in read[0]]


@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize(
    ("generation", "kind"), [("wgmma", ".kind::f16"), *(("tcgen05", kind) for kind in KINDS)]
)
def test_the_executor_reads_no_byte_outside_the_range_of_a_matrix(
    generation: Generation, kind: str, major: Major
) -> None:
    rng = random.Random(f"{generation} {kind} {major}")
    bits, columns = KINDS[kind]
    compared = 0
    for _ in range(120):
        given = random_descriptor(rng, generation), random_descriptor(rng, generation)
        found = spans(operation(generation, kind, major, *given))
        for fields, rows, (start, size) in zip(given, A_AND_B[generation], found or (), strict=False):
            occupied = intervals(fields, Matrix(rows, columns, bits, major, generation))
            assert start <= occupied[0][0], (hex(fields), rows)
            assert occupied[-1][1] <= start + size, (hex(fields), rows)
            compared += 1
    assert compared > 20
