"""Which observations confirm which finding: what the pages say, and how an observation is matched with a finding."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any, get_args

import pytest

from tclint.driver.confirm import confirm
from tclint.driver.evidence import CAUSED_BY, Basis, Claim, Where, demonstrations
from tclint.executor.assume import ParameterUses
from tclint.executor.observations import KINDS, DeadlockedWait, Observation
from tclint.executor.run import Execution, prepared
from tclint.findings.finding import Confirmation, Finding
from tclint.findings.rules import all_rules, claims
from tclint.isa.effects import ENGINES
from tclint.isa.table import table
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.support import HOPPER, built, kernel, module

WAITS = ("arrivals", "bytes", "barrier", "lanes", "registers", "memory", "other")
FAULTS = ("misaligned", "bounds", "address", "tensor-memory", "barrier", "cluster", "stopped")
FUNCTION = prepared(
    built(
        module(
            kernel(
                """
    ld.shared.u32 %r0, [%r1];
    ld.shared.u32 %r0, [%r1];
    st.shared.u32 [%r1], %r0;
    ld.shared.u32 %r0, [%r1];
    ld.shared.u32 %r0, [%r1];
    st.shared.u32 [%r1], %r0;
    ld.shared.u32 %r0, [%r1];
    ld.shared.u32 %r0, [%r1];
    ld.shared.u32 %r0, [%r1];
    ld.shared.u32 %r0, [%r1];
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0], 256, [%r2];
    cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], 256;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%r3];
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r0};
    tcgen05.mma.cta_group::1.kind::f16 [%r3], %rd0, %rd1, %r4, %p0;
    cp.async.ca.shared.global [%r1], [%rd0], 16;
    ret;"""
            )
        )
    ),
    "k",
)
LOAD, STORE, TMEM_LD, TMEM_ST, MMA, FILL = range(10, 16)
"""A bulk copy into shared memory and one out of it, operations on tensor memory, and a ``cp.async``; the instructions
before are plain."""
GIVEN = Basis("k.launch.toml")
FIXED = Basis("assumed", frozenset())


def execution(*observations: Observation, **changes: Any) -> Execution:
    return Execution(FUNCTION, "done", observations=list(observations), **changes)


def observed(kind: str, site: int = 1, other: int = -1, **changes: Any) -> Observation:
    return Observation(kind, site, "seen", "warp 0", other, **changes)


def claim(rule: str, site: int = 1, *others: int) -> Claim:
    sites = frozenset((site, *others))
    return Claim(rule, site, sites, sites)


def confirms(of: Claim, *observations: Observation, basis: Basis = GIVEN, **changes: Any) -> bool:
    """Whether one execution is enough."""
    return any(not causes for _, causes in demonstrations(of, execution(*observations, **changes), basis))


# ---------------------------------------------------------------- what the pages name


@pytest.mark.parametrize("rule", all_rules())
def test_a_rule_that_nothing_confirms_is_never_confirmed(rule: str) -> None:
    """Whatever is observed at all instructions of the finding; another rule is confirmed by it."""
    of = claim(rule, 1, 2, LOAD, STORE, TMEM_LD, TMEM_ST, MMA)
    everything = [
        observed(kind, a, b, users=frozenset((1, 2))) for kind in KINDS for a, b in permutations(of.sites, 2)
    ]
    waits = tuple(DeadlockedWait(1, "warp 0", "", kind, frozenset((1, 2))) for kind in WAITS)
    found = [
        *demonstrations(of, execution(*everything, waits=waits), GIVEN),
        *(o for wait in waits for o in demonstrations(of, execution(waits=(wait,)), GIVEN)),
        *(o for kind in FAULTS for o in demonstrations(of, execution(fault=kind, site=1), GIVEN)),
    ]
    assert bool(found) == bool(all_rules()[rule].confirmed_by)


OBSERVATIONS = {
    *KINDS,
    *(f"deadlock-{kind}" for kind in WAITS),
    *(f"fault-{kind}" for kind in FAULTS),
    *(f"unordered-{order}" for order in ("operand", "refill", "result", "source")),
    *(f"tensor-memory-{group}" for group in ("ld", "st")),
}
REPORTED = {
    *OBSERVATIONS,
    "filled-twice-across-warps",
    "register-in-flight-read",
    "tensor-memory-across-warps",
}


def test_the_pages_name_observations_that_exist() -> None:
    for rule in all_rules().values():
        assert rule.confirmed_by.keys() <= set(get_args(Where)), rule.id
        assert {kind for kinds in rule.confirmed_by.values() for kind in kinds} <= OBSERVATIONS, rule.id
    assert frozenset().union(*CAUSED_BY.values()) <= OBSERVATIONS
    for claimed in claims():
        kind, which, where = claimed.partition(" of ") if " of " in claimed else claimed.partition(" at ")
        assert kind in REPORTED, claimed
        assert where in (
            ENGINES.keys() if which == " of " else ENGINES.keys() | table().forms.keys() | {""}
        ), claimed


@pytest.mark.parametrize("rule", ["AV003", "BK009", "CV009", "MB010", "MB012", "TC007", "WG005", "WG010"])
def test_a_note_or_a_claim_that_no_observation_shows_confirms_nothing(rule: str) -> None:
    assert not all_rules()[rule].confirmed_by


# ---------------------------------------------------------------- what an observation is about


def test_a_pair_needs_both_of_its_instructions() -> None:
    of = claim("SM001", 1, 5)
    assert confirms(of, observed("unordered", 1, 5))
    assert confirms(of, observed("unordered", 5, 1))
    assert not confirms(of, observed("unordered", 1, 7))
    assert not confirms(of, observed("unordered", 7, 5))


@pytest.mark.parametrize(
    ("rule", "earlier", "later", "expected"),
    [
        ("BK001", LOAD, 1, True),
        ("BK001", 1, LOAD, False),  # the copy that comes too early, and not the wait that is missing
        ("BK011", 1, LOAD, True),
        ("BK011", LOAD, 1, False),
        ("BK003", STORE, 2, True),
        ("BK003", 2, STORE, False),  # the store that the copy does not wait for
        ("PR005", 2, STORE, True),
        ("PR005", STORE, 2, False),
        ("PR005", FILL, STORE, True),
        ("CA005", FILL, 1, True),
        ("CA005", 1, FILL, False),
        ("SM001", 1, 2, True),
        ("SM001", 2, 1, True),
    ],
)
def test_unordered_accesses_confirm_a_rule_about_their_order(
    rule: str, earlier: int, later: int, expected: bool
) -> None:
    assert confirms(claim(rule, later, earlier), observed("unordered", later, earlier)) is expected


@pytest.mark.parametrize(
    ("rule", "pending", "later"),
    [("TC001", MMA, TMEM_LD), ("TC003", TMEM_LD, MMA), ("TC004", TMEM_ST, MMA)],
)
def test_tensor_memory_in_use_confirms_a_rule_about_the_pending_operation(
    rule: str, pending: int, later: int
) -> None:
    assert confirms(claim(rule, later, pending), observed("tensor-memory", later, pending))
    assert not confirms(claim(rule, pending, later), observed("tensor-memory", pending, later))


def test_one_instruction_executed_twice_is_not_the_pair_of_two() -> None:
    assert confirms(claim("SM001", 1), observed("unordered", 1, 1))
    assert not confirms(claim("SM001", 1, 5), observed("unordered", 1, 1))


def test_an_observation_of_another_kind_at_the_same_pair_confirms_nothing() -> None:
    assert not confirms(claim("WG001", 1, 5), observed("unordered", 1, 5), observed("proxy", 1, 5))
    assert not confirms(claim("TC007", 1, 5), observed("unordered", 1, 5))


def test_a_pending_operation_is_that_of_the_finding() -> None:
    assert confirms(claim("WG007", 1), observed("left-in-flight", 9, 1))
    assert not confirms(claim("WG007", 1), observed("left-in-flight", 1, 9))


def test_an_overrun_is_that_of_the_mbarrier_of_the_finding() -> None:
    assert confirms(claim("MB006", 3), observed("mbarrier-overrun", 9, 4, users=frozenset((3, 9))))
    assert confirms(claim("MB006", 4), observed("mbarrier-overrun", 9, 4, users=frozenset((3, 9))))
    assert not confirms(claim("MB006", 5), observed("mbarrier-overrun", 9, 4, users=frozenset((3, 9))))


def test_an_mbarrier_that_the_same_instructions_use_is_not_that_of_the_finding() -> None:
    of = replace(claim("MB008", 3, 1), initialisations=frozenset((1,)))
    assert confirms(of, observed("mbarrier-overrun", 3, 1, users=frozenset((1, 3))))
    assert not confirms(of, observed("mbarrier-overrun", 3, 2, users=frozenset((2, 3))))
    stopped = replace(claim("MB016", 8, 1), initialisations=frozenset((1,)))
    assert confirms(stopped, waits=(wait(8, "arrivals", 1, 8),))
    assert not confirms(stopped, waits=(wait(8, "arrivals", 2, 8),))


def test_an_mbarrier_that_the_finding_uses_later_is_that_of_an_observation_at_its_instructions() -> None:
    seen = observed("mbarrier-overrun", 4, 2, users=frozenset((2, 4)), later=frozenset((3,)))
    assert confirms(claim("MB008", 3, 4), seen)
    assert not confirms(claim("MB008", 3, 5), seen)


def test_too_many_arrivals_do_not_show_that_a_wait_lacks_some() -> None:
    seen = observed("mbarrier-overrun", 9, 4, users=frozenset((3, 4, 9)))
    assert confirms(claim("MB006", 3), seen)
    assert not confirms(replace(claim("MB006", 3), waits=True), seen)


def wait(site: int, kind: str, *users: int) -> DeadlockedWait:
    return DeadlockedWait(site, "warp 0", "", kind, frozenset(users))


def test_a_deadlock_confirms_a_finding_about_the_only_mbarrier_in_it() -> None:
    full, empty = wait(8, "arrivals", 1, 2, 8), wait(9, "arrivals", 3, 4, 9)
    assert confirms(claim("MB006", 1), waits=(full,))
    assert not confirms(claim("MB006", 1), waits=(full, empty))
    assert not confirms(claim("MB006", 1), waits=(wait(8, "bytes", 1, 2, 8),))


def test_a_deadlock_confirms_a_finding_about_one_of_its_waits() -> None:
    full, empty = wait(8, "arrivals", 1, 2, 8), wait(9, "arrivals", 3, 4, 9)
    assert confirms(claim("MB016", 8), waits=(full, empty))
    assert confirms(claim("MB016", 1, 8), waits=(full, empty))  # an arrival is skipped, and 8 waits for it
    assert not confirms(claim("MB016", 1, 7), waits=(full, empty))
    assert not confirms(replace(claim("MB016", 1, 8), waits=True), waits=(full, empty))


@pytest.mark.parametrize(("rule", "kind"), [("CV005", "lanes"), ("CV012", "registers"), ("CV014", "barrier")])
def test_a_deadlock_at_a_step_confirms_nothing_else(rule: str, kind: str) -> None:
    assert confirms(claim(rule, 8, 1), waits=(wait(8, kind),))
    assert not confirms(claim(rule, 1, 8), waits=(wait(8, kind),))


def test_threads_that_an_mbarrier_stops_are_not_missing_at_a_barrier() -> None:
    assert confirms(claim("CV001", 8), waits=(wait(8, "barrier"),))
    assert not confirms(claim("CV001", 8), waits=(wait(8, "barrier"), wait(9, "arrivals", 9)))


# ---------------------------------------------------------------- what an assumed launch may cause


def test_a_fault_confirms_a_finding_unless_its_address_depends_on_an_assumption() -> None:
    stride = Basis("assumed", frozenset(), guessed_anywhere=lambda site: site == 1)
    assert confirms(claim("CA004", 1), fault="misaligned", site=1)
    assert confirms(claim("CA004", 1), fault="misaligned", site=1, basis=FIXED)
    assert not confirms(claim("CA004", 1), fault="misaligned", site=1, basis=stride)
    assert not confirms(claim("CA004", 1), fault="stopped", site=1)


@pytest.mark.parametrize(("rule", "kind"), [("CV010", "barrier"), ("TC017", "tensor-memory")])
def test_a_fault_that_a_number_may_cause_counts_only_with_another_one(rule: str, kind: str) -> None:
    basis = Basis("assumed", frozenset(("integers",)))
    assert confirms(claim(rule, 1), fault=kind, site=1, basis=FIXED)
    assert not confirms(claim(rule, 1), fault=kind, site=1, basis=basis)


def test_bytes_that_never_arrive_are_the_cause_if_their_copies_have_been_issued() -> None:
    """The producer then waits for the threads that wait for the bytes."""
    full, empty = wait(8, "bytes", 1, 8), wait(9, "arrivals", 9)
    of = claim("MB004", 1, LOAD)
    assert confirms(of, waits=(full, empty), reached=frozenset((1, LOAD)))
    assert not confirms(of, waits=(full, empty), reached=frozenset((1,)))
    assert not confirms(claim("MB006", 1), waits=(wait(8, "arrivals", 1, 8), empty), reached=frozenset((1,)))


@pytest.mark.parametrize(
    ("assumes", "crosses", "expected"),
    [
        ((), True, True),
        (("threads",), False, True),
        (("threads",), True, False),
        (("cluster",), True, False),
        (("integers",), True, True),
    ],
)
def test_two_warps_conflict_only_if_their_number_is_known(
    assumes: tuple[str, ...], crosses: bool, expected: bool
) -> None:
    seen = observed("unordered", 1, 5, crosses=crosses)
    assert confirms(claim("SM001", 1, 5), seen, basis=Basis("assumed", frozenset(assumes))) is expected


def test_addresses_that_are_computed_from_an_assumption_confirm_nothing() -> None:
    basis = Basis("assumed", frozenset(), lambda site: site == 5)
    assert not confirms(claim("SM001", 1, 5), observed("unordered", 1, 5), basis=basis)
    assert confirms(claim("SM001", 1, 6), observed("unordered", 1, 6), basis=basis)


def test_a_deadlock_that_integers_may_cause_counts_only_with_another_one() -> None:
    basis = Basis("assumed", frozenset(("integers",)))
    ended = execution(waits=(wait(8, "arrivals", 1, 8),))
    assert [causes for _, causes in demonstrations(claim("MB006", 1), ended, basis)] == [{"integers"}]
    assert [causes for _, causes in demonstrations(claim("MB006", 1), ended, FIXED)] == [set()]


def test_a_deadlock_or_a_leak_on_a_path_that_memory_decides_confirms_nothing() -> None:
    stopped = wait(8, "arrivals", 1, 8)
    assert confirms(claim("MB006", 1), waits=(stopped,), basis=FIXED)
    assert not confirms(claim("MB006", 1), waits=(stopped,), basis=replace(FIXED, branches_on_memory=True))
    early = observed("read-too-early", 1, 5)
    assert confirms(claim("BK001", 1, 5), early, basis=replace(FIXED, branches_on_memory=True))
    leak = observed("tensor-memory-leak", 9, 1)
    assert confirms(claim("TM001", 1), leak, basis=FIXED)
    assert not confirms(claim("TM001", 1), leak, basis=replace(FIXED, branches_on_memory=True))


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("add.u32 %r2, %r1, 1;\n    st.global.u32 [%rd0], %r2;", False),
        ("setp.eq.u32 %p0, %r1, 0;\n    @%p0 bra END;", True),
        ("setp.eq.u32 %p0, %r1, 0;\n    @%p0 mbarrier.arrive.shared.b64 _, [%r3];", True),
        ("setp.eq.u32 %p0, %r1, 0;\n    @%p0 add.u32 %r2, %r1, 1;", False),
        ("st.shared.u32 [%r3], %r1;\n    ld.shared.u32 %r2, [%r4];\n    setp.eq.u32 %p0, %r2, 0;\n    @%p0 bra END;", True),
        ("ld.shared.u32 %r2, [%r4];\n    setp.eq.u32 %p0, %r2, 0;\n    @%p0 bra END;", False),
    ],
)  # fmt: skip
def test_contents_of_memory_steer_a_kernel_by_branches_and_guards(use: str, expected: bool) -> None:
    body = f"    ld.global.u32 %r1, [%rd0];\n    {use}\nEND:\n    ret;"
    assert ParameterUses(prepared(built(module(kernel(body))), "k")).branches_on_memory is expected


def test_what_depends_on_assumed_values_is_followed_through_registers() -> None:
    body = """
    .reg .b64 %p;
    .shared .align 16 .b8 tile[1024];
    ld.param.u32 %r1, [stride];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, tile;
    mad.lo.u32 %r4, %r2, 4, %r3;
    mad.lo.u32 %r5, %r2, %r1, %r3;
    st.shared.u32 [%r4], %r1;
    st.shared.u32 [%r5], %r2;
    mov.u32 %r6, %ntid.x;
    add.u32 %r7, %r6, %r3;
    st.shared.u32 [%r7], %r2;
    ret;"""

    def guessed(directives: str) -> list[bool]:
        text = module(kernel(body, parameters=".param .u32 stride", directives=directives), header=HOPPER)
        found = ParameterUses(prepared(built(text), "k"))
        return [found.is_guessed(n) for n, i in enumerate(found.instructions) if i.opcode.startswith("st.")]

    assert guessed("") == [False, True, True]
    assert guessed(".reqntid 128") == [False, True, False]


@pytest.mark.parametrize(
    ("destination", "expected"), [("[%r3]", False), ("[%r2]", True)], ids=["constant", "assumed"]
)
def test_a_copy_fills_the_same_bytes_whatever_part_of_them_it_reads(destination: str, expected: bool) -> None:
    """The bounds check of a tile makes the src-size of its copies depend on a parameter."""
    body = f"""
    .shared .align 16 .b8 tile[1024];
    ld.param.u32 %r1, [number];
    ld.param.u64 %rd0, [pointer];
    mov.u32 %r3, tile;
    add.u32 %r2, %r3, %r1;
    min.u32 %r4, %r1, 16;
    cp.async.cg.shared.global {destination}, [%rd0], 16, %r4;
    ret;"""
    found = ParameterUses(prepared(built(module(kernel(body))), "k"))
    (site,) = [n for n, i in enumerate(found.instructions) if i.group == "cp.async"]
    assert found.is_guessed(site) is expected


# ---------------------------------------------------------------- whole kernels


def verdict(text: str, rule: str) -> tuple[Finding, Confirmation]:
    (finding,) = [
        f for f in confirm(check_source(Source(text.encode(), "k.ptx"))).findings if f.rule.id == rule
    ]
    assert finding.confirmation is not None
    return finding, finding.confirmation


def test_a_missing_initialisation_is_confirmed_by_its_absence() -> None:
    body = """
    .shared .align 8 .b64 bars[2];
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared.b64 [bars], 128;
    bar.sync 0;
    mbarrier.arrive.shared.b64 _, [bars+8];
    ret;"""
    finding, found = verdict(module(kernel(body), header=HOPPER), "MB009")
    assert found.status == "confirmed"
    assert "no mbarrier is initialised at 0x408" in found.observation
    assert found.steps[-1].span == finding.span


def test_registers_that_nothing_releases_confirm_the_overflow_of_the_pool() -> None:
    example = all_rules()["CV012"].examples[0].code
    _, found = verdict(example, "CV012")
    assert found.status == "confirmed"
    assert "for registers" in found.observation


@pytest.mark.parametrize(("widen", "field"), [("cvt.u64.u32", ("map", 0)), ("cvt.s64.s32", None)])
def test_an_offset_of_a_parameter_that_is_widened_refers_to_it(
    widen: str, field: tuple[str, int] | None
) -> None:
    body = (
        f"mov.b32 %r1, map;\n{widen} %rd1, %r1;\ncvta.param.u64 %rd2, %rd1;\nprefetch.tensormap [%rd2];\nret;"
    )
    text = module(kernel(body, parameters=".param .align 64 .b8 map[128]"), header=HOPPER)
    function = prepared(built(text), "k")
    (used,) = (i for i in function.instructions if i.opcode == "prefetch.tensormap")
    assert ParameterUses(function).field(used.operands[0], 0) == field
