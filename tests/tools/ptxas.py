"""The ptxas that tests ask, where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.ptxas import PtxasMissing, find


def find_ptxas() -> Path:
    """The program, or the calling test is skipped with the reason."""
    try:
        found = find()
        if found.release < "13.5":
            pytest.skip(f"ptxas {found.release} is older than 13.5, which the pages speak of")
    except PtxasMissing as missing:
        pytest.skip(str(missing))
    return Path(found.path)
