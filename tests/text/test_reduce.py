"""The reducer, with predicates of this process: what is left, how many questions it takes, and what is never asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

import pytest

import tclint
from tclint.syntax import parse, problems
from tclint.syntax.source import SourceError
from tclint.text.names import nodes
from tclint.text.reduce import Reduction, Spent, instructions
from tests.tools.project import ROOT

HEAD = b".version 8.0\n.target sm_90a\n.address_size 64\n"
Ask = Callable[[bytes], bool]


class Asked:
    """The answers of a predicate, counted."""

    def __init__(self, ask: Ask, most: int = 500) -> None:
        self.ask = ask
        self.most = most
        self.texts: list[bytes] = []

    def first(self, texts: Iterator[bytes]) -> int | None:
        for number, text in enumerate(texts):
            if len(self.texts) == self.most:
                raise Spent
            self.texts.append(text)
            if self.ask(text):
                return number
        return None


def reduced(data: bytes, ask: Ask) -> tuple[Reduction, Asked]:
    """The reduction of *data*, which ends within 500 questions."""
    assert ask(data)
    asked = Asked(ask)
    found: list[bytes] = []
    reduction = Reduction(data, asked.first, found.append)
    reduction.run()
    assert reduction.minimal
    assert found[-1:] in ([reduction.data], [])
    assert all(not problems(parse(text)) for text in asked.texts)
    assert ask(reduction.data)
    return reduction, asked


def has(*patterns: bytes) -> Ask:
    return lambda data: all(re.search(pattern, data) for pattern in patterns)


@cache
def large(planted: bytes = b"", count: int = 5) -> bytes:
    """A module of many functions with loops, scopes, line information and tables, and *planted* in one of them."""
    functions = []
    for i in range(count):
        statements = b"".join(
            b"""
    .loc 1 %d 3
    add.u32 %%r%d, %%r%d, %d; // sum
    { .reg .pred p; setp.lt.u32 p, %%r%d, 7; @p bra $L_%d; }
    st.global.u32 [%%rd1+%d], %%r%d;
$L_%d:"""
            % (j, j + 1, j, j, j + 1, j, 4 * j, j + 1, j)
            for j in range(20)
        )
        here = planted if i == count // 2 else b""
        functions.append(
            b".visible .entry k%d(.param .u64 a%d, .param .u32 n)\n.maxntid 128\n{\n    .reg .b32 %%r<30>;\n"
            b"    .reg .b64 %%rd<2>;\n    ld.param.u64 %%rd1, [a%d];%s\n%s\n    ret;\n}\n"
            % (i, i, i, statements, here)
        )
    table = b".global .b32 t[4] = {1, 2, 3, 4};\n.extern .func f(.param .u32 p);\n"
    return HEAD + table + b"".join(functions) + b'.file 1 "k.cu"\n'


def finding(rule: str) -> Ask:
    return lambda data: any(
        finding.rule.id == rule
        for finding in tclint.check(data.decode(), select=[rule], cache=False, pedantic=True).findings
    )


UNWAITED = """
    wgmma.fence.sync.aligned;
    { .reg .f32 %f<4>; .reg .pred q; setp.ne.b32 q, 0, 0;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, q, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    st.global.f32 [%rd1], %f2;
    }
"""
GROUPS = b"cp.async.ca.shared.global [%r1], [%rd1], 4; cp.async.commit_group; ld.shared.u32 %r2, [%r1];"
TRIED: dict[str, tuple[bytes, Ask]] = {
    "a finding": (UNWAITED.encode(), finding("WG001")),
    "a copy that is read too early": (GROUPS, finding("CA001")),
    "an unknown instruction": (b"braid.u32 %r1, %r2;", finding("PX001")),
    "an instruction": (b"popc.b32 %r1, %r2;", has(rb"popc")),
    "two instructions": (b"popc.b32 %r1, %r2; brev.b32 %r3, %r1;", has(rb"popc", rb"brev")),
    "a value that is used": (
        b"popc.b32 %r1, %r2; st.global.u32 [%rd1], %r1;",
        has(rb"popc\.b32[ \t]+(%r\d+)(?s:.*)st\.global\.u32[ \t]+\[%rd\d+\], \1;"),
    ),
    "a loop": (b"LOOP: popc.b32 %r1, %r2; bra LOOP;", has(rb"(\S+):\s+popc[^;]*;\s+bra[ \t]+\1;")),
    "a guard": (b"{ .reg .pred p; @p popc.b32 %r1, %r2; }", has(rb"@%?p\S* popc")),
    "a table": (b"popc.b32 %r1, t;", has(rb"t\[4\] = \{", rb"popc\.b32\s+%r\d+, t;")),
    "a call": (b"call f, (%r1);", has(rb"call[ \t]+f")),
}


@pytest.mark.parametrize("name", TRIED)
def test_ten_failures_shrink_to_a_twentieth_within_500_questions(name: str) -> None:
    planted, ask = TRIED[name]
    data = large(planted)
    reduction, asked = reduced(data, ask)
    assert len(asked.texts) <= 500
    assert instructions(reduction.data) <= instructions(data) // 20
    for node in nodes(parse(reduction.data).root_node, ("instruction",)):
        assert not ask(reduction.data[: node.start_byte] + reduction.data[node.end_byte :]), node.text


def test_what_is_left_of_a_module() -> None:
    planted = b"popc.b32 %r1, %r2; st.global.u32 [%rd1], %r1;"
    reduction, _ = reduced(large(planted), TRIED["a value that is used"][1])
    assert (
        reduction.data
        == b""".version 8.0
.target sm_90a
.visible .entry k2()
{
	.reg .b32 	%r<2>;
	.reg .b64 	%rd<2>;
	popc.b32 	%r1, 0;
	st.global.u32 	[%rd1], %r1;
}
"""
    )


def test_a_parameter_goes_with_its_comma_and_stays_if_it_is_used() -> None:
    kernel = (
        HEAD + b".entry k(.param .u32 a, .param .u32 b, .param .u32 c) { .reg .b32 r; ld.param.u32 r, [b]; }"
    )
    reduction, _ = reduced(kernel, has(rb"ld\.param"))
    assert b"k(\n\t.param .u32 b\n)" in reduction.data
    reduction, _ = reduced(kernel, has(rb"\.param \.u32 c"))
    assert reduction.data.endswith(b".entry k(\n\t.param .u32 c\n)\n{\n}\n")


def test_what_is_used_stays_declared() -> None:
    """No text that is asked about uses a name that the original declares and it does not."""
    seen: list[bytes] = []

    def ask(data: bytes) -> bool:
        seen.append(data)
        return b"popc" in data

    reduced(large(b"L: popc.b32 %r1, %r2; @%p1 bra L;".replace(b"@%p1 ", b""), 4), ask)
    for text in seen:
        for label in re.findall(rb"bra\s+([\w$]+);", text):
            assert re.search(rb"(?m)^\s*" + re.escape(label) + rb":", text), text


def test_debug_data_that_matters_stays_without_comments() -> None:
    reduction, _ = reduced(large(b"popc.b32 %r1, %r2;", 4), has(rb"\.loc\s+1 17 3"))
    assert re.search(rb"\{\s+\.loc\t1 17 3\s+\}\s+$", reduction.data)
    assert b"//" not in reduction.data


def test_comments_that_matter_stay() -> None:
    reduction, _ = reduced(large(b"// the cause\n", 4), has(rb"the cause"))
    assert instructions(reduction.data) == 0


def test_the_limit_keeps_the_best_text() -> None:
    data = large(b"popc.b32 %r1, %r2;")
    asked = Asked(has(rb"popc"), 10)
    found: list[bytes] = []
    reduction = Reduction(data, asked.first, found.append)
    with pytest.raises(Spent):
        reduction.run()
    assert not reduction.minimal
    assert found[-1] == reduction.data
    assert len(reduction.data) < len(data) // 4


def test_an_answer_does_not_depend_on_how_many_are_asked_at_a_time() -> None:
    data, ask = large(b"popc.b32 %r1, %r2;", 8), has(rb"popc", rb"st\.global")

    def ahead(texts: Iterator[bytes]) -> int | None:
        """The first of the interesting texts among each four."""
        number = 0
        while batch := [text for _, text in zip(range(4), texts, strict=False)]:
            answers = [ask(text) for text in batch]
            if any(answers):
                return number + answers.index(True)
            number += len(batch)
        return None

    ways = [Reduction(data, first, lambda text: None) for first in (Asked(ask).first, ahead)]
    for reduction in ways:
        reduction.run()
    assert ways[0].data == ways[1].data


def test_a_text_with_a_syntax_error_is_refused() -> None:
    with pytest.raises(SourceError, match="syntax error"):
        Reduction(b".entry k() {", lambda texts: None, lambda text: None)


@pytest.mark.parametrize("name", ["inner_names", "wgmma_unwaited", "cluster_multicast"])
def test_a_fixture_without_anything_of_interest_becomes_its_head(name: str) -> None:
    path = next(
        iter(sorted((ROOT / "fixtures").glob(f"{name}*.ptx"))), ROOT / "fixtures" / "wgmma_unwaited.ptx"
    )
    reduction, _ = reduced(path.read_bytes(), lambda data: True)
    assert re.fullmatch(rb"\.version \S+\n\.target \S+\n", reduction.data)
