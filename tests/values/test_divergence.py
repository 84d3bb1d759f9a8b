"""What is said to differ between threads does, whatever the unknown base is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.divergence import decided_by_own_data, divergent_bits
from tests.tools.support import model, value

EVERY = (1 << 32) - 1
OPERATIONS = {
    "add.u32": lambda v, n: v + n,
    "mul.lo.u32": lambda v, n: v * n,
    "and.b32": lambda v, n: v & n,
    "or.b32": lambda v, n: v | n,
    "xor.b32": lambda v, n: v ^ n,
    "shr.u32": lambda v, n: v >> n,
    "shl.b32": lambda v, n: v << n,
}
SIZES = st.integers(0, 20).map(lambda n: 1 << n)
MASKS = st.tuples(st.integers(0, 12), st.integers(1, 20)).map(lambda t: ((1 << t[1]) - 1) << t[0])
STEP = st.one_of(
    st.tuples(st.sampled_from(("add.u32", "or.b32", "xor.b32")), st.integers(0, 1 << 20)),
    st.tuples(st.just("mul.lo.u32"), st.one_of(SIZES, st.integers(1, 99))),
    st.tuples(st.just("and.b32"), MASKS),
    st.tuples(st.sampled_from(("shr.u32", "shl.b32")), st.integers(0, 12)),
)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 7),
    st.one_of(SIZES, st.integers(1, 999)),
    st.lists(STEP, max_size=6),
    st.lists(st.integers(0, EVERY), min_size=4, max_size=4),
)
def test_values_differ_exactly_where_expected(
    by: int, factor: int, steps: list[tuple[str, int]], bases: list[int]
) -> None:
    code = "\n".join(f"{opcode} %r3, %r3, {n};" for opcode, n in steps)
    kernel = model(
        f"""
    ld.param.u32 %r1, [number];
    mov.u32 %r2, %tid.x;
    shr.u32 %r2, %r2, {by};
    mad.lo.u32 %r3, %r2, {factor}, %r1;
{code}
end:
    ret;
"""
    )
    found = divergent_bits(kernel.values, value(kernel, "%r3"))
    level = found and found.level(T.full(128))
    for base in bases:
        values = []
        for thread in range(128):
            v = base + (thread >> by) * factor & EVERY
            for opcode, n in steps:
                v = OPERATIONS[opcode](v, n) & EVERY
            values.append(v)
        if level is not None:
            assert len(set(values)) > 1
        if level is UniformityScope.DIVERGENT:
            assert any(len(set(values[w : w + 32])) > 1 for w in range(0, 128, 32))


def test_a_descriptor_made_from_an_address_is_followed() -> None:
    kernel = model(
        """
    ld.param.u32 %r1, [number];
    mov.u32 %r2, %tid.x;
    shr.u32 %r2, %r2, 5;
    mad.lo.u32 %r3, %r2, 2048, %r1;
    bfe.u32 %r3, %r3, 4, 14;
    or.b32 %r3, %r3, 0x10000;
end:
    ret;
"""
    )
    found = divergent_bits(kernel.values, value(kernel, "%r3"))
    assert found is not None
    assert found.level(T.full(128)) is UniformityScope.WARP
    assert found.level(T.full(32)) is None


LOADS = """
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, {index}, 4;
    add.s64 %rd2, %rd0, %rd1;
    mov.u32 %r3, -1;
    mov.u32 %r4, 0;
next:
    ld.global.u32 %r5, [%rd2];
    {use}
    add.s64 %rd2, %rd2, 512;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p1, %r4, %r9;
    @%p1 bra next;
    setp.{compare};
end:
    @%p0 bra out;
out:
    ret;
"""
SELECT = "setp.gt.s32 %p2, %r5, 0; selp.b32 %r3, %r4, %r3, %p2;"


@pytest.mark.parametrize(
    ("index", "use", "compare", "own"),
    [
        ("%r0", "", "gt.s32 %p0, %r5, 0", True),
        ("%r0", "", "lt.u32 %p0, %r5, 7", True),
        ("%r0", "", "eq.u32 %p0, %r5, 7", True),
        ("%r0", SELECT, "gt.s32 %p0, %r3, -1", True),
        ("%r9", "", "gt.s32 %p0, %r5, 0", False),
        ("%r9", SELECT, "gt.s32 %p0, %r3, -1", False),
        ("%r0", "", "gt.s32 %p0, %r5, %r9", True),
        ("%r0", "", "gt.s32 %p0, %r5, %r4", True),
        ("%r0", SELECT, "gt.s32 %p0, %r3, %r9", False),
        ("%r0", "max.s32 %r3, %r3, %r5;", "gt.s32 %p0, %r3, -1", False),
        ("%r0", SELECT + "shfl.sync.idx.b32 %r3, %r3, 0, 31, -1;", "gt.s32 %p0, %r3, -1", False),
    ],
)
def test_data_of_each_thread_decides_what_it_is_compared_for_or_selects(
    index: str, use: str, compare: str, own: bool
) -> None:
    kernel = model(LOADS.format(index=index, use=use, compare=compare))
    last = next(i for i, each in enumerate(kernel.function.instructions) if each.flow and each.guard == 0)
    assert decided_by_own_data(kernel.values, kernel.values.before(0, last)) == own
