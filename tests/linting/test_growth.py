"""Work and memory grow with the input, not with its square: counted, since seconds depend on the machine."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks import bytecodes
from benchmarks.grow import BOUNDED, SHAPES
from tclint.analyses import role_paths
from tclint.checks import proxies
from tclint.dataflow import feasible_paths, path_search_cache, views
from tclint.ir.nodes import Function
from tclint.linting import check
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.support import HOPPER, kernel, module

CALLED = """.func (.param .b32 r) f{i}(.param .b32 a)
{{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [a];
    add.s32 %r2, %r1, {i};
    st.param.b32 [r], %r2;
    ret;
}}
"""


class _Counted(list[Function]):
    """The functions of a module, and how often all of them were looked at."""

    passes = 0

    def __iter__(self) -> Iterator[Function]:
        self.passes += 1
        return super().__iter__()


def passes_over(functions: int, monkeypatch: pytest.MonkeyPatch) -> int:
    text = HOPPER + "".join(CALLED.format(i=i) for i in range(functions)) + kernel("    ret;")
    made: list[_Counted] = []
    analyse = check.analyse

    def counted(*args: object) -> object:
        built, problems = analyse(*args)  # type: ignore[arg-type]
        made.append(_Counted(built.functions))
        built.functions = made[-1]
        return built, problems

    with monkeypatch.context() as patch:
        patch.setattr(check, "analyse", counted)
        check_source(Source(text.encode(), "k.ptx"))
    return made[-1].passes


def test_the_functions_of_a_module_are_not_searched_for_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (passes_over(n, monkeypatch) for n in (4, 24))
    assert 0 < few == many


def peak(text: str) -> int:
    """The most memory that linting *text* takes at once."""
    source = Source(text.encode(), "k.ptx")
    tracemalloc.start()
    try:
        check_source(source)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def copies_in_one_group(copies: int) -> str:
    """A kernel with as many copies in flight."""
    body = [f"cp.async.ca.shared.global [tile+{16 * i}], [%rd0+{16 * i}], 16;" for i in range(copies)]
    return module(
        kernel(
            f".shared .align 128 .b8 tile[{16 * copies}];\n    ld.param.u64 %rd0, [pointer];\n"
            + "\n".join(body)
            + "\n    cp.async.wait_all;\n    bar.sync 0;\n    ld.shared.b32 %r1, [tile];\n    ret;"
        )
    )


def test_memory_does_not_grow_with_the_square_of_the_copies_in_flight() -> None:
    few, many = (peak(copies_in_one_group(copies)) for copies in (200, 800))
    assert many < 6 * few


@pytest.mark.parametrize("shape", ["copies in flight", "functions"])
def test_what_is_added_to_a_text_takes_at_most_sixty_times_its_size(shape: str) -> None:
    make, count = SHAPES[shape]
    peak(make(count))  # what is loaded once counts for neither
    few, many = make(2 * count), make(6 * count)
    assert peak(many) - peak(few) < 60 * (len(many) - len(few))


RELAXED = SHAPES["relaxed mbarriers"][0]


def test_searches_for_what_relaxed_waits_pass_do_not_grow_with_the_square_of_the_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def searches(count: int) -> tuple[int, frozenset[str]]:
        calls = 0

        def counted(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            return feasible_paths.find_paths(*args)

        with monkeypatch.context() as patch:
            patch.setattr(role_paths, "find_paths", counted)
            report = check_source(Source(RELAXED(count).encode(), "k.ptx"))
        return calls, frozenset(question.why for question in report.open_questions)

    (few, _), (many, why) = searches(40), searches(80)
    assert 0 < many < 2.2 * few
    assert any("more than" in reason for reason in why)


def test_the_searches_of_a_kernel_share_a_limit_and_say_when_they_reach_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(path_search_cache, "MIN_STATES_PER_KERNEL", -1_000_000)
    report = check_source(Source(RELAXED(8).encode(), "k.ptx"))
    assert any("in all searches of the kernel" in question.why for question in report.open_questions)
    assert not report.findings


def test_states_are_limited_by_the_size_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def states(count: int) -> tuple[int, int]:
        made: list[path_search_cache.PathSearchCache] = []
        create = path_search_cache.PathSearchCache.__init__

        def created(self: path_search_cache.PathSearchCache, *args: Any, **options: Any) -> None:
            create(self, *args, **options)
            made.append(self)

        with monkeypatch.context() as patch:
            patch.setattr(path_search_cache, "MIN_STATES_PER_KERNEL", 0)
            patch.setattr(path_search_cache, "MAX_STATES_PER_INSTRUCTION", 1)
            patch.setattr(path_search_cache.PathSearchCache, "__init__", created)
            report = check_source(Source(BOUNDED["lanes and arguments"](count).encode(), "k.ptx"))
        assert any("in all searches of the kernel" in question.why for question in report.open_questions)
        (cache,) = made
        return cache.states, cache.max_states

    for count in (40, 120):
        found, limit = states(count)
        assert limit < found < limit + feasible_paths.MAX_STATES_PER_PATH


def test_predicates_are_decided_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = 0
    entailed = views.Views._entailed

    def counted(*args: Any) -> bool | None:
        nonlocal decided
        decided += 1
        return entailed(*args)

    monkeypatch.setattr(views.Views, "_entailed", counted)
    text = BOUNDED["lanes and arguments"](20).encode()
    check_source(Source(text, "k.ptx"))
    assert decided > 50
    decided = 0
    monkeypatch.setattr(views, "MIN_TESTS", 200)
    monkeypatch.setattr(views, "MAX_TESTS_PER_INSTRUCTION", 0)
    check_source(Source(text, "k.ptx"))
    assert 0 < decided <= 20


def test_the_handovers_between_roles_are_limited_and_the_report_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxies, "MAX_HANDOVERS", 4)
    report = check_source(Source(BOUNDED["bulk loads"](8).encode(), "k.ptx"))
    assert any(question.why == "more than 4 arrivals with their waits" for question in report.open_questions)


SHARED_OPERANDS = {
    "and": "and.pred %p{0}, %p{1}, %p{2};",
    "or": "or.pred %p{0}, %p{1}, %p{2};",
    "bits": "or.b32 %r{0}, %r{1}, %r{2};",
    "maximum": "max.u32 %r{0}, %r{1}, %r{2};",
    "product": "mad.lo.s32 %r{0}, %r{1}, %r{2}, %r{1};",
}
"""Each result is computed from the two before it: twice as many are read by a number of paths that is squared."""


def deep(line: str, levels: int) -> str:
    """A kernel with so many levels of operands that are shared, in a branch and in an address."""
    shared = "\n".join(line.format(n, n - 1, n - 2) for n in range(2, levels + 2))
    body = f"""mov.u32 %r0, %tid.x;
ld.param.u32 %r1, [n];
setp.lt.s32 %p0, %r0, %r1;
setp.gt.s32 %p1, %r1, 5;
{shared}
and.b32 %r90, %r{levels + 1}, 252;
mov.u32 %r91, words;
add.s32 %r91, %r91, %r90;
setp.eq.s32 %p90, %r{levels + 1}, 7;
@%p90 bra end;
@!%p{levels + 1} bra end;
bar.sync 0;
st.shared.u32 [%r91], %r0;
end:
bar.sync 0;
ld.shared.u32 %r92, [%r91];
ret;"""
    return (
        f"{HOPPER}.shared .align 16 .b8 words[4096];\n.visible .entry k(.param .u32 n) {{\n"
        f".reg .pred %p<99>;\n.reg .b32 %r<99>;\n{body}\n}}\n"
    )


@pytest.mark.parametrize("shared", SHARED_OPERANDS)
def test_what_expressions_share_is_looked_at_once(shared: str) -> None:
    sources = [Source(deep(SHARED_OPERANDS[shared], levels).encode(), "k.ptx") for levels in (14, 28)]
    for source in sources:
        assert not check_source(source).problems  # what the ISA table says of its opcodes is paid once
    few, many = (
        sum(bytecodes.count(lambda s=source: check_source(s), lines=True).values()) for source in sources
    )  # type: ignore[misc]
    assert many < 3 * few
