"""Which mbarrier an address names, what a ring is, and how many arrivals and bytes a phase gets."""

from __future__ import annotations

import pytest

from tclint.analyses.mbarriers import Mbarriers, Ring, first_waits_for
from tclint.analyses.model import KernelModel
from tclint.ir.frontend import analyse
from tclint.isa.effects import Barrier
from tclint.syntax.source import Source

KERNEL = """
.version 8.6
.target sm_90a
.address_size 64

.visible .entry k(.param .u32 n, .param .u64 in)
{size}
{{
    .reg .pred %p<8>;
    .reg .b32 %r<32>;
    .reg .b64 %rd<8>;
    .shared .align 8 .b64 full[4];
    .shared .align 8 .b64 empty[4];
    .shared .align 128 .b8 tile[16384];

    mov.u32 %r0, %tid.x;
    ld.param.u32 %r1, [n];
    ld.param.u64 %rd0, [in];
{body}
    ret;
}}
"""


def model(body: str, size: str = ".reqntid 160") -> KernelModel:
    text = KERNEL.format(size=size, body=body)
    module, problems = analyse(Source.from_bytes(text.encode(), "k.ptx"))
    assert not problems, problems
    (function,) = module.functions
    return KernelModel(function, module)


def inits(name: str, stages: int, count: int) -> str:
    lines = "\n".join(f"    mbarrier.init.shared::cta.b64 [{name}+{8 * k}], {count};" for k in range(stages))
    return (
        f"    setp.ne.u32 %p0, %r0, 0;\n    @%p0 bra MADE_{name};\n{lines}\nMADE_{name}:\n    bar.sync 0;\n"
    )


STAGES = {
    "mask": "and.b32 %r3, %r2, 3; shl.b32 %r4, %r3, 3;",
    "shifted mask": "shl.b32 %r3, %r2, 3; and.b32 %r4, %r3, 24;",
    "signed remainder by 4": "shr.s32 %r5, %r2, 31; shr.u32 %r5, %r5, 30; add.s32 %r5, %r2, %r5; "
    "and.b32 %r5, %r5, -4; sub.s32 %r3, %r2, %r5; shl.b32 %r4, %r3, 3;",
    "signed remainder by 4, scaled by 8": "shr.s32 %r5, %r2, 31; shr.u32 %r5, %r5, 30; add.s32 %r5, %r2, %r5; "
    "and.b32 %r5, %r5, 536870908; sub.s32 %r3, %r2, %r5; shl.b32 %r4, %r3, 3;",
}


def ring_of(body: str, size: str = ".reqntid 160") -> tuple[Mbarriers, Ring]:
    found = Mbarriers(model(body, size))
    (ring,) = found.rings
    return found, ring


@pytest.mark.parametrize("rounds", [1, 3, 4])
@pytest.mark.parametrize(
    "address",
    [
        "shl.b32 %r4, %r2, 3; add.s32 %r7, %r6, %r4;",
        "mov.u32 %r7, %r8; add.s32 %r8, %r8, 8;",
        "sub.s32 %r5, %r9, %r2; shl.b32 %r4, %r5, 3; add.s32 %r7, %r6, %r4;",
    ],
)
def test_mbarriers_that_a_loop_makes(address: str, rounds: int) -> None:
    """So many as it has rounds, by an index or by a pointer."""
    loop = (
        "    mov.u32 %r6, full;\n    mov.u32 %r8, full;\n    mov.u32 %r2, 0;\n    mov.u32 %r9, {last};\n"
        "    setp.ne.u32 %p0, %r0, 0;\n    @%p0 bra M;\n"
        f"L:\n    {address}\n    mbarrier.init.shared::cta.b64 [%r7], 160;\n"
        "    add.u32 %r2, %r2, 1;\n    setp.lt.u32 %p1, %r2, {rounds};\n    @%p1 bra L;\nM:\n    bar.sync 0;"
    )
    found = Mbarriers(model(loop.replace("{last}", str(rounds - 1)).replace("{rounds}", str(rounds))))
    assert sorted(offset for _, offset in found.objects) == [8 * k for k in range(rounds)]
    assert not found.unresolved


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_stages_of_a_ring(stage: str) -> None:
    found, ring = ring_of(
        inits("full", 4, 160) + f"    mov.u32 %r2, 0;\nL:\n    {stage}\n    mov.u32 %r6, full;\n"
        "    add.s32 %r7, %r6, %r4;\n    mbarrier.arrive.shared::cta.b64 _, [%r7];\n"
        "    add.u32 %r2, %r2, 1;\n    setp.lt.u32 %p1, %r2, %r1;\n    @%p1 bra L;"
    )
    assert [stage.offset for stage in ring.stages] == [0, 8, 16, 24]
    assert ring.count == 160
    assert not found.unresolved
    arrivals = found.arrivals(ring.stages[0])
    assert arrivals is not None
    assert (arrivals.least, arrivals.most) == (160, 160)


def test_remainder_by_a_reciprocal() -> None:
    """LLVM divides by 3 with a multiplication: stage = i - 3 * (i / 3)."""
    _, ring = ring_of(
        inits("full", 3, 1) + "    mov.u32 %r2, 0;\nL:\n    mul.hi.u32 %r3, %r2, -1431655765;\n"
        "    shr.u32 %r3, %r3, 1;\n    mul.lo.u32 %r4, %r3, 24;\n    shl.b32 %r5, %r2, 3;\n    sub.u32 %r5, %r5, %r4;\n"
        "    mov.u32 %r6, full;\n    add.u32 %r6, %r6, %r5;\n    mbarrier.arrive.shared::cta.b64 _, [%r6];\n"
        "    add.u32 %r2, %r2, 1;\n    setp.lt.u32 %p1, %r2, %r1;\n    @%p1 bra L;"
    )
    assert [stage.offset for stage in ring.stages] == [0, 8, 16]


UNROLLED = """
    mov.u32 %r2, 0; mov.u32 %r3, 1; mov.u32 %r6, full;
L:
    mul.wide.u32 %rd1, %r2, -1431655765; shr.u64 %rd2, %rd1, 33; cvt.u32.u64 %r4, %rd2;
    mul.lo.s32 %r4, %r4, -24; add.s32 %r7, %r6, %r4;
    mbarrier.arrive.shared::cta.b64 _, [%r7];
    mul.wide.u32 %rd1, %r3, -1431655765; shr.u64 %rd2, %rd1, 33; cvt.u32.u64 %r4, %rd2;
    mul.lo.s32 %r4, %r4, -24; add.s32 %r8, %r6, %r4; add.s32 %r8, %r8, 8;
    mbarrier.arrive.shared::cta.b64 _, [%r8];
    add.u32 %r2, %r2, 4; add.u32 %r3, %r3, 4; add.u32 %r6, %r6, 32;
    setp.lt.u32 %p1, %r2, %r1; @%p1 bra L;
"""


def test_the_copies_of_an_unrolled_loop_name_all_stages_of_a_ring() -> None:
    """nvcc unrolls by 4 a loop over 3 stages: a pointer advances by 32, and a counter of each copy is divided by 3."""
    found = Mbarriers(model(inits("full", 3, 1) + UNROLLED))
    assert [sorted(m.offset for m in found.named(site)) for site in found.arriving] == [[0, 8, 16]] * 2
    assert [found.addresses.of(site)[0].form.count for site in found.arriving] == [3, 3]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("add.u32 %r3, %r3, 4", "add.u32 %r3, %r3, 3"),  # the dividend does not advance with the pointer
        ("%r3, -1431655765", "%r3, -1431655760"),  # no reciprocal
        ("mov.u32 %r3, 1", "mov.u32 %r3, %r1"),  # the first stage of the second copy is unknown
    ],
)
def test_a_pointer_that_no_quotient_follows_is_not_bounded(text: str, other: str) -> None:
    assert text in UNROLLED
    found = Mbarriers(model(inits("full", 3, 1) + UNROLLED.replace(text, other)))
    assert [found.addresses.of(site)[0].form.count for site in found.arriving] == [3, None]


def test_the_next_stage_of_an_array_is_none_of_its_own() -> None:
    """TileLang selects two stages in each iteration; nvcc computes the remainder by 6 of 16-bit values."""
    asked = "{0}:\n    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7{1}], 0;\n    @!%p2 bra {0};\n"
    used = f"""
    mov.u32 %r2, 0;
L:
    mul.lo.u32 %r4, %r2, %r1; and.b32 %r4, %r4, 255; shl.b32 %r4, %r4, 3; mov.u32 %r6, full; add.s32 %r7, %r6, %r4;
    {asked.format("W1", "")}{asked.format("W2", "+8")}
    add.u32 %r2, %r2, 2; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L;
"""
    assert [m.offset for m in ring_of(inits("full", 4, 1) + used)[1].stages] == [0, 8, 16, 24]
    other = inits("full", 4, 1).replace("[full+8], 1;", "[full+8], 2;")
    assert next(len(r.stages) for r in Mbarriers(model(other + used)).rings) == 1


@pytest.mark.parametrize(("which", "offset"), [("xor.b32 %r4, %r4, 24;", 16), ("or.b32 %r4, %r4, 16;", 16)])
def test_a_stage_by_bits_that_are_known(which: str, offset: int) -> None:
    """nvcc folds where an array begins into the number of its stage."""
    used = f"""
    and.b32 %r4, %r1, 1; shl.b32 %r4, %r4, 3; {which} mov.u32 %r6, full; add.s32 %r7, %r6, %r4;
    mbarrier.arrive.shared::cta.b64 _, [%r7];
"""
    found = Mbarriers(model(inits("full", 4, 1) + used))
    (site,) = found.arriving
    assert sorted(m.offset for m in found.named(site)) == [offset, offset + 8]


@pytest.mark.parametrize(
    ("index", "named"),
    [
        ("and.b32 %r3, %r2, 1;", [16, 24]),
        ("add.s32 %r3, %r2, -1; and.b32 %r3, %r3, 1;", [16, 24]),
        # The signed remainder by 2 of i - 1, with a mask of the bits that the shift keeps, and by 3.
        ("add.s32 %r5, %r2, -1; shr.u32 %r3, %r5, 31; add.s32 %r3, %r5, %r3; and.b32 %r3, %r3, 536870910; sub.s32 %r3, %r5, %r3;", [16, 24]),
        ("add.s32 %r5, %r2, -1; mul.hi.s32 %r3, %r5, 1431655766; shr.u32 %r8, %r3, 31; add.s32 %r3, %r3, %r8; mul.lo.s32 %r3, %r3, 3; sub.s32 %r3, %r5, %r3;", [16, 24]),
        # A remainder by a number that the launch has.
        ("add.s32 %r5, %r2, -1; div.s32 %r3, %r5, %r1; mul.lo.s32 %r3, %r3, %r1; sub.s32 %r3, %r5, %r3;", []),
        # The number before that of a counter that goes back to 0.
        ("setp.eq.u32 %p4, %r9, %r1; selp.b32 %r9, 0, %r9, %p4; add.u32 %r3, %r9, -1; add.u32 %r9, %r9, 1;", []),
    ],
)  # fmt: skip
def test_the_previous_stage_is_not_in_the_array_before(index: str, named: list[int]) -> None:
    """Two arrays of two, full and empty, follow each other: the constant of &empty[i - 1] is that of full[1]."""
    used = f"""
    mov.u32 %r6, full; mov.u32 %r2, 1; mov.u32 %r9, 0;
L:
    and.b32 %r4, %r2, 1; shl.b32 %r4, %r4, 3; add.u32 %r7, %r6, %r4;
W:  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
    @!%p2 bra W;
    {index}
    shl.b32 %r4, %r3, 3; add.u32 %r7, %r6, %r4; add.u32 %r7, %r7, 16;
    mbarrier.arrive.shared::cta.b64 _, [%r7];
    add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L;
"""
    found = Mbarriers(model(inits("full", 4, 1) + used))
    (site,) = found.arriving
    assert sorted(m.offset for m in found.named(site)) == named
    assert found.unresolved == ([] if named else [site])


@pytest.mark.parametrize(
    ("count", "make", "second"),
    [
        (4, "mbarrier.init.shared::cta.b64 [%r7], 1;", 16),
        (2, "mbarrier.init.shared::cta.b64 [%r7], 1; mbarrier.init.shared::cta.b64 [%r7+16], 1;", 16),
        (4, "mbarrier.init.shared::cta.b64 [%r7], 1; mbarrier.init.shared::cta.b64 [%r7+32], 1;", 32),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_adjacent_arrays_that_threads_initialise_together(
    count: int, make: str, second: int, own: bool
) -> None:
    """A ring whose number of stages is unknown ends where the next array begins, as its inits or uses show."""
    one = f"and.b32 %r9, %r0, 8; add.u32 %r7, %r6, %r9; mbarrier.arrive.shared::cta.b64 _, [%r7+{second}];"
    if not own:
        one = one.replace("%r0, 8", "%r2, 8")
    body = f"""
    mov.u32 %r6, full; shl.b32 %r4, %r0, 3; add.u32 %r7, %r6, %r4; mov.u32 %r2, 0;
    setp.ge.u32 %p0, %r0, {count};
    @%p0 bra M;
    {make}
M:  bar.sync 0; mov.u32 %r3, 0;
L:  shl.b32 %r4, %r3, 3; add.u32 %r7, %r6, %r4;
W:  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
    @!%p2 bra W;
    {one}
    add.u32 %r3, %r3, 1; setp.eq.u32 %p3, %r3, %r1; selp.b32 %r3, 0, %r3, %p3;
    add.u32 %r2, %r2, 8; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L;
"""
    found = Mbarriers(model(body))
    (wait,), (arrive,) = found.model.awaits(Barrier.MBARRIER), found.arriving
    assert sorted(m.offset for m in found.named(wait)) == list(range(0, second, 8))
    assert sorted(m.offset for m in found.named(arrive)) == [second, second + 8]


def test_a_spare_mbarrier_after_a_ring_of_three_is_not_a_stage() -> None:
    """What is left of a division by three names three, whatever else is like them."""
    used = """
    rem.u32 %r2, %r1, 3; mov.u32 %r6, full; mad.lo.u32 %r7, %r2, 8, %r6;
    mbarrier.arrive.shared::cta.b64 _, [%r7];
"""
    found = Mbarriers(model(inits("full", 4, 1) + used))
    (site,) = found.arriving
    assert sorted(m.offset for m in found.named(site)) == [0, 8, 16]


@pytest.mark.parametrize("odd", [0, 8, 16])
def test_one_stage_of_another_count(odd: int) -> None:
    """Nothing would wait for it were it not part of the ring; not so a separate barrier beside it."""
    made = inits("full", 4, 1).replace(f"[full+{odd}], 1;", f"[full+{odd}], 2;")
    used = """
    mov.u32 %r2, 0; mov.u32 %r3, 0;
    mbarrier.arrive.shared::cta.b64 _, [full];
    mbarrier.arrive.shared::cta.b64 _, [full+8];
    mbarrier.arrive.shared::cta.b64 _, [full+16];
L:
    mov.u32 %r6, full; shl.b32 %r4, %r3, 3; add.s32 %r7, %r6, %r4;
W:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
    @!%p2 bra W;
    add.u32 %r3, %r3, 1; rem.u32 %r3, %r3, %r1;
    add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L;
"""
    rings = Mbarriers(model(made + used)).rings
    assert [m.offset for m in next(r for r in rings if len(r.stages) > 1).stages][:3] == [0, 8, 16]
    own = "W2:\n    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full+16], 0;\n    @!%p2 bra W2;\n"
    beside = inits("full", 3, 1).replace("[full+16], 1;", "[full+16], 2;")
    assert [[m.offset for m in r.stages] for r in Mbarriers(model(beside + used + own)).rings] == [
        [0, 8],
        [16],
    ]


def test_each_warp_has_its_own() -> None:
    body = inits("full", 4, 32) + (
        "    shr.u32 %r2, %r0, 5;\n    shl.b32 %r2, %r2, 3;\n    mov.u32 %r3, full;\n    add.u32 %r3, %r3, %r2;\n"
        "    mbarrier.arrive.shared::cta.b64 _, [%r3];"
    )
    found = Mbarriers(model(body, ".reqntid 128"))
    (site,) = found.arriving
    assert {m.offset: threads for m, threads in found.named(site).items()} == {
        8 * warp: 0xFFFFFFFF << 32 * warp for warp in range(4)
    }
    for ring in found.rings:
        for object_ in ring.stages:
            arrivals = found.arrivals(object_)
            assert arrivals is not None
            assert (arrivals.least, arrivals.most) == (32, 32)


def test_an_address_from_memory_is_unresolved() -> None:
    body = (
        inits("full", 1, 1) + "    ld.shared.u32 %r2, [tile];\n    mbarrier.arrive.shared::cta.b64 _, [%r2];"
    )
    found = Mbarriers(model(body))
    assert found.unresolved == found.arriving
    arrivals = found.arrivals(found.rings[0].stages[0])
    assert arrivals is not None
    assert arrivals.most is None


@pytest.mark.parametrize(("mapped", "beyond"), [("full", 0), ("full+8", -8), ("full+-32", 32)])
def test_another_cta_may_arrive(mapped: str, beyond: int) -> None:
    """At the mbarrier itself, or so many bytes after what has been mapped."""
    body = inits("full", 1, 2) + (
        f"    mov.u32 %r2, {mapped};\n    mapa.shared::cluster.u32 %r3, %r2, 1;\n"
        f"    mbarrier.arrive.shared::cluster.b64 _, [%r3+{beyond}];"
    )
    found, ring = ring_of(body)
    assert found.rings_at(found.arriving[0]) == {ring}
    assert found.arrivals(ring.stages[0]) is None


WAIT = "W{n}:\n    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], {parity};\n    @!%p2 bra W{n};\n"


@pytest.mark.parametrize(
    ("body", "least", "most"),
    [
        ("    @!%p0 mbarrier.arrive.shared::cta.b64 _, [full];\n", 1, 1),
        ("    @!%p0 mbarrier.arrive.shared::cta.b64 _, [full], 3;\n", 3, 3),
        ("    mbarrier.arrive.shared::cta.b64 _, [full];\n", 160, 160),
        ("    mbarrier.arrive.shared::cta.b64 _, [full];\n" * 2, 320, 320),
        # A wait between them: two phases, or two arrivals of one.
        ("    mbarrier.arrive.shared::cta.b64 _, [full];\n" + WAIT.format(n=9, parity=0)
         + "    mbarrier.arrive.shared::cta.b64 _, [full];\n", 160, 320),
    ],
)  # fmt: skip
def test_arrivals_of_a_phase(body: str, least: int, most: int) -> None:
    found, ring = ring_of(inits("full", 1, 1) + body + WAIT.format(n=0, parity=0))
    arrivals = found.arrivals(ring.stages[0])
    assert arrivals is not None
    assert (arrivals.least, arrivals.most) == (least, most)


def test_expectations_and_deliveries_of_bytes_are_matched() -> None:
    copy = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd0], 512, [full]"
    body = inits("full", 1, 1) + (
        "    @%p0 bra W0;\n    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 512;\n"
        f"    {copy};\n" + WAIT.format(n=0, parity=0)
    )
    found, ring = ring_of(body)
    deliveries = found.deliveries(ring.stages[0])
    assert deliveries is not None
    (delivery,) = deliveries
    assert delivery.threads == 1
    assert len(delivery.expects) == len(delivery.copies) == 1


WAITS = """
    mov.u32 %r7, {begin};
again:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], {parity};
    @!%p1 bra again;
    xor.b32 %r7, %r7, 1;
    setp.lt.u32 %p2, %r7, %r1;
    @%p2 bra again;
"""


@pytest.mark.parametrize(("begin", "parity"), [(0, "0"), (0, "1"), (1, "%r7"), (0, "%r7"), (1, "3")])
def test_a_first_wait_is_for_the_parity_that_it_begins_with(begin: int, parity: str) -> None:
    made = model(WAITS.format(begin=begin, parity=parity))
    (wait,) = made.awaits(Barrier.MBARRIER)
    first = begin if parity == "%r7" else int(parity) & 1
    assert first_waits_for(made, wait, first)
    assert not first_waits_for(made, wait, 1 - first)


def test_no_path_is_searched_for_a_parity_that_a_wait_never_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model(WAITS.format(begin=0, parity="0"))
    (wait,) = made.awaits(Barrier.MBARRIER)
    monkeypatch.setattr(made, "at_first", None)
    assert not first_waits_for(made, wait, 1)
