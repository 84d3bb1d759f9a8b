"""Path conditions that are impossible because of what they say about sums and differences taken together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random

import pytest

from tclint.analyses.model import KernelModel
from tclint.values import PathCondition
from tclint.values.contradictions import Contradictions
from tclint.values.path_condition import KnownRanges
from tclint.values.ranges import UNBOUNDED, may_be_congruent
from tests.tools.support import model, value

VALUES = """
    ld.param.u64 %rd0, [pointer];
    ld.global.b32 %r1, [%rd0];
    ld.global.b32 %r2, [%rd0+4];
    ld.global.b32 %r3, [%rd0+8];
    min.s32 %r4, %r1, %r2;
    max.s32 %r5, %r2, %r3;
    and.b32 %r6, %r1, 7;
    and.b32 %r7, %r1, -8;
    shr.u32 %r8, %r2, 3;
    sub.s32 %r9, %r1, %r7;
    sub.s32 %r10, %r1, %r2;
    add.s32 %r11, %r4, %r3;
    sub.s32 %r12, %r5, %r6;
    min.u32 %r13, %r2, 12;
"""
REGISTERS = [f"%r{i}" for i in range(1, 14)]


def by_definition(contradictions: Contradictions, facts: PathCondition) -> bool:
    """The answer without any of the questions that need not be asked."""
    ranges, table = contradictions.ranges, contradictions.table
    known = ranges.known(facts)
    for (one, (low, high)), (two, ends) in combinations(known.items(), 2):
        for factor in (1, -1):
            base, shift, negative = ranges.loops.base(table.add(one, table.times(two, factor)))
            there = (0, 0) if table.constant_of(base) is not None else ranges.range_of(base, known)
            least, most = sorted(end * factor for end in ends)
            least, most = low + least - shift, high + most - shift
            least, most = (-most, -least) if negative else (least, most)
            apart = there != UNBOUNDED and (most < there[0] or there[1] < least)
            if apart and not may_be_congruent((least, most), there, 32):
                return True
    return False


def compared(random: Random, kernels: int) -> Iterator[tuple[KernelModel, list[int]]]:
    """Kernels with comparisons of random values and differences, which are 8 predicates."""
    for _ in range(kernels):
        lines = []
        for p in range(8):
            left, right = random.sample(REGISTERS, 2)
            lines.append(f"sub.s32 %r{20 + p}, {left}, {right};")
            left = random.choice([left, f"%r{20 + p}"])
            kind = random.choice(["lt.s32", "lt.s32", "eq.s32", "lt.u32"])
            lines.append(f"setp.{kind} %p{p}, {left}, {random.randrange(-9, 20)};")
        kernel = model(VALUES + "\n".join(lines) + "\nend: ret;")
        yield kernel, [value(kernel, f"%p{p}") for p in range(8)]


def test_what_need_not_be_asked_hides_no_contradiction() -> None:
    """Each condition both ways."""
    answers = set[bool]()
    random = Random(0)
    for kernel, predicates in compared(random, 40):
        contradictions = kernel.values.contradictions
        for _ in range(12):
            facts = PathCondition()
            for p in random.sample(predicates, random.randrange(2, 7)):
                facts = kernel.values.refine(p, random.random() < 0.5, facts)
            answer = contradictions.impossible(facts)
            assert answer is by_definition(contradictions, facts)
            answers.add(answer)
    assert answers == {True, False}


def test_one_more_fact_is_compared_with_what_it_concerns_alone() -> None:
    """A path condition that grows is impossible from the same fact on, at less than two thirds of the comparisons."""
    random, work, answers = Random(1), {True: 0, False: 0}, set[bool]()
    for kernel, predicates in compared(random, 20):
        contradictions = kernel.values.contradictions
        for _ in range(6):
            facts = PathCondition()
            for p in random.sample(predicates, 7):
                before, facts = facts, kernel.values.refine(p, random.random() < 0.5, facts)
                for grows in (True, False):
                    if not grows:
                        contradictions._impossible.clear()
                    since = contradictions.compared
                    answer = contradictions.impossible(facts, before if grows else None)
                    work[grows] += contradictions.compared - since
                    assert answer is by_definition(contradictions, facts)
                answers.add(answer)
                if answer:
                    break
    assert answers == {True, False}
    assert 3 * work[True] < 2 * work[False]


def test_conditions_with_the_same_ranges_are_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = model(VALUES + "setp.lt.s32 %p0, %r1, 3; setp.lt.s32 %p1, %r2, 4; end: ret;")
    contradictions = kernel.values.contradictions
    asked: list[KnownRanges] = []
    decide = contradictions._any

    def noted(known: KnownRanges, fresh: KnownRanges) -> bool:
        asked.append(known)
        return decide(known, fresh)

    monkeypatch.setattr(contradictions, "_any", noted)
    facts = PathCondition()
    for p in ("%p0", "%p1"):
        facts = kernel.values.refine(value(kernel, p), True, facts)
    for _ in range(3):
        assert not contradictions.impossible(PathCondition(facts.items()))
        assert not kernel.values.unsatisfiable(facts)
    assert len(asked) == 1


def test_a_pair_without_a_contradiction_is_asked_about_again_where_its_sum_is_known() -> None:
    """The sum of %r10 and %r7 is at most 11; only where it is also compared as unsigned, that is a contradiction."""
    kernel = model("""
        ld.param.u64 %rd0, [pointer];
        ld.global.b32 %r1, [%rd0];
        ld.global.b32 %r2, [%rd0+4];
        ld.global.b32 %r3, [%rd0+8];
        ld.global.b32 %r7, [%rd0+12];
        and.b32 %r4, %r1, -8;
        and.b32 %r5, %r2, -8;
        and.b32 %r6, %r3, -8;
        add.s32 %r10, %r4, %r5;
        add.s32 %r10, %r10, %r6;
        add.s32 %r11, %r10, %r7;
        setp.lt.s32 %p0, %r4, 0;
        setp.lt.s32 %p1, %r5, 0;
        setp.lt.s32 %p2, %r10, 8;
        setp.lt.s32 %p3, %r7, 0;
        setp.lt.s32 %p4, %r7, 4;
        setp.lt.u32 %p5, %r11, 12;
        setp.lt.s32 %p6, %r6, 0;
        end: ret;
    """)
    contradictions = kernel.values.contradictions
    truths = {"%p5": False, "%p0": False, "%p1": False, "%p2": True, "%p3": False, "%p4": True, "%p6": False}
    for left, answer in ((1, False), (0, True)):
        facts = PathCondition()
        for p in list(truths)[left:]:
            facts = kernel.values.refine(value(kernel, p), truths[p], facts)
        assert contradictions.impossible(facts) is by_definition(contradictions, facts) is answer
        known = contradictions.ranges.known(facts)
        asked = set(contradictions._pairs(known, known.keys()))
        assert (tuple(sorted(value(kernel, r) for r in ("%r10", "%r7"))) in asked) is answer


LOADED = """
    ld.param.u64 %rd0, [pointer];
    ld.global.b32 %r1, [%rd0];
    ld.global.b32 %r2, [%rd0+4];
    ld.global.b32 %r3, [%rd0+8];
"""


@pytest.mark.parametrize("opcode", ["add.s32", "sub.s32"])
def test_an_additive_pair_is_asked_about_where_its_sum_or_difference_is_known(opcode: str) -> None:
    kernel = model(f"{LOADED} add.s32 %r4, %r1, %r3; {opcode} %r5, %r4, %r2; end: ret;")
    contradictions = kernel.values.contradictions
    _, first, second, total = (value(kernel, r) for r in ("%r1", "%r2", "%r4", "%r5"))
    known = dict.fromkeys((first, second), (0, 9))
    pair = min(first, second), max(first, second)
    assert pair not in contradictions._pairs(known, known.keys())
    assert pair in contradictions._pairs(known, {first})
    known[contradictions.loops.base(total)[0]] = (0, 9)
    assert pair in contradictions._pairs(known, known.keys())


@pytest.mark.parametrize("term", ["min.s32 %r4, %r1, %r3;", "max.u32 %r4, %r1, %r3;", "and.b32 %r4, %r1, 7;"])
def test_a_pair_is_asked_about_where_a_term_may_narrow_the_sum(term: str) -> None:
    kernel = model(f"{LOADED} {term} end: ret;")
    contradictions = kernel.values.contradictions
    pair = value(kernel, "%r2"), value(kernel, "%r4")
    known = dict.fromkeys(pair, (0, 9))
    assert pair in contradictions._pairs(known, known.keys())


@pytest.mark.parametrize(
    ("code", "truths"),
    [
        pytest.param(
            f"""{LOADED}
            mov.u32 %r4, %tid.x;
            add.s32 %r5, %r1, %r2;
            add.s32 %r6, %r5, %r4;
            setp.lt.s32 %p0, %r5, 4;
            setp.lt.s32 %p1, %r6, 2000;
            end: ret;
            """,
            (True, False),
            id="a common term",
        ),
        pytest.param(
            f"""{LOADED}
            mov.b32 %r4, 0;
            head:
            setp.lt.s32 %p0, %r4, 5;
            setp.lt.s32 %p1, %r1, 3;
            end: add.s32 %r4, %r4, 1;
            setp.ne.s32 %p2, %r4, %r1;
            @%p2 bra head;
            ret;
            """,
            (False, True),
            id="a counter and its limit",
        ),
    ],
)
def test_a_pair_is_not_additive_where_its_sum_says_more_than_its_terms(
    code: str, truths: tuple[bool, ...]
) -> None:
    kernel = model(code)
    contradictions, facts = kernel.values.contradictions, PathCondition()
    for p, truth in enumerate(truths):
        assert not contradictions.impossible(facts)
        facts = kernel.values.refine(value(kernel, f"%p{p}"), truth, facts)
    assert contradictions.impossible(facts)
    assert by_definition(contradictions, facts)


@pytest.mark.parametrize(
    ("excluded", "contradicts"), [("%r1, %r2", True), ("%r2, %r1", True), ("%r11, %r2", False)]
)
@pytest.mark.parametrize("first", [True, False])
def test_an_inequality_contradicts_the_value_that_two_equalities_give_a_difference(
    excluded: str, contradicts: bool, first: bool
) -> None:
    """r1 - r2 + (r2 & 3) is 0, and so is r2 & 3."""
    m = model(f"""
    ld.param.u64 %rd0, [pointer];
    ld.global.b32 %r1, [%rd0];
    ld.global.b32 %r2, [%rd0+4];
    and.b32 %r3, %r2, 3;
    sub.s32 %r4, %r1, %r2;
    add.s32 %r5, %r4, %r3;
    add.s32 %r11, %r1, 1;
    setp.eq.s32 %p1, {excluded};
    setp.eq.s32 %p2, %r5, 0;
    setp.eq.s32 %p3, %r3, 0;
end: ret;""")
    tests = [("%p2", True), ("%p3", True)]
    tests.insert(0 if first else 2, ("%p1", False))
    facts = PathCondition()
    for p, truth in tests:
        facts = m.values.refine(value(m, p), truth, facts)
    assert m.values.unsatisfiable(facts) is contradicts
