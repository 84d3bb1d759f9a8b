"""What provers share: reasons that are equal but for their places are one reason."""

from __future__ import annotations

from tclint.findings.spans import Span
from tclint.findings.verdicts import Reason
from tclint.verdicts.outcome import MAX_REASONS, merged

A, B, C = Span(1, 2), Span(3, 4), Span(5, 6)


def test_reasons_that_differ_in_their_places_alone_are_one() -> None:
    found = merged((Reason(A, "x"), Reason(B, "y"), Reason(B, "x"), Reason(A, "x"), Reason(C, "x", "help")))
    assert found == (Reason(A, "x", also=(B,)), Reason(B, "y"), Reason(C, "x", "help"))


def test_merged_reasons_keep_their_places_when_they_are_merged_again() -> None:
    assert merged((Reason(None, "x"), Reason(A, "x", also=(B,)), Reason(B, "x", also=(C,)))) == (
        Reason(None, "x", also=(A, B, C)),
    )


def test_the_places_of_a_reason_that_is_kept_are_complete_however_many_reasons_there_are() -> None:
    many = [Reason(at, f"number {n}") for at in (A, B) for n in range(MAX_REASONS + 5)]
    found = merged(many)
    assert len(found) == MAX_REASONS
    assert {reason.also for reason in found} == {(B,)}
