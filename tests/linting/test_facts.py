"""The facts about launches that would prove what is unknown: each is found by judging the kernel with it."""

from __future__ import annotations

import pytest

from tclint.exact.worlds import worlds
from tclint.findings.facts import Fact, fact
from tclint.findings.requirements import ALL_ASSUMPTIONS
from tclint.findings.selection import Request
from tclint.findings.verdicts import Assumption, Decided, HazardClass, Verdict
from tclint.linting import verdicts as judge
from tclint.linting.check import check_source
from tclint.linting.facts import under
from tclint.syntax.source import Source
from tests.tools.support import HOPPER, built, module

COUNTED = """.visible .entry k(.param .u32 n)
.maxntid 128
{
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [n];
    bar.sync 0, %r1;
    ret;
}"""
"""A barrier of as many threads as a parameter says."""
LEAVING = """.visible .entry k()
{
    .reg .b32 %r<9>;
    .reg .pred %p<3>;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 256;
    @!%p1 bra done;
    bar.sync 0;
done:
    ret;
}"""
"""A barrier that threads beyond the first 256 do not reach."""
PAIRED = """.visible .entry k(.param .u32 n, .param .u32 m, .param .u64 out)
{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .reg .pred %p<3>;
    .shared .align 16 .b8 buffer[2048];
    ld.param.u32 %r1, [n];
    ld.param.u32 %r2, [m];
    ld.param.u64 %rd1, [out];
    mov.u32 %r3, buffer;
    setp.eq.u32 %p1, %r1, 0;
    setp.eq.u32 %p2, %r2, 0;
    @%p1 bra skip;
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 2048;
    cp.async.bulk.commit_group;
skip:
    @%p2 bra end;
    cp.async.bulk.wait_group 0;
end:
    ret;
}"""
"""A copy if one parameter is not zero, and a wait if another one is not."""


def verdict(
    text: str,
    hazard: HazardClass,
    what_if: Fact | None,
    assume: frozenset[Assumption] = ALL_ASSUMPTIONS,
) -> Verdict:
    """The verdict on one class of the kernel ``k``."""
    source = Source(module(text, header=HOPPER).encode(), "k.ptx")
    report = check_source(source, Request(assume=assume, what_if=what_if))
    (found,) = [each for each in report.verdicts if each.hazard is hazard]
    return found


def found(
    text: str, hazard: HazardClass, words: str = "", assume: frozenset[Assumption] = ALL_ASSUMPTIONS
) -> Decided | None:
    """What decides the class; by the fact *words*, if there is one."""
    return verdict(text, hazard, fact(words.split()), assume).decided


@pytest.mark.parametrize(
    ("text", "hazard", "expected"),
    [
        (COUNTED, HazardClass.CONVERGENCE, "n=128"),
        (LEAVING, HazardClass.CONVERGENCE, "reqntid=256"),
        (PAIRED, HazardClass.BULK, "n=m"),
    ],
)
def test_the_fact_that_proves_a_class_is_found(text: str, hazard: HazardClass, expected: str) -> None:
    decided = found(text, hazard)
    assert decided is not None
    assert decided.fact == expected
    assert decided.assumptions
    assert found(text, hazard, expected) == decided
    assert verdict(text, hazard, None).decided is None


@pytest.mark.parametrize(
    ("text", "hazard", "words"),
    [
        (COUNTED, HazardClass.CONVERGENCE, "n=64"),
        (LEAVING, HazardClass.CONVERGENCE, "reqntid=512"),
        (PAIRED, HazardClass.BULK, "n=1 m=0"),
    ],
)
def test_another_fact_of_the_same_kind_proves_nothing(text: str, hazard: HazardClass, words: str) -> None:
    assert found(text, hazard, words) == Decided("", tried=(str(fact(words.split())),))


@pytest.mark.parametrize("words", ["n=1 m=1", "n=0 m=1"])
def test_facts_hold_together(words: str) -> None:
    decided = found(PAIRED, HazardClass.BULK, words)
    assert decided is not None
    assert decided.fact == str(fact(words.split()))


def test_an_assumption_that_is_refused_is_found_and_no_other_is_named() -> None:
    waited = PAIRED.replace("@%p2 bra end;", "@%p1 bra end;")
    decided = found(waited, HazardClass.BULK, assume=frozenset((Assumption.SHAPE,)))
    assert decided is not None
    assert decided.fact == "no-overflow same-loads threads"
    assert found(waited, HazardClass.BULK) is None  # it is proved


def test_the_search_ends_with_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "MAX_WORK", 40)
    decided = found(PAIRED, HazardClass.BULK)
    assert decided == Decided("", tried=("reqntid=256", "reqntid=128", "reqntid=512"))


def test_no_fact_is_tried_for_code_that_is_not_understood() -> None:
    text = PAIRED.replace("skip:", "frobnicate.b32 %r1, %r1;\nskip:")
    assert found(text, HazardClass.BULK) is None


@pytest.mark.parametrize(
    "words",
    ["reqntid=256", "reqntid=0", "x=1", "n=m", "n=out", "n=1 n=2"],
)
def test_a_fact_that_no_launch_satisfies_is_not_tried(words: str) -> None:
    text = COUNTED.replace(".param .u32 n", ".param .u32 n, .param .u64 out")
    assert found(text, HazardClass.CONVERGENCE, words) == Decided("")
    assert under(built(module(text)).functions[0], fact(words.split())) is None


def test_a_stated_shape_is_the_only_one() -> None:
    function = built(module(COUNTED.replace(".maxntid", ".reqntid"))).functions[0]
    assert under(function, fact(["reqntid=128"])) is not None
    assert under(function, fact(["reqntid=64,2"])) is None


def test_what_is_evaluated_exactly_has_the_numbers_of_the_fact() -> None:
    made = under(built(module(PAIRED)).functions[0], fact(["m=77"]))
    assert made is not None
    for world in worlds(made, {}, 20):
        assert world.memory(".param", world.symbols["m"], 4) == 77
    assert len({world.memory(".param", world.symbols["n"], 4) for world in worlds(made, {}, 20)}) > 1
