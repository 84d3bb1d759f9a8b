"""CTA barriers that count some of the threads are proved if exactly those execute them together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tclint.findings.verdicts import Assumption, Status
from tclint.verdicts.checker import Refused
from tclint.verdicts.convergence import Convergence
from tclint.verdicts.parties import check_parties
from tclint.verdicts.uniform import Level
from tests.tools.collectives import ALL, DATA, LOADED, MMA, VOTE, branch, convergence, loop, model_of

FIRST = "setp.ge.u32 %p1, %r1, 128;"
SECOND = "setp.lt.u32 %p1, %r1, 128;"
HALF = "bar.sync 1, 128;"
OTHER = "bar.sync 2, 128;"
LARGE = "bar.sync 1;"
TWICE = branch(FIRST, HALF) + "\n" + branch(SECOND, OTHER).replace("over", "out")
SIGNAL = "bar.arrive 3, 256;"
AWAITED = "bar.sync 3, 256;"
SIGNALLED = f"{FIRST}\n@%p1 bra second;\n{SIGNAL}\nbra over;\nsecond:\n{AWAITED}\nover:"

PROVED = {
    "one warpgroup": branch(FIRST, HALF),
    "two warpgroups, with a barrier each": TWICE,
    "a guard": f"{SECOND}\n@%p1 {HALF}",
    "a negated guard": f"{FIRST}\n@!%p1 {HALF}",
    "a guard and its negation": f"{FIRST}\n@%p1 {OTHER}\n@!%p1 {HALF}",
    "a loop of a parameter": branch(FIRST, loop("%r9", HALF).replace("%p1", "%p2")),
    "a loop of data of the other warpgroup": (
        f"{DATA}\n{branch(FIRST, HALF)}\n"
        + branch(SECOND, loop("%r11", "add.s32 %r13, %r13, 1;").replace("%p1", "%p2")).replace("over", "out")
    ),
    "the other warpgroup has left": f"{FIRST}\n@%p1 exit;\n{HALF}",
    "several instructions of one party": branch(FIRST, f"{HALF}\n{HALF}"),
    "after all phases of the whole CTA": f"{LARGE}\n{branch(FIRST, HALF)}",
    "some arrive and others wait": SIGNALLED,
    "some arrive and others wait, by their guards": f"{FIRST}\n@%p1 {SIGNAL}\n@!%p1 {AWAITED}",
    "some arrive and others wait, for a parameter": f"setp.eq.s32 %p2, %r9, 0;\n@%p2 bra over;\n{SIGNALLED}",
    "some arrive before a barrier, and others wait after it": f"{FIRST}\n@%p1 {SIGNAL}\nbar.sync 0;\n@!%p1 {AWAITED}",
    "not all threads are aligned": branch(FIRST, f"{MMA}\nbarrier.sync 1, 128;"),
}
UNKNOWN = {
    "fewer threads reach it": branch("setp.ne.s32 %p1, %r2, 1;", HALF),
    "more threads reach it": HALF,
    "parts of warps reach it": (
        "and.b32 %r12, %r1, 16;\n" + branch("setp.eq.s32 %p1, %r12, 0;", "barrier.sync 1, 128;") + f"\n{VOTE}"
    ),
    "data decide": branch(
        FIRST, branch(LOADED.replace("%p1", "%p2"), HALF).replace("p1", "p2").replace("over", "in")
    ),
    "the lane decides": branch(
        FIRST, branch("setp.eq.s32 %p2, %r4, 0;", HALF).replace("p1", "p2").replace("over", "in")
    ),
    "the warp decides": branch(
        FIRST, branch("setp.eq.s32 %p2, %r2, 0;", HALF).replace("p1", "p2").replace("over", "in")
    ),
    "a loop of data": DATA + "\n" + branch(FIRST, loop("%r11", HALF).replace("%p1", "%p2")),
    "a loop of lanes": branch(FIRST, loop("%r4", HALF).replace("%p1", "%p2")),
    "some lanes have left": f"setp.eq.s32 %p2, %r4, 0;\n@%p2 exit;\n{branch(FIRST, HALF)}",
    "a guard and its negation share a barrier": f"{FIRST}\n@%p1 {HALF}\n@!%p1 {HALF}",
    "all but the counted threads": "setp.lt.u32 %p1, %r1, 64;\n@!%p1 bar.sync 1, 64;",
    "two parties share a barrier": TWICE.replace("sync 2", "sync 1"),
    "before a phase of the whole CTA": f"{branch(FIRST, HALF)}\n{LARGE}",
    "in a loop with a phase of the whole CTA": loop(
        "%r9", f"{LARGE}\n{branch(FIRST, HALF).replace('%p1', '%p2')}"
    ),
    "the count is a parameter": branch(FIRST, "bar.sync 1, %r9;"),
    "the barrier is a parameter": branch(FIRST, "bar.sync %r9, 128;"),
    "the barrier does not exist": branch(FIRST, "bar.sync 16, 128;"),
    "some arrive for a parameter, and others always wait": SIGNALLED.replace(
        SIGNAL, f"setp.eq.s32 %p2, %r9, 0;\n@%p2 bra over;\n{SIGNAL}"
    ),
    "some arrive again and again": loop("%r9", SIGNALLED.replace("over", "in").replace("%p1", "%p2")),
    "more arrive than are counted": SIGNALLED.replace("256", "128"),
    "fewer arrive than are counted": SIGNALLED.replace(FIRST, "setp.ge.u32 %p1, %r1, 96;").replace(
        AWAITED, branch("setp.lt.u32 %p2, %r1, 128;", AWAITED).replace("%p1", "%p2").replace("over", "in")
    ),
    "one barrier counts more than the other": SIGNALLED.replace(SIGNAL, "bar.arrive 3, 224;"),
    "some leave before they arrive": f"setp.lt.u32 %p2, %r1, 32;\nsetp.eq.and.s32 %p2, %r9, 0, %p2;\n@%p2 exit;\n{SIGNALLED}",
    "some arrive for a word of memory": f"{FIRST}\nsetp.eq.and.s32 %p2, %r9, 0, %p1;\n@%p2 {SIGNAL}\n@!%p1 {AWAITED}",
    "a thread arrives at what it has waited for": f"{SIGNALLED}\n{SIGNAL}",
    "others wait without a count": f"{SIGNALLED}\nbar.sync 3;",
    "no thread waits": "bar.arrive 3, 256;",
    "no thread arrives": branch(FIRST, AWAITED),
    "others arrive": branch(FIRST, "bar.sync 1, 256;") + "\nbar.arrive 1, 256;",
}


@pytest.mark.parametrize("name", PROVED)
def test_the_threads_that_a_barrier_counts_execute_it_together(name: str) -> None:
    found = convergence(PROVED[name])
    assert found.status is Status.PROVED, found.reasons


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_barrier_that_others_or_fewer_may_reach_is_unknown(name: str) -> None:
    assert convergence(UNKNOWN[name]).status is Status.UNKNOWN


def test_without_a_size_the_threads_of_a_barrier_are_not_known() -> None:
    found = convergence(PROVED["one warpgroup"], size=".maxntid 256")
    assert found.status is Status.PROVED
    assert Assumption.FULL_CTA in found.assumptions
    assert convergence(PROVED["one warpgroup"], ALL - {Assumption.FULL_CTA}, ".maxntid 256").reasons
    assert convergence(PROVED["one warpgroup"], size="").status is Status.UNKNOWN
    assert convergence("bar.sync 1, 256;", size=".maxntid 256").status is Status.PROVED


def test_the_index_of_a_thread_may_be_refused_as_a_reason() -> None:
    assert convergence(PROVED["one warpgroup"], ALL - {Assumption.NO_OVERFLOW}).status is Status.UNKNOWN


# ---------------------------------------------------------------- the checker


def prover(body: str) -> Convergence:
    return Convergence(model_of(body), ALL)


@pytest.mark.parametrize(
    "name", ["one warpgroup", "a loop of a parameter", "two warpgroups, with a barrier each"]
)
def test_what_the_prover_claims_is_accepted_and_less_is_not(name: str) -> None:
    of = prover(PROVED[name])
    assert of.parties is not None
    claimed = of.certificate
    check_parties(of.parties, of.needed, claimed)
    for block, threads in claimed.reaching.items():
        fewer = replace(claimed, reaching={**claimed.reaching, block: threads & threads - 1})
        with pytest.raises(Refused):
            check_parties(of.parties, of.needed, fewer)


@pytest.mark.parametrize(
    "name", ["data decide", "a loop of data", "a loop of lanes", "the lane decides", "the warp decides"]
)
def test_no_claim_makes_a_party_execute_a_barrier_together(name: str) -> None:
    of = prover(UNKNOWN[name])
    assert of.parties is not None
    levels = {party: dict.fromkeys(known, Level.CLUSTER) for party, known in of.certificate.levels.items()}
    with pytest.raises(Refused):
        check_parties(of.parties, of.needed, replace(of.certificate, levels=levels))


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_prover_that_misses_nothing_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Convergence, "_missing", lambda self: iter(()))
    assert convergence(UNKNOWN[name]).status is Status.UNKNOWN
