"""What all checks share."""

from __future__ import annotations

from tclint.checks import grouped


def test_groups_and_their_members_keep_the_order_in_which_they_were_found() -> None:
    found = [("b", 3), ("a", 1), ("b", 2), ("a", 1), ("c", 0)]
    assert list(grouped(found).items()) == [("b", [3, 2]), ("a", [1, 1]), ("c", [0])]


def test_nothing_found_is_no_group() -> None:
    assert grouped(iter(())) == {}
