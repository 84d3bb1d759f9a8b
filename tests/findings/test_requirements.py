"""What a gate requires, and what proofs may assume, as settings write it."""

from __future__ import annotations

import pytest

from tclint.findings.requirements import Requirement, assumptions, requirements
from tclint.findings.verdicts import Assumption, HazardClass, Status, Verdict


def test_a_status_applies_until_the_next_one() -> None:
    found = requirements(["proved:wgmma", " convergence", "bounded:mbarrier,bulk"])
    assert [str(one) for one in found] == [
        "proved:wgmma",
        "proved:convergence",
        "bounded:mbarrier",
        "bounded:bulk",
    ]
    assert requirements(["proved:wgmma,WGMMA"]) == (Requirement(Status.PROVED, HazardClass.WGMMA),)
    assert requirements([]) == ()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["wgmma"], "'wgmma' has no status: write proved:wgmma"),
        (["proved:wgma"], "unknown class 'wgma'; must be one of wgmma, tcgen05-ldst"),
        (["proved:wgmma", ""], "unknown class ''"),
        (["unknown:wgmma"], "unknown status 'unknown'; must be one of proved, bounded"),
        (["violated:wgmma"], "unknown status 'violated'"),
        ([":wgmma"], "unknown status ''"),
    ],
)
def test_a_word_that_does_not_exist_is_refused_with_those_that_do(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        requirements(words)


@pytest.mark.parametrize("status", list(Status))
def test_a_proof_satisfies_what_a_bound_would(status: Status) -> None:
    verdict = Verdict("k", HazardClass.WGMMA, status)
    assert Requirement(Status.PROVED, HazardClass.WGMMA).met_by(verdict) == (status is Status.PROVED)
    enough = status in (Status.PROVED, Status.BOUNDED)
    assert Requirement(Status.BOUNDED, HazardClass.WGMMA).met_by(verdict) == enough
    assert Requirement(Status.PROVED, HazardClass.BULK).met_by(verdict)


def test_assumptions_are_named_or_refused() -> None:
    assert assumptions(["none"]) == frozenset()
    assert assumptions(["threads,shape"]) == {Assumption.THREADS, Assumption.SHAPE}
    for words, message in (
        (["none", "threads"], "'none' excludes every other assumption"),
        (
            ["luck"],
            "unknown assumption 'luck'; must be one of no-overflow, same-loads, threads, no-alias, reconvergence, elect, expected, boxes, aligned, registers, shape, full-cta, read-only, allocated, tables, implied-fences, completed-reads, in-bounds, dependent, none",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            assumptions(words)
