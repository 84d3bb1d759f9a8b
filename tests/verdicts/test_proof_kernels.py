"""Kernels in ``fixtures/proofs``, compiled by nvcc: which of those that are right are proved, and that no flawed one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tclint.findings.verdicts import HazardClass, Status, Verdict
from tclint.verdicts import verdicts
from tests.tools.support import last_kernel

FOLDER = Path(__file__).parents[2] / "fixtures" / "proofs"
RIGHT = sorted(path.stem for path in FOLDER.glob("*.ptx") if not path.stem.endswith(".bad"))
FLAWED = sorted(path.stem for path in FOLDER.glob("*.bad.ptx"))
UNKNOWN = {
    "named": "a barrier at which threads only arrive orders nothing",
}
"""Kernels that are right and not proved, and why."""


def verdict(name: str, hazard: HazardClass = HazardClass.SHARED_MEMORY) -> Verdict:
    model = last_kernel((FOLDER / f"{name}.ptx").read_text(), header="")
    (found,) = verdicts(model, only=[hazard])
    return found


@pytest.mark.parametrize("name", RIGHT)
def test_a_kernel_that_is_right_is_proved_but_for_those_that_are_named(name: str) -> None:
    found = verdict(name)
    assert (found.status is Status.PROVED) == (name not in UNKNOWN), found.reasons


@pytest.mark.parametrize("name", FLAWED)
def test_no_flawed_kernel_is_proved(name: str) -> None:
    assert verdict(name).status is Status.UNKNOWN


def test_a_flag_that_all_threads_read_decides_for_all_of_them_whether_they_exit() -> None:
    found = {
        name: verdict(name, HazardClass.CONVERGENCE).status for name in (*RIGHT, *FLAWED) if "flag" in name
    }
    assert {name for name, status in found.items() if status is Status.PROVED} == {"flag"}


def test_each_kernel_has_a_flawed_twin() -> None:
    assert set(RIGHT) == {name.split(".")[0] for name in FLAWED}
    assert UNKNOWN.keys() <= set(RIGHT)
