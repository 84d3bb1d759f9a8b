"""Versions that exist, or may exist."""

from __future__ import annotations

import pytest

from tclint.isa.target import exists, parse_version


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("1.0", True), ("8.8", True), ("9.5", True), ("9.6", True), ("10.0", True), ("8.9", False), ("2.4", False),
        ("42.1", False), ("99.9", False), ("9.50", False), ("0.9", False), ("8.10", True), ("8.4294967296", True),
        ("8.4294967305", False),
    ],
)  # fmt: skip
def test_a_version_exists_or_may_follow_the_newest(version: str, known: bool) -> None:
    assert exists(parse_version(version)) == known
