"""The table of features that are no instructions: each is found in its example, and ptxas agrees about availability."""

from __future__ import annotations

import pytest

from benchmarks.features import modules, refusal
from benchmarks.ptxas import before
from tclint.ir.feature_uses import EVERYWHERE, feature_uses
from tclint.ir.frontend import analyse
from tclint.isa.features import COMMON, FeatureSpec, features
from tclint.isa.target import INTRODUCED, Availability, Target, Version
from tclint.syntax.source import Source
from tests.tools.ptxas import find_ptxas

NEW: tuple[Version, str] = (9, 5), "sm_100"


def found_in(text: str) -> set[str]:
    module, _ = analyse(Source(text.encode(), "t.ptx"))
    return {use.spec.name for use in feature_uses(module, module.target)}


@pytest.mark.parametrize("spec", features(), ids=lambda spec: f"{spec.name}-{'-'.join(sorted(spec.on))}")
def test_each_feature_is_found_in_its_example(spec: FeatureSpec) -> None:
    """In an old module if it is not new, because what every later version has is not looked for there."""
    old = (not spec.refused and spec.available.since <= COMMON) or spec.on == {"named"}
    version, target = (min(max(spec.available.since, (2, 3)), (7, 4)), "sm_20") if old else NEW
    for text in modules(spec, version, target):
        assert spec.name in found_in(text), text


@pytest.mark.parametrize(
    "text",
    [
        '.pragma "nounroll";',
        ".shared .align 16 .b8 x[64]; .extern .shared .align 16 .b8 y[]; .visible .global .u32 z = 4;",
        ".const .align 4 .f32 t[2] = {0f3F800000, 1.5}; .weak .func f(.param .b64 a, .reg .b32 b) { ret; }",
        ".entry e(.param .u64 .ptr .global .align 16 a, .param .align 64 .b8 m[128]) { ret; }",
        ".func f() { .reg .pred %p<3>; .reg .b64 %rd<7>, %x; .local .align 8 .b8 l[8]; .param .b32 q; ret; }",
    ],
)
def test_what_compilers_emit_has_no_feature(text: str) -> None:
    assert found_in(f".version 9.0\n.target sm_90\n.address_size 64\n{text}\n") == set()


def test_what_a_name_or_size_shows_is_looked_for_wherever_it_may_be_missing() -> None:
    version, number = EVERYWHERE
    for spec in features():
        if spec.on == {"named"}:
            assert not spec.available.since > version
            assert spec.available.on(Target(number, ""), version)


def _before(available: Availability) -> list[tuple[Version, str]]:
    """A version and a target that do not have the feature, where there are such."""
    number = min((p.least.number for p in available.patterns), default=0)
    lower = [t for t in ("sm_20", "sm_30", "sm_52", "sm_62", "sm_75", "sm_90") if int(t[3:]) < number]
    found = [(NEW[0], lower[-1])] if lower else []
    if available.since > (2, 3):
        target = f"sm_{max(number, 20)}"
        earlier = before(available.since)
        if INTRODUCED[target] <= earlier:
            found.append((earlier, target))
    return found


@pytest.mark.slow
def test_ptxas_takes_each_feature_where_the_table_does() -> None:
    ptxas = find_ptxas()
    wrong = []
    for spec in features():
        wanted = not spec.refused and spec.until is None
        asked = [(text, NEW[1], wanted) for text in modules(spec, *NEW)]
        first = max(spec.available.since, INTRODUCED["sm_75"])
        if spec.available.on(Target(75, "")):
            asked += [(text, "sm_75", wanted) for text in modules(spec, first, "sm_75")]
        for version, target in _before(spec.available) if wanted else ():
            asked += [(text, NEW[1], False) for text in modules(spec, version, target)]
        wrong += [text for text, target, taken in asked if bool(refusal(ptxas, text, target)) == taken]
    assert not wrong, "\n".join(wrong)
