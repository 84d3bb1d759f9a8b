"""Regular expressions that are compiled on first use."""

from __future__ import annotations

import re
from unittest import mock

import pytest

from tclint._pattern import pattern


def test_pattern_is_compiled_when_it_is_first_used() -> None:
    with mock.patch("re.compile", wraps=re.compile) as compile:
        words = pattern("[a-z]+", re.IGNORECASE)
        assert not compile.called
        assert words.findall("ab CD 1") == ["ab", "CD"]
        assert words.findall("x") == ["x"]
        assert compile.call_count == 1
        assert words.pattern == "[a-z]+"


def test_error_in_a_pattern_is_raised_on_first_use() -> None:
    wrong = pattern("(")
    with pytest.raises(re.error, match="missing \\)"):
        wrong.match("")
