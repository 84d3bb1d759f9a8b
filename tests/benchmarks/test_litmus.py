"""What a litmus test becomes, and which answers contradict it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.litmus import answer, contradicts, main, parse
from tclint.analyses.happens_before import Ordered, OrderScope, Unknown, Unordered

PASSING = """PTX message-passing
{
x=0;
}
 P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ;
 st.weak x, 1   | bar.cta.sync 1 ;
 bar.cta.sync 1 | ld.weak r0, x  ;

forall (P1:r0 == 1)"""


def test_a_load_after_a_barrier_that_both_threads_pass_is_ordered_after_the_store() -> None:
    litmus = parse(PASSING, holds=True)
    assert litmus is not None
    assert litmus.ordered
    assert isinstance(answer(litmus), Ordered)
    assert not contradicts(litmus, answer(litmus))


def test_a_load_after_a_barrier_with_another_number_is_unordered() -> None:
    """The barriers of the test do not complete; the path to the load exists."""
    litmus = parse(PASSING.replace("| bar.cta.sync 1", "| bar.cta.sync 2"), holds=False)
    assert litmus is not None
    assert not litmus.ordered
    found = answer(litmus)
    assert isinstance(found, Unordered)
    assert not contradicts(litmus, found)
    assert contradicts(litmus._replace(ordered=True), found)


def test_a_load_that_never_reads_the_store_is_ordered_before_it() -> None:
    body = " bar.cta.sync 1 | ld.weak r0, x  ;\n st.weak x, 1   | bar.cta.sync 1 ;"
    early = PASSING[: PASSING.index(" st.weak")] + body + "\n\nexists (P1:r0 == 1)"
    litmus = parse(early, holds=False)
    assert litmus is not None
    assert litmus.ordered
    assert (litmus.first, litmus.then) == ("S1_0", "S0_1")
    assert not contradicts(litmus, answer(litmus))


FLAG = """PTX flag
{
x=0; f=0;
}
 P0@cta 0,gpu 0      | P1@cta 1,gpu 0      ;
 ld r2, 1            | ld.acquire.gpu r0, f ;
 st.weak x, r2       | ld.weak r1, x       ;
 st.release.gpu f, 1 |                     ;

exists (P1:r0 == 1 /\\ P1:r1 != 1)"""


def test_a_flag_that_the_condition_requires_becomes_a_poll() -> None:
    litmus = parse(FLAG, holds=False)
    assert litmus is not None
    assert litmus.ordered
    assert (litmus.first, litmus.then, litmus.scope) == ("S0_0", "S1_1", OrderScope.CTAS)
    assert (
        "S1_0: ld.acquire.gpu.global.u32 %r0, [f];\nsetp.ne.u32 %taken, %r0, 1;\n@%taken bra S1_0;"
        in litmus.ptx
    )
    assert "S0_0: @%lane st.weak.global.u32 [x], 1;" in litmus.ptx
    assert not contradicts(litmus, answer(litmus))
    assert not isinstance(answer(litmus), Unordered)


def test_a_flag_that_is_not_required_orders_nothing() -> None:
    litmus = parse(FLAG.replace("P1:r0 == 1 /\\ ", ""), holds=True)
    assert litmus is not None
    assert not litmus.ordered
    assert isinstance(answer(litmus), Unordered)


def test_loads_that_read_what_follows_them_are_judged_by_the_weak_one() -> None:
    body = FLAG[FLAG.index(" ld r2") : FLAG.index("exists")]
    buffering = FLAG.replace(
        body, " ld.acquire.gpu r1, f | ld.relaxed.gpu r0, x ;\n st.weak x, 1 | st.release.gpu f, 1 ;\n\n"
    )
    litmus = parse(buffering.replace("P1:r0 == 1 /\\ P1:r1 != 1", "P1:r0 == 1 /\\ P0:r1 == 1"), holds=False)
    assert litmus is not None
    assert (litmus.first, litmus.then) == ("S1_0", "S0_1")
    assert not contradicts(litmus, answer(litmus))
    assert (
        parse(buffering.replace("P1:r0 == 1 /\\ P1:r1 != 1", "P1:r0 == 0 /\\ P0:r1 == 0"), holds=False)
        is None
    )


def test_a_barrier_orders_no_thread_of_another_cta() -> None:
    litmus = parse(PASSING.replace("P1@cta 0", "P1@cta 1"), holds=False)
    assert litmus is not None
    assert litmus.scope is OrderScope.CTAS
    assert not contradicts(litmus, answer(litmus))
    assert isinstance(answer(litmus._replace(scope=OrderScope.WARPS)), Ordered)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("st.weak x, 1", "sust.weak x, 1"),
        ("P1@cta 0,gpu 0", "P1@cta 1,gpu 1"),
        ("x=0;", "x=3;"),
        ("forall (P1:r0 == 1)", "forall (P1:r0 == 1 /\\ P0:r0 == 1)"),
        ("forall (P1:r0 == 1)", "exists (x == 1)"),
        ("bar.cta.sync 1 | ld", "st.weak x, 2 | ld"),
        ("(P1:r0", "(P1:r7"),
        ("message-passing", "message-hang"),
    ],
)
def test_other_tests_are_left_out(old: str, new: str) -> None:
    assert parse(PASSING.replace(old, new), holds=True) is None


def test_only_a_certain_order_contradicts_a_test_of_the_lack_of_one() -> None:
    litmus = parse(PASSING.replace("forall", "~exists").replace("== 1)", "== 0)"), holds=False)
    assert litmus is not None
    assert not litmus.ordered
    assert contradicts(litmus, Ordered((), ()))
    assert not contradicts(litmus, Ordered((), ("phases match",)))
    assert not contradicts(litmus, Unknown((), ("unresolved",)))


def test_the_tests_of_a_checkout_are_compared_with_their_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "PTXv7_5-expected.csv").write_text("a.litmus,1\nb.litmus,0\nabsent.litmus,1\n")
    (tmp_path / "a.litmus").write_text(PASSING)
    (tmp_path / "b.litmus").write_text(PASSING.replace("ld.weak", "suld.weak"))
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("1 of 2 tests translated, 0 contradicted")
    (tmp_path / "a.litmus").write_text(PASSING.replace("| bar.cta.sync 1", "| bar.cta.sync 2"))
    assert main([str(tmp_path)]) == 1
    assert main([]) == 2
