"""Which mbarrier an address names, in each spelling, and when two addresses name different ones."""

from __future__ import annotations

import pytest

from tclint.analyses.attained import AttainedValues
from tclint.analyses.cluster_memory import remote_accesses
from tclint.analyses.mbarrier_addresses import MbarrierAddresses, MbarrierLocation, home, may_leave, same
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.tcgen05_sync import waits_for_commits
from tclint.findings.scales import Severity
from tclint.isa.effects import Barrier, Resource
from tests.tools.support import by_rule, kernel, lint, model, module, value

START = """
    .shared .align 8 .b64 full[4];
    .shared .align 8 .b64 empty[4];
    .shared .align 1024 .b8 tile[4096];
    mov.u32 %r0, %tid.x;
    ld.param.u32 %r9, [number];
    mov.u32 %r1, full;
    mov.u32 %r2, empty;
    mov.u32 %r7, tile;
    mov.u32 %r5, %cluster_ctarank;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [full+8], 1;
"""
ARRIVE = "mbarrier.arrive.shared::cluster.b64 _, [%r6];"
MAPPED = {
    "mask": "and.b32 %r6, %r1, 0xFEFFFFFF;",
    "negative mask": "and.b32 %r6, %r1, -16777217;",
    "mask with alignment": "and.b32 %r6, %r1, 0xFEFFFFF8;",
    "negative mask with alignment": "and.b32 %r6, %r1, -16777224;",
    "two masks": "and.b32 %r6, %r1, -8; and.b32 %r6, %r6, -16777217;",
    "offset before the mask": "add.u32 %r6, %r1, 24; sub.u32 %r6, %r6, 24; and.b32 %r6, %r6, -16777224;",
    "offset after the mask": "sub.u32 %r6, %r1, 8; and.b32 %r6, %r6, -16777224; add.u32 %r6, %r6, 8;",
    "mapa": "mapa.shared::cluster.u32 %r6, %r1, 0;",
    "mapa of another rank": "xor.b32 %r8, %r5, 1; mapa.shared::cluster.u32 %r6, %r1, %r8;",
    "mapa, then mask": "mapa.shared::cluster.u32 %r6, %r1, 3; and.b32 %r6, %r6, -16777224;",
    "selected": "setp.ne.u32 %p1, %r9, 0; mapa.shared::cluster.u32 %r8, %r1, 0; selp.b32 %r6, %r8, %r1, %p1;",
}
OWN = {
    "symbol": "mov.u32 %r6, full;",
    "mapa of the own rank": "mapa.shared::cluster.u32 %r6, %r1, %r5;",
    "generic": "cvta.shared.u64 %rd1, %rd2; cvta.to.shared.u64 %rd1, %rd1; cvt.u32.u64 %r6, %rd1;",
}
UNRESOLVED = {
    "loaded": "ld.shared.u32 %r6, [tile];",
    "loaded, then masked": "ld.shared.u32 %r6, [tile]; and.b32 %r6, %r6, -16777224;",
}


def kernel_of(*lines: str) -> KernelModel:
    body = "\n".join(lines).replace("; ", ";\n")
    return model(f"{START}\ncvt.u64.u32 %rd2, %r1;\n{body}\nend: ret;")


def arrival(made: KernelModel) -> int:
    (site,) = made.arrives(Barrier.MBARRIER)
    return site


def place(made: KernelModel, variable: str, offset: int = 0) -> MbarrierLocation:
    return MbarrierLocation(value(made, {"full": "%r1", "empty": "%r2"}[variable]), offset)


@pytest.mark.parametrize("spelling", MAPPED.values(), ids=MAPPED)
def test_mapped_address_names_the_mbarrier_and_may_leave_the_cta(spelling: str) -> None:
    made = kernel_of(spelling, ARRIVE)
    assert made.fact(MbarrierAddresses).locations(arrival(made)) == {place(made, "full")}
    assert may_leave(made.values, value(made, "%r6"))
    assert any(a.remote for a in made.fact(MbarrierAddresses).of(arrival(made)))
    assert made.fact(Mbarriers).unresolved == []


@pytest.mark.parametrize("spelling", OWN.values(), ids=OWN)
def test_address_of_the_own_cta_does_not_leave_it(spelling: str) -> None:
    made = kernel_of(spelling, ARRIVE)
    assert made.fact(MbarrierAddresses).locations(arrival(made)) == {place(made, "full")}
    assert not may_leave(made.values, value(made, "%r6"))


@pytest.mark.parametrize("spelling", UNRESOLVED.values(), ids=UNRESOLVED)
def test_address_without_a_variable_is_unresolved(spelling: str) -> None:
    made = kernel_of(spelling, ARRIVE)
    addresses = made.fact(MbarrierAddresses)
    assert addresses.locations(arrival(made)) is None
    assert addresses.same(arrival(made), made.sites(Resource.MBARRIER_INIT)[0]) is None


@pytest.mark.parametrize(
    "mask",
    ["0x00FFFFFF", "0xFCFFFFFF", "0xFEFFF7FF", "0xFEFEFFFF", "0xFFFFFFF8", "7"],
)
def test_mask_of_other_bits_is_not_that_of_a_pair(mask: str) -> None:
    made = kernel_of("add.u32 %r6, %r1, %r9;", f"and.b32 %r6, %r6, {mask};")
    own = home(made.values, value(made, "%r6"))
    assert own == (value(made, "%r6"), False)


def test_mask_of_an_index_that_was_scaled_before_is_recognised() -> None:
    """A factor that all terms have in common is taken out of the mask."""
    made = kernel_of("shl.b32 %r6, %r9, 3;", "mov.u32 %r8, %r6;", "and.b32 %r6, %r6, -16777224;")
    assert home(made.values, value(made, "%r6")) == (value(made, "%r8"), True)


@pytest.mark.parametrize(
    ("address", "mask", "kept"),
    [
        ("add.u32 %r6, %r9, 7;", 0xFEFFFFF8, 0xFFFFFFF8),
        ("add.u32 %r6, %r9, 8;", 0xFEFFFFF8, 0xFFFFFFFF),
        ("add.u32 %r6, %r9, 1023;", 0xFEFFFC00, 0xFFFFFC00),
        ("add.u32 %r6, %r9, 1024;", 0xFEFFFC00, 0xFFFFFC07),
        ("add.u32 %r6, %r7, 1024;", 0xFEFFFC00, 0xFFFFFFFF),
        ("add.u32 %r6, %r7, 16;", 0xFEFFFC10, 0xFFFFFFFF),
        ("add.u32 %r6, %r7, 40;", 0xFEFFFC10, 0xFFFFFFD7),
    ],
)
def test_mask_that_also_rounds_the_address_keeps_the_rounding(address: str, mask: int, kept: int) -> None:
    """The low three bits of an mbarrier address are 0, unless 7 is added to round up; other bits need a proof."""
    made = kernel_of(address, "mov.u32 %r8, %r6;", f"and.b32 %r6, %r6, {mask};")
    expected = made.values.masked(value(made, "%r8"), kept, 32)
    assert home(made.values, value(made, "%r6")) == (expected, True)


COMPARED = {
    "own": ("mov.u32 %r6, full;", True),
    "pair": ("and.b32 %r6, %r1, -16777224;", True),
    "next": ("add.u32 %r6, %r1, 8;", False),
    "next of the pair": ("add.u32 %r6, %r1, 8; and.b32 %r6, %r6, -16777224;", False),
    "another variable": ("mov.u32 %r6, empty;", False),
    "another variable of a CTA": ("mapa.shared::cluster.u32 %r6, %r2, 0;", False),
    "overlap": ("add.u32 %r6, %r1, 4;", None),
    "one of two": ("setp.ne.u32 %p1, %r9, 0; selp.b32 %r6, %r1, %r2, %p1;", None),
    "any stage": ("and.b32 %r8, %r9, 3; shl.b32 %r8, %r8, 3; add.u32 %r6, %r1, %r8;", None),
    "any of the others": ("and.b32 %r8, %r9, 1; shl.b32 %r8, %r8, 3; add.u32 %r6, %r1, 16; add.u32 %r6, %r6, %r8;", False),
    "unbounded": ("shl.b32 %r8, %r9, 3; add.u32 %r6, %r1, %r8;", None),
    "loaded": ("ld.shared.u32 %r6, [tile];", None),
    "of a caller": ("mov.u32 %r6, %r9;", None),
}  # fmt: skip


@pytest.mark.parametrize(("spelling", "expected"), COMPARED.values(), ids=COMPARED)
def test_comparison_of_two_instructions_is_three_valued(spelling: str, expected: bool | None) -> None:
    made = kernel_of(spelling, ARRIVE)
    init = made.sites(Resource.MBARRIER_INIT)[0]
    addresses = made.fact(MbarrierAddresses)
    assert addresses.same(arrival(made), init) is expected
    assert addresses.same(init, arrival(made)) is expected


def test_comparison_of_two_places_is_three_valued() -> None:
    made = kernel_of()
    full, empty, opaque = place(made, "full"), place(made, "empty"), MbarrierLocation(value(made, "%r9"), 0)
    assert same(made, full, full) is True
    assert same(made, full, full._replace(offset=8)) is False
    assert same(made, full, full._replace(offset=7)) is None
    assert same(made, full, empty) is False
    assert same(made, full, opaque) is None


def test_unbounded_index_never_reaches_what_is_always_a_stage_apart() -> None:
    made = kernel_of("shl.b32 %r8, %r9, 3;", "add.u32 %r6, %r1, %r8;", ARRIVE, "add.u32 %r6, %r6, 8;", ARRIVE)
    one, two = made.arrives(Barrier.MBARRIER)
    assert made.fact(MbarrierAddresses).same(one, two) is False


LOOP = """
    mov.u32 %r10, 0;
loop:
    {stage}
    mbarrier.arrive.shared::cta.b64 _, [%r6];
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p1, %r10, {count};
    @%p1 bra loop;
"""
COUNTED = "shl.b32 %r8, %r10, 3;\nadd.u32 %r6, %r1, %r8;"
LAUNCHED = "and.b32 %r8, %r9, 3;\nshl.b32 %r8, %r8, 3;\nadd.u32 %r6, %r1, %r8;"
CHOSEN = "setp.ne.u32 %p2, %r9, 0;\nselp.b32 %r6, %r1, %r2, %p2;"


@pytest.mark.parametrize(
    ("stage", "certain"),
    [(COUNTED, True), (LAUNCHED, False)],
    ids=["counted", "of the launch"],
)
def test_only_a_counter_names_each_stage_for_certain(stage: str, certain: bool) -> None:
    made = kernel_of(LOOP.format(stage=stage, count=4))
    every = {place(made, "full", 8 * k) for k in range(4)}
    addresses = made.fact(MbarrierAddresses)
    assert addresses.locations(arrival(made)) == every
    assert addresses.each(arrival(made)) == (every if certain else frozenset())


def test_alternatives_are_all_named_and_none_for_certain() -> None:
    made = kernel_of(CHOSEN, ARRIVE)
    addresses = made.fact(MbarrierAddresses)
    assert addresses.locations(arrival(made)) == {place(made, "full"), place(made, "empty")}
    assert addresses.each(arrival(made)) == frozenset()


def test_first_iteration_names_the_first_stage() -> None:
    made = kernel_of(LOOP.format(stage=COUNTED, count="%r9"))
    addresses = made.fact(MbarrierAddresses)
    assert addresses.locations(arrival(made)) is None
    assert addresses.at_first(arrival(made)) == place(made, "full")


def test_stage_that_a_cycle_with_two_entries_carries_is_not_certain() -> None:
    """Each phi of the cycle is an argument of the other one."""
    text = f"""
    setp.eq.u32 %p1, %r9, 1;
    setp.eq.u32 %p2, %r9, 2;
    mov.u32 %r3, 0;
    @%p1 bra middle;
top:
    @%p2 bra middle;
    mov.u32 %r3, 1;
middle:
    shl.b32 %r4, %r3, 3;
    add.u32 %r6, %r1, %r4;
    {ARRIVE}
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p3, %r9, 100;
    @%p3 bra top;
    """
    made = kernel_of(text)
    assert made.fact(MbarrierAddresses).each(arrival(made)) == frozenset()


def test_each_value_that_joins_lead_to_is_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of six branches may exchange two stages, so 64 paths lead to the last join."""
    exchange = """
    @%p1 bra kept_{n};
    mov.u32 %r8, %r3; mov.u32 %r3, %r4; mov.u32 %r4, %r8;
kept_{n}:
    add.u32 %r9, %r9, 1;
    setp.eq.u32 %p1, %r9, {n};
    """
    joins = "".join(exchange.format(n=n) for n in range(6))
    made = kernel_of(
        "mov.u32 %r10, 0; top: setp.eq.u32 %p1, %r9, 77; and.b32 %r3, %r10, 3;"
        "add.u32 %r11, %r10, 1; and.b32 %r4, %r11, 3;"
        f"{joins} shl.b32 %r4, %r3, 3; add.u32 %r6, %r1, %r4; {ARRIVE}"
        "add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, %r5; @%p2 bra top;"
    )
    asked: list[int] = []
    reaches = AttainedValues._reaches

    def noted(values: AttainedValues, stage: int, bounds: tuple[int, int]) -> bool:
        asked.append(stage)
        return reaches(values, stage, bounds)

    monkeypatch.setattr(AttainedValues, "_reaches", noted)
    assert made.fact(MbarrierAddresses).each(arrival(made)) == {place(made, "full", 8 * k) for k in range(4)}
    assert len(asked) == len({*asked}) > 6


@pytest.mark.parametrize("spelling", [s for name, s in MAPPED.items() if name != "selected"])
def test_uninitialised_mbarrier_is_reported_in_each_spelling(spelling: str) -> None:
    """The stage after those that are initialised."""
    text = module(kernel(f"{START}\nadd.u32 %r1, %r1, 16;\n{spelling}\n{ARRIVE}\nret;".replace("; ", ";\n")))
    (finding,) = (f for f in by_rule(lint(text), "MB009") if f.severity is Severity.ERROR)
    assert "[full+16]" in finding.message
    assert "never initialised" in finding.message


@pytest.mark.parametrize("spelling", [s for name, s in MAPPED.items() if name != "selected"])
def test_initialised_mbarrier_is_not_reported_in_any_spelling(spelling: str) -> None:
    text = module(kernel(f"{START}\n{spelling}\n{ARRIVE}\nret;".replace("; ", ";\n")))
    assert not [f for f in by_rule(lint(text), "MB009") if f.severity is Severity.ERROR]


def test_commit_to_the_pair_signals_a_wait_for_the_own_mbarrier() -> None:
    made = kernel_of(
        "and.b32 %r6, %r1, -16777224;",
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%r6];",
        "mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0;",
    )
    assert [r.kind for r in remote_accesses(made)] == ["arrival"]
    assert waits_for_commits(made) == frozenset(made.awaits(Barrier.MBARRIER))
