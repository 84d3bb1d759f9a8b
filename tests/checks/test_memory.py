"""The rules about kinds of addresses on small kernels; the pages of the rules hold the plain cases."""

from __future__ import annotations

import pytest

from tclint.findings.finding import Finding
from tclint.findings.rules import all_rules
from tclint.findings.scales import Severity
from tclint.findings.selection import Selected
from tests.tools.support import agrees, by_rule, kernel, lint, module

START = """
    .shared .align 16 .b8 tile[1024];
    .shared .align 8 .b64 bar;
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    mov.u64 %rd1, tile;
    mov.u32 %r1, tile;
    cvta.shared.u64 %rd2, %rd1;
"""


def text(body: str) -> str:
    return module(kernel(f"{START}\n{body}\nret;"))


CASES = {
    "an offset as it is": "ld.shared.u32 %r2, [%r1];",
    "an offset as a generic address": "ld.u32 %r2, [%rd1]; // want MO001",
    "a generic address as it is": "ld.u32 %r2, [%rd2];",
    "a generic address as an offset": "ld.shared.u32 %r2, [%rd2];",
    "a generic address, cut to 32 bits": "cvt.u32.u64 %r2, %rd2;\nld.shared.u32 %r3, [%r2];",
    "converted back": "cvta.to.shared.u64 %rd3, %rd2;\nld.shared.u32 %r2, [%rd3];",
    "converted back, but used as generic": "cvta.to.shared.u64 %rd3, %rd2;\nld.u32 %r2, [%rd3]; // want MO001",
    "a pointer to converted": "cvta.to.shared.u64 %rd3, %rd0;\nst.u32 [%rd3], %r9; // want MO001",
    "a parameter": "ld.u32 %r2, [%rd0];",
    "a global address": "cvta.to.global.u64 %rd3, %rd0;\nld.global.u32 %r2, [%rd3];",
    "in shared memory that it does not name": "st.bulk.weak [%rd2], 64, 0;",
    "in shared memory that it names": "st.bulk.weak.shared::cta [%rd2], 64, 0;",
    "the name itself": "ld.u32 %r2, [tile];",
    "with an index": "mul.wide.u32 %rd3, %r9, 4;\nadd.s64 %rd3, %rd1, %rd3;\natom.add.u32 %r2, [%rd3], 1; // want MO001",
    "in a loop": "L: ld.u32 %r2, [%rd1]; // want MO001\nadd.s64 %rd1, %rd1, 4;\nsetp.lt.u32 %p0, %r2, 9;\n@%p0 bra L;",
    "through a shuffle": "shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\ncvt.u64.u32 %rd3, %r2;\nld.u32 %r3, [%rd3]; // want MO001",
    "of another CTA": "mapa.shared::cluster.u32 %r2, %r1, 1;\ncvt.u64.u32 %rd3, %r2;\nld.u32 %r3, [%rd3]; // want MO001",
    "of another CTA, generic": "mapa.u64 %rd3, %rd2, 1;\nld.u32 %r3, [%rd3];",
    "of one kind or the other": "setp.eq.u32 %p0, %r9, 0;\n@%p0 bra on;\nmov.u64 %rd3, %rd2;\nbra go;\non: mov.u64 %rd3, %rd0;\ngo: ld.u32 %r2, [%rd3];",
    "a distance": "sub.s64 %rd3, %rd2, %rd1;\nadd.s64 %rd3, %rd3, %rd0;\nld.u32 %r2, [%rd3];",
}  # fmt: skip


def _of(code: str, rules: str) -> list[Finding]:
    """The findings of rules, which may be off by default, whose ids begin like this."""
    selected = Selected(frozenset(id for id in all_rules() if id.startswith(rules)))
    return list(lint(code, selected=selected).findings)


@pytest.mark.parametrize("case", CASES)
def test_kinds_of_addresses(case: str) -> None:
    agrees(text(CASES[case]), "MO")


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("ld.u32 %r2, [%rd1];", "MO001"),
        ("st.shared.u32 [%rd2], %r9;", "MO006"),
        ("cvt.u64.u32 %rd3, %r3;\nmbarrier.arrive.b64 %rd4, [%rd3];", "MO006"),
        ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%r3];", "MO006"),
    ],
)
def test_what_works_with_ptxas_is_a_note_that_is_off(line: str, rule: str) -> None:
    code = text(f"mov.u32 %r3, bar;\n{line}")
    (finding,) = _of(code, "MO")
    assert (finding.rule.id, finding.severity) == (rule, Severity.ERROR if rule == "MO001" else Severity.INFO)
    assert [f.rule.id for f in lint(code).findings if f.rule.family == "memory"] == ["MO001"] * (
        rule == "MO001"
    )


def test_before_sm_90_an_address_has_more_than_its_low_half() -> None:
    older = text("st.shared.u32 [%rd2], %r9;").replace("sm_100a", "sm_80")
    (finding,) = by_rule(lint(older), "MO001")
    assert finding.severity is Severity.WARNING


def test_generic_addresses_of_a_kernel_are_one_finding() -> None:
    body = "st.shared.u32 [%rd2], %r9;\ncvta.shared.u64 %rd3, %rd1;\nst.shared.u32 [%rd3+4], %r9;"
    (finding,) = _of(text(body), "MO006")
    assert finding.count == 2
    assert "%rd2 is a generic address" in finding.message
    assert "cvta.to.shared" in finding.help
