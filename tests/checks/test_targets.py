"""What is said about the target of a module."""

from __future__ import annotations

import pytest

from tclint.findings.selection import Request, Selected
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.support import by_rule, lint


def text(target: str, version: str, body: str = "") -> str:
    return f".version {version}\n.target {target}\n.address_size 64\n.visible .entry k()\n{{\n    {body} ret;\n}}\n"


@pytest.mark.parametrize(
    ("target", "version", "body", "wider"),
    [
        ("sm_90a", "8.0", "", "sm_90"),
        ("sm_90a", "8.0", "wgmma.fence.sync.aligned;", ""),
        ("sm_90", "8.0", "", ""),
        ("sm_100a", "8.8", "tcgen05.fence::after_thread_sync;", "sm_100f"),
        ("sm_100a", "8.6", "tcgen05.fence::after_thread_sync;", ""),
        ("sm_100f", "8.8", "tcgen05.fence::after_thread_sync;", ""),
        ("sm_100f", "8.8", "barrier.cluster.arrive;", "sm_100"),
        ("sm_103a, debug", "8.8", "", "sm_103"),
        ("sm_100a", "8.8", "unheard.of;", ""),
    ],
)
def test_the_widest_target_that_would_do(target: str, version: str, body: str, wider: str) -> None:
    selected = Selected(rules=frozenset(("AV003",)))
    found = by_rule(lint(text(target, version, body), selected=selected), "AV003")
    assert [f.help for f in found] == ([f"use .target {wider}"] if wider else [])


@pytest.mark.parametrize(
    ("target", "toolkit", "new"),
    [
        ("sm_101a", None, "sm_110a"),
        ("sm_101", (13, 1), "sm_110"),
        ("sm_101a", (12, 9), ""),
        ("sm_110a", None, ""),
    ],
)
def test_a_renamed_target(target: str, toolkit: tuple[int, int] | None, new: str) -> None:
    source = Source.from_bytes(text(target, "9.0").encode(), "t.ptx")
    found = by_rule(check_source(source, Request(toolkit=toolkit)), "AV004")
    assert len(found) == bool(new)
    assert not found or f"was renamed {new} " in found[0].message
